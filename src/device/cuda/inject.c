/* inject.c -- libopmeter-cuda: what the CUDA driver loads into a program and starts.
 *
 * CUDA_INJECTION64_PATH names the library; the driver calls InitializeInjection() when the program
 * initialises it. Nothing that goes wrong here may harm the program: it is said in one sentence on
 * standard error, and the program runs on without.
 *
 * Records arrive in buffers that CUPTI hands back when they are full and done, and twice a second
 * (a program that is killed loses what CUPTI still had). They are converted on CUPTI's thread or on
 * ours, never on one of the program's, but at its exit. */
#include "base/common.h"
#include "base/environment.h"
#include "base/error.h"
#include "device/cuda/pool.h"
#include "device/cuda/records.h"

#include <opmeter/opmeter.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_NS 500000000
#define BUFFER_MB_DEFAULT 64
#define CBIDS_MAX 4096 /* more functions than any CUDA has */

static struct {
    struct cupti lib;
    struct cuda_clock clock;
    struct records records;
    void *subscriber;
    atomic_bool on;
    pthread_mutex_t convert; /* records */
    pthread_mutex_t lock;    /* stopping */
    pthread_cond_t wake;
    bool stopping;
    pthread_t flusher;
    bool has_flusher;
    uint64_t dropped, dropped_told;
} cuda = { .convert = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .wake = PTHREAD_COND_INITIALIZER };

static void say(const char *what)
{
    dprintf(STDERR_FILENO, "opmeter: CUDA is not recorded: %s; the program runs on\n", what);
}

/* ---- buffers ---- */

static void buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = pool_take();
    *size = *buffer ? POOL_BUFFER_BYTES : 0;
    *max_records = 0;
}

static void buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                             size_t valid)
{
    struct cupti_record *record = NULL;
    size_t dropped = 0;

    (void)size;
    if (!buffer)
        return;
    pthread_mutex_lock(&cuda.convert);
    while (valid && cuda.lib.ActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK)
        records_take(&cuda.records, record);
    if (cuda.lib.ActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_OK)
        cuda.dropped += dropped;
    pthread_mutex_unlock(&cuda.convert);
    pool_give(buffer);
}

static void number_fact(const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    opm_meta(key, text);
}

static void facts(void)
{
    pthread_mutex_lock(&cuda.convert);
    if (cuda.clock.error_ns >= 0)
        number_fact("cuda.clock.error_ns", (uint64_t)cuda.clock.error_ns);
    number_fact("cuda.records", cuda.records.taken);
    number_fact("cuda.dropped", cuda.dropped);
    number_fact("cuda.unfinished", cuda.records.unfinished);
    number_fact("cuda.unknown", cuda.records.unknown);
    number_fact("cuda.no_memory", cuda.records.no_memory);
    number_fact("cuda.buffers_refused", pool_refused());
    pthread_mutex_unlock(&cuda.convert);
}

/* Losses are told at once: nobody knows how the program will end. */
static void flush(uint32_t flag)
{
    bool news;

    cuda.lib.ActivityFlushAll(flag);
    pthread_mutex_lock(&cuda.convert);
    cuda_clock_read(&cuda.clock, &cuda.lib);
    news = cuda.dropped != cuda.dropped_told;
    cuda.dropped_told = cuda.dropped;
    pthread_mutex_unlock(&cuda.convert);
    if (news)
        facts();
}

static void *flush_now_and_then(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&cuda.lock);
    while (!cuda.stopping) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += FLUSH_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&cuda.wake, &cuda.lock, &until);
        if (cuda.stopping)
            break;
        pthread_mutex_unlock(&cuda.lock);
        flush(0);
        pthread_mutex_lock(&cuda.lock);
    }
    pthread_mutex_unlock(&cuda.lock);
    return NULL;
}

/* ---- what CUPTI tells at once ---- */

static void called_back(void *user, uint32_t domain, uint32_t cbid, const void *data)
{
    (void)user;
    if (!atomic_load(&cuda.on))
        return;
    if (domain == CUPTI_DOMAIN_STATE) {
        const struct cupti_state *state = data;

        dprintf(STDERR_FILENO, "opmeter: CUPTI reports an error: %s%s%s\n",
                cupti_text(&cuda.lib, state->result), state->message ? ": " : "",
                state->message ? state->message : "");
    } else if (domain == CUPTI_DOMAIN_RUNTIME && cbid == CUPTI_CBID_DEVICE_RESET) {
        /* What is not flushed before the reset is gone after it. */
        cuda.lib.ActivityFlushAll(0);
    }
}

static int subscribe(opm_error *err)
{
    char other[128] = "";
    struct cupti_subscriber_options options = {
        .size = sizeof(options), .name = "opmeter", .other = other, .other_size = sizeof(other)
    };
    int rc = cuda.lib.Subscribe_v2
                 ? cuda.lib.Subscribe_v2(&cuda.subscriber, called_back, NULL, &options)
                 : cuda.lib.Subscribe(&cuda.subscriber, called_back, NULL);

    if (rc == CUPTI_MULTIPLE_SUBSCRIBERS)
        return opm__fail(err, OPM_EBUSY, "another profiler%s%s%s is at work in this process",
                         other[0] ? " (" : "", other, other[0] ? ")" : "");
    if (rc)
        return opm__fail(err, OPM_EUNSUPPORTED, "CUPTI cannot be used: %s",
                         cupti_text(&cuda.lib, rc));
    /* Both are extras: recording goes on without. */
    cuda.lib.EnableCallback(1, cuda.subscriber, CUPTI_DOMAIN_RUNTIME, CUPTI_CBID_DEVICE_RESET);
    cuda.lib.EnableDomain(1, cuda.subscriber, CUPTI_DOMAIN_STATE);
    return 0;
}

/* ---- what is recorded ---- */

/* Calls that only ask, some of them thousands of times a second: each costs the program more than
 * it tells. Compared without the suffix of a version. */
static const char *const questions[] = {
    "cudaGetDevice",
    "cudaSetDevice",
    "cudaGetLastError",
    "cudaPeekAtLastError",
    "cudaGetDeviceCount",
    "cudaGetDeviceProperties",
    "cudaDeviceGetAttribute",
    "cudaDeviceGetStreamPriorityRange",
    "cudaStreamIsCapturing",
    "cudaStreamGetCaptureInfo",
    "cudaStreamGetPriority",
    "cudaStreamGetFlags",
    "cudaThreadExchangeStreamCaptureMode",
    "cudaFuncGetAttributes",
    "cudaFuncSetAttribute",
    "cudaFuncGetName",
    "cudaGetFuncBySymbol",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cudaPointerGetAttributes",
    "cudaDriverGetVersion",
    "cudaRuntimeGetVersion",
    "cudaGetDriverEntryPoint",
    "cudaGetDriverEntryPointByVersion",
    "__cudaPushCallConfiguration",
    "__cudaPopCallConfiguration",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxPushCurrent",
    "cuCtxPopCurrent",
    "cuCtxGetDevice",
    "cuCtxGetApiVersion",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceGetUuid",
    "cuDevicePrimaryCtxGetState",
    "cuDeviceTotalMem",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetExportTable",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuKernelGetAttribute",
    "cuKernelGetFunction",
    "cuKernelGetName",
    "cuLibraryGetKernel",
    "cuModuleGetFunction",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuStreamGetCaptureInfo",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
};

static bool is_question(const char *name)
{
    size_t len = strlen(name);
    const char *version = strrchr(name, '_');

    if (version && version[1] == 'v' && strspn(version + 2, "0123456789") == strlen(version + 2))
        len = (size_t)(version - name);
    for (size_t i = 0; i < ARRAY_SIZE(questions); i++)
        if (strlen(questions[i]) == len && memcmp(questions[i], name, len) == 0)
            return true;
    return false;
}

static void leave_out(uint32_t domain, int (*enable)(uint32_t cbid, uint8_t on))
{
    const char *name;

    for (uint32_t cbid = 1; enable && cbid < CBIDS_MAX; cbid++) {
        name = NULL;
        if (cuda.lib.GetCallbackName(domain, cbid, &name) != CUPTI_OK)
            break;
        if (name && is_question(name))
            enable(cbid, 0);
    }
}

static bool is_permission(int result)
{
    return result == CUPTI_INSUFFICIENT_PRIVILEGES ||
           result == CUPTI_VIRTUAL_INSUFFICIENT_PRIVILEGES;
}

/* Kernels must be had; whatever else this CUPTI or this GPU does not offer is noted. */
static int enable_kinds(opm_error *err)
{
    static const struct {
        const char *name;
        uint32_t kind;
        enum opm_layer layer;
    } kinds[] = {
#define X(name, number)                                                             \
    { #name, number,                                                                \
      number == KIND_RUNTIME || number == KIND_DRIVER || number == KIND_OVERHEAD || \
              number == KIND_SYNCHRONIZATION                                        \
          ? OPM_RUNTIME                                                             \
          : OPM_HARDWARE },
        CUPTI_KINDS(X)
#undef X
    };
    char refused[512] = "";
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        int rc = opm_on(kinds[i].layer) ? cuda.lib.ActivityEnable(kinds[i].kind) : CUPTI_OK;

        if (!rc)
            continue;
        if (kinds[i].kind == KIND_CONCURRENT_KERNEL)
            return opm__fail(err, OPM_EUNSUPPORTED, "%s%s", cupti_text(&cuda.lib, rc),
                             is_permission(rc) ? "; the administrator can permit profiling with "
                                                 "NVreg_RestrictProfilingToAdminUsers=0"
                                               : "");
        if (n < sizeof(refused))
            n += (size_t)snprintf(refused + n, sizeof(refused) - n, "%s%s (%s)", n ? ", " : "",
                                  kinds[i].name, cupti_text(&cuda.lib, rc));
    }
    leave_out(CUPTI_DOMAIN_RUNTIME, cuda.lib.ActivityEnableRuntimeApi);
    leave_out(CUPTI_DOMAIN_DRIVER, cuda.lib.ActivityEnableDriverApi);
    if (n)
        opm_meta("cuda.refused", refused);
    return 0;
}

/* ---- start and stop ---- */

static void stop(void)
{
    if (!atomic_exchange(&cuda.on, false))
        return;
    pthread_mutex_lock(&cuda.lock);
    cuda.stopping = true;
    pthread_cond_signal(&cuda.wake);
    pthread_mutex_unlock(&cuda.lock);
    if (cuda.has_flusher)
        pthread_join(cuda.flusher, NULL);
    flush(CUPTI_FLUSH_FORCED);
    facts();
    opm_stop(NULL);
}

/* In a forked child there is no CUDA and no thread of ours: what the parent has is the parent's. */
static void forked(void)
{
    atomic_store(&cuda.on, false);
}

static size_t buffer_bytes(void)
{
    const char *text = environment_get("OPMETER_CUDA_BUFFER_MB");
    long mb = text ? strtol(text, NULL, 10) : 0;

    return (size_t)(mb > 0 ? mb : BUFFER_MB_DEFAULT) << 20;
}

static void start_flusher(void)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    cuda.has_flusher = pthread_create(&cuda.flusher, NULL, flush_now_and_then, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int start(opm_error *err)
{
    uint32_t version = 0;
    int rc = cupti_load(&cuda.lib, err);

    if (rc == 0)
        rc = subscribe(err);
    if (rc)
        return rc;
    rc = opm_start(NULL, err);
    if (rc < 0)
        goto unsubscribe;
    if (!opm_on(OPM_RUNTIME) && !opm_on(OPM_HARDWARE)) { /* OPMETER_LEVEL wants no more */
        opm_stop(NULL);
        cuda.lib.Unsubscribe(cuda.subscriber);
        return 0;
    }
    pool_init(buffer_bytes());
    cuda_clock_init(&cuda.clock, &cuda.lib);
    records_init(&cuda.records, &cuda.lib, &cuda.clock);
    cuda.lib.SetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
    rc = cuda.lib.ActivityRegisterCallbacks(buffer_requested, buffer_completed);
    if (rc)
        rc = opm__fail(err, OPM_EUNSUPPORTED, "CUPTI takes no buffers: %s",
                       cupti_text(&cuda.lib, rc));
    else
        rc = enable_kinds(err);
    if (rc) {
        opm_stop(NULL);
        goto unsubscribe;
    }
    cuda.lib.GetVersion(&version);
    number_fact("cuda.cupti_version", version);
    opm_meta("cuda.cupti_library", cuda.lib.path);
    opm_meta("cuda.clock", cuda.clock.own ? "the recorder's" : "CUPTI's own, tied by readings");
    atomic_store(&cuda.on, true);
    start_flusher();
    pthread_atfork(NULL, NULL, forked);
    atexit(stop);
    return 0;

unsubscribe:
    cuda.lib.Unsubscribe(cuda.subscriber);
    return rc;
}

OPM_API int InitializeInjection(void);

/* By the driver, once; 1 whatever happened, for the program must not notice. */
int InitializeInjection(void)
{
    static atomic_flag called = ATOMIC_FLAG_INIT;
    const char *wanted = environment_get("OPMETER_CUDA");
    opm_error err = { 0 };

    if (atomic_flag_test_and_set(&called) || (wanted && strcmp(wanted, "0") == 0))
        return 1;
    if (start(&err) < 0)
        say(err.msg);
    return 1;
}
