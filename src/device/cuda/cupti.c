/* cupti.c -- see cupti.h. */
#include "device/cuda/cupti.h"

#include "base/common.h"
#include "base/environment.h"
#include "base/error.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Newest first. Each is a file name for the loader. */
static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so" };

/* Where toolkits put it when the loader does not know; the last match of a pattern is the newest.
 */
static const char *const places[] = {
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
    "/usr/local/cuda/lib64/libcupti.so",
    "/usr/local/cuda-[0-9]*/extras/CUPTI/lib64/libcupti.so",
    "/usr/local/cuda-[0-9]*/lib64/libcupti.so",
    "/opt/cuda/extras/CUPTI/lib64/libcupti.so",
};

static void *open_known(int flags)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | flags);

        if (handle)
            return handle;
    }
    return NULL;
}

static void *open_below(const char *root, const char *pattern)
{
    char path[PATH_MAX];
    glob_t found;
    void *handle = NULL;

    snprintf(path, sizeof(path), "%s%s", root, pattern);
    if (glob(path, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i-- && !handle;)
            handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return handle;
}

/* Beside the CUDA runtime of a Python wheel, which has it in a folder next to its own. */
static void *open_wheel(void)
{
    static const char *const runtimes[] = { "libcudart.so.13", "libcudart.so.12" };
    static const char *const beside[] = { "/libcupti.so.1[0-9]",
                                          "/../../cuda_cupti/lib/libcupti.so.1[0-9]" };
    void *handle = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(runtimes) && !handle; i++) {
        void *runtime = dlopen(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);
        void *symbol = runtime ? dlsym(runtime, "cudaGetDevice") : NULL;
        Dl_info info;

        if (symbol && dladdr(symbol, &info) && info.dli_fname) {
            char folder[PATH_MAX];
            const char *slash = strrchr(info.dli_fname, '/');

            snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - info.dli_fname) : 1,
                     slash ? info.dli_fname : ".");
            for (size_t k = 0; k < ARRAY_SIZE(beside) && !handle; k++)
                handle = open_below(folder, beside[k]);
        }
        if (runtime)
            dlclose(runtime);
    }
    return handle;
}

static void *open_any(void)
{
    const char *home = environment_get("CUDA_HOME");
    void *handle = open_known(RTLD_NOLOAD);

    if (!handle)
        handle = open_wheel();
    if (!handle)
        handle = open_known(0);
    if (!handle && home)
        handle = open_below(home, "/extras/CUPTI/lib64/libcupti.so");
    for (size_t i = 0; i < ARRAY_SIZE(places) && !handle; i++)
        handle = open_below("", places[i]);
    return handle;
}

static int find_functions(struct cupti *c, opm_error *err)
{
    const char *missing = NULL;
    void *symbol;

#define X(name, required, params)              \
    symbol = dlsym(c->handle, "cupti" #name);  \
    memcpy(&c->name, &symbol, sizeof(symbol)); \
    if (!symbol && (required))                 \
        missing = "cupti" #name;
    CUPTI_FUNCTIONS(X)
#undef X
    if (missing)
        return opm__fail(err, OPM_EVERSION,
                         "%s has no %s: it is too old, CUPTI 11.6 or newer is needed", c->path,
                         missing);
    return 0;
}

int cupti_load(struct cupti *c, opm_error *err)
{
    const char *given = environment_get("OPMETER_CUPTI_LIB");
    Dl_info info;
    void *symbol;

    memset(c, 0, sizeof(*c));
    c->handle = given ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : open_any();
    if (!c->handle && given)
        return opm__fail(err, OPM_ENOTFOUND, "OPMETER_CUPTI_LIB: %s", dlerror());
    if (!c->handle)
        return opm__fail(err, OPM_ENOTFOUND,
                         "libcupti.so was not found; it comes with the CUDA toolkit, and "
                         "OPMETER_CUPTI_LIB may name it");
    symbol = dlsym(c->handle, "cuptiGetVersion");
    if (symbol && dladdr(symbol, &info) && info.dli_fname)
        snprintf(c->path, sizeof(c->path), "%s", info.dli_fname);
    return find_functions(c, err);
}

const char *cupti_text(const struct cupti *c, int result)
{
    const char *text = NULL;

    if (c->GetResultString && c->GetResultString(result, &text) == CUPTI_OK && text)
        return text;
    return "unknown error";
}
