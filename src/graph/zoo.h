/* zoo.h -- standard architectures made on the spot, as ONNX files with seeded random weights.
 *
 * The same name and options give the same bytes on every machine. Names are "resnet50" or
 * "resnet50?batch=8&opset=13", with or without "zoo:" in front. Options (each model takes those
 * that make sense for it, and says so for others):
 *
 *   batch=N|NAME   batch size, or the name of an open dimension             (1)
 *   seq=N          sequence length                             (128; lstm: 50, whisper-tiny: 4)
 *   opset=N        13..21                                                   (17)
 *   seed=N         of the weights                                           (1)
 *   sparsity=R     ratio of zeros in the weights, 0..1, in blocks (0)
 *   pattern=RxC    of such a block, output channels x inputs: 1x1, 4x1, 8x1, 16x1 (4x1)
 *   dtype=TYPE     fp32, fp16, bf16, or int8: convolutional networks with QuantizeLinear and
 *                  DequantizeLinear around each operator, others quantized while they run (fp32)
 *   bn=0|1         BatchNormalization nodes instead of folding them into Conv (0)
 *   cache=0|1      inputs and outputs for keys and values of earlier tokens, open sizes (0)
 *   positions=N    with a cache: the longest text                           (the model's own)
 *   quant=TYPE     none, or int4: weights of products in blocks of 32, by MatMulNBits (none)
 *   part=FILE      one of zoo_parts; decoders with open sizes    (encoder and decoder in one) */
#ifndef GRAPH_ZOO_H
#define GRAPH_ZOO_H

#include "base/buf.h"
#include "graph/graph.h"

struct zoo_entry {
    const char *name;
    const char *about;   /* one line */
    const char *options; /* those it takes: "batch seq opset seed sparsity" */
};

/* What an encoder and decoder is exported as; ends with NULL. */
extern const char *const zoo_parts[];

/* All models; *n of them. */
const struct zoo_entry *zoo_list(size_t *n);
/* Does "zoo:NAME..." take that option? False for what is no name of a model. */
bool zoo_takes(const char *name, const char *option);
/* Append the file to out, which must be empty. */
int zoo_build(const char *name, struct buf *out, opm_error *err);
/* Write it to a file; "-" is standard output. Takes no memory for the weights. */
int zoo_write(const char *name, const char *path, opm_error *err);

#endif
