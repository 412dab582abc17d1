/* nvml.h -- NVIDIA's management library as far as it is used here: found at run time, if it is
 * installed, so that nothing of NVIDIA's is needed to build. Names, numbers and layouts are those
 * of its documented interface, which does not change. */
#ifndef DEVICE_NVML_H
#define DEVICE_NVML_H

#include "base/common.h"

typedef struct nvml_device *nvml_device;

#define NVML_OK 0
#define NVML_NAME_ROOM 96
#define NVML_TEMPERATURE_GPU 0u
enum nvml_clock { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum nvml_pcie { NVML_PCIE_SENT = 0, NVML_PCIE_RECEIVED = 1 };
/* Fields of nvmlDeviceGetFieldValues(): KiB so far over all links. */
enum nvml_field { NVML_NVLINK_SENT = 138, NVML_NVLINK_RECEIVED = 139 };
#define NVML_ALL_LINKS UINT32_MAX

struct nvml_utilization {
    unsigned gpu, memory; /* % of the time */
};
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_field_value {
    unsigned field, scope;
    long long timestamp_us, latency_us;
    unsigned type; /* enum nvml_value_type */
    int rc;
    unsigned char value[8];
};
static_assert(sizeof(struct nvml_field_value) == 40, "NVML's layout");
enum nvml_value_type { NVML_VALUE_UINT = 1, NVML_VALUE_ULONG = 2, NVML_VALUE_ULONGLONG = 3 };

/* clang-format off */
/* X(member, symbol, needed, arguments); those that are not needed may be NULL. */
#define NVML_FUNCTIONS(X)                                                                         \
    X(init, "nvmlInit_v2", true, (void))                                                          \
    X(shutdown, "nvmlShutdown", true, (void))                                                     \
    X(count, "nvmlDeviceGetCount_v2", true, (unsigned *out))                                      \
    X(device, "nvmlDeviceGetHandleByIndex_v2", true, (unsigned index, nvml_device *out))          \
    X(name, "nvmlDeviceGetName", false, (nvml_device d, char *out, unsigned size))                \
    X(utilization, "nvmlDeviceGetUtilizationRates", false,                                        \
      (nvml_device d, struct nvml_utilization *out))                                              \
    X(memory, "nvmlDeviceGetMemoryInfo", false, (nvml_device d, struct nvml_memory *out))         \
    X(power_mw, "nvmlDeviceGetPowerUsage", false, (nvml_device d, unsigned *out))                 \
    X(clock_mhz, "nvmlDeviceGetClockInfo", false, (nvml_device d, unsigned clock, unsigned *out)) \
    X(temperature, "nvmlDeviceGetTemperature", false,                                             \
      (nvml_device d, unsigned sensor, unsigned *out))                                            \
    X(pcie_kib_s, "nvmlDeviceGetPcieThroughput", false,                                           \
      (nvml_device d, unsigned counter, unsigned *out))                                           \
    X(fields, "nvmlDeviceGetFieldValues", false,                                                  \
      (nvml_device d, int n, struct nvml_field_value *values))
/* clang-format on */

struct nvml {
    void *library;
#define X(member, symbol, needed, arguments) int(*member) arguments;
    NVML_FUNCTIONS(X)
#undef X
};

/* Load and initialise it. False, and a few words in why: there is none, or no driver answers. */
bool nvml_open(struct nvml *n, char *why, size_t size);
void nvml_close(struct nvml *n);

#endif
