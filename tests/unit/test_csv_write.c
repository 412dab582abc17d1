/* test_csv_write.c -- cells of CSV, as programs and as spreadsheets should see them. */
#include "base/csv_write.h"
#include "unit.h"

#include <sys/mman.h>

static void expect_cell(const char *s, size_t len, enum csv_style style, const char *wanted)
{
    int fd = memfd_create("csv", MFD_CLOEXEC);
    char found[200] = "";
    struct io_out out;
    opm_error err;

    assert_true(fd >= 0);
    assert_int_equal(io_out_open_fd(&out, fd, "csv", &err), 0);
    csv_put(&out, s, len, style);
    assert_int_equal(io_out_close(&out, true, &err), 0);
    assert_true(pread(fd, found, sizeof(found) - 1, 0) >= 0);
    assert_string_equal(found, wanted);
    close(fd);
}

static void test_cells(void **state)
{
    static const struct {
        const char *text, *exact, *safe;
    } cases[] = {
        { "", "\"\"", "\"\"" },
        { "plain", "plain", "plain" },
        { "a,b", "\"a,b\"", "\"a,b\"" },
        { "a\"b\nc", "\"a\"\"b\nc\"", "\"a\"\"b\nc\"" },
        { "=1+1", "\"=1+1\"", "\"'=1+1\"" },
        { "=\"x\"", "\"=\"\"x\"\"\"", "\"'=\"\"x\"\"\"" },
        { "+cmd|' /C calc'!A0", "\"+cmd|' /C calc'!A0\"", "\"'+cmd|' /C calc'!A0\"" },
        { "-x", "\"-x\"", "\"'-x\"" },
        { "@SUM(A1)", "\"@SUM(A1)\"", "\"'@SUM(A1)\"" },
        { "\t=1", "\"\t=1\"", "\"'\t=1\"" },
        { "\r=1", "\"\r=1\"", "\"'\r=1\"" },
        { "'=1", "'=1", "''=1" },
        { "''=1", "''=1", "'''=1" },
        { "'", "'", "'" },
        { "'a'", "'a'", "'a'" },
        { "-5", "-5", "-5" },
        { "+1.5e-3", "+1.5e-3", "+1.5e-3" },
        { "-5+1", "\"-5+1\"", "\"'-5+1\"" },
        { "-", "\"-\"", "\"'-\"" },
        { "a=b", "a=b", "a=b" },
        { "\x1b[31mred", "\x1b[31mred", "\"\\u001b[31mred\"" },
        { "=\x1b", "\"=\x1b\"", "\"'=\\u001b\"" },
        { "\xc2\x9b"
          "1m",
          "\xc2\x9b"
          "1m",
          "\"\\u009b1m\"" },
        { "\x7f", "\x7f", "\"\\u007f\"" },
        { "a\xff\"", "\"a\xff\"\"\"", "\"a\xef\xbf\xbd\"\"\"" },
        { "\xc3\xa4", "\xc3\xa4", "\xc3\xa4" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t len = strlen(cases[i].text);

        expect_cell(cases[i].text, len, CSV_EXACT, cases[i].exact);
        expect_cell(cases[i].text, len, CSV_SAFE, cases[i].safe);
    }
    expect_cell("\x1b", 1, CSV_MARK, "\x1b");
    expect_cell("\0x", 2, CSV_SAFE, "\"\\u0000x\"");
}

/* What a reader takes off is what CSV_MARK put there. */
static void test_marks(void **state)
{
    char *edge;

    (void)state;
    assert_true(csv_is_marked("'=1", 3));
    assert_true(csv_is_marked("''=1", 4));
    assert_false(csv_is_marked("''", 2));
    assert_true(csv_is_marked("'-x", 3));
    assert_false(csv_is_marked("'-5", 3)); /* a number has none */
    assert_false(csv_is_marked("'", 1));
    assert_false(csv_is_marked("'a", 2));
    assert_false(csv_is_marked("=1", 2));
    assert_false(csv_is_marked("", 0));
    /* Nothing need follow the text, not even what ends it. */
    edge = malloc(3);
    assert_non_null(edge);
    memcpy(edge, "'-5", 3);
    assert_false(csv_is_marked(edge, 3));
    free(edge);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cells),
                                        cmocka_unit_test(test_marks) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
