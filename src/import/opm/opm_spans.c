/* opm_spans.c -- packed spans straight into the store's columns, pieces in parallel on two threads.
 */
#include "import/opm/opm_events.h"

#include "base/alloc.h"
#include "base/budget.h"

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

int events_note(struct event_pass *e, const struct noted *n)
{
    int rc = 0;

    pthread_mutex_lock(&e->lock);
    if (GROW(e->noted, e->noted_cap, e->nnoted + 1))
        e->noted[e->nnoted++] = *n;
    else
        rc = OPM_ENOMEM;
    pthread_mutex_unlock(&e->lock);
    return rc;
}

/* One span into row k of the block. */
static int place(struct event_pass *e, const struct piece *p, const struct span_block *b, size_t k,
                 uint64_t start, uint64_t dur, uint32_t id, int64_t *unknown)
{
    const struct opm_file *f = e->f;
    const struct def_site *site = id < ID_COUNT ? defs_site(f, id) : NULL;

    b->ts[k] = time_ns(&f->time, start);
    b->dur[k] = time_sub(time_ns(&f->time, start + dur), b->ts[k]);
    b->site[k] = site ? site->site : e->unknown_site;
    *unknown += !site;
    if (UNLIKELY((site && role_is_special(site->role)) || is_wanted(e, start))) {
        struct noted n = { .ticks = start,
                           .ts_ns = b->ts[k],
                           .dur_ns = b->dur[k],
                           .thread = p->thread,
                           .build_id = b->first_build_id + (uint32_t)k,
                           .id = id };

        return events_note(e, &n);
    }
    return 0;
}

/* Spans of a damaged piece still have rows: empty ones, at the start of the trace, named as
 * unknown. */
static void blank(struct event_pass *e, const struct span_block *b, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        b->ts[k] = 0;
        b->dur[k] = 0;
        b->site[k] = e->unknown_site;
    }
}

static int piece_unpack(struct event_pass *e, size_t i, struct scratch *s)
{
    const struct piece *p = &e->f->piece[i];
    const struct span_block *b = &e->block[i];
    struct rd r = rd_of(p->packed, p->size);
    struct unpacked_head h;
    struct opm_unit u[3];
    uint64_t ticks;
    int64_t unknown = 0;
    bool good = unpack_head(&r, &h);
    int rc = 0;

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
        pthread_mutex_lock(&e->lock);
        e->corrupt++;
        pthread_mutex_unlock(&e->lock);
        return 0;
    }
    for (size_t k = 0; k < h.nspan && rc == 0; k++)
        rc = place(e, p, b, k, s->start[k], s->dur[k], s->id[k], &unknown);
    pthread_mutex_lock(&e->lock);
    e->unknown += unknown;
    pthread_mutex_unlock(&e->lock);
    return rc;
}

static int piece_copy(struct event_pass *e, size_t i)
{
    const struct piece *p = &e->f->piece[i];
    int64_t unknown = 0;
    size_t k = 0;
    int rc = 0;

    for (size_t at = 0; at < p->nunit && rc == 0;) {
        const struct opm_unit *u = &p->units[at];
        unsigned n = unit_count(unit_kind(u));

        if (!n || n > p->nunit - at)
            break;
        at += n;
        if (unit_kind(u) == UNIT_SPAN)
            rc = place(e, p, &e->block[i], k++, u->ticks, unit_value(u), unit_id(u), &unknown);
    }
    pthread_mutex_lock(&e->lock);
    e->unknown += unknown;
    pthread_mutex_unlock(&e->lock);
    return rc;
}

/* The caller's thread alone tells the caller how far it is; reading chunks was the first half. */
static bool give_up(const struct event_pass *e, size_t piece)
{
    const struct import_source *src = e->f->src;
    uint64_t done = src->len / 2 + src->len * (uint64_t)piece / (2 * e->f->npiece);

    return src->progress && pthread_equal(pthread_self(), e->caller) && piece % 64 == 0 &&
           src->progress(src->user, done, src->len);
}

static void *second_pass(void *arg)
{
    struct event_pass *e = arg;
    const struct opm_file *f = e->f;
    struct scratch s = { 0 };
    int rc = 0;

    for (;;) {
        size_t i = atomic_fetch_add(&e->next_piece, 1);

        if (i >= f->npiece)
            break;
        rc = f->piece[i].packed ? piece_unpack(e, i, &s) : piece_copy(e, i);
        if (rc == 0 && give_up(e, i))
            rc = OPM_ELIMIT;
        if (rc)
            break;
    }
    scratch_release(&s);
    if (rc) {
        pthread_mutex_lock(&e->lock);
        e->rc = rc;
        pthread_mutex_unlock(&e->lock);
    }
    return NULL;
}

static int blocks_take(struct event_pass *e, size_t total)
{
    struct opm_file *f = e->f;
    int rc = store_reserve_spans(f->st, total + e->nopen);

    for (size_t i = 0; i < f->npiece && rc == 0; i++) {
        size_t n = e->block[i].first_build_id;
        const struct def_thread *t = defs_thread(f, f->piece[i].thread);

        if (n)
            rc = t ? store_add_span_block(f->st, t->track, n, &e->block[i]) : OPM_ENOMEM;
    }
    return rc;
}

int spans_read(struct event_pass *e, size_t total)
{
    int rc = blocks_take(e, total);
    pthread_t helper;
    bool helped;

    if (rc)
        return rc;
    e->caller = pthread_self();
    helped = total > 200000 && thread_start(&helper, second_pass, e) == 0;
    second_pass(e);
    if (helped)
        pthread_join(helper, NULL);
    return e->rc;
}
