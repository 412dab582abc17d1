#!/usr/bin/env python3
"""alarms.py -- how often `opmeter bench` cries wolf, and how often it finds what is there.

usage: bench/alarms.py OPMETER [OPTION]...

Runs `opmeter bench` on pairs of models that are the same (an alarm is a verdict of slower or faster, of the whole or of
any operator) and on pairs in which one of twelve pairs of products of matrices was made so much longer that the whole takes
that much longer (found: the whole is slower, and one of that pair is named). How much longer that has to be is measured
before, by the shortest inferences of processes that take turns, and said. Prints a line for each, and the counts.

  --times 20        benches of each kind; 0 of the same: --same 0
  --same N          benches of pairs that are the same, if not --times
  --time 20s        that one of them may take
  --planted 3       percent of the whole by which the planted operator is longer; several with commas in between
  --longer 1.5      the planted operator this much longer, instead of measuring how much
  --neighbour       beside a process that keeps a core busy
  --cpus LIST       on these processors, as taskset(1) has them; the neighbour is on the first
  --model NAME      of pairs that are the same; may be repeated (zoo:mlp, zoo:lstm, zoo:mobilenetv2)

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/tools"))
from pbwire import block, number  # noqa: E402

LAYERS, WIDTH, ROWS = 12, 256, 64
FLOAT = 1


def value(name, *dims):
    shape = b"".join(block(1, number(1, d)) for d in dims)
    return block(1, name.encode()) + block(2, block(1, number(1, FLOAT) + block(2, shape)))


def tensor(name, *dims):
    count = 1
    for d in dims:
        count *= d
    return (b"".join(number(1, d) for d in dims) + number(2, FLOAT) + block(8, name.encode()) +
            block(9, bytes(4 * count)))


def node(kind, name, inputs, output):
    return (b"".join(block(1, i.encode()) for i in inputs) + block(2, output.encode()) + block(3, name.encode()) +
            block(4, kind.encode()))


def model(longer):
    """Twelve pairs of products, WIDTH wide; the fifth pair `longer` times as long."""
    graph, last = b"", "x"
    for i in range(LAYERS):
        inner = round(WIDTH * (longer if i == 4 else 1))
        for half, (wide, high) in enumerate(((WIDTH, inner), (inner, WIDTH))):
            weight, out = f"w{i}_{half}", f"y{i}_{half}"
            graph += block(1, node("MatMul", f"layer{i}_{half}", [last, weight], out))
            graph += block(5, tensor(weight, wide, high))
            last = out
    graph += block(2, b"layers") + block(11, value("x", ROWS, WIDTH)) + block(12, value(last, ROWS, WIDTH))
    return number(1, 8) + block(7, graph) + block(8, number(2, 13))


def bench(opmeter, time, a, b):
    done = subprocess.run([opmeter, "bench", "-q", "--json", "--time", time, a, b], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["sides"][1]


def fastest_ns(opmeter, path, folder):
    out = pathlib.Path(folder, "truth")
    subprocess.run([opmeter, "run", "-q", str(path), "-j", "1", "-n", "300", "-o", str(out)], check=True,
                   capture_output=True)
    return json.loads((out / "summary.json").read_text())["latency"]["bare"]["min_ns"]


def cost(opmeter, folder, base, longer):
    """How much longer the whole takes, in percent, if the planted pair is `longer` times as long."""
    hit = pathlib.Path(folder, "hit.onnx")
    hit.write_bytes(model(longer))
    pairs = [(fastest_ns(opmeter, base, folder), fastest_ns(opmeter, hit, folder)) for _ in range(9)]
    return 100 * statistics.median(b / a for a, b in pairs) - 100


def plant(opmeter, folder, base, percent):
    """The length that costs `percent` of the whole, by the rule of three: kernels have their steps."""
    longer, tried = 1 + LAYERS * percent / 100, []
    for _ in range(6):
        tried.append((abs(cost(opmeter, folder, base, longer) - percent), longer))
        if tried[-1][0] < percent / 20:
            break
        longer = 1 + (longer - 1) * percent / max(cost(opmeter, folder, base, longer), percent / 4)
    return min(tried)[1]


def changed(side):
    named = [op["name"] for op in side["operators"] if op["verdict"] in ("slower", "faster")]
    whole = side["latency"]["verdict"]
    return ([whole] if whole in ("slower", "faster") else []) + named


def same(args, models):
    alarms = 0
    for i in range(args.same):
        name = models[i % len(models)]
        side = bench(args.opmeter, args.time, f"{name} -j 1", f"{name} -j 1")
        found = changed(side)
        alarms += bool(found)
        print(f"same {name}: {side['answer']} {' '.join(found)}", flush=True)
    print(f"alarms: {alarms} of {args.same}", flush=True)


def planted(args, percent, folder):
    base, hit = pathlib.Path(folder, "base.onnx"), pathlib.Path(folder, "hit.onnx")
    base.write_bytes(model(1))
    longer = args.longer or plant(args.opmeter, folder, base, percent)
    print(f"planted {percent} %: {longer:.3f} times as long costs {cost(args.opmeter, folder, base, longer):.2f} %", flush=True)
    whole = named = 0
    for _ in range(args.times):
        side = bench(args.opmeter, args.time, f"{base} -j 1", f"{hit} -j 1")
        found = changed(side)
        whole += side["latency"]["verdict"] == "slower"
        named += any(op.startswith("layer4_") for op in found)
        print(f"planted {percent} %: {side['answer']} {' '.join(found)}", flush=True)
    print(f"planted {percent} %: found {whole} of {args.times}, operator named {named}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("opmeter")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--same", type=int)
    parser.add_argument("--time", default="20s")
    parser.add_argument("--planted", default="3")
    parser.add_argument("--longer", type=float)
    parser.add_argument("--neighbour", action="store_true")
    parser.add_argument("--cpus")
    parser.add_argument("--model", action="append")
    args = parser.parse_args()
    args.same = args.times if args.same is None else args.same
    if args.cpus:
        os.sched_setaffinity(0, [int(cpu) for cpu in args.cpus.split(",")])
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if args.neighbour else None
    if neighbour and args.cpus:
        os.sched_setaffinity(neighbour.pid, [int(args.cpus.split(",")[0])])
    try:
        if args.same:
            same(args, args.model or ["zoo:mlp", "zoo:lstm", "zoo:mobilenetv2"])
        with tempfile.TemporaryDirectory() as folder:
            for percent in args.planted.split(",") if args.planted else []:
                planted(args, float(percent), folder)
    finally:
        if neighbour:
            neighbour.kill()
            neighbour.wait()


if __name__ == "__main__":
    main()
