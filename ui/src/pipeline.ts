// What the queues of an input pipeline say, in sentences.
import { percent } from "./format";
import type { Stage, Verdict } from "./queries";

const VERDICTS: Record<string, string> = {
    data_process: "The device lacks data because preparing it is too slow: the queue on the host runs empty.",
    transfer: "The device lacks data though the host has it ready: moving it to the device is too slow.",
    none: "The device does not lack data.",
};

function of(rank: number | null, many: boolean): string {
    return many && rank !== null ? `Rank ${rank}: ` : "";
}

export function pipelineSentences(stages: Stage[], verdicts: Verdict[]): string[] {
    const many = new Set([...stages, ...verdicts].map((row) => row.rank)).size > 1;
    const lines = verdicts.map((v) => of(v.rank, many) + (VERDICTS[v.verdict] ?? v.verdict));
    const slow = stages.filter((s) => s.bottleneck);
    for (const stage of slow) {
        lines.push(
            `${of(stage.rank, many)}${stage.stage} holds the pipeline up: what it fills is empty for ` +
                `${percent(stage.output_empty_share)} of the time` +
                (stage.inputs ? `, what it reads for ${percent(stage.input_empty_share)}.` : ".")
        );
    }
    if (!slow.length && stages.length) lines.push("No stage holds the pipeline up.");
    return lines;
}
