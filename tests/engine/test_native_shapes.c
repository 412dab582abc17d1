/* test_native_shapes.c -- the native engine and shape inference have one notion of shapes. */
#include "engine/native/isa/isa.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"
#include "onnx_make.h"

#include "../unit/infer_rig.h"

#define NEWEST_OPSET 26

/* What these compute depends on their data. */
static bool data_decides(const char *name)
{
    return strcmp(name, "NonMaxSuppression") == 0 || strcmp(name, "Unique") == 0 ||
           strcmp(name, "TfIdfVectorizer") == 0 || strncmp(name, "TreeEnsemble", 12) == 0;
}

/* Every operator that a kernel executes has rules for shapes and FLOPs, in all its versions. */
static void kernels_have_rules(void **state)
{
    static const struct {
        const char *name, *domain;
        int min, max;
    } kernels[] = {
#define OPERATOR(type, domain, min, max, name, flags, arg, raw) { #type, domain, min, max },
#include "engine/native/kernels.def"
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
        int last = kernels[i].max ? kernels[i].max : NEWEST_OPSET;

        for (int v = kernels[i].min; v <= last; v++) {
            const struct op_info *info = op_find(kernels[i].domain, kernels[i].name, v);

            if (!info)
                fail_msg("%s %s of version %d is not in ops.def", kernels[i].domain,
                         kernels[i].name, v);
            if (info->flops.fn == flops_unknown && !data_decides(kernels[i].name))
                fail_msg("%s %s of version %d has no footprint", kernels[i].domain, kernels[i].name,
                         v);
        }
    }
}

/* Run a node on zeros; out has what it returned, without its data. */
static int run_zeros(struct rig *r, struct engine_tensor out[4], opm_error *err)
{
    const struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct engine_tensor in[8];
    struct engine *e = NULL;
    const struct graph *g = r->m->graph;
    int rc;

    assert_in_range(g->ninput, 0, ARRAY_SIZE(in));
    for (uint32_t i = 0; i < g->ninput; i++) {
        const struct value *v = &g->value[g->input[i]];
        size_t bytes = (size_t)shape_bytes(v->declared, v->declared_type);

        in[i] = (struct engine_tensor){ .type = v->declared_type,
                                        .shape = *v->declared,
                                        .data = calloc(bytes + 64, 1),
                                        .bytes = bytes };
        assert_non_null(in[i].data);
    }
    rc = engine_native.open(&e, r->m, &opts, err);
    if (!rc)
        rc = e->class->run(e, in, g->ninput, out, g->noutput, err);
    if (e)
        e->class->close(e);
    for (uint32_t i = 0; i < g->ninput; i++)
        free(in[i].data);
    return rc;
}

/* Where both used to differ, or one of them was wrong: what ONNX says. "!text": both say so. */
static void same_shapes(void **state)
{
    static const struct op_case cases[] = {
        { "Conv", 11, "1x1x5x5 1x1x3x3", "auto_pad='' pads=1,1,1,1", "1x1x5x5" },
        { "Conv", 11, "1x1x5x5 1x1x3x3", "auto_pad='NOTSET' pads=1,1,1,1", "1x1x5x5" },
        { "Conv", 11, "1x1x5x5 1x1x3x3", "auto_pad='VALID' pads=1,1,1,1", "1x1x3x3" },
        { "Conv", 11, "1x1x6x6 1x1x3x3", "auto_pad='SAME_LOWER' strides=2,2", "1x1x3x3" },
        { "Conv", 11, "1x1x5x5 1x1x3x3", "auto_pad='SAME'", "!'auto_pad' is 'SAME'" },
        { "Conv", 11, "1x1x5x5 1x1x3x3", "pads=-1,0,0,0", "!'pads' has the value -1" },
        { "Conv", 11, "1x1x5x5 1x1x3x3", "kernel_shape=2,2", "!the weight has 3" },
        { "Conv", 11, "1x4x5x5 3x2x3x3", "group=2", "!3 output channels in 2 groups" },
        { "MaxPool", 12, "1x1x2x2", "kernel_shape=3,3", "!a window of 3 over 2 elements" },
        { "AveragePool", 11, "1x1x5x5", "", "!'kernel_shape' is missing" },
        /* the second window would start at 3, in the padding at the end */
        { "MaxPool", 12, "1x1x2x2", "kernel_shape=1,1 strides=3,3 pads=0,0,2,2 ceil_mode=1",
          "1x1x1x1" },
        /* 0, 2 and 4; the one at 4 is cut short */
        { "MaxPool", 12, "1x1x5x5", "kernel_shape=2,2 strides=2,2 ceil_mode=1", "1x1x3x3" },
        { "ConvTranspose", 11, "1x1x3x3 1x1x3x3", "strides=2,2 output_shape=6,6", "1x1x6x6" },
        { "ConvTranspose", 11, "1x1x3x3 1x1x3x3", "output_shape=6,6,6",
          "!'output_shape' has 3 numbers" },
        /* float32: 10 x 0.7 is 7 */
        { "Resize", 13, "1x1x10x10 - f[1,1,0.7,0.7]", "", "1x1x7x7" },
        { "Resize", 13, "1x1x10x10", "", "!neither scales nor sizes" },
        { "Split", 13, "5", "", "!!5 elements in 2 equal pieces" },
        { "Concat", 13, "2 2", "", "!'axis' is missing" },
        { "Gemm", 13, "2x3 3x4 5", "", "!do not broadcast" },
        { "Gemm", 13, "2x3 3x1 2x4", "", "!C is larger" },
        { "PRelu", 16, "2x1 3", "", "!slope is larger" },
        { "GatherElements", 13, "2x3 int64:3x3", "axis=1", "!3 indices for 2 elements" },
        { "GatherND", 13, "2x3 int64:3x1", "batch_dims=1", "!shared dimension" },
        { "ScatterND", 13, "4x3 int64:2x1 2x2", "", "!updates of shape 2x2" },
        { "SpaceToDepth", 13, "1x1x3x4", "blocksize=2", "!3 elements in blocks of 2" },
        { "Det", 13, "2x3", "", "!square" },
        { "TopK", 13, "3 i[4]", "", "!wants the first 4 of 3" },
        { "Pad", 13, "2 i[0,-3]", "", "!pads 2 elements by -3" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *want = cases[i].want, *text = want + strspn(want, "!");
        const char *const who[] = { "inference", "engine" };
        struct engine_tensor out[4];
        struct shape got[2];
        opm_error err[2] = { 0 };
        int rc[2];
        char have[120];
        struct rig r;

        one_node(&r, &cases[i]);
        rc[0] = graph_infer(r.m, NULL, &err[0]);
        got[0] = r.m->graph->value[r.m->graph->output[0]].shape;
        rc[1] = run_zeros(&r, out, &err[1]);
        if (!rc[1])
            got[1] = out[0].shape;
        for (int k = 0; k < 2; k++) {
            if (want[0] == '!') {
                if (!rc[k] || !strstr(err[k].msg, text) || !strstr(err[k].msg, cases[i].op))
                    fail_msg("%s %s: %s says '%s'", cases[i].op, cases[i].attrs, who[k],
                             err[k].msg);
                continue;
            }
            if (rc[k])
                fail_msg("%s %s: %s says '%s'", cases[i].op, cases[i].attrs, who[k], err[k].msg);
            shape_text(&got[k], have, sizeof(have));
            if (strcmp(have, want) != 0)
                fail_msg("%s %s: %s has %s", cases[i].op, cases[i].attrs, who[k], have);
        }
        rig_release(&r);
    }
}

/* Types and shapes of all results, by the definitions of the operators. */
static void same_results(void **state)
{
    static const struct op_case cases[] = {
        /* 5 keys are past, 3 come */
        { "Attention", 23, "1x2x3x4 1x2x3x4 1x2x3x4 - 1x2x5x4 1x2x5x4", "",
          "float32 1x2x3x4 | float32 1x2x8x4 | float32 1x2x8x4" },
        /* two heads of queries, of 4 numbers; one of keys, whose values have 6 */
        { "Attention", 23, "1x3x8 1x5x4 1x5x6", "q_num_heads=2 kv_num_heads=1",
          "float32 1x3x12 | float32 1x1x5x4 | float32 1x1x5x6" },
        { "Attention", 23, "1x3x8 1x1x5x4 1x1x5x6", "q_num_heads=2",
          "float32 1x3x12 | float32 1x1x5x4 | float32 1x1x5x6" },
        { "com.microsoft/Attention", 1, "1x3x4 4x12 12 - 2x1x2x5x2", "num_heads=2",
          "float32 1x3x4 | float32 2x1x2x8x2" },
        { "com.microsoft/QAttention", 1, "uint8:1x3x4 uint8:4x12 12 f(1) f(1)", "num_heads=2",
          "float32 1x3x4 | float32 2x1x2x3x2" },
        { "com.microsoft/MultiHeadAttention", 1, "1x3x8 1x5x8 1x5x8 - - - 1x2x4x4 1x2x4x4",
          "num_heads=2", "float32 1x3x8 | float32 1x2x9x4 | float32 1x2x9x4" },
        { "com.microsoft/MultiHeadAttention", 1, "1x3x8 1x2x5x4 1x2x5x4", "num_heads=2",
          "float32 1x3x8 | float32 1x2x5x4 | float32 1x2x5x4" },
        /* 16 numbers are two heads of queries and one each of keys and values */
        { "com.microsoft/GroupQueryAttention", 1, "1x1x16 - - 1x1x6x4 1x1x6x4 int32:1 i(8)",
          "num_heads=2 kv_num_heads=1", "float32 1x1x8 | float32 1x1x8x4 | float32 1x1x8x4" },
        { "RotaryEmbedding", 23, "1x2x3x4 1x3x2 1x3x2", "", "float32 1x2x3x4" },
        /* statistics have the type of the computation, not of the operand */
        { "LayerNormalization", 17, "float64:2x3 float64:3", "",
          "float64 2x3 | float32 2x1 | float32 2x1" },
        { "NegativeLogLikelihoodLoss", 13, "3x5 int64:3", "", "float32 scalar" },
        { "NegativeLogLikelihoodLoss", 13, "3x5 int64:3", "reduction='none'", "float32 3" },
        { "SoftmaxCrossEntropyLoss", 13, "3x5x2 int64:3x2", "", "float32 scalar | float32 3x5x2" },
        /* nine places of a block of four in the image */
        { "Col2Im", 18, "1x8x9 i[4,4] i[2,2]", "", "float32 1x2x4x4" },
        { "TfIdfVectorizer", 9, "int64:2x4",
          "mode='TF' min_gram_length=1 max_gram_length=1 max_skip_count=0 ngram_counts=0, "
          "ngram_indexes=0,2 pool_int64s=5,7",
          "float32 2x3" },
        /* without a zero point the type is that of the operands */
        { "com.microsoft/QLinearAdd", 1, "int8:2x3 f(1) - int8:3 f(1) - f(1)", "", "int8 2x3" },
        { "com.microsoft/QLinearMul", 1, "uint8:2x1 f(1) - uint8:3 f(1) - f(1)", "", "uint8 2x3" },
        { "com.microsoft/QLinearSigmoid", 1, "int8:2x3 f(1) - f(1)", "", "int8 2x3" },
        { "com.microsoft/QLinearGlobalAveragePool", 1,
          "uint8:2x3x4x5 f(1) uint8:scalar f(1) uint8:scalar", "", "uint8 2x3x1x1" },
        { "Identity", 13, "int64:2x3", "", "int64 2x3" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct engine_tensor out[4];
        char have[2][300] = { "", "" };
        opm_error err = { 0 };
        struct rig r;
        const struct graph *g;

        one_node(&r, &cases[i]);
        g = r.m->graph;
        if (graph_infer(r.m, NULL, &err) || run_zeros(&r, out, &err))
            fail_msg("%s %s: %s", cases[i].op, cases[i].in, err.msg);
        for (uint32_t k = 0; k < g->noutput; k++) {
            const struct value *v = &g->value[g->output[k]];
            char text[100];

            for (int who = 0; who < 2; who++) {
                size_t at = strlen(have[who]);

                shape_text(who ? &out[k].shape : &v->shape, text, sizeof(text));
                snprintf(have[who] + at, sizeof(have[who]) - at, "%s%s %s", k ? " | " : "",
                         tensor_type_name(who ? out[k].type : v->type), text);
            }
        }
        if (strcmp(have[0], cases[i].want) != 0)
            fail_msg("%s %s: inference has %s", cases[i].op, cases[i].in, have[0]);
        if (strcmp(have[1], cases[i].want) != 0)
            fail_msg("%s %s: the engine has %s", cases[i].op, cases[i].in, have[1]);
        rig_release(&r);
    }
}

/* Unlike NumPy's, the indices of a scalar have no rows: ONNX wants 0 x N. */
static void nonzero_of_scalar(void **state)
{
    static const struct op_case c = { "NonZero", 13, "scalar", "", "" };
    struct engine_tensor out[4];
    opm_error err = { 0 };
    struct rig r;

    (void)state;
    one_node(&r, &c);
    if (run_zeros(&r, out, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(out[0].shape.rank, 2);
    assert_int_equal(out[0].shape.dim[0], 0);
    assert_int_equal(out[0].shape.dim[1], 0);
    rig_release(&r);
}

/* What a file declares of a value that some node computes may be stale: that is no reason to refuse
 * it. */
static void stale_declaration(void **state)
{
    const struct engine_options opts = ENGINE_OPTIONS_INIT;
    const int64_t two = 2, three = 3;
    float x[2] = { -1, 1 };
    struct engine_tensor in = { .type = TENSOR_F32, .shape = { 1, { 2 } }, .data = x, .bytes = 8 };
    struct engine_tensor out;
    struct engine *e = NULL;
    struct model *m = NULL;
    struct make mk = { 0 };
    opm_error err = { 0 };

    (void)state;
    make_node(&mk, "Relu", "x", "y", "");
    make_value(&mk, false, "x", TENSOR_F32, &two, 1);
    make_value(&mk, true, "y", TENSOR_F32, &three, 1);
    assert_int_equal(make_model(&mk, 13, &m, &err), 0);
    assert_int_equal(graph_infer(m, NULL, &err), OPM_EINVAL);
    if (engine_native.open(&e, m, &opts, &err) || e->class->run(e, &in, 1, &out, 1, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(out.shape.dim[0], 2);
    e->class->close(e);
    model_free(m);
    make_free(&mk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_have_rules), cmocka_unit_test(same_shapes),
        cmocka_unit_test(same_results),       cmocka_unit_test(nonzero_of_scalar),
        cmocka_unit_test(stale_declaration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
