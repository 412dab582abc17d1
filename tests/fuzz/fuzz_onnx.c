/* fuzz_onnx.c -- any bytes as a model: read, infer shapes with and without sizes, and count. */
#include "graph/footprint.h"
#include "graph/infer.h"
#include "graph/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct infer_options sized = { .open_dim = 3 };
    struct model *m;
    opm_error err;

    if (model_parse(&m, data, len, "fuzz", NULL, &err))
        return 0;
    graph_infer(m, NULL, &err);
    graph_infer(m, &sized, &err);
    for (uint32_t i = 0; i < m->graph->nnode; i++) {
        struct footprint f;
        struct weight_zeros z;

        node_footprint(m->graph, &m->graph->node[i], &f);
        if (f.weight_slot >= 0)
            weight_zeros(node_const(m->graph, &m->graph->node[i], (uint32_t)f.weight_slot),
                         weight_axis(m->graph, &m->graph->node[i], f.weight_slot), &z);
    }
    model_free(m);
    return 0;
}
