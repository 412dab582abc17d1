/* whatif.c -- the projection of sparse.h as tables: operators, and the ratios behind them. */
#include "analyze/analysis.h"
#include "analyze/sparse.h"
#include "base/error.h"

#include <string.h>

static struct cell word(const struct store *st, const char *text)
{
    return cell_str(strpool_find(store_strings(st), text, strlen(text)));
}

static struct cell positive(int64_t v)
{
    return v > 0 ? cell_i64(v) : cell_null();
}

int analyze_whatif(const struct store *st, struct table *out, opm_error *err)
{
    struct sparse s;
    int rc = sparse_compute(&s, st);

    for (size_t i = 0; i < s.nop && rc == 0; i++) {
        const struct sparse_op *op = &s.op[i];
        struct cell c[whatif_col_COUNT] = { 0 };

        c[whatif_col_op] = cell_id((uint32_t)i);
        c[whatif_col_name] = store_cell(st, TABLE_op, i, op_col_name);
        c[whatif_col_type] = store_cell(st, TABLE_op, i, op_col_type);
        c[whatif_col_weight_shape] = store_cell(st, TABLE_op, i, op_col_weight_shape);
        c[whatif_col_n] = positive(op->n);
        c[whatif_col_k] = positive(op->k);
        c[whatif_col_m] = positive(op->m);
        c[whatif_col_zero_ratio] = cell_f64(op->zero_ratio);
        c[whatif_col_sparsifiable] = cell_i64(op->shape != SPARSE_NO_SHAPE);
        c[whatif_col_latency_ns] = cell_f64(op->latency_ns);
        c[whatif_col_aim] = cell_f64(op->aim);
        c[whatif_col_ratio] = cell_f64(op->ratio);
        if (op->ratio > 0)
            c[whatif_col_source] = word(st, sparse_source_names[op->source]);
        c[whatif_col_projected_ns] = cell_f64(op->projected_ns);
        c[whatif_col_model] = cell_str(op->model);
        c[whatif_col_track] = cell_id(op->track);
        c[whatif_col_interrupted_ns] = cell_f64(op->interrupted_ns);
        rc = table_add(out, c);
    }
    sparse_release(&s);
    return rc < 0 ? opm__fail(err, rc, "whatif: out of memory") : 0;
}

static int add_ratio(const struct store *st, struct table *out, const struct sparse_shape *shape,
                     const char *pattern, double sparsity, double ratio, enum sparse_source source)
{
    struct cell c[sparse_ratio_col_COUNT] = { 0 };

    c[sparse_ratio_col_weight_shape] = cell_str(shape->text);
    c[sparse_ratio_col_n] = cell_i64(shape->n);
    c[sparse_ratio_col_k] = cell_i64(shape->k);
    c[sparse_ratio_col_pattern] = word(st, pattern);
    c[sparse_ratio_col_sparsity] = cell_f64(sparsity);
    c[sparse_ratio_col_ratio] = cell_f64(ratio);
    c[sparse_ratio_col_source] = word(st, sparse_source_names[source]);
    return table_add(out, c);
}

static bool is_level(const struct ratio *r)
{
    bool found = false;

    for (int i = 0; i < SPARSE_LEVELS; i++)
        found |= ratio_same_sparsity(r->sparsity, sparse_levels[i]);
    return found && r->pattern == &ratio_patterns[0];
}

int analyze_sparse_ratio(const struct store *st, struct table *out, opm_error *err)
{
    struct sparse s;
    int rc = sparse_compute(&s, st);

    for (size_t i = 0; i < s.nshape && rc == 0; i++) {
        const struct sparse_shape *shape = &s.shape[i];

        for (int k = 0; k < SPARSE_LEVELS && rc == 0; k++)
            rc = add_ratio(st, out, shape, ratio_patterns[0].name, sparse_levels[k],
                           shape->ratio[k], shape->source[k]);
        for (size_t k = 0; k < s.ratios.n && rc == 0; k++) {
            const struct ratio *r = &s.ratios.item[k];

            if (!is_level(r) &&
                ratios_find(&s.ratios, r->pattern, r->sparsity, shape->n, shape->k) == r)
                rc = add_ratio(st, out, shape, r->pattern->name, r->sparsity, r->ratio,
                               SPARSE_MEASURED);
        }
    }
    sparse_release(&s);
    return rc < 0 ? opm__fail(err, rc, "sparse_ratio: out of memory") : 0;
}
