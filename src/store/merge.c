/* merge.c -- bring the spans of all tracks into one order, without a second copy of the columns.
 *
 * Everything runs backwards: each track is read from its last span to its first, and the last span
 * of all that is left is written to the last slot that is left. A track that is ordered by end goes
 * through a stack: going backwards, a parent comes before its children, and a span can be handed
 * out (as the last one of its track in the wanted order) as soon as the next one to be read does
 * not lie inside it.
 *
 * Streams of spans are merged in pairs, pairs of streams in pairs, and so on, each in batches: that
 * needs no unpredictable branch.
 *
 * The slots written to must not hold a span that is still to be read. All unread spans lie below
 * `limit`; when the writer gets there, the topmost unread ones are moved aside, into chunks that
 * their track reads first. Where the tracks were added in turns, little has to be moved. */
#include "store/store_int.h"

#include "base/alloc.h"

#include <stdlib.h>

#define BATCH 128
#define CHUNK_SPANS 1365 /* a chunk is just under 32 KiB */
#define SLAB_CHUNKS 256
#define ASIDE_SPANS 1024 /* moved aside at a time */

#define BEFORE_ALL INT64_MIN /* the ts of what is read at the end of a stream */

/* A span and its track. */
struct item {
    struct span_entry span;
    uint32_t track;
};

struct chunk {
    struct chunk *next;
    uint32_t n, pos;
    struct span_entry e[CHUNK_SPANS]; /* in the order of reading */
};

/* The spans of one track, last one first. */
struct stream {
    uint32_t track;
    enum track_order order;
    /* What is to be read: first the chunks, then `left` spans from `first`, then earlier pieces. */
    struct chunk *aside, *aside_tail;
    const struct span_piece *piece;
    size_t npiece; /* pieces not used up, the current one included */
    uint32_t first, left;
    const struct span_entry *sorted;
    size_t nsorted;
    struct span_entry next;   /* ORDER_BY_END: the one read last, not yet handed out */
    struct span_entry *stack; /* ORDER_BY_END: those around it */
    size_t nstack, stack_cap;
};

/* A batch from a stream, or merged from two other nodes of which b has the higher tracks. */
struct node {
    struct stream *stream;
    struct node *a, *b;
    uint32_t pos, n; /* of item[], what is left; n 0 after a fill: the end */
    struct item item[BATCH];
};

struct merge {
    int64_t *ts, *dur;
    uint32_t *site;
    int64_t shift_ns;
    struct packed *track;
    uint32_t *final_id;
    struct stream *stream;
    uint32_t *stream_of; /* by track */
    struct node *node;
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

/* Move the limit to `to` or below. */
static int make_room(struct merge *m, size_t to)
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
        if (end <= to) {
            m->limit = end;
            return 0;
        }
        if (stream_move_aside(m, s))
            return OPM_ENOMEM;
    }
    m->limit = 0;
    return 0;
}

static void read_aside(struct merge *m, struct stream *s, struct span_entry *out)
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
}

/* The span before the one read last. */
static inline void stream_read(struct merge *m, struct stream *s, struct span_entry *out)
{
    size_t i;

    if (UNLIKELY(s->aside != NULL)) {
        read_aside(m, s, out);
        return;
    }
    if (UNLIKELY(!s->left)) {
        out->ts = BEFORE_ALL;
        return;
    }
    i = (size_t)s->first + --s->left;
    out->ts = m->ts[i];
    out->dur = m->dur[i];
    out->site = m->site[i];
    out->id = (uint32_t)i;
    if (UNLIKELY(!s->left))
        stream_next_piece(s);
}

/* What may lie inside a span does not start before this; a zero-length one takes nothing in. */
static inline int64_t start_inside(const struct span_entry *e)
{
    return e->ts + (e->dur == 0);
}

/* The stack holds the spans around `next`, the span read last. One that the following span does not
 * lie inside is handed out without going through the stack: most are like that. */
static int fill_by_end(struct merge *m, struct stream *s, struct node *nd)
{
    struct span_entry next = s->next, e;
    size_t nstack = s->nstack;
    int64_t inside = nstack ? start_inside(&s->stack[nstack - 1]) : INT64_MIN;
    uint32_t n = 0;

    while (n < BATCH) {
        if (next.ts < inside) {
            nd->item[n++] = (struct item){ s->stack[--nstack], s->track };
            inside = nstack ? start_inside(&s->stack[nstack - 1]) : INT64_MIN;
            continue;
        }
        if (next.ts == BEFORE_ALL)
            break;
        e = next;
        stream_read(m, s, &next);
        if (LIKELY(next.ts < start_inside(&e))) {
            nd->item[n++] = (struct item){ e, s->track };
            continue;
        }
        if (UNLIKELY(nstack == s->stack_cap) && !GROW(s->stack, s->stack_cap, nstack + 1))
            return OPM_ENOMEM;
        s->stack[nstack++] = e;
        inside = start_inside(&e);
    }
    s->next = next;
    s->nstack = nstack;
    nd->n = n;
    return 0;
}

static int fill_from_stream(struct merge *m, struct stream *s, struct node *nd)
{
    uint32_t n = 0;

    switch (s->order) {
    case ORDER_BY_END:
        return fill_by_end(m, s, nd);
    case ORDER_BY_START:
        for (; n < BATCH; n++) {
            stream_read(m, s, &nd->item[n].span);
            if (nd->item[n].span.ts == BEFORE_ALL)
                break;
            nd->item[n].track = s->track;
        }
        break;
    case ORDER_SORTED:
        for (; n < BATCH && s->nsorted; n++)
            nd->item[n] = (struct item){ s->sorted[--s->nsorted], s->track };
        break;
    }
    nd->n = n;
    return 0;
}

static int node_fill(struct merge *m, struct node *nd);

/* Move n items, always the one that comes later; each node has so many. Which one it is can't be
 * predicted, so there is no branch on it. */
static void merge_items(struct item *out, uint32_t n, struct node *a, struct node *b)
{
    const struct item *x = a->item + a->pos, *y = b->item + b->pos;
    uint32_t from_b = 0;

    for (uint32_t i = 0; i < n; i++) {
        uintptr_t second = y->span.ts >= x->span.ts, mask = -second;

        out[i] = *(const struct item *)(((uintptr_t)x & ~mask) | ((uintptr_t)y & mask));
        x += 1 - second;
        y += second;
        from_b += (uint32_t)second;
    }
    a->pos += n - from_b;
    b->pos += from_b;
}

/* Of the later spans of two nodes, as many as fit. */
static int fill_from_nodes(struct merge *m, struct node *nd)
{
    struct node *a = nd->a, *b = nd->b;
    uint32_t n = 0;

    while (n < BATCH) {
        uint32_t room;

        if ((a->pos == a->n && node_fill(m, a)) || (b->pos == b->n && node_fill(m, b)))
            return OPM_ENOMEM;
        if (a->pos == a->n || b->pos == b->n) {
            struct node *rest = a->pos == a->n ? b : a;

            for (; n < BATCH && rest->pos < rest->n; n++)
                nd->item[n] = rest->item[rest->pos++];
            if (rest->pos == rest->n && !rest->n)
                break;
            continue;
        }
        /* So many can be taken without looking whether there is another one. */
        room = MIN(BATCH - n, MIN(a->n - a->pos, b->n - b->pos));
        merge_items(nd->item + n, room, a, b);
        n += room;
    }
    nd->n = n;
    return 0;
}

/* The next batch; n stays 0 at the end. */
static int node_fill(struct merge *m, struct node *nd)
{
    nd->pos = nd->n = 0;
    return nd->stream ? fill_from_stream(m, nd->stream, nd) : fill_from_nodes(m, nd);
}

static int write_all(struct merge *m, struct node *root)
{
    for (;;) {
        if (node_fill(m, root))
            return OPM_ENOMEM;
        if (!root->n)
            return 0;
        if (m->w - root->n < m->limit && make_room(m, m->w - root->n))
            return OPM_ENOMEM;
        for (uint32_t k = 0; k < root->n; k++) {
            const struct item *it = &root->item[k];
            size_t w = --m->w;

            m->ts[w] = it->span.ts - m->shift_ns;
            m->dur[w] = it->span.dur;
            m->site[w] = it->span.site;
            packed_set(m->track, w, it->track);
            if (m->final_id)
                m->final_id[it->span.id] = (uint32_t)w;
        }
    }
}

static void stream_start(struct merge *m, struct stream *s, const struct track_spans *t)
{
    *s = (struct stream){ .track = t->track, .order = t->order };
    if (t->order == ORDER_SORTED) {
        s->sorted = t->sorted.data;
        s->nsorted = t->nsorted;
        return;
    }
    s->piece = t->piece;
    s->npiece = t->npiece + 1;
    stream_next_piece(s);
    if (t->order == ORDER_BY_END)
        stream_read(m, s, &s->next);
}

static int by_track(const void *a, const void *b)
{
    const struct stream *x = a, *y = b;

    return x->track < y->track ? -1 : x->track > y->track;
}

/* Build the tree over n streams; returns its root, which is the last of the 2 n - 1 nodes. */
static struct node *start(struct merge *m, const struct track_spans *tracks, size_t n)
{
    size_t first = 0, end = n;

    for (size_t i = 0; i < n; i++)
        stream_start(m, &m->stream[i], &tracks[i]);
    qsort(m->stream, n, sizeof(*m->stream), by_track);
    for (size_t i = 0; i < n; i++) {
        m->stream_of[m->stream[i].track] = (uint32_t)i;
        m->node[i].stream = &m->stream[i];
        m->node[i].pos = m->node[i].n = 0;
    }
    while (end - first > 1) {
        size_t next = end, i = first;

        for (; i + 1 < end; i += 2) {
            struct node *nd = &m->node[next++];

            nd->stream = NULL;
            nd->a = &m->node[i];
            nd->b = &m->node[i + 1];
            nd->pos = nd->n = 0;
        }
        if (i < end) /* the odd one goes up by itself */
            m->node[next++] = m->node[i];
        first = end;
        end = next;
    }
    return &m->node[first];
}

int merge_tracks(struct store *st, const struct track_spans *tracks, size_t ntrack,
                 const uint32_t *run_piece, int64_t shift_ns, uint32_t *final_id)
{
    size_t n = st->table[TABLE_span].nrow;
    uint32_t no_track = (uint32_t)st->table[TABLE_track].nrow;
    struct column nodes = { 0 };
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
    m.stream_of = mem_calloc((size_t)no_track + 1, sizeof(*m.stream_of));
    /* Odd nodes are copied up, at most once per level. */
    if (!m.stream || !m.stream_of || column_reserve(&nodes, (2 * ntrack + 64) * sizeof(*m.node)))
        goto out;
    m.node = nodes.data;
    if (ntrack == 1)
        st->span_track.same = tracks[0].track;
    else if (packed_init(&st->span_track, n, no_track))
        goto out;
    rc = write_all(&m, start(&m, tracks, ntrack));
    assert(rc || m.w == 0);
out:
    for (size_t i = 0; m.stream && i < ntrack; i++)
        mem_free(m.stream[i].stack);
    for (size_t i = 0; i < m.nslab; i++)
        column_release(&m.slab[i]);
    mem_free(m.slab);
    column_release(&nodes);
    mem_free(m.stream);
    mem_free(m.stream_of);
    return rc;
}
