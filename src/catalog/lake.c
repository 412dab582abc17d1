/* lake.c -- see lake.h.
 *
 * Rows of a rank lie together where it was added at once, so a file gets them in the order in
 * which the database has them: a rank that comes again gets another file. ClickHouse is asked for
 * some insertions at a time, and sorts them. */
#include "catalog/lake.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/strpool.h"
#include "base/u64map.h"
#include "catalog/questions.h"
#include "export/parquet/hive.h"
#include "export/parquet/pq_file.h"
#include "format/parquet.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_ROWS 200000
#define HEAD 3 /* job, rank, batch */
#define PARTS_MAX 100000

_Static_assert(FLEETDB_NONE == OPM_NULL_I64, "what is not known is NULL");

/* The rows of a column that wait to be written. */
union cells {
    int64_t *i64;
    double *f64;
    str_id *str;
    void *any;
};

struct lake {
    struct fleetdb *db;
    const char *folder;
    const struct lake_options *o;
    uint64_t *rows;
    opm_error *err;
    /* The table and job. */
    const struct rollup_def *def;
    const char *job;
    struct u64map parts; /* of ranks: files so far */
    /* The file that is open. */
    bool open;
    int64_t rank;
    struct buf path;
    struct io_out out;
    struct pq_file *file;
    struct pq_column col[ROLLUP_COLUMNS_MAX];
    union cells value[ROLLUP_COLUMNS_MAX];
    size_t n;
    struct strpool texts;
};

static int no_memory(struct lake *l)
{
    return opm__fail(l->err, OPM_ENOMEM, "out of memory");
}

static int ncol(const struct lake *l)
{
    return l->def->ncol - HEAD;
}

static enum pq_kind kind_of(enum rollup_type type)
{
    return type == ROLLUP_STR ? PQ_TEXT : type == ROLLUP_F64 ? PQ_REAL : PQ_INT;
}

/* -- a file -- */

static int put_group(struct lake *l)
{
    int rc = l->n ? pq_group(l->file, l->n) : 0;

    for (int i = 0; i < ncol(l) && rc == 0 && l->n; i++)
        rc = pq_put(l->file, &(struct pq_values){ .i64 = l->value[i].i64,
                                                  .f64 = l->value[i].f64,
                                                  .str = l->value[i].str });
    *l->rows += l->n;
    l->n = 0;
    strpool_release(&l->texts);
    if (rc < 0)
        opm__fail(l->err, rc, "%s: %s", buf_str(&l->path),
                  rc == OPM_ENOMEM ? "out of memory" : "too large for Parquet");
    return rc;
}

static int end_file(struct lake *l, bool keep)
{
    opm_error ignored;
    int rc = 0;

    if (!l->open)
        return 0;
    rc = keep ? put_group(l) : 0;
    if (rc == 0 && keep) {
        pq_fact(l->file, PARQUET_KEY_TABLE, l->def->name);
        rc = pq_end(l->file) < 0 ? no_memory(l) : 0;
    }
    pq_close(l->file);
    l->file = NULL;
    l->open = false;
    keep &= rc == 0;
    return io_out_close(&l->out, keep, keep ? l->err : &ignored) < 0 && keep ? OPM_EIO : rc;
}

static void add_folder(const struct lake *l, int64_t rank, struct buf *path)
{
    buf_clear(path);
    buf_addf(path, "%s/%s/job=", l->folder, l->def->name);
    hive_add_value(path, l->job);
    buf_addf(path, "/rank=%lld", (long long)rank);
}

static void add_file(struct buf *path, uint64_t part)
{
    buf_addf(path, "/part-%llu.parquet", (unsigned long long)part);
}

/* The folder of a rank, with nothing of an earlier export in it. */
static int make_way(struct lake *l, int64_t rank)
{
    int rc = folder_make(buf_str(&l->path), l->err);

    for (uint64_t part = 0; rc == 0 && part < PARTS_MAX; part++) {
        add_folder(l, rank, &l->path);
        add_file(&l->path, part);
        if (l->path.failed)
            return no_memory(l);
        if (access(buf_str(&l->path), F_OK) < 0)
            break;
        if (!l->o->force)
            rc = opm__fail(l->err, OPM_EBUSY,
                           "%s: exists; --force replaces what this job and rank have there",
                           buf_str(&l->path));
        else if (unlink(buf_str(&l->path)) < 0)
            rc = opm__fail(l->err, OPM_EIO, "%s: %s", buf_str(&l->path), strerror(errno));
    }
    return rc;
}

static int begin_file(struct lake *l, int64_t rank)
{
    const uint64_t *had = u64map_get(&l->parts, (uint64_t)rank);
    uint64_t part = had ? *had : 0;
    int rc;

    add_folder(l, rank, &l->path);
    rc = l->path.failed || u64map_put(&l->parts, (uint64_t)rank, part + 1) ? no_memory(l) : 0;
    if (rc == 0 && part == 0)
        rc = make_way(l, rank);
    add_folder(l, rank, &l->path);
    add_file(&l->path, part);
    if (rc == 0)
        rc = l->path.failed ? no_memory(l) : io_out_open(&l->out, buf_str(&l->path), l->err);
    if (rc < 0)
        return rc;
    /* What traces say of machines and command lines is their owner's. */
    if (strcmp(l->def->name, "rank_fact") == 0)
        io_out_private(&l->out);
    for (int i = 0; i < ncol(l); i++)
        l->col[i] =
            (struct pq_column){ l->def->col[HEAD + i].name, kind_of(l->def->col[HEAD + i].type) };
    l->open = true;
    l->rank = rank;
    l->n = 0;
    return pq_open(&l->file, &l->out, &l->texts, l->col, ncol(l)) ? no_memory(l) : 0;
}

/* -- rows -- */

/* First its rank, then its columns behind HEAD. */
static int each_row(void *user, struct fleetrows *rows)
{
    struct lake *l = user;
    int64_t rank = fleetrows_int(rows, 0);
    int rc = 0;

    if (l->o->rank >= 0 && rank != l->o->rank)
        return 0;
    if (!l->open || rank != l->rank) {
        rc = end_file(l, true);
        if (rc == 0)
            rc = begin_file(l, rank);
    }
    for (int i = 0; i < ncol(l) && rc == 0; i++) {
        bool null = fleetrows_type(rows, i + 1) == OPM_TYPE_NULL;
        const char *text;
        size_t len;

        switch (l->col[i].kind) {
        case PQ_TEXT:
            text = null ? NULL : fleetrows_text(rows, i + 1, &len);
            l->value[i].str[l->n] = 0;
            if (text && strpool_intern(&l->texts, text, len, &l->value[i].str[l->n]))
                rc = OPM_ENOMEM;
            break;
        case PQ_REAL:
            l->value[i].f64[l->n] = null ? (double)NAN : fleetrows_real(rows, i + 1);
            break;
        default:
            l->value[i].i64[l->n] = null ? OPM_NULL_I64 : fleetrows_int(rows, i + 1);
        }
    }
    if (rc == 0 && ++l->n == PQ_GROUP_ROWS)
        rc = put_group(l);
    return rc;
}

static void add_select(const struct lake *l, struct buf *sql)
{
    buf_adds(sql, "SELECT rank");
    for (int i = HEAD; i < l->def->ncol; i++)
        buf_addf(sql, ", %s", l->def->col[i].name);
    buf_addf(sql, " FROM %s WHERE job = ", l->def->name);
    fleetdb_quote(l->db, sql, l->job);
    if (l->o->rank >= 0)
        buf_addf(sql, " AND rank = %lld", (long long)l->o->rank);
}

struct batch {
    int64_t number, rows;
};

struct batches {
    struct batch *at;
    size_t n, cap;
};

static int each_batch(void *user, struct fleetrows *rows)
{
    struct batches *b = user;

    if (!GROW(b->at, b->cap, b->n + 1))
        return OPM_ENOMEM;
    b->at[b->n++] = (struct batch){ fleetrows_int(rows, 0), fleetrows_int(rows, 1) };
    return 0;
}

/* Insertions by rank, so many at a time that an answer stays small. */
static int put_parts(struct lake *l)
{
    struct batches b = { 0 };
    struct buf sql = { 0 };
    int rc;

    buf_addf(&sql,
             "SELECT batch, count(*) AS n, min(rank) AS r FROM %s WHERE job = ", l->def->name);
    fleetdb_quote(l->db, &sql, l->job);
    buf_adds(&sql, " GROUP BY batch ORDER BY r, batch");
    rc = ask_sql(l->db, &sql, each_batch, &b, l->err);
    for (size_t i = 0, end; i < b.n && rc == 0; i = end) {
        int64_t rows = 0;

        buf_clear(&sql);
        add_select(l, &sql);
        buf_adds(&sql, " AND batch IN (");
        for (end = i; end < b.n && (end == i || rows + b.at[end].rows <= ANSWER_ROWS); end++) {
            buf_addf(&sql, "%s%lld", end > i ? ", " : "", (long long)b.at[end].number);
            rows += b.at[end].rows;
        }
        buf_addf(&sql, ") ORDER BY rank, %s", l->def->order);
        rc = ask_sql(l->db, &sql, each_row, l, l->err);
    }
    buf_release(&sql);
    mem_free(b.at);
    return rc;
}

static int put_table(struct lake *l)
{
    struct buf sql = { 0 };
    int rc;

    if (fleetdb_answers_whole(l->db)) {
        rc = put_parts(l);
    } else {
        add_select(l, &sql);
        rc = ask_sql(l->db, &sql, each_row, l, l->err);
    }
    if (rc == 0)
        rc = end_file(l, true);
    if (rc < 0)
        end_file(l, false);
    u64map_release(&l->parts);
    buf_release(&sql);
    return rc;
}

/* -- jobs -- */

struct jobs {
    char **at;
    size_t n, cap;
};

static int each_job(void *user, struct fleetrows *rows)
{
    struct jobs *j = user;
    const char *name = fleetrows_text(rows, 0, NULL);

    if (!GROW(j->at, j->cap, j->n + 1))
        return OPM_ENOMEM;
    j->at[j->n] = mem_strdup(name ? name : "");
    return j->at[j->n++] ? 0 : OPM_ENOMEM;
}

static int find_jobs(struct lake *l, struct jobs *j)
{
    struct buf sql = { 0 };
    int rc;

    buf_adds(&sql, "SELECT job FROM rank_file WHERE 1 = 1");
    if (l->o->job) {
        buf_adds(&sql, " AND job = ");
        fleetdb_quote(l->db, &sql, l->o->job);
    }
    if (l->o->rank >= 0)
        buf_addf(&sql, " AND rank = %lld", (long long)l->o->rank);
    buf_adds(&sql, " GROUP BY job ORDER BY job");
    rc = ask_sql(l->db, &sql, each_job, j, l->err);
    buf_release(&sql);
    if (rc == 0 && j->n == 0 && l->o->job)
        rc = opm__fail(l->err, OPM_ENOTFOUND, "%s has no %sjob '%.100s'%s", fleetdb_name(l->db),
                       l->o->rank >= 0 ? "such rank of " : "", l->o->job,
                       l->o->rank >= 0 ? "" : ": 'opmeter job' lists them");
    else if (rc == 0 && j->n == 0)
        rc = opm__fail(l->err, OPM_ENOTFOUND, "%s has no %s", fleetdb_name(l->db),
                       l->o->rank >= 0 ? "such rank" : "ranks of jobs");
    return rc;
}

static int has_table(const char *name, opm_error *err)
{
    for (size_t i = 0; i < ROLLUP_COUNT; i++)
        if (!name || strcmp(rollups[i].name, name) == 0)
            return 0;
    return opm__fail(err, OPM_ENOTFOUND, "no table %s of ranks to write: rank_file, rank_step, ...",
                     name);
}

int lake_write(struct fleetdb *db, const char *folder, const struct lake_options *o, uint64_t *rows,
               opm_error *err)
{
    struct lake l = { .db = db, .folder = folder, .o = o, .rows = rows, .err = err };
    struct jobs jobs = { 0 };
    int rc = has_table(o->table, err);

    *rows = 0;
    if (rc == 0)
        rc = find_jobs(&l, &jobs);
    /* Numbers, reals and ids of texts alike take eight bytes at most. */
    for (int i = 0; i < ROLLUP_COLUMNS_MAX && rc == 0; i++) {
        l.value[i].any = mem_alloc(PQ_GROUP_ROWS * sizeof(int64_t));
        rc = l.value[i].any ? 0 : no_memory(&l);
    }
    for (size_t t = 0; t < ROLLUP_COUNT && rc == 0; t++)
        for (size_t j = 0; j < jobs.n && rc == 0; j++) {
            l.def = &rollups[t];
            l.job = jobs.at[j];
            if (!o->table || strcmp(o->table, l.def->name) == 0)
                rc = put_table(&l);
        }
    for (int i = 0; i < ROLLUP_COLUMNS_MAX; i++)
        mem_free(l.value[i].any);
    for (size_t j = 0; j < jobs.n; j++)
        mem_free(jobs.at[j]);
    mem_free(jobs.at);
    buf_release(&l.path);
    strpool_release(&l.texts);
    return rc;
}
