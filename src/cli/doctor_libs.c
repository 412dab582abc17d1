/* doctor_libs.c -- libraries found at run time: GPUs, engines, and our own; see doctor.h.
 *
 * Everything foreign is found with dlopen(): that it is absent is a finding, not an error. Nothing
 * is closed again: such libraries start threads and keep memory that do not survive it. */
#include "cli/doctor.h"

#include "base/environment.h"

#include "cli/cli.h"
#include "launch/cupti_find.h"
#include "launch/record.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char not_needed[] = "Nothing to do unless this machine should measure a GPU.";

/* dlsym() into a function pointer; a cast from void * is not ISO C. */
static bool find_symbol(void *lib, const char *name, void *out_fn)
{
    void *p = dlsym(lib, name);

    memcpy(out_fn, &p, sizeof(p));
    return p;
}

static void *open_first(const char *const *names, const char **out_name)
{
    for (; *names; names++) {
        void *lib = dlopen(*names, RTLD_NOW | RTLD_LOCAL);

        if (lib) {
            *out_name = *names;
            return lib;
        }
    }
    return NULL;
}

/* Names and driver from NVML, which needs no context on the device. */
static void look_at_nvml(struct doctor *d)
{
    static const char *const names[] = { "libnvidia-ml.so.1", "libnvidia-ml.so", NULL };
    int (*init)(void), (*shutdown)(void), (*count)(unsigned *), (*handle)(unsigned, void **);
    int (*device_name)(void *, char *, unsigned), (*driver)(char *, unsigned);
    const char *name = NULL;
    void *lib = open_first(names, &name), *device;
    char version[96] = "unknown", model[96] = "unknown model";
    unsigned n = 0;
    int rc;

    if (!lib) {
        doctor_say(d, DOCTOR_MISSING, "NVIDIA driver", not_needed,
                   "libnvidia-ml.so.1 is not on the library path: no NVIDIA driver");
        return;
    }
    if (!find_symbol(lib, "nvmlInit_v2", &init) || !find_symbol(lib, "nvmlShutdown", &shutdown) ||
        !find_symbol(lib, "nvmlDeviceGetCount_v2", &count) ||
        !find_symbol(lib, "nvmlDeviceGetHandleByIndex_v2", &handle) ||
        !find_symbol(lib, "nvmlDeviceGetName", &device_name) ||
        !find_symbol(lib, "nvmlSystemGetDriverVersion", &driver)) {
        doctor_say(d, DOCTOR_LIMITED, "NVIDIA driver", "Update the driver.",
                   "%s is too old: it lacks a function", name);
        return;
    }
    rc = init();
    if (rc != 0) {
        doctor_say(d, DOCTOR_LIMITED, "NVIDIA driver",
                   "Check 'nvidia-smi'; in a container, pass the devices in.",
                   "%s is there, but nvmlInit fails with code %d", name, rc);
    } else {
        driver(version, sizeof(version));
        count(&n);
        if (n && handle(0, &device) == 0)
            device_name(device, model, sizeof(model));
        if (n)
            doctor_say(d, DOCTOR_OK, "NVIDIA driver", NULL, "%s; %u GPU%s, the first is %s",
                       version, n, human_s(n), model);
        else
            doctor_say(d, DOCTOR_MISSING, "NVIDIA driver", not_needed, "%s, but no GPU", version);
        shutdown();
    }
}

static void look_at_cuda(struct doctor *d)
{
    static const char *const names[] = { "libcuda.so.1", "libcuda.so", NULL };
    int (*version)(int *), v = 0;
    const char *name = NULL;
    void *lib = open_first(names, &name);

    if (!lib) {
        doctor_say(d, DOCTOR_MISSING, "CUDA", NULL, "libcuda.so.1 is not on the library path");
        return;
    }
    if (find_symbol(lib, "cuDriverGetVersion", &version) && version(&v) == 0)
        doctor_say(d, DOCTOR_OK, "CUDA", NULL, "%s supports CUDA %d.%d", name, v / 1000,
                   v % 1000 / 10);
    else
        doctor_say(d, DOCTOR_LIMITED, "CUDA", "Check 'nvidia-smi'.", "%s does not tell its version",
                   name);
}

static void look_at_cupti(struct doctor *d)
{
    opm_error err = { 0 };
    uint32_t version = 0;
    char path[PATH_MAX];

    if (cupti_find(path, sizeof(path), &version, &err) < 0)
        doctor_say(d, DOCTOR_MISSING, "CUPTI",
                   "On a machine with a GPU, install the CUDA toolkit (package cuda-cupti) or set "
                   "OPMETER_CUPTI_LIB.",
                   "GPU kernels cannot be recorded: %s", err.msg);
    else
        doctor_say(d, DOCTOR_OK, "CUPTI", NULL, "%s, API version %u", path, version);
    if (record_find_cuda(path, sizeof(path)))
        doctor_say(d, DOCTOR_OK, "CUDA recording", NULL, "%s is there to be injected", path);
    else
        doctor_say(d, DOCTOR_MISSING, "CUDA recording", "Install opmeter's libraries beside it.",
                   "libopmeter-cuda.so was not found: 'opmeter record' sees no GPU");
}

/* Tracing kernels needs no permission; their hardware counters do. */
static void look_at_permission(struct doctor *d)
{
    char only[16];

    if (!doctor_read_key("/proc/driver/nvidia/params", "RmProfilingAdminOnly", only, sizeof(only)))
        return;
    if (strcmp(only, "0") == 0 || geteuid() == 0)
        doctor_say(d, DOCTOR_OK, "GPU counters", NULL, "this user may read them");
    else
        doctor_say(d, DOCTOR_LIMITED, "GPU counters",
                   "Load the driver with NVreg_RestrictProfilingToAdminUsers=0.",
                   "reserved for the administrator; kernels are recorded all the same");
}

void doctor_gpu(struct doctor *d)
{
    look_at_nvml(d);
    look_at_cuda(d);
    look_at_cupti(d);
    look_at_permission(d);
}

/* The head of OrtApiBase, which has never changed. */
struct ort_api_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

void doctor_engines(struct doctor *d)
{
    const char *given = environment_get("OPMETER_ORT_LIB");
    const char *const only_given[] = { given, NULL };
    static const char *const usual[] = { "libonnxruntime.so", "libonnxruntime.so.1", NULL };
    const struct ort_api_base *(*get_base)(void);
    const char *name = NULL;
    void *lib;

    lib = open_first(given ? only_given : usual, &name);
    if (!lib && given) {
        doctor_say(d, DOCTOR_MISSING, "ONNX Runtime", "Correct or unset OPMETER_ORT_LIB.",
                   "OPMETER_ORT_LIB names a library that cannot be loaded: %s", dlerror());
        return;
    }
    if (!lib) {
        doctor_say(d, DOCTOR_MISSING, "ONNX Runtime",
                   "To measure models on it, set OPMETER_ORT_LIB to an installed "
                   "libonnxruntime.so.",
                   "libonnxruntime.so is not on the library path");
        return;
    }
    if (find_symbol(lib, "OrtGetApiBase", &get_base) && get_base())
        doctor_say(d, DOCTOR_OK, "ONNX Runtime", NULL, "%s, version %s", name,
                   get_base()->get_version());
    else
        doctor_say(d, DOCTOR_LIMITED, "ONNX Runtime", "Install a proper ONNX Runtime.",
                   "%s has no OrtGetApiBase: it is not ONNX Runtime", name);
}

/* SQLite is ours to name only through what it answers. */
static void look_at_sqlite(struct doctor *d)
{
    opm_trace *t = NULL;
    opm_rows *r = NULL;
    opm_error err = { 0 };

    if (opm_trace_open(&t, NULL, 0, NULL, &err) == 0 &&
        opm_trace_query(t, "SELECT sqlite_version()", &r, &err) == 0 && opm_rows_next(r, &err) == 1)
        doctor_say(d, DOCTOR_OK, "SQLite", NULL, "%s", opm_rows_text(r, 0, NULL));
    else
        doctor_say(d, DOCTOR_MISSING, "SQLite", NULL, "no query works: %s", err.msg);
    opm_rows_close(r);
    opm_trace_close(t);
}

void doctor_versions(struct doctor *d)
{
    struct utsname u;

    doctor_say(d, DOCTOR_OK, "opmeter", NULL, "%s", opm_trace_version());
    look_at_sqlite(d);
    if (uname(&u) == 0)
        doctor_say(d, DOCTOR_OK, "system", NULL, "%s %s %s", u.sysname, u.release, u.machine);
}
