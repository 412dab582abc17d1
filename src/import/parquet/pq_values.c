/* pq_values.c -- see pq_values.h. */
#include "import/parquet/pq_values.h"

#define BLOCK_MAX (1u << 16) /* differences that share a least one; writers use 128 or so */

/* The number of `width` bits that begins at a bit of bytes before end. */
static inline uint64_t get_bits(const uint8_t *p, const uint8_t *end, size_t bit, unsigned width)
{
    unsigned shift = bit & 7;
    uint64_t word = 0;

    if (!width)
        return 0;
    p += bit >> 3;
    if (LIKELY(end - p >= 8))
        memcpy(&word, p, 8);
    else
        memcpy(&word, p, (size_t)(end - p));
    word >>= shift;
    if (shift + width > 64)
        word |= (uint64_t)p[8] << (64 - shift);
    return width == 64 ? word : word & (((uint64_t)1 << width) - 1);
}

bool pq_hybrid_get(struct rd *r, unsigned width, uint32_t *out, size_t n)
{
    size_t done = 0;

    if (width > 32)
        return false;
    while (done < n) {
        uint64_t head = rd_varint(r), count = head >> 1;

        if (r->bad || !count)
            return false;
        if (head & 1) {
            /* The last group may be cut off behind the last number. */
            size_t k = (size_t)MIN(count, (uint64_t)1 << 28) * 8, take = MIN(k, n - done);
            size_t bytes = MIN(k / 8 * width, rd_left(r));
            const uint8_t *p = rd_bytes(r, bytes);

            if (!p || take * width > bytes * 8)
                return false;
            for (size_t i = 0; i < take; i++)
                out[done + i] = (uint32_t)get_bits(p, p + bytes, i * width, width);
            done += take;
        } else {
            uint32_t v = (uint32_t)rd_le(r, (width + 7) / 8);
            size_t take = (size_t)MIN(count, (uint64_t)(n - done));

            if (r->bad)
                return false;
            for (size_t i = 0; i < take; i++)
                out[done + i] = v;
            done += take;
        }
    }
    return true;
}

/* A part of a block whose differences have the same width; k of them are wanted. */
static bool get_mini(struct rd *r, unsigned width, size_t size, uint64_t least, int64_t *out,
                     size_t k, int64_t *last)
{
    size_t bytes = MIN(size * width / 8, rd_left(r));
    const uint8_t *p = rd_bytes(r, bytes);

    if (!p || width > 64 || k * width > bytes * 8)
        return false;
    for (size_t i = 0; i < k; i++) {
        *last = (int64_t)((uint64_t)*last + least + get_bits(p, p + bytes, i * width, width));
        out[i] = *last;
    }
    return true;
}

bool pq_delta_get(struct rd *r, int64_t *out, size_t n)
{
    uint64_t block = rd_varint(r), minis = rd_varint(r), total = rd_varint(r);
    int64_t last = rd_zigzag(r);
    size_t done = 0, size;

    if (r->bad || total != n || !block || block > BLOCK_MAX || !minis || minis > block ||
        block % minis || block / minis % 8)
        return false;
    size = (size_t)(block / minis);
    if (n)
        out[done++] = last;
    while (done < n) {
        uint64_t least = (uint64_t)rd_zigzag(r);
        const uint8_t *width = rd_bytes(r, (size_t)minis);

        if (!width)
            return false;
        for (size_t m = 0; m < minis && done < n; m++) {
            size_t k = MIN(size, n - done);

            if (!get_mini(r, width[m], size, least, out + done, k, &last))
                return false;
            done += k;
        }
    }
    return true;
}
