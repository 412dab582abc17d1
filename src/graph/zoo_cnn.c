/* zoo_cnn.c -- convolutional networks, as torch.onnx.export writes them. */
#include "graph/zoo_int.h"

#include <math.h>
#include <string.h>

struct conv {
    int64_t cin, cout, kernel, stride, groups;
    const char *act; /* "relu", "relu6" or NULL */
    double gain;
};

/* Conv, BatchNormalization if they are not folded, and an activation. */
static const char *conv_bn(struct onnx_writer *w, const struct zoo_options *o, const char *x,
                           const struct conv *c)
{
    const char *name = ow_fresh(w, "conv"), *y, *low, *high;
    int64_t per = c->cin / c->groups, k = c->kernel, p = k / 2, cout[1] = { c->cout };
    int64_t dims[] = { c->cout, per, k, k };
    double std = c->gain * sqrt(2.0 / (double)(per * k * k));
    const char *weight_name = ow_name(w, "%s.weight", name),
               *bias_name = ow_name(w, "%s.bias", name);
    const char *weight = w->int8 ? zoo_int8_weight(w, weight_name, dims, 4, std)
                                 : ow_normal(w, weight_name, dims, 4, std, 0);
    const char *bias = w->int8 ? zoo_int32_bias(w, bias_name, c->cout, 0.05, std)
                       : o->bn ? NULL
                               : ow_normal(w, bias_name, cout, 1, 0.05, -1);

    ow_begin(w, "Conv", name);
    ow_in(w, x);
    ow_in(w, weight);
    if (bias)
        ow_in(w, bias);
    OW_ATTR_INTS(w, "dilations", 1, 1);
    ow_attr_int(w, "group", c->groups);
    OW_ATTR_INTS(w, "kernel_shape", k, k);
    OW_ATTR_INTS(w, "pads", p, p, p, p);
    OW_ATTR_INTS(w, "strides", c->stride, c->stride);
    y = ow_end(w);
    if (o->bn && !w->int8) {
        struct ow_weight s = { .type = TENSOR_F32,
                               .shape = { 1, { c->cout } },
                               .fill = FILL_NORMAL,
                               .mean = 1,
                               .scale = 0.1f,
                               .sparse_axis = -1 };
        const char *in[4];

        s.name = ow_name(w, "%s.bn.weight", name);
        in[0] = ow_add_weight(w, &s);
        in[1] = ow_normal(w, ow_name(w, "%s.bn.bias", name), cout, 1, 0.05, -1);
        in[2] = ow_normal(w, ow_name(w, "%s.bn.mean", name), cout, 1, 0.05, -1);
        s.name = ow_name(w, "%s.bn.var", name);
        s.fill = FILL_UNIFORM;
        in[3] = ow_add_weight(w, &s);
        ow_begin(w, "BatchNormalization", NULL);
        ow_in(w, y);
        for (size_t i = 0; i < ARRAY_SIZE(in); i++)
            ow_in(w, in[i]);
        ow_attr_float(w, "epsilon", 1e-5f);
        y = ow_end(w);
    }
    if (c->act && strcmp(c->act, "relu") == 0)
        y = ow_op(w, "Relu", y, NULL);
    else if (c->act) {
        low = ow_float(w, 0);
        high = ow_float(w, 6);
        y = ow_op(w, "Clip", y, low, high, NULL);
    }
    return w->int8 ? zoo_quantized(w, y, c->act != NULL) : y;
}

static const char *image(struct onnx_writer *w, const struct zoo_options *o)
{
    const int64_t dims[] = { o->batch, 3, 224, 224 };
    const char *x = ow_input(w, "input", TENSOR_F32, o->batch_name, dims, 4);

    return w->int8 ? zoo_quantized(w, x, false) : x;
}

static void classifier(struct onnx_writer *w, const struct zoo_options *o, const char *x,
                       int64_t cin)
{
    const int64_t classes = 1000, dims[] = { classes, cin }, out[] = { o->batch, classes };
    const char *weight, *bias;

    x = ow_op(w, "GlobalAveragePool", x, NULL);
    if (w->int8)
        x = zoo_quantized(w, x, true);
    ow_begin(w, "Flatten", NULL);
    ow_in(w, x);
    ow_attr_int(w, "axis", 1);
    x = ow_end(w);
    if (w->int8)
        x = zoo_quantized(w, x, true);
    weight = w->int8 ? zoo_int8_weight(w, "fc.weight", dims, 2, 0.01)
                     : ow_normal(w, "fc.weight", dims, 2, 0.01, 0);
    bias = w->int8 ? zoo_int32_bias(w, "fc.bias", classes, 0.01, 0.01)
                   : ow_normal(w, "fc.bias", &classes, 1, 0.01, -1);
    ow_begin(w, "Gemm", "fc");
    ow_in(w, x);
    ow_in(w, weight);
    ow_in(w, bias);
    ow_out(w, "output");
    ow_attr_float(w, "alpha", 1);
    ow_attr_float(w, "beta", 1);
    ow_attr_int(w, "transB", 1);
    ow_end(w);
    ow_output(w, "output", TENSOR_F32, o->batch_name, out, 2);
}

static void resnet(struct onnx_writer *w, const struct zoo_options *o, const int *blocks,
                   bool bottleneck)
{
    const char *x = image(w, o);
    int64_t cin = 64, expand = bottleneck ? 4 : 1;

    x = conv_bn(w, o, x, &(struct conv){ 3, 64, 7, 2, 1, "relu", 1 });
    ow_begin(w, "MaxPool", NULL);
    ow_in(w, x);
    OW_ATTR_INTS(w, "kernel_shape", 3, 3);
    OW_ATTR_INTS(w, "pads", 1, 1, 1, 1);
    OW_ATTR_INTS(w, "strides", 2, 2);
    x = ow_end(w);
    if (w->int8)
        x = zoo_quantized(w, x, true);
    for (int stage = 0; stage < 4; stage++) {
        int64_t mid = 64 << stage, cout = mid * expand;

        for (int i = 0; i < blocks[stage]; i++) {
            int64_t stride = stage && !i ? 2 : 1;
            const char *y = x, *shortcut = x;

            if (stride != 1 || cin != cout)
                shortcut = conv_bn(w, o, x, &(struct conv){ cin, cout, 1, stride, 1, NULL, 1 });
            if (bottleneck) {
                y = conv_bn(w, o, y, &(struct conv){ cin, mid, 1, 1, 1, "relu", 1 });
                y = conv_bn(w, o, y, &(struct conv){ mid, mid, 3, stride, 1, "relu", 1 });
                y = conv_bn(w, o, y, &(struct conv){ mid, cout, 1, 1, 1, NULL, 0.2 });
            } else {
                y = conv_bn(w, o, y, &(struct conv){ cin, mid, 3, stride, 1, "relu", 1 });
                y = conv_bn(w, o, y, &(struct conv){ mid, mid, 3, 1, 1, NULL, 0.2 });
            }
            x = ow_op(w, "Relu", ow_op(w, "Add", y, shortcut, NULL), NULL);
            if (w->int8)
                x = zoo_quantized(w, x, true);
            cin = cout;
        }
    }
    classifier(w, o, x, cin);
}

void zoo_resnet18(struct onnx_writer *w, const struct zoo_options *o)
{
    resnet(w, o, (const int[]){ 2, 2, 2, 2 }, false);
}

void zoo_resnet50(struct onnx_writer *w, const struct zoo_options *o)
{
    resnet(w, o, (const int[]){ 3, 4, 6, 3 }, true);
}

void zoo_mobilenetv2(struct onnx_writer *w, const struct zoo_options *o)
{
    /* Expansion, channels, repeats, stride of the first: table 2 of the paper. */
    static const struct {
        int t, c, n, s;
    } stages[] = { { 1, 16, 1, 1 }, { 6, 24, 2, 2 },  { 6, 32, 3, 2 }, { 6, 64, 4, 2 },
                   { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 } };
    const char *x = image(w, o);
    int64_t cin = 32;

    x = conv_bn(w, o, x, &(struct conv){ 3, 32, 3, 2, 1, "relu6", 1 });
    for (size_t k = 0; k < ARRAY_SIZE(stages); k++)
        for (int i = 0; i < stages[k].n; i++) {
            int64_t stride = i ? 1 : stages[k].s, hidden = cin * stages[k].t, cout = stages[k].c;
            const char *y = x;

            if (stages[k].t != 1)
                y = conv_bn(w, o, y, &(struct conv){ cin, hidden, 1, 1, 1, "relu6", 1 });
            y = conv_bn(w, o, y, &(struct conv){ hidden, hidden, 3, stride, hidden, "relu6", 1 });
            y = conv_bn(w, o, y, &(struct conv){ hidden, cout, 1, 1, 1, NULL, 0.5 });
            if (stride == 1 && cin == cout) {
                x = ow_op(w, "Add", x, y, NULL);
                if (w->int8)
                    x = zoo_quantized(w, x, false);
            } else
                x = y;
            cin = cout;
        }
    x = conv_bn(w, o, x, &(struct conv){ cin, 1280, 1, 1, 1, "relu6", 1 });
    classifier(w, o, x, 1280);
}
