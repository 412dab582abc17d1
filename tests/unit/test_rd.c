/* test_rd.c -- the bounded reader: every getter stops at the end. */
#include "base/rd.h"
#include "unit.h"

static void test_fixed(void **state)
{
    static const uint8_t in[] = { 1,  2,  3,  4, 5, 6, 7, 8, 9, 10,   11,  12,
                                  13, 14, 15, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f };
    struct rd r = rd_of(in, sizeof(in));

    (void)state;
    assert_int_equal(rd_u8(&r), 1);
    assert_int_equal(rd_u16(&r), 0x0302);
    assert_int_equal(rd_u32(&r), 0x07060504);
    assert_int_equal(rd_u64(&r), 0x0f0e0d0c0b0a0908);
    assert_true(rd_f64(&r) == 1.5);
    assert_int_equal(rd_left(&r), 0);
    assert_false(r.bad);
    assert_int_equal(rd_u8(&r), 0);
    assert_true(r.bad);
}

static void test_short(void **state)
{
    static const uint8_t in[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

    (void)state;
    for (size_t len = 0; len < 8; len++) {
        struct rd r = rd_of(in, len);

        assert_int_equal(rd_u64(&r), 0);
        assert_true(r.bad);
        assert_int_equal(rd_u8(&r), 0); /* bad stays bad */
        assert_null(rd_bytes(&r, 0));
    }
    for (size_t want = 9; want; want *= 2) { /* up to half the address space */
        struct rd r = rd_of(in, sizeof(in));

        assert_null(rd_bytes(&r, want));
        assert_true(r.bad);
    }
}

static void test_varint(void **state)
{
    static const struct {
        const char *in;
        size_t len;
        uint64_t want;
        int64_t zigzag;
        bool bad;
    } cases[] = {
        { "\x00", 1, 0, 0, false },
        { "\x01", 1, 1, -1, false },
        { "\x7f", 1, 127, -64, false },
        { "\x80\x01", 2, 128, 64, false },
        { "\x80\x00", 2, 0, 0, false }, /* redundant but legal */
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX, INT64_MIN, false },
        { "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX - 1, INT64_MAX, false },
        { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 0, 0, true },
        { "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, 0, 0, true },
        { "", 0, 0, 0, true },
        { "\x80", 1, 0, 0, true },
        { "\xff\xff\xff", 3, 0, 0, true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rd r = rd_of(cases[i].in, cases[i].len), z = r;

        assert_int_equal(rd_varint(&r), cases[i].want);
        assert_int_equal(r.bad, cases[i].bad);
        assert_int_equal(rd_zigzag(&z), cases[i].zigzag);
        assert_int_equal(z.bad, cases[i].bad);
        if (!cases[i].bad)
            assert_int_equal(rd_left(&r), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_varint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
