/* library.c -- see library.h.
 *
 * Tensors of known shapes are made, and where the shapes turn up in them is where they lie in all.
 * What turns up twice, or not at all, is a version that we do not know. */
#include "device/llama/library.h"

#include "base/error.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#define OBJECTS_MAX 1024
#define TENSOR_LOOKED_AT 256 /* bytes, less than any version's tensors have */
#define NOWHERE SIZE_MAX

/* ---- where functions are ---- */

bool library_same(void *a, void *b)
{
    Dl_info x, y;

    return dladdr(a, &x) && dladdr(b, &y) && x.dli_fbase == y.dli_fbase;
}

static bool is_ours(void *function)
{
    return library_same(function, (void *)(uintptr_t)&is_ours);
}

static void *in_object(const char *path, const char *name)
{
    void *handle = path && *path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *found = handle ? dlsym(handle, name) : NULL;

    /* The handle is kept: what we call must not be unloaded. */
    return found && !is_ours(found) ? found : NULL;
}

struct objects {
    const char *path[OBJECTS_MAX];
    size_t n;
};

static int list_object(struct dl_phdr_info *info, size_t size, void *user)
{
    struct objects *all = user;

    (void)size;
    if (all->n < OBJECTS_MAX && info->dlpi_name)
        all->path[all->n++] = info->dlpi_name;
    return 0;
}

void *library_target(const char *name, void *caller)
{
    void *found = dlsym(RTLD_NEXT, name);
    struct objects all = { .n = 0 };
    Dl_info from;

    /* What is visible to all is behind us; else it is what the caller brought along. */
    if (!found && dladdr(caller, &from))
        found = in_object(from.dli_fname, name);
    if (!found)
        dl_iterate_phdr(list_object, &all);
    for (size_t i = 0; i < all.n && !found; i++)
        found = in_object(all.path[i], name);
    return found && !is_ours(found) ? found : NULL;
}

static int open_library(char path[512], void *function, void **handle, opm_error *err)
{
    Dl_info at;

    if (!dladdr(function, &at) || !at.dli_fname)
        return opm__fail(err, OPM_EUNSUPPORTED, "its library cannot be told");
    snprintf(path, 512, "%s", at.dli_fname);
    *handle = dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!*handle)
        return opm__fail(err, OPM_EUNSUPPORTED, "%s: linked into the program itself", path);
    return 0;
}

/* ---- tensors ---- */

static size_t only(size_t known, size_t at, bool *twice)
{
    *twice |= known != NOWHERE;
    return at;
}

/* Where all of `wanted` lies in the tensor; NOWHERE unless that is one place. */
static size_t place_of(const void *tensor, const void *wanted, size_t size, size_t step)
{
    size_t found = NOWHERE;
    bool twice = false;

    for (size_t at = 0; at + size <= TENSOR_LOOKED_AT; at += step)
        if (memcmp((const char *)tensor + at, wanted, size) == 0)
            found = only(found, at, &twice);
    return twice ? NOWHERE : found;
}

/* The first number that is the type in both. */
static size_t place_of_type(const void *f32, const void *f16, size_t before)
{
    int x, y;

    for (size_t at = 0; at < before; at += sizeof(int)) {
        memcpy(&x, (const char *)f32 + at, sizeof(x));
        memcpy(&y, (const char *)f16 + at, sizeof(y));
        if (x == GGML_F32 && y == GGML_F16)
            return at;
    }
    return NOWHERE;
}

static const char *look(struct ggml_library *l, void *context)
{
    const int64_t p[GGML_DIMS] = { 64, 3, 5, 7 }, q[GGML_DIMS] = { 96, 11, 13, 17 };
    void *a = l->ggml_new_tensor_4d(context, GGML_F32, p[0], p[1], p[2], p[3]);
    void *b = l->ggml_new_tensor_4d(context, GGML_F16, q[0], q[1], q[2], q[3]);
    void *x = l->ggml_new_tensor_4d(context, GGML_F32, 64, 3, 1, 1);
    void *y = l->ggml_new_tensor_4d(context, GGML_F32, 64, 5, 1, 1);
    void *c = x && y ? l->ggml_mul_mat(context, x, y) : NULL;
    const void *srcs[2] = { x, y };

    if (!a || !b || !c)
        return "it makes no tensors";
    l->ne_at = place_of(a, p, sizeof(p), sizeof(int64_t));
    if (l->ne_at == NOWHERE || l->ne_at != place_of(b, q, sizeof(q), sizeof(int64_t)))
        return "shapes are not where they can be found in its tensors";
    l->type_at = place_of_type(a, b, l->ne_at);
    if (l->type_at == NOWHERE || strcmp(l->ggml_type_name(GGML_F32), "f32") != 0 ||
        strcmp(l->ggml_type_name(GGML_F16), "f16") != 0)
        return "types are not where they can be found in its tensors";
    l->src_at = place_of(c, srcs, sizeof(srcs), sizeof(void *));
    if (l->src_at == NOWHERE || ggml_src(l, c, 2) || ggml_src(l, a, 0))
        return "inputs are not where they can be found in its tensors";
    if (strcmp(l->ggml_op_desc(c), "MUL_MAT") != 0 || strcmp(l->ggml_op_desc(a), "NONE") != 0 ||
        ggml_ne(l, c, 0) != 3 || ggml_ne(l, c, 1) != 5 || l->ggml_nelements(a) != 64 * 3 * 5 * 7 ||
        l->ggml_nbytes(b) != 96 * 11 * 13 * 17 * 2 || !l->ggml_get_name(a))
        return "its tensors are not what they were made as";
    return NULL;
}

int ggml_library_open(struct ggml_library *l, void *function, opm_error *err)
{
    struct ggml_init_params params = { .no_alloc = true };
    const char *wrong;
    void *handle, *context;
    int rc;

    *l = (struct ggml_library){ .path = "" };
    rc = open_library(l->path, function, &handle, err);
    if (rc)
        return rc;
#define FUNCTION(result, name, parameters)                                \
    *(void **)(void *)&l->name = dlsym(handle, #name);                    \
    if (!l->name)                                                         \
        return opm__fail(err, OPM_EUNSUPPORTED,                           \
                         "%s: this version of ggml is not known, it has " \
                         "no " #name,                                     \
                         l->path);
    GGML_FUNCTIONS(FUNCTION)
#undef FUNCTION
    *(void **)(void *)&l->version = dlsym(handle, "ggml_version");
    params.mem_size = 8 * l->ggml_tensor_overhead();
    context = params.mem_size >= 8 * TENSOR_LOOKED_AT ? l->ggml_init(params) : NULL;
    if (!context)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%s: this version of ggml is not known, its tensors are smaller", l->path);
    wrong = look(l, context);
    l->ggml_free(context);
    if (wrong)
        return opm__fail(err, OPM_EUNSUPPORTED, "%s: this version of ggml is not known, %s",
                         l->path, wrong);
    return 0;
}

/* ---- batches ---- */

/* Made and given back; a list of sequences ends with NULL, which the tokens before it are not. */
static bool batch_is_known(const struct llama_library *l)
{
    struct llama_batch_back tokens = l->llama_batch_init(3, 0, 2);
    struct llama_batch_back numbers = l->llama_batch_init(3, 8, 1);
    struct llama_batch_room room;
    struct llama_batch t, e;
    bool ok;

    memcpy(&t, tokens.bytes, sizeof(t));
    memcpy(&e, numbers.bytes, sizeof(e));
    ok = t.n_tokens == 0 && t.token && !t.embd && t.pos && t.n_seq_id && t.seq_id && t.logits &&
         !e.token && e.embd && e.pos && e.seq_id && e.logits;
    for (int i = 0; i < 3 && ok; i++)
        ok = t.seq_id[i] && e.seq_id[i];
    ok = ok && !t.seq_id[3] && !e.seq_id[3];
    if (ok) { /* else freeing it could do anything */
        memcpy(room.bytes, tokens.bytes, sizeof(room.bytes));
        l->llama_batch_free(room);
        memcpy(room.bytes, numbers.bytes, sizeof(room.bytes));
        l->llama_batch_free(room);
    }
    return ok;
}

int llama_library_open(struct llama_library *l, void *function, opm_error *err)
{
    void *handle;
    int rc;

    *l = (struct llama_library){ .path = "" };
    rc = open_library(l->path, function, &handle, err);
    if (rc)
        return rc;
#define FUNCTION(result, name, parameters)                                 \
    *(void **)(void *)&l->name = dlsym(handle, #name);                     \
    if (!l->name)                                                          \
        return opm__fail(err, OPM_EUNSUPPORTED,                            \
                         "%s: this version of llama.cpp is not known, it " \
                         "has no " #name,                                  \
                         l->path);
    LLAMA_FUNCTIONS(FUNCTION)
#undef FUNCTION
    *(void **)(void *)&l->version = dlsym(handle, "llama_version");
    if (!batch_is_known(l))
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%s: this version of llama.cpp is not known, its batches are others",
                         l->path);
    return 0;
}
