/* peak.c -- what this machine can do at most: fp32 multiply-adds and reading memory.
 *
 * Measured with the number of threads that a run uses, because two hyper-threads or a shared memory
 * bus do not give twice as much. A figure is the best of a few short rounds: what disturbs only
 * makes it smaller. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/json_write.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ROUNDS 5
#define FMA_LOOPS 400000                   /* about 15 ms */
#define READ_BYTES ((size_t)64 << 20)      /* by each thread and round; beyond any cache it owns */
#define READ_BYTES_MAX ((size_t)512 << 20) /* by all threads */
#define PEAK_VERSION 1                     /* of the cache file */
#define ENTRIES_MAX 64

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Each gives the FLOPs it did; the sum keeps the compiler from leaving them out. */
#define CHAINS 12

static double fma_plain(long loops, float *sink)
{
    float a[CHAINS * 4];

    for (int k = 0; k < CHAINS * 4; k++)
        a[k] = (float)k;
    for (long i = 0; i < loops; i++)
        for (int k = 0; k < CHAINS * 4; k++)
            a[k] = a[k] * 0.999f + 0.001f;
    for (int k = 0; k < CHAINS * 4; k++)
        *sink += a[k];
    return (double)loops * CHAINS * 4 * 2;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double fma_avx2(long loops, float *sink)
{
    __m256 a[CHAINS], m = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(0.001f);
    float out[8];

    for (int k = 0; k < CHAINS; k++)
        a[k] = _mm256_set1_ps((float)k);
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            a[k] = _mm256_fmadd_ps(a[k], m, c);
    }
    for (int k = 0; k < CHAINS; k++) {
        _mm256_storeu_ps(out, a[k]);
        *sink += out[0];
    }
    return (double)loops * CHAINS * 8 * 2;
}

__attribute__((target("avx512f"))) static double fma_avx512(long loops, float *sink)
{
    __m512 a[CHAINS], m = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(0.001f);
    float out[16];

    for (int k = 0; k < CHAINS; k++)
        a[k] = _mm512_set1_ps((float)k);
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            a[k] = _mm512_fmadd_ps(a[k], m, c);
    }
    for (int k = 0; k < CHAINS; k++) {
        _mm512_storeu_ps(out, a[k]);
        *sink += out[0];
    }
    return (double)loops * CHAINS * 16 * 2;
}
#endif

static double do_fma(long loops, float *sink)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return fma_avx512(loops, sink);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return fma_avx2(loops, sink);
#endif
    return fma_plain(loops, sink);
}

static double do_read(const uint64_t *p, size_t n, float *sink)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;

    for (size_t i = 0; i + 32 <= n; i += 32) { /* four cache lines at a time */
        for (size_t k = 0; k < 8; k++) {
            a += p[i + k];
            b ^= p[i + 8 + k];
            c += p[i + 16 + k];
            d ^= p[i + 24 + k];
        }
    }
    *sink += (float)((a ^ b ^ c ^ d) & 1);
    return (double)n * 8;
}

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    const atomic_int *go; /* 0: wait, 1: begin, -1: there is nothing to do */
    uint64_t *memory;     /* NULL: compute */
    size_t words;
    double work[ROUNDS];
    double start[ROUNDS], end[ROUNDS];
    float sink;
};

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    int go;

    for (;;) {
        go = atomic_load(w->go);
        if (go != 0)
            break;
        sched_yield();
    }
    if (go < 0)
        return NULL;
    for (int r = 0; r < ROUNDS; r++) {
        pthread_barrier_wait(w->barrier);
        w->start[r] = seconds();
        w->work[r] =
            w->memory ? do_read(w->memory, w->words, &w->sink) : do_fma(FMA_LOOPS, &w->sink);
        w->end[r] = seconds();
    }
    return NULL;
}

/* Work per second of all threads together, in the best round; 0 if it could not be measured. */
static double best_rate(struct worker *w, int n)
{
    pthread_barrier_t barrier;
    atomic_int go = 0;
    double best = 0;
    int started = 1; /* this thread is one of them */

    if (pthread_barrier_init(&barrier, NULL, (unsigned)n))
        return 0;
    for (int i = 0; i < n; i++) {
        w[i].barrier = &barrier;
        w[i].go = &go;
    }
    while (started < n && pthread_create(&w[started].thread, NULL, worker_main, &w[started]) == 0)
        started++;
    atomic_store(&go, started == n ? 1 : -1);
    worker_main(&w[0]);
    for (int i = 1; i < started; i++)
        pthread_join(w[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    if (started < n)
        return 0;
    for (int r = 0; r < ROUNDS; r++) {
        double work = 0, first = w[0].start[r], last = w[0].end[r];

        for (int i = 0; i < n; i++) {
            work += w[i].work[r];
            first = MIN(first, w[i].start[r]);
            last = MAX(last, w[i].end[r]);
        }
        if (last > first)
            best = MAX(best, work / (last - first));
    }
    return best;
}

static void measure(int threads, struct run_peak *out)
{
    struct worker *w = mem_calloc((size_t)threads, sizeof(*w));
    size_t each = MIN(READ_BYTES, READ_BYTES_MAX / (size_t)threads);
    char *memory = mem_map(each * (size_t)threads);

    if (w)
        out->gflops = best_rate(w, threads) / 1e9;
    if (w && memory) {
        memset(memory, 1, each * (size_t)threads); /* all on pages of their own */
        for (int i = 0; i < threads; i++) {
            w[i].memory = (uint64_t *)(void *)(memory + each * (size_t)i);
            w[i].words = each / 8;
        }
        out->gbytes = best_rate(w, threads) / 1e9;
    }
    if (memory)
        mem_unmap(memory, each * (size_t)threads);
    mem_free(w);
    out->measured_now = true;
}

/* -- the cache: {"version":1,"cpu":"...","peaks":[{"threads":1,"gflops":..,"gbytes":..}]} -- */

struct peak_entry {
    int64_t threads;
    double gflops, gbytes;
};

struct cache {
    char cpu[128];
    struct peak_entry entry[ENTRIES_MAX];
    size_t n;
};

static void read_entry(struct json_reader *r, struct cache *c)
{
    struct peak_entry e = { 0 };

    while (json_read_next(r) == JSON_KEY) {
        bool threads = json_read_is(r, "threads"), gflops = json_read_is(r, "gflops");

        json_read_next(r);
        if (threads)
            json_read_int(r, &e.threads);
        else
            json_read_real(r, gflops ? &e.gflops : &e.gbytes);
    }
    if (e.threads > 0 && e.gflops > 0 && e.gbytes > 0 && c->n < ENTRIES_MAX)
        c->entry[c->n++] = e;
}

/* An unreadable cache, or one of another processor, is an empty one. */
static void cache_read(struct cache *c, const char *path)
{
    char cpu[sizeof(c->cpu)] = "";
    struct io_map map;
    struct json_reader r;
    struct buf text = { 0 };
    int64_t version = 0;

    folder_cpu_name(c->cpu, sizeof(c->cpu));
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
        json_key(&w, "gflops");
        json_f64(&w, c->entry[i].gflops);
        json_key(&w, "gbytes");
        json_f64(&w, c->entry[i].gbytes);
        json_object_end(&w);
    }
    json_array_end(&w);
    json_object_end(&w);
    io_out_adds(&out, "\n");
    io_out_close(&out, true, NULL);
}

void run_peak(int threads, struct run_peak *out)
{
    struct cache *c = mem_calloc(1, sizeof(*c));
    char path[FOLDER_PATH_MAX];
    bool kept = c && folder_cache_path(path, sizeof(path), "peak.json");

    *out = (struct run_peak){ 0 };
    if (kept)
        cache_read(c, path);
    for (size_t i = 0; kept && i < c->n; i++) {
        if (c->entry[i].threads == threads) {
            out->gflops = c->entry[i].gflops;
            out->gbytes = c->entry[i].gbytes;
            mem_free(c);
            return;
        }
    }
    measure(threads, out);
    if (kept && c->n < ENTRIES_MAX && out->gflops > 0 && out->gbytes > 0) {
        c->entry[c->n++] = (struct peak_entry){ threads, out->gflops, out->gbytes };
        cache_write(c, path);
    }
    mem_free(c);
}
