/* op_times.c -- time, work and rates of every operator by section, per iteration. */
#include "analyze/analysis.h"
#include "analyze/interrupted.h"
#include "analyze/op_figures.h"
#include "analyze/redispatch.h"
#include "analyze/roof.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include <string.h>

enum { Q50, Q90, Q95, Q99, NQ };
static const double quantiles[NQ] = { 0.5, 0.9, 0.95, 0.99 };

/* What the rows of a section have in common. */
struct section_facts {
    str_id word;
    double self_ns; /* of all that stands in it, without interruptions, as if every step had been
                       recorded */
};

/* In steps the mean of an iteration, else of the whole trace. */
struct basis {
    double iterations; /* 1: of all */
    int64_t count, typical_ns, interrupted_ns, wait_ns;
};

static struct basis basis_of(const struct iterations *it, const struct group_stats *s)
{
    if (it->steps)
        return (struct basis){ .iterations = (double)it->steps,
                               .count = it->count,
                               .typical_ns = it->self_ns - it->interrupted_ns,
                               .interrupted_ns = it->interrupted_ns,
                               .wait_ns = it->wait_ns };
    return (struct basis){ .iterations = 1,
                           .count = s->count,
                           .typical_ns = group_typical_ns(s),
                           .interrupted_ns = s->interrupted_ns,
                           .wait_ns = s->wait_ns };
}

/* amount of one execution, of all that an iteration has. */
static struct cell work(const struct basis *b, struct cell amount, int64_t count)
{
    if (amount.kind != CELL_I64)
        return cell_null();
    return cell_f64((double)amount.i64 * (double)count / b->iterations);
}

static struct cell rate(struct cell amount, double ns)
{
    return amount.kind == CELL_F64 && ns > 0 ? cell_f64(amount.f64 * 1e9 / ns) : cell_null();
}

static void fill(struct cell *c, const struct section_facts *f, const struct iterations *it,
                 const struct group_stats *s)
{
    struct basis b = basis_of(it, s);
    double time_ns = (double)b.typical_ns / b.iterations;

    c[op_times_col_section] = cell_str(f->word);
    c[op_times_col_count] = cell_i64(s->count);
    c[op_times_col_warmup_count] = cell_i64(s->warmup_count);
    c[op_times_col_iterations] = it->steps ? cell_i64(it->steps) : cell_null();
    c[op_times_col_time_ns] = cell_f64(time_ns);
    c[op_times_col_interrupted] = cell_i64(s->interrupted);
    c[op_times_col_interrupted_ns] = cell_f64((double)b.interrupted_ns / b.iterations);
    if (s->wait_count) {
        double wait_ns = (double)b.wait_ns / b.iterations;

        c[op_times_col_wait_ns] = cell_f64(wait_ns);
        c[op_times_col_kernel_ns] = cell_f64(MAX(time_ns - wait_ns, 0));
    }
    if (f->self_ns > 0)
        c[op_times_col_share] = cell_f64(iterations_whole_ns(it, group_typical_ns(s)) / f->self_ns);
    c[op_times_col_total_ns] = cell_i64(s->total_ns);
    c[op_times_col_mean_ns] = cell_f64(s->mean_ns);
    c[op_times_col_median_ns] = cell_f64(s->q[Q50]);
    c[op_times_col_min_ns] = cell_i64(s->min_ns);
    c[op_times_col_max_ns] = cell_i64(s->max_ns);
    c[op_times_col_p90_ns] = cell_f64(s->q[Q90]);
    c[op_times_col_p95_ns] = cell_f64(s->q[Q95]);
    c[op_times_col_p99_ns] = cell_f64(s->q[Q99]);
    c[op_times_col_stdev_ns] = cell_f64(s->stdev_ns);
}

/* The word and the sum of one section over n groups. */
static struct section_facts facts_of(const struct store *st, enum section section,
                                     const struct iterations *it, const struct group_stats *s,
                                     size_t n)
{
    static const char *const words[] = { [SECTION_DEVICE] = "device", [SECTION_HOST] = "host" };
    const char *word = words[section];
    struct section_facts f = { .word = strpool_find(store_strings(st), word, strlen(word)) };

    for (size_t i = 0; i < n; i++)
        f.self_ns += iterations_whole_ns(&it[i], group_typical_ns(&s[i]));
    return f;
}

/* What an operator is: its name, type and work. */
static void fill_op(struct cell *c, const struct roofs *roofs, const struct op_figures *all,
                    enum section section, size_t op)
{
    const struct store *st = roofs->st;
    enum section from = section;
    struct basis b;

    /* Its kernels may be several to an execution. */
    if (all->kernels && all->in[SECTION_HOST][op].count)
        from = SECTION_HOST;
    b = basis_of(&all->iterations[from][op], &all->in[from][op]);
    c[op_times_col_op] = cell_id((uint32_t)op);
    c[op_times_col_name] = store_cell(st, TABLE_op, op, op_col_name);
    c[op_times_col_type] = store_cell(st, TABLE_op, op, op_col_type);
    c[op_times_col_computation] = work(&b, store_cell(st, TABLE_op, op, op_col_flops), b.count);
    c[op_times_col_memory] = work(&b, store_cell(st, TABLE_op, op, op_col_bytes), b.count);
    if (all->kernels && section == SECTION_HOST)
        return; /* it only launches */
    c[op_times_col_flops_per_s] = rate(c[op_times_col_computation], c[op_times_col_time_ns].f64);
    c[op_times_col_bytes_per_s] = rate(c[op_times_col_memory], c[op_times_col_time_ns].f64);
    if (!all->kernels && b.count)
        roof_of(roofs, op, (double)b.typical_ns / (double)b.count, &c[op_times_col_roof],
                &c[op_times_col_share_of_peak]);
}

static int add_ops(const struct roofs *roofs, const struct op_figures *all, struct table *out)
{
    const struct store *st = roofs->st;
    static const char *const kinds[] = {
#define X(kind, word) word,
        OWNER_KINDS(X)
#undef X
    };
    size_t n = all->nop + all->nowner;
    int rc = 0;

    for (int section = 0; section < SECTION_COUNT; section++) {
        const struct group_stats *in = all->in[section];
        struct section_facts f =
            facts_of(st, (enum section)section, all->iterations[section], in, n);

        for (size_t i = 0; i < n && rc == 0; i++) {
            struct cell c[op_times_col_COUNT] = { 0 };

            if (!in[i].count)
                continue;
            fill(c, &f, &all->iterations[section][i], &in[i]);
            if (i < all->nop) {
                fill_op(c, roofs, all, (enum section)section, i);
            } else {
                const struct owner *owner = &all->owner[i - all->nop];
                const char *kind = kinds[owner->kind];

                c[op_times_col_name] = cell_str(owner->name);
                c[op_times_col_type] =
                    cell_str(strpool_find(store_strings(st), kind, strlen(kind)));
            }
            rc = table_add(out, c);
        }
    }
    return rc;
}

/* Spans by name and category, the device's groups first. */
struct name_groups {
    uint32_t *group;     /* per site */
    struct site *first;  /* per group of one section: a site of it */
    uint32_t n;          /* groups of one section */
    struct u64map index; /* name and category -> group */
};

static int name_groups_init(struct name_groups *g, const struct store *st)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    bool device = false;

    g->group = mem_calloc(nsite, sizeof(*g->group));
    g->first = mem_calloc(nsite, sizeof(*g->first));
    if (!g->group || !g->first)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nsite; i++) {
        uint64_t key = (uint64_t)sites[i].name << 32 | sites[i].cat;
        const uint64_t *at = u64map_get(&g->index, key);

        if (!at && u64map_put(&g->index, key, g->n))
            return OPM_ENOMEM;
        g->group[i] = at ? (uint32_t)*at : g->n;
        if (!at)
            g->first[g->n++] = sites[i];
        device |= hardware && sites[i].layer == hardware;
    }
    for (size_t i = 0; i < nsite && device; i++)
        if (sites[i].layer != hardware)
            g->group[i] += g->n;
    return 0;
}

/* Of the sections from one on. */
static int add_names(const struct store *st, enum section first, struct table *out)
{
    struct name_groups g = { 0 };
    struct group_stats *stats = NULL;
    struct iterations *iterations = NULL;
    struct redispatch passed = { 0 };
    struct groups_query q;
    int rc = name_groups_init(&g, st);

    if (rc == 0) {
        stats = mem_calloc(SECTION_COUNT * (size_t)g.n, sizeof(*stats));
        iterations = mem_calloc(SECTION_COUNT * (size_t)g.n, sizeof(*iterations));
        rc = stats && iterations ? redispatch_find(&passed, st) : OPM_ENOMEM;
    }
    q = (struct groups_query){ .group = g.group,
                               .passed_on = passed.to,
                               .ngroup = SECTION_COUNT * g.n,
                               .skip_warmup = true,
                               .wait = true,
                               .q = quantiles,
                               .nq = NQ };
    if (rc == 0)
        rc = groups_compute(st, &q, stats);
    if (rc == 0)
        rc = iterations_count(st,
                              &(struct iterations_query){ .group = g.group,
                                                          .passed_on = passed.to,
                                                          .ngroup = SECTION_COUNT * g.n,
                                                          .wait = true },
                              iterations);
    if (rc == 0 && g.n)
        rc = interrupted_find(st, &q, g.n, 0, stats, iterations);
    for (int section = first; section < SECTION_COUNT && rc == 0; section++) {
        const struct group_stats *in = stats + (size_t)section * g.n;
        struct section_facts f =
            facts_of(st, (enum section)section, iterations + (size_t)section * g.n, in, g.n);

        for (uint32_t i = 0; i < g.n && rc == 0; i++) {
            struct cell c[op_times_col_COUNT] = { 0 };

            if (!in[i].count)
                continue;
            fill(c, &f, &iterations[(size_t)section * g.n + i], &in[i]);
            c[op_times_col_name] = cell_str(g.first[i].name);
            c[op_times_col_type] = cell_str(g.first[i].cat);
            rc = table_add(out, c);
        }
    }
    redispatch_release(&passed);
    mem_free(iterations);
    mem_free(stats);
    mem_free(g.first);
    mem_free(g.group);
    u64map_release(&g.index);
    return rc;
}

int analyze_op_times(const struct store *st, struct table *out, opm_error *err)
{
    struct op_figures all;
    struct roofs roofs = { 0 };
    int rc = op_figures_compute(&all, st, quantiles, NQ, true);
    bool any = false;

    if (rc == 0)
        rc = roofs_read(&roofs, st);
    if (rc == 0)
        rc = add_ops(&roofs, &all, out);
    for (size_t i = 0; rc == 0 && i < all.nop; i++)
        any |= all.op[i].count > 0;
    roofs_release(&roofs);
    op_figures_release(&all);
    if (rc == 0 && !any)
        rc = add_names(st, out->nrow ? SECTION_HOST : SECTION_DEVICE, out);
    return rc < 0 ? opm__fail(err, rc, "op_times: out of memory") : 0;
}
