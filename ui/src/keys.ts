// Keys of the whole page. A page adds its own with useKeys(); the help lists all of them.
import { useEffect } from "preact/hooks";

export interface Key {
    keys: string; // as event.key has it; "g o" is g, then o
    does: string;
    run: () => void;
    release?: () => void; // when it is let go; then it does not repeat while held
}

const layers: Key[][] = [];
const held = new Map<string, Key>(); // by event.code: a shift may come or go meanwhile
let prefix = "";
let prefixAt = 0;

function typing(target: EventTarget | null): boolean {
    return target instanceof HTMLElement &&
        (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

function onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    const pressed = prefix && event.timeStamp - prefixAt < 1500 ? `${prefix} ${event.key}` : event.key;
    prefix = "";
    for (let i = layers.length - 1; i >= 0; i--) {
        const found = layers[i]!.find((key) => key.keys === pressed);
        if (found) {
            event.preventDefault();
            if (found.release && event.repeat) return;
            if (found.release) held.set(event.code, found);
            found.run();
            return;
        }
    }
    if (layers.some((layer) => layer.some((key) => key.keys.startsWith(`${pressed} `)))) {
        prefix = pressed;
        prefixAt = event.timeStamp;
    }
}

function letGo(): void {
    for (const key of held.values()) key.release!();
    held.clear();
}

addEventListener("keydown", onKey);
addEventListener("keyup", (event) => {
    held.get(event.code)?.release!();
    held.delete(event.code);
});
addEventListener("blur", letGo);

export function useKeys(keys: Key[], deps: unknown[] = []): void {
    useEffect(() => {
        layers.push(keys);
        return () => {
            letGo();
            layers.splice(layers.indexOf(keys), 1);
        };
    }, deps);
}

export function listed(): Key[][] {
    return layers.map((layer) => layer.filter((key) => key.does)).filter((layer) => layer.length);
}
