// Numbers for people. What is not known is "N/A", never 0.

export const NA = "N/A";

type Maybe = number | string | null | undefined;

function number(value: Maybe): number | null {
    if (value === null || value === undefined || value === "") return null;
    const n = Number(value);
    return Number.isFinite(n) ? n : null;
}

// Three or four digits that count, and no exponent.
function digits(n: number): string {
    const size = Math.abs(n);
    if (size >= 99.95 || n === 0) return n.toFixed(0);
    return n.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

function scaled(n: number, base: number, units: string[]): string {
    let size = Math.abs(n);
    let i = 0;
    // 999.5 would be rounded to 1000 of the smaller unit.
    while (i + 1 < units.length && size >= base * 0.9995) {
        size /= base;
        i += 1;
    }
    const text = i === 0 && Number.isInteger(n) ? String(n) : digits(Math.sign(n) * size);
    return `${text} ${units[i]}`;
}

// A duration or time in nanoseconds.
export function ns(value: Maybe): string {
    const n = number(value);
    if (n === null) return NA;
    if (Math.abs(n) >= 120e9) {
        const s = Math.round(Math.abs(n) / 1e9);
        const h = Math.floor(s / 3600);
        const m = Math.floor((s % 3600) / 60);
        return `${n < 0 ? "-" : ""}${h ? `${h} h ` : ""}${m} min ${s % 60} s`;
    }
    return scaled(n, 1000, ["ns", "µs", "ms", "s"]);
}

export function bytes(value: Maybe): string {
    const n = number(value);
    return n === null ? NA : scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

export function flops(value: Maybe): string {
    const n = number(value);
    return n === null ? NA : scaled(n, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"]);
}

export function flopsPerSecond(value: Maybe): string {
    const n = number(value);
    return n === null ? NA : `${flops(n)}/s`;
}

export function bytesPerSecond(value: Maybe): string {
    const n = number(value);
    return n === null ? NA : scaled(n, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]);
}

// A share, 0 to 1.
export function percent(value: Maybe): string {
    const n = number(value);
    if (n === null) return NA;
    const p = n * 100;
    if (p > 0 && p < 0.005) return "< 0.01 %";
    return `${p !== 0 && Math.abs(p) < 0.1 ? p.toFixed(2) : p.toFixed(1)} %`;
}

// A count, in groups of three digits.
export function count(value: Maybe): string {
    const n = number(value);
    if (n === null) return NA;
    return Number.isInteger(n) ? n.toLocaleString("en").replaceAll(",", " ") : digits(n);
}

// A value with its unit, as counters have it.
export function quantity(value: Maybe, unit: string | null): string {
    if (unit === "bytes" || unit === "B") return bytes(value);
    if (unit === "ns") return ns(value);
    return number(value) === null || !unit ? count(value) : `${count(value)} ${unit}`;
}

export function text(value: Maybe): string {
    return value === null || value === undefined ? NA : String(value);
}

// Unix seconds.
export function date(value: Maybe): string {
    const n = number(value);
    if (n === null || n === 0) return NA;
    const d = new Date(n * 1000);
    const two = (part: number) => String(part).padStart(2, "0");
    return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ` +
        `${two(d.getHours())}:${two(d.getMinutes())}`;
}

// A kernel by its qualified name: of what C++ says of it, parameters and "void" tell nothing. In
// "Memcpy HtoD (Pinned -> Device)" the parenthesis is no list of parameters.
export function kernelName(name: string): string {
    const short = name.replace(/ \[clone .*$/, "").replace(/ const$/, "");
    let open = short.length;
    let depth = 0;
    if (short.endsWith(")")) {
        do {
            open -= 1;
            depth += short[open] === ")" ? 1 : short[open] === "(" ? -1 : 0;
        } while (depth > 0 && open > 0);
    }
    const end = depth === 0 && open > 0 && short[open - 1] !== " " ? open : short.length;
    return short.slice(0, end).replace(/^void /, "").replaceAll("at::native::", "");
}
