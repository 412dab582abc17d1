// Rows of the tables, analyses and views of a trace; a value that is not known is null.
// Written by tools/check_docs.py --update from opmeter schema --json.

// something with a start and an end, ordered by start
export interface SpanRow {
    id: number;
    ts: number;
    dur: number;
    self: number | null;
    track: number | null;
    parent: number | null;
    depth: number | null;
    name: string | null;
    cat: string | null;
    layer: string | null;
    op: number | null;
    phase: string | null;
    step: number | null;
    record: number | null;
    correlation: number | null;
    wait: number | null;
    args: string | null;
}

// an operator of the model
export interface OpRow {
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
    sparse_aim: number | null;
    sparse_ratio: number | null;
    attributes: string | null;
    nodes: string | null;
}

// an input, weight or output of an operator
export interface OpTensorRow {
    op: number | null;
    io: string | null;
    slot: number | null;
    name: string | null;
    dtype: string | null;
    shape: string | null;
    bytes: number | null;
}

// a line of the timeline
export interface TrackRow {
    id: number;
    kind: string | null;
    name: string | null;
    pid: number | null;
    process: string | null;
    tid: number | null;
    device: string | null;
    instance: number | null;
    rank: number | null;
    host: string | null;
    unit: string | null;
    capacity: number | null;
    producer: string | null;
    consumer: string | null;
    workers: number | null;
    sampling: string | null;
    clock: string | null;
    source: number | null;
    log: string | null;
}

// a value of a counter or queue at a time, ordered by time
export interface SampleRow {
    ts: number;
    track: number | null;
    value: number | null;
}

// an arrow from one span to another
export interface FlowRow {
    src: number | null;
    dst: number | null;
    kind: string | null;
}

// one step or inference of a model, ordered by start
export interface StepRow {
    id: number;
    model: string | null;
    num: number | null;
    ts: number;
    dur: number;
    warmup: number | null;
    track: number | null;
}

// a labelled region, ordered by start
export interface RecordRow {
    id: number;
    label: string | null;
    ts: number;
    dur: number;
    warmup: number | null;
    track: number | null;
}

// a request to a language model
export interface RequestRow {
    id: number;
    name: string | null;
    model: string | null;
    ts: number;
    dur: number;
    queue: number | null;
    ttft: number | null;
    prefill: number | null;
    tokens_in: number | null;
    tokens_out: number | null;
    cached: number | null;
    preemptions: number | null;
    preempted: number | null;
    finish: string | null;
    track: number | null;
}

// one run of a language model over a batch of requests, as its scheduler puts it together
export interface IterationRow {
    id: number;
    num: number | null;
    kind: string | null;
    ts: number;
    dur: number;
    batch: number | null;
    prefills: number | null;
    decodes: number | null;
    tokens_in: number | null;
    tokens_out: number | null;
    context: number | null;
    track: number | null;
}

// a request that takes part in an iteration
export interface RequestIterationRow {
    request: number | null;
    iteration: number | null;
    phase: string | null;
    tokens_in: number | null;
    tokens_out: number | null;
    context: number | null;
}

// a token that was made for a request
export interface TokenRow {
    request: number | null;
    num: number | null;
    ts: number;
    iteration: number | null;
}

// a memory chunk and its life
export interface MemRow {
    id: number;
    owner: string | null;
    bytes: number | null;
    addr: number | null;
    first_op: number | null;
    last_op: number | null;
    kind: string | null;
}

// facts about the trace: machine, engine, options, clock, versions
export interface MetaRow {
    key: string | null;
    value: string | null;
}

// a file or folder that the trace was read from, or that was left out
export interface SourceRow {
    id: number;
    path: string | null;
    format: string | null;
    state: string | null;
    bytes: number | null;
    note: string | null;
    part_of: number | null;
    offset: number | null;
    aligned: string | null;
}

// what was repaired, skipped or lost on the way here
export interface ImportStatRow {
    name: string | null;
    severity: string | null;
    count: number | null;
    description: string | null;
}

// a column that can be queried
export interface SchemaRow {
    table_name: string | null;
    column_name: string | null;
    type: string | null;
    doc: string | null;
    kind: string | null;
    table_doc: string | null;
}

// time of every operator: of an execution what the device did for it, and where there are no devices what the host did; warm-up and spans that never ended are not counted; times are NULL where operators launch kernels and this one launches none
export interface OpStatsRow {
    op: number | null;
    name: string | null;
    type: string | null;
    section: string | null;
    count: number | null;
    total_ns: number | null;
    mean_ns: number | null;
    median_ns: number | null;
    min_ns: number | null;
    max_ns: number | null;
    p90_ns: number | null;
    p95_ns: number | null;
    p99_ns: number | null;
    stdev_ns: number | null;
    self_ns: number | null;
    typical_ns: number | null;
    interrupted: number | null;
    interrupted_ns: number | null;
    share: number | null;
    reshape_ns: number | null;
    flops: number | null;
    bytes: number | null;
    gflops_per_s: number | null;
    gbytes_per_s: number | null;
    warmup_count: number | null;
    roof: string | null;
    share_of_peak: number | null;
}

// what top shows: every operator that ran, on the device and on the host, and what a device did for none of them by graph launch or kernel; without either, spans by name and category
export interface OpTimesRow {
    section: string | null;
    op: number | null;
    name: string | null;
    type: string | null;
    count: number | null;
    warmup_count: number | null;
    interrupted: number | null;
    iterations: number | null;
    time_ns: number | null;
    interrupted_ns: number | null;
    wait_ns: number | null;
    kernel_ns: number | null;
    computation: number | null;
    memory: number | null;
    flops_per_s: number | null;
    bytes_per_s: number | null;
    roof: string | null;
    share_of_peak: number | null;
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

// op_stats by operator type, the longest first, interruptions left out
export interface TypeStatsRow {
    type: string | null;
    ops: number | null;
    count: number | null;
    total_ns: number | null;
    mean_ns: number | null;
    self_ns: number | null;
    typical_ns: number | null;
    interrupted: number | null;
    interrupted_ns: number | null;
    share: number | null;
    flops: number | null;
    gflops_per_s: number | null;
}

// operators by step and duration, on the device and on the host, no warm-up: rows add up over durations, steps, files and ranks
export interface OpStepsRow {
    rank: number | null;
    step: number | null;
    num: number | null;
    section: string | null;
    op: number | null;
    name: string | null;
    type: string | null;
    bucket: number | null;
    count: number | null;
    total_ns: number | null;
    self_ns: number | null;
    min_ns: number | null;
    max_ns: number | null;
}

// what devices ran by step, name and duration, no warm-up: rows add up as those of op_steps
export interface KernelStepsRow {
    rank: number | null;
    step: number | null;
    num: number | null;
    device: string | null;
    name: string | null;
    kind: string | null;
    bucket: number | null;
    count: number | null;
    total_ns: number | null;
    min_ns: number | null;
    max_ns: number | null;
}

// time by name, category and layer, warm-up included, the most self time first
export interface SpanStatsRow {
    name: string | null;
    cat: string | null;
    layer: string | null;
    count: number | null;
    total_ns: number | null;
    self_ns: number | null;
    mean_ns: number | null;
    median_ns: number | null;
    min_ns: number | null;
    max_ns: number | null;
    p99_ns: number | null;
    share: number | null;
}

// what stands on every line of the timeline
export interface TrackStatsRow {
    track: number | null;
    spans: number | null;
    samples: number | null;
    first_ns: number | null;
    end_ns: number | null;
}

// latency of steps by model and of labelled regions by label, those of every source apart
export interface LatencyRow {
    scope: string | null;
    name: string | null;
    count: number | null;
    warmup_count: number | null;
    min_ns: number | null;
    max_ns: number | null;
    mean_ns: number | null;
    median_ns: number | null;
    p90_ns: number | null;
    p95_ns: number | null;
    p97_ns: number | null;
    p99_ns: number | null;
    p999_ns: number | null;
    stdev_ns: number | null;
    per_second: number | null;
    source: number | null;
}

// runs of a device: spans on hardware with others inside; on a line without such, what one step has on it
export interface ExecutionsRow {
    span: number | null;
    step: number | null;
    warmup: number | null;
    track: number | null;
    ts: number;
    total_ns: number | null;
    run_ns: number | null;
    io_wait_ns: number | null;
    ops: number | null;
}

// when every device worked, its streams united: rows of a device do not touch; what only holds other spans is no work; without hardware spans, when operators ran on the host
export interface DeviceBusyRow {
    device: string | null;
    host: string | null;
    rank: number | null;
    ts: number;
    dur: number;
}

// what every device did, and every stream or other line of it: warm-up too, from its first start to its last end
export interface StreamStatsRow {
    scope: string | null;
    device: string | null;
    rank: number | null;
    track: number | null;
    stream: string | null;
    kernels: number | null;
    copies: number | null;
    total_ns: number | null;
    run_ns: number | null;
    copy_ns: number | null;
    wait_ns: number | null;
    longest_wait_ns: number | null;
    longest_wait_ts: number | null;
}

// what devices computed, by name, the longest first; without spans on hardware, operators by type; no warm-up
export interface DeviceOpsRow {
    name: string | null;
    count: number | null;
    mean_ns: number | null;
    median_ns: number | null;
    min_ns: number | null;
    max_ns: number | null;
    p99_ns: number | null;
    total_ns: number | null;
    share: number | null;
}

// what devices ran for every operator, by kernel, and for graph launches; what is nobody's goes under its own name; no warm-up
export interface OpKernelsRow {
    op: number | null;
    owner: string | null;
    kernel: string | null;
    count: number | null;
    total_ns: number | null;
    mean_ns: number | null;
    median_ns: number | null;
    min_ns: number | null;
    max_ns: number | null;
    p99_ns: number | null;
    share: number | null;
}

// how full every queue was; warm-up steps are left out where every change was recorded
export interface QueueStatsRow {
    track: number | null;
    name: string | null;
    rank: number | null;
    producer: string | null;
    consumer: string | null;
    workers: number | null;
    capacity: number | null;
    samples: number | null;
    empty: number | null;
    full: number | null;
    empty_share: number | null;
    full_share: number | null;
    mean_size: number | null;
    max_size: number | null;
    usage: number | null;
}

// which queue every track of kind queue is: one that was made anew, such as in every epoch, is the same queue
export interface QueueTrackRow {
    track: number | null;
    queue: number | null;
}

// how often every queue was found empty or full in every step; steps without a sample of it have no row
export interface QueueStepsRow {
    track: number | null;
    name: string | null;
    rank: number | null;
    step: number | null;
    num: number | null;
    warmup: number | null;
    samples: number | null;
    empty: number | null;
    full: number | null;
    mean_size: number | null;
}

// the stages of an input pipeline, those nearest to the model first, and which of them hold it up
export interface PipelineOpRow {
    stage: string | null;
    rank: number | null;
    distance: number | null;
    workers: number | null;
    inputs: number | null;
    input_usage: number | null;
    input_empty_share: number | null;
    output: number | null;
    output_usage: number | null;
    output_empty_share: number | null;
    bottleneck: number | null;
    bottleneck_r05: number | null;
    bottleneck_master: number | null;
}

// the parts of every step; gap, forward, backward (or fp_bp) and tail add up to total
export interface StepTraceRow {
    step: number | null;
    model: string | null;
    num: number | null;
    rank: number | null;
    warmup: number | null;
    found_by: string | null;
    split_by: string | null;
    ts: number;
    total_ns: number | null;
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
    outlier: number | null;
}

// what every device and its host did, every nanosecond of its window: of a step until what it launched is done; where nothing marks steps, from the first to the last work of the device
export interface OccupationRow {
    step: number | null;
    num: number | null;
    rank: number | null;
    device: string | null;
    ts: number;
    warmup: number | null;
    bucket: string | null;
    ns: number | null;
    once_ns: number | null;
    share: number | null;
}

// exchanges between devices within steps: all-reduce and its like, each where it starts in its step
export interface CollectivesRow {
    span: number | null;
    name: string | null;
    track: number | null;
    nth: number | null;
    step: number | null;
    num: number | null;
    rank: number | null;
    warmup: number | null;
    step_ts: number | null;
    start_ns: number | null;
    dur_ns: number | null;
}

// who came when to every collective of a job with several ranks: the same one on all ranks, by its order among those of its communicator and name, in the step of the same number
export interface ArrivalsRow {
    collective: number | null;
    name: string | null;
    num: number | null;
    nth: number | null;
    warmup: number | null;
    rank: number | null;
    span: number | null;
    came_ns: number | null;
    behind_ns: number | null;
    waited_ns: number | null;
    last: number | null;
    late_ns: number | null;
}

// collectives and transfers between ranks as each rank recorded them: what table arrivals compares, also of a rank alone
export interface ExchangesRow {
    span: number | null;
    rank: number | null;
    num: number | null;
    name: string | null;
    nth: number | null;
    warmup: number | null;
    ts: number;
    dur: number;
}

// which ranks the others wait for at collectives; no warm-up
export interface StragglersRow {
    rank: number | null;
    collectives: number | null;
    last_count: number | null;
    late_ns: number | null;
    others_ns: number | null;
    waited_ns: number | null;
    total_ns: number | null;
    share: number | null;
    clock_ns: number | null;
}

// the chain of work that bounds every step: segments without a gap between them that add up to the step; the last step of a thread goes on until its device has done what was launched, as its window does; without steps, they add up to the whole trace
export interface CriticalPathRow {
    step: number | null;
    num: number | null;
    rank: number | null;
    warmup: number | null;
    seq: number | null;
    kind: string | null;
    ts: number;
    dur: number;
    name: string | null;
    span: number | null;
    track: number | null;
    inferred: number | null;
}

// what recording cost the program: part of its times, and not its own doing
export interface MeasuringRow {
    what: string | null;
    count: number | null;
    each_ns: number | null;
    total_ns: number | null;
}

// time of every operator, and what it would be if its weight had 90 % zeros in 4x1 blocks, or as many as the source aims at
export interface WhatifRow {
    op: number | null;
    name: string | null;
    type: string | null;
    weight_shape: string | null;
    n: number | null;
    k: number | null;
    m: number | null;
    zero_ratio: number | null;
    sparsifiable: number | null;
    latency_ns: number | null;
    aim: number | null;
    ratio: number | null;
    source: string | null;
    projected_ns: number | null;
    model: string | null;
    track: number | null;
    interrupted_ns: number | null;
}

// how much faster weights of the trace run block-sparse: measured on this machine, or assumed
export interface SparseRatioRow {
    weight_shape: string | null;
    n: number | null;
    k: number | null;
    pattern: string | null;
    sparsity: number | null;
    ratio: number | null;
    source: string | null;
}

// what every iteration of a language model cost: the time that it took on the host, and of what was launched in it on devices
export interface IterationTimesRow {
    iteration: number | null;
    kind: string | null;
    num: number | null;
    ts: number;
    dur_ns: number | null;
    batch: number | null;
    tokens_in: number | null;
    tokens_out: number | null;
    context: number | null;
    kernels: number | null;
    device_ns: number | null;
}

// what every request had of the iterations that it took part in, by the tokens that went in for it (equal parts where that is not known of all); the parts of an iteration add up to it
export interface RequestSharesRow {
    request: number | null;
    iteration: number | null;
    phase: string | null;
    tokens_in: number | null;
    share: number | null;
    device_ns: number | null;
    time_ns: number | null;
}

// what devices ran in iterations of each kind, by operator; where no device was recorded, what operators did on the processor
export interface IterationOpsRow {
    kind: string | null;
    op: number | null;
    name: string | null;
    type: string | null;
    kernels: number | null;
    device_ns: number | null;
    flops: number | null;
    bytes: number | null;
}

// spans with the name of their track
export interface TimelineRow {
    id: number;
    ts: number;
    dur: number;
    track: string | null;
    name: string | null;
    cat: string | null;
    layer: string | null;
}

// op_times with one row for what ranks of a job or instances of a model have in common: time, work and waiting are of an iteration of one of them, on average, so that the rows of a section add up to a step
export interface OpRankingRow {
    number: number | null;
    section: string | null;
    op: number | null;
    ops: string | null;
    name: string | null;
    type: string | null;
    places: number | null;
    count: number | null;
    warmup_count: number | null;
    interrupted: number | null;
    iterations: number | null;
    time_ns: number | null;
    interrupted_ns: number | null;
    wait_ns: number | null;
    kernel_ns: number | null;
    computation: number | null;
    memory: number | null;
    flops_per_s: number | null;
    bytes_per_s: number | null;
    roof: string | null;
    share_of_peak: number | null;
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

// steps with what their source calls them
export interface InferencesRow {
    id: number;
    model: string | null;
    num: number | null;
    ts: number;
    dur: number;
    warmup: number | null;
    tid: number | null;
    trace_id: string | null;
    span_id: string | null;
}

// executions of operators on the host
export interface HostOpsRow {
    span: number | null;
    ts: number;
    dur: number;
    name: string | null;
    type: string | null;
    op: number | null;
    phase: string | null;
    step: number | null;
    warmup: number | null;
    tid: number | null;
    trace_id: string | null;
    span_id: string | null;
    operator_index: number | null;
}

// latency of every request to a language model, what it consists of, and why it was slow; docs/llm.md has the definitions
export interface RequestLatencyRow {
    request: number | null;
    name: string | null;
    model: string | null;
    ts: number;
    e2e_ns: number | null;
    ttft_ns: number | null;
    queue_ns: number | null;
    prefill_ns: number | null;
    host_ns: number | null;
    itl_ns: number | null;
    tpot_ns: number | null;
    itl_max_ns: number | null;
    jitter_ns: number | null;
    tokens_in: number | null;
    tokens_out: number | null;
    preemptions: number | null;
    preempted_ns: number | null;
    iterations: number | null;
    device_ns: number | null;
    slow: number | null;
    cause: string | null;
    cause_ns: number | null;
}

// time from one token of a request to the next
export interface TokenGapsRow {
    request: number | null;
    num: number | null;
    ts: number;
    iteration: number | null;
    itl_ns: number | null;
}

// latencies of requests to a language model; docs/llm.md has the definitions
export interface LlmLatencyRow {
    metric: string | null;
    count: number | null;
    mean_ns: number | null;
    median_ns: number | null;
    p90_ns: number | null;
    p99_ns: number | null;
    max_ns: number | null;
    jitter_ns: number | null;
}

// iterations of a language model by phase
export interface LlmPhasesRow {
    phase: string | null;
    iterations: number | null;
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

// work of a language model by phase, against what the machine was measured to do at most
export interface LlmRoofsRow {
    phase: string | null;
    tokens: number | null;
    flops_per_token: number | null;
    bytes_per_token: number | null;
    gflops_per_s: number | null;
    gbytes_per_s: number | null;
    share_of_flops: number | null;
    share_of_bandwidth: number | null;
    roof: string | null;
    unknown_share: number | null;
}

// the operators of each phase that took longest, five of each
export interface LlmOperatorsRow {
    phase: string | null;
    device_ns: number | null;
    share: number | null;
    kernels: number | null;
    operator: string | null;
}

// where the time of every device went, of all its steps without warm-up: wall = compute + exposed + copy + idle + not recorded
export interface ReconciliationRow {
    rank: number | null;
    device: string | null;
    steps: number | null;
    steps_not_recorded: number | null;
    wall_ns: number | null;
    compute_ns: number | null;
    exposed_ns: number | null;
    copy_ns: number | null;
    idle_ns: number | null;
    not_recorded_ns: number | null;
}

// what could be faster, or is wrong with the measurement; nothing for a healthy trace
export interface AdviceRow {
    rule: string | null;
    severity: string | null;
    gain: number | null;
    message: string | null;
    action: string | null;
    evidence: string | null;
}

// the rules of advice, also those that do not fire
export interface AdviceRuleRow {
    rule: string | null;
    severity: string | null;
    action: string | null;
    evidence: string | null;
}

// what the queues between host and device say by MindInsight's rules, for sources that have both
export interface QueueVerdictRow {
    rank: number | null;
    host_samples: number | null;
    host_empty: number | null;
    host_full: number | null;
    data_samples: number | null;
    data_empty: number | null;
    verdict_r05: string | null;
    verdict_master: string | null;
    verdict: string | null;
}

// what the processor counted while operators ran, on the thread that called them: means of one execution, warm-up left out; for recordings with --counters
export interface OpCountersRow {
    op: number | null;
    count: number | null;
    cycles: number | null;
    instructions: number | null;
    ipc: number | null;
    cache_misses: number | null;
    cpu_ns: number | null;
    page_faults: number | null;
    context_switches: number | null;
}
