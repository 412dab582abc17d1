/* test_native_kernels.c -- kernels against naive sums in double, over random shapes, for every
 * instruction set that this machine has and for 1, 2 and 3 threads, whose results must be the same
 * bit by bit. */
#include "engine/native/isa/isa.h"
#include "onnx_make.h"

#include "../unit/unit.h"

#include <math.h>

static uint64_t seed = 1;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static float *random_floats(int64_t n)
{
    float *p = aligned_alloc(64, ((size_t)n * 4 + 64) / 64 * 64);

    for (int64_t i = 0; i < n; i++)
        p[i] = (float)rnd(2001) / 1000 - 1;
    return p;
}

static int64_t count(const int64_t *d, int r)
{
    int64_t n = 1;

    for (int i = 0; i < r; i++)
        n *= d[i];
    return n;
}

struct feed {
    int64_t dim[4];
    int rank;
    float *data;
};

/* Run the model with every instruction set and thread count; want has n elements. */
static void run_all(struct make *m, int opset, const struct feed *in, size_t nin,
                    const double *want, int64_t n, double tol)
{
    struct engine_tensor it[4], out;
    struct model *model = NULL;
    opm_error err = { 0 };
    float *first = malloc((size_t)n * sizeof(float) + 1);

    if (make_model(m, opset, &model, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < nin; i++) {
        it[i] = (struct engine_tensor){ .type = TENSOR_F32, .data = in[i].data };
        it[i].shape.rank = in[i].rank;
        memcpy(it[i].shape.dim, in[i].dim, sizeof(in[i].dim));
        it[i].bytes = (size_t)count(in[i].dim, in[i].rank) * 4;
    }
    for (int isa = 0; isa < ISA_N; isa++)
        for (int threads = 1; threads <= 3 && isa_get((enum isa_kind)isa); threads++) {
            struct engine_options opts = ENGINE_OPTIONS_INIT;
            struct engine *e = NULL;

            setenv("OPMETER_ISA", isa_names[isa], 1);
            opts.threads = threads;
            if (engine_native.open(&e, model, &opts, &err) ||
                e->class->run(e, it, nin, &out, 1, &err))
                fail_msg("%s", err.msg);
            assert_int_equal(shape_count(&out.shape), n);
            for (int64_t i = 0; i < n; i++)
                if (!(fabs((double)((float *)out.data)[i] - want[i]) <= tol * (1 + fabs(want[i]))))
                    fail_msg("%s, %d threads: element %lld is %g, not %g", isa_names[isa], threads,
                             (long long)i, (double)((float *)out.data)[i], want[i]);
            if (threads == 1 && n)
                memcpy(first, out.data, (size_t)n * sizeof(float));
            else
                assert_memory_equal(first, out.data, (size_t)n * sizeof(float));
            e->class->close(e);
        }
    model_free(model);
    free(first);
}

static void one_gemm(int64_t m, int64_t n, int64_t k, bool constant, bool posts)
{
    struct make mk = { 0 };
    struct feed in[2] = { { { m, k }, 2, random_floats(m * k) },
                          { { k, n }, 2, random_floats(k * n) } };
    float *bias = random_floats(n);
    double *want = malloc((size_t)(m * n) * sizeof(double) + 1);

    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = 0;

            for (int64_t q = 0; q < k; q++)
                s += (double)in[0].data[i * k + q] * (double)in[1].data[q * n + j];
            if (posts)
                s = fmax(s + (double)bias[j], 0);
            want[i * n + j] = s;
        }
    make_node(&mk, "MatMul", "a,b", posts ? "p" : "y", "");
    if (posts) {
        make_node(&mk, "Add", "p,bias", "q", "");
        make_node(&mk, "Relu", "q", "y", "");
        make_weight(&mk, "bias", TENSOR_F32, (int64_t[]){ n }, 1, bias, (size_t)n * 4);
    }
    make_value(&mk, false, "a", TENSOR_F32, in[0].dim, 2);
    if (constant)
        make_weight(&mk, "b", TENSOR_F32, in[1].dim, 2, in[1].data, (size_t)(k * n) * 4);
    else
        make_value(&mk, false, "b", TENSOR_F32, in[1].dim, 2);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    run_all(&mk, 13, in, constant ? 1 : 2, want, m * n, 1e-5 * sqrt((double)k + 1));
    make_free(&mk);
    free(in[0].data);
    free(in[1].data);
    free(bias);
    free(want);
}

static void gemm(void **state)
{
    (void)state;
    one_gemm(1, 1, 1, true, false);
    one_gemm(1, 100, 33, true, true);
    one_gemm(12, 32, 600, true, true);
    one_gemm(150, 140, 10, false, false);
    one_gemm(25, 70, 1024, true, true); /* rows that fall on each other in the cache */
    one_gemm(14, 40, 2100, true, true); /* more than one block of k */
    one_gemm(1, 70, 2500, false, true);
    for (int i = 0; i < 12; i++)
        one_gemm(1 + rnd(70), 1 + rnd(90), 1 + rnd(300), i % 2, i % 3 == 0);
}

struct conv_case {
    int64_t n, ic, oc, h, w, kh, kw, stride, pad, dilation, groups;
};

static void one_conv(const struct conv_case *c, bool posts)
{
    int64_t oh = (c->h + 2 * c->pad - (c->kh - 1) * c->dilation - 1) / c->stride + 1,
            ow = (c->w + 2 * c->pad - (c->kw - 1) * c->dilation - 1) / c->stride + 1,
            icg = c->ic / c->groups, m = c->oc / c->groups, total = c->n * c->oc * oh * ow;
    struct make mk = { 0 };
    struct feed in[2] = {
        { { c->n, c->ic, c->h, c->w }, 4, random_floats(c->n * c->ic * c->h * c->w) },
        { { c->n, c->oc, oh, ow }, 4, random_floats(total) },
    };
    int64_t wd[4] = { c->oc, icg, c->kh, c->kw };
    float *w = random_floats(count(wd, 4)), *bias = random_floats(c->oc);
    double *want = malloc((size_t)total * sizeof(double) + 1);
    char attrs[200];

    if (oh < 1 || ow < 1)
        fail_msg("bad case");
    for (int64_t i = 0; i < total; i++) {
        int64_t x = i % ow, y = i / ow % oh, oc = i / (ow * oh) % c->oc, n = i / (ow * oh * c->oc);
        double s = (double)bias[oc];

        for (int64_t ch = 0; ch < icg; ch++)
            for (int64_t a = 0; a < c->kh; a++)
                for (int64_t b = 0; b < c->kw; b++) {
                    int64_t iy = y * c->stride - c->pad + a * c->dilation,
                            ix = x * c->stride - c->pad + b * c->dilation;

                    if (iy >= 0 && ix >= 0 && iy < c->h && ix < c->w)
                        s += (double)w[((oc * icg + ch) * c->kh + a) * c->kw + b] *
                             (double)in[0]
                                 .data[((n * c->ic + oc / m * icg + ch) * c->h + iy) * c->w + ix];
                }
        if (posts)
            s = fmax(s + (double)in[1].data[i], 0);
        want[i] = s;
    }
    snprintf(attrs, sizeof(attrs),
             "strides=%lld,%lld pads=%lld,%lld,%lld,%lld dilations=%lld,%lld group=%lld",
             (long long)c->stride, (long long)c->stride, (long long)c->pad, (long long)c->pad,
             (long long)c->pad, (long long)c->pad, (long long)c->dilation, (long long)c->dilation,
             (long long)c->groups);
    make_node(&mk, "Conv", "x,w,b", posts ? "p" : "y", attrs);
    make_value(&mk, false, "x", TENSOR_F32, in[0].dim, 4);
    if (posts) {
        make_node(&mk, "Add", "p,r", "q", "");
        make_node(&mk, "Relu", "q", "y", "");
        make_value(&mk, false, "r", TENSOR_F32, in[1].dim, 4);
    }
    make_weight(&mk, "w", TENSOR_F32, wd, 4, w, (size_t)count(wd, 4) * 4);
    make_weight(&mk, "b", TENSOR_F32, (int64_t[]){ c->oc }, 1, bias, (size_t)c->oc * 4);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    run_all(&mk, 13, in, posts ? 2 : 1, want, total, 1e-4);
    make_free(&mk);
    free(in[0].data);
    free(in[1].data);
    free(w);
    free(bias);
    free(want);
}

static void conv(void **state)
{
    static const struct conv_case fixed[] = {
        { 1, 3, 8, 9, 11, 3, 3, 1, 1, 1, 1 },    { 2, 16, 24, 7, 7, 1, 1, 1, 0, 1, 1 },
        { 1, 8, 8, 13, 17, 3, 3, 1, 1, 1, 8 },   { 1, 8, 8, 14, 14, 3, 3, 2, 1, 1, 8 },
        { 1, 6, 9, 10, 10, 3, 3, 2, 0, 2, 3 },   { 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1 },
        { 1, 40, 30, 14, 14, 3, 3, 1, 1, 1, 1 }, { 1, 4, 4, 5, 70, 5, 5, 1, 2, 1, 4 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
        one_conv(&fixed[i], i % 2);
    for (int i = 0; i < 15; i++) {
        int64_t g = 1 + rnd(3), k = 1 + rnd(4);
        struct conv_case c = {
            1 + rnd(2), g * (1 + rnd(6)), g * (1 + rnd(20)), 8 + rnd(14),      8 + rnd(14),
            k,          1 + rnd(4),       1 + rnd(3),        rnd((uint32_t)k), 1 + rnd(2),
            g
        };

        one_conv(&c, i % 2);
    }
}

static void pooling(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        int64_t c = 1 + rnd(5), h = 5 + rnd(12), w = 5 + rnd(20), k = 2 + rnd(2), s = 1 + rnd(2),
                p = rnd(2), oh = (h + 2 * p - k) / s + 1, ow = (w + 2 * p - k) / s + 1;
        struct make mk = { 0 };
        struct feed in = { { 1, c, h, w }, 4, random_floats(c * h * w) };
        double *want = malloc((size_t)(c * oh * ow) * sizeof(double));
        bool max = i % 2;
        char attrs[200];

        for (int64_t o = 0; o < c * oh * ow; o++) {
            int64_t x = o % ow, y = o / ow % oh, ch = o / (ow * oh), n = 0;
            double best = -INFINITY, sum = 0;

            for (int64_t a = 0; a < k * k; a++) {
                int64_t iy = y * s - p + a / k, ix = x * s - p + a % k;
                double v;

                if (iy < 0 || ix < 0 || iy >= h || ix >= w)
                    continue;
                v = (double)in.data[(ch * h + iy) * w + ix];
                best = fmax(best, v);
                sum += v;
                n++;
            }
            want[o] = max ? best : sum / (double)n;
        }
        snprintf(attrs, sizeof(attrs),
                 "kernel_shape=%lld,%lld strides=%lld,%lld pads=%lld,%lld,%lld,%lld", (long long)k,
                 (long long)k, (long long)s, (long long)s, (long long)p, (long long)p, (long long)p,
                 (long long)p);
        make_node(&mk, max ? "MaxPool" : "AveragePool", "x", "y", attrs);
        make_value(&mk, false, "x", TENSOR_F32, in.dim, 4);
        make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
        run_all(&mk, 13, &in, 1, want, c * oh * ow, 1e-6);
        make_free(&mk);
        free(in.data);
        free(want);
    }
}

static void softmax(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        int64_t rows = 1 + rnd(50), n = 1 + rnd(200);
        struct make mk = { 0 };
        struct feed in = { { rows, n }, 2, random_floats(rows * n) };
        double *want = malloc((size_t)(rows * n) * sizeof(double));

        for (int64_t k = 0; k < rows * n; k++)
            in.data[k] *= i % 2 ? 50 : 1;
        for (int64_t r = 0; r < rows; r++) {
            double max = -INFINITY, sum = 0;

            for (int64_t k = 0; k < n; k++)
                max = fmax(max, (double)in.data[r * n + k]);
            for (int64_t k = 0; k < n; k++)
                sum += exp((double)in.data[r * n + k] - max);
            for (int64_t k = 0; k < n; k++)
                want[r * n + k] = exp((double)in.data[r * n + k] - max) / sum;
        }
        make_node(&mk, "Softmax", "x", "y", "axis=-1");
        make_value(&mk, false, "x", TENSOR_F32, in.dim, 2);
        make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
        run_all(&mk, 13, &in, 1, want, rows * n, 1e-6);
        make_free(&mk);
        free(in.data);
        free(want);
    }
}

/* As one node, and as the nine nodes that exporters write. */
static void layernorm(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        int64_t rows = 1 + rnd(40), n = 2 + rnd(150);
        struct make mk = { 0 };
        struct feed in = { { rows, n }, 2, random_floats(rows * n) };
        float *scale = random_floats(n), *bias = random_floats(n), two = 2, eps = 1e-5f;
        double *want = malloc((size_t)(rows * n) * sizeof(double));

        for (int64_t r = 0; r < rows; r++) {
            double mean = 0, var = 0;

            for (int64_t k = 0; k < n; k++)
                mean += (double)in.data[r * n + k] / (double)n;
            for (int64_t k = 0; k < n; k++)
                var += pow((double)in.data[r * n + k] - mean, 2) / (double)n;
            for (int64_t k = 0; k < n; k++)
                want[r * n + k] =
                    ((double)in.data[r * n + k] - mean) / sqrt(var + 1e-5) * (double)scale[k] +
                    (double)bias[k];
        }
        if (i % 2)
            make_node(&mk, "LayerNormalization", "x,s,b", "y", "axis=-1 epsilon:0.00001");
        else {
            make_node(&mk, "ReduceMean", "x", "m", "axes=-1, keepdims=1");
            make_node(&mk, "Sub", "x,m", "d", "");
            make_node(&mk, "Pow", "d,two", "p", "");
            make_node(&mk, "ReduceMean", "p", "v", "axes=-1, keepdims=1");
            make_node(&mk, "Add", "v,eps", "ve", "");
            make_node(&mk, "Sqrt", "ve", "sd", "");
            make_node(&mk, "Div", "d,sd", "q", "");
            make_node(&mk, "Mul", "q,s", "qs", "");
            make_node(&mk, "Add", "qs,b", "y", "");
            make_weight(&mk, "two", TENSOR_F32, NULL, 0, &two, 4);
            make_weight(&mk, "eps", TENSOR_F32, NULL, 0, &eps, 4);
        }
        make_weight(&mk, "s", TENSOR_F32, (int64_t[]){ n }, 1, scale, (size_t)n * 4);
        make_weight(&mk, "b", TENSOR_F32, (int64_t[]){ n }, 1, bias, (size_t)n * 4);
        make_value(&mk, false, "x", TENSOR_F32, in.dim, 2);
        make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
        run_all(&mk, 17, &in, 1, want, rows * n, 2e-4);
        make_free(&mk);
        free(in.data);
        free(scale);
        free(bias);
        free(want);
    }
}

/* The vector functions, over their whole range. */
static void functions(void **state)
{
    (void)state;
    for (int k = 0; k < ISA_N; k++) {
        const struct isa *isa = isa_get((enum isa_kind)k);
        float x[1001], y[1001];

        if (!isa)
            continue;
        for (int i = 0; i < 1001; i++)
            x[i] = (float)(i - 500) / 5;
        isa->unary(U_EXP, y, x, 1001, 0, 0);
        for (int i = 0; i < 1001; i++)
            if (fabsf(x[i]) < 87)
                assert_true(fabs((double)y[i] / exp((double)x[i]) - 1) < 3e-7);
        assert_true(isinf(y[1000]) && y[0] >= 0 && y[0] < 1e-40f);
        for (int i = 0; i < 1001; i++)
            x[i] = (float)(i - 500) / 50;
        isa->unary(U_TANH, y, x, 1001, 0, 0);
        for (int i = 0; i < 1001; i++)
            assert_true(fabs((double)y[i] - tanh((double)x[i])) < 4e-7);
        isa->unary(U_ERF, y, x, 1001, 0, 0);
        for (int i = 0; i < 1001; i++)
            assert_true(fabs((double)y[i] - erf((double)x[i])) < 4e-7);
        isa->unary(U_SIGMOID, y, x, 1001, 0, 0);
        for (int i = 0; i < 1001; i++)
            assert_true(fabs((double)y[i] - 1 / (1 + exp(-(double)x[i]))) < 4e-7);
        x[0] = NAN;
        isa->unary(U_EXP, y, x, 1, 0, 0);
        assert_true(isnan(y[0]));
        isa->unary(U_RELU, y, x, 1, 0, 0);
        assert_true(isnan(y[0]));
    }
}

static double elu(double x)
{
    return x < 0 ? expm1(x) : x;
}

static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

static double mish(double x)
{
    return x * tanh(softplus(x));
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

/* More of them: from, to, and the error allowed, times (1 + |value|). */
static void more_functions(void **state)
{
    static const struct {
        enum isa_unary f;
        double (*want)(double);
        double from, to, tol;
    } list[] = {
        { U_LOG, log, 1e-30, 1e4, 2e-7 },     { U_SIN, sin, -3000, 3000, 3e-7 },
        { U_COS, cos, -3000, 3000, 3e-7 },    { U_SIN, sin, -1e6, 1e6, 3e-7 },
        { U_ELU, elu, -20, 20, 2e-7 },        { U_SOFTPLUS, softplus, -40, 40, 3e-7 },
        { U_MISH, mish, -20, 20, 4e-7 },      { U_GELU_TANH, gelu_tanh, -20, 20, 3e-7 },
        { U_FLOOR, floor, -1e4, 1e4, 0 },     { U_CEIL, ceil, -1e4, 1e4, 0 },
        { U_ROUND, nearbyint, -1e3, 1e3, 0 }, { U_SQRT, sqrt, 0, 1e6, 1e-7 },
    };

    (void)state;
    for (int k = 0; k < ISA_N; k++) {
        const struct isa *isa = isa_get((enum isa_kind)k);
        float x[1003], y[1003];

        for (size_t t = 0; isa && t < ARRAY_SIZE(list); t++) {
            for (int i = 0; i < 1003; i++)
                x[i] = (float)(list[t].from + (list[t].to - list[t].from) * i / 1003);
            x[1002] = NAN;
            isa->unary(list[t].f, y, x, 1003, 1, 0);
            for (int i = 0; i < 1002; i++) {
                double want = list[t].want((double)x[i]);

                if (!(fabs((double)y[i] - want) <= list[t].tol * (1 + fabs(want))))
                    fail_msg("%s: function %d of %g is %g, not %g", isa->name, list[t].f,
                             (double)x[i], (double)y[i], want);
            }
            assert_true(isnan(y[1002]));
        }
        if (!isa)
            continue;
        x[0] = 0;
        x[1] = -1;
        x[2] = INFINITY;
        x[3] = 1e-41f;
        isa->unary(U_LOG, y, x, 4, 0, 0);
        assert_true(isinf(y[0]) && y[0] < 0 && isnan(y[1]) && isinf(y[2]) && y[2] > 0);
        assert_true(fabsf(y[3] + 94.406f) < 1e-2f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm),           cmocka_unit_test(conv),      cmocka_unit_test(pooling),
        cmocka_unit_test(softmax),        cmocka_unit_test(layernorm), cmocka_unit_test(functions),
        cmocka_unit_test(more_functions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
