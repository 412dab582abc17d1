// Spans beside, above and below another one, as far as the picture knows them.
import { barOf, pieces, type Bar, type Scene } from "./scene";

// The bars of a line that are in sight, by time.
function line(scene: Scene, track: number, depth: number): Bar[] {
    const bars: Bar[] = [];
    for (const { tile, from, to } of pieces(scene, track)) {
        if (depth + 1 >= tile.line.length) continue;
        for (let i = tile.line[depth]!; i < tile.line[depth + 1]!; i++) {
            const ts = tile.ts[i]!;
            const last = bars[bars.length - 1];
            if (ts < to && (ts >= from || !last) && last?.ts !== ts) bars.push(barOf(scene, tile, i, track, depth));
        }
    }
    return bars;
}

export function beside(scene: Scene, bar: Bar, by: 1 | -1): Bar | null {
    const bars = line(scene, bar.track, bar.depth);
    const next = by > 0 ? bars.find(({ ts }) => ts > bar.ts) : bars.reverse().find(({ ts }) => ts < bar.ts);
    return next ?? null;
}

function end(bar: Bar): number {
    return bar.dur < 0 ? Infinity : bar.ts + bar.dur;
}

export function above(scene: Scene, bar: Bar): Bar | null {
    if (bar.depth === 0) return null;
    return line(scene, bar.track, bar.depth - 1).find((other) => other.ts <= bar.ts && end(other) >= bar.ts) ?? null;
}

export function below(scene: Scene, bar: Bar): Bar | null {
    return line(scene, bar.track, bar.depth + 1).find((other) => other.ts >= bar.ts && other.ts < end(bar)) ?? null;
}

// The first bar in sight, where the keyboard begins.
export function firstInSight(scene: Scene): Bar | null {
    for (const row of scene.placed) {
        if (!row.track?.spans || row.y + row.height < scene.scroll) continue;
        const bar = line(scene, row.track.id, 0).find(({ ts }) => ts >= scene.view.from);
        if (bar) return bar;
    }
    return null;
}
