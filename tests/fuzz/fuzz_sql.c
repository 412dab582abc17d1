/* fuzz_sql.c -- any text as SQL on a small store: never a crash, a write, or an endless query; and
 * by column the answer has as many rows, or fails as well. */
#include "sql/columns.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(int rc)
{
    if (rc < 0)
        abort();
}

static str_id text(struct store *st, const char *s)
{
    str_id id;

    check(store_cstr(st, s, &id));
    return id;
}

/* A few rows in every table that queries like to join. */
static struct store *make_store(void)
{
    static const char *const names[] = { "Conv", "MatMul", "relu", "5" };
    struct cell track[track_col_COUNT] = { 0 }, op[op_col_COUNT] = { 0 };
    struct cell step[step_col_COUNT] = { 0 }, sample[sample_col_COUNT] = { 0 };
    struct store *st;

    check(store_new(&st));
    track[track_col_name] = cell_str(text(st, "main"));
    check(store_add(st, TABLE_track, track, NULL));
    for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
        op[op_col_name] = op[op_col_type] = cell_str(text(st, names[i]));
        check(store_add(st, TABLE_op, op, NULL));
        step[step_col_ts] = sample[sample_col_ts] = cell_i64(i * 50);
        step[step_col_dur] = cell_i64(40);
        step[step_col_warmup] = cell_i64(i == 0);
        check(store_add(st, TABLE_step, step, NULL));
        sample[sample_col_track] = cell_id(0);
        sample[sample_col_value] = cell_f64(i / 2.0);
        check(store_add(st, TABLE_sample, sample, NULL));
    }
    for (uint32_t i = 0; i < 24; i++) {
        struct span_row row = SPAN_ROW_INIT;
        struct site site = { .name = text(st, names[i % 4]),
                             .cat = i % 3 ? text(st, "op") : 0,
                             .layer = text(st, i % 2 ? "framework" : "runtime"),
                             .op = i % 5 ? i % 4 : OPM_NULL_ID };

        check(store_site(st, &site, &row.site));
        row.track = 0;
        row.ts_ns = i * 10 - i % 3;
        row.dur_ns = i % 7 ? (int64_t)(i % 4) * 9 : -1;
        row.args = text(st, "{\"bytes\":5}");
        check(store_add_span(st, &row, NULL));
    }
    check(store_finish(st));
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct sql *q;
    static struct store *st; /* kept: LeakSanitizer would miss it otherwise */
    struct sql_rows *r = NULL;
    struct sql_columns columns = { 0 };
    opm_error err = { 0 };
    size_t nrow = 0;
    char *sql;
    int rc;

    if (!q) {
        st = make_store();
        check(sql_open(&q, st, &err));
        sql_limit_steps(q, 200000);
    }
    sql = malloc(len + 1);
    if (!sql)
        return 0;
    memcpy(sql, data, len);
    sql[len] = '\0';
    rc = sql_query(q, sql, &r, &err);
    for (; rc >= 0; nrow++) {
        rc = sql_rows_next(r, &err);
        if (rc <= 0)
            break;
        for (int i = 0; i < sql_rows_columns(r); i++)
            sql_rows_text(r, i, NULL);
    }
    /* A failure says something, in one line. */
    if (rc < 0 && (err.code != rc || !err.msg[0] || strpbrk(err.msg, "\r\n")))
        abort();
    sql_rows_close(r);
    if (rc == 0 && sql_columns(q, sql, &columns, &err) == 0 && columns.nrow != nrow &&
        !strchr(sql, '(') && !strcasestr(sql, "current_")) /* random() is another one each time */
        abort();
    sql_columns_release(&columns);
    free(sql);
    return 0;
}
