/* test_sql.c -- SQL over a store: what is there, what is refused and how failures are told. That
 * the answers are right is for test_sql_answers.c. */
#include "base/nearest.h"
#include "sql_rig.h"

static void expect(struct sql *q, const char *text, const char *want)
{
    struct buf got = { 0 };

    ask(q, text, &got);
    assert_string_equal(buf_str(&got), want);
    buf_release(&got);
}

static struct sql *small(struct store **st)
{
    struct sql *q;
    opm_error err;

    assert_int_equal(rig_make(st, &rig, 7), 0);
    if (sql_open(&q, *st, &err) < 0)
        fail_msg("%s", err.msg);
    return q;
}

/* SQLite must not have to sort what comes grouped. */
static void test_no_sorter(void **state)
{
    static const struct {
        const char *text;
        bool sorts;
    } cases[] = {
        { "SELECT name, count(*) FROM span GROUP BY name", false },
        { "SELECT cat, count(*) FROM span GROUP BY cat ORDER BY cat DESC", false },
        { "SELECT track, name, count(*) FROM span WHERE layer = 'app' GROUP BY track, name",
          false },
        { "SELECT id FROM span ORDER BY layer, ts DESC", false },
        { "SELECT id FROM span ORDER BY ts, id", false },
        { "SELECT id FROM span WHERE ts > 5 ORDER BY ts DESC", false },
        { "SELECT id FROM span ORDER BY ts, name", true },
        { "SELECT id FROM span ORDER BY dur", true },
        { "SELECT name, count(*) FROM op_stats GROUP BY name", false },
    };
    struct store *st;
    struct sql *q = small(&st);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[200];
        struct buf got = { 0 };

        snprintf(text, sizeof(text), "EXPLAIN QUERY PLAN %s", cases[i].text);
        ask(q, text, &got);
        if (!!strstr(buf_str(&got), "TEMP B-TREE") != cases[i].sorts)
            fail_msg("%s\n%s", cases[i].text, buf_str(&got));
        buf_release(&got);
    }
    sql_close(q);
    store_free(st);
}

static void test_refused(void **state)
{
    static const char *const cases[][2] = {
        { "INSERT INTO meta VALUES ('a', 'b')", "INSERT" },
        { "REPLACE INTO meta VALUES ('a', 'b')", "REPLACE" },
        { "UPDATE span SET dur = 1", "UPDATE" },
        { "DELETE FROM span", "DELETE" },
        { "WITH x AS (SELECT 1) DELETE FROM span", "span may not be modified" },
        { "EXPLAIN DELETE FROM span", "span may not be modified" },
        { "EXPLAIN CREATE TABLE t(x)", "CREATE" },
        { "WITH x AS (SELECT 1) INSERT INTO sqlite_master SELECT 1, 2, 3, 4, 5", "" },
        { "WITH x AS (SELECT 1) DELETE FROM sqlite_schema", "" },
        { "CREATE TABLE t(x)", "CREATE" },
        { "CREATE TEMP TABLE t(x)", "CREATE" },
        { "CREATE TABLE t AS SELECT * FROM span", "CREATE" },
        { "CREATE VIEW v AS SELECT 1", "CREATE" },
        { "CREATE INDEX i ON span(dur)", "CREATE" },
        { "CREATE TRIGGER t INSTEAD OF INSERT ON timeline BEGIN SELECT 1; END", "CREATE" },
        { "CREATE VIRTUAL TABLE t USING fts5(x)", "CREATE" },
        { "DROP TABLE span", "DROP" },
        { "DROP VIEW timeline", "DROP" },
        { "ALTER TABLE span RENAME TO spam", "ALTER" },
        { "ATTACH '/tmp/x.db' AS x", "ATTACH" },
        { "DETACH main", "DETACH" },
        { "BEGIN", "BEGIN" },
        { "COMMIT", "COMMIT" },
        { "/* x */ end", "END" },
        { "SAVEPOINT s", "SAVEPOINT" },
        { "PRAGMA journal_mode", "PRAGMA journal_mode" },
        { "PRAGMA writable_schema = 1", "PRAGMA writable_schema" },
        { "SELECT * FROM pragma_database_list", "PRAGMA database_list" },
        { "ANALYZE", "ANALYZE" },
        { "REINDEX", "REINDEX" },
        { "VACUUM", "VACUUM" },
        { "VACUUM INTO '/tmp/x.db'", "VACUUM" },
        { "SELECT load_extension('x')", "function load_extension" },
    };
    struct store *st;
    struct sql *q = small(&st);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sql_rows *r = NULL;
        opm_error err = { 0 };
        int rc = sql_query(q, cases[i][0], &r, &err);

        if (rc >= 0) {
            rc = sql_rows_next(r, &err);
            sql_rows_close(r);
        }
        if (rc >= 0)
            fail_msg("%s was allowed", cases[i][0]);
        if (!strstr(err.msg, "only reading is allowed: ") || !strstr(err.msg, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], err.msg);
    }
    expect(q, "SELECT count(*) > 10 FROM pragma_table_info('span')", "1:1|\n");
    expect(q, "SELECT count(*) FROM span", "1:500|\n");
    sql_close(q);
    store_free(st);
}

static void test_messages(void **state)
{
    static const char *const cases[][2] = {
        { "SELECT * FROM spam", "no such table: spam; did you mean 'span'?" },
        { "SELECT * FROM op_stat", "no such table: op_stat; did you mean 'op_stats'?" },
        { "SELECT * FROM xyzzy", "no such table: xyzzy; see 'opmeter schema'" },
        { "SELECT nam FROM span", "no such column: nam; did you mean 'name'?" },
        { "SELECT span.nam FROM span", "no such column: span.nam; did you mean 'name'?" },
        { "SELECT s.druation FROM span s", "no such column: s.druation; see 'opmeter schema'" },
        { "SELECT s.drr FROM span s", "no such column: s.drr; did you mean 'dur'?" },
        { "SELECT total FROM op_stats", "no such column: total; see 'opmeter schema'" },
        { "SELECT totalns FROM op_stats", "no such column: totalns; did you mean 'total_ns'?" },
        { "SELECT 1 FROM span WHERE name = \"Conv\"",
          "no such column: Conv; text goes between single quotes: 'Conv'" },
        { "SELECT 1; SELECT 2", "one statement at a time" },
        { "SELECT 1; garbage", "one statement at a time" },
        { "", "the SQL statement is empty" },
        { "  -- nothing\n /* at all */ ; ", "the SQL statement is empty" },
        { "SELEC 1", "near \"SELEC\": syntax error" },
        { "SELECT\n\n1 frm\nspan x", "near \"span\": syntax error" },
        { "SELECT nosuch(1)", "no such function: nosuch" },
        { "SELECT percentile(dur, 101) FROM span",
          "percentile(): the second argument must be from 0 to 100" },
        { "SELECT percentile(dur, id) FROM span WHERE id < 4",
          "percentile(): the second argument must not change" },
        { "SELECT median(name) FROM span WHERE name = 'Conv'", "median(): not a number" },
        { "SELECT length(zeroblob(100000000))", "string or blob too big" },
    };
    struct store *st;
    struct sql *q = small(&st);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char want[300];

        snprintf(want, sizeof(want), "error: %s", cases[i][1]);
        expect(q, cases[i][0], want);
    }
    expect(q, "SELECT 1;  -- done\n ; /* x */", "1:1|\n");
    expect(q, " ; SELECT 1", "1:1|\n");
    sql_close(q);
    store_free(st);
}

static void test_functions(void **state)
{
    struct store *st;
    struct sql *q = small(&st);

    (void)state;
    expect(q, "SELECT median(value) FROM json_each('[3, 1, 2, 10]')", "2:2.5|\n");
    expect(q, "SELECT percentile(value, 25) FROM json_each('[1, 2, 3, 4, 5]')", "2:2.0|\n");
    expect(q, "SELECT percentile(value, 100), percentile(value, 0) FROM json_each('[4, null, 9]')",
           "2:9.0|2:4.0|\n");
    expect(q, "SELECT median(1) WHERE 0", "0:|\n");
    expect(q, "SELECT median(NULL), stdev(NULL), stdev(4)", "0:|0:|0:|\n");
    expect(q, "SELECT stdev(value) FROM json_each('[2, 4, 4, 4, 5, 5, 7, 9, 5]')", "2:2.0|\n");
    expect(q, "SELECT count(*) FROM op_stats JOIN op ON op.id = op_stats.op", "1:9|\n");
    expect(q, "SELECT abs(sum(share) - 1) < 1e-9 FROM op_stats", "1:1|\n");
    expect(q,
           "SELECT count(*) FROM span_stats s WHERE s.count <> (SELECT count(*) FROM span p WHERE"
           " p.name IS s.name AND p.cat IS s.cat AND p.layer IS s.layer AND p.dur >= 0)",
           "1:0|\n");
    expect(q,
           "SELECT count(*) FROM span_stats s WHERE abs(s.median_ns - (SELECT median(p.dur) FROM"
           " span p WHERE p.name IS s.name AND p.cat IS s.cat AND p.layer IS s.layer AND p.dur >="
           " 0)) > 1e-6",
           "1:0|\n");
    expect(q, "SELECT DISTINCT scope FROM latency ORDER BY 1", "3:record|\n3:step|\n");
    sql_close(q);
    store_free(st);
}

static void test_schema(void **state)
{
    struct store *st;
    struct sql *q = small(&st);
    struct sql_rows *r;
    opm_error err;
    int rows = 0;

    (void)state;
    expect(q, "SELECT DISTINCT kind FROM schema ORDER BY kind", "3:analysis|\n3:table|\n3:view|\n");
    expect(q, "SELECT count(*) FROM schema WHERE doc IS NULL OR type IS NULL", "1:0|\n");
    expect(q, "SELECT type, kind FROM schema WHERE table_name = 'span' AND column_name = 'name'",
           "3:TEXT|3:table|\n");
    /* What the schema says is there. */
    assert_int_equal(sql_query(q, "SELECT table_name, column_name FROM schema", &r, &err), 0);
    while (sql_rows_next(r, &err) > 0) {
        char text[200];
        struct buf got = { 0 };

        snprintf(text, sizeof(text), "SELECT \"%s\" FROM \"%s\" LIMIT 1", sql_rows_text(r, 1, NULL),
                 sql_rows_text(r, 0, NULL));
        ask(q, text, &got);
        if (strncmp(buf_str(&got), "error", 5) == 0)
            fail_msg("%s: %s", text, buf_str(&got));
        buf_release(&got);
        rows++;
    }
    sql_rows_close(r);
    assert_true(rows > 100);
    /* And nothing else is there: views have exactly their columns. */
    expect(q,
           "SELECT (SELECT group_concat(name) FROM pragma_table_info('timeline')) ="
           " (SELECT group_concat(column_name) FROM schema WHERE table_name = 'timeline')",
           "1:1|\n");
    sql_close(q);
    store_free(st);
}

static void test_interrupt(void **state)
{
    static const char endless[] =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    struct store *st;
    struct sql *q = small(&st);
    struct sql_rows *r;
    opm_error err;

    (void)state;
    assert_int_equal(sql_query(q, endless, &r, &err), 0);
    sql_interrupt(q);
    assert_int_equal(sql_rows_next(r, &err), OPM_ELIMIT);
    assert_string_equal(err.msg, "interrupted");
    assert_int_equal(sql_rows_next(r, &err), OPM_ELIMIT);
    sql_rows_close(r);
    /* An interrupt is over when the next query starts. */
    sql_interrupt(q);
    expect(q, "SELECT count(*) FROM span a, span b", "1:250000|\n");
    sql_limit_steps(q, 100000);
    assert_int_equal(sql_query(q, endless, &r, &err), 0);
    assert_int_equal(sql_rows_next(r, &err), OPM_ELIMIT);
    sql_rows_close(r);
    sql_close(q);
    store_free(st);
}

/* Rows stay at their end, and cells that are not there are NULL. */
static void test_rows(void **state)
{
    struct store *st;
    struct sql *q = small(&st);
    struct sql_rows *r;
    opm_error err;
    size_t len;

    (void)state;
    assert_int_equal(sql_query(q, "SELECT 5 AS five, 'a' || char(0) || 'b', x'', NULL", &r, &err),
                     0);
    assert_int_equal(sql_rows_columns(r), 4);
    assert_string_equal(sql_rows_name(r, 0), "five");
    assert_int_equal(sql_rows_type(r, 0), SQL_NULL);
    assert_int_equal(sql_rows_next(r, &err), 1);
    assert_int_equal(sql_rows_int(r, 0), 5);
    assert_true(sql_rows_real(r, 0) == 5);
    assert_string_equal(sql_rows_text(r, 1, &len), "a");
    assert_int_equal(len, 3);
    assert_string_equal(sql_rows_text(r, 2, &len), "");
    assert_int_equal(len, 0);
    assert_null(sql_rows_text(r, 3, &len));
    assert_int_equal(sql_rows_type(r, 99), SQL_NULL);
    assert_null(sql_rows_text(r, -1, NULL));
    assert_int_equal(sql_rows_next(r, &err), 0);
    assert_int_equal(sql_rows_next(r, &err), 0);
    assert_null(sql_rows_text(r, 1, &len));
    sql_rows_close(r);
    sql_close(q);
    store_free(st);
}

static void test_nearest(void **state)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {
        { "", "", 0 },         { "a", "", 1 },
        { "", "abc", 3 },      { "span", "spam", 1 },
        { "span", "SPAN", 0 }, { "span", "psan", 1 },
        { "ca", "abc", 3 },    { "kitten", "sitting", 3 },
    };
    char longest[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(nearest_distance(cases[i].a, cases[i].b), cases[i].distance);
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    assert_true(nearest_distance(longest, "x") == SIZE_MAX);
    assert_false(nearest_close("ab", 2));
    assert_true(nearest_close("abcdef", 2));
}

static const struct rig fault_rig = {
    .ntrack = 2, .nop = 3, .nsite = 6, .nstep = 4, .nrecord = 2, .nspan = 60, .warmup = true
};

static const char *const fault_queries[] = {
    "SELECT name, count(*), sum(dur) FROM span GROUP BY name",
    "SELECT name, track FROM span WHERE layer = 'app' ORDER BY name, track DESC",
    "SELECT parent, wait FROM span WHERE step = 1",
    "SELECT DISTINCT cat, op FROM span WHERE ts > '5'",
    "SELECT src FROM flow WHERE dst = 3",
    "SELECT * FROM op_stats JOIN type_stats USING (type)",
    "SELECT median(dur), percentile(ts, 9) FROM span",
    "SELECT * FROM latency, span_stats, schema LIMIT 3",
    "SELECT t.track FROM timeline t ORDER BY 1",
};

static int query_all(struct store *st)
{
    struct sql *q;
    opm_error err = { 0 };
    int rc = sql_open(&q, st, &err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < ARRAY_SIZE(fault_queries) && rc == 0; i++) {
        struct sql_rows *r = NULL;

        rc = sql_query(q, fault_queries[i], &r, &err);
        while (r) {
            rc = sql_rows_next(r, &err);
            if (rc <= 0)
                break;
        }
        sql_rows_close(r);
    }
    if (rc < 0 && (rc != OPM_ENOMEM || err.code != rc))
        fail_msg("%d: %s", rc, err.msg);
    sql_close(q);
    return rc;
}

static int make_and_query(void)
{
    struct store *st;
    int rc = rig_make(&st, &fault_rig, 3);

    if (rc < 0)
        return rc;
    rc = query_all(st);
    store_free(st);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(make_and_query);
}

/* The same for what SQLite allocates itself. */
static sqlite3_mem_methods sqlite_memory;
static long sqlite_fail_in;
static bool sqlite_failed;

static bool sqlite_fails(void)
{
    if (!sqlite_fail_in || --sqlite_fail_in)
        return false;
    sqlite_failed = true;
    return true;
}

static void *failing_malloc(int n)
{
    return sqlite_fails() ? NULL : sqlite_memory.xMalloc(n);
}

static void *failing_realloc(void *p, int n)
{
    return sqlite_fails() ? NULL : sqlite_memory.xRealloc(p, n);
}

static int use_failing_memory(void **state)
{
    sqlite3_mem_methods m;

    (void)state;
    sqlite3_shutdown();
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory) != SQLITE_OK)
        return -1;
    m = sqlite_memory;
    m.xMalloc = failing_malloc;
    m.xRealloc = failing_realloc;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &m) == SQLITE_OK &&
                   sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK
               ? 0
               : -1;
}

static int use_own_memory(void **state)
{
    (void)state;
    sqlite3_shutdown();
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &sqlite_memory) == SQLITE_OK ? 0 : -1;
}

static void test_sqlite_no_memory(void **state)
{
    struct store *st = NULL;

    (void)state;
    assert_int_equal(rig_make(&st, &fault_rig, 3), 0);
    for (long n = 1;; n++) {
        int rc;

        sqlite_failed = false;
        sqlite_fail_in = n;
        rc = query_all(st);
        sqlite_fail_in = 0;
        /* SQLite can do without some of what it asks for, but never gives a wrong answer. */
        assert_true(rc == 0 || rc == OPM_ENOMEM);
        if (!sqlite_failed)
            break;
        if (n > 300)
            n += 7 * unit_patience();
    }
    store_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sqlite_no_memory, use_failing_memory, use_own_memory),
        cmocka_unit_test(test_no_sorter),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
