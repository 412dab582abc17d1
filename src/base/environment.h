/* environment.h -- the environment: the only place that reads it, and what the ancestors'
 * variables ask for and where that goes.
 *
 * Header-only, because the recorder uses it inside other people's programs. Some of those have
 * privileges that the user who started them lacks (set-uid, set-gid, file capabilities); in them,
 * variables do not exist, and nothing is started, loaded or written on the word of the user. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include "base/common.h"
#include <stdlib.h>
#include <string.h>
#ifndef OPMETER_MINIMAL /* otherwise base/posix.h is included already */
#include <sys/auxv.h>
#endif

/* Neural Engine's layout; the format takes a time as below and the number of the instance. */
#define ENVIRONMENT_ENGINE_ROOT "engine_profiling"
#define ENVIRONMENT_ENGINE_CSV_DIR ENVIRONMENT_ENGINE_ROOT "/profiling_csv"
#define ENVIRONMENT_ENGINE_TRACE_DIR ENVIRONMENT_ENGINE_ROOT "/profiling_trace"
#define ENVIRONMENT_ENGINE_FILE "profiling_%s_%d"
#define ENVIRONMENT_TIME "%Y-%m-%d_%H-%M-%S"
#define ENVIRONMENT_TENSORFLOW_DIR "profile"
#define ENVIRONMENT_INSTANCES_MAX 100000

/* Does this program have privileges that whoever started it lacks? */
static inline bool environment_privileged(void)
{
#ifdef OPMETER_MINIMAL
    return posix_privileged();
#else
    return getauxval(AT_SECURE) != 0;
#endif
}

/* The value of a variable that is set and not empty, else NULL. NULL in a privileged program. */
static inline const char *environment_get(const char *name)
{
    const char *value = secure_getenv(name);

    return value && *value ? value : NULL;
}

/* OPMETER_OVERWRITE: files that are not ours may be written over. */
static inline bool environment_overwrite(void)
{
    const char *value = environment_get("OPMETER_OVERWRITE");

    return value && strcmp(value, "0") != 0;
}

/* ENGINE_PROFILING: 0 and empty mean off, anything else on. */
static inline bool environment_engine_profiling(void)
{
    const char *value = environment_get("ENGINE_PROFILING");

    return value && strcmp(value, "0") != 0;
}

/* Where Furiosa's Chrome trace goes, by the name of today or the one before; NULL: nowhere. */
static inline const char *environment_furiosa_output(void)
{
    const char *value = environment_get("FURIOSA_PROFILER_OUTPUT_PATH");

    return value ? value : environment_get("NUX_PROFILER_PATH");
}

/* Where Cambricon's files go. */
static inline const char *environment_tensorflow_dir(void)
{
    const char *value = environment_get("TF_PROFILE_LOGDIR");

    return value ? value : ENVIRONMENT_TENSORFLOW_DIR;
}

/* TENSORFLOW_MODELS_TRACE_LEVEL as a level of ours: 0 off; 1 (software) application and framework;
 * 2 (hardware), 3 (full) and more all layers. */
static inline int environment_tensorflow_level(void)
{
    const char *value = environment_get("TENSORFLOW_MODELS_TRACE_LEVEL");
    long level = value ? strtol(value, NULL, 10) : 0;

    return level <= 0 ? 0 : level == 1 ? 2 : 3;
}

/* The points that bound the step trace: the documented name or the one that was really read. */
static inline const char *environment_fp_point(void)
{
    const char *value = environment_get("PROFILING_FP_START");

    return value ? value : environment_get("FP_POINT");
}

static inline const char *environment_bp_point(void)
{
    const char *value = environment_get("PROFILING_BP_END");

    return value ? value : environment_get("BP_POINT");
}

/* The first of some variables that holds a number of at least 0; -1: none does. */
static inline int64_t environment_number(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *value = environment_get(names[i]);
        char *end = NULL;
        long long v = value ? strtoll(value, &end, 10) : -1;

        if (value && !*end && v >= 0)
            return v;
    }
    return -1;
}

/* Number of this process in a distributed job, as torchrun, Open MPI, Slurm or MPICH say it, and
 * how many there are; -1: it is no part of one. */
static inline int64_t environment_rank(void)
{
    static const char *const names[] = { "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID",
                                         "PMI_RANK" };

    return environment_number(names, ARRAY_SIZE(names));
}

static inline int64_t environment_ranks(void)
{
    static const char *const names[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS",
                                         "PMI_SIZE" };

    return environment_number(names, ARRAY_SIZE(names));
}

/* Name of the distributed job that this process is part of, as torchrun, Slurm, LSF, PBS, Open MPI
 * or MPICH say it; NULL: it is no part of one. */
static inline const char *environment_job(void)
{
    static const char *const names[] = {
        "TORCHELASTIC_RUN_ID",     "SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "PMIX_NAMESPACE",
        "OMPI_MCA_ess_base_jobid", "PMI_JOBID"
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *value = environment_get(names[i]);

        if (value && strcmp(value, "none") != 0) /* torchrun's word for no name */
            return value;
    }
    return NULL;
}

/* INST_NUM: at least 1. */
static inline int environment_instances(void)
{
    const char *value = environment_get("INST_NUM");
    long n = value ? strtol(value, NULL, 10) : 1;

    return n < 1 ? 1 : (int)MIN(n, ENVIRONMENT_INSTANCES_MAX);
}

#endif
