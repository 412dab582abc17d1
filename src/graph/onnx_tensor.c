/* onnx_tensor.c -- TensorProto: one form for its eight ways to hold data.
 *
 * raw_data, external data, and a packed float_data or double_data in one piece are used in place;
 * the other typed fields are widened for the wire and are narrowed into the model's arena. */
#include "graph/onnx_int.h"

#include <stdlib.h>
#include <string.h>

/* What sparse tensors may take once they are dense. */
#define DENSE_MAX_BYTES ((size_t)256 << 20)

enum tensor_field {
    F_DIMS = 1,
    F_TYPE = 2,
    F_SEGMENT = 3,
    F_FLOAT = 4,
    F_INT32 = 5,
    F_STRING = 6,
    F_INT64 = 7,
    F_NAME = 8,
    F_RAW = 9,
    F_DOUBLE = 10,
    F_UINT64 = 11,
    F_EXTERNAL = 13,
    F_LOCATION = 14,
};
static const char tensor_spec[] = "tRVLSRLRLLER LV";

struct raw_tensor {
    struct slice bytes;
    struct slice raw;
    bool has_raw;
    bool external;
    size_t n[F_LOCATION + 1];         /* elements of each typed field */
    struct slice one[F_LOCATION + 1]; /* the last packed piece of each */
    size_t pieces[F_LOCATION + 1];
};

/* The typed field that holds elements of type t, and how many of its entries there are to n
 * elements: complex numbers take two, and elements below 8 bits share. */
static enum tensor_field typed_field(enum tensor_type t, uint64_t n, uint64_t *entries)
{
    int bits = tensor_type_bits(t);

    *entries = n;
    switch (t) {
    case TENSOR_F32:
        return F_FLOAT;
    case TENSOR_C64:
        *entries = 2 * n;
        return F_FLOAT;
    case TENSOR_F64:
        return F_DOUBLE;
    case TENSOR_C128:
        *entries = 2 * n;
        return F_DOUBLE;
    case TENSOR_I64:
        return F_INT64;
    case TENSOR_U32:
    case TENSOR_U64:
        return F_UINT64;
    case TENSOR_STRING:
        return F_STRING;
    default:
        if (bits < 8)
            *entries = (n * (uint64_t)bits + 7) / 8;
        return F_INT32;
    }
}

/* First walk: everything but the elements of typed fields. */
static int scan(struct loader *ld, const char *what, struct raw_tensor *raw, struct tensor *out)
{
    struct rd r = rd_of(raw->bytes.p, raw->bytes.len);
    struct pb_field f;
    size_t n;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &f, tensor_spec)) {
        switch (f.number) {
        case F_DIMS:
            n = ld_count_ints(&f);
            if (n > (size_t)(SHAPE_RANK_MAX - out->shape.rank))
                return ld_fail(ld, OPM_EUNSUPPORTED, "%s has more than %d dimensions", what,
                               SHAPE_RANK_MAX);
            n = ld_take_ints(&f, out->shape.dim + out->shape.rank, n);
            out->shape.rank += (int32_t)n;
            break;
        case F_TYPE:
            if (f.value == 0 || f.value >= TENSOR_NTYPES)
                return ld_fail(ld, OPM_EFORMAT, "%s has element type %lld, which is unknown", what,
                               (long long)f.value);
            out->type = (enum tensor_type)f.value;
            break;
        case F_SEGMENT:
            return ld_fail(ld, OPM_EUNSUPPORTED, "%s is only a segment of a tensor", what);
        case F_NAME:
            rc = ld_name(ld, f.p, f.len, NULL, &out->name);
            break;
        case F_RAW:
            raw->raw = (struct slice){ f.p, f.len };
            raw->has_raw = true;
            break;
        case F_LOCATION:
            if (f.value > 1)
                return ld_fail(ld, OPM_EFORMAT, "%s has data location %lld, which is unknown", what,
                               (long long)f.value);
            raw->external = f.value == 1;
            break;
        case F_FLOAT:
        case F_DOUBLE:
            n = f.number == F_FLOAT ? 4 : 8;
            raw->n[f.number] += f.wire == PB_LEN ? f.len / n : 1;
            raw->pieces[f.number]++;
            if (f.wire == PB_LEN)
                raw->one[f.number] = (struct slice){ f.p, f.len };
            else
                raw->pieces[f.number]++; /* never used in place */
            break;
        case F_STRING:
            raw->n[F_STRING]++;
            break;
        case F_INT32:
        case F_INT64:
        case F_UINT64:
            raw->n[f.number] += ld_count_ints(&f);
            break;
        }
    }
    return rc ? rc : ld_end(ld, &r, "%s", what);
}

static bool key_is(const struct pb_field *f, const char *key)
{
    return f->len == strlen(key) && memcmp(f->p, key, f->len) == 0;
}

/* A decimal number in external_data. */
static int take_number(struct loader *ld, const char *what, const struct pb_field *f, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < f->len; i++)
        if (f->p[i] < '0' || f->p[i] > '9' || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(f->p[i] - '0'), &v))
            return ld_fail(ld, OPM_EFORMAT,
                           "%s: offset or length of its external data is not a "
                           "number",
                           what);
    *out = v;
    return 0;
}

static int find_external(struct loader *ld, const char *what, const struct raw_tensor *raw,
                         struct tensor *out)
{
    struct rd r = rd_of(raw->bytes.p, raw->bytes.len);
    const char *location = "";
    size_t len = 0;
    uint64_t offset = 0, length = out->bytes;
    struct pb_field f;
    const uint8_t *p;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &f, "t            L")) {
        struct rd entry = rd_of(f.p, f.len);
        struct pb_field g, key = { 0 }, value = { .p = (const uint8_t *)"" };

        while (ld_next(ld, &entry, &g, "eLL"))
            *(g.number == 1 ? &key : &value) = g;
        rc = ld_end(ld, &entry, "%s", what);
        if (!rc && key_is(&key, "location")) {
            rc = ld_name(ld, value.p, value.len, NULL, &location);
            len = value.len;
        } else if (!rc && key_is(&key, "offset"))
            rc = take_number(ld, what, &value, &offset);
        else if (!rc && key_is(&key, "length"))
            rc = take_number(ld, what, &value, &length);
    }
    if (rc)
        return rc;
    if (out->type == TENSOR_STRING)
        return ld_fail(ld, OPM_EFORMAT, "%s: strings cannot be external data", what);
    if (length != out->bytes)
        return ld_fail(ld, OPM_EFORMAT, "%s: its external data has %llu bytes, its shape wants %zu",
                       what, (unsigned long long)length, out->bytes);
    rc = ld_extern(ld, what, location, len, offset, length, &p);
    if (rc)
        return rc;
    out->data = p;
    out->external = true;
    return 0;
}

/* Bytes that one entry of int32_data or uint64_data gives to an element of type t. */
static size_t entry_bytes(enum tensor_type t)
{
    return MAX((size_t)tensor_type_bits(t) / 8, (size_t)1);
}

/* Second walk: collect the entries of one typed field. */
static int collect(struct loader *ld, const char *what, const struct raw_tensor *raw,
                   enum tensor_field field, struct tensor *out)
{
    struct rd r = rd_of(raw->bytes.p, raw->bytes.len);
    size_t width = field == F_FLOAT ? 4 : field == F_DOUBLE ? 8 : entry_bytes(out->type);
    uint8_t *p = ld_alloc(ld, out->bytes + 8, 1), *to = p, *end = p + out->bytes;
    struct pb_field f;

    if (!p)
        return ld->err->code;
    while (ld_next(ld, &r, &f, tensor_spec)) {
        struct rd part;

        if (f.number != field)
            continue;
        if (field == F_FLOAT || field == F_DOUBLE) {
            size_t n = f.wire == PB_LEN ? f.len : width;

            memcpy(to, f.wire == PB_LEN ? f.p : (const uint8_t *)&f.value, n);
            to += n;
            continue;
        }
        part = rd_of(f.wire == PB_LEN ? f.p : (const uint8_t *)"", f.len);
        for (;;) {
            uint64_t v = f.value;

            if (f.wire == PB_LEN) {
                if (part.p == part.end)
                    break;
                v = rd_varint(&part);
                if (part.bad)
                    return ld_end(ld, &part, "%s", what);
            }
            assert(to + width <= end);
            memcpy(to, &v, width); /* little-endian: the low bytes */
            to += width;
            if (f.wire != PB_LEN)
                break;
        }
    }
    assert(to <= end);
    (void)end;
    out->data = p;
    return 0;
}

static int collect_strings(struct loader *ld, const struct raw_tensor *raw, struct tensor *out)
{
    struct rd r = rd_of(raw->bytes.p, raw->bytes.len);
    struct tensor_string *s = ld_alloc(ld, (size_t)out->count + 1, sizeof(*s));
    struct pb_field f;
    size_t n = 0;
    int rc = 0;

    if (!s)
        return ld->err->code;
    while (!rc && ld_next(ld, &r, &f, "t     L"))
        rc = ld_string(ld, &f, &s[n++]);
    out->data = s;
    return rc;
}

static int find_typed(struct loader *ld, const char *what, const struct raw_tensor *raw,
                      struct tensor *out)
{
    uint64_t entries;
    enum tensor_field field = typed_field(out->type, (uint64_t)out->count, &entries);

    if (raw->n[field] != entries) {
        size_t any = 0;

        for (size_t i = 0; i < ARRAY_SIZE(raw->n); i++)
            any += raw->n[i];
        if (any == 0)
            return ld_fail(ld, OPM_EFORMAT, "%s has no data", what);
        return ld_fail(ld, OPM_EFORMAT, "%s has %zu elements of %s, its shape wants %llu", what,
                       raw->n[field], tensor_type_name(out->type), (unsigned long long)entries);
    }
    if (field == F_STRING)
        return collect_strings(ld, raw, out);
    if ((field == F_FLOAT || field == F_DOUBLE) && raw->pieces[field] == 1) {
        out->data = raw->one[field].p;
        return 0;
    }
    return collect(ld, what, raw, field, out);
}

int ld_tensor(struct loader *ld, struct slice bytes, const char *what, struct tensor *out)
{
    struct raw_tensor raw = { .bytes = bytes };
    int64_t size;
    int rc;

    *out = (struct tensor){ .name = "", .data = "" };
    rc = scan(ld, what, &raw, out);
    if (rc)
        return rc;
    if (out->type == TENSOR_NONE)
        return ld_fail(ld, OPM_EFORMAT, "%s has no element type", what);
    for (int32_t i = 0; i < out->shape.rank; i++)
        if (out->shape.dim[i] < 0)
            return ld_fail(ld, OPM_EFORMAT, "%s has dimension %lld", what,
                           (long long)out->shape.dim[i]);
    out->count = shape_count(&out->shape);
    size = out->type == TENSOR_STRING ? 0 : shape_bytes(&out->shape, out->type);
    if (out->count < 0 || size < 0)
        return ld_fail(ld, OPM_EFORMAT, "%s has more elements than memory can hold", what);
    out->bytes = (size_t)size;
    if (raw.external)
        return find_external(ld, what, &raw, out);
    if (!raw.has_raw)
        return out->count ? find_typed(ld, what, &raw, out) : 0;
    if (out->type == TENSOR_STRING)
        return ld_fail(ld, OPM_EFORMAT, "%s: strings cannot be raw data", what);
    if (raw.raw.len != out->bytes)
        return ld_fail(ld, OPM_EFORMAT, "%s has %zu bytes of data, its shape wants %zu", what,
                       raw.raw.len, out->bytes);
    out->data = raw.raw.p;
    return 0;
}

/* Where in the dense tensor the k-th value goes; -1: nowhere. Indices are linear, or one row of
 * coordinates to each value. */
static int64_t dense_place(const struct tensor *index, const struct shape *dims, int64_t k)
{
    int64_t at = 0;

    if (index->shape.rank == 1)
        return tensor_int(index, k);
    for (int32_t d = 0; d < dims->rank; d++) {
        int64_t c = tensor_int(index, k * dims->rank + d);

        if (c < 0 || c >= dims->dim[d])
            return -1;
        at = at * dims->dim[d] + c;
    }
    return at;
}

int ld_sparse(struct loader *ld, struct slice bytes, const char *what, struct tensor *out)
{
    struct rd r = rd_of(bytes.p, bytes.len);
    struct tensor values = { 0 }, index = { 0 };
    struct shape dims = { 0 };
    struct pb_field f;
    int64_t size, width;
    uint8_t *dense;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &f, "sLLR")) {
        if (f.number == 3) {
            size_t n = ld_count_ints(&f);

            if (n > (size_t)(SHAPE_RANK_MAX - dims.rank))
                return ld_fail(ld, OPM_EUNSUPPORTED, "%s has more than %d dimensions", what,
                               SHAPE_RANK_MAX);
            dims.rank += (int32_t)ld_take_ints(&f, dims.dim + dims.rank, n);
        } else
            rc =
                ld_tensor(ld, (struct slice){ f.p, f.len }, what, f.number == 1 ? &values : &index);
    }
    if (!rc)
        rc = ld_end(ld, &r, "%s", what);
    if (rc)
        return rc;
    size = shape_bytes(&dims, values.type);
    width = tensor_type_bits(values.type) / 8;
    if (size < 0 || width == 0)
        return ld_fail(ld, OPM_EUNSUPPORTED, "%s is a sparse tensor of %s", what,
                       tensor_type_name(values.type));
    if ((size_t)size > DENSE_MAX_BYTES - MIN(ld->dense_bytes, DENSE_MAX_BYTES))
        return ld_fail(ld, OPM_ELIMIT, "%s: sparse tensors of more than %zu MiB in all", what,
                       DENSE_MAX_BYTES >> 20);
    if (values.count &&
        (index.type != TENSOR_I64 || !(index.shape.rank == 1 || index.shape.rank == 2) ||
         index.count != values.count * (index.shape.rank == 1 ? 1 : dims.rank)))
        return ld_fail(ld, OPM_EFORMAT, "%s: indices of a sparse tensor do not fit its values",
                       what);
    dense = ld_alloc(ld, (size_t)size, 1);
    if (!dense)
        return ld->err->code;
    ld->dense_bytes += (size_t)size;
    for (int64_t k = 0; k < values.count; k++) {
        int64_t at = dense_place(&index, &dims, k);

        if (at < 0 || at >= size / width)
            return ld_fail(ld, OPM_EFORMAT, "%s: an index of a sparse tensor is out of range",
                           what);
        memcpy(dense + at * width, (const uint8_t *)values.data + k * width, (size_t)width);
    }
    *out = (struct tensor){ .name = values.name ? values.name : "",
                            .type = values.type,
                            .shape = dims,
                            .count = size / width,
                            .data = dense,
                            .bytes = (size_t)size };
    return 0;
}
