// Two timelines below each other that zoom, move and select as one, aligned at the starts of steps.
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { align, difference, relative } from "../compare";
import { DataTable, type Column } from "../components/DataTable";
import { Empty, Failed, Loaded } from "../components/States";
import { count, NA, ns, percent, text } from "../format";
import { all, TraceContext, useDataOf, useLoad } from "../hooks";
import { Icon } from "../icons";
import { useKeys } from "../keys";
import { current, href, setArgs } from "../router";
import type { RecordRow, StepRow } from "../schema";
import { useTheme } from "../theme";
import { useBusy } from "./busy";
import { Controller } from "./controller";
import type { SpanDetails, Total } from "./Details";
import { useGestures } from "./gestures";
import { deviceTitle, strips, STRIP_PX } from "./head";
import { Link, otherSide, type Side } from "./link";
import { ColorSource, RowLabel, Tip, type Colors } from "./parts";
import type { Bar, Range } from "./scene";
import { inSight, type Track } from "./tracks";
import { toTime } from "./view";

const NAMES = ["A", "B"] as const;
const URL_MS = 400; // the address follows when the picture rests
const MOST_TWINS = 5000;

type Two<T> = [T, T];

interface SideData {
    trace: api.TraceInfo;
    tracks: Track[];
    steps: StepRow[];
    records: RecordRow[];
}

// What is selected: a span of one side, or a range of both.
interface Chosen {
    side: Side;
    bar: Bar;
    twin: Bar | null | undefined; // undefined: being looked for
}

function signed(value: number | null, show: (v: number) => string): string {
    return value === null ? NA : value > 0 ? `+${show(value)}` : value < 0 ? `−${show(-value)}` : show(0);
}

interface StripProps {
    of: SideData;
    side: Side;
    controller: Controller;
    bodyRef: { current: HTMLDivElement | null };
    guide: number | null;
    onGuide: (x: number | null) => void;
    onMoved: () => void;
    onBar: (bar: Bar | null) => void;
    onRange: (range: Range | null) => void;
    onError: (error: Error) => void;
    colors: Colors;
    onColors: (colors: Colors) => void;
}

function Strip({ of, side, controller, bodyRef, guide, colors, onColors, onGuide, onMoved, onBar, onRange, onError }: StripProps) {
    const theme = useTheme();
    const main = useRef<HTMLCanvasElement>(null);
    const head = useRef<HTMLCanvasElement>(null);
    const pointer = useRef({ x: 0, y: 0 });
    const [pictured, setPictured] = useState(false);
    const { scene } = controller;
    useLayoutEffect(() => controller.setSteps(of.steps, of.records, theme), [controller, theme]);
    useLayoutEffect(() => {
        scene.names.paint(theme, "type", colors.kinds, colors.ofType);
        controller.invalidate();
    }, [controller, theme, colors]);
    useLayoutEffect(() => {
        controller.attach({ main: main.current!, head: head.current!, overview: null });
        const fitBody = () => controller.resize(main.current!.parentElement!.clientWidth, bodyRef.current!.clientHeight);
        fitBody();
        const observer = new ResizeObserver(fitBody);
        observer.observe(bodyRef.current!);
        const ids = controller.groups.flatMap((group) => group.tracks.map(({ id }) => id));
        scene.tiles.loadWhole(of.trace.duration_ns, ids, 1024).then(() => setPictured(true), onError);
        return () => {
            observer.disconnect();
            controller.detach();
        };
    }, [controller]);
    useBusy(controller, of.trace, pictured, onError);
    const { onPointerDown, onHover } = useGestures({
        controller, main, head, body: bodyRef, wheel: "scroll", drag: "move", pointer, onMoved, onBar, onRange, onStep: onRange,
    });
    const rows = inSight(scene.placed, scene.scroll - 100, scene.scroll + scene.height + 100);
    const headPx = controller.headHeight;
    return (
        <section class="tl pair-side" aria-label={`${NAMES[side]}: ${of.trace.path}`} data-from={controller.target.from}
                 data-to={toTime(controller.target, scene.width)}>
            {pictured && <ColorSource onColors={onColors} />}
            <div class="tl-row" style={{ height: `${headPx}px` }}>
                <div class="tl-corner lanes">
                    <strong class="pair-name" title={of.trace.path}><b>{NAMES[side]}</b>{of.trace.name}</strong>
                    {strips(scene).map((device, i, list) => (
                        <span key={i} class="tl-strip" style={{ height: `${STRIP_PX}px`, lineHeight: `${STRIP_PX}px` }}>
                            <i>{deviceTitle(device, list)}</i>
                            <b>{percent(device.busy_ns / (scene.busy!.to - scene.busy!.from))}</b>
                        </span>
                    ))}
                    {controller.laneNames.map((name) => <span key={name}>{name}</span>)}
                </div>
                <canvas class="tl-head" ref={head} style={{ height: `${headPx}px`, width: `${scene.width}px` }} aria-hidden="true"
                        title="Drag selects a range of both; a click on a step, that step of both" onPointerDown={onPointerDown} />
            </div>
            <div class="tl-body" ref={bodyRef} onScroll={(event) => controller.scroll(event.currentTarget.scrollTop)}>
                <div class="tl-space" style={{ height: `${Math.max(controller.totalHeight, 1)}px` }}>
                    <div class="tl-labels">
                        {rows.map((row) => <RowLabel key={row.key} {...{ row, controller }} onArrange={(by) => controller.arrange(by)} />)}
                    </div>
                    <div class="tl-sticky" style={{ height: `${scene.height}px` }}>
                        <canvas class="tl-main" ref={main} tabIndex={0} role="img"
                                aria-label={`Timeline of ${NAMES[side]}. W and S zoom both, A and D move both.`}
                                style={{ height: `${scene.height}px`, width: `${scene.width}px` }} onPointerDown={onPointerDown}
                                onMouseMove={(event) => {
                                    onHover(event);
                                    onGuide(event.offsetX);
                                }}
                                onMouseLeave={() => {
                                    controller.leave();
                                    onGuide(null);
                                }} />
                        {guide !== null && <div class="pair-guide" style={{ left: `${guide}px` }} aria-hidden="true" />}
                        <Tip controller={controller} {...pointer.current} />
                    </div>
                </div>
            </div>
        </section>
    );
}

interface NamedSpan {
    id: number;
    ts: number;
    dur: number;
    track: number;
    depth: number;
}

// The span of the other trace that has the same name and is as many-eth of its step.
async function findTwin(traces: Two<api.TraceInfo>, link: Link, side: Side, bar: Bar): Promise<Bar | null> {
    const ask = async (of: Side) => {
        const { from, to } = link.around(side, bar.ts)[of];
        const rows = await api.data(traces[of].id, "spans_between", { name: bar.name, from: Math.floor(from), to: Math.ceil(to), limit: MOST_TWINS });
        return api.records<NamedSpan>(rows);
    };
    const other = otherSide(side);
    const [own, theirs] = await Promise.all([ask(side), ask(other)]);
    const twin = theirs[own.findIndex(({ id }) => id === bar.id)];
    return twin ? { ...twin, name: bar.name, count: 1 } : null;
}

function SpanPair({ chosen, link, data, onClose }: { chosen: Chosen; link: Link; data: Two<SideData>; onClose: () => void }) {
    const { side, bar, twin } = chosen;
    const bars: Two<Bar | null | undefined> = side === 0 ? [bar, twin] : [twin, bar];
    const [a, b] = bars.map((of) => (of && of.dur >= 0 ? of.dur : null));
    const around = link.around(side, bar.ts);
    return (
        <section class="pair-panel" aria-label="Selected">
            <header class="tl-panel-head">
                <h2 title={bar.name}>{bar.count > 1 ? `${count(bar.count)} spans, ${bar.name}` : bar.name}</h2>
                <button class="icon-button" onClick={onClose} aria-label="Close" title="Close (Esc)"><Icon name="close" /></button>
            </header>
            {bar.id < 0 ? <p class="note">They are too narrow to be told apart; zoom in to compare one of them.</p> : (
                <table class="plain">
                    <thead>
                        <tr><td></td><th class="num">Duration</th><th class="num">After the start of its step</th><td></td></tr>
                    </thead>
                    <tbody>
                        {bars.map((of, s) => (
                            <tr key={s}>
                                <td>{NAMES[s]}</td>
                                <td class="num">{of ? (of.dur < 0 ? "never ended" : ns(of.dur)) : of === null ? "none of this name in that step" : "…"}</td>
                                <td class="num">{of ? ns(of.ts - around[s as Side].from) : ""}</td>
                                <td>{of && <a class="more" href={href("timeline", { span: of.id }, data[s as Side].trace.id)}>in its timeline</a>}</td>
                            </tr>
                        ))}
                        <tr>
                            <td>B − A</td>
                            <td class="num"><b>{signed(difference(a, b), ns)}</b> {signed(relative(a, b), percent)}</td>
                            <td></td><td></td>
                        </tr>
                    </tbody>
                </table>
            )}
        </section>
    );
}

interface TotalPair {
    key: string;
    a: Total | null;
    b: Total | null;
}

const one = (p: TotalPair) => (p.a ?? p.b)!;
const change = (p: TotalPair) => (p.b?.total_ns ?? 0) - (p.a?.total_ns ?? 0);

const TOTALS: Column<TotalPair>[] = [
    { key: "name", title: "Name", value: (p) => one(p).name, search: true },
    { key: "cat", title: "Category", value: (p) => one(p).cat, width: "130px" },
    { key: "a", title: "A", value: (p) => p.a?.total_ns ?? null, show: (p) => ns(p.a?.total_ns), numeric: true, width: "100px" },
    { key: "b", title: "B", value: (p) => p.b?.total_ns ?? null, show: (p) => ns(p.b?.total_ns), numeric: true, width: "100px" },
    { key: "size", title: "B − A", value: (p) => Math.abs(change(p)), show: (p) => signed(change(p), ns), numeric: true, width: "100px" },
    { key: "change", title: "Change", value: (p) => relative(p.a?.total_ns, p.b?.total_ns), numeric: true, width: "90px",
      show: (p) => signed(relative(p.a?.total_ns, p.b?.total_ns), percent) },
    { key: "counts", title: "Count A / B", value: (p) => p.a?.count ?? p.b?.count ?? null, numeric: true, width: "110px",
      show: (p) => `${p.a ? count(p.a.count) : "–"} / ${p.b ? count(p.b.count) : "–"}` },
];

function RangePair({ ranges, data, onClose }: { ranges: Two<Range>; data: Two<SideData>; onClose: () => void }) {
    const asked = useLoad(async (signal) => {
        const [a, b] = await Promise.all(ranges.map(async ({ from, to }, s) => {
            const start = Math.floor(from);
            return api.records<Total>(await api.totals(data[s as Side].trace.id, start, Math.max(Math.ceil(to), start + 1), signal));
        }));
        return align(a!, b!, (t) => `${t.name}|${t.cat}|${t.layer}`);
    }, [ranges[0].from, ranges[0].to, ranges[1].from, ranges[1].to]);
    const [a, b] = ranges.map(({ from, to }) => to - from);
    return (
        <section class="pair-panel tall" aria-label="Selected">
            <header class="tl-panel-head">
                <h2>{a === b ? `${ns(a)} of both` : `A ${ns(a)}, B ${ns(b)}: ${signed(b! - a!, ns)}, ${signed(relative(a, b), percent)}`}</h2>
                <button class="icon-button" onClick={onClose} aria-label="Close" title="Close (Esc)"><Icon name="close" /></button>
            </header>
            <Loaded of={asked} empty="Nothing is in this time.">
                {(rows) => <DataTable label="Totals of both" columns={TOTALS} rows={rows} rowKey={(p) => p.key} sort="-size" />}
            </Loaded>
        </section>
    );
}

function rangeArg(): Range | null {
    const found = /^(\d+)-(\d+)$/.exec(current().args.get("range") ?? "");
    return found ? { from: Number(found[1]), to: Number(found[2]) } : null;
}

function numberArg(name: string): number | null {
    const word = current().args.get(name);
    return word !== null && Number.isFinite(Number(word)) ? Number(word) : null;
}

const NO_COLORS: Colors = { kinds: new Map(), ofType: () => null };
const NOT_ARRANGED = { pinned: [], hidden: new Set<number>(), order: [], filter: "", unfolded: new Set<number>() };

function Linked({ data }: { data: Two<SideData> }) {
    const [, redraw] = useReducer((n: number) => n + 1, 0);
    const [error, setError] = useState<Error | null>(null);
    const [chosen, setChosen] = useState<Chosen | null>(null);
    const [ranges, setRanges] = useState<Two<Range> | null>(null);
    const [guide, setGuide] = useState<number | null>(null);
    const [colors, setColors] = useState<Two<Colors>>([NO_COLORS, NO_COLORS]);
    // A type has one colour on both sides: that of A, if A has it.
    const shared = useMemo(() => {
        const ofType = (type: string) => colors[0].ofType(type) ?? colors[1].ofType(type);
        return colors.map(({ kinds }) => ({ kinds, ofType })) as Two<Colors>;
    }, [colors]);
    const bodies: Two<{ current: HTMLDivElement | null }> = [useRef(null), useRef(null)];
    const moved = useRef(false);
    const { sides, link } = useMemo(() => {
        const make = (side: Side) => new Controller(data[side].trace.id, data[side].trace.duration_ns, data[side].tracks, NOT_ARRANGED,
            () => redraw(0), (y) => { if (bodies[side].current) bodies[side].current!.scrollTop = y; }, () => undefined);
        const both: Two<Controller> = [make(0), make(1)];
        return { sides: both, link: new Link(both, [data[0].steps, data[1].steps]) };
    }, []);
    const lead = sides[0];

    const select = (side: Side, bar: Bar | null) => {
        setRanges(null);
        sides.forEach((c) => c.setRange(null));
        sides[side].select(bar);
        sides[otherSide(side)].select(null);
        setChosen(bar && { side, bar, twin: bar.id < 0 ? null : undefined });
        setArgs({ span: bar && bar.id >= 0 ? bar.id : null, side: bar && side === 1 ? "b" : null, range: null });
    };
    const selectRange = (side: Side, range: Range | null) => {
        setChosen(null);
        sides.forEach((c) => c.select(null));
        const both = range && link.ranges(side, range);
        sides.forEach((c, s) => c.setRange(both && both[s as Side]));
        setRanges(both);
        setArgs({ span: null, side: both && side === 1 ? "b" : null,
                  range: both && `${Math.round(both[side].from)}-${Math.round(both[side].to)}` });
    };
    const close = () => (ranges ? selectRange(0, null) : select(0, null));

    useEffect(() => {
        if (!chosen || chosen.twin !== undefined) return;
        let over = false;
        findTwin([data[0].trace, data[1].trace], link, chosen.side, chosen.bar).then((twin) => {
            if (over) return;
            const other = sides[otherSide(chosen.side)];
            other.select(twin);
            if (twin) other.revealLine(twin);
            setChosen({ ...chosen, twin });
        }, setError);
        return () => { over = true; };
    }, [chosen]);

    // As the address has it: time of A, and what was selected on which side.
    const restore = (first: boolean) => {
        const [from, to, span] = [numberArg("from"), numberArg("to"), numberArg("span")];
        const side: Side = current().args.get("side") === "b" ? 1 : 0;
        const range = rangeArg();
        if (from !== null && to !== null && to > from) lead.showExactly(from, to);
        else if (first) link.goTo(0, false);
        if (range) selectRange(side, range);
        else if (span === null) select(0, null);
        else {
            api.data(data[side].trace.id, "span", { id: span }).then((rows) => {
                const [row] = api.records<SpanDetails>(rows);
                if (!row || row.track === null) return;
                const bar = { id: span, track: row.track, depth: row.depth ?? 0, ts: row.ts, dur: row.dur, name: row.name ?? "", count: 1 };
                select(side, bar);
                sides[side].reveal(bar, first && from === null);
            }, setError);
        }
    };
    useLayoutEffect(() => {
        restore(true);
        const back = () => {
            if (current().page === "compare") restore(false);
        };
        addEventListener("popstate", back);
        return () => removeEventListener("popstate", back);
    }, []);
    useEffect(() => {
        if (!moved.current) return;
        const timer = setTimeout(() => setArgs({ from: Math.round(lead.target.from), to: Math.round(toTime(lead.target, lead.scene.width)) }), URL_MS);
        return () => clearTimeout(timer);
    }, [lead.target]);

    const act = (what: () => void) => () => {
        moved.current = true;
        what();
    };
    // Keys zoom where the pointer is, on whichever side.
    const pointed = () => sides.find((c) => c.pointerX !== null) ?? lead;
    useKeys([
        ...([["w", "zoom in on both about the pointer, as long as it is held", -1, 0], ["s", "zoom out", 1, 0], ["a", "go left", 0, -1], ["d", "go right", 0, 1],
             ["ArrowLeft", "", 0, -1], ["ArrowRight", "", 0, 1]] as const).map(([keys, does, zoom, pan]) => ({
            keys, does, run: act(() => pointed().hold(zoom, pan)), release: () => sides.forEach((c) => c.letGo(zoom !== 0)),
        })),
        { keys: "0", does: "show everything of both", run: act(() => lead.showAll()) },
        { keys: "f", does: "zoom to what is selected", run: act(() => (sides.find((c) => c.scene.selected || c.scene.range) ?? lead).zoomToSelection()) },
        { keys: "]", does: "go to the next step", run: act(() => link.goTo(link.step + 1)) },
        { keys: "[", does: "go to the step before", run: act(() => link.goTo(link.step - 1)) },
        { keys: "Escape", does: "close the panel", run: close },
    ], [ranges]);
    const nums = ([0, 1] as const).map((side) => text(link.steps[side][link.step]?.num ?? link.step));
    return (
        <div class="pair">
            <div class="tl-bar">
                {link.count > 0 ? (
                    <span class="pair-step">
                        <button class="icon-button" onClick={act(() => link.goTo(link.step - 1))} disabled={link.step === 0}
                                aria-label="Step before" title="Step before ([)"><Icon name="left" /></button>
                        <span>Aligned at the start of step <b>{nums[0] === nums[1] ? nums[0] : `${nums[0]} of A, ${nums[1]} of B`}</b>
                            <span class="muted"> {count(link.step + 1)} of {count(link.count)}</span></span>
                        <button class="icon-button" onClick={act(() => link.goTo(link.step + 1))} disabled={link.step === link.count - 1}
                                aria-label="Next step" title="Next step (])"><Icon name="right" /></button>
                    </span>
                ) : <span class="muted">Aligned at the start of both: there are no steps in both to align by.</span>}
                <span class="tl-buttons">
                    <button class="icon-button" onClick={act(() => lead.zoomBy(0.5))} aria-label="Zoom in" title="Zoom in (w)"><Icon name="plus" /></button>
                    <button class="icon-button" onClick={act(() => lead.zoomBy(2))} aria-label="Zoom out" title="Zoom out (s)"><Icon name="minus" /></button>
                    <button class="icon-button" onClick={act(() => lead.showAll())} aria-label="Show everything" title="Show everything (0)"><Icon name="fit" /></button>
                </span>
                <span class="muted pair-hint">Both zoom, move and select as one, at the same scale.</span>
            </div>
            {error && <Failed error={error} />}
            {([0, 1] as const).map((side) => (
                <TraceContext.Provider key={side} value={data[side].trace}>
                    <Strip of={data[side]} side={side} controller={sides[side]} bodyRef={bodies[side]} guide={guide} onGuide={setGuide}
                           onMoved={() => { moved.current = true; }} onBar={(bar) => select(side, bar)}
                           onRange={(range) => selectRange(side, range)} onError={setError} colors={shared[side]}
                           onColors={(own) => setColors((both) => (side === 0 ? [own, both[1]] : [both[0], own]))} />
                </TraceContext.Provider>
            ))}
            {ranges ? <RangePair {...{ ranges, data }} onClose={close} /> : chosen && <SpanPair {...{ chosen, link, data }} onClose={close} />}
        </div>
    );
}

function useSide(trace: api.TraceInfo) {
    return all<[Track[], RecordRow[]]>(useDataOf(trace, "tracks"), useDataOf(trace, "records"));
}

export function Pair({ traces, steps }: { traces: Two<api.TraceInfo>; steps: Two<StepRow[]> }) {
    const loaded = all<Two<[Track[], RecordRow[]]>>(useSide(traces[0]), useSide(traces[1]));
    return (
        <Loaded of={loaded}>
            {(sides) => {
                const data = sides.map(([tracks, records], i) => ({ trace: traces[i]!, tracks, records, steps: steps[i]! })) as Two<SideData>;
                const blank = data.find(({ tracks }) => !tracks.some((t) => t.spans || t.samples));
                return blank ? <Empty why={`${blank.trace.path} has no spans and no counters, so there is nothing to draw over time.`} />
                    : <Linked data={data} />;
            }}
        </Loaded>
    );
}
