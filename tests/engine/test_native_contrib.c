/* test_native_contrib.c -- operators of the transformer optimizer, attention, and 16-bit models,
 * against sums in double. */
#include "run_rig.h"

static const struct engine_options options = ENGINE_OPTIONS_INIT;

/* Skip, bias and normalization, with and without the mean. */
static void skip_norm(void **state)
{
    (void)state;
    for (int rms = 0; rms < 2; rms++) {
        int64_t dim[2] = { 7, 37 }, n = 37;
        float *x = random_floats(7 * 37), *s = random_floats(7 * 37), *g = random_floats(37),
              *b = random_floats(37);
        double want[7 * 37];
        struct rig_want expect = { want, 1e-5 };
        struct engine_tensor in[2] = { rig_tensor(TENSOR_F32, x, dim, 2),
                                       rig_tensor(TENSOR_F32, s, dim, 2) };
        struct make mk = { 0 };

        for (int r = 0; r < 7; r++) {
            double mean = 0, var = 0, v[37];

            for (int i = 0; i < 37; i++) {
                v[i] = (double)x[r * 37 + i] + (double)s[r * 37 + i];
                mean += rms ? 0 : v[i] / 37;
            }
            for (int i = 0; i < 37; i++)
                var += (v[i] - mean) * (v[i] - mean) / 37;
            for (int i = 0; i < 37; i++)
                want[r * 37 + i] =
                    (v[i] - mean) / sqrt(var + 1e-5) * (double)g[i] + (rms ? 0 : (double)b[i]);
        }
        make_node(&mk,
                  rms ? "com.microsoft:SkipSimplifiedLayerNormalization"
                      : "com.microsoft:SkipLayerNormalization",
                  rms ? "x,s,g" : "x,s,g,b", "y", "epsilon:0.00001");
        make_value(&mk, false, "x", TENSOR_F32, dim, 2);
        make_value(&mk, false, "s", TENSOR_F32, dim, 2);
        make_weight(&mk, "g", TENSOR_F32, &n, 1, g, 37 * 4);
        make_weight(&mk, "b", TENSOR_F32, &n, 1, b, 37 * 4);
        make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
        rig_run(&mk, 17, &options, in, 2, rig_near, &expect);
        make_free(&mk);
        free(x);
        free(s);
        free(g);
        free(b);
    }
}

/* One head for two: q [1, 2, 5, 8], k and v [1, 1, 6, 8], nothing after its own place is seen. */
static void attention(void **state)
{
    int64_t q_dim[4] = { 1, 2, 5, 8 }, k_dim[4] = { 1, 1, 6, 8 };
    float *q = random_floats(80), *k = random_floats(48), *v = random_floats(48);
    double want[80];
    struct rig_want expect = { want, 1e-5 };
    struct engine_tensor in[3] = { rig_tensor(TENSOR_F32, q, q_dim, 4),
                                   rig_tensor(TENSOR_F32, k, k_dim, 4),
                                   rig_tensor(TENSOR_F32, v, k_dim, 4) };
    struct make mk = { 0 };

    (void)state;
    for (int r = 0; r < 10; r++) {
        double p[6], total = 0;

        for (int t = 0; t < 6; t++) {
            double dot = 0;

            for (int i = 0; i < 8; i++)
                dot += (double)q[r * 8 + i] * (double)k[t * 8 + i];
            p[t] = t <= r % 5 ? exp(dot / sqrt(8)) : 0;
            total += p[t];
        }
        for (int i = 0; i < 8; i++) {
            want[r * 8 + i] = 0;
            for (int t = 0; t < 6; t++)
                want[r * 8 + i] += p[t] / total * (double)v[t * 8 + i];
        }
    }
    make_node(&mk, "Attention", "q,k,v", "y", "is_causal=1");
    make_value(&mk, false, "q", TENSOR_F32, q_dim, 4);
    make_value(&mk, false, "k", TENSOR_F32, k_dim, 4);
    make_value(&mk, false, "v", TENSOR_F32, k_dim, 4);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    rig_run(&mk, 23, &options, in, 3, rig_near, &expect);
    make_free(&mk);
    free(q);
    free(k);
    free(v);
}

/* A turned second operand, batched. */
static void fused_matmul(void **state)
{
    int64_t a_dim[3] = { 3, 4, 21 }, b_dim[3] = { 3, 5, 21 };
    float *a = random_floats(3 * 4 * 21), *b = random_floats(3 * 5 * 21);
    double want[3 * 4 * 5];
    struct rig_want expect = { want, 1e-5 };
    struct engine_tensor in[2] = { rig_tensor(TENSOR_F32, a, a_dim, 3),
                                   rig_tensor(TENSOR_F32, b, b_dim, 3) };
    struct make mk = { 0 };

    (void)state;
    for (int i = 0; i < 60; i++) {
        want[i] = 0;
        for (int k = 0; k < 21; k++)
            want[i] += 0.5 * (double)a[i / 5 * 21 + k] * (double)b[(i / 20 * 5 + i % 5) * 21 + k];
    }
    make_node(&mk, "com.microsoft:FusedMatMul", "a,b", "y", "transB=1 alpha:0.5");
    make_value(&mk, false, "a", TENSOR_F32, a_dim, 3);
    make_value(&mk, false, "b", TENSOR_F32, b_dim, 3);
    make_value(&mk, true, "y", TENSOR_F32, NULL, -1);
    rig_run(&mk, 17, &options, in, 2, rig_near, &expect);
    make_free(&mk);
    free(a);
    free(b);
}

static uint16_t to_half(enum tensor_type t, float f)
{
    return t == TENSOR_F16 ? f32_to_f16(f) : f32_to_bf16(f);
}

static float from_half(enum tensor_type t, uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, sizeof(f));
    return t == TENSOR_F16 ? f16_to_f32(h) : f;
}

/* Weights, input and output of 16 bits; the shapes change on the way, so that the weights are
 * looked at again. */
static void sixteen_bits(void **state)
{
    static const enum tensor_type types[] = { TENSOR_F16, TENSOR_BF16 };

    (void)state;
    for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
        int64_t w_dim[2] = { 19, 11 }, n = 11;
        uint16_t *x = rig_alloc(19 * 6 * 2), w[19 * 11], b[11];
        struct engine_options opts = ENGINE_OPTIONS_INIT;
        struct engine *e = NULL;
        struct model *model = NULL;
        struct make mk = { 0 };
        opm_error err = { 0 };

        for (int i = 0; i < 19 * 6; i++)
            x[i] = to_half(types[t], (float)rnd(2001) / 1000 - 1);
        for (int i = 0; i < 19 * 11; i++)
            w[i] = to_half(types[t], (float)rnd(2001) / 1000 - 1);
        for (int i = 0; i < 11; i++)
            b[i] = to_half(types[t], (float)i);
        make_node(&mk, "MatMul", "x,w", "m", "");
        make_node(&mk, "Add", "m,b", "y", "");
        make_value(&mk, false, "x", types[t], (int64_t[]){ -1, 19 }, 2);
        make_weight(&mk, "w", types[t], w_dim, 2, w, sizeof(w));
        make_weight(&mk, "b", types[t], &n, 1, b, sizeof(b));
        make_value(&mk, true, "y", types[t], NULL, -1);
        assert_int_equal(make_model(&mk, 17, &model, &err), 0);
        if (engine_native.open(&e, model, &opts, &err))
            fail_msg("%s", err.msg);
        for (int64_t rows = 2; rows <= 6; rows += 2) {
            struct engine_tensor in = rig_tensor(types[t], x, (int64_t[]){ rows, 19 }, 2), out;

            if (e->class->run(e, &in, 1, &out, 1, &err))
                fail_msg("%s", err.msg);
            assert_int_equal(out.type, types[t]);
            assert_int_equal(out.bytes, (size_t)rows * 11 * 2);
            for (int64_t i = 0; i < rows * 11; i++) {
                double want = (double)(i % 11), have;

                for (int k = 0; k < 19; k++)
                    want += (double)from_half(types[t], x[i / 11 * 19 + k]) *
                            (double)from_half(types[t], w[k * 11 + i % 11]);
                have = (double)from_half(types[t], ((uint16_t *)out.data)[i]);
                assert_true(fabs(have - want) <=
                            (types[t] == TENSOR_F16 ? 1e-3 : 8e-3) * (1 + fabs(want)));
            }
        }
        e->class->close(e);
        model_free(model);
        make_free(&mk);
        free(x);
    }
}

/* Rows of a 16-bit table by 16-bit weights of several panels and blocks of k. */
static void sixteen_bit_weights(void **state)
{
    static const enum tensor_type types[] = { TENSOR_F16, TENSOR_BF16 };
    enum { ROWS = 30, K = 1100, N = 150, M = 14 };

    (void)state;
    for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
        int64_t table_dim[2] = { ROWS, K }, w_dim[2] = { K, N }, m = M;
        uint16_t *table = rig_alloc(ROWS * K * 2), *w = rig_alloc(K * N * 2);
        int64_t *index = rig_alloc(M * 8);
        double *want = malloc(M * N * sizeof(double));
        struct rig_want expect = { want, types[t] == TENSOR_F16 ? 2e-3 : 1e-2 };
        struct engine_tensor in = rig_tensor(TENSOR_I64, index, &m, 1);
        struct make mk = { 0 };

        for (int i = 0; i < ROWS * K; i++)
            table[i] = to_half(types[t], (float)rnd(2001) / 1000 - 1);
        for (int i = 0; i < K * N; i++)
            w[i] = to_half(types[t], (float)rnd(2001) / 1000 - 1);
        for (int i = 0; i < M; i++)
            index[i] = (int64_t)rnd(ROWS) - (i % 3 ? 0 : ROWS);
        for (int i = 0; i < M * N; i++) {
            int64_t row = (index[i / N] + ROWS) % ROWS;

            want[i] = 0;
            for (int k = 0; k < K; k++)
                want[i] += (double)from_half(types[t], table[row * K + k]) *
                           (double)from_half(types[t], w[k * N + i % N]);
        }
        make_node(&mk, "Gather", "table,index", "x", "axis=0");
        make_node(&mk, "MatMul", "x,w", "y", "");
        make_value(&mk, false, "index", TENSOR_I64, &m, 1);
        make_weight(&mk, "table", types[t], table_dim, 2, table, ROWS * K * 2);
        make_weight(&mk, "w", types[t], w_dim, 2, w, K * N * 2);
        make_value(&mk, true, "y", types[t], NULL, -1);
        rig_run(&mk, 17, &options, &in, 1, rig_near, &expect);
        make_free(&mk);
        free(table);
        free(w);
        free(index);
        free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skip_norm),           cmocka_unit_test(attention),
        cmocka_unit_test(fused_matmul),        cmocka_unit_test(sixteen_bits),
        cmocka_unit_test(sixteen_bit_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
