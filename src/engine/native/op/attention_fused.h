/* attention_fused.h -- scaled dot-product attention as one operator, and the views it reads
 * through.
 *
 * softmax(scale * Q K^T, masked) V for every batch item and head. Q, K and V need not lie as the
 * product wants them: each is a view, a tensor of the graph seen through a chain of transpositions
 * and selections, so those never run. Logically Q is [..., Sq, D], K [..., D, Sk] (it was the
 * product's right operand), V [..., Sk, Dv]; at most two dimensions come before. */
#ifndef NATIVE_ATTENTION_FUSED_H
#define NATIVE_ATTENTION_FUSED_H

#include "engine/native/math/sdpa.h"

#define VIEW_STEPS 4

struct view_step {
    bool select;   /* one index of an axis, else a transposition */
    int axis;      /* may be negative */
    int64_t index; /* likewise */
    int64_t perm[SHAPE_RANK_MAX];
    int rank; /* of perm; 0: reversed */
};

/* Steps in the order in which they are found, from the result back to the source. */
struct view {
    struct view_step step[VIEW_STEPS];
    int nstep;
};

enum { FUSED_Q, FUSED_K, FUSED_V, FUSED_MASK, FUSED_WHERE, FUSED_NIN };

/* op->state, made when fusing. */
struct fused_attention {
    struct view view[3];
    struct sdpa core; /* scale, where_keeps and fill are set when fusing, the rest by prepare() */
    int out_rank;     /* of out_perm; 0: as computed */
    int64_t out_perm[4];
    int64_t at[3];  /* offset into the source, floats */
    int32_t *limit; /* of each row of the mask: keys behind are masked; NULL: not known */
};

#endif
