#!/usr/bin/env python3
"""resnet50_check.py -- does a recording of resnet50.py say what ran?

usage: resnet50_check.py record FOLDER --cuda LIBRARY   where a GPU, PyTorch and the package are
       resnet50_check.py check FOLDER --opmeter COMMAND here or elsewhere

record runs the training as `opmeter record` would, marked in every way, with and without autocast;
bare; and under PyTorch's own profiler. What ran is counted by hooks of its modules in a run of its
own. check prints the figures side by side and fails where they differ.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "resnet50.py"
WAYS = [(mark, amp) for mark in ("nvtx", "record_function", "opmeter", "none")
        for amp in (False, True)]
MODELS = {"nvtx": "step", "record_function": "iteration", "opmeter": "resnet50",
          "none": "optimizer step"}


def name_of(mark, amp):
    return mark + ("-amp" if amp else "")


def words(mark, amp):
    return ["--mark", mark] + ["--amp"] * amp


def run(arguments, **environment):
    done = subprocess.run([sys.executable, PROGRAM, *arguments], text=True, capture_output=True,
                          timeout=200, env={**os.environ, **environment})
    sys.stderr.write(done.stderr[-2000:])
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def record(folder, library):
    package = Path(importlib.util.find_spec("opmeter").origin).parent
    folder.mkdir(parents=True, exist_ok=True)
    results = {"bare": run(["--mark", "none"]), "bare-amp": run(["--mark", "none", "--amp"]),
               "told": run(["--tell"]), "told-amp": run(["--tell", "--amp"]),
               "profiler": run(["--profiler"]), "profiler-amp": run(["--profiler", "--amp"])}
    for mark, amp in WAYS:
        name = name_of(mark, amp)
        with tempfile.TemporaryDirectory() as parts:
            results[name] = run(
                words(mark, amp), OPMETER_RECORD_DIR=parts, OPMETER_CUDA="1",
                OPMETER_OUTPUT=os.path.join(parts, "%p.opm"), CUDA_INJECTION64_PATH=library,
                NVTX_INJECTION64_PATH=library,
                PYTHONPATH=os.pathsep.join([str(package / "hook"), str(package.parent)]))
            with tarfile.open(folder / f"{name}.tgz", "w:gz") as archive:
                archive.add(parts, "parts")
    (folder / "results.json").write_text(json.dumps(results))


QUESTIONS = {
    "convolutions": "SELECT sum(count) FROM op_times WHERE type = 'aten::conv2d' "
                    "AND section = 'host'",
    "model": "SELECT group_concat(DISTINCT model) FROM step",
    "steps": "SELECT count(*) FROM step WHERE dur >= 0",
    "split": "SELECT count(*) FROM step_trace WHERE split_by = 'autograd'",
    "largest part": "SELECT max(fp_bp_ns * 1.0 / total_ns) FROM step_trace",
    "parts": "SELECT max(abs(gap_ns + fp_bp_ns + tail_ns - total_ns)) FROM step_trace",
    "step ms": "SELECT median(total_ns) / 1e6 FROM step_trace",
    "measuring": "SELECT sum(ns) FILTER (WHERE bucket = 'measuring') * 1.0 / sum(ns) "
                 "FROM occupation",
    "operator ns": "SELECT each_ns FROM measuring WHERE what = 'operators of PyTorch'",
    "cost ms": "SELECT sum(total_ns) / 1e6 FROM measuring WHERE what IN "
               "('operators of PyTorch', 'CUPTI', 'writing')",
}


def answers(opmeter, parts):
    def ask(sql):
        done = subprocess.run([opmeter, "query", "--json", parts, f"SELECT ({sql}) AS answer"],
                              text=True, capture_output=True, check=True)
        return json.loads(done.stdout)[0]["answer"]

    return {name: ask(sql) for name, sql in QUESTIONS.items()}


def check(folder, opmeter):
    results = json.loads((folder / "results.json").read_text())
    wrong = []
    for mark, amp in WAYS:
        name, tail = name_of(mark, amp), "-amp" * amp
        told = results["told" + tail]["calls"]["Conv2d"]
        iterations = results[name]["iterations"]
        with tempfile.TemporaryDirectory() as work:
            with tarfile.open(folder / f"{name}.tgz") as archive:
                archive.extractall(work)
            got = answers(opmeter, os.path.join(work, "parts"))
        # An optimizer's steps go from the end of one to the end of the next.
        steps = iterations - 1 if mark == "none" else results[name]["steps"]
        want = {"convolutions": told, "model": MODELS[mark], "steps": steps, "split": steps,
                "parts": 0}
        wrong += [f"{name}: {key} is {got[key]}, not {value}" for key, value in want.items()
                  if got[key] != value]
        if got["largest part"] > 1 or not got["operator ns"]:
            wrong.append(f"{name}: {got}")
        print(f"{name}: {told} convolutions, {results['profiler' + tail]['operators']['aten::conv2d']}"
              f" aten::conv2d for PyTorch's profiler; bare {results['bare' + tail]['median_ms']:.1f},"
              f" recorded {results[name]['median_ms']:.1f} ms;", got)
    for line in wrong:
        print("WRONG", line)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["record", "check"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cuda", metavar="LIBRARY", help="libopmeter-cuda.so")
    parser.add_argument("--opmeter", metavar="COMMAND", default="opmeter")
    args = parser.parse_args()
    if args.what == "record":
        return record(args.folder, os.path.abspath(args.cuda))
    return check(args.folder, args.opmeter)


if __name__ == "__main__":
    sys.exit(main())
