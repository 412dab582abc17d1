// The only module that talks to the server, or reads what a report file carries instead.
// docs/http.md is the contract.

export type Value = number | string | null;

export interface Rows {
    columns: string[];
    types: string[];
    rows: Value[][];
    truncated: boolean;
}

export interface TraceEntry {
    id: string;
    path: string;
    bytes: number | null;
    modified: number;
    format: string | null;
    open: boolean;
    model?: string | null;
    latency_ns?: number | null;
    spans?: number | null; // null: the server has not looked into it yet
    error?: string | null; // why it cannot be read
}

export interface TraceInfo {
    id: string;
    path: string;
    name: string;
    stamp: string | number;
    duration_ns: number;
    rows: Record<string, number>;
}

export interface Version {
    version: string;
    folder: boolean;
    histories?: boolean; // there are catalogues of runs
    fleets: number; // databases of jobs
    drop_max: number; // bytes of a file that the server takes; 0: it takes none
}

// [ts, dur, depth, index into names or -1 if none stands out, span.id or -1, spans that it stands
// for, and if these are several: how long there was one of them]
export type Bar = [number, number, number, number, number, number, number?];

export interface Timeline {
    from: number;
    to: number;
    names: (string | null)[];
    tracks: { id: number; depth: number; spans: Bar[] }[];
    counters: { id: number; points: [number, number][] }[];
    coarse?: boolean;
}

// What a search found: how many spans, how long they are together, and one of them.
export interface FoundSpan {
    count: number;
    total_ns: number;
    at: number;
    span: number;
}

// Of a device, thousandths that it was busy in each part of a range.
export interface DeviceBusy {
    device: string | null;
    host: string | null;
    rank: number | null;
    first: number;
    last: number;
    busy_ns: number;
    busy: number[];
}

export interface Busy {
    from: number;
    to: number;
    devices: DeviceBusy[];
}

// Two traces compared, as opmeter diff does it; times of one iteration, or of whole traces.
export interface Diff {
    spans: boolean; // rows are names of spans: one of them has no operators
    iterations: [number, number]; // 0: no steps
    alone: [number, number]; // share of either side's time that has no counterpart
    tail: "slower" | "faster" | "~" | "cannot tell" | null; // p99 of the steps; null: there are no such
    total: DiffRow;
    rows: DiffRow[];
    truncated: boolean;
}

export interface DiffRow {
    name: string | null;
    type: string | null;
    a_ns: number | null;
    b_ns: number | null;
    state: "slower" | "faster" | "~" | "only A" | "only B";
    a_op: string | null; // the operator that it stands for; null: none, or several that one of the other side covers
    b_op: string | null;
}

export interface HistoryRun {
    id: string;
    began_ns: number;
    commit: string | null;
    dirty: number | null;
    median_ns: number;
    p99_ns: number | null;
    loop_ns: number | null; // what a fixed piece of work took beside it
    stolen: number | null;
    load: number | null;
    host: string | null;
    labels: string;
    trace: string | null;
    accepted: boolean;
}

export interface HistoryCulprit {
    name?: string;
    type: string;
    before_ns: number | null;
    after_ns: number | null;
    change: number | null;
}

export interface HistoryChange {
    by: "code" | "machine" | "drift";
    at: number; // places among the runs
    end: number;
    before_commit: string | null;
    after_commit: string | null;
    before_ns: number | null;
    after_ns: number | null;
    change: number | null;
    low: number | null;
    high: number | null;
    operators: HistoryCulprit[]; // those that changed for certain
}

export interface HistorySeries {
    model: string | null;
    engine: string | null;
    machine: string | null;
    threads: number | null;
    batch: number | null;
    sizes: string | null;
    basis: string | null;
    noise: number | null;
    runs: HistoryRun[];
    changes: HistoryChange[];
}

export interface RunsAsked {
    model: string;
    label: string; // KEY=VALUE
}

export type Args = Record<string, string | number>;

interface Report {
    version: string;
    trace: TraceInfo;
    data: Record<string, Rows>;
    timeline: Timeline;
    busy: Busy; // of the whole trace
}

export class ApiError extends Error {
    constructor(message: string, readonly status: number) {
        super(message);
    }
}

// The status of an answer that a report file does not carry.
export const NOT_IN_REPORT = 0;

function embedded(): Report | null {
    const text = document.getElementById("opmeter-data")?.textContent;
    return text ? (JSON.parse(text) as Report) : null;
}

const report = embedded();

export const isReport = report !== null;

function query(args: Args): string {
    const words = Object.entries(args).map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
    return words.length ? `?${words.join("&")}` : "";
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
    let answer: Response;
    try {
        answer = await fetch(path, { signal: signal ?? null });
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new ApiError("The server does not answer. Is opmeter serve still running?", -1);
    }
    if (answer.ok) return (await answer.json()) as T;
    const told = (await answer.json().catch(() => null)) as { error?: string } | null;
    throw new ApiError(told?.error ?? `The server answered ${answer.status}.`, answer.status);
}

function lacking(what: string): ApiError {
    return new ApiError(`${what} not in this report file; opmeter serve has it.`, NOT_IN_REPORT);
}

export async function version(signal?: AbortSignal): Promise<Version> {
    if (report) return { version: report.version, folder: false, fleets: 0, drop_max: 0 };
    return get("/api/version", signal);
}

export async function traces(signal?: AbortSignal): Promise<TraceEntry[]> {
    if (!report) return get("/api/traces", signal);
    const { id, path } = report.trace;
    return [{ id, path, bytes: null, modified: 0, format: null, open: true }];
}

export async function trace(id: string, signal?: AbortSignal): Promise<TraceInfo> {
    return report ? report.trace : get(`/api/trace/${id}`, signal);
}

// How much of a trace was read by the request that opens it just now; total 0: none does, or it is no file.
export async function progress(id: string, signal?: AbortSignal): Promise<{ done: number; total: number }> {
    if (report) return { done: 0, total: 0 };
    return get(`/api/trace/${id}/progress`, signal);
}

// Bring a file to the server; fetch() does not tell how much of it is there.
export function drop(file: File, onProgress: (done: number) => void, signal: AbortSignal): Promise<{ id: string }> {
    return new Promise((done, fail) => {
        const request = new XMLHttpRequest();
        const lost = () => fail(new ApiError("The server does not answer. Is opmeter serve still running?", -1));
        request.open("PUT", `/api/dropped/${encodeURIComponent(file.name)}`);
        request.responseType = "json";
        request.upload.onprogress = (event) => onProgress(event.loaded);
        request.onload = () => {
            const told = request.response as { id?: string; error?: string } | null;
            if (request.status === 201 && told?.id) done({ id: told.id });
            else fail(new ApiError(told?.error ?? `The server answered ${request.status}.`, request.status));
        };
        request.onerror = lost;
        request.onabort = lost;
        signal.addEventListener("abort", () => request.abort());
        request.send(file);
    });
}

// Rows of a named query (src/server/queries.def).
export async function data(id: string, name: string, args: Args = {},
                           signal?: AbortSignal): Promise<Rows> {
    if (!report) return get(`/api/trace/${id}/data/${name}${query(args)}`, signal);
    const rows = report.data[name + query(args)];
    if (!rows) throw lacking("This is");
    return rows;
}

export async function sql(id: string, text: string, limit?: number,
                          signal?: AbortSignal): Promise<Rows> {
    if (report) throw lacking("SQL is");
    return get(`/api/trace/${id}/sql${query(limit ? { q: text, limit } : { q: text })}`, signal);
}

// What [from, to) of some tracks looks like when it is `width` pixels wide; with a text, of spans
// alone whose name holds it. A report file has one picture of everything, whatever is asked for.
export async function timeline(id: string, from: number, to: number, width: number, tracks: number[],
                               text: string | null, signal?: AbortSignal): Promise<Timeline> {
    if (report) return report.timeline;
    const args: Args = text === null ? { from, to, width } : { from, to, width, text };
    return get(`/api/trace/${id}/timeline${query(args)}&track=${tracks.join(",")}`, signal);
}

// The at-th span whose name holds a text, or the first from a time on.
export async function found(id: string, text: string, where: { at: number } | { from: number },
                            signal?: AbortSignal): Promise<FoundSpan> {
    if (report) throw lacking("This is");
    return get(`/api/trace/${id}/found${query({ text, ...where })}`, signal);
}

// What spans do in a range of time, by name: of each the part that lies in it.
export async function totals(id: string, from: number, to: number, signal?: AbortSignal): Promise<Rows> {
    if (report) throw lacking("This is");
    return get(`/api/trace/${id}/totals${query({ from, to })}`, signal);
}

// What stands in what there, of one track or of all.
export async function flame(id: string, from: number, to: number, track: number | null,
                            signal?: AbortSignal): Promise<Rows> {
    if (report) throw lacking("This is");
    return get(`/api/trace/${id}/flame${query(track === null ? { from, to } : { from, to, track })}`, signal);
}

export async function busy(id: string, from: number, to: number, width: number,
                           signal?: AbortSignal): Promise<Busy> {
    if (report) return busyWithin(report.busy, from, to, width);
    return get(`/api/trace/${id}/busy${query({ from, to, width })}`, signal);
}

export async function diff(id: string, other: string, by: "op" | "type", signal?: AbortSignal): Promise<Diff> {
    if (report) throw lacking("This is");
    const answer = await get<Rows & Omit<Diff, "total" | "rows"> & { total: Value[] }>(
        `/api/trace/${id}/diff${query({ with: other, by })}`, signal);
    const { spans, iterations, alone, tail, truncated } = answer;
    const [total] = records<DiffRow>({ ...answer, rows: [answer.total] });
    return { spans, iterations, alone, tail, total: total!, rows: records<DiffRow>(answer), truncated };
}

// Catalogues of runs, docs/http.md.
export async function histories(signal?: AbortSignal): Promise<{ id: string; path: string }[]> {
    return report ? [] : get("/api/histories", signal);
}

function given(asked: RunsAsked): Args {
    return Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== ""));
}

export async function history(id: string, asked: RunsAsked, signal?: AbortSignal): Promise<{ series: HistorySeries[]; skipped: number }> {
    return get(`/api/history/${id}${query(given(asked))}`, signal);
}

// What operators took in each run of a series, from one run on.
export async function historyOperators(id: string, asked: RunsAsked, series: number, signal?: AbortSignal):
        Promise<{ from: number; operators: { name: string; type: string; ns: (number | null)[] }[] }> {
    return get(`/api/history/${id}/operators${query({ ...given(asked), series })}`, signal);
}

// The trace of a run, which the server lists from then on.
export async function historyTrace(id: string, run: string): Promise<{ id: string }> {
    return get(`/api/history/${id}/trace${query({ run })}`);
}

// The same of a part of the range, as fine as that is known.
export function busyWithin(whole: Busy, from: number, to: number, width: number): Busy {
    const devices = whole.devices.map((device): DeviceBusy => {
        const n = device.busy.length;
        const part = (whole.to - whole.from) / Math.max(n, 1);
        const until = [0]; // busy up to the end of each part
        for (const share of device.busy) until.push(until[until.length - 1]! + (share / 1000) * part);
        const at = (time: number) => {
            const x = Math.min(Math.max((time - whole.from) / part, 0), n);
            const low = Math.min(Math.floor(x), Math.max(n - 1, 0));
            return until[low]! + ((until[low + 1] ?? until[low]!) - until[low]!) * (x - low);
        };
        const step = (to - from) / width;
        const busy = Array.from({ length: width }, (_, i) => Math.round(((at(from + (i + 1) * step) - at(from + i * step)) / step) * 1000));
        return { ...device, busy, busy_ns: at(to) - at(from) };
    });
    return { from, to, devices };
}

// A database with the ranks of jobs.
export interface Fleet {
    id: string;
    name: string;
}

export async function fleets(signal?: AbortSignal): Promise<Fleet[]> {
    return report ? [] : get("/api/fleets", signal);
}

export async function fleetRows<T>(id: string, what: "jobs" | "hosts", signal?: AbortSignal): Promise<T[]> {
    return records<T>(await get<Rows>(`/api/fleet/${id}/${what}`, signal));
}

// The answer to a question (src/catalog/questions.def); bin: steps that were put together in one row of a heat map.
export async function askJobRows(id: string, job: string, question: string, signal?: AbortSignal): Promise<Rows & { bin: number }> {
    return get(`/api/fleet/${id}/job/${encodeURIComponent(job)}/${question}`, signal);
}

export async function askJob<T>(id: string, job: string, question: string, signal?: AbortSignal): Promise<T[]> {
    return records<T>(await askJobRows(id, job, question, signal));
}

// The trace of a rank, if it lies where the server may read it.
export async function openRank(id: string, job: string, rank: number): Promise<{ id: string }> {
    return get(`/api/fleet/${id}/job/${encodeURIComponent(job)}/rank/${rank}`);
}

// Where the trace can be had in another format, or null in a report.
export function exportUrl(id: string, format: string): string | null {
    return report ? null : `/api/trace/${id}/export/${format}`;
}

// Rows as objects, so that they can be used by column name.
export function records<T>(rows: Rows): T[] {
    return rows.rows.map((row) => {
        const record: Record<string, Value> = {};
        rows.columns.forEach((column, i) => { record[column] = row[i] ?? null; });
        return record as T;
    });
}
