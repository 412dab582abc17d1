/* gguf_write.c -- see gguf_write.h. */
#include "graph/gguf_write.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GGUF_VERSION 3
#define ALIGNMENT 32
#define BLOCK 32   /* elements of q8_0 and q4_0 */
#define SPECIALS 3 /* <unk>, <s>, </s> */
#define BYTE_TOKENS 256
#define ROPE_BASE 10000.0

enum value_type { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_STRING = 8, VALUE_ARRAY = 9 };
enum token_type { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_BYTE = 6 };

static const struct size {
    const char *name;
    uint32_t layers, width, heads, kv_heads, inner, vocabulary, context;
} sizes[] = {
    { "llama-tiny", 4, 256, 8, 4, 704, 512, 4096 },
    { "llama-1b", 16, 2048, 32, 8, 8192, 32000, 8192 },
};

/* What matrices are stored as; file_type is what llama.cpp calls a file of them. */
static const struct store_as {
    const char *name;
    uint32_t type, block, bytes, file_type;
} types[] = {
    { "f32", 0, 1, 4, 0 },
    { "f16", 1, 1, 2, 1 },
    { "q4_0", 2, BLOCK, 18, 2 },
    { "q8_0", 8, BLOCK, 34, 7 },
};

struct request {
    const struct size *size;
    const struct store_as *as;
    uint64_t seed;
};

/* ---- names ---- */

static int parse_option(struct request *q, const char *key, size_t len, opm_error *err)
{
    const char *eq = memchr(key, '=', len);
    size_t nkey = eq ? (size_t)(eq - key) : len, n = eq ? len - nkey - 1 : 0;
    char value[24] = "", *end;

    if (n && n < sizeof(value)) {
        memcpy(value, eq + 1, n);
        value[n] = '\0';
    }
    if (nkey == 5 && memcmp(key, "quant", 5) == 0) {
        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
            if (strcmp(types[i].name, value) == 0) {
                q->as = &types[i];
                return 0;
            }
        return opm__fail(err, OPM_EINVAL, "zoo:%s: in a GGUF file quant is f32, f16, q8_0 or q4_0",
                         q->size->name);
    }
    if (nkey == 4 && memcmp(key, "seed", 4) == 0) {
        q->seed = strtoull(value, &end, 10);
        if (*value >= '0' && *value <= '9' && !*end)
            return 0;
        return opm__fail(err, OPM_EINVAL, "zoo:%s: option seed cannot be '%.*s'", q->size->name,
                         (int)MIN(n, (size_t)40), eq ? eq + 1 : "");
    }
    return opm__fail(err, OPM_EINVAL,
                     "zoo:%s: as a GGUF file it has no option '%.*s' (but quant "
                     "and seed)",
                     q->size->name, (int)MIN(nkey, (size_t)40), key);
}

static int parse(struct request *q, const char *name, opm_error *err)
{
    size_t len;
    int rc = 0;

    *q = (struct request){ .as = &types[1], .seed = 1 };
    if (strncmp(name, "zoo:", 4) == 0)
        name += 4;
    len = strcspn(name, "?");
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        if (strlen(sizes[i].name) == len && memcmp(sizes[i].name, name, len) == 0)
            q->size = &sizes[i];
    if (!q->size)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "zoo: '%.*s' cannot be written as GGUF, but llama-tiny and llama-1b can",
                         (int)MIN(len, (size_t)40), name);
    name += len + (name[len] == '?');
    while (!rc && *name) {
        len = strcspn(name, "&");
        rc = parse_option(q, name, len, err);
        name += len + (name[len] == '&');
    }
    return rc;
}

/* ---- facts ---- */

/* Bytes of the head; its buffer remembers failure. */
static void put(struct buf *b, const void *p, size_t n)
{
    buf_add(b, p, n);
}

static void put_u32(struct buf *b, uint32_t v)
{
    put(b, &v, sizeof(v));
}

static void put_u64(struct buf *b, uint64_t v)
{
    put(b, &v, sizeof(v));
}

static void put_text(struct buf *b, const char *s)
{
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

struct facts {
    struct buf b;
    uint64_t n;
};

static void fact(struct facts *f, const char *key, enum value_type type)
{
    put_text(&f->b, key);
    put_u32(&f->b, type);
    f->n++;
}

static void fact_u32(struct facts *f, const char *key, uint32_t v)
{
    fact(f, key, VALUE_U32);
    put_u32(&f->b, v);
}

static void fact_f32(struct facts *f, const char *key, float v)
{
    fact(f, key, VALUE_F32);
    put(&f->b, &v, sizeof(v));
}

static void fact_text(struct facts *f, const char *key, const char *v)
{
    fact(f, key, VALUE_STRING);
    put_text(&f->b, v);
}

static void fact_array(struct facts *f, const char *key, enum value_type type, uint64_t n)
{
    fact(f, key, VALUE_ARRAY);
    put_u32(&f->b, type);
    put_u64(&f->b, n);
}

/* The specials, all bytes, and words of letters for the rest: "a", ..., "aa", ... behind a blank.
 */
static void token_text(uint32_t i, char out[16])
{
    static const char *const specials[SPECIALS] = { "<unk>", "<s>", "</s>" };
    char letters[8];
    uint32_t n = 0, left = i - SPECIALS - BYTE_TOKENS;

    if (i < SPECIALS) {
        snprintf(out, 16, "%s", specials[i]);
    } else if (i < SPECIALS + BYTE_TOKENS) {
        snprintf(out, 16, "<0x%02X>", i - SPECIALS);
    } else {
        for (left++; left && n < sizeof(letters); left = (left - 1) / 26)
            letters[n++] = (char)('a' + (left - 1) % 26);
        snprintf(out, 16, "\xe2\x96\x81%.*s", (int)n, letters);
    }
}

static void put_vocabulary(struct facts *f, uint32_t n)
{
    char text[16];

    fact_text(f, "tokenizer.ggml.model", "llama");
    fact_text(f, "tokenizer.ggml.pre", "default");
    fact_array(f, "tokenizer.ggml.tokens", VALUE_STRING, n);
    for (uint32_t i = 0; i < n; i++) {
        token_text(i, text);
        put_text(&f->b, text);
    }
    fact_array(f, "tokenizer.ggml.scores", VALUE_F32, n);
    for (uint32_t i = 0; i < n; i++)
        put(&f->b, &(float){ i < SPECIALS + BYTE_TOKENS ? 0.0f : -(float)i }, sizeof(float));
    fact_array(f, "tokenizer.ggml.token_type", VALUE_I32, n);
    for (uint32_t i = 0; i < n; i++)
        put_u32(&f->b, i == 0                       ? TOKEN_UNKNOWN
                       : i < SPECIALS               ? TOKEN_CONTROL
                       : i < SPECIALS + BYTE_TOKENS ? TOKEN_BYTE
                                                    : TOKEN_NORMAL);
    fact_u32(f, "tokenizer.ggml.unknown_token_id", 0);
    fact_u32(f, "tokenizer.ggml.bos_token_id", 1);
    fact_u32(f, "tokenizer.ggml.eos_token_id", 2);
}

static void put_facts(struct facts *f, const struct request *q)
{
    const struct size *s = q->size;

    fact_text(f, "general.architecture", "llama");
    fact_text(f, "general.name", s->name);
    fact_u32(f, "general.file_type", q->as->file_type);
    fact_u32(f, "general.quantization_version", 2);
    fact_u32(f, "general.alignment", ALIGNMENT);
    fact_u32(f, "llama.block_count", s->layers);
    fact_u32(f, "llama.context_length", s->context);
    fact_u32(f, "llama.embedding_length", s->width);
    fact_u32(f, "llama.feed_forward_length", s->inner);
    fact_u32(f, "llama.attention.head_count", s->heads);
    fact_u32(f, "llama.attention.head_count_kv", s->kv_heads);
    fact_f32(f, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    fact_u32(f, "llama.rope.dimension_count", s->width / s->heads);
    fact_f32(f, "llama.rope.freq_base", (float)ROPE_BASE);
    fact_u32(f, "llama.vocab_size", s->vocabulary);
    put_vocabulary(f, s->vocabulary);
}

/* ---- tensors ---- */

struct tensor_line {
    char name[48];
    uint64_t columns, rows; /* rows 0: a vector of ones */
};

static uint64_t tensor_bytes(const struct request *q, const struct tensor_line *t)
{
    return t->rows ? t->rows * (t->columns / q->as->block) * q->as->bytes : t->columns * 4;
}

/* The i-th tensor; false: there are no more. */
static bool tensor_at(const struct size *s, uint32_t i, struct tensor_line *t)
{
    uint32_t kv = s->width / s->heads * s->kv_heads;
    const struct {
        const char *name;
        uint64_t columns, rows;
    } of_block[] = {
        { "attn_norm", s->width, 0 },         { "attn_q", s->width, s->width },
        { "attn_k", s->width, kv },           { "attn_v", s->width, kv },
        { "attn_output", s->width, s->width }, { "ffn_norm", s->width, 0 },
        { "ffn_gate", s->width, s->inner },   { "ffn_up", s->width, s->inner },
        { "ffn_down", s->inner, s->width },
    }, around[] = {
        { "token_embd", s->width, s->vocabulary },
        { "output_norm", s->width, 0 },
        { "output", s->width, s->vocabulary },
    };
    uint32_t n = ARRAY_SIZE(of_block);

    if (i < ARRAY_SIZE(around)) {
        snprintf(t->name, sizeof(t->name), "%s.weight", around[i].name);
        t->columns = around[i].columns;
        t->rows = around[i].rows;
        return true;
    }
    i -= ARRAY_SIZE(around);
    if (i >= n * s->layers)
        return false;
    snprintf(t->name, sizeof(t->name), "blk.%u.%s.weight", i / n, of_block[i % n].name);
    t->columns = of_block[i % n].columns;
    t->rows = of_block[i % n].rows;
    return true;
}

static uint64_t pad(uint64_t n)
{
    return (ALIGNMENT - n % ALIGNMENT) % ALIGNMENT;
}

/* Everything before the weights; *n is how many tensors there are. */
static void put_head(struct buf *b, const struct request *q, uint32_t *n)
{
    struct facts f = { 0 };
    struct tensor_line t;
    uint64_t offset = 0;
    static const char zeros[ALIGNMENT];

    for (*n = 0; tensor_at(q->size, *n, &t); ++*n)
        ;
    put_facts(&f, q);
    put(b, "GGUF", 4);
    put_u32(b, GGUF_VERSION);
    put_u64(b, *n);
    put_u64(b, f.n);
    put(b, buf_str(&f.b), f.b.len);
    b->failed |= f.b.failed;
    buf_release(&f.b);
    for (uint32_t i = 0; tensor_at(q->size, i, &t); i++) {
        put_text(b, t.name);
        put_u32(b, t.rows ? 2 : 1);
        put_u64(b, t.columns);
        if (t.rows)
            put_u64(b, t.rows);
        put_u32(b, t.rows ? q->as->type : 0);
        put_u64(b, offset);
        offset += tensor_bytes(q, &t);
        offset += pad(offset);
    }
    put(b, zeros, (size_t)pad(b->len));
}

/* ---- weights ---- */

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Of numbers that are neither huge nor denormal, as these are; rounded to even. */
static uint16_t half_of(float v)
{
    uint32_t bits, sign, odd;

    memcpy(&bits, &v, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits < 113u << 23) { /* below what has a full mantissa: in steps of the smallest half */
        float shifted;

        memcpy(&shifted, &bits, sizeof(shifted));
        return (uint16_t)(sign | (uint32_t)lrintf(shifted * 0x1p24f));
    }
    odd = bits >> 13 & 1;
    return (uint16_t)(sign | ((bits + 0xfff + odd - (112u << 23)) >> 13));
}

static uint8_t nibble(float v)
{
    int n = (int)(v + 8.5f);

    return (uint8_t)(n < 0 ? 0 : n > 15 ? 15 : n);
}

/* The number of largest size, with its sign. */
static float largest(const float *x)
{
    float m = 0;

    for (int i = 0; i < BLOCK; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    return m;
}

static void put_block(uint8_t *out, const float *x, const struct store_as *as)
{
    float scale, inverse;
    uint16_t half;

    scale = as->type == 2 ? largest(x) / -8 : fabsf(largest(x)) / 127;
    inverse = scale != 0 ? 1 / scale : 0;
    half = half_of(scale);
    memcpy(out, &half, 2);
    for (int i = 0; i < BLOCK / 2; i++) {
        if (as->type == 2) {
            out[2 + i] =
                (uint8_t)(nibble(x[i] * inverse) | nibble(x[i + BLOCK / 2] * inverse) << 4);
        } else {
            out[2 + 2 * i] = (uint8_t)(int8_t)lrintf(x[2 * i] * inverse);
            out[3 + 2 * i] = (uint8_t)(int8_t)lrintf(x[2 * i + 1] * inverse);
        }
    }
}

static void put_row(uint8_t *out, const float *x, uint64_t n, const struct store_as *as)
{
    for (uint64_t i = 0; i < n; i += as->block) {
        if (as->block == BLOCK) {
            put_block(out, x + i, as);
        } else if (as->bytes == 2) {
            uint16_t half = half_of(x[i]);

            memcpy(out, &half, 2);
        } else {
            memcpy(out, &x[i], 4);
        }
        out += as->bytes;
    }
}

/* Uniform, of the spread that keeps what goes through it at its size. */
static void put_weights(struct io_out *o, const struct request *q, const struct tensor_line *t,
                        uint64_t state, float *x, uint8_t *row)
{
    static const char zeros[ALIGNMENT];
    uint64_t rows = MAX(t->rows, (uint64_t)1);
    float spread = sqrtf(3.0f / (float)t->columns);
    struct store_as vector = types[0];

    for (uint64_t r = 0; r < rows; r++) {
        for (uint64_t i = 0; i < t->columns; i++)
            x[i] = t->rows ? spread * ((float)(random_next(&state) >> 40) * 0x1p-23f - 1) : 1;
        put_row(row, x, t->columns, t->rows ? q->as : &vector);
        io_out_add(o, row, (size_t)(tensor_bytes(q, t) / rows));
    }
    io_out_add(o, zeros, (size_t)pad(tensor_bytes(q, t)));
}

int gguf_zoo_write(const char *name, const char *path, opm_error *err)
{
    struct io_out o = { 0 };
    struct buf head = { 0 };
    struct tensor_line t;
    struct request q;
    uint32_t n;
    float *x;
    uint8_t *row;
    int rc = parse(&q, name, err), closed;

    if (!rc)
        rc = io_out_open(&o, path, err);
    if (rc)
        return rc;
    put_head(&head, &q, &n);
    x = mem_alloc(MAX(q.size->width, q.size->inner) * sizeof(*x));
    row = mem_alloc(MAX(q.size->width, q.size->inner) * sizeof(*x));
    if (!x || !row || head.failed) {
        rc = opm__fail(err, OPM_ENOMEM, "zoo:%s: no memory to write it", q.size->name);
    } else {
        io_out_add(&o, buf_str(&head), head.len);
        for (uint32_t i = 0; tensor_at(q.size, i, &t); i++)
            put_weights(&o, &q, &t, q.seed << 20 | i, x, row);
    }
    mem_free(x);
    mem_free(row);
    buf_release(&head);
    closed = io_out_close(&o, rc == 0, rc ? NULL : err);
    return rc ? rc : closed;
}
