/* zoo_whisper.c -- Whisper tiny: whole, or in the parts that Hugging Face's Optimum exports: the
 * encoder, the decoder that reads a prompt, the one that goes on from a cache, and both of these in
 * one file, as branches of an If. */
#include "graph/zoo_int.h"

#include <math.h>
#include <string.h>

#define DIM 384
#define HEADS 6
#define WIDTH (DIM / HEADS)
#define LAYERS 4
#define FFN 1536
#define MELS 80
#define FRAMES 3000
#define HEARD 1500 /* positions that the encoder makes of them */
#define VOCABULARY 51865
#define POSITIONS 448

struct decoder {
    bool past;          /* goes on from a cache, whose values are inputs */
    bool gives_cache;   /* new keys and values are outputs */
    const char *states; /* what the encoder gave; NULL: keys and values of it are cached */
    const char *ids;
    const char *from, *total, *mask; /* positions before, and with, the new tokens */
};

static const char *const cache_kinds[] = { "decoder.key", "decoder.value", "encoder.key",
                                           "encoder.value" };
static const int64_t rows_first[] = { 0, 2, 1, 3 }, turned[] = { 0, 1, 3, 2 },
                     turned_over[] = { 1, 0 }, cache_dims[] = { 1, HEADS, HEARD, WIDTH };
static const char *const ids_open[] = { "batch_size", "decoder_sequence_length" };
static const char *const states_open[] = { "batch_size", "encoder_sequence_length", NULL };
static const char *const logits_open[] = { "batch_size", "decoder_sequence_length", NULL };
static const char *const past_open[] = { "batch_size", NULL, "past_decoder_sequence_length", NULL };
static const char *const present_open[] = { "batch_size", NULL,
                                            "past_decoder_sequence_length + sequence", NULL };
static const char *const heard_open[] = { "batch_size", NULL, "encoder_sequence_length_out", NULL };

static bool of_encoder(int kind)
{
    return kind >= 2;
}

/* Weights so large that what attention looks at is not all the same. */
static const char *linear(struct onnx_writer *w, const char *x, const char *name, int64_t cin,
                          int64_t cout, bool bias)
{
    const int64_t dims[] = { cin, cout };
    const char *weight = ow_normal(w, ow_name(w, "%s.weight", name), dims, 2, 1 / sqrt(cin), -1);

    ow_begin(w, "MatMul", NULL);
    ow_in(w, x);
    ow_in(w, weight);
    x = ow_end(w);
    return bias ? ow_op(w, "Add", ow_normal(w, ow_name(w, "%s.bias", name), &cout, 1, 0.1, -1), x,
                        NULL)
                : x;
}

static const char *gelu(struct onnx_writer *w, const char *x)
{
    const char *e = ow_op(w, "Erf", ow_op(w, "Div", x, ow_float(w, sqrt(2.0)), NULL), NULL);

    e = ow_op(w, "Mul", x, ow_op(w, "Add", e, ow_float(w, 1), NULL), NULL);
    return ow_op(w, "Mul", e, ow_float(w, 0.5), NULL);
}

static const char *heads(struct onnx_writer *w, const char *x)
{
    x = ow_op(w, "Reshape", x, OW_INTS(w, 0, -1, HEADS, WIDTH), NULL);
    return zoo_transpose(w, x, rows_first, 4);
}

static const char *project(struct onnx_writer *w, const char *x, const char *name, const char *what)
{
    return heads(w,
                 linear(w, x, ow_name(w, "%s.%s", name, what), DIM, DIM, strcmp(what, "k_proj")));
}

/* Of x to keys and values, which have heads already. */
static const char *attend(struct onnx_writer *w, const char *x, const char *name, const char *keys,
                          const char *values, const char *mask)
{
    const char *q = linear(w, x, ow_name(w, "%s.q_proj", name), DIM, DIM, true), *s;

    q = heads(w, ow_op(w, "Mul", q, ow_float(w, 1 / sqrt((double)WIDTH)), NULL));
    s = ow_op(w, "MatMul", q, zoo_transpose(w, keys, turned, 4), NULL);
    if (mask)
        s = ow_op(w, "Add", s, mask, NULL);
    ow_begin(w, "Softmax", NULL);
    ow_in(w, s);
    ow_attr_int(w, "axis", -1);
    s = ow_op(w, "MatMul", ow_end(w), values, NULL);
    s = ow_op(w, "Reshape", zoo_transpose(w, s, rows_first, 4), OW_INTS(w, 0, -1, DIM), NULL);
    return linear(w, s, ow_name(w, "%s.out_proj", name), DIM, DIM, true);
}

static const char *feed_forward(struct onnx_writer *w, const char *x, const char *layer)
{
    const char *y = zoo_layer_norm(w, x, ow_name(w, "%s.final_layer_norm", layer), DIM, 1e-5);

    y = gelu(w, linear(w, y, ow_name(w, "%s.fc1", layer), DIM, FFN, true));
    return ow_op(w, "Add", x, linear(w, y, ow_name(w, "%s.fc2", layer), FFN, DIM, true), NULL);
}

static const char *convolve(struct onnx_writer *w, const char *x, int which, int64_t cin)
{
    const int64_t dims[] = { DIM, cin, 3 }, dim = DIM;
    const char *name = ow_name(w, "encoder.conv%d", which);

    ow_begin(w, "Conv", NULL);
    ow_in(w, x);
    ow_in(w, ow_normal(w, ow_name(w, "%s.weight", name), dims, 3, 1 / sqrt(3 * (double)cin), -1));
    ow_in(w, ow_normal(w, ow_name(w, "%s.bias", name), &dim, 1, 0.1, -1));
    OW_ATTR_INTS(w, "kernel_shape", 3);
    OW_ATTR_INTS(w, "pads", 1, 1);
    OW_ATTR_INTS(w, "strides", which);
    return gelu(w, ow_end(w));
}

/* A value of that name for what would have one of its own. */
static void call_it(struct onnx_writer *w, const char *x, const char *name)
{
    ow_begin(w, "Identity", NULL);
    ow_in(w, x);
    ow_out(w, name);
    ow_end(w);
}

static const char *encode(struct onnx_writer *w, const struct zoo_options *o)
{
    static const int64_t channels_last[] = { 0, 2, 1 };
    const int64_t sound[] = { o->batch, MELS, FRAMES }, places[] = { HEARD, DIM };
    const char *x = ow_input(w, "input_features", TENSOR_F32, o->batch_name, sound, 3), *y;

    x = convolve(w, convolve(w, x, 1, MELS), 2, DIM);
    x = ow_op(w, "Add", zoo_transpose(w, x, channels_last, 3),
              ow_normal(w, "encoder.embed_positions.weight", places, 2, 0.5, -1), NULL);
    for (int i = 0; i < LAYERS; i++) {
        const char *n = ow_name(w, "encoder.layers.%d", i), *at = ow_name(w, "%s.self_attn", n);

        y = zoo_layer_norm(w, x, ow_name(w, "%s.self_attn_layer_norm", n), DIM, 1e-5);
        y = attend(w, y, at, project(w, y, at, "k_proj"), project(w, y, at, "v_proj"), NULL);
        x = feed_forward(w, ow_op(w, "Add", x, y, NULL), n);
    }
    return zoo_layer_norm(w, x, "encoder.layer_norm", DIM, 1e-5);
}

/* -- the decoder -- */

static const char *cache_name(struct onnx_writer *w, const char *stem, int layer, int kind)
{
    return ow_name(w, "%s.%d.%s", stem, layer, cache_kinds[kind]);
}

static void cache_inputs(struct onnx_writer *w)
{
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < 4; k++)
            ow_input_open(w, cache_name(w, "past_key_values", i, k), TENSOR_F32,
                          of_encoder(k) ? heard_open : past_open, cache_dims, 4);
}

static void outputs(struct onnx_writer *w, bool of_encoder_too)
{
    const int64_t dims[] = { 1, 1, VOCABULARY };

    ow_output_open(w, "logits", TENSOR_F32, logits_open, dims, 3);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < (of_encoder_too ? 4 : 2); k++)
            ow_output_open(w, cache_name(w, "present", i, k), TENSOR_F32,
                           of_encoder(k) ? heard_open : present_open, cache_dims, 4);
}

/* Keys or values of the new tokens behind those that are cached. */
static const char *own(struct onnx_writer *w, const struct decoder *d, const char *x,
                       const char *at, int layer, int kind)
{
    const char *new = project(w, x, at, kind ? "v_proj" : "k_proj"), *name;

    if (!d->gives_cache)
        return new;
    name = cache_name(w, "present", layer, kind);
    if (!d->past) {
        call_it(w, new, name);
        return name;
    }
    ow_begin(w, "Concat", NULL);
    ow_in(w, cache_name(w, "past_key_values", layer, kind));
    ow_in(w, new);
    ow_out(w, name);
    ow_attr_int(w, "axis", 2);
    return ow_end(w);
}

/* Keys or values of what the encoder gave: made once, then cached. */
static const char *heard(struct onnx_writer *w, const struct decoder *d, const char *at, int layer,
                         int kind)
{
    const char *made;

    if (!d->states)
        return cache_name(w, "past_key_values", layer, 2 + kind);
    made = project(w, d->states, at, kind ? "v_proj" : "k_proj");
    if (d->gives_cache)
        call_it(w, made, cache_name(w, "present", layer, 2 + kind));
    return made;
}

/* [new, all]: 0 where a token looks, else a very small number. */
static void look_back(struct onnx_writer *w, struct decoder *d)
{
    const char *new = zoo_size_of(w, d->ids, 1), *m;

    d->from = d->past ? zoo_size_of(w, "past_key_values.0.decoder.key", 2) : ow_int_scalar(w, 0);
    d->total = d->past ? ow_op(w, "Add", d->from, new, NULL) : new;
    m = ow_op(w, "LessOrEqual", zoo_range(w, ow_int_scalar(w, 0), d->total, 0),
              zoo_range(w, d->from, d->total, 1), NULL);
    d->mask = ow_op(w, "Where", m, ow_float(w, 0), ow_float(w, -10000), NULL);
}

static const char *positions(struct onnx_writer *w, const struct decoder *d)
{
    const int64_t places[] = { POSITIONS, DIM };
    const char *first = ow_op(w, "Unsqueeze", d->from, OW_INTS(w, 0), NULL),
               *last = ow_op(w, "Unsqueeze", d->total, OW_INTS(w, 0), NULL);

    return ow_op(w, "Slice", ow_normal(w, "decoder.embed_positions.weight", places, 2, 0.5, -1),
                 first, last, OW_INTS(w, 0), NULL);
}

static void decode(struct onnx_writer *w, struct decoder *d)
{
    const int64_t table[] = { VOCABULARY, DIM };
    const char *words = ow_normal(w, "decoder.embed_tokens.weight", table, 2, 1 / sqrt(DIM), -1);
    const char *x = zoo_gather(w, words, d->ids, 0), *y;

    look_back(w, d);
    x = ow_op(w, "Add", x, positions(w, d), NULL);
    for (int i = 0; i < LAYERS; i++) {
        const char *n = ow_name(w, "decoder.layers.%d", i), *at = ow_name(w, "%s.self_attn", n),
                   *to = ow_name(w, "%s.encoder_attn", n);

        y = zoo_layer_norm(w, x, ow_name(w, "%s.self_attn_layer_norm", n), DIM, 1e-5);
        y = attend(w, y, at, own(w, d, y, at, i, 0), own(w, d, y, at, i, 1), d->mask);
        x = ow_op(w, "Add", x, y, NULL);
        y = zoo_layer_norm(w, x, ow_name(w, "%s.encoder_attn_layer_norm", n), DIM, 1e-5);
        y = attend(w, y, to, heard(w, d, to, i, 0), heard(w, d, to, i, 1), NULL);
        x = feed_forward(w, ow_op(w, "Add", x, y, NULL), n);
    }
    x = zoo_layer_norm(w, x, "decoder.layer_norm", DIM, 1e-5);
    words = zoo_transpose(w, words, turned_over, 2);
    ow_begin(w, "MatMul", NULL);
    ow_in(w, x);
    ow_in(w, words);
    ow_out(w, "logits");
    ow_end(w);
}

/* Both in one: what the encoder gave is cached already in one branch, which gives nothing for it.
 */
static void merged(struct onnx_writer *w, struct decoder first)
{
    const int64_t one[] = { 1 }, none[] = { 0, HEADS, 0, WIDTH };
    struct decoder next = { .past = true, .gives_cache = true, .ids = first.ids };
    struct ow_graph no_past, with_past;

    cache_inputs(w);
    ow_input(w, "use_cache_branch", TENSOR_BOOL, NULL, one, 1);
    ow_graph_begin(w);
    decode(w, &first);
    outputs(w, true);
    no_past = ow_graph_end(w, "no_past");
    ow_graph_begin(w);
    decode(w, &next);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 2; k < 4; k++) {
            ow_begin(w, "Constant", NULL);
            ow_out(w, cache_name(w, "present", i, k));
            ow_attr_empty(w, "value", TENSOR_F32, none, 4);
            ow_end(w);
        }
    outputs(w, true);
    with_past = ow_graph_end(w, "with_past");
    ow_begin(w, "If", "optimum::if");
    ow_in(w, "use_cache_branch");
    ow_out(w, "logits");
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < 4; k++)
            ow_out(w, cache_name(w, "present", i, k));
    ow_attr_graph(w, "then_branch", &with_past);
    ow_attr_graph(w, "else_branch", &no_past);
    ow_end(w);
    outputs(w, true);
}

void zoo_whisper_tiny(struct onnx_writer *w, const struct zoo_options *o)
{
    const int64_t states[] = { 1, HEARD, DIM }, ids[] = { o->batch, o->seq };
    struct decoder d = { .gives_cache = true };

    if (!o->part) {
        const char *const open[] = { o->batch_name, NULL }, *const out[] = { o->batch_name, NULL,
                                                                             NULL };
        const int64_t dims[] = { o->batch, o->seq, VOCABULARY };

        d = (struct decoder){ .states = encode(w, o) };
        d.ids = ow_input_open(w, "decoder_input_ids", TENSOR_I64, open, ids, 2);
        decode(w, &d);
        ow_output_open(w, "logits", TENSOR_F32, out, dims, 3);
    } else if (strcmp(o->part, "encoder_model") == 0) {
        const int64_t dims[] = { o->batch, HEARD, DIM };

        call_it(w, encode(w, o), "last_hidden_state");
        ow_output(w, "last_hidden_state", TENSOR_F32, o->batch_name, dims, 3);
    } else {
        d.ids = ow_input_open(w, "input_ids", TENSOR_I64, ids_open, ids, 2);
        d.past = strcmp(o->part, "decoder_with_past_model") == 0;
        if (!d.past)
            d.states =
                ow_input_open(w, "encoder_hidden_states", TENSOR_F32, states_open, states, 3);
        if (strcmp(o->part, "decoder_model_merged") == 0) {
            merged(w, d);
            return;
        }
        if (d.past)
            cache_inputs(w);
        decode(w, &d);
        outputs(w, !d.past);
    }
}
