/* test_buf.c -- appending, the ceiling, failure that leaves no trace. */
#include "base/buf.h"
#include "unit.h"

static void test_append(void **state)
{
    struct buf b = { 0 };

    (void)state;
    assert_string_equal(buf_str(&b), "");
    buf_add(&b, NULL, 0);
    buf_adds(&b, "Conv");
    buf_addc(&b, '_');
    buf_addf(&b, "%d/%s", 3, "x");
    buf_add(&b, "a\0b", 3);
    assert_int_equal(b.len, 11);
    assert_memory_equal(b.data, "Conv_3/xa\0b", 12);
    buf_clear(&b);
    assert_string_equal(buf_str(&b), "");
    buf_addf(&b, "%1000d", 7);
    assert_int_equal(b.len, 1000);
    assert_int_equal(strlen(buf_str(&b)), 1000);
    for (int i = 0; i < 100000; i++)
        buf_addc(&b, 'x');
    assert_int_equal(b.len, 101000);
    assert_false(b.failed);
    buf_release(&b);
    assert_null(b.data);
    buf_release(&b);
}

static void test_ceiling(void **state)
{
    static const struct {
        size_t max;
        const char *add[3];
        const char *want;
        bool failed;
    } cases[] = {
        { 0, { "abc", "def", "ghi" }, "abcdefghi", false },
        { 9, { "abc", "def", "ghi" }, "abcdefghi", false },
        { 8, { "abc", "def", "ghi" }, "abcdef", true },
        { 1, { "abc", "d", "e" }, "", true }, /* nothing after the first failure */
        { 1, { "a", "", "" }, "a", false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (int by_format = 0; by_format < 2; by_format++) {
            struct buf b = { .max = cases[i].max };

            for (int k = 0; k < 3; k++)
                if (by_format)
                    buf_addf(&b, "%s", cases[i].add[k]);
                else
                    buf_adds(&b, cases[i].add[k]);
            assert_string_equal(buf_str(&b), cases[i].want);
            assert_int_equal(b.len, strlen(cases[i].want));
            assert_int_equal(b.failed, cases[i].failed);
            buf_clear(&b);
            assert_false(b.failed);
            buf_release(&b);
            assert_int_equal(b.max, cases[i].max);
        }
    }
}

static void test_hostile(void **state)
{
    struct buf b = { 0 };

    (void)state;
    buf_adds(&b, "kept");
    buf_add(&b, "x", SIZE_MAX);
    assert_true(b.failed);
    assert_string_equal(buf_str(&b), "kept");
    buf_release(&b);
    b.max = SIZE_MAX;
    buf_add(&b, "x", SIZE_MAX - 1);
    assert_true(b.failed);
    buf_release(&b);
}

static int fill(void)
{
    struct buf b = { 0 };
    int rc;

    for (int i = 0; i < 50; i++) {
        buf_adds(&b, "0123456789");
        buf_addf(&b, "%0200d", i);
    }
    rc = b.failed ? OPM_ENOMEM : 0;
    assert_int_equal(strlen(buf_str(&b)), b.len);
    buf_release(&b);
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
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
