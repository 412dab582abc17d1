/* json_write.c -- see json_write.h. */
#include "base/json_write.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALID_DEPTH_MAX 256
#define NUMBER_MAX_BYTES 40

static void put(struct json_writer *w, const char *p, size_t len)
{
    if (w->out)
        io_out_add(w->out, p, len);
    else
        buf_add(w->buf, p, len);
}

/* Whether nothing has been written yet in the innermost open object or array. */
static bool *first(struct json_writer *w)
{
    assert(w->depth >= 1 && w->depth <= JSON_DEPTH_MAX);
    return &w->first[MIN(MAX(w->depth, 1), JSON_DEPTH_MAX) - 1];
}

/* What must stand before a value: nothing after a key, a comma after another element. */
static void separate(struct json_writer *w)
{
    if (w->after_key)
        w->after_key = false;
    else if (w->depth) {
        if (!*first(w))
            put(w, ",", 1);
        *first(w) = false;
    }
}

static void open_nest(struct json_writer *w, const char *bracket)
{
    separate(w);
    put(w, bracket, 1);
    w->depth++;
    *first(w) = true;
}

static void close_nest(struct json_writer *w, const char *bracket)
{
    assert(w->depth > 0 && !w->after_key);
    w->depth--;
    put(w, bracket, 1);
}

void json_object(struct json_writer *w)
{
    open_nest(w, "{");
}

void json_object_end(struct json_writer *w)
{
    close_nest(w, "}");
}

void json_array(struct json_writer *w)
{
    open_nest(w, "[");
}

void json_array_end(struct json_writer *w)
{
    close_nest(w, "]");
}

/* How many bytes from s on are plain: ASCII that stands for itself inside a JSON string. */
static size_t plain_run(const char *s, size_t len)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    size_t i = 0;

    for (; len - i >= 8; i += 8) {
        uint64_t v, quote, slash;

        memcpy(&v, s + i, 8);
        quote = v ^ ones * '"';
        slash = v ^ ones * '\\';
        /* The high bit of a byte is set if it is not plain, or, above such a byte, perhaps. */
        if ((v | (v - ones * 0x20) | (quote - ones) | (slash - ones)) & high)
            break;
    }
    for (; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
    }
    return i;
}

static void put_escaped(struct json_writer *w, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char named[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
    };
    char esc[6] = { '\\', 'u', '0', '0', hex[c >> 4 & 15], hex[c & 15] };

    if (c == '"' || c == '\\')
        esc[1] = (char)c;
    else if (named[c & 0x1f])
        esc[1] = named[c & 0x1f];
    put(w, esc, esc[1] == 'u' ? 6 : 2);
}

static void put_string(struct json_writer *w, const char *s, size_t len)
{
    put(w, "\"", 1);
    while (len) {
        size_t n = plain_run(s, len);
        uint32_t cp;

        if (n)
            put(w, s, n);
        else if ((unsigned char)*s < 0x80) {
            n = 1;
            put_escaped(w, (unsigned char)*s);
        } else {
            n = utf8_next(s, len, &cp);
            if (cp == UTF8_BAD)
                put(w, "\xef\xbf\xbd", 3);
            else
                put(w, s, n);
        }
        s += n;
        len -= n;
    }
    put(w, "\"", 1);
}

void json_key(struct json_writer *w, const char *key)
{
    assert(!w->after_key);
    separate(w);
    put_string(w, key, strlen(key));
    put(w, ":", 1);
    w->after_key = true;
}

void json_str(struct json_writer *w, const char *s, size_t len)
{
    separate(w);
    put_string(w, s, len);
}

void json_cstr(struct json_writer *w, const char *s)
{
    if (s)
        json_str(w, s, strlen(s));
    else
        json_null(w);
}

/* The digits of v, ending before end; their first. */
static char *digits_before(char *end, uint64_t v)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "68697071727374757677787980818283848586878889909192939495969798"
        "99";

    for (; v >= 100; v /= 100)
        memcpy(end -= 2, pairs + v % 100 * 2, 2);
    if (v >= 10)
        memcpy(end -= 2, pairs + v * 2, 2);
    else
        *--end = (char)('0' + v);
    return end;
}

void json_u64(struct json_writer *w, uint64_t v)
{
    char text[NUMBER_MAX_BYTES], *end = text + sizeof(text), *p = digits_before(end, v);

    separate(w);
    put(w, p, (size_t)(end - p));
}

void json_i64(struct json_writer *w, int64_t v)
{
    char text[NUMBER_MAX_BYTES], *end = text + sizeof(text);
    char *p = digits_before(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);

    if (v < 0)
        *--p = '-';
    separate(w);
    put(w, p, (size_t)(end - p));
}

/* v as a decimal of at most 15 digits with 3 or 6 places, which is what times in milli- or
 * microseconds are; false if it is not one. n / scale is rounded correctly, as strtod() does it,
 * and no two decimals of 15 digits read back as the same double, so this text is the shortest one.
 */
static bool put_decimal(struct json_writer *w, double v)
{
    static const struct {
        double scale;
        int places;
    } forms[] = { { 1e3, 3 }, { 1e6, 6 } };

    /* bounded: below 1e15, so 16 digits, a point and a sign, backwards from the end */
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        double n = rint(fabs(v) * forms[i].scale);
        char text[NUMBER_MAX_BYTES], *end = text + sizeof(text), *p = end;
        uint64_t u;
        int places = forms[i].places;

        if (!(n < 1e15))
            return false;
        if (n / forms[i].scale != fabs(v))
            continue;
        u = (uint64_t)n;
        for (; places && u % 10 == 0; u /= 10)
            places--;
        for (int left = places; left; left--, u /= 10)
            *--p = (char)('0' + u % 10);
        if (places)
            *--p = '.';
        p = digits_before(p, u);
        if (v < 0)
            *--p = '-';
        put(w, p, (size_t)(end - p));
        return true;
    }
    return false;
}

/* The C library writes the decimal point of the locale, which may be several bytes. */
static size_t point_to_dot(char *text)
{
    size_t n = 0;

    for (const char *p = text; *p; p++) {
        if (strchr("0123456789+-e", *p))
            text[n++] = *p;
        else if (!n || text[n - 1] != '.')
            text[n++] = '.';
    }
    text[n] = '\0';
    return n;
}

void json_f64(struct json_writer *w, double v)
{
    char text[NUMBER_MAX_BYTES];
    int digits = 15;

    if (!isfinite(v)) {
        json_null(w);
        return;
    }
    separate(w);
    if (v == 0 && signbit(v)) {
        put(w, "-0.0", 4);
        return;
    }
    if (put_decimal(w, v))
        return;
    do
        snprintf(text, sizeof(text), "%.*g", digits, v);
    while (strtod(text, NULL) != v && digits++ < 17);
    put(w, text, point_to_dot(text));
}

void json_bool(struct json_writer *w, bool v)
{
    separate(w);
    if (v)
        put(w, "true", 4);
    else
        put(w, "false", 5);
}

void json_null(struct json_writer *w)
{
    separate(w);
    put(w, "null", 4);
}

void json_raw(struct json_writer *w, const char *json, size_t len)
{
    separate(w);
    put(w, json, len);
}

void json_newline(struct json_writer *w)
{
    put(w, "\n", 1);
}

/* A position in the text being validated. Every step below moves p on and tells whether the
 * grammar allowed it. */
struct scan {
    const char *p;
    const char *end;
};

static void scan_space(struct scan *s)
{
    while (s->p != s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool scan_char(struct scan *s, char c)
{
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static bool scan_digits(struct scan *s)
{
    const char *from = s->p;

    while (s->p != s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p != from;
}

static bool scan_number(struct scan *s)
{
    scan_char(s, '-');
    if (!scan_char(s, '0') && !scan_digits(s))
        return false;
    if (scan_char(s, '.') && !scan_digits(s))
        return false;
    if (scan_char(s, 'e') || scan_char(s, 'E')) {
        if (!scan_char(s, '-'))
            scan_char(s, '+');
        return scan_digits(s);
    }
    return true;
}

static bool scan_escape(struct scan *s)
{
    if (s->p == s->end)
        return false;
    if (*s->p != 'u')
        return *s->p && strchr("\"\\/bfnrt", *s->p++) != NULL;
    s->p++;
    for (int i = 0; i < 4; i++, s->p++)
        if (s->p == s->end || !*s->p || !strchr("0123456789abcdefABCDEF", *s->p))
            return false;
    return true;
}

static bool scan_string(struct scan *s)
{
    if (!scan_char(s, '"'))
        return false;
    for (;;) {
        s->p += plain_run(s->p, (size_t)(s->end - s->p));
        if (s->p == s->end || (unsigned char)*s->p < 0x20)
            return false;
        switch (*s->p++) {
        case '"':
            return true;
        case '\\':
            if (!scan_escape(s))
                return false;
            break;
        default: /* a byte of UTF-8 */
            break;
        }
    }
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(s->end - s->p) < len || memcmp(s->p, word, len) != 0)
        return false;
    s->p += len;
    return true;
}

static bool scan_key(struct scan *s)
{
    scan_space(s);
    if (!scan_string(s))
        return false;
    scan_space(s);
    return scan_char(s, ':');
}

/* A value that holds no other, whose first byte is *s->p. */
static bool scan_scalar(struct scan *s)
{
    switch (*s->p) {
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        return scan_number(s);
    }
}

bool json_valid(const char *text, size_t len)
{
    struct scan s = { text, text + len };
    char close[VALID_DEPTH_MAX]; /* the bracket that ends each open object or array */
    size_t depth = 0;

    for (;;) {
        scan_space(&s);
        if (s.p == s.end)
            return false;
        if (*s.p == '{' || *s.p == '[') {
            if (depth == VALID_DEPTH_MAX)
                return false;
            close[depth++] = *s.p++ == '{' ? '}' : ']'; /* bounded: refused above */
            scan_space(&s);
            if (!scan_char(&s, close[depth - 1])) {
                if (close[depth - 1] == '}' && !scan_key(&s))
                    return false;
                continue; /* with the first element */
            }
            depth--;
        } else if (!scan_scalar(&s))
            return false;
        /* A value has ended; so may what it stands in. */
        for (scan_space(&s); depth && scan_char(&s, close[depth - 1]); scan_space(&s))
            depth--;
        if (!depth)
            return s.p == s.end;
        if (!scan_char(&s, ',') || (close[depth - 1] == '}' && !scan_key(&s)))
            return false;
    }
}
