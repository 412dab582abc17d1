// What makes a part of a picture work as a button, with mouse and keyboard.
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
