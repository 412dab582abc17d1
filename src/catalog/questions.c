/* questions.c -- see questions.h. */
#include "catalog/questions.h"

#include "base/alloc.h"
#include "base/error.h"
#include "catalog/recordings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUESTION(name, doc) static const struct answer_column name##_columns[] = {
#define QCOL(name, column, type, doc) { #column, ANSWER_##type, doc },
#define QEND(name) \
    }              \
    ;
#include "catalog/questions.def"
#undef QUESTION
#undef QCOL
#undef QEND

const struct question questions[ASK_COUNT] = {
#define QUESTION(name, doc) \
    [ASK_##name] = { #name, doc, name##_columns, (int)ARRAY_SIZE(name##_columns), ask_##name },
#define QCOL(name, column, type, doc)
#define QEND(name)
#include "catalog/questions.def"
#undef QUESTION
#undef QCOL
#undef QEND
};

const struct question *question_find(const char *name)
{
    for (size_t i = 0; i < ASK_COUNT; i++)
        if (strcmp(questions[i].name, name) == 0)
            return &questions[i];
    return NULL;
}

static int count_rows(void *user, struct fleetrows *rows)
{
    *(int64_t *)user = fleetrows_int(rows, 0);
    return 0;
}

int question_ask(const struct question *q, struct fleetdb *db, const char *job, struct answer *out,
                 opm_error *err)
{
    int64_t n = 1;
    int rc = 0;

    *out = (struct answer){ .col = q->col, .ncol = q->ncol };
    if (job)
        rc = ask_rows(db, job, count_rows, &n, err, "SELECT count(*) FROM rank_file WHERE job = %s",
                      ASK_JOB);
    if (rc == 0 && n == 0)
        rc = opm__fail(err, OPM_ENOTFOUND, "%s has no job '%.100s': 'opmeter job %s' lists them",
                       fleetdb_name(db), job, fleetdb_name(db));
    return rc < 0 ? rc : q->ask(db, job, out, err);
}

void answer_release(struct answer *a)
{
    mem_free(a->cell);
    arena_release(&a->text);
    *a = (struct answer){ 0 };
}

struct answer_cell *answer_add(struct answer *a)
{
    struct answer_cell *row;

    if (!GROW(a->cell, a->cap, (a->nrow + 1) * (size_t)a->ncol))
        return NULL;
    row = &a->cell[a->nrow++ * (size_t)a->ncol];
    for (int c = 0; c < a->ncol; c++)
        row[c] = (struct answer_cell){ FLEETDB_NONE, NAN, NULL };
    return row;
}

const char *answer_keep(struct answer *a, const char *text)
{
    return arena_strndup(&a->text, text ? text : "", text ? strlen(text) : 0);
}

void answer_sort(struct answer *a, int (*order)(const void *, const void *))
{
    if (a->nrow)
        qsort(a->cell, a->nrow, (size_t)a->ncol * sizeof(*a->cell), order);
}

void answer_cut(struct answer *a, size_t nrow)
{
    a->nrow = MIN(a->nrow, nrow);
}

int ask_sql(struct fleetdb *db, const struct buf *sql, ask_each *each, void *user, opm_error *err)
{
    struct fleetrows *rows = NULL;
    int rc = sql->failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                         : fleetdb_query(db, buf_str(sql), &rows, err);

    while (rc == 0) {
        rc = fleetrows_next(rows, err);
        if (rc != 1)
            break;
        rc = each(user, rows);
        if (rc == OPM_ENOMEM)
            opm__fail(err, rc, "out of memory");
    }
    fleetrows_close(rows);
    return rc;
}

int ask_rows(struct fleetdb *db, const char *job, ask_each *each, void *user, opm_error *err,
             const char *fmt, ...)
{
    struct buf sql = { 0 };
    char text[2000];
    const char *from = text;
    const struct left_out *left_out = NULL;
    va_list ap;
    int rc = job ? left_out_get(db, job, &left_out, err) : 0, n;

    if (rc < 0)
        return rc;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (const char *at = strstr(from, ASK_JOB); at; at = strstr(from, ASK_JOB)) {
        buf_add(&sql, from, (size_t)(at - from));
        fleetdb_quote(db, &sql, job ? job : "");
        buf_adds(&sql, left_out ? buf_str(&left_out->sql) : "");
        from = at + strlen(ASK_JOB);
    }
    buf_adds(&sql, from);
    sql.failed |= n < 0 || (size_t)n >= sizeof(text);
    rc = ask_sql(db, &sql, each, user, err);
    buf_release(&sql);
    return rc;
}

/* -- machines -- */

static int each_host(void *user, struct fleetrows *rows)
{
    struct rank_hosts *h = user;
    const char *host = fleetrows_text(rows, 1, NULL);

    if (!GROW(h->at, h->cap, h->n + 1))
        return OPM_ENOMEM;
    h->at[h->n++] =
        (struct rank_host){ fleetrows_int(rows, 0),
                            arena_strndup(&h->text, host ? host : "", host ? strlen(host) : 0) };
    return h->at[h->n - 1].host ? 0 : OPM_ENOMEM;
}

int rank_hosts_get(struct rank_hosts *h, struct fleetdb *db, const char *job, opm_error *err)
{
    *h = (struct rank_hosts){ 0 };
    return ask_rows(db, job, each_host, h, err,
                    "SELECT rank, max(host) AS machine_name FROM rank_file WHERE job = %s"
                    " GROUP BY rank ORDER BY rank",
                    ASK_JOB);
}

static int by_rank(const void *va, const void *vb)
{
    const struct rank_host *a = va, *b = vb;

    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

const char *rank_hosts_at(const struct rank_hosts *h, int64_t rank)
{
    const struct rank_host key = { .rank = rank };
    const struct rank_host *found = h->n ? bsearch(&key, h->at, h->n, sizeof(key), by_rank) : NULL;

    return found ? found->host : "";
}

void rank_hosts_release(struct rank_hosts *h)
{
    mem_free(h->at);
    arena_release(&h->text);
    *h = (struct rank_hosts){ 0 };
}
