/* fp64_isa.c -- see fp64_isa.h. */
#include "engine/native/isa/fp64_isa.h"
#include "engine/native/isa/target.h"

#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

typedef double two_c __attribute__((vector_size(16)));

static inline two_c roots_c(two_c x)
{
    return (two_c){ sqrt(x[0]), sqrt(x[1]) };
}

static inline void floats_out_c(float *out, two_c x)
{
    out[0] = (float)x[0];
    out[1] = (float)x[1];
}

#define N(name) name##_c
#define WIDE 2
#define DFMA(a, b, c) ((a) * (b) + (c))
#define DSQRT(x) roots_c(x)
#define FLOATS_IN(p) ((vd){ (double)(p)[0], (double)(p)[1] })
#define FLOATS_OUT(p, v) floats_out_c(p, v)
#include "engine/native/isa/fp64_tmpl.h"

#ifdef __x86_64__
TARGET_PUSH(TARGET_AVX2)
#define N(name) name##_avx2
#define FUSED
#define WIDE 4
#define DFMA(a, b, c) ((vd)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define DSQRT(x) ((vd)_mm256_sqrt_pd((__m256d)(x)))
#define FLOATS_IN(p) ((vd)_mm256_cvtps_pd(_mm_loadu_ps(p)))
#define FLOATS_OUT(p, v) _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)(v)))
#include "engine/native/isa/fp64_tmpl.h"
TARGET_POP
TARGET_PUSH(TARGET_AVX512)
#define N(name) name##_avx512
#define FUSED
#define WIDE 8
#define DFMA(a, b, c) ((vd)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define DSQRT(x) ((vd)_mm512_sqrt_pd((__m512d)(x)))
#define FLOATS_IN(p) ((vd)_mm512_cvtps_pd(_mm256_loadu_ps(p)))
#define FLOATS_OUT(p, v) _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)(v)))
#include "engine/native/isa/fp64_tmpl.h"
TARGET_POP
#endif

#ifdef __aarch64__
#define N(name) name##_neon
#define FUSED
#define WIDE 2
#define DFMA(a, b, c) ((vd)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#define DSQRT(x) ((vd)vsqrtq_f64((float64x2_t)(x)))
#define FLOATS_IN(p) ((vd)vcvt_f64_f32(vld1_f32(p)))
#define FLOATS_OUT(p, v) vst1_f32(p, vcvt_f32_f64((float64x2_t)(v)))
#include "engine/native/isa/fp64_tmpl.h"
#endif
