#!/usr/bin/env python3
"""run.py -- `opmeter serve` and `opmeter report`, asked over sockets by good and bad clients.

usage: tests/server/run.py [--build DIR] [NAME...]

Prints one `ok` or `not ok` line per test.
"""
import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import compared
import costly
import crowd
import drop
import histories
import jobs
import reports
from http_client import (PATIENCE_S, Answer, Failure, Server, expect, expect_in, span, sql_target,
                         trace_json)

ROOT = Path(__file__).resolve().parent.parent.parent
SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
SECRET = "not for the page"
SCRIPT = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>"

opmeter = None


def small(folder, name="small.json"):
    """A trace with two threads, nesting, a counter, and names that try to be more than names."""
    return trace_json(folder / name, [
        span("outer", 0, 100), span("inner", 10, 20), span("inner", 40, 20),
        span(SCRIPT, 200, 50, tid=2, args={SCRIPT: SCRIPT}),
        *({"ph": "C", "name": "memory", "ts": 10 * i, "pid": 1, "args": {"bytes": i * i}}
          for i in range(20)),
    ])


# ---- what is answered ----

def page(folder):
    with Server(opmeter, small(folder)) as server:
        index = server.get("/")
        expect("status", index.status, 200)
        expect("type", index.headers["content-type"], "text/html; charset=utf-8")
        expect_in("page", b"<!doctype html>", index.body.lower())
        for name in re.findall(rb'(?:src|href)="/([^"]+)"', index.body):
            expect(f"status of {name}", server.get(f"/{name.decode()}").status, 200)
        for target in ("/t/abc/operators", "/x", "/?theme=dark"):
            expect(f"page at {target}", server.get(target).body, index.body)
        for target in ("/nothing.js", "/a/b.css", "/index.html/x.y", "/api", "/api/nothing"):
            expect(f"status of {target}", server.get(target).status, 404)


def headers(folder):
    with Server(opmeter, small(folder)) as server:
        trace = server.only_id()
        for target in ("/", "/app.js", "/api/version", f"/api/trace/{trace}/export/chrome",
                       "/nothing.js", "/%zz"):
            told = server.get(target).headers
            policy = told["content-security-policy"]
            expect_in(target, "default-src 'none'", policy)
            expect_in(target, "frame-ancestors 'none'", policy)
            expect(f"unsafe in the policy of {target}", "unsafe" in policy, False)
            expect(target, told["x-content-type-options"], "nosniff")
            expect(target, told["referrer-policy"], "no-referrer")
            expect(f"CORS of {target}", "access-control-allow-origin" in told, False)


def methods(folder):
    with Server(opmeter, small(folder)) as server:
        head, get = server.get("/", method="HEAD"), server.get("/")
        expect("HEAD", (head.status, head.body), (200, b""))
        expect("length", head.headers["content-length"], get.headers["content-length"])
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"):
            answer = server.get("/api/version", method=method)
            expect(f"status of {method}", answer.status, 405)
            expect("Allow", answer.headers["allow"], "GET, HEAD")
        body = server.raw(b"POST /api/version HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
                          b"Connection: close\r\n\r\nhello")
        expect("status of POST with a body", Answer(body).status, 405)


def kept_connection(folder):
    """Several requests on one connection, also sent at once."""
    with Server(opmeter, small(folder)) as server, server.connect() as client:
        request = b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.sendall(request * 3)
        told = b""
        while told.count(b'"version"') < 3:
            part = client.recv(65536)
            if not part:
                raise Failure(f"closed after {told!r}")
            told += part


def rows(folder):
    with Server(opmeter, small(folder)) as server:
        trace = server.only_id()
        about = server.json(f"/api/trace/{trace}")
        expect("spans", about["rows"]["span"], 4)
        expect("samples", about["rows"]["sample"], 20)
        expect("duration", about["duration_ns"], 250000)
        answer = server.sql(trace, "SELECT 1 AS a, 2.5 AS b, 'x' AS c, NULL AS d, "
                                   "9007199254740993 AS e")
        expect("answer", answer, {"columns": list("abcde"),
                                  "types": ["integer", "real", "text", "null", "integer"],
                                  "rows": [[1, 2.5, "x", None, "9007199254740993"]],
                                  "truncated": False})
        name = server.sql(trace, "SELECT name, args FROM span WHERE ts = 200000")["rows"][0]
        expect("name", (name[0], json.loads(name[1])[SCRIPT]), (SCRIPT, SCRIPT))


def clipped_range(folder):
    """Of spans that reach into a range only that part counts, also for what they enclose."""
    def span(name, tid, ts, dur):
        return {"ph": "X", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
    made = trace_json(folder / "range.json", [span("outer", 1, 0, 100), span("inner", 1, 20, 40),
                                              span("other", 2, 90, 60), span("after", 2, 200, 5)])
    with Server(opmeter, made) as server:
        at = f"/api/trace/{server.only_id()}/totals"
        answer = server.json(f"{at}?from=50000&to=95000")
        first = server.json(f"{at}?from=50000&to=95000&limit=1")
        server.error(f"{at}?from=5&to=5", 400, "the range is empty")
    expect("cut short", ([row[0] for row in first["rows"]], first["truncated"]), (["outer"], True))
    found = {row[0]: row[3:] for row in answer["rows"]}
    expect("range", found, {"outer": [1, 45000, 35000], "inner": [1, 10000, 10000],
                            "other": [1, 5000, 5000]})


def flame(folder):
    """Spans of one name inside the same are one node; a range cuts them."""
    made = trace_json(folder / "flame.json", [
        span("step", 0, 100), span("op", 10, 20), span("kernel", 12, 4), span("op", 40, 20),
        span("kernel", 45, 10), span("op", 200, 50), span("other", 0, 30, tid=2)])
    with Server(opmeter, made) as server:
        at = f"/api/trace/{server.only_id()}/flame"
        def tree(args):
            rows = server.json(at + args)["rows"]
            def path(i):
                return () if i < 0 else (*path(rows[i][0]), rows[i][1])
            return {path(i)[1:]: tuple(rows[i][2:]) for i in range(len(rows)) if rows[i][0] >= 0}
        expect("all", tree("?from=0&to=250000"), {
            ("step",): (1, 100000), ("step", "op"): (2, 40000), ("step", "op", "kernel"): (2, 14000),
            ("op",): (1, 50000), ("other",): (1, 30000)})
        expect("clipped", tree("?from=50000&to=90000"), {
            ("step",): (1, 40000), ("step", "op"): (1, 10000), ("step", "op", "kernel"): (1, 5000)})
        tracks = {row[1]: row[0] for row in server.sql(
            server.only_id(), "SELECT track, min(name) FROM span GROUP BY track")["rows"]}
        expect("one track", tree(f"?from=0&to=250000&track={tracks['other']}"), {("other",): (1, 30000)})
        expect("before everything", server.json(at + "?from=-10&to=-5")["rows"], [])


def named_queries(folder):
    """Every query of queries.def is sound, on traces with much and with nothing in them."""
    run = folder / "run"
    subprocess.run([opmeter, "run", "zoo:mlp", "-n", "2", "-q", "-o", run], check=True,
                   capture_output=True)
    text = (ROOT / "src" / "server" / "queries.def").read_text()
    queries = re.findall(r'^QUERY\((\w+),\s*"([^"]*)"', text, re.M)
    with Server(opmeter, small(folder), run / "trace.opm",
                trace_json(folder / "none.json", [])) as server:
        for entry in server.traces().values():
            for name, args in queries:
                given = "&".join(f"{a.split(':')[0]}=1" for a in args.split()
                                 if "=" not in a and "?" not in a)
                server.json(f"/api/trace/{entry['id']}/data/{name}?{given}")
        trace = server.only_id()
        server.error(f"/api/trace/{trace}/data/nothing", 404, "no query")
        server.error(f"/api/trace/{trace}/data/op_spans", 400, "needs the argument op")
        server.error(f"/api/trace/{trace}/data/op_spans?op=x", 400, "no integer")
        server.error(f"/api/trace/{trace}/data/op_spans?op=1&o=2", 400, "no argument 'o'")
        server.error(f"/api/trace/{trace}/data/op_spans?op=1&op=2", 400, "twice")
        expect("a text with quotes", server.json(
            f"/api/trace/{trace}/data/named_spans?name=%27%29%3b--%22")["rows"], [])


def merged(folder):
    """What is united says how busy it was, and is named only if one name makes up most of it."""
    made = trace_json(folder / "merged.json", [
        *(span("most", 4 * i, 2) for i in range(500)),
        *(span("a" if i % 2 else "b", 4 * i, 1, tid=2) for i in range(500))])
    with Server(opmeter, made) as server:
        picture = server.json(f"/api/trace/{server.only_id()}/timeline?width=10")
    expect("bars", [track["spans"] for track in picture["tracks"]],
           [[[0, 1998000, 0, picture["names"].index("most"), -1, 500, 1000000]],
            [[0, 1997000, 0, -1, -1, 500, 500000]]])


def search(folder):
    """A search counts all that it finds, goes from one to the next, and draws them alone."""
    made = trace_json(folder / "search.json", [
        *(span(f"layer{i % 10}.MatMul" if i % 5 == 0 else "other", 10 * i, 4) for i in range(5000)),
        span("around", 0, 50000, tid=2), span("a matmul", 10, 1, tid=2)])
    with Server(opmeter, made) as server:
        trace = server.only_id()
        ids = [row[0] for row in server.sql(
            trace, "SELECT id FROM span WHERE name LIKE '%matmul%' ORDER BY id")["rows"]]
        at = f"/api/trace/{trace}/found?text=matmul"
        expect("found", server.json(at + "&at=0"),
               {"count": 1001, "total_ns": 1000 * 4000 + 1000, "at": 0, "span": ids[0]})
        expect("the one before the first", server.json(at + "&at=-1")["span"], ids[-1])
        expect("the one after the last", server.json(at + "&at=1001")["span"], ids[0])
        expect("from a time on", server.json(at + "&from=25000001")["at"], 502)
        expect("nothing", server.json(f"/api/trace/{trace}/found?text=%25"),
               {"count": 0, "total_ns": 0, "at": 0, "span": -1})
        server.error(f"/api/trace/{trace}/found", 400, "text is missing")
        picture = server.json(f"/api/trace/{trace}/timeline?width=100&text=MATMUL")
        expect("drawn", sorted((bar[2], bar[5], bar[6] if bar[5] > 1 else bar[1])
                               for track in picture["tracks"] for bar in track["spans"]),
               [(0, 1000, 4000000), (1, 1, 1000)])


def busy_devices(folder):
    """How busy a device is over time: its streams united, and what only holds others left out."""
    def kernel(ts, dur, stream, cat="kernel"):
        return {"ph": "X", "cat": cat, "name": "k", "pid": 0, "tid": stream, "ts": ts, "dur": dur,
                "args": {"device": 0, "stream": stream}}
    made = trace_json(folder / "busy.json", [
        kernel(0, 20, 7), kernel(10, 20, 13), kernel(60, 40, 7),
        kernel(0, 100, 7, "gpu_user_annotation"), {**span("aten::mm", 0, 100), "cat": "cpu_op"}])
    with Server(opmeter, made) as server:
        at = f"/api/trace/{server.only_id()}/busy"
        answer = server.json(f"{at}?from=0&to=100000&width=10")
        expect("devices", [(d["rank"], d["first"], d["last"], d["busy_ns"], d["busy"])
                           for d in answer["devices"]],
               [(None, 0, 100000, 70000, [1000] * 3 + [0] * 3 + [1000] * 4)])
        expect("a part", server.json(f"{at}?from=5000&to=45000&width=1")["devices"][0]["busy"], [625])
        server.error(f"{at}?from=5&to=5", 400, "the range is empty")
    with Server(opmeter, trace_json(folder / "host.json", [span("f", 0, 5)])) as server:
        expect("no device", server.json(f"/api/trace/{server.only_id()}/busy")["devices"], [])


def timeline(folder):
    with Server(opmeter, small(folder)) as server:
        at = f"/api/trace/{server.only_id()}/timeline"
        picture = server.json(at)
        bars = {t["id"]: [[*b[:3], picture["names"][b[3]], b[5]] for b in t["spans"]]
                for t in picture["tracks"] if t["spans"]}
        threads = sorted(bars.values(), key=len)
        expect("the second thread", threads[0], [[200000, 50000, 0, SCRIPT, 1]])
        expect("the first thread", threads[1],
               [[0, 100000, 0, "outer", 1], [10000, 20000, 1, "inner", 1],
                [40000, 20000, 1, "inner", 1]])
        expect("points", [len(c["points"]) for c in picture["counters"]], [20])
        coarse = server.json(f"{at}?from=0&to=1000000&width=5")
        expect("spans of all bars", sum(b[5] for t in coarse["tracks"] for b in t["spans"]), 4)
        expect("united", any(b[5] > 1 and b[4] == -1 for t in coarse["tracks"]
                             for b in t["spans"]), True)
        some = next(iter(bars))
        only = server.json(f"{at}?track={some}")
        expect("one track", [t["id"] for t in only["tracks"]], [some])
        expect("no track", server.json(f"{at}?track=")["tracks"], [])
        for args, status in (("track=999", 404), ("track=1,x", 400), ("from=5&to=5", 400),
                             ("width=0", 400), ("from=1e3", 400), ("to=99999999999999999999", 400)):
            expect(f"status of {args}", server.get(f"{at}?{args}").status, status)


def export(folder):
    trace = small(folder)
    wanted = subprocess.run([opmeter, "export", "-f", "chrome", trace], check=True,
                            capture_output=True).stdout
    with Server(opmeter, trace, env={"TMPDIR": str(folder)}) as server:
        at = f"/api/trace/{server.only_id()}/export"
        answer = server.get(f"{at}/chrome")
        expect("same as opmeter export", answer.body, wanted)
        expect_in("name", 'filename="small', answer.headers["content-disposition"])
        server.error(f"{at}/nothing", 404, "no export format")
        server.error(f"{at}/cambricon", 400, "folder")
        expect("left behind", list(folder.glob("opmeter-export-*")), [])


# ---- who is answered ----

def foreign_host(folder):
    with Server(opmeter, small(folder)) as server:
        port = server.port
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", f"[::1]:{port}",
                     "127.0.0.1", "localhost:9999"):
            expect(f"status with Host {host}", server.get("/", headers={"Host": host}).status, 200)
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example",
                     "127.0.0.1.evil.example", "192.168.1.1", "[::2]", "0.0.0.0", "localhost:x",
                     "localhost:", "[::1", "a@localhost", "localhost@evil", "", "localhost/x"):
            for target in ("/", "/api/version", "/app.js"):
                answer = server.get(target, headers={"Host": host})
                expect(f"{target} with Host {host!r} is refused", answer.status in (400, 403), True)
        expect_in("sentence", "evil.example",
                  server.get("/", headers={"Host": "evil.example"}).json()["error"])
        expect("no Host", server.get("/", headers={"Host": None}).status, 400)


def foreign_origin(folder):
    with Server(opmeter, small(folder)) as server:
        own = f"127.0.0.1:{server.port}"
        expect("own origin", server.get("/api/version",
                                        headers={"Origin": f"http://{own}"}).status, 200)
        for origin in ("http://evil.example", "null", f"https://{own}", "http://127.0.0.1:1",
                       f"http://{own}.evil.example", f"http://localhost:{server.port}", ""):
            expect(f"status with Origin {origin!r}",
                   server.get("/api/version", headers={"Origin": origin}).status, 403)
        for site, status in (("same-origin", 200), ("none", 200), ("cross-site", 403),
                             ("same-site", 403)):
            expect(f"status from {site}", server.get(
                "/api/version", headers={"Sec-Fetch-Site": site}).status, status)
        expect("a link to the page", server.get(
            "/", headers={"Sec-Fetch-Site": "cross-site"}).status, 200)


def other_address(folder):
    """--host opens the server to others, with a warning."""
    server = Server(opmeter, small(folder), args=["--host", "0.0.0.0"])
    try:
        for host, status in (("10.1.2.3", 200), (socket.gethostname(), 200), ("evil.example", 403)):
            expect(f"status with Host {host}", server.get("/", headers={"Host": host}).status,
                   status)
    finally:
        status, told = server.stop()
    expect("exit status", status, 0)
    expect_in("warning", "without a password", told)


# ---- which files ----

def traversal(folder):
    (folder / "secret.txt").write_text(SECRET)
    inside = folder / "inside"
    inside.mkdir()
    small(inside)
    with Server(opmeter, inside) as server:
        trace = server.only_id()
        dots = ("..", "%2e%2e", "%2E.", ".%2e", "..%00", "%252e%252e", "..;", "%c0%ae%c0%ae")
        slashes = ("/", "%2f", "%5c", "\\", "//", "%c0%af")
        targets = [f"/{d}{s}secret.txt" for d in dots for s in slashes]
        targets += [f"/{d}{s}{d}{s}{d}{s}etc{s}passwd" for d in dots for s in slashes]
        targets += [f"/api/trace/{d}{s}secret.txt" for d in dots for s in slashes]
        targets += [f"/api/trace/{trace}/export/{d}{s}secret.txt" for d in dots for s in slashes]
        targets += [f"/api/trace/{trace}/data/{d}{s}secret.txt" for d in dots for s in slashes]
        targets += ["//etc/passwd", "/./secret.txt", "file:///etc/passwd", "/etc/passwd",
                    f"/{folder}/secret.txt", f"http://localhost{folder}/secret.txt"]
        for target in targets:
            told = server.raw(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n"
                              f"Connection: close\r\n\r\n".encode())
            expect(f"{target} gives the file", SECRET.encode() in told or b"root:" in told, False)
            # What has no dot in it may be the page, which has addresses of any kind.
            if Answer(told).status == 200:
                expect_in(target, b"<!doctype html>", told)


def links(folder):
    """Links inside a folder lead to files of the folder, never out of it."""
    outside, inside = folder / "outside", folder / "inside"
    outside.mkdir()
    inside.mkdir()
    small(outside)
    trace = small(inside, "own.json")
    (inside / "out.json").symlink_to(outside / "small.json")
    (inside / "out").symlink_to(outside)
    (inside / "in.json").symlink_to("own.json")
    (inside / "round").symlink_to(".")
    with Server(opmeter, inside) as server:
        found = server.traces()
        expect("found", sorted(found), ["in.json", "own.json"])
        at = f"/api/trace/{found['own.json']['id']}"
        expect("spans", server.json(at)["rows"]["span"], 4)
        trace.unlink()
        trace.symlink_to(outside / "small.json")
        server.error(at, 410, "out of the folder")
        server.error(f"{at}/export/chrome", 410, "out of the folder")


def list_of_folder(folder):
    (folder / "deep" / "er").mkdir(parents=True)
    small(folder / "deep" / "er")
    (folder / "notes.txt").write_text("nothing to see")
    (folder / ".hidden.json").write_text('{"traceEvents": []}')
    (folder / "broken.opm").write_bytes(b"OPMETER\0 but not really")
    run = folder / "run"
    subprocess.run([opmeter, "run", "zoo:mlp", "-n", "3", "-q", "-o", run], check=True,
                   capture_output=True)
    with Server(opmeter, folder) as server:
        expect("folder", server.json("/api/version")["folder"], True)
        found = server.traces()
        expect("found", sorted(set(found) - {"broken.opm"}), ["deep/er/small.json", "run/trace.opm"])
        until = time.monotonic() + PATIENCE_S
        while found["run/trace.opm"]["spans"] is None and time.monotonic() < until:
            time.sleep(0.05)
            found = server.traces()
        entry = found["run/trace.opm"]
        expect("model", entry["model"], "mlp")
        expect("latency is known", entry["latency_ns"] > 0, True)
        expect("date is known", abs(entry["recorded"] - time.time()) < 24 * 3600, True)
        small(folder, "later.json")
        while "later.json" not in server.traces() and time.monotonic() < until:
            time.sleep(0.05)
        expect_in("a trace that came later", "later.json", server.traces())
        again = {path: e["id"] for path, e in server.traces().items()}
        expect("ids stay", [again[p] for p in found], [e["id"] for e in found.values()])


def two_files_of_a_run(folder):
    """The CSV and the trace of one run of Neural Engine are one trace, whichever is there first."""
    subprocess.run([opmeter, "run", "zoo:mlp", "-n", "3", "-q", "-o", folder / "run"], check=True,
                   capture_output=True)
    shown = folder / "shown"
    files = {"neural-engine": "profiling_csv/net_0.csv", "neural-engine-trace": "profiling_trace/net_0.json"}
    for format, name in files.items():
        (shown / name).parent.mkdir(parents=True)
        subprocess.run([opmeter, "export", folder / "run" / "trace.opm", "-f", format, "-o", folder / "new"],
                       check=True, capture_output=True)
        os.replace(folder / "new", shown / name)
    late = folder / "late"
    os.replace(shown / files["neural-engine"], late)
    with Server(opmeter, shown) as server:
        expect("the trace alone", list(server.traces()), [files["neural-engine-trace"]])
        os.replace(late, shown / files["neural-engine"])
        until = time.monotonic() + PATIENCE_S
        weights = 0
        while not weights and time.monotonic() < until:
            expect("one", list(server.traces()), [files["neural-engine-trace"]])
            id = server.only_id()
            server.json(f"/api/trace/{id}")
            ops = server.json(f"/api/trace/{id}/data/model_ops")
            weights = sum(row[ops["columns"].index("weight_shape")] is not None for row in ops["rows"])
        expect("weights, which the CSV has", weights, 3)
        latency = server.json(f"/api/trace/{id}/data/operators")
        counts = {row[latency["columns"].index("count")] for row in latency["rows"]}
        expect("iterations, which the trace has", counts, {3})


def changed_file(folder):
    trace = folder / "trace.json"
    trace_json(trace, [span("a", 0, 10)])
    with Server(opmeter, trace) as server:
        id = server.only_id()
        first = server.json(f"/api/trace/{id}")
        expect("spans", server.count(id), 1)
        trace_json(folder / "new.json", [span("a", 0, 10), span("b", 20, 10)])
        os.replace(folder / "new.json", trace)
        expect("spans before it is asked for again", server.count(id), 1)
        second = server.json(f"/api/trace/{id}")
        expect("spans", (second["rows"]["span"], server.count(id)), (2, 2))
        expect("another stamp", first["stamp"] != second["stamp"], True)
        expect("same stamp", server.json(f"/api/trace/{id}")["stamp"], second["stamp"])
        trace.write_text("no trace any more")
        server.error(f"/api/trace/{id}", 422, "trace.json")
        trace.unlink()
        server.error(f"/api/trace/{id}", 410, "deleted or moved")
        expect("list", server.json("/api/traces"), [])
        server.error("/api/trace/000000000000", 404, "no trace")
        server.error("/api/trace/000000000000/timeline", 404, "no trace")


def cut_file(folder):
    """A file that is cut short while it is being read does not end the server."""
    event = json.dumps(span("a name of some length", 1000, 10)).encode() + b",\n"
    with Server(opmeter, small(folder)) as server:
        id = server.only_id()
        trace = folder / "small.json"
        for size in (0, 4096, 1000000):
            trace.write_bytes(b'{"traceEvents": [' + event * 600000)
            with server.connect() as client:
                client.sendall(f"GET /api/trace/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                time.sleep(0.1)
                os.truncate(trace, size)
                expect_in("an answer", b"HTTP/1.1 ", client.recv(65536))
        small(folder)
        expect("spans", server.json(f"/api/trace/{id}")["rows"]["span"], 4)


def growing_file(folder):
    """A recording that goes on: loading the page again shows what has come since."""
    run = folder / "run"
    recording = subprocess.Popen([opmeter, "run", "zoo:mlp", "-n", "100000000", "-q", "-o", run],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE_S
        while not list(run.rglob("*.opm")) and time.monotonic() < until:
            time.sleep(0.05)
        with Server(opmeter, next(run.rglob("*.opm"))) as server:
            id = server.only_id()
            about = first = server.json(f"/api/trace/{id}")
            expect("recording", first["recording"], True)
            while about["rows"]["span"] <= first["rows"]["span"] and time.monotonic() < until:
                time.sleep(0.2)
                about = server.json(f"/api/trace/{id}")
            expect("more spans", about["rows"]["span"] > first["rows"]["span"], True)
    finally:
        recording.kill()
        recording.wait()


# ---- limits ----

def sql_reads_only(folder):
    trace = small(folder)
    before = trace.read_bytes()
    with Server(opmeter, trace) as server:
        id = server.only_id()
        for text in ("DELETE FROM span", "CREATE TABLE t(x)", "ATTACH '/tmp/x.db' AS x",
                     "PRAGMA journal_mode", "SELECT 1; SELECT 2", "VACUUM INTO '/tmp/x'",
                     "SELECT load_extension('x')", "SELECT writefile('/tmp/x', 'x')",
                     "SELECT readfile('/etc/passwd')", "SELEC", ""):
            expect(f"status of {text!r}", server.get(sql_target(id, text)).status, 400)
        server.error(f"/api/trace/{id}/sql", 400, "q is missing")
        for depth, status in ((190, 200), (5000, 400)):
            text = "SELECT 1" + "+1" * depth
            expect(f"status of SQL of depth {depth}", server.get(sql_target(id, text)).status, status)
        expect("spans", server.count(id), 4)
    expect("the file is as before", trace.read_bytes(), before)


def sql_limits(folder):
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200000) "
    with Server(opmeter, small(folder)) as server:
        id = server.only_id()
        for limit, rows in ((None, 10000), (3, 3), (0, 0), (100000, 100000)):
            answer = server.sql(id, many + "SELECT i FROM n", limit)
            expect(f"rows with limit {limit}", (len(answer["rows"]), answer["truncated"]),
                   (rows, True))
        expect("exactly as many", server.sql(id, "SELECT * FROM span", 4)["truncated"], False)
        expect("limit too high", server.get(
            f"/api/trace/{id}/sql?q=SELECT+1&limit=100001").status, 400)
        wide = server.sql(id, many + "SELECT hex(zeroblob(100000)) FROM n", 10000)
        expect("a bounded answer", (wide["truncated"], len(wide["rows"]) < 500), (True, True))
        server.error(sql_target(id, SLOW), 400, "after 10 seconds")
        expect("the next one", server.count(id), 4)


def slow_query_beside_others(folder):
    """While one query takes its time, other questions to the same trace are answered."""
    with Server(opmeter, small(folder)) as server:
        id = server.only_id()
        server.json(f"/api/trace/{id}")
        with server.connect() as slow:
            slow.sendall(f"GET {sql_target(id, SLOW)} HTTP/1.1\r\n"
                         "Host: localhost\r\n\r\n".encode())
            for _ in range(5):
                server.json(f"/api/trace/{id}/timeline")
                server.json(f"/api/trace/{id}/data/operators")
                server.json(f"/api/trace/{id}")
            slow.settimeout(0)
            try:
                told = slow.recv(10)
                raise Failure(f"the slow query has answered already: {told!r}")
            except BlockingIOError:
                pass
        # Its client is gone, so it ends, and the next one has its turn.
        expect("spans", server.count(id), 4)


def end_while_busy(folder):
    """Ctrl-C ends the server though a query runs and clients wait."""
    server = Server(opmeter, small(folder))
    id = server.only_id()
    with server.connect() as slow, server.connect():
        slow.sendall(f"GET {sql_target(id, SLOW)} HTTP/1.1\r\n"
                     "Host: localhost\r\n\r\n".encode())
        server.get("/")
        expect("exit status", server.stop(signal.SIGINT), (0, ""))


def many_connections(folder):
    """A thousand clients that say nothing, or half of it, don't keep others from being served."""
    with Server(opmeter, small(folder)) as server:
        clients = []
        try:
            for i in range(1000):
                client = server.connect()
                if i % 3 == 1:
                    client.sendall(b"GET /api/ver")
                elif i % 3 == 2:
                    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
                clients.append(client)
            for _ in range(20):
                expect("status", server.get("/api/version").status, 200)
                for client in clients[1:50:3]:
                    client.sendall(b"s")
            done = clients[-1]
            done.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
            done.sendall(b"\r\n\r\n")
            expect_in("one that goes on", b"HTTP/1.1 200", done.recv(65536))
        finally:
            for client in clients:
                client.close()
        expect("spans", server.count(server.only_id()), 4)


def slow_reader(folder):
    """Who asks for much and does not read it holds up nobody."""
    events = [span(f"name {i}", i * 10, 5) for i in range(20000)]
    with Server(opmeter, trace_json(folder / "long.json", events)) as server:
        id = server.only_id()
        target = sql_target(id, "SELECT * FROM span", 100000)
        clients = [server.connect() for _ in range(10)]
        for client in clients:
            client.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        expect("spans", server.count(id), 20000)
        for client in clients:
            client.close()


def malformed(folder):
    requests = [
        b"", b"\r\n\r\n", b"\0" * 1000, b"GET", b"GET\r\n\r\n", b"GET /\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"/ GET HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50000 + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 200000 + b"\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET " + b"/x" * 1000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /?" + b"a=b&" * 1000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\nHost: localhost\n\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3 + b"rubbish",
    ]
    with Server(opmeter, small(folder)) as server:
        for request in requests:
            server.raw(request)
            expect(f"status after {request[:60]!r}", server.get("/api/version").status, 200)


def port_in_use(folder):
    trace = small(folder)
    with Server(opmeter, trace) as server:
        done = subprocess.run([opmeter, "serve", "--port", str(server.port), trace], text=True,
                              capture_output=True, timeout=PATIENCE_S)
        expect("exit status", done.returncode, 1)
        expect("lines", len(done.stderr.splitlines()), 1)
        expect_in("message", f"port {server.port} is in use", done.stderr)


# ---- reports ----

def report(folder):
    trace = small(folder)
    text, data = reports.report_of(opmeter, folder, trace)
    expect("nothing is loaded", re.findall(r'(?:src|href)="(?!data:|#)[^"]*"',
                                           re.sub(r"<script.*?</script>", "", text, flags=re.S)),
           [])
    expect_in("policy", "default-src 'none'; script-src 'nonce-", text)
    expect("script elements", len(re.findall(r"</script", text, re.I)), 2)
    expect_in("a name", SCRIPT, data["timeline"]["names"])
    expect("the name as HTML", SCRIPT in text, False)
    with Server(opmeter, trace) as server:
        id = server.only_id()
        for name, rows in data["data"].items():
            expect(f"query {name}", server.json(f"/api/trace/{id}/data/{name}"), rows)
        about = server.json(f"/api/trace/{id}")
        expect("trace", {key: about[key] for key in ("name", "duration_ns", "rows")},
               {key: data["trace"][key] for key in ("name", "duration_ns", "rows")})
    expect("coarse", data["timeline"]["coarse"], False)
    expect("spans", sum(b[5] for t in data["timeline"]["tracks"] for b in t["spans"]), 4)


TESTS = [page, headers, methods, kept_connection, rows, clipped_range, named_queries, timeline,
         flame, merged, search, busy_devices, export,
         foreign_host, foreign_origin, other_address, traversal, links, list_of_folder, two_files_of_a_run,
         changed_file, cut_file, growing_file, sql_reads_only, sql_limits, slow_query_beside_others,
         end_while_busy, many_connections, slow_reader, malformed, port_in_use, report]


def bound(test):
    """A test of another file, which is told which opmeter to start."""
    def run(folder):
        test(opmeter, folder)

    run.__name__ = test.__name__
    return run


TESTS += [bound(test) for module in (compared, costly, crowd, drop, histories, jobs, reports) for test in module.TESTS]


def can_serve():
    """Whether this opmeter was built with what a server needs."""
    done = subprocess.run([opmeter, "serve", "--port", "0", "/nothing"], text=True,
                          capture_output=True, timeout=PATIENCE_S)
    return "built without" not in done.stderr


def main():
    global opmeter
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build" / "dev", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    opmeter = str(args.build / "opmeter")
    tests = [test for test in TESTS if not args.names or test.__name__ in args.names]
    failed = 0
    if not can_serve():
        print("1..1\nok 1 # SKIP the server: opmeter was built without libmicrohttpd")
        return 0
    print(f"1..{len(tests)}")
    for number, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory(prefix="opmeter-server-") as temp:
            try:
                test(Path(temp).resolve())
                print(f"ok {number} - {test.__name__}", flush=True)
            except (Failure, OSError, subprocess.SubprocessError, KeyError) as error:
                print(f"not ok {number} - {test.__name__}")
                print("".join(f"# {line}\n" for line in f"{error!r}".splitlines()), end="",
                      flush=True)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
