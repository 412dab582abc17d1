/* test_sketch.c -- quantiles from sketches against sorted values, merging, bytes that are none. */
#include "unit.h"

#include "base/digest.h"
#include "base/sketch.h"

#include <math.h>

#define N 10000

static uint64_t random_state = 1;

static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void assert_near(double got, double want)
{
    assert_true(fabs(got - want) <= SKETCH_ERROR * want * (1 + 1e-9));
}

static void test_error(void **state)
{
    static double v[N];
    struct sketch s = { 0 };

    (void)state;
    for (int i = 0; i < N; i++) {
        v[i] = exp(uniform() * 30); /* ns to hours */
        assert_int_equal(sketch_add(&s, v[i]), 0);
    }
    qsort(v, N, sizeof(*v), by_value);
    for (int q = 0; q <= 100; q++)
        assert_near(sketch_quantile(&s, q / 100.0), v[(int)floor(q / 100.0 * (N - 1))]);
    assert_int_equal(s.count, N);
    sketch_release(&s);
}

static void test_merge(void **state)
{
    struct sketch part[3] = { { 0 } }, whole = { 0 }, merged = { 0 };
    struct buf a = { 0 }, b = { 0 };

    (void)state;
    for (int i = 0; i < 3000; i++) {
        double v = exp(uniform() * 10);

        assert_int_equal(sketch_add(&part[i % 3], v), 0);
        assert_int_equal(sketch_add(&whole, v), 0);
    }
    for (int i = 2; i >= 0; i--)
        assert_int_equal(sketch_merge(&merged, &part[i]), 0);
    sketch_write(&whole, &a);
    sketch_write(&merged, &b);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    assert_int_equal(sketch_read(&part[0], a.data, a.len), 0);
    assert_true(sketch_quantile(&part[0], 0.9) == sketch_quantile(&whole, 0.9));
    for (int i = 0; i < 3; i++)
        sketch_release(&part[i]);
    sketch_release(&whole);
    sketch_release(&merged);
    buf_release(&a);
    buf_release(&b);
}

static void test_edges(void **state)
{
    static const unsigned char bad[][12] = {
        { 0 },                      /* another form */
        { 1, 5 },                   /* no count */
        { 1, 5, 0 },                /* a count of 0 */
        { 1, 5, 1, 0, 1 },          /* the same bucket twice */
        { 1, 0xff, 0xff, 0x7f, 1 }, /* beyond the last bucket */
        { 1, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 },
    };
    static const size_t len[] = { 1, 2, 3, 5, 5, 12 };
    struct sketch s = { 0 };

    (void)state;
    assert_true(isnan(sketch_quantile(&s, 0.5)));
    assert_int_equal(sketch_read(&s, "", 0), OPM_EFORMAT);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(sketch_read(&s, bad[i], len[i]), OPM_EFORMAT);
    assert_int_equal(sketch_read(&s, "\1", 1), 0);
    assert_int_equal(sketch_add(&s, (double)NAN), 0);
    assert_int_equal(s.count, 0);
    assert_int_equal(sketch_add(&s, -5), 0);
    assert_int_equal(sketch_add(&s, INFINITY), 0);
    assert_true(sketch_quantile(&s, 0) == 0);
    assert_true(sketch_quantile(&s, 1) > 1e18);
    sketch_release(&s);
}

static void test_digest(void **state)
{
    char text[1000], one[DIGEST_ROOM], other[DIGEST_ROOM];
    struct digest whole = DIGEST_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 7);
    digest_add(&whole, text, sizeof(text));
    digest_text(&whole, one);
    for (size_t piece = 1; piece < 30; piece++) {
        struct digest d = DIGEST_INIT;

        for (size_t at = 0; at < sizeof(text); at += piece)
            digest_add(&d, text + at, MIN(piece, sizeof(text) - at));
        digest_text(&d, other);
        assert_string_equal(one, other);
    }
    for (size_t i = 0; i < sizeof(text); i++) { /* every bit of it counts */
        struct digest d = DIGEST_INIT;

        text[i] ^= 1 << (i % 8);
        digest_add(&d, text, sizeof(text));
        digest_text(&d, other);
        assert_string_not_equal(one, other);
        text[i] ^= 1 << (i % 8);
    }
    digest_add(&whole, "", 1); /* and its length */
    digest_text(&whole, other);
    assert_string_not_equal(one, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_digest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
