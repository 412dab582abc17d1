/* zoo_small.c -- networks that run in microseconds. */
#include "graph/zoo_int.h"

#include <math.h>

/* A fully connected layer, weight [cout, cin]; out NULL: named after the node. */
static const char *gemm(struct onnx_writer *w, const char *x, const char *name, int64_t cin,
                        int64_t cout, double std, const char *out)
{
    const int64_t dims[] = { cout, cin };
    const char *weight_name = ow_name(w, "%s.weight", name);
    const char *weight = w->int8 ? zoo_int8_weight(w, weight_name, dims, 2, std)
                                 : ow_normal(w, weight_name, dims, 2, std, 0);
    const char *bias_name = ow_name(w, "%s.bias", name);
    const char *bias = w->int8 ? zoo_int32_bias(w, bias_name, cout, 0.02, std)
                               : ow_normal(w, bias_name, &cout, 1, 0.02, -1);

    ow_begin(w, "Gemm", name);
    ow_in(w, x);
    ow_in(w, weight);
    ow_in(w, bias);
    if (out)
        ow_out(w, out);
    ow_attr_int(w, "transB", 1);
    return ow_end(w);
}

void zoo_mlp(struct onnx_writer *w, const struct zoo_options *o)
{
    static const int64_t size[] = { 784, 256, 128, 10 };
    const int64_t in[] = { o->batch, size[0] }, out[] = { o->batch, size[3] };
    const char *x = ow_input(w, "input", TENSOR_F32, o->batch_name, in, 2);

    for (int i = 0; i < 3; i++) {
        double std = sqrt(2.0 / (double)size[i]);

        if (w->int8)
            x = zoo_quantized(w, x, i > 0);
        x = gemm(w, x, ow_name(w, "fc%d", i), size[i], size[i + 1], std, NULL);
        if (i < 2)
            x = ow_op(w, "Relu", x, NULL);
    }
    ow_begin(w, "Softmax", NULL);
    ow_in(w, x);
    ow_out(w, "output");
    ow_attr_int(w, "axis", -1);
    ow_end(w);
    ow_output(w, "output", TENSOR_F32, o->batch_name, out, 2);
}

void zoo_lstm(struct onnx_writer *w, const struct zoo_options *o)
{
    const int64_t input = 64, hidden = 128, in[] = { o->seq, o->batch, input };
    const int64_t wx[] = { 1, 4 * hidden, input }, wh[] = { 1, 4 * hidden, hidden };
    const int64_t b[] = { 1, 8 * hidden }, out[] = { o->batch, 10 };
    const char *x = ow_input_at(w, "input", TENSOR_F32, o->batch_name, 1, in, 3), *weight[3];

    weight[0] = ow_normal(w, "W", wx, 3, 0.1, 1);
    weight[1] = ow_normal(w, "R", wh, 3, 0.1, 1);
    weight[2] = ow_normal(w, "B", b, 2, 0.05, -1);
    ow_begin(w, "LSTM", "LSTM_0");
    ow_in(w, x);
    for (size_t i = 0; i < 3; i++)
        ow_in(w, weight[i]);
    ow_out(w, "Y");
    ow_out(w, "Y_h");
    ow_out(w, "Y_c");
    ow_attr_int(w, "hidden_size", hidden);
    ow_end(w);
    x = ow_op(w, "Squeeze", "Y_h", OW_INTS(w, 0), NULL);
    if (w->int8)
        x = zoo_quantized(w, x, false);
    gemm(w, x, "fc", hidden, 10, 0.1, "output");
    ow_output(w, "output", TENSOR_F32, o->batch_name, out, 2);
}
