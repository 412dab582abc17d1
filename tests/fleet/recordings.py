"""recordings.py -- recordings of ranks that are missing, cut off or there twice: what is shown is of those that count, and said."""
import json

import clickhouse
from fleet_job import START_NS, Job
from rig import Failure, add, expect, need_servers, page, run, table


def catalogues(folder):
    yield folder / "runs.db"
    if clickhouse.available():
        yield need_servers(folder).url("recordings")
        yield need_servers(folder).url("recordings3", cluster=True)


def said(where, job):
    """The text above the first table, in one line."""
    return " ".join(run("job", where, job).stdout.split("How much later")[0].split())


def figures(where, job):
    """All that is shown, without what counts recordings."""
    out = page(where, job)
    for row in out["ranks"]:
        del row["recordings"], row["left_out"], row["trace"]
    del out["job"]
    return out


def twice(folder):
    """A job that was begun anew under its name, wholly or one rank of it: the later recording counts; steps that go on count all."""
    first = Job(ranks=4, steps=12, late=2, seed=1).write(folder / "first")
    again = Job(ranks=4, steps=9, late=1, seed=2, begin_ns=START_NS + 600 * 10**9).write(folder / "again")
    later = Job(ranks=4, steps=5, seed=3, begin_ns=START_NS + 900 * 10**9, first_step=50).write(folder / "later")
    for where in catalogues(folder):
        add(where, "first", first)
        add(where, "again", again)
        add(where, "all", [*again, *first])
        expect("figures of a job that was begun anew", figures(where, "all"), figures(where, "again"))
        expect("recordings", [(r["recordings"], r["left_out"]) for r in table(where, "all", "ranks")], [(2, 1)] * 4)
        text = said(where, "all")
        if "4 ranks (0, 1, 2, ...) recorded the same steps more than once" not in text or "4 are left out" not in text:
            raise Failure(f"not said: {text}")
        add(where, "mixed", [*first[:1], again[1], *first])
        expect("late", [r["late"] for r in table(where, "mixed", "late") if r["share"] > 1], [])
        expect("ranks with two", [r["rank"] for r in table(where, "mixed", "ranks") if r["left_out"]], [1])
        add(where, "goes on", [*first, *later])
        expect("left out of steps that go on", [r["left_out"] for r in table(where, "goes on", "ranks")], [0] * 4)
        expect("steps of both", [r["num"] for r in table(where, "goes on", "steps")], [*range(12), *range(50, 55)])
        if "more than once" in said(where, "goes on"):
            raise Failure("steps that go on are called twice")
        for args in (("top", where, "all", "--json"), ("steps", where, "all", "--json")):
            expect(f"{args}", run(*args).stdout, run(*("again" if a == "all" else a for a in args)).stdout)


def cut_short(folder):
    """A recording that was added while it was being copied, and again when it was whole; one whose end is gone for good."""
    paths = Job(ranks=3, steps=12, late=2).write(folder / "job")
    whole, cut = [], folder / "rank1.opm"
    for rank, path in enumerate(paths):
        whole.append(folder / f"rank{rank}.opm")
        run("import", "-q", path, "-o", whole[-1])
    data = whole[1].read_bytes()
    for where in catalogues(folder):
        add(where, "whole", whole)
        cut.write_bytes(data[:len(data) * 3 // 4])
        add(where, "j", whole)
        expect("ranks of which part is lost", [r["rank"] for r in table(where, "j", "ranks") if r["lost"]], [1])
        if "Part of what 1 rank (1) recorded is missing" not in said(where, "j"):
            raise Failure(f"not said: {said(where, 'j')}")
        cut.write_bytes(data)
        add(where, "j", whole)
        expect("figures once it is whole", figures(where, "j"), figures(where, "whole"))
        if "Part of what" in said(where, "j"):
            raise Failure(f"the part that is lost is still said: {said(where, 'j')}")


def absent(folder):
    """Ranks that the job has and that nobody added."""
    paths = Job(ranks=8, steps=6, layers=2).write(folder / "job")
    for where in catalogues(folder):
        for rank in (1, 2, 6):
            run("add", "-q", paths[rank], "--to", where, "--job", "absent", env={"WORLD_SIZE": "8", "RANK": str(rank)})
        text = said(where, "absent")
        if "5 of the job's 8 ranks (0, 3, 4, ...) are not here" not in text:
            raise Failure(f"not said: {text}")


def exported(folder):
    """Ranks that went through one trace-event file are the same ranks."""
    paths = Job(ranks=4, steps=8, late=2).write(folder / "job")
    db = folder / "runs.db"
    for rank, path in enumerate(paths):
        run("import", "-q", path, "-o", folder / f"rank{rank}.opm")
    run("export", "-q", *sorted(folder.glob("rank*.opm")), "-f", "chrome", "-o", folder / "all.json")
    add(db, "direct", paths)
    add(db, "exported", [folder / "all.json"])
    rows = [[(r["rank"], r["last_count"], r["cost_ns"]) for r in table(db, job, "late")] for job in ("direct", "exported")]
    expect("late", rows[1], rows[0])


def grown(folder):
    """A recording without steps that was added while it was written, and again when it was whole."""
    events = [{"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": {"name": "stream 7", "kind": "stream", "device": "GPU 0"}}]
    for i, dur in enumerate((31, 77, 5, 190, 44, 230, 12, 501, 9, 63, 350, 8)):  # nothing that repeats
        events.append({"ph": "X", "pid": 1, "tid": 7, "ts": 1000 * i, "dur": dur, "name": f"kernel{i}", "cat": "kernel",
                       "args": {"layer": "hardware", "op": {"id": i, "name": f"op{i}", "type": "MatMul"}}})
    meta = {"opmeter.export": "1", "clock.start_realtime_ns": str(START_NS), "machine.host": "here"}
    paths = {}
    for name, n in (("part", 8), ("whole", 13)):
        paths[name] = folder / f"{name}.json"
        paths[name].write_text(json.dumps({"displayTimeUnit": "ns", "otherData": meta, "traceEvents": events[:n]}))
    for where in catalogues(folder):
        add(where, "grown whole", [paths["whole"], "--rank", "0"])
        for name in ("part", "whole"):
            add(where, "grown", [paths[name], "--rank", "0"])
        expect("steps", table(where, "grown", "steps"), [])
        expect("recordings", [(r["recordings"], r["left_out"]) for r in table(where, "grown", "ranks")], [(2, 1)])
        expect("executions", sum(r["count"] for r in table(where, "grown", "ops")), 12)
        expect("figures", figures(where, "grown"), figures(where, "grown whole"))


def unreadable(folder):
    """Of several recordings some cannot be read, or do not say which rank they are of: each is said, and the others are added."""
    paths = Job(ranks=4, steps=4, layers=2).write(folder / "job")
    (folder / "empty.json").write_bytes(b"")
    (folder / "half.json").write_text(paths[1].read_text()[:40])
    (folder / "nobody.json").write_text('{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":5,"name":"a"}]}')
    broken = [folder / name for name in ("empty.json", "half.json", "nobody.json", "none.json")]
    env = {name: "" for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")}
    for where in catalogues(folder):
        done = add(where, "unreadable", [broken[0], paths[2], *broken[1:], paths[0]], status=1, env=env)
        lines = done.stderr.splitlines()
        expect("files that are named", [next((p.name for p in broken if line.startswith(f"opmeter: {p}: ")), line) for line in lines[:-1]],
               [p.name for p in broken])
        expect("what is said at the end", lines[-1], f"opmeter: {str(where).split('?')[0]}: job unreadable: 4 of 6 recordings could not be read, the others are there")
        expect("ranks", [r["rank"] for r in table(where, "unreadable", "ranks")], [0, 2])


def several_in_one(folder):
    """What a file has of several ranks is counted for the rank that it is of."""
    paths = Job(ranks=3, steps=6, layers=2, slow_link=1).write(folder / "job")
    spans = [sum(e["ph"] == "X" for e in json.loads(p.read_text())["traceEvents"]) for p in paths]
    run("import", "-q", *paths, "-o", folder / "all.opm")
    add(folder / "runs.db", "j", [folder / "all.opm", "--spans"])
    rows = "SELECT r.rank, r.spans, count(*) AS kept FROM rank_file AS r JOIN rank_span AS s USING (rank) GROUP BY r.rank, r.spans ORDER BY r.rank"
    expect("spans", json.loads(run("query", folder / "runs.db", rows, "--json").stdout),
           [{"rank": rank, "spans": n, "kept": n} for rank, n in enumerate(spans)])
    expect("spans of the job", json.loads(run("query", folder / "runs.db", "SELECT spans FROM job", "--json").stdout), [{"spans": sum(spans)}])


def with_nul(folder):
    """Names that differ behind a NUL are different names."""
    paths = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    for path in paths:
        path.write_text(path.read_text().replace("layer0/", "nul\\u0000one/").replace("layer1/", "nul\\u0000two/"))
    for where in catalogues(folder):
        add(where, "with nul", [*paths, "--spans"])
        named = {r["name"]: r["count"] for r in table(where, "with nul", "ops") if r["name"].startswith("nul")}
        expect("operators", named, {"nul\u2400one/matmul": 12, "nul\u2400two/matmul": 12})


TESTS = (twice, cut_short, absent, exported, grown, unreadable, several_in_one, with_nul)
