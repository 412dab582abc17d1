/* test_table.c -- columns that appear late, types and their NULLs, growth, failure. */
#include "store/table.h"
#include "unit.h"

#include <math.h>

enum { COL_id, COL_n, COL_ref, COL_text, COL_x, NCOL };

static const struct column_def columns[NCOL] = {
    { "id", COL_ID, FROM_ROW, "" },  { "n", COL_I64, FROM_ADD, "" },
    { "ref", COL_ID, FROM_ADD, "" }, { "text", COL_STR, FROM_ADD, "" },
    { "x", COL_F64, FROM_ADD, "" },
};
static const struct table_def def = { "t", "", columns, NCOL };

static bool same(struct cell a, struct cell b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case CELL_I64:
        return a.i64 == b.i64;
    case CELL_F64:
        return a.f64 == b.f64;
    case CELL_STR:
        return a.str == b.str;
    default:
        return true;
    }
}

static void test_cells(void **state)
{
    static const struct {
        int col;
        struct cell in, out;
    } cases[] = {
        { COL_n, { CELL_I64, { 5 } }, { CELL_I64, { 5 } } },
        { COL_n, { CELL_I64, { INT64_MIN } }, { CELL_NULL, { 0 } } },
        { COL_n, { CELL_NULL, { 5 } }, { CELL_NULL, { 0 } } },
        { COL_ref, { CELL_I64, { 0 } }, { CELL_I64, { 0 } } },
        { COL_ref, { CELL_I64, { UINT32_MAX - 1 } }, { CELL_I64, { UINT32_MAX - 1 } } },
        { COL_ref, { CELL_I64, { UINT32_MAX } }, { CELL_NULL, { 0 } } },
        { COL_ref, { CELL_I64, { -1 } }, { CELL_NULL, { 0 } } },
        { COL_ref, { CELL_I64, { (int64_t)1 << 40 } }, { CELL_NULL, { 0 } } },
        { COL_text, { CELL_STR, .str = 7 }, { CELL_STR, .str = 7 } },
        { COL_text, { CELL_STR, .str = 0 }, { CELL_NULL, { 0 } } },
        { COL_x, { CELL_F64, .f64 = 0.5 }, { CELL_F64, .f64 = 0.5 } },
        { COL_x, { CELL_F64, .f64 = NAN }, { CELL_NULL, { 0 } } },
        { COL_x, { CELL_I64, { 3 } }, { CELL_F64, .f64 = 3 } },
    };
    struct table t;

    (void)state;
    assert_int_equal(table_init(&t, &def), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct cell cells[NCOL] = { { CELL_NULL, { 0 } } };

        cells[COL_id] = cell_i64(99); /* ignored */
        cells[cases[i].col] = cases[i].in;
        assert_int_equal(table_add(&t, cells), 0);
    }
    assert_int_equal(t.nrow, ARRAY_SIZE(cases));
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (int col = 0; col < NCOL; col++) {
            struct cell want = col == COL_id         ? cell_id((uint32_t)i)
                               : col == cases[i].col ? cases[i].out
                                                     : cell_null();

            assert_true(same(table_cell(&t, i, col), want));
        }
    }
    table_release(&t);
    table_release(&t);
}

static void test_late_columns(void **state)
{
    struct cell cells[NCOL] = { { CELL_NULL, { 0 } } };
    struct table t;

    (void)state;
    assert_int_equal(table_init(&t, &def), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(table_add(&t, cells), 0);
    for (int col = 0; col < NCOL; col++)
        assert_null(t.col[col].data);
    cells[COL_n] = cell_i64(1);
    cells[COL_x] = cell_f64(2);
    assert_int_equal(table_add(&t, cells), 0);
    assert_non_null(t.col[COL_n].data);
    assert_null(t.col[COL_text].data);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(table_cell(&t, i, COL_n).kind, CELL_NULL);
        assert_int_equal(table_cell(&t, i, COL_x).kind, CELL_NULL);
    }
    assert_int_equal(table_cell(&t, 1000, COL_n).i64, 1);
    assert_int_equal(table_cell(&t, 1000, COL_text).kind, CELL_NULL);
    table_release(&t);
}

/* Past the size from which columns are mapped. */
static void test_large(void **state)
{
    enum { N = 1200000 };
    struct table t;

    (void)state;
    assert_int_equal(table_init(&t, &def), 0);
    for (int64_t i = 0; i < N; i++) {
        struct cell cells[NCOL] = { [COL_n] = cell_i64(i * 3), [COL_ref] = cell_id((uint32_t)i) };

        if (i >= N / 2)
            cells[COL_text] = cell_str(5);
        if (table_add(&t, cells))
            fail();
    }
    for (size_t i = 0; i < N; i++)
        if (t.col[COL_n].i64[i] != (int64_t)i * 3 || t.col[COL_ref].id[i] != i ||
            t.col[COL_text].id[i] != (i >= N / 2 ? 5 : 0))
            fail();
    table_release(&t);
}

static void test_find_col(void **state)
{
    (void)state;
    assert_int_equal(table_find_col(&def, "id"), COL_id);
    assert_int_equal(table_find_col(&def, "x"), COL_x);
    assert_int_equal(table_find_col(&def, "y"), -1);
    assert_int_equal(table_find_col(&def, ""), -1);
}

/* A row that could not be added leaves no trace. */
static int fill(void)
{
    struct table t;
    int rc = table_init(&t, &def);

    if (rc)
        return rc;
    for (int64_t i = 0; i < 300 && !rc; i++) {
        struct cell cells[NCOL] = { [COL_n] = cell_i64(i) };

        if (i > 100)
            cells[COL_text] = cell_str((str_id)i);
        rc = table_add(&t, cells);
        assert_int_equal(t.nrow, rc ? i : i + 1);
        for (size_t k = 0; rc && k < t.nrow; k++) {
            assert_int_equal(table_cell(&t, k, COL_n).i64, k);
            assert_int_equal(table_cell(&t, k, COL_text).kind, k > 100 ? CELL_STR : CELL_NULL);
        }
    }
    table_release(&t);
    return rc;
}

static void test_failure(void **state)
{
    (void)state;
    unit_fail_each(fill);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),   cmocka_unit_test(test_late_columns),
        cmocka_unit_test(test_large),   cmocka_unit_test(test_find_col),
        cmocka_unit_test(test_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
