/* test_native_q8.c -- products and convolutions of bytes against sums done one by one: they must be
 * equal, not near, for every instruction set. */
#include "run_rig.h"

static const struct engine_options options = ENGINE_OPTIONS_INIT;

/* Bytes of either kind over their whole range: what saturates on the way shows. */
static uint8_t *random_bytes(int64_t n)
{
    uint8_t *p = rig_alloc((size_t)n);

    for (int64_t i = 0; i < n; i++)
        p[i] = rnd(3) ? (uint8_t)rnd(256) : rnd(2) ? 0xff : 0x80;
    return p;
}

static int64_t at(const uint8_t *p, enum tensor_type t, int64_t i)
{
    return t == TENSOR_U8 ? p[i] : (int8_t)p[i];
}

static double requantize(int64_t sum, float scale, int64_t zero, enum tensor_type t)
{
    double v = nearbyint((double)((float)sum * scale)) + (double)zero;

    return t == TENSOR_U8 ? fmin(fmax(v, 0), 255) : fmin(fmax(v, -128), 127);
}

struct mm_case {
    int64_t batch, m, n, k;
    enum tensor_type a, b;
    bool constant, per_column, linear;
};

static void one_matmul(const struct mm_case *c)
{
    struct make mk = { 0 };
    int64_t a_dim[3] = { c->batch, c->m, c->k }, b_dim[2] = { c->k, c->n },
            nz = c->per_column ? c->n : 1, total = c->batch * c->m * c->n;
    uint8_t *a = random_bytes(c->batch * c->m * c->k), *b = random_bytes(c->k * c->n),
            *az = random_bytes(1), *bz = random_bytes(nz), yz = 7;
    float a_scale = 0.5f, y_scale = 100, *b_scale = random_floats(nz);
    double *want = malloc((size_t)total * sizeof(double) + 1);
    struct rig_want expect = { want, 0 };
    struct engine_tensor in[2] = { rig_tensor(c->a, a, a_dim, 3), rig_tensor(c->b, b, b_dim, 2) };

    for (int64_t i = 0; i < total; i++) {
        int64_t col = i % c->n, row = i / c->n, sum = 0;

        for (int64_t k = 0; k < c->k; k++)
            sum += (at(a, c->a, row * c->k + k) - at(az, c->a, 0)) *
                   (at(b, c->b, k * c->n + col) - at(bz, c->b, nz > 1 ? col : 0));
        want[i] = c->linear ? requantize(sum, a_scale * b_scale[nz > 1 ? col : 0] / y_scale, yz,
                                         TENSOR_U8)
                            : (double)sum;
    }
    if (c->linear) {
        make_node(&mk, "QLinearMatMul", "a,as,az,b,bs,bz,ys,yz", "y", "");
        make_weight(&mk, "as", TENSOR_F32, NULL, 0, &a_scale, 4);
        make_weight(&mk, "bs", TENSOR_F32, &nz, c->per_column, b_scale, (size_t)nz * 4);
        make_weight(&mk, "ys", TENSOR_F32, NULL, 0, &y_scale, 4);
        make_weight(&mk, "yz", TENSOR_U8, NULL, 0, &yz, 1);
    } else
        make_node(&mk, "MatMulInteger", "a,b,az,bz", "y", "");
    make_weight(&mk, "az", c->a, NULL, 0, az, 1);
    make_weight(&mk, "bz", c->b, &nz, c->per_column, bz, (size_t)nz);
    make_value(&mk, false, "a", c->a, a_dim, 3);
    if (c->constant)
        make_weight(&mk, "b", c->b, b_dim, 2, b, (size_t)(c->k * c->n));
    else
        make_value(&mk, false, "b", c->b, b_dim, 2);
    make_value(&mk, true, "y", c->linear ? TENSOR_U8 : TENSOR_I32, NULL, -1);
    rig_run(&mk, 13, &options, in, c->constant ? 1 : 2, rig_near, &expect);
    make_free(&mk);
    free(a);
    free(b);
    free(az);
    free(bz);
    free(b_scale);
    free(want);
}

static void matmul(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct mm_case c = { 1 + rnd(2),
                             1 + rnd(70),
                             1 + rnd(150),
                             1 + rnd(100),
                             i & 1 ? TENSOR_U8 : TENSOR_I8,
                             i & 2 ? TENSOR_U8 : TENSOR_I8,
                             i & 4,
                             i & 8,
                             i & 16 };

        one_matmul(&c);
    }
}

struct conv_case {
    int64_t n, ic, oc, h, w, kh, kw, stride, pad, dilation, groups;
    enum tensor_type x, wt;
    bool per_channel, linear, constant;
};

static int64_t conv_sum(const struct conv_case *c, const uint8_t *x, const uint8_t *w,
                        const uint8_t *xz, const uint8_t *wz, int64_t i, int64_t oh, int64_t ow)
{
    int64_t ox = i % ow, oy = i / ow % oh, oc = i / (ow * oh) % c->oc, n = i / (ow * oh * c->oc),
            icg = c->ic / c->groups, sum = 0;

    for (int64_t ch = 0; ch < icg; ch++)
        for (int64_t t = 0; t < c->kh * c->kw; t++) {
            int64_t iy = oy * c->stride - c->pad + t / c->kw * c->dilation,
                    ix = ox * c->stride - c->pad + t % c->kw * c->dilation,
                    from = oc / (c->oc / c->groups) * icg + ch;

            if (iy >= 0 && ix >= 0 && iy < c->h && ix < c->w)
                sum +=
                    (at(x, c->x, ((n * c->ic + from) * c->h + iy) * c->w + ix) - at(xz, c->x, 0)) *
                    (at(w, c->wt, (oc * icg + ch) * c->kh * c->kw + t) -
                     at(wz, c->wt, c->per_channel ? oc : 0));
        }
    return sum;
}

static void one_conv(const struct conv_case *c)
{
    int64_t oh = (c->h + 2 * c->pad - (c->kh - 1) * c->dilation - 1) / c->stride + 1,
            ow = (c->w + 2 * c->pad - (c->kw - 1) * c->dilation - 1) / c->stride + 1,
            x_dim[4] = { c->n, c->ic, c->h, c->w },
            w_dim[4] = { c->oc, c->ic / c->groups, c->kh, c->kw }, total = c->n * c->oc * oh * ow,
            nx = c->n * c->ic * c->h * c->w, nw = c->oc * w_dim[1] * c->kh * c->kw,
            nz = c->per_channel ? c->oc : 1;
    struct make mk = { 0 };
    uint8_t *x = random_bytes(nx), *w = random_bytes(nw), *xz = random_bytes(1),
            *wz = random_bytes(nz), yz = 100;
    float x_scale = 0.25f, y_scale = 40, *w_scale = random_floats(nz);
    int32_t *bias = rig_alloc((size_t)c->oc * 4);
    double *want = malloc((size_t)total * sizeof(double) + 1);
    struct rig_want expect = { want, 0 };
    struct engine_tensor in[2] = { rig_tensor(c->x, x, x_dim, 4), rig_tensor(c->wt, w, w_dim, 4) };
    char attrs[200];

    assert_true(oh > 0 && ow > 0);
    for (int64_t i = 0; i < c->oc; i++)
        bias[i] = (int32_t)rnd(20000) - 10000;
    for (int64_t i = 0; i < total; i++) {
        int64_t oc = i / (ow * oh) % c->oc, sum = conv_sum(c, x, w, xz, wz, i, oh, ow);

        want[i] = c->linear
                      ? requantize(sum + bias[oc], x_scale * w_scale[nz > 1 ? oc : 0] / y_scale,
                                   (int8_t)yz, TENSOR_I8)
                      : (double)sum;
    }
    snprintf(attrs, sizeof(attrs),
             "strides=%lld,%lld pads=%lld,%lld,%lld,%lld dilations=%lld,%lld group=%lld",
             (long long)c->stride, (long long)c->stride, (long long)c->pad, (long long)c->pad,
             (long long)c->pad, (long long)c->pad, (long long)c->dilation, (long long)c->dilation,
             (long long)c->groups);
    if (c->linear) {
        make_node(&mk, "QLinearConv", "x,xs,xz,w,ws,wz,ys,yz,bias", "y", attrs);
        make_weight(&mk, "xs", TENSOR_F32, NULL, 0, &x_scale, 4);
        make_weight(&mk, "ws", TENSOR_F32, &nz, c->per_channel, w_scale, (size_t)nz * 4);
        make_weight(&mk, "ys", TENSOR_F32, NULL, 0, &y_scale, 4);
        make_weight(&mk, "yz", TENSOR_I8, NULL, 0, &yz, 1);
        make_weight(&mk, "bias", TENSOR_I32, &c->oc, 1, bias, (size_t)c->oc * 4);
    } else
        make_node(&mk, "ConvInteger", "x,w,xz,wz", "y", attrs);
    make_weight(&mk, "xz", c->x, NULL, 0, xz, 1);
    make_weight(&mk, "wz", c->wt, &nz, c->per_channel, wz, (size_t)nz);
    make_value(&mk, false, "x", c->x, x_dim, 4);
    if (c->constant)
        make_weight(&mk, "w", c->wt, w_dim, 4, w, (size_t)nw);
    else
        make_value(&mk, false, "w", c->wt, w_dim, 4);
    make_value(&mk, true, "y", c->linear ? TENSOR_I8 : TENSOR_I32, NULL, -1);
    rig_run(&mk, 13, &options, in, c->constant ? 1 : 2, rig_near, &expect);
    make_free(&mk);
    free(x);
    free(w);
    free(xz);
    free(wz);
    free(w_scale);
    free(bias);
    free(want);
}

static void conv(void **state)
{
    static const struct conv_case fixed[] = {
        { 1, 3, 8, 30, 31, 7, 7, 2, 3, 1, 1, TENSOR_U8, TENSOR_I8, true, true, true },
        { 2, 16, 20, 7, 7, 1, 1, 1, 0, 1, 1, TENSOR_U8, TENSOR_U8, false, false, true },
        { 1, 9, 9, 13, 80, 3, 3, 1, 1, 1, 9, TENSOR_U8, TENSOR_I8, true, true, true },
        { 1, 8, 16, 14, 14, 3, 3, 2, 1, 1, 8, TENSOR_I8, TENSOR_U8, true, false, true },
        { 1, 4, 4, 9, 9, 5, 5, 1, 2, 1, 4, TENSOR_U8, TENSOR_U8, false, true, false },
        { 1, 8, 8, 12, 12, 1, 1, 3, 0, 1, 1, TENSOR_I8, TENSOR_I8, true, true, true },
        { 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, TENSOR_U8, TENSOR_I8, false, false, true },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
        one_conv(&fixed[i]);
    for (int i = 0; i < 24; i++) {
        int64_t g = 1 + rnd(3), k = 1 + rnd(4);
        struct conv_case c = { 1 + rnd(2),
                               g * (1 + rnd(6)),
                               g * (1 + rnd(20)),
                               8 + rnd(14),
                               8 + rnd(14),
                               k,
                               1 + rnd(4),
                               1 + rnd(3),
                               rnd((uint32_t)k),
                               1 + rnd(2),
                               g,
                               i & 1 ? TENSOR_U8 : TENSOR_I8,
                               i & 2 ? TENSOR_U8 : TENSOR_I8,
                               i & 4,
                               i & 8,
                               i & 16 };

        one_conv(&c);
    }
}

/* Halves go to even, and everything is kept in range. */
static void quantize(void **state)
{
    for (int i = 0; i < 6; i++) {
        int64_t dim[2] = { 3, 60 }, n = i % 3 == 2 ? 60 : 1;
        enum tensor_type t = i % 2 ? TENSOR_I8 : TENSOR_U8;
        float *x = random_floats(180), *scale = random_floats(n);
        uint8_t *zero = random_bytes(n);
        double want[180];
        struct rig_want expect = { want, 0 };
        struct engine_tensor in = rig_tensor(TENSOR_F32, x, dim, 2);
        struct make mk = { 0 };

        for (int64_t k = 0; k < n; k++)
            scale[k] = 0.5f;
        for (int64_t k = 0; k < 180; k++) {
            x[k] = k < 20 ? (float)k / 4 : x[k] * 200;
            want[k] = nearbyint((double)(x[k] / 0.5f)) + (double)at(zero, t, n > 1 ? k % 60 : 0);
            want[k] = t == TENSOR_U8 ? fmin(fmax(want[k], 0), 255) : fmin(fmax(want[k], -128), 127);
        }
        make_node(&mk, "QuantizeLinear", "x,s,z", "y", "axis=1");
        make_weight(&mk, "s", TENSOR_F32, &n, n > 1, scale, (size_t)n * 4);
        make_weight(&mk, "z", t, &n, n > 1, zero, (size_t)n);
        make_value(&mk, false, "x", TENSOR_F32, dim, 2);
        make_value(&mk, true, "y", t, NULL, -1);
        rig_run(&mk, 13, &options, &in, 1, rig_near, &expect);
        make_free(&mk);
        free(x);
        free(scale);
        free(zero);
    }
    (void)state;
}

/* DequantizeLinear, Conv, Relu, QuantizeLinear: the same as sums of bytes. */
static void between(void **state)
{
    struct conv_case c = {
        1, 5, 7, 12, 13, 3, 3, 1, 1, 1, 1, TENSOR_U8, TENSOR_I8, true, true, true
    };
    int64_t total = 7 * 12 * 13, x_dim[4] = { 1, 5, 12, 13 }, w_dim[4] = { 7, 5, 3, 3 }, oc = 7;
    struct make mk = { 0 };
    uint8_t *x = random_bytes(5 * 12 * 13), *w = random_bytes(7 * 5 * 9), xz = 120, yz = 9,
            wz[7] = { 0 };
    float x_scale = 0.5f, y_scale = 60, w_scale[7], b_scale[7];
    int32_t bias[7];
    double *want = malloc((size_t)total * sizeof(double));
    struct rig_want expect = { want, 0 };
    struct engine_tensor in = rig_tensor(TENSOR_U8, x, x_dim, 4);

    (void)state;
    for (int i = 0; i < 7; i++) {
        w_scale[i] = 0.25f * (float)(i + 1);
        b_scale[i] = x_scale * w_scale[i];
        bias[i] = (int32_t)rnd(20000) - 10000;
    }
    for (int64_t i = 0; i < total; i++) {
        int64_t ch = i / (12 * 13), sum = conv_sum(&c, x, w, &xz, wz, i, 12, 13) + bias[ch];

        want[i] = fmax(requantize(sum, x_scale * w_scale[ch] / y_scale, yz, TENSOR_U8), yz);
    }
    make_node(&mk, "DequantizeLinear", "x,xs,xz", "xf", "");
    make_node(&mk, "DequantizeLinear", "w,ws,wz", "wf", "axis=0");
    make_node(&mk, "DequantizeLinear", "b,bs", "bf", "axis=0");
    make_node(&mk, "Conv", "xf,wf,bf", "c", "pads=1,1,1,1");
    make_node(&mk, "Relu", "c", "r", "");
    make_node(&mk, "QuantizeLinear", "r,ys,yz", "y", "");
    make_value(&mk, false, "x", TENSOR_U8, x_dim, 4);
    make_weight(&mk, "xs", TENSOR_F32, NULL, 0, &x_scale, 4);
    make_weight(&mk, "xz", TENSOR_U8, NULL, 0, &xz, 1);
    make_weight(&mk, "w", TENSOR_I8, w_dim, 4, w, 7 * 5 * 9);
    make_weight(&mk, "ws", TENSOR_F32, &oc, 1, w_scale, sizeof(w_scale));
    make_weight(&mk, "wz", TENSOR_I8, &oc, 1, wz, sizeof(wz));
    make_weight(&mk, "b", TENSOR_I32, &oc, 1, bias, sizeof(bias));
    make_weight(&mk, "bs", TENSOR_F32, &oc, 1, b_scale, sizeof(b_scale));
    make_weight(&mk, "ys", TENSOR_F32, NULL, 0, &y_scale, 4);
    make_weight(&mk, "yz", TENSOR_U8, NULL, 0, &yz, 1);
    make_value(&mk, true, "y", TENSOR_U8, NULL, -1);
    rig_run(&mk, 13, &options, &in, 1, rig_near, &expect);
    make_free(&mk);
    free(x);
    free(w);
    free(want);
}

/* MatMulInteger, Cast, Mul, Add: products of bytes, scaled on their way out. */
static void scaled(void **state)
{
    int64_t a_dim[2] = { 9, 30 }, b_dim[2] = { 30, 20 }, n = 20;
    uint8_t *a = random_bytes(9 * 30), *b = random_bytes(30 * 20), az = 77, bz = 0;
    float *bias = random_floats(20), scale = 0.125f;
    double want[9 * 20];
    struct rig_want expect = { want, 1e-6 };
    struct engine_tensor in = rig_tensor(TENSOR_U8, a, a_dim, 2);
    struct make mk = { 0 };

    (void)state;
    for (int64_t i = 0; i < 9 * 20; i++) {
        int64_t sum = 0;

        for (int64_t k = 0; k < 30; k++)
            sum += (a[i / 20 * 30 + k] - 77) * at(b, TENSOR_I8, k * 20 + i % 20);
        want[i] = fmax((double)sum * 0.125 + (double)bias[i % 20], 0);
    }
    make_node(&mk, "MatMulInteger", "a,b,az,bz", "i", "");
    make_node(&mk, "Cast", "i", "f", "to=1");
    make_node(&mk, "Mul", "f,s", "m", "");
    make_node(&mk, "Add", "m,bias", "p", "");
    make_node(&mk, "Relu", "p", "y", "");
    make_value(&mk, false, "a", TENSOR_U8, a_dim, 2);
    make_weight(&mk, "b", TENSOR_I8, b_dim, 2, b, 600);
    make_weight(&mk, "az", TENSOR_U8, NULL, 0, &az, 1);
    make_weight(&mk, "bz", TENSOR_I8, NULL, 0, &bz, 1);
    make_weight(&mk, "s", TENSOR_F32, NULL, 0, &scale, 4);
    make_weight(&mk, "bias", TENSOR_F32, &n, 1, bias, 80);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    rig_run(&mk, 13, &options, &in, 1, rig_near, &expect);
    make_free(&mk);
    free(a);
    free(b);
    free(bias);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul),  cmocka_unit_test(conv),   cmocka_unit_test(quantize),
        cmocka_unit_test(between), cmocka_unit_test(scaled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
