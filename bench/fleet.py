#!/usr/bin/env python3
"""fleet.py -- what it takes to add the ranks of a job to a catalogue and to ask about it, by engine.

usage: bench/fleet.py [--opmeter PROGRAM] [--ranks 16,64] [--spans 200000] [--recordings 16] [--servers 0,1,3]
                      [--rows N] [--under COMMAND] [--folder FOLDER] [--from TRACE]

A few recordings of so many spans are made (fleet_job.py, or of a real one: fleet_real.py), one of them of a rank that is late, and
stand for the ranks in turn. The first ranks are added by a process each, the others by processes that
take twice as many ranks each time, so that their peaks tell whether memory grows with ranks. Every
process' time and peak memory are what the system counted. --servers: 0 is a file (SQLite), others are
so many ClickHouse servers (Debian's clickhouse-server) on loopback. With --rows, rows of operators of
the largest job are copied as those of further jobs until there are so many, and are grouped by name;
so are the sums over steps that a recording has of each operator.
--under: stands in front of each process that is measured, say to give it the machine; SERVERS in its
environment has the ids of the servers. --folder: recordings are kept there, and found there again.
"""
import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fleet"))

import clickhouse  # noqa: E402

LATE = 1
MULTIPLIED = ("rank_op", "rank_op_sum")
BY_NAME = ("SELECT name, sum(count) AS executions, sum(total_ns) AS time_ns, min(min_ns) AS shortest_ns,"
           " max(max_ns) AS longest_ns FROM {} GROUP BY name ORDER BY time_ns DESC, name")


# Started by as little of Python as there is: what a process holds counts as the peak of those that it starts.
STARTER = """import os, sys, time
begin = time.monotonic()
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
os.write(int(sys.argv[1]), f'{status} {time.monotonic() - begin} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss / 1024}'.encode())"""


under, servers = [], ""


def measure(argv, answer=None):
    """Seconds, those of processors, and peak MiB of a process; what it prints goes to the file `answer`."""
    mine, theirs = os.pipe()
    with open(answer or os.devnull, "wb") as out:
        starter = subprocess.Popen([*under, sys.executable, "-I", "-S", "-c", STARTER, str(theirs), *map(str, argv)], stdout=out,
                                   pass_fds=[theirs], env={**os.environ, "SERVERS": servers})
    os.close(theirs)
    with open(mine, "rb") as said:
        status, *took = map(float, said.read().split())
    starter.wait()
    if status:
        raise SystemExit(f"failed: {argv}")
    return tuple(took)


def recordings(opmeter, folder, spans, number, trace):
    """Made by a process of its own: what this one holds would count as its children's peak."""
    steps, buckets = 50, 2
    made = sorted(folder.glob("recording*.opm"))
    if len(made) == number:
        return made
    if trace:
        subprocess.run([sys.executable, ROOT / "bench" / "fleet_real.py", folder, "--from", trace, "--ranks", str(number),
                        "--spans", str(spans), "--late", str(LATE), "--unlabelled"], check=True)
    else:
        subprocess.run([sys.executable, ROOT / "bench" / "fleet_job.py", folder, "--ranks", str(number), "--steps", str(steps),
                        "--buckets", str(buckets), "--layers", str(spans // steps // buckets), "--names", "300", "--late", str(LATE),
                        "--late-us", "40000", "--slow-link", "2", "--unlabelled"], check=True)
    out = []
    for path in sorted(folder.glob("rank*.json")):
        out.append(folder / f"recording{len(out):03d}.opm")
        subprocess.run([opmeter, "import", "-q", path, "-o", out[-1]], check=True)
        path.unlink()
    return out


class File:
    """A catalogue in a file of SQLite."""

    def __init__(self, folder):
        self.name, self.where = "file", folder / "runs.db"

    def kept(self):
        return self.where.stat().st_size

    def multiply(self, rows):
        """As one unsafe transaction, jobs in the order of their names: what is measured is how it is read."""
        c = sqlite3.connect(self.where, isolation_level=None)
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -500000"):
            c.execute(f"PRAGMA {pragma}").fetchall()
        c.execute("BEGIN")
        have, = c.execute("SELECT count(*) FROM rank_op").fetchone()
        for table in MULTIPLIED:
            others = ", ".join(row[1] for row in c.execute(f"PRAGMA table_info({table})") if row[1] != "job")
            c.execute(f"CREATE TEMP TABLE one AS SELECT {others} FROM {table}")
            for i in range(1, -(-rows // have)):
                c.execute(f"INSERT INTO {table} (job, {others}) SELECT 'j-{i:06}', {others} FROM one")
            c.execute("DROP TABLE one")
        c.execute("COMMIT")
        total, = c.execute("SELECT count(*) FROM rank_op").fetchone()
        c.close()
        return total

    def close(self):
        pass


class Servers:
    """ClickHouse servers on loopback."""

    def __init__(self, folder, n):
        self.name = "ClickHouse, 1 server" if n == 1 else f"ClickHouse, {n} servers"
        self.n, self.cluster = n, clickhouse.Cluster(folder, n)
        self.cluster.__enter__()
        global servers
        servers = " ".join(str(p.pid) for p in self.cluster.processes)
        self.where = self.cluster.url("bench", cluster=n > 1)

    def ask(self, sql):
        return [self.cluster.ask(sql, i, database="bench", timeout=3000) for i in range(self.n)]

    def kept(self):
        return sum(map(int, self.ask("SELECT sum(bytes) FROM system.parts WHERE active AND database = 'bench'")))

    def multiply(self, rows):
        have = sum(map(int, self.ask("SELECT count() FROM rank_op_rows")))
        for table in MULTIPLIED:
            columns = self.ask(f"SELECT name FROM system.columns WHERE database = 'bench' AND table = '{table}_rows'")[0].split()
            others = ", ".join(c for c in columns if c != "job")
            for i in range(1, -(-rows // have)):
                self.ask(f"INSERT INTO {table}_rows (job, {others}) SELECT 'j-{i:06}', {others} FROM {table}_rows"
                         " WHERE job = 'j'")
        return sum(map(int, self.ask("SELECT count() FROM rank_op_rows")))

    def close(self):
        global servers
        servers = ""
        self.cluster.__exit__()


def one_engine(opmeter, engine, files, folder, ranks, rows):
    links = []
    for rank in range(ranks):
        links.append(folder / f"rank{rank:05d}.opm")
        others = [f for i, f in enumerate(files) if i != LATE]
        os.symlink(files[LATE] if rank == LATE else others[rank % len(others)], links[-1])
    apart = min(16, ranks)
    add = [opmeter, "add", "-q", "--to", engine.where, "--job", "j"]
    each = sorted(measure([*add, link]) for link in links[:apart])
    print(f"{ranks:5} ranks  {engine.name:21} add, a process each: {each[apart // 2][0]:.2f} s,"
          f" {sorted(e[1] for e in each)[apart // 2]:.3f} s of processor (medians), peak {max(e[2] for e in each):.0f} MiB", flush=True)
    size, at = max(apart, (ranks - apart + 6) // 7), apart
    while at < ranks:
        n = ranks - at if ranks - at < 2 * size else size
        rest = measure([*add, *links[at:at + n]])
        print(f"{'':34} add, one process for {n} ranks: {rest[0]:.1f} s, {rest[1]:.1f} s of processor, peak"
              f" {rest[2]:.0f} MiB; a rank {rest[0] / n:.2f} s, {rest[1] / n:.3f} s", flush=True)
        at, size = at + n, 2 * size
    print(f"{'':34} kept: {engine.kept() / ranks / 1e3:.0f} kB a rank", flush=True)
    for command in (["job", engine.where, "j"], ["top", engine.where, "j"]):
        took = measure([opmeter, *command, "-q"])
        print(f"{'':34} {command[0]}: {took[0]:.2f} s, {took[1]:.2f} s of processor, peak {took[2]:.0f} MiB", flush=True)
    if rows:
        total = engine.multiply(rows)
        answers = []
        for table in MULTIPLIED:
            answer, times = folder / table, []
            while len(times) < 3 and sum(t[0] for t in times) < 30:
                times.append(measure([opmeter, "query", engine.where, BY_NAME.format(table), "--csv"], answer))
            times.sort()
            answers.append(answer.read_bytes())
            print(f"{'':34} {total} rows of operators by name, from {table}: {times[0][0]:.2f} to {times[-1][0]:.2f} s,"
                  f" {times[0][1]:.2f} s of processor, peak {times[0][2]:.0f} MiB", flush=True)
        print(f"{'':34} kept: {engine.kept() / 1e9:.2f} GB", flush=True)
        if len(set(answers)) > 1:
            raise SystemExit(f"answers differ between {', '.join(MULTIPLIED)}")
        return answers[0]
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", default=str(ROOT / "build" / "release" / "opmeter"))
    parser.add_argument("--ranks", default="16,64")
    parser.add_argument("--spans", type=int, default=200_000)
    parser.add_argument("--servers", default="0,1,3")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--recordings", type=int, default=16)
    parser.add_argument("--under", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--from", dest="trace", type=Path)
    args = parser.parse_args()
    under.extend(args.under.split())
    numbers = [int(n) for n in args.servers.split(",") if n == "0" or clickhouse.available()]
    ranks = sorted(map(int, args.ranks.split(",")))
    answers = {}
    with tempfile.TemporaryDirectory(prefix="opmeter-bench-") as top:
        top = Path(top)
        if args.folder:
            args.folder.mkdir(parents=True, exist_ok=True)
        files = recordings(args.opmeter, (args.folder or top).resolve(), args.spans, args.recordings, args.trace)
        print(f"{args.spans} spans a rank, {sum(f.stat().st_size for f in files) / len(files) / 1e6:.2f} MB as .opm", flush=True)
        for n in ranks:
            for servers in numbers:
                folder = top / f"{servers}of{n}"
                folder.mkdir()
                engine = Servers(folder, servers) if servers else File(folder)
                try:
                    got = one_engine(args.opmeter, engine, files, folder, n, args.rows if n == ranks[-1] else 0)
                    if got is not None:
                        answers[engine.name] = got
                finally:
                    engine.close()
                    shutil.rmtree(folder)
    if len(set(answers.values())) > 1:
        raise SystemExit(f"answers differ between {', '.join(answers)}")


if __name__ == "__main__":
    main()
