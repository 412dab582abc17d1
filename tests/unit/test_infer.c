/* test_infer.c -- inference over graphs: shape arithmetic, options, declared shapes, control flow.
 */
#include "infer_rig.h"

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
    one_node(&r, &c);
    assert_int_equal(graph_infer(r.m, NULL, &r.err), 0);
    assert_string_equal(rig_text(&r, "y0"), c.want);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
