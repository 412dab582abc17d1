/* nvtx_abi.h -- how an NVTX header, compiled into a program, talks to a tool: the part of it that
 * is used here, declared by what its documentation says. tests/device/abi.c compares it with
 * NVIDIA's headers where those are installed. */
#ifndef DEVICE_CUDA_NVTX_ABI_H
#define DEVICE_CUDA_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum { NVTX_TABLE_CALLBACKS = 1 };
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };
enum { NVTX_TEXT_ASCII = 1, NVTX_TEXT_WIDE = 2, NVTX_TEXT_REGISTERED = 3 };

struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t text_type;
    const void *text; /* char, wchar_t, or what registering a string gave */
};

typedef void (*nvtx_function)(void);

struct nvtx_callbacks {
    size_t size;
    int (*module_functions)(int module, nvtx_function ***table, unsigned *count);
};

typedef const void *(*nvtx_export_table)(uint32_t id);

/* Functions of a module that are taken over: number in its table, name, type, parameters. */
#define NVTX_CORE_FUNCTIONS(X)                                      \
    X(1, MarkEx, void, (const struct nvtx_attributes *a))           \
    X(2, MarkA, void, (const char *text))                           \
    X(3, MarkW, void, (const wchar_t *text))                        \
    X(4, RangeStartEx, uint64_t, (const struct nvtx_attributes *a)) \
    X(5, RangeStartA, uint64_t, (const char *text))                 \
    X(6, RangeStartW, uint64_t, (const wchar_t *text))              \
    X(7, RangeEnd, void, (uint64_t id))                             \
    X(8, RangePushEx, int, (const struct nvtx_attributes *a))       \
    X(9, RangePushA, int, (const char *text))                       \
    X(10, RangePushW, int, (const wchar_t *text))                   \
    X(11, RangePop, int, (void))

#define NVTX_CORE2_FUNCTIONS(X)                                                         \
    X(1, DomainMarkEx, void, (void *domain, const struct nvtx_attributes *a))           \
    X(2, DomainRangeStartEx, uint64_t, (void *domain, const struct nvtx_attributes *a)) \
    X(3, DomainRangeEnd, void, (void *domain, uint64_t id))                             \
    X(4, DomainRangePushEx, int, (void *domain, const struct nvtx_attributes *a))       \
    X(5, DomainRangePop, int, (void *domain))                                           \
    X(10, DomainRegisterStringA, void *, (void *domain, const char *text))              \
    X(11, DomainRegisterStringW, void *, (void *domain, const wchar_t *text))           \
    X(12, DomainCreateA, void *, (const char *name))                                    \
    X(13, DomainCreateW, void *, (const wchar_t *name))                                 \
    X(14, DomainDestroy, void, (void *domain))

#endif
