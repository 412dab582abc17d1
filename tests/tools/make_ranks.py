#!/usr/bin/env python3
"""make_ranks.py -- Kineto traces of a data-parallel job, one per rank, with clocks that differ and, if wanted, a late rank.

usage: make_ranks.py FOLDER RANKS [LATE_RANK LATE_MS STEP]

Ten steps of 100 ms with two all-reduces each. Ranks arrive within 0.3 ms of each other; the late one spends LATE_MS more on
the host, outside of any kernel, before the first all-reduce of one step, and the others wait for it inside the collective. All
ranks leave a collective at the same moment. The clock of rank r is r * 37 ms ahead. Prints what the others waited, in ns, by
the true times: rank, times it came last, mean of the others in all, and by how much its clock is ahead.
"""
import json
import os
import random
import sys

folder, ranks = sys.argv[1], int(sys.argv[2])
late_rank, late_us, late_step = (int(sys.argv[3]), int(float(sys.argv[4]) * 1000), int(sys.argv[5])) if len(sys.argv) > 3 else (-1, 0, -1)
rng = random.Random(11)
STEPS, MAIN, COMPUTE, COMM = 10, 100, 7, 20
ahead = [r * 37_000 for r in range(ranks)]  # us
events = [[] for _ in range(ranks)]
last, cost, now, correlation = [0] * ranks, [0.0] * ranks, [1_700_000_000_000_000] * ranks, 0


def add(rank, cat, name, pid, tid, ts, dur, **args):
    events[rank].append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts + ahead[rank], "dur": dur, "args": args})


for step in range(STEPS):
    begin = list(now)
    for nth in range(2):
        come = []
        for r in range(ranks):
            correlation += 1
            work = 45_000 + rng.randrange(0, 300)
            t = now[r]
            add(r, "cpu_op", "aten::mm", r, MAIN, t, 60)
            add(r, "cuda_runtime", "cudaLaunchKernel", r, MAIN, t + 10, 20, correlation=correlation)
            add(r, "kernel", "gemm", r, COMPUTE, t + 40, work - 100, correlation=correlation, device=r, stream=COMPUTE)
            t += work
            if r == late_rank and step == late_step and nth == 0:
                t += late_us
            correlation += 1
            add(r, "cuda_runtime", "cudaLaunchKernel", r, MAIN, t - 30, 20, correlation=correlation)
            come.append((t, r, correlation))
        end = max(come)[0] + 4_000
        who = max(come)[1]
        last[who] += 1
        cost[who] += sum(max(come)[0] - t for t, r, c in come) * 1000 // (ranks - 1)
        for t, r, c in come:
            add(r, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", r, COMM, t, end - t, correlation=c, device=r, stream=COMM)
            now[r] = end
    for r in range(ranks):
        add(r, "user_annotation", f"ProfilerStep#{step}", r, MAIN, begin[r], now[r] - begin[r])
for r in range(ranks):
    with open(os.path.join(folder, f"rank{r}.json"), "w") as f:
        json.dump({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": r, "world_size": ranks},
                   "deviceProperties": [{"id": r}], "traceEvents": events[r]}, f)
    print(f"{r},{last[r]},{int(cost[r])},{ahead[r] * 1000}")
