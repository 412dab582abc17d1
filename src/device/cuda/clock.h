/* clock.h -- CUPTI's times as ticks of the recorder's clock.
 *
 * CUPTI takes its time from a function of ours, in ns: the recorder's ticks times a fixed rate, so
 * that turning a time back into ticks is exact, whatever the true rate is. A CUPTI that does not
 * take the function keeps its own clock; then pairs of readings tie the two together. */
#ifndef DEVICE_CUDA_CLOCK_H
#define DEVICE_CUDA_CLOCK_H

#include "device/cuda/cupti.h"

struct cuda_clock {
    bool own; /* CUPTI reads our clock */
    /* Else: the first pair and the newest. */
    uint64_t ns[2];
    uint64_t ticks[2];
    int64_t error_ns; /* the widest that any reading left the two apart; -1 before the first */
};

/* Before any kind of record is enabled. */
void cuda_clock_init(struct cuda_clock *c, const struct cupti *lib);
/* Read both clocks; keeps the worst error seen, and the tie between foreign clocks. */
void cuda_clock_read(struct cuda_clock *c, const struct cupti *lib);
uint64_t cuda_clock_ticks(const struct cuda_clock *c, uint64_t ns);
/* What CUPTI is told the time is. */
uint64_t cuda_clock_now(void);

#endif
