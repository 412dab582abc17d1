/* pool.h -- buffers that CUPTI fills: a bounded number, used again and again.
 *
 * When all are in use, none is given: CUPTI then drops records and counts them, and the program is
 * not slowed. From any thread. */
#ifndef DEVICE_CUDA_POOL_H
#define DEVICE_CUDA_POOL_H

#include "base/common.h"

#define POOL_BUFFER_BYTES (1u << 20)
#define POOL_BUFFERS_MAX 1024

void pool_init(size_t max_bytes);
uint8_t *pool_take(void); /* POOL_BUFFER_BYTES zeros, aligned to 8; NULL: all are in use */
void pool_give(uint8_t *buffer, size_t used); /* of which the first `used` may not be zeros */
size_t pool_refused(void);                    /* how often there was none */
void pool_release(void);                      /* buffers that are not in use */

#endif
