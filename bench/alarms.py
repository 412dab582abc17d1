#!/usr/bin/env python3
"""alarms.py -- how often `opmeter bench` cries wolf, and how often it finds what is there.

usage: bench/alarms.py OPMETER [OPTION]...

Runs `opmeter bench` on pairs of models that are the same (an alarm is a verdict of slower or faster, of the whole or of
any operator) and on pairs in which one of twelve products of matrices was made so much longer that the whole takes SHARE
longer (found: the whole is slower, and that operator is named). Prints a line for each, and the counts.

  --times 20        benches of each kind
  --time 20s        that one of them may take
  --planted 3       percent of the whole by which the planted operator is longer; several with commas in between
  --neighbour       beside a process that keeps a core busy
  --model NAME      of pairs that are the same; may be repeated (zoo:mlp, zoo:lstm, zoo:mobilenetv2)

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import pathlib
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


def changed(side):
    named = [op["name"] for op in side["operators"] if op["verdict"] in ("slower", "faster")]
    whole = side["latency"]["verdict"]
    return ([whole] if whole in ("slower", "faster") else []) + named


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("opmeter")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--time", default="20s")
    parser.add_argument("--planted", default="3")
    parser.add_argument("--neighbour", action="store_true")
    parser.add_argument("--model", action="append")
    args = parser.parse_args()
    models = args.model or ["zoo:mlp", "zoo:lstm", "zoo:mobilenetv2"]
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if args.neighbour else None
    try:
        alarms = 0
        for i in range(args.times):
            name = models[i % len(models)]
            side = bench(args.opmeter, args.time, f"{name} -j 1", f"{name} -j 1")
            found = changed(side)
            alarms += bool(found)
            print(f"same {name}: {side['answer']} {' '.join(found)}", flush=True)
        print(f"alarms: {alarms} of {args.times}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            base = pathlib.Path(folder, "base.onnx")
            base.write_bytes(model(1))
            for percent in args.planted.split(",") if args.planted else []:
                hit = pathlib.Path(folder, "hit.onnx")
                hit.write_bytes(model(1 + LAYERS * float(percent) / 100))
                whole = named = 0
                for _ in range(args.times):
                    side = bench(args.opmeter, args.time, f"{base} -j 1", f"{hit} -j 1")
                    found = changed(side)
                    whole += side["latency"]["verdict"] == "slower"
                    named += any(op.startswith("layer4_") for op in found)
                    print(f"planted {percent} %: {side['answer']} {' '.join(found)}", flush=True)
                print(f"planted {percent} %: found {whole} of {args.times}, operator named {named}", flush=True)
    finally:
        if neighbour:
            neighbour.kill()
            neighbour.wait()


if __name__ == "__main__":
    main()
