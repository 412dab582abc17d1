/* einsum.c -- Einsum by its definition, and Det. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define TERMS_MAX 8
#define LABELS 64 /* letters, then the dimensions of "..." */

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

struct einsum_job {
    const struct op *op;
    const struct einsum *e;
    int64_t inner; /* summed elements of one output */
};

#define EINSUM_SUM(T, ACC)                                               \
    do {                                                                 \
        ACC sum = 0;                                                     \
        for (int64_t k = 0; k < j->inner; k++) {                         \
            int64_t at[TERMS_MAX], r = k;                                \
            ACC x = 1;                                                   \
            memcpy(at, base, sizeof(at));                                \
            for (int l = e->nlabel - 1; l >= e->nout; l--) {             \
                for (uint32_t t = 0; t < j->op->nin; t++)                \
                    at[t] += r % e->dim[l] * e->stride[t][l];            \
                r /= e->dim[l];                                          \
            }                                                            \
            for (uint32_t t = 0; t < j->op->nin; t++)                    \
                x *= (ACC)((const T *)kernel_in(j->op, t)->data)[at[t]]; \
            sum += x;                                                    \
        }                                                                \
        ((T *)kernel_out(j->op, 0)->data)[i] = (T)sum;                   \
    } while (0)

static void einsum_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct einsum_job *j = arg;
    const struct einsum *e = j->e;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t base[TERMS_MAX] = { 0 }, rest = i;

        for (int l = e->nout - 1; l >= 0; l--) {
            for (uint32_t t = 0; t < j->op->nin; t++)
                base[t] += rest % e->dim[l] * e->stride[t][l];
            rest /= e->dim[l];
        }
        switch (kernel_out(j->op, 0)->type) {
        case TENSOR_F32:
            EINSUM_SUM(float, float);
            break;
        case TENSOR_F64:
            EINSUM_SUM(double, double);
            break;
        case TENSOR_I8:
        case TENSOR_U8:
            EINSUM_SUM(uint8_t, uint64_t);
            break;
        case TENSOR_I16:
        case TENSOR_U16:
            EINSUM_SUM(uint16_t, uint64_t);
            break;
        case TENSOR_I32:
        case TENSOR_U32:
            EINSUM_SUM(uint32_t, uint64_t);
            break;
        default:
            EINSUM_SUM(uint64_t, uint64_t);
        }
    }
}

int einsum_run(struct op *op, opm_error *err)
{
    struct einsum_job j = { op, op->state, 1 };

    (void)err;
    for (int l = j.e->nout; l < j.e->nlabel; l++)
        j.inner *= j.e->dim[l];
    pool_for(kernel_pool(op), kernel_out(op, 0)->count,
             MAX(1024 / MAX(j.inner, (int64_t)1), (int64_t)1), einsum_part, &j);
    return 0;
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
static double det(double *a, int64_t n)
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
        for (int64_t i = k + 1; i < n; i++) {
            double f = a[i * n + k] / a[k * n + k];

            for (int64_t c = k; c < n; c++)
                a[i * n + c] -= f * a[k * n + c];
        }
    }
    return d;
}

int det_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t n = in->shape.dim[in->shape.rank - 1];
    double *a = op->scratch;

    (void)err;
    for (int64_t i = 0; i < out->count; i++) {
        double d;

        for (int64_t k = 0; k < n * n; k++)
            a[k] = nt_float(in, i * n * n + k);
        d = det(a, n);
        if (out->type == TENSOR_F32)
            ((float *)out->data)[i] = (float)d;
        else
            ((double *)out->data)[i] = d;
    }
    return 0;
}
