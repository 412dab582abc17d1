/* ops.c -- the table of operators, and rules that serve many; see ops.h. */
#include "graph/ops/ops.h"

#include <stdlib.h>
#include <string.h>

#define ALL  \
    {        \
        1, 0 \
    }
#define SINCE(n) \
    {            \
        n, 0     \
    }
#define UNTIL(n) \
    {            \
        1, n     \
    }
#define FLOPS(fn, cost)        \
    {                          \
        fn, cost, READS_ALL, 0 \
    }
#define FLOPS_PART(fn, cost)    \
    {                           \
        fn, cost, READS_PART, 0 \
    }
#define FLOPS_SHAPE(fn)      \
    {                        \
        fn, 0, READS_NONE, 0 \
    }
#define FLOPS_ROWS(fn, cost, slot) \
    {                              \
        fn, cost, READS_ALL, slot  \
    }
#define WEIGHT(slot, axis) \
    {                      \
        slot, axis, false  \
    }
#define WEIGHT_EITHER(slot, axis) \
    {                             \
        slot, axis, true          \
    }
#define NO_WEIGHT             \
    {                         \
        -1, axis_first, false \
    }

static const struct op_info table[] = {
#define OP(domain, name, versions, infer, fold, flops, weight) \
    { domain, name, versions, infer, fold, flops, weight },
#include "graph/ops/ops.def"
#undef OP
};

static int by_name(const void *a, const void *b)
{
    const struct op_info *x = a, *y = b;
    int order = strcmp(x->domain, y->domain);

    return order ? order : strcmp(x->name, y->name);
}

static bool covers(const struct op_info *info, int version)
{
    if (version <= 0)
        return info->versions.last == 0;
    return version >= info->versions.first &&
           (info->versions.last == 0 || version <= info->versions.last);
}

const struct op_info *op_find(const char *domain, const char *name, int version)
{
    struct op_info key = { .domain = domain, .name = name };
    const struct op_info *p = bsearch(&key, table, ARRAY_SIZE(table), sizeof(table[0]), by_name);

    if (!p)
        return NULL;
    while (p > table && by_name(p - 1, &key) == 0)
        p--;
    for (; p < table + ARRAY_SIZE(table) && by_name(p, &key) == 0; p++)
        if (covers(p, version))
            return p;
    return NULL;
}

const struct op_info *op_of(const struct node *n)
{
    return op_find(n->domain, n->op_type, n->opset);
}

/* One result like the first operand. */
int infer_same(const struct opview *o)
{
    op_same(o, 0, 0);
    return 0;
}

void fold_none(const struct opview *o)
{
    (void)o;
}

int64_t flops_none(const struct graph *g, const struct node *n, int cost)
{
    (void)g;
    (void)n;
    (void)cost;
    return 0;
}

int64_t flops_unknown(const struct graph *g, const struct node *n, int cost)
{
    (void)g;
    (void)n;
    (void)cost;
    return -1;
}

/* cost per element of the result */
int64_t flops_out(const struct graph *g, const struct node *n, int cost)
{
    return count_mul(node_out_count(g, n), cost);
}

/* cost per element of the first input */
int64_t flops_in(const struct graph *g, const struct node *n, int cost)
{
    return count_mul(node_in_count(g, n, 0), cost);
}

int64_t count_mul(int64_t a, int64_t b)
{
    int64_t r;

    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) ? -1 : r;
}

int64_t count_add(int64_t a, int64_t b)
{
    int64_t r;

    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &r) ? -1 : r;
}

const struct shape *node_in_shape(const struct graph *g, const struct node *n, uint32_t slot)
{
    static const struct shape unknown = { .rank = -1 };
    const struct value *v = node_in(g, n, slot);

    return v ? &v->shape : &unknown;
}

int64_t node_in_count(const struct graph *g, const struct node *n, uint32_t slot)
{
    return shape_count(node_in_shape(g, n, slot));
}

int64_t node_out_count(const struct graph *g, const struct node *n)
{
    const struct value *v = node_out(g, n, 0);

    return v ? shape_count(&v->shape) : -1;
}

int64_t shape_at(const struct shape *s, int i)
{
    int at = i < 0 ? s->rank + i : i;

    return at >= 0 && at < s->rank ? s->dim[at] : -1;
}

int axis_first(const struct node *n, int slot, int rank)
{
    (void)n;
    (void)slot;
    (void)rank;
    return 0;
}

int axis_second(const struct node *n, int slot, int rank)
{
    (void)n;
    (void)slot;
    (void)rank;
    return 1;
}

int axis_last(const struct node *n, int slot, int rank)
{
    (void)n;
    (void)slot;
    return MAX(rank - 1, 0);
}
