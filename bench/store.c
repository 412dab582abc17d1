/* store.c -- what it costs to hold 10 million spans: add, finish, and the columns that reports
 * read.
 *
 *   bench_store [millions of spans] [layout]
 *
 * Two threads record 20 operators in each layer, 5 layers in each iteration. Layout `blocks`
 * (default) has their blocks in turns, as in a file; `tracks` one track behind the other; `start`
 * all spans ordered by start; `random` in random order within each track. */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define OPS 20
#define LAYERS 5
#define NSITE 128
#define BLOCK 32768

enum layout { BLOCKS, TRACKS, START, RANDOM };
static const char *const layout_names[] = { "blocks", "tracks", "start", "random" };

/* A recorder's view of one thread: the next span that ends. */
struct thread {
    int64_t now, layer_ts, iter_ts;
    int op, layer;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t random_u32(void)
{
    static uint64_t x = 88172645463325252u;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (uint32_t)(x >> 16);
}

static void check(int rc)
{
    if (rc) {
        fprintf(stderr, "bench_store: %s\n", opm_status_text(rc));
        exit(1);
    }
}

static void record(struct thread *t, int64_t *ts, int64_t *dur, uint32_t *site)
{
    if (t->op < OPS) {
        *ts = t->now + 20;
        *dur = 500 + (random_u32() & 1023);
        *site = (uint32_t)(t->layer * OPS + t->op++);
        t->now = *ts + *dur;
        return;
    }
    t->now += 30;
    if (t->layer < LAYERS) {
        *ts = t->layer_ts;
        *site = (uint32_t)(NSITE - 2);
        t->op = 0;
        t->layer++;
        t->layer_ts = t->now + 10;
        if (t->layer == LAYERS)
            t->op = OPS;
    } else {
        *ts = t->iter_ts;
        *site = (uint32_t)(NSITE - 1);
        t->op = t->layer = 0;
        t->iter_ts = t->now + 5;
        t->layer_ts = t->now + 10;
    }
    *dur = t->now - *ts;
}

static int by_start(const void *a, const void *b)
{
    const struct span_row *x = a, *y = b;

    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return x->dur_ns > y->dur_ns ? -1 : x->dur_ns < y->dur_ns;
}

/* Rows in an order that no recorder writes; making them is not measured. */
static struct span_row *make_rows(size_t n, enum layout layout)
{
    struct span_row *rows = malloc(n * sizeof(*rows));
    struct thread threads[2] = { 0 };

    if (!rows)
        check(OPM_ENOMEM);
    for (size_t i = 0; i < n; i++) {
        rows[i] = (struct span_row)SPAN_ROW_INIT;
        rows[i].track = i & 1;
        record(&threads[i & 1], &rows[i].ts_ns, &rows[i].dur_ns, &rows[i].site);
    }
    if (layout == START)
        qsort(rows, n, sizeof(*rows), by_start);
    for (size_t i = n; layout == RANDOM && i > 1; i--) {
        size_t j = random_u32() % i;
        struct span_row swap = rows[i - 1];

        rows[i - 1] = rows[j];
        rows[j] = swap;
    }
    return rows;
}

static void add_blocks(struct store *st, size_t n, enum layout layout)
{
    struct thread threads[2] = { 0 };
    size_t left[2] = { n / 2, n - n / 2 };

    check(store_reserve_spans(st, n));
    for (uint32_t k = 0; left[0] || left[1]; k ^= layout == BLOCKS || !left[k]) {
        size_t m = left[k] < BLOCK ? left[k] : BLOCK;
        struct span_block b;

        check(store_add_span_block(st, k, m, &b));
        for (size_t i = 0; i < m; i++)
            record(&threads[k], &b.ts[i], &b.dur[i], &b.site[i]);
        left[k] -= m;
    }
}

static long peak_mib(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss >> 10;
}

static double lap(double *since, const char *what)
{
    double now = seconds(), d = now - *since;

    printf("  %-10s %7.1f ms\n", what, d * 1e3);
    *since = seconds();
    return d;
}

static const void *column(const struct store *st, int col)
{
    const void *out;

    check(store_column(st, TABLE_span, col, &out));
    return out;
}

int main(int argc, char **argv)
{
    size_t n = (size_t)(argc > 1 ? strtod(argv[1], NULL) * 1e6 : 10e6);
    enum layout layout = BLOCKS;
    struct span_row *rows = NULL;
    const int64_t *dur, *self;
    const uint32_t *site;
    int64_t sum[NSITE] = { 0 };
    struct store *st;
    double t, total;

    for (int i = 0; argc > 2 && i < 4; i++)
        if (!strcmp(argv[2], layout_names[i]))
            layout = (enum layout)i;
    if (layout >= START)
        rows = make_rows(n, layout);
    printf("%zu spans, %s\n", n, layout_names[layout]);
    total = t = seconds();
    check(store_new(&st));
    for (int i = 0; i < 2; i++)
        check(store_add(st, TABLE_track, (struct cell[track_col_COUNT]){ { .kind = CELL_NULL } },
                        NULL));
    for (uint32_t i = 0; i < NSITE; i++)
        check(store_site(st, &(struct site){ .op = i }, &(uint32_t){ 0 }));
    if (rows)
        for (size_t i = 0; i < n; i++)
            check(store_add_span(st, &rows[i], NULL));
    else
        add_blocks(st, n, layout);
    lap(&t, "add");
    check(store_finish(st));
    lap(&t, "finish");
    dur = column(st, span_col_dur);
    site = store_span_site(st);
    for (size_t i = 0; i < n; i++)
        sum[site[i]] += dur[i];
    lap(&t, "dur, site");
    self = column(st, span_col_self);
    for (size_t i = 0; i < n; i++)
        sum[site[i]] -= self[i];
    lap(&t, "self");
    printf("  %-10s %7.1f ms, peak %ld MiB (%ld)\n", "together", (seconds() - total) * 1e3,
           peak_mib(), (long)sum[NSITE - 1]);
    t = seconds();
    column(st, span_col_parent);
    lap(&t, "parent");
    check(store_derive(st, TABLE_span, span_col_depth));
    lap(&t, "depth");
    column(st, span_col_track);
    lap(&t, "track");
    store_free(st);
    free(rows);
    return 0;
}
