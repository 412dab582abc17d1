/* test_spans.c -- spans used wrongly, nested deeply, named oddly. */
#include "rig.h"

#include <pthread.h>

static opm_site outer = OPM_SITE_INIT(OPM_APP, NULL, "outer");
static opm_site middle = OPM_SITE_INIT(OPM_APP, NULL, "middle");
static opm_site inner = OPM_SITE_INIT(OPM_APP, NULL, "inner");

static uint64_t unbalanced(void)
{
    opm_recorder_stats stats;

    opm_stats(&stats);
    return stats.unbalanced;
}

/* ---- wrong use ---- */

static void end_without_begin(void **state)
{
    opm_span made_up = { 12345, 1, 1 };
    opm_trace *t;

    (void)state;
    rig_start(rig_path("no-begin.opm"));
    opm_end(opm_span_none());
    assert_int_equal(unbalanced(), 0);
    opm_end(opm_begin(&outer));
    made_up = opm_begin(&outer);
    made_up.ticks--;
    opm_end(made_up); /* of this thread and depth, but not the span that is open */
    made_up.depth = 7;
    opm_end(made_up);
    rig_stop();
    t = rig_open(rig_path("no-begin.opm"));
    assert_int_equal(rig_stat(t, "end_without_begin"), 2);
    rig_expect(t, "SELECT name, dur >= 0 FROM span ORDER BY id", "outer|1\nouter|0\n");
    opm_trace_close(t);
}

static void end_twice(void **state)
{
    opm_span a, b;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("twice.opm"));
    a = opm_begin(&outer);
    b = opm_begin(&inner);
    opm_end(b);
    opm_end(b);
    opm_end(a);
    opm_end(a);
    opm_end(opm_begin(&middle));
    rig_stop();
    t = rig_open(rig_path("twice.opm"));
    assert_int_equal(rig_stat(t, "end_without_begin"), 2);
    rig_expect(t, "SELECT name, depth, dur >= 0 FROM span ORDER BY id",
               "outer|0|1\ninner|1|1\nmiddle|0|1\n");
    opm_trace_close(t);
}

static void *end_it(void *span)
{
    opm_end(opm_begin(&middle));
    opm_end(*(opm_span *)span);
    return NULL;
}

static void end_on_another_thread(void **state)
{
    opm_span span;
    pthread_t thread;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("elsewhere.opm"));
    span = opm_begin(&outer);
    assert_int_equal(pthread_create(&thread, NULL, end_it, &span), 0);
    pthread_join(thread, NULL);
    assert_int_equal(unbalanced(), 1);
    opm_end(span);
    rig_stop();
    t = rig_open(rig_path("elsewhere.opm"));
    assert_int_equal(rig_stat(t, "end_without_begin"), 1);
    rig_expect(t, "SELECT name, dur >= 0 FROM span ORDER BY id", "outer|1\nmiddle|1\n");
    opm_trace_close(t);
}

static void wrong_order(void **state)
{
    opm_span a, b;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("order.opm"));
    a = opm_begin(&outer);
    b = opm_begin(&middle);
    (void)opm_begin(&inner);
    opm_end(a); /* and with it both others */
    opm_end(b);
    opm_end(opm_begin(&middle));
    rig_stop();
    t = rig_open(rig_path("order.opm"));
    assert_int_equal(rig_stat(t, "ended_by_parent"), 2);
    assert_int_equal(rig_stat(t, "end_without_begin"), 1);
    rig_expect(t, "SELECT name, depth, dur >= 0 FROM span ORDER BY id",
               "outer|0|1\nmiddle|1|1\ninner|2|1\nmiddle|0|1\n");
    opm_trace_close(t);
}

/* Spans of a recording that is over mean nothing to the next one, and are nobody's mistake. */
static void stale_spans(void **state)
{
    opm_span span, async, activity, now;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("stale1.opm"));
    span = opm_begin(&outer);
    async = opm_async_begin(&inner);
    activity = opm_activity_begin("activity", 1, NULL);
    rig_stop();
    opm_end(span);
    rig_start(rig_path("stale2.opm"));
    opm_end(span);
    now = opm_begin(&middle);
    opm_end(span);
    opm_end(async);
    opm_activity_end(activity);
    opm_arg_int(span, "k", 1);
    opm_correlate(span, 3);
    opm_flow(span, now);
    opm_end(now);
    assert_int_equal(unbalanced(), 0);
    rig_stop();
    t = rig_open(rig_path("stale1.opm"));
    rig_expect(t, "SELECT name, dur FROM span ORDER BY name", "activity|-1\ninner|-1\nouter|-1\n");
    assert_int_equal(rig_stat(t, "span_not_ended"), 3);
    opm_trace_close(t);
    t = rig_open(rig_path("stale2.opm"));
    rig_expect(t, "SELECT name, dur >= 0 FROM span", "middle|1\n");
    rig_expect(t, "SELECT name FROM import_stat WHERE count > 0", "");
    opm_trace_close(t);
}

static void nested_starts(void **state)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err = { 0 };
    opm_trace *t;

    (void)state;
    rig_start(rig_path("nested.opm"));
    options.path = rig_path("never.opm");
    assert_int_equal(opm_start(&options, &err), 1);
    assert_int_equal(opm_start(NULL, &err), 1);
    assert_string_equal(opm_path(), rig_path("nested.opm"));
    opm_end(opm_begin(&outer));
    rig_stop();
    opm_end(opm_begin(&middle));
    rig_stop();
    assert_true(opm_on(OPM_APP));
    opm_end(opm_begin(&inner));
    rig_stop();
    assert_false(opm_on(OPM_APP));
    assert_int_equal(opm_stop(&err), OPM_EINVAL);
    assert_false(rig_exists(rig_path("never.opm")));
    t = rig_open(rig_path("nested.opm"));
    rig_expect(t, "SELECT name FROM span ORDER BY id", "outer\nmiddle\ninner\n");
    opm_trace_close(t);
}

/* ---- depth ---- */

/* Down to `depth` and half way up again, twice; what the recorder has no stack for is in the
 * stream. */
static void deep(int depth, bool unwind)
{
    opm_span *span = calloc((size_t)depth, sizeof(*span));

    assert_non_null(span);
    for (int i = 0; i < depth; i++) {
        span[i] = opm_begin(i % 2 ? &inner : &outer);
        opm_arg_int(span[i], "depth", i);
    }
    for (int i = depth; i-- > depth / 2;)
        opm_end(span[i]);
    for (int i = depth / 2; i < depth; i++) {
        span[i] = opm_begin(&middle);
        opm_arg_int(span[i], "depth", i);
    }
    if (unwind)
        for (int i = depth; i-- > 0;)
            opm_end(span[i]);
    free(span);
}

static void deep_nesting(void **state)
{
    static const int depths[] = { 251, 252, 253, 254, 506, 1000 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
        int n = depths[i];
        opm_trace *t;

        rig_start(rig_path("deep.opm"));
        deep(n, true);
        rig_stop();
        t = rig_open(rig_path("deep.opm"));
        assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), n + n - n / 2);
        assert_int_equal(rig_int(t, "SELECT count(*) FROM span WHERE dur < 0"), 0);
        assert_int_equal(
            rig_int(t, "SELECT count(*) FROM span WHERE depth != json_extract(args, '$.depth')"),
            0);
        assert_int_equal(rig_int(t, "SELECT count(*) FROM span WHERE name = 'middle'"), n - n / 2);
        rig_expect(
            t, "SELECT name FROM import_stat WHERE count > 0 AND name != 'span_out_of_order'", "");
        opm_trace_close(t);

        /* The lower half stays open, and the outermost one of all takes the rest with it. */
        rig_start(rig_path("deep.opm"));
        deep(n, false);
        rig_stop();
        t = rig_open(rig_path("deep.opm"));
        assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), n + n - n / 2);
        assert_int_equal(rig_int(t, "SELECT count(*) FROM span WHERE dur = -1"), n);
        assert_int_equal(rig_stat(t, "span_not_ended"), n);
        opm_trace_close(t);

        rig_start(rig_path("deep.opm"));
        opm_span root = opm_begin(&middle);

        deep(n, false);
        opm_end(root);
        rig_stop();
        t = rig_open(rig_path("deep.opm"));
        assert_int_equal(rig_int(t, "SELECT count(*) FROM span WHERE dur >= 0"), n + n - n / 2 + 1);
        assert_int_equal(rig_stat(t, "ended_by_parent"), n);
        opm_trace_close(t);
    }
}

/* ---- names ---- */

static void any_bytes(void **state)
{
    char all[256], one[2] = { 0 };
    opm_trace *t;

    (void)state;
    for (int i = 0; i < 255; i++)
        all[i] = (char)(i + 1);
    all[255] = '\0';
    rig_start(rig_path("bytes.opm"));
    opm_end(opm_begin_named(OPM_APP, all, all, 255));
    opm_end(opm_begin_named(OPM_APP, "", "", 0));
    for (int i = 1; i < 256; i++) {
        one[0] = (char)i;
        opm_end(opm_begin_named(OPM_APP, one, one, 1));
    }
    opm_thread_name(all);
    opm_meta(all, all);
    opm_end(opm_record_begin("", OPM_MEASURED));
    opm_end(opm_record_begin(all, OPM_MEASURED));
    rig_stop();
    t = rig_open(rig_path("bytes.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), 259);
    rig_expect(t,
               "SELECT name IS NULL, length(CAST(name AS BLOB)), length(CAST(cat AS BLOB)) "
               "FROM span WHERE id = 1",
               "0|0|0\n");
    for (int i = 1; i < 256; i++)
        if (rig_int(t,
                    "SELECT count(*) FROM span WHERE CAST(name AS BLOB) = X'%02X' "
                    "AND CAST(cat AS BLOB) = X'%02X' AND id = %d",
                    i, i, i + 1) != 1)
            fail_msg("byte %d is lost", i);
    static const char *const places[] = { "SELECT name FROM span WHERE id = 0",
                                          "SELECT cat FROM span WHERE id = 0",
                                          "SELECT name FROM track WHERE kind = 'thread'",
                                          "SELECT label FROM record WHERE label != ''",
                                          "SELECT value FROM meta WHERE length(value) > 200" };

    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        const char *got = rig_rows(t, "%s", places[i]);

        assert_int_equal(strlen(got), 256);
        assert_memory_equal(got, all, 255);
    }
    opm_trace_close(t);
}

static void huge_names(void **state)
{
    enum { MB = 1 << 20 };
    static const size_t sizes[] = { 32700, 32740, 32752, 32768, 65535, MB - 1, MB, MB + 1, 3 * MB };
    char *name = malloc(3 * MB + 1);
    opm_site site = OPM_SITE_INIT(OPM_APP, NULL, name);
    opm_trace *t;
    opm_span span;

    (void)state;
    assert_non_null(name);
    for (size_t i = 0; i < 3 * MB; i++)
        name[i] = (char)('a' + i % 23);
    name[3 * MB] = '\0';
    rig_start(rig_path("huge.opm"));
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        opm_end(opm_begin_named(OPM_APP, i % 2 ? name : NULL, name, sizes[i]));
    span = opm_begin(&site);
    opm_arg_str(span, "huge", name);
    opm_end(span);
    opm_meta("huge", name);
    rig_stop();
    t = rig_open(rig_path("huge.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), ARRAY_SIZE(sizes) + 1);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        size_t want = MIN(sizes[i], (size_t)MB);
        const char *got = rig_rows(t, "SELECT name FROM span WHERE id = %zu", i);

        assert_int_equal(strlen(got), want + 1);
        assert_memory_equal(got, name, want);
    }
    rig_expect(t, "SELECT length(name), length(args) FROM span ORDER BY id DESC LIMIT 1",
               "1048576|1048587\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
    free(name);
}

static long resident_kb(const char *field)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    long kb = -1;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            kb = strtol(line + strlen(field) + 1, NULL, 10);
    fclose(f);
    return kb;
}

/* A million names is more than the recorder may remember: it forgets, and the file knows. */
static int record_names(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err = { 0 };
    long before, after;
    char name[64];
    int n = atoi(argv[1]);

    (void)argc;
    options.path = argv[0];
    options.buffer_mb = 8;
    before = resident_kb("VmRSS:");
    RIG_CHECK(opm_start(&options, &err) == 0);
    for (int i = 0; i < n; i++) {
        int len = snprintf(name, sizeof(name), "name %d of a million", i);

        opm_end(opm_begin_named(OPM_APP, NULL, name, (size_t)len));
    }
    after = resident_kb("VmHWM:");
    RIG_CHECK(opm_stop(&err) == 0);
    printf("%ld", after - before);
    return 0;
}

static void a_million_names(void **state)
{
    struct rig_result r;
    opm_trace *t;

    (void)state;
    rig_run(&r, NULL, RIG_WORDS("names", rig_path("million.opm"), "1000000"));
    assert_int_equal(r.status, 0);
#if !RIG_ASAN && !RIG_TSAN
    /* The buffer, the writer's own memory, and what the C library takes for threads. */
    assert_in_range(atol(r.out), 0, (8 + 6) * 1024);
#endif
    t = rig_open(rig_path("million.opm"));
    rig_expect(t, "SELECT count(*), count(DISTINCT name) FROM span", "1000000|1000000\n");
    rig_expect(t, "SELECT count(*) FROM span WHERE name = 'name ' || id || ' of a million'",
               "1000000\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { "names", record_names }, { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end_without_begin),
        cmocka_unit_test(end_twice),
        cmocka_unit_test(end_on_another_thread),
        cmocka_unit_test(wrong_order),
        cmocka_unit_test(stale_spans),
        cmocka_unit_test(nested_starts),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(any_bytes),
        cmocka_unit_test(huge_names),
        cmocka_unit_test(a_million_names),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
