/* store_unit.h -- what the tests of finished stores share. */
#ifndef STORE_UNIT_H
#define STORE_UNIT_H

#include "store/store_int.h"
#include "unit.h"

#define NIL (-99) /* how the functions below show NULL */
#define NONE OPM_NULL_ID

static uint64_t rng_state;

static inline uint32_t rng(uint32_t below)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 20) % below;
}

/* ntrack tracks named t0, t1, ..., of which those with a bit in async are asynchronous, and as many
 * sites as a test needs: the op of a site tells which span it was. */
static inline struct store *make(uint32_t ntrack, uint32_t async, uint32_t nsite)
{
    struct store *st = NULL;

    assert_int_equal(store_new(&st), 0);
    for (uint32_t i = 0; i < ntrack; i++) {
        struct cell cells[track_col_COUNT] = { { 0 } };
        char name[16];
        str_id id;

        snprintf(name, sizeof(name), "t%u", i);
        assert_int_equal(store_cstr(st, name, &id), 0);
        cells[track_col_name] = cell_str(id);
        assert_int_equal(store_cstr(st, i < 32 && (async >> i & 1) ? "async" : "thread", &id), 0);
        cells[track_col_kind] = cell_str(id);
        cells[track_col_tid] = cell_i64(100 + i);
        assert_int_equal(store_add(st, TABLE_track, cells, NULL), 0);
    }
    for (uint32_t i = 0; i < nsite; i++)
        assert_int_equal(store_site(st, &(struct site){ .op = i }, &(uint32_t){ 0 }), 0);
    return st;
}

static inline int64_t stat_count(const struct store *st, const char *name)
{
    for (size_t i = 0; i < store_nrow(st, TABLE_import_stat); i++)
        if (!strcmp(store_text(st, store_cell(st, TABLE_import_stat, i, import_stat_col_name).str),
                    name))
            return store_cell(st, TABLE_import_stat, i, import_stat_col_count).i64;
    return 0;
}

/* A cell of a span as a number. */
static inline int64_t cell(const struct store *st, size_t row, int col)
{
    struct cell c = store_cell(st, TABLE_span, row, col);

    return c.kind == CELL_NULL ? -99 : c.i64;
}

/* Group setup: use two threads, however few spans there are. */
static inline int with_threads(void **state)
{
    (void)state;
    store_parallel_from = 0;
    return 0;
}

/* Run a group of tests, and run it again with two threads. */
#define RUN_TWICE(tests)                         \
    (cmocka_run_group_tests(tests, NULL, NULL) + \
     cmocka_run_group_tests_name("with two threads", tests, with_threads, NULL))

#endif
