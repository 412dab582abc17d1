// A drawing that is larger than its place: dragged, zoomed, moved by keys.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../icons";
import { useKeys } from "../keys";
import type { Point } from "./layout";

const MARGIN = 40;
const IN_SIGHT = 0.6; // of the width: a panel may cover the rest

export interface View {
    x: number; // of the graph, at the left edge
    y: number;
    scale: number; // pixels per unit
}

export interface Pan {
    layout: { width: number; height: number };
    view: View;
    size: { width: number; height: number };
    box: { current: HTMLDivElement | null };
    zoom: (factor: number, at?: Point) => void;
    fit: () => void;
    move: (dx: number, dy: number) => void;
    show: (at: Point) => void;
}

export function usePan(layout: { width: number; height: number }): Pan {
    const box = useRef<HTMLDivElement>(null);
    const [size, setSize] = useState({ width: 0, height: 0 });
    const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 });
    useEffect(() => {
        const element = box.current!;
        const observer = new ResizeObserver(() =>
            setSize({ width: element.clientWidth, height: element.clientHeight })
        );
        observer.observe(element);
        return () => observer.disconnect();
    }, []);
    // At its start, as large as can be read.
    const start = () => {
        const scale = Math.min(1, Math.max(0.45, size.width / (layout.width + 2 * MARGIN)));
        setView({ x: layout.width / 2 - size.width / scale / 2, y: -MARGIN, scale });
    };
    useEffect(start, [size.width > 0, layout.width > 0]);
    const zoom = (factor: number, at: Point = { x: size.width / 2, y: size.height / 2 }) =>
        setView((v) => {
            const scale = Math.min(3, Math.max(0.02, v.scale * factor));
            return { scale, x: v.x + at.x / v.scale - at.x / scale, y: v.y + at.y / v.scale - at.y / scale };
        });
    const fit = () => {
        const scale = Math.min(
            1.5,
            size.width / (layout.width + 2 * MARGIN),
            size.height / (layout.height + 2 * MARGIN)
        );
        setView({
            scale,
            x: layout.width / 2 - size.width / scale / 2,
            y: layout.height / 2 - size.height / scale / 2,
        });
    };
    const move = (dx: number, dy: number) =>
        setView((v) => ({ ...v, x: v.x + dx / v.scale, y: v.y + dy / v.scale }));
    // Into the middle, unless it is in sight.
    const show = (at: Point) =>
        setView((v) => {
            const [x, y] = [(at.x - v.x) * v.scale, (at.y - v.y) * v.scale];
            if (
                x > MARGIN &&
                x < size.width * IN_SIGHT &&
                y > MARGIN &&
                y < size.height - MARGIN &&
                v.scale >= 0.3
            )
                return v;
            const scale = Math.max(0.6, v.scale);
            return {
                scale,
                x: at.x - (size.width * IN_SIGHT) / scale / 2,
                y: at.y - size.height / scale / 2,
            };
        });
    return { layout, view, size, box, zoom, fit, move, show };
}

interface PannableProps {
    pan: Pan;
    label: string;
    pageScrolls?: boolean; // the wheel alone is left to the page
    children: ComponentChildren;
}

export function Pannable({ pan, label, pageScrolls = false, children }: PannableProps) {
    const { layout, view, size, box, zoom, fit, move } = pan;
    const drag = useRef<Point | null>(null);
    const dragged = useRef(false); // then its end is no click
    useKeys(
        [
            { keys: "+", does: "zoom in", run: () => zoom(1.3) },
            { keys: "-", does: "zoom out", run: () => zoom(1 / 1.3) },
            { keys: "f", does: "show the whole graph", run: fit },
            { keys: "ArrowDown", does: "", run: () => move(0, 80) },
            { keys: "ArrowUp", does: "", run: () => move(0, -80) },
            { keys: "ArrowLeft", does: "", run: () => move(-80, 0) },
            { keys: "ArrowRight", does: "", run: () => move(80, 0) },
        ],
        [size.width, size.height, layout.width, layout.height]
    );
    useEffect(() => {
        const element = box.current!;
        const wheel = (event: WheelEvent) => {
            if (pageScrolls && !event.ctrlKey && !event.metaKey) return;
            event.preventDefault();
            const rect = element.getBoundingClientRect();
            if (event.ctrlKey || event.metaKey)
                zoom(Math.exp(-event.deltaY / 300), {
                    x: event.clientX - rect.left,
                    y: event.clientY - rect.top,
                });
            else move(event.deltaX, event.deltaY);
        };
        element.addEventListener("wheel", wheel, { passive: false });
        return () => element.removeEventListener("wheel", wheel);
    }, [size.width > 0]);
    return (
        <div
            class="graph"
            ref={box}
            onPointerDown={(event) => {
                drag.current = { x: event.clientX, y: event.clientY };
                dragged.current = false;
            }}
            onClickCapture={(event) => {
                if (dragged.current) event.stopPropagation();
            }}
            onPointerMove={(event) => {
                if (!drag.current || !(event.buttons & 1)) return;
                dragged.current ||=
                    Math.hypot(event.clientX - drag.current.x, event.clientY - drag.current.y) > 3;
                move(drag.current.x - event.clientX, drag.current.y - event.clientY);
                drag.current = { x: event.clientX, y: event.clientY };
            }}
        >
            <svg width={size.width} height={size.height} role="group" aria-label={label}>
                <g transform={`scale(${view.scale}) translate(${-view.x} ${-view.y})`}>{children}</g>
            </svg>
            <div class="graph-tools">
                <button class="icon-button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoom(1.3)}>
                    <Icon name="plus" />
                </button>
                <button class="icon-button" aria-label="Zoom out" title="Zoom out (-)" onClick={() => zoom(1 / 1.3)}>
                    <Icon name="minus" />
                </button>
                <button class="icon-button" aria-label="Show the whole graph" title="Show the whole graph (f)" onClick={fit}>
                    <Icon name="fit" />
                </button>
            </div>
        </div>
    );
}
