"""lateness.py -- jobs that are not as they should be: who holds them up is said all the same, and nobody by mistake."""
import json
import subprocess
import sys

import rig
from fleet_job import BYTES, Job
from rig import Failure, Skip, add, expect, run, table


class OddJob(Job):
    """Lateness of each rank and step, clocks that drift, steps and ends of recordings that are missing.

    late(rank, step): us; drifts: a clock's gain per rank, in parts per million; without: pairs of rank and step;
    until: the last step of a rank; stages: of a pipeline, each with a communicator of its own."""

    def __init__(self, late=None, drifts=None, without=(), until=None, stages=1, spikes=0.0, **kwargs):
        super().__init__(**kwargs)
        self.lateness, self.drifts, self.without, self.until, self.stages = late, drifts or {}, set(without), until or {}, stages
        self.spikes = spikes

    def simulate(self):
        events, steps, at = [[] for _ in range(self.ranks)], [[] for _ in range(self.ranks)], [0.0] * self.ranks
        each = self.ranks // self.stages
        for step in range(self.steps):
            began = list(at)
            mine = [[] for _ in range(self.ranks)]
            for bucket in range(self.buckets):
                for rank in range(self.ranks):
                    stage = rank // each
                    if bucket == 0:
                        # The first stage ends last: it starts the backward pass of the last micro-batch last.
                        at[rank] += 300.0 * (self.stages - 1 - stage) + max(self.lateness(rank, step), 0) if self.lateness else \
                            300.0 * (self.stages - 1 - stage)
                        if self.random.random() < self.spikes:
                            at[rank] += self.noisy(400, 0.3)
                    for layer in range(self.layers):
                        dur = self.noisy(100.0)
                        mine[rank].append((step, f"layer{layer}/matmul", "MatMul", "kernel", at[rank], dur, None))
                        at[rank] += dur + 2
                groups = [range(g * each, (g + 1) * each) for g in range(self.stages)]
                for members, name in [(g, f"stage{i}") for i, g in enumerate(groups) if each > 1] + [(range(self.ranks), "world")]:
                    if name != "world" and self.stages == 1:
                        continue
                    end = max(at[r] for r in members) + self.noisy(120)
                    for rank in members:
                        mine[rank].append((step, f"{name}/all_reduce", "AllReduce", "collective", at[rank], end - at[rank],
                                           {"communicator": name, "bytes": BYTES, "Group size": len(members)}))
                        at[rank] = end + abs(self.noisy(1, 0.2))
            for rank in range(self.ranks):
                at[rank] += 100
                if (rank, step) not in self.without and step <= self.until.get(rank, step):
                    events[rank].extend(mine[rank])
                    steps[rank].append((step, began[rank], at[rank]))
        for rank, ppm in self.drifts.items():
            gain = 1 + ppm * 1e-6
            events[rank] = [(s, n, t, w, begin * gain, dur * gain, extra) for s, n, t, w, begin, dur, extra in events[rank]]
            steps[rank] = [(s, begin * gain, end * gain) for s, begin, end in steps[rank]]
        return steps, events


def named(where, job):
    return [row["rank"] for row in table(where, job, "late") if row["late"]]


def some_jobs(folder, wanted, seeds=6, change=None, **kwargs):
    """Jobs of several seeds and the ranks that are to be named in each."""
    db, wrong = folder / "runs.db", []
    for seed in range(seeds):
        paths = OddJob(seed=seed, **{"ranks": 8, "steps": 20, "layers": 4, **kwargs}).write(folder / f"job{seed}")
        if change:
            change(paths)
        add(db, f"job{seed}", paths)
        got = named(db, f"job{seed}")
        if got != wanted:
            wrong.append((seed, got))
    expect("jobs in which the wrong ranks were named", wrong, [])
    return db


def lateness(folder):
    """By little, in some steps only, in recordings that lack steps or their end; chance names nobody."""
    some_jobs(folder / "little", [], seeds=3, late=lambda rank, step: 6 if rank == 3 else 0)
    some_jobs(folder / "more", [3], seeds=3, late=lambda rank, step: 35 if rank == 3 else 0)
    some_jobs(folder / "some", [3], seeds=3, late=lambda rank, step: 600 if rank == 3 and step % 4 == 1 else 0)
    some_jobs(folder / "once", [], seeds=3, late=lambda rank, step: 1500 if rank == 3 and step == 7 else 0)
    some_jobs(folder / "spikes", [], seeds=5, spikes=0.1)
    some_jobs(folder / "gaps", [3], seeds=2, late=lambda rank, step: 300 if rank == 3 else 0,
              without=[(1, 4), (3, 6), (5, 0), (6, 19)], until={0: 15, 3: 11})

    def cut(paths):
        paths[3].write_bytes(paths[3].read_bytes()[:paths[3].stat().st_size * 6 // 10])

    some_jobs(folder / "cut", [3], seeds=2, change=cut, late=lambda rank, step: 300 if rank == 3 else 0)


def lateness_of_several(folder):
    """Two ranks that are late alike cost nothing each, and are said to be late together; so are stages of a pipeline."""
    some_jobs(folder / "two", [3], seeds=3, late=lambda rank, step: {3: 300, 5: 200}.get(rank, 0))
    db = some_jobs(folder / "alike", [], seeds=3, late=lambda rank, step: 300 if rank in (3, 5) else 0)
    for seed in range(3):
        rows = [r for r in table(db, f"job{seed}", "late") if r["together_ns"] is not None]
        expect("ranks that are late together", sorted(r["rank"] for r in rows), [3, 5])
        if not 0.9 < rows[0]["together_ns"] / (20 * 300_000) < 1.1:
            raise Failure(f"what they cost: {rows[0]['together_ns']}")
        said = run("job", db, f"job{seed}").stdout
        if "2 ranks (3, 5) come late together" not in said.replace("\n", " ") and "2 ranks (5, 3) come" not in said.replace("\n", " "):
            raise Failure(f"not said: {said[:600]}")
    db = some_jobs(folder / "pipeline", [], seeds=2, stages=4)
    expect("those of the stage that ends last", sorted(r["rank"] for r in table(db, "job0", "late") if r["together_ns"] is not None), [0, 1])
    some_jobs(folder / "stage", [5], seeds=2, stages=4, late=lambda rank, step: 600 if rank == 5 else 0)


def lateness_and_clocks(folder):
    """A clock that gains on the others makes nobody late, nor hides who is."""
    some_jobs(folder / "one", [], seeds=1, steps=1500, layers=2, drifts={5: 200})
    db = some_jobs(folder / "all", [3], seeds=1, steps=1500, layers=2, drifts={rank: 40 * (rank - 3) for rank in range(8)},
                   late=lambda rank, step: 40 if rank == 3 else 0)
    cost = table(db, "job0", "late")[0]["cost_ns"]
    if not 0.85 < cost / (1500 * 38_000) < 1.1:
        raise Failure(f"what it costs: {cost}")


def too_few_steps(folder):
    """A rank that costs much in so few steps that it may be chance is not called late, but nobody is said to be clear of it either."""
    db = some_jobs(folder / "few", [], seeds=1, ranks=4, steps=5, late=lambda rank, step: 400 if rank == 2 else 0)
    worst = table(db, "job0", "late")[0]
    expect("who costs most", (worst["rank"], worst["steps_worst"], worst["steps"]), (2, 5, 5))
    said = " ".join(run("job", db, "job0").stdout.split("How much")[0].split())
    if f"No rank is sure to hold up the others: rank 2 on node001 costs most, {100 * worst['share']:.1f} % of the time of its steps" not in said \
            or "5 of 5 steps" not in said:
        raise Failure(said)
    db = some_jobs(folder / "clean", [], seeds=1, ranks=4, steps=40)
    if "No rank holds up the others." not in run("job", db, "job0").stdout:
        raise Failure(run("job", db, "job0").stdout[:400])


def of_a_real_one(folder):
    """Ranks that are made of a real recording of PyTorch's profiler: a recommender that exchanges all with all."""
    trace = rig.ROOT.parent / "shared" / "fixtures" / "peers" / "hta" / "negative_queue_length_values_check" / "rank0.json.gz"
    if not trace.is_file():
        raise Skip("the folder `shared` is not beside the checkout")
    db = folder / "runs.db"
    for late in (2, None):
        made = folder / f"late{late}"
        subprocess.run([sys.executable, rig.ROOT / "bench" / "fleet_real.py", made, "--from", trace, "--ranks", "4", "--spans", "100000",
                        *(["--late", str(late)] if late is not None else [])], check=True)
        paths = sorted(made.iterdir())
        add(db, f"late {late}", paths)
        expect("late", named(db, f"late {late}"), [] if late is None else [late])
        rows = json.loads(run("query", db, f"SELECT name, count(*) AS n FROM rank_exchange WHERE job = 'late {late}' AND rank = 1 GROUP BY name", "--json").stdout)
        expect("exchanges by what launched them", {r["name"]: r["n"] for r in rows}, launched(paths[1]))


def launched(path):
    """How often what is around the launch of NCCL's kernels has each name; that of the kernel where its launch is not there."""
    events = json.loads(path.read_text())["traceEvents"]
    launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime" and "correlation" in e.get("args", {})}
    around = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("nccl:")]
    out = {}
    for kernel in events:
        if kernel.get("cat") != "kernel" or not kernel["name"].startswith("nccl"):
            continue
        call = launches.get(kernel["args"]["correlation"])
        names = [e["name"] for e in around if call and e["tid"] == call["tid"] and e["ts"] <= call["ts"] <= e["ts"] + e["dur"]]
        name = names[-1] if names else kernel["name"]
        out[name] = out.get(name, 0) + 1
    return out


TESTS = (lateness, lateness_of_several, lateness_and_clocks, too_few_steps, of_a_real_one)
