/* blocked_ops.h -- which operators have a channel-blocked form. */
#ifndef NATIVE_BLOCKED_OPS_H
#define NATIVE_BLOCKED_OPS_H

#include "engine/native/op.h"

/* Pooling windows of more rows have none. */
#define BLK_POOL_ROWS 32

/* enum isa_binary or BLK_PRELU; -1: neither */
int blk_binary_of(const struct op *op);

#endif
