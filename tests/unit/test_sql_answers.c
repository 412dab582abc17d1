/* test_sql_answers.c -- every answer must be the one that an ordinary SQLite table with the same
 * rows gives, whatever was pushed down into the store. */
#include "sql_rig.h"

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
    enum { STORES = 4, QUERIES = 400 };

    (void)state;
    for (uint64_t seed = 1; seed <= STORES; seed++) {
        struct pair p = pair_open(seed);

        for (int i = 0; i < QUERIES / unit_patience(); i++) {
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
        { "SELECT id FROM span WHERE name = 'conv' COLLATE NOCASE OR name = 'a' COLLATE NOCASE "
          "ORDER BY"
          " id",
          true },
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

/* Ids that take more than one digit to sort by, and few rows with large ids. */
static struct store *make_large(void)
{
    enum { SPANS = 90000 };
    struct cell track[track_col_COUNT] = { 0 };
    struct store *st;
    uint32_t site[3], id;

    assert_int_equal(store_new(&st), 0);
    assert_int_equal(store_add(st, TABLE_track, track, NULL), 0);
    for (uint32_t i = 0; i < ARRAY_SIZE(site); i++) {
        struct cell name;

        assert_int_equal(rig_str(st, 2 + i, &name), 0);
        assert_int_equal(
            store_site(st, &(struct site){ .name = name.str, .op = OPM_NULL_ID }, &site[i]), 0);
    }
    for (uint32_t i = 0; i < SPANS; i++) {
        struct span_row row = SPAN_ROW_INIT;
        struct cell flow[flow_col_COUNT] = { 0 };

        /* One span, then two inside it. */
        row.ts_ns = i / 3 * 10 + (i % 3 ? 1 + i % 3 * 3 : 0);
        row.dur_ns = i % 3 ? 1 : 10;
        row.track = 0;
        row.site = site[i % 7 % 3];
        assert_int_equal(store_add_span(st, &row, &id), 0);
        if (i % 10000 == 9999) {
            flow[flow_col_src] = cell_id(id);
            flow[flow_col_dst] = cell_id(id - 5000);
            assert_int_equal(store_add(st, TABLE_flow, flow, NULL), 0);
        }
    }
    assert_int_equal(store_finish(st), 0);
    return st;
}

static void test_large(void **state)
{
    static const char *const ordered[] = {
        "SELECT parent, name, id FROM span ORDER BY parent DESC, name, id LIMIT 70000",
        "SELECT parent, count(*), sum(dur) FROM span WHERE ts > 5000 GROUP BY parent ORDER BY "
        "parent",
        "SELECT name, parent, count(*) FROM span GROUP BY name, parent ORDER BY name DESC, parent",
        "SELECT DISTINCT parent FROM span ORDER BY parent DESC",
        "SELECT DISTINCT parent, name FROM span WHERE id > 80000 ORDER BY parent, name DESC",
        "SELECT id FROM span WHERE parent = 66666 ORDER BY id",
        "SELECT id FROM span WHERE parent IS NULL AND ts BETWEEN 200000 AND 200100.5 ORDER BY id",
        "SELECT s.id, p.dur FROM span s JOIN span p ON p.id = s.parent WHERE s.ts < 999 ORDER BY "
        "s.id",
        "SELECT src, dst FROM flow WHERE dst = 84999 ORDER BY src",
        "SELECT src, dst FROM flow WHERE dst = 84998 OR src IS NULL ORDER BY src",
        "SELECT src FROM flow GROUP BY src, dst ORDER BY src DESC, dst",
        "SELECT f.src, s.name FROM flow f JOIN span s ON s.parent = f.dst ORDER BY s.id",
        "SELECT count(*), max(depth) FROM span WHERE name = 'Conv' AND id < 70000",
    };
    struct pair p = pair_of(make_large());

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ordered); i++)
        compare(&p, ordered[i], true);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_queries),
        cmocka_unit_test(test_chosen_queries),
        cmocka_unit_test(test_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
