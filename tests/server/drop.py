"""drop.py -- files that are dropped on the page: whose, which, how large, and where they stay."""
import json
import os
import threading
import time
from pathlib import Path
from urllib.parse import quote

from http_client import PATIENCE, PATIENCE_S, Answer, Failure, Server, expect, expect_in, span, trace_json

LIMIT = 4 << 30


def body_of(n):
    return json.dumps({"traceEvents": [span(f"work {i}", 10 * i, 5) for i in range(n)]}).encode()


def head_of(server, name, length, **more):
    told = {"Host": f"127.0.0.1:{server.port}", "Connection": "close", **more}
    if length is not None:
        told["Content-Length"] = length
    lines = [f"PUT /api/dropped/{name} HTTP/1.1", *(f"{k}: {v}" for k, v in told.items()), "", ""]
    return "\r\n".join(lines).encode()


def put(server, name, body, **more):
    headers = {key.replace("_", "-"): value for key, value in more.items()}
    return Answer(server.raw(head_of(server, name, len(body), **headers) + body))


def copies(folder):
    """The files that were dropped; folders may go away while they are looked for."""
    return sorted(Path(at) / name for top in folder.glob("opmeter-drop-*")
                  for at, _, names in os.walk(top) for name in names)


def soon(what, true):
    until = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > until:
            raise Failure(f"{what}: not within {PATIENCE_S} s")
        time.sleep(0.02)


def first(folder):
    return trace_json(folder / "first.json", [span("one", 0, 5)])


def names_of(server):
    return sorted(path.rsplit("/", 1)[-1] for path in server.traces())


def dropped(opmeter, folder):
    """A file that is brought is a trace like others, for its owner alone, and gone at the end."""
    with Server(opmeter, first(folder), env={"TMPDIR": str(folder)}) as server:
        about = server.json("/api/version")
        expect("before", (about["folder"], about["drop_max"]), (False, LIMIT))
        expect("folders made unasked", list(folder.glob("opmeter-drop-*")), [])
        answer = put(server, "mine.json", body_of(7))
        expect("status", answer.status, 201)
        told = answer.json()
        expect("name", told["path"], "mine.json")
        expect("spans", server.json(f"/api/trace/{told['id']}")["rows"]["span"], 7)
        expect("listed", names_of(server), ["first.json", "mine.json"])
        expect("folder", server.json("/api/version")["folder"], True)
        again = put(server, "mine.json", body_of(3)).json()
        expect("the same name again", server.json(f"/api/trace/{again['id']}")["rows"]["span"], 3)
        expect("the first is as it was", server.count(told["id"]), 7)
        found = copies(folder)
        expect("copies", len(found), 2)
        expect("modes", {path.stat().st_mode & 0o777 for path in found}, {0o600})
        expect("modes of folders", {path.parent.parent.stat().st_mode & 0o777 for path in found}, {0o700})
    expect("left behind", list(folder.glob("opmeter-drop-*")), [])


def drop_in_chunks(opmeter, folder):
    """How long it is need not be said before."""
    body = body_of(5000)
    with Server(opmeter, first(folder), env={"TMPDIR": str(folder)}) as server:
        request = head_of(server, "c.json", None, **{"Transfer-Encoding": "chunked"})
        for i in range(0, len(body), 70000):
            part = body[i:i + 70000]
            request += f"{len(part):x}\r\n".encode() + part + b"\r\n"
        told = Answer(server.raw(request + b"0\r\n\r\n"))
        expect("status", told.status, 201)
        expect("spans", server.json(f"/api/trace/{told.json()['id']}")["rows"]["span"], 5000)


def foreign_drop(opmeter, folder):
    """Nobody but a page of this server, or a program of this machine, brings files."""
    with Server(opmeter, first(folder), env={"TMPDIR": str(folder)}) as server:
        own = f"http://127.0.0.1:{server.port}"
        for headers, status in (({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
                                ({"Host": "evil.example"}, 403), ({"Sec_Fetch_Site": "cross-site"}, 403),
                                ({"Sec_Fetch_Site": "same-site"}, 403),
                                ({"Origin": own, "Sec_Fetch_Site": "same-origin"}, 201)):
            expect(f"status with {headers}", put(server, "a.json", body_of(1), **headers).status, status)
        for method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS"):
            answer = server.get("/api/dropped/a.json", method=method)
            expect(f"{method}", (answer.status, answer.headers["allow"]), (405, "PUT"))
        for target in ("/api/version", "/api/dropped", "/api/dropped/a/b", "/", "/api/traces"):
            expect(f"PUT {target}", server.get(target, method="PUT").status, 405)
        expect("copies", len(copies(folder)), 1)
    server = Server(opmeter, first(folder), args=["--host", "0.0.0.0"], env={"TMPDIR": str(folder)})
    try:
        expect("drop_max", server.json("/api/version")["drop_max"], 0)
        answer = put(server, "a.json", body_of(1))
        expect("status where others can connect", answer.status, 403)
        expect_in("sentence", "takes no files", answer.json()["error"])
        expect("copies", copies(folder), [])
    finally:
        server.stop()


def hostile_drop_names(opmeter, folder):
    """A name is never a path, hidden, or longer than a file's may be."""
    (folder / "tmp").mkdir()
    names = ["../x.json", "..", "/etc/passwd", "a/b/c.json", ".hidden.json", "~root", "-rf", "*.json",
             "\x1b[31mred\n.json", "C:\\x.json", "модель.json", "x" * 3000 + ".json", "%2e%2e", "a\x7fb",
             "<img src=x>.json", "\udcff\udcfe.json"]
    with Server(opmeter, first(folder), env={"TMPDIR": str(folder / "tmp")}) as server:
        for name in names:
            raw = quote(name.encode("utf-8", "surrogateescape"), safe="")
            answer = put(server, raw, body_of(2))
            if name == "..":
                expect("status of ..", answer.status in (400, 405), True)
                continue
            expect(f"status of {name[:40]!r}", answer.status, 201)
            shown = answer.json()["path"]
            expect(f"{name[:40]!r} is no path", "/" in shown or "\\" in shown or shown[0] == ".", False)
            expect(f"{name[:40]!r} can be printed", any(ord(c) < 32 or ord(c) == 127 for c in shown), False)
        for target in ("/api/dropped/", "/api/dropped/%00", "/api/dropped/%zz"):
            status = server.get(target, method="PUT").status
            expect(f"{target} is refused", status in (400, 405, 422), True)
        expect("kept names", {"модель.json", "-rf"} <= set(server.traces()), True)
        expect("copies", len(copies(folder / "tmp")), len(names) - 1)
    expect("files", sorted(path.name for path in folder.rglob("*")), ["first.json", "tmp"])


def useless_drops(opmeter, folder):
    """What is no trace, or stops half way, is not kept; the server goes on."""
    with Server(opmeter, first(folder), env={"TMPDIR": str(folder)}) as server:
        for name, body in (("a.json", b""), ("b.json", b"no trace"), ("c.bin", bytes(100000))):
            answer = put(server, name, body)
            expect(f"status of {name}", answer.status, 422)
            expect_in("sentence", f"{name} is no trace", answer.json()["error"])
        expect("copies", copies(folder), [])
        whole = body_of(3000)
        clients = []
        for sent in (0, 1, 70000):
            client = server.connect()
            client.sendall(head_of(server, "half.json", len(whole)) + whole[:sent])
            clients.append(client)
        soon("three are coming in", lambda: len(copies(folder)) == 3)
        for client in clients:
            client.close()
        soon("halves are removed", lambda: not copies(folder))
        chunked = head_of(server, "half.json", None, **{"Transfer-Encoding": "chunked"})
        server.raw(chunked + b"5\r\n{\"tra\r\n")
        server.raw(chunked + b"zz\r\n")
        soon("halves are removed", lambda: not copies(folder))
        expect("listed", names_of(server), ["first.json"])
        expect("still one trace", server.json("/api/version")["folder"], False)
        broken = put(server, "broken.json", b'{"traceEvents": [' + b"{" * 2000)
        expect("a broken trace is one", broken.status, 201)
    expect("left behind", list(folder.glob("opmeter-drop-*")), [])


def large_drops(opmeter, folder):
    """What is too large is refused before it is written, and more than a few at once wait."""
    with Server(opmeter, first(folder), env={"TMPDIR": str(folder)}) as server:
        for length in (LIMIT + 1, 10 ** 18):
            with server.connect() as client:
                client.sendall(head_of(server, "large.json", length) + b"x" * 100000)
                expect("copies", copies(folder), [])
        clients = [server.connect() for _ in range(4)]
        for client in clients:
            client.sendall(head_of(server, "slow.json", 1000) + b"{")
        soon("four are coming in", lambda: len(copies(folder)) == 4)
        answer = put(server, "fifth.json", body_of(1))
        expect("the fifth", answer.status, 503)
        for client in clients:
            client.close()
        soon("they are gone", lambda: not copies(folder))
        soon("there is room", lambda: put(server, "fifth.json", body_of(1)).status == 201)


def end_while_dropping(opmeter, folder):
    """The end of the server is the end of what is coming in."""
    server = Server(opmeter, first(folder), env={"TMPDIR": str(folder)})
    with server.connect() as client:
        client.sendall(head_of(server, "half.json", 100000) + b"{" * 500)
        soon("one is coming in", lambda: len(copies(folder)) == 1)
        expect("exit status", server.stop(), (0, ""))
    expect("left behind", list(folder.glob("opmeter-drop-*")), [])


def progress(opmeter, folder):
    """While a trace is read, how much of it was; nothing before and after."""
    made = folder / "long.json"
    event = json.dumps(span("a name of some length", 1000, 10)).encode() + b",\n"
    made.write_bytes(b"[" + event * (700000 // PATIENCE) + b"{}]")
    with Server(opmeter, made) as server:
        at = f"/api/trace/{server.only_id()}"
        server.error("/api/trace/000000000000/progress", 404, "no trace")
        server.json(at)
        expect("before", server.json(f"{at}/progress"), {"done": 0, "total": 0})
        os.utime(made, (1, 1))  # to be read again
        ended, seen = threading.Event(), []

        def read():
            try:
                server.json(at)
            finally:
                ended.set()
        reader = threading.Thread(target=read)
        reader.start()
        while not ended.is_set():
            told = server.json(f"{at}/progress")
            if told["total"] and told not in seen:
                seen.append(told)
        reader.join()
        expect("after", server.json(f"{at}/progress"), {"done": 0, "total": 0})
    expect("total", {told["total"] for told in seen}, {made.stat().st_size})
    expect("it grows", [told["done"] for told in seen], sorted(told["done"] for told in seen))


TESTS = [dropped, drop_in_chunks, foreign_drop, hostile_drop_names, useless_drops, large_drops,
         end_while_dropping, progress]
