// What devices can do at most, as their makers say: dense products, without sparsity, at boost clock.
import type { Ceilings } from "./machine";
import type { Meta, Op, Operator, Tensor } from "./queries";
import { groupBy, sum } from "./stats";

interface Peaks {
    device: RegExp;
    fp32: number; // TFLOP/s of vector units
    tf32: number | null; // of matrix units
    half: number; // bf16 and fp16, of matrix units
    bandwidth: number; // TB/s
}

// The first that matches counts.
const PEAKS: Peaks[] = [
    { device: /B200/, fp32: 80, tf32: 1100, half: 2250, bandwidth: 8 },
    { device: /H200/, fp32: 67, tf32: 494, half: 989, bandwidth: 4.8 },
    { device: /H100.*PCIe/, fp32: 51, tf32: 378, half: 756, bandwidth: 2 },
    { device: /H100|GH200/, fp32: 67, tf32: 494, half: 989, bandwidth: 3.35 },
    { device: /A100.*80GB/, fp32: 19.5, tf32: 156, half: 312, bandwidth: 2.039 },
    { device: /A100/, fp32: 19.5, tf32: 156, half: 312, bandwidth: 1.555 },
    { device: /A10G/, fp32: 31.5, tf32: 35, half: 70, bandwidth: 0.6 },
    { device: /A10\b/, fp32: 31.2, tf32: 62.5, half: 125, bandwidth: 0.6 },
    { device: /L40S/, fp32: 91.6, tf32: 183, half: 362, bandwidth: 0.864 },
    { device: /L4\b/, fp32: 30.3, tf32: 60, half: 121, bandwidth: 0.3 },
    { device: /V100/, fp32: 15.7, tf32: null, half: 125, bandwidth: 0.9 },
    { device: /T4\b/, fp32: 8.1, tf32: null, half: 65, bandwidth: 0.32 },
    { device: /RTX 4090/, fp32: 82.6, tf32: 82.6, half: 165, bandwidth: 1.008 },
    { device: /RTX 3090/, fp32: 35.6, tf32: 35.6, half: 71, bandwidth: 0.936 },
    { device: /MI300X/, fp32: 163.4, tf32: 653.7, half: 1307, bandwidth: 5.3 },
    { device: /MI250/, fp32: 45.3, tf32: null, half: 362, bandwidth: 3.277 },
    { device: /MI210/, fp32: 22.6, tf32: null, half: 181, bandwidth: 1.638 },
];

export interface DeviceRoofs {
    device: string;
    name: string; // of the roof
    roof: Ceilings;
    others: { name: string; of: Ceilings }[];
}

function isHalf(dtype: string | null | undefined): boolean {
    return /^(bf16|fp16|bfloat16|float16|half)$/i.test(dtype ?? "");
}

// Of the device that the trace names; the roof is that of the element type in which most time is
// spent. Null if it names none that is known.
export function deviceRoofs(meta: Meta[], operators: Operator[], tensors: Tensor[]): DeviceRoofs | null {
    const device = meta.find(({ key }) => /(^|\.)device\.\d+\.name$/.test(key))?.value;
    const peaks = PEAKS.find((one) => device !== undefined && one.device.test(device));
    if (!device || !peaks) return null;
    const first = new Map(tensors.filter((t) => t.slot <= 1).map((t) => [t.op, t.dtype]));
    const time = (half: boolean) => sum(operators.filter((o) => o.op !== null && o.computation && isHalf(first.get(o.op)) === half), (o) => o.time_ns);
    const bytes = peaks.bandwidth * 1e12;
    const all = [
        { name: "fp32", of: { flops: peaks.fp32 * 1e12, bytes } },
        ...(peaks.tf32 ? [{ name: "tf32", of: { flops: peaks.tf32 * 1e12, bytes: null } }] : []),
        { name: "bf16 and fp16", of: { flops: peaks.half * 1e12, bytes: null } },
    ];
    const at = time(true) > time(false) ? all[all.length - 1]! : all[0]!;
    return { device, name: at.name, roof: { flops: at.of.flops, bytes }, others: all.filter((one) => one !== at).map((one) => ({ ...one, of: { ...one.of, bytes: null } })) };
}

// Operators whose bytes are not known get those of the tensors that the trace lists; which did.
export function withEstimates(operators: Operator[], ops: Op[], tensors: Tensor[]): { operators: Operator[]; estimated: Set<number> } {
    const flops = new Map(ops.map((op) => [op.id, op.flops]));
    // Numbers and flags among the inputs have no shape, and move nothing to speak of.
    const moved = tensors.filter((t) => t.bytes !== null || t.shape);
    const bytes = new Map([...groupBy(moved, (t) => t.op)].map(([op, of]) => [op, of.every((t) => t.bytes !== null) ? sum(of, (t) => t.bytes) : null]));
    const estimated = new Set<number>();
    return {
        operators: operators.map((o) => {
            const one = o.op === null ? null : bytes.get(o.op);
            const per = o.op === null ? null : flops.get(o.op);
            if (o.memory !== null || !one || !per || !o.computation) return o;
            estimated.add(o.op!);
            return { ...o, memory: one * (o.computation / per) }; // as many executions as were computed
        }),
        estimated,
    };
}
