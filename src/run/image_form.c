/* image_form.c -- see image_form.h. */
#include "run/image_form.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- options -- */

/* "A/B/C", or "A" for all. */
static bool three(const char *s, double out[3])
{
    for (int i = 0; i < 3; i++) {
        char *end;

        out[i] = strtod(s, &end);
        if (end == s || !isfinite(out[i]))
            return false;
        if (!*end && i == 0) {
            out[1] = out[2] = out[0];
            return true;
        }
        if (*end != (i < 2 ? '/' : '\0'))
            return false;
        s = end + 1;
    }
    return true;
}

/* "224", or "320x240". */
static bool sides(const char *s, int *w, int *h, bool square)
{
    char *end;
    long a = strtol(s, &end, 10), b = square ? a : 0;

    if (end == s)
        return false;
    if (*end == 'x') {
        s = end + 1;
        b = strtol(s, &end, 10);
        if (end == s || b < 1)
            return false;
    }
    if (*end || a < 1 || a > IMAGE_SIDE_MAX || b > IMAGE_SIDE_MAX)
        return false;
    *w = (int)a;
    *h = (int)b;
    return true;
}

static bool set_option(struct image_form *f, const char *name, const char *value)
{
    static const struct image_form imagenet = { .mean = { 0.485, 0.456, 0.406 },
                                                .std = { 0.229, 0.224, 0.225 } };
    char *end;

    if (strcmp(name, "resize") == 0)
        return sides(value, &f->resize_w, &f->resize_h, false);
    if (strcmp(name, "crop") == 0)
        return sides(value, &f->crop_w, &f->crop_h, true);
    if (strcmp(name, "range") == 0) {
        f->range = strtod(value, &end);
        return end != value && !*end && isfinite(f->range) && f->range > 0;
    }
    if (strcmp(name, "bgr") == 0 && !*value) {
        f->bgr = true;
        return true;
    }
    f->normal = true;
    if (strcmp(name, "mean") == 0)
        return three(value, f->mean);
    if (strcmp(name, "std") == 0)
        return three(value, f->std) && f->std[0] > 0 && f->std[1] > 0 && f->std[2] > 0;
    if (strcmp(name, "imagenet") == 0 && !*value) {
        memcpy(f->mean, imagenet.mean, sizeof(f->mean));
        memcpy(f->std, imagenet.std, sizeof(f->std));
        return true;
    }
    return false;
}

int image_form_parse(struct image_form *f, const char *text, opm_error *err)
{
    *f = (struct image_form){ .range = 1, .std = { 1, 1, 1 } };
    while (*text) {
        size_t len = strcspn(text, ",");
        char option[80], *value;

        snprintf(option, sizeof(option), "%.*s", (int)MIN(len, sizeof(option) - 1), text);
        value = strchr(option, '=');
        if (value)
            *value++ = '\0';
        if (len >= sizeof(option) || !set_option(f, option, value ? value : ""))
            return opm__fail(err, OPM_EINVAL,
                             "--input: '%.*s' after an image is none of resize=256 (the shorter "
                             "side) or resize=WxH, crop=224 or crop=WxH, mean=R/G/B, std=R/G/B, "
                             "imagenet, range=255, bgr",
                             (int)MIN(len, (size_t)60), text);
        text += len + (text[len] == ',');
    }
    return 0;
}

/* -- sizes -- */

/* One axis, by weights that fall off evenly from the middle of what a pixel covers: `lines` lines
 * of n numbers, step apart, become m. */
static void scale_axis(float *out, int64_t out_line, int64_t out_step, int m, const float *in,
                       int64_t in_line, int64_t in_step, int n, int lines, int channels)
{
    const double ratio = (double)n / m, reach = MAX(ratio, 1.0);

    for (int o = 0; o < m; o++) {
        double middle = (o + 0.5) * ratio, total = 0;
        int first = MAX((int)floor(middle - reach), 0), last = MIN((int)ceil(middle + reach), n);

        for (int i = first; i < last; i++)
            total += MAX(1 - fabs(i + 0.5 - middle) / reach, 0.0);
        for (int l = 0; l < lines; l++)
            for (int c = 0; c < channels; c++) {
                double sum = 0;

                for (int i = first; i < last; i++)
                    sum += MAX(1 - fabs(i + 0.5 - middle) / reach, 0.0) *
                           (double)in[l * in_line + i * in_step + c];
                out[l * out_line + o * out_step + c] = (float)(sum / total);
            }
    }
}

static int no_room(opm_error *err)
{
    return opm__fail(err, OPM_ENOMEM, "out of memory while scaling an image");
}

static int resize(struct image *im, struct arena *a, int w, int h, opm_error *err)
{
    const int64_t c = im->channels, n = (int64_t)im->width * im->height * c, m = (int64_t)w * h * c,
                  between = (int64_t)w * im->height * c;
    float *from, *wide, *to;
    uint8_t *out;
    bool ok;

    if (w > IMAGE_SIDE_MAX || h > IMAGE_SIDE_MAX || m / c > IMAGE_PIXELS_MAX ||
        between / c > IMAGE_PIXELS_MAX)
        return opm__fail(err, OPM_ELIMIT,
                         "--input: an image of %d x %d pixels becomes too big where its shorter "
                         "side fits; say resize=WxH",
                         im->width, im->height);
    from = mem_alloc((size_t)n * sizeof(float));
    wide = mem_alloc((size_t)between * sizeof(float));
    to = mem_alloc((size_t)m * sizeof(float));
    out = arena_alloc(a, (size_t)m);
    ok = from && wide && to && out;
    if (ok) {
        for (int64_t i = 0; i < n; i++)
            from[i] = im->pixel[i];
        scale_axis(wide, w * c, c, w, from, im->width * c, c, im->width, im->height, (int)c);
        scale_axis(to, c, w * c, h, wide, c, w * c, im->height, w, (int)c);
        for (int64_t i = 0; i < m; i++)
            out[i] = (uint8_t)lrintf(MIN(MAX(to[i], 0.0f), 255.0f));
        *im = (struct image){ w, h, (int)c, out };
    }
    mem_free(from);
    mem_free(wide);
    mem_free(to);
    return ok ? 0 : no_room(err);
}

static int crop(struct image *im, struct arena *a, int w, int h, opm_error *err)
{
    int x = (im->width - w) / 2, y = (im->height - h) / 2, c = im->channels;
    uint8_t *out;

    if (x < 0 || y < 0 || w > im->width || h > im->height)
        return opm__fail(err, OPM_EINVAL,
                         "--input: crop=%dx%d is more than the %d x %d pixels that there are", w, h,
                         im->width, im->height);
    out = arena_alloc(a, (size_t)w * (size_t)h * (size_t)c);
    if (!out)
        return no_room(err);
    for (int64_t i = 0; i < h; i++)
        memcpy(out + i * w * c, im->pixel + ((i + y) * im->width + x) * c, (size_t)(w * c));
    *im = (struct image){ w, h, c, out };
    return 0;
}

/* Gray from colours by ITU-R 601, or three times the same. */
static int recolour(struct image *im, struct arena *a, int channels, bool bgr, opm_error *err)
{
    int64_t n = (int64_t)im->width * im->height;
    bool three_in = im->channels == 3, three_out = channels == 3;
    uint8_t *out;

    if (im->channels == channels && !(bgr && three_out))
        return 0;
    out = arena_alloc(a, (size_t)(n * channels));
    if (!out)
        return no_room(err);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = im->pixel + i * im->channels;

        if (!three_out)
            out[i] = image_luma(p);
        for (int c = 0; c < 3 && three_out; c++)
            out[3 * i + c] = p[three_in ? (bgr ? 2 - c : c) : 0];
    }
    im->pixel = out;
    im->channels = channels;
    return 0;
}

/* The shorter side becomes w or h, such that both are covered. */
static void cover(const struct image *im, int w, int h, int *to_w, int *to_h)
{
    double by = MAX((double)w / im->width, (double)h / im->height);

    *to_w = MAX((int)lrint(MIN(im->width * by, IMAGE_SIDE_MAX + 1.0)), w);
    *to_h = MAX((int)lrint(MIN(im->height * by, IMAGE_SIDE_MAX + 1.0)), h);
}

int image_fit(struct image *im, struct arena *a, const struct image_form *f, int width, int height,
              int channels, const char **name, opm_error *err)
{
    int w = f->resize_w, h = f->resize_h, cw = f->crop_w, ch = f->crop_h, rc = 0;
    struct buf b = { 0 };

    buf_addf(&b, "%s, %d x %d pixels", *name, im->width, im->height);
    if (!w && !cw && width > 0 && height > 0 && (im->width != width || im->height != height)) {
        cover(im, width, height, &w, &h);
        cw = width;
        ch = height;
    } else if (w && !h) {
        cover(im, w, w, &w, &h);
    }
    if (w && (w != im->width || h != im->height)) {
        rc = resize(im, a, w, h, err);
        buf_addf(&b, ", scaled to %d x %d", w, h);
    }
    if (!rc && cw && (cw != im->width || ch != im->height)) {
        rc = crop(im, a, cw, ch, err);
        buf_addf(&b, ", middle %d x %d", cw, ch);
    }
    if (!rc)
        rc = recolour(im, a, channels ? channels : im->channels, f->bgr, err);
    *name = b.failed ? NULL : arena_strndup(a, buf_str(&b), b.len);
    buf_release(&b);
    return rc ? rc : *name ? 0 : no_room(err);
}
