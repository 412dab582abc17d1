/* ort_lib.c -- see ort_lib.h. */
#include "engine/ort/ort_lib.h"

#include "base/environment.h"
#include "base/error.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__aarch64__)
#define NODE_ARCH "arm64"
#else
#define NODE_ARCH "x64"
#endif

#define HOW_TO_GET_IT                                                                     \
    "get it with 'npm install onnxruntime-node' or 'pip install onnxruntime', or name a " \
    "libonnxruntime.so with --ort-lib or OPMETER_ORT_LIB"

typedef void (*any_function)(void);

struct ort_base {
    const any_function *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};

static int bind_library(struct ort_api *api, const char *path, void *handle, opm_error *err)
{
    void *symbol = dlsym(handle, "OrtGetApiBase");
    const struct ort_base *(*get_base)(void);
    const struct ort_base *base;
    const any_function *table;

    if (!symbol)
        return opm__fail(err, OPM_EFORMAT, "%s: not ONNX Runtime: it has no OrtGetApiBase", path);
    memcpy(&get_base, &symbol, sizeof(get_base)); /* ISO C has no cast for this */
    base = get_base();
    table = base ? base->GetApi(ORT_API_VERSION) : NULL;
    if (!table)
        return opm__fail(err, OPM_EVERSION, "%s: ONNX Runtime %s has no C API version %d", path,
                         base ? base->GetVersionString() : "?", ORT_API_VERSION);
#define X(slot, result, name, params) api->name = (result(*) params)table[slot];
    ORT_FUNCTIONS(X)
#undef X
    api->version = base->GetVersionString();
    snprintf(api->path, sizeof(api->path), "%s", path);
    return 0;
}

/* False: there is no such library; true: *rc says what came of it. */
static bool try_library(struct ort_api *api, const char *path, int *rc, opm_error *err)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return false;
    *rc = bind_library(api, path, handle, err);
    return true;
}

static bool try_pattern(struct ort_api *api, const char *pattern, int *rc, opm_error *err)
{
    glob_t found = { 0 };
    bool done = false;

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; !done && i < found.gl_pathc; i++)
            done = try_library(api, found.gl_pathv[i], rc, err) && *rc == 0;
    globfree(&found);
    return done;
}

static bool try_python(struct ort_api *api, int *rc, opm_error *err)
{
    static const struct {
        const char *variable; /* NULL: none in front */
        const char *folder;
    } places[] = {
        { "VIRTUAL_ENV", "/lib/python3*/site-packages" },
        { "CONDA_PREFIX", "/lib/python3*/site-packages" },
        { "HOME", "/.local/lib/python3*/site-packages" },
        { "HOME", "/.pyenv/versions/*/lib/python3*/site-packages" },
        { NULL, "/usr/local/lib/python3*/*-packages" },
        { NULL, "/usr/lib/python3*/*-packages" },
    };
    char pattern[600];
    bool done = false;

    for (size_t i = 0; !done && i < ARRAY_SIZE(places); i++) {
        const char *front = places[i].variable ? environment_get(places[i].variable) : "";

        if (!front)
            continue;
        snprintf(pattern, sizeof(pattern), "%s%s/onnxruntime/capi/libonnxruntime.so*", front,
                 places[i].folder);
        done = try_pattern(api, pattern, rc, err);
    }
    return done;
}

static bool try_node(struct ort_api *api, int *rc, opm_error *err)
{
    static const char *const packages[] = {
        "onnxruntime-node/bin/napi-v*/linux/" NODE_ARCH "/libonnxruntime.so*",
        "sherpa-onnx-linux-" NODE_ARCH "/libonnxruntime.so*",
    };
    char dir[512], pattern[700];
    bool done = false;

    /* A privileged program loads nothing from where its user happens to be. */
    if (environment_privileged() || !getcwd(dir, sizeof(dir)))
        return false;
    while (!done) {
        char *slash = strrchr(dir, '/');

        for (size_t i = 0; !done && i < ARRAY_SIZE(packages); i++) {
            snprintf(pattern, sizeof(pattern), "%s/node_modules/%s", dir, packages[i]);
            done = try_pattern(api, pattern, rc, err);
        }
        if (!slash)
            break;
        *slash = '\0';
    }
    return done;
}

/* A library that the user named: nothing else will do. */
static int open_named(struct ort_api *api, const char *path, const char *who, opm_error *err)
{
    struct stat st;
    const char *why;
    int rc = 0;

    if (try_library(api, path, &rc, err))
        return rc;
    why = dlerror();
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return opm__fail(err, OPM_ENOTFOUND, "%s: %s is a folder; it must be the library itself",
                         who, path);
    /* dlerror() usually begins with the path. */
    return opm__fail(err, OPM_ENOTFOUND, "%s: %s", who, why ? why : path);
}

int ort_lib_open(struct ort_api *api, const char *path, opm_error *err)
{
    const char *named = environment_get("OPMETER_ORT_LIB");
    int rc = 0;

    if (path)
        return open_named(api, path, "--ort-lib", err);
    if (named)
        return open_named(api, named, "OPMETER_ORT_LIB", err);
    if (try_library(api, "libonnxruntime.so.1", &rc, err) ||
        try_library(api, "libonnxruntime.so", &rc, err) || try_python(api, &rc, err) ||
        try_node(api, &rc, err))
        return rc;
    return opm__fail(err, OPM_ENOTFOUND, "ONNX Runtime is not installed here; " HOW_TO_GET_IT);
}
