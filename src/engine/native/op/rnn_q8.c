/* rnn_q8.c -- see rnn_q8.h. */
#include "engine/native/op/rnn_q8.h"

#include "engine/native/op/kernels.h"

#include <string.h>

static size_t lines(int64_t bytes)
{
    return ((size_t)bytes + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
}

void rnn_q8_release(struct rnn_q8 *w)
{
    native_free(w->memory);
    native_free(w->scale);
    *w = (struct rnn_q8){ 0 };
}

int rnn_q8_pack(struct op *op, struct rnn_q8 *w, uint32_t slot, uint32_t scale_at, int d, int dirs,
                int64_t k, int64_t n, opm_error *err)
{
    const struct nt *from = kernel_in(op, slot), *scale = kernel_in(op, scale_at),
                    *zero = kernel_in(op, scale_at + 1);
    int64_t bytes = q8_b_bytes(kernel_q8(op), k, n);
    int32_t any = 0;

    if (bytes < 0)
        return kernel_fail(op, OPM_ELIMIT, err, "the weights are too big");
    if (!w->memory)
        w->memory = native_alloc((size_t)MAX(bytes, (int64_t)1));
    if (!w->scale)
        w->scale = native_alloc(2 * lines(n * (int64_t)sizeof(float)) + 1);
    if (!w->memory || !w->scale)
        return kernel_nomem(op, err);
    q8_b_place(&w->b, kernel_q8(op), k, n, w->memory);
    q8_b_pack(&w->b, kernel_q8(op), (const char *)from->data + d * k * n, n, 1,
              from->type == TENSOR_U8 ? 0x80 : 0, kernel_pool(op));
    w->zero = (void *)((char *)w->scale + lines(n * (int64_t)sizeof(float)));
    for (int64_t j = 0; j < n; j++) {
        w->scale[j] = ((const float *)scale->data)[scale->count == dirs ? (int64_t)d : d * n + j];
        w->zero[j] = q8_at(zero, zero->count == dirs ? (int64_t)d : d * n + j) -
                     (from->type == TENSOR_U8 ? 128 : 0);
        any |= w->zero[j];
    }
    if (!any)
        w->zero = NULL;
    return 0;
}

int64_t rnn_q8_room(int64_t m, int64_t k, int64_t n)
{
    int64_t bytes;

    if (__builtin_mul_overflow(m + 1, q8_groups(k) * 4, &bytes) || bytes > PTRDIFF_MAX / 64 ||
        m > PTRDIFF_MAX / 1024 || n > PTRDIFF_MAX / 1024)
        return -1;
    return (int64_t)(lines(bytes) + lines(m * 4) + 2 * lines(n * 4));
}

void rnn_q8_product(const struct op *op, const struct rnn_q8 *w, const float *a, int64_t m,
                    float *out, const float *add, int64_t add_rs, void *room)
{
    int64_t k = w->b.k, n = w->b.n, width = q8_groups(k) * 4;
    uint8_t *bytes = room;
    int32_t *row_sum = (void *)(bytes + lines((m + 1) * width)),
            *sums = (void *)((char *)row_sum + lines(m * 4));
    float *scale = (void *)((char *)sums + lines(n * 4)), by;
    struct q8_product p = { .isa = kernel_q8(op),
                            .pool = kernel_pool(op),
                            .m = m,
                            .b = &w->b,
                            .a = bytes,
                            .lda = width,
                            .b_zero = w->zero,
                            .add = sums,
                            .row_sum = row_sum,
                            .kind = Q8_FLOAT,
                            .out_as = { .scale = scale, .scale_step = 1 },
                            .out = out };
    bool all = m == 1 || add_rs == 0; /* rows get the same */

    q8_dynamic(op, a, m * k, &by, &p.a_zero);
    for (int64_t i = 0; i < m; i++) {
        if (width == k) {
            q8_quantize(op, bytes, a, m * k, by, p.a_zero, TENSOR_U8);
            break;
        }
        q8_quantize(op, bytes + i * width, a + i * k, k, by, p.a_zero, TENSOR_U8);
        memset(bytes + i * width + k, 0, (size_t)(width - k));
    }
    kernel_isa(op)->unary(U_AFFINE, scale, w->scale, n, by, 0);
    p.out_as.shift = all ? add : NULL;
    q8_multiply(&p);
    for (int64_t i = 0; i < m && add && !all; i++)
        kernel_isa(op)->binary(B_ADD, out + i * n, out + i * n, 1, add + i * add_rs, 1, n);
}
