/* sparse_isa.c -- see sparse_isa.h. */
#include "engine/native/isa/sparse_isa.h"
#include "engine/native/isa/target.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

typedef float vx __attribute__((vector_size(16)));

#define N(name) name##_c
#define VL 4
#define MV 2
#define VFMA(a, b, c) ((a) * (b) + (c))
#define XFMA(a, b, c) ((a) * (b) + (c))
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define FRONT 0, 1, 4, 5
#define BACK 2, 3, 6, 7
#define QUARTER(p, v, q) memcpy(p, &(v), 16)
#define REPEAT4(p) N(fload)(p)
#define SPREAD4(p, i) N(fset)((p)[i])
#define EACH_ROW(X) X(0) X(1) X(2) X(3)
#define EACH_MV(X) X(1) X(2)
#include "engine/native/isa/sparse_tmpl.h"

#ifdef __x86_64__

TARGET_PUSH(TARGET_AVX2)
#define N(name) name##_avx2
#define VL 8
#define MV 3
#define VFMA(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define XFMA(a, b, c) ((vx)_mm_fmadd_ps((__m128)(a), (__m128)(b), (__m128)(c)))
#define LOW 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define FRONT 0, 1, 8, 9, 4, 5, 12, 13
#define BACK 2, 3, 10, 11, 6, 7, 14, 15
#define QUARTER(p, v, q) _mm_storeu_ps(p, _mm256_extractf128_ps((__m256)(v), q))
#define REPEAT4(p) ((vf)_mm256_broadcast_ps((const __m128 *)(p)))
#define SPREAD4(p, i)                                                                           \
    ((vf)_mm256_permutevar_ps((__m256)REPEAT4(p), i ? _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3) \
                                                    : _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)))
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH_MV(X) X(1) X(2) X(3)
#include "engine/native/isa/sparse_tmpl.h"
TARGET_POP
TARGET_PUSH(TARGET_AVX512)
#define N(name) name##_avx512
#define VL 16
#define MV 4
#define VFMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define XFMA(a, b, c) ((vx)_mm_fmadd_ps((__m128)(a), (__m128)(b), (__m128)(c)))
#define LOW 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define FRONT 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define BACK 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define QUARTER(p, v, q) _mm_storeu_ps(p, _mm512_extractf32x4_ps((__m512)(v), q))
#define REPEAT4(p) ((vf)_mm512_broadcast_f32x4(_mm_loadu_ps(p)))
#define SPREAD4(p, i)                             \
    ((vf)_mm512_permutevar_ps((__m512)REPEAT4(p), \
                              _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3)))
#define EACH_ROW(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define EACH_MV(X) X(1) X(2) X(3) X(4)
#include "engine/native/isa/sparse_tmpl.h"
TARGET_POP
#endif

#ifdef __aarch64__
#define N(name) name##_neon
#define VL 4
#define MV 5
#define VFMA(a, b, c) ((vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define XFMA(a, b, c) ((vx)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define FRONT 0, 1, 4, 5
#define BACK 2, 3, 6, 7
#define QUARTER(p, v, q) memcpy(p, &(v), 16)
#define REPEAT4(p) N(fload)(p)
#define SPREAD4(p, i) N(fset)((p)[i])
#define EACH_ROW(X) X(0) X(1) X(2) X(3)
#define EACH_MV(X) X(1) X(2) X(3) X(4) X(5)
#include "engine/native/isa/sparse_tmpl.h"
#endif
