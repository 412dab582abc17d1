#!/usr/bin/env python3
"""cost.py -- what recording a training loop costs, beside PyTorch's own profiler.

usage: cost.py OUT --cuda LIBRARY [--rounds N] [--seconds S] [--fork] [--more] [--with VARIABLES]...
       cost.py --table OUT [--opmeter COMMAND]

Trains resnet50.py in separate processes, in every round in another order: bare, under opmeter with and
without operators, under PyTorch's profiler with device activities alone and with operators and their
shapes; in the first rounds also the same loop as a graph that is captured once and replayed, and with --more
or --with further settings of opmeter: --with "OPMETER_CUDA_FLUSH_MS=0". Needs a GPU, PyTorch and the Python
package. No round begins after S seconds. With --fork the processes are forked from one that has imported
PyTorch, which allows more rounds.

OUT gets costs.json and the last recording of each setting, of which --table, here or elsewhere, prints a
table: medians, multiples of the bare loop of the same round, kernels and their time.

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
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

LIMIT_S = 90  # of a process
HERE = Path(__file__).resolve().parent
# What opmeter records of the device and of CUDA; operators are not among it.
DEVICE = "kernel,gpu_memcpy,gpu_memset,cuda_runtime,cuda_driver,cuda_sync,cuda_graph,nvtx"
# Settings: a name, the loop's words, and whoever records: nobody (None), PyTorch's profiler (its kind),
# or opmeter (variables of its environment).
LOOPS = {"": [], "graph: ": ["--graph"]}
SETTINGS = [("bare", None), ("opmeter, without operators", {"OPMETER_CATEGORIES": DEVICE}),
            ("opmeter, operators with shapes and types", {}),
            ("PyTorch's profiler, device activities alone", "cuda"),
            ("PyTorch's profiler, operators with shapes", "all")]
MORE = [("opmeter, kernels and copies alone", {"OPMETER_CATEGORIES": "kernel,gpu_memcpy,gpu_memset"}),
        ("opmeter, without operators and calls of the driver",
         {"OPMETER_CATEGORIES": DEVICE.replace("cuda_driver,", "")}),
        ("opmeter, waits and overhead as CUPTI records them",
         {"OPMETER_CUDA_RECORDS": "cuda_sync,overhead"}),
        ("opmeter, times of the device kept in memory of the host",
         {"OPMETER_CUDA_ATTRIBUTES": "8=1"})]
QUESTIONS = {
    "kernels": "SELECT count(*) FROM span WHERE cat = 'kernel'",
    "kernel_ms": "SELECT sum(dur) / 1e6 FROM span WHERE cat = 'kernel'",
    "of operators": "SELECT sum(count) FILTER (WHERE op IS NOT NULL) * 1.0 / sum(count) FROM op_times"
                    " WHERE section = 'device'",
    "operators": "SELECT count(*) FROM span WHERE cat = 'op'",
    "operator ns": "SELECT each_ns FROM measuring WHERE what = 'operators of PyTorch'",
    "converting ms": "SELECT total_ns / 1e6 FROM measuring WHERE what = 'records of CUDA'",
    "waits": "SELECT count(*) FROM span WHERE cat = 'cuda_sync'",
    "dropped": "SELECT value + 0 FROM meta WHERE key LIKE '%cuda.dropped'",
    "operators from": "SELECT value FROM meta WHERE key LIKE '%torch.operators'",
    "attributes": "SELECT value FROM meta WHERE key LIKE '%cuda.attributes'",
    "refused": "SELECT value FROM meta WHERE key LIKE '%cuda.refused'",
}


def forked(program, words, environment):
    """A program in a child, which ends as a program does: whoever records it writes when it ends."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)  # whatever hangs must not take the others' time
        os.dup2(writer, 1)
        atexit._clear()  # what the parent has to remove is the parent's
        os.environ.update(environment)
        if environment:
            sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
            import opmeter_hook
            opmeter_hook.watch()
        sys.argv = [str(program), *words]
        status = 1
        try:
            runpy.run_path(str(program), run_name="__main__")
            status = 0
        finally:
            sys.stdout.flush()
            atexit._run_exitfuncs()
            ctypes.CDLL(None).exit(status)
    os.close(writer)
    with os.fdopen(reader) as output:
        text = output.read()
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(f"{program.name} {' '.join(words)} failed")
    return json.loads(text.splitlines()[-1])


def run(program, words, environment=None):
    environment = environment or {}
    if "torch" in sys.modules:
        return forked(program, words, environment)
    done = subprocess.run([sys.executable, program, *words], text=True, capture_output=True,
                          timeout=LIMIT_S, env={**os.environ, **environment})
    sys.stderr.write(done.stderr[-2000:])
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def recorded(library, program, words, more, keep):
    """As `opmeter record` has it; the parts of the recording go into the archive `keep`, if named."""
    package = Path(importlib.util.find_spec("opmeter").origin).parent
    with tempfile.TemporaryDirectory() as parts:
        result = run(program, words, {
            "OPMETER_RECORD_DIR": parts, "OPMETER_CUDA": "1",
            "OPMETER_OUTPUT": os.path.join(parts, "%p.opm"),
            "CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library,
            "PYTHONPATH": os.pathsep.join([str(package / "hook"), str(package.parent)]), **more})
        with tarfile.open(keep, "w:gz") as archive:
            archive.add(parts, "parts")
    return result


def file_of(name):
    return "".join(c if c.isalnum() else "-" for c in name) + ".tgz"


def measure(args):
    args.out.mkdir(parents=True, exist_ok=True)
    program, begun = Path(args.program), time.monotonic()
    words = ["--mark", "none", "--steps", str(args.steps), "--batch", str(args.batch)]
    settings = SETTINGS + MORE * args.more + [
        (f"opmeter, {extra}", dict(word.split("=", 1) for word in extra.split()))
        for extra in args.extra]
    modes = [(loop, name, how) for loop in LOOPS for name, how in settings
             if not loop or (name, how) in SETTINGS]
    results = {loop + name: [] for loop, name, _ in modes}
    for number in range(args.rounds):
        if time.monotonic() - begun > args.seconds:
            break
        for loop, name, how in random.sample(modes, len(modes)):
            if number >= args.first and (loop or (name, how) not in SETTINGS):
                continue
            all_words = words + LOOPS[loop]
            try:
                if isinstance(how, dict):
                    row = recorded(args.cuda, program, all_words, how, args.out / file_of(loop + name))
                elif how:
                    # The profiler's events take it long to tell, and are the same each time.
                    row = run(program, all_words + ["--profiler", how] + ["--no-count"] * (number > 0))
                else:
                    row = run(program, all_words)
            except Exception as error:
                print(f"{loop}{name}: {error}", file=sys.stderr, flush=True)
                row = None
            results[loop + name].append(row)
        print(f"round {number + 1}, {time.monotonic() - begun:.0f} s:",
              ", ".join(f"{mode} {rows[number]['median_ms']:.2f}" for mode, rows in results.items()
                        if len(rows) > number and rows[number]), file=sys.stderr, flush=True)
        (args.out / "costs.json").write_text(json.dumps(results))


# ---- the table ----

def answers(opmeter, archive):
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder)
        sql = "SELECT " + ", ".join(f'({q}) AS "{name}"' for name, q in QUESTIONS.items())
        done = subprocess.run([opmeter, "query", "--json", os.path.join(folder, "parts"), sql],
                              text=True, capture_output=True, check=True)
        return json.loads(done.stdout)[0]


def bare_of(results, mode):
    loop = "graph: " if mode.startswith("graph: ") else ""
    return results[loop + "bare"]


def table(folder, opmeter):
    """Prints it; what the recordings say, by setting."""
    results = json.loads((folder / "costs.json").read_text())
    said = {}
    print("| recorded by | ms a step | of bare | worst round | kernels | their time, ms |")
    print("|---|---|---:|---:|---:|---:|")
    for mode, rows in results.items():
        pairs = [(row["median_ms"], own["median_ms"])
                 for row, own in zip(rows, bare_of(results, mode)) if row and own]
        if not pairs:
            print(f"| {mode} | failed | | | | |")
            continue
        seen = next((row for row in rows if row and "kernels" in row), {})
        if (folder / file_of(mode)).exists():
            seen = said[mode] = answers(opmeter, folder / file_of(mode))
        elif seen:
            said[mode] = seen
        of = [ms / own for ms, own in pairs]
        kernels = (f"{seen['kernels']:,} | {seen['kernel_ms']:.1f}"
                   if seen.get("kernels") else " | ")
        print(f"| {mode} | {', '.join(f'{ms:.1f}' for ms, _ in pairs)} "
              f"| {statistics.median(of):.2f} | {max(of):.2f} | {kernels} |")
    print()
    for mode, facts in said.items():
        rest = {key: value for key, value in facts.items()
                if key in QUESTIONS and key not in ("kernels", "kernel_ms") and value is not None}
        if rest:
            print(f"{mode}: " + ", ".join(f"{key} {value:.4g}" if isinstance(value, float)
                                          else f"{key} {value}" for key, value in rest.items()))
    return results, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--table", type=Path, metavar="OUT")
    parser.add_argument("--opmeter", metavar="COMMAND", default="opmeter")
    parser.add_argument("--cuda", metavar="LIBRARY", help="libopmeter-cuda.so")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first", type=int, default=3, help="rounds that have everything")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--program", default=HERE / "resnet50.py", help=argparse.SUPPRESS)
    parser.add_argument("--with", action="append", default=[], dest="extra", metavar="VARIABLES",
                        help="one more row, under opmeter with these")
    args = parser.parse_args()
    if args.table:
        table(args.table, args.opmeter)
        return 0
    if not args.out or not args.cuda:
        parser.error("OUT and --cuda are needed")
    args.cuda = os.path.abspath(args.cuda)
    if args.fork:
        importlib.import_module("torch")
    measure(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
