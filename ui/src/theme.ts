// Light or dark: what the system prefers, until the reader chooses.
import { useEffect, useState } from "preact/hooks";

export type Theme = "light" | "dark";

const KEY = "opmeter.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<(theme: Theme) => void>();

// Storage may be forbidden (a file opened from disk in some browsers): then nothing is kept.
function kept(): Theme | null {
    try {
        const value = localStorage.getItem(KEY);
        return value === "light" || value === "dark" ? value : null;
    } catch {
        return null;
    }
}

let theme: Theme = "light";

function apply(): void {
    theme = kept() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    listeners.forEach((listener) => listener(theme));
}

export function start(): void {
    apply();
    system.addEventListener("change", apply);
}

export function toggle(): void {
    const other = theme === "dark" ? "light" : "dark";
    try {
        localStorage.setItem(KEY, other);
        apply();
    } catch {
        document.documentElement.dataset.theme = theme = other;
        listeners.forEach((listener) => listener(theme));
    }
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
