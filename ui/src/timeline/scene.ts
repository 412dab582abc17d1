// Everything that a picture of the timeline shows, and what stands under a point of it.
import type { Busy } from "../api";
import type { PathPart } from "../queries";
import { MIXED, type Names } from "./names";
import { firstEndingAfter, levelOf, tileSpan, type Tile, type Tiles, type Wanted } from "./tiles";
import { inSight, isCounter, LINE_PX, lineY, type Placed } from "./tracks";
import { toTime, toX, type View } from "./view";

// A span as the picture knows it; id -1 stands for several narrow ones.
export interface Bar {
    id: number;
    track: number;
    depth: number;
    ts: number;
    dur: number;
    name: string;
    count: number;
    busy?: number; // of several: how long there was one of them
    mixed?: boolean; // of several: none of their names stands out
}

export interface Arrow {
    from: Bar;
    to: Bar;
    kind: string | null;
}

export interface Range {
    from: number;
    to: number;
}

export interface Scene {
    view: View;
    width: number;
    height: number;
    scroll: number;
    duration: number;
    placed: Placed[];
    tiles: Tiles;
    busy: Busy | null; // how busy the devices are where the picture rested last
    found: Tiles | null; // pictures of what a search found: all else is dimmed
    names: Names;
    selected: Bar | null;
    hovered: Bar | null;
    range: Range | null;
    markers: number[]; // times that the reader marked, ascending
    arrows: Arrow[];
    path: PathPart[]; // the critical path, as far as it is in sight
    matches: ((name: number) => boolean) | null; // a search, while only names are known: others are dimmed
}

// A piece of a picture: a tile, and the part of time for which it is drawn.
export interface Piece {
    tile: Tile;
    from: number;
    to: number;
}

export function wanted(scene: Scene, view: View): Wanted[] {
    const level = levelOf(view.scale / devicePixelRatio);
    const span = tileSpan(level);
    const first = Math.max(0, Math.floor(view.from / span));
    const last = Math.floor(Math.min(toTime(view, scene.width), scene.duration) / span);
    const list: Wanted[] = [];
    for (const row of inSight(scene.placed, scene.scroll, scene.scroll + scene.height)) {
        if (!row.track) continue;
        for (let index = first; index <= last; index++) list.push({ track: row.track.id, level, index });
    }
    return list;
}

// What to draw of a track, from left to right.
export function pieces(scene: Scene, track: number, tiles = scene.tiles): Piece[] {
    const { view } = scene;
    const level = levelOf(view.scale / devicePixelRatio);
    const span = tileSpan(level);
    const left = Math.max(0, view.from);
    const right = Math.min(toTime(view, scene.width), scene.duration);
    const list: Piece[] = [];
    for (let index = Math.floor(left / span); index * span <= right; index++) {
        for (const tile of tiles.get({ track, level, index })) {
            const before = list[list.length - 1];
            // One tile may stand for several pieces, while better ones are on their way.
            if (before?.tile === tile) before.to = (index + 1) * span;
            else list.push({ tile, from: index * span, to: (index + 1) * span });
        }
    }
    return list;
}

export function barOf(scene: Scene, tile: Tile, i: number, track: number, depth: number): Bar {
    return { id: tile.span[i]!, track, depth, ts: tile.ts[i]!, dur: tile.dur[i]!,
             name: scene.names.text(tile.name[i]!), count: tile.count[i]!, busy: tile.busy[i]!,
             mixed: tile.name[i] === MIXED };
}

export interface Hit {
    row: Placed;
    bar: Bar | null;
    value: { ts: number; value: number } | null; // of a counter
}

function valueAt(scene: Scene, row: Placed, time: number): Hit["value"] {
    for (const { tile, from, to } of pieces(scene, row.track!.id).reverse()) {
        if (time < from || time >= to) continue;
        let i = tile.time.length - 1;
        while (i >= 0 && tile.time[i]! > time) i -= 1;
        if (i >= 0) return { ts: tile.time[i]!, value: tile.value[i]! };
    }
    return null;
}

// What is at a point of the canvas; bars may be missed by two pixels.
export function pick(scene: Scene, x: number, y: number): Hit | null {
    const at = y + scene.scroll;
    const row = inSight(scene.placed, at, at + 1)[0];
    if (!row?.track) return null;
    const time = toTime(scene.view, x);
    const track = row.track.id;
    const line = row.open ? Math.floor((at - row.y) / LINE_PX) : 0;
    const lines = row.track.spans ? Math.max(row.lines, 1) : 0;
    if (isCounter(row.track) && (line >= lines || !row.open)) {
        return { row, bar: null, value: valueAt(scene, row, time) };
    }
    const slack = 2 * scene.view.scale;
    let best: Bar | null = null;
    let distance = Infinity;
    for (const { tile } of pieces(scene, track)) {
        if (line + 1 >= tile.line.length) continue;
        const end = tile.line[line + 1]!;
        for (let i = firstEndingAfter(tile, tile.line[line]!, end, time - slack); i < end; i++) {
            const ts = tile.ts[i]!;
            if (ts > time + slack) break;
            const stop = tile.dur[i]! < 0 ? scene.duration : ts + tile.dur[i]!;
            const off = Math.max(ts - time, time - stop, 0);
            if (off < distance) {
                distance = off;
                best = barOf(scene, tile, i, track, line);
            }
        }
    }
    return { row, bar: best, value: null };
}

// Where a bar stands on the canvas; null if its track is not shown at all.
export function rectOf(scene: Scene, bar: Bar): { x: number; y: number; w: number; h: number } | null {
    const row = scene.placed.find(({ track }) => track?.id === bar.track);
    if (!row || (row.open && row.track!.spans && bar.depth >= Math.max(row.lines, 1))) return null;
    const x = toX(scene.view, bar.ts);
    const end = bar.dur < 0 ? scene.duration : bar.ts + bar.dur;
    return { x, y: lineY(row, bar.depth) - scene.scroll, w: Math.max(toX(scene.view, end) - x, 1),
             h: row.open ? LINE_PX - 1 : 8 };
}
