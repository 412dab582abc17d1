/* memory.h -- memory for tensors: aligned for every vector, in huge pages where it is big. */
#ifndef NATIVE_MEMORY_H
#define NATIVE_MEMORY_H

#include "base/common.h"

#define NATIVE_ALIGN 64

/* Like mem_alloc(), aligned to NATIVE_ALIGN. */
void *native_alloc(size_t bytes);
void native_free(void *p); /* NULL is fine */

#endif
