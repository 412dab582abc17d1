// The search box of the timeline: what does not match is dimmed, Enter goes from hit to hit.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api";
import { count, ns } from "../format";
import { useTrace } from "../hooks";
import { Icon } from "../icons";
import { useKeys } from "../keys";
import { setArgs } from "../router";
import type { Controller } from "./controller";
import { barOf, type Bar } from "./scene";

const TYPING_MS = 250;

interface Found {
    count: number;
    total: number;
    bars: Bar[] | null; // in a report: what its picture has
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
    bars.sort((a, b) => a.ts - b.ts);
    return { bars, count: bars.length, total: bars.reduce((sum, bar) => sum + Math.max(bar.busy ?? bar.dur, 0), 0) };
}

async function find(controller: Controller, trace: string, text: string, signal: AbortSignal): Promise<Found> {
    if (api.isReport) return findHere(controller, text);
    const { count: n, total_ns } = await api.found(trace, text, { at: 0 }, signal);
    return { count: n, total: total_ns, bars: null };
}

interface SearchProps {
    controller: Controller;
    initial: string;
    onBar: (bar: Bar) => void;
    onSpan: (id: number) => void;
}

export function Search({ controller, initial, onBar, onSpan }: SearchProps) {
    const trace = useTrace();
    const [text, setText] = useState(initial);
    const [found, setFound] = useState<Found | null>(null);
    const [at, setAt] = useState(-1);
    const [error, setError] = useState("");
    const box = useRef<HTMLInputElement>(null);
    const typed = useRef(text);
    typed.current = text;
    const fail = (failure: Error) => {
        if (failure.name !== "AbortError") setError(failure.message);
    };
    useEffect(() => {
        controller.search(text);
        setFound(null);
        setAt(-1);
        setError("");
        if (!text) return;
        const stop = new AbortController();
        const timer = setTimeout(() => {
            setArgs({ q: text });
            find(controller, trace.id, text, stop.signal).then(setFound, fail);
            if (!api.isReport) controller.showFound(text).catch(fail);
        }, TYPING_MS);
        return () => {
            clearTimeout(timer);
            stop.abort();
        };
    }, [text, controller]);

    // The first hit is the first one in sight, or after it.
    const go = async (by: 1 | -1) => {
        if (!found?.count) return;
        const from = Math.round(controller.target.from);
        if (found.bars) {
            const inSight = found.bars.findIndex(({ ts }) => ts >= from);
            const next = at < 0 ? Math.max(inSight, 0) : (at + by + found.count) % found.count;
            setAt(next);
            onBar(found.bars[next]!);
            return;
        }
        try {
            const hit = await api.found(trace.id, text, at < 0 ? { from } : { at: at + by });
            if (typed.current !== text || hit.span < 0) return;
            setAt(hit.at);
            onSpan(hit.span);
        } catch (failure) {
            fail(failure as Error);
        }
    };
    useKeys([
        { keys: "n", does: "next hit of the search", run: () => void go(1) },
        { keys: "N", does: "previous hit", run: () => void go(-1) },
    ], [found, at]);

    const told = !text ? "" : error ? error : !found ? "…" : !found.count ? "no hit"
        : `${at < 0 ? "" : `${count(at + 1)} of `}${count(found.count)}`;
    return (
        <div class="tl-search" role="search">
            <input ref={box} type="search" class="search" data-search value={text} placeholder="Search spans"
                   aria-label="Search spans by name"
                   onInput={(event) => {
                       setText(event.currentTarget.value);
                       if (!event.currentTarget.value) setArgs({ q: null });
                   }}
                   onKeyDown={(event) => {
                       if (event.key === "Enter") void go(event.shiftKey ? -1 : 1);
                       else if (event.key === "Escape") box.current?.blur();
                   }} />
            <button class="icon-button" disabled={!found?.count} onClick={() => void go(-1)}
                    aria-label="Previous hit" title="Previous hit (N)"><Icon name="left" /></button>
            <button class="icon-button" disabled={!found?.count} onClick={() => void go(1)}
                    aria-label="Next hit" title="Next hit (n)"><Icon name="right" /></button>
            <span class="tl-found" role="status">{told}</span>
            {!!found?.count && (
                <span class="tl-total" title="Together, the time inside of one another counted twice">{ns(found.total)}</span>
            )}
        </div>
    );
}
