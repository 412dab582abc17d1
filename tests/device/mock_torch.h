/* mock_torch.h -- what mock_torch.cc offers to a program in C. */
#ifndef TESTS_DEVICE_MOCK_TORCH_H
#define TESTS_DEVICE_MOCK_TORCH_H

#include <stdint.h>

enum { SCOPE_FUNCTION = 0, SCOPE_BACKWARD = 1, SCOPE_USER = 7, SCOPES = 10 };

/* As loaded: MOCK_TORCH(X) lists what there is. */
#define MOCK_TORCH(X)                                                                       \
    X(void *, tensor, (const int64_t *dims, uint64_t rank, uint16_t type))                  \
    X(void *, undefined, (void))                                                            \
    X(int, observers, (void))                                                               \
    X(void *, begin, (const char *name, int scope, int async, void *const *tensors, int n)) \
    X(void, end, (void *call))

#endif
