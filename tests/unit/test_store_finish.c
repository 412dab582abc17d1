/* test_store_finish.c -- what store_finish() does, case by case; test_store_model.c has random
 * data. */
#include "store_unit.h"

/* Track 0 is a thread, track 1 a thread, track 2 asynchronous; siblings come behind. NIL is NULL.
 */
struct case_span {
    int64_t ts, dur;
    uint32_t track;
};
struct case_row {
    int span; /* which one of in[] */
    int64_t track, parent, depth, self;
};

static const struct {
    const char *what;
    struct case_span in[8];
    struct case_row out[8];
    const char *stat; /* the only one counted ... */
    int64_t count;    /* ... and how often */
} cases[] = {
    { "recorded: children before parents",
      { { 1, 2, 0 }, { 4, 1, 0 }, { 0, 10, 0 }, { 11, 3, 0 }, { 10, 9, 0 } },
      { { 2, 0, NIL, 0, 7 },
        { 0, 0, 0, 1, 2 },
        { 1, 0, 0, 1, 1 },
        { 4, 0, NIL, 0, 6 },
        { 3, 0, 3, 1, 3 } },
      NULL,
      0 },
    { "imported: parents before children",
      { { 0, 10, 0 }, { 1, 2, 0 }, { 4, 1, 0 }, { 10, 9, 0 }, { 11, 3, 0 } },
      { { 0, 0, NIL, 0, 7 },
        { 1, 0, 0, 1, 2 },
        { 2, 0, 0, 1, 1 },
        { 3, 0, NIL, 0, 6 },
        { 4, 0, 3, 1, 3 } },
      NULL,
      0 },
    { "neither: sorted and counted",
      { { 4, 1, 0 }, { 0, 10, 0 }, { 11, 3, 0 }, { 10, 9, 0 }, { 1, 2, 0 } },
      { { 1, 0, NIL, 0, 7 },
        { 4, 0, 0, 1, 2 },
        { 0, 0, 0, 1, 1 },
        { 3, 0, NIL, 0, 6 },
        { 2, 0, 3, 1, 3 } },
      "span_out_of_order",
      1 },
    { "two tracks do not nest in each other; ties go by track",
      { { 2, 3, 1 }, { 0, 9, 1 }, { 2, 1, 0 }, { 0, 5, 0 } },
      { { 3, 0, NIL, 0, 4 }, { 1, 1, NIL, 0, 6 }, { 2, 0, 0, 1, 1 }, { 0, 1, 1, 1, 3 } },
      NULL,
      0 },
    { "equal spans nest: by end, the later one is outside",
      { { 0, 5, 0 }, { 0, 5, 0 }, { 0, 5, 0 }, { 0, 6, 0 } },
      { { 3, 0, NIL, 0, 1 }, { 2, 0, 0, 1, 0 }, { 1, 0, 1, 2, 0 }, { 0, 0, 2, 3, 5 } },
      NULL,
      0 },
    { "same start: the longer one is outside",
      { { 0, 5, 0 }, { 0, 9, 0 }, { 0, 7, 0 } },
      { { 1, 0, NIL, 0, 2 }, { 2, 0, 0, 1, 2 }, { 0, 0, 1, 2, 5 } },
      "span_out_of_order",
      0 },
    { "zero-length spans belong to the span that begins there",
      { { 0, 5, 0 }, { 5, 0, 0 }, { 5, 4, 0 } },
      { { 0, 0, NIL, 0, 5 }, { 2, 0, NIL, 0, 4 }, { 1, 0, 1, 1, 0 } },
      NULL,
      0 },
    { "else to the one that ends there",
      { { 0, 5, 0 }, { 5, 0, 0 }, { 7, 4, 0 } },
      { { 0, 0, NIL, 0, 5 }, { 1, 0, 0, 1, 0 }, { 2, 0, NIL, 0, 4 } },
      NULL,
      0 },
    { "recorded inside at the end",
      { { 5, 0, 0 }, { 2, 3, 0 }, { 0, 5, 0 } },
      { { 2, 0, NIL, 0, 2 }, { 1, 0, 0, 1, 3 }, { 0, 0, 1, 2, 0 } },
      NULL,
      0 },
    { "zero-length spans enclose nothing and keep their order",
      { { 2, 0, 0 }, { 2, 0, 0 }, { 2, 0, 0 }, { 0, 4, 0 } },
      { { 3, 0, NIL, 0, 4 }, { 0, 0, 0, 1, 0 }, { 1, 0, 0, 1, 0 }, { 2, 0, 0, 1, 0 } },
      NULL,
      0 },
    { "overlapping: the later one moves to a sibling",
      { { 0, 5, 0 }, { 3, 6, 0 }, { 4, 1, 0 }, { 10, 1, 0 } },
      { { 0, 0, NIL, 0, 4 }, { 1, 3, NIL, 0, 6 }, { 2, 0, 0, 1, 1 }, { 3, 0, NIL, 0, 1 } },
      "overlapping_span",
      1 },
    { "three overlapping",
      { { 0, 5, 0 }, { 2, 5, 0 }, { 4, 5, 0 } },
      { { 0, 0, NIL, 0, 5 }, { 1, 3, NIL, 0, 5 }, { 2, 4, NIL, 0, 5 } },
      "overlapping_span",
      2 },
    { "a sibling has nesting of its own",
      { { 0, 4, 0 }, { 2, 8, 0 }, { 3, 5, 0 }, { 0, 4, 1 }, { 2, 8, 1 } },
      { { 0, 0, NIL, 0, 4 },
        { 3, 1, NIL, 0, 4 },
        { 1, 3, NIL, 0, 3 },
        { 4, 4, NIL, 0, 8 },
        { 2, 3, 2, 1, 5 } },
      "overlapping_span",
      3 },
    { "never ended: whatever follows lies inside",
      { { 1, 2, 0 }, { 6, -1, 0 }, { 4, -1, 0 }, { 0, -1, 0 } },
      { { 3, 0, NIL, 0, NIL }, { 0, 0, 0, 1, 2 }, { 2, 0, 0, 1, NIL }, { 1, 0, 2, 2, NIL } },
      "span_not_ended",
      3 },
    { "never ended, added by start",
      { { 0, -1, 0 }, { 1, 2, 0 }, { 4, -1, 0 }, { 5, 1, 0 } },
      { { 0, 0, NIL, 0, NIL }, { 1, 0, 0, 1, 2 }, { 2, 0, 0, 1, NIL }, { 3, 0, 2, 2, 1 } },
      "span_not_ended",
      2 },
    { "never ended inside one that did: ends with it",
      { { 0, 10, 0 }, { 4, -1, 0 }, { 5, 2, 0 }, { 12, 3, 0 } },
      { { 0, 0, NIL, 0, 4 }, { 1, 0, 0, 1, NIL }, { 2, 0, 1, 2, 2 }, { 3, 0, NIL, 0, 3 } },
      "span_not_ended",
      1 },
    { "negative duration",
      { { 0, 10, 0 }, { 4, -7, 0 } },
      { { 0, 0, NIL, 0, 10 }, { 1, 0, 0, 1, 0 } },
      "negative_duration",
      1 },
    { "asynchronous tracks overlap freely and nest nothing",
      { { 1, 1, 2 }, { 0, 5, 2 }, { 3, 9, 2 }, { 2, -1, 2 } },
      { { 1, 2, NIL, 0, 5 }, { 0, 2, NIL, 0, 1 }, { 3, 2, NIL, 0, NIL }, { 2, 2, NIL, 0, 9 } },
      "span_not_ended",
      1 },
    { "without a track: the same",
      { { 0, 5, NONE }, { 3, 9, NONE }, { 1, 2, 0 } },
      { { 0, NIL, NIL, 0, 5 }, { 2, 0, NIL, 0, 2 }, { 1, NIL, NIL, 0, 9 } },
      NULL,
      0 },
    { "a track that does not exist",
      { { 0, 5, 77 }, { 3, 9, 78 }, { 1, 2, 0 } },
      { { 0, NIL, NIL, 0, 5 }, { 2, 0, NIL, 0, 2 }, { 1, NIL, NIL, 0, 9 } },
      "unknown_track",
      2 },
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store *st = make(3, 4, 8);
        size_t n = 0;

        for (; n < 8 && (n == 0 || cases[i].in[n].ts || cases[i].in[n].dur); n++) {
            struct span_row row = SPAN_ROW_INIT;

            row.ts_ns = cases[i].in[n].ts + 1000; /* any origin will do */
            row.dur_ns = cases[i].in[n].dur;
            row.track = cases[i].in[n].track;
            row.site = (uint32_t)n;
            assert_int_equal(store_add_span(st, &row, NULL), 0);
        }
        assert_int_equal(store_finish(st), 0);
        assert_int_equal(store_nrow(st, TABLE_span), n);
        for (size_t k = 0; k < n; k++) {
            const struct case_row *want = &cases[i].out[k];

            if (cell(st, k, span_col_op) != want->span ||
                cell(st, k, span_col_track) != want->track ||
                cell(st, k, span_col_parent) != want->parent ||
                cell(st, k, span_col_depth) != want->depth ||
                cell(st, k, span_col_self) != want->self ||
                cell(st, k, span_col_ts) != cases[i].in[want->span].ts)
                fail_msg("%s: row %zu is span %d, ts %d, track %d, parent %d, depth %d, self %d",
                         cases[i].what, k, (int)cell(st, k, span_col_op),
                         (int)cell(st, k, span_col_ts), (int)cell(st, k, span_col_track),
                         (int)cell(st, k, span_col_parent), (int)cell(st, k, span_col_depth),
                         (int)cell(st, k, span_col_self));
        }
        if (store_nrow(st, TABLE_import_stat) != (cases[i].count > 0))
            fail_msg("%s: %zu kinds of trouble", cases[i].what, store_nrow(st, TABLE_import_stat));
        if (cases[i].count)
            assert_int_equal(stat_count(st, cases[i].stat), cases[i].count);
        assert_string_equal(store_meta_get(st, "trace.start_ns"), "1000");
        store_free(st);
    }
}

static void test_sibling_tracks(void **state)
{
    enum { N = 50 };
    struct store *st = make(2, 0, N);
    size_t last = 1 + OVERLAP_LEVELS;

    (void)state;
    /* A staircase: each overlaps all others. */
    for (uint32_t i = 0; i < N; i++) {
        struct span_row row = { i, N, 1, i, OPM_NULL_I64, 0 };

        assert_int_equal(store_add_span(st, &row, NULL), 0);
    }
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(store_nrow(st, TABLE_track), 2 + OVERLAP_LEVELS);
    assert_int_equal(stat_count(st, "overlapping_span"), N - 1);
    for (size_t i = 2; i <= last; i++) {
        char name[32];

        snprintf(name, sizeof(name), i == 2 ? "t1 (overlap)" : "t1 (overlap %zu)", i - 1);
        assert_string_equal(store_text(st, store_cell(st, TABLE_track, i, track_col_name).str),
                            name);
        assert_string_equal(store_text(st, store_cell(st, TABLE_track, i, track_col_kind).str),
                            i == last ? "async" : "thread");
        assert_int_equal(store_cell(st, TABLE_track, i, track_col_tid).i64, 101);
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(cell(st, i, span_col_ts), i);
        assert_int_equal(cell(st, i, span_col_track), i == 0 ? 1 : i < last ? i + 1 : last);
        assert_int_equal(cell(st, i, span_col_depth), 0);
        assert_int_equal(cell(st, i, span_col_self), N);
    }
    store_free(st);
}

/* So many tracks that their numbers take two or four bytes each. */
static void test_many_tracks(void **state)
{
    static const uint32_t counts[] = { 255, 256, 300, 66000 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        uint32_t n = counts[i];
        struct store *st = make(n, 0, 3);

        for (uint32_t k = 0; k < 3; k++) { /* two children, then the parent */
            for (uint32_t t = 0; t < n; t++) {
                struct span_row row = { t * 5 + k, k == 2 ? 9 : 1, t, k, OPM_NULL_I64, 0 };

                row.ts_ns -= k == 2 ? 2 : 0;
                assert_int_equal(store_add_span(st, &row, NULL), 0);
            }
        }
        assert_int_equal(store_finish(st), 0);
        for (size_t row = 0; row < store_nrow(st, TABLE_span); row++) {
            int64_t ts = cell(st, row, span_col_ts), track = cell(st, row, span_col_track);
            uint32_t site = store_span_site(st)[row];

            if (ts != track * 5 + (site == 1) || cell(st, row, span_col_depth) != (site < 2) ||
                cell(st, row, span_col_self) != (site == 2 ? 7 : 1) ||
                (row && ts < cell(st, row - 1, span_col_ts)))
                fail();
        }
        store_free(st);
    }
}

/* References and columns that few spans have follow their span. */
static void test_references(void **state)
{
    enum { N = 500 };

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct store *st = make(3, 0, N);
        uint32_t src[N], dst[N];
        size_t dropped = 0, kept = 0;

        rng_state = seed;
        for (uint32_t i = 0; i < N; i++) {
            struct span_row row = { rng(1000), rng(100), i % 3, i, i % 5 ? OPM_NULL_I64 : i, 0 };
            uint32_t id;

            if (seed % 4 == 0) { /* in order already */
                row.ts_ns = i;
                row.dur_ns = 1;
            }
            row.args = i % 7 ? 0 : i + 1;
            assert_int_equal(store_add_span(st, &row, &id), 0);
            assert_int_equal(id, i);
        }
        for (uint32_t i = 0; i < N; i++) {
            uint32_t s = rng(N + 3), d = rng(N + 3);
            bool ok = s < N && d < N;

            assert_int_equal(store_add(st, TABLE_flow,
                                       (struct cell[]){ cell_id(s), cell_id(d == N ? NONE : d),
                                                        cell_str(i + 1) },
                                       NULL),
                             0);
            src[kept] = s;
            dst[kept] = d;
            kept += ok;
            dropped += !ok;
        }
        assert_int_equal(store_finish(st), 0);
        assert_int_equal(stat_count(st, "flow_without_span"), dropped);
        assert_int_equal(store_nrow(st, TABLE_flow), kept);
        for (size_t i = 0; i < kept; i++) {
            size_t s = (size_t)store_cell(st, TABLE_flow, i, flow_col_src).i64;
            size_t d = (size_t)store_cell(st, TABLE_flow, i, flow_col_dst).i64;

            assert_int_equal(store_span_site(st)[s], src[i]);
            assert_int_equal(store_span_site(st)[d], dst[i]);
        }
        for (size_t i = 0; i < N; i++) {
            uint32_t site = store_span_site(st)[i];

            assert_int_equal(cell(st, i, span_col_correlation), site % 5 ? NIL : (int64_t)site);
            assert_int_equal(store_cell(st, TABLE_span, i, span_col_args).str & 0xffff,
                             site % 7 ? 0 : site + 1);
        }
        store_free(st);
    }
}

static void test_other_tables(void **state)
{
    static const int64_t ts[] = { 500, 300, 900, 300, 700 };
    static const int64_t sorted[] = { 0, 0, 200, 400, 600 };
    struct store *st = make(1, 0, 1);

    (void)state;
    assert_int_equal(store_meta(st, "trace.start_ns", "1000000"), 0);
    for (size_t i = 0; i < ARRAY_SIZE(ts); i++) {
        struct cell step[step_col_COUNT] = { [step_col_num] = cell_i64((int64_t)i),
                                             [step_col_ts] = cell_i64(ts[i]),
                                             [step_col_dur] = cell_i64(i == 4 ? -5 : 10) };
        struct cell record[record_col_COUNT] = {
            [record_col_ts] = cell_i64(ts[i]), [record_col_dur] = cell_i64((int64_t)i)
        };
        struct cell sample[sample_col_COUNT] = {
            [sample_col_ts] = cell_i64(ts[i]), [sample_col_value] = cell_f64((double)i)
        };

        assert_int_equal(store_add(st, TABLE_step, step, NULL), 0);
        assert_int_equal(store_add(st, TABLE_record, record, NULL), 0);
        assert_int_equal(store_add(st, TABLE_sample, sample, NULL), 0);
    }
    assert_int_equal(store_add_span(st, &(struct span_row){ 800, 1, 0, 0, OPM_NULL_I64, 0 }, NULL),
                     0);
    assert_int_equal(store_finish(st), 0);
    assert_string_equal(store_meta_get(st, "trace.start_ns"), "1000300");
    assert_int_equal(cell(st, 0, span_col_ts), 500);
    for (size_t i = 0; i < ARRAY_SIZE(ts); i++) {
        static const int64_t stable[] = { 1, 3, 0, 4, 2 }, longest_first[] = { 3, 1, 0, 4, 2 };

        assert_int_equal(store_cell(st, TABLE_step, i, step_col_ts).i64, sorted[i]);
        assert_int_equal(store_cell(st, TABLE_step, i, step_col_num).i64, stable[i]);
        assert_int_equal(store_cell(st, TABLE_step, i, step_col_dur).i64, i == 3 ? 0 : 10);
        assert_int_equal(store_cell(st, TABLE_record, i, record_col_ts).i64, sorted[i]);
        assert_int_equal(store_cell(st, TABLE_record, i, record_col_dur).i64, longest_first[i]);
        assert_int_equal(store_cell(st, TABLE_sample, i, sample_col_ts).i64, sorted[i]);
        assert_true(store_cell(st, TABLE_sample, i, sample_col_value).f64 == (double)stable[i]);
    }
    assert_int_equal(stat_count(st, "negative_duration"), 1);
    store_free(st);
}

/* Times that no clock shows must not overflow anything. */
static void test_extreme_times(void **state)
{
    static const int64_t times[] = { INT64_MIN, INT64_MIN + 1,    -((int64_t)1 << 62), -1,       0,
                                     1,         (int64_t)1 << 62, INT64_MAX - 1,       INT64_MAX };
    struct store *st = make(2, 2, 1);
    int64_t last = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(times); i++)
        for (size_t k = 0; k < ARRAY_SIZE(times); k++)
            for (uint32_t track = 0; track < 2; track++)
                assert_int_equal(store_add_span(st,
                                                &(struct span_row){ times[i], times[k], track, 0,
                                                                    OPM_NULL_I64, 0 },
                                                NULL),
                                 0);
    for (size_t i = 0; i < ARRAY_SIZE(times); i++)
        assert_int_equal(
            store_add(st, TABLE_step,
                      (struct cell[step_col_COUNT]){ [step_col_ts] = { CELL_I64, { times[i] } },
                                                     [step_col_dur] = { CELL_I64, { times[i] } } },
                      NULL),
            0);
    assert_int_equal(store_finish(st), 0);
    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        int64_t ts = cell(st, i, span_col_ts), dur = cell(st, i, span_col_dur), sum;

        assert_true(ts >= last && dur >= -1);
        assert_false(__builtin_add_overflow(ts, dur, &sum));
        last = ts;
        cell(st, i, span_col_self);
        cell(st, i, span_col_step);
    }
    store_free(st);
}

/* Deeper than a byte can count. */
static void test_deep(void **state)
{
    enum { N = 1000 };

    (void)state;
    for (int order = 0; order < 2; order++) {
        struct store *st = make(1, 0, 1);

        for (int64_t i = 0; i < N; i++) {
            int64_t k = order ? i : N - 1 - i;
            struct span_row row = { k, 2 * (N - k), 0, 0, OPM_NULL_I64, 0 };

            assert_int_equal(store_add_span(st, &row, NULL), 0);
        }
        assert_int_equal(store_finish(st), 0);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(cell(st, i, span_col_depth), i);
            assert_int_equal(cell(st, i, span_col_self), 2);
            assert_int_equal(cell(st, i, span_col_parent), i ? (int64_t)i - 1 : NIL);
        }
        store_free(st);
    }
}

/* One of everything, so that each allocation of store_finish() and of the derived columns fails
 * once. */
static int finish_all(void)
{
    struct store *st = NULL;
    struct span_block b;
    uint32_t site = 0;
    str_id name = 0;
    const void *p;
    int rc = store_new(&st);

    if (!rc)
        rc = store_cstr(st, "hardware", &name);
    for (uint32_t i = 0; i < 4 && !rc; i++)
        rc = store_add(st, TABLE_track, (struct cell[track_col_COUNT]){ [2] = cell_str(name) },
                       NULL);
    if (!rc)
        rc = store_site(st, &(struct site){ .layer = name, .op = 0 }, &site);
    for (int64_t i = 0; i < 60 && !rc; i++) { /* out of order and overlapping */
        struct span_row row = { (i * 37) % 60, 7, (uint32_t)i % 2, site, i, name };

        rc = store_add_span(st, &row, NULL);
        if (!rc)
            rc = store_add(st, TABLE_step,
                           (struct cell[step_col_COUNT]){ [step_col_ts] = cell_i64(60 - i) }, NULL);
        if (!rc)
            rc = store_add(st, TABLE_flow, (struct cell[3]){ cell_id(0), cell_id(0) }, NULL);
        if (!rc)
            rc = store_add(st, TABLE_record,
                           (struct cell[record_col_COUNT]){
                               [record_col_ts] = cell_i64(i), [record_col_dur] = cell_i64(5) },
                           NULL);
    }
    for (uint32_t track = 2; track < 4 && !rc; track++) { /* recorded */
        rc = store_add_span_block(st, track, 40, &b);
        for (int64_t i = 0; i < 40 && !rc; i++) {
            b.ts[i] = 40 - i;
            b.dur[i] = 2 * i + 1;
            b.site[i] = site;
        }
    }
    if (!rc)
        rc = store_finish(st);
    for (int col = 0; col < span_col_COUNT && !rc; col++)
        rc = store_column(st, TABLE_span, col, &p);
    store_free(st);
    return rc;
}

static void test_failure(void **state)
{
    (void)state;
    unit_fail_each(finish_all);
}

/* Spans that are loaded in blocks stay as they are if they are in order, within blocks and from one
 * to the next, and are sorted if not; also if their times were moved after that was known. */
static void test_loaded_blocks(void **state)
{
    enum { BLOCKS = 3, EACH = 2, N = BLOCKS * EACH };
    static const struct {
        int64_t ts[N];
        int64_t dur; /* of the last */
        double stretch;
        int order[N]; /* which one of ts[] comes where */
    } loads[] = {
        { { 0, 10, 20, 30, 40, 50 }, 5, 0, { 0, 1, 2, 3, 4, 5 } },
        { { 0, 10, 20, 30, 40, 50 }, -1, 0, { 0, 1, 2, 3, 4, 5 } },
        { { 20, 30, 0, 10, 40, 50 }, 5, 0, { 2, 3, 0, 1, 4, 5 } },
        { { 10, 0, 20, 30, 40, 50 }, 5, 0, { 1, 0, 2, 3, 4, 5 } },
        { { 0, 10, 20, 30, 40, 50 }, 5, -2, { 5, 4, 3, 2, 1, 0 } },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(loads); i++) {
        struct store *st = make(2, 0, N);
        struct store_part part;
        struct span_load load;

        store_part_begin(st, &part);
        assert_int_equal(store_load_spans(st, N, (struct span_extras){ 0 }, &load), 0);
        for (size_t b = BLOCKS; b-- > 0;) { /* threads come as they like */
            uint32_t track[EACH] = { b % 2, 1 - b % 2 };

            for (size_t k = b * EACH; k < (b + 1) * EACH; k++) {
                load.ts[k] = loads[i].ts[k];
                load.dur[k] = k + 1 == N ? loads[i].dur : 5;
                load.site[k] = (uint32_t)k;
            }
            assert_int_equal(store_load_tracks(&load, b * EACH, track, EACH), 0);
        }
        store_part_end(st, &part);
        assert_int_equal(store_part_start(st, &part), 0);
        assert_int_equal(store_part_settle(st, &part,
                                           &(struct store_place){ .source = OPM_NULL_ID,
                                                                  .instance = OPM_NULL_I64,
                                                                  .rank = OPM_NULL_I64,
                                                                  .stretch = loads[i].stretch }),
                         0);
        assert_int_equal(store_finish(st), 0);
        for (size_t row = 0; row < N; row++) {
            int which = loads[i].order[row];

            assert_int_equal(store_span_site(st)[row], which);
            assert_int_equal(cell(st, row, span_col_ts), 10 * (int64_t)row);
            assert_int_equal(cell(st, row, span_col_track), (which / EACH + which) % 2);
        }
        assert_int_equal(stat_count(st, "span_not_ended"), loads[i].dur < 0);
        store_free(st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),         cmocka_unit_test(test_sibling_tracks),
        cmocka_unit_test(test_loaded_blocks), cmocka_unit_test(test_many_tracks),
        cmocka_unit_test(test_references),    cmocka_unit_test(test_other_tables),
        cmocka_unit_test(test_extreme_times), cmocka_unit_test(test_deep),
        cmocka_unit_test(test_failure),
    };

    return RUN_TWICE(tests);
}
