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

// A change of an allocator: bytes below 0 give memory back.
export interface AllocatorEvent {
    ts: number;
    addr: number | null;
    bytes: number;
    total: number | null;
    device_type: number | null;
    device: number | null;
    owner: string | null;
    rank: number | null;
}

export interface Allocation {
    addr: number;
    bytes: number;
    ts: number;
    owner: string | null;
}

export interface Peak {
    device: string;
    ts: number;
    total: number;
    alive: Allocation[];
}

const HOST = "the host";
const HOST_LEAST = 2 ** 20;

// Of every device, what was alive when most was in use. Events by time. Each rank has memory of its own.
export function aliveAtPeak(events: AllocatorEvent[]): Peak[] {
    const devices = new Map<string, AllocatorEvent[]>();
    const ranks = new Set(events.map(({ rank }) => rank)).size > 1;
    for (const event of events) {
        if (event.total === null || event.addr === null) continue;
        const name = (event.device_type === 0 ? HOST : `device ${event.device ?? 0}`) + (ranks && event.rank !== null ? `, rank ${event.rank}` : "");
        const list = devices.get(name);
        if (list) list.push(event);
        else devices.set(name, [event]);
    }
    const peaks = [...devices].map(([device, list]): Peak => {
        const at = list.reduce((best, event, i) => (event.total! > list[best]!.total! ? i : best), 0);
        const alive = new Map<number, Allocation>();
        for (const { ts, addr, bytes, owner } of list.slice(0, at + 1)) {
            if (bytes > 0) alive.set(addr!, { addr: addr!, bytes, ts, owner });
            else alive.delete(addr!);
        }
        return { device, ts: list[at]!.ts, total: list[at]!.total!, alive: [...alive.values()].sort((a, b) => b.bytes - a.bytes || a.ts - b.ts) };
    });
    // A few counters on the host are no peak to look at.
    return peaks.filter(({ device, total }) => !device.startsWith(HOST) || total >= HOST_LEAST);
}
