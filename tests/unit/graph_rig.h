/* graph_rig.h -- make small ONNX models for tests, good ones and bad ones.
 *
 * The writer of src/graph makes the good parts; whatever it has no function for goes into its
 * buffers as raw protobuf. */
#ifndef GRAPH_RIG_H
#define GRAPH_RIG_H

#include "base/pb.h"
#include "graph/infer.h"
#include "graph/onnx_write.h"
#include "unit.h"

struct rig {
    struct onnx_writer w;
    struct buf file;
    struct model *m;
    opm_error err;
};

static inline void rig_init(struct rig *r, int opset)
{
    *r = (struct rig){ 0 };
    ow_init(&r->w, "rig", opset, 1, 0);
}

static inline void rig_release(struct rig *r)
{
    model_free(r->m);
    buf_release(&r->file);
    ow_release(&r->w);
}

#define RIG_DIMS(...) \
    (const int64_t[]){ __VA_ARGS__ }, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

/* Inputs and outputs of float32; the shape of an output is left to be inferred. */
static inline const char *rig_input(struct rig *r, const char *name, const int64_t *dims, int rank)
{
    return ow_input(&r->w, name, TENSOR_F32, NULL, dims, rank);
}

static inline void rig_output(struct rig *r, const char *name)
{
    size_t info = pb_begin(&r->w.io, 12);

    pb_str(&r->w.io, 1, name);
    pb_end(&r->w.io, info);
}

/* An attribute of the open node. */
static inline void rig_attr_str(struct rig *r, const char *name, const char *value)
{
    size_t a = pb_begin(&r->w.node, 5);

    pb_str(&r->w.node, 1, name);
    pb_str(&r->w.node, 4, value);
    pb_varint(&r->w.node, 20, ATTR_STRING);
    pb_end(&r->w.node, a);
}

static inline void rig_attr_graph(struct rig *r, const char *name, const struct buf *graph)
{
    size_t a = pb_begin(&r->w.node, 5);

    pb_str(&r->w.node, 1, name);
    pb_bytes(&r->w.node, 6, graph->data, graph->len);
    pb_varint(&r->w.node, 20, ATTR_GRAPH);
    pb_end(&r->w.node, a);
}

/* A NodeProto as `field` of b; in and out are comma-separated. */
static inline void rig_names(struct buf *b, uint32_t field, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, ",");

        pb_bytes(b, field, list, n);
        list += n + (list[n] == ',');
    }
}

static inline void rig_node(struct buf *b, uint32_t field, const char *op, const char *in,
                            const char *out)
{
    size_t n = pb_begin(b, field);

    rig_names(b, 1, in);
    rig_names(b, 2, out);
    pb_str(b, 4, op);
    pb_end(b, n);
}

/* A ValueInfoProto without a type. */
static inline void rig_info(struct buf *b, uint32_t field, const char *name)
{
    size_t n = pb_begin(b, field);

    pb_str(b, 1, name);
    pb_end(b, n);
}

/* A TensorProto of int64 as `field` of b. */
static inline void rig_int64s(struct buf *b, uint32_t field, const char *name, const int64_t *v,
                              int n)
{
    size_t t = pb_begin(b, field);

    pb_varint(b, 1, (uint64_t)n);
    pb_varint(b, 2, TENSOR_I64);
    pb_str(b, 8, name);
    pb_bytes(b, 9, v, (size_t)n * sizeof(*v));
    pb_end(b, t);
}

/* Write the file into r->file. */
static inline void rig_finish(struct rig *r)
{
    assert_int_equal(ow_finish(&r->w, &r->file, NULL), 0);
}

/* Finish and parse; 0 or the error, whose text is in r->err. */
static inline int rig_parse(struct rig *r)
{
    if (!r->file.len)
        rig_finish(r);
    return model_parse(&r->m, r->file.data, r->file.len, "m.onnx", NULL, &r->err);
}

static inline void rig_load(struct rig *r)
{
    if (rig_parse(r))
        fail_msg("%s", r->err.msg);
}

static inline void rig_infer(struct rig *r)
{
    rig_load(r);
    if (graph_infer(r->m, NULL, &r->err))
        fail_msg("%s", r->err.msg);
}

static inline struct value *rig_value(struct rig *r, const char *name)
{
    uint32_t v = graph_find_value(r->m->graph, name);

    assert_int_not_equal(v, NO_VALUE);
    return &r->m->graph->value[v];
}

/* "float32 1x3" */
static inline const char *rig_text(struct rig *r, const char *name)
{
    static char out[4][200];
    static unsigned turn;
    char *text = out[turn++ % 4], shape[120];
    struct value *v = rig_value(r, name);

    model_shape_text(r->m, &v->shape, shape, sizeof(shape));
    snprintf(text, sizeof(out[0]), "%s %s", tensor_type_name(v->type), shape);
    return text;
}

/* x -> Conv(w, b) -> Relu -> y */
static inline void rig_small(struct rig *r)
{
    const char *x, *w, *b;

    rig_init(r, 17);
    x = rig_input(r, "x", RIG_DIMS(1, 3, 8, 8));
    w = ow_normal(&r->w, "w", (const int64_t[]){ 4, 3, 3, 3 }, 4, 0.1, -1);
    b = ow_normal(&r->w, "b", (const int64_t[]){ 4 }, 1, 0.1, -1);
    ow_begin(&r->w, "Conv", "conv1");
    ow_in(&r->w, x);
    ow_in(&r->w, w);
    ow_in(&r->w, b);
    OW_ATTR_INTS(&r->w, "pads", 1, 1, 1, 1);
    ow_attr_float(&r->w, "alpha", 0.5f);
    ow_attr_int(&r->w, "group", 1);
    rig_attr_str(r, "auto_pad", "NOTSET");
    x = ow_end(&r->w);
    ow_begin(&r->w, "Relu", NULL);
    ow_in(&r->w, x);
    ow_out(&r->w, "y");
    ow_end(&r->w);
    rig_output(r, "y");
}

/* Functions: outer(a) = inner(a) + inner(a) with an attribute handed down; inner(x; k) =
 * LeakyRelu(x, alpha = k). */
static inline void rig_functions(struct buf *b)
{
    size_t f = pb_begin(b, 25), n, a, o;

    pb_str(b, 1, "inner");
    pb_str(b, 10, "my");
    pb_str(b, 4, "x");
    pb_str(b, 5, "y");
    pb_str(b, 6, "k");
    n = pb_begin(b, 7);
    pb_str(b, 1, "x");
    pb_str(b, 2, "t");
    pb_str(b, 3, "lr");
    pb_str(b, 4, "LeakyRelu");
    a = pb_begin(b, 5);
    pb_str(b, 1, "alpha");
    pb_varint(b, 20, ATTR_FLOAT);
    pb_str(b, 21, "k");
    pb_end(b, a);
    pb_end(b, n);
    rig_node(b, 7, "Neg", "t", "y");
    o = pb_begin(b, 9);
    pb_varint(b, 2, 15);
    pb_end(b, o);
    pb_end(b, f);

    f = pb_begin(b, 25);
    pb_str(b, 1, "outer");
    pb_str(b, 10, "my");
    pb_str(b, 4, "a");
    pb_str(b, 4, "optional");
    pb_str(b, 5, "b");
    pb_str(b, 5, "same"); /* the input itself */
    pb_str(b, 4, "same");
    a = pb_begin(b, 11); /* a default */
    pb_str(b, 1, "slope");
    buf_add(b, "\x15\0\0\0\x3f", 5); /* f = 0.5 */
    pb_varint(b, 20, ATTR_FLOAT);
    pb_end(b, a);
    for (int i = 0; i < 2; i++) {
        n = pb_begin(b, 7);
        pb_str(b, 1, "a");
        pb_str(b, 2, i ? "p" : "q");
        pb_str(b, 4, "inner");
        pb_str(b, 7, "my");
        a = pb_begin(b, 5);
        pb_str(b, 1, "k");
        pb_varint(b, 20, ATTR_FLOAT);
        pb_str(b, 21, "slope");
        pb_end(b, a);
        pb_end(b, n);
    }
    rig_node(b, 7, "Add", "p,q", "b");
    pb_end(b, f);
}

static inline void rig_call(struct rig *r, const char *y, const char *z, bool attr)
{
    struct buf *b = &r->w.node;
    size_t n = pb_begin(b, 1), a;

    pb_str(b, 1, "x");
    pb_str(b, 1, "");
    pb_str(b, 1, "x");
    pb_str(b, 2, y);
    pb_str(b, 2, z);
    pb_str(b, 3, "call");
    pb_str(b, 4, "outer");
    pb_str(b, 7, "my");
    if (attr) {
        a = pb_begin(b, 5);
        pb_str(b, 1, "slope");
        buf_add(b, "\x15\0\0\x80\x3e", 5); /* 0.25 */
        pb_varint(b, 20, ATTR_FLOAT);
        pb_end(b, a);
    }
    pb_end(b, n);
}

#endif
