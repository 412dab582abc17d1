/* test_restart.c -- recordings that start and stop while threads keep recording, or come and go. */
#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4 };

static opm_site hot = OPM_SITE_INIT(OPM_APP, NULL, "hot");
static opm_site around = OPM_SITE_INIT(OPM_FRAMEWORK, "cat", "around");
static opm_site call = OPM_SITE_INIT(OPM_RUNTIME, "cat", "call");
static opm_track *line; /* of calls that are measured here and there */
static _Atomic bool over;

static void *keep_recording(void *unused)
{
    char name[32];

    (void)unused;
    for (int i = 0; !atomic_load_explicit(&over, memory_order_relaxed); i++) {
        opm_span span = opm_begin(&around);

        for (int k = 0; k < 20; k++) {
            int64_t from = (int64_t)opm_now();

            opm_end(opm_begin(&hot));
            if (from) /* there was a recording before */
                opm_device_span(line, &call, from, (int64_t)opm_now(), 7);
        }
        if (i % 16 == 0) {
            int len = snprintf(name, sizeof(name), "name %d", i % 1000);

            opm_end(opm_begin_named(OPM_APP, NULL, name, (size_t)len));
            opm_arg_int(span, "i", i);
        }
        opm_end(span);
        if (!opm_on(OPM_APP) || i % 64 == 0)
            usleep(50); /* the thread that starts and stops wants a processor, too */
    }
    return NULL;
}

static void *record_a_little(void *unused)
{
    (void)unused;
    for (int k = 0; k < 20; k++)
        opm_end(opm_begin(&hot));
    opm_begin(&around);
    return NULL;
}

/* Threads that live for a moment, all the time: some of them exit while a recording stops. */
static void *keep_spawning(void *unused)
{
    pthread_t thread[2];

    (void)unused;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
            if (pthread_create(&thread[i], NULL, record_a_little, NULL) != 0)
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
            pthread_join(thread[i], NULL);
    }
    return NULL;
}

/* Whatever was read back must hang together; how much it is depends on the moment. */
static void check(const char *path)
{
    opm_trace *t = rig_open(path);

    assert_int_equal(
        rig_int(t, "SELECT count(*) FROM span WHERE name NOT IN ('hot', 'around', 'call') "
                   "AND name NOT LIKE 'name %%'"),
        0);
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span WHERE name = 'call' AND "
                                "(dur < 0 OR dur > 10000000000 OR correlation <> 7)"),
                     0);
    rig_expect(t, "SELECT DISTINCT depth FROM span WHERE name = 'around' AND depth > 0", "");
    assert_string_equal(rig_losses(t), "");
    assert_int_equal(rig_stat(t, "end_without_begin"), 0);
    assert_int_equal(rig_stat(t, "ended_by_parent"), 0);
    assert_int_equal(rig_stat(t, "not_closed"), 0);
    opm_trace_close(t);
}

static void cycle(void *(*run)(void *), int nthread, int rounds)
{
    pthread_t threads[THREADS];
    char path[64];

    atomic_store(&over, false);
    for (int i = 0; i < nthread; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, NULL), 0);
    for (int i = 0; i < rounds; i++) {
        snprintf(path, sizeof(path), "cycle%d.opm", i % 4);
        rig_start(rig_path(path));
        if (i % 3)
            usleep((useconds_t)(i % 7) * 300);
        rig_stop();
        if (i % 8 == 0)
            check(rig_path(path));
    }
    atomic_store(&over, true);
    for (int i = 0; i < nthread; i++)
        pthread_join(threads[i], NULL);
    check(rig_path(path));
}

static void while_others_record(void **state)
{
    (void)state;
    line = opm_track_define("stream", "calls", NULL, OPM_CLOCK_RECORDER);
    cycle(keep_recording, THREADS, rig_rounds(200, 5000));
    opm_track_free(line);
}

static void while_others_exit(void **state)
{
    (void)state;
    cycle(keep_spawning, 3, rig_rounds(200, 5000));
}

static void *keep_restarting(void *arg)
{
    opm_options options = OPM_OPTIONS_INIT;
    const int *rounds = arg;

    options.path = rig_path("shared.opm");
    for (int i = 0; i < *rounds; i++) {
        if (opm_start(&options, NULL) < 0)
            return arg;
        opm_end(opm_begin(&hot));
        if (opm_stop(NULL) != 0)
            return arg;
    }
    return NULL;
}

/* Starts and stops of several threads: they nest, whoever is last closes the file. */
static void by_several_threads(void **state)
{
    int rounds = rig_rounds(100, 3000);
    opm_recorder_stats stats;
    pthread_t threads[3];

    (void)state;
    while (opm_stop(NULL) == 0)
        ;
    rig_path("shared.opm");
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_restarting, &rounds), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        void *failed;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    opm_stats(&stats);
    assert_int_equal(stats.recording, 0);
    check(rig_path("shared.opm"));
}

/* No trace of a recording that is over stays in the process. */
static void nothing_is_left(void **state)
{
    int before, after, fd;

    (void)state;
    fd = dup(0);
    before = fd;
    close(fd);
    for (int i = 0; i < 20; i++) {
        rig_start(rig_path("left.opm"));
        opm_end(opm_begin(&hot));
        rig_stop();
    }
    fd = dup(0);
    after = fd;
    close(fd);
    assert_int_equal(after, before);
    assert_false(rig_exists(rig_path("left.opm-live")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_others_record),
        cmocka_unit_test(while_others_exit),
        cmocka_unit_test(by_several_threads),
        cmocka_unit_test(nothing_is_left),
    };

    return rig_group(tests);
}
