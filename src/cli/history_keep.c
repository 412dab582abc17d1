/* history_keep.c -- removing runs from a catalogue, and writing them elsewhere; see history.h. */
#include "cli/history.h"

#include "base/error.h"
#include "base/folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* -- prune -- */

/* Runs that tell what a change was, and what was accepted, stay. */
static bool is_needed(const struct history *h, const struct history_series *s, size_t at)
{
    if (history_run_at(h, s, at)->run.accepted > 0)
        return true;
    for (size_t k = 0; k < s->nchange; k++) {
        const struct change *c = &s->change[k].c;

        if (at + CHANGES_LEAST >= c->at && at < c->end + CHANGES_LEAST)
            return true;
    }
    return false;
}

static bool goes(const struct history *h, const struct history_series *s, size_t at,
                 const struct history_prune *p, int64_t now_ns)
{
    bool beyond = p->keep && at + (size_t)p->keep < s->n;
    bool old = p->older_ns && now_ns - history_run_at(h, s, at)->run.began_ns > p->older_ns;

    return (beyond || old) && !is_needed(h, s, at);
}

int history_prune(struct cli *cli, struct runsdb *db, const struct history *h,
                  const struct history_prune *p)
{
    struct timespec now;
    size_t n = 0;
    opm_error err;
    int rc = p->dry ? 0 : runsdb_begin(db, &err);

    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < h->nseries && rc == 0; i++) {
        const struct history_series *s = &h->series[i];

        for (size_t k = 0; k < s->n && rc == 0; k++) {
            if (!goes(h, s, k, p, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec))
                continue;
            n++;
            if (!p->dry)
                rc = runsdb_remove(db, history_run_at(h, s, k)->run.id, &err);
        }
    }
    if (rc == 0 && !p->dry)
        rc = runsdb_commit(db, &err);
    if (rc < 0)
        return cli_error("%s", err.msg);
    if (!cli->quiet)
        cli_tell(cli, "%zu of %zu runs %s%s; those around a change and accepted ones stay.", n,
                 h->n, p->dry ? "would be " : "",
                 p->dry   ? "removed"
                 : n == 1 ? "was removed"
                          : "were removed");
    return CLI_OK;
}

/* -- export -- */

struct exporting {
    struct strpool chosen; /* ids of runs */
    struct textable *t;    /* the table that is being written */
};

static bool is_chosen(void *user, const char *run)
{
    const struct exporting *e = user;

    return run && strpool_find(&e->chosen, run, strlen(run));
}

#define KIND_I64 TEXTABLE_INT
#define KIND_F64 TEXTABLE_REAL
#define KIND_STR TEXTABLE_TEXT
#define KIND_BYTES TEXTABLE_TEXT

static void cell_I64(struct textable *t, int64_t v)
{
    if (v == RUNSDB_NONE)
        textable_null(t);
    else
        textable_int(t, v);
}

static void cell_F64(struct textable *t, double v)
{
    if (isfinite(v))
        textable_real(t, v);
    else
        textable_null(t);
}

static void cell_STR(struct textable *t, const char *v)
{
    if (v)
        textable_text(t, v, strlen(v));
    else
        textable_null(t);
}

/* As hexadecimal digits. */
static void cell_BYTES(struct textable *t, struct kept_bytes v)
{
    const uint8_t *p = v.data;
    struct buf hex = { 0 };

    for (size_t i = 0; i < v.len; i++)
        buf_addf(&hex, "%02x", p[i]);
    textable_text(t, buf_str(&hex), hex.len);
    buf_release(&hex);
}

/* The column that says which run a row is of. */
#define RUN_OF_run(row) (row)->id
#define RUN_OF_label(row) (row)->run
#define RUN_OF_fact(row) (row)->run
#define RUN_OF_op(row) (row)->run

#define TABLE(table, doc)                                              \
    static int row_##table(void *user, const struct kept_##table *row) \
    {                                                                  \
        struct exporting *e = user;                                    \
                                                                       \
        if (!is_chosen(e, RUN_OF_##table(row)))                        \
            return 0;
#define COL(table, column, type, doc) cell_##type(e->t, row->column);
#define END(table, key) \
    return 0;           \
    }
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

#define TABLE(table, doc)                           \
    static void columns_##table(struct textable *t) \
    {
#define COL(table, column, type, doc) textable_column(t, #column, KIND_##type);
#define END(table, key) }
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

/* All rows of one table, to out. */
#define TABLE(table, doc)                                                                \
    static int write_##table(struct exporting *e, struct runsdb *db, struct io_out *out, \
                             enum textable_format format, opm_error *err)                \
    {                                                                                    \
        int rc;                                                                          \
                                                                                         \
        e->t = textable_new();                                                           \
        if (!e->t)                                                                       \
            return opm__fail(err, OPM_ENOMEM, "out of memory");                          \
        columns_##table(e->t);                                                           \
        rc = runsdb_each_##table(db, row_##table, e, err);                               \
        if (rc == 0)                                                                     \
            rc = textable_print(e->t, out, format, 0, false, err);                       \
        textable_free(e->t);                                                             \
        return rc;                                                                       \
    }
#define COL(table, column, type, doc)
#define END(table, key)
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

static const struct {
    const char *name;
    int (*write)(struct exporting *e, struct runsdb *db, struct io_out *out,
                 enum textable_format format, opm_error *err);
} tables[] = {
#define TABLE(table, doc) { #table, write_##table },
#define COL(table, column, type, doc)
#define END(table, key)
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END
};

static int write_csv(struct exporting *e, struct runsdb *db, const char *folder, opm_error *err)
{
    int rc = folder_make(folder, err);

    for (size_t i = 0; i < ARRAY_SIZE(tables) && rc == 0; i++) {
        char path[FOLDER_PATH_MAX];
        struct io_out out;
        int closed;

        snprintf(path, sizeof(path), "%s/%s.csv", folder, tables[i].name);
        rc = io_out_open(&out, path, err);
        if (rc < 0)
            break;
        rc = tables[i].write(e, db, &out, TEXTABLE_CSV_SAFE, err);
        closed = io_out_close(&out, rc == 0, rc == 0 ? err : NULL);
        if (rc == 0)
            rc = closed;
    }
    return rc;
}

static int write_json(struct exporting *e, struct runsdb *db, const char *path, opm_error *err)
{
    struct io_out out;
    int rc = io_out_open(&out, path, err), closed;

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < ARRAY_SIZE(tables) && rc == 0; i++) {
        io_out_addf(&out, "%s\"%s\":\n", i ? "," : "{", tables[i].name);
        rc = tables[i].write(e, db, &out, TEXTABLE_JSON, err);
    }
    io_out_adds(&out, "}\n");
    closed = io_out_close(&out, rc == 0, rc == 0 ? err : NULL);
    return rc == 0 ? closed : rc;
}

static int write_catalogue(struct exporting *e, struct runsdb *db, const char *path, opm_error *err)
{
    struct runsdb *to = NULL;
    int rc = runsdb_open(&to, path, RUNSDB_CREATE, err);

    if (rc == 0)
        rc = runsdb_copy(db, to, is_chosen, e, err);
    runsdb_close(to);
    return rc;
}

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);

    return n > m && strcmp(path + n - m, end) == 0;
}

int history_export(struct cli *cli, struct runsdb *db, const struct history *h, const char *to,
                   bool force)
{
    static const char *const csv[] = {
#define TABLE(table, doc) #table ".csv",
#define COL(table, column, type, doc)
#define END(table, key)
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END
    };
    bool json = ends_with(to, ".json"), catalogue = ends_with(to, ".db");
    struct exporting e = { 0 };
    opm_error err;
    str_id id;
    int rc = catalogue ? CLI_OK /* runs are added to one that is there */
             : json    ? cli_may_write(to, force)
                       : cli_may_write_names(to, csv, ARRAY_SIZE(csv), force);
    bool ok = rc == CLI_OK;

    for (size_t i = 0; i < h->n && ok; i++)
        ok = strpool_intern(&e.chosen, h->run[i].run.id, strlen(h->run[i].run.id), &id) == 0;
    if (rc == CLI_OK && !ok)
        rc = cli_out_of_memory();
    if (rc == CLI_OK && (catalogue ? write_catalogue(&e, db, to, &err)
                         : json    ? write_json(&e, db, to, &err)
                                   : write_csv(&e, db, to, &err)) < 0)
        rc = cli_error("%s", err.msg);
    strpool_release(&e.chosen);
    if (rc == CLI_OK && !cli->quiet)
        cli_say(cli, "%s: %zu run%s\n", to, h->n, human_s((int64_t)h->n));
    return rc;
}
