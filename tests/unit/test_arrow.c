/* test_arrow.c -- answers as Arrow columns are those that come row by row, and own themselves. */
#include "unit.h"

#include "base/buf.h"
#include "base/utf8.h"

#include <errno.h>
#include <opmeter/opmeter_arrow.h>

static opm_trace *open_trace(void)
{
    static const char json[] =
        "{\"traceEvents\":["
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":1,\"args\":{\"name\":"
        "\"ma\xffin\"}},"
        "{\"ph\":\"X\",\"name\":\"a\",\"cat\":\"c\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":9},"
        "{\"ph\":\"X\",\"name\":\"b\xfe\",\"pid\":1,\"tid\":1,\"ts\":2,\"dur\":3,\"args\":{\"k\":1}"
        "},"
        "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":6,\"dur\":1,\"args\":{\"k\":2}},"
        "{\"ph\":\"X\",\"name\":\"caf\xc3\xa9\",\"pid\":1,\"tid\":2,\"ts\":4,\"dur\":1.5},"
        "{\"ph\":\"C\",\"name\":\"rss\",\"pid\":1,\"tid\":1,\"ts\":3,\"args\":{\"v\":1.25}},"
        "{\"ph\":\"B\",\"name\":\"\",\"pid\":1,\"tid\":2,\"ts\":8}"
        "]}";
    const char *path = unit_path("arrow.json");
    FILE *f = fopen(path, "w");
    opm_trace *t = NULL;
    opm_error err;

    assert_non_null(f);
    assert_int_equal(fwrite(json, 1, sizeof(json) - 1, f), sizeof(json) - 1);
    assert_int_equal(fclose(f), 0);
    if (opm_trace_open(&t, &path, 1, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return t;
}

/* A consumer: schema and the only batch, if there is one. */
struct answer {
    struct ArrowSchema schema;
    struct ArrowArray array;
};

static void fetch(opm_trace *t, const char *sql, struct answer *out)
{
    struct ArrowArrayStream stream;
    struct ArrowArray more;
    opm_error err;

    if (opm_trace_arrow(t, sql, &stream, &err) < 0)
        fail_msg("%s: %s", sql, err.msg);
    assert_int_equal(stream.get_next(&stream, &out->array), 0);
    assert_int_equal(stream.get_schema(&stream, &out->schema), 0);
    if (out->array.release) {
        assert_int_equal(stream.get_next(&stream, &more), 0);
        assert_null(more.release);
    }
    assert_non_null(stream.get_last_error(&stream));
    stream.release(&stream);
    assert_null(stream.release);
}

static void drop(struct answer *a)
{
    if (a->array.release)
        a->array.release(&a->array);
    a->schema.release(&a->schema);
    assert_null(a->array.release);
    assert_null(a->schema.release);
}

static bool is_valid(const struct ArrowArray *a, int64_t row)
{
    const uint8_t *bits = a->n_buffers ? a->buffers[0] : NULL;

    if (a->n_buffers == 0)
        return false;
    return !bits || (bits[row / 8] >> row % 8 & 1);
}

/* What UTF-8 demands of a text. */
static void add_repaired(struct buf *b, const char *s, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;

        n = utf8_next(s + i, len - i, &cp);
        if (cp == UTF8_BAD)
            buf_adds(b, "\xef\xbf\xbd");
        else
            buf_add(b, s + i, n);
    }
}

static void check_cell(const struct answer *a, int col, int64_t row, const opm_rows *r)
{
    const struct ArrowArray *c = a->array.children[col];
    const char *format = a->schema.children[col]->format;
    enum opm_type type = opm_rows_type(r, col);
    struct buf text = { 0 };
    const int64_t *offset;
    const char *s;
    int32_t word;
    size_t len;

    assert_int_equal(is_valid(c, row), type != OPM_TYPE_NULL);
    if (type == OPM_TYPE_NULL)
        return;
    switch (*format) {
    case 'l':
        assert_int_equal(((const int64_t *)c->buffers[1])[row], opm_rows_int(r, col));
        break;
    case 'g':
        assert_true(((const double *)c->buffers[1])[row] == opm_rows_real(r, col));
        break;
    default:
        assert_string_equal(format, "i");
        assert_string_equal(a->schema.children[col]->dictionary->format, "U");
        word = ((const int32_t *)c->buffers[1])[row];
        assert_in_range(word, 0, c->dictionary->length - 1);
        offset = c->dictionary->buffers[1];
        s = opm_rows_text(r, col, &len);
        add_repaired(&text, s, len);
        assert_int_equal(offset[word + 1] - offset[word], text.len);
        assert_memory_equal((const char *)c->dictionary->buffers[2] + offset[word], buf_str(&text),
                            text.len);
        buf_release(&text);
        break;
    }
}

static void check_query(opm_trace *t, const char *sql)
{
    struct answer a;
    opm_rows *r;
    opm_error err;
    int64_t n = 0;
    int rc;

    fetch(t, sql, &a);
    assert_int_equal(opm_trace_query(t, sql, &r, &err), 0);
    assert_string_equal(a.schema.format, "+s");
    assert_int_equal(a.schema.n_children, opm_rows_columns(r));
    for (int i = 0; i < opm_rows_columns(r); i++) {
        assert_string_equal(a.schema.children[i]->name, opm_rows_name(r, i));
        assert_true(a.schema.children[i]->flags & ARROW_FLAG_NULLABLE);
    }
    for (;;) {
        rc = opm_rows_next(r, &err);
        if (rc != 1)
            break;
        assert_non_null(a.array.release);
        for (int i = 0; i < opm_rows_columns(r); i++)
            check_cell(&a, i, n, r);
        n++;
    }
    assert_int_equal(rc, 0);
    assert_int_equal(a.array.release ? a.array.length : 0, n);
    for (int64_t i = 0; i < a.array.n_children && n; i++) {
        const struct ArrowArray *c = a.array.children[i];
        int64_t nulls = 0;

        assert_int_equal(c->length, n);
        for (int64_t row = 0; row < n; row++)
            nulls += !is_valid(c, row);
        assert_int_equal(c->null_count, nulls);
    }
    opm_rows_close(r);
    drop(&a);
}

static void test_every_table(void **state)
{
    opm_trace *t = open_trace();
    opm_rows *r;
    opm_error err;
    int n = 0;

    (void)state;
    assert_int_equal(opm_trace_query(t, "SELECT DISTINCT table_name FROM schema", &r, &err), 0);
    while (opm_rows_next(r, &err) == 1) {
        char sql[200];

        snprintf(sql, sizeof(sql), "SELECT * FROM %s", opm_rows_text(r, 0, NULL));
        check_query(t, sql);
        snprintf(sql, sizeof(sql), "SELECT * FROM %s LIMIT 3", opm_rows_text(r, 0, NULL));
        check_query(t, sql);
        n++;
    }
    assert_true(n > 20);
    opm_rows_close(r);
    opm_trace_close(t);
}

static void test_queries(void **state)
{
    static const char *const queries[] = {
        "select name,ts , dur from span",
        "SELECT NAME, rowid FROM Span;",
        "SELECT span.name FROM span",
        "SELECT name AS label FROM span",
        "SELECT DISTINCT name FROM span",
        "SELECT name FROM span WHERE 0",
        "SELECT name FROM span ORDER BY name DESC",
        "SELECT args FROM span",
        "SELECT 1 AS x UNION ALL SELECT 2.5 UNION ALL SELECT 3",
        "SELECT NULL AS x UNION ALL SELECT 2 UNION ALL SELECT NULL UNION ALL SELECT 1.5",
        "SELECT 7 AS x UNION ALL SELECT NULL UNION ALL SELECT 'seven' UNION ALL SELECT 8",
        "SELECT NULL AS x, NULL AS y",
        "SELECT 'a' AS x, 'a' AS x",
        "SELECT x'00ff', x''",
        "SELECT count(*), avg(dur), group_concat(name) FROM span",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
        "SELECT i, CASE WHEN i % 3 THEN i * 0.5 END AS h, CASE WHEN i > 1500 THEN i % 7 || 'x' END "
        "AS t FROM n",
    };
    opm_trace *t = open_trace();

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
        check_query(t, queries[i]);
    opm_trace_close(t);
}

/* Types of a table do not depend on what happens to be in it. */
static void test_types(void **state)
{
    static const char *const queries[] = { "SELECT ts, name, args, step FROM span",
                                           "SELECT ts, name, args, step FROM span WHERE ts < 0" };
    opm_trace *t = open_trace();
    struct answer a;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        static const char *const formats[] = { "l", "i", "i", "l" };

        fetch(t, queries[i], &a);
        for (size_t k = 0; k < ARRAY_SIZE(formats); k++)
            assert_string_equal(a.schema.children[k]->format, formats[k]);
        drop(&a);
    }
    fetch(t, "SELECT NULL AS x", &a);
    assert_string_equal(a.schema.children[0]->format, "n");
    assert_int_equal(a.array.children[0]->n_buffers, 0);
    assert_int_equal(a.array.children[0]->null_count, 1);
    drop(&a);
    opm_trace_close(t);
}

/* A consumer may take a child away; it outlives its parent, the stream and the trace. */
static void test_moved_child(void **state)
{
    opm_trace *t = open_trace();
    struct answer a;
    struct ArrowArray name;
    struct ArrowSchema schema;

    (void)state;
    fetch(t, "SELECT ts, name FROM span", &a);
    name = *a.array.children[1];
    a.array.children[1]->release = NULL;
    schema = *a.schema.children[1];
    a.schema.children[1]->release = NULL;
    drop(&a);
    opm_trace_close(t);
    assert_int_equal(name.length, 5);
    assert_string_equal(schema.name, "name");
    assert_memory_equal(name.dictionary->buffers[2], "a", 1);
    name.release(&name);
    schema.release(&schema);
}

static void test_failures(void **state)
{
    opm_trace *t = open_trace();
    struct ArrowArrayStream s = { 0 };
    opm_error err;

    (void)state;
    assert_int_equal(opm_trace_arrow(NULL, "SELECT 1", &s, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_arrow(t, NULL, &s, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_arrow(t, "SELECT 1", NULL, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_arrow(t, "SELECT nothing FROM span", &s, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "nothing"));
    assert_int_equal(opm_trace_arrow(t, "SELECT 1; SELECT 2", &s, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_arrow(t, "DROP TABLE span", &s, &err), OPM_EINVAL);
    assert_int_equal(opm_trace_arrow(t, "SELECT * FROM span;;", &s, &err), 0);
    s.release(&s);
    opm_trace_close(t);
}

static opm_trace *shared;
static const char *shared_sql;

static int consume(void)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray array;
    opm_error err;
    int rc = opm_trace_arrow(shared, shared_sql, &stream, &err);

    if (rc)
        return rc;
    rc = stream.get_schema(&stream, &schema);
    if (!rc) {
        schema.release(&schema);
        rc = stream.get_next(&stream, &array);
        if (!rc)
            array.release(&array);
    }
    stream.release(&stream);
    assert_true(rc == 0 || rc == ENOMEM);
    return rc ? OPM_ENOMEM : 0;
}

static void test_no_memory(void **state)
{
    static const char *const queries[] = {
        "SELECT * FROM span",
        "SELECT *, 1.5, NULL FROM span WHERE ts >= 0",
        "SELECT 1 AS x UNION ALL SELECT 1.5 UNION ALL SELECT 'x'",
    };

    (void)state;
    shared = open_trace();
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        shared_sql = queries[i];
        consume(); /* what is computed once for good is not what this is about */
        unit_fail_each(consume);
    }
    opm_trace_close(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_table), cmocka_unit_test(test_queries),
        cmocka_unit_test(test_types),       cmocka_unit_test(test_moved_child),
        cmocka_unit_test(test_failures),    cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
