// Rank by step in colours, of any size; one field is chosen by pointing, or with the arrow keys.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Field, Grid } from "../fleet";
import { heat } from "../palette";
import { useTheme } from "../theme";
import { useWidth } from "./useWidth";

const HEIGHT_MAX = 460;
const FIELD_MAX = 22; // px
const NAMES_PX = 52;

interface HeatCanvasProps {
    label: string;
    grid: Grid;
    range: [number, number];
    show: (value: number) => string;
    chosen: Field | null;
    onChoose: (field: Field) => void;
}

// Every how many names there is room for one.
function every(n: number, px: number, room: number): number {
    return Math.max(1, Math.ceil((n * room) / Math.max(px, 1)));
}

export function HeatCanvas({ label, grid, range, show, chosen, onChoose }: HeatCanvasProps) {
    const theme = useTheme();
    const [box, width] = useWidth<HTMLDivElement>();
    const canvas = useRef<HTMLCanvasElement>(null);
    const [over, setOver] = useState<[number, number] | null>(null); // row, column
    const { ranks, nums, values } = grid;
    const cell = Math.max(1, Math.min(FIELD_MAX * 2, (width - NAMES_PX) / Math.max(nums.length, 1)));
    const high = Math.max(1, Math.min(FIELD_MAX, HEIGHT_MAX / Math.max(ranks.length, 1)));
    const [w, h] = [Math.round(cell * nums.length), Math.round(high * ranks.length)];
    const row = chosen ? ranks.indexOf(chosen.rank) : -1;
    const column = chosen ? nums.indexOf(chosen.first) : -1;

    useEffect(() => {
        const context = canvas.current?.getContext("2d");
        if (!canvas.current || !context || !w || !h) return;
        const scale = devicePixelRatio || 1;
        canvas.current.width = Math.round(w * scale);
        canvas.current.height = Math.round(h * scale);
        context.scale(scale, scale);
        const gap = cell >= 6 && high >= 6 ? 1 : 0;
        for (let r = 0; r < ranks.length; r++) {
            for (let c = 0; c < nums.length; c++) {
                const value = values[r * nums.length + c]!;
                if (Number.isNaN(value)) continue;
                context.fillStyle = heat(range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : 0, theme);
                context.fillRect(c * cell, r * high, Math.max(cell - gap, 1), Math.max(high - gap, 1));
            }
        }
        if (row >= 0 && column >= 0) {
            context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--text");
            context.lineWidth = 2;
            context.strokeRect(column * cell + 1, row * high + 1, Math.max(cell - 2, 3), Math.max(high - 2, 3));
        }
    }, [grid, range[0], range[1], theme, w, h, row, column]);

    const at = (event: MouseEvent): [number, number] | null => {
        const place = canvas.current!.getBoundingClientRect();
        const r = Math.floor((event.clientY - place.top) / high);
        const c = Math.floor((event.clientX - place.left) / cell);
        return r >= 0 && c >= 0 && r < ranks.length && c < nums.length ? [r, c] : null;
    };
    const say = (r: number, c: number) => {
        const value = values[r * nums.length + c]!;
        return `rank ${ranks[r]}, step ${grid.fields[r * nums.length + c]?.num ?? nums[c]}: ${Number.isNaN(value) ? "not recorded" : show(value)}`;
    };
    const choose = (r: number, c: number) => {
        const field = grid.fields[r * nums.length + c];
        if (field) onChoose(field);
    };
    const onKey = (event: KeyboardEvent) => {
        const step: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
        const by = step[event.key];
        if (!by) return;
        event.preventDefault();
        event.stopPropagation();
        const r = Math.min(Math.max((row < 0 ? 0 : row + by[0]), 0), ranks.length - 1);
        const c = Math.min(Math.max((column < 0 ? 0 : column + by[1]), 0), nums.length - 1);
        choose(r, c);
    };
    const eachRank = every(ranks.length, h, 14);
    const eachStep = every(nums.length, w, 34);
    return (
        <div class="heat-canvas" ref={box}>
            <div class="heat-steps" style={{ marginLeft: `${NAMES_PX}px`, width: `${w}px` }} aria-hidden="true">
                {nums.map((num, i) => (i % eachStep ? null : <span key={num} style={{ left: `${i * cell}px` }}>{num}</span>))}
            </div>
            <div class="heat-fields">
                <div class="heat-ranks" style={{ width: `${NAMES_PX}px`, height: `${h}px` }} aria-hidden="true">
                    {ranks.map((rank, i) => (i % eachRank ? null : <span key={rank} style={{ top: `${i * high}px` }}>{rank}</span>))}
                </div>
                <div role="application" tabIndex={0} aria-roledescription="heat map" onKeyDown={onKey}
                     aria-label={`${label}: ${ranks.length} ranks, ${nums.length} steps; arrow keys choose. ${row >= 0 && column >= 0 ? say(row, column) : "None is chosen."}`}>
                    <canvas ref={canvas} style={{ width: `${w}px`, height: `${h}px` }} title={over ? say(...over) : ""}
                            onMouseMove={(event) => setOver(at(event))} onMouseLeave={() => setOver(null)}
                            onClick={(event) => { const place = at(event); if (place) choose(...place); }} />
                </div>
            </div>
        </div>
    );
}
