/* footprint.c -- FLOPs and bytes of a node; see footprint.h.
 *
 * The formulas of MegEngine's load_and_run, which users compare with, extended to the operators for
 * which it has none. N(x) is the number of elements of x.
 *
 *   - elementwise operators cost a number per element of the result, given in the table:
 * arithmetic, a comparison, a root, an exponential or another elementary function is 1 each. A
 * fused operator costs what the graph of simple ones in its place would: Gelu = Div, Erf, Add, Mul,
 * Mul = 5.
 *   - operators that copy elements (Concat, Transpose, Gather, ...) cost 1 per element of the
 * result; those that only look at a tensor in another way (Reshape, Squeeze, ...) cost 0.
 *   - products cost a multiplication and an addition per term; a bias 1 more per element.
 *   - what depends on the data (NonMaxSuppression, Unique) is not known. */
#include "graph/footprint.h"

#include "graph/ops/ops.h"

static int64_t value_bytes(const struct value *v)
{
    return v->kind == VALUE_TENSOR ? shape_bytes(&v->shape, v->type) : -1;
}

/* Of a table of positions a row for each token of input 0, [batch, tokens, width] or
 * [batch, heads, tokens, width], or all of it if that is less. */
static int64_t rows_bytes(const struct graph *g, const struct node *n, const struct value *table)
{
    const struct shape *x = node_in_shape(g, n, 0);
    int64_t all = value_bytes(table), rows = shape_at(&table->shape, 0), tokens;

    if (table->shape.rank != 2 || rows <= 0 || all < 0 || (x->rank != 3 && x->rank != 4))
        return all;
    tokens = count_mul(shape_at(x, 0), shape_at(x, x->rank - 2));
    return tokens < 0 ? -1 : all / rows * MIN(rows, tokens);
}

static int64_t read_bytes(const struct graph *g, const struct node *n, const struct op_info *info)
{
    enum op_reads reads = info ? info->flops.reads : READS_ALL;
    uint32_t tables = info ? (uint32_t)info->flops.rows : 0;
    int64_t sum = 0;

    if (reads == READS_NONE)
        return 0;
    for (uint32_t i = 0; i < n->nin; i++) {
        const struct value *v = node_in(g, n, i), *y = node_out(g, n, 0);
        bool again = false;

        for (uint32_t k = 0; k < MIN(i, 64u) && v; k++)
            again = again || n->in[k] == n->in[i];
        if (!v || again)
            continue;
        if (tables && (i == tables || i == tables + 1))
            sum = count_add(sum, rows_bytes(g, n, v));
        else
            sum = count_add(sum,
                            i == 0 && y && reads == READS_PART ? value_bytes(y) : value_bytes(v));
    }
    return sum;
}

static int64_t write_bytes(const struct graph *g, const struct node *n)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < n->nout; i++) {
        const struct value *v = node_out(g, n, i);

        if (v)
            sum = count_add(sum, value_bytes(v));
    }
    return sum;
}

static bool all_zero(const struct tensor *t)
{
    const uint8_t *p = t->data;

    for (size_t i = 0; i < t->bytes; i++)
        if (p[i])
            return false;
    return true;
}

const struct tensor *node_weight(const struct graph *g, const struct node *n, uint32_t slot)
{
    const struct tensor *t = node_const(g, n, slot), *zero;
    const struct value *v = node_in(g, n, slot);
    const struct node *from;

    if (t || !v || v->producer == NO_NODE)
        return t;
    from = &g->node[v->producer];
    if (!node_is(from, "DequantizeLinear"))
        return NULL;
    zero = node_const(g, from, 2);
    if (from->nin > 2 && node_in(g, from, 2) && !(zero && all_zero(zero)))
        return NULL;
    return node_const(g, from, 0);
}

/* The weight is where the table says; of a product either operand may be it. */
static int weight_slot(const struct graph *g, const struct node *n, const struct op_info *info)
{
    if (!info || info->weight.slot < 0)
        return -1;
    if (node_weight(g, n, (uint32_t)info->weight.slot))
        return info->weight.slot;
    return info->weight.either && node_weight(g, n, 0) ? 0 : -1;
}

bool node_is_control_flow(const struct node *n)
{
    return node_is(n, "If") || node_is(n, "Loop") || node_is(n, "Scan") ||
           node_is(n, "SequenceMap");
}

void node_footprint(const struct graph *g, const struct node *n, struct footprint *out)
{
    const struct op_info *info = op_of(n);

    *out = (struct footprint){ .flops = info ? info->flops.fn(g, n, info->flops.cost) : -1,
                               .read_bytes = read_bytes(g, n, info),
                               .write_bytes = write_bytes(g, n),
                               .weight_slot = weight_slot(g, n, info) };
}

int weight_axis(const struct graph *g, const struct node *n, int slot)
{
    const struct op_info *info = op_of(n);
    const struct value *v = slot < 0 ? NULL : node_in(g, n, (uint32_t)slot);

    return info ? info->weight.axis(n, slot, v ? v->shape.rank : 0) : 0;
}
