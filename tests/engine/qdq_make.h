/* qdq_make.h -- quantised convolutions and what stands around them, in the forms that exporters
 * write, with the numbers that they give. Scales are powers of two, so that those are exact. */
#ifndef QDQ_MAKE_H
#define QDQ_MAKE_H

#include "run_rig.h"

#define CHANNELS 24 /* of the first convolution: no multiple of a vector's */
#define SIDE 8
#define LIST 200

enum between {
    NOTHING,
    RESIDUAL,
    CONCAT,
    SPLIT,
    SHUFFLE,
    AVERAGE,
    GLOBAL,
    MEAN,
    MEAN_FLAT,
    MAXPOOL,
    SWISH,
    GATED, /* x * hardsigmoid(x), as before HardSwish was an operator */
    SQUEEZE,
    BETWEEN_N
};
enum act { ACT_NONE, ACT_RELU, ACT_CLIP, ACT_N };
enum bias { BIAS_NONE, BIAS_INT, BIAS_ZERO, BIAS_SHARED, BIAS_OTHER, BIAS_FLOAT, BIAS_N };

struct form {
    int opset;
    bool operators; /* QOperator, else QDQ */
    enum between between;
    enum tensor_type x, w, y;
    bool per_channel, listed, no_zeros, depthwise; /* listed: scales are of shape [1] */
    bool plain; /* groups of channels that have no form with channels last */
    enum act act;
    enum bias bias;
};

/* Real value: (number - zero) * scale. */
struct qv {
    char name[12];
    enum tensor_type type;
    int64_t c, h, w;
    int data[CHANNELS * 4 * SIDE * SIDE];
    float scale;
    int zero;
};

struct net {
    struct make mk;
    const struct form *form;
    int names;
};

static inline int limit(double x, enum tensor_type t)
{
    return (int)(t == TENSOR_U8 ? fmin(fmax(x, 0), 255) : fmin(fmax(x, -128), 127));
}

static inline int64_t count(const struct qv *v)
{
    return v->c * v->h * v->w;
}

static inline double real(const struct qv *v, int64_t i)
{
    return (double)(v->data[i] - v->zero) * (double)v->scale;
}

static inline void put(struct qv *v, int64_t i, double x)
{
    v->data[i] = limit(nearbyint(x / (double)v->scale) + v->zero, v->type);
}

static inline void name_it(struct net *t, char *out, size_t room, const char *kind)
{
    snprintf(out, room, "%s%d", kind, t->names++);
}

static inline struct qv *value(struct net *t, enum tensor_type type, int64_t c, int64_t h,
                               int64_t w, float scale)
{
    struct qv *v = calloc(1, sizeof(*v));

    assert_non_null(v);
    assert_true(c * h * w <= (int64_t)(sizeof(v->data) / sizeof(*v->data)));
    name_it(t, v->name, sizeof(v->name), "v");
    v->type = type;
    v->c = c;
    v->h = h;
    v->w = w;
    v->scale = scale;
    v->zero = t->form->no_zeros ? 0 : limit((int)rnd(40) - (type == TENSOR_I8 ? 20 : 0), type);
    return v;
}

static inline void add(char *list, const char *name)
{
    size_t at = strlen(list), n = strlen(name);

    assert_true(at + n + 2 <= LIST);
    if (at)
        list[at++] = ',';
    memcpy(list + at, name, n + 1);
}

static inline void add_floats(struct net *t, char *list, const float *x, int64_t n)
{
    char name[12];

    name_it(t, name, sizeof(name), "s");
    make_weight(&t->mk, name, TENSOR_F32, &n, n > 1 || t->form->listed, x, (size_t)n * 4);
    add(list, name);
}

static inline void add_zeros(struct net *t, char *list, enum tensor_type type, const int *z,
                             int64_t n)
{
    uint8_t bytes[CHANNELS * 4];
    char name[12];

    for (int64_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)z[i];
    name_it(t, name, sizeof(name), "z");
    make_weight(&t->mk, name, type, &n, n > 1 || t->form->listed, bytes, (size_t)n);
    add(list, name);
}

/* ",scale,zero point" of a value. QLinearX take no operator without. */
static inline void add_scale(struct net *t, char *list, const struct qv *v)
{
    add_floats(t, list, &v->scale, 1);
    if (!t->form->no_zeros || t->form->operators)
        add_zeros(t, list, v->type, &v->zero, 1);
}

static inline void dequantized(struct net *t, const struct qv *v, char *out, size_t room)
{
    char in[LIST] = "";

    add(in, v->name);
    add_scale(t, in, v);
    name_it(t, out, room, "d");
    make_node(&t->mk, "DequantizeLinear", in, out, "");
}

static inline void quantized(struct net *t, const char *from, const struct qv *to)
{
    char in[LIST] = "";

    add(in, from);
    add_scale(t, in, to);
    make_node(&t->mk, "QuantizeLinear", in, to->name,
              t->form->no_zeros && to->type == TENSOR_I8 ? "output_dtype=3" : "");
}

/* One operator on a value: between DequantizeLinear and QuantizeLinear, or a QLinear one. */
static inline void unary(struct net *t, const char *type, const char *qlinear, const char *attrs,
                         const char *more, const struct qv *in, const struct qv *out)
{
    char list[LIST] = "", d[12], r[12];

    if (t->form->operators && qlinear) {
        add(list, in->name);
        add_scale(t, list, in);
        add_scale(t, list, out);
        make_node(&t->mk, qlinear, list, out->name, attrs);
        return;
    }
    dequantized(t, in, d, sizeof(d));
    name_it(t, r, sizeof(r), "r");
    add(list, d);
    if (more)
        add(list, more);
    make_node(&t->mk, type, list, r, attrs);
    quantized(t, r, out);
}

/* The zero point of the result is even: ONNX Runtime rounds with it, the standard without. */
static inline void binary(struct net *t, const char *type, const struct qv *a, const struct qv *b,
                          const struct qv *out)
{
    char list[LIST] = "", da[12], db[12], r[12], qlinear[40];

    if (t->form->operators) {
        snprintf(qlinear, sizeof(qlinear), "com.microsoft:QLinear%s", type);
        add(list, a->name);
        add_scale(t, list, a);
        add(list, b->name);
        add_scale(t, list, b);
        add_scale(t, list, out);
        make_node(&t->mk, qlinear, list, out->name, "");
        return;
    }
    dequantized(t, a, da, sizeof(da));
    dequantized(t, b, db, sizeof(db));
    name_it(t, r, sizeof(r), "r");
    add(list, da);
    add(list, db);
    make_node(&t->mk, type, list, r, "");
    quantized(t, r, out);
}

struct filter {
    int64_t oc, icg, k, groups;
    uint8_t w[CHANNELS * CHANNELS * 16];
    float scale[CHANNELS * 4];
    int zero[CHANNELS * 4];
    double bias[CHANNELS * 4];
};

static inline int weight(const struct net *t, const struct filter *f, int64_t i)
{
    return t->form->w == TENSOR_U8 ? f->w[i] : (int8_t)f->w[i];
}

static inline void fill_filter(struct net *t, struct filter *f, float product)
{
    const struct form *form = t->form;

    for (int64_t i = 0; i < f->oc * f->icg * f->k * f->k; i++)
        f->w[i] = (uint8_t)rnd(256);
    for (int64_t i = 0; i < f->oc; i++) {
        f->scale[i] = form->per_channel && (i & 1) ? 0x1p-8f : 0x1p-7f;
        /* int8 weights of exporters have none; uint8 ones have any. */
        f->zero[i] = form->no_zeros || form->w == TENSOR_I8 ? 0
                     : form->per_channel || !i              ? 90 + (int)rnd(80)
                                                            : f->zero[0];
        f->bias[i] = form->bias == BIAS_NONE
                         ? 0
                         : ((int)rnd(4001) - 2000) * (double)product * (double)f->scale[i];
        if (form->bias == BIAS_OTHER || form->bias == BIAS_SHARED || form->bias == BIAS_FLOAT)
            f->bias[i] = ((int)rnd(401) - 200) * 0x1p-5;
    }
}

/* The bias as floats, or as integers by DequantizeLinear: in units of the products, or others. */
static inline void add_bias(struct net *t, char *list, const struct filter *f, float x_scale)
{
    enum bias kind = t->form->operators ? BIAS_INT : t->form->bias;
    int32_t whole[CHANNELS * 4], zero = 0;
    float x[CHANNELS * 4], scale[CHANNELS * 4];
    bool products = kind == BIAS_INT || kind == BIAS_ZERO;
    char name[12], from[12], in[LIST] = "";
    int64_t n = products && t->form->per_channel ? f->oc : 1;

    for (int64_t i = 0; i < f->oc; i++) {
        scale[i] = products ? x_scale * f->scale[i] : 0x1p-5f;
        whole[i] = (int32_t)nearbyint(f->bias[i] / (double)scale[i]);
        x[i] = (float)f->bias[i];
    }
    name_it(t, name, sizeof(name), "b");
    if (kind == BIAS_FLOAT)
        make_weight(&t->mk, name, TENSOR_F32, &f->oc, 1, x, (size_t)f->oc * 4);
    else
        make_weight(&t->mk, name, TENSOR_I32, &f->oc, 1, whole, (size_t)f->oc * 4);
    if (kind == BIAS_FLOAT || t->form->operators) {
        add(list, name);
        return;
    }
    add(in, name);
    name_it(t, from, sizeof(from), "s");
    make_weight(&t->mk, from, TENSOR_F32, &n, 1, scale, (size_t)n * 4);
    add(in, from);
    if (kind == BIAS_ZERO && n == 1) {
        name_it(t, from, sizeof(from), "z");
        make_weight(&t->mk, from, TENSOR_I32, NULL, 0, &zero, 4);
        add(in, from);
    }
    name_it(t, name, sizeof(name), "b");
    make_node(&t->mk, "DequantizeLinear", in, name, n > 1 ? "axis=0" : "");
    if (kind == BIAS_SHARED) {
        snprintf(from, sizeof(from), "%s", name);
        name_it(t, name, sizeof(name), "i");
        make_node(&t->mk, "Identity", from, name, "");
    }
    add(list, name);
}

static inline double conv_at(const struct net *t, const struct filter *f, const struct qv *x,
                             int64_t o, int64_t oy, int64_t ox)
{
    int64_t sum = 0, pad = f->k / 2, ocg = f->oc / f->groups;

    for (int64_t c = 0; c < f->icg; c++)
        for (int64_t k = 0; k < f->k * f->k; k++) {
            int64_t y = oy + k / f->k - pad, xx = ox + k % f->k - pad, ch = o / ocg * f->icg + c;

            if (y >= 0 && y < x->h && xx >= 0 && xx < x->w)
                sum += (int64_t)(x->data[(ch * x->h + y) * x->w + xx] - x->zero) *
                       (weight(t, f, (o * f->icg + c) * f->k * f->k + k) - f->zero[o]);
        }
    return (double)sum * (double)x->scale * (double)f->scale[o] + f->bias[o];
}

/* An activation of opset and form, or none. */
static inline void activation(struct net *t, char *name)
{
    char in[LIST] = "", out[12];
    float lo = 0, hi = 6;

    if (t->form->act == ACT_NONE)
        return;
    add(in, name);
    name_it(t, out, sizeof(out), "a");
    if (t->form->act == ACT_CLIP && t->form->opset >= 11) {
        char limits[2][12];

        name_it(t, limits[0], sizeof(*limits), "k");
        name_it(t, limits[1], sizeof(*limits), "k");
        make_weight(&t->mk, limits[0], TENSOR_F32, NULL, 0, &lo, 4);
        make_weight(&t->mk, limits[1], TENSOR_F32, NULL, 0, &hi, 4);
        add(in, limits[0]);
        add(in, limits[1]);
        make_node(&t->mk, "Clip", in, out, "");
    } else if (t->form->act == ACT_CLIP)
        make_node(&t->mk, "Clip", in, out, "min:0 max:6");
    else
        make_node(&t->mk, "Relu", in, out, "");
    snprintf(name, 12, "%s", out);
}

static inline struct qv *conv(struct net *t, const struct qv *x, int64_t oc, int64_t k,
                              int64_t groups, float y_scale)
{
    const struct form *form = t->form;
    struct filter *f = calloc(1, sizeof(*f));
    struct qv *y = value(t, form->y, oc, x->h, x->w, y_scale);
    int64_t dim[4] = { oc, x->c / groups, k, k }, n = form->per_channel ? oc : 1;
    char list[LIST] = "", w[LIST] = "", name[12], attrs[80];

    assert_non_null(f);
    f->oc = oc;
    f->icg = x->c / groups;
    f->k = k;
    f->groups = groups;
    fill_filter(t, f, x->scale);
    for (int64_t i = 0; i < count(y); i++) {
        double v = conv_at(t, f, x, i / (y->h * y->w), i / y->w % y->h, i % y->w);

        if (!form->operators && form->act != ACT_NONE)
            v = fmin(fmax(v, 0), form->act == ACT_CLIP ? 6 : INFINITY);
        put(y, i, v);
    }
    name_it(t, name, sizeof(name), "w");
    make_weight(&t->mk, name, form->w, dim, 4, f->w, (size_t)(oc * f->icg * k * k));
    snprintf(attrs, sizeof(attrs), "pads=%d,%d,%d,%d group=%d", (int)k / 2, (int)k / 2, (int)k / 2,
             (int)k / 2, (int)groups);
    add(w, name);
    add_floats(t, w, f->scale, n);
    if (form->operators) {
        add(list, x->name);
        add_scale(t, list, x);
        add(list, w);
        add_zeros(t, list, form->w, f->zero, n);
        add_scale(t, list, y);
        if (form->bias != BIAS_NONE)
            add_bias(t, list, f, x->scale);
        make_node(&t->mk, "QLinearConv", list, y->name, attrs);
    } else {
        if (!form->no_zeros)
            add_zeros(t, w, form->w, f->zero, n);
        dequantized(t, x, name, sizeof(name));
        add(list, name);
        name_it(t, name, sizeof(name), "d");
        make_node(&t->mk, "DequantizeLinear", w, name, n > 1 ? "axis=0" : "");
        add(list, name);
        if (form->bias != BIAS_NONE)
            add_bias(t, list, f, x->scale);
        name_it(t, name, sizeof(name), "r");
        make_node(&t->mk, "Conv", list, name, attrs);
        activation(t, name);
        quantized(t, name, y);
    }
    free(f);
    return y;
}

static inline void describe(const struct form *f, char *out, size_t room)
{
    snprintf(out, room,
             "opset %d %s between %d x %d w %d y %d channel %d listed %d no zeros %d depthwise %d "
             "act %d bias %d plain %d",
             f->opset, f->operators ? "QOperator" : "QDQ", f->between, f->x, f->w, f->y,
             f->per_channel, f->listed, f->no_zeros, f->depthwise, f->act, f->bias, f->plain);
}

#endif
