/* lod.c -- see lod.h.
 *
 * Each line (a depth of a track) has its spans in order and a pyramid above them: level k holds
 * bars made of spans and gaps narrower than the width of the level, and each level is made from the
 * one below it by uniting neighbours. A query takes the coarsest level that is fine enough. Spans
 * of one line do not overlap, but for those of asynchronous tracks: these are put on as many lines
 * as they need. */
#include "store/lod.h"

#include "store/store_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include <string.h>

#define LEVELS_MAX 16
#define LEVEL_FACTOR 4 /* by which the width grows from level to level */
#define SHRINK 0.75    /* a level is kept if it is smaller than this share of the one below */
#define LINES_MAX 4096 /* of an asynchronous track */

struct bar {
    int64_t from_ns, to_ns;
    uint32_t span, count; /* span: the longest */
    int64_t longest_ns;
};

struct level {
    int64_t width_ns;
    struct bar *bar;
    size_t n;
};

struct line {
    uint32_t *span; /* span.id, ascending */
    size_t n, cap;
    int64_t end_ns; /* of the last one, for asynchronous tracks */
    struct level level[LEVELS_MAX];
    int nlevel;
};

struct lane { /* a track */
    bool built;
    struct line *line;
    size_t nline, cap;
};

struct lod {
    const struct store *st;
    const int64_t *ts, *dur, *depth;
    const uint32_t *track;
    size_t nspan, ntrack;
    struct lane *lane;    /* one more than there are tracks, for spans without one */
    uint32_t *first, *of; /* spans by track: of[first[t] .. first[t + 1]) */
    int64_t end_ns;       /* of the trace: where spans that never ended do */
};

static int64_t end_of(const struct lod *l, uint32_t span)
{
    return l->dur[span] < 0 ? l->end_ns : span_end(l->ts[span], l->dur[span]);
}

/* ---- building ---- */

/* Count and place the spans of every track, so that one track can be built without looking at
 * all. */
static int by_track(struct lod *l)
{
    size_t n = l->ntrack + 1;

    l->first = mem_calloc(n + 1, sizeof(*l->first));
    l->of = mem_alloc((l->nspan + 1) * sizeof(*l->of));
    if (!l->first || !l->of)
        return OPM_ENOMEM;
    for (size_t i = 0; i < l->nspan; i++) {
        l->first[MIN((size_t)l->track[i], l->ntrack)]++;
        l->end_ns = MAX(l->end_ns, span_end(l->ts[i], MAX(l->dur[i], (int64_t)0)));
    }
    for (size_t t = 0, at = 0; t <= n; t++) {
        size_t count = t < n ? l->first[t] : 0;

        l->first[t] = (uint32_t)at;
        at += count;
    }
    for (size_t i = 0; i < l->nspan; i++)
        l->of[l->first[MIN((size_t)l->track[i], l->ntrack)]++] = (uint32_t)i;
    memmove(l->first + 1, l->first, n * sizeof(*l->first));
    l->first[0] = 0;
    return 0;
}

int lod_new(const struct store *st, struct lod **out)
{
    struct lod *l = mem_calloc(1, sizeof(*l));
    const void *ts, *dur, *depth, *track;

    if (!l || store_column(st, TABLE_span, span_col_ts, &ts) ||
        store_column(st, TABLE_span, span_col_dur, &dur) ||
        store_column(st, TABLE_span, span_col_depth, &depth) ||
        store_column(st, TABLE_span, span_col_track, &track)) {
        mem_free(l);
        return OPM_ENOMEM;
    }
    l->st = st;
    l->ts = ts;
    l->dur = dur;
    l->depth = depth;
    l->track = track;
    l->nspan = ts && dur && track ? store_nrow(st, TABLE_span) : 0;
    l->ntrack = store_nrow(st, TABLE_track);
    l->lane = mem_calloc(l->ntrack + 1, sizeof(*l->lane));
    if (!l->lane || by_track(l)) {
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
            for (int k = 0; k < l->lane[t].line[i].nlevel; k++)
                mem_free(l->lane[t].line[i].level[k].bar);
            mem_free(l->lane[t].line[i].span);
        }
        mem_free(l->lane[t].line);
    }
    mem_free(l->lane);
    mem_free(l->first);
    mem_free(l->of);
    mem_free(l);
}

/* The line for a span: its depth or, where there is no nesting, the first that is free. */
static struct line *line_for(struct lane *lane, const struct lod *l, uint32_t span)
{
    size_t want = l->depth && l->depth[span] > 0 ? (size_t)l->depth[span] : 0;

    while (want + 1 < LINES_MAX && want < lane->nline && lane->line[want].end_ns > l->ts[span])
        want++;
    while (lane->nline <= want) {
        if (!GROW(lane->line, lane->cap, lane->nline + 1))
            return NULL;
        lane->line[lane->nline++] = (struct line){ .end_ns = INT64_MIN };
    }
    return &lane->line[want];
}

static int lines_fill(struct lod *l, struct lane *lane, uint32_t track)
{
    for (uint32_t i = l->first[track]; i < l->first[track + 1]; i++) {
        struct line *line = line_for(lane, l, l->of[i]);

        if (!line || !GROW(line->span, line->cap, line->n + 1))
            return OPM_ENOMEM;
        line->span[line->n++] = l->of[i];
        line->end_ns = MAX(line->end_ns, end_of(l, l->of[i]));
    }
    return 0;
}

static struct bar bar_of(const struct lod *l, uint32_t span)
{
    int64_t end = end_of(l, span);

    return (struct bar){ l->ts[span], end, span, 1, end - l->ts[span] };
}

/* Unite b with the last bar of the level if both it and the gap are narrow enough. The spans of a
 * bar are each narrower than the width, the bar itself may be long. */
static bool level_add(struct level *v, const struct bar *b, bool narrow, bool *last_narrow)
{
    struct bar *last = v->n ? &v->bar[v->n - 1] : NULL;

    if (last && narrow && *last_narrow && b->from_ns - last->to_ns < v->width_ns) {
        last->to_ns = MAX(last->to_ns, b->to_ns);
        last->count += b->count;
        if (b->longest_ns > last->longest_ns) {
            last->longest_ns = b->longest_ns;
            last->span = b->span;
        }
        return false;
    }
    v->bar[v->n++] = *b;
    *last_narrow = narrow;
    return true;
}

/* The level above: from the spans, or from the level below. False when out of memory. */
static bool level_make(const struct lod *l, struct line *line, int64_t width_ns)
{
    const struct level *below = line->nlevel ? &line->level[line->nlevel - 1] : NULL;
    size_t nbelow = below ? below->n : line->n;
    struct level v = { .width_ns = width_ns, .bar = mem_alloc((nbelow + 1) * sizeof(*v.bar)) };
    bool last_narrow = false;
    struct bar *fit;

    if (!v.bar)
        return false;
    for (size_t i = 0; i < nbelow; i++) {
        struct bar b = below ? below->bar[i] : bar_of(l, line->span[i]);

        level_add(&v, &b, b.longest_ns < width_ns, &last_narrow);
    }
    if ((double)v.n > SHRINK * (double)nbelow) {
        mem_free(v.bar); /* no gain; a wider one may have */
        return true;
    }
    fit = mem_realloc(v.bar, (v.n + 1) * sizeof(*v.bar));
    v.bar = fit ? fit : v.bar;
    line->level[line->nlevel++] = v;
    return true;
}

static int line_build(const struct lod *l, struct line *line)
{
    int64_t width = 64;

    for (int k = 0; k < 30 && line->nlevel < LEVELS_MAX; k++) {
        size_t n = line->nlevel ? line->level[line->nlevel - 1].n : line->n;

        if (n < 512 || width > l->end_ns)
            break;
        if (!level_make(l, line, width))
            return OPM_ENOMEM;
        if (__builtin_mul_overflow(width, LEVEL_FACTOR, &width))
            break;
    }
    return 0;
}

static int lane_build(struct lod *l, uint32_t track)
{
    struct lane *lane = &l->lane[track];
    int rc = lane->built ? 0 : lines_fill(l, lane, track);

    for (size_t i = 0; rc == 0 && !lane->built && i < lane->nline; i++)
        rc = line_build(l, &lane->line[i]);
    lane->built |= rc == 0;
    return rc;
}

/* ---- asking ---- */

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
    a->bar[a->n++] =
        (struct lod_bar){ b->from_ns, open ? -1 : b->to_ns - b->from_ns, depth, b->span, b->count };
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
            now.to_ns = MAX(now.to_ns, b.to_ns);
            now.count += b.count;
            if (b.longest_ns > now.longest_ns) {
                now.longest_ns = b.longest_ns;
                now.span = b.span;
            }
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

int lod_query(struct lod *l, uint32_t track, int64_t from_ns, int64_t to_ns, int64_t pixel_ns,
              size_t max, struct lod_bar **out, size_t *n)
{
    struct answer a = { .max = max };
    int rc = track <= l->ntrack ? lane_build(l, track) : 0;

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
