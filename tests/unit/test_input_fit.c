/* test_input_fit.c -- sizes that are chosen for open dimensions are such that the graph takes them.
 */
#include "graph_rig.h"
#include "run/input.h"

#define OPEN -1 /* a dimension without a name */

/* An input; open dimensions are all called "?", as some exporters have it. */
static void put_input(struct rig *r, const char *name, const int64_t *dims, int rank)
{
    struct buf *b = &r->w.io;
    size_t info = pb_begin(b, 11), type, tensor, shape;

    pb_str(b, 1, name);
    type = pb_begin(b, 2);
    tensor = pb_begin(b, 1);
    pb_varint(b, 1, TENSOR_F32);
    shape = pb_begin(b, 2);
    for (int i = 0; i < rank; i++) {
        size_t dim = pb_begin(b, 1);

        if (dims[i] == OPEN)
            pb_str(b, 2, "?");
        else
            pb_varint(b, 1, (uint64_t)dims[i]);
        pb_end(b, dim);
    }
    pb_end(b, shape);
    pb_end(b, tensor);
    pb_end(b, type);
    pb_end(b, info);
}

static const char *put_weight(struct rig *r, const char *name, const int64_t *dims, int rank)
{
    return ow_normal(&r->w, name, dims, rank, 0.1, -1);
}

static const char *put_pool(struct rig *r, const char *in, const char *out, int64_t factor)
{
    struct buf *b = &r->w.node;
    size_t n = pb_begin(b, 1);
    static const char *const names[] = { "kernel_shape", "strides" };

    rig_names(b, 1, in);
    rig_names(b, 2, out);
    pb_str(b, 4, "AveragePool");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t a = pb_begin(b, 5);

        pb_str(b, 1, names[i]);
        pb_varint(b, 8, (uint64_t)factor);
        pb_varint(b, 8, (uint64_t)factor);
        pb_varint(b, 20, ATTR_INTS);
        pb_end(b, a);
    }
    pb_end(b, n);
    return out;
}

static void put_resize(struct rig *r, const char *in, const char *out, int64_t height,
                       int64_t width)
{
    int64_t sizes[] = { 1, 3, height, width };
    char inputs[100];

    snprintf(inputs, sizeof(inputs), "%s,,,%s", in, ow_ints(&r->w, sizes, 4));
    rig_node(&r->w.node, 1, "Resize", inputs, out);
}

/* The shape of the first input and what is said of it. */
static void expect(struct rig *r, const int64_t *dims, int rank, const char *sizes)
{
    struct input_options opt = { .seed = 1, .guess = true };
    struct engine_value value;
    const struct value *v;
    struct inputs in;
    opm_error err;

    rig_output(r, "y");
    rig_finish(r);
    unit_write(unit_path("m.onnx"), r->file.data, r->file.len);
    if (model_load(&r->m, unit_path("m.onnx"), &err))
        fail_msg("%s", err.msg);
    v = &r->m->graph->value[r->m->graph->input[0]];
    value = (struct engine_value){ v->name, v->declared_type, *v->declared, v->kind };
    assert_int_equal(inputs_make_fit(&in, r->m, &value, 1, &opt, &err), 0);
    assert_int_equal(in.t[0].shape.rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(in.t[0].shape.dim[i], dims[i]);
    assert_int_equal(in.t[0].bytes, (size_t)shape_bytes(&in.t[0].shape, TENSOR_F32));
    assert_string_equal(in.sizes, sizes);
    inputs_release(&in);
    rig_release(r);
}

static void test_image(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, 17); /* any size will do */
    put_input(&r, "x", RIG_DIMS(1, 3, OPEN, OPEN));
    rig_node(&r.w.node, 1, "Relu", "x", "y");
    expect(&r, RIG_DIMS(1, 3, 224, 224), "x[2]=224, x[3]=224");

    rig_init(&r, 17); /* it scales it itself */
    put_input(&r, "x", RIG_DIMS(1, 3, OPEN, OPEN));
    put_resize(&r, "x", "y", 96, 160);
    expect(&r, RIG_DIMS(1, 3, 96, 160), "x[2]=96, x[3]=160");

    rig_init(&r, 17); /* what is scaled is an eighth, and meets a quarter */
    put_input(&r, "x", RIG_DIMS(1, 3, OPEN, OPEN));
    put_pool(&r, put_pool(&r, "x", "quarter", 4), "eighth", 2);
    put_resize(&r, "eighth", "again", 40, 60);
    rig_node(&r.w.node, 1, "Add", "quarter,again", "y");
    expect(&r, RIG_DIMS(1, 3, 160, 240), "x[2]=160, x[3]=240");

    rig_init(&r, 17); /* a line of text */
    put_input(&r, "x", RIG_DIMS(1, 3, OPEN, OPEN));
    put_weight(&r, "rows", RIG_DIMS(1, 1, 48, 1));
    rig_node(&r.w.node, 1, "Add", "x,rows", "y");
    expect(&r, RIG_DIMS(1, 3, 48, 320), "x[2]=48, x[3]=320");

    rig_init(&r, 17); /* of a size that nobody knows */
    put_input(&r, "x", RIG_DIMS(1, 3, OPEN, OPEN));
    put_weight(&r, "rows", RIG_DIMS(1, 1, 47, 1));
    rig_node(&r.w.node, 1, "Add", "x,rows", "y");
    expect(&r, RIG_DIMS(1, 3, 224, 224), "x[2]=224, x[3]=224");
}

static void test_sequence(void **state)
{
    static const struct {
        int64_t places, chosen; /* 0: as many as there are */
        const char *sizes;
    } cases[] = {
        { 0, 128, "seq=128" }, { 77, 77, "seq=77" }, { 512, 512, "seq=512" }, { 97, 1, "seq=1" }
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rig r;

        rig_init(&r, 17);
        ow_input(&r.w, "tokens", TENSOR_F32, "seq", (const int64_t[]){ 0, 4 }, 2);
        put_weight(&r, "places", RIG_DIMS(cases[i].places ? cases[i].places : 1, 4));
        rig_node(&r.w.node, 1, "Add", "tokens,places", "y");
        expect(&r, RIG_DIMS(cases[i].chosen, 4), cases[i].sizes);
    }
}

/* A dimension without a name is called by its place, and then keeps what it was given. */
static void test_number(void **state)
{
    char name[] = "x[2]", other[] = "x[1]";
    struct run_dim dim = { name, 100 };
    struct input_options opt = { .seed = 1, .guess = true, .dim = &dim, .ndim = 1 };
    struct engine_value value = { "x", TENSOR_F32, { 4, { 1, 3, OPEN, OPEN } }, VALUE_TENSOR };
    const char *text = "x:{1,3,50,100}";
    struct inputs in;
    opm_error err;
    struct rig r;

    (void)state;
    rig_init(&r, 17);
    put_input(&r, "x", RIG_DIMS(1, 3, OPEN, OPEN));
    rig_node(&r.w.node, 1, "Relu", "x", "y");
    rig_output(&r, "y");
    rig_load(&r);
    assert_int_equal(inputs_make(&in, r.m, &value, 1, &opt, &err), 0);
    assert_int_equal(in.t[0].shape.dim[2], 100);
    assert_string_equal(in.sizes, "x[3]=224");
    inputs_release(&in);
    opt.text = &text;
    opt.ntext = 1;
    assert_int_equal(inputs_make(&in, r.m, &value, 1, &opt, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "'x[2]' would be both 100 and 50"));
    dim.name = other;
    assert_int_equal(inputs_make(&in, r.m, &value, 1, &opt, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "no open dimension 'x[1]', but 'x[2]', 'x[3]'"));
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_sequence),
        cmocka_unit_test(test_number),
    };

    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
