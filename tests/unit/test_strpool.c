/* test_strpool.c -- equal strings, equal ids; bytes that never move. */
#include "base/strpool.h"
#include "unit.h"

#define MANY 200000

static void test_empty(void **state)
{
    struct strpool p = { 0 };

    (void)state;
    assert_int_equal(strpool_count(&p), 0);
    assert_int_equal(strpool_find(&p, "x", 1), 0);
    assert_null(strpool_get(&p, 0));
    assert_int_equal(strpool_len(&p, 0), 0);
    strpool_release(&p);
}

static void test_intern(void **state)
{
    static const struct {
        const char *s;
        size_t len;
        str_id want;
    } cases[] = {
        { "Conv", 4, 1 }, { "", 0, 2 },     { "Con", 3, 3 },        { "Conv", 4, 1 },
        { "", 0, 2 },     { "a\0b", 3, 4 }, { "a\0c", 3, 5 },       { "a", 1, 6 },
        { "a\0", 2, 7 },  { NULL, 0, 2 },   { "\xff\xfe\n", 3, 8 }, { "Convolution", 11, 9 },
    };
    struct strpool p = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        str_id id = 99;

        assert_int_equal(strpool_intern(&p, cases[i].s, cases[i].len, &id), 0);
        assert_int_equal(id, cases[i].want);
        assert_int_equal(strpool_find(&p, cases[i].s, cases[i].len), id);
        assert_int_equal(strpool_len(&p, id), cases[i].len);
        if (cases[i].s)
            assert_memory_equal(strpool_get(&p, id), cases[i].s, cases[i].len + 1);
    }
    assert_int_equal(strpool_count(&p), 9);
    assert_int_equal(strpool_find(&p, "nope", 4), 0);
    strpool_release(&p);
    strpool_release(&p);
}

/* Every length around the block sizes of the hash, every position of a difference. */
static void test_lengths(void **state)
{
    struct strpool p = { 0 };
    char *text = malloc(200); /* its end is guarded under ASan */
    str_id id, want = 0;

    (void)state;
    assert_non_null(text);
    for (size_t len = 0; len <= 100; len++) {
        memset(text, 'x', 200);
        assert_int_equal(strpool_intern(&p, text + 200 - len, len, &id), 0);
        assert_int_equal(id, ++want);
        for (size_t at = 0; at < len; at++) {
            text[200 - len + at] = 'y';
            assert_int_equal(strpool_intern(&p, text + 200 - len, len, &id), 0);
            assert_int_equal(id, ++want);
            text[200 - len + at] = 'x';
        }
    }
    free(text);
    strpool_release(&p);
}

static void test_many(void **state)
{
    struct strpool p = { 0 };
    char text[64];
    str_id id;
    const char *first;

    (void)state;
    assert_int_equal(strpool_intern(&p, "first", 5, &id), 0);
    first = strpool_get(&p, id);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            int n = snprintf(text, sizeof(text), "aten::convolution_backward_%d", i);

            assert_int_equal(strpool_intern(&p, text, (size_t)n, &id), 0);
            if (id != (str_id)i + 2)
                fail();
        }
    }
    assert_int_equal(strpool_count(&p), MANY + 1);
    assert_ptr_equal(strpool_get(&p, 1), first);
    assert_string_equal(first, "first");
    assert_string_equal(strpool_get(&p, MANY + 1), text);
    strpool_release(&p);
}

static int fill(void)
{
    struct strpool p = { 0 };
    char text[32];
    str_id id = 0;
    int rc = 0;

    for (int i = 0; i < 3000 && !rc; i++) {
        int n = snprintf(text, sizeof(text), "op %d", i);

        rc = strpool_intern(&p, text, (size_t)n, &id);
        if (!rc)
            assert_int_equal(id, i + 1);
        else { /* the pool is still good, and a second try succeeds */
            assert_int_equal(strpool_count(&p), i);
            assert_int_equal(strpool_find(&p, text, (size_t)n), 0);
            assert_int_equal(strpool_intern(&p, text, (size_t)n, &id), 0);
            assert_int_equal(id, i + 1);
        }
    }
    strpool_release(&p);
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
        cmocka_unit_test(test_empty), cmocka_unit_test(test_intern), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_many),  cmocka_unit_test(test_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
