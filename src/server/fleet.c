/* fleet.c -- see fleet.h. */
#include "server/fleet.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include "catalog/questions.h"
#include "catalog/runsdb.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELDS_MAX 40000 /* of a heat map */
#define ROWS_MAX 100000

struct fleets {
    struct fleet {
        char *where;
        char *folder; /* that traces may lie in, without links; NULL: none */
    } * item;
    size_t n;
};

bool fleet_is_url(const char *path)
{
    return fleetdb_is_url(path);
}

/* The folder that a database lies in. */
static char *folder_of(const char *path)
{
    char *resolved = realpath(path, NULL), *own;

    if (!resolved)
        return NULL;
    *strrchr(resolved, '/') = '\0';
    own = mem_strdup(*resolved ? resolved : "/");
    free(resolved); /* realpath() allocated it */
    return own;
}

int fleets_new(struct fleets **out, const char *const *paths, size_t npaths, opm_error *err)
{
    struct fleets *f = mem_calloc(1, sizeof(*f));
    int rc = 0;

    if (f)
        f->item = mem_calloc(npaths + 1, sizeof(*f->item));
    *out = f;
    if (!f || !f->item)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    for (size_t i = 0; i < npaths && rc == 0; i++) {
        struct fleet *item = &f->item[f->n];
        struct fleetdb *db = NULL;

        if (!fleetdb_is_url(paths[i]) && !runsdb_is(paths[i]))
            continue;
        rc = fleetdb_open(&db, paths[i], FLEETDB_READ, err);
        if (rc < 0)
            break;
        item->where = mem_strdup(paths[i]);
        item->folder = fleetdb_is_url(paths[i]) ? NULL : folder_of(paths[i]);
        fleetdb_close(db);
        f->n++;
        if (!item->where)
            rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    return rc;
}

void fleets_free(struct fleets *f)
{
    if (!f)
        return;
    for (size_t i = 0; f->item && i < f->n; i++) {
        mem_free(f->item[i].where);
        mem_free(f->item[i].folder);
    }
    mem_free(f->item);
    mem_free(f);
}

/* Whether a file, which may have runs alone, has jobs. */
static bool has_jobs(const struct fleet *f)
{
    struct fleetrows *rows = NULL;
    struct fleetdb *db = NULL;
    bool any = fleetdb_open(&db, f->where, FLEETDB_READ, NULL) == 0 &&
               fleetdb_query(db, "SELECT job FROM job LIMIT 1", &rows, NULL) == 0 &&
               fleetrows_next(rows, NULL) == 1;

    fleetrows_close(rows);
    fleetdb_close(db);
    return any;
}

size_t fleets_count(const struct fleets *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        n += fleetdb_is_url(f->item[i].where) || has_jobs(&f->item[i]);
    return n;
}

/* Open the database of an id, which is its number. */
static int open_fleet(const struct fleets *f, const char *id, struct fleet **fleet,
                      struct fleetdb **out, opm_error *err)
{
    char *end;
    unsigned long i = strtoul(id, &end, 10);

    *out = NULL;
    if (!*id || *end || i >= f->n)
        return opm__fail(err, OPM_ENOTFOUND, "no such database");
    *fleet = &f->item[i];
    return fleetdb_open(out, f->item[i].where, FLEETDB_READ, err);
}

void fleets_list(const struct fleets *f, struct json_writer *w)
{
    char id[24];

    json_array(w);
    for (size_t i = 0; i < f->n; i++) {
        struct fleetdb *db = NULL;

        snprintf(id, sizeof(id), "%zu", i);
        json_object(w);
        json_key(w, "id");
        json_cstr(w, id);
        json_key(w, "name"); /* without a password */
        json_cstr(w, fleetdb_open(&db, f->item[i].where, FLEETDB_READ, NULL) == 0 ? fleetdb_name(db)
                     : fleetdb_is_url(f->item[i].where)                           ? "ClickHouse"
                                                        : f->item[i].where);
        json_object_end(w);
        fleetdb_close(db);
    }
    json_array_end(w);
}

static void add_int(struct json_writer *w, int64_t v)
{
    char text[24];

    if (v == FLEETDB_NONE) {
        json_null(w);
    } else if (v > -(INT64_C(1) << 53) && v < INT64_C(1) << 53) {
        json_i64(w, v);
    } else { /* JavaScript would round it */
        snprintf(text, sizeof(text), "%" PRId64, v);
        json_cstr(w, text);
    }
}

static void add_real(struct json_writer *w, double v)
{
    if (isfinite(v))
        json_f64(w, v);
    else
        json_null(w);
}

static int add_jobs(struct json_writer *w, struct fleetrows *rows, opm_error *err)
{
    int n = fleetrows_columns(rows), more;
    int64_t nrow = 0;

    json_object(w);
    json_key(w, "columns");
    json_array(w);
    for (int i = 0; i < n; i++)
        json_cstr(w, fleetrows_name(rows, i));
    json_array_end(w);
    json_key(w, "rows");
    json_array(w);
    for (more = fleetrows_next(rows, err); more > 0 && nrow < ROWS_MAX;
         more = fleetrows_next(rows, err), nrow++) {
        json_array(w);
        for (int i = 0; i < n; i++) {
            enum opm_type type = fleetrows_type(rows, i);

            if (type == OPM_TYPE_TEXT)
                json_cstr(w, fleetrows_text(rows, i, NULL));
            else if (type == OPM_TYPE_REAL)
                add_real(w, fleetrows_real(rows, i));
            else
                add_int(w, type == OPM_TYPE_NULL ? FLEETDB_NONE : fleetrows_int(rows, i));
        }
        json_array_end(w);
    }
    json_array_end(w);
    json_key(w, "truncated");
    json_bool(w, more > 0);
    json_object_end(w);
    return MIN(more, 0);
}

int fleet_jobs(const struct fleets *f, const char *id, struct json_writer *w, opm_error *err)
{
    struct fleetrows *rows = NULL;
    struct fleetdb *db;
    struct fleet *fleet;
    int rc = open_fleet(f, id, &fleet, &db, err);

    if (rc == 0)
        rc = fleetdb_query(db,
                           "SELECT job, ranks, hosts, world, recordings, spans, first_ns, last_ns,"
                           " model FROM job ORDER BY latest_ns DESC, job",
                           &rows, err);
    if (rc == 0)
        rc = add_jobs(w, rows, err);
    fleetrows_close(rows);
    fleetdb_close(db);
    return rc;
}

/* Of several steps in one field of the map, the row that tells most: what cost the job most, else
 * where the rank waited least. */
static bool tells_more(const struct answer *a, size_t row, size_t than)
{
    const struct answer_cell *x = answer_at(a, row, 0), *y = answer_at(a, than, 0);

    if (x[heatmap_col_cost_ns].i != y[heatmap_col_cost_ns].i)
        return x[heatmap_col_cost_ns].i > y[heatmap_col_cost_ns].i;
    return x[heatmap_col_waited_ns].i < y[heatmap_col_waited_ns].i;
}

/* What the page shows of a field besides its row: how much later than the first of its step the
 * rank came, which shows in what it waited less than that one; and the first step of its column. */
struct field {
    int64_t late_ns, first;
};

static void find_late(const struct answer *a, struct field *field)
{
    for (size_t i = 0, end; i < a->nrow; i = end) {
        int64_t num = answer_at(a, i, heatmap_col_num)->i, most = 0;

        for (end = i; end < a->nrow && answer_at(a, end, heatmap_col_num)->i == num; end++)
            most = MAX(most, answer_at(a, end, heatmap_col_waited_ns)->i);
        for (size_t k = i; k < end; k++) {
            int64_t waited = answer_at(a, k, heatmap_col_waited_ns)->i;

            field[k] = (struct field){ waited == FLEETDB_NONE ? FLEETDB_NONE : most - waited, num };
        }
    }
}

/* Put steps together, *bin of them, whose rows come one after the other, so that the map can be
 * drawn. */
static int thin_map(struct answer *a, struct field *field, int64_t *bin, opm_error *err)
{
    struct u64map at = { 0 }; /* of the field of each rank, in the steps that are put together */
    size_t kept = 0, step = 0;
    int64_t first = a->nrow ? field[0].first : 0, last = first;
    int rc = 0;

    *bin = (int64_t)(1 + a->nrow / FIELDS_MAX);
    for (size_t i = 0; *bin > 1 && i < a->nrow && rc == 0; i++) {
        uint64_t rank = (uint64_t)answer_at(a, i, heatmap_col_rank)->i, *before;
        struct field own = field[i];
        size_t to;

        if (i && own.first != last && ++step % (size_t)*bin == 0) {
            u64map_release(&at);
            first = own.first;
        }
        last = own.first;
        before = u64map_get(&at, rank);
        to = before ? (size_t)*before : kept;
        if (before && !tells_more(a, i, to))
            continue;
        if (!before)
            rc = u64map_put(&at, rank, kept++);
        memmove(&a->cell[to * (size_t)a->ncol], &a->cell[i * (size_t)a->ncol],
                (size_t)a->ncol * sizeof(*a->cell));
        own.first = first;
        field[to] = own;
    }
    if (*bin > 1)
        answer_cut(a, kept);
    u64map_release(&at);
    return rc ? opm__fail(err, rc, "out of memory") : 0;
}

/* field: of a heat map, else NULL. */
static void add_answer(struct json_writer *w, const struct answer *a, const struct field *field,
                       int64_t bin)
{
    size_t n = MIN(a->nrow, (size_t)ROWS_MAX);

    json_object(w);
    json_key(w, "columns");
    json_array(w);
    for (int c = 0; c < a->ncol; c++)
        json_cstr(w, a->col[c].name);
    if (field) {
        json_cstr(w, "late_ns");
        json_cstr(w, "first");
    }
    json_array_end(w);
    json_key(w, "rows");
    json_array(w);
    for (size_t i = 0; i < n; i++) {
        json_array(w);
        for (int c = 0; c < a->ncol; c++) {
            const struct answer_cell *cell = answer_at(a, i, c);

            if (a->col[c].type == ANSWER_TEXT)
                json_cstr(w, cell->text);
            else if (a->col[c].type == ANSWER_INT)
                add_int(w, cell->i);
            else
                add_real(w, cell->f);
        }
        if (field) {
            add_int(w, field[i].late_ns);
            add_int(w, field[i].first);
        }
        json_array_end(w);
    }
    json_array_end(w);
    json_key(w, "truncated");
    json_bool(w, n < a->nrow);
    json_key(w, "bin");
    json_i64(w, bin);
    json_object_end(w);
}

int fleet_ask(const struct fleets *f, const char *id, const char *job, const char *question,
              struct json_writer *w, opm_error *err)
{
    const struct question *q = question_find(question);
    struct answer a = { 0 };
    struct fleetdb *db;
    struct field *field = NULL;
    struct fleet *fleet;
    int64_t bin = 1;
    int rc = q ? open_fleet(f, id, &fleet, &db, err)
               : opm__fail(err, OPM_ENOTFOUND, "no such question; docs/http.md lists them");

    if (!q)
        return rc;
    if (rc == 0)
        rc = question_ask(q, db, job, &a, err);
    if (rc == 0 && q == &questions[ASK_heatmap]) {
        field = mem_calloc(a.nrow + 1, sizeof(*field));
        if (field)
            find_late(&a, field);
        rc = field ? thin_map(&a, field, &bin, err) : opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    if (rc == 0)
        add_answer(w, &a, field, bin);
    mem_free(field);
    answer_release(&a);
    fleetdb_close(db);
    return rc;
}

int fleet_open_rank(const struct fleets *f, struct catalog *c, const char *id, const char *job,
                    int64_t rank, struct json_writer *w, opm_error *err)
{
    struct answer a = { 0 };
    struct fleetdb *db;
    struct fleet *fleet;
    const struct answer_cell *row = NULL;
    char trace[CATALOG_ID_ROOM];
    const char *path = NULL;
    int rc = open_fleet(f, id, &fleet, &db, err);

    if (rc == 0)
        rc = question_ask(&questions[ASK_ranks], db, job, &a, err);
    for (size_t i = 0; rc == 0 && i < a.nrow; i++)
        if (answer_at(&a, i, ranks_col_rank)->i == rank)
            row = answer_at(&a, i, 0);
    if (rc == 0 && !row)
        rc = opm__fail(err, OPM_ENOTFOUND, "job %s has no rank %" PRId64, job, rank);
    path = row ? row[ranks_col_trace].text : NULL;
    if (rc == 0 && (!path || *path != '/' || access(path, F_OK) < 0))
        rc = opm__fail(err, OPM_ENOTFOUND,
                       "the trace of rank %" PRId64 " lies on %s, at %s, and is not here", rank,
                       row[ranks_col_host].text ? row[ranks_col_host].text : "another machine",
                       path ? path : "no known place");
    if (rc == 0)
        rc = catalog_add_inside(c, path, fleet->folder, trace, err);
    if (rc == 0) {
        json_object(w);
        json_key(w, "id");
        json_cstr(w, trace);
        json_object_end(w);
    }
    answer_release(&a);
    fleetdb_close(db);
    return rc;
}
