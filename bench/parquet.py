#!/usr/bin/env python3
"""parquet.py -- a trace as Parquet, by opmeter and by DuckDB: time of the processor, memory, size, in alternation.

usage: bench/parquet.py OPMETER TRACE --packages FOLDER [--rounds 3]

FOLDER/node_modules has @duckdb/node-api (tests/npm/parquet.py puts it into BUILD/npm-parquet). DuckDB copies the spans that
opmeter wrote from Parquet to Parquet, once as it does by itself and once with version 2 and zstd; what it takes to read
them alone is measured beside it and taken off. opmeter's figure has all tables and the opening of TRACE in it."""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import tempfile

SCRIPT = """
const { DuckDBInstance } = require("@duckdb/node-api");
const [sql, threads] = process.argv.slice(1);
(async () => {
    const db = await (await DuckDBInstance.create(":memory:")).connect();
    await db.run(`SET threads TO ${threads}`);
    await db.run(sql);
})();
"""
COLUMNS = "id, ts, dur, self, track, parent, depth, name, cat, layer, op, phase, step, record, correlation, wait, args"


def measured(command, cwd=None):
    """Seconds of the processor and of the clock, and MB at most."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["/usr/bin/env", "time", "-f", "%e %M", *map(str, command)], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall, kb = done.stderr.split()[-2:]
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, float(wall), int(kb) / 1024)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("opmeter")
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    opmeter, trace, packages = pathlib.Path(args.opmeter).resolve(), args.trace.resolve(), args.packages.resolve()
    with tempfile.TemporaryDirectory(dir=packages) as temp:
        temp = pathlib.Path(temp)
        ours = temp / "ours"
        spans = f"read_parquet('{ours}/span/*.parquet')"

        def duckdb(sql):
            return measured(["node", "-e", SCRIPT, sql, "1"], cwd=packages)

        ways = {
            "opmeter": lambda: measured([opmeter, "export", trace, "-f", "parquet", "-o", ours, "--force"]),
            "opmeter, opening the trace": lambda: measured([opmeter, "query", trace, "SELECT max(self) FROM span"]),
            "DuckDB, reading": lambda: duckdb(f"SELECT {', '.join(f'max({c})' for c in COLUMNS.split(', '))} FROM {spans}"),
            "DuckDB, zstd": lambda: duckdb(f"COPY (FROM {spans}) TO '{temp}/duck1.parquet' (COMPRESSION zstd)"),
            "DuckDB, version 2, zstd": lambda: duckdb(f"COPY (FROM {spans}) TO '{temp}/duck2.parquet' (COMPRESSION zstd, PARQUET_VERSION V2)"),
            "DuckDB, as it is": lambda: duckdb(f"COPY (FROM {spans}) TO '{temp}/duck3.parquet'"),
        }
        times = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, way in ways.items():
                times[name].append(way())
        sizes = {"opmeter": (ours / "span" / "part-0.parquet"), "DuckDB, zstd": temp / "duck1.parquet",
                 "DuckDB, version 2, zstd": temp / "duck2.parquet", "DuckDB, as it is": temp / "duck3.parquet"}
        rows = json.loads(subprocess.run([opmeter, "query", "--json", trace, "SELECT count(*) AS n FROM span"],
                                         capture_output=True, text=True, check=True).stdout)[0]["n"]
        print(f"{rows} spans, {trace.stat().st_size / 1e6:.1f} MB as {trace.suffix}; best of {args.rounds}, one thread of DuckDB")
        print(f"{'':28}{'cpu s':>8}{'wall s':>8}{'MB peak':>9}{'MB file':>9}{'B/span':>8}")
        for name, taken in times.items():
            size = sizes[name].stat().st_size if name in sizes else None
            print(f"{name:28}{min(t[0] for t in taken):8.2f}{min(t[1] for t in taken):8.2f}"
                  f"{statistics.median(t[2] for t in taken):9.0f}"
                  + (f"{size / 1e6:9.1f}{size / rows:8.2f}" if size else ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
