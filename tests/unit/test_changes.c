/* test_changes.c -- change points of series with planted truth. bench/changes.c counts how often it
 * is right on thousands of them; here are those that must be. */
#include "unit.h"

#include "compare/changes.h"

#include <math.h>

#define N 60

static uint64_t random_state;

static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* 10 ms with 1 % of noise, and a control of 1 ms with 0.4 %. */
static void make(double *v, double *c, uint64_t seed)
{
    random_state = seed;
    for (int i = 0; i < N; i++) {
        v[i] = 1e7 * exp(0.01 * normal());
        c[i] = 1e6 * exp(0.004 * normal());
    }
}

static void scale(double *v, int from, int to, double by)
{
    for (int i = from; i < to; i++)
        v[i] *= by;
}

static struct changes find(const double *v, const double *c)
{
    struct changes_options o = CHANGES_OPTIONS_INIT;
    struct changes found;

    assert_int_equal(changes_find(v, c, N, &o, &found), 0);
    return found;
}

static void test_step(void **state)
{
    double v[N], c[N];
    struct changes found;

    (void)state;
    make(v, c, 1);
    scale(v, 40, N, 1.10);
    found = find(v, c);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.change[0].kind, CHANGE_CODE);
    assert_int_equal(found.change[0].at, 40);
    assert_true(fabs(found.change[0].size - 0.10) < 0.01);
    assert_true(found.change[0].low < 0.10 && 0.10 < found.change[0].high);
    assert_true(found.change[0].high - found.change[0].low < 0.03);
    assert_true(fabs(found.change[0].before / 1e7 - 1) < 0.01);
    assert_true(fabs(found.change[0].after / 1.1e7 - 1) < 0.01);
    assert_true(found.noise > 0.005 && found.noise < 0.015);
    mem_free(found.change);
}

/* Up and soon down again: the halves of the series have the same level. */
static void test_bump(void **state)
{
    double v[N], c[N];
    struct changes found;

    (void)state;
    make(v, c, 2);
    scale(v, 25, 35, 1.08);
    found = find(v, c);
    assert_int_equal(found.n, 2);
    assert_int_equal(found.change[0].at, 25);
    assert_int_equal(found.change[1].at, 35);
    assert_true(found.change[0].size > 0 && found.change[1].size < 0);
    mem_free(found.change);
}

static void test_outliers(void **state)
{
    double v[N], c[N];
    struct changes found;

    (void)state;
    make(v, c, 3);
    scale(v, 10, 11, 2);
    scale(v, 30, 32, 1.5);
    scale(v, N - 1, N, 3);
    found = find(v, c);
    assert_int_equal(found.n, 0);
    mem_free(found.change);
}

static void test_drift(void **state)
{
    double v[N], c[N];
    struct changes found;

    (void)state;
    make(v, c, 4);
    for (int i = 0; i < N; i++)
        v[i] *= exp(0.15 * i / N);
    found = find(v, c);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.change[0].kind, CHANGE_DRIFT);
    assert_true(fabs(found.change[0].size - expm1(0.15)) < 0.03);
    mem_free(found.change);
}

/* The machine is slower for a while, and what is measured with it; the code is at 45. */
static void test_machine(void **state)
{
    double v[N], c[N];
    struct changes found;

    (void)state;
    make(v, c, 5);
    scale(v, 15, 30, 1.2);
    scale(c, 15, 30, 1.2);
    scale(v, 45, N, 0.9);
    found = find(v, c);
    assert_int_equal(found.n, 3);
    assert_int_equal(found.change[0].kind, CHANGE_MACHINE);
    assert_int_equal(found.change[0].at, 15);
    assert_true(fabs(found.change[0].size - 0.2) < 0.015);
    assert_int_equal(found.change[1].kind, CHANGE_MACHINE);
    assert_int_equal(found.change[1].at, 30);
    assert_int_equal(found.change[2].kind, CHANGE_CODE);
    assert_int_equal(found.change[2].at, 45);
    assert_true(fabs(found.change[2].size + 0.1) < 0.01);
    mem_free(found.change);
}

/* A machine that got slower while the code got slower by more is not all of it. */
static void test_both_at_once(void **state)
{
    double v[N], c[N];
    struct changes found;

    (void)state;
    make(v, c, 6);
    scale(v, 30, N, 1.1 * 1.2);
    scale(c, 30, N, 1.1);
    found = find(v, c);
    assert_int_equal(found.n, 2);
    assert_int_equal(found.change[0].kind, CHANGE_CODE);
    assert_true(fabs(found.change[0].size - 0.2) < 0.02);
    assert_int_equal(found.change[1].kind, CHANGE_MACHINE);
    mem_free(found.change);
}

/* Where nothing changed, at most a few of a hundred have an alarm. */
static void test_alarms(void **state)
{
    int alarms = 0;

    (void)state;
    for (uint64_t seed = 100; seed < 200; seed++) {
        double v[N], c[N];
        struct changes found;

        make(v, c, seed);
        found = find(v, c);
        alarms += found.n > 0;
        mem_free(found.change);
    }
    assert_true(alarms <= 3);
}

/* Absurd ones: too short, gaps, all the same, values that are none. */
static void test_absurd(void **state)
{
    struct changes_options o = CHANGES_OPTIONS_INIT;
    double v[N], c[N];
    struct changes found;

    (void)state;
    make(v, c, 7);
    for (size_t n = 0; n < 10; n++) {
        assert_int_equal(changes_find(v, NULL, n, &o, &found), 0);
        assert_int_equal(found.n, 0);
        mem_free(found.change);
    }
    for (int i = 0; i < N; i++)
        v[i] = i < 30 ? 1000 : 1100; /* no noise at all */
    v[5] = NAN;
    v[6] = 0;
    v[7] = -1;
    v[8] = INFINITY;
    c[3] = NAN;
    found = find(v, c);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.change[0].at, 30);
    assert_true(fabs(found.change[0].size - 0.1) < 1e-9);
    mem_free(found.change);
    for (int i = 0; i < N; i++)
        v[i] = 1000;
    found = find(v, c);
    assert_int_equal(found.n, 0);
    mem_free(found.change);
}

/* Two samples whose shift is plain; the normal approximation of Mann and Whitney's test for 8 and
 * 8 that do not overlap: z = (32 - 0.5) / sqrt(8 * 8 * 17 / 12) = 3.308, p = 0.00094. */
static void test_shift(void **state)
{
    double a[8], b[8];
    struct shift s;

    (void)state;
    for (int i = 0; i < 8; i++) {
        a[i] = 100 + i;
        b[i] = 2 * a[i];
    }
    assert_true(shift_of(a, 8, b, 8, 1, &s));
    assert_true(fabs(s.size - 1) < 1e-12);
    assert_true(s.low < 1 && 1 < s.high);
    assert_true(fabs(s.p - 0.00094) < 0.00001);
    assert_false(shift_of(a, 1, b, 8, 1, &s));
}

static int find_once(void)
{
    struct changes_options o = CHANGES_OPTIONS_INIT;
    double v[N], c[N];
    struct changes found;
    int rc;

    make(v, c, 8);
    scale(v, 30, N, 1.3);
    scale(c, 15, N, 1.3);
    rc = changes_find(v, c, N, &o, &found);
    mem_free(found.change);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(find_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),     cmocka_unit_test(test_bump),
        cmocka_unit_test(test_outliers), cmocka_unit_test(test_drift),
        cmocka_unit_test(test_machine),  cmocka_unit_test(test_both_at_once),
        cmocka_unit_test(test_alarms),   cmocka_unit_test(test_absurd),
        cmocka_unit_test(test_shift),    cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
