#!/usr/bin/env python3
"""quant.py -- quantised layers in the forms that exporters write, on the native engine and on ONNX Runtime, slowest beside it first.

usage: bench/quant.py OPMETER [OPTION]... [WHAT]...

Each model of bench/quant_forms.py is two convolutions of 64 channels, 28 x 28, with something between them, or a product of
128 x 256 x 256. bench_pair (beside OPMETER in the build) runs both engines on it in one process, taking turns, with one
thread each and the same inputs; a figure is the fastest batch in processor time. Outputs are compared, too: what
differs by more than two steps of 8 bits, or floats by 2 %, is marked. WHAT: only forms whose line has this text.

  --draws 1          forms of each opset, format and thing between
  --seed 1           of what is drawn
  --rounds 3         rounds
  --time 20          milliseconds that an engine runs in a round
  --above 0.9        of the table, only rows from this ratio on; 0, the default, for all
  --keep DIR         keep the models there
  --write FILE.md    put machine, date and a table of what stands between convolutions, and of products, between the
                     marks <!-- quantised: begin --> and <!-- quantised: end --> in FILE.md

ONNX Runtime is found as `opmeter run` finds it (OPMETER_ORT_LIB). Needs numpy."""
import argparse
import pathlib
import sys
import tempfile
import types

import numpy as np

import engine
import ops
import quant_forms

STEPS, TOLERANCE = 2, .02
SUMMARY = ["between two convolutions, or product", "forms", "geometric mean", "least", "most"]


def parse():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        sys.exit(0)
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1].split("\n", 1)[0], add_help=False)
    parser.add_argument("tool")
    parser.add_argument("what", nargs="*")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", type=int, default=20)
    parser.add_argument("--above", type=float, default=0)
    parser.add_argument("--keep")
    parser.add_argument("--write")
    return parser.parse_intermixed_args()


def mean(ratios):
    return np.exp(np.mean(np.log(ratios)))


def summary(measured):
    """A row for what stands between, or which product it is."""
    kinds = {}
    for ratio, cells in measured:
        kinds.setdefault(cells[1], []).append(ratio)
    order = sorted(kinds.items(), key=lambda k: -mean(k[1]))
    return [[what, str(len(r)), f"{mean(r):.2f}", f"{min(r):.2f}", f"{max(r):.2f}"] for what, r in order]


def main():
    options = parse()
    tool = ops.pair_tool(options.tool)
    measured, version = [], None
    with tempfile.TemporaryDirectory(prefix="opmeter-bench-") as folder:
        for at, form in enumerate(quant_forms.forms(options.draws, options.seed)):
            model, given = form.model()
            label = f"{form.what}: {form.label()}"
            if options.what and not any(text in label for text in options.what):
                continue
            if options.keep:
                pathlib.Path(options.keep, f"{at}.onnx").write_bytes(model)
            result = ops.pair(tool, model, given, folder, options)
            version = result.get("version") or version
            if result["why"]:
                print(f"not compared: {at} {label}: {result['why']}", file=sys.stderr)
                continue
            ratio = result["native"] / result["onnxruntime"]
            near = result["apart"] <= STEPS if form.ends else result["difference"] <= TOLERANCE
            note = "" if near and result["difference"] >= 0 else f"differs by {result['apart']:.2g}"
            measured.append((ratio, [str(at), form.what, form.label(), ops.microseconds(result["native"]),
                                     ops.microseconds(result["onnxruntime"]), f"{ratio:.2f}", note]))
    measured.sort(key=lambda m: -m[0])
    rows = [cells for ratio, cells in measured if ratio >= options.above]
    print(engine.aligned(["", "form", "", "µs", "ORT", "ratio", ""], rows))
    ratios = [ratio for ratio, _ in measured]
    total = f"{len(ratios)} forms: geometric mean {mean(ratios):.2f}, {sum(r > .9 for r in ratios)} above 0.9." if ratios else ""
    print(total)
    if options.write:
        about = engine.machine(types.SimpleNamespace(
            tool=options.tool, version=version, onednn=None,
            options=types.SimpleNamespace(rounds=options.rounds, time=f"{options.time} ms")))
        engine.write(options.write, "quantised", f"{about} {total}\n\n{engine.markdown(SUMMARY, summary(measured))}")


if __name__ == "__main__":
    main()
