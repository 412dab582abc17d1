/* fuse_q8_int.h -- what fuse_q8.c and fuse_q8_move.c share. */
#ifndef NATIVE_FUSE_Q8_INT_H
#define NATIVE_FUSE_Q8_INT_H

#include "engine/native/rewrite/fuse_int.h"

#define Q8_GONE_MAX 40

/* A chain that is being looked at: from `main` to `last`, whose output the fused operator gives. */
struct q8_chain {
    struct fuser *f;
    struct op *main;
    struct op *last;
    uint32_t y_scale, y_zero; /* of the result; NO_VALUE where left out */
    struct post post[POST_MAX];
    int npost;
    struct op *gone[Q8_GONE_MAX];
    int ngone;
};

struct q8_chain q8_chain_of(struct fuser *f, struct op *op);
/* QuantizeLinear or DequantizeLinear. */
bool q8_is(const struct op *op, const char *type);
/* The DequantizeLinear that makes a value from one of 8 or 32 bits, with constant scale and zero
 * point; NULL if there is none. */
struct op *q8_dequantizer(const struct fuser *f, uint32_t v);
bool q8_of_8_bits(const struct fuser *f, const struct op *d);
bool q8_per_tensor(const struct op *d);
uint32_t q8_slot(const struct op *op, uint32_t i);
/* A QuantizeLinear by one constant scale to 8 bits. */
bool q8_quantizes(const struct op *q);
/* The QuantizeLinear that the chain ends with, behind activations that only narrow the range if
 * `clamps`; NULL: it does not. */
struct op *q8_quantizer(struct q8_chain *c, bool clamps);
/* The zero point of a QuantizeLinear; NO_VALUE: none, and the result is unsigned. OPM_ENOMEM. */
int q8_zero_slot(struct fuser *f, const struct op *q, uint32_t *out);
/* A DequantizeLinear is covered by the one that reads it alone. */
void q8_drop(struct q8_chain *c, struct op *d);
/* OPM_ENOMEM. */
int q8_become(struct q8_chain *c, const struct kernel *k, const char *type, const uint32_t *in,
              uint32_t nin);

/* fuse_q8_move.c: who reads an Identity of a constant or of a dequantized value reads that. */
void q8_skip_identities(struct fuser *f);
/* ReduceMean over exactly the spatial dimensions. */
bool q8_is_mean(const struct fuser *f, const struct op *op);
/* MaxPool of bytes. */
int fuse_q8_max(struct fuser *f, struct op *op);
/* It only moves elements, or picks some. */
bool q8_moves(const struct op *op);
int fuse_q8_move(struct fuser *f, struct op *op);
/* Reshape, Transpose, Reshape of bytes that shuffle channels. */
int fuse_q8_shuffles(struct fuser *f);

/* fuse_blocks.c: a product by constants that are scaled in blocks. */
int fuse_q8_blocks(struct fuser *f, struct op *op);

#endif
