// What the facts of a trace say about model, engine and machine, in words.
import { bytes, bytesPerSecond, count, flopsPerSecond, ns } from "./format";
import type { Meta } from "./queries";

// First that is there counts.
const KNOWN: { title: string; keys: string[]; show?: (value: string, meta: Meta[]) => string }[] = [
    { title: "Model", keys: ["model.name", "model.path"] },
    { title: "Engine", keys: ["engine.name", "source.producer"] },
    { title: "Threads", keys: ["engine.threads"] },
    { title: "Batch size", keys: ["run.batch"] },
    { title: "Format", keys: ["source.format"] },
    { title: "Program", keys: ["program.command"] },
    { title: "Processor", keys: ["machine.cpu"] },
    { title: "Cores", keys: ["machine.cores"] },
    { title: "Host", keys: ["machine.host"] },
    {
        title: "Peak compute",
        keys: ["machine.peak_gflops_per_s"],
        show: (v) => flopsPerSecond(Number(v) * 1e9),
    },
    {
        title: "Peak memory bandwidth",
        keys: ["machine.peak_gbytes_per_s"],
        show: (v) => bytesPerSecond(Number(v) * 1e9),
    },
    { title: "Activation memory", keys: ["engine.arena_bytes"], show: (v) => bytes(v) },
    {
        title: "Profiling overhead per iteration",
        keys: ["run.cost_ns"],
        show: (v, meta) => `${ns(v)} ± ${ns(value(meta, "run.cost_error_ns"))}`,
    },
    { title: "Recorded by", keys: ["opmeter.version"], show: (v) => `opmeter ${v}` },
];

// "2 × NVIDIA H200" from device.0.name, device.1.name, ...
function devices(meta: Meta[]): string | null {
    const names = new Map<string, number>();
    for (const { key, value } of meta) {
        if (value && /(^|\.)device\.\d+\.name$/.test(key)) names.set(value, (names.get(value) ?? 0) + 1);
    }
    const words = [...names].map(([name, n]) => (n > 1 ? `${count(n)} × ${name}` : name));
    return words.length ? words.join(", ") : null;
}

// A trace of several files has the facts of the others under fileN.
function value(meta: Meta[], key: string): string | undefined {
    return (meta.find((m) => m.key === key) ?? meta.find((m) => m.key.replace(/^file\d+\./, "") === key))
        ?.value;
}

export function facts(meta: Meta[]): [string, string][] {
    const found: [string, string][] = [];
    for (const { title, keys, show } of KNOWN) {
        const text = keys.map((key) => value(meta, key)).find((v) => v !== undefined && v !== "");
        if (text !== undefined) found.push([title, show ? show(text, meta) : text]);
    }
    const device = devices(meta);
    if (device) found.push(["Devices", device]);
    return found;
}

export interface Ceilings {
    flops: number | null; // per second
    bytes: number | null;
}

const number = (meta: Meta[], key: string) => {
    const text = value(meta, key);
    const n = text === undefined ? NaN : Number(text);
    return n > 0 ? n * 1e9 : null;
};

// Measured where the trace was made; null where nobody did. Of fp32 and memory.
export function ceilings(meta: Meta[]): Ceilings {
    return {
        flops: number(meta, "machine.peak_gflops_per_s"),
        bytes: number(meta, "machine.peak_gbytes_per_s"),
    };
}

// The other ceilings that were measured there, each with its name.
export function otherCeilings(meta: Meta[]): { name: string; of: Ceilings }[] {
    const flops = number(meta, "machine.peak_gflops_per_s");
    const int8 = number(meta, "machine.peak_int8_gops_per_s");
    const levels = ["L1", "L2", "L3"].flatMap((name) => {
        const bytes = number(meta, `machine.peak_${name.toLowerCase()}_gbytes_per_s`);
        return bytes === null ? [] : [{ name, of: { flops: int8 ?? flops, bytes } }];
    });
    return int8 === null ? levels : [...levels, { name: "int8", of: { flops: int8, bytes: null } }];
}
