/* tables.c -- a trace of ten million spans as a file of tables: written, size, opened.
 *
 *   tables [FILE.opm]
 *
 * Operators with kernels inside, on four tracks, with random durations: the times do not compress
 * by luck. The open is that of the library, SQL included; beside it, how long reading the file's
 * bytes takes. */
#include "export/export.h"
#include "public/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SPANS 10000000
#define TRACKS 4
#define OPS 500
#define CHILDREN 3
#define ROUNDS 5

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int rc, const char *what, const opm_error *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "tables: %s: %s\n", what, err ? err->msg : "out of memory");
    exit(1);
}

static uint32_t next_random(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static str_id intern(struct store *st, const char *fmt, int i)
{
    char text[80];
    str_id id;

    snprintf(text, sizeof(text), fmt, i);
    check(store_cstr(st, text, &id), "store_cstr", NULL);
    return id;
}

static void make_sites(struct store *st, uint32_t op_site[OPS], uint32_t child_site[OPS])
{
    for (int i = 0; i < OPS; i++) {
        struct site op = { .name = intern(st, "/model/layer.%d/conv/Conv", i),
                           .cat = intern(st, "op", 0),
                           .layer = intern(st, "framework", 0),
                           .op = OPM_NULL_ID };
        struct site child = { .name = intern(st, "kernel_%d", i % 100),
                              .cat = intern(st, "kernel", 0),
                              .layer = intern(st, "runtime", 0),
                              .op = OPM_NULL_ID };

        check(store_site(st, &op, &op_site[i]), "store_site", NULL);
        check(store_site(st, &child, &child_site[i]), "store_site", NULL);
    }
}

static struct store *make_store(void)
{
    uint32_t op_site[OPS], child_site[OPS];
    struct store *st;

    check(store_new(&st), "store_new", NULL);
    make_sites(st, op_site, child_site);
    for (int track = 0; track < TRACKS; track++) {
        struct cell cells[track_col_COUNT] = { 0 };
        struct span_block block;
        size_t n = SPANS / TRACKS;
        int64_t t = track;

        cells[track_col_name] = cell_str(intern(st, "thread %d", track));
        check(store_add(st, TABLE_track, cells, NULL), "store_add", NULL);
        check(store_add_span_block(st, (uint32_t)track, n, &block), "store_add_span_block", NULL);
        for (size_t i = 0; i < n; i++) {
            size_t op = i / (CHILDREN + 1) % OPS;

            if (i % (CHILDREN + 1) == CHILDREN) {
                block.ts[i] = block.ts[i - CHILDREN] - 5;
                block.dur[i] = t + 5 - block.ts[i];
                block.site[i] = op_site[op];
                t += 20;
            } else {
                block.ts[i] = t + 10;
                block.dur[i] = 50 + (int64_t)op + next_random() % 200;
                block.site[i] = child_site[op];
                t = block.ts[i] + block.dur[i];
            }
        }
    }
    check(store_finish(st), "store_finish", NULL);
    return st;
}

static double read_s(const char *path)
{
    static char room[1 << 20];
    double start = now();
    FILE *f = fopen(path, "rb");

    while (f && fread(room, 1, sizeof(room), f) > 0)
        ;
    if (f)
        fclose(f);
    return now() - start;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "/tmp/opmeter_bench_tables.opm";
    double open_s = 1e9, bytes_s = 1e9, write_s;
    opm_error err;
    struct stat sb;

    if (argc <= 1) {
        struct store *st = make_store();

        write_s = now();
        check(export_opm(st, path, NULL, &err), "export_opm", &err);
        write_s = now() - write_s;
        store_free(st);
        printf("written in %.2f s\n", write_s);
    }
    if (stat(path, &sb) < 0)
        check(-1, path, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        double start = now(), took;
        opm_trace *t = NULL;
        size_t n;

        check(opm_trace_open(&t, &path, 1, NULL, &err), "open", &err);
        took = now() - start;
        open_s = took < open_s ? took : open_s;
        n = store_nrow(t->st, TABLE_span);
        took = read_s(path);
        bytes_s = took < bytes_s ? took : bytes_s;
        if (i == 0)
            printf("%zu spans, %.1f MB, %.2f bytes per span\n", n, (double)sb.st_size / 1e6,
                   (double)sb.st_size / (double)n);
        opm_trace_close(t);
    }
    printf("opened in %.3f s; read() of the same bytes %.3f s (best of %d)\n", open_s, bytes_s,
           ROUNDS);
    if (argc <= 1)
        unlink(path);
    return 0;
}
