// What stands right above the tracks: the ruler, steps and labelled regions.
import type { DeviceBusy } from "../api";
import { count, ns } from "../format";
import { byName, named, ON_FILL } from "../palette";
import type { RecordRow, StepRow } from "../schema";
import type { Theme } from "../theme";
import { fitted, prepare, tickStep, type Look } from "./draw";
import type { Scene } from "./scene";
import { toTime, toX } from "./view";

const RULER_PX = 22;
const LANE_PX = 20;
export const STRIP_PX = 16; // of a device
const STRIPS = 8; // more stand in the tracks alone

export interface Lane {
    name: string;
    bars: { ts: number; dur: number; text: string; short: string; color: string }[];
}

// Ranks step at the same time: a lane has room for one of them. rankOf: of a track.
function ofOneRank(all: StepRow[], rankOf: (track: number | null) => number | null): { name: string; steps: StepRow[] } {
    const ranks = new Set(all.map(({ track }) => rankOf(track)));
    if (ranks.size < 2) return { name: "Steps", steps: all };
    const first = [...ranks].sort((a, b) => (a ?? Infinity) - (b ?? Infinity))[0]!;
    return { name: `Steps, rank ${first}`, steps: all.filter(({ track }) => rankOf(track) === first) };
}

export function lanes(all: StepRow[], records: RecordRow[], theme: Theme, rankOf: (track: number | null) => number | null): Lane[] {
    const list: Lane[] = [];
    const faint = named(null, "other", theme);
    if (all.length) {
        const { name, steps } = ofOneRank(all, rankOf);
        const models = new Set(steps.map((step) => step.model)).size > 1;
        list.push({ name, bars: steps.map((step) => ({
            ts: step.ts, dur: step.dur,
            text: `${models && step.model ? `${step.model} ` : ""}${step.num ?? ""}${step.warmup ? " warm-up" : ""}`,
            short: String(step.num ?? ""),
            color: step.warmup ? faint : byName(step.model ?? "step", theme),
        })) });
    }
    if (records.length) {
        list.push({ name: "Regions", bars: records.map((record) => ({
            ts: record.ts, dur: record.dur, text: record.label ?? "", short: record.label ?? "",
            color: record.warmup ? faint : byName(record.label ?? "", theme),
        })) });
    }
    return list;
}

// The devices whose busy share stands below the ruler.
export function strips(scene: Scene): DeviceBusy[] {
    return scene.busy?.devices.slice(0, STRIPS) ?? [];
}

export function deviceTitle(device: DeviceBusy, all: DeviceBusy[]): string {
    const parts = [device.device ?? "Operators"];
    if (device.rank !== null && all.some(({ rank }) => rank !== device.rank)) parts.push(`rank ${device.rank}`);
    if (device.host !== null && all.some(({ host }) => host !== device.host)) parts.push(device.host);
    return parts.join(" · ");
}

function lanesTop(scene: Scene): number {
    return RULER_PX + strips(scene).length * STRIP_PX;
}

// The busy share at a point of the head, where there is a strip.
export function stripHit(scene: Scene, x: number, y: number): { title: string; share: number } | null {
    const list = strips(scene);
    const device = list[Math.floor((y - RULER_PX) / STRIP_PX)];
    if (y < RULER_PX || !device || !scene.busy) return null;
    const { from, to } = scene.busy;
    const at = Math.floor(((toTime(scene.view, x) - from) / (to - from)) * device.busy.length);
    const share = device.busy[at];
    return share === undefined ? null : { title: deviceTitle(device, list), share: share / 1000 };
}

// The step or region at a point of the head, or null on the ruler.
export function laneHit(scene: Scene, list: Lane[], x: number, y: number): { from: number; to: number } | null {
    const lane = list[Math.floor((y - lanesTop(scene)) / LANE_PX)];
    const time = toTime(scene.view, x);
    const end = (bar: Lane["bars"][number]) => (bar.dur < 0 ? scene.duration : bar.ts + bar.dur);
    // Of several, the one that began last: it stands in front.
    const bar = lane?.bars.filter((one) => one.ts <= time && end(one) > time).pop();
    return bar ? { from: bar.ts, to: end(bar) } : null;
}

export function headHeight(scene: Scene, laneCount: number): number {
    return lanesTop(scene) + laneCount * LANE_PX;
}

// As high as the device was busy. Before its first work and after its last nothing is known.
function drawStrip(ctx: CanvasRenderingContext2D, scene: Scene, device: DeviceBusy, y: number, colors: Look,
                   theme: Theme): void {
    const { from, to } = scene.busy!;
    const height = STRIP_PX - 3;
    const left = Math.max(toX(scene.view, device.first), 0);
    const right = Math.min(toX(scene.view, device.last), scene.width);
    if (right > left) {
        ctx.fillStyle = colors.sunken;
        ctx.fillRect(left, y + 1, right - left, height);
    }
    ctx.fillStyle = named("bucket", "compute", theme);
    const step = (to - from) / device.busy.length;
    device.busy.forEach((share, i) => {
        if (!share) return;
        const x = toX(scene.view, from + i * step);
        const end = toX(scene.view, from + (i + 1) * step);
        if (end < 0 || x > scene.width) return;
        const filled = Math.max((height * share) / 1000, 1);
        ctx.fillRect(x, y + 1 + height - filled, Math.max(end - x, 0.5), filled);
    });
}

function drawLane(ctx: CanvasRenderingContext2D, scene: Scene, lane: Lane, y: number): void {
    let drawn = -1;
    for (const bar of lane.bars) {
        const x = Math.max(toX(scene.view, bar.ts), 0);
        if (x > scene.width) break; // by start
        const end = Math.min(toX(scene.view, bar.dur < 0 ? scene.duration : bar.ts + bar.dur), scene.width);
        const w = end - x;
        if (end < 0 || (w < 1 && end <= drawn)) continue;
        drawn = Math.max(Math.ceil(end), Math.floor(x) + 1);
        ctx.fillStyle = bar.color;
        ctx.fillRect(x, y + 2, Math.max(w - 1, 1), LANE_PX - 4);
        if (w > 22) {
            ctx.fillStyle = ON_FILL;
            const text = fitted(ctx, bar.text, w - 8);
            ctx.fillText(text === bar.text ? text : fitted(ctx, bar.short, w - 8), x + 4, y + LANE_PX - 6);
        }
    }
}

// Times on the ruler count from the start of the trace; all in the unit that the step needs.
function tickText(t: number, step: number): string {
    const [unit, name] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    return `${count(Math.round(t / unit) || 0)} ${name}`; // || 0: no -0
}

export function drawHead(canvas: HTMLCanvasElement, scene: Scene, list: Lane[], colors: Look, theme: Theme): void {
    const height = headHeight(scene, list.length);
    const ctx = prepare(canvas, scene.width, height);
    ctx.fillStyle = colors.surface;
    ctx.fillRect(0, 0, scene.width, height);
    ctx.font = colors.font;
    ctx.textBaseline = "alphabetic";
    const step = tickStep(scene.view.scale);
    const end = toTime(scene.view, scene.width);
    for (let t = Math.ceil(scene.view.from / step) * step; t <= end; t += step) {
        const x = Math.round(toX(scene.view, t));
        ctx.fillStyle = colors.grid;
        ctx.fillRect(x, 0, 1, height);
        const text = tickText(t, step);
        if (x + 4 + ctx.measureText(text).width > scene.width) continue; // cut off it would be another time
        ctx.fillStyle = colors.muted;
        ctx.fillText(text, x + 4, RULER_PX - 8);
    }
    strips(scene).forEach((device, i) => drawStrip(ctx, scene, device, RULER_PX + i * STRIP_PX, colors, theme));
    list.forEach((lane, i) => drawLane(ctx, scene, lane, lanesTop(scene) + i * LANE_PX));
    if (scene.range) {
        const x = toX(scene.view, scene.range.from);
        const w = toX(scene.view, scene.range.to) - x;
        const text = ns(scene.range.to - scene.range.from);
        const room = ctx.measureText(text).width + 10;
        ctx.fillStyle = colors.accent;
        ctx.fillRect(x, 2, Math.max(w, room), RULER_PX - 6);
        ctx.fillStyle = colors.surface;
        ctx.fillText(text, x + 5, RULER_PX - 8);
    }
    for (const [i, time] of scene.markers.entries()) {
        const x = Math.round(toX(scene.view, time));
        const text = markerText(scene, i);
        ctx.fillStyle = colors.text;
        ctx.fillRect(x, 0, 1, height);
        ctx.fillRect(x, 0, ctx.measureText(text).width + 8, 14);
        ctx.fillStyle = colors.surface;
        ctx.fillText(text, x + 4, 11);
    }
    ctx.fillStyle = colors.border;
    ctx.fillRect(0, height - 1, scene.width, 1);
}

// Its time, or how long after the marker before.
function markerText(scene: Scene, i: number): string {
    const before = scene.markers[i - 1];
    return before === undefined ? ns(scene.markers[i]) : `+${ns(scene.markers[i]! - before)}`;
}
