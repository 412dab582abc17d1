// A step as lanes: its parts one after another, and below them one lane for each line of
// collectives.
import { ns, percent } from "../format";
import { named, ON_FILL } from "../palette";
import type { Step } from "../queries";
import { stagesOf, type Lane } from "../steps";
import { largest, meanOf } from "../stats";
import { useTheme } from "../theme";
import { useWidth } from "./useWidth";

const NAMES = 150;
const ROW = 34;
const BAR = 24;

// Where ticks stand: about n of them at round values.
export function ticks(max: number, n: number): number[] {
    if (!(max > 0)) return [0];
    const rough = max / n;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough)!;
    return Array.from({ length: Math.floor(max / step) + 1 }, (_, i) => i * step);
}

function fitted(text: string, px: number): string {
    const room = Math.floor((px - 12) / 7.1);
    return text.length <= room ? text : room > 3 ? `${text.slice(0, room - 1)}…` : "";
}

// Names of lanes differ at their end.
function fittedEnd(text: string, px: number): string {
    const room = Math.floor(px / 6.6);
    return text.length <= room ? text : `…${text.slice(text.length - room + 1)}`;
}

interface Block {
    key: string;
    start: number;
    dur: number;
    text: string;
    hint: string;
    fill: string;
}

export function StepLanes({ label, steps, lanes }: { label: string; steps: Step[]; lanes: Lane[] }) {
    const theme = useTheme();
    const [box, width] = useWidth<HTMLDivElement>();
    const total = meanOf(steps, (s) => s.total_ns) ?? 0;
    const end = largest(
        lanes.flatMap((lane) => lane.bars.map((bar) => bar.start + bar.dur)),
        total
    );
    const room = Math.max(100, width - NAMES - 12);
    const x = (time: number) => NAMES + (end > 0 ? time / end : 0) * room;

    let at = 0;
    const parts = stagesOf(steps).map((stage): Block => {
        const dur = meanOf(steps, stage.value) ?? 0;
        const start = at;
        at += dur;
        return {
            key: stage.key,
            start,
            dur,
            fill: named("stage", stage.key, theme),
            text: `${stage.title} ${ns(dur)}`,
            hint: `${stage.title}: ${ns(dur)}, ${percent(dur / total)}. ${stage.doc}`,
        };
    });
    const update = meanOf(steps, (s) => s.update_ns);
    const rows: { title: string; blocks: Block[] }[] = [
        {
            title: "Step",
            blocks: [
                {
                    key: "total",
                    start: 0,
                    dur: total,
                    fill: named(null, "other", theme),
                    text: ns(total),
                    hint: `whole step: ${ns(total)}`,
                },
            ],
        },
        ...(parts.length ? [{ title: "Parts", blocks: parts }] : []),
        ...lanes.map((lane) => ({
            title: lane.title,
            blocks: lane.bars.map((bar, i): Block => ({
                key: String(i),
                start: bar.start,
                dur: bar.dur,
                fill: named("stage", "collective", theme),
                text: `${bar.name} ${ns(bar.dur)}`,
                hint:
                    `${bar.name}: ${ns(bar.dur)}, starts ${ns(bar.start)} into the step` +
                    (bar.steps > 1 ? `; mean of ${bar.steps} steps` : ""),
            })),
        })),
    ];
    const height = rows.length * ROW + 22;
    return (
        <div class="lanes" ref={box}>
            <svg
                width={width}
                height={height}
                role="img"
                aria-label={`${label}: ${parts.map((p) => p.hint).join(" ")}`}
            >
                {ticks(end, Math.max(2, Math.floor(room / 120))).map((tick) => (
                    <g key={tick}>
                        <line x1={x(tick)} x2={x(tick)} y1={0} y2={height - 20} class="grid-line" />
                        <text
                            x={x(tick)}
                            y={height - 6}
                            class="tick"
                            text-anchor={x(tick) > width - 40 ? "end" : "middle"}
                        >
                            {ns(tick)}
                        </text>
                    </g>
                ))}
                {rows.map((row, r) => (
                    <g key={r} transform={`translate(0 ${r * ROW})`}>
                        <text x={0} y={ROW / 2 + 4} class="lane-name">
                            {fittedEnd(row.title, NAMES - 10)}
                            <title>{row.title}</title>
                        </text>
                        {row.blocks.map((block) => {
                            const w = Math.max(1, x(block.start + block.dur) - x(block.start));
                            return (
                                <g key={block.key}>
                                    <rect
                                        x={x(block.start)}
                                        y={(ROW - BAR) / 2}
                                        width={w}
                                        height={BAR}
                                        rx={3}
                                        fill={block.fill}
                                    />
                                    <text
                                        x={x(block.start) + 6}
                                        y={ROW / 2 + 4}
                                        fill={ON_FILL}
                                        class="lane-text"
                                    >
                                        {fitted(block.text, w)}
                                    </text>
                                    <title>{block.hint}</title>
                                </g>
                            );
                        })}
                    </g>
                ))}
            </svg>
            {update !== null && <p class="note">In the optimizer: {ns(update)}.</p>}
        </div>
    );
}
