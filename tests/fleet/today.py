"""today.py -- ClickHouse of today (its library, from npm) takes every statement of opmeter and answers as a file does.

The package, some 150 MB packed, is fetched into BUILD/npm-chdb once; without npm or the network the tests are skipped.
"""
import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import rig
from fleet_job import Job
from histories import add_runs, answers, runs
from rig import Failure, Skip, add, counts, expect, one_line, page, run

PACKAGE = "@chdb/lib-linux-x64-gnu@26.5.3"
why_not = None  # once it is known


def library():
    global why_not
    folder = rig.opmeter.parent / "npm-chdb"
    path = folder / "node_modules" / "@chdb" / "lib-linux-x64-gnu" / "libchdb.so"
    if path.is_file():
        return path
    if why_not is None:
        why_not = fetch(folder)
    if why_not or not path.is_file():
        raise Skip(why_not or "the package has no library")
    return path


def fetch(folder):
    if not shutil.which("npm"):
        return "npm is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text("{}")
    try:
        done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE],
                              cwd=folder, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return "npm did not answer in time"
    return "npm could not fetch ClickHouse's library" if done.returncode else ""


@contextlib.contextmanager
def server(folder):
    """host:port of it."""
    (folder / "today").mkdir()
    with open(folder / "today.log", "wb") as log, subprocess.Popen(
            [sys.executable, Path(__file__).with_name("embedded.py"), library(), folder / "today"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log) as process:
        try:
            port = process.stdout.readline().strip().decode()
            if not port:
                raise Skip(f"this machine cannot run ClickHouse's library: {(folder / 'today.log').read_text()[-300:]}")
            yield f"127.0.0.1:{port}"
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def today(folder):
    """Jobs in ClickHouse of today, alone and through tables of a cluster: the answers of a file, to the last digit."""
    db = folder / "runs.db"
    paths = Job(ranks=6, steps=20, late=4, slow_link=2, slow_op=3, leak=5).write(folder / "job")
    odd = "o'clock \\ \"x\"\t"
    with server(folder) as at:
        urls = [f"clickhouse://{at}/alone", f"clickhouse://{at},{at}/together?cluster=one"]
        one_line(run("job", urls[0], status=1), "has no runs and no ranks")
        for where in (db, *urls):
            for job in ("j", odd):
                add(where, job, [*paths, "--spans"])
                add(where, job, paths)
        for where in urls:
            expect(f"rows of {where}", counts(where, "j"), counts(db, "j"))
            expect(f"hosts of {where}", run("job", where, "--show", "hosts", "--json").stdout,
                   run("job", db, "--show", "hosts", "--json").stdout)
            for job in ("j", odd):
                expect(f"answers of {where}", page(where, job), page(db, job))
                for args in (("top", where, job, "--json"), ("steps", where, job, "--csv"),
                             ("query", where, "SELECT job, ranks, hosts, world, recordings, spans, model FROM job ORDER BY job", "--csv"),
                             ("query", where, "SELECT * FROM job_step ORDER BY job, num", "--csv"),
                             ("query", where, "SELECT * FROM job_op ORDER BY job, section, name", "--csv")):
                    expect(f"{args}", run(*args).stdout, run(*(db if a == where else a for a in args)).stdout)
            one_line(run("query", where, "SELECT nothing FROM rank_op", status=1), "nothing")
            one_line(run("query", where, "SELECT * FROM nothing", status=1), "nothing")


def parquet_of_today(folder):
    """Ranks as Parquet, from a file and from ClickHouse: the same rows, as ClickHouse reads them."""
    db = folder / "runs.db"
    job = Job(ranks=4, steps=8, layers=2, leak=1).write(folder / "job")
    later = Job(ranks=4, steps=4, layers=2, first_step=50, seed=5).write(folder / "later")
    with server(folder) as at:
        url = f"clickhouse://{at}/lake"
        for where, lake in ((db, "from_file"), (url, "from_server")):
            for name, paths in (("a job", [*job, "--spans"]), ("a job", later[1:3]), ("8211", job[:2])):
                add(where, name, paths)
            run("export", where, "-f", "parquet", "-o", folder / lake)
            one_line(run("export", where, "-f", "parquet", "-o", folder / lake, status=1), "exists")
            run("export", where, "-f", "parquet", "-o", folder / lake, "--force")
        tables = sorted(p.name for p in (folder / "from_file").iterdir())
        expect("tables", sorted(p.name for p in (folder / "from_server").iterdir()), tables)
        if len(tables) < 10:
            raise Failure(f"only {tables}")
        for table in tables:
            columns = [c for c in json.loads(run("query", db, f"SELECT * FROM {table} LIMIT 1", "--json").stdout)[0]
                       if c not in ("job", "rank", "batch", "added_ns", "trace")]
            said = [run("query", url, f"SELECT _path LIKE '%job=8211%' AS j, extract(_path, 'rank=([0-9]+)') AS r, {', '.join(columns)}"
                        f" FROM file('{folder}/{lake}/{table}/*/*/*.parquet') ORDER BY {', '.join(str(i + 1) for i in range(len(columns) + 2))}",
                        "--json").stdout for lake in ("from_file", "from_server")]
            rows = json.loads(said[0])
            expect(f"rows of {table}", len(rows), json.loads(run("query", db, f"SELECT count(*) AS n FROM {table}", "--json").stdout)[0]["n"])
            if said[0] != said[1]:
                raise Failure(f"{table} differs")


def history_of_today(folder):
    """Runs over time, likewise; accepted, pruned and added again."""
    db = folder / "runs.db"
    paths = runs(folder, 12, slower_from=7)
    with server(folder) as at:
        url = f"clickhouse://{at}/hist"
        for where in (db, url):
            add_runs(where, paths)
            add_runs(where, paths[3:5], 3)
        (wanted, rows), (got, have) = answers(db), answers(url)
        if "c007" not in wanted[""]:
            raise Failure(f"the change is not found: {wanted['']}")
        for kind in wanted:
            expect(f"history {kind}", got[kind], wanted[kind])
        for table in rows:
            expect(table, have[table], rows[table])
        for what in (["--check"], ["--accept"], ["--check"], ["prune", "--keep", "4"], []):
            done = [run("history", *([what[0], where, *what[1:]] if what[:1] == ["prune"] else [where, *what]), status=None)
                    for where in (db, url)]
            expect(f"history {what}", (done[1].returncode, done[1].stdout.replace(url, str(db))), (done[0].returncode, done[0].stdout))


TESTS = (today, history_of_today, parquet_of_today)
