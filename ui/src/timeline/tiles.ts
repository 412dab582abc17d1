// Pictures of pieces of time, fetched when they come into sight and kept as typed arrays.
//
// Level L has 2^L ns per pixel; a tile is TILE_PX pixels of one track at one level. While a tile is
// on its way, what is known of its time from another level is drawn. What was least recently used
// goes when there are too many bars.
import * as api from "../api";
import { MIXED, type Names } from "./names";

export const TILE_PX = 2048;
const MAX_BARS = 1_500_000;
const MAX_LEVEL = 45;
const TRACKS_PER_REQUEST = 100;
const REQUESTS_AT_ONCE = 3;

// Bars of a track by line, then time; those of line d are line[d] to line[d + 1].
export interface Tile {
    from: number;
    to: number;
    line: Uint32Array;
    ts: Float64Array;
    dur: Float64Array; // -1: never ended
    name: Uint32Array;
    span: Int32Array; // -1: several
    count: Uint32Array;
    busy: Float64Array; // ns of dur with a span
    time: Float64Array; // of a counter: its points
    value: Float64Array;
}

export interface Wanted {
    track: number;
    level: number;
    index: number;
}

export function levelOf(scale: number): number {
    return Math.min(Math.max(Math.floor(Math.log2(scale)), 0), MAX_LEVEL);
}

export function tileSpan(level: number): number {
    return TILE_PX * 2 ** level;
}

const NO_POINTS = new Float64Array(0);

function makeTile(answer: api.Timeline, bars: api.Bar[], points: [number, number][], names: Uint32Array): Tile {
    const n = bars.length;
    const lines = n ? bars[n - 1]![2] + 1 : 0;
    const tile: Tile = {
        from: answer.from, to: answer.to, line: new Uint32Array(lines + 1),
        ts: new Float64Array(n), dur: new Float64Array(n), name: new Uint32Array(n),
        span: new Int32Array(n), count: new Uint32Array(n), busy: new Float64Array(n),
        time: points.length ? Float64Array.from(points, (p) => p[0]) : NO_POINTS,
        value: points.length ? Float64Array.from(points, (p) => p[1]) : NO_POINTS,
    };
    let line = 0;
    bars.forEach(([ts, dur, depth, name, span, count, busy], i) => {
        while (line < depth) tile.line[++line] = i;
        tile.ts[i] = ts;
        tile.dur[i] = dur;
        tile.name[i] = name < 0 ? MIXED : names[name]!;
        tile.span[i] = span;
        tile.count[i] = count;
        tile.busy[i] = busy ?? dur;
    });
    while (line < lines) tile.line[++line] = n;
    return tile;
}

export class Tiles {
    private readonly kept = new Map<string, Tile>();
    private readonly levels = new Map<number, Set<number>>(); // of a track: levels that it has tiles of
    private readonly whole = new Map<number, Tile>(); // of a track: all of its time
    private readonly running = new Map<string, AbortController>();
    private bars = 0;
    readonly depth = new Map<number, number>(); // lines of a track
    depths = 0; // counts the changes of depth
    wholes = 0; // counts the pictures of everything
    error: Error | null = null;

    // text: pictures of spans alone whose name holds it.
    constructor(private readonly trace: string, private readonly names: Names,
                private readonly changed: () => void, readonly text: string | null = null) {}

    // Fetch a picture of everything, to fall back on. In a report it is all there is.
    async loadWhole(duration: number, tracks: number[], width: number): Promise<boolean> {
        let coarse = false;
        for (let i = 0; i < tracks.length; i += TRACKS_PER_REQUEST) {
            const some = tracks.slice(i, i + TRACKS_PER_REQUEST);
            const answer = await api.timeline(this.trace, 0, Math.max(duration, 1), width, some, this.text);
            coarse ||= answer.coarse ?? false;
            this.take(answer, (track, tile) => this.whole.set(track, tile));
            this.wholes += 1;
            this.changed();
            if (api.isReport) break;
        }
        return coarse;
    }

    wholeOf(track: number): Tile | undefined {
        return this.whole.get(track);
    }

    private take(answer: api.Timeline, keep: (track: number, tile: Tile) => void): void {
        const names = Uint32Array.from(answer.names, (name) => this.names.id(name));
        const points = new Map(answer.counters.map((counter) => [counter.id, counter.points]));
        for (const { id, depth, spans } of answer.tracks) {
            if (depth > (this.depth.get(id) ?? -1)) {
                this.depth.set(id, depth);
                this.depths += 1;
            }
            keep(id, makeTile(answer, spans, points.get(id) ?? [], names));
        }
    }

    // The tiles to draw for a piece of time: the right one, or what else is known, coarser first
    // because that is all there while zooming in.
    get(wanted: Wanted): Tile[] {
        const { track, level, index } = wanted;
        const right = this.touch(track, level, index);
        if (right) return [right];
        const levels = this.levels.get(track);
        if (levels) {
            for (let up = level + 1; up <= MAX_LEVEL; up++) {
                const tile = levels.has(up) && this.touch(track, up, Math.floor(index / 2 ** (up - level)));
                if (tile) return [tile];
            }
        }
        const whole = this.whole.get(track);
        return whole ? [whole] : [];
    }

    private touch(track: number, level: number, index: number): Tile | undefined {
        const key = `${track}/${level}/${index}`;
        const tile = this.kept.get(key);
        if (tile) {
            this.kept.delete(key); // the last in the map was used last
            this.kept.set(key, tile);
        }
        return tile;
    }

    // Fetch what is missing of a picture, and give up on what is not wanted any more.
    want(wanted: Wanted[]): void {
        if (api.isReport) return;
        const pieces = new Map<string, { level: number; index: number; tracks: number[] }>();
        for (const { track, level, index } of wanted) {
            if (this.kept.has(`${track}/${level}/${index}`)) continue;
            const piece = `${level}/${index}`;
            const known = pieces.get(piece);
            if (known) known.tracks.push(track);
            else pieces.set(piece, { level, index, tracks: [track] });
        }
        const requests = new Map<string, () => Promise<api.Timeline>>();
        for (const { level, index, tracks } of pieces.values()) {
            for (let i = 0; i < tracks.length; i += TRACKS_PER_REQUEST) {
                const some = tracks.slice(i, i + TRACKS_PER_REQUEST);
                const from = index * tileSpan(level);
                const key = `${level}/${index}/${some.join()}`;
                requests.set(key, () => {
                    const stop = new AbortController();
                    this.running.set(key, stop);
                    return api.timeline(this.trace, from, from + tileSpan(level), TILE_PX, some, this.text, stop.signal);
                });
            }
        }
        for (const [key, stop] of this.running) {
            if (requests.has(key)) requests.delete(key);
            else stop.abort();
        }
        for (const [key, start] of [...requests].slice(0, REQUESTS_AT_ONCE)) void this.fetch(key, start);
    }

    private async fetch(key: string, start: () => Promise<api.Timeline>): Promise<void> {
        const [level, index] = key.split("/").map(Number) as [number, number];
        try {
            this.take(await start(), (track, tile) => this.keep(track, level, index, tile));
            this.error = null;
        } catch (error) {
            if ((error as Error).name === "AbortError") return;
            this.error = error as Error;
        } finally {
            this.running.delete(key);
        }
        this.changed();
    }

    get busy(): boolean {
        return this.running.size > 0;
    }

    private keep(track: number, level: number, index: number, tile: Tile): void {
        this.kept.set(`${track}/${level}/${index}`, tile);
        this.bars += tile.ts.length + tile.time.length + 1;
        const levels = this.levels.get(track);
        if (levels) levels.add(level);
        else this.levels.set(track, new Set([level]));
        for (const [key, old] of this.kept) {
            if (this.bars <= MAX_BARS) break;
            this.kept.delete(key);
            this.bars -= old.ts.length + old.time.length + 1;
        }
    }

    stop(): void {
        for (const running of this.running.values()) running.abort();
    }
}

// The first bar of [start, end) that ends after `time`: bars of a line do not overlap.
export function firstEndingAfter(tile: Tile, start: number, end: number, time: number): number {
    let low = start;
    let high = end;
    while (low < high) {
        const middle = (low + high) >> 1;
        const dur = tile.dur[middle]!;
        if (dur >= 0 && tile.ts[middle]! + dur <= time) low = middle + 1;
        else high = middle;
    }
    return low;
}
