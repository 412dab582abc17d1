"""histories.py -- catalogues of runs: what changed, operators over time, and the traces of runs, which a catalogue may name wrongly."""
import json
import shutil
import sqlite3
import subprocess

from http_client import Server, expect, expect_in, span

RUNS, SLOWER_FROM, CONV, FC = 16, 8, 400, 200


def run_file(folder, n):
    """Five steps; from SLOWER_FROM on conv takes 60 us longer. What is left over varies by 0.1 %."""
    conv = CONV + (60 if n >= SLOWER_FROM else 0) + 0.1 * (n * 3 % 7)
    events = []
    for i in range(5):
        at = 3000 * i
        events.append(span("net", at, 900 + conv, cat="step", args={
            "layer": "app", "step": {"id": i, "num": i, "model": "net", "warmup": 0}}))
        for k, (op, us) in enumerate((("conv", conv), ("fc", FC))):
            events.append(span(op, at + 600 * k, us, tid=2, args={
                "layer": "hardware", "step": {"id": i}, "op": {"id": k, "name": op, "type": op.title()}}))
    meta = {"opmeter.export": "1", "model.name": "net", "clock.start_realtime_ns": str((1700000000 + 3600 * n) * 10**9)}
    path = folder / f"{n:02}.json"
    path.write_text(json.dumps({"displayTimeUnit": "ns", "otherData": meta, "traceEvents": events}))
    return path


def catalogue(opmeter, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(RUNS):
        branch = "side" if n == RUNS - 1 else "main"
        subprocess.run([opmeter, "add", "-q", run_file(folder, n), "--to", folder / "runs.db", "--commit", f"{n:010}", "--label",
                        f"branch={branch}"], check=True)
    return folder / "runs.db"


def changes_and_traces(opmeter, folder):
    path = catalogue(opmeter, folder / "kept")
    with Server(opmeter, path) as server:
        expect("version", server.json("/api/version")["histories"], True)
        (only,) = server.json("/api/histories")
        at = f"/api/history/{only['id']}"
        (series,) = server.json(at)["series"]
        expect("runs", [run["commit"] for run in series["runs"]], [f"{n:010}" for n in range(RUNS)])
        (change,) = series["changes"]
        expect("place", (change["at"], change["by"], change["before_commit"], change["after_commit"]),
               (SLOWER_FROM, "code", "0000000007", "0000000008"))
        expect("operators", [op["name"] for op in change["operators"]], ["conv"])
        times = server.json(f"{at}/operators?series=0")["operators"]
        expect("by time", [op["name"] for op in times], ["conv", "fc"])
        expect("fc over time", times[1]["ns"], [1000 * FC] * RUNS)
        expect("label", len(server.json(f"{at}?label=branch=main")["series"][0]["runs"]), RUNS - 1)
        expect("model", server.json(f"{at}?model=other")["series"], [])
        ids = [server.json(f"{at}/trace?run={series['runs'][n]['id']}")["id"] for n in (7, 8)]
        rows = server.json(f"/api/trace/{ids[0]}/diff?with={ids[1]}")["rows"]
        expect("side by side", [row[4] for row in rows if row[0] == "conv"], ["slower"])
        for wrong, status in ((f"{at}/operators?series=1", 404), (f"{at}/operators?series=-1", 400), (f"{at}/trace", 400),
                              (f"{at}/trace?run=0", 404), (f"{at}?label=x", 400), ("/api/history/0", 404)):
            expect(f"status of {wrong}", server.get(wrong).status, status)


def foreign_traces(opmeter, folder):
    """A trace is opened beside the catalogue that was named, or in a folder that is served, and nowhere else."""
    path = catalogue(opmeter, folder / "kept")
    secret = run_file(folder, 99)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE run SET trace = ? WHERE commit_id = '0000000000'", (str(secret),))
        db.execute("UPDATE run SET trace = '/etc/passwd' WHERE commit_id = '0000000001'")
        db.execute("UPDATE run SET trace = ? WHERE commit_id = '0000000002'", (str(folder / "kept/../99.json"),))
        db.execute("UPDATE run SET trace = ? WHERE commit_id = '0000000003'", (str(path),))
        db.execute("UPDATE run SET trace = NULL WHERE commit_id = '0000000004'")
    db.close()
    (folder / "kept/link.json").symlink_to(secret)
    (folder / "kept/05.json").unlink()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE run SET trace = ? WHERE commit_id = '0000000006'", (str(folder / "kept/link.json"),))
    db.close()

    def statuses(server):
        (only,) = server.json("/api/histories")
        (series,) = server.json(f"/api/history/{only['id']}")["series"]
        return [server.get(f"/api/history/{only['id']}/trace?run={run['id']}").status for run in series["runs"]]

    with Server(opmeter, path) as server:
        expect("of a file", statuses(server), [404, 404, 404, 422, 404, 404, 404] + [200] * (RUNS - 7))
    with Server(opmeter, folder / "kept") as server:
        expect("of a folder", statuses(server), [404, 404, 404, 422, 404, 404, 404] + [200] * (RUNS - 7))
        expect("traces of the folder", len(server.json("/api/traces")), RUNS - 1)
    with Server(opmeter, path, folder) as server:
        expect("with the folder around", statuses(server), [200, 404, 200, 422, 404, 404, 200] + [200] * (RUNS - 7))


def broken_catalogues(opmeter, folder):
    path = catalogue(opmeter, folder / "kept")
    with Server(opmeter, folder / "kept") as server:
        (only,) = server.json("/api/histories")
        at = f"/api/history/{only['id']}"
        whole = path.read_bytes()
        for wrong in (whole[:5000], whole[:100] + bytes(len(whole) - 100), b"", b"not a database" * 1000):
            path.write_bytes(wrong)
            answer = server.get(at)
            expect_in("status of a broken one", answer.status, (200, 400, 410, 422))
        path.write_bytes(whole)
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
        expect("status of a newer one", server.get(at).status, 422)
        shutil.rmtree(folder / "kept")
        expect_in("status of what is gone", server.get(at).status, (404, 410, 422))


TESTS = [changes_and_traces, foreign_traces, broken_catalogues]
