// Two timelines that move as one: the start of a step of one stands where that of the other does.
import type { StepRow } from "../schema";
import { groupBy } from "../stats";
import type { Controller } from "./controller";
import type { Range } from "./scene";
import { toTime } from "./view";

export type Side = 0 | 1;

export function otherSide(side: Side): Side {
    return side === 0 ? 1 : 0;
}

// The steps to align by: measured ones of the model and track that has most.
export function measured(steps: StepRow[]): StepRow[] {
    const ended = steps.filter(({ dur }) => dur >= 0);
    const apart = ended.filter(({ warmup }) => !warmup);
    const groups = [...groupBy(apart.length ? apart : ended, (step) => `${step.model}|${step.track}`).values()];
    const most = groups.reduce<StepRow[]>((a, b) => (b.length > a.length ? b : a), []);
    return [...most].sort((a, b) => a.ts - b.ts);
}

// The last that starts at a time or before; 0 before the first.
export function stepAt(steps: StepRow[], time: number): number {
    let at = 0;
    while (at + 1 < steps.length && steps[at + 1]!.ts <= time) at += 1;
    return at;
}

export class Link {
    readonly steps: [StepRow[], StepRow[]]; // the n-th of A stands for the n-th of B
    step = 0; // where they are aligned
    private following = false;

    constructor(private readonly sides: [Controller, Controller], steps: [StepRow[], StepRow[]]) {
        const both = [measured(steps[0]), measured(steps[1])];
        const n = Math.min(both[0]!.length, both[1]!.length);
        this.steps = [both[0]!.slice(0, n), both[1]!.slice(0, n)];
        sides.forEach((side, i) => { side.onMove = (smooth) => this.moved(i as Side, smooth); });
        this.align(0);
    }

    get count(): number {
        return this.steps[0].length;
    }

    private start(side: Side): number {
        return this.steps[side][this.step]?.ts ?? 0;
    }

    // To be added to a time of a side to get that of the other.
    shift(side: Side): number {
        return this.start(otherSide(side)) - this.start(side);
    }

    // What both have can be shown, wherever one of them ends.
    align(step: number): void {
        this.step = Math.max(0, Math.min(step, this.count - 1));
        for (const side of [0, 1] as const) {
            const by = this.shift(otherSide(side));
            const [own, other] = [this.sides[side].scene.duration, this.sides[otherSide(side)].scene.duration];
            this.sides[side].limits = { from: Math.min(0, by), to: Math.max(own, other + by, 1) };
            this.sides[side].setMarkers(this.count ? [this.start(side)] : []);
        }
    }

    // As long as the start by which they are aligned is in sight it stays so; then it is the first that is,
    // or that of the step in the middle.
    private moved(side: Side, smooth: boolean): void {
        if (this.following) return;
        const lead = this.sides[side];
        const { from } = lead.target;
        const to = toTime(lead.target, lead.scene.width);
        const seen = ({ ts }: StepRow) => ts >= from && ts <= to;
        const steps = this.steps[side];
        if (this.count && !seen(steps[this.step]!)) {
            const first = steps.findIndex(seen);
            const next = first >= 0 ? first : stepAt(steps, (from + to) / 2);
            if (next !== this.step) this.align(next);
        }
        this.following = true;
        this.sides[otherSide(side)].follow({ from: from + this.shift(side), scale: lead.target.scale }, smooth);
        this.following = false;
    }

    // Both steps from their start, the longer one to its end.
    goTo(step: number, smooth = true): void {
        this.align(step);
        const [a, b] = [this.steps[0][this.step], this.steps[1][this.step]];
        if (a && b) this.sides[0].showRange(a.ts, a.ts + Math.max(a.dur, b.dur, 1), smooth);
        else this.sides[0].showAll();
    }

    // A range of a side on both: of a step, the same step of the other.
    ranges(side: Side, range: Range): [Range, Range] {
        const at = this.steps[side].findIndex(({ ts, dur }) => ts === range.from && ts + dur === range.to);
        const twin = this.steps[otherSide(side)][at];
        const by = this.shift(side);
        const other = twin ? { from: twin.ts, to: twin.ts + twin.dur } : { from: range.from + by, to: range.to + by };
        return side === 0 ? [range, other] : [other, range];
    }

    // The time of a step in which something began, and of its counterpart: from its start up to the next.
    around(side: Side, time: number): [Range, Range] {
        if (!this.count || time < this.steps[side][0]!.ts) {
            const before = (of: Side) => ({ from: 0, to: this.steps[of][0]?.ts ?? this.sides[of].scene.duration + 1 });
            return [before(0), before(1)];
        }
        const at = stepAt(this.steps[side], time);
        const of = (s: Side) => ({ from: this.steps[s][at]!.ts, to: this.steps[s][at + 1]?.ts ?? this.sides[s].scene.duration + 1 });
        return [of(0), of(1)];
    }
}
