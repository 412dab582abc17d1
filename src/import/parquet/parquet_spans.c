/* parquet_spans.c -- spans, column by column into the arrays of the store. */
#include "import/parquet/parquet.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

#define SITES 1024 /* looked up last, by a hash */
#define NO_SITE UINT32_MAX

struct spans {
    struct pq_reader *r;
    struct pq_table t;
    struct span_load load;
    uint32_t *track;
    size_t track_cap;
    struct site site[SITES];
    uint32_t number[SITES];
};

static uint64_t value_or(const struct pq_table *t, int col, size_t i, uint64_t otherwise)
{
    return t->leaf[col] < 0 ? otherwise : t->value[col][i];
}

static bool same_site(const struct site *a, const struct site *b)
{
    return a->name == b->name && a->cat == b->cat && a->layer == b->layer && a->phase == b->phase &&
           a->op == b->op;
}

static int take_site(struct spans *s, size_t i, uint32_t *out)
{
    const struct pq_table *t = &s->t;
    struct site site = { .name = (str_id)value_or(t, span_col_name, i, 0),
                         .cat = (str_id)value_or(t, span_col_cat, i, 0),
                         .layer = (str_id)value_or(t, span_col_layer, i, 0),
                         .phase = (str_id)value_or(t, span_col_phase, i, 0) };
    int64_t op = (int64_t)value_or(t, span_col_op, i, (uint64_t)OPM_NULL_I64);
    uint32_t at;

    site.op = pq_ids_get(s->r, TABLE_op, op);
    at = (site.name * 31u ^ site.op * 17u ^ site.cat ^ site.phase * 7u ^ site.layer) % SITES;
    if (s->number[at] == NO_SITE || !same_site(&s->site[at], &site)) {
        s->site[at] = site;
        s->number[at] = NO_SITE;
        if (store_site(s->r->st, &site, &s->number[at]))
            return OPM_ENOMEM;
    }
    *out = s->number[at];
    return 0;
}

/* Values of a row group, as spans from `at` on of those that are loaded. */
static int take_group(struct spans *s, const struct pq_meta *m, size_t at, size_t n)
{
    const struct pq_table *t = &s->t;
    struct span_load *l = &s->load;
    uint64_t none = (uint64_t)OPM_NULL_I64;
    int rc = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        int64_t ts = (int64_t)t->value[span_col_ts][i];
        int64_t dur = (int64_t)value_or(t, span_col_dur, i, 0);
        int64_t id = (int64_t)value_or(t, span_col_id, i, at + i);

        if (ts == OPM_NULL_I64)
            return opm__fail(s->r->err, OPM_EFORMAT, "%s: a span without a time: ts is NULL",
                             m->path);
        l->ts[at + i] = pq_shift(s->r, ts);
        l->dur[at + i] = dur == OPM_NULL_I64 ? -1 : dur;
        if (l->correlation)
            l->correlation[at + i] = (int64_t)value_or(t, span_col_correlation, i, none);
        if (l->wait)
            l->wait[at + i] = (int64_t)value_or(t, span_col_wait, i, none);
        if (l->args)
            l->args[at + i] = (str_id)value_or(t, span_col_args, i, 0);
        rc = take_site(s, i, &l->site[at + i]);
        if (!rc)
            rc = pq_ids_add(s->r, TABLE_span, m->path, id, l->first + (uint32_t)(at + i));
    }
    return rc;
}

/* Tracks first: where none are there they are made up, before there are spans. */
static int take_tracks(struct spans *s, const struct pq_meta *m, size_t group)
{
    int leaf = s->t.leaf[span_col_track], rc = 0;
    size_t n = (size_t)m->group[group];
    uint64_t *value = leaf < 0 ? NULL : mem_alloc((n + 1) * sizeof(*value));
    uint32_t track;

    if (leaf < 0)
        return 0;
    rc = value ? pq_column_read(&s->r->columns, m, group, leaf, PQ_WANT_INT, value, s->r->err)
               : OPM_ENOMEM;
    for (size_t i = 0; i < n && !rc; i++)
        rc = i && value[i] == value[i - 1] ? 0 : pq_track_get(s->r, (int64_t)value[i], &track);
    mem_free(value);
    return rc;
}

static int place_tracks(struct spans *s, size_t at, size_t n)
{
    const struct pq_table *t = &s->t;

    if (s->track_cap < n && !GROW(s->track, s->track_cap, n))
        return OPM_ENOMEM;
    for (size_t i = 0; i < n; i++)
        s->track[i] = pq_ids_get(s->r, TABLE_track,
                                 (int64_t)value_or(t, span_col_track, i, (uint64_t)OPM_NULL_I64));
    return store_load_tracks(&s->load, at, s->track, n);
}

/* Whether any of its row groups may hold a value of a column. */
static bool has(const struct pq_meta *m, const char *name)
{
    int leaf = pq_meta_find(m, name);

    for (size_t g = 0; g < m->ngroup && leaf >= 0; g++)
        if (!m->chunk[g * m->nleaf + (size_t)leaf].all_null)
            return true;
    return false;
}

static int prepare(struct spans *s, const struct pq_open *file, size_t n, size_t *total,
                   struct span_extras *extras)
{
    int rc = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        const struct pq_meta *m = &file[i].meta;

        extras->correlation |= has(m, "correlation");
        extras->wait |= has(m, "wait");
        extras->args |= has(m, "args");
        *total += (size_t)m->nrow;
        rc = pq_table_open(&s->t, s->r, m, TABLE_span);
        if (!rc && s->t.leaf[span_col_ts] < 0)
            rc = opm__fail(s->r->err, OPM_EFORMAT, "%s: spans without a column ts", m->path);
        for (size_t g = 0; g < m->ngroup && !rc && !s->r->there[TABLE_track]; g++)
            rc = take_tracks(s, m, g);
    }
    if (!rc && *total >= OPM_NULL_ID)
        rc = opm__fail(s->r->err, OPM_ELIMIT, "%s: more than %u spans", s->r->src->path,
                       OPM_NULL_ID - 1);
    return rc;
}

int pq_spans_read(struct pq_reader *r, struct pq_open *file, size_t n)
{
    struct spans *s = mem_calloc(1, sizeof(*s));
    struct span_extras extras = { 0 };
    size_t total = 0, at = 0;
    int rc = s ? 0 : OPM_ENOMEM;

    if (!rc) {
        s->r = r;
        memset(s->number, 0xff, sizeof(s->number));
        rc = prepare(s, file, n, &total, &extras);
    }
    if (!rc)
        rc = store_load_spans(r->st, total, extras, &s->load);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct pq_meta *m = &file[i].meta;

        rc = pq_table_open(&s->t, r, m, TABLE_span);
        for (size_t g = 0; g < m->ngroup && !rc; g++) {
            size_t rows = (size_t)m->group[g];

            rc = pq_table_take(&s->t, r, m, g);
            if (!rc)
                rc = take_group(s, m, at, rows);
            if (!rc)
                rc = place_tracks(s, at, rows);
            at += rows;
        }
    }
    if (s) {
        pq_table_release(&s->t);
        mem_free(s->track);
    }
    mem_free(s);
    return pq_fail(r, r->src->path, rc);
}
