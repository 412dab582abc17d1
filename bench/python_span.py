#!/usr/bin/env python3
"""python_span.py -- what a span costs from Python, beside what else one could write there.

usage: bench/python_span.py [--build DIR] [--json]

One loop per line, all of them in turn, over and over; the fastest round counts, less what the empty
loop takes. The goals: on 250 ns, off 40 ns.
"""
import argparse
import json
import sys
import tempfile
import threading
import time
import timeit
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOOPS = 1000
ROUNDS = 300
GOAL_NS = {"on": 250, "off": 40}


class Plain:
    """The least that a context manager can be."""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


@contextmanager
def generated():
    yield


def work():
    pass


PEERS = [
    ("perf_counter_ns() twice", "a = now(); b = now()"),
    ("with threading.Lock()", "with lock: pass"),
    ("with a class of Python", "with plain: pass"),
    ("with @contextmanager", "with generated(): pass"),
]
SPANS = [
    ('with opmeter.span("x")', 'with opmeter.span("x"): pass'),
    ("with a span that is kept", "with kept: pass"),
    ("with a category", 'with opmeter.span("x", category="io"): pass'),
    ("with a fact", 'with opmeter.span("x", n=1): pass'),
    ("@opmeter.span, and the call", "decorated()"),
    ("with opmeter.step(0)", "with step(0): pass"),
    ("counter.set(1)", "counter.set(1)"),
]


def measure(statements, names):
    """ns per loop of each statement."""
    timers = {name: timeit.Timer(statement, globals=names)
              for name, statement in [("", "pass"), *statements]}
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            best[name] = min(best[name], timer.timeit(LOOPS) / LOOPS * 1e9)
    return {name: best[name] - best[""] for name, _ in statements}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(args.build.resolve() / "python"))
    import opmeter

    names = {"now": time.perf_counter_ns, "lock": threading.Lock(), "plain": Plain(),
             "generated": generated, "opmeter": opmeter, "kept": opmeter.span("kept"),
             "step": opmeter.step, "counter": opmeter.counter("c"),
             "decorated": opmeter.span("decorated")(work)}
    off = measure([*PEERS, *SPANS], names)
    with tempfile.TemporaryDirectory() as folder:
        opmeter.start(Path(folder) / "bench.opm")
        on = measure(SPANS, names)
        lost = opmeter.stats()["lost"]
        opmeter.stop()
    if args.json:
        print(json.dumps({"off_ns": off, "on_ns": on, "lost": lost, "goal_ns": GOAL_NS}))
        return
    print(f"Python {sys.version.split()[0]}, ns")
    print(f"{'':32}{'off':>8}{'on':>8}")
    for name, _ in PEERS:
        print(f"{name:32}{off[name]:8.1f}")
    for name, _ in SPANS:
        print(f"{name:32}{off[name]:8.1f}{on[name]:8.1f}")
    print(f"{'goal':32}{GOAL_NS['off']:8}{GOAL_NS['on']:8}")
    if lost:
        print(f"{lost} events lost")


if __name__ == "__main__":
    main()
