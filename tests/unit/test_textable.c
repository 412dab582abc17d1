/* test_textable.c -- the four forms of a table, widths, and text that no terminal should see. */
#include "base/textable.h"
#include "unit.h"

/* What textable_print() writes; free it. */
static char *printed(struct textable *t, enum textable_format format, int width, bool bold)
{
    const char *path = unit_path("table");
    struct io_out o = { 0 };
    struct io_map m = { 0 };
    char *text;

    assert_int_equal(io_out_open(&o, path, NULL), 0);
    assert_int_equal(textable_print(t, &o, format, width, bold, NULL), 0);
    assert_int_equal(io_out_close(&o, true, NULL), 0);
    assert_int_equal(io_map(&m, path, 0, NULL), 0);
    text = calloc(1, m.len + 1);
    assert_non_null(text);
    memcpy(text, m.data, m.len);
    io_map_release(&m);
    return text;
}

static void assert_printed(struct textable *t, enum textable_format format, int width,
                           const char *want)
{
    char *got = printed(t, format, width, false);

    assert_string_equal(got, want);
    free(got);
}

static void add_text(struct textable *t, const char *s)
{
    textable_text(t, s, strlen(s));
}

static void test_forms(void **state)
{
    struct textable *t = textable_new();

    (void)state;
    textable_column(t, "name", TEXTABLE_TEXT);
    textable_column(t, "count", TEXTABLE_INT);
    textable_column(t, "ms", TEXTABLE_REAL);
    textable_column(t, "note", TEXTABLE_TEXT);
    assert_int_equal(textable_rows(t), 0);
    add_text(t, "Conv");
    textable_int(t, 1234567);
    textable_real(t, 1.0 / 3);
    add_text(t, "a,b");
    add_text(t, "vec<f|g>");
    textable_int(t, -1);
    textable_real(t, 1e9);
    textable_null(t);
    add_text(t, "");
    textable_null(t);
    textable_null(t);
    add_text(t, "say \"hi\"");
    assert_int_equal(textable_rows(t), 3);
    assert_printed(t, TEXTABLE_ALIGNED, 0,
                   "name        count        ms  note\n"
                   "--------  -------  --------  --------\n"
                   "Conv      1234567  0.333333  a,b\n"
                   "vec<f|g>       -1     1e+09  N/A\n"
                   "              N/A       N/A  say \"hi\"\n");
    assert_printed(t, TEXTABLE_CSV, 0,
                   "name,count,ms,note\n"
                   "Conv,1234567,0.3333333333333333,\"a,b\"\n"
                   "vec<f|g>,-1,1000000000,\n"
                   "\"\",,,\"say \"\"hi\"\"\"\n");
    assert_printed(
        t, TEXTABLE_JSON, 0,
        "[\n"
        "{\"name\":\"Conv\",\"count\":1234567,\"ms\":0.3333333333333333,\"note\":\"a,b\"},\n"
        "{\"name\":\"vec<f|g>\",\"count\":-1,\"ms\":1000000000,\"note\":null},\n"
        "{\"name\":\"\",\"count\":null,\"ms\":null,\"note\":\"say \\\"hi\\\"\"}\n"
        "]\n");
    assert_printed(t, TEXTABLE_MARKDOWN, 0,
                   "| name | count | ms | note |\n"
                   "|---|--:|--:|---|\n"
                   "| Conv | 1234567 | 0.333333 | a,b |\n"
                   "| vec\\<f\\|g> | -1 | 1e+09 | N/A |\n"
                   "|  | N/A | N/A | say \"hi\" |\n");
    textable_free(t);
    textable_free(NULL);
}

static void test_empty(void **state)
{
    static const struct {
        enum textable_format format;
        const char *no_column, *no_row;
    } cases[] = {
        { TEXTABLE_ALIGNED, "", "a  b\n-  -\n" },
        { TEXTABLE_JSON, "[]\n", "[]\n" },
        { TEXTABLE_CSV, "", "a,b\n" },
        { TEXTABLE_MARKDOWN, "", "| a | b |\n|---|--:|\n" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct textable *t = textable_new();

        assert_printed(t, cases[i].format, 0, cases[i].no_column);
        textable_column(t, "a", TEXTABLE_TEXT);
        textable_column(t, "b", TEXTABLE_INT);
        assert_printed(t, cases[i].format, 0, cases[i].no_row);
        textable_free(t);
    }
}

/* One text cell under the heading "x", followed by a second column that shows the width. */
static void test_text(void **state)
{
    static const struct {
        const char *in, *aligned, *csv, *markdown;
    } cases[] = {
        { "caf\xc3\xa9", "caf\xc3\xa9  1\n", "caf\xc3\xa9,1\n", "| caf\xc3\xa9 | 1 |\n" },
        /* e and a combining acute: one column */
        { "e\xcc\x81", "e\xcc\x81  1\n", "e\xcc\x81,1\n", "| e\xcc\x81 | 1 |\n" },
        { "a\x1b[31mb", "a?[31mb  1\n", "a\x1b[31mb,1\n", "| a?[31mb | 1 |\n" },
        { "a\nb", "a?b  1\n", "\"a\nb\",1\n", "| a b | 1 |\n" },
        { "a\rb", "a?b  1\n", "\"a\rb\",1\n", "| a b | 1 |\n" },
        { "\xff", "?  1\n", "\xff,1\n", "| ? | 1 |\n" },
        { "a\xe2\x82", "a?  1\n", "a\xe2\x82,1\n", "| a? | 1 |\n" },
        { "\xc2\x9b"
          "31m",
          "?31m  1\n",
          "\xc2\x9b"
          "31m,1\n",
          "| ?31m | 1 |\n" }, /* 8-bit CSI */
        { "my_op", "my_op  1\n", "my_op,1\n", "| my_op | 1 |\n" },
        { "__h2_", "__h2_  1\n", "__h2_,1\n", "| \\_\\_h2\\_ | 1 |\n" },
        { "a\\|*`", "a\\|*`  1\n", "a\\|*`,1\n", "| a\\\\\\|\\*\\` | 1 |\n" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        static const enum textable_format formats[] = { TEXTABLE_ALIGNED, TEXTABLE_CSV,
                                                        TEXTABLE_MARKDOWN };
        const char *const want[] = { cases[i].aligned, cases[i].csv, cases[i].markdown };
        struct textable *t = textable_new();

        textable_column(t, "x", TEXTABLE_TEXT);
        textable_column(t, "n", TEXTABLE_INT);
        add_text(t, cases[i].in);
        textable_int(t, 1);
        for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
            char *got = printed(t, formats[f], 0, false);
            size_t skip = strlen(got) - MIN(strlen(got), strlen(want[f]));

            assert_string_equal(got + skip, want[f]);
            free(got);
        }
        textable_free(t);
    }
}

static void test_wide(void **state)
{
    struct textable *t = textable_new();

    (void)state;
    textable_column(t, "\xe5\xbd\xa2", TEXTABLE_TEXT); /* one character, two columns */
    textable_column(t, "n", TEXTABLE_INT);
    add_text(t, "\xe5\x8d\xb7\xe7\xa7\xaf");
    textable_int(t, 1);
    add_text(t, "\xf0\x9f\x9a\x80");
    textable_int(t, 22);
    assert_printed(t, TEXTABLE_ALIGNED, 0,
                   "\xe5\xbd\xa2     n\n"
                   "----  --\n"
                   "\xe5\x8d\xb7\xe7\xa7\xaf   1\n"
                   "\xf0\x9f\x9a\x80    22\n");
    textable_free(t);
}

static void test_shrink(void **state)
{
    static const struct {
        int width;
        const char *row; /* the last line */
    } cases[] = {
        { 0, "abcdefghijklmnopqrstuvwxyz  123456  0123456789abcdef\n" },
        { 52, "abcdefghijklmnopqrstuvwxyz  123456  0123456789abcdef\n" },
        { 51, "abcdefgh…klmnopqrstuvwxyz  123456  0123456789abcdef\n" },
        { 42, "abcde…qrstuvwxyz  123456  0123456789abcdef\n" },
        { 41, "abcd…qrstuvwxyz  123456  0123456789abcdef\n" },
        { 40, "abcd…qrstuvwxyz  123456  0123…6789abcdef\n" },
        { 26, "ab…vwxyz  123456  01…bcdef\n" },
        { 10, "ab…vwxyz  123456  01…bcdef\n" }, /* no less */
        { 1, "ab…vwxyz  123456  01…bcdef\n" },
    };
    struct textable *t = textable_new();

    (void)state;
    textable_column(t, "a", TEXTABLE_TEXT);
    textable_column(t, "n", TEXTABLE_INT);
    textable_column(t, "b", TEXTABLE_TEXT);
    add_text(t, "abcdefghijklmnopqrstuvwxyz");
    textable_int(t, 123456);
    add_text(t, "0123456789abcdef");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *got = printed(t, TEXTABLE_ALIGNED, cases[i].width, false);

        assert_true(strlen(got) > strlen(cases[i].row));
        assert_string_equal(got + strlen(got) - strlen(cases[i].row), cases[i].row);
        free(got);
    }
    textable_free(t);
}

/* Of a C++ template its name survives, and of the arguments what there is room for. */
static void test_shrink_template(void **state)
{
    static const struct {
        int width;
        const char *row;
    } cases[] = {
        { 41, "ns::detail::gemm_kernel<float, 128, true>\n" },
        { 37, "ns::detail::gemm_kernel<floa…8, true>\n" },
        { 30, "ns::detail::gemm_kernel<f…rue>\n" },
        { 26, "ns::detail::gemm_kernel<…>\n" },
        { 20, "ns::d…gemm_kernel<…>\n" },
        { 12, "ns:…8, true>\n" }, /* too little for that */
    };
    static const char name[] = "ns::detail::gemm_kernel<float, 128, true>";

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct textable *t = textable_new();
        char *got;

        textable_column(t, "kernel", TEXTABLE_TEXT);
        add_text(t, name);
        got = printed(t, TEXTABLE_ALIGNED, cases[i].width, false);
        assert_non_null(strstr(got, cases[i].row));
        free(got);
        textable_free(t);
    }
}

/* A wide character that would straddle the cut gives way, and the column stays aligned. */
static void test_shrink_wide(void **state)
{
    struct textable *t = textable_new();

    (void)state;
    textable_column(t, "heading that is long", TEXTABLE_TEXT);
    textable_column(t, "n", TEXTABLE_INT);
    add_text(t, "ab\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7\xe5\x8d\xb7");
    textable_int(t, 1);
    assert_printed(t, TEXTABLE_ALIGNED, 11,
                   "he… long  n\n"
                   "--------  -\n"
                   "ab…\xe5\x8d\xb7\xe5\x8d\xb7   1\n");
    textable_free(t);
}

static void test_bold_and_short_row(void **state)
{
    struct textable *t = textable_new();
    char *got;

    (void)state;
    textable_column(t, "a", TEXTABLE_TEXT);
    textable_column(t, "b", TEXTABLE_REAL);
    textable_real(t, 2.5); /* a number in a text column, and no second cell */
    assert_int_equal(textable_rows(t), 1);
    got = printed(t, TEXTABLE_ALIGNED, 0, true);
    assert_string_equal(got, "\033[1ma      b\033[0m\n---  ---\n2.5  N/A\n");
    free(got);
    textable_free(t);
}

/* Prose is cut at its end; what may be left out is, the highest rank first, and what is empty. */
static void test_optional(void **state)
{
    struct textable *t = textable_new();

    (void)state;
    textable_column(t, "name", TEXTABLE_TEXT);
    textable_column(t, "first", TEXTABLE_INT);
    textable_optional(t, 1);
    textable_column(t, "empty", TEXTABLE_REAL);
    textable_optional(t, 0);
    textable_column(t, "second", TEXTABLE_INT);
    textable_optional(t, 2);
    textable_column(t, "what it is", TEXTABLE_PROSE);
    add_text(t, "a");
    textable_int(t, 1);
    textable_null(t);
    textable_int(t, 2);
    add_text(t, "a sentence that goes on");
    assert_printed(t, TEXTABLE_ALIGNED, 0,
                   "name  first  second  what it is\n"
                   "----  -----  ------  -----------------------\n"
                   "a         1       2  a sentence that goes on\n");
    assert_null(textable_no_room(t, 0));
    assert_printed(t, TEXTABLE_ALIGNED, 40,
                   "name  first  what it is\n"
                   "----  -----  -----------------------\n"
                   "a         1  a sentence that goes on\n");
    assert_string_equal(textable_no_room(t, 0), "second");
    assert_null(textable_no_room(t, 1));
    assert_printed(t, TEXTABLE_ALIGNED, 20,
                   "name  what it is\n"
                   "----  --------------\n"
                   "a     a sentence\n"
                   "      that goes on\n");
    assert_string_equal(textable_no_room(t, 1), "second");
    assert_printed(t, TEXTABLE_CSV, 20,
                   "name,first,empty,second,what it is\n"
                   "a,1,,2,a sentence that goes on\n");
    textable_free(t);
}

/* Bars are in eighths of eight columns, the largest share fills them; only where there is colour.
 */
static void test_share(void **state)
{
    struct textable *t = textable_new();
    char *got;

    (void)state;
    textable_column(t, "share", TEXTABLE_SHARE);
    textable_column(t, "n", TEXTABLE_ANY);
    textable_real(t, 0.5);
    textable_int(t, 1);
    textable_real(t, 0.0625);
    textable_int(t, 20);
    textable_null(t);
    textable_int(t, 3);
    assert_printed(t, TEXTABLE_ALIGNED, 0,
                   " share   n\n------  --\n50.0 %   1\n 6.2 %  20\n   N/A   3\n");
    assert_printed(t, TEXTABLE_CSV, 0, "share,n\n0.5,1\n0.0625,20\n,3\n");
    got = printed(t, TEXTABLE_ALIGNED, 0, true);
    assert_string_equal(got, "\033[1m share            n\033[0m\n"
                             "---------------  --\n"
                             "50.0 % \033[36m████████\033[0m   1\n"
                             " 6.2 % \033[36m█\033[0m         20\n"
                             "   N/A \033[36m\033[0m           3\n");
    free(got);
    got = printed(t, TEXTABLE_ALIGNED, 12, true); /* no room for it */
    assert_non_null(strstr(got, "50.0 %   1\n"));
    free(got);
    textable_free(t);
}

static int fill(void)
{
    struct textable *t = textable_new();
    struct io_out o = { 0 };
    int rc;

    if (!t)
        return OPM_ENOMEM;
    for (int i = 0; i < 20; i++)
        textable_column(t, "column", i % 2 ? TEXTABLE_TEXT : TEXTABLE_INT);
    for (int i = 0; i < 400; i++) {
        textable_int(t, i);
        add_text(t, "text");
    }
    rc = io_out_open(&o, "/dev/null", NULL);
    if (!rc)
        rc = textable_print(t, &o, TEXTABLE_ALIGNED, 80, false, NULL);
    io_out_close(&o, true, NULL);
    textable_free(t);
    return rc;
}

static void test_fail(void **state)
{
    (void)state;
    unit_fail_each(fill);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_shrink_wide),
        cmocka_unit_test(test_shrink_template),
        cmocka_unit_test(test_bold_and_short_row),
        cmocka_unit_test(test_optional),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_fail),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
