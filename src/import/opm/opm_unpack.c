/* opm_unpack.c -- decode the payload of an events chunk; docs/format.md "Events". */
#include "import/opm/opm_int.h"

#include "format/bits.h"
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

static bool unpack_column(struct rd *r, uint64_t *v, size_t n)
{
    const uint8_t *end = bits_get(r->p, r->end, v, n);

    if (!end)
        return false;
    r->p = end;
    return true;
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
