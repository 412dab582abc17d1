/* test_native_regex.c -- regular expressions in RE2's syntax; what matches what is as Python's re
 * says, where it has the syntax, too. Of a search the first place counts, and there the longest. */
#include "engine/native/op/regex.h"

#include <opmeter/opmeter.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static const struct {
    const char *pattern, *text;
    bool matches;
} cases[] = {
    { "abc", "abc", true },
    { "abc", "ab", false },
    { "abc", "abcd", false },
    { "abc", "", false },
    { "a|bc|", "a", true },
    { "a|bc|", "bc", true },
    { "a|bc|", "", true },
    { "a|bc|", "abc", false },
    { "a|bc|", "b", false },
    { "(a|b)*c", "c", true },
    { "(a|b)*c", "abbac", true },
    { "(a|b)*c", "abb", false },
    { "(a|b)*c", "abbacc", false },
    { "www\\.[\\w.-]+\\.\\bcom\\b", "www.google.com", true },
    { "www\\.[\\w.-]+\\.\\bcom\\b", "www.facebook.com", true },
    { "www\\.[\\w.-]+\\.\\bcom\\b", "www.bbc.co.uk", false },
    { "(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@gmail.com", true },
    { "(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@hotmail.com", false },
    { "(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "not email", false },
    { "(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@yahoo.com", true },
    { "(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "account@yahoo.company", false },
    { "a{3}", "aaa", true },
    { "a{3}", "aa", false },
    { "a{3}", "aaaa", false },
    { "a{2,}", "a", false },
    { "a{2,}", "aa", true },
    { "a{2,}", "aaaaaaa", true },
    { "(ab){1,3}?", "ab", true },
    { "(ab){1,3}?", "ababab", true },
    { "(ab){1,3}?", "abababab", false },
    { "(ab){1,3}?", "", false },
    { "x\\{,3\\}y", "x{,3}y", true },
    { "x\\{,3\\}y", "xy", false },
    { "[^a-c]+", "xyz", true },
    { "[^a-c]+", "xaz", false },
    { "[^a-c]+", "", false },
    { "[^a-c]+", "\303\251\n", true },
    { "[]a-]+", "]-a", true },
    { "[]a-]+", "b", false },
    { "[\\d\\-x]+", "12-x", true },
    { "[\\d\\-x]+", "12y", false },
    { "\\d{4}-\\d\\d", "2024-01", true },
    { "\\d{4}-\\d\\d", "2024-1", false },
    { "\\d{4}-\\d\\d", "\331\242\331\240\331\242\331\244-01", false },
    { ".+", "a\nb", false },
    { ".+", "ab", true },
    { ".+", "", false },
    { ".+", "\303\251\342\202\254", true },
    { "(?s).+", "a\nb", true },
    { "(?i)HeLLo", "hello", true },
    { "(?i)HeLLo", "HELLO", true },
    { "(?i)HeLLo", "hell", false },
    { "a(?i:b)c", "aBc", true },
    { "a(?i:b)c", "ABc", false },
    { "a(?i:b)c", "abC", false },
    { "^a$", "a", true },
    { "^a$", "a\n", false },
    { "(?m)a$\\n^b", "a\nb", true },
    { "(?m)a$\\n^b", "ab", false },
    { "\\Aa\\B.\\b", "ab", true },
    { "\\Aa\\B.\\b", "a b", false },
    { "\\Aa\\B.\\b", "a-", false },
    { "\\x41\\t\\.\\*", "A\t.*", true },
    { "\\x41\\t\\.\\*", "A .*", false },
    { "(?P<year>\\d+)(?:-)(x)?", "12-", true },
    { "(?P<year>\\d+)(?:-)(x)?", "12-x", true },
    { "(?P<year>\\d+)(?:-)(x)?", "12", false },
    { "(a*)*b", "aaaab", true },
    { "(a*)*b", "aaaa", false },
    { "(a?){20}a{20}", "aaaaaaaaaaaaaaaaaaaa", true },
    { "(a?){20}a{20}", "aaaaaaaaaaaaaaaaaaa", false },
    { "[\342\202\254-\342\202\277]\303\251+", "\342\202\254\303\251", true },
    { "[\342\202\254-\342\202\277]\303\251+", "\342\202\271\303\251\303\251", true },
    { "[\342\202\254-\342\202\277]\303\251+", "$\303\251", false },
    { "()", "", true },
    { "()", "a", false },
    { "(|a)+", "", true },
    { "(|a)+", "aaa", true },
    { "(|a)+", "b", false },
    { "[[:alpha:]_]+[[:^digit:]]", "ab_-", true },
    { "[[:alpha:]]+", "a1", false },
    { "\\Qa.b\\Ec", "a.bc", true },
    { "\\Qa.b\\Ec", "axbc", false },
    { "a\\z", "a", true },
    { "\\x{20ac}", "\342\202\254", true },
    { "(?i)k", "\342\204\252", true }, /* the sign of Kelvin */
    { ".", "\377", false },            /* not UTF-8 */
};

static void matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct regex *r = NULL;
        const char *why = "";

        if (regex_new(&r, cases[i].pattern, strlen(cases[i].pattern), &why))
            fail_msg("'%s' %s", cases[i].pattern, why);
        for (int again = 0; again < 2; again++)
            if (regex_matches(r, cases[i].text, strlen(cases[i].text)) != cases[i].matches)
                fail_msg("'%s' on '%s' is not %d", cases[i].pattern, cases[i].text,
                         cases[i].matches);
        regex_free(r);
    }
}

static void finds(void **state)
{
    static const struct {
        const char *pattern, *text;
        size_t at;
        int begin, end; /* -1: nowhere */
    } some[] = {
        { "b+", "abbbc", 0, 1, 4 },
        { "b+", "abbbc", 2, 2, 4 },
        { "b+", "abbbc", 4, -1, -1 },
        { "b+", "", 0, -1, -1 },
        { "a|ab|abc", "xabcd", 0, 1, 4 }, /* the longest, not the first alternative */
        { "abc|b", "abd", 0, 1, 2 },      /* a match that began first comes to nothing */
        { "abcd|bc", "abcx", 0, 1, 3 },
        { "bc|abcd", "abcd", 0, 0, 4 }, /* what began first, though it ends later */
        { "a*?", "aaa", 0, 0, 3 },
        { "a*", "baa", 0, 0, 0 },
        { "a*", "baa", 1, 1, 3 },
        { "", "ab", 2, 2, 2 },
        { "^a", "aa", 1, -1, -1 }, /* what is before counts */
        { "\\bb", "ab b", 1, 3, 4 },
        { "\\Bb", "ab b", 1, 1, 2 },
        { "c$", "cc", 0, 1, 2 },
        { "[a-z]+\\d", "abc abc1", 0, 4, 8 },
        { "\303\251+", "x\303\251\303\251y", 0, 1, 5 },
        { "[^a]", "a\342\202\254", 0, 1, 4 },
        { ".", "\377x", 0, 1, 2 }, /* no UTF-8: nothing matches it */
        { "(x+x+)+y", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0, -1, -1 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
        size_t begin = 99, end = 99;
        struct regex *r = NULL;
        const char *why = "";

        if (regex_new(&r, some[i].pattern, strlen(some[i].pattern), &why))
            fail_msg("'%s' %s", some[i].pattern, why);
        for (int again = 0; again < 2; again++) {
            bool there =
                regex_finds(r, some[i].text, strlen(some[i].text), some[i].at, &begin, &end);

            if (there != (some[i].begin >= 0) ||
                (there && (begin != (size_t)some[i].begin || end != (size_t)some[i].end)))
                fail_msg("'%s' in '%s': %d, %zu to %zu", some[i].pattern, some[i].text, there,
                         begin, end);
        }
        regex_free(r);
    }
}

static void refuses(void **state)
{
    static const struct {
        const char *pattern;
        int rc;
    } bad[] = {
        { "(a)\\1", OPM_EUNSUPPORTED },
        { "(?=a)b", OPM_EUNSUPPORTED },
        { "(?<!a)b", OPM_EUNSUPPORTED },
        { "(?>a)", OPM_EUNSUPPORTED },
        { "\\pL", OPM_EUNSUPPORTED },
        { "\\C", OPM_EUNSUPPORTED },
        { "(?i)\303\251", OPM_EUNSUPPORTED },
        { "(a", OPM_EINVAL },
        { "a)", OPM_EINVAL },
        { "[a", OPM_EINVAL },
        { "*a", OPM_EINVAL },
        { "a**", OPM_EINVAL },
        { "a{1001}", OPM_EINVAL },
        { "a{3,2}", OPM_EINVAL },
        { "[b-a]", OPM_EINVAL },
        { "a\\", OPM_EINVAL },
        { "\\x{110000}", OPM_EINVAL },
        { "\377", OPM_EINVAL },
        { "((a{1000}){1000}){1000}", OPM_ELIMIT },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct regex *r = NULL;
        const char *why = "";
        int rc = regex_new(&r, bad[i].pattern, strlen(bad[i].pattern), &why);

        if (rc != bad[i].rc)
            fail_msg("'%s' gives %d instead of %d", bad[i].pattern, rc, bad[i].rc);
        assert_null(r);
        assert_true(*why);
    }
}

/* Whatever is given, nothing is read or written that is not there. */
static void survives(void **state)
{
    static const char some[] = "ab(|)[]^-\\*+?{}1,2.$:=<PQEdwxis\303\251";
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char pattern[24];
        size_t n = 0;
        struct regex *r = NULL;
        const char *why;

        while (n < sizeof(pattern)) {
            seed = seed * 1664525 + 1013904223;
            pattern[n++] = some[(seed >> 16) % (sizeof(some) - 1)];
            if ((seed >> 8) % 16 == 0)
                break;
        }
        if (regex_new(&r, pattern, n, &why) == 0) {
            size_t begin, end;
            bool all = regex_matches(r, "abab12\303\251", 8);

            if (regex_finds(r, "abab12\303\251", 8, 0, &begin, &end))
                assert_true(begin <= end && end <= 8);
            else
                assert_false(all);
            if (all)
                assert_true(begin == 0 && end == 8);
        }
        regex_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches),
        cmocka_unit_test(finds),
        cmocka_unit_test(refuses),
        cmocka_unit_test(survives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
