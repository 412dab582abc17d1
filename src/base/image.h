/* image.h -- picture files in memory as rows of pixels. PNG, BMP and PNM are read here; JPEG, WebP,
 * TIFF and JPEG 2000 by libraries that are looked for when such a file comes. */
#ifndef BASE_IMAGE_H
#define BASE_IMAGE_H

#include "base/arena.h"
#include "base/common.h"
#include <opmeter/opmeter_error.h>

#define IMAGE_SIDE_MAX 65536
#define IMAGE_PIXELS_MAX ((int64_t)1 << 28)

/* Rows of pixels of 1 or 3 bytes. */
struct image {
    int width, height, channels;
    const uint8_t *pixel;
};

/* By the first bytes of data; what transparency there is is left out. OPM_EUNSUPPORTED: a library
 * is missing; OPM_ELIMIT, OPM_ENOMEM; OPM_EFORMAT: of no known format, or broken. path is for the
 * message. */
int image_decode(struct image *im, struct arena *a, const char *path, const void *data, size_t len,
                 opm_error *err);

/* The brightness of a colour by ITU-R 601. */
static inline uint8_t image_luma(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

#endif
