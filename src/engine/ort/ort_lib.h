/* ort_lib.h -- ONNX Runtime's C interface, found and bound when it is needed.
 *
 * No header of ONNX Runtime is used. Its interface is a table of functions that only ever grows, so
 * a function's place in the table is its name; ORT_API_VERSION is the first version whose table
 * has all the places below, which accepts the widest range of libraries (1.5 and later). */
#ifndef ENGINE_ORT_LIB_H
#define ENGINE_ORT_LIB_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct ort_status;
struct ort_env;
struct ort_session_options;
struct ort_run_options;
struct ort_session;
struct ort_value;
struct ort_memory_info;
struct ort_allocator;
struct ort_shape_info; /* OrtTensorTypeAndShapeInfo */

#define ORT_API_VERSION 5

/* clang-format off */
/* X(slot, result, name, parameters). Results of type struct ort_status * are NULL when all went
 * well, else to be freed with ReleaseStatus. */
#define ORT_FUNCTIONS(X)                                                                          \
    X(2, const char *, GetErrorMessage, (const struct ort_status *))                              \
    X(3, struct ort_status *, CreateEnv, (int level, const char *id, struct ort_env **))          \
    X(7, struct ort_status *, CreateSession,                                                      \
      (const struct ort_env *, const char *path, const struct ort_session_options *,              \
       struct ort_session **))                                                                    \
    X(8, struct ort_status *, CreateSessionFromArray,                                             \
      (const struct ort_env *, const void *, size_t, const struct ort_session_options *,          \
       struct ort_session **))                                                                    \
    X(9, struct ort_status *, Run,                                                                \
      (struct ort_session *, const struct ort_run_options *, const char *const *in_names,         \
       const struct ort_value *const *in, size_t nin, const char *const *out_names, size_t nout,  \
       struct ort_value **out))                                                                   \
    X(10, struct ort_status *, CreateSessionOptions, (struct ort_session_options **))             \
    X(14, struct ort_status *, EnableProfiling, (struct ort_session_options *, const char *prefix)) \
    X(22, struct ort_status *, SetSessionLogSeverityLevel, (struct ort_session_options *, int))   \
    X(23, struct ort_status *, SetSessionGraphOptimizationLevel,                                  \
      (struct ort_session_options *, int))                                                        \
    X(24, struct ort_status *, SetIntraOpNumThreads, (struct ort_session_options *, int))         \
    X(25, struct ort_status *, SetInterOpNumThreads, (struct ort_session_options *, int))         \
    X(39, struct ort_status *, CreateRunOptions, (struct ort_run_options **))                     \
    X(46, struct ort_status *, RunOptionsSetTerminate, (struct ort_run_options *))                \
    X(47, struct ort_status *, RunOptionsUnsetTerminate, (struct ort_run_options *))              \
    X(49, struct ort_status *, CreateTensorWithDataAsOrtValue,                                    \
      (const struct ort_memory_info *, void *, size_t, const int64_t *dims, size_t ndim, int type, \
       struct ort_value **))                                                                      \
    X(50, struct ort_status *, IsTensor, (const struct ort_value *, int *))                       \
    X(51, struct ort_status *, GetTensorMutableData, (struct ort_value *, void **))               \
    X(60, struct ort_status *, GetTensorElementType, (const struct ort_shape_info *, int *))      \
    X(61, struct ort_status *, GetDimensionsCount, (const struct ort_shape_info *, size_t *))     \
    X(62, struct ort_status *, GetDimensions, (const struct ort_shape_info *, int64_t *, size_t)) \
    X(65, struct ort_status *, GetTensorTypeAndShape,                                             \
      (const struct ort_value *, struct ort_shape_info **))                                       \
    X(69, struct ort_status *, CreateCpuMemoryInfo, (int allocator, int mem, struct ort_memory_info **)) \
    X(76, struct ort_status *, AllocatorFree, (struct ort_allocator *, void *))                   \
    X(78, struct ort_status *, GetAllocatorWithDefaultOptions, (struct ort_allocator **))         \
    X(92, void, ReleaseEnv, (struct ort_env *))                                                   \
    X(93, void, ReleaseStatus, (struct ort_status *))                                             \
    X(94, void, ReleaseMemoryInfo, (struct ort_memory_info *))                                    \
    X(95, void, ReleaseSession, (struct ort_session *))                                           \
    X(96, void, ReleaseValue, (struct ort_value *))                                               \
    X(97, void, ReleaseRunOptions, (struct ort_run_options *))                                    \
    X(99, void, ReleaseTensorTypeAndShapeInfo, (struct ort_shape_info *))                         \
    X(100, void, ReleaseSessionOptions, (struct ort_session_options *))                           \
    X(110, struct ort_status *, SessionEndProfiling,                                              \
      (struct ort_session *, struct ort_allocator *, char **))                                    \
    X(146, struct ort_status *, SessionGetProfilingStartTimeNs,                                   \
      (const struct ort_session *, uint64_t *))
/* clang-format on */

struct ort_api {
#define X(slot, result, name, params) result(*name) params;
    ORT_FUNCTIONS(X)
#undef X
    const char *version; /* "1.30.0" */
    char path[512];      /* of the library */
};

/* Load the library `path`, or if it is NULL the first that is found: $OPMETER_ORT_LIB, the loader's
 * path, Python wheels, npm packages from the current folder upwards. It stays loaded: its threads
 * and static objects do not survive being unloaded. */
int ort_lib_open(struct ort_api *api, const char *path, opm_error *err);

#endif
