// The parts of steps: on average, of a range chosen in the charts, or of one step.
import { useMemo } from "preact/hooks";
import { Card, Figure } from "../components/Card";
import { Chart } from "../components/Chart";
import { DataTable, type Column } from "../components/DataTable";
import { Loaded } from "../components/States";
import { StepLanes } from "../components/StepLanes";
import { count, NA, ns, percent } from "../format";
import { all, useData } from "../hooks";
import { useKeys } from "../keys";
import { byIndex, named } from "../palette";
import type { Collective, Step } from "../queries";
import { href, setArgs, useRoute } from "../router";
import { meanOf } from "../stats";
import { counted, lanesOf, splitSentence, stagesOf, stepGroups, type StepGroup } from "../steps";
import { useTheme, type Theme } from "../theme";

interface Trend {
    key: string;
    title: string;
    color: string;
    value: (step: Step) => number | null;
}

function trendsOf(steps: Step[], theme: Theme): Trend[] {
    const more: Omit<Trend, "color">[] = [
        { key: "update", title: "Optimizer", value: (s) => s.update_ns },
        { key: "collective", title: "Collectives", value: (s) => s.collective_ns },
        { key: "exposed", title: "Exposed communication", value: (s) => s.exposed_ns },
    ];
    // What takes no time in any step says nothing as a curve.
    const some = ({ value }: Pick<Trend, "value">) => steps.some((s) => (value(s) ?? 0) > 0);
    return [
        { key: "total", title: "Whole step", color: byIndex(10, theme), value: (s) => s.total_ns },
        ...stagesOf(steps).filter(some).map(({ key, title, value }) => ({
            key,
            title,
            value,
            color: named("stage", key, theme),
        })),
        ...more
            .filter(some)
            .map((trend) => ({
                ...trend,
                color: named("stage", trend.key === "exposed" ? "collective" : trend.key, theme),
            })),
    ];
}

const nameOf = (step: Step, index: number) => String(step.num ?? index + 1);

interface TrendCardProps {
    trend: Trend;
    steps: Step[];
    chosen: Step[];
    range: [number, number] | null; // places of the first and the last that were chosen
    onRange: (from: number, to: number) => void;
    onPick: (index: number) => void;
}

// Warm-up is drawn as points of its own, so that it does not pass for the rest.
function TrendCard({ trend, steps, chosen, range, onRange, onPick }: TrendCardProps) {
    const theme = useTheme();
    const x = useMemo(() => steps.map((_, i) => i), [steps]);
    const warm = steps.some((s) => s.warmup);
    const series = useMemo(
        () => [
            {
                label: trend.title,
                color: trend.color,
                points: steps.length < 3,
                values: steps.map((s) => (s.warmup ? null : trend.value(s))),
            },
            ...(warm
                ? [
                      {
                          label: "warm-up",
                          color: named(null, "other", theme),
                          points: true,
                          values: steps.map((s) => (s.warmup ? trend.value(s) : null)),
                      },
                  ]
                : []),
        ],
        [steps, trend.key, theme]
    );
    const mean = meanOf(chosen, trend.value);
    const total = meanOf(chosen, (s) => s.total_ns);
    return (
        <Card
            title={trend.title}
            aside={
                <span class="muted num">
                    {ns(mean)}
                    {trend.key !== "total" && mean !== null && total ? ` · ${percent(mean / total)}` : ""}
                </span>
            }
        >
            <Chart
                label={`${trend.title} over ${steps.length} steps`}
                x={x}
                xLabel="step"
                height={150}
                sync="steps"
                xFormat={(i) => (Number.isInteger(i) && steps[i] ? nameOf(steps[i], i) : "")}
                yFormat={ns}
                series={series}
                onSelect={onRange}
                onPick={onPick}
                chosen={range && [range[0] - 0.5, range[1] + 0.5]}
            />
        </Card>
    );
}

const columns: Column<Step>[] = [
    { key: "num", title: "Step", value: (s) => s.num, numeric: true, width: "80px" },
    { key: "ts", title: "Start", value: (s) => s.ts, show: (s) => ns(s.ts), numeric: true },
    { key: "total", title: "Total", value: (s) => s.total_ns, show: (s) => ns(s.total_ns), numeric: true },
    { key: "gap", title: "Gap", value: (s) => s.gap_ns, show: (s) => ns(s.gap_ns), numeric: true },
    {
        key: "forward",
        title: "Forward",
        value: (s) => s.forward_ns,
        show: (s) => ns(s.forward_ns),
        numeric: true,
    },
    {
        key: "backward",
        title: "Backward",
        value: (s) => s.backward_ns,
        show: (s) => ns(s.backward_ns),
        numeric: true,
    },
    {
        key: "fp_bp",
        title: "Forward + backward",
        value: (s) => s.fp_bp_ns,
        show: (s) => ns(s.fp_bp_ns),
        numeric: true,
        doc: "Forward and backward pass together",
    },
    { key: "tail", title: "Tail", value: (s) => s.tail_ns, show: (s) => ns(s.tail_ns), numeric: true },
    {
        key: "exposed",
        title: "Exposed",
        value: (s) => s.exposed_ns,
        show: (s) => ns(s.exposed_ns),
        numeric: true,
        doc: "Collectives during which nothing is computed",
    },
    {
        key: "notes",
        title: "Note",
        value: (s) => (s.warmup ? "warm-up" : s.outlier ? "outlier" : ""),
        width: "110px",
        show: (s) => <>{s.warmup ? "warm-up " : s.outlier ? <span class="badge warn">outlier</span> : ""}</>,
    },
    {
        key: "link",
        title: "",
        value: () => "",
        width: "90px",
        show: (s) => (
            <a
                href={href("timeline", { from: s.ts, to: s.ts + s.total_ns })}
                onClick={(event) => event.stopPropagation()}
            >
                timeline
            </a>
        ),
    },
];

// The steps that the address names, by their place in the group.
function choose(
    group: StepGroup,
    args: URLSearchParams
): { chosen: Step[]; one: number | null; range: [number, number] | null } {
    const { steps } = group;
    const at = args.get("step");
    const one = at === null ? -1 : steps.findIndex((s, i) => nameOf(s, i) === at);
    if (one >= 0) return { chosen: [steps[one]!], one, range: null };
    const from = Number(args.get("from") ?? NaN);
    const to = Number(args.get("to") ?? NaN);
    if (from >= 0 && to >= from) {
        const inside = steps.slice(from, to + 1);
        if (inside.length)
            return { chosen: counted(inside), one: null, range: [from, Math.min(to, steps.length - 1)] };
    }
    return { chosen: counted(steps), one: null, range: null };
}

function StepsOf({ groups, collectives }: { groups: StepGroup[]; collectives: Collective[] }) {
    const theme = useTheme();
    const { args } = useRoute();
    const group = groups.find(({ key }) => key === args.get("group")) ?? groups[0]!;
    const { steps } = group;
    const { chosen, one, range } = choose(group, args);
    const pick = (i: number) => {
        const step = steps[Math.max(0, Math.min(steps.length - 1, i))]!;
        setArgs({ step: nameOf(step, steps.indexOf(step)), from: null, to: null });
    };
    const brush = (a: number, b: number) => {
        const from = Math.max(0, Math.ceil(a));
        const to = Math.min(steps.length - 1, Math.floor(b));
        if (to >= from) setArgs({ step: null, from, to });
    };
    const average = () => setArgs({ step: null, from: null, to: null });
    useKeys(
        [
            { keys: "[", does: "step before", run: () => pick((one ?? steps.length) - 1) },
            { keys: "]", does: "step after", run: () => pick((one ?? -1) + 1) },
            { keys: "a", does: "average of all steps", run: average },
        ],
        [one, steps]
    );
    const lanes = useMemo(() => lanesOf(collectives, chosen), [collectives, args.toString()]);
    const trends = trendsOf(steps, theme);
    const outliers = chosen.filter((s) => s.outlier).length;
    const warm = steps.length - counted(steps).length;
    const title =
        one !== null
            ? `Step ${nameOf(steps[one]!, one)}`
            : range
              ? `Mean of steps ${nameOf(steps[range[0]]!, range[0])} to ${nameOf(steps[range[1]]!, range[1])}`
              : "Mean step";
    return (
        <>
            <div class="page-head">
                <h1>Step trace</h1>
                {groups.length > 1 && (
                    <select
                        class="select"
                        aria-label="Model and rank"
                        value={group.key}
                        onChange={(event) =>
                            setArgs({ group: event.currentTarget.value, step: null, from: null, to: null })
                        }
                    >
                        {groups.map(({ key, title: t }) => (
                            <option key={key} value={key}>
                                {t}
                            </option>
                        ))}
                    </select>
                )}
                <label class="field">
                    Step
                    <input
                        class="input short"
                        type="number"
                        value={one !== null ? nameOf(steps[one]!, one) : ""}
                        placeholder="mean"
                        onChange={(event) =>
                            setArgs({ step: event.currentTarget.value || null, from: null, to: null })
                        }
                    />
                </label>
                <button class="button" onClick={average} disabled={one === null && !range}>
                    Mean of all
                </button>
                <span class="muted">Drag in a chart to choose steps, click to choose one.</span>
            </div>
            <Card
                title={title}
                wide
                note={splitSentence(chosen)}
                aside={
                    one !== null && (
                        <a
                            class="more"
                            href={href("timeline", {
                                from: steps[one]!.ts,
                                to: steps[one]!.ts + steps[one]!.total_ns,
                            })}
                        >
                            Timeline
                        </a>
                    )
                }
            >
                <div class="figures">
                    <Figure
                        label={one !== null ? "duration" : "mean duration"}
                        value={ns(meanOf(chosen, (s) => s.total_ns))}
                    />
                    <Figure label="steps" value={count(chosen.length)} />
                    {one === null && !range && <Figure label="warm-up excluded" value={count(warm)} />}
                    {outliers > 0 && <Figure label="outliers" value={count(outliers)} />}
                    {meanOf(chosen, (s) => s.exposed_ns) !== null && (
                        <Figure
                            label="exposed communication"
                            value={ns(meanOf(chosen, (s) => s.exposed_ns))}
                            hint="collectives during which nothing is computed"
                        />
                    )}
                </div>
                <StepLanes label={title} steps={chosen} lanes={lanes} />
                {chosen[0]?.fp_point &&
                    (chosen[0].split_by === "operators" ? (
                        <p class="note">
                            The first operator is <code>{chosen[0].fp_point}</code>, the last{" "}
                            <code>{chosen[0].bp_point ?? NA}</code>.
                        </p>
                    ) : (
                        <p class="note">
                            The forward pass starts with <code>{chosen[0].fp_point}</code>; the backward pass
                            ends with <code>{chosen[0].bp_point ?? NA}</code>.
                        </p>
                    ))}
            </Card>
            {steps.length > 1 && (
                <div class="cards thirds">
                    {trends.map((trend) => (
                        <TrendCard
                            key={trend.key}
                            trend={trend}
                            steps={steps}
                            chosen={chosen}
                            range={one === null ? range : [one, one]}
                            onRange={brush}
                            onPick={pick}
                        />
                    ))}
                </div>
            )}
            <Card title="Steps" wide>
                <DataTable
                    label="Steps"
                    rows={steps}
                    rowKey={(s) => s.ts}
                    urlKey="s"
                    maxHeight="420px"
                    columns={columns.filter(
                        (c) =>
                            !["gap", "forward", "backward", "fp_bp", "tail", "exposed"].includes(c.key) ||
                            steps.some((s) => c.value(s) !== null)
                    )}
                    selected={one === null ? null : steps[one]!.ts}
                    onOpen={(s) => pick(steps.indexOf(s))}
                />
            </Card>
        </>
    );
}

export function Steps() {
    const loaded = all<[Step[], Collective[]]>(useData("step_trace"), useData("collectives"));
    return (
        <div class="page">
            <Loaded of={loaded}>
                {([steps, collectives]) =>
                    steps.length ? (
                        <StepsOf groups={stepGroups(steps)} collectives={collectives} />
                    ) : (
                        <NoSteps />
                    )
                }
            </Loaded>
        </div>
    );
}

function NoSteps() {
    return (
        <>
            <h1>Step trace</h1>
            <p class="state empty">
                This trace has no steps: its source marks none, and no sequence of operators repeats in it.
            </p>
        </>
    );
}
