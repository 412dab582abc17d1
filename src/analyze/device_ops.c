/* device_ops.c -- what devices computed, by name. */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "analyze/hardware.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include <stdlib.h>

enum { Q50, Q99, NQ };
static const double quantiles[NQ] = { 0.5, 0.99 };

struct names {
    uint32_t *group; /* per site */
    str_id *name;    /* per group */
    uint32_t n;
    struct u64map index;
};

struct ranked {
    double mean_ns;
    uint32_t group;
};

/* What a site is counted as; 0: not at all. */
static str_id name_of(const struct store *st, const struct hardware *h, const struct site *site,
                      size_t i, str_id forward)
{
    struct cell type;

    if (h->any)
        return h->role[i] == HARDWARE_COMPUTES ? site->name : 0;
    if (site->op >= store_nrow(st, TABLE_op) || (site->phase && site->phase != forward))
        return 0;
    type = store_cell(st, TABLE_op, site->op, op_col_type);
    return type.kind == CELL_STR ? type.str : site->name;
}

static int group_sites(struct names *g, const struct store *st, const struct hardware *h)
{
    str_id forward = strpool_find(store_strings(st), "forward", 7);
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);

    g->group = mem_calloc(nsite, sizeof(*g->group));
    g->name = mem_calloc(nsite, sizeof(*g->name));
    if (!g->group || !g->name)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++) {
        str_id name = name_of(st, h, &sites[i], i, forward);
        const uint64_t *at = u64map_get(&g->index, name);

        g->group[i] = GROUP_NONE;
        if (!name)
            continue;
        if (!at && u64map_put(&g->index, name, g->n))
            return OPM_ENOMEM;
        g->group[i] = at ? (uint32_t)*at : g->n;
        if (!at)
            g->name[g->n++] = name;
    }
    return 0;
}

static int by_mean(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->mean_ns != y->mean_ns)
        return x->mean_ns < y->mean_ns ? 1 : -1;
    return x->group < y->group ? -1 : x->group > y->group;
}

static int add_row(struct table *out, str_id name, const struct group_stats *s, double all_ns)
{
    struct cell c[device_ops_col_COUNT] = { 0 };

    c[device_ops_col_name] = cell_str(name);
    c[device_ops_col_count] = cell_i64(s->count);
    c[device_ops_col_mean_ns] = cell_f64(s->mean_ns);
    c[device_ops_col_median_ns] = cell_f64(s->q[Q50]);
    c[device_ops_col_min_ns] = cell_i64(s->min_ns);
    c[device_ops_col_max_ns] = cell_i64(s->max_ns);
    c[device_ops_col_p99_ns] = cell_f64(s->q[Q99]);
    c[device_ops_col_total_ns] = cell_i64(s->total_ns);
    if (all_ns > 0)
        c[device_ops_col_share] = cell_f64((double)s->total_ns / all_ns);
    return table_add(out, c);
}

static int add_rows(const struct store *st, const struct names *g, struct table *out)
{
    struct group_stats *stats = mem_calloc(g->n, sizeof(*stats));
    struct ranked *ranked = mem_calloc(g->n, sizeof(*ranked));
    double all_ns = 0;
    int rc = OPM_ENOMEM;

    if (stats && ranked)
        rc = groups_compute(
            st,
            &(struct groups_query){
                .group = g->group, .ngroup = g->n, .skip_warmup = true, .q = quantiles, .nq = NQ },
            stats);
    for (uint32_t i = 0; i < g->n && rc == 0; i++) {
        ranked[i] = (struct ranked){ stats[i].mean_ns, i };
        all_ns += (double)stats[i].total_ns;
    }
    if (rc == 0)
        qsort(ranked, g->n, sizeof(*ranked), by_mean);
    for (uint32_t i = 0; i < g->n && rc == 0; i++)
        if (stats[ranked[i].group].count)
            rc = add_row(out, g->name[ranked[i].group], &stats[ranked[i].group], all_ns);
    mem_free(ranked);
    mem_free(stats);
    return rc;
}

int analyze_device_ops(const struct store *st, struct table *out, opm_error *err)
{
    struct hardware h;
    struct names g = { 0 };
    int rc = hardware_find(&h, st);

    if (rc == 0)
        rc = group_sites(&g, st, &h);
    if (rc == 0 && g.n)
        rc = add_rows(st, &g, out);
    mem_free(g.group);
    mem_free(g.name);
    u64map_release(&g.index);
    hardware_release(&h);
    return rc < 0 ? opm__fail(err, rc, "device_ops: out of memory") : 0;
}
