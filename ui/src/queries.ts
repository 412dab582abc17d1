// The rows of the named queries (src/server/queries.def), as the pages use them.

export interface Meta {
    key: string;
    value: string;
}

export interface Source {
    path: string;
    format: string | null;
    state: string;
    bytes: number | null;
    note: string | null;
}

export interface Loss {
    name: string;
    severity: string;
    count: number;
    description: string;
}

export interface Latency {
    scope: string;
    name: string | null;
    count: number;
    warmup_count: number;
    min_ns: number | null;
    max_ns: number | null;
    mean_ns: number | null;
    median_ns: number | null;
    p90_ns: number | null;
    p95_ns: number | null;
    p99_ns: number | null;
    stdev_ns: number | null;
    per_second: number | null;
}

export interface Step {
    step: number | null;
    model: string | null;
    num: number | null;
    rank: number | null;
    warmup: number;
    found_by: string;
    split_by: string | null;
    ts: number;
    total_ns: number;
    gap_ns: number | null;
    forward_ns: number | null;
    backward_ns: number | null;
    fp_bp_ns: number | null;
    tail_ns: number | null;
    update_ns: number | null;
    collective_ns: number | null;
    exposed_ns: number | null;
    fp_point: string | null;
    bp_point: string | null;
    outlier: number;
}

export interface Region {
    label: string | null;
    ts: number;
    dur: number;
    warmup: number;
}

export interface Occupation {
    bucket: string;
    ns: number;
}

// What a step found of a queue.
export interface QueueStep {
    track: number;
    num: number | null;
    warmup: number;
    samples: number;
    empty: number;
    full: number | null;
}

// A segment of the critical path.
export interface PathPart {
    ts: number;
    dur: number;
    kind: string;
    name: string | null;
    span: number | null;
    track: number;
    rank: number | null;
    depth: number;
}

export interface Reconciliation {
    rank: number | null;
    device: string | null;
    steps: number;
    steps_not_recorded: number;
    wall_ns: number;
    compute_ns: number;
    exposed_ns: number;
    copy_ns: number;
    idle_ns: number;
    not_recorded_ns: number;
}

export interface Collective {
    track: number;
    lane: string | null;
    name: string | null;
    nth: number;
    rank: number | null;
    step: number | null;
    step_ts: number;
    start_ns: number;
    dur_ns: number;
}

export interface Operator {
    section: string;
    op: number | null;
    ops: string | null; // of several, with commas
    places: number; // ranks or instances that times are the mean of
    name: string | null;
    type: string | null;
    device: string | null;
    engine: string | null;
    post_op: string | null;
    count: number;
    interrupted: number; // of those, executions that were interrupted
    interrupted_ns: number; // what that added; time_ns is without it
    warmup_count: number;
    iterations: number | null;
    time_ns: number | null;
    wait_ns: number | null;
    kernel_ns: number | null;
    computation: number | null;
    memory: number | null;
    flops_per_s: number | null;
    bytes_per_s: number | null;
    roof: string | null; // what limits it
    share_of_peak: number | null; // of what the machine could reach under that
    share: number | null;
    total_ns: number | null;
    mean_ns: number | null;
    median_ns: number | null;
    min_ns: number | null;
    max_ns: number | null;
    p90_ns: number | null;
    p95_ns: number | null;
    p99_ns: number | null;
    stdev_ns: number | null;
}

export interface OperatorType {
    section: string;
    type: string | null;
    ops: number;
    count: number;
    time_ns: number | null;
    share: number | null;
}

export interface SpanName {
    name: string | null;
    cat: string | null;
    layer: string | null;
    count: number;
    total_ns: number;
    self_ns: number;
    mean_ns: number | null;
    median_ns: number | null;
    min_ns: number | null;
    max_ns: number | null;
    p99_ns: number | null;
    share: number | null;
}

export interface Op {
    id: number;
    name: string | null;
    type: string | null;
    post_op: string | null;
    device: string | null;
    engine: string | null;
    flops: number | null;
    bytes: number | null;
    weight_shape: string | null;
    weight_zero_ratio: number | null;
    sparse_support: number | null;
    attributes: string | null;
    nodes: string | null;
}

export interface Tensor {
    op: number;
    io: string;
    slot: number;
    name: string | null;
    dtype: string | null;
    shape: string | null;
    bytes: number | null;
}

export interface Execution {
    id: number;
    ts: number;
    dur: number;
    phase: string | null;
    layer: string | null;
    warmup: number;
    num: number | null;
}

export interface Stream {
    scope: string;
    device: string | null;
    rank: number | null;
    track: number | null;
    stream: string | null;
    kernels: number;
    copies: number;
    total_ns: number;
    run_ns: number;
    copy_ns: number;
    wait_ns: number;
    longest_wait_ns: number | null;
    longest_wait_ts: number | null;
}

export interface Chunk {
    id: number;
    owner: string | null;
    bytes: number;
    addr: number | null;
    first_op: number | null;
    last_op: number | null;
    kind: string | null;
}

export interface Sampled {
    track: number;
    ts: number;
    low: number;
    high: number;
    mean: number;
}

export interface Counter {
    id: number;
    name: string | null;
    unit: string | null;
    device: string | null;
    rank: number | null;
    samples: number;
    low: number;
    high: number;
}

export interface Queue {
    track: number;
    name: string | null;
    rank: number | null;
    producer: string | null;
    consumer: string | null;
    workers: number | null;
    capacity: number | null;
    samples: number;
    empty: number | null;
    full: number | null;
    empty_share: number | null;
    full_share: number | null;
    mean_size: number | null;
    max_size: number | null;
    usage: number | null;
}

export interface Stage {
    stage: string;
    rank: number | null;
    distance: number;
    workers: number | null;
    inputs: number;
    input_usage: number | null;
    input_empty_share: number | null;
    output: number;
    output_usage: number | null;
    output_empty_share: number | null;
    bottleneck: number;
}

export interface Verdict {
    rank: number | null;
    host_samples: number;
    host_empty: number;
    host_full: number;
    data_samples: number | null;
    data_empty: number | null;
    verdict: string;
}

export interface Advice {
    rule: string;
    severity: string;
    gain: number | null;
    message: string;
    action: string;
    evidence: string;
}

export interface Rule {
    rule: string;
    severity: string;
    action: string;
    evidence: string;
}

export interface SchemaColumn {
    table_name: string;
    column_name: string;
    type: string;
    doc: string;
    kind: string;
    table_doc: string;
}

// Work on hardware of one name.
export interface Kernel {
    name: string | null;
    cat: string | null;
    count: number;
    total_ns: number;
    mean_ns: number;
    max_ns: number;
    small: number;
    small_ns: number;
    longest: number;
    grid: string | null;
    block: string | null;
    registers: number | null;
    shared: number | null;
    occupancy: number | null;
    operator: string | null;
}

export interface RankRow {
    rank: number;
    steps: number;
    step_ns: number | null;
    collective_ns: number | null;
    exposed_ns: number | null;
    collectives: number | null;
    last_count: number | null;
    late_ns: number | null;
    waited_ns: number | null;
}

// The nth collective of a name, of one rank, over all steps.
export interface Arrival {
    name: string | null;
    nth: number;
    rank: number;
    count: number;
    behind_ns: number;
    waited_ns: number;
    last: number;
    dur_ns: number;
    moving_ns: number;
    span: number;
    elements: number | null;
    dtype: string | null;
}

// An arrow from a span to another.
export interface FlowLink {
    src: number;
    dst: number;
    kind: string | null;
}

export interface ModuleSpan {
    track: number;
    ts: number;
    end: number;
    name: string;
}

// What was launched at a time by a thread, and how long that took.
export interface ModuleWork {
    track: number;
    ts: number;
    ns: number;
    device_ns: number; // of the whole trace
}

// What a trace has; pages that need what it lacks are dimmed.
export interface Has {
    hardware: number;
    queues: number;
    ranks: number;
    modules: number;
    scopes: number;
    bytes: number;
    computed: number;
    weights: number;
    steps: number;
    llm: number;
    tensors: number;
}

// A request to a language model.
export interface LlmRequest {
    request: number;
    name: string | null;
    model: string | null;
    ts: number;
    e2e_ns: number | null;
    ttft_ns: number | null;
    queue_ns: number | null;
    prefill_ns: number | null;
    host_ns: number | null;
    tpot_ns: number | null;
    itl_max_ns: number | null;
    tokens_in: number | null;
    tokens_out: number | null;
    preemptions: number | null;
    preempted_ns: number | null;
    slow: number;
    cause: string | null;
    cause_ns: number | null;
}

export interface LlmLatency {
    metric: string;
    count: number;
    mean_ns: number | null;
    median_ns: number | null;
    p90_ns: number | null;
    p99_ns: number | null;
    max_ns: number | null;
    jitter_ns: number | null;
}

export interface LlmPhase {
    phase: string;
    iterations: number;
    time_ns: number | null;
    share: number | null;
    mean_ns: number | null;
    batch: number | null;
    tokens_in: number | null;
    tokens_out: number | null;
    tokens_per_s: number | null;
    device_ns: number | null;
    device_per_token_ns: number | null;
}

export interface LlmOperator {
    phase: string;
    device_ns: number | null;
    share: number | null;
    kernels: number | null;
    operator: string | null;
}

// Work of a phase, against what the machine was measured to do.
export interface LlmRoof {
    phase: string | null;
    flops_per_token: number | null;
    bytes_per_token: number | null;
    gflops_per_s: number | null;
    gbytes_per_s: number | null;
    share_of_flops: number | null;
    share_of_bandwidth: number | null;
    roof: string | null;
}

// An iteration, or the mean of neighbouring ones.
export interface LlmIteration {
    ts: number;
    iterations: number;
    dur_ns: number;
    batch: number | null;
    context: number | null;
}
