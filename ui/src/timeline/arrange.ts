// How the reader arranged the tracks: which stand on top, which are hidden, filtered, moved or unfolded.
import { titleOf, type Group } from "./tracks";

export interface Arrangement {
    pinned: number[]; // track ids, from the top
    hidden: Set<number>;
    order: number[]; // of tracks that were moved, with their neighbours
    filter: string;
    unfolded: Set<number>;
}

export const PINNED = "pinned";

function numbers(text: string | null): number[] {
    return (text ?? "").split(",").filter((word) => /^\d+$/.test(word)).map(Number);
}

export function fromArgs(args: URLSearchParams): Arrangement {
    return { pinned: numbers(args.get("pin")), hidden: new Set(numbers(args.get("hide"))), order: numbers(args.get("order")),
             filter: args.get("tracks") ?? "", unfolded: new Set(numbers(args.get("unfold"))) };
}

export function toArgs(of: Arrangement): Record<string, string | null> {
    return { pin: of.pinned.join() || null, hide: [...of.hidden].join() || null, order: of.order.join() || null,
             tracks: of.filter || null, unfold: [...of.unfolded].join() || null };
}

// The groups as they are shown.
export function arranged(groups: Group[], by: Arrangement): Group[] {
    const all = new Map(groups.flatMap((group) => group.tracks.map((track) => [track.id, track] as const)));
    const needle = by.filter.trim().toLowerCase();
    const place = new Map(by.order.map((id, i) => [id, i]));
    const pinned = by.pinned.flatMap((id) => all.get(id) ?? []).filter(({ id }) => !by.hidden.has(id));
    const rest = groups.map((group) => {
        const named = group.title.toLowerCase().includes(needle);
        const tracks = group.tracks.filter((track) => !by.hidden.has(track.id) && !by.pinned.includes(track.id) &&
            (named || titleOf(track).toLowerCase().includes(needle)));
        // Those that were moved stand as they were put, at the places of those among them.
        const moved = tracks.filter(({ id }) => place.has(id)).sort((a, b) => place.get(a.id)! - place.get(b.id)!);
        return { ...group, tracks: tracks.map((track) => (place.has(track.id) ? moved.shift()! : track)) };
    });
    return [...(pinned.length ? [{ key: PINNED, title: "Pinned", tracks: pinned }] : []), ...rest]
        .filter(({ tracks }) => tracks.length > 0);
}

export function pin(of: Arrangement, id: number): Arrangement {
    const pinned = of.pinned.includes(id) ? of.pinned.filter((other) => other !== id) : [...of.pinned, id];
    return { ...of, pinned };
}

export function hide(of: Arrangement, id: number): Arrangement {
    return { ...of, hidden: new Set([...of.hidden, id]) };
}

export function unfold(of: Arrangement, id: number): Arrangement {
    const unfolded = new Set(of.unfolded);
    if (!unfolded.delete(id)) unfolded.add(id);
    return { ...of, unfolded };
}

// One place up or down within what its group shows.
export function move(of: Arrangement, groups: Group[], id: number, by: 1 | -1): Arrangement {
    const group = arranged(groups, of).find(({ tracks }) => tracks.some((track) => track.id === id))!;
    const ids = group.tracks.map((track) => track.id);
    const at = ids.indexOf(id);
    const other = ids[at + by];
    if (other === undefined) return of;
    ids[at] = other;
    ids[at + by] = id;
    if (group.key === PINNED) return { ...of, pinned: ids };
    return { ...of, order: [...of.order.filter((one) => !ids.includes(one)), ...ids] };
}
