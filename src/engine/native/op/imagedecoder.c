/* imagedecoder.c -- ImageDecoder: the pixels of a picture file. */
#include "base/image.h"
#include "engine/native/op/kernels.h"

#include <string.h>

static void put(uint8_t *to, const struct image *im, int channels, bool bgr)
{
    int64_t n = (int64_t)im->width * im->height;

    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = im->pixel + i * im->channels;

        if (channels == 1)
            to[i] = im->channels == 1 ? *p : image_luma(p);
        for (int c = 0; c < 3 && channels == 3; c++)
            to[3 * i + c] = p[im->channels == 1 ? 0 : bgr ? 2 - c : c];
    }
}

WHILE_RUNNING(imagedecoder)

int imagedecoder_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    bool bgr = node_attr_is(op->node, "pixel_format", "BGR", "RGB"),
         gray = node_attr_is(op->node, "pixel_format", "Grayscale", "RGB");
    struct arena arena = { 0 };
    struct image im = { 0 };
    opm_error why = { 0 };
    struct shape s;
    struct nt *y;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_U8), err);

    if (!rc && !bgr && !gray && !node_attr_is(op->node, "pixel_format", "RGB", "RGB"))
        rc = kernel_fail(op, OPM_EINVAL, err, "pixel_format is none of RGB, BGR, Grayscale");
    if (rc)
        return rc;
    rc = image_decode(&im, &arena, "the image", x->data, (size_t)x->count, &why);
    if (rc == OPM_EFORMAT || rc == OPM_ETRUNC) { /* by ONNX's words no error, but an empty matrix */
        im = (struct image){ 0 };
        rc = 0;
    }
    if (rc)
        rc = kernel_fail(op, rc, err, "%s", why.msg);
    s = (struct shape){ 3, { im.height, im.width, gray ? 1 : 3 } };
    y = rc ? NULL : kernel_new_item(op, TENSOR_U8, &s);
    if (y) {
        put(y->data, &im, gray ? 1 : 3, bgr);
        kernel_give(op, 0, y);
    } else if (!rc)
        rc = kernel_nomem(op, err);
    arena_release(&arena);
    return rc;
}
