/* test_graph.c -- the ONNX reader: what it makes of good files. */
#include "graph/graph.h"

#include "graph_rig.h"

#include <math.h>

static void test_types(void **state)
{
    static const struct {
        enum tensor_type type;
        uint8_t raw[16];
        double want;
    } cases[] = {
        { TENSOR_U8, { 200 }, 200 },
        { TENSOR_I8, { 200 }, -56 },
        { TENSOR_U16, { 0xff, 0xff }, 65535 },
        { TENSOR_I16, { 0xff, 0xff }, -1 },
        { TENSOR_I32, { 0xfe, 0xff, 0xff, 0xff }, -2 },
        { TENSOR_U32, { 0xfe, 0xff, 0xff, 0xff }, 4294967294.0 },
        { TENSOR_I64, { 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, -3 },
        { TENSOR_U64, { 0, 0, 0, 0, 0, 0, 0, 0x80 }, 9223372036854775808.0 },
        { TENSOR_BOOL, { 1 }, 1 },
        { TENSOR_F16, { 0, 0x3c }, 1 },
        { TENSOR_BF16, { 0, 0x40 }, 2 },
        { TENSOR_F32, { 0, 0, 0x40, 0x40 }, 3 },
        { TENSOR_F64, { 0, 0, 0, 0, 0, 0, 0x10, 0x40 }, 4 },
        { TENSOR_C64, { 0, 0, 0x40, 0x40, 1, 2, 3, 4 }, 3 },
        { TENSOR_F8E4M3FN, { 0x38 }, 1 },
        { TENSOR_F8E4M3FNUZ, { 0x40 }, 1 },
        { TENSOR_F8E5M2, { 0xbc }, -1 },
        { TENSOR_F8E5M2FNUZ, { 0x40 }, 1 },
        { TENSOR_F8E8M0, { 0x80 }, 2 },
        { TENSOR_U4, { 0xf3 }, 3 },
        { TENSOR_I4, { 0x3f }, -1 },
        { TENSOR_F4E2M1, { 0x3d }, -3 },
        { TENSOR_U2, { 0xfe }, 2 },
        { TENSOR_I2, { 0x02 }, -2 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct tensor t = { .type = cases[i].type, .count = 1, .data = cases[i].raw };
        float f;

        assert_true(tensor_float(&t, 0) == cases[i].want);
        tensor_read_f32(&t, 0, 1, &f);
        assert_true(f == (float)cases[i].want);
    }
    assert_string_equal(tensor_type_name(TENSOR_BF16), "bfloat16");
    assert_string_equal(tensor_type_name((enum tensor_type)99), "?");
    assert_int_equal(tensor_type_bits(TENSOR_I4), 4);
    assert_true(tensor_type_signed(TENSOR_I4) && !tensor_type_signed(TENSOR_U64));
    assert_true(tensor_type_int(TENSOR_U2) && !tensor_type_int(TENSOR_BOOL));
}

static void test_packed_elements(void **state)
{
    static const uint8_t raw[] = { 0x21, 0x43, 0x05 };
    struct tensor t = { .type = TENSOR_U4, .count = 5, .data = raw };

    (void)state;
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(tensor_int(&t, i), i + 1);
}

static void test_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);

        if (!isnan(f))
            assert_int_equal(f32_to_f16(f), h);
    }
    assert_int_equal(f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(f32_to_f16(0x1p-25f), 0); /* half of the smallest, to even */
    assert_int_equal(f32_to_f16(0x1.8p-25f), 1);
    assert_int_equal(f32_to_f16(1.0f + 0x1p-11f), 0x3c00); /* a tie, to even */
    assert_int_equal(f32_to_f16(1.0f + 0x1.8p-10f), 0x3c02);
    assert_int_equal(f32_to_f16(NAN), 0x7e00);
}

static void test_shapes(void **state)
{
    struct shape s = { 3, { 2, 0, 5 } }, big = { 3, { INT64_MAX / 2, 3, 5 } };
    struct shape open = { 2, { -1, 4 } };
    char text[64], tiny[4];

    (void)state;
    assert_int_equal(shape_count(&s), 0);
    assert_int_equal(shape_count(&big), -1);
    assert_int_equal(shape_count(&open), -1);
    assert_int_equal(shape_bytes(&(struct shape){ 1, { 5 } }, TENSOR_I4), 3);
    assert_int_equal(shape_bytes(&(struct shape){ 0 }, TENSOR_STRING), -1);
    big = (struct shape){ 3, { INT64_MAX, INT64_MAX, 0 } };
    assert_int_equal(shape_count(&big), 0);
    shape_text(&open, text, sizeof(text));
    assert_string_equal(text, "?x4");
    shape_text(&(struct shape){ 0 }, text, sizeof(text));
    assert_string_equal(text, "scalar");
    shape_text(&(struct shape){ 3, { 100, 200, 300 } }, tiny, sizeof(tiny));
    assert_string_equal(tiny, "100");
}

static void test_basic(void **state)
{
    struct rig r;
    struct graph *g;
    const struct node *n;
    const struct value *v;
    size_t len;
    char text[200];

    (void)state;
    rig_small(&r);
    rig_load(&r);
    g = r.m->graph;
    assert_string_equal(g->name, "rig");
    assert_string_equal(r.m->producer, "opmeter");
    assert_int_equal(r.m->ir_version, 8);
    assert_int_equal(model_opset(r.m, ""), 17);
    assert_int_equal(model_opset(r.m, "ai.onnx"), 17);
    assert_int_equal(model_opset(r.m, "x"), 0);
    assert_int_equal(g->nnode, 2);
    assert_int_equal(g->ninput, 1);
    assert_int_equal(g->noutput, 1);
    n = &g->node[0];
    assert_true(node_is(n, "Conv") && n->opset == 17 && n->nin == 3);
    node_text(g, n, text, sizeof(text));
    assert_string_equal(text, "m.onnx: node 0 'conv1' (Conv)");
    assert_int_equal(node_attr_int(n, "group", 7), 1);
    assert_int_equal(node_attr_int(n, "alpha", 7), 7); /* of another type */
    assert_true(node_attr_float(n, "alpha", 0) == 0.5f);
    assert_string_equal(node_attr_str(n, "auto_pad", ""), "NOTSET");
    assert_int_equal(node_attr_ints(n, "pads", &len)[3], 1);
    assert_int_equal(len, 4);
    assert_null(node_attr_ints(n, "strides", &len));
    assert_null(node_attr(n, "strides"));
    v = node_in(g, n, 1);
    assert_string_equal(v->name, "w");
    assert_true(v->flags & VALUE_CONSTANT && v->data && v->data->count == 108);
    assert_ptr_equal(node_const(g, n, 1), v->data);
    assert_null(node_const(g, n, 0));
    assert_null(node_in(g, n, 3));
    assert_true((const char *)v->data->data > r.file.data); /* in place, not copied */
    assert_true((const char *)v->data->data < r.file.data + r.file.len);
    v = &g->value[g->input[0]];
    assert_true(v->flags & VALUE_INPUT && v->nuse == 1 && v->producer == NO_NODE);
    v = &g->value[g->output[0]];
    assert_true(v->flags & VALUE_OUTPUT && v->producer == 1 && v->nuse == 1);
    assert_int_equal(graph_find_value(g, "nothing"), NO_VALUE);
    rig_release(&r);
}

/* Nodes in any order, and one whose subgraph needs what a later node makes. */
static void test_unsorted(void **state)
{
    struct rig r;
    struct buf *b = &r.w.node, branch = { 0 };

    (void)state;
    rig_init(&r, 17);
    rig_input(&r, "x", RIG_DIMS(2));
    rig_node(&branch, 1, "Neg", "mid", "inner");
    rig_info(&branch, 12, "inner");
    rig_node(b, 1, "Exp", "b", "y");
    ow_begin(&r.w, "If", "if");
    ow_in(&r.w, "cond");
    ow_out(&r.w, "b");
    rig_attr_graph(&r, "then_branch", &branch);
    rig_attr_graph(&r, "else_branch", &branch);
    ow_end(&r.w);
    rig_node(b, 1, "Less", "x,mid", "cond");
    rig_node(b, 1, "Abs", "x", "mid");
    rig_output(&r, "y");
    rig_load(&r);
    assert_int_equal(r.m->graph->nnode, 4);
    assert_string_equal(r.m->graph->node[0].op_type, "Abs");
    assert_string_equal(r.m->graph->node[1].op_type, "Less");
    assert_string_equal(r.m->graph->node[2].op_type, "If");
    assert_string_equal(r.m->graph->node[3].op_type, "Exp");
    assert_int_equal(r.m->graph->node[0].index, 3);
    assert_int_equal(rig_value(&r, "mid")->producer, 0);
    assert_int_equal(rig_value(&r, "mid")->nuse, 3); /* Less and both branches */
    assert_int_equal(rig_value(&r, "y")->producer, 3);
    buf_release(&branch);
    rig_release(&r);
}

/* A subgraph in a subgraph reads a constant of the main graph. */
static void test_captures(void **state)
{
    struct rig r;
    struct buf inner = { 0 }, outer = { 0 };
    const struct graph *g, *deep;
    const struct node *n;
    size_t node, attr;

    (void)state;
    rig_init(&r, 17);
    rig_input(&r, "x", RIG_DIMS(2));
    ow_normal(&r.w, "w", (const int64_t[]){ 2 }, 1, 1, -1);
    rig_node(&inner, 1, "Add", "x,w", "deep");
    rig_info(&inner, 12, "deep");
    pb_str(&inner, 2, "inner graph");
    node = pb_begin(&outer, 1);
    pb_str(&outer, 1, "c");
    pb_str(&outer, 2, "o");
    pb_str(&outer, 4, "If");
    for (int i = 0; i < 2; i++) {
        attr = pb_begin(&outer, 5);
        pb_str(&outer, 1, i ? "else_branch" : "then_branch");
        pb_bytes(&outer, 6, inner.data, inner.len);
        pb_varint(&outer, 20, ATTR_GRAPH);
        pb_end(&outer, attr);
    }
    pb_end(&outer, node);
    rig_info(&outer, 12, "o");
    rig_node(&r.w.node, 1, "Less", "x,w", "c");
    ow_begin(&r.w, "If", NULL);
    ow_in(&r.w, "c");
    ow_out(&r.w, "y");
    rig_attr_graph(&r, "then_branch", &outer);
    rig_attr_graph(&r, "else_branch", &outer);
    ow_end(&r.w);
    rig_output(&r, "y");
    rig_load(&r);
    g = node_attr_graph(&r.m->graph->node[1], "then_branch");
    assert_non_null(g);
    assert_ptr_equal(g->outer, r.m->graph);
    assert_int_equal(g->depth, 1);
    assert_int_equal(g->ncapture, 3); /* c, x, w */
    deep = node_attr_graph(&g->node[0], "else_branch");
    assert_int_equal(deep->depth, 2);
    assert_string_equal(deep->name, "inner graph");
    n = &deep->node[0];
    assert_true(node_in(deep, n, 1)->flags & VALUE_CAPTURED);
    assert_non_null(node_const(deep, n, 1)); /* through two graphs */
    assert_string_equal(node_in(deep, n, 1)->name, "w");
    assert_int_equal(node_in(deep, n, 0)->shape.rank, 1);
    buf_release(&inner);
    buf_release(&outer);
    rig_release(&r);
}

/* All the ways to write a Constant node. */
static void test_constants(void **state)
{
    struct rig r;
    struct buf *b = &r.w.node;
    size_t node, a, t, v;
    const struct tensor *c;

    (void)state;
    rig_init(&r, 17);
    for (int i = 0; i < 8; i++) {
        static const char *const names[] = { "value_int",    "value_ints",   "value_float",
                                             "value_floats", "value_string", "value_strings",
                                             "value",        "sparse_value" };
        static const int types[] = { 2, 7, 1, 6, 3, 8, 4, 11 };
        static const char *const outs[] = { "i", "is", "f", "fs", "s", "ss", "t", "sp" };
        static const uint8_t floats[] = { 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40 };

        node = pb_begin(b, 1);
        pb_str(b, 2, outs[i]);
        pb_str(b, 4, "Constant");
        a = pb_begin(b, 5);
        pb_str(b, 1, names[i]);
        pb_varint(b, 20, (uint64_t)types[i]);
        switch (i) {
        case 0:
            pb_varint(b, 3, (uint64_t)-5);
            break;
        case 1:
            pb_varint(b, 8, 6);
            pb_bytes(b, 8, "\007\010", 2); /* packed and not, mixed */
            break;
        case 2: /* 0 may be left out */
            break;
        case 3:
            pb_bytes(b, 7, floats, 8);
            break;
        case 4:
            pb_str(b, 4, "text");
            break;
        case 5:
            pb_str(b, 9, "one");
            pb_bytes(b, 9, "t\0o", 3);
            break;
        case 6:
            t = pb_begin(b, 5);
            pb_varint(b, 1, 2);
            pb_varint(b, 2, TENSOR_F16);
            pb_varint(b, 5, 0x3c00); /* int32_data */
            pb_varint(b, 5, 0x4000);
            pb_end(b, t);
            break;
        case 7:
            t = pb_begin(b, 22);
            v = pb_begin(b, 1);
            pb_varint(b, 1, 2);
            pb_varint(b, 2, TENSOR_F32);
            pb_bytes(b, 4, floats, 8);
            pb_end(b, v);
            v = pb_begin(b, 2);
            pb_varint(b, 1, 2);
            pb_varint(b, 1, 2);
            pb_varint(b, 2, TENSOR_I64);
            pb_bytes(b, 7, "\000\001\001\002", 4); /* (0,1) (1,2) */
            pb_end(b, v);
            pb_varint(b, 3, 2);
            pb_varint(b, 3, 3);
            pb_end(b, t);
            break;
        }
        pb_end(b, a);
        pb_end(b, node);
        rig_output(&r, outs[i]);
    }
    rig_load(&r);
    assert_int_equal(r.m->graph->nnode, 0);
    assert_int_equal(r.m->graph->nconstant, 8);
    c = rig_value(&r, "i")->data;
    assert_true(c->shape.rank == 0 && tensor_int(c, 0) == -5);
    c = rig_value(&r, "is")->data;
    assert_true(c->count == 3 && tensor_int(c, 0) == 6 && tensor_int(c, 2) == 8);
    c = rig_value(&r, "f")->data;
    assert_true(c->type == TENSOR_F32 && tensor_float(c, 0) == 0);
    c = rig_value(&r, "fs")->data;
    assert_true(c->shape.dim[0] == 2 && tensor_float(c, 1) == 2);
    c = rig_value(&r, "s")->data;
    assert_string_equal(((const struct tensor_string *)c->data)->s, "text");
    c = rig_value(&r, "ss")->data;
    assert_int_equal(((const struct tensor_string *)c->data)[1].len, 3);
    c = rig_value(&r, "t")->data;
    assert_true(c->type == TENSOR_F16 && tensor_float(c, 1) == 2 && c->bytes == 4);
    c = rig_value(&r, "sp")->data;
    assert_true(c->count == 6 && tensor_float(c, 1) == 1 && tensor_float(c, 5) == 2 &&
                tensor_float(c, 0) == 0);
    rig_release(&r);
}

/* An initializer of each typed field. */
static void test_typed_data(void **state)
{
    static const struct {
        enum tensor_type type;
        uint32_t field;
        bool packed;
    } cases[] = {
        { TENSOR_F32, 4, true },   { TENSOR_F32, 4, false },  { TENSOR_F64, 10, true },
        { TENSOR_I32, 5, true },   { TENSOR_I8, 5, true },    { TENSOR_U8, 5, false },
        { TENSOR_I16, 5, true },   { TENSOR_U16, 5, true },   { TENSOR_BOOL, 5, true },
        { TENSOR_I64, 7, true },   { TENSOR_I64, 7, false },  { TENSOR_U64, 11, true },
        { TENSOR_U32, 11, false }, { TENSOR_F64, 10, false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rig r;
        struct buf *b = &r.w.io, list = { 0 };
        size_t t;
        bool floats = cases[i].field == 4, doubles = cases[i].field == 10;

        rig_init(&r, 17);
        t = pb_begin(b, 5);
        pb_varint(b, 1, 3);
        pb_varint(b, 2, cases[i].type);
        pb_str(b, 8, "w");
        for (int k = 0; k < 3; k++) {
            int v = cases[i].type == TENSOR_BOOL ? k & 1 : k * 30;
            float f = (float)v;
            double d = v;

            if (cases[i].packed && floats)
                buf_add(&list, &f, 4);
            else if (cases[i].packed && doubles)
                buf_add(&list, &d, 8);
            else if (cases[i].packed)
                buf_addc(&list, (char)v);
            else if (doubles)
                pb_double(b, 10, d);
            else if (floats) {
                buf_addc(b, 4 << 3 | PB_I32);
                buf_add(b, &f, 4);
            } else
                pb_varint(b, cases[i].field, (uint64_t)v);
        }
        if (cases[i].packed)
            pb_bytes(b, cases[i].field, list.data, list.len);
        pb_end(b, t);
        rig_output(&r, "w");
        rig_load(&r);
        for (int k = 0; k < 3; k++)
            assert_true(tensor_float(rig_value(&r, "w")->data, k) ==
                        (cases[i].type == TENSOR_BOOL ? k & 1 : k * 30));
        buf_release(&list);
        rig_release(&r);
    }
}

/* Before IR 4 initializers are inputs, too: they are constants and not asked for. */
static void test_old_inputs(void **state)
{
    struct rig r;

    (void)state;
    rig_small(&r);
    ow_input(&r.w, "w", TENSOR_F32, NULL, (const int64_t[]){ 4, 3, 3, 3 }, 4);
    rig_load(&r);
    assert_int_equal(r.m->graph->ninput, 1);
    assert_true(rig_value(&r, "w")->flags & VALUE_CONSTANT);
    rig_release(&r);
}

static void test_functions(void **state)
{
    (void)state;
    for (int attr = 0; attr < 2; attr++) {
        struct rig r;
        const struct graph *g;
        uint32_t leaky = 0;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(3));
        rig_call(&r, "y", "z", attr);
        rig_output(&r, "y");
        rig_output(&r, "z");
        rig_finish(&r);
        rig_functions(&r.file);
        rig_load(&r);
        g = r.m->graph;
        assert_int_equal(r.m->nfunction, 2);
        assert_int_equal(g->nnode, 6); /* 2 x (LeakyRelu, Neg), Add, Identity */
        for (uint32_t i = 0; i < g->nnode; i++) {
            assert_string_equal(g->node[i].domain, "");
            assert_int_equal(g->node[i].index, 0);
            if (!node_is(&g->node[i], "LeakyRelu"))
                continue;
            leaky++;
            assert_int_equal(g->node[i].opset, 15); /* the function's */
            assert_true(node_attr_float(&g->node[i], "alpha", 9) == (attr ? 0.25f : 0.5f));
            assert_non_null(strstr(g->node[i].name, "call/"));
        }
        assert_int_equal(leaky, 2);
        assert_int_equal(rig_value(&r, "y")->nuse, 1);
        assert_true(rig_value(&r, "z")->producer != NO_NODE);
        assert_int_equal(graph_infer(r.m, NULL, &r.err), 0);
        assert_string_equal(rig_text(&r, "y"), "float32 3");
        rig_release(&r);
    }
}

/* A function whose body has a subgraph that reads its parameter. */
static void test_function_with_subgraph(void **state)
{
    struct rig r;
    struct buf branch = { 0 };
    size_t f, n, a;
    struct buf *b;

    (void)state;
    rig_init(&r, 17);
    rig_input(&r, "x", RIG_DIMS(3));
    rig_node(&branch, 1, "Abs", "p", "q");
    rig_info(&branch, 12, "q");
    n = pb_begin(&r.w.node, 1);
    rig_names(&r.w.node, 1, "x");
    rig_names(&r.w.node, 2, "y");
    pb_str(&r.w.node, 4, "fn");
    pb_str(&r.w.node, 7, "my");
    pb_end(&r.w.node, n);
    rig_output(&r, "y");
    rig_finish(&r);
    b = &r.file;
    f = pb_begin(b, 25);
    pb_str(b, 1, "fn");
    pb_str(b, 10, "my");
    pb_str(b, 4, "p");
    pb_str(b, 5, "out");
    rig_node(b, 7, "IsNaN", "p", "c");
    n = pb_begin(b, 7);
    pb_str(b, 1, "c");
    pb_str(b, 2, "out");
    pb_str(b, 4, "If");
    for (int i = 0; i < 2; i++) {
        a = pb_begin(b, 5);
        pb_str(b, 1, i ? "else_branch" : "then_branch");
        pb_bytes(b, 6, branch.data, branch.len);
        pb_varint(b, 20, ATTR_GRAPH);
        pb_end(b, a);
    }
    pb_end(b, n);
    pb_end(b, f);
    rig_infer(&r);
    assert_int_equal(r.m->graph->nnode, 2);
    assert_string_equal(rig_text(&r, "y"), "float32 3");
    buf_release(&branch);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),      cmocka_unit_test(test_packed_elements),
        cmocka_unit_test(test_half),       cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_basic),      cmocka_unit_test(test_unsorted),
        cmocka_unit_test(test_captures),   cmocka_unit_test(test_constants),
        cmocka_unit_test(test_typed_data), cmocka_unit_test(test_old_inputs),
        cmocka_unit_test(test_functions),  cmocka_unit_test(test_function_with_subgraph),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
