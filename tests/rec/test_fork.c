/* test_fork.c -- a recording program forks: the child records into a file of its own, or not at
 * all. */
#include "rig.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static opm_site before = OPM_SITE_INIT(OPM_APP, NULL, "before fork");
static opm_site in_parent = OPM_SITE_INIT(OPM_APP, NULL, "in parent");
static opm_site in_child = OPM_SITE_INIT(OPM_APP, NULL, "in child");
static opm_site in_grandchild = OPM_SITE_INIT(OPM_APP, NULL, "in grandchild");

/* ---- programs ---- */

static void start(const char *path)
{
    opm_options options = OPM_OPTIONS_INIT;

    options.path = path;
    RIG_CHECK(opm_start(&options, NULL) == 0);
}

static void wait_for(pid_t pid)
{
    int status;

    RIG_CHECK(pid > 0);
    RIG_CHECK(waitpid(pid, &status, 0) == pid);
    RIG_CHECK(status == 0);
}

static void say_pid(pid_t pid)
{
    printf("%d ", (int)pid);
    fflush(stdout);
}

/* Whether a live file is mapped or open in this process. */
static bool holds_live_file(void)
{
    char line[600];
    FILE *maps = fopen("/proc/self/maps", "r");
    bool found = false;

    RIG_CHECK(maps);
    while (fgets(line, sizeof(line), maps))
        found |= strstr(line, ".opm-live") != NULL;
    fclose(maps);
    for (int fd = 0; fd < 100; fd++) {
        char link[64];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, line, sizeof(line) - 1);
        line[n > 0 ? n : 0] = '\0';
        found |= strstr(line, ".opm-live") != NULL;
    }
    return found;
}

static int both_record(int argc, char **argv)
{
    opm_span span;
    pid_t pid;

    (void)argc;
    start(argv[0]);
    span = opm_begin(&before);
    opm_end(opm_begin(&in_parent));
    pid = fork();
    if (pid == 0) {
        opm_recorder_stats stats;

        opm_stats(&stats);
        RIG_CHECK(stats.spans == 0 && stats.lost == 0 && stats.threads == 0);
        RIG_CHECK(!holds_live_file());
        opm_end(span); /* not ours */
        opm_end(opm_begin(&in_child));
        opm_end(opm_begin(&in_child));
        RIG_CHECK(strcmp(opm_path(), argv[0]) != 0);
        exit(0);
    }
    opm_end(opm_begin(&in_parent));
    wait_for(pid);
    say_pid(pid);
    opm_end(span);
    RIG_CHECK(opm_stop(NULL) == 0);
    return 0;
}

static int child_says_nothing(int argc, char **argv)
{
    opm_span span, async;
    pid_t pid;

    (void)argc;
    start(argv[0]);
    span = opm_begin(&before);
    async = opm_async_begin(&before);
    for (int way = 0; way < 4; way++) {
        pid = fork();
        if (pid == 0) {
            /* Leaving what the parent was in is nothing to record. */
            opm_arg_int(span, "k", 1);
            opm_correlate(span, 1);
            opm_flow(span, async);
            opm_end(async);
            opm_end(span);
            if (way == 1)
                RIG_CHECK(opm_stop(NULL) == 0);
            if (way == 2)
                _exit(0);
            if (way == 3)
                pthread_exit(NULL);
            exit(0);
        }
        wait_for(pid);
    }
    opm_end(async);
    opm_end(span);
    RIG_CHECK(opm_stop(NULL) == 0);
    return 0;
}

static void *fork_and_leave(void *unused)
{
    pid_t pid;

    (void)unused;
    opm_end(opm_begin(&before));
    pid = fork();
    if (pid == 0)
        return NULL; /* the last thread of the child ends, and with it the child */
    wait_for(pid);
    return NULL;
}

static int worker_forks(int argc, char **argv)
{
    pthread_t thread;

    (void)argc;
    start(argv[0]);
    RIG_CHECK(pthread_create(&thread, NULL, fork_and_leave, NULL) == 0);
    pthread_join(thread, NULL);
    RIG_CHECK(opm_stop(NULL) == 0);
    return 0;
}

static int child_execs(int argc, char **argv)
{
    opm_span span;
    pid_t pid;

    (void)argc;
    start(argv[0]);
    span = opm_begin(&before);
    pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    wait_for(pid);
    RIG_CHECK(system("true") == 0);
    opm_end(opm_begin(&in_parent));
    opm_end(span);
    RIG_CHECK(opm_stop(NULL) == 0);
    return 0;
}

static int three_generations(int argc, char **argv)
{
    pid_t pid;

    (void)argc;
    start(argv[0]);
    opm_end(opm_begin(&in_parent));
    pid = fork();
    if (pid == 0) {
        pid = fork(); /* of a child that has not recorded yet */
        if (pid == 0) {
            opm_end(opm_begin(&in_grandchild));
            exit(0);
        }
        wait_for(pid);
        say_pid(pid);
        opm_end(opm_begin(&in_child));
        pid = fork(); /* and of one that has */
        if (pid == 0) {
            opm_end(opm_begin(&in_grandchild));
            opm_begin(&in_grandchild);
            _exit(0);
        }
        wait_for(pid);
        say_pid(pid);
        exit(0);
    }
    wait_for(pid);
    say_pid(pid);
    return 0;
}

/* opm_start() and opm_stop() of the child pair with what the parent had started. */
static int child_starts(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    pid_t pid;

    (void)argc;
    options.path = argv[0];
    start(argv[0]);
    opm_pause();
    pid = fork();
    if (pid == 0) {
        RIG_CHECK(!opm_on(OPM_APP)); /* still paused */
        RIG_CHECK(opm_start(&options, NULL) == 1);
        RIG_CHECK(!opm_on(OPM_APP));
        opm_resume();
        opm_end(opm_begin(&in_child));
        RIG_CHECK(opm_stop(NULL) == 0);
        opm_end(opm_begin(&in_child));
        RIG_CHECK(opm_stop(NULL) == 0);
        RIG_CHECK(opm_stop(NULL) == OPM_EINVAL);
        exit(0);
    }
    wait_for(pid);
    say_pid(pid);
    RIG_CHECK(opm_stop(NULL) == 0);
    return 0;
}

static _Atomic bool over;

static void *keep_recording(void *unused)
{
    char name[40];

    (void)unused;
    for (int i = 0; !atomic_load(&over); i++) {
        int len = snprintf(name, sizeof(name), "name %d", i % 5000);
        opm_span span = opm_begin(&in_parent);

        opm_arg_int(span, "i", i);
        opm_end(opm_begin_named(OPM_APP, NULL, name, (size_t)len));
        opm_end(span);
        if (i % 64 == 0)
            usleep(1000);
    }
    return NULL;
}

static int fork_from_many(int argc, char **argv)
{
    pthread_t thread[3];
    int rounds = atoi(argv[1]);

    (void)argc;
    start(argv[0]);
    for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
        RIG_CHECK(pthread_create(&thread[i], NULL, keep_recording, NULL) == 0);
    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            rig_alarm(60); /* a lock that nobody holds any more would be waited for for ever */
            opm_end(opm_begin(&in_child));
            opm_end(opm_begin_named(OPM_APP, NULL, "named in child", 14));
            exit(0);
        }
        wait_for(pid);
        say_pid(pid);
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
        pthread_join(thread[i], NULL);
    RIG_CHECK(opm_stop(NULL) == 0);
    return 0;
}

/* Recording is on by the environment; argv: what the child does. */
static int automatic(int argc, char **argv)
{
    pid_t pid;

    (void)argc;
    opm_end(opm_begin(&in_parent));
    pid = fork();
    if (pid == 0) {
        if (strcmp(argv[0], "record") == 0)
            opm_end(opm_begin(&in_child));
        exit(0);
    }
    wait_for(pid);
    say_pid(pid);
    return 0;
}

/* ---- tests ---- */

static const char *child_path(const char *stem, int pid)
{
    char name[300];

    snprintf(name, sizeof(name), "%s-%d.opm", stem, pid);
    return rig_path(name);
}

static void expect_spans(const char *path, const char *expected)
{
    opm_trace *t = rig_open(path);

    rig_expect(t, "SELECT name, depth, dur >= 0 FROM span ORDER BY id", expected);
    assert_string_equal(rig_losses(t), "");
    assert_int_equal(rig_stat(t, "end_without_begin"), 0);
    assert_true(rig_int(t, "SELECT count(DISTINCT pid) FROM track") <= 1);
    opm_trace_close(t);
}

/* Files of the test's folder whose names begin with stem. */
static int files(const char *stem)
{
    DIR *dir = opendir(rig_path(""));
    const struct dirent *e;
    int n = 0;

    assert_non_null(dir);
    for (;;) {
        e = readdir(dir);
        if (!e)
            break;
        n += strncmp(e->d_name, stem, strlen(stem)) == 0;
    }
    closedir(dir);
    return n;
}

static void run(struct rig_result *r, const char *const *env, const char *const *words)
{
    rig_run(r, env, words);
    if (r->status != 0)
        fail_msg("%s: status %x: %s", words[0], (unsigned)r->status, r->err);
    assert_string_equal(r->err, "");
}

static void parent_and_child(void **state)
{
    struct rig_result r;
    opm_trace *t;

    (void)state;
    run(&r, NULL, RIG_WORDS("both", rig_path("both.opm")));
    expect_spans(rig_path("both.opm"), "before fork|0|1\nin parent|1|1\nin parent|1|1\n");
    expect_spans(child_path("both", atoi(r.out)), "in child|0|1\nin child|0|1\n");
    assert_int_equal(files("both"), 2);
    t = rig_open(child_path("both", atoi(r.out)));
    assert_int_equal(
        rig_int(t, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'program.pid'"),
        atoi(r.out));
    assert_int_equal(rig_int(t, "SELECT min(pid) FROM track"), atoi(r.out));
    assert_int_equal(rig_stat(t, "not_closed"), 0);
    opm_trace_close(t);
}

static void silent_child(void **state)
{
    struct rig_result r;

    (void)state;
    run(&r, NULL, RIG_WORDS("silent", rig_path("silent.opm")));
    expect_spans(rig_path("silent.opm"), "before fork|0|1\nbefore fork|0|1\n");
    assert_int_equal(files("silent"), 1);
    run(&r, NULL, RIG_WORDS("worker", rig_path("worker.opm")));
    expect_spans(rig_path("worker.opm"), "before fork|0|1\n");
    assert_int_equal(files("worker"), 1);
}

static void exec_after_fork(void **state)
{
    struct rig_result r;

    (void)state;
    run(&r, NULL, RIG_WORDS("exec", rig_path("exec.opm")));
    expect_spans(rig_path("exec.opm"), "before fork|0|1\nin parent|1|1\n");
    assert_int_equal(files("exec"), 1);
}

static void grandchildren(void **state)
{
    struct rig_result r;
    int first, second, child;
    char stem[64];

    (void)state;
    run(&r, NULL, RIG_WORDS("generations", rig_path("gen.opm")));
    assert_int_equal(sscanf(r.out, "%d %d %d", &first, &second, &child), 3);
    expect_spans(rig_path("gen.opm"), "in parent|0|1\n");
    expect_spans(child_path("gen", first), "in grandchild|0|1\n");
    expect_spans(child_path("gen", child), "in child|0|1\n");
    snprintf(stem, sizeof(stem), "gen-%d", child);
    expect_spans(child_path(stem, second), "in grandchild|0|1\nin grandchild|0|0\n");
    assert_int_equal(files("gen"), 5); /* the last one was not closed: its live file is there */
}

static void start_in_child(void **state)
{
    struct rig_result r;

    (void)state;
    run(&r, NULL, RIG_WORDS("starts", rig_path("starts.opm")));
    expect_spans(rig_path("starts.opm"), "");
    expect_spans(child_path("starts", atoi(r.out)), "in child|0|1\nin child|0|1\n");
}

static void many_threads(void **state)
{
    char rounds[16];
    struct rig_result r;
    opm_trace *t;
    char *p = r.out;
    int n = rig_rounds(20, 400);

    (void)state;
    snprintf(rounds, sizeof(rounds), "%d", n);
    run(&r, NULL, RIG_WORDS("many", rig_path("many.opm"), rounds));
    for (int i = 0; i < n; i++)
        expect_spans(child_path("many", (int)strtol(p, &p, 10)),
                     "in child|0|1\nnamed in child|0|1\n");
    assert_int_equal(files("many"), 1 + n);
    t = rig_open(rig_path("many.opm"));
    rig_expect(t, "SELECT count(*) FROM span WHERE dur < 0 OR name LIKE '%child%'", "0\n");
    rig_expect(t,
               "SELECT count(*) FROM span WHERE name = 'in parent' AND "
               "json_extract(args, '$.i') IS NULL",
               "0\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

static void by_environment(void **state)
{
    char output[600];
    const char *env[] = { output, NULL };
    struct rig_result r;

    (void)state;
    snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", rig_path("auto.opm"));
    run(&r, env, RIG_WORDS("automatic", "record"));
    expect_spans(rig_path("auto.opm"), "in parent|0|1\n");
    expect_spans(child_path("auto", atoi(r.out)), "in child|0|1\n");
    snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", rig_path("auto2.opm"));
    run(&r, env, RIG_WORDS("automatic", "nothing"));
    assert_int_equal(files("auto2"), 1);

    /* A failure is told once, not by every process. */
    snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", rig_path("missing/auto.opm"));
    rig_run(&r, env, RIG_WORDS("automatic", "record"));
    assert_int_equal(r.status, 0);
    assert_ptr_equal(strchr(r.err, '\n'), r.err + strlen(r.err) - 1);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { "both", both_record },
                                                 { "silent", child_says_nothing },
                                                 { "worker", worker_forks },
                                                 { "exec", child_execs },
                                                 { "generations", three_generations },
                                                 { "starts", child_starts },
                                                 { "many", fork_from_many },
                                                 { "automatic", automatic },
                                                 { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parent_and_child), cmocka_unit_test(silent_child),
        cmocka_unit_test(exec_after_fork),  cmocka_unit_test(grandchildren),
        cmocka_unit_test(start_in_child),   cmocka_unit_test(many_threads),
        cmocka_unit_test(by_environment),
    };
    int rc = rig_main_child(children, argc, argv);

    /* Children of a process with threads: the leak checker looks for those. */
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    return rc >= 0 ? rc : rig_group(tests);
}
