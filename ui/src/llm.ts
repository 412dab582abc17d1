// What is said of requests to a language model; docs/llm.md defines the words.
import { count, ns } from "./format";
import type { LlmRequest } from "./queries";

export const PARTS = ["queue", "prefill", "host", "decode", "set aside"] as const;
export type PartName = (typeof PARTS)[number];

// End to end, cut into parts that add up to it; null if it did not end or has no token. What is not
// known of the time to the first token is the host's.
export function partsOf(r: LlmRequest): { name: PartName; ns: number }[] | null {
    if (r.e2e_ns === null || r.ttft_ns === null) return null;
    const queue = r.queue_ns ?? 0;
    const prefill = r.prefill_ns ?? 0;
    const aside = Math.min(r.preempted_ns ?? 0, r.e2e_ns - r.ttft_ns);
    return [
        { name: "queue", ns: queue },
        { name: "prefill", ns: prefill },
        { name: "host", ns: Math.max(r.ttft_ns - queue - prefill, 0) },
        { name: "decode", ns: r.e2e_ns - r.ttft_ns - aside },
        { name: "set aside", ns: aside },
    ];
}

// Why a slow request was slow, in a sentence.
export function reason(r: LlmRequest): string {
    const more = ns(r.cause_ns);
    switch (r.cause) {
        case "queue": return `waited ${more} longer than others in the queue`;
        case "prefill": return `reading its prompt of ${count(r.tokens_in)} tokens took ${more} longer`;
        case "preemption": return `set aside ${r.preemptions === 1 ? "once" : `${count(r.preemptions)} times`}, ${more} longer than others`;
        case "prefill of others": return `made tokens in iterations that read prompts of others: ${more} more`;
        case "more tokens": return `made more tokens, ${count(r.tokens_out)}: ${more} more`;
        case "host": return `the host, outside of iterations, took ${more} longer`;
        default: return `its decode took ${more} longer`;
    }
}

// Of a slow request, where in time its cause lies.
export function whereSlow(r: LlmRequest): [number, number] {
    const first = r.ts + (r.ttft_ns ?? 0);
    const end = r.ts + (r.e2e_ns ?? r.ttft_ns ?? 0);
    switch (r.cause) {
        case "queue": return [r.ts, r.ts + (r.queue_ns ?? 0)];
        case "prefill": return [r.ts + (r.queue_ns ?? 0), first];
        case "host": return [r.ts, first];
        default: return [first, end];
    }
}

export interface Goodput {
    ended: number;
    good: number;
    perSecond: number | null;
}

// Requests with the first token within a limit and every further one within another; null: no limit.
export function goodput(requests: LlmRequest[], ttft: number | null, itl: number | null): Goodput {
    const ended = requests.filter((r) => r.e2e_ns !== null);
    const within = (value: number | null, limit: number | null) => limit === null || (value !== null && value <= limit);
    const good = ended.filter((r) => within(r.ttft_ns, ttft) && within(r.itl_max_ns ?? r.tpot_ns ?? 0, itl)).length;
    const from = ended.reduce((least, r) => Math.min(least, r.ts), Infinity);
    const to = ended.reduce((most, r) => Math.max(most, r.ts + r.e2e_ns!), -Infinity);
    return { ended: ended.length, good, perSecond: to > from ? (good * 1e9) / (to - from) : null };
}

// "500ms", "0.5 s", "20us"; null if it is none.
export function readTime(text: string): number | null {
    const found = /^\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)\s*$/.exec(text);
    const units: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };
    return found ? Number(found[1]) * units[found[2]!]! : null;
}
