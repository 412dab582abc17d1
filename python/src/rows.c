/* rows.c -- rows of a query as Python objects.
 *
 * Rows are fetched in batches without the GIL, and made into objects with it: a query that works
 * long lets other threads run, and one that has many rows does not pass the GIL around per row. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_ROWS 512

struct cell {
    enum opm_type type;
    union {
        int64_t i;
        double r;
        struct {
            size_t at; /* in batch.text */
            size_t len;
        } s;
    } u;
};

struct batch {
    struct cell *cells; /* BATCH_ROWS rows of `columns` */
    char *text;
    size_t text_len;
    size_t text_cap;
    int columns;
    int rows;
};

static int batch_text(struct batch *b, struct cell *c, const char *p, size_t len)
{
    if (b->text_cap - b->text_len < len) {
        size_t cap = (b->text_len + len) * 2 + 4096;
        char *grown = realloc(b->text, cap);

        if (!grown)
            return OPM_ENOMEM;
        b->text = grown;
        b->text_cap = cap;
    }
    if (len)
        memcpy(b->text + b->text_len, p, len);
    c->u.s.at = b->text_len;
    c->u.s.len = len;
    b->text_len += len;
    return 0;
}

static int batch_cell(struct batch *b, struct cell *c, const opm_rows *rows, int col)
{
    const char *text;
    size_t len = 0;

    c->type = opm_rows_type(rows, col);
    switch (c->type) {
    case OPM_TYPE_NULL:
        break;
    case OPM_TYPE_INT:
        c->u.i = opm_rows_int(rows, col);
        break;
    case OPM_TYPE_REAL:
        c->u.r = opm_rows_real(rows, col);
        break;
    case OPM_TYPE_TEXT:
        text = opm_rows_text(rows, col, &len);
        return batch_text(b, c, text ? text : "", text ? len : 0);
    }
    return 0;
}

/* Without the GIL. 1: full, 0: that was all, negative: failed. */
static int batch_fill(struct batch *b, opm_rows *rows, opm_error *err)
{
    b->rows = 0;
    b->text_len = 0;
    while (b->rows < BATCH_ROWS) {
        struct cell *cells = &b->cells[(size_t)b->rows * (size_t)b->columns];
        int rc = opm_rows_next(rows, err);

        if (rc <= 0)
            return rc;
        for (int i = 0; i < b->columns; i++) {
            rc = batch_cell(b, &cells[i], rows, i);
            if (rc < 0) {
                err->code = rc;
                return rc;
            }
        }
        b->rows++;
    }
    return 1;
}

static PyObject *cell_object(const struct batch *b, const struct cell *c)
{
    switch (c->type) {
    case OPM_TYPE_INT:
        return PyLong_FromLongLong(c->u.i);
    case OPM_TYPE_REAL:
        return PyFloat_FromDouble(c->u.r);
    case OPM_TYPE_TEXT:
        return PyUnicode_DecodeUTF8(b->text + c->u.s.at, (Py_ssize_t)c->u.s.len,
                                    "backslashreplace");
    case OPM_TYPE_NULL:
        break;
    }
    Py_INCREF(Py_None);
    return Py_None;
}

static int batch_append(const struct batch *b, PyObject *list)
{
    for (int r = 0; r < b->rows; r++) {
        const struct cell *cells = &b->cells[(size_t)r * (size_t)b->columns];
        PyObject *row = PyTuple_New(b->columns);
        int rc = row ? 0 : -1;

        for (int i = 0; rc == 0 && i < b->columns; i++) {
            PyObject *o = cell_object(b, &cells[i]);

            rc = o ? PyTuple_SetItem(row, i, o) : -1;
        }
        if (rc == 0)
            rc = PyList_Append(list, row);
        Py_XDECREF(row);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static PyObject *column_names(const opm_rows *rows, int columns)
{
    PyObject *names = PyTuple_New(columns);

    for (int i = 0; names && i < columns; i++) {
        PyObject *name = PyUnicode_FromString(opm_rows_name(rows, i));

        if (!name || PyTuple_SetItem(names, i, name) < 0)
            Py_CLEAR(names);
    }
    return names;
}

/* All rows into `list`; 0, or -1 and an exception. */
static int rows_fetch(const struct state *s, opm_rows *rows, int columns, PyObject *list)
{
    struct batch b = { .columns = columns };
    opm_error err = { 0 };
    int rc, failed = 0;

    b.cells = calloc((size_t)columns * BATCH_ROWS + 1, sizeof(*b.cells));
    if (!b.cells) {
        PyErr_NoMemory();
        return -1;
    }
    do {
        Py_BEGIN_ALLOW_THREADS
        rc = batch_fill(&b, rows, &err);
        Py_END_ALLOW_THREADS
        if (rc < 0)
            raise_error(s, &err);
        failed = rc < 0 || batch_append(&b, list) < 0 || PyErr_CheckSignals() < 0;
    } while (rc > 0 && !failed);
    free(b.cells);
    free(b.text);
    return failed ? -1 : 0;
}

PyObject *trace_rows(struct trace *t, const char *sql)
{
    const struct state *s = state_of(t->module);
    PyObject *names = NULL, *list = NULL, *both = NULL;
    opm_error err = { 0 };
    opm_rows *rows = NULL;
    int rc;

    if (!trace_lock(t))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = opm_trace_query(t->trace, sql, &rows, &err);
    Py_END_ALLOW_THREADS
    if (rc < 0) {
        raise_error(s, &err);
    } else {
        int columns = opm_rows_columns(rows);

        names = column_names(rows, columns);
        list = names ? PyList_New(0) : NULL;
        if (list && rows_fetch(s, rows, columns, list) == 0)
            both = PyTuple_Pack(2, names, list);
        opm_rows_close(rows);
    }
    trace_unlock(t);
    Py_XDECREF(names);
    Py_XDECREF(list);
    return both;
}
