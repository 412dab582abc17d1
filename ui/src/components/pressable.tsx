// What makes a part of a picture work as a button, with mouse and keyboard.
import type { ComponentChildren } from "preact";

export function pressable(label: string, run: () => void) {
    return {
        tabindex: 0, // SVG attributes are case-sensitive
        role: "button" as const,
        "aria-label": label,
        onClick: run,
        onKeyDown: (event: KeyboardEvent) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            run();
        },
    };
}

interface PressProps {
    label: string; // tells what is drawn below, too
    width: number;
    height: number;
    x?: number;
    y?: number;
    onPress: () => void;
    pressed?: boolean | undefined;
    expanded?: boolean | undefined;
}

// A button over a part of a picture that has texts: they are for the eye, the label for the ear.
export function Press({ label, onPress, pressed, expanded, ...place }: PressProps): ComponentChildren {
    return (
        <rect {...place} rx={6} class="press" aria-pressed={pressed} aria-expanded={expanded} {...pressable(label, onPress)}>
            <title>{label}</title>
        </rect>
    );
}
