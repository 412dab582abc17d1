/* pq_encode.c -- see pq_encode.h. */
#include "export/parquet/pq_encode.h"

#include <string.h>

#define GROUP 8          /* packed numbers come in eights */
#define RUN_MIN 8        /* shorter runs are packed */
#define LITERALS_MAX 504 /* packed ones that one head covers: 63 groups, a head of one byte */
#define BLOCK 128        /* differences that share a least one */
#define MINI 32          /* and of these, so many share a width */

unsigned pq_width(uint64_t max)
{
    return max ? 64 - (unsigned)__builtin_clzll(max) : 0;
}

/* Put v, of `width` bits, at a bit of zeroed bytes, with nine to spare. */
static inline void put_bits(uint8_t *p, size_t bit, uint64_t v, unsigned width)
{
    unsigned shift = bit & 7;
    uint64_t word;

    p += bit >> 3;
    memcpy(&word, p, 8);
    word |= v << shift;
    memcpy(p, &word, 8);
    if (shift + width > 64)
        p[8] |= (uint8_t)(v >> (64 - shift));
}

/* Packed numbers, filled up with zeros. */
static void put_literals(struct buf *out, const uint32_t *v, size_t n, unsigned width)
{
    uint8_t raw[LITERALS_MAX * 4 + 16] = { 0 };
    size_t groups = (n + GROUP - 1) / GROUP;

    if (!n)
        return;
    for (size_t i = 0; i < n; i++)
        put_bits(raw, i * width, v[i], width);
    buf_add_varint(out, groups << 1 | 1);
    buf_add(out, raw, groups * width);
}

static void put_run(struct buf *out, uint32_t v, size_t n, unsigned width)
{
    uint8_t raw[4];

    memcpy(raw, &v, 4);
    buf_add_varint(out, (uint64_t)n << 1);
    buf_add(out, raw, (width + 7) / 8);
}

void pq_hybrid(struct buf *out, const uint32_t *v, size_t n, unsigned width)
{
    size_t from = 0; /* of what waits to be packed */

    for (size_t i = 0; i < n;) {
        size_t run = 1, fill;

        while (i + run < n && v[i + run] == v[i])
            run++;
        fill = (GROUP - (i - from) % GROUP) % GROUP;
        if (run < RUN_MIN + fill) {
            i += run;
        } else {
            put_literals(out, v + from, i + fill - from, width);
            put_run(out, v[i], run - fill, width);
            i += run;
            from = i;
        }
        for (; i - from >= LITERALS_MAX; from += LITERALS_MAX)
            put_literals(out, v + from, LITERALS_MAX, width);
    }
    put_literals(out, v + from, n - from, width);
}

static void put_block(struct buf *out, const uint64_t *delta, size_t n)
{
    uint8_t raw[MINI * 8 + 16], width[BLOCK / MINI] = { 0 };
    int64_t least = (int64_t)delta[0];

    for (size_t i = 1; i < n; i++)
        least = MIN(least, (int64_t)delta[i]);
    for (size_t i = 0; i < n; i++)
        width[i / MINI] = /* bounded: n is at most a block */
            (uint8_t)MAX(width[i / MINI], pq_width(delta[i] - (uint64_t)least));
    buf_add_zigzag(out, least);
    buf_add(out, width, sizeof(width));
    for (size_t m = 0; m * MINI < n; m++) {
        memset(raw, 0, sizeof(raw));
        for (size_t i = m * MINI; i < MIN(n, (m + 1) * MINI); i++)
            put_bits(raw, (i % MINI) * width[m], delta[i] - (uint64_t)least, width[m]);
        buf_add(out, raw, (size_t)MINI / 8 * width[m]);
    }
}

void pq_delta(struct buf *out, const int64_t *v, size_t n)
{
    uint64_t delta[BLOCK];
    size_t waiting = 0;

    buf_add_varint(out, BLOCK);
    buf_add_varint(out, BLOCK / MINI);
    buf_add_varint(out, n);
    buf_add_zigzag(out, v[0]);
    for (size_t i = 1; i < n; i++) {
        delta[waiting++] = (uint64_t)v[i] - (uint64_t)v[i - 1];
        if (waiting == BLOCK) {
            put_block(out, delta, waiting);
            waiting = 0;
        }
    }
    if (waiting)
        put_block(out, delta, waiting);
}
