/* nvml.c -- see nvml.h. */
#include "device/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

static bool load(struct nvml *n, char *why, size_t size)
{
    static const struct {
        const char *symbol;
        size_t offset;
        bool needed;
    } functions[] = {
#define X(member, symbol, needed, arguments) { symbol, offsetof(struct nvml, member), needed },
        NVML_FUNCTIONS(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
        void *p = dlsym(n->library, functions[i].symbol);

        if (!p && functions[i].needed) {
            snprintf(why, size, "%s lacks %s", LIBRARY, functions[i].symbol);
            return false;
        }
        memcpy((char *)n + functions[i].offset, &p, sizeof(p));
    }
    return true;
}

bool nvml_open(struct nvml *n, char *why, size_t size)
{
    int rc;

    *n = (struct nvml){ .library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL) };
    if (!n->library) {
        snprintf(why, size, "%s is not installed: no NVIDIA driver", LIBRARY);
        return false;
    }
    if (load(n, why, size)) {
        rc = n->init();
        if (rc == NVML_OK)
            return true;
        snprintf(why, size, "NVML does not start (error %d): no GPU, or no permission", rc);
    }
    dlclose(n->library);
    n->library = NULL;
    return false;
}

void nvml_close(struct nvml *n)
{
    if (!n->library)
        return;
    n->shutdown();
    dlclose(n->library);
    n->library = NULL;
}
