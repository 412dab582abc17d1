/* calls.c -- see calls.h. */
#include "device/cuda/calls.h"

#include "base/alloc.h"
#include "base/common.h"
#include "device/cuda/per_thread.h"

#include <fnmatch.h>
#include <opmeter/opmeter.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* The runtime's names end in the version that a function came with: cudaMalloc_v3020. The driver's
 * suffixes (cuMemAlloc_v2) are part of what a program calls. */
static void cut_version(char *name)
{
    char *at = strrchr(name, '_');

    if (at && at[1] == 'v' && strlen(at) >= 6 && strspn(at + 2, "0123456789") == strlen(at + 2))
        *at = '\0';
}

void calls_name(const struct cupti *lib, uint32_t domain, uint32_t cbid, char *out, size_t size)
{
    const char *given = NULL;

    if (lib->GetCallbackName(domain, cbid, &given) != CUPTI_OK || !given)
        snprintf(out, size, "%s call %u", domain == CUPTI_DOMAIN_DRIVER ? "driver" : "runtime",
                 (unsigned)cbid);
    else
        snprintf(out, size, "%s", given);
    if (domain == CUPTI_DOMAIN_RUNTIME)
        cut_version(out);
}

/* ---- the runtime: as it happens ---- */

#define RUNTIME_CALLS_MAX 1024 /* more than it has functions; those beyond are not recorded */

static opm_site runtime_site[RUNTIME_CALLS_MAX]; /* name NULL: not watched */

static pthread_key_t line_key;
static pthread_once_t line_once = PTHREAD_ONCE_INIT;
static PER_THREAD opm_track *line; /* of the calling thread */

static void free_line(void *track)
{
    opm_track_free(track);
}

static void make_key(void)
{
    pthread_key_create(&line_key, free_line);
}

__attribute__((noinline, cold)) static opm_track *make_line(void)
{
    line = opm_track_define_numbered("thread", NULL, NULL, OPM_CLOCK_RECORDER, gettid());
    pthread_once(&line_once, make_key);
    pthread_setspecific(line_key, line);
    return line;
}

static opm_track *own_line(void)
{
    return LIKELY(line) ? line : make_line();
}

__attribute__((noinline, cold)) static void
take_failed(uint32_t cbid, const struct cupti_call *call, uint64_t start, uint64_t end)
{
    char args[32];

    snprintf(args, sizeof(args), "{\"result\":%d}", *call->result);
    opm_device_span_args(own_line(), &runtime_site[cbid], (int64_t)start, (int64_t)end,
                         call->correlation, args);
}

void calls_take(uint32_t cbid, const struct cupti_call *call, uint64_t start, uint64_t end,
                const char *args)
{
    if (cbid >= RUNTIME_CALLS_MAX || !runtime_site[cbid].name)
        return;
    if (UNLIKELY(call->result && *call->result))
        take_failed(cbid, call, start, end);
    else
        opm_device_span_args(own_line(), &runtime_site[cbid], (int64_t)start, (int64_t)end,
                             call->correlation, args);
}

static int watch_runtime(const struct cupti *lib, void *subscriber)
{
    const char *given;
    char name[128];
    int rc = CUPTI_OK;

    for (uint32_t cbid = 1; cbid < RUNTIME_CALLS_MAX && rc == CUPTI_OK; cbid++) {
        given = NULL;
        if (lib->GetCallbackName(CUPTI_DOMAIN_RUNTIME, cbid, &given) != CUPTI_OK)
            break;
        calls_name(lib, CUPTI_DOMAIN_RUNTIME, cbid, name, sizeof(name));
        if (matches(runtime_questions, ARRAY_SIZE(runtime_questions), name))
            continue;
        runtime_site[cbid] = (opm_site)OPM_SITE_INIT(OPM_RUNTIME, "cuda_runtime", mem_strdup(name));
        if (runtime_site[cbid].name)
            rc = lib->EnableCallback(1, subscriber, CUPTI_DOMAIN_RUNTIME, cbid);
    }
    return rc;
}

/* ---- the driver: as records ---- */

/* Watch the functions that are wanted, or stop watching the others; how many that worked for. */
static int switch_driver(const struct cupti *lib, bool wanted)
{
    int n = 0;

    for (uint32_t cbid = 1; lib->ActivityEnableDriverApi && cbid < CBIDS_MAX; cbid++) {
        const char *name = NULL;

        if (lib->GetCallbackName(CUPTI_DOMAIN_DRIVER, cbid, &name) != CUPTI_OK)
            break;
        if (name && matches(driver_work, ARRAY_SIZE(driver_work), name) == wanted)
            n += lib->ActivityEnableDriverApi(cbid, wanted) == CUPTI_OK;
    }
    return n;
}

static int watch_driver(const struct cupti *lib)
{
    int rc;

    if (switch_driver(lib, true) > 0)
        return CUPTI_OK;
    rc = lib->ActivityEnable(KIND_DRIVER);
    if (rc == CUPTI_OK)
        switch_driver(lib, false);
    return rc;
}

int calls_enable(const struct cupti *lib, void *subscriber, uint32_t kind)
{
    return kind == KIND_RUNTIME ? watch_runtime(lib, subscriber) : watch_driver(lib);
}
