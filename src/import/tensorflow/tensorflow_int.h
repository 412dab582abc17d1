/* tensorflow_int.h -- the two halves of the reader of TensorFlow's step statistics: tensorflow.c
 * recognises the forms and goes through devices, tensorflow_node.c reads what a node did. */
#ifndef IMPORT_TENSORFLOW_TENSORFLOW_INT_H
#define IMPORT_TENSORFLOW_TENSORFLOW_INT_H

#include "base/pb.h"
#include "base/u64map.h"
#include "import/common/build.h"

/* A use of one node's output by another. */
struct tf_use {
    uint32_t span;
    str_id input;
};

struct tf_alloc {
    str_id allocator;
    int64_t ts_ns, bytes;
};

struct tf_device {
    str_id name, short_name;
    bool stream; /* kernels as the GPU ran them */
    struct u64map thread_name;
    struct u64map track; /* thread -> row */
};

struct tf {
    struct build b;
    struct tf_device dev;
    struct u64map op;        /* name and device -> row */
    struct u64map node_type; /* name -> type, from the graphs */
    struct u64map node_span; /* name -> build id of its last execution */
    struct tf_use *use;
    size_t nuse, use_cap;
    struct tf_alloc *alloc;
    size_t nalloc, alloc_cap;
    bool has_base;
    int64_t base_ns, first_ns, last_ns;
    struct buf scratch;
};

const char *tf_dtype(uint64_t type); /* "float"; NULL if it is not known */
void tf_node(struct tf *t, const struct pb_field *f);

#endif
