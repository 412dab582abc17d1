/* test_click_text.c -- what ClickHouse answers: rows, and exceptions in the wording of its
 * versions. */
#include "catalog/click_text.h"
#include "unit.h"

#include <string.h>

static int open_text(struct clickrows **r, const char *text, size_t len, opm_error *err)
{
    struct buf body = { 0 };
    int rc;

    buf_add(&body, text, len);
    rc = clickrows_open(r, &body, "db", err);
    buf_release(&body);
    return rc;
}

/* Cells separated by '|', NULL as '-', rows by '/', types as i, r, t; a failure as '!' and its
 * text. */
static void read_all(const char *text, struct buf *all)
{
    struct clickrows *r;
    opm_error err = { 0 };
    int rc = open_text(&r, text, strlen(text), &err);

    if (rc < 0) {
        buf_addf(all, "!%s", err.msg);
        return;
    }
    for (int i = 0; i < clickrows_columns(r); i++)
        buf_addf(all, "%s%s", i ? "|" : "", clickrows_name(r, i));
    buf_addc(all, '/');
    while ((rc = clickrows_next(r, &err)) == 1) {
        for (int i = 0; i < clickrows_columns(r); i++) {
            const char *cell = clickrows_text(r, i, NULL);
            enum opm_type type = clickrows_type(r, i);

            buf_addf(all, "%s%c%s", i ? "|" : "",
                     type == OPM_TYPE_INT    ? 'i'
                     : type == OPM_TYPE_REAL ? 'r'
                     : type == OPM_TYPE_TEXT ? 't'
                                             : '-',
                     cell ? cell : "");
        }
        buf_addc(all, '/');
    }
    if (rc < 0)
        buf_addf(all, "!%s", err.msg);
    clickrows_close(r);
}

static void test_rows(void **state)
{
    static const struct {
        const char *text, *rows;
    } cases[] = {
        { "a\tb\nInt64\tString\n1\tx\n-2\t\n", "a|b/i1|tx/i-2|t/" },
        { "a\nNullable(Int64)\n\\N\n7\n", "a/-/i7/" },
        { "a\tb\nString\tNullable(String)\nx\\ty\\nz\\\\\\'\t\\N\n", "a|b/tx\ty\nz\\'|-/" },
        { "a\nFloat64\nnan\n1.5e-3\n-inf\n", "a/-/r1.5e-3/-/" },
        { "a\tb\nLowCardinality(Nullable(String))\tUInt64\nx\t18446744073709551615\n",
          "a|b/tx|i18446744073709551615/" },
        { "a\tb\nInt64\tInt64\n", "a|b/" },
        { "a\nString\n\nx\n", "a/t/tx/" },                           /* '' is a value */
        { "a\tb\nString\tInt64\nx\t1\n\n\t1\n", "a|b/tx|i1/t|i1/" }, /* WITH TOTALS */
        { "a\\tb\nInt8\n1\n", "a\tb/i1/" },                          /* a column's name */
        { "a\nNullable(Decimal(9, 2))\n1.25\n", "a/r1.25/" },
        /* What is cut off is no shorter answer. */
        { "a\tb\nInt64\tString\n1\tx\n2", "a|b/i1|tx/!db: after 1 rows the answer breaks off, or "
                                          "something else than ClickHouse gives it" },
        { "a\tb\nInt64\tString\n1\n", "a|b/!db: after 0 rows the answer breaks off, or something "
                                      "else than ClickHouse gives it" },
        { "a\tb\nInt64\tString\n1\tx\ty\n", "a|b/!db: after 0 rows the answer breaks off, or "
                                            "something else than ClickHouse gives it" },
        { "a\tb\nInt64\n", "!db: after 0 rows the answer breaks off, or something else than "
                           "ClickHouse gives it" },
        { "<html>nginx</html>\r\n", "!db: after 0 rows the answer breaks off, or something else "
                                    "than ClickHouse gives it" },
        { "a\nInt64\nfive\n", "a/!db: 'five' in row 1 of column 'a' is no number" },
        { "a\nInt64\n-\n", "a/!db: '-' in row 1 of column 'a' is no number" },
        { "a\nInt64\n5\\0\n", "a/!db: '5' in row 1 of column 'a' is no number" },
        { "a\nFloat64\n1.5x\n", "a/!db: '1.5x' in row 1 of column 'a' is no number" },
        { "", "!the statement gives no rows: ask with SELECT" },
        /* Failures in the midst of rows. */
        { "a\tb\nInt64\tString\n1\tx\nCode: 241, e.displayText() = DB::Exception: Memory limit "
          "exceeded, e.what() = DB::Exception\n",
          "a|b/i1|tx/!db: Memory limit exceeded (after 1 rows)" },
        { "a\tb\nInt64\tString\n1\tx\n__exception__\r\nrandomtag0123456\r\nCode: 395. "
          "DB::Exception: Value passed to throwIf. (FUNCTION_THROW_IF_VALUE_IS_NON_ZERO) (version "
          "25.11.1.1)\n88 randomtag0123456\r\n__exception__\r\n",
          "a|b/i1|tx/!db: Value passed to throwIf (after 1 rows)" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf all = { 0 };

        read_all(cases[i].text, &all);
        assert_string_equal(buf_str(&all), cases[i].rows);
        buf_release(&all);
    }
}

static void test_zero_byte(void **state)
{
    static const char text[] = "a\nString\nx\\0y\n";
    struct clickrows *r;
    opm_error err = { 0 };
    size_t len;

    (void)state;
    assert_int_equal(open_text(&r, text, sizeof(text) - 1, &err), 0);
    assert_int_equal(clickrows_next(r, &err), 1);
    assert_memory_equal(clickrows_text(r, 0, &len), "x\0y", 4);
    assert_int_equal(len, 3);
    assert_int_equal(clickrows_next(r, &err), 0);
    clickrows_close(r);
}

static void test_exceptions(void **state)
{
    static const struct {
        const char *body;
        int code;
        const char *text;
    } cases[] = {
        { "Code: 60, e.displayText() = DB::Exception: Table default.t doesn't exist., e.what() = "
          "DB::Exception\n",
          60, "Table default.t doesn't exist" },
        { "Code: 60, e.displayText() = DB::Exception: Table default.t doesn't exist. (version "
          "20.3.8.53 (official build))\n",
          60, "Table default.t doesn't exist" },
        { "Code: 62. DB::Exception: Syntax error: failed at position 1 ('x'): x. Expected one of: "
          "SELECT, WITH. (SYNTAX_ERROR) (version 23.8.1.2992 (official build))\n",
          62, "Syntax error: failed at position 1 ('x'): x. Expected one of: SELECT, WITH" },
        { "Code: 516. DB::Exception: default: Authentication failed: password is incorrect, or "
          "there is no user with such name.\n\nIf you use ClickHouse Cloud, ...",
          516,
          "default: Authentication failed: password is incorrect, or there is no user with such "
          "name" },
        { "Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space. "
          "(NOT_ENOUGH_SPACE)",
          243, "Cannot reserve 1.00 MiB, not enough space" },
        { "Code: 47. DB::Exception: Missing columns: 'x' (maybe you meant: ['y']) (A)", 47,
          "Missing columns: 'x' (maybe you meant: ['y'])" },
        { "Code: 75, e.displayText() = DB::ErrnoException: Cannot write to file /x, errno: 28, "
          "strerror: No space left on device, e.what() = DB::Exception",
          75, "Cannot write to file /x, errno: 28, strerror: No space left on device" },
        { "Code: 1", 1, "Code: 1" },
        { "Code: x. DB::Exception: y", 0, NULL },
        { "Ok.\n", 0, NULL },
        { "", 0, NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct click_exception e = click_exception_read(cases[i].body);

        assert_int_equal(e.code, cases[i].code);
        if (cases[i].code) {
            assert_int_equal(e.len, strlen(cases[i].text));
            assert_memory_equal(e.text, cases[i].text, e.len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_zero_byte),
        cmocka_unit_test(test_exceptions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
