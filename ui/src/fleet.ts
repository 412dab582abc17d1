// What the server says of the ranks of jobs (src/catalog/questions.def), and what the page makes of it.
import { largest } from "./stats";

export interface Job {
    job: string;
    ranks: number;
    hosts: number;
    recordings: number;
    spans: number;
    first_ns: number | string | null;
    last_ns: number | string | null;
    model: string | null;
}

export interface Late {
    rank: number;
    host: string | null;
    late: number;
    cost_ns: number;
    share: number | null;
    together_ns: number | null; // what it and those that are late with it cost
    steps_worst: number;
    steps: number;
    last_count: number;
    collectives: number;
    late_ns: number;
    waited_ns: number;
    clock_ns: number | null;
}

export interface Field {
    num: number;
    rank: number;
    total_ns: number | null;
    own_ns: number | null;
    waited_ns: number | null;
    cost_ns: number | null;
    late_ns: number | null; // how much later than the first of its step it came
    first: number; // step of its column, of those that are put together
}

export interface Link {
    kind: string;
    name: string | null;
    comm: string | null;
    rank: number | null;
    peer: number | null;
    bytes: number | null;
    count: number;
    best_ns: number | null;
    gbytes_per_s: number | null;
    of_median: number | null;
    slow: number;
}

export interface Outlier {
    rank: number;
    host: string | null;
    section: string;
    name: string;
    type: string | null;
    count: number;
    mean_ns: number;
    median_ns: number;
    factor: number;
    extra_ns: number;
}

export interface Memory {
    rank: number;
    host: string | null;
    device: string | null;
    counter: string;
    peak_bytes: number;
    of_median: number | null;
    growth_bytes: number | null;
}

export interface Host {
    host: string | null;
    jobs: number;
    late_jobs: number;
    ranks: number;
    cost_ns: number;
    share: number | null;
    slow: number;
}

export interface Rank {
    rank: number;
    host: string | null;
    machine: string | null;
    recordings: number;
    steps: number;
    mean_ns: number | null;
    spans: number;
    world: number | null;
    left_out: number;
    lost: number;
    trace: string | null;
}

export interface PathPart {
    kind: string;
    rank: number;
    name: string | null;
    count: number;
    total_ns: number;
    share: number | null;
}

export interface JobStep {
    num: number;
    ranks: number;
    mean_ns: number;
    min_ns: number;
    max_ns: number;
    slowest_rank: number;
    collective_ns: number | null;
    exposed_ns: number | null;
}

// Rank by step, of any size: values row after row, NaN where nothing was recorded.
export interface Grid {
    ranks: number[];
    nums: number[];
    values: Float64Array;
    fields: (Field | undefined)[];
}

export type Measure = "late" | "cost" | "total" | "waited";

export function grid(fields: Field[], measure: Measure): Grid {
    const ranks = [...new Set(fields.map((f) => f.rank))].sort((a, b) => a - b);
    const nums = [...new Set(fields.map((f) => f.first))].sort((a, b) => a - b);
    const row = new Map(ranks.map((rank, i) => [rank, i]));
    const column = new Map(nums.map((num, i) => [num, i]));
    const values = new Float64Array(ranks.length * nums.length).fill(NaN);
    const at = new Array<Field | undefined>(values.length);
    for (const f of fields) {
        const place = row.get(f.rank)! * nums.length + column.get(f.first)!;
        values[place] = f[`${measure}_ns`] ?? NaN;
        at[place] = f;
    }
    return { ranks, nums, values, fields: at };
}

// The range of colours. What is small for a step is not to look hot, so it begins at 0, but for durations.
export function range({ values }: Grid, measure: Measure): [number, number] {
    const known = Array.from(values).filter((v) => !Number.isNaN(v));
    if (!known.length) return [0, 0];
    const low = measure === "total" ? known.reduce((a, b) => Math.min(a, b)) : 0;
    return [low, largest(known)];
}
