/* weights.c -- see weights.h.
 *
 * A weight is [outer][rows][inner] around its axis of output channels. Two layouts are what
 * networks have, rows outermost (Conv, Gemm with transB) and rows innermost (MatMul); they get
 * loops that run along memory and that compilers turn into vector code. The rest goes element by
 * element. */
#include "graph/weights.h"

#include <math.h>
#include <string.h>

#define BLOCK_ROWS 4
#define BLOCK_COLS 16

struct count {
    int64_t element, b4x1, b1x16;
};

/* Loads of one width; mask leaves out the sign of floats. */
#define LOADER(width)                                                      \
    static inline uint##width##_t load##width(const uint8_t *p, int64_t i) \
    {                                                                      \
        uint##width##_t v;                                                 \
                                                                           \
        memcpy(&v, p + (size_t)i * sizeof(v), sizeof(v));                  \
        return v;                                                          \
    }
LOADER(8)
LOADER(16)
LOADER(32)
LOADER(64)

/* Rows one after the other in memory: `rows` of `cols`. */
#define ROWS_OUTER(width)                                                                   \
    static void rows_outer##width(const uint8_t *p, int64_t rows, int64_t cols,             \
                                  uint##width##_t mask, struct count *c)                    \
    {                                                                                       \
        for (int64_t r = 0; r < rows; r++) {                                                \
            for (int64_t b = 0; b < cols; b += BLOCK_COLS) {                                \
                int64_t n = MIN((int64_t)BLOCK_COLS, cols - b), zeros = 0;                  \
                                                                                            \
                for (int64_t i = 0; i < n; i++)                                             \
                    zeros += (load##width(p, r * cols + b + i) & mask) == 0;                \
                c->element += zeros;                                                        \
                c->b1x16 += zeros == n;                                                     \
            }                                                                               \
        }                                                                                   \
        for (int64_t r = 0; r < rows; r += BLOCK_ROWS) {                                    \
            int64_t n = MIN((int64_t)BLOCK_ROWS, rows - r), zeros = 0;                      \
            int64_t r1 = r + (n > 1), r2 = r + (n > 2) * 2, r3 = r + (n > 3) * 3;           \
                                                                                            \
            for (int64_t i = 0; i < cols; i++)                                              \
                zeros += ((load##width(p, r * cols + i) | load##width(p, r1 * cols + i) |   \
                           load##width(p, r2 * cols + i) | load##width(p, r3 * cols + i)) & \
                          mask) == 0;                                                       \
            c->b4x1 += zeros;                                                               \
        }                                                                                   \
    }
ROWS_OUTER(8)
ROWS_OUTER(16)
ROWS_OUTER(32)
ROWS_OUTER(64)

/* Rows are the last dimension: `cols` runs of `rows` elements. 16 runs at a time, so that blocks of
 * columns are finished while their rows are in the cache. */
#define ROWS_INNER(width)                                                       \
    static void rows_inner##width(const uint8_t *p, int64_t rows, int64_t cols, \
                                  uint##width##_t mask, struct count *c)        \
    {                                                                           \
        for (int64_t b = 0; b < cols; b += BLOCK_COLS) {                        \
            int64_t n = MIN((int64_t)BLOCK_COLS, cols - b);                     \
                                                                                \
            for (int64_t r = 0; r < rows; r += 64) {                            \
                uint##width##_t any[64] = { 0 };                                \
                int64_t m = MIN((int64_t)64, rows - r), zeros = 0;              \
                                                                                \
                for (int64_t k = 0; k < n; k++) {                               \
                    int64_t at = (b + k) * rows + r;                            \
                                                                                \
                    for (int64_t i = 0; i < m; i++) {                           \
                        uint##width##_t v = load##width(p, at + i) & mask;      \
                                                                                \
                        any[i] |= v;                                            \
                        zeros += v == 0;                                        \
                    }                                                           \
                    for (int64_t i = 0; i < m; i += BLOCK_ROWS) {               \
                        uint##width##_t v = 0;                                  \
                                                                                \
                        for (int64_t j = i; j < MIN(i + BLOCK_ROWS, m); j++)    \
                            v |= load##width(p, at + j) & mask;                 \
                        c->b4x1 += v == 0;                                      \
                    }                                                           \
                }                                                               \
                c->element += zeros;                                            \
                for (int64_t i = 0; i < m; i++)                                 \
                    c->b1x16 += any[i] == 0;                                    \
            }                                                                   \
        }                                                                       \
    }
ROWS_INNER(8)
ROWS_INNER(16)
ROWS_INNER(32)
ROWS_INNER(64)

/* Any layout, any type: element (row, col) at (col / inner, row, col % inner). */
static void any_layout(const struct tensor *t, int64_t rows, int64_t cols, int64_t inner,
                       struct count *c)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t run = 0;

        for (int64_t col = 0; col < cols; col++) {
            int64_t at = (col / inner * rows + r) * inner + col % inner;
            bool zero = tensor_float(t, at) == 0;

            c->element += zero;
            run = zero ? run + 1 : 0;
            if ((col + 1) % BLOCK_COLS == 0 || col + 1 == cols) {
                c->b1x16 += run >= col % BLOCK_COLS + 1;
                run = 0;
            }
            if (r % BLOCK_ROWS == 0) {
                bool all = true;

                for (int64_t k = r; all && k < MIN(r + BLOCK_ROWS, rows); k++)
                    all = tensor_float(t, (col / inner * rows + k) * inner + col % inner) == 0;
                c->b4x1 += all;
            }
        }
    }
}

/* All bits that make a number differ from zero; 0 for types without plain bits. */
static uint64_t zero_mask(enum tensor_type t)
{
    int bits = tensor_type_bits(t);
    uint64_t all = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;

    switch (t) {
    case TENSOR_F32:
    case TENSOR_F64:
    case TENSOR_F16:
    case TENSOR_BF16:
        return all >> 1;
    default:
        return tensor_type_int(t) && bits >= 8 ? all : 0;
    }
}

static void count_rows_outer(const struct tensor *t, int64_t rows, int64_t cols, uint64_t mask,
                             struct count *c)
{
    switch (tensor_type_bits(t->type)) {
    case 8:
        rows_outer8(t->data, rows, cols, (uint8_t)mask, c);
        break;
    case 16:
        rows_outer16(t->data, rows, cols, (uint16_t)mask, c);
        break;
    case 32:
        rows_outer32(t->data, rows, cols, (uint32_t)mask, c);
        break;
    default:
        rows_outer64(t->data, rows, cols, mask, c);
    }
}

static void count_rows_inner(const struct tensor *t, int64_t rows, int64_t cols, uint64_t mask,
                             struct count *c)
{
    switch (tensor_type_bits(t->type)) {
    case 8:
        rows_inner8(t->data, rows, cols, (uint8_t)mask, c);
        break;
    case 16:
        rows_inner16(t->data, rows, cols, (uint16_t)mask, c);
        break;
    case 32:
        rows_inner32(t->data, rows, cols, (uint32_t)mask, c);
        break;
    default:
        rows_inner64(t->data, rows, cols, mask, c);
    }
}

void weight_zeros(const struct tensor *t, int axis, struct weight_zeros *out)
{
    uint64_t mask = zero_mask(t->type);
    struct count c = { 0 };
    int64_t rows = 1, inner = 1, cols;

    *out = (struct weight_zeros){ NAN, NAN, NAN };
    if (t->count <= 0 || t->type == TENSOR_STRING || t->type == TENSOR_NONE)
        return;
    if (axis >= 0 && axis < t->shape.rank) {
        rows = t->shape.dim[axis];
        for (int32_t i = axis + 1; i < t->shape.rank; i++)
            inner *= t->shape.dim[i];
    } else
        inner = t->count;
    cols = t->count / rows;
    if (mask && cols == inner)
        count_rows_outer(t, rows, cols, mask, &c);
    else if (mask && inner == 1)
        count_rows_inner(t, rows, cols, mask, &c);
    else
        any_layout(t, rows, cols, inner, &c);
    out->element = (double)c.element / (double)t->count;
    out->b4x1 = (double)c.b4x1 / ((double)((rows + BLOCK_ROWS - 1) / BLOCK_ROWS) * (double)cols);
    out->b1x16 = (double)c.b1x16 / ((double)((cols + BLOCK_COLS - 1) / BLOCK_COLS) * (double)rows);
}
