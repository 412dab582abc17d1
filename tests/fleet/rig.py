"""rig.py -- what the tests of ranks share: running opmeter, comparing, servers that are started once."""
import json
import os
import subprocess
from pathlib import Path

import clickhouse

ROOT = Path(__file__).resolve().parent.parent.parent
opmeter = None  # set by run.py
servers = None


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def expect(what, got, wanted):
    if got != wanted:
        raise Failure(f"{what}: got {got!r}, expected {wanted!r}")


def near(what, got, wanted, share):
    if abs(got - wanted) > share * abs(wanted):
        raise Failure(f"{what}: got {got!r}, expected {wanted!r} within {share}")


def run(*args, **kwargs):
    return run_within(None, *args, **kwargs)


def run_within(limits, *args, status=0, env=None, timeout=300, cwd=None):
    """limits(), if there is one, is called in the process that becomes opmeter."""
    done = subprocess.run([str(opmeter), *map(str, args)], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})}, cwd=cwd, preexec_fn=limits)
    if status is not None and done.returncode != status:
        raise Failure(f"opmeter {' '.join(map(str, args))[:300]}: exit status {done.returncode}, expected {status}: "
                      f"{done.stderr[:500]}")
    return done


def table(where, job, show):
    return json.loads(run("job", where, job, "--show", show, "--json").stdout)


def page(where, job):
    return json.loads(run("job", where, job, "--json").stdout)


def add(where, job, paths, **kwargs):
    return run("add", "-q", *paths, "--to", where, "--job", job, **kwargs)


def counts(where, job, **kwargs):
    """Rows of every table that ranks are kept in."""
    tables = ("rank_file", "rank_step", "rank_bucket", "rank_op", "rank_op_sum", "rank_kernel", "rank_exchange", "rank_memory",
              "rank_advice", "rank_fact", "rank_span")
    return {t: json.loads(run("query", where, f"SELECT count(*) AS n FROM {t} WHERE job = '{job}'", "--json",
                              **kwargs).stdout)[0]["n"] for t in tables}


def one_line(done, *parts):
    """What standard error says, if that is one line of ours with all parts in it."""
    lines = done.stderr.splitlines()
    if len(lines) != 1 or not lines[0].startswith("opmeter: "):
        raise Failure(f"not one line: {done.stderr!r}")
    for part in parts:
        if part not in lines[0]:
            raise Failure(f"{part!r} is not said: {lines[0]}")
    return lines[0]


def need_servers(folder):
    """Three servers as a cluster, started by the first test that asks."""
    global servers
    if not clickhouse.available():
        raise Skip("clickhouse-server is not installed (Debian's package)")
    if servers is None:
        started = clickhouse.Cluster(folder.parent / "clickhouse", 3)
        started.__enter__()
        servers = started
    return servers


def stop_servers():
    if servers is not None:
        servers.__exit__()
