/* records.h -- CUPTI's activity records into spans, by the public recording API.
 *
 * Lines: a stream each for kernels, copies and fills; the program's own threads for calls of the
 * runtime and the driver, so that they stand inside the operators that made them; one for
 * synchronization and one for CUPTI's overhead. A call and what it launched share a correlation
 * number. Names, categories and facts are those of PyTorch's own traces, so that every report and
 * query serves both.
 *
 * Records may come in any order. Not for concurrent use. */
#ifndef DEVICE_CUDA_RECORDS_H
#define DEVICE_CUDA_RECORDS_H

#include "device/cuda/clock.h"
#include "device/cuda/names.h"

#define RECORDS_DEVICES_MAX 64

struct records {
    const struct cupti *lib;
    const struct cuda_clock *clock;
    struct names names;
    struct u64map threads;  /* id of a thread to its track */
    struct u64map streams;  /* device, context and stream to a track */
    struct u64map contexts; /* context to device + 1 */
    struct u64map calls;    /* domain and number of a function to its name */
    struct cupti_device device[RECORDS_DEVICES_MAX]; /* sms 0: not known */
    uint32_t first_context[RECORDS_DEVICES_MAX];     /* seen on the device; 0: none yet */
    opm_track *synchronization, *overhead;
    uint64_t taken;
    uint64_t unknown;    /* of kinds that nobody asked for */
    uint64_t unfinished; /* without an end: flushed before the device had done it */
    uint64_t no_memory;
};

void records_init(struct records *r, const struct cupti *lib, const struct cuda_clock *clock);
void records_take(struct records *r, const struct cupti_record *record);
void records_release(struct records *r);

#endif
