#!/usr/bin/env python3
"""reading.py -- two builds beside each other: import of JSON, first answers from ten million spans, spans from C and Python.

usage: bench/reading.py BEFORE AFTER [OPTION]...

BEFORE and AFTER are build folders with the command, the benches and the Python package. Both take turns, every answer and every
import is a process of its own, its files are in the page cache; a figure is the best of all rounds (of spans from C, what
bench_record says, the best of two runs).

  --rounds 7         rounds
  --trace FILE       the JSON whose events are repeated (default: that of bench_import, a Kineto capture in ../shared)
  --mb 1000          megabytes of JSON
  --folder DIR       where a few gigabytes can be written (default: a temporary folder)
  --write FILE.md    put machine, date and table between the marks <!-- reading: begin --> and <!-- reading: end --> in FILE.md"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types

import engine

HEAD = ["", "before", "after", "after / before"]
ANSWERS = {"count": ["query", "--csv", "{}", "SELECT count(*) FROM span"],
           "op_stats": ["query", "--csv", "{}", "SELECT * FROM op_stats"],
           "top": ["top", "{}"],
           "GROUP BY name": ["query", "--csv", "{}", "SELECT name, count(*), sum(dur) FROM span GROUP BY name"]}
LOWER = min
HIGHER = max


def parse():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        sys.exit(0)
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1].split("\n", 1)[0], add_help=False)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--trace")
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--folder")
    parser.add_argument("--write")
    return parser.parse_args()


def output(command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def seconds(command):
    start = time.perf_counter()
    output(command)
    return time.perf_counter() - start


class Table:
    """The best figures of both sides, by what was measured."""

    def __init__(self, builds):
        self.builds, self.rows = builds, {}

    def take(self, what, unit, best, side, value):
        row = self.rows.setdefault(what, (unit, best, [None, None]))[2]
        row[side] = value if row[side] is None else best(row[side], value)

    def turns(self, rounds, measure):
        """measure(side, build) in turns, the other one first in every other round."""
        for i in range(rounds):
            for side in ((0, 1) if i % 2 else (1, 0)):
                measure(side, self.builds[side])

    def cells(self):
        for what, (unit, _, (before, after)) in self.rows.items():
            if before is not None and after is not None:
                digits = 3 if before < 10 else 1 if before < 100 else 0
                yield [what, f"{before:.{digits}f} {unit}", f"{after:.{digits}f} {unit}", f"{after / before:.2f}"]


def imports(table, options, folder):
    made = folder / "trace.json"
    output([table.builds[1] / "bench" / "bench_import", "-n", "-k", "-s", options.mb, "-f", made,
            *([options.trace] if options.trace else [])])
    output(["gzip", "-1", "-k", "-f", made])
    for path, what in ((made, "JSON"), (folder / "trace.json.gz", "JSON in gzip, MB unpacked")):
        def measure(side, build):
            text = output([build / "bench" / "bench_import", "-n", "-k", "-f", path])
            for cores, took in re.findall(r"opmeter, (1 core|all cores) .*?([0-9.]+) s  cpu", text):
                table.take(f"import of {what}, {cores}", "MB/s", HIGHER, side, made.stat().st_size / 1e6 / float(took))
        table.turns(max(1, options.rounds // 3), measure)
    made.unlink()
    (folder / "trace.json.gz").unlink()


def answers(table, options, folder):
    recorded, tables = folder / "recorded.opm", folder / "tables.opm"
    output([table.builds[1] / "bench" / "bench_record", "--keep", recorded])
    output([table.builds[0] / "opmeter", "import", recorded, "-o", tables])
    for path, kind in ((recorded, "as recorded"), (tables, "file of tables")):
        for what, words in ANSWERS.items():
            table.turns(options.rounds, lambda side, build: table.take(
                f"{what}, 10 M spans, {kind}", "s", LOWER, side,
                seconds([build / "opmeter", *(word.format(path) for word in words)])))
        table.turns(2, lambda side, build: table.take(
            f"open (library), 10 M spans, {kind}", "s", LOWER, side,
            float(re.search(r"opened in ([0-9.]+) s", output([build / "bench" / "bench_tables", path]))[1])))
        path.unlink()


def spans(table, folder):
    def record(side, build):
        text = output([build / "bench" / "bench_record", folder])
        for what in ("recording", "off"):
            found = re.search(rf"opmeter span, {what} +([0-9.]+) ns +[0-9.]+ +([0-9.]+) ns", text)
            for threads in (1, 2):
                table.take(f"span from C, {what}, {threads} threads"[:-1 if threads == 1 else None], "ns", LOWER, side,
                           float(found[threads]))

    def python(side, build):
        text = output([sys.executable, pathlib.Path(__file__).with_name("python_span.py"), "--build", build, "--json"])
        for what in ("off", "on"):
            table.take(f"span from Python, {what}", "ns", LOWER, side,
                       json.loads(text)[f"{what}_ns"]['with opmeter.span("x")'])

    table.turns(2, record)
    table.turns(2, python)


def main():
    options = parse()
    table = Table([options.before, options.after])
    with tempfile.TemporaryDirectory(prefix="opmeter-bench-", dir=options.folder) as folder:
        imports(table, options, pathlib.Path(folder))
        answers(table, options, pathlib.Path(folder))
        spans(table, pathlib.Path(folder))
    rows = list(table.cells())
    print(engine.aligned(HEAD, rows))
    if options.write:
        about = engine.machine(types.SimpleNamespace(
            tool=options.after / "opmeter", version=None, onednn=None,
            options=types.SimpleNamespace(rounds=options.rounds, time="every answer")))
        engine.write(options.write, "reading", f"{about.replace(', without ONNX Runtime', '')}\n\n{engine.markdown(HEAD, rows)}")


if __name__ == "__main__":
    main()
