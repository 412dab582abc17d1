#!/usr/bin/env python3
"""decode.py -- decoders that make tokens, on the native engine and on ONNX Runtime side by side.

usage: bench/decode.py OPMETER [OPTION]... [MODEL]...

A MODEL is zoo:NAME or a file. Each is written once; in every round both engines make a text of it, taking turns, each
alone in a process of its own. Figures are of bare texts, of which nothing is recorded: the median time between tokens
of the best round, and the ratio of these, native / ONNX Runtime, below 1 where the native engine is faster. "Of
bandwidth" is the native engine's bytes a token (`opmeter llm`: weights once, what is cached) by the least time between
tokens, against what the machine's memory was measured to give; above 1 where caches hold them. Tokens must be the same; where they differ for
zoo:llama-tiny, the first that does is computed in doubles (tests/oracle/decoders.py, needs numpy): whose it is, and by
how much its logit leads that of the other.

  --threads 1,2           thread counts
  --contexts 32,512,2048  tokens that are cached when the first token that counts is made
  --tokens 16             tokens that count
  --rounds 3              rounds
  --under COMMAND         what each run is started by, such as "chrt -f 10"
  --under-one COMMAND     the same of runs with one thread, such as "chrt -f 10 taskset -c 1"
  --write FILE.md         put machine, date and the table between the marks in FILE.md
  --mark NAME             the marks are <!-- NAME: begin --> and <!-- NAME: end -->; "decode" by default

ONNX Runtime is found as `opmeter run` finds it (OPMETER_ORT_LIB); without it, its columns are empty."""
import argparse
import datetime
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
SMALL_VOCABULARY = 256  # every model that is measured has more
MODELS = ["zoo:llama-tiny", "zoo:llama-tiny?dtype=fp16", "zoo:llama-tiny?quant=int4",
          "zoo:gpt2-small?cache=1&positions=2304", "zoo:whisper-tiny", "zoo:llama-1b?quant=int4"]
ENGINES = ["native", "onnxruntime"]
BANDWIDTH = ("SELECT bytes_per_token, (SELECT max(CAST(value AS REAL)) FROM meta WHERE key = "
             "'machine.peak_gbytes_per_s') AS peak FROM llm_roofs WHERE phase = 'decode'")


class Failed(Exception):
    pass


class Bench:
    def __init__(self, options):
        self.options = options
        self.tool = os.path.abspath(options.tool)
        self.folder = tempfile.TemporaryDirectory(prefix="opmeter-bench-")
        self.at = Path(self.folder.name)
        self.versions = {}

    def call(self, *args, under=()):
        done = subprocess.run([*under, self.tool, *map(str, args)], capture_output=True, text=True, cwd=self.at, timeout=900)
        if done.returncode:
            raise Failed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
        return done.stdout

    def file(self, model):
        if not model.startswith("zoo:"):
            return os.path.abspath(model)
        # What has an encoder is a folder.
        path = self.at / (re.sub(r"\W+", "_", model) + ("" if model.startswith("zoo:whisper") else ".onnx"))
        if not path.exists():
            self.call("zoo", model, "-o", path)
        return path

    @staticmethod
    def prompt(context):
        source = random.Random(context)
        return [source.randrange(SMALL_VOCABULARY) for _ in range(context)]

    def why(self, model, path, context, said):
        """Of the first token that differs: whose is the one that doubles give."""
        if not model.startswith("zoo:llama-tiny"):
            return ""
        sys.path += [str(TESTS / "oracle"), str(TESTS / "tools")]
        import decoders  # pylint: disable=import-outside-toplevel
        import numpy  # pylint: disable=import-outside-toplevel
        from onnx_weights import weights  # pylint: disable=import-outside-toplevel
        made = [[int(n) for n in said[e].split()] for e in ENGINES]
        at = next(i for i, (a, b) in enumerate(zip(*made)) if a != b)
        truth = decoders.Llama(weights(path), heads=8, kv_heads=2)
        logits = truth.logits(numpy.array(self.prompt(context) + made[0][:at]))
        best = int(logits.argmax())
        other = [tokens[at] for tokens in made if tokens[at] != best]
        whose = [e for e, tokens in zip(ENGINES, made) if tokens[at] == best] or ["neither"]
        return (f" at token {at + 1}: in doubles {best} leads {', '.join(map(str, other))} by "
                f"{min(logits[best] - logits[o] for o in other):.2g}, as {whose[0]} has it")

    def text(self, path, engine, threads, context):
        """Median and least time between tokens in ms, the tokens, and bytes a token and GB/s of the memory."""
        tokens, prompt = self.at / "tokens", self.at / "prompt"
        prompt.write_text(" ".join(map(str, self.prompt(context))))
        tokens.unlink(missing_ok=True)
        summary = json.loads(self.call(
            "run", path, "--engine", engine, "--threads", threads, "--generate", self.options.tokens + 1,
            "--prompt-ids", prompt, "-n", 1, "-w", 0, "--save-tokens", tokens, "-o", self.at / "out", "--json", "-q",
            under=self.options.under_one if threads == 1 else self.options.under))
        self.versions[engine] = summary.get("engine_version")
        itl = summary["generated"]["bare"]["itl"]
        rows = json.loads(self.call("query", "--json", self.at / "out/trace.opm", BANDWIDTH))
        return itl["median_ns"] / 1e6, itl["min_ns"] / 1e6, tokens.read_text(), rows[0] if rows else None

    def row(self, model, threads, context):
        """One line of the table."""
        path, best, said, work, failed = self.file(model), {}, {}, None, {}
        for turn in range(self.options.rounds):
            for engine in ENGINES if turn % 2 == 0 else ENGINES[::-1]:
                if engine in failed:
                    continue
                try:
                    median, least, tokens, rows = self.text(path, engine, threads, context)
                except (Failed, subprocess.TimeoutExpired) as error:
                    failed[engine] = str(error)
                    print(f"{model} on {engine}: {error}", file=sys.stderr)
                    continue
                said[engine] = tokens
                old = best.get(engine, (median, least))
                best[engine] = (min(median, old[0]), min(least, old[1]))
                work = rows if engine == "native" else work
        native, ort = (best.get(e, (None, None)) for e in ENGINES)
        cells = [model if model.startswith("zoo:") else Path(model).name, str(context), str(threads)]
        for pair in zip(native, ort):
            cells += [f"{pair[0]:.3g}" if pair[0] else "", f"{pair[1]:.3g}" if pair[1] else "",
                      f"{pair[0] / pair[1]:.2f}" if pair[0] and pair[1] else ""]
        same = "" if len(said) < 2 else "same" if len(set(said.values())) == 1 else (
            "DIFFER" + self.why(model, path, context, said))
        if work and native[1]:
            gbytes = work["bytes_per_token"] / native[1] / 1e6
            cells += [f"{work['bytes_per_token'] / 1e6:.4g}", f"{gbytes / work['peak']:.2f}" if work["peak"] else ""]
        else:
            cells += ["", ""]
        return cells + [same]

    def table(self):
        head = ["model", "context", "threads", "median ms", "ORT", "ratio", "min ms", "ORT", "ratio", "MB/token",
                "of bandwidth", "tokens"]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for model in self.options.models or MODELS:
            for context in self.options.contexts:
                for threads in self.options.threads:
                    cells = self.row(model, threads, context)
                    if not any(cells[3:]):  # a context that the model has no room for
                        continue
                    lines.append("| " + " | ".join(cells) + " |")
                    print(lines[-1], file=sys.stderr, flush=True)
        return "\n".join(lines)

    def machine(self):
        cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                   platform.machine())
        load = os.getloadavg()[0]
        ort = self.versions.get("onnxruntime")
        return (f"{datetime.date.today()}, {cpu}, {os.cpu_count()} cores, load {load:.0f} at the end, "
                f"{'ONNX Runtime ' + ort if ort else 'no ONNX Runtime'}; {self.options.rounds} rounds of "
                f"{self.options.tokens} tokens.")


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", metavar="OPMETER")
    parser.add_argument("models", metavar="MODEL", nargs="*")
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--contexts", type=numbers, default=[32, 512, 2048])
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--under", type=str.split, default=[])
    parser.add_argument("--under-one", type=str.split)
    parser.add_argument("--write")
    parser.add_argument("--mark", default="decode")
    options = parser.parse_intermixed_args()
    options.under_one = options.under if options.under_one is None else options.under_one
    bench = Bench(options)
    table = bench.table()
    text = f"{bench.machine()}\n\n{table}\n"
    print(text)
    if bench.options.write:
        path = Path(bench.options.write)
        begin, end = (f"<!-- {bench.options.mark}: {word} -->" for word in ("begin", "end"))
        before, _, rest = path.read_text().partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            sys.exit(f"{path}: no marks '{begin}' and '{end}'")
        path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")


if __name__ == "__main__":
    main()
