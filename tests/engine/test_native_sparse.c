/* test_native_sparse.c -- block-sparse multiplication against naive sums, and what is remembered of
 * measurements. */
#include "base/io.h"
#include "engine/native/math/measured.h"
#include "run/sparse_bench.h"
#include "run_rig.h"

/* Weights [k, n], or [n, k] if turned, of which blocks of `rows` output columns are zero. */
static float *sparse_weights(int64_t k, int64_t n, uint32_t rows, uint32_t percent, bool turned)
{
    float *w = random_floats(k * n);

    for (int64_t j = 0; j < n; j += rows)
        for (int64_t i = 0; i < k; i++)
            if (rnd(100) < percent)
                for (int64_t c = j; c < MIN(j + rows, n); c++)
                    w[turned ? c * k + i : i * n + c] = 0;
    return w;
}

static void one(int64_t m, int64_t n, int64_t k, uint32_t rows, uint32_t percent, bool gemm)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    struct make mk = { 0 };
    int64_t a_dim[2] = { m, k }, w_dim[2] = { gemm ? n : k, gemm ? k : n };
    float *a = random_floats(m * k), *w = sparse_weights(k, n, rows, percent, gemm),
          *bias = random_floats(n);
    struct engine_tensor in = rig_tensor(TENSOR_F32, a, a_dim, 2);
    double *want = malloc((size_t)(m * n) * sizeof(double));
    struct rig_want expect = { want, 1e-5 * sqrt((double)k + 1) };

    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = 0;

            for (int64_t q = 0; q < k; q++)
                s += (double)a[i * k + q] * (double)w[gemm ? j * k + q : q * n + j];
            want[i * n + j] = fmax((gemm ? 0.5 * s : s) + (double)bias[j], 0);
        }
    if (gemm)
        make_node(&mk, "Gemm", "a,w,bias", "q", "transB=1 alpha:0.5");
    else {
        make_node(&mk, "MatMul", "a,w", "p", "");
        make_node(&mk, "Add", "p,bias", "q", "");
    }
    make_node(&mk, "Relu", "q", "y", "");
    make_value(&mk, false, "a", TENSOR_F32, a_dim, 2);
    make_weight(&mk, "w", TENSOR_F32, w_dim, 2, w, (size_t)(k * n) * 4);
    make_weight(&mk, "bias", TENSOR_F32, &n, 1, bias, (size_t)n * 4);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    opts.sparse = ENGINE_SPARSE_ALWAYS;
    rig_run(&mk, 13, &opts, &in, 1, rig_near, &expect);
    make_free(&mk);
    free(a);
    free(w);
    free(bias);
    free(want);
}

static void products(void **state)
{
    (void)state;
    one(1, 1, 1, 4, 0, false);
    one(1, 64, 64, 4, 100, false); /* nothing left */
    one(128, 256, 256, 4, 90, false);
    one(70, 48, 33, 16, 80, true);
    for (int64_t m = 1; m < 20; m++)
        one(m, 30 + m, 40, m % 2 ? 4 : 16, 70, m % 3 == 0);
    for (int i = 0; i < 15; i++)
        one(1 + rnd(150), 1 + rnd(90), 1 + rnd(200), i % 2 ? 4 : 16, 10 * rnd(11), i % 3 == 0);
}

/* The choice is left to the measurement: the result must be right either way. */
static void chosen(void **state)
{
    struct engine_options opts = ENGINE_OPTIONS_INIT;
    int64_t dim[2] = { 8, 256 }, w_dim[2] = { 256, 256 };
    float *a = random_floats(8 * 256), *w = sparse_weights(256, 256, 4, 95, false);
    struct engine_tensor in = rig_tensor(TENSOR_F32, a, dim, 2);
    double *want = calloc(8 * 256, sizeof(double));
    struct rig_want expect = { want, 1e-4 };
    struct make mk = { 0 };

    (void)state;
    for (int64_t i = 0; i < 8 * 256; i++)
        for (int64_t q = 0; q < 256; q++)
            want[i] += (double)a[i / 256 * 256 + q] * (double)w[q * 256 + i % 256];
    make_node(&mk, "MatMul", "a,w", "y", "");
    make_value(&mk, false, "a", TENSOR_F32, dim, 2);
    make_weight(&mk, "w", TENSOR_F32, w_dim, 2, w, sizeof(float) * 256 * 256);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    rig_run(&mk, 13, &opts, &in, 1, rig_near, &expect);
    make_free(&mk);
    free(a);
    free(w);
    free(want);
}

static void measured(void **state)
{
    static const struct sparse_case good = { 4, 64, 32, "4x1", 0.9, 1 },
                                    bad[] = { { 4, 64, 32, "3x7", 0.9, 1 },
                                              { 4, 64, 32, NULL, 0.9, 1 },
                                              { 0, 64, 32, "4x1", 0.9, 1 },
                                              { 4, 64, 32, "4x1", 1.5, 1 },
                                              { 1 << 20, 1 << 20, 1 << 20, "4x1", 0.9, 1 } };
    struct sparse_result r;
    opm_error err;

    (void)state;
    assert_int_equal(sparse_measure(&good, &r, &err), 0);
    assert_true(r.dense_ns > 0 && r.sparse_ns > 0);
    assert_true(r.ratio == (double)r.sparse_ns / (double)r.dense_ns);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(sparse_measure(&bad[i], &r, &err), OPM_EINVAL);
}

static struct ratio question(const char *isa, int64_t m)
{
    struct ratio r = {
        .pattern = ratio_pattern_find("8x1"), .sparsity = 0.75, .n = 640, .k = 320, .m = m
    };

    snprintf(r.isa, sizeof(r.isa), "%s", isa);
    return r;
}

/* What whatif asks for, not an engine: neither instruction set nor rows. */
static void put_another(void)
{
    struct ratios all;
    struct ratio r = question("", 0);
    opm_error err = { 0 };

    assert_int_equal(ratios_load(&all, &err), 0);
    r.ratio = 3;
    assert_int_equal(ratios_put(&all, &r), 0);
    assert_int_equal(ratios_save(&all, &err), 0);
    ratios_release(&all);
}

/* Times are kept in the file that has all ratios, beside what others put there meanwhile; a file
 * that is no such file is left alone, and one that cannot be written changes nothing else. */
static void remembered(void **state)
{
    static const char broken[] = "{\"version\":1,";
    struct ratio r = question("avx2", 7), other = question("avx512", 7), rows = question("avx2", 8);
    char path[300];
    struct ratios all;
    struct io_map map;
    opm_error err = { 0 };

    (void)state;
    snprintf(path, sizeof(path), "%s", unit_path("ratios.json"));
    assert_false(measured_get(&r));
    put_another();
    r.dense_ns = 34;
    r.sparse_ns = 17;
    r.ratio = 2;
    measured_put(&r);
    r.dense_ns = r.sparse_ns = 0;
    assert_true(measured_get(&r));
    assert_true(r.dense_ns == 34 && r.sparse_ns == 17);
    assert_false(measured_get(&other));
    assert_false(measured_get(&rows));
    assert_int_equal(ratios_load(&all, &err), 0);
    assert_non_null(ratios_like(&all, &r));
    assert_true(ratios_like(&all, &r)->dense_ns == 34);
    assert_true(ratios_find(&all, r.pattern, r.sparsity, r.n, r.k)->ratio == 3);
    ratios_release(&all);
    unit_write(path, broken, strlen(broken));
    other.dense_ns = other.sparse_ns = other.ratio = 1;
    measured_put(&other);
    assert_true(measured_get(&other));
    assert_int_equal(io_map(&map, path, 0, &err), 0);
    assert_int_equal(map.len, strlen(broken));
    io_map_release(&map);
    setenv("OPMETER_CACHE", "/proc/none", 1);
    rows.dense_ns = rows.sparse_ns = rows.ratio = 1;
    measured_put(&rows);
    assert_true(measured_get(&rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(chosen),
        cmocka_unit_test(measured),
        cmocka_unit_test(remembered),
    };
    char dir[300];

    snprintf(dir, sizeof(dir), "%s", unit_path(""));
    setenv("OPMETER_CACHE", dir, 1);
    return cmocka_run_group_tests(tests, NULL, unit_cleanup);
}
