// What reading a trace says of what is missing in it.
import type { Loss } from "./queries";

const UNKNOWN = "losses_unknown"; // that something was lost is possible, not certain

// Whether all of it is there, in the words of `opmeter info`.
export function verdictOn(losses: Loss[]): string {
    const lost = losses.filter((l) => l.severity === "loss");
    if (lost.some((l) => l.name !== UNKNOWN)) return "Some of what was recorded is missing.";
    if (lost.length) return "Some of what was recorded may be missing.";
    return losses.some((l) => l.name === "not_closed")
        ? "All that the recording has left so far was read."
        : "Nothing was lost.";
}

export function badgeOf(l: Loss): string {
    if (l.severity !== "loss") return "repaired";
    return l.name === UNKNOWN ? "unknown" : "lost";
}
