// What an instant is spent on (table occupation), in the order in which it is drawn.
export const BUCKETS = [
    { key: "compute", title: "Computing", doc: "the device computes; without a device: operators run" },
    { key: "overlap", title: "Computing and communicating", doc: "the device does both at once" },
    {
        key: "communication",
        title: "Communicating",
        doc: "the device communicates and computes nothing meanwhile",
    },
    { key: "copy", title: "Copying", doc: "the device only copies or clears memory" },
    { key: "data", title: "Waiting for data", doc: "the device is idle while the host waits for input data" },
    {
        key: "measuring",
        title: "Measuring",
        doc: "the device is idle while whoever records is at work: CUPTI, the hook of PyTorch",
    },
    {
        key: "runtime",
        title: "In the runtime",
        doc: "the device is idle while the host launches or synchronizes",
    },
    {
        key: "host",
        title: "On the host",
        doc: "the device is idle while the host runs operators or the program",
    },
    { key: "idle", title: "Idle", doc: "the device is idle, and nothing that the host did was recorded" },
    { key: "not_recorded", title: "Not recorded", doc: "nobody recorded what the device did in these steps" },
] as const;
