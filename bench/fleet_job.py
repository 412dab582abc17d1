"""fleet_job.py -- recordings of the ranks of a distributed job, made with what is planted in them.

Each rank is a file in opmeter's own trace-event JSON: steps with operators on a device, collectives
that begin when the rank is there and end on all ranks when the last one was, transfers to the next
rank, a counter of memory. Clocks of ranks differ by seconds; durations vary by chance. All that is
random comes from the seed, so that the same job is made anew by anybody.

As a program: fleet_job.py FOLDER [--ranks N] [--steps N] [--layers N] [--late RANK] [--late-us US]
[--slow-link RANK] [--slow-op RANK] [--leak RANK] [--hosts N] [--seed N] [--unlabelled]
--unlabelled: only the names of the files say which rank it is.
"""
import argparse
import json
import random
from pathlib import Path

START_NS = 1_790_000_000_000_000_000
BYTES = 25 << 20
SEND_BYTES = 4 << 20


class Job:
    def __init__(self, ranks=8, steps=20, layers=6, buckets=2, late=None, late_us=600, slow_link=None,
                 slow_op=None, leak=None, hosts=2, seed=1, drift=0.0, begin_ns=START_NS, first_step=0,
                 names=None, unlabelled=False):
        self.__dict__.update(locals())
        self.random = random.Random(seed)

    def noisy(self, us, spread=0.01):
        return us * (1 + self.random.gauss(0, spread))

    def host(self, rank):
        return f"node{rank * self.hosts // self.ranks:03d}"

    def simulate(self):
        """Per rank its events: (step, name, type, kind, start_us, dur_us, extra)."""
        events = [[] for _ in range(self.ranks)]
        steps = [[] for _ in range(self.ranks)]
        at = [0.0] * self.ranks  # of the host and the device alike, in common time
        each = 100.0
        for step in range(self.first_step, self.first_step + self.steps):
            slower = 1 + self.drift * (step - self.first_step) / max(self.steps - 1, 1)
            began = list(at)
            for bucket in range(self.buckets):
                for rank in range(self.ranks):
                    if bucket == 0 and rank == self.late:
                        at[rank] += self.noisy(self.late_us, 0.1)
                    for layer in range(self.layers):
                        dur = self.noisy(each) * slower
                        if rank == self.slow_op and layer == 1:
                            dur *= 1.5
                        events[rank].append((step, f"layer{(bucket * self.layers + layer) % (self.names or 10**9)}/matmul", "MatMul",
                                             "kernel", at[rank], dur, None))
                        at[rank] += dur + 2
                end = max(at) + self.noisy(120)
                for rank in range(self.ranks):
                    events[rank].append((step, f"bucket{bucket}/all_reduce", "AllReduce", "collective", at[rank],
                                         end - at[rank], {"communicator": "world", "bytes": BYTES,
                                                          "Group size": self.ranks}))
                    at[rank] = end + abs(self.noisy(1, 0.2))
            for rank in range(self.ranks if self.ranks > 2 else 0):
                peer = (rank + 1) % self.ranks
                dur = self.noisy(80, 0.005) * (2 if rank == self.slow_link else 1)
                events[rank].append((step, "pipe/send", "Send", "collective", at[rank], dur,
                                     {"communicator": "pipe", "bytes": SEND_BYTES, "peer": peer}))
            for rank in range(self.ranks):
                at[rank] += 170
                steps[rank].append((step, began[rank], at[rank]))
        return steps, events

    def write(self, folder):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        steps, events = self.simulate()
        paths = []
        for rank in range(self.ranks):
            offset_ns = int(self.random.uniform(-3e9, 3e9))
            path = folder / f"rank{rank:05d}.json"
            path.write_text(json.dumps(self.trace(rank, steps[rank], events[rank], offset_ns),
                                       separators=(",", ":")))
            paths.append(path)
        return paths

    def trace(self, rank, steps, events, offset_ns):
        first = steps[0][1]
        ids, out = {}, []
        if not self.unlabelled:
            out.append({"ph": "M", "pid": 1, "name": "process_labels", "args": {"labels": f"rank {rank}"}})
        out.append({"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "main", "kind": "thread"}})
        out.append({"ph": "M", "pid": 1, "tid": 7, "name": "thread_name",
                    "args": {"name": "stream 7", "kind": "stream", "device": "GPU 0"}})
        numbers = {}
        for i, (num, begin, end) in enumerate(steps):
            numbers[num] = i
            out.append({"ph": "X", "pid": 1, "tid": 1, "ts": round(begin - first, 3), "dur": round(end - begin, 3),
                        "name": f"step {num}", "cat": "step",
                        "args": {"layer": "app", "step": {"id": i, "num": num, "model": "planted", "warmup": 0}}})
            peak = 8e9 + 1e6 * rank + (2e8 * i if rank == self.leak else 0)
            out.append({"ph": "C", "pid": 1, "ts": round(begin - first + 1, 3), "name": "memory allocated",
                        "args": {"bytes": peak}})
        for num, name, kind, what, begin, dur, extra in events:
            op = ids.setdefault(name, len(ids))
            args = {"layer": "hardware", "step": {"id": numbers[num]}, "op": {"id": op, "name": name, "type": kind}}
            args.update(extra or {})
            label = f"nccl{kind}" if what == "collective" else "sgemm_128x128"
            out.append({"ph": "X", "pid": 1, "tid": 7, "ts": round(begin - first, 3), "dur": round(dur, 3),
                        "name": label, "cat": what, "args": args})
        meta = {"opmeter.export": "1", "clock.start_realtime_ns": str(self.begin_ns + int(first * 1000) + offset_ns),
                "model.name": "planted", "machine.host": self.host(rank), "machine.cpu": "planted"}
        return {"displayTimeUnit": "ns", "otherData": meta, "traceEvents": out}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    for name, default in (("ranks", 8), ("steps", 20), ("layers", 6), ("buckets", 2), ("hosts", 2), ("seed", 1), ("names", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("late", "slow-link", "slow-op", "leak"):
        parser.add_argument(f"--{name}", type=int, metavar="RANK")
    parser.add_argument("--late-us", type=float, default=600)
    parser.add_argument("--drift", type=float, default=0.0)
    parser.add_argument("--unlabelled", action="store_true")
    args = vars(parser.parse_args())
    folder = args.pop("folder")
    Job(**args).write(folder)


if __name__ == "__main__":
    main()
