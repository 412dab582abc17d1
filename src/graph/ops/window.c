/* window.c -- see window.h. */
#include "graph/ops/window.h"
#include "graph/ops/known.h"

#include <string.h>

/* A list attribute of n numbers in [low, INT32_MAX]; absent or empty: all `missing`. */
static int take_list(const struct opview *o, const char *name, int n, int64_t missing, int64_t low,
                     int64_t *out)
{
    size_t len;
    const int64_t *v = node_attr_ints(o->n, name, &len);

    for (int i = 0; i < n; i++)
        out[i] = missing;
    if (!v || !len)
        return 0;
    if (len != (size_t)n)
        return op_fail(o, "attribute '%s' has %zu numbers instead of %d", name, len, n);
    for (int i = 0; i < n; i++) {
        if (v[i] < low || v[i] > INT32_MAX)
            return op_fail(o, "attribute '%s' has the value %lld", name, (long long)v[i]);
        out[i] = v[i];
    }
    return 0;
}

static int read_pad(const struct opview *o, enum window_pad *out)
{
    static const char *const names[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };
    const char *pad = node_attr_str(o->n, "auto_pad", "");

    *out = PAD_GIVEN;
    if (!pad[0])
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(pad, names[i]) == 0) {
            *out = (enum window_pad)i;
            return 0;
        }
    return op_fail(o, "attribute 'auto_pad' is '%.20s'", pad);
}

/* Kernel sizes of the attribute and of the weight must agree where both are there. */
static int merge_kernel(const struct opview *o, struct sliding *w, const int64_t *kernel)
{
    for (int i = 0; i < w->n; i++) {
        int64_t have = kernel ? kernel[i] : DIM_OPEN;

        if (!kernel && w->kernel[i] < 0)
            return op_fail(o, "attribute 'kernel_shape' is missing");
        if (w->kernel[i] >= 0 && have >= 0 && w->kernel[i] != have)
            return op_fail(o, "attribute 'kernel_shape' says %lld, the weight has %lld",
                           (long long)w->kernel[i], (long long)have);
        if (w->kernel[i] < 0)
            w->kernel[i] = have;
        if (w->kernel[i] == 0 || w->kernel[i] > INT32_MAX)
            return op_fail(o, "a kernel of size %lld", (long long)w->kernel[i]);
    }
    return 0;
}

int sliding_read(const struct opview *o, int n, const int64_t *kernel, struct sliding *w)
{
    int64_t pads[2 * WINDOW_DIMS_MAX];
    int rc;

    *w = (struct sliding){ .n = n, .ceil = op_int(o, "ceil_mode", 0) != 0 };
    if (n > WINDOW_DIMS_MAX)
        return op_fail(o, "%d spatial dimensions", n);
    rc = take_list(o, "kernel_shape", n, DIM_OPEN, 1, w->kernel);
    if (!rc)
        rc = take_list(o, "strides", n, 1, 1, w->stride);
    if (!rc)
        rc = take_list(o, "dilations", n, 1, 1, w->dilation);
    if (!rc)
        rc = take_list(o, "pads", 2 * n, 0, 0, pads);
    if (!rc)
        rc = read_pad(o, &w->pad);
    if (!rc)
        rc = merge_kernel(o, w, kernel);
    for (int i = 0; !rc && i < n; i++) {
        w->before[i] = w->pad == PAD_GIVEN ? pads[i] : 0;
        w->after[i] = w->pad == PAD_GIVEN ? pads[n + i] : 0;
        w->out[i] = DIM_OPEN;
    }
    return rc;
}

int sliding_pads(const struct opview *o, uint32_t slot, struct sliding *w, bool *known)
{
    const struct elems *pads = op_known_ints(o, slot);

    *known = true;
    if (!op_has(o, slot) || w->pad != PAD_GIVEN)
        return 0;
    *known = pads != NULL;
    if (!pads || pads->n == 0)
        return 0;
    if (pads->n != 2 * w->n)
        return op_fail(o, "input %u has %lld numbers instead of %d", slot, (long long)pads->n,
                       2 * w->n);
    for (int i = 0; i < 2 * w->n; i++) {
        if (elem_open(pads->i[i]))
            *known = false;
        else if (pads->i[i] < 0 || pads->i[i] > INT32_MAX)
            return op_fail(o, "padding of %lld", (long long)pads->i[i]);
        *(i < w->n ? &w->before[i] : &w->after[i - w->n]) = pads->i[i];
    }
    return 0;
}

/* `total` of padding in two halves; first: the larger one is before. */
static void split_padding(struct sliding *w, int i, int64_t total, bool first)
{
    w->before[i] = first ? total - total / 2 : total / 2;
    w->after[i] = total - w->before[i];
}

/* Elements that the kernel reaches over; below 0: open. */
static int64_t reach_of(const struct sliding *w, int i)
{
    return w->kernel[i] < 0 ? DIM_OPEN : (w->kernel[i] - 1) * w->dilation[i] + 1;
}

static int over_dim(const struct opview *o, struct sliding *w, int i, int64_t in)
{
    int64_t stride = w->stride[i], reach = reach_of(w, i), room, steps;

    if (in < 0 || in > INT64_MAX / 2)
        return 0;
    if (w->pad == PAD_SAME_UPPER || w->pad == PAD_SAME_LOWER) {
        w->out[i] = in / stride + (in % stride != 0);
        if (reach >= 0)
            split_padding(w, i, MAX((w->out[i] - 1) * stride + reach - in, (int64_t)0),
                          w->pad == PAD_SAME_LOWER);
        return 0;
    }
    if (reach < 0)
        return 0;
    room = in + w->before[i] + w->after[i] - reach;
    if (room < 0)
        return op_fail(o, "a window of %lld over %lld elements and %lld of padding",
                       (long long)reach, (long long)in, (long long)(w->before[i] + w->after[i]));
    steps = room / stride + (w->ceil && room % stride != 0);
    /* With rounding up, a window that would start in the padding at the end is left out. */
    if (w->ceil && steps && steps * stride >= in + w->before[i])
        steps--;
    w->out[i] = steps + 1;
    return 0;
}

int sliding_over(const struct opview *o, struct sliding *w, const int64_t *in)
{
    int rc = 0;

    for (int i = 0; !rc && i < w->n; i++)
        rc = over_dim(o, w, i, in[i]);
    return rc;
}

/* wanted: the size that the result shall have, or below 0; extra: output_padding. */
static int transposed_dim(const struct opview *o, struct sliding *w, int i, int64_t in,
                          int64_t wanted, int64_t extra)
{
    bool same = w->pad == PAD_SAME_UPPER || w->pad == PAD_SAME_LOWER;
    int64_t reach = reach_of(w, i), full;

    w->out[i] = wanted;
    if (in < 0 || in > INT32_MAX)
        return 0;
    if (in == 0)
        return op_fail(o, "a spatial dimension of size 0");
    if (wanted < 0 && same)
        wanted = in * w->stride[i];
    if (reach >= 0 && __builtin_mul_overflow(w->stride[i], in - 1, &full))
        return op_fail(o, "strides of %lld over %lld elements", (long long)w->stride[i],
                       (long long)in);
    if (reach >= 0)
        full += reach + extra;
    if (wanted >= 0) {
        w->out[i] = wanted;
        /* Of a size that output_shape names, the larger half is before, other than with Conv, and
         * whatever auto_pad says but SAME_UPPER. */
        if (reach >= 0)
            split_padding(w, i, MAX(full - wanted, (int64_t)0), w->pad != PAD_SAME_UPPER);
        return 0;
    }
    if (reach < 0)
        return 0;
    w->out[i] = full - w->before[i] - w->after[i];
    if (w->out[i] < 0)
        return op_fail(o, "the result would have size %lld", (long long)w->out[i]);
    return 0;
}

int sliding_transposed(const struct opview *o, struct sliding *w, const int64_t *in)
{
    int64_t extra[WINDOW_DIMS_MAX];
    size_t len, n = (size_t)w->n;
    const int64_t *wanted = node_attr_ints(o->n, "output_shape", &len);
    int rc = take_list(o, "output_padding", w->n, 0, 0, extra);

    if (rc)
        return rc;
    /* Some exporters put batch and channels into output_shape, too. */
    if (wanted && len && len != n && len != n + 2)
        return op_fail(o, "attribute 'output_shape' has %zu numbers instead of %zu", len, n);
    for (int i = 0; !rc && i < w->n; i++) {
        int64_t want = wanted && len ? wanted[len - n + (size_t)i] : DIM_OPEN;

        if (want > INT32_MAX)
            return op_fail(o, "attribute 'output_shape' has the value %lld", (long long)want);
        rc = transposed_dim(o, w, i, in[i], MAX(want, (int64_t)DIM_OPEN), extra[i]);
    }
    return rc;
}
