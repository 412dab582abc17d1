/* critical_path.h -- what the time on a critical path goes to. */
#ifndef ANALYZE_CRITICAL_PATH_H
#define ANALYZE_CRITICAL_PATH_H

#define CRITICAL_KINDS(X)                                                                        \
    X(compute, "the device computes; without a device: an operator runs")                        \
    X(communication, "devices exchange data, or wait for each other to do so")                   \
    X(copy, "the device copies or clears memory")                                                \
    X(gap, "the stream stands still between two pieces of work, the second launched before")     \
    X(launch, "from the call that launches to the start on the device, which had nothing to do") \
    X(sync, "from the end of what was waited for to the return of the call, or to the start on " \
            "another stream")                                                                    \
    X(data, "the host waits for input data")                                                     \
    X(runtime, "the host is in the runtime of the device: allocating, launching")                \
    X(host, "the host runs operators or the program")                                            \
    X(idle, "nothing is recorded where the path runs")

enum critical_kind {
#define X(name, doc) CRITICAL_##name,
    CRITICAL_KINDS(X)
#undef X
        CRITICAL_COUNT,
};

#endif
