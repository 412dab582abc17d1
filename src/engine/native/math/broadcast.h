/* broadcast.h -- walk several tensors together: numpy's broadcasting, and strided copies. */
#ifndef NATIVE_BROADCAST_H
#define NATIVE_BROADCAST_H

#include "engine/native/op.h"

#define BROADCAST_MAX 3

/* Strides are in elements; neighbouring dimensions that can be walked as one are merged. */
struct broadcast {
    int rank; /* >= 1 */
    int n;
    int64_t dim[SHAPE_RANK_MAX + 1];
    int64_t stride[BROADCAST_MAX][SHAPE_RANK_MAX + 1];
    int64_t total;
};

/* One more shape into out; false if they do not fit. */
bool broadcast_join(struct shape *out, const struct shape *s);
/* in[k] must broadcast to out. */
void broadcast_init(struct broadcast *b, const struct shape *out, const struct nt *const *in,
                    int n);

/* n neighbouring output elements from `at` on; operand k's are at off[k] + i * stride[k]. */
typedef void broadcast_run(void *arg, int64_t at, const int64_t *off, const int64_t *stride,
                           int64_t n);
void broadcast_each(const struct broadcast *b, int64_t begin, int64_t end, broadcast_run *fn,
                    void *arg);

/* n elements of `width` bytes, all of which are *value; it lies elsewhere. */
void fill_with(void *out, const void *value, size_t width, int64_t n);

/* out (contiguous, of dims) from a strided view; offsets and strides in elements of `width` bytes,
 * strides of any sign. */
void strided_copy(struct pool *pool, void *out, const void *in, size_t width, int rank,
                  const int64_t *dim, const int64_t *stride);

#endif
