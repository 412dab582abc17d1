/* redispatch.h -- calls that PyTorch's dispatcher passes on under the same name.
 *
 * Autocast, autograd and others take a call of aten::conv2d and call aten::conv2d again, with other
 * types: two spans, one in the other, and one execution. It is the innermost: that one works. A
 * call that launches something itself, or calls its name twice, does work of its own and is none.
 */
#ifndef ANALYZE_REDISPATCH_H
#define ANALYZE_REDISPATCH_H

#include "store/store.h"

struct redispatch {
    /* Per span: OPM_NULL_ID, or if it only passes its call on, the span that executes it. NULL:
     * there are no such calls. */
    uint32_t *to;
    size_t n;
};

int redispatch_find(struct redispatch *r, const struct store *st); /* 0 or OPM_ENOMEM; release */
void redispatch_release(struct redispatch *r);

#endif
