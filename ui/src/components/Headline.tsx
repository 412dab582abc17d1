// The first thing to read: how long a step takes, how busy the device is, what is lost most, and where
// to look.
import { count, ns, percent } from "../format";
import { all, useData } from "../hooks";
import { BUCKETS } from "../occupation";
import type { Latency, Occupation, Operator, Reconciliation, Step, Stream } from "../queries";
import { href } from "../router";
import { groupBy, percentile, sum } from "../stats";
import { Card, Figure } from "./Card";
import { Loaded } from "./States";

interface Finding {
    text: string;
    to: string;
}

const NO_LOSS: readonly string[] = ["compute", "overlap", "not_recorded"];
const LEAST_LOSS = 0.005; // of the time: less is none

// Around a stretch of time, so that it stands in the middle.
function around(ts: number, dur: number): string {
    const room = Math.max(dur, 1000);
    return href("timeline", { from: Math.max(0, Math.round(ts - room)), to: Math.round(ts + dur + room), range: `${Math.round(ts)}-${Math.round(ts + dur)}` });
}

// At most three, each with its place in the timeline.
export function findings(steps: Step[], streams: Stream[], operators: Operator[]): Finding[] {
    const list: Finding[] = [];
    // Before the first step and after the last one nothing is expected of a device.
    const first = Math.min(...steps.map((s) => s.ts));
    const last = Math.max(...steps.map((s) => s.ts + s.total_ns));
    const inSteps = (ts: number) => !steps.length || (ts >= first && ts < last);
    const gap = streams.filter((s) => s.scope === "device" && s.longest_wait_ns && s.longest_wait_ts !== null &&
                                      inSteps(s.longest_wait_ts))
        .sort((a, b) => b.longest_wait_ns! - a.longest_wait_ns!)[0];
    if (gap && gap.longest_wait_ns! > 0.01 * gap.total_ns) {
        list.push({ text: `${gap.device ?? "The device"} is idle for ${ns(gap.longest_wait_ns)}, its longest gap`,
                    to: around(gap.longest_wait_ts!, gap.longest_wait_ns!) });
    }
    const counted = steps.filter((s) => !s.warmup && s.found_by === "marks");
    const median = percentile(counted.map((s) => s.total_ns).sort((a, b) => a - b), 0.5);
    const slow = median === null ? undefined : counted.filter((s) => s.outlier && s.total_ns > median).sort((a, b) => b.total_ns - a.total_ns)[0];
    if (slow && median) {
        list.push({ text: `Step ${slow.num ?? "?"}${slow.rank === null ? "" : ` of rank ${slow.rank}`} took ${ns(slow.total_ns)}, ${(slow.total_ns / median).toFixed(1)} times the median`,
                    to: around(slow.ts, slow.total_ns) });
    }
    const section = operators.some((o) => o.section === "device") ? "device" : "host";
    const here = operators.filter((o) => o.section === section && o.name);
    const top = [...groupBy(here, (o) => plainName(o.name!))].map(([name, of]) => ({ name, share: sum(of, (o) => o.share) }))
        .sort((a, b) => b.share - a.share)[0];
    if (top?.share) {
        list.push({ text: `${top.name} takes ${percent(top.share)} of operator time`, to: href("timeline", { q: top.name }) });
    }
    // Of an operator with several kernels it is these that differ, not its executions.
    const calls = new Map(operators.filter((o) => o.section === "host" && o.op !== null).map((o) => [o.op, o.count]));
    const whole = (o: Operator) => section === "host" || o.op === null || (calls.get(o.op) ?? o.count) === o.count;
    const uneven = here.filter((o) => plainName(o.name!) !== top?.name && whole(o) && o.median_ns && (o.share ?? 0) > 0.01 && o.count >= 5)
        .map((o) => ({ of: o, times: (o.p99_ns ?? 0) / o.median_ns! })).sort((a, b) => b.times - a.times)[0];
    if (uneven && uneven.times > 3) {
        list.push({ text: `${plainName(uneven.of.name!)} varies: its 99th percentile is ${uneven.times.toFixed(1)} times the median`,
                    to: href("timeline", { q: plainName(uneven.of.name!) }) });
    }
    return list.slice(0, 3);
}

// Operators of PyTorch have their shapes in the name; spans have not.
function plainName(name: string): string {
    return name.replace(/ \[.*\]$/, "");
}

export function Headline() {
    const loaded = all<[Latency[], Step[], Stream[], Occupation[], Operator[], Reconciliation[]]>(
        useData("latency"), useData("step_trace"), useData("streams"), useData("occupation"), useData("operators"), useData("reconciliation"));
    return (
        <Loaded of={loaded}>
            {([latency, steps, streams, parts, operators, places]) => {
                const step = latency.filter((l) => l.scope === "step").sort((a, b) => b.count - a.count)[0];
                const devices = streams.filter((s) => s.scope === "device" && s.total_ns > 0);
                const stepped = places.filter((p) => p.device !== null && p.steps > 0 && p.wall_ns > p.not_recorded_ns);
                const busy = !devices.length ? null
                    : stepped.length ? sum(stepped, (p) => p.compute_ns + p.exposed_ns + p.copy_ns) / sum(stepped, (p) => p.wall_ns - p.not_recorded_ns)
                    : sum(devices, (s) => s.total_ns - s.wait_ns) / sum(devices, (s) => s.total_ns);
                const of = (key: string) => sum(parts.filter((p) => p.bucket === key), (p) => p.ns);
                const wall = sum(parts, (p) => p.ns) - of("not_recorded");
                const loss = BUCKETS.filter(({ key }) => !NO_LOSS.includes(key)).map(({ key, title }) => ({ title, ns: of(key) }))
                    .sort((a, b) => b.ns - a.ns)[0];
                const found = findings(steps, streams, operators);
                if (!step && busy === null && !found.length) return null;
                return (
                    <Card title="At a glance" wide>
                        <div class="figures">
                            {step && <Figure label="step, median" value={ns(step.median_ns)} hint={`of ${count(step.count)}`} />}
                            {busy !== null && <Figure label="device busy" value={percent(busy)} hint={stepped.length ? "within steps, until all they launched is done" : "from its first activity to its last"} />}
                            {loss && wall > 0 && (
                                <Figure label="largest loss" value={loss.ns > LEAST_LOSS * wall ? `${loss.title.toLowerCase()}, ${percent(loss.ns / wall)}` : "none"}
                                        hint={devices.length ? "of the device's time" : "of the time of steps"} />
                            )}
                        </div>
                        {found.length > 0 && (
                            <ul class="findings">
                                {found.map(({ text, to }) => <li key={text}><a href={to}>{text}</a></li>)}
                            </ul>
                        )}
                    </Card>
                );
            }}
        </Loaded>
    );
}
