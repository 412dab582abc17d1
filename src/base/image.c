/* image.c -- see image.h: which reader, and room for the pixels. */
#include "base/image.h"

#include "base/error.h"
#include "base/image_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int image_room(const struct image_job *j, int64_t width, int64_t height, int channels, int room,
               uint8_t **out)
{
    if (width < 1 || height < 1)
        return image_broken(j, "%lld x %lld pixels", (long long)width, (long long)height);
    if (width > IMAGE_SIDE_MAX || height > IMAGE_SIDE_MAX || width * height > IMAGE_PIXELS_MAX)
        return opm__fail(j->err, OPM_ELIMIT,
                         "%s: %lld x %lld pixels; at most %d on a side and %lld in all are read",
                         j->path, (long long)width, (long long)height, IMAGE_SIDE_MAX,
                         (long long)IMAGE_PIXELS_MAX);
    *out = arena_alloc(j->arena, (size_t)(width * height * room));
    *j->im = (struct image){ (int)width, (int)height, channels, *out };
    return *out ? 0
                : opm__fail(j->err, OPM_ENOMEM, "out of memory for the %lld x %lld pixels of %s",
                            (long long)width, (long long)height, j->path);
}

int image_broken(const struct image_job *j, const char *fmt, ...)
{
    char why[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    return opm__fail(j->err, OPM_EFORMAT, "%s: %s", j->path, why);
}

static bool is_pnm(const struct image_job *j)
{
    return j->len > 2 && j->data[0] == 'P' && j->data[1] >= '1' && j->data[1] <= '6' &&
           strchr(" \t\r\n#", j->data[2]);
}

int image_decode(struct image *im, struct arena *a, const char *path, const void *data, size_t len,
                 opm_error *err)
{
    static const struct {
        size_t at, len;
        const char *magic;
        int (*read)(const struct image_job *j);
    } formats[] = {
        { 0, 8, "\x89PNG\r\n\x1a\n", image_read_png },
        { 0, 3, "\xff\xd8\xff", image_read_jpeg },
        { 8, 4, "WEBP", image_read_webp },
        { 0, 4, "II*\0", image_read_tiff },
        { 0, 4, "MM\0*", image_read_tiff },
        { 0, 4, "II+\0", image_read_tiff },
        { 0, 4, "MM\0+", image_read_tiff },
        { 0, 12, "\0\0\0\x0cjP  \r\n\x87\n", image_read_jpeg2000 },
        { 0, 4, "\xff\x4f\xff\x51", image_read_jpeg2000 },
        { 0, 2, "BM", image_read_bmp },
    };
    struct image_job j = { im, a, path, data, len, err };

    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (len >= formats[i].at + formats[i].len &&
            memcmp(j.data + formats[i].at, formats[i].magic, formats[i].len) == 0)
            return formats[i].read(&j);
    if (is_pnm(&j))
        return image_read_pnm(&j);
    return image_broken(&j,
                        "by its first bytes none of PNG, JPEG, WebP, TIFF, JPEG 2000, BMP, PNM");
}
