/* image_png.c -- PNG: all depths, colour types and interlacing, brought to 8 bits and RGB. */
#include "base/image_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/inflate.h"

#include <stdlib.h>
#include <string.h>

enum colour { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGBA = 6 };

struct png {
    uint32_t width, height;
    int depth, colour, samples;
    bool interlaced;
    uint8_t palette[256][3];
    int npalette;
    uint8_t *packed; /* all of IDAT */
    size_t npacked;
};

/* Where the pixels of each part of an interlaced picture lie. */
static const struct {
    int x, y, dx, dy;
} adam7[] = { { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 }, { 2, 0, 4, 4 },
              { 0, 2, 2, 4 }, { 1, 0, 2, 2 }, { 0, 1, 1, 2 } };

static uint32_t big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool header(struct png *p, const uint8_t *d, size_t len)
{
    static const int samples[] = { 1, 0, 3, 1, 2, 0, 4 };
    int depth = len == 13 ? d[8] : 0;

    if (len != 13 || d[9] > RGBA || !samples[d[9]] || d[10] || d[11] || d[12] > 1)
        return false;
    p->width = big(d);
    p->height = big(d + 4);
    p->depth = depth;
    p->colour = d[9];
    p->samples = samples[d[9]];
    p->interlaced = d[12];
    if (p->colour == GREY)
        return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    if (p->colour == PALETTE)
        return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    return depth == 8 || depth == 16;
}

/* Palette and all of IDAT, one after the other in a copy. */
static int chunks(struct png *p, const struct image_job *j)
{
    const uint8_t *at = j->data + 8, *end = j->data + j->len;
    bool first = true;

    p->packed = mem_alloc(j->len);
    if (!p->packed)
        return opm__fail(j->err, OPM_ENOMEM, "out of memory for %s", j->path);
    while (end - at >= 12) {
        size_t len = big(at);
        const uint8_t *d = at + 8;
        bool critical = !(at[4] & 0x20);

        if (len > (size_t)(end - d) - 4)
            break;
        if (critical && big(d + len) != inflate_crc32(at + 4, len + 4))
            return image_broken(j, "a checksum of the PNG is wrong");
        if (first && (memcmp(at + 4, "IHDR", 4) != 0 || !header(p, d, len)))
            return image_broken(j, "the PNG's header is of no known kind");
        first = false;
        if (memcmp(at + 4, "PLTE", 4) == 0) {
            if (len % 3 || len > sizeof(p->palette))
                return image_broken(j, "the PNG's palette has %zu bytes", len);
            memcpy(p->palette, d, len);
            p->npalette = (int)(len / 3);
        } else if (memcmp(at + 4, "IDAT", 4) == 0) {
            memcpy(p->packed + p->npacked, d, len);
            p->npacked += len;
        } else if (memcmp(at + 4, "IEND", 4) == 0)
            return 0;
        at = d + len + 4;
    }
    return image_broken(j, "the PNG is cut short");
}

static size_t row_bytes(const struct png *p, uint32_t width)
{
    return ((size_t)width * (size_t)(p->samples * p->depth) + 7) / 8;
}

/* The bytes before, above, and above before, that a row was told from. */
static bool unfilter(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    int kind = row[0];
    uint8_t *d = row + 1;

    for (size_t i = 0; i < n; i++) {
        int a = i >= pixel ? d[i - pixel] : 0, b = above ? above[1 + i] : 0,
            c = above && i >= pixel ? above[1 + i - pixel] : 0, pa, pb, pc;

        switch (kind) {
        case 0:
            return true;
        case 1:
            d[i] = (uint8_t)(d[i] + a);
            break;
        case 2:
            d[i] = (uint8_t)(d[i] + b);
            break;
        case 3:
            d[i] = (uint8_t)(d[i] + (a + b) / 2);
            break;
        case 4:
            pa = abs(b - c);
            pb = abs(a - c);
            pc = abs(a + b - 2 * c);
            d[i] = (uint8_t)(d[i] + (pa <= pb && pa <= pc ? a : pb <= pc ? b : c));
            break;
        default:
            return false;
        }
    }
    return kind <= 4;
}

/* Sample i of a row as 8 bits; of a palette as it is. */
static int sample(const struct png *p, const uint8_t *row, size_t i)
{
    int v, top = (1 << p->depth) - 1;

    if (p->depth == 8)
        return row[i];
    if (p->depth == 16)
        return row[2 * i];
    v = row[i * (size_t)p->depth / 8] >> (8 - p->depth - (int)(i * (size_t)p->depth % 8)) & top;
    return p->colour == PALETTE ? v : v * 255 / top;
}

static bool put_row(const struct png *p, const uint8_t *row, uint32_t width, uint8_t *to,
                    size_t step)
{
    for (uint32_t x = 0; x < width; x++, to += step) {
        size_t i = (size_t)x * (size_t)p->samples;

        if (p->colour == PALETTE) {
            int v = sample(p, row, i);

            if (v >= p->npalette)
                return false;
            memcpy(to, p->palette[v], 3);
        } else
            for (size_t c = 0; c < 3; c++)
                to[c] = (uint8_t)sample(p, row, i + (p->samples >= 3 ? c : 0));
    }
    return true;
}

/* One part of an interlaced picture, or all of it; NULL if it is broken. */
static uint8_t *put_part(const struct png *p, uint8_t *from, uint8_t *to, int x, int y, int dx,
                         int dy)
{
    uint32_t w = (uint32_t)MAX(((int64_t)p->width - x + dx - 1) / dx, 0);
    size_t n = row_bytes(p, w), pixel = (size_t)MAX(p->samples * p->depth / 8, 1);
    const uint8_t *above = NULL;

    for (uint32_t row = (uint32_t)y; w && row < p->height; row += (uint32_t)dy, from += n + 1) {
        if (!unfilter(from, above, n, pixel) ||
            !put_row(p, from + 1, w, to + 3 * ((size_t)row * p->width + (size_t)x), 3 * (size_t)dx))
            return NULL;
        above = from;
    }
    return from;
}

static size_t part_bytes(const struct png *p, int x, int y, int dx, int dy)
{
    int64_t w = ((int64_t)p->width - x + dx - 1) / dx, h = ((int64_t)p->height - y + dy - 1) / dy;

    return w > 0 && h > 0 ? (row_bytes(p, (uint32_t)w) + 1) * (size_t)h : 0;
}

static int unpack(struct png *p, const struct image_job *j, uint8_t **raw)
{
    uint8_t *out, *at;
    size_t size = 0;
    int rc = image_room(j, p->width, p->height, 3, 3, &out);

    if (rc)
        return rc;
    if (!p->interlaced)
        size = part_bytes(p, 0, 0, 1, 1);
    for (size_t i = 0; p->interlaced && i < ARRAY_SIZE(adam7); i++)
        size += part_bytes(p, adam7[i].x, adam7[i].y, adam7[i].dx, adam7[i].dy);
    if (p->npacked < 6 || size / INFLATE_RATIO_MAX > p->npacked)
        return image_broken(j, "the PNG is cut short");
    at = *raw = mem_alloc(size);
    if (!*raw)
        return opm__fail(j->err, OPM_ENOMEM, "out of memory for %s", j->path);
    if ((p->packed[0] & 15) != 8 || (p->packed[0] << 8 | p->packed[1]) % 31 ||
        !inflate_raw(p->packed + 2, p->npacked - 2, *raw, size))
        return image_broken(j, "the PNG's pixels cannot be unpacked");
    if (!p->interlaced)
        at = put_part(p, at, out, 0, 0, 1, 1);
    for (size_t i = 0; at && p->interlaced && i < ARRAY_SIZE(adam7); i++)
        at = put_part(p, at, out, adam7[i].x, adam7[i].y, adam7[i].dx, adam7[i].dy);
    return at ? 0 : image_broken(j, "the PNG's pixels are not what its header says");
}

int image_read_png(const struct image_job *j)
{
    struct png p = { 0 };
    uint8_t *raw = NULL;
    int rc = chunks(&p, j);

    if (!rc)
        rc = unpack(&p, j, &raw);
    mem_free(p.packed);
    mem_free(raw);
    return rc;
}
