/* json_write.h -- write strictly valid JSON to an io_out, whatever bytes the strings hold.
 *
 * Commas and nesting are kept by the writer. Invalid UTF-8 becomes U+FFFD, control bytes are
 * escaped, NaN and infinities become null. Depth is limited to JSON_DEPTH_MAX (asserted). */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include "base/buf.h"
#include "base/io.h"

#define JSON_DEPTH_MAX 32

struct json_writer {
    struct io_out *out; /* either this ... */
    struct buf *buf;    /* ... or this */
    int depth;
    bool first[JSON_DEPTH_MAX];
    bool after_key;
};

void json_object(struct json_writer *w);
void json_object_end(struct json_writer *w);
void json_array(struct json_writer *w);
void json_array_end(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_str(struct json_writer *w, const char *s, size_t len);
void json_cstr(struct json_writer *w, const char *s); /* NULL writes null */
void json_i64(struct json_writer *w, int64_t v);
void json_u64(struct json_writer *w, uint64_t v);
void json_f64(struct json_writer *w, double v); /* shortest text that reads back the same */
void json_bool(struct json_writer *w, bool v);
void json_null(struct json_writer *w);
void json_raw(struct json_writer *w, const char *json, size_t len); /* the caller vouches for it */
void json_newline(struct json_writer *w); /* cosmetic; legal between elements */

/* True if the len bytes are one complete JSON value (depth limited to 256, UTF-8 not checked). */
bool json_valid(const char *s, size_t len);

#endif
