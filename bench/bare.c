/* bare.c -- one model on one engine, alone in a process and with nothing recorded.
 *
 *   bench_bare ENGINE THREADS ITERATIONS WARMUP MODEL [--input X] [--dim X] [--batch-size N]...
 *
 * ITERATIONS and WARMUP are a count or a time, options those of `opmeter run`. Prints one line of
 * JSON: what reading the model, opening the engine and the first preparation took, and the fastest
 * and the median iteration. */
#include "base/alloc.h"
#include "run/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 32

static void die(const char *what)
{
    fprintf(stderr, "bench_bare: %s\n", what);
    exit(1);
}

static void option(struct run_options *opt, const char *name, const char *value)
{
    static const char *input[LIST_MAX];
    static struct run_dim dim[LIST_MAX];
    opm_error err;

    if (strcmp(name, "--input") == 0 && opt->ninput < LIST_MAX) {
        input[opt->ninput++] = value;
        opt->input = input;
    } else if (strcmp(name, "--dim") == 0 && opt->ndim < LIST_MAX) {
        if (run_dim_parse(value, &dim[opt->ndim], &err))
            die(err.msg);
        opt->ndim++;
        opt->dim = dim;
    } else if (strcmp(name, "--batch-size") == 0) {
        opt->batch_size = strtoll(value, NULL, 10);
    } else {
        die("the options are --input, --dim and --batch-size");
    }
}

/* Latencies of one part; the caller frees them. */
static int64_t *iterate(struct runner *r, const struct run_amount *a, size_t *n, opm_error *err)
{
    int64_t start = runner_now_ns(), *ns = NULL;
    size_t cap = 0;

    for (*n = 0;; (*n)++) {
        if (a->ns ? *n && runner_now_ns() - start >= a->ns : (int64_t)*n >= a->count)
            break;
        if (!GROW(ns, cap, *n + 1))
            die("out of memory");
        if (runner_iterate(r, false, (int64_t)*n, OPM_MEASURED, &ns[*n], err))
            die(err->msg);
    }
    return ns;
}

int main(int argc, char **argv)
{
    struct run_options opt = { .winograd = true, .sparse = true, .instances = 1 };
    struct run_result res = { 0 };
    struct runner r = { .opt = &opt, .res = &res };
    struct run_latency latency = { 0 };
    opm_error err = { 0 };
    int64_t *ns;
    size_t n;

    if (argc < 6 || argc % 2)
        die("usage: bench_bare ENGINE THREADS ITERATIONS WARMUP MODEL [--OPTION VALUE]...");
    opt.engine = argv[1];
    opt.threads = (int)strtol(argv[2], NULL, 10);
    if (run_amount_parse(argv[3], &opt.iterations, &err) ||
        run_amount_parse(argv[4], &opt.warmup, &err))
        die(err.msg);
    opt.model = argv[5];
    for (int i = 6; i < argc; i += 2)
        option(&opt, argv[i], argv[i + 1]);
    if (runner_open(&r, &err) || runner_feed(&r, NULL, 0, &err) || runner_prepare(&r, &err))
        die(err.msg);
    mem_free(iterate(&r, &opt.warmup, &n, &err));
    ns = iterate(&r, &opt.iterations, &n, &err);
    run_latency_of(ns, n, &latency);
    printf("{\"version\":\"%s\",\"load_ns\":%lld,\"open_ns\":%lld,\"prepare_ns\":%lld,"
           "\"n\":%zu,\"min_ns\":%.0f,\"median_ns\":%.0f}\n",
           res.version, (long long)res.load_ns, (long long)res.open_ns, (long long)res.prepare_ns,
           n, latency.min, latency.median);
    mem_free(ns);
    runner_close(&r);
    for (size_t i = 0; i < opt.ndim; i++)
        mem_free(opt.dim[i].name);
    return 0;
}
