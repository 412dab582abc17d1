/* rows.c -- query a trace; see opmeter_trace.h. */
#include "public/trace/trace.h"

#include "base/alloc.h"
#include "base/error.h"

struct opm_rows {
    opm_trace *trace;
    struct sql_rows *rows;
};

int opm_trace_query(opm_trace *t, const char *sql, opm_rows **out, opm_error *err)
{
    opm_rows *r;
    int rc;

    if (!t || !sql || !out)
        return opm__fail(err, OPM_EINVAL, "opm_trace_query: %s is NULL",
                         !t    ? "t"
                         : sql ? "out"
                               : "sql");
    r = mem_calloc(1, sizeof(*r));
    if (!r)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    rc = sql_query(t->sql, sql, &r->rows, err);
    if (rc < 0) {
        mem_free(r);
        return rc;
    }
    r->trace = t;
    t->refs++;
    *out = r;
    return 0;
}

int opm_rows_next(opm_rows *r, opm_error *err)
{
    if (!r)
        return opm__fail(err, OPM_EINVAL, "opm_rows_next: r is NULL");
    return sql_rows_next(r->rows, err);
}

int opm_rows_columns(const opm_rows *r)
{
    return r ? sql_rows_columns(r->rows) : 0;
}

const char *opm_rows_name(const opm_rows *r, int col)
{
    return r ? sql_rows_name(r->rows, col) : NULL;
}

enum opm_type opm_rows_type(const opm_rows *r, int col)
{
    static const enum opm_type types[] = { [SQL_NULL] = OPM_TYPE_NULL,
                                           [SQL_INT] = OPM_TYPE_INT,
                                           [SQL_REAL] = OPM_TYPE_REAL,
                                           [SQL_TEXT] = OPM_TYPE_TEXT };

    return r ? types[sql_rows_type(r->rows, col)] : OPM_TYPE_NULL;
}

int64_t opm_rows_int(const opm_rows *r, int col)
{
    return r ? sql_rows_int(r->rows, col) : 0;
}

double opm_rows_real(const opm_rows *r, int col)
{
    return r ? sql_rows_real(r->rows, col) : 0;
}

const char *opm_rows_text(const opm_rows *r, int col, size_t *out_len)
{
    if (r)
        return sql_rows_text(r->rows, col, out_len);
    if (out_len)
        *out_len = 0;
    return NULL;
}

void opm_rows_close(opm_rows *r)
{
    if (!r)
        return;
    sql_rows_close(r->rows);
    trace_unref(r->trace);
    mem_free(r);
}
