/* sparse.c -- dense and block-sparse fully connected layers side by side.
 *
 *   bench_sparse [THREADS]      every shape, pattern and ratio of zeros below */
#include "run/sparse_bench.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static const struct {
        int64_t n, k;
    } shape[] = { { 256, 256 }, { 1024, 256 }, { 256, 1024 },
                  { 768, 768 }, { 3072, 768 }, { 768, 3072 } };
    static const int64_t rows[] = { 1, 4, 8, 16, 32, 128 };
    static const char *const pattern[] = { "4x1", "16x1" };
    static const double ratio[] = { 0.7, 0.9 };
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;

    printf("%5s %5s %5s  %-7s %5s %10s %10s %6s\n", "m", "n", "k", "pattern", "zeros", "dense us",
           "sparse us", "x");
    for (size_t s = 0; s < sizeof(shape) / sizeof(shape[0]); s++)
        for (size_t m = 0; m < sizeof(rows) / sizeof(rows[0]); m++)
            for (size_t p = 0; p < sizeof(pattern) / sizeof(pattern[0]); p++)
                for (size_t r = 0; r < sizeof(ratio) / sizeof(ratio[0]); r++) {
                    struct sparse_case c = { rows[m],    shape[s].n, shape[s].k,
                                             pattern[p], ratio[r],   threads };
                    struct sparse_result t;
                    opm_error err = { 0 };

                    if (sparse_measure(&c, &t, &err)) {
                        fprintf(stderr, "bench_sparse: %s\n", err.msg);
                        return 1;
                    }
                    printf("%5lld %5lld %5lld  %-7s %4.0f%% %10.1f %10.1f %6.2f\n", (long long)c.m,
                           (long long)c.n, (long long)c.k, c.pattern, 100 * c.sparsity,
                           (double)t.dense_ns / 1e3, (double)t.sparse_ns / 1e3, 1 / t.ratio);
                }
    return 0;
}
