"""jobs.py -- databases of jobs: what is asked of them, and which traces they lead to."""
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from http_client import Server, expect, expect_in

ROOT = Path(__file__).resolve().parent.parent.parent
JOB = "a/b ü"


def make(opmeter, folder, traces, ranks=3):
    """A database in `folder` of recordings in `traces`; the last rank is late."""
    subprocess.run([sys.executable, ROOT / "bench" / "fleet_job.py", traces, "--ranks", str(ranks), "--steps", "8",
                    "--late", str(ranks - 1)], check=True)
    folder.mkdir(exist_ok=True)
    for rank in range(ranks):
        subprocess.run([opmeter, "add", traces / f"rank{rank:05d}.json", "--to", folder / "runs.db", "--job", JOB,
                        "--rank", str(rank)], check=True, capture_output=True)
    return folder / "runs.db"


def jobs(opmeter, folder):
    db = make(opmeter, folder, folder / "recordings")
    with Server(opmeter, db) as server:
        expect("fleets", server.json("/api/version")["fleets"], 1)
        expect("list", [f["id"] for f in server.json("/api/fleets")], ["0"])
        expect("jobs", [row[:2] for row in server.json("/api/fleet/0/jobs")["rows"]], [[JOB, 3]])
        at = f"/api/fleet/0/job/{quote(JOB, safe='')}"
        late = server.json(f"{at}/late")
        first = dict(zip(late["columns"], late["rows"][0]))
        expect("who is late", (first["rank"], first["late"]), (2, 1))
        told = server.json(f"{at}/heatmap")
        expect("fields", (len(told["rows"]), told["bin"]), (24, 1))
        id = server.json(f"{at}/rank/2")["id"]
        expect_in("its trace", "rank00002", server.json(f"/api/trace/{id}")["path"])
        expect("again", server.json(f"{at}/rank/2")["id"], id)
        for target, status in ((f"{at}/spam", 404), (f"{at}/rank/3", 404), (f"{at}/rank/x", 400), (f"{at}/rank/", 404),
                               ("/api/fleet/1/jobs", 404), ("/api/fleet/x/jobs", 404), ("/api/fleet/0/job/no/late", 404),
                               (f"/api/fleet/0/job/{quote(chr(39))}/late", 404), ("/api/fleet/0/spam", 404)):
            expect(target, server.get(target).status, status)
        (folder / "recordings" / "rank00001.json").unlink()
        server.error(f"{at}/rank/1", 404, "is not here")


def jobs_elsewhere(opmeter, folder):
    """A trace that lies in no folder that is served is not opened, whatever the database says."""
    db = make(opmeter, folder / "db", folder / "elsewhere")
    at = f"/api/fleet/0/job/{quote(JOB, safe='')}"
    with Server(opmeter, db) as server:
        server.error(f"{at}/rank/0", 404, "no folder that is served")
        expect("traces", server.json("/api/traces"), [])
    with Server(opmeter, db, folder / "elsewhere") as server:
        expect_in("its trace", "rank00000", server.json(f"/api/trace/{server.json(f'{at}/rank/0')['id']}")["path"])
    link = folder / "db" / "rank00000.json"
    shutil.move(folder / "elsewhere" / "rank00000.json", folder / "outside.json")
    (folder / "elsewhere" / "rank00000.json").symlink_to(folder / "outside.json")
    link.symlink_to(folder / "outside.json")
    with Server(opmeter, db, folder / "elsewhere") as server:
        server.error(f"{at}/rank/0", 404, "no folder that is served")


def jobs_none(opmeter, folder):
    """A database of runs alone has no jobs; a damaged one is no database."""
    subprocess.run([opmeter, "run", "zoo:mlp", "-q", "-n", "2", "-w", "1", "-o", folder / "run"], check=True, capture_output=True)
    subprocess.run([opmeter, "add", folder / "run" / "trace.opm", "--to", folder / "runs.db"], check=True, capture_output=True)
    with Server(opmeter, folder / "runs.db") as server:
        expect("fleets", server.json("/api/version")["fleets"], 0)
        status = server.get("/api/fleet/0/job/1/late").status
        expect("a question all the same", status in (404, 422, 400), True)


TESTS = [jobs, jobs_elsewhere, jobs_none]
