/* torch_ops.c -- see torch_ops.h. */
#include "device/cuda/torch_ops.h"

#include "base/alloc.h"
#include "base/u64map.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct torch_op {
    opm_op *op;
    struct torch_op *other; /* of the same hash */
    size_t name_len, sizes_len;
    char text[]; /* name, then sizes */
};

static struct {
    pthread_mutex_t lock;
    struct u64map by_hash;
} ops = { .lock = PTHREAD_MUTEX_INITIALIZER };

static size_t bracket_len(const char *s)
{
    size_t depth = 0;

    for (const char *p = s; *p; p++) {
        depth += *p == '[';
        if (*p == ']' && --depth == 0)
            return (size_t)(p + 1 - s);
    }
    return 0;
}

bool torch_text_read(const char *text, struct torch_text *out)
{
    const char *seq = strstr(text, ", seq = "), *id = strstr(text, ", op_id = ");
    const char *sizes = strstr(text, ", sizes = [");
    const char *end = seq && (!id || seq < id) ? seq : id;

    if (!end || end == text)
        return false;
    *out = (struct torch_text){ .name = text, .name_len = (size_t)(end - text) };
    if (sizes && sizes > end) {
        out->sizes = strchr(sizes, '[');
        out->sizes_len = bracket_len(out->sizes);
        if (!out->sizes_len)
            out->sizes = NULL;
    }
    return true;
}

static uint64_t hash(uint64_t h, const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
    return h;
}

uint32_t torch_text_inputs(const struct torch_text *p, opm_tensor in[TORCH_INPUTS_MAX],
                           int64_t dims[TORCH_INPUTS_MAX][TORCH_RANK_MAX])
{
    const char *at = p->sizes, *end = at ? at + p->sizes_len : NULL;
    uint32_t n = 0;
    int depth = 0;

    for (; at && at < end; at++) {
        if (*at == '[') {
            if (++depth != 2 || n == TORCH_INPUTS_MAX)
                continue;
            in[n] = (opm_tensor){ .dims = dims[n], .io = OPM_INPUT, .bytes = -1 };
            n++;
        } else if (*at == ']') {
            depth--;
        } else if (depth == 2 && isdigit((unsigned char)*at) && n &&
                   in[n - 1].ndim < TORCH_RANK_MAX) {
            char *after;

            dims[n - 1][in[n - 1].ndim++] = strtoll(at, &after, 10);
            at = after - 1;
        }
    }
    return n;
}

static struct torch_op *make(const struct torch_text *p)
{
    struct torch_op *t = mem_alloc(sizeof(*t) + p->name_len + p->sizes_len + 1);
    char *name = mem_alloc(p->name_len + 1);
    int64_t dims[TORCH_INPUTS_MAX][TORCH_RANK_MAX];
    opm_tensor in[TORCH_INPUTS_MAX];
    opm_op_info info = OPM_OP_INFO_INIT;

    if (!t || !name) {
        mem_free(t);
        mem_free(name);
        return NULL;
    }
    memcpy(name, p->name, p->name_len);
    name[p->name_len] = '\0';
    *t = (struct torch_op){ .name_len = p->name_len, .sizes_len = p->sizes_len };
    memcpy(t->text, p->name, p->name_len);
    if (p->sizes)
        memcpy(t->text + p->name_len, p->sizes, p->sizes_len);
    info.name = name;
    info.type = name;
    info.ntensors = torch_text_inputs(p, in, dims);
    info.tensors = in;
    t->op = opm_op_define(&info);
    mem_free(name);
    return t;
}

static bool is(const struct torch_op *t, const struct torch_text *p)
{
    return t->name_len == p->name_len && t->sizes_len == p->sizes_len &&
           memcmp(t->text, p->name, p->name_len) == 0 &&
           (!p->sizes || memcmp(t->text + p->name_len, p->sizes, p->sizes_len) == 0);
}

static struct torch_op *find(const struct torch_text *p)
{
    uint64_t key = hash(hash(0xcbf29ce484222325u, p->name, p->name_len), p->sizes, p->sizes_len);
    const uint64_t *known = u64map_get(&ops.by_hash, key);
    struct torch_op *first = known ? (struct torch_op *)(uintptr_t)*known : NULL, *t = first;

    while (t && !is(t, p))
        t = t->other;
    if (t)
        return t;
    t = make(p);
    if (!t)
        return NULL;
    t->other = first;
    if (u64map_put(&ops.by_hash, key, (uint64_t)(uintptr_t)t)) {
        opm_op_free(t->op);
        mem_free(t);
        return NULL;
    }
    return t;
}

opm_op *torch_op_of(const char *text)
{
    struct torch_op *t;
    struct torch_text p;

    if (!opm_on(OPM_FRAMEWORK) || !torch_text_read(text, &p))
        return NULL;
    pthread_mutex_lock(&ops.lock);
    t = find(&p);
    pthread_mutex_unlock(&ops.lock);
    return t ? t->op : NULL;
}
