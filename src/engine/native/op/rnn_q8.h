/* rnn_q8.h -- the products of DynamicQuantizeLSTM: 8-bit weights by numbers that become bytes on
 * the way, by their own range. */
#ifndef NATIVE_RNN_Q8_H
#define NATIVE_RNN_Q8_H

#include "engine/native/math/q8.h"

/* Weights of one direction, k x n: packed, their zero points and scales. */
struct rnn_q8 {
    struct q8_b b;
    void *memory;
    int32_t *zero; /* n, as signed; NULL: all are zero */
    float *scale;  /* n */
};

/* Direction d of `dirs` of weights that lie as directions x k x n; scales and zero points are those
 * of the two inputs from scale_at on. Memory is kept from one time to the next. OPM_ENOMEM, or
 * OPM_ELIMIT. */
int rnn_q8_pack(struct op *op, struct rnn_q8 *w, uint32_t slot, uint32_t scale_at, int d, int dirs,
                int64_t k, int64_t n, opm_error *err);
void rnn_q8_release(struct rnn_q8 *w);
/* Bytes of scratch memory that a product with m rows takes; -1: too many. */
int64_t rnn_q8_room(int64_t m, int64_t k, int64_t n);
/* out[m x n] = a[m x k] * w + add, whose rows are add_rs apart; add NULL: nothing. */
void rnn_q8_product(const struct op *op, const struct rnn_q8 *w, const float *a, int64_t m,
                    float *out, const float *add, int64_t add_rs, void *room);

#endif
