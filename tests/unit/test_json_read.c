/* test_json_read.c -- tokens, strictness, escapes and numbers. */
#include "base/json_read.h"
#include "unit.h"

/* The tokens of text as letters; '!' for a mistake. */
static const char *tokens(const char *text, size_t len)
{
    static const char letter[] = "!.{}[]ksntfz";
    static char out[512];
    struct json_reader r = json_read_of(text, len);
    size_t n = 0;
    enum json_token t;

    do {
        t = json_read_next(&r);
        out[n++] = letter[t];
    } while (t != JSON_BAD && t != JSON_DONE && n < sizeof(out) - 1);
    out[n] = '\0';
    return out;
}

static void test_tokens(void **state)
{
    static const struct {
        const char *text, *tokens;
    } cases[] = {
        { "{}", "{}." },
        { " [ ] ", "[]." },
        { "1", "n." },
        { "\"\"", "s." },
        { "[1,-0.5e+3,\"a\",true,false,null]", "[nnstfz]." },
        { "{\"a\" : {\"b\":[{},[]]}, \"c\":1}", "{k{k[{}[]]}kn}." },
        { "", "!" },
        { " ", "!" },
        { "[1,]", "[n!" },
        { "[,1]", "[!" },
        { "{\"a\"}", "{!" },
        { "{\"a\":}", "{k!" },
        { "{\"a\":1,}", "{kn!" },
        { "{1:2}", "{!" },
        { "[1 2]", "[n!" },
        { "[1]]", "[n]!" },
        { "[1}", "[n!" },
        { "1 2", "n!" },
        { "01", "!" },
        { "1.", "!" },
        { ".5", "!" },
        { "+1", "!" },
        { "1e", "!" },
        { "-", "!" },
        { "nul", "!" },
        { "\"a", "!" },
        { "\"a\nb\"", "!" },
        { "\"\\x\"", "!" },
        { "\"\\u12g4\"", "!" },
        { "\"\\", "!" },
        { "[", "[!" },
        { "{", "{!" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_string_equal(tokens(cases[i].text, strlen(cases[i].text)), cases[i].tokens);
    }
    assert_string_equal(tokens("[1]\0", 4), "[n]!");
    assert_string_equal(tokens(NULL, 0), "!");
}

static void test_depth(void **state)
{
    char text[2 * JSON_READ_DEPTH_MAX + 2];
    struct json_reader r;

    (void)state;
    memset(text, '[', JSON_READ_DEPTH_MAX);
    memset(text + JSON_READ_DEPTH_MAX, ']', JSON_READ_DEPTH_MAX);
    r = json_read_of(text, 2 * JSON_READ_DEPTH_MAX);
    json_read_next(&r);
    assert_true(json_read_skip(&r));
    assert_int_equal(json_read_next(&r), JSON_DONE);
    memset(text, '[', sizeof(text));
    r = json_read_of(text, sizeof(text));
    json_read_next(&r);
    assert_false(json_read_skip(&r));
    assert_int_equal(r.at - text, JSON_READ_DEPTH_MAX);
}

static void test_text(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        { "\"plain\"", "plain" },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
        { "\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac" },
        { "\"\\ud83d\\ude00!\"", "\xf0\x9f\x98\x80!" },
        { "\"\\ud83d\"", "\xef\xbf\xbd" },
        { "\"\\ude00x\"", "\xef\xbf\xbdx" },
        { "\"\\ud83d\\n\"", "\xef\xbf\xbd\n" },
    };
    struct json_reader after;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json_reader r = json_read_of(cases[i].json, strlen(cases[i].json));
        struct buf b = { 0 };

        assert_int_equal(json_read_next(&r), JSON_STRING);
        json_read_text(&r, &b);
        assert_string_equal(buf_str(&b), cases[i].text);
        assert_true(json_read_is(&r, cases[i].text));
        assert_false(json_read_is(&r, "plai"));
        assert_false(json_read_is(&r, "plain text"));
        assert_false(json_read_is(&r, ""));
        buf_release(&b);
    }
    /* What stands in place of a text is none, whatever was read before. */
    after = json_read_of("{\"name\":[", 9);
    assert_int_equal(json_read_next(&after), JSON_OBJECT);
    assert_int_equal(json_read_next(&after), JSON_KEY);
    assert_true(json_read_is(&after, "name"));
    assert_int_equal(json_read_next(&after), JSON_ARRAY);
    assert_false(json_read_is(&after, "name"));
}

static void test_numbers(void **state)
{
    static const struct {
        const char *json;
        bool is_int;
        int64_t i;
        bool is_real;
        double real;
    } cases[] = {
        { "0", true, 0, true, 0 },
        { "-12", true, -12, true, -12 },
        { "9223372036854775807", true, INT64_MAX, true, 9223372036854775807.0 },
        { "9223372036854775808", false, 0, true, 9223372036854775808.0 },
        { "1.5", false, 0, true, 1.5 },
        { "1e400", false, 0, false, 0 },
        { "\"1024\"", true, 1024, true, 1024 },
        { "\"\"", false, 0, false, 0 },
        { "\"12 kB\"", false, 0, false, 0 },
        { "\"nan\"", false, 0, false, 0 },
        { "\"0x10\"", false, 0, false, 0 },
        { "true", false, 0, false, 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json_reader r = json_read_of(cases[i].json, strlen(cases[i].json));
        int64_t n = 7;
        double real = 7;

        json_read_next(&r);
        assert_int_equal(json_read_int(&r, &n), cases[i].is_int);
        assert_int_equal(n, cases[i].is_int ? cases[i].i : 7);
        assert_int_equal(json_read_real(&r, &real), cases[i].is_real);
        assert_true(real == (cases[i].is_real ? cases[i].real : 7));
    }
}

static void test_skip(void **state)
{
    static const char text[] = "{\"a\":{\"x\":[1,{}]},\"b\":[[]],\"c\":5}";
    struct json_reader r = json_read_of(text, sizeof(text) - 1);
    int64_t v = 0;

    (void)state;
    assert_int_equal(json_read_next(&r), JSON_OBJECT);
    while (json_read_next(&r) == JSON_KEY) {
        if (json_read_is(&r, "c")) {
            json_read_next(&r);
            assert_true(json_read_int(&r, &v));
        } else {
            assert_true(json_read_skip(&r));
        }
    }
    assert_int_equal(r.token, JSON_OBJECT_END);
    assert_int_equal(json_read_next(&r), JSON_DONE);
    assert_int_equal(v, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),  cmocka_unit_test(test_depth), cmocka_unit_test(test_text),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_skip),
    };

    return cmocka_run_group_tests_name("json_read", tests, NULL, NULL);
}
