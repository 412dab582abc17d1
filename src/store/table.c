/* table.c -- see table.h. */
#include "store/store_int.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

/* From here on columns are mapped, in huge pages; mem_map() uses them from this size on. */
#define MAP_FROM_BYTES ((size_t)4 << 20)

int column_reserve(struct column *c, size_t bytes)
{
    size_t want;
    void *p;

    if (bytes <= c->alloc)
        return 0;
    if (bytes > PTRDIFF_MAX / 2)
        return OPM_ENOMEM;
    want = MAX(bytes, MAX(c->alloc * 2, (size_t)256));
    if (want < MAP_FROM_BYTES) {
        p = mem_realloc(c->data, want);
    } else if (c->alloc >= MAP_FROM_BYTES) {
        p = mem_map_resize(c->data, c->alloc, want);
    } else {
        p = mem_map(want);
        if (p && c->data) {
            memcpy(p, c->data, c->alloc);
            mem_free(c->data);
        }
    }
    if (!p)
        return OPM_ENOMEM;
    c->data = p;
    c->alloc = want;
    return 0;
}

void column_release(struct column *c)
{
    if (c->alloc >= MAP_FROM_BYTES)
        mem_unmap(c->data, c->alloc);
    else
        mem_free(c->data);
    *c = (struct column){ 0 };
}

size_t column_width(enum col_type type)
{
    return type == COL_I64 || type == COL_F64 ? 8 : 4;
}

void column_fill_null(struct column *c, enum col_type type, size_t from, size_t to)
{
    size_t i;

    switch (type) {
    case COL_I64:
        for (i = from; i < to; i++)
            c->i64[i] = OPM_NULL_I64;
        break;
    case COL_F64:
        for (i = from; i < to; i++)
            c->f64[i] = NAN;
        break;
    case COL_ID:
        for (i = from; i < to; i++)
            c->id[i] = OPM_NULL_ID;
        break;
    case COL_STR:
        for (i = from; i < to; i++)
            c->id[i] = 0;
        break;
    }
}

int packed_init(struct packed *p, size_t n, uint32_t max)
{
    unsigned width = max <= UINT8_MAX ? 1 : max <= UINT16_MAX ? 2 : 4;

    *p = (struct packed){ .width = width };
    if (column_reserve(&p->mem, n * width))
        return OPM_ENOMEM;
    p->data = p->mem.data;
    return 0;
}

void packed_release(struct packed *p)
{
    column_release(&p->mem);
    *p = (struct packed){ 0 };
}

int table_init(struct table *t, const struct table_def *def)
{
    struct column *col = mem_calloc((size_t)def->ncol, sizeof(*col));

    if (!col)
        return OPM_ENOMEM;
    *t = (struct table){ .def = def, .col = col };
    return 0;
}

void table_release(struct table *t)
{
    if (t->col)
        for (int i = 0; i < t->def->ncol; i++)
            column_release(&t->col[i]);
    mem_free(t->col);
    *t = (struct table){ 0 };
}

/* Cells of the wrong kind are bugs; numbers are taken for each other where nothing is lost. */
static void column_set(struct column *c, enum col_type type, size_t row, struct cell v)
{
    switch (type) {
    case COL_I64:
        assert(v.kind == CELL_NULL || v.kind == CELL_I64);
        c->i64[row] = v.kind == CELL_I64 ? v.i64 : OPM_NULL_I64;
        break;
    case COL_ID:
        assert(v.kind == CELL_NULL || v.kind == CELL_I64);
        c->id[row] =
            v.kind == CELL_I64 && v.i64 >= 0 && v.i64 < OPM_NULL_ID ? (uint32_t)v.i64 : OPM_NULL_ID;
        break;
    case COL_STR:
        assert(v.kind == CELL_NULL || v.kind == CELL_STR);
        c->id[row] = v.kind == CELL_STR ? v.str : 0;
        break;
    case COL_F64:
        assert(v.kind != CELL_STR);
        c->f64[row] = v.kind == CELL_F64 ? v.f64 : v.kind == CELL_I64 ? (double)v.i64 : NAN;
        break;
    }
}

int table_add(struct table *t, const struct cell *cells)
{
    if (t->nrow >= OPM_NULL_ID) /* row numbers are ids */
        return OPM_ENOMEM;
    for (int i = 0; i < t->def->ncol; i++) {
        enum col_type type = t->def->col[i].type;
        struct column *c = &t->col[i];
        bool first = !c->data;

        if (t->def->col[i].from == FROM_ROW || (first && cells[i].kind == CELL_NULL))
            continue;
        if (column_reserve(c, (t->nrow + 1) * column_width(type)))
            return OPM_ENOMEM;
        if (first)
            column_fill_null(c, type, 0, t->nrow);
        column_set(c, type, t->nrow, cells[i]);
    }
    t->nrow++;
    return 0;
}

int table_set(struct table *t, size_t row, int col, struct cell cell)
{
    const struct column_def *def = &t->def->col[col];
    struct column *c = &t->col[col];

    assert(row < t->nrow && col >= 0 && col < t->def->ncol && def->from != FROM_ROW);
    if (!c->data && cell.kind == CELL_NULL)
        return 0;
    if (!c->data) {
        if (column_reserve(c, t->nrow * column_width(def->type)))
            return OPM_ENOMEM;
        column_fill_null(c, def->type, 0, t->nrow);
    }
    column_set(c, def->type, row, cell);
    return 0;
}

struct cell table_cell(const struct table *t, size_t row, int col)
{
    const struct column_def *def = &t->def->col[col];
    const struct column *c = &t->col[col];

    assert(row < t->nrow && col >= 0 && col < t->def->ncol);
    if (def->from == FROM_ROW)
        return cell_id((uint32_t)row);
    if (!c->data)
        return cell_null();
    switch (def->type) {
    case COL_I64:
        return cell_i64(c->i64[row]);
    case COL_ID:
        return cell_id(c->id[row]);
    case COL_STR:
        return cell_str(c->id[row]);
    case COL_F64:
        return cell_f64(c->f64[row]);
    }
    return cell_null();
}

int table_find_col(const struct table_def *def, const char *name)
{
    for (int i = 0; i < def->ncol; i++)
        if (strcmp(def->col[i].name, name) == 0)
            return i;
    return -1;
}
