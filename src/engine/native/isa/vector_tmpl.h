/* vector_tmpl.h -- vectors of VL 32-bit lanes, for the other templates: the types vi, vf and vb (as
 * many bytes as lanes), and how to fill and load them. No include guard: the includer has N(name)
 * and VL, which is 8 with AVX2 and 16 with AVX-512 alone (and <arm_neon.h> on ARM), and undefines
 * vi, vf, vb and INLINE afterwards. */

typedef int32_t N(vi) __attribute__((vector_size(VL * 4)));
typedef float N(vf) __attribute__((vector_size(VL * 4)));
typedef uint8_t N(vb) __attribute__((vector_size(VL)));
#define vi N(vi)
#define vf N(vf)
#define vb N(vb)
#define INLINE static inline __attribute__((always_inline))

INLINE vi N(iset)(int32_t x)
{
    vi v = { 0 };

    return v + x;
}

INLINE vf N(fset)(float x)
{
    vf v = { 0 };

    return x - v; /* compilers may drop - 0, but not + 0 */
}

INLINE vi N(iload)(const void *p)
{
    vi v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE vf N(fload)(const float *p)
{
    vf v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Bytes to lanes and back, of which gcc makes one byte after the other if it is not told how. */

INLINE vi N(load_u8)(const void *p)
{
#if VL == 16
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif VL == 8
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#elif defined(__aarch64__)
    uint32_t four;

    memcpy(&four, p, sizeof(four));
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
#else
    vb b;

    memcpy(&b, p, sizeof(b));
    return __builtin_convertvector(b, vi);
#endif
}

INLINE vi N(load_i8)(const void *p)
{
    return (N(load_u8)(p) << 24) >> 24;
}

/* The lowest byte of each lane. */
INLINE vb N(low_bytes)(vi x)
{
#if VL == 16
    return (vb)_mm512_cvtepi32_epi8((__m512i)x);
#elif VL == 8
    __m256i four = _mm256_shuffle_epi8(
        (__m256i)x, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0,
                                     4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    int64_t eight = _mm_cvtsi128_si64(
        _mm_unpacklo_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1)));
    vb b;

    memcpy(&b, &eight, sizeof(b));
    return b;
#elif defined(__aarch64__)
    uint16x4_t narrow = vmovn_u32((uint32x4_t)x);
    uint64_t eight = vget_lane_u64(vreinterpret_u64_u8(vmovn_u16(vcombine_u16(narrow, narrow))), 0);
    vb b;

    memcpy(&b, &eight, sizeof(b));
    return b;
#else
    return __builtin_convertvector(x, vb);
#endif
}
