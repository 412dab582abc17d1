// What an instant is spent on (table occupation), in the order in which it is drawn.
export const BUCKETS = [
    { key: "compute", title: "Compute", doc: "the device computes; without a device: operators run" },
    { key: "overlap", title: "Compute and communication", doc: "the device does both at once" },
    {
        key: "communication",
        title: "Exposed communication",
        doc: "the device communicates and computes nothing",
    },
    { key: "copy", title: "Memory copies", doc: "the device only copies or clears memory" },
    { key: "data", title: "Input wait", doc: "the device is idle while the host waits for input data" },
    {
        key: "measuring",
        title: "Profiler overhead",
        doc: "the device is idle while the profiler works: CUPTI, the hook of PyTorch",
    },
    {
        key: "runtime",
        title: "Runtime and launches",
        doc: "the device is idle while the host launches or synchronizes",
    },
    {
        key: "host",
        title: "Host",
        doc: "the device is idle while the host runs operators or the program",
    },
    { key: "idle", title: "Idle", doc: "the device is idle, and nothing that the host did was recorded" },
    { key: "not_recorded", title: "Not recorded", doc: "the device was not recorded in these steps" },
] as const;
