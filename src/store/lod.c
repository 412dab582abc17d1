/* lod.c -- see lod.h.
 *
 * Each line (a depth of a track) has its spans in order and a pyramid above them: level k holds
 * bars made of spans and gaps narrower than the width of the level, and each level is made from the
 * one below it by uniting neighbours. A query takes the coarsest level that is fine enough. Spans
 * of one line do not overlap, but for those of asynchronous tracks: these are put on as many lines
 * as they need.
 *
 * Two neighbours become one at the first width that exceeds both of them and the gap between. So
 * counting neighbours by that width says how large every level will be, and only those that are
 * worth it are made. The spans are looked at in their order, of all tracks together, twice: once to
 * count, once to fill. */
#include "store/lod.h"

#include "store/store_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include <string.h>

#define WIDTH_MIN_NS 64
#define WIDTH_BITS 2 /* by which the width grows from level to level */
#define WIDTHS 28    /* up to 64 << 54 */
#define LEVELS_MAX 12
#define LEVEL_BARS_MIN 512 /* fewer need no level above */
#define LINES_MAX 4096     /* of an asynchronous track */

struct bar {
    int64_t from_ns, to_ns;
    uint32_t span, count; /* span: the longest */
    int64_t longest_ns, busy_ns;
    /* A majority vote over the names, a nanosecond and a span one vote each: the votes that are
     * left when every other name has taken one of its own and one of these with it. So the name has
     * at least as many, and nobody else can have more than half. */
    int64_t votes;
    str_id name;
};

struct level {
    int64_t width_ns;
    struct bar *bar;
    size_t n, room;
};

struct line {
    uint32_t *span; /* span.id, ascending */
    size_t n;
    struct level level[LEVELS_MAX];
    int nlevel;
    /* While building. */
    int64_t end_ns;          /* of the spans so far */
    int64_t kept_ns;         /* of those of them that are shown */
    int64_t last_ns;         /* length of the last one of these */
    uint32_t united[WIDTHS]; /* neighbours that become one from this width on */
};

struct lane { /* a track */
    struct line *line;
    size_t nline, cap;
};

struct lod {
    const struct store *st;
    const int64_t *ts, *dur;
    const uint32_t *site;
    const struct site *sites;
    size_t nspan, ntrack;
    struct lane *lane; /* one more than there are tracks, for spans without one */
    bool *crowded;     /* per track, while building: see find_crowded() */
    int64_t end_ns;    /* of the trace: where spans that never ended do */
};

static int64_t end_of(const struct lod *l, uint32_t span)
{
    return l->dur[span] < 0 ? l->end_ns : span_end(l->ts[span], l->dur[span]);
}

/* Overlapping spans of hostile times may be longer together than can be told. */
static int64_t sum_ns(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static struct bar bar_of(const struct lod *l, uint32_t span)
{
    int64_t end = end_of(l, span), len = end - l->ts[span];

    return (struct bar){ l->ts[span], end, span,           1,
                         len,         len, sum_ns(len, 1), l->sites[l->site[span]].name };
}

/* Put b, which comes later, to a. */
static void bar_unite(struct bar *a, const struct bar *b)
{
    a->to_ns = MAX(a->to_ns, b->to_ns);
    a->count += b->count;
    a->busy_ns = sum_ns(a->busy_ns, b->busy_ns);
    if (b->longest_ns > a->longest_ns) {
        a->longest_ns = b->longest_ns;
        a->span = b->span;
    }
    if (a->name == b->name) {
        a->votes = sum_ns(a->votes, b->votes);
    } else if (a->votes >= b->votes) {
        a->votes -= b->votes;
    } else {
        a->name = b->name;
        a->votes = b->votes - a->votes;
    }
}

/* The line for a span: its depth or, where there is no nesting, the first that is free. */
static struct line *line_for(const struct lod *l, uint32_t span)
{
    struct lane *lane = &l->lane[packed_get(&l->st->span_track, span)];
    size_t want = packed_get(&l->st->lazy->depth, span);

    while (want + 1 < LINES_MAX && want < lane->nline && lane->line[want].end_ns > l->ts[span])
        want++;
    while (lane->nline <= want) {
        if (!GROW(lane->line, lane->cap, lane->nline + 1))
            return NULL;
        lane->line[lane->nline++] = (struct line){ .end_ns = INT64_MIN, .kept_ns = INT64_MIN };
    }
    return &lane->line[want];
}

/* Which width is the first above ns. */
static int width_above(int64_t ns)
{
    int bits = ns < WIDTH_MIN_NS ? 0 : 64 - __builtin_clzll((uint64_t)ns / WIDTH_MIN_NS);

    return (bits + WIDTH_BITS - 1) / WIDTH_BITS;
}

static int64_t width_of(int i)
{
    return (int64_t)WIDTH_MIN_NS << (i * WIDTH_BITS);
}

/* Whether a span is not shown and nobody else's line depends on where it would stand. */
static bool passes(const struct lod *l, const bool *keep, size_t i)
{
    return keep && !keep[l->site[i]] && !l->crowded[packed_get(&l->st->span_track, i)];
}

/* Tracks on which spans may overlap: asynchronous ones, and those where one never ended. */
static int find_crowded(struct lod *l)
{
    str_id async = strpool_find(store_strings(l->st), "async", 5);

    l->crowded = mem_calloc(l->ntrack + 1, sizeof(*l->crowded));
    if (!l->crowded)
        return OPM_ENOMEM;
    l->crowded[l->ntrack] = true;
    for (size_t t = 0; t < l->ntrack; t++) {
        struct cell kind = store_cell(l->st, TABLE_track, t, track_col_kind);

        l->crowded[t] = kind.kind == CELL_STR && kind.str == async;
    }
    for (size_t i = 0; i < l->nspan; i++)
        if (l->dur[i] < 0)
            l->crowded[packed_get(&l->st->span_track, i)] = true;
    return 0;
}

static int count_spans(struct lod *l, const bool *keep)
{
    for (size_t i = 0; i < l->nspan; i++) {
        struct line *line;
        int64_t end, len;
        int width;

        if (passes(l, keep, i))
            continue;
        line = line_for(l, (uint32_t)i);
        end = end_of(l, (uint32_t)i);
        len = end - l->ts[i];
        if (!line)
            return OPM_ENOMEM;
        line->end_ns = MAX(line->end_ns, end);
        if (keep && !keep[l->site[i]])
            continue;
        if (line->n++) {
            width = width_above(MAX(MAX(len, line->last_ns), l->ts[i] - line->kept_ns));
            if (width < WIDTHS)
                line->united[width]++;
        }
        line->kept_ns = MAX(line->kept_ns, end);
        line->last_ns = len;
    }
    return 0;
}

/* Room for the spans of a line and for the levels that are worth it: the first is to be a quarter
 * of the spans at most, each other half of the one below. */
static int line_reserve(const struct lod *l, struct line *line)
{
    size_t bars = line->n, below = line->n;

    line->span = mem_alloc((line->n + 1) * sizeof(*line->span));
    if (!line->span)
        return OPM_ENOMEM;
    for (int i = 0; i < WIDTHS && width_of(i) <= l->end_ns; i++) {
        struct level *v = &line->level[line->nlevel];

        bars -= line->united[i];
        if (below < LEVEL_BARS_MIN || line->nlevel == LEVELS_MAX)
            break;
        if (bars > below / (line->nlevel ? 2 : 4))
            continue;
        *v = (struct level){ width_of(i), mem_alloc((bars + 1) * sizeof(*v->bar)), 0, bars };
        if (!v->bar)
            return OPM_ENOMEM;
        line->nlevel++;
        below = bars;
    }
    line->n = 0;
    line->end_ns = INT64_MIN;
    return 0;
}

/* Add b behind the bars of a level, or to the last one. The spans of a bar are each narrower than
 * the width, the bar itself may be long. */
static void level_add(struct level *v, const struct bar *b)
{
    struct bar *last = v->n ? &v->bar[v->n - 1] : NULL;

    if (last && b->longest_ns < v->width_ns && last->longest_ns < v->width_ns &&
        b->from_ns - last->to_ns < v->width_ns) {
        bar_unite(last, b);
        return;
    }
    assert(v->n < v->room);
    v->bar[v->n++] = *b;
}

/* The spans of all lines, and the level above them. */
static void place_spans(struct lod *l, const bool *keep)
{
    for (size_t i = 0; i < l->nspan; i++) {
        struct line *line;
        struct bar b;

        if (passes(l, keep, i))
            continue;
        line = line_for(l, (uint32_t)i);
        b = bar_of(l, (uint32_t)i);
        line->end_ns = MAX(line->end_ns, b.to_ns);
        if (keep && !keep[l->site[i]])
            continue;
        line->span[line->n++] = (uint32_t)i;
        if (line->nlevel)
            level_add(&line->level[0], &b);
    }
}

static int build(struct lod *l, const bool *keep)
{
    int rc = keep ? find_crowded(l) : 0;

    if (rc == 0)
        rc = count_spans(l, keep);

    for (size_t t = 0; t <= l->ntrack; t++)
        for (size_t i = 0; rc == 0 && i < l->lane[t].nline; i++)
            rc = line_reserve(l, &l->lane[t].line[i]);
    if (rc)
        return rc;
    place_spans(l, keep);
    for (size_t t = 0; t <= l->ntrack; t++)
        for (size_t i = 0; i < l->lane[t].nline; i++)
            for (int k = 1; k < l->lane[t].line[i].nlevel; k++) {
                const struct level *below = &l->lane[t].line[i].level[k - 1];

                for (size_t b = 0; b < below->n; b++)
                    level_add(&l->lane[t].line[i].level[k], &below->bar[b]);
            }
    return 0;
}

int lod_new(const struct store *st, const bool *keep, struct lod **out)
{
    size_t nsite;
    struct lod *l = mem_calloc(1, sizeof(*l));
    const void *ts, *dur;

    if (!l || store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur) ||
        store_derive(st, TABLE_span, span_col_depth)) {
        mem_free(l);
        return OPM_ENOMEM;
    }
    l->st = st;
    l->ts = ts;
    l->dur = dur;
    l->site = store_span_site(st);
    l->sites = store_sites(st, &nsite);
    l->nspan = store_nrow(st, TABLE_span);
    l->ntrack = store_nrow(st, TABLE_track);
    for (size_t i = 0; i < l->nspan; i++)
        l->end_ns = MAX(l->end_ns, l->ts[i] + MAX(l->dur[i], (int64_t)0));
    l->lane = mem_calloc(l->ntrack + 1, sizeof(*l->lane));
    if (!l->lane || build(l, keep)) {
        lod_free(l);
        return OPM_ENOMEM;
    }
    *out = l;
    return 0;
}

void lod_free(struct lod *l)
{
    if (!l)
        return;
    for (size_t t = 0; l->lane && t <= l->ntrack; t++) {
        for (size_t i = 0; i < l->lane[t].nline; i++) {
            for (int k = 0; k < LEVELS_MAX; k++)
                mem_free(l->lane[t].line[i].level[k].bar);
            mem_free(l->lane[t].line[i].span);
        }
        mem_free(l->lane[t].line);
    }
    mem_free(l->lane);
    mem_free(l->crowded);
    mem_free(l);
}

struct answer {
    struct lod_bar *bar;
    size_t n, cap, max;
};

/* The i-th bar of a level (-1: the spans themselves). */
static struct bar line_bar(const struct lod *l, const struct line *line, int level, size_t i)
{
    return level < 0 ? bar_of(l, line->span[i]) : line->level[level].bar[i];
}

/* The first bar that ends after `ns`; they are in order of their ends, too. */
static size_t line_find(const struct lod *l, const struct line *line, int level, int64_t ns)
{
    size_t low = 0, high = level < 0 ? line->n : line->level[level].n;

    while (low < high) {
        size_t mid = (low + high) / 2;
        struct bar b = line_bar(l, line, level, mid);

        if (b.to_ns <= ns && !(b.to_ns == b.from_ns && b.from_ns == ns))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int answer_add(struct answer *a, const struct lod *l, const struct bar *b, uint32_t depth)
{
    bool open = b->count == 1 && l->dur[b->span] < 0;

    if (a->n >= a->max)
        return OPM_ELIMIT;
    if (!GROW(a->bar, a->cap, a->n + 1))
        return OPM_ENOMEM;
    /* Beyond LINES_MAX lines spans of an asynchronous track may overlap. */
    a->bar[a->n++] = (struct lod_bar){ .ts_ns = b->from_ns,
                                       .dur_ns = open ? -1 : b->to_ns - b->from_ns,
                                       .busy_ns = MIN(b->busy_ns, b->to_ns - b->from_ns),
                                       .depth = depth,
                                       .span = b->span,
                                       .count = b->count,
                                       .named = b->votes - b->count / 2 >= b->busy_ns / 2,
                                       .name = b->name };
    return 0;
}

/* The chosen level is finer than asked for, so that neighbours are united here once more. */
static int line_query(const struct lod *l, const struct line *line, uint32_t depth, int64_t from_ns,
                      int64_t to_ns, int64_t pixel_ns, struct answer *a)
{
    int level = -1, rc = 0;
    struct bar now = { 0 };
    bool now_narrow = false;
    size_t n;

    while (level + 1 < line->nlevel && line->level[level + 1].width_ns <= pixel_ns)
        level++;
    n = level < 0 ? line->n : line->level[level].n;
    for (size_t i = line_find(l, line, level, from_ns); rc == 0 && i < n; i++) {
        struct bar b = line_bar(l, line, level, i);
        bool narrow = b.longest_ns < pixel_ns;

        if (b.from_ns >= to_ns)
            break;
        if (now.count && narrow && now_narrow && b.from_ns - now.to_ns < pixel_ns) {
            bar_unite(&now, &b);
            continue;
        }
        if (now.count)
            rc = answer_add(a, l, &now, depth);
        now = b;
        now_narrow = narrow;
    }
    if (rc == 0 && now.count)
        rc = answer_add(a, l, &now, depth);
    return rc;
}

int lod_query(const struct lod *l, uint32_t track, int64_t from_ns, int64_t to_ns, int64_t pixel_ns,
              size_t max, struct lod_bar **out, size_t *n)
{
    struct answer a = { .max = max };
    int rc = 0;

    for (size_t i = 0; rc == 0 && track <= l->ntrack && i < l->lane[track].nline; i++)
        rc = line_query(l, &l->lane[track].line[i], (uint32_t)i, from_ns, to_ns, pixel_ns, &a);
    if (rc) {
        mem_free(a.bar);
        return rc;
    }
    *out = a.bar;
    *n = a.n;
    return 0;
}
