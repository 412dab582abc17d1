/* test_infer.c -- types and shapes of operators, constants of shape arithmetic, footprints.
 *
 * Most cases are lines of a table: operator, opset, operands, attributes, what comes out. */
#include "graph/infer.h"

#include "base/io.h"
#include "graph/footprint.h"
#include "graph/onnx_int.h"
#include "graph/weights.h"
#include "graph_rig.h"

#include <dirent.h>
#include <math.h>

struct op_case {
    const char *op;
    int opset;
    const char *in;    /* "2x3" float input, "int8:2x3", "i[1,2]" constant, "f[0.5]", "-" absent */
    const char *attrs; /* "axis=1 pads=1,1, mode='linear' scales=1.5f,2f" */
    const char *want;  /* outputs, separated by " | "; "!text": an error that has the text */
};

static enum tensor_type type_named(const char *name, size_t len)
{
    for (int t = 1; t < TENSOR_NTYPES; t++)
        if (strlen(tensor_type_name(t)) == len && memcmp(tensor_type_name(t), name, len) == 0)
            return (enum tensor_type)t;
    fail_msg("no type %.*s", (int)len, name);
    return TENSOR_NONE;
}

/* An input whose dimensions may have names: "Nx3x?". */
static void put_input(struct buf *b, const char *name, const char *spec)
{
    const char *colon = strchr(spec, ':');
    enum tensor_type type = colon ? type_named(spec, (size_t)(colon - spec)) : TENSOR_F32;
    size_t info = pb_begin(b, 11), t, tensor, shape, dim;

    spec = colon ? colon + 1 : spec;
    pb_str(b, 1, name);
    t = pb_begin(b, 2);
    tensor = pb_begin(b, 1);
    pb_varint(b, 1, type);
    if (strcmp(spec, "unknown") != 0) {
        shape = pb_begin(b, 2);
        while (*spec && strcmp(spec, "scalar") != 0) {
            size_t n = strcspn(spec, "x");

            dim = pb_begin(b, 1);
            if (*spec >= '0' && *spec <= '9')
                pb_varint(b, 1, strtoull(spec, NULL, 10));
            else if (*spec != '?')
                pb_bytes(b, 2, spec, n);
            pb_end(b, dim);
            spec += n + (spec[n] == 'x');
        }
        pb_end(b, shape);
    }
    pb_end(b, tensor);
    pb_end(b, t);
    pb_end(b, info);
}

/* A constant "i[1,2]", "f[0.5]" (1-D), "i(3)" or "f(3)" (scalar). */
static void put_constant(struct buf *b, const char *name, const char *spec)
{
    bool floats = spec[0] == 'f', scalar = spec[1] == '(';
    struct buf raw = { 0 };
    size_t t = pb_begin(b, 5), n = 0;

    for (const char *p = spec + 2; *p && *p != ']' && *p != ')'; n++) {
        float f = strtof(p, NULL);
        int64_t i = strtoll(p, NULL, 10);

        buf_add(&raw, floats ? (const void *)&f : &i, floats ? 4 : 8);
        p += strcspn(p, ",])");
        p += *p == ',';
    }
    if (!scalar)
        pb_varint(b, 1, n);
    pb_varint(b, 2, floats ? TENSOR_F32 : TENSOR_I64);
    pb_str(b, 8, name);
    pb_bytes(b, 9, buf_str(&raw), raw.len);
    pb_end(b, t);
    buf_release(&raw);
}

static void put_attr(struct buf *b, const char *spec)
{
    const char *eq = strchr(spec, '='), *v = eq + 1;
    size_t a = pb_begin(b, 5), len = strlen(v);
    bool list = strchr(v, ',') != NULL, floats = len && v[len - 1] == 'f';

    pb_bytes(b, 1, spec, (size_t)(eq - spec));
    if (*v == '\'') {
        pb_bytes(b, 4, v + 1, len - 2);
        pb_varint(b, 20, ATTR_STRING);
        pb_end(b, a);
        return;
    }
    for (const char *p = v; *p;) {
        float f = strtof(p, NULL);

        if (floats) {
            buf_addc(b, (char)((list ? 7 : 2) << 3 | PB_I32));
            buf_add(b, &f, 4);
        } else
            pb_varint(b, list ? 8 : 3, (uint64_t)strtoll(p, NULL, 10));
        p += strcspn(p, ",");
        p += *p == ',';
    }
    pb_varint(
        b, 20,
        (uint64_t)(floats ? (list ? ATTR_FLOATS : ATTR_FLOAT) : (list ? ATTR_INTS : ATTR_INT)));
    pb_end(b, a);
}

/* Take the next word of *p into out; false at the end. */
static bool next_word(const char **p, char *out, size_t size)
{
    size_t n;

    *p += strspn(*p, " ");
    n = strcspn(*p, " ");
    if (n == 0 || n >= size)
        return false;
    memcpy(out, *p, n);
    out[n] = '\0';
    *p += n;
    return true;
}

/* A model of this one node; outputs y0, y1, ... as many as want has. */
static void one_node(struct rig *r, const struct op_case *c)
{
    struct buf *b = &r->w.node;
    const char *p = c->in, *slash = strrchr(c->op, '/');
    char word[300], name[16];
    size_t node;
    int n = 0, nout = 1;

    rig_init(r, 17); /* the file says another opset below */
    node = pb_begin(b, 1);
    pb_str(b, 4, slash ? slash + 1 : c->op);
    if (slash)
        pb_bytes(b, 7, c->op, (size_t)(slash - c->op));
    while (next_word(&p, word, sizeof(word))) {
        snprintf(name, sizeof(name), "x%d", n++);
        if (strcmp(word, "-") == 0) {
            pb_str(b, 1, "");
            continue;
        }
        pb_str(b, 1, name);
        if ((word[0] == 'i' || word[0] == 'f') && (word[1] == '[' || word[1] == '('))
            put_constant(&r->w.io, name, word);
        else
            put_input(&r->w.io, name, word);
    }
    for (p = c->want; *p; p++) /* "!!": an error of a node with two outputs */
        nout += *p == '|' || (*p == '!' && p > c->want);
    for (int i = 0; i < nout; i++) {
        snprintf(name, sizeof(name), "y%d", i);
        pb_str(b, 2, name);
        rig_info(&r->w.io, 12, name);
    }
    for (p = c->attrs; next_word(&p, word, sizeof(word));)
        put_attr(b, word);
    pb_end(b, node);
    rig_finish(r);
    node = pb_begin(&r->file, 8);
    pb_str(&r->file, 1, slash ? "" : "old");
    pb_end(&r->file, node);
    rig_load(r);
    r->m->graph->node[0].opset = c->opset;
}

static void check_case(const struct op_case *c)
{
    struct rig r;
    char got[400];
    size_t at = 0;
    int rc;

    one_node(&r, c);
    rc = graph_infer(r.m, NULL, &r.err);
    if (c->want[0] == '!') {
        const char *text = c->want + strspn(c->want, "!");

        if (!rc || !strstr(r.err.msg, text))
            fail_msg("%s %s %s: '%s' lacks '%s'", c->op, c->in, c->attrs, r.err.msg, text);
        assert_int_equal(rc, OPM_EINVAL);
        assert_int_equal(strncmp(r.err.msg, "m.onnx: node 0 (", 16), 0);
    } else {
        if (rc)
            fail_msg("%s %s %s: %s", c->op, c->in, c->attrs, r.err.msg);
        for (uint32_t i = 0; i < r.m->graph->noutput; i++) {
            char name[16];

            snprintf(name, sizeof(name), "y%u", i);
            at += (size_t)snprintf(got + at, sizeof(got) - at, "%s%s", i ? " | " : "",
                                   rig_text(&r, name));
        }
        if (strcmp(got, c->want) != 0)
            fail_msg("%s-%d %s %s: %s, not %s", c->op, c->opset, c->in, c->attrs, got, c->want);
    }
    rig_release(&r);
}

#define CHECK(cases)                                  \
    for (size_t i_ = 0; i_ < ARRAY_SIZE(cases); i_++) \
    check_case(&(cases)[i_])

static void test_elementwise(void **state)
{
    static const struct op_case cases[] = {
        { "Relu", 17, "2x3", "", "float32 2x3" },
        { "Relu", 17, "int8:Nx3", "", "int8 Nx3" },
        { "Add", 17, "2x1x4 3x1", "", "float32 2x3x4" },
        { "Add", 17, "Nx3 Nx1", "", "float32 Nx3" },
        { "Add", 17, "Nx3 1x3", "", "float32 Nx3" },
        { "Add", 17, "Nx3 Mx3", "", "float32 ?x3" },
        { "Add", 17, "Nx3 5x3", "", "float32 5x3" },
        { "Add", 17, "2 scalar", "", "float32 2" },
        { "Add", 17, "0x3 1x3", "", "float32 0x3" },
        { "Add", 17, "2x3 unknown", "", "float32 ?" },
        { "Add", 17, "2x3 4", "", "!shapes 2x3 and 4 do not broadcast" },
        { "Add", 6, "2x3x4 3", "broadcast=1 axis=1", "float32 2x3x4" },
        { "Equal", 17, "2x1 3", "", "bool 2x3" },
        { "Where", 17, "bool:2x1 int64:3 int64:1", "", "int64 2x3" },
        { "Max", 17, "2x1 3 1x1x1", "", "float32 1x2x3" },
        { "Cast", 17, "2x3", "to=7", "int64 2x3" },
        { "Cast", 17, "2x3", "to=99", "!no element type" },
        { "CastLike", 17, "2x3 float16:1", "", "float16 2x3" },
        { "Dropout", 17, "2x3", "", "float32 2x3 | bool 2x3" },
        { "Dropout", 7, "2x3", "", "float32 2x3 | float32 2x3" },
        { "QuantizeLinear", 17, "2x3 scalar int8:scalar", "", "int8 2x3" },
        { "QuantizeLinear", 17, "2x3 scalar", "", "uint8 2x3" },
        { "QuantizeLinear", 21, "2x3 scalar", "output_dtype=22", "int4 2x3" },
        { "DequantizeLinear", 17, "int8:2x3 scalar", "", "float32 2x3" },
        { "DequantizeLinear", 21, "int8:2x3 float16:scalar", "", "float16 2x3" },
        { "DynamicQuantizeLinear", 17, "2x3", "", "uint8 2x3 | float32 scalar | uint8 scalar" },
        { "RandomNormal", 17, "", "shape=2,3", "float32 2x3" },
        { "com.microsoft/QLinearAdd", 1, "uint8:2x3 scalar uint8:scalar uint8:3 scalar", "",
          "uint8 2x3" },
        { "no.such/Thing", 1, "2x3", "", "undefined ?" },
    };

    (void)state;
    CHECK(cases);
}

static void test_conv(void **state)
{
    static const struct op_case cases[] = {
        { "Conv", 11, "1x3x224x224 64x3x7x7", "strides=2,2 pads=3,3,3,3", "float32 1x64x112x112" },
        { "Conv", 11, "Nx3xHx224 64x3x7x7", "strides=2,2 pads=3,3,3,3", "float32 Nx64x?x112" },
        { "Conv", 11, "1x32x10x10 32x1x3x3", "group=32", "float32 1x32x8x8" },
        { "Conv", 11, "1x3x10 4x3x3", "dilations=3, kernel_shape=3,", "float32 1x4x4" },
        { "Conv", 11, "1x3x11x10 4x3x3x3", "auto_pad='SAME_UPPER' strides=2,3", "float32 1x4x6x4" },
        { "Conv", 11, "1x3x11x10 4x3x3x3", "auto_pad='VALID' strides=2,2", "float32 1x4x5x4" },
        { "Conv", 11, "1x3x8x8 4x5x3x3", "", "!input has 3 channels, the weight is for 5" },
        { "Conv", 11, "1x3x8x8 4x3x3", "", "!input has 4 dimensions, weight has 3" },
        { "Conv", 11, "1x3x2x2 4x3x3x3", "", "!a window of 3 over 2 elements" },
        { "Conv", 11, "1x3x8x8 4x3x3x3", "strides=0,1", "!'strides' has the value 0" },
        { "Conv", 11, "1x3x8x8 4x3x3x3", "strides=1,", "!has 1 numbers instead of 2" },
        { "Conv", 11, "1x3x8x8 4x3x3x3", "kernel_shape=5,5", "!says 5, the weight has 3" },
        { "Conv", 11, "1x3x8x8 4x3x3x3", "auto_pad='SAME'", "!'auto_pad' is 'SAME'" },
        { "ConvInteger", 10, "uint8:1x1x3x3 uint8:1x1x2x2", "", "int32 1x1x2x2" },
        { "QLinearConv", 10,
          "uint8:1x1x7x7 scalar uint8:scalar int8:2x1x1x1 scalar int8:scalar scalar int8:scalar",
          "", "int8 1x2x7x7" },
        { "ConvTranspose", 11, "1x4x3x3 4x2x3x3", "strides=3,2 output_padding=1,1",
          "float32 1x2x10x8" },
        { "ConvTranspose", 11, "1x4x3x3 4x2x3x3", "strides=3,2 output_shape=10,8",
          "float32 1x2x10x8" },
        { "ConvTranspose", 11, "1x4x3x3 4x2x3x3", "auto_pad='SAME_UPPER' strides=2,2",
          "float32 1x2x6x6" },
        { "MaxPool", 12, "1x64x112x112", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
          "float32 1x64x56x56 | int64 1x64x56x56" },
        { "MaxPool", 12, "1x1x4x4", "kernel_shape=3,3 strides=2,2 ceil_mode=1", "float32 1x1x2x2" },
        /* A last window that would lie in the padding alone is dropped. */
        { "AveragePool", 19, "1x1x4x4", "kernel_shape=1,1 strides=2,2 pads=0,0,1,1 ceil_mode=1",
          "float32 1x1x2x2" },
        { "GlobalAveragePool", 1, "2x64x7x9", "", "float32 2x64x1x1" },
        { "MaxUnpool", 11, "1x1x2x2 int64:1x1x2x2", "kernel_shape=2,2 strides=2,2",
          "float32 1x1x4x4" },
        { "RoiAlign", 16, "1x3x10x10 5x4 int64:5", "output_height=7 output_width=6",
          "float32 5x3x7x6" },
        { "Col2Im", 18, "1x20x4 i[4,4] i[2,2]", "", "float32 1x5x4x4" },
        { "DeformConv", 19, "1x1x3x3 1x1x2x2 1x8x2x2", "kernel_shape=2,2", "float32 1x1x2x2" },
    };

    (void)state;
    CHECK(cases);
}

static void test_products(void **state)
{
    static const struct op_case cases[] = {
        { "MatMul", 13, "2x3 3x4", "", "float32 2x4" },
        { "MatMul", 13, "Bx12xSx64 Bx12x64xS", "", "float32 Bx12xSxS" },
        { "MatMul", 13, "5x1x2x3 7x3x4", "", "float32 5x7x2x4" },
        { "MatMul", 13, "3 3", "", "float32 scalar" },
        { "MatMul", 13, "2x3 3", "", "float32 2" },
        { "MatMul", 13, "3 4x3x5", "", "float32 4x5" },
        { "MatMul", 13, "2x3 4x5", "", "!shapes 2x3 and 4x5 cannot be multiplied" },
        { "MatMulInteger", 10, "uint8:2x3 int8:3x4", "", "int32 2x4" },
        { "QLinearMatMul", 10,
          "uint8:2x3 scalar uint8:scalar int8:3x4 scalar int8:scalar scalar uint8:scalar", "",
          "uint8 2x4" },
        { "Gemm", 13, "3x2 4x3 4", "transA=1 transB=1", "float32 2x4" },
        { "Gemm", 13, "2x3 4x3", "", "!inner sizes 3 and 4" },
        { "Gemm", 13, "2x3x4 4x3", "", "!operands of 3 and 2 dimensions" },
        { "Einsum", 12, "2x3x4 2x4x5", "equation='bij,bjk->bik'", "float32 2x3x5" },
        { "Einsum", 12, "2x3x4", "equation='...ij->...ji'", "float32 2x4x3" },
        { "Einsum", 12, "3x4", "equation='ij->'", "float32 scalar" },
        { "Einsum", 12, "2x3 3x4", "equation='ij,jk'", "float32 2x4" },
        { "Einsum", 12, "2x3 4x5", "equation='ij,jk'", "!'j' is both 3 and 4" },
        { "Einsum", 12, "2x3", "equation='ijk->i'", "!the equation wants 3" },
        { "LSTM", 14, "50x2x64 1x512x64 1x512x128", "hidden_size=128",
          "float32 50x1x2x128 | float32 1x2x128 | float32 1x2x128" },
        { "GRU", 14, "2x50x64 2x384x64 2x384x128", "direction='bidirectional' layout=1",
          "float32 2x50x2x128 | float32 2x2x128" },
        { "Attention", 23, "2x8x16x64 2x8x20x64 2x8x20x32", "", "float32 2x8x16x32" },
        { "Attention", 23, "2x16x512 2x20x128 2x20x256", "q_num_heads=8 kv_num_heads=2",
          "float32 2x16x1024" },
        { "com.microsoft/Attention", 1, "2x16x256 256x768 768", "num_heads=4", "float32 2x16x256" },
        { "com.microsoft/MatMulNBits", 1, "2x16x64 uint8:128x2x16 256", "K=64 N=128",
          "float32 2x16x128" },
        { "com.microsoft/FusedMatMul", 1, "2x3 4x3", "transB=1", "float32 2x4" },
        { "Det", 11, "5x3x3", "", "float32 5" },
    };

    (void)state;
    CHECK(cases);
}

static void test_movement(void **state)
{
    static const struct op_case cases[] = {
        { "Transpose", 13, "2x3xN", "perm=2,0,1", "float32 Nx2x3" },
        { "Transpose", 13, "2x3x4", "", "float32 4x3x2" },
        { "Transpose", 13, "2x3x4", "perm=0,0,1", "!is no permutation" },
        { "Transpose", 13, "2x3x4", "perm=0,1", "!has 2 numbers, the input 3" },
        { "Concat", 13, "2x3 2x4 2xN", "axis=1", "float32 2x?" },
        { "Concat", 13, "Nx3 Nx4", "axis=-1", "float32 Nx7" },
        { "Concat", 13, "2x3 3x3", "axis=1", "!inputs with 2 and 3 in dimension 0" },
        { "Concat", 13, "2x3 2x3", "axis=2", "!axis 2 of a tensor with 2 dimensions" },
        { "Split", 13, "2x6", "axis=1", "float32 2x3 | float32 2x3" },
        { "Split", 13, "2x6 i[2,4]", "axis=1", "float32 2x2 | float32 2x4" },
        { "Split", 11, "2x6", "axis=1 split=2,4", "float32 2x2 | float32 2x4" },
        { "Split", 18, "2x7", "axis=1 num_outputs=3", "float32 2x3 | float32 2x3 | float32 2x1" },
        { "Split", 13, "2x7", "axis=1", "!!7 elements in 2 equal pieces" },
        { "Split", 13, "2x7 i[2,4]", "axis=1", "!pieces of 6 in all of 7" },
        { "Slice", 13, "10x20 i[1,2] i[9,-3]", "", "float32 8x15" },
        { "Slice", 13, "10x20 i[-1] i[-9223372036854775807] i[0] i[-1]", "", "float32 10x20" },
        { "Slice", 13, "10x20 i[8] i[2] i[0] i[-2]", "", "float32 3x20" },
        { "Slice", 13, "10xN i[0] i[9223372036854775807] i[1]", "", "float32 10xN" },
        { "Slice", 13, "10x20 i[5] i[5] i[0]", "", "float32 0x20" },
        { "Slice", 13, "10x20 i[100] i[200] i[0]", "", "float32 0x20" },
        { "Slice", 9, "10x20", "starts=1, ends=1000, axes=1,", "float32 10x19" },
        { "Slice", 13, "10x20 int64:1 int64:1 i[1]", "", "float32 10x?" },
        { "Slice", 13, "10x20 int64:1 int64:1 int64:1", "", "float32 ?x?" },
        { "Slice", 13, "10x20 i[0] i[1] i[0] i[0]", "", "!a step of 0" },
        { "Gather", 13, "30522x256 int64:Nx128", "", "float32 Nx128x256" },
        { "Gather", 13, "2x3x4 i(0)", "axis=1", "float32 2x4" },
        { "GatherElements", 13, "3x4 int64:2x4", "", "float32 2x4" },
        { "GatherND", 12, "2x2x5 int64:2x1", "batch_dims=1", "float32 2x5" },
        { "GatherND", 12, "2x3x4 int64:7x2", "", "float32 7x4" },
        { "Tile", 13, "2x3 i[2,1]", "", "float32 4x3" },
        { "Pad", 13, "1x3x4x5 i[0,0,1,3,0,0,2,4]", "", "float32 1x3x7x12" },
        { "Pad", 2, "2x3", "pads=0,2,0,0", "float32 2x5" },
        { "Pad", 18, "2x3x4 i[1,1] - i[-1]", "", "float32 2x3x6" },
        { "Pad", 13, "2x3 i[0,0,0,-4]", "", "!pads 3 elements by -4" },
        { "DepthToSpace", 13, "1x8x2x3", "blocksize=2", "float32 1x2x4x6" },
        { "SpaceToDepth", 13, "1x2x4x6", "blocksize=2", "float32 1x8x2x3" },
        { "DepthToSpace", 13, "1x7x2x3", "blocksize=2", "!7 channels in blocks of 4" },
        { "OneHot", 11, "int64:2x3 i(10) 2", "axis=1", "float32 2x10x3" },
        { "NonZero", 13, "2x3", "", "int64 2x?" },
        { "NonZero", 13, "i[1,0,2]", "", "int64 1x2" },
        { "Compress", 11, "3x2 bool:3", "axis=0", "float32 ?x2" },
        { "Unique", 11, "2x3", "", "float32 ? | int64 ? | int64 6 | int64 ?" },
        { "GridSample", 16, "2x3x4x5 2x6x7x2", "", "float32 2x3x6x7" },
        { "AffineGrid", 20, "2x2x3 i[2,3,5,6]", "", "float32 2x5x6x2" },
        { "CenterCropPad", 18, "20x10x3 i[10,9]", "axes=0,1", "float32 10x9x3" },
    };

    (void)state;
    CHECK(cases);
}

static void test_shape_operators(void **state)
{
    static const struct op_case cases[] = {
        { "Shape", 13, "2xNx4", "", "int64 3" },
        { "Shape", 15, "2xNx4", "start=-2", "int64 2" },
        { "Size", 13, "2x3", "", "int64 scalar" },
        { "Reshape", 13, "2x3x4 i[4,-1]", "", "float32 4x6" },
        { "Reshape", 13, "2x3x4 i[0,-1]", "", "float32 2x12" },
        { "Reshape", 13, "Nx128x256 i[0,128,4,-1]", "", "float32 Nx128x4x64" },
        { "Reshape", 13, "Nx4x8 i[-1,32]", "", "float32 Nx32" },
        { "Reshape", 13, "Nx4x8 i[-1,16]", "", "float32 ?x16" },
        { "Reshape", 13, "NxMx8 i[-1,8]", "", "float32 ?x8" },
        { "Reshape", 14, "0x3 i[3,0]", "allowzero=1", "float32 3x0" },
        { "Reshape", 13, "2x3 i[4,2]", "", "!shape 2x3 cannot become 4x2" },
        { "Reshape", 13, "2x3 i[4,-1]", "", "!cannot become" },
        { "Reshape", 13, "2x3 i[-1,-1]", "", "!two dimensions of -1" },
        { "Reshape", 13, "2x3 i[6,1,0]", "", "!is copied from an input of 2 dimensions" },
        { "Reshape", 13, "2x3 int64:3", "", "float32 ?x?x?" },
        { "Flatten", 13, "2x3x4", "axis=2", "float32 6x4" },
        { "Flatten", 13, "2x3x4", "axis=0", "float32 1x24" },
        { "Flatten", 13, "Nx3x4", "", "float32 Nx12" },
        { "Squeeze", 13, "1x3x1 i[0]", "", "float32 3x1" },
        { "Squeeze", 11, "1x3x1", "axes=0,-1", "float32 3" },
        { "Squeeze", 13, "1x3x1", "", "float32 3" },
        { "Squeeze", 13, "1xNx1", "", "float32 ?" },
        { "Squeeze", 13, "1x3x1 i[1]", "", "!squeezes dimension 1, which has size 3" },
        { "Unsqueeze", 13, "3x4 i[0,-1]", "", "float32 1x3x4x1" },
        { "Unsqueeze", 11, "3x4", "axes=1,", "float32 3x1x4" },
        { "Unsqueeze", 13, "3x4 i[0,0]", "", "!is added twice" },
        { "Expand", 13, "3x1 i[2,1,6]", "", "float32 2x3x6" },
        { "Expand", 13, "3x1 int64:3", "", "float32 ?x3x?" },
        { "ConstantOfShape", 9, "i[2,3]", "", "float32 2x3" },
        { "Range", 11, "i(1) i(10) i(3)", "", "int64 3" },
        { "Range", 11, "f(1) f(2) f(0.25)", "", "float32 4" },
        { "Range", 11, "i(1) i(10) i(0)", "", "!a step of 0" },
        { "EyeLike", 9, "3x4", "dtype=11", "float64 3x4" },
        { "Resize", 13, "1x3x10x10 - f[1,1,2,2.5]", "", "float32 1x3x20x25" },
        { "Resize", 13, "1x3x10x10 - - i[1,3,7,8]", "", "float32 1x3x7x8" },
        { "Resize", 10, "1x3x10x10 f[1,1,0.5,0.25]", "", "float32 1x3x5x2" },
        { "Resize", 18, "1x3x10x10 - - i[7,8]", "axes=2,3", "float32 1x3x7x8" },
        { "Resize", 18, "1x3x10x20 - - i[5,5]", "axes=2,3 keep_aspect_ratio_policy='not_larger'",
          "float32 1x3x3x5" },
        { "Resize", 13, "1x3x10x10 - f[1,1,2]", "", "!3 scales for 4 dimensions" },
        { "Upsample", 7, "1x3x10x10", "scales=1f,1f,2f,2f", "float32 1x3x20x20" },
        { "Upsample", 9, "1x3x10x10 f[1,1,2,3]", "", "float32 1x3x20x30" },
    };

    (void)state;
    CHECK(cases);
}

static void test_reductions(void **state)
{
    static const struct op_case cases[] = {
        { "ReduceMean", 13, "2x3x4", "axes=-1,", "float32 2x3x1" },
        { "ReduceMean", 18, "2x3x4 i[1]", "keepdims=0", "float32 2x4" },
        { "ReduceSum", 13, "2x3x4", "", "float32 1x1x1" },
        { "ReduceSum", 13, "2x3x4", "keepdims=0", "float32 scalar" },
        { "ReduceSum", 13, "2x3x4", "noop_with_empty_axes=1", "float32 2x3x4" },
        { "ReduceSum", 13, "2x3x4 int64:1", "", "float32 ?x?x?" },
        { "ReduceSum", 13, "2x3x4 int64:1", "keepdims=0", "float32 ?" },
        { "ReduceMax", 13, "2x3", "axes=2,", "!axis 2 of a tensor with 2 dimensions" },
        { "ArgMax", 13, "2x3x4", "axis=1 keepdims=0", "int64 2x4" },
        { "TopK", 11, "3x4 i[2]", "axis=-1", "float32 3x2 | int64 3x2" },
        { "TopK", 1, "3x4", "k=2 axis=0", "float32 2x4 | int64 2x4" },
        { "TopK", 11, "3x4 i[5]", "", "!wants the first 5 of 4" },
        { "BatchNormalization", 15, "2x3x4 3 3 3 3", "", "float32 2x3x4" },
        { "LayerNormalization", 17, "2x3x4 4 4", "",
          "float32 2x3x4 | float32 2x3x1 | float32 2x3x1" },
        { "com.microsoft/SkipLayerNormalization", 1, "2x3x4 2x3x4 4", "",
          "float32 2x3x4 | float32 2x3x1 | float32 2x3x1 | float32 2x3x4" },
        { "NegativeLogLikelihoodLoss", 13, "2x3x4 int64:2x4", "", "float32 scalar" },
        { "SoftmaxCrossEntropyLoss", 13, "2x3x4 int64:2x4", "reduction='none'",
          "float32 2x4 | float32 2x3x4" },
        { "HannWindow", 17, "i(10)", "", "float32 10" },
        { "MelWeightMatrix", 17, "i(8) i(16) i(8192) f(0) f(8192)", "", "float32 9x8" },
        { "DFT", 17, "1x16x1", "onesided=1", "float32 1x9x2" },
        { "DFT", 20, "1x16x1 i(20) i(1)", "", "float32 1x20x2" },
        { "STFT", 17, "1x128x1 i(8) 16", "", "float32 1x15x9x2" },
        { "NonMaxSuppression", 11, "1x6x4 1x1x6", "", "int64 ?x3" },
        { "ai.onnx.ml/TreeEnsembleRegressor", 1, "5x4", "n_targets=2", "float32 5x2" },
    };

    (void)state;
    CHECK(cases);
}

/* The chain that PyTorch writes for view(batch, -1, heads, size) of an open batch. */
static void reshape_chain(struct rig *r, const char *spec)
{
    struct onnx_writer *w = &r->w;
    const char *size, *ints;

    rig_init(r, 17);
    put_input(&w->io, "x", spec);
    size = ow_op(w, "Shape", "x", NULL);
    size = ow_op(w, "Gather", size, ow_int_scalar(w, 0), NULL);
    size = ow_op(w, "Unsqueeze", size, OW_INTS(w, 0), NULL);
    ints = OW_INTS(w, -1, 4, 64);
    ow_begin(w, "Concat", NULL);
    ow_in(w, size);
    ow_in(w, ints);
    ow_out(w, "target");
    ow_attr_int(w, "axis", 0);
    ow_end(w);
    ow_begin(w, "Reshape", NULL);
    ow_in(w, "x");
    ow_in(w, "target");
    ow_out(w, "y");
    ow_end(w);
    rig_output(r, "y");
}

static void test_shape_arithmetic(void **state)
{
    struct rig r;
    const struct value *v;

    (void)state;
    reshape_chain(&r, "2x128x256");
    rig_infer(&r);
    assert_string_equal(rig_text(&r, "y"), "float32 2x128x4x64");
    v = rig_value(&r, "target");
    assert_true(v->flags & VALUE_FOLDED && tensor_int(v->data, 0) == 2);
    rig_release(&r);
    /* The batch stays open, and the rest is known all the same. */
    reshape_chain(&r, "Nx128x256");
    rig_infer(&r);
    assert_string_equal(rig_text(&r, "y"), "float32 Nx128x4x64");
    assert_null(rig_value(&r, "target")->data);
    rig_release(&r);
}

/* Expand as PyTorch writes it: Where(Equal(shape, -1), ones, shape). */
static void test_expand_chain(void **state)
{
    static const char *const specs[] = { "5x1", "Nx1" }, *const want[] = { "5x7", "Nx7" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rig r;
        struct onnx_writer *w = &r.w;
        const char *size, *ones, *minus, *target, *test;
        char text[40];

        rig_init(&r, 17);
        put_input(&w->io, "x", specs[i]);
        size = ow_op(w, "Gather", ow_op(w, "Shape", "x", NULL), OW_INTS(w, 0), NULL);
        minus = OW_INTS(w, 7);
        ow_begin(w, "Concat", NULL);
        ow_in(w, size);
        ow_in(w, minus);
        ow_attr_int(w, "axis", 0);
        target = ow_end(w);
        ones = ow_op(w, "ConstantOfShape", OW_INTS(w, 2), NULL);
        minus = ow_int_scalar(w, -1);
        ones = ow_op(w, "Add", ones, ow_float(w, 1), NULL);
        ow_begin(w, "Cast", NULL);
        ow_in(w, ones);
        ow_attr_int(w, "to", TENSOR_I64);
        ones = ow_end(w);
        test = ow_op(w, "Equal", target, ow_op(w, "Mul", ones, minus, NULL), NULL);
        target = ow_op(w, "Where", test, ones, target, NULL);
        ow_begin(w, "Expand", NULL);
        ow_in(w, "x");
        ow_in(w, target);
        ow_out(w, "y");
        ow_end(w);
        rig_output(&r, "y");
        rig_infer(&r);
        snprintf(text, sizeof(text), "float32 %s", want[i]);
        assert_string_equal(rig_text(&r, "y"), text);
        rig_release(&r);
    }
}

/* Every folded operator, on numbers that can be checked by hand: value, expected elements. */
static void test_folding(void **state)
{
    static const struct {
        const char *op, *in, *attrs;
        int n;
        double want[6];
    } cases[] = {
        { "Add", "i[1,2] i[10]", "", 2, { 11, 12 } },
        { "Sub", "i[1,2] i[10]", "", 2, { -9, -8 } },
        { "Mul", "f[1.5] f[2,4]", "", 2, { 3, 6 } },
        { "Div", "i[7,-7] i[2]", "", 2, { 3, -3 } },
        { "Div", "f[7] f[2]", "", 1, { 3.5 } },
        { "Mod", "i[7,-7] i[3]", "", 2, { 1, 2 } },
        { "Pow", "i[3] i[4]", "", 1, { 81 } },
        { "Max", "i[1,9] i[5]", "", 2, { 5, 9 } },
        { "Min", "i[1,9] i[5]", "", 2, { 1, 5 } },
        { "Neg", "i[1,-9]", "", 2, { -1, 9 } },
        { "Abs", "f[-1.5]", "", 1, { 1.5 } },
        { "Floor", "f[-1.5,2.5]", "", 2, { -2, 2 } },
        { "Ceil", "f[-1.5,2.5]", "", 2, { -1, 3 } },
        { "Round", "f[-1.5,2.5,0.5,3.5]", "", 4, { -2, 2, 0, 4 } },
        { "Sqrt", "f[9]", "", 1, { 3 } },
        { "Sign", "i[-3,0,5]", "", 3, { -1, 0, 1 } },
        { "Reciprocal", "f[4]", "", 1, { 0.25 } },
        { "Relu", "f[-4,4]", "", 2, { 0, 4 } },
        { "Equal", "i[1,2] i[2]", "", 2, { 0, 1 } },
        { "Less", "f[1,2] f[2]", "", 2, { 1, 0 } },
        { "GreaterOrEqual", "i[1,2] i[2]", "", 2, { 0, 1 } },
        { "Cast", "f[-1.5,2.5]", "to=7", 2, { -1, 2 } },
        { "Cast", "i[300]", "to=2", 1, { 44 } },
        { "Cast", "i[0,5]", "to=9", 2, { 0, 1 } },
        { "Gather", "i[5,6,7] i[2,-3]", "", 2, { 7, 5 } },
        { "Concat", "i[5] i[6,7]", "axis=0", 3, { 5, 6, 7 } },
        { "Slice", "i[5,6,7,8] i[3] i[0] i[0] i[-1]", "", 3, { 8, 7, 6 } },
        { "Slice", "i[5,6,7,8] i[-2] i[100]", "", 2, { 7, 8 } },
        { "Reshape", "i[5,6,7,8] i[2,-1]", "", 4, { 5, 6, 7, 8 } },
        { "Squeeze", "i[5] i[0]", "", 1, { 5 } },
        { "Expand", "i[5] i[3]", "", 3, { 5, 5, 5 } },
        { "Tile", "i[5,6] i[2]", "", 4, { 5, 6, 5, 6 } },
        { "Range", "i(4) i(-2) i(-3)", "", 2, { 4, 1 } },
        { "Range", "f(0) f(1) f(0.5)", "", 2, { 0, 0.5 } },
        { "ConstantOfShape", "i[3]", "", 3, { 0, 0, 0 } },
        { "NonZero", "i[0,3,0,4]", "", 2, { 1, 3 } },
        { "ReduceProd", "i[2,3,4]", "", 1, { 24 } },
        { "ReduceSum", "i[2,3,4] i[0]", "", 1, { 9 } },
        { "ReduceMax", "i[2,5,4]", "", 1, { 5 } },
        { "ReduceMean", "f[2,4]", "", 1, { 3 } },
        { "Size", "2x3x4", "", 1, { 24 } },
        { "Shape", "2x3x4", "", 3, { 2, 3, 4 } },
        { "Not", "bool:1", "", 0, { 0 } }, /* unknown stays unknown */
        { "Div", "i[1] i[0]", "", 0, { 0 } },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct op_case c = { cases[i].op, 13, cases[i].in, cases[i].attrs, "" };
        struct rig r;
        const struct value *v;

        one_node(&r, &c);
        assert_int_equal(graph_infer(r.m, NULL, &r.err), 0);
        v = rig_value(&r, "y0");
        if (cases[i].n == 0) {
            assert_null(v->data);
        } else {
            if (!v->data || !(v->flags & VALUE_FOLDED))
                fail_msg("%s %s is not folded", c.op, c.in);
            assert_int_equal(v->data->count, cases[i].n);
            for (int k = 0; k < cases[i].n; k++)
                if (tensor_float(v->data, k) != cases[i].want[k])
                    fail_msg("%s %s: element %d is %g", c.op, c.in, k, tensor_float(v->data, k));
        }
        rig_release(&r);
    }
}

/* Sizes from options: by input, by name of a dimension, for all that is open; and again. */
static void test_options(void **state)
{
    struct rig r;
    struct infer_input in = { .name = "x", .shape = { 3, { 8, 128, 256 } } };
    struct infer_dim dim = { "N", 3 };
    struct infer_options opt = { .input = &in, .ninput = 1 };
    struct infer_count count;

    (void)state;
    reshape_chain(&r, "Nx128x256");
    rig_load(&r);
    assert_int_equal(graph_infer(r.m, &opt, &r.err), 0);
    assert_string_equal(rig_text(&r, "y"), "float32 8x128x4x64");
    graph_infer_count(r.m, &count);
    assert_true(count.values > 0 && count.values == count.resolved);
    opt = (struct infer_options){ .dim = &dim, .ndim = 1 };
    assert_int_equal(graph_infer(r.m, &opt, &r.err), 0);
    assert_string_equal(rig_text(&r, "y"), "float32 3x128x4x64");
    opt = (struct infer_options){ .open_dim = 5 };
    assert_int_equal(graph_infer(r.m, &opt, &r.err), 0);
    assert_string_equal(rig_text(&r, "y"), "float32 5x128x4x64");
    assert_int_equal(graph_infer(r.m, NULL, &r.err), 0);
    assert_string_equal(rig_text(&r, "y"), "float32 Nx128x4x64");
    graph_infer_count(r.m, &count);
    assert_true(count.values > count.resolved);

    in.name = "nothing";
    opt = (struct infer_options){ .input = &in, .ninput = 1 };
    assert_int_equal(graph_infer(r.m, &opt, &r.err), OPM_ENOTFOUND);
    assert_string_equal(r.err.msg, "m.onnx: has no input 'nothing'");
    in = (struct infer_input){ .name = "x", .shape = { 1, { 8 } } };
    assert_int_equal(graph_infer(r.m, &opt, &r.err), OPM_EINVAL);
    assert_string_equal(r.err.msg, "m.onnx: input 'x' has 3 dimensions, 1 were given");
    dim.name = "M";
    opt = (struct infer_options){ .dim = &dim, .ndim = 1 };
    assert_int_equal(graph_infer(r.m, &opt, &r.err), OPM_ENOTFOUND);
    assert_string_equal(r.err.msg, "m.onnx: has no open dimension 'M'");
    rig_release(&r);
}

/* The value of an input may decide a shape. */
static void test_input_data(void **state)
{
    static const int64_t to[] = { 3, 2 };
    const struct op_case c = { "Reshape", 13, "6 int64:2", "", "float32 ?x?" };
    struct tensor t = {
        .name = "", .type = TENSOR_I64, .shape = { 1, { 2 } }, .count = 2, .data = to, .bytes = 16
    };
    struct infer_input in = { .name = "x1", .data = &t };
    struct infer_options opt = { .input = &in, .ninput = 1 };
    struct rig r;

    (void)state;
    check_case(&c);
    one_node(&r, &c);
    assert_int_equal(graph_infer(r.m, &opt, &r.err), 0);
    assert_string_equal(rig_text(&r, "y0"), "float32 3x2");
    assert_null(rig_value(&r, "x1")->data); /* it stays the caller's */
    rig_release(&r);
}

/* What the file says about a value: used where nothing is known, an error where it cannot be. */
static void test_declared(void **state)
{
    static const struct {
        const char *op, *declared, *want;
    } cases[] = {
        { "Relu", "2x3", "float32 2x3" },
        { "Relu", "Nx3", "float32 2x3" },
        { "Relu", "2x4", "!output 0 'y' has shape 2x3, the file says 2x4" },
        { "Relu", "int64:2x3", "!output 0 'y' is float32, the file says int64" },
        { "NonZero", "int64:2x5", "int64 2x5" },
        { "Mystery", "int64:7x5", "int64 7x5" },
        { "Mystery", "int64:7xK", "int64 7xK" },
    };
    struct infer_input in = { .name = "x", .shape = { 2, { 9, 3 } } };
    struct infer_options opt = { .input = &in, .ninput = 1 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rig r;
        size_t before;
        int rc;

        rig_init(&r, 17);
        put_input(&r.w.io, "x", "2x3");
        rig_node(&r.w.node, 1, cases[i].op, "x", "y");
        before = r.w.io.len;
        put_input(&r.w.io, "y", cases[i].declared);
        r.w.io.data[before] = 13 << 3 | PB_LEN; /* value_info */
        rig_output(&r, "y");
        rig_load(&r);
        rc = graph_infer(r.m, NULL, &r.err);
        if (cases[i].want[0] == '!') {
            assert_int_equal(rc, OPM_EINVAL);
            assert_non_null(strstr(r.err.msg, cases[i].want + 1));
        } else
            assert_string_equal(rig_text(&r, "y"), cases[i].want);
        /* Another batch than the file has: what it says about the rest is no longer so. */
        assert_int_equal(graph_infer(r.m, &opt, &r.err), 0);
        if (strcmp(cases[i].op, "Relu") == 0)
            assert_string_equal(rig_text(&r, "y"), "float32 9x3");
        if (strcmp(cases[i].op, "Mystery") == 0)
            assert_string_equal(rig_text(&r, "y"), "undefined ?");
        rig_release(&r);
    }
}

static void add_branch(struct buf *b, const char *op)
{
    rig_node(b, 1, op, "x", "r");
    rig_info(b, 12, "r");
}

/* If: what both branches agree on; the one that is taken, if that is known; and a branch that does
 * not fit is no error. */
static void test_if(void **state)
{
    static const struct {
        const char *cond, *then_op, *else_op, *want;
    } cases[] = {
        { "bool:scalar", "Relu", "Neg", "float32 2x1x3" },
        { "bool:scalar", "Relu", "Squeeze", "float32 ?" },
        { "bool:scalar", "Shape", "Squeeze", "undefined ?" },
        { "i(1)", "Relu", "Squeeze", "float32 2x1x3" },
        { "i(0)", "Relu", "Squeeze", "float32 2x3" },
        { "i(1)", "Relu", "Det", "float32 2x1x3" },
        { "i(0)", "DepthToSpace", "Relu", "float32 2x1x3" }, /* the first has no blocksize */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rig r;
        struct buf yes = { 0 }, no = { 0 };

        rig_init(&r, 17);
        put_input(&r.w.io, "x", "2x1x3");
        if (cases[i].cond[0] == 'i')
            put_constant(&r.w.io, "c", cases[i].cond);
        else
            put_input(&r.w.io, "c", cases[i].cond);
        add_branch(&yes, cases[i].then_op);
        add_branch(&no, cases[i].else_op);
        ow_begin(&r.w, "If", NULL);
        ow_in(&r.w, "c");
        ow_out(&r.w, "y");
        rig_attr_graph(&r, "then_branch", &yes);
        rig_attr_graph(&r, "else_branch", &no);
        ow_end(&r.w);
        rig_output(&r, "y");
        rig_infer(&r);
        assert_string_equal(rig_text(&r, "y"), cases[i].want);
        buf_release(&yes);
        buf_release(&no);
        rig_release(&r);
    }
}

/* A loop that carries a sum and one that grows, and collects a row each round. */
static void test_loop(void **state)
{
    struct rig r;
    struct buf body = { 0 };
    size_t n;

    (void)state;
    rig_init(&r, 17);
    put_input(&r.w.io, "a", "2x3");
    put_input(&r.w.io, "b", "1x3");
    put_constant(&r.w.io, "trips", "i(5)");
    rig_info(&body, 11, "i");
    rig_info(&body, 11, "cond");
    rig_info(&body, 11, "sum");
    rig_info(&body, 11, "grown");
    rig_node(&body, 1, "Add", "sum,a", "sum2");
    n = pb_begin(&body, 1);
    rig_names(&body, 1, "grown,b");
    rig_names(&body, 2, "grown2");
    pb_str(&body, 4, "Concat");
    put_attr(&body, "axis=0");
    pb_end(&body, n);
    rig_node(&body, 1, "Exp", "a", "row");
    rig_node(&body, 1, "Identity", "cond", "cond2");
    rig_info(&body, 12, "cond");
    rig_info(&body, 12, "sum2");
    rig_info(&body, 12, "grown2");
    rig_info(&body, 12, "row");
    ow_begin(&r.w, "Loop", NULL);
    ow_in(&r.w, "trips");
    ow_in(&r.w, "");
    ow_in(&r.w, "a");
    ow_in(&r.w, "b");
    ow_out(&r.w, "final");
    ow_out(&r.w, "list");
    ow_out(&r.w, "rows");
    rig_attr_graph(&r, "body", &body);
    ow_end(&r.w);
    rig_output(&r, "final");
    rig_output(&r, "list");
    rig_output(&r, "rows");
    rig_infer(&r);
    assert_string_equal(rig_text(&r, "final"), "float32 2x3");
    assert_string_equal(rig_text(&r, "list"), "float32 ?x3");
    assert_string_equal(rig_text(&r, "rows"), "float32 5x2x3");
    buf_release(&body);
    rig_release(&r);
}

/* Loops in loops in loops: the work is bounded. */
static void test_nested_loops(void **state)
{
    struct rig r;
    struct buf body = { 0 };

    (void)state;
    rig_init(&r, 17);
    put_input(&r.w.io, "b", "1x3");
    put_constant(&r.w.io, "trips", "i(5)");
    for (int depth = 0; depth < 20; depth++) {
        struct buf next = { 0 };
        char in[40], out[40];
        size_t n, a;

        snprintf(in, sizeof(in), "v%d", depth);
        snprintf(out, sizeof(out), "w%d", depth);
        rig_info(&next, 11, "i");
        rig_info(&next, 11, "cond");
        rig_info(&next, 11, in);
        n = pb_begin(&next, 1);
        if (depth) {
            pb_str(&next, 1, "trips");
            pb_str(&next, 1, "");
            pb_str(&next, 1, in);
            pb_str(&next, 4, "Loop");
            a = pb_begin(&next, 5);
            pb_str(&next, 1, "body");
            pb_bytes(&next, 6, body.data, body.len);
            pb_varint(&next, 20, ATTR_GRAPH);
            pb_end(&next, a);
        } else {
            pb_str(&next, 1, in);
            pb_str(&next, 1, "b");
            pb_str(&next, 4, "Concat");
            put_attr(&next, "axis=0");
        }
        pb_str(&next, 2, out);
        pb_end(&next, n);
        rig_info(&next, 12, "cond");
        rig_info(&next, 12, out);
        buf_release(&body);
        body = next;
    }
    ow_begin(&r.w, "Loop", NULL);
    ow_in(&r.w, "trips");
    ow_in(&r.w, "");
    ow_in(&r.w, "b");
    ow_out(&r.w, "y");
    rig_attr_graph(&r, "body", &body);
    ow_end(&r.w);
    rig_output(&r, "y");
    rig_infer(&r);
    buf_release(&body);
    rig_release(&r);
}

static void test_sequences(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 17);
    put_input(&r.w.io, "x", "4x6");
    rig_node(&r.w.node, 1, "SplitToSequence", "x", "s");
    rig_node(&r.w.node, 1, "SequenceLength", "s", "n");
    rig_node(&r.w.node, 1, "SequenceAt", "s,n", "e");
    ow_begin(&r.w, "ConcatFromSequence", NULL);
    ow_in(&r.w, "s");
    ow_out(&r.w, "c");
    ow_attr_int(&r.w, "axis", 1);
    ow_end(&r.w);
    rig_output(&r, "e");
    rig_output(&r, "c");
    rig_infer(&r);
    assert_int_equal(rig_value(&r, "s")->kind, VALUE_SEQUENCE);
    assert_string_equal(rig_text(&r, "e"), "float32 1x6");
    assert_string_equal(rig_text(&r, "n"), "int64 scalar");
    assert_string_equal(rig_text(&r, "c"), "float32 1x?");
    rig_release(&r);
}

/* Both tables are searched by bisection: every row must be found. */
static void test_tables(void **state)
{
    static const struct {
        const char *domain, *name;
    } infer[] = {
#define OP(domain, name, fn, fold) { domain, name },
#define FOLD(fn)
#include "graph/infer_ops.def"
#undef OP
#undef FOLD
    }, footprint[] = {
#define FOOTPRINT(domain, name, fn, cost, weight) { domain, name },
#include "graph/footprint_ops.def"
#undef FOOTPRINT
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(infer); i++)
        assert_true(infer_knows(infer[i].domain, infer[i].name));
    for (size_t i = 0; i < ARRAY_SIZE(footprint); i++)
        assert_true(footprint_knows(footprint[i].domain, footprint[i].name));
    for (size_t i = 0; i < ARRAY_SIZE(infer); i++)
        if (infer[i].domain[0] == '\0' && !footprint_knows("", infer[i].name))
            fail_msg("%s has no footprint", infer[i].name);
    assert_false(infer_knows("", "NoSuchOperator"));
}

static void test_footprint(void **state)
{
    static const struct {
        struct op_case c;
        int64_t flops, read, write;
    } cases[] = {
        /* MegEngine's own example: 236.03 MFLO, 3.67 MiB */
        { { "Conv", 11, "1x3x224x224 64x3x7x7", "strides=2,2 pads=3,3,3,3", "" },
          236027904,
          602112 + 37632,
          3211264 },
        { { "Conv", 11, "1x3x224x224 64x3x7x7 64", "strides=2,2 pads=3,3,3,3", "" },
          236027904 + 802816,
          602112 + 37632 + 256,
          3211264 },
        { { "Conv", 11, "1x32x8x8 32x1x3x3", "group=32 pads=1,1,1,1", "" },
          2 * 9 * 2048,
          8192 + 1152,
          8192 },
        { { "ConvTranspose", 11, "1x4x3x3 4x2x3x3", "", "" }, 36 * 18 * 2, 144 + 288, 200 },
        { { "MatMul", 13, "7x2x3 3x4", "", "" }, 7 * 2 * 2 * 3 * 4, 168 + 48, 224 },
        { { "Gemm", 13, "3x2 4x3 4", "transA=1 transB=1", "" },
          2 * 2 * 3 * 4 + 8,
          24 + 48 + 16,
          32 },
        { { "MatMulInteger", 10, "uint8:2x3 int8:3x4", "", "" }, 48, 6 + 12, 32 },
        { { "Add", 13, "2x3 3", "", "" }, 6, 24 + 12, 24 },
        { { "Sum", 13, "2x3 3 3", "", "" }, 12, 24 + 12 + 12, 24 },
        { { "Relu", 13, "2x3", "", "" }, 6, 24, 24 },
        { { "Sigmoid", 13, "2x3", "", "" }, 24, 24, 24 },
        { { "Softmax", 13, "2x3", "", "" }, 30, 24, 24 },
        { { "LayerNormalization", 17, "2x4 4 4", "", "" }, 56, 64, 32 },
        { { "MaxPool", 12, "1x1x4x4", "kernel_shape=2,2 strides=2,2", "" }, 16, 64, 16 },
        { { "GlobalAveragePool", 12, "1x2x4x4", "", "" }, 32, 128, 8 },
        { { "ReduceSum", 13, "2x3x4", "", "" }, 24, 96, 4 },
        { { "Concat", 13, "2x3 2x4", "axis=1", "" }, 14, 24 + 32, 56 },
        { { "Transpose", 13, "2x3", "", "" }, 6, 24, 24 },
        { { "Reshape", 13, "2x3 i[6]", "", "" }, 0, 24 + 8, 24 },
        { { "Gather", 13, "1000x8 int64:2", "", "" }, 16, 64 + 16, 64 },
        { { "LSTM", 14, "5x2x3 1x16x3 1x16x4", "hidden_size=4", "" },
          10 * (2 * 16 * 7 + 4 * (4 + 18)),
          120 + 192 + 256,
          160 },
        { { "Resize", 13, "1x1x2x2 - f[1,1,2,2]", "mode='linear'", "" }, 16 * 9, 16 + 16, 64 },
        { { "Einsum", 12, "2x3 3x4", "equation='ij,jk->ik'", "" }, 48, 24 + 48, 32 },
        { { "Einsum", 12, "5x2x3 5x3x4", "equation='...ij,...jk->...ik'", "" },
          240,
          120 + 240,
          160 },
        { { "Attention", 23, "1x2x3x8 1x2x5x8 1x2x5x8", "", "" },
          2 * 15 * (32 + 6),
          192 + 320 + 320,
          192 },
        { { "Shape", 13, "2x3", "", "" }, 0, 0, 16 },
        { { "Relu", 13, "Nx3", "", "" }, -1, -1, -1 },
        { { "NonMaxSuppression", 11, "1x6x4 1x1x6", "", "" }, -1, 96 + 24, -1 },
        { { "my.own/Thing", 1, "2x3", "", "" }, -1, 24, -1 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct footprint f;
        struct rig r;

        one_node(&r, &cases[i].c);
        assert_int_equal(graph_infer(r.m, NULL, &r.err), 0);
        node_footprint(r.m->graph, &r.m->graph->node[0], &f);
        if (f.flops != cases[i].flops || f.read_bytes != cases[i].read ||
            f.write_bytes != cases[i].write)
            fail_msg("%s %s: %lld FLOPs, %lld and %lld bytes", cases[i].c.op, cases[i].c.in,
                     (long long)f.flops, (long long)f.read_bytes, (long long)f.write_bytes);
        rig_release(&r);
    }
}

/* Zero ratios, against the definition read aloud. */
static void brute_zeros(const struct tensor *t, int axis, struct weight_zeros *out)
{
    int64_t rows = t->shape.dim[axis], inner = 1, cols, n4 = 0, n16 = 0, b4 = 0, b16 = 0, z = 0;

    for (int i = axis + 1; i < t->shape.rank; i++)
        inner *= t->shape.dim[i];
    cols = t->count / rows;
#define AT(r, c) tensor_float(t, ((c) / inner * rows + (r)) * inner + (c) % inner)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            z += AT(r, c) == 0;
    for (int64_t r = 0; r < rows; r += 4)
        for (int64_t c = 0; c < cols; c++, n4++) {
            bool all = true;

            for (int64_t k = r; k < rows && k < r + 4; k++)
                all = all && AT(k, c) == 0;
            b4 += all;
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c += 16, n16++) {
            bool all = true;

            for (int64_t k = c; k < cols && k < c + 16; k++)
                all = all && AT(r, k) == 0;
            b16 += all;
        }
#undef AT
    *out = (struct weight_zeros){ (double)z / (double)t->count, (double)b4 / (double)n4,
                                  (double)b16 / (double)n16 };
}

static void test_weight_zeros(void **state)
{
    static const struct {
        enum tensor_type type;
        struct shape shape;
    } cases[] = {
        { TENSOR_F32, { 2, { 8, 32 } } },      { TENSOR_F32, { 2, { 7, 35 } } },
        { TENSOR_F32, { 4, { 6, 5, 3, 3 } } }, { TENSOR_F16, { 2, { 9, 17 } } },
        { TENSOR_I8, { 2, { 130, 70 } } },     { TENSOR_U8, { 3, { 5, 6, 7 } } },
        { TENSOR_F64, { 2, { 3, 50 } } },      { TENSOR_I4, { 2, { 4, 16 } } },
        { TENSOR_BF16, { 1, { 33 } } },
    };
    uint8_t *data = malloc(1 << 20);
    uint64_t x = 12345;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (int axis = 0; axis < cases[i].shape.rank; axis++) {
            struct tensor t = { .type = cases[i].type, .shape = cases[i].shape, .data = data + 1 };
            struct weight_zeros got, want;
            size_t width = (size_t)MAX(tensor_type_bits(t.type) / 8, 1);

            t.count = shape_count(&t.shape);
            t.bytes = (size_t)shape_bytes(&t.shape, t.type);
            memset(data, 0, 1 << 20);
            for (size_t k = 0; k < t.bytes / width; k++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                if (x >> 60 == 0) /* a few numbers, and a few -0.0 */
                    data[1 + k * width + width - 1] = x >> 32 & 1 ? 0x80 : 0x11;
            }
            weight_zeros(&t, axis, &got);
            brute_zeros(&t, axis, &want);
            assert_true(got.element == want.element);
            assert_true(got.b4x1 == want.b4x1);
            assert_true(got.b1x16 == want.b1x16);
        }
    {
        struct tensor none = { .type = TENSOR_F32, .shape = { 1, { 0 } }, .data = data };
        struct weight_zeros z;

        weight_zeros(&none, 0, &z);
        assert_true(isnan(z.element));
    }
    free(data);
}

static int infer_once(void)
{
    struct rig r;
    opm_error err = { 0 };
    int rc;

    rig_init(&r, 17);
    put_input(&r.w.io, "x", "2x3");
    rig_node(&r.w.node, 1, "Shape", "x", "s");
    rig_node(&r.w.node, 1, "Mul", "s,s", "t");
    rig_node(&r.w.node, 1, "ReduceProd", "t", "p");
    rig_output(&r, "p");
    rc = ow_finish(&r.w, &r.file, NULL);
    if (!rc)
        rc = model_parse(&r.m, r.file.data, r.file.len, "m.onnx", NULL, &err);
    if (!rc)
        rc = graph_infer(r.m, NULL, &err);
    rig_release(&r);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(infer_once);
}

/* The node tests of ONNX, if Debian's libonnx-testdata is here: what is inferred from the recorded
 * inputs must be what was recorded as outputs. */
#define CASES "/usr/share/libonnx-testdata/data"
#define INPUTS_MAX 64

struct tally {
    int cases, resolved, open, wrong, skipped;
};

static bool read_tensor_file(struct loader *ld, const char *dir, const char *stem, uint32_t i,
                             struct io_map *map, struct tensor *out)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/test_data_set_0/%s_%u.pb", dir, stem, i);
    if (io_map(map, path, 0, NULL))
        return false;
    ld->steps = 0;
    return ld_tensor(ld, (struct slice){ map->data, map->len }, path, out) == 0;
}

static void compare_output(struct tally *t, const char *dir, const struct value *v,
                           const struct tensor *want)
{
    char got[160], rec[160];
    bool same = v->type == TENSOR_NONE || v->type == want->type;

    /* Python had no bfloat16 when the data was recorded. */
    same = same || (v->type == TENSOR_BF16 && want->type == TENSOR_U16);
    if (v->shape.rank >= 0 && v->shape.rank != want->shape.rank)
        same = false;
    for (int32_t d = 0; d < v->shape.rank && same; d++)
        same = v->shape.dim[d] < 0 || v->shape.dim[d] == want->shape.dim[d];
    for (int64_t i = 0; same && v->data && i < want->count && want->type != TENSOR_STRING; i++) {
        double a = tensor_float(v->data, i), b = tensor_float(want, i);

        same = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * (1 + fabs(b));
    }
    if (!same) {
        shape_text(&v->shape, got, sizeof(got));
        shape_text(&want->shape, rec, sizeof(rec));
        print_message("%s: '%s' is %s %s, recorded %s %s\n", dir, v->name,
                      tensor_type_name(v->type), got, tensor_type_name(want->type), rec);
        t->wrong++;
    } else if (v->type == TENSOR_NONE || !shape_concrete(&v->shape))
        t->open++;
    else
        t->resolved++;
}

static void run_case(struct tally *t, const char *dir)
{
    struct infer_input in[INPUTS_MAX];
    struct tensor tensor[INPUTS_MAX], want;
    struct io_map map[INPUTS_MAX + 1] = { 0 };
    struct infer_options opt = { .input = in, .inputs_only = true };
    opm_error err = { 0 };
    struct model *m;
    struct loader ld;
    char path[512];
    bool half = false;

    snprintf(path, sizeof(path), "%s/model.onnx", dir);
    if (model_load(&m, path, &err))
        fail_msg("%s", err.msg);
    t->cases++;
    ld = (struct loader){ .m = m, .impl = m->impl, .err = &err, .steps_max = 1 << 20 };
    for (uint32_t i = 0; i < m->graph->ninput && i < INPUTS_MAX; i++) {
        const struct value *v = &m->graph->value[m->graph->input[i]];
        struct tensor *x = &tensor[opt.ninput];

        half = half || v->type == TENSOR_BF16;
        if (v->kind == VALUE_TENSOR && read_tensor_file(&ld, dir, "input", i, &map[i], x))
            in[opt.ninput++] = (struct infer_input){ .name = v->name, .data = x };
    }
    if (half)
        opt.ninput = 0; /* recorded as something else, see above */
    if (graph_infer(m, &opt, &err)) {
        print_message("%s\n", err.msg);
        t->wrong++;
    } else
        for (uint32_t i = 0; i < m->graph->noutput; i++) {
            const struct value *v = &m->graph->value[m->graph->output[i]];

            if (v->kind == VALUE_TENSOR &&
                read_tensor_file(&ld, dir, "output", i, &map[INPUTS_MAX], &want))
                compare_output(t, dir, v, &want);
            else
                t->skipped++;
            io_map_release(&map[INPUTS_MAX]);
        }
    /* And as the file stands: what it declares must agree with what is inferred. */
    if (graph_infer(m, NULL, &err)) {
        print_message("%s\n", err.msg);
        t->wrong++;
    }
    for (size_t i = 0; i < INPUTS_MAX; i++)
        io_map_release(&map[i]);
    model_free(m);
}

static void test_node_cases(void **state)
{
    static const char *const folders[] = { "node", "pytorch-converted", "pytorch-operator",
                                           "simple" };
    struct tally t = { 0 };

    (void)state;
    if (access(CASES "/node", R_OK) < 0)
        skip();
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        char path[400], dir[400];
        struct dirent *e;
        DIR *d;

        snprintf(path, sizeof(path), "%s/%s", CASES, folders[i]);
        d = opendir(path);
        if (!d)
            continue;
        for (e = readdir(d); e; e = readdir(d)) {
            if (strncmp(e->d_name, "test_", 5) != 0)
                continue;
            snprintf(dir, sizeof(dir), "%.120s/%.250s", path, e->d_name);
            run_case(&t, dir);
        }
        closedir(d);
    }
    print_message("%d cases: %d outputs resolved, %d open, %d wrong, %d not tensors\n", t.cases,
                  t.resolved, t.open, t.wrong, t.skipped);
    assert_int_equal(t.wrong, 0);
    assert_true(t.cases >= 932 && t.open <= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_shape_operators),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_shape_arithmetic),
        cmocka_unit_test(test_expand_chain),
        cmocka_unit_test(test_folding),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_input_data),
        cmocka_unit_test(test_declared),
        cmocka_unit_test(test_if),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_nested_loops),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_footprint),
        cmocka_unit_test(test_weight_zeros),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_node_cases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
