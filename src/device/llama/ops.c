/* ops.c -- see ops.h.
 *
 * Operators are found by a hash of 128 bits over names and shapes, and kept for as long as the
 * process lives. A server whose batches always differ would make ever more of them: beyond a number
 * they are told by name alone. */
#include "device/llama/ops.h"

#include "base/alloc.h"
#include "base/u64map.h"

#include <pthread.h>
#include <stdio.h>

#define OPS_MAX 50000
#define NAMED_FIRST 8 /* nodes, one of which takes the tokens */
#define CONTEXT_STEP 256

struct hash {
    uint64_t low, high;
};

struct known_op {
    uint64_t high;
    opm_op *op;
};

static struct {
    pthread_mutex_t lock;
    struct u64map by_hash; /* low -> index */
    struct known_op *op;
    size_t n, cap;
} ops = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- what is computed ---- */

bool ggml_node_is_empty(const struct ggml_library *l, const void *tensor)
{
    static const char *const empty[] = { "NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE" };
    const char *what = l->ggml_op_desc(tensor);

    for (size_t i = 0; i < ARRAY_SIZE(empty); i++)
        if (strcmp(what, empty[i]) == 0)
            return true;
    return false;
}

static int64_t flops_of(const struct ggml_library *l, const void *t, const char *what)
{
    const void *a = ggml_src(l, t, 0), *b = a ? ggml_src(l, t, 1) : NULL;
    const void *c = b ? ggml_src(l, t, 2) : NULL;

    if (a && (strcmp(what, "MUL_MAT") == 0 || strcmp(what, "MUL_MAT_ID") == 0))
        return 2 * l->ggml_nelements(t) * ggml_ne(l, a, 0);
    /* Queries by keys, and what comes of it by values. */
    if (c && strcmp(what, "FLASH_ATTN_EXT") == 0)
        return 2 * ggml_ne(l, a, 1) * ggml_ne(l, a, 2) * ggml_ne(l, a, 3) * ggml_ne(l, b, 1) *
               (ggml_ne(l, b, 0) + ggml_ne(l, c, 0));
    return -1;
}

/* Of operators that go through all of their inputs. */
static int64_t bytes_of(const struct ggml_library *l, const void *t, const char *what)
{
    static const char *const partly[] = { "GET_ROWS", "SET_ROWS", "SET",        "ACC",
                                          "CPY",      "DUP",      "MUL_MAT_ID", "ADD_ID" };
    int64_t sum = (int64_t)l->ggml_nbytes(t);

    for (size_t i = 0; i < ARRAY_SIZE(partly); i++)
        if (strcmp(what, partly[i]) == 0)
            return -1;
    for (int i = 0; i < GGML_SRC_MAX && ggml_src(l, t, i); i++)
        sum += (int64_t)l->ggml_nbytes(ggml_src(l, t, i));
    return sum;
}

/* ---- names ---- */

static void mix(struct hash *h, uint64_t v)
{
    h->low = (h->low ^ v) * 0x9e3779b97f4a7c15u;
    h->high = (h->high ^ v) * 0xd6e8feb86659fd93u;
    h->low ^= h->low >> 29;
    h->high ^= h->high >> 32;
}

static void mix_text(struct hash *h, const char *s)
{
    uint64_t word = 0, n = 0;

    for (; *s; s++) {
        word = word << 8 | (unsigned char)*s;
        if (++n % 8 == 0)
            mix(h, word);
    }
    mix(h, word ^ n << 56);
}

static void mix_tensor(struct hash *h, const struct ggml_library *l, const void *t)
{
    mix_text(h, l->ggml_get_name(t));
    mix(h, (uint64_t)ggml_type(l, t));
    for (int d = 0; d < GGML_DIMS; d++)
        mix(h, (uint64_t)ggml_ne(l, t, d));
}

static opm_op *find(struct hash h)
{
    const uint64_t *at = u64map_get(&ops.by_hash, h.low);

    return at && ops.op[*at].high == h.high ? ops.op[*at].op : NULL;
}

/* Keep what was made; NULL if there is no memory for that. */
static opm_op *keep(struct hash h, opm_op *op)
{
    if (op && GROW(ops.op, ops.cap, ops.n + 1) && u64map_put(&ops.by_hash, h.low, ops.n) == 0) {
        ops.op[ops.n++] = (struct known_op){ h.high, op };
        return op;
    }
    opm_op_free(op);
    return NULL;
}

/* In the words of recordings; quantized types have names of their own. */
static const char *word_of(const char *type)
{
    static const char *const words[][2] = { { "f32", "fp32" },  { "f16", "fp16" },
                                            { "f64", "fp64" },  { "i8", "int8" },
                                            { "i16", "int16" }, { "i32", "int32" },
                                            { "i64", "int64" } };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(type, words[i][0]) == 0)
            return words[i][1];
    return type;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

static void describe(const struct ggml_library *l, const void *t, enum opm_io io, opm_tensor *out,
                     int64_t dims[GGML_DIMS])
{
    uint32_t rank = GGML_DIMS;

    while (rank > 1 && ggml_ne(l, t, (int)rank - 1) == 1)
        rank--;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = ggml_ne(l, t, (int)(rank - 1 - d));
    *out = (opm_tensor){ .name = l->ggml_get_name(t),
                         .dtype = word_of(l->ggml_type_name(ggml_type(l, t))),
                         .dims = dims,
                         .ndim = rank,
                         .io = io,
                         .bytes = (int64_t)l->ggml_nbytes(t) };
}

/* What a model brings along. */
static bool is_weight(const struct ggml_library *l, const void *t)
{
    const char *name = l->ggml_get_name(t);

    return strcmp(l->ggml_op_desc(t), "NONE") == 0 &&
           (ends_with(name, ".weight") || ends_with(name, ".bias"));
}

static opm_op *define(const struct ggml_library *l, const void *t, const char *device, bool shapes)
{
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_tensor tensor[GGML_SRC_MAX + 1];
    int64_t dims[GGML_SRC_MAX + 1][GGML_DIMS];

    info.name = l->ggml_get_name(t);
    info.type = l->ggml_op_desc(t);
    info.engine = "llama.cpp";
    info.device = device;
    if (shapes) {
        uint32_t n = 0;

        info.flops = flops_of(l, t, info.type);
        info.bytes = bytes_of(l, t, info.type);
        for (int i = 0; i < GGML_SRC_MAX && ggml_src(l, t, i); i++, n++)
            describe(l, ggml_src(l, t, i), is_weight(l, ggml_src(l, t, i)) ? OPM_WEIGHT : OPM_INPUT,
                     &tensor[n], dims[n]);
        describe(l, t, OPM_OUTPUT, &tensor[n], dims[n]);
        info.ntensors = n + 1;
        info.tensors = tensor;
    }
    return opm_op_define(&info);
}

opm_op *ggml_node_op(const struct ggml_library *l, const void *tensor, const char *device)
{
    struct hash h = { 1, 2 }, plain;
    opm_op *op;

    mix_text(&h, l->ggml_op_desc(tensor));
    mix_text(&h, l->ggml_get_name(tensor));
    mix_text(&h, device ? device : "");
    plain = h;
    mix_tensor(&h, l, tensor);
    for (int i = 0; i < GGML_SRC_MAX && ggml_src(l, tensor, i); i++)
        mix_tensor(&h, l, ggml_src(l, tensor, i));
    pthread_mutex_lock(&ops.lock);
    op = find(h);
    if (!op && ops.n < OPS_MAX) {
        op = keep(h, define(l, tensor, device, true));
    } else if (!op) {
        op = find(plain);
        op = op ? op : keep(plain, define(l, tensor, device, false));
    }
    pthread_mutex_unlock(&ops.lock);
    return op;
}

/* ---- graphs ---- */

int64_t ggml_graph_tokens(const struct ggml_library *l, void *graph)
{
    int n = MIN(l->ggml_graph_n_nodes(graph), NAMED_FIRST);

    for (int i = 0; i < n; i++) {
        const void *t = l->ggml_graph_node(graph, i);

        for (int k = 0; k < GGML_SRC_MAX && ggml_src(l, t, k); k++)
            if (strcmp(l->ggml_get_name(ggml_src(l, t, k)), "inp_tokens") == 0)
                return ggml_ne(l, ggml_src(l, t, k), 0);
    }
    return -1;
}

/* Of all nodes that can be told; -1: of none. */
static void add_up(const struct ggml_library *l, void *graph, int nodes, opm_op_info *info)
{
    for (int i = 0; i < nodes; i++) {
        const void *t = l->ggml_graph_node(graph, i);
        const char *what = l->ggml_op_desc(t);
        int64_t flops, bytes;

        if (ggml_node_is_empty(l, t))
            continue;
        flops = flops_of(l, t, what);
        bytes = bytes_of(l, t, what);
        if (flops >= 0)
            info->flops = MAX(info->flops, (int64_t)0) + flops;
        if (bytes >= 0)
            info->bytes = MAX(info->bytes, (int64_t)0) + bytes;
    }
}

opm_op *ggml_graph_op(const struct ggml_library *l, void *graph, const struct ggml_graph_facts *f)
{
    int64_t upto = f->context < 0 ? -1 : (f->context + CONTEXT_STEP - 1) / CONTEXT_STEP;
    struct hash h = { 3, 4 };
    opm_op *op;

    mix(&h, (uint64_t)f->nodes);
    mix(&h, (uint64_t)f->tokens);
    mix(&h, (uint64_t)upto);
    pthread_mutex_lock(&ops.lock);
    op = find(h);
    if (!op) {
        opm_op_info info = OPM_OP_INFO_INIT;
        char name[128];
        int n = snprintf(name, sizeof(name), "graph of %d nodes", f->nodes);

        if (f->tokens >= 0)
            n += snprintf(name + n, sizeof(name) - (size_t)n, ", %lld token%s",
                          (long long)f->tokens, f->tokens == 1 ? "" : "s");
        if (upto >= 0)
            snprintf(name + n, sizeof(name) - (size_t)n, ", context up to %lld",
                     (long long)(upto * CONTEXT_STEP));
        info.name = name;
        info.type = "ggml graph";
        info.engine = "llama.cpp";
        add_up(l, graph, f->nodes, &info);
        op = ops.n < OPS_MAX ? keep(h, opm_op_define(&info)) : NULL;
    }
    pthread_mutex_unlock(&ops.lock);
    return op;
}
