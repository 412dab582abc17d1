/* sparse.c -- see sparse.h. */
#include "analyze/sparse.h"

#include "analyze/op_figures.h"
#include "base/alloc.h"
#include "base/u64map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DIMS_MAX 8

const char *const sparse_source_names[] = {
    [SPARSE_BY_CONSTANT] = "constant", [SPARSE_MEASURED] = "measured", [SPARSE_GIVEN] = "given"
};
const double sparse_levels[SPARSE_LEVELS] = { 0.9, 0.8, 0.7 };

/* Whatever is called after a matrix product, plain, fused or quantized, such as ONNX's
 * QLinearMatMul: its weight is inputs x outputs. */
static bool is_matmul(const char *type)
{
    return type && strcasestr(type, "matmul");
}

/* Operators that multiply a matrix with a weight, in the spelling of the engines we know. */
static bool is_product(const char *type)
{
    static const char *const types[] = {
        "InnerProduct", "FullyConnected", "MatrixMul", "Linear", "Dense",
    };

    for (size_t i = 0; type && i < ARRAY_SIZE(types); i++)
        if (strcasecmp(type, types[i]) == 0)
            return true;
    return is_matmul(type) || (type && strcasestr(type, "gemm"));
}

/* "256x1024" into its dimensions; -1 if it is no shape, or a long one. */
static int parse_shape(const char *text, int64_t dim[DIMS_MAX])
{
    int n = 0;

    while (text && *text) {
        char *end;

        if (n == DIMS_MAX || *text < '0' || *text > '9')
            return -1;
        dim[n++] = strtoll(text, &end, 10);
        if (*end && (*end != 'x' || !end[1]))
            return -1;
        text = end + (*end == 'x');
    }
    return n;
}

static const char *text_cell(const struct store *st, enum table_id table, size_t row, int col)
{
    struct cell c = store_cell(st, table, row, col);

    return c.kind == CELL_STR ? store_text(st, c.str) : NULL;
}

/* Which of the weight's dimensions are outputs: its last dimension is that of the result. Where
 * that does not tell, the convention of the type does. */
static void orient(struct sparse_op *op, const int64_t dim[2], const char *type, const char *out)
{
    int64_t o[DIMS_MAX], all = 1;
    int nout = parse_shape(out, o);
    bool swapped = is_matmul(type);

    if (nout > 0 && dim[0] != dim[1]) {
        if (o[nout - 1] == dim[0])
            swapped = false;
        else if (o[nout - 1] == dim[1])
            swapped = true;
    }
    op->n = dim[swapped];
    op->k = dim[!swapped];
    for (int i = 0; i < nout; i++)
        if (__builtin_mul_overflow(all, o[i], &all))
            all = 0;
    if (nout > 0 && op->n > 0 && o[nout - 1] == op->n)
        op->m = all / op->n;
}

/* First output of every op, as a row of op_tensor + 1. */
static uint32_t *first_outputs(const struct store *st, size_t nop)
{
    uint32_t *row = mem_calloc(nop + 1, sizeof(*row));

    for (size_t i = 0, n = store_nrow(st, TABLE_op_tensor); row && i < n; i++) {
        struct cell op = store_cell(st, TABLE_op_tensor, i, op_tensor_col_op);
        const char *io = text_cell(st, TABLE_op_tensor, i, op_tensor_col_io);

        if (op.kind == CELL_I64 && op.i64 < (int64_t)nop && !row[op.i64] && io &&
            strcmp(io, "output") == 0)
            row[op.i64] = (uint32_t)i + 1;
    }
    return row;
}

static int by_dims(const void *a, const void *b)
{
    const struct sparse_shape *x = a, *y = b;
    const int64_t p[] = { x->dim[0], x->dim[1], x->n }, q[] = { y->dim[0], y->dim[1], y->n };

    for (size_t i = 0; i < ARRAY_SIZE(p); i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return 0;
}

/* The ratios that a source states for weight shapes, "8,4,2.5,1": one per level, then others; the
 * text of a shape to a row of meta. The key begins with "fileN." if the source is not the first. */
static int list_stated(const struct store *st, struct u64map *out)
{
    static const char prefix[] = "neural_engine.ratios.";
    int rc = 0;

    for (size_t i = 0; i < store_nrow(st, TABLE_meta) && !rc; i++) {
        const char *key = text_cell(st, TABLE_meta, i, meta_col_key);
        const char *at = key ? strstr(key, prefix) : NULL, *shape = at ? at + strlen(prefix) : NULL;
        str_id id = at && (at == key || at[-1] == '.')
                        ? strpool_find(store_strings(st), shape, strlen(shape))
                        : 0;

        if (id && !u64map_get(out, id))
            rc = u64map_put(out, id, i);
    }
    return rc;
}

static void look_up(struct sparse *s, const char *text, struct sparse_shape *shape)
{
    shape->others = SPARSE_OTHERS;
    for (int i = 0; i <= SPARSE_LEVELS; i++) {
        const struct ratio *r =
            i < SPARSE_LEVELS
                ? ratios_find(&s->ratios, &ratio_patterns[0], sparse_levels[i], shape->n, shape->k)
                : NULL;
        char *end = NULL;
        double stated = text ? strtod(text, &end) : 0;
        bool usable = text && end != text && stated > 0 && stated < 1e9;

        text = text && strchr(text, ',') ? strchr(text, ',') + 1 : NULL;
        if (i == SPARSE_LEVELS) {
            shape->others = usable ? stated : SPARSE_OTHERS;
            continue;
        }
        shape->source[i] = usable && stated != SPARSE_CONSTANT ? SPARSE_GIVEN
                           : r                                 ? SPARSE_MEASURED
                                                               : SPARSE_BY_CONSTANT;
        shape->ratio[i] = shape->source[i] == SPARSE_GIVEN ? stated
                          : r                              ? r->ratio
                                                           : SPARSE_CONSTANT;
    }
}

/* Find the shape of every operator whose weight divides into blocks. */
static int list_shapes(struct sparse *s, const struct store *st)
{
    const struct ratio_pattern *pattern = &ratio_patterns[0];
    uint32_t *output = first_outputs(st, s->nop);
    struct sparse_shape *all = mem_calloc(s->nop, sizeof(*all)), *found;
    struct u64map stated = { 0 };
    size_t n = 0;
    int rc;

    for (size_t i = 0; output && all && i < s->nop; i++) {
        struct sparse_op *op = &s->op[i];
        const char *type = text_cell(st, TABLE_op, i, op_col_type);
        struct cell shape = store_cell(st, TABLE_op, i, op_col_weight_shape);
        int64_t dim[DIMS_MAX];

        if (shape.kind != CELL_STR || !is_product(type) ||
            parse_shape(store_text(st, shape.str), dim) != 2 || dim[0] <= 0 || dim[1] <= 0)
            continue;
        orient(op, dim, type,
               output[i] ? text_cell(st, TABLE_op_tensor, output[i] - 1, op_tensor_col_shape)
                         : NULL);
        if (op->n % pattern->n || op->k % pattern->k)
            continue;
        op->shape = 0; /* to be found below */
        all[n++] = (struct sparse_shape){
            .text = shape.str, .dim = { dim[0], dim[1] }, .n = op->n, .k = op->k
        };
    }
    if (!output || !all) {
        mem_free(output);
        mem_free(all);
        return OPM_ENOMEM;
    }
    qsort(all, n, sizeof(*all), by_dims);
    for (size_t i = 0; i < n; i++)
        if (!i || by_dims(&all[i], &all[i - 1]) != 0)
            all[s->nshape++] = all[i];
    s->shape = all;
    rc = list_stated(st, &stated);
    for (size_t i = 0; i < s->nshape; i++) {
        const uint64_t *row = u64map_get(&stated, all[i].text);

        look_up(s, row ? text_cell(st, TABLE_meta, *row, meta_col_value) : NULL, &all[i]);
    }
    u64map_release(&stated);
    for (size_t i = 0; i < s->nop; i++) {
        struct sparse_shape key = { .n = s->op[i].n };
        int64_t dim[DIMS_MAX];

        if (s->op[i].shape == SPARSE_NO_SHAPE)
            continue;
        parse_shape(text_cell(st, TABLE_op, i, op_col_weight_shape), dim);
        key.dim[0] = dim[0];
        key.dim[1] = dim[1];
        found = bsearch(&key, all, s->nshape, sizeof(*all), by_dims);
        s->op[i].shape = (uint32_t)(found - all);
    }
    mem_free(output);
    return rc;
}

/* The model and the track of the steps that an operator runs in. */
static int find_models(struct sparse *s, const struct store *st)
{
    size_t nspan = store_nrow(st, TABLE_span), nstep = store_nrow(st, TABLE_step), nsite;
    const struct site *site = store_sites(st, &nsite);
    const uint32_t *span_site = store_span_site(st), *step;
    const void *col = NULL;

    if (nstep && nspan && store_column(st, TABLE_span, span_col_step, &col) < 0)
        return OPM_ENOMEM;
    step = col;
    for (size_t i = 0; step && i < nspan; i++) {
        uint32_t op = site[span_site[i]].op;
        struct cell model, track;

        if (op >= s->nop || s->op[op].in_step || step[i] >= nstep)
            continue;
        model = store_cell(st, TABLE_step, step[i], step_col_model);
        track = store_cell(st, TABLE_step, step[i], step_col_track);
        s->op[op].in_step = true;
        s->op[op].model = cell_text_id(model);
        s->op[op].track = track.kind == CELL_I64 ? (uint32_t)track.i64 : OPM_NULL_ID;
    }
    return 0;
}

/* Self time of one iteration, without interruptions, as op_times has it. */
static int add_latency(struct sparse *s, const struct store *st)
{
    struct op_figures stats;
    int rc = op_figures_compute(&stats, st, NULL, 0, false);

    for (size_t i = 0; i < s->nop && !rc; i++) {
        const struct group_stats *g = &stats.op[i];
        const struct iterations *it = &stats.op_iterations[i];

        if (!op_figures_timed(&stats, i))
            continue;
        if (it->steps) {
            s->op[i].latency_ns = (double)(it->self_ns - it->interrupted_ns) / (double)it->steps;
            s->op[i].interrupted_ns = (double)it->interrupted_ns / (double)it->steps;
        } else {
            s->op[i].latency_ns = (double)group_typical_ns(g) / (double)g->count;
            s->op[i].interrupted_ns = (double)g->interrupted_ns / (double)g->count;
        }
    }
    op_figures_release(&stats);
    return rc;
}

/* What the shape's row says about an aim: its column, else that of others. */
static void take_ratio(const struct sparse_shape *shape, struct sparse_op *op)
{
    op->ratio = shape->others;
    op->source = shape->others != SPARSE_OTHERS ? SPARSE_GIVEN : SPARSE_BY_CONSTANT;
    for (int i = 0; i < SPARSE_LEVELS; i++) {
        if (ratio_same_sparsity(op->aim, sparse_levels[i])) {
            op->ratio = shape->ratio[i];
            op->source = shape->source[i];
        }
    }
}

/* op->aim and op->ratio are what the source states, or NaN. */
static void project(struct sparse *s, struct sparse_op *op)
{
    double stated = op->ratio;

    op->projected_ns = op->latency_ns;
    op->ratio = NAN;
    if (isnan(op->aim) && !(op->zero_ratio >= SPARSE_DENSE_BELOW))
        op->aim = SPARSE_AIM;
    if (op->shape == SPARSE_NO_SHAPE || !(op->aim > 0)) {
        op->aim = NAN;
    } else {
        take_ratio(&s->shape[op->shape], op);
        if (stated > 0 && stated != op->ratio) {
            op->ratio = stated;
            op->source = SPARSE_GIVEN;
            op->own_ratio = true;
        }
        op->projected_ns = op->latency_ns / op->ratio;
    }
}

/* Times of different models, or of instances of one, have no sum. */
static int add_groups(struct sparse *s)
{
    size_t cap = 0;

    for (size_t i = 0; i < s->nop; i++) {
        struct sparse_op *op = &s->op[i];
        struct sparse_group *g;
        size_t k = 0;

        if (isnan(op->latency_ns))
            continue;
        while (k < s->ngroup && (s->group[k].model != op->model || s->group[k].track != op->track))
            k++;
        if (k == s->ngroup) {
            if (!GROW(s->group, cap, k + 1))
                return OPM_ENOMEM;
            s->group[s->ngroup++] = (struct sparse_group){ .model = op->model, .track = op->track };
        }
        g = &s->group[k];
        op->group = (uint32_t)k;
        g->total_ns += op->latency_ns;
        g->projected_ns += op->projected_ns;
        if (op->shape != SPARSE_NO_SHAPE) {
            g->sparse_ns += op->latency_ns;
            g->sparse_projected_ns += op->projected_ns;
        }
    }
    return 0;
}

int sparse_compute(struct sparse *s, const struct store *st)
{
    int rc;

    *s = (struct sparse){ .nop = store_nrow(st, TABLE_op) };
    s->op = mem_calloc(s->nop, sizeof(*s->op));
    rc = s->op ? 0 : OPM_ENOMEM;
    for (size_t i = 0; i < s->nop && !rc; i++) {
        struct cell zeros = store_cell(st, TABLE_op, i, op_col_weight_zero_ratio);
        struct cell aim = store_cell(st, TABLE_op, i, op_col_sparse_aim);
        struct cell ratio = store_cell(st, TABLE_op, i, op_col_sparse_ratio);

        s->op[i] = (struct sparse_op){ .shape = SPARSE_NO_SHAPE,
                                       .track = OPM_NULL_ID,
                                       .zero_ratio = zeros.kind == CELL_F64 ? zeros.f64 : NAN,
                                       .latency_ns = NAN,
                                       .interrupted_ns = NAN,
                                       .aim = aim.kind == CELL_F64 ? aim.f64 : NAN,
                                       .ratio = ratio.kind == CELL_F64 ? ratio.f64 : NAN };
    }
    if (!rc && ratios_load(&s->ratios, NULL) == OPM_ENOMEM)
        rc = OPM_ENOMEM;
    if (!rc)
        rc = list_shapes(s, st);
    if (!rc)
        rc = add_latency(s, st);
    if (!rc)
        rc = find_models(s, st);
    for (size_t i = 0; i < s->nop && !rc; i++)
        project(s, &s->op[i]);
    return rc ? rc : add_groups(s);
}

void sparse_release(struct sparse *s)
{
    mem_free(s->op);
    mem_free(s->group);
    mem_free(s->shape);
    ratios_release(&s->ratios);
    *s = (struct sparse){ 0 };
}
