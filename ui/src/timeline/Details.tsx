// The panel below the timeline: a span with all that is known of it, or the totals of a range.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import * as api from "../api";
import { Facts } from "../components/Card";
import { Exact } from "../components/Exact";
import { DataTable, type Column } from "../components/DataTable";
import { Loaded } from "../components/States";
import { count, NA, ns, percent, text } from "../format";
import { all, useData, useLoad, useTrace } from "../hooks";
import { href } from "../router";
import type { OpTensorRow, SpanRow } from "../schema";
import { Chain } from "./Chain";
import { Dock, type DockTab } from "./Dock";
import { Flame } from "./Flame";
import type { Arrow, Bar, Range, Scene } from "./scene";
import { totalsOf } from "./totals";

export type SpanDetails = SpanRow & {
    track_name: string | null;
    track_kind: string | null;
    process: string | null;
    parent_name: string | null;
    op_name: string | null;
    op_type: string | null;
};

interface FlowRow {
    src: number;
    dst: number;
    kind: string | null;
    ts: number;
    dur: number;
    track: number;
    depth: number;
    name: string | null;
}

function shapeOf(tensor: OpTensorRow): string {
    return [tensor.dtype, tensor.shape].filter(Boolean).join(" ") || NA;
}

function Tensors({ span }: { span: number }) {
    const tensors = useData<OpTensorRow>("span_tensors", { id: span });
    return (
        <Loaded of={tensors}>
            {(rows) => rows.length > 0 && (
                <>
                    <h3>Tensors</h3>
                    <Facts of={rows.map((row) => [`${row.io ?? ""} ${row.slot ?? ""}`,
                                                  `${shapeOf(row)}${row.name ? ` · ${row.name}` : ""}`])} />
                </>
            )}
        </Loaded>
    );
}

type ChildRow = Pick<SpanRow, "id" | "ts" | "dur" | "self" | "name">;

const ABOUT = { key: "about", title: "Span" } as const;
const CHAIN = { key: "chain", title: "Chain" } as const;
const FLAME = { key: "flame", title: "Flame graph" } as const;
const TOTALS = { key: "about", title: "Totals" } as const;

// What of the dock is open; it stays so from span to span.
export interface Tabbed {
    tab: DockTab;
    onTab: (tab: DockTab) => void;
}

function duration(dur: number | null): string {
    return dur !== null && dur < 0 ? "never ended" : ns(dur);
}

function SpanLink({ name, note, onClick }: { name: string | null; note: string; onClick: () => void }) {
    return (
        <li><button class="link" onClick={onClick}>{text(name)}</button><span class="muted">{note}</span></li>
    );
}

function parsed(args: string | null): [string, string][] {
    if (!args) return [];
    try {
        const value: unknown = JSON.parse(args);
        if (typeof value !== "object" || value === null) return [["args", args]];
        return Object.entries(value).map(([key, v]) => [key, typeof v === "string" ? v : JSON.stringify(v)]);
    } catch {
        return [["args", args]];
    }
}

function flowBar(flow: FlowRow, id: number): Bar {
    return { id, track: flow.track, depth: flow.depth, ts: flow.ts, dur: flow.dur, name: flow.name ?? "", count: 1 };
}

interface SpanPanelProps extends Tabbed {
    bar: Bar;
    scene: Scene;
    onClose: () => void;
    onSelect: (id: number) => void;
    onArrows: (arrows: Arrow[]) => void;
}

export function SpanPanel({ bar, scene, tab, onTab, onClose, onSelect, onArrows }: SpanPanelProps) {
    const span = useData<SpanDetails>("span", { id: bar.id });
    const flows = useData<FlowRow>("span_flows", { id: bar.id });
    const children = useData<ChildRow>("span_children", { id: bar.id });
    useEffect(() => {
        if (flows.state !== "ready") return;
        onArrows(flows.value.map((flow) => (flow.src === bar.id
            ? { from: bar, to: flowBar(flow, flow.dst), kind: flow.kind }
            : { from: flowBar(flow, flow.src), to: bar, kind: flow.kind })));
    }, [flows]);
    const end = bar.dur < 0 ? scene.duration : bar.ts + Math.max(bar.dur, 1);
    return (
        <Dock title={bar.name} name={bar.name} tabs={[ABOUT, CHAIN, FLAME]} {...{ tab, onTab, onClose }}>
            {tab === "chain" ? <Chain {...{ bar, end, scene, onSelect }} />
                : tab === "flame" ? <Flame from={bar.ts} to={end} track={bar.track} scene={scene} />
                : (
                    <Loaded of={all<[SpanDetails[], FlowRow[], ChildRow[]]>(span, flows, children)}>
                        {([[row], arrows, inside]) => (row
                            ? <SpanFacts {...{ row, arrows, inside, onSelect, bar }} /> : NA)}
                    </Loaded>
                )}
        </Dock>
    );
}

interface SpanFactsProps {
    row: SpanDetails;
    arrows: FlowRow[];
    inside: ChildRow[];
    bar: Bar;
    onSelect: (id: number) => void;
}

function SpanFacts({ row, arrows, inside, bar, onSelect }: SpanFactsProps) {
    const facts: [string, ComponentChildren][] = [
        ["Duration", row.dur < 0 ? duration(row.dur) : <Exact value={row.dur} what="the duration" />],
        ["Self", <Exact value={row.self} what="the self time" />],
        ["Start", <Exact value={row.ts} what="the start" />],
        ["Layer", text(row.layer)],
        ["Category", text(row.cat)],
        ["Track", [row.process, row.track_name].filter(Boolean).join(" · ") || NA],
    ];
    if (row.op !== null) {
        const name = `${row.op_name ?? row.op}${row.op_type ? ` (${row.op_type})` : ""}`;
        facts.push(["Operator", <a href={href("operators", { op: row.op })}>{name}</a>]);
    }
    if (row.phase) facts.push(["Phase", row.phase]);
    if (row.wait !== null) facts.push(["Wait", ns(row.wait)]);
    if (row.step !== null) facts.push(["Step", count(row.step)]);
    if (row.correlation !== null) facts.push(["Correlation", String(row.correlation)]);
    const args = parsed(row.args);
    const out = arrows.filter((flow) => flow.src === bar.id);
    const into = arrows.filter((flow) => flow.dst === bar.id);
    return (
        <div class="tl-columns">
            <Facts of={facts} />
            <div>
                {row.op !== null && <Tensors span={row.id} />}
                <h3>Arguments</h3>
                {args.length ? <Facts of={args} /> : <p class="note">None recorded.</p>}
            </div>
            <div>
                <h3>Linked spans</h3>
                <ul class="tl-links">
                    {row.parent !== null && (
                        <SpanLink name={row.parent_name} note="around it" onClick={() => onSelect(row.parent!)} />
                    )}
                    {into.map((flow) => (
                        <SpanLink key={`i${flow.src}`} name={flow.name} note={`${flow.kind ?? "flow"} from`}
                                  onClick={() => onSelect(flow.src)} />
                    ))}
                    {out.map((flow) => (
                        <SpanLink key={`o${flow.dst}`} name={flow.name} note={`${flow.kind ?? "flow"} to`}
                                  onClick={() => onSelect(flow.dst)} />
                    ))}
                    {inside.slice().sort((a, b) => b.dur - a.dur).map((child) => (
                        <SpanLink key={child.id} name={child.name} note={`${duration(child.dur)} inside`}
                                  onClick={() => onSelect(child.id)} />
                    ))}
                </ul>
                {row.parent === null && !arrows.length && !inside.length && <p class="note">Nothing.</p>}
            </div>
        </div>
    );
}

// How much of a bar of several spans is not gaps between them.
export function busyShare(bar: Bar): number | null {
    return bar.count > 1 && bar.dur > 0 && bar.busy !== undefined ? Math.min(bar.busy / bar.dur, 1) : null;
}

function busyFact(bar: Bar): [string, string][] {
    const share = busyShare(bar);
    return share === null ? [] : [["Busy", `${ns(bar.busy)}, ${percent(share)} of it`]];
}

// What the picture itself tells: of several narrow spans, or in a report.
interface BarPanelProps extends Tabbed {
    bar: Bar;
    scene: Scene;
    onClose: () => void;
    onZoom: () => void;
    onTotals: () => void;
    onSelect: (id: number) => void;
}

export function BarPanel({ bar, scene, tab, onTab, onClose, onZoom, onTotals, onSelect }: BarPanelProps) {
    const several = bar.count > 1;
    const end = bar.dur < 0 ? scene.duration : bar.ts + Math.max(bar.dur, 1);
    const shown = several && tab === "chain" ? "about" : tab;
    return (
        <Dock title={several ? `${count(bar.count)} spans, ${bar.mixed ? bar.name : `most of it ${bar.name}`}` : bar.name}
              tabs={several ? [ABOUT, FLAME] : [ABOUT, CHAIN, FLAME]} tab={shown} {...{ onTab, onClose }}>
            {shown === "chain" ? <Chain {...{ bar, end, scene, onSelect }} />
                : shown === "flame" ? <Flame from={bar.ts} to={end} track={bar.track} scene={scene} />
                : (
                    <>
                        <Facts of={[[several ? "Together" : "Duration", duration(bar.dur)], ...busyFact(bar), ["Start", ns(bar.ts)],
                                    ["Line", String(bar.depth + 1)]]} />
                        <p class="note">
                            {several ? "They are too narrow to be told apart; zoom in to see each."
                                : "A report file carries names, times and arrows; opmeter serve shows arguments too."}
                        </p>
                        <div class="tl-actions">
                            <button class="button" onClick={onZoom}>Zoom in on {several ? "them" : "it"}</button>
                            <button class="button" onClick={onTotals}>Totals of this time</button>
                        </div>
                    </>
                )}
        </Dock>
    );
}

export interface Total {
    name: string | null;
    layer: string | null;
    cat: string | null;
    count: number;
    total_ns: number;
    self_ns: number | null;
}

function columns(range: Range): Column<Total>[] {
    const whole = range.to - range.from;
    return [
        { key: "name", title: "Name", value: (t) => t.name, search: true },
        { key: "layer", title: "Layer", value: (t) => t.layer, width: "100px" },
        { key: "cat", title: "Category", value: (t) => t.cat, width: "130px" },
        { key: "count", title: "Count", value: (t) => t.count, numeric: true, width: "90px", show: (t) => count(t.count) },
        { key: "total", title: "Total", value: (t) => t.total_ns, numeric: true, width: "110px", show: (t) => ns(t.total_ns) },
        { key: "self", title: "Self", value: (t) => t.self_ns, numeric: true, width: "110px", show: (t) => ns(t.self_ns) },
        { key: "share", title: "Of the range", value: (t) => t.total_ns / whole, numeric: true, width: "110px",
          show: (t) => percent(t.total_ns / whole), doc: "Total as a share of the range; above 100 % on several tracks" },
    ];
}

interface RangePanelProps extends Tabbed {
    range: Range;
    scene: Scene;
    coarse: boolean;
    onClose: () => void;
}

export function RangePanel({ range, scene, coarse, tab, onTab, onClose }: RangePanelProps) {
    const trace = useTrace();
    const asked = useLoad(async (signal) => {
        if (api.isReport) return totalsOf(scene, range);
        const from = Math.floor(range.from);
        return api.records<Total>(await api.totals(trace.id, from, Math.max(Math.ceil(range.to), from + 1), signal));
    }, [range.from, range.to]);
    return (
        <Dock title={`${ns(range.to - range.from)} selected, ${ns(range.from)} to ${ns(range.to)}`} name={`${Math.round(range.from)}-${Math.round(range.to)}`}
              tabs={[TOTALS, FLAME]} tab={tab === "flame" ? tab : "about"} {...{ onTab, onClose }}>
            {tab === "flame" ? <Flame from={range.from} to={range.to} track={null} scene={scene} /> : <>
            {!coarse && <p class="note">Of every span the part that lies in the range.</p>}
            {coarse && <p class="note">Counted from a coarse picture: many narrow spans count as one name.</p>}
            <Loaded of={asked} empty="Nothing is in this range.">
                {(rows) => (
                    <DataTable label="Totals of the range" columns={columns(range)} rows={rows} sort="-self"
                               rowKey={(t) => `${t.name}|${t.cat}|${t.layer}`} />
                )}
            </Loaded>
            </>}
        </Dock>
    );
}
