/* mock_nvml.c -- stands for NVIDIA's libnvidia-ml.so.1: a machine with two GPUs, or whatever
 * MOCK_NVML says: "none" (no GPU), "broken" (the driver does not answer), "old" (a GPU that knows
 * neither power nor NVLink). */
#include "device/nvml.h"

#include <opmeter/opmeter_error.h>
#include <stdlib.h>
#include <string.h>

#define NOT_SUPPORTED 3
#define DRIVER_NOT_LOADED 9

#define X(member, symbol, needed, arguments) OPM_API int mock_##member arguments __asm__(symbol);
NVML_FUNCTIONS(X)
#undef X

static char devices[2];
static uint64_t sent_kib;

static bool is(const char *what)
{
    const char *mock = getenv("MOCK_NVML");

    return mock && strcmp(mock, what) == 0;
}

static unsigned number(nvml_device d)
{
    return (unsigned)((char *)d - devices);
}

int mock_init(void)
{
    return is("broken") ? DRIVER_NOT_LOADED : NVML_OK;
}

int mock_shutdown(void)
{
    return NVML_OK;
}

int mock_count(unsigned *out)
{
    *out = is("none") ? 0 : ARRAY_SIZE(devices);
    return NVML_OK;
}

int mock_device(unsigned index, nvml_device *out)
{
    if (is("none") || index >= ARRAY_SIZE(devices))
        return NOT_SUPPORTED;
    *out = (nvml_device)(void *)&devices[index];
    return NVML_OK;
}

int mock_name(nvml_device d, char *out, unsigned size)
{
    const char name[] = "NVIDIA Mock";

    (void)d;
    if (size < sizeof(name))
        return NOT_SUPPORTED;
    memcpy(out, name, sizeof(name));
    return NVML_OK;
}

int mock_utilization(nvml_device d, struct nvml_utilization *out)
{
    *out = (struct nvml_utilization){ 90 + number(d), 40 };
    return NVML_OK;
}

int mock_memory(nvml_device d, struct nvml_memory *out)
{
    *out = (struct nvml_memory){ 1 << 30, 3 << 28, (number(d) + 1ull) << 28 };
    return NVML_OK;
}

int mock_power_mw(nvml_device d, unsigned *out)
{
    *out = 350500 + number(d);
    return is("old") ? NOT_SUPPORTED : NVML_OK;
}

int mock_clock_mhz(nvml_device d, unsigned clock, unsigned *out)
{
    (void)d;
    *out = clock == NVML_CLOCK_SM ? 1980 : 3201;
    return NVML_OK;
}

int mock_temperature(nvml_device d, unsigned sensor, unsigned *out)
{
    *out = 60 + number(d) + sensor;
    return NVML_OK;
}

int mock_pcie_kib_s(nvml_device d, unsigned counter, unsigned *out)
{
    *out = 1000 * (counter + 1) + number(d);
    return NVML_OK;
}

int mock_fields(nvml_device d, int n, struct nvml_field_value *values)
{
    (void)d;
    sent_kib += 1024;
    for (int i = 0; i < n; i++) {
        values[i].rc = is("old") ? NOT_SUPPORTED : NVML_OK;
        values[i].type = NVML_VALUE_ULONGLONG;
        memcpy(values[i].value, &sent_kib, sizeof(sent_kib));
    }
    return NVML_OK;
}
