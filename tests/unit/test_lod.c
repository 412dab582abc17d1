/* test_lod.c -- bars of a timeline against the spans that they stand for. */
#include "base/alloc.h"
#include "base/error.h"
#include "store/found.h"
#include "store_unit.h"

#include <math.h>

static void add_named(struct store *st, uint32_t track, const char *name, int64_t ts, int64_t dur)
{
    struct span_row row = SPAN_ROW_INIT;
    struct site site = { .op = NONE };

    row.ts_ns = ts;
    row.dur_ns = dur;
    row.track = track;
    assert_int_equal(store_cstr(st, name, &site.name), 0);
    assert_int_equal(store_site(st, &site, &row.site), 0);
    assert_int_equal(store_add_span(st, &row, &(uint32_t){ 0 }), 0);
}

static void add(struct store *st, uint32_t track, int64_t ts, int64_t dur)
{
    add_named(st, track, NULL, ts, dur);
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

        assert_int_equal(lod_new(st, NULL, &l), 0);
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
    assert_int_equal(lod_new(st, NULL, &l), 0);
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

/* The busy time of a bar is that of its spans; its name has half of it, and whoever has three
 * quarters is named. */
static void busy_and_named(void **state)
{
    static const char *const names[] = { "a", "b", "c" };

    (void)state;
    rng_state = 99;
    for (int round = 0; round < 40; round++) {
        struct store *st = make(1, 0, 0);
        int64_t now = 0, most = 1 + (int64_t)rng(20);
        struct lod_bar *bar;
        struct lod *l;
        size_t n;

        for (int i = 0; i < 5000; i++) {
            int64_t dur = 1 + (int64_t)rng(300);

            add_named(st, 0, names[rng((uint32_t)most) ? 0 : rng(3)], now, dur);
            now += dur + 1 + (int64_t)rng(200);
        }
        assert_int_equal(store_finish(st), 0);
        assert_int_equal(lod_new(st, NULL, &l), 0);
        assert_int_equal(lod_query(l, 0, 0, now + 1, 1000 << rng(8), 10000, &bar, &n), 0);
        for (size_t i = 0, row = 0; i < n; i++) {
            int64_t busy = 0, of[3] = { 0 }, best = 0, all = bar[i].count;

            for (uint32_t k = 0; k < bar[i].count; k++, row++) {
                const char *name =
                    store_text(st, store_cell(st, TABLE_span, row, span_col_name).str);
                int64_t dur = cell(st, row, span_col_dur);

                busy += dur;
                of[name[0] - 'a'] += dur + 1;
            }
            all += busy;
            assert_int_equal(bar[i].busy_ns, busy);
            for (int k = 0; k < 3; k++)
                best = MAX(best, of[k]);
            if (bar[i].named)
                assert_true(2 * of[store_text(st, bar[i].name)[0] - 'a'] >= all - 1);
            else
                assert_true(4 * best < 3 * all + 4);
        }
        mem_free(bar);
        lod_free(l);
        store_free(st);
    }
}

/* A search counts and shows every span whose name holds the text, however narrow it is. */
static void found_spans(void **state)
{
    struct store *st = make(2, 2, 0);
    struct lod_bar *bar;
    struct found *f;
    size_t n, count = 0, total = 0;

    (void)state;
    rng_state = 5;
    for (int64_t i = 0; i < 20000; i++) {
        bool hit = rng(7) == 0;

        add_named(st, 0, hit ? "MatMul_x" : "other", i * 100, 60);
        add_named(st, 1, rng(2) ? "beside" : "", i * 100, 250);
        count += hit;
        total += hit ? 60 : 0;
    }
    add_named(st, 1, "the matmul", 7, -1);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(found_new(st, "mATmul", &f), 0);
    assert_int_equal(f->n, count + 1);
    assert_int_equal(f->total_ns, total);
    for (size_t i = 1; i < f->n; i++)
        assert_true(f->span[i] > f->span[i - 1]);
    for (int64_t pixel = 1; pixel < 5000000; pixel *= 9) {
        size_t spans = 0;

        assert_int_equal(lod_query(f->lod, 0, 0, INT64_MAX, pixel, 100000, &bar, &n), 0);
        for (size_t i = 0; i < n; i++)
            spans += bar[i].count;
        assert_int_equal(spans, count);
        mem_free(bar);
    }
    /* Lines are those that the spans have among all others: three of 250 overlap all the time. */
    assert_int_equal(lod_query(f->lod, 1, 0, 100, 1, 10, &bar, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(bar[0].depth, 1);
    mem_free(bar);
    found_free(f);
    assert_int_equal(found_new(st, "", &f), 0);
    assert_int_equal(f->n, 0);
    found_free(f);
    assert_int_equal(found_new(st, "matmul_xy", &f), 0);
    assert_int_equal(f->n, 0);
    found_free(f);
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
    assert_int_equal(lod_new(st, NULL, &l), 0);
    assert_int_equal(lod_query(l, 0, 0, 100, 1, 10, &bar, &n), 0);
    assert_int_equal(n, 0);
    lod_free(l);
    store_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_all_spans), cmocka_unit_test(few_bars),
        cmocka_unit_test(busy_and_named),    cmocka_unit_test(found_spans),
        cmocka_unit_test(nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
