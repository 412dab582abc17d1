/* test_export.c -- the writers of timelines: what they write is well-formed and true, whatever the
 * store holds. */
#include "can_write.h"
#include "export_rig.h"

#include <math.h>

static void test_table(void **state)
{
    static const char *const names[] = { "chrome", "perfetto", "csv" };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct exporter *e = exporter_find(names[i]);

        assert_non_null(e);
        assert_string_equal(e->name, names[i]);
        assert_non_null(e->write);
        assert_non_null(e->extension);
        assert_true(strlen(e->doc) > 0);
    }
    assert_null(exporter_find("morse"));
    assert_null(exporter_find(""));
}

static void test_empty(void **state)
{
    struct store *st = store_begin();
    struct chrome_sum sum;
    struct perfetto_sum ps;
    struct buf b;

    (void)state;
    assert_int_equal(store_finish(st), 0);
    sum = chrome(st, &b);
    assert_int_equal(sum.complete + sum.begun + sum.counters + sum.metadata, 0);
    ps = perfetto(st);
    assert_int_equal(ps.begins + ps.ends + ps.counters, 0);
    buf_release(&b);
    store_free(st);
}

/* Names of every byte but 0, alone and in the middle, and what breaks careless writers. */
static void test_hostile_names(void **state)
{
    static const char *const more[] = {
        "",
        "\"",
        "\\",
        "\\\"",
        "a\nb\r\tc",
        "</script>",
        "\xff\xfe",
        "\xc3",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xed\xa0\x80",
        "\xc0\x80",
        "\xf4\x90\x80\x80",
        "ok \xe2\x82\xac \xf0\x9f\x98\x80",
        "%s%n",
        "{\"ph\":\"X\"}",
        "a,b",
        "=1+1",
    };
    struct store *st = store_begin();
    uint32_t track;
    struct perfetto_sum ps;
    struct chrome_sum sum;
    size_t n = 0;
    struct buf b;

    (void)state;
    for (int c = 1; c < 256; c++) {
        char name[8];

        snprintf(name, sizeof(name), "x%cy", c);
        track = add_track(st, c % 2 ? "thread" : name, name, c % 5 ? c : OPM_NULL_I64, c);
        add_span(st, track, (int64_t)n++ * 10, 5, name, name);
        name[1] = '\0';
        name[0] = (char)c;
        add_span(st, track, (int64_t)n++ * 10, 5, name, NULL);
    }
    track = add_track(st, NULL, NULL, OPM_NULL_I64, OPM_NULL_I64);
    for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
        add_span(st, track, (int64_t)n++ * 10, 5, more[i], more[i]);
        assert_int_equal(store_meta(st, more[i], more[i]), 0);
    }
    add_span(st, OPM_NULL_ID, (int64_t)n++ * 10, 5, NULL, NULL);
    assert_int_equal(store_finish(st), 0);
    sum = chrome(st, &b);
    assert_int_equal(sum.complete, n);
    assert_has(&b, "\"name\":\"x\\u0001y\"");
    assert_has(&b, "\"name\":\"\\\"\"");
    assert_has(&b, "\"name\":\"x\xef\xbf\xbdy\"");
    assert_has(&b, "ok \xe2\x82\xac \xf0\x9f\x98\x80");
    ps = perfetto(st);
    assert_int_equal(ps.begins, n);
    assert_int_equal(ps.ends, n);
    assert_int_equal(ps.instants, 1);
    buf_release(&b);
    store_free(st);
}

static void test_exact_times(void **state)
{
    static const struct {
        int64_t ts, dur;
        const char *expect;
    } cases[] = {
        { 0, 0, "\"ts\":0.000,\"dur\":0.000," },
        { 1, 1, "\"ts\":0.001,\"dur\":0.001," },
        { 1000, 999, "\"ts\":1.000,\"dur\":0.999," },
        { 2010, 1010, "\"ts\":2.010,\"dur\":1.010," },
        { 9007199254740993, 1234567890123456789, /* 2^53 + 1: no double holds it */
          "\"ts\":9007199254740.993,\"dur\":1234567890123456.789," },
    };
    struct store *st = store_begin();
    struct chrome_sum sum;
    struct buf b;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        add_span(st, add_track(st, "thread", "t", 7, (int64_t)i + 1), cases[i].ts, cases[i].dur,
                 "x", NULL);
    assert_int_equal(store_finish(st), 0);
    sum = chrome(st, &b);
    assert_int_equal(sum.complete, ARRAY_SIZE(cases));
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_has(&b, cases[i].expect);
    assert_has(&b, "\"trace.start_ns\":\"0\"");
    assert_int_equal(perfetto(st).ends, ARRAY_SIZE(cases));
    buf_release(&b);
    store_free(st);
}

/* Perfetto's times are those of the recording machine's clock, if that is known. */
static void test_clock(void **state)
{
    static const struct {
        const char *monotonic;
        uint64_t first_ts;
    } cases[] = {
        { NULL, 50 },
        { "1000", 1050 },
        { "nonsense", 50 },
        { "-1000", 0 },
        { "9223372036854775807", 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store *st = store_begin();

        add_span(st, add_track(st, "thread", "t", 7, 7), 50, 10, "x", NULL);
        if (cases[i].monotonic)
            assert_int_equal(store_meta(st, "clock.start_monotonic_ns", cases[i].monotonic), 0);
        assert_int_equal(store_finish(st), 0);
        assert_int_equal(perfetto(st).first_ts, cases[i].first_ts);
        store_free(st);
    }
}

static uint32_t add_host_track(struct store *st, const char *host, const char *process, int64_t pid,
                               int64_t tid)
{
    struct cell cells[track_col_COUNT] = { 0 };
    uint32_t row;

    cells[track_col_kind] = cell_str(text(st, "thread"));
    cells[track_col_host] = cell_str(text(st, host));
    cells[track_col_process] = cell_str(text(st, process));
    cells[track_col_pid] = cell_i64(pid);
    cells[track_col_tid] = cell_i64(tid);
    assert_int_equal(store_add(st, TABLE_track, cells, &row), 0);
    return row;
}

/* Lines never collide, and real numbers stay where they can. */
static void test_numbers(void **state)
{
    struct store *st = store_begin();
    struct chrome_sum sum;
    struct buf b;
    size_t n = 0;

    (void)state;
    add_span(st, add_host_track(st, "a", "train", 100, 100), 0, 100, "a", NULL);
    add_span(st, add_host_track(st, "b", "train", 100, 100), 0, 100, "b", NULL);
    add_span(st, add_host_track(st, "b", NULL, 100, 101), 0, 100, "b2",
             NULL); /* the same process */
    add_span(st, add_host_track(st, "a", "train", 100, OPM_NULL_I64), 0, 100, "c", NULL);
    add_span(st, add_host_track(st, "a", "train", 100, OPM_NULL_I64), 0, 100, "d", NULL);
    add_span(st, add_host_track(st, "a", "train", 100, 1), 0, 100, "e", NULL);
    add_span(st, add_host_track(st, "a", "train", 100, 100), 0, 100, "f", NULL);
    add_span(st, add_host_track(st, "a", "train", 100, -5), 0, 100, "g", NULL);
    add_span(st, add_host_track(st, "a", "train", 100, (int64_t)1 << 40), 0, 100, "h", NULL);
    add_span(st, add_host_track(st, NULL, NULL, -1, 3), 0, 100, "i", NULL);
    add_span(st, add_host_track(st, NULL, NULL, OPM_NULL_I64, 3), 0, 100, "j", NULL);
    add_span(st, add_host_track(st, NULL, "gpu", OPM_NULL_I64, 3), 0, 100, "k", NULL);
    add_span(st, OPM_NULL_ID, 0, 100, "l", NULL);
    assert_int_equal(store_finish(st), 0);
    n = 13;
    sum = chrome(st, &b);
    assert_int_equal(sum.complete, n);
    assert_int_equal(sum.lines, n);
    assert_int_equal(count(&b, "\"name\":\"thread_name\""), n);
    assert_int_equal(count(&b, "\"name\":\"process_name\""), 5);
    assert_has(&b, "\"pid\":100,\"tid\":100,\"ts\":0.000,\"dur\":0.100,\"name\":\"a\"");
    assert_has(&b, "\"pid\":100,\"tid\":1,\"ts\":0.000,\"dur\":0.100,\"name\":\"e\"");
    assert_has(&b, "\"labels\":\"b\"");
    buf_release(&b);
    store_free(st);
}

static void test_overlaps(void **state)
{
    struct store *st = store_begin();
    uint32_t async, thread;
    struct perfetto_sum ps;
    struct chrome_sum sum;
    size_t n = 0;
    struct buf b;

    (void)state;
    async = add_track(st, "async", "requests", 5, OPM_NULL_I64);
    thread = add_track(st, "thread", "main", 5, 5);
    for (int i = 0; i < 1000; i++, n++) /* all at once */
        add_span(st, async, i, 5000, "request", NULL);
    for (int i = 0; i < 100; i++, n++) /* then few, which go back to the first lanes */
        add_span(st, async, 10000 + i * 10, 25, "request", NULL);
    for (int i = 0; i < 10; i++, n++)
        add_span(st, thread, 20000 + i * 10, 15, "crossing", NULL);
    assert_int_equal(store_finish(st), 0);
    sum = chrome(st, &b);
    assert_int_equal(sum.complete, n);
    assert_true(sum.lines >= 1000 && sum.lines < 1010);
    assert_has(&b, "\"name\":\"requests #2\"");
    ps = perfetto(st);
    assert_int_equal(ps.begins, n);
    assert_int_equal(ps.ends, n);
    buf_release(&b);
    store_free(st);
}

static void test_never_ended(void **state)
{
    struct store *st = store_begin();
    uint32_t track = add_track(st, "thread", "main", 5, 5);
    struct perfetto_sum ps;
    struct chrome_sum sum;
    struct buf b;

    (void)state;
    add_span(st, track, 0, -1, "main", NULL);
    add_span(st, track, 10, -1, "step", NULL);
    add_span(st, track, 20, 5, "op", NULL);
    add_span(st, track, 30, -1, "op2", "{\"never ended\":\"yes\"}");
    add_span(st, add_track(st, "thread", "other", 5, 6), 5, 100, "whole", NULL);
    assert_int_equal(store_finish(st), 0);
    sum = chrome(st, &b);
    assert_int_equal(sum.complete, 2);
    assert_int_equal(sum.begun, 3);
    assert_int_equal(sum.lines, 2);
    assert_int_equal(count(&b, "\"never ended\":true"), 3);
    assert_has(&b, "{\"never ended\":true,\"args\":{\"never ended\":\"yes\"}}");
    ps = perfetto(st);
    assert_int_equal(ps.begins, 5);
    assert_int_equal(ps.ends, 2);
    assert_int_equal(ps.open, 3);
    buf_release(&b);
    store_free(st);
}

static void test_flows(void **state)
{
    struct store *st = store_begin();
    uint32_t cpu = add_track(st, "thread", "cpu", 5, 5);
    uint32_t gpu = add_track(st, "stream", "stream 7", OPM_NULL_I64, 7);
    uint32_t launch = add_span(st, cpu, 0, 10, "launch", NULL);
    uint32_t kernel = add_span(st, gpu, 5, 50, "kernel", NULL);
    uint32_t early = add_span(st, gpu, 1, 2, "early", NULL);
    uint32_t late = add_span(st, cpu, 100, 10, "late", NULL);
    struct perfetto_sum ps;
    struct chrome_sum sum;
    struct buf b;

    (void)state;
    add_flow(st, launch, kernel, "launch");
    add_flow(st, late, early, "skewed \"clock\"");
    add_flow(st, launch, launch, NULL);      /* shows nothing */
    add_flow(st, launch, late, NULL);        /* two at one span */
    add_flow(st, OPM_NULL_ID, kernel, NULL); /* from nowhere */
    assert_int_equal(store_finish(st), 0);
    sum = chrome(st, &b);
    assert_int_equal(sum.flow_starts, 3);
    assert_int_equal(sum.flow_ends, 3);
    assert_int_equal(count(&b, "\"bp\":\"e\""), 3);
    assert_int_equal(count(&b, "\"reversed\":true"), 2);
    assert_has(&b, "{\"ph\":\"s\",\"pid\":5,\"tid\":5,\"ts\":0.000,\"id\":0,\"name\":\"launch\","
                   "\"cat\":\"launch\"}");
    assert_has(&b, "\"ts\":0.005,\"bp\":\"e\",\"id\":0,\"name\":\"launch\",\"cat\":\"launch\"}");
    ps = perfetto(st);
    assert_int_equal(ps.flow_starts, 3);
    assert_int_equal(ps.flow_ends, 3);
    buf_release(&b);
    store_free(st);
}

static void test_counters(void **state)
{
    struct store *st = store_begin();
    uint32_t a = add_track(st, "counter", "rss", 5, OPM_NULL_I64);
    uint32_t b = add_track(st, "queue", "rss", 5, OPM_NULL_I64);
    uint32_t c = add_track(st, "counter", NULL, 6, OPM_NULL_I64);
    struct perfetto_sum ps;
    struct chrome_sum sum;
    struct buf out;

    (void)state;
    add_span(st, add_track(st, "thread", "t", 5, 5), 0, 1000, "x", NULL);
    add_sample(st, a, 10, 1);
    add_sample(st, a, 20, 0.1);
    add_sample(st, a, 30, -12345);
    add_sample(st, b, 40, 1e300);
    add_sample(st, c, 50, INFINITY);
    add_sample(st, OPM_NULL_ID, 60, -0.0);
    add_sample(st, a, 70, NAN);
    assert_int_equal(store_finish(st), 0);
    sum = chrome(st, &out);
    assert_int_equal(sum.counters, 6);
    assert_has(&out, "\"pid\":5,\"name\":\"rss\",\"ts\":0.010,\"args\":{\"value\":1}}");
    assert_has(&out, "\"ts\":0.020,\"args\":{\"value\":0.1}}");
    assert_has(&out, "\"ts\":0.030,\"args\":{\"value\":-12345}}");
    assert_has(&out, "\"name\":\"rss\",\"id\":\"track 1\",\"ts\":0.040");
    ps = perfetto(st);
    assert_int_equal(ps.counters, 6);
    buf_release(&out);
    store_free(st);
}

/* Args of a span go in as JSON where that is safe, and never twice under one key. */
static void test_args(void **state)
{
    static const struct {
        const char *args, *expect;
    } cases[] = {
        { "{\"a\":1,\"b\":[2,{\"layer\":3}]}",
          "\"args\":{\"layer\":\"app\",\"a\":1,\"b\":[2,{\"layer\":3}]}}" },
        { " { \"a\" : 1 } ", "\"args\":{\"layer\":\"app\",\"a\" : 1 }}" },
        { "{}", "\"args\":{\"layer\":\"app\"}}" },
        { "{\"layer\":5}", "\"args\":{\"layer\":\"app\",\"args\":{\"layer\":5}}}" },
        { "{\"l\\u0061yer\":5}", "\"args\":{\"layer\":\"app\",\"args\":{\"l\\u0061yer\":5}}}" },
        { "{\"op\":5}", "\"args\":{\"layer\":\"app\",\"op\":5}}" },
        { "[1]", "\"args\":{\"layer\":\"app\",\"args\":\"[1]\"}}" },
        { "{\"a\":1", "\"args\":{\"layer\":\"app\",\"args\":\"{\\\"a\\\":1\"}}" },
        { "{\"a\":NaN}", "\"args\":{\"layer\":\"app\",\"args\":\"{\\\"a\\\":NaN}\"}}" },
        { "{\"\xff\":1}", "\"args\":{\"layer\":\"app\",\"args\":\"{\\\"\xef\xbf\xbd\\\":1}\"}}" },
        { "", "\"args\":{\"layer\":\"app\",\"args\":\"\"}}" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store *st = store_begin();
        struct site site = { .name = text(st, "x"), .layer = text(st, "app"), .op = OPM_NULL_ID };
        struct span_row row = SPAN_ROW_INIT;
        struct buf b;

        row.track = add_track(st, "thread", "t", 1, 1);
        row.args = text(st, cases[i].args);
        assert_int_equal(store_site(st, &site, &row.site), 0);
        assert_int_equal(store_add_span(st, &row, NULL), 0);
        assert_int_equal(store_finish(st), 0);
        chrome(st, &b);
        assert_has(&b, cases[i].expect);
        assert_int_equal(perfetto(st).annotations, 3); /* with trace.start_ns */
        buf_release(&b);
        store_free(st);
    }
}

static void test_operators(void **state)
{
    struct store *st = store_begin();
    struct site site = { .name = text(st, "conv1"), .cat = text(st, "op") };
    struct span_row row = SPAN_ROW_INIT;
    struct buf b;

    (void)state;
    row.track = add_track(st, "thread", "t", 1, 1);
    row.correlation = 42;
    for (int i = 0; i < 3; i++) {
        site.op = i < 2 ? add_op(st, i ? "{\"kernel\":[7,7]}" : "not json") : 99;
        site.phase = text(st, "forward");
        row.ts_ns = i * 100;
        row.dur_ns = 50;
        assert_int_equal(store_site(st, &site, &row.site), 0);
        assert_int_equal(store_add_span(st, &row, NULL), 0);
    }
    assert_int_equal(store_finish(st), 0);
    chrome(st, &b);
    assert_has(&b,
               "\"op\":{\"id\":1,\"name\":\"conv1\",\"type\":\"Conv\",\"post_op\":\"relu\","
               "\"flops\":236027904,\"weight_zero_ratio\":0.9,\"attributes\":{\"kernel\":[7,7]},"
               "\"nodes\":[\"Conv_0\",\"Relu_1\"],"
               "\"inputs\":[{\"name\":\"x0\",\"dtype\":\"fp32\",\"shape\":\"1x3x224x224\"},"
               "{\"name\":\"x1\",\"dtype\":\"fp32\",\"shape\":\"1x3\"}],"
               "\"weights\":[{\"name\":\"w\",\"dtype\":\"int8\",\"shape\":\"64x3x7x7\"}],"
               "\"outputs\":[{\"name\":\"y\",\"dtype\":\"fp32\",\"shape\":\"1x64x112x112\"}],"
               "\"tensors\":[{\"name\":\"s\",\"io\":\"scratch\"}]}");
    assert_has(&b, "\"attributes\":\"not json\"");
    assert_int_equal(count(&b, "\"correlation\":42"), 3);
    assert_int_equal(count(&b, "\"phase\":\"forward\""), 3);
    assert_int_equal(perfetto(st).begins, 3);
    buf_release(&b);
    store_free(st);
}

/* Steps and records are drawn once: by their span, or else on a line of their own. */
static void test_regions(void **state)
{
    struct store *st = store_begin();
    uint32_t track = add_track(st, "thread", "t", 1, 1);
    struct span_row row = SPAN_ROW_INIT;
    struct perfetto_sum ps;
    struct chrome_sum sum;
    struct buf b;

    (void)state;
    row.track = track;
    row.site = add_site(st, "resnet 0", "step", OPM_NULL_ID);
    row.dur_ns = 100;
    assert_int_equal(store_add_span(st, &row, NULL), 0);
    add_span(st, track, 10, 20, "op", NULL);
    add_step(st, track, 0, 0, 100);
    add_step(st, track, 1, 100, 100);
    add_step(st, track, 2, 150, 100); /* overlaps */
    add_record(st, track, "warm \"up\"", 0, 300);
    add_record(st, track, "rest", 300, -1);
    assert_int_equal(store_finish(st), 0);
    sum = chrome(st, &b);
    assert_int_equal(sum.complete, 5);
    assert_int_equal(sum.begun, 1);
    assert_has(&b, "\"name\":\"steps\"");
    assert_has(&b, "\"name\":\"records\"");
    assert_has_not(&b,
                   "\"name\":\"resnet 0\",\"cat\":\"step\",\"args\":{\"step\":{\"id\":0,\"num\":0,"
                   "\"model\":\"resnet\",\"warmup\":0,\"track\"");
    assert_has(&b, "\"name\":\"resnet 2\",\"cat\":\"step\"");
    assert_has(&b, "\"name\":\"warm \\\"up\\\"\",\"cat\":\"record\"");
    ps = perfetto(st);
    assert_int_equal(ps.begins, 6);
    assert_int_equal(ps.ends, 5);
    buf_release(&b);
    store_free(st);
}

static int give_up(void *user, uint64_t done, uint64_t total)
{
    uint64_t *calls = user;

    assert_true(done <= total);
    return ++*calls == 2;
}

static void test_progress(void **state)
{
    struct store *st = store_full(100);
    uint64_t calls;
    struct export_options opts = { .progress = give_up, .user = &calls };

    (void)state;
    for (const struct exporter *e = exporters; e->name; e++) {
        const char *path = unit_path("progress");
        opm_error err = { 0 };

        if (strcmp(e->name, "cambricon") == 0)
            continue; /* a folder, not a file to be left or taken back */
        calls = 10;
        if (!can_write(e->name))
            continue;
        /* Without a table, these are folders, too. */
        bool folder = strcmp(e->name, "parquet") == 0 || strcmp(e->name, "arrow") == 0;

        opts.table = *e->extension && !folder ? NULL : "span";
        assert_int_equal(e->write(st, path, &opts, &err), 0);
        assert_true(calls >= 12); /* at the start and at the end */
        assert_int_equal(access(path, F_OK), 0);
        unlink(path);
        calls = 0;
        assert_int_equal(e->write(st, path, &opts, &err), OPM_ELIMIT);
        assert_int_equal(err.code, OPM_ELIMIT);
        assert_non_null(strstr(err.msg, path));
        assert_int_not_equal(access(path, F_OK), 0);
    }
    store_free(st);
}

static void test_unwritable(void **state)
{
    struct store *st = store_full(100);
    struct export_options opts = { .table = "span" };

    (void)state;
    for (const struct exporter *e = exporters; e->name; e++) {
        static const char *const paths[] = { "/nonexistent/folder/x", "/dev/full" };

        if (!can_write(e->name))
            continue;
        /* A folder is made with those above it. */
        for (size_t i = strcmp(e->name, "cambricon") == 0; i < ARRAY_SIZE(paths); i++) {
            opm_error err = { 0 };

            assert_int_equal(e->write(st, paths[i], &opts, &err), OPM_EIO);
            assert_non_null(strstr(err.msg, paths[i]));
        }
    }
    store_free(st);
}

static int make_mebibyte(void *ctx, uint32_t i, struct buf *out, size_t *out_head)
{
    char block[1024];

    ++*(int *)ctx;
    memset(block, (int)('a' + i % 26), sizeof(block));
    for (size_t k = 0; k < 1024; k++)
        buf_add(out, block, sizeof(block));
    *out_head = i;
    return 0;
}

/* Fragments are kept up to a ceiling and right beyond it. */
static void test_fragments(void **state)
{
    struct fragments f = { 0 };
    struct fragment item;
    const char *made;
    int calls = 0;

    (void)state;
    assert_int_equal(fragments_init(&f, 100), 0);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 100; i++) {
            for (int again = 0; again < 2; again++) {
                assert_int_equal(fragments_get(&f, i, make_mebibyte, &calls, &made, &item), 0);
                assert_int_equal(item.len, 1 << 20);
                assert_int_equal(item.head, i);
                assert_int_equal(made[0], 'a' + i % 26);
                assert_int_equal(made[item.len - 1], 'a' + i % 26);
            }
        }
        assert_true(f.text.len < (size_t)66 << 20);
    }
    assert_int_equal(calls, 200);
    fragments_release(&f);
    fragments_release(&f);
}

static struct store *fault_store;

static int step_chrome(void)
{
    return export_chrome(fault_store, unit_path("fault"), NULL, NULL);
}

static int step_perfetto(void)
{
    return export_perfetto(fault_store, unit_path("fault"), NULL, NULL);
}

static void test_no_memory(void **state)
{
    int (*const steps[])(void) = { step_chrome, step_perfetto };

    (void)state;
    unit_path("");
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        fault_store = store_full(30);
        unit_fail_each(steps[i]);
        store_free(fault_store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),         cmocka_unit_test(test_empty),
        cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_exact_times),
        cmocka_unit_test(test_clock),         cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_overlaps),      cmocka_unit_test(test_never_ended),
        cmocka_unit_test(test_flows),         cmocka_unit_test(test_counters),
        cmocka_unit_test(test_args),          cmocka_unit_test(test_operators),
        cmocka_unit_test(test_regions),       cmocka_unit_test(test_progress),
        cmocka_unit_test(test_unwritable),

        cmocka_unit_test(test_fragments),     cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
