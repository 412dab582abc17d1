/* event_repair.c -- see event_repair.h. */
#include "import/json/event_repair.h"

#include "base/capped.h"
#include "base/utf8.h"

#include <string.h>

/* A string that has lost its quote swallows the events behind it. With so many of them in it an
 * event is beyond repair; without a limit each of them would be looked through again from the next
 * one on, and the time for a file would grow with the square of its length. */
#define SWALLOWED_MAX 16

struct repair {
    const char *start, *p, *end;
    struct buf *out;
    unsigned dirt;
    unsigned swallowed; /* beginnings of events within strings */
};

static const char *skip_blank(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

static int hex4(const char *p)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        int c = p[i] | 0x20;

        if (p[i] >= '0' && p[i] <= '9')
            v = v << 4 | (p[i] - '0');
        else if (c >= 'a' && c <= 'f')
            v = v << 4 | (c - 'a' + 10);
        else
            return -1;
    }
    return v;
}

/* Length of the escape at p (a backslash), 0 if it is none; a lone surrogate sets the bit. */
static size_t escape_len(const char *p, const char *end, unsigned *dirt)
{
    int v;

    if (end - p < 2)
        return 0;
    if (p[1] && strchr("\"\\/bfnrt", p[1]))
        return 2;
    if (p[1] != 'u' || end - p < 6)
        return 0;
    v = hex4(p + 2);
    if (v < 0)
        return 0;
    if (v < 0xd800 || v > 0xdfff)
        return 6;
    if (v < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u') {
        int low = hex4(p + 8);

        if (low >= 0xdc00 && low <= 0xdfff)
            return 12;
    }
    *dirt |= DIRT_SURROGATE;
    return 6;
}

unsigned event_text_dirt(const char *p, size_t len)
{
    const char *end = p + len;
    unsigned dirt = 0;

    while (p < end) {
        uint32_t cp;

        if (*p == '\\') {
            size_t n = escape_len(p, end, &dirt);

            if (!n)
                dirt |= DIRT_ESCAPE;
            p += n ? n : 1;
        } else if ((unsigned char)*p < 0x80) {
            p++;
        } else {
            p += utf8_next(p, (size_t)(end - p), &cp);
            if (cp == UTF8_BAD)
                dirt |= DIRT_UTF8;
        }
    }
    return dirt;
}

/* Keys with which an event may begin. */
static bool event_key(const char *p, const char *end)
{
    static const char *const keys[] = { "ph\"",  "name\"", "cat\"", "pid\"",
                                        "tid\"", "ts\"",   "id\"",  "dur\"" };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        size_t n = strlen(keys[i]);

        if ((size_t)(end - p) >= n && memcmp(p, keys[i], n) == 0)
            return true;
    }
    return false;
}

/* Does the brace at p begin an event, as far as its first key tells? As a value it would be the
 * args of one. */
static bool opens_event(const char *p, const char *start, const char *end)
{
    const char *q = skip_blank(p + 1, end);

    if (q >= end || *q != '"' || !event_key(q + 1, end))
        return false;
    while (p > start && is_blank(p[-1]))
        p--;
    return p == start || p[-1] != ':';
}

/* Does a member `"key":` begin at p? */
static bool member_at(const char *p, const char *end)
{
    if (*p != '"')
        return false;
    for (p++; p < end && *p != '"' && *p != '\n'; p++)
        if (*p == '\\')
            p++;
    if (p >= end || *p != '"')
        return false;
    p = skip_blank(p + 1, end);
    return p < end && *p == ':';
}

/* Can the quote at p end a string? */
static bool ends_string(const char *p, const char *end, bool is_key, bool in_object)
{
    p = skip_blank(p + 1, end);
    if (p >= end)
        return true;
    if (is_key)
        return *p == ':';
    if (!in_object)
        return *p == ']' || *p == ',';
    if (*p == '}')
        return true;
    if (*p != ',')
        return member_at(p, end); /* a comma is missing */
    p = skip_blank(p + 1, end);
    return p >= end || *p == '}' || member_at(p, end);
}

/* A byte of a string that is no part of anything longer. */
static void put_ascii(struct repair *r)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char c = (unsigned char)*r->p++;

    if (c < 0x20) {
        r->dirt |= DIRT_CONTROL;
        buf_add(r->out, (char[]){ '\\', 'u', '0', '0', (char)('0' + (c >> 4)), hex[c & 15] }, 6);
    } else {
        buf_addc(r->out, (char)c);
    }
}

/* A string, its opening quote at r->p. */
static enum scan_result put_string(struct repair *r, bool is_key, bool in_object)
{
    buf_addc(r->out, '"');
    for (r->p++; r->p < r->end;) {
        unsigned char c = (unsigned char)*r->p;
        uint32_t cp;
        size_t n;

        if (c == '"') {
            if (ends_string(r->p, r->end, is_key, in_object)) {
                buf_addc(r->out, '"');
                r->p++;
                return SCAN_OK;
            }
            r->dirt |= DIRT_QUOTE;
            buf_adds(r->out, "\\\"");
            r->p++;
        } else if (c == '\\') {
            unsigned lone = 0;

            n = escape_len(r->p, r->end, &lone);
            r->dirt |= lone;
            if (lone) {
                buf_adds(r->out, "\\ufffd");
            } else if (n) {
                buf_add(r->out, r->p, n);
            } else {
                r->dirt |= DIRT_ESCAPE;
                buf_adds(r->out, "\\\\");
                n = 1;
            }
            r->p += n;
        } else if (c == '\n') {
            const char *behind = skip_blank(r->p, r->end - 1);

            if (*behind == '{')
                return SCAN_BAD; /* the next event: this string has lost its end */
            do                   /* all of them, so that they are looked at once */
                put_ascii(r);
            while (r->p < behind);
        } else if (c == '{' && opens_event(r->p, r->start, r->end) &&
                   r->swallowed++ == SWALLOWED_MAX) {
            return SCAN_BAD;
        } else if (c < 0x80) {
            put_ascii(r);
        } else {
            n = utf8_next(r->p, (size_t)(r->end - r->p), &cp);
            if (cp == UTF8_BAD) {
                r->dirt |= DIRT_UTF8;
                buf_adds(r->out, "\xef\xbf\xbd");
            } else {
                buf_add(r->out, r->p, n);
            }
            r->p += n;
        }
    }
    return SCAN_MORE;
}

static bool ends_bare(char c)
{
    return is_blank(c) || c == ',' || c == '}' || c == ']' || c == ':' || c == '"' || c == '{' ||
           c == '[';
}

/* JSON's own grammar of numbers. */
static bool is_number(const char *p, size_t len)
{
    const char *end = p + len;

    p += p < end && *p == '-';
    if (p == end || *p < '0' || *p > '9')
        return false;
    if (*p == '0')
        p++;
    else
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    if (p < end && *p == '.') {
        if (++p == end || *p < '0' || *p > '9')
            return false;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        p += p < end && (*p == '-' || *p == '+');
        if (p == end)
            return false;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    }
    return p == end;
}

static bool is_word(const char *p, size_t len, const char *word)
{
    if (len != strlen(word))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((p[i] | 0x20) != word[i])
            return false;
    return true;
}

/* Digits that JSON would not have: +5, 007, .5, 5. */
static bool put_odd_number(struct repair *r, const char *p, size_t len)
{
    char text[64];
    struct capped fixed = capped_of(text, sizeof(text));
    size_t i = 0;

    if (p[0] == '+' || p[0] == '-') {
        if (p[0] == '-')
            capped_addc(&fixed, '-');
        i++;
    }
    while (i + 1 < len && p[i] == '0' && p[i + 1] >= '0' && p[i + 1] <= '9')
        i++;
    if (i < len && p[i] == '.')
        capped_addc(&fixed, '0');
    for (; i < len && !fixed.full; i++) {
        capped_addc(&fixed, p[i]);
        if (p[i] == '.' && (i + 1 == len || p[i + 1] < '0' || p[i + 1] > '9'))
            capped_addc(&fixed, '0');
    }
    if (fixed.full || !is_number(text, fixed.len))
        return false;
    buf_add(r->out, text, fixed.len);
    r->dirt |= DIRT_NUMBER;
    return true;
}

static enum scan_result put_bare(struct repair *r)
{
    static const char *const nans[] = { "nan", "infinity", "inf", "none", "undefined" };
    const char *p = r->p;
    size_t len, sign;

    while (r->p < r->end && !ends_bare(*r->p))
        r->p++;
    len = (size_t)(r->p - p);
    if (len == 0)
        return SCAN_BAD;
    if (is_number(p, len) || (len == 4 && memcmp(p, "true", 4) == 0) ||
        (len == 5 && memcmp(p, "false", 5) == 0) || (len == 4 && memcmp(p, "null", 4) == 0)) {
        buf_add(r->out, p, len);
        return SCAN_OK;
    }
    sign = p[0] == '-' || p[0] == '+';
    for (size_t i = 0; i < ARRAY_SIZE(nans); i++) {
        if (is_word(p + sign, len - sign, nans[i])) {
            r->dirt |= DIRT_NAN;
            buf_adds(r->out, "null");
            return SCAN_OK;
        }
    }
    return put_odd_number(r, p, len) ? SCAN_OK : SCAN_BAD;
}

enum scan_result event_repair(const char *p, const char *end, struct buf *out, const char **next,
                              unsigned *dirt)
{
    struct repair r = { .start = p, .p = p, .end = end, .out = out };
    uint64_t object = 0;
    unsigned depth = 0;
    bool first = true; /* nothing yet in this container */
    enum scan_result rc = SCAN_OK;

    do {
        char c;
        bool comma = false;

        r.p = skip_blank(r.p, end);
        for (; r.p < end && *r.p == ','; r.p = skip_blank(r.p + 1, end)) {
            if (comma || first)
                r.dirt |= DIRT_COMMA;
            comma = true;
        }
        if (r.p >= end)
            return SCAN_MORE;
        c = *r.p;
        if (depth && (c == '}' || c == ']')) {
            if (c != (object & 1 ? '}' : ']'))
                return SCAN_BAD;
            if (comma && !first)
                r.dirt |= DIRT_COMMA;
            buf_addc(out, c);
            r.p++;
            depth--;
            object >>= 1;
            first = false;
            continue;
        }
        if (depth && !first) {
            if (!comma)
                r.dirt |= DIRT_NO_COMMA;
            buf_addc(out, ',');
        }
        first = false;
        if (depth && object & 1) {
            if (c != '"')
                return SCAN_BAD;
            rc = put_string(&r, true, true);
            r.p = skip_blank(r.p, end);
            if (rc != SCAN_OK || r.p >= end)
                return rc == SCAN_BAD ? SCAN_BAD : SCAN_MORE;
            if (*r.p != ':')
                return SCAN_BAD;
            buf_addc(out, ':');
            r.p = skip_blank(r.p + 1, end);
            if (r.p >= end)
                return SCAN_MORE;
            c = *r.p;
        }
        if (c == '{' || c == '[') {
            if (depth == EVENT_DEPTH_MAX)
                return SCAN_BAD;
            object = object << 1 | (c == '{');
            depth++;
            first = true;
            buf_addc(out, c);
            r.p++;
        } else if (c == '"') {
            rc = put_string(&r, false, object & 1);
        } else {
            rc = put_bare(&r);
        }
    } while (rc == SCAN_OK && depth);
    *next = r.p;
    *dirt = r.dirt;
    return rc;
}

const char *event_resync(const char *p, const char *end)
{
    const char *start = p;

    for (; p < end; p++) {
        p = memchr(p, '{', (size_t)(end - p));
        if (!p)
            return end;
        if (opens_event(p, start, end))
            return p;
    }
    return end;
}
