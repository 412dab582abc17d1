// What the page of runs over time computes; no markup.
import type { HistoryChange, HistoryCulprit, HistorySeries } from "./api";

export function medianOf(values: (number | null)[]): number | null {
    const known = values.filter((v): v is number => v !== null).sort((a, b) => a - b);
    const half = known.length >> 1;
    if (!known.length) return null;
    return known.length % 2 ? known[half]! : (known[half - 1]! + known[half]!) / 2;
}

// Of each run the median of the runs between the changes around it; none while it drifts.
export function levels(values: (number | null)[], changes: HistoryChange[]): (number | null)[] {
    const out: (number | null)[] = values.map(() => null);
    let from = 0;
    for (const { at, end } of [...changes, { at: values.length, end: values.length }]) {
        if (at > from) out.fill(medianOf(values.slice(from, at)), from, at);
        from = Math.max(from, end);
    }
    return out;
}

// From the change before to the one behind.
export function between(changes: HistoryChange[], change: HistoryChange, n: number): [number, number] {
    const before = changes.filter((c) => c !== change && c.end <= change.at).map((c) => c.end);
    const behind = changes.filter((c) => c !== change && c.at > change.end).map((c) => c.at);
    return [Math.max(0, ...before), Math.min(n, ...behind)];
}

export function titleOf(s: HistorySeries): string {
    return [s.model ?? "no model", s.engine, s.machine, s.threads === null ? null : `${s.threads} thread${s.threads === 1 ? "" : "s"}`,
            s.batch === null ? null : `batch ${s.batch}`, s.sizes].filter(Boolean).join(", ");
}

export function toldOf(culprit: HistoryCulprit | null): "slower" | "faster" | "new" | "gone" | "~" {
    if (!culprit) return "~";
    if (culprit.before_ns === null) return "new";
    if (culprit.after_ns === null) return "gone";
    return culprit.after_ns > culprit.before_ns ? "slower" : "faster";
}
