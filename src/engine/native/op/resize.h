/* resize.h -- which input elements make an output element of Resize. */
#ifndef NATIVE_RESIZE_H
#define NATIVE_RESIZE_H

#include "engine/native/op.h"

enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };
enum resize_coord {
    COORD_HALF,
    COORD_HALF_SYM,
    COORD_PYTORCH,
    COORD_ALIGN,
    COORD_ASYM,
    COORD_CROP,
    COORD_TF_HALF
};
enum resize_nearest { NEAR_PREFER_FLOOR, NEAR_PREFER_CEIL, NEAR_FLOOR, NEAR_CEIL };

struct resize {
    enum resize_mode mode;
    enum resize_coord coord;
    enum resize_nearest nearest;
    bool exclude, antialias;
    float cubic, extrapolation;
    double scale[SHAPE_RANK_MAX], roi[2][SHAPE_RANK_MAX];
    bool on[SHAPE_RANK_MAX];
};

#define RESIZE_TAPS 4

struct tap {
    int64_t at[RESIZE_TAPS];
    float w[RESIZE_TAPS];
    int n;
    bool outside; /* gets the extrapolation value */
};

/* Output element o of an axis that goes from `in` to `out` elements. Not for r->antialias unless
 * mode is RESIZE_NEAREST, which it does not change: that takes as many elements as lie under the
 * filter. */
void resize_tap(const struct resize *r, int axis, int64_t o, int64_t in, int64_t out,
                struct tap *t);

#endif
