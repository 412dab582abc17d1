/* nhwc_isa.h -- the inner loops of 8-bit operators on tensors whose channels come last, once per
 * instruction set.
 *
 * A pixel is the unsigned bytes of its channels, filled up to a multiple of NHWC_UNIT; what stands
 * in those beyond is arbitrary. Sums are exact in 32 bits, as in q8_isa.h. */
#ifndef NATIVE_NHWC_ISA_H
#define NATIVE_NHWC_ISA_H

#include "engine/native/isa.h"

#define NHWC_UNIT 16
#define NHWC_PX_MAX 12
#define NHWC_UNITS_MAX 4
/* Channels that loops may take at a time: what is given per channel is filled up to as many. */
#define NHWC_WIDE 64

/* What becomes of a sum: to nearest(sum * scale) + zero, within lo .. hi. |sum * scale| < 2^31. */
struct nhwc_end {
    int32_t zero;
    uint8_t lo, hi;
};

/* Some pixels by some units of output channels. Pixel i's window begins at in + px[i]; tap t's k4
 * groups of four bytes are tap[t] bytes further on. Weights, init and scale are in the order that
 * nhwc_isa.place() says. */
struct nhwc_tile {
    const uint8_t *in;
    const int32_t *px, *tap;
    int64_t taps, k4;
    const uint8_t *w;
    const int32_t *init; /* sums begin with it */
    const float *scale;
    uint8_t *out;
    int64_t pitch; /* of out, from pixel to pixel */
    struct nhwc_end end;
};
typedef void nhwc_tile_fn(const struct nhwc_tile *t);

/* A row of n output pixels of a depthwise convolution: output pixel i, tap (r, k) reads pixel
 * i * step + k * dilation of row[r]. */
struct nhwc_depthwise {
    const uint8_t *const *row;
    int rows, taps;
    int64_t step, dilation, n;
    int64_t pitch; /* of all rows */
    const uint8_t *w;
    const int32_t *init;
    const float *scale;
    uint8_t *out;
    struct nhwc_end end;
    uint8_t *room; /* nhwc_isa.room() bytes */
};

struct nhwc_isa {
    const char *name;
    int units;              /* of output channels in the widest tile */
    int px[NHWC_UNITS_MAX]; /* of a tile, by units - 1 */
    nhwc_tile_fn *tile[NHWC_UNITS_MAX][NHWC_PX_MAX];
    int lane_bytes; /* of four packed weights: a group's take that many for each channel */
    /* Where a tile of that many units has a channel. */
    int (*place)(int units, int channel);
    /* Four weights of the channel at a place. */
    void (*put)(uint8_t *group, int place, const int8_t *four);
    /* Depthwise: bytes of weights; weight (r, k) of a channel; where init and scale have it;
     * bytes of room for rows of that many input pixels. */
    int64_t (*bytes)(int64_t channels, int rows, int taps);
    void (*put_tap)(uint8_t *w, int rows, int taps, int64_t channel, int r, int k, int8_t v);
    int64_t (*place_wide)(int64_t channel);
    int64_t (*room)(int rows, int64_t pixels);
    void (*depthwise)(const struct nhwc_depthwise *d);
};

const struct nhwc_isa *nhwc_isa(const struct isa *isa);

#endif
