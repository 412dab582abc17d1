/* inject.c -- libopmeter-cuda: what the CUDA driver loads into a program and starts.
 *
 * CUDA_INJECTION64_PATH names the library; the driver calls InitializeInjection() when the program
 * initialises it. Nothing that goes wrong here may harm the program: it is said in one sentence on
 * standard error, and the program runs on without.
 *
 * Records arrive in buffers that CUPTI hands back when they are full and done, and twice a second
 * (a program that is killed loses what CUPTI still had). They are converted by a thread of ours:
 * while CUPTI waits for the functions that it calls here, the program's launches may wait for it.
 */
#include "base/common.h"
#include "base/environment.h"
#include "base/error.h"
#include "device/cuda/calls.h"
#include "device/cuda/graphs.h"
#include "device/cuda/nvtx.h"
#include "device/cuda/pool.h"
#include "device/cuda/records.h"
#include "device/cuda/waits.h"

#include <errno.h>
#include <opmeter/opmeter.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_MS_DEFAULT 500
#define NEVER_MS 1000000000L /* some days */
#define BUFFER_MB_DEFAULT 64

/* A buffer that CUPTI has filled. */
struct filled {
    uint8_t *buffer;
    size_t valid;
};

static struct {
    struct cupti lib;
    void *subscriber;
    atomic_bool on;
    pthread_mutex_t convert; /* taken first; clock and records */
    struct cuda_clock clock;
    struct records records;
    uint64_t dropped_told;
    pthread_mutex_t lock; /* the rest */
    pthread_cond_t wake;
    struct filled filled[POOL_BUFFERS_MAX]; /* a ring: there are no more buffers than this */
    size_t first, n;
    uint64_t dropped;
    bool stopping;
    pthread_t worker;
    bool has_worker;
    _Atomic uint64_t convert_ns; /* CPU time of the worker */
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
    size_t dropped = 0;

    (void)size;
    if (!buffer)
        return;
    if (cuda.lib.ActivityGetNumDroppedRecords(context, stream, &dropped) != CUPTI_OK)
        dropped = 0;
    pthread_mutex_lock(&cuda.lock);
    cuda.dropped += dropped;
    cuda.filled[(cuda.first + cuda.n++) % POOL_BUFFERS_MAX] = (struct filled){ buffer, valid };
    pthread_cond_signal(&cuda.wake);
    pthread_mutex_unlock(&cuda.lock);
}

static bool take_filled(struct filled *out)
{
    bool any;

    pthread_mutex_lock(&cuda.lock);
    any = cuda.n > 0;
    if (any) {
        *out = cuda.filled[cuda.first];
        cuda.first = (cuda.first + 1) % POOL_BUFFERS_MAX;
        cuda.n--;
    }
    pthread_mutex_unlock(&cuda.lock);
    return any;
}

/* Convert what CUPTI has handed back; false if that was nothing. */
static bool drain(void)
{
    struct filled f;
    bool any = false;

    pthread_mutex_lock(&cuda.convert);
    while (take_filled(&f)) {
        struct cupti_record *record = NULL;

        while (f.valid && cuda.lib.ActivityGetNextRecord(f.buffer, f.valid, &record) == CUPTI_OK)
            records_take(&cuda.records, record);
        pool_give(f.buffer, f.valid);
        any = true;
    }
    pthread_mutex_unlock(&cuda.convert);
    return any;
}

static uint64_t dropped_so_far(void)
{
    uint64_t n;

    pthread_mutex_lock(&cuda.lock);
    n = cuda.dropped;
    pthread_mutex_unlock(&cuda.lock);
    return n;
}

static void number_fact(const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    opm_meta(key, text);
}

static void facts(void)
{
    uint64_t ranges, bytes;

    nvtx_torch_texts(&ranges, &bytes);
    if (ranges) {
        number_fact("torch.op_ranges", ranges);
        number_fact("torch.op_text_bytes", bytes);
    }
    pthread_mutex_lock(&cuda.convert);
    if (cuda.clock.error_ns >= 0)
        number_fact("cuda.clock.error_ns", (uint64_t)cuda.clock.error_ns);
    number_fact("cuda.records", cuda.records.taken);
    number_fact("cuda.convert_cpu_ns", atomic_load(&cuda.convert_ns));
    number_fact("cuda.dropped", dropped_so_far());
    number_fact("cuda.unfinished", cuda.records.unfinished);
    number_fact("cuda.unknown", cuda.records.unknown);
    number_fact("cuda.no_memory", cuda.records.no_memory);
    number_fact("cuda.buffers_refused", pool_refused());
    pthread_mutex_unlock(&cuda.convert);
}

/* Losses are told at once: nobody knows how the program will end. */
static void flush(uint32_t flag)
{
    uint64_t dropped;
    bool news;

    cuda.lib.ActivityFlushAll(flag);
    drain();
    dropped = dropped_so_far();
    pthread_mutex_lock(&cuda.convert);
    cuda_clock_read(&cuda.clock, &cuda.lib);
    news = dropped != cuda.dropped_told;
    cuda.dropped_told = dropped;
    pthread_mutex_unlock(&cuda.convert);
    if (news)
        facts();
}

static struct timespec after(struct timespec t, int64_t ns)
{
    t.tv_nsec += ns;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Until it is time to flush, or filled buffers wait, or the end has come. True: time to flush. */
static bool wait_for_work(const struct timespec *until)
{
    bool late = false;

    pthread_mutex_lock(&cuda.lock);
    while (!cuda.stopping && !cuda.n && !late)
        late = pthread_cond_timedwait(&cuda.wake, &cuda.lock, until) == ETIMEDOUT;
    late = late && !cuda.stopping;
    pthread_mutex_unlock(&cuda.lock);
    return late;
}

static bool is_stopping(void)
{
    bool stopping;

    pthread_mutex_lock(&cuda.lock);
    stopping = cuda.stopping;
    pthread_mutex_unlock(&cuda.lock);
    return stopping;
}

/* Whoever is woken in place of another thread keeps it from working, so this one asks to wait its
 * turn: what it converts is in no hurry. */
static void stand_back(void)
{
    struct sched_param none = { 0 };

    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

static void count_time(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0)
        atomic_store(&cuda.convert_ns, (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec);
}

static int64_t flush_ns(void)
{
    const char *text = environment_get("OPMETER_CUDA_FLUSH_MS");
    long ms = text ? strtol(text, NULL, 10) : FLUSH_MS_DEFAULT;

    return (ms > 0 && ms < NEVER_MS ? ms : NEVER_MS) * 1000000;
}

static void *work(void *unused)
{
    struct timespec now, next;
    int64_t period_ns = flush_ns();
    bool drained = false;

    (void)unused;
    opm_thread_name("opmeter CUDA");
    stand_back();
    clock_gettime(CLOCK_REALTIME, &now);
    next = after(now, period_ns);
    while (!is_stopping()) {
        if (wait_for_work(&next)) {
            /* Where buffers come back by themselves, there is no need to take them. */
            if (!drained)
                flush(0);
            drained = false;
            clock_gettime(CLOCK_REALTIME, &now);
            next = after(now, period_ns);
        } else {
            drained |= drain();
        }
        count_time();
    }
    return NULL;
}

/* ---- what CUPTI tells at once ---- */

static void tell_state(const struct cupti_state *state)
{
    static atomic_flag told = ATOMIC_FLAG_INIT, told_full = ATOMIC_FLAG_INIT;

    if (state->result == CUPTI_OUT_OF_MEMORY) {
        if (!atomic_flag_test_and_set(&told_full))
            dprintf(STDERR_FILENO, "opmeter: records of CUDA are being dropped, all buffers are "
                                   "full: OPMETER_CUDA_BUFFER_MB gives them more room\n");
    } else if (!atomic_flag_test_and_set(&told)) {
        dprintf(STDERR_FILENO, "opmeter: CUPTI reports an error: %s%s%s\n",
                cupti_text(&cuda.lib, state->result), state->message ? ": " : "",
                state->message ? state->message : "");
    }
}

/* An end of a call. The clock is read once, close to what the program calls. */
static void take_call(uint32_t domain, uint32_t cbid, const struct cupti_call *call)
{
    bool waits = UNLIKELY(waits_concerns(domain, cbid));
    const char *args = NULL;
    uint64_t end;

    if (call->site == CUPTI_CALL_ENTER) {
        if (waits)
            waits_enter(domain, cbid, call);
        *call->data = opm_now();
        return;
    }
    if (!*call->data) /* it began before we were there */
        return;
    end = opm_now();
    if (waits)
        args = waits_leave(&cuda.lib, domain, cbid, call, *call->data, end);
    if (domain == CUPTI_DOMAIN_RUNTIME)
        calls_take(cbid, call, *call->data, end, args);
}

static void called_back(void *user, uint32_t domain, uint32_t cbid, const void *data)
{
    (void)user;
    if (!atomic_load_explicit(&cuda.on, memory_order_relaxed))
        return;
    if (domain == CUPTI_DOMAIN_STATE)
        tell_state(data);
    else if (domain == CUPTI_DOMAIN_RESOURCE)
        graphs_take(&cuda.lib, cbid, data);
    else
        take_call(domain, cbid, data);
    if (UNLIKELY(cbid == CUPTI_CBID_DEVICE_RESET && domain == CUPTI_DOMAIN_RUNTIME &&
                 ((const struct cupti_call *)data)->site == CUPTI_CALL_ENTER)) {
        /* What is not taken over before the reset is gone after it, names of kernels too. */
        cuda.lib.ActivityFlushAll(0);
        drain();
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

static bool has_word(const char *list, const char *word, bool minus)
{
    size_t len = strlen(word);

    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
        const char *at = p + (minus && *p == '-');

        if (strcspn(at, ",") == len && memcmp(at, word, len) == 0)
            return true;
    }
    return false;
}

/* Is a category of spans to be recorded, as far as the environment says? What the recorder would
 * throw away need not be made. */
static bool is_wanted(const char *category)
{
    const char *list = environment_get("OPMETER_CATEGORIES");
    bool all_but = list && list[0] == '-';

    return list ? has_word(list, category, all_but) != all_but : true;
}

/* Are CUPTI's own records of this to be had, which slow the program down? */
static bool is_asked(const char *category)
{
    return has_word(environment_get("OPMETER_CUDA_RECORDS"), category, false);
}

/* What CUPTI says of its own work, only if it is named. */
static bool is_named(const char *category)
{
    const char *list = environment_get("OPMETER_CATEGORIES");

    return is_asked(category) || (list && list[0] != '-');
}

static bool is_permission(int result)
{
    return result == CUPTI_INSUFFICIENT_PRIVILEGES ||
           result == CUPTI_VIRTUAL_INSUFFICIENT_PRIVILEGES;
}

/* Kinds of records, and the categories of what is made of them; NULL: needed for the others. */
static const struct {
    const char *name;
    uint32_t kind;
    enum opm_layer layer;
    const char *category;
} kinds[] = {
    { "DEVICE", KIND_DEVICE, OPM_HARDWARE, NULL },
    { "CONTEXT", KIND_CONTEXT, OPM_HARDWARE, NULL },
    { "CONCURRENT_KERNEL", KIND_CONCURRENT_KERNEL, OPM_HARDWARE, "kernel" },
    { "MEMCPY", KIND_MEMCPY, OPM_HARDWARE, "gpu_memcpy" },
    { "MEMCPY2", KIND_MEMCPY2, OPM_HARDWARE, "gpu_memcpy" },
    { "MEMSET", KIND_MEMSET, OPM_HARDWARE, "gpu_memset" },
    { "RUNTIME", KIND_RUNTIME, OPM_RUNTIME, "cuda_runtime" },
    { "DRIVER", KIND_DRIVER, OPM_RUNTIME, "cuda_driver" },
    { "SYNCHRONIZATION", KIND_SYNCHRONIZATION, OPM_RUNTIME, "cuda_sync" },
    { "OVERHEAD", KIND_OVERHEAD, OPM_RUNTIME, "overhead" },
};

static int enable_kind(uint32_t kind)
{
    if (kind == KIND_RUNTIME || kind == KIND_DRIVER)
        return calls_enable(&cuda.lib, cuda.subscriber, kind);
    if (kind == KIND_SYNCHRONIZATION && !is_asked("cuda_sync") &&
        waits_enable(&cuda.lib, cuda.subscriber) == CUPTI_OK)
        return CUPTI_OK;
    return cuda.lib.ActivityEnable(kind);
}

/* Kernels must be had; whatever else this CUPTI or this GPU does not offer is noted. */
static int enable_kinds(opm_error *err)
{
    char refused[512] = "";
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        int rc;

        if (!opm_on(kinds[i].layer) || (kinds[i].category && !is_wanted(kinds[i].category)) ||
            (kinds[i].kind == KIND_OVERHEAD && !is_named(kinds[i].category)))
            continue;
        rc = enable_kind(kinds[i].kind);
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
    if (opm_on(OPM_RUNTIME) && is_wanted(GRAPHS_CATEGORY))
        graphs_enable(&cuda.lib, cuda.subscriber);
    if (n)
        opm_meta("cuda.refused", refused);
    return 0;
}

/* Attributes of CUPTI's recording, for experiments: NUMBER=VALUE, separated by commas, as its
 * header has them. The two whose numbers are named are bytes. */
static void set_attributes(void)
{
    const char *list = environment_get("OPMETER_CUDA_ATTRIBUTES");
    char set[256] = "";
    size_t n = 0;

    /* Else it fills buffers with zeros while a launch waits. */
    if (cuda.lib.ActivitySetAttribute)
        cuda.lib.ActivitySetAttribute(CUPTI_ATTRIBUTE_ZEROED, &(size_t){ sizeof(uint8_t) },
                                      &(uint8_t){ 1 });
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
        char *equals;
        unsigned long number = strtoul(p, &equals, 10);
        size_t value = *equals == '=' ? strtoul(equals + 1, NULL, 10) : 0, size = sizeof(value);
        uint8_t byte = (uint8_t)value;
        bool is_byte = number == CUPTI_ATTRIBUTE_ZEROED || number == CUPTI_ATTRIBUTE_HOST_PINNED;
        void *at = is_byte ? (void *)&byte : (void *)&value;
        bool done;

        size = is_byte ? sizeof(byte) : size;
        done = *equals == '=' && cuda.lib.ActivitySetAttribute &&
               cuda.lib.ActivitySetAttribute((uint32_t)number, &size, at) == CUPTI_OK;
        if (n < sizeof(set))
            n += (size_t)snprintf(set + n, sizeof(set) - n, "%s%lu%s%zu", n ? "," : "", number,
                                  done ? "=" : " refused ", value);
    }
    if (n)
        opm_meta("cuda.attributes", set);
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
    if (cuda.has_worker)
        pthread_join(cuda.worker, NULL);
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

static void start_worker(void)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    cuda.has_worker = pthread_create(&cuda.worker, NULL, work, NULL) == 0;
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
    /* Only these records say whose they are; CUPTI need not ask the kernel for others' sake. */
    if (is_wanted("cuda_driver") || is_named("overhead"))
        cuda.lib.SetThreadIdType(CUPTI_THREAD_ID_SYSTEM);
    set_attributes();
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
    facts();
    atomic_store(&cuda.on, true);
    start_worker();
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

    if (atomic_flag_test_and_set(&called) || environment_privileged() ||
        (wanted && strcmp(wanted, "0") == 0))
        return 1;
    if (start(&err) < 0)
        say(err.msg);
    return 1;
}
