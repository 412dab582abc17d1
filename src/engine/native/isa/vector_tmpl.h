/* vector_tmpl.h -- vectors of VL 32-bit lanes, for the other templates: the types vi, vf and vb (as
 * many bytes as lanes), and how to fill and load them. No include guard: the includer has N(name)
 * and VL, and undefines vi, vf, vb and INLINE afterwards. */

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
