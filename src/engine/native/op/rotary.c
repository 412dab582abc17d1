/* rotary.c -- RotaryEmbedding: turn pairs of numbers by angles that depend on the position. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/attention.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

#define TURN_NS 0.2 /* for a number, about */

void rotary_row(const struct isa *isa, float *to, const float *from, int64_t width,
                const float *cos, const float *sin, int64_t half, bool mixed)
{
    if (!mixed)
        isa->loops->turn(to, from, cos, sin, half);
    for (int64_t k = 0; k < half && mixed; k++) {
        float u = from[2 * k], v = from[2 * k + 1];

        to[2 * k] = cos[k] * u - sin[k] * v;
        to[2 * k + 1] = sin[k] * u + cos[k] * v;
    }
    if (width > 2 * half)
        memcpy(to + 2 * half, from + 2 * half, (size_t)(width - 2 * half) * sizeof(*to));
}

/* Cosines and sines are given by position. Opset 23: X, cos,
 * sin, positions; com.microsoft: X, positions, cos, sin. */
int rotary_prepare(struct op *op, opm_error *err)
{
    bool contrib = op->kernel->arg == ROTARY_CONTRIB;
    uint32_t cos_at = contrib ? 2 : 1, sin_at = cos_at + 1, pos_at = contrib ? 1 : 3;
    const struct nt *x, *pos = kernel_in(op, pos_at), *c, *s;
    int64_t heads = node_attr_int(op->node, "num_heads", 0),
            part = node_attr_int(op->node, "rotary_embedding_dim", 0), len, width, batch;
    int rc = attention_want_f32(op, 0, err);

    if (!rc)
        rc = attention_want_f32(op, cos_at, err);
    if (!rc)
        rc = attention_want_f32(op, sin_at, err);
    if (!rc && pos)
        rc = kernel_want(op, pos_at, TYPES_INDEX, err);
    if (rc)
        return rc;
    x = kernel_in(op, 0);
    c = kernel_in(op, cos_at);
    s = kernel_in(op, sin_at);
    if (x->shape.rank == 4)
        heads = x->shape.dim[1];
    else if (contrib && heads == 0 && c->shape.rank == 2 && c->shape.dim[1] && x->shape.rank == 3)
        heads = x->shape.dim[2] / (2 * c->shape.dim[1]);
    if (!attention_shape(&x->shape, heads, &len, &width) || !shape_equal(&c->shape, &s->shape) ||
        width % 2 || part < 0 || part > width || part % 2)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "operands do not fit");
    batch = x->shape.dim[0];
    part = part ? part : width;
    if (pos ? c->shape.rank != 2 || c->shape.dim[1] != part / 2 ||
                  (pos->count != batch * len && pos->count != 1)
            : c->shape.rank != 3 || c->shape.dim[0] != batch || c->shape.dim[1] != len ||
                  c->shape.dim[2] != part / 2)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "cosines do not fit");
    return kernel_infer(op, err);
}

struct rotary_job {
    const struct op *op;
    struct rows in, out;
    int64_t heads, len, width, half;
    const float *cos, *sin;
    const struct nt *pos; /* NULL: positions as they come */
    bool mixed;
};

/* The angles of place i of batch item b. */
static int64_t position(const struct rotary_job *j, int64_t b, int64_t i)
{
    return !j->pos              ? b * j->len + i
           : j->pos->count == 1 ? nt_int(j->pos, 0) + i
                                : nt_int(j->pos, b * j->len + i);
}

static void rotary_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct rotary_job *j = arg;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        int64_t i = r % j->len, h = r / j->len % j->heads, b = r / (j->len * j->heads),
                at = position(j, b, i) * j->half;

        rotary_row(kernel_isa(j->op),
                   (float *)kernel_out(j->op, 0)->data + b * j->out.batch + h * j->out.head +
                       i * j->out.step,
                   j->in.base + b * j->in.batch + h * j->in.head + i * j->in.step, j->width,
                   j->cos + at, j->sin + at, j->half, j->mixed);
    }
}

int rotary_run(struct op *op, opm_error *err)
{
    bool contrib = op->kernel->arg == ROTARY_CONTRIB;
    uint32_t cos_at = contrib ? 2 : 1;
    const struct nt *x = kernel_in(op, 0), *c = kernel_in(op, cos_at);
    int64_t batch = x->shape.dim[0];
    struct rotary_job j = { .op = op,
                            .heads = x->shape.rank == 4 ? x->shape.dim[1]
                                                        : node_attr_int(op->node, "num_heads", 0),
                            .half = c->shape.dim[c->shape.rank - 1],
                            .cos = c->data,
                            .sin = kernel_in(op, cos_at + 1)->data,
                            .pos = kernel_in(op, contrib ? 1 : 3),
                            .mixed = node_attr_int(op->node, "interleaved", 0) != 0 };

    if (j.heads == 0)
        j.heads = x->shape.dim[2] / MAX(2 * j.half, (int64_t)1);
    if (!attention_shape(&x->shape, j.heads, &j.len, &j.width))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    j.in = attention_rows(x, j.heads);
    j.out = attention_rows(kernel_out(op, 0), j.heads);
    for (int64_t i = 0; i < batch * j.len && j.heads; i++) {
        int64_t at = position(&j, i / j.len, i % j.len);

        if (at < 0 || at >= c->count / MAX(j.half, (int64_t)1))
            return kernel_fail(op, OPM_EINVAL, err, "position %lld is out of range", (long long)at);
    }
    pool_for(kernel_pool(op), batch * j.heads * j.len, pool_grain((double)j.width * TURN_NS),
             rotary_part, &j);
    return 0;
}
