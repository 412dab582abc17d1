/* top_ranking.c -- the ranking of `opmeter top`, a line per operator as `opmeter run` prints it,
 * and the kernels below each; see top.h. */
#include "cli/top.h"

#include "cli/ranking.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define KERNELS_SHOWN 5 /* of one operator */

/* The column of the common table that a column of top is; -1: it has its own. */
static int shared(int column)
{
    switch (column) {
    case TOP_time:
        return RANKING_TIME;
    case TOP_share:
        return RANKING_SHARE;
    case TOP_count:
        return RANKING_COUNT;
    case TOP_median:
        return RANKING_MEDIAN;
    case TOP_p99:
        return RANKING_P99;
    case TOP_type:
        return RANKING_TYPE;
    case TOP_info:
        return RANKING_NAME;
    case TOP_flops:
        return RANKING_GFLOPS;
    case TOP_bandwidth:
        return RANKING_GBYTES;
    case TOP_of_peak:
        return RANKING_OF_PEAK;
    case TOP_roof:
        return RANKING_ROOF;
    case TOP_shapes:
        return RANKING_SHAPES;
    default:
        return -1;
    }
}

/* A usual column may be left out; one that was asked for is there, whatever is known of it. */
static void add_column(const struct top *top, struct textable *t, size_t i)
{
    int column = top->column[i];
    const char *span_word = column == TOP_info ? "span" : column == TOP_type ? "category" : NULL;
    const struct top_column_def *c = &top_columns[column];
    bool text =
        c->kind == TOP_KIND_TEXT || c->kind == TOP_KIND_IN_SHAPES || c->kind == TOP_KIND_OUT_SHAPES;

    if (shared(column) >= 0)
        ranking_column(t, (enum ranking_column)shared(column), top->has_ops ? NULL : span_word,
                       i < top->nusual);
    else
        textable_column(t, c->header, text ? TEXTABLE_TEXT : TEXTABLE_INT);
}

static void own_cell(struct textable *t, const struct top_rows *r, int column)
{
    const struct top_column_def *c = &top_columns[column];
    int at = r->at[column];
    double v = NAN;
    char room[HUMAN_ROOM];
    struct buf b = { 0 };

    switch (c->kind) {
    case TOP_KIND_TEXT:
    case TOP_KIND_IN_SHAPES:
    case TOP_KIND_OUT_SHAPES:
        ranking_text(t, opm_rows_text(r->rows, at, NULL));
        return;
    case TOP_KIND_SELF:
    case TOP_KIND_CUMULATIVE:
    case TOP_KIND_INFO:
    case TOP_KIND_TIME:
    case TOP_KIND_COUNT:
    case TOP_KIND_FLO:
    case TOP_KIND_FLOPS:
    case TOP_KIND_BYTES:
    case TOP_KIND_BANDWIDTH:
    case TOP_KIND_SHARE:
    case TOP_KIND_NUMBER:
    case TOP_KIND_RATIO:
        v = top_real(r, at);
        break;
    }
    if (isnan(v)) {
        textable_null(t);
        return;
    }
    if (c->kind == TOP_KIND_CUMULATIVE || c->kind == TOP_KIND_TIME) {
        ranking_time(t, v);
        return;
    }
    if (c->kind == TOP_KIND_COUNT)
        buf_adds(&b, human_count(room, (int64_t)v));
    else if (c->kind == TOP_KIND_FLO)
        top_put_amount(&b, v, 1000, "FLO", "FLO", " ");
    else if (c->kind == TOP_KIND_BYTES)
        top_put_amount(&b, v, 1000, "B", "B", " ");
    else if (c->kind == TOP_KIND_RATIO)
        buf_addf(&b, "%.2f", v);
    else
        top_put_amount(&b, v, 1000, "", "", "");
    textable_text(t, buf_str(&b), b.len);
    buf_release(&b);
}

static struct ranking_row row_of(const struct top_rows *r)
{
    return (struct ranking_row){
        .name = opm_rows_text(r->rows, r->at[TOP_info], NULL),
        .type = opm_rows_text(r->rows, r->at[TOP_type], NULL),
        .post_op = opm_rows_text(r->rows, r->field[TOP_FIELD_POST_OP], NULL),
        .shapes = opm_rows_text(r->rows, r->at[TOP_shapes], NULL),
        .count = opm_rows_int(r->rows, r->at[TOP_count]),
        .interrupted_ns = top_real(r, r->at[TOP_interruptions]),
        .time_ns = top_real(r, r->at[TOP_time]),
        .share = top_real(r, r->at[TOP_share]),
        .median_ns = top_real(r, r->at[TOP_median]),
        .p99_ns = top_real(r, r->at[TOP_p99]),
        .gflops = top_real(r, r->at[TOP_flops]) / 1e9,
        .gbytes = top_real(r, r->at[TOP_bandwidth]) / 1e9,
        .of_peak = top_real(r, r->at[TOP_of_peak]),
        .roof = opm_rows_text(r->rows, r->at[TOP_roof], NULL),
    };
}

/* -- kernels -- */

const char top_kernels_sql[] =
    "SELECT op, owner, kernel, count, total_ns, mean_ns, median_ns, min_ns, max_ns, p99_ns, share"
    " FROM op_kernels ORDER BY total_ns DESC";

/* A kernel in the columns of the table; its time is its part of the operator's. */
static void add_kernel(const struct top *t, struct textable *table, const struct ranking_row *row)
{
    for (size_t i = 0; i < t->ncolumn; i++) {
        int c = shared(t->column[i]);

        if (c >= 0)
            ranking_cell(table, (enum ranking_column)c, row);
        else
            ranking_text(table, "");
    }
}

static double known(const opm_rows *r, int col)
{
    return opm_rows_type(r, col) == OPM_TYPE_NULL ? NAN : opm_rows_real(r, col);
}

/* *shown: how many so far. */
static int add_kernels(const struct top *t, struct textable *table, const struct top_rows *of,
                       int64_t *shown)
{
    struct buf sql = { 0 }, name = { 0 };
    double time_ns = top_real(of, of->at[TOP_time]), share = top_real(of, of->at[TOP_share]);
    opm_rows *r = NULL;
    opm_error err;
    int64_t n = 0;
    int more;

    if (t->places > 1)
        buf_adds(&sql, "SELECT kernel, sum(count), iif(count(*) = 1, max(median_ns), NULL),"
                       " iif(count(*) = 1, max(p99_ns), NULL), CAST(sum(total_ns) AS REAL) /"
                       " sum(sum(total_ns)) OVER (), count(*) OVER () FROM op_kernels WHERE ");
    else
        buf_adds(&sql, "SELECT kernel, count, median_ns, p99_ns, share, count(*) OVER () FROM"
                       " op_kernels WHERE ");
    if (opm_rows_type(of->rows, of->field[TOP_FIELD_OP]) == OPM_TYPE_NULL) {
        buf_adds(&sql, "op IS NULL AND owner = ");
        cli_sql_text(&sql, opm_rows_text(of->rows, of->at[TOP_info], NULL));
        buf_adds(&sql, " AND kernel <> owner");
    } else if (t->places > 1) {
        buf_addf(&sql,
                 "op IN (SELECT b.op FROM op_times AS a JOIN op_times AS b ON b.name IS a.name AND"
                 " b.type IS a.type WHERE a.op = %" PRId64 ")",
                 opm_rows_int(of->rows, of->field[TOP_FIELD_OP]));
    } else {
        buf_addf(&sql, "op = %" PRId64, opm_rows_int(of->rows, of->field[TOP_FIELD_OP]));
    }
    buf_addf(&sql, "%s LIMIT %d",
             t->places > 1 ? " GROUP BY kernel ORDER BY sum(total_ns) DESC"
                           : " ORDER BY total_ns DESC",
             KERNELS_SHOWN);
    more = sql.failed ? OPM_ENOMEM : opm_trace_query(t->trace, buf_str(&sql), &r, &err);
    while (more >= 0) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        int64_t left = opm_rows_int(r, 5) - ++n;
        double part = opm_rows_real(r, 4);

        buf_clear(&name);
        buf_adds(&name, "  ");
        ranking_put_kernel(&name, opm_rows_text(r, 0, NULL));
        if (n == KERNELS_SHOWN && left > 0)
            buf_addf(&name, " and %" PRId64 " more", left);
        add_kernel(t, table,
                   &(struct ranking_row){ .name = buf_str(&name),
                                          .type = "  kernel",
                                          .count = opm_rows_int(r, 1),
                                          .time_ns = time_ns * part,
                                          .share = share * part,
                                          .median_ns = known(r, 2),
                                          .p99_ns = known(r, 3),
                                          .part = true });
    }
    opm_rows_close(r);
    *shown += n;
    if (sql.failed || name.failed)
        more = cli_out_of_memory();
    else if (more < 0)
        more = cli_error("%s", err.msg);
    buf_release(&sql);
    buf_release(&name);
    return more;
}

/* -- the table -- */

static void put_heading(const struct top *t, const char *section, const struct top_remarks *m)
{
    bool both = !isnan(t->total_ns[0]) && !isnan(t->total_ns[1]);
    const char *what = t->aggregate ? (t->aggregate_by ? "Operator types" : "All operators")
                       : t->has_ops ? "Operators"
                                    : "Spans";
    double all = t->total_ns[strcmp(section, "host") == 0];
    char room[HUMAN_ROOM];

    cli_heading(t->cli, "%s, by %s%stime: %s in all (%" PRId64 " of %" PRId64 ")", what,
                both ? section : "", both ? " " : "", human_ns(room, all), m->rows, m->all_rows);
}

int top_print_ranking(const struct top *t, const char *section)
{
    struct textable *table = textable_new();
    struct top_remarks m = { 0 };
    struct top_rows r;
    int64_t kernels = 0;
    bool usual_shapes = false;
    int more = 0, rc;

    if (!table)
        return cli_out_of_memory();
    for (size_t i = 0; i < t->ncolumn; i++)
        add_column(t, table, i);
    for (size_t i = 0; i < t->nusual; i++)
        usual_shapes |= t->column[i] == TOP_shapes;
    rc = top_rows_open(t, section, &r);
    while (rc == CLI_OK) {
        more = top_rows_next(&r);
        if (more <= 0)
            break;
        struct ranking_row row = row_of(&r);

        if (usual_shapes && ranking_name_has_shapes(&row))
            row.shapes = NULL; /* once is enough */
        top_note_row(&m, &r);
        for (size_t i = 0; i < t->ncolumn; i++) {
            if (shared(t->column[i]) >= 0)
                ranking_cell(table, (enum ranking_column)shared(t->column[i]), &row);
            else
                own_cell(table, &r, t->column[i]);
        }
        if (t->kernels)
            rc = add_kernels(t, table, &r, &kernels);
    }
    if (more < 0)
        rc = CLI_FAILURE;
    top_rows_close(&r);
    if (rc == CLI_OK && m.rows) {
        put_heading(t, section, &m);
        rc = cli_print_table(t->cli, table);
    } else {
        textable_free(table);
    }
    if (rc == CLI_OK && !m.rows)
        rc = top_say_nothing(t);
    if (rc == CLI_OK && t->kernels && !kernels)
        cli_remark(t->cli, "no kernel was recorded for any of these");
    if (rc == CLI_OK)
        top_say_remarks(t, &m);
    return rc;
}
