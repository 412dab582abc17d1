/* op_stats.c -- time, throughput and spread of every operator. */
#include "analyze/analysis.h"
#include "analyze/op_figures.h"
#include "analyze/roof.h"
#include "base/error.h"

enum { Q50, Q90, Q95, Q99, NQ };
static const double quantiles[NQ] = { 0.5, 0.9, 0.95, 0.99 };

/* amount per execution over the time in which they did it; per ns, which is 10^9 per second. */
static struct cell rate(struct cell amount, int64_t count, int64_t work_ns)
{
    if (amount.kind != CELL_I64 || work_ns <= 0)
        return cell_null();
    return cell_f64((double)amount.i64 * (double)count / (double)work_ns);
}

int analyze_op_stats(const struct store *st, struct table *out, opm_error *err)
{
    const struct strpool *strings = store_strings(st);
    str_id device = strpool_find(strings, "device", 6), host = strpool_find(strings, "host", 4);
    struct op_figures all;
    struct roofs roofs = { 0 };
    int rc = op_figures_compute(&all, st, quantiles, NQ, false);

    if (rc == 0)
        rc = roofs_read(&roofs, st);

    for (size_t op = 0; op < all.nop && rc == 0; op++) {
        const struct group_stats *s = &all.op[op];
        struct cell flops = store_cell(st, TABLE_op, op, op_col_flops);
        struct cell bytes = store_cell(st, TABLE_op, op, op_col_bytes);
        struct cell c[op_stats_col_COUNT] = { 0 };

        c[op_stats_col_op] = cell_id((uint32_t)op);
        c[op_stats_col_name] = store_cell(st, TABLE_op, op, op_col_name);
        c[op_stats_col_type] = store_cell(st, TABLE_op, op, op_col_type);
        if (s->count)
            c[op_stats_col_section] = cell_str(all.in[SECTION_DEVICE][op].count ? device : host);
        c[op_stats_col_count] = cell_i64(s->count);
        c[op_stats_col_warmup_count] = cell_i64(s->warmup_count);
        c[op_stats_col_reshape_ns] = cell_i64(all.reshape_ns[op]);
        c[op_stats_col_flops] = flops;
        c[op_stats_col_bytes] = bytes;
        if (op_figures_timed(&all, op)) {
            c[op_stats_col_total_ns] = cell_i64(s->total_ns);
            c[op_stats_col_mean_ns] = cell_f64(s->mean_ns);
            c[op_stats_col_median_ns] = cell_f64(s->q[Q50]);
            c[op_stats_col_min_ns] = cell_i64(s->min_ns);
            c[op_stats_col_max_ns] = cell_i64(s->max_ns);
            c[op_stats_col_p90_ns] = cell_f64(s->q[Q90]);
            c[op_stats_col_p95_ns] = cell_f64(s->q[Q95]);
            c[op_stats_col_p99_ns] = cell_f64(s->q[Q99]);
            c[op_stats_col_stdev_ns] = cell_f64(s->stdev_ns);
            c[op_stats_col_self_ns] = cell_i64(s->self_ns);
            c[op_stats_col_typical_ns] = cell_i64(group_typical_ns(s));
            c[op_stats_col_interrupted] = cell_i64(s->interrupted);
            c[op_stats_col_interrupted_ns] = cell_i64(s->interrupted_ns);
            if (all.whole_ns > 0)
                c[op_stats_col_share] =
                    cell_f64(iterations_whole_ns(&all.op_iterations[op], group_typical_ns(s)) /
                             all.whole_ns);
            c[op_stats_col_gflops_per_s] = rate(flops, s->count, op_figures_work_ns(&all, op));
            c[op_stats_col_gbytes_per_s] = rate(bytes, s->count, op_figures_work_ns(&all, op));
            if (!all.kernels && s->count)
                roof_of(&roofs, op, (double)group_typical_ns(s) / (double)s->count,
                        &c[op_stats_col_roof], &c[op_stats_col_share_of_peak]);
        }
        rc = table_add(out, c);
    }
    roofs_release(&roofs);
    op_figures_release(&all);
    return rc < 0 ? opm__fail(err, rc, "op_stats: out of memory") : 0;
}
