// The picture of a scene: bars, counters, arrows, selection.
import { ON_FILL } from "../palette";
import { count as formatCount, quantity } from "../format";
import { MIXED } from "./names";
import { pieces, rectOf, type Piece, type Scene } from "./scene";
import { firstEndingAfter } from "./tiles";
import { inSight, isCounter, LINE_PX, type Placed } from "./tracks";
import { toTime, toX } from "./view";

export interface Look {
    text: string;
    muted: string;
    grid: string;
    surface: string;
    sunken: string;
    accent: string;
    border: string;
    font: string;
}

export function look(): Look {
    const style = getComputedStyle(document.documentElement);
    const of = (name: string) => style.getPropertyValue(name).trim();
    return { text: of("--text"), muted: of("--muted"), grid: of("--grid"), surface: of("--surface"),
             sunken: of("--sunken"), accent: of("--accent"), border: of("--border"),
             font: `11px ${of("--font")}` };
}

const MIN_LABEL_PX = 26;
const DIMMED = 0.16;
const BEHIND = 0.22; // of what was not busy within a bar of several spans
const FAINTEST = 0.3; // of what is much narrower than a pixel
const ELLIPSIS_PX = 11;

// A canvas context with CSS pixels as its units, cleared.
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
    const ratio = devicePixelRatio;
    const w = Math.round(width * ratio);
    const h = Math.round(height * ratio);
    if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
    }
    const ctx = canvas.getContext("2d", { alpha: false })!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    return ctx;
}

const widths = new Map<string, number>();
let widthsFont = "";

// As much of a text as fits.
export function fitted(ctx: CanvasRenderingContext2D, text: string, room: number): string {
    if (widthsFont !== ctx.font || widths.size > 50_000) {
        widths.clear();
        widthsFont = ctx.font;
    }
    let width = widths.get(text);
    if (width === undefined) widths.set(text, (width = ctx.measureText(text).width));
    if (width <= room) return text;
    let letters = Math.floor((text.length * (room - ELLIPSIS_PX)) / width);
    // Letters differ in width: the first ones may be wider than the others.
    while (letters >= 2) {
        const cut = `${text.slice(0, letters)}…`;
        const over = ctx.measureText(cut).width - room;
        if (over <= 0) return cut;
        letters -= Math.max(1, Math.floor((over * letters) / room));
    }
    return "";
}

// Distances between marks of the ruler: 1, 2 or 5 of a power of ten.
export function tickStep(scale: number): number {
    const rough = scale * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough)!;
    return Math.max(step * power, 1);
}

function drawGrid(ctx: CanvasRenderingContext2D, scene: Scene, colors: Look): void {
    const step = tickStep(scene.view.scale);
    ctx.fillStyle = colors.grid;
    const end = toTime(scene.view, scene.width);
    for (let t = Math.ceil(scene.view.from / step) * step; t <= end; t += step) {
        ctx.fillRect(Math.round(toX(scene.view, t)), 0, 1, scene.height);
    }
}

interface Label {
    text: string;
    x: number;
    y: number;
    room: number;
    plain: boolean; // it stands on the ground more than on a fill
    whole: boolean; // or not at all
}

function whole(x: number): number {
    return Math.round(x * devicePixelRatio) / devicePixelRatio;
}

// The bars of one line of a piece. Neighbours that fall into the same pixel are drawn once.
// What is narrower than a pixel is fainter, and of several spans as much of the height is filled as
// was busy, so that a line that looks full was.
function drawLine(ctx: CanvasRenderingContext2D, scene: Scene, { tile, from, to }: Piece, line: number,
                  y: number, height: number, labels: Label[] | null, dimmed = false): void {
    if (line + 1 >= tile.line.length) return;
    const { view, names } = scene;
    const matches = dimmed ? null : scene.matches;
    const end = tile.line[line + 1]!;
    // Pieces meet at whole pixels, or a seam would show.
    const left = Math.max(whole(toX(view, from)), 0);
    const right = Math.min(whole(toX(view, to)), scene.width);
    let drawn = -1; // pixels left of this have a bar
    for (let i = firstEndingAfter(tile, tile.line[line]!, end, Math.max(from, view.from)); i < end; i++) {
        const ts = tile.ts[i]!;
        const start = toX(view, ts);
        if (start >= right) break;
        const dur = tile.dur[i]!;
        const stop = toX(view, dur < 0 ? scene.duration : ts + dur);
        const x = Math.max(start, left);
        const w = Math.max(Math.min(stop, right) - x, 0);
        if (w < 1 && x + w <= drawn) continue;
        drawn = Math.max(Math.ceil(x + w), Math.floor(x) + 1);
        const name = tile.name[i]!;
        const dim = dimmed || (matches !== null && !matches(name));
        const several = tile.count[i]! > 1;
        const share = several && dur > 0 ? Math.min(tile.busy[i]! / dur, 1) : 1;
        const alpha = dim ? DIMMED : dur < 0 ? 0.55 : 1;
        // Bars side by side keep a gap where there is room for one.
        const wide = w > 3 && stop <= right ? w - 0.5 : Math.max(w, 1);
        ctx.fillStyle = names.color(name);
        if (several) {
            ctx.globalAlpha = alpha * BEHIND;
            ctx.fillRect(x, y, wide, height);
        }
        const filled = Math.max(height * share, 1.5);
        ctx.globalAlpha = alpha * (stop - start < 1 ? Math.max(stop - start, FAINTEST) : 1);
        ctx.fillRect(x, y + height - filled, wide, filled);
        // The label of a bar across several pieces is written once, where it comes into sight.
        if (labels && !dim && (ts >= from || left === 0)) {
            const room = Math.min(stop, scene.width) - x - 6;
            if (room >= MIN_LABEL_PX) {
                const text = !several ? names.text(name) : name === MIXED ? `${formatCount(tile.count[i]!)} spans`
                    : `${names.text(name)} ×${formatCount(tile.count[i]!)}`;
                // A number of which the end is cut off would be another number.
                labels.push({ text, x: x + 4, y: y + height - 5, room, plain: share < 0.6, whole: several && name === MIXED });
            }
        }
    }
    ctx.globalAlpha = 1;
}

function drawCounter(ctx: CanvasRenderingContext2D, scene: Scene, row: Placed, list: Piece[], y: number,
                     height: number, colors: Look): void {
    const { view } = scene;
    const whole = scene.tiles.wholeOf(row.track!.id);
    let max = row.track!.capacity ?? 0;
    let min = 0;
    for (const value of whole?.value ?? []) {
        if (value > max) max = value;
        if (value < min) min = value;
    }
    if (max <= min) max = min + 1;
    const base = y + height - 2;
    const toY = (value: number) => base - ((Math.min(value, max) - min) / (max - min)) * (height - 8);
    const right = Math.min(toX(view, scene.duration), scene.width);
    ctx.beginPath();
    let open = false;
    let level = base;
    for (const { tile, from, to } of list) {
        for (let i = 0; i < tile.time.length; i++) {
            const time = tile.time[i]!;
            if (time >= to) break;
            // The last value before what is in sight still holds there.
            if (time < Math.max(from, view.from) && i + 1 < tile.time.length && tile.time[i + 1]! <= Math.max(from, view.from)) continue;
            const x = Math.max(toX(view, time), 0);
            if (x > right) break;
            if (!open) ctx.moveTo(x, base);
            else ctx.lineTo(x, level);
            open = true;
            level = toY(tile.value[i]!);
            ctx.lineTo(x, level);
        }
    }
    if (open) {
        ctx.lineTo(right, level);
        ctx.lineTo(right, base);
        ctx.closePath();
        ctx.fillStyle = scene.names.color(scene.names.id(row.track!.name));
        ctx.globalAlpha = 0.45;
        ctx.fill();
        ctx.globalAlpha = 1;
        ctx.strokeStyle = ctx.fillStyle;
        ctx.lineWidth = 1;
        ctx.stroke();
    }
    ctx.fillStyle = colors.muted;
    ctx.textAlign = "left";
    ctx.fillText(quantity(max, row.track!.unit), 4, y + 11);
}

function drawTrack(ctx: CanvasRenderingContext2D, scene: Scene, row: Placed, colors: Look, labels: Label[]): void {
    const list = pieces(scene, row.track!.id);
    const found = scene.found ? pieces(scene, row.track!.id, scene.found) : [];
    const dim = scene.found !== null;
    const y = row.y - scene.scroll;
    ctx.fillStyle = colors.grid;
    ctx.fillRect(0, y + row.height - 3, scene.width, 1);
    if (!row.open) {
        for (const piece of list) drawLine(ctx, scene, piece, 0, y, 8, null, dim);
        for (const piece of found) drawLine(ctx, scene, piece, 0, y, 8, null);
        return;
    }
    const lines = row.track!.spans ? Math.max(row.lines, 1) : 0;
    const first = Math.max(0, Math.floor(-y / LINE_PX));
    const last = Math.min(lines, Math.ceil((scene.height - y) / LINE_PX));
    for (let line = first; line < last; line++) {
        const top = y + line * LINE_PX;
        for (const piece of list) drawLine(ctx, scene, piece, line, top, LINE_PX - 1, labels, dim);
        for (const piece of found) drawLine(ctx, scene, piece, line, top, LINE_PX - 1, labels);
    }
    if (isCounter(row.track!)) {
        const top = lines * LINE_PX;
        drawCounter(ctx, scene, row, list, y + top, row.height - top - 5, colors);
    }
}

function drawArrows(ctx: CanvasRenderingContext2D, scene: Scene, colors: Look): void {
    ctx.strokeStyle = colors.text;
    ctx.fillStyle = colors.text;
    ctx.lineWidth = 1.25;
    for (const arrow of scene.arrows) {
        const a = rectOf(scene, arrow.from);
        const b = rectOf(scene, arrow.to);
        if (!a || !b) continue;
        // From where the first begins to where the second does, as launches and kernels are read.
        const x1 = Math.min(a.x + a.w, Math.max(a.x, b.x));
        const y1 = a.y + a.h / 2;
        const x2 = b.x;
        const y2 = b.y + b.h / 2;
        const bend = Math.max(Math.min(Math.abs(x2 - x1) / 2, 80), 18);
        ctx.beginPath();
        ctx.moveTo(x1, y1);
        ctx.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 5, y2);
        ctx.stroke();
        ctx.beginPath();
        ctx.moveTo(x2, y2);
        ctx.lineTo(x2 - 7, y2 - 4);
        ctx.lineTo(x2 - 7, y2 + 4);
        ctx.fill();
    }
}

// The critical path: every segment marked on its line, and a stroke to the next where that is elsewhere.
function drawPath(ctx: CanvasRenderingContext2D, scene: Scene, colors: Look): void {
    let before: { x: number; y: number; rank: number | null } | null = null;
    for (const part of scene.path) {
        const rect = rectOf(scene, { id: -1, track: part.track, depth: part.depth, ts: part.ts, dur: part.dur,
                                     name: "", count: 1 });
        if (!rect) {
            before = null;
            continue;
        }
        const x = Math.max(rect.x, -4);
        const right = Math.min(rect.x + rect.w, scene.width + 4);
        const y = rect.y + rect.h / 2;
        if (right > x) {
            ctx.globalAlpha = 0.35;
            ctx.fillStyle = colors.accent;
            ctx.fillRect(x, rect.y, right - x, rect.h);
            ctx.globalAlpha = 1;
            ctx.fillRect(x, rect.y + rect.h - 3, right - x, 3);
        }
        if (before && before.rank === part.rank && before.y !== y) {
            ctx.strokeStyle = colors.accent;
            ctx.lineWidth = 2;
            ctx.beginPath();
            ctx.moveTo(before.x, before.y);
            ctx.lineTo(rect.x, y);
            ctx.stroke();
        }
        before = { x: rect.x + rect.w, y, rank: part.rank };
    }
}

function outline(ctx: CanvasRenderingContext2D, scene: Scene, bar: Scene["selected"], width: number, color: string): void {
    const rect = bar && rectOf(scene, bar);
    if (!rect) return;
    const x = Math.max(rect.x, -4);
    const right = Math.min(rect.x + rect.w, scene.width + 4);
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.strokeRect(x, rect.y, Math.max(right - x, 1.5), rect.h);
}

function drawRange(ctx: CanvasRenderingContext2D, scene: Scene, colors: Look): void {
    if (!scene.range) return;
    const x = toX(scene.view, scene.range.from);
    const w = toX(scene.view, scene.range.to) - x;
    ctx.globalAlpha = 0.14;
    ctx.fillStyle = colors.accent;
    ctx.fillRect(x, 0, w, scene.height);
    ctx.globalAlpha = 1;
    ctx.fillRect(x, 0, 1, scene.height);
    ctx.fillRect(x + w, 0, 1, scene.height);
}

export function draw(canvas: HTMLCanvasElement, scene: Scene, colors: Look): void {
    const ctx = prepare(canvas, scene.width, scene.height);
    ctx.fillStyle = colors.surface;
    ctx.fillRect(0, 0, scene.width, scene.height);
    drawGrid(ctx, scene, colors);
    ctx.font = colors.font;
    ctx.textBaseline = "alphabetic";
    ctx.textAlign = "left";
    const labels: Label[] = [];
    for (const row of inSight(scene.placed, scene.scroll, scene.scroll + scene.height)) {
        if (row.track) {
            drawTrack(ctx, scene, row, colors, labels);
        } else {
            ctx.fillStyle = colors.sunken;
            ctx.fillRect(0, row.y - scene.scroll, scene.width, row.height);
        }
    }
    for (const label of labels) {
        const text = fitted(ctx, label.text, label.room);
        if (label.whole && text !== label.text) continue;
        ctx.fillStyle = label.plain ? colors.text : ON_FILL;
        ctx.fillText(text, label.x, label.y);
    }
    drawPath(ctx, scene, colors);
    drawRange(ctx, scene, colors);
    ctx.fillStyle = colors.text;
    for (const time of scene.markers) ctx.fillRect(Math.round(toX(scene.view, time)), 0, 1, scene.height);
    outline(ctx, scene, scene.hovered, 1, colors.text);
    outline(ctx, scene, scene.selected, 2, colors.text);
    drawArrows(ctx, scene, colors);
}
