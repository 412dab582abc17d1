// Parts of a whole: a donut, one bar cut into parts, or a bar for each.
import type { ComponentChildren } from "preact";
import { percent } from "../format";
import { Middle } from "./Middle";

export interface Part {
    label: string;
    value: number;
    color: string;
    share?: number | null; // of all, where it is not what the value is of their sum
    shown: string; // the value, formatted
    href?: string;
    hint?: string;
}

// What each is of all of them; null if nothing is.
function shareOf(parts: Part[]): (part: Part) => number | null {
    if (parts.every(({ share }) => typeof share === "number")) return ({ share }) => share!;
    const all = parts.reduce((sum, part) => sum + part.value, 0);
    return ({ value }) => (all > 0 ? value / all : null);
}

function spoken(label: string, parts: Part[]): string {
    const share = shareOf(parts);
    return `${label}: ${parts.map((p) => `${p.label} ${p.shown}, ${percent(share(p))}`).join("; ")}`;
}

// A ring segment from share a to b of the whole circle.
function segment(a: number, b: number, outer: number, inner: number): string {
    const point = (share: number, r: number) => {
        const angle = 2 * Math.PI * share - Math.PI / 2;
        return `${(50 + r * Math.cos(angle)).toFixed(3)} ${(50 + r * Math.sin(angle)).toFixed(3)}`;
    };
    const end = Math.min(b, a + 0.99999); // a whole circle has no arc
    const large = end - a > 0.5 ? 1 : 0;
    return `M${point(a, outer)}A${outer} ${outer} 0 ${large} 1 ${point(end, outer)}` +
        `L${point(end, inner)}A${inner} ${inner} 0 ${large} 0 ${point(a, inner)}Z`;
}

export function Donut({ label, parts, center }: { label: string; parts: Part[]; center?: string }) {
    const share = shareOf(parts);
    let at = 0;
    return (
        <div class="donut">
            <svg viewBox="0 0 100 100" role="img" aria-label={spoken(label, parts)}>
                {parts.map((part) => {
                    const from = at;
                    at += share(part) ?? 0;
                    return (
                        <path key={part.label} d={segment(from, at, 48, 30)} fill={part.color}>
                            <title>{`${part.label}: ${part.shown} (${percent(share(part))})`}</title>
                        </path>
                    );
                })}
                {center && <text x="50" y="53" text-anchor="middle" class="donut-center">{center}</text>}
            </svg>
            <Legend parts={parts} />
        </div>
    );
}

export function Legend({ parts }: { parts: Part[] }) {
    const share = shareOf(parts);
    return (
        <ul class="legend">
            {parts.map((part) => (
                <li key={part.label} title={part.hint ?? part.label}>
                    <i class="swatch" style={{ background: part.color }} />
                    <span class="legend-name">{named(part)}</span>
                    <span class="legend-value">{part.shown}</span>
                    <span class="legend-share">{share(part) === null ? "" : percent(share(part))}</span>
                </li>
            ))}
        </ul>
    );
}

function named(part: Part): ComponentChildren {
    const name = <Middle of={part.label} />;
    return part.href ? <a href={part.href}>{name}</a> : name;
}

// One bar, cut into its parts.
export function StackBar({ label, parts }: { label: string; parts: Part[] }) {
    const share = shareOf(parts);
    return (
        <div class="stack-bar" role="img" aria-label={spoken(label, parts)}>
            {parts.filter((part) => part.value > 0).map((part) => (
                <div key={part.label} style={{ width: `${100 * share(part)!}%`, background: part.color }}
                     title={`${part.label}: ${part.shown} (${percent(share(part))})`}>
                    {share(part)! > 0.08 && <span>{part.label}</span>}
                </div>
            ))}
        </div>
    );
}

// A bar for each, the longest as wide as there is room.
export function Bars({ label, parts, max }: { label: string; parts: Part[]; max?: number }) {
    const most = max ?? parts.reduce((m, part) => Math.max(m, part.value), 0);
    return (
        <ul class="bars" aria-label={label}>
            {parts.map((part) => (
                <li key={part.label} title={part.hint ?? part.label}>
                    <span class="bars-name">{named(part)}</span>
                    <span class="bars-track">
                        <i style={{ width: `${most > 0 ? (100 * part.value) / most : 0}%`, background: part.color }} />
                    </span>
                    <span class="bars-value">{part.shown}</span>
                </li>
            ))}
        </ul>
    );
}
