/* fp32_avx512.c -- the inner loops with AVX-512; see isa.h. */
#include "engine/native/isa/isa.h"
#include "engine/native/isa/target.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <string.h>

TARGET_PUSH(TARGET_AVX512)

#define VL 16
#define MR 12
#define NV 2
#define VFMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define VMAX(a, b) ((vf)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define VMIN(a, b) ((vf)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define VSCALE(x, n) ((vf)_mm512_scalef_ps((__m512)(x), (__m512)(n)))
#define VSQRT(x) ((vf)_mm512_sqrt_ps((__m512)(x)))
#define VFLOOR(x) ((vf)_mm512_roundscale_ps((__m512)(x), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
#define VCEIL(x) ((vf)_mm512_roundscale_ps((__m512)(x), _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))
#define VROUND(x) \
    ((vf)_mm512_roundscale_ps((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define VSUM(v) _mm512_reduce_add_ps((__m512)(v))
#define VLARGEST(v) _mm512_reduce_max_ps((__m512)(v))
#define FMA1(a, b, c) __builtin_fmaf(a, b, c)
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define MASK(n) ((__mmask16)((1u << (n)) - 1))
#define VLOAD_N(p, n) ((vf)_mm512_maskz_loadu_ps(MASK(n), p))
#define VSTORE_N(p, v, n) _mm512_mask_storeu_ps(p, MASK(n), (__m512)(v))
#define GEMM_ROWS(X) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define VDUP(p) ((vf)_mm512_set1_ps(*(p)))
#define VMAXN(a, b) ((vf)_mm512_max_ps((__m512)(a), (__m512)(b))) /* b if one is NaN */
#define VMINN(a, b) ((vf)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define INTERLEAVE_LO 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define INTERLEAVE_HI 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define VHALF(p) ((vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p))))
#define VBF16(p) \
    ((vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p))), 16))
#define BLK_PX 14
#define BLK_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define ISA_NAME isa_avx512
#include "engine/native/isa/fp32_tmpl.h"

TARGET_POP
#endif
