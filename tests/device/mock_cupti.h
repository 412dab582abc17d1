/* mock_cupti.h -- a CUPTI without a GPU: a library with its symbols and a device that takes as long
 * for everything as it is told. Programs that play the part of CUDA's runtime call mock_call().
 *
 * MOCK_CUPTI in the environment, words separated by commas, makes it misbehave:
 *     subscribed     another profiler was first
 *     privileges     kernels may not be traced
 *     no-peers       one kind of record is not to be had
 *     foreign-clock  it keeps its own clock, which is 50 ppm fast and far away
 *     shuffled       a buffer's records come last first
 *     stranger       records of a kind that nobody knows come in between
 *     no-nodes       nodes of graphs have no numbers
 *     whole-kinds    single functions can be left out, but not be asked for
 *     no-streams     streams have no numbers
 *     stuck          buffers are never given back before the end */
#ifndef MOCK_CUPTI_H
#define MOCK_CUPTI_H

#include <stdint.h>

enum mock_work_kind {
    MOCK_NOTHING,
    MOCK_KERNEL,
    MOCK_COPY,
    MOCK_PEER_COPY,
    MOCK_FILL,
    MOCK_WAIT,     /* until the stream is idle */
    MOCK_WAIT_ALL, /* until all are */
    MOCK_NODE,
    MOCK_RECORD,      /* an event on the stream */
    MOCK_WAIT_EVENT,  /* until what was there when it was recorded is done */
    MOCK_AFTER_EVENT, /* the same for what comes next on the stream */
    MOCK_DESTROY      /* the event */
};

/* What a call makes the device do. */
struct mock_work {
    enum mock_work_kind kind;
    uint32_t stream;
    uint64_t dur_ns;  /* on the device; of waits: nothing */
    const char *name; /* kernel */
    int grid, block, registers, shared_bytes;
    uint64_t bytes; /* copy, fill */
    int copy_kind, src_kind, dst_kind;
    uint64_t graph_node; /* of MOCK_NODE: that is made, nothing runs */
    uint64_t original;   /* MOCK_NODE: the node that it is a clone of, or 0 */
    int unfinished;      /* its end never becomes known */
    uint32_t event;      /* 1 to 15, by which its handle goes */
    int bare;            /* the stream is not named in the call: its handle is NULL */
};

/* A call of the runtime (domain 2) or the driver (1) on the calling thread, and n works that it
 * launches; each begins when its stream is free, at the earliest 2 µs from now. */
void mock_call(uint32_t domain, uint32_t cbid, int result, const struct mock_work *work, int n);
/* Calls of the functions of CUPTI by name, to see that something was done; 0 for others. */
int mock_count(const char *function);

#endif
