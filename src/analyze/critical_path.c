/* critical_path.c -- the chain of work that bounds every step.
 *
 * Found backwards, from the end of the last step: at each instant the path is on one line, and
 * where what it is on began, goes on with what that had to wait for last. On the device: what stood
 * before on the stream, the call that launched it, or an event of another stream. On the host: what
 * the thread did before; for a call that waited for the device, that work; for a thread that stands
 * still while the backward pass runs on another, that thread. So segments follow each other without
 * a gap, and those of a step add up to its time.
 *
 * Steps in a row are one walk: a step that the host leaves while the device still works is bounded
 * by the device if nothing later waits for the host. What the device does after the last step
 * belongs to it. Steps in which nothing is recorded have no path. */
#include "analyze/critical_path.h"

#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "analyze/path_graph.h"
#include "analyze/span_class.h"
#include "analyze/step_list.h"
#include "base/alloc.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

struct segment {
    int64_t from_ns, to_ns;
    uint32_t span, line; /* OPM_NULL_ID: none */
    uint8_t kind;
    bool inferred;
};

/* Steps of one track, one after the other. */
struct chain {
    size_t first, last; /* rows of the list; next[] leads from one to the other */
    uint32_t line;
    int64_t rank;
    int64_t from_ns, to_ns;
};

struct walk {
    const struct path_graph *g;
    int64_t from_ns;     /* it ends here */
    int64_t t_ns;        /* and is here, ... */
    uint32_t line;       /* ... on this line, */
    size_t at;           /* on the device at this piece; on the host not used */
    bool device;         /* has the rank one? */
    struct segment *seg; /* the latest first */
    size_t n, cap;
};

static bool put(struct walk *w, int64_t from_ns, uint32_t span, enum critical_kind kind,
                bool inferred)
{
    from_ns = MAX(from_ns, w->from_ns);
    if (from_ns >= w->t_ns)
        return true;
    if (!GROW(w->seg, w->cap, w->n + 1))
        return false;
    w->seg[w->n++] = (struct segment){ from_ns, w->t_ns, span, w->line, (uint8_t)kind, inferred };
    w->t_ns = from_ns;
    return true;
}

static enum critical_kind kind_of(const struct walk *w, uint32_t span)
{
    switch ((enum span_class)w->g->class[w->g->site[span]]) {
    case CLASS_COMPUTE:
        return CRITICAL_compute;
    case CLASS_COMM:
        return CRITICAL_communication;
    case CLASS_COPY:
        return CRITICAL_copy;
    case CLASS_DATA:
        return CRITICAL_data;
    case CLASS_RUNTIME:
    case CLASS_MEASURING:
        return CRITICAL_runtime;
    case CLASS_OPERATOR:
    case CLASS_BACKWARD:
    case CLASS_OPTIMIZER:
        return w->device ? CRITICAL_host : CRITICAL_compute;
    case CLASS_HOST:
    case CLASS_NONE:
    case CLASS_COUNT:
        break;
    }
    return CRITICAL_host;
}

/* When a piece of work could have started, had the device been free: the call that launches it has
 * returned, or, if it waits for the work itself, has begun. */
static int64_t launched_ns(const struct path_graph *g, uint32_t launch, const struct piece *p)
{
    int64_t end = add_ns(g->ts[launch], g->dur[launch]);

    if (path_sync_of(g, launch).scope == SYNC_OWN && end >= p->to_ns)
        end = g->ts[launch];
    return MIN(end, p->from_ns);
}

/* One piece of work on the device, and on to what it waited for. */
static bool walk_device(struct walk *w)
{
    const struct path_graph *g = w->g;
    const struct line *l = &g->line[w->line];
    const struct piece *p = &l->at[w->at];
    uint32_t launch = path_launch_of(g, p->span);
    bool starts = p->from_ns == g->ts[p->span], inferred;
    int64_t before = w->at ? l->at[w->at - 1].to_ns : INT64_MIN, launched = INT64_MIN;
    struct path_place other = { OPM_NULL_ID, NO_PIECE };

    if (!put(w, p->from_ns, p->span, kind_of(w, p->span), false))
        return false;
    if (launch != OPM_NULL_ID && starts)
        launched = launched_ns(g, launch, p);
    if (starts && before < p->from_ns)
        other = path_awaited(g, (struct path_place){ w->line, w->at }, MAX(before, launched),
                             &inferred);
    if (other.at != NO_PIECE) {
        if (!put(w, g->line[other.line].at[other.at].to_ns, p->span, CRITICAL_sync, inferred))
            return false;
        w->line = other.line;
        w->at = other.at;
    } else if (launched > before) {
        w->line = g->track[launch] < g->nline ? g->track[launch] : w->line;
        if (!put(w, g->ts[launch], launch, CRITICAL_launch, false))
            return false;
        w->at = NO_PIECE;
    } else if (w->at) {
        if (!put(w, before, launch == OPM_NULL_ID ? OPM_NULL_ID : p->span,
                 launch == OPM_NULL_ID ? CRITICAL_idle : CRITICAL_gap, false))
            return false;
        w->at--;
    } else {
        return put(w, w->from_ns, OPM_NULL_ID, CRITICAL_idle, false);
    }
    return true;
}

/* Another thread of the process that worked while this one stood still from from_ns on: the
 * backward pass, or what it was called from. */
static uint32_t thread_instead(const struct walk *w, int64_t from_ns, int64_t *until_ns)
{
    const struct path_graph *g = w->g;
    const struct line *own = &g->line[w->line];
    uint32_t best = OPM_NULL_ID;

    for (size_t i = 0; i < g->nline; i++) {
        const struct line *l = &g->line[i];
        size_t at = NO_PIECE;
        enum span_class class;

        if (!l->on_device && i != w->line && l->pid == own->pid && l->rank == own->rank &&
            (l->backward || own->backward))
            at = path_piece_before(l, w->t_ns);
        if (at == NO_PIECE || MIN(l->at[at].to_ns, w->t_ns) <= from_ns)
            continue;
        class = (enum span_class)g->class[g->site[l->at[at].span]];
        if (class == CLASS_HOST || class == CLASS_DATA)
            continue;
        from_ns = *until_ns = MIN(l->at[at].to_ns, w->t_ns);
        best = (uint32_t)i;
    }
    return best;
}

/* Stands still from from_ns to now: go to the thread that works instead, or stay. */
static bool walk_still(struct walk *w, int64_t from_ns, uint32_t span, enum critical_kind kind)
{
    int64_t until_ns = 0;
    uint32_t other = w->g->line[w->line].pid == OPM_NULL_I64
                         ? OPM_NULL_ID
                         : thread_instead(w, from_ns, &until_ns);

    if (other == OPM_NULL_ID)
        return put(w, from_ns, span, kind, false);
    if (!put(w, until_ns, span, kind, false))
        return false;
    w->line = other;
    return true;
}

static bool walk_host(struct walk *w)
{
    const struct path_graph *g = w->g;
    const struct line *l = &g->line[w->line];
    size_t at = path_piece_before(l, w->t_ns);
    const struct piece *p = at == NO_PIECE ? NULL : &l->at[at];
    struct sync sync;

    if (!p || p->to_ns < w->t_ns)
        return walk_still(w, p ? p->to_ns : w->from_ns, OPM_NULL_ID, CRITICAL_idle);
    sync = path_sync_of(g, p->span);
    if (sync.scope != SYNC_NONE) {
        struct path_place on = path_waited_for(g, p->span, sync, w->t_ns);
        int64_t until = on.at == NO_PIECE ? INT64_MIN : g->line[on.line].at[on.at].to_ns;

        if (until > g->ts[p->span]) {
            if (!put(w, until, p->span, CRITICAL_sync, false))
                return false;
            w->line = on.line;
            w->at = on.at;
            return true;
        }
    }
    if (g->class[g->site[p->span]] == CLASS_HOST)
        return walk_still(w, p->from_ns, p->span, CRITICAL_host);
    return put(w, p->from_ns, p->span, kind_of(w, p->span), false);
}

/* Segments of a chain, the latest first. Every move goes back in time or, on the device, in the
 * order of launches; the bound keeps times that contradict each other from going in circles. */
static bool walk_chain(struct walk *w)
{
    size_t bound = 4 * w->g->nspan + 64;

    while (w->t_ns > w->from_ns && bound-- > 0) {
        bool ok = w->at == NO_PIECE ? walk_host(w) : walk_device(w);

        if (!ok)
            return false;
    }
    return put(w, w->from_ns, OPM_NULL_ID, CRITICAL_idle, false);
}

/* Work on the device that was launched while the steps of a chain ran, and ends last. */
static struct path_place last_on_device(const struct path_graph *g, const struct chain *c)
{
    struct path_place best = { OPM_NULL_ID, NO_PIECE };
    int64_t best_ns = INT64_MIN;

    for (uint32_t i = path_first_stream(g, c->rank); i != OPM_NULL_ID; i = g->line[i].next_stream) {
        const struct line *l = &g->line[i];
        size_t at = path_launched_before(g, l, INT64_MAX, c->to_ns);
        uint32_t launch = at == NO_PIECE ? OPM_NULL_ID : path_launch_of(g, l->at[at].span);

        if (launch == OPM_NULL_ID || g->ts[launch] < c->from_ns ||
            l->at[at].to_ns <= MAX(c->to_ns, best_ns))
            continue;
        best_ns = l->at[at].to_ns;
        best = (struct path_place){ i, at };
    }
    return best;
}

/* Of all lines of the rank what was going on last before the end of the chain. */
static struct path_place last_of_all(const struct path_graph *g, const struct chain *c)
{
    struct path_place best = { OPM_NULL_ID, NO_PIECE };
    int64_t best_ns = INT64_MIN;

    for (size_t i = 0; i < g->nline; i++) {
        const struct line *l = &g->line[i];
        size_t at = l->rank == c->rank ? path_piece_before(l, c->to_ns) : NO_PIECE;
        int64_t end = at == NO_PIECE ? INT64_MIN : MIN(l->at[at].to_ns, c->to_ns);

        if (end > best_ns || (end == best_ns && best.at != NO_PIECE && l->on_device &&
                              !g->line[best.line].on_device)) {
            best_ns = end;
            best = (struct path_place){ (uint32_t)i, at };
        }
    }
    return best;
}

/* Put the walk where the chain ends. False: nothing is recorded there. */
static bool walk_begin(struct walk *w, const struct path_graph *g, const struct chain *c)
{
    struct path_place last = last_on_device(g, c);
    const struct line *l = c->line < g->nline ? &g->line[c->line] : NULL;

    w->g = g;
    w->from_ns = c->from_ns;
    w->t_ns = c->to_ns;
    w->device = path_first_stream(g, c->rank) != OPM_NULL_ID;
    w->n = 0;
    if (last.at != NO_PIECE)
        w->t_ns = g->line[last.line].at[last.at].to_ns;
    else if (l && !l->on_device && l->n && path_piece_before(l, c->to_ns) != NO_PIECE &&
             l->at[path_piece_before(l, c->to_ns)].to_ns > c->from_ns)
        last = (struct path_place){ c->line, NO_PIECE };
    else
        last = last_of_all(g, c);
    w->line = last.line;
    w->at = last.line != OPM_NULL_ID && g->line[last.line].on_device ? last.at : NO_PIECE;
    return w->line != OPM_NULL_ID;
}

/* Is anything of the rank recorded between two times? */
static bool is_recorded(const struct path_graph *g, int64_t rank, int64_t from_ns, int64_t to_ns)
{
    for (size_t i = 0; i < g->nline; i++) {
        const struct line *l = &g->line[i];
        size_t at = l->rank == rank ? path_piece_before(l, to_ns) : NO_PIECE;

        if (at != NO_PIECE && (l->at[at].to_ns > from_ns || l->at[at].from_ns >= from_ns))
            return true;
    }
    return false;
}

struct output {
    const struct store *st;
    struct table *to;
    str_id kind[CRITICAL_COUNT];
};

static int add_row(const struct output *o, const struct step_row *r, int64_t seq, int64_t from_ns,
                   int64_t to_ns, const struct segment *s)
{
    struct cell c[critical_path_col_COUNT];

    c[critical_path_col_step] = cell_id(r->step);
    c[critical_path_col_num] = cell_i64(r->num);
    c[critical_path_col_rank] = cell_i64(r->rank);
    c[critical_path_col_warmup] = cell_i64(r->warmup);
    c[critical_path_col_seq] = cell_i64(seq);
    c[critical_path_col_kind] = cell_str(o->kind[s->kind]);
    c[critical_path_col_ts] = cell_i64(from_ns);
    c[critical_path_col_dur] = cell_i64(to_ns - from_ns);
    c[critical_path_col_name] = s->span == OPM_NULL_ID
                                    ? cell_null()
                                    : store_cell(o->st, TABLE_span, s->span, span_col_name);
    c[critical_path_col_span] = cell_id(s->span);
    c[critical_path_col_track] = cell_id(s->line);
    c[critical_path_col_inferred] = cell_i64(s->inferred);
    return table_add(o->to, c);
}

/* The part of the walk within each step of the chain, and after the last. */
static int add_steps(const struct output *o, const struct walk *w, const struct step_list *l,
                     const struct chain *c, const size_t *next)
{
    size_t k = w->n;
    int rc = 0;

    for (size_t i = c->first; rc == 0 && i != SIZE_MAX; i = next[i]) {
        const struct step_row *r = &l->row[i];
        int64_t to_ns = next[i] == SIZE_MAX ? INT64_MAX : r->to_ns, seq = 0;
        bool recorded = is_recorded(w->g, c->rank, r->from_ns, r->to_ns);

        while (k > 0 && w->seg[k - 1].to_ns <= r->from_ns)
            k--;
        for (size_t m = k; rc == 0 && recorded && m-- > 0 && w->seg[m].from_ns < to_ns;)
            rc = add_row(o, r, ++seq, MAX(w->seg[m].from_ns, r->from_ns),
                         MIN(w->seg[m].to_ns, to_ns), &w->seg[m]);
    }
    return rc;
}

/* The line that marked a step, or on which it was found. */
static uint32_t line_of(const struct store *st, const struct step_list *l, size_t i)
{
    struct cell track;

    if (l->row[i].step == OPM_NULL_ID)
        return l->track;
    track = store_cell(st, TABLE_step, l->row[i].step, step_col_track);
    return track.kind == CELL_I64 ? (uint32_t)track.i64 : OPM_NULL_ID;
}

/* Steps of a line that follow each other make one chain; one that overlaps begins another. chain
 * has room for a chain per step. */
static int chains_get(struct chain *chain, size_t *out_n, size_t *next, const struct path_graph *g,
                      const struct step_list *l)
{
    size_t *latest = mem_alloc((g->nline + 1) * sizeof(*latest)), n = 0;

    if (!latest)
        return OPM_ENOMEM;
    for (size_t i = 0; i < g->nline; i++)
        latest[i] = SIZE_MAX;
    for (size_t i = 0; i < l->n; i++) {
        const struct step_row *r = &l->row[i];
        uint32_t line = line_of(g->st, l, i);
        size_t to = line < g->nline ? latest[line] : SIZE_MAX;

        next[i] = SIZE_MAX;
        if (to != SIZE_MAX && chain[to].to_ns <= r->from_ns) {
            next[chain[to].last] = i;
            chain[to].last = i;
            chain[to].to_ns = r->to_ns;
            continue;
        }
        if (line < g->nline)
            latest[line] = n;
        chain[n++] = (struct chain){ i,          i,
                                     line,       line < g->nline ? g->line[line].rank : r->rank,
                                     r->from_ns, r->to_ns };
    }
    *out_n = n;
    mem_free(latest);
    return 0;
}

/* Without steps: from the first to the last record of every rank. */
static int whole_trace(struct step_list *l, const struct path_graph *g)
{
    size_t cap = 0;

    for (size_t i = 0; i < g->nline; i++) {
        const struct line *at = &g->line[i];
        size_t k = 0;

        if (!at->n)
            continue;
        while (k < l->n && l->row[k].rank != at->rank)
            k++;
        if (k == l->n) {
            if (!GROW(l->row, cap, l->n + 1))
                return OPM_ENOMEM;
            l->row[l->n++] = (struct step_row){ .step = OPM_NULL_ID,
                                                .num = OPM_NULL_I64,
                                                .from_ns = INT64_MAX,
                                                .to_ns = INT64_MIN,
                                                .rank = at->rank };
        }
        l->row[k].from_ns = MIN(l->row[k].from_ns, at->at[0].from_ns);
        l->row[k].to_ns = MAX(l->row[k].to_ns, at->at[at->n - 1].to_ns);
    }
    return 0;
}

static int paths(const struct output *o, const struct path_graph *g, const struct step_list *l)
{
    struct chain *chain = mem_alloc((l->n + 1) * sizeof(*chain));
    size_t *next = mem_alloc((l->n + 1) * sizeof(*next)), n = 0;
    struct walk w = { 0 };
    int rc = chain && next ? 0 : OPM_ENOMEM;

    if (rc == 0)
        rc = chains_get(chain, &n, next, g, l);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!walk_begin(&w, g, &chain[i]))
            continue;
        rc = walk_chain(&w) ? add_steps(o, &w, l, &chain[i], next) : OPM_ENOMEM;
    }
    mem_free(w.seg);
    mem_free(next);
    mem_free(chain);
    return rc;
}

int analyze_critical_path(const struct store *st, struct table *out, opm_error *err)
{
    static const char *const names[CRITICAL_COUNT] = {
#define X(name, doc) #name,
        CRITICAL_KINDS(X)
#undef X
    };
    struct output o = { .st = st, .to = out };
    struct path_graph g;
    struct step_list l = { 0 };
    int rc = path_graph_get(&g, st);

    for (size_t i = 0; i < CRITICAL_COUNT; i++)
        o.kind[i] = strpool_find(store_strings(st), names[i], strlen(names[i]));
    if (rc == 0)
        rc = step_list_get(&l, st);
    if (rc == 0 && !l.n)
        rc = whole_trace(&l, &g);
    if (rc == 0)
        rc = paths(&o, &g, &l);
    step_list_release(&l);
    path_graph_release(&g);
    return rc ? opm__fail(err, rc, "critical_path: out of memory") : 0;
}
