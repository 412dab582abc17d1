/* opm_unpack.c -- decode the payload of an events chunk; docs/format.md "Events". */
#include "import/opm_int.h"

#include "format/pack.h"

#define SPANS_MAX (1u << 24) /* of one chunk; more is damage */

bool unpack_head(struct rd *r, struct unpacked_head *h)
{
    h->nspan = rd_varint(r);
    h->nother = rd_varint(r);
    h->step = rd_varint(r);
    h->base = rd_u64(r);
    /* Every group of spans takes at least two bytes, every other event four: sizes that the payload
     * cannot hold are refused before anything is allocated for them. */
    return !r->bad && h->nspan <= SPANS_MAX && h->nspan / PACK_GROUP <= rd_left(r) / 4 &&
           h->nother <= rd_left(r) / 4;
}

bool unpack_other(struct rd *r, struct opm_unit u[3], uint64_t *last_ticks)
{
    unsigned kind = rd_u8(r);
    uint64_t id = rd_varint(r), value;
    unsigned n = unit_count(kind);

    u[0].ticks = *last_ticks + (uint64_t)rd_zigzag(r);
    *last_ticks = u[0].ticks;
    value = rd_varint(r);
    if (r->bad || !n || kind == UNIT_SPAN || id >> UNIT_ID_BITS || value > UNIT_VALUE_MAX)
        return false;
    u[0].word = unit_word((enum opm_unit_kind)kind, (uint32_t)id, value);
    for (unsigned i = 1; i < n; i++) {
        if (kind == UNIT_COUNTER || kind == UNIT_ARG_REAL)
            u[i].ticks = rd_u64(r);
        else if (kind == UNIT_ASYNC_END || kind == UNIT_FLOW ||
                 (kind == UNIT_DEVICE_SPAN && i == 1))
            u[i].ticks = u[0].ticks + (uint64_t)rd_zigzag(r);
        else
            u[i].ticks = (uint64_t)rd_zigzag(r);
        u[i].word = rd_varint(r);
    }
    return !r->bad;
}

static bool unpack_ids(struct rd *r, uint32_t *id, size_t n)
{
    uint32_t follows[PACK_CONTEXTS] = { 0 }, last = 0;
    size_t i = 0;

    for (;;) {
        uint64_t run = rd_varint(r);

        if (r->bad || run > n - i)
            return false;
        for (; run; run--)
            id[i++] = last = follows[pack_context(last)];
        if (i == n)
            return true;
        follows[pack_context(last)] = (uint32_t)rd_varint(r);
        id[i++] = last = follows[pack_context(last)];
    }
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

/* n values of at most 57 bits: one unaligned load each. `p` has 8 readable bytes behind its end. */
static void unpack_narrow(const uint8_t *p, unsigned w, uint64_t *v, size_t n)
{
    uint64_t mask = (1ull << w) - 1;

    for (size_t i = 0; i < n; i++)
        v[i] = load64(p + i * w / 8) >> (i * w % 8) & mask;
}

static void unpack_wide(const uint8_t *p, unsigned w, uint64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bit = i * w;
        uint64_t x = 0;

        for (unsigned k = 0; k < w;) {
            unsigned in_byte = (unsigned)((bit + k) % 8), take = MIN(8 - in_byte, w - k);

            x |= (uint64_t)(p[(bit + k) / 8] >> in_byte & ((1u << take) - 1)) << k;
            k += take;
        }
        v[i] = x;
    }
}

static bool unpack_column(struct rd *r, uint64_t *v, size_t n)
{
    for (size_t first = 0; first < n; first += PACK_GROUP) {
        unsigned w = rd_u8(r), nlarge = rd_u8(r);
        size_t count = MIN(n - first, (size_t)PACK_GROUP);
        const uint8_t *p = w <= 64 ? rd_bytes(r, (size_t)w * PACK_GROUP / 8) : NULL;
        uint8_t padded[57 * PACK_GROUP / 8 + 8];

        if (!p)
            return false;
        if (w > 57) {
            unpack_wide(p, w, v + first, count);
        } else if (rd_left(r) >= 8) {
            unpack_narrow(p, w, v + first, count);
        } else {
            memset(padded, 0, sizeof(padded));
            memcpy(padded, p, (size_t)w * PACK_GROUP / 8);
            unpack_narrow(padded, w, v + first, count);
        }
        for (; nlarge; nlarge--) {
            unsigned at = rd_u8(r);
            uint64_t high = rd_varint(r);

            if (r->bad || at >= PACK_GROUP || w >= 64)
                return false;
            if (at < count)
                v[first + at] |= high << w;
        }
    }
    return !r->bad;
}

bool unpack_spans(struct rd *r, const struct unpacked_head *h, uint64_t *start, uint64_t *dur,
                  uint32_t *id)
{
    uint64_t end = h->base;

    if (!h->nspan)
        return true;
    if (!unpack_ids(r, id, h->nspan) || !unpack_column(r, start, h->nspan) ||
        !unpack_column(r, dur, h->nspan))
        return false;
    for (size_t i = 0; i < h->nspan; i++) {
        uint64_t gap = (start[i] >> 1) * h->step;

        dur[i] *= h->step;
        end += start[i] & 1 ? gap : gap + dur[i];
        start[i] = end - dur[i];
    }
    return true;
}
