// This trace beside another one of the same server: latency, types and operators.
import { useMemo } from "preact/hooks";
import * as api from "../api";
import { Card, Figure } from "../components/Card";
import { DataTable, type Column } from "../components/DataTable";
import { Empty, Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { align, difference, relative, variance, verdict, type Pair } from "../compare";
import { count, NA, ns, percent } from "../format";
import { all, useDataOf, useLoad, useTrace } from "../hooks";
import { facts } from "../machine";
import type { Latency, Meta, Operator, OperatorType } from "../queries";
import { href, setArgs, useRoute } from "../router";
import { sum } from "../stats";

function signed(value: number | null, show: (v: number) => string): string {
    return value === null ? NA : value > 0 ? `+${show(value)}` : value < 0 ? `−${show(-value)}` : show(0);
}

// Slower is bad; what may be noise, or cannot be told from it, has no colour.
function Change({
    a,
    b,
    variances,
}: {
    a: number | null | undefined;
    b: number | null | undefined;
    variances: [number | null, number | null];
}) {
    const change = relative(a, b);
    const told = verdict(a, b, variances);
    const tone = told === "slower" ? "worse" : told === "faster" ? "better" : "";
    const hint =
        change === null
            ? "one of them has none"
            : told === null
              ? "too few executions to tell it from noise"
              : told === "same"
                ? "within the noise"
                : "beyond the noise";
    return (
        <span class={tone} title={hint}>
            {change === null ? NA : signed(change, percent)}
        </span>
    );
}

const varianceOf = (timed: Timed | null) => (timed ? timed.variance : null);

interface Timed {
    section: string;
    name: string | null;
    type: string | null;
    time_ns: number | null;
    count: number;
    variance: number | null; // of time_ns
}

function columnsOf(byType: boolean): Column<Pair<Timed>>[] {
    const one = (p: Pair<Timed>) => (p.a ?? p.b)!;
    return [
        ...(byType
            ? []
            : [{ key: "name", title: "Operator", value: (p: Pair<Timed>) => one(p).name, search: true }]),
        {
            key: "type",
            title: "Type",
            value: (p) => one(p).type,
            search: true,
            ...(byType ? {} : { width: "18%" }),
        },
        {
            key: "a",
            title: "A",
            value: (p) => p.a?.time_ns ?? null,
            show: (p) => ns(p.a?.time_ns),
            numeric: true,
            width: "92px",
        },
        {
            key: "b",
            title: "B",
            value: (p) => p.b?.time_ns ?? null,
            show: (p) => ns(p.b?.time_ns),
            numeric: true,
            width: "92px",
        },
        {
            key: "size",
            title: "B − A",
            value: (p) => Math.abs((p.b?.time_ns ?? 0) - (p.a?.time_ns ?? 0)),
            numeric: true,
            width: "100px",
            doc: "Sorted by size, whichever way; what only one of them has counts whole",
            show: (p) => signed((p.b?.time_ns ?? 0) - (p.a?.time_ns ?? 0), ns),
        },
        {
            key: "change",
            title: "Change",
            value: (p) => relative(p.a?.time_ns, p.b?.time_ns),
            numeric: true,
            width: "92px",
            show: (p) => (
                <Change
                    a={p.a?.time_ns}
                    b={p.b?.time_ns}
                    variances={[varianceOf(p.a), varianceOf(p.b)]}
                />
            ),
        },
        {
            key: "counts",
            title: "Count A / B",
            value: (p) => p.a?.count ?? p.b?.count ?? null,
            numeric: true,
            width: "110px",
            show: (p) => `${p.a ? count(p.a.count) : "–"} / ${p.b ? count(p.b.count) : "–"}`,
        },
        {
            key: "where",
            title: "In",
            value: (p) => (p.a && p.b ? "both" : p.a ? "only A" : "only B"),
            width: "76px",
            search: true,
        },
    ];
}

// Types of a section; they scatter as their operators do.
function typesOf(types: OperatorType[], operators: Operator[], section: string): Timed[] {
    return types
        .filter((t) => t.section === section)
        .map((t) => ({ ...t, name: t.type, variance: variance(operators.filter((o) => o.type === t.type)) }));
}

type Data = [Operator[], OperatorType[], Latency[], Meta[]];

function useAll(trace: api.TraceInfo | null) {
    return all<Data>(
        useDataOf(trace, "operators"),
        useDataOf(trace, "op_types"),
        useDataOf(trace, "latency"),
        useDataOf(trace, "meta")
    );
}

// Times per iteration where both have iterations, else whole traces.
function perWhat(a: Operator[], b: Operator[]): string {
    const each = (rows: Operator[]) => rows.some((o) => o.iterations !== null);
    if (each(a) && each(b)) return "Times are means of an iteration.";
    if (!each(a) && !each(b)) return "Times are of the whole traces.";
    return `Careful: the times of ${each(a) ? "A" : "B"} are means of an iteration, those of ${each(a) ? "B" : "A"} are of its whole trace.`;
}

function LatencyCard({ a, b }: { a: Latency[]; b: Latency[] }) {
    const steps = (rows: Latency[]) => rows.filter((l) => l.scope === "step" && l.count > 0);
    const named = align(
        a.filter((l) => l.count > 0),
        b.filter((l) => l.count > 0),
        (l) => `${l.scope} ${l.name ?? ""}`
    );
    // Two models have one step each: then these are compared, whatever they are called.
    const single = steps(a).length === 1 && steps(b).length === 1;
    const pairs = single
        ? [
              { key: "step", a: steps(a)[0]!, b: steps(b)[0]! },
              ...named.filter((p) => p.a && p.b && p.a.scope !== "step"),
          ]
        : named;
    if (!pairs.length) return null;
    const spread = (l: Latency | null) =>
        l && l.stdev_ns !== null && l.count > 1 ? l.stdev_ns ** 2 / l.count : null;
    const rows: [string, (l: Latency) => number | null][] = [
        ["Median", (l) => l.median_ns],
        ["Mean", (l) => l.mean_ns],
        ["Minimum", (l) => l.min_ns],
        ["p90", (l) => l.p90_ns],
        ["p99", (l) => l.p99_ns],
        ["Maximum", (l) => l.max_ns],
    ];
    return (
        <div class="cards">
            {pairs.slice(0, 6).map((p) => (
                <Card
                    key={p.key}
                    title={`${(p.a ?? p.b)!.scope === "step" ? "Latency of a step" : "Region"}: ${(p.a ?? p.b)!.name ?? "all"}`}
                    note={
                        p.a && p.b
                            ? `${count(p.a.count)} in A, ${count(p.b.count)} in B, without warm-up`
                            : p.a
                              ? "only in A"
                              : "only in B"
                    }
                >
                    <table class="plain">
                        <thead>
                            <tr>
                                <th></th>
                                <th class="num">A</th>
                                <th class="num">B</th>
                                <th class="num">B − A</th>
                                <th class="num">Change</th>
                            </tr>
                        </thead>
                        <tbody>
                            {rows.map(([title, value]) => {
                                const [x, y] = [p.a && value(p.a), p.b && value(p.b)];
                                return (
                                    <tr key={title}>
                                        <td>{title}</td>
                                        <td class="num">{ns(x)}</td>
                                        <td class="num">{ns(y)}</td>
                                        <td class="num">{signed(difference(x, y), ns)}</td>
                                        <td class="num">
                                            <Change a={x} b={y} variances={[spread(p.a), spread(p.b)]} />
                                        </td>
                                    </tr>
                                );
                            })}
                        </tbody>
                    </table>
                </Card>
            ))}
        </div>
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
                            <th></th>
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

function Result({ a, b }: { a: Data; b: Data }) {
    const { args } = useRoute();
    const sections = ["device", "host"].filter((s) => [...a[0], ...b[0]].some((o) => o.section === s));
    const section = sections.find((s) => s === args.get("section")) ?? sections[0] ?? "device";
    const byType = args.get("view") === "type";
    const [left, right] = [
        a[0].filter((o) => o.section === section),
        b[0].filter((o) => o.section === section),
    ];
    const pairs = useMemo(
        () =>
            byType
                ? align<Timed>(
                      typesOf(a[1], left, section),
                      typesOf(b[1], right, section),
                      (t) => t.type ?? ""
                  )
                : align<Timed>(
                      left.map((o) => ({ ...o, variance: variance([o]) })),
                      right.map((o) => ({ ...o, variance: variance([o]) })),
                      (o) => `${o.name ?? ""}\n${o.type ?? ""}`
                  ),
        [a, b, section, byType]
    );
    const [ta, tb] = [sum(left, (o) => o.time_ns), sum(right, (o) => o.time_ns)];
    return (
        <>
            <LatencyCard a={a[2]} b={b[2]} />
            <FactsCard a={a[3]} b={b[3]} />
            <Card
                title="Operators"
                wide
                note={perWhat(left, right)}
                aside={
                    <>
                        {sections.length > 1 && (
                            <Tabs
                                label="Where they ran"
                                value={section}
                                onChange={(key) => setArgs({ section: key })}
                                options={sections.map((s) => ({
                                    key: s,
                                    title: s === "device" ? "Device" : "Host",
                                }))}
                            />
                        )}
                        <Tabs
                            label="View"
                            value={byType ? "type" : "all"}
                            onChange={(key) => setArgs({ view: key === "type" ? key : null })}
                            options={[
                                { key: "all", title: "All" },
                                { key: "type", title: "By type" },
                            ]}
                        />
                    </>
                }
            >
                <div class="figures">
                    <Figure label="all operators, A" value={ns(ta)} />
                    <Figure label="B" value={ns(tb)} />
                    <Figure label="change" value={signed(relative(ta, tb), percent)} />
                    <Figure label="in both" value={count(pairs.filter((p) => p.a && p.b).length)} />
                    <Figure label="only A" value={count(pairs.filter((p) => !p.b).length)} />
                    <Figure label="only B" value={count(pairs.filter((p) => !p.a).length)} />
                </div>
                <DataTable
                    key={String(byType)}
                    label="Operators of both"
                    columns={columnsOf(byType)}
                    rows={pairs}
                    rowKey={(p) => p.key}
                    sort="-size"
                    urlKey="c"
                    maxHeight="560px"
                />
            </Card>
        </>
    );
}

function Beside({ other }: { other: string }) {
    const here = useTrace();
    const loaded = useLoad((signal) => api.trace(other, signal), [other]);
    const there = loaded.state === "ready" ? loaded.value : null;
    const data = all<[Data, Data, api.TraceInfo]>(useAll(here), useAll(there), loaded);
    return (
        <Loaded of={data}>
            {([a, b, info]) => (
                <>
                    <p class="sides">
                        <span>
                            <b>A</b> {here.path}
                        </span>
                        <span>
                            <b>B</b> <a href={href("overview", {}, info.id)}>{info.path}</a>
                        </span>
                    </p>
                    <Result a={a} b={b} />
                </>
            )}
        </Loaded>
    );
}

export function Compare() {
    const here = useTrace();
    const { args } = useRoute();
    const traces = useLoad((signal) => api.traces(signal), []);
    const other = args.get("with");
    if (api.isReport) {
        return (
            <div class="page">
                <h1>Compare</h1>
                <Empty why="A report holds one trace, so there is nothing to compare it with. opmeter serve with a folder or several traces does it, and so does opmeter diff." />
            </div>
        );
    }
    return (
        <div class="page">
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
                                    <a class="button" href={href("compare", { with: here.id }, other)}>
                                        Swap A and B
                                    </a>
                                )}
                            </div>
                            {!others.length ? (
                                <Empty why="This server has only this trace. Give opmeter serve a folder, or several traces, to compare two." />
                            ) : other ? (
                                <Beside key={other} other={other} />
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
