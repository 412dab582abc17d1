// Which operators, and which kinds of them, take the time.
import { useMemo } from "preact/hooks";
import { Card } from "../components/Card";
import { DataTable, type Column } from "../components/DataTable";
import { findOperator, operatorKey, OperatorDrawer } from "../components/OperatorDrawer";
import { Middle } from "../components/Middle";
import { Bars, Donut, type Part } from "../components/Shares";
import { Empty, Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { bytes, bytesPerSecond, count, flops, flopsPerSecond, NA, ns, percent, text } from "../format";
import { useData } from "../hooks";
import { Icon } from "../icons";
import { named } from "../palette";
import type { Operator, SpanName } from "../queries";
import { href, setArgs, useRoute } from "../router";
import { groupBy, sum } from "../stats";
import { useTheme } from "../theme";
import { useTypeColors } from "../typeColors";

const TYPES_SHOWN = 20;
const NAMES = 5000; // as many as spans gives
const COLUMN = 8; // more go into two columns

type View = "all" | "type" | "spans";

// A row of the table: an operator, or all of one type.
interface Row extends Operator {
    key: string;
    of: Operator[] | null;
}

function added(rows: Operator[], value: (o: Operator) => number | null): number | null {
    return rows.some((o) => value(o) !== null) ? sum(rows, value) : null;
}

// What cannot be added up over operators (median, percentiles) is not known for a type.
function typeRow(type: string | null, of: Operator[]): Row {
    const time = added(of, (o) => o.time_ns);
    const rate = (work: number | null) => (work !== null && time ? (work * 1e9) / time : null);
    const known = of.filter((o) => o.computation !== null);
    const computation = added(of, (o) => o.computation);
    const memory = added(of, (o) => o.memory);
    const busy = added(known, (o) => o.time_ns);
    return {
        ...of[0]!,
        op: null,
        key: `type ${type ?? ""}`,
        of,
        name: `${count(of.length)} ${of.length === 1 ? "operator" : "operators"}`,
        type,
        device: null,
        post_op: null,
        count: sum(of, (o) => o.count),
        interrupted: sum(of, (o) => o.interrupted),
        interrupted_ns: sum(of, (o) => o.interrupted_ns),
        warmup_count: sum(of, (o) => o.warmup_count),
        time_ns: time,
        wait_ns: added(of, (o) => o.wait_ns),
        kernel_ns: added(of, (o) => o.kernel_ns),
        computation,
        memory,
        flops_per_s: computation !== null && busy ? (computation * 1e9) / busy : null,
        bytes_per_s: rate(memory),
        share: added(of, (o) => o.share),
        total_ns: added(of, (o) => o.total_ns),
        mean_ns: null,
        median_ns: null,
        min_ns: of.reduce<number | null>((m, o) => (m === null || (o.min_ns ?? m) < m ? o.min_ns : m), null),
        max_ns: of.reduce<number | null>((m, o) => (m === null || (o.max_ns ?? m) > m ? o.max_ns : m), null),
        p90_ns: null,
        p95_ns: null,
        p99_ns: null,
        stdev_ns: null,
    };
}

function Share({ of, most, color }: { of: number | null; most: number; color: string }) {
    return (
        <span class="share">
            <span class="share-track">
                <i style={{ width: `${most > 0 ? (100 * (of ?? 0)) / most : 0}%`, background: color }} />
            </span>
            {percent(of)}
        </span>
    );
}

const MATTERS = 0.05; // of the time: less is not marked

function Count({ of }: { of: Operator }) {
    if (of.interrupted_ns <= MATTERS * (of.time_ns ?? 0)) return <>{count(of.count)}</>;
    return (
        <span
            title={`${count(of.interrupted)} of ${count(of.count)} executions were interrupted (the longest ${ns(of.max_ns)}): Time leaves out ${ns(of.interrupted_ns)}`}
        >
            {count(of.count)}!
        </span>
    );
}

// "aten::mm [2x3, 3x4]" of type aten::mm by its shapes: the type stands beside it. Scalars at the end, which are
// empty there, say nothing.
function ownName({ name, type }: Row): string {
    const all = name ?? NA;
    const own = type !== null && all.startsWith(`${type} [`) ? all.slice(type.length + 1) : all;
    return own.replace(/(, )+\]$/, "]");
}

function columnsOf(
    rows: Row[],
    more: boolean,
    byType: boolean,
    color: (type: string | null) => string
): Column<Row>[] {
    const time = (
        key: string,
        title: string,
        value: (o: Operator) => number | null,
        doc?: string
    ): Column<Row> => ({ key, title, value, show: (o) => ns(value(o)), numeric: true, width: "88px", doc });
    const most = rows.reduce((m, o) => Math.max(m, o.share ?? 0), 0);
    const known = (value: (o: Operator) => unknown) => rows.some((o) => value(o) !== null);
    const name: Column<Row> = {
        key: "name",
        title: "Operator",
        value: (o) => o.name,
        search: true,
        show: (o) =>
            o.of ? (
                <span class="muted">{o.name}</span>
            ) : (
                <span class={byType ? "inner" : ""}><Middle of={ownName(o)} /></span>
            ),
    };
    const type: Column<Row> = {
        key: "type",
        title: "Type",
        value: (o) => o.type,
        search: true,
        width: byType ? "250px" : "180px",
        show: (o) => (
            <span class="typed">
                {o.of && (
                    <span class="fold" aria-hidden="true">
                        <Icon name="right" />
                    </span>
                )}
                <i class="swatch" style={{ background: color(o.type) }} />
                <span><Middle of={text(o.type)} /></span>
            </span>
        ),
    };
    const columns: (Column<Row> | false)[] = [
        ...(byType ? [type, name] : [name, type]),
        time("time", "Time", (o) => o.time_ns, "Self time: without what runs inside on the same track, and without interruptions"),
        {
            key: "share",
            title: "Share",
            value: (o) => o.share,
            numeric: true,
            width: "112px",
            show: (o) => <Share of={o.share} most={most} color={color(o.type)} />,
        },
        {
            key: "count",
            title: "Count",
            value: (o) => o.count,
            show: (o) => <Count of={o} />,
            numeric: true,
            width: "64px",
            doc: "Executions counted: without warm-up; ! where some were interrupted, which Time leaves out",
        },
        time("median", "Median", (o) => o.median_ns),
        more && time("mean", "Mean", (o) => o.mean_ns),
        more && time("min", "Minimum", (o) => o.min_ns),
        more && time("p90", "p90", (o) => o.p90_ns),
        time("p99", "p99", (o) => o.p99_ns),
        time("max", "Maximum", (o) => o.max_ns),
        more && time("interrupted", "Interruptions", (o) => o.interrupted_ns, "What they added: not in Time"),
        more && time("stdev", "Std dev", (o) => o.stdev_ns, "Sample standard deviation"),
        known((o) => o.wait_ns) && time("wait", "Wait", (o) => o.wait_ns, "Before the work began"),
        more && time("total", "Total", (o) => o.total_ns, "All counted executions with what runs inside"),
        more &&
            known((o) => o.computation) && {
                key: "flops",
                title: "FLOPs",
                value: (o: Row) => o.computation,
                show: (o: Row) => flops(o.computation),
                numeric: true,
                width: "100px",
            },
        more &&
            known((o) => o.memory) && {
                key: "bytes",
                title: "Bytes",
                value: (o: Row) => o.memory,
                show: (o: Row) => bytes(o.memory),
                numeric: true,
                width: "88px",
            },
        known((o) => o.flops_per_s) && {
            key: "flops_per_s",
            title: "FLOP/s",
            value: (o: Row) => o.flops_per_s,
            show: (o: Row) => flopsPerSecond(o.flops_per_s),
            numeric: true,
            width: "116px",
        },
        known((o) => o.bytes_per_s) && {
            key: "bytes_per_s",
            title: "Bandwidth",
            value: (o: Row) => o.bytes_per_s,
            show: (o: Row) => bytesPerSecond(o.bytes_per_s),
            numeric: true,
            width: "96px",
        },
        more &&
            known((o) => o.device) && {
                key: "device",
                title: "Device",
                value: (o: Row) => o.device,
                width: "90px",
                search: true,
            },
        more &&
            known((o) => o.post_op) && {
                key: "post_op",
                title: "Fused",
                value: (o: Row) => o.post_op,
                width: "110px",
                search: true,
            },
    ];
    return columns.filter((c) => c !== false);
}

function TypesCard({
    operators,
    chart,
    type,
}: {
    operators: Operator[];
    chart: string;
    type: string | null;
}) {
    const theme = useTheme();
    const color = useTypeColors();
    const groups = [...groupBy(operators, (o) => o.type)]
        .map(([name, of]) => ({ name, of, time: sum(of, (o) => o.time_ns) }))
        .filter((g) => g.time > 0)
        .sort((a, b) => b.time - a.time);
    const parts = groups.slice(0, TYPES_SHOWN).map((g): Part => ({
        label: g.name ?? NA,
        value: g.time,
        share: added(g.of, (o) => o.share),
        shown: ns(g.time),
        color: color(g.name),
        href: href("operators", {
            ...Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? "")),
            type: g.name === type ? null : g.name,
        }),
        hint: `${g.name ?? NA}: ${count(g.of.length)} operators, ${count(sum(g.of, (o) => o.count))} executions`,
    }));
    const rest = groups.slice(TYPES_SHOWN);
    if (rest.length) {
        const value = sum(rest, (g) => g.time);
        parts.push({
            label: `${rest.length} other types`,
            value,
            share: added(rest.flatMap((g) => g.of), (o) => o.share),
            shown: ns(value),
            color: named(null, "other", theme),
        });
    }
    return (
        <Card
            title={`${count(groups.length)} ${groups.length === 1 ? "type" : "types"}`}
            wide
            aside={
                <Tabs
                    label="Chart"
                    value={chart === "bar" ? "bar" : "donut"}
                    onChange={(key) => setArgs({ chart: key === "bar" ? "bar" : null })}
                    options={[
                        { key: "donut", title: "Donut" },
                        { key: "bar", title: "Bars" },
                    ]}
                />
            }
        >
            <div class={parts.length > COLUMN ? "types" : ""}>
                {chart === "bar" ? (
                    <Bars label="Time by type" parts={parts} />
                ) : (
                    <Donut label="Time by type" parts={parts} center={ns(sum(groups, (g) => g.time))} />
                )}
            </div>
        </Card>
    );
}

const spanColumns: Column<SpanName>[] = [
    { key: "name", title: "Name", value: (s) => s.name, search: true },
    { key: "cat", title: "Category", value: (s) => s.cat, search: true, width: "13%" },
    { key: "layer", title: "Layer", value: (s) => s.layer, width: "100px" },
    {
        key: "self",
        title: "Self time",
        value: (s) => s.self_ns,
        show: (s) => ns(s.self_ns),
        numeric: true,
        width: "96px",
    },
    {
        key: "share",
        title: "Share",
        value: (s) => s.share,
        show: (s) => percent(s.share),
        numeric: true,
        width: "76px",
    },
    {
        key: "total",
        title: "Total",
        value: (s) => s.total_ns,
        show: (s) => ns(s.total_ns),
        numeric: true,
        width: "96px",
    },
    {
        key: "count",
        title: "Count",
        value: (s) => s.count,
        show: (s) => count(s.count),
        numeric: true,
        width: "90px",
    },
    {
        key: "median",
        title: "Median",
        value: (s) => s.median_ns,
        show: (s) => ns(s.median_ns),
        numeric: true,
        width: "92px",
    },
    {
        key: "p99",
        title: "p99",
        value: (s) => s.p99_ns,
        show: (s) => ns(s.p99_ns),
        numeric: true,
        width: "92px",
    },
    {
        key: "max",
        title: "Maximum",
        value: (s) => s.max_ns,
        show: (s) => ns(s.max_ns),
        numeric: true,
        width: "92px",
    },
];

function Choice({ label, name, values }: { label: string; name: string; values: (string | null)[] }) {
    const { args } = useRoute();
    const known = [...new Set(values.filter((v): v is string => v !== null))].sort();
    if (known.length < 2) return null;
    return (
        <select
            class="select"
            aria-label={label}
            value={args.get(name) ?? ""}
            onChange={(event) => setArgs({ [name]: event.currentTarget.value || null })}
        >
            <option value="">{label}: all</option>
            {known.map((value) => (
                <option key={value} value={value}>
                    {value}
                </option>
            ))}
        </select>
    );
}

const SHARES = [
    { key: "", title: "Time: any" },
    { key: "0.001", title: "Time: ≥ 0.1 %" },
    { key: "0.01", title: "Time: ≥ 1 %" },
    { key: "0.05", title: "Time: ≥ 5 %" },
];

function LeastShare() {
    const { args } = useRoute();
    return (
        <select
            class="select"
            aria-label="Least share of the time"
            value={args.get("min") ?? ""}
            onChange={(event) => setArgs({ min: event.currentTarget.value || null })}
        >
            {SHARES.map(({ key, title }) => (
                <option key={key} value={key}>
                    {title}
                </option>
            ))}
        </select>
    );
}

function Spans({ args }: { args: URLSearchParams }) {
    const spans = useData<SpanName>("spans");
    const layer = args.get("layer");
    const least = Number(args.get("min") ?? 0);
    return (
        <Loaded of={spans} empty="This trace has no span that ended.">
            {(rows) => (
                <>
                    {rows.length >= NAMES && (
                        <p class="note">The {count(NAMES)} names with the most self time.</p>
                    )}
                    <DataTable
                        label="Spans by name"
                        columns={spanColumns}
                        sort="-self"
                        urlKey="n"
                        searchLabel="Search names"
                        rowKey={(s) => `${s.name}\n${s.cat}\n${s.layer}`}
                        rows={rows.filter((s) => (!layer || s.layer === layer) && (s.share ?? 0) >= least)}
                    >
                        <Choice label="Layer" name="layer" values={rows.map((s) => s.layer)} />
                        <LeastShare />
                    </DataTable>
                </>
            )}
        </Loaded>
    );
}

function Table({ operators, view, args }: { operators: Operator[]; view: View; args: URLSearchParams }) {
    const color = useTypeColors();
    const more = args.get("cols") === "all";
    const rows = useMemo(
        (): Row[] =>
            view === "type"
                ? [...groupBy(operators, (o) => o.type)].map(([type, of]) => typeRow(type, of))
                : operators.map((o) => ({
                      ...o,
                      key: `${o.section} ${operatorKey(o)} ${o.type ?? ""}`,
                      of: null,
                  })),
        [operators, view]
    );
    const inside = (row: Row) =>
        row.of?.map((o): Row => ({
            ...o,
            key: `${o.section} ${operatorKey(o)} ${o.type ?? ""}`,
            of: null,
        })) ?? null;
    return (
        <DataTable
            key={view}
            label="Operators"
            columns={columnsOf(rows, more, view === "type", color)}
            rows={rows}
            rowKey={(o) => o.key}
            sort="-time"
            urlKey=""
            searchLabel="Search operators"
            nested={inside}
            onOpen={(o) => setArgs({ op: operatorKey(o) })}
        >
            <Choice label="Type" name="type" values={operators.map((o) => o.type)} />
            <Choice label="Device" name="device" values={operators.map((o) => o.device)} />
            <LeastShare />
            <label class="field">
                <input
                    type="checkbox"
                    checked={more}
                    onChange={(event) => setArgs({ cols: event.currentTarget.checked ? "all" : null })}
                />
                all columns
            </label>
        </DataTable>
    );
}

function Page({ operators }: { operators: Operator[] }) {
    const { args } = useRoute();
    const sections = [...new Set(operators.map((o) => o.section))];
    const section =
        sections.find((s) => s === args.get("section")) ??
        (sections.includes("device") ? "device" : sections[0]!);
    const view = (["type", "spans"] as const).find((v) => v === args.get("view")) ?? "all";
    const here = operators.filter((o) => o.section === section);
    const type = args.get("type");
    const device = args.get("device");
    const least = Number(args.get("min") ?? 0);
    const shown = useMemo(
        () =>
            here.filter(
                (o) =>
                    (!type || o.type === type) && (!device || o.device === device) && (o.share ?? 0) >= least
            ),
        [operators, section, type, device, least]
    );
    const open = findOperator(operators, args.get("op"), section);
    const iterations = here[0]?.iterations;
    const places = here[0]?.places ?? 1;
    return (
        <>
            <div class="page-head">
                <h1>Operators</h1>
                <Tabs
                    label="View"
                    value={view}
                    onChange={(key) => setArgs({ view: key === "all" ? null : key })}
                    options={[
                        { key: "all", title: "All" },
                        { key: "type", title: "By type" },
                        { key: "spans", title: "Spans" },
                    ]}
                />
                {sections.length > 1 && view !== "spans" && (
                    <Tabs
                        label="Where they ran"
                        value={section}
                        onChange={(key) => setArgs({ section: key })}
                        options={sections.map((s) => ({
                            key: s,
                            title: s === "device" ? "Device" : "Host",
                            count: operators.filter((o) => o.section === s).length,
                        }))}
                    />
                )}
                <span class="muted">
                    {iterations
                        ? `Times are means of ${count(iterations)} iterations${places > 1 ? `, those of ${count(places)} ranks or instances together` : ""}.`
                        : "Times are of the whole trace."}
                </span>
            </div>
            {view === "spans" ? (
                <Spans args={args} />
            ) : (
                <>
                    <TypesCard operators={here} chart={args.get("chart") ?? "donut"} type={type} />
                    <Table operators={shown} view={view} args={args} />
                </>
            )}
            {open && (
                <OperatorDrawer key={operatorKey(open)} of={open} onClose={() => setArgs({ op: null })} />
            )}
        </>
    );
}

export function Operators() {
    const operators = useData<Operator>("operators");
    return (
        <div class="page fill tall">
            <Loaded of={operators}>
                {(rows) =>
                    rows.length ? (
                        <Page operators={rows} />
                    ) : (
                        <>
                            <h1>Operators</h1>
                            <Empty why="Nothing in this trace was timed: it has neither operators nor spans that ended." />
                        </>
                    )
                }
            </Loaded>
        </div>
    );
}
