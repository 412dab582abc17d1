/* torch_ops.c -- see torch_ops.h.
 *
 * A call's name, shapes and types are written as words, which are its key in a table that forgets
 * nothing: operators are kept for as long as the process lives. Each thread keeps the hashes of
 * what it called last, of 128 bits, so that hardly a call needs the lock, or memory beyond one
 * line. */
#include "device/cuda/torch_ops.h"

#include "base/alloc.h"
#include "base/u64map.h"
#include "device/cuda/per_thread.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KEY_WORDS (1 + TORCH_NAME_MAX / 8 + TORCH_INPUTS_MAX * (1 + TORCH_RANK_MAX))
#define SLOTS 4096 /* of a thread; a power of two */

/* What a thread called last, by its hash. */
struct slot {
    struct torch_hash hash;
    opm_op *op;
};

struct torch_op {
    opm_op *op;
    struct torch_op *other; /* of the same hash */
    size_t nkey;
    uint64_t key[];
};

static struct {
    pthread_mutex_t lock;
    struct u64map by_hash;
} ops = { .lock = PTHREAD_MUTEX_INITIALIZER };

static PER_THREAD struct slot *recent; /* SLOTS of them, or NULL */
static pthread_key_t recent_key;
static pthread_once_t recent_once = PTHREAD_ONCE_INIT;

/* ---- texts ---- */

static const char *sizes_end(const char *sizes)
{
    size_t depth = 0;

    for (const char *p = sizes; *p; p++) {
        depth += *p == '[';
        if (*p == ']' && --depth == 0)
            return p + 1;
    }
    return NULL;
}

static void read_sizes(const char *at, const char *end, struct torch_call *out, int64_t *dims)
{
    int depth = 0;

    for (; at < end; at++) {
        struct torch_input *in = out->ninputs ? &out->in[out->ninputs - 1] : NULL;

        if (*at == '[') {
            if (++depth != 2 || out->ninputs == TORCH_INPUTS_MAX)
                continue;
            out->in[out->ninputs] =
                (struct torch_input){ .dims = dims + out->ninputs * TORCH_RANK_MAX,
                                      .type = TORCH_NO_TYPE };
            out->ninputs++;
        } else if (*at == ']') {
            depth--;
        } else if (depth == 2 && isdigit((unsigned char)*at) && in && in->rank < TORCH_RANK_MAX) {
            char *after;

            dims[(out->ninputs - 1) * TORCH_RANK_MAX + in->rank++] = strtoll(at, &after, 10);
            at = after - 1;
        }
    }
}

bool torch_call_read(const char *text, struct torch_call *out,
                     int64_t dims[TORCH_INPUTS_MAX * TORCH_RANK_MAX])
{
    const char *seq = strstr(text, ", seq = "), *id = strstr(text, ", op_id = ");
    const char *sizes = strstr(text, ", sizes = ["), *last;
    const char *end = seq && (!id || seq < id) ? seq : id;

    if (!end || end == text)
        return false;
    *out = (struct torch_call){ .name = text, .name_len = (size_t)(end - text) };
    sizes = sizes && sizes > end ? strchr(sizes, '[') : NULL;
    last = sizes ? sizes_end(sizes) : NULL;
    if (last)
        read_sizes(sizes, last, out, dims);
    return true;
}

bool torch_call_is_annotation(const struct torch_call *c)
{
    static const char *const starts[] = { "Optimizer.", "enumerate(DataLoader)",
                                          "DistributedDataParallel." };

    for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
        if (c->name_len >= strlen(starts[i]) && memcmp(c->name, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* ---- operators ---- */

static size_t key_of(const struct torch_call *c, uint64_t key[KEY_WORDS])
{
    size_t len = MIN(c->name_len, (size_t)TORCH_NAME_MAX), n = 1 + (len + 7) / 8;

    key[n - 1] = 0;
    key[0] = (uint64_t)len << 32 | c->ninputs;
    memcpy(key + 1, c->name, len);
    for (uint32_t i = 0; i < c->ninputs; i++) {
        const struct torch_input *in = &c->in[i];

        key[n++] = (uint64_t)in->type << 8 | in->rank;
        for (uint8_t d = 0; d < in->rank; d++)
            key[n++] = (uint64_t)in->dims[d];
    }
    return n;
}

static struct torch_hash hash_of(const uint64_t *key, size_t n)
{
    struct torch_hash h = { n, ~n };

    for (size_t i = 0; i < n; i++) {
        h.low = (h.low ^ key[i]) * 0x9e3779b97f4a7c15u;
        h.high = (h.high ^ key[i]) * 0xd6e8feb86659fd93u;
        h.low ^= h.low >> 29;
        h.high ^= h.high >> 32;
    }
    return h;
}

static bool is(const struct torch_op *t, const uint64_t *key, size_t n)
{
    return t->nkey == n && memcmp(t->key, key, n * sizeof(*key)) == 0;
}

/* PyTorch's numbers of types, in the words of recordings. */
static const struct {
    const char *name;
    uint8_t bytes;
} types[] = {
    [0] = { "uint8", 1 },     [1] = { "int8", 1 },         [2] = { "int16", 2 },
    [3] = { "int32", 4 },     [4] = { "int64", 8 },        [5] = { "fp16", 2 },
    [6] = { "fp32", 4 },      [7] = { "fp64", 8 },         [8] = { "complex32", 4 },
    [9] = { "complex64", 8 }, [10] = { "complex128", 16 }, [11] = { "bool", 1 },
    [15] = { "bf16", 2 },     [23] = { "fp8e5m2", 1 },     [24] = { "fp8e4m3fn", 1 },
};

static void describe(opm_tensor *out, const struct torch_input *in)
{
    int64_t bytes;

    *out = (opm_tensor){ .dims = in->dims, .ndim = in->rank, .io = OPM_INPUT, .bytes = -1 };
    if (in->type >= ARRAY_SIZE(types) || !types[in->type].name)
        return;
    out->dtype = types[in->type].name;
    bytes = types[in->type].bytes;
    for (uint8_t d = 0; d < in->rank; d++)
        if (in->dims[d] < 0 || __builtin_mul_overflow(bytes, in->dims[d], &bytes))
            return;
    out->bytes = bytes;
}

static struct torch_op *make(const struct torch_call *c, const uint64_t *key, size_t n)
{
    struct torch_op *t = mem_alloc(sizeof(*t) + n * sizeof(*key));
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_tensor in[TORCH_INPUTS_MAX];
    char name[TORCH_NAME_MAX + 1];
    size_t len = MIN(c->name_len, (size_t)TORCH_NAME_MAX);

    if (!t)
        return NULL;
    memcpy(name, c->name, len);
    name[len] = '\0';
    for (uint32_t i = 0; i < c->ninputs; i++)
        describe(&in[i], &c->in[i]);
    info.name = name;
    info.type = name;
    info.ntensors = c->ninputs;
    info.tensors = in;
    *t = (struct torch_op){ .op = opm_op_define(&info), .nkey = n };
    memcpy(t->key, key, n * sizeof(*key));
    return t;
}

static struct torch_op *find_or_make(const struct torch_call *c, const uint64_t *key, size_t n,
                                     uint64_t hash)
{
    const uint64_t *known = u64map_get(&ops.by_hash, hash);
    struct torch_op *first = known ? (struct torch_op *)(uintptr_t)*known : NULL, *t = first;

    while (t && !is(t, key, n))
        t = t->other;
    if (t)
        return t;
    t = make(c, key, n);
    if (!t)
        return NULL;
    t->other = first;
    if (u64map_put(&ops.by_hash, hash, (uint64_t)(uintptr_t)t)) {
        opm_op_free(t->op);
        mem_free(t);
        return NULL;
    }
    return t;
}

/* ---- of each thread ---- */

static void free_recent(void *slots)
{
    recent = NULL;
    mem_free(slots);
}

static void make_key(void)
{
    pthread_key_create(&recent_key, free_recent);
}

__attribute__((noinline, cold)) static struct slot *make_slots(void)
{
    recent = mem_calloc(SLOTS, sizeof(*recent));
    pthread_once(&recent_once, make_key);
    pthread_setspecific(recent_key, recent);
    return recent;
}

static struct slot *slot_of(struct torch_hash hash)
{
    struct slot *slots = LIKELY(recent) ? recent : make_slots();

    return slots ? &slots[hash.low % SLOTS] : NULL;
}

opm_op *torch_op_seek(struct torch_hash hash)
{
    const struct slot *slot = slot_of(hash);

    return slot && slot->hash.low == hash.low && slot->hash.high == hash.high ? slot->op : NULL;
}

opm_op *torch_op_find(struct torch_hash hash, const struct torch_call *c)
{
    uint64_t key[KEY_WORDS];
    size_t n = key_of(c, key);
    struct slot *slot = slot_of(hash);
    struct torch_op *t;

    pthread_mutex_lock(&ops.lock);
    t = find_or_make(c, key, n, hash_of(key, n).low);
    pthread_mutex_unlock(&ops.lock);
    if (t && slot)
        *slot = (struct slot){ hash, t->op };
    return t ? t->op : NULL;
}

opm_op *torch_op_of(const struct torch_call *c)
{
    uint64_t key[KEY_WORDS];
    struct torch_hash hash = hash_of(key, key_of(c, key));
    opm_op *op = torch_op_seek(hash);

    return op ? op : torch_op_find(hash, c);
}
