// What a page shows while it has nothing to show: loading, failed, or empty and why.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, NOT_IN_REPORT } from "../api";
import { count } from "../format";
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
