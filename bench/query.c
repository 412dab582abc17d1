/* query.c -- how long questions to ten million spans take.
 *
 *   query [TRACE]
 *
 * Each question is put to the SQL tables, to a plain C loop over the columns (the floor), and to an
 * ordinary in-memory SQLite table with the same rows, filled with SQLITE_ROWS of them and scaled,
 * because filling it with all would take longer than everything else together. Without TRACE the
 * spans are made up here. */
#include "analyze/analysis.h"
#include "base/alloc.h"
#include "public/trace/trace.h"
#include <opmeter/opmeter_trace.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPANS 10000000
#define SQLITE_ROWS 2000000
#define TRACKS 4
#define OPS 500
#define CHILDREN 3 /* spans inside each operator */
#define ROUNDS 3

static void die(const char *what, const opm_error *err)
{
    fprintf(stderr, "query: %s: %s\n", what, err ? err->msg : "out of memory");
    exit(1);
}

static void check(int rc, const char *what)
{
    if (rc < 0)
        die(what, NULL);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
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
    check(store_cstr(st, text, &id), "store_cstr");
    return id;
}

/* Operators, each with CHILDREN spans of the runtime inside, over and over on every track. */
static struct store *make_store(void)
{
    static const char *const layers[] = { "framework", "runtime" };
    uint32_t op_site[OPS], child_site[OPS];
    struct store *st;

    check(store_new(&st), "store_new");
    for (int i = 0; i < OPS; i++) {
        struct cell op[op_col_COUNT] = { 0 };
        struct site site = { .name = intern(st, "/model/layer.%d/conv/Conv", i),
                             .cat = intern(st, "op%d", i % 5),
                             .layer = intern(st, layers[0], 0),
                             .phase = intern(st, "forward", 0),
                             .op = (uint32_t)i };
        op[op_col_name] = cell_str(site.name);
        op[op_col_type] = cell_str(intern(st, "Type%d", i % 20));
        op[op_col_flops] = cell_i64(1000000 + i);
        check(store_add(st, TABLE_op, op, NULL), "store_add");
        check(store_site(st, &site, &op_site[i]), "store_site");
        site = (struct site){ .name = intern(st, "kernel_%d", i % 100),
                              .cat = intern(st, "kernel", 0),
                              .layer = intern(st, layers[1], 0),
                              .op = OPM_NULL_ID };
        check(store_site(st, &site, &child_site[i]), "store_site");
    }
    for (int track = 0; track < TRACKS; track++) {
        struct cell cells[track_col_COUNT] = { 0 };
        struct span_block block;
        size_t n = SPANS / TRACKS;
        int64_t t = track;

        cells[track_col_name] = cell_str(intern(st, "thread %d", track));
        check(store_add(st, TABLE_track, cells, NULL), "store_add");
        check(store_add_span_block(st, (uint32_t)track, n, &block), "store_add_span_block");
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
    check(store_finish(st), "store_finish");
    return st;
}

static const void *column(const struct store *st, int col)
{
    const void *data;

    check(store_column(st, TABLE_span, col, &data), "store_column");
    return data;
}

/* SELECT key, count(*), sum(dur) GROUP BY key, by hand. Returns a checksum. */
static int64_t c_loop(const struct store *st, const uint32_t *key_of_site, const uint32_t *key,
                      uint32_t nkey)
{
    size_t n = store_nrow(st, TABLE_span);
    const uint32_t *site = store_span_site(st);
    const int64_t *dur = column(st, span_col_dur);
    int64_t *acc = mem_calloc(2 * (size_t)nkey, sizeof(*acc));
    int64_t sum = 0;

    if (!acc)
        die("c_loop", NULL);
    for (size_t i = 0; i < n; i++) {
        uint32_t k = key_of_site ? key_of_site[site[i]] : key[i];

        acc[2 * k]++;
        acc[2 * k + 1] += dur[i];
    }
    for (uint32_t k = 0; k < nkey; k++)
        sum += acc[2 * k] ^ acc[2 * k + 1];
    mem_free(acc);
    return sum;
}

static double run_sql(struct sql *q, const char *text)
{
    struct sql_rows *r;
    opm_error err;
    double start = now();
    int rc = sql_query(q, text, &r, &err);

    if (rc < 0)
        die(text, &err);
    for (;;) {
        rc = sql_rows_next(r, &err);
        if (rc <= 0)
            break;
    }
    if (rc < 0)
        die(text, &err);
    sql_rows_close(r);
    return now() - start;
}

/* The same spans as a table of SQLite's own. */
static sqlite3 *make_sqlite(const struct store *st, size_t n)
{
    static const int cols[] = { span_col_ts,   span_col_dur, span_col_track,
                                span_col_name, span_col_cat, span_col_layer };
    sqlite3 *db;
    sqlite3_stmt *insert;

    if (sqlite3_open(":memory:", &db) != SQLITE_OK ||
        sqlite3_exec(
            db,
            "CREATE TABLE span(ts INTEGER, dur INTEGER, track INTEGER, name TEXT, cat TEXT,"
            " layer TEXT); BEGIN",
            NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "INSERT INTO span VALUES (?, ?, ?, ?, ?, ?)", -1, &insert, NULL) !=
            SQLITE_OK)
        die("sqlite", NULL);
    for (size_t row = 0; row < n; row++) {
        for (size_t c = 0; c < ARRAY_SIZE(cols); c++) {
            struct cell cell = store_cell(st, TABLE_span, row, cols[c]);

            if (cell.kind == CELL_STR)
                sqlite3_bind_text(insert, (int)c + 1, store_text(st, cell.str), -1, SQLITE_STATIC);
            else if (cell.kind == CELL_I64)
                sqlite3_bind_int64(insert, (int)c + 1, cell.i64);
        }
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    return db;
}

static double run_sqlite(sqlite3 *db, const char *text)
{
    sqlite3_stmt *stmt;
    double start = now();

    if (sqlite3_prepare_v2(db, text, -1, &stmt, NULL) != SQLITE_OK)
        die(text, NULL);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        ;
    sqlite3_finalize(stmt);
    return now() - start;
}

static void bench_analyses(const struct store *st)
{
    opm_error err;

    column(st, span_col_self); /* derived once; not what is measured */
    printf("%-62s %9s\n", "analysis, columns in memory", "s");
    for (int id = 0; id < ANALYSIS_COUNT; id++) {
        double best = 1e9;

        for (int round = 0; round < ROUNDS; round++) {
            struct table t;
            double start = now();

            if (analysis_run(st, (enum analysis_id)id, &t, &err) < 0)
                die("analysis", &err);
            best = MIN(best, now() - start);
            table_release(&t);
        }
        printf("%-62s %9.4f\n", analyses[id].def->name, best);
    }
}

static double floor_of(const struct store *st, int col)
{
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    uint32_t *map = mem_calloc(nsite, sizeof(*map));
    uint32_t nkey = 1;
    double best = 1e9;
    volatile int64_t sink;

    if (!map)
        die("floor", NULL);
    for (size_t i = 0; i < nsite; i++) {
        map[i] = col == span_col_name    ? sites[i].name
                 : col == span_col_cat   ? sites[i].cat
                 : col == span_col_layer ? sites[i].layer
                 : col == span_col_phase ? sites[i].phase
                                         : sites[i].op + 1;
        nkey = MAX(nkey, map[i] + 1);
    }
    if (col == span_col_track)
        nkey = (uint32_t)store_nrow(st, TABLE_track);
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t *track = col == span_col_track ? column(st, col) : NULL;
        double start = now();

        sink = c_loop(st, track ? NULL : map, track, nkey);
        best = MIN(best, now() - start);
    }
    (void)sink;
    mem_free(map);
    return best;
}

static void bench_sql(struct store *st)
{
    static const struct {
        const char *text;
        int col;    /* for the C loop; -1: none */
        bool plain; /* can be put to the plain table too */
    } questions[] = {
        { "SELECT name, count(*), sum(dur) FROM span GROUP BY name", span_col_name, true },
        { "SELECT cat, count(*), sum(dur) FROM span GROUP BY cat", span_col_cat, true },
        { "SELECT track, count(*), sum(dur) FROM span GROUP BY track", span_col_track, true },
        { "SELECT layer, count(*), sum(dur) FROM span GROUP BY layer", span_col_layer, true },
        { "SELECT op, count(*), sum(dur) FROM span GROUP BY op", span_col_op, false },
        { "SELECT phase, count(*), sum(dur) FROM span GROUP BY phase", span_col_phase, false },
        { "SELECT name, layer, count(*), sum(dur) FROM span GROUP BY name, layer", -1, true },
        { "SELECT name, sum(dur) FROM span WHERE layer = 'runtime' GROUP BY name", -1, true },
        { "SELECT DISTINCT name FROM span", -1, true },
        { "SELECT count(*), sum(dur) FROM span WHERE name = 'kernel_7'", -1, true },
        { "SELECT count(*) FROM span WHERE ts BETWEEN 1000000 AND 2000000", -1, true },
        { "SELECT * FROM span ORDER BY dur DESC LIMIT 10", -1, true },
        { "SELECT count(*) FROM span", -1, true },
        { "SELECT max(ts) FROM span", -1, true },
        { "SELECT name, total_ns FROM op_stats ORDER BY total_ns DESC LIMIT 10", -1, false },
    };
    size_t nspan = store_nrow(st, TABLE_span), nplain = MIN(nspan, (size_t)SQLITE_ROWS);
    double scale = nplain ? (double)nspan / (double)nplain : 1;
    sqlite3 *plain = make_sqlite(st, nplain);

    printf("\n%-76s %8s %8s %8s %9s\n", "query", "first s", "again s", "C loop", "SQLite");
    for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
        const char *text = questions[i].text;
        struct sql *q;
        opm_error err;
        double first, again = 1e9;

        if (sql_open(&q, st, &err) < 0) /* fresh: nothing is cached from the question before */
            die("sql_open", &err);
        first = run_sql(q, text);
        for (int round = 0; round < ROUNDS; round++)
            again = MIN(again, run_sql(q, text));
        printf("%-76s %8.3f %8.3f", text, first, again);
        if (questions[i].col >= 0)
            printf(" %8.3f", floor_of(st, questions[i].col));
        else
            printf(" %8s", "");
        if (questions[i].plain)
            printf(" %8.2f*", run_sqlite(plain, text) * scale);
        putchar('\n');
        fflush(stdout);
        sql_close(q);
    }
    printf("* an in-memory SQLite table without index, %zu rows, time multiplied by %.1f\n", nplain,
           scale);
    sqlite3_close(plain);
}

int main(int argc, char **argv)
{
    opm_trace *trace = NULL;
    struct store *st;
    double start = now();

    if (argc > 1) {
        const char *path = argv[1];
        opm_error err;

        if (opm_trace_open(&trace, &path, 1, NULL, &err) < 0)
            die("open", &err);
        st = trace->st;
    } else {
        st = make_store();
        check(analysis_intern_words(st), "analysis_intern_words");
    }
    printf("%zu spans, ready after %.2f s\n\n", store_nrow(st, TABLE_span), now() - start);
    bench_analyses(st);
    bench_sql(st);
    if (trace)
        opm_trace_close(trace);
    else
        store_free(st);
    return 0;
}
