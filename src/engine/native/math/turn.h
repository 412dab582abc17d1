/* turn.h -- transpose four by four floats: the piece that packing and transposing are made of. */
#ifndef NATIVE_TURN_H
#define NATIVE_TURN_H

#include "base/common.h"

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

#endif
