/* test_native_engine.c -- the native engine as a whole: errors, changing shapes, what it tells the
 * recorder, running out of memory. */
#include "onnx_make.h"

#include "../unit/unit.h"

#include <opmeter/opmeter.h>
#include <opmeter/opmeter_trace.h>

#include <malloc.h>

static struct engine_tensor floats(float *data, const int64_t *dim, int rank)
{
    struct engine_tensor t = { .type = TENSOR_F32, .data = data };

    t.shape.rank = rank;
    memcpy(t.shape.dim, dim, (size_t)rank * sizeof(*dim));
    t.bytes = (size_t)shape_bytes(&t.shape, TENSOR_F32);
    return t;
}

static void open_engine(struct make *mk, struct model **m, struct engine **e)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    opm_error err = { 0 };

    opts.threads = 2;
    if (make_model(mk, 13, m, &err) || engine_native.open(e, *m, &opts, &err))
        fail_msg("%s", err.msg);
}

static void close_engine(struct make *mk, struct model *m, struct engine *e)
{
    engine_native.close(e);
    model_free(m);
    make_free(mk);
}

static void missing_operators(void **state)
{
    struct make mk = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };

    (void)state;
    make_node(&mk, "Frobnicate", "x", "a", "");
    make_node(&mk, "Relu", "a", "b", "");
    make_node(&mk, "Frobnicate", "b", "c", "");
    make_node(&mk, "Twist", "c", "y", "");
    make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ 2 }, 1);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    assert_int_equal(make_model(&mk, 13, &m, &err), 0);
    assert_int_equal(engine_native.open(&e, m, NULL, &err), OPM_EUNSUPPORTED);
    assert_null(e);
    assert_string_equal(
        err.msg, "test: the native engine lacks Frobnicate-13 (2 nodes: 'a' 'c'); Twist-13 (1 "
                 "node: 'y'): ONNX has no such operator");
    model_free(m);
    make_free(&mk);
}

/* ONNX Runtime is named where it has the operator, and only there. */
static void who_could_run_it(void **state)
{
    static const struct {
        const char *type, *hint;
    } cases[] = {
        { "com.microsoft:BeamSearch", "--engine onnxruntime could run it" },
        { "com.microsoft.nchwc:Conv", "--engine onnxruntime could run it" },
        { "my.company:Thing",
          "no engine has operators of 'my.company'; export the model without them" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct make mk = { 0 };
        struct model *m = NULL;
        struct engine *e = NULL;
        opm_error err = { 0 };

        make_node(&mk, cases[i].type, "x", "y", "");
        make_value(&mk, false, "x", TENSOR_U8, (int64_t[]){ 2 }, 1);
        make_value(&mk, true, "y", TENSOR_U8, NULL, -1);
        assert_int_equal(make_model(&mk, 20, &m, &err), 0);
        assert_int_equal(engine_native.open(&e, m, NULL, &err), OPM_EUNSUPPORTED);
        if (strlen(err.msg) < strlen(cases[i].hint) ||
            strcmp(err.msg + strlen(err.msg) - strlen(cases[i].hint), cases[i].hint) != 0)
            fail_msg("%s: %s", cases[i].type, err.msg);
        model_free(m);
        make_free(&mk);
    }
}

/* A domain that the model does not import is there in its newest version. */
static void imports_left_out(void **state)
{
    struct make mk = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    struct engine_tensor in, out;
    opm_error err = { 0 };
    float x[4] = { 1, 2, 3, 4 };
    size_t o, g;

    (void)state;
    make_node(&mk, "com.microsoft:Gelu", "x", "a", "");
    make_node(&mk, "Clip", "a,low", "y", ""); /* its limits are inputs in new versions */
    make_weight(&mk, "low", TENSOR_F32, NULL, 0, &(float){ 2.5f }, 4);
    make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ 4 }, 1);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    pb_varint(&mk.file, 1, 8);
    o = pb_begin(&mk.file, 8);
    pb_str(&mk.file, 1, "ai.onnx.ml");
    pb_varint(&mk.file, 2, 3);
    pb_end(&mk.file, o);
    g = pb_begin(&mk.file, 7);
    buf_add(&mk.file, mk.nodes.data, mk.nodes.len);
    pb_str(&mk.file, 2, "g");
    buf_add(&mk.file, mk.weights.data, mk.weights.len);
    buf_add(&mk.file, mk.values.data, mk.values.len);
    pb_end(&mk.file, g);
    if (model_parse(&m, mk.file.data, mk.file.len, "test", NULL, &err) ||
        engine_native.open(&e, m, NULL, &err))
        fail_msg("%s", err.msg);
    in = floats(x, (int64_t[]){ 4 }, 1);
    if (e->class->run(e, &in, 1, &out, 1, &err))
        fail_msg("%s", err.msg);
    assert_true(((float *)out.data)[0] == 2.5f);
    assert_true(((float *)out.data)[3] > 3.99f);
    close_engine(&mk, m, e);
}

/* A whole model inside of If: its activations count. */
static void memory_of_branches(void **state)
{
    static const char *const branch[2] = { "then_branch", "else_branch" };
    struct make mk = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    struct engine_tensor in[2], out;
    struct engine_memory mem;
    opm_error err = { 0 };
    float *x = calloc(4096, sizeof(*x));
    uint8_t yes = 1;
    size_t n = pb_begin(&mk.nodes, 1);

    (void)state;
    pb_str(&mk.nodes, 1, "c");
    pb_str(&mk.nodes, 2, "y");
    pb_str(&mk.nodes, 4, "If");
    for (int i = 0; i < 2; i++) {
        struct make body = { 0 };
        size_t a = pb_begin(&mk.nodes, 5), g;

        make_node(&body, "Exp", "x", "t", "");
        make_node(&body, i ? "Sin" : "Cos", "t", "r", "");
        make_value(&body, true, "r", TENSOR_F32, NULL, -1);
        pb_str(&mk.nodes, 1, branch[i]);
        pb_varint(&mk.nodes, 20, 5);
        g = pb_begin(&mk.nodes, 6);
        buf_add(&mk.nodes, body.nodes.data, body.nodes.len);
        pb_str(&mk.nodes, 2, "b");
        buf_add(&mk.nodes, body.values.data, body.values.len);
        pb_end(&mk.nodes, g);
        pb_end(&mk.nodes, a);
        make_free(&body);
    }
    pb_end(&mk.nodes, n);
    make_value(&mk, false, "c", TENSOR_BOOL, NULL, 0);
    make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ 4096 }, 1);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    open_engine(&mk, &m, &e);
    in[0] = (struct engine_tensor){ .type = TENSOR_BOOL, .data = &yes, .bytes = 1 };
    in[1] = floats(x, (int64_t[]){ 4096 }, 1);
    if (e->class->prepare(e, in, 2, &err))
        fail_msg("%s", err.msg);
    e->class->memory(e, &mem);
    assert_int_equal(mem.arena, 0);
    if (e->class->run(e, in, 2, &out, 1, &err))
        fail_msg("%s", err.msg);
    e->class->memory(e, &mem);
    assert_in_range(mem.arena, 2 * 4096 * 4, 6 * 4096 * 4);
    close_engine(&mk, m, e);
    free(x);
}

static void bad_inputs(void **state)
{
    struct make mk = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    struct engine_tensor in, out;
    opm_error err = { 0 };
    float x[8] = { 0 };

    (void)state;
    make_node(&mk, "Relu", "x", "y", "");
    make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ 2, -1 }, 2);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    open_engine(&mk, &m, &e);
    in = floats(x, (int64_t[]){ 3, 2 }, 2);
    assert_int_equal(e->class->run(e, &in, 1, &out, 1, &err), OPM_EINVAL);
    assert_string_equal(err.msg, "test: input 'x' must be 2x?, not 3x2");
    in.type = TENSOR_I32;
    assert_int_equal(e->class->run(e, &in, 1, &out, 1, &err), OPM_EINVAL);
    assert_string_equal(err.msg, "test: input 'x' must be float32, not int32");
    assert_int_equal(e->class->run(e, &in, 0, &out, 1, &err), OPM_EINVAL);
    close_engine(&mk, m, e);
}

static void index_out_of_range(void **state)
{
    static const int64_t at = 7;
    struct make mk = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    struct engine_tensor in, out;
    opm_error err = { 0 };
    float x[8] = { 0 };

    (void)state;
    make_node(&mk, "Gather", "x,i", "y", "axis=0");
    make_weight(&mk, "i", TENSOR_I64, NULL, 0, &at, 8);
    make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ 4 }, 1);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    open_engine(&mk, &m, &e);
    in = floats(x, (int64_t[]){ 4 }, 1);
    assert_int_equal(e->class->run(e, &in, 1, &out, 1, &err), OPM_EINVAL);
    assert_string_equal(err.msg, "test: node 0 'y' (Gather): index 7 of 4 is out of range");
    close_engine(&mk, m, e);
}

/* Shape, Gather and Concat are computed while preparing, whatever the input's size. */
static void shapes_change(void **state)
{
    static const int64_t zero = 0, minus = -1;
    struct make mk = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    struct engine_tensor in, out;
    opm_error err = { 0 };
    float x[64];

    (void)state;
    for (int i = 0; i < 64; i++)
        x[i] = (float)i;
    make_node(&mk, "Shape", "x", "s", "");
    make_node(&mk, "Gather", "s,zero", "n", "axis=0");
    make_node(&mk, "Concat", "n,minus", "t", "axis=0");
    make_node(&mk, "Reshape", "x,t", "r", "");
    make_node(&mk, "Neg", "r", "y", "");
    make_weight(&mk, "zero", TENSOR_I64, (int64_t[]){ 1 }, 1, &zero, 8);
    make_weight(&mk, "minus", TENSOR_I64, (int64_t[]){ 1 }, 1, &minus, 8);
    make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ -1, 2, 2 }, 3);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    open_engine(&mk, &m, &e);
    for (int round = 0; round < 4; round++) {
        int64_t n = round % 2 ? 3 : 16;

        in = floats(x, (int64_t[]){ n, 2, 2 }, 3);
        assert_int_equal(e->class->run(e, &in, 1, &out, 1, &err), 0);
        assert_int_equal(out.shape.rank, 2);
        assert_int_equal(out.shape.dim[0], n);
        assert_int_equal(out.shape.dim[1], 4);
        for (int i = 0; i < (int)n * 4; i++)
            assert_true(((float *)out.data)[i] == -x[i]);
    }
    in = floats(x, (int64_t[]){ 0, 2, 2 }, 3);
    assert_int_equal(e->class->run(e, &in, 1, &out, 1, &err), OPM_EINVAL); /* -1 of nothing */
    close_engine(&mk, m, e);
}

/* Bytes that are allocated; nothing where the C library does not count them. */
static size_t allocated(void)
{
#ifdef __GLIBC__
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

/* A thousand runs, shapes changing now and then, take no more memory than the first hundred. Under
 * AddressSanitizer the leak check at the end has the word instead. */
static void runs_leak_nothing(void **state)
{
    static const float weight[4] = { 1, 2, 3, 4 };
    struct make mk = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    struct engine_tensor in, out;
    opm_error err = { 0 };
    float x[64] = { 0 };
    size_t before = 0;

    (void)state;
    make_node(&mk, "MatMul", "x,w", "a", "");
    make_node(&mk, "Softmax", "a", "b", "axis=-1");
    make_node(&mk, "NonZero", "b", "y", "");
    make_weight(&mk, "w", TENSOR_F32, (int64_t[]){ 2, 2 }, 2, weight, sizeof(weight));
    make_value(&mk, false, "x", TENSOR_F32, (int64_t[]){ -1, 2 }, 2);
    make_value(&mk, true, "y", TENSOR_I64, NULL, -1);
    open_engine(&mk, &m, &e);
    for (int i = 0; i < 1000; i++) {
        if (i == 100)
            before = allocated();
        in = floats(x, (int64_t[]){ i / 10 % 2 ? 32 : 5, 2 }, 2);
        assert_int_equal(e->class->run(e, &in, 1, &out, 1, &err), 0);
    }
    assert_true(allocated() <= before + 4096);
    close_engine(&mk, m, e);
}

/* Conv, BatchNormalization, Relu; MatMul, Add, Gelu in five nodes. */
static void fused_model(struct make *mk)
{
    static const float w[2 * 3] = { 1, -1, 2, 0, 0, 3 }, v[2] = { 1, 2 }, one = 1, half = 0.5f,
                             root = 1.41421356f, b[4] = { 1, 2, 3, 4 }, q[16] = { 1, 0, 2 };

    make_node(mk, "Conv", "x,w", "c", "kernel_shape=1,1");
    make_node(mk, "BatchNormalization", "c,v,v,v,v", "n", "");
    make_node(mk, "Relu", "n", "r", "");
    make_node(mk, "MatMul", "r,q", "p", "");
    make_node(mk, "Add", "p,b", "g", "");
    make_node(mk, "Div", "g,root", "d", "");
    make_node(mk, "Erf", "d", "e", "");
    make_node(mk, "Add", "e,one", "f", "");
    make_node(mk, "Mul", "g,f", "h", "");
    make_node(mk, "Mul", "h,half", "y", "");
    make_weight(mk, "w", TENSOR_F32, (int64_t[]){ 2, 3, 1, 1 }, 4, w, sizeof(w));
    make_weight(mk, "v", TENSOR_F32, (int64_t[]){ 2 }, 1, v, sizeof(v));
    make_weight(mk, "q", TENSOR_F32, (int64_t[]){ 4, 4 }, 2, q, sizeof(q));
    make_weight(mk, "b", TENSOR_F32, (int64_t[]){ 4 }, 1, b, sizeof(b));
    make_weight(mk, "one", TENSOR_F32, NULL, 0, &one, 4);
    make_weight(mk, "half", TENSOR_F32, NULL, 0, &half, 4);
    make_weight(mk, "root", TENSOR_F32, NULL, 0, &root, 4);
    make_value(mk, false, "x", TENSOR_F32, (int64_t[]){ 1, 3, 2, 4 }, 4);
    make_value(mk, true, "y", TENSOR_F32, NULL, -1);
}

static void query(opm_trace *t, const char *sql, const char *want)
{
    opm_rows *r = NULL;
    opm_error err = { 0 };
    struct buf got = { 0 };
    int rc = opm_trace_query(t, sql, &r, &err);

    while (!rc) {
        rc = opm_rows_next(r, &err);
        if (rc != 1)
            break;
        for (int c = 0; c < opm_rows_columns(r); c++)
            buf_addf(&got, "%s%s", c ? "|" : "",
                     opm_rows_text(r, c, NULL) ? opm_rows_text(r, c, NULL) : "");
        buf_addc(&got, '\n');
        rc = 0;
    }
    if (rc < 0)
        fail_msg("%s", err.msg);
    opm_rows_close(r);
    assert_string_equal(buf_str(&got), want);
    buf_release(&got);
}

static void what_is_recorded(void **state)
{
    struct make mk = { 0 };
    struct model *m = NULL;
    struct engine *e = NULL;
    struct engine_tensor in, out;
    opm_options opts = OPM_OPTIONS_INIT;
    opm_error err = { 0 };
    opm_trace *t = NULL;
    char path[100];
    float x[24] = { 1, 2, 3 };

    (void)state;
    snprintf(path, sizeof(path), "/tmp/test_native_engine.%d.opm", (int)getpid());
    fused_model(&mk);
    open_engine(&mk, &m, &e);
    in = floats(x, (int64_t[]){ 1, 3, 2, 4 }, 4);
    opts.path = path;
    assert_int_equal(opm_start(&opts, &err), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(e->class->run(e, &in, 1, &out, 1, &err), 0);
    assert_int_equal(opm_stop(&err), 0);
    assert_int_equal(opm_trace_open(&t, &(const char *){ path }, 1, NULL, &err), 0);
    query(t, "SELECT name, type, post_op, engine, flops > 0, bytes > 0 FROM op ORDER BY id",
          "x|Reorder||native|0|1\n"
          "c|Conv|batchnorm+relu|native|1|1\n"
          "r|Reorder||native|0|1\n"
          "p|MatMul|bias+gelu|native|1|1\n");
    query(t,
          "SELECT op.name, count(*) FROM span JOIN op ON span.op = op.id GROUP BY op.id ORDER BY "
          "op.id",
          "x|4\nc|4\nr|4\np|4\n"); /* three runs and one preparation */
    query(t,
          "SELECT json_extract(attributes, '$.algorithm') FROM op WHERE type IN ('Conv', "
          "'Reorder') ORDER BY id",
          "to blocked\ndirect\nto plain\n");
    query(t, "SELECT count(*) > 0 FROM mem WHERE kind = 'activation'", "1\n");
    opm_trace_close(t);
    unlink(path);
    close_engine(&mk, m, e);
}

static struct make fail_make;
static struct model *fail_model;

static int run_step(void)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct engine *e = NULL;
    struct engine_tensor in, out;
    float x[24] = { 1, 2, 3 };
    int rc;

    opts.threads = 2;
    in = floats(x, (int64_t[]){ 1, 3, 2, 4 }, 4);
    rc = engine_native.open(&e, fail_model, &opts, NULL);
    if (!rc)
        rc = e->class->run(e, &in, 1, &out, 1, NULL);
    engine_native.close(e);
    return rc;
}

static void allocations_fail(void **state)
{
    (void)state;
    fused_model(&fail_make);
    assert_int_equal(make_model(&fail_make, 13, &fail_model, NULL), 0);
    /* Inference that fails for lack of memory only costs fusions, so a run may succeed. */
    for (long n = 1;; n = unit_next_failure(n)) {
        bool failed;
        int rc;

        mem_fail_at(n);
        rc = run_step();
        failed = mem_alloc_failed();
        mem_fail_at(0);
        assert_true(rc == 0 || (failed && rc == OPM_ENOMEM));
        if (!failed)
            break;
    }
    model_free(fail_model);
    make_free(&fail_make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_operators),  cmocka_unit_test(bad_inputs),
        cmocka_unit_test(index_out_of_range), cmocka_unit_test(shapes_change),
        cmocka_unit_test(runs_leak_nothing),  cmocka_unit_test(what_is_recorded),
        cmocka_unit_test(allocations_fail),   cmocka_unit_test(who_could_run_it),
        cmocka_unit_test(imports_left_out),   cmocka_unit_test(memory_of_branches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
