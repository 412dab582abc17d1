/* waits.c -- see waits.h. */
#include "device/cuda/waits.h"

#include "base/alloc.h"
#include "base/u64map.h"
#include "device/cuda/calls.h"
#include "device/cuda/per_thread.h"

#include <inttypes.h>
#include <opmeter/opmeter.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* What a call is about, and what is waited for, as CUPTI's own records number that. */
enum about {
    NOTHING,
    EVENT_SYNC = 1,
    STREAM_WAIT = 2,
    STREAM_SYNC = 3,
    CONTEXT_SYNC = 4,
    EVENT_RECORD,
    EVENT_DESTROY,
};

/* Names without prefix, without the suffix of a version, and without PTSZ. */
static const struct {
    const char *name;
    enum about about;
} functions[] = {
    { "StreamSynchronize", STREAM_SYNC },     { "EventSynchronize", EVENT_SYNC },
    { "StreamWaitEvent", STREAM_WAIT },       { "DeviceSynchronize", CONTEXT_SYNC },
    { "ThreadSynchronize", CONTEXT_SYNC },    { "CtxSynchronize", CONTEXT_SYNC },
    { "CtxSynchronize_v2", CONTEXT_SYNC },    { "EventRecord", EVENT_RECORD },
    { "EventRecordWithFlags", EVENT_RECORD }, { "EventDestroy", EVENT_DESTROY },
    { "EventDestroy_v2", EVENT_DESTROY },
};
#define PTSZ "_ptsz"

struct waits_function waits_functions[2][WAITS_CBIDS_MAX];

static opm_site site[] = {
    [EVENT_SYNC] = OPM_SITE_INIT(OPM_RUNTIME, "cuda_sync", "Event Sync"),
    [STREAM_WAIT] = OPM_SITE_INIT(OPM_RUNTIME, "cuda_sync", "Stream Wait Event"),
    [STREAM_SYNC] = OPM_SITE_INIT(OPM_RUNTIME, "cuda_sync", "Stream Sync"),
    [CONTEXT_SYNC] = OPM_SITE_INIT(OPM_RUNTIME, "cuda_sync", "Context Sync"),
};

static struct {
    pthread_mutex_t lock;
    opm_track *line;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- events ---- */

/* Where an event was recorded last. Its number is used again once it is destroyed, so there are no
 * more numbers than a program has events at a time. */
struct event {
    uint32_t context, stream;
    uint32_t next_free; /* number of the next that is free */
};

static struct {
    pthread_mutex_t lock;
    struct u64map number; /* of a handle; 0: none */
    struct event *event;  /* by number; that of 0 is nobody's */
    size_t cap;
    uint32_t n, free;
} events = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Under lock: a number, or 0 if memory is short. */
static uint32_t number_new(void)
{
    uint32_t number = events.free;

    if (number) {
        events.free = events.event[number].next_free;
        return number;
    }
    if (!GROW(events.event, events.cap, (size_t)events.n + 2))
        return 0;
    return ++events.n;
}

static uint32_t event_recorded(const void *handle, uint32_t context, uint32_t stream)
{
    uint64_t key = (uint64_t)(uintptr_t)handle, *known;
    uint32_t number;

    pthread_mutex_lock(&events.lock);
    known = u64map_get(&events.number, key);
    number = known ? (uint32_t)*known : 0;
    if (!number) {
        number = number_new();
        if (number && known)
            *known = number;
        else if (number && u64map_put(&events.number, key, number)) {
            events.event[number].next_free = events.free;
            events.free = number;
            number = 0;
        }
    }
    if (number)
        events.event[number] = (struct event){ .context = context, .stream = stream };
    pthread_mutex_unlock(&events.lock);
    return number;
}

/* 0: it was never recorded. */
static uint32_t event_get(const void *handle, struct event *out)
{
    const uint64_t *known;
    uint32_t number;

    pthread_mutex_lock(&events.lock);
    known = u64map_get(&events.number, (uint64_t)(uintptr_t)handle);
    number = known ? (uint32_t)*known : 0;
    if (number)
        *out = events.event[number];
    pthread_mutex_unlock(&events.lock);
    return number;
}

static void event_destroyed(const void *handle)
{
    uint64_t *known;

    pthread_mutex_lock(&events.lock);
    known = u64map_get(&events.number, (uint64_t)(uintptr_t)handle);
    if (known && *known) {
        events.event[*known].next_free = events.free;
        events.free = (uint32_t)*known;
        *known = 0;
    }
    pthread_mutex_unlock(&events.lock);
}

/* ---- texts ---- */

/* What a text says; the last ones of a thread are kept, for most waits are for what was waited for
 * before. */
struct facts {
    uint32_t about, context, device, stream, on_stream, event;
};
#define TEXTS 16

struct own {
    struct {
        struct facts facts;
        char text[160];
    } said[TEXTS];
    uint32_t within; /* calls of the runtime that are about waits and have not returned */
};
static PER_THREAD struct own *own;
static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static void free_own(void *p)
{
    own = NULL;
    mem_free(p);
}

static void make_key(void)
{
    pthread_key_create(&own_key, free_own);
}

static struct own *own_get(void)
{
    if (!own) {
        own = mem_calloc(1, sizeof(*own));
        pthread_once(&own_once, make_key);
        pthread_setspecific(own_key, own);
    }
    return own;
}

static void write_facts(char *out, size_t size, const struct facts *f)
{
    const struct {
        const char *key;
        uint32_t value;
        bool is_known;
    } list[] = {
        { "context", f->context, f->about != EVENT_RECORD },
        { "device", f->device, f->about != EVENT_RECORD && f->device != CUPTI_NO_ID },
        { "stream", f->stream, f->stream != CUPTI_NO_ID },
        { "wait_on_stream", f->on_stream, f->on_stream != CUPTI_NO_ID },
        { "wait_on_cuda_event_id", f->event, f->about != EVENT_RECORD && f->event },
        { "cuda_event_id", f->event, f->about == EVENT_RECORD && f->event },
    };
    int n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        if (list[i].is_known)
            n += snprintf(out + n, size - (size_t)n, "%c\"%s\":%" PRIu32, n ? ',' : '{',
                          list[i].key, list[i].value);
    snprintf(out + n, size - (size_t)n, "}");
}

static const char *text_of(struct own *o, const struct facts *f)
{
    uint32_t at =
        (f->about * 31 + f->context + f->stream * 7 + f->on_stream * 5 + f->event) % TEXTS;

    if (!o->said[at].text[0] || memcmp(&o->said[at].facts, f, sizeof(*f)) != 0) {
        o->said[at].facts = *f;
        write_facts(o->said[at].text, sizeof(o->said[at].text), f);
    }
    return o->said[at].text;
}

/* ---- calls ---- */

/* A handle may be that of another stream later on, so what CUPTI says is not kept. */
static uint32_t stream_id(const struct cupti *lib, const void *handle, bool ptsz)
{
    uint32_t id = CUPTI_NO_ID;

    if ((uintptr_t)handle == CUPTI_STREAM_LEGACY || (uintptr_t)handle == CUPTI_STREAM_PER_THREAD) {
        ptsz = (uintptr_t)handle == CUPTI_STREAM_PER_THREAD;
        handle = NULL;
    }
    if (lib->GetStreamIdEx(NULL, (void *)(uintptr_t)handle, ptsz, &id) != CUPTI_OK)
        return CUPTI_NO_ID;
    return id;
}

static opm_track *line_get(void)
{
    pthread_mutex_lock(&all.lock);
    if (!all.line)
        all.line = opm_track_define("async", "CUDA synchronization", NULL, OPM_CLOCK_RECORDER);
    pthread_mutex_unlock(&all.lock);
    return all.line;
}

static const struct waits_function *function_of(uint32_t domain, uint32_t cbid)
{
    return &waits_functions[domain == CUPTI_DOMAIN_RUNTIME][cbid];
}

void waits_enter(uint32_t domain, uint32_t cbid, const struct cupti_call *call)
{
    const struct waits_function *w = function_of(domain, cbid);

    if (!own_get())
        return;
    /* Before it is done: after that another thread may have an event by the same handle. */
    if (w->about == EVENT_DESTROY && call->parameters && !own->within)
        event_destroyed(*(const void *const *)call->parameters);
    own->within += domain == CUPTI_DOMAIN_RUNTIME;
}

const char *waits_leave(const struct cupti *lib, uint32_t domain, uint32_t cbid,
                        const struct cupti_call *call, uint64_t start, uint64_t end)
{
    const struct waits_function *w = function_of(domain, cbid);
    const void *const *given = call->parameters;
    struct facts f = { w->about, call->context_id, CUPTI_NO_ID, CUPTI_NO_ID, CUPTI_NO_ID, 0 };
    struct event e;

    if (!own_get())
        return NULL;
    if (domain == CUPTI_DOMAIN_RUNTIME)
        own->within -= own->within > 0;
    else if (own->within)
        return NULL; /* the runtime's own way of doing it */
    if ((call->result && *call->result) || w->about == EVENT_DESTROY ||
        (!given && w->about != CONTEXT_SYNC))
        return NULL;
    if (w->about == EVENT_RECORD) {
        f.stream = stream_id(lib, given[1], w->ptsz);
        f.event = event_recorded(given[0], call->context_id, f.stream);
        return f.event ? text_of(own, &f) : NULL;
    }
    if (w->about == STREAM_SYNC || w->about == STREAM_WAIT)
        f.stream = stream_id(lib, given[0], w->ptsz);
    if (w->about == STREAM_WAIT || w->about == EVENT_SYNC) {
        f.event = event_get(given[w->about == STREAM_WAIT], &e);
        f.on_stream = f.event ? e.stream : CUPTI_NO_ID;
        if (f.event && w->about == EVENT_SYNC)
            f.context = e.context;
    }
    if (lib->GetDeviceId && f.context == call->context_id &&
        lib->GetDeviceId(call->context, &f.device) != CUPTI_OK)
        f.device = CUPTI_NO_ID;
    opm_device_span_args(line_get(), &site[w->about], (int64_t)start, (int64_t)end,
                         call->correlation, text_of(own, &f));
    return NULL;
}

static enum about about_of(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
        if (strlen(functions[i].name) == len && memcmp(functions[i].name, name, len) == 0)
            return functions[i].about;
    return NOTHING;
}

static int watch(const struct cupti *lib, void *subscriber, uint32_t domain, const char *prefix)
{
    int rc = CUPTI_OK;

    for (uint32_t cbid = 1; cbid < WAITS_CBIDS_MAX && rc == CUPTI_OK; cbid++) {
        struct waits_function *w = &waits_functions[domain == CUPTI_DOMAIN_RUNTIME][cbid];
        const char *given = NULL;
        char name[128];
        size_t len;

        if (lib->GetCallbackName(domain, cbid, &given) != CUPTI_OK)
            break;
        calls_name(lib, domain, cbid, name, sizeof(name));
        len = strlen(name);
        w->ptsz = len > strlen(PTSZ) && strcmp(name + len - strlen(PTSZ), PTSZ) == 0;
        if (strncmp(name, prefix, strlen(prefix)) != 0)
            continue;
        w->about = (uint8_t)about_of(name + strlen(prefix),
                                     len - strlen(prefix) - (w->ptsz ? strlen(PTSZ) : 0));
        if (w->about)
            rc = lib->EnableCallback(1, subscriber, domain, cbid);
    }
    return rc;
}

int waits_enable(const struct cupti *lib, void *subscriber)
{
    int rc;

    if (!lib->GetStreamIdEx)
        return CUPTI_NOT_SUPPORTED;
    rc = watch(lib, subscriber, CUPTI_DOMAIN_RUNTIME, "cuda");
    if (rc == CUPTI_OK)
        rc = watch(lib, subscriber, CUPTI_DOMAIN_DRIVER, "cu");
    if (rc)
        memset(waits_functions, 0, sizeof(waits_functions));
    return rc;
}
