/* test_signals.c -- recording in handlers of signals and in threads that are cancelled.
 *
 * A handler may find its thread anywhere: in the middle of beginning or ending a span, in a slow
 * path, in malloc(). What it records is there or counted as lost; nothing ever waits for itself.
 * Each test runs in a child that an alarm ends if it hangs. */
#include "rec/rec.h"
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { LIMIT_S = 120, EXIT_CODE = 42 };

static opm_site work = OPM_SITE_INIT(OPM_APP, NULL, "work");
static opm_site in_handler = OPM_SITE_INIT(OPM_APP, NULL, "in handler");
static opm_site gauge = OPM_SITE_INIT(OPM_APP, NULL, "gauge");

static atomic_llong handled, worked;
static atomic_bool done;

/* ---- what programs do ---- */

/* All that a handler might use, names that are new each time among it: those take the slow path. */
static void record_in_handler(int sig)
{
    long long n = atomic_fetch_add(&handled, 2);
    int saved = errno;
    char name[32];
    opm_span span = opm_begin(&in_handler);

    (void)sig;
    snprintf(name, sizeof(name), "name %lld", n % 5000);
    opm_end(opm_begin_named(OPM_APP, NULL, name, strlen(name)));
    opm_counter(&gauge, (double)n);
    opm_arg_int(span, "n", n);
    opm_end(span);
    errno = saved;
}

/* An operator is described and let go: that needs memory, which the program may just be getting. */
static void define_in_handler(int sig)
{
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_op *op;

    record_in_handler(sig);
    info.name = "op of a handler";
    info.type = "Conv";
    op = opm_op_define(&info);
    opm_op_free(op);
}

static void handle(int sig, void (*handler)(int), int flags)
{
    struct sigaction act = { .sa_handler = handler, .sa_flags = flags };

    sigfillset(&act.sa_mask);
    RIG_CHECK(sigaction(sig, &act, NULL) == 0);
}

static void start(const char *path)
{
    opm_options options = OPM_OPTIONS_INIT;

    options.path = path;
    options.buffer_mb = 2;
    RIG_CHECK(opm_start(&options, NULL) == 0);
}

/* n spans by every way into the recorder, with allocations between them. */
static void keep_busy(int n, unsigned who)
{
    char name[32];

    for (int i = 0; i < n; i++) {
        opm_span span = opm_begin(&work);
        void *p = malloc((size_t)(i % 5000) + 1);

        snprintf(name, sizeof(name), "busy %u %d", who, i % 3000);
        opm_end(opm_begin_named(OPM_APP, NULL, name, strlen(name)));
        opm_counter(&gauge, i);
        opm_end(span);
        free(p);
        atomic_fetch_add(&worked, 2);
    }
}

static void *busy_thread(void *arg)
{
    keep_busy(rig_rounds(6000, 400000), (unsigned)(uintptr_t)arg);
    return NULL;
}

static void say_counts(void)
{
    opm_recorder_stats stats;

    opm_stats(&stats);
    printf("%lld %llu\n", atomic_load(&handled) + atomic_load(&worked),
           (unsigned long long)stats.unbalanced);
}

/* Signals go to threads by turns, as they are sent. */
static void *pester(void *arg)
{
    const pthread_t *threads = arg;

    for (unsigned i = 0; !atomic_load(&done); i++) {
        struct timespec pause = { 0, 20000 };

        pthread_kill(threads[i % 3], SIGUSR1);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* PATH stack|altstack: three threads record, each hit by signals all the time. */
static int storm(int argc, char **argv)
{
    pthread_t threads[3] = { pthread_self() }, other;
    static char memory[1 << 16];
    stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };
    bool apart = strcmp(argv[1], "altstack") == 0;

    (void)argc;
    rig_alarm(LIMIT_S);
    if (apart)
        RIG_CHECK(sigaltstack(&stack, NULL) == 0);
    handle(SIGUSR1, define_in_handler, SA_RESTART | (apart ? SA_ONSTACK : 0));
    start(argv[0]);
    for (uintptr_t i = 1; i < 3; i++)
        RIG_CHECK(pthread_create(&threads[i], NULL, busy_thread, (void *)i) == 0);
    RIG_CHECK(pthread_create(&other, NULL, pester, threads) == 0);
    keep_busy(rig_rounds(6000, 400000), 0);
    atomic_store(&done, true);
    pthread_join(other, NULL);
    pthread_join(threads[1], NULL);
    pthread_join(threads[2], NULL);
    RIG_CHECK(opm_stop(NULL) == 0);
    say_counts();
    return EXIT_CODE;
}

/* PATH: threads come and go; the first that each records is in a handler, or before it. */
static void *short_thread(void *arg)
{
    (void)arg;
    raise(SIGUSR1);
    keep_busy(3, 9);
    return NULL;
}

static int newcomers(int argc, char **argv)
{
    (void)argc;
    rig_alarm(LIMIT_S);
    handle(SIGUSR1, record_in_handler, SA_RESTART);
    handle(SIGVTALRM, define_in_handler, SA_RESTART);
    struct itimerval timer = { { 0, 500 }, { 0, 500 } };

    RIG_CHECK(setitimer(ITIMER_VIRTUAL, &timer, NULL) == 0);
    start(argv[0]);
    for (int i = 0; i < rig_rounds(80, 5000); i++) {
        pthread_t thread[2];

        for (int k = 0; k < 2; k++)
            RIG_CHECK(pthread_create(&thread[k], NULL, short_thread, NULL) == 0);
        for (int k = 0; k < 2; k++)
            pthread_join(thread[k], NULL);
    }
    timer = (struct itimerval){ { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
    RIG_CHECK(opm_stop(NULL) == 0);
    say_counts();
    return EXIT_CODE;
}

static sigjmp_buf back;

static void jump_away(int sig)
{
    record_in_handler(sig);
    siglongjmp(back, 1);
}

/* More spans than fit into a tick of a slow counter: none of a site begins with the one before. */
#define SITE(i) OPM_SITE_INIT(OPM_APP, NULL, "turn " #i)
#define SITES(i) SITE(i##0), SITE(i##1), SITE(i##2), SITE(i##3), SITE(i##4), SITE(i##5), SITE(i##6)
static opm_site turns[] = { SITES(0), SITES(1), SITES(2), SITES(3), SITES(4), SITES(5), SITES(6) };

/* PATH: handlers never return. */
static int jumps(int argc, char **argv)
{
    volatile int jumped = 0;
    volatile size_t turn = 0;

    (void)argc;
    rig_alarm(LIMIT_S);
    start(argv[0]);
    handle(SIGVTALRM, jump_away, 0);
    for (volatile int round = 0; round < rig_rounds(30, 2000); round++) {
        struct itimerval timer = { { 0, 0 }, { 0, 100 + round % 1500 } };

        if (sigsetjmp(back, 1) == 0) {
            RIG_CHECK(setitimer(ITIMER_VIRTUAL, &timer, NULL) == 0);
            for (;;) {
                turn = (turn + 1) % ARRAY_SIZE(turns);
                opm_end(opm_begin(&turns[turn]));
            }
        }
        jumped++;
    }
    /* Recording goes on as if nothing had been. */
    for (int i = 0; i < 1000; i++)
        opm_end(opm_begin_named(OPM_APP, NULL, "after", 5));
    RIG_CHECK(opm_stop(NULL) == 0);
    printf("%d\n", jumped);
    return EXIT_CODE;
}

static void *record_for_ever(void *how)
{
    int old;

    pthread_setcanceltype(how ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, &old);
    for (int i = 0;; i++) {
        char name[32];

        for (int k = 0; k < 50; k++)
            opm_end(opm_begin(&work));
        /* Bytes by hand: snprintf() must not be cancelled. */
        memcpy(name, "n0000", 6);
        name[1] = (char)('a' + i % 26);
        name[2] = (char)('a' + i / 26 % 26);
        name[3] = (char)('a' + i / 676 % 26);
        opm_end(opm_begin_named(OPM_APP, NULL, name, 5));
        opm_counter(&gauge, i);
        pthread_testcancel();
    }
    return NULL;
}

/* PATH: cancelled anywhere; the recording goes on, and can be stopped. */
static int cancelled(int argc, char **argv)
{
    uint64_t seed = 7;

    (void)argc;
    rig_alarm(LIMIT_S);
    start(argv[0]);
    for (int i = 0; i < rig_rounds(30, 2000); i++) {
        struct timespec pause = { 0, (long)(rig_random(&seed) % 400000) };
        pthread_t thread[2];

        /* ThreadSanitizer has locks of its own everywhere: asynchronously, it hangs in them. */
        for (uintptr_t k = 0; k < 2; k++)
            RIG_CHECK(
                pthread_create(&thread[k], NULL, record_for_ever, (void *)(RIG_TSAN ? 0 : k)) == 0);
        nanosleep(&pause, NULL);
        for (int k = 0; k < 2; k++)
            pthread_cancel(thread[k]);
        for (int k = 0; k < 2; k++) {
            void *result;

            pthread_join(thread[k], &result);
            RIG_CHECK(result == PTHREAD_CANCELED);
        }
        opm_end(opm_begin_named(OPM_APP, NULL, "main", 4));
    }
    RIG_CHECK(opm_stop(NULL) == 0);
    printf("%d\n", rig_rounds(30, 2000));
    return EXIT_CODE;
}

static atomic_int guarded; /* 1: guarded, 2: and cancelled */

static void *cancelled_in_guard(void *unused)
{
    struct guard g;
    int old;

    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    opm__guard(&g);
    atomic_store(&guarded, 1);
    while (atomic_load(&guarded) != 2)
        ;
    opm__unguard(&g);
    return unused; /* not reached: it is cancelled as soon as it may be */
}

/* What a thread gives back that is cancelled while the recorder is guarded. */
static int result_of_guarded(int argc, char **argv)
{
    pthread_t thread;
    void *result;

    (void)argc;
    (void)argv;
    rig_alarm(LIMIT_S);
    RIG_CHECK(pthread_create(&thread, NULL, cancelled_in_guard, NULL) == 0);
    while (atomic_load(&guarded) != 1)
        ;
    pthread_cancel(thread);
    atomic_store(&guarded, 2);
    pthread_join(thread, &result);
    RIG_CHECK(result == PTHREAD_CANCELED);
    return EXIT_CODE;
}

static void fork_in_handler(int sig)
{
    pid_t pid;
    int status;

    record_in_handler(sig);
    pid = fork();
    if (pid == 0) {
        record_in_handler(sig);
        return; /* into whatever the parent was doing */
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    RIG_CHECK(status == EXIT_CODE << 8);
}

/* PATH: children that begin in a handler, and go on in the middle of the parent's work. */
static int forks(int argc, char **argv)
{
    pid_t self = getpid();

    (void)argc;
    rig_alarm(LIMIT_S);
    start(argv[0]);
    handle(SIGVTALRM, fork_in_handler, SA_RESTART);
    for (int round = 0; round < rig_rounds(20, 600); round++) {
        struct itimerval timer = { { 0, 0 }, { 0, 100 + round * 37 % 2000 } };
        long long before = atomic_load(&handled);

        RIG_CHECK(setitimer(ITIMER_VIRTUAL, &timer, NULL) == 0);
        while (atomic_load(&handled) == before)
            keep_busy(1, 1);
        if (getpid() != self) {
            keep_busy(3, 2);
            opm_stop(NULL);
            _exit(EXIT_CODE);
        }
    }
    RIG_CHECK(opm_stop(NULL) == 0);
    say_counts();
    return EXIT_CODE;
}

void __real_opm__lock(pthread_mutex_t *m, void *guard);
void __wrap_opm__lock(pthread_mutex_t *m, void *guard);
static bool signal_before_lock;

/* A signal just before the recorder takes a lock, where its handler may still run. */
void __wrap_opm__lock(pthread_mutex_t *m, void *guard)
{
    if (signal_before_lock) {
        signal_before_lock = false;
        raise(SIGVTALRM);
    }
    __real_opm__lock(m, guard);
}

/* PATH: the child goes on where the parent was about to state a fact that fits no block, which the
 * writer would write at once: the child has none. */
static int forks_before_lock(int argc, char **argv)
{
    enum { LONG = 100000 };
    char *text = malloc(LONG);
    pid_t self = getpid();

    (void)argc;
    rig_alarm(LIMIT_S);
    RIG_CHECK(text != NULL);
    memset(text, 'x', LONG);
    text[LONG - 1] = '\0';
    start(argv[0]);
    handle(SIGVTALRM, fork_in_handler, SA_RESTART);
    signal_before_lock = true;
    opm_meta("long", text);
    free(text);
    if (getpid() == self)
        RIG_CHECK(opm_stop(NULL) == 0 && !signal_before_lock);
    else
        opm_stop(NULL);
    _exit(EXIT_CODE);
}

static void start_and_stop(int sig)
{
    opm_error err = { 0 };
    int rc;

    record_in_handler(sig);
    rc = opm_start(NULL, &err);
    if (rc == 1) /* it was under way */
        rc = opm_stop(&err);
    RIG_CHECK(rc == 0 || rc == OPM_EBUSY || rc == OPM_EINVAL);
}

/* PATH: handlers in a thread that starts and stops, which they try, too. */
static int restarts(int argc, char **argv)
{
    (void)argc;
    rig_alarm(LIMIT_S);
    handle(SIGVTALRM, start_and_stop, SA_RESTART);
    for (int i = 0; i < rig_rounds(30, 1000); i++) {
        struct itimerval timer = { { 0, 300 }, { 0, 300 } }, off = { { 0, 0 }, { 0, 0 } };

        start(argv[0]);
        RIG_CHECK(setitimer(ITIMER_VIRTUAL, &timer, NULL) == 0);
        keep_busy(100, 1);
        RIG_CHECK(setitimer(ITIMER_VIRTUAL, &off, NULL) == 0);
        RIG_CHECK(opm_stop(NULL) == 0);
    }
    return EXIT_CODE;
}

static void leave(int sig)
{
    (void)sig;
    exit(EXIT_CODE);
}

/* PATH US: exit() in a handler, in the middle of anything. */
static int exits(int argc, char **argv)
{
    struct itimerval timer = { { 0, 0 }, { 0, atoi(argv[1]) } };

    (void)argc;
    rig_alarm(LIMIT_S);
    start(argv[0]);
    handle(SIGVTALRM, leave, 0);
    RIG_CHECK(setitimer(ITIMER_VIRTUAL, &timer, NULL) == 0);
    for (;;) {
        opm_end(opm_begin(&work));
        opm_counter(&gauge, 1);
    }
}

/* ---- what must hold ---- */

static void run(struct rig_result *r, const char *const *words)
{
    rig_run(r, NULL, words);
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status) != EXIT_CODE)
        fail_msg("%s: status %x: %s", words[0], (unsigned)r->status, r->err);
    assert_string_equal(r->err, "");
}

/* Every span that was begun is there or counted, and none is left open or badly nested. */
static void all_accounted_for(const char *path, const struct rig_result *r)
{
    long long attempted, unbalanced;
    opm_trace *t = rig_open(path);

    assert_int_equal(sscanf(r->out, "%lld %lld", &attempted, &unbalanced), 2);
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span") + rig_stat(t, "spans_lost") +
                         rig_stat(t, "threads_lost"),
                     attempted);
    assert_int_equal(unbalanced, 0);
    assert_int_equal(rig_stat(t, "span_not_ended"), 0);
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span WHERE dur < 0"), 0);
    assert_int_equal(rig_stat(t, "chunk_corrupt"), 0);
    opm_trace_close(t);
}

static void signals_in_all_threads(void **state)
{
    struct rig_result r;

    (void)state;
    run(&r, RIG_WORDS("storm", rig_path("storm.opm"), "stack"));
    all_accounted_for(rig_path("storm.opm"), &r);
    run(&r, RIG_WORDS("storm", rig_path("storm2.opm"), "altstack"));
    all_accounted_for(rig_path("storm2.opm"), &r);
}

static void first_event_in_handler(void **state)
{
    struct rig_result r;

    (void)state;
    run(&r, RIG_WORDS("newcomers", rig_path("new.opm")));
    all_accounted_for(rig_path("new.opm"), &r);
}

static void handlers_jump_away(void **state)
{
    struct rig_result r;
    opm_trace *t;

    (void)state;
    run(&r, RIG_WORDS("jumps", rig_path("jumps.opm")));
    t = rig_open(rig_path("jumps.opm"));
    rig_expect(t, "SELECT count(*) FROM span WHERE name = 'after' AND dur >= 0", "1000\n");
    assert_int_equal(rig_stat(t, "chunk_corrupt"), 0);
    /* No span is there twice. */
    rig_expect(t,
               "SELECT count(*) FROM (SELECT ts FROM span WHERE name LIKE 'turn %' AND dur >= 0 "
               "GROUP BY ts, name HAVING count(*) > 1)",
               "0\n");
    opm_trace_close(t);
}

static void threads_are_cancelled(void **state)
{
    struct rig_result r;
    opm_trace *t;

    (void)state;
    run(&r, RIG_WORDS("guarded", ""));
    run(&r, RIG_WORDS("cancelled", rig_path("cancelled.opm")));
    t = rig_open(rig_path("cancelled.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span WHERE name = 'main'"), atoi(r.out));
    assert_int_equal(rig_stat(t, "chunk_corrupt"), 0);
    opm_trace_close(t);
}

static void handlers_fork(void **state)
{
    struct rig_result r;

    (void)state;
    if (RIG_ASAN || RIG_TSAN)
        skip(); /* they do not survive a fork in a handler */
    run(&r, RIG_WORDS("forks", rig_path("forks.opm")));
    all_accounted_for(rig_path("forks.opm"), &r);
}

static void handlers_fork_before_lock(void **state)
{
    struct rig_result r;

    (void)state;
    if (RIG_ASAN || RIG_TSAN)
        skip(); /* as above */
    run(&r, RIG_WORDS("forks_before_lock", rig_path("before.opm")));
    opm_trace_close(rig_open(rig_path("before.opm")));
}

static void handlers_start_and_stop(void **state)
{
    struct rig_result r;

    (void)state;
    run(&r, RIG_WORDS("restarts", rig_path("restarts.opm")));
    opm_trace_close(rig_open(rig_path("restarts.opm")));
}

static void handlers_exit(void **state)
{
    struct rig_result r;
    char us[16];

    (void)state;
    for (int i = 0; i < rig_rounds(12, 400); i++) {
        snprintf(us, sizeof(us), "%d", 200 + i * 131 % 3000);
        run(&r, RIG_WORDS("exits", rig_path("exits.opm"), us));
        opm_trace_close(rig_open(rig_path("exits.opm")));
    }
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = {
        { "storm", storm },
        { "newcomers", newcomers },
        { "jumps", jumps },
        { "forks", forks },
        { "forks_before_lock", forks_before_lock },
        { "cancelled", cancelled },
        { "restarts", restarts },
        { "exits", exits },
        { "guarded", result_of_guarded },
        { NULL, NULL },
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_in_all_threads),  cmocka_unit_test(first_event_in_handler),
        cmocka_unit_test(handlers_jump_away),      cmocka_unit_test(threads_are_cancelled),
        cmocka_unit_test(handlers_fork),           cmocka_unit_test(handlers_fork_before_lock),
        cmocka_unit_test(handlers_start_and_stop), cmocka_unit_test(handlers_exit),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
