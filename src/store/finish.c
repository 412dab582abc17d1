/* finish.c -- store_finish(): from rows in the order of their arrival to a trace that can be read.
 */
#include "store/store_int.h"

#include "base/alloc.h"
#include "base/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t store_parallel_from = 1000000;

/* What store_finish() needs on the way. */
struct finish {
    struct store *st;
    struct column piece;        /* struct span_piece, by track */
    struct column run_piece;    /* number of every run's piece within its track */
    struct track_spans *tracks; /* those that have spans */
    size_t ntrack;
    size_t nsibling;        /* of them, made for overlapping spans */
    struct column final_id; /* by build id; empty if nothing refers to spans or none moved */
    atomic_size_t next;     /* track to be ordered next */
    atomic_int rc;
};

static void release(struct finish *f)
{
    for (size_t i = 0; i < f->ntrack; i++)
        track_spans_release(&f->tracks[i]);
    mem_free(f->tracks);
    column_release(&f->piece);
    column_release(&f->run_piece);
    column_release(&f->final_id);
}

static size_t run_length(const struct store *st, size_t run)
{
    size_t end = run + 1 < st->nrun ? span_runs(st)[run + 1].first : st->table[TABLE_span].nrow;

    return end - span_runs(st)[run].first;
}

static bool track_is_async(const struct store *st, size_t track)
{
    const struct table *t = &st->table[TABLE_track];
    const struct column *kind = &t->col[track_col_kind];

    if (track >= t->nrow)
        return true; /* spans without a track have nothing to do with each other */
    return kind->data && kind->id[track] &&
           kind->id[track] == strpool_find(&st->strings, "async", strlen("async"));
}

/* Fill piece, run_piece and tracks. at[]: a zeroed number per track and one for "no track". */
static int group_by_track(struct finish *f, uint32_t *at)
{
    struct store *st = f->st;
    struct span_run *run = span_runs(st);
    struct span_piece *piece = f->piece.data;
    uint32_t *run_piece = f->run_piece.id;
    size_t none = st->table[TABLE_track].nrow, n = 0;

    for (size_t r = 0; r < st->nrun; r++) {
        if (run[r].track >= none) {
            if (run[r].track != OPM_NULL_ID)
                store_stat(st, STAT_unknown_track, (int64_t)run_length(st, r));
            run[r].track = OPM_NULL_ID;
        }
        run_piece[r] = at[MIN(run[r].track, none)]++;
    }
    for (size_t i = 0; i <= none; i++)
        f->ntrack += at[i] > 0;
    f->tracks = mem_calloc(f->ntrack, sizeof(*f->tracks));
    if (!f->tracks) {
        f->ntrack = 0;
        return OPM_ENOMEM;
    }
    f->ntrack = 0;
    for (size_t i = 0; i <= none; i++) {
        uint32_t npiece = at[i];

        if (!npiece)
            continue;
        f->tracks[f->ntrack++] = (struct track_spans){
            .track = i < none ? (uint32_t)i : OPM_NULL_ID,
            .piece = piece + n,
            .npiece = npiece,
            .async = track_is_async(st, i),
        };
        at[i] = (uint32_t)n;
        n += npiece;
    }
    for (size_t r = 0; r < st->nrun; r++)
        piece[at[MIN(run[r].track, none)] + run_piece[r]] =
            (struct span_piece){ run[r].first, (uint32_t)run_length(st, r) };
    return 0;
}

static int group(struct finish *f)
{
    uint32_t *at = mem_calloc(f->st->table[TABLE_track].nrow + 1, sizeof(*at));
    int rc = OPM_ENOMEM;

    if (at && !column_reserve(&f->piece, f->st->nrun * sizeof(struct span_piece)) &&
        !column_reserve(&f->run_piece, f->st->nrun * sizeof(*f->run_piece.id)))
        rc = group_by_track(f, at);
    mem_free(at);
    return rc;
}

static void *order_some(void *arg)
{
    struct finish *f = arg;
    size_t i;

    for (;;) {
        i = atomic_fetch_add(&f->next, 1);
        if (i >= f->ntrack)
            break;
        if (track_spans_order(f->st, &f->tracks[i]))
            atomic_store(&f->rc, OPM_ENOMEM);
    }
    return NULL;
}

/* A time that about half of the spans come before, judged by the track that has most. It is odd,
 * because spans must not end just then and clocks like to count in thousands. */
static int64_t middle_ts(const struct finish *f)
{
    const struct track_spans *most = NULL;
    size_t most_n = 0, n;

    for (size_t i = 0; i < f->ntrack; i++) {
        n = 0;
        for (size_t p = 0; p < f->tracks[i].npiece; p++)
            n += f->tracks[i].piece[p].n;
        if (n > most_n) {
            most_n = n;
            most = &f->tracks[i];
        }
    }
    n = most_n / 2;
    for (size_t p = 0; most; p++) {
        if (n < most->piece[p].n)
            return MAX(-TIME_LIMIT, span_ts(f->st)[most->piece[p].first + n]) | 1;
        n -= most->piece[p].n;
    }
    return 0;
}

/* Tracks have nothing to do with each other until they are merged. */
static int order(struct finish *f)
{
    bool large = f->st->table[TABLE_span].nrow >= store_parallel_from;
    int64_t split_ts = large ? middle_ts(f) : INT64_MIN;
    pthread_t other;
    bool two;

    for (size_t i = 0; i < f->ntrack; i++)
        f->tracks[i].split_ts = split_ts;
    two = large && f->ntrack > 1 && thread_start(&other, order_some, f) == 0;
    order_some(f);
    if (two)
        pthread_join(other, NULL);
    for (size_t i = 0; i < f->ntrack; i++) {
        store_stat(f->st, STAT_span_not_ended, f->tracks[i].not_ended);
        store_stat(f->st, STAT_negative_duration, f->tracks[i].negative);
        if (!u64map_get(&f->st->mixed, f->tracks[i].track))
            store_stat(f->st, STAT_span_out_of_order, f->tracks[i].out_of_order);
        store_stat(f->st, STAT_overlapping_span, f->tracks[i].overlapping);
    }
    return atomic_load(&f->rc);
}

/* A copy of a track for the spans that overlap there, the nth such copy. */
static int add_sibling_track(struct store *st, uint32_t of, size_t nth, bool async, uint32_t *out)
{
    struct cell cells[track_col_COUNT];
    const char *name;
    char suffix[32];
    size_t len;
    char *text;
    str_id id;
    int rc;

    for (int i = 0; i < track_col_COUNT; i++)
        cells[i] = table_cell(&st->table[TABLE_track], of, i);
    id = cell_text_id(cells[track_col_name]);
    name = id ? store_text(st, id) : "";
    len = strpool_len(&st->strings, id);
    if (nth > 1)
        snprintf(suffix, sizeof(suffix), "%s(overlap %zu)", len ? " " : "", nth);
    else
        snprintf(suffix, sizeof(suffix), "%s(overlap)", len ? " " : "");
    text = mem_alloc(len + sizeof(suffix));
    if (!text)
        return OPM_ENOMEM;
    memcpy(text, name, len);
    memcpy(text + len, suffix, strlen(suffix));
    rc = store_str(st, text, len + strlen(suffix), &id);
    mem_free(text);
    cells[track_col_name] = cell_str(id);
    if (!rc && async) {
        rc = store_cstr(st, "async", &id);
        cells[track_col_kind] = cell_str(id);
    }
    return rc ? rc : store_add(st, TABLE_track, cells, out);
}

/* Give the overlapping spans tracks of their own. */
static int add_siblings(struct finish *f)
{
    struct track_spans *tracks;
    size_t n = 0, first = f->ntrack;

    for (size_t i = 0; i < f->ntrack; i++)
        n += f->tracks[i].noverlap;
    if (!n)
        return 0;
    tracks = mem_realloc(f->tracks, (f->ntrack + n) * sizeof(*tracks));
    if (!tracks)
        return OPM_ENOMEM;
    f->tracks = tracks;
    for (size_t i = 0; i < first; i++) {
        for (size_t k = 0; k < tracks[i].noverlap; k++) {
            struct overlap *o = &tracks[i].overlap[k];
            bool async = k + 1 == OVERLAP_LEVELS;
            uint32_t track;

            if (add_sibling_track(f->st, tracks[i].track, k + 1, async, &track))
                return OPM_ENOMEM;
            tracks[f->ntrack++] = (struct track_spans){
                .track = track,
                .order = ORDER_SORTED,
                .async = async,
                .sorted = o->list,
                .nsorted = o->n,
                .min_ts = TIME_NEVER, /* that of the first track is not later */
                .split_ts = tracks[i].split_ts,
            };
            o->list = (struct column){ 0 };
        }
    }
    f->nsibling = n;
    return 0;
}

/* From track to the track that it was split from. */
static int note_siblings(struct finish *f)
{
    struct store *st = f->st;
    size_t n = st->table[TABLE_track].nrow, k = f->ntrack - f->nsibling;

    st->overlap_of = mem_calloc(n + 1, sizeof(*st->overlap_of));
    if (!st->overlap_of)
        return OPM_ENOMEM;
    for (size_t i = 0; i <= n; i++)
        st->overlap_of[i] = (uint32_t)i;
    for (size_t i = 0; i < f->ntrack - f->nsibling; i++)
        for (size_t j = 0; j < f->tracks[i].noverlap; j++)
            st->overlap_of[f->tracks[k++].track] = f->tracks[i].track;
    for (size_t i = 0; i < st->nloaded_overlap; i++) {
        const struct track_pair *p = &st->loaded_overlap[i];

        if (p->track < n && p->of < n)
            st->overlap_of[p->track] = p->of;
    }
    return 0;
}

/* Spans without a track get the number behind the last track; only now is that known. */
static void number_no_track(struct finish *f)
{
    struct store *st = f->st;
    uint32_t none = (uint32_t)st->table[TABLE_track].nrow;

    for (size_t r = 0; r < st->nrun; r++)
        span_runs(st)[r].track = MIN(span_runs(st)[r].track, none);
    for (size_t i = 0; i < f->ntrack; i++)
        f->tracks[i].track = MIN(f->tracks[i].track, none);
}

/* Whether the spans lie in their final order already. */
static bool in_order(const struct finish *f)
{
    const struct store *st = f->st;
    const int64_t *ts = span_ts(st);

    for (size_t i = 0; i < f->ntrack; i++)
        if (f->tracks[i].order != ORDER_BY_START)
            return false;
    for (size_t r = 1; r < st->nrun; r++) {
        size_t i = span_runs(st)[r].first;

        if (ts[i - 1] > ts[i])
            return false;
    }
    return true;
}

static int keep_order(struct finish *f, int64_t shift_ns)
{
    struct store *st = f->st;
    size_t n = st->table[TABLE_span].nrow;

    if (f->ntrack == 1) {
        st->span_track.same = f->tracks[0].track;
    } else {
        if (packed_init(&st->span_track, n, (uint32_t)st->table[TABLE_track].nrow))
            return OPM_ENOMEM;
        for (size_t r = 0; r < st->nrun; r++) {
            size_t first = span_runs(st)[r].first, end = first + run_length(st, r);

            for (size_t i = first; i < end; i++)
                packed_set(&st->span_track, i, span_runs(st)[r].track);
        }
    }
    if (shift_ns)
        for (size_t i = 0; i < n; i++)
            span_ts(st)[i] -= shift_ns;
    return 0;
}

static int permute_column(struct column *c, size_t width, size_t n, const uint32_t *to)
{
    struct column out = { 0 };

    if (!c->data)
        return 0;
    if (column_reserve(&out, n * width))
        return OPM_ENOMEM;
    if (width == 8)
        for (size_t i = 0; i < n; i++)
            out.i64[to[i]] = c->i64[i];
    else
        for (size_t i = 0; i < n; i++)
            out.id[to[i]] = c->id[i];
    column_release(c);
    *c = out;
    return 0;
}

static int merge(struct finish *f, int64_t shift_ns)
{
    struct store *st = f->st;
    struct table *t = &st->table[TABLE_span];
    struct column *corr = &t->col[span_col_correlation], *args = &t->col[span_col_args];
    struct column *wait = &t->col[span_col_wait];

    if (st->loaded)
        return loaded_keep(st, shift_ns);
    number_no_track(f);
    if (!f->ntrack)
        return 0;
    if (in_order(f))
        return keep_order(f, shift_ns);
    if (store_args_read(st)) /* they go by number of the span */
        return OPM_ENOMEM;
    if ((corr->data || wait->data || args->data || st->table[TABLE_flow].nrow) &&
        column_reserve(&f->final_id, t->nrow * sizeof(*f->final_id.id)))
        return OPM_ENOMEM;
    if (merge_tracks(st, f->tracks, f->ntrack, f->run_piece.id, shift_ns, f->final_id.id) ||
        permute_column(corr, sizeof(*corr->i64), t->nrow, f->final_id.id) ||
        permute_column(wait, sizeof(*wait->i64), t->nrow, f->final_id.id) ||
        permute_column(args, sizeof(*args->id), t->nrow, f->final_id.id))
        return OPM_ENOMEM;
    return 0;
}

/* Rewrite the ends of arrows; drop those that lead nowhere. */
static int finish_flows(struct finish *f, int64_t shift_ns)
{
    struct table *t = &f->st->table[TABLE_flow];
    uint32_t *src = t->col[flow_col_src].id, *dst = t->col[flow_col_dst].id;
    uint32_t *kind = t->col[flow_col_kind].id;
    const uint32_t *final_id = f->final_id.id;
    size_t nspan = f->st->table[TABLE_span].nrow, kept = 0;

    for (size_t i = 0; src && dst && final_id && i < t->nrow; i++) {
        src[i] = src[i] < nspan ? final_id[src[i]] : OPM_NULL_ID;
        dst[i] = dst[i] < nspan ? final_id[dst[i]] : OPM_NULL_ID;
    }
    if (flow_points_resolve(f->st, shift_ns))
        return OPM_ENOMEM;
    for (size_t i = 0; i < t->nrow; i++) {
        if (!src || !dst || src[i] >= nspan || dst[i] >= nspan)
            continue;
        src[kept] = src[i];
        dst[kept] = dst[i];
        if (kind)
            kind[kept] = kind[i];
        kept++;
    }
    store_stat(f->st, STAT_flow_without_span, (int64_t)(t->nrow - kept));
    t->nrow = kept;
    return 0;
}

/* The tables besides span that have times. */
static const struct {
    enum table_id table;
    int ts, dur; /* columns; dur -1: there is none */
    bool named;  /* other rows refer to its rows: they stay where they are */
} timed[] = {
    { TABLE_step, step_col_ts, step_col_dur, false },
    { TABLE_record, record_col_ts, record_col_dur, false },
    { TABLE_sample, sample_col_ts, -1, false },
    { TABLE_request, request_col_ts, request_col_dur, true },
    { TABLE_iteration, iteration_col_ts, iteration_col_dur, true },
    { TABLE_token, token_col_ts, -1, false },
};

/* Normalise the times of a table; returns the earliest or TIME_NEVER. */
static int64_t normalise_table(struct store *st, struct table *t, int ts_col, int dur_col)
{
    int64_t *ts = t->col[ts_col].i64, *dur = dur_col < 0 ? NULL : t->col[dur_col].i64;
    int64_t min = TIME_NEVER;

    for (size_t i = 0; ts && i < t->nrow; i++) {
        if (ts[i] == OPM_NULL_I64)
            continue;
        ts[i] = MAX(-TIME_LIMIT, MIN(ts[i], TIME_LIMIT));
        min = MIN(min, ts[i]);
        if (!dur || dur[i] == -1 || dur[i] == OPM_NULL_I64)
            continue;
        if (dur[i] < 0) {
            store_stat(st, STAT_negative_duration, 1);
            dur[i] = 0;
        }
        dur[i] = MIN(dur[i], TIME_LIMIT - ts[i]);
    }
    return min;
}

static int sort_table(struct table *t, int ts_col, int dur_col)
{
    const int64_t *ts = t->col[ts_col].i64, *dur = dur_col < 0 ? NULL : t->col[dur_col].i64;
    struct column mem = { 0 };
    struct span_entry *e;
    uint32_t *to = NULL;
    bool sorted = true;
    int rc = OPM_ENOMEM;

    for (size_t i = 1; ts && i < t->nrow && sorted; i++)
        sorted = ts[i - 1] < ts[i] || (ts[i - 1] == ts[i] && !dur);
    if (!ts || sorted)
        return 0;
    to = mem_alloc(t->nrow * sizeof(*to));
    if (!to || column_reserve(&mem, t->nrow * sizeof(*e)))
        goto out;
    e = mem.data;
    for (size_t i = 0; i < t->nrow; i++)
        e[i] = (struct span_entry){ .ts = ts[i], .dur = dur ? dur[i] : 0, .id = (uint32_t)i };
    if (span_entries_sort(e, t->nrow))
        goto out;
    for (size_t i = 0; i < t->nrow; i++)
        to[e[i].id] = (uint32_t)i;
    for (int i = 0; i < t->def->ncol; i++)
        if (permute_column(&t->col[i], column_width(t->def->col[i].type), t->nrow, to))
            goto out;
    rc = 0;
out:
    column_release(&mem);
    mem_free(to);
    return rc;
}

static int finish_tables(struct store *st, int64_t shift_ns)
{
    for (size_t i = 0; i < ARRAY_SIZE(timed); i++) {
        struct table *t = &st->table[timed[i].table];
        int64_t *ts = t->col[timed[i].ts].i64;

        for (size_t row = 0; shift_ns && ts && row < t->nrow; row++)
            if (ts[row] != OPM_NULL_I64)
                ts[row] -= shift_ns;
        if (!timed[i].named && sort_table(t, timed[i].ts, timed[i].dur))
            return OPM_ENOMEM;
    }
    return 0;
}

static int note_start(struct store *st, int64_t shift_ns)
{
    const char *before = store_meta_get(st, "trace.start_ns");
    int64_t start = before ? strtoll(before, NULL, 10) : 0;
    char text[32];

    if (__builtin_add_overflow(start, shift_ns, &start))
        start = shift_ns > 0 ? INT64_MAX : INT64_MIN;
    snprintf(text, sizeof(text), "%" PRId64, start);
    return store_meta(st, "trace.start_ns", text);
}

/* The row of a counter, or the number of rows. */
static size_t stat_row(const struct store *st, str_id name)
{
    size_t row = 0, n = store_nrow(st, TABLE_import_stat);

    while (row < n &&
           cell_text_id(store_cell(st, TABLE_import_stat, row, import_stat_col_name)) != name)
        row++;
    return row;
}

int stats_write(struct store *st)
{
    enum { INFO, LOSS };
    static const struct {
        const char *name;
        int severity;
        const char *description;
    } stats[] = {
#define X(name, severity, description) { #name, severity, description },
#include "store/stats.def"
#undef X
    };

    for (size_t i = 0; i < ARRAY_SIZE(stats); i++) {
        str_id name, severity, description;
        size_t row;

        if (st->stat[i] <= 0)
            continue;
        if (store_cstr(st, stats[i].name, &name) ||
            store_cstr(st, stats[i].severity == LOSS ? "loss" : "info", &severity) ||
            store_cstr(st, stats[i].description, &description))
            return OPM_ENOMEM;
        row = stat_row(st, name);
        if (row < store_nrow(st, TABLE_import_stat)) {
            if (store_set(st, TABLE_import_stat, row, import_stat_col_count, cell_i64(st->stat[i])))
                return OPM_ENOMEM;
            continue;
        }
        if (store_add(st, TABLE_import_stat,
                      (struct cell[import_stat_col_COUNT]){
                          [import_stat_col_name] = cell_str(name),
                          [import_stat_col_severity] = cell_str(severity),
                          [import_stat_col_count] = cell_i64(st->stat[i]),
                          [import_stat_col_description] = cell_str(description),
                      },
                      NULL))
            return OPM_ENOMEM;
    }
    return 0;
}

int store_finish(struct store *st)
{
    struct finish f = { .st = st };
    int64_t start = TIME_NEVER;
    int rc = OPM_ENOMEM;

    assert(!st->frozen);
    if (st->loaded && !loaded_in_order(st) && loaded_to_runs(st))
        return OPM_ENOMEM;
    if (group(&f) || order(&f) || add_siblings(&f) || note_siblings(&f))
        goto out;
    for (size_t i = 0; i < f.ntrack; i++)
        start = MIN(start, f.tracks[i].min_ts);
    if (st->loaded && st->table[TABLE_span].nrow)
        start = MIN(start, span_ts(st)[0]);
    for (size_t i = 0; i < ARRAY_SIZE(timed); i++)
        start =
            MIN(start, normalise_table(st, &st->table[timed[i].table], timed[i].ts, timed[i].dur));
    if (start != TIME_NEVER && note_start(st, start))
        goto out;
    if (start == TIME_NEVER)
        start = 0;
    if (merge(&f, start) || steps_settle(st) || finish_tables(st, start))
        goto out;
    if (finish_flows(&f, start) || stats_write(st))
        goto out;
    column_release(&st->runs);
    st->nrun = 0;
    st->frozen = true;
    rc = 0;
out:
    release(&f);
    return rc;
}
