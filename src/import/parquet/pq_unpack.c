/* pq_unpack.c -- see pq_unpack.h. Snappy and LZ4 are a few lines each, so they are read here. */
#include "import/parquet/pq_unpack.h"

#include "base/inflate.h"
#include "base/rd.h"
#include "base/zblock.h"
#include "format/parquet.h"

#include <string.h>

/* What is written so far, and room for the rest. */
struct output {
    uint8_t *data;
    size_t len, size;
};

static bool put_literal(struct output *o, struct rd *r, uint64_t n)
{
    const uint8_t *p = n <= o->size - o->len ? rd_bytes(r, (size_t)n) : NULL;

    if (!p)
        return false;
    memcpy(o->data + o->len, p, (size_t)n);
    o->len += (size_t)n;
    return true;
}

/* n bytes again that stand `back` bytes before the end; they may overlap what they become. */
static bool put_copy(struct output *o, uint64_t back, uint64_t n)
{
    if (!back || back > o->len || n > o->size - o->len)
        return false;
    if (back >= n) {
        memcpy(o->data + o->len, o->data + o->len - back, (size_t)n);
        o->len += (size_t)n;
        return true;
    }
    for (uint64_t i = 0; i < n; i++, o->len++)
        o->data[o->len] = o->data[o->len - back];
    return true;
}

static bool unsnappy(const uint8_t *p, size_t len, uint8_t *out, size_t out_len)
{
    struct rd r = rd_of(p, len);
    struct output o = { out, 0, out_len };
    bool good = rd_varint(&r) == out_len && !r.bad;

    while (good && rd_left(&r)) {
        uint8_t tag = rd_u8(&r);
        uint64_t n = tag >> 2;

        switch (tag & 3) {
        case 0:
            if (n >= 60)
                n = rd_le(&r, (size_t)n - 59);
            good = put_literal(&o, &r, n + 1);
            break;
        case 1:
            good = put_copy(&o, (uint64_t)(tag >> 5) << 8 | rd_u8(&r), (n & 7) + 4);
            break;
        case 2:
            good = put_copy(&o, rd_u16(&r), n + 1);
            break;
        default:
            good = put_copy(&o, rd_u32(&r), n + 1);
        }
    }
    return good && !r.bad && o.len == out_len;
}

static uint64_t lz4_length(struct rd *r, uint64_t n)
{
    uint8_t more = 255;

    if (n != 15)
        return n;
    while (more == 255 && !r->bad)
        n += more = rd_u8(r);
    return n;
}

static bool unlz4(const uint8_t *p, size_t len, uint8_t *out, size_t out_len)
{
    struct rd r = rd_of(p, len);
    struct output o = { out, 0, out_len };
    bool good = true;

    while (good && rd_left(&r)) {
        uint8_t token = rd_u8(&r);

        good = put_literal(&o, &r, lz4_length(&r, token >> 4));
        if (good && rd_left(&r)) { /* the last one has no copy */
            uint64_t back = rd_u16(&r);

            good = put_copy(&o, back, lz4_length(&r, token & 15) + 4);
        }
    }
    return good && !r.bad && o.len == out_len;
}

/* Head of a gzip member; false: it is none. */
static bool gzip_head(struct rd *r)
{
    enum { HEAD_CRC = 2, EXTRA = 4, NAME = 8, COMMENT = 16 };
    uint16_t magic = rd_u16(r);
    uint8_t method = rd_u8(r), flags = rd_u8(r);

    rd_bytes(r, 6);
    if (flags & EXTRA)
        rd_bytes(r, rd_u16(r));
    for (int texts = !!(flags & NAME) + !!(flags & COMMENT); texts && !r->bad;)
        texts -= !rd_u8(r);
    if (flags & HEAD_CRC)
        rd_bytes(r, 2);
    return !r->bad && magic == 0x8b1f && method == 8;
}

static bool gunzip(const uint8_t *p, size_t len, uint8_t *out, size_t out_len)
{
    struct rd r = rd_of(p, len);

    return gzip_head(&r) && inflate_raw(r.p, rd_left(&r), out, out_len);
}

static const char *const names[] = { "none",   "Snappy",        "gzip", "LZO",
                                     "Brotli", "LZ4 of Hadoop", "zstd", "LZ4" };

const char *pq_codec_name(int codec)
{
    return codec >= 0 && (size_t)codec < ARRAY_SIZE(names) ? names[codec] : "an unknown codec";
}

bool pq_codec_known(int codec)
{
    return codec == PARQUET_UNCOMPRESSED || codec == PARQUET_SNAPPY || codec == PARQUET_GZIP ||
           codec == PARQUET_ZSTD || codec == PARQUET_LZ4_RAW;
}

uint64_t pq_unpacked_max(int codec, size_t len)
{
    static const uint64_t times[] = { [PARQUET_UNCOMPRESSED] = 1,
                                      [PARQUET_SNAPPY] = 64,
                                      [PARQUET_GZIP] = INFLATE_RATIO_MAX,
                                      [PARQUET_ZSTD] = 65536,
                                      [PARQUET_LZ4_RAW] = 256 };

    return (uint64_t)len * times[codec];
}

bool pq_unpack(int codec, const uint8_t *p, size_t len, uint8_t *out, size_t out_len)
{
    switch (codec) {
    case PARQUET_SNAPPY:
        return unsnappy(p, len, out, out_len);
    case PARQUET_GZIP:
        return gunzip(p, len, out, out_len);
    case PARQUET_ZSTD:
        return zblock_unpack(p, len, out, out_len);
    case PARQUET_LZ4_RAW:
        return unlz4(p, len, out, out_len);
    default:
        if (len != out_len)
            return false;
        memcpy(out, p, len);
        return true;
    }
}
