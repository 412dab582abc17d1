/* test_graph.c -- the ONNX reader: what it makes of files, good, odd and hostile. */
#include "graph/graph.h"

#include "graph_rig.h"

#include <math.h>
#include <sys/stat.h>

#define BYTES(s) (s), sizeof(s) - 1 /* of a literal that may hold NULs */

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

/* x -> Conv(w, b) -> Relu -> y */
static void small_model(struct rig *r)
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

static void test_basic(void **state)
{
    struct rig r;
    struct graph *g;
    const struct node *n;
    const struct value *v;
    size_t len;
    char text[200];

    (void)state;
    small_model(&r);
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
    small_model(&r);
    ow_input(&r.w, "w", TENSOR_F32, NULL, (const int64_t[]){ 4, 3, 3, 3 }, 4);
    rig_load(&r);
    assert_int_equal(r.m->graph->ninput, 1);
    assert_true(rig_value(&r, "w")->flags & VALUE_CONSTANT);
    rig_release(&r);
}

/* Functions: outer(a) = inner(a) + inner(a) with an attribute handed down; inner(x; k) =
 * LeakyRelu(x, alpha = k). */
static void add_functions(struct buf *b)
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

static void call_outer(struct rig *r, const char *y, const char *z, bool attr)
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

static void test_functions(void **state)
{
    (void)state;
    for (int attr = 0; attr < 2; attr++) {
        struct rig r;
        const struct graph *g;
        uint32_t leaky = 0;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(3));
        call_outer(&r, "y", "z", attr);
        rig_output(&r, "y");
        rig_output(&r, "z");
        rig_finish(&r);
        add_functions(&r.file);
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

/* A function that calls itself, and functions that double at each level: both are refused soon. */
static void test_function_bombs(void **state)
{
    (void)state;
    for (int deep = 0; deep < 2; deep++) {
        struct rig r;
        struct buf *b = &r.file;
        size_t n;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(3));
        n = pb_begin(&r.w.node, 1);
        rig_names(&r.w.node, 1, "x");
        rig_names(&r.w.node, 2, "y");
        pb_str(&r.w.node, 4, deep ? "f13" : "f0");
        pb_end(&r.w.node, n);
        rig_output(&r, "y");
        rig_finish(&r);
        for (int i = 0; i < (deep ? 14 : 1); i++) {
            size_t f = pb_begin(b, 25);
            char name[16], callee[16];

            snprintf(name, sizeof(name), "f%d", i);
            snprintf(callee, sizeof(callee), "f%d", deep ? i - 1 : 0);
            pb_str(b, 1, name);
            pb_str(b, 4, "x");
            pb_str(b, 5, "y");
            if (deep && i == 0)
                rig_node(b, 7, "Neg", "x", "y");
            for (int k = 0; k < 10 && (i || !deep); k++) {
                char out[16];

                snprintf(out, sizeof(out), "t%d", k);
                rig_node(b, 7, callee, "x", k == 9 ? "y" : out);
            }
            pb_end(b, f);
        }
        assert_int_equal(rig_parse(&r), OPM_ELIMIT);
        rig_release(&r);
    }
}

/* Each kind of damage has a line that names the file and the place. */
static void test_errors(void **state)
{
    static const struct {
        const char *nodes; /* "Op:in,in:out;..." */
        const char *want;
        int code;
    } graphs[] = {
        { "Relu:x:y;Add:y,w:z", "m.onnx: node 1 (Add): input 1 'w' is produced by nothing",
          OPM_EFORMAT },
        { "Relu:x:y;Abs:x:y", "m.onnx: node 1 (Abs): output 0 'y' is already", OPM_EFORMAT },
        { "Relu:x:x", "m.onnx: node 0 (Relu): output 0 'x' is already", OPM_EFORMAT },
        { "Add:x,b:a;Neg:a:y;Exp:a:b", "needs its own output (a cycle)", OPM_EFORMAT },
        { "Relu:x:z", "m.onnx: output 'y' is produced by nothing", OPM_EFORMAT },
        { ":x:y", "m.onnx: node 0 () has no operator type", OPM_EFORMAT },
        { "Constant::y", "has 0 attributes instead of one value", OPM_EFORMAT },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(graphs); i++) {
        struct rig r;
        char spec[200], *p = spec;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(2));
        snprintf(spec, sizeof(spec), "%s", graphs[i].nodes);
        while (p && *p) {
            char *op = p, *in = strchr(op, ':') + 1, *out = strchr(in, ':') + 1;
            char *next = strchr(out, ';');

            in[-1] = out[-1] = '\0';
            if (next)
                *next++ = '\0';
            rig_node(&r.w.node, 1, op, in, out);
            p = next;
        }
        rig_output(&r, "y");
        assert_int_equal(rig_parse(&r), graphs[i].code);
        if (!strstr(r.err.msg, graphs[i].want))
            fail_msg("'%s' lacks '%s'", r.err.msg, graphs[i].want);
        rig_release(&r);
    }
}

/* Initializers and attributes that make no sense. */
static void test_bad_parts(void **state)
{
    static const struct {
        const char *bytes; /* a TensorProto */
        size_t len;
        const char *want;
    } tensors[] = {
        { BYTES("\010\002\020\001\102\001w\112\004abcd"),
          "initializer 0 'w' has 4 bytes of data, its shape wants 8" },
        { BYTES("\010\002\020\001\102\001w"), "initializer 0 'w' has no data" },
        { BYTES("\010\002\020\143\102\001w"),
          "initializer 0 'w' has element type 99, which is unknown" },
        { BYTES("\010\002\102\001w"), "initializer 0 'w' has no element type" },
        { BYTES("\010\377\377\377\377\377\377\377\377\177\010\377\377\377\377\377\377\377\377\177"
                "\020\001"
                "\102\001w"),
          "initializer 0 'w' has more elements than memory can hold" },
        { BYTES("\010\377\377\377\377\377\377\377\377\377\001\020\001\102\001w"),
          "initializer 0 'w' has dimension -1" },
        { BYTES("\010\003\020\007\102\001w\072\002\001\002"),
          "initializer 0 'w' has 2 elements of int64, its shape wants 3" },
        { BYTES("\020\001\102\001w\160\002"), "data location 2, which is unknown" },
        { BYTES("\020\001\102\001w\160\001"), "its external data has no location" },
        { BYTES("\020\001\102\001w\032\000"), "is only a segment" },
        { BYTES("\010\001\020\010\102\001w\112\001a"), "strings cannot be raw data" },
        { BYTES("\020\001"), "has no data" },
        { BYTES("\020\001\112\004abcd"), "initializer 0 has no name" },
        { BYTES("\012\002\001\200\020\001\102\001w"), "initializer 0 'w' has no data" },
        { BYTES("\015\001\000\000\000"), "wrong wire type" },
    };
    static const struct {
        const char *bytes; /* an AttributeProto */
        size_t len;
        const char *want;
    } attrs[] = {
        { BYTES("\012\001a\240\001\062"), "an attribute has type 50, which is unknown" },
        { BYTES("\240\001\002\030\005"), "an attribute has no name" },
        { BYTES("\012\001a\240\001\005"), "has 0 values instead of one" },
        { BYTES("\012\001a\240\001\002\252\001\001b"),
          "refers to 'b' of a function, but is in none" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(tensors); i++) {
        struct rig r;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(2));
        pb_bytes(&r.w.io, 5, tensors[i].bytes, tensors[i].len);
        rig_output(&r, "x");
        assert_int_not_equal(rig_parse(&r), 0);
        if (!strstr(r.err.msg, tensors[i].want))
            fail_msg("%zu: '%s' lacks '%s'", i, r.err.msg, tensors[i].want);
        rig_release(&r);
    }
    for (size_t i = 0; i < ARRAY_SIZE(attrs); i++) {
        struct rig r;
        size_t n;

        rig_init(&r, 17);
        rig_input(&r, "x", RIG_DIMS(2));
        n = pb_begin(&r.w.node, 1);
        pb_str(&r.w.node, 1, "x");
        pb_str(&r.w.node, 2, "y");
        pb_str(&r.w.node, 4, "Relu");
        pb_bytes(&r.w.node, 5, attrs[i].bytes, attrs[i].len);
        pb_end(&r.w.node, n);
        rig_output(&r, "y");
        assert_int_not_equal(rig_parse(&r), 0);
        if (!strstr(r.err.msg, attrs[i].want))
            fail_msg("%zu: '%s' lacks '%s'", i, r.err.msg, attrs[i].want);
        assert_non_null(strstr(r.err.msg, "node 0 (Relu)"));
        rig_release(&r);
    }
}

static void test_duplicates(void **state)
{
    struct rig r;

    (void)state;
    small_model(&r);
    ow_normal(&r.w, "w", (const int64_t[]){ 4 }, 1, 1, -1);
    assert_int_equal(rig_parse(&r), OPM_EFORMAT);
    assert_string_equal(r.err.msg, "m.onnx: initializer 'w' appears twice");
    rig_release(&r);
    small_model(&r);
    rig_input(&r, "x", RIG_DIMS(1));
    assert_int_equal(rig_parse(&r), OPM_EFORMAT);
    assert_string_equal(r.err.msg, "m.onnx: input 'x' appears twice");
    rig_release(&r);
}

/* If in If in If ..., deeper than any network. */
static void test_deep(void **state)
{
    struct buf graph = { 0 };
    struct rig r;

    (void)state;
    rig_node(&graph, 1, "Neg", "x", "y");
    rig_info(&graph, 12, "y");
    for (int i = 0; i < 200; i++) {
        struct buf next = { 0 };
        size_t n = pb_begin(&next, 1), a;

        pb_str(&next, 2, "y");
        pb_str(&next, 4, "If");
        a = pb_begin(&next, 5);
        pb_str(&next, 1, "then_branch");
        pb_bytes(&next, 6, graph.data, graph.len);
        pb_varint(&next, 20, ATTR_GRAPH);
        pb_end(&next, a);
        pb_end(&next, n);
        rig_info(&next, 12, "y");
        buf_release(&graph);
        graph = next;
    }
    rig_init(&r, 17);
    rig_input(&r, "x", RIG_DIMS(1));
    ow_begin(&r.w, "If", NULL);
    ow_out(&r.w, "o");
    rig_attr_graph(&r, "then_branch", &graph);
    ow_end(&r.w);
    rig_output(&r, "o");
    assert_int_equal(rig_parse(&r), OPM_ELIMIT);
    assert_non_null(strstr(r.err.msg, "nested more than 24 deep"));
    buf_release(&graph);
    rig_release(&r);
}

static void test_not_onnx(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *want;
    } cases[] = {
        { BYTES(""), "not an ONNX model but an empty file" },
        { BYTES("{\"a\": 1}"), "not an ONNX model but JSON" },
        { BYTES("PK\003\004aaaaaaaa"), "not an ONNX model but a zip archive" },
        { BYTES("version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer" },
        { BYTES("\x1c\0\0\0TFL3...."), "TensorFlow Lite" },
        { BYTES("\177ELF\2\1\1"), "a program or library" },
        { BYTES("\x40\0\0\0\0\0\0\0{\"__metadata__\":"), "safetensors" },
        { BYTES("hello, world\n"), "a text file" },
        { BYTES("\10\10\22\3abc"), "protobuf, but without a graph" },
        { BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "not an ONNX model, or damaged" },
        { BYTES("\10\10\72\177abc"), "the model is damaged or cut off" },
    };
    struct model *m;
    opm_error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int rc = model_parse(&m, cases[i].bytes, cases[i].len, "m.onnx", NULL, &err);

        assert_true(rc == OPM_EFORMAT || rc == OPM_ETRUNC);
        if (!strstr(err.msg, cases[i].want))
            fail_msg("%zu: '%s' lacks '%s'", i, err.msg, cases[i].want);
    }
    assert_int_equal(model_load(&m, "/nonexistent/m.onnx", &err), OPM_EIO);
    assert_int_equal(model_load(&m, "/tmp", &err), OPM_EIO);
}

/* One tensor w of n floats at offset of a file; more keys may follow in extra. */
static void extern_model(struct rig *r, const char *location, const char *offset,
                         const char *length, uint64_t n)
{
    struct buf *b = &r->w.io;
    const char *const keys[] = { "location", "offset", "length" };
    const char *const values[] = { location, offset, length };
    size_t t, e;

    rig_init(r, 17);
    t = pb_begin(b, 5);
    pb_varint(b, 1, n);
    pb_varint(b, 2, TENSOR_F32);
    pb_str(b, 8, "w");
    for (size_t i = 0; i < 3; i++) {
        if (!values[i])
            continue;
        e = pb_begin(b, 13);
        pb_str(b, 1, keys[i]);
        pb_str(b, 2, values[i]);
        pb_end(b, e);
    }
    pb_varint(b, 14, 1);
    pb_end(b, t);
    rig_output(r, "w");
    rig_finish(r);
}

static void test_extern(void **state)
{
    static const struct {
        const char *location, *offset, *length;
        uint64_t n;
        const char *want; /* NULL: fine */
    } cases[] = {
        { "w.bin", "4", "8", 2, NULL },
        { "w.bin", "4", NULL, 2, NULL },
        { "./w.bin", NULL, NULL, 4, NULL },
        { "sub/w.bin", NULL, NULL, 4, NULL },
        { "inside", NULL, NULL, 4, NULL },
        { "w.bin", "12", "8", 2, "wants 8 bytes at 12 of 'w.bin', which has only 16" },
        { "w.bin", "18446744073709551615", "8", 2, "which has only 16" },
        { "w.bin", "99999999999999999999", "8", 2, "is not a number" },
        { "w.bin", "-4", "8", 2, "is not a number" },
        { "w.bin", "0", "12", 2, "has 12 bytes, its shape wants 8" },
        { "/etc/passwd", NULL, NULL, 1, "absolute location" },
        { "../w.bin", NULL, NULL, 1, "location with '..'" },
        { "sub/../../w.bin", NULL, NULL, 1, "location with '..'" },
        { "sub/..", NULL, NULL, 1, "location with '..'" },
        { "escape", NULL, NULL, 1, "is a link out of the model's folder" },
        { "up/passwd", NULL, NULL, 1, "is a link out of the model's folder" },
        { "missing", NULL, NULL, 1, "external data 'missing': No such file" },
        { "sub", NULL, NULL, 1, "is not a regular file" },
        { "pipe", NULL, NULL, 1, "is not a regular file" },
        { "", NULL, NULL, 1, "has no location" },
        { NULL, NULL, NULL, 1, "has no location" },
    };
    const float data[4] = { 1, 2, 3, 4 };

    (void)state;
    mkdir(unit_path("sub"), 0755);
    unit_write(unit_path("w.bin"), data, sizeof(data));
    unit_write(unit_path("sub/w.bin"), data, sizeof(data));
    assert_int_equal(symlink("w.bin", unit_path("inside")), 0);
    assert_int_equal(symlink("/etc/passwd", unit_path("escape")), 0);
    assert_int_equal(symlink("/etc", unit_path("up")), 0);
    assert_int_equal(mkfifo(unit_path("pipe"), 0600), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rig r;
        int rc;

        extern_model(&r, cases[i].location, cases[i].offset, cases[i].length, cases[i].n);
        unit_write(unit_path("m.onnx"), r.file.data, r.file.len);
        rc = model_load(&r.m, unit_path("m.onnx"), &r.err);
        if (cases[i].want) {
            assert_int_not_equal(rc, 0);
            if (!strstr(r.err.msg, cases[i].want) || !strstr(r.err.msg, "initializer 0 'w'"))
                fail_msg("%zu: '%s' lacks '%s'", i, r.err.msg, cases[i].want);
        } else {
            assert_int_equal(rc, 0);
            assert_true(rig_value(&r, "w")->data->external);
            assert_true(tensor_float(rig_value(&r, "w")->data, 0) == (cases[i].offset ? 2 : 1));
            assert_int_equal(r.m->extern_bytes, 16);
        }
        rig_release(&r);
        if (!cases[i].want)
            continue;
        /* From memory there is no folder to look in. */
        extern_model(&r, "w.bin", NULL, NULL, 4);
        assert_int_equal(rig_parse(&r), OPM_EUNSUPPORTED);
        rig_release(&r);
    }
}

static long resident_bytes(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

/* Weights of 2.5 GB beside the model take address space, not memory. */
static void test_huge_extern(void **state)
{
    const uint64_t floats = (uint64_t)5 << 27; /* 2.5 GiB */
    struct rig r;
    int fd = open(unit_path("w.big"), O_RDWR | O_CREAT, 0644);
    const float last = 42;
    char length[32];
    long before;

    (void)state;
    assert_true(fd >= 0);
    if (ftruncate(fd, (off_t)(floats * 4)) < 0) {
        close(fd);
        skip();
    }
    assert_int_equal(pwrite(fd, &last, 4, (off_t)(floats * 4 - 4)), 4);
    close(fd);
    snprintf(length, sizeof(length), "%llu", (unsigned long long)floats * 4);
    extern_model(&r, "w.big", "0", length, floats);
    unit_write(unit_path("big.onnx"), r.file.data, r.file.len);
    before = resident_bytes();
    assert_int_equal(model_load(&r.m, unit_path("big.onnx"), &r.err), 0);
    assert_true(tensor_float(rig_value(&r, "w")->data, (int64_t)floats - 1) == 42);
    assert_true(resident_bytes() - before < 8 << 20);
    rig_release(&r);
}

/* A model with everything in it, for the tests below. */
static void rich_model(struct rig *r)
{
    struct buf branch = { 0 };
    size_t t;

    small_model(r);
    rig_node(&branch, 1, "Abs", "y", "inner");
    rig_info(&branch, 12, "inner");
    rig_int64s(&branch, 5, "five", (const int64_t[]){ 5 }, 1);
    ow_begin(&r->w, "If", "if");
    ow_in(&r->w, "flag");
    ow_out(&r->w, "z");
    rig_attr_graph(r, "then_branch", &branch);
    rig_attr_graph(r, "else_branch", &branch);
    ow_end(&r->w);
    rig_node(&r->w.node, 1, "Reshape", "z,five", "r");
    rig_node(&r->w.node, 1, "Less", "x,x", "flag"); /* out of order */
    rig_int64s(&r->w.io, 5, "five", (const int64_t[]){ -1, 4 }, 2);
    call_outer(r, "p", "q", true);
    t = pb_begin(&r->w.io, 13); /* value_info */
    pb_str(&r->w.io, 1, "z");
    pb_end(&r->w.io, t);
    rig_output(r, "r");
    rig_finish(r);
    add_functions(&r->file);
    t = pb_begin(&r->file, 14); /* metadata */
    pb_str(&r->file, 1, "key");
    pb_str(&r->file, 2, "value");
    pb_end(&r->file, t);
    buf_release(&branch);
}

static struct buf rich;

static int parse_rich(void)
{
    struct model *m;
    opm_error err = { 0 };
    int rc = model_parse(&m, rich.data, rich.len, "m.onnx", NULL, &err);

    if (rc)
        return rc;
    rc = graph_infer(m, NULL, &err);
    model_free(m);
    return rc;
}

static void test_no_memory(void **state)
{
    (void)state;
    unit_fail_each(parse_rich);
}

/* Whatever is missing or changed: an error or a model, no crash, no leak. */
static void parse_any(const char *p, size_t len)
{
    struct model *m;
    opm_error err = { 0 };
    char *copy = malloc(len ? len : 1); /* so that ASan sees every step beyond the end */

    memcpy(copy, p, len);
    if (model_parse(&m, copy, len, "m.onnx", NULL, &err) == 0) {
        graph_infer(m, NULL, &err);
        model_free(m);
    } else {
        assert_int_equal(strncmp(err.msg, "m.onnx: ", 8), 0);
        assert_null(strchr(err.msg, '\n'));
    }
    free(copy);
}

static void test_truncated(void **state)
{
    (void)state;
    for (size_t len = 0; len < rich.len; len++)
        parse_any(rich.data, len);
}

static void test_flipped(void **state)
{
    char *copy = malloc(rich.len);
    uint64_t x = 88172645463325252u;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, rich.data, rich.len);
        for (int k = 0; k <= round % 3; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            copy[x % rich.len] = (char)(x >> 32);
        }
        parse_any(copy, rich.len);
    }
    free(copy);
}

static int group_setup(void **state)
{
    struct rig r;

    (void)state;
    rich_model(&r);
    buf_add(&rich, r.file.data, r.file.len);
    rig_release(&r);
    return 0;
}

static int group_teardown(void **state)
{
    buf_release(&rich);
    return unit_cleanup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),          cmocka_unit_test(test_packed_elements),
        cmocka_unit_test(test_half),           cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_basic),          cmocka_unit_test(test_unsorted),
        cmocka_unit_test(test_captures),       cmocka_unit_test(test_constants),
        cmocka_unit_test(test_typed_data),     cmocka_unit_test(test_old_inputs),
        cmocka_unit_test(test_functions),      cmocka_unit_test(test_function_with_subgraph),
        cmocka_unit_test(test_function_bombs), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_bad_parts),      cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_deep),           cmocka_unit_test(test_not_onnx),
        cmocka_unit_test(test_extern),         cmocka_unit_test(test_huge_extern),
        cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
