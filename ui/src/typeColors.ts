// The colour of an operator type: by its place among the types of the trace, so that those which
// matter differ, and every page has the same.
import { useMemo } from "preact/hooks";
import { NA } from "./format";
import { useData } from "./hooks";
import { byIndex, named } from "./palette";
import type { OperatorType } from "./queries";
import { useTheme, type Theme } from "./theme";

const DIFFERENT = 12;

// Types by the time they take; null for one that is none of the first.
export function typeColors(types: OperatorType[], theme: Theme): (type: string | null) => string | null {
    const places = new Map<string, number>();
    for (const { type } of types) {
        if (places.size < DIFFERENT && !places.has(type ?? NA)) places.set(type ?? NA, places.size);
    }
    return (type) => {
        const place = places.get(type ?? NA);
        return place === undefined ? null : byIndex(place, theme);
    };
}

export function useTypeColors(): (type: string | null) => string {
    const theme = useTheme();
    const types = useData<OperatorType>("op_types");
    return useMemo(() => {
        const color = typeColors(types.state === "ready" ? types.value : [], theme);
        return (type: string | null) => color(type) ?? named(null, "other", theme);
    }, [types, theme]);
}
