/* einsum.c -- Einsum as products of matrices, and Det. */
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/contract.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define TERMS_MAX 8
#define LABELS CONTRACT_LABELS /* letters, then the dimensions of "..." */

struct einsum {
    int nlabel; /* output labels first */
    int nout;
    int64_t dim[LABELS];
    int64_t stride[TERMS_MAX][LABELS];
};

struct parse {
    signed char label[TERMS_MAX + 1][SHAPE_RANK_MAX]; /* the last is the output */
    int rank[TERMS_MAX + 1];
    int nterm;
    int dots; /* dimensions that "..." stands for */
    bool explicit_out;
};

static int letter(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

/* One term up to ',' '-' or the end; dots_rank: rank of the operand, or -1 for the output. */
static const char *parse_term(struct parse *p, int term, const char *s, int operand_rank)
{
    int before = 0, dots = 0;

    for (const char *c = s; *c && *c != ',' && *c != '-'; c++)
        before += letter(*c) >= 0;
    p->rank[term] = 0;
    for (; *s && *s != ',' && *s != '-'; s++) {
        if (*s == ' ')
            continue;
        if (p->rank[term] >= SHAPE_RANK_MAX)
            return NULL;
        if (letter(*s) >= 0)
            p->label[term][p->rank[term]++] = (signed char)letter(*s); /* bounded: see above */
        else if (strncmp(s, "...", 3) == 0) {
            dots = operand_rank < 0 ? p->dots : operand_rank - before;
            if (dots < 0 || dots > 12 || p->rank[term] + dots > SHAPE_RANK_MAX)
                return NULL;
            p->dots = MAX(p->dots, dots);
            /* bounded: dots were compared with it; the last dimension of "..." has label 63 */
            for (int d = 0; d < dots; d++)
                p->label[term][p->rank[term]++] = (signed char)(LABELS - dots + d);
            s += 2;
        } else
            return NULL;
    }
    return s;
}

static int parse_equation(const struct op *op, struct parse *p, opm_error *err)
{
    const char *eq = node_attr_str(op->node, "equation", ""), *s = eq;

    memset(p, 0, sizeof(*p));
    for (;;) {
        const struct nt *t = kernel_in(op, (uint32_t)p->nterm);

        if (!t || p->nterm >= TERMS_MAX)
            return kernel_fail(op, OPM_EINVAL, err, "equation '%.60s' has more terms than inputs",
                               eq);
        s = parse_term(p, p->nterm, s, t->shape.rank);
        if (!s || p->rank[p->nterm] != t->shape.rank)
            return kernel_fail(op, OPM_EINVAL, err, "equation '%.60s' does not fit input %d", eq,
                               p->nterm);
        p->nterm++;
        if (*s != ',')
            break;
        s++;
    }
    if ((uint32_t)p->nterm != op->nin)
        return kernel_fail(op, OPM_EINVAL, err, "equation '%.60s' has fewer terms than inputs", eq);
    if (s[0] == '-' && s[1] == '>') {
        const char *e = parse_term(p, TERMS_MAX, s + 2, -1);

        if (!e || *e)
            return kernel_fail(op, OPM_EINVAL, err, "equation '%.60s' is malformed", eq);
        p->explicit_out = true;
    } else if (*s)
        return kernel_fail(op, OPM_EINVAL, err, "equation '%.60s' is malformed", eq);
    return 0;
}

/* Without "->": the dots, then labels that occur once, in alphabetical order (A-Z before a-z). */
static void implicit_output(struct parse *p)
{
    int seen[LABELS] = { 0 }, n = 0;

    for (int t = 0; t < p->nterm; t++)
        for (int i = 0; i < p->rank[t]; i++)
            seen[(int)p->label[t][i]]++;
    /* bounded: parse_term() let no more dots through than there is room for */
    for (int d = 0; d < p->dots; d++)
        p->label[TERMS_MAX][n++] = (signed char)(LABELS - p->dots + d);
    for (int k = 0; k < 52; k++) {
        int l = k < 26 ? 26 + k : k - 26;

        if (seen[l] == 1 && n < SHAPE_RANK_MAX)
            p->label[TERMS_MAX][n++] = (signed char)l; /* bounded: compared above */
    }
    p->rank[TERMS_MAX] = n;
}

int einsum_prepare(struct op *op, opm_error *err)
{
    struct einsum *e = kernel_new_state(op, sizeof(*e));
    int place[LABELS];
    struct parse p;
    int rc = 0;

    if (!e)
        return kernel_nomem(op, err);
    for (uint32_t i = 0; i < op->nin && !rc; i++) {
        rc = kernel_want(op, i, TYPES_NUM, err);
        if (!rc && kernel_in(op, i)->type != kernel_in(op, 0)->type)
            rc = kernel_fail(op, OPM_EINVAL, err, "inputs are of different types");
    }
    if (!rc)
        rc = parse_equation(op, &p, err);
    if (rc)
        return rc;
    if (!p.explicit_out)
        implicit_output(&p);
    memset(e, 0, sizeof(*e));
    memset(place, -1, sizeof(place));
    for (int t = TERMS_MAX; t >= 0; t = t == TERMS_MAX ? p.nterm - 1 : t - 1) {
        for (int i = 0; i < p.rank[t]; i++)
            if (place[(int)p.label[t][i]] < 0) {
                e->dim[e->nlabel] = 1;
                place[(int)p.label[t][i]] = e->nlabel++;
            } else if (t == TERMS_MAX)
                return kernel_fail(op, OPM_EINVAL, err, "an output label occurs twice");
        if (t == TERMS_MAX)
            e->nout = e->nlabel;
    }
    for (int t = 0; t < p.nterm; t++) {
        const struct shape *q = &kernel_in(op, (uint32_t)t)->shape;
        int64_t step = 1;

        for (int i = p.rank[t] - 1; i >= 0; i--) {
            int l = place[(int)p.label[t][i]];

            if (q->dim[i] != 1 && e->dim[l] != 1 && e->dim[l] != q->dim[i])
                return kernel_fail(op, OPM_EINVAL, err, "sizes of one label differ");
            if (q->dim[i] != 1) {
                e->dim[l] = q->dim[i];
                e->stride[t][l] += step;
            }
            step *= q->dim[i];
        }
    }
    return kernel_infer(op, err);
}

/* The labels that terms from `from` on have, or the result. */
static bool wanted(const struct op *op, const struct einsum *e, uint32_t from, int l)
{
    for (uint32_t t = from; t < op->nin; t++)
        if (e->stride[t][l])
            return true;
    return l < e->nout;
}

/* Two operands at a time, from the left; the result of all but the last ones is in memory of its
 * own. next: the first term that is not among them. */
static int einsum_step(struct op *op, const struct contract_tensor *a,
                       const struct contract_tensor *b, uint32_t next, struct contract_tensor *out,
                       void **own, opm_error *err)
{
    const struct einsum *e = op->state;
    int64_t dim[LABELS], step = 1;
    struct contract c = { .pool = kernel_pool(op),
                          .isa = kernel_isa(op),
                          .type = kernel_out(op, 0)->type,
                          .nlabel = e->nlabel,
                          .dim = dim,
                          .a = a,
                          .b = b,
                          .out = kernel_out(op, 0)->data };

    memset(out, 0, sizeof(*out));
    for (int l = e->nlabel - 1; l >= 0; l--) {
        bool have = a->stride[l] || (b && b->stride[l]);

        dim[l] = have ? e->dim[l] : 1;
        if (!have || !wanted(op, e, next, l))
            continue;
        out->stride[l] = c.out_stride[l] = step;
        if (__builtin_mul_overflow(step, dim[l], &step) || step > PTRDIFF_MAX / 16)
            return kernel_fail(op, OPM_ELIMIT, err, "what is between two terms is too big");
    }
    if (next < op->nin) {
        c.out = *own = native_alloc((size_t)step * nt_width(c.type));
        if (!c.out)
            return kernel_nomem(op, err);
    }
    out->data = c.out;
    return contract_run(&c) ? kernel_nomem(op, err) : 0;
}

int einsum_run(struct op *op, opm_error *err)
{
    const struct einsum *e = op->state;
    struct contract_tensor left, right, out;
    void *own = NULL;
    int rc = 0;

    for (int l = 0; l < e->nlabel; l++)
        if (e->dim[l] == 0) {
            memset(kernel_out(op, 0)->data, 0, kernel_out(op, 0)->bytes);
            return 0;
        }
    left.data = kernel_in(op, 0)->data;
    memcpy(left.stride, e->stride[0], sizeof(left.stride));
    if (op->nin == 1)
        return einsum_step(op, &left, NULL, 1, &out, &own, err);
    for (uint32_t t = 1; t < op->nin && !rc; t++) {
        void *old = own;

        own = NULL;
        right.data = kernel_in(op, t)->data;
        memcpy(right.stride, e->stride[t], sizeof(right.stride));
        rc = einsum_step(op, &left, &right, t + 1, &out, &own, err);
        left = out;
        native_free(old);
    }
    native_free(own);
    return rc;
}

int det_prepare(struct op *op, opm_error *err)
{
    const struct shape *s;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc)
        rc = kernel_infer(op, err);
    if (rc)
        return rc;
    s = &kernel_in(op, 0)->shape;
    if (s->dim[s->rank - 1] > 1 << 15)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    op->scratch_bytes = (size_t)(s->dim[s->rank - 1] * s->dim[s->rank - 1] + 1) * sizeof(double);
    return 0;
}

/* Gauss with partial pivots. */
static double det(const struct isa *isa, double *a, int64_t n)
{
    double d = 1;

    for (int64_t k = 0; k < n; k++) {
        int64_t p = k;

        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[p * n + k]))
                p = i;
        if (a[p * n + k] == 0)
            return 0;
        if (p != k)
            d = -d;
        for (int64_t i = 0; p != k && i < n; i++) {
            double t = a[k * n + i];

            a[k * n + i] = a[p * n + i];
            a[p * n + i] = t;
        }
        d *= a[k * n + k];
        isa->rows->real->eliminate(a, n, k);
    }
    return d;
}

int det_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t n = in->shape.dim[in->shape.rank - 1];
    const struct isa *isa = kernel_isa(op);
    double *a = op->scratch;

    (void)err;
    for (int64_t i = 0; i < out->count; i++) {
        double d;

        isa->rows->cast[in->type][TENSOR_F64](
            a, (const char *)in->data + (size_t)(i * n * n) * nt_width(in->type), n * n);
        d = det(isa, a, n);
        if (out->type == TENSOR_F32)
            ((float *)out->data)[i] = (float)d;
        else
            ((double *)out->data)[i] = d;
    }
    return 0;
}
