/* test_answers.c -- what the server and report files say, and that they survive a lack of memory.
 */
#include "base/io.h"
#include "server/answer.h"
#include "server/facts.h"
#include "server/report.h"
#include "server/timeline.h"
#include "unit.h"

static const char trace_json[] =
    "[{\"ph\":\"X\",\"name\":\"<b>\",\"ts\":0,\"dur\":10,\"pid\":1,\"tid\":1},"
    "{\"ph\":\"X\",\"name\":\"b\",\"ts\":2,\"dur\":3,\"pid\":1,\"tid\":1},"
    "{\"ph\":\"X\",\"name\":\"b\",\"ts\":6,\"dur\":3,\"pid\":1,\"tid\":1},"
    "{\"ph\":\"C\",\"name\":\"c\",\"ts\":7,\"pid\":1,\"args\":{\"v\":4}}]";

static opm_trace *trace;

static int open_trace(void **state)
{
    const char *path = unit_path("answers.json");

    (void)state;
    unit_write(path, trace_json, strlen(trace_json));
    return opm_trace_open(&trace, &path, 1, NULL, NULL);
}

static int close_trace(void **state)
{
    (void)state;
    opm_trace_close(trace);
    return 0;
}

static void test_rows(void **state)
{
    static const struct {
        const char *sql;
        int64_t limit;
        const char *json; /* NULL: it fails */
    } cases[] = {
        { "SELECT 1 AS a", 5,
          "{\"columns\":[\"a\"],\"rows\":[[1]],\"types\":[\"integer\"],\"truncated\":false}" },
        { "SELECT name FROM span WHERE depth = 1", 1,
          "{\"columns\":[\"name\"],\"rows\":[[\"b\"]],\"types\":[\"text\"],\"truncated\":true}" },
        { "SELECT 1 AS a WHERE 0", 1,
          "{\"columns\":[\"a\"],\"rows\":[],\"types\":[\"null\"],\"truncated\":false}" },
        { "SELECT 1 AS a UNION ALL SELECT 'x' UNION ALL SELECT NULL", 9,
          "{\"columns\":[\"a\"],\"rows\":[[1],[\"x\"],[null]],\"types\":[\"text\"],"
          "\"truncated\":false}" },
        { "SELECT -9007199254740992 AS a, -9007199254740993 AS b", 9,
          "{\"columns\":[\"a\",\"b\"],\"rows\":[[-9007199254740992,\"-9007199254740993\"]],"
          "\"types\":[\"integer\",\"integer\"],\"truncated\":false}" },
        { "SELECT nothing", 9, NULL },
        { "DELETE FROM span", 9, NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b = { 0 };
        struct json_writer w = { .buf = &b };
        int rc = answer_rows(&w, trace, cases[i].sql, cases[i].limit, NULL);

        assert_int_equal(rc, cases[i].json ? 0 : OPM_EINVAL);
        if (cases[i].json)
            assert_string_equal(buf_str(&b), cases[i].json);
        buf_release(&b);
    }
}

static int draw(const struct timeline_view *v, struct buf *out)
{
    struct json_writer w = { .buf = out };
    struct timeline *tl;
    int rc = timeline_new(&tl, trace, NULL);

    if (rc < 0)
        return rc;
    rc = timeline_answer(tl, &w, v, false, NULL);
    timeline_free(tl);
    return rc < 0 ? rc : out->failed ? OPM_ENOMEM : 0;
}

static void test_timeline(void **state)
{
    static const uint32_t unknown = 77;
    struct timeline_view v = { .to_ns = 20000, .max_bars = 2, .max_points = 5 };
    struct buf b = { 0 };

    (void)state;
    /* Three bars have no room for two, so the two inner ones become one. */
    assert_int_equal(draw(&v, &b), 0);
    assert_non_null(strstr(buf_str(&b), "\"depth\":2,\"spans\":[[0,10000,0,0,0,1],"
                                        "[2000,7000,1,1,-1,2,6000]]"));
    assert_non_null(strstr(buf_str(&b), "\"points\":[[7000,4]]"));
    assert_non_null(strstr(buf_str(&b), "\"names\":[\"<b>\",\"b\"]"));
    buf_clear(&b);
    v.max_bars = 10;
    assert_int_equal(draw(&v, &b), 0);
    assert_non_null(strstr(buf_str(&b), "[2000,3000,1,1,1,1],[6000,3000,1,1,2,1]"));
    v.track = &unknown;
    v.ntrack = 1;
    assert_int_equal(draw(&v, &b), OPM_ENOTFOUND);
    buf_release(&b);
}

static void test_fit(void **state)
{
    struct timeline_view v = { .to_ns = 20000 };
    struct timeline *tl;
    bool coarse;

    (void)state;
    assert_int_equal(timeline_new(&tl, trace, NULL), 0);
    assert_int_equal(timeline_fit(tl, &v, 3, &coarse, NULL), 0);
    assert_false(coarse);
    assert_int_equal(v.pixel_ns, 0);
    assert_int_equal(timeline_fit(tl, &v, 2, &coarse, NULL), 0);
    assert_true(coarse);
    timeline_free(tl);
}

static int draw_step(void)
{
    struct timeline_view v = { .to_ns = 20000, .max_bars = 100, .max_points = 100 };
    struct buf b = { 0 };
    int rc = draw(&v, &b);

    buf_release(&b);
    return rc;
}

static int rows_step(void)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };
    int rc = answer_rows(&w, trace, "SELECT * FROM track", 100, NULL);

    rc = rc == 0 && b.failed ? OPM_ENOMEM : rc;
    buf_release(&b);
    return rc;
}

static int facts_step(void)
{
    struct facts f;

    return facts_read(&f, trace, NULL);
}

static void test_memory(void **state)
{
    (void)state;
    unit_fail_each(draw_step);
    unit_fail_each(rows_step);
    unit_fail_each(facts_step);
}

/* Ends like other files that cannot be written in full: not at all. */
static int report_step(void)
{
    const struct report_options o = { .path = "answers.json" };
    const char *path = unit_path("report.html");
    struct io_out out = { 0 };
    int rc = io_out_open(&out, path, NULL);

    if (rc == 0)
        rc = report_write(&out, trace, &o, NULL);
    if (rc == 0)
        return io_out_close(&out, true, NULL);
    io_out_close(&out, false, NULL);
    assert_int_equal(access(path, F_OK), -1);
    return rc;
}

static void test_report(void **state)
{
    struct io_map m = { 0 };

    (void)state;
    unit_fail_each(report_step);
    assert_int_equal(io_map(&m, unit_path("report.html"), 0, NULL), 0);
    assert_non_null(memmem(m.data, m.len, "\\u003cb>", 8));
    assert_null(memmem(m.data, m.len, "\"<b>", 4));
    io_map_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),   cmocka_unit_test(test_timeline), cmocka_unit_test(test_fit),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_report),
    };

    return cmocka_run_group_tests(tests, open_trace, close_trace);
}
