/* test_posix.c -- what a minimal build has in place of GNU's functions, against those. */
#include "unit.h"

#include "base/posix.h"

#undef memmem
#undef memrchr
#undef strcasestr
#undef strverscmp
#undef vasprintf
#undef asprintf
#undef qsort_r
#undef secure_getenv
#include "base/posix.c"

static uint64_t seed = 88172645463325252u;

static unsigned upto(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed % n);
}

/* A text of few different characters, so that much of it is alike; its length. */
static size_t make(char *out, size_t max, const char *of)
{
    size_t len = upto((unsigned)max), kinds = strlen(of);

    for (size_t i = 0; i < len; i++)
        out[i] = of[upto((unsigned)kinds)];
    out[len] = 0;
    return len;
}

static void test_find(void **state)
{
    char hay[40], needle[6];

    (void)state;
    for (int i = 0; i < 200000; i++) {
        size_t len = make(hay, sizeof(hay), "abAB"), n = make(needle, sizeof(needle), "abAB");

        assert_ptr_equal(posix_memmem(hay, len, needle, n), memmem(hay, len, needle, n));
        if (len || n) /* musl finds no empty text in an empty one */
            assert_ptr_equal(posix_strcasestr(hay, needle), strcasestr(hay, needle));
        assert_ptr_equal(posix_memrchr(hay, 'a', len), memrchr(hay, 'a', len));
    }
}

static int sign(int v)
{
    return (v > 0) - (v < 0);
}

static void test_versions(void **state)
{
    static const char *const ordered[] = { "000", "00", "01", "010", "09", "0", "1", "9", "10" };
    char a[8], b[8];

    (void)state;
    for (size_t i = 0; i < 9; i++)
        for (size_t k = 0; k < 9; k++)
            assert_int_equal(sign(posix_strverscmp(ordered[i], ordered[k])), sign((int)i - (int)k));
#ifdef __GLIBC__ /* musl 1.2.3 compares a number with what is none as texts */
    for (int i = 0; i < 500000; i++) {
        make(a, sizeof(a), "0129a./");
        make(b, sizeof(b), "0129a./");
        if (sign(posix_strverscmp(a, b)) != sign(strverscmp(a, b)))
            fail_msg("'%s' and '%s': %d, not %d", a, b, posix_strverscmp(a, b), strverscmp(a, b));
    }
#else
    (void)a;
    (void)b;
#endif
}

static void test_print(void **state)
{
    char *ours, *theirs;

    (void)state;
    assert_int_equal(posix_asprintf(&ours, "%s %.3f %d", "text", 2.5, -7),
                     asprintf(&theirs, "%s %.3f %d", "text", 2.5, -7));
    assert_string_equal(ours, theirs);
    free(ours);
    free(theirs);
}

static int by_distance(const void *a, const void *b, void *user)
{
    int from = *(int *)user, x = abs(*(const int *)a - from), y = abs(*(const int *)b - from);

    return (x > y) - (x < y);
}

static void test_sort(void **state)
{
    int v[100], from = 37;

    (void)state;
    for (int i = 0; i < 100; i++)
        v[i] = (int)upto(100);
    posix_qsort_r(v, 100, sizeof(*v), by_distance, &from);
    for (int i = 1; i < 100; i++)
        assert_true(abs(v[i - 1] - from) <= abs(v[i] - from));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_sort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
