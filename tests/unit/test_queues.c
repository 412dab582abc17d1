/* test_queues.c -- queues of a pipeline: one that is made anew is the same, and what each step
 * found. */
#include "analyze/analysis.h"
#include "store_unit.h"

static str_id text(struct store *st, const char *s)
{
    str_id id = 0;

    assert_int_equal(store_cstr(st, s, &id), 0);
    return id;
}

static uint32_t add_queue(struct store *st, const char *name, const char *producer,
                          const char *consumer, int64_t capacity)
{
    struct cell c[track_col_COUNT] = { { 0 } };
    uint32_t id;

    c[track_col_kind] = cell_str(text(st, "queue"));
    c[track_col_name] = cell_str(text(st, name));
    c[track_col_producer] = cell_str(text(st, producer));
    c[track_col_consumer] = cell_str(text(st, consumer));
    if (capacity)
        c[track_col_capacity] = cell_i64(capacity);
    assert_int_equal(store_add(st, TABLE_track, c, &id), 0);
    return id;
}

static void add_sample(struct store *st, uint32_t track, int64_t ts, double value)
{
    struct cell c[sample_col_COUNT];

    c[sample_col_ts] = cell_i64(ts);
    c[sample_col_track] = cell_id(track);
    c[sample_col_value] = cell_f64(value);
    assert_int_equal(store_add(st, TABLE_sample, c, NULL), 0);
}

static void add_step(struct store *st, int64_t num, int64_t ts, int64_t dur)
{
    struct cell c[step_col_COUNT] = { { 0 } };

    c[step_col_num] = cell_i64(num);
    c[step_col_ts] = cell_i64(ts);
    c[step_col_dur] = cell_i64(dur);
    c[step_col_warmup] = cell_i64(0);
    assert_int_equal(store_add(st, TABLE_step, c, NULL), 0);
}

static struct table run(struct store *st, enum analysis_id id)
{
    struct table t;

    assert_int_equal(analysis_run(st, id, &t, NULL), 0);
    return t;
}

static int64_t get(const struct table *t, size_t row, int col)
{
    struct cell c = table_cell(t, row, col);

    return c.kind == CELL_NULL ? NIL : c.i64;
}

/* Two epochs with a queue each, and one beside them that only has the same name. */
static void made_anew(void **state)
{
    struct store *st = make(0, 0, 0);
    uint32_t first = add_queue(st, "batches", "reader", "model", 4);
    uint32_t second = add_queue(st, "batches", "reader", "model", 4);
    uint32_t beside = add_queue(st, "batches", "reader", "model", 4);
    struct table t;

    (void)state;
    add_sample(st, first, 0, 0);
    add_sample(st, first, 10, 4);
    add_sample(st, second, 20, 2);
    add_sample(st, second, 30, 0);
    add_sample(st, beside, 5, 4);
    add_sample(st, beside, 25, 4);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(analysis_intern_words(st), 0);
    t = run(st, ANALYSIS_queue_stats);
    assert_int_equal(t.nrow, 2);
    assert_int_equal(get(&t, 0, queue_stats_col_track), first);
    assert_int_equal(get(&t, 0, queue_stats_col_samples), 4);
    assert_int_equal(get(&t, 0, queue_stats_col_empty), 2);
    assert_int_equal(get(&t, 0, queue_stats_col_full), 1);
    assert_int_equal(get(&t, 1, queue_stats_col_track), beside);
    assert_int_equal(get(&t, 1, queue_stats_col_full), 2);
    table_release(&t);
    t = run(st, ANALYSIS_pipeline_op);
    assert_int_equal(t.nrow, 2);
    table_release(&t);
    t = run(st, ANALYSIS_queue_track);
    assert_int_equal(t.nrow, 3);
    for (size_t i = 0; i < 3; i++) {
        int64_t track = get(&t, i, queue_track_col_track);

        assert_int_equal(get(&t, i, queue_track_col_queue), track == second ? first : track);
    }
    table_release(&t);
    store_free(st);
}

static void found_by_steps(void **state)
{
    struct store *st = make(0, 0, 0);
    uint32_t q = add_queue(st, "batches", "reader", "model", 2);
    /* step, samples, empty, full */
    static const int64_t want[][4] = { { 1, 3, 2, 0 }, { 2, 1, 0, 1 }, { 4, 2, 1, 1 } };
    struct table t;

    (void)state;
    for (int64_t i = 0; i < 4; i++)
        add_step(st, i + 1, i * 100, 90);
    add_sample(st, q, 0, 0);
    add_sample(st, q, 50, 1);
    add_sample(st, q, 80, 0);
    add_sample(st, q, 95, 0); /* between steps */
    add_sample(st, q, 150, 2);
    add_sample(st, q, 300, 2);
    add_sample(st, q, 310, 0);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(analysis_intern_words(st), 0);
    t = run(st, ANALYSIS_queue_steps);
    assert_int_equal(t.nrow, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(get(&t, i, queue_steps_col_num), want[i][0]);
        assert_int_equal(get(&t, i, queue_steps_col_samples), want[i][1]);
        assert_int_equal(get(&t, i, queue_steps_col_empty), want[i][2]);
        assert_int_equal(get(&t, i, queue_steps_col_full), want[i][3]);
    }
    table_release(&t);
    store_free(st);
}

/* A stage whose queue has no known size takes no part in the rules of usage. */
static void unknown_size(void **state)
{
    struct store *st = make(0, 0, 0);
    uint32_t out = add_queue(st, "out", "transfer", "model", 0);
    uint32_t maps = add_queue(st, "maps", "map", "transfer", 10);
    uint32_t files = add_queue(st, "files", "reader", "map", 10);
    struct table t;

    (void)state;
    for (int i = 0; i < 2; i++) {
        add_sample(st, out, i, 3);
        add_sample(st, maps, i, 1);
        add_sample(st, files, i, 0);
    }
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(analysis_intern_words(st), 0);
    t = run(st, ANALYSIS_pipeline_op);
    assert_int_equal(t.nrow, 3);
    assert_int_equal(get(&t, 0, pipeline_op_col_bottleneck_r05), NIL);
    assert_int_equal(get(&t, 1, pipeline_op_col_bottleneck_r05), 0);
    assert_int_equal(get(&t, 2, pipeline_op_col_bottleneck_r05), 1);
    table_release(&t);
    store_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_anew),
        cmocka_unit_test(found_by_steps),
        cmocka_unit_test(unknown_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
