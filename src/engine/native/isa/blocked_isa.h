/* blocked_isa.h -- inner loops on channel-blocked tensors, once per instruction set.
 *
 * A blocked tensor N x C x H x W lies in memory as N x (C / b, rounded up) x H x W x b floats, b
 * being the instruction set's block: a "pixel" is one vector of b channels. What stands in the
 * channels beyond C is arbitrary; nobody may let it reach the others. */
#ifndef NATIVE_BLOCKED_ISA_H
#define NATIVE_BLOCKED_ISA_H

#include "base/common.h"

/* Distance between the pixels that a tile reads, in floats. */
enum blk_step {
    STEP_BLOCK,  /* one block */
    STEP_BLOCK2, /* two: stride 2 */
    STEP_1,      /* a plain tensor */
    STEP_2,      /* a plain tensor, stride 2 */
    STEP_ANY,    /* blk_tile.step */
    STEP_N,
};

/* The product of `px` neighbouring pixels by one or two blocks of output channels:
 * out[o][p] = init[o] + the sum over steps s and i < run of w[o][s][i] * in[p][off[s] + i], then
 * + add[o][p], then limited to lo .. hi. */
struct blk_tile {
    const float *in, *w;
    int64_t step;       /* of STEP_ANY */
    int64_t w_block;    /* floats from one block of output channels to the next */
    const int64_t *off; /* by step; the weights of a step follow those of the one before */
    int64_t steps, tail_steps;
    int64_t run, tail_run; /* of the first steps, of the tail_steps after them */
    float *out;
    int64_t out_block;
    const float *init; /* a block for each, or NULL: zeros */
    const float *add;  /* like out, or NULL */
    bool limit;
    float lo, hi;
};
typedef void blk_tile_fn(const struct blk_tile *t);

/* What follows on an output vector of a depthwise row or a Winograd tile. */
struct blk_end {
    const float *add; /* at the place of the output, or NULL */
    bool limit;
    float lo, hi;
};

/* Besides enum isa_binary: a where it is not negative, else a * b. */
#define BLK_PRELU 100

enum blk_pool { BLK_MAX, BLK_SUM };

#define BLK_PX_MAX 14

struct blk {
    int block;
    int px;                                   /* widest tile; <= BLK_PX_MAX */
    blk_tile_fn *tile[STEP_N][2][BLK_PX_MAX]; /* by blocks - 1, pixels - 1 */
    /* n pixels of one block: out = bias + the sum over rows r and taps k of
     * w[(wrow[r] + k) blocks] * row[r] at pixel i * step + k * dilation, all of which exist. */
    void (*depthwise)(float *out, int64_t n, const float *const *row, const float *const *w,
                      int rows, int taps, int64_t step, int64_t dilation, const float *bias,
                      const struct blk_end *end);
    /* n pixels: the maximum, or scale times the sum, over rows and taps, all of which exist. */
    void (*pool)(enum blk_pool what, float *out, int64_t n, const float *const *row, int rows,
                 int taps, int64_t step, int64_t dilation, float scale);
    void (*mean)(float *out, const float *in, int64_t n);
    /* n pixels of `channels` <= block planes that are `plane` floats apart, to a blocked row and
     * back. Channels beyond are filled with zeros, and not written. */
    void (*pack)(float *out, const float *in, int64_t plane, int channels, int64_t n);
    void (*unpack)(float *out, const float *in, int64_t plane, int channels, int64_t n);
    /* Winograd F(4x4, 3x3): 3 x 3 taps of `channels` <= block output channels, `channel` floats
     * apart, to 36 vectors `gap` floats apart; 6 x 6 pixels, rows `pitch` floats apart, to 36
     * vectors `gap` floats apart; and 36 vectors to 4 x 4 pixels, of which rows x cols are stored.
     */
    void (*wino_weights)(float *u, int64_t gap, const float *w, int64_t channel, int channels);
    void (*wino_in)(float *v, int64_t gap, const float *in, int64_t pitch);
    void (*wino_out)(float *out, int64_t pitch, int rows, int cols, const float *m, int64_t gap,
                     const float *bias, const struct blk_end *end);
    /* out = a (+, -, *, ...) b, each b either a pixel for each one of a, or (once) one for all. */
    void (*binary)(int f, float *out, const float *a, const float *b, bool a_once, bool b_once,
                   int64_t n);
    /* n pixels, `lanes` channels of each; lanes < block. */
    void (*lanes)(float *out, const float *in, int lanes, int64_t n);
    /* Pixel i of in is added to pixel i * step of out. */
    void (*strew)(float *out, int64_t step, const float *in, int64_t n);
    /* out = in * scale + shift, a block each */
    void (*affine)(float *out, const float *in, const float *scale, const float *shift, int64_t n);
    /* out = wa * a + wb * b */
    void (*mix)(float *out, const float *a, const float *b, float wa, float wb, int64_t n);
};

#endif
