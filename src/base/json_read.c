/* json_read.c -- see json_read.h. */
#include "base/json_read.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct json_reader json_read_of(const void *p, size_t len)
{
    const char *s = len ? p : "";

    return (struct json_reader){ .start = s, .at = s, .end = s + len };
}

static void skip_space(struct json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static bool in_object(const struct json_reader *r)
{
    return r->depth && ((r->object[(r->depth - 1) / 64] >> ((r->depth - 1) % 64)) & 1);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool escape_valid(const struct json_reader *r, const char *p, size_t *len)
{
    *len = 2;
    if (r->end - p < 2)
        return false;
    if (p[1] != 'u')
        return p[1] != '\0' && strchr("\"\\/bfnrt", p[1]);
    *len = 6;
    return r->end - p >= 6 && is_hex(p[2]) && is_hex(p[3]) && is_hex(p[4]) && is_hex(p[5]);
}

/* r->at stands on the opening quote. */
static bool take_string(struct json_reader *r)
{
    const char *p = r->at + 1;

    r->text = p;
    r->escaped = false;
    for (; p < r->end && *p != '"'; p++) {
        size_t len;

        if ((unsigned char)*p < 0x20)
            return false;
        if (*p != '\\')
            continue;
        if (!escape_valid(r, p, &len))
            return false;
        r->escaped = true;
        p += len - 1;
    }
    if (p == r->end)
        return false;
    r->len = (size_t)(p - r->text);
    r->at = p + 1;
    return true;
}

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

static bool take_number(struct json_reader *r)
{
    const char *p = r->at, *q;

    if (p < r->end && *p == '-')
        p++;
    q = digits(p, r->end);
    if (q == p || (*p == '0' && q > p + 1))
        return false;
    if (q < r->end && *q == '.') {
        p = q + 1;
        q = digits(p, r->end);
        if (q == p)
            return false;
    }
    if (q < r->end && (*q == 'e' || *q == 'E')) {
        p = q + 1;
        if (p < r->end && (*p == '+' || *p == '-'))
            p++;
        q = digits(p, r->end);
        if (q == p)
            return false;
    }
    r->text = r->at;
    r->len = (size_t)(q - r->at);
    r->escaped = false;
    r->at = q;
    return true;
}

static bool take_word(struct json_reader *r, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static enum json_token open_level(struct json_reader *r, enum json_token token)
{
    uint64_t bit;

    if (r->depth == JSON_READ_DEPTH_MAX)
        return JSON_BAD;
    bit = (uint64_t)1 << (r->depth % 64);
    if (token == JSON_OBJECT)
        r->object[r->depth / 64] |= bit;
    else
        r->object[r->depth / 64] &= ~bit;
    r->depth++;
    r->at++;
    return token;
}

static enum json_token take_value(struct json_reader *r)
{
    switch (r->at < r->end ? *r->at : '\0') {
    case '{':
        return open_level(r, JSON_OBJECT);
    case '[':
        return open_level(r, JSON_ARRAY);
    case '"':
        return take_string(r) ? JSON_STRING : JSON_BAD;
    case 't':
        return take_word(r, "true") ? JSON_TRUE : JSON_BAD;
    case 'f':
        return take_word(r, "false") ? JSON_FALSE : JSON_BAD;
    case 'n':
        return take_word(r, "null") ? JSON_NULL : JSON_BAD;
    default:
        return take_number(r) ? JSON_NUMBER : JSON_BAD;
    }
}

static enum json_token take_key(struct json_reader *r)
{
    const char *text;
    size_t len;

    if (r->at == r->end || *r->at != '"' || !take_string(r))
        return JSON_BAD;
    text = r->text;
    len = r->len;
    skip_space(r);
    if (r->at == r->end || *r->at != ':')
        return JSON_BAD;
    r->at++;
    r->text = text;
    r->len = len;
    return JSON_KEY;
}

/* What may follow a complete value. */
static enum json_token after_value(struct json_reader *r)
{
    bool object = in_object(r);

    if (r->depth == 0)
        return r->at == r->end ? JSON_DONE : JSON_BAD;
    if (r->at == r->end)
        return JSON_BAD;
    if (*r->at == (object ? '}' : ']')) {
        r->at++;
        r->depth--;
        return object ? JSON_OBJECT_END : JSON_ARRAY_END;
    }
    if (*r->at != ',')
        return JSON_BAD;
    r->at++;
    skip_space(r);
    return object ? take_key(r) : take_value(r);
}

enum json_token json_read_next(struct json_reader *r)
{
    enum json_token before = r->token;

    if (r->begun && (before == JSON_BAD || before == JSON_DONE))
        return before;
    r->len = 0; /* of what has no text */
    r->escaped = false;
    skip_space(r);
    if (!r->begun || before == JSON_KEY)
        r->token = take_value(r);
    else if (before == JSON_OBJECT && r->at < r->end && *r->at != '}')
        r->token = take_key(r);
    else if (before == JSON_ARRAY && r->at < r->end && *r->at != ']')
        r->token = take_value(r);
    else
        r->token = after_value(r);
    r->begun = true;
    return r->token;
}

bool json_read_skip(struct json_reader *r)
{
    int depth;

    if (r->token == JSON_KEY)
        json_read_next(r);
    if (r->token == JSON_OBJECT || r->token == JSON_ARRAY)
        for (depth = r->depth - 1; r->token != JSON_BAD && r->depth > depth;)
            json_read_next(r);
    return r->token != JSON_BAD;
}

static unsigned hex4(const char *p)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++)
        v = v * 16 + (unsigned)(p[i] <= '9' ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
    return v;
}

/* One escape at p, which take_string() has checked: its bytes to out, *used the bytes it took. */
static size_t unescape(const char *p, const char *end, char out[4], size_t *used)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    unsigned c;

    *used = 2;
    if (p[1] != 'u') {
        out[0] = to[strchr(from, p[1]) - from];
        return 1;
    }
    *used = 6;
    c = hex4(p + 2);
    if (c >= 0xd800 && c < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u') {
        unsigned low = hex4(p + 8);

        if (low >= 0xdc00 && low < 0xe000) {
            *used = 12;
            return utf8_put(0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00), out);
        }
    }
    return utf8_put(c >= 0xd800 && c < 0xe000 ? 0xfffd : c, out);
}

bool json_read_is_unescaped(const struct json_reader *r, const char *s)
{
    const char *p = r->text, *end = p + r->len;
    size_t n = strlen(s);

    while (p < end) {
        char c[4] = { *p };
        size_t used = 1, len = *p == '\\' ? unescape(p, end, c, &used) : 1;

        if (len > n || memcmp(c, s, len) != 0)
            return false;
        s += len;
        n -= len;
        p += used;
    }
    return n == 0;
}

void json_read_text(const struct json_reader *r, struct buf *out)
{
    const char *p = r->text, *end = p + r->len;

    if (!r->escaped) {
        buf_add(out, p, r->len);
        return;
    }
    while (p < end) {
        char c[4] = { *p };
        size_t used = 1, len = *p == '\\' ? unescape(p, end, c, &used) : 1;

        buf_add(out, c, len);
        p += used;
    }
}

/* Numbers are short; a longer one is none that a caller wants. */
#define NUMBER_ROOM 64

static bool number_text(const struct json_reader *r, char room[NUMBER_ROOM])
{
    if ((r->token != JSON_NUMBER && r->token != JSON_STRING) || r->escaped || !r->len ||
        r->len >= NUMBER_ROOM || !strchr("-0123456789", r->text[0]))
        return false;
    memcpy(room, r->text, r->len);
    room[r->len] = '\0';
    return strlen(room) == r->len && !strchr(room, 'x') && !strchr(room, 'X');
}

bool json_read_int(const struct json_reader *r, int64_t *out)
{
    char room[NUMBER_ROOM], *end;
    long long v;

    if (!number_text(r, room))
        return false;
    errno = 0;
    v = strtoll(room, &end, 10);
    if (*end || end == room || errno)
        return false;
    *out = v;
    return true;
}

bool json_read_real(const struct json_reader *r, double *out)
{
    char room[NUMBER_ROOM], *end;
    double v;

    if (!number_text(r, room))
        return false;
    v = strtod(room, &end);
    if (*end || end == room || !isfinite(v))
        return false;
    *out = v;
    return true;
}
