/* opm_table_args.c -- args of the spans of a file of tables. Opening it only looks whether they can
 * be read; they are, from a copy of their packed columns, when they are first asked for. */
#include "import/opm/opm_tables.h"

#include "base/alloc.h"
#include "format/colpack.h"
#include <stdlib.h>

#define VALUES_TOO_MANY (OPM_FORM_VALUES_MAX + 1)

/* The packed columns of a chunk: len bytes at `at`; 0: there is none. */
struct kept_piece {
    uint64_t n;
    uint32_t to; /* build id of its first span */
    size_t text_at, text_len;
    size_t form_at, form_len;
};

struct kept_args {
    uint8_t *bytes;
    size_t size;
    struct kept_piece *piece;
    size_t npiece;
    str_id *string; /* by number in the file */
    size_t nstring;
};

int form_rows_init(struct form_rows *f, const struct store *st, const str_id *string,
                   size_t nstring)
{
    *f = (struct form_rows){ .pool = store_strings(st), .string = string, .nstring = nstring };
    f->rows = mem_calloc(nstring + 1, sizeof(*f->rows));
    f->values = mem_calloc(nstring + 1, sizeof(*f->values));
    return f->rows && f->values ? 0 : OPM_ENOMEM;
}

void form_rows_release(struct form_rows *f)
{
    mem_free(f->rows);
    mem_free(f->values);
    mem_free(f->met);
    *f = (struct form_rows){ 0 };
}

static int by_form(const void *va, const void *vb)
{
    const struct form_met *a = va, *b = vb;

    return a->form < b->form ? -1 : a->form > b->form;
}

/* Count the rows of each form; 0 is none. OPM_EFORMAT: a form is lost, and with it how many numbers
 * it takes. */
static int count_rows(struct form_rows *f, const uint64_t *form, size_t n)
{
    int rc = 0;

    f->nmet = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (!form[i])
            continue;
        if (form[i] >= f->nstring || !f->string[form[i]])
            rc = OPM_EFORMAT;
        else if (f->rows[form[i]]++)
            ;
        else if (GROW(f->met, f->cap, f->nmet + 1))
            f->met[f->nmet++].form = (uint32_t)form[i];
        else
            rc = OPM_ENOMEM;
    }
    if (f->nmet)
        qsort(f->met, f->nmet, sizeof(*f->met), by_form);
    for (size_t k = 0; k < f->nmet; k++) {
        f->met[k].n = f->rows[f->met[k].form];
        f->rows[f->met[k].form] = 0;
    }
    return rc;
}

/* How many numbers a form takes; VALUES_TOO_MANY: more than may be. */
static unsigned values_of(struct form_rows *f, uint32_t form)
{
    str_id text = f->string[form];

    if (!f->values[form])
        f->values[form] = (uint16_t)(1 + MIN(store_args_values(strpool_get(f->pool, text),
                                                               strpool_len(f->pool, text)),
                                             VALUES_TOO_MANY));
    return f->values[form] - 1u;
}

int args_check(struct form_rows *f, const struct packed_column *c, uint64_t *v, size_t n)
{
    const uint8_t *end = c->p + c->len, *p = colpack_get(c->p, end, v, NULL, n);
    int rc = p ? count_rows(f, v, n) : OPM_EFORMAT;

    for (size_t i = 0; i < f->nmet && !rc; i++) {
        unsigned nvalue = values_of(f, f->met[i].form);

        for (unsigned k = 0; k < nvalue && p && nvalue < VALUES_TOO_MANY; k++)
            p = colpack_skip(p, end, f->met[i].n);
        if (!p || nvalue == VALUES_TOO_MANY)
            rc = OPM_EFORMAT;
    }
    return rc;
}

/* Unpack the numbers of one form from *p on and give them to its rows. */
static int form_read(struct store *st, const struct kept_piece *piece, const uint8_t **p,
                     const uint8_t *end, str_id text, unsigned nvalue, const uint16_t *row,
                     size_t nrow)
{
    int64_t value[OPM_FORM_VALUES_MAX];
    uint64_t *column;
    uint32_t form;
    int rc = 0;

    if (nvalue > OPM_FORM_VALUES_MAX)
        return OPM_EFORMAT;
    column = mem_alloc((nvalue * nrow + 1) * sizeof(*column));
    if (!column)
        return OPM_ENOMEM;
    for (unsigned k = 0; k < nvalue && *p; k++)
        *p = colpack_get(*p, end, column + k * nrow, NULL, nrow);
    if (!*p)
        rc = OPM_EFORMAT;
    if (!rc)
        rc = store_args_form_of(st, text, &form);
    for (size_t i = 0; i < nrow && !rc; i++) {
        for (unsigned k = 0; k < nvalue; k++)
            value[k] = unzigzag(column[k * nrow + i]);
        rc = store_span_set_args_form(st, piece->to + row[i], form, value);
    }
    mem_free(column);
    return rc;
}

/* Which form each row has, then the numbers form by form. */
static int forms_read(struct store *st, const struct kept_args *kept,
                      const struct kept_piece *piece, struct form_rows *f, uint64_t *form,
                      uint16_t *row)
{
    const uint8_t *p = kept->bytes + piece->form_at, *end = p + piece->form_len;
    uint32_t at = 0;
    int rc;

    p = colpack_get(p, end, form, NULL, piece->n);
    rc = p ? count_rows(f, form, piece->n) : OPM_EFORMAT;
    if (rc)
        return rc;
    for (size_t i = 0; i < f->nmet; at += f->met[i++].n)
        f->rows[f->met[i].form] = at;
    for (size_t i = 0; i < piece->n; i++)
        if (form[i])
            row[f->rows[form[i]]++] = (uint16_t)i;
    for (size_t i = 0; i < f->nmet; i++)
        f->rows[f->met[i].form] = 0;
    at = 0;
    for (size_t i = 0; i < f->nmet && !rc; at += f->met[i++].n)
        rc = form_read(st, piece, &p, end, f->string[f->met[i].form], values_of(f, f->met[i].form),
                       row + at, f->met[i].n);
    return rc;
}

static int texts_read(struct store *st, const struct kept_args *kept,
                      const struct kept_piece *piece, uint64_t *v)
{
    const uint8_t *p = kept->bytes + piece->text_at;
    int rc = 0;

    if (!colpack_get(p, p + piece->text_len, v, NULL, piece->n))
        return OPM_EFORMAT;
    for (size_t i = 0; i < piece->n && !rc; i++)
        if (v[i] && v[i] < kept->nstring && kept->string[v[i]])
            rc = store_span_set_args(st, piece->to + (uint32_t)i, kept->string[v[i]]);
    return rc;
}

/* What is damaged was counted when the file was opened. */
static int kept_read(struct store *st, void *user)
{
    struct kept_args *kept = user;
    struct form_rows f;
    uint64_t *v = mem_alloc(COLPACK_ROWS * sizeof(*v));
    uint16_t *row = mem_alloc(COLPACK_ROWS * sizeof(*row));
    int rc = form_rows_init(&f, st, kept->string, kept->nstring);

    if (!v || !row)
        rc = OPM_ENOMEM;
    for (size_t i = 0; i < kept->npiece && !rc; i++) {
        const struct kept_piece *piece = &kept->piece[i];

        if (piece->text_len)
            rc = texts_read(st, kept, piece, v);
        if ((!rc || rc == OPM_EFORMAT) && piece->form_len)
            rc = forms_read(st, kept, piece, &f, v, row);
        rc = rc == OPM_EFORMAT ? 0 : rc;
    }
    form_rows_release(&f);
    mem_free(v);
    mem_free(row);
    return rc;
}

static void kept_release(void *user)
{
    struct kept_args *kept = user;

    if (kept->bytes)
        mem_unmap(kept->bytes, kept->size);
    mem_free(kept->piece);
    mem_free(kept->string);
    mem_free(kept);
}

static size_t keep(struct kept_args *kept, const struct packed_column *c, size_t *at)
{
    size_t from = *at;

    if (c && kept->bytes)
        memcpy(kept->bytes + from, c->p, c->len);
    *at += c ? c->len : 0;
    return from;
}

/* The columns of all pieces; only their sizes as long as there is no room. */
static size_t keep_pieces(const struct tables *t, struct kept_args *kept, struct rows *rows)
{
    size_t at = 0;

    kept->npiece = 0;
    for (size_t i = 0; i < t->npiece; i++) {
        const struct table_piece *p = t->piece[i];
        const struct packed_column *text, *form;
        struct kept_piece *k = &kept->piece[kept->npiece];

        if (!rows_parse(p, rows))
            continue; /* counted before */
        text = rows_column(rows, "args", COLUMN_STR);
        form = rows_column(rows, "args", COLUMN_FORM);
        if (!text && !form)
            continue;
        *k = (struct kept_piece){ .n = p->n,
                                  .to = t->load.first + (uint32_t)p->to,
                                  .text_len = text ? text->len : 0,
                                  .form_len = form ? form->len : 0 };
        k->text_at = keep(kept, text, &at);
        k->form_at = keep(kept, form, &at);
        kept->npiece++;
    }
    return at;
}

int args_keep(struct tables *t)
{
    struct kept_args *kept = mem_calloc(1, sizeof(*kept));
    struct rows *rows = mem_alloc(sizeof(*rows));
    int rc = OPM_ENOMEM;

    if (kept)
        kept->piece = mem_calloc(t->npiece + 1, sizeof(*kept->piece));
    if (!kept || !rows || !kept->piece)
        goto out;
    kept->size = keep_pieces(t, kept, rows);
    if (kept->size)
        kept->bytes = mem_map(kept->size);
    if (!kept->bytes) {
        rc = kept->size ? OPM_ENOMEM : 0;
        goto out;
    }
    keep_pieces(t, kept, rows);
    kept->string = t->string;
    kept->nstring = t->nstring;
    t->string = NULL;
    rc = store_args_later(
        t->st, &(struct args_later){ .read = kept_read, .release = kept_release, .user = kept });
    kept = NULL;
out:
    mem_free(rows);
    if (kept)
        kept_release(kept);
    return rc;
}
