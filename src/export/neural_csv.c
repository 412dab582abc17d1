/* neural_csv.c -- the CSV of Intel's Neural Engine: sparse ratios, operators, totals.
 *
 * Part 1 has a row per weight shape with the ratio for each share of zeros; part 2 a row per
 * operator, whose projected time is a formula that looks into part 1; part 3 sums up. Of several
 * models, or instances, each has its operators and its sums, with its name behind them. The header
 * and the formulas are theirs, so that a spreadsheet calculates it as before. What was wrong there
 * is right here: cells are quoted, a scalar has its place, times are averages over the measured
 * iterations (theirs: the last one). Text that would be a formula gets a ' in front. */
#include "export/export.h"

#include "analyze/sparse.h"
#include "base/error.h"
#include "export/neural_text.h"
#include "export/writer.h"

#include <errno.h>
#include <math.h>

struct neural {
    const struct store *st;
    struct io_out out;
    struct sparse s;
    struct op_tensors tensors;
    struct buf cell, sum;
};

static void put_part1(struct neural *n)
{
    io_out_adds(&n->out, "weight shape");
    for (int k = 0; k < SPARSE_LEVELS; k++)
        io_out_addf(&n->out, ",%.0f%% %s perf ratio", sparse_levels[k] * 100,
                    ratio_patterns[0].name);
    io_out_adds(&n->out, ",others\n");
    for (size_t i = 0; i < n->s.nshape; i++) {
        const struct sparse_shape *shape = &n->s.shape[i];

        io_out_adds(&n->out, store_text(n->st, shape->text));
        for (int k = 0; k < SPARSE_LEVELS; k++)
            io_out_addf(&n->out, ",%f", shape->ratio[k]);
        io_out_addf(&n->out, ",%g\n", shape->others);
    }
}

/* The cell that is ready in n->cell, with a comma behind it. */
static void end_cell(struct neural *n)
{
    if (n->cell.failed)
        n->out.err_no = n->out.err_no ? n->out.err_no : ENOMEM;
    writer_csv_cell(&n->out, buf_str(&n->cell), n->cell.len);
    io_out_add(&n->out, ",", 1);
    buf_clear(&n->cell);
}

static void put_str(struct neural *n, size_t op, int col)
{
    struct cell c = store_cell(n->st, TABLE_op, op, col);

    if (c.kind == CELL_STR)
        buf_add(&n->cell, store_text(n->st, c.str), strpool_len(store_strings(n->st), c.str));
    end_cell(n);
}

static void put_ms(struct neural *n, double ns)
{
    neural_ms(&n->cell, ns);
    io_out_add(&n->out, buf_str(&n->cell), n->cell.len);
    buf_clear(&n->cell);
}

static void put_op(struct neural *n, size_t op, size_t row)
{
    const struct sparse_op *s = &n->s.op[op];

    put_str(n, op, op_col_type);
    put_str(n, op, op_col_post_op);
    put_str(n, op, op_col_name);
    for (int outputs = 0; outputs < 2; outputs++) {
        for (int field = NEURAL_NAME; field <= NEURAL_DTYPE; field++) {
            neural_tensors(&n->tensors, op, outputs, (enum neural_field)field, ";", 'x', &n->cell);
            end_cell(n);
        }
    }
    put_str(n, op, op_col_weight_shape);
    if (!isnan(s->zero_ratio))
        buf_addf(&n->cell, "%.2f%%", s->zero_ratio * 100);
    end_cell(n);
    io_out_adds(&n->out, s->shape != SPARSE_NO_SHAPE ? "true," : ",");
    put_ms(n, s->latency_ns);
    if (isnan(s->aim)) {
        io_out_adds(&n->out, ", ,,");
        put_ms(n, s->latency_ns);
    } else {
        unsigned shape = s->shape + 2;

        io_out_addf(&n->out, ", %.10g%%", s->aim * 100);
        if (s->own_ratio)
            io_out_addf(&n->out, ",%.10g", s->ratio);
        else
            io_out_addf(&n->out, ",\"=IF(N%zu=90%%,B%u,IF(N%zu=80%%,C%u,IF(N%zu=70%%,D%u,E%u)))\"",
                        row, shape, row, shape, row, shape, shape);
        io_out_addf(&n->out, ",=M%zu/O%zu", row, row);
    }
    io_out_adds(&n->out, "\n");
}

/* The operators of a group, from `row` on; the row behind them. */
static size_t put_part2(struct neural *n, size_t group, size_t row)
{
    for (size_t op = 0; op < n->s.nop; op++)
        if (!isnan(n->s.op[op].latency_ns) && n->s.op[op].group == group)
            put_op(n, op, row++);
    return row;
}

static void put_part3(struct neural *n, size_t group, size_t first)
{
    static const char empty[] = ",,,,,,,,,,,";
    const struct sparse_group *g = &n->s.group[group];
    size_t row = first, last;
    bool any = false;

    for (size_t op = 0; op < n->s.nop; op++) {
        if (isnan(n->s.op[op].latency_ns) || n->s.op[op].group != group)
            continue;
        if (n->s.op[op].shape != SPARSE_NO_SHAPE) {
            buf_addf(&n->sum, "%sP%zu", any ? "+" : "=", row);
            any = true;
        }
        row++;
    }
    last = row - 1;
    io_out_addf(&n->out, "%stotal latency(ms),", empty);
    put_ms(n, g->total_ns);
    io_out_addf(&n->out,
                ",,total aim to sparse latency(ms),=SUM(P%zu:P%zu),sparse improve,=M%zu/P%zu",
                first, last, last + 1, last + 1);
    if (n->s.ngroup > 1) {
        io_out_adds(&n->out, ",model,");
        if (g->model)
            writer_csv_cell(&n->out, store_text(n->st, g->model),
                            strpool_len(store_strings(n->st), g->model));
    }
    io_out_addf(&n->out, "\n%ssparse support latency(ms),", empty);
    put_ms(n, g->sparse_ns);
    io_out_adds(&n->out, ",,aim to sparse support latency(ms),");
    io_out_addf(&n->out, "%s,\n", any ? buf_str(&n->sum) : "0");
    if (n->sum.failed)
        n->out.err_no = n->out.err_no ? n->out.err_no : ENOMEM;
    buf_clear(&n->sum);
    io_out_addf(&n->out,
                "%ssparse support latency ratio,%.3f,,aim to sparse support latency ratio,"
                "=P%zu/P%zu\n",
                empty, g->total_ns > 0 ? g->sparse_ns / g->total_ns : 0, last + 2, last + 1);
}

static void put_groups(struct neural *n)
{
    size_t row = n->s.nshape + 3; /* as a spreadsheet counts */

    for (int i = 0; i < NEURAL_COLUMNS; i++)
        io_out_addf(&n->out, "%s%s", i ? "," : "", neural_columns[i]);
    io_out_adds(&n->out, "\n");
    for (size_t k = 0; k < n->s.ngroup; k++) {
        size_t behind = put_part2(n, k, row);

        put_part3(n, k, row);
        row = behind + 3;
    }
}

int export_neural_engine(const struct store *st, const char *path,
                         const struct export_options *opts, opm_error *err)
{
    struct neural n = { .st = st };
    int rc = sparse_compute(&n.s, st);

    if (!rc)
        rc = op_tensors_init(&n.tensors, st);
    if (rc)
        opm__fail(err, rc, "%s: out of memory", path);
    else if (!n.s.ngroup)
        rc = opm__fail(err, OPM_ENOTFOUND,
                       "neural-engine: the trace has no operator that ran, so there is nothing to "
                       "write");
    else
        rc = io_out_open(&n.out, path, err);
    if (!rc) {
        rc = writer_progress(opts, &n.out, 0, 1);
        if (!rc) {
            put_part1(&n);
            put_groups(&n);
            rc = writer_progress(opts, &n.out, 1, 1);
        }
        rc = writer_close(&n.out, rc, path, err);
    }
    buf_release(&n.cell);
    buf_release(&n.sum);
    op_tensors_release(&n.tensors);
    sparse_release(&n.s);
    return rc;
}
