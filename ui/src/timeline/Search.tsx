// The search box of the timeline: what does not match is dimmed, Enter goes from hit to hit.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { count } from "../format";
import { useTrace } from "../hooks";
import { Icon } from "../icons";
import { useKeys } from "../keys";
import { setArgs } from "../router";
import type { Controller } from "./controller";
import { barOf, type Bar } from "./scene";

const TYPING_MS = 250;

type FoundRow = { id: number; ts: number; dur: number; track: number; depth: number; name: string | null };

interface Found {
    bars: Bar[];
    more: boolean;
}

// In a report: among the bars of its picture.
function findHere(controller: Controller, text: string): Found {
    const { scene } = controller;
    const needle = text.toLowerCase();
    const bars: Bar[] = [];
    for (const { track } of scene.placed) {
        const tile = track && scene.tiles.wholeOf(track.id);
        if (!tile) continue;
        for (let depth = 0; depth + 1 < tile.line.length; depth++) {
            for (let i = tile.line[depth]!; i < tile.line[depth + 1]!; i++) {
                if (scene.names.text(tile.name[i]!).toLowerCase().includes(needle)) {
                    bars.push(barOf(scene, tile, i, track.id, depth));
                }
            }
        }
    }
    return { bars: bars.sort((a, b) => a.ts - b.ts), more: false };
}

async function find(controller: Controller, trace: string, text: string, signal: AbortSignal): Promise<Found> {
    if (api.isReport) return findHere(controller, text);
    const limit = 1000;
    const rows = api.records<FoundRow>(await api.data(trace, "search", { text, limit }, signal));
    return { bars: rows.map((row) => ({ ...row, name: row.name ?? "", count: 1 })), more: rows.length === limit };
}

interface SearchProps {
    controller: Controller;
    initial: string;
    onHit: (bar: Bar) => void;
}

export function Search({ controller, initial, onHit }: SearchProps) {
    const trace = useTrace();
    const [text, setText] = useState(initial);
    const [found, setFound] = useState<Found | null>(null);
    const [at, setAt] = useState(-1);
    const [error, setError] = useState("");
    const box = useRef<HTMLInputElement>(null);
    useEffect(() => {
        controller.search(text);
        controller.setHits([]);
        setFound(null);
        setAt(-1);
        setError("");
        if (!text) return;
        const stop = new AbortController();
        const timer = setTimeout(() => {
            setArgs({ q: text });
            find(controller, trace.id, text, stop.signal).then((result) => {
                setFound(result);
                controller.setHits(result.bars.map(({ ts }) => ts));
            }, (failure: Error) => {
                if (!stop.signal.aborted) setError(failure.message);
            });
        }, TYPING_MS);
        return () => {
            clearTimeout(timer);
            stop.abort();
        };
    }, [text, controller]);

    const go = (by: 1 | -1) => {
        if (!found?.bars.length) return;
        // The first hit is the first one in sight, or after it.
        const from = controller.target.from;
        const inSight = found.bars.findIndex(({ ts }) => ts >= from);
        const next = at < 0 ? Math.max(inSight, 0) : (at + by + found.bars.length) % found.bars.length;
        setAt(next);
        onHit(found.bars[next]!);
    };
    useKeys([
        { keys: "n", does: "next hit of the search", run: () => go(1) },
        { keys: "N", does: "previous hit", run: () => go(-1) },
    ], [found, at]);

    const told = !text ? "" : error ? error : !found ? "…" : !found.bars.length ? "no hit"
        : `${at < 0 ? "" : `${count(at + 1)} of `}${count(found.bars.length)}${found.more ? "+" : ""}`;
    return (
        <div class="tl-search" role="search">
            <input ref={box} type="search" class="search" data-search value={text} placeholder="Search spans"
                   aria-label="Search spans by name"
                   onInput={(event) => {
                       setText(event.currentTarget.value);
                       if (!event.currentTarget.value) setArgs({ q: null });
                   }}
                   onKeyDown={(event) => {
                       if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
                       else if (event.key === "Escape") box.current?.blur();
                   }} />
            <button class="icon-button" disabled={!found?.bars.length} onClick={() => go(-1)}
                    aria-label="Previous hit" title="Previous hit (N)"><Icon name="left" /></button>
            <button class="icon-button" disabled={!found?.bars.length} onClick={() => go(1)}
                    aria-label="Next hit" title="Next hit (n)"><Icon name="right" /></button>
            <span class="tl-found" role="status">{told}</span>
        </div>
    );
}
