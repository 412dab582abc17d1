/* flow_points.c -- the spans that arrows given by track and time lead to.
 *
 * One pass over the spans in their final order. A track and those that took its overlapping spans
 * are one line here. */
#include "store/store_int.h"

#include "base/alloc.h"

#include <stdlib.h>

/* What the pass knows of one track: the points it has yet to find, and its open spans. */
struct line {
    size_t at[2], end[2]; /* in the sorted points: enclosing, next */
    struct nest open;
    uint32_t last_ended; /* of those closed, the last; OPM_NULL_ID: none */
    int64_t last_end;
};

static int by_place(const void *a, const void *b)
{
    const struct flow_point *x = a, *y = b;

    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->next != y->next)
        return x->next < y->next ? -1 : 1;
    return x->ts < y->ts ? -1 : x->ts > y->ts;
}

static void set_end(struct store *st, const struct flow_point *p, uint32_t span)
{
    struct table *t = &st->table[TABLE_flow];

    t->col[p->is_dst ? flow_col_dst : flow_col_src].id[p->row] = span;
}

/* Close what has ended by ts. A span that ends just then is remembered: an arrow that leaves at the
 * end of a span belongs to it, unless a longer one is open. */
static void line_close(struct line *l, int64_t ts)
{
    while (l->open.n && l->open.open[l->open.n - 1].end <= ts) {
        const struct open_span *o = &l->open.open[--l->open.n];

        if (l->last_ended == OPM_NULL_ID || o->end >= l->last_end) {
            l->last_ended = o->id;
            l->last_end = o->end;
        }
    }
}

static void line_enclosing(struct store *st, struct line *l, const struct flow_point *point,
                           int64_t before)
{
    for (; l->at[0] < l->end[0] && point[l->at[0]].ts < before; l->at[0]++) {
        const struct flow_point *p = &point[l->at[0]];

        line_close(l, p->ts);
        if (l->last_ended != OPM_NULL_ID && l->last_end == p->ts &&
            span_ts(st)[l->last_ended] == p->ts)
            set_end(st, p, l->last_ended); /* zero-length, just here */
        else if (l->open.n)
            set_end(st, p, l->open.open[l->open.n - 1].id);
        else if (l->last_ended != OPM_NULL_ID && l->last_end == p->ts)
            set_end(st, p, l->last_ended);
    }
}

static int line_span(struct store *st, struct line *l, const struct flow_point *point, uint32_t id)
{
    int64_t ts = span_ts(st)[id];

    if (l->at[0] == l->end[0] && l->at[1] == l->end[1])
        return 0;
    line_enclosing(st, l, point, ts);
    for (; l->at[1] < l->end[1] && point[l->at[1]].ts <= ts; l->at[1]++)
        set_end(st, &point[l->at[1]], id);
    line_close(l, ts);
    return nest_push(&l->open, span_end(ts, span_dur(st)[id]), id);
}

int flow_points_resolve(struct store *st, int64_t shift_ns)
{
    size_t ntrack = st->table[TABLE_track].nrow, nspan = st->table[TABLE_span].nrow;
    size_t n = st->nflow_point;
    struct flow_point *point = st->flow_point;
    struct line *line;
    int rc = 0;

    if (!n)
        return 0;
    line = mem_calloc(ntrack + 1, sizeof(*line));
    if (!line)
        return OPM_ENOMEM;
    for (size_t i = 0; i <= ntrack; i++)
        line[i].last_ended = OPM_NULL_ID;
    for (size_t i = 0; i < n; i++) {
        point[i].ts = MAX(-TIME_LIMIT, MIN(point[i].ts, TIME_LIMIT)) - shift_ns;
        point[i].track = MIN(point[i].track, (uint32_t)ntrack);
        set_end(st, &point[i], OPM_NULL_ID);
    }
    qsort(point, n, sizeof(*point), by_place);
    for (size_t i = 0; i < n; i++) {
        struct line *l = &line[point[i].track];

        if (l->at[point[i].next] == l->end[point[i].next])
            l->at[point[i].next] = i;
        l->end[point[i].next] = i + 1;
    }
    for (size_t i = 0; i < nspan && !rc; i++)
        rc = line_span(st, &line[st->overlap_of[packed_get(&st->span_track, i)]], point,
                       (uint32_t)i);
    for (size_t i = 0; i <= ntrack; i++) {
        if (!rc)
            line_enclosing(st, &line[i], point, TIME_NEVER);
        mem_free(line[i].open.open);
    }
    mem_free(line);
    mem_free(st->flow_point);
    st->flow_point = NULL;
    st->nflow_point = st->flow_point_cap = 0;
    return rc;
}
