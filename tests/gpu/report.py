#!/usr/bin/env python3
"""report.py -- figures out of what tests/gpu/all.sh or tests/gpu/run.sh left.

usage: tests/gpu/report.py [--opmeter PROGRAM] FOLDER

Compares what opmeter recorded of PyTorch's training loops with what PyTorch's own profiler saw of them,
and prints the slowdown of each, as tables; whether what was recorded of a language model that serves is what
ran; looks at how well the clocks of host and device agree; says what the faults left behind. Exit status 3
if something that must hold does not.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import cost
import serve

ROOT = Path(__file__).resolve().parent.parent.parent
FAILED = []


def query(opmeter, trace, sql):
    done = subprocess.run([opmeter, "query", "--json", str(trace), sql], text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)


def check(what, holds):
    print(f"  {'ok  ' if holds else 'FAIL'}  {what}")
    if not holds:
        FAILED.append(what)


# Kernels that were launched inside the first range "measured"; by the launch, since the device is
# later.
MEASURED = """
SELECT count(*) AS kernels, sum(k.dur) / 1000.0 AS kernel_us FROM span AS k
 JOIN flow AS f ON f.dst = k.id JOIN span AS l ON l.id = f.src
 JOIN (SELECT ts, ts + dur AS till FROM span WHERE name = 'measured' ORDER BY ts LIMIT 1) AS m
 ON l.ts BETWEEN m.ts AND m.till WHERE k.cat = 'kernel'"""

# A kernel cannot begin before its launch, and a wait for a stream not end before its last kernel.
CLOCKS = """
SELECT count(*) AS launches, min(k.ts - l.ts) AS soonest_ns FROM flow AS f
 JOIN span AS k ON k.id = f.dst JOIN span AS l ON l.id = f.src WHERE k.cat = 'kernel'"""
WAITS = """
SELECT count(*) AS waits, min(late_ns) AS earliest_ns FROM (SELECT s.ts + s.dur -
 (SELECT max(k.ts + k.dur) FROM span AS k WHERE k.layer = 'hardware' AND k.track = t.id AND
 k.ts < s.ts + s.dur AND k.ts > s.ts - 100000000) AS late_ns FROM span AS s
 JOIN track AS t ON t.kind = 'stream' AND t.tid = json_extract(s.args, '$.stream')
 WHERE s.cat = 'cuda_sync' AND s.name = 'Stream Sync')"""


def compare(opmeter, folder, scratch):
    runs = {}
    for line in (folder / "log.txt").read_text().splitlines():
        words = line.split(" ", 2)
        if words[0] == "train" and words[2].startswith("{"):
            runs.setdefault(words[1], []).append(json.loads(words[2]))
    if not runs:
        print("no PyTorch runs")
        return
    with tarfile.open(folder / "train.tgz") as archive:
        archive.extractall(scratch)
    ours = [query(opmeter, p, MEASURED)[0] for p in sorted(scratch.glob("train[0-9].opm"))]
    times = {mode: [t for r in runs[mode] for t in r["seconds"]] for mode in runs}
    slow = {mode: statistics.median(times[mode]) / statistics.median(times["bare"]) for mode in runs}
    least = {mode: min(times[mode]) / min(times["bare"]) for mode in runs}
    print("PyTorch's training loop: median and shortest time, and each as a multiple of bare")
    for mode in runs:
        seen = ours if mode == "opmeter" else [r for r in runs[mode] if "kernels" in r]
        kernels = sorted({r["kernels"] for r in seen})
        time = statistics.median(r["kernel_us"] for r in seen) if seen else None
        print(f"  {mode:8}  {statistics.median(times[mode]):8.4f} s  {slow[mode]:6.3f}"
              f"  {min(times[mode]):8.4f} s  {least[mode]:6.3f}"
              + (f"  kernels {kernels}  {time / 1000:.3f} ms" if seen else ""))
    theirs = [r for mode in ("cuda", "all") for r in runs.get(mode, [])]
    check("as many kernels as PyTorch's profiler",
          {r["kernels"] for r in ours} == {r["kernels"] for r in theirs})
    a = statistics.median(r["kernel_us"] for r in ours)
    b = statistics.median(r["kernel_us"] for r in theirs)
    check(f"their time within 1 % ({100 * (a / b - 1):+.3f} %)", abs(a / b - 1) < 0.01)
    check(f"slowdown below PyTorch's profiler ({slow['opmeter']:.3f} against {slow['all']:.3f}; "
          f"of device activities alone {slow['cuda']:.3f})", slow["opmeter"] < slow["all"])


def look(opmeter, path):
    print(path.name)
    for row in query(opmeter, path, "SELECT cat, count(*) AS n, sum(dur) / 1e6 AS ms FROM span"
                                    " GROUP BY cat ORDER BY n DESC"):
        print(f"    {row['n']:8} {row['cat']}, {row['ms']:.3f} ms")
    facts = query(opmeter, path, "SELECT key, value FROM meta WHERE key LIKE 'cuda.%'"
                                 " OR key LIKE 'device.0.n%'")
    print("    " + ", ".join(f"{f['key']} {f['value']}" for f in facts))
    clocks = query(opmeter, path, CLOCKS)[0]
    if clocks["launches"]:
        check(f"no kernel begins before its launch: the soonest {clocks['soonest_ns']} ns after it,"
              f" of {clocks['launches']}", clocks["soonest_ns"] > -2000)
    waits = query(opmeter, path, WAITS)[0]
    if waits["waits"] and waits["earliest_ns"] is not None:
        check(f"no wait ends before what it waits for: the earliest {waits['earliest_ns']} ns"
              f" after it, of {waits['waits']}", waits["earliest_ns"] > -2000)


# What recording may cost at most, as a multiple of the bare loop.
LIMITS = {"opmeter, without operators": 1.15, "opmeter, operators with shapes and types": 1.3}


def costs(opmeter, folder):
    results, said = cost.table(folder, opmeter)
    for mode, limit in LIMITS.items():
        of = [row["median_ms"] / own["median_ms"] for row, own in zip(results[mode], results["bare"])
              if row and own]
        if of:
            check(f"{mode}: {statistics.median(of):.3f} of bare, at most {limit}",
                  statistics.median(of) <= limit)
    for loop in cost.LOOPS:
        theirs = said.get(f"{loop}PyTorch's profiler, device activities alone")
        for mode in LIMITS:
            ours = said.get(loop + mode)
            if not ours or not theirs:
                continue
            # Those of the profiler itself, which begins and ends inside of the program, may differ.
            check(f"{loop}{mode}: {ours['kernels']:,} kernels, {theirs['kernels']:,} for PyTorch",
                  abs(ours["kernels"] / theirs["kernels"] - 1) < 0.001)
            check(f"{loop}{mode}: their time {ours['kernel_ms'] or 0:.1f} ms, {theirs['kernel_ms']:.1f}",
                  abs((ours["kernel_ms"] or 0) / theirs["kernel_ms"] - 1) < 0.01)


def unpacked(archive, scratch):
    if archive.exists():
        with tarfile.open(archive) as tar:
            tar.extractall(scratch)
    return archive.exists()


def everything(opmeter, folder, scratch):
    """Of all.sh."""
    print((folder / "machine.txt").read_text())
    if unpacked(folder / "cost.tgz", scratch):
        costs(opmeter, scratch / "cost")
    if (folder / "serve.json").exists():
        print("\nA language model that serves")
        try:
            wrong = serve.check(folder, opmeter)
        except subprocess.CalledProcessError as error:
            wrong = [f"{error.stderr.strip()}; serve.log: {(folder / 'serve.log').read_text()[-500:]}"]
        for line in wrong:
            check(line, False)
    if unpacked(folder / "run.tgz", scratch):
        print("\nExamples and faults")
        print((scratch / "run" / "log.txt").read_text())
        for path in sorted((scratch / "run").glob("*.opm")):
            look(opmeter, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", default=str(ROOT / "build" / "dev" / "opmeter"))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        if (args.folder / "machine.txt").exists():
            everything(args.opmeter, args.folder, scratch)
            return 3 if FAILED else 0
        compare(args.opmeter, args.folder, scratch)
        killed = args.folder / "killed.tgz"
        if killed.exists():
            with tarfile.open(killed) as archive:
                archive.extractall(scratch)
        traces = sorted(args.folder.glob("*.opm")) + sorted(scratch.glob("killed.opm"))
        for path in traces + sorted(scratch.glob("train1.opm")):
            look(args.opmeter, path)
    return 3 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
