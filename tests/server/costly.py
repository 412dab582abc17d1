"""costly.py -- questions that would take minutes or years: all of them end, and hold up nobody."""
import os
import signal
import subprocess
import time

from http_client import PATIENCE_S, Failure, Server, expect, expect_in, span, sql_target, trace_json

LONG = "hex(zeroblob(8000000))"
MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

# Refused at once, each with the words of its refusal.
REFUSED = {
    "SELECT length(printf('%.*c', 1900000000, 'a'))": "too big",
    "SELECT length(format('%.1900000000f', 1))": "too big",
    "SELECT length(hex(zeroblob(1000000000)))": "too big",
    "SELECT randomblob(1000000000)": "too big",
    "SELECT 'a' LIKE " + LONG: "too complex",
    "SELECT json_patch('{}', '{}')": "not offered",
    "SELECT json_array(" + ",".join("1" * 100) + ")": "too many arguments",
    "WITH t0 AS (SELECT 1 x)" + "".join(
        f", t{i} AS (SELECT x FROM t{i - 1} UNION ALL SELECT x FROM t{i - 1})"
        for i in range(1, 40)) + " SELECT count(*) FROM t39": "too often",
}

# Run until somebody ends them.
ENDLESS = [
    MANY + "SELECT count(*) FROM n",
    MANY + "SELECT length(group_concat(i % 2)) FROM n WHERE i < 0",
    MANY + "SELECT i FROM n ORDER BY random()",
    MANY + "SELECT median(i) FROM n",
    MANY + f"SELECT sum(length(replace({LONG}, '0', i))) FROM n WHERE i < 9",
    MANY + f"SELECT sum(instr(i || {LONG}, substr({LONG}, 1, 4000000) || '1')) FROM n",
    MANY + f"SELECT sum(i || {LONG} LIKE '%' || hex(zeroblob(490)) || '1') FROM n",
    MANY + f"SELECT sum(i || {LONG} GLOB '*' || hex(zeroblob(490)) || '1') FROM n",
    MANY + f"SELECT sum(i || {LONG} REGEXP '(?:0|00)*?0{{30}}1') FROM n WHERE i > 0 AND 0 = 0",
    MANY + "SELECT sum(length(printf('%.*c%d', 9000000, 'a', i))) FROM n",
    f"SELECT trim({LONG}, replace(hex(zeroblob(2000000)), '0', '1') || '0')",
    "SELECT count(*) FROM " + ", ".join(f"schema s{i}" for i in range(60)),
]


def trace(folder):
    return trace_json(folder / "t.json", [span("a", 0, 10), span("b", 20, 10)])


def send(server, target):
    client = server.connect()
    client.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client


def cpu_s(pid):
    """Processor time of a process so far."""
    fields = open(f"/proc/{pid}/stat", encoding="latin-1").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def refused_queries(opmeter, folder):
    with Server(opmeter, trace(folder)) as server:
        id = server.only_id()
        for text, words in REFUSED.items():
            server.error(sql_target(id, text), 400, words)
        expect("spans", server.count(id), 2)


def costly_queries(opmeter, folder):
    """Others are answered meanwhile; and when its client leaves, a query ends."""
    with Server(opmeter, trace(folder)) as server:
        id = server.only_id()
        for text in ENDLESS:
            with send(server, sql_target(id, text)):
                time.sleep(0.1)
                server.json(f"/api/trace/{id}")
                server.json(f"/api/trace/{id}/timeline")
            expect("spans", server.count(id), 2)  # in its turn, which comes only if that ended
        idle_after_all(server)


def idle_after_all(server):
    """Nothing works on for those who have left."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        before = cpu_s(server.process.pid)
        time.sleep(0.5)
        if cpu_s(server.process.pid) - before < 0.1:
            return
    raise Failure("the server is still busy")


def end_during_costly(opmeter, folder):
    """SIGTERM ends the server whatever runs."""
    for text in ENDLESS[4::3]:
        server = Server(opmeter, trace(folder))
        with send(server, sql_target(server.only_id(), text)):
            time.sleep(0.2)
            expect(f"exit status after {text}", server.stop(), (0, ""))


def query_ends(opmeter, folder):
    """Ctrl-C ends `opmeter query`, whatever runs."""
    for text in ENDLESS[4::3]:
        asked = subprocess.Popen(
            [opmeter, "query", trace(folder), text], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        time.sleep(0.3)
        asked.send_signal(signal.SIGINT)
        try:
            _, told = asked.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            asked.kill()
            raise Failure(f"does not end: {text}") from None
        expect(f"end of {text}", (asked.returncode, told), (-signal.SIGINT, b""))
    for text, words in REFUSED.items():
        done = subprocess.run([opmeter, "query", trace(folder), text], capture_output=True,
                              text=True, timeout=PATIENCE_S)
        expect(f"exit status of {text}", done.returncode, 1)
        expect_in(text, words, done.stderr.splitlines()[0])


TESTS = [refused_queries, costly_queries, end_during_costly, query_ends]
