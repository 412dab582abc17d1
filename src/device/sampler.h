/* sampler.h -- hardware samples, taken at a rate by a thread of their own.
 *
 * What is read: load and frequency of the cores and memory of the machine, processor time, memory,
 * threads, context switches, page faults and I/O of a process and all that it started, and what
 * NVML says of GPUs where it is installed. Each value is a gauge of the recording that this process
 * has under way (opmeter.h); rates are over the time since the sample before.
 *
 * The cost is measured: the processor time of the thread. What cannot be read is left out, never
 * shown as 0. */
#ifndef DEVICE_SAMPLER_H
#define DEVICE_SAMPLER_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>
#include <sys/types.h>

#define SAMPLER_HZ_MAX 1000

struct sampler_stats {
    uint64_t rounds;  /* times that everything was read */
    uint64_t late;    /* rounds that were due and left out, because the one before took too long */
    uint64_t samples; /* values recorded */
    int64_t cpu_ns;   /* processor time that it took */
    int64_t wall_ns;
    int processes; /* that were seen */
    int gpus;
    char no_gpu[160]; /* why there is none */
};

struct sampler;

/* Sample hz times a second the machine and what descends from root, while a recording is on. Stop
 * with sampler_stop(). */
int sampler_start(struct sampler **out, double hz, pid_t root, opm_error *err);
void sampler_stop(struct sampler *s, struct sampler_stats *out); /* frees it; NULL is fine */

#endif
