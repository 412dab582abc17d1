/* busy.c -- see busy.h. */
#include "analyze/busy.h"

#include "analyze/groups.h"
#include "analyze/hardware.h"
#include "analyze/intervals.h"
#include "analyze/measuring.h"
#include "analyze/span_class.h"
#include "base/error.h"
#include "base/u64map.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const bucket_names[BUCKET_COUNT] = {
#define X(name, doc) #name,
    BUSY_BUCKETS(X)
#undef X
};

/* When at least one span of a class was going on; in the classes of the device and of the host. */
enum activity {
    ACT_COMPUTE,
    ACT_COMM,
    ACT_COPY,
    ACT_DATA,
    ACT_MEASURING,
    ACT_TELLING, /* likewise, of operators: before their spans */
    ACT_RUNTIME,
    ACT_HOST,
    ACT_COUNT,
};

struct columns {
    const int64_t *ts, *dur;
    const uint32_t *track, *site;
    const struct site *sites;
    const struct windows *windows; /* or NULL */
    str_id hardware;
    size_t n;
    uint8_t *class;
    bool *opened; /* per span: a run of which the parts are known; or NULL */
    bool *told;   /* per site: telling of its spans took op_cost_ns before each; or NULL */
    int64_t op_cost_ns;
    int64_t *rank;   /* of every track */
    int64_t *source; /* likewise */
    bool *marks;     /* likewise: it marks steps */
    bool *stepped;   /* likewise: its source does */
    size_t ntrack;
};

/* With a device, an operator on the host is only its launch. */
static int activity_of(enum span_class class, bool device)
{
    switch (class) {
    case CLASS_COMPUTE:
        return ACT_COMPUTE;
    case CLASS_COMM:
        return ACT_COMM;
    case CLASS_COPY:
        return ACT_COPY;
    case CLASS_DATA:
        return ACT_DATA;
    case CLASS_MEASURING:
        return ACT_MEASURING;
    case CLASS_RUNTIME:
        return ACT_RUNTIME;
    case CLASS_OPERATOR:
    case CLASS_BACKWARD:
    case CLASS_OPTIMIZER:
        return device ? ACT_HOST : ACT_COMPUTE;
    case CLASS_HOST:
        return ACT_HOST;
    case CLASS_NONE:
    case CLASS_COUNT:
        break;
    }
    return -1;
}

/* Without a device the computation is spans of operators, in which the cost of telling of those
 * inside them stands, too. */
static enum bucket bucket_of(const bool on[ACT_COUNT], bool device)
{
    if (on[ACT_TELLING] && !device)
        return BUCKET_measuring;
    if (on[ACT_COMPUTE])
        return on[ACT_COMM] ? BUCKET_overlap : BUCKET_compute;
    if (on[ACT_COMM])
        return BUCKET_communication;
    if (on[ACT_COPY])
        return BUCKET_copy;
    if (on[ACT_DATA])
        return BUCKET_data;
    if (on[ACT_MEASURING] || on[ACT_TELLING])
        return BUCKET_measuring;
    if (on[ACT_RUNTIME])
        return BUCKET_runtime;
    return on[ACT_HOST] ? BUCKET_host : BUCKET_idle;
}

/* Is a track of the host about other steps than those of the stretch? */
static bool is_others(const struct columns *c, const struct stretch *s, uint32_t track)
{
    if (s->track >= c->ntrack || s->track == track)
        return false;
    return c->marks[track] || (c->stepped[track] && c->source[track] != c->source[s->track]);
}

/* Does a span tell of what is asked for? What runs on hardware tells of its own device only. */
static bool tells(const struct columns *c, const struct stretch *s, size_t i)
{
    uint32_t t = c->track[i];
    bool hardware = c->hardware && c->sites[c->site[i]].layer == c->hardware;

    if (t >= c->ntrack)
        return true;
    if (hardware && s->place != OPM_NULL_ID)
        return c->windows->place_of[t] == s->place;
    if (!hardware && is_others(c, s, t))
        return false;
    return s->rank == OPM_NULL_I64 || c->rank[t] == OPM_NULL_I64 || c->rank[t] == s->rank;
}

static bool has_device(const struct columns *c, const struct stretch *s)
{
    bool device = s->place != OPM_NULL_ID && c->windows->place[s->place].device;

    for (size_t i = 0; i < c->n && !device && s->place == OPM_NULL_ID; i++)
        device = c->class[c->site[i]] == CLASS_COMPUTE;
    return device;
}

static int collect(const struct columns *c, const struct stretch *s, bool device,
                   struct intervals act[ACT_COUNT])
{
    for (size_t i = 0; i < c->n; i++) {
        int a = activity_of(c->class[c->site[i]], device);

        if (a < 0 || c->dur[i] < 0 || (c->opened && c->opened[i]) || !tells(c, s, i))
            continue;
        if (c->told && c->told[c->site[i]] &&
            !intervals_add(&act[ACT_TELLING], c->ts[i] - c->op_cost_ns, c->ts[i]))
            return OPM_ENOMEM;
        if (!intervals_add(&act[a], c->ts[i], add_ns(c->ts[i], c->dur[i])))
            return OPM_ENOMEM;
    }
    return 0;
}

/* The bucket sums up to now; add moves them on to the next instant at which anything changes. */
struct sweep {
    const struct intervals *act;
    bool device;
    size_t next[ACT_COUNT]; /* first interval that has not ended */
    int64_t now_ns;
    int64_t sum[BUCKET_COUNT];
};

static void sweep_to(struct sweep *s, int64_t to_ns)
{
    while (s->now_ns < to_ns) {
        int64_t until = to_ns;
        bool on[ACT_COUNT];

        for (int a = 0; a < ACT_COUNT; a++) {
            const struct intervals *v = &s->act[a];

            while (s->next[a] < v->n && v->at[s->next[a]].to_ns <= s->now_ns)
                s->next[a]++;
            on[a] = s->next[a] < v->n && v->at[s->next[a]].from_ns <= s->now_ns;
            if (s->next[a] < v->n)
                until = MIN(until, on[a] ? v->at[s->next[a]].to_ns : v->at[s->next[a]].from_ns);
        }
        s->sum[bucket_of(on, s->device)] += until - s->now_ns;
        s->now_ns = until;
    }
}

/* Stretches may overlap: the sums at each of their ends are taken as the sweep passes by. */
struct edge {
    int64_t at_ns;
    size_t stretch;
    bool end;
};

static int by_time(const void *va, const void *vb)
{
    const struct edge *a = va, *b = vb;

    return a->at_ns < b->at_ns ? -1 : a->at_ns > b->at_ns;
}

static bool same(const struct stretch *a, const struct stretch *b)
{
    return a->rank == b->rank && a->place == b->place && a->track == b->track;
}

/* All stretches of the rank, place and track of one. */
static int account(const struct columns *c, const struct stretch *s, size_t n,
                   const struct stretch *of, struct edge *edge, int64_t *ns)
{
    struct intervals act[ACT_COUNT] = { 0 };
    struct sweep sweep = { .act = act, .device = has_device(c, of) };
    size_t nedge = 0;
    int rc = collect(c, of, sweep.device, act);

    for (size_t i = 0; i < n; i++) {
        if (!same(&s[i], of) || s[i].to_ns <= s[i].from_ns)
            continue;
        edge[nedge++] = (struct edge){ s[i].from_ns, i, false };
        edge[nedge++] = (struct edge){ s[i].to_ns, i, true };
    }
    qsort(edge, nedge, sizeof(*edge), by_time);
    sweep.now_ns = nedge ? edge[0].at_ns : 0;
    for (size_t i = 0; rc == 0 && i < nedge; i++) {
        int64_t *to = ns + edge[i].stretch * BUCKET_COUNT;

        sweep_to(&sweep, edge[i].at_ns);
        for (int b = 0; b < BUCKET_COUNT; b++)
            to[b] += edge[i].end ? sweep.sum[b] : -sweep.sum[b];
    }
    for (int a = 0; a < ACT_COUNT; a++)
        intervals_release(&act[a]);
    return rc;
}

static int told_get(struct columns *c, const struct store *st, size_t nsite)
{
    double ns = measuring_op_ns(st);

    if (isnan(ns) || ns < 1)
        return 0;
    c->op_cost_ns = llround(ns);
    c->told = mem_alloc((nsite + 1) * sizeof(*c->told));
    for (size_t i = 0; i < nsite && c->told; i++)
        c->told[i] = measuring_of_site(st, &c->sites[i]);
    return c->told ? 0 : OPM_ENOMEM;
}

/* Which tracks and sources mark steps. */
static int marks_get(struct columns *c, const struct store *st)
{
    struct u64map sources = { 0 };
    int rc = 0;

    for (size_t i = 0, n = store_nrow(st, TABLE_step); i < n && rc == 0; i++) {
        int64_t track = store_i64_or(st, TABLE_step, i, step_col_track, OPM_NULL_I64);

        if (track < 0 || (size_t)track >= c->ntrack)
            continue;
        c->marks[track] = true;
        rc = u64map_put(&sources, (uint64_t)c->source[track], 1);
    }
    for (size_t i = 0; i < c->ntrack && rc == 0; i++)
        c->stepped[i] = u64map_get(&sources, (uint64_t)c->source[i]) != NULL;
    u64map_release(&sources);
    return rc;
}

static int columns_get(struct columns *c, const struct store *st)
{
    const void *ts, *dur, *track;
    size_t nsite;

    c->n = store_nrow(st, TABLE_span);
    c->ntrack = store_nrow(st, TABLE_track);
    c->site = store_span_site(st);
    c->sites = store_sites(st, &nsite);
    c->hardware = strpool_find(store_strings(st), "hardware", 8);
    c->class = span_classes(st);
    c->rank = mem_alloc((c->ntrack + 1) * sizeof(*c->rank));
    c->source = mem_alloc((c->ntrack + 1) * sizeof(*c->source));
    c->marks = mem_calloc(c->ntrack + 1, sizeof(*c->marks));
    c->stepped = mem_calloc(c->ntrack + 1, sizeof(*c->stepped));
    if (hardware_opened_runs(st, &c->opened) || !c->class || !c->rank || !c->source || !c->marks ||
        !c->stepped || told_get(c, st, nsite) || store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur) ||
        store_column(st, TABLE_span, span_col_track, &track))
        return OPM_ENOMEM;
    c->ts = ts;
    c->dur = dur;
    c->track = track;
    for (size_t i = 0; i < c->ntrack; i++) {
        c->rank[i] = store_i64_or(st, TABLE_track, i, track_col_rank, OPM_NULL_I64);
        c->source[i] = store_i64_or(st, TABLE_track, i, track_col_source, OPM_NULL_I64);
    }
    if (!c->ts || !c->dur || !c->track)
        c->n = 0;
    return marks_get(c, st);
}

int busy_compute(const struct store *st, const struct windows *w, const struct stretch *s, size_t n,
                 int64_t *ns)
{
    struct columns c = { .windows = w };
    struct edge *edge = mem_alloc((2 * n + 1) * sizeof(*edge));
    bool *done = mem_calloc(n + 1, sizeof(*done));
    int rc = edge && done ? columns_get(&c, st) : OPM_ENOMEM;

    memset(ns, 0, n * BUCKET_COUNT * sizeof(*ns));
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (done[i])
            continue;
        rc = account(&c, s, n, &s[i], edge, ns);
        for (size_t k = i; k < n; k++)
            done[k] |= same(&s[k], &s[i]);
    }
    mem_free(c.class);
    mem_free(c.opened);
    mem_free(c.told);
    mem_free(c.rank);
    mem_free(c.source);
    mem_free(c.marks);
    mem_free(c.stepped);
    mem_free(done);
    mem_free(edge);
    return rc;
}
