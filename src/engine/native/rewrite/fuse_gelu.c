/* fuse_gelu.c -- Gelu from its parts, with erf or with tanh. */
#include "engine/native/op/elementwise.h"
#include "engine/native/rewrite/fuse_int.h"

#include <math.h>

#define PARTS_MAX 10

/* The operators that are gone when it is done. */
struct parts {
    struct op *op[PARTS_MAX];
    int n;
};

static void add_part(struct parts *p, struct op *op)
{
    p->op[p->n++] = op;
}

/* The maker of v if it is a `type` that nothing else reads. */
static struct op *made_by(const struct fuser *f, uint32_t v, const char *type)
{
    struct op *op = fuse_maker(f, v);

    return op && fuse_only(f, v) && fuse_is(op, type) ? op : NULL;
}

/* A product with a constant about s: the other factor, or NO_VALUE. */
static uint32_t scaled(const struct op *mul, double s)
{
    uint32_t x;
    float have;

    return mul && fuse_by_scalar(mul, &have, &x) && fuse_near(have, s) ? x : NO_VALUE;
}

/* curve is erf or tanh of something of x: a = curve + 1, then x, a and 0.5 multiplied in any order.
 * The last product, or NULL. */
static struct op *tail(const struct fuser *f, struct op *curve, uint32_t x, struct parts *p)
{
    struct op *add = fuse_follower(f, curve), *m1, *m2, *half;
    float s;
    uint32_t y;

    if (!add || !fuse_is(add, "Add") || !fuse_by_scalar(add, &s, &y) || s != 1 ||
        !fuse_real(f, curve->out[0]))
        return NULL;
    add_part(p, curve);
    add_part(p, add);
    m1 = fuse_follower(f, add);
    if (!m1 || !fuse_is(m1, "Mul"))
        return NULL;
    y = fuse_other(m1, add->out[0]);
    if (y == x) { /* (x * a) * 0.5 */
        m2 = fuse_follower(f, m1);
        add_part(p, m1);
        return m2 && fuse_is(m2, "Mul") && scaled(m2, 0.5) != NO_VALUE ? m2 : NULL;
    }
    half = made_by(f, y, "Mul"); /* (x * 0.5) * a */
    if (half && scaled(half, 0.5) == x) {
        add_part(p, half);
        return m1;
    }
    if (scaled(m1, 0.5) != NO_VALUE) { /* x * (a * 0.5) */
        m2 = fuse_follower(f, m1);
        add_part(p, m1);
        return m2 && fuse_is(m2, "Mul") && fuse_other(m2, m1->out[0]) == x ? m2 : NULL;
    }
    return NULL;
}

int fuse_gelu(struct fuser *f, struct op *erf)
{
    struct op *arg = fuse_maker(f, erf->in[0]), *last;
    struct parts p = { 0 };
    uint32_t x = NO_VALUE;
    float s;

    if (!arg || !fuse_only(f, erf->in[0]))
        return 0;
    if (fuse_is(arg, "Mul"))
        x = scaled(arg, M_SQRT1_2);
    else if (fuse_is(arg, "Div") && fuse_scalar(arg, 1, &s) && fuse_near(s, M_SQRT2))
        x = arg->in[0];
    if (x == NO_VALUE)
        return 0;
    add_part(&p, arg);
    last = tail(f, erf, x, &p);
    return last ? fuse_become(f, last, kernel_form(KERNEL_unary, UN_GELU), "Gelu", &x, 1, p.op, p.n)
                : 0;
}

/* x of x^3, however it is written. */
static uint32_t cube(const struct fuser *f, uint32_t v, struct parts *p)
{
    struct op *op = fuse_maker(f, v);
    float e;

    if (!op || !fuse_only(f, v))
        return NO_VALUE;
    add_part(p, op);
    if (fuse_is(op, "Pow"))
        return fuse_scalar(op, 1, &e) && e == 3 ? op->in[0] : NO_VALUE;
    if (!fuse_is(op, "Mul"))
        return NO_VALUE;
    for (uint32_t i = 0; i < 2; i++) {
        struct op *sq = made_by(f, op->in[i], "Mul");

        if (sq && sq->in[0] == sq->in[1] && sq->in[0] == op->in[!i]) {
            add_part(p, sq);
            return sq->in[0];
        }
    }
    return NO_VALUE;
}

/* tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) */
int fuse_gelu_tanh(struct fuser *f, struct op *tanh)
{
    struct op *outer = made_by(f, tanh->in[0], "Mul"), *sum, *last;
    uint32_t inner = scaled(outer, 0.7978845608028654);

    sum = outer ? made_by(f, inner, "Add") : NULL;
    for (uint32_t i = 0; sum && i < 2; i++) {
        struct op *small = made_by(f, sum->in[i], "Mul");
        struct parts p = { { outer, sum, small }, 3 };
        uint32_t x = sum->in[!i];

        if (small && cube(f, scaled(small, 0.044715), &p) == x) {
            last = tail(f, tanh, x, &p);
            return last ? fuse_become(f, last, kernel_form(KERNEL_unary, UN_GELU_TANH), "Gelu", &x,
                                      1, p.op, p.n)
                        : 0;
        }
    }
    return 0;
}
