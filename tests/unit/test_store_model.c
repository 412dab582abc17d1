/* test_store_model.c -- the order and nesting that store_finish() finds, against a naive model of
 * the rules, on random data that arrives in different ways. */
#include "store_unit.h"

#define MAX_SPANS 3000
#define MAX_TRACKS 8

/* The model: spans and what the rules say about them, found by comparing all with all. */
struct model_span {
    int64_t ts, dur, end; /* end: that of the one around it if it never ended */
    uint32_t track;
    uint32_t site;
    int level; /* sibling track it must go to, 0 for its own */
    int depth, parent;
    int64_t self;
    uint32_t inside; /* site of the innermost longer-than-0 span that it was recorded in, or NONE */
    uint32_t begun;  /* how many had begun before it */
};
struct model {
    struct model_span span[MAX_SPANS]; /* in the final order of their track, once solved */
    size_t n;
    uint32_t async;
};

static int64_t raw_end(const struct model_span *s)
{
    return s->dur < 0 ? TIME_NEVER : s->ts + s->dur;
}

static int by_rule(const void *a, const void *b)
{
    const struct model_span *x = a, *y = b;

    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    if (raw_end(x) != raw_end(y))
        return raw_end(x) > raw_end(y) ? -1 : 1;
    return x->site < y->site ? -1 : 1;
}

static void model_solve(struct model *m)
{
    qsort(m->span, m->n, sizeof(m->span[0]), by_rule);
    for (size_t i = 0; i < m->n; i++) {
        struct model_span *s = &m->span[i];
        bool overlaps = true;

        s->end = raw_end(s);
        s->self = s->dur < 0 ? NIL : s->dur;
        s->depth = 0;
        s->parent = -1;
        if (s->track == NONE || (m->async >> s->track & 1))
            continue;
        for (s->level = 0; overlaps; s->level += overlaps) {
            overlaps = false;
            s->end = raw_end(s);
            s->depth = 0;
            s->parent = -1;
            for (size_t k = 0; k < i; k++) {
                struct model_span *o = &m->span[k];

                if (o->track != s->track || o->level != s->level || o->end == o->ts)
                    continue;
                if (s->dur < 0 && s->ts < o->end)
                    s->end = o->end < s->end ? o->end : s->end;
                if (s->dur >= 0 && s->ts < o->end && o->end < s->end)
                    overlaps = true;
            }
            for (size_t k = 0; k < i; k++) {
                struct model_span *o = &m->span[k];

                if (o->track != s->track || o->level != s->level || o->end == o->ts)
                    continue;
                if (s->end > o->end || (s->dur < 0 && s->ts >= o->end))
                    continue;
                /* A zero-length one at the end of o, where another begins, belongs to that. */
                s->parent = (int)k;
            }
        }
        if (s->parent >= 0) {
            struct model_span *p = &m->span[s->parent];

            s->depth = p->depth + 1;
            if (p->self != NIL)
                p->self -= s->end - s->ts;
        }
    }
}

/* The tracks that spans end up on: siblings are numbered by track, then level. NONE comes last. */
#define NO_TRACK (MAX_TRACKS * (OVERLAP_LEVELS + 1))
static void model_tracks(const struct model *m, uint32_t ntrack, size_t *out)
{
    uint32_t first[MAX_TRACKS], at = ntrack;

    for (uint32_t t = 0; t < ntrack; t++) {
        int levels = 0;

        for (size_t i = 0; i < m->n; i++)
            if (m->span[i].track == t)
                levels = MAX(levels, m->span[i].level);
        first[t] = at;
        at += (uint32_t)levels;
    }
    for (size_t i = 0; i < m->n; i++) {
        const struct model_span *s = &m->span[i];

        out[i] = s->track == NONE ? NO_TRACK
                 : s->level       ? first[s->track] + (uint32_t)s->level - 1
                                  : s->track;
    }
}

/* Every span is there once and unharmed, in order, with its parent before it. */
static void check_rows(const struct model *m, const struct store *st)
{
    static bool seen[MAX_SPANS];
    static const struct model_span *by_site[MAX_SPANS];
    int64_t last = 0;

    assert_int_equal(store_nrow(st, TABLE_span), m->n);
    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < m->n; i++)
        by_site[m->span[i].site] = &m->span[i];
    for (size_t row = 0; row < m->n; row++) {
        uint32_t site = store_span_site(st)[row];
        int64_t parent = cell(st, row, span_col_parent);

        assert_false(seen[site]);
        seen[site] = true;
        assert_int_equal(cell(st, row, span_col_ts), by_site[site]->ts);
        assert_int_equal(cell(st, row, span_col_dur), by_site[site]->dur);
        assert_true(by_site[site]->ts >= last);
        last = by_site[site]->ts;
        if (parent == NIL)
            continue;
        assert_true(parent < (int64_t)row);
        assert_int_equal(cell(st, (size_t)parent, span_col_track), cell(st, row, span_col_track));
        assert_int_equal(cell(st, (size_t)parent, span_col_depth) + 1,
                         cell(st, row, span_col_depth));
    }
}

/* Compare a finished store with the solved model. Of equal spans it is open which is which. */
static void model_compare(const struct model *m, const struct store *st, uint32_t ntrack)
{
    static size_t track_of[MAX_SPANS];
    size_t next[NO_TRACK + 1] = { 0 };

    check_rows(m, st);
    model_tracks(m, ntrack, track_of);
    for (size_t row = 0; row < m->n; row++) {
        int64_t track = cell(st, row, span_col_track), parent = cell(st, row, span_col_parent);
        size_t t = track == NIL ? NO_TRACK : (size_t)track, i = next[t];
        const struct model_span *s, *around;

        while (i < m->n && track_of[i] != t)
            i++;
        assert_true(i < m->n);
        next[t] = i + 1;
        s = &m->span[i];
        assert_int_equal(cell(st, row, span_col_ts), s->ts);
        assert_int_equal(cell(st, row, span_col_dur), s->dur);
        assert_int_equal(cell(st, row, span_col_depth), s->depth);
        assert_int_equal(cell(st, row, span_col_self), s->self);
        assert_int_equal(parent == NIL, s->parent < 0);
        if (parent == NIL)
            continue;
        around = &m->span[s->parent];
        assert_int_equal(cell(st, (size_t)parent, span_col_ts), around->ts);
        assert_int_equal(cell(st, (size_t)parent, span_col_dur), around->dur);
    }
}

/* Spans on one track as a recorder writes them, with a clock that moves min_step to max_step ticks
 * from event to event. The first two tell one order from the other: the rest may fit both. */
static void record_some(struct model *m, uint32_t track, size_t n, uint32_t min_step,
                        uint32_t max_step)
{
    struct {
        int64_t ts;
        uint32_t begun;
    } open[64];
    size_t depth = 0, first = m->n;
    uint32_t begun = 2;
    int64_t now = 3;

    for (uint32_t i = 2; i-- > 0; m->n++)
        m->span[m->n] = (struct model_span){
            .ts = i,
            .dur = i ? 1 : 3,
            .track = track,
            .site = (uint32_t)m->n,
            .inside = i ? (uint32_t)m->n + 1 : NONE,
            .begun = i,
        };

    while (n || depth) {
        bool last = !n && rng(3) == 0; /* some never end */

        now += min_step + rng(max_step - min_step + 1);
        if (n && depth < ARRAY_SIZE(open) && (depth == 0 || rng(5) < 2)) {
            open[depth].ts = now;
            open[depth++].begun = begun++;
            n--;
            continue;
        }
        for (size_t k = last ? depth : 1; k; k--) {
            depth--;
            m->span[m->n] = (struct model_span){
                .ts = open[depth].ts,
                .dur = last ? -1 : now - open[depth].ts,
                .track = track,
                .site = (uint32_t)m->n,
                .inside = NONE,
                .begun = open[depth].begun,
            };
            for (size_t i = first; i < m->n && m->span[m->n].dur; i++)
                if (m->span[i].begun > open[depth].begun && m->span[i].inside == NONE)
                    m->span[i].inside = m->span[m->n].site;
            m->n++;
        }
    }
}

enum arrival { BY_END, BY_START, SHUFFLED };

static int by_begin(const void *a, const void *b)
{
    const struct model_span *x = a, *y = b;

    return x->begun < y->begun ? -1 : x->begun > y->begun;
}

/* Two more spans for every track, whose order is wrong whatever comes before them: a few spans may
 * be shuffled into a good order. */
static void model_spoil(struct model *m, uint32_t ntrack)
{
    int64_t end = 0;

    for (size_t i = 0; i < m->n; i++)
        end = MAX(end, m->span[i].ts + m->span[i].dur);
    for (uint32_t k = 0; k < 2 * (ntrack + 1); k++) {
        m->span[m->n] = (struct model_span){
            .ts = end + (k & 1 ? 10 : 20),
            .dur = 5,
            .track = k / 2 < ntrack ? k / 2 : NONE,
            .site = (uint32_t)m->n,
        };
        m->n++;
    }
}

/* Add the spans of the model: in pieces of some size, the tracks in turns. */
static struct store *model_store(const struct model *m, uint32_t ntrack, enum arrival arrival)
{
    static struct model_span s[MAX_SPANS];
    struct store *st = make(ntrack, m->async, (uint32_t)m->n);
    size_t at[MAX_TRACKS + 1] = { 0 }, left = m->n;
    uint32_t max_piece = rng(4) ? 1 + rng(200) : 1;

    memcpy(s, m->span, m->n * sizeof(s[0]));
    if (arrival == BY_START)
        qsort(s, m->n, sizeof(s[0]), by_begin);
    for (size_t i = m->n - 2 * (ntrack + 1); arrival == SHUFFLED && i > 1; i--) {
        size_t j = rng((uint32_t)i);
        struct model_span swap = s[j];

        s[j] = s[i - 1];
        s[i - 1] = swap;
    }
    while (left) {
        uint32_t turn = rng(ntrack + 1), track = turn < ntrack ? turn : NONE,
                 n = 1 + rng(max_piece);
        bool block = rng(2);

        for (; at[turn] < m->n && n; at[turn]++) {
            const struct model_span *x = &s[at[turn]];
            struct span_row row = { x->ts, x->dur, track, x->site, OPM_NULL_I64, 0 };
            struct span_block b;

            if (x->track != track)
                continue;
            n--;
            left--;
            if (!block) {
                assert_int_equal(store_add_span(st, &row, NULL), 0);
                continue;
            }
            assert_int_equal(store_add_span_block(st, track, 1, &b), 0);
            *b.ts = x->ts;
            *b.dur = x->dur;
            *b.site = x->site;
        }
    }
    return st;
}

static void check_model(const struct model *m, uint32_t ntrack, enum arrival arrival)
{
    static struct model solved;
    struct store *st;
    int64_t min = TIME_NEVER;

    solved = *m;
    if (arrival == SHUFFLED)
        model_spoil(&solved, ntrack);
    st = model_store(&solved, ntrack, arrival);
    for (size_t i = 0; i < m->n; i++)
        min = m->span[i].ts < min ? m->span[i].ts : min;
    assert_int_equal(store_finish(st), 0);
    for (size_t i = 0; i < solved.n; i++)
        solved.span[i].ts -= min;
    model_solve(&solved);
    model_compare(&solved, st, ntrack);
    if (arrival == BY_START)
        assert_int_equal(stat_count(st, "span_out_of_order"), 0);
    store_free(st);
}

static void record_tracks(struct model *m, uint64_t seed, uint32_t ntrack, uint32_t min_step)
{
    rng_state = seed * 0x9e3779b97f4a7c15u;
    m->n = 0;
    m->async = 0;
    for (uint32_t t = 0; t < ntrack; t++)
        record_some(m, t, 1 + rng(60), min_step, min_step + rng(4));
}

/* Clean recordings: however they arrive, the result is that of the model. */
static void test_random_nested(void **state)
{
    static struct model m;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint32_t ntrack = 1 + (uint32_t)(seed % 4);

        record_tracks(&m, seed, ntrack, 1);
        for (enum arrival a = BY_END; a <= SHUFFLED; a++)
            check_model(&m, ntrack, a);
    }
}

/* Recordings with a coarse clock: in either good order everything stays inside what it was recorded
 * in; only zero-length spans may come to lie deeper. */
static void check_recorded(const struct model *m, const struct store *st)
{
    size_t row_of[MAX_SPANS];

    for (size_t i = 0; i < m->n; i++)
        row_of[store_span_site(st)[i]] = i;
    for (size_t i = 0; i < m->n; i++) {
        int64_t parent = cell(st, row_of[m->span[i].site], span_col_parent);
        int64_t want = m->span[i].inside == NONE ? NIL : (int64_t)row_of[m->span[i].inside];

        while (m->span[i].dur == 0 && parent != NIL && parent != want)
            parent = cell(st, (size_t)parent, span_col_parent);
        assert_int_equal(parent, want);
    }
    assert_int_equal(stat_count(st, "span_out_of_order"), 0);
    assert_int_equal(stat_count(st, "overlapping_span"), 0);
}

static void test_random_coarse(void **state)
{
    static struct model m;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint32_t ntrack = 1 + (uint32_t)(seed % 4);

        record_tracks(&m, seed, ntrack, 0);
        check_model(&m, ntrack, SHUFFLED);
        for (enum arrival a = BY_END; a <= BY_START; a++) {
            struct store *st = model_store(&m, ntrack, a);

            assert_int_equal(store_finish(st), 0);
            check_recorded(&m, st);
            store_free(st);
        }
    }
}

/* Anything at all: overlapping, never ended, asynchronous, without a track. */
static void test_random_dirty(void **state)
{
    static struct model m;

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        uint32_t ntrack = 1 + (uint32_t)(seed % 3), range, max_dur;

        rng_state = seed * 0xd6e8feb86659fd93u;
        range = 1 + rng(100);
        max_dur = 1 + rng(12);
        m.n = 1 + rng(24);
        m.async = rng(8) & 4;
        for (size_t i = 0; i < m.n; i++) {
            uint32_t track = rng(ntrack + 1);

            m.span[i] = (struct model_span){
                .ts = (int64_t)rng(range) - 50,
                .dur = rng(10) ? (int64_t)rng(max_dur) : -1,
                .track = track < ntrack ? track : NONE,
                .site = (uint32_t)i,
            };
        }
        check_model(&m, ntrack, SHUFFLED);
    }
}

/* Larger, so that pieces, chunks moved aside and threads come into play: in order of end in blocks
 * must give the same as sorted one by one. */
static void compare_large(size_t n, uint32_t ntrack, size_t block)
{
    struct {
        int64_t now, open;
        int k;
    } thread[MAX_TRACKS] = { 0 };
    struct store *a = make(ntrack, 0, 64), *b = make(ntrack, 0, 64);
    const int columns[] = { span_col_ts,    span_col_dur,    span_col_self,
                            span_col_track, span_col_parent, span_col_depth };
    int64_t *ts = malloc(n * sizeof(*ts)), *dur = malloc(n * sizeof(*dur));
    uint32_t *site = malloc(n * sizeof(*site)), *track = malloc(n * sizeof(*track));
    size_t done = 0;

    assert_true(ts && dur && site && track);
    assert_int_equal(store_reserve_spans(a, n), 0);
    while (done < n) {
        uint32_t t = rng(ntrack);
        size_t m = n - done < block ? n - done : block;
        struct span_block out;

        assert_int_equal(store_add_span_block(a, t, m, &out), 0);
        for (size_t i = 0; i < m; i++) {
            int64_t from;

            thread[t].now += 1 + rng(9);
            from = thread[t].now;
            thread[t].now += 1 + rng(9);
            if (++thread[t].k % 8 == 0) {
                from = thread[t].open;
                thread[t].open = thread[t].now;
            }
            out.ts[i] = ts[done + i] = from;
            out.dur[i] = dur[done + i] = thread[t].now - from;
            out.site[i] = site[done + i] = (uint32_t)thread[t].k % 64;
            track[done + i] = t;
        }
        done += m;
    }
    for (size_t i = 0; i < n; i++) {
        size_t k = n < 2000 ? i : (i * 7919 + 13) % n; /* n is no multiple of it */
        struct span_row row = { ts[k], dur[k], track[k], site[k], OPM_NULL_I64, 0 };

        if (store_add_span(b, &row, NULL))
            fail();
    }
    assert_int_equal(store_finish(a), 0);
    assert_int_equal(store_finish(b), 0);
    assert_int_equal(store_nrow(a, TABLE_import_stat), 0);
    for (size_t c = 0; c < ARRAY_SIZE(columns); c++) {
        const void *x, *y;

        assert_int_equal(store_column(a, TABLE_span, columns[c], &x), 0);
        assert_int_equal(store_column(b, TABLE_span, columns[c], &y), 0);
        assert_memory_equal(
            x, y, n * (store_table_defs[TABLE_span].col[columns[c]].type == COL_I64 ? 8 : 4));
    }
    assert_memory_equal(store_span_site(a), store_span_site(b), n * sizeof(*site));
    store_free(a);
    store_free(b);
    free(ts);
    free(dur);
    free(site);
    free(track);
}

static void test_large(void **state)
{
    static const struct {
        size_t n;
        uint32_t ntrack;
        size_t block;
    } sizes[] = {
        { 30000, 1, 1000 }, { 30000, 2, 1 },      { 30000, 3, 700 },
        { 30000, 2, 8000 }, { 100000, 8, 30000 }, { 1500000, 3, 50000 },
    };

    (void)state;
    rng_state = 42;
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        compare_large(sizes[i].n, sizes[i].ntrack, sizes[i].block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_nested),
        cmocka_unit_test(test_random_coarse),
        cmocka_unit_test(test_random_dirty),
        cmocka_unit_test(test_large),
    };

    return RUN_TWICE(tests);
}
