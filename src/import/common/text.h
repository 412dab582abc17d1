/* text.h -- lines, words and numbers of text files, in place. Nothing is allocated; the bytes must
 * outlive the texts. */
#ifndef IMPORT_COMMON_TEXT_H
#define IMPORT_COMMON_TEXT_H

#include "base/common.h"

struct text {
    const char *p;
    size_t len;
};

/* The next line, without its end; *rest goes on behind it. False: there is none. */
bool text_line(struct text *rest, struct text *line);
/* The next word between blanks. */
bool text_word(struct text *rest, struct text *word);
struct text text_trim(struct text t); /* without blanks around it */
bool text_starts(struct text t, const char *with);
bool text_is(struct text t, const char *s);
/* Behind the first occurrence of `key`; false if there is none. */
bool text_after(struct text t, const char *key, struct text *out);
bool text_u64(struct text t, uint64_t *out); /* digits at its start; at least one */
/* A decimal number times 10^shift, rounded: ms with shift 6 are ns. Blanks around it are fine.
 * False: it is none, or does not fit. */
bool text_decimal(struct text t, int shift, int64_t *out);

#endif
