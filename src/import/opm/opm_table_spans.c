/* opm_table_spans.c -- spans of a file of tables, unpacked into their columns by several threads.
 * Their args are only looked over. */
#include "import/opm/opm_tables.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "format/colpack.h"
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 4
#define PARALLEL_FROM 200000 /* spans */

const struct packed_column *rows_column(const struct rows *rows, const char *name, unsigned kind)
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
    const struct packed_column *c = rows_column(rows, name, kind);

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
    if (!rows_column(rows, "track", COLUMN_ID))
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

/* Args of one chunk that are made of forms and numbers can be read, or are counted as damage. */
static void forms_look(struct tables *t, const struct rows *rows, struct form_rows *f, uint64_t *v)
{
    const struct packed_column *c = rows_column(rows, "args", COLUMN_FORM);
    int rc = 0;

    if (c && !f->rows)
        rc = form_rows_init(f, t->st, t->string, t->nstring);
    if (c && !rc)
        rc = args_check(f, c, v, rows->n);
    if (rc == OPM_EFORMAT)
        atomic_fetch_add(&t->corrupt, 1);
    else if (rc)
        atomic_store(&t->rc, rc);
}

static void *spans_work(void *arg)
{
    struct tables *t = arg;
    struct form_rows forms = { 0 };
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
        if (t->forms && rows_parse(t->piece[i], rows))
            forms_look(t, rows, &forms, v);
    }
    form_rows_release(&forms);
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
        extras->correlation |= rows_column(rows, "correlation", COLUMN_INT) != NULL;
        extras->wait |= rows_column(rows, "wait", COLUMN_INT) != NULL;
        t->forms |= rows_column(rows, "args", COLUMN_FORM) != NULL;
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
    return atomic_load(&t->rc);
}
