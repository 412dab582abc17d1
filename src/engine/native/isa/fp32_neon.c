/* fp32_neon.c -- the inner loops with NEON, which every 64-bit ARM processor has; see isa.h. */
#include "engine/native/isa/isa.h"
#include "engine/native/isa/target.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <math.h>
#include <string.h>

static inline float32x4_t load_some(const float *p, int64_t n)
{
    float32x4_t v = vdupq_n_f32(0);

    if (n >= 2)
        v = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    if (n == 3)
        v = vld1q_lane_f32(p + 2, v, 2);
    else if (n == 1)
        v = vld1q_lane_f32(p, v, 0);
    return v;
}

static inline void store_some(float *p, float32x4_t v, int64_t n)
{
    if (n >= 2)
        vst1_f32(p, vget_low_f32(v));
    if (n == 3)
        vst1q_lane_f32(p + 2, v, 2);
    else if (n == 1)
        vst1q_lane_f32(p, v, 0);
}

/* 24 of 32 registers are sums. Maxima and minima of VMAX would not let go of NaN as x86's do: they
 * are comparisons here. */
#define VL 4
#define MR 6
#define NV 4
#define VFMA(a, b, c) ((vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define VSQRT(x) ((vf)vsqrtq_f32((float32x4_t)(x)))
#define VFLOOR(x) ((vf)vrndmq_f32((float32x4_t)(x)))
#define VCEIL(x) ((vf)vrndpq_f32((float32x4_t)(x)))
#define VROUND(x) ((vf)vrndnq_f32((float32x4_t)(x)))
#define FMA1(a, b, c) __builtin_fmaf(a, b, c)
#define EVEN 0, 2, 4, 6
#define VLOAD_N(p, n) ((vf)load_some(p, n))
#define VSTORE_N(p, v, n) store_some(p, (float32x4_t)(v), n)
#define GEMM_ROWS(X) X(2) X(3) X(4) X(5) X(6)
#define VDUP(p) ((vf)vld1q_dup_f32(p))
#define VMAXN(a, b) ((vf)vmaxq_f32((float32x4_t)(a), (float32x4_t)(b))) /* NaN if one is NaN */
#define VMINN(a, b) ((vf)vminq_f32((float32x4_t)(a), (float32x4_t)(b)))
#define INTERLEAVE_LO 0, 4, 1, 5
#define INTERLEAVE_HI 2, 6, 3, 7
#define VHALF(p) ((vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))))
#define VBF16(p) ((vf)vshll_n_u16(vld1_u16(p), 16))
#define BLK_PX 10
#define BLK_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10)
#define ISA_NAME isa_neon
#include "engine/native/isa/fp32_tmpl.h"
#endif
