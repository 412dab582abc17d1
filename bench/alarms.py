#!/usr/bin/env python3
"""alarms.py -- how often `opmeter bench` cries wolf, and how often it finds what is there.

usage: bench/alarms.py OPMETER [OPTION]...

Runs `opmeter bench` on pairs of models that are the same (an alarm is a verdict of slower or faster, of the whole or of
any operator) and on pairs in which one of twelve pairs of products of matrices was made so much longer that the whole takes
that much longer (found: the whole is slower, and one of that pair is named). How much longer that has to be is measured
before, by the shortest executions of every operator, and said. Prints a line for each, and the counts.

  --times 20        benches of each kind; 0 of the same: --same 0
  --same N          benches of pairs that are the same, if not --times
  --time 20s        that one of them may take
  --process-time T  as bench has it: what a process measures
  --min-effect S    likewise: what is worth mentioning; below what is planted
  --planted 3       percent of the whole by which the planted operator is longer; several with commas in between
  --longer 1.5      the planted operator this much longer, instead of measuring how much
  --neighbour       beside a process that keeps a core busy
  --cpus LIST       on these processors, as taskset(1) has them; the neighbour is on the first
  --model NAME      of pairs that are the same; may be repeated (zoo:mlp, zoo:lstm, zoo:mobilenetv2)
  --program CMD     also of pairs that are the same, by bench --record; may be repeated

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import array
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/tools"))
from pbwire import block, number  # noqa: E402

LAYERS, WIDTH, ROWS = 12, 128, 32
PAIR = 4  # the one that is planted
FLOAT = 1


def value(name, *dims):
    shape = b"".join(block(1, number(1, d)) for d in dims)
    return block(1, name.encode()) + block(2, block(1, number(1, FLOAT) + block(2, shape)))


def tensor(name, *dims):
    count = 1
    for d in dims:
        count *= d
    values = array.array("f", (random.Random(name).uniform(-0.1, 0.1) for _ in range(count)))
    return (b"".join(number(1, d) for d in dims) + number(2, FLOAT) + block(8, name.encode()) +
            block(9, values.tobytes()))


def node(kind, name, inputs, output):
    return (b"".join(block(1, i.encode()) for i in inputs) + block(2, output.encode()) + block(3, name.encode()) +
            block(4, kind.encode()))


def model(longer):
    """Twelve pairs of products, WIDTH wide; the fifth pair `longer` times as long."""
    graph, last = b"", "x"
    for i in range(LAYERS):
        inner = round(WIDTH * (longer if i == PAIR else 1))
        for half, (wide, high) in enumerate(((WIDTH, inner), (inner, WIDTH))):
            weight, out = f"w{i}_{half}", f"y{i}_{half}"
            graph += block(1, node("MatMul", f"layer{i}_{half}", [last, weight], out))
            graph += block(5, tensor(weight, wide, high))
            last = out
    graph += block(2, b"layers") + block(11, value("x", ROWS, WIDTH)) + block(12, value(last, ROWS, WIDTH))
    return number(1, 8) + block(7, graph) + block(8, number(2, 13))


def bench(args, a, b, *options):
    more = ["--process-time", args.process_time] if args.process_time else []
    more += ["--min-effect", args.min_effect] if args.min_effect else []
    done = subprocess.run([args.opmeter, "bench", "-q", "--json", "--time", args.time, *more, *options, a, b],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def said(answer, found):
    side = answer["sides"][1]
    return f"{side['answer']} [{answer['blocks']} blocks, {answer['seconds']:.0f} s, p {side['latency']['p']:.2g}] {' '.join(found)}"


def fastest(opmeter, path, folder):
    """Of each operator the shortest execution in several processes, in ns."""
    trace, best = pathlib.Path(folder, "truth.opm"), {}
    for _ in range(5):
        subprocess.run([opmeter, "run", "-q", str(path), "-j", "1", "-n", "300", "-o", str(trace)], check=True,
                       capture_output=True)
        rows = subprocess.run([opmeter, "query", "--json", str(trace), "SELECT name, min_ns FROM op_times"], check=True,
                              capture_output=True, text=True).stdout
        for row in json.loads(rows):
            best[row["name"]] = min(row["min_ns"], best.get(row["name"], row["min_ns"]))
    return best


def cost(opmeter, folder, base, longer):
    """How much longer the whole takes, in percent, if the planted pair is `longer` times as long."""
    hit = pathlib.Path(folder, "hit.onnx")
    hit.write_bytes(model(longer))
    before, after = fastest(opmeter, base, folder), fastest(opmeter, hit, folder)
    return 100 * sum(after[name] - before[name] for name in before if name.startswith(f"layer{PAIR}_")) / sum(before.values())


def plant(opmeter, folder, base, percent):
    """The length that costs `percent` of the whole, by the rule of three, and what it does cost: kernels have their steps."""
    longer, tried = 1 + LAYERS * percent / 100, []
    for _ in range(5):
        costs = cost(opmeter, folder, base, longer)
        tried.append((abs(costs - percent), longer, costs))
        if tried[-1][0] < percent / 20:
            break
        longer = 1 + (longer - 1) * percent / max(costs, percent / 4)
    return min(tried)[1:]


def changed(side):
    named = [op["name"] for op in side["operators"] if op["verdict"] in ("slower", "faster")]
    whole = side["latency"]["verdict"]
    return ([whole] if whole in ("slower", "faster") else []) + named


def same(args, models):
    alarms = 0
    pairs = [(f"{name} -j 1", []) for name in models] + [(line, ["--record"]) for line in args.program]
    for i in range(args.same):
        line, options = pairs[i % len(pairs)]
        answer = bench(args, line, line, *options)
        found = changed(answer["sides"][1])
        alarms += bool(found)
        print(f"same {line}: {said(answer, found)}", flush=True)
    print(f"alarms: {alarms} of {args.same}", flush=True)


def planted(args, percent, folder):
    base, hit = pathlib.Path(folder, "base.onnx"), pathlib.Path(folder, "hit.onnx")
    base.write_bytes(model(1))
    longer, costs = ((args.longer, cost(args.opmeter, folder, base, args.longer)) if args.longer
                     else plant(args.opmeter, folder, base, percent))
    hit.write_bytes(model(longer))
    print(f"planted {percent} %: {longer:.3f} times as long costs {costs:.2f} %", flush=True)
    whole = named = 0
    for _ in range(args.times):
        answer = bench(args, f"{base} -j 1", f"{hit} -j 1")
        side = answer["sides"][1]
        found = changed(side)
        whole += side["latency"]["verdict"] == "slower"
        named += any(op.startswith(f"layer{PAIR}_") for op in found)
        print(f"planted {percent} %: {said(answer, found)}", flush=True)
    print(f"planted {percent} %: found {whole} of {args.times}, operator named {named}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("opmeter")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--same", type=int)
    parser.add_argument("--time", default="20s")
    parser.add_argument("--process-time")
    parser.add_argument("--min-effect")
    parser.add_argument("--planted", default="3")
    parser.add_argument("--longer", type=float)
    parser.add_argument("--neighbour", action="store_true")
    parser.add_argument("--cpus")
    parser.add_argument("--model", action="append")
    parser.add_argument("--program", action="append", default=[])
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
