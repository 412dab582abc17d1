/* onnx_write.c -- see onnx_write.h. */
#include "graph/onnx_write.h"

#include "base/alloc.h"
#include "base/pb.h"

#include <math.h>
#include <opmeter/opmeter_error.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fields of the messages that are written; onnx.proto has their names. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    ATTR_NAME = 1,
    ATTR_TENSOR_FIELD = 5,
    ATTR_GRAPH_FIELD = 6,
    ATTR_TYPE_FIELD = 20,
    ATTR_IS_TENSOR = 4,
    ATTR_IS_GRAPH = 5,
};

void ow_init(struct onnx_writer *w, const char *name, int opset, uint64_t seed, double sparsity)
{
    *w = (struct onnx_writer){ .name = name, .opset = opset, .seed = seed, .sparsity = sparsity };
    w->sparse_rows = 4;
    w->real = TENSOR_F32;
}

int ow_pattern_rows(const char *pattern)
{
    static const int rows[] = { 1, 4, 8, 16 };
    char text[8];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        snprintf(text, sizeof(text), "%dx1", rows[i]);
        if (strcmp(text, pattern) == 0)
            return rows[i];
    }
    return 0;
}

void ow_release(struct onnx_writer *w)
{
    arena_release(&w->text);
    buf_release(&w->node);
    buf_release(&w->io);
    buf_release(&w->outer_node);
    buf_release(&w->outer_io);
    mem_free(w->weight);
    strpool_release(&w->stem);
    u64map_release(&w->stem_count);
    strpool_release(&w->constant);
    u64map_release(&w->constant_at);
    *w = (struct onnx_writer){ 0 };
}

const char *ow_name(struct onnx_writer *w, const char *fmt, ...)
{
    char text[200];
    const char *copy;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    copy = arena_strndup(&w->text, text, strlen(text));
    w->failed = w->failed || !copy;
    return copy ? copy : "";
}

const char *ow_fresh(struct onnx_writer *w, const char *stem)
{
    uint64_t n = 0, *seen;
    str_id id;

    if (strpool_intern(&w->stem, stem, strlen(stem), &id)) {
        w->failed = true;
        return "";
    }
    seen = u64map_get(&w->stem_count, id);
    if (seen)
        n = *seen;
    if (u64map_put(&w->stem_count, id, n + 1))
        w->failed = true;
    return ow_name(w, "%s_%llu", stem, (unsigned long long)n);
}

static enum tensor_type written(const struct onnx_writer *w, enum tensor_type t)
{
    return t == TENSOR_F32 ? w->real : t;
}

static void put_value_info(struct onnx_writer *w, uint32_t field, const char *name,
                           enum tensor_type type, const char *const *open, const int64_t *dims,
                           int rank)
{
    struct buf *b = &w->io;
    size_t info = pb_begin(b, field), t, tensor, shape, dim;

    pb_str(b, 1, name);
    t = pb_begin(b, 2);
    tensor = pb_begin(b, 1);
    pb_varint(b, 1, written(w, type));
    shape = pb_begin(b, 2);
    for (int i = 0; i < rank; i++) {
        dim = pb_begin(b, 1);
        if (open && open[i])
            pb_str(b, 2, open[i]);
        else
            pb_varint(b, 1, (uint64_t)dims[i]);
        pb_end(b, dim);
    }
    pb_end(b, shape);
    pb_end(b, tensor);
    pb_end(b, t);
    pb_end(b, info);
}

const char *ow_input_open(struct onnx_writer *w, const char *name, enum tensor_type type,
                          const char *const *open, const int64_t *dims, int rank)
{
    put_value_info(w, GRAPH_INPUT, name, type, open, dims, rank);
    return name;
}

void ow_output_open(struct onnx_writer *w, const char *name, enum tensor_type type,
                    const char *const *open, const int64_t *dims, int rank)
{
    put_value_info(w, GRAPH_OUTPUT, name, type, open, dims, rank);
}

const char *ow_input_at(struct onnx_writer *w, const char *name, enum tensor_type type,
                        const char *batch, int at, const int64_t *dims, int rank)
{
    const char *open[SHAPE_RANK_MAX] = { NULL };

    open[at] = batch;
    return ow_input_open(w, name, type, open, dims, rank);
}

const char *ow_input(struct onnx_writer *w, const char *name, enum tensor_type type,
                     const char *batch, const int64_t *dims, int rank)
{
    return ow_input_at(w, name, type, batch, 0, dims, rank);
}

void ow_output(struct onnx_writer *w, const char *name, enum tensor_type type, const char *batch,
               const int64_t *dims, int rank)
{
    const char *open[SHAPE_RANK_MAX] = { batch };

    ow_output_open(w, name, type, open, dims, rank);
}

const char *ow_add_weight(struct onnx_writer *w, const struct ow_weight *weight)
{
    for (size_t i = 0; w->shares && i < w->nweight; i++)
        if (strcmp(w->weight[i].name, weight->name) == 0)
            return w->weight[i].name;
    if (!GROW(w->weight, w->weight_cap, w->nweight + 1)) {
        w->failed = true;
        return "";
    }
    w->weight[w->nweight] = *weight;
    if (weight->fill != FILL_DATA)
        w->weight[w->nweight].type = written(w, weight->type);
    w->nweight++;
    return weight->name;
}

const char *ow_normal(struct onnx_writer *w, const char *name, const int64_t *dims, int rank,
                      double std, int sparse_axis)
{
    struct ow_weight weight = { .name = name,
                                .type = TENSOR_F32,
                                .shape = { .rank = rank },
                                .fill = FILL_NORMAL,
                                .scale = (float)std,
                                .sparse_axis = sparse_axis };

    memcpy(weight.shape.dim, dims, (size_t)rank * sizeof(*dims));
    return ow_add_weight(w, &weight);
}

/* A constant of at most a few numbers; one of equal type, shape and bytes is used again. */
static const char *constant(struct onnx_writer *w, enum tensor_type type, const struct shape *s,
                            const void *data, size_t len)
{
    struct ow_weight weight = { .type = type, .shape = *s, .fill = FILL_DATA, .sparse_axis = -1 };
    char key[24 + 8 * SHAPE_RANK_MAX];
    int at = snprintf(key, sizeof(key), "%d,%d,", type, s->rank);
    uint64_t *known;
    char *copy;
    str_id id;

    assert((size_t)at + len <= sizeof(key));
    memcpy(key + at, data, len);
    if (strpool_intern(&w->constant, key, (size_t)at + len, &id)) {
        w->failed = true;
        return "";
    }
    known = u64map_get(&w->constant_at, id);
    if (known)
        return w->weight[*known].name;
    copy = arena_strndup(&w->text, data, len);
    if (!copy || u64map_put(&w->constant_at, id, w->nweight)) {
        w->failed = true;
        return "";
    }
    weight.name = ow_fresh(w, "const");
    weight.data = copy;
    return ow_add_weight(w, &weight);
}

/* Nearest of 16 bits; what generated weights are, too. */
static uint16_t half(enum tensor_type type, float f)
{
    return type == TENSOR_F16 ? f32_to_f16(f) : f32_to_bf16(f);
}

const char *ow_float32(struct onnx_writer *w, double v)
{
    const struct shape scalar = { 0 };
    float f = (float)v;

    return constant(w, TENSOR_F32, &scalar, &f, sizeof(f));
}

const char *ow_float(struct onnx_writer *w, double v)
{
    const struct shape scalar = { 0 };
    uint16_t h;

    if (w->real == TENSOR_F32)
        return ow_float32(w, v);
    h = half(w->real, (float)v);
    return constant(w, w->real, &scalar, &h, sizeof(h));
}

const char *ow_byte(struct onnx_writer *w, enum tensor_type type, int v)
{
    const struct shape scalar = { 0 };
    uint8_t byte = (uint8_t)v;

    return constant(w, type, &scalar, &byte, 1);
}

const char *ow_ints(struct onnx_writer *w, const int64_t *v, int n)
{
    const struct shape s = { .rank = 1, .dim = { n } };

    assert(n <= SHAPE_RANK_MAX);
    return constant(w, TENSOR_I64, &s, v, (size_t)n * sizeof(*v));
}

const char *ow_int_scalar(struct onnx_writer *w, int64_t v)
{
    const struct shape scalar = { 0 };

    return constant(w, TENSOR_I64, &scalar, &v, sizeof(v));
}

void ow_begin(struct onnx_writer *w, const char *op, const char *name)
{
    if (!name)
        name = ow_fresh(w, op);
    w->open = pb_begin(&w->node, GRAPH_NODE);
    pb_str(&w->node, NODE_NAME, name);
    pb_str(&w->node, NODE_OP_TYPE, op);
    w->out = NULL;
    w->open_name = name;
}

void ow_microsoft(struct onnx_writer *w)
{
    pb_str(&w->node, NODE_DOMAIN, "com.microsoft");
    w->microsoft = true;
}

void ow_in(struct onnx_writer *w, const char *value)
{
    pb_str(&w->node, NODE_INPUT, value);
}

void ow_out(struct onnx_writer *w, const char *value)
{
    pb_str(&w->node, NODE_OUTPUT, value);
    if (!w->out)
        w->out = value;
}

void ow_attr_int(struct onnx_writer *w, const char *name, int64_t v)
{
    size_t a = pb_begin(&w->node, NODE_ATTRIBUTE);

    pb_str(&w->node, 1, name);
    pb_varint(&w->node, 3, (uint64_t)v);
    pb_varint(&w->node, 20, 2);
    pb_end(&w->node, a);
}

void ow_attr_type(struct onnx_writer *w, const char *name, enum tensor_type t)
{
    ow_attr_int(w, name, written(w, t));
}

/* A float field; the only 32-bit ones that are written. */
static void put_f32(struct buf *b, uint8_t field, float v)
{
    uint8_t raw[5] = { (uint8_t)(field << 3 | PB_I32) };

    memcpy(raw + 1, &v, sizeof(v));
    buf_add(b, raw, sizeof(raw));
}

void ow_attr_float(struct onnx_writer *w, const char *name, float v)
{
    size_t a = pb_begin(&w->node, NODE_ATTRIBUTE);

    pb_str(&w->node, 1, name);
    put_f32(&w->node, 2, v);
    pb_varint(&w->node, 20, 1);
    pb_end(&w->node, a);
}

void ow_attr_ints(struct onnx_writer *w, const char *name, const int64_t *v, int n)
{
    size_t a = pb_begin(&w->node, NODE_ATTRIBUTE);

    pb_str(&w->node, 1, name);
    for (int i = 0; i < n; i++)
        pb_varint(&w->node, 8, (uint64_t)v[i]);
    pb_varint(&w->node, 20, 7);
    pb_end(&w->node, a);
}

void ow_attr_empty(struct onnx_writer *w, const char *name, enum tensor_type type,
                   const int64_t *dims, int rank)
{
    size_t a = pb_begin(&w->node, NODE_ATTRIBUTE), t;

    pb_str(&w->node, ATTR_NAME, name);
    t = pb_begin(&w->node, ATTR_TENSOR_FIELD);
    for (int i = 0; i < rank; i++)
        pb_varint(&w->node, TENSOR_DIMS, (uint64_t)dims[i]);
    pb_varint(&w->node, TENSOR_DATA_TYPE, written(w, type));
    pb_end(&w->node, t);
    pb_varint(&w->node, ATTR_TYPE_FIELD, ATTR_IS_TENSOR);
    pb_end(&w->node, a);
}

void ow_graph_begin(struct onnx_writer *w)
{
    assert(!w->inner);
    w->inner = w->shares = true;
    w->outer_node = w->node;
    w->outer_io = w->io;
    w->node = w->io = (struct buf){ 0 };
}

struct ow_graph ow_graph_end(struct onnx_writer *w, const char *name)
{
    struct ow_graph g;

    assert(w->inner);
    pb_str(&w->node, GRAPH_NAME, name);
    buf_add(&w->node, buf_str(&w->io), w->io.len);
    g = (struct ow_graph){ arena_strndup(&w->text, buf_str(&w->node), w->node.len), w->node.len };
    w->failed = w->failed || !g.data || w->node.failed || w->io.failed;
    buf_release(&w->node);
    buf_release(&w->io);
    w->node = w->outer_node;
    w->io = w->outer_io;
    w->outer_node = w->outer_io = (struct buf){ 0 };
    w->inner = false;
    return g;
}

void ow_attr_graph(struct onnx_writer *w, const char *name, const struct ow_graph *graph)
{
    size_t a = pb_begin(&w->node, NODE_ATTRIBUTE), g;

    pb_str(&w->node, ATTR_NAME, name);
    g = pb_begin(&w->node, ATTR_GRAPH_FIELD);
    if (graph->data)
        buf_add(&w->node, graph->data, graph->len);
    pb_end(&w->node, g);
    pb_varint(&w->node, ATTR_TYPE_FIELD, ATTR_IS_GRAPH);
    pb_end(&w->node, a);
}

const char *ow_end(struct onnx_writer *w)
{
    if (!w->out)
        ow_out(w, ow_name(w, "%s_out", w->open_name));
    pb_end(&w->node, w->open);
    return w->out;
}

const char *ow_op(struct onnx_writer *w, const char *op, ...)
{
    const char *value;
    va_list ap;

    ow_begin(w, op, NULL);
    va_start(ap, op);
    for (value = va_arg(ap, const char *); value; value = va_arg(ap, const char *))
        ow_in(w, value);
    va_end(ap);
    return ow_end(w);
}

/* Random numbers by position (SplitMix64), so that a weight depends on seed, model and its own name
 * only, not on what was made before it. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t hash_text(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return mix(h + 0x9e3779b97f4a7c15u);
}

static uint64_t random_at(uint64_t key, uint64_t i)
{
    return mix(key + (i + 1) * 0x9e3779b97f4a7c15u);
}

/* Sum of four uniform 16-bit numbers: near enough to normal, no outliers, the same on all machines
 * since nothing is rounded before the last multiplication. Mean 0, standard deviation 1. */
static double normal_at(uint64_t key, uint64_t i)
{
    uint64_t r = random_at(key, i);
    int64_t sum = (int64_t)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));

    return (double)(2 * sum - 4 * 65535) * (1.0 / 75674.0); /* 2 x 65536 / sqrt(3) */
}

/* Two numbers of 4 bits, as MatMulNBits has them: whole steps about the middle, cut at its ends. */
static float nibbles_at(uint64_t key, uint64_t i)
{
    int out = 0;

    for (uint64_t k = 0; k < 2; k++) {
        int v = (int)lrint(8 + OW_NIBBLE_STEPS * normal_at(key, 2 * i + k));

        out |= MIN(MAX(v, 0), 15) << 4 * k;
    }
    return (float)out;
}

/* The angle of a rotary embedding; rounded to a float, it does not depend on the library. */
static double angle_at(int64_t i, int64_t cols, double base)
{
    return (double)(i / cols) * pow(base, -(double)(i % cols) / (double)cols);
}

struct sparsity {
    bool on;
    uint64_t key, limit; /* a block is zero if its random number is below */
    int64_t rows, inner, block;
};

/* Blocks of output channels, one column each. */
static bool is_zero(const struct sparsity *s, int64_t i)
{
    int64_t row = i / s->inner % s->rows, col = i / (s->inner * s->rows) * s->inner + i % s->inner;

    return random_at(s->key, (uint64_t)(row / s->block) << 40 ^ (uint64_t)col) >= s->limit;
}

/* Elements [first, first + n) of a generated weight. */
static void generate(const struct onnx_writer *w, const struct ow_weight *weight, int64_t first,
                     int64_t n, float *out)
{
    uint64_t key = hash_text(hash_text(mix(w->seed), w->name), weight->name);
    struct sparsity s = { .on = w->sparsity > 0 && weight->sparse_axis >= 0 };
    double mean = weight->mean, scale = weight->scale;
    int64_t cols = weight->shape.rank ? weight->shape.dim[weight->shape.rank - 1] : 1;
    int64_t rows = weight->shape.rank > 1 ? weight->shape.dim[weight->shape.rank - 2] : 1;

    if (s.on) {
        s.key = mix(key);
        s.limit = (uint64_t)((1 - w->sparsity) * 0x1p32) << 32;
        s.rows = weight->shape.dim[weight->sparse_axis];
        s.inner = 1;
        s.block = w->sparse_rows;
        for (int32_t i = weight->sparse_axis + 1; i < weight->shape.rank; i++)
            s.inner *= weight->shape.dim[i];
        /* What is left grows, so that activations keep their size. */
        scale = w->sparsity < 1 ? scale / sqrt(1 - w->sparsity) : 0;
    }
    for (int64_t i = 0; i < n; i++) {
        double v; /* a statement of its own, or a compiler may fuse it with the addition */

        if (weight->fill == FILL_NORMAL)
            v = scale * normal_at(key, (uint64_t)(first + i));
        else if (weight->fill == FILL_UNIFORM)
            v = scale * ((double)(random_at(key, (uint64_t)(first + i)) >> 40) * 0x1p-24);
        else if (weight->fill == FILL_NIBBLES)
            v = (double)nibbles_at(key, (uint64_t)(first + i));
        else if (weight->fill == FILL_COS)
            v = cos(angle_at(first + i, cols, scale));
        else if (weight->fill == FILL_SIN)
            v = sin(angle_at(first + i, cols, scale));
        else /* FILL_CAUSAL */
            v = (first + i) % cols > (first + i) / cols % rows ? scale : 0;
        out[i] = (float)(mean + v);
    }
    for (int64_t i = 0; s.on && i < n; i++)
        if (is_zero(&s, first + i))
            out[i] = 0;
}

/* Where the file goes: into memory, or to a stream. */
struct sink {
    struct buf *b;
    struct io_out *o;
};

static void put(const struct sink *s, const void *p, size_t len)
{
    if (s->b)
        buf_add(s->b, p, len);
    else
        io_out_add(s->o, p, len);
}

/* A TensorProto up to its data; the length of all of it is written first. */
static void tensor_head(struct buf *b, const struct ow_weight *weight)
{
    struct buf body = { 0 };
    uint64_t bytes = (uint64_t)shape_bytes(&weight->shape, weight->type);

    for (int32_t i = 0; i < weight->shape.rank; i++)
        pb_varint(&body, TENSOR_DIMS, (uint64_t)weight->shape.dim[i]);
    pb_varint(&body, TENSOR_DATA_TYPE, weight->type);
    pb_str(&body, TENSOR_NAME, weight->name);
    buf_addc(&body, (char)(TENSOR_RAW << 3 | PB_LEN));
    buf_add_varint(&body, bytes);
    buf_addc(b, (char)(GRAPH_INITIALIZER << 3 | PB_LEN));
    buf_add_varint(b, body.len + bytes);
    buf_add(b, buf_str(&body), body.len);
    if (body.failed)
        b->failed = true;
    buf_release(&body);
}

#define CHUNK 16384 /* elements */

/* n floats as `type`, in place; the bytes that they take. */
static size_t narrow(float *chunk, int64_t n, enum tensor_type type)
{
    for (int64_t i = 0; i < n && type != TENSOR_F32; i++) {
        float f = chunk[i];
        int32_t whole = (int32_t)lrintf(f);

        switch (type) {
        case TENSOR_I8:
            ((int8_t *)chunk)[i] = (int8_t)MAX(MIN(whole, 127), -127);
            break;
        case TENSOR_U8:
            ((uint8_t *)chunk)[i] = (uint8_t)MAX(MIN(whole, 255), 0);
            break;
        case TENSOR_I32:
            memcpy(chunk + i, &whole, sizeof(whole));
            break;
        default: {
            uint16_t h = half(type, f);

            memcpy((char *)chunk + 2 * i, &h, sizeof(h));
        }
        }
    }
    return (size_t)n * (size_t)tensor_type_bits(type) / 8;
}

static int put_weight(const struct onnx_writer *w, const struct sink *to,
                      const struct ow_weight *weight, float *chunk)
{
    int64_t n = shape_count(&weight->shape);
    struct buf head = { 0 };
    bool failed;

    tensor_head(&head, weight);
    put(to, buf_str(&head), head.len);
    failed = head.failed;
    buf_release(&head);
    if (weight->fill == FILL_DATA) {
        put(to, weight->data, (size_t)shape_bytes(&weight->shape, weight->type));
        return failed ? OPM_ENOMEM : 0;
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = MIN((int64_t)CHUNK, n - i);

        generate(w, weight, i, m, chunk);
        put(to, chunk, narrow(chunk, m, weight->type));
    }
    return failed ? OPM_ENOMEM : 0;
}

/* Everything before the weights, and what comes after them. */
static void put_ends(const struct onnx_writer *w, uint64_t weights, struct buf *front,
                     struct buf *back)
{
    static const int ir_of_opset[] = { [13] = 7, 7, 8, 8, 8, 8, 9, 9, 10 };
    struct buf name = { 0 };
    size_t opset;

    pb_str(&name, GRAPH_NAME, w->name);
    pb_varint(front, MODEL_IR_VERSION, (uint64_t)ir_of_opset[w->opset]);
    pb_str(front, MODEL_PRODUCER, "opmeter");
    opset = pb_begin(front, MODEL_OPSET);
    pb_varint(front, 2, (uint64_t)w->opset);
    pb_end(front, opset);
    if (w->microsoft) {
        opset = pb_begin(front, MODEL_OPSET);
        pb_str(front, 1, "com.microsoft");
        pb_varint(front, 2, 1);
        pb_end(front, opset);
    }
    buf_addc(front, (char)(MODEL_GRAPH << 3 | PB_LEN));
    buf_add_varint(front, w->node.len + name.len + weights + w->io.len);
    buf_add(front, buf_str(&w->node), w->node.len);
    buf_add(front, buf_str(&name), name.len);
    buf_add(back, buf_str(&w->io), w->io.len);
    if (name.failed)
        front->failed = true;
    buf_release(&name);
}

static uint64_t weights_size(struct onnx_writer *w)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < w->nweight; i++) {
        struct buf head = { 0 };

        tensor_head(&head, &w->weight[i]);
        sum += head.len + (uint64_t)shape_bytes(&w->weight[i].shape, w->weight[i].type);
        w->failed = w->failed || head.failed;
        buf_release(&head);
    }
    return sum;
}

int ow_finish(struct onnx_writer *w, struct buf *b, struct io_out *o)
{
    const struct sink to = { b, o };
    struct buf front = { 0 }, back = { 0 };
    uint64_t weights = weights_size(w);
    float *chunk = mem_alloc(CHUNK * sizeof(*chunk));
    int rc = 0;

    put_ends(w, weights, &front, &back);
    if (!chunk || w->failed || w->node.failed || w->io.failed || front.failed || back.failed)
        rc = OPM_ENOMEM;
    if (!rc && b) { /* all the room at once: doubling would copy hundreds of megabytes */
        assert(b->len == 0);
        buf_release(b);
        b->cap = front.len + weights + back.len + 1;
        b->data = mem_alloc(b->cap);
        if (!b->data) {
            b->cap = 0;
            rc = OPM_ENOMEM;
        } else
            b->data[0] = '\0';
    }
    if (!rc)
        put(&to, buf_str(&front), front.len);
    for (size_t i = 0; !rc && i < w->nweight; i++)
        rc = put_weight(w, &to, &w->weight[i], chunk);
    if (!rc)
        put(&to, buf_str(&back), back.len);
    if (!rc && b && b->failed)
        rc = OPM_ENOMEM;
    if (rc && b)
        buf_release(b);
    mem_free(chunk);
    buf_release(&front);
    buf_release(&back);
    return rc;
}
