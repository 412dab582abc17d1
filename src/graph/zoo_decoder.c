/* zoo_decoder.c -- decoders of the Llama family, as ONNX Runtime's model builder writes them:
 * GroupQueryAttention, which turns queries and keys and writes into the cache where it lies, fused
 * normalisations, and with quant=int4 MatMulNBits. */
#include "graph/zoo_int.h"

#include <math.h>

#define BLOCK 32 /* numbers of 4 bits with a scale of their own */

struct llama {
    int layers;
    int64_t dim, heads, kv_heads, ffn, vocabulary, positions;
    const struct zoo_options *o;
    const char *lengths, *longest, *cos, *sin; /* what every layer's attention is told */
};

static const char *const tokens_open[] = { "batch_size", "sequence_length" };
static const char *const mask_open[] = { "batch_size", "total_sequence_length" };
static const char *const past_open[] = { "batch_size", NULL, "past_sequence_length", NULL };
static const char *const present_open[] = { "batch_size", NULL, "total_sequence_length", NULL };
static const char *const logits_open[] = { "batch_size", "sequence_length", NULL };

static const char *by_nibbles(struct onnx_writer *w, const char *x, const char *name, int64_t cin,
                              int64_t cout, double std, const char *out)
{
    struct ow_weight q = { .name = ow_name(w, "%s.weight_Q4", name),
                           .type = TENSOR_U8,
                           .shape = { 3, { cout, cin / BLOCK, BLOCK / 2 } },
                           .fill = FILL_NIBBLES,
                           .sparse_axis = -1 },
                     s = { .name = ow_name(w, "%s.weight_scales", name),
                           .type = TENSOR_F32,
                           .shape = { 2, { cout, cin / BLOCK } },
                           .fill = FILL_NORMAL,
                           .mean = (float)(std / OW_NIBBLE_STEPS),
                           .scale = (float)(std / OW_NIBBLE_STEPS / 8),
                           .sparse_axis = -1 };

    ow_begin(w, "MatMulNBits", ow_name(w, "%s/MatMulNBits", name));
    ow_microsoft(w);
    ow_in(w, x);
    ow_in(w, ow_add_weight(w, &q));
    ow_in(w, ow_add_weight(w, &s));
    ow_attr_int(w, "K", cin);
    ow_attr_int(w, "N", cout);
    ow_attr_int(w, "bits", 4);
    ow_attr_int(w, "block_size", BLOCK);
    if (out)
        ow_out(w, out);
    return ow_end(w);
}

/* A product by weights; out NULL: a value of its own. */
static const char *project(struct onnx_writer *w, const struct llama *m, const char *x,
                           const char *name, int64_t cin, int64_t cout, const char *out)
{
    const int64_t dims[] = { cin, cout };
    const double std = 1 / sqrt((double)cin);
    const char *weight;

    if (m->o->int4)
        return by_nibbles(w, x, name, cin, cout, std, out);
    weight = ow_normal(w, ow_name(w, "%s.weight", name), dims, 2, std, -1);
    ow_begin(w, "MatMul", ow_name(w, "%s/MatMul", name));
    ow_in(w, x);
    ow_in(w, weight);
    if (out)
        ow_out(w, out);
    return ow_end(w);
}

static const char *norm_weight(struct onnx_writer *w, const char *name, int64_t dim)
{
    struct ow_weight s = { .name = ow_name(w, "%s.weight", name),
                           .type = TENSOR_F32,
                           .shape = { 1, { dim } },
                           .fill = FILL_NORMAL,
                           .mean = 1,
                           .scale = 0.1f,
                           .sparse_axis = -1 };

    return ow_add_weight(w, &s);
}

/* *x + y, which becomes *x, normalised; y NULL: *x alone. */
static const char *rms_norm(struct onnx_writer *w, const struct llama *m, const char **x,
                            const char *y, const char *name)
{
    const char *weight = norm_weight(w, name, m->dim), *sum, *out;

    if (!y) {
        ow_begin(w, "SimplifiedLayerNormalization", NULL);
        ow_in(w, *x);
        ow_in(w, weight);
        ow_attr_int(w, "axis", -1);
        ow_attr_float(w, "epsilon", 1e-5f);
        ow_attr_int(w, "stash_type", 1);
        return ow_end(w);
    }
    sum = ow_fresh(w, "residual");
    out = ow_fresh(w, "normalised");
    ow_begin(w, "SkipSimplifiedLayerNormalization", NULL);
    ow_microsoft(w);
    ow_in(w, *x);
    ow_in(w, y);
    ow_in(w, weight);
    ow_out(w, out);
    ow_out(w, "");
    ow_out(w, "");
    ow_out(w, sum);
    ow_attr_float(w, "epsilon", 1e-5f);
    ow_end(w);
    *x = sum;
    return out;
}

static const char *cache_name(struct onnx_writer *w, const char *stem, int layer, const char *what)
{
    return ow_name(w, "%s.%d.%s", stem, layer, what);
}

static const char *attend(struct onnx_writer *w, const struct llama *m, const char *qkv, int layer)
{
    const int64_t dims[] = { 1, m->kv_heads, 1, m->dim / m->heads };
    const char *past[2], *present[2];

    for (int i = 0; i < 2; i++) {
        const char *what = i ? "value" : "key";

        past[i] = cache_name(w, "past_key_values", layer, what);
        present[i] = cache_name(w, "present", layer, what);
        ow_input_open(w, past[i], TENSOR_F32, past_open, dims, 4);
    }
    ow_begin(w, "GroupQueryAttention", ow_name(w, "layers.%d.attn/GroupQueryAttention", layer));
    ow_microsoft(w);
    ow_in(w, qkv);
    ow_in(w, "");
    ow_in(w, "");
    ow_in(w, past[0]);
    ow_in(w, past[1]);
    ow_in(w, m->lengths);
    ow_in(w, m->longest);
    ow_in(w, m->cos);
    ow_in(w, m->sin);
    ow_out(w, ow_name(w, "layers.%d.attn", layer));
    ow_out(w, present[0]);
    ow_out(w, present[1]);
    ow_attr_int(w, "num_heads", m->heads);
    ow_attr_int(w, "kv_num_heads", m->kv_heads);
    ow_attr_int(w, "do_rotary", 1);
    ow_attr_int(w, "rotary_interleaved", 0);
    return ow_end(w);
}

/* Lengths of the rows, less one, and the longest, from the attention mask. */
static void lengths(struct onnx_writer *w, struct llama *m, const char *mask)
{
    const char *sum;

    ow_begin(w, "ReduceSum", NULL);
    ow_in(w, mask);
    ow_in(w, OW_INTS(w, 1));
    ow_attr_int(w, "keepdims", 0);
    sum = ow_op(w, "Sub", ow_end(w), OW_INTS(w, 1), NULL);
    ow_begin(w, "Cast", NULL);
    ow_in(w, sum);
    ow_attr_int(w, "to", TENSOR_I32);
    m->lengths = ow_end(w);
    sum = ow_op(w, "Shape", mask, NULL);
    ow_begin(w, "Gather", NULL);
    ow_in(w, sum);
    ow_in(w, ow_int_scalar(w, 1));
    ow_attr_int(w, "axis", 0);
    sum = ow_end(w);
    ow_begin(w, "Cast", NULL);
    ow_in(w, sum);
    ow_attr_int(w, "to", TENSOR_I32);
    m->longest = ow_end(w);
}

static const char *rotations(struct onnx_writer *w, const struct llama *m, enum fill fill)
{
    struct ow_weight t = { .name = fill == FILL_COS ? "cos_cache" : "sin_cache",
                           .type = TENSOR_F32,
                           .shape = { 2, { m->positions, m->dim / m->heads / 2 } },
                           .fill = fill,
                           .scale = 10000,
                           .sparse_axis = -1 };

    return ow_add_weight(w, &t);
}

static void llama(struct onnx_writer *w, struct llama *m)
{
    const int64_t one[] = { 1, 1, m->vocabulary }, table[] = { m->vocabulary, m->dim };
    const int64_t kv = m->kv_heads * (m->dim / m->heads),
                  dims[] = { 1, m->kv_heads, 1, m->dim / m->heads };
    const char *ids = ow_input_open(w, "input_ids", TENSOR_I64, tokens_open, one, 2);
    const char *mask = ow_input_open(w, "attention_mask", TENSOR_I64, mask_open, one, 2);
    const char *x, *y = NULL, *n, *gate, *up;

    lengths(w, m, mask);
    m->cos = rotations(w, m, FILL_COS);
    m->sin = rotations(w, m, FILL_SIN);
    ow_begin(w, "Gather", "embed_tokens");
    ow_in(w, ow_normal(w, "embed_tokens.weight", table, 2, 1, -1));
    ow_in(w, ids);
    ow_attr_int(w, "axis", 0);
    x = ow_end(w);
    for (int i = 0; i < m->layers; i++) {
        const char *name = ow_name(w, "layers.%d", i);

        n = rms_norm(w, m, &x, y, ow_name(w, "%s.input_layernorm", name));
        y = project(w, m, n, ow_name(w, "%s.attn.qkv_proj", name), m->dim, m->dim + 2 * kv, NULL);
        y = attend(w, m, y, i);
        y = project(w, m, y, ow_name(w, "%s.attn.o_proj", name), m->dim, m->dim, NULL);
        n = rms_norm(w, m, &x, y, ow_name(w, "%s.post_attention_layernorm", name));
        gate = project(w, m, n, ow_name(w, "%s.mlp.gate_proj", name), m->dim, m->ffn, NULL);
        up = project(w, m, n, ow_name(w, "%s.mlp.up_proj", name), m->dim, m->ffn, NULL);
        gate = ow_op(w, "Mul", gate, ow_op(w, "Sigmoid", gate, NULL), NULL);
        y = ow_op(w, "Mul", gate, up, NULL);
        y = project(w, m, y, ow_name(w, "%s.mlp.down_proj", name), m->ffn, m->dim, NULL);
    }
    n = rms_norm(w, m, &x, y, "norm");
    project(w, m, n, "lm_head", m->dim, m->vocabulary, "logits");
    ow_output_open(w, "logits", TENSOR_F32, logits_open, one, 3);
    for (int i = 0; i < m->layers; i++)
        for (int k = 0; k < 2; k++)
            ow_output_open(w, cache_name(w, "present", i, k ? "value" : "key"), TENSOR_F32,
                           present_open, dims, 4);
}

void zoo_llama_tiny(struct onnx_writer *w, const struct zoo_options *o)
{
    struct llama m = { .layers = 4,
                       .dim = 256,
                       .heads = 8,
                       .kv_heads = 2,
                       .ffn = 704,
                       .vocabulary = 4096,
                       .positions = 4096,
                       .o = o };

    llama(w, &m);
}

/* The sizes of TinyLlama 1.1B. */
void zoo_llama_1b(struct onnx_writer *w, const struct zoo_options *o)
{
    struct llama m = { .layers = 22,
                       .dim = 2048,
                       .heads = 32,
                       .kv_heads = 4,
                       .ffn = 5632,
                       .vocabulary = 32000,
                       .positions = 4096,
                       .o = o };

    llama(w, &m);
}
