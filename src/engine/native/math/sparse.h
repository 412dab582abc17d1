/* sparse.h -- multiplication by constant weights of which whole blocks are zero.
 *
 * The k x n weights are cut into groups of `width` columns; of each group only the blocks of one k
 * that are not all zero are kept, in order of k: so each element of the product is summed in that
 * order, whatever the number of threads. Width is 4 ("4x1"), or a vector ("16x1" with AVX-512),
 * which needs fewer instructions where the zeros come in blocks that big. */
#ifndef NATIVE_SPARSE_H
#define NATIVE_SPARSE_H

#include "engine/native/op.h"

struct sparse; /* packed weights */

/* A product in hand: out [m x n] = alpha * a [m x k] * weights + add, then the operator's posts. */
struct sparse_mul {
    int64_t m, n, k;
    const float *a;
    int64_t lda;
    float *c;
    float alpha;
    const float *add; /* + add[i * add_rs + j * add_cs], or NULL */
    int64_t add_rs, add_cs;
};

/* The constant weights of an operator: element (k, n) at data[k * rs + n * cs], unaligned. */
struct sparse_weights {
    const void *data;
    int64_t k, n, rs, cs;
};

enum sparse_choice {
    SPARSE_NO,
    SPARSE_YES,
    SPARSE_MEASURE, /* sparse_measure_op() shall decide */
};

/* Is m rows by these weights worth packing them? *s stays if it is there already; on SPARSE_NO it
 * is freed. A negative code: an error. */
int sparse_look(struct op *op, int64_t m, const struct sparse_weights *w, struct sparse **s,
                opm_error *err);
/* Time op->kernel->run() with *use false and true, on numbers of its own, and leave in *use what is
 * faster. Both ways must be ready, scratch_bytes enough for either. The result is remembered, see
 * measured.h. */
int sparse_measure_op(struct op *op, int64_t m, const struct sparse *s, bool *use, opm_error *err);
/* Tell the recorder. */
void sparse_tell(struct op *op, const struct sparse *s, bool use);
void sparse_free(struct sparse *s); /* NULL is fine */

/* Bytes of scratch for m rows. */
size_t sparse_scratch(const struct op *op, int64_t m, int64_t k);
void sparse_run(struct op *op, const struct sparse *s, const struct sparse_mul *mul);

#endif
