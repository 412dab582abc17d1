/* span_class.c -- see span_class.h. */
#include "analyze/span_class.h"

#include "base/alloc.h"
#include "base/step_name.h"
#include <string.h>

/* NULL matches anything. The first row that matches decides. */
struct rule {
    enum span_class class;
    const char *layer;
    const char *cat;    /* the whole category */
    const char *starts; /* what the name starts with */
    const char *holds;  /* what the name contains */
};

static const struct rule rules[] = {
    { CLASS_NONE, NULL, "step", NULL, NULL },
    { CLASS_NONE, NULL, "record", NULL, NULL },
    { CLASS_NONE, NULL, "phase", NULL, NULL },
    { CLASS_NONE, NULL, "model_run", NULL, NULL },
    { CLASS_NONE, NULL, "Trace", NULL, NULL },
    { CLASS_NONE, NULL, "gpu_user_annotation", NULL, NULL },
    { CLASS_NONE, NULL, NULL, "ProfilerStep#", NULL },

    { CLASS_COMM, NULL, "collective", NULL, NULL },
    { CLASS_COMM, "hardware", NULL, NULL, "nccl" },
    { CLASS_COMM, "hardware", NULL, NULL, "rccl" },
    { CLASS_COMM, "hardware", NULL, NULL, "hccl" },
    { CLASS_COMM, "hardware", NULL, NULL, "AllReduce" },
    { CLASS_COMM, "hardware", NULL, NULL, "AllGather" },
    { CLASS_COMM, "hardware", NULL, NULL, "ReduceScatter" },
    { CLASS_COMM, "hardware", NULL, NULL, "all-reduce" },
    { CLASS_COMM, "hardware", NULL, NULL, "all-gather" },
    { CLASS_COMM, "hardware", NULL, NULL, "reduce-scatter" },
    { CLASS_COMM, NULL, NULL, "gloo:", NULL },
    { CLASS_COPY, NULL, "gpu_memcpy", NULL, NULL },
    { CLASS_COPY, NULL, "gpu_memset", NULL, NULL },
    { CLASS_COPY, NULL, "memcpy", NULL, NULL },
    { CLASS_COPY, NULL, "memset", NULL, NULL },
    { CLASS_COPY, "hardware", NULL, "Memcpy", NULL },
    { CLASS_COPY, "hardware", NULL, "Memset", NULL },
    { CLASS_COPY, "hardware", "NPU", "Load", NULL },
    { CLASS_COPY, "hardware", "NPU", "Store", NULL },
    { CLASS_COMPUTE, "hardware", NULL, NULL, NULL },

    { CLASS_DATA, NULL, "data", NULL, NULL },
    { CLASS_DATA, NULL, "dataloader", NULL, NULL },
    { CLASS_DATA, NULL, NULL, "enumerate(DataLoader)", NULL },
    { CLASS_DATA, NULL, NULL, NULL, "DataLoaderIter.__next__" },
    { CLASS_DATA, NULL, NULL, NULL, "IteratorGetNext" },
    { CLASS_DATA, NULL, NULL, "GetNext", NULL },

    { CLASS_MEASURING, NULL, "overhead", NULL, NULL },
    { CLASS_MEASURING, NULL, "opmeter", NULL, NULL },
    { CLASS_RUNTIME, "runtime", NULL, NULL, NULL },
    { CLASS_OPTIMIZER, NULL, NULL, "Optimizer.step#", NULL },
    { CLASS_BACKWARD, "framework", NULL, "autograd::engine::evaluate_function", NULL },
    { CLASS_BACKWARD, "framework", NULL, "torch::autograd::", NULL },
    { CLASS_BACKWARD, "framework", NULL, NULL, "Backward" },
    { CLASS_OPERATOR, "framework", NULL, NULL, NULL },
};

static bool matches(const struct rule *r, const char *layer, const char *cat, const char *name)
{
    return (!r->layer || strcmp(layer, r->layer) == 0) && (!r->cat || strcmp(cat, r->cat) == 0) &&
           (!r->starts || strncmp(name, r->starts, strlen(r->starts)) == 0) &&
           (!r->holds || strstr(name, r->holds) != NULL);
}

/* A mark of a step that the program gives as it gives others. */
static bool is_step_mark(const char *cat, const char *name)
{
    const char *word;
    int64_t num;

    return strcmp(cat, "user_annotation") == 0 && step_name_read(name, strlen(name), &word, &num);
}

static const char *text_or_empty(const struct store *st, str_id id)
{
    return id ? store_text(st, id) : "";
}

/* A library below the frameworks may be what executes the operators; the calls that an operator
 * makes have a phase of their own. */
static bool executes(const struct store *st, const struct site *site)
{
    str_id forward = strpool_find(store_strings(st), "forward", 7);

    return site->op < store_nrow(st, TABLE_op) && (!site->phase || site->phase == forward);
}

uint8_t *span_classes(const struct store *st)
{
    size_t n;
    const struct site *site = store_sites(st, &n);
    uint8_t *class = mem_alloc(n + 1);

    for (size_t i = 0; class && i < n; i++) {
        const char *layer = text_or_empty(st, site[i].layer), *cat = text_or_empty(st, site[i].cat);
        const char *name = text_or_empty(st, site[i].name);

        class[i] = is_step_mark(cat, name) ? CLASS_NONE : CLASS_HOST;
        for (size_t k = 0; k < ARRAY_SIZE(rules) && class[i] == CLASS_HOST; k++) {
            if (matches(&rules[k], layer, cat, name)) {
                class[i] = (uint8_t)rules[k].class;
                break;
            }
        }
        if (class[i] == CLASS_RUNTIME && executes(st, &site[i]))
            class[i] = CLASS_OPERATOR;
    }
    return class;
}
