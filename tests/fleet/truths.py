"""truths.py -- jobs whose figures are worked out beside them: what `opmeter job` shows of each is compared, to the nanosecond.

A job is simulated by one clock, in whole nanoseconds, and written as PyTorch's profiler writes it, each rank by a clock of its
own. What is expected is computed from the simulation alone, by loops over its collectives, kernels and steps.
"""
import json
import random
import statistics

from rig import Failure, add, expect, near, run, table

US, MS, HOUR = 1000, 1_000_000, 3600 * 10**9
BEGAN = 1_780_000_000 * 10**9
ELEMENTS = 1 << 20
SENT = 1 << 18
LATENCY = 90 * US


class Simulated:
    """apart: how far clocks lie apart at most; pairs: neighbours meet, too; missing: share of steps that a rank did not record;
    late(rank, step): what it loses before its first collective; noise(): a factor for a kernel; slow_pair: (rank, factor);
    of_sends: collectives exchange all with all, which NCCL does by the kernel of transfers between two, whose name it is, or RCCL's for all."""

    def __init__(self, seed, ranks, steps=8, layers=3, apart=6 * HOUR, pairs=False, missing=0.0, late=lambda rank, step: 0, noise=None,
                 collectives=2, slow_pair=(None, 1), leak=None, slow=(None, 1.0), end_noise=0, of_sends=None):
        self.random = random.Random(seed)
        self.ranks, self.steps, self.layers, self.pairs, self.late, self.slow = ranks, steps, layers, pairs, late, slow
        self.of_sends = of_sends
        self.noise = noise or (lambda r: r.uniform(0.95, 1.05))
        self.clock = [self.random.randrange(-apart, apart + 1) for _ in range(ranks)]
        self.recorded = {(r, s) for r in range(ranks) for s in range(steps) if s == 0 or self.random.random() >= missing}
        self.collectives, self.slow_pair, self.leak, self.end_noise = collectives, slow_pair, leak, end_noise
        self.kernels, self.meetings, self.sends, self.step, self.memory = [], [], [], {}, {}
        self.simulate()

    def groups(self):
        out = [("0", range(self.ranks))]
        if self.pairs:
            out += [(str(1 + a // 2), range(a, min(a + 2, self.ranks))) for a in range(0, self.ranks, 2)]
        return out

    def simulate(self):
        at, draw = [0] * self.ranks, self.random
        for step in range(self.steps):
            begin = [t + draw.randrange(1, 5 * US) for t in at]
            at = [t + 20 * US for t in begin]
            for phase in range(self.collectives):
                for rank in range(self.ranks):
                    at[rank] += int(self.late(rank, step)) if phase == 0 else 0
                    for layer in range(self.layers):
                        dur = int((100 + 30 * layer) * US * self.noise(draw))
                        if rank == self.slow[0] and layer == 0:
                            dur = int(dur * self.slow[1])
                        self.kernels.append((rank, step, f"aten::layer{layer}", at[rank], dur))
                        at[rank] += dur + draw.randrange(1, 2 * US)
                # In the order in which everybody launches them: those of neighbours, then of all.
                for comm, members in reversed(self.groups()) if self.ranks > 1 else ():
                    if len(members) < 2:
                        continue
                    came = {r: at[r] for r in members}
                    end = max(came.values()) + LATENCY + draw.randrange(0, 3 * US)
                    left = {r: end + (draw.randrange(0, self.end_noise) if self.end_noise else 0) for r in members}
                    self.meetings.append((step, comm, phase, came, left))
                    for r in members:
                        at[r] = left[r] + draw.randrange(1, US)
            if self.ranks > 2:
                for rank in range(self.ranks):
                    dur = int(60 * US * (self.slow_pair[1] if rank == self.slow_pair[0] else 1)) + draw.randrange(0, US)
                    self.sends.append((rank, step, (rank + 1) % self.ranks, at[rank], dur))
                    at[rank] += dur + 1
            for rank in range(self.ranks):
                at[rank] += draw.randrange(10 * US, 60 * US)
                self.step[rank, step] = begin[rank], at[rank]
                self.memory[rank, step] = (5 << 30) + (rank << 20) + draw.randrange(1 << 20) + (step * (64 << 20) if rank == self.leak else 0)

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        events, paths = [[] for _ in range(self.ranks)], []
        numbers, launched = iter(range(1, 10**9)), {}

        def kernel(rank, step, op, name, start, dur, stream=7, **args):
            if (rank, step) not in self.recorded:
                return
            number = next(numbers)
            # One after the other on the host, before the device does the first.
            launch = launched[rank, step] = launched.get((rank, step), self.step[rank, step][0]) + US
            events[rank].append({"ph": "X", "cat": "cpu_op", "name": op, "pid": 1, "tid": 1, "ts": launch, "dur": 600, "args": {"External id": number}})
            if self.of_sends and op.startswith("c10d::"):
                events[rank].append({"ph": "X", "cat": "user_annotation", "name": "nccl:send" if op == "c10d::send" else "nccl:all_to_all", "pid": 1,
                                     "tid": 1, "ts": launch + 50, "dur": 450, "args": {"External id": number}})
            events[rank].append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": launch + 100, "dur": 300,
                                 "args": {"External id": number, "correlation": number}})
            events[rank].append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": dur,
                                 "args": {"External id": number, "correlation": number, "device": 0, "stream": stream, **args}})

        for rank, step, name, start, dur in self.kernels:
            kernel(rank, step, name, "gemm_" + name[6:], start, dur)
        op, name = ("c10d::alltoall_base_", self.of_sends) if self.of_sends else ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        for step, comm, _, came, left in self.meetings:
            for rank in came:
                kernel(rank, step, op, name, came[rank], left[rank] - came[rank], 20,
                       **{"Collective name": "all_to_allv" if self.of_sends else "allreduce", "In msg nelems": ELEMENTS, "Out msg nelems": ELEMENTS, "dtype": "Float",
                          "Group size": len(came), "Process Group Name": comm})
        for rank, step, peer, start, dur in self.sends:
            kernel(rank, step, "c10d::send", self.of_sends or "ncclDevKernel_SendRecv", start, dur, 24,
                   **{"Collective name": "send", "In msg nelems": SENT, "dtype": "Float", "Dst Rank": peer, "Process Group Name": "0"})
        for (rank, step), (begin, end) in self.step.items():
            if (rank, step) in self.recorded:
                events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": begin,
                                     "dur": end - begin})
                events[rank].append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": begin + 2 * US,
                                     "args": {"Total Allocated": self.memory[rank, step], "Total Reserved": 8 << 30, "Device Type": 1,
                                              "Device Id": 0, "Bytes": 512, "Addr": 1}})
        for rank in range(self.ranks):
            for event in events[rank]:
                for key in ("ts", "dur"):
                    if key in event:
                        event[key] = event[key] / 1000
            paths.append(folder / f"worker{rank:04d}.pt.trace.json")
            paths[-1].write_text(json.dumps({
                "schemaVersion": 1, "host_name": f"node{rank // 2}", "deviceProperties": [{"id": 0, "name": "planted"}], "displayTimeUnit": "ms",
                "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": self.ranks},
                "baseTimeNanoseconds": BEGAN + self.clock[rank], "traceEvents": events[rank]}))
        return paths

    # ---- what is true of what was recorded ----

    def met(self):
        """(step, comm, phase, came, left) with the ranks that recorded it, where there are two or more."""
        for step, comm, phase, came, left in self.meetings:
            here = {r: t for r, t in came.items() if (r, step) in self.recorded}
            if len(here) > 1:
                yield step, comm, phase, here, left

    def true_late(self):
        out = {}
        for _, _, _, came, _ in self.met():
            order = sorted(came, key=lambda r: (came[r], -r))  # of two at once the first counts as last
            last, before = order[-1], order[-2]
            for rank in came:
                own = out.setdefault(rank, {"collectives": 0, "last_count": 0, "cost_ns": 0, "late_ns": 0.0, "waited_ns": 0})
                own["collectives"] += 1
                own["waited_ns"] += came[last] - came[rank]
            out[last]["last_count"] += 1
            out[last]["cost_ns"] += came[last] - came[before]
            out[last]["late_ns"] += statistics.fmean(came[last] - came[r] for r in came if r != last)
        return out

    def true_heatmap(self):
        out = {(step, rank): [end - begin, None, None] for (rank, step), (begin, end) in self.step.items() if (rank, step) in self.recorded}
        for step, _, _, came, _ in self.met():
            order = sorted(came, key=lambda r: (came[r], -r))  # of two at once the first counts as last
            for rank in came:
                out[step, rank][1] = (out[step, rank][1] or 0) + came[order[-1]] - came[rank]
                out[step, rank][2] = out[step, rank][2] or 0
            out[step, order[-1]][2] += came[order[-1]] - came[order[-2]]
        return out

    def true_path(self):
        """Nanoseconds by (kind, rank): backwards from who ends a step last."""
        out, met = {}, {}
        for step, _, _, came, left in self.met():
            met.setdefault(step, []).append((came, left))
        known = {r for meetings in met.values() for came, _ in meetings for r in came}
        for step in range(self.steps if known else 0):
            meetings, ranks = met.get(step, []), [r for r in known if (r, step) in self.recorded]
            if not ranks:
                continue
            rank = max(ranks, key=lambda r: self.step[r, step][1])
            at, kind = self.step[rank, step][1], "end"
            while True:
                mine = [m for m in meetings if rank in m[0] and m[1][rank] <= at]
                if not mine:
                    break
                came, left = max(mine, key=lambda m: m[1][rank])
                out[kind, rank] = out.get((kind, rank), 0) + at - left[rank]
                last = max(came, key=came.get)
                out["collective", last] = out.get(("collective", last), 0) + left[rank] - came[last]
                rank, at, kind = last, came[last], "work"
            out[kind, rank] = out.get((kind, rank), 0) + at - self.step[rank, step][0]
        return out

    def true_ops(self):
        out = {}
        for rank, step, name, _, dur in self.kernels:
            if (rank, step) in self.recorded:
                out.setdefault(name, []).append((dur, rank))
        return out


def check_late(db, job, sim):
    wanted, rows = sim.true_late(), {r["rank"]: r for r in table(db, job, "late")}
    expect("ranks that met others", sorted(rows), sorted(wanted))
    for rank, own in wanted.items():
        for column in ("collectives", "last_count", "cost_ns", "waited_ns"):
            expect(f"{column} of rank {rank}", rows[rank][column], own[column])
        # One nanosecond for each mean.
        if abs(rows[rank]["late_ns"] - own["late_ns"]) > own["last_count"]:
            raise Failure(f"late_ns of rank {rank}: {rows[rank]['late_ns']}, expected {own['late_ns']}")
        expect(f"clock of rank {rank}", rows[rank]["clock_ns"], sim.clock[rank] - sim.clock[min(wanted)])


def check_job(db, job, sim, ranks=None):
    check_late(db, job, sim)
    expect("heat map", {(r["num"], r["rank"]): [r["total_ns"], r["waited_ns"], r["cost_ns"]] for r in table(db, job, "heatmap")},
           sim.true_heatmap())
    path = {}
    for row in table(db, job, "path"):
        path[row["kind"], row["rank"]] = path.get((row["kind"], row["rank"]), 0) + row["total_ns"]
    expect("critical path", {k: v for k, v in path.items() if v}, {k: v for k, v in sim.true_path().items() if v})

    ops = {r["name"]: r for r in table(db, job, "ops") if r["section"] == "device"}
    for name, took in sim.true_ops().items():
        durations = sorted(d for d, _ in took)
        expect(f"figures of {name}", [ops[name][c] for c in ("ranks", "count", "total_ns", "min_ns", "max_ns")],
               [len({r for _, r in took}), len(durations), sum(durations), durations[0], durations[-1]])
        for column, share in (("median_ns", 0.5), ("p99_ns", 0.99)):
            near(f"{column} of {name}", ops[name][column], durations[int(share * (len(durations) - 1))], 0.005)

    steps = {}
    for rank, step in sim.recorded:
        steps.setdefault(step, []).append((sim.step[rank, step][1] - sim.step[rank, step][0], -rank))
    rows = table(db, job, "steps")
    expect("steps", [(r["num"], r["ranks"], r["min_ns"], r["max_ns"], r["slowest_rank"]) for r in rows],
           [(s, len(d), min(d)[0], max(d)[0], -max(d)[1]) for s, d in sorted(steps.items())])
    for row in rows:
        near(f"mean of step {row['num']}", row["mean_ns"], statistics.fmean(d for d, _ in steps[row["num"]]), 1e-9)

    sent = {}
    for rank, step, peer, _, dur in sim.sends:
        if (rank, step) in sim.recorded:
            sent.setdefault((min(rank, peer), max(rank, peer)), []).append(dur)
    pairs = {(r["rank"], r["peer"]): r for r in table(db, job, "links") if r["kind"] == "pair"}
    expect("pairs", sorted(pairs), sorted(sent))
    speeds = {pair: 4 * SENT / min(durations) for pair, durations in sent.items()}
    for pair, durations in sent.items():
        row = pairs[pair]
        expect(f"transfers of {pair}", (row["count"], row["best_ns"], row["bytes"]), (len(durations), min(durations), 4 * SENT))
        near(f"speed of {pair}", row["gbytes_per_s"], speeds[pair], 1e-9)
        if len(sent) > 2:
            near(f"of the median, {pair}", row["of_median"], speeds[pair] / statistics.median(speeds.values()), 1e-9)
    expect("slow pairs", sorted(p for p, r in pairs.items() if r["slow"]),
           sorted(p for p in speeds if len(sent) > 2 and speeds[p] < 0.7 * statistics.median(speeds.values())))

    memory = {r["rank"]: r for r in table(db, job, "memory") if "llocated" in r["counter"]}
    seen = {}
    for rank, step in sorted(sim.recorded):
        seen.setdefault(rank, []).append(sim.memory[rank, step])
    expect("memory", {rank: (r["peak_bytes"], r["growth_bytes"]) for rank, r in memory.items()},
           {rank: (max(v), v[-1] - v[0]) for rank, v in seen.items()})
    expect("ranks", [(r["rank"], r["host"], r["steps"]) for r in table(db, job, "ranks")],
           [(rank, f"node{rank // 2}", sum(r == rank for r, _ in sim.recorded)) for rank in range(sim.ranks)])


def truths(folder):
    """Ranks from one to seventeen, clocks hours apart, steps that some did not record, groups beside the one of all."""
    db = folder / "runs.db"
    for seed, ranks in enumerate((1, 2, 3, 5, 8, 16, 17)):
        for pairs in (False, True):
            job = f"{ranks} ranks, pairs {pairs}"
            sim = Simulated(seed, ranks, pairs=pairs, missing=0.2 if seed % 2 else 0, slow_pair=(ranks - 2, 2.0), leak=ranks - 1)
            add(db, job, sim.write(folder / f"{ranks}{pairs}"))
            try:
                check_job(db, job, sim)
            except Failure as why:
                raise Failure(f"{job}: {why}") from None


def slow_machines(folder):
    """A machine that holds up job after job, by the names that PyTorch gives machines."""
    db = folder / "runs.db"
    for seed in range(5):
        late = 4 if seed != 2 else None
        sim = Simulated(seed, 6, steps=20, late=lambda rank, step: 200 * US if rank == late else 0)
        add(db, f"job{seed}", sim.write(folder / f"job{seed}"))
    hosts = {h["host"]: h for h in json.loads(run("job", db, "--show", "hosts", "--json").stdout)}
    expect("machines", sorted(hosts), ["node0", "node1", "node2"])
    expect("jobs and those held up", [(h["jobs"], h["late_jobs"], h["slow"]) for _, h in sorted(hosts.items())], [(5, 0, 0), (5, 0, 0), (5, 4, 1)])


def thousand(folder):
    """A thousand ranks; one of them late in every step."""
    db = folder / "runs.db"
    sim = Simulated(3, 1000, steps=4, layers=1, late=lambda rank, step: 300 * US if rank == 617 else 0)
    add(db, "j", sim.write(folder / "job"))
    check_job(db, "j", sim)
    expect("late", [r["rank"] for r in table(db, "j", "late") if r["late"]], [617])


def no_collectives(folder):
    """Ranks that never meet: their steps, operators and memory are there, and nobody is late."""
    db = folder / "runs.db"
    sim = Simulated(4, 4, collectives=0)
    sim.sends.clear()
    add(db, "j", sim.write(folder / "job"))
    for show in ("late", "path", "links"):
        expect(show, table(db, "j", show), [])
    expect("steps", [r["ranks"] for r in table(db, "j", "steps")], [4] * 8)
    expect("cells", [(r["own_ns"], r["waited_ns"], r["cost_ns"]) for r in table(db, "j", "heatmap")], [(None, None, None)] * 32)
    if "How much later" in run("job", db, "j").stdout:
        raise Failure("a map of lateness is drawn")
    if "late" in run("job", db, "j").stdout.split("\n")[1]:
        raise Failure("somebody is late")


def one_without(folder):
    """A rank that takes part in no collective is not called late in the map, nor anywhere."""
    db = folder / "runs.db"
    sim = Simulated(6, 4, late=lambda rank, step: 300 * US if rank == 1 else 0)
    sim.meetings = [(step, comm, phase, {r: t for r, t in came.items() if r != 3}, left) for step, comm, phase, came, left in sim.meetings]
    add(db, "j", sim.write(folder / "job"))
    check_job(db, "j", sim)
    drawn = {int(line.split("|")[0]): line.split("|")[1] for line in run("job", db, "j").stdout.splitlines() if line.count("|") == 2}
    expect("ranks with the darkest fields of the map, and with none", ([r for r, row in drawn.items() if "@" in row], [r for r, row in drawn.items() if not row.strip()]),
           ([1], [3]))


def gaps(folder):
    """Collectives that some ranks have no record of, at the start of a step, in it, at its end, and some that only one has: nobody is late by them."""
    db = folder / "runs.db"
    for seed in range(8):
        sim = Simulated(seed, 2 + seed % 5, steps=12, collectives=6, pairs=seed % 2 == 1, late=lambda rank, step: 150 * US if rank == seed % 2 else 0)
        draw, kept = random.Random(seed), []
        for at, (step, comm, phase, came, left) in enumerate(sim.meetings):
            full = min(came) if step % 2 else max(came)  # somebody has all of them
            lost = {r for r in came if step % 3 == 0 and r != full and draw.random() < 0.3} | ({sim.ranks - 1} if step == 3 and phase == 0 else set())
            kept.append((step, comm, phase, {r: t for r, t in came.items() if r not in lost}, left))
        for rank, step in (0, 5), (sim.ranks - 1, 7):  # what had been launched before the step, and ends in it
            begin = sim.step[rank, step][0] + US
            kept.append((step, "0", -1, {rank: begin}, {rank: begin + 7 * US}))
        sim.meetings = kept
        paths = sim.write(folder / f"job{seed}")
        add(db, f"job{seed}", paths)
        try:
            check_job(db, f"job{seed}", sim)
        except Failure as why:
            raise Failure(f"seed {seed}, {sim.ranks} ranks: {why}") from None
        rows = {r["rank"]: r for r in json.loads(run("query", *paths, "SELECT * FROM stragglers", "--json").stdout)}
        for rank, own in sim.true_late().items():
            expect(f"rank {rank} in one process", [rows[rank][c] for c in ("collectives", "last_count", "waited_ns")],
                   [own[c] for c in ("collectives", "last_count", "waited_ns")])


def all_to_all(folder):
    """Exchanges of all with all, by the kernel that sends between two, beside such: all figures, also of one process over all files."""
    db = folder / "runs.db"
    for kernel in ("ncclDevKernel_SendRecv", "ncclDevKernel_Generic"):
        sim = Simulated(7, 5, of_sends=kernel, pairs=True, slow_pair=(3, 2.0), leak=4, late=lambda rank, step: 200 * US if rank == 3 else 0)
        paths = sim.write(folder / kernel)
        add(db, kernel, paths)
        check_job(db, kernel, sim)
        expect("late", [r["rank"] for r in table(db, kernel, "late") if r["late"]], [3])
        expect("collectives by name", sorted({r["name"] for r in table(db, kernel, "links") if r["kind"] == "collective"}), ["nccl:all_to_all"])
        rows = {r["rank"]: r for r in json.loads(run("query", *paths, "SELECT * FROM stragglers", "--json").stdout)}
        for rank, own in sim.true_late().items():
            expect(f"rank {rank} in one process", [rows[rank][c] for c in ("collectives", "last_count", "waited_ns")],
                   [own[c] for c in ("collectives", "last_count", "waited_ns")])


def saved(folder):
    """What a late rank is said to cost is what the job saves without it: both are simulated."""
    db = folder / "runs.db"
    for seed in range(6):
        late = {seed % 5: 250 * US}
        with_it = Simulated(seed, 6, steps=20, late=lambda rank, step: late.get(rank, 0))
        without = Simulated(seed, 6, steps=20)
        add(db, f"job{seed}", with_it.write(folder / f"job{seed}"))
        row = table(db, f"job{seed}", "late")[0]
        expect("who is late", (row["rank"], row["late"]), (seed % 5, 1))
        saved_ns = max(e for _, e in with_it.step.values()) - max(e for _, e in without.step.values())
        near("what it costs", row["cost_ns"], saved_ns, 0.1)


def chance(folder):
    """Kernels whose times have long tails, ends of collectives seen up to 4 us apart, stragglers now and then: 25 jobs with a late
    rank, 25 without, none of them wrong."""
    db, wrong = folder / "runs.db", []

    def noise(r):
        return r.lognormvariate(0, 0.02) * (3 if r.random() < 0.01 else 1)

    for seed in range(50):
        ranks = 2 + seed % 11
        late = seed * 5 % ranks if seed % 2 else None
        sim = Simulated(seed, ranks, steps=30, noise=noise, end_noise=4 * US, pairs=ranks % 2 == 0 and seed % 4 < 2,
                        late=lambda rank, step: 60 * US + 2 * US * seed if rank == late else 0)
        add(db, f"job{seed}", sim.write(folder / f"job{seed}"))
        named = [r["rank"] for r in table(db, f"job{seed}", "late") if r["late"]]
        if named != ([] if late is None else [late]):
            wrong.append((seed, ranks, late, named))
    expect("jobs in which the wrong ranks were named", wrong, [])


TESTS = (truths, slow_machines, thousand, no_collectives, one_without, gaps, all_to_all, saved, chance)
