// What the queues of an input pipeline say, in sentences.
import { percent } from "./format";
import type { Queue, Stage, Verdict } from "./queries";

const VERDICTS: Record<string, string> = {
    data_process: "The device is starved of data because preprocessing is too slow: the queue on the host runs empty.",
    transfer: "The device is starved of data though the host has it ready: the transfer to the device is too slow.",
    none: "The device is not starved of data.",
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
            `${of(stage.rank, many)}${stage.stage} is the bottleneck: its output queue is empty for ` +
                `${percent(stage.output_empty_share)} of the time` +
                (stage.inputs ? `, its input queues for ${percent(stage.input_empty_share)}.` : ".")
        );
    }
    if (!slow.length && stages.length) lines.push("No stage is a bottleneck.");
    return lines;
}

// Rows of the picture, of "stage NAME" and "queue TRACK". From the last consumers to the sources: the first
// input of a stage stays on its row, every other one begins a row of its own, and what feeds it goes on there.
export function rowsOf(queues: Pick<Queue, "track" | "producer" | "consumer">[]): Map<string, number> {
    const rows = new Map<string, number>();
    let next = 0;
    const place = (name: string, row: number) => {
        rows.set(`stage ${name}`, row);
        let own: number | null = row;
        for (const q of queues.filter(({ consumer }) => consumer === name)) {
            const at: number = own ?? next++;
            own = null;
            rows.set(`queue ${q.track}`, at);
            if (q.producer !== null && !rows.has(`stage ${q.producer}`)) place(q.producer, at);
        }
    };
    const fills = new Set(queues.map(({ producer }) => producer));
    for (const { consumer } of queues)
        if (consumer !== null && !fills.has(consumer) && !rows.has(`stage ${consumer}`)) place(consumer, next++);
    // What leads nowhere, or in a circle.
    for (const { track, producer } of queues) {
        if (!rows.has(`queue ${track}`)) rows.set(`queue ${track}`, next++);
        if (producer !== null && !rows.has(`stage ${producer}`)) rows.set(`stage ${producer}`, rows.get(`queue ${track}`)!);
    }
    return rows;
}
