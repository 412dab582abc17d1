"""histories.py -- runs over time in ClickHouse: history says of them what it says of those in a file."""
import json
import signal
import subprocess
import time

import rig
from fleet_job import START_NS, Job
from rig import Failure, expect, need_servers, one_line, run

HOUR_NS = 3600 * 10**9
KINDS = ([], ["--by", "op"], ["--by", "type"], ["--json"], ["--csv"], ["--by", "op", "--json"], ["--label", "branch=main"],
         ["--last", "0", "--markdown"])


def runs(folder, n, slower_from=None):
    """One an hour; from one of them on every operator takes a fifth longer."""
    out = []
    for i in range(n):
        job = Job(ranks=1, steps=12, layers=3, seed=i, begin_ns=START_NS + i * HOUR_NS)
        plain, factor = job.noisy, 1.2 if slower_from is not None and i >= slower_from else 1
        job.noisy = lambda us, spread=0.01, n=plain, f=factor: n(us, spread) * f
        out.append(job.write(folder / f"run{i:02}")[0])
    return out


def add_runs(where, paths, first=0, **kwargs):
    """As somebody would by hand: a commit each, odd texts among the labels."""
    for i, path in enumerate(paths, first):
        rig.run("add", "-q", path, "--to", where, "--commit", f"c{i:03}", "--label", f"branch={'main' if i % 2 else 'topic'}",
                "--label", "note=it's \\ \"x\"\t\u00e9", "--label", "empty=", **kwargs)


def answers(where):
    """Of history, without when something was added or accepted."""
    said = {}
    for kind in KINDS:
        said[" ".join(kind)] = run("history", where, *kind, status=None).stdout
    export = {}
    for table in ("run", "label", "fact", "op"):
        rows = json.loads(run("query", where, f"SELECT * FROM {table}", "--json").stdout)
        drop = ("job", "rank", "insertion", "added_ns", "sketch") if "clickhouse" in str(where) else ("added_ns", "sketch")
        export[table] = sorted(json.dumps({k: v for k, v in row.items() if k not in drop}, sort_keys=True) for row in rows)
    return said, export


def same_history(folder):
    """A file, one server and three: the same runs, changes and verdicts; accepted, pruned and added again alike."""
    c = need_servers(folder)
    paths = runs(folder, 16, slower_from=9)
    db, wheres = folder / "runs.db", [c.url("hist"), c.url("hist3", cluster=True)]
    for where in (db, *wheres):
        add_runs(where, paths)
        add_runs(where, paths[3:5], 3)  # again: nothing changes
    wanted, rows = answers(db)
    if "c009" not in wanted[""]:
        raise Failure(f"the change is not found: {wanted['']}")
    for where in wheres:
        got, have = answers(where)
        for kind in wanted:
            expect(f"history {kind} of {where}", got[kind], wanted[kind])
        for table in rows:
            expect(f"{table} of {where}", have[table], rows[table])
    for what in (["--check"], ["--accept"], ["--check"]):
        done = [run("history", where, *what, status=None) for where in (db, *wheres)]
        for other in done[1:]:
            expect(f"history {what}", (other.returncode, other.stdout, other.stderr),
                   (done[0].returncode, done[0].stdout, done[0].stderr))
    for where in (db, *wheres):
        run("history", "prune", where, "--keep", "4")
    left = run("history", db).stdout
    for where in wheres:
        expect(f"pruned history of {where}", run("history", where).stdout, left)
    for where in (db, *wheres):
        add_runs(where, paths[:3])  # what went comes again
    left = run("history", db).stdout
    for where in wheres:
        expect(f"history of {where} with runs that went and came", run("history", where).stdout, left)
        run("history", "export", where, "-o", folder / "copy.db", "--force")
        expect(f"a copy of {where} in a file", run("history", folder / "copy.db").stdout, left)


def history_faults(folder):
    """Killed half-way, several writers: a run is there whole and once; what is wrong is said in one line."""
    c = need_servers(folder)
    paths = runs(folder, 6)
    db, url = folder / "runs.db", c.url("histfaults")
    add_runs(db, paths)
    command = [str(rig.opmeter), "add", "-q", *map(str, paths), "--to", url]
    for i in range(6):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.04 * (i + 1))
        process.send_signal(signal.SIGKILL)
        process.wait()
    several = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for process in several:
        expect("exit status of a writer", (process.wait(200), process.stderr.read()), (0, b""))
        process.stderr.close()
    for table in ("run", "fact", "op"):
        sql = f"SELECT count(*) AS n FROM {table}"
        expect(f"rows of {table}", run("query", url, sql, "--csv").stdout, run("query", db, sql, "--csv").stdout)
    one_line(run("history", c.url("nothing_here"), status=1), "has no runs and no ranks")
    done = run("history", f"clickhouse://writer:a%20word@127.0.0.1:{c.http[0]}/histfaults", status=1)
    if "word" in one_line(done, "writer").replace("password", ""):
        raise Failure(f"the password is said: {done.stderr}")


TESTS = (same_history, history_faults)
