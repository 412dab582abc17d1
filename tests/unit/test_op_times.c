/* test_op_times.c -- times by section, runs of devices and what they computed, against slow and
 * obvious computations and against figures worked out by hand. */
#include "analyze/analysis.h"
#include "section_rig.h"
#include "trace_rig.h"

#include <math.h>

static struct table run(const struct store *st, enum analysis_id id)
{
    struct table t;
    opm_error err;

    if (analysis_run(st, id, &t, &err) < 0)
        fail_msg("%s", err.msg);
    return t;
}

static double real(const struct table *t, size_t row, int col)
{
    struct cell c = table_cell(t, row, col);

    return c.kind == CELL_F64 ? c.f64 : c.kind == CELL_I64 ? (double)c.i64 : NAN;
}

static bool is_warmup(const struct store *st, size_t row)
{
    int64_t step = rig_number(st, row, span_col_step),
            record = rig_number(st, row, span_col_record);

    return (step >= 0 && store_cell(st, TABLE_step, (size_t)step, step_col_warmup).i64 == 1) ||
           (record >= 0 &&
            store_cell(st, TABLE_record, (size_t)record, record_col_warmup).i64 == 1);
}

/* Self time, wait and executions of an operator on one side. */
struct naive {
    double self, wait, count;
    double steps, step_self,
        step_wait; /* the steps recorded of its series, and what it has there */
};

static bool in_counted_step(const struct store *st, size_t span)
{
    int64_t step = rig_number(st, span, span_col_step);

    return step >= 0 && rig_counts(st, (size_t)step) &&
           rig_recorded(st, (size_t)step, rig_on_hardware(st, span));
}

/* An operator's spans are on one side, unless there are no sides. */
static struct naive naive(const struct store *st, int64_t op, bool want_hardware, bool sides)
{
    size_t nstep = store_nrow(st, TABLE_step);
    struct naive sum = { 0 };
    bool met[16][2] = { { false } };

    assert_true(nstep <= ARRAY_SIZE(met));
    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        bool hardware;

        if (rig_owner(st, i, &hardware) != op || (sides && hardware != want_hardware) ||
            rig_number(st, i, span_col_dur) < 0)
            continue;
        if (in_counted_step(st, i)) {
            sum.step_self += (double)rig_number(st, i, span_col_self);
            sum.step_wait += MAX((double)rig_number(st, i, span_col_wait), 0);
            for (size_t s = 0; s < nstep; s++)
                met[s][hardware] |=
                    rig_same_series(st, s, (size_t)rig_number(st, i, span_col_step));
        }
        if (is_warmup(st, i))
            continue;
        sum.self += (double)rig_number(st, i, span_col_self);
        sum.wait += MAX((double)rig_number(st, i, span_col_wait), 0);
        sum.count++;
    }
    for (size_t s = 0; s < nstep; s++)
        for (int hardware = 0; hardware < 2; hardware++)
            sum.steps += met[s][hardware] && rig_counts(st, s) && rig_recorded(st, s, hardware);
    return sum;
}

static void check_times(const struct store *st)
{
    struct table t = run(st, ANALYSIS_op_times);
    bool sides = rig_has_device(st), any = false;
    double share[2] = { 0 };
    size_t seen = 0, rows = 0;

    for (size_t i = 0; i < t.nrow; i++)
        any |= table_cell(&t, i, op_times_col_op).kind != CELL_NULL;
    for (size_t op = 0; op < store_nrow(st, TABLE_op); op++) {
        for (int host = 0; host < 1 + sides; host++) {
            rows += naive(st, (int64_t)op, !host, sides).count > 0;
        }
    }
    assert_int_equal(any, rows > 0);
    for (size_t i = 0; i < t.nrow && any; i++) {
        const char *section = store_text(st, table_cell(&t, i, op_times_col_section).str);
        bool host = strcmp(section, "host") == 0;
        struct cell iterations = table_cell(&t, i, op_times_col_iterations);
        double time = real(&t, i, op_times_col_time_ns), self, wait;
        struct naive want;

        if (!isnan(real(&t, i, op_times_col_share)))
            share[host] += real(&t, i, op_times_col_share);
        if (table_cell(&t, i, op_times_col_op).kind == CELL_NULL)
            continue;
        want = naive(st, table_cell(&t, i, op_times_col_op).i64, !host, sides);
        self = want.steps > 0 ? want.step_self / want.steps : want.self;
        wait = want.steps > 0 ? want.step_wait / want.steps : want.wait;
        assert_true(want.steps > 0 ? iterations.i64 == (int64_t)want.steps
                                   : iterations.kind == CELL_NULL);
        assert_true(fabs(time - self) <= 1e-9 * self + 1e-9);
        assert_true(real(&t, i, op_times_col_count) == want.count);
        if (!isnan(real(&t, i, op_times_col_wait_ns)))
            assert_true(fabs(real(&t, i, op_times_col_wait_ns) - wait) <= 1e-9 * wait + 1e-9);
        seen++;
    }
    assert_int_equal(seen, any ? rows : 0);
    for (int i = 0; i < 2; i++)
        assert_true(share[i] == 0 || fabs(share[i] - 1) < 1e-9);
    table_release(&t);
}

static void check_executions(const struct store *st)
{
    struct table t = run(st, ANALYSIS_executions);

    for (size_t i = 0; i < t.nrow; i++) {
        double total = real(&t, i, executions_col_total_ns);
        double busy = real(&t, i, executions_col_run_ns);
        double wait = real(&t, i, executions_col_io_wait_ns);

        assert_true(total >= 0);
        assert_int_equal(isnan(busy), isnan(wait));
        assert_true(isnan(busy) || (busy >= 0 && wait >= 0 && busy + wait == total));
    }
    table_release(&t);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        const struct rig rig = { .ntrack = 1 + seed % 4,
                                 .nop = seed % 6,
                                 .nsite = 12,
                                 .nstep = seed % 5,
                                 .nrecord = seed % 3,
                                 .nspan = 150,
                                 .warmup = seed % 2 };
        struct store *st = NULL;

        assert_int_equal(rig_make(&st, &rig, seed), 0);
        assert_int_equal(analysis_intern_words(st), 0);
        check_times(st);
        check_executions(st);
        store_free(st);
    }
}

/* -- by hand -- */

struct made {
    struct store *st;
    uint32_t track[2]; /* a thread, a stream */
};

static str_id word(struct store *st, const char *s)
{
    str_id id = 0;

    assert_int_equal(store_cstr(st, s, &id), 0);
    return id;
}

static struct made make(uint32_t nop)
{
    struct made m = { 0 };

    assert_int_equal(store_new(&m.st), 0);
    for (int i = 0; i < 2; i++) {
        struct cell c[track_col_COUNT] = { 0 };

        c[track_col_kind] = cell_str(word(m.st, i ? "stream" : "thread"));
        assert_int_equal(store_add(m.st, TABLE_track, c, &m.track[i]), 0);
    }
    for (uint32_t i = 0; i < nop; i++) {
        struct cell c[op_col_COUNT] = { 0 };

        c[op_col_name] = cell_str(word(m.st, i ? "second" : "first"));
        c[op_col_type] = cell_str(word(m.st, "Conv"));
        c[op_col_flops] = i ? cell_null() : cell_i64(1000);
        c[op_col_bytes] = cell_i64(200);
        assert_int_equal(store_add(m.st, TABLE_op, c, NULL), 0);
    }
    return m;
}

static uint32_t span(struct made *m, const char *name, const char *layer, uint32_t op, int64_t ts,
                     int64_t dur, int64_t correlation)
{
    struct span_row row = SPAN_ROW_INIT;
    struct site site = { .name = word(m->st, name), .layer = word(m->st, layer), .op = op };
    uint32_t id;

    row.ts_ns = ts;
    row.dur_ns = dur;
    row.track = m->track[strcmp(layer, "hardware") == 0];
    row.correlation = correlation;
    assert_int_equal(store_site(m->st, &site, &row.site), 0);
    assert_int_equal(store_add_span(m->st, &row, &id), 0);
    return id;
}

static void add_step(struct made *m, const char *model, int64_t ts, int64_t dur, int64_t warmup)
{
    struct cell c[step_col_COUNT] = { 0 };

    c[step_col_model] = cell_str(word(m->st, model));
    c[step_col_ts] = cell_i64(ts);
    c[step_col_dur] = cell_i64(dur);
    c[step_col_warmup] = cell_i64(warmup);
    assert_int_equal(store_add(m->st, TABLE_step, c, NULL), 0);
}

static struct table finish(struct made *m, enum analysis_id id)
{
    assert_int_equal(store_finish(m->st), 0);
    assert_int_equal(analysis_intern_words(m->st), 0);
    return run(m->st, id);
}

/* A kernel counts for the operator around its launch, on the device; the rest is the host's. */
static void test_launched(void **state)
{
    struct made m = make(2);
    struct table t;

    (void)state;
    span(&m, "first", "framework", 0, 0, 100, OPM_NULL_I64);
    span(&m, "launch", "runtime", OPM_NULL_ID, 10, 5, 7);
    span(&m, "second", "framework", 1, 200, 50, OPM_NULL_I64);
    span(&m, "kernel", "hardware", OPM_NULL_ID, 300, 1000, 7);
    span(&m, "nobody's", "hardware", OPM_NULL_ID, 2000, 10, 8);
    t = finish(&m, ANALYSIS_op_times);
    assert_int_equal(t.nrow, 4);
    assert_string_equal(store_text(m.st, table_cell(&t, 0, op_times_col_section).str), "device");
    assert_true(real(&t, 0, op_times_col_time_ns) == 1000);
    assert_true(real(&t, 0, op_times_col_flops_per_s) == 1e9);
    assert_true(real(&t, 0, op_times_col_bytes_per_s) == 2e8);
    assert_string_equal(store_text(m.st, table_cell(&t, 1, op_times_col_name).str), "nobody's");
    assert_true(real(&t, 1, op_times_col_time_ns) == 10);
    assert_string_equal(store_text(m.st, table_cell(&t, 2, op_times_col_section).str), "host");
    assert_true(real(&t, 2, op_times_col_time_ns) == 95); /* without the launch */
    assert_true(real(&t, 3, op_times_col_time_ns) == 50);
    assert_true(isnan(real(&t, 3, op_times_col_computation)));
    table_release(&t);
    store_free(m.st);
}

/* Per measured iteration, of either model. */
static void test_iterations(void **state)
{
    (void)state;
    for (int models = 1; models <= 2; models++) {
        struct made m = make(1);
        struct table t;

        add_step(&m, "m", 0, 100, 1);
        add_step(&m, "m", 100, 100, 0);
        add_step(&m, models == 1 ? "m" : "n", 200, 100, 0);
        for (int i = 0; i < 3; i++)
            span(&m, "first", "framework", 0, 100 * i, 10 + i, OPM_NULL_I64);
        t = finish(&m, ANALYSIS_op_times);
        assert_int_equal(t.nrow, 1);
        assert_true(real(&t, 0, op_times_col_time_ns) == 11.5);
        assert_true(real(&t, 0, op_times_col_computation) == 1000);
        assert_true(real(&t, 0, op_times_col_warmup_count) == 1);
        assert_true(real(&t, 0, op_times_col_iterations) == 2);
        table_release(&t);
        store_free(m.st);
    }
}

/* Steps that another line marked, with no operator in them, are no iterations of operators. */
static void test_foreign_steps(void **state)
{
    struct made m = make(1);
    struct table t;

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct cell c[step_col_COUNT] = { 0 };

        c[step_col_ts] = cell_i64(100 * i);
        c[step_col_dur] = cell_i64(100);
        c[step_col_track] = cell_id(m.track[i > 1]);
        assert_int_equal(store_add(m.st, TABLE_step, c, NULL), 0);
    }
    span(&m, "first", "framework", 0, 10, 30, OPM_NULL_I64);
    span(&m, "first", "framework", 0, 110, 50, OPM_NULL_I64);
    t = finish(&m, ANALYSIS_op_times);
    assert_int_equal(t.nrow, 1);
    assert_true(real(&t, 0, op_times_col_iterations) == 2);
    assert_true(real(&t, 0, op_times_col_time_ns) == 40);
    table_release(&t);
    store_free(m.st);
}

/* What the source says it waited is taken off the kernel's time. */
static void test_wait(void **state)
{
    struct made m = make(1);
    struct table t;
    uint32_t id = span(&m, "first", "hardware", 0, 0, 100, OPM_NULL_I64);

    (void)state;
    assert_int_equal(store_span_set_wait(m.st, id, 30), 0);
    span(&m, "other", "app", OPM_NULL_ID, -5, 3, OPM_NULL_I64); /* moves the first one */
    t = finish(&m, ANALYSIS_op_times);
    assert_true(real(&t, 0, op_times_col_wait_ns) == 30);
    assert_true(real(&t, 0, op_times_col_kernel_ns) == 70);
    table_release(&t);
    store_free(m.st);
}

/* No operators: spans by name and category. */
static void test_names(void **state)
{
    struct made m = make(0);
    struct table t;

    (void)state;
    span(&m, "a", "app", OPM_NULL_ID, 0, 10, OPM_NULL_I64);
    span(&m, "b", "app", OPM_NULL_ID, 2, 4, OPM_NULL_I64);
    span(&m, "a", "hardware", OPM_NULL_ID, 0, 7, OPM_NULL_I64);
    t = finish(&m, ANALYSIS_op_times);
    assert_int_equal(t.nrow, 3);
    assert_true(real(&t, 0, op_times_col_time_ns) == 7); /* the device's come first */
    assert_true(real(&t, 1, op_times_col_time_ns) == 6);
    assert_true(real(&t, 2, op_times_col_time_ns) == 4);
    assert_int_equal(table_cell(&t, 0, op_times_col_op).kind, CELL_NULL);
    table_release(&t);
    store_free(m.st);
}

/* Without anything that holds kernels, a step's part of a stream is a run. */
static void test_steps_are_runs(void **state)
{
    struct made m = make(0);
    struct table t;

    (void)state;
    add_step(&m, "m", 0, 100, 0);
    add_step(&m, "m", 100, 100, 0);
    span(&m, "Memcpy HtoD", "hardware", OPM_NULL_ID, 5, 10, OPM_NULL_I64);
    span(&m, "kernel", "hardware", OPM_NULL_ID, 20, 30, OPM_NULL_I64);
    span(&m, "kernel", "hardware", OPM_NULL_ID, 110, 40, OPM_NULL_I64);
    t = finish(&m, ANALYSIS_executions);
    assert_int_equal(t.nrow, 2);
    assert_true(real(&t, 0, executions_col_total_ns) == 45);
    assert_true(real(&t, 0, executions_col_run_ns) == 30);
    assert_true(real(&t, 0, executions_col_io_wait_ns) == 15);
    assert_true(real(&t, 1, executions_col_run_ns) == 40);
    table_release(&t);
    t = run(m.st, ANALYSIS_device_ops);
    assert_int_equal(t.nrow, 1); /* copies compute nothing */
    assert_true(real(&t, 0, device_ops_col_count) == 2);
    assert_true(real(&t, 0, device_ops_col_mean_ns) == 35);
    table_release(&t);
    store_free(m.st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),         cmocka_unit_test(test_launched),
        cmocka_unit_test(test_iterations),     cmocka_unit_test(test_foreign_steps),
        cmocka_unit_test(test_wait),           cmocka_unit_test(test_names),
        cmocka_unit_test(test_steps_are_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
