// All that is known of one operator.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { bytes, bytesPerSecond, count, flops, flopsPerSecond, NA, ns, percent, text } from "../format";
import { useData, type Loadable } from "../hooks";
import { ceilings } from "../machine";
import type { Execution, Meta, Op, Operator, Tensor } from "../queries";
import { intensity } from "../roofline";
import { href } from "../router";
import { percentile } from "../stats";
import { useTypeColors } from "../typeColors";
import { Facts, Figure } from "./Card";
import { Drawer } from "./Drawer";
import { Histogram } from "./Histogram";
import { Loaded } from "./States";

const EXECUTIONS = 5000; // as many as op_spans gives

function Part({ title, children }: { title: string; children: ComponentChildren }) {
    return (
        <section class="drawer-part">
            <h3>{title}</h3>
            {children}
        </section>
    );
}

// Those which the figures are made of: on the device its kernels, on the host the rest.
function countedExecutions(all: Execution[], section: string): Execution[] {
    const kernels = all.filter((e) => e.phase === "kernel" && e.layer === "hardware");
    const host = all.filter((e) => e.phase === null || e.phase === "forward");
    const of = section === "device" && kernels.length ? kernels : host;
    return of.filter((e) => !e.warmup);
}

function Executions({ of, loaded, color }: { of: Operator; loaded: Loadable<Execution[]>; color: string }) {
    return (
        <Part title="Executions">
            <Loaded of={loaded} empty="No execution of it ended.">
                {(all) => {
                    const counted = countedExecutions(all, of.section);
                    const ascending = counted.map((e) => e.dur).sort((a, b) => a - b);
                    const longest = counted.reduce<Execution | null>(
                        (a, b) => (a && a.dur >= b.dur ? a : b),
                        null
                    );
                    if (!longest) return <p class="note">All of its executions belong to a warm-up.</p>;
                    return (
                        <>
                            <Histogram
                                label="Durations"
                                values={ascending}
                                color={color}
                                height={120}
                                marks={[
                                    { label: "median", value: percentile(ascending, 0.5) },
                                    { label: "p99", value: percentile(ascending, 0.99) },
                                ]}
                            />
                            {all.length >= EXECUTIONS && (
                                <p class="note">Of the first {count(EXECUTIONS)} executions.</p>
                            )}
                            <p class="links">
                                <a href={href("timeline", { span: longest.id })}>
                                    Longest in the timeline ({ns(longest.dur)})
                                </a>
                                <a href={href("timeline", { span: counted[0]!.id })}>First in the timeline</a>
                                {of.op !== null && (
                                    <a href={href("graph", { op: of.op })}>In the model graph</a>
                                )}
                            </p>
                        </>
                    );
                }}
            </Loaded>
        </Part>
    );
}

const LEVELS = ["L1", "L2", "L3", "memory"];

// Where it stands under the roof, in a sentence.
function Roof({ of, meta }: { of: Operator; meta: Meta[] }) {
    const at = intensity(of);
    if (at === null || of.flops_per_s === null) return null;
    if (of.roof === null || of.share_of_peak === null)
        return (
            <p class="note">
                {count(at)} FLOP per byte.
                {ceilings(meta).flops === null && " The ceilings of the machine were not measured."}
            </p>
        );
    const most = of.flops_per_s / of.share_of_peak;
    const bound = LEVELS.includes(of.roof)
        ? of.roof === "memory"
            ? "by memory"
            : `by the ${of.roof} cache, which its data fits in`
        : `by arithmetic (${of.roof})`;
    return (
        <p class="note">
            {count(at)} FLOP per byte: bound {bound}. It reaches {percent(of.share_of_peak)} of the{" "}
            {flopsPerSecond(most)} that the machine allows there.{" "}
            <a href={href("roofline", { op: of.op })}>Roofline</a>
        </p>
    );
}

function json(value: string | null): unknown {
    try {
        return value === null ? null : JSON.parse(value);
    } catch {
        return value;
    }
}

function Attributes({ op }: { op: Op }) {
    const attributes = json(op.attributes);
    if (!attributes || typeof attributes !== "object" || !Object.keys(attributes).length) return null;
    return (
        <Part title="Attributes">
            <Facts
                of={Object.entries(attributes).map(([key, value]): [string, string] => [
                    key,
                    typeof value === "string" ? value : JSON.stringify(value),
                ])}
            />
        </Part>
    );
}

function Nodes({ op }: { op: Op }) {
    const nodes = json(op.nodes);
    if (!Array.isArray(nodes) || !nodes.length) return null;
    return (
        <Part title={`Covers ${count(nodes.length)} ${nodes.length === 1 ? "node" : "nodes"} of the model`}>
            <ul class="nodes">
                {nodes.map((node, i) => (
                    <li key={i}>
                        <code>{String(node)}</code>
                    </li>
                ))}
            </ul>
        </Part>
    );
}

function Tensors({ tensors }: { tensors: Tensor[] }) {
    if (!tensors.length) return null;
    return (
        <Part title="Tensors">
            <table class="plain">
                <thead>
                    <tr>
                        <th>What</th>
                        <th>Name</th>
                        <th>Type</th>
                        <th>Shape</th>
                        <th class="num">Size</th>
                    </tr>
                </thead>
                <tbody>
                    {tensors.map((t) => (
                        <tr key={`${t.io} ${t.slot}`}>
                            <td>
                                {t.io} {t.slot}
                            </td>
                            <td class="cut" title={text(t.name)}>
                                {text(t.name)}
                            </td>
                            <td>{text(t.dtype)}</td>
                            <td>{t.shape === "" ? "scalar" : text(t.shape)}</td>
                            <td class="num">{bytes(t.bytes)}</td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </Part>
    );
}

export function OperatorDrawer({ of, onClose }: { of: Operator; onClose: () => void }) {
    const color = useTypeColors();
    const meta = useData<Meta>("meta");
    const ops = useData<Op>("model_ops");
    const tensors = useData<Tensor>("model_tensors");
    const executions = useData<Execution>(
        of.op !== null ? "op_spans" : "named_spans",
        of.op !== null ? { op: of.op } : { name: of.name ?? "" }
    );
    const op = ops.state === "ready" && of.op !== null ? ops.value.find(({ id }) => id === of.op) : undefined;
    const mine = useMemo(
        () => (tensors.state === "ready" ? tensors.value.filter((t) => t.op === of.op) : []),
        [tensors, of.op]
    );
    const each = of.iterations === null ? "in the whole trace" : "per iteration";
    return (
        <Drawer title={of.name ?? NA} onClose={onClose}>
            <div class="figures">
                <Figure
                    label={`time ${each}`}
                    value={ns(of.time_ns)}
                    hint="self time: without what runs inside on the same track"
                />
                <Figure label={`of the ${of.section}`} value={percent(of.share)} />
                <Figure label="median" value={ns(of.median_ns)} />
                <Figure label="p99" value={ns(of.p99_ns)} />
                <Figure
                    label="executions"
                    value={count(of.count)}
                    hint={`${count(of.warmup_count)} of warm-up left out`}
                />
            </div>
            <Executions of={of} loaded={executions} color={color(of.type)} />
            <Part title="Work">
                <Facts
                    of={[
                        [
                            "Type",
                            <>
                                <i class="swatch" style={{ background: color(of.type) }} /> {text(of.type)}
                            </>,
                        ],
                        ...(of.post_op ? [["Fused behind it", of.post_op] as [string, string]] : []),
                        ["Device and engine", [of.device, of.engine].filter(Boolean).join(", ") || NA],
                        ["Computation", flops(of.computation)],
                        ["Read and written", bytes(of.memory)],
                        ["Computes", flopsPerSecond(of.flops_per_s)],
                        ["Moves", bytesPerSecond(of.bytes_per_s)],
                        ...(of.wait_ns !== null
                            ? [["Waits before the work begins", ns(of.wait_ns)] as [string, string]]
                            : []),
                        ...(op?.weight_shape
                            ? [
                                  [
                                      "Weight",
                                      `${op.weight_shape}, ${percent(op.weight_zero_ratio)} zeros`,
                                  ] as [string, string],
                              ]
                            : []),
                        ["Spread", `${ns(of.min_ns)} to ${ns(of.max_ns)}, deviation ${ns(of.stdev_ns)}`],
                    ]}
                />
                {meta.state === "ready" && <Roof of={of} meta={meta.value} />}
            </Part>
            <Tensors tensors={mine} />
            {op && <Nodes op={op} />}
            {op && <Attributes op={op} />}
        </Drawer>
    );
}

// Opens the operator that the address names: its number, or the name of its spans.
export function findOperator(
    operators: Operator[],
    key: string | null,
    section: string | null
): Operator | null {
    if (key === null) return null;
    // A span names an operator of one rank, the row may be of several.
    const same = operators.filter((o) => operatorKey(o) === key || o.ops?.split(",").includes(key));
    return same.find((o) => o.section === section) ?? same[0] ?? null;
}

export function operatorKey(of: Operator): string {
    return of.op !== null ? String(of.op) : `${of.name ?? ""}`;
}
