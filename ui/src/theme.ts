// Light or dark: what the system prefers, until the reader chooses.
import { useEffect, useState } from "preact/hooks";
import { keep, kept } from "./kept";

export type Theme = "light" | "dark";

const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<(theme: Theme) => void>();

function chosen(): Theme | null {
    const value = kept("theme");
    return value === "light" || value === "dark" ? value : null;
}

let theme: Theme = "light";

function apply(): void {
    theme = chosen() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    listeners.forEach((listener) => listener(theme));
}

export function start(): void {
    apply();
    system.addEventListener("change", apply);
}

export function toggle(): void {
    keep("theme", theme === "dark" ? "light" : "dark");
    apply();
}

export function useTheme(): Theme {
    const [now, setNow] = useState(theme);
    useEffect(() => {
        listeners.add(setNow);
        setNow(theme);
        return () => { listeners.delete(setNow); };
    }, []);
    return now;
}
