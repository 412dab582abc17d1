// How fast an operator could be at most, for what it computes and moves.
import type { Ceilings } from "./machine";
import type { Operator } from "./queries";

// FLOP per byte; null where either is not known or nothing.
export function intensity(of: Operator): number | null {
    return of.computation && of.memory ? of.computation / of.memory : null;
}

// FLOP per second under the roof; null if no ceiling is known.
export function attainable(at: number, roof: Ceilings): number | null {
    const slope = roof.bytes === null ? Infinity : at * roof.bytes;
    const most = Math.min(slope, roof.flops ?? Infinity);
    return most === Infinity ? null : most;
}
