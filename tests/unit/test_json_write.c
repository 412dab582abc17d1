/* test_json_write.c -- what is written is valid JSON; what is not valid JSON is refused. */
#include "base/json_write.h"
#include "unit.h"

#include <float.h>
#include <locale.h>
#include <math.h>

#define S(text) text, sizeof(text) - 1

static void test_structure(void **state)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };

    (void)state;
    json_object(&w);
    json_key(&w, "a");
    json_i64(&w, 1);
    json_key(&w, "b\"");
    json_array(&w);
    json_null(&w);
    json_bool(&w, true);
    json_bool(&w, false);
    json_newline(&w);
    json_cstr(&w, NULL);
    json_cstr(&w, "x");
    json_array(&w);
    json_array_end(&w);
    json_object(&w);
    json_object_end(&w);
    json_array_end(&w);
    json_key(&w, "c");
    json_raw(&w, "[1, 2]", 6);
    json_object_end(&w);
    assert_string_equal(buf_str(&b),
                        "{\"a\":1,\"b\\\"\":[null,true,false\n,null,\"x\",[],{}],\"c\":[1, 2]}");
    assert_true(json_valid(b.data, b.len));
    buf_release(&b);
}

static void test_depth(void **state)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };

    (void)state;
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_array(&w);
    json_i64(&w, 1);
    json_i64(&w, 2);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_array_end(&w);
    assert_true(json_valid(b.data, b.len));
    assert_non_null(strstr(b.data, "[1,2]"));
    buf_release(&b);
}

static void test_strings(void **state)
{
    static const struct {
        const char *in;
        size_t len;
        const char *want;
    } cases[] = {
        { S(""), "\"\"" },
        { S("Conv"), "\"Conv\"" },
        { S("a plain run of more than sixteen bytes ~\x7f"),
          "\"a plain run of more than sixteen bytes ~\x7f\"" },
        { S("quote \" at some place"), "\"quote \\\" at some place\"" },
        { S("C:\\tmp\\x"), "\"C:\\\\tmp\\\\x\"" },
        { S("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"" },
        { S("\0\x01\x1f"), "\"\\u0000\\u0001\\u001f\"" },
        { S("12345678\n"), "\"12345678\\n\"" },
        { S("1234567\x1f"), "\"1234567\\u001f\"" },
        { S("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        /* from here on not UTF-8 */
        { S("\xff"), "\"\xef\xbf\xbd\"" },
        { S("a\x80z"), "\"a\xef\xbf\xbdz\"" },
        { S("\xc3"), "\"\xef\xbf\xbd\"" },
        { S("\xc3("), "\"\xef\xbf\xbd(\"" },
        { S("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, /* overlong '/' */
        { S("\xe0\x80\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { S("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, /* surrogate */
        { S("\xf4\x90\x80\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { S("\xe2\x82"), "\"\xef\xbf\xbd\"" }, /* cut: one, as Unicode recommends */
        { S("\xf0\x9f\x98"), "\"\xef\xbf\xbd\"" },
        { S("\xf0\x9f\x98x"), "\"\xef\xbf\xbdx\"" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b = { 0 };
        struct json_writer w = { .buf = &b };

        json_str(&w, cases[i].in, cases[i].len);
        assert_string_equal(buf_str(&b), cases[i].want);
        assert_true(json_valid(b.data, b.len));
        buf_release(&b);
    }
}

/* Every byte at every place of a word: the fast path must see what the slow one sees. */
static void test_every_byte(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        for (size_t at = 0; at < 20; at++) {
            char in[21] = "aaaaaaaaaaaaaaaaaaaa";
            struct buf b = { 0 };
            struct json_writer w = { .buf = &b };
            bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';

            in[at] = (char)c;
            json_str(&w, in, 20);
            assert_true(json_valid(b.data, b.len));
            assert_int_equal(b.len == 22, plain);
            if (plain)
                assert_memory_equal(b.data + 1, in, 20);
            buf_release(&b);
        }
    }
}

static void test_integers(void **state)
{
    static const struct {
        int64_t v;
        const char *want;
    } cases[] = {
        { 0, "0" },
        { 9, "9" },
        { 10, "10" },
        { 99, "99" },
        { 100, "100" },
        { -1, "-1" },
        { 12345, "12345" },
        { INT64_MAX, "9223372036854775807" },
        { -1234567890, "-1234567890" },
        { INT64_MIN, "-9223372036854775808" },
    };
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        buf_clear(&b);
        json_i64(&w, cases[i].v);
        assert_string_equal(buf_str(&b), cases[i].want);
    }
    buf_clear(&b);
    json_u64(&w, UINT64_MAX);
    assert_string_equal(buf_str(&b), "18446744073709551615");
    for (uint64_t v = 1, i = 0; i < 20; i++, v *= 10) {
        char want[32];

        for (int d = -1; d <= 1; d++) {
            snprintf(want, sizeof(want), "%llu", (unsigned long long)(v + (uint64_t)d));
            buf_clear(&b);
            json_u64(&w, v + (uint64_t)d);
            assert_string_equal(buf_str(&b), want);
        }
    }
    buf_release(&b);
}

static void test_reals(void **state)
{
    static const struct {
        double v;
        const char *want;
    } cases[] = {
        { 0, "0" },
        { -0.0, "-0.0" },
        { 1, "1" },
        { -1.5, "-1.5" },
        { 0.1, "0.1" },
        { 123456.789, "123456.789" },
        { -0.001, "-0.001" },
        { 0.000001, "0.000001" },
        { 1700000000.123456, "1700000000.123456" },
        { 999999999999999, "999999999999999" },
        { 100000000000000, "100000000000000" },
        { 123456789012345, "123456789012345" },
        { 1e15, "1e+15" },
        { 1e300, "1e+300" },
        { 5e-324, "4.94065645841247e-324" },
        { 1.0 / 3, "0.3333333333333333" },
        { 0.1 + 0.2, "0.30000000000000004" },
        { DBL_MAX, "1.7976931348623157e+308" },
        { INFINITY, "null" },
        { -INFINITY, "null" },
        { NAN, "null" },
    };
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        buf_clear(&b);
        json_f64(&w, cases[i].v);
        assert_string_equal(buf_str(&b), cases[i].want);
        assert_true(json_valid(b.data, b.len));
    }
    buf_release(&b);
}

static void test_reals_round_trip(void **state)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };
    uint64_t x = 88172645463325252u;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        double v;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (i % 2)
            memcpy(&v, &x, sizeof(v));
        else
            v = (double)(int64_t)(x >> (x % 50)) / (i % 4 ? 1000 : 1e6);
        if (!isfinite(v))
            continue;
        buf_clear(&b);
        json_f64(&w, v);
        if (strtod(b.data, NULL) != v || !json_valid(b.data, b.len))
            fail_msg("%.17g became %s", v, b.data);
    }
    buf_release(&b);
}

static void test_locale(void **state)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };

    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        skip();
    json_f64(&w, 1.0 / 3);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(buf_str(&b), "0.3333333333333333");
    buf_release(&b);
}

static void test_to_file(void **state)
{
    const char *path = unit_path("json");
    struct io_out o = { 0 };
    struct json_writer w = { .out = &o };
    struct io_map m = { 0 };

    (void)state;
    assert_int_equal(io_out_open(&o, path, NULL), 0);
    json_array(&w);
    for (int i = 0; i < 100000; i++)
        json_i64(&w, i);
    json_array_end(&w);
    assert_int_equal(io_out_close(&o, true, NULL), 0);
    assert_int_equal(io_map(&m, path, 0, NULL), 0);
    assert_true(json_valid((const char *)m.data, m.len));
    io_map_release(&m);
}

static void test_valid(void **state)
{
    static const struct {
        const char *in;
        size_t len;
        bool want;
    } cases[] = {
        { S("null"), true },
        { S(" true "), true },
        { S("\t\r\n false"), true },
        { S("0"), true },
        { S("-0"), true },
        { S("-0.0e-0"), true },
        { S("1e5"), true },
        { S("1E+5"), true },
        { S("123.456"), true },
        { S("\"\""), true },
        { S("\"\\u00e9\\uD83D\\n\\/\""), true },
        { S("\"\xff\""), true }, /* UTF-8 is not checked */
        { S("[]"), true },
        { S("{}"), true },
        { S("[ ]"), true },
        { S("{ }"), true },
        { S("[1,[2,{\"a\":[]}],\"x\"]"), true },
        { S("{\"a\":{\"b\":[{},{}]},\"a\":1}"), true },
        { S("[\n1\n,\n2\n]\n"), true },
        { S(""), false },
        { S(" "), false },
        { S("nul"), false },
        { S("nulll"), false },
        { S("True"), false },
        { S("01"), false },
        { S("-"), false },
        { S("+1"), false },
        { S(".5"), false },
        { S("1."), false },
        { S("1e"), false },
        { S("1e+"), false },
        { S("0x10"), false },
        { S("NaN"), false },
        { S("Infinity"), false },
        { S("\""), false },
        { S("\"\\"), false },
        { S("\"\\\""), false },
        { S("\"\\x\""), false },
        { S("\"\\u12g4\""), false },
        { S("\"\\u12"), false },
        { S("\"a\nb\""), false },
        { S("\"a\0b\""), false },
        { S("\"\\\0\""), false },
        { S("\"\\u000\0\""), false },
        { S("'a'"), false },
        { S("["), false },
        { S("]"), false },
        { S("[1,]"), false },
        { S("[,1]"), false },
        { S("[1 2]"), false },
        { S("[1}"), false },
        { S("{\"a\"}"), false },
        { S("{\"a\":}"), false },
        { S("{\"a\":1,}"), false },
        { S("{a:1}"), false },
        { S("{1:1}"), false },
        { S("{\"a\":1]"), false },
        { S("{,}"), false },
        { S("1 2"), false },
        { S("{}{}"), false },
        { S("[]]"), false },
        { S("[1]\0"), false },
        { S("\xef\xbb\xbf[]"), false },
        { S("/**/1"), false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *exact = malloc(cases[i].len + !cases[i].len); /* ASan sees a read too far */

        assert_non_null(exact);
        memcpy(exact, cases[i].in, cases[i].len);
        if (json_valid(exact, cases[i].len) != cases[i].want)
            fail_msg("case %zu: %s", i, cases[i].in);
        free(exact);
    }
}

static void test_valid_depth(void **state)
{
    (void)state;
    for (size_t depth = 255; depth <= 257; depth++) {
        char text[600];

        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(json_valid(text, 2 * depth), depth <= 256);
        assert_false(json_valid(text, depth));
    }
}

static int fill(void)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };
    int rc;

    json_array(&w);
    for (int i = 0; i < 200; i++)
        json_f64(&w, i / 3.0);
    json_array_end(&w);
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
        cmocka_unit_test(test_structure),        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_strings),          cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_integers),         cmocka_unit_test(test_reals),
        cmocka_unit_test(test_reals_round_trip), cmocka_unit_test(test_locale),
        cmocka_unit_test(test_to_file),          cmocka_unit_test(test_valid),
        cmocka_unit_test(test_valid_depth),      cmocka_unit_test(test_fail),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
