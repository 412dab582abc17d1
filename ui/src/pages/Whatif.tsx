// What an iteration would take if weights were sparse or operators faster: aims and ratios can be
// changed, the totals follow.
import { useMemo } from "preact/hooks";
import { Card, Figure } from "../components/Card";
import { DataTable, type Column } from "../components/DataTable";
import { Loaded } from "../components/States";
import { count, NA, ns, percent, text } from "../format";
import { all, useData, useTrace } from "../hooks";
import { named } from "../palette";
import type { Latency } from "../queries";
import { setArgs, useRoute } from "../router";
import { groupBy, sum } from "../stats";
import { useTheme } from "../theme";
import { useTypeColors } from "../typeColors";
import {
    DEFAULT_AIM,
    PATTERN,
    project,
    total,
    type Edits,
    type Projected,
    type Ratio,
    type Weighted,
} from "../whatif";

// "256x1024:0.8,64x64:0.7"
function parse(value: string | null): Map<string, number> {
    const found = new Map<string, number>();
    for (const word of (value ?? "").split(",")) {
        const at = word.lastIndexOf(":");
        const n = Number(word.slice(at + 1));
        if (at > 0 && n > 0) found.set(word.slice(0, at), n);
    }
    return found;
}

function written(edits: Map<string, number>): string | null {
    return edits.size ? [...edits].map(([key, n]) => `${key}:${n}`).join(",") : null;
}

function editsOf(args: URLSearchParams): Edits {
    const aim = Number(args.get("aim") ?? NaN);
    return {
        aim: aim >= 0 && aim < 1 ? aim : null,
        aims: parse(args.get("aims")),
        ratios: parse(args.get("ratios")),
        speedups: parse(args.get("speedups")),
    };
}

// What the trace aims at, if that is the same everywhere.
function oneAim(ops: Weighted[]): number | null {
    const aims = new Set(ops.filter((op) => op.aim !== null).map((op) => op.aim!));
    return aims.size > 1 ? null : ([...aims][0] ?? DEFAULT_AIM);
}

function change(name: string, edits: Map<string, number>, key: string, value: number | null): void {
    const next = new Map(edits);
    if (value === null) next.delete(key);
    else next.set(key, value);
    setArgs({ [name]: written(next) });
}

interface EditProps {
    label: string;
    value: number | null; // what counts now
    given: boolean; // by the reader
    scale?: number; // shown as value times scale
    max?: number;
    unit: string;
    onChange: (value: number | null) => void;
}

// Empty goes back to what it was.
function Edit({ label, value, given, scale = 1, max, unit, onChange }: EditProps) {
    const shown = value === null ? "" : String(Number((value * scale).toPrecision(6)));
    return (
        <span class={given ? "edit given" : "edit"} onClick={(event) => event.stopPropagation()}>
            <input
                class="input"
                type="number"
                min="0"
                step="any"
                aria-label={label}
                value={shown}
                placeholder="–"
                onKeyDown={(event) => event.stopPropagation()}
                onChange={(event) => {
                    const n = Number(event.currentTarget.value) / scale;
                    onChange(event.currentTarget.value !== "" && n > 0 && n < (max ?? Infinity) ? n : null);
                }}
            />
            {unit}
        </span>
    );
}

interface ShapeRow {
    shape: string;
    ops: Projected[];
    dense: boolean; // something of it can be made sparse
    aim: number | null;
    ratio: number | null;
    source: string | null;
    latency_ns: number;
    projected_ns: number;
}

function shapesOf(ops: Projected[]): ShapeRow[] {
    return [
        ...groupBy(
            ops.filter((op) => op.fits),
            (op) => op.weight_shape ?? NA
        ),
    ].map(([shape, of]) => {
        const first = of.find((op) => op.aim !== null) ?? of[0]!;
        return {
            shape,
            ops: of,
            dense: of.some((op) => op.aim !== null),
            aim: first.aim,
            ratio: first.ratio,
            source: first.source,
            latency_ns: sum(of, (op) => op.latency_ns),
            projected_ns: sum(of, (op) => op.projected_ns),
        };
    });
}

function faster(before: number, after: number): string {
    return after > 0 ? `${(before / after).toFixed(2)} ×` : NA;
}

function Shapes({ ops, edits }: { ops: Projected[]; edits: Edits }) {
    const columns: Column<ShapeRow>[] = [
        { key: "shape", title: "Weight", value: (s) => s.shape, search: true },
        { key: "ops", title: "Operators", value: (s) => s.ops.length, numeric: true, width: "100px" },
        {
            key: "latency",
            title: "Measured",
            value: (s) => s.latency_ns,
            show: (s) => ns(s.latency_ns),
            numeric: true,
            width: "110px",
        },
        {
            key: "aim",
            title: "Target sparsity",
            value: (s) => s.aim,
            numeric: true,
            width: "150px",
            doc: "Share of zeros in blocks of 4x1",
            show: (s) =>
                s.dense ? (
                    <Edit
                        label={`Target sparsity of ${s.shape}`}
                        value={s.aim}
                        given={edits.aims.has(s.shape)}
                        scale={100}
                        max={1}
                        unit="%"
                        onChange={(v) => change("aims", edits.aims, s.shape, v)}
                    />
                ) : (
                    "sparse already"
                ),
        },
        {
            key: "ratio",
            title: "Speed-up",
            value: (s) => s.ratio,
            numeric: true,
            width: "140px",
            doc: "Dense time divided by sparse time",
            show: (s) =>
                s.dense ? (
                    <Edit
                        label={`Speed-up for ${s.shape}`}
                        value={s.ratio}
                        given={edits.ratios.has(s.shape)}
                        unit="×"
                        onChange={(v) => change("ratios", edits.ratios, s.shape, v)}
                    />
                ) : (
                    NA
                ),
        },
        {
            key: "source",
            title: "Source",
            value: (s) => s.source,
            width: "120px",
            doc: "Where the speed-up is from: measured on this machine, the constant of Neural Engine, or given by you",
        },
        {
            key: "projected",
            title: "Projected",
            value: (s) => s.projected_ns,
            show: (s) => ns(s.projected_ns),
            numeric: true,
            width: "110px",
        },
        {
            key: "saved",
            title: "Saved",
            value: (s) => s.latency_ns - s.projected_ns,
            show: (s) => ns(s.latency_ns - s.projected_ns),
            numeric: true,
            width: "110px",
        },
    ];
    return (
        <DataTable
            label="Weight shapes"
            columns={columns}
            rows={shapesOf(ops)}
            rowKey={(s) => s.shape}
            sort="-latency"
            urlKey="w"
            maxHeight="380px"
        />
    );
}

interface TypeRow {
    type: string;
    ops: number;
    latency_ns: number;
    projected_ns: number;
}

function Types({ ops, edits }: { ops: Projected[]; edits: Edits }) {
    const color = useTypeColors();
    const rows = [...groupBy(ops, (op) => op.type ?? NA)].map(([type, of]): TypeRow => ({
        type,
        ops: of.length,
        latency_ns: sum(of, (op) => op.latency_ns),
        projected_ns: sum(of, (op) => op.projected_ns),
    }));
    const columns: Column<TypeRow>[] = [
        {
            key: "type",
            title: "Type",
            value: (t) => t.type,
            search: true,
            show: (t) => (
                <span class="typed">
                    <i class="swatch" style={{ background: color(t.type) }} />
                    <span>{t.type}</span>
                </span>
            ),
        },
        { key: "ops", title: "Operators", value: (t) => t.ops, numeric: true, width: "100px" },
        {
            key: "latency",
            title: "Measured",
            value: (t) => t.latency_ns,
            show: (t) => ns(t.latency_ns),
            numeric: true,
            width: "110px",
        },
        {
            key: "speedup",
            title: "Speed-up",
            value: (t) => edits.speedups.get(t.type) ?? null,
            numeric: true,
            width: "150px",
            show: (t) => (
                <Edit
                    label={`Speed-up for ${t.type}`}
                    value={edits.speedups.get(t.type) ?? null}
                    given={edits.speedups.has(t.type)}
                    unit="×"
                    onChange={(v) => change("speedups", edits.speedups, t.type, v)}
                />
            ),
        },
        {
            key: "projected",
            title: "Projected",
            value: (t) => t.projected_ns,
            show: (t) => ns(t.projected_ns),
            numeric: true,
            width: "110px",
        },
        {
            key: "saved",
            title: "Saved",
            value: (t) => t.latency_ns - t.projected_ns,
            show: (t) => ns(t.latency_ns - t.projected_ns),
            numeric: true,
            width: "110px",
        },
    ];
    return (
        <DataTable
            label="Operator types"
            columns={columns}
            rows={rows}
            rowKey={(t) => t.type}
            sort="-latency"
            urlKey="t"
            maxHeight="380px"
        />
    );
}

const opColumns: Column<Projected>[] = [
    { key: "name", title: "Operator", value: (op) => op.name, search: true },
    { key: "type", title: "Type", value: (op) => op.type, search: true, width: "14%" },
    { key: "shape", title: "Weight", value: (op) => op.weight_shape, search: true, width: "120px" },
    {
        key: "zeros",
        title: "Sparsity",
        value: (op) => op.zero_ratio,
        show: (op) => percent(op.zero_ratio),
        numeric: true,
        width: "116px",
    },
    {
        key: "latency",
        title: "Measured",
        value: (op) => op.latency_ns,
        show: (op) => ns(op.latency_ns),
        numeric: true,
        width: "96px",
    },
    {
        key: "aim",
        title: "Target",
        value: (op) => op.aim,
        show: (op) => percent(op.aim),
        numeric: true,
        width: "84px",
    },
    {
        key: "ratio",
        title: "Speed-up",
        value: (op) => op.ratio,
        show: (op) => (op.ratio === null ? NA : `${op.ratio.toFixed(2)} ×`),
        numeric: true,
        width: "84px",
    },
    {
        key: "source",
        title: "Source",
        value: (op) => op.source,
        show: (op) => text(op.source),
        width: "100px",
    },
    {
        key: "projected",
        title: "Projected",
        value: (op) => op.projected_ns,
        show: (op) => ns(op.projected_ns),
        numeric: true,
        width: "96px",
    },
];

// The same question for the command line.
function command(path: string, edits: Edits): string {
    const quoted = (word: string) =>
        /^[\w./:=%-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
    const words = ["opmeter", "whatif", path];
    if (edits.aim !== null) words.push("--sparsity", `${Number((100 * edits.aim).toPrecision(6))}%`);
    for (const [shape, aim] of edits.aims)
        words.push("--sparsity", `${shape}:${Number((100 * aim).toPrecision(6))}%`);
    for (const [shape, ratio] of edits.ratios) words.push("--ratio", `${shape}:${ratio}`);
    for (const [type, factor] of edits.speedups) words.push("--speedup", `${type}=${factor}x`);
    return words.map(quoted).join(" ");
}

function Bar({ label, ns: value, of, color }: { label: string; ns: number; of: number; color: string }) {
    return (
        <div class="before-after">
            <span>{label}</span>
            <span class="bars-track">
                <i style={{ width: `${of > 0 ? (100 * value) / of : 0}%`, background: color }} />
            </span>
            <strong class="num">{ns(value)}</strong>
        </div>
    );
}

// The models of the trace, the one that takes longest first; "" for what runs outside of steps.
function modelsOf(ops: Weighted[]): string[] {
    return [...groupBy(ops, (op) => op.model ?? "")]
        .sort(([, a], [, b]) => sum(b, (op) => op.latency_ns ?? 0) - sum(a, (op) => op.latency_ns ?? 0))
        .map(([model]) => model);
}

function Page({ ops: everything, ratios, latency }: { ops: Weighted[]; ratios: Ratio[]; latency: Latency[] }) {
    const theme = useTheme();
    const trace = useTrace();
    const { args } = useRoute();
    const edits = editsOf(args);
    const models = useMemo(() => modelsOf(everything), [everything]);
    const asked = args.get("model");
    const model = asked !== null && models.includes(asked) ? asked : models[0];
    const ops = useMemo(
        () => everything.filter((op) => (op.model ?? "") === model),
        [everything, model]
    );
    const projected = useMemo(() => project(ops, ratios, edits), [ops, ratios, args.toString()]);
    const sums = total(projected);
    const steps = latency.filter((l) => l.scope === "step");
    const own = steps.length === 1 ? steps : steps.filter((l) => (l.name ?? "") === model && l.mean_ns !== null);
    const interrupted = sum(ops, (op) => op.interrupted_ns ?? 0) / Math.max(1, new Set(ops.map((op) => op.track)).size);
    const step = own.length ? sum(own, (l) => l.mean_ns ?? 0) / own.length - interrupted || null : null;
    const most = Math.max(step ?? 0, sums.latency_ns);
    const changed = ["aim", "aims", "ratios", "speedups"].some((name) => args.get(name) !== null);
    return (
        <>
            <div class="page-head">
                <h1>What if</h1>
                {models.length > 1 && (
                    <select
                        class="select"
                        aria-label="Model"
                        value={model}
                        onChange={(event) => setArgs({ model: event.currentTarget.value })}
                    >
                        {models.map((name) => (
                            <option key={name} value={name}>
                                {name || "outside of any step"}
                            </option>
                        ))}
                    </select>
                )}
                <label class="field">
                    Target sparsity of all weights
                    <Edit
                        label="Target sparsity of all weights"
                        value={edits.aim ?? oneAim(ops)}
                        given={args.get("aim") !== null}
                        scale={100}
                        max={1}
                        unit="%"
                        onChange={(v) => setArgs({ aim: v })}
                    />
                </label>
                <button
                    class="button"
                    disabled={!changed}
                    onClick={() => setArgs({ aim: null, aims: null, ratios: null, speedups: null })}
                >
                    Reset
                </button>
            </div>
            <Card
                title="One iteration"
                wide
                note={
                    sums.fits
                        ? undefined
                        : `No operator of this trace multiplies with a constant weight that divides into blocks of ${PATTERN.name}: only speed-ups by type can change anything.`
                }
            >
                <div class="figures">
                    <Figure label="operators" value={ns(sums.latency_ns)} />
                    <Figure label="projected" value={ns(sums.projected_ns)} />
                    <Figure label="speed-up" value={faster(sums.latency_ns, sums.projected_ns)} />
                    {step !== null && <Figure label="step" value={ns(step)} />}
                    {step !== null && (
                        <Figure label="projected step" value={ns(step - sums.latency_ns + sums.projected_ns)} />
                    )}
                    {sums.fits > 0 && (
                        <Figure
                            label={`${count(sums.fits)} with sparse weights`}
                            value={`${ns(sums.fits_ns)} → ${ns(sums.fits_projected_ns)}`}
                        />
                    )}
                </div>
                <div>
                    <Bar label="measured" ns={sums.latency_ns} of={most} color={named(null, "other", theme)} />
                    <Bar
                        label="projected"
                        ns={sums.projected_ns}
                        of={most}
                        color={named("stage", "update", theme)}
                    />
                </div>
                <p class="note">
                    On the command line: <code>{command(trace.path, edits)}</code>
                </p>
            </Card>
            {sums.fits > 0 && (
                <Card
                    title="Sparse weights"
                    wide
                    note="The time of an operator is divided by the speed-up of its weight. Edit a target or a speed-up; clear it to restore the default."
                >
                    <Shapes ops={projected} edits={edits} />
                </Card>
            )}
            <Card
                title="Faster operators"
                wide
                note="What faster kernels of a type would save. Applied before sparsity."
            >
                <Types ops={projected} edits={edits} />
            </Card>
            <Card title="Operators" wide>
                <DataTable
                    label="Operators"
                    columns={opColumns}
                    rows={projected}
                    rowKey={(op) => op.op}
                    sort="-latency"
                    urlKey="o"
                    maxHeight="480px"
                />
            </Card>
        </>
    );
}

export function Whatif() {
    const loaded = all<[Weighted[], Ratio[], Latency[]]>(
        useData("whatif"),
        useData("ratios"),
        useData("latency")
    );
    return (
        <div class="page">
            <Loaded of={loaded}>
                {([ops, ratios, latency]) =>
                    ops.some((op) => op.latency_ns !== null) ? (
                        <Page ops={ops} ratios={ratios} latency={latency} />
                    ) : (
                        <>
                            <h1>What if</h1>
                            <p class="state empty">
                                This trace has no operators that were timed, so there is nothing to project.
                            </p>
                        </>
                    )
                }
            </Loaded>
        </div>
    );
}
