/* test_native_nhwc.c -- networks of 8-bit operators, put together at random, against sums done one
 * by one: regions whose tensors have their channels last, and their borders. Scales are powers of
 * two, so that what is rounded is exact everywhere and results must be equal. */
#include "run_rig.h"

static const struct engine_options options = ENGINE_OPTIONS_INIT;

#define VALUES_MAX 24

/* A tensor of the network, as numbers; real value: (number - zero) * scale. */
struct qv {
    char name[8];
    enum tensor_type type;
    int64_t n, c, h, w;
    int *data;
    float scale;
    int zero;
};

struct net {
    struct make mk;
    struct qv v[VALUES_MAX];
    int nv, nweight;
};

static int64_t count(const struct qv *v)
{
    return v->n * v->c * v->h * v->w;
}

static int limit(double x, enum tensor_type t)
{
    return (int)(t == TENSOR_U8 ? fmin(fmax(x, 0), 255) : fmin(fmax(x, -128), 127));
}

static struct qv *new_value(struct net *t, int64_t n, int64_t c, int64_t h, int64_t w, float scale)
{
    struct qv *v = &t->v[t->nv];

    assert_true(t->nv < VALUES_MAX && n * c * h * w > 0);
    snprintf(v->name, sizeof(v->name), "v%d", t->nv++);
    v->type = rnd(3) ? TENSOR_U8 : TENSOR_I8;
    v->n = n;
    v->c = c;
    v->h = h;
    v->w = w;
    v->scale = scale;
    v->zero = rnd(3) ? (int)rnd(100) - (v->type == TENSOR_I8 ? 50 : 0) : 0;
    v->zero = limit(v->zero, v->type);
    v->data = malloc((size_t)count(v) * sizeof(int));
    assert_non_null(v->data);
    return v;
}

/* A constant; its name. */
static const char *constant(struct net *t, enum tensor_type type, const int64_t *dim, int rank,
                            const void *data, size_t bytes)
{
    static char name[4][12];
    char *own = name[t->nweight % 4];

    snprintf(own, sizeof(*name), "k%d", t->nweight++);
    make_weight(&t->mk, own, type, dim, rank, data, bytes);
    return own;
}

/* ",scale,zero" of a value. */
static void add_scale(struct net *t, char *list, size_t room, const struct qv *v)
{
    uint8_t zero = (uint8_t)v->zero;
    size_t at = strlen(list);

    snprintf(list + at, room - at, ",%s", constant(t, TENSOR_F32, NULL, 0, &v->scale, 4));
    at = strlen(list);
    snprintf(list + at, room - at, ",%s", constant(t, v->type, NULL, 0, &zero, 1));
}

static void append(char *list, size_t room, const char *text)
{
    size_t at = strlen(list);

    snprintf(list + at, room - at, "%s%s", at ? "," : "", text);
}

/* DequantizeLinear of a value; the name of its result. */
static void dequantized(struct net *t, const struct qv *v, char *out, size_t room)
{
    char in[80];

    snprintf(in, sizeof(in), "%s", v->name);
    add_scale(t, in, sizeof(in), v);
    snprintf(out, room, "d%d", t->nweight++);
    make_node(&t->mk, "DequantizeLinear", in, out, "");
}

static void quantized(struct net *t, const char *from, const struct qv *to)
{
    char in[80];

    snprintf(in, sizeof(in), "%s", from);
    add_scale(t, in, sizeof(in), to);
    make_node(&t->mk, "QuantizeLinear", in, to->name, "");
}

static int from_real(double real, const struct qv *v)
{
    return limit(nearbyint(real / (double)v->scale) + v->zero, v->type);
}

static double to_real(const struct qv *v, int64_t i)
{
    return (double)(v->data[i] - v->zero) * (double)v->scale;
}

struct window_case {
    int64_t kh, kw, stride, pad, dilation, groups;
};

static int64_t out_size(int64_t in, int64_t k, const struct window_case *c)
{
    return (in + 2 * c->pad - (k - 1) * c->dilation - 1) / c->stride + 1;
}

static void window_attrs(const struct window_case *c, bool kernel, char *out, size_t room)
{
    long long p = c->pad, s = c->stride, d = c->dilation;

    snprintf(out, room, "strides=%lld,%lld pads=%lld,%lld,%lld,%lld dilations=%lld,%lld", s, s, p,
             p, p, p, d, d);
    if (kernel)
        snprintf(out + strlen(out), room - strlen(out), " kernel_shape=%lld,%lld", (long long)c->kh,
                 (long long)c->kw);
    else
        snprintf(out + strlen(out), room - strlen(out), " group=%lld", (long long)c->groups);
}

/* Power of two near x. */
static float power(double x)
{
    return (float)exp2(nearbyint(log2(x)));
}

static void conv_values(const struct qv *x, struct qv *y, const struct window_case *c,
                        const int8_t *w, const float *w_scale, const int32_t *bias, bool relu)
{
    int64_t icg = x->c / c->groups, ocg = y->c / c->groups;

    for (int64_t i = 0; i < count(y); i++) {
        int64_t ox = i % y->w, oy = i / y->w % y->h, oc = i / (y->w * y->h) % y->c,
                n = i / (y->w * y->h * y->c), sum = bias[oc];
        double real;

        for (int64_t k = 0; k < icg * c->kh * c->kw; k++) {
            int64_t ch = k / (c->kh * c->kw),
                    iy = oy * c->stride - c->pad + k / c->kw % c->kh * c->dilation,
                    ix = ox * c->stride - c->pad + k % c->kw * c->dilation;

            if (iy >= 0 && ix >= 0 && iy < x->h && ix < x->w)
                sum += (x->data[((n * x->c + oc / ocg * icg + ch) * x->h + iy) * x->w + ix] -
                        x->zero) *
                       w[oc * icg * c->kh * c->kw + k];
        }
        real = (double)sum * (double)x->scale * (double)w_scale[oc];
        y->data[i] = from_real(relu ? fmax(real, 0) : real, y);
    }
}

/* Between DequantizeLinear and QuantizeLinear, or QLinearConv. */
static void conv_nodes(struct net *t, const struct qv *x, const struct qv *y,
                       const struct window_case *c, const int8_t *w, const float *w_scale,
                       const int32_t *bias, bool apart, bool relu)
{
    int64_t w_dim[4] = { y->c, x->c / c->groups, c->kh, c->kw }, oc = y->c;
    size_t bytes = (size_t)(w_dim[0] * w_dim[1] * c->kh * c->kw);
    char in[200] = "", attrs[200], a[64], name[12];
    int8_t *zeros = calloc((size_t)oc, 1);
    float *b_scale = malloc((size_t)oc * sizeof(float));

    window_attrs(c, false, attrs, sizeof(attrs));
    for (int64_t i = 0; i < oc; i++)
        b_scale[i] = x->scale * w_scale[i];
    if (!apart) {
        append(in, sizeof(in), x->name);
        add_scale(t, in, sizeof(in), x);
        append(in, sizeof(in), constant(t, TENSOR_I8, w_dim, 4, w, bytes));
        append(in, sizeof(in), constant(t, TENSOR_F32, &oc, 1, w_scale, (size_t)oc * 4));
        append(in, sizeof(in), constant(t, TENSOR_I8, &oc, 1, zeros, (size_t)oc));
        add_scale(t, in, sizeof(in), y);
        append(in, sizeof(in), constant(t, TENSOR_I32, &oc, 1, bias, (size_t)oc * 4));
        make_node(&t->mk, "QLinearConv", in, y->name, attrs);
    } else {
        dequantized(t, x, a, sizeof(a));
        append(in, sizeof(in), constant(t, TENSOR_I8, w_dim, 4, w, bytes));
        append(in, sizeof(in), constant(t, TENSOR_F32, &oc, 1, w_scale, (size_t)oc * 4));
        append(in, sizeof(in), constant(t, TENSOR_I8, &oc, 1, zeros, (size_t)oc));
        snprintf(name, sizeof(name), "w%d", t->nweight++);
        make_node(&t->mk, "DequantizeLinear", in, name, "axis=0");
        append(a, sizeof(a), name);
        in[0] = '\0';
        append(in, sizeof(in), constant(t, TENSOR_I32, &oc, 1, bias, (size_t)oc * 4));
        append(in, sizeof(in), constant(t, TENSOR_F32, &oc, 1, b_scale, (size_t)oc * 4));
        snprintf(name, sizeof(name), "b%d", t->nweight++);
        make_node(&t->mk, "DequantizeLinear", in, name, "axis=0");
        append(a, sizeof(a), name);
        snprintf(name, sizeof(name), "c%d", t->nweight++);
        make_node(&t->mk, "Conv", a, name, attrs);
        if (relu) {
            snprintf(a, sizeof(a), "%s", name);
            snprintf(name, sizeof(name), "r%d", t->nweight++);
            make_node(&t->mk, "Relu", a, name, "");
        }
        quantized(t, name, y);
    }
    free(zeros);
    free(b_scale);
}

static struct qv *add_conv(struct net *t, const struct qv *x, int64_t oc,
                           const struct window_case *c)
{
    int64_t icg = x->c / c->groups, nw = oc * icg * c->kh * c->kw;
    struct qv *y = new_value(t, x->n, oc, out_size(x->h, c->kh, c), out_size(x->w, c->kw, c),
                             power((double)x->scale * sqrt((double)(icg * c->kh * c->kw)) * 60));
    int8_t *w = malloc((size_t)nw);
    float *w_scale = malloc((size_t)oc * sizeof(float));
    int32_t *bias = malloc((size_t)oc * sizeof(int32_t));
    bool apart = rnd(2), relu = apart && rnd(2);

    for (int64_t i = 0; i < nw; i++)
        w[i] = (int8_t)(rnd(256) - 128);
    for (int64_t i = 0; i < oc; i++) {
        w_scale[i] = rnd(2) ? 1.0f : 0.5f;
        bias[i] = (int32_t)rnd(4000) - 2000;
    }
    conv_values(x, y, c, w, w_scale, bias, relu);
    conv_nodes(t, x, y, c, w, w_scale, bias, apart, relu);
    free(w);
    free(w_scale);
    free(bias);
    return y;
}

static struct qv *random_conv(struct net *t, const struct qv *x)
{
    struct window_case c = { 1 + rnd(4), 1 + rnd(4), 1 + rnd(2), rnd(3), 1 + (rnd(4) == 0), 1 };
    int64_t oc = 1 + rnd(100);

    c.pad = MIN(c.pad, MIN(c.kh, c.kw) - 1);
    if (rnd(4) == 0)
        c = (struct window_case){ 1, 1, 1 + rnd(2), 0, 1, 1 };
    switch (rnd(4)) {
    case 0: /* depthwise */
        c.groups = oc = x->c;
        if (rnd(2))
            c = (struct window_case){ 3, 3, 1 + rnd(2), 1, 1, oc };
        break;
    case 1:
        if (x->c % 8 == 0) {
            c.groups = 2;
            oc = 2 * 16 * (1 + rnd(3));
        }
        break;
    default:
        break;
    }
    if ((c.kh - 1) * c.dilation >= x->h || (c.kw - 1) * c.dilation >= x->w)
        c = (struct window_case){ 1, 1, 1, 0, 1, c.groups };
    return add_conv(t, x, oc, &c);
}

/* Sum or product of two values of the same shape. */
static struct qv *random_pair(struct net *t, const struct qv *a, const struct qv *b)
{
    bool product = rnd(4) == 0, apart = rnd(2), relu = apart && rnd(2);
    struct qv *y = new_value(t, a->n, a->c, a->h, a->w,
                             product ? a->scale * b->scale * 32 : power(a->scale + b->scale));
    char in[200] = "", more[12], out[12];

    for (int64_t i = 0; i < count(y); i++) {
        double real = product ? to_real(a, i) * to_real(b, i) : to_real(a, i) + to_real(b, i);

        /* These round with the zero point, which tells for halves. */
        real = (relu ? fmax(real, 0) : real) / (double)y->scale;
        y->data[i] = limit(nearbyint(real + y->zero), y->type);
    }
    if (!apart) {
        append(in, sizeof(in), a->name);
        add_scale(t, in, sizeof(in), a);
        append(in, sizeof(in), b->name);
        add_scale(t, in, sizeof(in), b);
        add_scale(t, in, sizeof(in), y);
        make_node(&t->mk, product ? "com.microsoft:QLinearMul" : "com.microsoft:QLinearAdd", in,
                  y->name, "");
        return y;
    }
    dequantized(t, a, in, sizeof(in));
    dequantized(t, b, more, sizeof(more));
    append(in, sizeof(in), more);
    snprintf(out, sizeof(out), "s%d", t->nweight++);
    make_node(&t->mk, product ? "Mul" : "Add", in, out, "");
    if (relu) {
        snprintf(in, sizeof(in), "%s", out);
        snprintf(out, sizeof(out), "r%d", t->nweight++);
        make_node(&t->mk, "Relu", in, out, "");
    }
    quantized(t, out, y);
    return y;
}

/* MaxPool between values of the same scale. */
static struct qv *random_max(struct net *t, const struct qv *x)
{
    struct window_case c = { 2 + rnd(2), 2 + rnd(2), 1 + rnd(2), rnd(2), 1, 1 };
    struct qv *y =
        new_value(t, x->n, x->c, out_size(x->h, c.kh, &c), out_size(x->w, c.kw, &c), x->scale);
    char in[12], out[12], attrs[200];

    y->type = x->type;
    y->zero = x->zero;
    for (int64_t i = 0; i < count(y); i++) {
        int64_t ox = i % y->w, oy = i / y->w % y->h, plane = i / (y->w * y->h);
        int most = -1000;

        for (int64_t k = 0; k < c.kh * c.kw; k++) {
            int64_t iy = oy * c.stride - c.pad + k / c.kw, ix = ox * c.stride - c.pad + k % c.kw;

            if (iy >= 0 && ix >= 0 && iy < x->h && ix < x->w)
                most = MAX(most, x->data[(plane * x->h + iy) * x->w + ix]);
        }
        y->data[i] = most;
    }
    window_attrs(&c, true, attrs, sizeof(attrs));
    dequantized(t, x, in, sizeof(in));
    snprintf(out, sizeof(out), "m%d", t->nweight++);
    make_node(&t->mk, "MaxPool", in, out, attrs);
    quantized(t, out, y);
    return y;
}

/* Over 2 x 2 or 4 x 4 pixels, so that divisions are exact. */
static struct qv *random_average(struct net *t, const struct qv *x)
{
    int64_t k = 2 + 2 * rnd(2);
    struct window_case c = { k, k, 1 + rnd(2), 0, 1, 1 };
    struct qv *y =
        new_value(t, x->n, x->c, out_size(x->h, k, &c), out_size(x->w, k, &c), x->scale / 2);
    char in[200] = "", attrs[200];

    y->type = x->type;
    y->zero = limit(y->zero, y->type);
    for (int64_t i = 0; i < count(y); i++) {
        int64_t ox = i % y->w, oy = i / y->w % y->h, plane = i / (y->w * y->h);
        double sum = 0;

        for (int64_t p = 0; p < k * k; p++)
            sum +=
                to_real(x, (plane * x->h + oy * c.stride + p / k) * x->w + ox * c.stride + p % k);
        y->data[i] = from_real(sum / (double)(k * k), y);
    }
    window_attrs(&c, true, attrs, sizeof(attrs));
    append(in, sizeof(in), x->name);
    add_scale(t, in, sizeof(in), x);
    add_scale(t, in, sizeof(in), y);
    make_node(&t->mk, "com.microsoft:QLinearAveragePool", in, y->name, attrs);
    return y;
}

static struct qv *random_concat(struct net *t, const struct qv *a, const struct qv *b)
{
    struct qv *y = new_value(t, a->n, a->c + b->c, a->h, a->w, power(a->scale));
    int64_t plane = a->h * a->w;
    char in[200] = "", s[80] = "";

    for (int64_t i = 0; i < count(y); i++) {
        int64_t c = i / plane % y->c, n = i / plane / y->c;
        const struct qv *from = c < a->c ? a : b;

        y->data[i] = from_real(
            to_real(from, (n * from->c + (c < a->c ? c : c - a->c)) * plane + i % plane), y);
    }
    add_scale(t, s, sizeof(s), y);
    append(in, sizeof(in), s + 1);
    append(in, sizeof(in), a->name);
    add_scale(t, in, sizeof(in), a);
    append(in, sizeof(in), b->name);
    add_scale(t, in, sizeof(in), b);
    make_node(&t->mk, "com.microsoft:QLinearConcat", in, y->name, "axis=1");
    return y;
}

static struct qv *random_leaky(struct net *t, const struct qv *x)
{
    struct qv *y = new_value(t, x->n, x->c, x->h, x->w, x->scale);
    char in[200] = "";

    for (int64_t i = 0; i < count(y); i++) {
        double real = to_real(x, i);

        y->data[i] = from_real(real < 0 ? real / 4 : real, y);
    }
    append(in, sizeof(in), x->name);
    add_scale(t, in, sizeof(in), x);
    add_scale(t, in, sizeof(in), y);
    make_node(&t->mk, "com.microsoft:QLinearLeakyRelu", in, y->name, "alpha:0.25");
    return y;
}

/* Another value with these pixels, and channels if those count; NULL if there is none. */
static const struct qv *fellow(const struct net *t, const struct qv *x, bool channels)
{
    for (int i = 0; i < t->nv; i++) {
        const struct qv *v = &t->v[(i + (int)rnd(4)) % t->nv];

        if (v != x && v->h == x->h && v->w == x->w && (!channels || v->c == x->c))
            return v;
    }
    return NULL;
}

static void random_net(int ops)
{
    struct net t = { 0 };
    struct qv *x = new_value(&t, 1 + rnd(2), rnd(3) ? 1 + rnd(4) : 4 * (1 + rnd(12)), 9 + rnd(9),
                             9 + rnd(9), 1);
    int64_t dim[4] = { x->n, x->c, x->h, x->w };
    uint8_t *bytes = rig_alloc((size_t)count(x));
    struct engine_tensor in = rig_tensor(x->type, bytes, dim, 4);
    double *want;
    struct rig_want expect;

    for (int64_t i = 0; i < count(x); i++) {
        x->data[i] = limit((double)rnd(256) - (x->type == TENSOR_I8 ? 128 : 0), x->type);
        bytes[i] = (uint8_t)x->data[i];
    }
    make_value(&t.mk, false, x->name, x->type, dim, 4);
    for (int i = 0; i < ops; i++) {
        const struct qv *same = fellow(&t, x, true), *near = fellow(&t, x, false);

        switch (rnd(9)) {
        case 0:
        case 1:
        case 2:
            x = same ? random_pair(&t, rnd(2) ? x : same,
                                   x == same ? x
                                   : rnd(2)  ? same
                                             : same)
                     : random_conv(&t, x);
            break;
        case 3:
            x = x->h > 4 && x->w > 4 ? random_max(&t, x) : random_conv(&t, x);
            break;
        case 4:
            x = x->h > 4 && x->w > 4 ? random_average(&t, x) : random_conv(&t, x);
            break;
        case 5:
            x = near && near->c + x->c < 300 ? random_concat(&t, x, near) : random_leaky(&t, x);
            break;
        default:
            x = random_conv(&t, x);
            if (rnd(2) == 0) /* of the same shape, to be added */
                x = add_conv(&t, x, x->c, &(struct window_case){ 3, 3, 1, 1, 1, 1 });
            break;
        }
    }
    make_value(&t.mk, true, x->name, x->type, NULL, -1);
    want = malloc((size_t)count(x) * sizeof(double));
    for (int64_t i = 0; i < count(x); i++)
        want[i] = x->data[i];
    expect = (struct rig_want){ want, 0 };
    rig_run(&t.mk, 13, &options, &in, 1, rig_near, &expect);
    make_free(&t.mk);
    for (int i = 0; i < t.nv; i++)
        free(t.v[i].data);
    free(bytes);
    free(want);
}

static void nets(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        random_net(1 + i % 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(nets) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
