/* xlsx.c -- a workbook that calculates: what sparse weights would bring, and the statistics.
 *
 * Sheet what-if has the three parts and the cells of Neural Engine's CSV (neural_csv.c), so that
 * formulas are the same; ratios and aims are meant to be edited. Formulas carry their results, for
 * readers that do not calculate. All text is written as text: nothing of a trace becomes a formula.
 * The only file that knows libxlsxwriter, which is loaded when a workbook is asked for; without it,
 * that is said. */
#include "export/export.h"

#include "base/error.h"

#ifndef OPMETER_HAVE_XLSXWRITER

int export_xlsx(const struct store *st, const char *path, const struct export_options *opts,
                opm_error *err)
{
    (void)st;
    (void)opts;
    return opm__fail(err, OPM_EUNSUPPORTED,
                     "%s: this opmeter was built without the header of libxlsxwriter", path);
}

#else

#include "analyze/analysis.h"
#include "analyze/sparse.h"
#include "base/alloc.h"
#include "base/environment.h"
#include "base/utf8.h"
#include "export/neural_text.h"
#include "export/writer.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xlsxwriter.h>

#define CELL_TEXT_MAX 32000 /* a cell holds 32767 characters */

/* Structs of the library are not looked into, so that one whose structs are others will do. */
#define XLSX_FUNCTIONS(X)             \
    X(workbook_new)                   \
    X(workbook_close)                 \
    X(workbook_add_worksheet)         \
    X(workbook_add_format)            \
    X(workbook_add_chart)             \
    X(workbook_get_worksheet_by_name) \
    X(format_set_num_format)          \
    X(format_set_bold)                \
    X(format_set_bg_color)            \
    X(format_set_font_color)          \
    X(format_set_bottom)              \
    X(format_set_text_wrap)           \
    X(format_set_align)               \
    X(worksheet_write_string)         \
    X(worksheet_write_number)         \
    X(worksheet_write_formula_num)    \
    X(worksheet_set_column)           \
    X(worksheet_freeze_panes)         \
    X(worksheet_autofilter)           \
    X(worksheet_insert_chart)         \
    X(chart_add_series)               \
    X(chart_series_set_categories)    \
    X(chart_series_set_values)        \
    X(chart_series_set_name)          \
    X(chart_title_set_name)           \
    X(chart_axis_get)                 \
    X(chart_axis_set_reverse)         \
    X(chart_legend_set_position)      \
    X(lxw_strerror)

static struct {
    bool found, complete;
#define X(name) __typeof__(name) *name;
    XLSX_FUNCTIONS(X)
#undef X
} lib;

static void load_once(void)
{
    /* 1.1.4 to 1.2.1, whose functions are the same. */
    static const char *const names[] = { "libxlsxwriter.so.8", "libxlsxwriter.so.7",
                                         "libxlsxwriter.so.6", "libxlsxwriter.so.5",
                                         "libxlsxwriter.so.4" };
    void *library = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    lib.found = lib.complete = true;
#define X(name)                                             \
    *(void **)(uintptr_t)&lib.name = dlsym(library, #name); \
    lib.complete &= lib.name != NULL;
    XLSX_FUNCTIONS(X)
#undef X
}

static int load_library(const char *path, opm_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load_once);
    if (lib.complete)
        return 0;
    return opm__fail(err, OPM_EUNSUPPORTED,
                     lib.found ? "%s: libxlsxwriter is of a version that is not known"
                               : "%s: .xlsx needs libxlsxwriter, which is not installed (Debian's "
                                 "package is libxlsxwriter4 or libxlsxwriter8)",
                     path);
}

enum style {
    STYLE_PLAIN,
    STYLE_HEAD,
    STYLE_EDIT,
    STYLE_EDIT_PERCENT,
    STYLE_MS,
    STYLE_RATIO,
    STYLE_PERCENT,
    STYLE_COUNT,
    STYLE_BOLD,
    STYLE_BOLD_MS,
    STYLE_NOTE,
    STYLE_COUNT_,
};

struct book {
    const struct store *st;
    lxw_workbook *wb;
    lxw_format *style[STYLE_COUNT_];
    struct sparse s;
    struct op_tensors tensors;
    struct buf text;
    bool failed; /* some cell could not be made for lack of memory */
};

static void make_styles(struct book *b)
{
    static const char *const numbers[STYLE_COUNT_] = {
        [STYLE_EDIT] = "0.00",
        [STYLE_EDIT_PERCENT] = "0%",
        [STYLE_MS] = "#,##0.000000",
        [STYLE_RATIO] = "0.00",
        [STYLE_PERCENT] = "0.0%",
        [STYLE_COUNT] = "#,##0",
        [STYLE_BOLD_MS] = "#,##0.000000",
    };

    for (int i = 0; i < STYLE_COUNT_; i++) {
        lxw_format *f = b->style[i] = lib.workbook_add_format(b->wb);

        if (!f) {
            b->failed = true;
            return;
        }
        if (numbers[i])
            lib.format_set_num_format(f, numbers[i]);
        if (i == STYLE_HEAD || i == STYLE_BOLD || i == STYLE_BOLD_MS)
            lib.format_set_bold(f);
        if (i == STYLE_HEAD) {
            lib.format_set_bg_color(f, 0xDDE6F0);
            lib.format_set_bottom(f, LXW_BORDER_THIN);
            lib.format_set_text_wrap(f);
            lib.format_set_align(f, LXW_ALIGN_VERTICAL_TOP);
        }
        if (i == STYLE_EDIT || i == STYLE_EDIT_PERCENT)
            lib.format_set_bg_color(f, 0xFFF4C2);
        if (i == STYLE_NOTE)
            lib.format_set_font_color(f, 0x666666);
    }
}

/* Text in valid UTF-8 that fits into a cell, in b->text. */
static const char *cell_text(struct book *b, const char *s, size_t len)
{
    buf_clear(&b->text);
    text_add_utf8(&b->text, s, len);
    if (b->text.len > CELL_TEXT_MAX) {
        size_t cut = CELL_TEXT_MAX;

        while (cut && ((unsigned char)b->text.data[cut] & 0xc0) == 0x80)
            cut--;
        b->text.len = cut;
        buf_adds(&b->text, "\xe2\x80\xa6");
    }
    b->failed |= b->text.failed;
    return buf_str(&b->text);
}

static void put_text(struct book *b, lxw_worksheet *ws, lxw_row_t row, lxw_col_t col, const char *s,
                     size_t len, enum style style)
{
    if (len)
        lib.worksheet_write_string(ws, row, col, cell_text(b, s, len), b->style[style]);
}

static void put_word(struct book *b, lxw_worksheet *ws, lxw_row_t row, lxw_col_t col, const char *s,
                     enum style style)
{
    put_text(b, ws, row, col, s, strlen(s), style);
}

static void put_real(struct book *b, lxw_worksheet *ws, lxw_row_t row, lxw_col_t col, double v,
                     enum style style)
{
    if (isfinite(v))
        lib.worksheet_write_number(ws, row, col, v, b->style[style]);
}

__attribute__((format(printf, 7, 8))) static void put_formula(struct book *b, lxw_worksheet *ws,
                                                              lxw_row_t row, lxw_col_t col,
                                                              enum style style, double value,
                                                              const char *fmt, ...)
{
    char text[200];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    lib.worksheet_write_formula_num(ws, row, col, text, b->style[style],
                                    isfinite(value) ? value : 0);
}

static lxw_worksheet *add_sheet(struct book *b, const char *name)
{
    lxw_worksheet *ws = lib.workbook_add_worksheet(b->wb, name);

    b->failed |= ws == NULL;
    return ws;
}

/* -- what-if -- */

enum { COL_LATENCY = 12, COL_AIM, COL_RATIO, COL_PROJECTED };

static void put_ratios(struct book *b, lxw_worksheet *ws)
{
    put_word(b, ws, 0, 0, "weight shape", STYLE_HEAD);
    for (int k = 0; k < SPARSE_LEVELS; k++) {
        char head[64];

        snprintf(head, sizeof(head), "%.0f%% %s perf ratio", sparse_levels[k] * 100,
                 ratio_patterns[0].name);
        put_word(b, ws, 0, (lxw_col_t)(k + 1), head, STYLE_HEAD);
    }
    put_word(b, ws, 0, 4, "others", STYLE_HEAD);
    put_word(b, ws, 0, 5, "source of the ratios", STYLE_HEAD);
    for (size_t i = 0; i < b->s.nshape; i++) {
        const struct sparse_shape *shape = &b->s.shape[i];
        lxw_row_t row = (lxw_row_t)i + 1;
        int count[3] = { 0 };

        put_word(b, ws, row, 0, store_text(b->st, shape->text), STYLE_PLAIN);
        for (int k = 0; k < SPARSE_LEVELS; k++) {
            put_real(b, ws, row, (lxw_col_t)(k + 1), shape->ratio[k], STYLE_EDIT);
            count[shape->source[k]]++;
        }
        put_real(b, ws, row, 4, shape->others, STYLE_EDIT);
        put_word(b, ws, row, 5,
                 count[SPARSE_GIVEN] ? "as the source of the trace states them"
                 : count[SPARSE_MEASURED] == SPARSE_LEVELS ? "measured on this machine"
                 : count[SPARSE_MEASURED]                  ? "partly measured, else assumed"
                                          : "assumed; 'opmeter whatif --measure' measures them",
                 STYLE_NOTE);
    }
}

static void put_op_text(struct book *b, lxw_worksheet *ws, lxw_row_t row, lxw_col_t col, size_t op,
                        int from)
{
    struct cell c = store_cell(b->st, TABLE_op, op, from);

    if (c.kind == CELL_STR)
        put_text(b, ws, row, col, store_text(b->st, c.str),
                 strpool_len(store_strings(b->st), c.str), STYLE_PLAIN);
}

static void put_whatif_op(struct book *b, lxw_worksheet *ws, lxw_row_t row, size_t op)
{
    const struct sparse_op *s = &b->s.op[op];
    struct buf text = { 0 };

    put_op_text(b, ws, row, 0, op, op_col_type);
    put_op_text(b, ws, row, 1, op, op_col_post_op);
    put_op_text(b, ws, row, 2, op, op_col_name);
    for (int outputs = 0; outputs < 2; outputs++) {
        for (int field = NEURAL_NAME; field <= NEURAL_DTYPE; field++) {
            buf_clear(&text);
            neural_tensors(&b->tensors, op, outputs, (enum neural_field)field, ";", 'x', &text);
            b->failed |= text.failed;
            put_text(b, ws, row, (lxw_col_t)(3 + 3 * outputs + field), buf_str(&text), text.len,
                     STYLE_PLAIN);
        }
    }
    buf_release(&text);
    put_op_text(b, ws, row, 9, op, op_col_weight_shape);
    put_real(b, ws, row, 10, s->zero_ratio, STYLE_PERCENT);
    if (s->shape != SPARSE_NO_SHAPE)
        put_word(b, ws, row, 11, "true", STYLE_PLAIN);
    put_real(b, ws, row, COL_LATENCY, s->latency_ns / 1e6, STYLE_MS);
    if (isnan(s->aim)) {
        put_real(b, ws, row, COL_PROJECTED, s->latency_ns / 1e6, STYLE_MS);
        return;
    }
    put_real(b, ws, row, COL_AIM, s->aim, STYLE_EDIT_PERCENT);
    if (s->own_ratio)
        put_real(b, ws, row, COL_RATIO, s->ratio, STYLE_EDIT);
    else
        put_formula(b, ws, row, COL_RATIO, STYLE_RATIO, s->ratio,
                    "=IF(N%u=90%%,B%u,IF(N%u=80%%,C%u,IF(N%u=70%%,D%u,E%u)))", row + 1,
                    s->shape + 2, row + 1, s->shape + 2, row + 1, s->shape + 2, s->shape + 2);
    put_formula(b, ws, row, COL_PROJECTED, STYLE_MS, s->projected_ns / 1e6, "=M%u/O%u", row + 1,
                row + 1);
}

/* Sums by the mark in column L, which unlike a list of cells has no limit. */
static void put_totals(struct book *b, lxw_worksheet *ws, const struct sparse_group *s,
                       lxw_row_t first, lxw_row_t row)
{
    unsigned from = first + 1, to = row;

    put_word(b, ws, row, 11, "total latency(ms)", STYLE_BOLD);
    put_formula(b, ws, row, 12, STYLE_BOLD_MS, s->total_ns / 1e6, "=SUM(M%u:M%u)", from, to);
    put_word(b, ws, row, 14, "total aim to sparse latency(ms)", STYLE_BOLD);
    put_formula(b, ws, row, 15, STYLE_BOLD_MS, s->projected_ns / 1e6, "=SUM(P%u:P%u)", from, to);
    put_word(b, ws, row, 16, "sparse improve", STYLE_BOLD);
    put_formula(b, ws, row, 17, STYLE_RATIO, s->total_ns / s->projected_ns, "=M%u/P%u", row + 1,
                row + 1);
    if (b->s.ngroup > 1) {
        put_word(b, ws, row, 18, "model", STYLE_BOLD);
        put_text(b, ws, row, 19, s->model ? store_text(b->st, s->model) : "",
                 s->model ? strpool_len(store_strings(b->st), s->model) : 0, STYLE_BOLD);
    }
    put_word(b, ws, row + 1, 11, "sparse support latency(ms)", STYLE_BOLD);
    put_formula(b, ws, row + 1, 12, STYLE_BOLD_MS, s->sparse_ns / 1e6,
                "=SUMIF(L%u:L%u,\"true\",M%u:M%u)", from, to, from, to);
    put_word(b, ws, row + 1, 14, "aim to sparse support latency(ms)", STYLE_BOLD);
    put_formula(b, ws, row + 1, 15, STYLE_BOLD_MS, s->sparse_projected_ns / 1e6,
                "=SUMIF(L%u:L%u,\"true\",P%u:P%u)", from, to, from, to);
    put_word(b, ws, row + 2, 11, "sparse support latency ratio", STYLE_BOLD);
    put_formula(b, ws, row + 2, 12, STYLE_PERCENT, s->sparse_ns / s->total_ns, "=M%u/M%u", row + 2,
                row + 1);
    put_word(b, ws, row + 2, 14, "aim to sparse support latency ratio", STYLE_BOLD);
    put_formula(b, ws, row + 2, 15, STYLE_PERCENT, s->sparse_projected_ns / s->projected_ns,
                "=P%u/P%u", row + 2, row + 1);
}

static void put_whatif(struct book *b)
{
    static const double widths[18] = { 16, 14, 28, 28, 22, 14, 24, 18, 12,
                                       14, 10, 24, 14, 12, 32, 16, 14, 10 };
    lxw_worksheet *ws = add_sheet(b, "what-if");
    lxw_row_t head = (lxw_row_t)b->s.nshape + 1, row = head + 1;

    if (!ws)
        return;
    for (int i = 0; i < 18; i++)
        lib.worksheet_set_column(ws, (lxw_col_t)i, (lxw_col_t)i, widths[i], NULL);
    put_ratios(b, ws);
    for (int i = 0; i < NEURAL_COLUMNS; i++)
        put_word(b, ws, head, (lxw_col_t)i, neural_columns[i], STYLE_HEAD);
    for (size_t k = 0; k < b->s.ngroup; k++) {
        lxw_row_t first = row;

        for (size_t op = 0; op < b->s.nop; op++)
            if (!isnan(b->s.op[op].latency_ns) && b->s.op[op].group == k)
                put_whatif_op(b, ws, row++, op);
        put_totals(b, ws, &b->s.group[k], first, row);
        row += 3;
    }
    /* The head stays in sight unless the ratios above it take half of the screen. */
    lib.worksheet_freeze_panes(ws, b->s.nshape <= 12 ? head + 1 : 0, 3);
}

/* -- an analysis as a sheet -- */

struct sheet_column {
    int col;
    const char *head;
    double width;
    enum style style;
    double scale; /* of numbers; 0: 1 */
};

static int put_analysis(struct book *b, const char *name, enum analysis_id id,
                        const struct sheet_column *cols, size_t ncol, size_t *out_rows)
{
    lxw_worksheet *ws = add_sheet(b, name);
    struct table t;
    int rc = analysis_run(b->st, id, &t, NULL);

    *out_rows = 0;
    if (rc)
        return rc;
    for (size_t k = 0; ws && k < ncol; k++) {
        lib.worksheet_set_column(ws, (lxw_col_t)k, (lxw_col_t)k, cols[k].width, NULL);
        put_word(b, ws, 0, (lxw_col_t)k, cols[k].head, STYLE_HEAD);
    }
    for (size_t i = 0; ws && i < t.nrow && i + 1 < LXW_ROW_MAX; i++) {
        for (size_t k = 0; k < ncol; k++) {
            struct cell c = table_cell(&t, i, cols[k].col);
            double scale = cols[k].scale != 0 ? cols[k].scale : 1;

            if (c.kind == CELL_STR)
                put_text(b, ws, (lxw_row_t)i + 1, (lxw_col_t)k, store_text(b->st, c.str),
                         strpool_len(store_strings(b->st), c.str), cols[k].style);
            else if (c.kind != CELL_NULL)
                put_real(b, ws, (lxw_row_t)i + 1, (lxw_col_t)k,
                         (c.kind == CELL_I64 ? (double)c.i64 : c.f64) * scale, cols[k].style);
        }
    }
    *out_rows = t.nrow;
    if (ws) {
        lib.worksheet_freeze_panes(ws, 1, 1);
        if (t.nrow)
            lib.worksheet_autofilter(ws, 0, 0, (lxw_row_t)t.nrow, (lxw_col_t)(ncol - 1));
    }
    table_release(&t);
    return 0;
}

#define MS 1e-6

static int put_operators(struct book *b)
{
    static const struct sheet_column cols[] = {
        { op_stats_col_name, "operator", 32, STYLE_PLAIN, 0 },
        { op_stats_col_type, "type", 16, STYLE_PLAIN, 0 },
        { op_stats_col_count, "executions", 11, STYLE_COUNT, 0 },
        { op_stats_col_share, "share", 9, STYLE_PERCENT, 0 },
        { op_stats_col_total_ns, "total (ms)", 13, STYLE_MS, MS },
        { op_stats_col_self_ns, "self (ms)", 13, STYLE_MS, MS },
        { op_stats_col_mean_ns, "mean (ms)", 12, STYLE_MS, MS },
        { op_stats_col_median_ns, "median (ms)", 12, STYLE_MS, MS },
        { op_stats_col_min_ns, "min (ms)", 12, STYLE_MS, MS },
        { op_stats_col_max_ns, "max (ms)", 12, STYLE_MS, MS },
        { op_stats_col_p90_ns, "90 % (ms)", 12, STYLE_MS, MS },
        { op_stats_col_p95_ns, "95 % (ms)", 12, STYLE_MS, MS },
        { op_stats_col_p99_ns, "99 % (ms)", 12, STYLE_MS, MS },
        { op_stats_col_stdev_ns, "st. dev. (ms)", 12, STYLE_MS, MS },
        { op_stats_col_reshape_ns, "reshape (ms)", 12, STYLE_MS, MS },
        { op_stats_col_flops, "FLOPs", 14, STYLE_COUNT, 0 },
        { op_stats_col_bytes, "bytes", 14, STYLE_COUNT, 0 },
        { op_stats_col_gflops_per_s, "GFLOP/s", 10, STYLE_RATIO, 0 },
        { op_stats_col_gbytes_per_s, "GB/s", 10, STYLE_RATIO, 0 },
        { op_stats_col_share_of_peak, "of peak", 9, STYLE_PERCENT, 0 },
        { op_stats_col_roof, "roof", 14, STYLE_PLAIN, 0 },
        { op_stats_col_warmup_count, "warm-up", 9, STYLE_COUNT, 0 },
        { op_stats_col_interrupted, "interrupted", 11, STYLE_COUNT, 0 },
        { op_stats_col_interrupted_ns, "interruptions (ms)", 13, STYLE_MS, MS },
    };
    size_t n;

    return put_analysis(b, "operators", ANALYSIS_op_stats, cols, ARRAY_SIZE(cols), &n);
}

static void add_type_chart(struct book *b, size_t n)
{
    lxw_worksheet *ws = lib.workbook_get_worksheet_by_name(b->wb, "types");
    lxw_chart *chart = ws && n ? lib.workbook_add_chart(b->wb, LXW_CHART_BAR) : NULL;
    lxw_row_t last = (lxw_row_t)MIN(n, (size_t)15);
    lxw_chart_series *series;

    if (!chart)
        return;
    series = lib.chart_add_series(chart, NULL, NULL);
    lib.chart_series_set_categories(series, "types", 1, 0, last, 0);
    lib.chart_series_set_values(series, "types", 1, 3, last, 3);
    lib.chart_series_set_name(series, "share of the time");
    lib.chart_title_set_name(chart, "Time by operator type");
    lib.chart_axis_set_reverse(
        lib.chart_axis_get(chart, LXW_CHART_AXIS_TYPE_Y)); /* the longest on top */
    lib.chart_legend_set_position(chart, LXW_CHART_LEGEND_NONE);
    lib.worksheet_insert_chart(ws, 1, 10, chart);
}

static int put_types(struct book *b)
{
    static const struct sheet_column cols[] = {
        { type_stats_col_type, "type", 20, STYLE_PLAIN, 0 },
        { type_stats_col_ops, "operators", 10, STYLE_COUNT, 0 },
        { type_stats_col_count, "executions", 11, STYLE_COUNT, 0 },
        { type_stats_col_share, "share", 9, STYLE_PERCENT, 0 },
        { type_stats_col_total_ns, "total (ms)", 13, STYLE_MS, MS },
        { type_stats_col_self_ns, "self (ms)", 13, STYLE_MS, MS },
        { type_stats_col_mean_ns, "mean (ms)", 12, STYLE_MS, MS },
        { type_stats_col_flops, "FLOPs", 16, STYLE_COUNT, 0 },
        { type_stats_col_gflops_per_s, "GFLOP/s", 10, STYLE_RATIO, 0 },
    };
    size_t n;
    int rc = put_analysis(b, "types", ANALYSIS_type_stats, cols, ARRAY_SIZE(cols), &n);

    if (!rc)
        add_type_chart(b, n);
    return rc;
}

static int put_latency(struct book *b)
{
    static const struct sheet_column cols[] = {
        { latency_col_name, "name", 24, STYLE_PLAIN, 0 },
        { latency_col_scope, "what", 10, STYLE_PLAIN, 0 },
        { latency_col_count, "count", 9, STYLE_COUNT, 0 },
        { latency_col_warmup_count, "warm-up", 9, STYLE_COUNT, 0 },
        { latency_col_min_ns, "min (ms)", 13, STYLE_MS, MS },
        { latency_col_mean_ns, "mean (ms)", 13, STYLE_MS, MS },
        { latency_col_median_ns, "median (ms)", 13, STYLE_MS, MS },
        { latency_col_p90_ns, "90 % (ms)", 13, STYLE_MS, MS },
        { latency_col_p95_ns, "95 % (ms)", 13, STYLE_MS, MS },
        { latency_col_p97_ns, "97 % (ms)", 13, STYLE_MS, MS },
        { latency_col_p99_ns, "99 % (ms)", 13, STYLE_MS, MS },
        { latency_col_p999_ns, "99.9 % (ms)", 13, STYLE_MS, MS },
        { latency_col_max_ns, "max (ms)", 13, STYLE_MS, MS },
        { latency_col_stdev_ns, "st. dev. (ms)", 13, STYLE_MS, MS },
        { latency_col_per_second, "per second", 12, STYLE_RATIO, 0 },
    };
    size_t n;

    return put_analysis(b, "latency", ANALYSIS_latency, cols, ARRAY_SIZE(cols), &n);
}

static void put_machine(struct book *b)
{
    lxw_worksheet *ws = add_sheet(b, "machine");

    if (!ws)
        return;
    lib.worksheet_set_column(ws, 0, 0, 30, NULL);
    lib.worksheet_set_column(ws, 1, 1, 80, NULL);
    put_word(b, ws, 0, 0, "key", STYLE_HEAD);
    put_word(b, ws, 0, 1, "value", STYLE_HEAD);
    for (size_t i = 0; i < store_nrow(b->st, TABLE_meta) && i + 1 < LXW_ROW_MAX; i++) {
        for (int col = meta_col_key; col <= meta_col_value; col++) {
            struct cell c = store_cell(b->st, TABLE_meta, i, col);

            if (c.kind == CELL_STR)
                put_text(b, ws, (lxw_row_t)i + 1, (lxw_col_t)(col - meta_col_key),
                         store_text(b->st, c.str), strpool_len(store_strings(b->st), c.str),
                         STYLE_PLAIN);
        }
    }
    lib.worksheet_freeze_panes(ws, 1, 0);
}

/* -- the file -- */

/* A name for the library to write to; it takes no file descriptor. */
static int make_temp(char *path, size_t size, opm_error *err)
{
    const char *folder = environment_get("TMPDIR");
    int fd;

    snprintf(path, size, "%s/opmeter-XXXXXX", folder ? folder : "/tmp");
    fd = mkstemp(path);
    if (fd < 0)
        return opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    close(fd);
    return 0;
}

static int fill(struct book *b)
{
    int rc;

    make_styles(b);
    if (b->failed)
        return OPM_ENOMEM;
    put_whatif(b);
    rc = put_operators(b);
    if (!rc)
        rc = put_types(b);
    if (!rc)
        rc = put_latency(b);
    put_machine(b);
    return rc ? rc : b->failed ? OPM_ENOMEM : 0;
}

static int write_book(struct book *b, const char *temp, opm_error *err)
{
    lxw_error code;
    int rc;

    b->wb = lib.workbook_new(temp);
    rc = b->wb ? fill(b) : OPM_ENOMEM;
    code = b->wb ? lib.workbook_close(b->wb) : LXW_NO_ERROR;
    if (rc)
        return opm__fail(err, rc, "xlsx: out of memory");
    if (code != LXW_NO_ERROR)
        return opm__fail(err, OPM_EIO, "%s: %s", temp, lib.lxw_strerror(code));
    return 0;
}

/* From the temporary file to where it belongs, which may be standard output. */
static int move(const char *temp, const char *path, const struct export_options *opts,
                opm_error *err)
{
    struct io_map m = { 0 };
    struct io_out out = { 0 };
    int rc = io_out_open(&out, path, err);

    if (rc)
        return rc;
    rc = writer_progress(opts, &out, 0, 1);
    if (!rc && io_map(&m, temp, 0, NULL) < 0)
        rc = OPM_ENOMEM;
    if (!rc) {
        io_out_add(&out, m.data, m.len);
        rc = writer_progress(opts, &out, 1, 1);
    }
    io_map_release(&m);
    return writer_close(&out, rc, path, err);
}

int export_xlsx(const struct store *st, const char *path, const struct export_options *opts,
                opm_error *err)
{
    struct book b = { .st = st };
    char temp[1024];
    int rc = load_library(path, err);

    if (rc)
        return rc;
    rc = sparse_compute(&b.s, st);
    if (!rc)
        rc = op_tensors_init(&b.tensors, st);
    if (rc)
        opm__fail(err, rc, "%s: out of memory", path);
    else if (b.s.nop + b.s.nshape + 6 > LXW_ROW_MAX)
        rc = opm__fail(err, OPM_EUNSUPPORTED, "%s: %zu operators do not fit into a sheet", path,
                       b.s.nop);
    else
        rc = make_temp(temp, sizeof(temp), err);
    if (!rc) {
        rc = write_book(&b, temp, err);
        if (!rc)
            rc = move(temp, path, opts, err);
        unlink(temp);
    }
    buf_release(&b.text);
    op_tensors_release(&b.tensors);
    sparse_release(&b.s);
    return rc;
}

#endif
