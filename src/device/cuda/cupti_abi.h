/* cupti_abi.h -- the part of NVIDIA's CUPTI that is used here, declared by what its documentation
 * says, so that building needs no CUDA toolkit. CUPTI itself is loaded at run time (cupti.h).
 *
 * Record layouts grow at their end from version to version: what stands here is a prefix of all
 * versions from CUPTI 11.6 to 13, and tests/device/abi.c compares it with NVIDIA's own headers
 * where those are installed. */
#ifndef DEVICE_CUDA_CUPTI_ABI_H
#define DEVICE_CUDA_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Results that mean something of their own here; all others are told by cuptiGetResultString(). */
enum cupti_result {
    CUPTI_OK = 0,
    CUPTI_OUT_OF_MEMORY = 8,
    CUPTI_MAX_LIMIT_REACHED = 12, /* no further record in the buffer */
    CUPTI_NOT_INITIALIZED = 15,
    CUPTI_NOT_SUPPORTED = 27,
    CUPTI_INSUFFICIENT_PRIVILEGES = 35,
    CUPTI_MULTIPLE_SUBSCRIBERS = 39,
    CUPTI_VIRTUAL_INSUFFICIENT_PRIVILEGES = 40,
};

/* Kinds of activity records that are asked for: name, number. */
#define CUPTI_KINDS(X)       \
    X(MEMCPY, 1)             \
    X(MEMSET, 2)             \
    X(DRIVER, 4)             \
    X(RUNTIME, 5)            \
    X(DEVICE, 8)             \
    X(CONTEXT, 9)            \
    X(CONCURRENT_KERNEL, 10) \
    X(OVERHEAD, 17)          \
    X(MEMCPY2, 22)           \
    X(SYNCHRONIZATION, 38)

enum cupti_kind {
    KIND_INVALID = 0,
#define X(name, number) KIND_##name = number,
    CUPTI_KINDS(X)
#undef X
};

#define CUPTI_RECORD __attribute__((packed, aligned(8)))

struct cupti_record {
    uint32_t kind;
} CUPTI_RECORD;

struct cupti_kernel {
    uint32_t kind;
    uint8_t cache_config;
    uint8_t shared_memory_config;
    uint16_t registers_per_thread;
    uint32_t cache_requested, cache_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t static_shared_memory, dynamic_shared_memory;
    uint32_t local_memory_per_thread, local_memory_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, carveout_requested, carveout, padding;
    uint32_t shared_memory_executed;
    uint64_t graph_node;
    uint32_t shared_memory_limit;
    uint32_t graph;
} CUPTI_RECORD;

struct cupti_memcpy {
    uint32_t kind;
    uint8_t copy_kind, src_kind, dst_kind, flags;
    uint64_t bytes;
    uint64_t start, end;
    uint32_t device, context, stream;
    uint32_t correlation, runtime_correlation;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} CUPTI_RECORD;

/* Between two devices. */
struct cupti_peer_copy {
    uint32_t kind;
    uint8_t copy_kind, src_kind, dst_kind, flags;
    uint64_t bytes;
    uint64_t start, end;
    uint32_t device, context, stream;
    uint32_t src_device, src_context, dst_device, dst_context;
    uint32_t correlation;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} CUPTI_RECORD;

struct cupti_memset {
    uint32_t kind;
    uint32_t value;
    uint64_t bytes;
    uint64_t start, end;
    uint32_t device, context, stream;
    uint32_t correlation;
    uint16_t flags, memory_kind;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} CUPTI_RECORD;

/* A call of the runtime or the driver. */
struct cupti_api {
    uint32_t kind;
    uint32_t cbid;
    uint64_t start, end;
    uint32_t process, thread;
    uint32_t correlation;
    uint32_t result;
} CUPTI_RECORD;

struct cupti_synchronization {
    uint32_t kind;
    uint32_t type;
    uint64_t start, end;
    uint32_t correlation;
    uint32_t context, stream, event;
} CUPTI_RECORD;

struct cupti_overhead {
    uint32_t kind;
    uint32_t overhead_kind;
    uint32_t object_kind;
    uint32_t object[3]; /* process and thread, or device, context and stream */
    uint64_t start, end;
} CUPTI_RECORD;

struct cupti_context {
    uint32_t kind;
    uint32_t context, device;
    uint16_t api_kind, null_stream;
} CUPTI_RECORD;

struct cupti_device {
    uint32_t kind;
    uint32_t flags;
    uint64_t memory_bandwidth; /* kB/s */
    uint64_t memory_bytes;
    uint32_t constant_bytes, l2_bytes;
    uint32_t warp_threads, core_clock_khz, copy_engines;
    uint32_t sms, max_ipc;
    uint32_t sm_warps, sm_blocks, sm_shared_memory, sm_registers;
    uint32_t block_registers, block_shared_memory, block_threads;
    uint32_t block_dim[3], grid_dim[3];
    uint32_t major, minor;
    uint32_t id;
    uint32_t ecc;
    uint8_t uuid[16];
    const char *name;
} CUPTI_RECORD;

/* Numbers of enumerations in records. */
enum { CUPTI_OBJECT_THREAD = 2 };
enum { CUPTI_THREAD_ID_SYSTEM = 1 };
enum { CUPTI_FLUSH_FORCED = 1 };
/* Attributes that are a uint8_t; all others are a size_t. */
enum {
    CUPTI_ATTRIBUTE_ZEROED = 5,     /* buffers are given zeroed */
    CUPTI_ATTRIBUTE_HOST_PINNED = 8 /* times of the device are kept in memory of the host */
};
enum {
    CUPTI_DOMAIN_DRIVER = 1,
    CUPTI_DOMAIN_RUNTIME = 2,
    CUPTI_DOMAIN_RESOURCE = 3,
    CUPTI_DOMAIN_STATE = 6
};
enum { CUPTI_CBID_DEVICE_RESET = 164 }; /* cudaDeviceReset() */
enum { CUPTI_CBID_NODE_CREATED = 13, CUPTI_CBID_NODE_CLONED = 20 };
#define CUPTI_NO_ID 0xffffffffu /* of a stream or context in synchronization records */
enum { CUPTI_STREAM_LEGACY = 1, CUPTI_STREAM_PER_THREAD = 2 }; /* handles that are none */

struct cupti_state {
    int result;
    const char *message;
};

enum { CUPTI_CALL_ENTER = 0, CUPTI_CALL_EXIT = 1 };

/* A call of the runtime or the driver that begins or ends. */
struct cupti_call {
    int site;
    const char *function;
    const void *parameters; /* a struct of them */
    const int *result;      /* when it ends */
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *data; /* the same for both ends, to keep something in */
    uint32_t correlation;
};

/* Something that was made, of which the descriptor tells. */
struct cupti_resource {
    void *context;
    void *handle;
    void *descriptor;
};

/* The descriptor of a node of a graph. */
struct cupti_graph {
    void *graph, *original_graph;
    void *node, *original_node;
    int node_type;
    void *dependency;
    void *exec;
};

struct cupti_subscriber_options {
    size_t size;
    const char *name;
    char *other; /* gets the name of whoever has subscribed already */
    size_t other_size;
};

typedef void (*cupti_callback)(void *user, uint32_t domain, uint32_t cbid, const void *data);
typedef void (*cupti_buffer_request)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*cupti_buffer_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                      size_t valid);
typedef uint64_t (*cupti_clock)(void);

/* Functions: name, whether recording is impossible without it, parameters. */
#define CUPTI_FUNCTIONS(X)                                                                       \
    X(GetVersion, 1, (uint32_t * version))                                                       \
    X(GetResultString, 1, (int result, const char **text))                                       \
    X(GetTimestamp, 1, (uint64_t * ns))                                                          \
    X(Subscribe, 1, (void **subscriber, cupti_callback callback, void *user))                    \
    X(Subscribe_v2, 0,                                                                           \
      (void **subscriber, cupti_callback callback, void *user,                                   \
       struct cupti_subscriber_options *options))                                                \
    X(Unsubscribe, 1, (void *subscriber))                                                        \
    X(EnableCallback, 1, (uint32_t enable, void *subscriber, uint32_t domain, uint32_t cbid))    \
    X(EnableDomain, 1, (uint32_t enable, void *subscriber, uint32_t domain))                     \
    X(GetCallbackName, 1, (uint32_t domain, uint32_t cbid, const char **name))                   \
    X(GetGraphNodeId, 0, (void *node, uint64_t *id))                                             \
    X(GetStreamIdEx, 0, (void *context, void *stream, uint8_t per_thread, uint32_t *id))         \
    X(GetDeviceId, 0, (void *context, uint32_t *id))                                             \
    X(SetThreadIdType, 1, (uint32_t type))                                                       \
    X(ActivityRegisterCallbacks, 1,                                                              \
      (cupti_buffer_request request, cupti_buffer_complete complete))                            \
    X(ActivityRegisterTimestampCallback, 0, (cupti_clock clock))                                 \
    X(ActivitySetAttribute, 0, (uint32_t attribute, size_t * size, void *value))                 \
    X(ActivityEnable, 1, (uint32_t kind))                                                        \
    X(ActivityDisable, 1, (uint32_t kind))                                                       \
    X(ActivityEnableDriverApi, 0, (uint32_t cbid, uint8_t enable))                               \
    X(ActivityGetNextRecord, 1, (uint8_t * buffer, size_t valid, struct cupti_record * *record)) \
    X(ActivityGetNumDroppedRecords, 1, (void *context, uint32_t stream, size_t *dropped))        \
    X(ActivityFlushAll, 1, (uint32_t flag))

#endif
