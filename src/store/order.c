/* order.c -- bring the spans of one track into order: by start, parents before children.
 *
 * A recorder writes spans when they end, so they come ordered by end with children before parents;
 * importers often add them ordered by start. Both are recognised and left in place for merge.c.
 * Anything else is copied and sorted; spans that then end after the span in which they start are
 * handed out to sibling tracks.
 *
 * Coarse clocks leave open what encloses what: spans may be equal, or have no length and lie where
 * another ends or begins. Then the order of arrival counts, if it is one of the two good ones, else
 * the longer span comes first. */
#include "store/store_int.h"

#include "base/alloc.h"

#include <string.h>

#define SORT_RUN_MIN 16 /* shorter ordered runs are lengthened by insertion */

static inline bool entry_before(const struct span_entry *a, const struct span_entry *b)
{
    /* As unsigned, -1 (never ended) is the longest of all. */
    return a->ts != b->ts ? a->ts < b->ts : (uint64_t)a->dur > (uint64_t)b->dur;
}

/* The ordered run that starts at e[first]; returns where the next one starts. */
static size_t sort_run(struct span_entry *e, size_t first, size_t n)
{
    size_t i = first + 1;

    while (i < n && !entry_before(&e[i], &e[i - 1]))
        i++;
    for (; i < n && i - first < SORT_RUN_MIN; i++) {
        struct span_entry v = e[i];
        size_t at = i;

        for (; at > first && entry_before(&v, &e[at - 1]); at--)
            e[at] = e[at - 1];
        e[at] = v;
    }
    return i;
}

static void sort_merge(struct span_entry *out, const struct span_entry *a, size_t na,
                       const struct span_entry *b, size_t nb)
{
    if (na && nb && entry_before(b, a + na - 1)) {
        while (na && nb) {
            if (entry_before(b, a)) {
                *out++ = *b++;
                nb--;
            } else {
                *out++ = *a++;
                na--;
            }
        }
    }
    memcpy(out, a, na * sizeof(*a));
    memcpy(out + na, b, nb * sizeof(*b));
}

/* Natural merge sort. start[] has nrun run starts and n behind them. */
static int sort_runs(struct span_entry *e, size_t n, size_t *start, size_t nrun)
{
    struct column tmp = { 0 };
    struct span_entry *from = e, *to;

    if (column_reserve(&tmp, n * sizeof(*e)))
        return OPM_ENOMEM;
    to = tmp.data;
    while (nrun > 1) {
        struct span_entry *swap = from;
        size_t out = 0;

        for (size_t i = 0; i < nrun; i += 2) {
            size_t a = start[i], b = start[i + 1], c = i + 1 < nrun ? start[i + 2] : b;

            sort_merge(to + a, from + a, b - a, from + b, c - b);
            start[out++] = a;
        }
        start[out] = n;
        nrun = out;
        from = to;
        to = swap;
    }
    if (from != e)
        memcpy(e, from, n * sizeof(*e));
    column_release(&tmp);
    return 0;
}

int span_entries_sort(struct span_entry *e, size_t n)
{
    size_t *start = NULL, nrun = 0, cap = 0;
    int rc = OPM_ENOMEM;

    for (size_t i = 0; i < n; i = sort_run(e, i, n)) {
        if (!GROW(start, cap, nrun + 2))
            goto out;
        start[nrun++] = i;
    }
    rc = 0;
    if (nrun > 1) {
        start[nrun] = n;
        rc = sort_runs(e, n, start, nrun);
    }
out:
    mem_free(start);
    return rc;
}

/* Make one span fit for calculating: see TIME_LIMIT. Returns its end. */
static int64_t normalise(struct track_spans *t, int64_t *ts, int64_t *dur)
{
    *ts = MAX(-TIME_LIMIT, MIN(*ts, TIME_LIMIT));
    if (*dur == -1) {
        t->not_ended++;
        return TIME_NEVER;
    }
    if (*dur < 0) {
        t->negative++;
        *dur = 0;
    }
    *dur = MIN(*dur, TIME_LIMIT - *ts);
    return *ts + *dur;
}

static inline bool is_normal(int64_t ts, int64_t dur)
{
    return (uint64_t)ts + TIME_LIMIT <= 2 * (uint64_t)TIME_LIMIT &&
           (uint64_t)dur <= (uint64_t)TIME_LIMIT - (uint64_t)ts;
}

static void normalise_all(struct store *st, struct track_spans *t, size_t npiece, size_t nlast)
{
    int64_t *ts = span_ts(st), *dur = span_dur(st);

    for (size_t p = 0; p < npiece; p++) {
        size_t first = t->piece[p].first, n = p + 1 < npiece ? t->piece[p].n : nlast;

        for (size_t i = first; i < first + n; i++) {
            if (UNLIKELY(!is_normal(ts[i], dur[i])))
                normalise(t, &ts[i], &dur[i]);
            t->min_ts = MIN(t->min_ts, ts[i]);
        }
    }
}

/* Note where the later half begins: at span i, all others read so far included. Those of them that
 * begin before are still open, so they are on the stack. */
static int note_split(struct track_spans *t, size_t i, const struct open_span *stack, size_t n)
{
    t->split = i;
    while (n && stack[n - 1].end >= t->split_ts)
        n--;
    t->open = mem_alloc(n * sizeof(*stack));
    if (!t->open)
        return OPM_ENOMEM;
    if (n)
        memcpy(t->open, stack, n * sizeof(*stack));
    t->nopen = n;
    return 0;
}

/* Normalise all spans, last one first, and find out whether they lie ordered by end and properly
 * nested: every span lies inside, or ends before, each that comes after it. It is enough to look at
 * those that are open there when going backwards; the stack holds what starts inside them. */
static int check_by_end(struct store *st, struct track_spans *t, struct nest *stack, bool *out)
{
    int64_t *ts = span_ts(st), *dur = span_dur(st);
    int64_t next_end = TIME_NEVER, min_ts = TIME_NEVER, split_ts = t->split_ts;
    size_t max_n = 0, last = SIZE_MAX;

    for (size_t p = t->npiece; p-- > 0;) {
        for (size_t i = (size_t)t->piece[p].first + t->piece[p].n; i-- > t->piece[p].first;) {
            int64_t end, bound = TIME_NEVER;

            if (LIKELY(is_normal(ts[i], dur[i])))
                end = ts[i] + dur[i];
            else
                end = normalise(t, &ts[i], &dur[i]);
            min_ts = MIN(min_ts, ts[i]);
            if (UNLIKELY(end <= split_ts)) {
                t->no_split = end == split_ts;
                split_ts = INT64_MIN;
                if (note_split(t, last, stack->open, stack->n))
                    return OPM_ENOMEM;
            }
            while (stack->n && stack->open[stack->n - 1].end > ts[i])
                bound = stack->open[--stack->n].end;
            if (end > next_end || end > bound) {
                t->min_ts = min_ts;
                normalise_all(st, t, p + 1, i - t->piece[p].first);
                *out = false;
                return 0;
            }
            next_end = end;
            last = i;
            /* A zero-length span takes nothing in. */
            if (nest_push(stack, ts[i] + (dur[i] == 0), (uint32_t)i))
                return OPM_ENOMEM;
            max_n = MAX(max_n, stack->n);
        }
    }
    if (split_ts != INT64_MIN && note_split(t, last, stack->open, stack->n))
        return OPM_ENOMEM;
    t->min_ts = min_ts;
    t->order = max_n > 1 ? ORDER_BY_END : ORDER_BY_START; /* where nothing nests, it is both */
    *out = true;
    return 0;
}

/* Whether the normalised spans lie ordered by start and properly nested. */
static int check_by_start(struct store *st, struct track_spans *t, bool *out)
{
    const int64_t *ts = span_ts(st), *dur = span_dur(st);
    int64_t last_ts = INT64_MIN;
    struct nest ns = { 0 };
    bool ok = true;
    int rc = 0;

    for (size_t p = 0; ok && !rc && p < t->npiece; p++) {
        size_t i = t->piece[p].first, to = i + t->piece[p].n;

        for (; ok && !rc && i < to; i++) {
            int64_t end = span_end(ts[i], dur[i]);

            ok = ts[i] >= last_ts;
            last_ts = ts[i];
            if (!ok || t->async)
                continue;
            ok = nest_enter(&ns, ts[i], &end);
            if (ok && end > ts[i])
                rc = nest_push(&ns, end, 0);
        }
    }
    mem_free(ns.open);
    *out = ok;
    return rc;
}

static int copy_entries(struct store *st, struct track_spans *t)
{
    const int64_t *ts = span_ts(st), *dur = span_dur(st);
    int64_t max_ts = INT64_MIN, max_end = INT64_MIN, n = 0;
    struct span_entry *e;

    for (size_t p = 0; p < t->npiece; p++)
        n += t->piece[p].n;
    if (column_reserve(&t->sorted, (size_t)n * sizeof(*e)))
        return OPM_ENOMEM;
    e = t->sorted.data;
    for (size_t p = 0; p < t->npiece; p++) {
        size_t i = t->piece[p].first, to = i + t->piece[p].n;

        for (; i < to; i++) {
            int64_t end = span_end(ts[i], dur[i]);

            e[t->nsorted++] =
                (struct span_entry){ ts[i], dur[i], st->span_site.id[i], (uint32_t)i };
            /* One that starts late or ends late is in its place by start or by end. */
            t->out_of_order += ts[i] < max_ts && end < max_end;
            max_ts = MAX(max_ts, ts[i]);
            max_end = MAX(max_end, end);
        }
    }
    return 0;
}

/* Where spans come mostly ordered by end: turn children-first into parents-first, as merge.c does
 * for clean tracks. Leaves few runs to sort, and of equal spans the later one outside. */
static int turn_around(struct track_spans *t)
{
    struct column turned = { 0 };
    struct span_entry *e = t->sorted.data, *out, *stack = NULL;
    size_t by_start = 0, by_end = 0, at = t->nsorted, n = 0, cap = 0;
    int rc = 0;

    for (size_t i = 1; i < t->nsorted; i++) {
        by_start += e[i].ts < e[i - 1].ts;
        by_end += span_end(e[i].ts, e[i].dur) < span_end(e[i - 1].ts, e[i - 1].dur);
    }
    if (by_start <= by_end)
        return 0;
    if (column_reserve(&turned, t->nsorted * sizeof(*e)))
        return OPM_ENOMEM;
    out = turned.data;
    for (size_t i = t->nsorted; i-- > 0;) {
        while (n && stack[n - 1].ts + (stack[n - 1].dur == 0) > e[i].ts)
            out[--at] = stack[--n];
        if (!GROW(stack, cap, n + 1)) {
            rc = OPM_ENOMEM;
            break;
        }
        stack[n++] = e[i];
    }
    while (!rc && n)
        out[--at] = stack[--n];
    mem_free(stack);
    if (rc) {
        column_release(&turned);
        return rc;
    }
    column_release(&t->sorted);
    t->sorted = turned;
    return 0;
}

/* Move what overlaps out of a sorted list; the rest closes up. */
static int take_overlapping(struct column *list, size_t *n, struct overlap *out)
{
    struct span_entry *e = list->data;
    struct nest ns = { 0 };
    size_t kept = 0;
    int rc = 0;

    for (size_t i = 0; i < *n && !rc; i++) {
        int64_t end = span_end(e[i].ts, e[i].dur);

        if (nest_enter(&ns, e[i].ts, &end)) {
            if (end > e[i].ts)
                rc = nest_push(&ns, end, 0);
            e[kept++] = e[i];
        } else {
            rc = column_reserve(&out->list, (out->n + 1) * sizeof(*e));
            if (!rc)
                ((struct span_entry *)out->list.data)[out->n++] = e[i];
        }
    }
    mem_free(ns.open);
    *n = kept;
    return rc;
}

static int part_overlapping(struct track_spans *t)
{
    struct overlap out = { 0 };

    if (take_overlapping(&t->sorted, &t->nsorted, &out))
        goto fail;
    t->overlapping = (int64_t)out.n;
    while (out.n) {
        struct overlap *o;

        if (!GROW(t->overlap, t->overlap_cap, t->noverlap + 1))
            goto fail;
        o = &t->overlap[t->noverlap++];
        *o = out;
        out = (struct overlap){ 0 };
        if (t->noverlap < OVERLAP_LEVELS && take_overlapping(&o->list, &o->n, &out))
            goto fail;
    }
    return 0;
fail:
    column_release(&out.list);
    return OPM_ENOMEM;
}

int track_spans_order(struct store *st, struct track_spans *t)
{
    struct nest stack = { 0 };
    bool ok = false;
    int rc = 0;

    t->min_ts = TIME_NEVER;
    if (t->async)
        normalise_all(st, t, t->npiece, t->npiece ? t->piece[t->npiece - 1].n : 0);
    else
        rc = check_by_end(st, t, &stack, &ok);
    mem_free(stack.open);
    if (!ok || t->order != ORDER_BY_END)
        t->nopen = 0;
    if (rc || ok)
        return rc;
    if (check_by_start(st, t, &ok))
        return OPM_ENOMEM;
    if (ok) {
        t->order = ORDER_BY_START;
        return 0;
    }
    t->order = ORDER_SORTED;
    if (copy_entries(st, t) || (!t->async && turn_around(t)) ||
        span_entries_sort(t->sorted.data, t->nsorted))
        return OPM_ENOMEM;
    return t->async ? 0 : part_overlapping(t);
}

void track_spans_release(struct track_spans *t)
{
    column_release(&t->sorted);
    for (size_t i = 0; i < t->noverlap; i++)
        column_release(&t->overlap[i].list);
    mem_free(t->overlap);
    mem_free(t->open);
}
