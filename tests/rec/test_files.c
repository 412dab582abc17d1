/* test_files.c -- the recorder's files among those of the program: it writes into none of the
 * program's, whatever the program does with descriptors; files that are not ours stay; and what
 * others do to the files of a recording ends the recording, not the program. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifdef RIG_SHARED_TABLE
bool __wrap_opm__own_table(void);
bool __wrap_opm__own_table(void)
{
    return false;
}
#endif

enum { SPANS = 200000, EXIT_CODE = 42 };

static opm_site work = OPM_SITE_INIT(OPM_APP, NULL, "work");
static opm_site later = OPM_SITE_INIT(OPM_APP, NULL, "later");

static void record(opm_site *site, int n)
{
    for (int i = 0; i < n; i++)
        opm_end(opm_begin(site));
}

static void start(const char *path)
{
    opm_options options = OPM_OPTIONS_INIT;

    options.path = path;
    options.buffer_mb = 16; /* all spans, should the writer get no turn */
    RIG_CHECK(opm_start(&options, NULL) == 0);
}

static void stop_and_say(void)
{
    opm_recorder_stats stats;
    opm_error err = { 0 };
    int rc = opm_stop(&err);

    opm_stats(&stats);
    printf("%d %llu %s", rc, (unsigned long long)stats.lost, rc ? err.msg : "");
}

/* ---- the program's descriptors ---- */

/* Files of the program, enough to have every number that was closed; some content each. */
static void open_own(const char *base, int n)
{
    for (int i = 0; i < n; i++) {
        char path[600], text[64];
        int fd;

        snprintf(path, sizeof(path), "%s-%d.db", base, i);
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
        RIG_CHECK(fd >= 0);
        snprintf(text, sizeof(text), "database %d", i);
        RIG_CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    }
}

static void close_all(void)
{
    for (int fd = 3; fd < 1100; fd++)
        close(fd);
}

static void close_from(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0)
        return;
#endif
    close_all();
}

/* The kernel says EBUSY while another thread is just being given that number (dup2(2)): here the
 * recorder's, which opens its file again where it shares the table of descriptors. */
static void dup_to(int fd, int to)
{
    int got;

    do
        got = dup2(fd, to);
    while (got < 0 && errno == EBUSY);
    RIG_CHECK(got == to);
}

/* A descriptor of the program on every number. */
static void dup_over(void)
{
    int fd = open("/dev/null", O_RDWR);

    for (int to = 3; to < 1024; to++)
        if (to != fd)
            dup_to(fd, to);
}

/* A copy of the same file of the program on every number. */
static void dup_file_over(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0644);

    RIG_CHECK(fd >= 0 && write(fd, "database 0", 10) == 10);
    for (int to = 3; to < 1024; to++)
        if (to != fd)
            dup_to(fd, to);
}

static void daemonise(void)
{
    pid_t pid = fork();

    RIG_CHECK(pid >= 0);
    if (pid) {
        RIG_CHECK(waitpid(pid, NULL, 0) == pid);
        exit(EXIT_CODE);
    }
    RIG_CHECK(setsid() >= 0);
    pid = fork();
    RIG_CHECK(pid >= 0);
    if (pid)
        _exit(0);
    RIG_CHECK(chdir("/") == 0);
    close_all();
}

/* HOW PATH BASE */
static int closer(int argc, char **argv)
{
    char path[600];

    (void)argc;
    start(argv[1]);
    record(&work, SPANS / 2);
    if (strcmp(argv[0], "close") == 0)
        close_all();
    else if (strcmp(argv[0], "closefrom") == 0)
        close_from();
    else if (strcmp(argv[0], "dup2") == 0)
        dup_over();
    if (strcmp(argv[0], "dup2file") == 0) {
        snprintf(path, sizeof(path), "%s-0.db", argv[2]);
        dup_file_over(path);
    } else {
        open_own(argv[2], 8);
    }
    record(&later, SPANS / 2);
    stop_and_say();
    return EXIT_CODE;
}

/* PATH BASE: the daemon says in BASE.done that it is at its end. */
static int daemon_child(int argc, char **argv)
{
    char path[600];

    (void)argc;
    start(argv[0]);
    record(&work, SPANS / 2);
    daemonise();
    open_own(argv[1], 8);
    record(&later, SPANS / 2);
    RIG_CHECK(opm_stop(NULL) == 0);
    snprintf(path, sizeof(path), "%s.done", argv[1]);
    RIG_CHECK(mkdir(path, 0755) == 0);
    return EXIT_CODE;
}

static void own_files_untouched(const char *base, int n)
{
    for (int i = 0; i < n; i++) {
        char path[600], text[64];
        uint8_t *bytes;
        size_t len;

        snprintf(path, sizeof(path), "%s-%d.db", base, i);
        snprintf(text, sizeof(text), "database %d", i);
        len = rig_read(path, &bytes);
        assert_int_equal(len, strlen(text));
        assert_memory_equal(bytes, text, len);
        free(bytes);
        unlink(path);
    }
}

static int rounds(void)
{
    return RIG_ASAN ? 3 : 20;
}

static void closes(const char *how, int own_files)
{
    for (int i = 0; i < rounds(); i++) {
        const char *path = rig_path("closed.opm"), *base = rig_path("closed");
        long long lost = -1;
        struct rig_result r;
        opm_trace *t;
        int rc;

        unlink(path);
        rig_run(&r, NULL, RIG_WORDS("closer", how, path, base));
        if (!WIFEXITED(r.status) || WEXITSTATUS(r.status) != EXIT_CODE)
            fail_msg("%s: status %x: %s%s", how, (unsigned)r.status, r.out, r.err);
        own_files_untouched(base, own_files);
        assert_int_equal(sscanf(r.out, "%d %lld", &rc, &lost), 2);
        t = rig_open(path);
        assert_int_equal(rig_int(t, "SELECT count(*) FROM span") + lost, SPANS);
        assert_int_equal(rig_stat(t, "spans_lost"), lost);
        /* The files can be had again by their path at the least: nothing need be lost. */
        assert_int_equal(lost, 0);
        assert_string_equal(rig_losses(t), "");
        opm_trace_close(t);
    }
}

static void close_everything(void **state)
{
    (void)state;
    closes("close", 8);
}

static void closefrom_3(void **state)
{
    (void)state;
    closes("closefrom", 8);
}

static void dup2_over_everything(void **state)
{
    (void)state;
    closes("dup2", 8);
}

static void dup2_of_a_file(void **state)
{
    (void)state;
    closes("dup2file", 1);
}

static void become_a_daemon(void **state)
{
    (void)state;
    if (RIG_ASAN)
        skip(); /* its allocator does not survive a fork beside threads */
    for (int i = 0; i < rounds(); i++) {
        char done[600], pattern[600];
        const char *path, *base;
        struct rig_result r;
        opm_trace *t;
        FILE *list;

        rig_run(&r, NULL, RIG_WORDS("daemon", rig_path("d/t.opm"), rig_path("d/own")));
        (void)r;
        base = rig_path("d/own");
        path = rig_path("d/t.opm");
        snprintf(done, sizeof(done), "%s.done", base);
        for (int k = 0; k < 6000 && !rig_exists(done); k++)
            usleep(10000);
        assert_true(rig_exists(done));
        rmdir(done);
        own_files_untouched(base, 8);
        t = rig_open(path);
        rig_expect(t, "SELECT name, count(*) FROM span GROUP BY name", "work|100000\n");
        assert_string_equal(rig_losses(t), "");
        opm_trace_close(t);
        /* The daemon's own: t-PID.opm, in the folder that it began in. */
        snprintf(pattern, sizeof(pattern), "ls %s", rig_path("d/t-*.opm"));
        list = popen(pattern, "r");
        assert_non_null(fgets(pattern, sizeof(pattern), list));
        pclose(list);
        pattern[strcspn(pattern, "\n")] = '\0';
        t = rig_open(pattern);
        rig_expect(t, "SELECT name, count(*) FROM span GROUP BY name", "later|100000\n");
        assert_string_equal(rig_losses(t), "");
        opm_trace_close(t);
        unlink(pattern);
        unlink(path);
    }
}

/* While nothing but the recording keeps them open, the program's files are closed when it closes
 * them: its pipes end. */
static int pipe_child(int argc, char **argv)
{
    int ends[2];
    char byte;

    (void)argc;
    RIG_CHECK(pipe(ends) == 0);
    start(argv[0]);
    record(&work, 10);
    close(ends[1]);
    rig_alarm(60);
    RIG_CHECK(read(ends[0], &byte, 1) == 0);
    stop_and_say();
    return EXIT_CODE;
}

static void pipes_end(void **state)
{
    struct rig_result r;

    (void)state;
    rig_run(&r, NULL, RIG_WORDS("pipe", rig_path("pipe.opm")));
    assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == EXIT_CODE);
    assert_string_equal(r.out, "0 0 ");
}

/* Every descriptor of an event of the kernel becomes the end of a pipe with something in it. */
static int take_perf(int end)
{
    int taken = 0;

    for (int fd = 3; fd < 1100; fd++) {
        char link[64], what[64];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, what, sizeof(what) - 1);
        what[n > 0 ? n : 0] = '\0';
        if (strstr(what, "perf_event")) {
            RIG_CHECK(dup2(end, fd) == fd);
            taken++;
        }
    }
    return taken;
}

static int perf_child(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_op_info info = OPM_OP_INFO_INIT;
    char bytes[512] = "";
    int ends[2], taken;
    opm_op *op;

    (void)argc;
    options.path = argv[0];
    options.counters = 1;
    RIG_CHECK(opm_start(&options, NULL) == 0);
    info.name = info.type = "conv";
    op = opm_op_define(&info);
    opm_op_end(opm_op_begin(op));
    RIG_CHECK(pipe2(ends, O_NONBLOCK) == 0);
    RIG_CHECK(write(ends[1], bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes));
    taken = take_perf(ends[0]);
    if (!taken)
        return 77;
    for (int i = 0; i < 3; i++)
        opm_op_end(opm_op_begin(op));
    RIG_CHECK(opm_stop(NULL) == 0);
    RIG_CHECK(opm_start(&options, NULL) == 0); /* has groups of its own, lets go of the old ones */
    opm_op_end(opm_op_begin(op));
    RIG_CHECK(opm_stop(NULL) == 0);
    RIG_CHECK(read(ends[0], bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes));
    for (int fd = 3; fd < 1100; fd++) { /* none of the copies was closed */
        struct stat st, own;

        if (fd != ends[0] && fstat(fd, &st) == 0 && fstat(ends[0], &own) == 0 &&
            st.st_ino == own.st_ino && fcntl(fd, F_GETFL) == fcntl(ends[0], F_GETFL))
            taken--;
    }
    RIG_CHECK(taken == 0);
    opm_op_free(op);
    return EXIT_CODE;
}

static void perf_descriptors(void **state)
{
    struct rig_result r;

    (void)state;
    rig_run(&r, NULL, RIG_WORDS("perf", rig_path("perf.opm")));
    if (WIFEXITED(r.status) && WEXITSTATUS(r.status) == 77)
        skip(); /* nothing can be counted here */
    if (!WIFEXITED(r.status) || WEXITSTATUS(r.status) != EXIT_CODE)
        fail_msg("status %x: %s%s", (unsigned)r.status, r.out, r.err);
}

/* ---- what others do to our files ---- */

static void *record_on(void *stop)
{
    while (!atomic_load((atomic_bool *)stop))
        record(&work, 1000);
    return NULL;
}

static void damage(const char *how, const char *path)
{
    char live[600], other[600];

    snprintf(live, sizeof(live), "%s-live", path);
    snprintf(other, sizeof(other), "%s.other", path);
    if (strcmp(how, "truncate live") == 0) {
        RIG_CHECK(truncate(live, 0) == 0);
    } else if (strcmp(how, "cut live") == 0) {
        RIG_CHECK(truncate(live, 100000) == 0);
    } else if (strcmp(how, "truncate") == 0) {
        RIG_CHECK(truncate(path, 0) == 0);
    } else if (strcmp(how, "delete") == 0) {
        RIG_CHECK(unlink(path) == 0);
    } else if (strcmp(how, "delete live") == 0) {
        RIG_CHECK(unlink(live) == 0);
    } else {
        int fd = open(other, O_WRONLY | O_CREAT, 0644);

        RIG_CHECK(fd >= 0 && write(fd, "mine", 4) == 4 && close(fd) == 0);
        RIG_CHECK(rename(other, path) == 0);
    }
}

/* HOW PATH: two threads record before, during and after. */
static int damaged(int argc, char **argv)
{
    atomic_bool stop = false;
    pthread_t thread[2];

    (void)argc;
    start(argv[1]);
    for (int i = 0; i < 2; i++)
        RIG_CHECK(pthread_create(&thread[i], NULL, record_on, &stop) == 0);
    usleep(20000);
    damage(argv[0], argv[1]);
    record(&later, 300000);
    usleep(100000);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    stop_and_say();
    return EXIT_CODE;
}

static void others_and_our_files(void **state)
{
    static const struct {
        const char *how, *said;
    } cases[] = {
        { "truncate live", "-live: cut short by another program while recording" },
        { "cut live", "-live: cut short by another program while recording" },
        { "truncate", ".opm: cut short by another program while recording" },
        { "delete", ".opm: deleted while recording" },
        { "replace", ".opm: deleted while recording" },
        { "delete live", NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *path = rig_path("damaged.opm");
        struct rig_result r;

        if (RIG_ASAN && strstr(cases[i].said ? cases[i].said : "", "-live"))
            continue; /* it takes SIGBUS for itself */
        unlink(path);
        unlink(rig_path("damaged.opm-live"));
        rig_run(&r, NULL, RIG_WORDS("damaged", cases[i].how, path));
        if (!WIFEXITED(r.status) || WEXITSTATUS(r.status) != EXIT_CODE)
            fail_msg("%s: status %x: %s%s", cases[i].how, (unsigned)r.status, r.out, r.err);
        if (!cases[i].said)
            assert_string_equal(r.out, "0 0 ");
        else if (!strstr(r.out, cases[i].said))
            fail_msg("%s: %s", cases[i].how, r.out);
        if (strstr(cases[i].how, "live")) {
            opm_trace *t = rig_open(path);

            assert_int_equal(rig_stat(t, "losses_unknown"), cases[i].said != NULL);
            opm_trace_close(t);
        }
        if (strcmp(cases[i].how, "replace") == 0) {
            uint8_t *bytes;

            assert_int_equal(rig_read(path, &bytes), 4);
            assert_memory_equal(bytes, "mine", 4);
            free(bytes);
        }
    }
}

/* A SIGBUS of the program's own is what it would have been. */
static int own_bus(int argc, char **argv)
{
    int fd = open(rig_path("bus"), O_RDWR | O_CREAT, 0644);
    volatile char *p;

    (void)argc;
    start(argv[0]);
    RIG_CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    RIG_CHECK(p != MAP_FAILED);
    if (strcmp(argv[1], "raise") == 0)
        raise(SIGBUS);
    else
        p[4096] = 1;
    return EXIT_CODE;
}

static void own_bus_errors(void **state)
{
    static const char *const ways[] = { "raise", "store" };

    (void)state;
    if (RIG_ASAN)
        skip(); /* it takes SIGBUS for itself */
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        struct rig_result r;

        rig_run(&r, NULL, RIG_WORDS("bus", rig_path("bus.opm"), ways[i]));
        assert_true(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGBUS);
    }
}

/* ---- what is there already ---- */

static int once(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_error err = { 0 };

    (void)argc;
    options.path = argv[0];
    if (opm_start(&options, &err) < 0) {
        printf("%s", err.msg);
        return EXIT_CODE;
    }
    record(&work, atoi(argv[1]));
    stop_and_say();
    return EXIT_CODE;
}

static int64_t spans_of(const char *path)
{
    opm_trace *t = rig_open(path);
    int64_t n = rig_int(t, "SELECT count(*) FROM span");

    opm_trace_close(t);
    return n;
}

static void nothing_foreign_is_replaced(void **state)
{
    static const char *const overwrite[] = { "OPMETER_OVERWRITE=1", NULL };
    const char *path = rig_path("foreign.opm");
    struct rig_result r;
    uint8_t *bytes;
    FILE *f;

    (void)state;
    f = fopen(path, "w");
    fputs("the only copy of a thesis", f);
    fclose(f);
    rig_run(&r, NULL, RIG_WORDS("once", path, "5"));
    assert_non_null(strstr(r.out, "foreign.opm: exists and is not a trace of opmeter"));
    assert_non_null(strstr(r.out, "OPMETER_OVERWRITE=1"));
    assert_int_equal(rig_read(path, &bytes), 25);
    assert_memory_equal(bytes, "the only copy of a thesis", 25);
    free(bytes);
    rig_run(&r, overwrite, RIG_WORDS("once", path, "5"));
    assert_string_equal(r.out, "0 0 ");
    assert_int_equal(spans_of(path), 5);
    rig_run(&r, NULL, RIG_WORDS("once", path, "7"));
    assert_string_equal(r.out, "0 0 ");
    assert_int_equal(spans_of(path), 7);
    assert_int_equal(spans_of(rig_path("foreign.opm.old")), 5);
}

/* ---- exec ---- */

/* ROUNDS SPANS: record, and become this program again, recording by the environment each time. */
static int chain(int argc, char **argv)
{
    char left[16];
    int n = atoi(argv[0]);

    (void)argc;
    record(&work, atoi(argv[1]));
    if (n > 1) {
        snprintf(left, sizeof(left), "%d", n - 1);
        execl("/proc/self/exe", "chain", "--child", "chain", left, argv[1], (char *)NULL);
        RIG_CHECK(false);
    }
    return EXIT_CODE;
}

static void exec_keeps_every_part(void **state)
{
    char output[600], name[64];
    const char *env[] = { output, NULL };
    struct rig_result r;
    int64_t all;

    (void)state;
    snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", rig_path("chain.opm"));
    rig_run(&r, env, RIG_WORDS("chain", "4", "1000"));
    assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == EXIT_CODE);
    all = spans_of(rig_path("chain.opm"));
    snprintf(name, sizeof(name), "chain-%d.opm", (int)r.pid);
    all += spans_of(rig_path(name));
    assert_non_null(strstr(r.err, name));
    for (int k = 1; k < 3; k++) {
        snprintf(name, sizeof(name), "chain-%d-%d.opm", (int)r.pid, k);
        all += spans_of(rig_path(name));
        assert_non_null(strstr(r.err, name));
    }
    assert_int_equal(all, 4000);
    assert_ptr_equal(strchr(r.err, '\n'), r.err + strlen(r.err) - 1); /* one line */
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = {
        { "closer", closer },   { "daemon", daemon_child }, { "pipe", pipe_child },
        { "damaged", damaged }, { "bus", own_bus },         { "once", once },
        { "chain", chain },     { "perf", perf_child },     { NULL, NULL },
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_everything),      cmocka_unit_test(closefrom_3),
        cmocka_unit_test(dup2_over_everything),  cmocka_unit_test(dup2_of_a_file),
        cmocka_unit_test(become_a_daemon),       cmocka_unit_test(pipes_end),
        cmocka_unit_test(perf_descriptors),      cmocka_unit_test(others_and_our_files),
        cmocka_unit_test(own_bus_errors),        cmocka_unit_test(nothing_foreign_is_replaced),
        cmocka_unit_test(exec_keeps_every_part),
    };
    int rc = rig_main_child(children, argc, argv);

    if (rc >= 0)
        return rc;
    mkdir(rig_path("d"), 0755);
    return rig_group(tests);
}
