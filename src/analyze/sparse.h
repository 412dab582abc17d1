/* sparse.h -- what the model would take if its weights were sparse: whatif and its ratios.
 *
 * The projection of Intel's Neural Engine: each matrix product with a constant two-dimensional
 * weight is aimed at SPARSE_AIM zeros unless half of the weight is zero already; its time is
 * divided by a ratio that depends on the weight's shape and the aim; the rest stays. Ratios are
 * those that the cache of this machine holds (base/ratios.h), else SPARSE_CONSTANT. */
#ifndef ANALYZE_SPARSE_H
#define ANALYZE_SPARSE_H

#include "base/ratios.h"
#include "store/store.h"

#define SPARSE_AIM 0.9
#define SPARSE_DENSE_BELOW 0.5 /* zeros up to here count as a dense weight */
#define SPARSE_CONSTANT 4.0
#define SPARSE_LEVELS 3
extern const double sparse_levels[SPARSE_LEVELS]; /* 0.9, 0.8, 0.7 */
#define SPARSE_NO_SHAPE UINT32_MAX

/* A weight shape of the trace; all operators with that shape share it. */
struct sparse_shape {
    str_id text; /* as op.weight_shape has it */
    int64_t dim[2];
    int64_t n, k;
    double ratio[SPARSE_LEVELS]; /* for the default pattern */
    bool measured[SPARSE_LEVELS];
};

struct sparse_op {
    int64_t n, k, m;   /* 0: it is no matrix product with a constant weight; m 0: not known */
    uint32_t shape;    /* or SPARSE_NO_SHAPE: the weight does not divide into blocks */
    double zero_ratio; /* NaN: not known */
    double latency_ns; /* NaN: it did not run */
    double aim;        /* NaN: none */
    double ratio;      /* NaN where there is no aim */
    bool measured;     /* the ratio is */
    double projected_ns;
};

struct sparse {
    struct sparse_op *op; /* [nop], by op.id */
    size_t nop;
    struct sparse_shape *shape; /* by their dimensions */
    size_t nshape;
    struct ratios ratios;                  /* of this machine; empty if they could not be read */
    double total_ns, projected_ns;         /* of all operators */
    double sparse_ns, sparse_projected_ns; /* of those with a shape */
};

/* 0 or OPM_ENOMEM; release in any case. */
int sparse_compute(struct sparse *s, const struct store *st);
void sparse_release(struct sparse *s);

#endif
