/* pad.c -- Pad, in all its modes. */
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"

#include <string.h>

#define PAD_FEW 16 /* elements that a call would take longer for */

enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

struct pad {
    enum pad_mode mode;
    int64_t before[SHAPE_RANK_MAX];
    /* Of a row of the result: elements that are padding, those from row[skip] on, padding. */
    int64_t head, skip, run, tail;
};

/* Where a row begins, what there is beyond it, and where that comes from. */
struct pad_job {
    const struct op *op;
    const struct pad *p;
    int64_t stride[SHAPE_RANK_MAX];
    char fill[16];
    int64_t *from; /* head + tail places in a row; not of constants */
};

/* How a row of the result is made up. */
static void plan_row(struct op *op, struct pad *p)
{
    const struct shape *in = &kernel_in(op, 0)->shape, *out = &kernel_out(op, 0)->shape;
    int32_t last = in->rank - 1;
    int64_t n, b;

    if (last < 0)
        return;
    n = out->dim[last];
    b = p->before[last];
    p->head = MIN(MAX(b, (int64_t)0), n);
    p->skip = MAX(-b, (int64_t)0);
    p->run = MAX(MIN(in->dim[last] - p->skip, n - p->head), (int64_t)0);
    p->tail = n - p->head - p->run;
    op->scratch_bytes = p->mode == PAD_CONSTANT ? 0 : (size_t)(p->head + p->tail) * sizeof(int64_t);
}

int pad_prepare(struct op *op, opm_error *err)
{
    const char *mode = node_attr_str(op->node, "mode", "constant");
    struct pad *p = kernel_new_state(op, sizeof(*p));
    int64_t after[SHAPE_RANK_MAX];
    bool known = false;
    struct view v;
    const struct shape *s;
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!p)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    s = &kernel_in(op, 0)->shape;
    view_begin(&v, op, err);
    rc = pad_read(&v.base, s->rank, p->before, after, &known);
    view_end(&v);
    if (rc || !known)
        return rc ? rc : NEED_DATA;
    p->mode = strcmp(mode, "reflect") == 0 ? PAD_REFLECT
              : strcmp(mode, "edge") == 0  ? PAD_EDGE
              : strcmp(mode, "wrap") == 0  ? PAD_WRAP
                                           : PAD_CONSTANT;
    for (int32_t i = 0; i < s->rank; i++) {
        if (p->before[i] < -s->dim[i])
            return kernel_fail(op, OPM_EINVAL, err, "pads of dimension %d do not fit", i);
        if (p->mode != PAD_CONSTANT && s->dim[i] == 0 && (p->before[i] || after[i]))
            return kernel_fail(op, OPM_EINVAL, err, "nothing to pad from in dimension %d", i);
    }
    if (kernel_in(op, 2) &&
        (kernel_in(op, 2)->type != kernel_in(op, 0)->type || kernel_in(op, 2)->count < 1))
        return kernel_fail(op, OPM_EINVAL, err, "the constant is not of the input's type");
    rc = kernel_infer(op, err);
    if (!rc)
        plan_row(op, p);
    return rc;
}

/* Where element i of a padded row comes from; -1: the constant. */
static int64_t source(enum pad_mode mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    switch (mode) {
    case PAD_EDGE:
        return i < 0 ? 0 : n - 1;
    case PAD_WRAP:
        return (i % n + n) % n;
    case PAD_REFLECT: {
        int64_t period = 2 * (n - 1);

        if (n == 1)
            return 0;
        i = (i % period + period) % period;
        return i < n ? i : period - i;
    }
    default:
        return -1;
    }
}

/* n elements. */
#define PAD_PUT(T)                                    \
    do {                                              \
        T *out_ = (T *)(void *)to, v_;                \
        const T *row_ = (const T *)(const void *)row; \
        memcpy(&v_, j->fill, sizeof(v_));             \
        for (int64_t i = 0; i < n; i++)               \
            out_[i] = row ? row_[from[i]] : v_;       \
    } while (0)

/* n elements at `to`: of the row, where there is one, else the constant. */
static void put(const struct pad_job *j, char *to, const char *row, const int64_t *from, int64_t n,
                size_t w)
{
    if (!row && n > PAD_FEW) {
        fill_with(to, j->fill, w, n);
        return;
    }
    switch (w) {
    case 1:
        PAD_PUT(uint8_t);
        break;
    case 2:
        PAD_PUT(uint16_t);
        break;
    case 4:
        PAD_PUT(uint32_t);
        break;
    case 8:
        PAD_PUT(uint64_t);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + (size_t)i * w, row ? row + (size_t)from[i] * w : j->fill, w);
    }
}

/* Rows of the result. */
static void pad_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pad_job *j = arg;
    const struct pad *p = j->p;
    const struct nt *in = kernel_in(j->op, 0), *out = kernel_out(j->op, 0);
    int32_t last = out->shape.rank - 1;
    size_t w = nt_width(in->type);
    int64_t n = out->shape.dim[last], lines = last ? out->shape.dim[last - 1] : 1, base = 0;
    char *to = (char *)out->data + (size_t)(begin * n) * w;
    bool inside = true;

    (void)thread;
    for (int64_t r = begin; r < end; r++, to += (size_t)n * w) {
        int64_t y = r % lines, s;
        const char *row, *edge;

        if (r == begin || y == 0) { /* another plane */
            inside = true;
            base = 0;
            for (int64_t i = last - 2, rest = r / lines; i >= 0; i--) {
                s = source(p->mode, rest % out->shape.dim[i] - p->before[i], in->shape.dim[i]);
                rest /= out->shape.dim[i];
                inside = inside && s >= 0;
                base += s * j->stride[i];
            }
        }
        s = last ? source(p->mode, y - p->before[last - 1], in->shape.dim[last - 1]) : 0;
        if (!inside || s < 0) {
            fill_with(to, j->fill, w, n);
            continue;
        }
        row = (const char *)in->data + (size_t)(base + (last ? s * j->stride[last - 1] : 0)) * w;
        edge = p->mode == PAD_CONSTANT ? NULL : row;
        put(j, to, edge, j->from, p->head, w);
        memcpy(to + (size_t)p->head * w, row + (size_t)p->skip * w, (size_t)p->run * w);
        put(j, to + (size_t)(p->head + p->run) * w, edge, edge ? j->from + p->head : NULL, p->tail,
            w);
    }
}

int pad_run(struct op *op, opm_error *err)
{
    const struct pad *p = op->state;
    const struct nt *in = kernel_in(op, 0), *value = kernel_in(op, 2), *out = kernel_out(op, 0);
    struct pad_job j = { .op = op, .p = p };
    int32_t last = out->shape.rank - 1;
    size_t w = nt_width(in->type);
    int64_t step = 1;

    (void)err;
    if (out->count == 0)
        return 0;
    if (value)
        memcpy(j.fill, value->data, w);
    else if (in->type == TENSOR_F32)
        memcpy(j.fill, &(float){ node_attr_float(op->node, "value", 0) }, 4);
    else if (in->type == TENSOR_F64)
        memcpy(j.fill, &(double){ (double)node_attr_float(op->node, "value", 0) }, 8);
    if (last < 0) {
        memcpy(out->data, in->data, w);
        return 0;
    }
    for (int32_t i = last; i >= 0; i--) {
        j.stride[i] = step;
        step *= in->shape.dim[i];
    }
    if (p->mode != PAD_CONSTANT) {
        int64_t n = in->shape.dim[last], b = p->before[last];

        j.from = op->scratch;
        for (int64_t i = 0; i < p->head; i++)
            j.from[i] = source(p->mode, i - b, n);
        for (int64_t i = 0; i < p->tail; i++)
            j.from[p->head + i] = source(p->mode, p->head + p->run + i - b, n);
    }
    pool_for(kernel_pool(op), out->count / out->shape.dim[last],
             pool_grain((double)out->shape.dim[last] / 8 + PAD_FEW), pad_part, &j);
    return 0;
}
