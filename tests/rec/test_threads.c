/* test_threads.c -- threads that come, go, meet and are too many. */
#include "rig.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

static opm_site work = OPM_SITE_INIT(OPM_APP, NULL, "work");
static opm_site gauge = OPM_SITE_INIT(OPM_APP, NULL, "gauge");
static opm_site unfinished = OPM_SITE_INIT(OPM_APP, NULL, "unfinished");

static void start_all(pthread_t *threads, int n, void *(*run)(void *), void *arg)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, arg), 0);
}

static void join_all(const pthread_t *threads, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* ---- exit ---- */

static void *leave_open(void *arg)
{
    int depth = *(int *)arg;

    opm_thread_name("leaver");
    for (int i = 0; i < depth; i++)
        opm_begin(&unfinished);
    opm_end(opm_begin(&work));
    return NULL;
}

static void threads_leave_spans_open(void **state)
{
    static int depths[] = { 1, 3, 252, 300 };
    opm_trace *t;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
        pthread_t thread;

        rig_start(rig_path("open.opm"));
        start_all(&thread, 1, leave_open, &depths[i]);
        join_all(&thread, 1);
        opm_end(opm_begin(&work));
        rig_stop();
        t = rig_open(rig_path("open.opm"));
        assert_int_equal(
            rig_int(t, "SELECT count(*) FROM span WHERE name = 'unfinished' AND dur = -1"),
            depths[i]);
        rig_expect(t, "SELECT count(*), min(dur) >= 0 FROM span WHERE name = 'work'", "2|1\n");
        assert_int_equal(rig_stat(t, "span_not_ended"), depths[i]);
        assert_string_equal(rig_losses(t), "");
        opm_trace_close(t);
    }
}

static pthread_key_t late_key;

static void record_late(void *left)
{
    uintptr_t n = (uintptr_t)left;

    opm_end(opm_begin(&work));
    if (n > 1)
        pthread_setspecific(late_key, (void *)(n - 1));
}

static void *record_in_destructors(void *unused)
{
    (void)unused;
    pthread_setspecific(late_key, (void *)(uintptr_t)3);
    opm_end(opm_begin(&work));
    return NULL;
}

/* Destructors of other libraries run after ours, and may record as well. */
static void destructors_record(void **state)
{
    pthread_t thread[3];
    opm_trace *t;

    (void)state;
#if RIG_TSAN
    skip(); /* it has taken leave of the thread by then */
#endif
    assert_int_equal(pthread_key_create(&late_key, record_late), 0);
    rig_start(rig_path("late.opm"));
    start_all(thread, 3, record_in_destructors, NULL);
    join_all(thread, 3);
    rig_stop();
    pthread_key_delete(late_key);
    t = rig_open(rig_path("late.opm"));
    rig_expect(t, "SELECT count(*), min(dur) >= 0 FROM span", "12|1\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

/* In the last round of destructors alone. */
static void record_last(void *left)
{
    uintptr_t n = (uintptr_t)left;

    if (n > 1)
        pthread_setspecific(late_key, (void *)(n - 1));
    else
        opm_end(opm_begin(&work));
}

static void *end_late(void *unused)
{
    pthread_setspecific(late_key, (void *)(uintptr_t)PTHREAD_DESTRUCTOR_ITERATIONS);
    opm_end(opm_begin(&work));
    return unused;
}

static void *do_nothing(void *unused)
{
    return unused;
}

/* Nobody is told when the memory of such a thread goes, so the recorder has no use for it. */
static void no_thread_is_late(void **state)
{
    pthread_t thread[3];

    (void)state;
#if RIG_TSAN
    skip(); /* as above */
#endif
    assert_int_equal(pthread_key_create(&late_key, record_last), 0);
    rig_start(rig_path("last.opm"));
    start_all(thread, 3, end_late, NULL);
    join_all(thread, 3);
    start_all(thread, 3, do_nothing, NULL); /* where they were */
    join_all(thread, 3);
    rig_stop();
    pthread_key_delete(late_key);
    opm_trace_close(rig_open(rig_path("last.opm")));
}

static void *short_life(void *arg)
{
    _Atomic int *number = arg;
    opm_span span = opm_begin(&work);

    opm_arg_int(span, "number", atomic_fetch_add(number, 1));
    opm_end(span);
    return NULL;
}

static void many_short_threads(void **state)
{
    enum { AT_ONCE = 8 };
    int rounds = rig_rounds(2000, 100000) / AT_ONCE;
    pthread_t threads[AT_ONCE];
    opm_recorder_stats stats;
    _Atomic int number = 0;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("short.opm"));
    for (int i = 0; i < rounds; i++) {
        start_all(threads, AT_ONCE, short_life, &number);
        join_all(threads, AT_ONCE);
    }
    rig_stop();
    opm_stats(&stats);
    assert_int_equal(stats.threads, rounds * AT_ONCE);
    assert_int_equal(stats.lost, 0);
    t = rig_open(rig_path("short.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span WHERE dur >= 0"), rounds * AT_ONCE);
    assert_int_equal(rig_int(t, "SELECT count(DISTINCT track) FROM span"), rounds * AT_ONCE);
    assert_int_equal(rig_int(t, "SELECT count(DISTINCT json_extract(args, '$.number')) FROM span"),
                     rounds * AT_ONCE);
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

/* ---- too many ---- */

struct crowd {
    pthread_barrier_t all_here;
    int spans;
};

static void *join_crowd(void *arg)
{
    struct crowd *crowd = arg;

    opm_end(opm_begin(&work));
    pthread_barrier_wait(&crowd->all_here);
    for (int i = 1; i < crowd->spans; i++) {
        opm_end(opm_begin(&work));
        opm_counter(&gauge, i); /* is no span when it is lost */
    }
    pthread_barrier_wait(&crowd->all_here);
    return NULL;
}

/* A buffer of 1 MB has room for some twenty threads at once. The others go on, unrecorded, and
 * nobody waits for ever. */
static void too_many_threads(void **state)
{
    enum { THREADS = 64, SPANS = 5000 };
    static const int policies[] = { OPM_OVERFLOW_BLOCK, OPM_OVERFLOW_DROP };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
        opm_options options = OPM_OPTIONS_INIT;
        struct crowd crowd = { .spans = SPANS };
        pthread_t threads[THREADS];
        opm_recorder_stats stats;
        opm_error err = { 0 };
        int64_t recorded;
        opm_trace *t;

        options.path = rig_path("crowd.opm");
        options.buffer_mb = 1;
        options.overflow = policies[i];
        assert_int_equal(opm_start(&options, &err), 0);
        pthread_barrier_init(&crowd.all_here, NULL, THREADS);
        start_all(threads, THREADS, join_crowd, &crowd);
        join_all(threads, THREADS);
        pthread_barrier_destroy(&crowd.all_here);
        rig_stop();
        opm_stats(&stats);
        t = rig_open(options.path);
        recorded = rig_int(t, "SELECT count(*) FROM span");
        assert_int_equal(recorded + (int64_t)stats.lost, THREADS * SPANS);
        assert_true(recorded > 0);
        assert_true(stats.lost > 0);
        assert_int_equal(rig_stat(t, "spans_lost") + rig_stat(t, "threads_lost"), stats.lost);
        assert_int_equal(rig_stat(t, "unknown_site"), 0);
        opm_trace_close(t);
    }
}

/* ---- first use by several threads at once ---- */

struct meeting {
    pthread_barrier_t here;
    opm_site site;
    opm_track *track;
    opm_queue *queue;
    opm_op *op;
};

static void *meet(void *arg)
{
    struct meeting *m = arg;

    pthread_barrier_wait(&m->here);
    opm_device_span(m->track, &m->site, 1000, 2000, 0);
    opm_end(opm_begin(&m->site));
    opm_queue_size(m->queue, 1);
    opm_op_end(opm_op_begin_phase(m->op, OPM_RESHAPE));
    opm_end(opm_begin_named(OPM_APP, NULL, "same", 4));
    opm_counter(&work, 1); /* a site that is a span elsewhere */
    return NULL;
}

/* However many threads meet a site, track, queue, operator or name at once: it is defined once. */
static void defined_once(void **state)
{
    enum { THREADS = 4 };
    int rounds = rig_rounds(100, 2000);

    (void)state;
    for (int i = 0; i < rounds; i++) {
        opm_op_info info = OPM_OP_INFO_INIT;
        struct meeting m = { .site = OPM_SITE_INIT(OPM_APP, NULL, "met") };
        pthread_t threads[THREADS];
        opm_trace *t;

        info.name = "op";
        m.op = opm_op_define(&info);
        m.track = opm_track_define("stream", "track", NULL, OPM_CLOCK_MONOTONIC);
        m.queue = opm_queue_define("queue", 3);
        rig_start(rig_path("meet.opm"));
        pthread_barrier_init(&m.here, NULL, THREADS);
        start_all(threads, THREADS, meet, &m);
        join_all(threads, THREADS);
        pthread_barrier_destroy(&m.here);
        rig_stop();
        opm_op_free(m.op);
        opm_track_free(m.track);
        opm_queue_free(m.queue);
        t = rig_open(rig_path("meet.opm"));
        rig_expect(t, "SELECT kind, name FROM track WHERE kind != 'thread' ORDER BY kind",
                   "counter|work\nqueue|queue\nstream|track\n");
        rig_expect(t, "SELECT count(*) FROM op", "1\n");
        rig_expect(t, "SELECT name, count(*) FROM span GROUP BY name ORDER BY name",
                   "met|8\nop|4\nsame|4\n");
        assert_string_equal(rig_losses(t), "");
        opm_trace_close(t);
    }
}

/* ---- everything at once ---- */

struct busy {
    _Atomic bool stop;
    opm_op *op;
};

static void *keep_updating(void *arg)
{
    struct busy *b = arg;
    opm_op_info info = OPM_OP_INFO_INIT;
    char name[32];

    for (int i = 0; !atomic_load(&b->stop); i++) {
        snprintf(name, sizeof(name), "op %d", i % 10);
        info.name = name;
        info.flops = i % 10;
        opm_op_update(b->op, &info);
    }
    return NULL;
}

static void *keep_looking(void *arg)
{
    struct busy *b = arg;
    opm_recorder_stats stats;

    while (!atomic_load(&b->stop)) {
        opm_stats(&stats);
        opm_pause();
        opm_resume();
        opm_meta("key", "value");
        opm_thread_name("looker");
    }
    return NULL;
}

/* Functions may be called from any thread at any time: also those that change things. */
static void all_functions_at_once(void **state)
{
    struct busy b = { .stop = false };
    opm_op_info info = OPM_OP_INFO_INIT;
    pthread_t helper[2];
    opm_trace *t;

    (void)state;
    info.name = "op 0";
    info.flops = 0;
    b.op = opm_op_define(&info);
    rig_start(rig_path("busy.opm"));
    assert_int_equal(pthread_create(&helper[0], NULL, keep_updating, &b), 0);
    assert_int_equal(pthread_create(&helper[1], NULL, keep_looking, &b), 0);
    for (int i = 0; i < rig_rounds(20000, 1000000); i++) {
        opm_op_end(opm_op_begin_phase(b.op, i % 2 ? OPM_RESHAPE : OPM_FORWARD_PASS));
        opm_end(opm_begin(&work));
    }
    atomic_store(&b.stop, true);
    join_all(helper, 2);
    rig_stop();
    opm_op_free(b.op);
    t = rig_open(rig_path("busy.opm"));
    /* Every execution is one of an operator that says the same of itself everywhere. */
    rig_expect(t,
               "SELECT count(*) FROM span s LEFT JOIN op o ON o.id = s.op WHERE s.name != 'work' "
               "AND (o.name IS NOT s.name OR s.name != 'op ' || o.flops)",
               "0\n");
    assert_string_equal(rig_losses(t), "");
    assert_int_equal(rig_stat(t, "end_without_begin"), 0);
    opm_trace_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_leave_spans_open), cmocka_unit_test(destructors_record),
        cmocka_unit_test(no_thread_is_late),        cmocka_unit_test(many_short_threads),
        cmocka_unit_test(too_many_threads),         cmocka_unit_test(defined_once),
        cmocka_unit_test(all_functions_at_once),
    };

    return rig_group(tests);
}
