/* test_runsort.c -- stable order of what is in order, nearly, and not at all. */
#include "base/common.h"
#include "base/runsort.h"
#include "unit.h"

#define MANY 3000

struct item {
    uint32_t key, at; /* at: where it was */
    char rest[13];    /* an odd size */
};

static uint32_t next_random(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static size_t ncompare;

static int by_key(const void *va, const void *vb)
{
    const struct item *a = va, *b = vb;

    ncompare++;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* Order n items, of which key(i) is the key, and look at all of them. */
static void try(size_t n, uint32_t (*key)(size_t i, size_t n))
{
    struct item *item = mem_calloc(n + 1, sizeof(*item));
    uint64_t sum = 0, sorted_sum = 0;

    assert_non_null(item);
    for (size_t i = 0; i < n; i++) {
        item[i] = (struct item){ .key = key(i, n), .at = (uint32_t)i };
        snprintf(item[i].rest, sizeof(item[i].rest), "%u", item[i].key);
        sum += (uint64_t)item[i].key << 20 ^ i;
    }
    assert_int_equal(runsort(item, n, sizeof(*item), by_key), 0);
    for (size_t i = 0; i < n; i++) {
        char rest[13];

        snprintf(rest, sizeof(rest), "%u", item[i].key);
        assert_string_equal(item[i].rest, rest);
        sorted_sum += (uint64_t)item[i].key << 20 ^ item[i].at;
        if (i)
            assert_true(item[i - 1].key < item[i].key ||
                        (item[i - 1].key == item[i].key && item[i - 1].at < item[i].at));
    }
    assert_true(sum == sorted_sum);
    mem_free(item);
}

static uint32_t rising(size_t i, size_t n)
{
    (void)n;
    return (uint32_t)i;
}

static uint32_t falling(size_t i, size_t n)
{
    return (uint32_t)(n - i);
}

static uint32_t two_runs(size_t i, size_t n)
{
    return (uint32_t)(i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1);
}

static uint32_t few_values(size_t i, size_t n)
{
    (void)i;
    (void)n;
    return next_random() % 7;
}

static uint32_t any(size_t i, size_t n)
{
    (void)i;
    (void)n;
    return next_random();
}

static uint32_t nearly(size_t i, size_t n)
{
    (void)n;
    return (uint32_t)i + next_random() % 4;
}

static void test_orders(void **state)
{
    static uint32_t (*const keys[])(size_t, size_t) = { rising,     falling, two_runs,
                                                        few_values, any,     nearly };

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
        for (size_t n = 0; n < 70; n++)
            try(n, keys[k]);
        try(MANY, keys[k]);
    }
}

/* That is what it is for. */
static void test_in_order_is_one_look(void **state)
{
    (void)state;
    ncompare = 0;
    try(MANY, rising);
    assert_int_equal(ncompare, MANY - 1);
    ncompare = 0;
    try(MANY, two_runs);
    assert_true(ncompare < 3 * MANY);
}

static int order_some(void)
{
    struct item item[100] = { 0 };

    for (uint32_t i = 0; i < 100; i++)
        item[i].key = i * 37 % 101;
    return runsort(item, 100, sizeof(*item), by_key);
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(order_some);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_in_order_is_one_look),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
