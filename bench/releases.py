#!/usr/bin/env python3
"""releases.py -- are reported regressions of ONNX Runtime there? Two releases each, by `opmeter bench`.

usage: bench/releases.py OPMETER CACHE [OPTION]...

Fetches releases of ONNX Runtime from npm (package onnxruntime-node) into the folder CACHE, where they stay, makes a small
model for each report and lets `opmeter bench` compare the release before with the one after, each in processes of its own
that take turns. Models are small: an iteration that is longer than the scheduler lets a process run is disturbed by every
neighbour. Prints a row of Markdown for each: what was reported, and what was measured with its 95 % interval. The
packages of 1.8 and 1.9 hold no library.

  --time 60s        that one bench may take
  --threads 1       of ONNX Runtime
  --only TEXT       cases whose name has TEXT; may be repeated
  --releases        instead: run one model by every release that npm has, and say which do not run it

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import platform
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/tools"))
from pbwire import block, number  # noqa: E402

PACKAGE = "onnxruntime-node"
FLOAT, UINT8, INT8, INT32, INT64, DOUBLE = 1, 2, 3, 6, 7, 11
SIZE = {FLOAT: 4, UINT8: 1, INT8: 1, INT32: 4, INT64: 8, DOUBLE: 8}
ARCH = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


# -- models --

def value(name, kind, *dims):
    shape = b"".join(block(1, number(1, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, kind) + block(2, shape)))


def tensor(name, kind, dims, data):
    return b"".join(number(1, d) for d in dims) + number(2, kind) + block(8, name) + block(9, data)


def reals(rng, count, scale):
    return struct.pack(f"<{count}f", *(rng.uniform(-scale, scale) for _ in range(count)))


def attribute(name, given):
    if isinstance(given, str):
        return block(1, name) + block(4, given) + number(20, 3)
    if isinstance(given, list):
        return block(1, name) + b"".join(number(8, v) for v in given) + number(20, 7)
    return block(1, name) + number(3, given) + number(20, 2)


class Graph:
    """A model as it is put together: what goes in, nodes in order, weights, what comes out."""

    def __init__(self, opset=13):
        self.opset, self.body, self.count, self.rng = opset, b"", 0, random.Random(7)

    def input(self, kind, *dims):
        self.body += block(11, value("x", kind, *dims))
        return "x"

    def weight(self, kind, dims, data):
        name = f"w{self.count}"
        self.count += 1
        self.body += block(5, tensor(name, kind, dims, data))
        return name

    def floats(self, *dims, scale=0.1):
        count = 1
        for d in dims:
            count *= d
        return self.weight(FLOAT, dims, reals(self.rng, count, scale))

    def node(self, kind, inputs, outputs=1, **attributes):
        name = f"{kind.lower()}{self.count}"
        self.count += 1
        out = [f"{name}_{i}" for i in range(outputs)]
        self.body += block(1, b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in out) + block(3, name) +
                           block(4, kind) + b"".join(block(5, attribute(k, v)) for k, v in attributes.items()))
        return out[0] if outputs == 1 else out

    def quantised(self, x, kind=UINT8, zero=128, scale=0.02):
        """Through a quantiser and back, as a QDQ model has it around every operator."""
        s = self.weight(FLOAT, (), struct.pack("<f", scale))
        z = self.weight(kind, (), struct.pack("<b" if kind == INT8 else "<B", zero))
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, s, z]), s, z])

    def quantised_weight(self, *dims):
        count = 1
        for d in dims:
            count *= d
        q = self.weight(INT8, dims, bytes(self.rng.randrange(256) for _ in range(count)))
        s = self.weight(FLOAT, (), struct.pack("<f", 0.005))
        z = self.weight(INT8, (), b"\0")
        return self.node("DequantizeLinear", [q, s, z])

    def done(self, out, kind, *dims):
        graph = self.body + block(2, "case") + block(12, value(out, kind, *dims))
        ir = 7 if self.opset < 15 else 8
        return number(1, ir) + block(7, graph) + block(8, number(2, self.opset))


def gru(steps, batch, size, layers, direction="forward"):
    g = Graph()
    ways = 2 if direction == "bidirectional" else 1
    last, width = g.input(FLOAT, steps, batch, size), size
    for _ in range(layers):
        y = g.node("GRU", [last, g.floats(ways, 3 * size, width), g.floats(ways, 3 * size, size), g.floats(ways, 6 * size)],
                   direction=direction, hidden_size=size)
        # [steps, ways, batch, size] to [steps, batch, ways * size]
        y = g.node("Transpose", [y], perm=[0, 2, 1, 3])
        shape = g.weight(INT64, (3,), struct.pack("<3q", steps, batch, ways * size))
        last, width = g.node("Reshape", [y, shape]), ways * size
    return g.done(last, FLOAT, steps, batch, width)


def sign_int64():
    g = Graph()
    last = g.input(INT64, 16, 64, 64)
    for _ in range(8):
        last = g.node("Sign", [last])
    return g.done(last, INT64, 16, 64, 64)


def matmul_int64():
    g = Graph()
    x = g.input(INT64, 3, 32, 64)
    w = g.weight(INT64, (64, 64), struct.pack(f"<{64 * 64}q", *(g.rng.randrange(-9, 9) for _ in range(64 * 64))))
    return g.done(g.node("MatMul", [x, w]), INT64, 3, 32, 64)


def sigmoid_float64(positive):
    """Of values of both signs, or of those above 0 alone: branches cost where they cannot be foreseen."""
    g = Graph()
    x = g.input(DOUBLE, 1, 16, 64, 64)
    x = g.node("Abs", [x]) if positive else x
    return g.done(g.node("Sigmoid", [x]), DOUBLE, 1, 16, 64, 64)


def reduce_mean_int64():
    g = Graph()
    x = g.input(INT64, 4, 32, 56, 56)
    return g.done(g.node("ReduceMean", [x], axes=[1], keepdims=1), INT64, 4, 1, 56, 56)


def less_or_equal_int64():
    g = Graph(16)
    x = g.input(INT64, 2, 3, 128, 128)
    count = 2 * 3 * 128 * 128
    w = g.weight(INT64, (2, 3, 128, 128), struct.pack(f"<{count}q", *(g.rng.randrange(-9, 9) for _ in range(count))))
    return g.done(g.node("LessOrEqual", [x, w]), 9, 2, 3, 128, 128)


def grid_sample():
    g = Graph(16)
    x = g.input(FLOAT, 2, 3, 56, 56)
    grid = g.floats(2, 56, 56, 2, scale=1)
    return g.done(g.node("GridSample", [x, grid], mode="bilinear", padding_mode="zeros", align_corners=0), FLOAT, 2, 3, 56, 56)


def qdq_conv():
    g = Graph()
    last = g.quantised(g.input(FLOAT, 1, 16, 28, 28))
    for _ in range(4):
        y = g.node("Conv", [last, g.quantised_weight(16, 16, 3, 3)], pads=[1, 1, 1, 1], kernel_shape=[3, 3])
        last = g.quantised(g.node("Relu", [y]))
    return g.done(last, FLOAT, 1, 16, 28, 28)


def qdq_matmul():
    g = Graph()
    last = g.quantised(g.input(FLOAT, 64, 256))
    for _ in range(6):
        last = g.quantised(g.node("MatMul", [last, g.quantised_weight(256, 256)]))
    return g.done(last, FLOAT, 64, 256)


def qdq_elementwise():
    """What stands between products in QDQ models: additions, sigmoids, poolings."""
    g = Graph()
    first = last = g.quantised(g.input(FLOAT, 1, 64, 56, 56))
    for _ in range(3):
        last = g.quantised(g.node("Add", [last, first]))
        last = g.quantised(g.node("Sigmoid", [last]))
    last = g.quantised(g.node("GlobalAveragePool", [last]))
    return g.done(last, FLOAT, 1, 64, 1, 1)


# name, where it was reported (issue of microsoft/onnxruntime), what was said of it, releases, model
CASES = (
    ("GRU, one step", "27188", "+21 %", "1.20.0", "1.21.0", lambda: gru(1, 1, 128, 8)),
    ("GRU, 32 steps", "27188", "+7 % to +21 %", "1.20.0", "1.21.0", lambda: gru(32, 4, 64, 2)),
    ("GRU, both ways", "27188", "+7 % to +21 %", "1.20.0", "1.21.0", lambda: gru(16, 4, 64, 2, "bidirectional")),
    ("Sign, int64", "27115", "+23 % to +26 %", "1.20.0", "1.21.0", sign_int64),
    ("MatMul, int64", "27153", "+72 % to +144 %", "1.20.0", "1.21.0", matmul_int64),
    ("Sigmoid, float64, above 0", "27074", "+103 %", "1.20.0", "1.21.0", lambda: sigmoid_float64(True)),
    ("Sigmoid, float64, both signs", "27074", "+103 %", "1.20.0", "1.21.0", lambda: sigmoid_float64(False)),
    ("ReduceMean, int64", "27076", "+39 %", "1.20.0", "1.21.0", reduce_mean_int64),
    ("LessOrEqual, int64", "27186", "+8 %", "1.18.0", "1.19.0", less_or_equal_int64),
    ("GridSample", "27155", "+7 % to +15 %", "1.22.0", "1.23.0", grid_sample),
    ("QDQ Conv and Relu", "", "slower", "1.20.0", "1.23.0", qdq_conv),
    ("QDQ MatMul", "", "slower", "1.20.0", "1.23.0", qdq_matmul),
    ("QDQ Add, Sigmoid", "", "slower", "1.20.0", "1.23.0", qdq_elementwise),
)


# -- releases --

def library(cache, version):
    """The library of a release, fetched if it is not there yet; None if npm has none for this machine."""
    place = cache / version
    found = sorted(place.glob("libonnxruntime.so*"))
    if not found and not place.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            done = subprocess.run(["npm", "pack", "--silent", f"{PACKAGE}@{version}"], cwd=folder, capture_output=True,
                                  text=True)
            archives = list(pathlib.Path(folder).glob("*.tgz"))
            if done.returncode or not archives:
                sys.exit(f"npm pack {PACKAGE}@{version}: {done.stderr.strip() or 'nothing came'}")
            unpacked = pathlib.Path(folder, "libraries")
            unpacked.mkdir()
            with tarfile.open(archives[0]) as tar:
                for member in tar:
                    path = pathlib.PurePosixPath(member.name)
                    if member.isfile() and path.parts[-3:-1] == ("linux", ARCH) and path.name.startswith("libonnxruntime.so"):
                        with tar.extractfile(member) as source, open(unpacked / path.name, "wb") as out:
                            shutil.copyfileobj(source, out)
            os.replace(unpacked, place)
        found = sorted(place.glob("libonnxruntime.so*"))
    return found[0] if found else None


def all_releases():
    done = subprocess.run(["npm", "view", PACKAGE, "versions", "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"npm view {PACKAGE}: {done.stderr.strip()}")
    plain = [v for v in json.loads(done.stdout) if all(part.isdigit() for part in v.split("."))]
    return sorted(plain, key=lambda v: [int(part) for part in v.split(".")])


# -- measuring --

def percent(share):
    return f"{100 * share:+.1f} %"


def within(e):
    return f"{percent(e['change'])} ({100 * e['low']:+.1f} to {100 * e['high']:+.1f})"


def compare(args, name, report, said, old, new, model, folder):
    path = pathlib.Path(folder, "case.onnx")
    path.write_bytes(model())
    sides = []
    for version in (old, new):
        lib = library(args.cache, version)
        if not lib:
            return [name, report, f"{old} to {new}", said, f"{version} is not on npm for this machine"]
        sides.append(f"{path} -e onnxruntime -j {args.threads} --ort-lib {lib}")
    done = subprocess.run([args.opmeter, "bench", "-q", "--json", "--time", args.time, *sides], capture_output=True, text=True)
    if done.returncode:
        return [name, report, f"{old} to {new}", said, done.stderr.strip().splitlines()[-1]]
    answer = json.loads(done.stdout)
    whole = answer["sides"][1]["latency"]
    known = [op for op in answer["sides"][1]["operators"] if op["change"] is not None]
    longest = max(known, key=lambda op: op["a_ns"], default=None)
    operator = f"{longest['type']} {within(longest)}" if longest else ""
    return [name, report, f"{old} to {new}", said, within(whole), operator, whole["verdict"], f"{answer['processes']:g}"]


def row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def run_all(args, folder):
    path = pathlib.Path(folder, "case.onnx")
    path.write_bytes(gru(4, 1, 32, 1))
    row(["release", "runs"])
    row(["---", "---"])
    for version in all_releases():
        lib = library(args.cache, version)
        if not lib:
            row([version, "npm has no library for this machine"])
            continue
        done = subprocess.run([args.opmeter, "run", "-q", str(path), "-e", "onnxruntime", "-n", "3", "-j", "1", "--ort-lib", str(lib),
                               "-o", str(pathlib.Path(folder, version))], capture_output=True, text=True)
        row([version, "yes" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("opmeter")
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("--time", default="60s")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", action="append")
    parser.add_argument("--releases", action="store_true")
    args = parser.parse_args()
    args.cache = args.cache.resolve()
    args.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if args.releases:
            run_all(args, folder)
            return
        row(["case", "issue", "releases", "reported", "latency", "its longest operator", "verdict", "processes of each"])
        row(["---"] * 8)
        for case in CASES:
            if not args.only or any(text.lower() in case[0].lower() for text in args.only):
                row(compare(args, *case, folder))


if __name__ == "__main__":
    main()
