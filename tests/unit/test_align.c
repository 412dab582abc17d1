/* test_align.c -- which operators of two sides are the same work: fused, renamed, of another
 * engine, and what has no counterpart. */
#include "unit.h"

#include "compare/align.h"

#include <math.h>
#include <string.h>

#define ON_A(v)  \
    {            \
        (v), NAN \
    }
#define ON_B(v)  \
    {            \
        NAN, (v) \
    }

static struct align run(const struct align_op *op, size_t n)
{
    struct align a = { 0 };

    assert_int_equal(align_ops(&a, op, n), 0);
    return a;
}

static void check(const struct align *a, size_t group, const char *name, const char *type,
                  size_t of_a, size_t of_b)
{
    assert_true(group < a->n);
    assert_string_equal(a->group[group].name, name);
    assert_string_equal(a->group[group].type, type);
    assert_int_equal(a->group[group].n[0], of_a);
    assert_int_equal(a->group[group].n[1], of_b);
}

/* A fuses Conv and Relu, B does not; a reorder is B's alone; fc is called otherwise by B's engine.
 */
static void test_fused(void **state)
{
    static const struct align_op op[] = {
        { "conv1", "Conv", "[\"conv1\",\"relu1\"]", "", ON_A(100) },
        { "fc", "Gemm", "[\"fc\"]", "", ON_A(10) },
        { "in_reorder", "ReorderInput", "", "", ON_B(3) },
        { "conv1", "Conv", "[\"conv1\"]", "", ON_B(80) },
        { "relu1", "Relu", "[\"relu1\"]", "", ON_B(20) },
        { "fc_fused", "FusedGemm", "[\"fc\"]", "", ON_B(11) },
    };
    struct align a = run(op, ARRAY_SIZE(op));

    (void)state;
    assert_int_equal(a.n, 3);
    check(&a, 0, "conv1 + relu1", "Conv", 1, 2);
    check(&a, 1, "fc", "FusedGemm", 1, 1);
    check(&a, 2, "in_reorder", "ReorderInput", 0, 1);
    assert_int_equal(a.group_of[3], 0);
    assert_int_equal(a.group_of[4], 0);
    assert_int_equal(a.group_of[5], 1);
    assert_int_equal(align_by_type(&a, ARRAY_SIZE(op)), 0);
    assert_int_equal(a.n, 3);
    align_release(&a);
}

/* Nodes without names are listed by their types, which align nothing. A profile of another tool
 * knows no nodes: its operator is the node of its name. */
static void test_nameless(void **state)
{
    static const struct align_op op[] = {
        { "Conv_0", "Conv", "[\"Conv\"]", "", ON_A(1) },
        { "Conv_1", "Conv", "[\"Conv\"]", "", ON_A(2) },
        { "mul", "Mul", "[\"mul\",\"add\"]", "", ON_A(3) },
        { "Conv_0", "Conv", "", "", ON_B(1) },
        { "Conv_1", "Conv", "", "", ON_B(2) },
        { "mul", "Mul", "", "", ON_B(2) },
        { "add", "Add", "", "", ON_B(1) },
    };
    struct align a = run(op, ARRAY_SIZE(op));

    (void)state;
    assert_int_equal(a.n, 3);
    check(&a, 0, "Conv_0", "Conv", 1, 1);
    check(&a, 1, "Conv_1", "Conv", 1, 1);
    check(&a, 2, "mul + add", "Mul", 1, 2);
    align_release(&a);
}

/* Exported again, all names are others. B has one more in the middle and lacks the last. */
static void test_renamed(void **state)
{
    static const struct align_op op[] = {
        { "Conv_0", "Conv", "[\"Conv_0\"]", "9 8x8", ON_A(5) },
        { "Conv_1", "Conv", "[\"Conv_1\"]", "7 8x4", ON_A(4) },
        { "Relu_2", "Relu", "[\"Relu_2\"]", "1 ", ON_A(1) },
        { "Gemm_3", "Gemm", "[\"Gemm_3\"]", "2 4x4", ON_A(1) },
        { "/a/Conv", "Conv", "[\"/a/Conv\"]", "9 8x8", ON_B(5) },
        { "/a/Add", "Add", "[\"/a/Add\"]", "1 ", ON_B(1) },
        { "/b/Conv", "Conv", "[\"/b/Conv\"]", "7 8x4", ON_B(4) },
        { "/b/Relu", "Relu", "[\"/b/Relu\"]", "1 ", ON_B(1) },
    };
    struct align a = run(op, ARRAY_SIZE(op));

    (void)state;
    assert_int_equal(a.n, 5);
    check(&a, 0, "Conv_0 → /a/Conv", "Conv", 1, 1);
    check(&a, 1, "Conv_1 → /b/Conv", "Conv", 1, 1);
    check(&a, 2, "Relu_2 → /b/Relu", "Relu", 1, 1);
    check(&a, 3, "Gemm_3", "Gemm", 1, 0);
    check(&a, 4, "/a/Add", "Add", 0, 1);
    align_release(&a);
}

/* Where nothing but types is known: all of them in order, or nothing. */
static void test_types_alone(void **state)
{
    static const struct align_op same[] = {
        { "a", "Conv", "", "", ON_A(1) },
        { "b", "Relu", "", "", ON_A(1) },
        { "c", "Conv", "", "", ON_B(1) },
        { "d", "Relu", "", "", ON_B(1) },
    };
    static const struct align_op partly[] = {
        { "a", "Conv", "", "", ON_A(1) },
        { "b", "Relu", "", "", { 1, 1 } },
        { "c", "Conv", "", "", ON_B(1) },
    };
    struct align a = run(same, ARRAY_SIZE(same)), b = run(partly, ARRAY_SIZE(partly));

    (void)state;
    assert_int_equal(a.n, 2);
    check(&a, 1, "b → d", "Relu", 1, 1);
    assert_int_equal(b.n, 3);
    align_release(&a);
    align_release(&b);
}

/* One name of two types is not aligned by the name; an operator of neither side takes no part. */
static void test_ambiguous(void **state)
{
    static const struct align_op op[] = {
        { "x", "Conv", "", "", ON_A(1) },
        { "x", "Relu", "", "", ON_A(1) },
        { "x", "FusedConv", "", "", ON_B(1) },
        { "bridge", "All", "[\"p\",\"q\"]", "", { NAN, NAN } },
        { "p", "Add", "[\"p\"]", "", ON_A(1) },
        { "q", "Mul", "[\"q\"]", "", ON_B(1) },
    };
    struct align a = run(op, ARRAY_SIZE(op));

    (void)state;
    assert_int_equal(a.n, 5);
    assert_true(a.group_of[3] == ALIGN_NONE);
    for (size_t i = 0; i < a.n; i++)
        assert_int_equal(a.group[i].n[0] + a.group[i].n[1], 1);
    align_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused),     cmocka_unit_test(test_nameless),
        cmocka_unit_test(test_renamed),   cmocka_unit_test(test_types_alone),
        cmocka_unit_test(test_ambiguous),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
