/* sketch.h -- quantiles of many values in little room, which can be merged.
 *
 * Counts of values in buckets whose bounds grow by the same factor, so that a quantile is within
 * SKETCH_ERROR of the value at that rank, whatever the values. The sketch of two sets together is
 * the sum of their sketches, exactly: parts of a job or runs of a day merge in any order. Values
 * are at least 1, as ns are; what is below counts as 0.
 *
 * `struct sketch s = {0}` is empty; release it in any case. */
#ifndef BASE_SKETCH_H
#define BASE_SKETCH_H

#include "base/buf.h"

#define SKETCH_ERROR 0.005 /* of a quantile, relative */

struct sketch_bucket {
    uint32_t index; /* 0: values below 1 */
    uint64_t count;
};

struct sketch {
    struct sketch_bucket *bucket; /* by index, no count is 0 */
    size_t n, cap;
    uint64_t count; /* of all */
};

void sketch_release(struct sketch *s);
/* 0 or OPM_ENOMEM. What is no number is not counted. */
int sketch_add(struct sketch *s, double value);
/* The bucket that a value is counted in, and so many values more in a bucket. */
uint32_t sketch_bucket_of(double value);
int sketch_add_count(struct sketch *s, uint32_t bucket, uint64_t count);
int sketch_merge(struct sketch *to, const struct sketch *from);
/* The quantile q, 0 to 1: the value at position q * (count - 1), rounded down; NAN if it is empty.
 */
double sketch_quantile(const struct sketch *s, double q);

/* As bytes, a few for each bucket, and back: OPM_EFORMAT for what is no sketch, OPM_ENOMEM. */
void sketch_write(const struct sketch *s, struct buf *out);
int sketch_read(struct sketch *s, const void *bytes, size_t len);
/* The same bytes as hexadecimal digits. */
void sketch_write_hex(const struct sketch *s, struct buf *out);
int sketch_read_hex(struct sketch *s, const char *text);

#endif
