/* loops_isa.c -- see loops_isa.h. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/target.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

#define NARROW_TAPS 8

typedef float vf_c __attribute__((vector_size(16)));
typedef int32_t vi_c __attribute__((vector_size(16)));

static inline vf_c load_n_c(const float *p, int64_t n)
{
    vf_c v = { 0 };

    memcpy(&v, p, (size_t)n * sizeof(*p));
    return v;
}

static inline vf_c gather_c(const float *p, vi_c at)
{
    vf_c v;

    for (int i = 0; i < 4; i++)
        v[i] = at[i] < 0 ? 0 : p[at[i]];
    return v;
}

static inline bool any_c(vi_c v)
{
    return (v[0] | v[1] | v[2] | v[3]) != 0;
}

#define N(name) name##_c
#define VL 4
#define DFMA(a, b, c) ((a) * (b) + (c))
#define ROWS 4
#define TILE_ROWS(X, name) X(name, 1) X(name, 2) X(name, 3) X(name, 4)
#define EVEN 0, 2, 4, 6
#define ANY(v) any_c(v)
#define LOAD_N(p, n) load_n_c(p, n)
#define STORE_N(p, v, n) memcpy(p, &(v), (size_t)(n) * sizeof(float))
#define GATHER(p, at) gather_c(p, at)
#include "engine/native/isa/loops_tmpl.h"

#ifdef __x86_64__

TARGET_PUSH(TARGET_AVX2)
#define N(name) name##_avx2
#define VL 8
#define DFMA(a, b, c) ((vd_avx2)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define ROWS 4
#define TILE_ROWS(X, name) X(name, 1) X(name, 2) X(name, 3) X(name, 4)
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ANY(v) (!_mm256_testz_si256((__m256i)(v), (__m256i)(v)))
#define LOAD_N(p, n) \
    ((vf_avx2)_mm256_maskload_ps(p, (__m256i)((vi_avx2){ 0, 1, 2, 3, 4, 5, 6, 7 } < (int32_t)(n))))
#define STORE_N(p, v, n)                                                                  \
    _mm256_maskstore_ps(p, (__m256i)((vi_avx2){ 0, 1, 2, 3, 4, 5, 6, 7 } < (int32_t)(n)), \
                        (__m256)(v))
#define GATHER(p, at)                                                                              \
    ((vf_avx2)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, (__m256i)(at), (__m256)((at) >= 0), \
                                       4))
#include "engine/native/isa/loops_tmpl.h"
TARGET_POP
TARGET_PUSH(TARGET_AVX512)
#define N(name) name##_avx512
#define VL 16
#define DFMA(a, b, c) ((vd_avx512)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define ROWS 12
#define TILE_ROWS(X, name) \
    X(name, 1)             \
    X(name, 2)             \
    X(name, 3)             \
    X(name, 4)             \
    X(name, 5) X(name, 6) X(name, 7) X(name, 8) X(name, 9) X(name, 10) X(name, 11) X(name, 12)
#define PICK2(a, at, b) ((vf_avx512)_mm512_permutex2var_ps((__m512)(a), (__m512i)(at), (__m512)(b)))
#define MAX2(a, b) ((vf_avx512)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define NAN_MASK(v) ((int)_mm512_cmp_ps_mask((__m512)(v), (__m512)(v), _CMP_UNORD_Q))
#define LOAD_FILL(p, n, fill) \
    ((vf_avx512)_mm512_mask_loadu_ps((__m512)(fill), (__mmask16)((1u << (n)) - 1), p))
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ANY(v) (_mm512_test_epi32_mask((__m512i)(v), (__m512i)(v)) != 0)
#define LOAD_N(p, n) ((vf_avx512)_mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p))
#define STORE_N(p, v, n) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), (__m512)(v))
#define GATHER(p, at)                                                                 \
    ((vf_avx512)_mm512_mask_i32gather_ps(                                             \
        _mm512_setzero_ps(),                                                          \
        _mm512_cmp_epi32_mask((__m512i)(at), _mm512_setzero_si512(), _MM_CMPINT_NLT), \
        (__m512i)(at), p, 4))
#include "engine/native/isa/loops_tmpl.h"
TARGET_POP
#endif

#ifdef __aarch64__
#define N(name) name##_neon
#define VL 4
#define DFMA(a, b, c) ((vd_neon)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#define ROWS 8
#define TILE_ROWS(X, name) \
    X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5) X(name, 6) X(name, 7) X(name, 8)
#define EVEN 0, 2, 4, 6
#define ANY(v) (vmaxvq_u32((uint32x4_t)(v)) != 0)
#define LOAD_N(p, n) load_n_c(p, n)
#define STORE_N(p, v, n) memcpy(p, &(v), (size_t)(n) * sizeof(float))
#define GATHER(p, at) gather_c(p, at)
#include "engine/native/isa/loops_tmpl.h"
#endif
