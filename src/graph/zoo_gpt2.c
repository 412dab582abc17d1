/* zoo_gpt2.c -- GPT-2 with a cache, as Hugging Face's tools export it: attention in primitive
 * operators, keys and values appended to those of earlier tokens by Concat. */
#include "graph/zoo_int.h"

#include <math.h>

#define LAYERS 12
#define HEADS 12
#define WIDTH 64
#define DIM ((int64_t)HEADS * WIDTH)
#define VOCABULARY 50257
#define POSITIONS 1024

static const int64_t rows_first[] = { 0, 2, 1, 3 }, turned[] = { 0, 1, 3, 2 };

/* [B, S, DIM] to [B, HEADS, S, WIDTH]. */
static const char *split(struct onnx_writer *w, const char *x)
{
    x = ow_op(w, "Reshape", x, OW_INTS(w, 0, 0, HEADS, WIDTH), NULL);
    return zoo_transpose(w, x, rows_first, 4);
}

/* What was there before, and what is new. */
static const char *append(struct onnx_writer *w, const char *x, int layer, const char *what)
{
    static const char *const past[] = { "batch_size", NULL, "past_sequence_length", NULL },
                             *const present[] = { "batch_size", NULL, "total_sequence_length",
                                                  NULL };
    const int64_t dims[] = { 1, HEADS, 1, WIDTH };
    const char *name = ow_name(w, "present.%d.%s", layer, what);

    ow_begin(w, "Concat", ow_name(w, "h%d.attn.concat_%s", layer, what));
    ow_in(w, ow_input_open(w, ow_name(w, "past_key_values.%d.%s", layer, what), TENSOR_F32, past,
                           dims, 4));
    ow_in(w, x);
    ow_out(w, name);
    ow_attr_int(w, "axis", 2);
    ow_end(w);
    ow_output_open(w, name, TENSOR_F32, present, dims, 4);
    return name;
}

static const char *attend(struct onnx_writer *w, const char *x, int layer, const char *mask)
{
    const char *name = ow_name(w, "h%d.attn", layer), *part[3], *sizes, *s;

    x = zoo_linear(w, x, ow_name(w, "h%d.qkv", layer), DIM, 3 * DIM);
    for (int i = 0; i < 3; i++)
        part[i] = ow_fresh(w, "split_out");
    sizes = OW_INTS(w, DIM, DIM, DIM);
    ow_begin(w, "Split", ow_name(w, "%s.split", name));
    ow_in(w, x);
    ow_in(w, sizes);
    for (int i = 0; i < 3; i++)
        ow_out(w, part[i]);
    ow_attr_int(w, "axis", 2);
    ow_end(w);
    for (int i = 0; i < 3; i++)
        part[i] = split(w, part[i]);
    part[1] = append(w, part[1], layer, "key");
    part[2] = append(w, part[2], layer, "value");
    s = ow_op(w, "MatMul", part[0], zoo_transpose(w, part[1], turned, 4), NULL);
    s = ow_op(w, "Div", s, ow_float(w, sqrt((double)WIDTH)), NULL);
    s = ow_op(w, "Add", s, mask, NULL);
    ow_begin(w, "Softmax", NULL);
    ow_in(w, s);
    ow_attr_int(w, "axis", -1);
    s = ow_end(w);
    s = zoo_transpose(w, ow_op(w, "MatMul", s, part[2], NULL), rows_first, 4);
    s = ow_op(w, "Reshape", s, OW_INTS(w, 0, 0, DIM), NULL);
    return zoo_linear(w, s, ow_name(w, "h%d.attn_out", layer), DIM, DIM);
}

const char *zoo_size_of(struct onnx_writer *w, const char *x, int64_t axis)
{
    return zoo_gather(w, ow_op(w, "Shape", x, NULL), ow_int_scalar(w, axis), 0);
}

const char *zoo_range(struct onnx_writer *w, const char *from, const char *to, int64_t axis)
{
    const char *r = ow_op(w, "Range", from, to, ow_int_scalar(w, 1), NULL);

    return ow_op(w, "Unsqueeze", r, OW_INTS(w, axis), NULL);
}

/* [B, 1, S, T]: 0 where a token looks, else a very small number: at those before it that the
 * attention mask keeps. */
static const char *causal(struct onnx_writer *w, const char *ids, const char *keep)
{
    const char *total = zoo_size_of(w, keep, 1), *new = zoo_size_of(w, ids, 1), *m, *never;
    const char *rows = zoo_range(w, ow_op(w, "Sub", total, new, NULL), total, 1);
    const char *columns = zoo_range(w, ow_int_scalar(w, 0), total, 0);

    m = ow_op(w, "LessOrEqual", columns, rows, NULL);
    keep = ow_op(w, "Unsqueeze", keep, OW_INTS(w, 1, 2), NULL);
    ow_begin(w, "Cast", NULL);
    ow_in(w, keep);
    ow_attr_int(w, "to", TENSOR_BOOL);
    keep = ow_end(w);
    m = ow_op(w, "And", m, keep, NULL);
    never = ow_float(w, -10000);
    return ow_op(w, "Where", m, ow_float(w, 0), never, NULL);
}

void zoo_gpt2_cached(struct onnx_writer *w, const struct zoo_options *o)
{
    static const char *const rows[] = { "batch_size", "sequence_length" },
                             *const all[] = { "batch_size", "total_sequence_length" },
                             *const out[] = { "batch_size", "sequence_length", NULL };
    const int64_t table[] = { VOCABULARY, DIM }, one[] = { 1, 1, VOCABULARY },
                  places[] = { o->positions ? o->positions : POSITIONS, DIM };
    const char *ids = ow_input_open(w, "input_ids", TENSOR_I64, rows, one, 2);
    const char *keep = ow_input_open(w, "attention_mask", TENSOR_I64, all, one, 2);
    const char *at = ow_input_open(w, "position_ids", TENSOR_I64, rows, one, 2);
    const char *words = ow_normal(w, "wte", table, 2, 0.02, -1), *mask, *x, *y;

    mask = causal(w, ids, keep);
    x = zoo_gather(w, words, ids, 0);
    x = ow_op(w, "Add", x, zoo_gather(w, ow_normal(w, "wpe", places, 2, 0.01, -1), at, 0), NULL);
    for (int i = 0; i < LAYERS; i++) {
        const char *n = ow_name(w, "h%d", i);

        y = zoo_layer_norm(w, x, ow_name(w, "%s.ln1", n), DIM, 1e-5);
        x = ow_op(w, "Add", x, attend(w, y, i, mask), NULL);
        y = zoo_layer_norm(w, x, ow_name(w, "%s.ln2", n), DIM, 1e-5);
        y = zoo_gelu_tanh(w, zoo_linear(w, y, ow_name(w, "%s.mlp_up", n), DIM, 4 * DIM));
        y = zoo_linear(w, y, ow_name(w, "%s.mlp_down", n), 4 * DIM, DIM);
        x = ow_op(w, "Add", x, y, NULL);
    }
    x = zoo_layer_norm(w, x, "ln_f", DIM, 1e-5);
    words = zoo_transpose(w, words, (const int64_t[]){ 1, 0 }, 2);
    ow_begin(w, "MatMul", NULL);
    ow_in(w, x);
    ow_in(w, words);
    ow_out(w, "logits");
    ow_end(w);
    ow_output_open(w, "logits", TENSOR_F32, out, one, 3);
}
