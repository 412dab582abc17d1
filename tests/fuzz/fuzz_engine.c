/* fuzz_engine.c -- any bytes as a model: what loads runs, or says why not, within limits. */
#include "base/alloc.h"
#include "engine/engine.h"
#include "graph/footprint.h"
#include "graph/infer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { INPUTS_MAX = 16, TENSOR_BYTES_MAX = 65536, FLOPS_MAX = 20000000 };

/* What is known of the work before running; what is not known is bounded by the limits. */
static bool cheap(const struct model *m)
{
    double flops = 0;

    for (uint32_t i = 0; i < m->graph->nnode; i++) {
        struct footprint f;

        node_footprint(m->graph, &m->graph->node[i], &f);
        flops += f.flops > 0 ? (double)f.flops : 0;
    }
    return m->graph->nnode < 200 && flops < FLOPS_MAX;
}

static bool make_input(const struct engine_value *v, struct engine_tensor *t, const uint8_t *data,
                       size_t len)
{
    int64_t bytes;

    t->type = v->type;
    t->shape = v->shape;
    if (t->shape.rank < 0)
        t->shape.rank = 0;
    for (int32_t i = 0; i < t->shape.rank; i++)
        if (t->shape.dim[i] < 0)
            t->shape.dim[i] = 3;
    bytes = shape_bytes(&t->shape, t->type);
    if (bytes < 0 || bytes > TENSOR_BYTES_MAX)
        return false;
    t->bytes = (size_t)bytes;
    t->data = aligned_alloc(64, (t->bytes + 64) / 64 * 64);
    for (size_t i = 0; t->data && i < t->bytes; i++)
        ((uint8_t *)t->data)[i] = len ? data[i % len] & 0x3f : 0;
    return t->data != NULL;
}

static void run(struct engine *e, const uint8_t *data, size_t len)
{
    struct engine_tensor in[INPUTS_MAX] = { 0 }, out[INPUTS_MAX];
    const struct engine_value *decl;
    size_t nin, nout;
    opm_error err;
    bool ok;

    decl = e->class->inputs(e, &nin);
    e->class->outputs(e, &nout);
    ok = nin <= INPUTS_MAX && nout <= INPUTS_MAX;
    for (size_t i = 0; i < nin && ok; i++)
        ok = make_input(&decl[i], &in[i], data, len);
    for (int round = 0; round < 2 && ok; round++) /* the second time, everything is prepared */
        ok = e->class->run(e, in, nin, out, nout, &err) == 0;
    for (size_t i = 0; i < INPUTS_MAX; i++)
        free(in[i].data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct infer_options sized = { .open_dim = 3 };
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct engine *e = NULL;
    struct model *m;
    opm_error err;

    if (model_parse(&m, data, len, "fuzz", NULL, &err))
        return 0;
    opts.threads = 1;
    opts.sparse = ENGINE_SPARSE_NEVER;
    opts.max_tensor_bytes = TENSOR_BYTES_MAX;
    opts.max_rounds = 100;
    graph_infer(m, &sized, &err);
    if (cheap(m) && engine_native.open(&e, m, &opts, &err) == 0) {
        run(e, data, len);
        e->class->close(e);
    }
    model_free(m);
    return 0;
}
