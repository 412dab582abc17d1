/* sparse.c -- dense and block-sparse fully connected layers side by side.
 *
 *   bench_sparse [THREADS]        every shape, pattern and ratio of zeros below
 *   bench_sparse --markdown       the table of docs/performance.md: one thread, 90 % zero blocks */
#include "run/sparse_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    int64_t n, k;
} shape[] = {
    { 256, 256 }, { 1024, 256 }, { 256, 1024 }, { 768, 768 }, { 3072, 768 }, { 768, 3072 }
};
static const int64_t rows[] = { 1, 4, 8, 16, 32, 128 };
static const char *const pattern[] = { "4x1", "16x1" };

static struct sparse_result measure(const struct sparse_case *c)
{
    struct sparse_result t;
    opm_error err = { 0 };

    if (sparse_measure(c, &t, &err)) {
        fprintf(stderr, "bench_sparse: %s\n", err.msg);
        exit(1);
    }
    return t;
}

static void list(int threads)
{
    static const double ratio[] = { 0.7, 0.9 };

    printf("%5s %5s %5s  %-7s %5s %10s %10s %6s\n", "m", "n", "k", "pattern", "zeros", "dense us",
           "sparse us", "x");
    for (size_t s = 0; s < COUNT(shape); s++)
        for (size_t m = 0; m < COUNT(rows); m++)
            for (size_t p = 0; p < COUNT(pattern); p++)
                for (size_t r = 0; r < COUNT(ratio); r++) {
                    struct sparse_case c = { rows[m],    shape[s].n, shape[s].k,
                                             pattern[p], ratio[r],   threads };
                    struct sparse_result t = measure(&c);

                    printf("%5lld %5lld %5lld  %-7s %4.0f%% %10.1f %10.1f %6.2f\n", (long long)c.m,
                           (long long)c.n, (long long)c.k, c.pattern, 100 * c.sparsity,
                           (double)t.dense_ns / 1e3, (double)t.sparse_ns / 1e3, 1 / t.ratio);
                }
}

static void markdown(void)
{
    printf("| n x k | pattern |");
    for (size_t m = 0; m < COUNT(rows); m++)
        printf(" m = %lld |", (long long)rows[m]);
    printf("\n|---|---|");
    for (size_t m = 0; m < COUNT(rows); m++)
        printf("---:|");
    printf("\n");
    for (size_t s = 0; s < COUNT(shape); s++)
        for (size_t p = 0; p < COUNT(pattern); p++) {
            printf("| %lld x %lld | %s |", (long long)shape[s].n, (long long)shape[s].k,
                   pattern[p]);
            for (size_t m = 0; m < COUNT(rows); m++) {
                struct sparse_case c = { rows[m], shape[s].n, shape[s].k, pattern[p], 0.9, 1 };
                struct sparse_result t = measure(&c);

                printf(" %.1f |", 1 / t.ratio);
            }
            printf("\n");
        }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--markdown") == 0)
        markdown();
    else
        list(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1);
    return 0;
}
