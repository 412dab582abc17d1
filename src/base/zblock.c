/* zblock.c -- see zblock.h. */
#include "base/zblock.h"

#include "base/alloc.h"
#include "base/budget.h"

#include <opmeter/opmeter_error.h>
#include <zlib.h>
#include <zstd.h>

#define STEP_BYTES 65536

int zblock_pack(struct buf *out, const void *p, size_t len)
{
    size_t room = ZSTD_compressBound(len), n;
    void *packed = mem_alloc(room);

    if (!packed)
        return OPM_ENOMEM;
    n = ZSTD_compress(packed, room, p, len, 3);
    if (!ZSTD_isError(n))
        buf_add(out, packed, n);
    mem_free(packed);
    return ZSTD_isError(n) || out->failed ? OPM_ENOMEM : 0;
}

bool zblock_unpack(const void *p, size_t len, void *out, size_t out_len)
{
    size_t n = ZSTD_decompress(out, out_len, p, len);

    return !ZSTD_isError(n) && n == out_len;
}

/* Append n bytes, or what there is room for. They came out of `used` packed ones. */
static int add(struct buf *out, const void *p, size_t n, size_t used)
{
    size_t room = out->max ? out->max - MIN(out->max, out->len) : n;

    if (!budget_unpack(budget_current(), used, n))
        return OPM_ELIMIT;
    buf_add(out, p, MIN(n, room));
    return out->failed ? OPM_ENOMEM : n > room ? OPM_ELIMIT : 0;
}

int zblock_inflate(struct buf *out, const void *p, size_t len)
{
    uint8_t *step = mem_alloc(STEP_BYTES);
    z_stream z = { .next_in = (Bytef *)(uintptr_t)p };
    int rc = 0, zrc = Z_OK;
    uInt before;

    if (!step || inflateInit(&z) != Z_OK) {
        mem_free(step);
        return OPM_ENOMEM;
    }
    while (rc == 0 && zrc == Z_OK) {
        if (!z.avail_in) {
            z.avail_in = (uInt)MIN(len, (size_t)1 << 30);
            len -= z.avail_in;
        }
        before = z.avail_in;
        z.next_out = step;
        z.avail_out = STEP_BYTES;
        zrc = inflate(&z, Z_NO_FLUSH);
        rc = add(out, step, STEP_BYTES - z.avail_out, before - z.avail_in);
    }
    inflateEnd(&z);
    mem_free(step);
    return rc ? rc : zrc == Z_STREAM_END ? 0 : zrc == Z_MEM_ERROR ? OPM_ENOMEM : OPM_EFORMAT;
}

int zblock_unzstd(struct buf *out, const void *p, size_t len)
{
    uint8_t *step = mem_alloc(STEP_BYTES);
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = { p, len, 0 };
    size_t left = 1;
    int rc = step && z ? 0 : OPM_ENOMEM;

    while (rc == 0) {
        ZSTD_outBuffer o = { step, STEP_BYTES, 0 };
        size_t before = in.pos;

        left = ZSTD_decompressStream(z, &o, &in);
        if (ZSTD_isError(left)) {
            rc = OPM_EFORMAT;
            break;
        }
        rc = add(out, step, o.pos, in.pos - before);
        if (in.pos == in.size && o.pos < STEP_BYTES)
            break;
    }
    ZSTD_freeDStream(z);
    mem_free(step);
    return rc ? rc : left ? OPM_EFORMAT : 0;
}
