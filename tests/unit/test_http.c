/* test_http.c -- what a request asks for, and who may ask. */
#include "server/guard.h"
#include "server/queries.h"
#include "server/target.h"
#include "unit.h"

/* Segments and arguments as "a|b?c=d&e=f". */
static const char *taken_apart(const char *raw)
{
    static char text[600];
    struct target t;
    opm_error err;
    size_t n = 0;

    text[0] = '\0';
    if (target_parse(&t, raw, &err) < 0)
        snprintf(text, sizeof(text), "error: %s", err.msg);
    for (size_t i = 0; i < t.nsegment; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? "|" : "", t.segment[i]);
    for (size_t i = 0; i < t.narg; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s=%s", i ? "&" : "?", t.arg[i].name,
                              t.arg[i].value);
    target_release(&t);
    return text;
}

static void test_target(void **state)
{
    static const struct {
        const char *raw, *parts;
    } cases[] = {
        { "/", "" },
        { "/?", "" },
        { "/a", "a" },
        { "/a/", "a" },
        { "/a/b/c", "a|b|c" },
        { "//a", "|a" },
        { "/a%2fb/c", "a/b|c" },
        { "/a%20b?c%3d=d%26e+f&g", "a b?c==d&e f&g=" },
        { "/?a=1&&b=2&", "?a=1&b=2" },
        { "/?a==b?c", "?a==b?c" },
        { "/+", "+" },
        { "/\xc3\xa4?x=%c3%a4", "\xc3\xa4?x=\xc3\xa4" },
        { "", "error: the address does not begin with '/'" },
        { "x", "error: the address does not begin with '/'" },
        { "http://localhost/", "error: the address does not begin with '/'" },
        { "/%", "error: the address has a % that is no escape" },
        { "/%4", "error: the address has a % that is no escape" },
        { "/%g0", "error: the address has a % that is no escape" },
        { "/?a=%0g", "error: the address has a % that is no escape" },
        { "/%00", "error: the address has an encoded NUL" },
        { "/?a=%00", "error: the address has an encoded NUL" },
        { "/..", "error: the address has a '..'" },
        { "/a/%2e%2E/b", "error: the address has a '..'" },
        { "/./b", "error: the address has a '.'" },
        { "/a b", "error: the address has a byte that must be escaped" },
        { "/a\\b", "error: the address has a byte that must be escaped" },
        { "/a#b", "error: the address has a byte that must be escaped" },
        { "/a\tb", "error: the address has a byte that must be escaped" },
        { "/?a=1&b=2&a=3", "error: argument 'a' is given twice" },
        { "/1/2/3/4/5/6/7/8", "1|2|3|4|5|6|7|8" },
        { "/1/2/3/4/5/6/7/8/9", "error: the address has more than 8 parts" },
        { "/?1&2&3&4&5&6&7&8&9&a&b&c&d&e&f&g&h", "error: the address has more than 16 arguments" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *parts = taken_apart(cases[i].raw);

        if (strncmp(cases[i].parts, "error", 5) == 0)
            assert_memory_equal(parts, cases[i].parts, strlen(cases[i].parts));
        else
            assert_string_equal(parts, cases[i].parts);
    }
}

static void test_target_is(void **state)
{
    static const struct {
        const char *raw, *path;
        bool is;
    } cases[] = {
        { "/", "", true },         { "/a", "", false },        { "/", "a", false },
        { "/a/b", "a/b", true },   { "/a/b", "a/*", true },    { "/a/b", "*/b", true },
        { "/a", "a/*", false },    { "/a/b/c", "a/*", false }, { "/a%2fb", "a/b", false },
        { "/a/bc", "a/b", false }, { "/a/b", "a/bc", false },
    };
    struct target t;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(target_parse(&t, cases[i].raw, NULL), 0);
        assert_int_equal(target_is(&t, cases[i].path), cases[i].is);
        target_release(&t);
    }
}

static void test_target_int(void **state)
{
    static const struct {
        const char *raw;
        int rc;
        int64_t value;
    } cases[] = {
        { "/", 0, 77 },
        { "/?n=5", 0, 5 },
        { "/?n=-5", 0, -5 },
        { "/?n=100", 0, 100 },
        { "/?n=101", OPM_EINVAL, 77 },
        { "/?n=", OPM_EINVAL, 77 },
        { "/?n=5x", OPM_EINVAL, 77 },
        { "/?n=+5", OPM_EINVAL, 77 },
        { "/?n=%2b5", OPM_EINVAL, 77 },
        { "/?n=1e1", OPM_EINVAL, 77 },
        { "/?n=99999999999999999999", OPM_EINVAL, 77 },
    };
    struct target t;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t v = 77;

        assert_int_equal(target_parse(&t, cases[i].raw, NULL), 0);
        assert_int_equal(target_int(&t, "n", -100, 100, &v, NULL), cases[i].rc);
        assert_int_equal(v, cases[i].value);
        target_release(&t);
    }
}

static int parse_long(void)
{
    struct target t;
    int rc = target_parse(&t, "/a/b/c?d=e&f=g", NULL);

    target_release(&t);
    return rc;
}

static void test_target_memory(void **state)
{
    (void)state;
    unit_fail_each(parse_long);
}

static const struct guard local = { true, NULL }, to_all = { false, "box.example" };

struct guard_case {
    const struct guard *g;
    struct guard_request r;
    int status; /* 0: it may */
};

static void expect_guarded(const struct guard_case *c, size_t n,
                           int (*check)(const struct guard *, const struct guard_request *,
                                        opm_error *))
{
    for (size_t i = 0; i < n; i++) {
        opm_error err = { 0 };
        int status = check(c[i].g, &c[i].r, &err);

        if (status != c[i].status)
            fail_msg("case %zu: %d %s", i, status, err.msg);
        assert_int_equal(status != 0, err.msg[0] != '\0');
    }
}

static void test_guard(void **state)
{
    static const struct guard_case cases[] = {
        { &local, { "GET", true, "localhost:8080", NULL, NULL }, 0 },
        { &local, { "HEAD", true, "127.0.0.1", NULL, NULL }, 0 },
        { &local, { "GET", true, "127.1.2.3:1", NULL, NULL }, 0 },
        { &local, { "GET", true, "[::1]:8080", NULL, NULL }, 0 },
        { &local, { "GET", true, NULL, NULL, NULL }, 400 },
        { &local, { "GET", false, "10.0.0.1", NULL, NULL }, 403 },
        { &local, { "GET", false, "box.example", NULL, NULL }, 403 },
        { &local, { "GET", false, "localhost:123456", NULL, NULL }, 403 },
        { &local, { "GET", false, "localhost:80:80", NULL, NULL }, 403 },
        { &local, { "GET", false, "127.0.0.1.example", NULL, NULL }, 403 },
        { &local, { "GET", false, "2130706433", NULL, NULL }, 403 },
        { &local, { "POST", true, "localhost", NULL, NULL }, 405 },
        { &local, { "get", true, "localhost", NULL, NULL }, 405 },
        { &to_all, { "GET", true, "10.0.0.1:80", NULL, NULL }, 0 },
        { &to_all, { "GET", true, "[fe80::1]", NULL, NULL }, 0 },
        { &to_all, { "GET", true, "BOX.example:80", NULL, NULL }, 0 },
        { &to_all, { "GET", true, "other.example", NULL, NULL }, 403 },
        { &local, { "GET", true, "localhost:1", "http://localhost:1", NULL }, 0 },
        { &local, { "GET", true, "localhost:1", "http://localhost:2", NULL }, 403 },
        { &local, { "GET", true, "localhost:1", "https://localhost:1", NULL }, 403 },
        { &local, { "GET", false, "localhost", "null", NULL }, 403 },
        { &local, { "GET", true, "localhost", NULL, "same-origin" }, 0 },
        { &local, { "GET", true, "localhost", NULL, "none" }, 0 },
        { &local, { "GET", true, "localhost", NULL, "cross-site" }, 403 },
        { &local, { "GET", false, "localhost", NULL, "cross-site" }, 0 },
    };

    (void)state;
    expect_guarded(cases, ARRAY_SIZE(cases), guard_check);
}

/* Files are brought by PUT, from here alone. */
static void test_guard_drop(void **state)
{
    static const struct guard_case cases[] = {
        { &local, { "PUT", true, "localhost:1", NULL, NULL }, 0 },
        { &local, { "PUT", true, "localhost:1", "http://localhost:1", "same-origin" }, 0 },
        { &local, { "PUT", true, "localhost:1", "http://localhost:2", NULL }, 403 },
        { &local, { "PUT", true, "localhost:1", NULL, "cross-site" }, 403 },
        { &local, { "PUT", true, "box.example", NULL, NULL }, 403 },
        { &local, { "PUT", true, NULL, NULL, NULL }, 400 },
        { &local, { "POST", true, "localhost:1", NULL, NULL }, 405 },
        { &local, { "GET", true, "localhost:1", NULL, NULL }, 405 },
        { &to_all, { "PUT", true, "box.example", NULL, NULL }, 403 },
        { &to_all, { "PUT", true, "localhost", NULL, NULL }, 403 },
    };

    (void)state;
    expect_guarded(cases, ARRAY_SIZE(cases), guard_check_drop);
}

static const struct query sample = { "sample", "a:int b:text c:int=5 d:text=x e:int?", "",
                                     "SELECT :a, :b, :c, :d, :e, ':no' :ab" };

static void test_query_sql(void **state)
{
    static const struct {
        const char *raw, *sql; /* NULL: OPM_EINVAL */
    } cases[] = {
        { "/?a=1&b=x", "SELECT 1, 'x', 5, 'x', NULL, ':no' :ab" },
        { "/?a=-1&b=&c=7&d=y&e=9", "SELECT -1, '', 7, 'y', 9, ':no' :ab" },
        { "/?a=1&b=%27+OR+%271", "SELECT 1, ''' OR ''1', 5, 'x', NULL, ':no' :ab" },
        { "/?a=1", NULL },
        { "/?b=1", NULL },
        { "/?a=1;b&b=1", NULL },
        { "/?a=1+2&b=1", NULL },
        { "/?a=0x10&b=1", NULL },
        { "/?a=&b=1", NULL },
        { "/?a=1&b=1&f=1", NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf sql = { 0 };
        struct target t;
        int rc;

        assert_int_equal(target_parse(&t, cases[i].raw, NULL), 0);
        rc = query_sql(&sample, t.arg, t.narg, &sql, NULL);
        assert_int_equal(rc, cases[i].sql ? 0 : OPM_EINVAL);
        if (cases[i].sql)
            assert_string_equal(buf_str(&sql), cases[i].sql);
        buf_release(&sql);
        target_release(&t);
    }
}

/* The list itself: names once, every argument used, every :name an argument. */
static void test_queries(void **state)
{
    (void)state;
    for (const struct query *q = queries; q->name; q++) {
        struct buf sql = { 0 };
        struct target_arg arg[TARGET_ARGS_MAX];
        char names[TARGET_ARGS_MAX][40];
        size_t n = 0;

        assert_ptr_equal(query_find(q->name), q);
        for (const char *at = q->args; *at; n++) {
            size_t len = strcspn(at, ":");
            char place[40];

            snprintf(names[n], sizeof(names[n]), "%.*s", (int)len, at);
            arg[n] = (struct target_arg){ names[n], "1" };
            snprintf(place, sizeof(place), ":%.*s", (int)len, at);
            assert_non_null(strstr(q->sql, place));
            at += strcspn(at, " ");
            at += strspn(at, " ");
        }
        assert_int_equal(query_sql(q, arg, n, &sql, NULL), 0);
        assert_null(strstr(buf_str(&sql), " :"));
        buf_release(&sql);
    }
    assert_null(query_find("nothing"));
    assert_true(query_needs_nothing(query_find("meta")));
    assert_false(query_needs_nothing(query_find("op_spans")));
    assert_true(query_needs_only(query_find("op_spans"), "op"));
    assert_false(query_needs_only(query_find("meta"), "op"));
    assert_false(query_needs_only(&sample, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target),     cmocka_unit_test(test_target_is),
        cmocka_unit_test(test_target_int), cmocka_unit_test(test_target_memory),
        cmocka_unit_test(test_guard),      cmocka_unit_test(test_guard_drop),
        cmocka_unit_test(test_query_sql),  cmocka_unit_test(test_queries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
