/* test_input.c -- descriptions of inputs, open dimensions, random values that make sense. */
#include "graph/infer.h"
#include "run/input.h"
#include "unit.h"

#include <math.h>

/* A model with inputs like those of an engine. */
struct rig {
    struct model *m;
    struct engine_value value[8];
    size_t n;
};

static void rig_open(struct rig *r, const char *zoo)
{
    opm_error err;

    assert_int_equal(model_load(&r->m, zoo, &err), 0);
    r->n = r->m->graph->ninput;
    assert_true(r->n <= ARRAY_SIZE(r->value));
    for (size_t i = 0; i < r->n; i++) {
        const struct value *v = &r->m->graph->value[r->m->graph->input[i]];

        r->value[i] = (struct engine_value){ v->name, v->declared_type, *v->declared, v->kind };
    }
}

static int make(const struct rig *r, struct inputs *in, const char *text, opm_error *err)
{
    struct input_options opt = { .text = &text, .ntext = text ? 1 : 0, .seed = 1 };

    return inputs_make(in, r->m, r->value, r->n, &opt, err);
}

static void test_descriptions(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *says; /* part of the message */
    } cases[] = {
        { NULL, 0, "" },
        { "", 0, "" },
        { "{1,784}", 0, "" },
        { "1x784", 0, "" },
        { "input:{1, 784};", 0, "" },
        { "data:{1,784}", 0, "" }, /* MegEngine's name of the only input */
        { "{1,783}", OPM_EINVAL, "input 'input' is 1x784, but --input has 1x783" },
        { "{784}", OPM_EINVAL, "is 1x784" },
        { "other:{1,784}", OPM_EINVAL, "there is no input 'other', but 'input'" },
        { "inputs:{1,784}", OPM_EINVAL, "no input 'inputs'; did you mean 'input'? It has 'input'" },
        { "{1,}", OPM_EINVAL, "is no shape" },
        { "{1;784}", OPM_EINVAL, "neither a file" },
        { "[1,2]", OPM_EINVAL, "but the command line has 2" },
        { "[[1,2],[3]]", OPM_EINVAL, "neither a file" },
        { "[1,[2]]", OPM_EINVAL, "neither a file" },
        { "[[1],2]", OPM_EINVAL, "neither a file" },
        { "nonsense", OPM_EINVAL, "neither a file" },
        { "missing.npy", OPM_EIO, "missing.npy" },
        { "missing.npz", OPM_EIO, "missing.npz" },
        { "input:missing.npz", OPM_EINVAL, "without a name" },
        { "missing.ppm", OPM_EIO, "missing.ppm" },
        { "missing.json", OPM_EIO, "missing.json" },
    };
    struct rig r;

    (void)state;
    rig_open(&r, "zoo:mlp");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct inputs in = { 0 };
        opm_error err = { 0 };

        assert_int_equal(make(&r, &in, cases[i].text, &err), cases[i].rc);
        if (cases[i].rc)
            assert_non_null(strstr(err.msg, cases[i].says));
        else
            assert_int_equal((uintptr_t)in.t[0].data % 64, 0);
        inputs_release(&in);
    }
    model_free(r.m);
}

static void test_open_dimensions(void **state)
{
    char n[] = "n", m[] = "m";
    struct run_dim dim = { n, 3 }, wrong = { m, 3 };
    struct input_options opt = { .seed = 1 };
    struct inputs in;
    struct rig r;
    opm_error err;

    (void)state;
    rig_open(&r, "zoo:mlp?batch=n");
    assert_int_equal(inputs_make(&in, r.m, r.value, r.n, &opt, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "'n'"));
    assert_non_null(strstr(err.msg, "--dim n=N"));
    opt.dim = &dim;
    opt.ndim = 1;
    assert_int_equal(inputs_make(&in, r.m, r.value, r.n, &opt, &err), 0);
    assert_int_equal(in.t[0].shape.dim[0], 3);
    inputs_release(&in);
    opt.batch_size = 4;
    assert_int_equal(inputs_make(&in, r.m, r.value, r.n, &opt, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "both 3 and 4"));
    opt.ndim = 0;
    assert_int_equal(inputs_make(&in, r.m, r.value, r.n, &opt, &err), 0);
    assert_int_equal(in.t[0].shape.dim[0], 4);
    inputs_release(&in);
    opt.dim = &wrong;
    opt.ndim = 1;
    assert_int_equal(inputs_make(&in, r.m, r.value, r.n, &opt, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "no open dimension 'm'"));
    model_free(r.m);
}

/* Names and places of open dimensions, and what people would choose for them. */
static void test_guess(void **state)
{
    static const struct {
        const char *input;
        enum tensor_type type;
        struct shape shape;
        int d;
        const char *dim;
        int hint; /* 1: a cache of tokens, 2: a rate of samples */
        int64_t size;
    } cases[] = {
        { "x", TENSOR_F32, { 2, { -1, 784 } }, 0, "batch_size", 0, 1 },
        { "x", TENSOR_F32, { 2, { -1, 784 } }, 0, NULL, 0, 1 },
        { "state", TENSOR_F32, { 3, { 2, -1, 128 } }, 1, "batch", 0, 1 },
        { "input_ids", TENSOR_I64, { 2, { -1, -1 } }, 1, "sequence_length", 0, 128 },
        { "input_ids", TENSOR_I64, { 2, { -1, -1 } }, 1, NULL, 0, 128 },
        { "input_ids", TENSOR_I64, { 1, { -1 } }, 0, "seq", 0, 128 },
        { "image", TENSOR_F32, { 4, { 1, 3, -1, -1 } }, 2, "height", 0, 224 },
        { "image", TENSOR_F32, { 4, { 1, 3, 640, -1 } }, 3, "width", 0, 640 },
        { "image", TENSOR_U8, { 4, { -1, -1, -1, 3 } }, 1, NULL, 0, 224 },
        { "image", TENSOR_F32, { 4, { -1, -1, -1, -1 } }, 1, NULL, 0, 3 },
        { "image", TENSOR_F32, { 3, { 3, -1, -1 } }, 2, NULL, 0, 224 },
        { "mask", TENSOR_I64, { 4, { -1, 1, -1, -1 } }, 2, "sequence", 0, 128 },
        { "audio", TENSOR_F32, { 2, { 1, -1 } }, 1, NULL, 0, 16000 },
        { "input", TENSOR_F32, { 2, { -1, -1 } }, 1, "sequence", 2, 512 },
        { "x", TENSOR_F32, { 2, { 1, -1 } }, 1, "features", 0, 1 },
        /* one token behind a cache of 128 */
        { "input_ids", TENSOR_I64, { 2, { -1, -1 } }, 1, "sequence_length", 1, 1 },
        { "past.0.key", TENSOR_F32, { 4, { -1, 8, -1, 64 } }, 2, "past_sequence_length", 1, 128 },
        { "past.0.key", TENSOR_F32, { 4, { -1, 8, -1, 64 } }, 2, NULL, 1, 128 },
        { "mask", TENSOR_I64, { 2, { -1, -1 } }, 1, "past_sequence_length + 1", 1, 129 },
        { "mask", TENSOR_I64, { 2, { -1, -1 } }, 1, "total_sequence_length", 1, 129 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct engine_value v = { .name = cases[i].input,
                                  .type = cases[i].type,
                                  .shape = cases[i].shape };
        struct input_hints h = { .past = cases[i].hint == 1, .rate = cases[i].hint == 2 };

        if (input_guess(&v, cases[i].dim, cases[i].d, &h) != cases[i].size)
            fail_msg("case %zu", i);
    }
}

/* With sizes to be chosen, an option that fits nothing is said where something else is open. */
static void test_chosen(void **state)
{
    struct input_options opt = { .seed = 1, .guess = true, .seq_len = 7 };
    struct inputs in;
    struct rig r;
    opm_error err;

    (void)state;
    rig_open(&r, "zoo:mlp?batch=n");
    assert_int_equal(inputs_make(&in, r.m, r.value, r.n, &opt, &err), 0);
    assert_int_equal(in.t[0].shape.dim[0], 1);
    assert_string_equal(in.sizes, "n=1");
    assert_non_null(strstr(in.ignored, "--seq-len is not used"));
    assert_non_null(strstr(in.ignored, "open are: 'n'"));
    inputs_release(&in);
    model_free(r.m);
    rig_open(&r, "zoo:mlp");
    assert_int_equal(inputs_make(&in, r.m, r.value, r.n, &opt, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "inputs are: 'input' 1x784"));
    model_free(r.m);
}

/* Token numbers stay inside of the table, a mask masks nothing, the same seed gives the same. */
static void test_random(void **state)
{
    struct inputs a, b;
    struct rig r;
    opm_error err;
    int64_t most = 0;

    (void)state;
    rig_open(&r, "zoo:bert-mini?seq=64");
    assert_int_equal(make(&r, &a, NULL, &err), 0);
    assert_int_equal(make(&r, &b, NULL, &err), 0);
    for (size_t i = 0; i < a.n; i++) {
        struct tensor t = { .type = a.t[i].type,
                            .shape = a.t[i].shape,
                            .count = shape_count(&a.t[i].shape),
                            .data = a.t[i].data,
                            .bytes = a.t[i].bytes };

        assert_memory_equal(a.t[i].data, b.t[i].data, a.t[i].bytes);
        for (int64_t k = 0; k < t.count; k++) {
            int64_t v = tensor_int(&t, k);

            if (strstr(r.value[i].name, "mask"))
                assert_int_equal(v, 1);
            assert_true(v >= 0 && v < 100000);
            most = MAX(most, v);
        }
    }
    assert_true(most > 1000);
    inputs_release(&a);
    inputs_release(&b);
    model_free(r.m);
}

static void test_files(void **state)
{
    static const uint8_t pixels[] = { 255, 0, 0, 0, 255, 0 };
    static const char json[] =
        "{\"x\":{\"shape\":[1,3,1,2],\"type\":\"int32\",\"raw\":[1,2,3,4,5,6]}}";
    struct engine_value image = { "x", TENSOR_F32, { 4, { 1, 3, 1, 2 } }, VALUE_TENSOR };
    struct input_options opt = { 0 };
    const char *text;
    char file[64], desc[600];
    struct inputs in;
    struct rig r;
    opm_error err;
    size_t n;

    (void)state;
    rig_open(&r, "zoo:mlp");
    n = (size_t)snprintf(file, sizeof(file), "P6\n# red, green\n2 1\n255\n");
    memcpy(file + n, pixels, sizeof(pixels));
    unit_write(unit_path("i.ppm"), file, n + sizeof(pixels));
    snprintf(desc, sizeof(desc), "x:%s", unit_path("i.ppm"));
    text = desc;
    opt.text = &text;
    opt.ntext = 1;
    assert_int_equal(inputs_make(&in, r.m, &image, 1, &opt, &err), 0);
    assert_true(((float *)in.t[0].data)[0] == 1 && ((float *)in.t[0].data)[3] == 1);
    assert_true(((float *)in.t[0].data)[1] == 0 && ((float *)in.t[0].data)[2] == 0);
    inputs_release(&in);
    unit_write(unit_path("i.ppm"), file, n + sizeof(pixels) - 1);
    assert_int_equal(inputs_make(&in, r.m, &image, 1, &opt, &err), OPM_ETRUNC);

    text = "x:[[[[1,2]],[[3,4]],[[5,6.5]]]]";
    assert_int_equal(inputs_make(&in, r.m, &image, 1, &opt, &err), 0);
    assert_true(((float *)in.t[0].data)[5] == 6.5f);
    inputs_release(&in);
    image.type = TENSOR_I64;
    assert_int_equal(inputs_make(&in, r.m, &image, 1, &opt, &err), OPM_EINVAL);
    assert_non_null(strstr(err.msg, "6.5 is no integer"));

    unit_write(unit_path("i.json"), json, sizeof(json) - 1);
    snprintf(desc, sizeof(desc), "%s", unit_path("i.json"));
    text = desc;
    assert_int_equal(inputs_make(&in, r.m, &image, 1, &opt, &err), 0);
    assert_int_equal(((int64_t *)in.t[0].data)[5], 6);
    inputs_release(&in);
    model_free(r.m);
}

static struct rig memory_rig;

static int make_step(void)
{
    struct inputs in = { 0 };
    char name[] = "n";
    struct run_dim dim = { name, 2 };
    const char *text = "[[1,2,3],[4,5,6]]";
    struct engine_value v = { "input", TENSOR_F32, { 2, { 2, 3 } }, VALUE_TENSOR };
    struct input_options opt = { .text = &text, .ntext = 1, .dim = &dim, .ndim = 1 };
    int rc = inputs_make(&in, memory_rig.m, &v, 1, &opt, NULL);

    inputs_release(&in);
    return rc;
}

static void test_memory(void **state)
{
    (void)state;
    rig_open(&memory_rig, "zoo:mlp?batch=n");
    unit_fail_each(make_step);
    model_free(memory_rig.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptions), cmocka_unit_test(test_open_dimensions),
        cmocka_unit_test(test_guess),        cmocka_unit_test(test_chosen),
        cmocka_unit_test(test_random),       cmocka_unit_test(test_files),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests_name("input", tests, NULL, unit_cleanup);
}
