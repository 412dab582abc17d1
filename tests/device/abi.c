/* abi.c -- what we declare of CUPTI and NVTX is what NVIDIA's headers declare. Built only where
 * those are installed; there is nothing to run. */
#include "device/cuda/cupti_abi.h"
#include "device/cuda/nvtx_abi.h"

#include <assert.h>
#include <cupti.h>
#include <nvtx3/nvToolsExt.h>

/* Field `ours` of a record lies where `theirs` does and is as large. */
#define SAME(our_struct, ours, their_struct, theirs)                                     \
    static_assert(offsetof(struct our_struct, ours) == offsetof(their_struct, theirs) && \
                      sizeof(((struct our_struct *)0)->ours) ==                          \
                          sizeof(((their_struct *)0)->theirs),                           \
                  #their_struct "." #theirs)

#define EQUAL(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)

#define KERNEL(version)                                                      \
    SAME(cupti_kernel, kind, version, kind);                                 \
    SAME(cupti_kernel, registers_per_thread, version, registersPerThread);   \
    SAME(cupti_kernel, start, version, start);                               \
    SAME(cupti_kernel, end, version, end);                                   \
    SAME(cupti_kernel, device, version, deviceId);                           \
    SAME(cupti_kernel, context, version, contextId);                         \
    SAME(cupti_kernel, stream, version, streamId);                           \
    SAME(cupti_kernel, grid[0], version, gridX);                             \
    SAME(cupti_kernel, grid[2], version, gridZ);                             \
    SAME(cupti_kernel, block[0], version, blockX);                           \
    SAME(cupti_kernel, block[2], version, blockZ);                           \
    SAME(cupti_kernel, static_shared_memory, version, staticSharedMemory);   \
    SAME(cupti_kernel, dynamic_shared_memory, version, dynamicSharedMemory); \
    SAME(cupti_kernel, correlation, version, correlationId);                 \
    SAME(cupti_kernel, name, version, name);                                 \
    SAME(cupti_kernel, graph_node, version, graphNodeId);                    \
    SAME(cupti_kernel, graph, version, graphId);                             \
    static_assert(sizeof(struct cupti_kernel) <= sizeof(version), #version)

KERNEL(CUpti_ActivityKernel7);
KERNEL(CUpti_ActivityKernel8);
KERNEL(CUpti_ActivityKernel9);
#if CUPTI_API_VERSION >= 130000
KERNEL(CUpti_ActivityKernel10);
#endif

#define MEMCPY(version)                                      \
    SAME(cupti_memcpy, copy_kind, version, copyKind);        \
    SAME(cupti_memcpy, src_kind, version, srcKind);          \
    SAME(cupti_memcpy, dst_kind, version, dstKind);          \
    SAME(cupti_memcpy, bytes, version, bytes);               \
    SAME(cupti_memcpy, start, version, start);               \
    SAME(cupti_memcpy, end, version, end);                   \
    SAME(cupti_memcpy, device, version, deviceId);           \
    SAME(cupti_memcpy, context, version, contextId);         \
    SAME(cupti_memcpy, stream, version, streamId);           \
    SAME(cupti_memcpy, correlation, version, correlationId); \
    SAME(cupti_memcpy, graph_node, version, graphNodeId);    \
    static_assert(sizeof(struct cupti_memcpy) <= sizeof(version), #version)

MEMCPY(CUpti_ActivityMemcpy5);
#if CUPTI_API_VERSION >= 130000
MEMCPY(CUpti_ActivityMemcpy6);
#endif

SAME(cupti_peer_copy, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
SAME(cupti_peer_copy, start, CUpti_ActivityMemcpyPtoP4, start);
SAME(cupti_peer_copy, end, CUpti_ActivityMemcpyPtoP4, end);
SAME(cupti_peer_copy, stream, CUpti_ActivityMemcpyPtoP4, streamId);
SAME(cupti_peer_copy, src_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(cupti_peer_copy, dst_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME(cupti_peer_copy, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(cupti_peer_copy, graph_node, CUpti_ActivityMemcpyPtoP4, graphNodeId);

SAME(cupti_memset, bytes, CUpti_ActivityMemset4, bytes);
SAME(cupti_memset, start, CUpti_ActivityMemset4, start);
SAME(cupti_memset, end, CUpti_ActivityMemset4, end);
SAME(cupti_memset, device, CUpti_ActivityMemset4, deviceId);
SAME(cupti_memset, stream, CUpti_ActivityMemset4, streamId);
SAME(cupti_memset, correlation, CUpti_ActivityMemset4, correlationId);
SAME(cupti_memset, memory_kind, CUpti_ActivityMemset4, memoryKind);
SAME(cupti_memset, graph_node, CUpti_ActivityMemset4, graphNodeId);

SAME(cupti_api, cbid, CUpti_ActivityAPI, cbid);
SAME(cupti_api, start, CUpti_ActivityAPI, start);
SAME(cupti_api, end, CUpti_ActivityAPI, end);
SAME(cupti_api, thread, CUpti_ActivityAPI, threadId);
SAME(cupti_api, correlation, CUpti_ActivityAPI, correlationId);
SAME(cupti_api, result, CUpti_ActivityAPI, returnValue);

SAME(cupti_synchronization, type, CUpti_ActivitySynchronization, type);
SAME(cupti_synchronization, start, CUpti_ActivitySynchronization, start);
SAME(cupti_synchronization, end, CUpti_ActivitySynchronization, end);
SAME(cupti_synchronization, correlation, CUpti_ActivitySynchronization, correlationId);
SAME(cupti_synchronization, context, CUpti_ActivitySynchronization, contextId);
SAME(cupti_synchronization, stream, CUpti_ActivitySynchronization, streamId);

SAME(cupti_overhead, overhead_kind, CUpti_ActivityOverhead, overheadKind);
SAME(cupti_overhead, object_kind, CUpti_ActivityOverhead, objectKind);
SAME(cupti_overhead, object, CUpti_ActivityOverhead, objectId);
SAME(cupti_overhead, start, CUpti_ActivityOverhead, start);
SAME(cupti_overhead, end, CUpti_ActivityOverhead, end);

SAME(cupti_context, context, CUpti_ActivityContext2, contextId);
SAME(cupti_context, device, CUpti_ActivityContext2, deviceId);

#define DEVICE(version)                                                              \
    SAME(cupti_device, memory_bandwidth, version, globalMemoryBandwidth);            \
    SAME(cupti_device, memory_bytes, version, globalMemorySize);                     \
    SAME(cupti_device, l2_bytes, version, l2CacheSize);                              \
    SAME(cupti_device, warp_threads, version, numThreadsPerWarp);                    \
    SAME(cupti_device, sms, version, numMultiprocessors);                            \
    SAME(cupti_device, sm_warps, version, maxWarpsPerMultiprocessor);                \
    SAME(cupti_device, sm_blocks, version, maxBlocksPerMultiprocessor);              \
    SAME(cupti_device, sm_shared_memory, version, maxSharedMemoryPerMultiprocessor); \
    SAME(cupti_device, sm_registers, version, maxRegistersPerMultiprocessor);        \
    SAME(cupti_device, major, version, computeCapabilityMajor);                      \
    SAME(cupti_device, id, version, id);                                             \
    SAME(cupti_device, name, version, name)

DEVICE(CUpti_ActivityDevice4);
DEVICE(CUpti_ActivityDevice5);

#define X(name, number) static_assert(CUPTI_ACTIVITY_KIND_##name == (number), #name);
CUPTI_KINDS(X)
#undef X

EQUAL(CUPTI_OK, CUPTI_SUCCESS);
EQUAL(CUPTI_OUT_OF_MEMORY, CUPTI_ERROR_OUT_OF_MEMORY);
EQUAL(CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
EQUAL(CUPTI_NOT_SUPPORTED, CUPTI_ERROR_NOT_SUPPORTED);
EQUAL(CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
EQUAL(CUPTI_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
EQUAL(CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
EQUAL(CUPTI_VIRTUAL_INSUFFICIENT_PRIVILEGES,
      CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
EQUAL(CUPTI_OBJECT_THREAD, CUPTI_ACTIVITY_OBJECT_THREAD);
EQUAL(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
EQUAL(CUPTI_ATTRIBUTE_ZEROED, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
EQUAL(CUPTI_ATTRIBUTE_HOST_PINNED, CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED);
EQUAL(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
EQUAL(CUPTI_CALL_ENTER, CUPTI_API_ENTER);
EQUAL(CUPTI_CALL_EXIT, CUPTI_API_EXIT);
SAME(cupti_call, site, CUpti_CallbackData, callbackSite);
SAME(cupti_call, result, CUpti_CallbackData, functionReturnValue);
SAME(cupti_call, parameters, CUpti_CallbackData, functionParams);
SAME(cupti_call, context, CUpti_CallbackData, context);
SAME(cupti_call, context_id, CUpti_CallbackData, contextUid);
SAME(cupti_call, data, CUpti_CallbackData, correlationData);
SAME(cupti_call, correlation, CUpti_CallbackData, correlationId);

/* Of functions that are about waits: streams and events, in this order. */
#define FIRST(params, field)                                                                      \
    static_assert(offsetof(params, field) == 0 && sizeof(((params *)0)->field) == sizeof(void *), \
                  #params)
#define SECOND(params, field)                                         \
    static_assert(offsetof(params, field) == sizeof(void *) &&        \
                      sizeof(((params *)0)->field) == sizeof(void *), \
                  #params)
FIRST(cudaStreamSynchronize_v3020_params, stream);
FIRST(cudaStreamSynchronize_ptsz_v7000_params, stream);
FIRST(cudaEventSynchronize_v3020_params, event);
FIRST(cudaEventDestroy_v3020_params, event);
FIRST(cudaEventRecord_v3020_params, event);
SECOND(cudaEventRecord_v3020_params, stream);
FIRST(cudaEventRecord_ptsz_v7000_params, event);
SECOND(cudaEventRecord_ptsz_v7000_params, stream);
FIRST(cudaEventRecordWithFlags_v11010_params, event);
SECOND(cudaEventRecordWithFlags_v11010_params, stream);
FIRST(cudaStreamWaitEvent_v3020_params, stream);
SECOND(cudaStreamWaitEvent_v3020_params, event);
FIRST(cudaStreamWaitEvent_ptsz_v7000_params, stream);
SECOND(cudaStreamWaitEvent_ptsz_v7000_params, event);
FIRST(cuStreamSynchronize_params, hStream);
FIRST(cuEventSynchronize_params, hEvent);
FIRST(cuEventDestroy_v2_params, hEvent);
FIRST(cuEventRecord_params, hEvent);
SECOND(cuEventRecord_params, hStream);
FIRST(cuEventRecordWithFlags_params, hEvent);
SECOND(cuEventRecordWithFlags_params, hStream);
FIRST(cuStreamWaitEvent_params, hStream);
SECOND(cuStreamWaitEvent_params, hEvent);
EQUAL(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
EQUAL(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
EQUAL(CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
EQUAL(CUPTI_CBID_NODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
EQUAL(CUPTI_CBID_NODE_CLONED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
SAME(cupti_resource, descriptor, CUpti_ResourceData, resourceDescriptor);
SAME(cupti_graph, node, CUpti_GraphData, node);
SAME(cupti_graph, original_node, CUpti_GraphData, originalNode);
EQUAL(CUPTI_DOMAIN_STATE, CUPTI_CB_DOMAIN_STATE);
EQUAL(CUPTI_CBID_DEVICE_RESET, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020);

#if CUPTI_API_VERSION >= 130000
SAME(cupti_subscriber_options, size, CUpti_SubscriberParams, structSize);
SAME(cupti_subscriber_options, name, CUpti_SubscriberParams, subscriberName);
SAME(cupti_subscriber_options, other, CUpti_SubscriberParams, oldSubscriberName);
SAME(cupti_subscriber_options, other_size, CUpti_SubscriberParams, oldSubscriberSize);
static_assert(sizeof(struct cupti_subscriber_options) == CUpti_SubscriberParams_STRUCT_SIZE,
              "parameters of a subscription");
#endif

SAME(nvtx_attributes, size, nvtxEventAttributes_t, size);
SAME(nvtx_attributes, category, nvtxEventAttributes_t, category);
SAME(nvtx_attributes, payload, nvtxEventAttributes_t, payload);
SAME(nvtx_attributes, text_type, nvtxEventAttributes_t, messageType);
SAME(nvtx_attributes, text, nvtxEventAttributes_t, message);
SAME(nvtx_callbacks, size, NvtxExportTableCallbacks, struct_size);
SAME(nvtx_callbacks, module_functions, NvtxExportTableCallbacks, GetModuleFunctionTable);
static_assert(sizeof(struct nvtx_attributes) == sizeof(nvtxEventAttributes_t), "attributes");
EQUAL(NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
EQUAL(NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
EQUAL(NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
EQUAL(NVTX_TEXT_ASCII, NVTX_MESSAGE_TYPE_ASCII);
EQUAL(NVTX_TEXT_WIDE, NVTX_MESSAGE_TYPE_UNICODE);
EQUAL(NVTX_TEXT_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
#define X(number, name, type, params) static_assert(NVTX_CBID_CORE_##name == (number), #name);
NVTX_CORE_FUNCTIONS(X)
#undef X
#define X(number, name, type, params) static_assert(NVTX_CBID_CORE2_##name == (number), #name);
NVTX_CORE2_FUNCTIONS(X)
#undef X
