/* test_overflow.c -- more events than the writer can keep up with: wait, or drop and count. */
#include "rig.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static opm_site hot = OPM_SITE_INIT(OPM_APP, NULL, "hot");
static opm_site counter = OPM_SITE_INIT(OPM_APP, NULL, "counter");

enum { THREADS = 2 };

struct load {
    int64_t rounds;
    bool mixed;
};

static void *flat_out(void *arg)
{
    const struct load *load = arg;

    for (int64_t i = 0; i < load->rounds; i++) {
        opm_span span = opm_begin(&hot);

        if (load->mixed && i % 4 == 0) {
            opm_arg_int(span, "i", i);
            opm_counter(&counter, (double)i);
        }
        opm_end(span);
    }
    return NULL;
}

static void run_all(struct load *load)
{
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        RIG_CHECK(pthread_create(&thread[i], NULL, flat_out, load) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static long resident_kb(const char *field)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    long kb = -1;

    RIG_CHECK(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            kb = strtol(line + strlen(field) + 1, NULL, 10);
    fclose(f);
    return kb;
}

/* OPMETER_OUTPUT and OPMETER_BUFFER_MB have started it. */
static int bounded(int argc, char **argv)
{
    struct load load = { .rounds = strtol(argv[1], NULL, 10) };
    long before = resident_kb("VmRSS:");
    char live[600];
    struct stat st;

    (void)argc;
    run_all(&load);
    snprintf(live, sizeof(live), "%s-live", argv[0]);
    RIG_CHECK(stat(live, &st) == 0);
    printf("%ld %lld", resident_kb("VmHWM:") - before, (long long)st.st_size);
    return 0;
}

/* The buffer is as large as it was told to be, and no larger; the program waits. */
static void block_within_bounds(void **state)
{
    int64_t rounds = rig_rounds(1000000, 100000000);
    char output[600], n[32];
    const char *env[] = { output, "OPMETER_BUFFER_MB=1", NULL };
    long grown_kb;
    long long live_bytes;
    struct rig_result r;
    opm_trace *t;

    (void)state;
#if RIG_TSAN
    rounds /= 10;
#endif
    snprintf(output, sizeof(output), "OPMETER_OUTPUT=%s", rig_path("bounded.opm"));
    snprintf(n, sizeof(n), "%lld", (long long)rounds);
    rig_run(&r, env, RIG_WORDS("bounded", rig_path("bounded.opm"), n));
    assert_int_equal(r.status, 0);
    assert_string_equal(r.err, "");
    assert_int_equal(sscanf(r.out, "%ld %lld", &grown_kb, &live_bytes), 2);
    assert_in_range(live_bytes, 1, 1 << 20);
#if !RIG_ASAN && !RIG_TSAN
    assert_in_range(grown_kb, 0, 4 * 1024); /* with the threads, and what the writer works with */
#endif
    t = rig_open(rig_path("bounded.opm"));
    rig_expect(t, "SELECT count(DISTINCT track), min(dur) >= 0 FROM span", "2|1\n");
    assert_int_equal(rig_int(t, "SELECT count(*) FROM span"), THREADS * rounds);
    assert_string_equal(rig_losses(t), "");
    opm_trace_close(t);
}

/* Let the recorder's writer run only when nothing else wants the one processor that is left to us:
 * on a quiet machine with processors to spare it would keep up, and nothing be dropped. */
static void starve_writer(void)
{
    const struct sched_param none = { 0 };
    DIR *tasks = opendir("/proc/self/task");
    bool found = false;

    RIG_CHECK(tasks);
    for (struct dirent *e = readdir(tasks); e; e = readdir(tasks)) {
        char path[300], name[32] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        f = fopen(path, "r");
        if (!f)
            continue;
        if (fgets(name, sizeof(name), f) && strcmp(name, "opmeter-writer\n") == 0) {
            /* Not sched_setscheduler(), with which musl changes nothing and says so. */
            RIG_CHECK(syscall(SYS_sched_setscheduler, (pid_t)strtol(e->d_name, NULL, 10),
                              SCHED_IDLE, &none) == 0);
            found = true;
        }
        fclose(f);
    }
    closedir(tasks);
    RIG_CHECK(found);
}

static void stay_on_one_cpu(void)
{
    cpu_set_t all, one;
    int cpu = 0;

    RIG_CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    RIG_CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
}

/* What is dropped is counted, to the last event. */
static void drop_and_count(void **state)
{
    int64_t rounds = rig_rounds(1000000, 20000000);

    (void)state;
#if RIG_TSAN
    rounds /= 10;
#endif
    stay_on_one_cpu();
    for (int mixed = 0; mixed < 2; mixed++) {
        struct load load = { .rounds = mixed ? rounds / 4 : rounds, .mixed = mixed };
        opm_options options = OPM_OPTIONS_INIT;
        opm_recorder_stats stats;
        int64_t others = mixed ? 2 * THREADS * ((load.rounds + 3) / 4) : 0, found = 0;
        opm_trace *t;

        options.path = rig_path("drop.opm");
        options.buffer_mb = 1;
        options.overflow = OPM_OVERFLOW_DROP;
        assert_int_equal(opm_start(&options, NULL), 0);
        starve_writer();
        run_all(&load);
        rig_stop();
        opm_stats(&stats);
        t = rig_open(options.path);
        assert_int_equal(rig_int(t, "SELECT count(*) FROM span") + (int64_t)stats.lost,
                         load.rounds * THREADS);
        if (mixed)
            found = rig_int(t, "SELECT count(*) FROM sample") +
                    rig_int(t, "SELECT count(*) FROM span WHERE args IS NOT NULL") +
                    rig_stat(t, "arg_without_span");
        assert_int_equal(found + rig_stat(t, "events_lost"), others);
        assert_int_equal(rig_stat(t, "spans_lost"), stats.lost);
        assert_int_equal(rig_stat(t, "write_failed"), 0);
#if !RIG_TSAN
        assert_true(stats.lost > 0); /* or this says nothing */
#endif
        opm_trace_close(t);
    }
}

int main(int argc, char **argv)
{
    static const struct rig_child children[] = { { "bounded", bounded }, { NULL, NULL } };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_within_bounds),
        cmocka_unit_test(drop_and_count),
    };
    int rc = rig_main_child(children, argc, argv);

    return rc >= 0 ? rc : rig_group(tests);
}
