/* test_footprint.c -- FLOPs, bytes and zeros of weights. */
#include "graph/footprint.h"

#include "graph/ops/ops.h"
#include "graph/weights.h"
#include "infer_rig.h"

#include <math.h>

/* The table is searched by bisection: every row must be found, and for its versions. */
static void test_table(void **state)
{
    static const struct {
        const char *domain, *name;
        int version;
    } rows[] = {
#define ALL 1
#define SINCE(n) n
#define UNTIL(n) n
#define OP(domain, name, versions, infer, fold, flops, weight) { domain, name, versions },
#include "graph/ops/ops.def"
#undef OP
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct op_info *info = op_find(rows[i].domain, rows[i].name, rows[i].version);

        if (!info || strcmp(info->name, rows[i].name) != 0 ||
            strcmp(info->domain, rows[i].domain) != 0 ||
            (rows[i].version != info->versions.first && rows[i].version != info->versions.last))
            fail_msg("%s of version %d is not found", rows[i].name, rows[i].version);
    }
    assert_null(op_find("", "NoSuchOperator", 0));
    assert_ptr_not_equal(op_find("", "Tile", 5), op_find("", "Tile", 6));
    assert_ptr_equal(op_find("", "Tile", 0), op_find("", "Tile", 6));
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
        /* 2 x 4 results of 3 products and sums each, and C; operands of a byte, scales of four */
        { { "com.microsoft/QGemm", 1,
            "uint8:2x3 scalar uint8:scalar uint8:3x4 scalar uint8:scalar int32:4 scalar "
            "uint8:scalar",
            "", "" },
          2 * 4 * 3 * 2 + 8,
          6 + 5 + 12 + 5 + 16 + 5,
          8 },
        /* DequantizeLinear 2, Concat 1, QuantizeLinear 5 for each of 14 */
        { { "com.microsoft/QLinearConcat", 1,
            "scalar uint8:scalar uint8:2x3 scalar uint8:scalar uint8:2x4 scalar uint8:scalar",
            "axis=1", "" },
          14 * 8,
          5 + 6 + 5 + 8 + 5,
          14 },
        /* 2 x 3 x 8: rows of three tables from 8 bits, two sums, LayerNormalization's 7 */
        { { "com.microsoft/QEmbedLayerNormalization", 1,
            "int32:2x3 int32:2x3 uint8:100x8 uint8:16x8 uint8:2x8 uint8:8 uint8:8 int32:2x3 "
            "scalar scalar scalar scalar scalar uint8:scalar uint8:scalar uint8:scalar "
            "uint8:scalar uint8:scalar",
            "", "|" },
          48 * (3 * 2 + 2 + 7),
          24 + 24 + 800 + 128 + 16 + 8 + 8 + 24 + 5 * 4 + 5,
          192 + 8 },
        { { "com.microsoft/EmbedLayerNormalization", 1, "int32:2x3 - 100x8 16x8 - 8 8", "", "" },
          48 * 8,
          24 + 3200 + 512 + 32 + 32,
          192 },
        { { "com.microsoft/SimplifiedLayerNormalization", 1, "2x4 4", "", "" }, 32, 32 + 16, 32 },
        /* two sums, a Gelu of 5 and a product for each of 8 */
        { { "com.microsoft/BiasSplitGelu", 1, "1x2x8 8", "", "" }, 64, 64 + 32, 32 },
        /* the bias is the fourth operand */
        { { "com.microsoft/ConvTransposeWithDynamicPads", 1, "1x4x3x3 4x2x3x3 i[0,0,0,0] 2", "",
            "" },
          36 * 18 * 2 + 50,
          144 + 288 + 32 + 8,
          200 },
        /* 7 words, a filter at 10 places: 24 products and sums for each of 50 */
        { { "com.microsoft/WordConvEmbedding", 1, "int32:7x12 50x1x3x8 50 99x8", "", "" },
          7 * 10 * 50 * 24 * 2,
          336 + 4800 + 200 + 3168,
          1400 },
        { { "com.microsoft/MatMulInteger16", 1, "int16:2x3 int16:3x4", "", "" },
          2 * 4 * 3 * 2,
          12 + 24,
          32 },
        /* a sum, softplus of 3, a product; and a sigmoid of 4 for what is learnt */
        { { "com.microsoft/LinearAttentionGate", 1, "2x4 4 4", "", "" }, 8 * 5, 32 + 32, 32 },
        { { "com.microsoft/LinearAttentionGate", 1, "2x4 4 4 2x4", "", "|" },
          8 * 9,
          32 + 32 + 32,
          64 },
        /* 2 x 4 heads, 9 keys: two products of 6, and softmax of 6 */
        { { "com.microsoft/DecoderMaskedMultiHeadAttention", 1, "2x1x24 2x4x9x6 2x4x9x6",
            "num_heads=4", "" },
          8 * 9 * (6 * 4 + 6),
          192 + 2 * 1728,
          192 },
        /* of tables for 100 positions those of 3 tokens, for 2 all: 6 tokens are more */
        { { "com.microsoft/RotaryEmbedding", 1, "2x3x8 int64:2x3 100x2 2x2", "num_heads=2", "" },
          48 * 3,
          192 + 48 + 6 * 8 + 16,
          192 },
        { { "RotaryEmbedding", 23, "1x2x3x4 100x2 100x2 int64:1x3", "", "" },
          24 * 3,
          96 + 3 * 8 + 3 * 8 + 24,
          96 },
        /* a new row, with 16 past ones of keys and values of one head of 4 */
        { { "com.microsoft/GroupQueryAttention", 1,
            "1x1x8 1x1x4 1x1x4 1x1x16x4 1x1x16x4 int32:1 i(17) 4096x2 4096x2",
            "num_heads=2 kv_num_heads=1 do_rotary=1", "||" },
          2 * 17 * (4 * 4 + 6),
          32 + 16 + 16 + 256 + 256 + 4 + 8 + 8 + 8,
          32 + 272 + 272 },
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_footprint),
        cmocka_unit_test(test_weight_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
