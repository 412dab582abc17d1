// The dock below the timeline: a title, tabs, and an edge that can be dragged.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Copy } from "../components/Exact";
import { Tabs } from "../components/Tabs";
import { Icon } from "../icons";
import { keep, kept } from "../kept";

const LEAST_PX = 120;
const FIRST_PX = 264;
const STEP_PX = 24;

export type DockTab = "about" | "chain" | "flame";

interface DockProps {
    title: string;
    name?: string; // to be copied
    tabs: readonly { key: DockTab; title: string }[];
    tab: DockTab;
    onTab: (tab: DockTab) => void;
    onClose: () => void;
    children: ComponentChildren;
}

function clamped(px: number): number {
    return Math.max(LEAST_PX, Math.min(px, innerHeight - 260));
}

export function Dock({ title, name, tabs, tab, onTab, onClose, children }: DockProps) {
    const [height, setHeight] = useState(() => clamped(Number(kept("dock")) || FIRST_PX));
    const change = (px: number) => {
        setHeight(clamped(px));
        keep("dock", String(clamped(px)));
    };
    const onPointerDown = (event: PointerEvent) => {
        const edge = event.currentTarget as HTMLElement;
        const start = event.clientY + height;
        edge.setPointerCapture(event.pointerId);
        const onMove = (move: PointerEvent) => change(start - move.clientY);
        const onUp = () => {
            edge.removeEventListener("pointermove", onMove);
            edge.removeEventListener("pointerup", onUp);
            edge.removeEventListener("pointercancel", onUp);
        };
        edge.addEventListener("pointermove", onMove);
        edge.addEventListener("pointerup", onUp);
        edge.addEventListener("pointercancel", onUp);
    };
    return (
        <section class="tl-panel" aria-label="Details" style={{ height: `${height}px` }}>
            <div class="tl-edge" role="separator" aria-orientation="horizontal" aria-label="Height of the details" tabIndex={0}
                 aria-valuenow={height} aria-valuemin={LEAST_PX} onPointerDown={onPointerDown} onKeyDown={(event) => {
                     const by = { ArrowUp: STEP_PX, ArrowDown: -STEP_PX }[event.key];
                     if (by === undefined) return;
                     event.preventDefault();
                     event.stopPropagation();
                     change(height + by);
                 }} />
            <header class="tl-panel-head">
                <h2 title={title}>{title}</h2>
                {name !== undefined && <Copy text={name} what="the name" />}
                {tabs.length > 1 && <Tabs label="Details" options={tabs} value={tab} onChange={onTab} />}
                <button class="icon-button" onClick={onClose} aria-label="Close" title="Close (Esc)"><Icon name="close" /></button>
            </header>
            <div class="tl-panel-body">{children}</div>
        </section>
    );
}
