// The trace at a glance.
import type { ComponentChildren } from "preact";
import { Card, Facts, Figure } from "../components/Card";
import { Headline } from "../components/Headline";
import { Histogram } from "../components/Histogram";
import { Bars, Donut, Legend, StackBar, type Part } from "../components/Shares";
import { Empty, Loaded } from "../components/States";
import { StepLanes } from "../components/StepLanes";
import { AdviceList } from "../components/AdviceList";
import { count, date, NA, ns, percent, text } from "../format";
import { all, useData, useTrace } from "../hooks";
import { facts } from "../machine";
import { BUCKETS } from "../occupation";
import { named } from "../palette";
import type {
    Advice,
    Latency,
    Loss,
    Meta,
    Occupation,
    OperatorType,
    Queue,
    Reconciliation,
    Region,
    Source,
    Stage,
    Step,
    Stream,
    Verdict,
} from "../queries";
import { badgeOf, verdictOn } from "../losses";
import { pipelineSentences } from "../pipeline";
import { href } from "../router";
import { groupBy, percentile, sum } from "../stats";
import { ALL_STEPS, counted, stepGroups } from "../steps";
import { useTheme } from "../theme";
import { useTypeColors } from "../typeColors";

function More({ to, children }: { to: string; children: ComponentChildren }) {
    return (
        <a class="more" href={to}>
            {children}
        </a>
    );
}

interface Timed {
    title: string; // what was timed
    unit: string; // one of them
    values: number[]; // ns, without warm-up
    warmup: number;
    summary: Latency | null; // of exactly these values
}

// Marked steps where there are some, or an optimizer's, else labelled regions; the kind with the
// most first. Steps that were found by repetition may be layers: they are no latency.
function timings(latency: Latency[], steps: Step[], regions: Region[]): Timed[] {
    const marked = steps.filter((s) => s.found_by !== "repetition");
    const groups = stepGroups(marked).map((group): Timed => {
        const same = latency.filter((l) => l.scope === "step" && l.name === group.steps[0]!.model);
        const ranks = new Set(steps.map((s) => s.rank)).size;
        return {
            title: group.title,
            unit: "step",
            values: group.steps.filter((s) => !s.warmup).map((s) => s.total_ns),
            warmup: sum(group.steps, (s) => s.warmup),
            summary: ranks === 1 && same.length === 1 ? same[0]! : null,
        };
    });
    const named = groupBy(
        latency.filter((l) => l.scope === "record"),
        (l) => l.name ?? ""
    );
    const labels = [...named.values()].map((of): Timed => {
        const label = of[0]!.name;
        return {
            title: label ?? NA,
            unit: "region",
            values: regions.filter((r) => r.label === label && !r.warmup && r.dur >= 0).map((r) => r.dur),
            warmup: sum(of, (l) => l.warmup_count),
            summary: of.length === 1 ? of[0]! : null,
        };
    });
    return [...groups, ...labels]
        .filter((t) => t.values.length)
        .sort(
            (a, b) =>
                Number(b.unit === "step") - Number(a.unit === "step") || b.values.length - a.values.length
        );
}

function inShort(of: Timed): string {
    const median = percentile([...of.values].sort((a, b) => a - b), 0.5);
    const title = of.unit === "region" ? `region “${of.title}”` : of.title;
    return of.values.length === 1
        ? `${title}, once, ${ns(median)}`
        : `${title}, ${count(of.values.length)} times, median ${ns(median)}`;
}

function LatencyCard() {
    const theme = useTheme();
    const trace = useTrace();
    const loaded = all<[Latency[], Step[], Region[]]>(
        useData("latency"),
        useData("step_trace"),
        useData("records")
    );
    return (
        <Loaded of={loaded}>
            {([latency, steps, regions]) => {
                const timed = timings(latency, steps, regions);
                const first = timed[0];
                if (!first) {
                    return (
                        <Card
                            title="Time"
                            wide
                            aside={steps.length > 0 && <More to={href("steps")}>Step trace</More>}
                        >
                            <div class="figures">
                                <Figure label="whole trace" value={ns(trace.duration_ns)} />
                                <Figure label="spans" value={count(trace.rows.span ?? null)} />
                            </div>
                            <p class="note">
                                No step, inference or labelled region is marked in this trace: there is no
                                latency to tell.{" "}
                                {steps.length > 0 &&
                                    `Its operators repeat ${count(steps.length)} times, by steps or by layers, with a median of ${ns(
                                        percentile(steps.map((s) => s.total_ns).sort((a, b) => a - b), 0.5)
                                    )} (inferred).`}
                            </p>
                        </Card>
                    );
                }
                const ascending = [...first.values].sort((a, b) => a - b);
                const at = (p: number) => percentile(ascending, p);
                const known = first.summary;
                const others = timed.slice(1, 4).map(inShort);
                return (
                    <Card
                        title={
                            first.unit === "step"
                                ? `Latency of a step${first.title === ALL_STEPS ? "" : `: ${first.title}`}`
                                : `Region: ${first.title}`
                        }
                        wide
                        aside={steps.length > 0 && <More to={href("steps")}>Step trace</More>}
                    >
                        <div class="figures">
                            <Figure label="median" value={ns(known?.median_ns ?? at(0.5))} />
                            <Figure label="minimum" value={ns(known?.min_ns ?? at(0))} />
                            <Figure label="90th percentile" value={ns(known?.p90_ns ?? at(0.9))} />
                            <Figure label="99th percentile" value={ns(known?.p99_ns ?? at(0.99))} />
                            <Figure label="maximum" value={ns(known?.max_ns ?? at(1))} />
                            {known && <Figure label="steps per second" value={count(known.per_second)} />}
                            <Figure label="samples" value={count(known?.count ?? first.values.length)} />
                            <Figure
                                label="warm-up excluded"
                                value={count(known?.warmup_count ?? first.warmup)}
                            />
                        </div>
                        {at(0) === at(1) ? (
                            <p class="note">
                                {first.values.length === 1
                                    ? "Only one was measured: there is no distribution."
                                    : "All took the same time."}
                            </p>
                        ) : (
                            <Histogram
                                label="Distribution"
                                values={first.values}
                                color={named("stage", "forward", theme)}
                                marks={[
                                    { label: "median", value: at(0.5) },
                                    { label: "p90", value: at(0.9) },
                                    { label: "p99", value: at(0.99) },
                                ]}
                            />
                        )}
                        {others.length > 0 && <p class="note">Also: {others.join("; ")}.</p>}
                    </Card>
                );
            }}
        </Loaded>
    );
}

// Nothing for a trace without steps: the card above says so.
function StepCard() {
    const steps = useData<Step>("step_trace");
    if (steps.state === "ready" && !steps.value.length) return null;
    return (
        <Card title="Step trace" aside={<More to={href("steps")}>Details</More>}>
            <Loaded of={steps}>
                {(rows) => {
                    const group = stepGroups(rows)[0]!;
                    const of = counted(group.steps);
                    return (
                        <>
                            <p class="note">
                                {group.title === ALL_STEPS ? "Mean" : `${group.title}: mean`} of{" "}
                                {count(of.length)} {of.length === 1 ? "step" : "steps"}
                                {of.some((s) => s.found_by === "repetition") ? ", inferred from repetition" : ""}.
                            </p>
                            <StepLanes label="Mean step" steps={of} lanes={[]} />
                        </>
                    );
                }}
            </Loaded>
        </Card>
    );
}

const TYPES_SHOWN = 7;
const DEVICES_SHOWN = 4;

function TypesCard() {
    const theme = useTheme();
    const color = useTypeColors();
    const types = useData<OperatorType>("op_types");
    return (
        <Card title="Where the time goes" aside={<More to={href("operators")}>Operators</More>}>
            <Loaded of={types} empty="Nothing in this trace was timed.">
                {(rows) => {
                    const section = rows.some((t) => t.section === "device") ? "device" : "host";
                    const of = rows.filter((t) => t.section === section && (t.time_ns ?? 0) > 0);
                    const shown = of.length === TYPES_SHOWN + 1 ? of.length : TYPES_SHOWN; // one other can as well be named
                    const parts = of.slice(0, shown).map((t): Part => ({
                        label: t.type ?? NA,
                        value: t.time_ns!,
                        share: t.share,
                        shown: ns(t.time_ns),
                        color: color(t.type),
                        href: href("operators", { type: t.type, section }),
                        hint: `${t.type ?? NA}: ${count(t.ops)} operators, ${count(t.count)} executions`,
                    }));
                    const rest = of.slice(shown);
                    const other = sum(rest, (t) => t.time_ns);
                    if (rest.length) {
                        parts.push({
                            label: `${rest.length} others`,
                            value: other,
                            share: sum(rest, (t) => t.share),
                            shown: ns(other),
                            color: named(null, "other", theme),
                        });
                    }
                    return (
                        <Donut
                            label="Time by operator type"
                            parts={parts}
                            center={ns(sum(of, (t) => t.time_ns))}
                        />
                    );
                }}
            </Loaded>
        </Card>
    );
}

function OccupationCard() {
    const theme = useTheme();
    const occupation = useData<Occupation>("occupation");
    return (
        <Card title="Time breakdown">
            <Loaded of={occupation}>
                {(rows) => {
                    const parts = BUCKETS.filter(({ key }) => key !== "not_recorded").map(({ key, title, doc }): Part => {
                        const value = rows.find((o) => o.bucket === key)?.ns ?? 0;
                        return {
                            label: title,
                            value,
                            shown: ns(value),
                            hint: doc,
                            color: named("bucket", key, theme),
                        };
                    }).filter((part) => part.value > 0);
                    // Steps in which the device was not recorded say nothing of how the others were spent.
                    const unknown = rows.find((o) => o.bucket === "not_recorded")?.ns ?? 0;
                    const known = sum(parts, (part) => part.value);
                    if (!parts.length) return <Empty why="No span of this trace ended." />;
                    return (
                        <>
                            <StackBar label="Time breakdown" parts={parts} />
                            <Legend parts={parts} />
                            {unknown > 0 && (
                                <p class="note">
                                    The device was recorded in {percent(known / (known + unknown))} of the time of steps; shares are of that.
                                </p>
                            )}
                        </>
                    );
                }}
            </Loaded>
        </Card>
    );
}

function nameOf(of: Stream, ranked: boolean): string {
    return [of.device ?? "device", ranked && of.rank !== null ? `rank ${of.rank}` : null]
        .filter(Boolean)
        .join(", ");
}

const RECONCILED: { key: keyof Reconciliation; label: string; bucket: string }[] = [
    { key: "compute_ns", label: "computing", bucket: "compute" },
    { key: "exposed_ns", label: "exposed communication", bucket: "communication" },
    { key: "copy_ns", label: "copies", bucket: "copy" },
    { key: "idle_ns", label: "idle", bucket: "idle" },
];

// Nothing for a trace without hardware: there the operators are all there is to say.
function DevicesCard() {
    const theme = useTheme();
    const streams = useData<Stream>("streams");
    const places = useData<Reconciliation>("reconciliation");
    if (streams.state !== "ready" || !streams.value.length || places.state !== "ready") return null;
    const devices = streams.value.filter((s) => s.scope === "device");
    const lines = streams.value.filter((s) => s.scope === "stream");
    const ranked = new Set(devices.map((d) => d.rank)).size > 1;
    return (
        <Card
            title={devices.length === 0 ? "Streams" : devices.length === 1 ? "Device" : "Devices"}
            note="Within steps, without warm-up, until all they launched is done. Without steps: from the first to the last activity."
        >
            {devices.slice(0, DEVICES_SHOWN).map((d) => {
                const place = places.value.find((p) => p.device === d.device && p.rank === d.rank);
                const parts = RECONCILED.map(({ key, label, bucket }): Part => ({
                    label,
                    value: Number(place?.[key] ?? 0),
                    shown: ns(Number(place?.[key] ?? 0)),
                    color: named("bucket", bucket, theme),
                })).filter((part) => part.value > 0);
                const known = place ? place.wall_ns - place.not_recorded_ns : 0;
                return (
                    <div key={nameOf(d, true)} class="device">
                        <p>
                            <strong>{nameOf(d, ranked)}</strong>{" "}
                            <span class="muted">
                                {place && known > 0 && `${percent(place.compute_ns / known)} computing, `}
                                {count(d.kernels)} kernels, {count(d.copies)} copies
                            </span>
                        </p>
                        {parts.length > 0 && <StackBar label={nameOf(d, ranked)} parts={parts} />}
                        <Legend parts={parts} />
                        {place && place.steps_not_recorded > 0 && (
                            <p class="note">
                                {count(place.steps)} steps were recorded, {count(place.steps_not_recorded)} were not.
                            </p>
                        )}
                        {d.longest_wait_ns !== null && (
                            <p class="note">
                                Longest idle gap:{" "}
                                <a
                                    href={href("timeline", {
                                        from: d.longest_wait_ts,
                                        to: (d.longest_wait_ts ?? 0) + d.longest_wait_ns,
                                    })}
                                >
                                    {ns(d.longest_wait_ns)}
                                </a>
                                .
                            </p>
                        )}
                    </div>
                );
            })}
            {devices.length > DEVICES_SHOWN && (
                <p class="note">And {count(devices.length - DEVICES_SHOWN)} more.</p>
            )}
            <details open={devices.length === 0}>
                <summary>
                    {count(lines.length)} {lines.length === 1 ? "stream" : "streams"}
                </summary>
                <table class="plain">
                    <thead>
                        <tr>
                            <th>Stream</th>
                            <th class="num">Kernels</th>
                            <th class="num">Copies</th>
                            <th class="num">Computing</th>
                            <th class="num">Idle</th>
                        </tr>
                    </thead>
                    <tbody>
                        {lines.map((s) => (
                            <tr key={s.track}>
                                <td class="cut" title={`${nameOf(s, true)}: ${s.stream ?? NA}`}>
                                    {ranked || devices.length > 1 ? `${nameOf(s, ranked)}: ` : ""}
                                    {s.stream ?? NA}
                                </td>
                                <td class="num">{count(s.kernels)}</td>
                                <td class="num">{count(s.copies)}</td>
                                <td class="num">{ns(s.run_ns)}</td>
                                <td class="num">{ns(s.wait_ns)}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </details>
        </Card>
    );
}

// Nothing for a trace without queues, as most are: the navigation says why.
function PipelineCard() {
    const theme = useTheme();
    const loaded = all<[Queue[], Stage[], Verdict[]]>(
        useData("queues"),
        useData("stages"),
        useData("verdict")
    );
    if (loaded.state === "ready" && !loaded.value[0].length) return null;
    return (
        <Card title="Input pipeline" aside={<More to={href("pipeline")}>Data pipeline</More>}>
            <Loaded of={loaded}>
                {([queues, stages, verdicts]) => {
                    return (
                        <>
                            {pipelineSentences(stages, verdicts).map((line) => (
                                <p key={line}>{line}</p>
                            ))}
                            <Bars
                                label="Queues"
                                max={1}
                                parts={queues.slice(0, 8).map((q): Part => ({
                                    label: q.name ?? NA,
                                    value: q.usage ?? 0,
                                    shown: percent(q.usage),
                                    color: named("bucket", "copy", theme),
                                    hint: `${q.name ?? NA}: mean size ${count(q.mean_size)} of ${count(q.capacity)}`,
                                }))}
                            />
                        </>
                    );
                }}
            </Loaded>
        </Card>
    );
}

function AdviceCard() {
    const advice = useData<Advice>("advice");
    return (
        <Card title="Advice" aside={<More to={href("advice")}>All advice</More>}>
            <Loaded of={advice} empty="No findings: the trace looks healthy.">
                {(rows) => <AdviceList advice={rows.slice(0, 3)} brief />}
            </Loaded>
        </Card>
    );
}

function MachineCard() {
    const meta = useData<Meta>("meta");
    return (
        <Card title="Model, engine and machine">
            <Loaded of={meta} empty="The trace has no metadata.">
                {(rows) => (
                    <>
                        <Facts of={facts(rows)} />
                        <details>
                            <summary>All metadata ({count(rows.length)})</summary>
                            <Facts of={rows.map((m): [string, string] => [m.key, text(m.value)])} />
                        </details>
                    </>
                )}
            </Loaded>
        </Card>
    );
}

function ImportCard() {
    const trace = useTrace();
    const loaded = all<[Loss[], Source[]]>(useData("import"), useData("sources"));
    return (
        <Card title="Import">
            <Loaded of={loaded}>
                {([losses, sources]) => {
                    const unread = sources.filter((s) => s.state !== "read");
                    // A converted file has those that it was made of beside itself.
                    const read = sources.filter((s) => s.state === "read" && !(sources.length > 1 && s.path?.endsWith(trace.path)));
                    return (
                        <>
                            <p>
                                {count(trace.rows.span ?? null)} spans on {count(trace.rows.track ?? null)}{" "}
                                {trace.rows.track === 1 ? "track" : "tracks"} from {count(read.length)}{" "}
                                {read.length === 1 ? "file" : "files"}
                                {unread.length > 0 && `; ${count(unread.length)} skipped`}.{" "}
                                {verdictOn(losses)}
                            </p>
                            {losses.length > 0 && (
                                <ul class="losses">
                                    {losses.map((l) => (
                                        <li key={l.name}>
                                            <span class={`badge ${l.severity === "loss" ? "bad" : "plain"}`}>
                                                {badgeOf(l)}
                                            </span>
                                            <span class="losses-count">{count(l.count)} ×</span>
                                            <span>{l.description}</span>
                                        </li>
                                    ))}
                                </ul>
                            )}
                            {unread.length > 0 && (
                                <details>
                                    <summary>Skipped files</summary>
                                    <Facts of={unread.map((s) => [s.path, s.note ?? s.state])} />
                                </details>
                            )}
                        </>
                    );
                }}
            </Loaded>
        </Card>
    );
}

// When the trace starts, in milliseconds: its times count from so long after the start of the clock.
export function startOf(meta: Meta[]): number | undefined {
    const of = (key: string) => meta.find((m) => m.key === key)?.value;
    const clock = of("clock.start_realtime_ns");
    const after = of("trace.start_ns") ?? "0";
    if (!clock || !/^-?\d+$/.test(clock) || !/^-?\d+$/.test(after)) return undefined;
    return Number((BigInt(clock) + BigInt(after)) / 1000000n);
}

export function Overview() {
    const trace = useTrace();
    const meta = useData<Meta>("meta");
    const start = meta.state === "ready" ? startOf(meta.value) : undefined;
    return (
        <div class="page">
            <div class="page-head">
                <h1>Overview</h1>
                <span class="muted">
                    {ns(trace.duration_ns)} recorded{start ? ` on ${date(start / 1e3)}` : ""}
                </span>
            </div>
            <Headline />
            <LatencyCard />
            <div class="cards flow">
                <TypesCard />
                <AdviceCard />
                <StepCard />
                <OccupationCard />
                <DevicesCard />
                <PipelineCard />
                <MachineCard />
                <ImportCard />
            </div>
        </div>
    );
}
