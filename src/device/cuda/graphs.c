/* graphs.c -- see graphs.h. */
#include "device/cuda/graphs.h"

#include <opmeter/opmeter.h>

void graphs_enable(const struct cupti *lib, void *subscriber)
{
    if (!lib->GetGraphNodeId)
        return;
    lib->EnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_CBID_NODE_CREATED);
    lib->EnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_CBID_NODE_CLONED);
}

void graphs_take(const struct cupti *lib, uint32_t cbid, const struct cupti_resource *made)
{
    static opm_site created = OPM_SITE_INIT(OPM_RUNTIME, GRAPHS_CATEGORY, "graph node");
    static opm_site cloned = OPM_SITE_INIT(OPM_RUNTIME, GRAPHS_CATEGORY, "graph node clone");
    const struct cupti_graph *graph = made->descriptor;
    bool is_clone = cbid == CUPTI_CBID_NODE_CLONED;
    uint64_t node, original = 0;
    opm_span span;

    if ((!is_clone && cbid != CUPTI_CBID_NODE_CREATED) || !graph ||
        lib->GetGraphNodeId(graph->node, &node) != CUPTI_OK ||
        (is_clone && lib->GetGraphNodeId(graph->original_node, &original) != CUPTI_OK))
        return;
    span = opm_begin(is_clone ? &cloned : &created);
    opm_arg_int(span, "graph node id", (int64_t)node);
    if (is_clone)
        opm_arg_int(span, "cloned from", (int64_t)original);
    opm_end(span);
}
