/* test_check.c -- outputs beside a reference. */
#include "run/check.h"

#include "unit.h"

/* What check_outputs() says of one output beside one array. */
static struct run_check checked(const struct engine_tensor *got, const struct tensor *want)
{
    struct engine_value y = { .name = "y" };
    struct tensor array = *want;
    struct npz ref = { .array = &array, .n = 1 };
    struct run_check out = { 0 };
    opm_error err = { 0 };

    array.name = "out_y";
    assert_int_equal(check_outputs(&ref, "ref.npz", &y, got, 1, 1e-6, 0, TENSOR_NONE, &out, &err),
                     0);
    assert_true(out.done);
    return out;
}

static void test_numbers(void **state)
{
    float a[2] = { 1, 2 }, b[2] = { 1, 3 };
    struct engine_tensor got = { TENSOR_F32, { .rank = 1, .dim = { 2 } }, a, 8, VALUE_TENSOR };
    struct tensor want = {
        .type = TENSOR_F32, .shape = got.shape, .count = 2, .data = a, .bytes = 8
    };

    (void)state;
    assert_true(checked(&got, &want).ok);
    want.data = b;
    assert_false(checked(&got, &want).ok);
    assert_int_equal(checked(&got, &want).wrong, 1);
}

/* An engine may have no memory for what has no elements; the shape counts all the same. */
static void test_nothing(void **state)
{
    struct engine_tensor got = {
        TENSOR_F32, { .rank = 2, .dim = { 2, 0 } }, NULL, 0, VALUE_TENSOR
    };
    struct tensor want = { .type = TENSOR_F32, .shape = got.shape, .data = "" };

    (void)state;
    assert_true(checked(&got, &want).ok);
    want.data = NULL;
    assert_true(checked(&got, &want).ok);
    want.shape.dim[0] = 3;
    assert_false(checked(&got, &want).ok);
    want.shape.dim[0] = 2;
    got.kind = VALUE_SEQUENCE;
    assert_false(checked(&got, &want).ok);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
