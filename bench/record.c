/* record.c -- what recording costs, against the floor: two clock reads and a 32-byte store.
 *
 * Every figure comes from rounds in which all variants take turns, so that a slow moment of the
 * machine hits all of them; the lowest quartile of the rounds is printed. "Burst" rounds fit the
 * buffer, as the spans of a program do; "flat out" keeps recording until the writer, too, needs its
 * share of the cores. Usage: bench_record [FOLDER], where a few hundred MB can be written (default
 * /tmp); bench_record --keep FILE.opm makes the ten million spans of the last part and no more. */
#include <opmeter/opmeter.h>
#include <opmeter/opmeter_trace.h>

#include "base/common.h"
#include "format/format.h"
#include "rec/clock.h"
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BURST = 40000, ROUNDS = 60, MAX_THREADS = 2, VARIANTS = 4 };

extern char **environ;
static char folder[4000] = "/tmp";

static void barrier_memory(void)
{
    __asm__ volatile("" ::: "memory");
}

/* ---- the variants: each does n spans ---- */

struct floor_record {
    uint64_t start, end, name, spare;
};

static void run_floor_tsc(struct floor_record *ring, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t start = clock_ticks();

        barrier_memory();
        uint64_t end = clock_ticks();

        ring[i & 1023] = (struct floor_record){ start, end, 7, (uint64_t)i };
        barrier_memory();
    }
}

static void run_floor_gettime(struct floor_record *ring, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t start = (uint64_t)clock_ns(CLOCK_MONOTONIC);

        barrier_memory();
        uint64_t end = (uint64_t)clock_ns(CLOCK_MONOTONIC);

        ring[i & 1023] = (struct floor_record){ start, end, 7, (uint64_t)i };
        barrier_memory();
    }
}

static void run_span(struct floor_record *ring, int n)
{
    static opm_site site = OPM_SITE_INIT(OPM_APP, NULL, "span");

    (void)ring;
    for (int i = 0; i < n; i++) {
        opm_span span = opm_begin(&site);

        barrier_memory();
        opm_end(span);
    }
}

struct variant {
    const char *name;
    void (*run)(struct floor_record *ring, int n);
    bool paused;
    double ns[MAX_THREADS + 1]; /* by number of threads */
};

static struct variant variants[VARIANTS] = {
    { "floor: two TSC reads, 32-byte store", run_floor_tsc, false, { 0 } },
    { "the same with clock_gettime", run_floor_gettime, false, { 0 } },
    { "opmeter span, recording", run_span, false, { 0 } },
    { "opmeter span, off", run_span, true, { 0 } },
};

/* ---- threads that take turns ---- */

struct crew {
    pthread_barrier_t go;
    pthread_t thread[MAX_THREADS];
    int n;
    const struct variant *variant; /* NULL: go home */
    int spans;
    double ns[MAX_THREADS];
};

struct member {
    struct crew *crew;
    int index;
};

static void *crew_main(void *arg)
{
    struct member me = *(struct member *)arg;
    static _Thread_local struct floor_record ring[1024];

    for (;;) {
        int64_t start;

        pthread_barrier_wait(&me.crew->go);
        if (!me.crew->variant)
            return NULL;
        start = clock_ns(CLOCK_MONOTONIC);
        me.crew->variant->run(ring, me.crew->spans);
        me.crew->ns[me.index] = (double)(clock_ns(CLOCK_MONOTONIC) - start) / me.crew->spans;
        pthread_barrier_wait(&me.crew->go);
    }
}

static void crew_start(struct crew *c, struct member *members, int n)
{
    c->n = n;
    pthread_barrier_init(&c->go, NULL, (unsigned)n + 1);
    for (int i = 0; i < n; i++) {
        members[i] = (struct member){ c, i };
        if (pthread_create(&c->thread[i], NULL, crew_main, &members[i]) != 0)
            exit(1);
    }
}

static double crew_run(struct crew *c, const struct variant *v, int spans)
{
    double worst = 0;

    c->variant = v;
    c->spans = spans;
    pthread_barrier_wait(&c->go);
    pthread_barrier_wait(&c->go);
    for (int i = 0; i < c->n; i++)
        worst = MAX(worst, c->ns[i]);
    return worst;
}

static void crew_stop(struct crew *c)
{
    c->variant = NULL;
    pthread_barrier_wait(&c->go);
    for (int i = 0; i < c->n; i++)
        pthread_join(c->thread[i], NULL);
    pthread_barrier_destroy(&c->go);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void start_at(const char *path)
{
    opm_options o = OPM_OPTIONS_INIT;
    opm_error err;

    o.path = path;
    if (opm_start(&o, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
}

static void start(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s.opm", folder, name);
    start_at(path);
}

static opm_recorder_stats stop(void)
{
    opm_recorder_stats stats;
    opm_error err;

    if (opm_stop(&err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    opm_stats(&stats);
    return stats;
}

static void bench_burst(int threads)
{
    static double ns[VARIANTS][ROUNDS];
    struct crew crew;
    struct member members[MAX_THREADS];
    char path[4096];

    start("bench-burst", path, sizeof(path));
    crew_start(&crew, members, threads);
    for (int round = -5; round < ROUNDS; round++) {
        for (int v = 0; v < VARIANTS; v++) {
            double got;

            if (variants[v].paused)
                opm_pause();
            got = crew_run(&crew, &variants[v], BURST);
            opm_resume();
            if (round >= 0)
                ns[v][round] = got;
            usleep(4000); /* the writer catches up */
        }
    }
    crew_stop(&crew);
    stop();
    unlink(path);
    for (int v = 0; v < VARIANTS; v++) {
        qsort(ns[v], ROUNDS, sizeof(double), by_value);
        variants[v].ns[threads] = ns[v][ROUNDS / 4];
    }
}

static void bench_flat_out(int threads)
{
    enum { SPANS = 10000000 };
    struct crew crew;
    struct member members[MAX_THREADS];
    char path[4096];
    double floor, on;
    int64_t began;
    opm_recorder_stats stats;

    start("bench-flat", path, sizeof(path));
    crew_start(&crew, members, threads);
    floor = crew_run(&crew, &variants[0], SPANS);
    began = clock_ns(CLOCK_MONOTONIC);
    on = crew_run(&crew, &variants[2], SPANS);
    floor = (floor + crew_run(&crew, &variants[0], SPANS)) / 2;
    crew_stop(&crew);
    stats = stop();
    printf("  %d thread%s  %6.1f ns a span, %.2f x the floor (%.1f); %.1f M spans/s into the file, "
           "%llu "
           "lost, %.2f bytes a span\n",
           threads, threads > 1 ? "s" : " ", on, on / floor, floor,
           (double)stats.spans / (double)(clock_ns(CLOCK_MONOTONIC) - began) * 1e3,
           (unsigned long long)stats.lost, (double)stats.bytes / (double)stats.spans);
    unlink(path);
}

/* ---- a realistic mix, and reading it back ---- */

enum { OPS = 58 };
static opm_op *ops[OPS];

static void ops_define(void)
{
    static const char *const types[] = { "Conv",   "Relu", "MatMul", "Add", "LayerNormalization",
                                         "Softmax" };

    for (int i = 0; i < OPS; i++) {
        opm_op_info info = OPM_OP_INFO_INIT;
        char name[64];

        snprintf(name, sizeof(name), "/encoder/layer.%d/op_%d", i / 6, i);
        info.name = name;
        info.type = types[i % (int)ARRAY_SIZE(types)];
        info.flops = 1000000 + i;
        info.bytes = 4000 * (i + 1);
        ops[i] = opm_op_define(&info);
    }
}

static void spin_ns(int64_t ns)
{
    int64_t end = clock_ns(CLOCK_MONOTONIC) + ns;

    while (clock_ns(CLOCK_MONOTONIC) < end)
        ;
}

/* Steps of a model: operators of 1 to 60 us (or none at all), some kernels inside, a counter. */
static void model_steps(int steps, bool busy)
{
    static opm_site kernel = OPM_SITE_INIT(OPM_RUNTIME, "kernel", "gemm_kernel");
    uint64_t seed = 42;

    for (int s = 0; s < steps; s++) {
        opm_span step = opm_step_begin("model", s, s < 2 ? OPM_WARMUP : OPM_MEASURED);

        for (int i = 0; i < OPS; i++) {
            opm_span span = opm_op_begin(ops[i]);

            if (busy) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                spin_ns((int64_t)(1000 * (1 + i % 7 * 9) + (seed >> 33) % 500));
            }
            if (i % 3 == 0)
                opm_end(opm_begin(&kernel));
            opm_op_end(span);
        }
        OPM_COUNTER("rss", s);
        opm_step_end(step);
    }
}

static void bench_mix(void)
{
    opm_recorder_stats stats;
    char path[4096];

    start("bench-mix", path, sizeof(path));
    ops_define();
    model_steps(600, true);
    stats = stop();
    printf("bytes per span on disk, model run of %llu spans: %.2f\n",
           (unsigned long long)stats.spans, (double)stats.bytes / (double)stats.spans);
    unlink(path);
}

static void *mix_thread(void *unused)
{
    (void)unused;
    model_steps(64000, false);
    return NULL;
}

/* Seconds for the opmeter command to answer, in a process of its own. */
static double answer(const char *tool, const char *path, const char *sql)
{
    char *argv[] = {
        strdup(tool), strdup("query"), strdup("--csv"), strdup(path), strdup(sql), NULL
    };
    int64_t began = clock_ns(CLOCK_MONOTONIC);
    posix_spawn_file_actions_t quiet;
    int status = 1;
    pid_t pid;

    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
    if (posix_spawn(&pid, tool, &quiet, NULL, argv, environ) == 0)
        waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&quiet);
    for (size_t i = 0; i < ARRAY_SIZE(argv); i++)
        free(argv[i]);
    return status ? -1 : (double)(clock_ns(CLOCK_MONOTONIC) - began) / 1e9;
}

/* Ten million spans of two threads, in a file that is given, or else has its name written to path.
 */
static opm_recorder_stats record_many(const char *given, char *path, size_t size)
{
    pthread_t thread;

    if (given)
        start_at(given);
    else
        start("bench-open", path, size);
    if (!ops[0])
        ops_define();
    if (pthread_create(&thread, NULL, mix_thread, NULL) != 0)
        exit(1);
    model_steps(64000, false);
    pthread_join(thread, NULL);
    return stop();
}

static void bench_open(const char *self)
{
    static const char *const queries[] = {
        "SELECT count(*) FROM span",
        "SELECT * FROM op_stats",
        "SELECT name, count(*), sum(dur) FROM span GROUP BY name",
        "SELECT cat, count(*), sum(dur) FROM span GROUP BY cat",
        "SELECT layer, sum(self) FROM span GROUP BY layer",
    };
    char path[4096], tool[4096];
    opm_recorder_stats stats;
    const char *slash = strrchr(self, '/');

    snprintf(tool, sizeof(tool), "%.*s/../opmeter", slash ? (int)(slash - self) : 1,
             slash ? self : ".");
    stats = record_many(NULL, path, sizeof(path));
    printf("opening %.1f M spans of two threads (%.0f MB), each answer by a new process:\n",
           (double)stats.spans / 1e6, (double)stats.bytes / 1e6);
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        double best = 1e9;

        for (int k = 0; k < 3; k++)
            best = MIN(best, answer(tool, path, queries[i]));
        printf("  %6.3f s  %s\n", best, queries[i]);
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--keep") == 0) {
        record_many(argv[2], NULL, 0);
        return 0;
    }
    if (argc > 1)
        snprintf(folder, sizeof(folder), "%s", argv[1]);
    opm__clock_init();
    for (int threads = 1; threads <= MAX_THREADS; threads++)
        bench_burst(threads);
    printf("one span (begin and end), lowest quartile of %d rounds, bursts of %d:\n", ROUNDS,
           BURST);
    printf("  %-40s %10s %8s %10s %8s\n", "", "1 thread", "ratio", "2 threads", "ratio");
    for (int v = 0; v < VARIANTS; v++)
        printf("  %-40s %7.2f ns %8.3f %7.2f ns %8.3f\n", variants[v].name, variants[v].ns[1],
               variants[v].ns[1] / variants[0].ns[1], variants[v].ns[2],
               variants[v].ns[2] / variants[0].ns[2]);
    printf("flat out, the writer sharing the cores:\n");
    for (int threads = 1; threads <= MAX_THREADS; threads++)
        bench_flat_out(threads);
    bench_mix();
    bench_open(argv[0]);
    return 0;
}
