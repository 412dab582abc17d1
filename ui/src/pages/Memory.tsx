// Memory: what the plan of the model has alive while each operator runs, and what was recorded
// over time.
import { useMemo } from "preact/hooks";
import { Card, Figure } from "../components/Card";
import { Chart } from "../components/Chart";
import { DataTable, type Column } from "../components/DataTable";
import { MemoryPeak } from "../components/MemoryPeak";
import { Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { useWidth } from "../components/useWidth";
import { bytes, count, NA, ns, text } from "../format";
import { all, useData } from "../hooks";
import { alive, curves, isKept, span, type Curve } from "../memory";
import { byIndex, named } from "../palette";
import type { Chunk, Counter, Op, Sampled } from "../queries";
import { setArgs, useRoute } from "../router";
import { largest, smallest, sum } from "../stats";
import { useTheme, type Theme } from "../theme";

const KINDS = ["activation", "workspace", "weight"];
const MOST_OPS = 100_000; // where the trace does not say how many there are

function kindColor(kind: string, theme: Theme): string {
    const at = KINDS.indexOf(kind);
    return at >= 0 ? byIndex([0, 5, 2][at]!, theme) : named(null, "other", theme);
}

// Drawn on top of each other: each series is the sum of those below it.
function stacked(of: Curve[]): { kind: string; title: string; live: number[]; upTo: number[] }[] {
    let below: number[] | null = null;
    const kinds: string[] = [];
    return of.map(({ kind, live }) => {
        kinds.unshift(kind);
        const upTo = live.map((v, i) => v + (below?.[i] ?? 0));
        below = upTo;
        return { kind, title: kinds.join(" + "), live, upTo };
    });
}

function Plan({ chunks, ops }: { chunks: Chunk[]; ops: Op[] }) {
    const theme = useTheme();
    const { args } = useRoute();
    const n =
        ops.length ||
        Math.min(
            MOST_OPS,
            largest(
                chunks.map((c) => (c.last_op ?? 0) + 1),
                1
            )
        );
    const kept = chunks.filter(isKept);
    const whole = args.get("with") === "kept" || kept.length === chunks.length;
    const of = useMemo(
        () =>
            stacked(
                curves(whole ? chunks : chunks.filter((c) => !isKept(c)), n).sort(
                    (a, b) => KINDS.indexOf(b.kind) - KINDS.indexOf(a.kind)
                )
            ),
        [chunks, n, whole]
    );
    const x = useMemo(() => Array.from({ length: n }, (_, i) => i), [n]);
    const total = of.at(-1)?.upTo ?? [];
    const peak = total.reduce((best, v, i) => (v > total[best]! ? i : best), 0);
    const nameOf = (i: number) => ops[i]?.name ?? `operator ${i}`;
    const series = useMemo(
        () =>
            [...of].reverse().map((c) => ({
                label: c.title,
                color: kindColor(c.kind, theme),
                fill: true,
                steps: true,
                values: c.upTo,
            })),
        [of, theme]
    );
    const chosen = Number(args.get("at") ?? peak);
    const live = alive(whole ? chunks : chunks.filter((c) => !isKept(c)), n, chosen).sort(
        (a, b) => b.bytes - a.bytes
    );
    return (
        <>
            <Card
                title="Memory plan"
                wide
                aside={
                    kept.length > 0 &&
                    kept.length < chunks.length && (
                        <Tabs
                            label="What to show"
                            value={whole ? "kept" : "run"}
                            onChange={(key) => setArgs({ with: key === "kept" ? key : null })}
                            options={[
                                { key: "run", title: "Activations" },
                                { key: "kept", title: "With weights" },
                            ]}
                        />
                    )
                }
                note="Live memory while each operator runs, in execution order. Click an operator to list it."
            >
                <div class="figures">
                    <Figure
                        label={whole ? "peak" : "peak of activations"}
                        value={bytes(total[peak] ?? null)}
                    />
                    <Figure label="at" value={nameOf(peak)} />
                    <Figure
                        label="weights and constants"
                        value={bytes(sum(kept, (c) => c.bytes))}
                        hint="weights and other constants"
                    />
                    <Figure label="sum without reuse" value={bytes(sum(chunks, (c) => c.bytes))} />
                    <Figure label="allocations" value={count(chunks.length)} />
                </div>
                <Chart
                    label="Live memory by operator"
                    x={x}
                    series={series}
                    height={240}
                    yFormat={bytes}
                    binary
                    xLabel="operator"
                    xTick={(i) => (Number.isInteger(i) ? String(i) : "")}
                    xFormat={(i) => (Number.isInteger(i) && i >= 0 && i < n ? nameOf(i) : "")}
                    onPick={(i) => setArgs({ at: i })}
                />
            </Card>
            <Card
                title={`Live while ${nameOf(chosen)} runs`}
                wide
                note={`${count(live.length)} allocations, ${bytes(sum(live, (c) => c.bytes))}`}
            >
                <Chunks chunks={live} nameOf={nameOf} label="Live allocations" urlKey="l" />
            </Card>
            <AddressMap chunks={chunks} n={n} nameOf={nameOf} chosen={chosen} />
            <Card title="All allocations" wide>
                <Chunks chunks={chunks} nameOf={nameOf} label="All allocations" urlKey="c" />
            </Card>
        </>
    );
}

function Chunks({
    chunks,
    nameOf,
    label,
    urlKey,
}: {
    chunks: Chunk[];
    nameOf: (op: number) => string;
    label: string;
    urlKey: string;
}) {
    const theme = useTheme();
    const op = (id: number | null) => (id === null ? "always" : nameOf(id));
    const columns: Column<Chunk>[] = [
        { key: "owner", title: "Owner", value: (c) => c.owner, search: true },
        {
            key: "kind",
            title: "Kind",
            value: (c) => c.kind,
            width: "140px",
            search: true,
            show: (c) => (
                <span class="typed">
                    <i class="swatch" style={{ background: kindColor(c.kind ?? "", theme) }} />
                    {text(c.kind)}
                </span>
            ),
        },
        {
            key: "bytes",
            title: "Size",
            value: (c) => c.bytes,
            show: (c) => bytes(c.bytes),
            numeric: true,
            width: "110px",
        },
        {
            key: "addr",
            title: "Address",
            value: (c) => c.addr,
            show: (c) => (c.addr === null ? NA : `0x${c.addr.toString(16)}`),
            numeric: true,
            width: "130px",
        },
        { key: "first", title: "From", value: (c) => c.first_op, show: (c) => op(c.first_op), width: "18%" },
        { key: "last", title: "To", value: (c) => c.last_op, show: (c) => op(c.last_op), width: "18%" },
    ];
    return (
        <DataTable
            label={label}
            columns={columns}
            rows={chunks}
            rowKey={(c) => c.id}
            sort="-bytes"
            urlKey={urlKey}
            maxHeight="360px"
        />
    );
}

const MAP_LEFT = 84;

interface MapProps {
    chunks: Chunk[];
    n: number;
    nameOf: (op: number) => string;
    chosen: number;
}

// Which addresses are taken when: what may share memory does.
function AddressMap({ chunks, n, nameOf, chosen }: MapProps) {
    const theme = useTheme();
    const [box, width] = useWidth<HTMLDivElement>();
    const placed = chunks.filter((c) => c.addr !== null && (c.first_op !== null || c.last_op !== null));
    const kinds = [...new Set(placed.map((c) => c.kind ?? "other"))];
    if (!placed.length) return null;
    const height = 220;
    const room = Math.max(50, width - MAP_LEFT - 8);
    return (
        <Card
            title="Address map"
            wide
            note="Each box is an allocation: from its first to its last operator, at its address."
        >
            <div ref={box}>
                {kinds.map((kind) => {
                    const of = placed.filter((c) => (c.kind ?? "other") === kind);
                    const low = smallest(of.map((c) => c.addr!));
                    const high = largest(of.map((c) => c.addr! + c.bytes));
                    const y = (addr: number) => ((addr - low) / Math.max(1, high - low)) * height;
                    return (
                        <svg
                            key={kind}
                            width={width}
                            height={height + 22}
                            role="img"
                            class="address-map"
                            aria-label={`${kind}: ${of.length} allocations in ${bytes(high - low)}`}
                        >
                            <text x={0} y={12} class="lane-name">
                                {kind}
                            </text>
                            <text x={0} y={30} class="tick">
                                {bytes(high - low)}
                            </text>
                            <rect x={MAP_LEFT} y={0} width={room} height={height} class="map-ground" />
                            <rect
                                x={MAP_LEFT + (chosen / n) * room}
                                y={0}
                                width={Math.max(1, room / n)}
                                height={height}
                                class="map-chosen"
                            />
                            {of.map((c) => {
                                const [first, last] = span(c, n);
                                return (
                                    <rect
                                        key={c.id}
                                        x={MAP_LEFT + (first / n) * room}
                                        width={Math.max(1, ((last - first + 1) / n) * room - 0.5)}
                                        y={y(c.addr!)}
                                        height={Math.max(1, y(c.addr! + c.bytes) - y(c.addr!) - 0.5)}
                                        fill={kindColor(kind, theme)}
                                        class="map-chunk"
                                        onClick={() => setArgs({ at: first })}
                                    >
                                        <title>{`${c.owner ?? NA}: ${bytes(c.bytes)}, ${nameOf(first)} to ${nameOf(last)}`}</title>
                                    </rect>
                                );
                            })}
                            <text x={MAP_LEFT} y={height + 14} class="tick">
                                {nameOf(0)}
                            </text>
                            <text x={MAP_LEFT + room} y={height + 14} class="tick" text-anchor="end">
                                {nameOf(n - 1)}
                            </text>
                        </svg>
                    );
                })}
            </div>
        </Card>
    );
}

export function isMemory(counter: Counter): boolean {
    return counter.unit === "bytes" || counter.unit === "B";
}

// several: there are others of this name, of other ranks.
function CounterCard({ counter, values, at, several }: { counter: Counter; values: Sampled[]; at: number; several: boolean }) {
    const theme = useTheme();
    const x = useMemo(() => values.map((v) => v.ts), [values]);
    // A part of the time may hold many values: a peak in it is no plateau.
    const parts = values.some((v) => v.low !== v.high);
    const series = useMemo(
        () => [
            {
                label: parts ? "least" : (counter.name ?? NA),
                color: byIndex(at, theme),
                fill: true,
                steps: true,
                values: values.map((v) => v.low),
            },
            ...(parts
                ? [
                      {
                          label: "most",
                          color: byIndex(at, theme),
                          steps: true,
                          values: values.map((v) => v.high),
                      },
                  ]
                : []),
        ],
        [values, theme]
    );
    return (
        <Card
            title={several && counter.rank !== null ? `${counter.name ?? NA}, rank ${counter.rank}` : counter.name ?? NA}
            aside={
                <span class="muted num">
                    {bytes(counter.low)} to {bytes(counter.high)}
                </span>
            }
            note={
                [
                    counter.device,
                    several || counter.rank === null ? null : `rank ${counter.rank}`,
                    parts ? "least and most of each part of the time" : null,
                ]
                    .filter(Boolean)
                    .join(", ") || undefined
            }
        >
            <Chart
                label={`${counter.name ?? NA} over time`}
                x={x}
                series={series}
                height={180}
                xFormat={ns}
                yFormat={bytes}
                binary
                sync="memory"
            />
        </Card>
    );
}

export function Memory() {
    const loaded = all<[Chunk[], Op[], Counter[], Sampled[]]>(
        useData("memory"),
        useData("model_ops"),
        useData("counters"),
        useData("counter_values")
    );
    return (
        <div class="page">
            <h1>Memory</h1>
            <Loaded of={loaded}>
                {([chunks, ops, counters, values]) => {
                    const shown = counters.filter(isMemory);
                    return (
                        <>
                            {!chunks.length && !shown.length && (
                                <p class="state empty">
                                    This trace says nothing about memory: its source has neither a plan of the
                                    model’s memory nor counters in bytes. A run by opmeter has the plan;
                                    PyTorch records allocations with <code>profile_memory=True</code>.
                                </p>
                            )}
                            {shown.length > 0 && <MemoryPeak />}
                            {shown.length > 0 && (
                                <div class="cards">
                                    {shown.map((c, i) => (
                                        <CounterCard
                                            key={c.id}
                                            counter={c}
                                            at={i}
                                            several={shown.some((one) => one !== c && one.name === c.name)}
                                            values={values.filter((v) => v.track === c.id)}
                                        />
                                    ))}
                                </div>
                            )}
                            {chunks.length > 0 && <Plan chunks={chunks} ops={ops} />}
                        </>
                    );
                }}
            </Loaded>
        </div>
    );
}
