// Parts of a whole: a donut, one bar cut into parts, or a bar for each.
import type { ComponentChildren } from "preact";
import { percent } from "../format";
import { Middle } from "./Middle";

export interface Part {
    label: string;
    value: number;
    color: string;
    shown: string; // the value, formatted
    href?: string;
    hint?: string;
}

function total(parts: Part[]): number {
    return parts.reduce((sum, part) => sum + part.value, 0);
}

function spoken(label: string, parts: Part[]): string {
    const all = total(parts);
    return `${label}: ${parts.map((p) => `${p.label} ${p.shown}, ${percent(p.value / all)}`).join("; ")}`;
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
    const all = total(parts);
    let at = 0;
    return (
        <div class="donut">
            <svg viewBox="0 0 100 100" role="img" aria-label={spoken(label, parts)}>
                {all > 0 && parts.map((part) => {
                    const from = at;
                    at += part.value / all;
                    return (
                        <path key={part.label} d={segment(from, at, 48, 30)} fill={part.color}>
                            <title>{`${part.label}: ${part.shown} (${percent(part.value / all)})`}</title>
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
    const all = total(parts);
    return (
        <ul class="legend">
            {parts.map((part) => (
                <li key={part.label} title={part.hint ?? part.label}>
                    <i class="swatch" style={{ background: part.color }} />
                    <span class="legend-name">{named(part)}</span>
                    <span class="legend-value">{part.shown}</span>
                    <span class="legend-share">{all > 0 ? percent(part.value / all) : ""}</span>
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
    const all = total(parts);
    return (
        <div class="stack-bar" role="img" aria-label={spoken(label, parts)}>
            {parts.filter((part) => part.value > 0).map((part) => (
                <div key={part.label} style={{ width: `${(100 * part.value) / all}%`, background: part.color }}
                     title={`${part.label}: ${part.shown} (${percent(part.value / all)})`}>
                    {part.value / all > 0.08 && <span>{part.label}</span>}
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
