/* torch_op.c -- see torch_op.h. */
#include "import/torch/torch_op.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* PyTorch's names of element types, ours, and bytes per element. */
static const struct {
    const char *torch, *ours;
    int bytes;
} dtypes[] = {
    { "float", "fp32", 4 },
    { "double", "fp64", 8 },
    { "c10::Half", "fp16", 2 },
    { "c10::BFloat16", "bf16", 2 },
    { "long int", "int64", 8 },
    { "long", "int64", 8 },
    { "int", "int32", 4 },
    { "short", "int16", 2 },
    { "short int", "int16", 2 },
    { "signed char", "int8", 1 },
    { "unsigned char", "uint8", 1 },
    { "bool", "bool", 1 },
    { "c10::Float8_e4m3fn", "fp8e4m3fn", 1 },
    { "c10::Float8_e4m3fnuz", "fp8e4m3fnuz", 1 },
    { "c10::Float8_e5m2", "fp8e5m2", 1 },
    { "c10::Float8_e5m2fnuz", "fp8e5m2fnuz", 1 },
    { "c10::complex<float>", "complex64", 8 },
    { "c10::complex<double>", "complex128", 16 },
};

static bool is_scalar_type(const char *s, size_t len)
{
    static const char *const words[] = { "",           "Scalar", "ScalarList", "GenericList",
                                         "TensorList", "String", "None",       "Device" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (len == strlen(words[i]) && memcmp(s, words[i], len) == 0)
            return true;
    return false;
}

static struct json_reader value_of(const struct event_info *info, const struct member *m)
{
    return json_read_of(info->shape->strict + m->from, m->to - m->from);
}

static struct torch_input *input_at(struct torch_inputs *in, int i)
{
    if (i >= TORCH_INPUTS_MAX)
        return NULL;
    for (; in->n <= i; in->n++)
        in->in[in->n] = (struct torch_input){ .ndim = -1 };
    return &in->in[i];
}

/* [[8, 128], [], ...]; a list of tensors has one more level and is passed over. */
static void read_dims(struct torch_inputs *in, const struct event_info *info,
                      const struct member *m)
{
    struct json_reader r = value_of(info, m);

    if (json_read_next(&r) != JSON_ARRAY)
        return;
    for (int i = 0; json_read_next(&r) != JSON_ARRAY_END && r.token != JSON_BAD; i++) {
        struct torch_input *t = input_at(in, i);

        if (!t)
            return;
        if (r.token != JSON_ARRAY) {
            json_read_skip(&r);
            continue;
        }
        t->ndim = 0;
        while (json_read_next(&r) != JSON_ARRAY_END && r.token != JSON_BAD) {
            int64_t v;

            if (r.token != JSON_NUMBER || !json_read_int(&r, &v) ||
                t->ndim == (int)ARRAY_SIZE(t->dim)) {
                t->ndim = -1;
                if (r.token == JSON_ARRAY || r.token == JSON_OBJECT)
                    json_read_skip(&r);
                while (json_read_next(&r) != JSON_ARRAY_END && r.token != JSON_BAD)
                    if (r.token == JSON_ARRAY || r.token == JSON_OBJECT)
                        json_read_skip(&r);
                break;
            }
            t->dim[t->ndim++] = v;
        }
    }
}

static void read_texts(struct torch_inputs *in, const struct event_info *info,
                       const struct member *m, bool concrete)
{
    struct json_reader r = value_of(info, m);

    if (json_read_next(&r) != JSON_ARRAY)
        return;
    for (int i = 0; json_read_next(&r) != JSON_ARRAY_END && r.token != JSON_BAD; i++) {
        struct torch_input *t = input_at(in, i);

        if (!t)
            return;
        if (r.token != JSON_STRING) {
            json_read_skip(&r);
            continue;
        }
        if (concrete) {
            t->concrete = r.text;
            t->concrete_len = r.len;
        } else {
            t->dtype = r.text;
            t->dtype_len = r.len;
        }
    }
}

static const struct member *find_any(const struct event_info *info, const char *a, const char *b)
{
    const struct member *m = member_find(&info->args, a);

    return m ? m : member_find(&info->args, b);
}

/* Of a tensor: dimensions that are known, and a type that is one of elements. */
static bool is_tensor(const struct torch_input *t)
{
    return t->ndim > 0 || (t->ndim == 0 && t->dtype && !is_scalar_type(t->dtype, t->dtype_len));
}

static void put_shape(struct buf *out, const struct torch_input *t)
{
    for (int i = 0; i < t->ndim; i++)
        buf_addf(out, i ? "x%" PRId64 : "%" PRId64, t->dim[i]);
}

static int add_tensor(struct events *ev, uint32_t op, int slot, const struct torch_input *t)
{
    struct cell row[op_tensor_col_COUNT];
    str_id io, dtype = 0, shape;
    int64_t bytes = OPM_NULL_I64;
    int rc;

    for (int i = 0; i < op_tensor_col_COUNT; i++)
        row[i] = cell_null();
    buf_clear(&ev->text);
    put_shape(&ev->text, t);
    rc = ev->text.failed ? OPM_ENOMEM : store_str(ev->st, buf_str(&ev->text), ev->text.len, &shape);
    if (!rc)
        rc = store_cstr(ev->st, "input", &io);
    if (!rc && t->dtype && t->dtype_len) {
        rc = store_str(ev->st, t->dtype, t->dtype_len, &dtype);
        for (size_t i = 0; i < ARRAY_SIZE(dtypes) && !rc; i++) {
            if (t->dtype_len != strlen(dtypes[i].torch) ||
                memcmp(t->dtype, dtypes[i].torch, t->dtype_len) != 0)
                continue;
            rc = store_cstr(ev->st, dtypes[i].ours, &dtype);
            bytes = dtypes[i].bytes;
            for (int k = 0; k < t->ndim; k++)
                if (t->dim[k] < 0 || __builtin_mul_overflow(bytes, t->dim[k], &bytes)) {
                    bytes = OPM_NULL_I64;
                    break;
                }
        }
    }
    if (rc)
        return rc;
    row[op_tensor_col_op] = cell_id(op);
    row[op_tensor_col_io] = cell_str(io);
    row[op_tensor_col_slot] = cell_i64(slot);
    row[op_tensor_col_dtype] = cell_str(dtype);
    row[op_tensor_col_shape] = cell_str(shape);
    row[op_tensor_col_bytes] = cell_i64(bytes);
    return store_add(ev->st, TABLE_op_tensor, row, NULL);
}

/* "aten::mm [8x128, 128x256]" */
static int op_label(struct events *ev, const char *name, const struct torch_inputs *in, str_id *out)
{
    bool any = false;

    buf_clear(&ev->text);
    buf_adds(&ev->text, name);
    for (int i = 0; i < in->n; i++) {
        if (!is_tensor(&in->in[i]))
            continue;
        buf_adds(&ev->text, any ? ", " : " [");
        put_shape(&ev->text, &in->in[i]);
        any = true;
    }
    if (any)
        buf_addc(&ev->text, ']');
    return ev->text.failed ? OPM_ENOMEM : store_str(ev->st, buf_str(&ev->text), ev->text.len, out);
}

static int add_op(struct events *ev, str_id name, const struct torch_inputs *in, uint32_t *out)
{
    struct cell row[op_col_COUNT];
    int64_t flops = torch_flops(store_text(ev->st, name), in);
    str_id label, engine;
    int rc = op_label(ev, store_text(ev->st, name), in, &label);

    for (int i = 0; i < op_col_COUNT; i++)
        row[i] = cell_null();
    if (!rc)
        rc = store_cstr(ev->st, "pytorch", &engine);
    if (rc)
        return rc;
    row[op_col_name] = cell_str(label);
    row[op_col_type] = cell_str(name);
    row[op_col_engine] = cell_str(engine);
    row[op_col_flops] = flops < 0 ? cell_null() : cell_i64(flops);
    rc = store_add(ev->st, TABLE_op, row, out);
    for (int i = 0; i < in->n && !rc; i++)
        if (is_tensor(&in->in[i]))
            rc = add_tensor(ev, *out, i, &in->in[i]);
    return rc;
}

int torch_op(struct events *ev, struct u64map *known, str_id name, const struct event_info *info,
             uint32_t *out)
{
    const struct member *dims = find_any(info, "Input Dims", "Input dims");
    const struct member *types = find_any(info, "Input type", "Input Type");
    const struct member *concrete = member_find(&info->args, "Concrete Inputs");
    struct torch_inputs in = { .n = 0 };
    const uint64_t *op;
    uint64_t key = events_hash(0x746f726368, name);

    if (dims)
        read_dims(&in, info, dims);
    if (types)
        read_texts(&in, info, types, false);
    for (int i = 0; i < in.n; i++) {
        const struct torch_input *t = &in.in[i];

        if (!is_tensor(t))
            continue;
        key = events_hash(key, (uint64_t)i << 8 | (uint64_t)t->ndim);
        for (int k = 0; k < t->ndim; k++)
            key = events_hash(key, (uint64_t)t->dim[k]);
        for (size_t k = 0; k < t->dtype_len; k++)
            key = events_hash(key, (unsigned char)t->dtype[k]);
    }
    if (concrete) /* padding and the like, which decide about the work */
        read_texts(&in, info, concrete, true);
    key = events_hash(key, (uint64_t)torch_flops(store_text(ev->st, name), &in));
    op = u64map_get(known, key);
    if (op) {
        *out = (uint32_t)*op;
        return 0;
    }
    if (add_op(ev, name, &in, out))
        return OPM_ENOMEM;
    return u64map_put(known, key, *out);
}
