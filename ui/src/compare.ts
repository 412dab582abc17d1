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
    return a ? difference(a, b)! / a : null;
}
