/* ml_feature.c -- ai.onnx.ml: what features are made ready with, and maps. */
#include "base/u64map.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/ml.h"
#include "engine/native/op/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TYPES_ML (TYPES_FLOAT | TYPE_BIT(TENSOR_I64) | TYPE_BIT(TENSOR_I32))

static void put_number(struct nt *out, int64_t i, double v)
{
    if (out->type == TENSOR_F32)
        ((float *)out->data)[i] = (float)v;
    else if (out->type == TENSOR_F64)
        ((double *)out->data)[i] = v;
    else if (out->type == TENSOR_I64)
        ((int64_t *)out->data)[i] = (int64_t)v;
    else
        ((int32_t *)out->data)[i] = (int32_t)v;
}

/* Of widths that are known copies are single instructions. */
static inline void copy_element(char *to, const void *from, size_t width)
{
    if (width == 4)
        memcpy(to, from, 4);
    else if (width == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, width);
}

/* -- Binarizer, Imputer -- */

int binarizer_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_ML, err);

    return rc ? rc : kernel_infer(op, err);
}

int binarizer_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    double threshold = (double)node_attr_float(op->node, "threshold", 0);
    void *out = kernel_out(op, 0)->data;

    (void)err;
#define ABOVE(T)                           \
    for (int64_t i = 0; i < x->count; i++) \
    ((T *)out)[i] = (double)((const T *)x->data)[i] > threshold
    if (x->type == TENSOR_F32)
        for (int64_t i = 0; i < x->count; i++)
            ((float *)out)[i] = ((const float *)x->data)[i] > (float)threshold;
    else if (x->type == TENSOR_F64)
        ABOVE(double);
    else if (x->type == TENSOR_I64)
        ABOVE(int64_t);
    else
        ABOVE(int32_t);
#undef ABOVE
    return 0;
}

/* What stands for missing values: one number, or one for each feature. */
static struct ml_list imputed(const struct op *op, const int64_t **ints)
{
    struct ml_list l = { 0 };

    *ints = NULL;
    if (tensor_type_float(kernel_in(op, 0)->type))
        l.f = node_attr_floats(op->node, "imputed_value_floats", &l.n);
    else
        *ints = node_attr_ints(op->node, "imputed_value_int64s", &l.n);
    return l;
}

int imputer_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_ML, err);
    const struct nt *x = kernel_in(op, 0);
    const int64_t *ints;

    if (rc)
        return rc;
    size_t n = imputed(op, &ints).n;

    if (n < 1 || (n > 1 && (x->shape.rank < 1 || (int64_t)n != x->shape.dim[x->shape.rank - 1])))
        return kernel_fail(op, OPM_EINVAL, err, "%zu imputed values do not fit", n);
    return kernel_infer(op, err);
}

int imputer_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    const int64_t *ints;
    struct ml_list l = imputed(op, &ints);
    double missing = (double)node_attr_float(op->node, "replaced_value_float", 0);
    int64_t absent = node_attr_int(op->node, "replaced_value_int64", 0);

    struct nt *out = kernel_out(op, 0);

    (void)err;
    /* Rows of features; one number stands for all of them. */
#define FILL(T, from, none)                                \
    for (int64_t i = 0; i < x->count; i += (int64_t)l.n) { \
        const T *in = (const T *)x->data + i;              \
        T *to = (T *)out->data + i;                        \
        for (size_t k = 0; k < l.n; k++)                   \
            to[k] = (none) ? (T)(from)[k] : in[k];         \
    }
    if (x->type == TENSOR_F32 && isnan(missing))
        FILL(float, l.f, in[k] != in[k])
    else if (x->type == TENSOR_F32)
        FILL(float, l.f, in[k] == (float)missing)
    else if (x->type == TENSOR_F64 && isnan(missing))
        FILL(double, l.f, in[k] != in[k])
    else if (x->type == TENSOR_F64)
        FILL(double, l.f, in[k] == missing)
    else if (x->type == TENSOR_I64)
        FILL(int64_t, ints, in[k] == absent)
    else
        FILL(int32_t, ints, in[k] == absent)
#undef FILL
    return 0;
}

/* -- dictionaries: LabelEncoder, CategoryMapper, OneHotEncoder -- */

/* A list of keys or values, whatever attribute it is in. */
struct labels {
    enum tensor_type type; /* TENSOR_NONE: there is none */
    const char *data;      /* UNALIGNED */
    int64_t n;
};

static struct labels labels_in(const struct attr *a)
{
    switch (a && a->n ? a->type : ATTR_NONE) {
    case ATTR_STRINGS:
        return (struct labels){ TENSOR_STRING, (const char *)a->string, (int64_t)a->n };
    case ATTR_INTS:
        return (struct labels){ TENSOR_I64, (const char *)a->ints, (int64_t)a->n };
    case ATTR_FLOATS:
        return (struct labels){ TENSOR_F32, (const char *)a->floats, (int64_t)a->n };
    case ATTR_TENSOR:
        return (struct labels){ a->tensor->type, a->tensor->data, a->tensor->count };
    default:
        return (struct labels){ 0 };
    }
}

/* The first of four attributes that is there: "keys_strings" and so on. */
static struct labels labels_of(const struct node *n, const char *const *names)
{
    struct labels l = { 0 };

    for (int i = 0; i < 4 && !l.type; i++)
        l = labels_in(node_attr(n, names[i]));
    return l;
}

struct dictionary {
    struct labels key, value;
    bool places; /* the value of a key is its place */
    struct words words;
    struct u64map numbers;
    int32_t *dense; /* instead of numbers, of keys that are close together: from `low` on, or -1 */
    uint64_t low, span;
    bool ready;
    char missing[sizeof(struct tensor_string)]; /* value of what is no key */
    struct tensor_string text;
};

static void dictionary_release(void *state)
{
    struct dictionary *d = state;

    words_release(&d->words);
    u64map_release(&d->numbers);
    mem_free(d->dense);
    d->dense = NULL;
    d->span = 0;
}

/* Equal numbers have equal keys. */
static uint64_t key_of(const struct tensor *t, int64_t i)
{
    double v = tensor_float(t, i);
    uint64_t bits;

    if (tensor_type_int(t->type))
        return (uint64_t)tensor_int(t, i);
    if (isnan(v))
        return UINT64_MAX;
    v += 0.0; /* -0 is 0 */
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static struct tensor as_tensor(enum tensor_type type, const void *data, int64_t n)
{
    return (struct tensor){ "", type, { 1, { n } }, n, data, (size_t)n * nt_width(type), false };
}

#define SPARSE 4 /* places for a key, at most */

/* Whole numbers that are close together. The last one of equal keys counts, as in a map. */
static int dense_fill(struct dictionary *d, const struct tensor *keys)
{
    uint64_t low, high;

    if (!tensor_type_int(d->key.type) || !d->key.n)
        return 0;
    low = high = (uint64_t)tensor_int(keys, 0);
    for (int64_t i = 1; i < d->key.n; i++) {
        uint64_t k = (uint64_t)tensor_int(keys, i);

        low = (int64_t)k < (int64_t)low ? k : low;
        high = (int64_t)k > (int64_t)high ? k : high;
    }
    if (high - low >= SPARSE * (uint64_t)d->key.n)
        return 0;
    d->dense = mem_alloc((size_t)(high - low + 1) * sizeof(*d->dense));
    if (!d->dense)
        return OPM_ENOMEM;
    memset(d->dense, 0xff, (size_t)(high - low + 1) * sizeof(*d->dense));
    for (int64_t i = 0; i < d->key.n; i++)
        d->dense[(uint64_t)tensor_int(keys, i) - low] = (int32_t)i;
    d->low = low;
    d->span = high - low + 1;
    return 0;
}

static int64_t number_find(const struct dictionary *d, uint64_t key)
{
    uint64_t *at;

    if (d->dense)
        return key - d->low < d->span ? d->dense[key - d->low] : -1;
    at = u64map_get(&d->numbers, key);
    return at ? (int64_t)*at : -1;
}

static int dictionary_fill(struct op *op, struct dictionary *d, opm_error *err)
{
    struct tensor keys = as_tensor(d->key.type, d->key.data, d->key.n);
    int rc = 0;

    if (d->key.type == TENSOR_STRING)
        rc = words_init(&d->words, (const struct tensor_string *)(const void *)d->key.data,
                        (size_t)d->key.n);
    else
        rc = dense_fill(d, &keys);
    for (int64_t i = 0; i < d->key.n && !rc && !d->dense && d->key.type != TENSOR_STRING; i++)
        rc = u64map_put(&d->numbers, key_of(&keys, i), (uint64_t)i);
    d->ready = !rc;
    return rc ? kernel_nomem(op, err) : 0;
}

static int64_t dictionary_find(const struct dictionary *d, const struct nt *x, int64_t i)
{
    if (x->type == TENSOR_STRING)
        return words_find(&d->words, &nt_strings(x)[i]);
    if (x->type == TENSOR_I64)
        return number_find(d, ((const uint64_t *)x->data)[i]);
    return number_find(
        d, key_of(&(struct tensor){ .type = x->type, .data = x->data, .count = x->count }, i));
}

static void set_missing(struct dictionary *d, const struct node *n, enum tensor_type type)
{
    const struct tensor *t = node_attr_tensor(n, "default_tensor");
    const struct attr *a = node_attr(n, "default_string");
    int64_t i = node_attr_int(n, "default_int64", -1);
    float f = node_attr_float(n, "default_float", -0.0f);
    double wide = (double)f;

    d->text = a && a->type == ATTR_STRING ? *a->string : (struct tensor_string){ "_Unused", 7 };
    if (t && t->count == 1 && t->type == type)
        memcpy(d->missing, t->data, nt_width(type));
    else if (type == TENSOR_STRING)
        memcpy(d->missing, &d->text, sizeof(d->text));
    else if (type == TENSOR_F32)
        memcpy(d->missing, &f, sizeof(f));
    else if (type == TENSOR_F64)
        memcpy(d->missing, &wide, sizeof(wide));
    else
        memcpy(d->missing, &i, nt_width(type));
}

/* The keys and values of a LabelEncoder for operands of x's type, or of a CategoryMapper. */
static void dictionary_read(const struct op *op, struct dictionary *d)
{
    static const char *const keys[] = { "keys_strings", "keys_int64s", "keys_floats",
                                        "keys_tensor" };
    static const char *const values[] = { "values_strings", "values_int64s", "values_floats",
                                          "values_tensor" };
    const struct node *n = op->node;
    bool text = kernel_in(op, 0)->type == TENSOR_STRING;
    struct labels strings = labels_in(node_attr(
                      n, op->kernel->arg == LABEL_CATEGORY ? "cats_strings" : "classes_strings")),
                  ints = labels_in(node_attr(n, "cats_int64s"));

    if (op->kernel->arg == LABEL_CATEGORY) {
        d->key = text ? strings : ints;
        d->value = text ? ints : strings;
    } else if (strings.type) { /* opset 1: places */
        d->key = strings;
        d->value = strings;
        d->places = true;
    } else {
        d->key = labels_of(n, keys);
        d->value = labels_of(n, values);
    }
}

int labelencoder_prepare(struct op *op, opm_error *err)
{
    struct dictionary *d = kernel_new_state(op, sizeof(*d));
    const struct nt *x = kernel_in(op, 0);
    int rc =
        d ? kernel_want(op, 0, TYPES_NUM | TYPE_BIT(TENSOR_STRING), err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    op->release = dictionary_release;
    if (!d->ready) {
        dictionary_read(op, d);
        if (!d->key.type || d->key.n != d->value.n || d->key.n > INT32_MAX ||
            (!d->places && d->key.type != x->type) ||
            (d->places && !(TYPE_BIT(x->type) & (TYPE_BIT(TENSOR_I64) | TYPE_BIT(TENSOR_STRING)))))
            return kernel_fail(op, OPM_EINVAL, err,
                               "keys and values do not fit each other, or operands of %s",
                               tensor_type_name(x->type));
        dictionary_release(d);
        rc = dictionary_fill(op, d, err);
    }
    if (!rc)
        rc = kernel_infer(op, err);
    if (!rc)
        set_missing(d, op->node, kernel_out(op, 0)->type);
    return rc;
}

int labelencoder_run(struct op *op, opm_error *err)
{
    const struct dictionary *d = op->state;
    const struct nt *x = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    size_t w = nt_width(out->type);
    char *to = out->data;

    (void)err;
    for (int64_t i = 0; i < x->count; i++, to += w) {
        bool back = d->places && x->type != TENSOR_STRING;
        int64_t at = back ? nt_int(x, i) : dictionary_find(d, x, i);

        const void *from = at < 0 || at >= d->key.n ? d->missing
                           : d->places && !back     ? (const char *)&at
                                                    : d->value.data + (size_t)at * w;

        copy_element(to, from, w);
    }
    return 0;
}

int onehotencoder_prepare(struct op *op, opm_error *err)
{
    struct dictionary *d = kernel_new_state(op, sizeof(*d));
    const struct nt *x = kernel_in(op, 0);
    int rc =
        d ? kernel_want(op, 0, TYPES_ML | TYPE_BIT(TENSOR_STRING), err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    op->release = dictionary_release;
    if (!d->ready) {
        d->key = labels_in(
            node_attr(op->node, x->type == TENSOR_STRING ? "cats_strings" : "cats_int64s"));
        if (!d->key.type || d->key.n > INT32_MAX)
            return kernel_fail(op, OPM_EINVAL, err, "has no categories for operands of %s",
                               tensor_type_name(x->type));
        dictionary_release(d);
        rc = dictionary_fill(op, d, err);
    }
    return rc ? rc : kernel_infer(op, err);
}

int onehotencoder_run(struct op *op, opm_error *err)
{
    const struct dictionary *d = op->state;
    const struct nt *x = kernel_in(op, 0);
    float *out = kernel_out(op, 0)->data;

    memset(out, 0, kernel_out(op, 0)->bytes);
    for (int64_t i = 0; i < x->count; i++, out += d->key.n) {
        /* Numbers of any type are looked up as integers. */
        int64_t at = x->type == TENSOR_STRING || x->type == TENSOR_I64
                         ? dictionary_find(d, x, i)
                         : number_find(d, (uint64_t)nt_int(x, i));

        if (at >= 0)
            out[at] = 1;
        else if (!node_attr_int(op->node, "zeros", 1))
            return kernel_fail(op, OPM_EINVAL, err, "element %lld is in no category", (long long)i);
    }
    return 0;
}

/* -- FeatureVectorizer, ArrayFeatureExtractor -- */

int featurevectorizer_prepare(struct op *op, opm_error *err)
{
    size_t len;
    const int64_t *dims = node_attr_ints(op->node, "inputdimensions", &len);
    int64_t rows, cols, first = -1;
    int rc = 0;

    if (len != op->nin)
        return kernel_fail(op, OPM_EINVAL, err, "%zu dimensions for %u inputs", len, op->nin);
    for (uint32_t i = 0; i < op->nin && !rc; i++) {
        rc = kernel_want(op, i, TYPES_ML, err);
        if (!rc && (!ml_matrix(kernel_in(op, i), &rows, &cols) || (first >= 0 && rows != first) ||
                    dims[i] < 0))
            rc = kernel_fail(op, OPM_EINVAL, err, "input %u does not fit", i);
        first = rows;
    }
    return rc ? rc : kernel_infer(op, err);
}

/* The first n numbers of a row of an input. */
static void cast_row(struct op *op, uint32_t i, float *out, int64_t row, int64_t n)
{
    const struct nt *x = kernel_in(op, i);
    int64_t unused, cols = 0;

    ml_matrix(x, &unused, &cols);
    kernel_isa(op)->rows->cast[x->type][TENSOR_F32](
        out, (const char *)x->data + (size_t)(row * cols) * nt_width(x->type), n);
}

/* Rows side by side; what an input has too many of is cut off, what it lacks is 0. */
int featurevectorizer_run(struct op *op, opm_error *err)
{
    size_t len;
    const int64_t *dims = node_attr_ints(op->node, "inputdimensions", &len);
    float *out = kernel_out(op, 0)->data;
    int64_t rows = kernel_out(op, 0)->shape.dim[0];

    (void)err;
    for (int64_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < op->nin; i++) {
            int64_t unused, cols = 0;

            ml_matrix(kernel_in(op, i), &unused, &cols);
            cols = MIN(cols, dims[i]);
            cast_row(op, i, out, r, cols);
            memset(out + cols, 0, (size_t)(dims[i] - cols) * sizeof(*out));
            out += dims[i];
        }
    return 0;
}

int featureextractor_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_I64), err);
    return rc ? rc : kernel_infer(op, err);
}

static void pick_features(char *to, const char *from, int64_t rows, size_t row_bytes,
                          const int64_t *at, int64_t n, const size_t w)
{
    for (int64_t r = 0; r < rows; r++, from += row_bytes)
        for (int64_t i = 0; i < n; i++, to += w)
            memcpy(to, from + (size_t)at[i] * w, w);
}

int featureextractor_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *y = kernel_in(op, 1);
    int64_t cols = x->shape.dim[x->shape.rank - 1], rows = cols ? x->count / cols : 0;
    size_t w = nt_width(x->type);
    char *to = kernel_out(op, 0)->data;
    const int64_t *at = y->data;

    for (int64_t i = 0; i < y->count; i++)
        if (nt_int(y, i) < 0 || nt_int(y, i) >= cols)
            return kernel_fail(op, OPM_EINVAL, err, "feature %lld of %lld", (long long)nt_int(y, i),
                               (long long)cols);
    if (w == 4)
        pick_features(to, x->data, rows, (size_t)cols * w, at, y->count, 4);
    else if (w == 8)
        pick_features(to, x->data, rows, (size_t)cols * w, at, y->count, 8);
    else
        pick_features(to, x->data, rows, (size_t)cols * w, at, y->count, w);
    return 0;
}

/* -- maps: DictVectorizer, CastMap, ZipMap. They decide about their outputs while running. -- */

WHILE_RUNNING(dictvectorizer)
WHILE_RUNNING(castmap)
WHILE_RUNNING(zipmap)

static int want_map(const struct op *op, const struct nt **keys, const struct nt **values,
                    opm_error *err)
{
    const struct nt *m = kernel_in(op, 0);

    if (!m || m->kind != VALUE_MAP || m->count != 2 || nt_item(m, 0)->count != nt_item(m, 1)->count)
        return kernel_fail(op, OPM_EINVAL, err, "input 0 is no map");
    *keys = nt_item(m, 0);
    *values = nt_item(m, 1);
    return 0;
}

int dictvectorizer_run(struct op *op, opm_error *err)
{
    struct labels words = labels_in(node_attr(op->node, "string_vocabulary"));
    const struct nt *keys = NULL, *values = NULL;
    struct nt *out;
    int rc = want_map(op, &keys, &values, err);

    if (rc)
        return rc;
    if (!words.type)
        words = labels_in(node_attr(op->node, "int64_vocabulary"));
    if (!words.type || words.type != keys->type)
        return kernel_fail(op, OPM_EINVAL, err, "has no vocabulary for keys of %s",
                           tensor_type_name(keys->type));
    struct dictionary d = { .key = { keys->type, keys->data, keys->count } };
    struct shape s = { 2, { 1, words.n } };
    struct nt vocabulary = { words.type, { 1, { words.n } },
                             words.n,    (size_t)words.n * nt_width(words.type),
                             NULL,       VALUE_TENSOR };

    vocabulary.data = (void *)(uintptr_t)words.data;
    out = kernel_new_item(op, values->type, &s);
    if (!out)
        return kernel_nomem(op, err);
    memset(out->data, 0, out->bytes);
    rc = dictionary_fill(op, &d, err);
    for (int64_t i = 0; i < words.n && !rc; i++) {
        int64_t at = dictionary_find(&d, &vocabulary, i);
        size_t w = nt_width(values->type);

        if (at >= 0)
            memcpy((char *)out->data + (size_t)i * w, (const char *)values->data + (size_t)at * w,
                   w);
    }
    dictionary_release(&d);
    if (!rc)
        kernel_give(op, 0, out);
    return rc;
}

/* A number, or text, as an element of what CastMap returns. */
static bool cast_element(const struct op *op, struct nt *out, int64_t i, const struct nt *from,
                         int64_t k)
{
    char text[40];
    double v = 0;

    if (from->type == TENSOR_STRING && out->type == TENSOR_STRING) {
        ((struct tensor_string *)out->data)[i] = nt_strings(from)[k];
        return true;
    }
    if (from->type == TENSOR_STRING)
        v = nt_strings(from)[k].len ? strtod(nt_strings(from)[k].s, NULL) : 0;
    else
        v = nt_float(from, k);
    if (out->type == TENSOR_STRING)
        return text_put(op, (struct tensor_string *)out->data + i, text,
                        (size_t)snprintf(text, sizeof(text), "%.9g", v));
    put_number(out, i, v);
    return true;
}

/* From the lowest key to the highest; or, sparse, each at the place that its key names. */
int castmap_run(struct op *op, opm_error *err)
{
    bool sparse = node_attr_is(op->node, "map_form", "SPARSE", "DENSE");
    enum tensor_type type = node_attr_is(op->node, "cast_to", "TO_STRING", "")  ? TENSOR_STRING
                            : node_attr_is(op->node, "cast_to", "TO_INT64", "") ? TENSOR_I64
                                                                                : TENSOR_F32;
    const struct nt *keys = NULL, *values = NULL;
    struct shape s = { 2, { 1, 0 } };
    struct nt *out;
    int rc = want_map(op, &keys, &values, err);

    if (rc)
        return rc;
    s.dim[1] = sparse ? node_attr_int(op->node, "max_map", 1) : keys->count;
    out = s.dim[1] >= 0 && keys->type == TENSOR_I64 ? kernel_new_item(op, type, &s) : NULL;
    if (!out)
        return kernel_fail(op, OPM_EINVAL, err, "max_map is too large, or keys are no integers");
    memset(out->data, 0, out->bytes);
    for (int64_t i = 0; i < keys->count; i++) {
        int64_t at = sparse ? nt_int(keys, i) : 0;

        for (int64_t k = 0; k < keys->count && !sparse; k++)
            at += nt_int(keys, k) < nt_int(keys, i);
        if (at < 0 || at >= s.dim[1])
            return kernel_fail(op, OPM_EINVAL, err, "key %lld is not below max_map",
                               (long long)nt_int(keys, i));
        if (!cast_element(op, out, at, values, i))
            return kernel_nomem(op, err);
    }
    kernel_give(op, 0, out);
    return 0;
}

int zipmap_run(struct op *op, opm_error *err)
{
    struct ml_labels label = ml_labels_of(op->node);
    const struct nt *x = kernel_in(op, 0), **list;
    struct shape s = { 1, { label.n } };
    struct nt *keys;
    int64_t rows, cols;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (rc)
        return rc;
    if (!ml_matrix(x, &rows, &cols) || cols != label.n)
        return kernel_fail(op, OPM_EINVAL, err, "%lld classes do not fit the scores",
                           (long long)label.n);
    keys = kernel_new_item(op, label.text ? TENSOR_STRING : TENSOR_I64, &s);
    rc = keys ? kernel_set_list(op, 0, VALUE_SEQUENCE, rows, &list, err) : kernel_nomem(op, err);
    for (int64_t i = 0; i < cols && !rc; i++)
        ml_label_put(&label, keys, i, i);
    for (int64_t r = 0; r < rows && !rc; r++) {
        struct nt *values = kernel_new_item(op, TENSOR_F32, &s),
                  *map = kernel_heap(op, sizeof(*map));
        const struct nt **pair = kernel_heap(op, 2 * sizeof(*pair));

        if (!values || !map || !pair)
            return kernel_nomem(op, err);
        memcpy(values->data, (const float *)x->data + r * cols, values->bytes);
        pair[0] = keys;
        pair[1] = values;
        *map = (struct nt){ .shape = { 1, { 2 } },
                            .count = 2,
                            .bytes = 2 * sizeof(*pair),
                            .data = pair,
                            .kind = VALUE_MAP };
        list[r] = map;
    }
    return rc;
}
