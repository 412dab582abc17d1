/* blocked_conv.h -- Conv on channel-blocked tensors: what its three algorithms share. */
#ifndef NATIVE_BLOCKED_CONV_H
#define NATIVE_BLOCKED_CONV_H

#include "engine/native/op/conv.h"

enum blk_algorithm { BLK_DIRECT, BLK_DEPTHWISE, BLK_WINOGRAD };

/* What follows an output: an addition and limits while it is in registers, other posts on the
 * tile in the cache. */
struct blk_ending {
    struct posts posts;
    struct blk_end end; /* add: of the first output element */
    int rest;           /* first post that is not in `end` */
};
void blk_ending_begin(struct blk_ending *e, const struct op *op);
/* The other posts on n floats at out + at. */
void blk_ending_rest(const struct blk_ending *e, float *out, int64_t at, int64_t n);

/* Rows of the output, or all of it as one row where nothing depends on rows. */
struct blk_direct {
    int64_t rows, width;
    bool flat;
    bool padded;         /* goes through a copy with its borders filled with zeros */
    int64_t pitch;       /* pixels of an input row, of the copy if there is one */
    int64_t chunk;       /* output rows, or pixels of a flat one, at a time */
    int64_t copy_rows;   /* input rows of a chunk */
    int64_t block_pitch; /* floats from one input block (plain: channel) to the next */
    int64_t copy_floats; /* of one thread's copy */
    int64_t *off;        /* by step */
    int64_t steps, tail_steps, run, tail_run;
    int64_t chunks, split; /* split: of output blocks between threads */
};

struct blk_wino {
    int64_t th, tw, tiles; /* of an image: high, wide; of all */
    int64_t chunk, chunks; /* tiles at a time */
    bool together;         /* all threads on one chunk */
    int64_t *off;
};

struct blk_conv {
    struct conv c;
    enum blk_algorithm algorithm;
    bool plain;               /* the input is not blocked */
    int64_t groups, icg, ocg; /* as computed: small groups are joined to whole blocks */
    int64_t icb, ocb;         /* blocks of a group */
    float *weights, *bias;    /* in the order of use; bias padded to whole blocks */
    enum blk_algorithm packed_for;
    int64_t w_block; /* floats of weights for an output block */
    struct blk_direct d;
    struct blk_wino w;
};

/* Can the convolution with these weights and attributes be done on blocked tensors? */
bool blk_conv_fits(const struct op *op, const struct shape *weights, int block);
/* Reads its input plain: too few channels to be worth blocking. */
bool blk_conv_plain(const struct op *op, const struct shape *weights);

/* blocked_winograd.c */
bool wino_wins(const struct op *op, const struct blk_conv *b);
int wino_prepare(struct op *op, struct blk_conv *b, opm_error *err);
void wino_pack(const struct op *op, const struct blk_conv *b, const float *w);
void wino_run(struct op *op, struct blk_conv *b);

#endif
