/* test_infer_ops.c -- types and shapes, operator by operator: operands, attributes, what comes out.
 */
#include "infer_rig.h"

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
        { "ImageDecoder", 20, "uint8:N", "", "uint8 ?x?x3" },
        { "ImageDecoder", 20, "uint8:N", "pixel_format='Grayscale'", "uint8 ?x?x1" },
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
        { "com.microsoft/GatherBlockQuantized", 1, "uint8:9x20 int64:2x3 9x3",
          "bits=4 block_size=16", "float32 2x3x40" },
        { "com.microsoft/GatherBlockQuantized", 1, "int4:9x40 int64:5 9x3", "block_size=16",
          "float32 5x40" },
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
        { "com.microsoft/SkipGroupNorm", 1, "2x3x3x4 4 4 2x4", "",
          "float32 2x3x3x4 | float32 2x3x3x4" },
        { "com.microsoft/QLinearReduceMean", 1,
          "int8:2x3x4 f(1) int8: f(1) int8:", "axes=1, keepdims=0", "int8 2x4" },
        { "com.microsoft/CDist", 1, "5x9 7x9", "", "float32 5x7" },
        { "com.microsoft/CDist", 1, "5x9 7x8", "", "!rows of one length" },
        { "DynamicSlice", 9, "4x9 i[1,-3] i[3,99]", "", "float32 2x3" },
        { "DynamicSlice", 9, "4x9 int64:2 int64:2", "", "float32 ?x?" },
        { "Crop", 1, "1x3x8x9", "border=2,1,3,0", "float32 1x3x7x4" },
        { "Crop", 1, "Nx3x8x9", "border=2,1,0,0 scale=4,5", "float32 Nx3x4x5" },
        { "Crop", 1, "1x3x8x9", "border=2,1,0,0 scale=8,5", "!borders do not fit" },
        { "com.microsoft/CropAndResize", 1, "2x3x8x9 Rx4 int32:R int32:2", "", "float32 Rx3x?x?" },
        { "com.microsoft/CropAndResize", 1, "2x3x8x9 5x4 int32:5 i[4,6]", "", "float32 5x3x4x6" },
        { "com.microsoft/DynamicTimeWarping", 1, "1x8x9", "", "int32 2x?" },
        { "com.microsoft/DynamicTimeWarping", 1, "2x8x9", "", "!wants a matrix" },
        { "com.microsoft/MurmurHash3", 1, "int64:2x3", "", "uint32 2x3" },
        { "com.microsoft/MurmurHash3", 1, "int64:2x3", "positive=0", "int32 2x3" },
        { "com.microsoft/NGramRepeatBlock", 1, "int64:2x9 2x50", "ngram_size=3", "float32 2x50" },
        { "com.microsoft/NhwcMaxPool", 1, "uint8:1x8x9x3", "kernel_shape=2,3 strides=2,1",
          "uint8 1x4x7x3" },
        { "com.microsoft/Tokenizer", 1, "string:5", "", "string 5x?" },
        { "com.microsoft/Tokenizer", 1, "string:5x2", "", "string 5x2x?" },
        { "com.microsoft/Tokenizer", 1, "string:5x0", "", "string 5x0" },
        { "com.microsoft/Tokenizer", 1, "string:0", "", "string 0" },
        { "com.microsoft/Tokenizer", 1, "string:1x2x3", "", "!one or two dimensions, not 3" },
        { "com.microsoft/MatMulInteger16", 1, "int16:2x5x3 int16:3x7", "", "int32 2x5x7" },
        { "com.microsoft/BifurcationDetector", 1, "int64:9 int64:4 int64:1 int64:6", "",
          "int64 ? | int64 1" },
        { "com.microsoft/BifurcationDetector", 1, "int64:9 int64:4 int64:1", "",
          "int64 4 | int64 1" },
        { "com.microsoft/MaxpoolWithMask", 1, "1x3x7x9 int32:1x1x7x9",
          "kernel_shape=3,3 strides=2,2", "float32 1x3x3x4" },
        { "com.microsoft/ConvTransposeWithDynamicPads", 1, "1x4x3x3 4x2x3x3 i[1,0,1,1]",
          "strides=3,2", "float32 1x2x7x6" },
        { "com.microsoft/ConvTransposeWithDynamicPads", 1, "1x4x3x3 4x2x3x3 int64:4 2",
          "strides=3,2", "float32 1x2x?x?" },
        { "com.microsoft/ConvTransposeWithDynamicPads", 1, "1x4x3x3 4x2x3x3",
          "strides=3,2 output_padding=1,1", "float32 1x2x10x8" },
        { "com.microsoft/ConvTransposeWithDynamicPads", 1, "1x4x3x3 4x2x3x3 i[1,0,1]", "",
          "!input 2 has 3 numbers instead of 4" },
        { "com.microsoft/WordConvEmbedding", 1, "int32:7x12 50x1x3x8 50 99x8", "", "float32 7x50" },
        { "com.microsoft/DecoderMaskedMultiHeadAttention", 1,
          "2x1x24 2x1x24 2x1x24 - - 2x4x9x6 2x4x9x6 int32:1",
          "num_heads=4 past_present_share_buffer=1",
          "float32 2x1x24 | float32 2x4x9x6 | float32 2x4x9x6 | float32 2x4x1x?" },
        { "com.microsoft/DecoderMaskedMultiHeadAttention", 1, "2x1x72 - - - - 2x4x9x6 2x4x9x6",
          "num_heads=4",
          "float32 2x1x24 | float32 2x4x10x6 | float32 2x4x10x6 | float32 2x4x1x10" },
        { "com.microsoft/MultiHeadAttention", 1, "2x3x24 2x5x24 2x5x24", "num_heads=4",
          "float32 2x3x24 | float32 2x4x5x6 | float32 2x4x5x6 | float32 2x4x3x5" },
        { "com.microsoft/GroupQueryAttention", 1,
          "1x3x32 1x3x16 1x3x16 1x2x20x8 1x2x20x8 int32:1 i(12)",
          "num_heads=4 kv_num_heads=2 qk_output=1",
          "float32 1x3x32 | float32 1x2x20x8 | float32 1x2x20x8 | float32 1x4x3x12" },
        { "com.microsoft/CausalConvWithState", 1, "2x5x9 5x1x4", "dilation=3",
          "float32 2x5x9 | float32 2x5x9" },
        { "com.microsoft/CausalConvWithState", 1, "2x9x5x3 15x1x4", "channels_last=1",
          "float32 2x9x5x3 | float32 2x3x5x3" },
        { "com.microsoft/CausalConvWithState", 1, "2x5x9 5x1x4", "state_window=2",
          "float32 2x5x9 | float32 2x2x5x3" },
        { "com.microsoft/LinearAttentionGate", 1, "2x5x4 4 4 2x5x4", "",
          "float32 2x5x4 | float32 2x5x4" },
        { "com.microsoft/MRotaryEmbedding", 1, "2x5x32 int64:3x2x5 64x4 64x4",
          "num_heads=4 mrope_section=2,1,1", "float32 2x5x32" },
        { "com.microsoft/NGramHashMapping", 1, "int32:2x9 int32:4 int32:6",
          "max_ngram_size=4 n_head_per_ngram=2 pad_id=0", "int32 2x9x6 | int32 2x3" },
        { "com.microsoft/NGramHashMapping", 1, "int32:2x9 int32:4 int32:6", "max_ngram_size=1",
          "!n-grams of 1" },
        { "com.microsoft/SparseAttention", 1,
          "2x5x32 2x5x16 2x5x16 2x2x64x8 2x2x64x8 int32:1x5 int32:1x9 int32:1 int32:2",
          "num_heads=4 kv_num_heads=2 sparse_block_size=16",
          "float32 2x5x32 | float32 2x2x64x8 | float32 2x2x64x8" },
        { "com.microsoft/SparseAttention", 1,
          "2x5x64 - - 2x2x64x8 2x2x64x8 int32:1x5 int32:1x9 int32:1 int32:2",
          "num_heads=4 kv_num_heads=2 sparse_block_size=16",
          "float32 2x5x32 | float32 2x2x64x8 | float32 2x2x64x8" },
        { "com.microsoft/UnfoldTensor", 1, "2x9x3", "dim=1 size=4 step=2", "float32 2x3x3x4" },
        { "com.microsoft/UnfoldTensor", 1, "2x9x3", "size=4", "!the window is longer" },
        { "com.microsoft/Unique", 1, "9", "", "float32 ? | int64 9 | int64 ?" },
        { "com.microsoft/FusedMatMul", 1, "3x2x4 2x4x5", "transBatchA=1", "float32 2x3x5" },
        { "com.microsoft/FusedMatMul", 1, "2x4x3 2x5x4", "transA=1 transB=1", "float32 2x3x5" },
        { "com.microsoft/RelativePositionBias", 1, "32x8 i(5) i(7)", "max_distance=128",
          "float32 1x8x5x7" },
        { "LinearAttention", 27, "2x7x20 2x7x10 2x7x6", "q_num_heads=4 kv_num_heads=2",
          "float32 2x7x12 | float32 2x2x5x3" },
        { "CausalConvWithState", 27, "2x5x9 5x1x4", "", "float32 2x5x9 | float32 2x5x3" },
        { "NegativeLogLikelihoodLoss", 13, "2x3x4 int64:2x4", "", "float32 scalar" },
        { "SoftmaxCrossEntropyLoss", 13, "2x3x4 int64:2x4", "reduction='none'",
          "float32 2x4 | float32 2x3x4" },
        { "HannWindow", 17, "i(10)", "", "float32 10" },
        { "MelWeightMatrix", 17, "i(8) i(16) i(8192) f(0) f(8192)", "", "float32 9x8" },
        { "DFT", 17, "1x16x1", "onesided=1", "float32 1x9x2" },
        { "DFT", 20, "1x16x1 i(20) i(1)", "", "float32 1x20x2" },
        { "DFT", 20, "1x9x2", "onesided=1 inverse=1", "float32 1x16x1" },
        { "STFT", 17, "1x128x1 i(8) 16", "", "float32 1x15x9x2" },
        { "NonMaxSuppression", 11, "1x6x4 1x1x6", "", "int64 ?x3" },
        { "ai.onnx.ml/TreeEnsembleRegressor", 1, "5x4", "n_targets=2", "float32 5x2" },
    };

    (void)state;
    CHECK(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),     cmocka_unit_test(test_conv),
        cmocka_unit_test(test_products),        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_shape_operators), cmocka_unit_test(test_reductions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
