// What a server would answer about spans, from the picture and the arrows that a report file carries.
import type { FlowLink } from "../queries";
import { groupBy } from "../stats";
import type { NameKind } from "./names";
import { barOf, type Bar, type Range, type Scene } from "./scene";
import { firstEndingAfter, type Tile } from "./tiles";
import { titleOf, type Track } from "./tracks";

interface Place {
    track: number;
    line: number;
    i: number;
}

const places = new WeakMap<Scene, Map<number, Place>>(); // by span, of all that are not united

function placesOf(scene: Scene): Map<number, Place> {
    let known = places.get(scene);
    if (known) return known;
    known = new Map();
    for (const track of scene.tiles.depth.keys()) {
        const tile = scene.tiles.wholeOf(track);
        for (let line = 0; tile && line + 1 < tile.line.length; line++) {
            for (let i = tile.line[line]!; i < tile.line[line + 1]!; i++) {
                if (tile.span[i]! >= 0) known.set(tile.span[i]!, { track, line, i });
            }
        }
    }
    // Not before there is something to know.
    if (known.size) places.set(scene, known);
    return known;
}

export function barById(scene: Scene, id: number): Bar | null {
    const at = placesOf(scene).get(id);
    return at ? barOf(scene, scene.tiles.wholeOf(at.track)!, at.i, at.track, at.line) : null;
}

function endOf(tile: Tile, i: number, last: number): number {
    return tile.dur[i]! < 0 ? last : tile.ts[i]! + tile.dur[i]!;
}

// The bar of a line that holds a time; -1: none.
function holding(tile: Tile, line: number, time: number): number {
    const end = tile.line[line + 1]!;
    const i = firstEndingAfter(tile, tile.line[line]!, end, time);
    return i < end && tile.ts[i]! <= time ? i : -1;
}

function parentOf(scene: Scene, id: number): number | null {
    const at = placesOf(scene).get(id);
    if (!at || at.line === 0) return null;
    const tile = scene.tiles.wholeOf(at.track)!;
    const i = holding(tile, at.line - 1, tile.ts[at.i]!);
    return i >= 0 && tile.span[i]! >= 0 ? tile.span[i]! : null;
}

export interface ChainLink {
    id: number;
    how: string;
    name: string | null;
    cat: string | null;
    layer: string | null;
    ts: number;
    dur: number;
    track_name: string | null;
}

export interface Known {
    flows: FlowLink[];
    kinds: Map<string, NameKind>;
    tracks: Track[];
}

function linkOf(scene: Scene, known: Known, id: number, how: string): ChainLink | null {
    const bar = barById(scene, id);
    if (!bar) return null;
    const kind = known.kinds.get(bar.name);
    const track = known.tracks.find((one) => one.id === bar.track);
    return { id, how, name: bar.name, cat: kind?.category ?? null, layer: kind?.layer ?? null, ts: bar.ts, dur: bar.dur,
             track_name: track ? titleOf(track) : null };
}

const MOST = 100;

// What stands around a span, what launched that, and so on; the outermost first.
export function chainOf(scene: Scene, known: Known, id: number): ChainLink[] {
    const into = groupBy(known.flows, ({ dst }) => dst);
    const found: ChainLink[] = [];
    const seen = new Set([id]);
    for (let level: [number, string][] = [[id, ""]]; level.length && found.length < MOST;) {
        const next: [number, string][] = [];
        for (const [at, how] of level) {
            const link = linkOf(scene, known, at, how);
            if (link) found.push(link);
            const parent = parentOf(scene, at);
            const above: [number, string][] = (into.get(at) ?? []).map(({ src, kind }) => [src, kind ?? "flow"]);
            if (parent !== null) above.push([parent, "around"]);
            for (const one of above) {
                if (!seen.has(one[0])) next.push(one);
                seen.add(one[0]);
            }
        }
        level = next;
    }
    return found.reverse();
}

// What a span, or one inside it, leads to by arrows.
export function launchesOf(scene: Scene, known: Known, bar: Bar, end: number): ChainLink[] {
    const inside = (id: number) => {
        const at = placesOf(scene).get(id);
        if (!at || at.track !== bar.track || at.line < bar.depth) return false;
        const ts = scene.tiles.wholeOf(at.track)!.ts[at.i]!;
        return ts >= bar.ts && ts < end && (at.line > bar.depth || id === bar.id);
    };
    const links = known.flows.filter(({ src }) => inside(src)).map(({ dst, kind }) => linkOf(scene, known, dst, kind ?? "flow"));
    return links.filter((link): link is ChainLink => link !== null).sort((a, b) => a.ts - b.ts || a.id - b.id).slice(0, 2 * MOST);
}

export interface FlameNode {
    parent: number; // index; -1: a track
    name: string | null;
    count: number;
    total_ns: number;
}

// What stands in what in a range, of one track or of all. Of bars of several spans nothing is known but how
// much of their time was busy.
export function flameOf(scene: Scene, range: Range, track: number | null, tracks: Track[]): FlameNode[] {
    const nodes: FlameNode[] = [];
    const children = new Map<string, number>();
    const child = (parent: number, name: string) => {
        const key = `${parent}|${name}`;
        let at = children.get(key);
        if (at === undefined) {
            at = nodes.push({ parent, name, count: 0, total_ns: 0 }) - 1;
            children.set(key, at);
        }
        return at;
    };
    for (const of of tracks) {
        const tile = track === null || of.id === track ? scene.tiles.wholeOf(of.id) : undefined;
        if (!tile || !tile.ts.length) continue;
        const nodeOf = new Map<number, number>(); // of a bar
        let top = -1;
        for (let line = 0; line + 1 < tile.line.length; line++) {
            for (let i = tile.line[line]!; i < tile.line[line + 1]!; i++) {
                const [from, to] = [Math.max(tile.ts[i]!, range.from), Math.min(endOf(tile, i, scene.duration), range.to)];
                if (to <= from) continue;
                const around = line > 0 ? holding(tile, line - 1, tile.ts[i]!) : -1;
                if (top < 0) top = nodes.push({ parent: -1, name: titleOf(of), count: 0, total_ns: 0 }) - 1;
                const at = child(nodeOf.get(around) ?? top, scene.names.text(tile.name[i]!));
                const busy = tile.dur[i]! > 0 ? Math.min(tile.busy[i]! / tile.dur[i]!, 1) : 1;
                nodes[at]!.count += tile.count[i]!;
                nodes[at]!.total_ns += (to - from) * busy;
                nodeOf.set(i, at);
                if (nodes[at]!.parent === top) {
                    nodes[top]!.count += tile.count[i]!;
                    nodes[top]!.total_ns += (to - from) * busy;
                }
            }
        }
    }
    return nodes;
}

