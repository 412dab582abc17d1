#!/usr/bin/env python3
"""cost.py -- what recording a training loop costs, beside PyTorch's own profiler.

usage: cost.py --cuda LIBRARY [--rounds N] [--fork] [--opmeter COMMAND] [--categories LIST]... [--json FILE]

Trains resnet50.py in separate processes, in every round in another order: bare, under opmeter with and
without operators, under PyTorch's profiler with device activities alone and with operators and their
shapes. Prints a table of medians of each, and multiples of the bare loop of the same round. With --fork
the processes are forked from one that has imported PyTorch, which allows more rounds in the same time.
Needs a GPU, PyTorch and the Python package; with --opmeter, kernels and their times are compared, too.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import atexit
import ctypes
import importlib
import importlib.util
import json
import os
import random
import runpy
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "resnet50.py"
# What opmeter records of the device and of CUDA; operators are not among it.
DEVICE = "kernel,gpu_memcpy,gpu_memset,cuda_runtime,cuda_driver,cuda_sync,overhead,nvtx"
KERNELS = ("SELECT count(*) AS n, sum(dur) / 1e6 AS ms FROM span WHERE cat = 'kernel'")


def forked(words, environment):
    """resnet50.py in a child, which ends as a program does: whoever records it writes when it ends."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        atexit._clear()  # what the parent has to remove is the parent's
        os.environ.update(environment)
        if environment:
            sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
            import opmeter_hook
            opmeter_hook.watch()
        sys.argv = [str(PROGRAM), "--mark", "none", *words]
        status = 1
        try:
            runpy.run_path(str(PROGRAM), run_name="__main__")
            status = 0
        finally:
            sys.stdout.flush()
            atexit._run_exitfuncs()
            ctypes.CDLL(None).exit(status)
    os.close(writer)
    with os.fdopen(reader) as output:
        text = output.read()
    if os.waitpid(child, 0)[1]:
        sys.exit("cost.py: training failed")
    return json.loads(text.splitlines()[-1])


def train(words, **environment):
    if "torch" in sys.modules:
        return forked(words, environment)
    done = subprocess.run([sys.executable, PROGRAM, "--mark", "none", *words], text=True,
                          capture_output=True, timeout=300, env={**os.environ, **environment})
    sys.stderr.write(done.stderr[-2000:])
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def recorded(args, words, categories):
    package = Path(importlib.util.find_spec("opmeter").origin).parent
    with tempfile.TemporaryDirectory() as parts:
        environment = {
            "OPMETER_RECORD_DIR": parts, "OPMETER_CUDA": "1",
            "OPMETER_OUTPUT": os.path.join(parts, "%p.opm"),
            "CUDA_INJECTION64_PATH": args.cuda, "NVTX_INJECTION64_PATH": args.cuda,
            "PYTHONPATH": os.pathsep.join([str(package / "hook"), str(package.parent)])}
        if categories:
            environment["OPMETER_CATEGORIES"] = categories
        result = train(words, **environment)
        if args.opmeter:
            done = subprocess.run([args.opmeter, "query", "--json", parts, KERNELS], text=True,
                                  capture_output=True, check=True)
            row = json.loads(done.stdout)[0]
            result.update(kernels=row["n"], kernel_ms=row["ms"])
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuda", metavar="LIBRARY", required=True, help="libopmeter-cuda.so")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--opmeter", metavar="COMMAND")
    parser.add_argument("--categories", action="append", default=[], help="one more row")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.cuda = os.path.abspath(args.cuda)
    if args.fork:
        importlib.import_module("torch")
    words = ["--steps", str(args.steps), "--batch", str(args.batch)]
    modes = {"bare": lambda: train(words),
             "opmeter, with operators": lambda: recorded(args, words, None),
             "opmeter, without operators": lambda: recorded(args, words, DEVICE),
             "PyTorch's profiler, device activities": lambda: train(words + ["--profiler", "cuda"]),
             "PyTorch's profiler, with operators": lambda: train(words + ["--profiler", "all"])}
    for extra in args.categories:
        modes[f"opmeter, {extra}"] = lambda extra=extra: recorded(args, words, extra)
    results = {mode: [] for mode in modes}
    for number in range(args.rounds):
        for mode in random.sample(list(modes), len(modes)):
            results[mode].append(modes[mode]())
        print(f"round {number + 1}:", ", ".join(f"{mode} {rows[-1]['median_ms']:.2f}"
                                                for mode, rows in results.items()),
              file=sys.stderr, flush=True)
        if args.json:
            args.json.write_text(json.dumps(results))
    bare = [result["median_ms"] for result in results["bare"]]
    print("| recorded by | ms a step | of bare | worst round | kernels | their time, ms |")
    print("|---|---:|---:|---:|---:|---:|")
    for mode, rows in results.items():
        each = [row["median_ms"] / own for row, own in zip(rows, bare)]
        last = rows[-1]
        kernels = f"{last['kernels']} | {last['kernel_ms']:.1f}" if "kernels" in last else " | "
        print(f"| {mode} | {statistics.median(row['median_ms'] for row in rows):.2f} "
              f"| {statistics.median(each):.2f} | {max(each):.2f} | {kernels} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
