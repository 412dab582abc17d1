/* test_kill.c -- a recording that is killed, or read while it goes on, has every span that ended.
 *
 * The victim's threads count in shared memory what they ended: a span counts once opm_end() has
 * returned. At any moment the file must have all of those, and at most one more per thread. */
#include "rig.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { THREADS = 8, LINE = 64 };
/* How much less there is to do where everything takes so much longer. */
enum { SLOW = RIG_TSAN ? 10 : RIG_ASAN ? 4 : 1 };

static int fewer(int rounds)
{
    return rounds / (int)MIN(unit_patience(), 5);
}

struct shared {
    struct {
        _Alignas(LINE) _Atomic int64_t ended;
    } thread[THREADS];
    _Atomic bool started;
    useconds_t pause_us; /* or the file gets long, and reading it takes all the time of the test */
};
static struct shared *shared;

static opm_site hot = OPM_SITE_INIT(OPM_APP, NULL, "hot");
static opm_site outer = OPM_SITE_INIT(OPM_FRAMEWORK, "cat", "outer");
static opm_site inner = OPM_SITE_INIT(OPM_RUNTIME, NULL, "inner");
static opm_site with_args = OPM_SITE_INIT(OPM_APP, NULL, "with args");
static opm_op *op;

/* ---- the victim ---- */

static void end_and_count(opm_span span, int me)
{
    opm_end(span);
    atomic_fetch_add_explicit(&shared->thread[me].ended, 1, memory_order_relaxed);
}

static void *suffer(void *arg)
{
    int me = (int)(intptr_t)arg, names = 0;
    uint64_t seed = (uint64_t)me + 1;
    char text[64];
    opm_span a, b;

    snprintf(text, sizeof(text), "victim %d", me);
    opm_thread_name(text);
    for (int64_t i = 0;; i++) {
        switch (rig_random(&seed) % 16) {
        case 0:
            a = opm_begin_named(OPM_APP, NULL, text,
                                (size_t)snprintf(text, sizeof(text), "new %d %d", me, names++));
            end_and_count(a, me);
            break;
        case 1:
            a = opm_begin(&with_args);
            opm_arg_int(a, "i", i);
            opm_arg_str(a, "odd", i & 1 ? "yes" : "no");
            end_and_count(a, me);
            break;
        case 2:
        case 3:
            a = opm_begin(&outer);
            b = opm_begin(&inner);
            end_and_count(opm_op_begin(op), me);
            end_and_count(b, me);
            end_and_count(opm_begin(&inner), me);
            end_and_count(a, me);
            break;
        case 4:
            a = opm_begin(&outer);
            usleep(shared->pause_us);
            end_and_count(a, me);
            break;
        default:
            end_and_count(opm_begin(&hot), me);
        }
    }
    return NULL;
}

static void victim(const char *path, uint32_t buffer_mb)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_mem_info mem = OPM_MEM_INFO_INIT;
    static opm_site stream = OPM_SITE_INIT(OPM_HARDWARE, NULL, "kernel");
    opm_track *track = opm_track_define("stream", "stream", NULL, OPM_CLOCK_MONOTONIC);
    pthread_t thread;

    options.path = path;
    options.buffer_mb = buffer_mb;
    if (opm_start(&options, NULL) != 0)
        _exit(1);
    info.name = "op";
    op = opm_op_define(&info);
    mem.first_op = op;
    opm_mem(&mem);
    opm_device_span(track, &stream, 1, 2, 0);
    opm_begin(&outer); /* and is in it for the rest of its life */
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, suffer, (void *)(intptr_t)i) != 0)
            _exit(1);
    atomic_store(&shared->started, true);
    for (;;)
        pause();
}

static pid_t the_victim; /* or 0 */

/* A test that fails leaves nobody behind. */
static int bury(void **state)
{
    (void)state;
    if (the_victim) {
        kill(the_victim, SIGKILL);
        waitpid(the_victim, NULL, 0);
    }
    the_victim = 0;
    return 0;
}

static pid_t start_victim(const char *path, uint32_t buffer_mb, useconds_t pause_us)
{
    pid_t pid;

    memset(shared, 0, sizeof(*shared));
    shared->pause_us = pause_us;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        victim(path, buffer_mb);
    }
    the_victim = pid;
    while (!atomic_load(&shared->started)) {
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
        usleep(50);
    }
    return pid;
}

static void kill_victim(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    the_victim = 0;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- the reader ---- */

struct counts {
    int64_t ended[THREADS];
};

static struct counts counts_shared(void)
{
    struct counts c;

    for (int i = 0; i < THREADS; i++)
        c.ended[i] = atomic_load(&shared->thread[i].ended);
    return c;
}

static struct counts counts_read(opm_trace *t)
{
    struct counts c = { { 0 } };
    opm_rows *rows = NULL;
    opm_error err = { 0 };

    if (opm_trace_query(
            t,
            "SELECT CAST(substr(t.name, 8) AS INTEGER), count(*) FROM span s "
            "JOIN track t ON t.id = s.track WHERE s.dur >= 0 AND t.name LIKE 'victim %' "
            "GROUP BY s.track",
            &rows, &err) != 0)
        fail_msg("%s", err.msg);
    while (opm_rows_next(rows, &err) == 1)
        c.ended[opm_rows_int(rows, 0)] += opm_rows_int(rows, 1);
    opm_rows_close(rows);
    return c;
}

/* What must hold at every moment, whatever was being written. */
static void check_sense(opm_trace *t)
{
    assert_string_equal(rig_losses(t), "");
    rig_expect(t,
               "SELECT name, count(*) FROM span WHERE name NOT IN ('hot', 'outer', 'inner', 'op', "
               "'with args', 'kernel') AND name NOT LIKE 'new _ %' GROUP BY name",
               "");
    /* Nothing is there twice. Of a site, spans of no length may begin in one tick of a slow
     * counter. */
    rig_expect(t,
               "SELECT name, ts, count(*) FROM span WHERE name != 'kernel' AND dur != 0 "
               "GROUP BY track, ts, name HAVING count(*) > 1 LIMIT 3",
               "");
    rig_expect(t, "SELECT count(*) FROM op", "1\n");
    rig_expect(t, "SELECT count(*) FROM mem", "1\n");
    rig_expect(t, "SELECT count(*) FROM track WHERE kind = 'stream'", "1\n");
    rig_expect(t,
               "SELECT name, count(*) FROM track WHERE kind = 'thread' AND name LIKE 'victim %' "
               "GROUP BY name HAVING count(*) > 1",
               "");
    /* Of the names that a thread made up as it went along, none is missing. */
    rig_expect(t,
               "SELECT track, count(*), max(CAST(substr(name, 7) AS INTEGER)) FROM span "
               "WHERE name LIKE 'new _ %' GROUP BY track "
               "HAVING count(*) != 1 + max(CAST(substr(name, 7) AS INTEGER))",
               "");
    rig_expect(
        t, "SELECT track, count(*) FROM span WHERE dur < 0 GROUP BY track HAVING count(*) > 3", "");
    rig_expect(t,
               "SELECT args FROM span WHERE name = 'with args' AND dur >= 0 AND coalesce("
               "json_extract(args, '$.odd') != iif(json_extract(args, '$.i') % 2, 'yes', 'no'), 1)",
               "");
}

static void killed(void **state)
{
    int rounds = fewer(rig_rounds(100, 3000)) / SLOW;
    uint64_t seed = 1;
    int64_t open = 0;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const char *path = rig_path("killed.opm");
        struct counts told, found;
        opm_trace *t;
        pid_t pid = start_victim(path, i % 3 ? 32 : 1, 50);

        usleep(rig_random(&seed) % 8000);
        kill_victim(pid);
        told = counts_shared();
        t = rig_open(path);
        found = counts_read(t);
        for (int k = 0; k < THREADS; k++)
            if (found.ended[k] < told.ended[k] || found.ended[k] > told.ended[k] + 1)
                fail_msg("round %d, thread %d: %lld ended, %lld in the file", i, k,
                         (long long)told.ended[k], (long long)found.ended[k]);
        check_sense(t);
        assert_int_equal(rig_stat(t, "not_closed"), 1);
        open += rig_int(t, "SELECT count(*) FROM span WHERE dur = -1 AND name != 'kernel'");
        opm_trace_close(t);
    }
    /* Those in flight are there, too. */
    assert_true(open >= rounds);
}

#define ENOUGH 500000 /* spans */

static void read_while_it_goes_on(void **state)
{
    int rounds = fewer(rig_rounds(10, 200)) / SLOW, looks = 12;

    (void)state;
    for (int i = 0; i < rounds; i++) {
        const char *path = rig_path("alive.opm");
        struct counts last = { { 0 } };
        pid_t pid = start_victim(path, i % 2 ? 32 : 1, 500 * SLOW * (useconds_t)unit_patience());
        int64_t ended = 0;

        /* The longer a look takes, the more there is to be read at the next. */
        for (int look = 0; look < looks && ended < ENOUGH; look++) {
            struct counts told = counts_shared(), found;
            opm_trace *t = rig_open(path);

            found = counts_read(t);
            check_sense(t);
            opm_trace_close(t);
            for (int k = 0; k < THREADS; k++)
                if (found.ended[k] < told.ended[k] || found.ended[k] < last.ended[k])
                    fail_msg("look %d, thread %d: %lld had ended, %lld seen before, %lld now", look,
                             k, (long long)told.ended[k], (long long)last.ended[k],
                             (long long)found.ended[k]);
            last = found;
            ended = 0;
            for (int k = 0; k < THREADS; k++)
                ended += found.ended[k];
        }
        kill_victim(pid);
    }
}

/* ---- read while it stops ---- */

static _Atomic int round_now; /* -1: it is over */

static const char *round_path(char *to, size_t size, int round)
{
    snprintf(to, size, "%s-%d.opm", rig_path("stopping"), round);
    return to;
}

/* What is wrong with what can be read now, or NULL. The caller frees it. */
static char *look(const char *path)
{
    int64_t told = atomic_load(&shared->thread[0].ended);
    opm_trace *t = NULL;
    opm_error err = { 0 };
    char *wrong = NULL;

    if (opm_trace_open(&t, &path, 1, NULL, &err) != 0) {
        /* A recording that is just starting has no file, or an empty one. */
        if (err.code == OPM_EIO || strstr(err.msg, "an empty file"))
            return NULL;
        return strdup(err.msg);
    }
    if (rig_int(t, "SELECT count(*) FROM span WHERE dur >= 0") < told % 50 ||
        rig_int(t, "SELECT count(*) FROM span") > 51 ||
        rig_int(t, "SELECT count(*) FROM span WHERE dur < 0") > 2 || *rig_losses(t))
        wrong =
            strdup(rig_rows(t, "SELECT name, count FROM import_stat UNION ALL "
                               "SELECT name || ' ' || (dur < 0), count(*) FROM span GROUP BY 1"));
    opm_trace_close(t);
    return wrong;
}

static void *keep_looking(void *unused)
{
    char path[600], *wrong = NULL;
    int round;

    (void)unused;
    while (!wrong) {
        round = atomic_load(&round_now);
        if (round < 0)
            break;
        wrong = look(round_path(path, sizeof(path), round));
        if (wrong && atomic_load(&round_now) != round) {
            /* The numbers were of another recording. */
            free(wrong);
            wrong = NULL;
        }
    }
    return wrong;
}

/* Spans may not vanish, nor come twice, at the moment at which the live file does. */
static void read_while_it_stops(void **state)
{
    int rounds = fewer(rig_rounds(100, 5000));
    char path[600];
    pthread_t reader;
    void *wrong;

    (void)state;
    memset(shared, 0, sizeof(*shared));
    atomic_store(&round_now, 0);
    assert_int_equal(pthread_create(&reader, NULL, keep_looking, NULL), 0);
    for (int i = 0; i < rounds; i++) {
        rig_start(round_path(path, sizeof(path), i));
        opm_span span = opm_begin(&outer);

        for (int k = 0; k < 49; k++) {
            end_and_count(opm_begin(&hot), 0);
            if (k % 16 == 0)
                sched_yield();
        }
        rig_stop();
        opm_end(span);
        usleep(500);
        atomic_fetch_add(&shared->thread[0].ended, 1);
        atomic_store(&round_now, i + 1);
        unlink(path);
    }
    atomic_store(&round_now, -1);
    assert_int_equal(pthread_join(reader, &wrong), 0);
    if (wrong)
        fail_msg("%s", (char *)wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(killed, bury),
        cmocka_unit_test_teardown(read_while_it_goes_on, bury),
        cmocka_unit_test(read_while_it_stops),
    };

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : rig_group(tests);
}
