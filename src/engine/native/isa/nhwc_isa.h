/* nhwc_isa.h -- the inner loops of 8-bit operators on tensors whose channels come last, once per
 * instruction set.
 *
 * A pixel is the unsigned bytes of its channels, filled up to a multiple of NHWC_UNIT; what stands
 * in those beyond is arbitrary. Sums are exact in 32 bits, as in q8_isa.h. */
#ifndef NATIVE_NHWC_ISA_H
#define NATIVE_NHWC_ISA_H

#include "engine/native/isa/isa.h"

#define NHWC_UNIT 16
#define NHWC_PX_MAX 12
#define NHWC_UNITS_MAX 4
/* Channels that loops may take at a time: what is given per channel is filled up to as many. */
#define NHWC_WIDE 64
/* Taps of a depthwise window. */
#define NHWC_TAPS_MAX 255

/* What becomes of a sum: to nearest(sum * scale + shift) + zero, within lo .. hi. What is rounded
 * is less than 2^31. */
struct nhwc_end {
    int32_t zero;
    uint8_t lo, hi;
};

/* Two bytes a and b: to nearest((b - b_flip) * b_scale + ((a - a_flip) * a_scale + offset)) + flip,
 * within lo .. hi; a flip is 128 for signed bytes. */
struct nhwc_add {
    float a_scale, b_scale, offset;
    float a_flip, b_flip;
    bool swapped; /* the residual of a tile is a, not b */
    int32_t flip;
    uint8_t lo, hi;
};

/* Some pixels by some units of output channels. Pixel i's window begins at in + px[i]; tap t's k4
 * groups of four bytes are tap[t] bytes further on. Weights, init, less, scale and shift are in the
 * order that nhwc_isa.place() says. */
struct nhwc_tile {
    const uint8_t *in;
    const int32_t *px, *tap;
    int64_t taps, k4;
    const uint8_t *w;
    const int32_t *init; /* sums begin with it */
    const int32_t *less; /* what a window's bytes count besides, or NULL */
    const int32_t *sum;  /* the sum of the bytes in each pixel's window, if there is less */
    const float *scale, *shift;
    uint8_t *out;
    int64_t pitch; /* of out, from pixel to pixel */
    struct nhwc_end end;
    const struct nhwc_add *add; /* what the result and the residual become, or NULL */
    const uint8_t *residual;    /* as out */
};
typedef void nhwc_tile_fn(const struct nhwc_tile *t);

/* A row of n output pixels of a depthwise convolution: output pixel i, tap (r, k) reads pixel
 * first + i * step + k * dilation of row[r], which is the byte `zero` where that is not 0 .. width
 * - 1. */
struct nhwc_depthwise {
    const uint8_t *const *row;
    int rows, taps;
    int64_t first, step, dilation, width, n;
    int64_t pitch; /* of all rows */
    const uint8_t *w;
    const int32_t *init, *less; /* as a tile's */
    const float *scale, *shift;
    uint8_t *out;
    struct nhwc_end end;
    uint8_t zero;
    uint8_t *room; /* nhwc_isa.room() bytes */
};

struct q8_block;

struct nhwc_isa {
    const char *name;
    int units;              /* of output channels in the widest tile */
    int px[NHWC_UNITS_MAX]; /* of a tile, by units - 1 */
    nhwc_tile_fn *tile[NHWC_UNITS_MAX][NHWC_PX_MAX];
    int lane_bytes; /* of four packed weights: a group's take that many for each channel */
    /* Where a tile of that many units has a channel. */
    int (*place)(int units, int channel);
    /* One group of a tile: four weights for each of its places. */
    void (*put)(uint8_t *group, int places, const int8_t *four);
    /* Depthwise, for a pitch: bytes of weights; weight (r, k) of a channel; where init and scale
     * have it; bytes of room. */
    int64_t (*bytes)(int64_t pitch, int rows, int taps);
    void (*put_tap)(uint8_t *w, int64_t pitch, int rows, int taps, int64_t channel, int r, int k,
                    int16_t v);
    bool deep; /* it takes weights of more than 8 bits: less their zero points */
    int64_t (*place_wide)(int64_t pitch, int64_t channel);
    int64_t (*room)(int rows, int taps, int64_t step, int64_t dilation);
    void (*depthwise)(const struct nhwc_depthwise *d);
    /* sum[i] for a tile's pixels: of the bytes of each tap where `mask` is 255 and not 0. bytes, a
     * multiple of NHWC_UNIT, are read. */
    void (*window_sums)(int32_t *sum, int64_t n, const uint8_t *in, const int32_t *px,
                        const int32_t *tap, int64_t taps, const uint8_t *mask, int64_t bytes);
    /* n bytes, a multiple of NHWC_UNIT */
    void (*add)(uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t n,
                const struct nhwc_add *p);
    /* The largest of each of n bytes (as above) of rows x cols pixels, that are so far apart. */
    void (*largest)(uint8_t *out, const uint8_t *in, int64_t n, int64_t rows, int64_t row,
                    int64_t cols, int64_t col);
    /* The sums of the first NHWC_UNIT bytes of n pixels. */
    void (*sum)(int32_t *sum, const uint8_t *in, int64_t n, int64_t pitch);
    /* Tiles of more pixels at a time, or NULL: the following are there only with it. Its sums, of
     * Q8_BLOCK_COLUMNS a pixel in the order of places, do not begin with init. */
    const struct q8_block *block;
    /* What becomes of those of m pixels, by units - 1. */
    void (*end[NHWC_UNITS_MAX])(const struct nhwc_tile *t, int m, const int32_t *sums);
    /* out[i * rs + ...] = what n pixels' windows read: `bytes` of each tap, one tap after the
     * other. */
    void (*windows)(uint8_t *out, int64_t rs, int64_t n, const uint8_t *in, const int32_t *px,
                    const int32_t *tap, int64_t taps, int64_t bytes);
};

extern const struct nhwc_isa nhwc_c, nhwc_avx2, nhwc_vnni, nhwc_amx, nhwc_neon, nhwc_dotprod,
    nhwc_i8mm;

#endif
