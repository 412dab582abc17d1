// A titled box of a page.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

interface CardProps {
    title: string;
    aside?: ComponentChildren; // right of the title: controls, a link
    note?: ComponentChildren; // a sentence below the title
    wide?: boolean; // the whole width of a grid of cards
    children: ComponentChildren;
}

let made = 0;

export function Card({ title, aside, note, wide, children }: CardProps) {
    const id = useRef("");
    if (!id.current) id.current = `card-${made++}`;
    return (
        <section class={wide ? "card wide" : "card"} aria-labelledby={id.current}>
            <header class="card-head">
                <h2 id={id.current}>{title}</h2>
                {aside && <div class="card-aside">{aside}</div>}
            </header>
            {note && <p class="note">{note}</p>}
            {children}
        </section>
    );
}

// A figure with its name.
export function Figure({ label, value, hint }: { label: string; value: string; hint?: string }) {
    return (
        <div class="figure" title={hint}>
            <div class="figure-label">{label}</div>
            <div class="figure-value">{value}</div>
        </div>
    );
}

// Names and values below each other.
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
    return (
        <dl class="facts">
            {of.map(([name, value]) => (
                <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
            ))}
        </dl>
    );
}
