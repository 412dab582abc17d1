// How a language model serves: requests and what they consist of, times between tokens, iterations.
import { useMemo } from "preact/hooks";
import { Card, Figure } from "../components/Card";
import { Chart } from "../components/Chart";
import { DataTable, type Column } from "../components/DataTable";
import { Histogram } from "../components/Histogram";
import { Empty, Loaded } from "../components/States";
import { bytes, bytesPerSecond, count, flops, flopsPerSecond, NA, ns, percent, text } from "../format";
import { all, useData } from "../hooks";
import { goodput, PARTS, partsOf, readTime, reason, whereSlow, type PartName } from "../llm";
import { byIndex, named } from "../palette";
import type { LlmIteration, LlmLatency, LlmOperator, LlmPhase, LlmRequest, LlmRoof } from "../queries";
import { href, navigate, setArgs, useRoute } from "../router";
import { largest, sum } from "../stats";
import { useTheme, type Theme } from "../theme";

const SLOW_SHOWN = 8;

const COLORS: Record<PartName, (theme: Theme) => string> = {
    queue: (theme) => byIndex(7, theme),
    prefill: (theme) => byIndex(0, theme),
    host: (theme) => byIndex(2, theme),
    decode: (theme) => byIndex(4, theme),
    "set aside": (theme) => named(null, "other", theme),
};

function timeline([from, to]: [number, number]): string {
    const around = Math.max(1, (to - from) * 0.05);
    return href("timeline", { from: Math.round(from - around), to: Math.round(to + around), range: `${from}-${to}` });
}

function rate(perSecond: number | null): string {
    return perSecond === null ? NA : `${count(Number(perSecond.toPrecision(3)))}/s`;
}

function Head({ requests, latency, phases }: { requests: LlmRequest[]; latency: LlmLatency[]; phases: LlmPhase[] }) {
    const of = (metric: string) => latency.find((l) => l.metric === metric);
    const ended = requests.filter((r) => r.e2e_ns !== null);
    const from = requests.reduce((least, r) => Math.min(least, r.ts), Infinity);
    const to = ended.reduce((most, r) => Math.max(most, r.ts + r.e2e_ns!), -Infinity);
    const phase = (name: string) => phases.find((p) => p.phase === name)?.tokens_per_s ?? null;
    const tokens = (of: (r: LlmRequest) => number | null) => (requests.every((r) => of(r) === null) ? null : sum(requests, of));
    const made = tokens((r) => r.tokens_out);
    return (
        <div class="figures">
            {requests.length > 0 && (
                <>
                    <Figure label="requests" value={count(requests.length)} hint={`${count(ended.length)} ended`} />
                    <Figure label="tokens in" value={count(tokens((r) => r.tokens_in))} />
                    <Figure label="tokens out" value={count(made)} />
                    <Figure label="output tokens" value={to > from && made !== null ? rate((made * 1e9) / (to - from)) : NA}
                            hint="from the first arrival to the last token" />
                    <Figure label="TTFT, median" value={ns(of("time to first token")?.median_ns)} />
                    <Figure label="ITL, median" value={ns(of("between tokens (ITL)")?.median_ns)} />
                    <Figure label="ITL, p99" value={ns(of("between tokens (ITL)")?.p99_ns)} />
                </>
            )}
            <Figure label="prefill, tokens in" value={rate(phase("prefill"))} hint="by the time of the iterations that only read prompts" />
            <Figure label="decode, tokens out" value={rate(phase("decode"))} hint="by the time of the iterations that only make tokens" />
        </div>
    );
}

const LATENCY_COLUMNS: Column<LlmLatency>[] = [
    { key: "metric", title: "Latency", value: (l) => l.metric },
    { key: "count", title: "Count", value: (l) => l.count, show: (l) => count(l.count), numeric: true, width: "90px" },
    ...([["mean", "Mean"], ["median", "Median"], ["p90", "p90"], ["p99", "p99"], ["max", "Longest"], ["jitter", "Jitter"]] as const).map(
        ([key, title]): Column<LlmLatency> => ({
            key, title, numeric: true, width: "100px", value: (l) => l[`${key}_ns`], show: (l) => ns(l[`${key}_ns`]),
            ...(key === "jitter" ? { doc: "standard deviation" } : {}),
        })),
];

// The parts of a request, as long as it took in relation to the longest.
function Parts({ of, most }: { of: LlmRequest; most: number }) {
    const theme = useTheme();
    const parts = partsOf(of);
    if (!parts) return <span class="muted">{of.e2e_ns === null ? "not ended" : "parts not known"}</span>;
    return (
        <span class="request-parts" role="img" aria-label={parts.map((p) => `${p.name} ${ns(p.ns)}`).join(", ")}>
            {parts.filter((p) => p.ns > 0).map((p) => (
                <i key={p.name} title={`${p.name}: ${ns(p.ns)}`} style={{ width: `${(100 * p.ns) / most}%`, background: COLORS[p.name](theme) }} />
            ))}
        </span>
    );
}

function Requests({ requests }: { requests: LlmRequest[] }) {
    const theme = useTheme();
    const most = largest(requests.map((r) => r.e2e_ns ?? 0), 1);
    const columns = useMemo((): Column<LlmRequest>[] => [
        { key: "name", title: "Request", value: (r) => r.name, search: true, width: "120px" },
        { key: "parts", title: "Queue, prefill, host, decode", value: (r) => r.e2e_ns, show: (r) => <Parts of={r} most={most} /> },
        { key: "ts", title: "Arrival", value: (r) => r.ts, show: (r) => ns(r.ts), numeric: true, width: "80px" },
        ...([["e2e_ns", "End to end"], ["ttft_ns", "TTFT"], ["queue_ns", "Queue"], ["prefill_ns", "Prefill"],
             ["tpot_ns", "TPOT"], ["itl_max_ns", "Longest ITL"]] as const).map(
            ([key, title]): Column<LlmRequest> => ({ key, title, numeric: true, width: "80px", value: (r) => r[key], show: (r) => ns(r[key]) })),
        { key: "in", title: "In", value: (r) => r.tokens_in, numeric: true, width: "60px", doc: "tokens of the prompt" },
        { key: "out", title: "Out", value: (r) => r.tokens_out, numeric: true, width: "60px", doc: "tokens that were made" },
    ], [most]);
    return (
        <Card title="Requests" wide note="Click a request to see its time in the timeline."
              aside={<ul class="legend-row" aria-label="Parts of a request">
                  {PARTS.map((name) => <li key={name}><i class="swatch" style={{ background: COLORS[name](theme) }} />{name}</li>)}
              </ul>}>
            <DataTable label="Requests" columns={columns} rows={requests} rowKey={(r) => r.request} sort="ts" urlKey="r" maxHeight="440px"
                       onOpen={(r) => navigate(timeline([r.ts, r.ts + (r.e2e_ns ?? r.ttft_ns ?? 0)]))} />
        </Card>
    );
}

function Slow({ requests }: { requests: LlmRequest[] }) {
    const slow = requests.filter((r) => r.slow && r.cause !== null).sort((a, b) => (b.cause_ns ?? 0) - (a.cause_ns ?? 0));
    return (
        <Card title="Slow requests" wide note="Over 1.5 times the median end to end, or over twice the median time to the first token; the cause is what is most beyond the median of all.">
            {slow.length === 0 && <p class="state empty">None{requests.length < 3 ? ": it takes three requests to tell" : ""}.</p>}
            <ul class="slow-requests">
                {slow.slice(0, SLOW_SHOWN).map((r) => (
                    <li key={r.request}>
                        <strong>{text(r.name)}</strong>, {ns(r.e2e_ns)}: {reason(r)}. <a href={timeline(whereSlow(r))}>in the timeline</a>
                    </li>
                ))}
            </ul>
            {slow.length > SLOW_SHOWN && <p class="muted">{count(slow.length - SLOW_SHOWN)} more.</p>}
        </Card>
    );
}

function Limit({ name, label }: { name: "ttft" | "itl"; label: string }) {
    const { args } = useRoute();
    const now = args.get(name) ?? "";
    const wrong = now !== "" && readTime(now) === null;
    return (
        <label class="limit">
            {label}{" "}
            <input class={wrong ? "search short wrong" : "search short"} value={now} placeholder="such as 500ms" aria-invalid={wrong} spellcheck={false}
                   onInput={(event) => setArgs({ [name]: event.currentTarget.value || null })} />
        </label>
    );
}

function GoodputCard({ requests }: { requests: LlmRequest[] }) {
    const { args } = useRoute();
    const ttft = readTime(args.get("ttft") ?? "");
    const itl = readTime(args.get("itl") ?? "");
    const g = goodput(requests, ttft, itl);
    return (
        <Card title="Goodput" note="Requests whose first token, and every further one, came within these times.">
            <p class="limits"><Limit name="ttft" label="TTFT" /> <Limit name="itl" label="ITL" /></p>
            {ttft === null && itl === null ? <p class="muted">Give a limit: a number and ns, us, ms or s.</p> : (
                <p><strong>{count(g.good)} of {count(g.ended)}</strong> requests ({percent(g.ended ? g.good / g.ended : null)}), {rate(g.perSecond)}</p>
            )}
        </Card>
    );
}

function Gaps({ gaps, latency }: { gaps: { itl_ns: number }[]; latency: LlmLatency[] }) {
    const theme = useTheme();
    const values = useMemo(() => gaps.map((g) => g.itl_ns), [gaps]);
    const figures = latency.find((l) => l.metric === "between tokens (ITL)");
    return (
        <Card title="Times between tokens" note={figures && values.length < figures.count ? `Drawn from ${count(values.length)} of ${count(figures.count)}.` : undefined}>
            {values.length && figures
                ? <Histogram label="Times between tokens" values={values} color={byIndex(4, theme)}
                             marks={[{ label: "median", value: figures.median_ns }, { label: "p90", value: figures.p90_ns }, { label: "p99", value: figures.p99_ns }]} />
                : <p class="state empty">Single tokens are not known.</p>}
        </Card>
    );
}

const CHARTS = [
    { key: "dur_ns", title: "Time of an iteration", color: 0, show: ns },
    { key: "batch", title: "Requests in the batch", color: 2, show: count },
    { key: "context", title: "Tokens of context", color: 4, show: count },
] as const;

function Iterations({ iterations }: { iterations: LlmIteration[] }) {
    const theme = useTheme();
    const x = useMemo(() => iterations.map((i) => i.ts), [iterations]);
    const n = sum(iterations, (i) => i.iterations);
    const series = useMemo(() => CHARTS.map(({ key, title, color }) => [
        { label: n > iterations.length ? `${title}, mean` : title, color: byIndex(color, theme), values: iterations.map((i) => i[key]), steps: true,
          points: iterations.length < 3 },
    ]), [iterations, theme]);
    return (
        <Card title="Iterations over time" wide
              note={`${n > iterations.length ? `${count(n)} iterations in ${count(iterations.length)} parts. ` : ""}Drag over a stretch to see it in the timeline.`}>
            {CHARTS.map(({ key, title, show }, i) => iterations.some((it) => it[key] !== null) && (
                <div key={key}>
                    <h3>{title}</h3>
                    <Chart label={`${title} over time`} x={x} xFormat={ns} yFormat={show} series={series[i]!} height={150} sync="llm"
                           onSelect={(from, to) => navigate(timeline([Math.round(from), Math.round(to)]))} />
                </div>
            ))}
        </Card>
    );
}

const PHASE_COLUMNS: Column<LlmPhase>[] = [
    { key: "phase", title: "Phase", value: (p) => p.phase },
    { key: "iterations", title: "Iterations", value: (p) => p.iterations, show: (p) => count(p.iterations), numeric: true },
    { key: "time", title: "Time", value: (p) => p.time_ns, show: (p) => ns(p.time_ns), numeric: true },
    { key: "share", title: "Share", value: (p) => p.share, show: (p) => percent(p.share), numeric: true },
    { key: "mean", title: "Mean", value: (p) => p.mean_ns, show: (p) => ns(p.mean_ns), numeric: true },
    { key: "batch", title: "Batch", value: (p) => p.batch, show: (p) => count(p.batch), numeric: true, doc: "requests in an iteration, mean" },
    { key: "in", title: "Tokens in", value: (p) => p.tokens_in, show: (p) => count(p.tokens_in), numeric: true },
    { key: "out", title: "Tokens out", value: (p) => p.tokens_out, show: (p) => count(p.tokens_out), numeric: true },
    { key: "rate", title: "Tokens/s", value: (p) => p.tokens_per_s, show: (p) => rate(p.tokens_per_s), numeric: true, doc: "of decode tokens out, else tokens in" },
    { key: "device", title: "On devices", value: (p) => p.device_ns, show: (p) => ns(p.device_ns), numeric: true },
    { key: "each", title: "For a token", value: (p) => p.device_per_token_ns, show: (p) => ns(p.device_per_token_ns), numeric: true, doc: "of the time on devices" },
];

const OPERATOR_COLUMNS: Column<LlmOperator>[] = [
    { key: "phase", title: "Phase", value: (o) => o.phase, width: "100px" },
    { key: "operator", title: "Operator", value: (o) => o.operator },
    { key: "time", title: "Time", value: (o) => o.device_ns, show: (o) => ns(o.device_ns), numeric: true, width: "100px" },
    { key: "share", title: "Share of phase", value: (o) => o.share, show: (o) => percent(o.share), numeric: true, width: "130px" },
    { key: "count", title: "Count", value: (o) => o.kernels, show: (o) => count(o.kernels), numeric: true, width: "90px" },
];

const ROOF_COLUMNS: Column<LlmRoof>[] = [
    { key: "phase", title: "Phase", value: (r) => r.phase, width: "100px" },
    { key: "flops", title: "FLOPs a token", value: (r) => r.flops_per_token, show: (r) => flops(r.flops_per_token), numeric: true },
    { key: "bytes", title: "Bytes a token", value: (r) => r.bytes_per_token, show: (r) => bytes(r.bytes_per_token), numeric: true,
      doc: "weights once for a whole batch" },
    { key: "gflops", title: "FLOP/s", value: (r) => r.gflops_per_s, show: (r) => flopsPerSecond(r.gflops_per_s === null ? null : r.gflops_per_s * 1e9), numeric: true },
    { key: "gbytes", title: "Bytes/s", value: (r) => r.gbytes_per_s, show: (r) => bytesPerSecond(r.gbytes_per_s === null ? null : r.gbytes_per_s * 1e9), numeric: true },
    { key: "peak", title: "Of peak", value: (r) => r.share_of_flops, show: (r) => percent(r.share_of_flops), numeric: true },
    { key: "band", title: "Of bandwidth", value: (r) => r.share_of_bandwidth, show: (r) => percent(r.share_of_bandwidth), numeric: true },
    { key: "roof", title: "Roof", value: (r) => r.roof, width: "90px", doc: "which of both the work would take longer by" },
];

type Data = [LlmRequest[], LlmLatency[], { itl_ns: number }[], LlmIteration[], LlmPhase[], LlmOperator[], LlmRoof[]];

export function Llm() {
    const loaded = all<Data>(useData("llm_requests"), useData("llm_latency"), useData("llm_gaps"), useData("llm_iterations"), useData("llm_phases"),
                             useData("llm_operators"), useData("llm_roofs"));
    return (
        <div class="page">
            <h1>Language model</h1>
            <Loaded of={loaded}>
                {([requests, latency, gaps, iterations, phases, operators, roofs]) => !requests.length && !phases.length
                    ? <Empty why="Nothing in this trace tells of iterations or requests of a language model. docs/llm.md says what does." />
                    : (
                        <>
                            <Head requests={requests} latency={latency} phases={phases} />
                            {requests.length > 0 ? (
                                <>
                                    <Card title="Latency" wide>
                                        <DataTable label="Latency" columns={LATENCY_COLUMNS} rows={latency} rowKey={(l) => l.metric} sort="" urlKey="l" />
                                    </Card>
                                    <Requests requests={requests} />
                                    <div class="cards">
                                        <Gaps gaps={gaps} latency={latency} />
                                        <GoodputCard requests={requests} />
                                    </div>
                                    <Slow requests={requests} />
                                </>
                            ) : <p class="note">Nothing in this trace tells of requests: there is no time to the first token.</p>}
                            {phases.length > 0 && (
                                <Card title="Iterations by phase" wide>
                                    <DataTable label="Phases" columns={PHASE_COLUMNS} rows={phases} rowKey={(p) => p.phase} sort="" urlKey="p" />
                                </Card>
                            )}
                            {roofs.length > 0 && (
                                <Card title="Work by phase" wide note="Against what the machine was measured to do.">
                                    <DataTable label="Work" columns={ROOF_COLUMNS} rows={roofs} rowKey={(r) => r.phase ?? ""} sort="" urlKey="w" />
                                </Card>
                            )}
                            {operators.length > 0 && (
                                <Card title="Operators of each phase" wide note="Those that take longest, five of each.">
                                    <DataTable label="Operators" columns={OPERATOR_COLUMNS} rows={operators} rowKey={(o) => `${o.phase} ${o.operator}`} sort="" urlKey="o" />
                                </Card>
                            )}
                            {iterations.length > 0 && <Iterations iterations={iterations} />}
                        </>
                    )}
            </Loaded>
        </div>
    );
}
