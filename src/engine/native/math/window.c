/* window.c -- see window.h. */
#include "engine/native/math/window.h"

#include "engine/native/math/infer.h"

/* Fill up in front: one dimension becomes the last of three. */
static void spread(struct window *w, const struct sliding *s, const int64_t *in)
{
    *w = (struct window){ .nd = s->n };
    for (int d = 0; d < 3; d++) {
        int i = d - (3 - s->n);

        w->in[d] = i < 0 ? 1 : in[i];
        w->kernel[d] = i < 0 ? 1 : s->kernel[i];
        w->stride[d] = i < 0 ? 1 : s->stride[i];
        w->dilation[d] = i < 0 ? 1 : s->dilation[i];
        w->before[d] = i < 0 ? 0 : s->before[i];
        w->after[d] = i < 0 ? 0 : s->after[i];
        w->out[d] = i < 0 ? 1 : s->out[i];
    }
}

enum rule { RULE_CONV, RULE_CONV_TRANSPOSE, RULE_POOL };

static int by_rule(enum rule rule, struct window *w, struct op *op, const struct shape *in,
                   const struct shape *weight, uint32_t pads, struct shape *out, opm_error *err)
{
    struct sliding s;
    struct view v;
    int rc;

    if (in->rank < 3 || in->rank > 5)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %d spatial dimensions",
                           in->rank - 2);
    for (int32_t i = 2; i < in->rank; i++)
        if (in->dim[i] > INT32_MAX)
            return kernel_fail(op, OPM_ELIMIT, err, "a window over %lld elements",
                               (long long)in->dim[i]);
    view_begin(&v, op, err);
    rc = rule == RULE_CONV             ? conv_window(&v.base, in, weight, &s, out)
         : rule == RULE_CONV_TRANSPOSE ? conv_transpose_window(&v.base, in, weight, pads, &s, out)
                                       : pool_window(&v.base, in, &s, out);
    view_end(&v);
    if (!rc)
        spread(w, &s, in->dim + 2);
    return rc;
}

int window_conv(struct window *w, struct op *op, const struct shape *in, const struct shape *weight,
                struct shape *out, opm_error *err)
{
    return by_rule(RULE_CONV, w, op, in, weight, 0, out, err);
}

int window_conv_transpose(struct window *w, struct op *op, const struct shape *in,
                          const struct shape *weight, uint32_t pads, struct shape *out,
                          opm_error *err)
{
    return by_rule(RULE_CONV_TRANSPOSE, w, op, in, weight, pads, out, err);
}

int window_pool(struct window *w, struct op *op, const struct shape *in, struct shape *out,
                opm_error *err)
{
    return by_rule(RULE_POOL, w, op, in, NULL, 0, out, err);
}

void window_global(struct window *w, const struct shape *in, struct shape *out)
{
    struct sliding s = { .n = in->rank - 2 };

    *out = *in;
    for (int i = 0; i < s.n; i++) {
        s.kernel[i] = in->dim[2 + i];
        s.stride[i] = s.dilation[i] = s.out[i] = 1;
        out->dim[2 + i] = 1;
    }
    spread(w, &s, in->dim + 2);
}

void window_flatten(struct window *w)
{
    while (w->nd > 1 && w->in[2] == 1 && w->out[2] == 1 && w->kernel[2] == 1 && !w->before[2] &&
           !w->after[2]) {
        for (int d = 2; d >= 0; d--) {
            w->in[d] = d ? w->in[d - 1] : 1;
            w->out[d] = d ? w->out[d - 1] : 1;
            w->kernel[d] = d ? w->kernel[d - 1] : 1;
            w->stride[d] = d ? w->stride[d - 1] : 1;
            w->dilation[d] = d ? w->dilation[d - 1] : 1;
            w->before[d] = d ? w->before[d - 1] : 0;
            w->after[d] = d ? w->after[d - 1] : 0;
        }
        w->nd--;
    }
}
