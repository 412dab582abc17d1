/* test_native_blocked.c -- channel-blocked tensors: whole networks computed on them must give what
 * the plain kernels give, and Winograd's convolutions stay within a bound of the exact result. The
 * plain kernels are had by making the weights inputs: only constants are packed. */
#include "engine/native/isa/isa.h"
#include "onnx_make.h"

#include "../unit/unit.h"

#include <math.h>

#define FEEDS 24

static uint64_t seed = 7;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* A network whose weights are constants or, for the same numbers, inputs. */
struct net {
    struct make mk;
    bool plain;
    struct engine_tensor in[FEEDS];
    size_t nin;
};

static struct engine_tensor random_tensor(const int64_t *dim, int rank)
{
    struct engine_tensor t = { .type = TENSOR_F32 };
    int64_t n = 1;

    t.shape.rank = rank;
    for (int i = 0; i < rank; i++)
        n *= t.shape.dim[i] = dim[i];
    t.bytes = (size_t)n * 4;
    t.data = aligned_alloc(64, (t.bytes + 64) / 64 * 64);
    for (int64_t i = 0; i < n; i++)
        ((float *)t.data)[i] = (float)rnd(2001) / 1000 - 1;
    return t;
}

static void net_weight(struct net *net, const char *name, const int64_t *dim, int rank)
{
    struct engine_tensor t = random_tensor(dim, rank);
    int64_t fan = 1;

    for (int i = 1; i < rank; i++)
        fan *= dim[i];
    for (size_t i = 0; i < t.bytes / 4; i++) /* results stay near 1 */
        ((float *)t.data)[i] *= 2 / sqrtf((float)fan);
    if (net->plain) {
        make_value(&net->mk, false, name, TENSOR_F32, dim, rank);
        net->in[net->nin++] = t;
    } else {
        make_weight(&net->mk, name, TENSOR_F32, dim, rank, t.data, t.bytes);
        free(t.data);
    }
}

static void net_const(struct net *net, const char *name, const int64_t *dim, int rank, float lo)
{
    struct engine_tensor t = random_tensor(dim, rank);

    for (size_t i = 0; i < t.bytes / 4; i++)
        ((float *)t.data)[i] = lo + fabsf(((float *)t.data)[i]);
    make_weight(&net->mk, name, TENSOR_F32, dim, rank, t.data, t.bytes);
    free(t.data);
}

/* y = Conv(x, w): the weights are called y_w. */
static void net_conv(struct net *net, const char *type, const char *x, const char *y, int64_t d0,
                     int64_t d1, int64_t kh, int64_t kw, const char *attrs)
{
    char in[60], name[30];

    snprintf(name, sizeof(name), "%s_w", y);
    snprintf(in, sizeof(in), "%s,%s", x, name);
    make_node(&net->mk, type, in, y, attrs);
    net_weight(net, name, (int64_t[]){ d0, d1, kh, kw }, 4);
}

static void net_input(struct net *net, int64_t n, int64_t c, int64_t h, int64_t w)
{
    make_value(&net->mk, false, "x", TENSOR_F32, (int64_t[]){ -1, c, -1, -1 }, 4);
    net->in[net->nin++] = random_tensor((int64_t[]){ n, c, h, w }, 4);
}

static void net_release(struct net *net)
{
    for (size_t i = 0; i < net->nin; i++)
        free(net->in[i].data);
    make_free(&net->mk);
}

/* Results of the first output, in memory of the caller. */
static float *net_run(struct net *net, int isa, int threads, bool winograd, int64_t *n)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct engine_tensor out[4];
    struct model *model = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };
    size_t nout;
    float *copy;

    setenv("OPMETER_ISA", isa_names[isa], 1);
    opts.threads = threads;
    opts.winograd = winograd;
    net->mk.file.len = 0;
    if (make_model(&net->mk, 13, &model, &err) || engine_native.open(&e, model, &opts, &err))
        fail_msg("%s", err.msg);
    e->class->outputs(e, &nout);
    if (e->class->run(e, net->in, net->nin, out, nout, &err))
        fail_msg("%s", err.msg);
    *n = 0;
    for (size_t i = 0; i < nout; i++)
        *n += out[i].type == TENSOR_F32 ? (int64_t)out[i].bytes / 4 : 0;
    copy = malloc((size_t)*n * 4 + 1);
    *n = 0;
    for (size_t i = 0; i < nout; i++)
        if (out[i].type == TENSOR_F32 && out[i].bytes) {
            memcpy(copy + *n, out[i].data, out[i].bytes);
            *n += (int64_t)out[i].bytes / 4;
        }
    e->class->close(e);
    model_free(model);
    return copy;
}

typedef void net_fn(struct net *net, int variant);

/* Blocked with every instruction set and 1 to 3 threads, which agree to the bit, against plain. */
static void blocked_is_plain(net_fn *build, int variant, double tol)
{
    struct net plain = { .plain = true }, blocked = { .plain = false };
    uint64_t start = seed;
    int64_t want_n, n;
    float *want;

    build(&plain, variant);
    seed = start;
    build(&blocked, variant);
    want = net_run(&plain, ISA_C, 1, true, &want_n);
    for (int isa = 0; isa < ISA_N; isa++) {
        float *first = NULL;

        for (int threads = 1; threads <= 3 && isa_get((enum isa_kind)isa); threads++) {
            float *got = net_run(&blocked, isa, threads, true, &n);

            assert_int_equal(n, want_n);
            for (int64_t i = 0; i < n; i++)
                if (!(fabs((double)got[i] - (double)want[i]) <= tol * (1 + fabs((double)want[i]))))
                    fail_msg("variant %d, %s, %d threads: element %lld is %g, not %g", variant,
                             isa_names[isa], threads, (long long)i, (double)got[i],
                             (double)want[i]);
            if (first && n)
                assert_memory_equal(first, got, (size_t)n * 4);
            if (first)
                free(got);
            else
                first = got;
        }
        free(first);
    }
    free(want);
    net_release(&plain);
    net_release(&blocked);
}

/* Depthwise, squeeze and excitation, pooling, Concat with and without whole blocks. */
static void build_mobile(struct net *net, int variant)
{
    int64_t h = 20 + variant * 5, w = 33 - variant * 4, mid = 24 + 8 * variant;

    net_input(net, 1 + variant % 2, 3, h, w);
    net_conv(net, "Conv", "x", "a", mid, 3, 3, 3, "strides=2,2 pads=1,1,1,1");
    make_node(&net->mk, "Add", "a,three", "a3", "");
    make_node(&net->mk, "Clip", "a3,zero,six", "a6", "");
    make_node(&net->mk, "Mul", "a,a6", "am", "");
    make_node(&net->mk, "Div", "am,six", "b", ""); /* HardSwish */
    net_conv(net, "Conv", "b", "c", mid, 1, 3 + 2 * (variant % 2), 5,
             variant % 2 ? "pads=2,1,2,3 group=32" : "pads=1,2,1,2 group=24");
    make_node(&net->mk, "GlobalAveragePool", "c", "g", "");
    net_conv(net, "Conv", "g", "g1", 8, mid, 1, 1, "");
    make_node(&net->mk, "Relu", "g1", "g2", "");
    net_conv(net, "Conv", "g2", "g3", mid, 8, 1, 1, "");
    make_node(&net->mk, "HardSigmoid", "g3", "g4", "alpha:0.2 beta:0.5");
    make_node(&net->mk, "Mul", variant % 2 ? "g4,c" : "c,g4", "s", "");
    make_node(&net->mk, "MaxPool", "s", "p1",
              "kernel_shape=3,3 strides=2,2 pads=1,1,1,1 ceil_mode=1");
    make_node(&net->mk, "AveragePool", "s", "p2",
              variant % 2
                  ? "kernel_shape=3,3 strides=2,2 pads=1,1,1,1 ceil_mode=1"
                  : "kernel_shape=3,3 strides=2,2 pads=1,1,1,1 ceil_mode=1 count_include_pad=1");
    make_node(&net->mk, "Concat", "p1,p2,p1", "cat", variant % 2 ? "axis=1" : "axis=-3");
    net_conv(net, "Conv", "cat", "y", 20, 3 * mid, 1, 1, "strides=2,2");
    make_node(&net->mk, "Shape", "cat", "shape", "");
    make_weight(&net->mk, "zero", TENSOR_F32, NULL, 0, &(float){ 0 }, 4);
    make_weight(&net->mk, "three", TENSOR_F32, NULL, 0, &(float){ 3 }, 4);
    make_weight(&net->mk, "six", TENSOR_F32, NULL, 0, &(float){ 6 }, 4);
    make_value(&net->mk, true, "y", TENSOR_F32, NULL, -1);
    make_value(&net->mk, true, "s", TENSOR_F32, NULL, -1);
    make_value(&net->mk, true, "shape", TENSOR_I64, NULL, -1);
}

static void mobile(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        blocked_is_plain(build_mobile, i, 1e-4);
}

/* Residuals, normalization, constants per channel, Resize, ConvTranspose with many channels and
 * few. */
static void build_decoder(struct net *net, int variant)
{
    static const float scales[2][4] = { { 1, 1, 2, 2 }, { 1, 1, 1.5f, 3 } };
    int64_t mid = 20 + 12 * variant;

    net_input(net, 2 - variant % 2, 5, 9 + variant, 14);
    net_conv(net, "Conv", "x", "a", mid, 5, 3, 3, "pads=1,1,1,1");
    make_node(&net->mk, "LeakyRelu", "a", "b", "alpha:0.1");
    net_conv(net, "Conv", "b", "c", mid, mid, 3, 3, "pads=2,2,2,2 dilations=2,2");
    make_node(&net->mk, "Add", "c,b", "d", "");
    make_node(&net->mk, "Sigmoid", "d", "d1", "");
    make_node(&net->mk, "Mul", "d,d1", "e", ""); /* SiLU */
    make_node(&net->mk, "Resize", "e,,scales", "f",
              variant % 2
                  ? "mode@linear coordinate_transformation_mode@half_pixel"
                  : "mode@nearest coordinate_transformation_mode@asymmetric nearest_mode@floor");
    make_node(&net->mk, "BatchNormalization", "f,bn1,bn2,bn3,bn4", "g", "");
    make_node(&net->mk, "Mul", "g,perchannel", "h", "");
    make_node(&net->mk, "Sub", "one,h", "h1", "");
    make_node(&net->mk, "Max", "h1,h", "h2", "");
    net_conv(net, "ConvTranspose", "h2", "k", mid, 18, 3, 3,
             variant % 2 ? "strides=2,2 pads=1,1,1,1 output_padding=1,1"
                         : "strides=2,3 pads=0,1,1,2");
    make_node(&net->mk, "Tanh", "k", "l", "");
    make_node(&net->mk, "ReduceMean", "l", "mean", variant % 2 ? "axes=2,3" : "axes=-1,-2");
    make_node(&net->mk, "Dropout", "l", "same", "");
    make_node(&net->mk, "Add", "same,mean", "o", "");
    make_node(&net->mk, "PRelu", "o,slope", "q", "");
    net_conv(net, "ConvTranspose", "q", "y", 18, 1, 2, 2, "strides=2,2");
    make_weight(&net->mk, "scales", TENSOR_F32, (int64_t[]){ 4 }, 1, scales[variant % 2], 16);
    make_weight(&net->mk, "one", TENSOR_F32, (int64_t[]){ 1 }, 1, &(float){ 1 }, 4);
    net_const(net, "slope", (int64_t[]){ 18, 1, 1 }, 3, 0.1f);
    net_const(net, "perchannel", (int64_t[]){ mid, 1, 1 }, 3, 0.5f);
    for (int i = 1; i <= 4; i++) {
        char name[20];

        snprintf(name, sizeof(name), "bn%d", i);
        net_const(net, name, (int64_t[]){ mid }, 1, 0.1f);
    }
    make_value(&net->mk, true, "y", TENSOR_F32, NULL, -1);
    make_value(&net->mk, true, "k", TENSOR_F32, NULL, -1);
}

static void decoder(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        blocked_is_plain(build_decoder, i, 2e-4);
}

/* A feature pyramid: the small map is resized to what the big one turns out to be, by sizes or
 * scales that are computed. */
static void build_pyramid(struct net *net, int variant)
{
    struct make *mk = &net->mk;
    static const int64_t two[2] = { 0, 1 }, ends[2] = { 2, 3 };
    static const float ones[2] = { 1, 1 };

    net_input(net, 1, 3, 22, 26);
    net_conv(net, "Conv", "x", "a", 32, 3, 3, 3, "pads=1,1,1,1 strides=2,2");
    net_conv(net, "Conv", "a", "b", 32, 32, 3, 3, "pads=1,1,1,1 strides=2,2");
    make_weight(mk, "two", TENSOR_I64, (int64_t[]){ 2 }, 1, two, sizeof(two));
    make_weight(mk, "ends", TENSOR_I64, (int64_t[]){ 2 }, 1, ends, sizeof(ends));
    make_weight(mk, "ones", TENSOR_F32, (int64_t[]){ 2 }, 1, ones, sizeof(ones));
    make_node(mk, "Shape", "a", "as", "");
    make_node(mk, "Shape", "b", "bs", "");
    make_node(mk, "Gather", "as,ends", "hw", "");
    make_node(mk, "Gather", "bs,two", "nc", "");
    if (variant < 2) {
        make_node(mk, "Concat", "nc,hw", "sizes", "axis=0");
        make_node(mk, "Resize", "b,,,sizes", "c",
                  variant ? "mode@linear coordinate_transformation_mode@half_pixel"
                          : "mode@nearest");
    } else {
        make_node(mk, "Gather", "bs,ends", "shw", "");
        make_node(mk, "Cast", "hw", "fhw", "to=1");
        make_node(mk, "Cast", "shw", "fshw", "to=1");
        make_node(mk, "Div", "fhw,fshw", "ratio", "");
        make_node(mk, "Concat", "ones,ratio", "scales", "axis=0");
        make_node(mk, "Resize", "b,,scales", "c", "mode@nearest");
    }
    make_node(mk, "Add", "a,c", "sum", "");
    net_conv(net, "Conv", "sum", "y", 16, 32, 1, 1, "");
    make_value(mk, true, "y", TENSOR_F32, NULL, -1);
}

static void pyramid(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        blocked_is_plain(build_pyramid, i, 2e-4);
}

/* Convolutions of all kinds, one each. */
static const struct one_conv {
    int64_t n, c, h, w, oc, kh, kw, groups;
    const char *attrs;
} convs[] = {
    { 1, 1, 30, 30, 7, 7, 7, 1, "strides=2,2 pads=3,3,3,3" },
    { 2, 3, 21, 19, 33, 3, 5, 1, "strides=3,1 pads=0,4,2,1" },
    { 1, 4, 12, 12, 16, 2, 2, 1, "dilations=3,2" },
    { 3, 70, 13, 9, 50, 1, 1, 1, "" },
    { 1, 40, 15, 17, 48, 1, 1, 1, "strides=2,2" },
    { 1, 33, 9, 40, 17, 3, 3, 1, "strides=3,2 pads=1,0,0,2" },
    { 2, 32, 10, 30, 40, 3, 3, 1, "pads=1,1,1,1" },
    { 1, 19, 6, 5, 70, 3, 3, 1, "pads=2,2,2,2" },
    { 1, 48, 5, 40, 16, 3, 3, 1, "auto_pad@SAME_UPPER" },
    { 1, 64, 11, 12, 64, 3, 3, 2, "pads=1,1,1,1" },
    { 1, 64, 11, 12, 64, 3, 3, 4, "pads=1,1,1,1 strides=2,2" },
    { 1, 64, 9, 9, 64, 3, 1, 16, "pads=1,0,1,0" },
    { 1, 64, 9, 9, 64, 1, 1, 32, "" },
    { 2, 37, 8, 21, 37, 3, 3, 37, "pads=1,1,1,1" },
    { 1, 40, 8, 21, 40, 5, 5, 40, "pads=2,2,2,2 strides=2,2" },
    { 1, 40, 9, 1, 40, 3, 3, 40, "pads=4,4,4,4 dilations=2,3" },
    { 1, 24, 9, 11, 36, 3, 3, 3, "pads=1,1,1,1" },
    { 1, 16, 1, 1, 8, 3, 3, 1, "pads=5,5,0,0 strides=9,9" },
    { 1, 20, 3, 200, 20, 1, 3, 1, "pads=0,1,0,1" },
    /* groups that are together one block of 8 or 16 channels */
    { 1, 8, 14, 14, 8, 3, 3, 2, "pads=1,1,1,1" },
    { 2, 16, 14, 14, 16, 3, 3, 2, "pads=1,1,1,1" },
    { 1, 16, 7, 9, 16, 3, 3, 4, "pads=1,1,1,1" },
};

static void build_conv(struct net *net, int variant)
{
    const struct one_conv *c = &convs[variant];
    char attrs[200];

    snprintf(attrs, sizeof(attrs), "group=%lld%s%s", (long long)c->groups, c->attrs[0] ? " " : "",
             c->attrs);
    net_input(net, c->n, c->c, c->h, c->w);
    net_conv(net, "Conv", "x", "a", c->oc, c->c / c->groups, c->kh, c->kw, attrs);
    make_node(&net->mk, "Elu", "a", "y", "alpha:1.0"); /* has no blocked form */
    make_value(&net->mk, true, "y", TENSOR_F32, NULL, -1);
}

static void convolutions(void **state)
{
    (void)state;
    for (int i = 0; i < (int)ARRAY_SIZE(convs); i++)
        blocked_is_plain(build_conv, i, 1e-4);
}

/* One spatial dimension. */
static void build_1d(struct net *net, int variant)
{
    make_value(&net->mk, false, "x", TENSOR_F32, (int64_t[]){ -1, 12, -1 }, 3);
    net->in[net->nin++] = random_tensor((int64_t[]){ 2, 12, 50 + variant }, 3);
    make_node(&net->mk, "Conv", "x,w1", "a", variant % 2 ? "strides=2, pads=1,3" : "pads=1,1");
    net_weight(net, "w1", (int64_t[]){ 24, 12, 3 }, 3);
    make_node(&net->mk, "MaxPool", "a", "b", "kernel_shape=2, strides=2,");
    make_node(&net->mk, "Conv", "b,w2", "c", "group=24 pads=2,2");
    net_weight(net, "w2", (int64_t[]){ 24, 1, 5 }, 3);
    make_node(&net->mk, "Add", "c,b", "d", "");
    make_node(&net->mk, "ConvTranspose", "d,w3", "y", "strides=2,");
    net_weight(net, "w3", (int64_t[]){ 24, 9, 4 }, 3);
    make_value(&net->mk, true, "y", TENSOR_F32, NULL, -1);
}

static void one_dimension(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        blocked_is_plain(build_1d, i, 1e-4);
}

/* One engine, several shapes: what was packed for one must do for the other. */
static void shapes_change(void **state)
{
    static const int64_t size[][3] = { { 1, 14, 14 }, { 2, 30, 9 }, { 1, 3, 60 }, { 1, 14, 14 } };
    struct net plain = { .plain = true }, blocked = { .plain = false };
    struct model *model[2] = { NULL, NULL };
    struct engine *e[2] = { NULL, NULL };
    opm_error err = { 0 };

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct net *net = side ? &blocked : &plain;
        struct engine_options opts = ENGINE_OPTIONS_INIT;

        seed = 99;
        net_input(net, 1, 32, 4, 4);
        net_conv(net, "Conv", "x", "a", 48, 32, 3, 3, "pads=1,1,1,1");
        make_node(&net->mk, "Relu", "a", "b", "");
        net_conv(net, "Conv", "b", "c", 48, 48, 3, 3, "pads=1,1,1,1");
        make_node(&net->mk, "Add", "c,b", "y", "");
        make_value(&net->mk, true, "y", TENSOR_F32, NULL, -1);
        unsetenv("OPMETER_ISA");
        opts.threads = 2;
        if (make_model(&net->mk, 13, &model[side], &err) ||
            engine_native.open(&e[side], model[side], &opts, &err))
            fail_msg("%s", err.msg);
    }
    for (size_t i = 0; i < ARRAY_SIZE(size); i++) {
        struct engine_tensor x =
            random_tensor((int64_t[]){ size[i][0], 32, size[i][1], size[i][2] }, 4);
        struct engine_tensor in[FEEDS], want, got;

        for (int side = 0; side < 2; side++) {
            struct net *net = side ? &blocked : &plain;

            memcpy(in, net->in, sizeof(in));
            in[0] = x;
            if (e[side]->class->run(e[side], in, net->nin, side ? &got : &want, 1, &err))
                fail_msg("%s", err.msg);
        }
        assert_int_equal(got.bytes, want.bytes);
        for (size_t k = 0; k < got.bytes / 4; k++)
            if (fabsf(((float *)got.data)[k] - ((float *)want.data)[k]) > 1e-3f)
                fail_msg("shape %zu: element %zu is %g, not %g", i, k,
                         (double)((float *)got.data)[k], (double)((float *)want.data)[k]);
        free(x.data);
    }
    for (int side = 0; side < 2; side++) {
        e[side]->class->close(e[side]);
        model_free(model[side]);
    }
    net_release(&plain);
    net_release(&blocked);
}

/* Exact value of an output element of a 3 x 3 convolution with a border of one, and the sum of the
 * products' magnitudes. */
static double exact(const float *x, const float *w, int64_t c, int64_t oc, int64_t size, int64_t i,
                    double *magnitude)
{
    int64_t px = i % size, py = i / size % size, o = i / (size * size) % oc,
            n = i / (size * size * oc);
    double sum = 0;

    *magnitude = 0;
    for (int64_t ch = 0; ch < c; ch++)
        for (int64_t t = 0; t < 9; t++) {
            int64_t y = py + t / 3 - 1, xx = px + t % 3 - 1;
            double p;

            if (y < 0 || xx < 0 || y >= size || xx >= size)
                continue;
            p = (double)w[(o * c + ch) * 9 + t] * (double)x[((n * c + ch) * size + y) * size + xx];
            sum += p;
            *magnitude += fabs(p);
        }
    return sum;
}

/* docs/numerics.md states this bound: 2^-24 is half a unit in the last place of 1. */
#define WINOGRAD_BOUND 64

static void winograd_error(void **state)
{
    static const int64_t shape[][3] = {
        { 1, 64, 56 }, { 1, 128, 28 }, { 1, 256, 14 }, { 8, 512, 7 }
    }; /* of ResNet */

    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(shape); s++) {
        int64_t batch = shape[s][0], c = shape[s][1], size = shape[s][2], n, m;
        struct net net = { .plain = false };
        struct engine_tensor w;
        uint64_t start;

        net_input(&net, batch, c, size, size);
        start = seed;
        net_conv(&net, "Conv", "x", "y", c, c, 3, 3, "pads=1,1,1,1");
        seed = start;
        w = random_tensor((int64_t[]){ c, c, 3, 3 }, 4);
        for (size_t i = 0; i < w.bytes / 4; i++)
            ((float *)w.data)[i] *= 2 / sqrtf((float)(9 * c));
        make_value(&net.mk, true, "y", TENSOR_F32, NULL, -1);
        for (int isa = 0; isa < ISA_N; isa++) {
            if (!isa_get((enum isa_kind)isa))
                continue;
            float *with = net_run(&net, isa, 2, true, &n),
                  *without = net_run(&net, isa, 2, false, &m);
            double worst = 0, direct = 0;

            assert_int_equal(n, m);
            assert_memory_not_equal(with, without, (size_t)n * 4); /* it was used */
            for (int k = 0; k < 3000; k++) {
                int64_t i = rnd((uint32_t)n);
                double magnitude, want = exact(net.in[0].data, w.data, c, c, size, i, &magnitude);

                worst = fmax(worst, fabs((double)with[i] - want) / magnitude);
                direct = fmax(direct, fabs((double)without[i] - want) / magnitude);
            }
            print_message("%lld @ %lld, %s: Winograd %.2f, direct %.2f times 2^-24 of the sum of "
                          "magnitudes\n",
                          (long long)c, (long long)size, isa_names[isa], worst * 0x1p24,
                          direct * 0x1p24);
            assert_true(worst < WINOGRAD_BOUND * 0x1p-24);
            assert_true(direct < 8 * 0x1p-24);
            free(with);
            free(without);
        }
        free(w.data);
        net_release(&net);
    }
}

/* Borders and strides that would overflow any size: an error, not a crash. */
static void absurd_borders(void **state)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct net net = { .plain = false };
    struct engine_tensor out;
    struct model *model = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };

    (void)state;
    net_input(&net, 1, 16, 3, 3);
    net_conv(&net, "Conv", "x", "y", 16, 16, 3, 3,
             "pads=2000000000,2000000000,2000000000,2000000000 strides=2000000000,2000000000");
    make_value(&net.mk, true, "y", TENSOR_F32, NULL, -1);
    assert_int_equal(make_model(&net.mk, 13, &model, &err), 0);
    assert_int_equal(engine_native.open(&e, model, &opts, &err), 0);
    assert_int_equal(e->class->run(e, net.in, net.nin, &out, 1, &err), OPM_ELIMIT);
    e->class->close(e);
    model_free(model);
    net_release(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),   cmocka_unit_test(mobile),
        cmocka_unit_test(decoder),        cmocka_unit_test(pyramid),
        cmocka_unit_test(one_dimension),  cmocka_unit_test(shapes_change),
        cmocka_unit_test(winograd_error), cmocka_unit_test(absurd_borders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
