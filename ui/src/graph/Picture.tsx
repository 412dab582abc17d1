// The graph of a model, drawn: moved, zoomed, and only as much as is in sight.
import { useEffect, useMemo } from "preact/hooks";
import { Press, pressable } from "../components/pressable";
import { count, NA, ns, percent } from "../format";
import { heat } from "../palette";
import { largest, smallest } from "../stats";
import { useTheme } from "../theme";
import { useTypeColors } from "../typeColors";
import { NODE_HEIGHT, NODE_WIDTH, type Layout, type Point } from "./layout";
import type { Block, Graph, GraphNode, GraphOp } from "./model";
import { Pannable, usePan, type View } from "./pan";

const FRAME = 14;

function route(points: Point[]): string {
    let path = `M${points[0]!.x.toFixed(1)} ${points[0]!.y.toFixed(1)}`;
    for (let i = 1; i < points.length; i++) {
        const [a, b] = [points[i - 1]!, points[i]!];
        const mid = ((a.y + b.y) / 2).toFixed(1);
        path +=
            a.x === b.x
                ? `L${b.x.toFixed(1)} ${b.y.toFixed(1)}`
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
function frameOf(block: number, model: Graph, layout: Layout): Rect | null {
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
    model: Graph;
    layout: Layout;
    total: number;
    colorBy: string;
    selected: number | null;
    onOpen: (op: GraphOp) => void;
    onFold: (block: Block) => void;
}

// What is in sight and around it, in steps: so that small moves need no drawing.
function areaOf(view: View, size: { width: number; height: number }): Rect {
    const step = (px: number) => 2 ** Math.ceil(Math.log2(Math.max(1, px / view.scale)));
    const [w, h] = [step(size.width), step(size.height)];
    const [left, top] = [Math.floor(view.x / w) * w, Math.floor(view.y / h) * h];
    return { left, top, right: left + 2 * w, bottom: top + 2 * h };
}

interface DrawnProps {
    model: Graph;
    layout: Layout;
    total: number;
    selected: number | null;
    area: Rect;
    small: boolean;
    plain: boolean; // text in the colour of the theme
    fill: (node: GraphNode) => string;
    onOpen: (op: GraphOp) => void;
    onFold: (block: Block) => void;
}

function Drawn({ model, layout, total, selected, area, small, plain, fill, onOpen, onFold }: DrawnProps) {
    const seen = (x0: number, y0: number, x1: number, y1: number) =>
        x1 >= area.left && x0 <= area.right && y1 >= area.top && y0 <= area.bottom;
    return (
        <>
            {model.blocks.map((block, i) => {
                const r = frameOf(i, model, layout);
                if (!r || !seen(r.left, r.top, r.right, r.bottom)) return null;
                return (
                    <g
                        key={block.key}
                        class="block"
                        {...pressable(
                            `${block.folded ? "Expand" : "Collapse"} a block of ${block.period} operators that repeats ${block.repeats} times`,
                            () => onFold(block)
                        )}
                    >
                        <rect
                            x={r.left}
                            y={r.top}
                            width={r.right - r.left}
                            height={r.bottom - r.top}
                            rx={10}
                            class={block.folded ? "folded" : ""}
                        />
                        <title>{`${block.period} operators, ${block.repeats} times; click to ${block.folded ? "expand" : "collapse"}`}</title>
                    </g>
                );
            })}
            {layout.edges.map((points, i) => {
                const [a, b] = [points[0]!, points.at(-1)!];
                const xs = points.map((p) => p.x);
                return (
                    seen(smallest(xs), a.y, largest(xs), b.y) && (
                        <path key={i} d={route(points)} class="edge" />
                    )
                );
            })}
            {model.nodes.map((node, i) => {
                const { x, y } = layout.nodes[i]!;
                const [left, top] = [x - NODE_WIDTH / 2, y - NODE_HEIGHT / 2];
                if (!seen(left, top, left + NODE_WIDTH, top + NODE_HEIGHT)) return null;
                const op = node.ops[0]!;
                const share = total > 0 && node.time !== null ? percent(node.time / total) : NA;
                // Begins with what is written, so that it can be said to a program that listens.
                const type = cut(op.type, 21 - ns(node.time).length);
                const name = cut(op.name, node.ops.length > 1 ? 21 : 26);
                const times = node.ops.length > 1 ? `× ${node.ops.length}` : "";
                const whole = [op.type !== type && op.type, op.name !== name && op.name].filter(Boolean).map((word) => `, ${word}`).join("");
                const label = `${type} ${ns(node.time)} ${name}${times && ` ${times}`}${whole}, ${share}`;
                return (
                    <g
                        key={op.id}
                        transform={`translate(${left} ${top})`}
                        class={node.ops.some((o) => o.id === selected) ? "node selected" : "node"}
                    >
                        <rect width={NODE_WIDTH} height={NODE_HEIGHT} rx={6} fill={fill(node)} />
                        {!small && (
                            <g class={plain ? "" : "on-fill"} aria-hidden="true">
                                <text x={10} y={18} class="node-type">
                                    {type}
                                </text>
                                <text x={NODE_WIDTH - 10} y={18} text-anchor="end" class="node-time">
                                    {ns(node.time)}
                                </text>
                                <text x={10} y={35} class="node-name">
                                    {name}
                                </text>
                                {times && (
                                    <text x={NODE_WIDTH - 10} y={35} text-anchor="end" class="node-name">
                                        {times}
                                    </text>
                                )}
                            </g>
                        )}
                        <Press label={label} width={NODE_WIDTH} height={NODE_HEIGHT} onPress={() => onOpen(op)} />
                    </g>
                );
            })}
            {!small &&
                model.blocks.map((block, i) => {
                    const r = frameOf(i, model, layout);
                    return (
                        r &&
                        seen(r.left, r.top - 20, r.right, r.top) && (
                            <text
                                key={block.key}
                                x={r.left + 2}
                                y={r.top - 5}
                                class="block-title"
                                aria-hidden="true"
                                onClick={() => onFold(block)}
                            >
                                {`× ${block.repeats}`}
                                <tspan class="block-line">{`  ${ns(block.time)}, ${percent(total > 0 && block.time !== null ? block.time / total : null)}  `}</tspan>
                                <tspan class="block-link">{block.folded ? "expand" : "collapse"}</tspan>
                            </text>
                        )
                    );
                })}
        </>
    );
}

export function Picture({ model, layout, total, colorBy, selected, onOpen, onFold }: PictureProps) {
    const theme = useTheme();
    const typeColor = useTypeColors();
    const pan = usePan(layout);
    const { view, size, show } = pan;
    useEffect(() => {
        const i =
            selected === null
                ? -1
                : model.nodes.findIndex((node) => node.ops.some((op) => op.id === selected));
        if (i >= 0 && size.width > 0) show(layout.nodes[i]!);
    }, [selected, size.width > 0]);
    const most = useMemo(
        () =>
            largest(
                model.nodes.map((n) => n.time ?? 0),
                1
            ),
        [model]
    );
    const small = view.scale < 0.3; // text could not be read
    const area = areaOf(view, size);
    // Moving within the area draws nothing anew.
    const drawn = useMemo(
        () => (
            <Drawn
                {...{ model, layout, total, selected, area, small, onOpen, onFold }}
                fill={(node) =>
                    colorBy === "type"
                        ? typeColor(node.ops[0]!.type)
                        : heat(Math.sqrt((node.time ?? 0) / most), theme)
                }
                plain={theme === "dark" && colorBy !== "type"}
            />
        ),
        [
            model,
            layout,
            selected,
            area.left,
            area.top,
            area.right,
            area.bottom,
            small,
            theme,
            colorBy,
            typeColor,
        ]
    );
    return (
        <Pannable pan={pan} label={`Graph of ${count(model.nodes.length)} operators`}>
            {drawn}
        </Pannable>
    );
}
