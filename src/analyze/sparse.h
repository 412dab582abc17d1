/* sparse.h -- what the model would take if its weights were sparse: whatif and its ratios.
 *
 * The projection of Intel's Neural Engine: each matrix product with a constant two-dimensional
 * weight is aimed at SPARSE_AIM zeros unless half of the weight is zero already; its time is
 * divided by a ratio that depends on the weight's shape and the aim; the rest stays. Aims and
 * ratios that the source states, such as a CSV that somebody edited, come first; then the ratios
 * that the cache of this machine holds (base/ratios.h); else SPARSE_CONSTANT. A source that states
 * SPARSE_CONSTANT states nothing: their writer puts it everywhere. */
#ifndef ANALYZE_SPARSE_H
#define ANALYZE_SPARSE_H

#include "base/ratios.h"
#include "store/store.h"

#define SPARSE_AIM 0.9
#define SPARSE_DENSE_BELOW 0.5 /* zeros up to here count as a dense weight */
#define SPARSE_CONSTANT 4.0
#define SPARSE_OTHERS 1.0 /* for shares of zeros that have no column */
#define SPARSE_LEVELS 3
extern const double sparse_levels[SPARSE_LEVELS]; /* 0.9, 0.8, 0.7 */
#define SPARSE_NO_SHAPE UINT32_MAX

enum sparse_source { SPARSE_BY_CONSTANT, SPARSE_MEASURED, SPARSE_GIVEN };
extern const char *const sparse_source_names[]; /* "constant", "measured", "given" */

/* A weight shape of the trace; all operators with that shape share it. */
struct sparse_shape {
    str_id text; /* as op.weight_shape has it */
    int64_t dim[2];
    int64_t n, k;
    double ratio[SPARSE_LEVELS]; /* for the default pattern */
    enum sparse_source source[SPARSE_LEVELS];
    double others; /* for other shares of zeros */
};

struct sparse_op {
    int64_t n, k, m;       /* 0: it is no matrix product with a constant weight; m 0: not known */
    uint32_t shape;        /* or SPARSE_NO_SHAPE: the weight does not divide into blocks */
    double zero_ratio;     /* NaN: not known */
    double latency_ns;     /* NaN: it did not run; without interruptions */
    double interrupted_ns; /* what these added */
    double aim;            /* NaN: none */
    double ratio;          /* NaN where there is no aim */
    enum sparse_source source; /* of the ratio */
    bool own_ratio;            /* the source states it for this operator, not for the shape */
    double projected_ns;
    bool in_step;
    str_id model;   /* of the steps that it runs in; 0: none */
    uint32_t track; /* that marked them; OPM_NULL_ID: none */
    uint32_t group; /* of sparse.group */
};

/* What adds up: the operators that ran in steps of one model on one track, or in none. */
struct sparse_group {
    str_id model;
    uint32_t track;
    double total_ns, projected_ns;         /* of all operators */
    double sparse_ns, sparse_projected_ns; /* of those with a shape */
};

struct sparse {
    struct sparse_op *op; /* [nop], by op.id */
    size_t nop;
    struct sparse_shape *shape; /* by their dimensions */
    size_t nshape;
    struct sparse_group *group; /* as their first operators come */
    size_t ngroup;
    struct ratios ratios; /* of this machine; empty if they could not be read */
};

/* 0 or OPM_ENOMEM; release in any case. */
int sparse_compute(struct sparse *s, const struct store *st);
void sparse_release(struct sparse *s);

#endif
