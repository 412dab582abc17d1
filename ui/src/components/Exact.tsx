// A time to the nanosecond, and texts that can be taken along.
import { useEffect, useState } from "preact/hooks";
import { count, NA, ns } from "../format";
import { Icon } from "../icons";

async function put(text: string): Promise<void> {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        // Without the clipboard's consent: what is selected can still be copied.
        const area = document.createElement("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
    }
}

export function Copy({ text, what }: { text: string; what: string }) {
    const [done, setDone] = useState(false);
    useEffect(() => {
        if (!done) return;
        const timer = setTimeout(() => setDone(false), 1200);
        return () => clearTimeout(timer);
    }, [done]);
    return (
        <button class="icon-button copy" aria-label={`Copy ${what}`} title={done ? "Copied" : `Copy ${what}`}
                onClick={() => void put(text).then(() => setDone(true))}>
            <Icon name={done ? "check" : "copy"} />
        </button>
    );
}

export function Exact({ value, what }: { value: number | null; what: string }) {
    if (value === null) return <>{NA}</>;
    const short = ns(value);
    return (
        <span class="exact">
            {short}
            {Math.abs(value) >= 1000 && <span class="muted">{count(value)} ns</span>}
            <Copy text={String(value)} what={`${what} in ns`} />
        </span>
    );
}
