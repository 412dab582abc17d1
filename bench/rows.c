/* rows.c -- how fast weights that no cache holds are read: by a loop that does nothing else, by the
 * native engine and by ONNX Runtime, taking turns in one process.
 *
 *   bench_rows THREADS MILLISECONDS BYTES MODEL [--input X]...
 *
 * Turns go on for so long: a pass over memory of BYTES by so many threads, then an iteration of
 * either engine, so that what disturbs the machine disturbs all, and each finds the caches full of
 * the others' bytes. A turn begins when the threads of the last one sleep. Prints
 * one line of JSON: of each the nanoseconds of the fastest turn and of the first quartile, the
 * turns, and by how much outputs differ, as a share of the greatest number. With an engine that
 * cannot run the model, its figures are 0 and "why" says why. */
#include "base/alloc.h"
#include "base/json_write.h"
#include "engine/native/thread/pool.h"
#include "graph/tensor.h"
#include "run/peak_loops.h"
#include "run/runner.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIST_MAX 8
#define TURNS_MAX 10000
#define PIECE_BYTES ((int64_t)64 << 10)
#define REST_US 1000
#define RESTS_MAX 500

enum { READ, NATIVE, ORT, NSIDE };

static const char *const names[NSIDE] = { "read", "native", "onnxruntime" };

struct side {
    struct run_options opt;
    struct run_result res;
    struct runner r;
    opm_error err;
    bool runs;
    double ns[TURNS_MAX];
};

static struct side side[NSIDE];
static size_t turns;
static char *memory;
static float sink[POOL_THREADS_MAX * 16]; /* a line for each thread */

static void read_part(void *arg, int64_t begin, int64_t end, int thread)
{
    (void)arg;
    peak_read(memory + begin * PIECE_BYTES, (size_t)((end - begin) * PIECE_BYTES),
              &sink[thread * 16]);
}

/* Threads of this process that run or want to. What they have spent would tell only with the next
 * tick of the clock of the core that they spin on. */
static int running(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[sizeof(e->d_name) + 32], line[512], *end;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/stat", e->d_name);
        f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        end = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
        n += end && strncmp(end, ") R", 3) == 0;
        if (f)
            fclose(f);
    }
    if (dir)
        closedir(dir);
    return n;
}

/* Until the threads that spin, in case there is more to do, sleep. */
static void rest(void)
{
    for (int i = 0; i < RESTS_MAX && running() > 1; i++)
        usleep(REST_US);
}

static void open_side(struct side *s, const char *engine)
{
    int64_t ns;

    s->opt.engine = engine;
    s->r = (struct runner){ .opt = &s->opt, .res = &s->res };
    s->runs = runner_open(&s->r, &s->err) == 0 && runner_feed(&s->r, NULL, 0, &s->err) == 0 &&
              runner_prepare(&s->r, &s->err) == 0 &&
              runner_iterate(&s->r, false, 0, OPM_MEASURED, &ns, &s->err) == 0;
}

static void take_turns(struct pool *pool, int64_t pieces, int64_t until)
{
    while (turns < TURNS_MAX && (turns < 3 || runner_now_ns() < until)) {
        for (int k = 0; k < NSIDE; k++) {
            int64_t ns = 0;

            if (!side[k].runs)
                continue;
            rest();
            if (k == READ) {
                int64_t start = runner_now_ns();

                pool_for(pool, pieces, 1, read_part, NULL);
                ns = runner_now_ns() - start;
            } else if (runner_iterate(&side[k].r, false, (int64_t)turns, OPM_MEASURED, &ns,
                                      &side[k].err)) {
                side[k].runs = false;
            }
            side[k].ns[turns] = (double)ns;
        }
        turns++;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The greatest difference between two engines' floats, as a share of the greatest number. */
static double difference(void)
{
    const struct engine_tensor *a = &side[NATIVE].r.out[0], *b = &side[ORT].r.out[0];
    struct tensor x = { .type = a->type, .shape = a->shape, .data = a->data, .bytes = a->bytes },
                  y = { .type = b->type, .shape = b->shape, .data = b->data, .bytes = b->bytes };
    double most = 1e-30, apart = 0;

    if (x.bytes != y.bytes || x.type != y.type)
        return 1e30;
    x.count = y.count = shape_count(&x.shape);
    for (int64_t i = 0; i < x.count; i++) {
        most = MAX(most, fabs(tensor_float(&y, i)));
        apart = MAX(apart, fabs(tensor_float(&x, i) - tensor_float(&y, i)));
    }
    return apart / most;
}

static void write_figures(struct json_writer *w)
{
    json_object(w);
    for (int k = 0; k < NSIDE; k++) {
        qsort(side[k].ns, turns, sizeof(double), by_value);
        json_key(w, names[k]);
        json_array(w);
        json_f64(w, side[k].runs ? side[k].ns[0] : 0);
        json_f64(w, side[k].runs ? side[k].ns[turns / 4] : 0);
        json_array_end(w);
    }
    json_key(w, "turns");
    json_u64(w, turns);
    json_key(w, "version");
    json_cstr(w, side[ORT].res.version);
    json_key(w, "difference");
    json_f64(w, side[NATIVE].runs && side[ORT].runs ? difference() : 0);
    json_key(w, "why");
    json_cstr(w, !side[NATIVE].runs ? side[NATIVE].err.msg
                 : !side[ORT].runs  ? side[ORT].err.msg
                                    : "");
    json_object_end(w);
}

int main(int argc, char **argv)
{
    static const char *input[LIST_MAX];
    struct buf line = { 0 };
    struct json_writer w = { .buf = &line };
    struct pool *pool = NULL;
    opm_error err = { 0 };
    size_t ninput = 0;
    int threads;
    int64_t pieces;

    if (argc < 5 || argc % 2 == 0) {
        fprintf(stderr, "usage: bench_rows THREADS MILLISECONDS BYTES MODEL [--input X]...\n");
        return 1;
    }
    for (int i = 5; i + 1 < argc && ninput < LIST_MAX; i += 2)
        input[ninput++] = argv[i + 1];
    threads = (int)strtol(argv[1], NULL, 10);
    pieces = MAX((int64_t)strtoll(argv[3], NULL, 10) / PIECE_BYTES, (int64_t)1);
    memory = mem_map((size_t)(pieces * PIECE_BYTES));
    if (!memory || pool_open(&pool, threads, false, 0, &err)) {
        fprintf(stderr, "bench_rows: %s\n", memory ? err.msg : "out of memory");
        return 1;
    }
    memset(memory, 1, (size_t)(pieces * PIECE_BYTES));
    side[READ].runs = true;
    for (int k = NATIVE; k < NSIDE; k++) {
        side[k].opt = (struct run_options){ .model = argv[4],
                                            .threads = threads,
                                            .winograd = true,
                                            .sparse = true,
                                            .instances = 1,
                                            .input = input,
                                            .ninput = ninput };
        open_side(&side[k], names[k]);
    }
    take_turns(pool, pieces, runner_now_ns() + strtoll(argv[2], NULL, 10) * 1000000);
    write_figures(&w);
    puts(buf_str(&line));
    buf_release(&line);
    for (int k = NATIVE; k < NSIDE; k++)
        runner_close(&side[k].r);
    pool_close(pool);
    mem_unmap(memory, (size_t)(pieces * PIECE_BYTES));
    return 0;
}
