/* queues.c -- how full the queues were. */
#include "analyze/queues.h"

#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"
#include <math.h>
#include <string.h>

/* The time that counts: from the first step that is no warm-up to the end of the last one. */
struct window {
    int64_t from_ns, to_ns;
};

/* What is summed over the samples of a queue. */
struct fill {
    bool timed; /* every change was recorded: sizes are weighted by how long they lasted */
    int64_t last_ns;
    double last;
    double weight, size, empty, full; /* sums */
};

static struct window counted_time(const struct store *st)
{
    struct window w = { INT64_MIN, INT64_MAX };
    bool found = false;

    for (size_t i = 0, n = store_nrow(st, TABLE_step); i < n; i++) {
        struct cell ts = store_cell(st, TABLE_step, i, step_col_ts);
        struct cell dur = store_cell(st, TABLE_step, i, step_col_dur);
        struct cell warmup = store_cell(st, TABLE_step, i, step_col_warmup);

        if (ts.kind != CELL_I64 || dur.kind != CELL_I64 || dur.i64 < 0 ||
            (warmup.kind == CELL_I64 && warmup.i64))
            continue;
        if (!found || ts.i64 < w.from_ns)
            w.from_ns = ts.i64;
        if (!found || add_ns(ts.i64, dur.i64) > w.to_ns)
            w.to_ns = add_ns(ts.i64, dur.i64);
        found = true;
    }
    return w;
}

/* The size that has been there since the last sample, until now. */
static void fill_until(struct fill *f, const struct queue *q, struct window w, int64_t now_ns)
{
    int64_t from = MAX(f->last_ns, w.from_ns), to = MIN(now_ns, w.to_ns);
    double weight = to > from ? (double)to - (double)from : 0;

    f->weight += weight;
    f->size += weight * f->last;
    f->empty += f->last <= 0 ? weight : 0;
    f->full += q->capacity > 0 && f->last >= (double)q->capacity ? weight : 0;
}

static void sample_add(struct queue *q, struct fill *f, struct window w, int64_t ts, double value)
{
    if (f->timed && q->samples)
        fill_until(f, q, w, ts);
    f->last_ns = ts;
    f->last = value;
    q->samples++;
    q->empty += value <= 0;
    q->full += q->capacity > 0 && value >= (double)q->capacity;
    if (isnan(q->max_size) || value > q->max_size)
        q->max_size = value;
    if (!f->timed) {
        f->weight += 1;
        f->size += value;
        f->empty += value <= 0;
        f->full += q->capacity > 0 && value >= (double)q->capacity;
    }
}

static void queue_finish(struct queue *q, struct fill *f, struct window w)
{
    if (f->timed && q->samples && w.to_ns != INT64_MAX)
        fill_until(f, q, w, w.to_ns);
    if (f->weight <= 0)
        return;
    q->empty_share = f->empty / f->weight;
    q->mean_size = f->size / f->weight;
    if (q->capacity > 0) {
        q->full_share = f->full / f->weight;
        q->usage = q->mean_size / (double)q->capacity;
    }
}

static bool text_is(const struct store *st, struct cell c, const char *text)
{
    return c.kind == CELL_STR && c.str && strcmp(store_text(st, c.str), text) == 0;
}

/* When the samples of a track were taken. */
struct lifetime {
    int64_t from_ns, to_ns; /* from > to: there are none */
};

static struct lifetime *lifetimes_get(const struct store *st)
{
    size_t ntrack = store_nrow(st, TABLE_track);
    struct lifetime *life = mem_alloc((ntrack + 1) * sizeof(*life));

    for (size_t i = 0; life && i < ntrack; i++)
        life[i] = (struct lifetime){ INT64_MAX, INT64_MIN };
    for (size_t i = 0, n = life ? store_nrow(st, TABLE_sample) : 0; i < n; i++) {
        struct cell track = store_cell(st, TABLE_sample, i, sample_col_track);
        struct cell ts = store_cell(st, TABLE_sample, i, sample_col_ts);

        if (track.kind != CELL_I64 || (size_t)track.i64 >= ntrack || ts.kind != CELL_I64)
            continue;
        life[track.i64].from_ns = MIN(life[track.i64].from_ns, ts.i64);
        life[track.i64].to_ns = MAX(life[track.i64].to_ns, ts.i64);
    }
    return life;
}

/* The queue that a track takes up after it ended, or n. */
static size_t made_anew(const struct queue *q, const int64_t *until_ns, size_t n,
                        const struct queue *now, struct lifetime life)
{
    for (size_t i = 0; i < n; i++)
        if (q[i].name && q[i].name == now->name && q[i].producer == now->producer &&
            q[i].consumer == now->consumer && q[i].rank == now->rank &&
            q[i].capacity == now->capacity && until_ns[i] <= life.from_ns)
            return i;
    return n;
}

int queues_of_tracks(const struct store *st, struct queue **out, size_t *n, uint32_t **of_track)
{
    size_t cap = 0, until_cap = 0, ntrack = store_nrow(st, TABLE_track);
    struct lifetime *life = lifetimes_get(st);
    int64_t *until_ns = NULL;
    int rc = 0;

    *out = NULL;
    *n = 0;
    *of_track = mem_calloc(ntrack + 1, sizeof(**of_track));
    if (!life || !*of_track)
        rc = OPM_ENOMEM;
    for (size_t i = 0; rc == 0 && i < ntrack; i++) {
        struct queue q;
        size_t at;

        if (!text_is(st, store_cell(st, TABLE_track, i, track_col_kind), "queue"))
            continue;
        q = (struct queue){
            .track = (uint32_t)i,
            .name = cell_text_id(store_cell(st, TABLE_track, i, track_col_name)),
            .producer = cell_text_id(store_cell(st, TABLE_track, i, track_col_producer)),
            .consumer = cell_text_id(store_cell(st, TABLE_track, i, track_col_consumer)),
            .rank = store_i64_or(st, TABLE_track, i, track_col_rank, OPM_NULL_I64),
            .workers = store_i64_or(st, TABLE_track, i, track_col_workers, OPM_NULL_I64),
            .capacity = store_i64_or(st, TABLE_track, i, track_col_capacity, OPM_NULL_I64),
            .empty_share = NAN,
            .full_share = NAN,
            .mean_size = NAN,
            .max_size = NAN,
            .usage = NAN,
        };
        at = made_anew(*out, until_ns, *n, &q, life[i]);
        if (at == *n) {
            if (!GROW(*out, cap, *n + 1) || !GROW(until_ns, until_cap, *n + 1)) {
                rc = OPM_ENOMEM;
                break;
            }
            (*out)[(*n)++] = q;
            until_ns[at] = INT64_MIN;
        }
        until_ns[at] = MAX(until_ns[at], life[i].to_ns);
        (*of_track)[i] = (uint32_t)at + 1;
    }
    mem_free(until_ns);
    mem_free(life);
    if (rc) {
        mem_free(*out);
        mem_free(*of_track);
        *out = NULL;
        *of_track = NULL;
        *n = 0;
    }
    return rc;
}

int queues_collect(const struct store *st, struct queue **out, size_t *n)
{
    struct window w = counted_time(st);
    struct fill *fill = NULL;
    uint32_t *of_track;
    int rc = queues_of_tracks(st, out, n, &of_track);

    if (rc == 0) {
        fill = mem_calloc(*n + 1, sizeof(*fill));
        rc = fill ? 0 : OPM_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < *n; i++)
        fill[i].timed =
            text_is(st, store_cell(st, TABLE_track, (*out)[i].track, track_col_sampling), "change");
    for (size_t i = 0, nsample = *n ? store_nrow(st, TABLE_sample) : 0; rc == 0 && i < nsample;
         i++) {
        struct cell track = store_cell(st, TABLE_sample, i, sample_col_track);
        struct cell ts = store_cell(st, TABLE_sample, i, sample_col_ts);
        struct cell value = store_cell(st, TABLE_sample, i, sample_col_value);
        uint32_t at = track.kind == CELL_I64 ? of_track[track.i64] : 0;

        if (at && ts.kind == CELL_I64 && value.kind == CELL_F64)
            sample_add(&(*out)[at - 1], &fill[at - 1], w, ts.i64, value.f64);
    }
    for (size_t i = 0; rc == 0 && i < *n; i++)
        queue_finish(&(*out)[i], &fill[i], w);
    if (rc) {
        mem_free(*out);
        *out = NULL;
        *n = 0;
    }
    mem_free(fill);
    mem_free(of_track);
    return rc;
}

int analyze_queue_stats(const struct store *st, struct table *out, opm_error *err)
{
    struct queue *q;
    size_t n;
    int rc = queues_collect(st, &q, &n);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct cell c[queue_stats_col_COUNT];

        c[queue_stats_col_track] = cell_id(q[i].track);
        c[queue_stats_col_name] = cell_str(q[i].name);
        c[queue_stats_col_rank] = cell_i64(q[i].rank);
        c[queue_stats_col_producer] = cell_str(q[i].producer);
        c[queue_stats_col_consumer] = cell_str(q[i].consumer);
        c[queue_stats_col_workers] = cell_i64(q[i].workers);
        c[queue_stats_col_capacity] = cell_i64(q[i].capacity);
        c[queue_stats_col_samples] = cell_i64(q[i].samples);
        c[queue_stats_col_empty] = cell_i64(q[i].empty);
        c[queue_stats_col_full] = cell_i64(q[i].capacity > 0 ? q[i].full : OPM_NULL_I64);
        c[queue_stats_col_empty_share] = cell_f64(q[i].empty_share);
        c[queue_stats_col_full_share] = cell_f64(q[i].full_share);
        c[queue_stats_col_mean_size] = cell_f64(q[i].mean_size);
        c[queue_stats_col_max_size] = cell_f64(q[i].max_size);
        c[queue_stats_col_usage] = cell_f64(q[i].usage);
        rc = table_add(out, c);
    }
    mem_free(q);
    return rc ? opm__fail(err, rc, "queue_stats: out of memory") : 0;
}
