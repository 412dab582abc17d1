/* nest.c -- parent, depth and self time, by going through the spans in order with a stack per
 * track.
 *
 * With many spans, two threads do half of the rows each. The second one needs to know what is open
 * at the middle, and finds out by looking at the ends of all rows before it. */
#include "store/store_int.h"

#include "base/alloc.h"
#include "base/budget.h"

#include <string.h>

/* A range of rows and what is filled in there; columns that are not wanted are NULL. */
struct part {
    const struct store *st;
    size_t from, to;
    int64_t *self;
    uint32_t *parent;
    struct packed *depth;
    const bool *async; /* per track and for "no track": nothing nests there */
    struct nest *nest; /* likewise: what is open */
    size_t ntrack;
    /* Rows before `from` are not ours: time that comes off their self time is kept here, for each
     * track at carry_at[track] in the order of the stack. */
    int64_t *carry;
    size_t ncarry;
    uint32_t *carry_row, *carry_at;
    int (*run)(struct part *p);
    int rc;
};

int nest_grow(struct nest *ns)
{
    return GROW(ns->open, ns->cap, ns->n + 1) ? 0 : OPM_ENOMEM;
}

static bool *async_tracks(const struct store *st)
{
    const struct table *t = &st->table[TABLE_track];
    const uint32_t *kind = t->col[track_col_kind].id;
    str_id async = strpool_find(&st->strings, "async", strlen("async"));
    bool *out = mem_calloc(t->nrow + 1, sizeof(*out));

    if (!out)
        return NULL;
    for (size_t i = 0; kind && async && i < t->nrow; i++)
        out[i] = kind[i] == async;
    out[t->nrow] = true;
    return out;
}

/* Inlined into the functions below, so that each column has a loop of its own. */
static inline __attribute__((always_inline)) int go_through(struct part *p, int64_t *self,
                                                            uint32_t *parent, struct packed *depth)
{
    const int64_t *ts = span_ts(p->st), *dur = span_dur(p->st);

    for (size_t i = p->from; i < p->to; i++) {
        uint32_t track = packed_get(&p->st->span_track, i), around = OPM_NULL_ID;
        int64_t end = span_end(ts[i], dur[i]);
        struct nest *ns = &p->nest[track];

        if (UNLIKELY(p->async[track]))
            ns->n = 0;
        nest_enter(ns, ts[i], &end);
        if (ns->n)
            around = ns->open[ns->n - 1].id;
        if (self) {
            self[i] = LIKELY(dur[i] >= 0) ? dur[i] : OPM_NULL_I64;
            if (around == OPM_NULL_ID)
                ;
            else if (UNLIKELY(around < p->from))
                p->carry[p->carry_at[track] + ns->n - 1] += end - ts[i];
            else if (LIKELY(self[around] != OPM_NULL_I64))
                self[around] -= end - ts[i];
        }
        if (parent)
            parent[i] = around;
        if (depth) {
            if (depth->width == 1 && UNLIKELY(ns->n > UINT8_MAX))
                return OPM_ELIMIT;
            packed_set(depth, i, (uint32_t)ns->n);
        }
        if (end > ts[i] && nest_push(ns, end, (uint32_t)i))
            return OPM_ENOMEM;
    }
    return 0;
}

static int fill_self(struct part *p)
{
    return go_through(p, p->self, NULL, NULL);
}

static int fill_parent(struct part *p)
{
    return go_through(p, NULL, p->parent, NULL);
}

static int fill_depth(struct part *p)
{
    return go_through(p, NULL, NULL, p->depth);
}

/* Find what is open at p->from. Only rows that end later matter: the others neither stay on the
 * stack nor close any that do. */
static int find_open(struct part *p)
{
    const int64_t *ts = span_ts(p->st), *dur = span_dur(p->st);
    int64_t middle = ts[p->from];
    size_t n = 0;

    for (size_t i = 0; i < p->from; i++) {
        int64_t end = ts[i] + dur[i];
        struct nest *ns;

        if (LIKELY(end < middle) || p->async[packed_get(&p->st->span_track, i)])
            continue;
        ns = &p->nest[packed_get(&p->st->span_track, i)];
        nest_enter(ns, ts[i], &end);
        if (end > ts[i] && nest_push(ns, end, (uint32_t)i))
            return OPM_ENOMEM;
    }
    p->carry_at = mem_alloc(p->ntrack * sizeof(*p->carry_at));
    if (!p->carry_at)
        return OPM_ENOMEM;
    for (size_t t = 0; t < p->ntrack; t++) {
        p->carry_at[t] = (uint32_t)n;
        n += p->nest[t].n;
    }
    p->carry = mem_calloc(n, sizeof(*p->carry));
    p->carry_row = mem_alloc(n * sizeof(*p->carry_row));
    if (!p->carry || !p->carry_row)
        return OPM_ENOMEM;
    for (size_t t = 0; t < p->ntrack; t++)
        for (size_t k = 0; k < p->nest[t].n; k++)
            p->carry_row[p->ncarry++] = p->nest[t].open[k].id;
    return 0;
}

static void *part_run(void *arg)
{
    struct part *p = arg;

    p->nest = mem_calloc(p->ntrack, sizeof(*p->nest));
    p->rc = p->nest ? 0 : OPM_ENOMEM;
    if (!p->rc && p->from)
        p->rc = find_open(p);
    if (!p->rc)
        p->rc = p->run(p);
    return NULL;
}

static void part_release(struct part *p)
{
    for (size_t i = 0; p->nest && i < p->ntrack; i++)
        mem_free(p->nest[i].open);
    mem_free(p->nest);
    mem_free(p->carry);
    mem_free(p->carry_row);
    mem_free(p->carry_at);
}

/* In two parts, unless there are few rows. Also not if there are spans that never ended: they end
 * with the one around them, and find_open() can't tell when that is. */
static int nest_all(struct part *first)
{
    const struct store *st = first->st;
    bool *async = async_tracks(st);
    struct part second;
    pthread_t thread;
    int rc;

    if (!async)
        return OPM_ENOMEM;
    first->async = async;
    first->ntrack = st->table[TABLE_track].nrow + 1;
    first->to = st->table[TABLE_span].nrow;
    second = *first;
    if (first->to > 1 && first->to >= store_parallel_from && !st->stat[STAT_span_not_ended])
        second.from = first->to / 2;
    if (second.from && thread_start(&thread, part_run, &second) == 0) {
        first->to = second.from;
        part_run(first);
        pthread_join(thread, NULL);
        for (size_t i = 0; !first->rc && !second.rc && first->self && i < second.ncarry; i++)
            first->self[second.carry_row[i]] -= second.carry[i];
    } else {
        second.nest = NULL;
        second.rc = 0;
        part_run(first);
    }
    rc = first->rc ? first->rc : second.rc;
    part_release(first);
    part_release(&second);
    mem_free(async);
    return rc;
}

int nest_self(const struct store *st, int64_t *self)
{
    return nest_all(&(struct part){ .st = st, .self = self, .run = fill_self });
}

int nest_parent(const struct store *st, uint32_t *parent)
{
    return nest_all(&(struct part){ .st = st, .parent = parent, .run = fill_parent });
}

int nest_depth(const struct store *st, struct packed *depth)
{
    return nest_all(&(struct part){ .st = st, .depth = depth, .run = fill_depth });
}
