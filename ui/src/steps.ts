// The parts of steps: which there are, and their averages over some of the steps.
import type { Collective, Step } from "./queries";
import { groupBy, meanOf } from "./stats";

export const STAGES = [
    {
        key: "gap",
        title: "Gap",
        value: (s: Step) => s.gap_ns,
        doc: "from the start of the step to the start of the forward pass",
    },
    { key: "forward", title: "Forward", value: (s: Step) => s.forward_ns, doc: "forward pass" },
    { key: "backward", title: "Backward", value: (s: Step) => s.backward_ns, doc: "backward pass" },
    {
        key: "fp_bp",
        title: "Forward + backward",
        value: (s: Step) => s.fp_bp_ns,
        doc: "forward and backward pass, which cannot be told apart here",
    },
    {
        key: "tail",
        title: "Tail",
        value: (s: Step) => s.tail_ns,
        doc: "from the end of the backward pass to the end of the step",
    },
] as const;

export type StageKey = (typeof STAGES)[number]["key"];

export interface Stage {
    key: StageKey;
    title: string;
    doc: string;
    value: (step: Step) => number | null;
}

// Steps of one model on one rank: what can be averaged.
export interface StepGroup {
    key: string;
    title: string;
    steps: Step[];
}

export const ALL_STEPS = "all steps"; // where nothing tells one group from another

export function stepGroups(steps: Step[]): StepGroup[] {
    const groups = groupBy(steps, (s) => `${s.model ?? ""}\n${s.rank ?? ""}`);
    const ranked = new Set(steps.map((s) => s.rank)).size > 1;
    return [...groups.values()].map((of, i) => {
        const { model, rank } = of[0]!;
        const words = [model, ranked && rank !== null ? `rank ${rank}` : null].filter(Boolean);
        return { key: String(i), title: words.join(", ") || ALL_STEPS, steps: of };
    });
}

// Without warm-up, unless there is nothing else.
export function counted(steps: Step[]): Step[] {
    const warm = steps.filter((s) => !s.warmup);
    return warm.length ? warm : steps;
}

// Forward and backward apart where every step has both, else together.
export function stagesOf(steps: Step[]): Stage[] {
    const apart = steps.every((s) => s.split_by === null || s.forward_ns !== null);
    const operators = steps.some((s) => s.split_by === "operators");
    return STAGES.filter(({ key, value }) => {
        if (key === "fp_bp" ? apart : !apart && (key === "forward" || key === "backward")) return false;
        return steps.some((s) => value(s) !== null);
    }).map((stage) =>
        stage.key === "fp_bp" && operators
            ? { ...stage, title: "Operators", doc: "from the first operator to the end of the last" }
            : stage
    );
}

export function splitSentence(steps: Step[]): string {
    const step = steps.find((s) => s.split_by !== null);
    const found = steps.some((s) => s.found_by === "repetition")
        ? "Nothing marks steps in this trace: they were found where the sequence of operators repeats. "
        : steps.some((s) => s.found_by === "optimizer")
          ? "The program marks no steps: each ends with a step of its optimizer. "
          : "";
    switch (step?.split_by) {
        case "phases":
            return `${found}Split as the program marked it.`;
        case "points":
            return `${found}Split at the chosen operators.`;
        case "autograd":
            return `${found}Split where the backward pass starts and ends.`;
        case "reduction":
            return `${found}Split at the first operator, and at the last one before the last all-reduce.`;
        case "operators":
            return `${found}Split at the first and the last operator.`;
        default:
            return `${found}No operator or phase is inside: the parts of a step are not known.`;
    }
}

export interface Bar {
    name: string;
    start: number;
    dur: number;
    steps: number; // of how many it is the mean
}

export interface Lane {
    track: number;
    title: string;
    bars: Bar[];
}

// The collectives of some steps, each at its mean place; one lane for each track.
export function lanesOf(collectives: Collective[], steps: Step[]): Lane[] {
    // Steps that were found by repetition have no id.
    const of = (step: number | null, ts: number, rank: number | null) =>
        step === null ? `at ${ts} ${rank ?? ""}` : String(step);
    const chosen = new Set(steps.map((s) => of(s.step, s.ts, s.rank)));
    const inside = collectives.filter((c) => chosen.has(of(c.step, c.step_ts, c.rank)));
    return [...groupBy(inside, (c) => c.track)].map(([track, all]) => ({
        track,
        title: all[0]!.lane ?? `track ${track}`,
        bars: [...groupBy(all, (c) => c.nth).values()].map((same) => ({
            name: same[0]!.name ?? "",
            start: meanOf(same, (c) => c.start_ns)!,
            dur: meanOf(same, (c) => c.dur_ns)!,
            steps: same.length,
        })),
    }));
}
