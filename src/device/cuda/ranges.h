/* ranges.h -- what is open on the calling thread: NVTX ranges, and operators and marks of PyTorch.
 *
 * Spans of a thread nest, ranges need not: NVTX's domains nest each by itself, and an operator may
 * end on another thread. What is closed out of turn stays until those inside it have gone. */
#ifndef DEVICE_CUDA_RANGES_H
#define DEVICE_CUDA_RANGES_H

#include <opmeter/opmeter.h>

/* How many are open. */
int ranges_depth(void);
/* Room for one more, which the caller fills with its span; NULL: too many, that one is not
 * recorded, and its end is known by the count. */
opm_span *ranges_open(const void *key);
/* Close the innermost of this key; its depth, or -1: there is none. */
int ranges_close(const void *key);
/* Close it and all that was opened inside it: for what is known to nest on its thread, so that
 * whatever is still open in it ended elsewhere. */
void ranges_close_through(const void *key);

#endif
