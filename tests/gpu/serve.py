#!/usr/bin/env python3
"""serve.py -- a language model that serves, bare and recorded: is what was recorded what ran?

usage: serve.py OUT --cuda LIBRARY [--rounds N] [--seconds S] [--fork] [--words "..."]
       serve.py --check OUT [--opmeter COMMAND]

Runs examples/python/serve_gpu.py bare and under opmeter in turn. OUT gets serve.json, with what the loop
itself counted and timed, and serve.tgz, the last recording. --check, here or elsewhere, compares the two, and
prints what `opmeter llm` says.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import importlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from cost import recorded, run

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "python" / "serve_gpu.py"
QUESTIONS = {
    "requests": "SELECT count(*) FROM request WHERE finish = 'length'",
    "iterations": "SELECT count(*) FROM iteration",
    "tokens_in": "SELECT sum(tokens_in) FROM request",
    "tokens_out": "SELECT sum(tokens_out) FROM request",
    "ttft_ms": "SELECT median(ttft_ns) / 1e6 FROM request_latency",
    "itl_ms": "SELECT median(itl_ns) / 1e6 FROM token_gaps",
    "requests whose TTFT and ITL are not end to end":
        "SELECT count(*) FROM request_latency WHERE ttft_ns + itl_ns <> e2e_ns",
    "iterations whose shares are not the whole":
        "SELECT count(*) FROM (SELECT sum(s.time_ns) AS parts, i.dur AS whole FROM request_shares AS s"
        " JOIN iteration AS i ON i.id = s.iteration GROUP BY i.id) WHERE parts <> whole",
    "device ms that is shared": "SELECT sum(device_ns) / 1e6 FROM request_shares",
    "device ms of iterations": "SELECT sum(device_ns) / 1e6 FROM iteration_times",
    "kernels": "SELECT count(*) FROM span WHERE cat = 'kernel'",
    "work of operators": "SELECT sum(count) FILTER (WHERE op IS NOT NULL) * 1.0 / sum(count)"
                         " FROM op_times WHERE section = 'device'",
    "kernel_ms": "SELECT sum(dur) / 1e6 FROM span WHERE cat = 'kernel'",
}
SAME = ("requests", "iterations", "tokens_in", "tokens_out")


def measure(args):
    args.out.mkdir(parents=True, exist_ok=True)
    begun, results = time.monotonic(), {"bare": [], "opmeter": []}
    for _ in range(args.rounds):
        if time.monotonic() - begun > args.seconds:
            break
        results["bare"].append(run(Path(args.program), args.words))
        results["opmeter"].append(recorded(args.cuda, Path(args.program), args.words, {},
                                           args.out / "serve.tgz"))
        (args.out / "serve.json").write_text(json.dumps(results))
        print(*(f"{how}: ITL {rows[-1]['itl_ms']:.3f} ms, TTFT {rows[-1]['ttft_ms']:.2f} ms"
                for how, rows in results.items()), sep="; ", flush=True)


def ask(opmeter, *words):
    return subprocess.run([opmeter, *words], text=True, capture_output=True, check=True).stdout


def check(folder, opmeter):
    """What differs that must not."""
    results = json.loads((folder / "serve.json").read_text())
    own = results["opmeter"][-1]
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(folder / "serve.tgz") as archive:
            archive.extractall(work)
        parts = os.path.join(work, "parts")
        got = {key: json.loads(ask(opmeter, "query", "--json", parts, f"SELECT ({sql}) AS x"))[0]["x"]
               for key, sql in QUESTIONS.items()}
        print(ask(opmeter, "llm", parts))
    for key, value in got.items():
        print(f"{key}: {value if value is None or isinstance(value, int) else round(value, 3)}"
              + (f"; the loop itself: {round(own[key], 3)}" if key in own else ""))
    for how, rows in results.items():
        print(f"{how}: ITL {', '.join(format(row['itl_ms'], '.3f') for row in rows)} ms,"
              f" TTFT {', '.join(format(row['ttft_ms'], '.2f') for row in rows)} ms")
    wrong = [f"{key} is {got[key]}, not {own[key]}" for key in SAME if got[key] != own[key]]
    wrong += [f"{got[key]} {key}" for key in got if " not " in key and got[key]]
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--check", type=Path, metavar="OUT")
    parser.add_argument("--opmeter", metavar="COMMAND", default="opmeter")
    parser.add_argument("--cuda", metavar="LIBRARY", help="libopmeter-cuda.so")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--program", default=PROGRAM, help=argparse.SUPPRESS)
    parser.add_argument("--words", type=str.split, default=[], help="for the program")
    args = parser.parse_args()
    if args.check:
        wrong = check(args.check, args.opmeter)
        for line in wrong:
            print("WRONG", line)
        return 3 if wrong else 0
    if not args.out or not args.cuda:
        parser.error("OUT and --cuda are needed")
    args.cuda = os.path.abspath(args.cuda)
    if args.fork:
        importlib.import_module("torch")
    measure(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
