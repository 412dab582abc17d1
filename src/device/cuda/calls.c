/* calls.c -- see calls.h. */
#include "device/cuda/calls.h"

#include "base/common.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define CBIDS_MAX 4096 /* more functions than any CUDA has */

/* Of the runtime everything but this; patterns for names without the suffix of a version. */
static const char *const runtime_questions[] = {
    "cudaGet*",
    "cudaSetDevice",
    "cudaPeekAtLastError",
    "cudaDeviceGet*",
    "cudaDeviceCanAccessPeer",
    "cudaStreamGet*",
    "cudaStreamIsCapturing*",
    "cudaStreamQuery*",
    "cudaThreadExchangeStreamCaptureMode",
    "cudaFunc*",
    "cudaOccupancy*",
    "cudaPointerGetAttributes",
    "cudaDriverGetVersion",
    "cudaRuntimeGetVersion",
    "cudaEventQuery",
    "cudaEventElapsedTime*",
    "cudaMemGetInfo",
    "cudaMemPoolGet*",
    "cudaMemPoolSet*",
    "cudaGraph*Get*",
    "cudaKernel*",
    "cudaLibraryGet*",
    "__cudaPushCallConfiguration",
    "__cudaPopCallConfiguration",
};

/* Of the driver only what does something on the device, or waits for it, or takes long. */
static const char *const driver_work[] = {
    "cuLaunch*",           "cuGraphLaunch*",
    "cuGraphInstantiate*", "cuMemcpy*",
    "cuMemset*",           "cu*Synchronize*",
    "cuStreamWaitEvent*",  "cuEventRecord*",
    "cuMemAlloc*",         "cuMemFree*",
    "cuMemHostAlloc*",     "cuMemHostRegister*",
    "cuMemCreate*",        "cuMemMap*",
    "cuMemUnmap*",         "cuMemRelease*",
    "cuMemPrefetch*",      "cuModuleLoad*",
    "cuLibraryLoad*",      "cuLinkComplete*",
    "cuCtxCreate*",        "cuDevicePrimaryCtxRetain*",
    "cuStreamCreate*",
};

static bool matches(const char *const *patterns, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

static bool is_wanted(uint32_t kind, const char *given)
{
    char name[128], *version;

    snprintf(name, sizeof(name), "%s", given);
    version = strrchr(name, '_');
    if (version && version[1] == 'v' && strspn(version + 2, "0123456789") == strlen(version + 2))
        *version = '\0';
    return kind == KIND_DRIVER ? matches(driver_work, ARRAY_SIZE(driver_work), name)
                               : !matches(runtime_questions, ARRAY_SIZE(runtime_questions), name);
}

/* Switch those functions on or off that are (not) wanted; how many CUPTI did that for. */
static int switch_calls(const struct cupti *lib, uint32_t kind, bool wanted)
{
    int (*enable)(uint32_t cbid, uint8_t on) =
        kind == KIND_DRIVER ? lib->ActivityEnableDriverApi : lib->ActivityEnableRuntimeApi;
    uint32_t domain = kind == KIND_DRIVER ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME;
    int n = 0;

    for (uint32_t cbid = 1; enable && cbid < CBIDS_MAX; cbid++) {
        const char *name = NULL;

        if (lib->GetCallbackName(domain, cbid, &name) != CUPTI_OK)
            break;
        if (name && is_wanted(kind, name) == wanted)
            n += enable(cbid, wanted) == CUPTI_OK;
    }
    return n;
}

int calls_enable(const struct cupti *lib, uint32_t kind)
{
    int rc;

    if (switch_calls(lib, kind, true) > 0)
        return CUPTI_OK;
    rc = lib->ActivityEnable(kind);
    if (rc == CUPTI_OK)
        switch_calls(lib, kind, false);
    return rc;
}
