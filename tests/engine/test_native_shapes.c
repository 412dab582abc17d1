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
           strcmp(name, "TfIdfVectorizer") == 0;
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
            if (info->infer == infer_unknown)
                fail_msg("%s %s of version %d has no inference", kernels[i].domain, kernels[i].name,
                         v);
            if (info->flops.fn == flops_unknown && !data_decides(kernels[i].name))
                fail_msg("%s %s of version %d has no footprint", kernels[i].domain, kernels[i].name,
                         v);
        }
    }
}

/* Run a node on zeros. */
static int run_zeros(struct rig *r, struct shape *out, opm_error *err)
{
    const struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct engine_tensor in[8], result[4];
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
        rc = e->class->run(e, in, g->ninput, result, g->noutput, err);
    if (!rc)
        *out = result[0].shape;
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
        struct shape got[2];
        opm_error err[2] = { 0 };
        int rc[2];
        char have[120];
        struct rig r;

        one_node(&r, &cases[i]);
        rc[0] = graph_infer(r.m, NULL, &err[0]);
        got[0] = r.m->graph->value[r.m->graph->output[0]].shape;
        rc[1] = run_zeros(&r, &got[1], &err[1]);
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

/* Unlike NumPy's, the indices of a scalar have no rows: ONNX wants 0 x N. */
static void nonzero_of_scalar(void **state)
{
    static const struct op_case c = { "NonZero", 13, "scalar", "", "" };
    struct shape got;
    opm_error err = { 0 };
    struct rig r;

    (void)state;
    one_node(&r, &c);
    if (run_zeros(&r, &got, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(got.rank, 2);
    assert_int_equal(got.dim[0], 0);
    assert_int_equal(got.dim[1], 0);
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
        cmocka_unit_test(kernels_have_rules),
        cmocka_unit_test(same_shapes),
        cmocka_unit_test(nonzero_of_scalar),
        cmocka_unit_test(stale_declaration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
