/* test_options.c -- every way to write an option, every way to get it wrong, and the help text. */
#include "../../src/cli/options.c"
#include "unit.h"

#define WORDS_MAX 8

static const char *const colors[] = { "auto", "always", "never", NULL };

/* One of each kind, as a command has them. */
struct values {
    bool json;
    bool verbose;
    const char *output;
    const char *color;
    int64_t number;
    struct option_list list;
};

struct table {
    struct option opt[10];
};

static struct table table_of(struct values *v)
{
    return (struct table){ {
        OPT_BOOL(0, "json", &v->json, "print JSON"),
        OPT_BOOL('v', "verbose", &v->verbose, "say more"),
        OPT_GROUP("Output"),
        OPT_STR('o', "output", &v->output, "PATH", "write to PATH"),
        OPT_CHOICE(0, "color", &v->color, "WHEN", colors, "use colour"),
        OPT_INT('n', "number", &v->number, "N", -5, 100, "how many"),
        OPT_LIST('I', "include", &v->list, "NAME", "also NAME; may be repeated"),
        OPT_STR(0, "order-by-a-very-long-name", &v->output, "COLUMN",
                "a name wider than its column"),
        OPT_ALIAS("iter", "number"), /* the help below must not show it */
        OPT_END,
    } };
}

/* Parse a NULL-terminated list of words. */
static int parse(struct values *v, unsigned flags, const char *const *words, char **argv,
                 int *nargs, opm_error *err)
{
    static char copy[WORDS_MAX][128];
    struct table t = table_of(v);
    int argc = 0;

    for (; words[argc]; argc++) {
        snprintf(copy[argc], sizeof(copy[argc]), "%s", words[argc]);
        argv[argc] = copy[argc];
    }
    return options_parse(t.opt, flags, argc, argv, nargs, err);
}

static void test_accepts(void **state)
{
    static const struct {
        const char *words[WORDS_MAX];
        const char *args; /* joined by spaces */
        bool json, verbose;
        const char *output;
        const char *color;
        int64_t number;
        const char *list;
    } cases[] = {
        { { NULL }, "", false, false, NULL, NULL, 7, "" },
        { { "a", "b" }, "a b", false, false, NULL, NULL, 7, "" },
        { { "--json", "-v" }, "", true, true, NULL, NULL, 7, "" },
        { { "--json", "--no-json" }, "", false, false, NULL, NULL, 7, "" },
        { { "--no-verb", "-v" }, "", false, true, NULL, NULL, 7, "" },
        { { "-v", "--no-verb" }, "", false, false, NULL, NULL, 7, "" },
        { { "-o", "x", "t" }, "t", false, false, "x", NULL, 7, "" },
        { { "-ox" }, "", false, false, "x", NULL, 7, "" },
        { { "-vox" }, "", false, true, "x", NULL, 7, "" },
        { { "-vo", "x" }, "", false, true, "x", NULL, 7, "" },
        { { "-o", "-" }, "", false, false, "-", NULL, 7, "" },
        { { "-o-" }, "", false, false, "-", NULL, 7, "" },
        { { "--iter", "3" }, "", false, false, NULL, NULL, 3, "" },
        { { "--iter=4" }, "", false, false, NULL, NULL, 4, "" },
        { { "--order_by_a_very=x" }, "", false, false, "x", NULL, 7, "" },
        { { "--output=x=y" }, "", false, false, "x=y", NULL, 7, "" },
        { { "--output", "--json" }, "", false, false, "--json", NULL, 7, "" },
        { { "--output=" }, "", false, false, "", NULL, 7, "" },
        { { "--out", "x", "--js" }, "", true, false, "x", NULL, 7, "" },
        { { "--color", "never" }, "", false, false, NULL, "never", 7, "" },
        { { "--color=always", "-" }, "-", false, false, NULL, "always", 7, "" },
        { { "-n", "-5" }, "", false, false, NULL, NULL, -5, "" },
        { { "--number=100" }, "", false, false, NULL, NULL, 100, "" },
        { { "-Ia", "--include=b", "-I", "c" }, "", false, false, NULL, NULL, 7, "a b c" },
        { { "a", "--", "-v", "--json" }, "a -v --json", false, false, NULL, NULL, 7, "" },
        { { "--", "--" }, "--", false, false, NULL, NULL, 7, "" },
        { { "a", "--json", "b", "-v", "c" }, "a b c", true, true, NULL, NULL, 7, "" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct values v = { .number = 7 };
        struct buf args = { 0 }, list = { 0 };
        char *argv[WORDS_MAX];
        opm_error err = { 0 };
        int n = -1, rc = parse(&v, 0, cases[i].words, argv, &n, &err);

        if (rc != 0)
            print_error("case %zu: %s\n", i, err.msg);
        assert_int_equal(rc, 0);
        for (int k = 0; k < n; k++)
            buf_addf(&args, "%s%s", k ? " " : "", argv[k]);
        for (size_t k = 0; k < v.list.n; k++)
            buf_addf(&list, "%s%s", k ? " " : "", v.list.item[k]);
        assert_string_equal(buf_str(&args), cases[i].args);
        assert_string_equal(buf_str(&list), cases[i].list);
        assert_int_equal(v.json, cases[i].json);
        assert_int_equal(v.verbose, cases[i].verbose);
        assert_int_equal(v.number, cases[i].number);
        assert_string_equal(v.output ? v.output : "?", cases[i].output ? cases[i].output : "?");
        assert_string_equal(v.color ? v.color : "?", cases[i].color ? cases[i].color : "?");
        buf_release(&args);
        buf_release(&list);
        option_list_release(&v.list);
    }
}

static void test_refuses(void **state)
{
    static const struct {
        const char *words[WORDS_MAX];
        const char *msg;
    } cases[] = {
        { { "--jsn" }, "unknown option '--jsn'; did you mean '--json'?" },
        { { "--josn" }, "unknown option '--josn'; did you mean '--json'?" },
        { { "--no-jsno" }, "unknown option '--no-jsno'; did you mean '--no-json'?" },
        { { "--no-output" }, "unknown option '--no-output'" },
        { { "--no-" }, "unknown option '--no-'" },
        { { "--zzz=1" }, "unknown option '--zzz'" },
        { { "--=1" }, "unknown option '--=1'" },
        { { "--o", "x" }, "option '--o' could be '--output' or '--order-by-a-very-long-name'" },
        { { "--heln" }, "unknown option '--heln'; did you mean '--help'?" },
        { { "-x" }, "unknown option '-x'" },
        { { "-vx" }, "unknown option '-x'" },
        { { "--json=1" }, "option '--json' takes no value" },
        { { "--no-json=1" }, "option '--no-json' takes no value" },
        { { "--output" }, "option '--output' needs a value, PATH" },
        { { "-o" }, "option '--output' needs a value, PATH" },
        { { "-n", "6x" }, "option '--number' wants a whole number, not '6x'" },
        { { "-n", "" }, "option '--number' wants a whole number, not ''" },
        { { "-n", "101" }, "option '--number' wants a number from -5 to 100, not '101'" },
        { { "-n", "-6" }, "option '--number' wants a number from -5 to 100, not '-6'" },
        { { "-n", "99999999999999999999" },
          "option '--number' wants a number from -5 to 100, not '99999999999999999999'" },
        { { "--color=alway" },
          "option '--color' wants auto, always or never, not 'alway'; did you mean 'always'?" },
        { { "--color=blue" }, "option '--color' wants auto, always or never, not 'blue'" },
        { { "--a\nb" }, "unknown option '--a?b'" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct values v = { 0 };
        char *argv[WORDS_MAX];
        opm_error err = { 0 };
        int n;

        assert_int_equal(parse(&v, 0, cases[i].words, argv, &n, &err), OPM_EINVAL);
        assert_string_equal(err.msg, cases[i].msg);
        option_list_release(&v.list);
    }
}

static void test_help_is_asked_for(void **state)
{
    static const char *const cases[][WORDS_MAX] = {
        { "-h" }, { "--help" }, { "--hel" }, { "a", "-h" }, { "-vh" }, { "-h", "--no-such" },
    };
    static const char *const value[] = { "-o", "-h", NULL };
    struct values v = { 0 };
    char *argv[WORDS_MAX];
    opm_error err;
    int n;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(parse(&v, 0, cases[i], argv, &n, &err), OPTIONS_HELP);
    assert_int_equal(parse(&v, 0, value, argv, &n, &err), 0);
    assert_string_equal(v.output, "-h");
}

static void test_stops_at_argument(void **state)
{
    static const char *const words[] = { "-v", "query", "--json", "--", "-x", NULL };
    struct values v = { 0 };
    char *argv[WORDS_MAX];
    opm_error err;
    int n;

    (void)state;
    assert_int_equal(parse(&v, OPTIONS_STOP_AT_ARGUMENT, words, argv, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_string_equal(argv[0], "query");
    assert_string_equal(argv[1], "--json");
    assert_string_equal(argv[2], "--");
    assert_string_equal(argv[3], "-x");
    assert_true(v.verbose);
    assert_false(v.json);
}

/* The first "--" stays and options go on behind it; the second ends them. */
static void test_keeps_dashes(void **state)
{
    static const char *const words[] = { "a", "--", "b", "-v", "--", "-x", NULL };
    struct values v = { 0 };
    char *argv[WORDS_MAX];
    opm_error err;
    int n;

    (void)state;
    assert_int_equal(parse(&v, OPTIONS_KEEP_DASHES, words, argv, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_string_equal(argv[0], "a");
    assert_string_equal(argv[1], "--");
    assert_string_equal(argv[2], "b");
    assert_string_equal(argv[3], "-x");
    assert_true(v.verbose);
}

static void test_list_without_memory(void **state)
{
    static const char *const words[] = { "-I", "a", NULL };
    struct values v = { 0 };
    char *argv[WORDS_MAX];
    opm_error err;
    int n;

    (void)state;
    mem_fail_at(1);
    assert_int_equal(parse(&v, 0, words, argv, &n, &err), OPM_ENOMEM);
    mem_fail_at(0);
    option_list_release(&v.list);
}

static void test_help_text(void **state)
{
    static const char want[] = "usage: opmeter x TRACE\n"
                               "   or: opmeter x --list\n"
                               "\n"
                               "Do something with a trace that takes more\n"
                               "than one line to say.\n"
                               "\n"
                               "      --json              print JSON\n"
                               "  -v, --verbose           say more\n"
                               "\n"
                               "Output\n"
                               "  -o, --output PATH       write to PATH\n"
                               "      --color WHEN        use colour\n"
                               "  -n, --number N          how many\n"
                               "  -I, --include NAME      also NAME; may be\n"
                               "                          repeated\n"
                               "      --order-by-a-very-long-name COLUMN\n"
                               "                          a name wider than\n"
                               "                          its column\n"
                               "  -h, --help              show this help\n";
    struct values v = { 0 };
    struct table t = table_of(&v);
    struct buf b = { 0 };

    (void)state;
    options_help(&b, "opmeter x TRACE\nopmeter x --list",
                 "Do something with a trace that takes more than one line to say.", t.opt, 44);
    assert_string_equal(buf_str(&b), want);
    buf_release(&b);
}

static void test_wrap(void **state)
{
    static const struct {
        const char *text;
        int col, indent, width;
        const char *want;
    } cases[] = {
        { "", 0, 0, 10, "" },
        { "a b c", 0, 0, 10, "a b c" },
        { "aaaa bbbb cc", 0, 2, 9, "aaaa bbbb\n  cc" },
        { "aaaa bbbb", 6, 2, 10, "aaaa\n  bbbb" },
        { "longer-than-the-line x", 0, 1, 8, "longer-than-the-line\n x" },
        { "a\n\nb", 0, 2, 10, "a\n\n  b" },
        { "  a   b ", 0, 0, 10, "a b" },
        { "\xc2\xb5s \xc2\xb5s", 0, 0, 5, "\xc2\xb5s \xc2\xb5s" },
        /* A figure keeps its unit, but two words that happen to be short do not. */
        { "waited 28.8 % of it", 0, 0, 11, "waited\n28.8 % of\nit" },
        { "took 175 ms.", 0, 0, 9, "took\n175 ms." },
        { "step 3 is", 0, 0, 7, "step 3\nis" },
        { "7 mss", 0, 0, 3, "7\nmss" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b = { 0 };

        text_wrap(&b, cases[i].text, cases[i].col, cases[i].indent, cases[i].width);
        assert_string_equal(buf_str(&b), cases[i].want);
        buf_release(&b);
    }
}

static void test_nearest(void **state)
{
    static const char *const names[] = { "info",   "query", "schema", "export",
                                         "doctor", "help",  "top" };
    static const struct {
        const char *word;
        const char *want; /* NULL: nothing near enough */
    } cases[] = {
        { "inof", "info" },
        { "quer", "query" },
        { "shema", "schema" },
        { "exprot", "export" },
        { "docter", "doctor" },
        { "xyz", NULL },
        { "", NULL },
        { "i", NULL },
        { "foo", NULL },
        { "tpo", "top" },
        { "infomation", NULL },
        { "sch", "schema" },
        { "a-word-that-is-much-longer-than-any-name-could-ever-be", NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct nearest n = { cases[i].word, NULL, 0 };

        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            nearest_try(&n, names[k]);
        assert_string_equal(n.best ? n.best : "?", cases[i].want ? cases[i].want : "?");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),           cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_help_is_asked_for), cmocka_unit_test(test_stops_at_argument),
        cmocka_unit_test(test_keeps_dashes),      cmocka_unit_test(test_list_without_memory),
        cmocka_unit_test(test_help_text),         cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
