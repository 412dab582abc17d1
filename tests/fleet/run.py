#!/usr/bin/env python3
"""run.py -- ranks of distributed jobs in a catalogue: what is planted in them is found, on any database.

usage: tests/fleet/run.py [--build DIR] [--ranks N] [NAME...]

Prints one `ok` or `not ok` line per test. Tests of ClickHouse start servers of Debian's package
clickhouse-server on loopback and are skipped where there is none; likewise those of Open MPI.
--ranks: how many the test of merging has (64).
"""
import argparse
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import clickhouse  # noqa: E402
from fleet_job import Job  # noqa: E402

JOBS = 50
opmeter = None
ranks_to_merge = 64


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def expect(what, got, wanted):
    if got != wanted:
        raise Failure(f"{what}: got {got!r}, expected {wanted!r}")


def near(what, got, wanted, share):
    if abs(got - wanted) > share * abs(wanted):
        raise Failure(f"{what}: got {got!r}, expected {wanted!r} within {share}")


def run(*args, status=0, env=None, timeout=300, cwd=None):
    done = subprocess.run([str(opmeter), *map(str, args)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})}, cwd=cwd)
    if done.returncode != status:
        raise Failure(f"opmeter {' '.join(map(str, args))[:300]}: exit status {done.returncode}, expected {status}: "
                      f"{done.stderr[:500]}")
    return done


def table(where, job, show):
    return json.loads(run("job", where, job, "--show", show, "--json").stdout)


def page(where, job):
    return json.loads(run("job", where, job, "--json").stdout)


def add(where, job, paths, **kwargs):
    return run("add", "-q", *paths, "--to", where, "--job", job, **kwargs)


def counts(where, job):
    """Rows of every table that ranks are kept in."""
    tables = ("rank_file", "rank_step", "rank_bucket", "rank_op", "rank_kernel", "rank_exchange", "rank_memory",
              "rank_advice", "rank_fact", "rank_span")
    return {t: json.loads(run("query", where, f"SELECT count(*) AS n FROM {t} WHERE job = '{job}'", "--json").stdout)
            [0]["n"] for t in tables}


def one_line(done):
    lines = done.stderr.splitlines()
    if len(lines) != 1 or not lines[0].startswith("opmeter: "):
        raise Failure(f"not one line: {done.stderr!r}")
    return lines[0]


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
        process = subprocess.Popen([str(opmeter), "add", "-q", *map(str, paths), "--to", str(db), "--job", "j"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.01 * (i + 1))
        process.kill()
        process.wait()
    add(db, "j", paths)
    expect("rows", counts(db, "j"), wanted)


def writers(folder):
    """Several writers of the same and of other ranks at once."""
    paths = Job(ranks=6, steps=6).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    several = [subprocess.Popen([str(opmeter), "add", "-q", *map(str, paths), "--to", str(folder / "runs.db"),
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
            (("add", paths[0], paths[1], "--to", db, "--job", "j", "--rank", "1"), 2, "goes with one RUN"),
            (("add", paths[0], "--to", db, "--rank", "1"), 2, "--job is needed"),
            (("query", db, "DELETE FROM rank_op"), 1, "only statements that read"),
            (("query", db, "SELECT nothing FROM rank_op"), 1, "nothing")):
        env = {name: "" for name in ("RANK", "WORLD_SIZE", "SLURM_JOB_ID", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID")}
        line = one_line(run(*args, status=status, env=env))
        if part not in line:
            raise Failure(f"{args}: {line}")
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


def watched(folder):
    """`add --watch` takes what appears, once it is at rest, and ends with a signal."""
    paths = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    inbox = folder / "inbox"
    inbox.mkdir()
    (inbox / "notes.txt").write_text("no trace\n")
    process = subprocess.Popen([str(opmeter), "add", "--watch", str(inbox), "--every", "1", "--to",
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


def under_mpi(folder):
    """`mpirun opmeter record --add-to`: job and ranks are known by themselves."""
    if not shutil.which("mpirun"):
        raise Skip("mpirun is not installed (Debian's openmpi-bin)")
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(["mpirun", "--oversubscribe", "-n", "3", str(opmeter), "record", "-q", "-o", "rank%r.opm",
                           "--add-to", "runs.db", "--", "sh", "-c",
                           f"exec {opmeter} run -q zoo:mlp -n 2 -o out$OMPI_COMM_WORLD_RANK"],
                          cwd=folder, env=env, capture_output=True, text=True, timeout=200)
    if done.returncode:
        raise Failure(f"mpirun: {done.stderr[-600:]}")
    rows = json.loads(run("query", folder / "runs.db", "SELECT rank, world FROM rank_file ORDER BY rank", "--json").stdout)
    expect("ranks", rows, [{"rank": r, "world": 3} for r in range(3)])


def from_python(folder):
    """opmeter.connect(): DataFrames of the same tables."""
    python = os.environ.get("OPMETER_TEST_PYTHON", "/usr/bin/python3")
    package = opmeter.parent / "python"
    db = folder / "runs.db"
    add(db, "j", Job(ranks=4, steps=12, late=2).write(folder / "job"))
    program = ("import opmeter, sys; f = opmeter.connect(sys.argv[1]); j = f.job('j'); print(len(f.jobs()), j.late_ranks(),"
               " j.heatmap().shape, len(j.ops()), f.query('SELECT count(*) AS n FROM rank_step').n[0],"
               " len(j.open(1).rows('SELECT * FROM step')))")
    env = {**os.environ, "PYTHONPATH": str(package)}
    if subprocess.run([python, "-c", "import opmeter, pandas"], env=env, capture_output=True).returncode:
        raise Skip("the Python package is not built, or there is no pandas (Debian's python3-pandas)")
    done = subprocess.run([python, "-c", program, str(db)], env=env, capture_output=True, text=True, timeout=120)
    expect("what Python says", (done.stdout.split(), done.stderr), (["1", "[2]", "(4,", "12)", "15", "48", "12"], ""))


# ---- ClickHouse ----

servers = None


def need_servers(folder):
    global servers
    if not clickhouse.available():
        raise Skip("clickhouse-server is not installed (Debian's package)")
    if servers is None:
        started = clickhouse.Cluster(folder.parent / "clickhouse", 3)
        started.__enter__()
        servers = started
    return servers


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
        process = subprocess.Popen([str(opmeter), "add", "-q", *map(str, paths), "--to", url, "--job", "j"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.03 * (i + 1))
        process.kill()
        process.wait()
    add(url, "j", paths)
    expect("rows after kills", counts(url, "j"), wanted)

    several = [subprocess.Popen([str(opmeter), "add", "-q", *map(str, paths), "--to", c.url("several"), "--job", "j"],
                                stderr=subprocess.PIPE) for _ in range(4)]
    for process in several:
        expect("exit status of a writer", (process.wait(200), process.stderr.read()), (0, b""))
        process.stderr.close()
    expect("rows of several writers", counts(c.url("several"), "j"), wanted)

    c.ask("ALTER TABLE opmeter_version DROP PARTITION 2", database="several")
    c.ask("INSERT INTO opmeter_version (version) VALUES (1)", database="several")
    if "older opmeter" not in one_line(run("job", c.url("several"), status=1)):
        raise Failure("an older schema is not said")
    add(c.url("several"), "j", paths)
    expect("rows of an older schema", counts(c.url("several"), "j"), wanted)
    c.ask("INSERT INTO opmeter_version (version) VALUES (99)", database="several")
    if "newer opmeter" not in one_line(run("job", c.url("several"), status=1)):
        raise Failure("a newer schema is not said")


class Proxy:
    """Between opmeter and a server: cuts connections as told, also after the server has done its work."""

    def __init__(self, port, cut):
        self.port, self.cut, self.seen = port, cut, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.listen = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        with client, socket.create_connection(("127.0.0.1", self.port)) as server:
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = client.recv(65536)
                    if not piece:
                        return
                    head += piece
                head, body = head.split(b"\r\n\r\n", 1)
                length = int(next(l.split(b":")[1] for l in head.lower().split(b"\r\n") if l.startswith(b"content-length:")))
                while len(body) < length:
                    body += client.recv(65536)
                self.seen += 1
                what = self.cut(self.seen, head)
                if what == "before":
                    return
                server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + b"\r\n\r\n" + body)
                answer = b""
                for piece in iter(lambda: server.recv(65536), b""):
                    answer += piece
                if what != "after":
                    client.sendall(answer)
                return


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


TESTS = (planted, late_ranks, machines, drift, merging, arrivals, again, killed, writers, older, wrong_use, watched, under_mpi, from_python,
         same_answers, server_faults, cut_connections, down_meanwhile)


def main():
    global opmeter, ranks_to_merge
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build" / "dev"))
    parser.add_argument("--ranks", type=int, default=int(os.environ.get("OPMETER_FLEET_RANKS", "64")))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    opmeter, ranks_to_merge = Path(args.build).resolve() / "opmeter", args.ranks
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
            if servers is not None:
                servers.__exit__()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
