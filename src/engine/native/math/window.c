/* window.c -- see window.h. */
#include "engine/native/math/window.h"

#include <string.h>

/* Sizes beyond this make no sense and would overflow. */
#define SIZE_MAX_OK ((int64_t)1 << 31)

static int list(const struct op *op, const char *name, int nd, int64_t lowest, int64_t missing,
                int64_t *out, opm_error *err)
{
    size_t n;
    const int64_t *a = node_attr_ints(op->node, name, &n);

    if (n && n != (size_t)nd)
        return kernel_fail(op, OPM_EINVAL, err, "%s has %zu entries for %d dimensions", name, n,
                           nd);
    for (int i = 0; i < nd; i++) {
        out[i] = n ? a[i] : missing;
        if (out[i] < lowest || out[i] > SIZE_MAX_OK)
            return kernel_fail(op, OPM_EINVAL, err, "%s is %lld", name, (long long)out[i]);
    }
    return 0;
}

static void same_pads(struct window *w, int d, bool upper)
{
    int64_t span = (w->kernel[d] - 1) * w->dilation[d] + 1,
            out = (w->in[d] + w->stride[d] - 1) / w->stride[d],
            need = MAX((out - 1) * w->stride[d] + span - w->in[d], (int64_t)0);

    w->before[d] = upper ? need / 2 : need - need / 2;
    w->after[d] = need - w->before[d];
}

int window_init(struct window *w, const struct op *op, const struct shape *in,
                const int64_t *kernel, opm_error *err)
{
    const char *pad = node_attr_str(op->node, "auto_pad", "NOTSET");
    int64_t k[3], stride[3], dilation[3], pads[6] = { 0 };
    int nd = in->rank - 2, lead = 3 - nd, rc;
    size_t n;

    if (nd < 1 || nd > 3)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %d spatial dimensions", nd);
    if (kernel)
        memcpy(k, kernel, (size_t)nd * sizeof(*k));
    else {
        rc = list(op, "kernel_shape", nd, 1, 0, k, err);
        if (rc)
            return rc;
    }
    rc = list(op, "strides", nd, 1, 1, stride, err);
    if (!rc)
        rc = list(op, "dilations", nd, 1, 1, dilation, err);
    if (rc)
        return rc;
    const int64_t *p = node_attr_ints(op->node, "pads", &n);

    if (n && n != 2 * (size_t)nd)
        return kernel_fail(op, OPM_EINVAL, err, "pads has %zu entries for %d dimensions", n, nd);
    for (size_t i = 0; i < n; i++) {
        pads[i] = p[i];
        if (p[i] < 0 || p[i] > SIZE_MAX_OK)
            return kernel_fail(op, OPM_EINVAL, err, "pads has %lld", (long long)p[i]);
    }
    *w = (struct window){ .nd = nd };
    for (int d = 0; d < 3; d++) {
        bool real = d >= lead;
        int64_t span, room;

        w->in[d] = real ? in->dim[2 + d - lead] : 1;
        w->kernel[d] = real ? k[d - lead] : 1;
        w->stride[d] = real ? stride[d - lead] : 1;
        w->dilation[d] = real ? dilation[d - lead] : 1;
        if (w->kernel[d] < 1 || w->kernel[d] > SIZE_MAX_OK || w->in[d] > SIZE_MAX_OK)
            return kernel_fail(op, OPM_EINVAL, err, "window of size %lld", (long long)w->kernel[d]);
        if (real && strcmp(pad, "NOTSET") == 0) {
            w->before[d] = pads[d - lead];
            w->after[d] = pads[d - lead + nd];
        } else if (real && strncmp(pad, "SAME", 4) == 0)
            same_pads(w, d, strcmp(pad, "SAME_UPPER") == 0);
        if (__builtin_mul_overflow(w->kernel[d] - 1, w->dilation[d], &span))
            return kernel_fail(op, OPM_EINVAL, err, "dilation is too big");
        room = w->in[d] + w->before[d] + w->after[d] - span - 1;
        w->out[d] = room < 0 ? 0 : room / w->stride[d] + 1;
        if (room >= 0 && real && node_attr_int(op->node, "ceil_mode", 0) && room % w->stride[d] &&
            w->out[d] * w->stride[d] < w->in[d] + w->before[d]) /* must start inside */
            w->out[d]++;
    }
    return 0;
}

void window_shape(const struct window *w, int64_t n, int64_t c, struct shape *out)
{
    out->rank = 2 + w->nd;
    out->dim[0] = n;
    out->dim[1] = c;
    for (int d = 0; d < w->nd; d++)
        out->dim[2 + d] = w->out[3 - w->nd + d];
}
