/* columns.c -- see columns.h. */
#include "export/columns.h"

#include "base/alloc.h"
#include "base/error.h"
#include "format/parquet.h"

#include <string.h>

int export_find_table(const char *name, const char *what, enum table_id *out, opm_error *err)
{
    for (int i = 0; i < TABLE_COUNT; i++) {
        if (strcmp(store_table_defs[i].name, name) == 0) {
            *out = (enum table_id)i;
            return 0;
        }
    }
    return opm__fail(err, OPM_ENOTFOUND, "no table '%s' to write as %s", name, what);
}

int export_columns(const struct store *st, enum table_id table, struct export_column *out, int max,
                   int *out_n)
{
    const struct table_def *def = &store_table_defs[table];
    int n = 0, rc = 0;

    (void)max; /* a build without assertions does not look at it */
    for (int i = 0; i < def->ncol && !rc; i++) {
        struct export_column *c = &out[n++];

        assert(n < max);
        *c =
            (struct export_column){ def->col[i].name, def->col[i].type, st, table, i, NULL, false };
        c->args = table == TABLE_span && i == span_col_args && store_args_packed(st);
        if (def->col[i].from != FROM_ROW && def->col[i].from != FROM_SITE && !c->args &&
            store_nrow(st, table))
            rc = store_column(st, table, i, &c->data);
    }
    if (table == TABLE_track)
        out[n++] =
            (struct export_column){ PARQUET_OVERLAP_COLUMN, COL_ID, st, table, -1, NULL, false };
    *out_n = n;
    return rc;
}

int export_scratch_init(struct export_scratch *s, size_t rows)
{
    s->room = mem_alloc(rows * sizeof(*s->room));
    s->end = mem_alloc(rows * sizeof(*s->end));
    return s->room && s->end ? 0 : OPM_ENOMEM;
}

void export_scratch_release(struct export_scratch *s)
{
    buf_release(&s->text);
    mem_free(s->room);
    mem_free(s->end);
}

static int64_t id_value(uint32_t id)
{
    return id == OPM_NULL_ID ? OPM_NULL_I64 : (int64_t)id;
}

/* Columns of ids and of sites, one by one. */
static struct cell cell_of(const struct export_column *c, size_t row)
{
    uint32_t of;

    if (c->col >= 0)
        return store_cell(c->st, c->table, row, c->col);
    of = store_overlap_of(c->st, (uint32_t)row);
    return of == row ? cell_null() : cell_id(of);
}

static int take_args(const struct export_column *c, size_t from, size_t n, struct export_scratch *s)
{
    buf_clear(&s->text);
    for (size_t i = 0; i < n; i++) {
        if (store_span_args(c->st, from + i, &s->text))
            return OPM_ENOMEM;
        s->end[i] = s->text.len;
    }
    return s->text.failed ? OPM_ENOMEM : 0;
}

static void take_cells(const struct export_column *c, size_t from, size_t n,
                       struct export_scratch *s)
{
    str_id *str = (str_id *)s->room;
    double *f64 = (double *)s->room;

    for (size_t i = 0; i < n; i++) {
        struct cell cell = cell_of(c, from + i);

        if (c->type == COL_STR)
            str[i] = cell_text_id(cell);
        else if (c->type == COL_F64)
            f64[i] = cell.kind == CELL_F64 ? cell.f64 : __builtin_nan("");
        else
            s->room[i] = cell_i64_or(cell, OPM_NULL_I64);
    }
}

int export_column_take(const struct export_column *c, size_t from, size_t n,
                       struct export_scratch *s)
{
    s->i64 = NULL;
    s->f64 = NULL;
    s->str = NULL;
    if (c->args)
        return take_args(c, from, n, s);
    if (c->type == COL_ID && c->data) {
        for (size_t i = 0; i < n; i++)
            s->room[i] = id_value(((const uint32_t *)c->data)[from + i]);
    } else if (!c->data) {
        take_cells(c, from, n, s);
    }
    if (c->type == COL_STR)
        s->str = c->data ? (const str_id *)c->data + from : (const str_id *)s->room;
    else if (c->type == COL_F64)
        s->f64 = c->data ? (const double *)c->data + from : (const double *)s->room;
    else
        s->i64 = c->data && c->type == COL_I64 ? (const int64_t *)c->data + from : s->room;
    return 0;
}
