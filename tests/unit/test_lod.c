/* test_lod.c -- bars of a timeline against the spans that they stand for. */
#include "base/alloc.h"
#include "base/error.h"
#include "store/lod.h"
#include "store_unit.h"

#include <math.h>

static void add(struct store *st, uint32_t track, int64_t ts, int64_t dur)
{
    struct span_row row = SPAN_ROW_INIT;

    row.ts_ns = ts;
    row.dur_ns = dur;
    row.track = track;
    assert_int_equal(store_site(st, &(struct site){ .op = NONE }, &row.site), 0);
    assert_int_equal(store_add_span(st, &row, &(uint32_t){ 0 }), 0);
}

/* A track with nested spans of all sizes, and an asynchronous one on which they overlap. */
static struct store *random_store(uint32_t n, int64_t *length)
{
    struct store *st = make(2, 2, 0);
    int64_t now = 0;

    for (uint32_t i = 0; i < n; i++) {
        int64_t dur = 1 + (int64_t)rng(1u << rng(16));

        now += rng(4) ? 0 : (int64_t)rng(1u << rng(18));
        add(st, 0, now, dur);
        if (dur > 4)
            add(st, 0, now + 1, (dur - 2) / 2);
        if (rng(3) == 0)
            add(st, 1, now, (int64_t)rng(5000));
        now += dur;
    }
    assert_int_equal(store_finish(st), 0);
    *length = now;
    return st;
}

/* How many spans of the track touch the window. */
static size_t touching(const struct store *st, uint32_t track, int64_t from, int64_t to)
{
    size_t n = 0;

    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        int64_t ts = cell(st, i, span_col_ts), end = ts + cell(st, i, span_col_dur);

        n += cell(st, i, span_col_track) == track && ts < to &&
             (end > from || (ts == end && ts == from));
    }
    return n;
}

static void check(const struct store *st, struct lod *l, uint32_t track, int64_t from, int64_t to,
                  int64_t pixel)
{
    struct lod_bar *bar;
    size_t n, spans = 0, singles = 0;

    assert_int_equal(lod_query(l, track, from, to, pixel, 1000000, &bar, &n), 0);
    for (size_t i = 0; i < n; i++) {
        int64_t ts = cell(st, bar[i].span, span_col_ts);
        int64_t dur = cell(st, bar[i].span, span_col_dur);

        assert_int_equal(cell(st, bar[i].span, span_col_track), track);
        assert_true(ts >= bar[i].ts_ns && ts + dur <= bar[i].ts_ns + bar[i].dur_ns);
        assert_true(bar[i].ts_ns < to && bar[i].ts_ns + bar[i].dur_ns >= from);
        if (bar[i].count == 1) {
            singles++;
            assert_int_equal(bar[i].ts_ns, ts);
            assert_int_equal(bar[i].dur_ns, dur);
        } else {
            assert_true(dur < pixel); /* the longest of them is narrow */
        }
        if (track == 0)
            assert_int_equal(bar[i].depth, cell(st, bar[i].span, span_col_depth));
        if (i && bar[i].depth == bar[i - 1].depth)
            assert_true(bar[i - 1].ts_ns + bar[i - 1].dur_ns <= bar[i].ts_ns);
        spans += bar[i].count;
    }
    /* Every span in the window is in a bar; a bar may reach beyond the window, though. */
    assert_true(spans >= touching(st, track, from, to));
    if (pixel <= 1) {
        assert_int_equal(singles, n);
        assert_int_equal(n, touching(st, track, from, to));
    }
    mem_free(bar);
}

static void against_all_spans(void **state)
{
    (void)state;
    rng_state = 4711;
    for (int round = 0; round < 12; round++) {
        int64_t length;
        struct store *st = random_store(round < 6 ? 50 : 6000, &length);
        struct lod *l;

        assert_int_equal(lod_new(st, &l), 0);
        for (int i = 0; i < 30; i++) {
            int64_t from = (int64_t)rng((uint32_t)length),
                    to = from + 1 + (int64_t)rng((uint32_t)length);
            int64_t pixel = (int64_t)1 << rng(24);

            check(st, l, rng(2), i ? from : 0, i ? to : length, i % 5 ? pixel : 1);
        }
        lod_free(l);
        store_free(st);
    }
}

/* A picture of the whole has few bars, however many spans there are. */
static void few_bars(void **state)
{
    struct store *st = make(1, 0, 0);
    struct lod *l;
    struct lod_bar *bar;
    size_t n;

    (void)state;
    for (int64_t i = 0; i < 200000; i++)
        add(st, 0, i * 100 + (i / 1000) * 50000, 90);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(lod_new(st, &l), 0);
    assert_int_equal(lod_query(l, 0, 0, 200000 * 150, 200000 * 150 / 1000, 100000, &bar, &n), 0);
    assert_true(n > 100 && n <= 1001);
    mem_free(bar);
    assert_int_equal(lod_query(l, 0, 0, 200000 * 150, 1, 1000, &bar, &n), OPM_ELIMIT);
    assert_int_equal(lod_query(l, 0, 5000, 5100, 1, 1000, &bar, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(bar[0].count, 1);
    assert_int_equal(bar[0].ts_ns, 5000);
    mem_free(bar);
    assert_int_equal(lod_query(l, 77, 0, 100, 1, 1000, &bar, &n), 0);
    assert_int_equal(n, 0);
    lod_free(l);
    store_free(st);
}

static void nothing(void **state)
{
    struct store *st = make(1, 0, 0);
    struct lod_bar *bar;
    struct lod *l;
    size_t n;

    (void)state;
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(lod_new(st, &l), 0);
    assert_int_equal(lod_query(l, 0, 0, 100, 1, 10, &bar, &n), 0);
    assert_int_equal(n, 0);
    lod_free(l);
    store_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_all_spans),
        cmocka_unit_test(few_bars),
        cmocka_unit_test(nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
