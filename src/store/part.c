/* part.c -- what one of several sources added to a store that is being built; see store.h. */
#include "store/store_int.h"

#include <math.h>

/* The tables that have times. */
static const struct {
    enum table_id table;
    int ts;
    int dur; /* -1: none */
} timed[] = {
    { TABLE_span, span_col_ts, span_col_dur },
    { TABLE_step, step_col_ts, step_col_dur },
    { TABLE_record, record_col_ts, record_col_dur },
    { TABLE_sample, sample_col_ts, -1 },
    { TABLE_request, request_col_ts, request_col_dur },
    { TABLE_iteration, iteration_col_ts, iteration_col_dur },
    { TABLE_token, token_col_ts, -1 },
};

void store_part_begin(const struct store *st, struct store_part *part)
{
    for (int i = 0; i < TABLE_COUNT; i++)
        part->from[i] = part->to[i] = st->table[i].nrow;
}

void store_part_end(const struct store *st, struct store_part *part)
{
    for (int i = 0; i < TABLE_COUNT; i++)
        part->to[i] = st->table[i].nrow;
}

int64_t store_part_start(const struct store *st, const struct store_part *part)
{
    uint64_t start = UINT64_MAX; /* of times moved up by 2^63, less 1, so that NULL is last */

    static_assert(OPM_NULL_I64 == INT64_MIN, "NULL is the least");
    assert(!st->frozen);
    for (size_t i = 0; i < ARRAY_SIZE(timed); i++) {
        const int64_t *ts = st->table[timed[i].table].col[timed[i].ts].i64;
        size_t row = part->from[timed[i].table], to = part->to[timed[i].table];

        if (timed[i].table == TABLE_span && row < to && loaded_known(st))
            to = row + 1; /* the first is the earliest */
        for (; ts && row < to; row++) {
            uint64_t t = ((uint64_t)ts[row] ^ (uint64_t)1 << 63) - 1;

            start = MIN(start, t);
        }
    }
    return (int64_t)((start + 1) ^ (uint64_t)1 << 63);
}

/* Sums wrap around rather than overflow; store_finish() cuts off what is beyond reason. */
static void shift(int64_t *v, size_t from, size_t to, int64_t by)
{
    for (size_t i = from; v && by && i < to; i++)
        if (v[i] != OPM_NULL_I64)
            v[i] = (int64_t)((uint64_t)v[i] + (uint64_t)by);
}

/* How much a clock that goes slow by a part was behind after ns, which may be any number. */
static int64_t behind(int64_t ns, double part)
{
    double by = (double)ns * part;

    return by > -1e18 && by < 1e18 ? llround(by) : 0;
}

/* Starts and ends move, each by as much as its own time asks for: times that are equal stay equal,
 * and what is inside stays inside. */
static void stretch(int64_t *ts, int64_t *dur, size_t from, size_t to, double part)
{
    for (size_t i = from; ts && i < to; i++) {
        int64_t start = ts[i], by = behind(start, part), end;

        if (start == OPM_NULL_I64)
            continue;
        shift(ts, i, i + 1, by);
        if (dur && dur[i] > 0) {
            end = (int64_t)((uint64_t)start + (uint64_t)dur[i]);
            dur[i] = MAX(dur[i] + behind(end, part) - by, 0);
        }
    }
}

/* v into the rows of an integer column that hold NULL. */
static int fill(struct table *t, int col, size_t from, size_t to, int64_t v)
{
    struct column *c = &t->col[col];

    if (v == OPM_NULL_I64)
        return 0;
    if (!c->data) {
        if (column_reserve(c, t->nrow * sizeof(*c->i64)))
            return OPM_ENOMEM;
        column_fill_null(c, COL_I64, 0, t->nrow);
    }
    for (size_t i = from; i < to; i++)
        if (c->i64[i] == OPM_NULL_I64)
            c->i64[i] = v;
    return 0;
}

int store_part_settle(struct store *st, const struct store_part *part,
                      const struct store_place *place)
{
    struct table *track = &st->table[TABLE_track];
    struct column *sources = &track->col[track_col_source];
    size_t from = part->from[TABLE_track], to = part->to[TABLE_track];

    assert(!st->frozen);
    if (place->stretch != 0 || place->shift_ns)
        loaded_forget(st);
    for (size_t i = 0; i < ARRAY_SIZE(timed); i++) {
        struct table *t = &st->table[timed[i].table];
        size_t first = part->from[timed[i].table], end = part->to[timed[i].table];

        if (place->stretch != 0)
            stretch(t->col[timed[i].ts].i64, timed[i].dur < 0 ? NULL : t->col[timed[i].dur].i64,
                    first, end, place->stretch);
        shift(t->col[timed[i].ts].i64, first, end, place->shift_ns);
    }
    for (size_t i = 0; i < st->nflow_point; i++)
        if (st->flow_point[i].row >= part->from[TABLE_flow] &&
            st->flow_point[i].row < part->to[TABLE_flow]) {
            if (place->stretch != 0)
                stretch(&st->flow_point[i].ts, NULL, 0, 1, place->stretch);
            shift(&st->flow_point[i].ts, 0, 1, place->shift_ns);
        }
    shift(st->table[TABLE_span].col[span_col_correlation].i64, part->from[TABLE_span],
          part->to[TABLE_span], place->correlation);
    if (from == to)
        return 0;
    if (!sources->data) {
        if (column_reserve(sources, track->nrow * sizeof(*sources->id)))
            return OPM_ENOMEM;
        column_fill_null(sources, COL_ID, 0, track->nrow);
    }
    for (size_t i = from; i < to; i++)
        if (sources->id[i] == OPM_NULL_ID)
            sources->id[i] = place->source;
    return fill(track, track_col_instance, from, to, place->instance) ||
                   fill(track, track_col_rank, from, to, place->rank)
               ? OPM_ENOMEM
               : 0;
}
