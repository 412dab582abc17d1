/* names.h -- sites for the names that activity records carry, made once each.
 *
 * Names of kernels come as pointers to mangled C++ names, the same pointer for all records of a
 * kernel; its text is compared, since memory of an unloaded module may be used again. Not for
 * concurrent use. `struct names n = {0}` is empty. */
#ifndef DEVICE_CUDA_NAMES_H
#define DEVICE_CUDA_NAMES_H

#include "base/u64map.h"

#include <opmeter/opmeter.h>

struct name {
    opm_site site;
    char *given;        /* as it came */
    struct name *other; /* of the same hash */
    /* Facts about the last kernel of the name, and the numbers that they were made from. */
    uint64_t config[4];
    char args[512];
};

struct names {
    struct u64map by_pointer;
    struct u64map by_hash;
    char *(*demangle)(const char *mangled, char *out, size_t *len, int *status);
    bool demangle_sought;
};

/* NULL: out of memory. `stable` tells that the pointer stays what it is. category must be static.
 */
struct name *names_get(struct names *n, enum opm_layer layer, const char *category,
                       const char *text, bool stable);
/* Sites live as long as the recorder may look at them: for good. Frees the maps alone. */
void names_release(struct names *n);

#endif
