/* order.h -- the first ones of a row, by value; equal ones in the order in which they are. NaN is
 * greater than any number, and zeros are equal. */
#ifndef NATIVE_ORDER_H
#define NATIVE_ORDER_H

#include "engine/native/op.h"

/* Bytes that order_first() works in; -1: too many. */
int64_t order_room(int64_t n, int64_t k);
/* Of the n < 2^32 numbers x[i * step], the places of the k <= n first ones, greatest first or
 * smallest first. */
void order_first(const struct isa *isa, enum tensor_type type, const void *x, int64_t step,
                 int64_t n, int64_t k, bool greatest, int64_t *at, void *room);

#endif
