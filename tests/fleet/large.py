"""large.py -- a recording that is larger than memory is reduced all the same, to the same rows."""
import os
import resource
import sqlite3

import rig
from fleet_job import Job
from rig import Failure, expect, one_line, run

DATA_BYTES = 40 << 20  # what a process may have that is no file's


def little_memory():
    """Before opmeter starts: little memory of its own, and one processor, as threads need stacks."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))


def rows(db):
    """Of every table, without what differs from one time of adding to the next."""
    with sqlite3.connect(db) as c:
        tables = [name for name, in c.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'rank_*'"
                                              " AND name <> 'rank_batch'")]
        out = {}
        for table in tables:
            columns = [row[1] for row in c.execute(f"PRAGMA table_info({table})") if row[1] not in ("batch", "added_ns")]
            out[table] = sorted(map(repr, c.execute(f"SELECT {', '.join(columns)} FROM {table}")))
    c.close()
    return out


def larger_than_memory(folder):
    """As .opm and as JSON, with 40 MiB: refused where memory has to do, added by way of a file in TMPDIR."""
    path, = Job(ranks=1, steps=60, layers=3000, buckets=2, names=300).write(folder / "job")
    opm = folder / "rank0.opm"
    run("import", "-q", path, "-o", opm)
    for what in (opm, path):
        whole, parts, none = (folder / f"{name}{what.suffix}.db" for name in ("whole", "parts", "none"))
        add = ("add", "-q", what, "--job", "j", "--spans", "--to")
        run(*add, whole)
        done = rig.run_within(little_memory, *add, none, status=1)
        if "memory" not in one_line(done):
            raise Failure(f"{what.name} fits into {DATA_BYTES} bytes: {done.stderr!r}")
        rig.run_within(little_memory, *add, parts, "--max-memory", "24M", env={"TMPDIR": str(folder)})
        expect(f"rows of {what.name}", rows(parts), rows(whole))
        one_line(rig.run_within(little_memory, *add, none, "--max-memory", "1M", status=1), "--max-memory")
    expect("files that are left", sorted(p.name for p in folder.iterdir() if p.suffix not in (".db", ".opm")), ["job"])


TESTS = (larger_than_memory,)
