/* test_csv_read.c -- comma-separated values as people write them. */
#include "base/csv_read.h"
#include "unit.h"

#include <string.h>

static int row(struct csv_reader *r, struct csv_field *f, int max, struct buf *text)
{
    int n = csv_read_row(r, f, max);

    buf_clear(text);
    for (int i = 0; i < MIN(n, max); i++) {
        buf_adds(text, i ? "|" : "");
        csv_field_text(&f[i], text);
    }
    return n;
}

static void test_rows(void **state)
{
    static const struct {
        const char *text;
        const char *rows; /* fields separated by '|', rows by '/' */
    } cases[] = {
        { "a,b\nc,d\n", "a|b/c|d/" },
        { "a,b\r\nc,d", "a|b/c|d/" },
        { "\xef\xbb\xbf"
          "a\n\n\nb\n",
          "a/b/" },
        { ",,\n", "||/" },
        { "\"a,\"\"b\"\"\nc\",d\n", "a,\"b\"\nc|d/" },
        { "\"\",x\n", "|x/" },
        { "\"open,\nno end", "open,\nno end/" },
        { "\"a\"junk,b\n", "a|b/" },
        { "a\"b,c\n", "a\"b|c/" },
        { "", "" },
        { "\n\r\n", "" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct csv_reader r = csv_read_of(cases[i].text, strlen(cases[i].text));
        struct csv_field f[4];
        struct buf text = { 0 }, all = { 0 };

        while (row(&r, f, 4, &text) >= 0)
            buf_addf(&all, "%s/", buf_str(&text));
        assert_string_equal(buf_str(&all), cases[i].rows);
        buf_release(&text);
        buf_release(&all);
    }
}

static void test_more_fields_than_room(void **state)
{
    struct csv_reader r = csv_read_of("1,2,3,4\n5\n", 10);
    struct csv_field f[2];

    (void)state;
    assert_int_equal(csv_read_row(&r, f, 2), 4);
    assert_true(csv_field_is(&f[1], "2"));
    assert_int_equal(csv_read_row(&r, f, 2), 1);
    assert_int_equal(r.row, 2);
    assert_int_equal(csv_read_row(&r, f, 2), -1);
}

static void test_integers(void **state)
{
    static const struct {
        const char *text;
        int64_t v;
        bool ok;
    } cases[] = {
        { "0", 0, true },
        { " 42 ", 42, true },
        { "-7", -7, true },
        { "+7", 7, true },
        { "3.0", 3, true },
        { "3.5", 0, false },
        { "", 0, false },
        { "-", 0, false },
        { "12x", 0, false },
        { "9223372036854775807", INT64_MAX, true },
        { "-9223372036854775808", INT64_MIN, true },
        { "9223372036854775808", 0, false },
        { "99999999999999999999", 0, false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct csv_field f = { cases[i].text, strlen(cases[i].text), false };
        int64_t v = 0;

        assert_int_equal(csv_field_int(&f, &v), cases[i].ok);
        if (cases[i].ok)
            assert_int_equal(v, cases[i].v);
    }
}

static void test_unclosed(void **state)
{
    struct csv_reader r = csv_read_of("a,\"b", 4);
    struct csv_field f[2];

    (void)state;
    assert_int_equal(csv_read_row(&r, f, 2), 2);
    assert_true(r.unclosed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_more_fields_than_room),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_unclosed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
