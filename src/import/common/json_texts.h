/* json_texts.h -- strings of JSON with their escapes resolved: where they stand if they have none,
 * else in memory that is freed all at once. `struct json_texts t = {0}` is empty. */
#ifndef IMPORT_COMMON_JSON_TEXTS_H
#define IMPORT_COMMON_JSON_TEXTS_H

#include "base/arena.h"
#include "base/json_read.h"
#include "import/common/text.h"

struct json_texts {
    struct arena arena;
    bool failed; /* no memory; texts are empty from then on */
};

/* The key or string just read; valid as long as the reader's bytes, and until the next clear. */
struct text json_texts_get(struct json_texts *t, const struct json_reader *r);
void json_texts_clear(struct json_texts *t);

#endif
