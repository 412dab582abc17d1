// What operators compute per second, over what they compute per byte, under the ceilings of the
// machine.
import { useMemo } from "preact/hooks";
import { Card } from "../components/Card";
import { findOperator, operatorKey, OperatorDrawer } from "../components/OperatorDrawer";
import { pressable } from "../components/pressable";
import { Legend, type Part } from "../components/Shares";
import { Loaded } from "../components/States";
import { useWidth } from "../components/useWidth";
import { bytesPerSecond, count, flopsPerSecond, NA, ns, percent } from "../format";
import { deviceRoofs, withEstimates } from "../gpus";
import { all, useData } from "../hooks";
import { ceilings, otherCeilings, type Ceilings } from "../machine";
import type { Meta, Op, Operator, Tensor } from "../queries";
import { attainable, intensity } from "../roofline";
import { setArgs, useRoute } from "../router";
import { groupBy, largest, smallest, sum } from "../stats";
import { useTypeColors } from "../typeColors";

const LEFT = 92;
const BOTTOM = 44;
const TOP = 16;
const RIGHT = 16;

interface Dot {
    of: Operator;
    x: number; // FLOP per byte
    y: number; // FLOP per second
}

// Powers of ten from the one at or below low to the one at or above high.
function decades(low: number, high: number): number[] {
    const from = Math.floor(Math.log10(low));
    const to = Math.max(from + 1, Math.ceil(Math.log10(high)));
    return Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
}

function plain(n: number): string {
    return n >= 1 && n < 1e6
        ? count(n)
        : n >= 0.001 && n < 1
          ? String(Number(n.toPrecision(1)))
          : n.toExponential(0);
}

interface PlotProps {
    dots: Dot[];
    roof: Ceilings;
    others: { name: string; of: Ceilings }[]; // thinner, and what operators are measured by
    entered: boolean; // the roof, by hand: there are no others
    selected: string | null;
    onOpen: (of: Operator) => void;
}

function Plot({ dots, roof, others, entered, selected, onOpen }: PlotProps) {
    const color = useTypeColors();
    const [box, width] = useWidth<HTMLDivElement>();
    const height = Math.max(380, Math.min(620, width * 0.5));
    const ridge = roof.flops !== null && roof.bytes !== null ? roof.flops / roof.bytes : null;
    const xs = [...dots.map((d) => d.x), ...(ridge ? [ridge / 4, ridge * 4] : [])];
    const ys = [
        ...dots.map((d) => d.y),
        ...[roof, ...others.map((o) => o.of)].flatMap((o) => (o.flops ? [o.flops] : [])),
    ];
    const xTicks = decades(smallest(xs), largest(xs));
    const yTicks = decades(smallest(ys), largest(ys));
    const [x0, x1] = [xTicks[0]!, xTicks.at(-1)!];
    const [y0, y1] = [yTicks[0]!, yTicks.at(-1)!];
    const px = (v: number) =>
        LEFT +
        ((Math.log10(v) - Math.log10(x0)) / (Math.log10(x1) - Math.log10(x0))) * (width - LEFT - RIGHT);
    const py = (v: number) =>
        height -
        BOTTOM -
        ((Math.log10(v) - Math.log10(y0)) / (Math.log10(y1) - Math.log10(y0))) * (height - BOTTOM - TOP);
    // A roof as points, from the left edge over its ridge to the right edge.
    const edgeOf = (of: Ceilings) => {
        const at = of.flops !== null && of.bytes !== null ? of.flops / of.bytes : null;
        return [x0, ...(at && at > x0 && at < x1 ? [at] : []), x1]
            .map((v) => [v, attainable(v, of)] as const)
            .filter((p): p is [number, number] => p[1] !== null);
    };
    const lineOf = (points: [number, number][]) =>
        points.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" ");
    const edge = edgeOf(roof);
    const top = largest(
        dots.map((d) => d.of.share ?? 0),
        1e-9
    );
    return (
        <div class="roofline" ref={box}>
            {width > 0 && (
                <svg
                    width={width}
                    height={height}
                    role="group"
                    aria-label={`Roofline of ${dots.length} operators`}
                >
                    <clipPath id="roof-area">
                        <rect
                            x={LEFT}
                            y={TOP}
                            width={Math.max(0, width - LEFT - RIGHT)}
                            height={height - TOP - BOTTOM}
                        />
                    </clipPath>
                    {xTicks.map((t) => (
                        <g key={t}>
                            <line x1={px(t)} x2={px(t)} y1={TOP} y2={height - BOTTOM} class="grid-line" />
                            <text x={px(t)} y={height - BOTTOM + 16} text-anchor={t === x1 ? "end" : "middle"} class="tick">
                                {plain(t)}
                            </text>
                        </g>
                    ))}
                    {yTicks.map((t) => (
                        <g key={t}>
                            <line x1={LEFT} x2={width - RIGHT} y1={py(t)} y2={py(t)} class="grid-line" />
                            <text x={LEFT - 8} y={py(t) + 4} text-anchor="end" class="tick">
                                {flopsPerSecond(t)}
                            </text>
                        </g>
                    ))}
                    <text x={(LEFT + width) / 2} y={height - 8} text-anchor="middle" class="tick">
                        arithmetic intensity (FLOP/byte)
                    </text>
                    <g clip-path="url(#roof-area)">
                        {others.map((o) => (
                            <polyline key={o.name} points={lineOf(edgeOf(o.of))} class="roof other">
                                <title>{o.name}</title>
                            </polyline>
                        ))}
                        {edge.length > 1 && <polyline points={lineOf(edge)} class="roof" />}
                        {ridge !== null && (
                            <line
                                x1={px(ridge)}
                                x2={px(ridge)}
                                y1={py(roof.flops!)}
                                y2={height - BOTTOM}
                                class="ridge"
                            />
                        )}
                        {[...dots]
                            .sort((a, b) => (b.of.share ?? 0) - (a.of.share ?? 0))
                            .map((d) => {
                                const key = operatorKey(d.of);
                                const most = entered ? attainable(d.x, roof) : null;
                                const reached = most
                                    ? `, ${percent(d.y / most)} of the roof`
                                    : d.of.share_of_peak !== null && !entered
                                      ? `, ${percent(d.of.share_of_peak)} of its roof (${d.of.roof})`
                                      : "";
                                const label =
                                    `${d.of.name ?? NA} (${d.of.type ?? NA}): ${flopsPerSecond(d.y)}, ${count(d.x)} FLOP/B, ` +
                                    `${ns(d.of.time_ns)}, ${percent(d.of.share)} of the time${reached}`;
                                return (
                                    <circle
                                        key={`${d.of.section} ${key}`}
                                        cx={px(d.x)}
                                        cy={py(d.y)}
                                        fill={color(d.of.type)}
                                        r={4 + 14 * Math.sqrt((d.of.share ?? 0) / top)}
                                        class={key === selected ? "dot selected" : "dot"}
                                        {...pressable(label, () => onOpen(d.of))}
                                    >
                                        <title>{label}</title>
                                    </circle>
                                );
                            })}
                    </g>
                    {roof.flops !== null && (
                        <text
                            x={width - RIGHT - 6}
                            y={Math.max(TOP + 12, py(roof.flops) - 6)}
                            text-anchor="end"
                            class="roof-text"
                        >
                            {flopsPerSecond(roof.flops)}
                        </text>
                    )}
                    {others.map((o) => {
                        const points = edgeOf(o.of);
                        const slanted = o.of.bytes !== null;
                        return slanted && points.length > 1 ? (
                            <text
                                key={o.name}
                                x={px(points[0]![0]) + 10}
                                y={Math.max(TOP, py(points[0]![1])) - 18}
                                class="tick"
                                transform={slope(px, py, points)}
                            >
                                {o.name} {bytesPerSecond(o.of.bytes)}
                            </text>
                        ) : o.of.flops !== null ? (
                            <text
                                key={o.name}
                                x={width - RIGHT - 6}
                                y={Math.max(TOP + 12, py(o.of.flops) - 6)}
                                text-anchor="end"
                                class="tick"
                            >
                                {o.name} {flopsPerSecond(o.of.flops)}
                            </text>
                        ) : null;
                    })}
                    {roof.bytes !== null && edge.length > 1 && (
                        <text
                            x={px(edge[0]![0]) + 10}
                            y={py(edge[0]![1]) - 22}
                            class="roof-text"
                            transform={slope(px, py, edge)}
                        >
                            {bytesPerSecond(roof.bytes)}
                        </text>
                    )}
                </svg>
            )}
        </div>
    );
}

// Writes along the slanted part of the roof.
function slope(px: (v: number) => number, py: (v: number) => number, edge: [number, number][]): string {
    const [a, b] = [edge[0]!, edge[1]!];
    const [x, y] = [px(a[0]), py(a[1])];
    const angle = (Math.atan2(py(b[1]) - y, px(b[0]) - x) * 180) / Math.PI;
    return `rotate(${angle.toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)}) translate(0 12)`;
}

function Ceiling({
    label,
    name,
    measured,
    unit,
}: {
    label: string;
    name: string;
    measured: number | null;
    unit: string;
}) {
    const { args } = useRoute();
    return (
        <label class="field">
            {label}
            <input
                class="input short"
                type="number"
                min="0"
                step="any"
                value={args.get(name) ?? ""}
                placeholder={measured === null ? "none" : (measured / 1e9).toFixed(1)}
                onChange={(event) => setArgs({ [name]: event.currentTarget.value || null })}
            />
            {unit}
        </label>
    );
}

interface PageProps {
    meta: Meta[];
    operators: Operator[];
    ops: Op[];
    tensors: Tensor[];
}

function Page({ meta, operators: timed, ops, tensors }: PageProps) {
    const { args } = useRoute();
    const { operators, estimated } = useMemo(() => withEstimates(timed, ops, tensors), [timed, ops, tensors]);
    const device = useMemo(() => deviceRoofs(meta, timed, tensors), [meta, timed, tensors]);
    const color = useTypeColors();
    const measured = device?.roof ?? ceilings(meta);
    const given = (name: string) => (Number(args.get(name)) > 0 ? Number(args.get(name)) * 1e9 : null);
    const roof = { flops: given("flops") ?? measured.flops, bytes: given("bandwidth") ?? measured.bytes };
    const entered = given("flops") !== null || given("bandwidth") !== null;
    const others = entered ? [] : device ? device.others : otherCeilings(meta);
    const section = operators.some((o) => o.section === "device") ? "device" : "host";
    const here = operators.filter((o) => o.section === section && (o.time_ns ?? 0) > 0);
    const dots = useMemo(
        () =>
            here.flatMap((of): Dot[] => {
                const x = intensity(of);
                return x !== null && of.flops_per_s ? [{ of, x, y: of.flops_per_s }] : [];
            }),
        [operators]
    );
    const share = sum(dots, (d) => d.of.share);
    const lacking = here.length - dots.length;
    const without = (what: (o: Operator) => number | null) => here.filter((o) => what(o) === null).length;
    const open = findOperator(operators, args.get("op"), section);
    const types = [...groupBy(dots, (d) => d.of.type)]
        .map(([type, of]): Part => {
            const value = sum(of, (d) => d.of.time_ns);
            return { label: type ?? NA, value, shown: ns(value), color: color(type) };
        })
        .sort((a, b) => b.value - a.value)
        .slice(0, 12);
    return (
        <>
            <div class="page-head">
                <h1>Roofline</h1>
                <Ceiling label="Peak compute" name="flops" measured={measured.flops} unit="GFLOP/s" />
                <Ceiling label="Peak bandwidth" name="bandwidth" measured={measured.bytes} unit="GB/s" />
            </div>
            <Card
                title="Operators"
                wide
                note={
                    roof.flops === null || roof.bytes === null
                        ? "The trace has no peak performance of its machine: opmeter run measures it, other profilers do not. Enter the peaks above to draw the roof."
                        : entered
                          ? "Peaks as entered. Operators left of the ridge point are memory-bound, right of it compute-bound. Larger circles take more time."
                          : device
                            ? `Vendor peaks of ${device.device}, without sparsity; the roof is that of ${device.name}, in which most time is spent. Operators left of the ridge point are memory-bound, right of it compute-bound. Larger circles take more time.`
                          : "Peaks measured on the machine of the trace. Each operator is compared with the cache or memory that its data fits in, or the peak compute of its data type. Larger circles take more time."
                }
            >
                {dots.length ? (
                    <>
                        <Plot
                            dots={dots}
                            roof={roof}
                            others={others}
                            entered={entered}
                            selected={args.get("op")}
                            onOpen={(of) => setArgs({ op: operatorKey(of) })}
                        />
                        <div class="types">
                            <Legend parts={types} />
                        </div>
                    </>
                ) : (
                    <p class="state empty">
                        No operator of this trace can be placed:{" "}
                        {!here.length
                            ? "none was timed."
                            : without((o) => o.computation) === here.length
                              ? "its source does not say what they compute."
                              : without((o) => o.memory) === here.length
                                ? "its source says what they compute, but not how many bytes they move."
                                : "none has both its computation and its bytes known."}
                    </p>
                )}
                {entered && dots.some((d) => d.y > 1.02 * (attainable(d.x, roof) ?? Infinity)) && (
                    <p class="note">
                        Some stand above the roof that was entered: their algorithm (Winograd, for one) needs
                        fewer operations than are counted, or what they move stays in a cache.
                    </p>
                )}
                {!entered && dots.some((d) => d.of.roof?.includes(" ")) && (
                    <p class="note">
                        Operations are those of the definition: where an algorithm (Winograd, block-sparse
                        products) needs fewer, its own roof is that much higher.
                    </p>
                )}
                {dots.some((d) => d.of.op !== null && estimated.has(d.of.op)) && (
                    <p class="note">
                        Bytes are estimates: the tensors that the trace lists for an operator (its inputs, mostly), each
                        moved once. What is written comes on top, so that dots stand rather too far to the right.
                    </p>
                )}
                {dots.length > 0 && lacking > 0 && (
                    <p class="note">
                        {count(lacking)} of {count(here.length)} operators ({percent(1 - share)} of the time)
                        are not shown: they compute nothing, or their computation or bytes are not known.
                    </p>
                )}
            </Card>
            {open && (
                <OperatorDrawer key={operatorKey(open)} of={open} onClose={() => setArgs({ op: null })} />
            )}
        </>
    );
}

export function Roofline() {
    const loaded = all<[Meta[], Operator[], Op[], Tensor[]]>(
        useData("meta"), useData("operators"), useData("model_ops"), useData("model_tensors"));
    return (
        <div class="page">
            <Loaded of={loaded}>{([meta, operators, ops, tensors]) => <Page {...{ meta, operators, ops, tensors }} />}</Loaded>
        </div>
    );
}
