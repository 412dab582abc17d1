// The lines of the timeline: which tracks stand where, grouped by process.
import type { TrackRow } from "../schema";

export type Track = TrackRow & { spans: number | null; samples: number | null };

export const LINE_PX = 18;
const TRACK_GAP_PX = 5;
const GROUP_PX = 26;
const COUNTER_PX = 44;
const CLOSED_PX = 8; // a closed track still shows where it was busy

export interface Group {
    key: string;
    title: string;
    tracks: Track[];
}

export interface Placed {
    kind: "group" | "track";
    key: string;
    y: number;
    height: number;
    open: boolean;
    group: Group;
    track: Track | null;
    lines: number; // that are shown
    folded: number; // that are not
}

export function isCounter(track: Track): boolean {
    return !!track.samples || track.kind === "counter" || track.kind === "queue";
}

const FOLD_FROM = 9; // lines: stacks of the host that are deeper show the first ones
const FOLDED = 6;

// Whether a track of so many lines is folded, where the reader has not unfolded it.
export function folds(track: Track, lines: number): boolean {
    return lines >= FOLD_FROM && track.kind !== "stream";
}

// Whether a line is folded away if its track turns out to be deep: that is known once its tiles are here.
export function mayFoldAway(track: Track, line: number): boolean {
    return line >= FOLDED && track.kind !== "stream";
}

const ORDER: Record<string, number> = { stream: 0, thread: 1, async: 2, queue: 3, counter: 4 };

export function titleOf(track: Track): string {
    const name = track.name ?? "";
    if (name) return name;
    return `${track.kind ?? "track"} ${track.tid ?? track.id}`;
}

interface Several {
    ranks: boolean;
    hosts: boolean;
    instances: boolean;
}

function groupTitle(tracks: Track[], several: Several): string {
    const track = tracks[0]!;
    const parts: string[] = [];
    if (track.process) parts.push(track.process);
    // A process of streams is a device: that says more than its number.
    if (track.device && tracks.every(({ device }) => device === track.device)) parts.push(track.device);
    else if (track.pid !== null) parts.push(track.process ? String(track.pid) : `Process ${track.pid}`);
    if (!parts.length) parts.push(tracks.every(isCounter) ? "Counters" : "Other tracks");
    if (several.ranks && track.rank !== null) parts.push(`rank ${track.rank}`);
    if (several.instances && track.instance !== null) parts.push(`instance ${track.instance}`);
    if (several.hosts && track.host !== null) parts.push(track.host);
    return parts.join(" · ");
}

// By kind, the main thread first, then by number.
function inOrder(a: Track, b: Track): number {
    const kind = (track: Track) => ORDER[track.kind ?? ""] ?? 9;
    const other = (track: Track) => Number(track.tid === null || track.tid !== track.pid);
    const number = (track: Track) => track.tid ?? Number.MAX_SAFE_INTEGER;
    return kind(a) - kind(b) || other(a) - other(b) || number(a) - number(b) || a.id - b.id;
}

export function grouped(tracks: Track[]): Group[] {
    const shown = tracks.filter((track) => track.spans || track.samples);
    const differs = (of: (track: Track) => unknown) => new Set(shown.map(of)).size > 1;
    const several = { ranks: differs((t) => t.rank), hosts: differs((t) => t.host),
                      instances: differs((t) => t.instance) };
    const groups = new Map<string, Group>();
    for (const track of shown) {
        const key = [track.host, track.rank, track.instance, track.source, track.pid, track.process].join("|");
        const group = groups.get(key);
        if (group) group.tracks.push(track);
        else groups.set(key, { key, title: "", tracks: [track] });
    }
    for (const group of groups.values()) {
        group.title = groupTitle(group.tracks, several);
        group.tracks.sort(inOrder);
    }
    // Devices first: what they do is what a reader comes for.
    const onDevice = (group: Group) => group.tracks.some(({ kind }) => kind === "stream");
    return [...groups.values()].sort((a, b) => Number(onDevice(b)) - Number(onDevice(a)));
}

function trackHeight(track: Track, lines: number, open: boolean): number {
    if (!open) return CLOSED_PX + TRACK_GAP_PX + 9;
    const bars = track.spans ? Math.max(lines, 1) * LINE_PX : 0;
    return bars + (isCounter(track) ? COUNTER_PX : 0) + TRACK_GAP_PX;
}

// Where everything stands, from y = 0 downwards.
export function place(groups: Group[], depth: Map<number, number>, closed: Set<string>, unfolded: Set<number>): Placed[] {
    const placed: Placed[] = [];
    let y = 0;
    for (const group of groups) {
        const open = !closed.has(group.key);
        placed.push({ kind: "group", key: group.key, y, height: GROUP_PX, open, group, track: null, lines: 0, folded: 0 });
        y += GROUP_PX;
        if (!open) continue;
        for (const track of group.tracks) {
            const key = `track ${track.id}`;
            const all = depth.get(track.id) ?? 1;
            const fold = folds(track, all) && !unfolded.has(track.id);
            const lines = fold ? FOLDED : all;
            const trackOpen = !closed.has(key);
            const height = trackHeight(track, lines, trackOpen);
            placed.push({ kind: "track", key, y, height, open: trackOpen, group, track, lines, folded: all - lines });
            y += height;
        }
    }
    return placed;
}

export function totalHeight(placed: Placed[]): number {
    const last = placed[placed.length - 1];
    return last ? last.y + last.height : 0;
}

// Those between top and bottom.
export function inSight(placed: Placed[], top: number, bottom: number): Placed[] {
    let low = 0;
    let high = placed.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (placed[middle]!.y + placed[middle]!.height <= top) low = middle + 1;
        else high = middle;
    }
    let end = low;
    while (end < placed.length && placed[end]!.y < bottom) end += 1;
    return placed.slice(low, end);
}

// Top of a line of a track; of the track itself where it is closed.
export function lineY(row: Placed, depth: number): number {
    return row.open ? row.y + depth * LINE_PX : row.y;
}
