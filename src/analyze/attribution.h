/* attribution.h -- whose work every nanosecond of a device is.
 *
 * An operator's, if its span says so or one of its spans launched it (same correlation number);
 * else a graph launch's, if one launched it; else it goes under its own name. */
#ifndef ANALYZE_ATTRIBUTION_H
#define ANALYZE_ATTRIBUTION_H

#include "analyze/groups.h"

/* Who is no operator, and the word for it in op_times.type. */
#define OWNER_KINDS(X)    \
    X(KERNEL, "kernel")   \
    X(COPY, "copy")       \
    X(COMM, "collective") \
    X(GRAPH, "graph launch")

enum owner_kind {
#define X(kind, word) OWNER_##kind,
    OWNER_KINDS(X)
#undef X
        OWNER_KIND_COUNT,
};

struct owner {
    str_id name; /* of the launch, or of the kernels */
    enum owner_kind kind;
};

struct attribution {
    uint32_t *group; /* per span: op.id, or nop and more for owner[]; GROUP_NONE where its site says
                        whose it is, and for what is no work of a device. NULL: nothing to add */
    size_t nspan;
    struct owner *owner;
    size_t nowner;
    bool launched; /* some of it is an operator's by its launch */
};

int attribution_find(struct attribution *a, const struct store *st); /* 0 or OPM_ENOMEM; release */
void attribution_release(struct attribution *a);

#endif
