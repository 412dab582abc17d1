#!/usr/bin/env python3
"""parquet.py -- Parquet between opmeter and others, with packages from npm: DuckDB and hyparquet read what opmeter
writes, Arrow its Arrow files; opmeter reads what DuckDB, hyparquet-writer and arrow-rs (parquet-wasm) write of the same tables.

usage: tests/npm/parquet.py --opmeter FILE --build FOLDER

The packages, about 110 MB unpacked, are fetched into FOLDER/npm-parquet once; without npm, Node or the network every test
is skipped. Prints TAP."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

PACKAGES = ["@duckdb/node-api@1.5.6-r.1", "hyparquet@1.31.5", "hyparquet-compressors@1.1.2", "hyparquet-writer@0.17.0",
            "parquet-wasm@0.8.0", "apache-arrow@21.2.0"]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "bench"))
from fleet_job import Job  # noqa: E402
TABLES = ["span", "op", "track", "sample", "flow", "meta"]
READERS = ["DuckDB", "hyparquet", "Apache Arrow"]
WRITERS = ["duckdb-snappy", "duckdb-gzip", "duckdb-lz4", "duckdb-plain", "duckdb-v2", "duckdb-types", "duckdb-hive",
           "hyparquet", "arrow-v1", "arrow-v2"]


def fetch(folder):
    """None, or why there are no packages."""
    if not shutil.which("npm") or not shutil.which("node"):
        return "npm is not installed"
    if all((folder / "node_modules" / p.rsplit("@", 1)[0]).is_dir() for p in PACKAGES):
        return usable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text("{}")
    try:
        done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES],
                              cwd=folder, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return "npm did not answer in time"
    return "npm could not fetch the packages" if done.returncode != 0 else usable(folder)


def usable(folder):
    """None, or why this machine's Node can't use the packages."""
    done = subprocess.run(["node", "-e", "Promise.all(['@duckdb/node-api', 'parquet-wasm/node'].map((p) => import(p)))"],
                          cwd=folder, capture_output=True, text=True, timeout=100)
    return None if done.returncode == 0 else "this machine's Node cannot load the packages"


def trace(path):
    """Spans inside each other, counters, arrows, and texts and numbers that others may get wrong."""
    events, names = [], ["conv", "naïve ✓ 𝔘", "x" * 300, "a\tb\nc", "q\"'`", "-", "NULL", "1"]
    for i in range(6000):
        args = {"args": {"i": i, "big": 2**62 + i}} if i % 7 == 0 else {}
        events.append({"ph": "X", "pid": 1, "tid": 1 + i % 3, "ts": 10 * i, "dur": 8, "name": f"step {i // 9}", "cat": "a"})
        events.append({"ph": "X", "pid": 1, "tid": 1 + i % 3, "ts": 10 * i + 1.001, "dur": 2.5,
                       "name": names[i * i % len(names)], "cat": "b", **args})
        events.append({"ph": "C", "pid": 1, "ts": 10 * i, "name": "load", "args": {"v": i / 8 - 100}})
        if i % 50 == 0:
            events.append({"ph": "s", "pid": 1, "tid": 1 + i % 3, "ts": 10 * i + 2, "id": i, "name": "f", "cat": "f"})
            events.append({"ph": "f", "bp": "e", "pid": 1, "tid": 1 + (i + 1) % 3, "ts": 10 * i + 12, "id": i, "name": "f", "cat": "f"})
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))


def run(*command, **how):
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, timeout=300, **how).stdout


def rows(opmeter, source, table):
    """As texts; NULL is None. Columns that a round trip changes for good reason are left out."""
    out = [{k: v for k, v in row.items() if not (table == "track" and k == "source")}
           for row in json.loads(run(opmeter, "query", "--json", source, f"SELECT * FROM {table}"))]
    return [r for r in out if not (table == "meta" and r["key"] == "job")]


def difference(ours, theirs):
    if len(ours) != len(theirs):
        return f"{len(theirs)} rows, and {len(ours)} were written"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        for key in a:
            if key not in b or a[key] != b[key]:
                return f"row {i}: {key} is {b.get(key)!r}, and {a[key]!r} was written"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    opmeter = pathlib.Path(args.opmeter).resolve()
    packages = args.build.resolve() / "npm-parquet"
    why = fetch(packages)
    tests = [f"{reader} reads {t}" for reader in READERS for t in TABLES if t != "op"] + \
            ["DuckDB: questions of docs/tables.md", "DuckDB reads the statistics"] + \
            [f"{reader} reads ranks of a catalogue" for reader in READERS[:2]] + \
            [f"opmeter reads {w}" for w in WRITERS]
    print(f"1..{len(tests)}")
    failed = 0
    with tempfile.TemporaryDirectory() as temp:
        place = pathlib.Path(temp)
        outcome = {}
        if not why:
            try:
                outcome = ask(opmeter, packages, place)
            except subprocess.CalledProcessError as error:
                outcome = {t: (error.stderr or error.stdout).strip()[-600:].replace("\n", "\n# ") for t in tests}
        for number, test in enumerate(tests, 1):
            wrong = None if why else outcome.get(test, "no answer")
            failed += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {number} - {test}" + (f" # SKIP {why}" if why else "") +
                  (f"\n# {wrong}" if wrong else ""))
    return 1 if failed else 0


def plain(rows_of_table):
    """In one order, with what every reader calls alike."""
    real = ("peak_bytes", "last_bytes", "gain")
    return sorted(repr(sorted((k, repr(float(v)) if k in real and v is not None else None if v is None else str(v))
                              for k, v in row.items() if k != "batch")) for row in rows_of_table)


def ranks(opmeter, packages, place):
    """Ranks of two jobs, one recording added later, with names that folders cannot have."""
    job = Job(ranks=3, steps=8, layers=2, leak=1).write(place / "job")
    later = Job(ranks=3, steps=4, layers=2, first_step=100, seed=7).write(place / "later")
    for name, paths in (("a/b 'c' ü", [*job, *later[:2]]), ("8211", job[:2])):
        run(opmeter, "add", "-q", *paths, "--to", place / "runs.db", "--job", name, "--spans")
    run(opmeter, "export", place / "runs.db", "-f", "parquet", "-o", place / "rollups")
    answer = json.loads(run("node", packages / "ranks.mjs", place / "rollups"))
    outcome = {}
    for reader in READERS[:2]:
        wrong = None
        for table in sorted(answer[reader]):
            ours = plain(json.loads(run(opmeter, "query", "--json", place / "runs.db", f"SELECT * FROM {table}")))
            theirs = plain(answer[reader][table])
            if ours != theirs and not wrong:
                first = next((pair for pair in zip(ours, theirs) if pair[0] != pair[1]), (len(ours), len(theirs)))
                wrong = f"{table}: {first[1]}, and {first[0]} was written"
        if len(answer[reader]) < 10 and not wrong:
            wrong = f"only {sorted(answer[reader])}"
        outcome[f"{reader} reads ranks of a catalogue"] = wrong
    return outcome


def ask(opmeter, packages, place):
    trace(place / "t.json")
    run(opmeter, "export", place / "t.json", "-f", "parquet", "-o", place / "lake")
    run(opmeter, "export", place / "t.json", "-f", "parquet", "-o", place / "ranks", "--job", "8211", "--rank", "0")
    run(opmeter, "export", place / "t.json", "-f", "parquet", "-o", place / "ranks", "--job", "8211", "--rank", "3")
    run(opmeter, "export", place / "t.json", "-f", "arrow", "-o", place / "arrow")
    ours = {t: rows(opmeter, place / "t.json", t) for t in TABLES}
    for script in ("read.mjs", "write.mjs", "ranks.mjs"):  # packages are looked for beside them
        shutil.copy(HERE / "parquet" / script, packages)
    answer = json.loads(run("node", packages / "read.mjs", place / "lake", place / "ranks", place / "arrow"))
    outcome = {}
    for reader in READERS:
        for table in TABLES:
            if table != "op":
                outcome[f"{reader} reads {table}"] = difference(ours[table], answer[reader][table])
    by_name = {}
    for span in ours["span"]:
        by_name[span["name"]] = by_name.get(span["name"], 0) + 2 * span["dur"]
    told = {name: int(ns) for name, ns in answer["names"]}
    outcome["DuckDB: questions of docs/tables.md"] = (
        f"{len(told)} names, {len(by_name)} were written" if told != by_name else
        None if answer["ranks"] == [0, 3] else f"ranks {answer['ranks']}")
    outcome["DuckDB reads the statistics"] = (
        None if answer["limits"] == [min(s["ts"] for s in ours["span"]), max(s["ts"] for s in ours["span"]), 0]
        else f"ts: {answer['limits']}")
    outcome.update(ranks(opmeter, packages, place))
    run("node", packages / "write.mjs", place / "lake", place / "others")
    for writer in WRITERS:
        try:
            wrong = [f"{t}: {d}" for t in TABLES for d in [difference(ours[t], rows(opmeter, place / "others" / writer, t))] if d]
            outcome[f"opmeter reads {writer}"] = wrong[0] if wrong else None
        except subprocess.CalledProcessError as error:
            outcome[f"opmeter reads {writer}"] = error.stderr.strip()
    return outcome


if __name__ == "__main__":
    raise SystemExit(main())
