// Data that comes later, and the trace that a page is about.
import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";

export type Loadable<T> =
    | { state: "loading" }
    | { state: "failed"; error: Error }
    | { state: "ready"; value: T };

// What load() gives, loaded again when a dependency changes; what is stale is cancelled.
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[]): Loadable<T> {
    const [now, setNow] = useState<Loadable<T>>({ state: "loading" });
    useEffect(() => {
        const stop = new AbortController();
        setNow({ state: "loading" });
        load(stop.signal).then(
            (value) => { if (!stop.signal.aborted) setNow({ state: "ready", value }); },
            (error: Error) => { if (!stop.signal.aborted) setNow({ state: "failed", error }); });
        return () => stop.abort();
    }, deps);
    return now;
}

// What was there before stays while it is loaded again.
export function useKept<T>(now: Loadable<T>): Loadable<T> {
    const kept = useRef(now);
    if (now.state !== "loading") kept.current = now;
    return kept.current;
}

export const TraceContext = createContext<api.TraceInfo | null>(null);

// The trace shown. Only below the frame of a trace.
export function useTrace(): api.TraceInfo {
    const trace = useContext(TraceContext);
    if (!trace) throw new Error("no trace here");
    return trace;
}

// Answers about the trace as it is, so that going from page to page asks nothing twice.
const answers = new Map<string, Promise<unknown[]>>();
const cutShort = new WeakSet<unknown[]>();
const KEPT = 60;

function ask<T>(trace: api.TraceInfo, name: string, args: api.Args): Promise<T[]> {
    const key = JSON.stringify([trace.id, trace.stamp, name, args]);
    const kept = answers.get(key) as Promise<T[]> | undefined;
    if (kept) return kept;
    const answer = api.data(trace.id, name, args).then((rows) => {
        const list = api.records<T>(rows);
        if (rows.truncated) cutShort.add(list);
        return list;
    });
    answers.set(key, answer);
    answer.catch(() => answers.delete(key));
    if (answers.size > KEPT) answers.delete(answers.keys().next().value!);
    return answer;
}

// How many rows there are of a list, or of one among several, that was too long to be given whole;
// null if all are whole.
export function cutAt(value: unknown): number | null {
    const lists = Array.isArray(value) ? [value, ...value.filter((v) => Array.isArray(v))] as unknown[][] : [];
    return lists.find((list) => cutShort.has(list))?.length ?? null;
}

// Rows of a named query of the trace shown, as objects.
export function useData<T>(name: string, args: api.Args = {}): Loadable<T[]> {
    return useDataOf<T>(useTrace(), name, args);
}

// Likewise, of any trace; null: of none.
export function useDataOf<T>(trace: api.TraceInfo | null, name: string, args: api.Args = {}): Loadable<T[]> {
    return useLoad(async () => (trace ? ask<T>(trace, name, args) : []),
                   [trace?.id, trace?.stamp, name, JSON.stringify(args)]);
}

// Several at once: ready when all are.
export function all<T extends unknown[]>(...parts: { [K in keyof T]: Loadable<T[K]> }): Loadable<T> {
    const values: unknown[] = [];
    let loading = false;
    for (const part of parts as Loadable<unknown>[]) {
        if (part.state === "failed") return part;
        if (part.state === "loading") loading = true;
        else values.push(part.value);
    }
    return loading ? { state: "loading" } : { state: "ready", value: values as T };
}
