#!/usr/bin/env python3
"""ops.py -- operators one by one on the native engine and on ONNX Runtime, the slowest beside it first.

usage: bench/ops.py OPMETER [OPTION]... [OPERATOR]...

Each case of bench/ops_cases.py and bench/ops_more.py is a model of one node (or a few, where its results are no tensors), made
on the spot, of several shapes and types per operator.
bench_pair (beside OPMETER in the build) runs both engines on it in one process, taking turns, with one thread each and
the same inputs; a figure is the first quartile of batches in processor time. Outputs are compared, too: what differs by more
than rounding is marked. OPERATOR: only these; a name followed by a colon and a word picks cases whose name has it.

  --rounds 3         rounds
  --time 20          milliseconds that an engine runs in a round
  --above 1.1        of the table, only rows from this ratio on; 0, the default, for all
  --write FILE.md    put machine, date and table between the marks in FILE.md
  --mark NAME        the marks are <!-- NAME: begin --> and <!-- NAME: end -->; "operators" by default

Operators that the native engine executes and no case measures are named at the end, as are cases that an engine
refused. ONNX Runtime is found as `opmeter run` finds it (OPMETER_ORT_LIB). Needs numpy."""
import argparse
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

import numpy as np

import engine
import ops_cases
import ops_more

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "src/engine/native/kernels.def"
# What ONNX Runtime computes with other roundings than ours is within this share of the greatest number.
TOLERANCE = 2e-3
PATIENCE_S = 30
HEAD = ["operator", "case", "µs", "ORT", "ratio", ""]


def executed():
    """(domain, operator) of everything that the native engine has a kernel for."""
    found = re.findall(r'^OPERATOR\((\w+),\s*"([^"]*)"', KERNELS.read_text(), re.M)
    return {(domain, name) for name, domain in found}


def pair_tool(tool):
    found = pathlib.Path(tool).resolve().parent / "bench" / "bench_pair"
    if not os.access(found, os.X_OK):
        sys.exit(f"{found}: not there; OPMETER must be that of a build with benchmarks")
    return str(found)


def pair(tool, content, given, folder, options):
    """What bench_pair says of a model with the inputs (name, array) that are given."""
    model = os.path.join(folder, "case.onnx")
    pathlib.Path(model).write_bytes(content)
    command = [tool, str(options.rounds), str(options.time), model]
    for name, array in given:
        file = os.path.join(folder, f"{name}.npy")
        np.save(file, array)
        command += ["--input", f"{name}:{file}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return {"why": f"took more than {PATIENCE_S} s", "native": 0}
    if done.returncode != 0:
        return {"why": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1], "native": 0}
    return json.loads(done.stdout)


def microseconds(ns):
    return f"{ns / 1e3:.0f}" if ns >= 1e5 else f"{ns / 1e3:.1f}" if ns >= 1e4 else f"{ns / 1e3:.2f}"


def parse():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        sys.exit(0)
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1].split("\n", 1)[0], add_help=False)
    parser.add_argument("tool")
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", type=int, default=20)
    parser.add_argument("--above", type=float, default=0)
    parser.add_argument("--write")
    parser.add_argument("--mark", default="operators")
    return parser.parse_intermixed_args()


def wanted(case, operators):
    for text in operators:
        name, _, word = text.partition(":")
        if name in ("", case.operator) and word in case.label:
            return True
    return not operators


def note(case, result):
    apart = result["difference"]
    return "random" if case.chance else "" if abs(apart) <= TOLERANCE else "shapes differ" if apart < 0 else "differs"


def main():
    options = parse()
    tool = pair_tool(options.tool)
    measured, refused, seen, version = [], [], set(), None
    with tempfile.TemporaryDirectory(prefix="opmeter-bench-") as folder:
        for case in itertools.chain(ops_cases.cases(), ops_more.cases()):
            seen.add((case.domain, case.operator))
            if not wanted(case, options.operators):
                continue
            result = pair(tool, ops_cases.model([case]), ops_cases.given([case]), folder, options)
            version = result.get("version") or version
            if result["why"]:
                refused.append(f"{case.operator} {case.label}: {result['why']}")
                continue
            ratio = result["native"] / result["onnxruntime"]
            measured.append((ratio, [case.operator, case.label, microseconds(result["native"]),
                                     microseconds(result["onnxruntime"]), f"{ratio:.2f}", note(case, result)]))
    measured.sort(key=lambda m: -m[0])
    rows = [cells for ratio, cells in measured if ratio >= options.above]
    print(engine.aligned(HEAD, rows))
    for line in refused:
        print(f"not compared: {line}", file=sys.stderr)
    ratios = [ratio for ratio, _ in measured]
    total = ""
    if ratios:
        total = (f"{len(ratios)} cases of {len({c[0] for _, c in measured})} operators: geometric mean "
                 f"{np.exp(np.mean(np.log(ratios))):.2f}, {sum(r > 1.1 for r in ratios)} above 1.1.")
        print(total)
    if not options.operators:
        missing = sorted(name for domain, name in executed() - seen)
        print(f"without a case: {', '.join(missing) or 'none'}")
    if options.write:
        about = engine.machine(types.SimpleNamespace(
            tool=options.tool, version=version, onednn=None,
            options=types.SimpleNamespace(rounds=options.rounds, time=f"{options.time} ms")))
        engine.write(options.write, options.mark, f"{about} {total}\n\n{engine.markdown(HEAD, rows)}")


if __name__ == "__main__":
    main()
