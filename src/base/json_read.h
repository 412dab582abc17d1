/* json_read.h -- read small and middling JSON as a sequence of tokens, in place.
 *
 *     struct json_reader r = json_read_of(text, len);
 *     while (json_read_next(&r) == JSON_KEY) ...
 *
 * Strict grammar, nothing allocated, no recursion, nesting limited to JSON_READ_DEPTH_MAX. The
 * bytes must outlive the reader. After the first mistake every call gives JSON_BAD and .at says
 * where it is; so a reader may ask for what it expects and check once. UTF-8 is not checked. */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include "base/buf.h"

#include <string.h>

#define JSON_READ_DEPTH_MAX 128

enum json_token {
    JSON_BAD,  /* not JSON, or nested too deeply */
    JSON_DONE, /* the value is complete and nothing follows it */
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY, /* its value comes next */
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
};

struct json_reader {
    const char *start, *at, *end;
    enum json_token token; /* the last one */
    const char *text;      /* JSON_KEY, JSON_STRING: between the quotes, escapes as they stand; */
    size_t len;            /* JSON_NUMBER: its digits */
    bool escaped;          /* text holds a backslash */
    bool begun;
    int depth;
    uint64_t object[JSON_READ_DEPTH_MAX / 64]; /* bit per level: an object, not an array */
};

struct json_reader json_read_of(const void *p, size_t len);
enum json_token json_read_next(struct json_reader *r);
/* Pass over the value whose first token was just read (or whose key was). False: JSON_BAD. */
bool json_read_skip(struct json_reader *r);

/* True if the key or string just read is exactly s, escapes resolved. */
bool json_read_is_unescaped(const struct json_reader *r, const char *s);
static inline bool json_read_is(const struct json_reader *r, const char *s)
{
    size_t n = strlen(s); /* of a literal, nothing is left of this */

    if (UNLIKELY(r->escaped))
        return json_read_is_unescaped(r, s);
    return r->len == n && memcmp(r->text, s, n) == 0;
}
/* Append the key or string just read, escapes resolved (lone surrogates become U+FFFD). */
void json_read_text(const struct json_reader *r, struct buf *out);
/* The number just read, also one that stands in a string as many writers have it. False: it is no
 * number, or (int) no integer that fits; *out is untouched then. */
bool json_read_int(const struct json_reader *r, int64_t *out);
bool json_read_real(const struct json_reader *r, double *out);

#endif
