/* opm_pack.c -- see opm_pack.h. */
#include "export/opm_pack.h"

#include "base/alloc.h"
#include "format/colpack.h"
#include "format/format.h"

#include <stdlib.h>
#include <string.h>

/* The numbers of a row begin at `at`. */
struct form_use {
    uint32_t form; /* number of the string */
    uint32_t row;
    uint32_t at, n;
};

int opm_packer_init(struct opm_packer *p, const struct store *st, const uint32_t *number,
                    size_t nstring)
{
    bool forms = store_has_args(st);

    *p = (struct opm_packer){ .st = st, .number = number };
    p->value = mem_alloc(COLPACK_SCRATCH * sizeof(*p->value));
    p->scratch = mem_alloc(COLPACK_SCRATCH * sizeof(*p->scratch));
    p->packed = mem_alloc(COLPACK_MAX(COLPACK_ROWS));
    if (!p->value || !p->scratch || !p->packed)
        return OPM_ENOMEM;
    if (!forms)
        return 0;
    p->use = mem_alloc(COLPACK_ROWS * sizeof(*p->use));
    p->form = mem_alloc(COLPACK_ROWS * sizeof(*p->form));
    p->order = mem_alloc(COLPACK_ROWS * sizeof(*p->order));
    p->form_rows = mem_calloc(nstring + 1, sizeof(*p->form_rows));
    return p->use && p->form && p->order && p->form_rows ? 0 : OPM_ENOMEM;
}

void opm_packer_release(struct opm_packer *p)
{
    mem_free(p->value);
    mem_free(p->scratch);
    mem_free(p->packed);
    mem_free(p->use);
    mem_free(p->form_value);
    mem_free(p->form_rows);
    mem_free(p->form);
    mem_free(p->order);
    buf_release(&p->payload);
    *p = (struct opm_packer){ 0 };
}

void opm_put_varint(struct buf *b, uint64_t v)
{
    uint8_t room[VARINT_MAX];

    buf_add(b, room, (size_t)(varint_put(room, v) - room));
}

void opm_put_str(struct buf *b, const char *s)
{
    opm_put_varint(b, strlen(s));
    buf_adds(b, s);
}

static uint64_t of_int(int64_t v)
{
    return v == OPM_NULL_I64 ? 0 : zigzag(v) + 1;
}

static bool is_integer(double v)
{
    uint64_t a, b;
    double back;

    if (v != v)
        return true; /* NULL */
    if (!(v > -9e15 && v < 9e15))
        return false;
    back = (double)(int64_t)v;
    memcpy(&a, &v, 8);
    memcpy(&b, &back, 8);
    return a == b; /* not -0.0 */
}

static enum opm_column_kind real_values(struct opm_packer *p, const double *v, size_t n)
{
    bool integers = true;

    for (size_t i = 0; i < n && integers; i++)
        integers = is_integer(v[i]);
    for (size_t i = 0; i < n; i++) {
        if (integers)
            p->value[i] = v[i] != v[i] ? 0 : of_int((int64_t)v[i]);
        else
            memcpy(&p->value[i], &v[i], 8);
    }
    return integers ? COLUMN_REAL_INT : COLUMN_REAL;
}

/* n values from `from` on, as numbers, to p->value. */
static enum opm_column_kind take_values(struct opm_packer *p, enum col_type type, const void *data,
                                        size_t from, size_t n)
{
    const int64_t *i64 = (const int64_t *)data + from;
    const uint32_t *id = (const uint32_t *)data + from;

    switch (type) {
    case COL_I64:
        for (size_t i = 0; i < n; i++)
            p->value[i] = of_int(i64[i]);
        return COLUMN_INT;
    case COL_ID:
        for (size_t i = 0; i < n; i++)
            p->value[i] = (uint32_t)(id[i] + 1);
        return COLUMN_ID;
    case COL_STR:
        for (size_t i = 0; i < n; i++)
            p->value[i] = p->number[id[i]];
        return COLUMN_STR;
    case COL_F64:
        break;
    }
    return real_values(p, (const double *)data + from, n);
}

/* A column of the rows that the payload is about. by: see colpack.h. */
static void put_column(struct opm_packer *p, const char *name, enum col_type type, const void *data,
                       const uint32_t *by, size_t from, size_t n)
{
    enum opm_column_kind kind = take_values(p, type, data, from, n);
    size_t size = (size_t)(colpack_put(p->packed, p->value, by, n, p->scratch) - p->packed);

    opm_put_str(&p->payload, name);
    buf_addc(&p->payload, (char)kind);
    opm_put_varint(&p->payload, size);
    buf_add(&p->payload, p->packed, size);
}

/* Args that are texts, of rows [from, from + n); false if there are none. */
static bool put_text_args(struct opm_packer *p, size_t from, size_t n)
{
    bool any = false;
    size_t size;

    for (size_t i = 0; i < n; i++) {
        p->value[i] = p->number[store_span_text_args(p->st, from + i)];
        any |= p->value[i] != 0;
    }
    if (!any)
        return false;
    size = (size_t)(colpack_put(p->packed, p->value, NULL, n, p->scratch) - p->packed);
    opm_put_str(&p->payload, "args");
    buf_addc(&p->payload, COLUMN_STR);
    opm_put_varint(&p->payload, size);
    buf_add(&p->payload, p->packed, size);
    return true;
}

static int by_number(const void *va, const void *vb)
{
    uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb;

    return a < b ? -1 : a > b;
}

/* p->use by form, then row: p->form gets the forms, p->order indices of p->use, p->form_rows where
 * those of a form end. Returns how many forms there are. */
static size_t order_forms(struct opm_packer *p, size_t nuse)
{
    size_t nform = 0;
    uint32_t at = 0;

    for (size_t i = 0; i < nuse; i++)
        if (!p->form_rows[p->use[i].form]++)
            p->form[nform++] = p->use[i].form;
    qsort(p->form, nform, sizeof(*p->form), by_number);
    for (size_t k = 0; k < nform; k++) {
        uint32_t n = p->form_rows[p->form[k]];

        p->form_rows[p->form[k]] = at;
        at += n;
    }
    for (size_t i = 0; i < nuse; i++)
        p->order[p->form_rows[p->use[i].form]++] = (uint32_t)i;
    return nform;
}

/* The rows whose args are a form and numbers, to p->use; how many, or SIZE_MAX: no memory. */
static size_t take_forms(struct opm_packer *p, size_t from, size_t n)
{
    size_t nuse = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        size_t nvalue = 0;
        str_id form = store_span_args_form(p->st, from + i, NULL, 0, &nvalue);

        if (!form)
            continue;
        if (!GROW(p->form_value, p->form_value_cap, at + nvalue))
            return SIZE_MAX;
        store_span_args_form(p->st, from + i, p->form_value + at, nvalue, &nvalue);
        p->use[nuse++] =
            (struct form_use){ p->number[form], (uint32_t)i, (uint32_t)at, (uint32_t)nvalue };
        at += nvalue;
    }
    return nuse;
}

/* Which form each row has; then for every form and every number that it takes, the column of
 * those. */
static int put_form_args(struct opm_packer *p, size_t from, size_t n, bool *any)
{
    size_t nuse = take_forms(p, from, n), nform;
    struct buf body = { 0 };
    int rc = 0;

    *any = nuse != 0;
    if (nuse == SIZE_MAX)
        return OPM_ENOMEM;
    if (!nuse)
        return 0;
    memset(p->value, 0, n * sizeof(*p->value));
    for (size_t i = 0; i < nuse; i++)
        p->value[p->use[i].row] = p->use[i].form;
    buf_add(&body, p->packed,
            (size_t)(colpack_put(p->packed, p->value, NULL, n, p->scratch) - p->packed));
    nform = order_forms(p, nuse);
    for (size_t f = 0, first = 0; f < nform; f++) {
        size_t end = p->form_rows[p->form[f]];

        p->form_rows[p->form[f]] = 0; /* for the next rows */
        for (uint32_t k = 0; k < p->use[p->order[first]].n; k++) {
            for (size_t j = first; j < end; j++)
                p->value[j - first] = zigzag(p->form_value[p->use[p->order[j]].at + k]);
            buf_add(&body, p->packed,
                    (size_t)(colpack_put(p->packed, p->value, NULL, end - first, p->scratch) -
                             p->packed));
        }
        first = end;
    }
    opm_put_str(&p->payload, "args");
    buf_addc(&p->payload, COLUMN_FORM);
    opm_put_varint(&p->payload, body.len);
    buf_add(&p->payload, buf_str(&body), body.len);
    if (body.failed)
        rc = OPM_ENOMEM;
    buf_release(&body);
    return rc;
}

/* The start of a payload of rows; columns follow. */
static void begin_rows(struct opm_packer *p, const char *table, size_t from, size_t n, size_t ncol)
{
    opm_put_str(&p->payload, table);
    opm_put_varint(&p->payload, from);
    opm_put_varint(&p->payload, n);
    opm_put_varint(&p->payload, ncol);
}

static void pad_rows(struct opm_packer *p, size_t n)
{
    while (p->payload.len < n / OPM_ROWS_PER_BYTE && !p->payload.failed)
        buf_addc(&p->payload, 0);
}

int opm_pack_rows(struct opm_packer *p, const char *table, const struct table_column *col,
                  size_t ncol, size_t from, size_t n)
{
    buf_clear(&p->payload);
    begin_rows(p, table, from, n, ncol);
    for (size_t c = 0; c < ncol; c++)
        put_column(p, col[c].name, col[c].type, col[c].data, NULL, from, n);
    pad_rows(p, n);
    return p->payload.failed ? OPM_ENOMEM : 0;
}

/* The track comes before the site, which is guessed by it. The number of columns is known last, so
 * they are put together before what stands in front of them. */
int opm_pack_spans(struct opm_packer *p, const struct span_columns *c, size_t from, size_t n)
{
    const uint32_t *by = c->track ? (const uint32_t *)c->track + from : NULL;
    struct buf columns = { 0 };
    size_t ncol = 3;
    bool forms = false;
    int rc = 0;

    buf_clear(&p->payload);
    put_column(p, "ts", COL_I64, c->ts, NULL, from, n);
    put_column(p, "dur", COL_I64, c->dur, NULL, from, n);
    if (c->track) {
        put_column(p, "track", COL_ID, c->track, NULL, from, n);
        ncol++;
    }
    put_column(p, "site", COL_ID, c->site, by, from, n);
    if (c->correlation) {
        put_column(p, "correlation", COL_I64, c->correlation, NULL, from, n);
        ncol++;
    }
    if (c->wait) {
        put_column(p, "wait", COL_I64, c->wait, NULL, from, n);
        ncol++;
    }
    if (store_has_args(p->st)) {
        ncol += put_text_args(p, from, n);
        rc = put_form_args(p, from, n, &forms);
        ncol += forms;
    }
    columns = p->payload;
    p->payload = (struct buf){ 0 };
    begin_rows(p, "span", from, n, ncol);
    buf_add(&p->payload, buf_str(&columns), columns.len);
    p->payload.failed |= columns.failed;
    buf_release(&columns);
    pad_rows(p, n);
    return rc ? rc : p->payload.failed ? OPM_ENOMEM : 0;
}
