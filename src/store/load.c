/* load.c -- take over what a finished store held: spans in their final order, tracks of overlapping
 * spans, counts. */
#include "store/store_int.h"

#include "base/alloc.h"

#include <string.h>

/* Room for all rows of a column that few spans have; NULL from row `first` on. */
static int fit(struct table *t, int col, bool wanted, size_t first, size_t all)
{
    enum col_type type = t->def->col[col].type;
    struct column *c = &t->col[col];

    if (!wanted && !c->data)
        return 0;
    if (!c->data)
        first = 0;
    if (column_reserve(c, MAX(all, (size_t)1) * column_width(type)))
        return OPM_ENOMEM;
    column_fill_null(c, type, first, all);
    return 0;
}

const int64_t *store_given_waits(const struct store *st)
{
    assert(st->frozen);
    return st->table[TABLE_span].col[span_col_wait].i64;
}

int store_load_spans(struct store *st, size_t n, struct span_extras extras, struct span_load *out)
{
    struct table *t = &st->table[TABLE_span];
    size_t first = t->nrow, all = first + n;

    assert(!st->frozen);
    if (st->loaded && loaded_to_runs(st))
        return OPM_ENOMEM;
    if (n > OPM_NULL_ID || spans_reserve(st, all) ||
        fit(t, span_col_correlation, extras.correlation, first, all) ||
        fit(t, span_col_wait, extras.wait, first, all) ||
        fit(t, span_col_args, extras.args, first, all) ||
        column_reserve(&st->loaded_track, MAX(n, (size_t)1) * sizeof(*st->loaded_track.id)))
        return OPM_ENOMEM;
    st->loaded = true;
    st->loaded_from = first;
    t->nrow = all;
    *out = (struct span_load){ .track = st->loaded_track.id, .first = (uint32_t)first };
    if (!n)
        return 0;
    out->ts = span_ts(st) + first;
    out->dur = span_dur(st) + first;
    out->site = st->span_site.id + first;
    if (extras.correlation)
        out->correlation = t->col[span_col_correlation].i64 + first;
    if (extras.wait)
        out->wait = t->col[span_col_wait].i64 + first;
    if (extras.args)
        out->args = t->col[span_col_args].id + first;
    return 0;
}

int store_load_overlap(struct store *st, uint32_t track, uint32_t of)
{
    assert(!st->frozen);
    if (!GROW(st->loaded_overlap, st->loaded_overlap_cap, st->nloaded_overlap + 1))
        return OPM_ENOMEM;
    st->loaded_overlap[st->nloaded_overlap++] = (struct track_pair){ track, of };
    return 0;
}

int store_load_stat(struct store *st, const char *name, const char *severity, int64_t count,
                    const char *description)
{
    static const char *const known[] = {
#define X(name, severity, description) #name,
#include "store/stats.def"
#undef X
    };
    str_id n, s, d;

    if (!name || !severity || !description)
        return 0; /* nothing that could be told to anybody */
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (strcmp(known[i], name) == 0) {
            if (count > 0 && st->stat[i] <= INT64_MAX - count)
                store_stat(st, (enum stat_id)i, count);
            return 0;
        }
    }
    if (store_cstr(st, name, &n) || store_cstr(st, severity, &s) || store_cstr(st, description, &d))
        return OPM_ENOMEM;
    return store_add(st, TABLE_import_stat,
                     (struct cell[import_stat_col_COUNT]){
                         [import_stat_col_name] = cell_str(n),
                         [import_stat_col_severity] = cell_str(s),
                         [import_stat_col_count] = cell_i64(count),
                         [import_stat_col_description] = cell_str(d),
                     },
                     NULL);
}

int loaded_to_runs(struct store *st)
{
    const uint32_t *track = st->loaded_track.id;
    size_t n = st->table[TABLE_span].nrow, from = st->loaded_from, not_ended = 0;

    for (size_t i = from; i < n; i++) {
        not_ended += span_dur(st)[i] == -1;
        if (st->nrun && i > from && track[i - from] == track[i - from - 1])
            continue;
        if (column_reserve(&st->runs, (st->nrun + 1) * sizeof(struct span_run)))
            return OPM_ENOMEM;
        span_runs(st)[st->nrun++] = (struct span_run){ (uint32_t)i, track[i - from] };
    }
    /* They will be counted again. */
    st->stat[STAT_span_not_ended] -= MIN(st->stat[STAT_span_not_ended], (int64_t)not_ended);
    column_release(&st->loaded_track);
    st->loaded = false;
    return 0;
}

bool loaded_in_order(struct store *st)
{
    const int64_t *ts = span_ts(st), *dur = span_dur(st);
    size_t n = st->table[TABLE_span].nrow;
    int64_t last = -TIME_LIMIT, not_ended = 0;
    bool good = st->loaded_from == 0;

    for (size_t i = 0; i < n && good; i++) {
        good = ts[i] >= last && ts[i] <= TIME_LIMIT && dur[i] >= -1 && dur[i] <= TIME_LIMIT - ts[i];
        last = ts[i];
        not_ended += dur[i] == -1;
    }
    /* A count that was lost must not hide them. */
    st->stat[STAT_span_not_ended] = MAX(st->stat[STAT_span_not_ended], not_ended);
    return good;
}

int loaded_keep(struct store *st, int64_t shift_ns)
{
    const uint32_t *track = st->loaded_track.id;
    size_t n = st->table[TABLE_span].nrow;
    uint32_t none = (uint32_t)st->table[TABLE_track].nrow;
    bool same = true;

    for (size_t i = 1; i < n && same; i++)
        same = track[i] == track[0];
    if (same) {
        st->span_track.same = n ? MIN(track[0], none) : none;
    } else {
        if (packed_init(&st->span_track, n, none))
            return OPM_ENOMEM;
        for (size_t i = 0; i < n; i++)
            packed_set(&st->span_track, i, MIN(track[i], none));
    }
    for (size_t i = 0; shift_ns && i < n; i++)
        span_ts(st)[i] -= shift_ns;
    column_release(&st->loaded_track);
    return 0;
}
