/* opm_table_spans.c -- spans of a file of tables, unpacked into their columns by several threads;
 * then, by one, args that are made of forms and numbers. */
#include "import/opm/opm_tables.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "format/colpack.h"
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 4
#define PARALLEL_FROM 200000 /* spans */
#define ROW_BITS 16          /* of a row within a chunk */
#define ROW_MASK ((1u << ROW_BITS) - 1)
static_assert(COLPACK_ROWS <= 1u << ROW_BITS, "rows of a chunk fit");

static const struct packed_column *find_column(const struct rows *rows, const char *name,
                                               unsigned kind)
{
    for (size_t i = 0; i < rows->ncol; i++)
        if (strlen(name) == rows->col[i].name_len &&
            memcmp(name, rows->col[i].name, rows->col[i].name_len) == 0 &&
            rows->col[i].kind == kind)
            return &rows->col[i];
    return NULL;
}

/* Unpack a column; false if it is damaged or, unless optional, missing. */
static bool unpack(const struct rows *rows, const char *name, unsigned kind, const uint32_t *by,
                   uint64_t *v)
{
    const struct packed_column *c = find_column(rows, name, kind);

    return c && colpack_get(c->p, c->p + c->len, v, by, rows->n);
}

static int64_t to_time(uint64_t v)
{
    return v ? unzigzag(v - 1) : 0;
}

/* One chunk of spans into its place. False: it is damaged. */
static bool spans_unpack(struct tables *t, const struct table_piece *p, struct rows *rows,
                         uint64_t *v, uint32_t *track)
{
    size_t at = p->to;
    struct span_load l = t->load;

    if (!rows_parse(p, rows) || !unpack(rows, "ts", COLUMN_INT, NULL, v))
        return false;
    for (size_t i = 0; i < rows->n; i++)
        l.ts[at + i] = time_add(to_time(v[i]), t->offset_ns);
    if (!unpack(rows, "dur", COLUMN_INT, NULL, v))
        return false;
    for (size_t i = 0; i < rows->n; i++)
        l.dur[at + i] = to_time(v[i]);
    if (!find_column(rows, "track", COLUMN_ID))
        memset(v, 0, rows->n * sizeof(*v));
    else if (!unpack(rows, "track", COLUMN_ID, NULL, v))
        return false;
    for (size_t i = 0; i < rows->n; i++)
        track[i] = (uint32_t)(v[i] - 1);
    if (!unpack(rows, "site", COLUMN_ID, track, v))
        return false;
    for (size_t i = 0; i < rows->n; i++) {
        uint32_t row = row_map_find(&t->map[FILE_site], v[i] - 1);

        l.site[at + i] = row < t->nsite ? t->site[row] : t->unknown_site;
        if (track[i] != OPM_NULL_ID)
            track[i] = row_map_find(&t->map[TABLE_track], track[i]);
    }
    if (store_load_tracks(&l, at, track, rows->n))
        atomic_store(&t->rc, OPM_ENOMEM);
    if (l.correlation && unpack(rows, "correlation", COLUMN_INT, NULL, v))
        for (size_t i = 0; i < rows->n; i++)
            l.correlation[at + i] = v[i] ? unzigzag(v[i] - 1) : OPM_NULL_I64;
    if (l.wait && unpack(rows, "wait", COLUMN_INT, NULL, v))
        for (size_t i = 0; i < rows->n; i++)
            l.wait[at + i] = v[i] ? unzigzag(v[i] - 1) : OPM_NULL_I64;
    if (l.args && unpack(rows, "args", COLUMN_STR, NULL, v))
        for (size_t i = 0; i < rows->n; i++)
            l.args[at + i] = v[i] < t->nstring ? t->string[v[i]] : 0;
    return true;
}

/* Rows of a damaged chunk are there all the same: empty ones, named as unknown. */
static void spans_blank(struct tables *t, const struct table_piece *p, uint32_t *track)
{
    for (size_t i = p->to; i < p->to + p->n; i++) {
        t->load.ts[i] = t->offset_ns;
        t->load.dur[i] = 0;
        t->load.site[i] = t->unknown_site;
        track[i - p->to] = OPM_NULL_ID;
    }
    if (store_load_tracks(&t->load, p->to, track, p->n))
        atomic_store(&t->rc, OPM_ENOMEM);
}

static void *spans_work(void *arg)
{
    struct tables *t = arg;
    struct rows *rows = mem_alloc(sizeof(*rows));
    uint64_t *v = mem_alloc(COLPACK_ROWS * sizeof(*v));
    uint32_t *track = mem_alloc(COLPACK_ROWS * sizeof(*track));

    if (!rows || !v || !track)
        atomic_store(&t->rc, OPM_ENOMEM);
    while (rows && v && track) {
        size_t i = atomic_fetch_add(&t->next, 1);

        if (i >= t->npiece)
            break;
        if (!spans_unpack(t, t->piece[i], rows, v, track)) {
            spans_blank(t, t->piece[i], track);
            atomic_fetch_add(&t->corrupt, 1);
        }
    }
    mem_free(rows);
    mem_free(v);
    mem_free(track);
    return NULL;
}

static int by_first(const void *va, const void *vb)
{
    const struct table_piece *a = *(struct table_piece *const *)va;
    const struct table_piece *b = *(struct table_piece *const *)vb;

    return a->first < b->first ? -1 : a->first > b->first;
}

/* Find the chunks of spans and what they hold; each row of the file once. */
static int spans_find(struct tables *t, size_t *out_n, struct span_extras *extras)
{
    struct rows *rows = mem_alloc(sizeof(*rows));
    uint64_t end = 0;
    size_t n = 0;

    t->piece = mem_alloc((t->f->ntable + 1) * sizeof(struct table_piece *));
    if (!t->piece || !rows) {
        mem_free(rows);
        return OPM_ENOMEM;
    }
    for (size_t i = 0; i < t->f->ntable; i++) {
        struct table_piece *p = &t->f->table[i];

        if (p->kind != CHUNK_ROWS)
            continue;
        if (!rows_parse(p, rows)) {
            store_stat(t->st, STAT_chunk_corrupt, 1);
            continue;
        }
        if (rows->table < 0)
            store_stat(t->st, STAT_chunk_unknown, 1);
        if (rows->table != TABLE_span)
            continue;
        p->first = rows->first;
        p->n = rows->n;
        extras->correlation |= find_column(rows, "correlation", COLUMN_INT) != NULL;
        extras->wait |= find_column(rows, "wait", COLUMN_INT) != NULL;
        extras->args |= find_column(rows, "args", COLUMN_STR) != NULL;
        t->forms |= find_column(rows, "args", COLUMN_FORM) != NULL;
        t->piece[t->npiece++] = p;
    }
    mem_free(rows);
    if (t->npiece)
        qsort(t->piece, t->npiece, sizeof(struct table_piece *), by_first);
    for (size_t i = 0; i < t->npiece; i++) {
        struct table_piece *p = t->piece[i];

        if (p->first < end) {
            store_stat(t->st, STAT_chunk_corrupt, 1);
            continue;
        }
        end = p->first + p->n;
        p->to = n;
        n += p->n;
        t->piece[*out_n] = p;
        ++*out_n;
    }
    t->npiece = *out_n;
    *out_n = n;
    return 0;
}

/* Unpack the numbers of one form from *p on and give them to its rows. */
static int form_read(struct tables *t, const struct table_piece *piece, const uint8_t **p,
                     const uint8_t *end, str_id text, const uint64_t *row, size_t nrow)
{
    const struct strpool *pool = store_strings(t->st);
    const char *s = strpool_get(pool, text);
    size_t len = strpool_len(pool, text), nvalue = store_args_values(s, len);
    int64_t value[OPM_FORM_VALUES_MAX];
    uint64_t *column;
    uint32_t form;
    int rc = 0;

    if (nvalue > OPM_FORM_VALUES_MAX)
        return OPM_EFORMAT;
    column = mem_alloc((nvalue * nrow + 1) * sizeof(*column));
    if (!column)
        return OPM_ENOMEM;
    for (size_t k = 0; k < nvalue && *p; k++)
        *p = colpack_get(*p, end, column + k * nrow, NULL, nrow);
    if (!*p)
        rc = OPM_EFORMAT;
    if (!rc)
        rc = store_args_form(t->st, s, len, &form);
    for (size_t i = 0; i < nrow && !rc; i++) {
        for (size_t k = 0; k < nvalue; k++)
            value[k] = unzigzag(column[k * nrow + i]);
        rc = store_span_set_args_form(
            t->st, t->load.first + (uint32_t)(piece->to + (row[i] & ROW_MASK)), form, value);
    }
    mem_free(column);
    return rc;
}

static int by_value(const void *va, const void *vb)
{
    uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;

    return a < b ? -1 : a > b;
}

/* Which form each row has, then the numbers form by form. */
static int forms_of_piece(struct tables *t, const struct table_piece *piece, struct rows *rows,
                          uint64_t *form)
{
    size_t nuse = 0;
    const struct packed_column *c;
    const uint8_t *p, *end;
    int rc = 0;

    if (!rows_parse(piece, rows))
        return 0; /* counted before */
    c = find_column(rows, "args", COLUMN_FORM);
    if (!c)
        return 0;
    end = c->p + c->len;
    p = colpack_get(c->p, end, form, NULL, rows->n);
    if (!p)
        return OPM_EFORMAT;
    /* Form and row in one number, ordered. */
    for (size_t i = 0; i < rows->n; i++) {
        if (form[i] >= t->nstring || (form[i] && !t->string[form[i]]))
            return OPM_EFORMAT; /* how many numbers it takes is lost with it */
        if (form[i])
            form[nuse++] = form[i] << ROW_BITS | i;
    }
    if (nuse)
        qsort(form, nuse, sizeof(*form), by_value);
    for (size_t i = 0, n; i < nuse && !rc; i += n) {
        for (n = 1; i + n < nuse && form[i + n] >> ROW_BITS == form[i] >> ROW_BITS;)
            n++;
        rc = form_read(t, piece, &p, end, t->string[form[i] >> ROW_BITS], form + i, n);
    }
    return rc;
}

static int forms_read(struct tables *t)
{
    struct rows *rows = mem_alloc(sizeof(*rows));
    uint64_t *form = mem_alloc(COLPACK_ROWS * sizeof(*form));
    int rc = rows && form ? 0 : OPM_ENOMEM;

    for (size_t i = 0; i < t->npiece && !rc; i++) {
        rc = forms_of_piece(t, t->piece[i], rows, form);
        if (rc == OPM_EFORMAT) {
            store_stat(t->st, STAT_chunk_corrupt, 1);
            rc = 0;
        }
    }
    mem_free(rows);
    mem_free(form);
    return rc;
}

int table_spans_read(struct tables *t)
{
    pthread_t helper[THREADS_MAX];
    struct span_extras extras = { 0 };
    size_t n = 0, nhelper = 0;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int rc = spans_find(t, &n, &extras);

    if (!rc)
        rc = store_load_spans(t->st, n, extras, &t->load);
    for (size_t i = 0; i < t->npiece && !rc; i++)
        rc = row_map_add(&t->map[TABLE_span], t->piece[i]->first, t->piece[i]->n,
                         t->load.first + (uint32_t)t->piece[i]->to);
    if (rc)
        return rc;
    while (n >= PARALLEL_FROM && nhelper + 1 < (size_t)MIN(cpus, THREADS_MAX) &&
           thread_start(&helper[nhelper], spans_work, t) == 0)
        nhelper++;
    spans_work(t);
    while (nhelper)
        pthread_join(helper[--nhelper], NULL);
    store_stat(t->st, STAT_chunk_corrupt, (int64_t)atomic_load(&t->corrupt));
    t->got[TABLE_span] = n;
    rc = atomic_load(&t->rc);
    return rc || !t->forms ? rc : forms_read(t);
}
