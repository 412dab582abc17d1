/* op_kernels.c -- which kernels the devices ran for every operator. */
#include "analyze/analysis.h"
#include "analyze/attribution.h"
#include "analyze/groups.h"
#include "analyze/hardware.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include <stdlib.h>

enum { Q50, Q99, NQ };
static const double quantiles[NQ] = { 0.5, 0.99 };

/* A kernel of an owner, which is numbered as in attribution.h. */
struct pair {
    uint32_t owner;
    str_id kernel;
};

struct pairs {
    struct pair *pair;
    size_t n, cap;
    struct u64map index; /* owner and kernel -> number */
    uint32_t *of_span;   /* GROUP_NONE: no work of a device */
    uint32_t *of_site;   /* GROUP_NONE throughout: spans of one site may have different owners */
    size_t nspan;
};

struct ranked {
    struct pair pair;
    const struct group_stats *stats;
};

static uint32_t number_of(struct pairs *p, struct pair pair)
{
    uint64_t key = (uint64_t)pair.owner << 32 | pair.kernel;
    const uint64_t *at = u64map_get(&p->index, key);

    if (at)
        return (uint32_t)*at;
    if (!GROW(p->pair, p->cap, p->n + 1) || u64map_put(&p->index, key, p->n))
        return GROUP_NONE;
    p->pair[p->n] = pair;
    return (uint32_t)p->n++;
}

static int find_pairs(struct pairs *p, const struct store *st, const struct hardware *h,
                      const struct attribution *a)
{
    size_t nsite, nop = store_nrow(st, TABLE_op);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st);

    p->nspan = store_nrow(st, TABLE_span);
    p->of_span = mem_map(p->nspan * sizeof(*p->of_span));
    p->of_site = mem_alloc((nsite + 1) * sizeof(*p->of_site));
    if (!p->of_span || !p->of_site)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++)
        p->of_site[i] = GROUP_NONE;
    for (size_t row = 0; row < p->nspan; row++) {
        const struct site *s = &sites[site[row]];
        uint32_t owner = a->group ? a->group[row] : GROUP_NONE;

        p->of_span[row] = GROUP_NONE;
        if (s->op < nop &&
            (h->role[site[row]] == HARDWARE_COMPUTES || h->role[site[row]] == HARDWARE_MOVES))
            owner = s->op;
        if (owner == GROUP_NONE)
            continue;
        p->of_span[row] = number_of(p, (struct pair){ owner, s->name });
        if (p->of_span[row] == GROUP_NONE)
            return OPM_ENOMEM;
    }
    return 0;
}

static int by_owner(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->pair.owner != y->pair.owner)
        return x->pair.owner < y->pair.owner ? -1 : 1;
    if (x->stats->total_ns != y->stats->total_ns)
        return x->stats->total_ns > y->stats->total_ns ? -1 : 1;
    return x->pair.kernel < y->pair.kernel ? -1 : x->pair.kernel > y->pair.kernel;
}

static int add_row(const struct store *st, const struct attribution *a, const struct ranked *r,
                   double owner_ns, struct table *out)
{
    const struct group_stats *s = r->stats;
    size_t nop = store_nrow(st, TABLE_op);
    struct cell c[op_kernels_col_COUNT] = { 0 };

    if (r->pair.owner < nop) {
        c[op_kernels_col_op] = cell_id(r->pair.owner);
        c[op_kernels_col_owner] = store_cell(st, TABLE_op, r->pair.owner, op_col_name);
    } else {
        c[op_kernels_col_owner] = cell_str(a->owner[r->pair.owner - nop].name);
    }
    c[op_kernels_col_kernel] = cell_str(r->pair.kernel);
    c[op_kernels_col_count] = cell_i64(s->count);
    c[op_kernels_col_total_ns] = cell_i64(s->total_ns);
    c[op_kernels_col_mean_ns] = cell_f64(s->mean_ns);
    c[op_kernels_col_median_ns] = cell_f64(s->q[Q50]);
    c[op_kernels_col_min_ns] = cell_i64(s->min_ns);
    c[op_kernels_col_max_ns] = cell_i64(s->max_ns);
    c[op_kernels_col_p99_ns] = cell_f64(s->q[Q99]);
    if (owner_ns > 0)
        c[op_kernels_col_share] = cell_f64((double)s->total_ns / owner_ns);
    return table_add(out, c);
}

static int add_rows(const struct store *st, const struct attribution *a, const struct pairs *p,
                    struct table *out)
{
    struct group_stats *stats = mem_calloc(p->n, sizeof(*stats));
    struct ranked *ranked = mem_calloc(p->n, sizeof(*ranked));
    size_t n = 0;
    int rc = OPM_ENOMEM;

    if (stats && ranked)
        rc = groups_compute(st,
                            &(struct groups_query){ .group = p->of_site,
                                                    .row_group = p->of_span,
                                                    .ngroup = (uint32_t)p->n,
                                                    .skip_warmup = true,
                                                    .q = quantiles,
                                                    .nq = NQ },
                            stats);
    for (size_t i = 0; rc == 0 && i < p->n; i++)
        if (stats[i].count)
            ranked[n++] = (struct ranked){ p->pair[i], &stats[i] };
    if (rc == 0)
        qsort(ranked, n, sizeof(*ranked), by_owner);
    for (size_t i = 0, end; i < n && rc == 0; i = end) {
        double owner_ns = 0;

        for (end = i; end < n && ranked[end].pair.owner == ranked[i].pair.owner; end++)
            owner_ns += (double)ranked[end].stats->total_ns;
        for (size_t k = i; k < end && rc == 0; k++)
            rc = add_row(st, a, &ranked[k], owner_ns, out);
    }
    mem_free(ranked);
    mem_free(stats);
    return rc;
}

int analyze_op_kernels(const struct store *st, struct table *out, opm_error *err)
{
    struct attribution a;
    struct hardware h;
    struct pairs p = { 0 };
    int rc = hardware_find(&h, st), found = attribution_find(&a, st);

    if (rc == 0)
        rc = found;
    if (rc == 0 && h.any)
        rc = find_pairs(&p, st, &h, &a);
    if (rc == 0 && p.n)
        rc = add_rows(st, &a, &p, out);
    if (p.of_span)
        mem_unmap(p.of_span, p.nspan * sizeof(*p.of_span));
    mem_free(p.of_site);
    mem_free(p.pair);
    u64map_release(&p.index);
    attribution_release(&a);
    hardware_release(&h);
    return rc < 0 ? opm__fail(err, rc, "op_kernels: out of memory") : 0;
}
