/* sketch.c -- see sketch.h. */
#include "base/sketch.h"

#include "base/alloc.h"
#include "base/rd.h"
#include <opmeter/opmeter_error.h>

#include <math.h>
#include <string.h>

#define FORM 1          /* of the bytes; also says what factor buckets have */
#define INDEX_MAX 4400u /* beyond 10^18 */
#define FACTOR ((1 + SKETCH_ERROR) / (1 - SKETCH_ERROR))

void sketch_release(struct sketch *s)
{
    mem_free(s->bucket);
    *s = (struct sketch){ 0 };
}

/* Bucket i > 0 holds what is above FACTOR^(i-2) and at most FACTOR^(i-1); 1 itself is in 1. */
uint32_t sketch_bucket_of(double value)
{
    double i;

    if (value < 1)
        return 0;
    i = ceil(log(value) / log(FACTOR)) + 1;
    return i < INDEX_MAX ? (uint32_t)i : INDEX_MAX;
}

/* The value that is nearest to both bounds, as shares of them. */
static double value_of(uint32_t index)
{
    return index == 0 ? 0 : 2 * pow(FACTOR, (double)index - 1) / (FACTOR + 1);
}

int sketch_add_count(struct sketch *s, uint32_t index, uint64_t count)
{
    size_t low = 0, high = s->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (s->bucket[mid].index < index)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == s->n || s->bucket[low].index != index) {
        if (!GROW(s->bucket, s->cap, s->n + 1))
            return OPM_ENOMEM;
        memmove(s->bucket + low + 1, s->bucket + low, (s->n - low) * sizeof(*s->bucket));
        s->bucket[low] = (struct sketch_bucket){ index, 0 };
        s->n++;
    }
    s->bucket[low].count += count;
    s->count += count;
    return 0;
}

int sketch_add(struct sketch *s, double value)
{
    return isnan(value) ? 0 : sketch_add_count(s, sketch_bucket_of(value), 1);
}

int sketch_merge(struct sketch *to, const struct sketch *from)
{
    int rc = 0;

    for (size_t i = 0; i < from->n && rc == 0; i++)
        rc = sketch_add_count(to, from->bucket[i].index, from->bucket[i].count);
    return rc;
}

double sketch_quantile(const struct sketch *s, double q)
{
    double at = floor(q * (double)(s->count ? s->count - 1 : 0));
    double before = 0;

    for (size_t i = 0; i < s->n; i++) {
        before += (double)s->bucket[i].count;
        if (before > at)
            return value_of(s->bucket[i].index);
    }
    return s->n ? value_of(s->bucket[s->n - 1].index) : (double)NAN;
}

void sketch_write(const struct sketch *s, struct buf *out)
{
    uint32_t before = 0;

    buf_addc(out, FORM);
    for (size_t i = 0; i < s->n; i++) {
        buf_add_varint(out, s->bucket[i].index - before);
        buf_add_varint(out, s->bucket[i].count);
        before = s->bucket[i].index;
    }
}

int sketch_read(struct sketch *s, const void *bytes, size_t len)
{
    struct rd r = rd_of(bytes, len);
    uint64_t index = 0;
    int rc = len && rd_u8(&r) == FORM ? 0 : OPM_EFORMAT;

    sketch_release(s);
    for (size_t i = 0; rc == 0 && rd_left(&r); i++) {
        uint64_t step = rd_varint(&r), count = rd_varint(&r);

        /* Counts are kept small enough for a sum of all buckets to fit. */
        if (r.bad || step > INDEX_MAX || (i && !step) || !count || count > UINT64_MAX >> 13)
            rc = OPM_EFORMAT;
        index += step;
        if (rc == 0)
            rc = index > INDEX_MAX ? OPM_EFORMAT : sketch_add_count(s, (uint32_t)index, count);
    }
    if (rc < 0)
        sketch_release(s);
    return rc;
}

void sketch_write_hex(const struct sketch *s, struct buf *out)
{
    struct buf bytes = { 0 };

    sketch_write(s, &bytes);
    for (size_t i = 0; i < bytes.len; i++)
        buf_addf(out, "%02x", (uint8_t)bytes.data[i]);
    out->failed |= bytes.failed;
    buf_release(&bytes);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sketch_read_hex(struct sketch *s, const char *text)
{
    struct buf bytes = { 0 };
    size_t len = strlen(text);
    int rc = len % 2 ? OPM_EFORMAT : 0;

    for (size_t i = 0; i + 1 < len && rc == 0; i += 2) {
        int high = digit_of(text[i]), low = digit_of(text[i + 1]);

        rc = high < 0 || low < 0 ? OPM_EFORMAT : 0;
        buf_addc(&bytes, (char)(high * 16 + low));
    }
    if (rc == 0)
        rc = bytes.failed ? OPM_ENOMEM : sketch_read(s, bytes.data, bytes.len);
    buf_release(&bytes);
    if (rc < 0)
        sketch_release(s);
    return rc;
}
