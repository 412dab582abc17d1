/* stream_stats.c -- what every stream of a device did, and every device as a whole.
 *
 * Spans come ordered by start, so the time that several of them cover is found in one pass: what
 * counts of each is the part behind everything before it. */
#include "analyze/analysis.h"
#include "analyze/devices.h"
#include "analyze/groups.h"
#include "analyze/hardware.h"
#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

/* Time covered by spans that are added in the order of their starts. */
struct cover {
    int64_t until_ns, sum_ns;
};

struct stream {
    bool any;
    uint32_t track; /* the device's: the first of its streams */
    int64_t first_ns;
    int64_t kernels, copies;
    struct cover busy, run, copy;
    int64_t gap_ns, gap_ts; /* the longest; -1: none */
};

struct streams {
    struct stream *at;   /* per track, then per device */
    uint32_t *device_of; /* track to its device, or OPM_NULL_ID */
    size_t ntrack, ndevice;
};

static void cover_add(struct cover *c, int64_t from_ns, int64_t to_ns)
{
    from_ns = MAX(from_ns, c->until_ns);
    if (to_ns <= from_ns)
        return;
    c->sum_ns = add_ns(c->sum_ns, to_ns - from_ns);
    c->until_ns = to_ns;
}

static void stream_add(struct stream *s, uint32_t track, enum hardware_role role, int64_t ts_ns,
                       int64_t dur_ns)
{
    if (!s->any) {
        struct cover none = { ts_ns, 0 };

        *s = (struct stream){ .any = true,
                              .track = track,
                              .first_ns = ts_ns,
                              .busy = none,
                              .run = none,
                              .copy = none,
                              .gap_ns = -1 };
    }
    if (ts_ns > s->busy.until_ns && ts_ns - s->busy.until_ns > s->gap_ns) {
        s->gap_ns = ts_ns - s->busy.until_ns;
        s->gap_ts = s->busy.until_ns;
    }
    cover_add(&s->busy, ts_ns, ts_ns + dur_ns);
    if (role == HARDWARE_COMPUTES) {
        s->kernels++;
        cover_add(&s->run, ts_ns, ts_ns + dur_ns);
    } else if (role == HARDWARE_MOVES) {
        s->copies++;
        cover_add(&s->copy, ts_ns, ts_ns + dur_ns);
    }
}

/* Devices by the first track of each; there are few. */
static void find_devices(const struct store *st, struct streams *s)
{
    for (uint32_t t = 0; t < s->ntrack; t++) {
        uint32_t other = 0;

        s->device_of[t] = OPM_NULL_ID;
        if (store_cell(st, TABLE_track, t, track_col_device).kind == CELL_NULL)
            continue;
        while (other < t &&
               (s->device_of[other] == OPM_NULL_ID || !track_same_device(st, other, t)))
            other++;
        s->device_of[t] = other < t ? s->device_of[other] : (uint32_t)s->ndevice++;
    }
}

static int scan(const struct store *st, const struct hardware *h, struct streams *s)
{
    size_t n = store_nrow(st, TABLE_span);
    const uint32_t *site = store_span_site(st), *track;
    const int64_t *ts, *dur;
    const void *columns[3];

    if (store_column(st, TABLE_span, span_col_ts, &columns[0]) < 0 ||
        store_column(st, TABLE_span, span_col_dur, &columns[1]) < 0 ||
        store_column(st, TABLE_span, span_col_track, &columns[2]) < 0)
        return OPM_ENOMEM;
    ts = columns[0];
    dur = columns[1];
    track = columns[2];
    for (size_t row = 0; ts && dur && track && row < n; row++) {
        enum hardware_role role = h->role[site[row]];
        uint32_t t;

        if (role == HARDWARE_NOT || dur[row] < 0 || track[row] >= s->ntrack)
            continue;
        /* Spans of a stream that overlap stand on lines of their own, but it is one stream. */
        t = store_overlap_of(st, track[row]);
        stream_add(&s->at[t], t, role, ts[row], dur[row]);
        if (s->device_of[t] != OPM_NULL_ID)
            stream_add(&s->at[s->ntrack + s->device_of[t]], t, role, ts[row], dur[row]);
    }
    return 0;
}

static int add_row(const struct store *st, struct table *out, const struct stream *s,
                   const char *scope)
{
    struct cell c[stream_stats_col_COUNT] = { 0 };
    bool stream = scope[0] == 's';
    int64_t total = s->busy.until_ns - s->first_ns;

    c[stream_stats_col_scope] = cell_str(strpool_find(store_strings(st), scope, strlen(scope)));
    c[stream_stats_col_device] = store_cell(st, TABLE_track, s->track, track_col_device);
    c[stream_stats_col_rank] = store_cell(st, TABLE_track, s->track, track_col_rank);
    c[stream_stats_col_track] = stream ? cell_id(s->track) : cell_null();
    c[stream_stats_col_stream] =
        stream ? store_cell(st, TABLE_track, s->track, track_col_name) : cell_null();
    c[stream_stats_col_kernels] = cell_i64(s->kernels);
    c[stream_stats_col_copies] = cell_i64(s->copies);
    c[stream_stats_col_total_ns] = cell_i64(total);
    c[stream_stats_col_run_ns] = cell_i64(s->run.sum_ns);
    c[stream_stats_col_copy_ns] = cell_i64(s->copy.sum_ns);
    c[stream_stats_col_wait_ns] = cell_i64(total - s->busy.sum_ns);
    c[stream_stats_col_longest_wait_ns] = s->gap_ns < 0 ? cell_null() : cell_i64(s->gap_ns);
    c[stream_stats_col_longest_wait_ts] = s->gap_ns < 0 ? cell_null() : cell_i64(s->gap_ts);
    return table_add(out, c);
}

int analyze_stream_stats(const struct store *st, struct table *out, opm_error *err)
{
    struct streams s = { .ntrack = store_nrow(st, TABLE_track) };
    struct hardware h;
    int rc = hardware_find(&h, st);

    if (rc == 0 && h.any) {
        s.device_of = mem_alloc(s.ntrack * sizeof(*s.device_of));
        s.at = mem_calloc(2 * s.ntrack, sizeof(*s.at));
        rc = s.device_of && s.at ? 0 : OPM_ENOMEM;
        if (rc == 0) {
            find_devices(st, &s);
            rc = scan(st, &h, &s);
        }
        for (size_t i = 0; rc == 0 && i < s.ndevice; i++)
            if (s.at[s.ntrack + i].any)
                rc = add_row(st, out, &s.at[s.ntrack + i], "device");
        for (size_t i = 0; rc == 0 && i < s.ntrack; i++)
            if (s.at[i].any)
                rc = add_row(st, out, &s.at[i], "stream");
    }
    mem_free(s.device_of);
    mem_free(s.at);
    hardware_release(&h);
    return rc < 0 ? opm__fail(err, rc, "stream_stats: out of memory") : 0;
}
