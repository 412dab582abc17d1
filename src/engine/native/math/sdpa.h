/* sdpa.h -- softmax(scale * Q K^T, masked) V for every batch item and head, blocked so that the
 * scores stay in the second-level cache. What fused attention (attention_fused.c) and the operators
 * of that name (attention.c) share.
 *
 * Operands are given by strides, so none needs to be brought into place. K and V may have fewer
 * heads than Q: `group` heads of Q look at one of theirs. */
#ifndef NATIVE_SDPA_H
#define NATIVE_SDPA_H

#include "engine/native/op.h"

enum { SDPA_Q, SDPA_K, SDPA_V, SDPA_OUT };

/* Scores that are a result, too: as they come from the product, scaled; after the cap; after the
 * masks; as weights. */
enum sdpa_scores { SCORES_PRODUCT, SCORES_CAPPED, SCORES_MASKED, SCORES_WEIGHTS };

struct sdpa {
    int64_t outer[2]; /* batch, heads of Q */
    int64_t group;    /* heads of Q for one of K and V */
    int64_t sq, sk, d, dv;
    int64_t stride[4][4]; /* of Q, K, V, out: batch, head, row, column. K is seen turned: [d, sk] */
    int64_t mask[4], where[4]; /* strides: batch, head, row of Q, row of K; 0: repeated */
    float scale;
    float cap;            /* > 0: scores s become cap * tanh(s / cap) before they are masked */
    bool where_keeps;     /* a true condition keeps the score, else replaces it */
    float fill;           /* what replaces it */
    const int32_t *limit; /* keys that each row looks at, the first ones; NULL: all. May be set
                           * after sdpa_plan() */
    const int32_t *first; /* and the first that it looks at, likewise; NULL: 0 */
    int64_t limit_batch;  /* limits per batch item; 0: the same for all */
    bool sinks;           /* the weights of a row sum up to 1 together with exp(sink) */
    bool blind_zero;      /* a row whose keys are all masked gives 0, else NaN */
    enum sdpa_scores scores;
    float beyond; /* what masked scores are at keys that a row does not look at */
    /* From here on set by sdpa_plan(). */
    int64_t mq; /* rows at a time */
    int64_t kp_floats, vp_floats, score_floats, ld;
};

struct sdpa_data {
    const float *q, *k, *v;
    const float *mask;    /* added to the scores, or NULL */
    const uint8_t *where; /* or NULL */
    const float *sink;    /* of each head of Q; NULL: 0 for all, if there are any */
    float *out;
    float *scores; /* [batch, heads, sq, sk], or NULL */
    void *scratch;
};

/* How work is cut, and how many bytes of scratch memory that takes. */
int sdpa_plan(const struct op *op, struct sdpa *s, size_t *scratch_bytes, opm_error *err);
void sdpa_run(const struct op *op, const struct sdpa *s, const struct sdpa_data *d);

#endif
