/* mock_cupti.c -- see mock_cupti.h. */
#include "mock_cupti.h"

#include "device/cuda/cupti_abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define STREAMS 64
#define FULL_MAX 4096
#define LAUNCH_NS 2000
#define FOREIGN_EPOCH_NS 1700000000000000000u

struct buffer {
    uint8_t *p;
    size_t size, used;
};

static struct {
    pthread_mutex_t lock;
    cupti_buffer_request request;
    cupti_buffer_complete complete;
    cupti_clock clock;
    cupti_callback callback;
    uint32_t enabled[64];
    uint8_t watched[512];     /* functions of the driver of which there are records */
    uint8_t made[32];         /* resources that are told of */
    uint8_t told[2][512];     /* functions whose calls are told at once, by domain */
    uint64_t event_until[16]; /* when what was there when it was recorded is done */
    struct buffer now;
    struct buffer full[FULL_MAX];
    size_t nfull;
    size_t dropped;
    uint64_t busy_until_ns[STREAMS];
    uint32_t correlation;
    uint32_t stranger;
    bool described;
    bool zeroed;     /* that is what was promised of buffers */
    bool system_ids; /* of threads */
} mock = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of the functions that tests ask about. */
static struct {
    const char *name;
    int n;
} counts[] = { { "FlushAll", 0 }, { "Unsubscribe", 0 } };

static void count(const char *name)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (strcmp(counts[i].name, name) == 0)
            __atomic_add_fetch(&counts[i].n, 1, __ATOMIC_RELAXED);
}

EXPORT int mock_count(const char *name)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (strcmp(counts[i].name, name) == 0)
            return __atomic_load_n(&counts[i].n, __ATOMIC_RELAXED);
    return 0;
}

static bool behaves(const char *word)
{
    const char *list = getenv("MOCK_CUPTI");
    size_t len = strlen(word);

    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == len && memcmp(p, word, len) == 0)
            return true;
    return false;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    uint64_t ns;

    if (mock.clock)
        return mock.clock();
    clock_gettime(CLOCK_MONOTONIC, &t);
    ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    return FOREIGN_EPOCH_NS + ns + ns / 20000;
}

/* ---- records ---- */

/* Under lock. */
static void append(const void *record, size_t size)
{
    if (mock.now.p && mock.now.size - mock.now.used < size) {
        if (mock.nfull < FULL_MAX)
            mock.full[mock.nfull++] = mock.now;
        mock.now = (struct buffer){ 0 };
    }
    if (!mock.now.p && mock.request) {
        size_t max_records = 0;

        mock.request(&mock.now.p, &mock.now.size, &max_records);
        if (!mock.now.p || mock.now.size < size)
            mock.now = (struct buffer){ 0 };
        for (size_t i = 0; mock.zeroed && i < mock.now.size; i++)
            if (mock.now.p[i])
                abort();
    }
    if (!mock.now.p) {
        struct cupti_state full = { CUPTI_OUT_OF_MEMORY, "no buffer" };

        mock.dropped++;
        if (mock.callback)
            mock.callback(NULL, CUPTI_DOMAIN_STATE, 0, &full);
        return;
    }
    memcpy(mock.now.p + mock.now.used, record, size);
    mock.now.used += size;
}

#define APPEND(record)                         \
    do {                                       \
        if (mock.enabled[(record).kind & 63])  \
            append(&(record), sizeof(record)); \
    } while (0)

/* Sizes by kind: CUPTI knows them, and so does the mock. */
static size_t size_of(uint32_t kind)
{
    switch (kind) {
    case KIND_CONCURRENT_KERNEL:
        return sizeof(struct cupti_kernel);
    case KIND_MEMCPY:
        return sizeof(struct cupti_memcpy);
    case KIND_MEMCPY2:
        return sizeof(struct cupti_peer_copy);
    case KIND_MEMSET:
        return sizeof(struct cupti_memset);
    case KIND_RUNTIME:
    case KIND_DRIVER:
        return sizeof(struct cupti_api);
    case KIND_SYNCHRONIZATION:
        return sizeof(struct cupti_synchronization);
    case KIND_OVERHEAD:
        return sizeof(struct cupti_overhead);
    case KIND_CONTEXT:
        return sizeof(struct cupti_context);
    case KIND_DEVICE:
        return sizeof(struct cupti_device);
    default:
        return 16;
    }
}

static void describe(void)
{
    struct cupti_device d = { .kind = KIND_DEVICE,
                              .memory_bandwidth = 1000000000,
                              .memory_bytes = 8ull << 30,
                              .l2_bytes = 50 << 20,
                              .warp_threads = 32,
                              .sms = 10,
                              .sm_warps = 64,
                              .sm_blocks = 32,
                              .sm_shared_memory = 233472,
                              .sm_registers = 65536,
                              .block_threads = 1024,
                              .major = 9,
                              .name = "Mock GPU" };
    struct cupti_context c = { .kind = KIND_CONTEXT, .context = 1, .null_stream = 7 };

    struct cupti_overhead o = { .kind = KIND_OVERHEAD,
                                .overhead_kind = 1 << 16,
                                .object_kind = CUPTI_OBJECT_THREAD,
                                .object = { 1, 2 },
                                .start = now_ns(),
                                .end = now_ns() + 100 };

    mock.described = true;
    APPEND(d);
    APPEND(c);
    APPEND(o);
}

/* When the work begins and ends on its stream. Under lock. */
static void schedule(const struct mock_work *w, uint64_t *start, uint64_t *end)
{
    uint64_t *busy = &mock.busy_until_ns[w->stream % STREAMS];
    uint64_t earliest = now_ns() + LAUNCH_NS;

    *start = *busy > earliest ? *busy : earliest;
    *busy = *start + w->dur_ns;
    *end = w->unfinished ? 0 : *busy;
    if (w->unfinished)
        *start = 0;
}

static void make_node(const struct mock_work *w)
{
    struct mock_work node = *w, original = { .graph_node = w->original };
    struct cupti_graph graph = { .node = &node, .original_node = &original };
    struct cupti_resource made = { .descriptor = &graph };
    uint32_t cbid = w->original ? CUPTI_CBID_NODE_CLONED : CUPTI_CBID_NODE_CREATED;

    if (mock.callback && mock.made[CUPTI_CBID_NODE_CREATED])
        mock.callback(NULL, CUPTI_DOMAIN_RESOURCE, CUPTI_CBID_NODE_CREATED, &made);
    if (mock.callback && w->original && mock.made[cbid])
        mock.callback(NULL, CUPTI_DOMAIN_RESOURCE, cbid, &made);
}

static void perform(const struct mock_work *w, uint32_t correlation)
{
    uint64_t start, end;

    if (w->kind == MOCK_NODE) {
        make_node(w);
        return;
    }
    if (w->kind == MOCK_RECORD)
        mock.event_until[w->event % 16] = mock.busy_until_ns[w->stream % STREAMS];
    if (w->kind == MOCK_AFTER_EVENT &&
        mock.busy_until_ns[w->stream % STREAMS] < mock.event_until[w->event % 16])
        mock.busy_until_ns[w->stream % STREAMS] = mock.event_until[w->event % 16];
    if (w->kind != MOCK_KERNEL && w->kind != MOCK_COPY && w->kind != MOCK_PEER_COPY &&
        w->kind != MOCK_FILL)
        return;
    schedule(w, &start, &end);
    if (w->kind == MOCK_KERNEL) {
        struct cupti_kernel k = { .kind = KIND_CONCURRENT_KERNEL,
                                  .registers_per_thread = (uint16_t)w->registers,
                                  .start = start,
                                  .end = end,
                                  .context = 1,
                                  .stream = w->stream,
                                  .grid = { w->grid, 1, 1 },
                                  .block = { w->block, 1, 1 },
                                  .dynamic_shared_memory = w->shared_bytes,
                                  .correlation = correlation,
                                  .name = w->name,
                                  .graph_node = w->graph_node,
                                  .graph = w->graph_node != 0 };
        APPEND(k);
    } else if (w->kind == MOCK_COPY) {
        struct cupti_memcpy m = { .kind = KIND_MEMCPY,
                                  .copy_kind = (uint8_t)w->copy_kind,
                                  .src_kind = (uint8_t)w->src_kind,
                                  .dst_kind = (uint8_t)w->dst_kind,
                                  .bytes = w->bytes,
                                  .start = start,
                                  .end = end,
                                  .context = 1,
                                  .stream = w->stream,
                                  .correlation = correlation };
        APPEND(m);
    } else if (w->kind == MOCK_PEER_COPY) {
        struct cupti_peer_copy m = { .kind = KIND_MEMCPY2,
                                     .copy_kind = 10,
                                     .bytes = w->bytes,
                                     .start = start,
                                     .end = end,
                                     .context = 1,
                                     .stream = w->stream,
                                     .dst_device = 1,
                                     .correlation = correlation };
        APPEND(m);
    } else {
        struct cupti_memset m = { .kind = KIND_MEMSET,
                                  .bytes = w->bytes,
                                  .start = start,
                                  .end = end,
                                  .context = 1,
                                  .stream = w->stream,
                                  .correlation = correlation,
                                  .memory_kind = 3 };
        APPEND(m);
    }
}

static void spin_until(uint64_t ns)
{
    while (now_ns() < ns)
        ;
}

/* ---- waits ---- */

/* As CUPTI numbers them; 0: the work is none. */
static uint32_t wait_type(const struct mock_work *w)
{
    switch (w->kind) {
    case MOCK_WAIT_EVENT:
        return 1;
    case MOCK_AFTER_EVENT:
        return 2;
    case MOCK_WAIT:
        return 3;
    case MOCK_WAIT_ALL:
        return 4;
    default:
        return 0;
    }
}

static uint64_t wait_until(const struct mock_work *w)
{
    uint64_t until = 0;

    if (w->kind == MOCK_WAIT_EVENT)
        return mock.event_until[w->event % 16];
    for (uint32_t i = 0; i < STREAMS; i++)
        if (w->kind == MOCK_WAIT_ALL || (w->kind == MOCK_WAIT && i == w->stream % STREAMS))
            until = mock.busy_until_ns[i] > until ? mock.busy_until_ns[i] : until;
    return until;
}

static void wait(const struct mock_work *w, uint32_t correlation)
{
    struct cupti_synchronization s = { .kind = KIND_SYNCHRONIZATION,
                                       .type = wait_type(w),
                                       .start = now_ns(),
                                       .correlation = correlation,
                                       .context = 1,
                                       .stream = w->stream };

    if (w->kind == MOCK_WAIT_EVENT || w->kind == MOCK_WAIT_ALL)
        s.stream = CUPTI_NO_ID;
    spin_until(wait_until(w));
    s.end = now_ns();
    pthread_mutex_lock(&mock.lock);
    APPEND(s);
    pthread_mutex_unlock(&mock.lock);
}

/* What is handed to a function, in its order; the handle of a stream is its number and something.
 */
#define STREAM_HANDLE(number) ((const void *)(uintptr_t)((number) << 8))

static void set_parameters(const void *to[2], const struct mock_work *w)
{
    const void *stream = w->bare ? NULL : STREAM_HANDLE(w->stream);
    const void *event = (const void *)(uintptr_t)(w->event << 16);

    to[0] = w->kind == MOCK_WAIT || w->kind == MOCK_AFTER_EVENT ? stream : event;
    to[1] = w->kind == MOCK_RECORD ? stream : event;
}

/* The function of the driver by which the runtime does it. */
static uint32_t driver_way(const struct mock_work *w)
{
    return w->kind == MOCK_WAIT          ? 126
           : w->kind == MOCK_RECORD      ? 119
           : w->kind == MOCK_WAIT_EVENT  ? 121
           : w->kind == MOCK_AFTER_EVENT ? 295
           : w->kind == MOCK_DESTROY     ? 325
           : w->kind == MOCK_WAIT_ALL    ? 17
                                         : 0;
}

struct told {
    struct cupti_call call;
    const void *parameters[2];
    uint64_t kept;
    uint32_t domain, cbid;
    bool is;
};

static void tell(struct told *t, int site)
{
    t->call.site = site;
    if (t->is)
        mock.callback(NULL, t->domain, t->cbid, &t->call);
}

static void tell_begin(struct told *t, uint32_t domain, uint32_t cbid, const int *result,
                       const struct mock_work *w, uint32_t correlation)
{
    *t = (struct told){ .domain = domain, .cbid = cbid };
    t->call = (struct cupti_call){ .parameters = t->parameters,
                                   .context = &mock,
                                   .context_id = 1,
                                   .data = &t->kept,
                                   .correlation = correlation,
                                   .result = result };
    t->is = mock.callback && cbid && mock.told[domain == CUPTI_DOMAIN_RUNTIME][cbid % 512];
    if (w)
        set_parameters(t->parameters, w);
    tell(t, CUPTI_CALL_ENTER);
}

EXPORT void mock_call(uint32_t domain, uint32_t cbid, int result, const struct mock_work *work,
                      int n)
{
    struct cupti_api a = { .kind = KIND_DRIVER,
                           .cbid = cbid,
                           .process = (uint32_t)getpid(),
                           .thread = mock.system_ids ? (uint32_t)gettid() : 1,
                           .result = (uint32_t)result };
    struct { /* of a kind that there is not */
        uint32_t kind, more[3];
    } stranger = { .kind = 62 };
    struct told outer, inner;

    pthread_mutex_lock(&mock.lock);
    a.correlation = ++mock.correlation;
    pthread_mutex_unlock(&mock.lock);
    tell_begin(&outer, domain, cbid, &result, n ? work : NULL, a.correlation);
    tell_begin(&inner, CUPTI_DOMAIN_DRIVER,
               n && domain == CUPTI_DOMAIN_RUNTIME ? driver_way(work) : 0, &result, work,
               a.correlation);
    a.start = now_ns();
    pthread_mutex_lock(&mock.lock);
    if (!mock.described)
        describe();
    for (int i = 0; i < n && !result; i++)
        perform(&work[i], a.correlation);
    if (behaves("stranger"))
        append(&stranger, sizeof(stranger));
    pthread_mutex_unlock(&mock.lock);
    spin_until(a.start + 1500);
    if (n && !result && wait_type(work))
        wait(work, a.correlation);
    a.end = now_ns();
    pthread_mutex_lock(&mock.lock);
    if (domain == CUPTI_DOMAIN_DRIVER && mock.watched[cbid % 512])
        append(&a, sizeof(a));
    pthread_mutex_unlock(&mock.lock);
    tell(&inner, CUPTI_CALL_EXIT);
    tell(&outer, CUPTI_CALL_EXIT);
}

/* ---- CUPTI ---- */

#define X(name, required, params) EXPORT int cupti##name params;
CUPTI_FUNCTIONS(X)
#undef X

int cuptiGetVersion(uint32_t *version)
{
    *version = 130000;
    return CUPTI_OK;
}

int cuptiGetResultString(int result, const char **text)
{
    *text = result == CUPTI_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                                                    : "CUPTI_ERROR_MOCK";
    return CUPTI_OK;
}

int cuptiGetTimestamp(uint64_t *ns)
{
    *ns = now_ns();
    return CUPTI_OK;
}

int cuptiSubscribe(void **subscriber, cupti_callback callback, void *user)
{
    struct cupti_subscriber_options none = { 0 };

    return cuptiSubscribe_v2(subscriber, callback, user, &none);
}

int cuptiSubscribe_v2(void **subscriber, cupti_callback callback, void *user,
                      struct cupti_subscriber_options *options)
{
    static const char first[] = "Mock Systems";

    (void)user;
    if (behaves("subscribed")) {
        if (options->other_size >= sizeof(first))
            memcpy(options->other, first, sizeof(first));
        return CUPTI_MULTIPLE_SUBSCRIBERS;
    }
    mock.callback = callback;
    *subscriber = &mock;
    return CUPTI_OK;
}

int cuptiUnsubscribe(void *subscriber)
{
    (void)subscriber;
    count("Unsubscribe");
    mock.callback = NULL;
    return CUPTI_OK;
}

int cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t cbid)
{
    (void)subscriber;
    if (domain == CUPTI_DOMAIN_RUNTIME || domain == CUPTI_DOMAIN_DRIVER)
        mock.told[domain == CUPTI_DOMAIN_RUNTIME][cbid % 512] = (uint8_t)enable;
    if (domain == CUPTI_DOMAIN_RESOURCE)
        mock.made[cbid % 32] = (uint8_t)enable;
    return CUPTI_OK;
}

/* A node is the work that it stands for. */
int cuptiGetGraphNodeId(void *node, uint64_t *id)
{
    if (!node || behaves("no-nodes"))
        return 1;
    *id = ((const struct mock_work *)node)->graph_node;
    return CUPTI_OK;
}

int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id)
{
    if (context || behaves("no-streams"))
        return 1;
    *id = stream ? (uint32_t)((uintptr_t)stream >> 8) : per_thread ? 8 : 7;
    return CUPTI_OK;
}

int cuptiGetDeviceId(void *context, uint32_t *id)
{
    *id = 0;
    return context == &mock ? CUPTI_OK : 1;
}

int cuptiEnableDomain(uint32_t enable, void *subscriber, uint32_t domain)
{
    (void)enable, (void)subscriber, (void)domain;
    return CUPTI_OK;
}

int cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **name)
{
    static const struct {
        uint32_t domain, cbid;
        const char *name;
    } known[] = {
        { CUPTI_DOMAIN_RUNTIME, 17, "cudaGetDevice_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 41, "cudaMemcpyAsync_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 51, "cudaMemsetAsync_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 131, "cudaStreamSynchronize_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 135, "cudaEventRecord_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 136, "cudaEventDestroy_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 137, "cudaEventSynchronize_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 147, "cudaStreamWaitEvent_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 164, "cudaDeviceReset_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 165, "cudaDeviceSynchronize_v3020" },
        { CUPTI_DOMAIN_RUNTIME, 211, "cudaLaunchKernel_v7000" },
        { CUPTI_DOMAIN_RUNTIME, 239, "cudaStreamSynchronize_ptsz_v7000" },
        { CUPTI_DOMAIN_RUNTIME, 306, "cudaGraphInstantiate_v10000" },
        { CUPTI_DOMAIN_RUNTIME, 311, "cudaGraphLaunch_v10000" },
        { CUPTI_DOMAIN_DRIVER, 17, "cuCtxSynchronize" },
        { CUPTI_DOMAIN_DRIVER, 119, "cuEventRecord" },
        { CUPTI_DOMAIN_DRIVER, 121, "cuEventSynchronize" },
        { CUPTI_DOMAIN_DRIVER, 126, "cuStreamSynchronize" },
        { CUPTI_DOMAIN_DRIVER, 295, "cuStreamWaitEvent" },
        { CUPTI_DOMAIN_DRIVER, 325, "cuEventDestroy_v2" },
        { CUPTI_DOMAIN_DRIVER, 304, "cuCtxGetCurrent" },
        { CUPTI_DOMAIN_DRIVER, 307, "cuLaunchKernel" },
    };

    if (cbid >= 400)
        return 1;
    *name = "other";
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].domain == domain && known[i].cbid == cbid)
            *name = known[i].name;
    return CUPTI_OK;
}

int cuptiSetThreadIdType(uint32_t type)
{
    mock.system_ids = type == CUPTI_THREAD_ID_SYSTEM;
    return CUPTI_OK;
}

int cuptiActivityRegisterCallbacks(cupti_buffer_request request, cupti_buffer_complete complete)
{
    mock.request = request;
    mock.complete = complete;
    return CUPTI_OK;
}

int cuptiActivityRegisterTimestampCallback(cupti_clock clock)
{
    if (behaves("foreign-clock"))
        return 27;
    mock.clock = clock;
    return CUPTI_OK;
}

int cuptiActivitySetAttribute(uint32_t attribute, size_t *size, void *value)
{
    bool is_byte = attribute == CUPTI_ATTRIBUTE_ZEROED || attribute == CUPTI_ATTRIBUTE_HOST_PINNED;

    if (attribute == CUPTI_ATTRIBUTE_ZEROED)
        mock.zeroed = *(uint8_t *)value;
    return attribute <= 8 && *size == (is_byte ? sizeof(uint8_t) : sizeof(size_t)) ? CUPTI_OK : 1;
}

static void watch_all(uint32_t kind, uint8_t on)
{
    if (kind == KIND_DRIVER)
        memset(mock.watched, on, sizeof(mock.watched));
}

int cuptiActivityEnable(uint32_t kind)
{
    if (kind == KIND_CONCURRENT_KERNEL && behaves("privileges"))
        return CUPTI_INSUFFICIENT_PRIVILEGES;
    if (kind == KIND_MEMCPY2 && behaves("no-peers"))
        return 27;
    mock.enabled[kind & 63] = 1;
    watch_all(kind, 1);
    return CUPTI_OK;
}

int cuptiActivityDisable(uint32_t kind)
{
    mock.enabled[kind & 63] = 0;
    watch_all(kind, 0);
    return CUPTI_OK;
}

/* With "whole-kinds" single functions can be left out, but not be asked for. */
int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable)
{
    if (enable && behaves("whole-kinds"))
        return 27;
    mock.watched[cbid % 512] = enable;
    return CUPTI_OK;
}

static struct cupti_record *record_at(uint8_t *buffer, size_t at)
{
    return (struct cupti_record *)(void *)(buffer + at);
}

/* The record before the one at `until`, where records are taken last first. */
static struct cupti_record *last_before(uint8_t *buffer, size_t until)
{
    size_t at = 0, next;

    if (!until)
        return NULL;
    for (;;) {
        next = at + size_of(record_at(buffer, at)->kind);
        if (next >= until)
            break;
        at = next;
    }
    return record_at(buffer, at);
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, struct cupti_record **record)
{
    size_t at = 0;

    if (behaves("shuffled")) {
        *record = last_before(buffer, *record ? (size_t)((uint8_t *)*record - buffer) : valid);
        return *record ? CUPTI_OK : CUPTI_MAX_LIMIT_REACHED;
    }
    if (*record)
        at = (size_t)((uint8_t *)*record - buffer) + size_of((*record)->kind);
    if (at >= valid)
        return CUPTI_MAX_LIMIT_REACHED;
    *record = record_at(buffer, at);
    return CUPTI_OK;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
    (void)context, (void)stream;
    pthread_mutex_lock(&mock.lock);
    *dropped = mock.dropped;
    mock.dropped = 0;
    pthread_mutex_unlock(&mock.lock);
    return CUPTI_OK;
}

int cuptiActivityFlushAll(uint32_t flag)
{
    static struct buffer full[FULL_MAX + 1];
    static pthread_mutex_t flushing = PTHREAD_MUTEX_INITIALIZER;
    size_t n;

    count("FlushAll");
    if (behaves("stuck") && !(flag & CUPTI_FLUSH_FORCED))
        return CUPTI_OK;
    pthread_mutex_lock(&flushing);
    pthread_mutex_lock(&mock.lock);
    n = mock.nfull;
    memcpy(full, mock.full, n * sizeof(*full));
    mock.nfull = 0;
    if (mock.now.p)
        full[n++] = mock.now;
    mock.now = (struct buffer){ 0 };
    pthread_mutex_unlock(&mock.lock);
    for (size_t i = 0; i < n; i++)
        mock.complete(NULL, 0, full[i].p, full[i].size, full[i].used);
    pthread_mutex_unlock(&flushing);
    return CUPTI_OK;
}
