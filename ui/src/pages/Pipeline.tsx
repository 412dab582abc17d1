// The input pipeline: stages and the queues between them.
import { useMemo } from "preact/hooks";
import { Card, Facts, Figure } from "../components/Card";
import { Chart } from "../components/Chart";
import { Press } from "../components/pressable";
import { Bars, type Part } from "../components/Shares";
import { Loaded } from "../components/States";
import { useWidth } from "../components/useWidth";
import { count, NA, ns, percent, text } from "../format";
import { all, useData } from "../hooks";
import { byIndex, heat, named, ON_FILL } from "../palette";
import { pipelineSentences, rowsOf } from "../pipeline";
import type { Counter, Queue, QueueStep, Sampled, Stage, Verdict } from "../queries";
import { setArgs, useRoute } from "../router";
import { largest } from "../stats";
import { useTheme } from "../theme";

const BOX = { width: 150, height: 46 };
const GAP = { x: 40, y: 26 };

interface Box {
    key: string;
    title: string;
    line: string;
    column: number;
    row: number;
    queue: Queue | null;
    stage: Stage | null;
}

// Columns from the sources at the left to the last consumer at the right, stages and queues in
// turn; a queue stands below and between its stages.
function boxesOf(queues: Queue[], stages: Stage[]): { boxes: Box[]; arrows: [string, string][] } {
    const far = new Map<string, number>(); // stage -> queues to the end
    for (const s of stages) far.set(s.stage, s.distance);
    const longest = largest(far.values(), 0);
    const boxes: Box[] = [];
    const arrows: [string, string][] = [];
    const add = (box: Omit<Box, "row">) => {
        if (!boxes.some((b) => b.key === box.key)) boxes.push({ ...box, row: 0 });
    };
    for (const q of queues) {
        const distance = far.get(q.producer ?? "") ?? 1;
        const column = 2 * (longest - distance) + 1;
        const stage = (name: string | null) => stages.find((s) => s.stage === name) ?? null;
        const line = (name: string | null) => (stage(name)?.workers ? `${stage(name)!.workers} workers` : "");
        add({
            key: `queue ${q.track}`,
            title: q.name ?? NA,
            line: percent(q.usage),
            column,
            queue: q,
            stage: null,
        });
        if (q.producer !== null) {
            add({
                key: `stage ${q.producer}`,
                title: q.producer,
                line: line(q.producer),
                column: column - 1,
                queue: null,
                stage: stage(q.producer),
            });
            arrows.push([`stage ${q.producer}`, `queue ${q.track}`]);
        }
        if (q.consumer !== null) {
            add({
                key: `stage ${q.consumer}`,
                title: q.consumer,
                line: line(q.consumer),
                column: column + 1,
                queue: null,
                stage: stage(q.consumer),
            });
            arrows.push([`queue ${q.track}`, `stage ${q.consumer}`]);
        }
    }
    const rows = rowsOf(queues);
    for (const box of boxes) box.row = rows.get(box.key) ?? 0;
    return { boxes, arrows };
}

interface GraphProps {
    queues: Queue[];
    stages: Stage[];
    selected: number | null;
}

function Graph({ queues, stages, selected }: GraphProps) {
    const theme = useTheme();
    const [frame, room] = useWidth<HTMLDivElement>();
    const { boxes, arrows } = useMemo(() => boxesOf(queues, stages), [queues, stages]);
    const columns =
        largest(
            boxes.map((b) => b.column),
            0
        ) + 1;
    const rows =
        largest(
            boxes.map((b) => b.row),
            0
        ) + 1;
    const width = ((columns - 1) * (BOX.width + GAP.x)) / 2 + BOX.width + 4;
    const height = rows * 2 * (BOX.height + GAP.y) - GAP.y + 4;
    const scale = Math.max(0.75, Math.min(1, room / width)); // smaller could not be read: then it scrolls
    const at = (key: string) => {
        const b = boxes.find((box) => box.key === key)!;
        return {
            x: 2 + (b.column * (BOX.width + GAP.x)) / 2,
            y: 2 + (2 * b.row + (b.queue ? 1 : 0)) * (BOX.height + GAP.y),
        };
    };
    const rowOf = (key: string) => boxes.find((box) => box.key === key)!.row;
    return (
        <div class="pipeline-graph" ref={frame}>
            <svg
                width={width * scale}
                height={height * scale}
                viewBox={`0 0 ${width} ${height}`}
                role="group"
                aria-label="Stages and queues of the input pipeline"
            >
                <defs>
                    <marker
                        id="arrow"
                        viewBox="0 0 8 8"
                        refX="7"
                        refY="4"
                        markerWidth="7"
                        markerHeight="7"
                        orient="auto"
                    >
                        <path d="M0 0L8 4L0 8z" class="arrow-head" />
                    </marker>
                </defs>
                {arrows.map(([from, to]) => {
                    const a = at(from);
                    const b = at(to);
                    const filled = from.startsWith("stage");
                    const sameRow = rowOf(from) === rowOf(to);
                    // On a row straight up or down, where the two boxes overlap; to another row along the
                    // gap between the columns, so that a branch does not run through what stands between.
                    const x = filled ? a.x + BOX.width * (sameRow ? 0.8 : 0.5) : b.x + BOX.width * 0.2;
                    const path = !sameRow
                        ? filled
                            ? `M${x} ${a.y + BOX.height}V${b.y + BOX.height / 2}H${b.x - 2}`
                            : `M${a.x + BOX.width} ${a.y + BOX.height / 2}H${a.x + BOX.width + GAP.x / 2}V${b.y + (b.y > a.y ? -2 : BOX.height + 2)}`
                        : b.y > a.y
                          ? `M${x} ${a.y + BOX.height}V${b.y - 2}`
                          : `M${x} ${a.y}V${b.y + BOX.height + 2}`;
                    return <path key={`${from} ${to}`} d={path} class="arrow" marker-end="url(#arrow)" />;
                })}
                {boxes.map((b) => {
                    const { x, y } = at(b.key);
                    const { queue } = b;
                    return (
                        <g
                            key={b.key}
                            transform={`translate(${x} ${y})`}
                            class={queue ? "queue-box" : "stage-box"}
                        >
                            <rect
                                width={BOX.width}
                                height={BOX.height}
                                rx={queue ? 4 : 14}
                                fill={
                                    queue
                                        ? queue.usage === null
                                            ? named(null, "other", theme)
                                            : heat(queue.usage, theme)
                                        : undefined
                                }
                                class={
                                    b.stage?.bottleneck ? "slow" : queue?.track === selected ? "chosen" : ""
                                }
                            />
                            <text
                                x={BOX.width / 2}
                                y={b.line ? 20 : 28}
                                text-anchor="middle"
                                fill={queue && (theme === "light" || queue.usage === null) ? ON_FILL : undefined}
                            >
                                {short(b.title)}
                            </text>
                            <text
                                x={BOX.width / 2}
                                y={36}
                                text-anchor="middle"
                                class="box-line"
                                fill={queue && (theme === "light" || queue.usage === null) ? ON_FILL : undefined}
                            >
                                {b.line}
                            </text>
                            {queue ? (
                                <Press
                                    label={`Queue ${b.title}, ${b.line} used`}
                                    width={BOX.width}
                                    height={BOX.height}
                                    pressed={queue.track === selected}
                                    onPress={() => setArgs({ queue: queue.track })}
                                />
                            ) : (
                                <title>
                                    {b.title}
                                    {b.stage?.bottleneck ? ": bottleneck" : ""}
                                </title>
                            )}
                        </g>
                    );
                })}
            </svg>
        </div>
    );
}

function short(name: string): string {
    return name.length > 20 ? `${name.slice(0, 19)}…` : name;
}

interface QueueCardProps {
    queue: Queue;
    sizes: Sampled[];
    stages: Stage[];
    steps: QueueStep[];
}

// How often the queue was found empty and full in each step.
function StepCounts({ queue, steps }: { queue: Queue; steps: QueueStep[] }) {
    const theme = useTheme();
    const x = useMemo(() => steps.map((s, i) => s.num ?? i), [steps]);
    const series = useMemo(
        () => [
            { label: "empty", color: named(null, "bad", theme), points: true, values: steps.map((s) => s.empty) },
            ...(queue.capacity !== null
                ? [{ label: "full", color: byIndex(0, theme), points: true, values: steps.map((s) => s.full) }]
                : []),
        ],
        [steps, queue, theme]
    );
    return (
        <>
            <h3>Empty and full, by step</h3>
            <Chart
                label={`How often ${queue.name ?? NA} was empty and full in every step`}
                x={x}
                series={series}
                xFormat={count}
                yFormat={count}
                height={150}
            />
        </>
    );
}

function QueueCard({ queue, sizes, stages, steps }: QueueCardProps) {
    const theme = useTheme();
    const found = useMemo(() => steps.filter((s) => s.track === queue.track), [steps, queue.track]);
    const counted = found.filter((s) => !s.warmup);
    const inSteps = (n: number) => `${count(n)} of ${count(counted.length)} steps`;
    const mine = useMemo(() => sizes.filter((s) => s.track === queue.track), [sizes, queue.track]);
    const x = useMemo(() => mine.map((s) => s.ts), [mine]);
    const folded = mine.some((s) => s.low !== s.high);
    const series = useMemo(
        () => [
            {
                label: folded ? "mean size" : "size",
                color: byIndex(0, theme),
                fill: true,
                steps: !folded,
                points: mine.length < 3,
                values: mine.map((s) => s.mean),
            },
            ...(folded
                ? [
                      { label: "largest", color: byIndex(1, theme), values: mine.map((s) => s.high) },
                      { label: "smallest", color: byIndex(7, theme), values: mine.map((s) => s.low) },
                  ]
                : []),
            ...(queue.capacity !== null
                ? [
                      {
                          label: "capacity",
                          color: named(null, "bad", theme),
                          dash: [4, 4],
                          values: mine.map(() => queue.capacity),
                      },
                  ]
                : []),
        ],
        [mine, theme]
    );
    const facts = (name: string | null): [string, string][] => {
        const stage = stages.find((s) => s.stage === name && s.rank === queue.rank);
        return [
            ["Name", text(name)],
            ["Workers", count(stage?.workers ?? null)],
            ["Bottleneck", stage ? (stage.bottleneck ? "yes" : "no") : NA],
        ];
    };
    return (
        <Card title={`Queue ${queue.name ?? NA}`} wide>
            <div class="figures">
                <Figure label="mean size" value={count(queue.mean_size)} />
                <Figure label="capacity" value={count(queue.capacity)} />
                <Figure label="usage" value={percent(queue.usage)} />
                <Figure
                    label="empty"
                    value={percent(queue.empty_share)}
                    hint={`${count(queue.empty)} of ${count(queue.samples)} samples`}
                />
                <Figure
                    label="full"
                    value={percent(queue.full_share)}
                    hint={`${count(queue.full)} of ${count(queue.samples)} samples`}
                />
                <Figure label="samples" value={count(queue.samples)} />
                {counted.length > 0 && (
                    <Figure label="empty in" value={inSteps(counted.filter((s) => s.empty > 0).length)} />
                )}
                {counted.length > 0 && queue.capacity !== null && (
                    <Figure label="full in" value={inSteps(counted.filter((s) => (s.full ?? 0) > 0).length)} />
                )}
            </div>
            <div class="split">
                {mine.length > 0 ? (
                    <Chart
                        label={`Size of ${queue.name ?? NA} over time`}
                        x={x}
                        series={series}
                        xFormat={ns}
                        yFormat={count}
                        height={220}
                    />
                ) : (
                    <p class="state empty">No size of this queue was recorded.</p>
                )}
                <div class="split-side">
                    <h3>Producer</h3>
                    <Facts of={facts(queue.producer)} />
                    <h3>Consumer</h3>
                    <Facts of={facts(queue.consumer)} />
                </div>
            </div>
            {found.length > 1 && <StepCounts queue={queue} steps={found} />}
        </Card>
    );
}

const UNITS: Record<string, (value: number) => string> = {
    ms: (v) => ns(v * 1e6),
    "%": (v) => percent(v / 100),
};

// How long it took to get and to push batches, and what the processors did meanwhile.
function Counters({
    counters,
    values,
    rank,
}: {
    counters: Counter[];
    values: Sampled[];
    rank: number | null;
}) {
    const mine = counters.filter((c) => c.rank === rank && c.unit !== null && c.unit in UNITS);
    return (
        <div class="cards thirds">
            {mine.map((c, i) => (
                <CounterCard key={c.id} counter={c} at={i} values={values} />
            ))}
        </div>
    );
}

function CounterCard({ counter, at, values }: { counter: Counter; at: number; values: Sampled[] }) {
    const theme = useTheme();
    const show = UNITS[counter.unit ?? ""] ?? count;
    const mine = useMemo(() => values.filter((v) => v.track === counter.id), [values, counter.id]);
    const x = useMemo(() => mine.map((v) => v.ts), [mine]);
    const series = useMemo(
        () => [
            {
                label: "value",
                color: byIndex(at, theme),
                points: mine.length < 3,
                values: mine.map((v) => v.mean),
            },
        ],
        [mine, theme]
    );
    return (
        <Card
            title={counter.name ?? NA}
            aside={
                <span class="muted num">
                    {show(counter.low)} to {show(counter.high)}
                </span>
            }
        >
            <Chart
                label={counter.name ?? NA}
                x={x}
                xFormat={ns}
                yFormat={show}
                height={150}
                series={series}
                sync="pipeline"
            />
        </Card>
    );
}

type Data = [Queue[], Stage[], Verdict[], Sampled[], Counter[], Sampled[], QueueStep[]];

function Page({ of: [queues, stages, verdicts, sizes, counters, values, steps] }: { of: Data }) {
    const theme = useTheme();
    const { args } = useRoute();
    const ranks = [...new Set(queues.map((q) => q.rank))];
    const rank = ranks.find((r) => String(r) === args.get("rank")) ?? ranks[0] ?? null;
    const here = useMemo(() => queues.filter((q) => q.rank === rank), [queues, rank]);
    const parts = useMemo(() => stages.filter((s) => s.rank === rank), [stages, rank]);
    const selected = here.find((q) => String(q.track) === args.get("queue")) ?? here[0]!;
    return (
        <>
            <div class="page-head">
                <h1>Data pipeline</h1>
                {ranks.length > 1 && (
                    <select
                        class="select"
                        aria-label="Rank"
                        value={String(rank)}
                        onChange={(event) => setArgs({ rank: event.currentTarget.value, queue: null })}
                    >
                        {ranks.map((r) => (
                            <option key={String(r)} value={String(r)}>
                                {r === null ? "no rank" : `rank ${r}`}
                            </option>
                        ))}
                    </select>
                )}
            </div>
            <Card
                title="Stages and queues"
                wide
                note="Queues are coloured by mean usage; a bottleneck is red. Click a queue for its size over time."
            >
                {pipelineSentences(
                    parts,
                    verdicts.filter((v) => v.rank === rank)
                ).map((line) => (
                    <p key={line}>{line}</p>
                ))}
                <Graph queues={here} stages={parts} selected={selected.track} />
            </Card>
            <QueueCard key={selected.track} queue={selected} sizes={sizes} stages={stages} steps={steps} />
            <Card title="Mean usage of queues" wide>
                <Bars
                    label="Usage"
                    max={1}
                    parts={here.map((q): Part => ({
                        label: q.name ?? NA,
                        value: q.usage ?? 0,
                        shown: percent(q.usage),
                        color: q.usage === null ? named(null, "other", theme) : heat(q.usage, theme),
                        hint: `${q.name ?? NA}: ${count(q.mean_size)} of ${count(q.capacity)}`,
                    }))}
                />
            </Card>
            <Counters counters={counters} values={values} rank={rank} />
        </>
    );
}

export function Pipeline() {
    const loaded = all<Data>(
        useData("queues"),
        useData("stages"),
        useData("verdict"),
        useData("queue_sizes"),
        useData("counters"),
        useData("counter_values"),
        useData("queue_steps")
    );
    return (
        <div class="page">
            <Loaded of={loaded}>
                {(data) =>
                    data[0].length ? (
                        <Page of={data} />
                    ) : (
                        <>
                            <h1>Data pipeline</h1>
                            <p class="state empty">
                                This trace has no queues. MindSpore’s profiler records them, and a program can
                                with <code>opm_queue_define()</code>.
                            </p>
                        </>
                    )
                }
            </Loaded>
        </div>
    );
}
