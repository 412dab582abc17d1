// The timeline on the screen: canvases, the names of the tracks, mouse and keyboard.
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { Menu } from "../components/Menu";
import { Failed } from "../components/States";
import { count, ns, percent } from "../format";
import { useTrace } from "../hooks";
import { Icon } from "../icons";
import { useKeys } from "../keys";
import type { PathPart } from "../queries";
import { current, setArgs } from "../router";
import type { RecordRow, StepRow } from "../schema";
import { useTheme } from "../theme";
import { fromArgs, toArgs, type Arrangement } from "./arrange";
import { Controller } from "./controller";
import { BarPanel, RangePanel, SpanPanel, type SpanDetails } from "./Details";
import type { DockTab } from "./Dock";
import { useBusy } from "./busy";
import { useGestures, useHabit } from "./gestures";
import { deviceTitle, stripHit, strips, STRIP_PX } from "./head";
import type { ColorBy } from "./names";
import { above, below, beside, firstInSight } from "./neighbours";
import { barById } from "./offline";
import { OVERVIEW_PX } from "./overview";
import { ColorSource, RowLabel, Tip, type Colors } from "./parts";
import type { Bar, Range } from "./scene";
import { Search } from "./Search";
import { inSight, type Track } from "./tracks";
import { toTime } from "./view";

const URL_MS = 400; // the address follows when the picture rests
const PATH_MS = 80;

export interface ViewerProps {
    tracks: Track[];
    steps: StepRow[];
    records: RecordRow[];
}

function numberArg(name: string): number | null {
    const text = current().args.get(name);
    return text !== null && Number.isFinite(Number(text)) ? Number(text) : null;
}

function rangeArg(): Range | null {
    const found = /^(\d+)-(\d+)$/.exec(current().args.get("range") ?? "");
    return found ? { from: Number(found[1]), to: Number(found[2]) } : null;
}

function colorArg(): ColorBy {
    const by = current().args.get("color");
    return by === "layer" || by === "category" ? by : "type";
}

function markersArg(): number[] {
    return (current().args.get("marks") ?? "").split(",").filter((word) => /^\d+$/.test(word)).map(Number);
}

function tabArg(): DockTab {
    const tab = current().args.get("tab");
    return tab === "chain" || tab === "flame" ? tab : "about";
}

export function Viewer({ tracks, steps, records }: ViewerProps) {
    const trace = useTrace();
    const theme = useTheme();
    const [, redraw] = useReducer((n: number) => n + 1, 0);
    const [colorBy, setColorBy] = useState<ColorBy>(colorArg);
    const [withPath, setWithPath] = useState(!api.isReport && current().args.get("path") === "1");
    const [coarse, setCoarse] = useState(false);
    const [error, setError] = useState<Error | null>(null);
    const [pictured, setPictured] = useState(false);
    const [colors, setColors] = useState<Colors>({ kinds: new Map(), ofType: () => null });
    const pointer = useRef({ x: 0, y: 0 });
    const body = useRef<HTMLDivElement>(null);
    const main = useRef<HTMLCanvasElement>(null);
    const head = useRef<HTMLCanvasElement>(null);
    const overview = useRef<HTMLCanvasElement>(null);
    const moved = useRef(false); // by the reader: then the address tells where

    const controller = useMemo(() => new Controller(trace.id, trace.duration_ns, tracks, fromArgs(current().args),
        () => redraw(0), (y) => { if (body.current) body.current.scrollTop = y; },
        () => setArgs(toArgs(controller.arrangement))), [trace.id, trace.stamp]);
    const [wheel, setWheel] = useHabit<"scroll" | "zoom">("wheel", "scroll", "zoom");
    const [drag, setDrag] = useHabit<"move" | "select">("drag", "move", "select");
    const [tab, setTab] = useState<DockTab>(tabArg);
    const onTab = (next: DockTab) => {
        setTab(next);
        setArgs({ tab: next === "about" ? null : next });
    };
    const onArrange = (by: Arrangement) => {
        controller.arrange(by);
        setArgs(toArgs(by));
    };
    const mark = (time: number) => {
        controller.mark(time);
        setArgs({ marks: controller.scene.markers.join() || null });
    };
    const { scene } = controller;
    useLayoutEffect(() => controller.setSteps(steps, records, theme), [controller, steps, records, theme]);

    useLayoutEffect(() => {
        scene.names.paint(theme, colorBy, colors.kinds, colors.ofType);
        controller.invalidate();
    }, [controller, theme, colorBy, colors]);

    useLayoutEffect(() => {
        controller.attach({ main: main.current!, head: head.current!, overview: overview.current! });
        const fitBody = () => controller.resize(main.current!.parentElement!.clientWidth, body.current!.clientHeight);
        fitBody();
        const observer = new ResizeObserver(fitBody);
        observer.observe(body.current!);
        const ids = controller.groups.flatMap((group) => group.tracks.map(({ id }) => id));
        controller.scene.tiles.loadWhole(trace.duration_ns, ids, 1024).then((isCoarse) => {
            setCoarse(isCoarse);
            setPictured(true);
        }, setError);
        const from = numberArg("from");
        const to = numberArg("to");
        // As it stood: the address has the edges of the picture.
        if (from !== null && to !== null && to > from) {
            controller.showExactly(from, to);
        }
        controller.setRange(rangeArg());
        controller.setMarkers(markersArg());
        return () => {
            observer.disconnect();
            controller.detach();
        };
    }, [controller]);

    const togglePath = () => setWithPath((on) => {
        setArgs({ path: on ? null : 1 });
        return !on;
    });

    const select = (bar: Bar | null) => {
        moved.current = true;
        controller.setRange(null);
        controller.select(bar);
        setArgs({ span: bar && bar.id >= 0 ? bar.id : null, range: null });
    };
    const setRange = (range: Range | null) => {
        moved.current = true;
        if (range) controller.select(null);
        controller.setRange(range);
        const bar = scene.selected;
        setArgs({ span: bar && bar.id >= 0 ? bar.id : null,
                  range: range && `${Math.round(range.from)}-${Math.round(range.to)}` });
    };

    // A span that is known by its number alone: from the address, or a link of the panel.
    const goToSpan = async (id: number, zoomTo: boolean) => {
        if (api.isReport) {
            const bar = barById(scene, id);
            if (!bar) return;
            select(bar);
            controller.reveal(bar, zoomTo);
            return;
        }
        try {
            const [row] = api.records<SpanDetails>(await api.data(trace.id, "span", { id }));
            if (!row || row.track === null) return;
            const bar: Bar = { id, track: row.track, depth: row.depth ?? 0, ts: row.ts, dur: row.dur,
                               name: row.name ?? "", count: 1 };
            select(bar);
            controller.reveal(bar, zoomTo);
        } catch (failure) {
            setError(failure as Error);
        }
    };
    useEffect(() => {
        const follow = () => {
            const span = numberArg("span");
            if (current().page === "timeline" && span !== null && span !== scene.selected?.id) {
                void goToSpan(span, numberArg("from") === null);
            }
        };
        // Back and Forward bring everything back that the address has.
        const back = () => {
            if (current().page !== "timeline") return;
            const from = numberArg("from");
            const to = numberArg("to");
            if (from !== null && to !== null && to > from) controller.showExactly(from, to);
            else controller.showAll();
            if (numberArg("span") === null) controller.select(null);
            controller.setRange(rangeArg());
            controller.setMarkers(markersArg());
            controller.arrange(fromArgs(current().args));
            setTab(tabArg());
        };
        if (pictured || !api.isReport) follow();
        addEventListener("popstate", back);
        addEventListener("hashchange", follow);
        return () => {
            removeEventListener("popstate", back);
            removeEventListener("hashchange", follow);
        };
    }, [controller, api.isReport && pictured]); // a report knows spans from its picture

    useEffect(() => {
        if (!moved.current) return;
        const timer = setTimeout(() => {
            const whole = controller.isWhole();
            const { from } = controller.target;
            setArgs({ from: whole ? null : Math.round(from),
                      to: whole ? null : Math.round(toTime(controller.target, scene.width)) });
        }, URL_MS);
        return () => clearTimeout(timer);
    }, [controller.target]);

    useBusy(controller, trace, pictured, setError);

    // What is narrower than a pixel is not asked for; the path follows when the picture rests.
    useEffect(() => {
        if (!withPath) {
            controller.setPath([]);
            return;
        }
        let over = false;
        const timer = setTimeout(async () => {
            const { from, scale } = controller.target;
            try {
                const args = { from: Math.floor(from), to: Math.ceil(toTime(controller.target, scene.width)),
                               least: Math.floor(scale / 2) };
                const parts = api.records<PathPart>(await api.data(trace.id, "critical_path", args));
                if (!over) controller.setPath(parts);
            } catch (failure) {
                setError(failure as Error);
            }
        }, PATH_MS);
        return () => {
            over = true;
            clearTimeout(timer);
        };
    }, [controller, withPath, controller.target]);

    const act = (what: () => void) => () => {
        moved.current = true;
        what();
    };
    const step = (find: () => Bar | null) => act(() => {
        const bar = find() ?? (scene.selected ? null : firstInSight(scene));
        if (!bar) return;
        select(bar);
        controller.reveal(bar, false);
    });
    const { selected, range } = scene;
    const end = (bar: Bar) => (bar.dur < 0 ? scene.duration : bar.ts + Math.max(bar.dur, 1));
    useKeys([
        ...([["w", "zoom in about the pointer, as long as it is held", -1, 0], ["s", "zoom out", 1, 0],
             ["a", "go left", 0, -1], ["d", "go right", 0, 1],
             ["ArrowLeft", "", 0, -1], ["ArrowRight", "", 0, 1]] as const).map(([keys, does, zoom, pan]) => ({
            keys, does, run: act(() => controller.hold(zoom, pan)), release: () => controller.letGo(zoom !== 0),
        })),
        { keys: "ArrowUp", does: "", run: () => { body.current!.scrollTop -= 60; } },
        { keys: "ArrowDown", does: "", run: () => { body.current!.scrollTop += 60; } },
        { keys: "0", does: "show everything", run: act(() => controller.showAll()) },
        { keys: "f", does: "zoom to the selected span or range", run: act(() => controller.zoomToSelection()) },
        { keys: "c", does: "close or open all tracks", run: () => controller.toggleAll() },
        { keys: "p", does: "show or hide the critical path", run: togglePath },
        { keys: "m", does: "set a marker at the pointer, or take one away",
          run: () => mark(toTime(scene.view, controller.pointerX ?? scene.width / 2)) },
        { keys: "]", does: "select the next span of the line",
          run: step(() => scene.selected && beside(scene, scene.selected, 1)) },
        { keys: "[", does: "select the span before", run: step(() => scene.selected && beside(scene, scene.selected, -1)) },
        { keys: "{", does: "select the enclosing span", run: step(() => scene.selected && above(scene, scene.selected)) },
        { keys: "}", does: "select the first span inside", run: step(() => scene.selected && below(scene, scene.selected)) },
        { keys: "Escape", does: "close the panel", run: () => (scene.range ? setRange(null) : select(null)) },
    ], [controller]);

    const { onPointerDown, onHover } = useGestures({
        controller, main, head, body, wheel, drag, pointer, onMoved: () => { moved.current = true; },
        onBar: select, onRange: setRange, onStep: setRange,
    });
    const onDoubleClick = act(() => controller.zoomToSelection());

    // On the overview a click goes there, a drag takes the window along.
    const onOverview = (event: PointerEvent) => {
        if (!event.buttons) return;
        moved.current = true;
        const box = overview.current!.getBoundingClientRect();
        const time = ((event.clientX - box.left) / box.width) * scene.duration;
        const { scale } = controller.target;
        controller.show({ from: time - (scene.width * scale) / 2, scale }, event.type === "pointerdown");
    };

    const rows = inSight(scene.placed, scene.scroll - 100, scene.scroll + scene.height + 100);
    const broken = error ?? scene.tiles.error;
    const headPx = controller.headHeight;
    return (
        <div class="tl">
            {pictured && <ColorSource onColors={setColors} />}
            <div class="tl-bar">
                <Search controller={controller} initial={current().args.get("q") ?? ""}
                        onBar={(bar) => { select(bar); controller.reveal(bar, false); }}
                        onSpan={(id) => void goToSpan(id, false)} />
                <label class="tl-choice">Colours by{" "}
                    <select class="select" value={colorBy} onChange={(event) => {
                        const by = event.currentTarget.value as ColorBy;
                        setColorBy(by);
                        setArgs({ color: by === "type" ? null : by });
                    }}>
                        <option value="type">name</option>
                        <option value="category">category</option>
                        <option value="layer">layer</option>
                    </select>
                </label>
                {!api.isReport && (
                    <label class="tl-choice" title="The chain of host and device work that bounds a step (p)">
                        <input type="checkbox" checked={withPath} onChange={togglePath} /> Critical path
                    </label>
                )}
                {controller.arrangement.hidden.size > 0 && (
                    <button class="button" onClick={() => onArrange({ ...controller.arrangement, hidden: new Set() })}>
                        Show {count(controller.arrangement.hidden.size)} hidden
                    </button>
                )}
                <span class="tl-buttons">
                    <Menu label="Mouse" icon="mouse">
                        {() => (
                            <>
                                <Choice label="Wheel" value={wheel} onChange={setWheel}
                                        options={[["scroll", "scrolls; with Ctrl it zooms"], ["zoom", "zooms"]]} />
                                <Choice label="Drag" value={drag} onChange={setDrag}
                                        options={[["move", "moves; with Shift it selects"], ["select", "selects; with Shift it moves"]]} />
                            </>
                        )}
                    </Menu>
                    <button class="icon-button" onClick={act(() => controller.zoomBy(0.5))} aria-label="Zoom in"
                            title="Zoom in (w)"><Icon name="plus" /></button>
                    <button class="icon-button" onClick={act(() => controller.zoomBy(2))} aria-label="Zoom out"
                            title="Zoom out (s)"><Icon name="minus" /></button>
                    <button class="icon-button" onClick={act(() => controller.showAll())} aria-label="Show everything"
                            title="Show everything (0)"><Icon name="fit" /></button>
                </span>
                <Downloads />
            </div>
            {coarse && (
                <p class="tl-note" role="note">
                    This report carries a coarse picture: narrow spans that stand side by side are drawn as
                    one. opmeter serve shows each of them.
                </p>
            )}
            {broken && <Failed error={broken} />}
            <div class="tl-row">
                <div class="tl-corner" style={{ height: `${OVERVIEW_PX}px` }}>
                    {ns(trace.duration_ns)}<span class="muted">{count(trace.rows.span)} spans</span>
                </div>
                <canvas class="tl-overview" ref={overview} style={{ height: `${OVERVIEW_PX}px`, width: `${scene.width}px` }}
                        aria-label="Overview of the whole trace" role="img"
                        onPointerDown={(event) => {
                            event.currentTarget.setPointerCapture(event.pointerId);
                            onOverview(event);
                        }} onPointerMove={onOverview} />
            </div>
            <div class="tl-row" style={{ height: `${headPx}px` }}>
                <div class="tl-corner lanes">
                    <input type="text" class="search tl-filter" placeholder="Filter tracks" aria-label="Filter tracks"
                           value={controller.arrangement.filter}
                           onInput={(event) => onArrange({ ...controller.arrangement, filter: event.currentTarget.value })} />
                    {strips(scene).map((device, i, all) => (
                        <span key={i} class="tl-strip" style={{ height: `${STRIP_PX}px`, lineHeight: `${STRIP_PX}px` }}
                              title={`${deviceTitle(device, all)}: busy ${percent(device.busy_ns / (scene.busy!.to - scene.busy!.from))} of what is in sight`}>
                            <i>{deviceTitle(device, all)}</i>
                            <b>{percent(device.busy_ns / (scene.busy!.to - scene.busy!.from))}</b>
                        </span>
                    ))}
                    {controller.laneNames.map((name) => <span key={name}>{name}</span>)}
                </div>
                <canvas class="tl-head" ref={head} style={{ height: `${headPx}px`, width: `${scene.width}px` }} aria-hidden="true"
                        onPointerDown={onPointerDown} onMouseMove={(event) => {
                            const strip = stripHit(scene, event.offsetX, event.offsetY);
                            event.currentTarget.title = strip ? `${strip.title}: ${percent(strip.share)} busy`
                                : "Drag selects a range; a click on a step, its time";
                        }} />
            </div>
            <div class="tl-body" ref={body} onScroll={(event) => controller.scroll(event.currentTarget.scrollTop)}>
                <div class="tl-space" style={{ height: `${Math.max(controller.totalHeight, 1)}px` }}>
                    <div class="tl-labels">
                        {rows.map((row) => <RowLabel key={row.key} {...{ row, controller, onArrange }} />)}
                    </div>
                    <div class="tl-sticky" style={{ height: `${scene.height}px` }}>
                        <canvas class="tl-main" ref={main} tabIndex={0} role="img"
                                aria-label="Timeline of spans. W and S zoom, A and D move, brackets select spans, M marks a time."
                                style={{ height: `${scene.height}px`, width: `${scene.width}px` }} onPointerDown={onPointerDown}
                                onMouseMove={onHover} onMouseLeave={() => controller.leave()}
                                onDblClick={onDoubleClick} />
                        <Tip controller={controller} {...pointer.current} />
                    </div>
                </div>
            </div>
            {range ? <RangePanel {...{ range, scene, coarse, tab, onTab }} onClose={() => setRange(null)} />
                : selected && (selected.id >= 0 && !api.isReport
                    ? <SpanPanel key={selected.id} bar={selected} {...{ scene, tab, onTab }} onClose={() => select(null)}
                                 onSelect={(id) => void goToSpan(id, false)}
                                 onArrows={(arrows) => controller.setArrows(arrows)} />
                    : <BarPanel key={selected.ts} bar={selected} {...{ scene, tab, onTab }} onClose={() => select(null)}
                                onSelect={(id) => void goToSpan(id, false)} onZoom={act(() => controller.zoomToSelection())}
                                onTotals={() => setRange({ from: selected.ts, to: end(selected) })} />)}
        </div>
    );
}

interface ChoiceProps<T extends string> {
    label: string;
    value: T;
    options: [T, string][];
    onChange: (value: T) => void;
}

function Choice<T extends string>({ label, value, options, onChange }: ChoiceProps<T>) {
    return (
        <fieldset>
            <legend>{label}</legend>
            {options.map(([key, does]) => (
                <label key={key}>
                    <input type="radio" name={label} checked={key === value} onChange={() => onChange(key)} /> {does}
                </label>
            ))}
        </fieldset>
    );
}

function Downloads() {
    const trace = useTrace();
    const formats = [["chrome", "Chrome"], ["perfetto", "Perfetto"]] as const;
    if (api.isReport) return <span class="tl-downloads muted">Downloads need opmeter serve.</span>;
    return (
        <span class="tl-downloads">
            {formats.map(([format, title]) => (
                <a key={format} class="button" href={api.exportUrl(trace.id, format)!} download
                   title={`Download for ${title}`}><Icon name="download" />{title}</a>
            ))}
        </span>
    );
}
