/* test_u64map.c -- put, get, overwrite, growth, failure. */
#include "base/u64map.h"
#include "unit.h"

#define MANY 100000

static void test_basics(void **state)
{
    static const uint64_t keys[] = { 0, 1, 2, UINT64_MAX, UINT64_MAX - 1, 0x9e3779b97f4a7c15u };
    struct u64map m = { 0 };

    (void)state;
    assert_null(u64map_get(&m, 0));
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
            assert_int_equal(u64map_put(&m, keys[i], i + round), 0);
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
            assert_int_equal(*u64map_get(&m, keys[i]), i + round);
        assert_int_equal(m.n, ARRAY_SIZE(keys));
    }
    assert_null(u64map_get(&m, 3));
    *u64map_get(&m, 0) = 77;
    assert_int_equal(*u64map_get(&m, 0), 77);
    u64map_release(&m);
    assert_null(u64map_get(&m, 0));
    u64map_release(&m);
}

/* Keys as traces have them: counted up, pointers, and those that differ in the high bits only. */
static void test_many(void **state)
{
    static const uint64_t strides[] = { 1, 64, 4096, (uint64_t)1 << 32, (uint64_t)1 << 47 };

    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(strides); s++) {
        struct u64map m = { 0 };

        for (uint64_t i = 0; i < MANY; i++)
            assert_int_equal(u64map_put(&m, i * strides[s], i), 0);
        for (uint64_t i = 0; i < MANY; i++)
            if (*u64map_get(&m, i * strides[s]) != i)
                fail();
        assert_int_equal(m.n, MANY);
        assert_null(u64map_get(&m, UINT64_MAX));
        u64map_release(&m);
    }
}

static int fill(void)
{
    struct u64map m = { 0 };
    int rc = 0;

    for (uint64_t i = 0; i < 500 && !rc; i++) {
        rc = u64map_put(&m, i, i);
        assert_int_equal(m.n, rc ? i : i + 1);
        for (uint64_t k = 0; rc && k < i; k++)
            assert_int_equal(*u64map_get(&m, k), k);
    }
    u64map_release(&m);
    return rc;
}

static void test_fail(void **state)
{
    (void)state;
    unit_fail_each(fill);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basics),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
