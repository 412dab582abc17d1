/* test_costly.c -- functions that SQLite has, too, give what SQLite gives; and they can be ended.
 */
#include "sql/expansion.h"
#include "sql_rig.h"
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

static struct sql *open_sql(struct store **st)
{
    struct sql *q;
    opm_error err;

    assert_int_equal(store_new(st), 0);
    assert_int_equal(store_finish(*st), 0);
    assert_int_equal(sql_open(&q, *st, &err), 0);
    return q;
}

/* The cells of `texts` in all places that %s has in an expression. */
static const char *const texts[] = {
    "NULL",
    "''",
    "'a'",
    "'A'",
    "'%'",
    "'_'",
    "'abcabc'",
    "'bc'",
    "'aab'",
    "'%b_'",
    "'a%c%'",
    "'a\\%b'",
    "'*b?'",
    "'[a-c]*'",
    "'[^a-c]*'",
    "'[]x]'",
    "'[a'",
    "'\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80'",
    "'\xe2\x82\xac'",
    "'_\xe2\x82\xac%'",
    "'  x y  '",
    "12",
    "-1.5",
    "x'e282ac00ff'",
    "x'82ac'",
    "x''",
    "'%%%'",
    "'[\xc3\xa4-\xe2\x82\xac]*'",
};

static void compare_with(struct sql *q, sqlite3 *db, const char *expression)
{
    struct buf ours = { 0 }, theirs = { 0 }, text = { 0 };

    buf_addf(&text, "SELECT %s", expression);
    ask(q, buf_str(&text), &ours);
    ask_plain(db, buf_str(&text), &theirs);
    if (strcmp(buf_str(&ours), buf_str(&theirs)) != 0)
        fail_msg("%s:\n%s\nnot\n%s", buf_str(&text), buf_str(&ours), buf_str(&theirs));
    buf_release(&ours);
    buf_release(&theirs);
    buf_release(&text);
}

static void test_same_as_sqlite(void **state)
{
    static const char *const binary[] = { "instr(%s, %s)",
                                          "%s LIKE %s",
                                          "%s GLOB %s",
                                          "trim(%s, %s)",
                                          "ltrim(%s, %s)",
                                          "rtrim(%s, %s)",
                                          "%s LIKE %s ESCAPE '\\'",
                                          "%s LIKE %s ESCAPE '_'",
                                          "%s LIKE %s ESCAPE '%%'",
                                          "replace(%s, %s, 'xyz')",
                                          "replace(%s, %s, '')" };
    static const char *const formats[] = {
        "'plain'",
        "'100%'",
        "'%d|%5d|%-5d|%05d|%+d|% d|%,d', 1, 22, 333, 4444, 5, 6, 7654321",
        "'%x|%X|%o|%u|%#x|%08.3f', 255, 255, 8, 9, 10, 3.14159",
        "'%e|%E|%g|%G|%!.20g', 1.5, 2.5, 3.5, 1e100, 0.1",
        "'%s|%10s|%-10s|%.2s|%z', 'a', 'b', 'c', 'defg', 'h'",
        "'%q|%Q|%w|%Q', 'it''s', 'it''s', 'a\"b', NULL",
        "'%c|%5c|%-5c|%.3c|%6.3c|%-6.3c', 'abc', 'd', 'e', 'f', 'g', 'h'",
        "'%.4c', '\xe2\x82\xac'",
        "'%*d|%-*d|%.*f|%*d', 5, 1, 5, 2, 3, 1.23456, -6, 7",
        "'%ld|%lld|%5lld', 1, 2, 3",
        "'%d %s %f'",
        "'%d', 'no number'",
        "'%i%%%i', 1, 2",
        "'a%yb', 1",
        "'%5%|'",
        "'%r %r %r', 1, 2, 11",
        "'%.2000000000s', 'a'",
        "NULL, 1",
        "'%s', x'616263'",
        "'%llx', -1",
    };
    struct store *st;
    struct sql *q = open_sql(&st);
    struct buf text = { 0 };
    sqlite3 *db;

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(binary); i++) {
        for (size_t a = 0; a < ARRAY_SIZE(texts); a++) {
            for (size_t b = 0; b < ARRAY_SIZE(texts); b++) {
                buf_clear(&text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                buf_addf(&text, binary[i], texts[a], texts[b]);
#pragma GCC diagnostic pop
                compare_with(q, db, buf_str(&text));
            }
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        buf_clear(&text);
        buf_addf(&text, "printf(%s)", formats[i]);
        compare_with(q, db, buf_str(&text));
    }
    compare_with(q, db, "format('%d', 7)");
    compare_with(q, db, "'x' LIKE 'x' ESCAPE 'ab'");
    compare_with(q, db, "trim('  a b '), ltrim('  a '), rtrim(' a  ')");
    buf_release(&text);
    sqlite3_close(db);
    sql_close(q);
    store_free(st);
}

/* LIKE over the alphabet {a, b, %, _}, all pairs of a length: the wildcards meet in every way. */
static void test_every_pattern(void **state)
{
    struct store *st;
    struct sql *q = open_sql(&st);
    const char *sql =
        "WITH c(x) AS (VALUES ('a'), ('b'), (''))%s, p(x) AS (SELECT a.x || b.x || c.x || d.x || "
        "e.x FROM w a, w b, w c, w d, w e), t(x) AS (SELECT a.x || b.x || c.x || d.x FROM c a, c "
        "b, c c, c d) SELECT sum(t.x %s p.x) FROM t, p";
    static const struct {
        const char *wildcards, *operator;
    } kinds[] = { { ", w(x) AS (VALUES ('a'), ('B'), ('%'), ('_'))", "LIKE" },
                  { ", w(x) AS (VALUES ('a'), ('b'), ('*'), ('?'), ('[^a]'))", "GLOB" } };
    sqlite3 *db;

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct buf text = { 0 }, ours = { 0 }, theirs = { 0 };

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        buf_addf(&text, sql, kinds[i].wildcards, kinds[i].operator);
#pragma GCC diagnostic pop
        ask(q, buf_str(&text), &ours);
        ask_plain(db, buf_str(&text), &theirs);
        assert_string_equal(buf_str(&ours), buf_str(&theirs));
        buf_release(&text);
        buf_release(&ours);
        buf_release(&theirs);
    }
    sqlite3_close(db);
    sql_close(q);
    store_free(st);
}

struct stopper {
    struct sql *q;
    atomic_bool under_way, done;
};

/* Ask again and again: an interrupt before the query begins does not count. */
static void *stop_soon(void *arg)
{
    struct stopper *s = arg;

    while (!atomic_load(&s->done)) {
        usleep(50000);
        if (atomic_load(&s->under_way))
            sql_interrupt(s->q);
    }
    return NULL;
}

/* Each would take minutes or years. */
static void test_ends(void **state)
{
#define LONG "hex(zeroblob(8000000))"
    static const char *const endless[] = {
        "SELECT sum(length(replace(i || " LONG ", substr(" LONG ", 1, 4000000) || 'b', 'c'))) "
        "FROM n",
        "SELECT count(instr(" LONG " || i, '0' || substr(" LONG ", 1, 4000000) || i)) FROM n",
        "SELECT trim(" LONG ", replace(hex(zeroblob(4000000)), '0', '1') || '0')",
        "SELECT rtrim(" LONG ", replace(hex(zeroblob(4000000)), '0', '1') || '0')",
        "SELECT sum(i || " LONG " LIKE '%' || hex(zeroblob(490)) || '1') FROM n",
        "SELECT sum(i || " LONG " GLOB '*' || hex(zeroblob(490)) || '1') FROM n",
        "SELECT sum(length(printf('%.*c%d', 9000000, '\xe2\x82\xac', i))) FROM n WHERE i > 0",
        "SELECT sum(length(printf(replace(hex(zeroblob(2000000)), '0', '%.90f'), i))) FROM n",
        "SELECT sum(i || " LONG " REGEXP '(?:0|00)x') FROM n",
        "SELECT count(*) FROM n",
    };
    struct store *st;
    struct sql *q = open_sql(&st);
    struct stopper stopper = { .q = q };
    pthread_t thread;

    (void)state;
    atomic_init(&stopper.done, false);
    atomic_init(&stopper.under_way, false);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, &stopper), 0);
    for (size_t i = 0; i < ARRAY_SIZE(endless); i++) {
        struct buf text = { 0 };
        struct sql_rows *r;
        opm_error err;
        int rc;

        buf_addf(&text, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) %s",
                 endless[i]);
        rc = sql_query(q, buf_str(&text), &r, &err);
        assert_int_equal(rc, 0);
        atomic_store(&stopper.under_way, true);
        rc = sql_rows_next(r, &err);
        atomic_store(&stopper.under_way, false);
        if (rc != OPM_ELIMIT)
            fail_msg("%s: %d", endless[i], rc);
        sql_rows_close(r);
        buf_release(&text);
    }
    atomic_store(&stopper.done, true);
    pthread_join(thread, NULL);
    sql_close(q);
    store_free(st);
}

/* What has no end that could be waited for is refused. */
static void test_refused(void **state)
{
    static const struct {
        const char *sql, *words;
    } cases[] = {
        { "SELECT printf('%.*c', 1900000000, 'a')", "too big" },
        { "SELECT printf('%1900000000d', 1)", "too big" },
        { "SELECT format('%.1900000000f', 1)", "too big" },
        { "SELECT hex(zeroblob(100000000))", "too big" },
        { "SELECT randomblob(100000000)", "too big" },
        { "SELECT replace(hex(zeroblob(5000)), '0', hex(zeroblob(5000)))", "too big" },
        { "SELECT json_patch('{}', '{}')", "json_patch() is not offered" },
        { "SELECT 'a' LIKE hex(zeroblob(501))", "too complex" },
        { "SELECT 'a' GLOB hex(zeroblob(501))", "too complex" },
    };
    struct store *st;
    struct sql *q = open_sql(&st);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf told = { 0 };

        ask(q, cases[i].sql, &told);
        if (!strstr(buf_str(&told), cases[i].words))
            fail_msg("%s: %s", cases[i].sql, buf_str(&told));
        buf_release(&told);
    }
    sql_close(q);
    store_free(st);
}

/* Many values at once are stopped, though each is within its limit. */
static void test_memory(void **state)
{
    struct store *st;
    struct sql *q = open_sql(&st);
    struct buf text = { 0 }, told = { 0 };

    (void)state;
    sql_limit_memory(q, 32 << 20);
    buf_adds(&text, "SELECT 0");
    for (int i = 0; i < 500; i++)
        buf_adds(&text, ", hex(randomblob(400000))");
    ask(q, buf_str(&text), &told);
    assert_string_equal(buf_str(&told), "error: the query needs more than 32 MiB of memory");
    buf_release(&told);
    buf_release(&text);
    sql_close(q);
    store_free(st);
}

/* Sorts and lists of what is distinct go to files when they are large; these are bounded, and what
 * was refused once is none of the next query's business. */
static void test_temp_files(void **state)
{
    static const char many[] =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 60000) ";
    static const char *const large[] = {
        "SELECT count(*) FROM (SELECT printf('%0200d', i * 7919 % 60013) AS k FROM n "
        "ORDER BY k LIMIT -1 OFFSET 1)",
        "SELECT count(k) FROM (SELECT DISTINCT printf('%0200d', i * 7919 % 60013) AS k FROM n)",
        "SELECT max(c) FROM (SELECT count(*) AS c FROM n GROUP BY printf('%0200d', -i))",
    };
    static const char *const counted[] = { "1:59999|\n", "1:60000|\n", "1:1|\n" };
    struct store *st;
    struct sql *q = open_sql(&st);
    struct buf text = { 0 }, told = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(large); i++) {
        buf_clear(&text);
        buf_addf(&text, "%s%s", many, large[i]);
        sql_limit_temp(q, 1 << 20);
        buf_clear(&told);
        ask(q, buf_str(&text), &told);
        assert_string_equal(buf_str(&told),
                            "error: the query needs more than 1.05 MB of temporary files, the "
                            "limit; select less, or raise OPMETER_MAX_TEMP");
        buf_clear(&told);
        ask(q, "SELECT 1", &told);
        assert_string_equal(buf_str(&told), "1:1|\n");
        sql_limit_temp(q, 64 << 20);
        buf_clear(&told);
        ask(q, buf_str(&text), &told);
        assert_string_equal(buf_str(&told), counted[i]);
    }
    buf_release(&told);
    buf_release(&text);
    sql_close(q);
    store_free(st);
}

static void test_expansion(void **state)
{
    struct buf text = { 0 };

    (void)state;
    assert_false(expansion_is_huge("SELECT 1"));
    assert_false(expansion_is_huge(""));
    assert_false(expansion_is_huge("))))((( AS ( \"a"));
    for (int n = 5; n <= 30; n += 25) {
        /* Each names the one before twice: 2 to the power of n. */
        for (int quoted = 0; quoted < 3; quoted++) {
            static const char *const forms[] = { "t%d", "\"t%d\"", "[t%d]" };

            buf_clear(&text);
            buf_adds(&text, "/* WITH */ WITH ");
            for (int i = 0; i < n; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                buf_addf(&text, forms[quoted], i);
                buf_addf(&text, "(x) AS %s MATERIALIZED (SELECT x FROM ", i % 2 ? "NOT" : "");
                if (i) {
                    buf_addf(&text, forms[quoted], i - 1);
                    buf_adds(&text, " UNION ALL SELECT x FROM ");
                    buf_addf(&text, forms[0], i - 1);
                } else {
                    buf_adds(&text, "(SELECT ')' AS x)");
                }
                buf_addf(&text, ")%s ", i + 1 < n ? "," : "");
            }
            buf_addf(&text, "SELECT * FROM t%d", n - 1);
#pragma GCC diagnostic pop
            assert_int_equal(expansion_is_huge(buf_str(&text)), n > 20);
        }
    }
    /* Columns of a table do not multiply it. */
    buf_clear(&text);
    buf_adds(&text, "WITH t0 AS (SELECT 1 x)");
    for (int i = 1; i < 10; i++) {
        buf_addf(&text, ", t%d AS (SELECT t%d.x", i, i - 1);
        for (int k = 0; k < 20; k++)
            buf_addf(&text, " + t%d.x", i - 1);
        buf_addf(&text, " AS x FROM t%d)", i - 1);
    }
    buf_adds(&text, " SELECT x FROM t9");
    assert_false(expansion_is_huge(buf_str(&text)));
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_sqlite), cmocka_unit_test(test_every_pattern),
        cmocka_unit_test(test_ends),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_expansion),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_temp_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
