/* q8_isa.h -- the inner loops of 8-bit arithmetic, once per instruction set.
 *
 * Products are sums over groups of four bytes, unsigned times signed, exact in 32 bits (wrapping
 * around as the standard's integers do). One operand comes as vectors: for each group and each
 * column the four bytes together; the other as rows whose groups are broadcast. */
#ifndef NATIVE_Q8_ISA_H
#define NATIVE_Q8_ISA_H

#include "engine/native/isa/isa.h"

#define Q8_BEYOND 128

/* How 32-bit sums become results: (sum + add) * scale + shift, then for bytes: to nearest (ties to
 * even) + zero, kept in lo .. hi. Steps are 0 (the same for all) or 1. */
struct q8_out {
    const int32_t *add;
    const float *scale;
    const float *shift; /* goes by add_step; NULL: nothing. Of to_bytes() and to_floats() alone. */
    int add_step, scale_step;
    int32_t lo, hi, zero;
};

/* What becomes of the sums of a tile, whose columns have what `as` says: kept as they are (and add
 * alone joins them), as floats, or as bytes. */
enum q8_kind { Q8_INT32, Q8_FLOAT, Q8_BYTES };
struct q8_end {
    enum q8_kind kind;
    struct q8_out as;       /* steps of add and shift are 1 */
    const int32_t *b_zero;  /* of each column, less times row_sum of its row; NULL: none */
    const int32_t *row_sum; /* of each row */
    void *out;              /* rows of ldo elements */
    int64_t ldo;
};

/* Two operands, element by element. Sum: a * a_scale + b * b_scale + offset; product:
 * (a - a_zero) * (b - b_zero) * a_scale + offset; then to nearest, kept in lo .. hi. */
struct q8_pair {
    bool a_signed, b_signed, product;
    int a_step, b_step; /* 0 or 1 */
    int32_t a_zero, b_zero, lo, hi;
    float a_scale, b_scale, offset;
};

/* Products in tiles that are registers of their own. They are a thread's from its first tile() on
 * until end(), in between which they stay as *state has them: 0 before the first. */
struct q8_block {
    int rows; /* of a block, at most */
    /* c[m x Q8_BLOCK_COLUMNS], of which the first n columns count, = sums over k4 groups: signed
     * vectors as packed, group after group at panel, so many bytes apart; row i's unsigned bytes at
     * row + i * rs. Bytes of up to Q8_BLOCK_BEYOND after the panel are read, whatever they are. */
    void (*tile)(int *state, int m, int n, int64_t k4, const uint8_t *panel, int64_t group,
                 const uint8_t *row, int64_t rs, int32_t *c);
    void (*end)(int *state);
};
#define Q8_BLOCK_ROWS 32
#define Q8_BLOCK_COLUMNS 64
#define Q8_BLOCK_BEYOND 4096

struct q8_isa {
    const char *name;
    int mr, nr; /* rows and columns of a tile */
    /* c[m x nr], of which the first n columns count, = sums over k4 groups: vectors at vec +
     * off[k], row i's bytes at row + i * rs + k * ks. In tile_uv the vectors are unsigned and the
     * rows signed, in tile_sv the other way round. */
    void (*tile_uv)(int m, int n, int64_t k4, const int32_t *off, const uint8_t *vec,
                    const uint8_t *row, int64_t rs, int64_t ks, int32_t *c);
    void (*tile_sv)(int m, int n, int64_t k4, const int32_t *off, const uint8_t *vec,
                    const uint8_t *row, int64_t rs, int64_t ks, int32_t *c);
    /* tile_uv, and row i's sums as bytes at out + i * os, by o->add[i] and o->scale[i]; whole
     * vectors are written. */
    void (*tile_bytes)(int m, int n, int64_t k4, const int32_t *off, const uint8_t *vec,
                       const uint8_t *row, int64_t rs, int64_t ks, uint8_t *out, int64_t os,
                       const struct q8_out *o);
    /* out[4 * i + j] = in[j][i] ^ flip; a NULL row counts as zeros. */
    void (*interleave)(uint8_t *out, const uint8_t *const *in, int64_t n, uint8_t flip);
    /* Rows of n sums, pitch apart and whole vectors long. */
    void (*end)(const struct q8_end *e, int rows, int64_t n, const int32_t *sum, int64_t pitch);
    void (*to_bytes)(uint8_t *out, const int32_t *in, int64_t n, const struct q8_out *o);
    void (*to_floats)(float *out, const int32_t *in, int64_t n, const struct q8_out *o);
    /* acc[i] += by * with[i * step] */
    void (*add_scaled)(int32_t *acc, const int32_t *with, int step, int32_t by, int64_t n);
    int32_t (*sum)(const uint8_t *in, int64_t n);
    void (*range)(const float *in, int64_t n, float *lo, float *hi); /* widens lo .. hi */
    /* in / scale to nearest + zero, within lo .. hi. */
    void (*quantize)(uint8_t *out, const float *in, int64_t n, float scale, int32_t zero,
                     int32_t lo, int32_t hi);
    /* (in - zero) * scale */
    void (*dequantize)(float *out, const uint8_t *in, bool is_signed, int64_t n, float scale,
                       int32_t zero);
    /* out[i] = the larger of out[i] and in[i] ^ flip */
    void (*largest)(uint8_t *out, const uint8_t *in, int64_t n, uint8_t flip);
    void (*pair)(uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t n,
                 const struct q8_pair *p);
    /* out[i] = table[in[i]]; out may be in */
    void (*lookup)(uint8_t *out, const uint8_t *in, int64_t n, const uint8_t *table);
    /* One row of one channel: out[i] = sum over rows r and groups g of taps of
     * row[r][i * step + 4 * g + t] * w[(r * groups + g) * 4 + t], t = 0..3; step is 1 to 4. Up to
     * Q8_BEYOND bytes after the last that counts are read. */
    void (*depthwise)(int32_t *out, int64_t n, const uint8_t *const *row, int rows, int groups,
                      int step, const int8_t *w);
    const struct q8_block *block; /* NULL: none */
};

extern const struct q8_isa q8_c, q8_avx2, q8_vnni, q8_amx, q8_neon, q8_dotprod, q8_i8mm;
extern const struct q8_block q8_block_amx;
/* Whether this process may use what q8_amx does: its processor has it, and its system lets it. */
bool q8_amx_allowed(void);

#endif
