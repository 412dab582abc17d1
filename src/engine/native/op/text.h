/* text.h -- what kernels on strings share. */
#ifndef NATIVE_TEXT_H
#define NATIVE_TEXT_H

#include "engine/native/op.h"

#include <string.h>

static inline bool text_equal(const struct tensor_string *a, const struct tensor_string *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->s, b->s, a->len) == 0);
}

/* A copy in the heap of the engine; false when out of memory. */
bool text_put(const struct op *op, struct tensor_string *out, const char *s, size_t len);

/* Cast from or to strings. */
int text_cast(struct op *op, enum tensor_type to, opm_error *err);

/* Places of n words, the last of equal ones; the words outlive it. */
struct words {
    const struct tensor_string *word;
    uint32_t *slot; /* index + 1, or 0 */
    size_t mask;
};
int words_init(struct words *w, const struct tensor_string *word, size_t n); /* OPM_ENOMEM */
int64_t words_find(const struct words *w, const struct tensor_string *s);    /* -1: it is none */
void words_release(struct words *w);

#endif
