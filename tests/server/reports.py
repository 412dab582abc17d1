"""reports.py -- what a report file carries for its page."""
import json
import re
import subprocess

from compared import changed
from http_client import Failure, expect, span, trace_json


def report_of(opmeter, folder, trace):
    path = folder / "report.html"
    subprocess.run([opmeter, "report", trace, "-o", path], check=True, capture_output=True)
    text = path.read_text(encoding="utf-8")
    match = re.search(r'<script type="application/json" id="opmeter-data">(.*?)</script>', text,
                      re.S)
    if not match:
        raise Failure("the report has no data")
    return text, json.loads(match[1])


def busy_report(opmeter, folder):
    """What the page of a report draws strips and chains from."""
    _, data = report_of(opmeter, folder, changed(folder, "b.json", 330, "new"))
    [device] = data["busy"]["devices"]
    expect("busy", device["busy_ns"], 10 * (330 + 50) * 1000)
    expect("parts", len(device["busy"]), 8192)
    part = (data["busy"]["to"] - data["busy"]["from"]) / len(device["busy"])
    expect("busy of all parts", abs(sum(device["busy"]) * part / 1000 - device["busy_ns"]) < 10 * 4 * part, True)
    expect("arrows", data["data"]["flows"]["columns"], ["src", "dst", "kind"])


def report_of_operators(opmeter, folder):
    run = folder / "run"
    subprocess.run([opmeter, "run", "zoo:mlp", "-n", "2", "-q", "-o", run], check=True,
                   capture_output=True)
    _, data = report_of(opmeter, folder, run / "trace.opm")
    expect("executions of operator 0", len(data["data"]["op_spans?op=0"]["rows"]) > 0, True)


def long_report(opmeter, folder):
    events = [span(f"n{i % 7}", i * 2, 1) for i in range(201000)]
    trace = trace_json(folder / "long.json", events)
    text, data = report_of(opmeter, folder, trace)
    bars = [b for t in data["timeline"]["tracks"] for b in t["spans"]]
    expect("coarse", data["timeline"]["coarse"], True)
    expect("bars", len(bars) <= 200000, True)
    expect("spans", sum(b[5] for b in bars), 201000)


TESTS = [busy_report, report_of_operators, long_report]
