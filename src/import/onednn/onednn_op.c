/* onednn_op.c -- an operator out of a line of oneDNN's verbose log: shapes and FLOPs follow from
 * the problem, types and layouts from the memory descriptors. */
#include "import/onednn/onednn_int.h"

#include "base/json_write.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define DIMS_MAX 12
#define SIZES_MAX 64

/* A problem such as mb2_ic16oc16_ih7oh7kh5...: names and numbers. */
struct sizes {
    struct {
        char name[8];
        int64_t v;
    } item[SIZES_MAX];
    size_t n;
};

static void sizes_read(struct piece p, struct sizes *s)
{
    size_t i = 0;

    s->n = 0;
    while (i < p.len && s->n < SIZES_MAX) {
        size_t start, len;
        int64_t v = 0;

        while (i < p.len && !isalpha((unsigned char)p.p[i]))
            i++;
        start = i;
        while (i < p.len && isalpha((unsigned char)p.p[i]))
            i++;
        len = i - start;
        if (!len || i == p.len || !isdigit((unsigned char)p.p[i]))
            continue;
        for (; i < p.len && isdigit((unsigned char)p.p[i]); i++)
            v = MIN(v * 10 + (p.p[i] - '0'), (int64_t)1 << 48);
        if (len >= sizeof(s->item[0].name))
            continue;
        memset(s->item[s->n].name, 0, sizeof(s->item[0].name));
        memcpy(s->item[s->n].name, p.p + start, len);
        s->item[s->n++].v = v;
    }
}

/* 0 if the problem does not say. */
static int64_t size_of(const struct sizes *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->item[i].name, name) == 0)
            return s->item[i].v;
    return 0;
}

static int64_t or_one(int64_t v)
{
    return v ? v : 1;
}

struct dnn_shape {
    int64_t dim[DIMS_MAX];
    size_t n; /* 0: not known */
};

static void shape_add(struct dnn_shape *s, int64_t v)
{
    if (v && s->n < DIMS_MAX)
        s->dim[s->n++] = v;
}

static void shape_text(const struct dnn_shape *s, struct buf *out)
{
    for (size_t i = 0; i < s->n; i++)
        buf_addf(out, i ? "x%" PRId64 : "%" PRId64, s->dim[i]);
}

/* 2x16x7x7 up to ':' or the end; returns what is behind it. */
static struct piece shape_read(struct piece p, struct dnn_shape *s)
{
    size_t i = 0;

    s->n = 0;
    if (!p.len)
        return p;
    while (i < p.len && p.p[i] != ':' && p.p[i] != ' ') {
        int64_t v = 0;
        size_t start = i;

        for (; i < p.len && isdigit((unsigned char)p.p[i]); i++)
            v = MIN(v * 10 + (p.p[i] - '0'), (int64_t)1 << 48);
        if (i == start || (i < p.len && !strchr("x: ", p.p[i]))) {
            s->n = 0;
            break;
        }
        if (s->n < DIMS_MAX)
            s->dim[s->n++] = v;
        i += i < p.len && p.p[i] == 'x';
    }
    while (i < p.len && p.p[i] != ':' && p.p[i] != ' ')
        i++;
    i += i < p.len;
    return (struct piece){ p.p + i, p.len - i };
}

/* Shapes by what a tensor is for. */
struct shapes {
    struct dnn_shape src, wei, bia, dst;
    int64_t flops; /* OPM_NULL_I64: not counted */
};

static int64_t product(const int64_t *v, size_t n)
{
    int64_t p = 1;

    for (size_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(p, v[i], &p))
            return OPM_NULL_I64;
    return p;
}

/* Convolution and deconvolution: mb, g, ic, oc and per dimension i, o, k. */
static void conv_shapes(const struct sizes *s, bool transposed, struct shapes *out)
{
    static const char *const in[] = { "id", "ih", "iw" }, *const to[] = { "od", "oh", "ow" };
    static const char *const kernel[] = { "kd", "kh", "kw" };
    int64_t g = or_one(size_of(s, "g")), ic = size_of(s, "ic"), oc = size_of(s, "oc");
    int64_t f[10] = { 2, or_one(size_of(s, "mb")), ic / g, oc };
    size_t n = 4;

    if (!ic || !oc)
        return;
    shape_add(&out->src, or_one(size_of(s, "mb")));
    shape_add(&out->src, ic);
    shape_add(&out->dst, or_one(size_of(s, "mb")));
    shape_add(&out->dst, oc);
    if (g > 1)
        shape_add(&out->wei, g);
    shape_add(&out->wei, oc / g);
    shape_add(&out->wei, ic / g);
    shape_add(&out->bia, oc);
    for (size_t i = 0; i < 3; i++) {
        shape_add(&out->src, size_of(s, in[i]));
        shape_add(&out->dst, size_of(s, to[i]));
        shape_add(&out->wei, size_of(s, kernel[i]));
        f[n++] = or_one(size_of(s, transposed ? in[i] : to[i]));
        f[n++] = or_one(size_of(s, kernel[i]));
    }
    out->flops = product(f, n);
}

static void inner_product_shapes(const struct sizes *s, struct shapes *out)
{
    static const char *const in[] = { "id", "ih", "iw" };
    int64_t f[7] = { 2, or_one(size_of(s, "mb")), size_of(s, "ic"), size_of(s, "oc") };

    if (!f[2] || !f[3])
        return;
    shape_add(&out->src, f[1]);
    shape_add(&out->src, f[2]);
    shape_add(&out->wei, f[3]);
    shape_add(&out->wei, f[2]);
    shape_add(&out->bia, f[3]);
    shape_add(&out->dst, f[1]);
    shape_add(&out->dst, f[3]);
    for (size_t i = 0; i < 3; i++) {
        f[4 + i] = or_one(size_of(s, in[i]));
        shape_add(&out->src, size_of(s, in[i]));
        shape_add(&out->wei, size_of(s, in[i]));
    }
    out->flops = product(f, 7);
}

/* Source and weights, and since 2.3 the destination. */
static void matmul_shapes(struct piece problem, struct shapes *out)
{
    struct piece rest = shape_read(problem, &out->src);
    int64_t f[DIMS_MAX + 2] = { 2 };
    size_t n = 1, rank;

    rest = shape_read(rest, &out->wei);
    shape_read(rest, &out->dst);
    rank = out->src.n;
    if (rank < 2 || out->wei.n != rank || out->src.dim[rank - 1] != out->wei.dim[rank - 2]) {
        out->src.n = out->wei.n = out->dst.n = 0;
        return;
    }
    if (!out->dst.n) {
        for (size_t i = 0; i + 2 < rank; i++)
            shape_add(&out->dst, MAX(out->src.dim[i], out->wei.dim[i]));
        shape_add(&out->dst, out->src.dim[rank - 2]);
        shape_add(&out->dst, out->wei.dim[rank - 1]);
    }
    for (size_t i = 0; i < out->dst.n; i++)
        f[n++] = out->dst.dim[i];
    f[n++] = out->src.dim[rank - 1];
    out->flops = product(f, n);
}

/* Pooling, normalisation: channels stay. */
static void channel_shapes(const struct sizes *s, struct shapes *out)
{
    static const char *const in[] = { "id", "ih", "iw" }, *const to[] = { "od", "oh", "ow" };

    if (!size_of(s, "ic"))
        return;
    shape_add(&out->src, or_one(size_of(s, "mb")));
    shape_add(&out->src, size_of(s, "ic"));
    out->dst = out->src;
    for (size_t i = 0; i < 3; i++) {
        int64_t o = size_of(s, to[i]);

        shape_add(&out->src, size_of(s, in[i]));
        shape_add(&out->dst, o ? o : size_of(s, in[i]));
    }
}

static void shapes_read(const struct dnn_line *l, struct shapes *out)
{
    struct sizes s;

    *out = (struct shapes){ .flops = OPM_NULL_I64 };
    sizes_read(l->problem, &s);
    if (piece_is(l->primitive, "convolution"))
        conv_shapes(&s, false, out);
    else if (piece_is(l->primitive, "deconvolution"))
        conv_shapes(&s, true, out);
    else if (piece_is(l->primitive, "inner_product"))
        inner_product_shapes(&s, out);
    else if (piece_is(l->primitive, "matmul"))
        matmul_shapes(l->problem, out);
    else if (l->problem.len && isdigit((unsigned char)l->problem.p[0])) {
        /* One shape for all, or one for each. */
        struct piece rest = shape_read(l->problem, &out->src);

        if (!rest.len)
            out->dst = out->src;
    } else
        channel_shapes(&s, out);
}

/* What a memory descriptor says: src_f32::blocked:abcd:f0, src:f32:a:blocked:ab::f0,
 * in:f32_nchw or fsrc:nChw8c. */
struct descriptor {
    struct piece name, dtype, layout;
};

static struct piece cut(struct piece *from, char at)
{
    const char *end = memchr(from->p, at, from->len);
    size_t len = end ? (size_t)(end - from->p) : from->len;
    struct piece out = { from->p, len };

    from->p += len + (end != NULL);
    from->len -= len + (end != NULL);
    return out;
}

static bool is_dtype(struct piece p)
{
    return dtype_bytes(p.p, p.len) > 0 || piece_is(p, "undef");
}

static struct descriptor descriptor_read(struct piece p)
{
    struct descriptor d = { .name = cut(&p, ':') };
    const char *under = memrchr(d.name.p, '_', d.name.len);
    struct piece tail = { 0 };

    if (under)
        tail = (struct piece){ under + 1, (size_t)(d.name.p + d.name.len - under - 1) };
    d.layout = p;
    if (under && is_dtype(tail)) {
        d.dtype = tail;
        d.name.len = (size_t)(under - d.name.p);
    } else {
        struct piece rest = p, first = cut(&rest, ':');
        struct piece type = first, layout = first;

        type = cut(&layout, '_');
        if (is_dtype(first)) {
            d.dtype = first;
            d.layout = rest;
        } else if (is_dtype(type)) {
            d.dtype = type;
            d.layout = layout;
        }
    }
    return d;
}

static const struct {
    const char *name, *io;
    int shape; /* 0 src, 1 wei, 2 bia, 3 dst; -1: not known */
} roles[] = {
    { "src", "input", 0 },        { "src0", "input", 0 },      { "in", "input", 0 },
    { "fsrc", "input", 0 },       { "data", "input", 0 },      { "fdata", "input", 0 },
    { "src1", "input", -1 },      { "wei", "weight", 1 },      { "fwei", "weight", 1 },
    { "bia", "weight", 2 },       { "fbia", "weight", 2 },     { "dst", "output", 3 },
    { "out", "output", 3 },       { "fdst", "output", 3 },     { "diff_dst", "input", 3 },
    { "diff_src", "output", 0 },  { "diff_wei", "output", 1 }, { "diff_bia", "output", 2 },
    { "src_layer", "input", -1 }, { "src_iter", "input", -1 }, { "wei_layer", "weight", -1 },
    { "wei_iter", "weight", -1 }, { "bias", "weight", -1 },    { "dst_layer", "output", -1 },
    { "dst_iter", "output", -1 },
};

/* Adds its bytes to *bytes, or makes that unknown. */
static void tensor_add(struct build *b, uint32_t op, const struct descriptor *d,
                       const struct shapes *shapes, int64_t slots[3], int64_t *bytes)
{
    const struct dnn_shape *all[] = { &shapes->src, &shapes->wei, &shapes->bia, &shapes->dst };
    struct tensor_row row = { .op = op, .bytes = OPM_NULL_I64 };
    const struct dnn_shape *shape = NULL;
    struct buf text = { 0 };
    int64_t n = 1;

    for (size_t i = 0; i < ARRAY_SIZE(roles) && !row.io; i++) {
        if (!piece_is(d->name, roles[i].name))
            continue;
        row.io = roles[i].io;
        shape = roles[i].shape >= 0 ? all[roles[i].shape] : NULL;
    }
    if (!row.io || piece_is(d->dtype, "undef"))
        return; /* workspace, scratchpad, or not there */
    row.slot = slots[strcmp(row.io, "input") == 0 ? 0 : strcmp(row.io, "weight") == 0 ? 1 : 2]++;
    row.name = build_str(b, d->name.p, d->name.len);
    if (d->dtype.len)
        row.dtype = build_str(b, d->dtype.p, d->dtype.len);
    if (shape && shape->n) {
        n = product(shape->dim, shape->n);
        shape_text(shape, &text);
        row.shape = build_buf(b, &text);
        if (n != OPM_NULL_I64 && d->dtype.len &&
            __builtin_mul_overflow(n, (int64_t)dtype_bytes(d->dtype.p, d->dtype.len), &row.bytes))
            row.bytes = OPM_NULL_I64;
        buf_release(&text);
    }
    if (row.bytes == OPM_NULL_I64 || *bytes == OPM_NULL_I64 ||
        __builtin_add_overflow(*bytes, row.bytes, bytes))
        *bytes = OPM_NULL_I64;
    build_tensor(b, &row);
}

/* Names of the fused operations: attr-post-ops:eltwise_relu:1:0+sum or 'eltwise_relu;sum'. */
static str_id post_ops(struct build *b, struct piece attributes)
{
    static const char key[] = "post-ops:", old_key[] = "post_ops:";
    const char *at = attributes.len ? memmem(attributes.p, attributes.len, key, strlen(key)) : NULL;
    struct buf out = { 0 };
    const char *p, *end;
    str_id id;

    if (!at && attributes.len)
        at = memmem(attributes.p, attributes.len, old_key, strlen(old_key));
    if (!at)
        return 0;
    end = attributes.p + attributes.len;
    p = at + strlen(key);
    while (p < end && *p != ' ') {
        const char *word = p;

        while (p < end && (isalnum((unsigned char)*p) || *p == '_'))
            p++;
        if (p > word && isalpha((unsigned char)*word)) {
            buf_adds(&out, out.len ? "," : "");
            buf_add(&out, word, (size_t)(p - word));
        }
        /* Parameters of it stand behind colons. */
        while (p < end && *p != '+' && *p != ';' && *p != ' ')
            p++;
        while (p < end && (*p == '+' || *p == ';' || *p == '\''))
            p++;
    }
    id = build_buf(b, &out);
    buf_release(&out);
    return id;
}

static void member(struct json_writer *w, const char *key, struct piece v)
{
    if (!v.len)
        return;
    json_key(w, key);
    json_str(w, v.p, v.len);
}

static str_id attributes_of(struct build *b, const struct dnn_line *l)
{
    struct buf text = { 0 };
    struct json_writer w = { .buf = &text };
    str_id id;

    json_object(&w);
    member(&w, "implementation", l->implementation);
    member(&w, "prop_kind", l->prop_kind);
    member(&w, l->graph ? "data_formats" : "memory", l->descriptors);
    member(&w, l->graph ? "logical_tensors" : "attributes", l->attributes);
    member(&w, l->graph ? "fpmath_mode" : "auxiliary", l->auxiliary);
    member(&w, l->graph ? "operators" : "problem", l->problem);
    json_object_end(&w);
    id = build_buf(b, &text);
    buf_release(&text);
    return id;
}

uint32_t dnn_op(struct build *b, const struct dnn_line *l)
{
    struct op_row row = OP_ROW_INIT;
    struct shapes shapes = { .flops = OPM_NULL_I64 };
    struct piece rest = l->graph ? (struct piece){ 0 } : l->descriptors;
    struct buf name = { 0 };
    int64_t slots[3] = { 0 }, bytes = 0;
    uint32_t op = (uint32_t)store_nrow(b->st, TABLE_op);

    if (!l->graph)
        shapes_read(l, &shapes);
    /* Tensors first: they tell the bytes. They refer to the row that comes next. */
    while (rest.len && !b->rc) {
        struct piece one = cut(&rest, ' ');
        struct descriptor d = descriptor_read(one);

        if (one.len)
            tensor_add(b, op, &d, &shapes, slots, &bytes);
    }
    buf_add(&name, l->primitive.p, l->primitive.len);
    if (l->problem.len) {
        buf_addc(&name, ' ');
        buf_add(&name, l->problem.p, l->problem.len);
    }
    row.name = build_buf(b, &name);
    row.type = build_str(b, l->primitive.p, l->primitive.len);
    row.post_op = post_ops(b, l->attributes);
    row.device =
        build_str(b, l->engine.len ? l->engine.p : "cpu", l->engine.len ? l->engine.len : 3);
    row.engine = build_cstr(b, "oneDNN");
    row.flops = shapes.flops;
    row.bytes = bytes > 0 ? bytes : OPM_NULL_I64;
    row.attributes = attributes_of(b, l);
    if (shapes.wei.n) {
        buf_clear(&name);
        shape_text(&shapes.wei, &name);
        row.weight_shape = build_buf(b, &name);
    }
    buf_release(&name);
    return build_op(b, &row);
}
