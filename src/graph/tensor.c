/* tensor.c -- see tensor.h. */
#include "graph/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *text;
    int bits;
} types[TENSOR_NTYPES] = {
#define X(name, number, text, bits) [number] = { text, bits },
    TENSOR_TYPES(X)
#undef X
};

const char *tensor_type_name(enum tensor_type t)
{
    return (unsigned)t < TENSOR_NTYPES ? types[t].text : "?";
}

enum tensor_type tensor_type_find(const char *name)
{
    for (int t = TENSOR_NONE + 1; t < TENSOR_NTYPES; t++)
        if (strcmp(types[t].text, name) == 0)
            return (enum tensor_type)t;
    return TENSOR_NONE;
}

int tensor_type_bits(enum tensor_type t)
{
    return (unsigned)t < TENSOR_NTYPES ? types[t].bits : 0;
}

bool tensor_type_float(enum tensor_type t)
{
    switch (t) {
    case TENSOR_F32:
    case TENSOR_F16:
    case TENSOR_F64:
    case TENSOR_BF16:
    case TENSOR_F8E4M3FN:
    case TENSOR_F8E4M3FNUZ:
    case TENSOR_F8E5M2:
    case TENSOR_F8E5M2FNUZ:
    case TENSOR_F4E2M1:
    case TENSOR_F8E8M0:
        return true;
    default:
        return false;
    }
}

bool tensor_type_signed(enum tensor_type t)
{
    switch (t) {
    case TENSOR_I8:
    case TENSOR_I16:
    case TENSOR_I32:
    case TENSOR_I64:
    case TENSOR_I4:
    case TENSOR_I2:
        return true;
    default:
        return tensor_type_float(t) && t != TENSOR_F8E8M0;
    }
}

bool tensor_type_int(enum tensor_type t)
{
    switch (t) {
    case TENSOR_U8:
    case TENSOR_U16:
    case TENSOR_U32:
    case TENSOR_U64:
    case TENSOR_U4:
    case TENSOR_U2:
        return true;
    default:
        return tensor_type_signed(t) && !tensor_type_float(t);
    }
}

bool shape_concrete(const struct shape *s)
{
    for (int32_t i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return false;
    return s->rank >= 0;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int64_t shape_count(const struct shape *s)
{
    int64_t n = 1;
    bool empty = false;

    if (!shape_concrete(s))
        return -1;
    for (int32_t i = 0; i < s->rank; i++) /* 0 x huge x huge is 0, not an overflow */
        empty = empty || s->dim[i] == 0;
    if (empty)
        return 0;
    for (int32_t i = 0; i < s->rank; i++)
        if (__builtin_mul_overflow(n, s->dim[i], &n))
            return -1;
    return n;
}

int64_t shape_bytes(const struct shape *s, enum tensor_type t)
{
    int64_t n = shape_count(s), bits = tensor_type_bits(t);

    if (n < 0 || bits == 0 || __builtin_mul_overflow(n, bits, &bits))
        return -1;
    return bits / 8 + (bits % 8 != 0);
}

void shape_text(const struct shape *s, char *out, size_t size)
{
    size_t at = 0;

    if (size == 0)
        return;
    out[0] = '\0';
    if (s->rank <= 0) {
        snprintf(out, size, "%s", s->rank < 0 ? "?" : "scalar");
        return;
    }
    for (int32_t i = 0; i < s->rank && at < size; i++) {
        const char *x = i ? "x" : "";

        if (s->dim[i] < 0)
            at += (size_t)snprintf(out + at, size - at, "%s?", x);
        else
            at += (size_t)snprintf(out + at, size - at, "%s%lld", x, (long long)s->dim[i]);
    }
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 0x1f, frac = h & 0x3ff, bits;
    float f;

    if (exp == 0) {
        f = ldexpf((float)frac, -24);
        return sign ? -f : f;
    }
    bits = sign | (exp == 31 ? 0x7f800000u : (exp + 112) << 23) | frac << 13;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

uint16_t f32_to_bf16(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    if (f != f)
        return 0x7fc0;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint16_t f32_to_f16(float f)
{
    uint32_t bits, sign, mag, frac, round;
    int shift;

    memcpy(&bits, &f, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    mag = bits & 0x7fffffff;
    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00); /* NaN */
    if (mag >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00); /* rounds to infinity */
    if (mag < 0x33000000)
        return (uint16_t)sign; /* below half of the smallest */
    frac = (mag & 0x7fffff) | 0x800000;
    if (mag >= 0x38800000) { /* normal: the exponent moves from bias 127 to 15 */
        round = mag - 0x38000000;
        return (uint16_t)(sign | (round + 0xfff + (round >> 13 & 1)) >> 13);
    }
    shift = 126 - (int)(mag >> 23); /* 14..24: how far a subnormal's bits move */
    round = (1u << (shift - 1)) - 1 + (frac >> shift & 1);
    return (uint16_t)(sign | (frac + round) >> shift);
}

/* A small float of ebits and mbits. Values with all exponent bits set are numbers unless `special`
 * says that they are infinities and NaNs, as in IEEE. */
static float decode_small(uint32_t v, int ebits, int mbits, int bias, bool special)
{
    uint32_t exp = v >> mbits & ((1u << ebits) - 1), frac = v & ((1u << mbits) - 1);
    float f;

    if (special && exp == (1u << ebits) - 1)
        f = frac ? NAN : INFINITY;
    else if (exp == 0)
        f = ldexpf((float)frac, 1 - bias - mbits);
    else
        f = ldexpf((float)(frac | 1u << mbits), (int)exp - bias - mbits);
    return v >> (ebits + mbits) & 1 ? -f : f;
}

static float decode_f8(enum tensor_type t, uint8_t v)
{
    switch (t) {
    case TENSOR_F8E4M3FN:
        return (v & 0x7f) == 0x7f ? NAN : decode_small(v, 4, 3, 7, false);
    case TENSOR_F8E4M3FNUZ:
        return v == 0x80 ? NAN : decode_small(v, 4, 3, 8, false);
    case TENSOR_F8E5M2:
        return decode_small(v, 5, 2, 15, true);
    case TENSOR_F8E5M2FNUZ:
        return v == 0x80 ? NAN : decode_small(v, 5, 2, 16, false);
    case TENSOR_F4E2M1:
        return decode_small(v, 2, 1, 1, false);
    default: /* TENSOR_F8E8M0: a power of two */
        return v == 0xff ? NAN : ldexpf(1.0f, (int)v - 127);
    }
}

/* Exponent and mantissa of a small float that is finite, in units of the last place. */
static uint32_t encode_size(double size, int mbits, int bias)
{
    double last;
    int exp;

    if (size == 0)
        return 0;
    frexp(size, &exp);
    exp = MAX(exp - 1, 1 - bias);
    last = nearbyint(ldexp(size, mbits - exp)); /* carries into the exponent as it should */
    return (uint32_t)MIN(last + ldexp(exp + bias - 1, mbits), 1e6);
}

static uint32_t encode_small(float f, enum tensor_type t, bool saturate)
{
    /* uz: no -0, whose bits are NaN */
    static const struct small {
        int mbits, bias, bits;
        uint32_t most, nan, beyond; /* beyond: what is too big without saturation */
        bool uz;
    } kinds[] = {
        { 3, 7, 8, 0x7e, 0x7f, 0x7f, false },  { 3, 8, 8, 0x7f, 0x80, 0x80, true },
        { 2, 15, 8, 0x7b, 0x7f, 0x7c, false }, { 2, 16, 8, 0x7f, 0x80, 0x80, true },
        { 1, 1, 4, 7, 0, 7, false },
    };
    const struct small *k = &kinds[t == TENSOR_F4E2M1 ? 4 : t - TENSOR_F8E4M3FN];
    uint32_t sign = signbit(f) ? 1u << (k->bits - 1) : 0, code;

    if (isnan(f))
        return k->nan | (k->uz ? 0 : sign);
    if (isinf(f))
        return saturate ? k->most | sign : k->beyond | (k->uz ? 0 : sign);
    code = encode_size(fabs((double)f), k->mbits, k->bias);
    if (code > k->most)
        return saturate ? k->most | sign : k->beyond | (k->uz ? 0 : sign);
    return code || !k->uz ? code | sign : 0;
}

/* The power of two that is not below f. */
static uint32_t encode_power(float f)
{
    int exp;
    double part = frexp((double)fabsf(f), &exp);

    if (isnan(f))
        return 0xff;
    if (isinf(f))
        return 0xfe;
    exp += 127 - (part == 0.5);
    return f == 0 ? 0 : (uint32_t)MIN(MAX(exp, 0), 0xfe);
}

uint32_t f32_to_code(float f, enum tensor_type t, bool saturate)
{
    int bits = tensor_type_bits(t);
    double lo = tensor_type_signed(t) ? -ldexp(1, bits - 1) : 0, hi = lo + ldexp(1, bits) - 1;

    if (t == TENSOR_F8E8M0)
        return encode_power(f);
    if (tensor_type_float(t))
        return encode_small(f, t, saturate);
    if (isnan(f))
        return 0;
    return (uint32_t)(int32_t)MIN(MAX(nearbyint((double)f), lo), hi) & ((1u << bits) - 1);
}

void tensor_put_code(void *data, enum tensor_type t, int64_t i, uint32_t code)
{
    int bits = tensor_type_bits(t), per = 8 / bits, at = (int)(i % per) * bits;
    uint8_t *byte = (uint8_t *)data + i / per;

    *byte = (uint8_t)((*byte & ~(((1u << bits) - 1) << at)) | code << at);
}

/* Element i of fewer than 8 bits. */
static uint32_t packed_bits(const struct tensor *t, int64_t i, int bits)
{
    int per = 8 / bits;
    uint8_t byte = ((const uint8_t *)t->data)[i / per];

    return byte >> (i % per * bits) & ((1u << bits) - 1);
}

#define LOAD(type, var, t, i) \
    type var;                 \
    memcpy(&var, (const uint8_t *)(t)->data + (size_t)(i) * sizeof(var), sizeof(var))

int64_t tensor_int(const struct tensor *t, int64_t i)
{
    assert(i >= 0 && i < t->count);
    switch (t->type) {
    case TENSOR_U8:
    case TENSOR_BOOL:
        return ((const uint8_t *)t->data)[i];
    case TENSOR_I8:
        return ((const int8_t *)t->data)[i];
    case TENSOR_U16: {
        LOAD(uint16_t, v, t, i);
        return v;
    }
    case TENSOR_I16: {
        LOAD(int16_t, v, t, i);
        return v;
    }
    case TENSOR_I32: {
        LOAD(int32_t, v, t, i);
        return v;
    }
    case TENSOR_U32: {
        LOAD(uint32_t, v, t, i);
        return v;
    }
    case TENSOR_I64: {
        LOAD(int64_t, v, t, i);
        return v;
    }
    case TENSOR_U64: {
        LOAD(uint64_t, v, t, i);
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    case TENSOR_U4:
        return packed_bits(t, i, 4);
    case TENSOR_U2:
        return packed_bits(t, i, 2);
    case TENSOR_I4:
        return (int64_t)(packed_bits(t, i, 4) ^ 8) - 8;
    case TENSOR_I2:
        return (int64_t)(packed_bits(t, i, 2) ^ 2) - 2;
    default: {
        double v = tensor_float(t, i);

        if (isnan(v))
            return 0;
        if (v >= 0x1p63)
            return INT64_MAX;
        return v < -0x1p63 ? INT64_MIN : (int64_t)v;
    }
    }
}

double tensor_float(const struct tensor *t, int64_t i)
{
    assert(i >= 0 && i < t->count);
    switch (t->type) {
    case TENSOR_F32: {
        LOAD(float, v, t, i);
        return v;
    }
    case TENSOR_F64: {
        LOAD(double, v, t, i);
        return v;
    }
    case TENSOR_C64: {
        LOAD(float, v, t, 2 * i);
        return v;
    }
    case TENSOR_C128: {
        LOAD(double, v, t, 2 * i);
        return v;
    }
    case TENSOR_F16: {
        LOAD(uint16_t, v, t, i);
        return f16_to_f32(v);
    }
    case TENSOR_BF16: {
        LOAD(uint16_t, v, t, i);
        uint32_t bits = (uint32_t)v << 16;
        float f;

        memcpy(&f, &bits, sizeof(f));
        return f;
    }
    case TENSOR_F8E4M3FN:
    case TENSOR_F8E4M3FNUZ:
    case TENSOR_F8E5M2:
    case TENSOR_F8E5M2FNUZ:
    case TENSOR_F8E8M0:
        return decode_f8(t->type, ((const uint8_t *)t->data)[i]);
    case TENSOR_F4E2M1:
        return decode_f8(t->type, (uint8_t)packed_bits(t, i, 4));
    case TENSOR_U64: {
        LOAD(uint64_t, v, t, i);
        return (double)v;
    }
    case TENSOR_NONE:
    case TENSOR_STRING:
        return 0;
    default:
        return (double)tensor_int(t, i);
    }
}

void tensor_read_f32(const struct tensor *t, int64_t first, int64_t n, float *out)
{
    assert(first >= 0 && n >= 0 && first <= t->count && n <= t->count - first);
    if (n == 0)
        return;
    if (t->type == TENSOR_F32) {
        memcpy(out, (const uint8_t *)t->data + (size_t)first * sizeof(*out),
               (size_t)n * sizeof(*out));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)tensor_float(t, first + i);
}
