#!/usr/bin/env python3
"""python_frame.py -- how long a DataFrame of a million spans takes, beside other ways to get one.

usage: bench/python_frame.py [--build DIR] [--spans N]

Prints processor time, the best of several runs. Needs numpy and pandas.
"""
import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERAL = "SELECT id, ts, dur, track, name, layer FROM span WHERE ts >= 0"


def best(work, times=5):
    """Seconds of processor time, which other programs disturb less."""
    def once():
        start = time.process_time()
        work()
        return time.process_time() - start
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
    from opmeter import _reports

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "spans.opm")
        record(opmeter, path, args.spans)
        print(f"{best(lambda: opmeter.open(path).close()):7.3f} s  open the trace")
        with opmeter.open(path) as trace:
            columns = len(trace.spans().columns)
            ways = [
                (f"DataFrame, {columns} columns (reach: 0.3 s per million)", trace.spans),
                ("DataFrame of the Furiosa SDK (reach: 0.3 s per million)",
                 lambda: _reports.dataframe(trace)),
                ("the same by way of its CSV file", lambda: _reports._csv_frame(trace)),
                ("DataFrame, 6 columns through SQL", lambda: trace.sql(GENERAL)),
                ("6 columns through SQL as tuples, then pandas",
                 lambda: pandas.DataFrame(trace._handle.query(GENERAL)[1])),
            ]
            for name, work in ways:
                print(f"{best(work, 3):7.3f} s  {name}", flush=True)


if __name__ == "__main__":
    main()
