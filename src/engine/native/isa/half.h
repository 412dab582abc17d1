/* half.h -- 16-bit floating point: what a model stores and takes and gives as float16 or bfloat16
 * is float32 inside of the engine. */
#ifndef NATIVE_HALF_H
#define NATIVE_HALF_H

#include "graph/tensor.h"

/* float32 for the 16-bit types, others as they are. */
static inline enum tensor_type half_inside(enum tensor_type t)
{
    return t == TENSOR_F16 || t == TENSOR_BF16 ? TENSOR_F32 : t;
}

/* float16 to and from float, as many of n as come out even; how many. */
struct half_isa {
    int64_t (*to_float)(float *out, const char *in, int64_t n);
    int64_t (*from_float)(char *out, const float *in, int64_t n);
    int64_t (*to_bf16)(char *out, const float *in, int64_t n); /* or NULL */
};
extern const struct half_isa half_c, half_avx2, half_neon, half_bf16;

/* n numbers of type t (a 16-bit one); in may be unaligned. */
void half_to_float(float *out, const void *in, int64_t n, enum tensor_type t);
void half_from_float(void *out, const float *in, int64_t n, enum tensor_type t);
/* To the nearest number of type t. */
void half_round(float *x, int64_t n, enum tensor_type t);
/* The same, into out. */
void half_rounded(float *out, const float *in, int64_t n, enum tensor_type t);

#endif
