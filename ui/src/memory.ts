// Memory over the operators of a plan: what is alive while each of them runs.
import type { Chunk } from "./queries";

export interface Curve {
    kind: string;
    live: number[]; // bytes, by operator
}

// Weights and other constants: no operator begins or ends them.
export function isKept(chunk: Chunk): boolean {
    return chunk.first_op === null && chunk.last_op === null;
}

// Chunks that no operator begins or ends live all the time.
export function span(chunk: Chunk, ops: number): [number, number] {
    return [chunk.first_op ?? 0, chunk.last_op ?? ops - 1];
}

export function curves(chunks: Chunk[], ops: number): Curve[] {
    const changes = new Map<string, Float64Array>();
    for (const chunk of chunks) {
        const kind = chunk.kind ?? "other";
        const [first, last] = span(chunk, ops);
        let change = changes.get(kind);
        if (!change) changes.set(kind, (change = new Float64Array(ops + 1)));
        change[Math.min(ops, Math.max(0, first))]! += chunk.bytes;
        change[Math.min(ops, Math.max(0, last) + 1)]! -= chunk.bytes;
    }
    return [...changes].map(([kind, change]) => {
        let now = 0;
        return { kind, live: Array.from({ length: ops }, (_, i) => (now += change[i]!)) };
    });
}

export function alive(chunks: Chunk[], ops: number, at: number): Chunk[] {
    return chunks.filter((chunk) => {
        const [first, last] = span(chunk, ops);
        return first <= at && at <= last;
    });
}
