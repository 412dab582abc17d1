// A job of several ranks: who was slow in which step, who came late to which collective, and what
// exchanging data costs.
import { Card, Figure } from "../components/Card";
import { DataTable, type Column } from "../components/DataTable";
import { Empty, Loaded } from "../components/States";
import { Tabs } from "../components/Tabs";
import { bytes, bytesPerSecond, count, NA, ns, percent } from "../format";
import { all, useData } from "../hooks";
import { heat } from "../palette";
import type { Arrival, RankRow, Step } from "../queries";
import { href, navigate, setArgs, useRoute } from "../router";
import { groupBy, largest, smallest, sum } from "../stats";
import { useTheme } from "../theme";

const CELL_PX = 22;
const WIDE_PX = 44; // of few steps, so that their numbers fit
const FEW = 20;
const MOST_STEPS = 400; // of the heat map

const MEASURES = [
    { key: "total", title: "Step", of: (s: Step) => s.total_ns },
    { key: "exposed", title: "Exposed communication", of: (s: Step) => s.exposed_ns },
    { key: "collective", title: "Communication", of: (s: Step) => s.collective_ns },
    { key: "gap", title: "Gap", of: (s: Step) => s.gap_ns },
] as const;

function HeatMap({ steps }: { steps: Step[] }) {
    const theme = useTheme();
    const { args } = useRoute();
    const measure = MEASURES.find(({ key }) => key === args.get("show")) ?? MEASURES[0];
    const ranks = [...new Set(steps.map((s) => s.rank))].sort((a, b) => (a ?? -1) - (b ?? -1));
    const nums = [...new Set(steps.map((s) => s.num ?? 0))].sort((a, b) => a - b).slice(0, MOST_STEPS);
    const at = new Map(steps.map((s) => [`${s.rank}/${s.num ?? 0}`, s]));
    const wide = nums.length <= FEW ? WIDE_PX : CELL_PX;
    const values = steps.map(measure.of).filter((v): v is number => v !== null);
    const [low, high] = [smallest(values), largest(values)];
    return (
        <Card title="Rank × step" wide note={values.length
            ? `From ${ns(low)} (yellow) to ${ns(high)} (red). A rank that is redder than the others in a step is a straggler. Click a cell to see it in the timeline.`
            : "Not known for any step of this trace."}
              aside={<Tabs label="What" value={measure.key} onChange={(key) => setArgs({ show: key === "total" ? null : key })}
                           options={MEASURES.map(({ key, title }) => ({ key, title }))} />}>
            {values.length > 0 && (
                <div class="heat" role="table" aria-label={`${measure.title} by rank and step`}>
                    <div class="heat-row" role="row">
                        <span class="heat-name" role="columnheader">rank</span>
                        {nums.map((num, i) => (
                            <span key={num} role="columnheader" class="heat-step" style={{ width: `${wide}px` }}>
                                {i % Math.ceil(nums.length / 24) === 0 ? num : ""}
                            </span>
                        ))}
                    </div>
                    {ranks.map((rank) => (
                        <div key={rank ?? "none"} class="heat-row" role="row">
                            <span class="heat-name" role="rowheader">{rank ?? NA}</span>
                            {nums.map((num) => {
                                const step = at.get(`${rank}/${num}`);
                                const value = step ? measure.of(step) : null;
                                const label = `rank ${rank}, step ${num}: ${value === null ? "not recorded" : ns(value)}`;
                                return (
                                    <span key={num} role="cell" style={{ width: `${wide}px` }}>
                                        <button aria-label={label} title={label} disabled={!step} style={value === null ? {}
                                            : { background: heat(high > low ? (value - low) / (high - low) : 0, theme) }}
                                                onClick={() => step && navigate(href("timeline", {
                                                    from: step.ts, to: step.ts + step.total_ns, range: `${step.ts}-${step.ts + step.total_ns}` }))} />
                                    </span>
                                );
                            })}
                        </div>
                    ))}
                </div>
            )}
        </Card>
    );
}

const RANK_COLUMNS: Column<RankRow>[] = [
    { key: "rank", title: "Rank", value: (r) => r.rank, numeric: true, width: "70px" },
    { key: "steps", title: "Steps", value: (r) => r.steps, numeric: true, width: "70px" },
    { key: "step", title: "Mean step", value: (r) => r.step_ns, show: (r) => ns(r.step_ns), numeric: true },
    { key: "comm", title: "Communication", value: (r) => r.collective_ns, show: (r) => ns(r.collective_ns), numeric: true, doc: "of a step, on average" },
    { key: "exposed", title: "Exposed", value: (r) => r.exposed_ns, show: (r) => ns(r.exposed_ns), numeric: true,
      doc: "communication of a step during which nothing was computed, on average" },
    { key: "share", title: "Exposed share", value: (r) => share(r), show: (r) => percent(share(r)), numeric: true },
    { key: "last", title: "Last to arrive", value: (r) => r.last_count, show: (r) => (r.collectives ? `${count(r.last_count)} of ${count(r.collectives)}` : NA), numeric: true,
      doc: "collectives at which this rank arrived last" },
    { key: "late", title: "Wait caused", value: (r) => r.late_ns, show: (r) => ns(r.late_ns), numeric: true, doc: "time that the other ranks waited for this one: their mean, over all collectives" },
    { key: "waited", title: "Wait", value: (r) => r.waited_ns, show: (r) => ns(r.waited_ns), numeric: true, doc: "time that this rank waited for others, over all collectives" },
];

function share(r: RankRow): number | null {
    return r.exposed_ns === null || !r.step_ns ? null : r.exposed_ns / r.step_ns;
}

// The same collective of every step, over all ranks.
interface Meeting {
    key: string;
    name: string | null;
    nth: number;
    count: number;
    behind: number; // of the last rank, mean
    last: number | null; // the rank that came last most often
    lastShare: number;
    waited: number;
    dur: number;
    bytes: number | null;
    rate: number | null;
    span: number;
}

const BYTES: Record<string, number> = { float: 4, float32: 4, bfloat16: 2, half: 2, float16: 2, double: 8, float64: 8, long: 8, int64: 8,
                                        int: 4, int32: 4, short: 2, char: 1, uint8: 1, byte: 1, bool: 1 };

export function meetings(rows: Arrival[]): Meeting[] {
    return [...groupBy(rows, (r) => `${r.nth}|${r.name}`)].map(([key, of]) => {
        const worst = of.reduce((a, b) => (b.last > a.last ? b : a));
        const first = of[0]!;
        const size = BYTES[(first.dtype ?? "").toLowerCase().replace(/^c10::|^torch\./, "")];
        const moved = size !== undefined && first.elements !== null ? first.elements * size : null;
        // From when the last one is there: before, nobody can be done.
        const moving = smallest(of.map((r) => r.moving_ns));
        return {
            key, name: first.name, nth: first.nth, count: largest(of.map((r) => r.count)), behind: largest(of.map((r) => r.behind_ns)),
            last: worst.rank, lastShare: worst.last / worst.count, waited: sum(of, (r) => r.waited_ns) / of.length,
            dur: sum(of, (r) => r.dur_ns) / of.length, bytes: moved, rate: moved !== null && moving > 0 ? (moved / moving) * 1e9 : null,
            span: worst.span,
        };
    });
}

const MEETING_COLUMNS: Column<Meeting>[] = [
    { key: "name", title: "Collective", value: (m) => m.name, search: true },
    { key: "nth", title: "Index in step", value: (m) => m.nth, numeric: true, width: "110px" },
    { key: "count", title: "Count", value: (m) => m.count, numeric: true, width: "70px" },
    { key: "behind", title: "Arrival skew", value: (m) => m.behind, show: (m) => ns(m.behind), numeric: true, width: "130px",
      doc: "from the arrival of the first rank to that of the last, on average" },
    { key: "last", title: "Straggler", value: (m) => m.last, show: (m) => `rank ${m.last}, ${percent(m.lastShare)}`, width: "140px" },
    { key: "waited", title: "Wait", value: (m) => m.waited, show: (m) => ns(m.waited), numeric: true, width: "100px", doc: "mean of all ranks" },
    { key: "dur", title: "Duration", value: (m) => m.dur, show: (m) => ns(m.dur), numeric: true, width: "100px", doc: "mean, wait included" },
    { key: "bytes", title: "Message", value: (m) => m.bytes, show: (m) => bytes(m.bytes), numeric: true, width: "100px" },
    { key: "rate", title: "Bandwidth", value: (m) => m.rate, show: (m) => bytesPerSecond(m.rate), numeric: true, width: "110px",
      doc: "message size over the time from the arrival of the last rank" },
];

export function Ranks() {
    const loaded = all<[Step[], RankRow[], Arrival[]]>(useData("step_trace"), useData("ranks"), useData("lateness"));
    return (
        <div class="page">
            <h1>Ranks</h1>
            <Loaded of={loaded}>
                {([steps, ranks, late]) => {
                    const several = steps.filter((s) => s.rank !== null);
                    if (new Set(ranks.map((r) => r.rank)).size < 2) {
                        return <Empty why="This trace is of one rank. Merge the traces of all ranks to see stragglers: opmeter import RANK0 RANK1 … -o job.opm." />;
                    }
                    const list = meetings(late);
                    return (
                        <>
                            <div class="figures">
                                <Figure label="ranks" value={count(ranks.length)} />
                                <Figure label="mean step" value={ns(sum(ranks, (r) => r.step_ns) / ranks.length)} />
                                <Figure label="exposed communication" value={percent(sum(ranks, share) / ranks.length)} hint="of a step, mean of the ranks" />
                                <Figure label="straggler" value={mostLate(ranks)} />
                            </div>
                            <HeatMap steps={several} />
                            <Card title="Each rank" wide>
                                <DataTable label="Ranks" columns={RANK_COLUMNS} rows={ranks} rowKey={(r) => r.rank} sort="rank" urlKey="r" maxHeight="360px" />
                            </Card>
                            <Card title="Collectives" wide note={list.length ? "Which rank arrives last, and how long the others wait. Click a row to see the straggler’s in the timeline." : undefined}>
                                {list.length
                                    ? <DataTable label="Collectives" columns={MEETING_COLUMNS} rows={list} rowKey={(m) => m.key} sort="-behind" urlKey="c"
                                                 maxHeight="420px" onOpen={(m) => navigate(href("timeline", { span: m.span }))} />
                                    : <p class="state empty">No collective was recorded on several ranks.</p>}
                            </Card>
                        </>
                    );
                }}
            </Loaded>
        </div>
    );
}

function mostLate(ranks: RankRow[]): string {
    const worst = ranks.reduce((a, b) => ((b.late_ns ?? 0) > (a.late_ns ?? 0) ? b : a));
    return worst.late_ns ? `rank ${worst.rank}` : NA;
}
