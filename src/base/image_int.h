/* image_int.h -- what the readers of picture files share. */
#ifndef BASE_IMAGE_INT_H
#define BASE_IMAGE_INT_H

#include "base/image.h"

/* A file to be read, and where its pixels go. */
struct image_job {
    struct image *im;
    struct arena *arena;
    const char *path;
    const uint8_t *data;
    size_t len;
    opm_error *err;
};

/* Pixels of `channels` bytes, `room` bytes for each while they are read; *out is im->pixel. */
int image_room(const struct image_job *j, int64_t width, int64_t height, int channels, int room,
               uint8_t **out);
__attribute__((format(printf, 2, 3))) int image_broken(const struct image_job *j, const char *fmt,
                                                       ...);

int image_read_png(const struct image_job *j);
int image_read_bmp(const struct image_job *j);
int image_read_pnm(const struct image_job *j);
int image_read_jpeg(const struct image_job *j);
int image_read_webp(const struct image_job *j);
int image_read_tiff(const struct image_job *j);
int image_read_jpeg2000(const struct image_job *j);

#endif
