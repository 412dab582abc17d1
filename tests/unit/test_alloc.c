/* test_alloc.c -- the allocation functions and their test hook. */
#include "unit.h"

static void test_basics(void **state)
{
    void *a = mem_alloc(0), *b = mem_alloc(0), *c = mem_realloc(NULL, 3);
    char *s = mem_strdup("Conv");

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    assert_string_equal(s, "Conv");
    assert_null(mem_calloc(SIZE_MAX / 2, 3));
    mem_free(mem_calloc(0, 8));
    mem_free(NULL);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(s);
}

static void test_grow(void **state)
{
    uint32_t *arr = NULL;
    size_t cap = 0, before;

    (void)state;
    assert_true(GROW(arr, cap, 0));
    assert_null(arr);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(GROW(arr, cap, i + 1u));
        arr[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(arr[i], i);
    before = cap;
    assert_true(GROW(arr, cap, cap + 1));
    assert_true(cap >= 2 * before);
    before = cap;
    assert_false(GROW(arr, cap, SIZE_MAX));
    assert_false(GROW(arr, cap, SIZE_MAX / 4 + 1));
    mem_fail_at(1);
    assert_false(GROW(arr, cap, cap + 1));
    mem_fail_at(0);
    assert_int_equal(cap, before);
    assert_int_equal(arr[999], 999);
    mem_free(arr);
}

static void test_map(void **state)
{
    static const size_t sizes[] = { 0,         1,       4096,          5000,     1 << 20, 4 << 20,
                                    5000001,   9 << 20, (9 << 20) + 1, 64 << 20, 100,     (6 << 20),
                                    (3 << 20), 1 };
    size_t size = 7;
    unsigned char *p = mem_map(size), *q;

    (void)state;
    assert_non_null(p);
    p[0] = 42;
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        q = mem_map_resize(p, size, sizes[i]);
        assert_non_null(q);
        p = q;
        assert_int_equal(p[0], 42);
        if (sizes[i] > size + 1)
            assert_int_equal(p[sizes[i] - 1], 0);
        if (sizes[i] > 1)
            p[sizes[i] - 1] = 7;
        size = sizes[i];
    }
    mem_unmap(p, size);
    assert_null(mem_map(SIZE_MAX));
    assert_null(mem_map(PTRDIFF_MAX));
    assert_null(mem_map((size_t)1 << 50));
    mem_unmap(NULL, 5);
    p = mem_map_resize(NULL, 0, 5);
    assert_null(mem_map_resize(p, 5, SIZE_MAX));
    assert_null(mem_map_resize(p, 5, (size_t)1 << 50));
    assert_int_equal(p[4], 0);
    mem_unmap(p, 5);
}

/* Neighbouring mappings must survive whatever rounding happens inside. */
static void test_map_neighbours(void **state)
{
    enum { N = 16 };
    unsigned char *p[N];
    size_t size[N];

    (void)state;
    for (size_t i = 0; i < N; i++) {
        size[i] = ((size_t)1 << 20) * (i % 8) + 12345;
        p[i] = mem_map(size[i]);
        assert_non_null(p[i]);
        memset(p[i], (int)i, size[i]);
    }
    for (size_t i = 0; i < N; i += 2) {
        mem_unmap(p[i], size[i]);
        p[i + 1] = mem_map_resize(p[i + 1], size[i + 1], size[i + 1] * 2);
        assert_non_null(p[i + 1]);
        memset(p[i + 1] + size[i + 1], (int)i + 1, size[i + 1]);
        size[i + 1] *= 2;
    }
    for (size_t i = 1; i < N; i += 2) {
        for (size_t at = 0; at < size[i]; at += 4093)
            assert_int_equal(p[i][at], i);
        mem_unmap(p[i], size[i]);
    }
}

static void test_fail_at(void **state)
{
    void *p;

    (void)state;
    mem_fail_at(3);
    p = mem_alloc(1);
    assert_non_null(p);
    assert_false(mem_alloc_failed());
    mem_free(p);
    p = mem_map(1);
    assert_non_null(p);
    mem_unmap(p, 1);
    assert_null(mem_calloc(1, 1));
    assert_true(mem_alloc_failed());
    p = mem_alloc(1); /* only that one */
    assert_non_null(p);
    mem_free(p);
    mem_fail_at(0);
    assert_false(mem_alloc_failed());
    mem_fail_at(1);
    assert_null(mem_strdup("x"));
    mem_fail_at(1);
    assert_null(mem_map(1));
    mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basics),  cmocka_unit_test(test_grow),
        cmocka_unit_test(test_map),     cmocka_unit_test(test_map_neighbours),
        cmocka_unit_test(test_fail_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
