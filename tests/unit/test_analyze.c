/* test_analyze.c -- the analyses against slow and obvious computations of the same figures. */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "base/quantile.h"
#include "section_rig.h"
#include "trace_rig.h"

#include <math.h>

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* A quantile the slow way. */
static double naive_quantile(const int64_t *sorted, size_t n, double q)
{
    double pos = q * (double)(n - 1);
    size_t lo = (size_t)pos, hi = MIN(lo + 1, n - 1);

    return (double)sorted[lo] + ((double)sorted[hi] - (double)sorted[lo]) * (pos - (double)lo);
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)) + 1e-9))
        fail_msg("%.17g is not %.17g", a, b);
}

static int64_t draw(int kind)
{
    int64_t wide = (int64_t)((uint64_t)rig_random(1u << 31) << 33 ^ (uint64_t)rig_random(1u << 31));

    switch (kind) {
    case 0:
        return 7;
    case 1:
        return rig_random(10);
    case 2:
        return 1000000 + rig_random(1000);
    case 3: /* a long tail */
        return (int64_t)1 << rig_random(62);
    case 4: /* two heaps, far apart */
        return rig_random(2) ? 5 + rig_random(3) : 1000000000000 + rig_random(3);
    case 5:
        return rig_random(2) ? INT64_MAX : INT64_MIN;
    case 6: /* neighbours that one double stands for */
        return ((int64_t)1 << 60) + rig_random(100);
    case 7:
        return -(int64_t)rig_random(1000);
    default:
        return wide;
    }
}

static void test_quantiles(void **state)
{
    static const double q[] = { 0, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1 };
    enum { N = 6000 };
    int64_t *v = malloc(N * sizeof(*v)), *sorted = malloc(N * sizeof(*v));

    (void)state;
    assert_non_null(v);
    assert_non_null(sorted);
    for (int kind = 0; kind < 9; kind++) {
        for (size_t n = 1; n <= N; n += n < 130 ? 1 : 977) {
            double out[ARRAY_SIZE(q)];

            for (size_t i = 0; i < n; i++)
                v[i] = sorted[i] = draw(kind);
            qsort(sorted, n, sizeof(*sorted), by_value);
            quantiles_i64(v, n, q, ARRAY_SIZE(q), out);
            for (size_t i = 0; i < ARRAY_SIZE(q); i++)
                assert_near(out[i], naive_quantile(sorted, n, q[i]));
            /* in another order, but all of them */
            qsort(v, n, sizeof(*v), by_value);
            assert_memory_equal(v, sorted, n * sizeof(*v));
        }
    }
    free(v);
    free(sorted);
}

static void test_quantile_keys(void **state)
{
    static const double values[] = { -INFINITY, -1e300, -2.5, -0.0, 0.0, 1e-300, 0.5, 3, 1e300 };
    static const double half = 0.5;
    int64_t key[ARRAY_SIZE(values)];
    double out;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        key[i] = quantile_key(values[i]);
        assert_true(quantile_unkey(key[i]) == values[i]);
        if (i)
            assert_true(key[i - 1] <= key[i]);
    }
    quantiles_keys(key, ARRAY_SIZE(values), &half, 1, &out);
    assert_true(out == 0);
}

/* What should be in a group, collected the slow way. */
struct naive {
    int64_t *v;
    size_t n;
    int64_t self;
    int64_t warmup;
    bool untimed; /* it only has time on the host, and others launch kernels */
};

static int64_t number(const struct store *st, enum table_id t, size_t row, int col, int64_t none)
{
    struct cell c = store_cell(st, t, row, col);

    return c.kind == CELL_I64 ? c.i64 : none;
}

static str_id string(const struct store *st, enum table_id t, size_t row, int col)
{
    struct cell c = store_cell(st, t, row, col);

    return c.kind == CELL_STR ? c.str : 0;
}

static bool warmup(const struct store *st, size_t span)
{
    int64_t step = number(st, TABLE_span, span, span_col_step, -1);
    int64_t record = number(st, TABLE_span, span, span_col_record, -1);

    return (step >= 0 && number(st, TABLE_step, (size_t)step, step_col_warmup, 0) == 1) ||
           (record >= 0 && number(st, TABLE_record, (size_t)record, record_col_warmup, 0) == 1);
}

static void naive_add(struct naive *g, const struct store *st, size_t span, bool skip_warmup)
{
    int64_t dur = number(st, TABLE_span, span, span_col_dur, -1);

    if (dur < 0)
        return;
    if (skip_warmup && warmup(st, span)) {
        g->warmup++;
        return;
    }
    g->v[g->n++] = dur;
    g->self += number(st, TABLE_span, span, span_col_self, 0);
}

static struct naive naive_make(const struct store *st)
{
    struct naive g = { .v = calloc(store_nrow(st, TABLE_span) + store_nrow(st, TABLE_step) +
                                       store_nrow(st, TABLE_record) + 1,
                                   sizeof(int64_t)) };

    assert_non_null(g.v);
    return g;
}

static int64_t total(const struct naive *g)
{
    int64_t sum = 0;

    for (size_t i = 0; i < g->n; i++)
        sum += g->v[i];
    return sum;
}

static double stdev(const struct naive *g)
{
    double mean = (double)total(g) / (double)g->n, sum = 0;

    for (size_t i = 0; i < g->n; i++)
        sum += ((double)g->v[i] - mean) * ((double)g->v[i] - mean);
    return sqrt(sum / (double)(g->n - 1));
}

static void assert_i64(const struct table *t, size_t row, int col, int64_t v)
{
    struct cell c = table_cell(t, row, col);

    assert_int_equal(c.kind, CELL_I64);
    assert_int_equal(c.i64, v);
}

static void assert_f64(const struct table *t, size_t row, int col, double v)
{
    struct cell c = table_cell(t, row, col);

    assert_int_equal(c.kind, CELL_F64);
    assert_near(c.f64, v);
}

static void assert_na(const struct table *t, size_t row, int col)
{
    if (table_cell(t, row, col).kind != CELL_NULL)
        fail_msg("%s.%s row %zu is not NULL", t->def->name, t->def->col[col].name, row);
}

static struct table run(const struct store *st, enum analysis_id id)
{
    struct table t;
    opm_error err;

    if (analysis_run(st, id, &t, &err) < 0)
        fail_msg("%s", err.msg);
    return t;
}

static struct store *make(const struct rig *rig, uint64_t seed)
{
    struct store *st = NULL;

    assert_int_equal(rig_make(&st, rig, seed), 0);
    assert_int_equal(analysis_intern_words(st), 0);
    return st;
}

static bool phase_is(const struct store *st, size_t span, const char *phase)
{
    str_id id = string(st, TABLE_span, span, span_col_phase);

    return phase ? id && strcmp(store_text(st, id), phase) == 0 : id == 0;
}

/* What the device did for every execution, instead of every kernel, if all kernels have one. */
static void naive_executions(struct naive *g, const struct store *st, int64_t op)
{
    size_t n = store_nrow(st, TABLE_span), execs = 0;
    int64_t *sum = calloc(n + 1, sizeof(*sum)), warm = 0;
    bool *any = calloc(n + 1, sizeof(*any)), all = true, hardware;

    assert_non_null(sum);
    assert_non_null(any);
    for (size_t i = 0; i < n; i++) {
        int64_t dur = number(st, TABLE_span, i, span_col_dur, -1), by;

        if (rig_owner(st, i, &hardware) != op)
            continue;
        if (!hardware) {
            warm += dur >= 0 && warmup(st, i);
            continue;
        }
        if (dur < 0)
            continue;
        by = rig_execution(st, i, op);
        all &= by >= 0;
        if (by >= 0) {
            sum[by] += dur;
            any[by] = true;
        }
    }
    for (size_t i = 0; i < n; i++)
        execs += any[i] && !warmup(st, i) && number(st, TABLE_span, i, span_col_dur, -1) >= 0;
    if (all && execs) {
        g->n = 0;
        g->warmup = warm;
        for (size_t i = 0; i < n; i++)
            if (any[i] && !warmup(st, i) && number(st, TABLE_span, i, span_col_dur, -1) >= 0)
                g->v[g->n++] = sum[i];
    }
    free(sum);
    free(any);
}

static struct naive naive_op(const struct store *st, int64_t op, int64_t *reshape)
{
    struct naive g = naive_make(st);

    bool device = false, kernels = false, hardware;

    *reshape = OPM_NULL_I64;
    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        int64_t owner = rig_owner(st, i, &hardware);

        kernels |= owner >= 0 && number(st, TABLE_span, i, span_col_op, -1) < 0;
        device |= owner == op && hardware;
    }
    g.untimed = kernels && !device;
    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        int64_t dur = number(st, TABLE_span, i, span_col_dur, -1);

        if (rig_owner(st, i, &hardware) == op && hardware == device)
            naive_add(&g, st, i, true);
        if (number(st, TABLE_span, i, span_col_op, -1) == op && phase_is(st, i, "reshape") &&
            dur >= 0)
            *reshape = (*reshape == OPM_NULL_I64 ? 0 : *reshape) + dur;
    }
    if (device && kernels)
        naive_executions(&g, st, op);
    qsort(g.v, g.n, sizeof(*g.v), by_value);
    return g;
}

/* Self time in which an operator worked: on hardware, if it was seen there; 0 if others launch
 * kernels and it does not. */
static int64_t naive_work(const struct store *st, int64_t op, int64_t self)
{
    int64_t sum = 0, n = 0;
    bool hardware, kernels = false;

    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++)
        kernels |=
            number(st, TABLE_span, i, span_col_op, -1) < 0 && rig_owner(st, i, &hardware) >= 0;

    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        if (rig_owner(st, i, &hardware) != op || !hardware || warmup(st, i) ||
            number(st, TABLE_span, i, span_col_dur, -1) < 0)
            continue;
        sum += number(st, TABLE_span, i, span_col_self, 0);
        n++;
    }
    return n ? sum : kernels ? 0 : self;
}

static void check_op_stats(const struct store *st)
{
    struct table t = run(st, ANALYSIS_op_stats);
    int64_t all = 0;
    double share = 0;

    assert_int_equal(t.nrow, store_nrow(st, TABLE_op));
    for (size_t i = 0; i < t.nrow; i++) {
        struct cell c = table_cell(&t, i, op_stats_col_total_ns);

        all += c.kind == CELL_I64 ? c.i64 : 0;
    }
    for (size_t i = 0; i < t.nrow; i++) {
        int64_t reshape, flops = number(st, TABLE_op, i, op_col_flops, -1);
        struct naive g = naive_op(st, (int64_t)i, &reshape);

        assert_i64(&t, i, op_stats_col_op, (int64_t)i);
        assert_int_equal(table_cell(&t, i, op_stats_col_name).str,
                         store_cell(st, TABLE_op, i, op_col_name).str);
        assert_i64(&t, i, op_stats_col_count, (int64_t)g.n);
        assert_i64(&t, i, op_stats_col_warmup_count, g.warmup);
        if (reshape == OPM_NULL_I64)
            assert_na(&t, i, op_stats_col_reshape_ns);
        else
            assert_i64(&t, i, op_stats_col_reshape_ns, reshape);
        if (g.n == 0 || g.untimed) {
            assert_na(&t, i, op_stats_col_total_ns);
            assert_na(&t, i, op_stats_col_median_ns);
            assert_na(&t, i, op_stats_col_share);
            assert_na(&t, i, op_stats_col_gflops_per_s);
        } else {
            assert_i64(&t, i, op_stats_col_total_ns, total(&g));
            assert_f64(&t, i, op_stats_col_mean_ns, (double)total(&g) / (double)g.n);
            assert_f64(&t, i, op_stats_col_median_ns, naive_quantile(g.v, g.n, 0.5));
            assert_f64(&t, i, op_stats_col_p90_ns, naive_quantile(g.v, g.n, 0.9));
            assert_f64(&t, i, op_stats_col_p95_ns, naive_quantile(g.v, g.n, 0.95));
            assert_f64(&t, i, op_stats_col_p99_ns, naive_quantile(g.v, g.n, 0.99));
            assert_i64(&t, i, op_stats_col_min_ns, g.v[0]);
            assert_i64(&t, i, op_stats_col_max_ns, g.v[g.n - 1]);
            assert_i64(&t, i, op_stats_col_self_ns, g.self);
            if (g.n > 1)
                assert_f64(&t, i, op_stats_col_stdev_ns, stdev(&g));
            else
                assert_na(&t, i, op_stats_col_stdev_ns);
            if (all > 0)
                share += table_cell(&t, i, op_stats_col_share).f64;
            if (flops < 0 || naive_work(st, (int64_t)i, g.self) == 0)
                assert_na(&t, i, op_stats_col_gflops_per_s);
            else
                assert_f64(&t, i, op_stats_col_gflops_per_s,
                           (double)flops * (double)g.n /
                               (double)naive_work(st, (int64_t)i, g.self));
        }
        free(g.v);
    }
    if (all > 0)
        assert_near(share, 1);
    table_release(&t);
}

static void check_type_stats(const struct store *st)
{
    struct table ops = run(st, ANALYSIS_op_stats), t = run(st, ANALYSIS_type_stats);
    int64_t before = INT64_MAX, rows = 0;

    for (size_t i = 0; i < t.nrow; i++) {
        struct cell type = table_cell(&t, i, type_stats_col_type);
        int64_t n = 0, count = 0, timed = 0, sum = 0, self = 0, flops_ns = 0;
        double flops = 0;
        bool known = false;

        for (size_t op = 0; op < ops.nrow; op++) {
            struct cell other = table_cell(&ops, op, op_stats_col_type);
            struct cell f = table_cell(&ops, op, op_stats_col_flops);
            int64_t c = table_cell(&ops, op, op_stats_col_count).i64;

            if (other.kind != type.kind || (type.kind == CELL_STR && other.str != type.str))
                continue;
            n++;
            count += c;
            if (table_cell(&ops, op, op_stats_col_total_ns).kind == CELL_NULL)
                continue;
            timed += c;
            sum += table_cell(&ops, op, op_stats_col_total_ns).i64;
            self += table_cell(&ops, op, op_stats_col_self_ns).i64;
            if (f.kind == CELL_I64) {
                known = true;
                flops += (double)f.i64 * (double)c;
                flops_ns +=
                    naive_work(st, (int64_t)op, table_cell(&ops, op, op_stats_col_self_ns).i64);
            }
        }
        rows += n;
        assert_i64(&t, i, type_stats_col_ops, n);
        assert_i64(&t, i, type_stats_col_count, count);
        if (!timed) {
            assert_na(&t, i, type_stats_col_total_ns);
            continue;
        }
        assert_i64(&t, i, type_stats_col_total_ns, sum);
        assert_i64(&t, i, type_stats_col_self_ns, self);
        assert_f64(&t, i, type_stats_col_mean_ns, (double)sum / (double)timed);
        if (known)
            assert_i64(&t, i, type_stats_col_flops, (int64_t)flops);
        else
            assert_na(&t, i, type_stats_col_flops);
        if (known && flops_ns)
            assert_f64(&t, i, type_stats_col_gflops_per_s, flops / (double)flops_ns);
        assert_true(sum <= before);
        before = sum;
    }
    assert_int_equal(rows, ops.nrow);
    table_release(&t);
    table_release(&ops);
}

static void check_span_stats(const struct store *st)
{
    struct table t = run(st, ANALYSIS_span_stats);
    size_t nspan = store_nrow(st, TABLE_span), seen = 0;
    int64_t all_self = 0, before = INT64_MAX;

    for (size_t i = 0; i < nspan; i++)
        all_self += number(st, TABLE_span, i, span_col_self, 0);
    for (size_t i = 0; i < t.nrow; i++) {
        struct naive g = naive_make(st);
        str_id name = table_cell(&t, i, span_stats_col_name).str;
        str_id cat = table_cell(&t, i, span_stats_col_cat).str;
        str_id layer = table_cell(&t, i, span_stats_col_layer).str;

        for (size_t s = 0; s < nspan; s++) {
            if (string(st, TABLE_span, s, span_col_name) == name &&
                string(st, TABLE_span, s, span_col_cat) == cat &&
                string(st, TABLE_span, s, span_col_layer) == layer) {
                naive_add(&g, st, s, false);
                seen++;
            }
        }
        qsort(g.v, g.n, sizeof(*g.v), by_value);
        assert_i64(&t, i, span_stats_col_count, (int64_t)g.n);
        if (g.n == 0) {
            assert_na(&t, i, span_stats_col_total_ns);
        } else {
            assert_i64(&t, i, span_stats_col_total_ns, total(&g));
            assert_i64(&t, i, span_stats_col_self_ns, g.self);
            assert_f64(&t, i, span_stats_col_mean_ns, (double)total(&g) / (double)g.n);
            assert_f64(&t, i, span_stats_col_median_ns, naive_quantile(g.v, g.n, 0.5));
            assert_f64(&t, i, span_stats_col_p99_ns, naive_quantile(g.v, g.n, 0.99));
            assert_i64(&t, i, span_stats_col_min_ns, g.v[0]);
            assert_i64(&t, i, span_stats_col_max_ns, g.v[g.n - 1]);
            if (all_self > 0)
                assert_f64(&t, i, span_stats_col_share, (double)g.self / (double)all_self);
            assert_true(g.self <= before);
            before = g.self;
        }
        free(g.v);
    }
    assert_int_equal(seen, nspan); /* every span is in exactly one row */
    table_release(&t);
}

/* How much the n stretches at[2 i] to at[2 i + 1] cover: between neighbouring ends, all or none. */
static int64_t naive_covered(const int64_t *at, size_t n)
{
    int64_t sum = 0, from = INT64_MIN;

    for (;;) {
        int64_t to = INT64_MAX;
        bool covered = false;

        for (size_t i = 0; i < 2 * n; i++)
            if (at[i] > from)
                to = MIN(to, at[i]);
        if (to == INT64_MAX)
            return sum;
        for (size_t i = 0; i < n; i++)
            covered |= at[2 * i] <= from && at[2 * i + 1] >= to;
        sum += covered ? to - from : 0;
        from = to;
    }
}

static void check_latency(const struct store *st)
{
    struct table t = run(st, ANALYSIS_latency);
    int64_t counted = 0, there = 0;

    for (size_t i = 0; i < t.nrow; i++) {
        const char *scope = store_text(st, table_cell(&t, i, latency_col_scope).str);
        bool steps = strcmp(scope, "step") == 0;
        enum table_id table = steps ? TABLE_step : TABLE_record;
        str_id name = table_cell(&t, i, latency_col_name).str;
        struct naive g = naive_make(st);
        int64_t *at = calloc(2 * store_nrow(st, table) + 2, sizeof(*at));

        assert_non_null(at);

        assert_true(steps || strcmp(scope, "record") == 0);
        for (size_t r = 0; r < store_nrow(st, table); r++) {
            int64_t ts = number(st, table, r, steps ? step_col_ts : record_col_ts, 0);
            int64_t dur = number(st, table, r, steps ? step_col_dur : record_col_dur, -1);

            if (string(st, table, r, steps ? step_col_model : record_col_label) != name || dur < 0)
                continue;
            if (number(st, table, r, steps ? step_col_warmup : record_col_warmup, 0) == 1) {
                g.warmup++;
                continue;
            }
            g.v[g.n++] = dur;
            at[2 * g.n - 2] = ts;
            at[2 * g.n - 1] = ts + dur;
        }
        qsort(g.v, g.n, sizeof(*g.v), by_value);
        counted += (int64_t)g.n + g.warmup;
        assert_i64(&t, i, latency_col_count, (int64_t)g.n);
        assert_i64(&t, i, latency_col_warmup_count, g.warmup);
        if (g.n == 0) {
            assert_na(&t, i, latency_col_min_ns);
            assert_na(&t, i, latency_col_per_second);
        } else {
            assert_i64(&t, i, latency_col_min_ns, g.v[0]);
            assert_i64(&t, i, latency_col_max_ns, g.v[g.n - 1]);
            assert_f64(&t, i, latency_col_mean_ns, (double)total(&g) / (double)g.n);
            assert_f64(&t, i, latency_col_median_ns, naive_quantile(g.v, g.n, 0.5));
            assert_f64(&t, i, latency_col_p97_ns, naive_quantile(g.v, g.n, 0.97));
            assert_f64(&t, i, latency_col_p999_ns, naive_quantile(g.v, g.n, 0.999));
            if (naive_covered(at, g.n) > 0)
                assert_f64(&t, i, latency_col_per_second,
                           (double)g.n * 1e9 / (double)naive_covered(at, g.n));
        }
        free(at);
        free(g.v);
    }
    for (size_t r = 0; r < store_nrow(st, TABLE_step); r++)
        there += number(st, TABLE_step, r, step_col_dur, -1) >= 0;
    for (size_t r = 0; r < store_nrow(st, TABLE_record); r++)
        there += number(st, TABLE_record, r, record_col_dur, -1) >= 0;
    assert_int_equal(counted, there);
    table_release(&t);
}

static void test_random_stores(void **state)
{
    static const struct rig rigs[] = {
        { .ntrack = 1, .nsite = 1, .nspan = 1 },
        { .ntrack = 3, .nop = 6, .nsite = 20, .nstep = 12, .nrecord = 7, .nspan = 400 },
        { .ntrack = 3,
          .nop = 6,
          .nsite = 20,
          .nstep = 12,
          .nrecord = 7,
          .nspan = 400,
          .warmup = true },
        { .ntrack = 7, .nop = 40, .nsite = 100, .nstep = 3, .nspan = 60, .warmup = true },
        { .ntrack = 2, .nsite = 9, .nrecord = 30, .nspan = 300 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rigs); i++) {
        for (uint64_t seed = 1; seed <= 8; seed++) {
            struct store *st = make(&rigs[i], seed);

            check_op_stats(st);
            check_type_stats(st);
            check_span_stats(st);
            check_latency(st);
            store_free(st);
        }
    }
}

static void test_empty(void **state)
{
    struct store *st;

    (void)state;
    assert_int_equal(store_new(&st), 0);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(analysis_intern_words(st), 0);
    for (int id = 0; id < ANALYSIS_COUNT; id++) {
        struct table t = run(st, (enum analysis_id)id);

        assert_int_equal(t.nrow, 0);
        table_release(&t);
    }
    store_free(st);
}

/* Enough spans for several threads; figures that can be told in advance. */
static void test_many_spans(void **state)
{
    enum { N = 1500000, OPS = 10 };
    struct store *st;
    struct span_block block;
    struct cell track[track_col_COUNT] = { 0 }, op[op_col_COUNT] = { 0 };
    uint32_t site[OPS];
    struct table t;

    (void)state;
    assert_int_equal(store_new(&st), 0);
    assert_int_equal(store_add(st, TABLE_track, track, NULL), 0);
    for (uint32_t i = 0; i < OPS; i++) {
        assert_int_equal(store_add(st, TABLE_op, op, NULL), 0);
        assert_int_equal(store_site(st, &(struct site){ .op = i }, &site[i]), 0);
    }
    assert_int_equal(store_add_span_block(st, 0, N, &block), 0);
    for (uint32_t i = 0; i < N; i++) {
        block.ts[i] = (int64_t)i * 2000000;
        block.dur[i] = i / OPS + 1; /* every op: 1 to N / OPS */
        block.site[i] = site[i % OPS];
    }
    assert_int_equal(store_finish(st), 0);
    t = run(st, ANALYSIS_op_stats);
    for (uint32_t i = 0; i < OPS; i++) {
        assert_i64(&t, i, op_stats_col_count, N / OPS);
        assert_i64(&t, i, op_stats_col_total_ns, (int64_t)(N / OPS) * (N / OPS + 1) / 2);
        assert_i64(&t, i, op_stats_col_min_ns, 1);
        assert_i64(&t, i, op_stats_col_max_ns, N / OPS);
        assert_f64(&t, i, op_stats_col_median_ns, (N / OPS + 1) / 2.0);
        assert_f64(&t, i, op_stats_col_p99_ns, 1 + 0.99 * (N / OPS - 1));
        assert_f64(&t, i, op_stats_col_share, 1.0 / OPS);
    }
    table_release(&t);
    store_free(st);
}

/* Sums that do not fit are cut, not wrapped. */
static void test_huge_durations(void **state)
{
    int64_t v[] = { INT64_MAX, INT64_MAX, 1, INT64_MAX - 1 };
    struct group_stats s = { 0 };

    (void)state;
    group_stats_of(&s, v, ARRAY_SIZE(v), NULL, 0);
    assert_int_equal(s.total_ns, INT64_MAX);
    assert_near(s.mean_ns, 0.75 * 9223372036854775807.0);
}

static const struct rig fault_rig = {
    .ntrack = 2, .nop = 4, .nsite = 8, .nstep = 6, .nrecord = 3, .nspan = 40, .warmup = true
};

static int make_and_analyse(void)
{
    struct store *st;
    int rc = rig_make(&st, &fault_rig, 3);

    if (rc < 0)
        return rc;
    rc = analysis_intern_words(st);
    for (int id = 0; id < ANALYSIS_COUNT && rc == 0; id++) {
        struct table t;
        opm_error err = { 0 };

        rc = analysis_run(st, (enum analysis_id)id, &t, &err);
        if (rc == 0)
            table_release(&t);
        else
            assert_int_equal(err.code, rc);
    }
    store_free(st);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(make_and_analyse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles),     cmocka_unit_test(test_quantile_keys),
        cmocka_unit_test(test_random_stores), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_many_spans),    cmocka_unit_test(test_huge_durations),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
