/* click_runs.c -- see click_runs.h. */
#include "catalog/click_runs.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- the tables -- */

/* One column of runs is called batch, so that of the insertion has another name here. */
#define HEAD                                                                             \
    { "job", ROLLUP_STR, "''" }, { "rank", ROLLUP_INT, "how often it had gone before" }, \
    {                                                                                    \
        "insertion", ROLLUP_INT, "which insertion it came by"                            \
    }
#define CLICK_TYPE_I64 ROLLUP_I64
#define CLICK_TYPE_F64 ROLLUP_F64
#define CLICK_TYPE_STR ROLLUP_TEXT
#define CLICK_TYPE_BYTES ROLLUP_BYTES
#define TABLE(table, doc) static const struct rollup_column table##_columns[] = { HEAD,
#define COL(table, column, type, doc) { #column, CLICK_TYPE_##type, doc },
#define END(table, key) \
    }                   \
    ;
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

static const struct rollup_column mark_columns[] = {
    HEAD,
    { "run", ROLLUP_STR, "run.id" },
    { "gone", ROLLUP_INT, "1: it was removed" },
    { "accepted", ROLLUP_INT, "when it was said to be good, ns since 1970; 0: it was not" },
    { "at_ns", ROLLUP_INT, "when that was said" }
};

#define ORDER "job, rank, insertion"
const struct rollup_def click_run_tables[CLICK_RUN_TABLES] = {
#define TABLE(table, doc) \
    [CLICK_##table -      \
        ROLLUP_COUNT] = { #table, doc, ORDER, table##_columns, (int)ARRAY_SIZE(table##_columns) },
#define COL(table, column, type, doc)
#define END(table, key)
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END
    [CLICK_mark - ROLLUP_COUNT] = { "mark", "what was said of runs later", ORDER, mark_columns,
                                    (int)ARRAY_SIZE(mark_columns) },
};

/* -- writing -- */

static struct rollup_cell cell_I64(int64_t v)
{
    return (struct rollup_cell){ .i = v };
}

static struct rollup_cell cell_F64(double v)
{
    return (struct rollup_cell){ .f = v };
}

static struct rollup_cell cell_STR(const char *v)
{
    return (struct rollup_cell){ .text = v, .len = v ? strlen(v) : 0 };
}

static struct rollup_cell cell_BYTES(struct kept_bytes v)
{
    return (struct rollup_cell){ .text = v.data, .len = v.len };
}

/* The first three are filled in by who adds. */
#define TABLE(table, doc)                                                                  \
    static int put_##table(struct clickhouse *c, const struct kept_##table *row, size_t n, \
                           opm_error *err)                                                 \
    {                                                                                      \
        int rc = 0;                                                                        \
                                                                                           \
        for (size_t i = 0; i < n && rc == 0; i++) {                                        \
            const enum click_table click_id = CLICK_##table;                               \
            const struct rollup_cell cells[] = { { 0 }, { 0 }, { 0 },
#define COL(table, column, type, doc) cell_##type(row[i].column),
#define END(table, key)                           \
    }                                             \
    ;                                             \
    rc = clickhouse_put(c, click_id, cells, err); \
    }                                             \
    return rc;                                    \
    }
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

/* Two numbers that a statement gives; what is NULL is 0. */
static int ask_numbers(struct clickhouse *c, struct buf *sql, int64_t number[2], opm_error *err)
{
    struct clickrows *rows = NULL;
    int rc = sql->failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                         : clickhouse_query(c, buf_str(sql), &rows, err);

    number[0] = number[1] = 0;
    if (rc == 0)
        rc = clickrows_next(rows, err);
    for (int i = 0; rc == 1 && i < MIN(clickrows_columns(rows), 2); i++)
        if (clickrows_type(rows, i) == OPM_TYPE_INT)
            number[i] = strtoll(clickrows_text(rows, i, NULL), NULL, 10);
    clickrows_close(rows);
    buf_clear(sql);
    return rc < 0 ? rc : 0;
}

/* Which generation of a run is there, or would be the next. */
static int find_generation(struct clickhouse *c, const char *id, int64_t *generation, bool *there,
                           opm_error *err)
{
    struct buf sql = { 0 };
    int64_t number[2];
    int rc;

    buf_adds(&sql, "SELECT count(*), max(rank) FROM mark WHERE gone = 1 AND run = ");
    clickhouse_quote(&sql, id);
    rc = ask_numbers(c, &sql, number, err);
    *generation = number[0] ? number[1] + 1 : 0;
    if (rc == 0) {
        buf_adds(&sql,
                 "SELECT count(*) FROM rank_batch WHERE job = '' AND unit = 'run' AND run = ");
        clickhouse_quote(&sql, id);
        buf_addf(&sql, " AND rank = %lld", (long long)*generation);
        rc = ask_numbers(c, &sql, number, err);
        *there = number[0] > 0;
    }
    buf_release(&sql);
    return rc;
}

int click_runs_add(struct clickhouse *c, const struct kept *k, bool *added, opm_error *err)
{
    struct fleet_unit u = { "", 0, k->run.id, "run" };
    bool there = false;
    int rc = find_generation(c, k->run.id, &u.rank, &there, err);

    *added = false;
    if (rc < 0 || there)
        return rc;
    rc = clickhouse_begin(c, &u, err);
    if (rc == 0)
        rc = put_run(c, &k->run, 1, err);
    if (rc == 0)
        rc = put_label(c, k->label, k->nlabel, err);
    if (rc == 0)
        rc = put_fact(c, k->fact, k->nfact, err);
    if (rc == 0)
        rc = put_op(c, k->op, k->nop, err);
    if (rc == 0)
        rc = clickhouse_commit(c, k->run.added_ns, err);
    *added = rc == 0;
    return rc;
}

/* Say something of a run that is there. */
static int mark(struct clickhouse *c, const char *id, const char *what, int64_t gone,
                int64_t accepted_ns, int64_t now_ns, opm_error *err)
{
    const struct rollup_cell cells[] = { { 0 },          { 0 },         { 0 },
                                         { .text = id }, { .i = gone }, { .i = accepted_ns },
                                         { .i = now_ns } };
    struct fleet_unit u = { "", 0, id, what };
    bool there = false;
    int rc = find_generation(c, id, &u.rank, &there, err);

    if (rc < 0 || !there)
        return rc;
    rc = clickhouse_begin(c, &u, err);
    if (rc == 0)
        rc = clickhouse_put(c, CLICK_mark, cells, err);
    return rc == 0 ? clickhouse_commit(c, now_ns, err) : rc;
}

int click_runs_remove(struct clickhouse *c, const char *id, opm_error *err)
{
    return mark(c, id, "gone", 1, 0, 0, err);
}

int click_runs_accept(struct clickhouse *c, const char *id, int64_t now_ns, opm_error *err)
{
    char what[40];

    snprintf(what, sizeof(what), "accepted %lld", (long long)now_ns);
    return mark(c, id, what, 0, now_ns, now_ns, err);
}

/* -- reading -- */

static int64_t get_I64(const struct clickrows *r, int col)
{
    return clickrows_type(r, col) == OPM_TYPE_INT ? strtoll(clickrows_text(r, col, NULL), NULL, 10)
                                                  : RUNSDB_NONE;
}

static double get_F64(const struct clickrows *r, int col)
{
    enum opm_type type = clickrows_type(r, col);

    return type == OPM_TYPE_REAL || type == OPM_TYPE_INT
               ? strtod(clickrows_text(r, col, NULL), NULL)
               : (double)NAN;
}

static const char *get_STR(const struct clickrows *r, int col)
{
    return clickrows_text(r, col, NULL);
}

static struct kept_bytes get_BYTES(const struct clickrows *r, int col)
{
    struct kept_bytes v;

    v.data = clickrows_text(r, col, &v.len);
    return v;
}

/* Runs that were accepted, in the order of their ids, each once. */
struct accepted {
    struct arena room;
    struct mark {
        const char *run;
        int64_t ns;
    } * mark;
    size_t n, cap;
};

static int read_accepted(struct clickhouse *c, struct accepted *a, opm_error *err)
{
    struct clickrows *rows = NULL;
    int rc = clickhouse_query(c,
                              "SELECT run, max(accepted) FROM mark WHERE gone = 0 GROUP BY run"
                              " ORDER BY run",
                              &rows, err);

    while (rc == 0) {
        const char *run;

        rc = clickrows_next(rows, err);
        if (rc != 1)
            break;
        run = get_STR(rows, 0) ? get_STR(rows, 0) : "";
        run = arena_strndup(&a->room, run, strlen(run));
        rc = run && GROW(a->mark, a->cap, a->n + 1) ? 0
                                                    : opm__fail(err, OPM_ENOMEM, "out of memory");
        if (rc == 0)
            a->mark[a->n++] = (struct mark){ run, get_I64(rows, 1) };
    }
    clickrows_close(rows);
    return rc;
}

static int by_run(const void *x, const void *y)
{
    return strcmp(((const struct mark *)x)->run, ((const struct mark *)y)->run);
}

static void complete_run(const struct accepted *a, struct kept_run *row)
{
    struct mark key = { row->id ? row->id : "", 0 };
    const struct mark *found = a->n ? bsearch(&key, a->mark, a->n, sizeof(key), by_run) : NULL;

    if (found)
        row->accepted = found->ns;
}

#define complete_label(a, row) ((void)(a), (void)(row))
#define complete_fact(a, row) ((void)(a), (void)(row))
#define complete_op(a, row) ((void)(a), (void)(row))

#define TABLE(table, doc)                                                        \
    static void get_##table(const struct clickrows *r, struct kept_##table *row) \
    {                                                                            \
        int col = 0;
#define COL(table, column, type, doc) row->column = get_##type(r, col++);
#define END(table, key) }
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

#define TABLE(table, doc)                                                                     \
    int click_runs_each_##table(struct clickhouse *c,                                         \
                                int (*each)(void *user, const struct kept_##table *row),      \
                                void *user, opm_error *err)                                   \
    {                                                                                         \
        struct accepted accepted = { 0 };                                                     \
        struct clickrows *rows = NULL;                                                        \
        struct kept_##table row;                                                              \
        int said = 0, rc = CLICK_##table == CLICK_run ? read_accepted(c, &accepted, err) : 0; \
                                                                                              \
        if (rc == 0)                                                                          \
            rc = clickhouse_query(c, "SELECT "
#define COL(table, column, type, doc) "\"" #column "\", "
#define END(table, key)                    \
    "0 FROM " END_OF(table), &rows, err);  \
    while (rc == 0 && said == 0) {         \
        rc = clickrows_next(rows, err);    \
        if (rc != 1)                       \
            break;                         \
        get_##table(rows, &row);           \
        complete_##table(&accepted, &row); \
        said = each(user, &row);           \
        rc = 0;                            \
    }                                      \
    clickrows_close(rows);                 \
    arena_release(&accepted.room);         \
    mem_free(accepted.mark);               \
    return rc < 0 ? rc : said;             \
    }
#define END_OF(table) #table
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END
