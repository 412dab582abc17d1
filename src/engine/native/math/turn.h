/* turn.h -- transpose a few by a few elements: the pieces that packing and transposing are made of.
 */
#ifndef NATIVE_TURN_H
#define NATIVE_TURN_H

#include "base/common.h"
#include "engine/native/isa/shuffle.h"

#include <string.h>

typedef float v4 __attribute__((vector_size(16)));

static inline v4 load4(const char *p)
{
    v4 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Four rows of four floats, `step` bytes apart, as columns `width` floats apart. */
static inline void turn4(float *to, int64_t width, const char *from, int64_t step)
{
    v4 a = load4(from), b = load4(from + step), c = load4(from + 2 * step),
       d = load4(from + 3 * step);
    v4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5),
       ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    v4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5),
       cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    v4 col[4] = { __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5),
                  __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7),
                  __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5),
                  __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7) };

    for (int i = 0; i < 4; i++)
        memcpy(to + i * width, &col[i], sizeof(v4));
}

/* Rows of 16 bytes, as many as they have elements, as columns: row i is interleaved with the one
 * half of them further down, as many times as halving takes. */
#define TURN(name, T, side, lo, hi)                                                \
    typedef T name##_row __attribute__((vector_size(16)));                         \
    static inline void name(T *to, int64_t width, const T *from, int64_t step)     \
    {                                                                              \
        name##_row a[side], b[side];                                               \
        for (int i = 0; i < side; i++)                                             \
            memcpy(&a[i], from + i * step, sizeof(a[i]));                          \
        for (int k = 1; k < side; k *= 2) {                                        \
            for (int i = 0; i < side / 2; i++) {                                   \
                b[2 * i] = __builtin_shufflevector(a[i], a[i + side / 2], lo);     \
                b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + side / 2], hi); \
            }                                                                      \
            memcpy(a, b, sizeof(a));                                               \
        }                                                                          \
        for (int i = 0; i < side; i++)                                             \
            memcpy(to + i * width, &a[i], sizeof(a[i]));                           \
    }
#define TURN_LIST(...) __VA_ARGS__
TURN(turn16_u8, uint8_t, 16, TURN_LIST(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
     TURN_LIST(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
TURN(turn8_u16, uint16_t, 8, TURN_LIST(0, 8, 1, 9, 2, 10, 3, 11),
     TURN_LIST(4, 12, 5, 13, 6, 14, 7, 15))
TURN(turn2_u64, uint64_t, 2, TURN_LIST(0, 2), TURN_LIST(1, 3))

#endif
