/* marks.h -- what a program marks as its own, by NVTX or by PyTorch's record_function(): what calls
 * itself a step is one (base/step_name.h). */
#ifndef DEVICE_CUDA_MARKS_H
#define DEVICE_CUDA_MARKS_H

#include "base/common.h"

#include <opmeter/opmeter.h>

/* name ends with NUL, at len or later. */
bool marks_is_step(const char *name, size_t len);
/* A step, or a span of the category. */
opm_span marks_begin(const char *category, const char *name, size_t len);

#endif
