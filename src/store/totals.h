/* totals.h -- what spans do in a range of time, by name, category and layer.
 *
 * Built once for a frozen store, which must outlive it. A query looks at the spans that start in
 * the range and, block by block, at those before that may reach into it. Any number of threads may
 * ask. */
#ifndef STORE_TOTALS_H
#define STORE_TOTALS_H

#include "store/store.h"

struct totals;

struct total {
    str_id name, cat, layer;
    int64_t count;    /* spans that start in the range or reach into it */
    int64_t total_ns; /* of each the part that lies in the range; sums stop at INT64_MAX */
    int64_t self_ns;  /* without the part inside of children on the same track */
};

int totals_new(const struct store *st, struct totals **out); /* 0 or OPM_ENOMEM */
void totals_free(struct totals *t);                          /* NULL is fine */

/* Those of [from, to) with at least one span, most self time first. A span that never ended lasts
 * until `to`. *out belongs to the caller (mem_free). 0 or OPM_ENOMEM. */
int totals_query(const struct totals *t, int64_t from_ns, int64_t to_ns, struct total **out,
                 size_t *n);

/* What stands in what, spans of the same name inside the same taken together: first a node for
 * each track, then what is at the top of it, and so on. */
struct flame_node {
    uint32_t parent; /* that comes before it; OPM_NULL_ID: it is a track */
    str_id name;
    int64_t count, total_ns; /* as above; a track has those of its top spans */
};

/* The nodes of [from, to), of one track or of all (OPM_NULL_ID), that have at least 1/parts of the
 * time of all tracks. *out belongs to the caller (mem_free). 0 or OPM_ENOMEM. */
int totals_flame(const struct totals *t, int64_t from_ns, int64_t to_ns, uint32_t track,
                 int64_t parts, struct flame_node **out, size_t *n);

#endif
