/* bound.h -- bisection of sorted numbers.
 *
 *     bound_i64(sorted, n, v), bound_u32(sorted, n, v)
 *
 * The first of n rising numbers that is at least v; n if there is none. */
#ifndef BASE_BOUND_H
#define BASE_BOUND_H

#include "base/common.h"

#define BOUND(name, type, value)                                     \
    static inline size_t name(const type *sorted, size_t n, value v) \
    {                                                                \
        size_t lo = 0, hi = n;                                       \
                                                                     \
        while (lo < hi) {                                            \
            size_t mid = lo + (hi - lo) / 2;                         \
                                                                     \
            if (sorted[mid] < v)                                     \
                lo = mid + 1;                                        \
            else                                                     \
                hi = mid;                                            \
        }                                                            \
        return lo;                                                   \
    }
BOUND(bound_i64, int64_t, int64_t)
BOUND(bound_u32, uint32_t, size_t)
#undef BOUND

#endif
