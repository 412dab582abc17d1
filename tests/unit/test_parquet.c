/* test_parquet.c -- the pieces of Parquet: thrift, runs, differences and packed bytes, against
 * bytes worked out by hand from the formats' documents; and hostile ones. */
#include "base/thrift.h"
#include "export/parquet/pq_encode.h"
#include "format/parquet.h"
#include "import/parquet/pq_meta.h"
#include "import/parquet/pq_unpack.h"
#include "import/parquet/pq_values.h"
#include "unit.h"

#include <stdlib.h>

static void test_thrift(void **state)
{
    /* 1: i32 150; 3: "ab"; 20: true; 21: list of i32 -1 and 1; 22: struct with 1: i64 0 */
    static const char want[] = "\x15\xac\x02\x28\x02"
                               "ab"
                               "\x01\x28\x19\x25\x01\x02\x1c\x16\x00\x00";
    struct buf b = { 0 };
    struct thrift_put t = thrift_put_of(&b);
    struct thrift_struct s, inner;
    struct thrift_field f;
    struct rd r;

    (void)state;
    thrift_put_i32(&t, 1, 150);
    thrift_put_str(&t, 3, "ab");
    thrift_put_bool(&t, 20, true);
    thrift_put_list(&t, 21, THRIFT_I32, 2);
    thrift_item_i32(&t, -1);
    thrift_item_i32(&t, 1);
    thrift_put_struct(&t, 22);
    thrift_put_i64(&t, 1, 0);
    thrift_put_end(&t);
    thrift_put_end(&t);
    assert_int_equal(b.len, sizeof(want));
    assert_memory_equal(b.data, want, sizeof(want));

    r = rd_of(b.data, b.len);
    s = thrift_open(&r);
    assert_true(thrift_next(&s, &f) && f.id == 1 && f.i == 150);
    assert_true(thrift_next(&s, &f) && f.id == 3 && f.len == 2 && memcmp(f.p, "ab", 2) == 0);
    assert_true(thrift_next(&s, &f) && f.id == 20 && f.type == THRIFT_TRUE && f.i == 1);
    assert_true(thrift_next(&s, &f) && f.id == 21 && f.len == 2 && f.item == THRIFT_I32);
    assert_true(thrift_item(&s, f.item, &f) && f.i == -1);
    assert_true(thrift_item(&s, THRIFT_I32, &f) && f.i == 1);
    assert_true(thrift_next(&s, &f) && f.id == 22 && f.type == THRIFT_STRUCT);
    inner = thrift_enter(&s);
    assert_true(thrift_next(&inner, &f) && f.i == 0);
    assert_false(thrift_next(&inner, &f));
    assert_false(thrift_next(&s, &f));
    assert_false(r.bad);
    buf_release(&b);
}

/* What malformed bytes do: nothing but .bad. */
static void test_thrift_hostile(void **state)
{
    static uint8_t deep[100000];
    static const struct {
        const char *p;
        size_t len;
    } cases[] = {
        { "\x19\xf5\xff\xff\xff\xff\x0f", 7 }, /* a list of 4 billion numbers */
        { "\x18\xff\xff\xff\xff\x7f", 6 },     /* a text of 32 GB */
        { "\x1b\xff\xff\x03\x55", 5 },         /* a map of 65535 */
        { "\x1d", 1 },                         /* no such type */
        { "\x15", 1 },                         /* nothing behind it */
        { "\x05\xff\xff\xff\x0f\x02", 6 },     /* a field number that is none */
    };
    struct thrift_struct s;
    struct thrift_field f;
    struct rd r;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        r = rd_of(cases[i].p, cases[i].len);
        s = thrift_open(&r);
        while (thrift_next(&s, &f))
            thrift_skip(&s, &f);
        assert_true(r.bad);
    }
    memset(deep, 0x1c, sizeof(deep)); /* a struct in a struct in a struct ... */
    r = rd_of(deep, sizeof(deep));
    s = thrift_open(&r);
    while (thrift_next(&s, &f))
        thrift_skip(&s, &f);
    assert_true(r.bad);
    memset(deep, 0x19, sizeof(deep)); /* the same of lists */
    r = rd_of(deep, sizeof(deep));
    s = thrift_open(&r);
    while (thrift_next(&s, &f))
        thrift_skip(&s, &f);
    assert_true(r.bad);
}

static void test_runs(void **state)
{
    /* The document's example: 0 to 7 with three bits each. */
    static const uint8_t packed[] = { 0x03, 0x88, 0xc6, 0xfa };
    /* 100 times 300 with nine bits: 100 << 1 as varint, two bytes. */
    static const uint8_t run[] = { 0xc8, 0x01, 0x2c, 0x01 };
    uint32_t v[200], got[200];
    struct buf b = { 0 };
    struct rd r = rd_of(packed, sizeof(packed));

    (void)state;
    for (uint32_t i = 0; i < 8; i++)
        v[i] = i;
    assert_true(pq_hybrid_get(&r, 3, got, 8));
    assert_memory_equal(got, v, 8 * sizeof(*v));
    pq_hybrid(&b, v, 8, 3);
    assert_int_equal(b.len, sizeof(packed));
    assert_memory_equal(b.data, packed, sizeof(packed));
    buf_clear(&b);
    for (size_t i = 0; i < 100; i++)
        v[i] = 300;
    pq_hybrid(&b, v, 100, 9);
    assert_int_equal(b.len, sizeof(run));
    assert_memory_equal(b.data, run, sizeof(run));
    r = rd_of(run, sizeof(run));
    assert_false(pq_hybrid_get(&r, 9, got, 101)); /* one more than there are */
    r = rd_of("\x00\x00", 2);
    assert_false(pq_hybrid_get(&r, 1, got, 1)); /* a run of none would never end */
    r = rd_of(packed, sizeof(packed));
    assert_false(pq_hybrid_get(&r, 33, got, 8));
    buf_release(&b);
}

static void test_runs_back(void **state)
{
    enum { N = 5000 };
    static uint32_t v[N], got[N];
    struct buf b = { 0 };

    (void)state;
    srand(1);
    for (unsigned width = 1; width <= 32; width++) {
        uint32_t mask = width == 32 ? UINT32_MAX : (1u << width) - 1;
        struct rd r;

        for (size_t i = 0; i < N;) /* runs of any length beside single ones */
            for (size_t n = 1 + (size_t)(rand() % 3 ? rand() % 4 : rand() % 700); n && i < N;
                 n--, i++)
                v[i] = (uint32_t)(i && n > 1 ? v[i - 1] : (uint32_t)rand() * 2654435761u) & mask;
        for (size_t n = 0; n <= N; n = n < 40 ? n + 1 : n + 977) {
            buf_clear(&b);
            pq_hybrid(&b, v, n, width);
            r = rd_of(buf_str(&b), b.len);
            assert_true(pq_hybrid_get(&r, width, got, n));
            assert_memory_equal(got, v, n * sizeof(*v));
            assert_int_equal(rd_left(&r), 0);
        }
    }
    buf_release(&b);
}

static void test_differences(void **state)
{
    /* The document's example: 7, 5, 3, 1, 2, 3, 4, 5 in one block of eight: the least difference is
     * -2, what is more than that takes two bits. */
    static const uint8_t packed[] = { 8, 1, 8, 14, 3, 2, 0xc0, 0x3f };
    static const int64_t want[] = { 7, 5, 3, 1, 2, 3, 4, 5 };
    static const int64_t extreme[] = { INT64_MIN, INT64_MAX, 0,  -1, INT64_MIN + 1,
                                       INT64_MAX, INT64_MIN, -1, 5 };
    int64_t v[1000], got[1000];
    struct buf b = { 0 };
    struct rd r = rd_of(packed, sizeof(packed));

    (void)state;
    assert_true(pq_delta_get(&r, got, 8));
    assert_memory_equal(got, want, sizeof(want));
    r = rd_of(packed, sizeof(packed));
    assert_false(pq_delta_get(&r, got, 7)); /* another number than is wanted */
    r = rd_of(packed, sizeof(packed) - 1);
    assert_false(pq_delta_get(&r, got, 8));
    r = rd_of("\x07\x01\x08\x00", 4);
    assert_false(pq_delta_get(&r, got, 8)); /* blocks that are no eights */
    srand(2);
    for (size_t n = 1; n <= 1000; n = n < 300 ? n + 1 : n + 350) {
        for (size_t i = 0; i < n; i++)
            v[i] = n % 3 ? (int64_t)i * 1000 + rand() % 50 : extreme[i % ARRAY_SIZE(extreme)];
        buf_clear(&b);
        pq_delta(&b, v, n);
        r = rd_of(b.data, b.len);
        assert_true(pq_delta_get(&r, got, n));
        assert_memory_equal(got, v, n * sizeof(*v));
        assert_int_equal(rd_left(&r), 0);
    }
    buf_release(&b);
}

static void test_unpack(void **state)
{
    static const struct {
        int codec;
        const char *p;
        size_t len;
        const char *want; /* NULL: damaged */
    } cases[] = {
        { PARQUET_SNAPPY, "\x05\x10hello", 7, "hello" },
        /* a literal of three, a copy of six from three before */
        { PARQUET_SNAPPY,
          "\x09\x08"
          "abc\x09\x03",
          7, "abcabcabc" },
        { PARQUET_SNAPPY,
          "\x09\x08"
          "abc\x16\x03\x00",
          8, "abcabcabc" },
        { PARQUET_SNAPPY,
          "\x09\x08"
          "abc\x09\x04",
          7, NULL }, /* from before the start */
        { PARQUET_SNAPPY,
          "\x09\x08"
          "abc\x09\x00",
          7, NULL },
        { PARQUET_SNAPPY, "\x04\x10hello", 7, NULL },            /* more than it says */
        { PARQUET_SNAPPY, "\x05\x14hello", 7, NULL },            /* more than there is */
        { PARQUET_SNAPPY, "\x05\xfc\xff\xff\xff\xff", 6, NULL }, /* four billion */
        { PARQUET_LZ4_RAW,
          "\x32"
          "abc\x03\x00\x00",
          7, "abcabcabc" },
        { PARQUET_LZ4_RAW, "\x50hello", 6, "hello" },
        { PARQUET_LZ4_RAW,
          "\x32"
          "abc\x09\x00\x00",
          7, NULL },
        { PARQUET_LZ4_RAW, "\xf0\xff\xff\xff", 4, NULL },
        { PARQUET_GZIP, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00", 17,
          "hello" },
        { PARQUET_GZIP, "\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03name", 14, NULL },
        { PARQUET_UNCOMPRESSED, "hello", 5, "hello" },
        { PARQUET_ZSTD, "hello", 5, NULL },
    };
    uint8_t out[16];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t n = cases[i].want ? strlen(cases[i].want) : i == 3 || i == 4 ? 9u : 5u;
        bool good = pq_unpack(cases[i].codec, (const uint8_t *)cases[i].p, cases[i].len, out, n);

        assert_int_equal(good, cases[i].want != NULL);
        if (good)
            assert_memory_equal(out, cases[i].want, n);
    }
}

/* A footer that says what cannot be. */
static void check_footer(const struct buf *footer, int code)
{
    struct buf file = { 0 };
    struct pq_meta m;
    opm_error err = { 0 };
    uint32_t len = (uint32_t)footer->len;

    buf_adds(&file, "PAR1");
    buf_add(&file, footer->data, footer->len);
    buf_add(&file, &len, 4);
    buf_adds(&file, "PAR1");
    assert_int_equal(pq_meta_read(&m, "f", (const uint8_t *)file.data, file.len, &err), code);
    if (code)
        assert_true(err.msg[0]);
    pq_meta_release(&m);
    buf_release(&file);
}

static void put_schema(struct thrift_put *t)
{
    thrift_put_list(t, 2, THRIFT_STRUCT, 2);
    thrift_item_struct(t);
    thrift_put_str(t, 4, "schema");
    thrift_put_i32(t, 5, 1);
    thrift_put_end(t);
    thrift_item_struct(t);
    thrift_put_i32(t, 1, PARQUET_INT64);
    thrift_put_str(t, 4, "ts");
    thrift_put_end(t);
}

static void put_group(struct thrift_put *t, int64_t nrow, int64_t at, int64_t len, size_t chunks)
{
    thrift_put_list(t, 4, THRIFT_STRUCT, 1);
    thrift_item_struct(t);
    thrift_put_list(t, 1, THRIFT_STRUCT, chunks);
    for (size_t i = 0; i < chunks; i++) {
        thrift_item_struct(t);
        thrift_put_struct(t, 3);
        thrift_put_i64(t, 7, len);
        thrift_put_i64(t, 9, at);
        thrift_put_end(t);
        thrift_put_end(t);
    }
    thrift_put_i64(t, 3, nrow);
    thrift_put_end(t);
}

static void test_footers(void **state)
{
    static const struct {
        int64_t nrow, at, len;
        size_t chunks;
        int code;
    } cases[] = {
        { 1, 4, 0, 1, 0 },
        { INT64_MAX, 4, 0, 1, OPM_EFORMAT },
        { -1, 4, 0, 1, OPM_EFORMAT },
        { 1, INT64_MAX, 1, 1, OPM_EFORMAT },
        { 1, 4, INT64_MAX, 1, OPM_EFORMAT },
        { 1, -4, 1, 1, OPM_EFORMAT },
        { 1, 4, 0, 2, OPM_EFORMAT }, /* more chunks than columns */
        { 1, 4, 0, 0, OPM_EFORMAT },
    };
    struct buf b = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct thrift_put t = thrift_put_of(&b);

        put_schema(&t);
        put_group(&t, cases[i].nrow, cases[i].at, cases[i].len, cases[i].chunks);
        thrift_put_end(&t);
        check_footer(&b, cases[i].code);
        buf_clear(&b);
    }
    check_footer(&b, OPM_EFORMAT); /* nothing at all */
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thrift),      cmocka_unit_test(test_thrift_hostile),
        cmocka_unit_test(test_runs),        cmocka_unit_test(test_runs_back),
        cmocka_unit_test(test_differences), cmocka_unit_test(test_unpack),
        cmocka_unit_test(test_footers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
