#!/usr/bin/env python3
"""rows.py -- one row by weights that no cache holds: the share of the memory's bandwidth that the native engine reaches.

usage: bench/rows.py OPMETER [OPTION]... [WHAT]...

Each model is a product of one row by 128 MB of weights: floats, 16-bit floats, MatMulNBits of 2, 4 and 8 bits in blocks
of 16 to 256, with zero points and without, of both accuracies. bench_rows (beside OPMETER in the build) reads as many
bytes in a loop that does nothing else, then runs either engine, by turns; a figure is that of the fastest turn. Bytes
are those of the model's weights, scales and zero points. WHAT: only models whose line has this text.

  --threads 1,2      thread counts
  --time 2000        milliseconds for a model
  --mb 128           of weights, in a model and in the loop
  --write FILE.md    put machine, date and table between the marks in FILE.md
  --mark NAME        the marks are <!-- NAME: begin --> and <!-- NAME: end -->; "rows" by default

ONNX Runtime is found as `opmeter run` finds it (OPMETER_ORT_LIB). Needs numpy."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy as np

import engine
import ops_cases
from ops_cases import MS, Case, Const

DEPTH = 4096
PATIENCE_S = 120
# What engines round differently: one row of activations in 8 bits, or 16-bit floats on the way.
TOLERANCE = 2e-2
HEAD = ["weights", "threads", "GB/s of the memory", "native GB/s", "of it", "ORT GB/s", "of it", "native / ORT", ""]


def numbers(text):
    return [int(n) for n in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", metavar="OPMETER")
    parser.add_argument("what", metavar="WHAT", nargs="*")
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--time", type=int, default=2000)
    parser.add_argument("--mb", type=int, default=128)
    parser.add_argument("--write")
    parser.add_argument("--mark", default="rows")
    return parser.parse_intermixed_args()


def row(kind=np.float32):
    return ops_cases.RNG.standard_normal((1, DEPTH)).astype(kind)


def floats(kind, columns):
    """Few different numbers: nobody looks at them, and so many random ones take longer than what is measured."""
    some = ops_cases.RNG.standard_normal((1, columns)).astype(kind)
    return Const(np.repeat(some, DEPTH, axis=0))


def nbits(bits, block, zeros, level, mb):
    packed = DEPTH * bits // 8
    columns = (mb << 20) // packed // 64 * 64
    blocks = DEPTH // block
    weights = ops_cases.RNG.integers(0, 256, (columns, blocks, block * bits // 8), np.uint8)
    scales = ops_cases.RNG.uniform(.01, .02, columns * blocks).astype(np.float32)
    inputs = [row(), Const(weights), Const(scales)]
    if zeros:
        inputs.append(Const(ops_cases.RNG.integers(0, 256, columns * ((blocks * bits + 7) // 8), np.uint8)))
    label = f"{bits} bit, blocks of {block}{', zero points' if zeros else ''}{f', level {level}' if level else ''}"
    return Case("MatMulNBits", label, inputs, MS, K=DEPTH, N=columns, bits=bits, block_size=block, accuracy_level=level)


def cases(mb):
    """Functions, because all of them at once would not fit."""
    for name, kind in (("float32", np.float32), ("float16", np.float16)):
        columns = (mb << 20) // DEPTH // np.dtype(kind).itemsize
        yield name, lambda k=kind, n=columns, l=name: Case("MatMul", l, [row(k), floats(k, n)])
    for bits in (4, 8, 2):
        for block in (32, 16, 64, 128, 256) if bits == 4 else (32, 128):
            for zeros in (False, True):
                for level in (0, 4):
                    make = lambda b=bits, s=block, z=zeros, v=level: nbits(b, s, z, v, mb)  # noqa: E731
                    yield (f"{bits} bit, blocks of {block}{', zero points' if zeros else ''}"
                           f"{f', level {level}' if level else ''}"), make


def measure(tool, case, threads, folder, options):
    model = os.path.join(folder, "case.onnx")
    pathlib.Path(model).write_bytes(ops_cases.model([case]))
    command = [tool, str(threads), str(options.time), str(options.mb << 20), model]
    for name, array in ops_cases.given([case]):
        file = os.path.join(folder, f"{name}.npy")
        np.save(file, array)
        command += ["--input", f"{name}:{file}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        sys.exit((done.stderr.strip().splitlines() or [f"bench_rows ended with {done.returncode}"])[-1])
    return json.loads(done.stdout)


def cells(label, threads, result, weights, options):
    def rate(name, of):
        return of / result[name][0] if result[name][0] else 0
    memory, native, ort = rate("read", options.mb << 20), rate("native", weights), rate("onnxruntime", weights)
    return [label, str(threads), f"{memory:.1f}", f"{native:.1f}" if native else "", f"{100 * native / memory:.0f} %",
            f"{ort:.1f}" if ort else "", f"{100 * ort / memory:.0f} %" if ort else "",
            f"{ort / native:.2f}" if native and ort else "", "differs" if result["difference"] > TOLERANCE else ""]


def main():
    options = parse()
    tool = pathlib.Path(options.tool).resolve().parent / "bench" / "bench_rows"
    if not os.access(tool, os.X_OK):
        sys.exit(f"{tool}: not there; OPMETER must be that of a build with benchmarks")
    rows, version = [], None
    with tempfile.TemporaryDirectory(prefix="opmeter-bench-") as folder:
        for label, make in cases(options.mb):
            if options.what and not any(text in label for text in options.what):
                continue
            case = make()
            weights = sum(x.array.nbytes for x in case.inputs if isinstance(x, Const))
            for threads in options.threads:
                result = measure(str(tool), case, threads, folder, options)
                version = result.get("version") or version
                if result["why"]:
                    print(f"{label}: {result['why']}", file=sys.stderr)
                rows.append(cells(label, threads, result, weights, options))
                print("| " + " | ".join(rows[-1]) + " |", file=sys.stderr, flush=True)
    print(engine.aligned(HEAD, rows))
    if options.write:
        about = engine.machine(types.SimpleNamespace(
            tool=options.tool, version=version, onednn=None,
            options=types.SimpleNamespace(rounds=1, time=f"{options.time} ms")))
        engine.write(options.write, options.mark, f"{about}\n\n{engine.markdown(HEAD, rows)}")


if __name__ == "__main__":
    main()
