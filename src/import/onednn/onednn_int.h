/* onednn_int.h -- the two halves of the reader of oneDNN's verbose log: onednn.c takes lines apart,
 * onednn_op.c makes operators of what they say. */
#ifndef IMPORT_ONEDNN_ONEDNN_INT_H
#define IMPORT_ONEDNN_ONEDNN_INT_H

#include "import/common/build.h"

struct piece {
    const char *p;
    size_t len;
};

/* What a line says; pieces point into it. */
struct dnn_line {
    bool graph;
    bool has_ts;
    int64_t ts_ns, dur_ns;
    struct piece operation, engine, primitive, implementation, prop_kind, descriptors, attributes,
        auxiliary, problem;
};

static inline bool piece_is(struct piece a, const char *s)
{
    return a.len == __builtin_strlen(s) && __builtin_memcmp(a.p, s, a.len) == 0;
}

static inline bool piece_begins(struct piece a, const char *s)
{
    return a.len >= __builtin_strlen(s) && __builtin_memcmp(a.p, s, __builtin_strlen(s)) == 0;
}

/* A row of op with its tensors for what a line executes. */
uint32_t dnn_op(struct build *b, const struct dnn_line *l);

#endif
