// The whole trace in little, with what is in sight marked. The picture behind the mark is kept.
import { prepare, type Look } from "./draw";
import type { Scene } from "./scene";
import { toTime, type View } from "./view";

export const OVERVIEW_PX = 56;
const LINES = 4; // of a track, at most
const LEAST_PX = 2; // for a line

// The lines to show: the top ones of every track, as many as there is room for, by track.
function rows(scene: Scene): { track: number; line: number }[] {
    const tracks = scene.placed.filter(({ track }) => track?.spans).map(({ track }) => track!.id);
    const room = Math.floor(OVERVIEW_PX / LEAST_PX);
    const shown = new Map<number, number>(); // lines of a track
    for (let line = 0, used = 0; line < LINES; line++) {
        for (const track of tracks) {
            if (used >= room || line >= (scene.tiles.depth.get(track) ?? 1)) continue;
            shown.set(track, line + 1);
            used += 1;
        }
    }
    return [...shown].flatMap(([track, lines]) => Array.from({ length: lines }, (_, line) => ({ track, line })));
}

function drawTracks(canvas: HTMLCanvasElement, scene: Scene, colors: Look): void {
    const { width } = scene;
    const ctx = prepare(canvas, width, OVERVIEW_PX);
    ctx.fillStyle = colors.sunken;
    ctx.fillRect(0, 0, width, OVERVIEW_PX);
    const scale = Math.max(scene.duration, 1) / width;
    const list = rows(scene);
    const height = Math.min((OVERVIEW_PX - 6) / Math.max(list.length, 1), 12);
    list.forEach(({ track, line }, row) => {
        const tile = scene.tiles.wholeOf(track);
        if (!tile || line + 1 >= tile.line.length) return;
        let drawn = -1;
        for (let i = tile.line[line]!; i < tile.line[line + 1]!; i++) {
            const x = tile.ts[i]! / scale;
            const dur = tile.dur[i]!;
            const end = dur < 0 ? width : x + dur / scale;
            if (end <= drawn) continue;
            drawn = Math.max(Math.ceil(end), Math.floor(x) + 1);
            ctx.fillStyle = scene.names.color(tile.name[i]!);
            ctx.globalAlpha = dur > 0 ? 0.25 + 0.75 * Math.min(tile.busy[i]! / dur, 1) : 1;
            ctx.fillRect(x, 3 + row * height, Math.max(end - x, 1), Math.max(height - 1, 1));
        }
    });
    ctx.globalAlpha = 1;
}

// Where a search found something, whichever line it is on.
function drawFound(ctx: CanvasRenderingContext2D, scene: Scene): void {
    const scale = Math.max(scene.duration, 1) / scene.width;
    for (const { track } of scene.placed) {
        const tile = track && scene.found?.wholeOf(track.id);
        for (let i = 0; tile && i < tile.ts.length; i++) {
            const x = Math.round(tile.ts[i]! / scale);
            const dur = tile.dur[i]! < 0 ? scene.duration - tile.ts[i]! : tile.dur[i]!;
            ctx.fillRect(x, OVERVIEW_PX - 8, Math.max(dur / scale, 1.5), 6);
        }
    }
}

export class Overview {
    private readonly kept = document.createElement("canvas");
    private state = "";
    private placed: unknown = null;

    draw(canvas: HTMLCanvasElement, scene: Scene, view: View, colors: Look): void {
        const { width } = scene;
        const state = [width, devicePixelRatio, scene.tiles.wholes, scene.names.paints, colors.sunken].join();
        if (state !== this.state || this.placed !== scene.placed) {
            drawTracks(this.kept, scene, colors);
            this.state = state;
            this.placed = scene.placed;
        }
        const ctx = prepare(canvas, width, OVERVIEW_PX);
        ctx.drawImage(this.kept, 0, 0, width, OVERVIEW_PX);
        const scale = Math.max(scene.duration, 1) / width;
        const left = Math.max(view.from / scale, 0);
        const right = Math.min(toTime(view, width) / scale, width);
        ctx.globalAlpha = 0.55;
        ctx.fillStyle = colors.surface;
        ctx.fillRect(0, 0, left, OVERVIEW_PX);
        ctx.fillRect(right, 0, width - right, OVERVIEW_PX);
        ctx.globalAlpha = 1;
        ctx.fillStyle = colors.accent;
        drawFound(ctx, scene);
        ctx.strokeStyle = colors.accent;
        ctx.lineWidth = 1.5;
        ctx.strokeRect(left + 0.75, 0.75, Math.max(right - left - 1.5, 2), OVERVIEW_PX - 1.5);
    }
}
