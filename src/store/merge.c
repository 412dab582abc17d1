/* merge.c -- bring the spans of all tracks into one order, without a second copy of the columns.
 *
 * Everything runs backwards: each track is read from its last span to its first, and the last span
 * of all that is left is written to the last slot that is left. A track that is ordered by end goes
 * through a stack: going backwards, a parent comes before its children, and a span can be handed
 * out (as the last one of its track in the wanted order) as soon as the next one to be read does
 * not lie inside it.
 *
 * The slot written to must not hold a span that is still to be read. All unread spans lie below
 * `limit`; when the writer gets there, the topmost unread ones are moved aside, into chunks that
 * their track reads first. Where the tracks were added in turns, little has to be moved. */
#include "store/store_int.h"

#include "base/alloc.h"

#define CHUNK_SPANS 1365 /* a chunk is just under 32 KiB */
#define SLAB_CHUNKS 256
#define ASIDE_SPANS 1024 /* moved aside at a time */

struct chunk {
    struct chunk *next;
    uint32_t n, pos;
    struct span_entry e[CHUNK_SPANS]; /* in the order of reading */
};

/* One track. */
struct stream {
    struct span_entry head; /* the next one to write */
    uint32_t track;
    enum track_order order;
    /* What is to be read: first the chunks, then `left` spans from `first`, then earlier pieces. */
    struct chunk *aside, *aside_tail;
    const struct span_piece *piece;
    size_t npiece; /* pieces not used up, the current one included */
    uint32_t first, left;
    const struct span_entry *sorted;
    size_t nsorted;
    struct span_entry raw; /* ORDER_BY_END: read but not looked at */
    bool has_raw;
    struct span_entry *stack;
    size_t nstack, stack_cap;
};

struct merge {
    int64_t *ts, *dur;
    uint32_t *site;
    int64_t shift_ns;
    struct packed *track;
    uint32_t *final_id;
    struct stream *stream;
    uint32_t *stream_of; /* by track */
    struct stream **heap;
    size_t nheap;
    /* Writing. */
    size_t w;     /* slots [w, n) are written */
    size_t limit; /* nothing in [limit, w) is unread */
    const struct span_run *run;
    const uint32_t *run_piece;
    size_t nrun; /* runs that may hold unread spans below w */
    /* Chunks. */
    struct chunk *spare;
    struct column *slab;
    size_t nslab, slab_cap, slab_used;
};

static void stream_next_piece(struct stream *s)
{
    while (!s->left && s->npiece > 1) {
        s->npiece--;
        s->first = s->piece[s->npiece - 1].first;
        s->left = s->piece[s->npiece - 1].n;
    }
}

static struct chunk *chunk_new(struct merge *m)
{
    struct chunk *c = m->spare;

    if (c) {
        m->spare = c->next;
    } else {
        if (!m->nslab || m->slab_used == SLAB_CHUNKS) {
            if (!GROW(m->slab, m->slab_cap, m->nslab + 1))
                return NULL;
            m->slab[m->nslab] = (struct column){ 0 };
            if (column_reserve(&m->slab[m->nslab], SLAB_CHUNKS * sizeof(*c)))
                return NULL;
            m->nslab++;
            m->slab_used = 0;
        }
        c = (struct chunk *)m->slab[m->nslab - 1].data + m->slab_used++;
    }
    c->next = NULL;
    c->n = c->pos = 0;
    return c;
}

static int stream_move_aside(struct merge *m, struct stream *s)
{
    for (uint32_t n = MIN(s->left, (uint32_t)ASIDE_SPANS); n; n--) {
        size_t i = (size_t)s->first + s->left - 1;

        if (!s->aside_tail || s->aside_tail->n == CHUNK_SPANS) {
            struct chunk *c = chunk_new(m);

            if (!c)
                return OPM_ENOMEM;
            if (s->aside)
                s->aside_tail->next = c;
            else
                s->aside = c;
            s->aside_tail = c;
        }
        s->aside_tail->e[s->aside_tail->n++] =
            (struct span_entry){ m->ts[i], m->dur[i], m->site[i], (uint32_t)i };
        s->left--;
    }
    stream_next_piece(s);
    return 0;
}

/* Move the limit below w. */
static int make_room(struct merge *m)
{
    while (m->nrun) {
        const struct span_run *r = &m->run[m->nrun - 1];
        struct stream *s = &m->stream[m->stream_of[r->track]];
        size_t end;

        /* Of the spans of a track, the topmost unread ones are in its current piece. */
        if (!s->left || m->run_piece[m->nrun - 1] != s->npiece - 1) {
            m->nrun--;
            continue;
        }
        end = (size_t)s->first + s->left;
        if (end < m->w) {
            m->limit = end;
            return 0;
        }
        if (stream_move_aside(m, s))
            return OPM_ENOMEM;
    }
    m->limit = 0;
    return 0;
}

static bool read_aside(struct merge *m, struct stream *s, struct span_entry *out)
{
    struct chunk *c = s->aside;

    *out = c->e[c->pos++];
    if (c->pos == c->n) {
        s->aside = c->next;
        if (!s->aside)
            s->aside_tail = NULL;
        c->next = m->spare;
        m->spare = c;
    }
    return true;
}

/* The span before the one read last; false if there is none. */
static inline bool stream_read(struct merge *m, struct stream *s, struct span_entry *out)
{
    size_t i;

    if (UNLIKELY(s->aside != NULL))
        return read_aside(m, s, out);
    if (UNLIKELY(!s->left))
        return false;
    i = (size_t)s->first + --s->left;
    *out = (struct span_entry){ m->ts[i], m->dur[i], m->site[i], (uint32_t)i };
    if (UNLIKELY(!s->left))
        stream_next_piece(s);
    return true;
}

/* Set s->head. 1, 0 at the end, or OPM_ENOMEM. */
static inline int stream_next(struct merge *m, struct stream *s)
{
    if (s->order == ORDER_SORTED) {
        if (!s->nsorted)
            return 0;
        s->head = s->sorted[--s->nsorted];
        return 1;
    }
    if (s->order == ORDER_BY_START)
        return stream_read(m, s, &s->head);
    for (;;) {
        if (s->nstack) {
            const struct span_entry *top = &s->stack[s->nstack - 1];

            if (!s->has_raw || s->raw.ts < top->ts + (top->dur == 0)) {
                s->head = *top;
                s->nstack--;
                return 1;
            }
        } else if (!s->has_raw) {
            return 0;
        }
        if (UNLIKELY(s->nstack == s->stack_cap) && !GROW(s->stack, s->stack_cap, s->nstack + 1))
            return OPM_ENOMEM;
        s->stack[s->nstack++] = s->raw;
        s->has_raw = stream_read(m, s, &s->raw);
    }
}

/* Whether a must be written before b, that is, comes later in the order. */
static inline bool stream_later(const struct stream *a, const struct stream *b)
{
    return a->head.ts != b->head.ts ? a->head.ts > b->head.ts : a->track > b->track;
}

static void heap_sink(struct merge *m, size_t at)
{
    struct stream *s = m->heap[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < m->nheap && stream_later(m->heap[child + 1], m->heap[child]))
            child++;
        if (child >= m->nheap || !stream_later(m->heap[child], s))
            break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = s;
}

static int merge_run(struct merge *m)
{
    while (m->nheap) {
        struct stream *s = m->heap[0], *second = NULL;
        int more;

        if (m->nheap > 1)
            second = m->heap[1];
        if (m->nheap > 2 && stream_later(m->heap[2], second))
            second = m->heap[2];
        do {
            if (UNLIKELY(m->w == m->limit) && make_room(m))
                return OPM_ENOMEM;
            m->w--;
            m->ts[m->w] = s->head.ts - m->shift_ns;
            m->dur[m->w] = s->head.dur;
            m->site[m->w] = s->head.site;
            packed_set(m->track, m->w, s->track);
            if (m->final_id)
                m->final_id[s->head.id] = (uint32_t)m->w;
            more = stream_next(m, s);
        } while (more > 0 && (!second || stream_later(s, second)));
        if (more < 0)
            return more;
        if (!more)
            m->heap[0] = m->heap[--m->nheap];
        if (m->nheap)
            heap_sink(m, 0);
    }
    return 0;
}

static int merge_start(struct merge *m, const struct track_spans *tracks, size_t ntrack)
{
    for (size_t i = 0; i < ntrack; i++) {
        const struct track_spans *t = &tracks[i];
        struct stream *s = &m->stream[i];
        int more;

        m->stream_of[t->track] = (uint32_t)i;
        *s = (struct stream){ .track = t->track, .order = t->order };
        if (t->order == ORDER_SORTED) {
            s->sorted = t->sorted.data;
            s->nsorted = t->nsorted;
        } else {
            s->piece = t->piece;
            s->npiece = t->npiece + 1;
            stream_next_piece(s);
        }
        if (t->order == ORDER_BY_END)
            s->has_raw = stream_read(m, s, &s->raw);
        more = stream_next(m, s);
        if (more < 0)
            return more;
        if (more)
            m->heap[m->nheap++] = s;
    }
    for (size_t i = m->nheap / 2; i-- > 0;)
        heap_sink(m, i);
    return 0;
}

int merge_tracks(struct store *st, const struct track_spans *tracks, size_t ntrack,
                 const uint32_t *run_piece, int64_t shift_ns, uint32_t *final_id)
{
    size_t n = st->table[TABLE_span].nrow;
    uint32_t no_track = (uint32_t)st->table[TABLE_track].nrow;
    struct merge m = {
        .ts = span_ts(st),
        .dur = span_dur(st),
        .site = st->span_site.id,
        .shift_ns = shift_ns,
        .track = &st->span_track,
        .final_id = final_id,
        .w = n,
        .limit = n,
        .run = st->run,
        .run_piece = run_piece,
        .nrun = st->nrun,
    };
    int rc = OPM_ENOMEM;

    m.stream = mem_calloc(ntrack, sizeof(*m.stream));
    m.heap = mem_calloc(ntrack, sizeof(struct stream *));
    m.stream_of = mem_calloc((size_t)no_track + 1, sizeof(*m.stream_of));
    if (!m.stream || !m.heap || !m.stream_of)
        goto out;
    if (ntrack == 1)
        st->span_track.same = tracks[0].track;
    else if (packed_init(&st->span_track, n, no_track))
        goto out;
    rc = merge_start(&m, tracks, ntrack);
    if (!rc)
        rc = merge_run(&m);
    assert(rc || m.w == 0);
out:
    for (size_t i = 0; m.stream && i < ntrack; i++)
        mem_free(m.stream[i].stack);
    for (size_t i = 0; i < m.nslab; i++)
        column_release(&m.slab[i]);
    mem_free(m.slab);
    mem_free(m.stream);
    mem_free(m.heap);
    mem_free(m.stream_of);
    return rc;
}
