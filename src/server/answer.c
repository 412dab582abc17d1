/* answer.c -- see answer.h. */
#include "server/answer.h"

#include "base/alloc.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FLAME_PARTS 2000             /* narrower nodes of a flame graph cannot be seen */
#define EXACT_MAX ((int64_t)1 << 53) /* JavaScript's numbers are exact up to here */

static void add_int(struct json_writer *w, int64_t v)
{
    char text[24];

    if (v <= EXACT_MAX && v >= -EXACT_MAX) {
        json_i64(w, v);
    } else {
        snprintf(text, sizeof(text), "%" PRId64, v);
        json_cstr(w, text);
    }
}

static void add_cell(struct json_writer *w, const opm_rows *r, int col)
{
    const char *text;
    size_t len;

    switch (opm_rows_type(r, col)) {
    case OPM_TYPE_INT:
        add_int(w, opm_rows_int(r, col));
        break;
    case OPM_TYPE_REAL:
        json_f64(w, opm_rows_real(r, col));
        break;
    case OPM_TYPE_TEXT:
        text = opm_rows_text(r, col, &len);
        json_str(w, text, len);
        break;
    case OPM_TYPE_NULL:
        json_null(w);
        break;
    }
}

/* A column is what the most general of its values is. */
static const char *const type_names[] = { [OPM_TYPE_NULL] = "null",
                                          [OPM_TYPE_INT] = "integer",
                                          [OPM_TYPE_REAL] = "real",
                                          [OPM_TYPE_TEXT] = "text" };

static size_t written(const struct json_writer *w)
{
    return w->buf ? w->buf->len : w->out->total;
}

/* Up to `limit` rows as arrays. 1: there would be more. */
static int add_rows(struct json_writer *w, opm_rows *r, enum opm_type *type, int64_t limit,
                    opm_error *err)
{
    size_t start = written(w);
    int64_t n = 0;
    int more;

    for (more = opm_rows_next(r, err); more > 0; more = opm_rows_next(r, err)) {
        if (n++ == limit || written(w) - start > ANSWER_MAX_BYTES)
            return 1;
        json_array(w);
        for (int c = 0; c < opm_rows_columns(r); c++) {
            type[c] = MAX(type[c], opm_rows_type(r, c));
            add_cell(w, r, c);
        }
        json_array_end(w);
    }
    return more;
}

static int add_table(struct json_writer *w, opm_rows *r, enum opm_type *type, int64_t limit,
                     opm_error *err)
{
    int more, ncol = opm_rows_columns(r);

    json_object(w);
    json_key(w, "columns");
    json_array(w);
    for (int c = 0; c < ncol; c++)
        json_cstr(w, opm_rows_name(r, c));
    json_array_end(w);
    json_key(w, "rows");
    json_array(w);
    more = add_rows(w, r, type, limit, err);
    json_array_end(w);
    json_key(w, "types");
    json_array(w);
    for (int c = 0; c < ncol; c++)
        json_cstr(w, type_names[type[c]]);
    json_array_end(w);
    json_key(w, "truncated");
    json_bool(w, more > 0);
    json_object_end(w);
    return MIN(more, 0);
}

int answer_rows(struct json_writer *w, opm_trace *t, const char *sql, int64_t limit, opm_error *err)
{
    opm_rows *r = NULL;
    enum opm_type *type;
    int rc = opm_trace_query(t, sql, &r, err);

    if (rc < 0)
        return rc;
    type = mem_calloc((size_t)opm_rows_columns(r) + 1, sizeof(*type));
    rc = type ? add_table(w, r, type, limit, err) : opm__fail(err, OPM_ENOMEM, "out of memory");
    mem_free(type);
    opm_rows_close(r);
    return rc;
}

struct answer_column {
    const char *name, *type;
};

/* "columns": [...], "rows": [ */
static void begin_rows(struct json_writer *w, const struct answer_column *column, size_t n)
{
    json_key(w, "columns");
    json_array(w);
    for (size_t i = 0; i < n; i++)
        json_cstr(w, column[i].name);
    json_array_end(w);
    json_key(w, "rows");
    json_array(w);
}

/* ], "types": [...], "truncated": ... } */
static void end_rows(struct json_writer *w, const struct answer_column *column, size_t n,
                     bool truncated)
{
    json_array_end(w);
    json_key(w, "types");
    json_array(w);
    for (size_t i = 0; i < n; i++)
        json_cstr(w, column[i].type);
    json_array_end(w);
    json_key(w, "truncated");
    json_bool(w, truncated);
    json_object_end(w);
}

int answer_totals(struct json_writer *w, opm_trace *t, int64_t from_ns, int64_t to_ns,
                  int64_t limit, opm_error *err)
{
    static const struct answer_column columns[] = {
        { "name", "text" },     { "cat", "text" },         { "layer", "text" },
        { "count", "integer" }, { "total_ns", "integer" }, { "self_ns", "integer" },
    };
    opm_total *total = NULL;
    size_t n = 0;
    int rc = opm_trace_totals(t, from_ns, to_ns, &total, &n, err);

    if (rc < 0)
        return rc;
    json_object(w);
    begin_rows(w, columns, ARRAY_SIZE(columns));
    for (size_t i = 0; i < MIN(n, (size_t)limit); i++) {
        json_array(w);
        json_cstr(w, total[i].name);
        json_cstr(w, total[i].cat);
        json_cstr(w, total[i].layer);
        add_int(w, total[i].count);
        add_int(w, total[i].total_ns);
        add_int(w, total[i].self_ns);
        json_array_end(w);
    }
    end_rows(w, columns, ARRAY_SIZE(columns), n > (size_t)limit);
    opm_totals_free(total);
    return 0;
}

int answer_flame(struct json_writer *w, opm_trace *t, int64_t from_ns, int64_t to_ns, int64_t track,
                 opm_error *err)
{
    static const struct answer_column columns[] = {
        { "parent", "integer" },
        { "name", "text" },
        { "count", "integer" },
        { "total_ns", "integer" },
    };
    opm_flame *node = NULL;
    size_t n = 0;
    int rc = opm_trace_flame(t, from_ns, to_ns, track, FLAME_PARTS, &node, &n, err);

    if (rc < 0)
        return rc;
    json_object(w);
    begin_rows(w, columns, ARRAY_SIZE(columns));
    for (size_t i = 0; i < n; i++) {
        json_array(w);
        add_int(w, node[i].parent);
        json_cstr(w, node[i].name);
        add_int(w, node[i].count);
        add_int(w, node[i].total_ns);
        json_array_end(w);
    }
    end_rows(w, columns, ARRAY_SIZE(columns), false);
    opm_flame_free(node);
    return 0;
}

static void add_diff_row(struct json_writer *w, const struct diff_row *r)
{
    json_array(w);
    json_cstr(w, r->name);
    json_cstr(w, r->type);
    for (int s = 0; s < DIFF_SIDES; s++) {
        if (r->there[s])
            json_f64(w, r->ns[s]);
        else
            json_null(w);
    }
    json_cstr(w, diff_state(r));
    for (int s = 0; s < DIFF_SIDES; s++)
        json_cstr(w, r->op_name[s]);
    json_array_end(w);
}

void answer_diff(struct json_writer *w, const struct diff *d)
{
    static const struct answer_column columns[] = {
        { "name", "text" },  { "type", "text" }, { "a_ns", "real" }, { "b_ns", "real" },
        { "state", "text" }, { "a_op", "text" }, { "b_op", "text" },
    };
    const struct diff_row total = diff_total(d);

    json_object(w);
    json_key(w, "spans");
    json_bool(w, d->spans);
    json_key(w, "iterations");
    json_array(w);
    for (int s = 0; s < DIFF_SIDES; s++)
        json_i64(w, d->iterations[s]);
    json_array_end(w);
    json_key(w, "alone");
    json_array(w);
    for (int s = 0; s < DIFF_SIDES; s++)
        json_f64(w, d->total_ns[s] > 0 ? d->alone_ns[s] / d->total_ns[s] : 0);
    json_array_end(w);
    json_key(w, "tail");
    if (d->tail.n[DIFF_A] && d->tail.n[DIFF_B])
        json_cstr(w, diff_tail_state(&d->tail));
    else
        json_null(w);
    json_key(w, "total");
    add_diff_row(w, &total);
    begin_rows(w, columns, ARRAY_SIZE(columns));
    for (size_t i = 0; i < MIN(d->n, ANSWER_ROWS_MAX); i++)
        add_diff_row(w, &d->row[i]);
    end_rows(w, columns, ARRAY_SIZE(columns), d->n > ANSWER_ROWS_MAX);
}

int answer_int(opm_trace *t, const char *sql, int64_t *out, opm_error *err)
{
    opm_rows *r = NULL;
    int rc = opm_trace_query(t, sql, &r, err), more;

    if (rc < 0)
        return rc;
    more = opm_rows_next(r, err);
    *out = more > 0 && opm_rows_type(r, 0) != OPM_TYPE_NULL ? opm_rows_int(r, 0) : -1;
    opm_rows_close(r);
    return MIN(more, 0);
}

int answer_text(opm_trace *t, const char *sql, struct buf *out, opm_error *err)
{
    opm_rows *r = NULL;
    int rc = opm_trace_query(t, sql, &r, err), more;
    const char *text;
    size_t len;

    if (rc < 0)
        return rc;
    more = opm_rows_next(r, err);
    text = more > 0 ? opm_rows_text(r, 0, &len) : NULL;
    if (text)
        buf_add(out, text, len);
    opm_rows_close(r);
    return MIN(more, 0);
}

/* The tables of the schema, in its order, each with its number of rows. */
static int add_counts(struct json_writer *w, opm_trace *t, opm_error *err)
{
    opm_rows *r = NULL;
    struct buf sql = { 0 };
    int64_t n = 0;
    int rc =
        opm_trace_query(t, "SELECT DISTINCT table_name FROM schema WHERE kind = 'table'", &r, err);

    if (rc < 0)
        return rc;
    while (rc == 0) {
        int more = opm_rows_next(r, err);

        if (more <= 0) {
            rc = more;
            break;
        }
        n = opm_trace_rows(t, opm_rows_text(r, 0, NULL));
        if (n < 0) { /* made for SQL, and small */
            buf_clear(&sql);
            buf_addf(&sql, "SELECT count(*) FROM \"%s\"", opm_rows_text(r, 0, NULL));
            rc = sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                            : answer_int(t, buf_str(&sql), &n, err);
        }
        json_key(w, opm_rows_text(r, 0, NULL));
        json_i64(w, n);
    }
    opm_rows_close(r);
    buf_release(&sql);
    return rc;
}

int answer_facts(struct json_writer *w, opm_trace *t, const char *path, opm_error *err)
{
    const char *slash = strrchr(path, '/');
    struct buf name = { 0 };
    int rc = answer_text(t, "SELECT value FROM meta WHERE key = 'model.name' AND value <> ''",
                         &name, err);

    if (rc == 0) {
        json_key(w, "name");
        json_cstr(w, name.len ? buf_str(&name) : slash && slash[1] ? slash + 1 : path);
        json_key(w, "duration_ns");
        json_i64(w, opm_trace_end(t));
        json_key(w, "rows");
        json_object(w);
        rc = add_counts(w, t, err);
        json_object_end(w);
    }
    buf_release(&name);
    return rc;
}
