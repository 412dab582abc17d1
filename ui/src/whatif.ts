// The projection of `opmeter whatif`, for aims and ratios that the reader changes: an operator's
// time is divided by the ratio for its weight's shape and aim; the rest stays.

export interface Weighted {
    op: number;
    name: string | null;
    type: string | null;
    weight_shape: string | null;
    n: number | null;
    k: number | null;
    zero_ratio: number | null;
    latency_ns: number | null;
    aim: number | null; // of the trace, with the ratio for it
    ratio: number | null;
    source: string | null;
    model: string | null;
    track: number | null; // instances of a model have one each
    interrupted_ns: number | null; // what interruptions added to its executions; latency_ns is without it
}

export interface Ratio {
    weight_shape: string;
    n: number;
    pattern: string;
    sparsity: number;
    ratio: number;
    source: string;
}

export interface Edits {
    aim: number | null; // for every shape without one of its own; null: what the trace aims at
    aims: Map<string, number>; // by weight shape
    ratios: Map<string, number>; // by weight shape
    speedups: Map<string, number>; // by operator type
}

export interface Projected extends Weighted {
    fits: boolean; // the weight divides into blocks of the pattern
    aim: number | null;
    ratio: number | null;
    source: string | null;
    projected_ns: number | null;
}

export const PATTERN = { name: "4x1", n: 4, k: 1 };
export const DEFAULT_AIM = 0.9;
const DENSE_BELOW = 0.5;

export function project(ops: Weighted[], ratios: Ratio[], edits: Edits): Projected[] {
    return ops
        .filter((op) => op.latency_ns !== null)
        .map((op) => {
            const fits = op.n !== null && op.k !== null && op.n % PATTERN.n === 0 && op.k % PATTERN.k === 0;
            const shape = op.weight_shape ?? "";
            const dense = fits && (op.zero_ratio ?? 0) < DENSE_BELOW;
            const asked = edits.aims.get(shape) ?? edits.aim;
            const aim = asked === null ? (fits ? op.aim : null) : dense ? asked : null;
            const { ratio, source } = ratioOf(op, aim, ratios, edits);
            return { ...op, fits, aim, ratio, source, projected_ns: op.latency_ns! / (ratio ?? 1) };
        });
}

function ratioOf(
    op: Weighted,
    aim: number | null,
    ratios: Ratio[],
    edits: Edits
): { ratio: number | null; source: string | null } {
    const speedup = edits.speedups.get(op.type ?? "");
    if (speedup !== undefined) return { ratio: speedup, source: "speed-up" };
    if (aim === null) return { ratio: null, source: null };
    const given = edits.ratios.get(op.weight_shape ?? "");
    if (given !== undefined) return { ratio: given, source: "given" };
    if (op.aim !== null && Math.abs(op.aim - aim) < 1e-6) return { ratio: op.ratio, source: op.source };
    const known = ratios.find(
        (r) =>
            r.weight_shape === op.weight_shape &&
            r.n === op.n &&
            r.pattern === PATTERN.name &&
            Math.abs(r.sparsity - aim) < 1e-6
    );
    return known ? { ratio: known.ratio, source: known.source } : { ratio: 1, source: "unknown" };
}

export interface Totals {
    latency_ns: number;
    projected_ns: number;
    fits: number;
    fits_ns: number;
    fits_projected_ns: number;
}

// Of one model; instances are averaged.
export function total(ops: Projected[]): Totals {
    const instances = new Set(ops.map((op) => op.track)).size || 1;
    const sum: Totals = { latency_ns: 0, projected_ns: 0, fits: 0, fits_ns: 0, fits_projected_ns: 0 };
    for (const op of ops) {
        sum.latency_ns += op.latency_ns!;
        sum.projected_ns += op.projected_ns!;
        if (!op.fits) continue;
        sum.fits += 1;
        sum.fits_ns += op.latency_ns!;
        sum.fits_projected_ns += op.projected_ns!;
    }
    sum.latency_ns /= instances;
    sum.projected_ns /= instances;
    sum.fits_ns /= instances;
    sum.fits_projected_ns /= instances;
    return sum;
}
