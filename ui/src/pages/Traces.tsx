// The traces of the folder that is served; any of them opens.
import { useEffect, useState } from "preact/hooks";
import * as api from "../api";
import { DataTable, type Column } from "../components/DataTable";
import { Loaded } from "../components/States";
import { bytes, date, ns } from "../format";
import { useKept, useLoad } from "../hooks";
import { href, navigate } from "../router";

const LOOK_MS = 300;
const LOOKS = 8; // large ones are not looked into unasked

const columns: Column<api.TraceEntry>[] = [
    { key: "path", title: "Trace", value: (t) => t.path, search: true,
      show: (t) => <a href={href("", {}, t.id)}>{t.path}</a> },
    { key: "model", title: "Model", value: (t) => t.model ?? null, search: true, width: "14%" },
    { key: "latency", title: "Latency", value: (t) => t.latency_ns ?? null, numeric: true, width: "110px",
      show: (t) => ns(t.latency_ns), doc: "Median of a step or inference" },
    { key: "format", title: "Format", value: (t) => t.format, search: true, width: "100px" },
    { key: "bytes", title: "Size", value: (t) => t.bytes, numeric: true, width: "110px",
      show: (t) => bytes(t.bytes) },
    { key: "modified", title: "Changed", value: (t) => t.modified, numeric: true, width: "150px",
      show: (t) => date(t.modified) },
];

// The message begins with the path, which stands beside it.
function reason({ error, path }: api.TraceEntry): string | null {
    const at = error?.indexOf(`${path}: `) ?? -1;
    return at < 0 ? error ?? null : error!.slice(at + path.length + 2);
}

const problem: Column<api.TraceEntry> = {
    key: "error", title: "Cannot be read", value: reason, search: true, width: "26%", doc: "Why the file cannot be read as a trace",
    show: (t) => (t.error ? <span class="damaged" title={t.error}>{reason(t)}</span> : ""),
};

export function Traces({ histories }: { histories: boolean }) {
    const [looked, setLooked] = useState(0);
    const traces = useKept(useLoad((signal) => api.traces(signal), [looked]));
    // What is in them, and what is wrong with them, the server finds out in the background.
    useEffect(() => {
        const waits = traces.state === "ready" && traces.value.some(({ spans, error }) => spans === null && !error);
        if (!waits || looked >= LOOKS) return undefined;
        const timer = setTimeout(() => setLooked(looked + 1), LOOK_MS * 2 ** looked);
        return () => clearTimeout(timer);
    }, [traces]);
    // Only a catalogue of runs is served: that is what is to be seen.
    const none = traces.state === "ready" && traces.value.length === 0;
    useEffect(() => {
        if (none && histories) location.replace(href("history", {}, null));
    }, [none, histories]);
    return (
        <main class="page fill" id="content">
            <h1>Traces</h1>
            <Loaded of={traces} empty="There is no trace in this folder. Drop one here, or record one: ‘opmeter run’, ‘opmeter record’.">
                {(rows) => (
                    <DataTable label="Traces" rows={rows} rowKey={(t) => t.id}
                               columns={rows.some((t) => t.error) ? [columns[0]!, problem, ...columns.slice(1)] : columns}
                               sort="-modified" urlKey="" onOpen={(t) => navigate(href("", {}, t.id))} />
                )}
            </Loaded>
        </main>
    );
}
