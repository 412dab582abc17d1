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
 * their track reads first. Where the tracks were added in turns, little has to be moved.
 *
 * Many spans are done in two halves, by two threads: what starts before a time, and the rest. Each
 * half has its own slots, and must find its spans there: the few in the slots of the other are
 * moved aside first. Of a track that is ordered by end the earlier half is what ends before that
 * time, together with what is open then; the later half reads those too, for nesting, and drops
 * them. */
#include "store/store_int.h"

#include "base/alloc.h"
#include "base/budget.h"

#include <stdlib.h>

#define BATCH_MAX 128
#define BATCH_MIN 4
#define BATCH_ITEMS 65536 /* in all batches of the streams together, but see BATCH_MIN */
#define CHUNK_SPANS 1365  /* a chunk is just under 32 KiB */
#define SLAB_CHUNKS 256   /* allocated at a time, but few at first */
#define ASIDE_SPANS 1024  /* moved aside at a time */

enum half { ALL, EARLIER, LATER };

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

struct aside {
    struct chunk *first, *last;
};

/* The spans of one track, last one first. */
struct stream {
    uint32_t track;
    enum track_order order;
    /* What is to be read: first what was moved aside, then `left` spans from `first`, then earlier
     * pieces, as far as they lie in [from, to), then what was moved aside to be last. */
    struct aside aside, aside_last;
    const struct span_piece *piece;
    size_t npiece; /* pieces not used up, the current one included */
    size_t from, to;
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
    uint32_t pos, n; /* of item[], what is left */
    bool done;       /* there will be nothing more */
    struct item item[];
};

/* A half, or all. */
struct merge {
    struct store *st;
    int64_t *ts, *dur;
    uint32_t *site;
    int64_t shift_ns;
    uint32_t *final_id;
    enum half half;
    int64_t before; /* spans are handed out down to here, exclusively */
    struct stream *stream;
    size_t nstream;
    uint32_t *stream_of; /* by track */
    struct column nodes;
    uint32_t batch; /* items of a node */
    struct node *root;
    /* Writing. */
    size_t w;     /* slots from here on are written */
    size_t limit; /* nothing in [limit, w) is unread */
    const uint32_t *run_piece;
    size_t nrun; /* runs that may hold unread spans below w */
    /* Chunks. */
    struct chunk *spare;
    struct column *slab;
    size_t nslab, slab_cap, slab_left;
    struct chunk *slab_next;
    int rc;
};

static void stream_next_piece(struct stream *s)
{
    while (!s->left && s->npiece > 1) {
        const struct span_piece *p = &s->piece[--s->npiece - 1];
        size_t from = MAX(s->from, p->first), to = MIN(s->to, (size_t)p->first + p->n);

        s->first = (uint32_t)from;
        s->left = from < to ? (uint32_t)(to - from) : 0;
    }
}

static int slab_new(struct merge *m)
{
    size_t chunks = m->nslab < 3 ? (size_t)4 << 2 * m->nslab : SLAB_CHUNKS;
    struct column mem = { 0 };

    if (!GROW(m->slab, m->slab_cap, m->nslab + 1) ||
        column_reserve(&mem, chunks * sizeof(struct chunk)))
        return OPM_ENOMEM;
    m->slab[m->nslab++] = mem;
    m->slab_next = mem.data;
    m->slab_left = chunks;
    return 0;
}

static struct chunk *chunk_new(struct merge *m)
{
    struct chunk *c = m->spare;

    if (c) {
        m->spare = c->next;
    } else {
        if (!m->slab_left && slab_new(m))
            return NULL;
        m->slab_left--;
        c = m->slab_next++;
    }
    c->next = NULL;
    c->n = c->pos = 0;
    return c;
}

static inline void load(const struct merge *m, size_t i, struct span_entry *out)
{
    out->ts = m->ts[i];
    out->dur = m->dur[i];
    out->site = m->site[i];
    out->id = (uint32_t)i;
}

static int aside_add(struct merge *m, struct aside *to, size_t i)
{
    if (!to->last || to->last->n == CHUNK_SPANS) {
        struct chunk *c = chunk_new(m);

        if (!c)
            return OPM_ENOMEM;
        if (to->first)
            to->last->next = c;
        else
            to->first = c;
        to->last = c;
    }
    load(m, i, &to->last->e[to->last->n++]);
    return 0;
}

static void aside_take(struct merge *m, struct aside *from, struct span_entry *out)
{
    struct chunk *c = from->first;

    *out = c->e[c->pos++];
    if (c->pos == c->n) {
        from->first = c->next;
        if (!from->first)
            from->last = NULL;
        c->next = m->spare;
        m->spare = c;
    }
}

/* Move the limit to `to` or below. */
static int make_room(struct merge *m, size_t to)
{
    while (m->nrun) {
        const struct span_run *r = &span_runs(m->st)[m->nrun - 1];
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
        for (uint32_t n = MIN(s->left, (uint32_t)ASIDE_SPANS); n; n--, s->left--)
            if (aside_add(m, &s->aside, (size_t)s->first + s->left - 1))
                return OPM_ENOMEM;
        stream_next_piece(s);
    }
    m->limit = 0;
    return 0;
}

/* Behind what lies in place: the rest, or the end, which has no id. */
static void read_last(struct merge *m, struct stream *s, struct span_entry *out)
{
    if (s->aside_last.first) {
        s->aside = s->aside_last;
        s->aside_last = (struct aside){ 0 };
        aside_take(m, &s->aside, out);
        return;
    }
    out->ts = m->before;
    out->id = OPM_NULL_ID;
}

/* The span before the one read last. */
static inline void stream_read(struct merge *m, struct stream *s, struct span_entry *out)
{
    if (UNLIKELY(s->aside.first != NULL)) {
        aside_take(m, &s->aside, out);
    } else if (UNLIKELY(!s->left)) {
        read_last(m, s, out);
    } else {
        load(m, (size_t)s->first + --s->left, out);
        if (UNLIKELY(!s->left))
            stream_next_piece(s);
    }
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

    while (n < m->batch) {
        if (next.ts < inside) {
            nd->item[n++] = (struct item){ s->stack[--nstack], s->track };
            inside = nstack ? start_inside(&s->stack[nstack - 1]) : INT64_MIN;
            continue;
        }
        if (next.id == OPM_NULL_ID)
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
        for (; n < m->batch; n++) {
            stream_read(m, s, &nd->item[n].span);
            if (nd->item[n].span.id == OPM_NULL_ID)
                break;
            nd->item[n].track = s->track;
        }
        break;
    case ORDER_SORTED:
        for (; n < m->batch && s->nsorted; n++)
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
    uint32_t n = 0, room;

    while (n < m->batch) {
        if (node_fill(m, a) || node_fill(m, b))
            return OPM_ENOMEM;
        if (!a->done && !b->done) {
            room = MIN(m->batch - n, MIN(a->n - a->pos, b->n - b->pos));
            merge_items(nd->item + n, room, a, b);
            n += room;
        } else {
            struct node *rest = a->done ? b : a;

            if (rest->done)
                break;
            while (n < m->batch && rest->pos < rest->n)
                nd->item[n++] = rest->item[rest->pos++];
        }
    }
    nd->n = n;
    return 0;
}

/* The next batch, if nothing is left of this one. */
static int node_fill(struct merge *m, struct node *nd)
{
    int rc;

    if (nd->pos < nd->n || nd->done)
        return 0;
    nd->pos = nd->n = 0;
    rc = nd->stream ? fill_from_stream(m, nd->stream, nd) : fill_from_nodes(m, nd);
    nd->done = nd->n == 0;
    return rc;
}

/* Write the n items of a batch, last one first; a loop per column keeps each simple. */
static void write_items(struct merge *m, const struct item *item, uint32_t n)
{
    struct packed *track = &m->st->span_track;
    size_t last = m->w - 1;
    int64_t *ts = m->ts + last, *dur = m->dur + last, shift_ns = m->shift_ns;
    uint32_t *site = m->site + last;

    for (uint32_t k = 0; k < n; k++)
        *ts-- = item[k].span.ts - shift_ns;
    for (uint32_t k = 0; k < n; k++)
        *dur-- = item[k].span.dur;
    for (uint32_t k = 0; k < n; k++)
        *site-- = item[k].span.site;
    if (track->width == 1)
        for (uint32_t k = 0; k < n; k++)
            track->u8[last - k] = (uint8_t)item[k].track;
    else if (track->width)
        for (uint32_t k = 0; k < n; k++)
            packed_set(track, last - k, item[k].track);
    if (m->final_id)
        for (uint32_t k = 0; k < n; k++)
            m->final_id[item[k].span.id] = (uint32_t)(last - k);
    m->w -= n;
}

static int write_all(struct merge *m)
{
    struct node *root = m->root;

    for (;;) {
        if (node_fill(m, root))
            return OPM_ENOMEM;
        if (root->done)
            return 0;
        if (m->w - root->n < m->limit && make_room(m, m->w - root->n))
            return OPM_ENOMEM;
        write_items(m, root->item, root->n);
        root->pos = root->n;
    }
}

/* The first span of a track that belongs to the later half: build id or number in sorted[]. */
static size_t split_of(const struct merge *m, const struct track_spans *t)
{
    const struct span_entry *e = t->sorted.data;
    size_t lo = 0, hi = t->nsorted, p = 0;

    if (t->order == ORDER_BY_END)
        return t->split;
    if (t->order == ORDER_BY_START) {
        while (p < t->npiece && m->ts[t->piece[p].first + t->piece[p].n - 1] < t->split_ts)
            p++;
        if (p == t->npiece)
            return SIZE_MAX;
        lo = t->piece[p].first;
        hi = lo + t->piece[p].n;
    }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if ((t->order == ORDER_SORTED ? e[mid].ts : m->ts[mid]) < t->split_ts)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* How many spans of a track lie in slots [from, to). */
static size_t count_between(const struct track_spans *t, size_t from, size_t to)
{
    size_t n = 0;

    for (size_t p = 0; p < t->npiece; p++) {
        size_t a = MAX(from, t->piece[p].first);
        size_t b = MIN(to, (size_t)t->piece[p].first + t->piece[p].n);

        n += a < b ? b - a : 0;
    }
    return n;
}

/* Find the slot where the later half begins. False if halving is impossible or does not pay. */
static bool find_halves(const struct merge *m, const struct track_spans *tracks, size_t *out)
{
    size_t n = m->w, later = 0, misplaced = 0, slot;

    for (size_t i = 0; i < m->nstream; i++) {
        const struct track_spans *t = &tracks[i];

        if (t->split_ts == INT64_MIN || (t->order == ORDER_BY_END && t->no_split))
            return false;
        later += t->order == ORDER_SORTED ? t->nsorted - split_of(m, t)
                                          : count_between(t, split_of(m, t), n) - t->nopen;
    }
    slot = n - later;
    for (size_t i = 0; i < m->nstream; i++) {
        const struct track_spans *t = &tracks[i];
        size_t split = split_of(m, t);

        if (t->order != ORDER_SORTED)
            misplaced += count_between(t, slot, split) + count_between(t, split, slot);
    }
    *out = slot;
    return later && slot && misplaced <= n / 8;
}

/* slot: where the later half begins. */
static int stream_start(struct merge *m, struct stream *s, const struct track_spans *t, size_t slot)
{
    size_t split = m->half == ALL ? 0 : split_of(m, t);

    *s = (struct stream){ .track = t->track, .order = t->order, .to = SIZE_MAX };
    if (t->order == ORDER_SORTED) {
        s->sorted = (const struct span_entry *)t->sorted.data + (m->half == LATER ? split : 0);
        s->nsorted = m->half == ALL ? t->nsorted : m->half == EARLIER ? split : t->nsorted - split;
        return 0;
    }
    if (m->half == EARLIER)
        s->to = split;
    if (m->half == LATER) {
        s->from = MAX(split, slot);
        for (size_t p = t->npiece; p-- > 0 && split < slot;)
            for (size_t i = MIN((size_t)t->piece[p].first + t->piece[p].n, slot);
                 i > MAX(split, t->piece[p].first); i--)
                if (aside_add(m, &s->aside_last, i - 1))
                    return OPM_ENOMEM;
    }
    s->piece = t->piece;
    s->npiece = t->npiece + 1;
    stream_next_piece(s);
    if (t->order != ORDER_BY_END)
        return 0;
    if (m->half == EARLIER && t->nopen) {
        if (!GROW(s->stack, s->stack_cap, t->nopen))
            return OPM_ENOMEM;
        for (; s->nstack < t->nopen; s->nstack++)
            load(m, t->open[s->nstack].id, &s->stack[s->nstack]);
    }
    stream_read(m, s, &s->next);
    return 0;
}

static int by_track(const void *a, const void *b)
{
    const struct stream *x = a, *y = b;

    return x->track < y->track ? -1 : x->track > y->track;
}

static size_t node_size(const struct merge *m)
{
    return sizeof(struct node) + m->batch * sizeof(struct item);
}

static struct node *node_at(const struct merge *m, size_t i)
{
    return (struct node *)((char *)m->nodes.data + i * node_size(m));
}

/* Build the tree over the streams, level by level. An odd one out, still empty, is copied to the
 * next level. */
static int build_tree(struct merge *m)
{
    size_t first = 0, end = m->nstream;

    m->batch = (uint32_t)MAX(BATCH_MIN, MIN(BATCH_MAX, BATCH_ITEMS / m->nstream));
    if (column_reserve(&m->nodes, (2 * m->nstream + 64) * node_size(m)))
        return OPM_ENOMEM;
    for (size_t i = 0; i < end; i++) {
        m->stream_of[m->stream[i].track] = (uint32_t)i;
        *node_at(m, i) = (struct node){ .stream = &m->stream[i] };
    }
    while (end - first > 1) {
        size_t next = end, i = first;

        for (; i + 1 < end; i += 2)
            *node_at(m, next++) = (struct node){ .a = node_at(m, i), .b = node_at(m, i + 1) };
        if (i < end)
            *node_at(m, next++) = *node_at(m, i);
        first = end;
        end = next;
    }
    m->root = node_at(m, first);
    return 0;
}

/* Everything up to the point where slots may be written. */
static int merge_start(struct merge *m, const struct track_spans *tracks, size_t slot)
{
    m->stream = mem_calloc(m->nstream, sizeof(*m->stream));
    m->stream_of = mem_calloc(m->st->table[TABLE_track].nrow + 1, sizeof(*m->stream_of));
    if (!m->stream || !m->stream_of)
        return OPM_ENOMEM;
    for (size_t i = 0; i < m->nstream; i++)
        if (stream_start(m, &m->stream[i], &tracks[i], slot))
            return OPM_ENOMEM;
    qsort(m->stream, m->nstream, sizeof(*m->stream), by_track);
    return build_tree(m) ? OPM_ENOMEM : make_room(m, m->w);
}

static void *merge_run(void *arg)
{
    struct merge *m = arg;

    m->rc = write_all(m);
    return NULL;
}

static void merge_release(struct merge *m)
{
    for (size_t i = 0; m->stream && i < m->nstream; i++)
        mem_free(m->stream[i].stack);
    for (size_t i = 0; i < m->nslab; i++)
        column_release(&m->slab[i]);
    mem_free(m->slab);
    column_release(&m->nodes);
    mem_free(m->stream);
    mem_free(m->stream_of);
}

static int merge_halves(struct merge *all, const struct track_spans *tracks, size_t slot)
{
    struct merge earlier = *all, later = *all;
    pthread_t thread;

    earlier.half = EARLIER;
    earlier.w = slot;
    later.half = LATER;
    later.before = tracks[0].split_ts - 1;
    earlier.rc = merge_start(&earlier, tracks, slot);
    if (!earlier.rc)
        earlier.rc = merge_start(&later, tracks, slot);
    if (!earlier.rc) {
        bool two = thread_start(&thread, merge_run, &later) == 0;

        merge_run(&earlier);
        if (two)
            pthread_join(thread, NULL);
        else
            merge_run(&later);
        assert(earlier.rc || earlier.w == 0);
        assert(later.rc || later.w == slot);
    }
    merge_release(&earlier);
    merge_release(&later);
    return earlier.rc ? earlier.rc : later.rc;
}

int merge_tracks(struct store *st, const struct track_spans *tracks, size_t ntrack,
                 const uint32_t *run_piece, int64_t shift_ns, uint32_t *final_id)
{
    size_t n = st->table[TABLE_span].nrow, slot;
    struct merge m = {
        .st = st,
        .ts = span_ts(st),
        .dur = span_dur(st),
        .site = st->span_site.id,
        .shift_ns = shift_ns,
        .final_id = final_id,
        .half = ALL,
        .before = INT64_MIN,
        .nstream = ntrack,
        .w = n,
        .limit = n,
        .run_piece = run_piece,
        .nrun = st->nrun,
    };

    if (ntrack == 1)
        st->span_track.same = tracks[0].track;
    else if (packed_init(&st->span_track, n, (uint32_t)st->table[TABLE_track].nrow))
        return OPM_ENOMEM;
    if (find_halves(&m, tracks, &slot))
        return merge_halves(&m, tracks, slot);
    m.rc = merge_start(&m, tracks, 0);
    if (!m.rc)
        merge_run(&m);
    assert(m.rc || m.w == 0);
    merge_release(&m);
    return m.rc;
}
