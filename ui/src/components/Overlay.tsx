// How two sets of durations are distributed, one over the other, as shares of each.
import { count, NA, ns, percent } from "../format";
import { byIndex } from "../palette";
import { largest, median, overlaid } from "../stats";
import { useTheme } from "../theme";
import { useWidth } from "./useWidth";

const TOP = 8;
const BOTTOM = 20;
const SIDES = ["A", "B"] as const;

interface OverlayProps {
    label: string;
    values: [number[], number[]];
    height?: number;
}

export function Overlay({ label, values, height = 150 }: OverlayProps) {
    const [box, width] = useWidth<HTMLDivElement>();
    const theme = useTheme();
    const bins = overlaid(values[0], values[1]);
    const low = bins[0]?.from ?? 0;
    const high = bins.at(-1)?.to ?? 1;
    const share = (side: number, n: number) => n / Math.max(values[side]!.length, 1);
    const most = largest(bins.flatMap(({ counts }) => counts.map((n, side) => share(side, n))), 1e-9);
    const floor = height - BOTTOM;
    const bar = bins.length === 1 ? Math.min(60, width) : width / Math.max(1, bins.length);
    const start = bins.length === 1 ? (width - bar) / 2 : 0;
    const medians = values.map(median);
    const x = (value: number) => (high > low ? Math.min(1, (value - low) / (high - low)) * width : width / 2);
    const about = SIDES.map((side, i) => `${side} ${count(values[i]!.length)} values, median ${ns(medians[i])}`).join("; ");
    return (
        <div class="histogram" ref={box}>
            <ul class="overlay-legend">
                {SIDES.map((side, i) => (
                    <li key={side}>
                        <span class="swatch" style={{ background: byIndex(i, theme) }} aria-hidden="true" />
                        <b>{side}</b> {values[i]!.length ? `${count(values[i]!.length)}, median ${ns(medians[i])}` : NA}
                    </li>
                ))}
            </ul>
            <svg width={width} height={height} role="img" aria-label={`${label}: ${about}`}>
                {bins.map((bin, i) => {
                    const told = `${bin.open ? `from ${ns(bin.from)}` : `${ns(bin.from)} to ${ns(bin.to)}`}: ${SIDES.map((side, s) =>
                        `${side} ${count(bin.counts[s]!)} (${percent(share(s, bin.counts[s]!))})`).join(", ")}`;
                    return (
                        <g key={i}>
                            <rect x={start + i * bar} y={0} width={bar} height={floor} fill="transparent" />
                            {bin.counts.map((n, s) => {
                                const h = n ? Math.max(2, (share(s, n) / most) * (floor - TOP)) : 0;
                                return n > 0 && (
                                    <rect key={s} x={start + i * bar + 0.5} y={floor - h} width={Math.max(1, bar - 1)} height={h}
                                          fill={byIndex(s, theme)} fill-opacity={0.55} stroke={byIndex(s, theme)} />
                                );
                            })}
                            <title>{told}</title>
                        </g>
                    );
                })}
                <line x1={0} x2={width} y1={floor + 0.5} y2={floor + 0.5} class="axis-line" />
                {medians.map((value, i) => value !== null && values[i]!.length > 1 && (
                    <line key={i} x1={x(value)} x2={x(value)} y1={0} y2={floor} stroke={byIndex(i, theme)} stroke-width={2} stroke-dasharray="4 3">
                        <title>{`median of ${SIDES[i]}: ${ns(value)}`}</title>
                    </line>
                ))}
                <text x={0} y={height - 5} class="tick">{ns(low)}</text>
                {high > low && (
                    <text x={width} y={height - 5} class="tick" text-anchor="end">
                        {bins.at(-1)!.open ? `${ns(high)} and more` : ns(high)}
                    </text>
                )}
            </svg>
        </div>
    );
}
