/* names.c -- see names.h. */
#include "device/cuda/names.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash_text(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

/* The C++ runtime knows how. Programs with kernels have it loaded nearly always; where it is
 * missing, mangled names have to do. */
static void find_demangler(struct names *n)
{
    void *symbol = dlsym(RTLD_DEFAULT, "__cxa_demangle");

    if (!symbol) {
        void *lib = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);

        symbol = lib ? dlsym(lib, "__cxa_demangle") : NULL;
    }
    memcpy(&n->demangle, &symbol, sizeof(symbol));
    n->demangle_sought = true;
}

static char *readable(struct names *n, const char *text)
{
    char *plain = NULL, *copy;
    int status;

    if (strncmp(text, "_Z", 2) != 0)
        return mem_strdup(text);
    if (!n->demangle_sought)
        find_demangler(n);
    if (n->demangle)
        plain = n->demangle(text, NULL, NULL, &status);
    copy = mem_strdup(plain ? plain : text);
    free(plain);
    return copy;
}

static struct name *make(struct names *n, enum opm_layer layer, const char *category,
                         const char *text)
{
    struct name *made = mem_calloc(1, sizeof(*made));
    char *plain = readable(n, text);

    if (made)
        made->given = mem_strdup(text);
    if (!made || !plain || !made->given) {
        if (made)
            mem_free(made->given);
        mem_free(made);
        mem_free(plain);
        return NULL;
    }
    made->site = (opm_site)OPM_SITE_INIT(layer, category, plain);
    return made;
}

static bool is(const struct name *e, enum opm_layer layer, const char *category, const char *text)
{
    return e->site.layer == (uint32_t)layer && e->site.category == category &&
           strcmp(e->given, text) == 0;
}

struct name *names_get(struct names *n, enum opm_layer layer, const char *category,
                       const char *text, bool stable)
{
    uint64_t at = (uint64_t)(uintptr_t)text, hash;
    const uint64_t *known = stable ? u64map_get(&n->by_pointer, at) : NULL;
    struct name *e = known ? (struct name *)(uintptr_t)*known : NULL, *first;

    if (e && is(e, layer, category, text))
        return e;
    hash = hash_text(hash_text(0xcbf29ce484222325u + (uint64_t)layer, category), text);
    known = u64map_get(&n->by_hash, hash);
    first = known ? (struct name *)(uintptr_t)*known : NULL;
    for (e = first; e && !is(e, layer, category, text);)
        e = e->other;
    if (!e) {
        e = make(n, layer, category, text);
        if (!e)
            return NULL;
        e->other = first;
        /* Unlisted it still serves this record; the next one makes it again. */
        if (u64map_put(&n->by_hash, hash, (uint64_t)(uintptr_t)e))
            return e;
    }
    if (stable)
        (void)u64map_put(&n->by_pointer, at, (uint64_t)(uintptr_t)e);
    return e;
}

void names_release(struct names *n)
{
    u64map_release(&n->by_pointer);
    u64map_release(&n->by_hash);
}
