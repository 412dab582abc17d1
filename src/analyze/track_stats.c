/* track_stats.c -- what stands on every line of the timeline. */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"

struct track {
    int64_t spans, samples;
    int64_t first_ns, end_ns;
};

/* Spans, which have a length, or samples, which have none (dur NULL). */
static void add_rows(struct track *tracks, size_t ntrack, size_t n, const uint32_t *track,
                     const int64_t *ts, const int64_t *dur)
{
    for (size_t i = 0; i < n; i++) {
        struct track *t;
        int64_t end = dur ? add_ns(ts[i], MAX(dur[i], (int64_t)0)) : ts[i];

        if (track[i] >= ntrack)
            continue;
        t = &tracks[track[i]];
        if (t->spans + t->samples == 0) {
            t->first_ns = ts[i];
            t->end_ns = end;
        }
        t->first_ns = MIN(t->first_ns, ts[i]);
        t->end_ns = MAX(t->end_ns, end);
        t->spans += dur != NULL;
        t->samples += dur == NULL;
    }
}

static int count_all(const struct store *st, struct track *tracks, size_t ntrack)
{
    const void *track, *ts, *dur;

    if (store_column(st, TABLE_span, span_col_track, &track) ||
        store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur))
        return OPM_ENOMEM;
    if (track && ts && dur)
        add_rows(tracks, ntrack, store_nrow(st, TABLE_span), track, ts, dur);
    if (store_column(st, TABLE_sample, sample_col_track, &track) ||
        store_column(st, TABLE_sample, sample_col_ts, &ts))
        return OPM_ENOMEM;
    if (track && ts)
        add_rows(tracks, ntrack, store_nrow(st, TABLE_sample), track, ts, NULL);
    return 0;
}

int analyze_track_stats(const struct store *st, struct table *out, opm_error *err)
{
    size_t ntrack = store_nrow(st, TABLE_track);
    struct track *tracks = mem_calloc(ntrack + 1, sizeof(*tracks));
    int rc = tracks ? count_all(st, tracks, ntrack) : OPM_ENOMEM;

    for (size_t i = 0; i < ntrack && rc == 0; i++) {
        const struct track *t = &tracks[i];
        struct cell c[track_stats_col_COUNT] = { 0 };

        c[track_stats_col_track] = cell_id((uint32_t)i);
        c[track_stats_col_spans] = cell_i64(t->spans);
        c[track_stats_col_samples] = cell_i64(t->samples);
        if (t->spans + t->samples) {
            c[track_stats_col_first_ns] = cell_i64(t->first_ns);
            c[track_stats_col_end_ns] = cell_i64(t->end_ns);
        }
        rc = table_add(out, c);
    }
    mem_free(tracks);
    return rc < 0 ? opm__fail(err, rc, "track_stats: out of memory") : 0;
}
