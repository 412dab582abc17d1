// Figures that a page makes of rows it already has.

export interface Bin {
    from: number;
    to: number;
    count: number;
    open: boolean; // holds everything from `from` on
}

export function mean(values: number[]): number | null {
    return values.length ? values.reduce((sum, v) => sum + v, 0) / values.length : null;
}

// The mean of what is known; null if nothing is.
export function meanOf<T>(rows: T[], value: (row: T) => number | null): number | null {
    return mean(rows.map(value).filter((v): v is number => v !== null));
}

export function median(values: number[]): number | null {
    return percentile([...values].sort((a, b) => a - b), 0.5);
}

// Between neighbours, as the analyses do it; p from 0 to 1.
export function percentile(ascending: number[], p: number): number | null {
    if (!ascending.length) return null;
    const at = p * (ascending.length - 1);
    const low = ascending[Math.floor(at)]!;
    const high = ascending[Math.ceil(at)]!;
    const part = at - Math.floor(at);
    return part < 0.5 ? low + (high - low) * part : high - (high - low) * (1 - part);
}

// A few values far out would leave no room for the others: they share the last bin.
export function histogram(values: number[], wanted = 48): Bin[] {
    const ascending = [...values].sort((a, b) => a - b);
    const low = ascending[0];
    const high = ascending.at(-1);
    if (low === undefined || high === undefined) return [];
    const body = percentile(ascending, 0.95)!;
    const cut = high - low > 3 * (body - low) && body > low ? body + (body - low) * 0.4 : high;
    const n = cut > low ? Math.max(1, Math.min(wanted, Math.ceil(2 * Math.sqrt(values.length)) + 4)) : 1;
    const width = (cut - low) / n;
    const bins: Bin[] = Array.from({ length: n }, (_, i) => ({
        from: low + i * width,
        to: low + (i + 1) * width,
        count: 0,
        open: cut < high && i === n - 1,
    }));
    for (const value of ascending) {
        bins[width > 0 ? Math.min(n - 1, Math.floor((value - low) / width)) : 0]!.count += 1;
    }
    return bins;
}

export interface SharedBin extends Omit<Bin, "count"> {
    counts: [number, number];
}

// Two sets of values in the same bins.
export function overlaid(a: number[], b: number[], wanted = 48): SharedBin[] {
    const bins = histogram([...a, ...b], wanted).map(({ from, to, open }): SharedBin => ({ from, to, open, counts: [0, 0] }));
    const width = bins.length ? bins[0]!.to - bins[0]!.from : 0;
    [a, b].forEach((values, side) => {
        for (const value of values) {
            const at = width > 0 ? Math.min(bins.length - 1, Math.floor((value - bins[0]!.from) / width)) : 0;
            bins[at]!.counts[side]! += 1;
        }
    });
    return bins;
}

// Math.max(...values) fails for very many.
export function largest(values: Iterable<number>, atLeast = -Infinity): number {
    let most = atLeast;
    for (const value of values) if (value > most) most = value;
    return most;
}

export function smallest(values: Iterable<number>, atMost = Infinity): number {
    let least = atMost;
    for (const value of values) if (value < least) least = value;
    return least;
}

export function groupBy<T, K>(rows: T[], key: (row: T) => K): Map<K, T[]> {
    const groups = new Map<K, T[]>();
    for (const row of rows) {
        const k = key(row);
        const group = groups.get(k);
        if (group) group.push(row);
        else groups.set(k, [row]);
    }
    return groups;
}

export function sum<T>(rows: T[], value: (row: T) => number | null): number {
    return rows.reduce((all, row) => all + (value(row) ?? 0), 0);
}
