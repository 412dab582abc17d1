/* fuse.c -- several nodes, one operator.
 *
 * Works on the list of operators before anything runs. A value between two operators goes away only
 * if nothing else reads it. What is recognised:
 *   Conv + BatchNormalization, factors and terms per channel (folded into the weights, fuse_conv.c)
 *   + activation, + Add of a same-shaped value
 *   MatMul by a transposed constant, + Add of a vector + activation; Gemm + activation
 *   Gelu from its parts (fuse_gelu.c), x * sigmoid(x) as SiLU, HardSwish (fuse_conv.c)
 *   attention (fuse_attention.c)
 *   the nine nodes that LayerNormalization is decomposed into */
#include "engine/native/isa/half.h"
#include "engine/native/op/elementwise.h"
#include "engine/native/op/families.h"
#include "engine/native/rewrite/fuse_int.h"

#include <math.h>
#include <string.h>

void fuse_links(struct fuser *f)
{
    const struct plan *p = f->p;

    for (uint32_t v = 0; v < p->graph->nvalue; v++) {
        f->made_by[v] = f->read_by[v] = UINT32_MAX;
        f->uses[v] = p->graph->value[v].flags & VALUE_OUTPUT ? 1 : 0;
    }
    for (uint32_t i = 0; i < p->nop; i++) {
        if (!p->op[i].kernel)
            continue;
        for (uint32_t k = 0; k < p->op[i].nout; k++)
            if (p->op[i].out[k] != NO_VALUE)
                f->made_by[p->op[i].out[k]] = i;
        for (uint32_t k = 0; k < p->op[i].nin; k++) {
            uint32_t v = p->op[i].in[k];

            if (v == NO_VALUE || v >= p->graph->nvalue)
                continue;
            f->uses[v]++;
            f->read_by[v] = i;
        }
    }
}

bool fuse_is(const struct op *op, const char *type)
{
    return op->kernel && !op->type && node_is(op->node, type) && op->npost == 0;
}

struct op *fuse_follower(const struct fuser *f, const struct op *op)
{
    uint32_t v = op->nout ? op->out[0] : NO_VALUE, r;

    for (uint32_t k = 1; k < op->nout; k++)
        if (op->out[k] != NO_VALUE)
            return NULL;
    if (v == NO_VALUE || f->uses[v] != 1)
        return NULL;
    r = f->read_by[v];
    return r == UINT32_MAX ? NULL : &f->p->op[r];
}

struct op *fuse_maker(const struct fuser *f, uint32_t v)
{
    return v == NO_VALUE || v >= f->p->graph->nvalue || f->made_by[v] == UINT32_MAX
               ? NULL
               : &f->p->op[f->made_by[v]];
}

bool fuse_real(const struct fuser *f, uint32_t v)
{
    return v < f->p->graph->nvalue && half_inside(f->p->graph->value[v].type) == TENSOR_F32;
}

bool fuse_scalar(const struct op *op, uint32_t slot, float *out)
{
    const struct tensor *t = kernel_const(op, slot);
    const struct value *other = node_in(op->plan->graph, op->node, !slot);

    if (!t || t->type != TENSOR_F32 || t->count != 1)
        return false;
    if (t->shape.rank > 0 && (!other || other->shape.rank < t->shape.rank))
        return false; /* would give the result more dimensions */
    *out = (float)tensor_float(t, 0);
    return true;
}

bool fuse_near(float a, double b)
{
    return fabs((double)a - b) < 1e-4 * fabs(b);
}

int fuse_cover(struct op *op, struct op *next)
{
    const struct node **cover =
        mem_realloc(op->cover, (op->ncover + next->ncover) * sizeof(*cover));

    if (!cover)
        return OPM_ENOMEM;
    op->cover = cover;
    memcpy(cover + op->ncover, next->cover, next->ncover * sizeof(*cover));
    op->ncover += next->ncover;
    op_release(next);
    return 0;
}

int fuse_absorb(struct fuser *f, struct op *op, struct op *next)
{
    uint32_t out = next->nout ? next->out[0] : NO_VALUE;
    int rc = fuse_cover(op, next);

    if (!rc && out != NO_VALUE) {
        op->out[0] = out;
        f->made_by[out] = (uint32_t)(op - f->p->op);
    }
    return rc;
}

/* One more input for an operator; its slot, or -1 when out of memory. */
static int add_input(struct op *op, uint32_t v)
{
    uint32_t *in = slots_new((size_t)op->nin + 1);

    if (!in)
        return -1;
    memcpy(in, op->in, op->nin * sizeof(*in));
    mem_free(op->in);
    op->in = in;
    in[op->nin] = v;
    return (int)op->nin++;
}

int fuse_input(struct op *op, uint32_t first, uint32_t v)
{
    while (op->nin < first)
        if (add_input(op, NO_VALUE) < 0)
            return -1;
    return add_input(op, v);
}

const struct tensor *fuse_f32(const struct op *op, uint32_t slot)
{
    const struct tensor *t = kernel_const(op, slot);

    return t && t->type == TENSOR_F32 ? t : NULL;
}

bool fuse_by_scalar(const struct op *op, float *s, uint32_t *x)
{
    for (uint32_t i = 0; i < 2; i++)
        if (op->nin == 2 && fuse_scalar(op, i, s)) {
            *x = op->in[!i];
            return true;
        }
    return false;
}

/* Values whose shapes are sure to be equal, whatever the inputs are. */
static bool same_shape(const struct fuser *f, uint32_t a, uint32_t b)
{
    const struct shape *x = &f->p->graph->value[a].shape, *y = &f->p->graph->value[b].shape;

    if (x->rank < 0 || !shape_equal(x, y))
        return false;
    for (int32_t i = 0; i < x->rank; i++)
        if (x->dim[i] == -1) /* open and without a name */
            return false;
    return true;
}

static bool first_before(const struct fuser *f, uint32_t v, const struct op *op)
{
    const struct op *m = fuse_maker(f, v);

    return !m || m < op;
}

static void add_post(struct op *op, const struct post *post)
{
    op->post[op->npost++] = *post;
}

/* Activation, or Add of a value that is there by the time `op` runs. */
static int fuse_post(struct fuser *f, struct op *op, struct op *next, bool residual, bool *done)
{
    struct post post;
    uint32_t mid = op->out[0], x;
    float s;

    *done = false;
    if (op->npost == POST_MAX || !fuse_real(f, next->out[0]))
        return 0;
    if (next->in[0] == mid && (unary_as_post(next, &post) || clip_as_post(next, &post))) {
        add_post(op, &post);
        *done = true;
        return fuse_absorb(f, op, next);
    }
    if (op->kernel->kind == KERNEL_matmul &&
        ((fuse_is(next, "Mul") && fuse_by_scalar(next, &s, &x)) ||
         (fuse_is(next, "Div") && next->in[0] == mid && fuse_scalar(next, 1, &s) && s != 0))) {
        post = (struct post){ POST_SCALE, U_RELU, fuse_is(next, "Div") ? 1 / s : s, 0, -1 };
        add_post(op, &post);
        *done = true;
        return fuse_absorb(f, op, next);
    }
    if (op->kernel->kind == KERNEL_conv && next->nin == 2 && next->node->opset >= 7 &&
        (fuse_is(next, "Mul") || fuse_is(next, "Add")) && fuse_by_scalar(next, &s, &x)) {
        bool mul = fuse_is(next, "Mul");

        post = (struct post){ POST_UNARY, U_AFFINE, mul ? s : 1, mul ? 0 : s, -1 };
        if (op->npost && op->post[op->npost - 1].kind == POST_UNARY &&
            op->post[op->npost - 1].unary == U_AFFINE) {
            struct post *last = &op->post[op->npost - 1];

            last->alpha *= post.alpha;
            last->beta = last->beta * post.alpha + post.beta;
        } else
            add_post(op, &post);
        *done = true;
        return fuse_absorb(f, op, next);
    }
    if (residual && fuse_is(next, "Add") && next->node->opset >= 7 && next->in[0] != next->in[1]) {
        uint32_t other = next->in[next->in[0] == mid];

        if (!same_shape(f, mid, other) || !first_before(f, other, op))
            return 0;
        post = (struct post){ POST_ADD, U_RELU, 0, 0, fuse_input(op, 3, other) };
        if (post.slot < 0)
            return OPM_ENOMEM;
        add_post(op, &post);
        *done = true;
        return fuse_absorb(f, op, next);
    }
    return 0;
}

static int fuse_chain(struct fuser *f, struct op *op, bool residual)
{
    bool more = true;
    int rc = 0;

    while (more && !rc) {
        struct op *next = fuse_follower(f, op);

        more = false;
        if (next && next->kernel && next->nout == 1 && next->out[0] != NO_VALUE)
            rc = fuse_post(f, op, next, residual, &more);
    }
    return rc;
}

/* MatMul by constant weights of n columns, + vector of n. */
static int fuse_bias(struct fuser *f, struct op *mm)
{
    const struct tensor *w = fuse_f32(mm, 1), *b;
    struct op *next = fuse_follower(f, mm);
    struct post post = { POST_BIAS, U_RELU, 0, 0, -1 };
    uint32_t slot;

    if (!next || !fuse_is(next, "Add") || next->node->opset < 7 || !w || w->shape.rank != 2)
        return 0;
    slot = next->in[0] == mm->out[0];
    b = fuse_f32(next, slot);
    if (!b || b->shape.rank != 1 || b->count != w->shape.dim[!mm->turned_b] || b->count == 1)
        return 0;
    post.slot = fuse_input(mm, 3, next->in[slot]);
    if (post.slot < 0)
        return OPM_ENOMEM;
    add_post(mm, &post);
    return fuse_absorb(f, mm, next);
}

int fuse_become(struct fuser *f, struct op *op, const struct kernel *k, const char *type,
                const uint32_t *in, uint32_t nin, struct op **gone, int ngone)
{
    uint32_t *list = slots_new(nin);
    int rc = 0;

    (void)f;
    if (!list)
        return OPM_ENOMEM;
    assert(k);
    memcpy(list, in, nin * sizeof(*list));
    mem_free(op->in);
    op->in = list;
    op->nin = nin;
    op->kernel = k;
    op->type = type;
    for (int i = 0; i < ngone && !rc; i++)
        rc = fuse_cover(op, gone[i]);
    return rc;
}

uint32_t fuse_other(const struct op *op, uint32_t v)
{
    return op->in[0] == v ? op->in[1] : op->in[1] == v ? op->in[0] : NO_VALUE;
}

bool fuse_only(const struct fuser *f, uint32_t v)
{
    return v != NO_VALUE && v < f->p->graph->nvalue && f->uses[v] == 1 &&
           !(f->p->graph->value[v].flags & VALUE_OUTPUT);
}

static bool last_axis(const struct op *mean)
{
    size_t n;
    const int64_t *axes = node_attr_ints(mean->node, "axes", &n);
    const struct tensor *t = kernel_const(mean, 1);
    int64_t axis = n == 1 ? axes[0] : t && t->count == 1 ? tensor_int(t, 0) : 0;

    return (n == 1 || (t && t->count == 1)) && axis == -1 &&
           node_attr_int(mean->node, "keepdims", 1);
}

/* mean, d = x - mean, p = d^2, var = mean(p), + eps, sqrt, d / s, * scale, + bias */
static int fuse_layernorm(struct fuser *f, struct op *sub)
{
    struct op *mean = fuse_maker(f, sub->in[1]), *pow, *var = NULL, *add, *sqr, *div, *mul, *bias;
    uint32_t x = sub->in[0], d = sub->out[0], uses = 0;
    float e, eps;
    const struct tensor *scale, *shift;

    if (!mean || !fuse_is(mean, "ReduceMean") || mean->in[0] != x || !fuse_only(f, sub->in[1]) ||
        !last_axis(mean) || (f->p->graph->value[d].flags & VALUE_OUTPUT) ||
        !fuse_real(f, sub->out[0]))
        return 0;
    for (uint32_t i = (uint32_t)(sub - f->p->op) + 1; i < f->p->nop && !var; i++) {
        pow = &f->p->op[i];
        if (!pow->kernel || pow->nin != 2 || pow->in[0] != d)
            continue;
        if (fuse_is(pow, "Pow") && fuse_scalar(pow, 1, &e) && e == 2) {
            var = fuse_follower(f, pow);
            uses = 2;
        } else if (fuse_is(pow, "Mul") && pow->in[1] == d) {
            var = fuse_follower(f, pow);
            uses = 3;
        }
    }
    if (!var || f->uses[d] != uses || !fuse_is(var, "ReduceMean") || !last_axis(var))
        return 0;
    pow = fuse_maker(f, var->in[0]);
    add = fuse_follower(f, var);
    if (!add || !fuse_is(add, "Add") || !fuse_by_scalar(add, &eps, &x))
        return 0;
    x = sub->in[0];
    sqr = fuse_follower(f, add);
    if (!sqr || !fuse_is(sqr, "Sqrt"))
        return 0;
    div = fuse_follower(f, sqr);
    if (!div || !fuse_is(div, "Div") || div->in[0] != d || div->in[1] != sqr->out[0])
        return 0;
    mul = fuse_follower(f, div);
    if (!mul || !fuse_is(mul, "Mul"))
        return 0;
    uint32_t si = mul->in[0] == div->out[0];
    scale = fuse_f32(mul, si);
    bias = fuse_follower(f, mul);
    if (!bias || !fuse_is(bias, "Add") || !scale || scale->shape.rank != 1)
        return 0;
    uint32_t bi = bias->in[0] == mul->out[0];
    shift = fuse_f32(bias, bi);
    if (!shift || shift->shape.rank != 1 || shift->count != scale->count || scale->count < 2)
        return 0;
    bias->epsilon = eps;
    return fuse_become(f, bias, kernel_form(KERNEL_layernorm, 0), "LayerNormalization",
                       (uint32_t[]){ x, mul->in[si], bias->in[bi] }, 3,
                       (struct op *[]){ mean, sub, pow, var, add, sqr, div, mul }, 8);
}

static int fuse_patterns(struct fuser *f, struct op *op)
{
    if (fuse_is(op, "Erf") && op->nin == 1)
        return fuse_gelu(f, op);
    if (fuse_is(op, "Tanh") && op->nin == 1)
        return fuse_gelu_tanh(f, op);
    if (fuse_is(op, "Softmax") && op->nin == 1)
        return fuse_attention(f, op);
    if (fuse_is(op, "Sub") && op->nin == 2 && op->node->opset >= 7)
        return fuse_layernorm(f, op);
    if (fuse_is(op, "Mul") && op->nin == 2 && op->node->opset >= 7 && op->in[0] != op->in[1]) {
        int rc = fuse_hardswish(f, op);

        if (rc || !fuse_is(op, "Mul"))
            return rc;
        for (int i = 0; i < 2; i++) { /* x * sigmoid(x) */
            struct op *sig = fuse_maker(f, op->in[i]);

            if (sig && fuse_is(sig, "Sigmoid") && fuse_only(f, op->in[i]) &&
                sig->in[0] == op->in[!i] && fuse_real(f, op->out[0])) {
                uint32_t x = op->in[!i];

                return fuse_become(f, op, kernel_form(KERNEL_unary, UN_SILU), "SiLU", &x, 1, &sig,
                                   1);
            }
        }
    }
    return 0;
}

/* MatMul by constant weights that are transposed first: it can read them as they are. */
static int fuse_turned(struct fuser *f, struct op *mm)
{
    struct op *turn = fuse_maker(f, mm->in[1]);
    const struct tensor *w = turn && fuse_is(turn, "Transpose") ? fuse_f32(turn, 0) : NULL;
    uint32_t v;
    size_t n;
    const int64_t *perm = w ? node_attr_ints(turn->node, "perm", &n) : NULL;

    if (!w || w->shape.rank != 2 || !fuse_only(f, mm->in[1]) || (perm && perm[0] != 1))
        return 0;
    v = turn->in[0];
    mm->in[1] = v;
    mm->turned_b = true;
    return fuse_cover(mm, turn);
}

static int fuse_op(struct fuser *f, struct op *op)
{
    struct op *next;
    bool done;
    int rc = 0;

    if (fuse_is(op, "Conv")) {
        do {
            next = fuse_follower(f, op);
            done = false;
            if (next && next->kernel && next->nout >= 1 && next->out[0] != NO_VALUE)
                rc = fuse_affine(f, op, next, &done);
        } while (!rc && done);
        return rc ? rc : fuse_chain(f, op, true);
    }
    if (fuse_is(op, "MatMul")) {
        rc = fuse_turned(f, op);
        if (!rc)
            rc = fuse_bias(f, op);
        return rc ? rc : fuse_chain(f, op, true);
    }
    return fuse_is(op, "Gemm") ? fuse_chain(f, op, false) : 0;
}

/* Floats of 16 bits are float32 inside of the engine: to make them wider is nothing, nor to make
 * them for the caller alone, who gets them rounded. */
static void drop_cast(struct fuser *f, struct op *op)
{
    const struct graph *g = f->p->graph;
    const uint64_t halves = TYPE_BIT(TENSOR_F16) | TYPE_BIT(TENSOR_BF16);
    enum tensor_type from, to = (enum tensor_type)node_attr_int(op->node, "to", 0);
    const struct value *out;

    if (!fuse_is(op, "Cast") || op->nin != 1 || op->nout != 1 || op->in[0] >= g->nvalue ||
        op->out[0] >= g->nvalue || f->p->val[op->in[0]].kind == VAL_CONST)
        return;
    from = g->value[op->in[0]].type;
    out = &g->value[op->out[0]];
    if ((from == to && (TYPE_BIT(to) & (TYPES_NUM | halves))) ||
        (to == TENSOR_F32 && half_inside(from) == to) ||
        (from == TENSOR_F32 && half_inside(to) == from && out->type == to && !f->p->outer &&
         (out->flags & VALUE_OUTPUT) && f->uses[op->out[0]] == 1))
        op->kernel = kernel_form(KERNEL_cast_none, 0);
}

/* Operators that were absorbed leave holes. */
static void compact(struct plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->nop; i++)
        if (p->op[i].kernel)
            p->op[n++] = p->op[i];
    p->nop = n;
}

int plan_fuse(struct plan *p, opm_error *err)
{
    size_t n = (size_t)p->graph->nvalue + 1;
    struct fuser f = { p, mem_calloc(n, sizeof(uint32_t)), mem_calloc(n, sizeof(uint32_t)),
                       mem_calloc(n, sizeof(uint32_t)), err };
    int rc = f.made_by && f.read_by && f.uses ? 0 : OPM_ENOMEM;

    if (!rc) {
        fuse_links(&f);
        rc = fuse_q8(&f);
    }
    for (uint32_t i = 0; i < p->nop && !rc; i++)
        if (p->op[i].kernel)
            rc = fuse_contrib(&f, &p->op[i]);
    for (uint32_t i = 0; i < p->nop && !rc; i++)
        if (p->op[i].kernel && p->op[i].nout && p->op[i].out[0] != NO_VALUE)
            rc = fuse_patterns(&f, &p->op[i]);
    if (!rc)
        fuse_links(&f); /* what reads now is what the patterns became */
    for (uint32_t i = 0; i < p->nop && !rc; i++)
        if (p->op[i].kernel && p->op[i].nout && p->op[i].out[0] != NO_VALUE)
            rc = fuse_op(&f, &p->op[i]);
    if (!rc) {
        fuse_links(&f);
        rc = fuse_integer(&f);
    }
    if (!rc)
        rc = fuse_residuals(&f);
    if (!rc)
        fuse_links(&f);
    for (uint32_t i = 0; i < p->nop && !rc; i++)
        if (p->op[i].kernel)
            drop_cast(&f, &p->op[i]);
    compact(p);
    mem_free(f.made_by);
    mem_free(f.read_by);
    mem_free(f.uses);
    return rc == OPM_ENOMEM ? opm__fail(err, rc, "native engine: out of memory") : rc;
}
