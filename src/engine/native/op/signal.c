/* signal.c -- windows, DFT, STFT, MelWeightMatrix. */
#include "engine/native/math/fft.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* kernel arg 0: Hann, 1: Hamming, 2: Blackman */
int window_prepare(struct op *op, opm_error *err)
{
    const struct nt *size = kernel_in(op, 0);
    int64_t type = node_attr_int(op->node, "output_datatype", TENSOR_F32);
    int rc = kernel_want(op, 0, TYPES_INDEX, err);

    if (rc)
        return rc;
    if (type != TENSOR_F32 && type != TENSOR_F64)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this output type");
    if (size->count != 1)
        return kernel_fail(op, OPM_EINVAL, err, "size must be one number");
    return kernel_infer(op, err);
}

int window_run(struct op *op, opm_error *err)
{
    struct nt *out = kernel_out(op, 0);
    double n = (double)out->count - (node_attr_int(op->node, "periodic", 1) ? 0 : 1);

    (void)err;
    for (int64_t i = 0; i < out->count; i++) {
        double a = 2 * M_PI * (double)i / n, v;

        if (op->kernel->arg == WINDOW_HANN)
            v = 0.5 - 0.5 * cos(a);
        else if (op->kernel->arg == WINDOW_HAMMING)
            v = 25.0 / 46 - 21.0 / 46 * cos(a);
        else
            v = 0.42 - 0.5 * cos(a) + 0.08 * cos(2 * a);
        if (out->type == TENSOR_F32)
            ((float *)out->data)[i] = (float)v;
        else
            ((double *)out->data)[i] = v;
    }
    return 0;
}

int mel_prepare(struct op *op, opm_error *err)
{
    for (uint32_t i = 0; i < 5; i++) {
        int rc = kernel_want(op, i, i < 3 ? TYPES_INDEX : TYPES_FLOAT, err);

        if (rc)
            return rc;
        if (kernel_in(op, i)->count != 1)
            return kernel_fail(op, OPM_EINVAL, err, "input %u must be one number", i);
        if (!kernel_data(op, i))
            return NEED_DATA;
    }
    if (nt_int(kernel_in(op, 2), 0) < 1)
        return kernel_fail(op, OPM_EINVAL, err, "sizes are out of range");
    if (node_attr_int(op->node, "output_datatype", TENSOR_F32) != TENSOR_F32)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this output type");
    return kernel_infer(op, err);
}

static double to_mel(double hz)
{
    return 2595 * log10(1 + hz / 700);
}

int mel_run(struct op *op, opm_error *err)
{
    struct nt *out = kernel_out(op, 0);
    int64_t bins = out->shape.dim[1], rows = out->shape.dim[0], dft = nt_int(kernel_in(op, 1), 0);
    double lo = to_mel(nt_float(kernel_in(op, 3), 0)), hi = to_mel(nt_float(kernel_in(op, 4), 0)),
           rate = (double)nt_int(kernel_in(op, 2), 0), step = (hi - lo) / (double)(bins + 2),
           edge[3] = { 0 };
    float *m = out->data;

    (void)err;
    memset(m, 0, out->bytes);
    for (int64_t b = 0; b < bins; b++) {
        for (int k = b ? 2 : 0; k < 3; k++) {
            double hz = 700 * (pow(10, ((double)(b + k) * step + lo) / 2595) - 1);

            edge[0] = edge[1];
            edge[1] = edge[2];
            edge[2] = floor((double)(dft + 1) * hz / rate);
        }
        if (edge[1] == edge[0] && edge[1] >= 0 && edge[1] < (double)rows)
            m[(int64_t)edge[1] * bins + b] = 1;
        for (int64_t i = (int64_t)fmin(fmax(edge[0], 0), (double)rows);
             i < rows && (double)i <= fmax(edge[1], edge[2]); i++) {
            double x = (double)i;

            if (x >= edge[0] && x <= edge[1] && edge[1] > edge[0])
                m[i * bins + b] = (float)((x - edge[0]) / (edge[1] - edge[0]));
            else if (x >= edge[1] && x < edge[2] && edge[2] > edge[1])
                m[i * bins + b] = (float)((edge[2] - x) / (edge[2] - edge[1]));
        }
    }
    return 0;
}

/* Rows that are transformed: DFT's, or STFT's frames. */
struct transform {
    struct fft *fft;
    int64_t n, out, have; /* points, how many go out, and how many come in: others are 0 */
    int64_t rows, parts;  /* parts: 2 if complex */
    bool inverse;
    bool half; /* inverse: half a spectrum comes in, real points go out */
    /* Where row r begins, r / per and r % per times these, and from one point to the next. */
    int64_t per, in_far, in_near, in_step, out_far, out_near, out_step;
    int64_t side; /* rows of the transform side by side; two real ones are one of them */
};

static void transform_release(void *state)
{
    fft_free(((struct transform *)state)->fft);
}

static struct transform *transform_state(struct op *op)
{
    struct transform *f = kernel_new_state(op, sizeof(*f));

    op->release = f ? transform_release : NULL;
    return f;
}

/* Real rows go in pairs, one of them as the imaginary part. */
static int64_t transform_rows(const struct transform *f)
{
    return f->parts == 2 ? f->rows : (f->rows + 1) / 2;
}

/* n as it was, and f->n what is wanted: tables and room for them. */
static int transform_plan(struct op *op, struct transform *f, int64_t n, opm_error *err)
{
    if (f->fft && n != f->n) {
        fft_free(f->fft);
        f->fft = NULL;
    }
    if (!f->fft)
        f->fft = fft_new(f->n);
    if (!f->fft)
        return kernel_nomem(op, err);
    f->side = fft_rows(f->fft, transform_rows(f));
    op->scratch_bytes =
        (size_t)(fft_room(f->fft, f->side) * pool_threads(kernel_pool(op))) * sizeof(double);
    return 0;
}

struct transform_job {
    const struct op *op;
    const struct transform *f;
    const struct nt *window; /* or NULL */
};

static inline double read(const struct nt *t, bool wide, int64_t i)
{
    return wide ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static inline void write(struct nt *t, bool wide, int64_t i, double v)
{
    if (wide)
        ((double *)t->data)[i] = v;
    else
        ((float *)t->data)[i] = (float)v;
}

/* The other half of the spectra of real signals; what would make them complex is left out. */
static void mirror_rows(double *re, double *im, int64_t n, int64_t rows)
{
    for (int64_t b = 0; b < rows; b++) {
        im[b] = 0;
        if (n % 2 == 0)
            im[n / 2 * rows + b] = 0;
        for (int64_t k = 1; k < n - k; k++) {
            re[(n - k) * rows + b] = re[k * rows + b];
            im[(n - k) * rows + b] = -im[k * rows + b];
        }
    }
}

/* `rows` rows of the transform from `first` on, into re and im. */
static inline void load_rows(const struct transform_job *j, double *re, double *im, int64_t first,
                             int64_t rows, bool wide)
{
    const struct transform *f = j->f;
    const struct nt *in = kernel_in(j->op, 0);
    int64_t have = MIN(f->have, f->half ? f->n / 2 + 1 : f->n), pair = f->parts == 2 ? 1 : 2;

    for (int64_t b = 0; b < rows; b++) {
        int64_t r = (first + b) * pair, q = r + 1;
        int64_t at = r / f->per * f->in_far + r % f->per * f->in_near,
                other = q / f->per * f->in_far + q % f->per * f->in_near;
        bool two = pair == 2 && q < f->rows;

        for (int64_t t = 0; t < have; t++) {
            double w = j->window ? read(j->window, wide, t) : 1;

            re[t * rows + b] = read(in, wide, at + t * f->in_step) * w;
            im[t * rows + b] = pair == 1 ? read(in, wide, at + t * f->in_step + 1) * w
                               : two     ? read(in, wide, other + t * f->in_step) * w
                                         : 0;
        }
    }
    memset(re + have * rows, 0, (size_t)((f->n - have) * rows) * sizeof(double));
    memset(im + have * rows, 0, (size_t)((f->n - have) * rows) * sizeof(double));
    if (f->half)
        mirror_rows(re, im, f->n, rows);
}

static inline void store_rows(const struct transform_job *j, const double *re, const double *im,
                              int64_t first, int64_t rows, bool wide)
{
    const struct transform *f = j->f;
    struct nt *out = kernel_out(j->op, 0);
    int64_t pair = f->parts == 2 ? 1 : 2;
    double scale = (f->inverse ? 1 / (double)f->n : 1) / (double)pair;

    for (int64_t b = 0; b < rows; b++) {
        int64_t r = (first + b) * pair, q = r + 1;
        int64_t at = r / f->per * f->out_far + r % f->per * f->out_near,
                other = q / f->per * f->out_far + q % f->per * f->out_near;

        for (int64_t k = 0; k < f->out; k++) {
            int64_t i = k * rows + b, m = (k ? f->n - k : 0) * rows + b, to = k * f->out_step;

            if (pair == 1) {
                write(out, wide, at + to, re[i] * scale);
                if (f->half)
                    continue;
                write(out, wide, at + to + 1, im[i] * scale);
                continue;
            }
            /* A real row's transform is even, an imaginary one's odd. */
            write(out, wide, at + to, (re[i] + re[m]) * scale);
            write(out, wide, at + to + 1, (im[i] - im[m]) * scale);
            if (q < f->rows) {
                write(out, wide, other + to, (im[i] + im[m]) * scale);
                write(out, wide, other + to + 1, (re[m] - re[i]) * scale);
            }
        }
    }
}

static void transform_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct transform_job *j = arg;
    const struct transform *f = j->f;
    double *room = (double *)j->op->scratch + fft_room(f->fft, f->side) * thread;
    bool wide = kernel_in(j->op, 0)->type == TENSOR_F64;

    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * f->side, rows = MIN(f->side, transform_rows(f) - first);
        double *out;

        if (wide)
            load_rows(j, room, room + f->n * rows, first, rows, true);
        else
            load_rows(j, room, room + f->n * rows, first, rows, false);
        out = fft_run(f->fft, kernel_isa(j->op)->loops, room, rows, f->inverse);
        if (wide)
            store_rows(j, out, out + f->n * rows, first, rows, true);
        else
            store_rows(j, out, out + f->n * rows, first, rows, false);
    }
}

static void transform_run(const struct op *op, const struct nt *window)
{
    struct transform_job j = { op, op->state, window };

    pool_for(kernel_pool(op), (transform_rows(j.f) + j.f->side - 1) / j.f->side, 1, transform_part,
             &j);
}

int dft_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *len = kernel_in(op, 1), *ax = kernel_in(op, 2);
    struct transform *f = transform_state(op);
    struct shape s;
    int64_t attr = node_attr_int(op->node, "axis", 1), old, inner;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err), axis;

    if (!f)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    s = in->shape;
    if (op->node->opset >= 20) {
        attr = -2;
        if (ax && !kernel_data(op, 2))
            return NEED_DATA;
        if (ax && ax->count == 1)
            attr = nt_int(ax, 0);
    }
    axis = nt_axis(attr, s.rank);
    f->inverse = node_attr_int(op->node, "inverse", 0);
    if (s.rank < 2 || axis < 0 || axis == s.rank - 1 || s.dim[s.rank - 1] < 1 ||
        s.dim[s.rank - 1] > 2)
        return kernel_fail(op, OPM_EINVAL, err, "axis or last dimension does not fit");
    f->half = f->inverse && node_attr_int(op->node, "onesided", 0);
    if (f->half && s.dim[s.rank - 1] != 2)
        return kernel_fail(op, OPM_EINVAL, err, "the inverse of half a spectrum wants it complex");
    old = f->n;
    f->n = f->have = s.dim[axis];
    if (f->half)
        f->n = 2 * (f->have - 1);
    if (len) {
        if (len->count != 1 || !(TYPE_BIT(len->type) & TYPES_INDEX))
            return kernel_fail(op, OPM_EINVAL, err, "length must be one number");
        if (!kernel_data(op, 1))
            return NEED_DATA;
        f->n = nt_int(len, 0);
    }
    if (f->n < 1)
        return kernel_fail(op, OPM_EINVAL, err, "length %lld", (long long)f->n);
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    inner = nt_span(&s, axis + 1, s.rank - 1);
    f->out = kernel_out(op, 0)->shape.dim[axis];
    f->parts = s.dim[s.rank - 1];
    f->rows = nt_span(&s, 0, axis) * inner;
    f->per = MAX(inner, (int64_t)1);
    f->in_near = f->parts;
    f->in_step = inner * f->parts;
    f->in_far = f->have * f->in_step;
    f->out_near = f->half ? 1 : 2;
    f->out_step = inner * f->out_near;
    f->out_far = f->out * f->out_step;
    return transform_plan(op, f, old, err);
}

int dft_run(struct op *op, opm_error *err)
{
    (void)err;
    transform_run(op, NULL);
    return 0;
}

int stft_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *step = kernel_in(op, 1), *window = kernel_in(op, 2),
                    *len = kernel_in(op, 3);
    struct transform *f = transform_state(op);
    int64_t old, hop;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!f)
        return kernel_nomem(op, err);
    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    if (!rc && window)
        rc = kernel_want(op, 2, TYPE_BIT(in->type), err);
    if (rc)
        return rc;
    if (in->shape.rank < 2 || in->shape.rank > 3 ||
        (in->shape.rank == 3 && (in->shape.dim[2] < 1 || in->shape.dim[2] > 2)) ||
        step->count != 1 || (len && len->count != 1) || (!len && !window))
        return kernel_fail(op, OPM_EINVAL, err, "inputs do not fit");
    if (!kernel_data(op, 1) || (len && !kernel_data(op, 3)))
        return NEED_DATA;
    hop = nt_int(step, 0);
    old = f->n;
    f->n = f->have = len ? nt_int(len, 0) : window->count;
    if (hop < 1 || f->n < 1 || f->n > in->shape.dim[1] || (window && window->count != f->n))
        return kernel_fail(op, OPM_EINVAL, err, "step or frame length does not fit");
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    f->per = kernel_out(op, 0)->shape.dim[1];
    f->out = kernel_out(op, 0)->shape.dim[2];
    f->parts = in->shape.rank == 3 ? in->shape.dim[2] : 1;
    f->rows = in->shape.dim[0] * f->per;
    f->in_far = in->shape.dim[1] * f->parts;
    f->in_near = hop * f->parts;
    f->in_step = f->parts;
    f->out_near = f->out * 2;
    f->out_far = f->per * f->out_near;
    f->out_step = 2;
    return transform_plan(op, f, old, err);
}

int stft_run(struct op *op, opm_error *err)
{
    (void)err;
    transform_run(op, kernel_in(op, 2));
    return 0;
}
