/* span_stats.c -- time by name, category and layer. */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

enum { Q50, Q99, NQ };
static const double quantiles[NQ] = { 0.5, 0.99 };

/* What a group is called, and which site it comes from. */
struct key {
    str_id name;
    str_id cat;
    str_id layer;
    uint32_t site;
};

struct ranked {
    int64_t self_ns;
    uint32_t group;
};

static int same_key(const struct key *x, const struct key *y)
{
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    if (x->cat != y->cat)
        return x->cat < y->cat ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = same_key(x, y);

    return order ? order : x->site < y->site ? -1 : x->site > y->site;
}

static int by_self(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->self_ns != y->self_ns)
        return x->self_ns < y->self_ns ? 1 : -1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* Number the distinct keys and leave key[g] with the first of each. Returns how many there are. */
static uint32_t number_groups(struct key *key, size_t nsite, uint32_t *group)
{
    uint32_t n = 0;

    qsort(key, nsite, sizeof(*key), by_key);
    for (size_t i = 0; i < nsite; i++) {
        if (n == 0 || same_key(&key[n - 1], &key[i]) != 0)
            key[n++] = key[i];
        group[key[i].site] = n - 1;
    }
    return n;
}

static int add_row(struct table *out, const struct key *key, const struct group_stats *s,
                   int64_t all_ns)
{
    struct cell c[span_stats_col_COUNT] = { 0 };

    c[span_stats_col_name] = cell_str(key->name);
    c[span_stats_col_cat] = cell_str(key->cat);
    c[span_stats_col_layer] = cell_str(key->layer);
    c[span_stats_col_count] = cell_i64(s->count);
    if (s->count > 0) {
        c[span_stats_col_total_ns] = cell_i64(s->total_ns);
        c[span_stats_col_self_ns] = cell_i64(s->self_ns);
        c[span_stats_col_mean_ns] = cell_f64(s->mean_ns);
        c[span_stats_col_median_ns] = cell_f64(s->q[Q50]);
        c[span_stats_col_min_ns] = cell_i64(s->min_ns);
        c[span_stats_col_max_ns] = cell_i64(s->max_ns);
        c[span_stats_col_p99_ns] = cell_f64(s->q[Q99]);
        if (all_ns > 0)
            c[span_stats_col_share] = cell_f64((double)s->self_ns / (double)all_ns);
    }
    return table_add(out, c);
}

int analyze_span_stats(const struct store *st, struct table *out, opm_error *err)
{
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    uint32_t *group = mem_calloc(nsite, sizeof(*group));
    struct key *key = mem_calloc(nsite, sizeof(*key));
    struct group_stats *stats = NULL;
    struct ranked *ranked = NULL;
    int64_t all_ns = 0;
    uint32_t ngroup;
    int rc = OPM_ENOMEM;

    if (!group || !key)
        goto out;
    for (uint32_t i = 0; i < nsite; i++)
        key[i] = (struct key){ sites[i].name, sites[i].cat, sites[i].layer, i };
    ngroup = number_groups(key, nsite, group);
    stats = mem_calloc(ngroup, sizeof(*stats));
    ranked = mem_calloc(ngroup, sizeof(*ranked));
    if (!stats || !ranked)
        goto out;
    rc = groups_compute(
        st, &(struct groups_query){ .group = group, .ngroup = ngroup, .q = quantiles, .nq = NQ },
        stats);
    if (rc < 0)
        goto out;
    for (uint32_t g = 0; g < ngroup; g++) {
        ranked[g] = (struct ranked){ stats[g].self_ns, g };
        all_ns = add_ns(all_ns, stats[g].self_ns);
    }
    qsort(ranked, ngroup, sizeof(*ranked), by_self);
    for (uint32_t i = 0; i < ngroup && rc == 0; i++) {
        uint32_t g = ranked[i].group;

        /* Sites may be defined and never used. */
        if (stats[g].count || stats[g].open_count)
            rc = add_row(out, &key[g], &stats[g], all_ns);
    }
out:
    mem_free(ranked);
    mem_free(stats);
    mem_free(key);
    mem_free(group);
    return rc < 0 ? opm__fail(err, rc, "span_stats: out of memory") : 0;
}
