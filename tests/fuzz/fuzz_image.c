/* fuzz_image.c -- PNG, BMP and PNM. Begins with 0, 1 or 2, which reader; other formats are read by
 * libraries that are not ours. */
#include "base/image_int.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static int (*const read[])(const struct image_job *j) = { image_read_png, image_read_bmp,
                                                              image_read_pnm };
    struct arena arena = { 0 };
    struct image im;
    struct image_job j = { &im, &arena, "fuzz", data + 1, len - 1, NULL };
    uint64_t sum = 0;

    if (len < 4 || (data[0] == 0 && len < 9))
        return 0;
    if (read[data[0] % ARRAY_SIZE(read)](&j) == 0)
        for (int64_t i = 0; i < (int64_t)im.width * im.height * im.channels; i++)
            sum += im.pixel[i];
    arena_release(&arena);
    return sum == UINT64_MAX; /* no: but every pixel was looked at */
}
