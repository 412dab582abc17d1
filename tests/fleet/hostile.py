"""hostile.py -- what answers as ClickHouse is not, or has gone mad: rows of any shape and value, in answer to any question.

Every command ends by itself, with what it makes of the rows or with one line, and never with a signal.
"""
import http.server
import random
import sqlite3
import threading

from fleet_job import Job
from rig import Failure, add, run

SEEDS = 60
TYPES = ("Int64", "UInt64", "String", "Float64", "Nullable(Int64)", "Nullable(String)", "Nullable(Float64)", "LowCardinality(String)", "DateTime", "")
INTS = ("0", "1", "2", "3", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "4294967296", "-2147483648", "1000000007",
        "9223372036854775806", "99999999999999999999999999", "1790000000000000000")
REALS = ("0", "1.5", "-1e308", "1e308", "nan", "inf", "-inf", "-0", "1e-320")
TEXTS = ("", "a", "rank_op", "sums", "spans", "device", "host", "\\N", "\\0", "a\\tb", "a\\nb", "\\'; DROP", "ncclAllReduce", "Send", "0", "01ff", "01",
         "0101" * 40, "x" * 3000, "\xff\xfe", "\\", "\x1b[31m", "lost_data", "01ac9aacffffffffffffffffffffff7f", "4")
COMMANDS = (("job", "URL"), ("job", "URL", "j"), ("job", "URL", "j", "--json"), ("job", "URL", "--show", "hosts"), ("job", "URL", "j", "--rank", "1"),
            ("top", "URL", "j"), ("steps", "URL", "j"), ("query", "URL", "SELECT 1", "--json"), ("history", "URL"), ("history", "URL", "--by", "op"),
            *(("job", "URL", "j", "--show", t) for t in ("late", "heatmap", "path", "links", "outliers", "ops", "steps", "drift", "memory", "ranks")))


class Mad(http.server.ThreadingHTTPServer):
    """Most answers have as many columns as were asked for, most of them the right kind, and any values."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, seed):
        self.random = random.Random(seed)
        super().__init__(("127.0.0.1", 0), MadHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def cell(self, kind):
        draw = self.random
        if draw.random() < 0.06:
            return "\\N"
        if kind in ("String", "Nullable(String)", "LowCardinality(String)", "DateTime", ""):
            return draw.choice(TEXTS)
        if "Float" in kind:
            return draw.choice(REALS + INTS)
        return draw.choice(INTS) if draw.random() < 0.5 else str(draw.randrange(6))

    def rows(self, sql):
        draw = self.random
        select = sql.upper().split("FROM")[0]
        columns = select.count(",") + 1 if draw.random() < 0.85 else draw.randrange(1, 16)
        kinds = [draw.choice(TYPES) if draw.random() < 0.2 else "Int64" for _ in range(columns)]
        for i, part in enumerate(select.split(",")[:columns]):
            if draw.random() < 0.95 and any(w in part for w in ("NAME", "TYPE", "SECTION", "HOST", "COMM", "DEVICE", "UNIT", "RUN", "SKETCH", "TRACE",
                                                                "JOB", "COUNTER", "BUCKET", "MODEL")):
                kinds[i] = "String"
        out = ["\t".join(f"c{i}" for i in range(columns)), "\t".join(kinds)]
        for _ in range(draw.choice((0, 1, 1, 2, 3, 40, 300))):
            n = columns if draw.random() < 0.999 else draw.randrange(1, 16)
            out.append("\t".join(self.cell(kinds[i % columns]) for i in range(n)))
        body = "\n".join(out) + ("\n" if draw.random() < 0.97 else "")
        if draw.random() < 0.03:
            body = body[:draw.randrange(len(body) + 1)]
        if draw.random() < 0.03:
            body += "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)\n"
        return body.encode("latin-1", "replace")


class MadHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode("latin-1")
        answer = b"4\n" if "opmeter_version" in body else self.server.rows(body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def ends_well(seed, where, number):
    for command in random.Random(seed).sample(COMMANDS, number):
        done = run(*(where if a == "URL" else a for a in command), status=None, timeout=60)
        lines = [line for line in done.stderr.splitlines() if not line.startswith("opmeter: (")]
        if done.returncode not in (0, 1) or (done.returncode and len(lines) != 1) or "runtime error" in done.stderr or "\x1b" in done.stdout + done.stderr:
            raise Failure(f"seed {seed}, {command[0]} {command[2:]}: exit status {done.returncode}: {done.stderr[-1500:]}")


def mad_server(folder, seeds=range(SEEDS)):
    """Of each seed another server, and a few commands."""
    for seed in seeds:
        server = Mad(seed)
        url = f"clickhouse://127.0.0.1:{server.server_address[1]}/x?tries=1&timeout=20"
        try:
            ends_well(seed, url, 5)
        finally:
            server.shutdown()
            server.server_close()


def mad_file(folder):
    """A catalogue in a file whose rows somebody has made up."""
    paths = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    whole = folder / "whole.db"
    add(whole, "j", paths)
    for seed in range(SEEDS // 2):
        draw, db = random.Random(seed), folder / "mad.db"
        db.write_bytes(whole.read_bytes())
        with sqlite3.connect(db) as c:
            tables = [name for name, in c.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'rank_*'")]
            for table in tables:
                columns = [(row[1], row[2]) for row in c.execute(f"PRAGMA table_info({table})") if row[1] not in ("job", "batch")]
                rows = [i for i, in c.execute(f"SELECT rowid FROM {table}")]
                for _ in range(30 if rows else 0):
                    column, kind = draw.choice(columns)
                    if column == "rank" and draw.random() < 0.7:
                        continue
                    value = {"INTEGER": lambda: min(max(int(draw.choice(INTS)), -2**63), 2**63 - 1), "REAL": lambda: float(draw.choice(REALS).replace("nan", "0")),
                             "TEXT": lambda: draw.choice(TEXTS)}[kind]()
                    c.execute(f'UPDATE OR IGNORE {table} SET "{column}" = ? WHERE rowid = ?', (value, draw.choice(rows)))
        c.close()
        ends_well(seed, db, 6)


TESTS = (mad_server, mad_file)
