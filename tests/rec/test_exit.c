/* test_exit.c -- however a program ends, its exit status is its own and its spans are there. */
#include "rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static opm_site ended = OPM_SITE_INIT(OPM_APP, NULL, "ended");
static opm_site outer = OPM_SITE_INIT(OPM_APP, NULL, "outer");
static opm_site inner = OPM_SITE_INIT(OPM_APP, NULL, "inner");
static opm_site late = OPM_SITE_INIT(OPM_APP, NULL, "late");
static _Atomic int busy;

static void record_late(void)
{
    opm_end(opm_begin(&late));
}

static void *keep_recording(void *unused)
{
    (void)unused;
    for (;;) {
        opm_end(opm_begin(&inner));
        atomic_store(&busy, 1);
    }
    return NULL;
}

static void *exit_here(void *unused)
{
    (void)unused;
    opm_begin(&inner);
    exit(5);
}

static void crash_quietly(int sig)
{
    struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* PATH HOW: record three spans that end, two that do not, and go. */
static int leave(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    const char *how = argv[1];
    pthread_t thread;

    (void)argc;
    options.path = argv[0];
    RIG_CHECK(opm_start(&options, NULL) == 0);
    for (int i = 0; i < 3; i++)
        opm_end(opm_begin(&ended));
    opm_begin(&outer);
    opm_arg_str(opm_begin(&inner), "open", "yes");
    if (strcmp(how, "exit") == 0)
        exit(5);
    if (strcmp(how, "atexit") == 0) {
        RIG_CHECK(atexit(record_late) == 0);
        exit(5);
    }
    if (strcmp(how, "_exit") == 0)
        _exit(5);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(5);
    if (strcmp(how, "abort") == 0)
        crash_quietly(SIGABRT);
    if (strcmp(how, "crash") == 0)
        crash_quietly(SIGSEGV);
    if (strcmp(how, "term") == 0)
        crash_quietly(SIGTERM);
    if (strcmp(how, "exec") == 0) {
        execl("/bin/sh", "sh", "-c", "exit 5", NULL);
        return 1;
    }
    if (strcmp(how, "thread") == 0) {
        RIG_CHECK(pthread_create(&thread, NULL, exit_here, NULL) == 0);
        pthread_join(thread, NULL);
    }
    if (strcmp(how, "busy") == 0) {
        for (int i = 0; i < 3; i++)
            RIG_CHECK(pthread_create(&thread, NULL, keep_recording, NULL) == 0);
        while (!atomic_load(&busy))
            usleep(100);
    }
    if (strcmp(how, "stopped") == 0) {
        RIG_CHECK(opm_stop(NULL) == 0);
        opm_begin(&late);
    }
    return 5;
}

static void every_way_to_go(void **state)
{
    static const struct {
        const char *how;
        int sig;     /* that ends it, or 0: exit status 5 */
        bool closed; /* the library gets a chance to close the file */
        const char *spans;
    } cases[] = {
        { "return", 0, true, "ended 3 0\ninner 1 1\nouter 1 1\n" },
        { "exit", 0, true, "ended 3 0\ninner 1 1\nouter 1 1\n" },
        { "atexit", 0, true, "ended 3 0\ninner 1 1\nlate 1 0\nouter 1 1\n" },
        { "thread", 0, true, "ended 3 0\ninner 2 2\nouter 1 1\n" },
        { "stopped", 0, true, "ended 3 0\ninner 1 1\nouter 1 1\n" },
        { "busy", 0, true, NULL },
        { "_exit", 0, false, "ended 3 0\ninner 1 1\nouter 1 1\n" },
        { "quick_exit", 0, false, "ended 3 0\ninner 1 1\nouter 1 1\n" },
        { "exec", 0, false, "ended 3 0\ninner 1 1\nouter 1 1\n" },
        { "abort", SIGABRT, false, "ended 3 0\ninner 1 1\nouter 1 1\n" },
        { "crash", SIGSEGV, false, "ended 3 0\ninner 1 1\nouter 1 1\n" },
        { "term", SIGTERM, false, "ended 3 0\ninner 1 1\nouter 1 1\n" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *path = rig_path("exit.opm");
        struct rig_result r;
        opm_trace *t;

        rig_run(&r, NULL, RIG_WORDS("leave", path, cases[i].how));
        if (cases[i].sig ? !WIFSIGNALED(r.status) || WTERMSIG(r.status) != cases[i].sig
                         : !WIFEXITED(r.status) || WEXITSTATUS(r.status) != 5)
            fail_msg("%s: status %x: %s", cases[i].how, (unsigned)r.status, r.err);
        assert_string_equal(r.err, "");
        assert_int_equal(rig_exists(rig_path("exit.opm-live")), !cases[i].closed);
        t = rig_open(path);
        if (cases[i].spans)
            rig_expect(t,
                       "SELECT name || ' ' || count(*) || ' ' || sum(dur < 0) FROM span "
                       "GROUP BY name ORDER BY name",
                       cases[i].spans);
        rig_expect(t,
                   "SELECT json_extract(args, '$.open'), depth, dur FROM span "
                   "WHERE args IS NOT NULL",
                   "yes|1|-1\n");
        assert_int_equal(rig_stat(t, "not_closed"), !cases[i].closed);
        assert_string_equal(rig_losses(t), "");
        opm_trace_close(t);
    }
}

/* The environment starts the recording, the program may start and stop on top of it. */
static int leave_automatic(int argc, char **argv)
{
    (void)argc;
    opm_end(opm_begin(&ended));
    if (strcmp(argv[0], "nested") == 0) {
        RIG_CHECK(opm_start(NULL, NULL) == 1);
        opm_end(opm_begin(&inner));
        RIG_CHECK(opm_stop(NULL) == 0);
        opm_end(opm_begin(&late));
    }
    if (strcmp(argv[0], "stop") == 0) {
        RIG_CHECK(opm_stop(NULL) == 0);
        opm_end(opm_begin(&late));
    }
    return 5;
}

static void started_by_environment(void **state)
{
    static const struct {
        const char *what, *level, *spans;
    } cases[] = {
        { "plain", "OPMETER_LEVEL=3", "ended\n" },
        { "nested", "OPMETER_LEVEL=1", "ended\ninner\nlate\n" },
        { "stop", "OPMETER_LEVEL=", "ended\n" },
        { "plain", "OPMETER_LEVEL=0", NULL },
        { "plain", "OPMETER_CATEGORIES=none", "ended\n" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char output[600];
        const char *path = rig_path("env.opm"), *env[] = { output, cases[i].level, NULL };
        struct rig_result r;
        opm_trace *t;

        unlink(path);
        snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", path);
        rig_run(&r, env, RIG_WORDS("automatic", cases[i].what));
        assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 5);
        assert_string_equal(r.err, "");
        assert_int_equal(rig_exists(path), cases[i].spans != NULL);
        if (!cases[i].spans)
            continue;
        t = rig_open(path);
        rig_expect(t, "SELECT name FROM span ORDER BY id", cases[i].spans);
        assert_int_equal(rig_stat(t, "not_closed"), 0);
        opm_trace_close(t);
    }
}

/* A file that another process is recording into is not overwritten. */
static void name_is_taken(void **state)
{
    char mine[64];
    struct rig_result r;
    opm_trace *t;

    (void)state;
    rig_start(rig_path("taken.opm"));
    opm_end(opm_begin(&ended));
    rig_run(&r, NULL, RIG_WORDS("leave", rig_path("taken.opm"), "exit"));
    assert_int_equal(WEXITSTATUS(r.status), 5);
    opm_end(opm_begin(&ended));
    rig_stop();
    snprintf(mine, sizeof(mine), "taken-%d.opm", (int)r.pid);
    t = rig_open(rig_path(mine));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), 5);
    opm_trace_close(t);
    t = rig_open(rig_path("taken.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), 2);
    opm_trace_close(t);
    /* One that nobody is recording into is. */
    rig_run(&r, NULL, RIG_WORDS("leave", rig_path("taken.opm"), "exit"));
    t = rig_open(rig_path("taken.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), 5);
    opm_trace_close(t);
}

/* ---- other formats ---- */

static void make_tool(const char *script)
{
    const char *path = rig_path("tool");

    unlink(path);
    unit_write(path, script, strlen(script));
    assert_int_equal(chmod(path, 0755), 0);
    setenv("OPMETER_TOOL", path, 1);
}

/* A name that does not end in .opm asks for another format: the opmeter command makes it. */
static void converted(void **state)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err = { 0 };
    uint8_t *text;
    size_t len;

    (void)state;
    options.path = rig_path("trace.json");
    make_tool("#!/bin/sh\n"
              "test \"$1 $2 $4\" = 'export --force -o' && cp \"$3\" \"$5\" && "
              "echo \"$OPMETER_OUTPUT $(sed -n s/^SigBlk:.//p /proc/self/status)\" >\"$5-log\"\n");
    setenv("OPMETER_OUTPUT", "not for the tool", 1);
    assert_int_equal(opm_start(&options, &err), 0);
    assert_string_equal(opm_path(), rig_path("trace.json.opm"));
    opm_end(opm_begin(&ended));
    rig_stop();
    unsetenv("OPMETER_OUTPUT");
    assert_false(rig_exists(rig_path("trace.json.opm")));
    opm_trace_close(rig_open(rig_path("trace.json"))); /* it is what our tool makes of it */
    len = rig_read(rig_path("trace.json-log"), &text);
    text[len] = '\0';
    assert_string_equal((char *)text, " 0000000000000000\n"); /* no output, no signal blocked */
    free(text);

    /* One that fails: the recording stays, and the message says what to do. */
    make_tool("#!/bin/sh\nexit 1\n");
    assert_int_equal(opm_start(&options, &err), 0);
    opm_end(opm_begin(&ended));
    assert_int_equal(opm_stop(&err), OPM_EIO);
    assert_non_null(strstr(err.msg, "opmeter export"));
    opm_trace_close(rig_open(rig_path("trace.json.opm")));

    /* How it went cannot be known: the recording stays. */
    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(opm_start(&options, &err), 0);
    opm_end(opm_begin(&ended));
    opm_stop(&err);
    signal(SIGCHLD, SIG_DFL);
    opm_trace_close(rig_open(rig_path("trace.json.opm")));
    unsetenv("OPMETER_TOOL");
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { "leave", leave },
                                                 { "automatic", leave_automatic },
                                                 { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_go),
        cmocka_unit_test(started_by_environment),
        cmocka_unit_test(name_is_taken),
        cmocka_unit_test(converted),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
