// The model as a graph, coloured by the time that operators take; blocks that repeat are folded.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { findOperator, operatorKey, OperatorDrawer } from "../components/OperatorDrawer";
import { Empty, Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { count, NA, ns, percent } from "../format";
import { layOut, NODE_HEIGHT, NODE_WIDTH, type Layout, type Point } from "../graph/layout";
import { buildGraph, type Block, type Graph as Model, type GraphOp } from "../graph/model";
import { all, useData } from "../hooks";
import { Icon } from "../icons";
import { useKeys } from "../keys";
import { heat } from "../palette";
import type { Op, Operator, Tensor } from "../queries";
import { setArgs, useRoute } from "../router";
import { groupBy } from "../stats";
import { useTheme } from "../theme";
import { useTypeColors } from "../typeColors";

const MARGIN = 40;
const FRAME = 14;

interface View {
    x: number;      // of the graph, at the left edge
    y: number;
    scale: number;  // pixels per unit
}

function route(points: Point[]): string {
    let path = `M${points[0]!.x.toFixed(1)} ${points[0]!.y.toFixed(1)}`;
    for (let i = 1; i < points.length; i++) {
        const [a, b] = [points[i - 1]!, points[i]!];
        const mid = ((a.y + b.y) / 2).toFixed(1);
        path += a.x === b.x ? `L${b.x.toFixed(1)} ${b.y.toFixed(1)}`
            : `C${a.x.toFixed(1)} ${mid} ${b.x.toFixed(1)} ${mid} ${b.x.toFixed(1)} ${b.y.toFixed(1)}`;
    }
    return path;
}

function cut(text: string, room: number): string {
    return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
}

interface Rect {
    left: number;
    top: number;
    right: number;
    bottom: number;
}

// Around the nodes of a block.
function frameOf(block: number, model: Model, layout: Layout): Rect | null {
    const rect = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
    model.nodes.forEach((node, i) => {
        if (node.block !== block) return;
        const { x, y } = layout.nodes[i]!;
        rect.left = Math.min(rect.left, x - NODE_WIDTH / 2 - FRAME);
        rect.right = Math.max(rect.right, x + NODE_WIDTH / 2 + FRAME);
        rect.top = Math.min(rect.top, y - NODE_HEIGHT / 2 - FRAME);
        rect.bottom = Math.max(rect.bottom, y + NODE_HEIGHT / 2 + FRAME);
    });
    return rect.left < rect.right ? rect : null;
}

interface PictureProps {
    model: Model;
    layout: Layout;
    total: number;
    colorBy: string;
    selected: number | null;
    onOpen: (op: GraphOp) => void;
    onFold: (block: Block) => void;
}

function useView(layout: Layout): { view: View; size: { width: number; height: number }; box: { current: HTMLDivElement | null };
                                    zoom: (factor: number, at?: Point) => void; fit: () => void; move: (dx: number, dy: number) => void } {
    const box = useRef<HTMLDivElement>(null);
    const [size, setSize] = useState({ width: 0, height: 0 });
    const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 });
    useEffect(() => {
        const element = box.current!;
        const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
        observer.observe(element);
        return () => observer.disconnect();
    }, []);
    // At its start, as large as can be read.
    const start = () => {
        const scale = Math.min(1, Math.max(0.45, size.width / (layout.width + 2 * MARGIN)));
        setView({ x: layout.width / 2 - size.width / scale / 2, y: -MARGIN, scale });
    };
    useEffect(start, [size.width > 0, layout.width > 0]);
    const zoom = (factor: number, at: Point = { x: size.width / 2, y: size.height / 2 }) => setView((v) => {
        const scale = Math.min(3, Math.max(0.02, v.scale * factor));
        return { scale, x: v.x + at.x / v.scale - at.x / scale, y: v.y + at.y / v.scale - at.y / scale };
    });
    const fit = () => {
        const scale = Math.min(1.5, size.width / (layout.width + 2 * MARGIN), size.height / (layout.height + 2 * MARGIN));
        setView({ scale, x: layout.width / 2 - size.width / scale / 2, y: layout.height / 2 - size.height / scale / 2 });
    };
    const move = (dx: number, dy: number) => setView((v) => ({ ...v, x: v.x + dx / v.scale, y: v.y + dy / v.scale }));
    return { view, size, box, zoom, fit, move };
}

function Picture({ model, layout, total, colorBy, selected, onOpen, onFold }: PictureProps) {
    const theme = useTheme();
    const typeColor = useTypeColors();
    const { view, size, box, zoom, fit, move } = useView(layout);
    const drag = useRef<Point | null>(null);
    useKeys([
        { keys: "+", does: "zoom in", run: () => zoom(1.3) },
        { keys: "-", does: "zoom out", run: () => zoom(1 / 1.3) },
        { keys: "f", does: "show the whole graph", run: fit },
        { keys: "ArrowDown", does: "", run: () => move(0, 80) },
        { keys: "ArrowUp", does: "", run: () => move(0, -80) },
        { keys: "ArrowLeft", does: "", run: () => move(-80, 0) },
        { keys: "ArrowRight", does: "", run: () => move(80, 0) },
    ], [size.width, size.height, layout]);
    useEffect(() => {
        const element = box.current!;
        const wheel = (event: WheelEvent) => {
            event.preventDefault();
            const rect = element.getBoundingClientRect();
            if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - rect.left, y: event.clientY - rect.top });
            else move(event.deltaX, event.deltaY);
        };
        element.addEventListener("wheel", wheel, { passive: false });
        return () => element.removeEventListener("wheel", wheel);
    }, [size.width > 0]);
    const seen = (x0: number, y0: number, x1: number, y1: number) => x1 >= view.x && x0 <= view.x + size.width / view.scale &&
        y1 >= view.y && y0 <= view.y + size.height / view.scale;
    const most = Math.max(...model.nodes.map((n) => n.time ?? 0), 1);
    const small = view.scale < 0.3; // text could not be read
    return (
        <div class="graph" ref={box} onPointerDown={(event) => { drag.current = { x: event.clientX, y: event.clientY }; }}
             onPointerMove={(event) => {
                 if (!drag.current || !(event.buttons & 1)) return;
                 move(drag.current.x - event.clientX, drag.current.y - event.clientY);
                 drag.current = { x: event.clientX, y: event.clientY };
             }}>
            <svg width={size.width} height={size.height} role="group" aria-label={`Graph of ${count(model.nodes.length)} operators`}>
                <g transform={`scale(${view.scale}) translate(${-view.x} ${-view.y})`}>
                    {model.blocks.map((block, i) => {
                        const r = frameOf(i, model, layout);
                        if (!r || !seen(r.left, r.top, r.right, r.bottom)) return null;
                        const title = `× ${block.repeats}`;
                        return (
                            <g key={block.key} class="block" tabIndex={0} role="button" onClick={() => onFold(block)}
                               aria-label={`${block.folded ? "Unfold" : "Fold"} a block of ${block.period} operators that repeats ${block.repeats} times`}
                               onKeyDown={(event) => { if (event.key === "Enter") onFold(block); }}>
                                <rect x={r.left} y={r.top} width={r.right - r.left} height={r.bottom - r.top} rx={10} class={block.folded ? "folded" : ""} />
                                <text x={r.right + 10} y={r.top + 18} class="block-title">{title}</text>
                                <text x={r.right + 10} y={r.top + 36} class="block-line">{ns(block.time)}, {percent(total > 0 && block.time !== null ? block.time / total : null)}</text>
                                <text x={r.right + 10} y={r.top + 54} class="block-link">{block.folded ? "unfold" : "fold"}</text>
                                <title>{`${block.period} operators, ${block.repeats} times; click to ${block.folded ? "unfold" : "fold"}`}</title>
                            </g>
                        );
                    })}
                    {layout.edges.map((points, i) => {
                        const [a, b] = [points[0]!, points.at(-1)!];
                        const xs = points.map((p) => p.x);
                        return seen(Math.min(...xs), a.y, Math.max(...xs), b.y) && <path key={i} d={route(points)} class="edge" />;
                    })}
                    {model.nodes.map((node, i) => {
                        const { x, y } = layout.nodes[i]!;
                        const [left, top] = [x - NODE_WIDTH / 2, y - NODE_HEIGHT / 2];
                        if (!seen(left, top, left + NODE_WIDTH, top + NODE_HEIGHT)) return null;
                        const op = node.ops[0]!;
                        const fill = colorBy === "type" ? typeColor(op.type) : heat(Math.sqrt((node.time ?? 0) / most), theme);
                        const share = total > 0 && node.time !== null ? percent(node.time / total) : NA;
                        const label = `${op.name}${node.ops.length > 1 ? ` and ${node.ops.length - 1} like it` : ""}, ${op.type}: ${ns(node.time)}, ${share}`;
                        return (
                            <g key={op.id} transform={`translate(${left} ${top})`} class={node.ops.some((o) => o.id === selected) ? "node selected" : "node"}
                               tabIndex={0} role="button" aria-label={label} onClick={() => onOpen(op)}
                               onKeyDown={(event) => { if (event.key === "Enter") onOpen(op); }}>
                                <rect width={NODE_WIDTH} height={NODE_HEIGHT} rx={6} fill={fill} />
                                {!small && (
                                    <g class={theme === "dark" && colorBy !== "type" ? "" : "on-fill"}>
                                        <text x={10} y={18} class="node-type">{cut(op.type, 14)}</text>
                                        <text x={NODE_WIDTH - 10} y={18} text-anchor="end" class="node-time">{ns(node.time)}</text>
                                        <text x={10} y={35} class="node-name">{cut(op.name, node.ops.length > 1 ? 22 : 28)}</text>
                                        {node.ops.length > 1 && <text x={NODE_WIDTH - 10} y={35} text-anchor="end" class="node-name">× {node.ops.length}</text>}
                                    </g>
                                )}
                                <title>{label}</title>
                            </g>
                        );
                    })}
                </g>
            </svg>
            <div class="graph-tools">
                <button class="icon-button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoom(1.3)}><Icon name="plus" /></button>
                <button class="icon-button" aria-label="Zoom out" title="Zoom out (-)" onClick={() => zoom(1 / 1.3)}><Icon name="minus" /></button>
                <button class="icon-button" aria-label="Show the whole graph" title="Show the whole graph (f)" onClick={fit}><Icon name="fit" /></button>
            </div>
        </div>
    );
}

function Page({ ops, tensors, operators }: { ops: Op[]; tensors: Tensor[]; operators: Operator[] }) {
    const { args } = useRoute();
    const unfolded = useMemo(() => new Set((args.get("open") ?? "").split(",").filter(Boolean)), [args.get("open")]);
    const colorBy = args.get("color") === "type" ? "type" : "time";
    const timed = useMemo(() => {
        const section = operators.some((o) => o.section === "device") ? "device" : "host";
        return new Map(operators.filter((o) => o.section === section && o.op !== null).map((o) => [o.op!, o.time_ns]));
    }, [operators]);
    const list = useMemo(() => {
        const shapes = new Map([...groupBy(tensors.filter((t) => t.io === "output"), (t) => t.op)]
            .map(([op, of]) => [op, of.map((t) => t.shape).join(" ")]));
        return ops.map((op): GraphOp => ({ id: op.id, name: op.name ?? NA, type: op.type ?? NA, time: timed.get(op.id) ?? null,
                                            shape: `${shapes.get(op.id) ?? ""} ${op.weight_shape ?? ""} ${op.post_op ?? ""}` }));
    }, [ops, tensors, timed]);
    const model = useMemo(() => buildGraph(list, tensors, unfolded), [list, unfolded]);
    const layout = useMemo(() => layOut(model.nodes.length, model.edges), [model]);
    const total = list.reduce((all, op) => all + (op.time ?? 0), 0);
    const selected = findOperator(operators, args.get("op"), "device");
    const fold = (block: Block) => {
        const next = new Set(unfolded);
        if (!next.delete(block.key)) next.add(block.key);
        setArgs({ open: [...next].join(",") || null });
    };
    const folded = model.blocks.filter((b) => b.folded).length;
    return (
        <>
            <div class="page-head">
                <h1>Model graph</h1>
                <Tabs label="Colour" value={colorBy} onChange={(key) => setArgs({ color: key === "type" ? key : null })}
                      options={[{ key: "time", title: "Time" }, { key: "type", title: "Type" }]} />
                {model.blocks.length > 0 && (
                    <button class="button" onClick={() => setArgs({ open: folded ? model.blocks.map((b) => b.key).join(",") : null })}>
                        {folded ? "Unfold all" : "Fold all"}</button>
                )}
                <span class="muted">{count(ops.length)} operators{folded ? `, ${count(model.nodes.length)} shown: ${count(folded)} repeated ${folded === 1 ? "block is" : "blocks are"} folded` : ""}.
                    Drag to move, Ctrl + wheel to zoom.</span>
            </div>
            <Picture model={model} layout={layout} total={total} colorBy={colorBy} selected={selected?.op ?? null}
                     onOpen={(op) => setArgs({ op: op.id })} onFold={fold} />
            {selected && <OperatorDrawer key={operatorKey(selected)} of={selected} onClose={() => setArgs({ op: null })} />}
        </>
    );
}

export function Graph() {
    const loaded = all<[Op[], Tensor[], Operator[]]>(useData("model_ops"), useData("model_tensors"), useData("operators"));
    return (
        <div class="page fill">
            <Loaded of={loaded}>
                {([ops, tensors, operators]) => {
                    if (!ops.length) return <><h1>Model graph</h1><Empty why="This trace knows no operators of a model." /></>;
                    if (!tensors.some((t) => t.name !== null && t.io === "output")) {
                        return <><h1>Model graph</h1><Empty why="The source of this trace does not name the tensors of its operators, so nobody can tell which feeds which." /></>;
                    }
                    return <Page ops={ops} tensors={tensors} operators={operators} />;
                }}
            </Loaded>
        </div>
    );
}
