/* opm_spans.c -- packed spans straight into the store's columns, pieces in parallel on two threads.
 */
#include "import/opm/opm_events.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/runsort.h"

#include <string.h>

#define PARALLEL_FROM 200000 /* spans */

/* Buffers of a thread that unpacks. */
struct scratch {
    uint64_t *start, *dur;
    uint32_t *id;
    size_t cap;
};

static bool scratch_fit(struct scratch *s, size_t n)
{
    if (n <= s->cap)
        return true;
    mem_free(s->start);
    mem_free(s->dur);
    mem_free(s->id);
    s->start = mem_alloc(n * sizeof(*s->start));
    s->dur = mem_alloc(n * sizeof(*s->dur));
    s->id = mem_alloc(n * sizeof(*s->id));
    s->cap = s->start && s->dur && s->id ? n : 0;
    return s->cap != 0;
}

static void scratch_release(struct scratch *s)
{
    mem_free(s->start);
    mem_free(s->dur);
    mem_free(s->id);
}

/* What one thread of the second pass has to itself. */
struct span_worker {
    struct event_pass *e;
    struct scratch scratch;
    struct notes notes;
    int64_t unknown, corrupt;
    bool is_caller; /* who may tell how far it is */
    int rc;
};

int notes_add(struct notes *l, const struct noted *n)
{
    if (!GROW(l->item, l->cap, l->n + 1))
        return OPM_ENOMEM;
    l->item[l->n++] = *n;
    return 0;
}

/* Spans into rows of the block, from row `at` on. */
static int place(struct span_worker *w, const struct piece *p, const struct span_block *b,
                 size_t at, size_t n, const uint64_t *start, const uint64_t *dur,
                 const uint32_t *id)
{
    const struct event_pass *e = w->e;
    const struct timebase time = e->f->time; /* a copy: nothing that is written can change it */
    const uint32_t *ids = e->f->id;
    int64_t *ts = b->ts + at, *took = b->dur + at;
    uint32_t *site = b->site + at;
    bool any_wanted = e->wanted.n > 0;

    for (size_t k = 0; k < n; k++) {
        ts[k] = time_ns(&time, start[k]);
        took[k] = time_sub(time_ns(&time, start[k] + dur[k]), ts[k]);
    }
    for (size_t k = 0; k < n; k++) {
        uint32_t known = id[k] < ID_COUNT ? ids[id[k]] : 0;
        struct span_site s = (known & 3) == ID_SITE ? e->span_site[known >> 2] : e->no_site;

        site[k] = s.site;
        w->unknown += s.unknown;
        if (UNLIKELY(s.special || (any_wanted && is_wanted(e, start[k])))) {
            struct noted noted = { .ticks = start[k],
                                   .ts_ns = ts[k],
                                   .dur_ns = took[k],
                                   .thread = p->thread,
                                   .build_id = b->first_build_id + (uint32_t)(at + k),
                                   .id = id[k] };

            if (notes_add(&w->notes, &noted))
                return OPM_ENOMEM;
        }
    }
    return 0;
}

/* Spans of a damaged piece still have rows: empty ones, at the start of the trace, named as
 * unknown. */
static void blank(const struct event_pass *e, const struct span_block *b, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        b->ts[k] = 0;
        b->dur[k] = 0;
        b->site[k] = e->unknown_site;
    }
}

static int piece_unpack(struct span_worker *w, size_t i)
{
    const struct event_pass *e = w->e;
    const struct piece *p = &e->f->piece[i];
    const struct span_block *b = &e->block[i];
    struct scratch *s = &w->scratch;
    struct rd r = rd_of(p->packed, p->size);
    struct unpacked_head h;
    struct opm_unit u[3];
    uint64_t ticks;
    bool good = unpack_head(&r, &h);

    if (!good || !h.nspan || !b->ts) /* the first pass has given up on it */
        return 0;
    if (!scratch_fit(s, h.nspan))
        return OPM_ENOMEM;
    ticks = h.base;
    for (size_t k = 0; k < h.nother && good; k++)
        good = unpack_other(&r, u, &ticks);
    good = good && unpack_spans(&r, &h, s->start, s->dur, s->id);
    if (!good) {
        blank(e, b, h.nspan);
        w->corrupt++;
        return 0;
    }
    return place(w, p, b, 0, h.nspan, s->start, s->dur, s->id);
}

static int piece_copy(struct span_worker *w, size_t i)
{
    const struct piece *p = &w->e->f->piece[i];
    size_t k = 0;
    int rc = 0;

    for (size_t at = 0; at < p->nunit && rc == 0;) {
        const struct opm_unit *u = &p->units[at];
        unsigned n = unit_count(unit_kind(u));

        if (!n || n > p->nunit - at)
            break;
        at += n;
        if (unit_kind(u) == UNIT_SPAN) {
            uint64_t dur = unit_value(u);
            uint32_t id = unit_id(u);

            rc = place(w, p, &w->e->block[i], k++, 1, &u->ticks, &dur, &id);
        }
    }
    return rc;
}

/* The caller's thread alone tells the caller how far it is; reading chunks was the first half. */
static bool give_up(const struct span_worker *w, size_t piece)
{
    const struct opm_file *f = w->e->f;
    const struct import_source *src = f->src;
    uint64_t done = src->len / 2 + src->len * (uint64_t)piece / (2 * f->npiece);

    return src->progress && w->is_caller && piece % 64 == 0 &&
           src->progress(src->user, done, src->len);
}

static void *second_pass(void *arg)
{
    struct span_worker *w = arg;
    struct event_pass *e = w->e;

    while (!w->rc) {
        size_t i = atomic_fetch_add(&e->next_piece, 1);

        if (i >= e->f->npiece)
            break;
        w->rc = e->f->piece[i].packed ? piece_unpack(w, i) : piece_copy(w, i);
        if (!w->rc && give_up(w, i))
            w->rc = OPM_ELIMIT;
    }
    scratch_release(&w->scratch);
    return NULL;
}

/* What the thread found out becomes known to all. */
static int worker_done(struct span_worker *w)
{
    struct event_pass *e = w->e;
    struct notes *all = &e->notes;
    int rc = w->rc;

    if (!rc && w->notes.n) {
        if (GROW(all->item, all->cap, all->n + w->notes.n)) {
            memcpy(all->item + all->n, w->notes.item, w->notes.n * sizeof(*all->item));
            all->n += w->notes.n;
        } else {
            rc = OPM_ENOMEM;
        }
    }
    e->unknown += w->unknown;
    e->corrupt += w->corrupt;
    mem_free(w->notes.item);
    return rc;
}

struct turn {
    uint64_t ticks;
    size_t piece;
};

static int turn_order(const void *va, const void *vb)
{
    const struct turn *a = va, *b = vb;

    return a->ticks < b->ticks ? -1 : a->ticks > b->ticks;
}

/* Pieces come by thread. Their spans get places in the order of time, threads in turns, as far as
 * that keeps the order of each: so near to where they will be that finishing moves little, and can
 * do two halves at a time. */
static int turns_find(const struct opm_file *f, struct turn *turn)
{
    uint64_t last = 0;

    for (size_t i = 0; i < f->npiece; i++) {
        bool same = i && f->piece[i - 1].thread == f->piece[i].thread;

        last = same ? MAX(last, f->piece[i].from) : f->piece[i].from;
        turn[i] = (struct turn){ last, i };
    }
    return runsort(turn, f->npiece, sizeof(*turn), turn_order);
}

static int blocks_take(struct event_pass *e, size_t total)
{
    struct opm_file *f = e->f;
    struct turn *turn = mem_alloc((f->npiece + 1) * sizeof(*turn));
    int rc = turn ? turns_find(f, turn) : OPM_ENOMEM;

    if (rc == 0)
        rc = store_reserve_spans(f->st, total + e->nopen);
    for (size_t i = 0; i < f->npiece && rc == 0; i++) {
        struct span_block *b = &e->block[turn[i].piece];
        const struct def_thread *t;

        if (!b->first_build_id)
            continue;
        t = defs_thread(f, f->piece[turn[i].piece].thread);
        rc = t ? store_add_span_block(f->st, t->track, b->first_build_id, b) : OPM_ENOMEM;
    }
    mem_free(turn);
    return rc;
}

/* What a span of each site needs, in few bytes. */
static int sites_take(struct event_pass *e)
{
    const struct opm_file *f = e->f;

    e->no_site = (struct span_site){ .site = e->unknown_site, .unknown = true };
    e->span_site = mem_alloc((f->nsite + 1) * sizeof(*e->span_site));
    if (!e->span_site)
        return OPM_ENOMEM;
    for (size_t i = 0; i < f->nsite; i++)
        e->span_site[i] = (struct span_site){ .site = f->site[i].site,
                                              .special = role_is_special(f->site[i].role) };
    return 0;
}

int spans_read(struct event_pass *e, size_t total)
{
    struct span_worker worker[2] = { { .e = e, .is_caller = true }, { .e = e } };
    pthread_t helper;
    bool helped;
    int rc = blocks_take(e, total), helper_rc;

    if (rc == 0)
        rc = sites_take(e);
    if (rc)
        return rc;
    helped = total > PARALLEL_FROM && thread_start(&helper, second_pass, &worker[1]) == 0;
    second_pass(&worker[0]);
    if (helped)
        pthread_join(helper, NULL);
    rc = worker_done(&worker[0]);
    helper_rc = worker_done(&worker[1]);
    return rc ? rc : helper_rc;
}
