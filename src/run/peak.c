/* peak.c -- what this machine can do at most: arithmetic on floats and on bytes, and what each
 * cache and the memory deliver.
 *
 * Measured with the number of threads that a run uses, because two hyper-threads or a shared memory
 * bus do not give twice as much; all begin a round together. A figure is the best of a few short
 * rounds: what disturbs only makes it smaller. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "run/peak_loops.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 12
#define COMPUTE_LOOPS 100000              /* a quarter of a millisecond */
#define CACHE_BYTES ((size_t)24 << 20)    /* moved in a round; as long */
#define MEMORY_BYTES ((size_t)4 << 20)    /* by each thread and round */
#define ALL_BYTES_MAX ((size_t)512 << 20) /* by all threads */
#define PAGE_BYTES ((size_t)4096)
#define PEAK_VERSION 2 /* of the cache file */
#define ENTRIES_MAX 64
#if defined(__x86_64__)
#define ARCHITECTURE "x86-64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "another"
#endif
#define WAIT_SECONDS 0.001
#define SPINS 2000 /* before a thread that waits for the others lets them run */

enum task { TASK_FP32, TASK_INT8, TASK_READ, TASK_UPDATE, TASK_MEMORY };

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

struct worker {
    pthread_t thread;
    atomic_int *go;      /* 0: wait, 1: begin, -1: there is nothing to do */
    atomic_int *arrived; /* threads at the beginning of a round, over all rounds */
    int threads;
    enum task task;
    char *memory;
    size_t bytes; /* of memory to go over */
    int passes;
    double work[ROUNDS];
    double start[ROUNDS], end[ROUNDS];
    float sink;
};

/* For the others, but not for long: one whose processor another program has comes when it can. */
static void wait_for(const atomic_int *value, int least)
{
    double until = seconds() + WAIT_SECONDS;

    for (int spins = 0; atomic_load(value) < least; spins++) {
        if (spins > SPINS && seconds() > until)
            return;
        if (spins > SPINS)
            sched_yield();
    }
}

static double perform(struct worker *w)
{
    double work = 0;

    switch (w->task) {
    case TASK_FP32:
        return peak_fp32(COMPUTE_LOOPS, &w->sink);
    case TASK_INT8:
        return peak_int8(COMPUTE_LOOPS, &w->sink);
    default:
        for (int i = 0; i < w->passes; i++)
            work += w->task == TASK_UPDATE ? peak_update(w->memory, w->bytes)
                                           : peak_read(w->memory, w->bytes, &w->sink);
        return work;
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;

    for (int spins = 0; atomic_load(w->go) == 0; spins++)
        if (spins > SPINS)
            sched_yield();
    if (atomic_load(w->go) < 0)
        return NULL;
    for (int r = 0; r < ROUNDS; r++) {
        if (w->task == TASK_MEMORY)
            peak_forget(w->memory, w->bytes);
        atomic_fetch_add(w->arrived, 1);
        wait_for(w->arrived, w->threads * (r + 1)); /* a barrier that wakes nobody up */
        w->start[r] = seconds();
        w->work[r] = perform(w);
        w->end[r] = seconds();
    }
    return NULL;
}

/* 10^9 of work per second, of each thread in its own best round: with another program on one of the
 * cores there may be no round in which all of them could run. 0 if it could not be measured. */
static double best_rate(struct worker *w, int n, enum task task)
{
    atomic_int go = 0, arrived = 0;
    double sum = 0;
    int started = 1; /* this thread is one of them */

    for (int i = 0; i < n; i++) {
        w[i].go = &go;
        w[i].arrived = &arrived;
        w[i].threads = n;
        w[i].task = task;
    }
    while (started < n && pthread_create(&w[started].thread, NULL, worker_main, &w[started]) == 0)
        started++;
    atomic_store(&go, started == n ? 1 : -1);
    worker_main(&w[0]);
    for (int i = 1; i < started; i++)
        pthread_join(w[i].thread, NULL);
    if (started < n)
        return 0;
    for (int i = 0; i < n; i++) {
        double best = 0;

        for (int r = 0; r < ROUNDS; r++)
            if (w[i].end[r] > w[i].start[r])
                best = MAX(best, w[i].work[r] / (w[i].end[r] - w[i].start[r]));
        sum += best;
    }
    return sum / 1e9;
}

/* -- caches -- */

struct level {
    size_t bytes; /* of one; 0: there is none */
    int sharers;  /* processors that share it */
};

static bool read_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(out, (int)size, f);

    if (f)
        fclose(f);
    return ok;
}

/* How many numbers "0-3,8" has. */
static int count_list(const char *s)
{
    int n = 0;

    while (*s >= '0' && *s <= '9') {
        char *end;
        long from = strtol(s, &end, 10), to = from;

        if (*end == '-')
            to = strtol(end + 1, &end, 10);
        n += to >= from && to - from < 65536 ? (int)(to - from) + 1 : 0;
        s = *end == ',' ? end + 1 : end;
    }
    return MAX(n, 1);
}

/* Data caches of the first processor. */
static void find_levels(struct level level[3])
{
    for (int i = 0; i < 8; i++) {
        static const char *const names[] = { "level", "type", "size", "shared_cpu_list" };
        char text[ARRAY_SIZE(names)][256], path[96], *unit;
        bool ok = true;
        long k, size;

        for (size_t f = 0; f < ARRAY_SIZE(names) && ok; f++) {
            snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i,
                     names[f]);
            ok = read_line(path, text[f], sizeof(text[f]));
        }
        if (!ok)
            break;
        k = strtol(text[0], NULL, 10);
        size = strtol(text[2], &unit, 10);
        size *= *unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : 1;
        if (k >= 1 && k <= 3 && text[1][0] != 'I' && size > 0)
            level[k - 1] = (struct level){ (size_t)size, count_list(text[3]) };
    }
}

/* What so many threads have of a level, one processor each. */
static size_t level_bytes(const struct level *l, int threads)
{
    int there = (int)sysconf(_SC_NPROCESSORS_CONF) / MAX(l->sharers, 1);

    return l->bytes * (size_t)MIN(threads, MAX(there, 1));
}

/* What a thread goes over to see the speed of a level: too much for the level before, and no more
 * than its part of this one. 0: there is no such amount. */
static size_t level_set(const struct level level[3], int k, int threads)
{
    size_t part = level_bytes(&level[k], threads) / (size_t)threads,
           before = k ? level_bytes(&level[k - 1], threads) / (size_t)threads : 0,
           set = k == 2 ? MIN(4 * before, part / 2) : part / 2;

    return set > before ? set : 0;
}

/* As the loops want it, and no more than all threads together may have. */
static size_t whole_pages(size_t set, int threads)
{
    return MIN(set, ALL_BYTES_MAX / (size_t)threads) / PAGE_BYTES * PAGE_BYTES;
}

static void give_memory(struct worker *w, int threads, char *memory, size_t bytes, int passes)
{
    for (int i = 0; i < threads; i++) {
        w[i].memory = memory + bytes * (size_t)i;
        w[i].bytes = bytes;
        w[i].passes = passes;
    }
}

static void measure_data(struct worker *w, int threads, struct peak *out)
{
    double *const gbytes[] = { &out->l1_gbytes, &out->l2_gbytes, &out->l3_gbytes };
    double *const bytes[] = { &out->l1_bytes, &out->l2_bytes, &out->l3_bytes };
    struct level level[3] = { { 0 } };
    size_t set[4] = { 0 }, most = 0;
    char *memory;

    find_levels(level);
    for (int k = 0; k < 3; k++) {
        if (level[k].bytes)
            set[k] = whole_pages(level_set(level, k, threads), threads);
        most = MAX(most, set[k]);
    }
    /* Where caches cannot be emptied, so much that it is in none. */
    set[3] = PEAK_FORGETS ? MEMORY_BYTES : MAX(MEMORY_BYTES, 2 * level_bytes(&level[2], threads));
    set[3] = whole_pages(set[3], threads);
    most = MAX(most, set[3]);
    memory = mem_map(most * (size_t)threads);
    if (!memory)
        return;
    memset(memory, 1, most * (size_t)threads); /* all on pages of their own */
    for (int k = 0; k < 3; k++) {
        if (!set[k])
            continue;
        give_memory(w, threads, memory, set[k], (int)MAX(CACHE_BYTES / set[k], 1u));
        *gbytes[k] = MAX(best_rate(w, threads, TASK_READ), best_rate(w, threads, TASK_UPDATE));
        *bytes[k] = *gbytes[k] > 0 ? (double)level_bytes(&level[k], threads) : 0;
    }
    give_memory(w, threads, memory, set[3], 1);
    out->memory_gbytes = best_rate(w, threads, TASK_MEMORY);
    mem_unmap(memory, most * (size_t)threads);
}

/* Each figure twice, with the others in between: what disturbs often lasts for longer than all
 * rounds of one. */
static void measure(int threads, struct peak *out)
{
    struct worker *w = mem_calloc((size_t)threads, sizeof(*w));

    for (int i = 0; w && i < 2; i++) {
        struct peak again = { 0 };

        again.fp32_gflops = best_rate(w, threads, TASK_FP32);
        again.int8_gops = best_rate(w, threads, TASK_INT8);
        measure_data(w, threads, &again);
#define X(member, key) out->member = MAX(out->member, again.member);
        PEAK_FIGURES(X)
#undef X
    }
    mem_free(w);
}

/* -- the cache: {"version":2,"cpu":"...","peaks":[{"threads":1,"peak_gflops_per_s":..,..}]} -- */

struct peak_entry {
    int64_t threads;
    struct peak peak;
};

struct cache {
    char cpu[160]; /* its name, and of what architecture this program is: one may emulate another */
    struct peak_entry entry[ENTRIES_MAX];
    size_t n;
};

static bool is_whole(const struct peak *p)
{
    return p->fp32_gflops > 0 && p->int8_gops > 0 && p->memory_gbytes > 0;
}

/* The figure that a key means, NULL if none. */
static double *figure_of(struct peak *p, const struct json_reader *r)
{
#define X(member, key)        \
    if (json_read_is(r, key)) \
        return &p->member;
    PEAK_FIGURES(X)
#undef X
    return NULL;
}

static void read_entry(struct json_reader *r, struct cache *c)
{
    struct peak_entry e = { 0 };

    while (json_read_next(r) == JSON_KEY) {
        double *figure = figure_of(&e.peak, r);
        bool threads = json_read_is(r, "threads");

        if (!figure && !threads) {
            json_read_skip(r);
            continue;
        }
        json_read_next(r);
        if (threads)
            json_read_int(r, &e.threads);
        else
            json_read_real(r, figure);
    }
    if (e.threads > 0 && is_whole(&e.peak) && c->n < ENTRIES_MAX)
        c->entry[c->n++] = e;
}

/* An unreadable cache, or one of another processor, is an empty one. */
static void cache_read(struct cache *c, const char *path)
{
    char cpu[sizeof(c->cpu)] = "", name[128];
    struct io_map map;
    struct json_reader r;
    struct buf text = { 0 };
    int64_t version = 0;

    folder_cpu_name(name, sizeof(name));
    snprintf(c->cpu, sizeof(c->cpu), "%s, " ARCHITECTURE, name);
    if (io_map(&map, path, 1 << 20, NULL) < 0)
        return;
    r = json_read_of(map.data, map.len);
    if (json_read_next(&r) == JSON_OBJECT) {
        while (json_read_next(&r) == JSON_KEY) {
            if (json_read_is(&r, "version")) {
                json_read_next(&r);
                json_read_int(&r, &version);
            } else if (json_read_is(&r, "cpu") && json_read_next(&r) == JSON_STRING) {
                json_read_text(&r, &text);
                snprintf(cpu, sizeof(cpu), "%s", buf_str(&text));
            } else if (json_read_is(&r, "peaks") && json_read_next(&r) == JSON_ARRAY) {
                while (json_read_next(&r) == JSON_OBJECT)
                    read_entry(&r, c);
            } else {
                json_read_skip(&r);
            }
        }
    }
    if (r.token != JSON_OBJECT_END || version != PEAK_VERSION || strcmp(cpu, c->cpu) != 0)
        c->n = 0;
    buf_release(&text);
    io_map_release(&map);
}

/* Failure to keep it costs a second next time, no more. */
static void cache_write(const struct cache *c, const char *path)
{
    struct json_writer w = { 0 };
    char folder[FOLDER_PATH_MAX];
    struct io_out out;

    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    if (folder_make(folder, NULL) < 0 || io_out_open(&out, path, NULL) < 0)
        return;
    w.out = &out;
    json_object(&w);
    json_key(&w, "version");
    json_i64(&w, PEAK_VERSION);
    json_key(&w, "cpu");
    json_cstr(&w, c->cpu);
    json_key(&w, "peaks");
    json_array(&w);
    for (size_t i = 0; i < c->n; i++) {
        json_newline(&w);
        json_object(&w);
        json_key(&w, "threads");
        json_i64(&w, c->entry[i].threads);
#define X(member, key) \
    json_key(&w, key); \
    json_f64(&w, c->entry[i].peak.member);
        PEAK_FIGURES(X)
#undef X
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    io_out_adds(&out, "\n");
    io_out_close(&out, true, NULL);
}

void run_peak(int threads, struct peak *out)
{
    struct cache *c = mem_calloc(1, sizeof(*c));
    char path[FOLDER_PATH_MAX];
    bool kept = c && folder_cache_path(path, sizeof(path), "peak.json");

    *out = (struct peak){ 0 };
    threads = MIN(threads, MAX((int)sysconf(_SC_NPROCESSORS_ONLN), 1)); /* more do no more */
    if (kept)
        cache_read(c, path);
    for (size_t i = 0; kept && i < c->n; i++) {
        if (c->entry[i].threads == threads) {
            *out = c->entry[i].peak;
            mem_free(c);
            return;
        }
    }
    measure(threads, out);
    if (kept && c->n < ENTRIES_MAX && is_whole(out)) {
        c->entry[c->n++] = (struct peak_entry){ threads, *out };
        cache_write(c, path);
    }
    mem_free(c);
}
