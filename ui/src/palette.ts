// Every colour that means something, once. The same type, layer or stage has the same colour on
// every page. Fills are read with dark text on them in both themes; lines use the same.
import type { Theme } from "./theme";

const CYCLE: Record<Theme, string[]> = {
    light: ["#6ea0f0", "#f2a65a", "#74c69d", "#e58fb1", "#a997e6", "#e7c94c", "#62c4d3", "#e88373",
            "#a6c34f", "#c99be0", "#8fb3c9", "#d3a77c"],
    dark: ["#5f93e8", "#e0944a", "#58b487", "#d87ba1", "#9a86de", "#d1b23c", "#4fb3c4", "#d97262",
           "#93b13f", "#ba89d4", "#7fa5bd", "#c1946a"],
};

const NAMED: Record<Theme, Record<string, string>> = {
    light: {
        "layer:app": "#74c69d", "layer:framework": "#6ea0f0", "layer:runtime": "#f2a65a",
        "layer:hardware": "#a997e6",
        "stage:gap": "#c4ccd6", "stage:forward": "#6ea0f0", "stage:backward": "#a997e6",
        "stage:fp_bp": "#6ea0f0", "stage:tail": "#f2a65a", "stage:update": "#74c69d",
        "stage:collective": "#e58fb1",
        "bucket:compute": "#6ea0f0", "bucket:overlap": "#62c4d3", "bucket:communication": "#e58fb1",
        "bucket:copy": "#e7c94c", "bucket:data": "#e88373", "bucket:measuring": "#a79ad6",
        "bucket:runtime": "#f2a65a",
        "bucket:host": "#74c69d", "bucket:idle": "#d5dae1", "bucket:not_recorded": "#eceff3",
        other: "#c4ccd6", good: "#2f9e63", warning: "#c2740c", bad: "#cf3f36",
    },
    dark: {
        "layer:app": "#58b487", "layer:framework": "#5f93e8", "layer:runtime": "#e0944a",
        "layer:hardware": "#9a86de",
        "stage:gap": "#828c99", "stage:forward": "#5f93e8", "stage:backward": "#9a86de",
        "stage:fp_bp": "#5f93e8", "stage:tail": "#e0944a", "stage:update": "#58b487",
        "stage:collective": "#d87ba1",
        "bucket:compute": "#5f93e8", "bucket:overlap": "#4fb3c4", "bucket:communication": "#d87ba1",
        "bucket:copy": "#d1b23c", "bucket:data": "#d97262", "bucket:measuring": "#9485cb",
        "bucket:runtime": "#e0944a",
        "bucket:host": "#58b487", "bucket:idle": "#7d8794", "bucket:not_recorded": "#a7b0bc",
        other: "#828c99", good: "#4fc088", warning: "#e3a13c", bad: "#ef7269",
    },
};

function hash(text: string): number {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    return (h ^ (h >>> 15)) >>> 0;
}

export type Kind = "layer" | "stage" | "bucket";

// The colour of a member of a fixed set; grey if it is none.
export function named(kind: Kind | null, key: string, theme: Theme): string {
    const colors = NAMED[theme];
    return colors[kind ? `${kind}:${key}` : key] ?? colors.other!;
}

// The colour of an operator type, category or other name.
export function byName(name: string, theme: Theme): string {
    const cycle = CYCLE[theme];
    return cycle[hash(name) % cycle.length]!;
}

// The i-th colour, where neighbours must differ (series of a chart).
export function byIndex(i: number, theme: Theme): string {
    const cycle = CYCLE[theme];
    return cycle[i % cycle.length]!;
}

// From little (0) to much (1), for heat.
export function heat(share: number, theme: Theme): string {
    const s = Math.max(0, Math.min(1, share));
    return theme === "light" ? `hsl(${50 - 40 * s} 85% ${92 - 32 * s}%)`
        : `hsl(${50 - 40 * s} ${35 + 35 * s}% ${24 + 26 * s}%)`;
}

// Text on any of the fills above.
export const ON_FILL = "#10151c";
