/* peak_loops.h -- loops that do as much as a core can, with the instructions that the engine's
 * kernels use; what peak.c measures. Each returns the operations or the bytes that it did. */
#ifndef RUN_PEAK_LOOPS_H
#define RUN_PEAK_LOOPS_H

#include "base/common.h"

/* Whether peak_forget() has a way to do it. */
#if defined(__x86_64__)
#define PEAK_FORGETS 1
#else
#define PEAK_FORGETS 0
#endif

double peak_fp32(long loops, float *sink);
double peak_int8(long loops, float *sink);
/* p is aligned to a page, bytes a multiple of 4096. */
double peak_read(const char *p, size_t bytes, float *sink);
double peak_update(char *p, size_t bytes);
/* Take it out of all caches. */
void peak_forget(const char *p, size_t bytes);

#endif
