/* image_form.h -- pictures as inputs: brought to the size that a model wants, and how their numbers
 * are made floats. */
#ifndef RUN_IMAGE_FORM_H
#define RUN_IMAGE_FORM_H

#include "base/image.h"

/* What follows a file's name: FILE,resize=256,crop=224,mean=.485/.456/.406,std=.229/.224/.225. */
struct image_form {
    int resize_w, resize_h; /* one of them 0: the shorter side is the other; both 0: not said */
    int crop_w, crop_h;     /* the middle; 0: not said */
    double range;           /* what 255 becomes: 1 unless said */
    double mean[3], std[3]; /* then less mean, by std */
    bool normal;            /* ... which were said */
    bool bgr;
};

/* "resize=256,crop=224"; text may be "". */
int image_form_parse(struct image_form *f, const char *text, opm_error *err);
/* To the form's size, and to width x height x channels where these are not 0: what no option says
 * is that the shorter side fits and the middle is taken. *name becomes what was done, in words. */
int image_fit(struct image *im, struct arena *a, const struct image_form *f, int width, int height,
              int channels, const char **name, opm_error *err);
/* A channel's byte as a float. */
static inline double image_float(const struct image_form *f, uint8_t v, int channel)
{
    double x = v / 255.0 * f->range;

    return f->normal ? (x - f->mean[channel % 3]) / f->std[channel % 3] : x;
}

#endif
