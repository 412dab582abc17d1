"""faults.py -- servers of ClickHouse that are full, slow or killed: nothing lost, nothing twice, one line."""
import contextlib
import itertools
import os
import signal
import subprocess

import clickhouse
from fleet_job import Job
from proxy import Proxy
from rig import Failure, Skip, add, counts, expect, need_servers, one_line, page, run


def is_insert(head):
    return b"INSERT" in head.split(b"\r\n")[0]


@contextlib.contextmanager
def small_disk(folder, megabytes):
    """A file system of its own: needs to be root."""
    folder.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "opmeter-test", str(folder)],
                          capture_output=True, text=True)
    if done.returncode:
        raise Skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(path, leave):
    """All of a file system's room but so many bytes."""
    with open(path, "wb", buffering=0) as ballast:
        room = os.statvfs(path.parent)
        with contextlib.suppress(OSError):
            os.posix_fallocate(ballast.fileno(), 0, room.f_bavail * room.f_frsize - leave)


def full(folder):
    """The disk of a server is full, from the start or midway: one line; with room again, adding completes it."""
    if not clickhouse.available():
        raise Skip("clickhouse-server is not installed (Debian's package)")
    paths = Job(ranks=4, steps=30, layers=8).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    wanted = counts(folder / "whole.db", "j")
    with small_disk(folder / "small" / "server0" / "data", 96) as disk, clickhouse.Cluster(folder / "small") as c:
        url = c.url("perf", options="tries=2")
        add(url, "warm", paths[:1])
        ballast = disk / "ballast"
        # None; less than a part; several parts of some rank.
        for leave in (0, 300_000, 1_200_000, 2_000_000, 3_000_000):
            fill(ballast, leave)
            done = run("add", "-q", *paths, "--to", url, "--job", f"left{leave}", status=None)
            if done.returncode:
                one_line(done, "no space left")
            partly = counts(url, f"left{leave}")["rank_file"]
            if leave == 0 and (partly or not done.returncode):
                raise Failure(f"added without room: {partly} ranks")
            ballast.unlink()
            run("add", "-q", *paths, "--to", url, "--job", f"left{leave}")
            expect(f"rows with room again after {leave} bytes", counts(url, f"left{leave}"), wanted)


def slow(folder):
    """A server that answers later than anybody waits: said in one line, and nothing twice, as it did what was asked."""
    c = need_servers(folder)
    paths = Job(ranks=3, steps=6).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    wanted = counts(folder / "whole.db", "j")
    url = c.url("slow")
    add(url, "warm", paths[:1])
    number = itertools.count()
    # Every fifth insertion takes longer than is waited; sent again under another number it passes.
    with Proxy(c.http[0], lambda n, head: 4 if is_insert(head) and next(number) % 5 == 2 else None) as proxy:
        add(f"clickhouse://127.0.0.1:{proxy.listen}/slow?timeout=2&tries=6", "j", paths)
    expect("rows", counts(url, "j"), wanted)
    with Proxy(c.http[0], lambda n, head: 4 if is_insert(head) else None) as proxy:
        one_line(run("add", "-q", *paths, "--to", f"clickhouse://127.0.0.1:{proxy.listen}/slow?timeout=1&tries=2",
                     "--job", "k", status=1), "has not answered for 1 s", "timeout=SECONDS")
    add(url, "k", paths)
    expect("rows after it was too slow", counts(url, "k"), wanted)
    # Over a connection that was used before, too.
    one_line(run("query", c.url("slow", options="timeout=1&tries=1"), "SELECT sleep(3)", status=1), "has not answered for 1 s")


def server_killed(folder):
    """The server is killed at an insertion, having half of it or all: adding says so, and again completes it."""
    if not clickhouse.available():
        raise Skip("clickhouse-server is not installed (Debian's package)")
    paths = Job(ranks=3, steps=10).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    wanted = counts(folder / "whole.db", "j")
    with clickhouse.Cluster(folder / "own") as c:
        add(c.url("perf"), "warm", paths[:1])
        # Insertions of a rank are some ten, the last one of them says which count.
        for at, how in ((2, "half"), (5, "after"), (8, "half"), (10, "after"), (14, "half"), (20, "after")):
            number = itertools.count()
            with Proxy(c.http[0], lambda n, head: how if is_insert(head) and next(number) == at else None,
                       meanwhile=lambda: c.stop(0, signal.SIGKILL)) as proxy:
                done = run("add", "-q", *paths, "--to", f"clickhouse://127.0.0.1:{proxy.listen}/perf?tries=2", "--job",
                           f"j{at}", status=1)
            one_line(done, "cannot be reached")
            c.start(0)
            c.wait(0)
            shown = counts(c.url("perf"), f"j{at}")["rank_file"]
            if shown > 2:
                raise Failure(f"killed at insertion {at}: {shown} ranks are shown")
            add(c.url("perf"), f"j{at}", paths)
            expect(f"rows after the server was killed at insertion {at} ({how})", counts(c.url("perf"), f"j{at}"), wanted)


HTML = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<html>log in"


def swallowed(folder):
    """Something in between keeps insertions to itself, or hides their answers, and says 200: nothing is taken for added, nothing comes twice."""
    c = need_servers(folder)
    paths = Job(ranks=3, steps=6).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    wanted = counts(folder / "whole.db", "j")
    url = c.url("swallowed")
    add(url, "warm", paths[:1])
    for how in ("swallow", None):
        number = itertools.count()
        with Proxy(c.http[0], lambda n, head: how if how and is_insert(head) and next(number) % 4 == 1 else None,
                   change=lambda head, answer: HTML if not how and is_insert(head) and next(number) % 4 == 1 else answer,
                   swallowed=HTML) as proxy:
            add(f"clickhouse://127.0.0.1:{proxy.listen}/swallowed?tries=4", f"now and then {how}", paths)
        expect(f"rows, {how}", counts(url, f"now and then {how}"), wanted)
    with Proxy(c.http[0], lambda n, head: "swallow" if is_insert(head) else None, swallowed=HTML) as proxy:
        one_line(run("add", "-q", *paths, "--to", f"clickhouse://127.0.0.1:{proxy.listen}/swallowed?tries=2", "--job", "all", status=1),
                 "what answers an insertion is no ClickHouse: '<html>log in'")
    expect("ranks shown", counts(url, "all")["rank_file"], 0)


def one_or_many(folder):
    """Tables of one server take nothing as a cluster's, nor the other way round, and nothing is made meanwhile; names of clusters with other signs."""
    c = need_servers(folder)
    paths = Job(ranks=4, steps=4, layers=2).write(folder / "job")
    add(folder / "whole.db", "j", paths)
    add(c.url("alone"), "j", paths)
    hosts = c.url("x", cluster=True).split("/")[2].split(",")
    for spread in (hosts, hosts[::-1]):
        one_line(run("add", "-q", paths[0], "--to", f"clickhouse://{','.join(spread)}/alone?cluster=fleet", "--job", "k", status=1),
                 "tables of one server alone")
    expect("other servers that have the database", [c.ask("EXISTS TABLE alone.opmeter_version", i).strip() for i in (1, 2)], ["0", "0"])
    many = c.url("many", cluster="fleet-two")
    add(many, "j", paths)
    expect("rows of a cluster with a dash", counts(many, "j"), counts(folder / "whole.db", "j"))
    one_line(run("add", "-q", paths[0], "--to", c.url("many"), "--job", "k", status=1), "tables of a cluster", "cluster=NAME")
    expect("jobs, asked of one of them", page(c.url("many"), "j"), page(folder / "whole.db", "j"))


TESTS = (full, slow, server_killed, swallowed, one_or_many)
