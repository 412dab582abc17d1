"""http_client.py -- a server under test, and a client that can also misbehave."""
import json
import os
import select
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import quote

# For a machine that is busy with other things; more of it for an emulator.
PATIENCE = int(os.environ.get("OPMETER_TEST_PATIENCE", "1"))  # times the seconds that everything has
PATIENCE_S = 120 * PATIENCE


class Failure(Exception):
    pass


def expect(what, found, wanted):
    if found != wanted:
        raise Failure(f"{what}: found {found!r}, expected {wanted!r}")


def expect_in(what, wanted, found):
    if wanted not in found:
        raise Failure(f"{what}: {wanted!r} is not in {found!r}")


class Answer:
    def __init__(self, raw):
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        self.status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failure(f"status {self.status}, no JSON: {self.body[:300]!r}") from None


class Server:
    """`opmeter serve` with arguments, on a port of its choice; ends with the `with` block."""

    def __init__(self, opmeter, *paths, args=(), env=None):
        self.process = subprocess.Popen(
            [opmeter, "serve", "--port", "0", *args, *map(str, paths)], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})})
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        self.url = self.process.stdout.readline().strip() if ready else ""
        if not self.url:
            self.process.kill()
            raise Failure(f"no server: {self.process.communicate()[1]}")
        self.port = int(self.url.rstrip("/").rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        status, told = self.stop()
        if kind is None:
            expect("exit status of the server", (status, told), (0, ""))

    def stop(self, how=signal.SIGTERM):
        """Exit status, and what was said on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            _, told = self.process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure("the server does not end") from None
        return self.process.returncode, told

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def raw(self, request):
        """All that the server says to these bytes, until it closes."""
        with self.connect() as client:
            try:
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it may have closed already
            answer = b""
            try:
                while part := client.recv(65536):
                    answer += part
            except ConnectionError:
                pass
        return answer

    def get(self, target, method="GET", headers=None):
        told = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **(headers or {})}
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in told.items() if value is not None]
        with self.connect() as client:
            client.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            answer = b""
            while part := client.recv(65536):
                answer += part
        return Answer(answer)

    def json(self, target, status=200):
        answer = self.get(target)
        if answer.status != status:
            raise Failure(f"{target}: status {answer.status}, expected {status}: "
                          f"{answer.body[:300]!r}")
        return answer.json()

    def error(self, target, status, words):
        """The target must fail with this status and a sentence with these words."""
        expect_in(target, words, self.json(target, status)["error"])

    def traces(self):
        return {entry["path"]: entry for entry in self.json("/api/traces")}

    def only_id(self):
        return self.json("/api/traces")[0]["id"]

    def sql(self, trace, text, limit=None):
        return self.json(sql_target(trace, text, limit))

    def count(self, trace, table="span"):
        return self.sql(trace, f"SELECT count(*) FROM {table}")["rows"][0][0]


def sql_target(trace, text, limit=None):
    more = f"&limit={limit}" if limit is not None else ""
    return f"/api/trace/{trace}/sql?q={quote(text, safe='')}{more}"


def trace_json(path, events):
    Path(path).write_text(json.dumps({"traceEvents": events}))
    return path


def span(name, ts, dur, tid=1, **more):
    return {"ph": "X", "name": name, "cat": "op", "ts": ts, "dur": dur, "pid": 1, "tid": tid,
            **more}
