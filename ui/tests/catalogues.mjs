// catalogues.mjs -- catalogues with something planted, as `opmeter add` makes them: runs over time, and jobs of many ranks.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const RUNS = 16;
const SLOWER_FROM = 8; // conv takes 60 us more

function run(n) {
    const conv = 400 + (n >= SLOWER_FROM ? 60 : 0) + 0.1 * ((n * 3) % 7);
    const span = (name, ts, dur, tid, cat, args) => ({ ph: "X", pid: 1, tid, ts, dur, name, cat, args });
    const events = [0, 1, 2, 3, 4].flatMap((i) => [
        span("net", 3000 * i, 900 + conv, 1, "step", { layer: "app", step: { id: i, num: i, model: "net", warmup: 0 } }),
        ...[["conv", conv], ["fc", 200]].map(([op, us], k) => span(op, 3000 * i + 600 * k, us, 2, "op", {
            layer: "hardware", step: { id: i }, op: { id: k, name: op, type: op } })),
    ]);
    const start = String(BigInt(1700000000 + 3600 * n) * 1000000000n);
    return JSON.stringify({ displayTimeUnit: "ns", otherData: { "opmeter.export": "1", "model.name": "net", "clock.start_realtime_ns": start }, traceEvents: events });
}

// A catalogue of RUNS runs, and what it names, in a folder that is made; its path.
export function makeHistory(opmeter, folder) {
    const db = join(folder, "runs.db");
    mkdirSync(folder, { recursive: true });
    for (let n = 0; n < RUNS; n += 1) {
        const file = join(folder, `${n}.json`);
        writeFileSync(file, run(n));
        execFileSync(opmeter, ["add", "-q", file, "--to", db, "--commit", `c0ffee${String(n).padStart(4, "0")}`, "--label", "branch=main"]);
    }
    return db;
}

export const RANKS = 6;
export const STEPS = 12;
export const CLEAN = "job <b>1</b>/ä %2F";

// TWICE has ranks of both, rank 2 from either.
export const TWICE = "begun anew";

// Of "train-7", rank 4 is late, the link from 1 to 2 is slow, memory of 3 grows, an operator is slow on 0. CLEAN is clean.
export function makeJobs(opmeter, root, folder) {
    mkdirSync(folder);
    const db = join(folder, "runs.db");
    const add = (name, job, planted) => {
        const from = join(folder, name);
        execFileSync("python3", [join(root, "bench/fleet_job.py"), from, "--ranks", String(RANKS), "--steps", String(STEPS), "--hosts", "2", ...planted]);
        for (let rank = 0; rank < RANKS; rank++) {
            execFileSync(opmeter, ["add", join(from, `rank${String(rank).padStart(5, "0")}.json`), "--to", db, "--job", job, "--rank", String(rank)], { stdio: "ignore" });
        }
    };
    add("late", "train-7", ["--late", "4", "--slow-link", "1", "--slow-op", "0", "--leak", "3", "--seed", "3"]);
    add("clean", CLEAN, ["--seed", "4"]);
    for (const [name, rank] of [["late", 0], ["late", 2], ["clean", 2]])
        execFileSync(opmeter, ["add", "-q", join(folder, name, `rank0000${rank}.json`), "--to", db, "--job", TWICE], { env: { ...process.env, WORLD_SIZE: "4", RANK: String(rank) } });
    return db;
}
