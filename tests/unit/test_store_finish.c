/* test_store_finish.c -- the order and nesting that store_finish() finds, against cases written out
 * and against a naive model of the rules on random data. */
#include "store/store_int.h"
#include "unit.h"

#define MAX_SPANS 3000
#define MAX_TRACKS 8
#define NONE OPM_NULL_ID

static uint64_t rng_state;

static uint32_t rng(uint32_t below)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 20) % below;
}

/* ntrack tracks named t0, t1, ..., of which those with a bit in async are asynchronous, and as many
 * sites as a test needs: the op of a site tells which span it was. */
static struct store *make(uint32_t ntrack, uint32_t async, uint32_t nsite)
{
    struct store *st = NULL;

    assert_int_equal(store_new(&st), 0);
    for (uint32_t i = 0; i < ntrack; i++) {
        struct cell cells[track_col_COUNT] = { { 0 } };
        char name[16];
        str_id id;

        snprintf(name, sizeof(name), "t%u", i);
        assert_int_equal(store_cstr(st, name, &id), 0);
        cells[track_col_name] = cell_str(id);
        assert_int_equal(store_cstr(st, i < 32 && (async >> i & 1) ? "async" : "thread", &id), 0);
        cells[track_col_kind] = cell_str(id);
        cells[track_col_tid] = cell_i64(100 + i);
        assert_int_equal(store_add(st, TABLE_track, cells, NULL), 0);
    }
    for (uint32_t i = 0; i < nsite; i++)
        assert_int_equal(store_site(st, &(struct site){ .op = i }, &(uint32_t){ 0 }), 0);
    return st;
}

static int64_t stat_count(const struct store *st, const char *name)
{
    for (size_t i = 0; i < store_nrow(st, TABLE_import_stat); i++)
        if (!strcmp(store_text(st, store_cell(st, TABLE_import_stat, i, import_stat_col_name).str),
                    name))
            return store_cell(st, TABLE_import_stat, i, import_stat_col_count).i64;
    return 0;
}

static int64_t cell(const struct store *st, size_t row, int col)
{
    struct cell c = store_cell(st, TABLE_span, row, col);

    return c.kind == CELL_NULL ? -99 : c.i64;
}

/* Track 0 is a thread, track 1 a thread, track 2 asynchronous; siblings come behind. NIL is NULL.
 */
#define NIL -99
struct case_span {
    int64_t ts, dur;
    uint32_t track;
};
struct case_row {
    int span; /* which one of in[] */
    int64_t track, parent, depth, self;
};

static const struct {
    const char *what;
    struct case_span in[8];
    struct case_row out[8];
    const char *stat; /* the only one counted ... */
    int64_t count;    /* ... and how often */
} cases[] = {
    { "recorded: children before parents",
      { { 1, 2, 0 }, { 4, 1, 0 }, { 0, 10, 0 }, { 11, 3, 0 }, { 10, 9, 0 } },
      { { 2, 0, NIL, 0, 7 },
        { 0, 0, 0, 1, 2 },
        { 1, 0, 0, 1, 1 },
        { 4, 0, NIL, 0, 6 },
        { 3, 0, 3, 1, 3 } },
      NULL,
      0 },
    { "imported: parents before children",
      { { 0, 10, 0 }, { 1, 2, 0 }, { 4, 1, 0 }, { 10, 9, 0 }, { 11, 3, 0 } },
      { { 0, 0, NIL, 0, 7 },
        { 1, 0, 0, 1, 2 },
        { 2, 0, 0, 1, 1 },
        { 3, 0, NIL, 0, 6 },
        { 4, 0, 3, 1, 3 } },
      NULL,
      0 },
    { "neither: sorted and counted",
      { { 4, 1, 0 }, { 0, 10, 0 }, { 11, 3, 0 }, { 10, 9, 0 }, { 1, 2, 0 } },
      { { 1, 0, NIL, 0, 7 },
        { 4, 0, 0, 1, 2 },
        { 0, 0, 0, 1, 1 },
        { 3, 0, NIL, 0, 6 },
        { 2, 0, 3, 1, 3 } },
      "span_out_of_order",
      1 },
    { "two tracks do not nest in each other; ties go by track",
      { { 2, 3, 1 }, { 0, 9, 1 }, { 2, 1, 0 }, { 0, 5, 0 } },
      { { 3, 0, NIL, 0, 4 }, { 1, 1, NIL, 0, 6 }, { 2, 0, 0, 1, 1 }, { 0, 1, 1, 1, 3 } },
      NULL,
      0 },
    { "equal spans nest: by end, the later one is outside",
      { { 0, 5, 0 }, { 0, 5, 0 }, { 0, 5, 0 }, { 0, 6, 0 } },
      { { 3, 0, NIL, 0, 1 }, { 2, 0, 0, 1, 0 }, { 1, 0, 1, 2, 0 }, { 0, 0, 2, 3, 5 } },
      NULL,
      0 },
    { "same start: the longer one is outside",
      { { 0, 5, 0 }, { 0, 9, 0 }, { 0, 7, 0 } },
      { { 1, 0, NIL, 0, 2 }, { 2, 0, 0, 1, 2 }, { 0, 0, 1, 2, 5 } },
      "span_out_of_order",
      0 },
    { "zero-length spans belong to the span that begins there",
      { { 0, 5, 0 }, { 5, 0, 0 }, { 5, 4, 0 } },
      { { 0, 0, NIL, 0, 5 }, { 2, 0, NIL, 0, 4 }, { 1, 0, 1, 1, 0 } },
      NULL,
      0 },
    { "else to the one that ends there",
      { { 0, 5, 0 }, { 5, 0, 0 }, { 7, 4, 0 } },
      { { 0, 0, NIL, 0, 5 }, { 1, 0, 0, 1, 0 }, { 2, 0, NIL, 0, 4 } },
      NULL,
      0 },
    { "recorded inside at the end",
      { { 5, 0, 0 }, { 2, 3, 0 }, { 0, 5, 0 } },
      { { 2, 0, NIL, 0, 2 }, { 1, 0, 0, 1, 3 }, { 0, 0, 1, 2, 0 } },
      NULL,
      0 },
    { "zero-length spans enclose nothing and keep their order",
      { { 2, 0, 0 }, { 2, 0, 0 }, { 2, 0, 0 }, { 0, 4, 0 } },
      { { 3, 0, NIL, 0, 4 }, { 0, 0, 0, 1, 0 }, { 1, 0, 0, 1, 0 }, { 2, 0, 0, 1, 0 } },
      NULL,
      0 },
    { "overlapping: the later one moves to a sibling",
      { { 0, 5, 0 }, { 3, 6, 0 }, { 4, 1, 0 }, { 10, 1, 0 } },
      { { 0, 0, NIL, 0, 4 }, { 1, 3, NIL, 0, 6 }, { 2, 0, 0, 1, 1 }, { 3, 0, NIL, 0, 1 } },
      "overlapping_span",
      1 },
    { "three overlapping",
      { { 0, 5, 0 }, { 2, 5, 0 }, { 4, 5, 0 } },
      { { 0, 0, NIL, 0, 5 }, { 1, 3, NIL, 0, 5 }, { 2, 4, NIL, 0, 5 } },
      "overlapping_span",
      2 },
    { "a sibling has nesting of its own",
      { { 0, 4, 0 }, { 2, 8, 0 }, { 3, 5, 0 }, { 0, 4, 1 }, { 2, 8, 1 } },
      { { 0, 0, NIL, 0, 4 },
        { 3, 1, NIL, 0, 4 },
        { 1, 3, NIL, 0, 3 },
        { 4, 4, NIL, 0, 8 },
        { 2, 3, 2, 1, 5 } },
      "overlapping_span",
      3 },
    { "never ended: whatever follows lies inside",
      { { 1, 2, 0 }, { 6, -1, 0 }, { 4, -1, 0 }, { 0, -1, 0 } },
      { { 3, 0, NIL, 0, NIL }, { 0, 0, 0, 1, 2 }, { 2, 0, 0, 1, NIL }, { 1, 0, 2, 2, NIL } },
      "span_not_ended",
      3 },
    { "never ended, added by start",
      { { 0, -1, 0 }, { 1, 2, 0 }, { 4, -1, 0 }, { 5, 1, 0 } },
      { { 0, 0, NIL, 0, NIL }, { 1, 0, 0, 1, 2 }, { 2, 0, 0, 1, NIL }, { 3, 0, 2, 2, 1 } },
      "span_not_ended",
      2 },
    { "never ended inside one that did: ends with it",
      { { 0, 10, 0 }, { 4, -1, 0 }, { 5, 2, 0 }, { 12, 3, 0 } },
      { { 0, 0, NIL, 0, 4 }, { 1, 0, 0, 1, NIL }, { 2, 0, 1, 2, 2 }, { 3, 0, NIL, 0, 3 } },
      "span_not_ended",
      1 },
    { "negative duration",
      { { 0, 10, 0 }, { 4, -7, 0 } },
      { { 0, 0, NIL, 0, 10 }, { 1, 0, 0, 1, 0 } },
      "negative_duration",
      1 },
    { "asynchronous tracks overlap freely and nest nothing",
      { { 1, 1, 2 }, { 0, 5, 2 }, { 3, 9, 2 }, { 2, -1, 2 } },
      { { 1, 2, NIL, 0, 5 }, { 0, 2, NIL, 0, 1 }, { 3, 2, NIL, 0, NIL }, { 2, 2, NIL, 0, 9 } },
      "span_not_ended",
      1 },
    { "without a track: the same",
      { { 0, 5, NONE }, { 3, 9, NONE }, { 1, 2, 0 } },
      { { 0, NIL, NIL, 0, 5 }, { 2, 0, NIL, 0, 2 }, { 1, NIL, NIL, 0, 9 } },
      NULL,
      0 },
    { "a track that does not exist",
      { { 0, 5, 77 }, { 3, 9, 78 }, { 1, 2, 0 } },
      { { 0, NIL, NIL, 0, 5 }, { 2, 0, NIL, 0, 2 }, { 1, NIL, NIL, 0, 9 } },
      "unknown_track",
      2 },
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store *st = make(3, 4, 8);
        size_t n = 0;

        for (; n < 8 && (n == 0 || cases[i].in[n].ts || cases[i].in[n].dur); n++) {
            struct span_row row = SPAN_ROW_INIT;

            row.ts_ns = cases[i].in[n].ts + 1000; /* any origin will do */
            row.dur_ns = cases[i].in[n].dur;
            row.track = cases[i].in[n].track;
            row.site = (uint32_t)n;
            assert_int_equal(store_add_span(st, &row, NULL), 0);
        }
        assert_int_equal(store_finish(st), 0);
        assert_int_equal(store_nrow(st, TABLE_span), n);
        for (size_t k = 0; k < n; k++) {
            const struct case_row *want = &cases[i].out[k];

            if (cell(st, k, span_col_op) != want->span ||
                cell(st, k, span_col_track) != want->track ||
                cell(st, k, span_col_parent) != want->parent ||
                cell(st, k, span_col_depth) != want->depth ||
                cell(st, k, span_col_self) != want->self ||
                cell(st, k, span_col_ts) != cases[i].in[want->span].ts)
                fail_msg("%s: row %zu is span %d, ts %d, track %d, parent %d, depth %d, self %d",
                         cases[i].what, k, (int)cell(st, k, span_col_op),
                         (int)cell(st, k, span_col_ts), (int)cell(st, k, span_col_track),
                         (int)cell(st, k, span_col_parent), (int)cell(st, k, span_col_depth),
                         (int)cell(st, k, span_col_self));
        }
        if (store_nrow(st, TABLE_import_stat) != (cases[i].count > 0))
            fail_msg("%s: %zu kinds of trouble", cases[i].what, store_nrow(st, TABLE_import_stat));
        if (cases[i].count)
            assert_int_equal(stat_count(st, cases[i].stat), cases[i].count);
        assert_string_equal(store_meta_get(st, "trace.start_ns"), "1000");
        store_free(st);
    }
}

static void test_sibling_tracks(void **state)
{
    enum { N = 50 };
    struct store *st = make(2, 0, N);
    size_t last = 1 + OVERLAP_LEVELS;

    (void)state;
    /* A staircase: each overlaps all others. */
    for (uint32_t i = 0; i < N; i++) {
        struct span_row row = { i, N, 1, i, OPM_NULL_I64, 0 };

        assert_int_equal(store_add_span(st, &row, NULL), 0);
    }
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(store_nrow(st, TABLE_track), 2 + OVERLAP_LEVELS);
    assert_int_equal(stat_count(st, "overlapping_span"), N - 1);
    for (size_t i = 2; i <= last; i++) {
        char name[32];

        snprintf(name, sizeof(name), i == 2 ? "t1 (overlap)" : "t1 (overlap %zu)", i - 1);
        assert_string_equal(store_text(st, store_cell(st, TABLE_track, i, track_col_name).str),
                            name);
        assert_string_equal(store_text(st, store_cell(st, TABLE_track, i, track_col_kind).str),
                            i == last ? "async" : "thread");
        assert_int_equal(store_cell(st, TABLE_track, i, track_col_tid).i64, 101);
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(cell(st, i, span_col_ts), i);
        assert_int_equal(cell(st, i, span_col_track), i == 0 ? 1 : i < last ? i + 1 : last);
        assert_int_equal(cell(st, i, span_col_depth), 0);
        assert_int_equal(cell(st, i, span_col_self), N);
    }
    store_free(st);
}

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

/* Track numbers of siblings as store_finish() gives them: in order of track, then level. */
static uint32_t sibling(const struct model *m, uint32_t ntrack, uint32_t track, int level)
{
    uint32_t at = ntrack;

    for (uint32_t t = 0; t < ntrack; t++) {
        int levels = 0;

        for (size_t i = 0; i < m->n; i++)
            if (m->span[i].track == t && m->span[i].level > levels)
                levels = m->span[i].level;
        if (t == track)
            return at + (uint32_t)level - 1;
        at += (uint32_t)levels;
    }
    fail();
    return NONE;
}

/* Compare a finished store with the solved model. Of equal spans it is open which is which. */
static void model_compare(struct model *m, const struct store *st, uint32_t ntrack)
{
    static bool seen[MAX_SPANS];
    static struct model_span by_site[MAX_SPANS];
    static int64_t want[MAX_SPANS][5];
    size_t next[MAX_TRACKS * (OVERLAP_LEVELS + 1) + 1] = { 0 };
    int64_t last = 0;

    assert_int_equal(store_nrow(st, TABLE_span), m->n);
    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < m->n; i++)
        by_site[m->span[i].site] = m->span[i];
    for (size_t row = 0; row < m->n; row++) {
        uint32_t site = store_span_site(st)[row];
        const struct model_span *same = &by_site[site];
        int64_t track = cell(st, row, span_col_track), parent = cell(st, row, span_col_parent);

        assert_false(seen[site]);
        seen[site] = true;
        assert_int_equal(cell(st, row, span_col_ts), same->ts);
        assert_int_equal(cell(st, row, span_col_dur), same->dur);
        assert_true(same->ts >= last);
        last = same->ts;
        if (track == NIL) {
            assert_int_equal(same->track, NONE);
        } else if (track >= ntrack) {
            assert_string_equal(
                store_text(st, store_cell(st, TABLE_track, (size_t)track, track_col_kind).str),
                "thread");
        } else {
            assert_int_equal(same->track, track);
        }
        if (parent != NIL) {
            assert_true(parent < (int64_t)row);
            assert_int_equal(cell(st, (size_t)parent, span_col_track), track);
            assert_int_equal(cell(st, (size_t)parent, span_col_depth) + 1,
                             cell(st, row, span_col_depth));
        }
        want[row][0] = track == NIL ? MAX_TRACKS * (OVERLAP_LEVELS + 1) : track;
    }
    /* Along each track, the rows must be those of the model. */
    for (size_t row = 0; row < m->n; row++) {
        size_t track = (size_t)want[row][0], *at = &next[track], k = 0, i;
        int64_t parent = cell(st, row, span_col_parent);

        for (i = 0; i < m->n; i++) {
            const struct model_span *s = &m->span[i];
            size_t t = s->track == NONE ? MAX_TRACKS * (OVERLAP_LEVELS + 1)
                       : s->level       ? sibling(m, ntrack, s->track, s->level)
                                        : s->track;

            if (t == track && k++ == *at)
                break;
        }
        assert_true(i < m->n);
        ++*at;
        assert_int_equal(cell(st, row, span_col_ts), m->span[i].ts);
        assert_int_equal(cell(st, row, span_col_dur), m->span[i].dur);
        assert_int_equal(cell(st, row, span_col_depth), m->span[i].depth);
        assert_int_equal(cell(st, row, span_col_self), m->span[i].self);
        assert_int_equal(parent == NIL, m->span[i].parent < 0);
        if (parent != NIL) {
            assert_int_equal(cell(st, (size_t)parent, span_col_ts), m->span[m->span[i].parent].ts);
            assert_int_equal(cell(st, (size_t)parent, span_col_dur),
                             m->span[m->span[i].parent].dur);
        }
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

/* So many tracks that their numbers take two or four bytes each. */
static void test_many_tracks(void **state)
{
    static const uint32_t counts[] = { 255, 256, 300, 66000 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        uint32_t n = counts[i];
        struct store *st = make(n, 0, 3);

        for (uint32_t k = 0; k < 3; k++) { /* two children, then the parent */
            for (uint32_t t = 0; t < n; t++) {
                struct span_row row = { t * 5 + k, k == 2 ? 9 : 1, t, k, OPM_NULL_I64, 0 };

                row.ts_ns -= k == 2 ? 2 : 0;
                assert_int_equal(store_add_span(st, &row, NULL), 0);
            }
        }
        assert_int_equal(store_finish(st), 0);
        for (size_t row = 0; row < store_nrow(st, TABLE_span); row++) {
            int64_t ts = cell(st, row, span_col_ts), track = cell(st, row, span_col_track);
            uint32_t site = store_span_site(st)[row];

            if (ts != track * 5 + (site == 1) || cell(st, row, span_col_depth) != (site < 2) ||
                cell(st, row, span_col_self) != (site == 2 ? 7 : 1) ||
                (row && ts < cell(st, row - 1, span_col_ts)))
                fail();
        }
        store_free(st);
    }
}

/* References and columns that few spans have follow their span. */
static void test_references(void **state)
{
    enum { N = 500 };

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct store *st = make(3, 0, N);
        uint32_t src[N], dst[N];
        size_t dropped = 0, kept = 0;

        rng_state = seed;
        for (uint32_t i = 0; i < N; i++) {
            struct span_row row = { rng(1000), rng(100), i % 3, i, i % 5 ? OPM_NULL_I64 : i, 0 };
            uint32_t id;

            if (seed % 4 == 0) { /* in order already */
                row.ts_ns = i;
                row.dur_ns = 1;
            }
            row.args = i % 7 ? 0 : i + 1;
            assert_int_equal(store_add_span(st, &row, &id), 0);
            assert_int_equal(id, i);
        }
        for (uint32_t i = 0; i < N; i++) {
            uint32_t s = rng(N + 3), d = rng(N + 3);
            bool ok = s < N && d < N;

            assert_int_equal(store_add(st, TABLE_flow,
                                       (struct cell[]){ cell_id(s), cell_id(d == N ? NONE : d),
                                                        cell_str(i + 1) },
                                       NULL),
                             0);
            src[kept] = s;
            dst[kept] = d;
            kept += ok;
            dropped += !ok;
        }
        assert_int_equal(store_finish(st), 0);
        assert_int_equal(stat_count(st, "flow_without_span"), dropped);
        assert_int_equal(store_nrow(st, TABLE_flow), kept);
        for (size_t i = 0; i < kept; i++) {
            size_t s = (size_t)store_cell(st, TABLE_flow, i, flow_col_src).i64;
            size_t d = (size_t)store_cell(st, TABLE_flow, i, flow_col_dst).i64;

            assert_int_equal(store_span_site(st)[s], src[i]);
            assert_int_equal(store_span_site(st)[d], dst[i]);
        }
        for (size_t i = 0; i < N; i++) {
            uint32_t site = store_span_site(st)[i];

            assert_int_equal(cell(st, i, span_col_correlation), site % 5 ? NIL : (int64_t)site);
            assert_int_equal(store_cell(st, TABLE_span, i, span_col_args).str & 0xffff,
                             site % 7 ? 0 : site + 1);
        }
        store_free(st);
    }
}

static void test_other_tables(void **state)
{
    static const int64_t ts[] = { 500, 300, 900, 300, 700 };
    static const int64_t sorted[] = { 0, 0, 200, 400, 600 };
    struct store *st = make(1, 0, 1);

    (void)state;
    assert_int_equal(store_meta(st, "trace.start_ns", "1000000"), 0);
    for (size_t i = 0; i < ARRAY_SIZE(ts); i++) {
        struct cell step[step_col_COUNT] = { [step_col_num] = cell_i64((int64_t)i),
                                             [step_col_ts] = cell_i64(ts[i]),
                                             [step_col_dur] = cell_i64(i == 4 ? -5 : 10) };
        struct cell record[record_col_COUNT] = {
            [record_col_ts] = cell_i64(ts[i]), [record_col_dur] = cell_i64((int64_t)i)
        };
        struct cell sample[sample_col_COUNT] = {
            [sample_col_ts] = cell_i64(ts[i]), [sample_col_value] = cell_f64((double)i)
        };

        assert_int_equal(store_add(st, TABLE_step, step, NULL), 0);
        assert_int_equal(store_add(st, TABLE_record, record, NULL), 0);
        assert_int_equal(store_add(st, TABLE_sample, sample, NULL), 0);
    }
    assert_int_equal(store_add_span(st, &(struct span_row){ 800, 1, 0, 0, OPM_NULL_I64, 0 }, NULL),
                     0);
    assert_int_equal(store_finish(st), 0);
    assert_string_equal(store_meta_get(st, "trace.start_ns"), "1000300");
    assert_int_equal(cell(st, 0, span_col_ts), 500);
    for (size_t i = 0; i < ARRAY_SIZE(ts); i++) {
        static const int64_t stable[] = { 1, 3, 0, 4, 2 }, longest_first[] = { 3, 1, 0, 4, 2 };

        assert_int_equal(store_cell(st, TABLE_step, i, step_col_ts).i64, sorted[i]);
        assert_int_equal(store_cell(st, TABLE_step, i, step_col_num).i64, stable[i]);
        assert_int_equal(store_cell(st, TABLE_step, i, step_col_dur).i64, i == 3 ? 0 : 10);
        assert_int_equal(store_cell(st, TABLE_record, i, record_col_ts).i64, sorted[i]);
        assert_int_equal(store_cell(st, TABLE_record, i, record_col_dur).i64, longest_first[i]);
        assert_int_equal(store_cell(st, TABLE_sample, i, sample_col_ts).i64, sorted[i]);
        assert_true(store_cell(st, TABLE_sample, i, sample_col_value).f64 == (double)stable[i]);
    }
    assert_int_equal(stat_count(st, "negative_duration"), 1);
    store_free(st);
}

/* Times that no clock shows must not overflow anything. */
static void test_extreme_times(void **state)
{
    static const int64_t times[] = { INT64_MIN, INT64_MIN + 1,    -((int64_t)1 << 62), -1,       0,
                                     1,         (int64_t)1 << 62, INT64_MAX - 1,       INT64_MAX };
    struct store *st = make(2, 2, 1);
    int64_t last = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(times); i++)
        for (size_t k = 0; k < ARRAY_SIZE(times); k++)
            for (uint32_t track = 0; track < 2; track++)
                assert_int_equal(store_add_span(st,
                                                &(struct span_row){ times[i], times[k], track, 0,
                                                                    OPM_NULL_I64, 0 },
                                                NULL),
                                 0);
    for (size_t i = 0; i < ARRAY_SIZE(times); i++)
        assert_int_equal(
            store_add(st, TABLE_step,
                      (struct cell[step_col_COUNT]){ [step_col_ts] = { CELL_I64, { times[i] } },
                                                     [step_col_dur] = { CELL_I64, { times[i] } } },
                      NULL),
            0);
    assert_int_equal(store_finish(st), 0);
    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        int64_t ts = cell(st, i, span_col_ts), dur = cell(st, i, span_col_dur), sum;

        assert_true(ts >= last && dur >= -1);
        assert_false(__builtin_add_overflow(ts, dur, &sum));
        last = ts;
        cell(st, i, span_col_self);
        cell(st, i, span_col_step);
    }
    store_free(st);
}

/* Deeper than a byte can count. */
static void test_deep(void **state)
{
    enum { N = 1000 };

    (void)state;
    for (int order = 0; order < 2; order++) {
        struct store *st = make(1, 0, 1);

        for (int64_t i = 0; i < N; i++) {
            int64_t k = order ? i : N - 1 - i;
            struct span_row row = { k, 2 * (N - k), 0, 0, OPM_NULL_I64, 0 };

            assert_int_equal(store_add_span(st, &row, NULL), 0);
        }
        assert_int_equal(store_finish(st), 0);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(cell(st, i, span_col_depth), i);
            assert_int_equal(cell(st, i, span_col_self), 2);
            assert_int_equal(cell(st, i, span_col_parent), i ? (int64_t)i - 1 : NIL);
        }
        store_free(st);
    }
}

/* One of everything, so that each allocation of store_finish() and of the derived columns fails
 * once. */
static int finish_all(void)
{
    struct store *st = NULL;
    struct span_block b;
    uint32_t site = 0;
    str_id name = 0;
    const void *p;
    int rc = store_new(&st);

    if (!rc)
        rc = store_cstr(st, "hardware", &name);
    for (uint32_t i = 0; i < 4 && !rc; i++)
        rc = store_add(st, TABLE_track, (struct cell[track_col_COUNT]){ [2] = cell_str(name) },
                       NULL);
    if (!rc)
        rc = store_site(st, &(struct site){ .layer = name, .op = 0 }, &site);
    for (int64_t i = 0; i < 60 && !rc; i++) { /* out of order and overlapping */
        struct span_row row = { (i * 37) % 60, 7, (uint32_t)i % 2, site, i, name };

        rc = store_add_span(st, &row, NULL);
        if (!rc)
            rc = store_add(st, TABLE_step,
                           (struct cell[step_col_COUNT]){ [step_col_ts] = cell_i64(60 - i) }, NULL);
        if (!rc)
            rc = store_add(st, TABLE_flow, (struct cell[3]){ cell_id(0), cell_id(0) }, NULL);
        if (!rc)
            rc = store_add(st, TABLE_record,
                           (struct cell[record_col_COUNT]){
                               [record_col_ts] = cell_i64(i), [record_col_dur] = cell_i64(5) },
                           NULL);
    }
    for (uint32_t track = 2; track < 4 && !rc; track++) { /* recorded */
        rc = store_add_span_block(st, track, 40, &b);
        for (int64_t i = 0; i < 40 && !rc; i++) {
            b.ts[i] = 40 - i;
            b.dur[i] = 2 * i + 1;
            b.site[i] = site;
        }
    }
    if (!rc)
        rc = store_finish(st);
    for (int col = 0; col < span_col_COUNT && !rc; col++)
        rc = store_column(st, TABLE_span, col, &p);
    store_free(st);
    return rc;
}

static void test_failure(void **state)
{
    (void)state;
    unit_fail_each(finish_all);
}

/* The whole group again with two threads, however few spans there are. */
static int with_threads(void **state)
{
    (void)state;
    store_parallel_from = 0;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),         cmocka_unit_test(test_sibling_tracks),
        cmocka_unit_test(test_random_nested), cmocka_unit_test(test_random_coarse),
        cmocka_unit_test(test_random_dirty),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_many_tracks),   cmocka_unit_test(test_references),
        cmocka_unit_test(test_other_tables),  cmocka_unit_test(test_extreme_times),
        cmocka_unit_test(test_deep),          cmocka_unit_test(test_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) +
           cmocka_run_group_tests_name("with two threads", tests, with_threads, NULL);
}
