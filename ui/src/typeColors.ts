// The colour of an operator type: by its place among the types of the trace, so that those which
// matter differ, and every page has the same.
import { NA } from "./format";
import { useData } from "./hooks";
import { byIndex, named } from "./palette";
import type { OperatorType } from "./queries";
import { useTheme } from "./theme";

const DIFFERENT = 12;

export function useTypeColors(): (type: string | null) => string {
    const theme = useTheme();
    const types = useData<OperatorType>("op_types");
    const place = new Map<string, number>();
    for (const { type } of types.state === "ready" ? types.value : []) {
        const name = type ?? NA;
        if (!place.has(name)) place.set(name, place.size);
    }
    return (type) => {
        const at = place.get(type ?? NA);
        return at === undefined || at >= DIFFERENT ? named(null, "other", theme) : byIndex(at, theme);
    };
}
