"""cases_others.py -- other tools' files among the fixtures: ONNX Runtime, TensorRT, oneDNN, Chrome JSON."""
import json
import re
from collections import defaultdict

import numpy

import kineto


def cases(opmeter, fixtures):
    for folder, pattern, function in (
            ("captured/ort", "*.json", onnxruntime),
            ("peers/onnxruntime", "ort_v1.3*.json", onnxruntime),
            ("peers/tensorrt", "**/*.profile.json", tensorrt_profile),
            ("peers/tensorrt", "**/*.timing.json", tensorrt_times),
            ("peers/onednn_verbose", "doc_examples_v[123]*.log", onednn),
            ("peers/viztracer", "*.json", chrome)):
        for path in sorted((fixtures / folder).glob(pattern)):
            name = str(path.relative_to(fixtures)).removeprefix("peers/").removeprefix("captured/")
            yield f"others/{name}", lambda case, f=function, p=path: f(case, opmeter, p)


def sums(events):
    """Name to how many and how long together."""
    found = defaultdict(lambda: [0, 0])
    for name, ns in events:
        found[name][0] += 1
        found[name][1] += ns
    return {name: tuple(pair) for name, pair in found.items()}


def latency(case, opmeter, path, durations, source, within=0):
    case.check("latency", lambda: [tuple(r.values()) for r in opmeter.query(
        path, "SELECT count, min_ns, max_ns, mean_ns, median_ns, p90_ns, p99_ns FROM latency "
        "WHERE scope = 'step'")],
        [(len(durations), min(durations), max(durations), float(numpy.mean(durations)),
          float(numpy.median(durations)), float(numpy.percentile(durations, 90)),
          float(numpy.percentile(durations, 99)))], source, within)


def onnxruntime(case, opmeter, path):
    events = [e for e in json.loads(path.read_text()) if e.get("ph") == "X"]
    # What If, Loop and Scan do are nodes, too, and are counted there.
    ran = [e for e in events if e["cat"] == "Node" and e["name"].endswith("_kernel_time")
           and e["args"]["op_name"] not in ("If", "Loop", "Scan")]
    nodes = [(e["name"].removesuffix("_kernel_time"), 1000 * e["dur"]) for e in ran]
    case.check("operators", lambda: sums_of(opmeter.query(
        path, "SELECT name, count, total_ns FROM op_stats WHERE count > 0")), sums(nodes), "Node events by name")
    types = [(e["args"]["op_name"], 1000 * e["dur"]) for e in ran]
    case.check("types", lambda: {r["type"]: (r["count"], r["total_ns"]) for r in opmeter.query(
        path, "SELECT type, count, total_ns FROM type_stats WHERE count > 0")}, sums(types),
        "Node events by op_name")
    runs = [1000 * e["dur"] for e in events if e["name"] == "model_run"]
    if runs:
        latency(case, opmeter, path, runs, "model_run events")


def sums_of(rows):
    """Rows of one name together: operators of several shapes may share one."""
    found = defaultdict(lambda: [0, 0])
    for r in rows:
        found[r["name"]][0] += r["count"]
        found[r["name"]][1] += r["total_ns"]
    return {name: tuple(pair) for name, pair in found.items()}


def tensorrt_profile(case, opmeter, path):
    count, *layers = json.loads(path.read_text())
    means = defaultdict(float)
    for layer in layers:
        means[layer["name"]] += 1e6 * layer["averageMs"]
    # Six digits of milliseconds, and thousands of runs behind a mean.
    case.check("operators", lambda: mean_of(opmeter.query(
        path, "SELECT name, mean_ns FROM op_stats")), dict(means), "averageMs", within=1)
    case.check("latency", lambda: opmeter.value(
        path, "SELECT mean_ns FROM latency WHERE scope = 'step'"), sum(means.values()),
        "averageMs of all layers", within=len(layers))


def mean_of(rows):
    found = defaultdict(float)
    for r in rows:
        found[r["name"]] += r["mean_ns"]
    return dict(found)


def tensorrt_times(case, opmeter, path):
    rows = json.loads(path.read_text())
    latency(case, opmeter, path, [round(1e6 * r["latencyMs"]) for r in rows], "latencyMs", within=1)


def onednn(case, opmeter, path):
    """Executions have their time in milliseconds at the end of the line."""
    lines = re.findall(r"^(?:mkldnn|dnnl|onednn)_verbose,(?:.*,)?exec,(.*)$", path.read_text(), re.M)
    kinds = []
    for line in lines:
        cells = line.split(",")
        if not cells[-1]:
            continue  # a line that the document breaks off
        kind = cells[1] if cells[0] in ("cpu", "gpu") else cells[0]
        kinds.append((kind, round(1e6 * float(cells[-1]))))
    if kinds:
        case.check("types", lambda: {r["type"]: (r["count"], r["total_ns"]) for r in opmeter.query(
            path, "SELECT type, count, total_ns FROM type_stats")}, sums(kinds),
            "lines of executions by primitive", within=1)


def chrome(case, opmeter, path):
    truth = sums((e["name"], kineto.ns(e.get("dur", 0))) for e in kineto.load(path)
                 if e.get("ph") == "X")
    case.check("spans", lambda: {r["name"]: (r["n"], r["ns"]) for r in opmeter.query(
        path, "SELECT name, sum(count) n, sum(total_ns) ns FROM span_stats GROUP BY name")
        if r["name"] in truth}, truth, "X events by name")
