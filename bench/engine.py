#!/usr/bin/env python3
"""engine.py -- models on the engines side by side: latency, loading, and what metering costs.

usage: bench/engine.py OPMETER [--threads 1,2] [--rounds N] [MODEL...]

Each round runs every engine once on every model, taking turns, in processes of their own; within a run
`opmeter run` interleaves bare and metered iterations. Printed: the smallest latency of all rounds, native as
a ratio of ONNX Runtime where that is found (OPMETER_ORT_LIB), and the median over rounds of metered / bare
(medians of a run)."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MODELS = ["zoo:mlp", "zoo:lstm", "zoo:mobilenetv2", "zoo:resnet18", "zoo:bert-mini", "zoo:resnet50", "zoo:vit-tiny"]


def run(tool, model, engine, threads):
    command = [tool, "run", model, "--engine", engine, "--threads", str(threads), "-n", "400ms", "-w", "100ms",
               "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tempfile.gettempdir())
    if done.returncode != 0:
        return None, done.stderr.strip()
    return json.loads(done.stdout), ""


def ms(ns):
    return f"{ns / 1e6:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tool")
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_intermixed_args()
    options.tool = os.path.abspath(options.tool)
    engines = ["native", "onnxruntime"]
    probe, why = run(options.tool, "zoo:mlp", "onnxruntime", 1)
    if probe is None:
        print(f"without ONNX Runtime: {why}", file=sys.stderr)
        engines = ["native"]
    print(f"{'model':<18}{'threads':>8}{'native ms':>11}{'ort ms':>11}{'ratio':>7}"
          f"{'load ms':>9}{'ort':>9}{'ratio':>7}{'metered/bare':>14}{'ort':>7}{'explained':>11}")
    for model in options.models:
        for threads in (int(t) for t in options.threads.split(",")):
            seen = {engine: [] for engine in engines}
            for _ in range(options.rounds):
                for engine in engines:
                    result, why = run(options.tool, model, engine, threads)
                    if result is None:
                        print(f"{model} on {engine}: {why}", file=sys.stderr)
                    else:
                        seen[engine].append(result)
            if not seen["native"]:
                continue
            best, load, metered = {}, {}, {}
            for engine, results in seen.items():
                if results:
                    best[engine] = min(r["latency"]["bare"]["min_ns"] for r in results)
                    load[engine] = min(r["load_ns"] + r["open_ns"] for r in results)
                    metered[engine] = statistics.median(
                        r["latency"]["metered"]["median_ns"] / r["latency"]["bare"]["median_ns"] for r in results)
            ort = "onnxruntime" in best
            explained = statistics.median(r["receipt"]["explained"] for r in seen["native"])
            print(f"{model:<18}{threads:>8}{ms(best['native']):>11}"
                  f"{ms(best['onnxruntime']) if ort else '-':>11}"
                  f"{best['native'] / best['onnxruntime'] if ort else float('nan'):>7.2f}"
                  f"{ms(load['native']):>9}{ms(load['onnxruntime']) if ort else '-':>9}"
                  f"{load['native'] / load['onnxruntime'] if ort else float('nan'):>7.2f}"
                  f"{metered['native']:>14.3f}{metered['onnxruntime'] if ort else float('nan'):>7.2f}"
                  f"{100 * explained:>10.1f}%", flush=True)


if __name__ == "__main__":
    main()
