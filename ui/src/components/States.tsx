// What a page shows while it has nothing to show: loading, failed, or empty and why.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, NOT_IN_REPORT, progress } from "../api";
import { bytes, count } from "../format";
import { cutAt, type Loadable } from "../hooks";

// Not for a blink: what comes within 150 ms needs no word about it.
export function Loading({ what = "Loading" }: { what?: string }) {
    const [shown, setShown] = useState(false);
    useEffect(() => {
        const timer = setTimeout(() => setShown(true), 150);
        return () => clearTimeout(timer);
    }, []);
    return <div class="state loading" role="status" aria-busy="true">{shown && `${what} …`}</div>;
}

const PROGRESS_MS = 300;

// Likewise, for a trace that is being opened: how much of the file was read.
export function Opening({ id }: { id: string | null }) {
    const [read, setRead] = useState({ done: 0, total: 0 });
    useEffect(() => {
        const stop = new AbortController();
        const look = () => {
            if (id !== null) progress(id, stop.signal).then((now) => { if (now.total) setRead(now); }, () => undefined);
        };
        const timer = setInterval(look, PROGRESS_MS);
        return () => {
            clearInterval(timer);
            stop.abort();
        };
    }, [id]);
    if (!read.total) return <Loading what="Opening the trace" />;
    return (
        <div class="state loading opening" role="status" aria-busy="true">
            <span>Opening the trace: {bytes(read.done)} of {bytes(read.total)}</span>
            <progress aria-label="Read of the trace" max={read.total} value={read.done} />
        </div>
    );
}

export function Failed({ error }: { error: Error }) {
    const here = error instanceof ApiError && error.status === NOT_IN_REPORT;
    return (
        <div class={here ? "state empty" : "state failed"} role={here ? "note" : "alert"}>
            {!here && <strong>This did not work. </strong>}
            {error.message}
        </div>
    );
}

// why: a sentence, such as "This trace has no queues."
export function Empty({ why, children }: { why: string; children?: ComponentChildren }) {
    return <div class="state empty" role="note">{why}{children}</div>;
}

interface LoadedProps<T> {
    of: Loadable<T>;
    empty?: string; // said instead if the value is an empty array
    children: (value: T) => ComponentChildren;
}

export function Loaded<T>({ of, empty, children }: LoadedProps<T>) {
    if (of.state === "loading") return <Loading />;
    if (of.state === "failed") return <Failed error={of.error} />;
    if (empty && Array.isArray(of.value) && of.value.length === 0) return <Empty why={empty} />;
    const cut = cutAt(of.value);
    return (
        <>
            {cut !== null && (
                <p class="note cut-short" role="note">The trace has more than this page can hold: figures below are of the
                    first {count(cut)} rows. The command line and SQL see all of them.</p>
            )}
            {children(of.value)}
        </>
    );
}
