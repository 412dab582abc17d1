/* q8.h -- products of 8-bit matrices.
 *
 * (A - za) x (B - zb) for operands of either sign: A is brought to unsigned, B to signed bytes by
 * flipping their top bits (which shifts the zero points by 128), and the zero points come in
 * afterwards through the sums of A's rows and B's columns. Sums are exact: results depend on no
 * instruction set and no number of threads. */
#ifndef NATIVE_Q8_H
#define NATIVE_Q8_H

#include "engine/native/isa/q8_isa.h"
#include "engine/native/op.h"

#define TYPES_Q8 (TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_I8))

static inline const struct q8_isa *kernel_q8(const struct op *op)
{
    return kernel_isa(op)->q8;
}
/* One byte as an integer of either kind. */
static inline int32_t q8_at(const struct nt *t, int64_t i)
{
    return t->type == TENSOR_U8 ? ((const uint8_t *)t->data)[i] : ((const int8_t *)t->data)[i];
}
/* Of a zero point, or 0 if there is none. */
static inline int32_t q8_zero(const struct nt *t, int64_t i)
{
    return t ? q8_at(t, t->count == 1 ? 0 : i) : 0;
}
static inline int64_t q8_groups(int64_t k)
{
    return (k + 3) / 4;
}
/* Range of an 8-bit type. */
static inline int32_t q8_lo(enum tensor_type t)
{
    return t == TENSOR_U8 ? 0 : -128;
}
static inline int32_t q8_hi(enum tensor_type t)
{
    return t == TENSOR_U8 ? 255 : 127;
}

/* B, k x n, packed into panels of nr columns. Constant ones are packed once. */
struct q8_b {
    int64_t k, n;
    uint8_t *data;
    int32_t *sum; /* of each column, as signed bytes */
    int32_t *off; /* of each group of four k in a panel */
};

/* Bytes that packing takes; -1: too many. */
int64_t q8_b_bytes(const struct q8_isa *isa, int64_t k, int64_t n);
/* The parts of b in memory of q8_b_bytes(). */
void q8_b_place(struct q8_b *b, const struct q8_isa *isa, int64_t k, int64_t n, void *memory);
/* Element (i, j) at src[i * rs + j * cs]; flip: 0x80 if it is unsigned. */
void q8_b_pack(struct q8_b *b, const struct q8_isa *isa, const void *src, int64_t rs, int64_t cs,
               uint8_t flip, struct pool *pool);

/* Range and zero point of the operator's output, narrowed by the activations fused to it. */
void q8_limits(const struct op *op, float y_scale, const struct nt *y_zero, int32_t *lo,
               int32_t *hi, int32_t *zero);

/* Scales and offset of a pair from those of its operands and of the result, as ONNX Runtime has
 * them; zero is the result's zero point. */
void q8_pair_scales(struct q8_pair *p, float a, float b, float y, int32_t zero);

/* What each of the 256 bytes becomes: of a function of one operand, of input i of QLinearConcat. */
void q8_table_unary(const struct op *op, uint8_t *table);
void q8_table_concat(const struct op *op, uint32_t i, uint8_t *table);

/* What ReduceMean over the spatial dimensions makes of input 0. */
struct shape qpool_mean_shape(const struct op *op);

/* A part of the channels, or all of them in another order. */
struct q8_pick {
    int64_t first, n; /* of a part */
    int64_t groups;   /* of a shuffle: channel i is i / groups of group i % groups; 0: none */
    bool moves;       /* bytes stay what they are */
    uint8_t table[256];
};

void q8_pick_of(const struct op *op, struct q8_pick *out);
/* Type and shape of its result, or why there is none. */
int q8_pick_gives(struct op *op, enum tensor_type *type, struct shape *shape, opm_error *err);
/* First and n alone, of a part of Split. */
void q8_pick_part(const struct op *op, struct q8_pick *out);

struct q8_product {
    const struct q8_isa *isa;
    struct pool *pool;
    int64_t m;
    const struct q8_b *b;
    const uint8_t *a; /* unsigned; rows of whole groups, lda apart */
    int64_t lda;
    int32_t a_zero;         /* as unsigned */
    const int32_t *b_zero;  /* as signed: n of them, or NULL if all are zero */
    int32_t *add, *row_sum; /* room for n and m numbers */
    const int32_t *bias;    /* n numbers that join the sums, or NULL */
    enum q8_kind kind;
    struct q8_out out_as;      /* but for add; scale has n numbers, or one; shift n */
    void *out;                 /* m x n */
    const struct posts *posts; /* for floats, or NULL */
    int64_t base;              /* index of out[0] in the operator's output */
};

/* What DynamicQuantizeLinear chooses for n numbers as unsigned bytes. */
void q8_dynamic(const struct op *op, const float *x, int64_t n, float *scale, int32_t *zero);
/* in / scale + zero, shared out among threads. */
void q8_quantize(const struct op *op, uint8_t *out, const float *in, int64_t n, float scale,
                 int32_t zero, enum tensor_type type);

void q8_multiply(const struct q8_product *p);
/* A as q8_product wants it, rows of q8_groups(k) * 4 bytes. */
void q8_a_copy(uint8_t *out, const uint8_t *a, int64_t m, int64_t k, int64_t lda, uint8_t flip);

#endif
