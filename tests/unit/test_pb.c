/* test_pb.c -- protobuf written, read back, and read from hostile bytes. */
#include "base/pb.h"
#include "unit.h"

static void test_bytes(void **state)
{
    static const struct {
        const char *want;
        size_t len;
    } cases[] = {
        { "\x08\x96\x01", 3 },                         /* 1: 150 */
        { "\x10\x01", 2 },                             /* 2: zigzag -1 */
        { "\x19\x01\x00\x00\x00\x00\x00\x00\x00", 9 }, /* 3: fixed64 1 */
        { "\x21\x00\x00\x00\x00\x00\x00\xf8\x3f", 9 }, /* 4: 1.5 */
        { "\x2a\x04"
          "Conv",
          6 },                                                  /* 5: "Conv" */
        { "\xf8\xff\xff\xff\x0f\x00", 6 },                      /* 2^29-1: 0 */
        { "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, /* 1: UINT64_MAX */
        { "\x32\x00", 2 },                                      /* 6: empty */
    };
    struct buf b = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        buf_clear(&b);
        switch (i) {
        case 0:
            pb_varint(&b, 1, 150);
            break;
        case 1:
            pb_sint(&b, 2, -1);
            break;
        case 2:
            pb_fixed64(&b, 3, 1);
            break;
        case 3:
            pb_double(&b, 4, 1.5);
            break;
        case 4:
            pb_str(&b, 5, "Conv");
            break;
        case 5:
            pb_varint(&b, (1u << 29) - 1, 0);
            break;
        case 6:
            pb_varint(&b, 1, UINT64_MAX);
            break;
        case 7:
            pb_bytes(&b, 6, NULL, 0);
            break;
        }
        assert_int_equal(b.len, cases[i].len);
        assert_memory_equal(b.data, cases[i].want, cases[i].len);
    }
    buf_release(&b);
}

/* Nested messages on both sides of every width of the length. */
static void test_nesting(void **state)
{
    static const size_t sizes[] = { 0,   1,   120,   123,   124,   125,     126,
                                    127, 128, 16379, 16383, 16384, 2097151, 2097152 };
    char *fill = calloc(1, 2097153);

    (void)state;
    assert_non_null(fill);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct buf b = { 0 };
        size_t outer = pb_begin(&b, 1), inner;
        struct pb_field f;
        struct rd r;

        pb_varint(&b, 7, 5);
        inner = pb_begin(&b, 2);
        pb_bytes(&b, 3, fill, sizes[i]);
        pb_end(&b, inner);
        pb_end(&b, outer);
        pb_varint(&b, 9, 42);
        assert_false(b.failed);

        r = rd_of(b.data, b.len);
        assert_true(pb_next(&r, &f));
        assert_int_equal(f.number, 1);
        assert_int_equal(f.wire, PB_LEN);
        {
            struct rd r1 = rd_of(f.p, f.len), r2;

            assert_true(pb_next(&r1, &f));
            assert_int_equal(f.number, 7);
            assert_int_equal(f.value, 5);
            assert_true(pb_next(&r1, &f));
            assert_int_equal(f.number, 2);
            r2 = rd_of(f.p, f.len);
            assert_true(pb_next(&r2, &f));
            assert_int_equal(f.number, 3);
            assert_int_equal(f.len, sizes[i]);
            assert_false(pb_next(&r2, &f));
            assert_false(r2.bad);
            assert_false(pb_next(&r1, &f));
            assert_false(r1.bad);
        }
        assert_true(pb_next(&r, &f));
        assert_int_equal(f.value, 42);
        assert_false(pb_next(&r, &f));
        assert_false(r.bad);
        buf_release(&b);
    }
    free(fill);
}

#define S(text) text, sizeof(text) - 1

static void test_read(void **state)
{
    static const struct {
        const char *in;
        size_t len;
        int fields; /* read before the end */
        bool bad;
    } cases[] = {
        { S(""), 0, false },
        { S("\x08\x01"), 1, false },
        { S("\x0d\x01\x02\x03\x04"), 1, false },     /* fixed32 */
        { S("\x0b\x08\x01\x0c\x10\x02"), 1, false }, /* a group, then a field */
        { S("\x0b\x13\x14\x0c"), 0, false },         /* group in group */
        { S("\x0b\x12\x01x\x19"
            "12345678"
            "\x25"
            "1234"
            "\x0c"),
          0, false },
        { S("\x08"), 0, true },
        { S("\x80"), 0, true },
        { S("\x00\x01"), 0, true }, /* field 0 */
        { S("\x00"), 0, true },
        { S("\x80\x80\x80\x80\x10\x00"), 0, true }, /* tag of 33 bits */
        { S("\x0e\x01"), 0, true },                 /* wire type 6 */
        { S("\x0f\x01"), 0, true },
        { S("\x0c"), 0, true },         /* end of no group */
        { S("\x0b\x08\x01"), 0, true }, /* group without end */
        { S("\x0b\x14"), 0, true },     /* other group's end */
        { S("\x0b\x0e\x0c"), 0, true },
        { S("\x0a\x05"
            "abcd"),
          0, true }, /* shorter than it says */
        { S("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0, true },
        { S("\x0b\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0, true },
        { S("\x09\x01\x02\x03"), 0, true },
        { S("\x0d\x01\x02\x03"), 0, true },
        { S("\x08\x01\x08"), 1, true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rd r = rd_of(cases[i].in, cases[i].len);
        struct pb_field f;
        int n = 0;

        while (pb_next(&r, &f))
            n++;
        assert_int_equal(n, cases[i].fields);
        assert_int_equal(r.bad, cases[i].bad);
        assert_false(pb_next(&r, &f));
    }
}

static void test_group_depth(void **state)
{
    (void)state;
    for (size_t depth = 31; depth <= 33; depth++) {
        uint8_t in[66];
        struct pb_field f;
        struct rd r = rd_of(in, 2 * depth);

        memset(in, 0x0b, depth);
        memset(in + depth, 0x0c, depth);
        assert_false(pb_next(&r, &f));
        assert_int_equal(r.bad, depth > 32);
    }
}

static int fill(void)
{
    struct buf b = { 0 };
    size_t mark = pb_begin(&b, 1);
    int rc;

    for (int i = 0; i < 100; i++)
        pb_str(&b, 2, "some operator");
    pb_end(&b, mark);
    rc = b.failed ? OPM_ENOMEM : 0;
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
        cmocka_unit_test(test_bytes), cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_read),  cmocka_unit_test(test_group_depth),
        cmocka_unit_test(test_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
