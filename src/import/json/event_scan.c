/* event_scan.c -- see event_scan.h. */
#include "import/json/event_scan.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define TIME_MAX ((uint64_t)1 << 62)

static const uint64_t pow10_u64[] = { 1,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      10000000000,
                                      100000000000,
                                      1000000000000,
                                      10000000000000,
                                      100000000000000,
                                      1000000000000000,
                                      10000000000000000,
                                      100000000000000000,
                                      1000000000000000000,
                                      10000000000000000000u };

static inline uint64_t load64(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Eight digits, the first in the lowest byte, each as 0 to 9. */
static inline uint64_t eight_digits(uint64_t d)
{
    d = d * 10 + (d >> 8);
    return ((d & 0x000000ff000000ffu) * 0x000f424000000064u +
            (d >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u) >>
           32;
}

/* Leading digits of p, at most 19 of them, into *v and *n; returns where they end. Of more than 19
 * *n is 20, *v nonsense and the end not found. */
static inline const char *digits(const char *p, uint64_t *v, unsigned *n)
{
    uint64_t x = 0;

    *n = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t d = load64(p);
        uint64_t other =
            ((d + 0x4646464646464646u) | (d - 0x3030303030303030u)) & 0x8080808080808080u;
        unsigned k = other ? (unsigned)__builtin_ctzll(other) / 8 : 8;

        d -= 0x3030303030303030u;
        if (k < 8) {
            if (k) {
                x = x * pow10_u64[k] + eight_digits(d << (64 - 8 * k));
                *n += k;
                p += k;
            }
            break;
        }
        x = x * 100000000 + eight_digits(d);
        p += 8;
        *n += 8;
    }
    if (*n > 19)
        *n = 20;
    *v = x;
    return p;
}

/* Any number of JSON, exponent or not, digit by digit. */
static const char *time_slowly(const char *p, int64_t *ns)
{
    const char *start = p;
    __extension__ unsigned __int128 m = 0;
    bool negative = *p == '-', point = false;
    int exp = 3, e = 0; /* of the digits in m, in ns */
    unsigned rest = 0;  /* first digit cut off */

    p += negative;
    if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9'))
        return NULL;
    for (;; p++) {
        if (*p == '.' && !point) {
            point = true;
            if (p[1] < '0' || p[1] > '9')
                return NULL;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        if (m < (__extension__(unsigned __int128) 1 << 110))
            m = m * 10 + (unsigned)(*p - '0');
        else
            exp++;
        exp -= point;
    }
    if (*p == 'e' || *p == 'E') {
        bool down = p[1] == '-';

        p += p[1] == '-' || p[1] == '+' ? 2 : 1;
        if (*p < '0' || *p > '9')
            return NULL;
        for (; *p >= '0' && *p <= '9'; p++)
            e = MIN(e * 10 + (*p - '0'), 10000);
        exp += down ? -e : e;
    }
    for (; exp > 0 && m && m < TIME_MAX; exp--)
        m *= 10;
    for (; exp < 0 && m; exp++) {
        rest = (unsigned)(m % 10);
        m /= 10;
    }
    if (rest >= 5 && exp == 0)
        m++;
    if (m > TIME_MAX || (exp > 0 && m) || p - start > EVENT_HOLE_BYTES)
        return NULL;
    *ns = negative ? -(int64_t)m : (int64_t)m;
    return p;
}

const char *scan_time(const char *p, int64_t *ns)
{
    const char *start = p;
    uint64_t whole, part = 0;
    unsigned n, k = 0;
    bool negative = *p == '-';

    p = digits(p + negative, &whole, &n);
    if (UNLIKELY(!n || n > 15 || (n > 1 && start[negative] == '0')))
        return time_slowly(start, ns);
    if (*p == '.') {
        p = digits(p + 1, &part, &k);
        if (UNLIKELY(!k || k > 18))
            return time_slowly(start, ns);
    }
    if (UNLIKELY((*p | 0x20) == 'e'))
        return time_slowly(start, ns);
    if (k <= 3)
        part *= pow10_u64[3 - k];
    else
        part = (part + pow10_u64[k - 3] / 2) / pow10_u64[k - 3];
    whole = whole * 1000 + part;
    *ns = negative ? -(int64_t)whole : (int64_t)whole;
    return p;
}

/* A number that cannot go on after p: so "12" is not read out of "12.5" or "12e3". */
static inline bool ends_number(const char *p)
{
    return *p != '.' && (*p | 0x20) != 'e' && (*p < '0' || *p > '9');
}

const char *scan_int(const char *p, int64_t *value)
{
    bool negative = *p == '-';
    uint64_t v;
    unsigned n;
    const char *first = p + negative;

    p = digits(first, &v, &n);
    if (!n || n > 18 || (*first == '0' && (n > 1 || negative)) || !ends_number(p))
        return NULL;
    *value = negative ? -(int64_t)v : (int64_t)v;
    return p;
}

const char *scan_decimal(const char *p, int64_t value[2])
{
    bool negative = *p == '-';
    const char *first = p + negative;
    uint64_t whole, part;
    unsigned n, k;

    p = digits(first, &whole, &n);
    if (!n || (*first == '0' && n > 1) || *p != '.')
        return NULL;
    p = digits(p + 1, &part, &k);
    if (!k || n + k > 18 || !ends_number(p))
        return NULL;
    part += whole * pow10_u64[k];
    if (negative && !part)
        return NULL;
    value[0] = negative ? -(int64_t)part : (int64_t)part;
    value[1] = k;
    return p;
}

const char *scan_hex(const char *p, int64_t *value)
{
    uint64_t v = 0;
    unsigned n = 0;

    if (p[0] != '0' || p[1] != 'x')
        return NULL;
    for (p += 2;; p++, n++) {
        unsigned c = (unsigned char)*p, d;

        if (c - '0' < 10)
            d = c - '0';
        else if (c - 'a' < 6)
            d = c - 'a' + 10;
        else
            break;
        if (n == 16 || (n == 1 && v == 0))
            return NULL;
        v = v << 4 | d;
    }
    *value = (int64_t)v;
    return n ? p : NULL;
}

/* First quote, backslash or control byte from p on; may be beyond end. */
static inline const char *string_stop(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'),
                  space = _mm_set1_epi8(0x1f);

    for (; p < end; p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
                                   _mm_cmpeq_epi8(_mm_min_epu8(x, space), x));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);

        if (mask)
            return p + __builtin_ctz(mask);
    }
    return p;
#else
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
        p++;
    return p;
#endif
}

/* The closing quote of a string whose first character is at p; NULL: beyond end. */
static inline const char *string_end(const char *p, const char *end, unsigned *dirt)
{
    for (;;) {
        p = string_stop(p, end);
        if (p >= end)
            return NULL;
        if (*p == '"')
            return p;
        if (*p == '\\')
            p++;
        else
            *dirt |= DIRT_CONTROL;
        p++;
    }
}

static inline const char *skip_blank(const char *p)
{
    while (is_blank(*p))
        p++;
    return p;
}

/* How the number behind a key is taken. */
enum mode {
    MODE_LITERAL,
    MODE_TIME,
    MODE_VALUE,      /* number */
    MODE_VALUE_TEXT, /* ditto, and one in quotes */
};

/* Of a key of the event itself. */
static enum mode key_mode(const char *key, size_t len)
{
    switch (len) {
    case 2:
        if (key[0] == 't' && key[1] == 's')
            return MODE_TIME;
        return key[0] == 'i' && key[1] == 'd' ? MODE_VALUE_TEXT : MODE_VALUE;
    case 3:
        if (memcmp(key, "dur", 3) == 0)
            return MODE_TIME;
        return memcmp(key, "pid", 3) == 0 || memcmp(key, "tid", 3) == 0 ? MODE_LITERAL : MODE_VALUE;
    case 7:
        return memcmp(key, "bind_id", 7) == 0 ? MODE_VALUE_TEXT : MODE_VALUE;
    default:
        return MODE_VALUE;
    }
}

/* Take the number at p as a hole; NULL: it is none. *at is the offset of p in the event. */
static const char *take_hole(struct event_scan *s, enum mode mode, size_t at, const char *p)
{
    int64_t *v = &s->value[s->nvalue];
    const char *e;
    enum hole_type type;
    unsigned n = 1;

    if (s->nhole == EVENT_HOLES_MAX || at > UINT32_MAX)
        return NULL;
    if (mode == MODE_TIME) {
        type = HOLE_TIME;
        e = scan_time(p, v);
    } else {
        type = HOLE_INT;
        e = scan_int(p, v);
        if (!e) {
            type = HOLE_DECIMAL;
            n = 2;
            e = scan_decimal(p, v);
        }
        if (!e) {
            type = HOLE_HEX;
            n = 1;
            e = scan_hex(p, v);
        }
    }
    if (!e || e - p > UINT16_MAX)
        return NULL;
    s->hole[s->nhole++] = (struct hole){ (uint32_t)at, (uint16_t)(e - p), (uint8_t)type };
    s->nvalue += n;
    return e;
}

/* The hole of a number in quotes, which must fill them. */
static void take_quoted(struct event_scan *s, enum mode mode, size_t at, const char *p,
                        const char *quote)
{
    unsigned nvalue = s->nvalue;
    const char *e;

    if (p == quote || (*p != '-' && (*p < '0' || *p > '9')))
        return;
    e = take_hole(s, mode, at, p);
    if (e && e != quote) {
        s->nhole--;
        s->nvalue = nvalue;
    }
}

static const char *take_word(const char *p, const char *end)
{
    while (p < end && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')))
        p++;
    return p;
}

/* A number, true, false, null, or one of the words for what is no number. NULL: nothing of that. */
static const char *take_bare(struct event_scan *s, const char *p, const char *end)
{
    const char *start = p;
    static const char *const words[] = { "true", "false", "null" };
    static const char *const nans[] = { "NaN", "Infinity", "-Infinity", "nan", "-nan",
                                        "inf", "-inf",     "Inf",       "-Inf" };
    size_t len;

    if (*p == '-' || (*p >= '0' && *p <= '9')) {
        p += *p == '-';
        if (*p >= '0' && *p <= '9') {
            if (*p == '0' && p[1] >= '0' && p[1] <= '9')
                return NULL;
            while (*p >= '0' && *p <= '9')
                p++;
            if (*p == '.') {
                if (p[1] < '0' || p[1] > '9')
                    return NULL;
                for (p++; *p >= '0' && *p <= '9';)
                    p++;
            }
            if ((*p | 0x20) == 'e') {
                p += p[1] == '-' || p[1] == '+' ? 2 : 1;
                if (*p < '0' || *p > '9')
                    return NULL;
                while (*p >= '0' && *p <= '9')
                    p++;
            }
            return p;
        }
    }
    p = take_word(p, end);
    len = (size_t)(p - start);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (len == strlen(words[i]) && memcmp(start, words[i], len) == 0)
            return p;
    for (size_t i = 0; i < ARRAY_SIZE(nans); i++)
        if (len == strlen(nans[i]) && memcmp(start, nans[i], len) == 0) {
            s->dirt |= DIRT_NAN;
            return p;
        }
    return NULL;
}

enum scan_result event_scan(struct event_scan *s, const char *p, const char *end)
{
    const char *start = p, *q, *e;
    uint64_t object = 0; /* bit per level */
    unsigned depth = 0;
    enum mode mode = MODE_LITERAL;

    s->nhole = s->nvalue = s->dirt = 0;
value:
    p = skip_blank(p);
    if (p >= end)
        return SCAN_MORE;
    switch (*p) {
    case '{':
    case '[':
        if (depth == EVENT_DEPTH_MAX)
            return SCAN_BAD;
        object = object << 1 | (*p == '{');
        depth++;
        p = skip_blank(p + 1);
        if (*p == (object & 1 ? '}' : ']'))
            goto close;
        if (object & 1)
            goto key;
        mode = MODE_LITERAL;
        goto value;
    case '"':
        q = string_end(p + 1, end, &s->dirt);
        if (!q)
            return SCAN_MORE;
        if (mode == MODE_TIME || mode == MODE_VALUE_TEXT)
            take_quoted(s, mode, (size_t)(p + 1 - start), p + 1, q);
        p = q + 1;
        break;
    default:
        q = mode == MODE_LITERAL ? NULL : take_hole(s, mode, (size_t)(p - start), p);
        if (!q)
            q = take_bare(s, p, end);
        if (!q)
            return p + 24 >= end ? SCAN_MORE : SCAN_BAD;
        p = q;
        break;
    }
after:
    p = skip_blank(p);
    if (p >= end)
        return SCAN_MORE;
    if (*p == ',') {
        p = skip_blank(p + 1);
        if (p >= end)
            return SCAN_MORE;
        if (*p == '}' || *p == ']')
            s->dirt |= DIRT_COMMA;
        else if (object & 1)
            goto key;
        else
            goto value;
    }
    if (*p != (object & 1 ? '}' : ']'))
        return SCAN_BAD;
close:
    if (p >= end)
        return SCAN_MORE;
    p++;
    object >>= 1;
    if (--depth)
        goto after;
    s->end = p;
    return SCAN_OK;
key:
    p = skip_blank(p);
    if (p >= end)
        return SCAN_MORE;
    if (*p != '"')
        return SCAN_BAD;
    q = string_end(p + 1, end, &s->dirt);
    if (!q)
        return SCAN_MORE;
    e = skip_blank(q + 1);
    if (e >= end)
        return SCAN_MORE;
    if (*e != ':')
        return SCAN_BAD;
    mode = depth == 1 ? key_mode(p + 1, (size_t)(q - p - 1)) : MODE_VALUE_TEXT;
    p = e + 1;
    goto value;
}

const char *scan_skip(const char *p, const char *end)
{
    unsigned depth = 0, dirt = 0;

    do {
        p = skip_blank(p);
        if (p >= end)
            return NULL;
        if (*p == '"') {
            p = string_end(p + 1, end, &dirt);
            if (!p)
                return NULL;
            p++;
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (*p == '}' || *p == ']') {
            if (!depth)
                return p;
            depth--;
            p++;
        } else if (*p == ',' || *p == ':') {
            if (!depth)
                return p;
            p++;
        } else {
            while (p < end && !is_blank(*p) && *p != ',' && *p != '}' && *p != ']' && *p != '"' &&
                   *p != '{' && *p != '[' && *p != ':')
                p++;
            if (p >= end && !depth)
                return NULL;
        }
    } while (depth);
    return p;
}
