/* test_sql.c -- SQL over a store: every answer must be the one that an ordinary SQLite table with
 * the same rows gives, whatever was pushed down; and nothing but reading is possible. */
#include "base/buf.h"
#include "sql/functions.h"
#include "sql/nearest.h"
#include "sql/sql.h"
#include "trace_rig.h"

#include <sqlite3.h>

static const struct rig rig = {
    .ntrack = 6, .nop = 9, .nsite = 60, .nstep = 20, .nrecord = 8, .nspan = 500, .warmup = true
};

static void add_cell(struct buf *b, int type, const void *bytes, size_t len)
{
    buf_addf(b, "%d:", type);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = ((const unsigned char *)bytes)[i];

        if (c < 0x20 || c > 0x7e || c == '\\')
            buf_addf(b, "\\%02x", c);
        else
            buf_addc(b, (char)c);
    }
    buf_addc(b, '|');
}

/* All rows as text, one line each; "error: ..." where the query fails. */
static void ask(struct sql *q, const char *text, struct buf *b)
{
    struct sql_rows *r;
    opm_error err = { 0 };
    int rc = sql_query(q, text, &r, &err);

    if (rc < 0) {
        buf_addf(b, "error: %s", err.msg);
        return;
    }
    while ((rc = sql_rows_next(r, &err)) > 0) {
        for (int i = 0; i < sql_rows_columns(r); i++) {
            enum sql_type type = sql_rows_type(r, i);
            size_t len;
            const char *s = sql_rows_text(r, i, &len);

            add_cell(b, (int)type, s, len);
        }
        buf_addc(b, '\n');
    }
    if (rc < 0)
        buf_addf(b, "error: %s", err.msg);
    sql_rows_close(r);
}

static void ask_plain(sqlite3 *db, const char *text, struct buf *b)
{
    static const int types[] = { [SQLITE_INTEGER] = SQL_INT,
                                 [SQLITE_FLOAT] = SQL_REAL,
                                 [SQLITE_TEXT] = SQL_TEXT,
                                 [SQLITE_BLOB] = SQL_TEXT,
                                 [SQLITE_NULL] = SQL_NULL };
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, text, -1, &stmt, NULL);

    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            int type = types[sqlite3_column_type(stmt, i)];
            const void *s = sqlite3_column_text(stmt, i);

            add_cell(b, type, s, (size_t)sqlite3_column_bytes(stmt, i));
        }
        buf_addc(b, '\n');
    }
    if (sqlite3_errcode(db) != SQLITE_OK && sqlite3_errcode(db) != SQLITE_DONE &&
        sqlite3_errcode(db) != SQLITE_ROW)
        buf_addf(b, "error: %s", sqlite3_errmsg(db));
    sqlite3_finalize(stmt);
}

static void bind_cell(sqlite3_stmt *stmt, int at, const struct store *st, struct cell c)
{
    if (c.kind == CELL_I64)
        sqlite3_bind_int64(stmt, at, c.i64);
    else if (c.kind == CELL_F64)
        sqlite3_bind_double(stmt, at, c.f64);
    else if (c.kind == CELL_STR)
        sqlite3_bind_text(stmt, at, store_text(st, c.str),
                          (int)strpool_len(store_strings(st), c.str), SQLITE_STATIC);
    else
        sqlite3_bind_null(stmt, at);
}

/* A table of the store as a table of SQLite's own. */
static void copy_table(sqlite3 *db, const struct store *st, enum table_id id)
{
    static const char *const types[] = {
        [COL_I64] = "INTEGER", [COL_ID] = "INTEGER", [COL_STR] = "TEXT", [COL_F64] = "REAL"
    };
    const struct table_def *def = &store_table_defs[id];
    struct buf create = { 0 }, insert = { 0 };
    sqlite3_stmt *stmt;

    buf_addf(&create, "CREATE TABLE %s(", def->name);
    buf_addf(&insert, "INSERT INTO %s(rowid", def->name);
    for (int i = 0; i < def->ncol; i++) {
        buf_addf(&create, "%s\"%s\" %s", i ? ", " : "", def->col[i].name, types[def->col[i].type]);
        buf_addf(&insert, ", \"%s\"", def->col[i].name);
    }
    buf_adds(&create, ")");
    buf_adds(&insert, ") VALUES (?");
    for (int i = 0; i < def->ncol; i++)
        buf_adds(&insert, ", ?");
    buf_adds(&insert, ")");
    assert_int_equal(sqlite3_exec(db, buf_str(&create), NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, buf_str(&insert), -1, &stmt, NULL), SQLITE_OK);
    for (size_t row = 0; row < store_nrow(st, id); row++) {
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)row);
        for (int i = 0; i < def->ncol; i++)
            bind_cell(stmt, i + 2, st, store_cell(st, id, row, i));
        assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    buf_release(&create);
    buf_release(&insert);
}

/* A store and its double. */
struct pair {
    struct store *st;
    struct sql *q;
    sqlite3 *db;
};

static struct pair pair_open(uint64_t seed)
{
    struct pair p;
    opm_error err;

    assert_int_equal(rig_make(&p.st, &rig, seed), 0);
    if (sql_open(&p.q, p.st, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(sqlite3_open(":memory:", &p.db), SQLITE_OK);
    assert_int_equal(functions_register(p.db), SQLITE_OK);
    for (int id = 0; id < TABLE_COUNT; id++)
        copy_table(p.db, p.st, (enum table_id)id);
    return p;
}

static void pair_close(struct pair *p)
{
    sql_close(p->q);
    store_free(p->st);
    sqlite3_close(p->db);
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_lines(struct buf *b)
{
    size_t n = 0, cap = 0;
    char **line = NULL, *rest = b->data, *copy;
    struct buf out = { 0 };

    if (!b->len)
        return;
    copy = rest = strdup(b->data);
    for (char *s = strsep(&rest, "\n"); s; s = strsep(&rest, "\n")) {
        assert_true(GROW(line, cap, n + 1));
        line[n++] = s;
    }
    qsort(line, n, sizeof(*line), by_line);
    for (size_t i = 0; i < n; i++) {
        buf_adds(&out, line[i]);
        buf_addc(&out, '\n');
    }
    buf_release(b);
    *b = out;
    free(copy);
    mem_free(line);
}

/* Ask both; the answers must be equal, in order if the query orders all that it selects. */
static void compare(struct pair *p, const char *text, bool ordered)
{
    struct buf got = { 0 }, want = { 0 };

    ask(p->q, text, &got);
    ask_plain(p->db, text, &want);
    if (!ordered) {
        sort_lines(&got);
        sort_lines(&want);
    }
    if (strncmp(buf_str(&want), "error: ", 7) == 0 ? strncmp(buf_str(&got), "error: ", 7) != 0
                                                   : strcmp(buf_str(&got), buf_str(&want)) != 0)
        fail_msg("%s\n--- got\n%.2000s\n--- want\n%.2000s", text, buf_str(&got), buf_str(&want));
    buf_release(&got);
    buf_release(&want);
}

static const char *pick(const char *const *list, size_t n)
{
    return list[rig_random((uint32_t)n)];
}
#define PICK(list) pick(list, ARRAY_SIZE(list))

static const char *const span_columns[] = { "id",     "ts",    "dur",  "self",   "track",
                                            "parent", "depth", "name", "cat",    "layer",
                                            "op",     "phase", "step", "record", "correlation",
                                            "wait",   "rowid" };
static const char *const group_columns[] = { "name",  "cat",  "layer",  "op",    "phase",
                                             "track", "step", "record", "parent" };

static void add_value(struct buf *b)
{
    static const char *const odd[] = {
        "NULL",
        "'Conv'",
        "'conv'",
        "'5'",
        "'05'",
        "'5.0'",
        "5",
        "5.0",
        "5.5",
        "-1",
        "'-1'",
        "''",
        "'nobody'",
        "'a'",
        "x'436f6e76'",
        "x'35'",
        "'forward'",
        "'framework'",
        "'hardware'",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808.0",
        "-9.3e18",
        "1e300",
        "-1e300",
        "9e999",
        "-9e999",
        "0.5",
        "-0.0",
        "4294967295",
        "4294967296",
        "' 7'",
        "'7 '",
        "'7x'",
        "'1e1'",
        "CAST(5 AS INTEGER)",
        "CAST('5' AS TEXT)",
        "CAST(5 AS REAL)",
        "(SELECT id FROM op WHERE id = 5)",
        "(SELECT name FROM op WHERE id = 3)",
        "CAST(x'fffe' AS TEXT)",
        "'Conv' || char(0) || 'hidden'",
        "(SELECT max(ts) / 2 FROM span)",
        "(SELECT value FROM json_each('[5]'))",
        "1.0e1",
        "true",
        "false",
    };

    if (rig_random(3))
        buf_adds(b, PICK(odd));
    else if (rig_random(2))
        buf_addf(b, "%u", rig_random(rig_random(2) ? 20 : 10000));
    else
        buf_addf(b, "%u.%u", rig_random(10000), rig_random(4) * 25);
}

static void add_term(struct buf *b, const char *prefix)
{
    static const char *const ops[] = { "=", "=",  "=",  "==", "<",     "<=",
                                       ">", ">=", "<>", "IS", "IS NOT" };

    if (rig_random(12) == 0)
        buf_adds(b, "NOT ");
    buf_addf(b, "%s%s ", prefix, rig_random(2) ? PICK(span_columns) : PICK(group_columns));
    switch (rig_random(10)) {
    case 0:
        buf_adds(b, rig_random(2) ? "IS NULL" : "IS NOT NULL");
        break;
    case 1:
        buf_adds(b, "BETWEEN ");
        add_value(b);
        buf_adds(b, " AND ");
        add_value(b);
        break;
    case 2:
        buf_adds(b, "IN (");
        add_value(b);
        for (uint32_t n = rig_random(3); n; n--) {
            buf_adds(b, ", ");
            add_value(b);
        }
        buf_adds(b, ")");
        break;
    case 3:
        buf_adds(b, rig_random(2) ? "LIKE 'c%'" : "GLOB 'C*'");
        break;
    case 4:
        buf_adds(b, "= ");
        add_value(b);
        buf_adds(b, " COLLATE NOCASE");
        break;
    case 5:
        buf_addf(b, "= %s%s", prefix, PICK(span_columns));
        break;
    default:
        buf_addf(b, "%s ", PICK(ops));
        add_value(b);
        break;
    }
}

static void add_where(struct buf *b, const char *prefix, const char *word)
{
    uint32_t n = rig_random(4);

    for (uint32_t i = 0; i < n; i++) {
        buf_adds(b, i == 0 ? word : rig_random(4) ? " AND " : " OR ");
        if (rig_random(6) == 0) {
            buf_adds(b, "(");
            add_term(b, prefix);
            buf_adds(b, " OR ");
            add_term(b, prefix);
            buf_adds(b, ")");
        } else {
            add_term(b, prefix);
        }
    }
}

/* Some distinct columns. */
static size_t pick_columns(const char **out, size_t max)
{
    size_t n = 1 + rig_random((uint32_t)max);

    for (size_t i = 0; i < n; i++)
        out[i] = rig_random(5) ? PICK(group_columns) : PICK(span_columns);
    return n;
}

static void add_columns(struct buf *b, const char **col, size_t n, const char *prefix, bool order)
{
    for (size_t i = 0; i < n; i++) {
        buf_addf(b, "%s%s%s", i ? ", " : "", prefix, col[i]);
        if (order && rig_random(2))
            buf_adds(b, " DESC");
        if (order && rig_random(10) == 0)
            buf_adds(b, " NULLS LAST");
    }
}

/* Returns whether the answer has a definite order. */
static bool random_query(struct buf *b)
{
    const char *col[4];
    size_t n = pick_columns(col, 4);
    bool ordered = rig_random(2);

    switch (rig_random(9)) {
    case 0: /* rows */
        buf_adds(b, "SELECT id, ts, dur, track, name, op FROM span");
        add_where(b, "", " WHERE ");
        if (ordered) {
            buf_adds(b, " ORDER BY ");
            add_columns(b, col, n, "", true);
            buf_adds(b, rig_random(2) ? ", id" : ", ts DESC, id DESC");
            if (rig_random(3) == 0)
                buf_addf(b, " LIMIT %u OFFSET %u", rig_random(50), rig_random(10));
        }
        return ordered;
    case 1: /* order without a tie-breaker: only what is ordered is selected */
        buf_adds(b, "SELECT ");
        add_columns(b, col, n, "", false);
        buf_adds(b, " FROM span");
        add_where(b, "", " WHERE ");
        buf_adds(b, " ORDER BY ");
        add_columns(b, col, n, "", true);
        return true;
    case 2: /* groups */
    case 3:
        buf_adds(b, "SELECT ");
        add_columns(b, col, n, "", false);
        buf_adds(b, ", count(*), sum(dur), min(id), max(ts), count(step) FROM span");
        add_where(b, "", " WHERE ");
        buf_adds(b, " GROUP BY ");
        add_columns(b, col, n, "", false);
        if (rig_random(5) == 0)
            buf_adds(b, " HAVING count(*) > 2");
        if (ordered) {
            buf_adds(b, " ORDER BY ");
            add_columns(b, col, n, "", true);
        }
        return ordered;
    case 4: /* distinct */
    case 5:
        buf_adds(b, "SELECT DISTINCT ");
        add_columns(b, col, n, "", false);
        buf_adds(b, " FROM span");
        add_where(b, "", " WHERE ");
        if (ordered) {
            buf_adds(b, " ORDER BY ");
            add_columns(b, col, n, "", true);
            if (rig_random(3) == 0)
                buf_addf(b, " LIMIT %u", rig_random(5));
        }
        return ordered;
    case 6: { /* joins */
        static const char *const joins[] = {
            "span s JOIN span o ON s.parent = o.id",
            "span s LEFT JOIN span o ON o.parent = s.id AND o.dur > 5",
            "flow f JOIN span s ON s.id = f.src JOIN span o ON o.id = f.dst",
            "span s JOIN span o ON s.correlation = o.correlation AND s.id < o.id",
            "span s LEFT JOIN span o ON o.id = s.rowid + 1",
            "step t JOIN span s ON s.step = t.id JOIN span o ON o.id = s.id",
            "step t JOIN span s ON s.ts >= t.ts AND s.ts < t.ts + t.dur JOIN span o USING (id)",
            "op p JOIN span s ON s.op = p.id JOIN span o ON o.rowid = s.rowid",
            "op p JOIN span s ON s.name = p.name JOIN span o ON o.id = s.parent",
            "span o RIGHT JOIN span s ON o.id = s.parent",
            "track t LEFT JOIN span s ON s.track = t.id LEFT JOIN span o ON o.id = s.id",
        };

        buf_addf(b, "SELECT s.name, s.layer, o.track, count(*), sum(s.id), sum(o.id) FROM %s",
                 PICK(joins));
        add_where(b, "s.", " WHERE ");
        buf_adds(b, " GROUP BY s.name, s.layer, o.track");
        return false;
    }
    case 7: /* subqueries */
        buf_adds(b, "SELECT ");
        add_columns(b, col, n, "s.", false);
        buf_adds(b,
                 ", (SELECT count(*) FROM span i WHERE i.parent = s.id), (SELECT min(i.name) FROM"
                 " span i WHERE i.op = s.op AND i.ts <= s.ts) FROM span s WHERE ");
        buf_adds(b, rig_random(2) ? "EXISTS (SELECT 1 FROM span i WHERE i.track = s.track"
                                  : "s.name IN (SELECT i.name FROM span i WHERE i.id > 2");
        add_where(b, "i.", " AND ");
        buf_adds(b, ")");
        return false;
    default: /* one row */
        buf_adds(b,
                 "SELECT min(ts), max(ts), count(*), count(DISTINCT name), max(name), min(op),"
                 " median(dur), percentile(ts, 99), stdev(dur) IS NULL, group_concat(DISTINCT cat)"
                 " IS NULL FROM span");
        add_where(b, "", " WHERE ");
        return true;
    }
}

static void test_random_queries(void **state)
{
    enum { STORES = 6, QUERIES = 1500 };

    (void)state;
    for (uint64_t seed = 1; seed <= STORES; seed++) {
        struct pair p = pair_open(seed);

        for (int i = 0; i < QUERIES; i++) {
            struct buf text = { 0 };
            bool ordered = random_query(&text);

            compare(&p, buf_str(&text), ordered);
            buf_release(&text);
        }
        pair_close(&p);
    }
}

static void test_chosen_queries(void **state)
{
    static const struct {
        const char *text;
        bool ordered;
    } cases[] = {
        { "SELECT * FROM span", false },
        { "SELECT *, rowid FROM sample", false },
        { "SELECT * FROM step ORDER BY ts", false },
        { "SELECT * FROM record WHERE ts > 1.5 AND ts <= 3000", false },
        { "SELECT track, sum(value) FROM sample GROUP BY track ORDER BY track DESC", true },
        { "SELECT ts, value FROM sample WHERE ts BETWEEN 100 AND 5000.5", false },
        { "SELECT * FROM sample WHERE rowid >= 3 AND rowid < 7.5", false },
        { "SELECT * FROM meta ORDER BY key", true },
        { "SELECT value FROM meta WHERE key = 'rig'", true },
        { "SELECT * FROM op_tensor WHERE op = 4", false },
        { "SELECT * FROM flow WHERE dst = 3 OR src = 3", false },
        { "SELECT * FROM import_stat", false },
        { "SELECT count(*) FROM mem", true },
        { "SELECT first_op FROM mem GROUP BY first_op", true },
        { "SELECT json_extract(args, '$.bytes'), args ->> '$.to[0]' FROM span ORDER BY id", true },
        { "SELECT json_extract(args, '$.bytes') AS b, count(*) FROM span GROUP BY b ORDER BY b",
          true },
        { "SELECT e.value, count(*) FROM span, json_each(span.args, '$.to') e GROUP BY 1 ORDER BY "
          "1",
          true },
        { "SELECT id FROM span WHERE id = 7 AND id = 8", true },
        { "SELECT id FROM span WHERE id IN (9, 3, 7) ORDER BY id DESC", true },
        { "SELECT name FROM span WHERE name IN ('zeta', 'a', 'Conv') ORDER BY name", true },
        { "SELECT DISTINCT name FROM span WHERE rowid % 7 = 0 ORDER BY name", true },
        { "SELECT DISTINCT name FROM span WHERE id % 7 = 0 ORDER BY name DESC", true },
        { "SELECT DISTINCT name COLLATE NOCASE FROM span", false },
        { "SELECT upper(name) AS u, count(*) FROM span GROUP BY u ORDER BY u", true },
        { "SELECT name COLLATE NOCASE AS n, count(*) FROM span GROUP BY n ORDER BY n", true },
        { "SELECT name, row_number() OVER (PARTITION BY name ORDER BY id) FROM span ORDER BY id",
          true },
        { "SELECT id, sum(dur) OVER (ORDER BY ts, id) FROM span ORDER BY id", true },
        { "WITH RECURSIVE up(i, p) AS (SELECT id, parent FROM span WHERE id = 400 UNION ALL"
          " SELECT s.id, s.parent FROM span s JOIN up ON s.id = up.p) SELECT * FROM up",
          false },
        { "SELECT name FROM span UNION SELECT name FROM op ORDER BY 1", true },
        { "SELECT name FROM span INTERSECT SELECT name FROM op ORDER BY 1", true },
        { "SELECT id FROM span WHERE (name, cat) = ('Conv', 'conv') ORDER BY id", true },
        { "SELECT id FROM span WHERE (ts, id) > (3000, 5) ORDER BY id", true },
        { "SELECT length(name), hex(name) FROM span ORDER BY id", true },
        { "SELECT name, cat, layer FROM span ORDER BY name, cat DESC, layer", true },
        { "SELECT max(id) FROM span GROUP BY track, name ORDER BY track, name", true },
    };
    struct pair p = pair_open(42);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        compare(&p, cases[i].text, cases[i].ordered);
    pair_close(&p);
}

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
        while (r && (rc = sql_rows_next(r, &err)) > 0)
            ;
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
    struct store *st;

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
            n += 7;
    }
    store_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sqlite_no_memory, use_failing_memory, use_own_memory),
        cmocka_unit_test(test_random_queries),
        cmocka_unit_test(test_chosen_queries),
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
