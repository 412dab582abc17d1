/* test_store.c -- building a store and reading it back; what finishing does to spans is in
 * test_store_finish.c, derived columns are in test_store_derive.c. */
#include "store/store.h"
#include "unit.h"

static struct store *make(void)
{
    struct store *st = NULL;

    assert_int_equal(store_new(&st), 0);
    return st;
}

static str_id text(struct store *st, const char *s)
{
    str_id id;

    assert_int_equal(store_cstr(st, s, &id), 0);
    return id;
}

static void test_defs(void **state)
{
    (void)state;
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct table_def *def = &store_table_defs[t];

        assert_true(def->ncol > 0);
        for (int c = 0; c < def->ncol; c++) {
            assert_int_equal(table_find_col(def, def->col[c].name), c);
            assert_true(def->col[c].doc[0]);
        }
    }
    assert_string_equal(store_table_defs[TABLE_span].name, "span");
    assert_string_equal(store_table_defs[TABLE_span].col[span_col_dur].name, "dur");
    assert_int_equal(store_table_defs[TABLE_op].ncol, op_col_COUNT);
}

static void test_strings(void **state)
{
    struct store *st = make();
    str_id a, b, c;

    (void)state;
    assert_int_equal(store_str(st, "conv1", 4, &a), 0);
    assert_int_equal(store_cstr(st, "conv", &b), 0);
    assert_int_equal(a, b);
    assert_int_equal(store_cstr(st, NULL, &c), 0);
    assert_int_equal(c, 0);
    assert_null(store_text(st, 0));
    assert_string_equal(store_text(st, a), "conv");
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(store_cstr(st, "made by an analysis", &c), 0);
    assert_string_equal(store_text(st, c), "made by an analysis");
    assert_ptr_equal(strpool_get(store_strings(st), a), store_text(st, a));
    store_free(st);
}

static void test_sites(void **state)
{
    enum { N = 5000 };
    struct store *st = make();
    const struct site *sites;
    uint32_t id;
    size_t n;

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < N; i++) {
            struct site s = { i & 7, i >> 3 & 7, i >> 6 & 3, i & 1, i >> 8 ? i >> 8 : OPM_NULL_ID };

            s.op = i; /* all differ */
            assert_int_equal(store_site(st, &s, &id), 0);
            assert_int_equal(id, i);
        }
    }
    /* Each field counts. */
    for (int i = 0; i < 5; i++) {
        struct site s = { 1000, 1000, 1000, 1000, 1000 };

        *(i == 0 ? &s.name : i == 1 ? &s.cat : i == 2 ? &s.layer : i == 3 ? &s.phase : &s.op) = 7;
        assert_int_equal(store_site(st, &s, &id), 0);
        assert_int_equal(id, N + i);
    }
    sites = store_sites(st, &n);
    assert_int_equal(n, N + 5);
    assert_int_equal(sites[N - 1].op, N - 1);
    store_free(st);
}

static void test_meta(void **state)
{
    struct store *st = make();
    str_id key = text(st, "cpu");

    (void)state;
    assert_null(store_meta_get(st, "cpu"));
    assert_int_equal(store_meta(st, "empty", NULL), 0);
    assert_int_equal(store_meta(st, "cpu", "a"), 0);
    assert_int_equal(store_meta(st, "engine", "native"), 0);
    assert_int_equal(store_meta(st, "cpu", "b"), 0);
    assert_int_equal(store_meta(st, "empty", "no more"), 0);
    assert_int_equal(
        store_add(st, TABLE_meta, (struct cell[]){ cell_str(key), cell_str(text(st, "c")) }, NULL),
        0);
    assert_int_equal(store_nrow(st, TABLE_meta), 3);
    assert_int_equal(store_finish(st), 0);
    assert_string_equal(store_meta_get(st, "cpu"), "c");
    assert_string_equal(store_meta_get(st, "engine"), "native");
    assert_string_equal(store_meta_get(st, "empty"), "no more");
    assert_null(store_meta_get(st, "gpu"));
    assert_int_equal(store_cell(st, TABLE_meta, 1, meta_col_key).str, key);
    store_free(st);
}

static void test_stats(void **state)
{
    struct store *st = make();

    (void)state;
    store_stat(st, STAT_spans_lost, 2);
    store_stat(st, STAT_spans_lost, 3);
    store_stat(st, STAT_not_closed, 1);
    store_stat(st, STAT_chunk_corrupt, 0);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(store_nrow(st, TABLE_import_stat), 2);
    for (size_t i = 0; i < 2; i++) {
        static const struct {
            const char *name, *severity;
            int64_t count;
        } want[] = { { "spans_lost", "loss", 5 }, { "not_closed", "info", 1 } };

        assert_string_equal(
            store_text(st, store_cell(st, TABLE_import_stat, i, import_stat_col_name).str),
            want[i].name);
        assert_string_equal(
            store_text(st, store_cell(st, TABLE_import_stat, i, import_stat_col_severity).str),
            want[i].severity);
        assert_int_equal(store_cell(st, TABLE_import_stat, i, import_stat_col_count).i64,
                         want[i].count);
        assert_int_equal(store_cell(st, TABLE_import_stat, i, import_stat_col_description).kind,
                         CELL_STR);
    }
    store_free(st);
}

/* Every kind of column of a span, through cells and arrays. */
static void test_span_columns(void **state)
{
    struct store *st = make();
    struct site site = { text(st, "conv"), text(st, "op"), text(st, "framework"), 0, 3 };
    struct span_row row = SPAN_ROW_INIT;
    const void *p;
    uint32_t id;

    (void)state;
    assert_int_equal(store_add(st, TABLE_track, (struct cell[track_col_COUNT]){ { 0 } }, NULL), 0);
    assert_int_equal(store_site(st, &site, &row.site), 0);
    row.ts_ns = 100;
    row.dur_ns = 10;
    row.track = 0;
    assert_int_equal(store_add_span(st, &row, &id), 0);
    assert_int_equal(id, 0);
    row.ts_ns = 50;
    row.correlation = 77;
    row.track = OPM_NULL_ID;
    assert_int_equal(store_add_span(st, &row, NULL), 0);
    row = (struct span_row)SPAN_ROW_INIT;
    row.ts_ns = 200;
    row.args = text(st, "{}");
    assert_int_equal(store_site(st, &(struct site){ .op = OPM_NULL_ID }, &row.site), 0);
    assert_int_equal(store_add_span(st, &row, &id), 0);
    assert_int_equal(store_span_set_correlation(st, id, 78), 0);
    assert_int_equal(store_span_set_args(st, 0, text(st, "{\"a\":1}")), 0);
    assert_int_equal(store_finish(st), 0);

    assert_int_equal(store_nrow(st, TABLE_span), 3);
    for (size_t i = 0; i < 3; i++) {
        static const int64_t ts[] = { 0, 50, 150 };

        assert_int_equal(store_cell(st, TABLE_span, i, span_col_id).i64, i);
        assert_int_equal(store_cell(st, TABLE_span, i, span_col_ts).i64, ts[i]);
    }
    assert_int_equal(store_cell(st, TABLE_span, 0, span_col_track).kind, CELL_NULL);
    assert_int_equal(store_cell(st, TABLE_span, 1, span_col_track).i64, 0);
    assert_int_equal(store_cell(st, TABLE_span, 0, span_col_correlation).i64, 77);
    assert_int_equal(store_cell(st, TABLE_span, 1, span_col_correlation).kind, CELL_NULL);
    assert_int_equal(store_cell(st, TABLE_span, 2, span_col_correlation).i64, 78);
    assert_int_equal(store_cell(st, TABLE_span, 0, span_col_args).kind, CELL_NULL);
    assert_string_equal(store_text(st, store_cell(st, TABLE_span, 1, span_col_args).str),
                        "{\"a\":1}");
    assert_string_equal(store_text(st, store_cell(st, TABLE_span, 0, span_col_name).str), "conv");
    assert_string_equal(store_text(st, store_cell(st, TABLE_span, 0, span_col_cat).str), "op");
    assert_string_equal(store_text(st, store_cell(st, TABLE_span, 0, span_col_layer).str),
                        "framework");
    assert_int_equal(store_cell(st, TABLE_span, 0, span_col_op).i64, 3);
    assert_int_equal(store_cell(st, TABLE_span, 0, span_col_phase).kind, CELL_NULL);
    assert_int_equal(store_cell(st, TABLE_span, 2, span_col_op).kind, CELL_NULL);
    assert_int_equal(store_span_site(st)[2], 1);

    for (int col = 0; col < span_col_COUNT; col++) {
        const struct column_def *def = &store_table_defs[TABLE_span].col[col];

        assert_int_equal(store_derive(st, TABLE_span, col), 0);
        assert_int_equal(store_column(st, TABLE_span, col, &p), 0);
        if (def->from == FROM_ROW || def->from == FROM_SITE)
            assert_null(p);
        for (size_t i = 0; p && i < 3; i++) {
            struct cell c = store_cell(st, TABLE_span, i, col);
            int64_t v = c.kind == CELL_STR ? c.str : c.i64;

            if (def->type == COL_I64)
                assert_int_equal(((const int64_t *)p)[i], c.kind ? v : OPM_NULL_I64);
            else if (def->type == COL_ID)
                assert_int_equal(((const uint32_t *)p)[i], c.kind ? v : OPM_NULL_ID);
            else
                assert_int_equal(((const uint32_t *)p)[i], c.kind ? v : 0);
        }
    }
    store_free(st);
}

static void test_reserve(void **state)
{
    struct store *st = make();
    struct span_block first, b;
    uint32_t site;

    (void)state;
    assert_int_equal(store_site(st, &(struct site){ .op = 0 }, &site), 0);
    assert_int_equal(store_reserve_spans(st, 1000000), 0);
    assert_int_equal(store_add_span_block(st, OPM_NULL_ID, 1, &first), 0);
    *first.ts = 5;
    *first.dur = 1;
    *first.site = site;
    for (int i = 0; i < 999; i++) {
        struct span_row row = SPAN_ROW_INIT;

        if (i % 3) {
            assert_int_equal(store_add_span_block(st, OPM_NULL_ID, 1000, &b), 0);
            assert_ptr_equal(b.ts, first.ts + b.first_build_id);
            assert_ptr_equal(b.dur, first.dur + b.first_build_id);
            assert_ptr_equal(b.site, first.site + b.first_build_id);
            for (int k = 0; k < 1000; k++) {
                b.ts[k] = 10;
                b.dur[k] = 0;
                b.site[k] = site;
            }
        } else {
            row.args = text(st, "{}");
            assert_int_equal(store_add_span(st, &row, NULL), 0);
        }
    }
    assert_int_equal(store_add_span_block(st, OPM_NULL_ID, 0, &b), 0);
    assert_int_equal(store_reserve_spans(st, SIZE_MAX), OPM_ENOMEM);
    assert_int_equal(store_reserve_spans(st, UINT32_MAX), OPM_ENOMEM);
    assert_int_equal(store_add_span_block(st, OPM_NULL_ID, SIZE_MAX, &b), OPM_ENOMEM);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(store_nrow(st, TABLE_span), 1 + 333 + 666000);
    store_free(st);
}

static void test_range(void **state)
{
    static const int64_t ts[] = { 0, 10, 10, 10, 20, 35 };
    static const struct {
        int64_t from, to;
        size_t first, end;
    } cases[] = {
        { 0, 1, 0, 1 },   { 0, 10, 0, 1 },  { 10, 11, 1, 4 },
        { 11, 20, 4, 4 }, { 11, 21, 4, 5 }, { 35, 36, 5, 6 },
        { 36, 99, 6, 6 }, { -5, 0, 0, 0 },  { INT64_MIN, INT64_MAX, 0, 6 },
        { 20, 10, 4, 4 },
    };
    struct store *st = make();
    size_t first, end;

    (void)state;
    assert_int_equal(store_site(st, &(struct site){ .op = 0 }, &(uint32_t){ 0 }), 0);
    for (size_t i = 0; i < ARRAY_SIZE(ts); i++) {
        struct span_row row = SPAN_ROW_INIT;

        row.ts_ns = ts[i];
        assert_int_equal(store_add_span(st, &row, NULL), 0);
    }
    assert_int_equal(store_finish(st), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        store_span_range(st, cases[i].from, cases[i].to, &first, &end);
        assert_int_equal(first, cases[i].first);
        assert_int_equal(end, cases[i].end);
    }
    store_free(st);
}

static void test_empty(void **state)
{
    struct store *st = make();
    size_t first, end, n;
    const void *p;

    (void)state;
    assert_int_equal(store_finish(st), 0);
    for (int t = 0; t < TABLE_COUNT; t++) {
        assert_int_equal(store_nrow(st, t), 0);
        for (int c = 0; c < store_table_defs[t].ncol; c++)
            assert_int_equal(store_column(st, t, c, &p), 0);
    }
    store_span_range(st, 0, 100, &first, &end);
    assert_int_equal(first, 0);
    assert_int_equal(end, 0);
    store_sites(st, &n);
    assert_int_equal(n, 0);
    assert_null(store_meta_get(st, "trace.start_ns"));
    store_free(st);
    store_free(NULL);
}

/* Adding fails cleanly: what was added before stays, and the store can still be finished. */
static int build(void)
{
    struct store *st;
    struct span_block b;
    struct site site = { .op = 0 };
    size_t added = 0;
    int rc = store_new(&st);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < 200 && !rc; i++) {
        struct span_row row = SPAN_ROW_INIT;

        site.op = i;
        rc = store_site(st, &site, &row.site);
        row.ts_ns = i;
        row.correlation = i == 50 ? 50 : OPM_NULL_I64;
        row.args = i == 70 ? 1 : 0;
        if (!rc)
            rc = store_add_span(st, &row, NULL);
        added += !rc;
    }
    if (!rc) {
        rc = store_add_span_block(st, 0, 100, &b);
        for (size_t i = 0; !rc && i < 100; i++, added++) {
            b.ts[i] = 5;
            b.dur[i] = 5;
            b.site[i] = 0;
        }
    }
    if (!rc)
        rc = store_meta(st, "a", NULL);
    if (!rc)
        rc = store_meta(st, "a", "1");
    for (int i = 0; i < 40 && !rc; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key%d", i);
        rc = store_meta(st, key, "1");
    }
    assert_int_equal(store_nrow(st, TABLE_span), added);
    if (rc) {
        mem_fail_at(0);
        assert_int_equal(store_finish(st), 0);
        assert_int_equal(store_nrow(st, TABLE_span), added);
        store_free(st);
        mem_fail_at(1); /* tell the caller that a failure was delivered */
        mem_free(mem_alloc(1));
        return rc;
    }
    store_free(st);
    return rc;
}

static void test_failure(void **state)
{
    (void)state;
    unit_fail_each(build);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defs),    cmocka_unit_test(test_strings),
        cmocka_unit_test(test_sites),   cmocka_unit_test(test_meta),
        cmocka_unit_test(test_stats),   cmocka_unit_test(test_span_columns),
        cmocka_unit_test(test_reserve), cmocka_unit_test(test_range),
        cmocka_unit_test(test_empty),   cmocka_unit_test(test_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
