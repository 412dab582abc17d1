/* tensorrt_int.h -- the two halves of the reader of trtexec's files: tensorrt.c reads times,
 * tensorrt_layer.c the layers of an engine. */
#ifndef IMPORT_TENSORRT_TENSORRT_INT_H
#define IMPORT_TENSORRT_TENSORRT_INT_H

#include "base/json_read.h"
#include "base/json_write.h"
#include "base/u64map.h"
#include "import/common/build.h"

struct trt {
    struct build b;
    int64_t iterations; /* OPM_NULL_I64: not known */
    int64_t end_ns;     /* of what was laid end to end */
    struct u64map op;   /* name -> row, also of files read before */
    struct buf scratch;
};

str_id trt_text(struct trt *t, const struct json_reader *r); /* the string just read */

void trt_begin(struct trt *t);
void trt_end(struct trt *t);
/* The layer of that name, made from the name alone if no file described it. */
uint32_t trt_op_named(struct trt *t, str_id name);
/* {"Layers": [...], "Bindings": [...]}; r is behind the opening bracket. */
void trt_layers(struct trt *t, struct json_reader *r);

#endif
