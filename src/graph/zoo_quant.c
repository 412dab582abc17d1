/* zoo_quant.c -- 8-bit forms of layers, as ONNX Runtime's quantizer writes them. Scales are not
 * calibrated: weights are random, too. */
#include "graph/zoo_int.h"

#include <math.h>
#include <string.h>

/* One scale for all activations, so that those of biases are known. */
#define SCALE (6.0 / 255) /* what ReLU6 gives fills the range */
#define WEIGHT_STEPS 36.0 /* of a standard deviation: the largest weights come near 127 */

static const char *pair(struct onnx_writer *w, const char *x, const char *scale, const char *zero)
{
    return ow_op(w, "DequantizeLinear", ow_op(w, "QuantizeLinear", x, scale, zero, NULL), scale,
                 zero, NULL);
}

const char *zoo_quantized(struct onnx_writer *w, const char *x, bool positive)
{
    const char *scale = ow_float32(w, SCALE), *zero = ow_byte(w, TENSOR_U8, positive ? 0 : 128);

    return pair(w, x, scale, zero);
}

/* n numbers that are all the same. */
static const char *same(struct onnx_writer *w, const char *name, enum tensor_type type, int64_t n,
                        double value)
{
    struct ow_weight s = { .name = name,
                           .type = type,
                           .shape = { 1, { n } },
                           .fill = FILL_NORMAL,
                           .mean = (float)value,
                           .sparse_axis = -1 };

    return ow_add_weight(w, &s);
}

static const char *dequantized(struct onnx_writer *w, const char *x, const char *scale,
                               const char *zero)
{
    ow_begin(w, "DequantizeLinear", NULL);
    ow_in(w, x);
    ow_in(w, scale);
    if (zero)
        ow_in(w, zero);
    ow_attr_int(w, "axis", 0);
    return ow_end(w);
}

const char *zoo_int8_weight(struct onnx_writer *w, const char *name, const int64_t *dims, int rank,
                            double std)
{
    struct ow_weight q = { .name = ow_name(w, "%s_quantized", name),
                           .type = TENSOR_I8,
                           .shape = { .rank = rank },
                           .fill = FILL_NORMAL,
                           .scale = (float)WEIGHT_STEPS,
                           .sparse_axis = 0 };
    const char *scale, *zero;

    memcpy(q.shape.dim, dims, (size_t)rank * sizeof(*dims));
    scale = same(w, ow_name(w, "%s_scale", name), TENSOR_F32, dims[0], std / WEIGHT_STEPS);
    zero = same(w, ow_name(w, "%s_zero_point", name), TENSOR_I8, dims[0], 0);
    return dequantized(w, ow_add_weight(w, &q), scale, zero);
}

const char *zoo_int32_bias(struct onnx_writer *w, const char *name, int64_t n, double std,
                           double weight_std)
{
    double scale = (double)((float)SCALE * (float)(weight_std / WEIGHT_STEPS));
    struct ow_weight q = { .name = ow_name(w, "%s_quantized", name),
                           .type = TENSOR_I32,
                           .shape = { 1, { n } },
                           .fill = FILL_NORMAL,
                           .scale = (float)(std / scale),
                           .sparse_axis = -1 };

    return dequantized(w, ow_add_weight(w, &q),
                       same(w, ow_name(w, "%s_scale", name), TENSOR_F32, n, scale), NULL);
}

const char *zoo_dynamic_matmul(struct onnx_writer *w, const char *x, const char *name, int64_t cin,
                               int64_t cout, double std)
{
    struct ow_weight q = { .name = ow_name(w, "%s.weight_quantized", name),
                           .type = TENSOR_I8,
                           .shape = { 2, { cin, cout } },
                           .fill = FILL_NORMAL,
                           .scale = (float)WEIGHT_STEPS,
                           .sparse_axis = 1 };
    const char *weight = ow_add_weight(w, &q), *y;
    const char *scale = ow_float32(w, std / WEIGHT_STEPS), *zero = ow_byte(w, TENSOR_I8, 0);

    if (!w->quantized.of || strcmp(w->quantized.of, x) != 0) {
        w->quantized.of = x;
        w->quantized.q = ow_name(w, "%s_quantized", x);
        w->quantized.scale = ow_name(w, "%s_scale", x);
        w->quantized.zero = ow_name(w, "%s_zero_point", x);
        ow_begin(w, "DynamicQuantizeLinear", NULL);
        ow_in(w, x);
        ow_out(w, w->quantized.q);
        ow_out(w, w->quantized.scale);
        ow_out(w, w->quantized.zero);
        ow_end(w);
    }
    y = ow_op(w, "MatMulInteger", w->quantized.q, weight, w->quantized.zero, zero, NULL);
    ow_begin(w, "Cast", NULL);
    ow_in(w, y);
    ow_attr_int(w, "to", TENSOR_F32);
    y = ow_end(w);
    scale = ow_op(w, "Mul", w->quantized.scale, scale, NULL);
    return ow_op(w, "Mul", y, scale, NULL);
}
