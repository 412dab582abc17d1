/* test_counters.c -- points of a chart against the samples that they stand for. */
#include "base/alloc.h"
#include "store/counters.h"
#include "store_unit.h"

#include <math.h>

static void add_sample(struct store *st, uint32_t track, int64_t ts, double value)
{
    struct cell c[sample_col_COUNT] = { 0 };

    c[sample_col_ts] = cell_i64(ts);
    c[sample_col_track] = cell_id(track);
    c[sample_col_value] = cell_f64(value);
    assert_int_equal(store_add(st, TABLE_sample, c, NULL), 0);
}

static struct store *random_store(size_t n)
{
    struct store *st = make(3, 1, 0);
    int64_t now = 0;

    for (size_t i = 0; i < n; i++) {
        add_sample(st, rng(2), now, rng(100) ? rng(1000) : NAN);
        now += rng(4) ? (int64_t)rng(20) : (int64_t)rng(3000);
    }
    assert_int_equal(store_finish(st), 0);
    return st;
}

/* Lowest and highest value of a track within [from, to). */
static void extremes(const struct store *st, uint32_t track, int64_t from, int64_t to, double *low,
                     double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < store_nrow(st, TABLE_sample); i++) {
        int64_t ts = store_cell(st, TABLE_sample, i, sample_col_ts).i64;
        double v = store_cell(st, TABLE_sample, i, sample_col_value).f64;

        if ((uint32_t)store_cell(st, TABLE_sample, i, sample_col_track).i64 == track &&
            ts >= from && ts < to) {
            *low = fmin(*low, v);
            *high = fmax(*high, v);
        }
    }
}

static void check(const struct store *st, const struct counters *c, uint32_t track, int64_t from,
                  int64_t to, int64_t pixel)
{
    struct counter_point *p;
    size_t n, first;
    double low, high, all_low = INFINITY, all_high = -INFINITY;

    assert_int_equal(counters_query(c, track, from, to, pixel, SIZE_MAX, &p, &n), 0);
    assert_true(n <= 4 * (size_t)((to - from) / pixel + 2));
    for (size_t i = 1; i < n; i++)
        assert_true(p[i].ts_ns >= p[i - 1].ts_ns);
    for (size_t i = 1; i < n; i++)
        assert_true(p[i].ts_ns > from && p[i].ts_ns < to);
    first = n && p[0].ts_ns <= from;
    for (size_t i = first; i < n; i++) {
        all_low = fmin(all_low, p[i].value);
        all_high = fmax(all_high, p[i].value);
    }
    extremes(st, track, from + 1, to, &low, &high);
    assert_true(low == all_low && high == all_high);
    mem_free(p);
}

/* Every pixel has the lowest and the highest of its own samples. */
static void check_pixels(const struct store *st, const struct counters *c, uint32_t track,
                         int64_t from, int64_t pixel, int n_pixel)
{
    struct counter_point *p;
    size_t n, at = 0;
    double low, high;

    assert_int_equal(
        counters_query(c, track, from, from + n_pixel * pixel, pixel, SIZE_MAX, &p, &n), 0);
    at = n && p[0].ts_ns <= from;
    for (int i = 0; i < n_pixel; i++) {
        int64_t start = from + i * pixel;
        double seen_low = INFINITY, seen_high = -INFINITY;

        for (; at < n && p[at].ts_ns < start + pixel; at++) {
            seen_low = fmin(seen_low, p[at].value);
            seen_high = fmax(seen_high, p[at].value);
        }
        extremes(st, track, MAX(start, from + 1), start + pixel, &low, &high);
        assert_true(low == seen_low && high == seen_high);
    }
    assert_int_equal(at, n);
    mem_free(p);
}

static void test_against_samples(void **state)
{
    struct store *st = random_store(5000);
    struct counters *c;

    (void)state;
    assert_int_equal(counters_new(st, &c), 0);
    for (int i = 0; i < 300; i++) {
        int64_t from = (int64_t)rng(2000000) - 1000, range = 1 + (int64_t)rng(1u << rng(22));

        check(st, c, rng(2), from, from + range, 1 + range / (1 + (int64_t)rng(200)));
    }
    for (int i = 0; i < 30; i++)
        check_pixels(st, c, rng(2), (int64_t)rng(500000) - 1000, 1 + rng(1u << rng(20)), 20);
    counters_free(c);
    store_free(st);
}

/* A square wave that is finer than a pixel keeps its height, and the value before is known. */
static void test_points(void **state)
{
    struct store *st = make(2, 1, 0);
    struct counter_point *p;
    struct counters *c;
    size_t n;

    (void)state;
    for (int i = 0; i < 100; i++)
        add_sample(st, 0, i * 10, i % 2 ? 7 : 3);
    assert_int_equal(store_finish(st), 0);
    assert_int_equal(counters_new(st, &c), 0);
    assert_int_equal(counters_query(c, 0, 15, 2000, 100000, 10, &p, &n), 0);
    assert_int_equal(n, 4); /* one before, first and lowest, highest, last and highest */
    assert_int_equal(p[0].ts_ns, 10);
    assert_true(p[0].value == 7 && p[1].value == 3 && p[2].value == 7);
    assert_int_equal(p[3].ts_ns, 990);
    mem_free(p);
    assert_int_equal(counters_query(c, 0, 15, 2000, 1, 10, &p, &n), OPM_ELIMIT);
    assert_int_equal(counters_query(c, 1, 0, 2000, 1, 10, &p, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(counters_query(c, 99, 0, 2000, 1, 10, &p, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(counters_query(c, 0, INT64_MIN, INT64_MAX, INT64_MAX, 10, &p, &n), 0);
    assert_true(n >= 3);
    mem_free(p);
    counters_free(c);
    store_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_samples),
        cmocka_unit_test(test_points),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
