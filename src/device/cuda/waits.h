/* waits.h -- waits for the device as spans of category cuda_sync, out of the calls that wait.
 *
 * CUPTI has records of them, too, but a program in which hardly a call waits is slowed by those.
 * What they tell beyond the call, which stream or event is waited for, is among the call's
 * arguments. Of an event it is known which stream it was recorded on last, and which number the
 * event has here: the call that recorded it tells the same number, so that both can be brought
 * together. */
#ifndef DEVICE_CUDA_WAITS_H
#define DEVICE_CUDA_WAITS_H

#include "device/cuda/cupti.h"

/* 0, or what CUPTI says: then waits are to be had from its records only. */
int waits_enable(const struct cupti *lib, void *subscriber);

/* Functions that are about waits, by domain (driver, runtime) and number. */
#define WAITS_CBIDS_MAX 2048
struct waits_function {
    uint8_t about; /* 0: something else */
    bool ptsz;     /* a stream that is not named is the thread's own */
};
extern struct waits_function waits_functions[2][WAITS_CBIDS_MAX];

static inline bool waits_concerns(uint32_t domain, uint32_t cbid)
{
    return cbid < WAITS_CBIDS_MAX && waits_functions[domain == CUPTI_DOMAIN_RUNTIME][cbid].about;
}

/* Both ends of such a call, on the thread that makes it; times are of
 * opm_now(). The end returns facts about the call, a JSON object that is good until the thread's
 * next call, or NULL. */
void waits_enter(uint32_t domain, uint32_t cbid, const struct cupti_call *call);
const char *waits_leave(const struct cupti *lib, uint32_t domain, uint32_t cbid,
                        const struct cupti_call *call, uint64_t start, uint64_t end);

#endif
