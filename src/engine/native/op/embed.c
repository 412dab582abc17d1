/* embed.c -- com.microsoft's EmbedLayerNormalization and QEmbedLayerNormalization: embeddings of
 * words, positions and segments, added up and normalized. */
#include "engine/native/math/infer.h"
#include "engine/native/math/q8.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

enum { IDS, SEGMENTS, WORDS, PLACES, TYPES, GAMMA, BETA, MASK };

/* Inputs that one form has and the other has not. */
struct embed_slots {
    uint32_t places;      /* given positions */
    uint32_t scale, zero; /* of words; those of the other tables follow */
};

static struct embed_slots slots_of(const struct op *op)
{
    const uint32_t none = 31;

    return op->kernel->arg == WEIGHTS_QUANTIZED ? (struct embed_slots){ none, 8, 13 }
                                                : (struct embed_slots){ 8, none, none };
}

static bool quantized(const struct op *op)
{
    return op->kernel->arg == WEIGHTS_QUANTIZED;
}

static bool table_fits(const struct op *op, uint32_t slot, int64_t width)
{
    const struct nt *t = kernel_in(op, slot);

    return slot >= GAMMA ? t->count == width : t->shape.rank == 2 && t->shape.dim[1] == width;
}

/* One number each. */
static bool scales_fit(const struct op *op, uint32_t table)
{
    struct embed_slots at = slots_of(op);
    const struct nt *scale = kernel_in(op, at.scale + table - WORDS),
                    *zero = kernel_in(op, at.zero + table - WORDS);

    return scale && zero && scale->type == TENSOR_F32 && scale->count == 1 && zero->count == 1 &&
           zero->type == kernel_in(op, table)->type;
}

static int want_tables(const struct op *op, int64_t width, opm_error *err)
{
    for (uint32_t i = WORDS; i <= BETA; i++) {
        int rc;

        if (i == TYPES && !kernel_in(op, TYPES))
            continue;
        rc = kernel_want(
            op, i, quantized(op) ? TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_I8) : TYPE_BIT(TENSOR_F32),
            err);
        if (rc)
            return rc;
        if (!table_fits(op, i, width) || (quantized(op) && !scales_fit(op, i)))
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "input %u does not fit", i);
    }
    return 0;
}

int embednorm_prepare(struct op *op, opm_error *err)
{
    const struct nt *ids = kernel_in(op, IDS), *words = kernel_in(op, WORDS),
                    *places = kernel_in(op, slots_of(op).places), *mask = kernel_in(op, MASK);
    int64_t width;
    int rc = kernel_want(op, IDS, TYPES_INDEX, err);

    if (!rc && kernel_in(op, SEGMENTS))
        rc = kernel_want(op, SEGMENTS, TYPES_INDEX, err);
    if (rc)
        return rc;
    if (!words || words->shape.rank != 2 || ids->shape.rank != 2)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "operands do not fit");
    width = words->shape.dim[1];
    rc = want_tables(op, width, err);
    if (rc)
        return rc;
    if ((kernel_in(op, SEGMENTS) && kernel_in(op, SEGMENTS)->count != ids->count) ||
        (mask && (mask->count != ids->count || mask->type != TENSOR_I32)) ||
        (places && (places->count % MAX(ids->shape.dim[1], (int64_t)1) || !places->count ||
                    !(TYPE_BIT(places->type) & TYPES_INDEX))))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "operands do not fit");
    op->scratch_bytes = (size_t)width * 3 * sizeof(float) + 1;
    return kernel_infer(op, err);
}

/* A row of a table, added to out; false: there is none. room: for a row. */
static bool add_row(const struct op *op, uint32_t table, int64_t row, float *out, int64_t n,
                    float *room)
{
    struct embed_slots at = slots_of(op);
    const struct nt *t = kernel_in(op, table);

    if (row < 0 || row >= t->count / MAX(n, (int64_t)1))
        return false;
    if (!quantized(op)) {
        kernel_isa(op)->binary(B_ADD, out, out, 1, (const float *)t->data + row * n, 1, n);
        return true;
    }
    kernel_q8(op)->dequantize(room, (const uint8_t *)t->data + row * n, t->type == TENSOR_I8, n,
                              *(const float *)kernel_in(op, at.scale + table - WORDS)->data,
                              q8_zero(kernel_in(op, at.zero + table - WORDS), 0));
    kernel_isa(op)->binary(B_ADD, out, out, 1, room, 1, n);
    return true;
}

/* How many tokens of each batch item count. */
static void count_tokens(const struct op *op, int64_t seq)
{
    const struct nt *mask = kernel_in(op, MASK);
    struct nt *index = kernel_out(op, 1);

    for (int64_t b = 0; index && b < index->count; b++) {
        int32_t count = 0;

        for (int64_t i = 0; i < seq; i++)
            count += mask && ((const int32_t *)mask->data)[b * seq + i] == 1;
        ((int32_t *)index->data)[b] = count;
    }
}

int embednorm_run(struct op *op, opm_error *err)
{
    const struct nt *ids = kernel_in(op, IDS), *types = kernel_in(op, SEGMENTS),
                    *places = kernel_in(op, slots_of(op).places);
    struct nt *out = kernel_out(op, 0), *sums = kernel_out(op, 2);
    int64_t n = out->shape.dim[2], seq = ids->shape.dim[1];
    float *gamma = op->scratch, *beta = gamma + n, *room = beta + n;

    memset(gamma, 0, (size_t)n * 2 * sizeof(*gamma));
    add_row(op, GAMMA, 0, gamma, n, room);
    add_row(op, BETA, 0, beta, n, room);
    for (int64_t i = 0; i < ids->count; i++) {
        float *row = (float *)out->data + i * n;
        int64_t place = places ? nt_int(places, i % places->count) : i % seq;

        memset(row, 0, (size_t)n * sizeof(*row));
        if (!add_row(op, WORDS, nt_int(ids, i), row, n, room) ||
            !add_row(op, PLACES, place, row, n, room) ||
            (kernel_in(op, TYPES) &&
             !add_row(op, TYPES, types ? nt_int(types, i) : 0, row, n, room)))
            return kernel_fail(op, OPM_EINVAL, err, "index out of range at token %lld",
                               (long long)i);
        if (sums)
            memcpy((float *)sums->data + i * n, row, (size_t)n * sizeof(*row));
        kernel_isa(op)->layernorm(row, row, gamma, beta, n,
                                  node_attr_float(op->node, "epsilon", 1e-12f), NULL, NULL);
    }
    count_tokens(op, seq);
    return 0;
}
