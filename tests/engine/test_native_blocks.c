/* test_native_blocks.c -- products by weights that are kept small: MatMul and Gemm by what
 * DequantizeLinear makes of 4 and 8 bits in blocks, and by float16 and bfloat16. Results against
 * sums done one by one, for one row and for many; the weights may not become floats. */
#include "engine/native/op.h"
#include "run_rig.h"

static const struct engine_options options = ENGINE_OPTIONS_INIT;

struct form {
    enum tensor_type type;
    int64_t m, k, n, block;
    bool gemm, turned, zeros, bias;
    bool between; /* a Transpose turns them */
    bool stays;   /* as it is */
    bool most;    /* the greatest weights there are, and A all 1 */
};

/* Numbers of 4 bits lie two in a byte, the first in the low bits. */
static void put_number(uint8_t *to, int64_t i, int bits, int x)
{
    if (bits == 8)
        to[i] = (uint8_t)x;
    else
        to[i / 2] = (uint8_t)((to[i / 2] & (i % 2 ? 0x0f : 0xf0)) | (x & 15) << (i % 2 ? 4 : 0));
}

static void assert_kernel(struct make *m, int opset, enum kernel_kind want, const char *about)
{
    struct model *model = NULL;
    struct engine *e = NULL;
    opm_error err = { 0 };
    const struct plan *p;
    bool found = false;

    if (make_model(m, opset, &model, &err) || engine_native.open(&e, model, &options, &err))
        fail_msg("%s: %s", about, err.msg);
    p = ((struct native *)e)->plan;
    for (uint32_t i = 0; i < p->nop; i++)
        found = found || (p->op[i].kernel && p->op[i].kernel->kind == want);
    if (!found)
        fail_msg("%s: other kernels", about);
    e->class->close(e);
    model_free(model);
    m->file.len = 0; /* the model is made again */
}

static void one_form(const struct form *f)
{
    int bits = f->type == TENSOR_I4 || f->type == TENSOR_U4 ? 4 : 8;
    bool is_signed = f->type == TENSOR_I4 || f->type == TENSOR_I8;
    int low = is_signed ? -(1 << (bits - 1)) : 0;
    int64_t blocks = (f->k + f->block - 1) / f->block, a_dim[2] = { f->m, f->k },
            w_dim[2] = { f->turned ? f->n : f->k, f->turned ? f->k : f->n },
            s_dim[2] = { f->turned ? f->n : blocks, f->turned ? blocks : f->n };
    float *a = random_floats(f->m * f->k), *scale = random_floats(blocks * f->n),
          *bias = random_floats(f->n);
    uint8_t *w = calloc(1, (size_t)(f->k * f->n + 1)), *z = calloc(1, (size_t)(blocks * f->n + 1));
    int *wide = calloc((size_t)(f->k * f->n), sizeof(*wide)),
        *zero = calloc((size_t)(blocks * f->n), sizeof(*zero));
    double *want = calloc((size_t)(f->m * f->n), sizeof(*want));
    struct rig_want near_to = { want, 2e-5 };
    struct engine_tensor in = rig_tensor(TENSOR_F32, a, a_dim, 2);
    struct make m = { 0 };
    char about[120], attrs[60], list[20];

    assert_true(w && z && wide && zero && want);
    snprintf(about, sizeof(about), "type %d %lldx%lldx%lld blocks of %lld gemm %d turned %d",
             f->type, (long long)f->m, (long long)f->k, (long long)f->n, (long long)f->block,
             f->gemm, f->turned);
    for (int64_t i = 0; f->most && i < f->m * f->k; i++)
        a[i] = 1;
    for (int64_t i = 0; i < f->k * f->n; i++) {
        wide[i] = low + (f->most ? (1 << bits) - 1 : (int)rnd(1u << bits));
        put_number(w, i, bits, wide[i]);
    }
    for (int64_t i = 0; i < blocks * f->n; i++) {
        zero[i] = f->zeros ? low + (int)rnd(1u << bits) : 0;
        put_number(z, i, bits, zero[i]);
    }
    for (int64_t r = 0; r < f->m; r++)
        for (int64_t c = 0; c < f->n; c++) {
            double sum = f->bias ? (double)bias[c] : 0;

            for (int64_t k = 0; k < f->k; k++) {
                int64_t at = f->turned ? c * f->k + k : k * f->n + c,
                        of = f->turned ? c * blocks + k / f->block : k / f->block * f->n + c;

                sum += (double)a[r * f->k + k] * (wide[at] - zero[of]) * (double)scale[of];
            }
            want[r * f->n + c] = sum;
        }
    make_value(&m, false, "a", TENSOR_F32, a_dim, 2);
    make_weight(&m, "w", f->type, w_dim, 2, w, (size_t)(f->k * f->n * bits + 7) / 8);
    make_weight(&m, "s", TENSOR_F32, s_dim, 2, scale, (size_t)(blocks * f->n) * 4);
    if (f->zeros)
        make_weight(&m, "z", f->type, s_dim, 2, z, (size_t)(blocks * f->n * bits + 7) / 8);
    if (f->bias)
        make_weight(&m, "b", TENSOR_F32, &f->n, 1, bias, (size_t)f->n * 4);
    snprintf(attrs, sizeof(attrs), "axis=%d block_size=%d", f->turned, (int)f->block);
    make_node(&m, "DequantizeLinear", f->zeros ? "w,s,z" : "w,s", "d", attrs);
    snprintf(list, sizeof(list), "a,%s%s", f->between ? "t" : "d", f->bias ? ",b" : "");
    if (f->between)
        make_node(&m, "Transpose", "d", "t", f->gemm ? "perm=1,0" : "");
    make_node(&m, f->gemm ? "Gemm" : "MatMul", list, "y",
              f->gemm && f->turned != f->between ? "transB=1" : "");
    make_value(&m, true, "y", TENSOR_F32, NULL, -1);
    if (f->stays)
        assert_kernel(&m, 21, KERNEL_nbits, about);
    near_to.tol *= sqrt((double)f->k) * (1 << bits) / 16;
    rig_run(&m, 21, &options, &in, 1, rig_near, &near_to);
    make_free(&m);
    free(a);
    free(scale);
    free(bias);
    free(w);
    free(z);
    free(wide);
    free(zero);
    free(want);
}

static void blocks(void **state)
{
    static const enum tensor_type types[] = { TENSOR_I4, TENSOR_U4, TENSOR_I8, TENSOR_U8 };
    static const int64_t sizes[][4] = {
        { 1, 64, 33, 32 },  { 1, 256, 16, 128 }, { 3, 96, 40, 16 }, { 17, 64, 21, 32 },
        { 2, 48, 5, 24 },   { 1, 40, 7, 8 },     { 4, 36, 9, 12 },  { 1, 512, 32, 256 },
        { 1, 128, 70, 16 }, { 1, 100, 64, 64 },  { 1, 72, 37, 24 }, { 1, 520, 96, 128 },
    };

    (void)state;
    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            struct form f = { .type = types[t],
                              .m = sizes[i][0],
                              .k = sizes[i][1],
                              .n = sizes[i][2],
                              .block = sizes[i][3],
                              .gemm = rnd(2),
                              .zeros = rnd(2),
                              .stays = true };

            f.turned = f.gemm && rnd(2);
            f.bias = f.gemm && rnd(2);
            one_form(&f);
        }
    for (int i = 0; i < 32; i++) {
        struct form f = { .type = types[i % 4],
                          .m = i & 4 ? 20 : 1,
                          .k = 32 + 8 * rnd(9),
                          .n = 1 + rnd(40),
                          .block = 16 + 8 * rnd(3),
                          .gemm = i & 8,
                          .zeros = rnd(2),
                          .between = i & 16,
                          .stays = true };

        f.turned = f.gemm ? rnd(2) : f.between;
        f.k -= rnd(2) ? 3 : 0; /* the last block is shorter */
        one_form(&f);
    }
}

/* Sums on the way must hold what weights and rows can be at most. */
static void greatest(void **state)
{
    static const enum tensor_type types[] = { TENSOR_U4, TENSOR_U8 };
    static const int64_t block[] = { 16, 32, 48, 64, 128, 256 };

    (void)state;
    for (int i = 0; i < 24; i++) {
        struct form f = { .type = types[i % 2],
                          .m = i % 4 < 2 ? 1 : 3,
                          .k = 512,
                          .n = 67,
                          .block = block[i / 4],
                          .stays = true,
                          .most = true };

        one_form(&f);
    }
}

static float widened(uint16_t h, enum tensor_type type)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;

    if (type == TENSOR_F16)
        return f16_to_f32(h);
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* One row and several, by weights of 16 bits; columns that fill no vector. */
static void halves(void **state)
{
    static const int64_t sizes[][3] = {
        { 1, 5, 3 }, { 1, 64, 16 }, { 1, 37, 47 }, { 1, 700, 70 }, { 2, 33, 20 }
    };

    (void)state;
    for (int i = 0; i < 10; i++) {
        enum tensor_type type = i % 2 ? TENSOR_BF16 : TENSOR_F16;
        const int64_t *size = sizes[i / 2];
        int64_t a_dim[2] = { size[0], size[1] }, w_dim[2] = { size[1], size[2] };
        float *a = random_floats(size[0] * size[1]), *w = random_floats(size[1] * size[2]);
        uint16_t *half_a = rig_alloc((size_t)(size[0] * size[1]) * 2),
                 *half_w = rig_alloc((size_t)(size[1] * size[2]) * 2);
        double *want = calloc((size_t)(size[0] * size[2]), sizeof(*want));
        /* The result is rounded to its type. */
        struct rig_want near_to = { want, i % 2 ? 0x1p-8 : 0x1p-10 };
        struct engine_tensor in = rig_tensor(type, half_a, a_dim, 2);
        struct make m = { 0 };

        assert_non_null(want);
        for (int64_t k = 0; k < size[0] * size[1]; k++) {
            half_a[k] = i % 2 ? f32_to_bf16(a[k]) : f32_to_f16(a[k]);
            a[k] = widened(half_a[k], type);
        }
        for (int64_t k = 0; k < size[1] * size[2]; k++) {
            half_w[k] = i % 2 ? f32_to_bf16(w[k]) : f32_to_f16(w[k]);
            w[k] = widened(half_w[k], type);
        }
        for (int64_t j = 0; j < size[0] * size[2]; j++)
            for (int64_t k = 0; k < size[1]; k++)
                want[j] +=
                    (double)a[j / size[2] * size[1] + k] * (double)w[k * size[2] + j % size[2]];
        make_value(&m, false, "a", type, a_dim, 2);
        make_weight(&m, "w", type, w_dim, 2, half_w, (size_t)(size[1] * size[2]) * 2);
        make_node(&m, "MatMul", "a,w", "y", "");
        make_value(&m, true, "y", type, NULL, -1);
        rig_run(&m, 13, &options, &in, 1, rig_near, &near_to);
        make_free(&m);
        free(a);
        free(w);
        free(half_a);
        free(half_w);
        free(want);
    }
}

/* Rows of bfloat16 by such weights are multiplied as they are, others are not rounded for that: the
 * float that comes out is as near as sums of floats are. */
static void bf16_products(void **state)
{
    static const int64_t sizes[][3] = { { 2, 8, 1 },   { 2, 7, 16 },    { 3, 9, 17 },
                                        { 5, 31, 16 }, { 6, 64, 33 },   { 7, 100, 5 },
                                        { 4, 515, 7 }, { 13, 1030, 40 } };
    const uint16_t by = f32_to_bf16(1.1f);
    int64_t one = 1;

    (void)state;
    for (int i = 0; i < 32; i++) {
        const int64_t m = sizes[i / 4][0], k = sizes[i / 4][1], n = sizes[i / 4][2];
        int64_t a_dim[2] = { m, k }, w_dim[2] = { k, n };
        bool scaled = i & 1, biased = i & 2;
        uint16_t *a = rig_alloc((size_t)(m * k) * 2), *w = rig_alloc((size_t)(k * n) * 2),
                 *bias = rig_alloc((size_t)n * 2);
        double *want = calloc((size_t)(m * n), sizeof(*want));
        struct rig_want near_to = { want, 1e-4 };
        struct engine_tensor in = rig_tensor(TENSOR_BF16, a, a_dim, 2);
        struct make make = { 0 };
        float *x = random_floats(m * k + k * n + n);

        assert_non_null(want);
        for (int64_t j = 0; j < m * k; j++)
            a[j] = f32_to_bf16(x[j]);
        for (int64_t j = 0; j < k * n; j++)
            w[j] = f32_to_bf16(x[m * k + j]);
        for (int64_t j = 0; j < n; j++)
            bias[j] = f32_to_bf16(x[m * k + k * n + j]);
        for (int64_t j = 0; j < m * n; j++) {
            for (int64_t q = 0; q < k; q++)
                want[j] += (double)widened(a[j / n * k + q], TENSOR_BF16) *
                           (double)widened(w[q * n + j % n], TENSOR_BF16) *
                           (scaled ? (double)widened(by, TENSOR_BF16) : 1);
            want[j] += biased ? (double)widened(bias[j % n], TENSOR_BF16) : 0;
        }
        make_value(&make, false, "a", TENSOR_BF16, a_dim, 2);
        make_weight(&make, "w", TENSOR_BF16, w_dim, 2, w, (size_t)(k * n) * 2);
        make_weight(&make, "by", TENSOR_BF16, &one, 1, &by, 2);
        make_weight(&make, "bias", TENSOR_BF16, &n, 1, bias, (size_t)n * 2);
        if (scaled)
            make_node(&make, "Mul", "a,by", "x", "");
        make_node(&make, "MatMul", scaled ? "x,w" : "a,w", "p", "");
        if (biased)
            make_node(&make, "Add", "p,bias", "s", "");
        make_node(&make, "Cast", biased ? "s" : "p", "y", "to=1");
        make_value(&make, true, "y", TENSOR_F32, NULL, -1);
        rig_run(&make, 13, &options, &in, 1, rig_near, &near_to);
        make_free(&make);
        free(x);
        free(a);
        free(w);
        free(bias);
        free(want);
    }
}

/* Numbers of a row that fit badly into one scale, by kind of block. */
static float odd_number(int64_t block, int64_t in_block)
{
    float x = (float)rnd(2001) / 1000 - 1;

    switch (block % 6) {
    case 0:
        return in_block == 5 ? 3e6f : x; /* one that is far greater than the others */
    case 1:
        return x * 1e-42f; /* denormal */
    case 2:
        return in_block % 2 ? x * 1e-20f : x;
    case 3:
        return 0;
    case 4:
        return in_block % 2 ? 1e30f : -1e30f;
    default:
        return x * 1e-25f;
    }
}

enum { ODD_K = 1024, ODD_N = 232, ODD_BLOCK = 32, ODD_BLOCKS = ODD_K / ODD_BLOCK };

struct odd_want {
    const double *value, *most; /* per column; by how much it may be off */
    bool finite;
};

static void odd_check(const struct engine_tensor *out, const char *where, void *arg)
{
    const struct odd_want *w = arg;
    const float *y = out->data;

    for (int c = 0; c < ODD_N; c++)
        if (w->finite ? !(fabs((double)y[c] - w->value[c]) <= w->most[c]) : isfinite(y[c]))
            fail_msg("%s: column %d is %g, not %g +- %g", where, c, (double)y[c], w->value[c],
                     w->most[c]);
}

/* One row, of so many columns that threads share them. A block is as exact as floats of its
 * greatest number are; what is smaller than 1e-30 in all of a block counts as 0. What is not
 * finite is not lost. */
static void odd_rows(void **state)
{
    const int64_t a_dim[] = { 1, ODD_K }, w_dim[] = { ODD_K, ODD_N },
                  s_dim[] = { ODD_BLOCKS, ODD_N };
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    static float a[ODD_K], scale[ODD_BLOCKS * ODD_N];
    static uint8_t w[ODD_K * ODD_N / 2];
    static int wide[ODD_K * ODD_N];
    static double want[ODD_N], most[ODD_N];

    (void)state;
    for (int turn = 0; turn < 9; turn++) {
        struct odd_want odd = { want, most, turn < 6 };
        struct engine_tensor in = rig_tensor(TENSOR_F32, a, a_dim, 2);
        struct make m = { 0 };

        for (int k = 0; k < ODD_K; k++) /* in turns 0 to 4 one kind alone, at times with another */
            a[k] = odd_number(turn < 5 ? turn + (k / ODD_BLOCK % 7 == 0) : k / ODD_BLOCK,
                              k % ODD_BLOCK);
        if (!odd.finite)
            a[rnd(ODD_K)] = bad[turn - 6];
        for (int i = 0; i < ODD_K * ODD_N; i++) {
            wide[i] = (int)rnd(16) - 8;
            put_number(w, i, 4, wide[i]);
        }
        for (int i = 0; i < ODD_BLOCKS * ODD_N; i++)
            scale[i] = .01f + (float)rnd(1000) / 1e5f;
        for (int c = 0; c < ODD_N; c++) {
            double magnitude = 0, blocks = 0;

            want[c] = 0;
            for (int k = 0; k < ODD_K; k++) {
                double by = (double)scale[k / ODD_BLOCK * ODD_N + c] * wide[k * ODD_N + c], top = 0;

                for (int i = 0; i < ODD_BLOCK; i++)
                    top = MAX(top, fabs((double)a[k / ODD_BLOCK * ODD_BLOCK + i]));
                want[c] += a[k] * by;
                magnitude += fabs(a[k] * by);
                blocks += fabs(by) * (top < 1e-30 ? top : top * 0x1p-23);
            }
            most[c] = blocks + magnitude * ODD_BLOCKS * 0x1p-24;
        }
        make_value(&m, false, "a", TENSOR_F32, a_dim, 2);
        make_weight(&m, "w", TENSOR_I4, w_dim, 2, w, sizeof(w));
        make_weight(&m, "s", TENSOR_F32, s_dim, 2, scale, sizeof(scale));
        make_node(&m, "DequantizeLinear", "w,s", "d", "axis=0 block_size=32");
        make_node(&m, "MatMul", "a,d", "y", "");
        make_value(&m, true, "y", TENSOR_F32, NULL, -1);
        assert_kernel(&m, 21, KERNEL_nbits, "odd rows");
        rig_run(&m, 21, &options, &in, 1, odd_check, &odd);
        make_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(blocks), cmocka_unit_test(greatest),
                                        cmocka_unit_test(halves), cmocka_unit_test(bf16_products),
                                        cmocka_unit_test(odd_rows) };

    return cmocka_run_group_tests_name("native_blocks", tests, NULL, NULL);
}
