/* zoo_int.h -- what makers of models share; zoo.def is their table. */
#ifndef GRAPH_ZOO_INT_H
#define GRAPH_ZOO_INT_H

#include "graph/onnx_write.h"

struct zoo_options {
    int64_t batch;          /* 1 where it is open: for shapes that need a number */
    const char *batch_name; /* of the open dimension, or NULL */
    int64_t seq;
    bool bn;
    bool cache;        /* past keys and values go in, present ones come out */
    bool int4;         /* weights of 4 bits in blocks, by MatMulNBits */
    const char *part;  /* file of a model that Optimum exports as several, without ".onnx" */
    int64_t positions; /* of a decoder with a cache; 0: as many as it has */
};

/* zoo_quant.c: a value that goes through QuantizeLinear and DequantizeLinear; positive: it has no
 * negative numbers. */
const char *zoo_quantized(struct onnx_writer *w, const char *x, bool positive);
/* Weights and bias for an operator whose input is such a value, dequantized; output channels are
 * the first dimension. */
const char *zoo_int8_weight(struct onnx_writer *w, const char *name, const int64_t *dims, int rank,
                            double std);
const char *zoo_int32_bias(struct onnx_writer *w, const char *name, int64_t n, double std,
                           double weight_std);
/* x by int8 weights [cin, cout], x quantized on the way by what it holds. */
const char *zoo_dynamic_matmul(struct onnx_writer *w, const char *x, const char *name, int64_t cin,
                               int64_t cout, double std);

/* zoo_transformer.c: shared with decoders. */
const char *zoo_layer_norm(struct onnx_writer *w, const char *x, const char *name, int64_t dim,
                           double eps);
const char *zoo_gelu_tanh(struct onnx_writer *w, const char *x);
const char *zoo_transpose(struct onnx_writer *w, const char *x, const int64_t *perm, int n);
const char *zoo_linear(struct onnx_writer *w, const char *x, const char *name, int64_t cin,
                       int64_t cout);
const char *zoo_gather(struct onnx_writer *w, const char *x, const char *at, int64_t axis);
/* zoo_gpt2.c, shared with Whisper: a dimension, and numbers up to one, as [n] with 1 at axis. */
const char *zoo_size_of(struct onnx_writer *w, const char *x, int64_t axis);
const char *zoo_range(struct onnx_writer *w, const char *from, const char *to, int64_t axis);
/* GPT-2 with inputs and outputs for keys and values. */
void zoo_gpt2_cached(struct onnx_writer *w, const struct zoo_options *o);

/* Write a model: its inputs, nodes and weights, and its outputs. */
typedef void zoo_maker(struct onnx_writer *w, const struct zoo_options *o);
#define ZOO(name, maker, about, options) zoo_maker maker;
#include "graph/zoo.def"
#undef ZOO

#endif
