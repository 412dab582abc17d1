/* bits.h -- columns of numbers in groups of PACK_GROUP, each with the width that makes it smallest;
 * docs/format.md "Events" is the specification. Header-only, shared by the recorder, the reader and
 * colpack.c. */
#ifndef FORMAT_BITS_H
#define FORMAT_BITS_H

#include "format/pack.h"
#include "format/varint.h"
#include <string.h>

/* The most bytes that bits_put() makes of n values. */
#define BITS_MAX(n) (((n) / PACK_GROUP + 1) * (2 + PACK_GROUP * 8) + 8)

static inline unsigned bits_length(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

/* The width that makes the group smallest: narrower costs two bytes and more per value that sticks
 * out. */
static inline unsigned bits_choose_width(const uint64_t *v, unsigned *out_widest)
{
    uint8_t count[4][65]; /* four, so that equal lengths do not wait for each other */
    unsigned best = 0, best_cost = UINT32_MAX, above = 0;
    uint64_t all = 0;

    for (unsigned i = 0; i < PACK_GROUP; i++)
        all |= v[i];
    *out_widest = bits_length(all);
    if (*out_widest <= 4)
        return *out_widest; /* a bit less for all would save less than it costs to find out */
    memset(count, 0, sizeof(count));
    for (unsigned i = 0; i < PACK_GROUP; i += 4)
        for (unsigned k = 0; k < 4; k++)
            count[k][bits_length(v[i + k])]++; /* bounded: 64 bits at most */
    for (unsigned w = *out_widest;; w--) {
        unsigned cost = w * (PACK_GROUP / 8) + above * 2 + above / 2;

        if (cost < best_cost) {
            best_cost = cost;
            best = w;
        }
        if (!w)
            return best;
        above += count[0][w] + count[1][w] + count[2][w] + count[3][w];
    }
}

/* The low w bits of every value, w at most 56: whole bytes leave the accumulator at every step. */
static inline uint8_t *bits_pack_narrow(uint8_t *out, const uint64_t *v, unsigned w)
{
    uint64_t mask = (1ull << w) - 1, acc = 0;
    unsigned filled = 0;

    for (unsigned i = 0; i < PACK_GROUP; i++) {
        acc |= (v[i] & mask) << filled;
        filled += w;
        memcpy(out, &acc, 8);
        out += filled / 8;
        acc >>= filled & ~7u;
        filled &= 7;
    }
    return out;
}

static inline uint8_t *bits_pack_wide(uint8_t *out, const uint64_t *v, unsigned w)
{
    uint64_t mask = w == 64 ? UINT64_MAX : (1ull << w) - 1, acc = 0;
    unsigned filled = 0;

    for (unsigned i = 0; i < PACK_GROUP; i++) {
        uint64_t low = v[i] & mask;

        acc |= low << filled;
        if (filled + w < 64) {
            filled += w;
            continue;
        }
        memcpy(out, &acc, 8);
        out += 8;
        acc = filled ? low >> (64 - filled) : 0;
        filled = filled + w - 64;
    }
    return out;
}

static inline uint8_t *bits_pack_group(uint8_t *out, const uint64_t *v)
{
    unsigned widest, w = bits_choose_width(v, &widest), nlarge = 0;
    uint8_t *head = out;

    out += 2;
    if (w)
        out = w <= 56 ? bits_pack_narrow(out, v, w) : bits_pack_wide(out, v, w);
    if (w < widest) {
        for (unsigned i = 0; i < PACK_GROUP; i++) {
            if (v[i] >> w) {
                *out++ = (uint8_t)i;
                out = varint_put(out, v[i] >> w);
                nlarge++;
            }
        }
    }
    head[0] = (uint8_t)w;
    head[1] = (uint8_t)nlarge;
    return out;
}

/* Behind what was written; there is room for BITS_MAX(n). v[] has room up to the next multiple of
 * PACK_GROUP, which is set to 0. */
static inline uint8_t *bits_put(uint8_t *out, uint64_t *v, size_t n)
{
    for (size_t i = n; i % PACK_GROUP; i++)
        v[i] = 0;
    for (size_t i = 0; i < n; i += PACK_GROUP)
        out = bits_pack_group(out, v + i);
    return out;
}

static inline uint64_t bits_load(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

/* n values of at most 57 bits: one unaligned load each. `p` has 8 readable bytes behind its end. */
static inline void bits_unpack_narrow(const uint8_t *p, unsigned w, uint64_t *v, size_t n)
{
    uint64_t mask = (1ull << w) - 1;

    for (size_t i = 0; i < n; i++)
        v[i] = bits_load(p + i * w / 8) >> (i * w % 8) & mask;
}

static inline void bits_unpack_wide(const uint8_t *p, unsigned w, uint64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bit = i * w;
        uint64_t x = 0;

        for (unsigned k = 0; k < w;) {
            unsigned in_byte = (unsigned)((bit + k) % 8),
                     take = 8 - in_byte < w - k ? 8 - in_byte : w - k;

            x |= (uint64_t)(p[(bit + k) / 8] >> in_byte & ((1u << take) - 1)) << k;
            k += take;
        }
        v[i] = x;
    }
}

/* Behind the column, or NULL where bits_get() would fail. */
static inline const uint8_t *bits_skip(const uint8_t *p, const uint8_t *end, size_t n)
{
    for (size_t first = 0; first < n; first += PACK_GROUP) {
        unsigned w, nlarge;
        uint64_t high;

        if (end - p < 2 || p[0] > 64)
            return NULL;
        w = *p++;
        nlarge = *p++;
        if ((size_t)(end - p) < (size_t)w * PACK_GROUP / 8)
            return NULL;
        p += (size_t)w * PACK_GROUP / 8;
        for (; nlarge; nlarge--) {
            if (p == end || *p >= PACK_GROUP || w >= 64)
                return NULL;
            p = varint_get(p + 1, end, &high);
            if (!p)
                return NULL;
        }
    }
    return p;
}

/* Behind the column, or NULL if it is damaged. */
static inline const uint8_t *bits_get(const uint8_t *p, const uint8_t *end, uint64_t *v, size_t n)
{
    for (size_t first = 0; first < n; first += PACK_GROUP) {
        size_t count = n - first < PACK_GROUP ? n - first : PACK_GROUP, bytes;
        uint8_t padded[57 * PACK_GROUP / 8 + 8];
        unsigned w, nlarge;

        if (end - p < 2 || p[0] > 64)
            return NULL;
        w = *p++;
        nlarge = *p++;
        bytes = (size_t)w * PACK_GROUP / 8;
        if ((size_t)(end - p) < bytes)
            return NULL;
        if (w > 57) {
            bits_unpack_wide(p, w, v + first, count);
        } else if ((size_t)(end - p) >= bytes + 8) {
            bits_unpack_narrow(p, w, v + first, count);
        } else {
            memset(padded, 0, sizeof(padded));
            memcpy(padded, p, bytes);
            bits_unpack_narrow(padded, w, v + first, count);
        }
        p += bytes;
        for (; nlarge; nlarge--) {
            uint64_t high;
            unsigned at;

            if (p == end || *p >= PACK_GROUP || w >= 64)
                return NULL;
            at = *p++;
            p = varint_get(p, end, &high);
            if (!p)
                return NULL;
            if (at < count)
                v[first + at] |= high << w;
        }
    }
    return p;
}

#endif
