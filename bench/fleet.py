#!/usr/bin/env python3
"""fleet.py -- what it takes to add the ranks of a job to a catalogue and to ask about it, by engine.

usage: bench/fleet.py [--opmeter PROGRAM] [--ranks 16,64] [--spans 200000] [--clickhouse N]

A few recordings of so many spans are made (fleet_job.py), one of them of a rank that is late, and
stand for the ranks in turn. Each `opmeter add` and `opmeter job` is a process of its own; its time
and peak memory are what the system counted. ClickHouse servers (Debian's clickhouse-server) are
started on loopback: one, and N as a cluster.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fleet"))

import clickhouse  # noqa: E402


def measure(argv):
    """Seconds, those of processors, and peak MiB of a process."""
    begin = time.monotonic()
    process = subprocess.Popen(list(map(str, argv)), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {argv[:8]}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def recordings(opmeter, folder, spans):
    """Made by a process of its own: what this one holds would count as its children's peak."""
    steps, buckets = 50, 2
    subprocess.run([sys.executable, ROOT / "bench" / "fleet_job.py", folder, "--ranks", "4", "--steps", str(steps),
                    "--buckets", str(buckets), "--layers", str(spans // steps // buckets), "--names", "300", "--late", "1",
                    "--late-us", "40000", "--slow-link", "2"], check=True)
    out = []
    for path in sorted(folder.glob("rank*.json")):
        out.append(folder / f"recording{len(out)}.opm")
        subprocess.run([opmeter, "import", "-q", path, "-o", out[-1]], check=True)
        path.unlink()
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", default=str(ROOT / "build" / "release" / "opmeter"))
    parser.add_argument("--ranks", default="16,64")
    parser.add_argument("--spans", type=int, default=200_000)
    parser.add_argument("--clickhouse", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="opmeter-bench-") as top:
        top = Path(top)
        files = recordings(args.opmeter, top, args.spans)
        size = sum(f.stat().st_size for f in files) / len(files)
        print(f"{args.spans} spans a rank, {size / 1e6:.2f} MB as .opm")
        engines = [("SQLite", None)]
        if clickhouse.available():
            engines += [("ClickHouse, 1 server", 1), (f"ClickHouse, {args.clickhouse} servers", args.clickhouse)]
        for ranks in map(int, args.ranks.split(",")):
            for name, servers in engines:
                cluster = clickhouse.Cluster(top / f"{servers}of{ranks}", servers) if servers else None
                if cluster:
                    cluster.__enter__()
                try:
                    where = cluster.url("bench", cluster=servers > 1) if cluster else top / f"{ranks}.db"
                    each = [measure([args.opmeter, "add", "-q", files[1 if r == 1 else 2 * (r % 2)], "--to", where,
                                     "--job", "j", "--rank", r]) for r in range(ranks)]
                    page = measure([args.opmeter, "job", where, "j"])
                    top_s = measure([args.opmeter, "top", where, "j"])
                    kept = where.stat().st_size if not cluster else sum(
                        int(cluster.ask("SELECT sum(bytes) FROM system.parts WHERE active AND database = 'bench'", i))
                        for i in range(servers))
                    middle = sorted(each)[ranks // 2]
                    print(f"{ranks:5} ranks  {name:22} add: {middle[0]:.2f} s a rank, {middle[1]:.3f} s of processor (median),"
                          f" {sum(e[0] for e in each):.1f} s in all, peak {max(e[2] for e in each):.0f} MiB;"
                          f" job: {page[0]:.2f} s, {page[1]:.3f} s, {page[2]:.0f} MiB;"
                          f" top: {top_s[0]:.2f} s, {top_s[1]:.3f} s, {top_s[2]:.0f} MiB;"
                          f" kept: {kept / ranks / 1e3:.0f} kB a rank", flush=True)
                finally:
                    if cluster:
                        cluster.__exit__()


if __name__ == "__main__":
    main()
