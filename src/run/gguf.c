/* gguf.c -- see gguf.h. */
#include "run/gguf.h"

#include "base/error.h"
#include "base/io.h"
#include "base/rd.h"

#include <stdio.h>
#include <stdlib.h>

#define VERSION_MIN 2
#define VERSION_MAX 3
#define DIMS_MAX 8
#define DEPTH_MAX 4 /* of arrays in arrays */
#define LAYERS_MAX 100000
#define FILE_MAX ((uint64_t)1 << 50)

enum value_type {
    VALUE_U8,
    VALUE_I8,
    VALUE_U16,
    VALUE_I16,
    VALUE_U32,
    VALUE_I32,
    VALUE_F32,
    VALUE_BOOL,
    VALUE_STRING,
    VALUE_ARRAY,
    VALUE_U64,
    VALUE_I64,
    VALUE_F64
};

static const uint8_t widths[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

static const struct {
    const char *name;
    uint32_t number;
    int64_t elements, bytes;
} stored[] = {
#define GGML_TYPE(name, number, elements, bytes) { #name, number, elements, bytes },
#include "run/gguf.def"
#undef GGML_TYPE
};

struct text {
    const char *s;
    size_t len;
};

struct reader {
    struct rd r;
    const char *path;
    struct gguf_file *out;
    int64_t key_length, value_length, kv_heads_sum;
    uint64_t alignment;
    opm_error *err;
};

bool gguf_sniff(const void *head, size_t len)
{
    return len >= 4 && memcmp(head, "GGUF", 4) == 0;
}

static int cut(const struct reader *d, const char *where)
{
    return opm__fail(d->err, OPM_EFORMAT, "%s: a GGUF file that ends within its %s", d->path,
                     where);
}

static struct text read_text(struct rd *r)
{
    uint64_t n = rd_u64(r);

    if (n > rd_left(r))
        r->bad = true;
    return (struct text){ (const char *)rd_bytes(r, (size_t)n), r->bad ? 0 : (size_t)n };
}

/* ---- facts ---- */

static void put_text(char *to, size_t size, struct text t)
{
    snprintf(to, size, "%.*s", (int)MIN(t.len, size - 1), t.s ? t.s : "");
}

static bool is(struct text key, const char *name)
{
    return key.len == strlen(name) && memcmp(key.s, name, key.len) == 0;
}

/* "llama.block_count" of whatever architecture. */
static bool is_of_model(struct text key, const char *name)
{
    size_t n = strlen(name);

    return key.len > n && memcmp(key.s + key.len - n, name, n) == 0 &&
           key.s[key.len - n - 1] == '.' && !memchr(key.s, '.', key.len - n - 1);
}

static void take_number(struct reader *d, struct text key, int64_t v)
{
    struct gguf_file *o = d->out;
    const struct {
        const char *name;
        int64_t *to;
    } wanted[] = {
        { "block_count", &o->layers },
        { "embedding_length", &o->width },
        { "feed_forward_length", &o->inner },
        { "attention.head_count", &o->heads },
        { "attention.head_count_kv", &o->kv_heads },
        { "context_length", &o->context },
        { "vocab_size", &o->vocabulary },
        { "expert_count", &o->experts },
        { "expert_used_count", &o->experts_used },
        { "attention.key_length", &d->key_length },
        { "attention.value_length", &d->value_length },
    };

    if (v < 0)
        return;
    if (is(key, "general.alignment"))
        d->alignment = (uint64_t)v;
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (is_of_model(key, wanted[i].name))
            *wanted[i].to = v;
}

static int64_t number(struct rd *r, uint32_t type)
{
    uint64_t v = rd_le(r, widths[type]);

    switch (type) {
    case VALUE_I8:
        return (int8_t)v;
    case VALUE_I16:
        return (int16_t)v;
    case VALUE_I32:
        return (int32_t)v;
    case VALUE_F32:
    case VALUE_F64:
        return -1;
    default:
        return v > INT64_MAX ? -1 : (int64_t)v;
    }
}

/* Go past an array, taking what is of interest: how many tokens there are, heads by layer. */
static void read_array(struct reader *d, struct text key, int depth)
{
    struct rd *r = &d->r;
    uint32_t type = rd_u32(r);
    uint64_t n = rd_u64(r);

    if (type >= ARRAY_SIZE(widths) || depth > DEPTH_MAX || n > rd_left(r)) {
        r->bad = true;
        return;
    }
    if (depth == 0 && is(key, "tokenizer.ggml.tokens"))
        d->out->vocabulary = (int64_t)n;
    if (depth == 0 && is_of_model(key, "attention.head_count_kv") && widths[type] &&
        n <= LAYERS_MAX) {
        d->kv_heads_sum = 0;
        for (uint64_t i = 0; i < n && !r->bad; i++) {
            int64_t v = number(r, type);

            if (v >= 0 && v <= INT32_MAX) {
                d->kv_heads_sum += v;
                d->out->kv_heads = MAX(d->out->kv_heads, v);
            }
        }
        return;
    }
    if (widths[type]) {
        if (n > rd_left(r) / widths[type])
            r->bad = true;
        else
            rd_bytes(r, (size_t)n * widths[type]);
        return;
    }
    for (uint64_t i = 0; i < n && !r->bad; i++) {
        if (type == VALUE_STRING)
            read_text(r);
        else
            read_array(d, key, depth + 1);
    }
}

static void read_fact(struct reader *d)
{
    struct text key = read_text(&d->r), v;
    uint32_t type = rd_u32(&d->r);

    if (d->r.bad || type >= ARRAY_SIZE(widths)) {
        d->r.bad = true;
        return;
    }
    if (type == VALUE_ARRAY) {
        read_array(d, key, 0);
    } else if (type == VALUE_STRING) {
        v = read_text(&d->r);
        if (is(key, "general.name"))
            put_text(d->out->name, sizeof(d->out->name), v);
        else if (is(key, "general.architecture"))
            put_text(d->out->architecture, sizeof(d->out->architecture), v);
        else if (is(key, "tokenizer.ggml.model"))
            put_text(d->out->tokenizer, sizeof(d->out->tokenizer), v);
    } else {
        take_number(d, key, number(&d->r, type));
    }
}

/* ---- tensors ---- */

static struct gguf_type_sum *sum_of(struct gguf_file *o, const char *name)
{
    for (size_t i = 0; i < o->ntype; i++)
        if (strcmp(o->type[i].name, name) == 0)
            return &o->type[i];
    if (o->ntype == GGUF_TYPES_MAX)
        return NULL;
    o->type[o->ntype] = (struct gguf_type_sum){ .name = "" };
    snprintf(o->type[o->ntype].name, sizeof(o->type[0].name), "%s", name);
    return &o->type[o->ntype++];
}

static int64_t sum(int64_t a, int64_t b)
{
    int64_t v;

    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &v) ? -1 : v;
}

/* Where the weights end, from where they begin; -1: not known. */
static int read_tensor(struct reader *d, int64_t *end)
{
    struct text name = read_text(&d->r);
    uint32_t ndim = rd_u32(&d->r), type;
    int64_t elements = 1, bytes = -1, first = 1;
    struct gguf_type_sum *s;
    uint64_t offset;
    char word[16];

    if (d->r.bad || ndim > DIMS_MAX)
        return d->r.bad ? cut(d, "list of tensors")
                        : opm__fail(d->err, OPM_EFORMAT, "%s: tensor '%.*s' has %u dimensions",
                                    d->path, (int)MIN(name.len, (size_t)60), name.s, ndim);
    for (uint32_t i = 0; i < ndim; i++) {
        uint64_t n = rd_u64(&d->r);

        if (n > INT64_MAX || __builtin_mul_overflow(elements, (int64_t)n, &elements))
            return opm__fail(d->err, OPM_EFORMAT, "%s: the shape of tensor '%.*s' cannot be",
                             d->path, (int)MIN(name.len, (size_t)60), name.s);
        first = i == 0 ? (int64_t)n : first;
    }
    type = rd_u32(&d->r);
    offset = rd_u64(&d->r);
    if (d->r.bad)
        return cut(d, "list of tensors");
    snprintf(word, sizeof(word), "type %u", type);
    for (size_t i = 0; i < ARRAY_SIZE(stored); i++)
        if (stored[i].number == type) {
            snprintf(word, sizeof(word), "%s", stored[i].name);
            if (first % stored[i].elements == 0 &&
                __builtin_mul_overflow(elements / stored[i].elements, stored[i].bytes, &bytes))
                bytes = -1;
        }
    s = sum_of(d->out, word);
    if (s) {
        s->tensors++;
        s->elements = sum(s->elements, elements);
        s->bytes = sum(s->bytes, bytes);
    }
    d->out->elements = sum(d->out->elements, elements);
    d->out->bytes = sum(d->out->bytes, bytes);
    *end = offset > INT64_MAX || bytes < 0 ? *end : MAX(*end, sum((int64_t)offset, bytes));
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    const struct gguf_type_sum *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* ---- the file ---- */

/* What a token takes in the cache: a key and a value for each head that has its own. */
static int64_t cache_bytes(const struct reader *d)
{
    const struct gguf_file *o = d->out;
    int64_t each = o->heads > 0 && o->width > 0 ? o->width / o->heads : -1;
    int64_t key = d->key_length >= 0 ? d->key_length : each;
    int64_t value = d->value_length >= 0 ? d->value_length : each;
    int64_t kv = o->kv_heads >= 0 ? o->kv_heads : o->heads;
    int64_t all, bytes;

    if (d->kv_heads_sum >= 0)
        all = d->kv_heads_sum;
    else if (o->layers < 0 || kv < 0 || __builtin_mul_overflow(o->layers, kv, &all))
        return -1;
    if (key < 0 || value < 0 || sum(key, value) > INT32_MAX ||
        __builtin_mul_overflow(all, 2 * (key + value), &bytes))
        return -1;
    return bytes;
}

static void finish(struct reader *d, size_t len, uint64_t file_bytes, int64_t end)
{
    uint64_t begin = len - rd_left(&d->r);

    if (d->alignment && d->alignment <= 1u << 20)
        begin += (d->alignment - begin % d->alignment) % d->alignment;
    if (end > 0 && begin + (uint64_t)end > file_bytes)
        d->out->missing = (int64_t)(begin + (uint64_t)end - file_bytes);
    d->out->kv_bytes = cache_bytes(d);
    qsort(d->out->type, d->out->ntype, sizeof(d->out->type[0]), by_bytes);
}

int gguf_read(const void *data, size_t len, uint64_t file_bytes, const char *path,
              struct gguf_file *out, opm_error *err)
{
    struct reader d = { .r = rd_of(data, len),
                        .path = path,
                        .out = out,
                        .key_length = -1,
                        .value_length = -1,
                        .kv_heads_sum = -1,
                        .alignment = 32,
                        .err = err };
    int64_t end = 0;

    *out = (struct gguf_file){ .layers = -1,
                               .width = -1,
                               .inner = -1,
                               .heads = -1,
                               .kv_heads = -1,
                               .context = -1,
                               .vocabulary = -1,
                               .experts = -1,
                               .experts_used = -1 };
    if (!gguf_sniff(data, len))
        return opm__fail(err, OPM_EFORMAT, "%s: not a GGUF file", path);
    rd_bytes(&d.r, 4);
    out->version = rd_u32(&d.r);
    out->tensors = rd_u64(&d.r);
    out->facts = rd_u64(&d.r);
    if (d.r.bad)
        return cut(&d, "head");
    if (out->version < VERSION_MIN || out->version > VERSION_MAX)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%s: a GGUF file of version %u%s; versions 2 and 3 are read", path,
                         out->version,
                         out->version == 1u << 24 || out->version == 3u << 24
                             ? " as a big-endian machine writes it"
                             : "");
    for (uint64_t i = 0; i < out->facts; i++) {
        read_fact(&d);
        if (d.r.bad)
            return cut(&d, "facts, or they are damaged");
    }
    for (uint64_t i = 0; i < out->tensors; i++) {
        int rc = read_tensor(&d, &end);

        if (rc)
            return rc;
    }
    finish(&d, len, file_bytes, end);
    return 0;
}

int gguf_open(const char *path, struct gguf_file *out, opm_error *err)
{
    struct io_map m = { 0 };
    int rc = io_map(&m, path, FILE_MAX, err);

    if (rc)
        return rc;
    rc = gguf_read(m.data, m.len, m.len, path, out, err);
    io_map_release(&m);
    return rc;
}
