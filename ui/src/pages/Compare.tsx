// This trace beside another one of the same server: what changed, as opmeter diff says it, how times are
// distributed, and both timelines.
import { useEffect, useMemo, useRef } from "preact/hooks";
import * as api from "../api";
import { Card, Figure } from "../components/Card";
import { DataTable, type Column } from "../components/DataTable";
import { Overlay } from "../components/Overlay";
import { Empty, Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { align, difference, relative, verdict } from "../compare";
import { count, NA, ns, percent } from "../format";
import { all, useDataOf, useLoad, useTrace } from "../hooks";
import { facts } from "../machine";
import type { Execution, Latency, Meta, Operator } from "../queries";
import { href, setArgs, useRoute } from "../router";
import type { StepRow } from "../schema";
import { Pair } from "../timeline/Pair";

type Two<T> = [T, T];

function signed(value: number | null, show: (v: number) => string): string {
    return value === null ? NA : value > 0 ? `+${show(value)}` : value < 0 ? `−${show(-value)}` : show(0);
}

const STATES: Record<api.DiffRow["state"], { title: string; badge: string; hint: string }> = {
    slower: { title: "slower", badge: "bad", hint: "by more than chance explains" },
    faster: { title: "faster", badge: "good", hint: "by more than chance explains" },
    "~": { title: "~", badge: "plain", hint: "within the spread of the measurements, or the spread is not known" },
    "only A": { title: "only A", badge: "plain", hint: "B has no counterpart" },
    "only B": { title: "only B", badge: "plain", hint: "A has no counterpart" },
};

function State({ of }: { of: api.DiffRow["state"] }) {
    const { title, badge, hint } = STATES[of];
    return <span class={`badge ${badge}`} title={hint}>{title}</span>;
}

const changeOf = (row: api.DiffRow) => (row.b_ns ?? 0) - (row.a_ns ?? 0);

function columnsOf(by: "op" | "type", spans: boolean): Column<api.DiffRow>[] {
    const type = spans ? "Category" : "Type";
    return [
        { key: "name", title: by === "type" ? type : spans ? "Span" : "Operator", value: (r) => r.name, search: true },
        ...(by === "type" ? [] : [{ key: "type", title: type, value: (r: api.DiffRow) => r.type, search: true, width: "16%" }]),
        { key: "a", title: "A", value: (r) => r.a_ns, show: (r) => ns(r.a_ns), numeric: true, width: "92px" },
        { key: "b", title: "B", value: (r) => r.b_ns, show: (r) => ns(r.b_ns), numeric: true, width: "92px" },
        { key: "size", title: "B − A", value: (r) => Math.abs(changeOf(r)), show: (r) => signed(changeOf(r), ns), numeric: true, width: "100px",
          doc: "Sorted by size, whichever way; what only one of them has counts whole" },
        { key: "change", title: "Change", value: (r) => relative(r.a_ns, r.b_ns), numeric: true, width: "92px",
          show: (r) => signed(relative(r.a_ns, r.b_ns), percent) },
        { key: "state", title: "Verdict", value: (r) => r.state, show: (r) => <State of={r.state} />, width: "90px", search: true,
          doc: "As opmeter diff has it: slower or faster if the means differ by more than chance explains, so that of all called so at most one in a hundred is not; else ~" },
    ];
}

const STEP = "step";

function Change({ a, b, told }: { a: number | null; b: number | null; told: ReturnType<typeof verdict> }) {
    const change = relative(a, b);
    const tone = told === "slower" ? "worse" : told === "faster" ? "better" : "";
    const hint = told === null ? "a single value, or too few to tell it from noise" : told === "same" ? "within the noise" : "beyond the noise";
    return <span class={tone} title={hint}>{signed(change, percent)}</span>;
}

// Latencies that mean the same. Two models have one step each: then these are compared, whatever they
// are called.
function latencies(a: Latency[], b: Latency[]) {
    const steps = (rows: Latency[]) => rows.filter((l) => l.scope === STEP && l.count > 0);
    const pairs = align(a.filter((l) => l.count > 0), b.filter((l) => l.count > 0), (l) => `${l.scope} ${l.name ?? ""}`);
    // One region around all steps says nothing that they do not say.
    const named = steps(a).length && steps(b).length ? pairs.filter((p) => p.a?.scope === STEP || p.a?.count !== 1 || p.b?.count !== 1) : pairs;
    if (steps(a).length !== 1 || steps(b).length !== 1) return named;
    return [{ key: STEP, a: steps(a)[0]!, b: steps(b)[0]! }, ...named.filter((p) => p.a && p.b && p.a.scope !== STEP)];
}

// Of the mean; the median of values that scatter like a bell has pi / 2 of it.
function spread(l: Latency | null, of = 1): number | null {
    return l && l.stdev_ns !== null && l.count > 1 ? (of * l.stdev_ns ** 2) / l.count : null;
}

const MEASURES: { title: string; of: (l: Latency) => number | null; spread?: number }[] = [
    { title: "Median", of: (l) => l.median_ns, spread: Math.PI / 2 },
    { title: "Mean", of: (l) => l.mean_ns, spread: 1 },
    { title: "Minimum", of: (l) => l.min_ns },
    { title: "p90", of: (l) => l.p90_ns },
    { title: "p99", of: (l) => l.p99_ns },
    { title: "Maximum", of: (l) => l.max_ns },
];

// What opmeter diff says of the tail, where it is the first latency's.
function tailTold(tail: api.Diff["tail"]): ReturnType<typeof verdict> {
    return tail === "slower" || tail === "faster" ? tail : tail === "~" ? "same" : null;
}

function LatencyCard({ a, b, steps, tail }: { a: Latency | null; b: Latency | null; steps: Two<StepRow[]>; tail: api.Diff["tail"] }) {
    const one = (a ?? b)!;
    const values = (of: StepRow[], l: Latency | null) =>
        of.filter((s) => !s.warmup && s.dur >= 0 && l !== null && (l.name === null || s.model === l.name)).map((s) => s.dur);
    const drawn: Two<number[]> = one.scope === STEP ? [values(steps[0], a), values(steps[1], b)] : [[], []];
    return (
        <Card title={`${one.scope === STEP ? "Latency of a step" : "Region"}: ${one.name ?? "all"}`}
              note={a && b ? `${count(a.count)} in A, ${count(b.count)} in B, without warm-up` : a ? "only in A" : "only in B"}>
            <table class="plain">
                <thead>
                    <tr><td></td><th class="num">A</th><th class="num">B</th><th class="num">B − A</th><th class="num">Change</th></tr>
                </thead>
                <tbody>
                    {MEASURES.map(({ title, of, spread: scale }) => {
                        const [x, y] = [a && of(a), b && of(b)];
                        const told = title === "p99" ? tailTold(tail) : scale === undefined ? null : verdict(x, y, [spread(a, scale), spread(b, scale)]);
                        return (
                            <tr key={title}>
                                <td>{title}</td>
                                <td class="num">{ns(x)}</td>
                                <td class="num">{ns(y)}</td>
                                <td class="num">{signed(difference(x, y), ns)}</td>
                                <td class="num"><Change a={x} b={y} told={told} /></td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
            {drawn.every((side) => side.length > 0) && <Overlay label="Steps by latency" values={drawn} />}
        </Card>
    );
}

function FactsCard({ a, b }: { a: Meta[]; b: Meta[] }) {
    const of = align(facts(a), facts(b), ([title]) => title).filter((p) => p.a?.[1] !== p.b?.[1]);
    return (
        <Card title="What is different about them" wide>
            {of.length === 0 ? (
                <p class="note">Model, engine and machine are the same.</p>
            ) : (
                <table class="plain wrap">
                    <thead>
                        <tr>
                            <td></td>
                            <th>A</th>
                            <th>B</th>
                        </tr>
                    </thead>
                    <tbody>
                        {of.map((p) => (
                            <tr key={p.key}>
                                <td class="muted">{(p.a ?? p.b)![0]}</td>
                                <td>{p.a?.[1] ?? NA}</td>
                                <td>{p.b?.[1] ?? NA}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            )}
        </Card>
    );
}

const SAID = { slower: <>B is <b class="worse">slower</b></>, faster: <>B is <b class="better">faster</b></>, same: <>No difference beyond the noise</> };

// In one sentence: the latency, then what changed most.
function Headline({ pairs, diff }: { pairs: ReturnType<typeof latencies>; diff: api.Diff }) {
    const of = pairs.find((p) => p.a && p.b);
    const told = of ? verdict(of.a!.mean_ns, of.b!.mean_ns, [spread(of.a), spread(of.b)]) : null;
    const change = of ? relative(of.a!.mean_ns, of.b!.mean_ns) : null;
    const moved = diff.rows.filter((r) => r.state === "slower" || r.state === "faster").slice(0, 3);
    return (
        <Card title="Verdict" wide>
            <p class="verdict">
                {of && change !== null
                    ? <>{told ? SAID[told] : "Too few steps to tell them from noise"}: {ns(of.a!.mean_ns)} → {ns(of.b!.mean_ns)}, {signed(change, percent)}, the mean of {of.a!.scope === STEP ? "a step" : `region ${of.a!.name}`}.</>
                    : "No model and no labelled region is in both."}
            </p>
            {moved.length > 0
                ? <p class="note">What changed most: {moved.map((r, i) => (
                    <span key={`${r.name}|${r.type}`}>{i > 0 && ", "}<button class="link inline" onClick={() => setArgs({ of: keyOf(r), view: null })}>{r.name ?? NA}</button>
                        {" "}{signed(changeOf(r), ns)}</span>))}.</p>
                : <p class="note">{!diff.rows.some((r) => r.a_ns !== null && r.b_ns !== null) ? `No ${diff.spans ? "span" : "operator"} is in both.`
                    : diff.spans ? "Without operators the spread of times is not known, so no name is called slower or faster."
                    : "No operator changed by more than the spread of its executions explains."}</p>}
            <p class="note">One recording each: how much processes differ is not known, and is often more than what iterations of one do.
                {" "}opmeter bench measures it, and opmeter diff takes several recordings of each.
                {!diff.spans && Math.max(...diff.alone) > 0 && ` Without a counterpart: ${percent(diff.alone[0])} of A's operators' time, ${percent(diff.alone[1])} of B's.`}</p>
        </Card>
    );
}

function keyOf(row: api.DiffRow): string {
    return `${row.name ?? ""}|${row.type ?? ""}`;
}

// Durations of what a row stands for, without warm-up unless there is nothing else.
function useExecutions(trace: api.TraceInfo, operators: Operator[], row: api.DiffRow, name: string | null, spans: boolean) {
    const named = operators.filter((o) => o.op !== null && o.name === name);
    const op = spans ? undefined : (named.find((o) => o.type === row.type) ?? named[0])?.op ?? undefined;
    const rows = useDataOf<Execution>(trace, op === undefined ? "named_spans" : "op_spans", op === undefined ? { name: name ?? "" } : { op });
    if (rows.state !== "ready") return rows;
    const measured = rows.value.filter((s) => !s.warmup);
    return { state: "ready" as const, value: (measured.length ? measured : rows.value).map((s) => s.dur) };
}

function Distribution({ traces, data, row, spans }: { traces: Two<api.TraceInfo>; data: Two<Data>; row: api.DiffRow; spans: boolean }) {
    const both = all<Two<number[]>>(useExecutions(traces[0], data[0][0], row, row.a_op, spans), useExecutions(traces[1], data[1][0], row, row.b_op, spans));
    const several = !spans && ((row.a_ns !== null && row.a_op === null) || (row.b_ns !== null && row.b_op === null));
    const box = useRef<HTMLDivElement>(null);
    useEffect(() => box.current!.scrollIntoView({ block: "nearest" }), [both.state]);
    return (
        <div ref={box}><Card title={row.name ?? NA} wide note="Its executions by duration, each trace as shares of its own."
              aside={<button class="button" onClick={() => setArgs({ of: null })}>Close</button>}>
            {several ? <p class="note">One operator of one trace does the work of several of the other; executions of several have no distribution of their own.</p>
                : <Loaded of={both}>{(values) => <Overlay label={`Executions of ${row.name ?? "it"}`} values={values} />}</Loaded>}
        </Card></div>
    );
}

type Data = [Operator[], Latency[], Meta[], StepRow[]];

function useAll(trace: api.TraceInfo | null) {
    return all<Data>(useDataOf(trace, "operators"), useDataOf(trace, "latency"), useDataOf(trace, "meta"), useDataOf(trace, "steps"));
}

function perWhat(diff: api.Diff): string {
    const time = diff.iterations[0] ? "Own time in one iteration" : "Own time in the whole trace";
    return `${time}, as opmeter diff has it; a click shows how executions are distributed.`;
}

function Changes({ traces, data }: { traces: Two<api.TraceInfo>; data: Two<Data> }) {
    const { args } = useRoute();
    const by = args.get("view") === "type" ? "type" : "op";
    const [a, b] = traces;
    const asked = useLoad((signal) => api.diff(a.id, b.id, by, signal), [a.id, a.stamp, b.id, b.stamp, by]);
    const pairs = useMemo(() => latencies(data[0][1], data[1][1]), [data]);
    return (
        <Loaded of={asked}>
            {(diff) => {
                const chosen = by === "op" ? diff.rows.find((r) => keyOf(r) === args.get("of")) : undefined;
                const n = (state: string) => count(diff.rows.filter((r) => r.state === state).length);
                return (
                    <>
                        <Headline {...{ pairs, diff }} />
                        {pairs.length > 0 && (
                            <div class="cards">
                                {pairs.slice(0, 6).map((p, i) => <LatencyCard key={p.key} a={p.a} b={p.b} steps={[data[0][3], data[1][3]]} tail={i === 0 && p.a?.scope === STEP ? diff.tail : null} />)}
                            </div>
                        )}
                        <FactsCard a={data[0][2]} b={data[1][2]} />
                        {chosen && <Distribution key={keyOf(chosen)} {...{ traces, data }} row={chosen} spans={diff.spans} />}
                        <Card title={diff.spans ? "Spans" : "Operators"} wide note={perWhat(diff)}
                              aside={<Tabs label="View" value={by} onChange={(key) => setArgs({ view: key === "type" ? key : null, of: null })}
                                           options={[{ key: "op", title: "All" }, { key: "type", title: "By type" }]} />}>
                            <div class="figures">
                                <Figure label={diff.spans ? "all spans, A" : "all operators, A"} value={ns(diff.total.a_ns)} />
                                <Figure label="B" value={ns(diff.total.b_ns)} />
                                <Figure label="change" value={signed(relative(diff.total.a_ns, diff.total.b_ns), percent)} />
                                <Figure label="verdict" value={diff.total.state} hint={STATES[diff.total.state].hint} />
                                <Figure label="slower" value={n("slower")} />
                                <Figure label="faster" value={n("faster")} />
                                <Figure label="only A" value={n("only A")} />
                                <Figure label="only B" value={n("only B")} />
                            </div>
                            <DataTable key={by} label="Operators of both" columns={columnsOf(by, diff.spans)} rows={diff.rows} rowKey={keyOf}
                                       sort="-size" urlKey="c" maxHeight="560px" selected={chosen ? keyOf(chosen) : null}
                                       onOpen={(r) => setArgs(by === "type" ? { view: null, cq: r.name } : { of: keyOf(r) })} />
                        </Card>
                    </>
                );
            }}
        </Loaded>
    );
}

function Beside({ other, timelines }: { other: string; timelines: boolean }) {
    const here = useTrace();
    const loaded = useLoad((signal) => api.trace(other, signal), [other]);
    const there = loaded.state === "ready" ? loaded.value : null;
    const data = all<[Data, Data, api.TraceInfo]>(useAll(here), useAll(there), loaded);
    return (
        <Loaded of={data}>
            {([a, b, info]) => (timelines
                ? <Pair traces={[here, info]} steps={[a[3], b[3]]} />
                : (
                    <>
                        <p class="sides">
                            <span><b>A</b> {here.path}</span>
                            <span><b>B</b> <a href={href("overview", {}, info.id)}>{info.path}</a></span>
                        </p>
                        <Changes traces={[here, info]} data={[a, b]} />
                    </>
                ))}
        </Loaded>
    );
}

export function Compare() {
    const here = useTrace();
    const { args } = useRoute();
    const traces = useLoad((signal) => api.traces(signal), []);
    const other = args.get("with");
    const timelines = args.get("show") === "timelines";
    if (api.isReport) {
        return (
            <div class="page">
                <h1>Compare</h1>
                <Empty why="A report holds one trace, so there is nothing to compare it with. opmeter serve with a folder or several traces does it, and so does opmeter diff." />
            </div>
        );
    }
    return (
        <div class={timelines && other ? "page fill" : "page"}>
            <Loaded of={traces}>
                {(list) => {
                    const others = list.filter((t) => t.id !== here.id);
                    return (
                        <>
                            <div class="page-head">
                                <h1>Compare</h1>
                                {others.length > 0 && (
                                    <label class="field">
                                        with
                                        <select
                                            class="select wide"
                                            value={other ?? ""}
                                            onChange={(event) =>
                                                setArgs({ with: event.currentTarget.value || null })
                                            }
                                        >
                                            <option value="">choose a trace</option>
                                            {others.map((t) => (
                                                <option key={t.id} value={t.id}>
                                                    {t.path}
                                                </option>
                                            ))}
                                        </select>
                                    </label>
                                )}
                                {other && (
                                    <>
                                        <Tabs
                                            label="Show"
                                            value={timelines ? "timelines" : "changes"}
                                            onChange={(key) => setArgs({ show: key === "timelines" ? key : null })}
                                            options={[
                                                { key: "changes", title: "What changed" },
                                                { key: "timelines", title: "Timelines" },
                                            ]}
                                        />
                                        <a
                                            class="button"
                                            href={href("compare", { with: here.id, show: args.get("show") }, other)}
                                        >
                                            Swap A and B
                                        </a>
                                    </>
                                )}
                            </div>
                            {!others.length ? (
                                <Empty why="This server has only this trace. Give opmeter serve a folder, or several traces, to compare two." />
                            ) : other ? (
                                <Beside key={other} other={other} timelines={timelines} />
                            ) : (
                                <Empty why="Choose the trace to set beside this one." />
                            )}
                        </>
                    );
                }}
            </Loaded>
        </div>
    );
}
