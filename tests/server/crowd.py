"""crowd.py -- more clients than a server has room for, most of them up to no good."""
import resource
import socket
import time

from costly import ENDLESS, idle_after_all, send, trace
from http_client import PATIENCE, PATIENCE_S, Failure, Server, expect, expect_in, span, sql_target, trace_json

CROWD = 2100  # above what a server takes at once
LANE_WAIT_S = 20  # a question waits for those before it no longer than this (src/server/opened.h)


def room_for(n):
    """How many sockets this process can have, at most n."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n + 200
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return min(n, wanted - 200)
    return n


def close_all(clients):
    for client in clients:
        client.close()


def trickle(opmeter, folder):
    """Requests that come a byte at a time keep nobody from being served at once."""
    starts = (b"", b"GET /api/ver", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
              b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
    with Server(opmeter, trace(folder)) as server:
        id = server.only_id()
        clients = []
        try:
            for i in range(room_for(CROWD)):
                client = server.connect()
                clients.append(client)
                try:
                    client.sendall(starts[i % len(starts)])
                except ConnectionError:
                    pass  # it had to go already
            for i in range(10):
                for client in clients[i::10]:
                    try:
                        client.sendall(b"s")
                    except ConnectionError:
                        pass
                expect("status", server.get("/api/version").status, 200)
                expect("spans", server.count(id), 2)
        finally:
            close_all(clients)
        expect("spans", server.count(id), 2)


def unread_answers(opmeter, folder):
    """Large answers that nobody reads, more than fit in memory, are given up."""
    events = [span(f"name {i}", i * 10, 5) for i in range(2000)]
    with Server(opmeter, trace_json(folder / "long.json", events)) as server:
        id = server.only_id()
        target = sql_target(id, "SELECT hex(zeroblob(4000000)) FROM span", 4)
        clients = []
        try:
            for _ in range(30):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.settimeout(PATIENCE_S)
                client.connect(("127.0.0.1", server.port))
                client.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                clients.append(client)
                expect_in("an answer begins", b"HTTP/1.1 200", client.recv(100))
            expect("spans", server.count(id), 2000)
            # The first one was given up: its answer ends early.
            told = 0
            while part := clients[0].recv(1 << 20):
                told += len(part)
                if told > 31 << 20:
                    raise Failure("the whole answer was kept for who did not read it")
        except ConnectionError:
            pass
        finally:
            close_all(clients)


def pipelined(opmeter, folder):
    """Requests sent at once are answered in turn; those behind a costly one wait for it only."""
    with Server(opmeter, trace(folder)) as server:
        id = server.only_id()
        with server.connect() as client:
            ask = "GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n"
            costly = f"GET {sql_target(id, ENDLESS[0])} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            client.sendall((ask + costly + ask * 50).encode())
            expect_in("the first", b'"version"', client.recv(65536))
            expect("spans", server.count(id, "track") > 0, True)
        expect("spans", server.count(id), 2)
        idle_after_all(server)


def many_leave(opmeter, folder):
    """Clients that ask for much and leave do not keep the next one waiting for each of them."""
    with Server(opmeter, trace(folder)) as server:
        id = server.only_id()
        for _ in range(3):
            clients = [send(server, sql_target(id, ENDLESS[0])) for _ in range(60)]
            time.sleep(0.1)
            close_all(clients)
        # The queue may be full of those who left until each has been looked for: then one is to try again.
        until = time.monotonic() + LANE_WAIT_S * PATIENCE
        while (answer := server.get(sql_target(id, "SELECT count(*) FROM span"))).status == 503:
            expect_in("who is refused", "try again", answer.json()["error"])
            if time.monotonic() > until:
                raise Failure("the next one waits for those who left")
            time.sleep(0.1)
        expect("spans", answer.json()["rows"][0][0], 2)
        idle_after_all(server)


def export_left(opmeter, folder):
    """An export that nobody waits for any more is given up, and leaves no file."""
    events = [span(f"name {i % 1000}", i * 10, 5) for i in range(300000)]
    with Server(opmeter, trace_json(folder / "long.json", events),
                env={"TMPDIR": str(folder)}) as server:
        id = server.only_id()
        clients = [send(server, f"/api/trace/{id}/export/chrome") for _ in range(20)]
        time.sleep(0.1)
        close_all(clients)
        idle_after_all(server)
        until = time.monotonic() + PATIENCE_S
        while list(folder.glob("opmeter-export-*")) and time.monotonic() < until:
            time.sleep(0.05)
        expect("left behind", list(folder.glob("opmeter-export-*")), [])


TESTS = [trickle, unread_answers, pipelined, many_leave, export_left]
