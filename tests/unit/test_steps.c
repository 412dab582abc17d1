/* test_steps.c -- steps, their parts, and what happened every nanosecond of them. */
#include "analyze/analysis.h"
#include "analyze/busy.h"
#include "store_unit.h"

static str_id text(struct store *st, const char *s)
{
    str_id id = 0;

    assert_int_equal(store_cstr(st, s, &id), 0);
    return id;
}

static void add(struct store *st, const char *layer, const char *cat, const char *name,
                uint32_t track, int64_t ts, int64_t dur)
{
    struct site site = { text(st, name), text(st, cat), text(st, layer), 0, NONE };
    struct span_row row = SPAN_ROW_INIT;

    row.ts_ns = ts;
    row.dur_ns = dur;
    row.track = track;
    assert_int_equal(store_site(st, &site, &row.site), 0);
    assert_int_equal(store_add_span(st, &row, &(uint32_t){ 0 }), 0);
}

static void add_step(struct store *st, int64_t num, int64_t ts, int64_t dur, bool warmup)
{
    struct cell c[step_col_COUNT] = { { 0 } };

    c[step_col_model] = cell_str(text(st, "model"));
    c[step_col_num] = cell_i64(num);
    c[step_col_ts] = cell_i64(ts);
    c[step_col_dur] = cell_i64(dur);
    c[step_col_warmup] = cell_i64(warmup);
    c[step_col_track] = cell_id(0);
    assert_int_equal(store_add(st, TABLE_step, c, NULL), 0);
}

static struct table run(struct store *st, enum analysis_id id)
{
    struct table t;

    assert_int_equal(store_finish(st), 0);
    assert_int_equal(analysis_intern_words(st), 0);
    assert_int_equal(analysis_run(st, id, &t, NULL), 0);
    return t;
}

static int64_t get(const struct table *t, size_t row, int col)
{
    struct cell c = table_cell(t, row, col);

    return c.kind == CELL_NULL ? NIL : c.i64;
}

static const char *get_text(const struct store *st, const struct table *t, size_t row, int col)
{
    struct cell c = table_cell(t, row, col);

    return c.kind == CELL_NULL ? "NULL" : store_text(st, c.str);
}

/* Every kind of work at every nanosecond, looked at one by one. */
static void buckets_against_brute_force(void **state)
{
    enum { LENGTH = 400, KINDS = 9 };
    static const struct {
        const char *layer, *cat, *name;
    } kind[KINDS] = {
        { "hardware", "kernel", "gemm" },      { "hardware", "kernel", "ncclAllReduce" },
        { "hardware", "gpu_memcpy", "HtoD" },  { "app", "dataloader", "next" },
        { "runtime", "cuda_runtime", "sync" }, { "framework", "op", "aten::mm" },
        { "app", "python", "main" },           { "app", "phase", "forward" },
        { "runtime", "overhead", "buffers" },
    };

    (void)state;
    rng_state = 77;
    for (int round = 0; round < 200; round++) {
        struct store *st = make(3, 7, 0); /* asynchronous: spans may overlap as they like */
        bool on[KINDS][LENGTH] = { { false } };
        struct stretch stretch[4];
        int64_t ns[4 * BUCKET_COUNT], expect[4 * BUCKET_COUNT] = { 0 };
        bool device = false;

        add(st, "app", "phase", "from the start", 0, 0, LENGTH);
        for (uint32_t i = rng(30); i; i--) {
            uint32_t k = rng(KINDS), from = rng(LENGTH - 1), to = from + 1 + rng(60);

            to = MIN(to, (uint32_t)LENGTH);
            add(st, kind[k].layer, kind[k].cat, kind[k].name, rng(3), from, to - from);
            for (uint32_t t = from; t < to; t++)
                on[k][t] = true;
            device |= k == 0;
        }
        assert_int_equal(store_finish(st), 0);
        for (size_t i = 0; i < 4; i++) {
            int64_t from = rng(LENGTH), to = from + rng((uint32_t)(LENGTH - from));

            stretch[i] = (struct stretch){ from, to, OPM_NULL_I64, OPM_NULL_ID, OPM_NULL_ID };
            for (int64_t t = from; t < to; t++) {
                bool compute = on[0][t] || (on[5][t] && !device);
                enum bucket b = compute && on[1][t]    ? BUCKET_overlap
                                : compute              ? BUCKET_compute
                                : on[1][t]             ? BUCKET_communication
                                : on[2][t]             ? BUCKET_copy
                                : on[3][t]             ? BUCKET_data
                                : on[8][t]             ? BUCKET_measuring
                                : on[4][t]             ? BUCKET_runtime
                                : on[5][t] || on[6][t] ? BUCKET_host
                                                       : BUCKET_idle;

                expect[i * BUCKET_COUNT + b]++;
            }
        }
        assert_int_equal(busy_compute(st, NULL, stretch, 4, ns), 0);
        for (size_t i = 0; i < ARRAY_SIZE(ns); i++)
            assert_int_equal(ns[i], expect[i]);
        store_free(st);
    }
}

/* Ranks are told apart. */
static void buckets_of_ranks(void **state)
{
    struct store *st = NULL;
    struct stretch s[2] = { { 0, 100, 0, OPM_NULL_ID, OPM_NULL_ID },
                            { 0, 100, 1, OPM_NULL_ID, OPM_NULL_ID } };
    int64_t ns[2 * BUCKET_COUNT];

    (void)state;
    assert_int_equal(store_new(&st), 0);
    for (int rank = 0; rank < 2; rank++) {
        struct cell cells[track_col_COUNT] = { { 0 } };

        cells[track_col_kind] = cell_str(text(st, "stream"));
        cells[track_col_rank] = cell_i64(rank);
        assert_int_equal(store_add(st, TABLE_track, cells, NULL), 0);
    }
    add(st, "hardware", "kernel", "a", 0, 0, 10);
    add(st, "hardware", "kernel", "b", 1, 50, 20);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(busy_compute(st, NULL, s, 2, ns), 0);
    assert_int_equal(ns[BUCKET_compute], 10);
    assert_int_equal(ns[BUCKET_idle], 90);
    assert_int_equal(ns[BUCKET_COUNT + BUCKET_compute], 20);
    store_free(st);
}

/* A PyTorch step: data, zero_grad inside the optimizer's annotation, forward, autograd, update. */
static void split_by_autograd(void **state)
{
    struct store *st = make(2, 0, 0);
    struct table t;

    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t at = i * 1000;

        add_step(st, i, at, 1000, false);
        add(st, "app", "user_annotation", "ProfilerStep#0", 0, at, 1000);
        add(st, "app", "user_annotation", "enumerate(DataLoader)#x.__next__", 0, at + 10, 100);
        add(st, "framework", "cpu_op", "aten::stack", 0, at + 20, 50); /* of the loader */
        add(st, "framework", "cpu_op", "aten::linear", 0, at + 200, 100);
        add(st, "framework", "cpu_op", "autograd::engine::evaluate_function: Mm", 1, at + 400, 150);
        add(st, "framework", "cpu_op", "autograd::engine::evaluate_function: Add", 1, at + 600,
            100);
        add(st, "app", "user_annotation", "Optimizer.step#SGD.step", 0, at + 800, 90);
        add(st, "framework", "cpu_op", "aten::add_", 0, at + 810, 40);
    }
    t = run(st, ANALYSIS_step_trace);
    assert_int_equal(t.nrow, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(get_text(st, &t, i, step_trace_col_split_by), "autograd");
        assert_int_equal(get(&t, i, step_trace_col_gap_ns), 200);
        assert_int_equal(get(&t, i, step_trace_col_forward_ns), 200);
        assert_int_equal(get(&t, i, step_trace_col_backward_ns), 300);
        assert_int_equal(get(&t, i, step_trace_col_tail_ns), 300);
        assert_int_equal(get(&t, i, step_trace_col_update_ns), 90);
        assert_int_equal(get(&t, i, step_trace_col_collective_ns), NIL);
    }
    table_release(&t);
    store_free(st);
}

/* Operators that repeat, with layers that repeat inside: the whole sequence is the step. */
static void add_meta(struct store *st, const char *key, const char *value)
{
    struct cell c[meta_col_COUNT] = { { 0 } };

    c[meta_col_key] = cell_str(text(st, key));
    c[meta_col_value] = cell_str(text(st, value));
    assert_int_equal(store_add(st, TABLE_meta, c, NULL), 0);
}

/* Both passes in one phase: they cannot be told apart, and the points are those of the source. */
static void split_by_one_phase(void **state)
{
    struct store *st = make(2, 0, 0);
    struct site site = { text(st, "forward and backward"), text(st, "phase"), text(st, "app"), 0,
                         NONE };
    struct span_row row = SPAN_ROW_INIT;
    struct table t;

    (void)state;
    text(st, "Default/first");
    text(st, "Default/last");
    add_step(st, 0, 0, 1000, false);
    add(st, "framework", "op", "other", 1, 50, 900);
    row.ts_ns = 100;
    row.dur_ns = 600;
    row.track = 0;
    row.args = text(st, "{\"fp_point\":\"Default/first\",\"bp_point\":\"Default/last\"}");
    assert_int_equal(store_site(st, &site, &row.site), 0);
    assert_int_equal(store_add_span(st, &row, &(uint32_t){ 0 }), 0);
    t = run(st, ANALYSIS_step_trace);
    assert_int_equal(t.nrow, 1);
    assert_string_equal(get_text(st, &t, 0, step_trace_col_split_by), "phases");
    assert_int_equal(get(&t, 0, step_trace_col_gap_ns), 100);
    assert_int_equal(get(&t, 0, step_trace_col_forward_ns), NIL);
    assert_int_equal(get(&t, 0, step_trace_col_backward_ns), NIL);
    assert_int_equal(get(&t, 0, step_trace_col_fp_bp_ns), 600);
    assert_int_equal(get(&t, 0, step_trace_col_tail_ns), 300);
    assert_string_equal(get_text(st, &t, 0, step_trace_col_fp_point), "Default/first");
    assert_string_equal(get_text(st, &t, 0, step_trace_col_bp_point), "Default/last");
    table_release(&t);
    store_free(st);
}

/* Where an operator is named, steps without it are not split some other way. */
static void split_by_named_points(void **state)
{
    struct store *st = make(1, 0, 0);
    struct table t;

    (void)state;
    add_meta(st, "step.fp_point", "conv");
    for (int i = 0; i < 3; i++) {
        add_step(st, i, i * 1000, 1000, false);
        add(st, "framework", "op", "copy", 0, i * 1000 + 100, 50);
        if (i != 1)
            add(st, "framework", "op", "conv", 0, i * 1000 + 200, 50);
        add(st, "framework", "op", "loss", 0, i * 1000 + 600, 100);
    }
    t = run(st, ANALYSIS_step_trace);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(get_text(st, &t, i, step_trace_col_split_by),
                            i == 1 ? "NULL" : "points");
        assert_int_equal(get(&t, i, step_trace_col_gap_ns), i == 1 ? NIL : 200);
        assert_int_equal(get(&t, i, step_trace_col_fp_bp_ns), i == 1 ? NIL : 500);
    }
    table_release(&t);
    store_free(st);
}

/* Nothing marks the passes: the forward pass starts after the data arrived, the backward pass ends
 * before the last all-reduce. Weights that are gathered after the update do not count. */
static void split_by_reduction(void **state)
{
    struct store *st = make(2, 0, 0);
    struct table t;

    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t at = i * 1000;

        add_step(st, i, at, 1000, false);
        add(st, "framework", "op", "zero gradients", 0, at + 10, 20);
        add(st, "app", "data", "next batch", 0, at + 40, 60);
        add(st, "framework", "op", "conv", 0, at + 120, 100);
        add(st, "framework", "op", "conv gradient", 0, at + 300, 100);
        add(st, "app", "collective", "AllReduce 1", 1, at + 420, 60);
        add(st, "framework", "op", "bias gradient", 0, at + 450, 50);
        add(st, "app", "collective", "AllReduce 2", 1, at + 510, 100);
        add(st, "framework", "op", "update", 0, at + 620, 80);
        add(st, "app", "collective", "AllGather", 1, at + 710, 50);
    }
    t = run(st, ANALYSIS_step_trace);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(get_text(st, &t, i, step_trace_col_split_by), "reduction");
        assert_string_equal(get_text(st, &t, i, step_trace_col_fp_point), "conv");
        assert_string_equal(get_text(st, &t, i, step_trace_col_bp_point), "bias gradient");
        assert_int_equal(get(&t, i, step_trace_col_gap_ns), 120);
        assert_int_equal(get(&t, i, step_trace_col_fp_bp_ns), 380);
        assert_int_equal(get(&t, i, step_trace_col_tail_ns), 500);
        assert_int_equal(get(&t, i, step_trace_col_collective_ns), 210);
    }
    table_release(&t);
    store_free(st);
}

/* A wait between the marks of two steps of a training that we recorded ourselves. */
static void gap_before_steps(void **state)
{
    for (int training = 0; training < 2; training++) {
        struct store *st = make(0, 0, 0);
        struct cell track[track_col_COUNT] = { { 0 } }, source[source_col_COUNT] = { { 0 } };
        struct table t;

        (void)state;
        source[source_col_format] = cell_str(text(st, "opm"));
        assert_int_equal(store_add(st, TABLE_source, source, NULL), 0);
        track[track_col_kind] = cell_str(text(st, "thread"));
        track[track_col_source] = cell_id(0);
        assert_int_equal(store_add(st, TABLE_track, track, NULL), 0);
        for (int i = 0; i < 3; i++) {
            add_step(st, i, i * 6000, 1000, i == 0);
            add(st, "framework", "op", "conv", 0, i * 6000 + 10, 300);
            add(st, "framework", "op", training ? "ConvBackward" : "pool", 0, i * 6000 + 400, 300);
        }
        t = run(st, ANALYSIS_step_trace);
        for (size_t i = 0; i < 3; i++) {
            int64_t before = training && i ? 5000 : 0;

            assert_int_equal(get(&t, i, step_trace_col_gap_ns), before + 10);
            assert_int_equal(get(&t, i, step_trace_col_total_ns), before + 1000);
            assert_int_equal(get(&t, i, step_trace_col_ts), (int64_t)i * 6000 - before);
        }
        table_release(&t);
        store_free(st);
    }
}

static void found_by_repetition(void **state)
{
    struct store *st = make(2, 0, 0);
    struct table t;
    int64_t at = 0;

    (void)state;
    add(st, "framework", "op", "init", 0, at, 5);
    for (int step = 0; step < 5; step++) {
        at = 100 + step * 1000;
        add(st, "framework", "op", "embed", 0, at, 10);
        for (int layer = 0; layer < 12; layer++) {
            add(st, "framework", "op", "matmul", 0, at + 20 + layer * 30, 20);
            add(st, "framework", "op", "inner", 0, at + 22 + layer * 30, 5);
            add(st, "framework", "op", "norm", 0, at + 42 + layer * 30, 5);
        }
        add(st, "framework", "op", "head", 0, at + 400, 100);
    }
    t = run(st, ANALYSIS_step_trace);
    assert_int_equal(t.nrow, 5);
    for (size_t i = 0; i < t.nrow; i++) {
        assert_string_equal(get_text(st, &t, i, step_trace_col_found_by), "repetition");
        assert_string_equal(get_text(st, &t, i, step_trace_col_fp_point), "embed");
        assert_int_equal(get(&t, i, step_trace_col_step), NIL);
        assert_int_equal(get(&t, i, step_trace_col_ts), 100 + (int64_t)i * 1000);
        assert_int_equal(get(&t, i, step_trace_col_total_ns), 500);
        assert_int_equal(get(&t, i, step_trace_col_forward_ns), NIL);
        assert_int_equal(get(&t, i, step_trace_col_fp_bp_ns), 500);
    }
    table_release(&t);
    store_free(st);
}

static void nothing_repeats(void **state)
{
    struct store *st = make(1, 0, 0);
    struct table t;

    (void)state;
    for (int i = 0; i < 50; i++) {
        char name[16];

        snprintf(name, sizeof(name), "op %d", i);
        add(st, "framework", "op", name, 0, i * 10, 9);
    }
    t = run(st, ANALYSIS_step_trace);
    assert_int_equal(t.nrow, 0);
    table_release(&t);
    assert_int_equal(analysis_run(st, ANALYSIS_occupation, &t, NULL), 0);
    assert_int_equal(t.nrow, BUCKET_COUNT); /* of the whole trace */
    assert_int_equal(get(&t, BUCKET_compute, occupation_col_ns), 450);
    assert_int_equal(get(&t, BUCKET_idle, occupation_col_ns), 49);
    table_release(&t);
    store_free(st);
}

/* A step that is empty, one that never ended, one far from the others, warm-up. */
static void odd_steps(void **state)
{
    struct store *st = make(1, 0, 0);
    struct table t;

    (void)state;
    for (int i = 0; i < 10; i++)
        add_step(st, i, i * 1000, i == 7 ? 900 : i == 0 ? 999 : 500 + i, i == 0);
    add_step(st, 10, 10000, -1, false);
    add(st, "framework", "op", "a", 0, 3100, 100);
    t = run(st, ANALYSIS_step_trace);
    assert_int_equal(t.nrow, 10);
    for (size_t i = 0; i < t.nrow; i++) {
        assert_int_equal(get(&t, i, step_trace_col_outlier), i == 7);
        assert_int_equal(get(&t, i, step_trace_col_gap_ns), i == 3 ? 100 : NIL);
        assert_string_equal(get_text(st, &t, i, step_trace_col_split_by),
                            i == 3 ? "operators" : "NULL");
    }
    table_release(&t);
    store_free(st);
}

static double real(const struct table *t, size_t row, int col)
{
    struct cell c = table_cell(t, row, col);

    assert_int_equal(c.kind, CELL_F64);
    return c.f64;
}

/* What telling of operators cost is in the span around them, before theirs: of 1000 ns, kernels of
 * 10 and 100, 3 operators of which each took 40 before, one of them while a kernel ran, and 50 of
 * CUPTI. 40 an operator: 20 for a text of 8 bytes, 2 for each of 10 more. */
static void telling_of_operators(void **state)
{
    struct store *st = make(2, 0, 0);
    struct table t;

    (void)state;
    add_step(st, 0, 0, 1000, false);
    add(st, "app", "nvtx", "around", 0, 0, 1000);
    add(st, "hardware", "kernel", "k", 1, 0, 10);
    add(st, "hardware", "kernel", "k", 1, 250, 100);
    add(st, "framework", "op", "aten::a", 0, 200, 100);
    add(st, "framework", "op", "aten::b", 0, 340, 10); /* told while the kernel runs */
    add(st, "framework", "op", "c", 0, 620, 10);
    add(st, "runtime", "overhead", "CUPTI", 0, 600, 50); /* 20 of them while c is told */
    assert_int_equal(store_meta(st, "file1.torch.op_cost_ns", "20"), 0);
    assert_int_equal(store_meta(st, "file1.torch.op_cost_bytes", "8"), 0);
    assert_int_equal(store_meta(st, "file1.torch.op_byte_cost_ns", "2"), 0);
    assert_int_equal(store_meta(st, "torch.op_ranges", "10"), 0);
    assert_int_equal(store_meta(st, "torch.op_text_bytes", "180"), 0);
    assert_int_equal(store_meta(st, "cuda.records", "8"), 0);
    assert_int_equal(store_meta(st, "cuda.convert_cpu_ns", "1000"), 0);
    t = run(st, ANALYSIS_occupation);
    assert_int_equal(get(&t, BUCKET_compute, occupation_col_ns), 110);
    assert_int_equal(get(&t, BUCKET_measuring, occupation_col_ns), 40 + 70);
    assert_int_equal(get(&t, BUCKET_host, occupation_col_ns), 1000 - 110 - 110);
    table_release(&t);
    assert_int_equal(analysis_run(st, ANALYSIS_measuring, &t, NULL), 0);
    assert_int_equal(t.nrow, 3);
    assert_string_equal(get_text(st, &t, 2, measuring_col_what), "records of CUDA");
    assert_int_equal(get(&t, 2, measuring_col_count), 8);
    assert_true(real(&t, 2, measuring_col_each_ns) == 125);
    assert_string_equal(get_text(st, &t, 0, measuring_col_what), "operators of PyTorch");
    assert_int_equal(get(&t, 0, measuring_col_count), 3);
    assert_true(real(&t, 0, measuring_col_each_ns) == 40);
    assert_true(real(&t, 0, measuring_col_total_ns) == 120);
    assert_string_equal(get_text(st, &t, 1, measuring_col_what), "CUPTI");
    assert_true(real(&t, 1, measuring_col_total_ns) == 50);
    table_release(&t);
    store_free(st);
}

/* Without a device operators are the computation, but for the time in which they were told. */
static void telling_on_the_host(void **state)
{
    struct store *st = make(1, 0, 0);
    struct table t;

    (void)state;
    add_step(st, 0, 0, 1000, false);
    add(st, "framework", "cpu_op", "aten::a", 0, 100, 500);
    add(st, "framework", "cpu_op", "aten::b", 0, 300, 100);
    assert_int_equal(store_meta(st, "torch.op_cost_ns", "30"), 0);
    t = run(st, ANALYSIS_occupation);
    assert_int_equal(get(&t, BUCKET_compute, occupation_col_ns), 500 - 30);
    assert_int_equal(get(&t, BUCKET_measuring, occupation_col_ns), 2 * 30);
    assert_int_equal(get(&t, BUCKET_idle, occupation_col_ns), 1000 - 530);
    table_release(&t);
    store_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_against_brute_force),
        cmocka_unit_test(buckets_of_ranks),
        cmocka_unit_test(split_by_autograd),
        cmocka_unit_test(split_by_one_phase),
        cmocka_unit_test(split_by_named_points),
        cmocka_unit_test(split_by_reduction),
        cmocka_unit_test(gap_before_steps),
        cmocka_unit_test(found_by_repetition),
        cmocka_unit_test(nothing_repeats),
        cmocka_unit_test(odd_steps),
        cmocka_unit_test(telling_of_operators),
        cmocka_unit_test(telling_on_the_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
