/* test_budget.c -- what reading may cost: which limit is met, by whom, and what is said of it. */
#include "base/budget.h"
#include "base/scratch.h"
#include "unit.h"

#define MIB ((uint64_t)1 << 20)

static struct budget budget_of(uint64_t unpacked, uint64_t memory, uint64_t seconds)
{
    struct budget b;

    assert_int_equal(budget_init(&b, &(struct budget_limits){ unpacked, memory, seconds }, NULL),
                     0);
    return b;
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t want; /* 0: no size */
    } cases[] = {
        { "1", 1 },
        { "4k", 4096 },
        { "512M", 512 * MIB },
        { "1.5GiB", 1536 * MIB },
        { "2Tb", (uint64_t)2 << 40 },
        { "0", 0 },
        { "", 0 },
        { "-1", 0 },
        { " 1", 0 },
        { "5Q", 0 },
        { "1Mx", 0 },
        { "nan", 0 },
        { "1e30", 0 },
        { "9999999999T", 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t got = 0;

        assert_int_equal(budget_parse_size(cases[i].text, &got), cases[i].want != 0);
        assert_int_equal(got, cases[i].want);
    }
}

static void test_defaults(void **state)
{
    struct budget b;
    opm_error err;

    (void)state;
    b = budget_of(0, 0, 0);
    assert_int_equal(b.limits.unpacked, BUDGET_UNPACKED_DEFAULT);
    assert_in_range(b.limits.memory, 1, budget_machine_memory());
    assert_true(budget_time(&b));
    setenv("OPMETER_MAX_MEMORY", "3M", 1);
    setenv("OPMETER_MAX_UNPACKED", "2M", 1);
    setenv("OPMETER_MAX_TIME", "9", 1);
    b = budget_of(0, 0, 0);
    assert_int_equal(b.limits.memory, 3 * MIB);
    assert_int_equal(b.limits.unpacked, 2 * MIB);
    assert_int_equal(b.limits.seconds, 9);
    b = budget_of(5, 6, 7); /* what is asked for goes first */
    assert_int_equal(b.limits.unpacked, 5);
    assert_int_equal(b.limits.memory, 6);
    assert_int_equal(b.limits.seconds, 7);
    setenv("OPMETER_MAX_TIME", "soon", 1);
    assert_int_equal(budget_init(&b, &(struct budget_limits){ 0 }, &err), OPM_EINVAL);
    assert_string_equal(err.msg, "OPMETER_MAX_TIME: 'soon' is no number of seconds");
    unsetenv("OPMETER_MAX_MEMORY");
    unsetenv("OPMETER_MAX_UNPACKED");
    unsetenv("OPMETER_MAX_TIME");
}

static void test_unpacked(void **state)
{
    struct budget b = budget_of(10 * MIB, 0, 0);
    opm_error err;

    (void)state;
    assert_true(budget_unpack(&b, 1, 10 * MIB));
    assert_int_equal(budget_fail(&b, "x", 0, &err), 0);
    assert_false(budget_unpack(&b, 1, 1));
    assert_int_equal(budget_fail(&b, "x", 0, &err), OPM_ELIMIT);
    assert_non_null(strstr(err.msg, "x: unpacks to more than 10.5 MB"));
    assert_true(budget_unpack(NULL, 0, UINT64_MAX));
}

/* Small files may pack as well as they like, large ones not, unless so much was asked for. */
static void test_ratio(void **state)
{
    struct budget b = budget_of(0, 0, 0), asked = budget_of(4096 * MIB, 0, 0);
    opm_error err;

    (void)state;
    assert_true(budget_unpack(&b, 1, 256 * MIB));
    assert_false(budget_unpack(&b, 1, 1));
    assert_int_equal(budget_fail(&b, "x", OPM_EFORMAT, &err), OPM_ELIMIT);
    assert_non_null(strstr(err.msg, "more than 200 times its size"));
    assert_true(budget_unpack(&asked, 1, 1024 * MIB));
    b = budget_of(0, 0, 0);
    assert_true(budget_unpack(&b, 2 * MIB, 400 * MIB));
    assert_false(budget_unpack(&b, 0, 201));
}

static void test_memory(void **state)
{
    struct budget b = budget_of(0, MIB, 0), *before = budget_enter(&b);
    void *p, *q;
    opm_error err;

    (void)state;
    assert_null(before);
    assert_ptr_equal(budget_current(), &b);
    p = mem_alloc(MIB / 2);
    q = mem_map(MIB / 4);
    assert_non_null(p);
    assert_non_null(q);
    assert_null(mem_alloc(MIB / 2));
    mem_free(p);
    p = mem_calloc(2, MIB / 4);
    assert_non_null(p);
    assert_null(mem_realloc(p, MIB));
    assert_null(mem_map_resize(q, MIB / 4, MIB));
    mem_free(p);
    mem_unmap(q, MIB / 4);
    assert_int_equal(atomic_load(&b.memory), 0);
    budget_enter(before);
    assert_int_equal(budget_fail(&b, "x", OPM_ENOMEM, &err), OPM_ELIMIT);
    assert_non_null(strstr(err.msg, "x: reading it takes more than 1.05 MB of memory"));
    p = mem_alloc(2 * MIB); /* no budget, no limit */
    assert_non_null(p);
    mem_free(p);
}

/* All bytes of p. */
static bool is_filled(const unsigned char *p, size_t n, unsigned char with)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != with)
            return false;
    return true;
}

static void test_scratch(void **state)
{
    struct budget b = budget_of(0, 8 * MIB, 0), *before;
    unsigned char *small, *p, *q, *r;
    size_t size;
    opm_error err;

    (void)state;
    b.scratch = scratch_folder();
    assert_non_null(b.scratch);
    before = budget_enter(&b);
    small = mem_alloc(3 * MIB);
    assert_non_null(small);
    assert_false(scratch_is(small, &size));
    memset(small, 3, 3 * MIB);
    /* Half of the limit is for what is small: from here on large pieces go to the file. */
    p = mem_calloc(2, MIB);
    q = mem_map(64 * MIB);
    assert_true(p && q && scratch_is(p, &size) && size == 2 * MIB);
    assert_true(scratch_is(q, &size) && size == 64 * MIB);
    assert_true(is_filled(p, 2 * MIB, 0));
    memset(p, 1, 2 * MIB);
    memset(q, 2, 64 * MIB);
    p = mem_realloc(p, 16 * MIB);
    q = mem_map_resize(q, 64 * MIB, 96 * MIB);
    assert_true(p && is_filled(p, 2 * MIB, 1) && is_filled(p + 2 * MIB, 14 * MIB, 0));
    assert_true(q && is_filled(q, 64 * MIB, 2) && is_filled(q + 64 * MIB, 32 * MIB, 0));
    assert_in_range(atomic_load(&b.memory), 3 * MIB, 4 * MIB);
    small = mem_realloc(small, 5 * MIB); /* moves there */
    assert_true(scratch_is(small, &size) && is_filled(small, 3 * MIB, 3));
    assert_int_equal(atomic_load(&b.memory), 0);
    r = mem_map(2 * MIB);
    memset(r, 4, 2 * MIB);
    assert_false(scratch_is(r, &size));
    r = mem_map_resize(r, 2 * MIB, 6 * MIB);
    assert_true(scratch_is(r, &size) && is_filled(r, 2 * MIB, 4));
    assert_int_equal(atomic_load(&b.memory), 0);
    budget_enter(before);
    mem_free(p); /* also without the budget */
    mem_unmap(q, 96 * MIB);
    mem_unmap(r, 6 * MIB);
    assert_true(is_filled(small, 3 * MIB, 3));
    mem_free(small);
    assert_false(scratch_is(small, &size));

    b.scratch = "/nowhere";
    before = budget_enter(&b);
    assert_null(mem_alloc(64 * MIB));
    budget_enter(before);
    assert_int_equal(budget_fail(&b, "x", OPM_ENOMEM, &err), OPM_ELIMIT);
    assert_non_null(strstr(
        err.msg, "x: reading it takes more than 4.19 MB of memory, and /nowhere has no room"));
}

static void *spend(void *arg)
{
    *(bool *)arg = mem_alloc(2 * MIB) != NULL;
    return NULL;
}

static void test_threads(void **state)
{
    struct budget b = budget_of(0, MIB, 0);
    bool allowed = true;
    pthread_t thread;

    (void)state;
    budget_enter(&b);
    assert_int_equal(thread_start(&thread, spend, &allowed), 0);
    pthread_join(thread, NULL);
    budget_enter(NULL);
    assert_false(allowed);
    assert_int_equal(atomic_load(&b.over), BUDGET_MEMORY);
}

static void test_time(void **state)
{
    struct budget b = budget_of(0, 0, 1);
    opm_error err;

    (void)state;
    b.deadline_ns = 1; /* long ago */
    assert_false(budget_unpack(&b, 1, 1));
    assert_int_equal(budget_fail(&b, "x", 0, &err), OPM_ELIMIT);
    assert_non_null(strstr(err.msg, "x: reading it takes longer than 1 s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),    cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_unpacked), cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_threads),  cmocka_unit_test(test_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
