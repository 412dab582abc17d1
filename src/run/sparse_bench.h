/* sparse_bench.h -- what zero blocks in weights are worth on this machine, measured. */
#ifndef RUN_SPARSE_BENCH_H
#define RUN_SPARSE_BENCH_H

#include "base/common.h"

#include <opmeter/opmeter_error.h>

/* A fully connected layer: [m, k] by constant weights [k, n]. */
struct sparse_case {
    int64_t m, n, k;
    const char *pattern; /* "4x1", "16x1": output channels x inputs of a block */
    double sparsity;     /* ratio of zero blocks, 0..1 */
    int threads;         /* 0: as many as there are cores */
};

struct sparse_result {
    int64_t dense_ns, sparse_ns; /* the fastest run of each */
    double ratio;                /* sparse_ns / dense_ns */
};

/* Times the native engine's dense and block-sparse kernels on the same weights, in turns, for about
 * a tenth of a second. OPM_EINVAL for a pattern or sizes that make no sense. */
int sparse_measure(const struct sparse_case *c, struct sparse_result *out, opm_error *err);

#endif
