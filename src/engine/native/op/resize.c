/* resize.c -- Resize and Upsample.
 *
 * All modes are separable: for each axis a table says which input elements make an output element,
 * with which weights; the axes are then resized one after the other. Where an axis shrinks and
 * aliasing is to be avoided, the filter is stretched, and covers more elements. */
#include "engine/native/op/resize.h"
#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"

#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"

#include <math.h>
#include <string.h>

static int pick(const char *value, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(value, names[i]) == 0)
            return i;
    return -1;
}

static int read_modes(const struct op *op, struct resize *r, opm_error *err)
{
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    static const char *const coords[] = { "half_pixel",          "half_pixel_symmetric",
                                          "pytorch_half_pixel",  "align_corners",
                                          "asymmetric",          "tf_crop_and_resize",
                                          "tf_half_pixel_for_nn" };
    static const char *const nears[] = { "round_prefer_floor", "round_prefer_ceil", "floor",
                                         "ceil" };
    bool old = op->node->opset < 11;
    int m = pick(node_attr_str(op->node, "mode", "nearest"), modes, 3), c, n;

    c = pick(node_attr_str(op->node, "coordinate_transformation_mode",
                           old ? "asymmetric" : "half_pixel"),
             coords, (int)ARRAY_SIZE(coords));
    n = pick(node_attr_str(op->node, "nearest_mode", old ? "floor" : "round_prefer_floor"), nears,
             4);
    if (m < 0 || c < 0 || n < 0)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this mode");
    r->mode = (enum resize_mode)m;
    r->coord = (enum resize_coord)c;
    r->nearest = (enum resize_nearest)n;
    r->exclude = node_attr_int(op->node, "exclude_outside", 0);
    r->antialias = node_attr_int(op->node, "antialias", 0);
    r->cubic = node_attr_float(op->node, "cubic_coeff_a", -0.75f);
    r->extrapolation = node_attr_float(op->node, "extrapolation_value", 0);
    return 0;
}

static int read_roi(struct op *op, struct resize *r, const struct resizing *z, opm_error *err)
{
    const struct nt *roi = op->node->opset >= 11 ? kernel_in(op, 1) : NULL;

    for (int32_t i = 0; i < z->out.rank; i++) {
        r->roi[0][i] = 0;
        r->roi[1][i] = 1;
    }
    if (r->coord != COORD_CROP)
        return 0;
    if (!roi || roi->count != 2 * z->naxes || !(TYPE_BIT(roi->type) & TYPES_FLOAT))
        return kernel_fail(op, OPM_EINVAL, err, "roi does not fit the input");
    if (!kernel_data(op, 1))
        return NEED_DATA;
    for (int i = 0; i < z->naxes; i++) {
        r->roi[0][z->axis[i]] = nt_float(roi, i);
        r->roi[1][z->axis[i]] = nt_float(roi, z->naxes + i);
    }
    return 0;
}

/* Sizes and scales by the rules of the operator. */
static int read_sizes(struct op *op, struct resize *r, struct shape *out, opm_error *err)
{
    struct resizing z;
    struct view v;
    int rc;

    view_begin(&v, op, err);
    rc = resize_read(&v.base, &z);
    view_end(&v);
    if (!rc)
        rc = read_roi(op, r, &z, err);
    if (rc)
        return rc;
    memcpy(r->scale, z.scale, sizeof(r->scale));
    memcpy(r->on, z.on, sizeof(r->on));
    *out = z.out;
    return shape_concrete(&z.out) ? 0 : NEED_DATA;
}

static int check_axes(const struct op *op, const struct resize *r, const struct shape *out,
                      opm_error *err)
{
    const struct shape *in = &kernel_in(op, 0)->shape;

    for (int32_t i = 0; i < out->rank; i++) {
        if (r->on[i] && MAX(out->dim[i], in->dim[i]) > INT32_MAX)
            return kernel_fail(op, OPM_ELIMIT, err, "a dimension is too long");
        /* Only a region of interest can make a filter wider than the input. */
        if (r->on[i] && r->antialias && 1 / r->scale[i] > 4 * (double)in->dim[i] + 16)
            return kernel_fail(op, OPM_ELIMIT, err, "a scale of %g for %lld elements", r->scale[i],
                               (long long)in->dim[i]);
    }
    return 0;
}

int resize_prepare(struct op *op, opm_error *err)
{
    struct resize *r = kernel_new_state(op, sizeof(*r));
    struct shape s;
    int64_t biggest = 1;
    uint64_t types = TYPES_BYTES;
    int rc;

    if (!r)
        return kernel_nomem(op, err);
    rc = read_modes(op, r, err);
    if (!rc && r->mode != RESIZE_NEAREST)
        types = TYPE_BIT(TENSOR_F32) | TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_I8);
    if (!rc)
        rc = kernel_want(op, 0, types, err);
    if (!rc)
        rc = read_sizes(op, r, &s, err);
    if (!rc)
        rc = kernel_set(op, 0, kernel_in(op, 0)->type, &s, err);
    if (rc)
        return rc;
    rc = check_axes(op, r, &s, err);
    if (rc)
        return rc;
    for (int32_t i = 0; i < s.rank; i++) /* every intermediate result is smaller than this */
        if (__builtin_mul_overflow(biggest, MAX(MAX(s.dim[i], kernel_in(op, 0)->shape.dim[i]), 1),
                                   &biggest))
            return kernel_fail(op, OPM_ELIMIT, err, "the result is too big");
    if (biggest > PTRDIFF_MAX / 64)
        return kernel_fail(op, OPM_ELIMIT, err, "the result is too big");
    op->scratch_bytes = (size_t)biggest * 2 * MAX(nt_width(kernel_in(op, 0)->type), sizeof(float));
    return 0;
}

/* In float, as other runtimes: where an element falls between two, the last bit says which it is.
 */
static double source(const struct resize *r, int axis, int64_t o, int64_t in, int64_t out)
{
    float x = (float)o, s = (float)r->scale[axis];

    switch (r->coord) {
    case COORD_HALF:
        return (double)((x + 0.5f) / s - 0.5f);
    case COORD_HALF_SYM: {
        float adjust = (float)out / (s * (float)in), center = (float)in / 2;

        return (double)(center * (1 - adjust) + (x + 0.5f) / s - 0.5f);
    }
    case COORD_PYTORCH:
        return out > 1 ? (double)((x + 0.5f) / s - 0.5f) : 0;
    case COORD_ALIGN:
        /* The standard's length of the result is not rounded here. */
        return out > 1 ? (double)o * (double)(in - 1) / ((double)in * r->scale[axis] - 1) : 0;
    case COORD_ASYM:
        return (double)(x / s);
    case COORD_TF_HALF:
        return (double)((x + 0.5f) / s);
    default: {
        double a = r->roi[0][axis], b = r->roi[1][axis];

        return out > 1 ? a * (double)(in - 1) +
                             (double)o * (b - a) * (double)(in - 1) / (double)(out - 1)
                       : 0.5 * (a + b) * (double)(in - 1);
    }
    }
}

static int64_t nearest(const struct resize *r, double x)
{
    switch (r->nearest) {
    case NEAR_PREFER_FLOOR:
        return (int64_t)ceil(x - 0.5);
    case NEAR_PREFER_CEIL:
        return (int64_t)floor(x + 0.5);
    case NEAR_FLOOR:
        return (int64_t)floor(x);
    default:
        return (int64_t)ceil(x);
    }
}

void resize_tap(const struct resize *r, int axis, int64_t o, int64_t in, int64_t out, struct tap *t)
{
    double x = source(r, axis, o, in, out), f, sum = 0, a = (double)r->cubic;
    double w[RESIZE_TAPS];
    int64_t first;

    t->outside = r->coord == COORD_CROP && (x < 0 || x > (double)(in - 1));
    x = fmin(fmax(x, -1e9), 1e9);
    if (r->mode == RESIZE_NEAREST) {
        t->n = 1;
        t->w[0] = 1;
        t->at[0] = MIN(MAX(nearest(r, x), (int64_t)0), in - 1);
        return;
    }
    f = x - floor(x);
    first = (int64_t)floor(x) - (r->mode == RESIZE_CUBIC);
    t->n = r->mode == RESIZE_CUBIC ? 4 : 2;
    if (r->mode == RESIZE_LINEAR) {
        w[0] = 1 - f;
        w[1] = f;
    } else {
        w[0] = ((a * (f + 1) - 5 * a) * (f + 1) + 8 * a) * (f + 1) - 4 * a;
        w[1] = ((a + 2) * f - (a + 3)) * f * f + 1;
        w[2] = ((a + 2) * (1 - f) - (a + 3)) * (1 - f) * (1 - f) + 1;
        w[3] = ((a * (2 - f) - 5 * a) * (2 - f) + 8 * a) * (2 - f) - 4 * a;
    }
    for (int k = 0; k < t->n; k++) {
        if (r->exclude && (first + k < 0 || first + k >= in))
            w[k] = 0;
        sum += w[k];
        t->at[k] = MIN(MAX(first + k, (int64_t)0), in - 1);
    }
    for (int k = 0; k < t->n; k++)
        t->w[k] = (float)(r->exclude && sum != 0 ? w[k] / sum : w[k]);
}

/* The taps of all elements of an axis: tap q of element o is at[o * n + q]. Where weights are added
 * up along rows, tap by tap: at[q * m + o]. */
struct taps {
    int n;
    int32_t *at;
    float *w;
    bool *outside;
};

/* The filter of a mode at distance x. */
static double filter(const struct resize *r, double x)
{
    double a = (double)r->cubic;

    x = fabs(x);
    if (r->mode == RESIZE_LINEAR)
        return x < 1 ? 1 - x : 0;
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Elements under the filter at x, which is so much wider: [*from, *to]; both may be outside. */
static void under(const struct resize *r, int axis, double x, int64_t *from, int64_t *to)
{
    double reach = (r->mode == RESIZE_CUBIC ? 2 : 1) / fmin(r->scale[axis], 1);

    *from = (int64_t)floor(x - reach) + 1;
    *to = (int64_t)ceil(x + reach) - 1;
}

/* The same for an axis that is filtered; t has room for t->n taps. What is outside counts as the
 * element at the edge. */
static void spread(const struct resize *r, int axis, int64_t o, int64_t in, int64_t out,
                   const struct taps *t)
{
    double x = source(r, axis, o, in, out), scale = fmin(r->scale[axis], 1), sum = 0;
    int64_t from, to, first;
    float *w = t->w + o * t->n;

    t->outside[o] = r->coord == COORD_CROP && (x < 0 || x > (double)(in - 1));
    x = fmin(fmax(x, -1e9), 1e9);
    under(r, axis, x, &from, &to);
    first = MIN(MAX(from, (int64_t)0), in - 1);
    for (int q = 0; q < t->n; q++) {
        t->at[o * t->n + q] = (int32_t)MIN(first + q, in - 1);
        w[q] = 0;
    }
    for (int64_t p = from; p <= to; p++) {
        int64_t q = MIN(MAX(p, (int64_t)0), in - 1) - first;

        if (r->exclude && (p < 0 || p >= in))
            continue;
        w[q] += (float)filter(r, ((double)p - x) * scale);
    }
    for (int q = 0; q < t->n; q++)
        sum += (double)w[q];
    for (int q = 0; q < t->n && sum != 0; q++)
        w[q] = (float)((double)w[q] / sum);
}

/* How many elements of `in` are under the filter at most. */
static int64_t most_taps(const struct resize *r, int axis, int64_t in, int64_t out)
{
    int64_t most = 1;

    for (int64_t o = 0; o < out; o++) {
        double x = fmin(fmax(source(r, axis, o, in, out), -1e9), 1e9);
        int64_t from, to;

        under(r, axis, x, &from, &to);
        most = MAX(most, MIN(MAX(to, (int64_t)0), in - 1) - MIN(MAX(from, (int64_t)0), in - 1) + 1);
    }
    return most;
}

static void taps_release(struct taps *t)
{
    mem_free(t->at);
    mem_free(t->w);
    mem_free(t->outside);
}

static bool taps_make(const struct resize *r, int axis, int64_t in, int64_t out, struct taps *t)
{
    bool filtered = r->antialias && r->mode != RESIZE_NEAREST;
    int64_t n = filtered                    ? most_taps(r, axis, in, out)
                : r->mode == RESIZE_NEAREST ? 1
                : r->mode == RESIZE_LINEAR  ? 2
                                            : RESIZE_TAPS,
            all;

    *t = (struct taps){ .n = (int)n };
    if (__builtin_mul_overflow(n, out, &all) || all > PTRDIFF_MAX / 16)
        return false;
    t->at = mem_calloc((size_t)all + 1, sizeof(*t->at));
    t->w = mem_calloc((size_t)all + 1, sizeof(*t->w));
    t->outside = mem_calloc((size_t)out + 1, sizeof(*t->outside));
    if (!t->at || !t->w || !t->outside)
        return false;
    for (int64_t o = 0; o < out; o++) {
        struct tap tap;

        if (filtered) {
            spread(r, axis, o, in, out, t);
            continue;
        }
        resize_tap(r, axis, o, in, out, &tap);
        t->outside[o] = tap.outside;
        for (int q = 0; q < tap.n; q++) {
            t->at[o * n + q] = (int32_t)tap.at[q];
            t->w[o * n + q] = tap.w[q];
        }
    }
    return true;
}

/* From element by element to tap by tap. False when out of memory. */
static bool taps_turn(struct taps *t, int64_t m)
{
    int32_t *at = mem_calloc((size_t)(m * t->n) + 1, sizeof(*at));
    float *w = mem_calloc((size_t)(m * t->n) + 1, sizeof(*w));

    for (int64_t o = 0; o < m && at && w; o++)
        for (int q = 0; q < t->n; q++) {
            at[q * m + o] = t->at[o * t->n + q];
            w[q * m + o] = t->w[o * t->n + q];
        }
    mem_free(t->at);
    mem_free(t->w);
    t->at = at;
    t->w = w;
    return at && w;
}

struct axis_job {
    const struct resize *r;
    const struct isa *isa;
    struct taps taps;
    const char *in;
    char *out;
    int64_t n, m, inner;
    size_t width;
    bool copy;
    bool twice; /* each element of a row */
};

#define PICK(T)                                                         \
    if (j->twice)                                                       \
        for (int64_t o = 0; o < j->n; o++)                              \
            ((T *)(void *)out)[2 * o] = ((T *)(void *)out)[2 * o + 1] = \
                ((const T *)(const void *)in)[o];                       \
    else                                                                \
        for (int64_t o = 0; o < j->m; o++)                              \
        ((T *)(void *)out)[o] = ((const T *)(const void *)in)[j->taps.at[o]]

/* Rows of the last dimension. */
static void row_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct axis_job *j = arg;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const char *in = j->in + (size_t)(i * j->n) * j->width;
        char *out = j->out + (size_t)(i * j->m) * j->width;

        if (!j->copy) {
            float *to = (float *)(void *)out;

            j->isa->loops->taps(to, (const float *)(const void *)in, j->taps.at, j->taps.w, j->m,
                                j->taps.n);
            for (int64_t o = 0; o < j->m && j->r->coord == COORD_CROP; o++)
                to[o] = j->taps.outside[o] ? j->r->extrapolation : to[o];
            continue;
        }
        switch (j->width) {
        case 1:
            if (j->twice)
                j->isa->loops->twice8((uint8_t *)out, (const uint8_t *)in, j->n);
            else
                PICK(uint8_t);
            break;
        case 2:
            PICK(uint16_t);
            break;
        case 4:
            PICK(uint32_t);
            break;
        case 8:
            PICK(uint64_t);
            break;
        default:
            for (int64_t o = 0; o < j->m; o++)
                memcpy(out + (size_t)o * j->width, in + (size_t)j->taps.at[o] * j->width, j->width);
        }
    }
}

static void axis_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct axis_job *j = arg;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t o = i % j->m, base = i / j->m * j->n * j->inner;
        const int32_t *at = j->taps.at + o * j->taps.n;
        const float *w = j->taps.w + o * j->taps.n;

        if (j->copy) {
            memcpy(j->out + (size_t)(i * j->inner) * j->width,
                   j->in + (size_t)(base + at[0] * j->inner) * j->width,
                   (size_t)j->inner * j->width);
            continue;
        }
        const float *in = (const float *)(const void *)j->in + base, *row[RESIZE_TAPS];
        float *out = (float *)(void *)j->out + i * j->inner;

        for (int q = 0; q < MIN(j->taps.n, RESIZE_TAPS); q++)
            row[q] = in + at[q] * j->inner;
        j->isa->loops->mix(out, row, w, MIN(j->taps.n, RESIZE_TAPS), j->inner);
        for (int q = RESIZE_TAPS; q < j->taps.n; q++)
            j->isa->loops->axpy(out, in + at[q] * j->inner, w[q], j->inner);
        for (int64_t k = 0; k < j->inner && j->taps.outside[o]; k++)
            out[k] = j->r->extrapolation;
    }
}

/* Elements whose coordinate is outside in any axis, after all axes are done. */
static void extrapolate(const struct op *op, const struct resize *r, float *out)
{
    const struct shape *s = &kernel_out(op, 0)->shape, *in = &kernel_in(op, 0)->shape;

    for (int64_t i = 0; i < kernel_out(op, 0)->count; i++) {
        int64_t rest = i;

        for (int32_t d = s->rank - 1; d >= 0; d--) {
            double x = source(r, d, rest % s->dim[d], in->dim[d], s->dim[d]);

            rest /= s->dim[d];
            if (r->on[d] && (x < 0 || x > (double)(in->dim[d] - 1)))
                out[i] = r->extrapolation;
        }
    }
}

/* Nearest elements of the last two dimensions at once: a row of the result that comes from the same
 * row as the one before it is a copy of that. */
struct plane_job {
    struct axis_job row;
    const int32_t *from; /* rows of the input */
    int64_t h, rows;     /* of a plane, and of the result */
    bool twice; /* all of 4 bytes or one, in both directions; parts are rows of the input */
};

/* Bytes and rows, each twice. */
static void twice_bytes(const struct plane_job *p, int64_t begin, int64_t end)
{
    int64_t n = p->row.n;
    const uint8_t *in = (const uint8_t *)p->row.in + begin / 2 * n;
    uint8_t *out = (uint8_t *)p->row.out + begin * 2 * n;

    for (int64_t i = begin; i < end; i += 2, in += n, out += 4 * n) {
        p->row.isa->loops->twice8(out, in, n);
        memcpy(out + 2 * n, out, (size_t)(2 * n));
    }
}

/* The same of elements of 4 bytes. */
static void twice_part(const struct plane_job *p, int64_t begin, int64_t end)
{
    int64_t n = p->row.n;
    const float *in = (const float *)(const void *)p->row.in + begin / 2 * n;
    float *out = (float *)(void *)p->row.out + begin * 2 * n;

    for (int64_t i = begin; i < end; i += 2, in += n, out += 4 * n)
        p->row.isa->loops->twice(out, out + 2 * n, in, n);
}

static void plane_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct plane_job *p = arg;
    int64_t wide = p->row.m * (int64_t)p->row.width;

    if (p->twice) {
        (p->row.width == 1 ? twice_bytes : twice_part)(p, 2 * begin, 2 * end);
        return;
    }

    for (int64_t i = begin; i < end; i++) {
        struct axis_job j = p->row;
        int64_t o = i % p->rows;

        j.in += (i / p->rows * p->h + p->from[o]) * j.n * (int64_t)j.width;
        j.out += i * wide;
        if (i > begin && o && p->from[o] == p->from[o - 1])
            memcpy(j.out, j.out - wide, (size_t)wide);
        else
            row_part(&j, 0, 1, thread);
    }
}

static int nearest_planes(struct op *op, const struct resize *r, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *out = kernel_out(op, 0);
    int32_t d = in->shape.rank - 2;
    struct plane_job p = { .row = { .r = r,
                                    .isa = kernel_isa(op),
                                    .in = in->data,
                                    .out = out->data,
                                    .n = in->shape.dim[d + 1],
                                    .m = out->shape.dim[d + 1],
                                    .inner = 1,
                                    .width = nt_width(in->type),
                                    .copy = true },
                           .h = in->shape.dim[d],
                           .rows = out->shape.dim[d] };
    struct taps rows = { 0 };
    bool ok =
        taps_make(r, d + 1, p.row.n, p.row.m, &p.row.taps) && taps_make(r, d, p.h, p.rows, &rows);

    p.row.twice = ok && p.row.m == 2 * p.row.n;
    for (int64_t o = 0; ok && o < p.row.m; o++)
        p.row.twice &= p.row.taps.at[o] == o / 2;
    p.from = rows.at;
    p.twice = p.row.twice && (p.row.width == 4 || p.row.width == 1) && p.rows == 2 * p.h;
    for (int64_t o = 0; ok && o < p.rows; o++)
        p.twice &= rows.at[o] == o / 2;
    if (ok)
        pool_for(kernel_pool(op), nt_span(&out->shape, 0, d + 1) / (p.twice ? 2 : 1),
                 MAX(4096 / (p.row.m + 1), (int64_t)1), plane_part, &p);
    taps_release(&p.row.taps);
    taps_release(&rows);
    return ok ? 0 : kernel_nomem(op, err);
}

/* Nothing but the last two dimensions is resized. */
static bool is_planes(const struct op *op, const struct resize *r)
{
    int32_t rank = kernel_in(op, 0)->shape.rank;

    for (int32_t d = 0; d < rank - 2; d++)
        if (r->on[d])
            return false;
    return rank >= 2 && r->on[rank - 1] && r->on[rank - 2];
}

static int resize_axis(struct op *op, struct axis_job *j, int d, int64_t outer, opm_error *err)
{
    bool ok = taps_make(j->r, d, j->n, j->m, &j->taps);

    if (ok && j->inner == 1)
        ok = taps_turn(&j->taps, j->m);
    if (ok && j->inner == 1)
        pool_for(kernel_pool(op), outer, MAX(2048 / (j->m + 1), (int64_t)1), row_part, j);
    else if (ok)
        pool_for(kernel_pool(op), outer * j->m, MAX(4096 / (j->inner + 1), (int64_t)1), axis_part,
                 j);
    taps_release(&j->taps);
    return ok ? 0 : kernel_nomem(op, err);
}

/* last: where the result of the last axis goes, or NULL. What grows is resized along the rows
 * first, what shrinks across them: rows are the slower ones. */
static int resize_axes(struct op *op, const struct resize *r, const char *from, char *buf[2],
                       size_t width, bool copy, char *last, const char **result, opm_error *err)
{
    struct shape s = kernel_in(op, 0)->shape;
    const struct shape *to = &kernel_out(op, 0)->shape;
    bool grows = kernel_out(op, 0)->count > kernel_in(op, 0)->count;
    int side = 0, left = 0;

    for (int32_t d = 0; d < s.rank; d++)
        left += r->on[d];
    for (int32_t i = 0; i < s.rank; i++) {
        int32_t d = grows ? s.rank - 1 - i : i;
        struct axis_job j = { .r = r,
                              .isa = kernel_isa(op),
                              .in = from,
                              .out = buf[side],
                              .width = width,
                              .copy = copy,
                              .n = s.dim[d],
                              .m = to->dim[d],
                              .inner = nt_span(&s, d + 1, s.rank) };
        int rc;

        if (!r->on[d])
            continue;
        if (--left == 0 && last)
            j.out = last;
        rc = resize_axis(op, &j, d, nt_span(&s, 0, d), err);
        if (rc)
            return rc;
        s.dim[d] = j.m;
        from = j.out;
        side = !side;
    }
    *result = from;
    return 0;
}

int resize_run(struct op *op, opm_error *err)
{
    const struct resize *r = op->state;
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    bool copy = r->mode == RESIZE_NEAREST, wide = !copy && in->type != TENSOR_F32;
    char *buf[2] = { op->scratch, (char *)op->scratch + op->scratch_bytes / 2 };
    const char *result = in->data;
    int rc;

    if (out->count == 0)
        return 0;
    if (copy && r->coord != COORD_CROP && is_planes(op, r))
        return nearest_planes(op, r, err);
    if (wide) { /* bytes are computed as floats */
        float *f = (float *)(void *)buf[1];

        kernel_isa(op)->rows->cast[in->type][TENSOR_F32](f, in->data, in->count);
        result = buf[1];
    }
    rc = resize_axes(op, r, result, buf, copy ? nt_width(in->type) : sizeof(float), copy,
                     wide ? NULL : out->data, &result, err);
    if (rc)
        return rc;
    if (wide) {
        float *f = (float *)(uintptr_t)result;
        const struct isa *isa = kernel_isa(op);
        bool below = out->type == TENSOR_I8;

        /* Filters round, interpolation cuts off: as other runtimes do. */
        if (r->antialias)
            isa->unary(U_ROUND, f, f, out->count, 0, 0);
        isa->unary(U_CLIP, f, f, out->count, below ? -128 : 0, below ? 127 : 255);
        isa->rows->cast[TENSOR_F32][out->type](out->data, f, out->count);
        return 0;
    }
    if (result != out->data)
        memcpy(out->data, result, out->bytes);
    if (r->coord == COORD_CROP && out->type == TENSOR_F32)
        extrapolate(op, r, out->data);
    return 0;
}
