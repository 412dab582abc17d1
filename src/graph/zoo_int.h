/* zoo_int.h -- one function per architecture; zoo.c has their table. */
#ifndef GRAPH_ZOO_INT_H
#define GRAPH_ZOO_INT_H

#include "graph/onnx_write.h"

struct zoo_options {
    int64_t batch;          /* 1 where it is open: for shapes that need a number */
    const char *batch_name; /* of the open dimension, or NULL */
    int64_t seq;
    bool bn;
};

void zoo_resnet18(struct onnx_writer *w, const struct zoo_options *o);
void zoo_resnet50(struct onnx_writer *w, const struct zoo_options *o);
void zoo_mobilenetv2(struct onnx_writer *w, const struct zoo_options *o);
void zoo_bert_mini(struct onnx_writer *w, const struct zoo_options *o);
void zoo_bert_base(struct onnx_writer *w, const struct zoo_options *o);
void zoo_gpt2_small(struct onnx_writer *w, const struct zoo_options *o);
void zoo_vit_tiny(struct onnx_writer *w, const struct zoo_options *o);
void zoo_lstm(struct onnx_writer *w, const struct zoo_options *o);
void zoo_mlp(struct onnx_writer *w, const struct zoo_options *o);

#endif
