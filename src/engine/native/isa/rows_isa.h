/* rows_isa.h -- element-wise loops over rows of elements of one type, once per instruction set:
 * functions of two elements and of one (rows.def lists them), choices and conversions; and what
 * else there is for such rows. All types are indices as in tensor.h; a float16 is a float here, and
 * a bool a byte. */
#ifndef NATIVE_ROWS_ISA_H
#define NATIVE_ROWS_ISA_H

#include "engine/native/isa/folds_isa.h"
#include "engine/native/isa/fp64_isa.h"
#include "engine/native/isa/isa.h"
#include "graph/tensor.h"

/* Numbers that families.h and elementwise.h give their operators, too. */
enum rows_pair {
#define PAIR(name, ints, out, real, whole) ROWS_##name,
#define INTS(name, ints, out, whole) ROWS_##name,
#include "engine/native/isa/rows.def"
    ROWS_NPAIRS
};
enum rows_one {
#define ONE(name, ints, out, real, whole) ROWS_##name,
#define FLOAT(name, out, real) ROWS_##name,
#define FLOAT32(name, out, real) ROWS_##name,
#define INTS1(name, ints, out, whole) ROWS_##name,
#include "engine/native/isa/rows.def"
    ROWS_NONES
};

/* n elements; strides are 0 or 1, not both 0 unless n is 1. out may be an operand of the same width
 * and stride 1. */
typedef void rows_pair_fn(void *out, const void *a, int64_t sa, const void *b, int64_t sb,
                          int64_t n);
typedef void rows_one_fn(void *out, const void *in, int64_t n, double p, double q);
typedef void rows_where_fn(void *out, const uint8_t *cond, int64_t sc, const void *a, int64_t sa,
                           const void *b, int64_t sb, int64_t n);
typedef void rows_clip_fn(void *out, const void *in, int64_t n, const void *low, const void *high);
typedef bool rows_places_fn(int64_t *out, const void *index, int64_t n, int64_t size, int64_t step,
                            int64_t along);
typedef void rows_cast_fn(void *out, const void *in, int64_t n);
/* Vectors stand side by side as columns of `wide` numbers, a multiple of ROWS_DISTANCES: out[j] =
 * the sum over c < n of (x[c] - columns[c * wide + j])^2. */
#define ROWS_DISTANCES 16
typedef void rows_distance_fn(void *out, const void *x, const void *columns, int64_t n,
                              int64_t wide);

struct rows_isa {
    /* NULL: not of this type. */
    rows_pair_fn *pair[ROWS_NPAIRS][TENSOR_NTYPES];
    rows_one_fn *one[ROWS_NONES][TENSOR_NTYPES];
    /* out[i] = base[i] to the power of exponent[i], wrapping; base is lost. Three arrays. */
    void (*power)(uint64_t *out, uint64_t *base, const uint64_t *exponent, int64_t n);
    /* out[i] = cond[i] ? a[i] : b[i], of elements of 1, 2, 4 and 8 bytes. */
    rows_where_fn *where[4];
    /* NaN comes through. low and high: one element each, or NULL. */
    rows_clip_fn *clip[TENSOR_NTYPES];
    /* From a type to another, out elsewhere: integers drop what does not fit; floats lose their
     * fraction, saturate at 64 bits and then drop what does not fit, NaN is 0. */
    rows_cast_fn *cast[TENSOR_NTYPES][TENSOR_NTYPES];
    /* Of n indices (int32, int64), counted from the end of `size` if negative, where element i is:
     * index[i] * step + i * along. False if one is out of range, where out is anything. */
    rows_places_fn *places[2];
    rows_distance_fn *distance[TENSOR_NTYPES]; /* of floats and doubles */
    const struct folds_isa *folds;
    const struct fp64_isa *real;
};

extern const struct rows_isa rows_c, rows_avx2, rows_avx512;

#endif
