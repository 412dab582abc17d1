/* top_sql.c -- the SQL behind `opmeter top`; see top.h.
 *
 * One statement per table: filter op_times, aggregate, rank, cut, and only then look up what the
 * rows that are left need from other tables. */
#include "cli/top.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const struct top_column_def top_columns[TOP_COLUMN_COUNT] = {
#define COLUMN(name, sql, header, kind, rank, doc) \
    { #name, #sql, header, TOP_KIND_##kind, rank, doc },
#define ALIAS(name, other)
#include "cli/top_columns.def"
#undef COLUMN
#undef ALIAS
};

static const struct {
    const char *name;
    int column;
} aliases[] = {
#define COLUMN(name, sql, header, kind, rank, doc) { #name, TOP_##name },
#define ALIAS(name, other) { #name, TOP_##other },
#include "cli/top_columns.def"
#undef COLUMN
#undef ALIAS
};

static bool same_name(const char *name, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++, name++) {
        char c = text[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c == '-' || c == ' ')
            c = '_';
        if (c != *name)
            return false;
    }
    return !*name;
}

int top_column_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        if (same_name(aliases[i].name, name, len))
            return aliases[i].column;
    return -1;
}

/* -- text -- */

static void put_string(struct buf *b, const char *before, const char *s, const char *after)
{
    buf_addf(b, "'%s", before);
    for (; *s; s++) {
        if (*s == '\'')
            buf_addc(b, '\'');
        buf_addc(b, *s);
    }
    buf_addf(b, "%s'", after);
}

/* A dtype may be written as MegEngine, ONNX or we write it. */
static void put_dtypes(struct buf *b, const char *dtype)
{
    static const char *const names[][4] = {
        { "fp32", "Float32", "float32", "float" },  { "fp16", "Float16", "float16", "half" },
        { "bf16", "BFloat16", "bfloat16", "bf16" }, { "fp64", "Float64", "float64", "double" },
        { "int8", "Int8", "s8", "int8" },           { "uint8", "Uint8", "u8", "uint8" },
        { "int16", "Int16", "s16", "int16" },       { "uint16", "Uint16", "u16", "uint16" },
        { "int32", "Int32", "s32", "int" },         { "int64", "Int64", "s64", "int64" },
        { "bool", "Bool", "boolean", "bool" },
    };

    put_string(b, "", dtype, "");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        for (size_t k = 0; k < 4; k++)
            if (strcmp(names[i][k], dtype) == 0)
                for (size_t n = 0; n < 4; n++)
                    buf_addf(b, ", '%s'", names[i][n]);
}

static void put_filters(const struct top *t, struct buf *b, const char *time)
{
    const char *lead;

    if (t->type.n) {
        buf_adds(b, " AND type IN (");
        for (size_t i = 0; i < t->type.n; i++) {
            buf_adds(b, i ? ", " : "");
            put_string(b, "", t->type.item[i], "");
        }
        buf_adds(b, ")");
    }
    lead = " AND (";
    for (size_t i = 0; i < t->opr_name.n; i++) {
        buf_addf(b, "%sname REGEXP ", lead);
        put_string(b, "^(?:", t->opr_name.item[i], ")"); /* from the start, as re.match() does */
        lead = " OR ";
    }
    buf_adds(b, t->opr_name.n ? ")" : "");
    if (t->input_dtype.n) {
        buf_adds(b, " AND op IN (SELECT op FROM op_tensor WHERE io <> 'output' AND dtype IN (");
        for (size_t i = 0; i < t->input_dtype.n; i++) {
            buf_adds(b, i ? ", " : "");
            put_dtypes(b, t->input_dtype.item[i]);
        }
        buf_adds(b, "))");
    }
    if (isfinite(t->min_ns))
        buf_addf(b, " AND %s >= %.17g", time, t->min_ns);
    if (isfinite(t->max_ns))
        buf_addf(b, " AND %s <= %.17g", time, t->max_ns);
}

static void put_order(const struct top *t, struct buf *b)
{
    for (size_t i = 0; i < t->norder; i++) {
        int c = t->order[i].column;

        /* Cumulative follows the order; ids are texts that are mostly numbers. */
        if (c == TOP_cumulative)
            c = TOP_time;
        if (c == TOP_id)
            buf_addf(b, "CAST(id AS INTEGER)%s, ", t->order[i].ascending ? "" : " DESC");
        buf_addf(b, "%s%s NULLS LAST, ", top_columns[c].sql, t->order[i].ascending ? "" : " DESC");
    }
    buf_adds(b, "number");
}

/* Columns of op_counters, which looks at the arguments of every span: only if one is asked for. */
#define COUNTERS "cycles, instructions, cache_misses, cpu_ns, page_faults"

/* Self time with interruptions. */
#define EXACT "(time_ns + interrupted_ns)"

static bool wants_counters(const struct top *t)
{
    bool wants = false;

    for (size_t i = 0; i < t->ncolumn; i++)
        wants |= top_is_counter(t->column[i]);
    for (size_t i = 0; i < t->norder; i++)
        wants |= top_is_counter(t->order[i].column);
    return wants;
}

bool top_is_counter(int column)
{
    return column >= TOP_ipc && column <= TOP_page_faults;
}

/* op_ranking, which of one rank is op_times with the number of each row; boxes always show that. */
void top_put_times(const struct top *t, struct buf *b)
{
    buf_adds(b, t->places > 1 ? "(SELECT * FROM op_ranking)"
                              : "(SELECT rowid AS number, * FROM op_times)");
}

/* The operators that pass, with the time that was asked for. */
static void put_chosen(const struct top *t, const char *section, struct buf *b)
{
    bool kernels = t->kern && t->has_wait, counters = wants_counters(t);
    /* MegEngine's tool knows the mean of all. */
    const char *time = kernels ? "kernel_ns" : t->boxes ? EXACT : "time_ns";

    buf_adds(b, "WITH times AS ");
    top_put_times(t, b);
    buf_addf(b,
             ", chosen AS (SELECT number, op, name, type, count, warmup_count,"
             " %s AS time_ns, %s AS share, wait_ns, kernel_ns, computation, memory, total_ns,"
             " interrupted, interrupted_ns,"
             " mean_ns, median_ns, min_ns, max_ns, p90_ns, p95_ns, p99_ns, stdev_ns,"
             " iif(%s > 0, computation * 1e9 / %s, NULL) AS flops_per_s,"
             " iif(%s > 0, memory * 1e9 / %s, NULL) AS bytes_per_s, share_of_peak, roof%s"
             " FROM times JOIN (SELECT section AS of, sum(%s) AS sum_ns FROM times GROUP BY"
             " section) ON of = section%s WHERE section = '%s' AND %s IS NOT NULL",
             time,
             kernels    ? "kernel_ns / sum_ns"
             : t->boxes ? EXACT " / sum_ns"
                        : "share",
             time, time, time, time, counters ? ", " COUNTERS : "", t->boxes ? EXACT : "time_ns",
             counters ? " LEFT JOIN (SELECT op AS counted_op, " COUNTERS
                        " FROM op_counters) ON counted_op = op"
                      : "",
             section, time);
    put_filters(t, b, time);
    buf_adds(b, ")");
}

static void put_groups(const struct top *t, struct buf *b)
{
    const char *f = t->aggregate;
    static const char *const amounts[] = { "time_ns",        "share",       "wait_ns",
                                           "kernel_ns",      "computation", "memory",
                                           "interrupted_ns", "cycles",      "instructions",
                                           "cache_misses",   "cpu_ns",      "page_faults" };
    enum { PLAIN_AMOUNTS = 7 }; /* the others come from op_counters */
    bool together = f && (strcmp(f, "sum") == 0 || strcmp(f, "mean") == 0);

    if (!f) {
        buf_adds(b, ", grouped AS (SELECT *, 1 AS ops, computation IS NULL AS unknown_computation,"
                    " memory IS NULL AS unknown_memory FROM chosen)");
        return;
    }
    f = strcmp(f, "mean") == 0 ? "avg" : f;
    buf_addf(b,
             ", grouped AS (SELECT min(number) AS number, NULL AS op, %s AS name, %s AS type,"
             " sum(count) AS count, sum(warmup_count) AS warmup_count, count(*) AS ops,"
             " sum(interrupted) AS interrupted,"
             " count(*) - count(computation) AS unknown_computation,"
             " count(*) - count(memory) AS unknown_memory",
             t->aggregate_by ? "type" : "'all'", t->aggregate_by ? "type" : "'all'");
    for (size_t i = 0; i < ARRAY_SIZE(amounts); i++)
        if (i < PLAIN_AMOUNTS || wants_counters(t))
            buf_addf(b, ", %s(%s) AS %s", f, amounts[i], amounts[i]);
    /* Known work of all over the time of all, whether summed up or averaged; the extreme rate of
     * one. */
    if (together)
        buf_adds(b, ", sum(computation) * 1e9 / nullif(sum(time_ns), 0) AS flops_per_s,"
                    " sum(memory) * 1e9 / nullif(sum(time_ns), 0) AS bytes_per_s,"
                    " sum(share_of_peak * time_ns) / nullif(sum(iif(share_of_peak IS NULL, 0,"
                    " time_ns)), 0) AS share_of_peak");
    else
        buf_addf(b,
                 ", %s(flops_per_s) AS flops_per_s, %s(bytes_per_s) AS bytes_per_s,"
                 " %s(share_of_peak) AS share_of_peak",
                 f, f, f);
    buf_addf(b,
             ", sum(total_ns) AS total_ns, CAST(sum(total_ns) AS REAL) / sum(count) AS mean_ns,"
             " NULL AS median_ns, min(min_ns) AS min_ns, max(max_ns) AS max_ns, NULL AS p90_ns,"
             " NULL AS p95_ns, NULL AS p99_ns, NULL AS stdev_ns, iif(count(DISTINCT roof) = 1,"
             " min(roof), NULL) AS roof FROM chosen%s)",
             t->aggregate_by ? " GROUP BY type" : " HAVING count(*) > 0");
}

#define SHAPES_OF(io)                                                                            \
    "(SELECT group_concat(iif(shape = '', 'scalar', shape), ';') FROM op_tensor WHERE op = r.op" \
    " AND io = '" io "')"

static void put_shapes(struct buf *b, const char *io, const char *name)
{
    buf_addf(b,
             ", (SELECT group_concat(coalesce(shape, '?'), ';') FROM op_tensor WHERE op = r.op"
             " AND io %s) AS %s",
             io, name);
}

void top_sql(const struct top *t, const char *section, struct buf *b)
{
    put_chosen(t, section, b);
    put_groups(t, b);
    buf_adds(b, ", rated AS (SELECT *,");
    if (wants_counters(t))
        buf_adds(b, " iif(cycles > 0, instructions / cycles, NULL) AS ipc,");
    /* Ids and devices of ops are needed before ranking only if they decide the order. */
    buf_adds(b,
             " coalesce((SELECT iif(json_valid(attributes), json_extract(attributes, '$.opr_id'),"
             " NULL) FROM op WHERE id = grouped.op), CAST(op AS TEXT)) AS id,"
             " (SELECT device FROM op WHERE id = grouped.op) AS device");
    for (size_t i = 0; i < t->norder; i++)
        if (t->order[i].column == TOP_in_shapes || t->order[i].column == TOP_out_shapes)
            buf_addf(b,
                     ", (SELECT group_concat(shape, ';') FROM op_tensor WHERE op = grouped.op"
                     " AND io %s) AS %s",
                     t->order[i].column == TOP_in_shapes ? "<> 'output'" : "= 'output'",
                     top_columns[t->order[i].column].sql);
    buf_adds(b,
             " FROM grouped), ranked AS (SELECT row_number() OVER best - 1 AS rank,"
             " count(*) OVER () AS all_rows, sum(time_ns) OVER best AS cumulative_ns,"
             " sum(share) OVER best AS cumulative_share, * FROM rated WINDOW best AS (ORDER BY ");
    put_order(t, b);
    buf_adds(b, " ROWS UNBOUNDED PRECEDING) ORDER BY rank");
    if (t->limit)
        buf_addf(b, " LIMIT %" PRId64, t->limit);
    buf_addf(
        b,
        ") SELECT '%s' AS section, rank, id, name, type, device, ops, count, warmup_count,"
        " time_ns, share, cumulative_ns, cumulative_share, wait_ns, kernel_ns, computation,"
        " flops_per_s, memory, bytes_per_s, total_ns, mean_ns, median_ns, min_ns, max_ns,"
        " p90_ns, p95_ns, p99_ns, stdev_ns, share_of_peak, roof, interrupted, interrupted_ns%s",
        section, wants_counters(t) ? ", ipc, " COUNTERS : "");
    put_shapes(b, "<> 'output'", "in_shapes");
    put_shapes(b, "= 'output'", "out_shapes");
    buf_adds(b, ", (SELECT iif(json_valid(attributes), json_extract(attributes, '$.in_layouts'),"
                " NULL) FROM op WHERE id = r.op) AS in_layouts"
                ", unknown_computation, unknown_memory, all_rows,"
                " max(time_ns) OVER () AS longest_ns, (SELECT post_op FROM op WHERE id = r.op) AS"
                " post_op, nullif(ltrim(coalesce(" SHAPES_OF(
                    "input") ", '') ||"
                             " coalesce(' * ' || " SHAPES_OF(
                                 "weight") ", '') || coalesce(' -> ' "
                                           "|| " SHAPES_OF("output") ", ''), ' *'), '') "
                                                                     "AS shapes, op "
                                                                     "FROM ranked AS r "
                                                                     "ORDER BY rank");
}

const char top_summary_sql[] =
    "SELECT 'total device time' AS name, (SELECT sum" EXACT " FROM op_times WHERE section ="
    " 'device') AS ns UNION ALL SELECT 'total host time', (SELECT sum" EXACT " FROM op_times"
    " WHERE section = 'host')";

void top_copy_sql(const struct top *t, struct buf *b)
{
    buf_adds(b, "SELECT sum" EXACT " AS time_ns, avg" EXACT " AS mean_ns, sum(wait_ns) AS wait_ns,"
                " avg(wait_ns) AS mean_wait_ns FROM op_times WHERE section = 'device' AND"
                " (type = 'Copy' OR type REGEXP '(?i)memcpy')");
    put_filters(t, b, EXACT);
}

/* -- rows -- */

static const char *const field_names[TOP_FIELD_COUNT] = {
    [TOP_FIELD_RANK] = "rank",
    [TOP_FIELD_CUMULATIVE_SHARE] = "cumulative_share",
    [TOP_FIELD_UNKNOWN_COMPUTATION] = "unknown_computation",
    [TOP_FIELD_UNKNOWN_MEMORY] = "unknown_memory",
    [TOP_FIELD_ALL_ROWS] = "all_rows",
    [TOP_FIELD_IN_LAYOUTS] = "in_layouts",
    [TOP_FIELD_LONGEST] = "longest_ns",
    [TOP_FIELD_POST_OP] = "post_op",
    [TOP_FIELD_OP] = "op",
};

static int find_column(const opm_rows *r, const char *name)
{
    int n = opm_rows_columns(r);

    for (int i = 0; i < n; i++)
        if (strcmp(opm_rows_name(r, i), name) == 0)
            return i;
    assert(!"a column of top that its statement lacks");
    return 0;
}

int top_rows_open(const struct top *t, const char *section, struct top_rows *r)
{
    struct buf sql = { 0 };
    opm_error err;
    int rc;

    *r = (struct top_rows){ 0 };
    top_sql(t, section, &sql);
    rc = sql.failed ? cli_out_of_memory() : CLI_OK;
    if (rc == CLI_OK && opm_trace_query(t->trace, buf_str(&sql), &r->rows, &err) < 0)
        rc = cli_error("%s", err.msg);
    buf_release(&sql);
    for (int i = 0; i < TOP_COLUMN_COUNT && rc == CLI_OK; i++)
        if (!top_is_counter(i) || wants_counters(t))
            r->at[i] = find_column(r->rows, top_columns[i].sql);
    for (int i = 0; i < TOP_FIELD_COUNT && rc == CLI_OK; i++)
        r->field[i] = find_column(r->rows, field_names[i]);
    return rc;
}

int top_rows_next(struct top_rows *r)
{
    opm_error err;
    int more = opm_rows_next(r->rows, &err);

    if (more < 0)
        cli_error("%s", err.msg);
    return more < 0 ? -1 : more;
}

void top_rows_close(struct top_rows *r)
{
    opm_rows_close(r->rows);
    r->rows = NULL;
}

double top_real(const struct top_rows *r, int col)
{
    return opm_rows_type(r->rows, col) == OPM_TYPE_NULL ? NAN : opm_rows_real(r->rows, col);
}

const char *top_text(const struct top_rows *r, int col, size_t *len)
{
    const char *s = opm_rows_text(r->rows, col, len);

    if (!s)
        *len = 0;
    return s ? s : "";
}
