// Two traces side by side: rows that mean the same thing, aligned.

export interface Pair<T> {
    key: string;
    a: T | null;
    b: T | null;
}

// By key, the n-th of a key with the n-th. In the order of a, then what only b has.
export function align<T>(a: T[], b: T[], key: (row: T) => string): Pair<T>[] {
    const waiting = new Map<string, T[]>();
    for (const row of b) {
        const same = waiting.get(key(row));
        if (same) same.push(row);
        else waiting.set(key(row), [row]);
    }
    const seen = new Map<string, number>();
    const pairs = a.map((row): Pair<T> => {
        const k = key(row);
        const n = seen.get(k) ?? 0;
        seen.set(k, n + 1);
        return { key: `${k}\n${n}`, a: row, b: waiting.get(k)?.[n] ?? null };
    });
    for (const [k, rows] of waiting) {
        rows.slice(seen.get(k) ?? 0).forEach((row, i) => pairs.push({ key: `${k}\nb${i}`, a: null, b: row }));
    }
    return pairs;
}

// Null where one of them is not known.
export function difference(a: number | null | undefined, b: number | null | undefined): number | null {
    return a === null || a === undefined || b === null || b === undefined ? null : b - a;
}

export function relative(a: number | null | undefined, b: number | null | undefined): number | null {
    const by = difference(a, b);
    return a && by !== null ? by / a : null;
}

// What is measured of one side: the time of one iteration, from executions that scatter.
export interface Measured {
    count: number;
    stdev_ns: number | null;
    iterations: number | null;
}

// Variance of the time of an iteration; null where it is not known.
export function variance(rows: Measured[]): number | null {
    let sum = 0;
    for (const { count, stdev_ns, iterations } of rows) {
        if (stdev_ns === null || count < 2) return null;
        sum += (count * stdev_ns * stdev_ns) / (iterations ?? 1) ** 2;
    }
    return sum;
}

const SURE = 2.6; // standard errors
const LEAST = 0.01; // of A

// "slower", "faster", "same", or null: it cannot be told.
export function verdict(
    a: number | null | undefined,
    b: number | null | undefined,
    variances: [number | null, number | null]
): "slower" | "faster" | "same" | null {
    const change = relative(a, b);
    const [va, vb] = variances;
    if (change === null || va === null || vb === null) return null;
    const by = difference(a, b)!;
    if (Math.abs(change) < LEAST || Math.abs(by) <= SURE * Math.sqrt(va + vb)) return "same";
    return by > 0 ? "slower" : "faster";
}
