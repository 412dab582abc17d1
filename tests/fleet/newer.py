"""newer.py -- ClickHouse 18.16 behind answers as versions of today give them.

No newer server is at hand in Debian, so this is not a test of their SQL: the proxy gives every answer the
shape that they have (exceptions, statuses, headers, chunks), as ClickHouse's documentation and source say.
"""
import gzip
import re

from fleet_job import Job
from proxy import Proxy
from rig import Failure, add, counts, expect, need_servers, one_line, page, run

# Code of an error: (code of today, name, status).
ERRORS = {192: (516, "AUTHENTICATION_FAILED", "403 Forbidden"), 193: (516, "AUTHENTICATION_FAILED", "403 Forbidden"),
          194: (516, "AUTHENTICATION_FAILED", "403 Forbidden"), 60: (60, "UNKNOWN_TABLE", "404 Not Found"),
          81: (81, "UNKNOWN_DATABASE", "404 Not Found"), 47: (47, "UNKNOWN_IDENTIFIER", "404 Not Found"),
          62: (62, "SYNTAX_ERROR", "400 Bad Request"), 243: (243, "NOT_ENOUGH_SPACE", "500 Internal Server Error")}
SUMMARY = (b'{"read_rows":"2","read_bytes":"60","written_rows":"0","written_bytes":"0","total_rows_to_read":"2",'
           b'"result_rows":"2","result_bytes":"60","elapsed_ns":"1820443","memory_usage":"0"}')


def chunked(body, size):
    pieces = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def unchunked(body):
    whole = b""
    while True:
        size, body = body.split(b"\r\n", 1)
        if int(size, 16) == 0:
            return whole
        whole, body = whole + body[:int(size, 16)], body[int(size, 16) + 2:]


class Newer:
    """What the proxy makes of answers; counts the exceptions that went through."""

    def __init__(self, version):
        self.version, self.exceptions, self.answers = version, 0, 0

    def __call__(self, asked, answer):
        head, body = answer.split(b"\r\n\r\n", 1)
        if re.search(rb"(?i)transfer-encoding: *chunked", head):
            body = unchunked(body)
        if re.search(rb"(?i)content-encoding: *gzip", head):
            body = gzip.decompress(body)
        status, more = b"200 OK", b""
        old = re.match(rb"Code: (\d+), e.displayText\(\) = DB::\w*Exception: (.*?), e.what\(\) = ", body, re.S)
        if old:
            code, name, said = ERRORS.get(int(old[1]), (int(old[1]), "OTHER", "500 Internal Server Error"))
            status, text = said.encode(), old[2]
            more = b"X-ClickHouse-Exception-Code: %d\r\n" % code
            if code == 516:
                text = b"writer: Authentication failed: password is incorrect, or there is no user with such name."
            body = b"Code: %d. DB::Exception: %s. (%s) (version %s (official build))\n" % (
                code, text, name.encode(), self.version)
            self.exceptions += 1
        self.answers += 1
        head = (b"HTTP/1.1 " + status + b"\r\nDate: Tue, 01 Jul 2025 08:00:00 GMT\r\nConnection: Keep-Alive\r\n"
                b"Content-Type: text/tab-separated-values; charset=UTF-8\r\nX-ClickHouse-Server-Display-Name: node\r\n"
                b"Transfer-Encoding: chunked\r\nX-ClickHouse-Query-Id: 2b8a1e0e-0000-4000-8000-000000000000\r\n"
                b"X-ClickHouse-Format: TabSeparatedWithNamesAndTypes\r\nX-ClickHouse-Timezone: UTC\r\n" + more)
        if b"gzip" in asked and self.answers % 2:
            head, body = head + b"Content-Encoding: gzip\r\n", gzip.compress(body)
        return head + b"Keep-Alive: timeout=10, max=9999\r\nX-ClickHouse-Summary: " + SUMMARY + b"\r\n\r\n" + chunked(body, 700)


def newer_answers(folder):
    """Answers in the shape of later versions are understood, and failures told from one another."""
    c = need_servers(folder)
    paths = Job(ranks=4, steps=10, late=2).write(folder / "job")
    db = folder / "runs.db"
    add(db, "j", paths)
    for version in (b"21.10.2.15", b"25.8.3.66"):
        shape = Newer(version)
        name = "newer" + version.split(b".")[0].decode()
        with Proxy(c.http[0], change=shape) as proxy:
            url = f"clickhouse://127.0.0.1:{proxy.listen}/{name}?tries=2"
            one_line(run("job", url, status=1), "has no runs and no ranks")
            add(url, "j", paths)
            add(url, "j", paths)
            expect("answers", page(url, "j"), page(db, "j"))
            expect("rows", counts(url, "j"), counts(db, "j"))
            for sql, part in (("SELECT nothing FROM rank_op", "nothing"), ("SELECT job FROM no_table", "no_table"),
                              ("SELECT FROM WHERE", "yntax error")):
                line = one_line(run("query", url, sql, status=1), part)
                if "version" in line or "(UNKNOWN" in line or "Code:" in line:
                    raise Failure(f"what the server wraps around it is said, too: {line}")
            one_line(run("job", url.replace("://", "://writer@"), status=1, env={"OPMETER_CLICKHOUSE_PASSWORD": "x"}),
                     "refuses user 'writer'")
        expect("exceptions in the new shape", shape.exceptions >= 5, True)


TESTS = (newer_answers,)
