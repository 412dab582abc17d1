/* test_api.c -- the public header for reading: arguments, options, lifetimes, messages. */
#include "unit.h"

#include <opmeter/opmeter_trace.h>
#include <pthread.h>

static opm_trace *open_empty(void)
{
    opm_trace *t = NULL;
    opm_error err = { 0 };

    if (opm_trace_open(&t, NULL, 0, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return t;
}

static void test_empty_trace(void **state)
{
    opm_trace *t = open_empty();
    opm_rows *r = NULL;
    opm_error err = { 0 };
    size_t len;

    (void)state;
    assert_int_equal(opm_trace_query(t, "SELECT count(*) AS n, 1.5, 'x', NULL FROM span", &r, &err),
                     0);
    assert_int_equal(opm_rows_columns(r), 4);
    assert_string_equal(opm_rows_name(r, 0), "n");
    assert_int_equal(opm_rows_next(r, &err), 1);
    assert_int_equal(opm_rows_type(r, 0), OPM_TYPE_INT);
    assert_int_equal(opm_rows_type(r, 1), OPM_TYPE_REAL);
    assert_int_equal(opm_rows_type(r, 2), OPM_TYPE_TEXT);
    assert_int_equal(opm_rows_type(r, 3), OPM_TYPE_NULL);
    assert_int_equal(opm_rows_int(r, 0), 0);
    assert_true(opm_rows_real(r, 1) == 1.5);
    assert_string_equal(opm_rows_text(r, 2, &len), "x");
    assert_int_equal(len, 1);
    assert_null(opm_rows_text(r, 3, &len));
    assert_int_equal(opm_rows_next(r, &err), 0);
    opm_rows_close(r);
    opm_trace_close(t);
}

/* The order in which a garbage collector closes handles is anybody's guess. */
static void test_close_order(void **state)
{
    opm_trace *t = open_empty();
    opm_rows *a = NULL, *b = NULL;
    opm_error err = { 0 };

    (void)state;
    assert_int_equal(opm_trace_query(t, "SELECT table_name FROM schema", &a, &err), 0);
    assert_int_equal(opm_trace_query(t, "SELECT * FROM op_stats", &b, &err), 0);
    opm_trace_close(t);
    assert_int_equal(opm_rows_next(a, &err), 1);
    opm_rows_close(a);
    assert_int_equal(opm_rows_next(b, &err), 0);
    opm_rows_close(b);
}

static void test_null_arguments(void **state)
{
    const char *const paths[] = { NULL };
    opm_trace *t = open_empty(), *other = NULL;
    opm_rows *r = NULL;
    opm_error err = { 0 };
    size_t len = 5;

    (void)state;
    assert_int_equal(opm_trace_open(NULL, NULL, 0, NULL, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_open(&other, NULL, 1, NULL, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_open(&other, paths, 1, NULL, &err), OPM_EINVAL);
    assert_string_equal(err.msg, "opm_trace_open: paths[0] is NULL");
    assert_int_equal(opm_trace_open(&other, paths, 1, NULL, NULL), OPM_EINVAL);
    assert_null(other);
    assert_int_equal(opm_trace_query(NULL, "SELECT 1", &r, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_query(t, NULL, &r, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_query(t, "SELECT 1", NULL, &err), OPM_EINVAL);
    assert_string_equal(err.msg, "opm_trace_query: out is NULL");
    assert_int_equal(opm_trace_query(t, "SELEC", &r, NULL), OPM_EINVAL);
    assert_null(r);
    assert_int_equal(opm_rows_next(NULL, &err), OPM_EINVAL);
    assert_int_equal(opm_rows_columns(NULL), 0);
    assert_null(opm_rows_name(NULL, 0));
    assert_int_equal(opm_rows_type(NULL, 0), OPM_TYPE_NULL);
    assert_int_equal(opm_rows_int(NULL, 0), 0);
    assert_true(opm_rows_real(NULL, 0) == 0);
    assert_null(opm_rows_text(NULL, 0, &len));
    assert_int_equal(len, 0);
    assert_int_equal(opm_trace_export(NULL, "csv", "-", NULL, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_export(t, NULL, "-", NULL, &err), OPM_EINVAL);
    assert_string_equal(err.msg, "opm_trace_export: format is NULL");
    assert_int_equal(opm_trace_export(t, "csv", NULL, NULL, &err), OPM_EINVAL);
    opm_rows_close(NULL);
    opm_trace_close(NULL);
    opm_trace_interrupt(NULL);
    opm_trace_close(t);
}

static void test_options(void **state)
{
    struct {
        opm_open_options known;
        int more;
    } newer = { OPM_OPEN_OPTIONS_INIT, 0 };
    opm_open_options opts = OPM_OPEN_OPTIONS_INIT;
    opm_export_options export_opts = OPM_EXPORT_OPTIONS_INIT;
    opm_trace *t = NULL;
    opm_error err = { 0 };

    (void)state;
    newer.known.size = sizeof(newer);
    assert_int_equal(opm_trace_open(&t, NULL, 0, &newer.known, &err), OPM_EVERSION);
    opts.size = 0;
    assert_int_equal(opm_trace_open(&t, NULL, 0, &opts, &err), OPM_EINVAL);
    assert_string_equal(err.msg, "opm_open_options: size is not set");
    /* A program built when there was only the first field. */
    opts.size = offsetof(opm_open_options, max_bytes);
    opts.max_bytes = 1; /* not looked at */
    assert_int_equal(opm_trace_open(&t, NULL, 0, &opts, &err), 0);
    export_opts.size = sizeof(export_opts) + 1;
    assert_int_equal(opm_trace_export(t, "csv", "-", &export_opts, &err), OPM_EVERSION);
    opm_trace_close(t);
}

static int open_path(const char *path, const char *format, opm_error *err)
{
    opm_open_options opts = OPM_OPEN_OPTIONS_INIT;
    opm_trace *t = NULL;
    int rc;

    opts.format = format;
    rc = opm_trace_open(&t, &path, 1, &opts, err);
    opm_trace_close(t);
    return rc;
}

static void test_foreign_files(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *looks_like;
    } cases[] = {
        { "", 0, "an empty file" },
        { "hello\n", 6, "text" },
        { "  \n", 3, "blank text" },
        { "\xef\xbb\xbf {\"a\": 1}", 12, "JSON of another kind with members a" },
        { "<html>", 6, "HTML or XML" },
        { "\177ELF\2\1\1", 7, "a program or library (ELF)" },
        { "\1\2\3", 3, "binary data (01 02 03)" },
        { "\1\2\3\4\5\6\7\x8\x9", 9, "binary data (01 02 03 04 05 06 07 08 ...)" },
        { "SQLite format 3\0....", 20, "an SQLite database" },
        { "PK\3\4....", 8, "a zip archive (PyTorch .pt, Keras .keras, NumPy .npz, .xlsx)" },
    };
    const char *path = unit_path("file");
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char want[700];

        unit_write(path, cases[i].bytes, cases[i].len);
        snprintf(want, sizeof(want),
                 "%s: not a trace that opmeter knows: looks like %s; it reads: ", path,
                 cases[i].looks_like);
        assert_int_equal(open_path(path, NULL, &err), OPM_EFORMAT);
        assert_memory_equal(err.msg, want, strlen(want));
        assert_non_null(strstr(err.msg, "opm"));
    }
    assert_int_equal(open_path(path, "nosuch", &err), OPM_ENOTFOUND);
    assert_non_null(strstr(err.msg, "no import format 'nosuch'; there are: opm"));
    assert_true(open_path(unit_path("missing"), NULL, &err) < 0);
    assert_non_null(strstr(err.msg, "missing"));
    assert_true(open_path(unit_path(""), NULL, &err) < 0); /* a folder */
}

static void test_live_buffer(void **state)
{
    const char *path = unit_path("run.opm-live");
    opm_error err;

    (void)state;
    unit_write(path, "x", 1);
    assert_int_equal(open_path(path, NULL, &err), OPM_EFORMAT);
    assert_non_null(strstr(err.msg, "run.opm' instead"));
}

static void test_formats(void **state)
{
    opm_trace *t = open_empty();
    opm_error err;
    size_t n = 0;

    (void)state;
    for (const opm_format *f = opm_export_formats(); f->name; f++, n++)
        assert_true(f->doc[0] && f->extension);
    assert_true(n > 0);
    assert_string_equal(opm_import_formats()[0].name, "opm");
    assert_true(opm_trace_version()[0]);
    assert_int_equal(opm_trace_export(t, "chrom", "-", NULL, &err), OPM_ENOTFOUND);
    assert_string_equal(err.msg, "no export format 'chrom'; did you mean 'chrome'?");
    assert_int_equal(opm_trace_export(t, "wordperfect", "-", NULL, &err), OPM_ENOTFOUND);
    assert_non_null(strstr(err.msg, "there are: "));
    assert_non_null(strstr(err.msg, "chrome"));
    opm_trace_close(t);
}

static const char spans_json[] =
    "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":0,\"dur\":10,\"pid\":1,\"tid\":1},"
    "{\"ph\":\"X\",\"name\":\"b\",\"ts\":2,\"dur\":3,\"pid\":1,\"tid\":1},"
    "{\"ph\":\"C\",\"name\":\"c\",\"ts\":7,\"pid\":1,\"args\":{\"v\":4}},"
    "{\"ph\":\"C\",\"name\":\"c\",\"ts\":50,\"pid\":1,\"args\":{\"v\":5}}]";

static opm_trace *open_spans(void)
{
    const char *path = unit_path("spans.json");
    opm_trace *t = NULL;
    opm_error err;

    unit_write(path, spans_json, strlen(spans_json));
    if (opm_trace_open(&t, &path, 1, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return t;
}

static void *ask_often(void *trace)
{
    long bad = 0;

    for (int i = 0; i < 50; i++) {
        opm_rows *r = NULL;
        opm_bar *bar = NULL;
        size_t n = 0;

        bad += opm_trace_query(trace, "SELECT name, depth FROM span, schema", &r, NULL) < 0;
        while (opm_rows_next(r, NULL) > 0)
            ;
        opm_rows_close(r);
        for (uint32_t track = 0; track < 3; track++) {
            bad += opm_trace_timeline(trace, track, 0, 100000, 1, 100, &bar, &n, NULL) < 0;
            opm_bars_free(bar);
        }
    }
    opm_trace_close(trace);
    return bad ? trace : NULL;
}

/* Handles of one trace, each in a thread of its own; the first may go before the others. */
static void test_share(void **state)
{
    opm_trace *t = open_spans(), *shared[3];
    pthread_t thread[ARRAY_SIZE(shared)];
    opm_error err;

    (void)state;
    assert_int_equal(opm_trace_share(NULL, &shared[0], &err), OPM_EINVAL);
    assert_int_equal(opm_trace_share(t, NULL, &err), OPM_EINVAL);
    for (size_t i = 0; i < ARRAY_SIZE(shared); i++)
        assert_int_equal(opm_trace_share(t, &shared[i], &err), 0);
    assert_int_equal(opm_trace_export(t, "chrome", unit_path("x"), NULL, &err), OPM_EBUSY);
    opm_trace_close(t);
    for (size_t i = 0; i < ARRAY_SIZE(shared); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_often, shared[i]), 0);
    for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
        void *bad;

        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
}

static opm_trace *to_share;

static int share_step(void)
{
    opm_trace *other = NULL;
    int rc = opm_trace_share(to_share, &other, NULL);

    opm_trace_close(other);
    return rc;
}

static void test_share_memory(void **state)
{
    (void)state;
    to_share = open_empty();
    unit_fail_each(share_step);
    opm_trace_close(to_share);
}

static void test_detect(void **state)
{
    const char *path = unit_path("spans.json"), *text = unit_path("text");

    (void)state;
    unit_write(path, spans_json, strlen(spans_json));
    unit_write(text, "hello", 5);
    assert_string_equal(opm_trace_detect(path), "chrome");
    assert_null(opm_trace_detect(text));
    assert_null(opm_trace_detect(unit_path("missing")));
    assert_null(opm_trace_detect(unit_path("")));
    assert_null(opm_trace_detect(NULL));
}

static void test_end_and_counter(void **state)
{
    opm_trace *t = open_spans(), *empty = open_empty();
    size_t n = 0, found = 0;
    opm_error err;

    (void)state;
    assert_int_equal(opm_trace_end(t), 50000);
    assert_int_equal(opm_trace_end(empty), 0);
    assert_int_equal(opm_trace_end(NULL), 0);
    for (uint32_t track = 0; track < 4; track++) {
        opm_point *p = NULL;

        assert_int_equal(opm_trace_counter(t, track, 10000, 60000, 1, 100, &p, &n, &err), 0);
        found += n;
        if (n) {
            assert_int_equal(n, 2);
            assert_int_equal(p[0].ts_ns, 7000);
            assert_true(p[0].value == 4 && p[1].value == 5);
            opm_points_free(p);
            assert_int_equal(opm_trace_counter(t, track, 0, 60000, 1, 1, &p, &n, &err), OPM_ELIMIT);
        } else {
            opm_points_free(p);
        }
    }
    assert_int_equal(found, 2);
    assert_int_equal(opm_trace_counter(NULL, 0, 0, 1, 1, 1, NULL, &n, &err), OPM_EINVAL);
    opm_trace_close(empty);
    opm_trace_close(t);
}

static void *interrupt_soon(void *trace)
{
    usleep(20000);
    opm_trace_interrupt(trace);
    return NULL;
}

static void test_interrupt(void **state)
{
    opm_trace *t = open_empty();
    opm_rows *r;
    opm_error err;
    pthread_t thread;

    (void)state;
    assert_int_equal(
        opm_trace_query(t,
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
                        " SELECT count(*) FROM n",
                        &r, &err),
        0);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, t), 0);
    assert_int_equal(opm_rows_next(r, &err), OPM_ELIMIT);
    assert_string_equal(err.msg, "interrupted");
    pthread_join(thread, NULL);
    opm_rows_close(r);
    opm_trace_close(t);
}

static int open_and_query(void)
{
    opm_trace *t = NULL;
    opm_rows *r = NULL;
    opm_error err;
    int rc = opm_trace_open(&t, NULL, 0, NULL, &err);

    if (rc == 0)
        rc = opm_trace_query(t, "SELECT * FROM schema", &r, &err);
    while (r) {
        rc = opm_rows_next(r, &err);
        if (rc <= 0)
            break;
    }
    opm_rows_close(r);
    opm_trace_close(t);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(open_and_query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_trace),     cmocka_unit_test(test_close_order),
        cmocka_unit_test(test_null_arguments),  cmocka_unit_test(test_options),
        cmocka_unit_test(test_foreign_files),   cmocka_unit_test(test_live_buffer),
        cmocka_unit_test(test_formats),         cmocka_unit_test(test_share),
        cmocka_unit_test(test_share_memory),    cmocka_unit_test(test_detect),
        cmocka_unit_test(test_end_and_counter), cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
