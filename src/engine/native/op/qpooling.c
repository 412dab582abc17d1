/* qpooling.c -- pooling of bytes: com.microsoft's QLinearAveragePool, QLinearGlobalAveragePool and
 * QLinearReduceMean, and MaxPool between values of the same scale. */
#include "engine/native/math/infer.h"
#include "engine/native/math/q8.h"
#include "engine/native/math/window.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"

#include <string.h>

/* X, its scale and zero point, the scale and zero point of the result. MaxPool: X only. */
struct qpool {
    struct window w;
    int64_t planes;
    int64_t reach; /* columns where a window may begin, padding included */
    int64_t line;  /* and those that it covers; AveragePool: and what may be read beyond */
    bool rows;     /* AveragePool: by lines_part(), which has scratch memory for each thread */
    size_t each;
};

/* AveragePool by rows: so many, and steps along x that the loops have. */
#define ROWS_MAX 32
#define TAPS_MAX 32
#define STEP_MAX 4

struct shape qpool_mean_shape(const struct op *op)
{
    struct shape s = kernel_in(op, 0)->shape;

    for (int32_t i = 2; i < s.rank; i++)
        s.dim[i] = 1;
    if (!node_attr_int(op->node, "keepdims", 1))
        s.rank = 2;
    return s;
}

int qpool_prepare(struct op *op, opm_error *err)
{
    struct qpool *q = kernel_new_state(op, sizeof(*q));
    bool max = op->kernel->arg == QPOOL_MAX;
    const struct nt *x = kernel_in(op, 0), *xz = max ? NULL : kernel_in(op, 2),
                    *yz = max ? NULL : kernel_in(op, 4);
    struct shape s;
    int rc = kernel_want(op, 0, TYPES_Q8, err);

    if (!q)
        return kernel_nomem(op, err);
    for (uint32_t i = 1; i < 5 && !max && !rc; i += 2) {
        rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
        if (!rc && kernel_in(op, i)->count != 1)
            rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "scale must be one number");
    }
    if (rc)
        return rc;
    if ((xz && (xz->type != x->type || xz->count != 1)) ||
        (yz && (yz->type != x->type || yz->count != 1)) ||
        (!max && node_attr_int(op->node, "channels_last", 0)) || x->shape.rank < 3)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these operands");
    q->planes = x->shape.dim[0] * x->shape.dim[1];
    if (op->kernel->arg == QPOOL_GLOBAL)
        return kernel_infer(op, err);
    if (op->kernel->arg == QPOOL_MEAN) {
        s = qpool_mean_shape(op);
        return kernel_set(op, 0, x->type, &s, err);
    }
    rc = window_pool(&q->w, op, &x->shape, &s, err);
    if (!rc && q->w.nd > 2)
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %d spatial dimensions", q->w.nd);
    if (rc)
        return rc;
    q->rows = op->kernel->arg == QPOOL_AVERAGE && q->w.kernel[1] <= ROWS_MAX &&
              q->w.kernel[2] <= TAPS_MAX && q->w.stride[2] <= STEP_MAX;
    q->reach = MAX((q->w.out[2] - 1) * q->w.stride[2] + 1, (int64_t)1);
    q->line = MAX(q->reach + (q->w.kernel[2] - 1) * q->w.dilation[2], q->w.before[2] + q->w.in[2]);
    q->each = 2 * (size_t)q->line;
    if (q->rows) {
        q->line = (q->line + TAPS_MAX + Q8_BEYOND + 63) / 64 * 64;
        q->each = (size_t)(q->line * q->w.kernel[1]) +
                  ((size_t)q->w.out[2] * sizeof(int32_t) + 63) / 64 * 64 * 3;
    }
    op->scratch_bytes = q->each * (size_t)pool_threads(kernel_pool(op));
    return kernel_set(op, 0, x->type, &s, err);
}

static void emit(const struct op *op, int64_t at, int32_t sum, int64_t n)
{
    struct q8_out o = { 0 };
    float y = *(const float *)kernel_in(op, 3)->data,
          scale = *(const float *)kernel_in(op, 1)->data / (y * (float)MAX(n, (int64_t)1));
    int32_t add = -(int32_t)n * q8_zero(kernel_in(op, 2), 0);

    q8_limits(op, y, kernel_in(op, 4), &o.lo, &o.hi, &o.zero);
    o.add = &add;
    o.scale = &scale;
    kernel_q8(op)->to_bytes((uint8_t *)kernel_out(op, 0)->data + at, &sum, 1, &o);
}

static void global_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct nt *x = kernel_in(op, 0);
    int64_t n = nt_span(&x->shape, 2, x->shape.rank);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int32_t sum = 0;

        if (x->type == TENSOR_U8)
            sum = kernel_q8(op)->sum((const uint8_t *)x->data + i * n, n);
        else
            for (int64_t k = 0; k < n; k++)
                sum += ((const int8_t *)x->data)[i * n + k];
        emit(op, i, sum, n);
    }
}

/* The part of a window that lies within the image. */
static void clip_window(const struct window *w, int d, int64_t o, int64_t *from, int64_t *to)
{
    *from = o * w->stride[d] - w->before[d];
    *to = MIN(*from + w->kernel[d], w->in[d]);
    *from = MAX(*from, (int64_t)0);
}

static void average_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct qpool *q = op->state;
    const struct window *w = &q->w;
    const struct nt *x = kernel_in(op, 0);
    bool pads = node_attr_int(op->node, "count_include_pad", 0);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t ox = i % w->out[2], oy = i / w->out[2] % w->out[1],
                plane = i / (w->out[2] * w->out[1]), y0, y1, x0, x1, n;
        int32_t sum = 0;

        clip_window(w, 1, oy, &y0, &y1);
        clip_window(w, 2, ox, &x0, &x1);
        for (int64_t y = y0; y < y1; y++)
            for (int64_t k = x0; k < x1; k++)
                sum += q8_at(x, (plane * w->in[1] + y) * w->in[2] + k);
        n = MAX(y1 - y0, (int64_t)0) * MAX(x1 - x0, (int64_t)0);
        if (pads) { /* which hold zeros, that is the zero point */
            sum += (int32_t)(w->kernel[1] * w->kernel[2] - n) * q8_zero(kernel_in(op, 2), 0);
            n = w->kernel[1] * w->kernel[2];
        }
        emit(op, i, sum, n);
    }
}

/* How many of a window along x lie within the image. */
static int64_t columns_inside(const struct window *w, int64_t o)
{
    int64_t from, to;

    clip_window(w, 2, o, &from, &to);
    return MAX(to - from, (int64_t)0);
}

/* Rows of the result: those of a window are copied, with what is beyond them, and each of its
 * columns is summed up. As unsigned bytes, which signed ones are turned into on the way. */
static void lines_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct qpool *q = op->state;
    const struct window *w = &q->w;
    const struct q8_isa *isa = kernel_q8(op);
    uint8_t flip = kernel_in(op, 0)->type == TENSOR_I8 ? 0x80 : 0, *line[ROWS_MAX];
    int32_t zero = q8_zero(kernel_in(op, 2), 0) + (flip ? 128 : 0);
    bool pads = node_attr_int(op->node, "count_include_pad", 0);
    float y = *(const float *)kernel_in(op, 3)->data, x = *(const float *)kernel_in(op, 1)->data;
    int groups = (int)(w->kernel[2] + 3) / 4;
    size_t room = ((size_t)w->out[2] * sizeof(int32_t) + 63) / 64 * 64;
    uint8_t *at = (uint8_t *)op->scratch + (size_t)thread * q->each;
    int32_t *sum = (void *)(at + q->line * w->kernel[1]), *add = (void *)((char *)sum + room);
    float *scale = (void *)((char *)add + room);
    struct q8_out o = { .add = add, .scale = scale, .add_step = 1, .scale_step = 1 };
    int8_t taps[ROWS_MAX * TAPS_MAX];
    int64_t known = -1;

    for (int64_t r = 0; r < w->kernel[1]; r++) {
        line[r] = at + r * q->line;
        memset(line[r], pads ? zero : 0, (size_t)q->line);
        /* bounded: larger windows go by average_part() */
        memset(taps + r * groups * 4, 0, (size_t)groups * 4);
        /* bounded: likewise */
        memset(taps + r * groups * 4, 1, (size_t)w->kernel[2]);
    }
    q8_limits(op, y, kernel_in(op, 4), &o.lo, &o.hi, &o.zero);
    for (int64_t i = begin; i < end; i++) { /* one row of one plane */
        const uint8_t *in =
            (const uint8_t *)kernel_in(op, 0)->data + i / w->out[1] * w->in[1] * w->in[2];
        int64_t y0, y1, rows;
        int n = 0;

        clip_window(w, 1, i % w->out[1], &y0, &y1);
        for (int64_t k = y0; k < y1; k++, n++) {
            memset(line[n] + w->before[2], 0, (size_t)w->in[2]);
            isa->largest(line[n] + w->before[2], in + k * w->in[2], w->in[2], flip);
        }
        rows = n;
        for (; pads && n < w->kernel[1]; n++)
            memset(line[n] + w->before[2], zero, (size_t)w->in[2]);
        for (int64_t k = 0; k < w->out[2] && rows != known; k++) {
            int64_t count = pads ? w->kernel[1] * w->kernel[2] : rows * columns_inside(w, k);

            add[k] = -(int32_t)count * zero;
            scale[k] = x / (y * (float)MAX(count, (int64_t)1));
        }
        known = rows;
        isa->depthwise(sum, w->out[2], (const uint8_t *const *)line, n, groups, (int)w->stride[2],
                       taps);
        isa->to_bytes((uint8_t *)kernel_out(op, 0)->data + i * w->out[2], sum, w->out[2], &o);
    }
}

/* As unsigned bytes: signed ones are turned into such on the way. The rows of a window first, into
 * a line with room for what is padded, then its columns. */
static void max_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct qpool *q = op->state;
    const struct window *w = &q->w;
    const struct q8_isa *isa = kernel_q8(op);
    uint8_t flip = kernel_in(op, 0)->type == TENSOR_I8 ? 0x80 : 0;
    uint8_t *line = (uint8_t *)op->scratch + (size_t)thread * q->each, *most = line + q->line,
            *inside = line + w->before[2];

    for (int64_t i = begin; i < end; i++) { /* one row of one plane */
        const uint8_t *in =
            (const uint8_t *)kernel_in(op, 0)->data + i / w->out[1] * w->in[1] * w->in[2];
        uint8_t *out = (uint8_t *)kernel_out(op, 0)->data + i * w->out[2];

        memset(line, 0, (size_t)q->line);
        for (int64_t k = 0; k < w->kernel[1]; k++) {
            int64_t y = i % w->out[1] * w->stride[1] - w->before[1] + k * w->dilation[1];
            const uint8_t *row = in + y * w->in[2];

            if (y < 0 || y >= w->in[1])
                continue;
            isa->largest(inside, row, w->in[2], flip);
        }
        memcpy(most, line, (size_t)q->line);
        for (int64_t k = 1; k < w->kernel[2]; k++)
            isa->largest(most, line + k * w->dilation[2], q->reach, 0);
        for (int64_t o = 0; o < w->out[2]; o++)
            out[o] = most[o * w->stride[2]] ^ flip;
    }
}

int qpool_run(struct op *op, opm_error *err)
{
    const struct qpool *q = op->state;
    int64_t n = kernel_out(op, 0)->count;

    (void)err;
    if (op->kernel->arg == QPOOL_GLOBAL || op->kernel->arg == QPOOL_MEAN)
        pool_for(kernel_pool(op), n, 16, global_part, op);
    else if (q->rows && n)
        pool_for(kernel_pool(op), q->planes * q->w.out[1], MAX(4096 / (q->w.in[2] + 1), (int64_t)1),
                 lines_part, op);
    else if (op->kernel->arg == QPOOL_AVERAGE)
        pool_for(kernel_pool(op), n, 256, average_part, op);
    else if (n)
        pool_for(kernel_pool(op), q->planes * q->w.out[1], MAX(4096 / (q->w.in[2] + 1), (int64_t)1),
                 max_part, op);
    return 0;
}

/* QLinearReduceMean over any dimensions: X, its scale and zero point, the result's. */
int qmean_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *xz = kernel_in(op, 2), *yz = kernel_in(op, 4);
    int rc = kernel_want(op, 0, TYPES_Q8, err);

    for (uint32_t i = 1; i < 5 && !rc; i += 2) {
        rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
        if (!rc && kernel_in(op, i)->count != 1)
            rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "scale must be one number");
    }
    if (rc)
        return rc;
    if ((xz && (xz->type != x->type || xz->count != 1)) ||
        (yz && (yz->type != x->type || yz->count != 1)))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these zero points");
    rc = kernel_infer(op, err);
    if (!rc)
        op->scratch_bytes = (size_t)kernel_out(op, 0)->count * sizeof(int32_t);
    return rc;
}

int qmean_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *out = kernel_out(op, 0);
    int32_t *sum = op->scratch;
    int64_t step[SHAPE_RANK_MAX], size = 1, at[SHAPE_RANK_MAX] = { 0 }, to = 0;
    bool on[SHAPE_RANK_MAX];
    struct view v;
    int rc;

    view_begin(&v, op, err);
    rc = qmean_axes(&v.base, x->shape.rank, on);
    view_end(&v);
    if (rc || out->count == 0)
        return rc;
    memset(sum, 0, (size_t)out->count * sizeof(*sum));
    for (int32_t d = x->shape.rank - 1; d >= 0; d--) {
        step[d] = on[d] ? 0 : size;
        size *= on[d] ? 1 : x->shape.dim[d];
    }
    for (int64_t i = 0; i < x->count; i++) {
        sum[to] += q8_at(x, i);
        for (int32_t d = x->shape.rank - 1; d >= 0; d--) {
            to += step[d];
            if (++at[d] < x->shape.dim[d])
                break;
            to -= step[d] * at[d];
            at[d] = 0;
        }
    }
    for (int64_t i = 0; i < out->count; i++)
        emit(op, i, sum[i], x->count / out->count);
    return 0;
}
