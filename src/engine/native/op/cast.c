/* cast.c -- Cast and CastLike between all numeric types, those of a few bits included; text.c has
 * strings. BitCast, which keeps the bits. */
#include "engine/native/isa/half.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/text.h"

#include <math.h>
#include <string.h>

#define TYPES_CAST                                                                      \
    (TYPES_NUM | TYPE_BIT(TENSOR_BOOL) | TYPE_BIT(TENSOR_F16) | TYPE_BIT(TENSOR_BF16) | \
     TYPES_SMALL | TYPE_BIT(TENSOR_STRING))

/* The type that the model asks for; CastLike's example may be of 16 bits, which values are not. */
static enum tensor_type target(const struct op *op)
{
    const struct graph *g = op->plan->graph;
    uint32_t like = op->nin > 1 ? op->in[1] : NO_VALUE;

    if (op->kernel->arg == CAST_TO)
        return (enum tensor_type)node_attr_int(op->node, "to", 0);
    if (like < g->nvalue && half_inside(g->value[like].type) == kernel_in(op, 1)->type)
        return g->value[like].type;
    return kernel_in(op, 1)->type;
}

int cast_prepare(struct op *op, opm_error *err)
{
    int64_t to = node_attr_int(op->node, "to", 0);
    int rc = kernel_want(op, 0, TYPES_CAST, err);

    if (rc)
        return rc;
    if (op->kernel->arg == CAST_LIKE) {
        rc = kernel_want(op, 1, TYPES_CAST, err);
        if (rc)
            return rc;
        to = (int64_t)target(op);
    }
    if (to <= 0 || to >= TENSOR_NTYPES || !(TYPE_BIT(to) & TYPES_CAST))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for a cast to type %lld",
                           (long long)to);
    return kernel_infer(op, err);
}

/* What does not fit saturates at the 64-bit limits and then wraps, so that nothing is undefined. */
static int64_t whole(double d)
{
    if (isnan(d))
        return 0;
    if (d >= 0x1p63)
        return d >= 0x1p64 ? INT64_MAX : (int64_t)(uint64_t)d;
    return d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

/* How powers of two come from other numbers. */
enum power { POWER_UP, POWER_DOWN, POWER_NEAREST };

struct cast_job {
    const struct nt *in;
    struct nt *out;
    enum tensor_type to;
    const struct isa *isa;
    bool saturate;
    enum power power;
};

/* Down to a power of two, if it is to be that one. */
static float to_power(float f, enum power how)
{
    int exp;
    float part = frexpf(fabsf(f), &exp); /* from 0.5 up to 1 */

    if (how == POWER_UP || !isfinite(f) || f == 0 || (how == POWER_NEAREST && part >= 0.75f))
        return f;
    return ldexpf(0.5f, exp);
}

/* Elements of up to 8 bits, whole bytes [begin, end). Integers drop what does not fit; floats
 * become them as whole numbers. */
static void small_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct cast_job *j = arg;
    const struct nt *in = j->in;
    enum tensor_type t = j->out->type;
    int bits = tensor_type_bits(t);
    bool real = tensor_type_float(in->type), to_real = tensor_type_float(t);

    (void)thread;
    for (int64_t i = begin * (8 / bits); i < MIN(end * (8 / bits), in->count); i++) {
        uint32_t code;

        if (to_real)
            code = f32_to_code(t == TENSOR_F8E8M0 ? to_power((float)nt_float(in, i), j->power)
                                                  : (float)nt_float(in, i),
                               t, j->saturate);
        else
            code = (uint32_t)(real ? whole(nt_float(in, i)) : nt_int(in, i)) & ((1u << bits) - 1);
        tensor_put_code(j->out->data, t, i, code);
    }
}

#define PIECE 512

/* Floats of few bits and integers of fewer, by way of numbers that have loops. */
static void from_small(const struct isa *isa, const struct nt *in, struct nt *out, int64_t begin,
                       int64_t n)
{
    bool real = tensor_type_float(in->type);
    float f[PIECE];
    int64_t w[PIECE];

    for (int64_t i = 0; i < n; i++)
        if (real)
            f[i] = (float)nt_float(in, begin + i);
        else
            w[i] = nt_int(in, begin + i);
    isa->rows->cast[real ? TENSOR_F32 : TENSOR_I64][out->type](
        (char *)out->data + begin * (int64_t)nt_width(out->type), real ? (void *)f : w, n);
}

static void cast_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct cast_job *j = arg;
    const struct nt *in = j->in;
    struct nt *out = j->out;
    rows_cast_fn *fn = j->isa->rows->cast[in->type][out->type];

    (void)thread;
    if (TYPE_BIT(in->type) & TYPES_SMALL)
        for (int64_t i = begin; i < end; i += PIECE)
            from_small(j->isa, in, out, i, MIN(end - i, (int64_t)PIECE));
    else if (in->type == TENSOR_F32 && j->to != out->type) {
        half_rounded((float *)out->data + begin, (const float *)in->data + begin, end - begin,
                     j->to);
        return;
    } else if (in->type == out->type)
        memcpy((char *)out->data + begin * (int64_t)nt_width(out->type),
               (const char *)in->data + begin * (int64_t)nt_width(in->type),
               (size_t)(end - begin) * nt_width(in->type));
    else
        fn((char *)out->data + begin * (int64_t)nt_width(out->type),
           (const char *)in->data + begin * (int64_t)nt_width(in->type), end - begin);
    if (j->to != out->type)
        half_round((float *)out->data + begin, end - begin, j->to);
}

/* Rewriting saw that there is nothing to do: what is inside of the engine is the same already. */
int cast_none_prepare(struct op *op, opm_error *err)
{
    enum tensor_type to = half_inside((enum tensor_type)node_attr_int(op->node, "to", 0));
    int rc = kernel_want(op, 0, TYPE_BIT(to), err);

    return rc ? rc : kernel_set(op, 0, to, &kernel_in(op, 0)->shape, err);
}

int cast_none_run(struct op *op, opm_error *err)
{
    (void)op;
    (void)err;
    return 0;
}

int cast_run(struct op *op, opm_error *err)
{
    struct cast_job j = { kernel_in(op, 0),
                          kernel_out(op, 0),
                          target(op),
                          kernel_isa(op),
                          node_attr_int(op->node, "saturate", 1) != 0,
                          node_attr_is(op->node, "round_mode", "down", "up")      ? POWER_DOWN
                          : node_attr_is(op->node, "round_mode", "nearest", "up") ? POWER_NEAREST
                                                                                  : POWER_UP };

    if (j.in->type == TENSOR_STRING || j.to == TENSOR_STRING)
        return text_cast(op, j.to, err);
    if (j.in->type == j.to) {
        if (j.in->bytes)
            memmove(j.out->data, j.in->data, j.in->bytes);
        return 0;
    }
    if (TYPE_BIT(j.to) & TYPES_SMALL)
        pool_for(kernel_pool(op), (int64_t)j.out->bytes, 1024, small_part, &j);
    else
        pool_for(kernel_pool(op), j.in->count, 8192, cast_part, &j);
    return 0;
}

/* The type of a value as the model has it. */
static enum tensor_type declared(const struct op *op, uint32_t value, const struct nt *t)
{
    const struct graph *g = op->plan->graph;

    if (value < g->nvalue && half_inside(g->value[value].type) == t->type)
        return g->value[value].type;
    return t->type;
}

int bitcast_prepare(struct op *op, opm_error *err)
{
    int64_t to = node_attr_int(op->node, "to", 0);
    enum tensor_type from;
    int rc = kernel_want(op, 0, (TYPES_BYTES | TYPES_SMALL) & ~TYPE_BIT(TENSOR_STRING), err);

    if (rc)
        return rc;
    from = declared(op, op->in[0], kernel_in(op, 0));
    if (to <= 0 || to >= TENSOR_NTYPES || to == TENSOR_STRING ||
        tensor_type_bits((enum tensor_type)to) != tensor_type_bits(from))
        return kernel_fail(op, OPM_EINVAL, err, "no type of %d bits to cast to",
                           tensor_type_bits(from));
    return kernel_infer(op, err);
}

/* Only 16-bit floats are not in memory as the model has them. */
int bitcast_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    enum tensor_type from = declared(op, op->in[0], in),
                     to = (enum tensor_type)node_attr_int(op->node, "to", 0);
    const void *bits = in->data;
    void *room = NULL;

    if (in->count == 0)
        return 0;
    if (from != in->type) {
        room = mem_calloc((size_t)in->count, 2);
        if (!room)
            return kernel_nomem(op, err);
        half_from_float(room, in->data, in->count, from);
        bits = room;
    }
    if (half_inside(to) != to)
        half_to_float(out->data, bits, in->count, to);
    else
        memcpy(out->data, bits, out->bytes);
    mem_free(room);
    return 0;
}
