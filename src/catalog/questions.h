/* questions.h -- what can be asked of a job, and the answers: tables with the columns of
 * questions.def, the same on every database. */
#ifndef CATALOG_QUESTIONS_H
#define CATALOG_QUESTIONS_H

#include "base/arena.h"
#include "catalog/fleetdb.h"

enum question_id {
#define QUESTION(name, doc) ASK_##name,
#define QCOL(name, column, type, doc)
#define QEND(name)
#include "catalog/questions.def"
#undef QUESTION
#undef QCOL
#undef QEND
    ASK_COUNT,
};

/* late_col_rank, ...: number of a column in the rows of an answer. */
#define QUESTION(name, doc) \
    enum ask_##name##_cols  \
    {
#define QCOL(name, column, type, doc) name##_col_##column,
#define QEND(name)   \
    name##_col_COUNT \
    }                \
    ;
#include "catalog/questions.def"
#undef QUESTION
#undef QCOL
#undef QEND

enum answer_type { ANSWER_INT, ANSWER_REAL, ANSWER_SHARE, ANSWER_TEXT };

struct answer_column {
    const char *name;
    enum answer_type type;
    const char *doc;
};

/* By the type of its column; an INT that is FLEETDB_NONE, a REAL that is NAN and a NULL text are
 * not known. */
struct answer_cell {
    int64_t i;
    double f;
    const char *text;
};

/* `struct answer a = {0}` is empty; release it in any case. */
struct answer {
    const struct answer_column *col;
    int ncol;
    struct answer_cell *cell; /* [nrow * ncol] */
    size_t nrow, cap;
    struct arena text;
};

struct question {
    const char *name, *doc;
    const struct answer_column *col;
    int ncol;
    int (*ask)(struct fleetdb *db, const char *job, struct answer *out, opm_error *err);
};

extern const struct question questions[ASK_COUNT];
const struct question *question_find(const char *name); /* NULL: there is none */

/* `job` NULL: all of them, where that makes sense (hosts). OPM_ENOTFOUND: there is no such job. */
int question_ask(const struct question *q, struct fleetdb *db, const char *job, struct answer *out,
                 opm_error *err);
void answer_release(struct answer *a);
static inline const struct answer_cell *answer_at(const struct answer *a, size_t row, int col)
{
    return &a->cell[row * (size_t)a->ncol + (size_t)col];
}

/* For those who answer. A new row, all of it unknown; NULL when out of memory. */
struct answer_cell *answer_add(struct answer *a);
const char *answer_keep(struct answer *a, const char *text); /* a copy; NULL when out of memory */
void answer_sort(struct answer *a, int (*order)(const void *, const void *));
void answer_cut(struct answer *a, size_t nrow);

/* Run SQL that is made as printf() does; ASK_JOB in it, behind "job = ", becomes the job as a text
 * in quotes, and what leaves out recordings that do not count (recordings.h). */
#define ASK_JOB "\x01"
typedef int ask_each(void *user, struct fleetrows *rows);
__attribute__((format(printf, 6, 7))) int ask_rows(struct fleetdb *db, const char *job,
                                                   ask_each *each, void *user, opm_error *err,
                                                   const char *fmt, ...);
/* Run SQL that is complete. */
int ask_sql(struct fleetdb *db, const struct buf *sql, ask_each *each, void *user, opm_error *err);

/* Machines of ranks. */
struct rank_hosts {
    struct rank_host {
        int64_t rank;
        const char *host;
    } * at;
    size_t n, cap;
    struct arena text;
};
int rank_hosts_get(struct rank_hosts *h, struct fleetdb *db, const char *job, opm_error *err);
const char *rank_hosts_at(const struct rank_hosts *h, int64_t rank); /* "" if unknown */
void rank_hosts_release(struct rank_hosts *h);

#define QUESTION(name, doc) \
    int ask_##name(struct fleetdb *db, const char *job, struct answer *out, opm_error *err);
#define QCOL(name, column, type, doc)
#define QEND(name)
#include "catalog/questions.def"
#undef QUESTION
#undef QCOL
#undef QEND

#endif
