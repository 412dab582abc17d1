#!/usr/bin/env python3
"""python_frame.py -- how long a DataFrame of a million spans takes, beside other ways to get one.

usage: bench/python_frame.py [--build DIR] [--spans N]

Prints the best of several runs. Needs numpy and pandas.
"""
import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLAIN = "SELECT * FROM span"
GENERAL = "SELECT id, ts, dur, track, name, layer FROM span WHERE ts >= 0"


def best(work, times=5):
    def once():
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    return min(once() for _ in range(times))


def record(opmeter, path, spans):
    opmeter.start(path)
    outer, inner = opmeter.span("outer"), opmeter.span("inner")
    for _ in range(spans // 2):
        with outer:
            with inner:
                pass
    opmeter.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build" / "release", type=Path)
    parser.add_argument("--spans", default=1_000_000, type=int)
    args = parser.parse_args()
    sys.path.insert(0, str(args.build / "python"))
    import opmeter
    import pandas

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "spans.opm")
        record(opmeter, path, args.spans)
        print(f"open                         {best(lambda: opmeter.open(path).close()):8.3f} s")
        with opmeter.open(path) as trace:
            frame = trace.spans()
            print(f"DataFrame of {len(frame)} spans, {len(frame.columns)} columns "
                  f"{best(trace.spans):.3f} s (reach: 0.3 s per million)")
            print(f"the same, 6 columns through SQL "
                  f"{best(lambda: trace.sql(GENERAL), 3):.3f} s")
            rows = trace._handle.query(GENERAL)
            print(f"rows of tuples and pandas       "
                  f"{best(lambda: pandas.DataFrame(trace._handle.query(GENERAL)[1]), 1):.3f} s")
            del rows


if __name__ == "__main__":
    main()
