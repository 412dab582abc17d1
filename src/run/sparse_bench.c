/* sparse_bench.c -- see sparse_bench.h. */
#include "run/sparse_bench.h"

#include "base/alloc.h"
#include "base/error.h"
#include "engine/engine.h"
#include "graph/onnx_write.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define OPSET 17
#define SIZE_MAX_ALLOWED ((int64_t)1 << 20)
#define FLOPS_MAX 1e13 /* of one run: minutes */
#define BUDGET_NS 100000000
#define ROUNDS_MIN 5
#define ROUNDS_MAX 2000

static int64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* One MatMul. */
static int make_model(const struct sparse_case *c, int rows, struct buf *file, struct model **out,
                      opm_error *err)
{
    struct onnx_writer w;
    int rc;

    ow_init(&w, "layer", OPSET, 1, c->sparsity);
    w.sparse_rows = rows;
    const char *x = ow_input(&w, "x", TENSOR_F32, NULL, (int64_t[]){ c->m, c->k }, 2);
    const char *b =
        ow_normal(&w, "weight", (int64_t[]){ c->k, c->n }, 2, 1 / sqrt((double)c->k), 1);
    const char *y = ow_op(&w, "MatMul", x, b, NULL);
    ow_output(&w, y, TENSOR_F32, NULL, (int64_t[]){ c->m, c->n }, 2);
    rc = ow_finish(&w, file, NULL);
    ow_release(&w);
    if (rc)
        return opm__fail(err, rc, "sparse layer: out of memory");
    return model_parse(out, file->data, file->len, "sparse layer", NULL, err);
}

static int open_pair(struct engine **e, struct model *m, int threads, opm_error *err)
{
    static const enum engine_sparse how[2] = { ENGINE_SPARSE_NEVER, ENGINE_SPARSE_ALWAYS };
    int rc = 0;

    for (int i = 0; i < 2 && !rc; i++) {
        struct engine_options o = ENGINE_OPTIONS_INIT;

        o.threads = threads;
        o.sparse = how[i];
        rc = engine_native.open(&e[i], m, &o, err);
    }
    return rc;
}

static int race(struct engine **e, struct engine_tensor *in, struct sparse_result *out,
                opm_error *err)
{
    int64_t best[2] = { INT64_MAX, INT64_MAX }, begin = clock_ns(), now = begin;

    for (int r = 0; r < ROUNDS_MAX && (r < ROUNDS_MIN || now - begin < BUDGET_NS); r++)
        for (int i = 0; i < 2; i++) {
            struct engine_tensor y;
            int rc;

            /* Twice: the first brings its weights back into the cache. */
            rc = e[i]->class->run(e[i], in, 1, &y, 1, err);
            now = clock_ns();
            if (!rc)
                rc = e[i]->class->run(e[i], in, 1, &y, 1, err);
            if (rc)
                return rc;
            best[i] = MIN(best[i], MAX(clock_ns() - now, (int64_t)1));
        }
    out->dense_ns = best[0];
    out->sparse_ns = best[1];
    out->ratio = (double)best[1] / (double)best[0];
    return 0;
}

static int run_case(const struct sparse_case *c, struct model *m, struct sparse_result *out,
                    opm_error *err)
{
    struct engine_tensor in = { .type = TENSOR_F32, .shape = { 2, { c->m, c->k } } };
    struct engine *e[2] = { NULL, NULL };
    void *memory;
    int rc;

    in.bytes = (size_t)(c->m * c->k) * sizeof(float);
    memory = mem_alloc(in.bytes + 64);
    if (!memory)
        return opm__fail(err, OPM_ENOMEM, "sparse layer: out of memory");
    in.data = (char *)memory + (64 - (uintptr_t)memory % 64) % 64;
    for (int64_t i = 0; i < c->m * c->k; i++)
        ((float *)in.data)[i] = (float)(i % 23 - 11) / 11;
    rc = open_pair(e, m, c->threads, err);
    if (!rc)
        rc = race(e, &in, out, err);
    for (int i = 0; i < 2; i++)
        if (e[i])
            e[i]->class->close(e[i]);
    mem_free(memory);
    return rc;
}

int sparse_measure(const struct sparse_case *c, struct sparse_result *out, opm_error *err)
{
    struct buf file = { 0 };
    struct model *m = NULL;
    int rows = c->pattern ? ow_pattern_rows(c->pattern) : 0, rc;

    if (rows == 0)
        return opm__fail(err, OPM_EINVAL, "no sparse kernel for the pattern '%.40s' (there are %s)",
                         c->pattern ? c->pattern : "", OW_PATTERNS);
    if (c->m < 1 || c->n < 1 || c->k < 1 || c->m > SIZE_MAX_ALLOWED || c->n > SIZE_MAX_ALLOWED ||
        c->k > SIZE_MAX_ALLOWED || !(c->sparsity >= 0 && c->sparsity <= 1) ||
        2.0 * (double)c->m * (double)c->n * (double)c->k > FLOPS_MAX)
        return opm__fail(err, OPM_EINVAL, "cannot measure a layer of %lldx%lldx%lld with %g zeros",
                         (long long)c->m, (long long)c->n, (long long)c->k, c->sparsity);
    rc = make_model(c, rows, &file, &m, err);
    if (!rc)
        rc = run_case(c, m, out, err);
    model_free(m);
    buf_release(&file);
    return rc;
}
