/* pick.h -- the next token of a row, from what the model says of all tokens. */
#ifndef RUN_PICK_H
#define RUN_PICK_H

#include "graph/tensor.h"

struct pick_options {
    double temperature; /* 0: always the likeliest token, the first of equals */
    int64_t top_k;      /* among so many likeliest; 0: all */
    double top_p;       /* among the likeliest that have this probability together; 1: all */
    uint64_t seed;
};

/* Room for n tokens; NULL without memory. */
struct picker;
struct picker *picker_new(int64_t n);
void picker_free(struct picker *p); /* NULL is fine */

/* logits: n numbers of a floating-point type. The same seed, row and place give the same token,
 * whatever was picked before. -1: they are not numbers. */
int64_t pick_token(struct picker *p, const void *logits, enum tensor_type type, int64_t n,
                   const struct pick_options *opt, int64_t row, int64_t place);

#endif
