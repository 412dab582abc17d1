/* records.c -- see records.h. */
#include "device/cuda/records.h"

#include "base/alloc.h"
#include "device/cuda/calls.h"
#include "device/cuda/occupancy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the numbers in records stand for, in the words of PyTorch's traces. */
static const char *const copy_kinds[] = { "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                          "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP" };
static const char *const memory_kinds[] = {
    "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"
};
static const char *const synchronization_types[] = { "Synchronization", "Event Sync",
                                                     "Stream Wait Event", "Stream Sync",
                                                     "Context Sync" };

static const struct {
    uint32_t kind;
    const char *name;
} overheads[] = {
    { 1, "Driver Compiler" },
    { 1 << 16, "Activity Buffer Flush" },
    { 2 << 16, "Instrumentation" },
    { 3 << 16, "Resource" },
    { 4 << 16, "Runtime Triggered Module Loading" },
    { 5 << 16, "Lazy Function Loading" },
    { 6 << 16, "Command Buffer Full" },
    { 7 << 16, "Activity Buffer Request" },
    { 8 << 16, "UVM Activity Init" },
};

#define WORD(table, i) ((size_t)(i) < ARRAY_SIZE(table) ? (table)[i] : (table)[0])

/* ---- lines ---- */

static opm_track *thread_track(struct records *r, uint32_t tid)
{
    const uint64_t *known = u64map_get(&r->threads, tid);
    opm_track *t;

    if (known)
        return (opm_track *)(uintptr_t)*known;
    t = opm_track_define_numbered("thread", NULL, NULL, OPM_CLOCK_RECORDER, tid);
    if (t && u64map_put(&r->threads, tid, (uint64_t)(uintptr_t)t)) {
        opm_track_free(t);
        return NULL;
    }
    return t;
}

static opm_track *stream_track(struct records *r, uint32_t device, uint32_t context,
                               uint32_t stream)
{
    uint64_t key = (uint64_t)device << 48 ^ (uint64_t)context << 24 ^ stream;
    const uint64_t *known = u64map_get(&r->streams, key);
    char name[64], gpu[32];
    opm_track *t;

    if (known)
        return (opm_track *)(uintptr_t)*known;
    snprintf(gpu, sizeof(gpu), "GPU %" PRIu32, device);
    snprintf(name, sizeof(name), "stream %" PRIu32, stream);
    if (device < RECORDS_DEVICES_MAX) {
        if (!r->first_context[device])
            r->first_context[device] = context;
        if (r->first_context[device] != context)
            snprintf(name, sizeof(name), "stream %" PRIu32 " of context %" PRIu32, stream, context);
    }
    t = opm_track_define_numbered("stream", name, gpu, OPM_CLOCK_RECORDER, stream);
    if (t && u64map_put(&r->streams, key, (uint64_t)(uintptr_t)t)) {
        opm_track_free(t);
        return NULL;
    }
    return t;
}

/* One line for what belongs to no stream. */
static opm_track *side_track(opm_track **t, const char *name)
{
    if (!*t)
        *t = opm_track_define("async", name, NULL, OPM_CLOCK_RECORDER);
    return *t;
}

/* ---- spans ---- */

static void put(struct records *r, opm_track *t, struct name *name, uint64_t start, uint64_t end,
                uint32_t correlation, const char *args)
{
    if (!t || !name) {
        r->no_memory++;
        return;
    }
    if (!start || end < start) {
        r->unfinished++;
        return;
    }
    opm_device_span_args(t, &name->site, (int64_t)cuda_clock_ticks(r->clock, start),
                         (int64_t)cuda_clock_ticks(r->clock, end), correlation, args);
}

static const struct cupti_device *device_of(const struct records *r, uint32_t id)
{
    return id < RECORDS_DEVICES_MAX && r->device[id].sms ? &r->device[id] : NULL;
}

/* Facts about a kernel; kept with its name, for the next one is most likely launched the same. */
static const char *kernel_args(struct records *r, struct name *name, const struct cupti_kernel *k)
{
    uint64_t config[4] = {
        (uint64_t)(uint32_t)k->grid[0] << 32 | (uint32_t)k->grid[1],
        (uint64_t)(uint32_t)k->grid[2] << 32 | (uint32_t)k->block[0],
        (uint64_t)(uint32_t)k->block[1] << 48 ^ (uint64_t)(uint32_t)k->block[2] << 32 ^
            (uint64_t)k->registers_per_thread << 16 ^ k->device,
        (uint64_t)(uint32_t)k->static_shared_memory << 32 ^ (uint32_t)k->dynamic_shared_memory ^
            k->graph_node << 1,
    };
    struct occupancy o;
    int n;

    if (name->args[0] && memcmp(config, name->config, sizeof(config)) == 0)
        return name->args;
    memcpy(name->config, config, sizeof(config));
    n = snprintf(name->args, sizeof(name->args),
                 "{\"grid\":[%d,%d,%d],\"block\":[%d,%d,%d],\"registers per thread\":%u,"
                 "\"shared memory\":%lld",
                 k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2],
                 k->registers_per_thread,
                 (long long)k->static_shared_memory + k->dynamic_shared_memory);
    if (occupancy_of(device_of(r, k->device), k, &o))
        n += snprintf(name->args + n, sizeof(name->args) - (size_t)n,
                      ",\"blocks per SM\":%.6g,\"warps per SM\":%.6g,"
                      "\"theoretical occupancy %%\":%.0f,\"est. achieved occupancy %%\":%.0f",
                      o.blocks_per_sm, o.warps_per_sm, 100 * o.theoretical, 100 * o.achieved);
    if (k->graph_node)
        n += snprintf(name->args + n, sizeof(name->args) - (size_t)n,
                      ",\"graph id\":%u,\"graph node id\":%" PRIu64, k->graph, k->graph_node);
    snprintf(name->args + n, sizeof(name->args) - (size_t)n, "}");
    return name->args;
}

static void take_kernel(struct records *r, const struct cupti_kernel *k)
{
    struct name *name =
        names_get(&r->names, OPM_HARDWARE, "kernel", k->name ? k->name : "(unnamed)", true);

    put(r, stream_track(r, k->device, k->context, k->stream), name, k->start, k->end,
        k->correlation, name ? kernel_args(r, name, k) : NULL);
}

static void moved_args(char *out, size_t size, uint64_t bytes, uint64_t start, uint64_t end,
                       uint64_t graph_node)
{
    int n = snprintf(out, size, "{\"bytes\":%" PRIu64, bytes);

    /* Three digits tell all there is to tell, and keep equal copies equal. */
    if (end > start)
        n += snprintf(out + n, size - (size_t)n, ",\"memory bandwidth (GB/s)\":%.3g",
                      (double)bytes / (double)(end - start));
    if (graph_node)
        n += snprintf(out + n, size - (size_t)n, ",\"graph node id\":%" PRIu64, graph_node);
    snprintf(out + n, size - (size_t)n, "}");
}

static void take_copy(struct records *r, const struct cupti_memcpy *m)
{
    char name[80], args[160];

    snprintf(name, sizeof(name), "Memcpy %s (%s -> %s)", WORD(copy_kinds, m->copy_kind),
             WORD(memory_kinds, m->src_kind), WORD(memory_kinds, m->dst_kind));
    moved_args(args, sizeof(args), m->bytes, m->start, m->end, m->graph_node);
    put(r, stream_track(r, m->device, m->context, m->stream),
        names_get(&r->names, OPM_HARDWARE, "gpu_memcpy", name, false), m->start, m->end,
        m->correlation, args);
}

static void take_peer_copy(struct records *r, const struct cupti_peer_copy *m)
{
    char name[80], args[160];

    snprintf(name, sizeof(name), "Memcpy PtoP (GPU %" PRIu32 " -> GPU %" PRIu32 ")", m->src_device,
             m->dst_device);
    moved_args(args, sizeof(args), m->bytes, m->start, m->end, m->graph_node);
    put(r, stream_track(r, m->device, m->context, m->stream),
        names_get(&r->names, OPM_HARDWARE, "gpu_memcpy", name, false), m->start, m->end,
        m->correlation, args);
}

static void take_fill(struct records *r, const struct cupti_memset *m)
{
    char name[80], args[160];

    snprintf(name, sizeof(name), "Memset (%s)", WORD(memory_kinds, m->memory_kind));
    moved_args(args, sizeof(args), m->bytes, m->start, m->end, m->graph_node);
    put(r, stream_track(r, m->device, m->context, m->stream),
        names_get(&r->names, OPM_HARDWARE, "gpu_memset", name, false), m->start, m->end,
        m->correlation, args);
}

static struct name *call_name(struct records *r, const struct cupti_api *a)
{
    bool driver = a->kind == KIND_DRIVER;
    uint64_t key = (uint64_t)driver << 32 | a->cbid;
    const uint64_t *known = u64map_get(&r->calls, key);
    struct name *made;
    char text[128];

    if (known)
        return (struct name *)(uintptr_t)*known;
    calls_name(r->lib, driver ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME, a->cbid, text,
               sizeof(text));
    made = names_get(&r->names, OPM_RUNTIME, driver ? "cuda_driver" : "cuda_runtime", text, false);
    if (made)
        (void)u64map_put(&r->calls, key, (uint64_t)(uintptr_t)made);
    return made;
}

static void take_call(struct records *r, const struct cupti_api *a)
{
    char args[48];

    if (a->result)
        snprintf(args, sizeof(args), "{\"result\":%" PRIu32 "}", a->result);
    put(r, thread_track(r, a->thread), call_name(r, a), a->start, a->end, a->correlation,
        a->result ? args : NULL);
}

static void take_synchronization(struct records *r, const struct cupti_synchronization *s)
{
    const uint64_t *device = u64map_get(&r->contexts, s->context);
    char args[128];
    int n = snprintf(args, sizeof(args), "{\"context\":%" PRIu32, s->context);

    if (device)
        n += snprintf(args + n, sizeof(args) - (size_t)n, ",\"device\":%" PRIu64, *device - 1);
    if (s->stream != CUPTI_NO_ID)
        n += snprintf(args + n, sizeof(args) - (size_t)n, ",\"stream\":%" PRIu32, s->stream);
    snprintf(args + n, sizeof(args) - (size_t)n, "}");
    put(r, side_track(&r->synchronization, "CUDA synchronization"),
        names_get(&r->names, OPM_RUNTIME, "cuda_sync", WORD(synchronization_types, s->type), false),
        s->start, s->end, s->correlation, args);
}

static void take_overhead(struct records *r, const struct cupti_overhead *o)
{
    const char *name = "Overhead";
    char args[48] = "";

    for (size_t i = 0; i < ARRAY_SIZE(overheads); i++)
        if (overheads[i].kind == o->overhead_kind)
            name = overheads[i].name;
    if (o->object_kind == CUPTI_OBJECT_THREAD)
        snprintf(args, sizeof(args), "{\"thread\":%" PRIu32 "}", o->object[1]);
    put(r, side_track(&r->overhead, "CUPTI overhead"),
        names_get(&r->names, OPM_RUNTIME, "overhead", name, false), o->start, o->end, 0,
        args[0] ? args : NULL);
}

static void device_fact(uint32_t id, const char *key, uint64_t value)
{
    char name[64], text[32];

    snprintf(name, sizeof(name), "device.%" PRIu32 ".%s", id, key);
    snprintf(text, sizeof(text), "%" PRIu64, value);
    opm_meta(name, text);
}

static void take_device(struct records *r, const struct cupti_device *d)
{
    char key[64];

    if (d->id >= RECORDS_DEVICES_MAX || r->device[d->id].sms)
        return;
    r->device[d->id] = *d;
    r->device[d->id].name = NULL; /* CUPTI's memory */
    snprintf(key, sizeof(key), "device.%" PRIu32 ".name", d->id);
    if (d->name)
        opm_meta(key, d->name);
    device_fact(d->id, "totalGlobalMem", d->memory_bytes);
    device_fact(d->id, "computeMajor", d->major);
    device_fact(d->id, "computeMinor", d->minor);
    device_fact(d->id, "numSms", d->sms);
    device_fact(d->id, "warpSize", d->warp_threads);
    device_fact(d->id, "maxThreadsPerMultiprocessor", (uint64_t)d->sm_warps * d->warp_threads);
    device_fact(d->id, "regsPerMultiprocessor", d->sm_registers);
    device_fact(d->id, "sharedMemPerMultiprocessor", d->sm_shared_memory);
    device_fact(d->id, "l2CacheSize", d->l2_bytes);
    device_fact(d->id, "memoryBandwidth", d->memory_bandwidth);
}

static void take_context(struct records *r, const struct cupti_context *c)
{
    if (u64map_put(&r->contexts, c->context, (uint64_t)c->device + 1))
        r->no_memory++;
}

void records_init(struct records *r, const struct cupti *lib, const struct cuda_clock *clock)
{
    *r = (struct records){ .lib = lib, .clock = clock };
}

void records_take(struct records *r, const struct cupti_record *record)
{
    const void *p = record;

    r->taken++;
    switch (record->kind) {
    case KIND_CONCURRENT_KERNEL:
        take_kernel(r, p);
        break;
    case KIND_MEMCPY:
        take_copy(r, p);
        break;
    case KIND_MEMCPY2:
        take_peer_copy(r, p);
        break;
    case KIND_MEMSET:
        take_fill(r, p);
        break;
    case KIND_RUNTIME:
    case KIND_DRIVER:
        take_call(r, p);
        break;
    case KIND_SYNCHRONIZATION:
        take_synchronization(r, p);
        break;
    case KIND_OVERHEAD:
        take_overhead(r, p);
        break;
    case KIND_DEVICE:
        take_device(r, p);
        break;
    case KIND_CONTEXT:
        take_context(r, p);
        break;
    default:
        r->unknown++;
    }
}

void records_release(struct records *r)
{
    names_release(&r->names);
    u64map_release(&r->threads);
    u64map_release(&r->streams);
    u64map_release(&r->contexts);
    u64map_release(&r->calls);
}
