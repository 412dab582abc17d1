#!/usr/bin/env python3
"""engine.py -- models on the native engine and on ONNX Runtime side by side.

usage: bench/engine.py OPMETER [OPTION]... [MODEL]...

A MODEL is zoo:NAME or a file, with options of `opmeter run` behind it in the same word where it needs them:
"vad.onnx --input input:{1,512} --input sr:16000". Without any, the zoo's are measured. Each round runs every
engine once, taking turns, each time alone in a process of its own that records nothing (bench_bare, beside OPMETER
in the build): ONNX Runtime has one session there, not a profiled one beside it. A figure is the smallest of all
rounds, medians are the median of the best round. Loading is from the file to the end of the first preparation.
Memory is that of a short run of its own: the most that was resident, and how much of it was anonymous (not the
mapped model file), sampled. What metering costs is from one `opmeter run`.

  --threads 1,2      thread counts
  --batch 1,8        batch sizes; models with a fixed one are measured as they are
  --rounds 3         rounds
  --time 400ms       iterations in a round: a count or a time, as for `opmeter run -n`
  --short            latency only: no load, no memory, no cost of metering
  --layers MODEL     also compare convolutions and matrix products one by one; may be repeated
  --no-models        no table of models
  --sparse           also bench_sparse's table of block-sparse products
  --write FILE.md    put machine, date and tables between the marks in FILE.md
  --mark NAME        the marks are <!-- NAME: begin --> and <!-- NAME: end -->; "measured" by default

ONNX Runtime is found as `opmeter run` finds it (OPMETER_ORT_LIB); without it, its columns are empty. oneDNN's column
of --layers is filled where the build found oneDNN 2 (Debian: libdnnl-dev)."""
import argparse
import collections
import csv
import datetime
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time

MODELS = ["zoo:mlp", "zoo:lstm", "zoo:mobilenetv2", "zoo:resnet18", "zoo:resnet50", "zoo:bert-mini", "zoo:vit-tiny",
          "zoo:bert-base", "zoo:gpt2-small"]
ENGINES = ["native", "onnxruntime"]


class Failed(Exception):
    pass


class Bench:
    def __init__(self, options):
        self.tool = os.path.abspath(options.tool)
        programs = pathlib.Path(self.tool).parent / "bench"
        self.bare_tool, self.onednn_tool = str(programs / "bench_bare"), str(programs / "bench_onednn")
        if not os.access(self.bare_tool, os.X_OK):
            sys.exit(f"{self.bare_tool}: not there; OPMETER must be that of a build with benchmarks")
        self.options = options
        self.folder = tempfile.TemporaryDirectory(prefix="opmeter-bench-")
        self.engines = ENGINES
        self.version = self.onednn = None

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run(self, model, engine, threads):
        """A metered run; its summary."""
        command = [self.tool, "run", *model, "--engine", engine, "--threads", str(threads), "-n", self.options.time,
                   "-w", "100ms", "-o", self.path("out"), "--json", "-q"]
        return json.loads(self.output(command))

    def bare_command(self, model, engine, threads, amount, warmup):
        return [self.bare_tool, engine, str(threads), amount, warmup, *model]

    def bare(self, model, engine, threads, amount=None, warmup="100ms"):
        """One process with nothing recorded; what it measured."""
        return json.loads(self.output(self.bare_command(model, engine, threads, amount or self.options.time, warmup)))

    def output(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=self.folder.name)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return done.stdout

    def memory(self, model, engine, threads):
        """Peaks of a short run in MB: resident, and anonymous."""
        process = subprocess.Popen(self.bare_command(model, engine, threads, "2", "1"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, cwd=self.folder.name)
        anonymous = 0

        def watch():
            nonlocal anonymous
            while process.returncode is None:
                try:
                    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                except OSError:
                    return
                for line in status.splitlines():
                    if line.startswith("RssAnon:"):
                        anonymous = max(anonymous, int(line.split()[1]))
                time.sleep(0.002)

        thread = threading.Thread(target=watch)
        thread.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        thread.join()
        if status:
            raise Failed(f"{engine} failed while memory was watched")
        return usage.ru_maxrss / 1024, anonymous / 1024

    def words(self, model, batch):
        """What `opmeter run` is given for a model: a file, so that both engines load it the same way."""
        first, *rest = shlex.split(model)
        if not first.startswith("zoo:"):
            return [os.path.abspath(first), *rest] + (["--batch-size", str(batch)] if batch > 1 else [])
        name = first[4:]
        if batch > 1:
            name += ("&" if "?" in name else "?") + f"batch={batch}"
        file = self.path("model.onnx")
        done = subprocess.run([self.tool, "zoo", name, "-o", file, "-q"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return [file, *rest]


def best(results, engine):
    """What one engine reached over all rounds."""
    loads = [r["open_ns"] + r["prepare_ns"] + (r["load_ns"] if engine == "native" else 0) for r in results]
    return {
        "min": min(r["min_ns"] for r in results) / 1e6,
        "median": min(r["median_ns"] for r in results) / 1e6,
        "load": min(loads) / 1e6,
    }


def number(x):
    if x is None:
        return ""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}" if x >= 1 else f"{x:.3f}"


def pair(have, key):
    """Native, ONNX Runtime, and their ratio, as cells."""
    a, b = (have.get(e, {}).get(key) for e in ENGINES)
    return [number(a), number(b), f"{a / b:.2f}" if a and b else ""]


HEAD = ["model", "batch", "threads", "min ms", "ORT", "ratio", "median ms", "ORT", "ratio", "load ms", "ORT", "ratio",
        "peak MB", "ORT", "ratio", "anonymous MB", "ORT", "ratio", "metered/bare", "ORT"]
SHORT = ("min", "median")
SHORT_COLUMNS = 9


def measure(bench, model, batch, threads):
    words = bench.words(model, batch)
    results = collections.defaultdict(list)
    have = {}
    for _ in range(bench.options.rounds):
        for engine in bench.engines:
            results[engine].append(bench.bare(words, engine, threads))
    for engine, list_ in results.items():
        have[engine] = best(list_, engine)
        if not bench.options.short:
            have[engine]["resident"], have[engine]["anonymous"] = bench.memory(words, engine, threads)
            latency = bench.run(words, engine, threads)["latency"]
            have[engine]["metered"] = latency["metered"]["median_ns"] / latency["bare"]["median_ns"]
    cells = [shlex.split(model)[0].split("/")[-1], str(batch), str(threads)]
    for key in SHORT if bench.options.short else ("min", "median", "load", "resident", "anonymous"):
        cells += pair(have, key)
    if bench.options.short:
        return cells
    return cells + [f"{have[e]['metered']:.2f}" if e in have else "" for e in ENGINES]


def profile(bench, words, engine, threads):
    """Rows of operators.csv, the measured peak in GFLOP/s, and attributes of operators by name."""
    summary = bench.run(words, engine, threads)
    with open(os.path.join(bench.path("out"), "operators.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    told = json.loads(bench.output([bench.tool, "query", "--json", os.path.join(bench.path("out"), "trace.opm"),
                                    "SELECT name, attributes FROM op WHERE attributes IS NOT NULL"]))
    attributes = {row["name"]: json.loads(row["attributes"]) for row in told}
    return rows, summary["peak"]["gflops_per_s"], attributes


def dims(text):
    return [int(d) for d in text.split(";")[0].split("x")]


def onednn_case(row, attributes):
    """What bench_onednn is asked for an operator, or None."""
    inputs, weights, outputs = (dims(row[k]) for k in ("input_shapes", "weight_shapes", "output_shapes"))
    if row["type"] == "Conv" and len(inputs) == 4 and max(attributes.get("dilations", [1])) == 1:
        step, pads = attributes.get("strides", [1, 1]), attributes.get("pads", [0, 0, 0, 0])
        words = ["conv", attributes.get("group", 1), *inputs, weights[0], *weights[2:], *step, *pads, *outputs[2:]]
    elif row["type"] in ("MatMul", "Gemm") and len(weights) == 2:
        rows = 1
        for d in outputs[:-1]:
            rows *= d
        words = ["matmul", rows, outputs[-1], inputs[-1]]
    else:
        return None
    return " ".join(map(str, words))


def onednn(bench, cases):
    """Fastest time of each case in ns by case; nothing without the program."""
    asked = sorted({case for case in cases if case})
    if not asked or not os.access(bench.onednn_tool, os.X_OK):
        return {}
    best_ns = {}
    for _ in range(bench.options.rounds):
        done = subprocess.run([bench.onednn_tool], input="\n".join(asked) + "\n", capture_output=True, text=True,
                              timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        bench.onednn, *times = done.stdout.split("\n")[:-1]
        for case, ns in zip(asked, times):
            best_ns[case] = min(float(ns), best_ns.get(case, float("inf")))
    return best_ns


def is_product(row):
    return any(kind in row["type"] for kind in ("Conv", "MatMul", "Gemm")) and float(row["flops"] or 0) > 0


def layers(bench, model, threads):
    """Convolutions and products of equal shapes, both engines and oneDNN: rows of cells."""
    words = bench.words(model, 1)
    quickest, peak, attributes = {}, 0, {}
    for _ in range(bench.options.rounds):
        for engine in bench.engines:
            rows, one, told = profile(bench, words, engine, threads)
            peak = max(peak, one)
            if engine == "native":
                attributes = told
            for row in rows:
                if is_product(row):
                    for node in json.loads(row["nodes"] or "[]"):
                        old = quickest.setdefault(engine, {}).get(node)
                        if old is None or float(row["min_ns"]) < float(old["min_ns"]):
                            quickest[engine][node] = row
    groups = collections.OrderedDict()
    for node, row in quickest.get("native", {}).items():
        if json.loads(row["nodes"])[0] != node:
            continue
        key = (row["type"], row["input_shapes"].split(";")[0], row["weight_shapes"].split(";")[0],
               row["output_shapes"].split(";")[0], onednn_case(row, attributes.get(row["name"], {})))
        other = quickest.get("onnxruntime", {}).get(node)
        groups.setdefault(key, []).append((float(row["min_ns"]), float(other["min_ns"]) if other else None,
                                           float(row["flops"])))
    third = onednn(bench, [key[4] for key in groups])
    table = []
    for (kind, inputs, weights, outputs, case), seen in groups.items():
        flops = seen[0][2]
        cells = [kind, f"{inputs} * {weights} → {outputs}", str(len(seen)), number(flops / 1e6)]
        for i in range(2):
            times = [s[i] for s in seen if s[i]]
            ns = statistics.median(times) if times else None
            cells += [number(ns / 1e3), f"{flops / ns:.1f}", f"{100 * flops / ns / peak:.0f} %"] if ns else [""] * 3
        ns = third.get(case)
        table.append(cells + ([number(ns / 1e3), f"{flops / ns:.1f}"] if ns else ["", ""]))
    table.sort(key=lambda c: -float(c[2]) * float(c[3]))
    return table, peak


LAYER_HEAD = ["type", "shapes", "count", "MFLOP", "µs", "GFLOP/s", "of peak", "ORT µs", "GFLOP/s", "of peak",
              "oneDNN µs", "GFLOP/s"]


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join("---" if i < 1 else "---:" for i in range(len(head))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def aligned(head, rows):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths))) for row in [head, *rows])


def machine(bench):
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    version = subprocess.run([bench.tool, "--version"], capture_output=True, text=True).stdout.strip()
    ort = f"ONNX Runtime {bench.version}" if bench.version else "without ONNX Runtime"
    third = f", {bench.onednn}" if bench.onednn else ""
    return (f"{datetime.date.today().isoformat()}, {model}, {os.cpu_count()} cores, Linux {platform.release()}, "
            f"{version}, {ort}{third}; {bench.options.rounds} rounds of {bench.options.time}.")


def write(path, mark, text):
    file = pathlib.Path(path)
    old = file.read_text()
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    if begin not in old or end not in old:
        sys.exit(f"{path}: there is no '{begin}' ... '{end}' to write between")
    file.write_text(old[:old.index(begin) + len(begin)] + "\n\n" + text + "\n" + old[old.index(end):])


def parse():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        sys.exit(0)
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1].split("\n", 1)[0], add_help=False)
    parser.add_argument("tool")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batch", default="1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", default="400ms")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--layers", action="append", default=[])
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--write")
    parser.add_argument("--mark", default="measured")
    return parser.parse_intermixed_args()


def all_models(bench):
    """Print the table of models; it as Markdown."""
    options = bench.options
    head = HEAD[:SHORT_COLUMNS] if options.short else HEAD
    rows = []
    for model in options.models or MODELS:
        for batch in (int(b) for b in options.batch.split(",")):
            for threads in (int(t) for t in options.threads.split(",")):
                try:
                    rows.append(measure(bench, model, batch, threads))
                    print(" ".join(rows[-1]), file=sys.stderr, flush=True)
                except Failed as why:
                    print(f"{model}, batch {batch}, {threads} threads: {why}", file=sys.stderr)
    print(aligned(head, rows))
    return markdown(head, rows)


def main():
    options = parse()
    bench = Bench(options)
    try:
        bench.version = bench.bare(["zoo:mlp"], "onnxruntime", 1, "1", "0")["version"]
    except Failed as why:
        print(f"without ONNX Runtime: {why}", file=sys.stderr)
        bench.engines = ["native"]
    text = "" if options.no_models else all_models(bench)
    for model in options.layers:
        table, peak = layers(bench, model, 1)
        title = f"{model}, 1 thread, peak {peak:.1f} GFLOP/s"
        print(f"\n{title}\n{aligned(LAYER_HEAD, table)}")
        text += f"\n### {title}\n\n{markdown(LAYER_HEAD, table)}"
    if options.sparse:
        table = bench.output([str(pathlib.Path(bench.bare_tool).with_name("bench_sparse")), "--markdown"])
        print(f"\n{table}")
        text += table
    text = machine(bench) + "\n\n" + text
    if options.write:
        write(options.write, options.mark, text)


if __name__ == "__main__":
    main()
