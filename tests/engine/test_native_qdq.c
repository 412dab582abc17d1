/* test_native_qdq.c -- quantised networks in the forms that exporters write: QDQ and QOperator, by
 * opset, types, scales, biases and what stands between two convolutions. Results against sums done
 * one by one, and nothing but 8-bit operators may be left. Scales are powers of two, so that what
 * is rounded is exact and results are equal, save where a function divides: one step there. */
#include "engine/native/op.h"
#include "qdq_make.h"

static const struct engine_options options = ENGINE_OPTIONS_INIT;

static double hardsigmoid(double x)
{
    return fmin(fmax(x / 6 + 0.5, 0), 1);
}

static struct qv *like(struct net *t, const struct qv *v)
{
    struct qv *out = value(t, v->type, v->c, v->h, v->w, v->scale);

    out->zero = v->zero;
    memcpy(out->data, v->data, sizeof(v->data));
    return out;
}

/* Bytes that only move: on their own in QOperator models. */
static void moved(struct net *t, const char *type, const char *attrs, const char *more,
                  const struct qv *in, const struct qv *out)
{
    char list[LIST] = "";

    if (!t->form->operators) {
        unary(t, type, NULL, attrs, more, in, out);
        return;
    }
    add(list, in->name);
    if (more)
        add(list, more);
    make_node(&t->mk, type, list, out->name, attrs);
}

static struct qv *shuffled(struct net *t, struct qv *x)
{
    int64_t wide[5] = { 1, 3, x->c / 3, x->h, x->w }, back[4] = { 1, x->c, x->h, x->w }, n = 5;
    struct qv *a = like(t, x), *b = like(t, x), *y = like(t, x);
    char to[2][12];

    for (int64_t i = 0; i < count(x); i++) {
        int64_t c = i / (x->h * x->w), from = c % 3 * (x->c / 3) + c / 3;

        y->data[i] = x->data[from * x->h * x->w + i % (x->h * x->w)];
    }
    name_it(t, to[0], sizeof(*to), "k");
    name_it(t, to[1], sizeof(*to), "k");
    make_weight(&t->mk, to[0], TENSOR_I64, &n, 1, wide, sizeof(wide));
    n = 4;
    make_weight(&t->mk, to[1], TENSOR_I64, &n, 1, back, sizeof(back));
    moved(t, "Reshape", "", to[0], x, a);
    moved(t, "Transpose", "perm=0,2,1,3,4", NULL, a, b);
    moved(t, "Reshape", "", to[1], b, y);
    free(a);
    free(b);
    free(x);
    return y;
}

/* 8 and 16 channels; what comes out is the second part and then the first. */
static struct qv *concat(struct net *t, struct qv *a, struct qv *b)
{
    struct qv *y = value(t, a->type, a->c + b->c, a->h, a->w, a->scale * 2);
    char list[LIST] = "", d[2][12], r[12];

    for (int64_t i = 0; i < count(y); i++)
        put(y, i, i < count(a) ? real(a, i) : real(b, i - count(a)));
    if (t->form->operators) {
        add_scale(t, list, y);
        add(list, a->name);
        add_scale(t, list, a);
        add(list, b->name);
        add_scale(t, list, b);
        make_node(&t->mk, "com.microsoft:QLinearConcat", list, y->name, "axis=1");
    } else {
        dequantized(t, a, d[0], sizeof(*d));
        dequantized(t, b, d[1], sizeof(*d));
        add(list, d[0]);
        add(list, d[1]);
        name_it(t, r, sizeof(r), "r");
        make_node(&t->mk, "Concat", list, r, "axis=1");
        quantized(t, r, y);
    }
    free(a);
    free(b);
    return y;
}

static struct qv *split(struct net *t, struct qv *x)
{
    int64_t sizes[2] = { 8, x->c - 8 }, n = 2;
    /* A part of other numbers where QuantizeLinear follows. */
    struct qv *a = value(t, x->type, sizes[0], x->h, x->w, x->scale),
              *b = value(t, x->type, sizes[1], x->h, x->w,
                         t->form->operators ? x->scale : x->scale * 2);
    char list[LIST] = "", out[LIST] = "", r[2][12], d[12], k[12];

    a->zero = x->zero;
    b->zero = t->form->operators ? x->zero : b->zero;
    for (int64_t i = 0; i < count(x); i++)
        if (i < count(a))
            put(a, i, real(x, i));
        else
            put(b, i - count(a), real(x, i));
    if (t->form->operators)
        add(list, x->name);
    else {
        dequantized(t, x, d, sizeof(d));
        add(list, d);
    }
    name_it(t, r[0], sizeof(*r), "r");
    name_it(t, r[1], sizeof(*r), "r");
    add(out, t->form->operators ? a->name : r[0]);
    add(out, t->form->operators ? b->name : r[1]);
    if (t->form->opset >= 13) {
        name_it(t, k, sizeof(k), "k");
        make_weight(&t->mk, k, TENSOR_I64, &n, 1, sizes, sizeof(sizes));
        add(list, k);
        make_node(&t->mk, "Split", list, out, "axis=1");
    } else
        make_node(&t->mk, "Split", list, out, "axis=1 split=8,16");
    if (!t->form->operators) {
        quantized(t, r[0], a);
        quantized(t, r[1], b);
    }
    free(x);
    return concat(t, b, a);
}

static struct qv *pooled(struct net *t, struct qv *x, enum between what)
{
    int64_t side = what == AVERAGE || what == MAXPOOL ? 2 : SIDE, axes[2] = { 2, 3 }, n = 2;
    bool max = what == MAXPOOL;
    struct qv *y =
        max ? like(t, x) : value(t, x->type, x->c, x->h / side, x->w / side, x->scale / 2);
    char k[12];

    y->h = x->h / side;
    y->w = x->w / side;
    for (int64_t i = 0; i < count(y); i++) {
        int64_t c = i / (y->h * y->w), oy = i / y->w % y->h, ox = i % y->w;
        double sum = 0, most = -INFINITY;

        for (int64_t j = 0; j < side * side; j++) {
            double v = real(x, (c * x->h + oy * side + j / side) * x->w + ox * side + j % side);

            sum += v;
            most = fmax(most, v);
        }
        put(y, i, max ? most : sum / (double)(side * side));
    }
    if (max)
        moved(t, "MaxPool", "kernel_shape=2,2 strides=2,2", NULL, x, y);
    else if (what == AVERAGE)
        unary(t, "AveragePool", "com.microsoft:QLinearAveragePool", "kernel_shape=2,2 strides=2,2",
              NULL, x, y);
    else if (what == GLOBAL)
        unary(t, "GlobalAveragePool", "com.microsoft:QLinearGlobalAveragePool", "", NULL, x, y);
    else if (t->form->opset >= 18) {
        name_it(t, k, sizeof(k), "k");
        make_weight(&t->mk, k, TENSOR_I64, &n, 1, axes, sizeof(axes));
        unary(t, "ReduceMean", NULL, what == MEAN ? "keepdims=1" : "keepdims=0", k, x, y);
    } else
        unary(t, "ReduceMean", NULL, what == MEAN ? "axes=2,3 keepdims=1" : "axes=2,3 keepdims=0",
              NULL, x, y);
    free(x);
    return y;
}

static struct qv *gated(struct net *t, struct qv *x, enum between what)
{
    struct qv *y = value(t, x->type, x->c, x->h, x->w, x->scale), *g = like(t, x);

    g->scale = 0x1p-7f;
    g->zero = t->form->no_zeros ? 0 : limit(3, x->type);
    for (int64_t i = 0; i < count(x); i++) {
        put(g, i, hardsigmoid(real(x, i)));
        put(y, i, real(x, i) * (what == GATED ? real(g, i) : hardsigmoid(real(x, i))));
    }
    if (what == GATED) {
        unary(t, "HardSigmoid", NULL, "alpha:0.16666667 beta:0.5", NULL, x, g);
        binary(t, "Mul", x, g, y);
    } else
        unary(t, "HardSwish", NULL, "", NULL, x, y);
    free(x);
    free(g);
    return y;
}

/* Squeeze and excitation: the mean of each channel, through a convolution, is a factor. */
static struct qv *squeezed(struct net *t, struct qv *x)
{
    struct qv *copy = like(t, x), *mean, *factor, *y;

    snprintf(copy->name, sizeof(copy->name), "%s", x->name);
    mean = pooled(t, copy, GLOBAL);
    factor = conv(t, mean, x->c, 1, 1, 0x1p-3f);
    y = value(t, x->type, x->c, x->h, x->w, 0x1p0f);
    y->zero &= ~1;
    for (int64_t i = 0; i < count(x); i++)
        put(y, i, real(x, i) * real(factor, i / (x->h * x->w)));
    binary(t, "Mul", factor, x, y);
    free(mean);
    free(factor);
    free(x);
    return y;
}

static struct qv *residual(struct net *t, struct qv *x)
{
    struct qv *r = conv(t, x, x->c, 1, 1, 0x1p-1f),
              *y = value(t, x->type, x->c, x->h, x->w, 0x1p0f);

    y->zero &= ~1;
    for (int64_t i = 0; i < count(x); i++)
        put(y, i, real(x, i) + real(r, i));
    binary(t, "Add", x, r, y);
    free(r);
    free(x);
    return y;
}

static struct qv *stand_between(struct net *t, struct qv *x)
{
    switch (t->form->between) {
    case RESIDUAL:
        return residual(t, x);
    case CONCAT:
        return concat(t, conv(t, x, 12, 1, 1, 0x1p-1f), x);
    case SPLIT:
        return split(t, x);
    case SHUFFLE:
        return shuffled(t, x);
    case AVERAGE:
    case GLOBAL:
    case MEAN:
    case MEAN_FLAT:
    case MAXPOOL:
        return pooled(t, x, t->form->between);
    case SWISH:
    case GATED:
        return gated(t, x, t->form->between);
    case SQUEEZE:
        return squeezed(t, x);
    default:
        return x;
    }
}

/* What is left works on bytes, and tensors change their form at the ends alone. */
static void assert_fused(struct make *m, const struct form *form, const char *about)
{
    struct model *model = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };
    const struct plan *p;
    int reorders = 0;

    if (make_model(m, form->opset, &model, &err) || engine_native.open(&e, model, &options, &err))
        fail_msg("%s: %s", about, err.msg);
    p = ((struct native *)e)->plan;
    for (uint32_t i = 0; i < p->nop; i++) {
        const struct op *op = &p->op[i];
        bool bias = op->kernel->kind == KERNEL_dequantize && p->val[op->in[0]].fixed;

        reorders += op->kernel->kind == KERNEL_nreorder;
        switch (op->kernel->kind) {
        case KERNEL_nconv:
        case KERNEL_nbinary:
        case KERNEL_npool:
        case KERNEL_nunary:
        case KERNEL_nconcat:
        case KERNEL_npick:
        case KERNEL_nreorder:
            break;
        default:
            if (!bias && !(form->plain && op->kernel->kind == KERNEL_qconv))
                fail_msg("%s: %s is left", about, op->type ? op->type : op->node->op_type);
        }
    }
    if (reorders > 2)
        fail_msg("%s: %d reorders", about, reorders);
    e->class->close(e);
    model_free(model);
    m->file.len = 0; /* the model is made again */
}

struct expected {
    const struct qv *v;
    int step;
    const char *about;
};

static void check(const struct engine_tensor *out, const char *where, void *arg)
{
    const struct expected *e = arg;

    assert_int_equal(out->type, e->v->type);
    assert_int_equal(shape_count(&out->shape), count(e->v));
    for (int64_t i = 0; i < count(e->v); i++) {
        int have = out->type == TENSOR_U8 ? ((const uint8_t *)out->data)[i]
                                          : ((const int8_t *)out->data)[i];

        if (abs(have - e->v->data[i]) > e->step)
            fail_msg("%s: %s: element %lld is %d, not %d", e->about, where, (long long)i, have,
                     e->v->data[i]);
    }
}

static void one_form(const struct form *form)
{
    struct net t = { .form = form };
    struct qv *x = value(&t, form->x, CHANNELS, SIDE, SIDE, 0x1p-5f), *y;
    int64_t dim[4] = { 1, CHANNELS, SIDE, SIDE };
    uint8_t *bytes = rig_alloc((size_t)count(x));
    bool divides = form->between == SWISH || form->between == GATED,
         last = divides || form->between == MEAN_FLAT;
    struct expected want;
    struct engine_tensor in;
    char about[200];

    describe(form, about, sizeof(about));
    for (int64_t i = 0; i < count(x); i++) {
        bytes[i] = (uint8_t)rnd(256);
        x->data[i] = form->x == TENSOR_U8 ? bytes[i] : (int8_t)bytes[i];
    }
    make_value(&t.mk, false, x->name, form->x, dim, 4);
    in = rig_tensor(form->x, bytes, dim, 4);
    y = conv(&t, x, CHANNELS, 3, form->plain ? 3 : form->depthwise ? CHANNELS : 1, 0x1p-1f);
    y = stand_between(&t, y);
    if (!last) {
        struct qv *z = conv(&t, y, 17, 1, 1, 0x1p1f);

        free(y);
        y = z;
    }
    make_value(&t.mk, true, y->name, y->type, NULL, -1);
    want = (struct expected){ y, divides, about };
    assert_fused(&t.mk, form, about);
    rig_run(&t.mk, form->opset, &options, &in, 1, check, &want);
    make_free(&t.mk);
    free(bytes);
    free(x);
    free(y);
}

/* Some draws of everything else for each opset, format and thing between. */
static void forms(void **state)
{
    static const int opsets[] = { 10, 13, 19, 21, 23 };

    (void)state;
    for (int i = 0; i < 5 * 2 * BETWEEN_N * 3; i++) {
        struct form f = { .opset = opsets[i % 5],
                          .operators = i / 5 % 2,
                          .between = (enum between)(i / 10 % BETWEEN_N),
                          .x = rnd(2) ? TENSOR_U8 : TENSOR_I8,
                          .w = rnd(2) ? TENSOR_U8 : TENSOR_I8,
                          .per_channel = rnd(2),
                          .listed = rnd(2),
                          .no_zeros = !rnd(4),
                          .depthwise = !rnd(3),
                          .act = (enum act)rnd(ACT_N),
                          .bias = (enum bias)rnd(BIAS_N) };

        f.plain = f.between == NOTHING && rnd(2);
        f.y = f.x;
        if (f.opset < 13)
            f.per_channel = false; /* there is no axis yet */
        if (f.opset < 21 && f.y == TENSOR_I8)
            f.no_zeros = false; /* nothing else says that the result is signed */
        if (f.operators && f.bias != BIAS_NONE)
            f.bias = BIAS_INT;
        if (f.between == SWISH && (f.opset < 14 || f.operators))
            f.between = NOTHING;
        if (f.between == GATED && f.operators)
            f.between = NOTHING;
        if (f.between == MAXPOOL && f.operators && f.opset < 12)
            f.between = NOTHING; /* of floats alone */
        one_form(&f);
    }
}

#define GEMM_M 3
#define GEMM_K 22
#define GEMM_N 19

/* Gemm with a bias of any kind, and QuantizeLinear after it or none. */
static void one_gemm(const struct form *form, bool turned, bool floats)
{
    struct net t = { .form = form };
    struct qv *x = value(&t, form->x, GEMM_M, GEMM_K, 1, 0x1p-5f),
              *y = value(&t, form->y, GEMM_M, GEMM_N, 1, 0x1p-1f);
    struct filter *f = calloc(1, sizeof(*f));
    int64_t dim[2] = { GEMM_M, GEMM_K },
            w_dim[2] = { turned ? GEMM_N : GEMM_K, turned ? GEMM_K : GEMM_N },
            n = form->per_channel ? GEMM_N : 1;
    uint8_t *bytes = rig_alloc((size_t)count(x));
    double sums[GEMM_M * GEMM_N];
    char list[LIST] = "", w[LIST] = "", name[12], about[200];
    struct expected want = { y, 0, about };
    struct rig_want real_want = { sums, 0 };
    struct engine_tensor in = rig_tensor(form->x, bytes, dim, 2);

    assert_non_null(f);
    describe(form, about, sizeof(about));
    f->oc = GEMM_N;
    f->icg = GEMM_K;
    f->k = f->groups = 1;
    fill_filter(&t, f, x->scale);
    for (int64_t i = 0; i < count(x); i++) {
        bytes[i] = (uint8_t)rnd(256);
        x->data[i] = form->x == TENSOR_U8 ? bytes[i] : (int8_t)bytes[i];
    }
    for (int64_t i = 0; i < count(y); i++) {
        int64_t sum = 0, o = i % GEMM_N;

        for (int64_t k = 0; k < GEMM_K; k++)
            sum += (int64_t)(x->data[i / GEMM_N * GEMM_K + k] - x->zero) *
                   (weight(&t, f, turned ? o * GEMM_K + k : k * GEMM_N + o) - f->zero[o]);
        sums[i] = (double)sum * (double)x->scale * (double)f->scale[o] + f->bias[o];
        put(y, i, sums[i]);
    }
    make_value(&t.mk, false, x->name, form->x, dim, 2);
    dequantized(&t, x, name, sizeof(name));
    add(list, name);
    name_it(&t, name, sizeof(name), "w");
    make_weight(&t.mk, name, form->w, w_dim, 2, f->w, GEMM_N * GEMM_K);
    add(w, name);
    add_floats(&t, w, f->scale, n);
    if (!form->no_zeros)
        add_zeros(&t, w, form->w, f->zero, n);
    name_it(&t, name, sizeof(name), "d");
    make_node(&t.mk, "DequantizeLinear", w, name, n == 1 ? "" : turned ? "axis=0" : "axis=1");
    add(list, name);
    if (form->bias != BIAS_NONE)
        add_bias(&t, list, f, x->scale);
    name_it(&t, name, sizeof(name), "r");
    make_node(&t.mk, "Gemm", list, name, turned ? "transB=1" : "");
    if (!floats)
        quantized(&t, name, y);
    make_value(&t.mk, true, floats ? name : y->name, floats ? TENSOR_F32 : y->type, NULL, -1);
    if (floats)
        rig_run(&t.mk, form->opset, &options, &in, 1, rig_near, &real_want);
    else
        rig_run(&t.mk, form->opset, &options, &in, 1, check, &want);
    make_free(&t.mk);
    free(bytes);
    free(f);
    free(x);
    free(y);
}

static void gemms(void **state)
{
    (void)state;
    for (int i = 0; i < 16 * BIAS_N; i++) {
        struct form f = { .opset = 21,
                          .x = i & 1 ? TENSOR_U8 : TENSOR_I8,
                          .w = i & 2 ? TENSOR_U8 : TENSOR_I8,
                          .per_channel = i & 4,
                          .no_zeros = !rnd(3),
                          .bias = (enum bias)(i / 16) };

        f.y = f.x;
        one_gemm(&f, rnd(2), i & 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(forms), cmocka_unit_test(gemms) };

    return cmocka_run_group_tests_name("native_qdq", tests, NULL, NULL);
}
