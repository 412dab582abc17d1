/* parquet.c -- tables of the store as Parquet, for DuckDB, Spark, Trino, pandas and others.
 *
 * With options->table, that one goes to path, a file. Otherwise path is a folder with a folder per
 * table, in it a folder job=JOB and one rank=RANK if either is asked for (Hive's layout), and there
 * a file for every table with rows. Ranks of a job go to one place one after the other, or at once;
 * each has its own ids, so that joins go by job, rank and id. Rows are in the order of the store:
 * by time, where they have one. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/folder.h"
#include "export/columns.h"
#include "export/parquet/hive.h"
#include "export/parquet/pq_file.h"
#include "export/writer.h"
#include "format/parquet.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PART_FILE "part-0.parquet"
#define COLUMNS_MAX 40 /* of a table */

struct parquet {
    const struct store *st;
    const struct export_options *opts;
    uint64_t done, total; /* rows */
};

static int put_rows(struct parquet *p, struct pq_file *f, struct export_column *c, int ncol,
                    size_t nrow, const struct io_out *out)
{
    struct export_scratch s = { 0 };
    int rc = export_scratch_init(&s, PQ_GROUP_ROWS);

    if (!rc)
        rc = writer_progress(p->opts, out, p->done, p->total);
    for (size_t from = 0; from < nrow && !rc; from += PQ_GROUP_ROWS) {
        size_t n = MIN(nrow - from, PQ_GROUP_ROWS);

        rc = pq_group(f, n);
        for (int i = 0; i < ncol && !rc; i++) {
            rc = export_column_take(&c[i], from, n, &s);
            if (!rc)
                rc = pq_put(f, &(struct pq_values){ .i64 = s.i64,
                                                    .f64 = s.f64,
                                                    .str = s.str,
                                                    .text = buf_str(&s.text),
                                                    .end = s.end });
        }
        p->done += n;
        if (!rc)
            rc = writer_progress(p->opts, out, p->done, p->total);
    }
    export_scratch_release(&s);
    return rc;
}

static int put_table(struct parquet *p, struct io_out *out, enum table_id table)
{
    static const enum pq_kind kinds[] = {
        [COL_I64] = PQ_INT, [COL_ID] = PQ_INT, [COL_STR] = PQ_TEXT, [COL_F64] = PQ_REAL
    };
    struct export_column c[COLUMNS_MAX];
    struct pq_column col[COLUMNS_MAX];
    struct pq_file *f = NULL;
    int ncol = 0, rc = export_columns(p->st, table, c, COLUMNS_MAX, &ncol);

    for (int i = 0; i < ncol; i++)
        col[i] = (struct pq_column){ c[i].name, kinds[c[i].type] };
    if (!rc)
        rc = pq_open(&f, out, store_strings(p->st), col, ncol);
    if (!rc)
        rc = put_rows(p, f, c, ncol, store_nrow(p->st, table), out);
    if (!rc) {
        pq_fact(f, PARQUET_KEY_TABLE, store_table_defs[table].name);
        rc = pq_end(f);
    }
    pq_close(f);
    return rc;
}

static int put_file(struct parquet *p, enum table_id table, const char *path, opm_error *err)
{
    struct io_out out = { 0 };
    int rc = writer_open(&out, p->st, path, err);

    if (rc)
        return rc;
    rc = put_table(p, &out, table);
    return writer_close(&out, rc, path, err);
}

/* The rank that all of the trace is of; "" if it has none, or several. */
static void own_rank(const struct store *st, char *out, size_t size)
{
    int64_t rank = OPM_NULL_I64;

    out[0] = '\0';
    for (size_t i = 0; i < store_nrow(st, TABLE_track); i++) {
        int64_t r = store_i64_or(st, TABLE_track, i, track_col_rank, OPM_NULL_I64);

        if (r == OPM_NULL_I64)
            continue;
        if (rank != OPM_NULL_I64 && r != rank)
            return;
        rank = r;
    }
    if (rank != OPM_NULL_I64)
        snprintf(out, size, "%lld", (long long)rank);
}

/* job=JOB/rank=RANK, or what of it is asked for. */
static void add_partition(const struct parquet *p, struct buf *path)
{
    const char *job = p->opts ? p->opts->job : NULL, *rank = p->opts ? p->opts->rank : NULL;
    char own[24] = "";

    if (!rank)
        own_rank(p->st, own, sizeof(own));
    if (job) {
        buf_adds(path, "/job=");
        hive_add_value(path, job);
    }
    if (job || rank) {
        buf_adds(path, "/rank=");
        hive_add_value(path, rank ? rank : own);
    }
}

static int table_path(const struct parquet *p, const char *folder, enum table_id table,
                      struct buf *path, opm_error *err)
{
    buf_clear(path);
    buf_addf(path, "%s/%s", folder, store_table_defs[table].name);
    add_partition(p, path);
    return path->failed ? opm__fail(err, OPM_ENOMEM, "%s: out of memory", folder) : 0;
}

/* What an earlier export left of a table that has no rows now. */
static int forget(const char *path, opm_error *err)
{
    if (unlink(path) < 0 && errno != ENOENT)
        return opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    return 0;
}

static int put_folder(struct parquet *p, const char *folder, opm_error *err)
{
    struct buf path = { 0 };
    int rc = folder_make(folder, err);

    for (int i = 0; i < TABLE_COUNT && !rc; i++) {
        size_t nrow = store_nrow(p->st, (enum table_id)i);

        rc = table_path(p, folder, (enum table_id)i, &path, err);
        if (!rc && nrow)
            rc = folder_make(buf_str(&path), err);
        buf_adds(&path, "/" PART_FILE);
        if (!rc && path.failed)
            rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", folder);
        if (!rc)
            rc = nrow ? put_file(p, (enum table_id)i, buf_str(&path), err)
                      : forget(buf_str(&path), err);
    }
    buf_release(&path);
    return rc;
}

/* Whether the place where this trace goes has one already. */
static int look(const struct parquet *p, const char *folder, opm_error *err)
{
    struct buf path = { 0 };
    int rc = 0;

    for (int i = 0; i < TABLE_COUNT && !rc; i++) {
        rc = table_path(p, folder, (enum table_id)i, &path, err);
        buf_adds(&path, "/" PART_FILE);
        if (!rc && !path.failed && access(buf_str(&path), F_OK) == 0)
            rc = opm__fail(err, OPM_EBUSY,
                           "%s: exists; --force replaces what this job and rank "
                           "have there, and --job or --rank names another place",
                           buf_str(&path));
    }
    buf_release(&path);
    return rc;
}

int export_parquet(const struct store *st, const char *path, const struct export_options *opts,
                   opm_error *err)
{
    struct parquet p = { .st = st, .opts = opts };
    enum table_id table;
    int rc;

    if (opts && opts->table) {
        rc = export_find_table(opts->table, "Parquet", &table, err);
        p.total = rc ? 0 : store_nrow(st, table);
        return rc ? rc : put_file(&p, table, path, err);
    }
    if (strcmp(path, "-") == 0)
        return opm__fail(err, OPM_EINVAL,
                         "parquet: standard output takes one table; name it, or write to a folder");
    for (int i = 0; i < TABLE_COUNT; i++)
        p.total += store_nrow(st, (enum table_id)i);
    rc = opts && opts->force ? 0 : look(&p, path, err);
    return rc ? rc : put_folder(&p, path, err);
}
