/* digest.c -- see digest.h. */
#include "base/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WORD sizeof(uint64_t)

static uint64_t turn(uint64_t v, unsigned by)
{
    return v << by | v >> (64 - by);
}

static uint64_t stir(uint64_t v)
{
    v = (v ^ (v >> 33)) * 0xff51afd7ed558ccdu;
    v = (v ^ (v >> 33)) * 0xc4ceb9fe1a85ec53u;
    return v ^ (v >> 33);
}

static void add_word(struct digest *d, uint64_t word)
{
    d->lane[0] = turn(d->lane[0] ^ word * 0x87c37b91114253d5u, 31) * 0x9e3779b97f4a7c15u;
    d->lane[1] = (turn(d->lane[1] + word, 29) ^ d->lane[0]) * 0xd6e8feb86659fd93u;
}

void digest_add(struct digest *d, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;

    for (; len && d->len % WORD; len--, d->len++) {
        d->part |= (uint64_t)*p++ << 8 * (d->len % WORD);
        if (d->len % WORD == WORD - 1) {
            add_word(d, d->part);
            d->part = 0;
        }
    }
    for (; len >= WORD; len -= WORD, p += WORD, d->len += WORD) {
        uint64_t word;

        memcpy(&word, p, WORD);
        add_word(d, word);
    }
    for (; len; len--, d->len++)
        d->part |= (uint64_t)*p++ << 8 * (d->len % WORD);
}

void digest_text(const struct digest *d, char out[DIGEST_ROOM])
{
    struct digest end = *d;

    add_word(&end, d->part);
    add_word(&end, d->len);
    snprintf(out, DIGEST_ROOM, "%016" PRIx64 "%016" PRIx64, stir(end.lane[0] + end.lane[1]),
             stir(end.lane[1] ^ turn(end.lane[0], 17)));
}
