"""cases_four_ways.py -- the same question to the command, to SQL, to Python and to the web server.

The truth is the planted one where a trace has one, else the answer of SQL: the point is that all
four give the same figure.
"""
import json
import os
import re
import select
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import planted_folders
import planted_kineto
from cases_planted import run
from program import PATIENCE

PATIENCE_S = 120 * PATIENCE
FIXTURES = ("peers/tracelens/traces/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
            "captured/kineto/kineto_bertmini_h200.json.gz", "seeds/mindspore/master/run_2/normal_run/profiler",
            "seeds/furiosa/dataframe_v0.8_reconstructed.csv", "seeds/cambricon/profile",
            "seeds/megengine/resnet18_cpu.profile.json")


def cases(opmeter, fixtures, work):
    folder = work / "four_ways"
    for name, make in (("async", lambda p: planted_kineto.asynchronous(p / "trace.json")),
                       ("idle", lambda p: planted_kineto.idle(p / "trace.json")),
                       ("partial", planted_folders.mindspore_partial),
                       ("neural_engine", planted_folders.neural_engine)):
        yield (f"four_ways/{name}",
               lambda case, m=make, p=folder / name: planted(case, opmeter, m, p))
    yield "four_ways/own", lambda case: own(case, opmeter, folder / "own")
    if fixtures.is_dir():
        for path in FIXTURES:
            if (fixtures / path).exists():
                yield (f"four_ways/{path}",
                       lambda case, p=fixtures / path: ask_all(case, opmeter, p))


def planted(case, opmeter, make, folder):
    make(folder)
    files = list(folder.iterdir())
    ask_all(case, opmeter, files[0] if [p.suffix for p in files] == [".json"] else folder)


def own(case, opmeter, folder):
    run(opmeter, folder, "zoo:mlp", "-n", 5, "-w", 2, "-o", folder / "out")
    ask_all(case, opmeter, folder / "out" / "trace.opm")


def ask_all(case, opmeter, trace):
    ways = {"command": by_command(opmeter, trace), "server": by_server(opmeter, trace)}
    if list((opmeter.build / "python/opmeter").glob("_opmeter*.so")):
        ways["python"] = by_python(opmeter, trace)
    truth = by_sql(opmeter, trace)
    for question in truth:
        answers = {way: told[question] for way, told in ways.items() if question in told}
        # The command prints shares of buckets with two decimals.
        within = 5.1e-5 if question == "shares" else 0
        case.check(question, answers, {way: truth[question] for way in answers}, "the answer of SQL",
                   within)


def mean(values):
    return sum(values) / len(values) if values else None


def parts(rows):
    counted = [r for r in rows if not r["warmup"]]
    return [mean([r[c] for r in counted]) for c in ("total_ns", "gap_ns", "fp_bp_ns", "tail_ns")
            ] if counted and all(r["fp_bp_ns"] is not None for r in counted) else None


def busy(rows):
    """Devices; rows of the command do not say their scope, but a stream has a name."""
    return sorted(([r["device"], r["rank"], r["run_ns"], r["wait_ns"]] for r in rows
                   if r.get("scope", "stream" if r.get("stream") else "device") == "device"),
                  key=str)


def longest(rows):
    """The operator of the device with the most self time; the first name of several."""
    rows = [r for r in rows if r.get("section", "device") == "device" and r.get("op", 0) is not None]
    if not rows:
        return None
    most = max(r["total_ns"] for r in rows)
    row = min((r for r in rows if r["total_ns"] == most), key=lambda r: r["name"])
    return [row["name"], row["count"], row["total_ns"], row["mean_ns"]]


def step_latency(rows):
    rows = [r for r in rows if r["scope"] == "step"]
    return {"step_mean": rows[0]["mean_ns"], "step_median": rows[0]["median_ns"]} if rows else {
        "step_mean": None, "step_median": None}


def rates(rows):
    return {r["name"]: r["flops_per_s"] / 1e9 for r in rows
            if r["flops_per_s"] is not None and r.get("section", "device") == "device"}


def shares(buckets):
    """Of the time that was recorded."""
    known = {name: ns for name, ns in buckets.items() if ns and name != "not_recorded"}
    return {name: ns / sum(known.values()) for name, ns in known.items()}


def by_sql(opmeter, trace):
    query = lambda sql: opmeter.query(trace, sql)  # noqa: E731
    operators = query("SELECT * FROM op_times")
    return {
        **step_latency(query("SELECT * FROM latency")),
        "parts": parts(query("SELECT * FROM step_trace")),
        "busy": busy(query("SELECT * FROM stream_stats")),
        "top": longest(operators),
        "rates": rates(operators),
        "shares": shares({r["bucket"]: r["ns"] for r in query(
            "SELECT bucket, sum(ns) ns FROM occupation WHERE warmup = 0 GROUP BY bucket")}),
    }


def by_command(opmeter, trace):
    rows = lambda *args: opmeter.json(*args, "--json", trace)  # noqa: E731
    operators = rows("top", "-t", 0, "--print-only", "device")
    told = {
        **step_latency([{"scope": "step", **r} for r in rows("summary")
                        if r.get("scope", "step") == "step"]),
        "parts": parts(rows("steps")),
        "busy": busy(rows("summary", "--streams", "-t", 0)),
        "top": longest(operators),
        "rates": rates(operators),
    }
    text = opmeter.text("steps", trace)
    meanwhile = text.partition("What happened meanwhile:")[2].split("\n\n")[0]
    found = {name: float(share) / 100 for name, share in re.findall(
        r"^ +(\w+) .*? (\d+\.\d+) %$", meanwhile, re.M)}
    if found and text.count("What happened meanwhile:") == 1:
        told["shares"] = {name: share for name, share in found.items()}
    return told


def by_python(opmeter, trace):
    env = {**os.environ, "PYTHONPATH": str(opmeter.build / "python"),
           "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, Path(__file__).with_name("four_ways_python.py"), trace],
                          env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-300:])
    told = json.loads(done.stdout)
    return {"step_mean": told["step_mean"], "step_median": told["step_median"],
            "parts": told["parts"], "busy": busy(told["busy"]), "rates": told["rates"],
            "top": told["top"], "shares": shares(told["occupation"])}


class Server:
    """`opmeter serve` on a port of its choice, for the time of a `with` block."""

    def __init__(self, opmeter, trace):
        self.process = subprocess.Popen(
            [opmeter.program, "serve", "--port", "0", str(trace)], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        self.url = self.process.stdout.readline().strip().rstrip("/") if ready else ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def rows(self, trace, name):
        told = self.get(f"/api/trace/{urllib.parse.quote(trace)}/data/{name}")
        return [dict(zip(told["columns"], row)) for row in told["rows"]]


def by_server(opmeter, trace):
    with Server(opmeter, trace) as server:
        number = server.get("/api/traces")[0]["id"]
        server.get(f"/api/trace/{number}")
        rows = lambda name: server.rows(number, name)  # noqa: E731
        operators, buckets = rows("operators"), {}
        for r in rows("occupation"):
            if not r.get("warmup"):
                buckets[r["bucket"]] = buckets.get(r["bucket"], 0) + r["ns"]
        return {**step_latency(rows("latency")), "parts": parts(rows("step_trace")),
                "busy": busy(rows("streams")), "top": longest(operators),
                "rates": rates(operators), "shares": shares(buckets)}
