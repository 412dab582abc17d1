// Totals by name inside a range, from the picture alone: for reports, where there is no server.
import type { Total } from "./Details";
import type { Range, Scene } from "./scene";

export function totalsOf(scene: Scene, range: Range): Total[] {
    const sums = new Map<number, { count: number; total: number }>();
    for (const { track } of scene.placed) {
        const tile = track && scene.tiles.wholeOf(track.id);
        if (!tile) continue;
        for (let i = 0; i < tile.ts.length; i++) {
            const ts = tile.ts[i]!;
            const end = tile.dur[i]! < 0 ? range.to : ts + tile.dur[i]!;
            if (ts >= range.to || (ts < range.from && end <= range.from)) continue;
            const sum = sums.get(tile.name[i]!) ?? { count: 0, total: 0 };
            sum.count += tile.count[i]!;
            // Of several spans nothing is known but how much of their time was busy.
            const busy = tile.dur[i]! > 0 ? Math.min(tile.busy[i]! / tile.dur[i]!, 1) : 1;
            sum.total += (Math.min(end, range.to) - Math.max(ts, range.from)) * busy;
            sums.set(tile.name[i]!, sum);
        }
    }
    return [...sums].map(([name, sum]) => ({
        name: scene.names.text(name), layer: null, cat: null, count: sum.count, total_ns: sum.total, self_ns: null,
    }));
}
