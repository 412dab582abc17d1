/* test_capped.c -- writing into memory of a fixed size: nothing beyond it, and it is said. */
#include "base/capped.h"
#include "unit.h"

static void test_fits(void **state)
{
    char text[8];
    struct capped c = capped_of(text, sizeof(text));

    (void)state;
    assert_string_equal(capped_str(&c), "");
    capped_addc(&c, 'a');
    capped_adds(&c, "bcd");
    capped_add(&c, NULL, 0);
    capped_add(&c, "efg", 3);
    assert_string_equal(capped_str(&c), "abcdefg");
    assert_int_equal(c.len, 7);
    assert_false(c.full);
}

static void test_full(void **state)
{
    struct {
        char text[4];
        char behind[4];
    } room = { .behind = "end" };
    struct capped c = capped_of(room.text, sizeof(room.text));

    (void)state;
    for (int i = 0; i < 40; i++)
        capped_addc(&c, '.');
    assert_true(c.full);
    assert_string_equal(capped_str(&c), "...");
    assert_string_equal(room.behind, "end");

    c = capped_of(room.text, sizeof(room.text));
    capped_addc(&c, 'a');
    capped_adds(&c, "bcdefgh");
    assert_true(c.full);
    assert_string_equal(capped_str(&c), "abc");
    capped_adds(&c, "");
    assert_true(c.full);
    assert_string_equal(room.behind, "end");

    c = capped_of(room.text, 1);
    capped_addc(&c, 'x');
    assert_true(c.full);
    assert_string_equal(capped_str(&c), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
