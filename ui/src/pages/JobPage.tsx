// A job of many ranks: who holds it up and what that costs, where in ranks and steps, slow links, operators that are slow
// on some ranks, memory; down to the timeline of one rank.
import { useState } from "preact/hooks";
import * as api from "../api";
import { Card, Figure } from "../components/Card";
import { Chart } from "../components/Chart";
import { DataTable, type Column } from "../components/DataTable";
import { HeatCanvas } from "../components/HeatCanvas";
import { Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { grid, range, type Field, type JobStep, type Late, type Link, type Measure, type Memory, type Outlier, type PathPart, type Rank } from "../fleet";
import { bytes, count, NA, ns, percent } from "../format";
import { all, useLoad } from "../hooks";
import { byIndex } from "../palette";
import type { Step } from "../queries";
import { href, navigate, setArgs, useRoute } from "../router";
import { sum } from "../stats";
import { useTheme } from "../theme";

const MEASURES: { key: Measure; title: string; doc: string }[] = [
    { key: "late", title: "Lateness", doc: "how much later than the first of its step each rank comes to the collectives" },
    { key: "cost", title: "Cost", doc: "what a rank’s coming last cost the job" },
    { key: "total", title: "Step", doc: "duration of the step" },
    { key: "waited", title: "Wait", doc: "how long a rank waited for others" },
];

interface Asked {
    fleet: string;
    job: string;
}

function useAsk<T>({ fleet, job }: Asked, question: string) {
    return useLoad((signal) => api.askJob<T>(fleet, job, question, signal), [fleet, job, question]);
}

// The trace of a rank, at a step if it has that.
async function timelineOf({ fleet, job }: Asked, rank: number, num: number | null): Promise<string> {
    const { id } = await api.openRank(fleet, job, rank);
    const steps = num === null ? [] : api.records<Step>(await api.data(id, "step_trace"));
    const step = steps.find((s) => s.num === num);
    if (!step) return href("timeline", {}, id);
    const room = step.total_ns;
    return href("timeline", { from: Math.max(0, step.ts - room), to: step.ts + 2 * room, range: `${step.ts}-${step.ts + step.total_ns}` }, id);
}

function OpenTimeline({ asked, rank, num, title }: { asked: Asked; rank: number; num: number | null; title: string }) {
    const [said, setSaid] = useState<string | null>(null);
    const open = () => {
        setSaid("Opening …");
        timelineOf(asked, rank, num).then(navigate, (error: Error) => setSaid(error.message));
    };
    return (
        <>
            <button class="button" onClick={(event) => { event.stopPropagation(); open(); }}>{title}</button>
            {said && <span class="note" role="status"> {said}</span>}
        </>
    );
}

function HeatMap({ asked, fields, bin, ranks }: { asked: Asked; fields: Field[]; bin: number; ranks: Rank[] }) {
    const { args } = useRoute();
    const measure = MEASURES.find(({ key }) => key === args.get("show")) ?? MEASURES[0]!;
    const map = grid(fields, measure.key);
    const limits = range(map, measure.key);
    const [rank, num] = (args.get("at") ?? "").split("-").map(Number);
    const field = fields.find((f) => f.rank === rank && f.num === num);
    return (
        <Card title="Rank × step" wide
              note={`Colour: ${measure.doc}, from ${ns(limits[0])} (yellow) to ${ns(limits[1])} (red).${bin > 1 ? ` Of ${bin} steps in a column, the costliest.` : ""} Choose a field, and go on to that rank’s timeline.`}
              aside={<Tabs label="What" value={measure.key} options={MEASURES}
                           onChange={(key) => setArgs({ show: key === "late" ? null : key })} />}>
            <HeatCanvas label={`${measure.title} by rank and step`} grid={map} range={limits} show={ns}
                        chosen={field ?? null} onChoose={(to) => setArgs({ at: `${to.rank}-${to.num}` })} />
            {field && (
                <p class="heat-said" role="status">
                    Rank {field.rank} on {ranks.find((r) => r.rank === field.rank)?.host ?? "an unknown machine"}, step {field.num}:{" "}
                    {ns(field.total_ns)}, of which it waited {ns(field.waited_ns)} for others; coming last cost the job {ns(field.cost_ns)}.{" "}
                    <OpenTimeline key={`${field.rank}-${field.num}`} asked={asked} rank={field.rank} num={field.num} title="Open in the timeline" />
                </p>
            )}
        </Card>
    );
}

const LATE_COLUMNS: Column<Late>[] = [
    { key: "rank", title: "Rank", value: (l) => l.rank, numeric: true, width: "90px",
      show: (l) => <>{l.late === 1 && <span class="job-mark">late</span>}{l.rank}</> },
    { key: "host", title: "Machine", value: (l) => l.host, search: true },
    { key: "cost", title: "Cost", value: (l) => l.cost_ns, show: (l) => ns(l.cost_ns), numeric: true, width: "100px",
      doc: "what the job would save if it came as the last but one does, at each collective to which it came last" },
    { key: "share", title: "Share", value: (l) => l.share, show: (l) => percent(l.share), numeric: true, width: "80px", doc: "of the time of the steps" },
    { key: "worst", title: "Worst in", value: (l) => l.steps_worst, show: (l) => `${count(l.steps_worst)} of ${count(l.steps)}`, numeric: true, width: "110px",
      doc: "steps in which no rank cost more" },
    { key: "last", title: "Last to arrive", value: (l) => l.last_count, show: (l) => `${count(l.last_count)} of ${count(l.collectives)}`, numeric: true, width: "130px", doc: "collectives to which it came last" },
    { key: "late", title: "Wait caused", value: (l) => l.late_ns, show: (l) => ns(l.late_ns), numeric: true, width: "120px", doc: "how long the others waited for it, their mean" },
    { key: "waited", title: "Wait", value: (l) => l.waited_ns, show: (l) => ns(l.waited_ns), numeric: true, width: "100px", doc: "how long it waited for others" },
    { key: "clock", title: "Clock", value: (l) => l.clock_ns, show: (l) => ns(l.clock_ns), numeric: true, width: "100px", doc: "how far its clock is ahead of that of the lowest rank; taken off everywhere" },
];

const LINK_COLUMNS: Column<Link>[] = [
    { key: "between", title: "Between", value: (l) => (l.kind === "pair" ? `rank ${l.rank} → ${l.peer}` : l.comm),
      show: (l) => <>{l.kind === "pair" ? `rank ${l.rank} → ${l.peer}` : `all of ${l.comm ?? NA}`}{l.slow === 1 && <span class="job-mark">slow</span>}</>, search: true },
    { key: "name", title: "Transfer", value: (l) => l.name, search: true, width: "22%" },
    { key: "bytes", title: "Size", value: (l) => l.bytes, show: (l) => bytes(l.bytes), numeric: true, width: "100px" },
    { key: "count", title: "Count", value: (l) => l.count, show: (l) => count(l.count), numeric: true, width: "80px" },
    { key: "best", title: "Best", value: (l) => l.best_ns, show: (l) => ns(l.best_ns), numeric: true, width: "100px", doc: "the shortest: nobody waited for anybody" },
    { key: "rate", title: "Bandwidth", value: (l) => l.gbytes_per_s, show: (l) => (l.gbytes_per_s === null ? NA : `${l.gbytes_per_s.toPrecision(3)} GB/s`), numeric: true, width: "110px" },
    { key: "of", title: "Of median", value: (l) => l.of_median, show: (l) => percent(l.of_median), numeric: true, width: "100px", doc: "of others of this kind and size; below 70 % is slow" },
];

const OUTLIER_COLUMNS: Column<Outlier>[] = [
    { key: "rank", title: "Rank", value: (o) => o.rank, numeric: true, width: "70px" },
    { key: "host", title: "Machine", value: (o) => o.host, search: true, width: "14%" },
    { key: "name", title: "Operator", value: (o) => o.name, search: true },
    { key: "type", title: "Type", value: (o) => o.type, search: true, width: "12%" },
    { key: "count", title: "Count", value: (o) => o.count, show: (o) => count(o.count), numeric: true, width: "80px" },
    { key: "mean", title: "Mean there", value: (o) => o.mean_ns, show: (o) => ns(o.mean_ns), numeric: true, width: "110px" },
    { key: "median", title: "Elsewhere", value: (o) => o.median_ns, show: (o) => ns(o.median_ns), numeric: true, width: "110px", doc: "median of the means of all ranks" },
    { key: "factor", title: "Factor", value: (o) => o.factor, show: (o) => `${o.factor.toFixed(2)} ×`, numeric: true, width: "80px" },
    { key: "extra", title: "Extra", value: (o) => o.extra_ns, show: (o) => ns(o.extra_ns), numeric: true, width: "100px", doc: "what it took beyond that, all together" },
];

const MEMORY_COLUMNS: Column<Memory>[] = [
    { key: "rank", title: "Rank", value: (m) => m.rank, numeric: true, width: "70px" },
    { key: "host", title: "Machine", value: (m) => m.host, search: true, width: "18%" },
    { key: "counter", title: "Counter", value: (m) => m.counter, search: true },
    { key: "peak", title: "Peak", value: (m) => m.peak_bytes, show: (m) => bytes(m.peak_bytes), numeric: true, width: "110px" },
    { key: "of", title: "Of median", value: (m) => m.of_median, show: (m) => percent(m.of_median), numeric: true, width: "100px" },
    { key: "growth", title: "Growth", value: (m) => m.growth_bytes, show: (m) => (m.growth_bytes === null ? NA : `${m.growth_bytes < 0 ? "−" : ""}${bytes(Math.abs(m.growth_bytes))}`), numeric: true, width: "110px", doc: "from the first step to the last" },
];

const PATH_COLUMNS: Column<PathPart>[] = [
    { key: "what", title: "What bounds the steps", value: (p) => p.kind, search: true,
      show: (p) => (p.kind === "work" ? `work of rank ${p.rank} on its way to ${p.name ?? "a collective"}`
          : p.kind === "collective" ? `${p.name ?? "a collective"}, once rank ${p.rank} is there` : `from the last collective to the end, rank ${p.rank}`) },
    { key: "count", title: "Count", value: (p) => p.count, show: (p) => count(p.count), numeric: true, width: "80px" },
    { key: "total", title: "Time", value: (p) => p.total_ns, show: (p) => ns(p.total_ns), numeric: true, width: "110px" },
    { key: "share", title: "Share", value: (p) => p.share, show: (p) => percent(p.share), numeric: true, width: "90px", doc: "of the critical path" },
];

function rankColumns(asked: Asked): Column<Rank>[] {
    return [
        { key: "rank", title: "Rank", value: (r) => r.rank, numeric: true, width: "70px" },
        { key: "host", title: "Machine", value: (r) => r.host, search: true, width: "14%" },
        { key: "machine", title: "Device", value: (r) => r.machine, search: true, width: "14%" },
        { key: "steps", title: "Steps", value: (r) => r.steps, show: (r) => count(r.steps), numeric: true, width: "80px" },
        { key: "mean", title: "Mean step", value: (r) => r.mean_ns, show: (r) => ns(r.mean_ns), numeric: true, width: "110px" },
        { key: "spans", title: "Spans", value: (r) => r.spans, show: (r) => count(r.spans), numeric: true, width: "100px" },
        { key: "trace", title: "Trace", value: (r) => r.trace, search: true, show: (r) => <>{r.trace ?? NA}</> },
        { key: "open", title: "", value: () => null, width: "120px", show: (r) => (r.trace ? <OpenTimeline asked={asked} rank={r.rank} num={null} title="Timeline" /> : "") },
    ];
}

// The first thing to read.
function verdict(late: Late[], steps: number): string {
    const worst = late.filter((l) => l.late === 1);
    if (!late.length) return "No collective was recorded on several ranks, so it is not known who waits for whom.";
    const group = late.filter((l) => l.together_ns !== null);
    if (!worst.length && group.length) {
        const names = group.slice(0, 8).map((l) => `${l.rank}${l.host ? ` (${l.host})` : ""}`).join(", ");
        return `${count(group.length)} ranks come late together: ${names}${group.length > 8 ? ", …" : ""}. If they came as the next one does, the job would save ${ns(Math.max(...group.map((l) => l.together_ns ?? 0)))}. Stages of a pipeline meet like that, too.`;
    }
    if (!worst.length) return "No rank holds up the job: none costs 1 % of the steps, or more often than chance would have it.";
    return worst.map((l) => `Rank ${l.rank}${l.host ? ` on ${l.host}` : ""} holds up the job: it comes last to ${count(l.last_count)} of ${count(l.collectives)} collectives and costs ${ns(l.cost_ns)}, ${percent(l.share)} of the time of its steps${steps ? ` (${ns(l.cost_ns / steps)} a step)` : ""}.`).join(" ");
}

// What the figures are not of: ranks that are not here, recordings that do not count or are damaged.
function missing(ranks: Rank[]): string[] {
    const said = [], list = (some: number[]) => `${some.slice(0, 8).join(", ")}${some.length > 8 ? ", …" : ""}`;
    const named = (some: Rank[]) => `${count(some.length)} rank${some.length === 1 ? "" : "s"} (${list(some.map((r) => r.rank))})`;
    const world = Math.max(0, ...ranks.map((r) => r.world ?? 0)), here = new Set(ranks.map((r) => r.rank));
    const absent = world - ranks.filter((r) => r.rank < world).length, first = [];
    for (let rank = 0; rank < world && first.length < Math.min(absent, 9); rank++) if (!here.has(rank)) first.push(rank);
    if (absent > 0) said.push(`${count(absent)} of the job’s ${count(world)} ranks (${list(first)}) are not here.`);
    const twice = ranks.filter((r) => r.left_out), left = sum(twice, (r) => r.left_out), lost = ranks.filter((r) => r.lost);
    if (twice.length) said.push(`${named(twice)} recorded the same steps more than once: of these the recording that began last counts, and ${count(left)} ${left === 1 ? "is" : "are"} left out.`);
    if (lost.length) said.push(`Part of what ${named(lost)} recorded is missing in the trace.`);
    return said;
}

function Steps({ steps }: { steps: JobStep[] }) {
    const theme = useTheme();
    return (
        <Card title="Steps" wide note="Mean over the ranks, and the shortest and longest of each step: does the job become slower?">
            <Chart label="Duration of the steps over the ranks" x={steps.map((s) => s.num)} xLabel="step" yFormat={ns} height={180}
                   series={[{ label: "longest", color: byIndex(1, theme), values: steps.map((s) => s.max_ns) },
                            { label: "mean", color: byIndex(0, theme), values: steps.map((s) => s.mean_ns) },
                            { label: "shortest", color: byIndex(2, theme), values: steps.map((s) => s.min_ns) }]} />
        </Card>
    );
}

export function JobPage({ fleet, job }: Asked) {
    const asked = { fleet, job };
    const map = useLoad((signal) => api.askJobRows(fleet, job, "heatmap", signal), [fleet, job]);
    const first = all<[Late[], Rank[], JobStep[]]>(useAsk(asked, "late"), useAsk(asked, "ranks"), useAsk(asked, "steps"));
    const links = useAsk<Link>(asked, "links");
    const outliers = useAsk<Outlier>(asked, "outliers");
    const memory = useAsk<Memory>(asked, "memory");
    const path = useAsk<PathPart>(asked, "path");
    return (
        <main class="content" id="content" tabIndex={-1}>
            <div class="page">
                <h1>Job {job}</h1>
                <Loaded of={first}>
                    {([late, ranks, steps]) => (
                        <>
                            <p class="verdict">{verdict(late, steps.length)}</p>
                            {missing(ranks).map((text) => <p class="note" key={text}>{text}</p>)}
                            <div class="figures">
                                <Figure label="ranks" value={count(ranks.length)} />
                                <Figure label="machines" value={count(new Set(ranks.map((r) => r.host)).size)} />
                                <Figure label="steps" value={count(steps.length)} />
                                <Figure label="mean step" value={steps.length ? ns(sum(steps, (s) => s.mean_ns) / steps.length) : NA} />
                                <Figure label="lost to late ranks" value={late.length ? percent(sum(late, (l) => l.share ?? 0)) : NA} hint="of the time of the steps" />
                            </div>
                            <Loaded of={map} empty="">
                                {(rows) => (rows.rows.length
                                    ? <HeatMap asked={asked} fields={api.records<Field>(rows)} bin={rows.bin} ranks={ranks} />
                                    : <p class="state empty">No steps were recorded.</p>)}
                            </Loaded>
                            <Card title="Who is late, and what it costs" wide>
                                <DataTable label="Late ranks" columns={LATE_COLUMNS} rows={late} rowKey={(l) => l.rank} sort="" urlKey="l" maxHeight="320px" />
                            </Card>
                            <Card title="Critical path" wide note="Through the collectives of all steps: a collective goes on when its last rank is there.">
                                <Loaded of={path} empty="No collective was recorded on several ranks.">
                                    {(rows) => <DataTable label="Critical path" columns={PATH_COLUMNS} rows={rows} rowKey={(p) => `${p.kind} ${p.rank} ${p.name}`} sort="-total" urlKey="p" maxHeight="260px" />}
                                </Loaded>
                            </Card>
                            <Card title="Links" wide>
                                <Loaded of={links} empty="No transfers of known size were recorded.">
                                    {(rows) => <DataTable label="Links" columns={LINK_COLUMNS} rows={rows} rowKey={(l) => JSON.stringify([l.kind, l.name, l.comm, l.rank, l.peer, l.bytes])} sort="" urlKey="k" maxHeight="260px" />}
                                </Loaded>
                            </Card>
                            <Card title="Operators that are slow on some ranks" wide>
                                <Loaded of={outliers} empty="None: each operator takes as long on every rank.">
                                    {(rows) => <DataTable label="Outliers" columns={OUTLIER_COLUMNS} rows={rows} rowKey={(o) => `${o.rank} ${o.section} ${o.name}`} sort="-extra" urlKey="o" maxHeight="320px" />}
                                </Loaded>
                            </Card>
                            <Card title="Memory" wide note="The most that each rank took, by counter. What grows from step to step runs out in the end.">
                                <Loaded of={memory} empty="No counters of memory were recorded.">
                                    {(rows) => <DataTable label="Memory" columns={MEMORY_COLUMNS} rows={rows} rowKey={(m) => `${m.rank} ${m.device} ${m.counter}`} sort="-growth" urlKey="m" maxHeight="320px" />}
                                </Loaded>
                            </Card>
                            {steps.length > 1 && <Steps steps={steps} />}
                            <Card title="Ranks" wide>
                                <DataTable label="Ranks" columns={rankColumns(asked)} rows={ranks} rowKey={(r) => r.rank} sort="rank" urlKey="r" maxHeight="360px" />
                            </Card>
                        </>
                    )}
                </Loaded>
            </div>
        </main>
    );
}
