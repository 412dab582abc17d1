/* test_store_derive.c -- columns that are computed when first asked for: step, record, wait; and
 * many threads asking at once. Nesting is tested in test_store_finish.c. */
#include "store_unit.h"

#include <pthread.h>

#define NTRACK 3
#define NTHREAD 8

/* A store with three tracks, a site of layer framework (0) and one of layer hardware (1). */
static struct store *make_layers(void)
{
    static const char *const layers[] = { "framework", "hardware" };
    struct store *st = NULL;
    str_id layer;

    assert_int_equal(store_new(&st), 0);
    for (int i = 0; i < NTRACK; i++)
        assert_int_equal(store_add(st, TABLE_track, (struct cell[track_col_COUNT]){ { 0 } }, NULL),
                         0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(store_cstr(st, layers[i], &layer), 0);
        assert_int_equal(
            store_site(st, &(struct site){ .layer = layer, .op = i }, &(uint32_t){ 0 }), 0);
    }
    return st;
}

static void add_span(struct store *st, int64_t ts, int64_t dur, uint32_t track, uint32_t site,
                     int64_t correlation)
{
    struct span_row row = { ts, dur, track, site, correlation, 0 };

    assert_int_equal(store_add_span(st, &row, NULL), 0);
}

static void add_step(struct store *st, int64_t ts, int64_t dur, uint32_t track)
{
    assert_int_equal(store_add(st, TABLE_step,
                               (struct cell[step_col_COUNT]){ [step_col_ts] = cell_i64(ts),
                                                              [step_col_dur] = cell_i64(dur),
                                                              [step_col_track] = cell_id(track) },
                               NULL),
                     0);
}

static void add_record(struct store *st, int64_t ts, int64_t dur, uint32_t track)
{
    assert_int_equal(
        store_add(st, TABLE_record,
                  (struct cell[record_col_COUNT]){ [record_col_ts] = cell_i64(ts),
                                                   [record_col_dur] = cell_i64(dur),
                                                   [record_col_track] = cell_id(track) },
                  NULL),
        0);
}

static int64_t value(const struct store *st, enum table_id table, size_t row, int col)
{
    struct cell c = store_cell(st, table, row, col);

    return c.kind == CELL_NULL ? NIL : c.i64;
}

struct region {
    int64_t ts, dur;
    uint32_t track;
};

static const struct {
    const char *what;
    struct region region[4]; /* dur 0: no more */
    int64_t ts;              /* of a span ... */
    uint32_t track;          /* ... on this track */
    int64_t step, record;
} cases[] = {
    { "no region", { { 0 } }, 5, 0, NIL, NIL },
    { "before it", { { 5, 5, 0 } }, 4, 0, NIL, NIL },
    { "at its start", { { 5, 5, 0 } }, 5, 0, 0, 0 },
    { "just before its end", { { 5, 5, 0 } }, 9, 0, 0, 0 },
    { "at its end", { { 5, 5, 0 } }, 10, 0, NIL, NIL },
    { "on another track", { { 5, 5, 0 } }, 7, 1, 0, 0 },
    { "one after the other", { { 5, 5, 0 }, { 10, 5, 0 } }, 10, 0, 1, 1 },
    { "never ended", { { 5, -1, 0 } }, 1000, 0, 0, 0 },
    { "without a track", { { 5, 5, OPM_NULL_ID } }, 7, 1, 0, 0 },
    { "same track wins", { { 5, 5, 0 }, { 6, 5, 1 } }, 7, 0, 0, 0 },
    { "same track wins, the other way", { { 5, 5, 0 }, { 6, 5, 1 } }, 7, 1, 1, 1 },
    { "two others: no step", { { 5, 5, 0 }, { 6, 5, 1 } }, 7, 2, NIL, 1 },
    { "two others, one is over", { { 5, 5, 0 }, { 6, 9, 1 } }, 12, 2, 1, 1 },
    { "nested", { { 0, 100, 0 }, { 10, 10, 0 }, { 30, 10, 0 } }, 35, 0, 2, 2 },
    { "nested, behind the inner ones",
      { { 0, 100, 0 }, { 10, 10, 0 }, { 30, 10, 0 } },
      45,
      0,
      0,
      0 },
    { "nested, seen from elsewhere", { { 0, 100, 0 }, { 10, 10, 0 } }, 15, 1, NIL, 1 },
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store *st = make_layers();

        add_span(st, 0, 1, 2, 0, OPM_NULL_I64); /* so that times stay as they are */
        for (size_t k = 0; k < 4 && cases[i].region[k].dur; k++) {
            const struct region *r = &cases[i].region[k];

            add_step(st, r->ts, r->dur, r->track);
            add_record(st, r->ts, r->dur, r->track);
        }
        add_span(st, cases[i].ts, 1, cases[i].track, 0, OPM_NULL_I64);
        assert_int_equal(store_finish(st), 0);
        if (value(st, TABLE_span, 1, span_col_step) != cases[i].step ||
            value(st, TABLE_span, 1, span_col_record) != cases[i].record)
            fail_msg("%s: step %d, record %d", cases[i].what,
                     (int)value(st, TABLE_span, 1, span_col_step),
                     (int)value(st, TABLE_span, 1, span_col_record));
        store_free(st);
    }
}

/* A span that had to leave its track for overlapping still belongs to the step of that track. */
static void test_overlap_keeps_step(void **state)
{
    struct store *st = make_layers();

    (void)state;
    add_step(st, 0, 100, 0);
    add_step(st, 0, 100, 1);
    add_span(st, 10, 10, 1, 0, OPM_NULL_I64);
    add_span(st, 15, 10, 1, 0, OPM_NULL_I64);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(value(st, TABLE_span, 1, span_col_track), NTRACK);
    assert_int_equal(value(st, TABLE_span, 1, span_col_step), 1);
    store_free(st);
}

static int64_t region_end(const struct store *st, enum table_id table, size_t row, int ts, int dur)
{
    int64_t d = value(st, table, row, dur);

    return d < 0 ? INT64_MAX : value(st, table, row, ts) + d;
}

/* The rules, by looking at every region. */
static void naive(const struct store *st, size_t span, int64_t *step, int64_t *record)
{
    int64_t ts = value(st, TABLE_span, span, span_col_ts), n = 0, any = NIL, other = NIL;
    int64_t track = value(st, TABLE_span, span, span_col_track);

    *step = *record = NIL;
    for (size_t i = 0; i < store_nrow(st, TABLE_step); i++) {
        if (value(st, TABLE_step, i, step_col_ts) > ts ||
            region_end(st, TABLE_step, i, step_col_ts, step_col_dur) <= ts)
            continue;
        n++;
        any = (int64_t)i;
        if (track != NIL && value(st, TABLE_step, i, step_col_track) == track)
            *step = (int64_t)i;
    }
    if (*step == NIL && n == 1)
        *step = any;
    for (size_t i = 0; i < store_nrow(st, TABLE_record); i++) {
        if (value(st, TABLE_record, i, record_col_ts) > ts ||
            region_end(st, TABLE_record, i, record_col_ts, record_col_dur) <= ts)
            continue;
        other = (int64_t)i;
        if (track != NIL && value(st, TABLE_record, i, record_col_track) == track)
            *record = (int64_t)i;
    }
    if (*record == NIL)
        *record = other;
}

static void test_random_regions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct store *st = make_layers();
        uint32_t nregion, max_dur;

        rng_state = seed * 0x9e3779b97f4a7c15u;
        nregion = rng(20);
        max_dur = 1 + rng(60);
        for (uint32_t i = 0; i < nregion; i++) {
            add_step(st, rng(100), rng(10) ? (int64_t)rng(max_dur) : -1, rng(NTRACK + 1));
            add_record(st, rng(100), rng(10) ? (int64_t)rng(max_dur) : -1, rng(NTRACK + 1));
        }
        for (uint32_t i = 0; i < 60; i++) {
            uint32_t track = rng(NTRACK + 1);

            add_span(st, i * 2, 1, track < NTRACK ? track : OPM_NULL_ID, 0, OPM_NULL_I64);
        }
        assert_int_equal(store_finish(st), 0);
        for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
            int64_t step, record;

            naive(st, i, &step, &record);
            assert_int_equal(value(st, TABLE_span, i, span_col_step), step);
            assert_int_equal(value(st, TABLE_span, i, span_col_record), record);
        }
        store_free(st);
    }
}

static void test_wait(void **state)
{
    static const struct {
        int64_t ts;
        uint32_t site;
        int64_t correlation, wait;
    } spans[] = {
        { 0, 0, 7, 20 },             /* launches ... */
        { 1, 0, OPM_NULL_I64, NIL }, /* nothing */
        { 20, 1, 7, NIL },           /* ... this */
        { 25, 1, 7, NIL },           /* and this, which is not the first */
        { 30, 0, 8, NIL },           /* nothing that was recorded */
        { 40, 0, 7, NIL },           /* after the fact */
        { 50, 1, 9, NIL },           /* launched by nobody */
        { 60, 0, -5, 0 },            /* at once */
        { 60, 1, -5, NIL },
        { 61, 1, OPM_NULL_I64, NIL },
    };
    struct store *st = make_layers();
    const void *p;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++)
        add_span(st, spans[i].ts, 1, spans[i].site, spans[i].site, spans[i].correlation);
    assert_int_equal(store_finish(st), 0);
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++)
        assert_int_equal(value(st, TABLE_span, i, span_col_wait), spans[i].wait);
    store_free(st);

    st = make_layers(); /* no correlation at all */
    add_span(st, 0, 1, 0, 0, OPM_NULL_I64);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(store_column(st, TABLE_span, span_col_wait, &p), 0);
    assert_null(p);
    assert_int_equal(value(st, TABLE_span, 0, span_col_wait), NIL);
    store_free(st);
}

static const int derived[] = { span_col_self,   span_col_parent, span_col_depth, span_col_step,
                               span_col_record, span_col_wait,   span_col_track };

struct reader {
    const struct store *st;
    unsigned first;
    int64_t sum;
    int rc;
};

/* Read every derived column, each thread starting with another one, half of them cell by cell. */
static void *read_all(void *arg)
{
    struct reader *r = arg;
    size_t n = store_nrow(r->st, TABLE_span);

    for (unsigned k = 0; k < ARRAY_SIZE(derived); k++) {
        int col = derived[(k + r->first) % ARRAY_SIZE(derived)];
        bool i64 = store_table_defs[TABLE_span].col[col].type == COL_I64;
        const void *p = NULL;

        if (r->first & 1 && store_column(r->st, TABLE_span, col, &p))
            r->rc = OPM_ENOMEM;
        for (size_t i = 0; i < n; i++) {
            struct cell c = store_cell(r->st, TABLE_span, i, col);
            int64_t v = !p ? c.i64 : i64 ? ((const int64_t *)p)[i] : ((const uint32_t *)p)[i];

            r->sum += c.kind == CELL_NULL ? 1 : v;
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct store *st = make_layers();
    struct reader reader[NTHREAD];
    pthread_t thread[NTHREAD];

    (void)state;
    rng_state = 1;
    for (int64_t i = 0; i < 3000; i++) {
        add_span(st, i * 10 + 2, 3, i % 3, (uint32_t)(i % 2), i % 50);
        add_span(st, i * 10, 8, i % 3, 0, OPM_NULL_I64);
        if (i % 100 == 0) {
            add_step(st, i * 10, 900, i % 3);
            add_record(st, i * 10, 2000, i % 2);
        }
    }
    assert_int_equal(store_finish(st), 0);
    for (unsigned i = 0; i < NTHREAD; i++) {
        reader[i] = (struct reader){ .st = st, .first = i };
        assert_int_equal(pthread_create(&thread[i], NULL, read_all, &reader[i]), 0);
    }
    for (unsigned i = 0; i < NTHREAD; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(reader[i].rc, 0);
        assert_int_equal(reader[i].sum, reader[0].sum);
    }
    store_free(st);
}

/* A column that could not be computed can be, later; until then its cells are NULL. */
static void test_failure(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(derived); k++) {
        struct store *st = make_layers();
        const void *p = NULL;

        add_span(st, 0, 9, 0, 0, 1);
        add_span(st, 1, 2, 0, 0, 1);
        add_span(st, 2, 2, 1, 1, 1);
        add_step(st, 0, 100, 0);
        add_record(st, 0, 100, 0);
        assert_int_equal(store_finish(st), 0);
        for (long n = 1;; n++) {
            int rc;

            mem_fail_at(n);
            rc = store_column(st, TABLE_span, derived[k], &p);
            if (!mem_alloc_failed()) {
                mem_fail_at(0);
                assert_int_equal(rc, 0);
                assert_non_null(p);
                break;
            }
            mem_fail_at(0);
            assert_int_equal(rc, OPM_ENOMEM);
            assert_null(p);
            if (derived[k] != span_col_depth && derived[k] != span_col_track) {
                mem_fail_at(1);
                assert_int_equal(store_cell(st, TABLE_span, 0, derived[k]).kind, CELL_NULL);
                mem_fail_at(0);
            }
        }
        assert_int_equal(store_cell(st, TABLE_span, 0, derived[k]).kind,
                         derived[k] == span_col_parent ? CELL_NULL : CELL_I64);
        store_free(st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),          cmocka_unit_test(test_overlap_keeps_step),
        cmocka_unit_test(test_random_regions), cmocka_unit_test(test_wait),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_failure),
    };

    return RUN_TWICE(tests);
}
