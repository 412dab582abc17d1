/* standin.c -- a library with the functions of ONNX Runtime that opmeter calls, which computes
 * nothing and keeps a diary of its sessions and their runs; see standin.h.
 *
 * Every result is a float32 tensor of 1 x 1; a profile has one node for each run. */
#include "standin.h"
#include "engine/ort/ort_lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PUBLIC __attribute__((visibility("default")))
#define FLOAT32 1

struct ort_session_options {
    char profile[600]; /* prefix of the file; "": none */
};

struct ort_session {
    char profile[600];
    int64_t start_ns;
    int64_t run_us[100]; /* when its runs began, from start_ns on */
    int runs;
};

struct ort_value {
    float one;
};

static char diary[4096];
static char thing; /* what is only handed around */

PUBLIC standin_diary_fn standin_diary;
PUBLIC standin_forget_fn standin_forget;

const char *standin_diary(void)
{
    return diary;
}

void standin_forget(void)
{
    diary[0] = '\0';
}

static void note(const struct ort_session *s, char what)
{
    size_t len = strlen(diary);

    snprintf(diary + len, sizeof(diary) - len, "%c%c ", s->profile[0] ? 'p' : 'b', what);
}

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static const char *GetErrorMessage(const struct ort_status *st)
{
    (void)st;
    return "";
}

static struct ort_status *CreateEnv(int level, const char *id, struct ort_env **out)
{
    (void)level;
    (void)id;
    *out = (struct ort_env *)(void *)&thing;
    return NULL;
}

static struct ort_status *CreateSessionOptions(struct ort_session_options **out)
{
    *out = calloc(1, sizeof(**out));
    return NULL;
}

static struct ort_status *EnableProfiling(struct ort_session_options *so, const char *prefix)
{
    snprintf(so->profile, sizeof(so->profile), "%s.json", prefix);
    return NULL;
}

#define TAKES_NUMBER(name)                                                \
    static struct ort_status *name(struct ort_session_options *so, int n) \
    {                                                                     \
        (void)so;                                                         \
        (void)n;                                                          \
        return NULL;                                                      \
    }
TAKES_NUMBER(SetSessionLogSeverityLevel)
TAKES_NUMBER(SetSessionGraphOptimizationLevel)
TAKES_NUMBER(SetIntraOpNumThreads)
TAKES_NUMBER(SetInterOpNumThreads)

static struct ort_status *CreateSessionFromArray(const struct ort_env *env, const void *data,
                                                 size_t len, const struct ort_session_options *so,
                                                 struct ort_session **out)
{
    struct ort_session *s = calloc(1, sizeof(*s));

    (void)env;
    (void)data;
    (void)len;
    snprintf(s->profile, sizeof(s->profile), "%s", so->profile);
    s->start_ns = now_ns();
    note(s, '+');
    *out = s;
    return NULL;
}

static struct ort_status *CreateSession(const struct ort_env *env, const char *path,
                                        const struct ort_session_options *so,
                                        struct ort_session **out)
{
    return CreateSessionFromArray(env, path, 0, so, out);
}

static struct ort_status *Run(struct ort_session *s, const struct ort_run_options *ro,
                              const char *const *in_names, const struct ort_value *const *in,
                              size_t nin, const char *const *out_names, size_t nout,
                              struct ort_value **out)
{
    (void)ro;
    (void)in_names;
    (void)in;
    (void)nin;
    (void)out_names;
    if ((size_t)s->runs < ARRAY_SIZE(s->run_us))
        s->run_us[s->runs++] = (now_ns() - s->start_ns) / 1000;
    note(s, 'r');
    for (size_t i = 0; i < nout; i++)
        out[i] = calloc(1, sizeof(*out[i]));
    return NULL;
}

static struct ort_status *SessionEndProfiling(struct ort_session *s, struct ort_allocator *a,
                                              char **out)
{
    FILE *f = fopen(s->profile, "w");

    (void)a;
    fputs("[", f);
    for (int i = 0; i < s->runs; i++)
        fprintf(f,
                "%s\n{\"cat\":\"Node\",\"pid\":1,\"tid\":1,\"dur\":1,\"ts\":%lld,\"ph\":\"X\","
                "\"name\":\"fc_kernel_time\",\"args\":{\"op_name\":\"Gemm\","
                "\"provider\":\"CPUExecutionProvider\"}}",
                i ? "," : "", (long long)s->run_us[i]);
    fputs("\n]\n", f);
    fclose(f);
    *out = strdup(s->profile);
    return NULL;
}

static struct ort_status *SessionGetProfilingStartTimeNs(const struct ort_session *s, uint64_t *out)
{
    *out = (uint64_t)s->start_ns;
    return NULL;
}

static struct ort_status *CreateRunOptions(struct ort_run_options **out)
{
    *out = (struct ort_run_options *)(void *)&thing;
    return NULL;
}

#define TAKES_RUN_OPTIONS(name)                               \
    static struct ort_status *name(struct ort_run_options *o) \
    {                                                         \
        (void)o;                                              \
        return NULL;                                          \
    }
TAKES_RUN_OPTIONS(RunOptionsSetTerminate)
TAKES_RUN_OPTIONS(RunOptionsUnsetTerminate)

static struct ort_status *CreateCpuMemoryInfo(int allocator, int mem, struct ort_memory_info **out)
{
    (void)allocator;
    (void)mem;
    *out = (struct ort_memory_info *)(void *)&thing;
    return NULL;
}

static struct ort_status *CreateTensorWithDataAsOrtValue(const struct ort_memory_info *info,
                                                         void *data, size_t bytes,
                                                         const int64_t *dims, size_t ndim, int type,
                                                         struct ort_value **out)
{
    (void)info;
    (void)data;
    (void)bytes;
    (void)dims;
    (void)ndim;
    (void)type;
    *out = calloc(1, sizeof(**out));
    return NULL;
}

static struct ort_status *IsTensor(const struct ort_value *v, int *out)
{
    *out = v != NULL;
    return NULL;
}

static struct ort_status *GetTensorMutableData(struct ort_value *v, void **out)
{
    *out = &v->one;
    return NULL;
}

static struct ort_status *GetTensorTypeAndShape(const struct ort_value *v,
                                                struct ort_shape_info **out)
{
    (void)v;
    *out = (struct ort_shape_info *)(void *)&thing;
    return NULL;
}

static struct ort_status *GetTensorElementType(const struct ort_shape_info *info, int *out)
{
    (void)info;
    *out = FLOAT32;
    return NULL;
}

static struct ort_status *GetDimensionsCount(const struct ort_shape_info *info, size_t *out)
{
    (void)info;
    *out = 2;
    return NULL;
}

static struct ort_status *GetDimensions(const struct ort_shape_info *info, int64_t *out, size_t n)
{
    (void)info;
    for (size_t i = 0; i < n; i++)
        out[i] = 1;
    return NULL;
}

static struct ort_status *GetAllocatorWithDefaultOptions(struct ort_allocator **out)
{
    *out = (struct ort_allocator *)(void *)&thing;
    return NULL;
}

static struct ort_status *AllocatorFree(struct ort_allocator *a, void *p)
{
    (void)a;
    free(p);
    return NULL;
}

static void ReleaseSession(struct ort_session *s)
{
    note(s, '-');
    free(s);
}

#define FREES(name, type)        \
    static void name(type *x)    \
    {                            \
        if ((void *)x != &thing) \
            free(x);             \
    }
FREES(ReleaseEnv, struct ort_env)
FREES(ReleaseStatus, struct ort_status)
FREES(ReleaseMemoryInfo, struct ort_memory_info)
FREES(ReleaseValue, struct ort_value)
FREES(ReleaseRunOptions, struct ort_run_options)
FREES(ReleaseTensorTypeAndShapeInfo, struct ort_shape_info)
FREES(ReleaseSessionOptions, struct ort_session_options)

typedef void (*any_function)(void);

static const any_function *get_api(uint32_t version)
{
    static const any_function table[] = {
#define X(slot, result, name, params) [slot] = (any_function)name,
        ORT_FUNCTIONS(X)
#undef X
    };

    return version == ORT_API_VERSION ? table : NULL;
}

static const char *get_version(void)
{
    return "0.0.0-standin";
}

static const struct {
    const any_function *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
} base = { get_api, get_version };

PUBLIC const void *OrtGetApiBase(void);

const void *OrtGetApiBase(void)
{
    return &base;
}
