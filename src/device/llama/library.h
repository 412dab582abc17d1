/* library.h -- the llama.cpp or ggml that a program uses: its functions, and where in its tensors
 * what we need lies.
 *
 * A program binds to our functions of the same names, because we are loaded before the library.
 * library_target() finds the function that it would have bound to without us. */
#ifndef DEVICE_LLAMA_LIBRARY_H
#define DEVICE_LLAMA_LIBRARY_H

#include "device/llama/abi.h"

#include <opmeter/opmeter_error.h>
#include <string.h>

struct ggml_library {
    char path[512];
#define FUNCTION(result, name, parameters) result(*name) parameters;
    GGML_FUNCTIONS(FUNCTION)
#undef FUNCTION
    const char *(*version)(void);  /* or NULL */
    size_t type_at, ne_at, src_at; /* bytes from the start of a tensor */
};

struct llama_library {
    char path[512];
#define FUNCTION(result, name, parameters) result(*name) parameters;
    LLAMA_FUNCTIONS(FUNCTION)
#undef FUNCTION
    const char *(*version)(void); /* or NULL */
};

/* Find everything in the library that `function` lies in, and check it. OPM_EUNSUPPORTED: this
 * version is not known, err says what about it. */
int ggml_library_open(struct ggml_library *l, void *function, opm_error *err);
int llama_library_open(struct llama_library *l, void *function, opm_error *err);

/* What a caller at this address would have got for the name; NULL: nothing. Takes a while. */
void *library_target(const char *name, void *caller);
/* Do both lie in the same library? */
bool library_same(void *a, void *b);

/* Of a tensor, once the library was checked. */
static inline int64_t ggml_ne(const struct ggml_library *l, const void *tensor, int dim)
{
    int64_t v;

    memcpy(&v, (const char *)tensor + l->ne_at + (size_t)dim * sizeof(v), sizeof(v));
    return v;
}
static inline int ggml_type(const struct ggml_library *l, const void *tensor)
{
    int v;

    memcpy(&v, (const char *)tensor + l->type_at, sizeof(v));
    return v;
}
/* NULL: it has no more. */
static inline const void *ggml_src(const struct ggml_library *l, const void *tensor, int i)
{
    const void *v;

    memcpy(&v, (const char *)tensor + l->src_at + (size_t)i * sizeof(v), sizeof(v));
    return v;
}

#endif
