/* image_plain.c -- PNM (P1 to P6) and BMP, whose pixels are hardly packed. */
#include "base/image_int.h"

#include "base/error.h"
#include "base/rd.h"

#include <ctype.h>
#include <string.h>

/* -- PNM -- */

/* The next number behind blanks and comments; -1: none, or more than 65535. */
static int number(const uint8_t **p, const uint8_t *end)
{
    int v = 0;
    const uint8_t *start;

    while (*p < end && (isspace(**p) || **p == '#'))
        if (*(*p)++ == '#')
            while (*p < end && **p != '\n')
                ++*p;
    for (start = *p; *p < end && isdigit(**p) && v <= 65535; ++*p)
        v = v * 10 + (**p - '0');
    return *p == start || v > 65535 ? -1 : v;
}

/* A bit as text: blanks between them may be missing. */
static int bit(const uint8_t **p, const uint8_t *end)
{
    while (*p < end && (isspace(**p) || **p == '#'))
        if (*(*p)++ == '#')
            while (*p < end && **p != '\n')
                ++*p;
    return *p < end && (**p == '0' || **p == '1') ? *(*p)++ - '0' : -1;
}

int image_read_pnm(const struct image_job *j)
{
    const uint8_t *p = j->data + 2, *end = j->data + j->len;
    int kind = j->data[1] - '0', channels = kind % 3 == 0 ? 3 : 1, width = number(&p, end),
        height = number(&p, end), max = kind % 3 == 1 ? 1 : number(&p, end), rc;
    bool text = kind <= 3;
    int64_t row = (int64_t)width * channels, need;
    uint8_t *out;

    if (width < 1 || height < 1 || max < 1 || (!text && p++ == end))
        return image_broken(j, "its header is not that of a PNM image");
    need = text        ? row * height
           : kind == 4 ? (int64_t)(width + 7) / 8 * height
                       : row * height * (max > 255 ? 2 : 1);
    if (need > end - p)
        return opm__fail(j->err, OPM_ETRUNC, "%s: the image is cut short", j->path);
    rc = image_room(j, width, height, channels, channels, &out);
    for (int64_t i = 0; !rc && i < row * height; i++) {
        int v;

        if (kind == 1)
            v = bit(&p, end);
        else if (text)
            v = number(&p, end);
        else if (kind == 4)
            v = p[i / row * ((width + 7) / 8) + i % row / 8] >> (7 - i % row % 8) & 1;
        else
            v = max > 255 ? p[2 * i] << 8 | p[2 * i + 1] : p[i];
        if (v < 0)
            return image_broken(j, "the image is cut short, or holds other than numbers");
        if (kind % 3 == 1)
            v = 1 - v; /* 1 is black */
        out[i] = (uint8_t)(((int64_t)MIN(v, max) * 255 + max / 2) / max);
    }
    return rc;
}

/* -- BMP -- */

enum bmp_packing {
    BMP_RGB = 0,
    BMP_RLE8 = 1,
    BMP_RLE4 = 2,
    BMP_BITFIELDS = 3,
    BMP_ALPHAFIELDS = 6
};

struct bmp {
    int width, height;
    bool from_top;
    int bits;
    uint32_t packing, mask[3];
    uint8_t palette[256][3];
    int npalette;
    const uint8_t *pixel, *end;
};

static void bmp_palette(struct bmp *b, struct rd *r, uint32_t colours, bool old)
{
    uint32_t most = b->bits <= 8 ? 1u << b->bits : 0,
             n = colours && colours < most ? colours : most;

    for (uint32_t i = 0; i < n && !r->bad; i++) { /* bounded: n is at most 1 << 8 */
        for (int c = 2; c >= 0; c--)
            b->palette[i][c] = rd_u8(r);
        if (!old)
            rd_u8(r);
    }
    b->npalette = (int)n;
}

static bool bmp_header(struct bmp *b, const struct image_job *j)
{
    struct rd r = rd_of(j->data, j->len);
    uint32_t at, size, colours = 0;
    int64_t w, h;

    rd_bytes(&r, 10);
    at = rd_u32(&r);
    size = rd_u32(&r);
    if (size == 12) {
        w = rd_u16(&r);
        h = (int16_t)rd_u16(&r);
    } else {
        w = (int32_t)rd_u32(&r);
        h = (int32_t)rd_u32(&r);
    }
    rd_u16(&r);
    b->bits = rd_u16(&r);
    if (size >= 40) {
        b->packing = rd_u32(&r);
        rd_bytes(&r, 12);
        colours = rd_u32(&r);
        rd_u32(&r);
    }
    if (b->packing == BMP_BITFIELDS || b->packing == BMP_ALPHAFIELDS)
        for (int c = 0; c < 3; c++)
            b->mask[c] = rd_u32(&r);
    else if (b->bits == 16)
        memcpy(b->mask, (uint32_t[]){ 0x7c00, 0x3e0, 0x1f }, sizeof(b->mask));
    else if (b->bits == 32)
        memcpy(b->mask, (uint32_t[]){ 0xff0000, 0xff00, 0xff }, sizeof(b->mask));
    if (r.bad || (size != 12 && size < 40) || w < 1 || h == 0 || w > IMAGE_SIDE_MAX ||
        h > IMAGE_SIDE_MAX || h < -IMAGE_SIDE_MAX || at > j->len)
        return false;
    r.p = size > 40 && 14 + (size_t)size <= j->len && j->data + 14 + size > r.p
              ? j->data + 14 + size
              : r.p;
    bmp_palette(b, &r, colours, size == 12);
    b->width = (int)w;
    b->height = (int)(h < 0 ? -h : h);
    b->from_top = h < 0;
    b->pixel = j->data + at;
    b->end = j->data + j->len;
    return !r.bad;
}

static uint8_t masked(uint32_t v, uint32_t mask)
{
    int low = mask ? __builtin_ctz(mask) : 0;
    uint64_t top = mask >> low;

    return top ? (uint8_t)(((v & mask) >> low) * (uint64_t)255 / top) : 0;
}

static uint8_t *bmp_row(const struct bmp *b, uint8_t *out, int y)
{
    return out + 3 * (int64_t)b->width * (b->from_top ? y : b->height - 1 - y);
}

static bool bmp_put(const struct bmp *b, uint8_t *to, int v)
{
    if (v >= b->npalette)
        return false;
    memcpy(to, b->palette[v], 3);
    return true;
}

static bool bmp_rows(const struct bmp *b, uint8_t *out)
{
    int64_t stride = ((int64_t)b->width * b->bits + 31) / 32 * 4;

    if (stride * b->height > b->end - b->pixel + 3) /* some leave out the last padding */
        return false;
    for (int y = 0; y < b->height; y++) {
        const uint8_t *row = b->pixel + stride * y;
        uint8_t *to = bmp_row(b, out, y);

        if (((int64_t)b->width * b->bits + 7) / 8 > b->end - row)
            return false;
        for (int x = 0; x < b->width; x++, to += 3) {
            if (b->bits <= 8) {
                int at = x * b->bits;

                if (!bmp_put(b, to, row[at / 8] >> (8 - b->bits - at % 8) & ((1 << b->bits) - 1)))
                    return false;
            } else if (b->bits == 24) {
                for (int c = 0; c < 3; c++)
                    to[c] = row[3 * x + 2 - c];
            } else {
                uint32_t v = 0;

                memcpy(&v, row + x * b->bits / 8, (size_t)b->bits / 8);
                for (int c = 0; c < 3; c++)
                    to[c] = masked(v, b->mask[c]);
            }
        }
    }
    return true;
}

/* Runs of one colour, or of two that alternate; what is skipped is of the first colour. */
static bool bmp_runs(const struct bmp *b, uint8_t *out)
{
    struct rd r = rd_of(b->pixel, (size_t)(b->end - b->pixel));
    bool four = b->packing == BMP_RLE4;
    int x = 0, y = 0;

    for (int64_t i = 0; i < (int64_t)b->width * b->height; i++)
        memcpy(out + 3 * i, b->palette[0], 3);
    while (y < b->height) {
        int n = rd_u8(&r), v = rd_u8(&r);
        bool literal = n == 0 && v > 2;
        const uint8_t *d = NULL;

        if (r.bad)
            return false;
        if (n == 0 && v == 1)
            break;
        if (n == 0 && v == 0) {
            x = 0;
            y++;
            continue;
        }
        if (n == 0 && v == 2) {
            x += rd_u8(&r);
            y += rd_u8(&r);
            continue;
        }
        if (literal) {
            size_t bytes = four ? ((size_t)v + 1) / 2 : (size_t)v;

            d = rd_bytes(&r, (bytes + 1) & ~(size_t)1);
            if (!d)
                return false;
            n = v;
        }
        for (int i = 0; i < n; i++, x++) {
            int from = literal ? d[four ? i / 2 : i] : v;

            if (four)
                from = i % 2 ? from & 15 : from >> 4;
            if (x < b->width && !bmp_put(b, bmp_row(b, out, y) + 3 * x, from))
                return false;
        }
    }
    return true;
}

int image_read_bmp(const struct image_job *j)
{
    struct bmp b = { 0 };
    uint8_t *out;
    bool runs, plain;
    int rc;

    if (!bmp_header(&b, j))
        return image_broken(j, "the header is not that of a BMP image");
    runs = (b.packing == BMP_RLE8 && b.bits == 8) || (b.packing == BMP_RLE4 && b.bits == 4);
    plain = b.packing == BMP_RGB && (b.bits == 1 || b.bits == 4 || b.bits == 8 || b.bits == 16 ||
                                     b.bits == 24 || b.bits == 32);
    plain |= (b.packing == BMP_BITFIELDS || b.packing == BMP_ALPHAFIELDS) &&
             (b.bits == 16 || b.bits == 32);
    if (!runs && !plain)
        return image_broken(j, "a BMP of %d bits, packing %u, is not read", b.bits, b.packing);
    rc = image_room(j, b.width, b.height, 3, 3, &out);
    if (!rc && !(runs ? bmp_runs(&b, out) : bmp_rows(&b, out)))
        rc = image_broken(j, "the BMP is cut short, or a colour is not in its palette");
    return rc;
}
