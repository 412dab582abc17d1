// Runs of a catalogue over time: where they changed, which operators made it, and the traces beside such a change.
import { useMemo, useState } from "preact/hooks";
import * as api from "../api";
import { Card, Facts } from "../components/Card";
import { Chart, type Series } from "../components/Chart";
import { DataTable, type Column } from "../components/DataTable";
import { Empty, Loaded } from "../components/States";
import { date, NA, ns, percent } from "../format";
import { between, levels, medianOf, titleOf, toldOf } from "../history";
import { useKept, useLoad } from "../hooks";
import { named } from "../palette";
import { href, navigate, setArgs, useRoute } from "../router";
import { useTheme } from "../theme";

type RunAt = api.HistoryRun & { at: number; change: api.HistoryChange | null };

function signed(share: number | null): string {
    return share === null ? NA : share > 0 ? `+${percent(share)}` : share < 0 ? `−${percent(-share)}` : percent(0);
}

const BY: Record<api.HistoryChange["by"], { badge: string; hint: string }> = {
    code: { badge: "bad", hint: "the level changed between these two commits, and the machine does not explain it" },
    machine: { badge: "plain", hint: "a fixed piece of work that is timed beside every run changed with it" },
    drift: { badge: "warn", hint: "no step: it goes on bit by bit" },
};

function By({ change }: { change: api.HistoryChange }) {
    const { badge, hint } = BY[change.by];
    return <span class={`badge ${change.by === "code" && (change.change ?? 0) < 0 ? "good" : badge}`} title={hint}>{change.by}</span>;
}

const toTime = (run: api.HistoryRun) => date(run.began_ns / 1e9);
const commit = (id: string | null) => (id ? id.slice(0, 10) : null);

// What is chosen stays in the address: a change by its place, a run by its id.
function Picture({ series, change }: { series: api.HistorySeries; change: api.HistoryChange | null }) {
    const theme = useTheme();
    const { x, drawn, low } = useMemo(() => {
        const values = series.runs.map((r) => r.median_ns);
        const lines: Series[] = [
            { label: "latency", color: named("layer", "framework", theme), values, points: true },
            { label: "level", color: named(null, "bad", theme), values: levels(values, series.changes), steps: true },
        ];
        if (series.runs.some((r) => r.loop_ns)) {
            // To the scale of the latency, as only its course matters.
            const scale = (medianOf(values) ?? 1) / (medianOf(series.runs.map((r) => r.loop_ns)) ?? 1);
            lines.push({ label: "fixed work, to scale", color: named(null, "other", theme), dash: [4, 4],
                         values: series.runs.map((r) => (r.loop_ns === null ? null : r.loop_ns * scale)) });
        }
        const all = lines.flatMap((l) => l.values).filter((v): v is number => v !== null);
        const [least, most] = all.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
        return { x: values.map((_, i) => i), drawn: lines, low: Math.max(0, least - 0.15 * (most - least) - 0.01 * least) };
    }, [series, theme]);
    return (
        <Chart label={`Latency of ${series.runs.length} runs`} x={x} xLabel="run" xSpace={80} height={260} series={drawn} yMin={low} yFormat={ns}
               xFormat={(i) => { const run = series.runs[Math.round(i)]; return run ? `${commit(run.commit) ?? `run ${Math.round(i)}`}, ${toTime(run)}` : ""; }}
               xTick={(i) => (Number.isInteger(i) ? commit(series.runs[i]?.commit ?? null) ?? String(i) : "")}
               chosen={change ? [change.at - 0.5, Math.max(change.end, change.at) + 0.5] : null}
               onPick={(i) => {
                   const near = series.changes.reduce<api.HistoryChange | null>((best, c) => (
                       Math.abs(c.at - i) < Math.abs((best?.at ?? Infinity) - i) ? c : best), null);
                   if (near) setArgs({ change: near.at, op: null });
               }} />
    );
}

function Changes({ series, chosen }: { series: api.HistorySeries; chosen: api.HistoryChange | null }) {
    const columns: Column<api.HistoryChange>[] = [
        { key: "at", title: "Between", value: (c) => c.at, width: "24%",
          show: (c) => `${commit(c.before_commit) ?? toTime(series.runs[Math.max(c.at - 1, 0)]!)} … ${commit(c.after_commit) ?? toTime(series.runs[c.at]!)}`,
          doc: "The last run before and the first one behind" },
        { key: "by", title: "By", value: (c) => c.by, show: (c) => <By change={c} />, width: "90px" },
        { key: "change", title: "Change", value: (c) => c.change, show: (c) => signed(c.change), numeric: true, width: "100px" },
        { key: "interval", title: "95 %", value: (c) => c.low, width: "180px", numeric: true,
          show: (c) => (c.low === null ? NA : `${signed(c.low)} to ${signed(c.high)}`) },
        { key: "before", title: "Before", value: (c) => c.before_ns, show: (c) => ns(c.before_ns), numeric: true, width: "100px" },
        { key: "after", title: "After", value: (c) => c.after_ns, show: (c) => ns(c.after_ns), numeric: true, width: "100px" },
        { key: "operators", title: "Operators", value: (c) => c.operators.map((o) => o.name ?? o.type).join(", ") },
    ];
    return (
        <Card title="Changes" wide note="A change opens with its operators; levels are medians of the runs between changes.">
            {series.changes.length === 0 ? <p class="note">{series.runs.length < 8 ? "A change takes four runs on either side." : "The level did not change."}</p> : (
                <DataTable label="Changes" rows={series.changes} rowKey={(c) => c.at} columns={columns} sort="at" maxHeight="320px"
                           selected={chosen?.at ?? null} onOpen={(c) => setArgs({ change: c.at, op: null })} />
            )}
        </Card>
    );
}

interface OperatorAt {
    name: string;
    type: string;
    before: number | null;
    after: number | null;
    ns: (number | null)[];
    told: api.HistoryCulprit | null; // if it changed for certain
}

const keyOf = (op: { name: string; type: string }) => `${op.name}|${op.type}`;

function useSideBySide(catalogue: string) {
    const [failed, setFailed] = useState<Error | null>(null);
    const open = async (a: string, b: string) => {
        setFailed(null);
        try {
            const [one, two] = await Promise.all([api.historyTrace(catalogue, a), api.historyTrace(catalogue, b)]);
            navigate(href("compare", { with: two.id, show: "timelines" }, one.id));
        } catch (error) {
            setFailed(error as Error);
        }
    };
    return { failed, open };
}

function Change({ catalogue, asked, index, series, change, op }: {
    catalogue: string; asked: api.RunsAsked; index: number; series: api.HistorySeries; change: api.HistoryChange; op: string | null;
}) {
    const theme = useTheme();
    const times = useKept(useLoad((signal) => api.historyOperators(catalogue, asked, index, signal), [catalogue, asked.model, asked.label, index]));
    const sides = useSideBySide(catalogue);
    const rows = useMemo(() => {
        if (times.state !== "ready") return [];
        const { from, operators } = times.value;
        const [start, end] = between(series.changes, change, series.runs.length);
        return operators.map((o): OperatorAt => ({
            ...o,
            before: medianOf(o.ns.slice(Math.max(start - from, 0), Math.max(change.at - from, 0))),
            after: medianOf(o.ns.slice(Math.max(change.end - from, 0), Math.max(end - from, 0))),
            told: change.operators.find((c) => c.name === o.name && c.type === o.type) ?? null,
        }));
    }, [times, change]);
    const chosen = rows.find((o) => keyOf(o) === op) ?? null;
    const columns: Column<OperatorAt>[] = [
        { key: "name", title: "Operator", value: (o) => o.name, search: true },
        { key: "type", title: "Type", value: (o) => o.type, search: true, width: "14%" },
        { key: "before", title: "Before", value: (o) => o.before, show: (o) => ns(o.before), numeric: true, width: "100px" },
        { key: "after", title: "After", value: (o) => o.after, show: (o) => ns(o.after), numeric: true, width: "100px" },
        { key: "moved", title: "After − before", value: (o) => Math.abs((o.after ?? 0) - (o.before ?? 0)), numeric: true, width: "120px",
          show: (o) => { const by = (o.after ?? 0) - (o.before ?? 0); return by < 0 ? `−${ns(-by)}` : `+${ns(by)}`; } },
        { key: "change", title: "Change", value: (o) => (o.before && o.after ? o.after / o.before - 1 : null), numeric: true, width: "100px",
          show: (o) => signed(o.before && o.after ? o.after / o.before - 1 : null) },
        { key: "told", title: "Verdict", value: (o) => toldOf(o.told), width: "100px",
          show: (o) => <span class={`badge ${toldOf(o.told) === "slower" ? "bad" : toldOf(o.told) === "faster" ? "good" : "plain"}`}>{toldOf(o.told)}</span>,
          doc: "Slower or faster if chance does not explain it, so that of all called so at most one in a hundred is not; else ~" },
    ];
    const { runs } = series;
    const [a, b] = [runs[Math.max(change.at - 1, 0)]!, runs[Math.max(change.at, change.end)]!];
    return (
        <Card title={`${commit(change.before_commit) ?? toTime(a)} … ${commit(change.after_commit) ?? toTime(b)}: ${signed(change.change)}`} wide
              aside={<button class="button" onClick={() => void sides.open(a.id, b.id)}>Both traces side by side</button>}
              note={BY[change.by].hint}>
            {sides.failed && <p class="note worse" role="alert">{sides.failed.message}</p>}
            <Loaded of={times} empty="">
                {() => (
                    <DataTable label="Operators of the change" rows={rows} rowKey={keyOf} columns={columns} sort="-moved" maxHeight="360px"
                               selected={op} onOpen={(o) => setArgs({ op: keyOf(o) })} />
                )}
            </Loaded>
            {chosen && times.state === "ready" && (
                <div role="group" aria-label={`${chosen.name} over time`}>
                    <h3>{chosen.name} over time</h3>
                    <Chart label={`${chosen.name} in ${chosen.ns.length} runs`} height={180} yFormat={ns} xLabel="run" xSpace={80} x={chosen.ns.map((_, i) => i + times.value.from)}
                           xFormat={(i) => { const run = runs[Math.round(i)]; return run ? `${commit(run.commit) ?? `run ${Math.round(i)}`}, ${toTime(run)}` : ""; }}
                           xTick={(i) => (Number.isInteger(i) ? commit(runs[i]?.commit ?? null) ?? String(i) : "")}
                           series={[{ label: "time in one iteration", color: named("layer", "framework", theme), values: chosen.ns, points: true }]}
                           chosen={[change.at - 0.5, Math.max(change.end, change.at) + 0.5]} />
                </div>
            )}
        </Card>
    );
}

function Runs({ catalogue, series }: { catalogue: string; series: api.HistorySeries }) {
    const [failed, setFailed] = useState<Error | null>(null);
    const open = (run: RunAt) => {
        setFailed(null);
        api.historyTrace(catalogue, run.id).then(({ id }) => navigate(href("", {}, id)), setFailed);
    };
    const rows = useMemo(() => series.runs.map((run, at): RunAt => ({ ...run, at, change: series.changes.find((c) => c.at === at) ?? null })), [series]);
    const columns: Column<RunAt>[] = [
        { key: "at", title: "Time", value: (r) => r.at, show: toTime, width: "150px" },
        { key: "commit", title: "Commit", value: (r) => r.commit, width: "120px", search: true,
          show: (r) => (r.commit ? <span title={r.commit}>{commit(r.commit)}{r.dirty ? " +" : ""}</span> : NA) },
        { key: "median", title: "Latency", value: (r) => r.median_ns, show: (r) => ns(r.median_ns), numeric: true, width: "100px", doc: "Median" },
        { key: "p99", title: "p99", value: (r) => r.p99_ns, show: (r) => ns(r.p99_ns), numeric: true, width: "100px" },
        { key: "loop", title: "Fixed work", value: (r) => r.loop_ns, show: (r) => ns(r.loop_ns), numeric: true, width: "110px",
          doc: "What a fixed loop took beside the run: it tells of the machine" },
        { key: "load", title: "Load", value: (r) => r.load, numeric: true, width: "80px", show: (r) => r.load?.toFixed(1) ?? NA },
        { key: "change", title: "Change", value: (r) => r.change?.change ?? null, numeric: true, width: "150px",
          show: (r) => (r.change ? <><By change={r.change} /> {signed(r.change.change)}</> : "") },
        { key: "labels", title: "Labels", value: (r) => r.labels, search: true, show: (r) => `${r.labels}${r.accepted ? " accepted" : ""}` },
    ];
    return (
        <Card title="Runs" wide note="A run opens its trace.">
            {failed && <p class="note worse" role="alert">{failed.message}</p>}
            <DataTable label="Runs" rows={rows} rowKey={(r) => r.id} columns={columns} sort="-at" maxHeight="420px" onOpen={open} />
        </Card>
    );
}

function Catalogue({ id }: { id: string }) {
    const { args } = useRoute();
    const asked: api.RunsAsked = { model: args.get("model") ?? "", label: args.get("label") ?? "" };
    const history = useKept(useLoad((signal) => api.history(id, asked, signal), [id, asked.model, asked.label]));
    const index = Number(args.get("series") ?? 0);
    const filter = (name: "model" | "label", hint: string) => (
        <input class="search" type="search" aria-label={hint} placeholder={hint} value={asked[name]}
               onChange={(event) => setArgs({ [name]: event.currentTarget.value, series: null, change: null, op: null })} />
    );
    return (
        <>
            <div class="table-bar">{filter("model", "Model")}{filter("label", "Label: KEY=VALUE")}</div>
            <Loaded of={history}>
                {({ series, skipped }) => {
                    const shown = series[index] ?? series[0];
                    if (!shown) return <Empty why={asked.model || asked.label ? "No run is as asked for." : "The catalogue has no run. ‘opmeter add’ puts some there."} />;
                    const at = args.get("change");
                    const change = at === null ? null : shown.changes.find((c) => c.at === Number(at)) ?? null;
                    return (
                        <div class="cards">
                            <Card title={titleOf(shown)} wide
                                  aside={series.length > 1 && (
                                      <select class="select wide" aria-label="Series" value={String(series.indexOf(shown))}
                                              onChange={(event) => setArgs({ series: event.currentTarget.value, change: null, op: null })}>
                                          {series.map((s, i) => <option key={i} value={String(i)}>{`${titleOf(s)}: ${s.runs.length}`}</option>)}
                                      </select>
                                  )}>
                                <Facts of={[["Runs", String(shown.runs.length)], ["Compared by", shown.basis ?? NA],
                                            ["Spread of single runs", percent(shown.noise)],
                                            ...(skipped ? [["Rows that make no sense", String(skipped)] as [string, string]] : [])]} />
                                <Picture series={shown} change={change} />
                            </Card>
                            <Changes series={shown} chosen={change} />
                            {change && <Change key={`${index} ${change.at}`} catalogue={id} op={args.get("op")}
                                               {...{ asked, index: series.indexOf(shown), series: shown, change }} />}
                            <Runs catalogue={id} series={shown} />
                        </div>
                    );
                }}
            </Loaded>
        </>
    );
}

export function History() {
    const { args } = useRoute();
    const catalogues = useLoad((signal) => api.histories(signal), []);
    return (
        <main class="page" id="content" tabIndex={-1}>
            <h1>History</h1>
            <Loaded of={catalogues} empty="No catalogue of runs is served. ‘opmeter add RUN --to runs.db’ makes one, ‘opmeter serve runs.db’ shows it.">
                {(list) => {
                    const of = list.find((c) => c.id === args.get("c")) ?? list[0]!;
                    return (
                        <>
                            {list.length > 1 && (
                                <select class="select wide" aria-label="Catalogue" value={of.id}
                                        onChange={(event) => setArgs({ c: event.currentTarget.value, series: null, change: null, op: null })}>
                                    {list.map((c) => <option key={c.id} value={c.id}>{c.path}</option>)}
                                </select>
                            )}
                            <Catalogue key={of.id} id={of.id} />
                        </>
                    );
                }}
            </Loaded>
        </main>
    );
}
