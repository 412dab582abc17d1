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

const SURE = 2.576; // standard errors: chance exceeds them in one of a hundred cases

// "slower", "faster", "same", or null: it cannot be told.
export function verdict(
    a: number | null | undefined,
    b: number | null | undefined,
    variances: [number | null, number | null]
): "slower" | "faster" | "same" | null {
    const by = difference(a, b);
    const [va, vb] = variances;
    if (by === null || va === null || vb === null) return null;
    if (Math.abs(by) <= SURE * Math.sqrt(va + vb)) return "same";
    return by > 0 ? "slower" : "faster";
}
