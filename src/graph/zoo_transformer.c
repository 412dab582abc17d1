/* zoo_transformer.c -- BERT, GPT-2 and ViT, as torch.onnx.export writes them: attention and GELU in
 * primitive operators, LayerNorm too below opset 17. */
#include "graph/zoo_int.h"

#include <math.h>

const char *zoo_linear(struct onnx_writer *w, const char *x, const char *name, int64_t cin,
                       int64_t cout)
{
    const int64_t dims[] = { cin, cout };
    const char *product = w->int8 ? zoo_dynamic_matmul(w, x, name, cin, cout, 0.02) : NULL;
    const char *weight =
        product ? NULL : ow_normal(w, ow_name(w, "%s.weight", name), dims, 2, 0.02, 1);
    const char *bias = ow_normal(w, ow_name(w, "%s.bias", name), &cout, 1, 0.02, -1);

    if (product)
        return ow_op(w, "Add", product, bias, NULL);
    ow_begin(w, "MatMul", ow_name(w, "%s/MatMul", name));
    ow_in(w, x);
    ow_in(w, weight);
    return ow_op(w, "Add", ow_end(w), bias, NULL);
}

static const char *reduce_mean(struct onnx_writer *w, const char *x)
{
    ow_begin(w, "ReduceMean", NULL);
    ow_in(w, x);
    OW_ATTR_INTS(w, "axes", -1);
    return ow_end(w);
}

const char *zoo_layer_norm(struct onnx_writer *w, const char *x, const char *name, int64_t dim,
                           double eps)
{
    struct ow_weight s = { .name = ow_name(w, "%s.weight", name),
                           .type = TENSOR_F32,
                           .shape = { 1, { dim } },
                           .fill = FILL_NORMAL,
                           .mean = 1,
                           .scale = 0.1f,
                           .sparse_axis = -1 };
    const char *scale = ow_add_weight(w, &s), *d, *v;
    const char *bias = ow_normal(w, ow_name(w, "%s.bias", name), &dim, 1, 0.02, -1);

    if (w->opset >= 17) {
        ow_begin(w, "LayerNormalization", NULL);
        ow_in(w, x);
        ow_in(w, scale);
        ow_in(w, bias);
        ow_attr_int(w, "axis", -1);
        ow_attr_float(w, "epsilon", (float)eps);
        return ow_end(w);
    }
    d = ow_op(w, "Sub", x, reduce_mean(w, x), NULL);
    v = reduce_mean(w, ow_op(w, "Pow", d, ow_float(w, 2), NULL));
    v = ow_op(w, "Sqrt", ow_op(w, "Add", v, ow_float(w, eps), NULL), NULL);
    d = ow_op(w, "Mul", ow_op(w, "Div", d, v, NULL), scale, NULL);
    return ow_op(w, "Add", d, bias, NULL);
}

static const char *gelu_erf(struct onnx_writer *w, const char *x)
{
    const char *e = ow_op(w, "Erf", ow_op(w, "Div", x, ow_float(w, sqrt(2.0)), NULL), NULL);

    e = ow_op(w, "Add", e, ow_float(w, 1), NULL);
    return ow_op(w, "Mul", ow_op(w, "Mul", x, e, NULL), ow_float(w, 0.5), NULL);
}

/* 0.7978845608 is sqrt(2 / pi). */
const char *zoo_gelu_tanh(struct onnx_writer *w, const char *x)
{
    const char *c = ow_op(w, "Pow", x, ow_float(w, 3), NULL);

    c = ow_op(w, "Mul", c, ow_float(w, 0.044715), NULL);
    c = ow_op(w, "Mul", ow_op(w, "Add", x, c, NULL), ow_float(w, 0.7978845608028654), NULL);
    c = ow_op(w, "Add", ow_op(w, "Tanh", c, NULL), ow_float(w, 1), NULL);
    return ow_op(w, "Mul", ow_op(w, "Mul", x, ow_float(w, 0.5), NULL), c, NULL);
}

const char *zoo_transpose(struct onnx_writer *w, const char *x, const int64_t *perm, int n)
{
    ow_begin(w, "Transpose", NULL);
    ow_in(w, x);
    ow_attr_ints(w, "perm", perm, n);
    return ow_end(w);
}

struct heads {
    int64_t seq, dim, n;
};

static const int64_t rows_first[] = { 0, 2, 1, 3 }, turned[] = { 0, 2, 3, 1 };

/* [B, S, dim] -> [B, heads, S, dim / heads], or with the last two swapped. */
static const char *split_heads(struct onnx_writer *w, const char *x, const struct heads *h,
                               const int64_t *perm)
{
    x = ow_op(w, "Reshape", x, OW_INTS(w, 0, h->seq, h->n, h->dim / h->n), NULL);
    return zoo_transpose(w, x, perm, 4);
}

/* q, v: [B, H, S, D]; k: [B, H, D, S]; mask may be NULL. Gives [B, S, dim]. */
static const char *attend(struct onnx_writer *w, const char *q, const char *k, const char *v,
                          const char *mask, const struct heads *h)
{
    const char *s = ow_op(w, "MatMul", q, k, NULL);

    s = ow_op(w, "Div", s, ow_float(w, sqrt((double)(h->dim / h->n))), NULL);
    if (mask)
        s = ow_op(w, "Add", s, mask, NULL);
    ow_begin(w, "Softmax", NULL);
    ow_in(w, s);
    ow_attr_int(w, "axis", -1);
    s = ow_end(w);
    s = zoo_transpose(w, ow_op(w, "MatMul", s, v, NULL), rows_first, 4);
    return ow_op(w, "Reshape", s, OW_INTS(w, 0, h->seq, h->dim), NULL);
}

const char *zoo_gather(struct onnx_writer *w, const char *x, const char *at, int64_t axis)
{
    ow_begin(w, "Gather", NULL);
    ow_in(w, x);
    ow_in(w, at);
    ow_attr_int(w, "axis", axis);
    return ow_end(w);
}

static const char *table(struct onnx_writer *w, const char *name, int64_t rows, int64_t dim)
{
    return ow_normal(w, name, (const int64_t[]){ rows, dim }, 2, 0.02, -1);
}

static void copy_out(struct onnx_writer *w, const char *x, const char *name)
{
    ow_begin(w, "Identity", NULL);
    ow_in(w, x);
    ow_out(w, name);
    ow_end(w);
}

static const char *bert_layer(struct onnx_writer *w, const char *x, int i, const char *mask,
                              const struct heads *h)
{
    const char *n = ow_name(w, "layer%d", i), *q, *k, *v, *a, *f;

    q = zoo_linear(w, x, ow_name(w, "%s.q", n), h->dim, h->dim);
    q = split_heads(w, q, h, rows_first);
    k = zoo_linear(w, x, ow_name(w, "%s.k", n), h->dim, h->dim);
    k = split_heads(w, k, h, turned);
    v = zoo_linear(w, x, ow_name(w, "%s.v", n), h->dim, h->dim);
    v = split_heads(w, v, h, rows_first);
    a = attend(w, q, k, v, mask, h);
    a = zoo_linear(w, a, ow_name(w, "%s.attn_out", n), h->dim, h->dim);
    x = zoo_layer_norm(w, ow_op(w, "Add", a, x, NULL), ow_name(w, "%s.ln1", n), h->dim, 1e-12);
    f = gelu_erf(w, zoo_linear(w, x, ow_name(w, "%s.ffn_up", n), h->dim, 4 * h->dim));
    f = zoo_linear(w, f, ow_name(w, "%s.ffn_down", n), 4 * h->dim, h->dim);
    return zoo_layer_norm(w, ow_op(w, "Add", f, x, NULL), ow_name(w, "%s.ln2", n), h->dim, 1e-12);
}

static void bert(struct onnx_writer *w, const struct zoo_options *o, int layers, int64_t dim,
                 int64_t heads)
{
    const int64_t in[] = { o->batch, o->seq }, out[] = { o->batch, o->seq, dim };
    const int64_t vocabulary = 30522, pos[] = { 1, o->seq, dim };
    const struct heads h = { o->seq, dim, heads };
    const char *ids = ow_input(w, "input_ids", TENSOR_I64, o->batch_name, in, 2);
    const char *m = ow_input(w, "attention_mask", TENSOR_I64, o->batch_name, in, 2);
    const char *types = ow_input(w, "token_type_ids", TENSOR_I64, o->batch_name, in, 2);
    const char *x;

    m = ow_op(w, "Unsqueeze", m, OW_INTS(w, 1, 2), NULL);
    ow_begin(w, "Cast", NULL);
    ow_in(w, m);
    ow_attr_type(w, "to", TENSOR_F32);
    m = ow_op(w, "Sub", ow_float(w, 1), ow_end(w), NULL);
    m = ow_op(w, "Mul", m, ow_float(w, -10000), NULL);
    x = zoo_gather(w, table(w, "emb.word", vocabulary, dim), ids, 0);
    x = ow_op(w, "Add", x, zoo_gather(w, table(w, "emb.type", 2, dim), types, 0), NULL);
    x = ow_op(w, "Add", x, ow_normal(w, "emb.pos", pos, 3, 0.02, -1), NULL);
    x = zoo_layer_norm(w, x, "emb.ln", dim, 1e-12);
    for (int i = 0; i < layers; i++)
        x = bert_layer(w, x, i, m, &h);
    copy_out(w, x, "last_hidden_state");
    ow_output(w, "last_hidden_state", TENSOR_F32, o->batch_name, out, 3);
}

void zoo_bert_mini(struct onnx_writer *w, const struct zoo_options *o)
{
    bert(w, o, 4, 256, 4);
}

void zoo_bert_base(struct onnx_writer *w, const struct zoo_options *o)
{
    bert(w, o, 12, 768, 12);
}

static const char *gpt2_layer(struct onnx_writer *w, const char *x, int i, const char *mask,
                              const struct heads *h)
{
    const char *n = ow_name(w, "h%d", i), *y, *weight, *bias, *sizes, *part[3];
    const int64_t wide = 3 * h->dim, dims[] = { h->dim, wide };

    y = zoo_layer_norm(w, x, ow_name(w, "%s.ln1", n), h->dim, 1e-5);
    y = ow_op(w, "Reshape", y, OW_INTS(w, -1, h->dim), NULL);
    weight = ow_normal(w, ow_name(w, "%s.qkv.weight", n), dims, 2, 0.02, 1);
    bias = ow_normal(w, ow_name(w, "%s.qkv.bias", n), &wide, 1, 0.02, -1);
    ow_begin(w, "Gemm", ow_name(w, "%s.qkv", n));
    ow_in(w, y);
    ow_in(w, weight);
    ow_in(w, bias);
    y = ow_op(w, "Reshape", ow_end(w), OW_INTS(w, -1, h->seq, wide), NULL);
    for (size_t k = 0; k < 3; k++)
        part[k] = ow_fresh(w, "split_out");
    sizes = OW_INTS(w, h->dim, h->dim, h->dim);
    ow_begin(w, "Split", NULL);
    ow_in(w, y);
    ow_in(w, sizes);
    for (size_t k = 0; k < 3; k++)
        ow_out(w, part[k]);
    ow_attr_int(w, "axis", 2);
    ow_end(w);
    part[0] = split_heads(w, part[0], h, rows_first);
    part[1] = split_heads(w, part[1], h, turned);
    part[2] = split_heads(w, part[2], h, rows_first);
    y = attend(w, part[0], part[1], part[2], mask, h);
    y = zoo_linear(w, y, ow_name(w, "%s.attn_out", n), h->dim, h->dim);
    x = ow_op(w, "Add", x, y, NULL);
    y = zoo_layer_norm(w, x, ow_name(w, "%s.ln2", n), h->dim, 1e-5);
    y = zoo_gelu_tanh(w, zoo_linear(w, y, ow_name(w, "%s.mlp_up", n), h->dim, 4 * h->dim));
    y = zoo_linear(w, y, ow_name(w, "%s.mlp_down", n), 4 * h->dim, h->dim);
    return ow_op(w, "Add", x, y, NULL);
}

void zoo_gpt2_small(struct onnx_writer *w, const struct zoo_options *o)
{
    const int64_t vocabulary = 50257, dim = 768, in[] = { o->batch, o->seq };
    const int64_t pos[] = { 1, o->seq, dim }, out[] = { o->batch, o->seq, vocabulary };
    const struct heads h = { o->seq, dim, 12 };
    struct ow_weight causal = { .name = "causal_mask",
                                .type = TENSOR_F32,
                                .shape = { 4, { 1, 1, o->seq, o->seq } },
                                .fill = FILL_CAUSAL,
                                .scale = -10000,
                                .sparse_axis = -1 };
    const char *ids, *words, *mask, *x;

    if (o->cache) {
        zoo_gpt2_cached(w, o);
        return;
    }
    ids = ow_input(w, "input_ids", TENSOR_I64, o->batch_name, in, 2);
    words = table(w, "wte", vocabulary, dim);
    x = zoo_gather(w, words, ids, 0);
    x = ow_op(w, "Add", x, ow_normal(w, "wpe", pos, 3, 0.01, -1), NULL);
    mask = ow_add_weight(w, &causal);
    for (int i = 0; i < 12; i++)
        x = gpt2_layer(w, x, i, mask, &h);
    x = zoo_layer_norm(w, x, "ln_f", dim, 1e-5);
    words = zoo_transpose(w, words, (const int64_t[]){ 1, 0 }, 2);
    ow_begin(w, "MatMul", NULL);
    ow_in(w, x);
    ow_in(w, words);
    ow_out(w, "logits");
    ow_end(w);
    ow_output(w, "logits", TENSOR_F32, o->batch_name, out, 3);
}

static const char *vit_layer(struct onnx_writer *w, const char *x, int i, const struct heads *h)
{
    static const int64_t qkv_first[] = { 2, 0, 3, 1, 4 }, keys[] = { 0, 1, 3, 2 };
    const char *n = ow_name(w, "blocks.%d", i), *y, *q, *k, *v;

    y = zoo_layer_norm(w, x, ow_name(w, "%s.norm1", n), h->dim, 1e-6);
    y = zoo_linear(w, y, ow_name(w, "%s.attn.qkv", n), h->dim, 3 * h->dim);
    y = ow_op(w, "Reshape", y, OW_INTS(w, 0, h->seq, 3, h->n, h->dim / h->n), NULL);
    y = zoo_transpose(w, y, qkv_first, 5);
    q = zoo_gather(w, y, ow_int_scalar(w, 0), 0);
    k = zoo_transpose(w, zoo_gather(w, y, ow_int_scalar(w, 1), 0), keys, 4);
    v = zoo_gather(w, y, ow_int_scalar(w, 2), 0);
    y = attend(w, q, k, v, NULL, h);
    y = zoo_linear(w, y, ow_name(w, "%s.attn.proj", n), h->dim, h->dim);
    x = ow_op(w, "Add", x, y, NULL);
    y = zoo_layer_norm(w, x, ow_name(w, "%s.norm2", n), h->dim, 1e-6);
    y = gelu_erf(w, zoo_linear(w, y, ow_name(w, "%s.mlp.fc1", n), h->dim, 4 * h->dim));
    y = zoo_linear(w, y, ow_name(w, "%s.mlp.fc2", n), 4 * h->dim, h->dim);
    return ow_op(w, "Add", x, y, NULL);
}

/* The class token, once for each image; an open batch is asked for at run time. */
static const char *class_token(struct onnx_writer *w, const struct zoo_options *o, const char *x,
                               int64_t dim)
{
    const char *cls = ow_normal(w, "cls_token", (const int64_t[]){ 1, 1, dim }, 3, 0.02, -1), *size;

    if (!o->batch_name)
        return ow_op(w, "Expand", cls, OW_INTS(w, o->batch, 1, dim), NULL);
    size = zoo_gather(w, ow_op(w, "Shape", x, NULL), ow_int_scalar(w, 0), 0);
    size = ow_op(w, "Unsqueeze", size, OW_INTS(w, 0), NULL);
    ow_begin(w, "Concat", NULL);
    ow_in(w, size);
    ow_in(w, OW_INTS(w, 1, dim));
    ow_attr_int(w, "axis", 0);
    size = ow_end(w);
    return ow_op(w, "Expand", cls, size, NULL);
}

void zoo_vit_tiny(struct onnx_writer *w, const struct zoo_options *o)
{
    const int64_t dim = 192, patch = 16, side = 224 / patch, tokens = side * side + 1;
    const int64_t classes = 1000, in[] = { o->batch, 3, 224, 224 }, out[] = { o->batch, classes };
    const int64_t kernel[] = { dim, 3, patch, patch }, pos[] = { 1, tokens, dim };
    const int64_t head[] = { classes, dim };
    const struct heads h = { tokens, dim, 3 };
    const char *x = ow_input(w, "input", TENSOR_F32, o->batch_name, in, 4), *cls, *weight, *bias;

    weight = ow_normal(w, "patch_embed.weight", kernel, 4, 0.036, 0);
    bias = ow_normal(w, "patch_embed.bias", &dim, 1, 0.02, -1);
    ow_begin(w, "Conv", "patch_embed");
    ow_in(w, x);
    ow_in(w, weight);
    ow_in(w, bias);
    OW_ATTR_INTS(w, "dilations", 1, 1);
    ow_attr_int(w, "group", 1);
    OW_ATTR_INTS(w, "kernel_shape", patch, patch);
    OW_ATTR_INTS(w, "pads", 0, 0, 0, 0);
    OW_ATTR_INTS(w, "strides", patch, patch);
    x = ow_op(w, "Reshape", ow_end(w), OW_INTS(w, 0, dim, side * side), NULL);
    x = zoo_transpose(w, x, (const int64_t[]){ 0, 2, 1 }, 3);
    cls = class_token(w, o, x, dim);
    ow_begin(w, "Concat", NULL);
    ow_in(w, cls);
    ow_in(w, x);
    ow_attr_int(w, "axis", 1);
    x = ow_op(w, "Add", ow_end(w), ow_normal(w, "pos_embed", pos, 3, 0.02, -1), NULL);
    for (int i = 0; i < 12; i++)
        x = vit_layer(w, x, i, &h);
    x = zoo_layer_norm(w, x, "norm", dim, 1e-6);
    x = zoo_gather(w, x, ow_int_scalar(w, 0), 1);
    weight = ow_normal(w, "head.weight", head, 2, 0.02, 0);
    bias = ow_normal(w, "head.bias", &classes, 1, 0.02, -1);
    ow_begin(w, "Gemm", "head");
    ow_in(w, x);
    ow_in(w, weight);
    ow_in(w, bias);
    ow_out(w, "output");
    ow_attr_int(w, "transB", 1);
    ow_end(w);
    ow_output(w, "output", TENSOR_F32, o->batch_name, out, 2);
}
