/* tensorrt_layer.c -- layers of a TensorRT engine into operators. */
#include "import/tensorrt/tensorrt_int.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define DIMS_MAX 12

void trt_begin(struct trt *t)
{
    /* Layers of a file that came before this one. */
    str_id engine = strpool_find(store_strings(t->b.st), "TensorRT", strlen("TensorRT"));

    for (size_t i = 0; engine && i < store_nrow(t->b.st, TABLE_op); i++) {
        struct cell name = store_cell(t->b.st, TABLE_op, i, op_col_name);
        struct cell of = store_cell(t->b.st, TABLE_op, i, op_col_engine);

        if (name.kind == CELL_STR && of.kind == CELL_STR && of.str == engine &&
            u64map_put(&t->op, name.str, i))
            t->b.rc = OPM_ENOMEM;
    }
}

void trt_end(struct trt *t)
{
    u64map_release(&t->op);
    buf_release(&t->scratch);
}

/* "conv1/Conv_12" is a Conv: the last part of a path, without its number. */
static size_t type_of_node(const char *s, size_t len, const char **out)
{
    const char *slash = memrchr(s, '/', len);

    if (slash) {
        len -= (size_t)(slash + 1 - s);
        s = slash + 1;
    }
    *out = s;
    while (len && isdigit((unsigned char)s[len - 1]))
        len--;
    while (len && (s[len - 1] == '_' || s[len - 1] == '.'))
        len--;
    return len;
}

/* The nodes that a layer covers: "A + B", side by side "A || B", inside "{ForeignNode[a...b]}". */
struct fused {
    struct buf nodes;    /* JSON array */
    struct buf post_ops; /* types of all but the first */
    const char *type;
    size_t type_len;
};

static void fused_parse(const char *s, size_t len, struct fused *f)
{
    struct json_writer w = { .buf = &f->nodes };
    const char *end = s + len, *p = s;
    bool behind = false; /* the last separator was a plus */
    int n = 0;

    json_array(&w);
    while (p < end) {
        const char *stop = memmem(p, (size_t)(end - p), " + ", 3);
        const char *beside = memmem(p, (size_t)(end - p), " || ", 4), *type;
        size_t step = 3, type_len;

        if (beside && (!stop || beside < stop)) {
            stop = beside;
            step = 4;
        }
        stop = stop ? stop : end;
        json_str(&w, p, (size_t)(stop - p));
        type_len = type_of_node(p, (size_t)(stop - p), &type);
        if (n++ == 0) {
            f->type = type;
            f->type_len = type_len;
        } else if (behind) {
            buf_adds(&f->post_ops, f->post_ops.len ? "," : "");
            buf_add(&f->post_ops, type, type_len);
        }
        behind = step == 3;
        p = stop == end ? end : stop + step;
    }
    json_array_end(&w);
}

/* What the name alone tells. */
static void name_facts(struct trt *t, str_id name, struct op_row *row)
{
    const char *s = store_text(t->b.st, name);
    size_t len = strpool_len(store_strings(t->b.st), name);
    struct fused f = { 0 };

    row->name = name;
    row->engine = build_cstr(&t->b, "TensorRT");
    if (memmem(s, len, "Reformatting CopyNode", 21) || memmem(s, len, " reformatter ", 13)) {
        row->type = build_cstr(&t->b, "Reformat");
        return;
    }
    if (memmem(s, len, "{ForeignNode[", 13)) {
        row->type = build_cstr(&t->b, "ForeignNode");
        return;
    }
    fused_parse(s, len, &f);
    row->type = f.type_len ? build_str(&t->b, f.type, f.type_len) : 0;
    row->nodes = build_buf(&t->b, &f.nodes);
    row->post_op = build_buf(&t->b, &f.post_ops);
    buf_release(&f.nodes);
    buf_release(&f.post_ops);
}

static void remember(struct trt *t, str_id name, uint32_t op)
{
    if (!t->b.rc && u64map_put(&t->op, name, op))
        t->b.rc = OPM_ENOMEM;
}

uint32_t trt_op_named(struct trt *t, str_id name)
{
    const uint64_t *at = u64map_get(&t->op, name);
    struct op_row row = OP_ROW_INIT;
    uint32_t op;

    if (at || t->b.rc)
        return at ? (uint32_t)*at : OPM_NULL_ID;
    name_facts(t, name, &row);
    op = build_op(&t->b, &row);
    remember(t, name, op);
    return op;
}

struct dims {
    int64_t v[DIMS_MAX];
    size_t n;
    bool known;
};

static void dims_read(struct json_reader *r, struct dims *d)
{
    *d = (struct dims){ .known = r->token == JSON_ARRAY };
    if (r->token != JSON_ARRAY)
        return;
    while (json_read_next(r) == JSON_NUMBER) {
        int64_t v = -1;

        d->known &= json_read_int(r, &v) && d->n < DIMS_MAX;
        if (d->n < DIMS_MAX)
            d->v[d->n++] = v;
    }
}

static int64_t dims_product(const struct dims *d)
{
    int64_t p = 1;

    for (size_t i = 0; i < d->n; i++)
        if (d->v[i] < 0 || __builtin_mul_overflow(p, d->v[i], &p))
            return -1;
    return d->known ? p : -1;
}

/* The type in "Channel major FP16 format where channel % 8 == 0", or in "Half". */
static const char *dtype_of(const char *text)
{
    static const struct {
        const char *word, *dtype;
    } known[] = {
        { "BFLOAT16", "bf16" }, { "BF16", "bf16" },   { "FP32", "fp32" },   { "FP16", "fp16" },
        { "FP8", "fp8" },       { "INT64", "int64" }, { "INT32", "int32" }, { "INT8", "int8" },
        { "INT4", "int4" },     { "UINT8", "uint8" }, { "BOOL", "bool" },   { "HALF", "fp16" },
        { "FLOAT", "fp32" },
    };

    for (size_t i = 0; text && i < ARRAY_SIZE(known); i++)
        if (strcasestr(text, known[i].word))
            return known[i].dtype;
    return NULL;
}

struct layer {
    str_id name, layer_type, parameter_type, tactic;
    struct buf other; /* members that are neither tensors nor names */
    struct json_writer w;
    int64_t weights, bias, out_maps, groups;
    const char *weights_type, *bias_type;
    struct dims kernel, in, out; /* of the first input and output */
    uint32_t op;
    int64_t bytes;
};

static void add_bytes(struct layer *l, int64_t bytes)
{
    if (bytes < 0 || l->bytes == OPM_NULL_I64 || __builtin_add_overflow(l->bytes, bytes, &l->bytes))
        l->bytes = OPM_NULL_I64;
}

/* {"Name", "Dimensions", "Format/Datatype" or "Format" and "Datatype"}; or just a name. */
static bool tensor_read(struct trt *t, struct json_reader *r, struct layer *l, const char *io,
                        int64_t slot)
{
    struct tensor_row row = { .op = l->op, .io = io, .slot = slot, .bytes = OPM_NULL_I64 };
    struct dims d = { 0 };
    struct buf text = { 0 };
    const char *dtype = NULL;
    int64_t n;

    if (r->token == JSON_STRING) {
        row.name = trt_text(t, r);
    } else if (r->token == JSON_OBJECT) {
        while (json_read_next(r) == JSON_KEY) {
            struct json_reader key = *r;

            json_read_next(r);
            if (json_read_is(&key, "Name") && r->token == JSON_STRING)
                row.name = trt_text(t, r);
            else if (json_read_is(&key, "Dimensions"))
                dims_read(r, &d);
            else if ((json_read_is(&key, "Format/Datatype") || json_read_is(&key, "Datatype") ||
                      json_read_is(&key, "Format")) &&
                     r->token == JSON_STRING) {
                str_id s = trt_text(t, r);
                const char *found = s ? dtype_of(store_text(t->b.st, s)) : NULL;

                dtype = found ? found : dtype;
            }
            if (r->token != JSON_ARRAY_END && !json_read_skip(r))
                return false;
        }
        if (r->token != JSON_OBJECT_END)
            return false;
    } else {
        return json_read_skip(r);
    }
    n = dims_product(&d);
    for (size_t i = 0; i < d.n; i++)
        buf_addf(&text, i ? "x%" PRId64 : "%" PRId64, d.v[i]);
    row.shape = d.known ? build_text(&t->b, &text) : 0;
    row.dtype = build_cstr(&t->b, dtype);
    if (n >= 0 && dtype && dtype_bytes(dtype, strlen(dtype)) &&
        !__builtin_mul_overflow(n, (int64_t)dtype_bytes(dtype, strlen(dtype)), &row.bytes))
        add_bytes(l, row.bytes);
    else
        l->bytes = OPM_NULL_I64;
    if (slot == 0 && strcmp(io, "input") == 0)
        l->in = d;
    else if (slot == 0)
        l->out = d;
    build_tensor(&t->b, &row);
    buf_release(&text);
    return true;
}

static bool tensors_read(struct trt *t, struct json_reader *r, struct layer *l, const char *io)
{
    int64_t slot = 0;

    if (r->token != JSON_ARRAY)
        return json_read_skip(r);
    while (json_read_next(r) != JSON_ARRAY_END)
        if (r->token == JSON_BAD || !tensor_read(t, r, l, io, slot++))
            return false;
    return true;
}

/* {"Type": "Half", "Count": 9408} */
static bool weights_read(struct trt *t, struct json_reader *r, int64_t *count, const char **type)
{
    if (r->token != JSON_OBJECT)
        return json_read_skip(r);
    while (json_read_next(r) == JSON_KEY) {
        struct json_reader key = *r;

        json_read_next(r);
        if (json_read_is(&key, "Count"))
            json_read_int(r, count);
        else if (json_read_is(&key, "Type") && r->token == JSON_STRING) {
            str_id s = trt_text(t, r);

            *type = s ? dtype_of(store_text(t->b.st, s)) : NULL;
        }
        if (!json_read_skip(r))
            return false;
    }
    return r->token == JSON_OBJECT_END;
}

/* A member that goes to the attributes as it stands. */
static bool other_read(struct build *b, struct layer *l, const struct json_reader *key,
                       struct json_reader *r)
{
    struct buf name = { 0 };
    const char *start = r->token == JSON_STRING ? r->text - 1 : r->at - 1;
    bool good;

    if (r->token == JSON_NUMBER)
        start = r->text;
    else if (r->token == JSON_TRUE || r->token == JSON_NULL)
        start = r->at - 4;
    else if (r->token == JSON_FALSE)
        start = r->at - 5;
    good = json_read_skip(r);
    if (good) {
        json_read_text(key, &name);
        build_check(b, &name);
        json_key(&l->w, buf_str(&name));
        json_raw(&l->w, start, (size_t)(r->at - start));
        buf_release(&name);
    }
    return good;
}

static bool member_read(struct trt *t, struct json_reader *r, struct layer *l)
{
    struct json_reader key = *r;

    json_read_next(r);
    if (json_read_is(&key, "Name") && r->token == JSON_STRING)
        l->name = trt_text(t, r);
    else if (json_read_is(&key, "ParameterType") && r->token == JSON_STRING)
        l->parameter_type = trt_text(t, r);
    else if (json_read_is(&key, "Inputs"))
        return tensors_read(t, r, l, "input");
    else if (json_read_is(&key, "Outputs"))
        return tensors_read(t, r, l, "output");
    else if (json_read_is(&key, "Weights"))
        return weights_read(t, r, &l->weights, &l->weights_type);
    else if (json_read_is(&key, "Bias"))
        return weights_read(t, r, &l->bias, &l->bias_type);
    else {
        if (json_read_is(&key, "LayerType") && r->token == JSON_STRING)
            l->layer_type = trt_text(t, r);
        else if (json_read_is(&key, "OutMaps"))
            json_read_int(r, &l->out_maps);
        else if (json_read_is(&key, "Groups"))
            json_read_int(r, &l->groups);
        else if (json_read_is(&key, "Kernel") && r->token == JSON_ARRAY) {
            struct json_reader copy = *r;

            dims_read(&copy, &l->kernel);
        }
        return other_read(&t->b, l, &key, r);
    }
    return true;
}

/* The weight's shape, where the parameters explain its size. */
static str_id weight_shape(struct trt *t, const struct layer *l)
{
    struct dims d = { .known = true };
    struct buf text = { 0 };
    str_id id = 0;

    if (l->out_maps > 0 && l->groups > 0 && l->in.n >= 2 && l->kernel.known) {
        d.v[d.n++] = l->out_maps;
        d.v[d.n++] = l->in.v[1] / l->groups;
        for (size_t i = 0; i < l->kernel.n && d.n < DIMS_MAX; i++)
            d.v[d.n++] = l->kernel.v[i];
    }
    if (d.n && dims_product(&d) == l->weights) {
        for (size_t i = 0; i < d.n; i++)
            buf_addf(&text, i ? "x%" PRId64 : "%" PRId64, d.v[i]);
        id = build_buf(&t->b, &text);
    }
    buf_release(&text);
    return id;
}

/* Every weight is used once per output position: of a convolution the elements of a map, of a
 * matrix the rows. */
static int64_t flops_of(const struct trt *t, const struct layer *l)
{
    const char *type = l->parameter_type ? store_text(t->b.st, l->parameter_type) : "";
    bool conv = strcmp(type, "Convolution") == 0, fc = strcmp(type, "FullyConnected") == 0;
    int64_t f = 2;

    if ((!conv && !fc) || l->weights <= 0 || !l->out.known || !l->out.n ||
        __builtin_mul_overflow(f, l->weights, &f) || __builtin_mul_overflow(f, l->out.v[0], &f))
        return OPM_NULL_I64;
    for (size_t i = 2; conv && i < l->out.n; i++)
        if (__builtin_mul_overflow(f, l->out.v[i], &f))
            return OPM_NULL_I64;
    return f > 0 ? f : OPM_NULL_I64;
}

static void weight_row(struct trt *t, struct layer *l, const char *name, int64_t slot,
                       int64_t count, const char *dtype, str_id shape)
{
    struct tensor_row row = { .op = l->op, .io = "weight", .slot = slot, .bytes = OPM_NULL_I64 };

    if (count <= 0)
        return;
    row.name = build_cstr(&t->b, name);
    row.dtype = build_cstr(&t->b, dtype);
    row.shape = shape ? shape : build_fmt(&t->b, "%" PRId64, count);
    if (dtype &&
        !__builtin_mul_overflow(count, (int64_t)dtype_bytes(dtype, strlen(dtype)), &row.bytes))
        add_bytes(l, row.bytes);
    build_tensor(&t->b, &row);
}

static bool layer_read(struct trt *t, struct json_reader *r)
{
    struct layer l = { .op = (uint32_t)store_nrow(t->b.st, TABLE_op) };
    struct op_row row = OP_ROW_INIT;
    bool good = true;

    if (r->token == JSON_STRING) { /* without details: names alone */
        trt_op_named(t, trt_text(t, r));
        return true;
    }
    if (r->token != JSON_OBJECT)
        return json_read_skip(r);
    l.w = (struct json_writer){ .buf = &l.other };
    json_object(&l.w);
    while (good && json_read_next(r) == JSON_KEY && !t->b.rc)
        good = member_read(t, r, &l);
    good = good && r->token == JSON_OBJECT_END;
    json_object_end(&l.w);
    /* Its tensors refer to it already. */
    if (!t->b.rc && l.name)
        name_facts(t, l.name, &row);
    row.type = l.parameter_type ? l.parameter_type : l.layer_type ? l.layer_type : row.type;
    row.weight_shape = weight_shape(t, &l);
    row.flops = flops_of(t, &l);
    weight_row(t, &l, "weights", 0, l.weights, l.weights_type, row.weight_shape);
    weight_row(t, &l, "bias", 1, l.bias, l.bias_type, 0);
    row.bytes = l.bytes > 0 ? l.bytes : OPM_NULL_I64;
    row.attributes = build_buf(&t->b, &l.other);
    build_op(&t->b, &row);
    if (l.name)
        remember(t, l.name, l.op);
    buf_release(&l.other);
    return good;
}

static bool bindings_read(struct trt *t, struct json_reader *r)
{
    struct buf list = { 0 };

    if (r->token != JSON_ARRAY)
        return json_read_skip(r);
    while (json_read_next(r) == JSON_STRING) {
        buf_adds(&list, list.len ? ", " : "");
        json_read_text(r, &list);
    }
    if (list.failed)
        t->b.rc = OPM_ENOMEM;
    build_meta(&t->b, "tensorrt.bindings", buf_str(&list));
    buf_release(&list);
    return r->token == JSON_ARRAY_END;
}

void trt_layers(struct trt *t, struct json_reader *r)
{
    bool good = true;

    while (good && json_read_next(r) == JSON_KEY && !t->b.rc) {
        struct json_reader key = *r;

        json_read_next(r);
        if (json_read_is(&key, "Layers") && r->token == JSON_ARRAY) {
            while (good && json_read_next(r) != JSON_ARRAY_END && !t->b.rc)
                good = r->token != JSON_BAD && layer_read(t, r);
        } else if (json_read_is(&key, "Bindings")) {
            good = bindings_read(t, r);
        } else {
            good = json_read_skip(r);
        }
    }
}
