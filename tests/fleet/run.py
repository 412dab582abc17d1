#!/usr/bin/env python3
"""run.py -- ranks of distributed jobs in a catalogue: what is planted in them is found, on any database.

usage: tests/fleet/run.py [--build DIR] [--ranks N] [NAME...]

Prints one `ok` or `not ok` line per test. Tests of ClickHouse start servers of Debian's package
clickhouse-server on loopback and are skipped where there is none; likewise those of Slurm and Open MPI
(script/bootstrap --fleet installs all).
--ranks: how many the test of merging has (64).
"""
import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import clickhouse  # noqa: E402
import faults  # noqa: E402
import histories  # noqa: E402
import hostile  # noqa: E402
import large  # noqa: E402
import lateness  # noqa: E402
import launchers  # noqa: E402
import newer  # noqa: E402
import recordings  # noqa: E402
import rig  # noqa: E402
import subset  # noqa: E402
import tls  # noqa: E402
import today  # noqa: E402
import truths  # noqa: E402
from fleet_job import Job  # noqa: E402
from proxy import Proxy  # noqa: E402
from rig import Failure, Skip, add, counts, expect, near, need_servers, one_line, page, run, table  # noqa: E402

JOBS = 50
ranks_to_merge = 64


# ---- what is planted ----

def late_ranks(folder):
    """The late rank of each of 50 jobs is named, and nobody else; nobody in 50 others."""
    db = folder / "runs.db"
    wrong = []
    for seed in range(2 * JOBS):
        ranks = 3 + seed % 9
        late = seed * 7 % ranks if seed < JOBS else None
        job = Job(ranks=ranks, steps=20, layers=2, seed=seed, late=late, late_us=120 + 10 * (seed % 20))
        add(db, f"job{seed}", job.write(folder / f"job{seed}"))
        named = [row["rank"] for row in table(db, f"job{seed}", "late") if row["late"]]
        if named != ([] if late is None else [late]):
            wrong.append((seed, late, named))
        shutil.rmtree(folder / f"job{seed}")
    expect("jobs in which the wrong ranks were named", wrong, [])


def planted(folder):
    """Everything else that is planted is found, and only that."""
    db = folder / "runs.db"
    add(db, "bad", Job(ranks=8, steps=20, late=5, slow_link=2, slow_op=3, leak=6).write(folder / "bad"))
    add(db, "good", Job(ranks=8, steps=20, seed=2).write(folder / "good"))
    bad, good = page(db, "bad"), page(db, "good")
    expect("late", [r["rank"] for r in bad["late"] if r["late"]], [5])
    expect("the late rank's machine", bad["late"][0]["host"], "node001")
    # It comes 600 us late, and 500 us after rank 3, whose operator takes 50 us longer.
    near("what it costs", bad["late"][0]["cost_ns"], 20 * 550_000, 0.05)
    expect("slow links", [(r["rank"], r["peer"]) for r in bad["links"] if r["slow"]], [(2, 3)])
    expect("slow operators", sorted({(r["rank"], r["name"]) for r in bad["outliers"]}),
           [(3, "layer1/matmul"), (3, "layer7/matmul")])
    for row in bad["outliers"]:
        near("how much slower", row["factor"], 1.5, 0.02)
    grown = max(bad["memory"], key=lambda r: r["growth_bytes"])
    expect("the rank whose memory grows", (grown["rank"], grown["growth_bytes"]), (6, 19 * 2e8))
    path = {}
    for row in bad["path"]:
        path[row["kind"], row["rank"]] = path.get((row["kind"], row["rank"]), 0) + row["share"]
    expect("what bounds the steps most", max(path, key=path.get), ("work", 5))
    near("the path is the steps", sum(r["total_ns"] for r in bad["path"]), sum(r["mean_ns"] for r in bad["steps"]), 0.01)
    for show in ("late", "links", "outliers"):
        expect(f"{show} of a clean job", [r for r in good[show] if r.get("late") or r.get("slow") or show == "outliers"], [])
    hosts = json.loads(run("job", db, "--show", "hosts", "--json").stdout)
    expect("machines with a late rank", [h["host"] for h in hosts if h["late_jobs"]], ["node001"])


def machines(folder):
    """A machine whose ranks are late in job after job is slow."""
    db = folder / "runs.db"
    for seed in range(4):
        add(db, f"job{seed}", Job(ranks=6, hosts=3, steps=12, layers=2, seed=seed,
                                  late=2 if seed < 3 else None).write(folder / str(seed)))
    hosts = json.loads(run("job", db, "--show", "hosts", "--json").stdout)
    expect("slow machines", [h["host"] for h in hosts if h["slow"]], ["node001"])
    expect("jobs that it held up", hosts[0]["late_jobs"], 3)


def drift(folder):
    """Steps that become 30 % longer over a day."""
    db = folder / "runs.db"
    for hour in range(24):
        begin = 1_790_000_000_000_000_000 + hour * 3600 * 10**9
        job = Job(ranks=3, steps=8, layers=2, seed=hour, begin_ns=begin, first_step=1000 * hour)
        job_layers = job.noisy
        job.noisy = lambda us, spread=0.01, factor=1 + 0.3 * hour / 23, n=job_layers: n(us, spread) * factor
        add(db, "day", job.write(folder / str(hour)))
    rows = table(db, "day", "drift")
    if len(rows) < 12:
        raise Failure(f"only {len(rows)} stretches of time")
    if not 0.2 < rows[-1]["change"] < 0.32 or abs(rows[1]["change"]) > 0.05:
        raise Failure(f"change: {[round(r['change'], 3) for r in rows]}")


# ---- rows that merge ----

def raw_spans(paths):
    """Durations by operator, as the files have them: with a program that shares nothing with opmeter."""
    out = {}
    for path in paths:
        for event in json.loads(path.read_text())["traceEvents"]:
            if "op" in event.get("args", {}):
                out.setdefault(event["args"]["op"]["name"], []).append(round(event["dur"] * 1000))
    return out


def merging(folder):
    """Rollups of many ranks together say what one process over all their spans says."""
    db = folder / "runs.db"
    paths = Job(ranks=ranks_to_merge, steps=6, layers=3, late=1, slow_op=2, seed=5).write(folder / "job")
    add(db, "j", paths)
    sql = ("SELECT o.name, count(*) AS count, sum(s.dur) AS total_ns, sum(s.self) AS self_ns, min(s.dur) AS min_ns,"
           " max(s.dur) AS max_ns, median(s.dur) AS median_ns, percentile(s.dur, 99) AS p99_ns"
           " FROM span AS s JOIN op AS o ON o.id = s.op GROUP BY o.name ORDER BY o.name")
    whole = json.loads(run("query", *paths, sql, "--json", timeout=900).stdout)
    merged = {row["name"]: row for row in table(db, "j", "ops")}
    expect("operators", sorted(merged), [row["name"] for row in whole])
    for row in whole:
        for column in ("count", "total_ns", "self_ns", "min_ns", "max_ns"):
            expect(f"{column} of {row['name']}", merged[row["name"]][column], row[column])
        for column in ("median_ns", "p99_ns"):
            # Half a percent of the value at that place, and what lies between two values.
            near(f"{column} of {row['name']}", merged[row["name"]][column], row[column], 0.02)
    for name, durations in raw_spans(paths).items():
        durations.sort()
        row = merged[name]
        expect(f"figures of {name} from the raw spans", [row[c] for c in ("ranks", "count", "total_ns", "self_ns", "min_ns", "max_ns")],
               [len(paths), len(durations), sum(durations), sum(durations), durations[0], durations[-1]])
        for column, share in (("median_ns", 0.5), ("p99_ns", 0.99)):
            near(f"{column} of {name} from the raw spans", row[column], durations[int(share * (len(durations) - 1))], 0.005)
    steps = json.loads(run("query", *paths, "SELECT num, avg(total_ns) AS mean_ns FROM step_trace GROUP BY num"
                           " ORDER BY num", "--json", timeout=900).stdout)
    for row, mine in zip(steps, table(db, "j", "steps"), strict=True):
        near(f"step {row['num']}", mine["mean_ns"], row["mean_ns"], 1e-9)


def arrivals(folder):
    """Who is late, in four files and in one that holds all ranks, is what one process says of all spans."""
    try:
        sys.path.insert(0, str(ROOT / "tests" / "oracle"))
        import planted_kineto
    except ImportError as why:
        raise Skip(f"{why} (Debian's python3-numpy)")
    db = folder / "runs.db"
    plan = planted_kineto.ranks(folder)
    paths = plan["files"]
    add(db, "j", paths)
    expect("late", [r["rank"] for r in table(db, "j", "late") if r["late"]], [plan["late"]])
    near("cost", table(db, "j", "late")[0]["cost_ns"], plan["steps"] * plan["late_ns"], 1e-6)
    whole = json.loads(run("query", *paths, "SELECT * FROM stragglers", "--json", timeout=900).stdout)
    late = {row["rank"]: row for row in table(db, "j", "late")}
    expect("ranks", sorted(late), sorted(row["rank"] for row in whole))
    for row in whole:
        mine = late[row["rank"]]
        for theirs, ours in (("collectives", "collectives"), ("last_count", "last_count"), ("late_ns", "late_ns"),
                             ("waited_ns", "waited_ns"), ("clock_ns", "clock_ns")):
            if abs(mine[ours] - row[theirs]) > (0 if ours.endswith("s") and not ours.endswith("ns") else 2000):
                raise Failure(f"{ours} of rank {row['rank']}: {mine[ours]}, and in one process {row[theirs]}")
    run("import", *paths, "-o", folder / "all.opm")
    add(folder / "all.db", "j", [folder / "all.opm"])
    expect("ranks of one file", [r["rank"] for r in table(folder / "all.db", "j", "ranks")], [0, 1, 2, 3])
    expect("late in one file", [(r["rank"], r["last_count"], r["cost_ns"]) for r in table(folder / "all.db", "j", "late")],
           [(r["rank"], r["last_count"], r["cost_ns"]) for r in table(db, "j", "late")])


def again(folder):
    """Adding twice, in pieces, spans later: everything is there once."""
    db, other = folder / "runs.db", folder / "other.db"
    paths = Job(ranks=4, steps=4, layers=2).write(folder / "job")
    add(db, "j", paths)
    first = counts(db, "j")
    add(db, "j", paths[2:])
    expect("rows after adding some again", counts(db, "j"), first)
    add(db, "j", [*paths, "--spans"])
    with_spans = counts(db, "j")
    expect("spans", with_spans.pop("rank_span"), sum(
        json.loads(run("query", p, "SELECT count(*) AS n FROM span", "--json").stdout)[0]["n"] for p in paths))
    first.pop("rank_span")
    expect("rows beside the spans", with_spans, first)
    for p in paths:
        add(other, "j", [p])
    expect("one file at a time", page(other, "j"), page(db, "j"))


# ---- a file: faults ----

def killed(folder):
    """Killed at any moment, then added again: nothing is lost or twice."""
    paths = Job(ranks=6, steps=10).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    wanted = counts(folder / "whole.db", "j")
    db = folder / "runs.db"
    for i in range(6):
        process = subprocess.Popen([str(rig.opmeter), "add", "-q", *map(str, paths), "--to", str(db), "--job", "j"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.01 * (i + 1))
        process.kill()
        process.wait()
    add(db, "j", paths)
    expect("rows", counts(db, "j"), wanted)


def half_written(folder):
    """A writer was killed with half of its transaction in the file: who only reads sees what was before."""
    db = folder / "runs.db"
    add(db, "j", Job(ranks=3, steps=4, layers=2).write(folder / "job"))
    wanted = counts(db, "j")
    program = ("import os, signal, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('PRAGMA cache_size = 1');"
               " c.execute('BEGIN IMMEDIATE'); c.execute('INSERT INTO rank_op SELECT * FROM rank_op'); c.execute('DELETE FROM rank_step');"
               " os.kill(os.getpid(), signal.SIGKILL)")
    subprocess.run([sys.executable, "-c", program, str(db)], check=False)
    if not Path(f"{db}-journal").stat().st_size:
        raise Failure("nothing was half-written")
    expect("rows", counts(db, "j"), wanted)


def writers(folder):
    """Several writers of the same and of other ranks at once."""
    paths = Job(ranks=6, steps=6).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    several = [subprocess.Popen([str(rig.opmeter), "add", "-q", *map(str, paths), "--to", str(folder / "runs.db"),
                                 "--job", "j"], stderr=subprocess.PIPE) for _ in range(4)]
    for process in several:
        expect("exit status", (process.wait(120), process.stderr.read()), (0, b""))
        process.stderr.close()
    expect("rows", counts(folder / "runs.db", "j"), counts(folder / "whole.db", "j"))


def older(folder):
    """A catalogue of the version before ranks: said when read, brought up to date when added to."""
    db = folder / "runs.db"
    paths = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    run("add", "-q", paths[0], "--to", db, "--commit", "abc")
    with sqlite3.connect(db) as c:
        for name, in c.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'rank!_%' ESCAPE '!'").fetchall():
            c.execute(f"DROP TABLE {name}")
        c.execute("PRAGMA user_version = 1")
    c.close()
    if "older opmeter" not in one_line(run("job", db, status=1)):
        raise Failure("not said")
    run("history", db)
    add(db, "j", paths)
    expect("ranks", len(table(db, "j", "ranks")), 3)
    run("history", db)


def older_ranks(folder):
    """A catalogue with ranks of the version before sums over steps: the same answers, also when ranks with sums come."""
    db, new = folder / "runs.db", folder / "new.db"
    paths = Job(ranks=5, steps=12, late=3, slow_op=1).write(folder / "job")
    add(db, "j", paths[:4])
    with sqlite3.connect(db) as c:
        c.execute("DROP TABLE rank_op_sum")
        c.execute("DELETE FROM rank_batch WHERE unit = 'sums'")
        c.execute("PRAGMA user_version = 2")
    c.close()
    for ranks in (4, 5):
        add(new, "j", paths[:ranks])
        expect(f"{ranks} ranks", page(db, "j"), page(new, "j"))
        add(db, "j", paths)
    expect("rows with sums", counts(db, "j")["rank_op_sum"] * 5, counts(new, "j")["rank_op_sum"])


def wrong_use(folder):
    """One clear line for what cannot be done."""
    db = folder / "runs.db"
    paths = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    add(db, "j", paths)
    for args, status, part in (
            (("job", db, "nope"), 1, "has no job 'nope'"),
            (("job", folder / "none.db"), 1, "No such file"),
            (("job", db, "j", "--show", "nothing"), 2, "--show"),
            (("job", db, "--show", "late"), 2, "needs the ID"),
            (("job", db, "j", "--rank", "77"), 1, "has no rank 77"),
            (("job", "mysql://host/db"), 1, "no database that we know"),
            (("job", "clickhouse:///x"), 1, "HOST"),
            (("job", "clickhouse://127.0.0.1:9/bad-name"), 1, "no name of a database"),
            (("job", "clickhouse://127.0.0.1:9/x?color=red"), 1, "no option"),
            (("job", "clickhouse://127.0.0.1:9/x?tries=0"), 1, "tries=0: a number"),
            (("job", "clickhouse://127.0.0.1:9/x?timeout=soon"), 1, "timeout=soon: a number"),
            (("job", "clickhouse://127.0.0.1:/x"), 1, "no port"),
            (("job", "clickhouse://127.0.0.1:99999/x"), 1, "no port"),
            (("job", "clickhouse://127.0.0.1:9/x?tries=1e9"), 1, "tries=1e9: a number"),
            (("job", "clickhouse://127.0.0.1:9/x?timeout=10m"), 1, "timeout=10m: a number"),
            (("job", "clickhouse://127.0.0.1:9/x?timeout=99999999999999999999"), 1, "a number"),
            (("job", "clickhouse://127.0.0.1:9/x?cluster=it's"), 1, "without quotes"),
            (("job", "clickhouse://127.0.0.1:9/x?cluster="), 1, "a name of 1 to"),
            (("job", "clickhouse://127.0.0.1:9/x?password=se%20cret"), 1, "password= is no option"),
            (("job", "clickhouse://127.0.0.1:9/x?tries=1&user=me&password=secret"), 1, "user= is no option"),
            (("job", "clickhouse://127.0.0.1:9/x?pass=secret"), 1, "pass is no option"),
            (("info", "clickhouse://127.0.0.1:9/x?tries=1&Password=secret&tls=1"), 1, "?tries=1&Password=*&tls=1"),
            (("job", "clickhouse://127.0.0.1:9/x/?tries=1"), 1, "clickhouse://127.0.0.1:9/x cannot be reached"),
            (("job", "clickhouse://127.0.0.1:9/x//?tries=1"), 1, "no name of a database"),
            (("job", "clickhouse://::1/x?tries=1"), 1, "[::1]"),
            (("job", "clickhouse://[::1]:9/x?tries=1"), 1, "clickhouse://[::1]:9/x cannot be reached"),
            (("job", "clickhouse://u:s%40cret%3A%2F@127.0.0.1:9/x?tries=1"), 1, "clickhouse://127.0.0.1:9/x cannot be reached"),
            (("job", "clickhouse://u:se/cret@127.0.0.1:9/x"), 1, "%2F"),
            (("job", "clickhouse://u:se?cret@127.0.0.1:9/x"), 1, "%3F"),
            (("job", "clickhouse:/u:secret@127.0.0.1:9/x"), 1, "two slashes"),
            (("add", paths[0], paths[1], "--to", db, "--job", "j", "--rank", "1"), 2, "goes with one RUN"),
            (("add", paths[0], "--to", db, "--rank", "1"), 2, "--job is needed"),
            (("query", db, "DELETE FROM rank_op"), 1, "only statements that read"),
            (("query", db, "SELECT nothing FROM rank_op"), 1, "nothing")):
        env = {name: "" for name in ("RANK", "WORLD_SIZE", "SLURM_JOB_ID", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID")}
        line = one_line(run(*args, status=status, env=env))
        if part not in line or "cret" in line:
            raise Failure(f"{args}: {line}")
    for sql, part in (("SELECT FROM WHERE", "syntax error"), ("SELECT nowhere FROM rank_op", "no such column: nowhere"), ("SELECT 1 FROM none", "no such table: none")):
        line = one_line(run("query", db, sql, status=1))
        if part not in line or "should be" in line:
            raise Failure(f"{sql}: {line}")
    # The rank comes from the environment where neither trace nor option says.
    trace = json.loads(paths[0].read_text())
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["name"] != "process_labels"]
    (folder / "none.json").write_text(json.dumps(trace))  # its name does not say it either
    line = one_line(run("add", folder / "none.json", "--to", db, "--job", "k", status=1,
                        env={"RANK": "", "SLURM_PROCID": "", "OMPI_COMM_WORLD_RANK": "", "PMI_RANK": ""}))
    if "--rank" not in line:
        raise Failure(line)
    run("add", folder / "none.json", "--to", db, env={"SLURM_PROCID": "17", "SLURM_NTASKS": "32", "SLURM_JOB_ID": "4711"})
    rows = json.loads(run("query", db, "SELECT rank, world FROM rank_file WHERE job = '4711'", "--json").stdout)
    expect("rank and size below Slurm", rows, [{"rank": 17, "world": 32}])


def odd_names(folder):
    """Jobs with any name, recordings without steps, collectives or operators, ranks in any order and again otherwise."""
    paths = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    (folder / "rank8.json").write_text('{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":5,"name":"a"}]}')
    wheres = [folder / "runs.db"]
    if clickhouse.available():
        wheres.append(need_servers(folder).url("odd"))
    wanted = None
    for where in wheres:
        for name in ("a'b", "new\nline", "\u00fc\u2713", "j" * 200, " ", "..", "\x01", "%s%n", '"; DROP TABLE rank_op; --', "\\"):
            add(where, name, [paths[2], paths[0], paths[1]])
            got = page(where, name)
            expect("the job's name", got.pop("job"), name)
            wanted = wanted or got
            expect(f"answers of {name!r}", got, wanted)
        add(where, "little", [folder / "rank8.json"])
        little = page(where, "little")
        expect("what a recording without steps says", {k: len(v) for k, v in little.items() if v and k != "job"}, {"ranks": 1, "hosts": 1})
        for command in (("job", where, "little"), ("top", where, "little"), ("steps", where, "little")):
            run(*command)
        add(where, "again", paths)
        other = folder / "other.json"
        other.write_text(paths[1].read_text().replace('"dur":1', '"dur":2'))
        add(where, "again", [other, "--rank", "1"])
        expect("recordings of a rank", [r["recordings"] for r in table(where, "again", "ranks")], [1, 2, 1])


def watched(folder):
    """`add --watch` takes what appears, once it is at rest, and ends with a signal."""
    paths = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    inbox = folder / "inbox"
    inbox.mkdir()
    (inbox / "notes.txt").write_text("no trace\n")
    process = subprocess.Popen([str(rig.opmeter), "add", "--watch", str(inbox), "--every", "1", "--to",
                                str(folder / "runs.db"), "--job", "j"], stdout=subprocess.PIPE, text=True)
    try:
        for p in paths:
            shutil.copy(p, inbox)
            if f"{inbox / p.name}: added" not in process.stdout.readline():
                raise Failure(f"{p.name} was not added")
        process.send_signal(signal.SIGTERM)
        expect("exit status", process.wait(60), 0)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    expect("ranks", [r["rank"] for r in table(folder / "runs.db", "j", "ranks")], [0, 1, 2])


def watched_as_somebody(folder):
    """What may not be read is said once, and added once it may; all else goes on."""
    if os.getuid():
        raise Skip("only root can be somebody else")
    inbox = folder / "inbox"
    paths = Job(ranks=3, steps=4, layers=2).write(inbox)
    for path in (folder.parent, folder, inbox):
        path.chmod(0o777)
    paths[1].chmod(0o600)
    program = shutil.copy(rig.opmeter, folder)
    process = subprocess.Popen([program, "add", "--watch", "inbox", "--every", "1", "--idle", "5", "--to", "runs.db", "--job", "j"], cwd=folder,
                               user=65534, group=65534, extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        added = [process.stdout.readline() for _ in range(2)]
        time.sleep(2.5)
        paths[1].chmod(0o644)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    expect("exit status", process.returncode, 0)
    expect("what is said of the one that may not be read", err, "opmeter: inbox/rank00001.json: Permission denied\n")
    expect("added", [*added, out], [f"inbox/rank{r:05d}.json: added to job j\n" for r in (0, 2, 1)])


def from_python(folder):
    """opmeter.connect(): DataFrames of the same tables."""
    python = os.environ.get("OPMETER_TEST_PYTHON", "/usr/bin/python3")
    package = rig.opmeter.parent / "python"
    db = folder / "runs.db"
    add(db, "j", Job(ranks=4, steps=12, late=2).write(folder / "job"))
    program = ("import opmeter, sys; f = opmeter.connect(sys.argv[1]); j = f.job('j'); print(len(f.jobs()), j.late_ranks(),"
               " j.heatmap().shape, len(j.ops()), f.query('SELECT count(*) AS n FROM rank_step').n[0],"
               " len(j.open(1).rows('SELECT * FROM step')))")
    env = {**os.environ, "PYTHONPATH": str(package)}
    if subprocess.run([python, "-c", "import opmeter._opmeter, pandas"], env=env, capture_output=True).returncode:
        raise Skip("the Python package is not built, or there is no pandas (Debian's python3-pandas)")
    done = subprocess.run([python, "-c", program, str(db)], env=env, capture_output=True, text=True, timeout=120)
    expect("what Python says", (done.stdout.split(), done.stderr), (["1", "[2]", "(4,", "12)", "15", "48", "12"], ""))


# ---- ClickHouse ----

def same_answers(folder):
    """A file, one server and three: the same answers to everything, to the last digit."""
    c = need_servers(folder)
    db = folder / "runs.db"
    paths = Job(ranks=8, steps=20, late=5, slow_link=2, slow_op=3, leak=6).write(folder / "job")
    odd = "o'clock \\ \"x\"\t"
    for where in (db, c.url("same"), c.url("same3", cluster=True)):
        for job in ("j", odd):
            add(where, job, [*paths, "--spans"])
            add(where, job, paths)
    for job in ("j", odd):
        wanted, rows = page(db, job), counts(db, "j")
        for where in (c.url("same"), c.url("same3", cluster=True)):
            expect(f"answers of {where}", page(where, job), wanted)
            expect(f"rows of {where}", counts(where, "j"), rows)
            for args in (("top", where, job, "--json"), ("steps", where, job, "--csv"),
                         ("query", where, "SELECT job, ranks, spans FROM job ORDER BY job", "--csv")):
                expect(f"{args}", run(*args).stdout, run(*(db if a == where else a for a in args)).stdout)
    spread = [int(c.ask("SELECT count() FROM rank_file_rows", i, database="same3")) for i in range(3)]
    if sum(spread) != 16 or max(spread) == 16:
        raise Failure(f"ranks are not spread over the servers: {spread}")


def server_faults(folder):
    """Down, slow, wrong password, killed while inserting, two writers, an older schema."""
    c = need_servers(folder)
    paths = Job(ranks=6, steps=10).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    wanted = counts(folder / "whole.db", "j")
    url = c.url("faults")

    line = one_line(run("add", paths[0], "--to", f"clickhouse://127.0.0.1:{clickhouse.free_ports(1)[0]}/x?tries=2",
                        "--job", "j", status=1))
    if "cannot be reached" not in line:
        raise Failure(line)
    for env, status in (({}, 1), ({"OPMETER_CLICKHOUSE_PASSWORD": "wrong"}, 1),
                        ({"OPMETER_CLICKHOUSE_PASSWORD": "secret word"}, 0)):
        done = run("add", "-q", paths[0], "--to", c.url("secret", user="writer"), "--job", "j", status=status, env=env)
        if status and ("writer" not in one_line(done) or "password" not in done.stderr):
            raise Failure(done.stderr)
    (folder / "pass").write_text("secret word\n")
    expect("with a password from a file", len(json.loads(run(
        "job", c.url("secret", user="writer"), "j", "--show", "ranks", "--json",
        env={"OPMETER_CLICKHOUSE_PASSWORD_FILE": str(folder / "pass")}).stdout)), 1)
    done = run("query", f"clickhouse://writer:secret%20word@127.0.0.1:{c.http[0]}/secret", "SELECT x FROM job", status=1)
    if "secret word" in done.stderr or "secret%20word" in done.stderr:
        raise Failure(f"the password is said: {done.stderr}")
    expect("a user that may only read", counts(c.url("secret", user="reader"), "j")["rank_file"], 1)

    # Killed half-way, at several moments; then the next add completes it.
    for i in range(8):
        process = subprocess.Popen([str(rig.opmeter), "add", "-q", *map(str, paths), "--to", url, "--job", "j"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.03 * (i + 1))
        process.kill()
        process.wait()
    add(url, "j", paths)
    expect("rows after kills", counts(url, "j"), wanted)

    several = [subprocess.Popen([str(rig.opmeter), "add", "-q", *map(str, paths), "--to", c.url("several"), "--job", "j"],
                                stderr=subprocess.PIPE) for _ in range(4)]
    for process in several:
        expect("exit status of a writer", (process.wait(200), process.stderr.read()), (0, b""))
        process.stderr.close()
    expect("rows of several writers", counts(c.url("several"), "j"), wanted)

    several = page(c.url("several"), "j")
    c.ask("ALTER TABLE opmeter_version DROP PARTITION 4", database="several")
    c.ask("INSERT INTO opmeter_version (version) VALUES (1)", database="several")
    c.ask("DROP TABLE rank_op_sum", database="several")
    c.ask("DROP TABLE rank_op_sum_rows", database="several")
    c.ask("ALTER TABLE rank_batch_rows DELETE WHERE unit = 'sums'", database="several")
    if "older opmeter" not in one_line(run("job", c.url("several"), status=1)):
        raise Failure("an older schema is not said")
    end = time.monotonic() + 60
    while time.monotonic() < end and c.ask("SELECT count() FROM rank_batch_rows WHERE unit = 'sums'", database="several") != "0\n":
        time.sleep(0.2)
    add(c.url("several"), "j", paths)
    expect("rows of an older schema", counts(c.url("several"), "j"), {**wanted, "rank_op_sum": 0})
    expect("answers of an older schema", page(c.url("several"), "j"), several)
    c.ask("INSERT INTO opmeter_version (version) VALUES (99)", database="several")
    if "newer opmeter" not in one_line(run("job", c.url("several"), status=1)):
        raise Failure("a newer schema is not said")


def cut_connections(folder):
    """The connection breaks before or after the server inserted: nothing is lost, nothing twice."""
    c = need_servers(folder)
    paths = Job(ranks=4, steps=10).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    wanted = counts(folder / "whole.db", "j")
    add(c.url("cut"), "warm", paths[:1])
    inserts = 0

    def cut(n, head):
        nonlocal inserts
        if b"INSERT" not in head.split(b"\r\n")[0]:
            return None
        inserts += 1
        return {0: "before", 2: "after", 5: "after"}.get(inserts % 7)

    proxy = Proxy(c.http[0], cut)
    add(f"clickhouse://127.0.0.1:{proxy.listen}/cut?tries=6", "j", paths, timeout=280)
    proxy.socket.close()
    if inserts < 20:
        raise Failure(f"only {inserts} insertions were seen")
    expect("rows", counts(c.url("cut"), "j"), wanted)


def down_meanwhile(folder):
    """One server of three goes away: said in one line; when it is back, adding again completes it."""
    c = need_servers(folder)
    paths = Job(ranks=6, steps=4).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    url = c.url("away", cluster=True, options="tries=2")
    add(url, "warm", paths[:1])
    c.stop(2, signal.SIGKILL)
    one_line(run("add", "-q", *paths, "--to", url, "--job", "j", status=1, timeout=280))
    c.start(2)
    c.wait(2)
    add(url, "j", paths)
    expect("rows", counts(url, "j"), counts(folder / "whole.db", "j"))


TESTS = (planted, late_ranks, machines, drift, merging, arrivals, again, killed, half_written, writers, older, older_ranks, odd_names, wrong_use, watched, watched_as_somebody, from_python,
         same_answers, server_faults, cut_connections, down_meanwhile, *tls.TESTS, *faults.TESTS, *newer.TESTS, *large.TESTS,
         *histories.TESTS, *launchers.TESTS, *today.TESTS, *lateness.TESTS,
         *truths.TESTS, *recordings.TESTS, *hostile.TESTS, *subset.TESTS)


def main():
    global ranks_to_merge
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build" / "dev"))
    parser.add_argument("--ranks", type=int, default=int(os.environ.get("OPMETER_FLEET_RANKS", "64")))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    rig.opmeter, ranks_to_merge = Path(args.build).resolve() / "opmeter", args.ranks
    tests = [t for t in TESTS if not args.names or t.__name__ in args.names]
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="opmeter-fleet-") as top:
        try:
            for number, test in enumerate(tests, 1):
                folder = Path(top) / test.__name__
                folder.mkdir()
                try:
                    test(folder)
                    print(f"ok {number} - {test.__name__}", flush=True)
                except Skip as why:
                    print(f"ok {number} - {test.__name__} # SKIP {why}", flush=True)
                except (Failure, subprocess.TimeoutExpired, RuntimeError, OSError) as why:
                    failed += 1
                    print(f"not ok {number} - {test.__name__}\n# {why}", flush=True)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            rig.stop_servers()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
