/* torch_flops.c -- floating-point operations of PyTorch's operators from the shapes of their
 * inputs.
 *
 * Matrix products: 2 m n k (for each of a batch); what is added to them does not count.
 * Convolutions: 2 n c_out (out positions) (c_in / groups) (kernel positions), the out positions
 * from stride, padding and dilation, or none where the trace does not tell them; transposed ones
 * swap the sides; backward is twice forward, its out positions those of the gradient.
 * Attention: 4 b h s t d (two products), a causal mask not taken off; backward 2.5 times that. */
#include "import/torch/torch_op.h"

#include <stdlib.h>
#include <string.h>

/* Products that saturate: hostile shapes must not overflow. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t r;

    if (a < 0 || b < 0)
        return -1;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static int64_t product(const int64_t *dim, int n)
{
    int64_t r = 1;

    for (int i = 0; i < n; i++)
        r = times(r, dim[i]);
    return r;
}

static const struct torch_input *tensor(const struct torch_inputs *in, int i, int ndim_min)
{
    return i < in->n && in->in[i].ndim >= ndim_min && in->in[i].ndim >= 0 ? &in->in[i] : NULL;
}

/* a [.., m, k] with b [.., k, n]. */
static int64_t matmul(const struct torch_input *a, const struct torch_input *b)
{
    int64_t m, k, n, batch = 1;

    if (!a || !b || a->ndim < 1 || b->ndim < 1)
        return -1;
    k = a->dim[a->ndim - 1];
    m = a->ndim > 1 ? a->dim[a->ndim - 2] : 1;
    n = b->ndim > 1 ? b->dim[b->ndim - 1] : 1;
    if ((b->ndim > 1 ? b->dim[b->ndim - 2] : b->dim[0]) != k)
        return -1;
    if (a->ndim > 2 || b->ndim > 2) { /* leading dimensions are broadcast */
        int na = a->ndim - 2, nb = b->ndim - 2, nd = MAX(na, nb);

        for (int i = 1; i <= nd; i++) {
            int64_t x = i <= na ? a->dim[na - i] : 1, y = i <= nb ? b->dim[nb - i] : 1;

            batch = times(batch, MAX(x, y));
        }
    }
    return times(2, times(batch, times(m, times(n, k))));
}

/* x [.., k] with weight [n, k]. */
static int64_t linear(const struct torch_input *x, const struct torch_input *w)
{
    if (!x || !w || x->ndim < 1 || w->ndim != 2 || x->dim[x->ndim - 1] != w->dim[1])
        return -1;
    return times(2, times(product(x->dim, x->ndim), w->dim[0]));
}

/* Whether the trace has the value of an argument; one that the function does not take is known. */
static bool is_told(const struct torch_inputs *in, int at)
{
    return at < 0 || (at < in->n && in->in[at].concrete && in->in[at].concrete_len);
}

/* The k-th number of "[1, 2]" or "1"; one number stands for all dimensions. */
static int64_t list_item(const struct torch_inputs *in, int at, int k, int64_t fallback)
{
    char text[128];
    const char *p = text;
    char *end;
    int64_t v = fallback;

    if (at < 0 || at >= in->n || !in->in[at].concrete || !in->in[at].concrete_len)
        return fallback;
    snprintf(text, sizeof(text), "%.*s", (int)MIN(in->in[at].concrete_len, sizeof(text) - 1),
             in->in[at].concrete);
    p += *p == '[';
    for (int i = 0; i <= k; i++) {
        int64_t next = strtoll(p, &end, 10);

        if (end == p)
            break;
        v = next;
        p = end + strspn(end, ", ");
    }
    return v;
}

/* Where a convolution has its arguments. */
struct conv {
    const char *name;
    int stride, padding, dilation, transposed, groups; /* -1: it has none */
};

static const struct conv convs[] = {
    { "conv1d", 3, 4, 5, -1, 6 },
    { "conv2d", 3, 4, 5, -1, 6 },
    { "conv3d", 3, 4, 5, -1, 6 },
    { "convolution", 3, 4, 5, 6, 8 },
    { "_convolution", 3, 4, 5, 6, 8 },
    { "convolution_overrideable", 3, 4, 5, 6, 8 },
    { "cudnn_convolution", 3, 2, 4, -1, 5 },
    { "cudnn_convolution_relu", 3, 4, 5, -1, 6 },
    { "miopen_convolution", 4, 3, 5, -1, 6 },
    { "mkldnn_convolution", 4, 3, 5, -1, 6 },
    { "thnn_conv2d", 4, 5, -1, -1, -1 },
    { "_slow_conv2d_forward", 4, 5, -1, -1, -1 },
    { "_conv_depthwise2d", 4, 5, 6, -1, -1 },
};

static bool is_true(const struct torch_inputs *in, int at)
{
    return at >= 0 && at < in->n && in->in[at].concrete_len == 4 &&
           memcmp(in->in[at].concrete, "True", 4) == 0;
}

/* Positions of what comes out, or -1. */
static int64_t conv_positions(const struct torch_inputs *in, const struct conv *c,
                              const struct torch_input *x, const struct torch_input *w)
{
    int64_t out = 1;

    if (!is_told(in, c->stride) || !is_told(in, c->padding) || !is_told(in, c->dilation))
        return -1;
    for (int i = 0; i < x->ndim - 2; i++) {
        int64_t stride = list_item(in, c->stride, i, 1), pad = list_item(in, c->padding, i, 0);
        int64_t dilation = list_item(in, c->dilation, i, 1), size = x->dim[2 + i];
        int64_t span;

        if (stride < 1 || pad < 0 || dilation < 1 || pad > INT32_MAX || dilation > INT32_MAX ||
            size > INT32_MAX || w->dim[2 + i] > INT32_MAX || w->dim[2 + i] < 1)
            return -1;
        span = size + 2 * pad - dilation * (w->dim[2 + i] - 1) - 1;
        if (span < 0)
            return -1;
        out = times(out, span / stride + 1);
    }
    return out;
}

/* y: what comes out, or NULL. */
static int64_t conv_flops(const struct torch_inputs *in, const struct conv *c,
                          const struct torch_input *x, const struct torch_input *w,
                          const struct torch_input *y)
{
    int64_t out;

    if (!x || !w || x->ndim != w->ndim || x->ndim > 5 || !is_told(in, c->transposed))
        return -1;
    if (is_true(in, c->transposed)) /* every input position meets every tap */
        return times(2, times(product(x->dim, x->ndim), product(w->dim + 1, w->ndim - 1)));
    out = y && y->ndim == x->ndim ? product(y->dim + 2, y->ndim - 2) : conv_positions(in, c, x, w);
    return times(2,
                 times(times(times(x->dim[0], w->dim[0]), out), product(w->dim + 1, w->ndim - 1)));
}

/* q [b, h, s, d], k [b, h', t, d], v [.., d2]; heads first unless heads_third. */
static int64_t attention(const struct torch_inputs *in, int at, bool heads_third)
{
    const struct torch_input *q = tensor(in, at, 4), *k = tensor(in, at + 1, 4);
    const struct torch_input *v = tensor(in, at + 2, 4);
    int s = heads_third ? 1 : 2, h = heads_third ? 2 : 1;
    int64_t rows;

    if (!q || !k || !v || q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return -1;
    rows = times(times(q->dim[0], q->dim[h]), times(q->dim[s], k->dim[s]));
    rows = times(2, times(rows, q->dim[3] < 0 || v->dim[3] < 0 || q->dim[3] > INT32_MAX ||
                                        v->dim[3] > INT32_MAX
                                    ? -1
                                    : q->dim[3] + v->dim[3]));
    return rows;
}

int64_t torch_flops(const char *name, const struct torch_inputs *in)
{
    static const struct {
        const char *name;
        int a, b;
        enum { MATMUL, LINEAR, SDPA, FLASH, SDPA_BACK, FLASH_BACK } how;
    } ops[] = {
        { "mm", 0, 1, MATMUL },
        { "bmm", 0, 1, MATMUL },
        { "matmul", 0, 1, MATMUL },
        { "dot", 0, 1, MATMUL },
        { "mv", 0, 1, MATMUL },
        { "_int_mm", 0, 1, MATMUL },
        { "_scaled_mm", 0, 1, MATMUL },
        { "addmm", 1, 2, MATMUL },
        { "addmm_", 1, 2, MATMUL },
        { "_addmm_activation", 1, 2, MATMUL },
        { "baddbmm", 1, 2, MATMUL },
        { "baddbmm_", 1, 2, MATMUL },
        { "addbmm", 1, 2, MATMUL },
        { "addmv", 1, 2, MATMUL },
        { "linear", 0, 1, LINEAR },
        { "mkldnn_linear", 0, 1, LINEAR },
        { "scaled_dot_product_attention", 0, 0, SDPA },
        { "_scaled_dot_product_flash_attention", 0, 0, SDPA },
        { "_scaled_dot_product_flash_attention_for_cpu", 0, 0, SDPA },
        { "_scaled_dot_product_efficient_attention", 0, 0, SDPA },
        { "_scaled_dot_product_cudnn_attention", 0, 0, SDPA },
        { "_scaled_dot_product_attention_math", 0, 0, SDPA },
        { "_scaled_dot_product_fused_attention_overrideable", 0, 0, SDPA },
        { "_flash_attention_forward", 0, 0, FLASH },
        { "_efficient_attention_forward", 0, 0, FLASH },
        { "_scaled_dot_product_flash_attention_backward", 1, 0, SDPA_BACK },
        { "_scaled_dot_product_flash_attention_for_cpu_backward", 1, 0, SDPA_BACK },
        { "_scaled_dot_product_efficient_attention_backward", 1, 0, SDPA_BACK },
        { "_scaled_dot_product_cudnn_attention_backward", 1, 0, SDPA_BACK },
        { "_flash_attention_backward", 1, 0, FLASH_BACK },
        { "_efficient_attention_backward", 1, 0, FLASH_BACK },
    };
    static const struct conv backward = { NULL, 4, 5, 6, 7, 9 };
    const char *colons = strstr(name, "::");
    int64_t n;

    if (colons)
        name = colons + 2;
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        if (strcmp(name, ops[i].name) != 0)
            continue;
        switch (ops[i].how) {
        case MATMUL:
            return matmul(tensor(in, ops[i].a, 1), tensor(in, ops[i].b, 1));
        case LINEAR:
            return linear(tensor(in, ops[i].a, 1), tensor(in, ops[i].b, 2));
        case SDPA:
        case FLASH:
            return attention(in, ops[i].a, ops[i].how == FLASH);
        default:
            n = attention(in, ops[i].a, ops[i].how == FLASH_BACK);
            return n < 0 ? -1 : n > INT64_MAX / 5 ? INT64_MAX : n * 5 / 2;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(convs); i++)
        if (strcmp(name, convs[i].name) == 0)
            return conv_flops(in, &convs[i], tensor(in, 0, 3), tensor(in, 1, 3), NULL);
    if (strcmp(name, "convolution_backward") == 0) /* grad, input, weight, bias sizes, ... */
        return times(
            2, conv_flops(in, &backward, tensor(in, 1, 3), tensor(in, 2, 3), tensor(in, 0, 3)));
    return -1;
}
