/* test_trials.c -- what processes taken in turn tell: bounds of Student's t as tables print them,
 * planted changes, and how often chance alone is taken for a change. */
#include "unit.h"

#include "base/alloc.h"
#include "compare/discovery.h"
#include "compare/student.h"
#include "compare/tail.h"
#include "compare/trials.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void test_student(void **state)
{
    /* Two-sided 5 % and 1 % points, as statistical tables have them. */
    static const struct {
        double freedom, at_5, at_1;
    } table[] = { { 1, 12.706, 63.657 }, { 2, 4.303, 9.925 },  { 4, 2.776, 4.604 },
                  { 9, 2.262, 3.250 },   { 30, 2.042, 2.750 }, { 120, 1.980, 2.617 } };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        assert_true(fabs(student_bound(0.025, table[i].freedom) - table[i].at_5) < 0.0006);
        assert_true(fabs(student_bound(0.005, table[i].freedom) - table[i].at_1) < 0.0006);
        assert_true(fabs(student_above(-table[i].at_5, table[i].freedom) - 0.975) < 1e-4);
    }
    assert_true(fabs(normal_above(1.959964) - 0.025) < 1e-7);
    assert_true(fabs(student_above(0, 3) - 0.5) < 1e-12);
}

/* The fifteen tests of Benjamini and Hochberg's paper of 1995; at 1 % three of them count, the
 * third of which, 0.0019, is below 3 / 15 of 1 % just so. */
static void test_discovery(void **state)
{
    double p[] = { 0.0095, 0.0201, 0.0001, 0.0004, 0.0019, 0.0278, 0.0298, 0.0344,
                   0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000 };

    (void)state;
    assert_true(discovery_threshold(p, ARRAY_SIZE(p)) == 0.0019);
    assert_true(discovery_threshold(p + 3, ARRAY_SIZE(p) - 3) < 0);
    assert_true(discovery_threshold(p, 0) < 0);
}

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

enum { ITERATIONS = 15 };

/* A process of 1 ms iterations: its own luck, and that of each iteration. */
static void add_process(struct trials *t, size_t side, double factor, double process_sd,
                        double iteration_sd)
{
    double own = 1e6 * factor * exp(process_sd * normal());
    struct trial trial = { .n = ITERATIONS };

    trial.iteration_ns = mem_calloc(ITERATIONS, sizeof(double));
    for (int i = 0; i < ITERATIONS; i++)
        trial.iteration_ns[i] = own * exp(iteration_sd * normal());
    for (size_t op = 0; op < t->nops; op++)
        assert_int_equal(trial_add_op(&trial, op, 1000 * exp(process_sd * normal())), 0);
    assert_int_equal(trials_add(t, side, &trial), 0);
}

static void add_blocks(struct trials *t, int n, double factor, double process_sd)
{
    for (int i = 0; i < n * TRIALS_PER_BLOCK; i++) {
        add_process(t, 0, 1, process_sd, 0.05);
        add_process(t, 1, factor, process_sd, 0.05);
    }
}

static const struct trials_options options = { .min_effect = 0.01, .seed = 7, .draws = 1000 };

/* Exact figures: every process of B takes 1.031 times as long, and all of that in one operator. */
static void test_planted(void **state)
{
    struct trials t = { .nsides = 2 };
    struct trials_estimate *e;
    struct align a = { 0 };
    size_t n, conv, gemm, only;

    (void)state;
    assert_int_equal(trials_op(&t, &(struct trials_op){ .name = "conv1", .type = "Conv" }, &conv),
                     0);
    assert_int_equal(trials_op(&t, &(struct trials_op){ .name = "fc", .type = "Gemm" }, &gemm), 0);
    assert_int_equal(trials_op(&t, &(struct trials_op){ .name = "new", .type = "Relu" }, &only), 0);
    for (int i = 0; i < 12; i++) {
        for (size_t side = 0; side < 2; side++) {
            struct trial p = { .n = 3 };
            double drift = 1 + 0.1 * (i / 2); /* hits both sides of a block alike */

            p.iteration_ns = mem_calloc(3, sizeof(double));
            for (int k = 0; k < 3; k++)
                p.iteration_ns[k] = 1e6 * drift * (side ? 1.031 : 1);
            assert_int_equal(trial_add_op(&p, conv, drift * (side ? 531000 : 500000)), 0);
            assert_int_equal(trial_add_op(&p, gemm, drift * 500000), 0);
            if (side)
                assert_int_equal(trial_add_op(&p, only, 10), 0);
            assert_int_equal(trials_add(&t, side, &p), 0);
        }
    }
    assert_int_equal(trials_blocks(&t), 6);
    assert_int_equal(trials_compare(&t, 1, &options, &a, &e, &n), 0);
    assert_int_equal(n, 4);
    assert_true(e[0].op == TRIALS_WHOLE && fabs(e[0].change - 0.031) < 1e-9);
    assert_true(fabs(e[0].low - 0.031) < 1e-9 && fabs(e[0].high - 0.031) < 1e-9);
    assert_int_equal(e[0].verdict, TRIALS_SLOWER);
    assert_true(e[1].op == conv && fabs(e[1].change - 0.062) < 1e-9);
    assert_int_equal(e[1].verdict, TRIALS_SLOWER);
    assert_true(e[3].op == gemm && fabs(e[3].change) < 1e-12);
    assert_int_equal(e[3].verdict, TRIALS_SAME);
    assert_true(e[2].op == only && isnan(e[2].ns[0]) && isnan(e[2].change));
    assert_int_equal(e[2].verdict, TRIALS_ONE_SIDED);
    mem_free(e);
    align_release(&a);
    trials_release(&t);
}

/* What takes 10 ns takes 20 in all processes of the other side: it lay the other way on the ticks
 * of the clock, and nothing is slower. What is many ticks longer is. */
static void test_ticks(void **state)
{
    static const double ns[2][2] = { { 10, 4000 }, { 20, 4100 } };
    struct trials t = { .nsides = 2 };
    struct trials_estimate *e;
    struct align a = { 0 };
    size_t op[2], n;

    (void)state;
    assert_int_equal(trials_op(&t, &(struct trials_op){ .name = "reshape" }, &op[0]), 0);
    assert_int_equal(trials_op(&t, &(struct trials_op){ .name = "conv" }, &op[1]), 0);
    for (int i = 0; i < 12; i++) {
        for (size_t side = 0; side < 2; side++) {
            struct trial p = { .n = 1, .iteration_ns = mem_calloc(1, sizeof(double)) };

            p.iteration_ns[0] = 1e6;
            for (size_t k = 0; k < 2; k++)
                assert_int_equal(trial_add_op(&p, op[k], ns[side][k]), 0);
            assert_int_equal(trials_add(&t, side, &p), 0);
        }
    }
    assert_int_equal(trials_compare(&t, 1, &options, &a, &e, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(e[1].op, op[1]);
    assert_int_equal(e[1].verdict, TRIALS_SLOWER);
    assert_int_equal(e[2].verdict, TRIALS_UNSURE);
    mem_free(e);
    align_release(&a);
    trials_release(&t);
}

/* The whole is one question: many operators beside it take nothing away from what is known of it.
 */
static void test_whole_among_many(void **state)
{
    struct trials t = { .nsides = 2 };
    struct trials_estimate alone, *e;
    struct align a = { 0 };
    char name[16];
    size_t n, op;

    (void)state;
    random_state = 3;
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "op%d", i);
        assert_int_equal(trials_op(&t, &(struct trials_op){ .name = name }, &op), 0);
    }
    add_blocks(&t, 9, 1.05, 0.012);
    assert_true(trials_whole(&t, 1, &options, &alone));
    assert_int_equal(trials_compare(&t, 1, &options, &a, &e, &n), 0);
    assert_true(e[0].p > 0.01 / 201 && e[0].p < 0.005);
    assert_int_equal(e[0].verdict, TRIALS_SLOWER);
    assert_int_equal(alone.verdict, TRIALS_SLOWER);
    for (size_t i = 1; i < n; i++)
        assert_int_not_equal(e[i].verdict, TRIALS_SLOWER);
    mem_free(e);
    align_release(&a);
    trials_release(&t);
}

/* One block in which a neighbour took half of the machine from B does not make B slower. */
static void test_disturbed_block(void **state)
{
    struct trials t = { .nsides = 2 };
    struct trials_estimate e;

    (void)state;
    random_state = 5;
    add_blocks(&t, 9, 1, 0.002);
    for (int i = 0; i < TRIALS_PER_BLOCK; i++) {
        add_process(&t, 0, 1, 0.002, 0.05);
        add_process(&t, 1, 2, 0.002, 0.05);
    }
    assert_true(trials_whole(&t, 1, &options, &e));
    assert_true(fabs(e.change) < 0.02);
    assert_int_not_equal(e.verdict, TRIALS_SLOWER);
    trials_release(&t);
}

/* Most blocks agree on 15 % and some are wild: the trimmed test is certain, the interval is not,
 * and so is the verdict. */
static void test_wild_blocks(void **state)
{
    static const double by[] = { 0.850, 0.851, 0.849, 0.850, 0.852, 0.848, 0.850, 3, 4, 0.2, 0.3 };
    struct trials t = { .nsides = 2 };
    struct trials_estimate e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(by) * TRIALS_PER_BLOCK * 2; i++) {
        size_t side = i % 2;
        struct trial p = { .n = 1, .iteration_ns = mem_calloc(1, sizeof(double)) };

        p.iteration_ns[0] = side ? 1e6 * by[i / 2 / TRIALS_PER_BLOCK] : 1e6;
        assert_int_equal(trials_add(&t, side, &p), 0);
    }
    assert_true(trials_whole(&t, 1, &options, &e));
    assert_true(e.p < 0.01 && e.low < 0 && e.high > 0);
    assert_int_equal(e.verdict, TRIALS_UNSURE);
    trials_release(&t);
}

/* Intervals hold the truth about as often as they say: 95 of 100. */
static void test_coverage(void **state)
{
    enum { TIMES = 300 };
    int holds = 0;

    (void)state;
    random_state = 11;
    for (int i = 0; i < TIMES; i++) {
        struct trials t = { .nsides = 2 };
        struct trials_options o = options;
        struct trials_estimate e;

        o.seed = (uint64_t)i + 1;
        o.draws = 400;
        add_blocks(&t, 5 + i % 8, 1.05, 0.03);
        assert_true(trials_whole(&t, 1, &o, &e));
        holds += e.low <= 0.05 && e.high >= 0.05;
        trials_release(&t);
    }
    assert_in_range(holds, TIMES * 92 / 100, TIMES);
}

/* Nothing changed, processes differ by 3 %, 100 operators: an alarm anywhere is rarer than one in a
 * hundred. A change of 3 % of the whole, where processes differ by 1 %, is found. */
static void test_alarms(void **state)
{
    enum { TIMES = 200, OPERATORS = 100 };
    int alarms = 0, found = 0;

    (void)state;
    random_state = 13;
    for (int i = 0; i < TIMES; i++) {
        struct trials t = { .nsides = 2 }, slow = { .nsides = 2 };
        struct trials_options o = options;
        struct trials_estimate *e, whole;
        struct align a = { 0 };
        size_t n, op;
        bool alarm = false;

        o.seed = (uint64_t)i + 1;
        o.draws = 50; /* verdicts of slower and faster do not come from the draws */
        for (int k = 0; k < OPERATORS; k++) {
            char name[16];

            snprintf(name, sizeof(name), "op%d", k);
            assert_int_equal(
                trials_op(&t, &(struct trials_op){ .name = name, .type = "Conv" }, &op), 0);
        }
        add_blocks(&t, 5 + i % 10, 1, 0.03);
        assert_int_equal(trials_compare(&t, 1, &o, &a, &e, &n), 0);
        for (size_t k = 0; k < n; k++)
            alarm |= e[k].verdict == TRIALS_SLOWER || e[k].verdict == TRIALS_FASTER;
        alarms += alarm;
        mem_free(e);
        align_release(&a);
        trials_release(&t);
        add_blocks(&slow, 30, 1.03, 0.01);
        assert_true(trials_whole(&slow, 1, &o, &whole));
        found += whole.verdict == TRIALS_SLOWER;
        trials_release(&slow);
    }
    assert_in_range(alarms, 0, TIMES / 100);
    assert_in_range(found, TIMES * 95 / 100, TIMES);
}

/* -- recordings that were not taken in turn -- */

static const struct trials_options apart = {
    .min_effect = 0.01, .seed = 7, .draws = 400, .unpaired = true
};

/* Seven processes of A and five of B, whose logarithms are worked out by hand: without a fifth at
 * each end A's mean is 0 and B's 0.05. */
static void test_two_samples(void **state)
{
    static const double a[] = { -0.5, -0.02, -0.01, 0, 0.01, 0.02, 0.9 };
    static const double b[] = { 0.03, 0.04, 0.05, 0.06, 3 };
    struct trials t = { .nsides = 2 };
    struct trials_estimate e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(a) + ARRAY_SIZE(b); i++) {
        bool of_a = i < ARRAY_SIZE(a);
        struct trial p = { .n = 1, .iteration_ns = mem_calloc(1, sizeof(double)) };

        p.iteration_ns[0] = 1e6 * exp(of_a ? a[i] : b[i - ARRAY_SIZE(a)]);
        assert_int_equal(trials_add(&t, !of_a, &p), 0);
    }
    assert_true(trials_whole(&t, 1, &apart, &e));
    assert_int_equal(e.blocks, 5);
    assert_true(fabs(e.change - expm1(0.05)) < 1e-12);
    /* Drawn in: A -0.02 -0.02 -0.01 0 0.01 0.02 0.02, variance 1.8e-3 / 6, so that the error is
     * sqrt(3e-4 / 7) / (5 / 7); B 0.04 0.04 0.05 0.06 0.06, variance 4e-4 / 4, error
     * sqrt(1e-4 / 5) / (3 / 5). Together 0.0118134 with 5.889 degrees of freedom; beyond what is
     * worth mentioning, t is (0.05 - 0.00995) / 0.0118134 = 3.3902, and so much has a chance
     * of 1.51 %. */
    assert_true(fabs(e.p - 0.015101) < 1e-5);
    assert_int_equal(e.verdict, TRIALS_UNSURE);
    assert_true(e.low < 0.05 && e.high > 0.05);
    trials_release(&t);
}

/* Few recordings, processes that differ by 3 % and now and then by a half: intervals hold the
 * truth, and nothing is called slower or faster that is not. */
static void test_recordings_alarms(void **state)
{
    enum { TIMES = 600 };
    int holds = 0, alarms = 0;

    (void)state;
    random_state = 17;
    for (int i = 0; i < TIMES; i++) {
        struct trials t = { .nsides = 2 };
        struct trials_options o = apart;
        struct trials_estimate e;

        o.seed = (uint64_t)i + 1;
        for (size_t side = 0; side < 2; side++)
            for (int k = 0; k < 3 + i % 6; k++)
                add_process(&t, side, uniform() < 0.05 ? 1.5 : 1, 0.03, 0.05);
        assert_true(trials_whole(&t, 1, &o, &e));
        holds += e.low <= 0 && e.high >= 0;
        alarms += e.verdict == TRIALS_SLOWER || e.verdict == TRIALS_FASTER;
        trials_release(&t);
    }
    assert_in_range(holds, TIMES * 93 / 100, TIMES);
    assert_in_range(alarms, 0, TIMES / 100);
}

/* One in fifty iterations of B takes three times as long: the median is the same, the tail is not.
 * With too few iterations there is no tail. */
static void test_tail(void **state)
{
    enum { PROCESSES = 6, MANY = 500 };
    struct trials t = { .nsides = 2 }, few = { .nsides = 2 };
    struct trials_estimate e;

    (void)state;
    random_state = 19;
    for (int i = 0; i < PROCESSES * 2; i++) {
        struct trial p = { .n = MANY, .iteration_ns = mem_calloc(MANY, sizeof(double)) };
        double own = 1e6 * exp(0.002 * normal());

        for (int k = 0; k < MANY; k++)
            p.iteration_ns[k] = own * (i % 2 && k % 50 == 7 ? 3 : 1 + 0.01 * uniform());
        assert_int_equal(trials_add(&t, (size_t)i % 2, &p), 0);
        add_process(&few, (size_t)i % 2, 1, 0.01, 0.01);
    }
    assert_true(trials_whole(&t, 1, &apart, &e));
    assert_int_equal(e.verdict, TRIALS_SAME);
    assert_true(trials_tail(&t, 1, &apart, &e));
    assert_int_equal(e.verdict, TRIALS_SLOWER);
    assert_true(e.op == TRIALS_TAIL_OP && fabs(e.change - 1.97) < 0.05);
    assert_false(trials_tail(&few, 1, &apart, &e));
    trials_release(&t);
    trials_release(&few);
}

/* Two samples of ten values, the largest two of all on one side: 2 * C(10, 2) / C(20, 2). */
static void test_tail_chance(void **state)
{
    double a[10], b[10], p;
    bool enough;

    (void)state;
    for (int i = 0; i < 10; i++) {
        a[i] = i;
        b[i] = i < 8 ? i + 0.5 : 100 + i;
    }
    assert_int_equal(tail_chance(a, 10, b, 10, 0.9, 0.01, &p, &enough), 0);
    assert_true(fabs(p - 2 * 45.0 / 190.0) < 1e-12);
    assert_false(enough);
    assert_int_equal(tail_chance(a, 10, b, 10, 0.9, 0.5, &p, &enough), 0);
    assert_true(enough);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_student),
        cmocka_unit_test(test_discovery),
        cmocka_unit_test(test_planted),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_whole_among_many),
        cmocka_unit_test(test_disturbed_block),
        cmocka_unit_test(test_wild_blocks),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_alarms),
        cmocka_unit_test(test_two_samples),
        cmocka_unit_test(test_recordings_alarms),
        cmocka_unit_test(test_tail),
        cmocka_unit_test(test_tail_chance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
