/* test_disk.c -- disks that fill up, limits on file sizes, paths that cannot be written: the
 * program goes on, what was lost is counted and said, and the file so far can be read. */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static opm_site work = OPM_SITE_INIT(OPM_APP, NULL, "work");

enum { EXIT_CODE = 42 }; /* what a child exits with that nothing has disturbed */

/* ---- children ---- */

static void *record_spans(void *arg)
{
    for (int64_t n = *(const int64_t *)arg; n > 0; n--)
        opm_end(opm_begin(&work));
    return NULL;
}

/* Definitions cannot be written either, and there is no end of them. */
static void *record_names(void *arg)
{
    char name[64];

    for (int64_t n = *(const int64_t *)arg; n > 0; n--) {
        int len = snprintf(name, sizeof(name), "name %lld of %p", (long long)n, (void *)&name);

        opm_end(opm_begin_named(OPM_APP, NULL, name, (size_t)len));
    }
    return NULL;
}

static pthread_barrier_t full, done;

/* Fill the pool with definitions, then do nothing. */
static void *hoard(void *unused)
{
    int64_t n = 60000;

    (void)unused;
    record_names(&n);
    pthread_barrier_wait(&full);
    pthread_barrier_wait(&done);
    return NULL;
}

/* One thread sits on a span, one has left nothing but definitions in the buffers; neither goes on
 * before the third is done, which must not wait for them. */
static int64_t record_beside_idlers(void)
{
    int64_t n = 400000;
    pthread_t idler;
    opm_span span = opm_begin(&work);

    rig_alarm(60);
    pthread_barrier_init(&full, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    RIG_CHECK(pthread_create(&idler, NULL, hoard, NULL) == 0);
    record_spans(&n);
    pthread_barrier_wait(&full);
    record_spans(&n);
    pthread_barrier_wait(&done);
    pthread_join(idler, NULL);
    opm_end(span);
    return 2 * n + 60001;
}

static int64_t record(const char *what)
{
    enum { THREADS = 2 };
    bool names = strcmp(what, "names") == 0;

    if (strcmp(what, "idlers") == 0)
        return record_beside_idlers();
    /* Regular spans pack to little more than a byte: "many" never fit on a small disk. */
    int64_t n = names ? 60000 : strcmp(what, "many") == 0 ? 1600000 : 400000;
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        RIG_CHECK(pthread_create(&thread[i], NULL, names ? record_names : record_spans, &n) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return n * THREADS;
}

/* PATH BUFFER_MB spans|many|names|idlers: say what came of it. */
static int by_api(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    opm_recorder_stats stats;
    opm_error err = { 0 };
    int64_t attempted;
    int started, stopped;

    (void)argc;
    options.path = argv[0];
    options.buffer_mb = (uint32_t)atoi(argv[1]);
    started = opm_start(&options, &err);
    if (started < 0) {
        printf("not started %d: %s", started, err.msg);
        RIG_CHECK(!opm_on(OPM_APP));
        record(argv[2]);
        return EXIT_CODE;
    }
    attempted = record(argv[2]);
    stopped = opm_stop(&err);
    opm_stats(&stats);
    printf("%lld %lld %d %d %s", (long long)attempted, (long long)stats.lost, stats.write_errno,
           stopped, stopped ? err.msg : "");
    return EXIT_CODE;
}

/* What could not be written is there. */
static void copy_live(const char *file, const char *to)
{
    char from_live[100], to_live[600];

    snprintf(from_live, sizeof(from_live), "%s-live", file);
    snprintf(to_live, sizeof(to_live), "%s-live", to);
    unlink(to_live);
    if (rig_exists(from_live))
        rig_copy(from_live, to_live);
}

/* An emulator may take any advice about memory, even such as no system knows, and do nothing: room
 * that was asked for before it is stored to is not there then. */
static bool advice_is_heard(void)
{
    enum { NOBODY_KNOWS = 9999 };
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool heard;

    RIG_CHECK(p != MAP_FAILED);
    heard = madvise(p, size, NOBODY_KNOWS) < 0;
    munmap(p, size);
    return heard;
}

/* The same in a file system of its own of so many bytes; the file is saved from there. */
static int on_small_disk(int argc, char **argv)
{
    char file[80], where[64], options[64], *record_argv[] = { file, argv[2], argv[3] };
    int rc;

    (void)argc;
    if (!advice_is_heard())
        return 77;
    snprintf(where, sizeof(where), "/tmp/opmeter-disk-XXXXXX");
    snprintf(options, sizeof(options), "size=%s", argv[1]);
    if (!mkdtemp(where))
        return 1;
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", where, "tmpfs", 0, options) < 0) {
        rmdir(where);
        return 77;
    }
    snprintf(file, sizeof(file), "%s/t.opm", where);
    rc = by_api(3, record_argv);
    if (rig_exists(file))
        rig_copy(file, argv[0]);
    copy_live(file, argv[0]);
    RIG_CHECK(umount(where) == 0); /* nothing holds on to it */
    rmdir(where);
    return rc;
}

static int limited(int argc, char **argv)
{
    struct rlimit limit = { strtoul(argv[0], NULL, 10), RLIM_INFINITY };

    if (limit.rlim_cur < 300) {
        int null = open("/dev/null", O_RDWR);

        RIG_CHECK(dup2(null, STDOUT_FILENO) >= 0); /* what we print would be too long, too */
    }
    RIG_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    return by_api(argc - 1, argv + 1);
}

/* PATH: once it records nothing can be written any more, not even how much is lost. */
static int shut(int argc, char **argv)
{
    opm_options options = OPM_OPTIONS_INIT;
    struct rlimit before, none;
    int64_t attempted;

    (void)argc;
    options.path = argv[0];
    options.buffer_mb = 1;
    RIG_CHECK(opm_start(&options, NULL) == 0);
    RIG_CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    RIG_CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    attempted = record("spans");
    RIG_CHECK(opm_stop(NULL) < 0);
    RIG_CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    printf("%lld", (long long)attempted);
    return EXIT_CODE;
}

static int unprivileged(int argc, char **argv)
{
    RIG_CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    return by_api(argc, argv);
}

/* Recording is the environment's business. */
static int by_environment(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    record("spans");
    printf("the program's own output\n");
    return EXIT_CODE;
}

/* ---- what must hold ---- */

static void exited_as_ever(const struct rig_result *r)
{
    if (!WIFEXITED(r->status) || WEXITSTATUS(r->status) != EXIT_CODE)
        fail_msg("status %x: %s%s", (unsigned)r->status, r->out, r->err);
}

struct outcome {
    int64_t attempted, lost;
    int write_errno, stopped;
    char message[400];
};

static bool outcome_of(const struct rig_result *r, struct outcome *o)
{
    long long attempted, lost;

    memset(o, 0, sizeof(*o));
    exited_as_ever(r);
    assert_string_equal(r->err, "");
    if (sscanf(r->out, "%lld %lld %d %d %399[^\n]", &attempted, &lost, &o->write_errno, &o->stopped,
               o->message) < 4)
        return false;
    o->attempted = attempted;
    o->lost = lost;
    return true;
}

static const char *live_of(const char *path)
{
    static char live[600];

    snprintf(live, sizeof(live), "%s-live", path);
    return live;
}

/* Of what was attempted, each span is in one of the files or was counted. */
static int64_t all_accounted_for(const char *path, const struct outcome *o)
{
    opm_trace *t = rig_open(path);
    int64_t kept = rig_int(t, "SELECT count(*) FROM span");

    assert_int_equal(kept + o->lost, o->attempted);
    assert_int_equal(rig_stat(t, "spans_lost") + rig_stat(t, "threads_lost"), o->lost);
    assert_int_equal(rig_stat(t, "write_failed"), o->write_errno != 0);
    assert_int_equal(rig_stat(t, "chunk_corrupt"), 0);
    opm_trace_close(t);
    return kept;
}

static void failure_is_told(const char *path, const struct outcome *o, int error)
{
    char count[64];

    assert_int_equal(o->write_errno, error);
    assert_int_equal(o->stopped, OPM_EIO);
    snprintf(count, sizeof(count), "%lld spans lost", (long long)o->lost);
    assert_non_null(strstr(o->message, path));
    assert_non_null(strstr(o->message, strerror(error)));
    assert_non_null(strstr(o->message, count));
}

/* ---- full disks ---- */

static void small_disk(void **state)
{
    static const struct {
        const char *bytes, *buffer_mb;
        bool starts;
    } cases[] = {
        { "4096", "8", false }, { "65536", "8", false }, { "524288", "8", false },
        { "700k", "8", true },  { "1m", "8", true },     { "1100k", "1", true },
        { "2000k", "2", true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *path = rig_path("small.opm");
        struct rig_result r;
        struct outcome o;

        unlink(path);
        rig_run(&r, NULL, RIG_WORDS("disk", path, cases[i].bytes, cases[i].buffer_mb, "many"));
        if (WIFEXITED(r.status) && WEXITSTATUS(r.status) == 77)
            skip();
        if (!outcome_of(&r, &o)) {
            assert_false(cases[i].starts);
            assert_non_null(strstr(r.out, "not started -3: "));
            assert_false(rig_exists(path));
            continue;
        }
        assert_true(cases[i].starts);
        assert_true(o.lost > 0);
        assert_true(all_accounted_for(path, &o) > 0);
        failure_is_told("/t.opm", &o, ENOSPC);
        assert_true(rig_exists(live_of(path)));
    }
}

/* New names without end: no room for definitions either, and yet nobody waits. */
static void names_on_small_disk(void **state)
{
    struct rig_result r;
    struct outcome o;

    (void)state;
    rig_run(&r, NULL, RIG_WORDS("disk", rig_path("names.opm"), "1200k", "1", "names"));
    if (WIFEXITED(r.status) && WEXITSTATUS(r.status) == 77)
        skip();
    assert_true(outcome_of(&r, &o));
    assert_int_equal(o.write_errno, ENOSPC);
    assert_true(o.lost > 0);
    all_accounted_for(rig_path("names.opm"), &o);
}

/* ---- limits ---- */

static void file_size_limit(void **state)
{
    static const struct {
        const char *limit;
        bool starts;
    } cases[] = {
        { "0", false },     { "100", false },    { "300", false },
        { "5000", false },  { "100000", false }, { "160000", true },
        { "300000", true }, { "1000000", true }, { "1200000", true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *path = rig_path("limited.opm");
        struct rig_result r;
        struct outcome o;

        unlink(path);
        unlink(live_of(path));
        rig_run(&r, NULL, RIG_WORDS("limited", cases[i].limit, path, "1", "spans"));
        if (atoi(cases[i].limit) < 300) {
            exited_as_ever(&r);
            assert_false(rig_exists(path));
            continue;
        }
        if (!outcome_of(&r, &o)) {
            assert_false(cases[i].starts);
            assert_non_null(strstr(r.out, "not started -3: "));
            assert_false(rig_exists(path));
            assert_false(rig_exists(rig_path("limited.opm-live")));
            continue;
        }
        assert_true(cases[i].starts);
        all_accounted_for(path, &o);
        if (o.write_errno)
            failure_is_told(path, &o, EFBIG);
        assert_int_equal(rig_exists(rig_path("limited.opm-live")), o.write_errno != 0);
    }
}

/* The status of the file is as it was at the start; the live file has the counts. */
static void nothing_can_be_written(void **state)
{
    const char *path = rig_path("shut.opm");
    struct rig_result r;
    opm_trace *t;

    (void)state;
    rig_run(&r, NULL, RIG_WORDS("shut", path));
    exited_as_ever(&r);
    t = rig_open(path);
    assert_in_range(rig_stat(t, "spans_lost"), 1, 800000);
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span") + rig_stat(t, "spans_lost"),
                     atoll(r.out));
    opm_trace_close(t);
}

static void names_beyond_limit(void **state)
{
    struct rig_result r;
    struct outcome o;

    (void)state;
    rig_run(&r, NULL, RIG_WORDS("limited", "400000", rig_path("limited2.opm"), "1", "names"));
    assert_true(outcome_of(&r, &o));
    assert_int_equal(o.write_errno, EFBIG);
    all_accounted_for(rig_path("limited2.opm"), &o);
}

static void nobody_waits_for_the_disk(void **state)
{
    struct rig_result r;
    struct outcome o;

    (void)state;
    rig_run(&r, NULL, RIG_WORDS("limited", "300000", rig_path("limited3.opm"), "1", "idlers"));
    assert_true(outcome_of(&r, &o));
    assert_int_equal(o.write_errno, EFBIG);
    all_accounted_for(rig_path("limited3.opm"), &o);
}

/* ---- bad paths ---- */

static void bad_paths(void **state)
{
    static const struct {
        const char *name, *complaint;
    } cases[] = {
        { "missing/t.opm", "No such file or directory" },
        { "folder.opm", "a folder; it must be a file to record to" },
        { "locked/t.opm", "Permission denied" },
        { "fifo.opm", "exists and is not a regular file" },
    };
    struct rig_result r;

    (void)state;
    assert_int_equal(mkdir(rig_path("folder.opm"), 0755), 0);
    assert_int_equal(mkdir(rig_path("locked"), 0555), 0);
    assert_int_equal(mkfifo(rig_path("fifo.opm"), 0644), 0);
    assert_int_equal(chmod(rig_path(""), 0755), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *path = rig_path(cases[i].name);
        char output[600];
        const char *env[] = { output, NULL };
        struct outcome o;

        rig_run(&r, NULL, RIG_WORDS("unprivileged", path, "1", "spans"));
        assert_false(outcome_of(&r, &o));
        assert_non_null(strstr(r.out, path));
        assert_non_null(strstr(r.out, cases[i].complaint));
        assert_null(strchr(r.out, '\n'));

        if (geteuid() == 0 && strstr(path, "locked"))
            continue; /* as root, nothing is */
        snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", path);
        rig_run(&r, env, RIG_WORDS("environment"));
        exited_as_ever(&r);
        assert_string_equal(r.out, "the program's own output\n");
        assert_int_equal(strncmp(r.err, "opmeter: ", 9), 0);
        assert_non_null(strstr(r.err, path));
        assert_non_null(strstr(r.err, cases[i].complaint));
        assert_ptr_equal(strchr(r.err, '\n'), r.err + strlen(r.err) - 1); /* one line */
    }
    assert_int_equal(rmdir(rig_path("folder.opm")), 0); /* still there, still empty */
}

static void environment_works(void **state)
{
    char output[600];
    const char *env[] = { output, "OPMETER_BUFFER_MB=2", NULL };
    struct rig_result r;
    opm_trace *t;

    (void)state;
    snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", rig_path("env-%p.opm"));
    rig_run(&r, env, RIG_WORDS("environment"));
    exited_as_ever(&r);
    assert_string_equal(r.out, "the program's own output\n");
    assert_string_equal(r.err, "");
    snprintf(output, sizeof(output), "env-%d.opm", (int)r.pid);
    t = rig_open(rig_path(output));
    rig_expect(t, "SELECT name, count(*) FROM span GROUP BY name", "work|800000\n");
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);

    env[0] = "OPMETER_OUTPUT=";
    rig_run(&r, env, RIG_WORDS("environment"));
    exited_as_ever(&r);
    assert_string_equal(r.err, "");
}

static void environment_and_limit(void **state)
{
    struct rlimit unlimited, limit;
    char output[600];
    const char *env[] = { output, NULL };
    struct rig_result r;
    opm_trace *t;

    (void)state;
    snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", rig_path("env.opm"));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    limit = unlimited;
    limit.rlim_cur = 400000; /* spans as regular as on a calm machine take less than a byte */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    rig_run(&r, env, RIG_WORDS("environment"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    exited_as_ever(&r);
    assert_string_equal(r.out, "the program's own output\n");
    assert_int_equal(strncmp(r.err, "opmeter: ", 9), 0);
    assert_non_null(strstr(r.err, "spans lost"));
    assert_ptr_equal(strchr(r.err, '\n'), r.err + strlen(r.err) - 1);
    t = rig_open(rig_path("env.opm"));
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span") + rig_stat(t, "spans_lost"), 800000);
    assert_int_equal(rig_stat(t, "write_failed"), 1);
    opm_trace_close(t);
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { "disk", on_small_disk },
                                                 { "limited", limited },
                                                 { "shut", shut },
                                                 { "unprivileged", unprivileged },
                                                 { "environment", by_environment },
                                                 { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_disk),
        cmocka_unit_test(names_on_small_disk),
        cmocka_unit_test(file_size_limit),
        cmocka_unit_test(nothing_can_be_written),
        cmocka_unit_test(names_beyond_limit),
        cmocka_unit_test(nobody_waits_for_the_disk),
        cmocka_unit_test(bad_paths),
        cmocka_unit_test(environment_works),
        cmocka_unit_test(environment_and_limit),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
