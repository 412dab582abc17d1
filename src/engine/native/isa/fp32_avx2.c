/* fp32_avx2.c -- the inner loops with AVX2 and FMA; see isa.h. */
#include "engine/native/isa/isa.h"
#include "engine/native/isa/target.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <string.h>

TARGET_PUSH(TARGET_AVX2)

#define VL 8
#define MR 6
#define NV 2
#define VFMA(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define VMAX(a, b) ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define VMIN(a, b) ((vf)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define VSQRT(x) ((vf)_mm256_sqrt_ps((__m256)(x)))
#define VFLOOR(x) ((vf)_mm256_floor_ps((__m256)(x)))
#define VCEIL(x) ((vf)_mm256_ceil_ps((__m256)(x)))
#define VROUND(x) ((vf)_mm256_round_ps((__m256)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define FMA1(a, b, c) __builtin_fmaf(a, b, c)
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define MASK(n) \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define VLOAD_N(p, n) ((vf)_mm256_maskload_ps(p, MASK(n)))
#define VSTORE_N(p, v, n) _mm256_maskstore_ps(p, MASK(n), (__m256)(v))
#define GEMM_ROWS(X) X(2) X(3) X(4) X(5) X(6)
#define VDUP(p) ((vf)_mm256_set1_ps(*(p)))
#define VMAXN(a, b) ((vf)_mm256_max_ps((__m256)(a), (__m256)(b))) /* b if one is NaN */
#define VMINN(a, b) ((vf)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define INTERLEAVE_LO 0, 8, 1, 9, 2, 10, 3, 11
#define INTERLEAVE_HI 4, 12, 5, 13, 6, 14, 7, 15
#define VHALF(p) ((vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p))))
#define VBF16(p) \
    ((vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p))), 16))
#define BLK_PX 6
#define BLK_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define ISA_NAME isa_avx2
#include "engine/native/isa/fp32_tmpl.h"

TARGET_POP
#endif
