/* load.c -- take over what a finished store held: spans in their final order, tracks of overlapping
 * spans, counts. */
#include "store/store_int.h"

#include "base/alloc.h"
#include "base/budget.h"

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
        packed_init(&st->loaded_track, MAX(n, (size_t)1), (uint32_t)st->table[TABLE_track].nrow))
        return OPM_ENOMEM;
    st->loaded = true;
    st->loaded_from = first;
    t->nrow = all;
    loaded_forget(st);
    *out = (struct span_load){ .track = &st->loaded_track,
                               .block = &st->load_blocks,
                               .first = (uint32_t)first };
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

/* Spans [from, to): whether they are in order, none before `last`; how many never ended is added
 * to *not_ended. */
static bool in_order(const int64_t *ts, const int64_t *dur, size_t from, size_t to, int64_t last,
                     int64_t *not_ended)
{
    bool good = true;
    int64_t open = 0;

    for (size_t i = from; i < to; i++) {
        good &= ts[i] >= last && ts[i] <= TIME_LIMIT && dur[i] >= -1 &&
                dur[i] <= (int64_t)((uint64_t)TIME_LIMIT - (uint64_t)ts[i]);
        last = ts[i];
        open += dur[i] == -1;
    }
    *not_ended += open;
    return good;
}

static int note_block(const struct span_load *load, size_t at, size_t n)
{
    struct load_blocks *b = load->block;
    int64_t not_ended = 0;
    int rc = 0;

    if (!in_order(load->ts, load->dur, at, at + n, -TIME_LIMIT, &not_ended))
        return 0;
    pthread_mutex_lock(&b->mutex);
    if (GROW(b->first, b->cap, b->n + 1)) {
        b->first[b->n++] = at;
        b->rows += n;
        b->not_ended += not_ended;
    } else {
        rc = OPM_ENOMEM;
    }
    pthread_mutex_unlock(&b->mutex);
    return rc;
}

int store_load_tracks(const struct span_load *load, size_t at, const uint32_t *track, size_t n)
{
    struct packed *p = load->track;

    /* None becomes the largest number. */
    if (p->width == 1)
        for (size_t i = 0; i < n; i++)
            p->u8[at + i] = (uint8_t)track[i];
    else
        for (size_t i = 0; i < n; i++)
            packed_set(p, at + i, track[i]);
    return note_block(load, at, n);
}

bool loaded_known(const struct store *st)
{
    const struct load_blocks *b = &st->load_blocks;
    const int64_t *ts = span_ts(st);

    if (!st->loaded || st->loaded_from || b->rows != st->table[TABLE_span].nrow)
        return false;
    for (size_t i = 0; i < b->n; i++)
        if (b->first[i] && ts[b->first[i] - 1] > ts[b->first[i]])
            return false;
    return true;
}

void loaded_forget(struct store *st)
{
    struct load_blocks *b = &st->load_blocks;

    b->n = b->rows = 0;
    b->not_ended = 0;
}

/* The largest number that there is room for. */
static uint32_t no_track(const struct packed *p)
{
    return p->width == 1 ? UINT8_MAX : p->width == 2 ? UINT16_MAX : UINT32_MAX;
}

static uint32_t track_of(const struct packed *p, size_t i)
{
    uint32_t track = packed_get(p, i);

    return track == no_track(p) ? OPM_NULL_ID : track;
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
    const struct packed *p = &st->loaded_track;
    size_t n = st->table[TABLE_span].nrow, from = st->loaded_from, not_ended = 0;
    uint32_t last = OPM_NULL_ID;

    for (size_t i = from; i < n; i++) {
        uint32_t track = track_of(p, i - from);

        not_ended += span_dur(st)[i] == -1;
        if (st->nrun && i > from && track == last)
            continue;
        last = track;
        if (column_reserve(&st->runs, (st->nrun + 1) * sizeof(struct span_run)))
            return OPM_ENOMEM;
        span_runs(st)[st->nrun++] = (struct span_run){ (uint32_t)i, track };
    }
    /* They will be counted again. */
    st->stat[STAT_span_not_ended] -= MIN(st->stat[STAT_span_not_ended], (int64_t)not_ended);
    packed_release(&st->loaded_track);
    st->loaded = false;
    return 0;
}

/* Spans [from, to): whether they are in order, and how many never ended. */
struct order_part {
    const struct store *st;
    size_t from, to;
    int64_t not_ended;
    bool good;
};

static void *order_look(void *arg)
{
    struct order_part *p = arg;
    const int64_t *ts = span_ts(p->st);

    p->good = in_order(ts, span_dur(p->st), p->from, p->to, p->from ? ts[p->from - 1] : -TIME_LIMIT,
                       &p->not_ended);
    return NULL;
}

bool loaded_in_order(struct store *st)
{
    size_t n = st->table[TABLE_span].nrow;
    struct order_part first = { .st = st, .to = n }, second = { .st = st, .from = n, .to = n };
    pthread_t thread;

    if (st->loaded_from)
        return false;
    if (loaded_known(st)) {
        first.good = second.good = true;
        first.not_ended = st->load_blocks.not_ended;
    } else if (n > 1 && n >= store_parallel_from) {
        second.from = n / 2;
        if (thread_start(&thread, order_look, &second) == 0) {
            first.to = second.from;
            order_look(&first);
            pthread_join(thread, NULL);
        } else {
            order_look(&first);
            second.good = true;
        }
    } else {
        order_look(&first);
        second.good = true;
    }
    /* A count that was lost must not hide them. */
    st->stat[STAT_span_not_ended] =
        MAX(st->stat[STAT_span_not_ended], first.not_ended + second.not_ended);
    return first.good && second.good;
}

static uint32_t packed_most(const struct packed *p, size_t n)
{
    uint32_t most = 0;
    uint8_t most_u8 = 0;

    if (p->width == 1) { /* as many at a time as there is room for in a register */
        for (size_t i = 0; i < n; i++)
            most_u8 = MAX(most_u8, p->u8[i]);
        return most_u8;
    }
    for (size_t i = 0; i < n; i++)
        most = MAX(most, packed_get(p, i));
    return most;
}

int loaded_keep(struct store *st, int64_t shift_ns)
{
    struct packed *p = &st->loaded_track;
    size_t n = st->table[TABLE_span].nrow;
    uint32_t none = (uint32_t)st->table[TABLE_track].nrow;
    bool same = true;

    for (size_t i = 1; i < n && same; i++)
        same = packed_get(p, i) == packed_get(p, 0);
    if (same) {
        st->span_track.same = n ? MIN(track_of(p, 0), none) : none;
    } else if (none > no_track(p)) { /* tracks came later that have no room in it */
        if (packed_init(&st->span_track, n, none))
            return OPM_ENOMEM;
        for (size_t i = 0; i < n; i++)
            packed_set(&st->span_track, i, MIN(track_of(p, i), none));
    } else {
        bool missing = packed_most(p, n) > none;

        for (size_t i = 0; missing && i < n; i++)
            if (packed_get(p, i) > none)
                packed_set(p, i, none);
        st->span_track = *p;
        *p = (struct packed){ 0 };
    }
    for (size_t i = 0; shift_ns && i < n; i++)
        span_ts(st)[i] -= shift_ns;
    packed_release(p);
    return 0;
}
