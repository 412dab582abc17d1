/* test_run_values.c -- amounts, sizes, labels, percentiles of `opmeter run`. */
#include "run/run.h"
#include "unit.h"

static void test_amounts(void **state)
{
    static const struct {
        const char *text;
        int rc;
        int64_t count, ns;
    } cases[] = {
        { "10", 0, 10, 0 },
        { "0", 0, 0, 0 },
        { "200ms", 0, 0, 200000000 },
        { "1.5s", 0, 0, 1500000000 },
        { "10 us", 0, 0, 10000 },
        { "10µs", 0, 0, 10000 },
        { "2min", 0, 0, 120000000000 },
        { "500ns", 0, 0, 500 },
        { "", OPM_EINVAL, 0, 0 },
        { "1.5", OPM_EINVAL, 0, 0 },
        { "-1", OPM_EINVAL, 0, 0 },
        { "-1s", OPM_EINVAL, 0, 0 },
        { "5 parsecs", OPM_EINVAL, 0, 0 },
        { "ms", OPM_EINVAL, 0, 0 },
        { "nan", OPM_EINVAL, 0, 0 },
        { "inf", OPM_EINVAL, 0, 0 },
        { "1e99", OPM_EINVAL, 0, 0 },
        { "0s", OPM_EINVAL, 0, 0 },
        { "999999999999", OPM_EINVAL, 0, 0 },
        { "100000h", OPM_EINVAL, 0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct run_amount a = { 0, 0 };
        opm_error err;

        assert_int_equal(run_amount_parse(cases[i].text, &a, &err), cases[i].rc);
        assert_int_equal(a.count, cases[i].count);
        assert_int_equal(a.ns, cases[i].ns);
    }
}

static void test_dims(void **state)
{
    static const char *const wrong[] = { "",        "batch",    "=3",      "batch=",
                                         "batch=0", "batch=-1", "batch=3x" };
    struct run_dim d;
    opm_error err;

    (void)state;
    assert_int_equal(run_dim_parse("a=b=12", &d, &err), 0);
    assert_string_equal(d.name, "a=b");
    assert_int_equal(d.size, 12);
    mem_free(d.name);
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        assert_int_equal(run_dim_parse(wrong[i], &d, &err), OPM_EINVAL);
}

static void test_labels(void **state)
{
    static const struct {
        const char *model, *label;
    } cases[] = {
        { "zoo:resnet50", "resnet50" },
        { "zoo:bert-mini?batch=2&seq=8", "bert-mini" },
        { "/a/b/model.onnx", "model" },
        { "model.onnx.gz", "model" },
        { "my model.onnx", "my_model" },
        { ".onnx", ".onnx" },
        { "zoo:", "model" },
    };
    char label[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        run_model_label(cases[i].model, label, sizeof(label));
        assert_string_equal(label, cases[i].label);
    }
}

static void test_latency(void **state)
{
    int64_t ns[] = { 50, 10, 40, 20, 30 }, cost[] = { 3, -1, 2, 1, 100 };
    struct run_latency l;
    double mid, error;

    (void)state;
    run_latency_of(ns, 0, &l);
    assert_int_equal(l.n, 0);
    run_latency_of(ns, 5, &l);
    assert_int_equal(l.n, 5);
    assert_true(l.min == 10 && l.max == 50 && l.mean == 30 && l.median == 30);
    assert_true(l.p90 > 45.9 && l.p90 < 46.1);
    run_latency_of(ns, 1, &l);
    assert_true(l.p999 == 10);
    run_cost_of(cost, 5, &mid, &error);
    assert_true(mid == 2 && error > 1 && error < 2);
    run_cost_of(cost, 0, &mid, &error);
    assert_true(mid == 0 && error == 0);
}

static void test_folders(void **state)
{
    char dir[3][FOLDER_PATH_MAX];
    char root[256];
    opm_error err;

    (void)state;
    snprintf(root, sizeof(root), "%s/deep/er", unit_path("x"));
    assert_int_equal(run_make_folders(root, "m", dir, 3, &err), 0);
    assert_string_not_equal(dir[0], dir[1]);
    assert_int_equal(access(dir[2], R_OK), 0);
    unit_write(unit_path("file"), "", 0);
    assert_int_equal(run_make_folder(unit_path("file"), &err), OPM_EIO);
    assert_int_equal(run_make_folder(unit_path("file/x"), &err), OPM_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amounts), cmocka_unit_test(test_dims),
        cmocka_unit_test(test_labels),  cmocka_unit_test(test_latency),
        cmocka_unit_test(test_folders),
    };

    return cmocka_run_group_tests_name("run values", tests, NULL, unit_cleanup);
}
