/* sample_gpu.c -- what NVML says of NVIDIA's GPUs; see sample_source.h.
 *
 * GPUs are numbered as the program sees them: CUDA_VISIBLE_DEVICES, where it is a list of numbers,
 * says which and in what order. Asking for PCIe traffic takes NVML some 20 ms each time, so it is
 * done once a second. */
#include "device/nvml.h"
#include "device/sample_source.h"

#include "base/alloc.h"
#include "base/environment.h"

#include <stdio.h>
#include <string.h>

#define GPUS_MAX 64
#define SLOW_PERIOD_NS 1000000000

/* X(name, unit) of every gauge of a GPU. */
#define GPU_GAUGES(X)                              \
    X(UTILIZATION, "GPU utilisation", "%")         \
    X(MEMORY_ACTIVITY, "GPU memory activity", "%") \
    X(MEMORY, "GPU memory used", "B")              \
    X(POWER, "GPU power", "W")                     \
    X(CLOCK, "GPU clock", "Hz")                    \
    X(MEMORY_CLOCK, "GPU memory clock", "Hz")      \
    X(TEMPERATURE, "GPU temperature",              \
      "\xc2\xb0"                                   \
      "C")                                         \
    X(PCIE_SENT, "PCIe sent", "B/s")               \
    X(PCIE_RECEIVED, "PCIe received", "B/s")       \
    X(NVLINK_SENT, "NVLink sent", "B/s")           \
    X(NVLINK_RECEIVED, "NVLink received", "B/s")

enum gpu_gauge {
#define X(id, name, unit) GPU_##id,
    GPU_GAUGES(X)
#undef X
        GPU_GAUGE_COUNT
};

static const struct {
    const char *name, *unit;
} words[] = {
#define X(id, name, unit) { name, unit },
    GPU_GAUGES(X)
#undef X
};

struct gpu {
    nvml_device device;
    unsigned number;                   /* as the program sees it */
    opm_gauge *gauge[GPU_GAUGE_COUNT]; /* NULL until there is a value */
    struct sample_sum nvlink[2];       /* KiB; their gauges are those above */
};

struct gpus {
    struct nvml nvml;
    struct gpu gpu[GPUS_MAX];
    unsigned n;
    int64_t slow_ns;
};

/* The numbers that NVML has for those that the program sees; false: it sees all. */
static bool visible(unsigned *index, unsigned *n)
{
    const char *list = environment_get("CUDA_VISIBLE_DEVICES");

    *n = 0;
    while (list && *list && *n < GPUS_MAX) {
        char *end;
        unsigned long v = strtoul(list, &end, 10);

        if (end == list || (*end && *end != ','))
            return false; /* names of GPUs, not numbers */
        index[(*n)++] = (unsigned)v;
        list = *end ? end + 1 : end;
    }
    return *n > 0;
}

static void *gpus_open(struct sampler_stats *stats)
{
    struct gpus *g = mem_calloc(1, sizeof(*g));
    unsigned index[GPUS_MAX], n = 0, present = 0;
    bool listed = visible(index, &n);

    if (!g || !nvml_open(&g->nvml, stats->no_gpu, sizeof(stats->no_gpu))) {
        mem_free(g);
        return NULL;
    }
    if (g->nvml.count(&present) != NVML_OK)
        present = 0;
    for (unsigned i = 0; i < (listed ? n : MIN(present, (unsigned)GPUS_MAX)); i++) {
        struct gpu *gpu = &g->gpu[g->n];

        if (g->nvml.device(listed ? index[i] : i, &gpu->device) != NVML_OK)
            continue;
        gpu->number = i;
        g->n++;
    }
    stats->gpus = (int)g->n;
    if (!g->n) {
        snprintf(stats->no_gpu, sizeof(stats->no_gpu), "NVML sees no GPU");
        nvml_close(&g->nvml);
        mem_free(g);
        return NULL;
    }
    return g;
}

static opm_gauge *gauge(struct gpu *gpu, enum gpu_gauge which)
{
    opm_gauge_info info = OPM_GAUGE_INFO_INIT;
    char device[32];

    if (!gpu->gauge[which]) {
        snprintf(device, sizeof(device), "GPU %u", gpu->number);
        info.name = words[which].name;
        info.unit = words[which].unit;
        info.device = device;
        gpu->gauge[which] = opm_gauge_define(&info);
    }
    return gpu->gauge[which];
}

static void put(const struct sample_round *r, struct gpu *gpu, enum gpu_gauge which, double value)
{
    sample_put(r, gauge(gpu, which), value);
}

static bool field_number(const struct nvml_field_value *f, uint64_t *out)
{
    unsigned u;

    if (f->rc != NVML_OK)
        return false;
    memcpy(&u, f->value, sizeof(u));
    memcpy(out, f->value, sizeof(*out));
    if (f->type == NVML_VALUE_UINT)
        *out = u;
    return f->type >= NVML_VALUE_UINT && f->type <= NVML_VALUE_ULONGLONG;
}

static void read_nvlink(const struct nvml *n, struct gpu *gpu, const struct sample_round *r)
{
    struct nvml_field_value f[] = { { .field = NVML_NVLINK_SENT, .scope = NVML_ALL_LINKS },
                                    { .field = NVML_NVLINK_RECEIVED, .scope = NVML_ALL_LINKS } };
    uint64_t kib;

    if (!n->fields || n->fields(gpu->device, ARRAY_SIZE(f), f) != NVML_OK)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
        if (!field_number(&f[i], &kib))
            continue;
        gpu->nvlink[i].gauge = gauge(gpu, i ? GPU_NVLINK_RECEIVED : GPU_NVLINK_SENT);
        sample_put_rate(r, &gpu->nvlink[i], kib, 1024);
    }
}

static void read_pcie(const struct nvml *n, struct gpu *gpu, const struct sample_round *r)
{
    unsigned v;

    if (!n->pcie_kib_s)
        return;
    if (n->pcie_kib_s(gpu->device, NVML_PCIE_SENT, &v) == NVML_OK)
        put(r, gpu, GPU_PCIE_SENT, 1024.0 * v);
    if (n->pcie_kib_s(gpu->device, NVML_PCIE_RECEIVED, &v) == NVML_OK)
        put(r, gpu, GPU_PCIE_RECEIVED, 1024.0 * v);
}

static void read_gpu(const struct nvml *n, struct gpu *gpu, const struct sample_round *r)
{
    struct nvml_utilization u;
    struct nvml_memory m;
    unsigned v;

    if (n->utilization && n->utilization(gpu->device, &u) == NVML_OK) {
        put(r, gpu, GPU_UTILIZATION, u.gpu);
        put(r, gpu, GPU_MEMORY_ACTIVITY, u.memory);
    }
    if (n->memory && n->memory(gpu->device, &m) == NVML_OK)
        put(r, gpu, GPU_MEMORY, (double)m.used);
    if (n->power_mw && n->power_mw(gpu->device, &v) == NVML_OK)
        put(r, gpu, GPU_POWER, v / 1e3);
    if (n->clock_mhz && n->clock_mhz(gpu->device, NVML_CLOCK_SM, &v) == NVML_OK)
        put(r, gpu, GPU_CLOCK, 1e6 * v);
    if (n->clock_mhz && n->clock_mhz(gpu->device, NVML_CLOCK_MEMORY, &v) == NVML_OK)
        put(r, gpu, GPU_MEMORY_CLOCK, 1e6 * v);
    if (n->temperature && n->temperature(gpu->device, NVML_TEMPERATURE_GPU, &v) == NVML_OK)
        put(r, gpu, GPU_TEMPERATURE, v);
    read_nvlink(n, gpu, r);
}

static void gpus_read(void *source, const struct sample_round *r)
{
    struct gpus *g = source;
    bool slow = !g->slow_ns || r->now_ns - g->slow_ns >= SLOW_PERIOD_NS;

    for (unsigned i = 0; i < g->n; i++) {
        read_gpu(&g->nvml, &g->gpu[i], r);
        if (slow)
            read_pcie(&g->nvml, &g->gpu[i], r);
    }
    if (slow)
        g->slow_ns = r->now_ns;
}

static void gpus_close(void *source)
{
    struct gpus *g = source;

    for (unsigned i = 0; i < g->n; i++)
        for (int k = 0; k < GPU_GAUGE_COUNT; k++)
            opm_gauge_free(g->gpu[i].gauge[k]);
    nvml_close(&g->nvml);
    mem_free(g);
}

const struct sample_source sample_gpus = { gpus_open, gpus_read, gpus_close };
