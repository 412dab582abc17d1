/* test_npy.c -- .npy and .npz: what NumPy writes is read, what is broken is refused. */
#include "run/npy.h"
#include "unit.h"

/* A version 1 file with this dictionary and these elements. */
static size_t make_npy(char *out, const char *dict, const void *data, size_t len)
{
    size_t n = strlen(dict);

    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)n;
    out[9] = (char)(n >> 8);
    memcpy(out + 10, dict, n);
    memcpy(out + 10 + n, data, len);
    return 10 + n + len;
}

/* What numpy.save() writes for np.array(["a", "é€", ""]) and np.array([b"ab", b""]). */
static void test_strings(void **state)
{
    static const char wide[] = "a\0\0\0\0\0\0\0\xe9\0\0\0\xac\x20\0\0\0\0\0\0\0\0\0\0",
                      turned[] = "\0\0\0a\0\0\0\0\0\0\0\xe9\0\0\x20\xac\0\0\0\0\0\0\0\0";
    static const struct {
        const char *dict, *data;
        size_t len;
        int rc;
        const char *want[3];
    } cases[] = {
        { "{'descr': '<U2', 'fortran_order': False, 'shape': (3,), }",
          wide,
          24,
          0,
          { "a", "\xc3\xa9\xe2\x82\xac", "" } },
        { "{'descr': '>U2', 'fortran_order': False, 'shape': (3,), }",
          turned,
          24,
          0,
          { "a", "\xc3\xa9\xe2\x82\xac", "" } },
        { "{'descr': '|S2', 'fortran_order': False, 'shape': (3,), }",
          "ab\0\0c\0",
          6,
          0,
          { "ab", "", "c" } },
        { "{'descr': '<U0', 'fortran_order': False, 'shape': (3,), }", "", 0, 0, { "", "", "" } },
        { "{'descr': '<U2', 'fortran_order': False, 'shape': (4,), }",
          wide,
          24,
          OPM_ETRUNC,
          { 0 } },
        { "{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999,), }",
          "",
          0,
          OPM_ETRUNC,
          { 0 } },
        { "{'descr': '<U', 'fortran_order': False, 'shape': (1,), }",
          wide,
          24,
          OPM_EUNSUPPORTED,
          { 0 } },
        { "{'descr': '<U999999999999', 'fortran_order': False, 'shape': (1,), }",
          wide,
          24,
          OPM_EUNSUPPORTED,
          { 0 } },
    };
    struct arena arena = { 0 };
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct tensor t;
        char file[512];
        size_t len = make_npy(file, cases[i].dict, cases[i].data, cases[i].len);

        assert_int_equal(npy_parse(&t, file, len, "x.npy", &arena, &err), cases[i].rc);
        for (int k = 0; !cases[i].rc && k < 3; k++)
            assert_string_equal(((const struct tensor_string *)t.data)[k].s, cases[i].want[k]);
    }
    arena_release(&arena);
}

static void test_types(void **state)
{
    static const struct {
        const char *dict;
        enum tensor_type type;
        const char *shape;
        int rc;
    } cases[] = {
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", TENSOR_F32, "2x1", 0 },
        { "{'descr': '|u1', 'fortran_order': False, 'shape': (8,), }", TENSOR_U8, "8", 0 },
        { "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 4)}", TENSOR_BOOL, "2x4", 0 },
        { "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", TENSOR_I64, "scalar", 0 },
        { "{\"shape\": (1L,), \"descr\": \"<i8\", \"fortran_order\": False}", TENSOR_I64, "1", 0 },
        { "{'descr': '<f2', 'fortran_order': True, 'shape': (2, 2), }", TENSOR_F16, "2x2", 0 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }", TENSOR_F32, "0x7", 0 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 0, "", OPM_ETRUNC },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999,9999999999), }", 0, "",
          OPM_ETRUNC },
        { "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 0, "", OPM_EUNSUPPORTED },
        { "{'descr': [('a','<f4')], 'fortran_order': False, 'shape': (1,), }", 0, "", OPM_EFORMAT },
        { "{'descr': '<f4', 'shape': (1,), }", 0, "", OPM_EFORMAT },
        { "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", 0, "", OPM_EFORMAT },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 0, "", OPM_EFORMAT },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", 0, "", OPM_EFORMAT },
        { "{", 0, "", OPM_EFORMAT },
        { "", 0, "", OPM_EFORMAT },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct arena arena = { 0 };
        struct tensor t;
        char file[512], shape[64];
        size_t len = make_npy(file, cases[i].dict, "12345678", 8);
        opm_error err;

        assert_int_equal(npy_parse(&t, file, len, "x.npy", &arena, &err), cases[i].rc);
        if (!cases[i].rc) {
            shape_text(&t.shape, shape, sizeof(shape));
            assert_int_equal(t.type, cases[i].type);
            assert_string_equal(shape, cases[i].shape);
        }
        arena_release(&arena);
    }
}

static void test_orders(void **state)
{
    static const uint8_t bytes[] = { 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0 };
    struct arena arena = { 0 };
    struct tensor t;
    char file[512];
    size_t len = make_npy(file, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", bytes,
                          sizeof(bytes));
    static const int want[] = { 1, 3, 5, 2, 4, 6 };

    (void)state;
    assert_int_equal(npy_parse(&t, file, len, "x", &arena, NULL), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(tensor_int(&t, i), want[i]);
    len = make_npy(file, "{'descr': '>i2', 'fortran_order': False, 'shape': (6,), }", bytes,
                   sizeof(bytes));
    assert_int_equal(npy_parse(&t, file, len, "x", &arena, NULL), 0);
    assert_int_equal(tensor_int(&t, 1), 0x0200);
    arena_release(&arena);
}

static void test_write(void **state)
{
    static const float v[] = { 1, 2, 3, 4, 5, 6 };
    static const struct shape shapes[] = { { 2, { 2, 3 } }, { 1, { 6 } }, { 3, { 1, 6, 1 } } };
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
        struct tensor t = { .type = TENSOR_F32, .count = 6, .data = v, .bytes = sizeof(v) }, back;
        const char *path = unit_path("w.npy");
        struct arena arena = { 0 };
        struct io_map map;

        t.shape = shapes[i];
        assert_int_equal(npy_write(path, &t, &err), 0);
        assert_int_equal(io_map(&map, path, 0, &err), 0);
        assert_int_equal((map.len - sizeof(v)) % 64, 0);
        assert_int_equal(npy_parse(&back, map.data, map.len, path, &arena, &err), 0);
        assert_true(shape_equal(&back.shape, &t.shape));
        assert_memory_equal(back.data, v, sizeof(v));
        io_map_release(&map);
        arena_release(&arena);
    }
    assert_int_equal(npy_write(unit_path("w.npy"), &(struct tensor){ .type = TENSOR_BF16 }, &err),
                     OPM_EUNSUPPORTED);
}

/* An array of 0, 1, 2 named in_x as numpy.savez_compressed and numpy.savez write it. */
static const char deflated_hex[] =
    "504b03042d00000008000000210002ecbda9ffffffffffffffff08001400696e5f782e6e7079010010008c00"
    "0000000000004c000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a2aea3a09e96"
    "5f54529498179f5f94920a12774bcc294e058a17672416a402f91ac63a9a3a0ab50a14002e06206004622620"
    "0600504b01022d032d00000008000000210002ecbda94c0000008c0000000800000000000000000000008001"
    "00000000696e5f782e6e7079504b0506000000000100010036000000860000000000";
static const char stored_hex[] =
    "504b03042d00000000000000210002ecbda9ffffffffffffffff08001400696e5f782e6e7079010010008c00"
    "0000000000008c00000000000000934e554d5059010076007b276465736372273a20273c6934272c2027666f"
    "727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c292c207d20202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020200a000000000100000002000000504b01022d032d00000000000000210002ecbda98c00"
    "00008c000000080000000000000000000000800100000000696e5f782e6e7079504b05060000000001000100"
    "36000000c60000000000";

static size_t from_hex(uint8_t *out, const char *hex)
{
    size_t n = 0;
    unsigned v;

    for (; hex[0] && hex[1]; hex += 2) {
        sscanf(hex, "%2x", &v);
        out[n++] = (uint8_t)v;
    }
    return n;
}

static void test_npz(void **state)
{
    static const char *const files[] = { deflated_hex, stored_hex };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        uint8_t file[2048];
        size_t len = from_hex(file, files[i]);
        const struct tensor *t;
        struct npz z;

        assert_int_equal(npz_parse(&z, file, len, "r.npz", NULL), 0);
        assert_int_equal(z.n, 1);
        t = npz_find(&z, "in_x");
        assert_non_null(t);
        assert_null(npz_find(&z, "in_y"));
        for (int k = 0; k < 3; k++)
            assert_int_equal(tensor_int(t, k), k);
        npz_close(&z);
        for (size_t cut = 0; cut < len; cut++)
            assert_true(npz_parse(&z, file, cut, "r.npz", NULL) < 0);
        for (size_t at = 0; at < len; at++) { /* a broken byte is an error or changes nothing */
            file[at] ^= 0x55;
            if (npz_parse(&z, file, len, "r.npz", NULL) == 0)
                npz_close(&z);
            file[at] ^= 0x55;
        }
    }
}

static uint8_t memory_file[2048];
static size_t memory_len;

static int parse_step(void)
{
    struct npz z;
    int rc = npz_parse(&z, memory_file, memory_len, "r.npz", NULL);

    npz_close(&z);
    return rc;
}

static void test_memory(void **state)
{
    (void)state;
    memory_len = from_hex(memory_file, deflated_hex);
    unit_fail_each(parse_step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types), cmocka_unit_test(test_strings), cmocka_unit_test(test_orders),
        cmocka_unit_test(test_write), cmocka_unit_test(test_npz),     cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests_name("npy", tests, NULL, unit_cleanup);
}
