/* test_sequence.c -- which kernel of a replay is which launch of a capture. */
#include "import/graph/sequence.h"
#include "import/llm/mark.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 4000

/* Letters for names. */
static void test_small(void **state)
{
    static const struct {
        const char *a, *b;
        size_t matched, ordered;
    } cases[] = {
        { "abc", "abc", 3, 3 },  { "", "abc", 0, 0 },    { "abc", "", 0, 0 },
        { "abc", "xyz", 0, 0 },  { "bc", "abcd", 2, 2 }, { "ac", "abc", 2, 2 },
        { "abxc", "abc", 3, 3 }, { "aab", "ab", 2, 2 },  { "ba", "ab", 2, 1 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint32_t a[16], b[16], to[16];
        size_t na = strlen(cases[i].a), nb = strlen(cases[i].b), matched, ordered;
        bool used[16] = { false };

        for (size_t k = 0; k < na; k++)
            a[k] = (uint32_t)cases[i].a[k];
        for (size_t k = 0; k < nb; k++)
            b[k] = (uint32_t)cases[i].b[k];
        assert_int_equal(sequence_align(a, na, b, nb, to, &matched, &ordered), 0);
        assert_int_equal(matched, cases[i].matched);
        assert_int_equal(ordered, cases[i].ordered);
        for (size_t k = 0; k < na; k++) {
            if (to[k] == SEQUENCE_NONE)
                continue;
            assert_true(to[k] < nb && !used[to[k]]);
            assert_int_equal(a[k], b[to[k]]);
            used[to[k]] = true;
        }
    }
}

/* A capture of layers; the replay lacks some kernels and has some of its own. Each that is in both
 * finds itself, and as many are in order as a longest common subsequence has (by the plain square
 * method). */
static void test_random(void **state)
{
    static uint32_t a[ROOM], b[ROOM], to[ROOM];
    static uint16_t longest[301][301];

    (void)state;
    srand(7);
    for (int round = 0; round < 60; round++) {
        size_t nb = 1 + (size_t)rand() % 300, na = 0, matched, ordered;

        for (size_t i = 0; i < nb; i++)
            b[i] = (uint32_t)(round % 3 == 0 ? rand() % 4 : (int)(i % 13));
        for (size_t i = 0; i < nb && na < 300; i++) {
            if (rand() % 10 == 0)
                a[na++] = (uint32_t)rand() % 15;
            if (rand() % 8 && na < 300)
                a[na++] = b[i];
        }
        for (size_t i = 0; i <= na; i++)
            for (size_t k = 0; k <= nb; k++)
                longest[i][k] =
                    (uint16_t)(i == 0 || k == 0       ? 0
                               : a[i - 1] == b[k - 1] ? longest[i - 1][k - 1] + 1
                                                      : MAX(longest[i - 1][k], longest[i][k - 1]));
        assert_int_equal(sequence_align(a, na, b, nb, to, &matched, &ordered), 0);
        assert_int_equal(ordered, longest[na][nb]);
        assert_true(matched >= ordered);
        for (size_t i = 0; i < na; i++)
            assert_true(to[i] == SEQUENCE_NONE || (to[i] < nb && a[i] == b[to[i]]));
    }
}

/* Nothing in common but many elements: bounded in memory and time. */
static void test_strangers(void **state)
{
    static uint32_t a[ROOM], b[ROOM], to[ROOM];
    size_t matched, ordered;

    (void)state;
    for (uint32_t i = 0; i < ROOM; i++) {
        a[i] = i;
        b[i] = ROOM - 1 - i;
    }
    assert_int_equal(sequence_align(a, ROOM, b, ROOM, to, &matched, &ordered), 0);
    assert_int_equal(matched, ROOM);
    for (uint32_t i = 0; i < ROOM; i++)
        assert_int_equal(to[i], ROOM - 1 - i);
}

static void test_find(void **state)
{
    static const uint32_t in[] = { 1, 1, 1, 2, 1, 1, 2, 3 };

    (void)state;
    assert_int_equal(sequence_find((const uint32_t[]){ 1, 1, 2 }, 3, in, 8), 1);
    assert_int_equal(sequence_find((const uint32_t[]){ 2, 3 }, 2, in, 8), 6);
    assert_int_equal(sequence_find((const uint32_t[]){ 3, 1 }, 2, in, 8), SIZE_MAX);
    assert_int_equal(sequence_find(in, 8, in, 8), 0);
    assert_int_equal(sequence_find(in, 8, in, 7), SIZE_MAX);
    assert_int_equal(sequence_find(in, 0, in, 7), SIZE_MAX);
}

static void test_marks(void **state)
{
    static const struct {
        const char *name;
        struct llm_mark want;
    } cases[] = {
        { "execute_context_1(128)_generation_3(3)", { -1, 4, 1, 3, 131, -1, -1, false } },
        { "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
          { -1, 32, 0, 32, 32, 32, 32785, false } },
        { "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489"
          "sqsq37sqsk34489)",
          { -1, 46, 9, 37, 8192, -1, 42919, false } },
        { "execute_new_1_cached_3", { -1, 4, 1, 3, -1, -1, -1, false } },
        { "step[DECODE bs=32]", { -1, 32, 0, 32, 32, 32, -1, false } },
        { "step[EXTEND bs=2 toks=512]", { -1, 2, 2, 0, 512, -1, -1, false } },
        { "step[MIXED bs=2]", { -1, 2, -1, -1, -1, -1, -1, false } },
        { "step[MIXED bs=5 c=2 g=3 c_sq=6144 c_sk=7144 g_sq=3 g_sk=6144]",
          { -1, 5, 2, 3, 6147, -1, 13288, false } },
        { "step[TARGET_VERIFY bs=2 c_sq=6 c_sk=30]", { -1, 2, 0, 2, 6, -1, 30, false } },
        { "decode[bs=117/128 tok=117 d=117]", { -1, 117, 0, 117, 117, 117, -1, false } },
        { "prefill[bs=2 tok=96 ctx=[64, 32]]", { -1, 2, 2, 0, 96, -1, 96, false } },
        { "[Executor] _forward_step 7: 1 ctx reqs, 128 ctx tokens, 3 gen reqs",
          { 7, 4, 1, 3, 131, -1, -1, false } },
        { "[Executor] _forward_step 8: 0 ctx reqs, 18 gen reqs",
          { 8, 18, 0, 18, 18, 18, -1, false } },
        { "[Executor] _forward_step: 2 ctx reqs, 0 gen reqs", { -1, 2, 2, 0, -1, -1, -1, false } },
        { "prefill", { -1, -1, -1, 0, -1, -1, -1, true } },
        { "Decode #12", { 12, -1, 0, -1, -1, -1, -1, true } },
        { "prefill 3 [bs=2 tokens=512, context=600]", { 3, 2, 2, 0, 512, -1, 600, false } },
        { "decode[batch=4]", { -1, 4, 0, 4, 4, 4, -1, false } },
    };
    static const char *const others[] = { "",
                                          "decode_jpeg",
                                          "decoder",
                                          "prefill[",
                                          "execute_context_",
                                          "execute_context_1(",
                                          "execute_context_1(2)_generation_",
                                          "execute_context_1(2)_generation_3(x)",
                                          "step[",
                                          "step[TRAIN bs=1]",
                                          "step[IDLE bs=0]",
                                          "step[3/10]",
                                          "execute_new_2",
                                          "prefill[bs=2 ctx=[1, x]]",
                                          "[Executor] _forward_step 7",
                                          "[Executor] _forward_step 7: 3 apples",
                                          "execute_99999999999999999999_context_1(2)_generation_3"
                                          "(3)",
                                          "ProfilerStep#3" };
    struct llm_mark m;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_true(llm_mark_read(cases[i].name, &m));
        assert_int_equal(m.num, cases[i].want.num);
        assert_int_equal(m.prefills, cases[i].want.prefills);
        assert_int_equal(m.decodes, cases[i].want.decodes);
        assert_int_equal(m.batch, cases[i].want.batch);
        assert_int_equal(m.tokens_in, cases[i].want.tokens_in);
        assert_int_equal(m.tokens_out, cases[i].want.tokens_out);
        assert_int_equal(m.context, cases[i].want.context);
        assert_int_equal(m.plain, cases[i].want.plain);
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_false(llm_mark_read(others[i], &m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),     cmocka_unit_test(test_random),
        cmocka_unit_test(test_strangers), cmocka_unit_test(test_find),
        cmocka_unit_test(test_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
