// How often a duration occurred, with marks at percentiles.
import { count, ns } from "../format";
import { histogram, largest } from "../stats";
import { useWidth } from "./useWidth";

interface HistogramProps {
    label: string;
    values: number[];
    marks?: { label: string; value: number | null }[];
    color: string;
    height?: number;
}

const TOP = 18;
const BOTTOM = 20;

export function Histogram({ label, values, marks = [], color, height = 150 }: HistogramProps) {
    const [box, width] = useWidth<HTMLDivElement>();
    const bins = histogram(values);
    const low = bins[0]?.from ?? 0;
    const high = bins.at(-1)?.to ?? 1;
    const most = largest(
        bins.map((bin) => bin.count),
        1
    );
    const x = (value: number) => (high > low ? Math.min(1, (value - low) / (high - low)) * width : width / 2);
    const floor = height - BOTTOM;
    const bar = width / Math.max(1, bins.length);
    let free = -Infinity; // a mark whose label would overlap the one before goes without
    return (
        <div class="histogram" ref={box}>
            <svg
                width={width}
                height={height}
                role="img"
                aria-label={`${label}: ${count(values.length)} values from ${ns(low)} to ${ns(largest(values))}`}
            >
                {bins.map((bin, i) => {
                    const h = bin.count ? Math.max(2, (bin.count / most) * (floor - TOP)) : 0;
                    const wide = bins.length === 1 ? Math.min(60, bar) : bar;
                    return (
                        <rect
                            key={i}
                            x={bins.length === 1 ? (width - wide) / 2 : i * bar}
                            y={floor - h}
                            width={Math.max(1, wide - 1)}
                            height={h}
                            fill={color}
                            opacity={bin.open ? 0.55 : 1}
                        >
                            <title>{`${bin.open ? `from ${ns(bin.from)}` : `${ns(bin.from)} to ${ns(bin.to)}`}: ${count(bin.count)}`}</title>
                        </rect>
                    );
                })}
                <line x1={0} x2={width} y1={floor + 0.5} y2={floor + 0.5} class="axis-line" />
                {marks.map((mark) => {
                    if (mark.value === null || values.length < 2) return null;
                    const at = x(mark.value);
                    const room = 7 * mark.label.length + 8;
                    const left = at + room > width;
                    const named = (left ? at - room : at) > free;
                    if (named) free = left ? at : at + room;
                    return (
                        <g key={mark.label} class="mark">
                            <line x1={at} x2={at} y1={TOP - 4} y2={floor} />
                            {named && (
                                <text
                                    x={left ? at - 3 : at + 3}
                                    y={TOP - 6}
                                    text-anchor={left ? "end" : "start"}
                                >
                                    {mark.label}
                                </text>
                            )}
                            <title>{`${mark.label}: ${ns(mark.value)}`}</title>
                        </g>
                    );
                })}
                <text x={0} y={height - 5} class="tick">
                    {ns(low)}
                </text>
                {high > low && (
                    <text x={width} y={height - 5} class="tick" text-anchor="end">
                        {bins.at(-1)!.open ? `${ns(high)} and more` : ns(high)}
                    </text>
                )}
            </svg>
        </div>
    );
}
