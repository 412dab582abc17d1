/* test_arena.c -- alignment, zeroing, big and small blocks, failure. */
#include "base/arena.h"
#include "unit.h"

static void test_alloc(void **state)
{
    static const size_t sizes[] = { 0, 1, 15, 16, 17, 1023, 1025, 4096, 5000, 100000, 3000000 };
    struct arena a = { 0 };
    size_t sum = 0;

    (void)state;
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
            unsigned char *p = arena_alloc(&a, sizes[i]);

            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            for (size_t k = 0; k < sizes[i]; k++)
                if (p[k])
                    fail();
            memset(p, 0xff, sizes[i]);
            sum += MAX(sizes[i], 1);
        }
    }
    assert_int_equal(a.used, sum);
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, PTRDIFF_MAX));
    arena_release(&a);
    assert_int_equal(a.used, 0);
    arena_release(&a);
}

static void test_strndup(void **state)
{
    struct arena a = { 0 };
    char *s[1000], text[16];

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int n = snprintf(text, sizeof(text), "op_%d", i);

        s[i] = arena_strndup(&a, text, (size_t)n);
        assert_non_null(s[i]);
        if (i % 7 == 0)
            assert_int_equal((uintptr_t)arena_alloc(&a, 8) % 16, 0);
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "op_%d", i);
        assert_string_equal(s[i], text);
    }
    assert_memory_equal(arena_strndup(&a, "a\0b", 3), "a\0b", 4);
    assert_string_equal(arena_strndup(&a, NULL, 0), "");
    assert_null(arena_strndup(&a, "x", SIZE_MAX));
    arena_release(&a);
}

static int fill(void)
{
    struct arena a = { 0 };
    int rc = 0;

    for (int i = 0; i < 100 && !rc; i++)
        if (!arena_alloc(&a, 1000) || !arena_strndup(&a, "Conv", 4) || !arena_alloc(&a, 9000))
            rc = OPM_ENOMEM;
    arena_release(&a);
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
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_strndup),
        cmocka_unit_test(test_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
