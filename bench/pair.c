/* pair.c -- one model on both engines in one process, taking turns, one thread each.
 *
 *   bench_pair ROUNDS MILLISECONDS MODEL [--input X]...
 *
 * A round runs each engine for so long, in batches long enough for the clock of the thread's
 * processor time; the figure of an engine is the first quartile of its batches, for one iteration
 * (a virtual machine's clock sometimes takes time away that was not stolen, so the fastest is
 * none). Prints one line of JSON: the figures, the version of ONNX Runtime, and by how much their
 * outputs differ: as a share of the greatest number there (-1: types or shapes do), and "apart" as
 * it is. With an engine that cannot run the model, its figure is 0 and "why" says why. */
#include "base/alloc.h"
#include "base/json_write.h"
#include "graph/tensor.h"
#include "run/runner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIST_MAX 32
#define BATCH_NS 60000
#define BATCHES_MAX 100000

struct side {
    struct run_options opt;
    struct run_result res;
    struct runner r;
    opm_error err;
    int64_t batch;    /* iterations in one */
    double *batch_ns; /* of every batch, for one iteration */
    size_t nbatches;
    bool runs;
};

static int64_t spent_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Processor time of n iterations; -1 if one failed. */
static int64_t iterate(struct side *s, int64_t n)
{
    int64_t start = spent_ns(), ns;

    for (int64_t i = 0; i < n; i++)
        if (runner_iterate(&s->r, false, i, OPM_MEASURED, &ns, &s->err))
            return -1;
    return spent_ns() - start;
}

static void open_side(struct side *s, const char *engine)
{
    s->opt.engine = engine;
    s->r = (struct runner){ .opt = &s->opt, .res = &s->res };
    if (runner_open(&s->r, &s->err) || runner_feed(&s->r, NULL, 0, &s->err) ||
        runner_prepare(&s->r, &s->err))
        return;
    for (s->batch = 1;; s->batch *= 2) {
        int64_t ns = iterate(s, s->batch);

        if (ns < 0)
            return;
        if (ns >= BATCH_NS || s->batch >= (1 << 20))
            break;
    }
    s->batch_ns = mem_calloc(BATCHES_MAX, sizeof(*s->batch_ns));
    s->runs = s->batch_ns != NULL;
}

static void measure(struct side *s, int64_t for_ns)
{
    int64_t until = spent_ns() + for_ns;

    do {
        int64_t ns = iterate(s, s->batch);

        if (ns < 0) {
            s->runs = false;
            return;
        }
        s->batch_ns[s->nbatches++] = (double)ns / (double)s->batch;
    } while (spent_ns() < until && s->nbatches < BATCHES_MAX);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double typical_ns(struct side *s)
{
    if (s->runs)
        qsort(s->batch_ns, s->nbatches, sizeof(*s->batch_ns), by_value);
    return s->runs && s->nbatches ? s->batch_ns[s->nbatches / 4] : 0;
}

static struct tensor view(const struct engine_tensor *t)
{
    return (struct tensor){ .type = t->type,
                            .shape = t->shape,
                            .count = shape_count(&t->shape),
                            .data = t->data,
                            .bytes = t->bytes };
}

/* The greatest difference, as a share of the greatest number; NaN equals NaN. */
static double difference(const struct side *a, const struct side *b, double *farthest)
{
    double worst = 0;

    *farthest = 0;

    for (size_t o = 0; o < a->r.nout; o++) {
        struct tensor x = view(&a->r.out[o]), y = view(&b->r.out[o]);
        double most = 1e-30, apart = 0;

        if (x.type != y.type || !shape_equal(&x.shape, &y.shape) || x.bytes != y.bytes)
            return -1;
        for (int64_t i = 0; i < x.count; i++) {
            double p = tensor_float(&x, i), q = tensor_float(&y, i);

            if (isnan(p) != isnan(q))
                return (double)INFINITY;
            if (isnan(p) || p == q)
                continue;
            most = MAX(most, fabs(q));
            apart = MAX(apart, fabs(p - q));
        }
        worst = MAX(worst, apart / most);
        *farthest = MAX(*farthest, apart);
    }
    return worst;
}

int main(int argc, char **argv)
{
    static struct side side[2];
    static const char *const engine[] = { "native", "onnxruntime" };
    static const char *input[LIST_MAX];
    struct buf line = { 0 };
    struct json_writer w = { .buf = &line };
    double share = 0, apart = 0;
    size_t ninput = 0;

    if (argc < 4 || argc % 2) {
        fprintf(stderr, "usage: bench_pair ROUNDS MILLISECONDS MODEL [--input X]...\n");
        return 1;
    }
    for (int i = 4; i + 1 < argc && ninput < LIST_MAX; i += 2)
        input[ninput++] = argv[i + 1];
    for (int k = 0; k < 2; k++) {
        side[k].opt = (struct run_options){ .model = argv[3],
                                            .threads = 1,
                                            .guess_sizes = true,
                                            .winograd = true,
                                            .sparse = true,
                                            .instances = 1,
                                            .input = input,
                                            .ninput = ninput };
        open_side(&side[k], engine[k]);
    }
    if (side[0].runs && side[1].runs)
        share = difference(&side[0], &side[1], &apart);
    for (long round = strtol(argv[1], NULL, 10); round > 0; round--)
        for (int k = 0; k < 2; k++)
            if (side[k].runs && side[k].nbatches < BATCHES_MAX)
                measure(&side[k], strtoll(argv[2], NULL, 10) * 1000000);
    json_object(&w);
    for (int k = 0; k < 2; k++) {
        json_key(&w, engine[k]);
        json_f64(&w, typical_ns(&side[k]));
    }
    json_key(&w, "version");
    json_cstr(&w, side[1].res.version);
    json_key(&w, "difference");
    json_f64(&w, isfinite(share) ? share : 1e30);
    json_key(&w, "apart");
    json_f64(&w, apart);
    json_key(&w, "why");
    json_cstr(&w, !side[0].runs ? side[0].err.msg : !side[1].runs ? side[1].err.msg : "");
    json_object_end(&w);
    puts(buf_str(&line));
    buf_release(&line);
    for (int k = 0; k < 2; k++) {
        runner_close(&side[k].r);
        mem_free(side[k].batch_ns);
    }
    return 0;
}
