/* type_stats.c -- operator statistics by type of operator. */
#include "analyze/analysis.h"
#include "analyze/op_figures.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include <stdlib.h>

struct type {
    str_id name;  /* 0: operators without a type */
    size_t order; /* of first appearance */
    int64_t ops;
    int64_t count, timed; /* executions, and those of operators whose time is known */
    int64_t total_ns;
    int64_t self_ns;
    int64_t interrupted, interrupted_ns;
    double whole_ns;  /* without interruptions, as if every step had been recorded */
    double flops;     /* of all executions of operators whose FLOPs are known ... */
    int64_t flops_ns; /* ... and their time */
    bool flops_known;
};

static int by_total(const void *a, const void *b)
{
    const struct type *x = a, *y = b;
    int64_t x_ns = x->total_ns - x->interrupted_ns, y_ns = y->total_ns - y->interrupted_ns;

    if (x_ns != y_ns)
        return x_ns < y_ns ? 1 : -1;
    return x->order < y->order ? -1 : 1;
}

static void add_op(struct type *t, const struct op_figures *all, size_t op, struct cell flops)
{
    const struct group_stats *s = &all->op[op];

    t->ops++;
    t->count += s->count;
    if (!op_figures_timed(all, op))
        return;
    t->timed += s->count;
    t->total_ns = add_ns(t->total_ns, s->total_ns);
    t->self_ns = add_ns(t->self_ns, s->self_ns);
    t->interrupted += s->interrupted;
    t->interrupted_ns = add_ns(t->interrupted_ns, s->interrupted_ns);
    t->whole_ns += iterations_whole_ns(&all->op_iterations[op], group_typical_ns(s));
    if (flops.kind == CELL_I64 && s->count > 0) {
        t->flops_known = true;
        t->flops += (double)flops.i64 * (double)s->count;
        t->flops_ns = add_ns(t->flops_ns, op_figures_work_ns(all, op));
    }
}

static int add_row(struct table *out, const struct type *t, double all_ns)
{
    struct cell c[type_stats_col_COUNT] = { 0 };

    c[type_stats_col_type] = cell_str(t->name);
    c[type_stats_col_ops] = cell_i64(t->ops);
    c[type_stats_col_count] = cell_i64(t->count);
    if (t->timed > 0) {
        c[type_stats_col_total_ns] = cell_i64(t->total_ns);
        c[type_stats_col_mean_ns] = cell_f64((double)t->total_ns / (double)t->timed);
        c[type_stats_col_self_ns] = cell_i64(t->self_ns);
        c[type_stats_col_typical_ns] = cell_i64(t->self_ns - t->interrupted_ns);
        c[type_stats_col_interrupted] = cell_i64(t->interrupted);
        c[type_stats_col_interrupted_ns] = cell_i64(t->interrupted_ns);
        if (all_ns > 0)
            c[type_stats_col_share] = cell_f64(t->whole_ns / all_ns);
        if (t->flops_known && t->flops < 9.2e18)
            c[type_stats_col_flops] = cell_i64((int64_t)t->flops);
        if (t->flops_known && t->flops_ns > 0)
            c[type_stats_col_gflops_per_s] = cell_f64(t->flops / (double)t->flops_ns);
    }
    return table_add(out, c);
}

int analyze_type_stats(const struct store *st, struct table *out, opm_error *err)
{
    struct op_figures all;
    struct type *types = NULL;
    struct u64map index = { 0 };
    size_t ntype = 0, cap = 0;
    int rc = op_figures_compute(&all, st, NULL, 0, false);

    for (size_t op = 0; op < all.nop && rc == 0; op++) {
        struct cell name = store_cell(st, TABLE_op, op, op_col_type);
        str_id id = cell_text_id(name);
        uint64_t *at = u64map_get(&index, id);
        size_t i = at ? *at : ntype;

        if (!at) {
            if (!GROW(types, cap, ntype + 1)) {
                rc = OPM_ENOMEM;
                break;
            }
            types[ntype] = (struct type){ .name = id, .order = ntype };
            rc = u64map_put(&index, id, ntype++);
        }
        add_op(&types[i], &all, op, store_cell(st, TABLE_op, op, op_col_flops));
    }
    if (ntype)
        qsort(types, ntype, sizeof(*types), by_total);
    for (size_t i = 0; i < ntype && rc == 0; i++)
        rc = add_row(out, &types[i], all.whole_ns);
    u64map_release(&index);
    mem_free(types);
    op_figures_release(&all);
    return rc < 0 ? opm__fail(err, rc, "type_stats: out of memory") : 0;
}
