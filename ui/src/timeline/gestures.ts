// What mouse and wheel do on a timeline.
import { useEffect, useState } from "preact/hooks";
import { keep, kept } from "../kept";
import type { Controller } from "./controller";
import { pick, type Bar, type Range } from "./scene";
import { toTime } from "./view";

const CLICK_PX = 4; // further is a drag

// What wheel and drag do, as the reader is used to.
export function useHabit<T extends string>(name: string, first: T, other: T): [T, (value: T) => void] {
    const [value, setValue] = useState<T>(kept(name) === other ? other : first);
    return [value, (next) => {
        keep(name, next);
        setValue(next);
    }];
}

interface Ref<T> {
    current: T | null;
}

interface Gestures {
    controller: Controller;
    main: Ref<HTMLCanvasElement>;
    head: Ref<HTMLCanvasElement>;
    body: Ref<HTMLDivElement>;
    wheel: "scroll" | "zoom";
    drag: "move" | "select";
    pointer: { current: { x: number; y: number } };
    onMoved: () => void; // by the reader
    onBar: (bar: Bar | null) => void;
    onRange: (range: Range) => void;
    onStep: (range: Range | null) => void; // a click on a step or region
}

export function useGestures(of: Gestures) {
    const { controller, main, head, body } = of;
    const { scene } = controller;
    const onWheel = (event: WheelEvent) => {
        const unit = event.deltaMode === 1 ? 30 : 1; // lines, or pixels
        const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
        const zooms = of.wheel === "zoom" || event.ctrlKey || event.metaKey;
        if (!sideways && !zooms) return; // the tracks scroll
        event.preventDefault();
        of.onMoved();
        if (sideways) {
            controller.panBy((event.deltaX || event.deltaY) * unit, false);
        } else {
            controller.zoomBy(Math.exp(event.deltaY * unit * 0.0022), event.offsetX);
        }
    };
    useEffect(() => {
        const canvas = main.current!;
        canvas.addEventListener("wheel", onWheel, { passive: false });
        return () => canvas.removeEventListener("wheel", onWheel);
    }, [controller, of.wheel]);

    // Drag moves the picture, and with Shift it selects a range, or the other way round; on the ruler it
    // always selects. A click selects a span, or the time of a step.
    const onPointerDown = (event: PointerEvent) => {
        if (event.button !== 0) return;
        const canvas = event.currentTarget as HTMLCanvasElement;
        const onHead = canvas === head.current;
        canvas.setPointerCapture(event.pointerId);
        const box = canvas.getBoundingClientRect();
        const x0 = event.clientX - box.left;
        const y0 = event.clientY - box.top;
        const start = { view: controller.target, scroll: body.current!.scrollTop, time: toTime(scene.view, x0) };
        const selecting = event.shiftKey !== (of.drag === "select") || onHead;
        let dragged = false;
        const onMove = (move: PointerEvent) => {
            const dx = move.clientX - box.left - x0;
            const dy = move.clientY - box.top - y0;
            dragged ||= Math.abs(dx) > CLICK_PX || Math.abs(dy) > CLICK_PX;
            if (!dragged) return;
            of.onMoved();
            if (selecting) {
                const time = toTime(scene.view, x0 + dx);
                const clip = (t: number) => Math.min(Math.max(t, 0), scene.duration);
                controller.setRange({ from: clip(Math.min(start.time, time)), to: clip(Math.max(start.time, time)) });
            } else {
                controller.show({ from: start.view.from - dx * start.view.scale, scale: start.view.scale }, false);
                body.current!.scrollTop = start.scroll - dy;
            }
        };
        const onUp = () => {
            canvas.removeEventListener("pointermove", onMove);
            canvas.removeEventListener("pointerup", onUp);
            canvas.removeEventListener("pointercancel", onUp);
            if (!dragged && onHead) of.onStep(controller.stepAt(x0, y0));
            else if (!dragged) of.onBar(pick(scene, x0, y0)?.bar ?? null);
            else if (selecting && scene.range) of.onRange({ ...scene.range });
        };
        canvas.addEventListener("pointermove", onMove);
        canvas.addEventListener("pointerup", onUp);
        canvas.addEventListener("pointercancel", onUp);
    };
    const onHover = (event: MouseEvent) => {
        if (event.buttons) return;
        of.pointer.current = { x: event.offsetX, y: event.offsetY };
        controller.hover(event.offsetX, event.offsetY);
    };
    return { onPointerDown, onHover };
}
