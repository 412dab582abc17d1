// A chart over time or number, drawn by uPlot in the colours of the theme.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { NA } from "../format";
import { useTheme } from "../theme";

export interface Series {
    label: string;
    color: string;
    values: (number | null)[];
    fill?: boolean;
    points?: boolean; // points only, no line
    steps?: boolean; // the value holds until the next one
    dash?: number[];
    bars?: boolean;
}

interface ChartProps {
    label: string; // read aloud instead of the picture
    x: number[];
    xLabel?: string;
    xFormat?: (x: number) => string;
    xTick?: (x: number) => string; // on the axis, where xFormat would be too long
    xSpace?: number; // pixels that one of these takes, where they are long
    yFormat: (y: number) => string;
    yMin?: number; // 0 unless given
    binary?: boolean; // ticks of y at powers of two, for bytes
    series: Series[];
    height?: number;
    sync?: string; // charts with the same key share the cursor
    onSelect?: (from: number, to: number) => void; // drag selects a range of x
    onPick?: (index: number) => void; // click on a value
    chosen?: [number, number] | null; // range of x that is marked
    logX?: boolean;
    logY?: boolean;
}

function css(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function paths(series: Series): uPlot.Series.PathBuilder | undefined {
    if (series.bars) return uPlot.paths.bars!({ size: [0.9, 60] });
    if (series.steps) return uPlot.paths.stepped!({ align: 1 });
    return series.points ? () => null : undefined;
}

function options(props: ChartProps, width: number): uPlot.Options {
    const { xFormat = String, yFormat } = props;
    const axis: uPlot.Axis = {
        stroke: css("--muted"), font: `11px ${css("--font")}`, labelFont: `11px ${css("--font")}`,
        grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1, size: 4 },
    };
    return {
        width,
        height: props.height ?? 200,
        legend: { show: true, live: true },
        cursor: {
            drag: { x: !!props.onSelect, y: false, setScale: false },
            ...(props.sync ? { sync: { key: props.sync } } : {}),
        },
        scales: {
            x: { time: false, ...(props.logX ? { distr: 3 } : {}) },
            y: props.logY ? { distr: 3 } : {
                range: (_u, min, max) => {
                    const low = Math.min(props.yMin ?? 0, min ?? 0);
                    return [low, (max ?? 1) > low ? max + (max - low) * 0.06 : low + 1];
                },
            },
        },
        axes: [
            { ...axis, values: (_u, ticks) => ticks.map((t) => (t === null ? "" : (props.xTick ?? xFormat)(t))),
              size: 28, ...(props.xSpace ? { space: props.xSpace } : {}), ...(props.xLabel ? { label: props.xLabel, labelSize: 16, labelGap: 2 } : {}) },
            { ...axis, values: (_u, ticks) => ticks.map((t) => (t === null ? "" : yFormat(t))), size: 74,
              ...(props.binary ? { incrs: Array.from({ length: 50 }, (_, i) => 2 ** i) } : {}) },
        ],
        series: [
            { label: props.xLabel ?? "at", value: (_u, v) => (v === null ? "–" : xFormat(v)) },
            ...props.series.map((s): uPlot.Series => ({
                label: s.label, stroke: s.color, width: s.bars ? 0 : 1.5,
                ...(s.fill || s.bars ? { fill: s.bars ? s.color : `${s.color}40` } : {}),
                ...(s.dash ? { dash: s.dash } : {}),
                points: { show: !!s.points, size: 6, fill: s.color },
                paths: paths(s),
                value: (_u, v, _s, i) => (i === null ? "–" : v === null || v === undefined ? NA : yFormat(v)),
            })),
        ],
        hooks: {
            setSelect: [(u) => {
                if (u.select.width < 3 || !props.onSelect) return;
                props.onSelect(u.posToVal(u.select.left, "x"),
                               u.posToVal(u.select.left + u.select.width, "x"));
            }],
        },
    };
}

function mark(plot: uPlot, range: [number, number] | null | undefined): void {
    if (range === undefined) return;
    const left = range ? plot.valToPos(range[0], "x") : 0;
    const width = range ? Math.max(2, plot.valToPos(range[1], "x") - left) : 0;
    plot.setSelect({ left, width, top: 0, height: range ? plot.over.clientHeight : 0 }, false);
}

export function Chart(props: ChartProps) {
    const box = useRef<HTMLDivElement>(null);
    const theme = useTheme();
    const latest = useRef(props);
    const drawn = useRef<uPlot | null>(null);
    latest.current = props;
    useEffect(() => {
        const element = box.current!;
        const data = [props.x, ...props.series.map((s) => s.values)] as uPlot.AlignedData;
        const plot = new uPlot(options(props, Math.max(200, element.clientWidth)), data, element);
        const observer = new ResizeObserver(() => {
            plot.setSize({ width: Math.max(200, element.clientWidth), height: props.height ?? 200 });
            mark(plot, latest.current.chosen);
        });
        observer.observe(element);
        const pick = () => {
            const { idx } = plot.cursor;
            if (idx !== null && idx !== undefined) latest.current.onPick?.(idx);
        };
        plot.over.addEventListener("click", pick);
        drawn.current = plot;
        return () => {
            observer.disconnect();
            drawn.current = null;
            plot.destroy();
        };
    }, [theme, props.x, ...props.series.map((s) => s.values), props.series.length, props.height]);
    useEffect(() => {
        if (drawn.current && props.chosen !== undefined) mark(drawn.current, props.chosen);
    }, [props.chosen?.[0], props.chosen?.[1], theme]);
    return <div class={props.series.length === 1 ? "chart single" : "chart"} ref={box} role="img" aria-label={props.label} />;
}
