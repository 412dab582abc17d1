#!/usr/bin/env python3
"""fleet_real.py -- recordings of the ranks of a job, made of one real recording of PyTorch's profiler.

usage: fleet_real.py FOLDER --from TRACE.json[.gz] [--ranks N] [--spans 200000] [--late RANK] [--seed N] [--unlabelled]

Each rank gets the steps of TRACE as they are, one time after the other until there are so many spans: names, shapes, kernels,
launches and arrows between them. By chance and by rank differ how long kernels take (by a fiftieth, never longer) and when a rank
comes to a collective (up to a third of it later than in TRACE, and it ends when it did); a late rank comes when four fifths of it
are over. Clocks of ranks are seconds apart. The same seed makes the same files. --unlabelled: only their names say the rank.
"""
import argparse
import gzip
import json
import random
from pathlib import Path

APART = 10_000_000  # between the numbers of one time and the next
NUMBERS = ("correlation", "External id")


def is_collective(event):
    return event.get("cat") == "kernel" and event.get("name", "").startswith("nccl")


class Real:
    def __init__(self, trace, spans):
        with (gzip.open if trace.suffix == ".gz" else open)(trace, "rb") as f:
            self.whole = json.load(f)
        events = self.whole.pop("traceEvents")
        self.names = [e for e in events if e.get("ph") == "M"]
        self.events = [e for e in events if "ts" in e and e.get("cat") != "Trace" and e.get("ph") != "M"]
        begin = min(e["ts"] for e in self.events)
        self.period = max(e["ts"] + e.get("dur", 0) for e in self.events) - begin + 1000
        self.steps = sorted({e["name"] for e in self.events if e.get("name", "").startswith("ProfilerStep#")})
        self.collectives = sum(map(is_collective, self.events))
        if not self.steps or not self.collectives:
            raise SystemExit(f"{trace}: no steps, or no collectives by NCCL")
        self.times = -(-spans // sum(e.get("ph") == "X" for e in self.events))

    def rank(self, rank, ranks, seed, late, unlabelled):
        draw = random.Random(f"{seed} {rank}")
        events = list(self.names)
        for time in range(self.times):
            for event in self.events:
                own = dict(event)
                own["ts"] = event["ts"] + time * self.period
                if is_collective(event):
                    waits = round(event["dur"] * (0.8 if rank == late else draw.uniform(0, 0.33)), 3)
                    own["ts"], own["dur"] = own["ts"] + waits, round(event["dur"] - waits, 3)
                elif event.get("cat") == "kernel":
                    own["dur"] = round(event["dur"] * draw.uniform(0.98, 1), 3)
                elif own.get("name", "").startswith("ProfilerStep#"):
                    own["name"] = f"ProfilerStep#{int(own['name'].split('#')[1]) + time * len(self.steps)}"
                if "id" in own and own["ph"] in "sf":
                    own["id"] = event["id"] + time * APART
                args = event.get("args")
                if args and any(n in args for n in NUMBERS):
                    own["args"] = {k: v + time * APART if k in NUMBERS and isinstance(v, int) else v for k, v in args.items()}
                events.append(own)
        apart = draw.randrange(-3_000_000, 3_000_000)
        for event in events:
            if "ts" in event and event.get("ph") != "M":
                event["ts"] += apart
        whole = {**self.whole, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks}, "traceEvents": events}
        if unlabelled:
            del whole["distributedInfo"]
        return whole


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="trace", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--spans", type=int, default=200_000)
    parser.add_argument("--late", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unlabelled", action="store_true")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    real = Real(args.trace, args.spans)
    for rank in range(args.ranks):
        (args.folder / f"rank{rank:05d}.json").write_text(json.dumps(
            real.rank(rank, args.ranks, args.seed, args.late, args.unlabelled), separators=(",", ":")))


if __name__ == "__main__":
    main()
