"""cases_seeds.py -- the older profilers' own files among the fixtures."""
import csv
import json
import gzip
import re
from collections import defaultdict

import numpy


def cases(opmeter, fixtures):
    base = fixtures / "seeds"
    for name, path, function in (
            ("megengine", "megengine/resnet18_cpu.profile.json", megengine),
            ("neural_engine", "intel_neural_engine/engine_profiling", neural_engine),
            ("neural_engine_long",
             "intel_neural_engine/long_3000_iterations_precision_loss.json.gz", long_trace),
            ("furiosa_v0.8", "furiosa/dataframe_v0.8_reconstructed.csv", furiosa),
            ("furiosa_v0.10", "furiosa/dataframe_v0.10_6rows_from_docs.csv", furiosa),
            ("cambricon", "cambricon/profile", cambricon)):
        if (base / path).exists():
            yield f"seeds/{name}", lambda case, f=function, p=base / path: f(case, opmeter, p)


def rows_by(rows, key, *columns):
    return {r[key]: tuple(r[c] for c in columns) for r in rows}


def milliseconds(text):
    """The number of `0.044ms`."""
    return float(text.removesuffix("ms"))


def megengine(case, opmeter, path):
    document = json.loads(path.read_text())
    operators, profile = document["graph_exec"]["operator"], document["profiler"]
    source = "start, kern and end of every operator; the longest of its threads or devices"
    # Seconds of doubles with 15 digits, rounded to nanoseconds at both ends.
    for section in ("device", "host"):
        truth = {operators[i]["name"]: max(
            (1e9 * (t["end"] - t["start"]) for t in places.values()))
            for i, places in profile[section].items()}
        case.check(f"operators.{section}", lambda: {r["name"]: r["time_ns"] for r in opmeter.query(
            path, f"SELECT name, time_ns FROM op_times WHERE section = '{section}'")},
            truth, source, within=2)
        case.check(f"top.{section}", lambda: {r["name"]: r["time_ns"] for r in opmeter.json(
            "top", "--json", "-t", 0, "--print-only", section, path)}, truth, source, within=2)
    prints = {operators[i]["name"]: (f.get("computation") or None, f.get("memory"))
              for i, f in profile["opr_footprint"].items() if i in profile["device"]}
    case.check("footprint", lambda: rows_by(opmeter.query(
        path, "SELECT name, computation, memory FROM op_times WHERE section = 'device'"),
        "name", "computation", "memory"), prints, "opr_footprint")
    by_type = defaultdict(list)
    for i, places in profile["device"].items():
        name = operators[i]["name"]
        by_type[operators[i]["type"]].append((
            max(1e9 * (t["end"] - t["start"]) for t in places.values()), *prints[name]))
    for how, function in (("sum", sum), ("mean", lambda v: sum(v) / len(v))):
        truth = {}
        for kind, rows in by_type.items():
            known = [r[1] for r in rows if r[1] is not None]
            truth[kind] = (function([r[0] for r in rows]), function([r[2] for r in rows]))
            if how == "sum":
                truth[kind] += (sum(known) if known else None,)
        case.check(f"aggregate.{how}", lambda: {
            r["type"]: (r["time_ns"], r["memory"], *((r["computation"],) if how == "sum" else ()))
            for r in opmeter.json("top", "--json", "-t", 0, "--aggregate-by", "type",
                                  "--aggregate", how, "--print-only", "device", path)},
            truth, f"profile_analyze --aggregate-by type --aggregate {how}", within=100)
    for how in ("sum", "mean"):
        case.check(f"aggregate.{how}.rate", lambda: {
            r["type"]: r["flops_per_s"] for r in opmeter.json(
                "top", "--json", "-t", 0, "--aggregate-by", "type", "--aggregate", how,
                "--print-only", "device", path) if r["flops_per_s"] is not None},
            {kind: 1e9 * sum(r[1] for r in rows if r[1]) / sum(r[0] for r in rows if r[1])
             for kind, rows in by_type.items() if any(r[1] for r in rows)},
            "operations over the time of those operators")
    span = [t for places in profile["device"].values() for t in places.values()]
    window = 1e9 * (max(t["end"] for t in span) - min(t["start"] for t in span))
    case.check("steps.parts", lambda: [tuple(r.values()) for r in opmeter.query(
        path, "SELECT total_ns, gap_ns, fp_bp_ns, tail_ns FROM step_trace")],
        [(window, 0, window, 0)], "the device's own clock", within=2)
    weights = {v for o in operators.values() if o["type"] == "SharedDeviceTensor"
               for v in o["output"]}
    chunks, variables = document["graph_exec"]["mem_chunk"], document["graph_exec"]["var"]
    owned = {variables[v]["mem_plan"]["mem_chunk_id"] for v in weights if variables[v]["mem_plan"]}
    case.check("weights", lambda: opmeter.value(
        path, "SELECT sum(bytes) FROM mem WHERE kind = 'weight'"),
        sum(chunks[c]["size"] for c in owned), "chunks of SharedDeviceTensor")


def neural_engine(case, opmeter, folder):
    table = next((folder / "profiling_csv").glob("*.csv"))
    trace = next((folder / "profiling_trace").glob("*.json"))
    with table.open(newline="") as file:
        rows = list(csv.reader(file))
    shapes = {r[0]: float(r[1]) for r in rows[1:] if re.fullmatch(r"\d+x\d+", r[0])}
    first = next(i for i, r in enumerate(rows) if r[0] == "operator type") + 1
    operators = [r for r in rows[first:] if r[0]]
    latency = {r[2]: float(r[12]) * 1e6 for r in operators}
    projected = {r[2]: float(r[12]) * 1e6 / (shapes[r[9]] if "90%" in r[13] else 1)
                 for r in operators}
    case.check("csv.operators", lambda: {r["name"]: r["mean_ns"] for r in opmeter.query(
        table, "SELECT name, mean_ns FROM op_stats")}, latency, table.name)
    case.check("csv.whatif", lambda: rows_by(opmeter.query(
        table, "SELECT name, latency_ns, projected_ns FROM whatif"), "name", "latency_ns",
        "projected_ns"), {n: (latency[n], projected[n]) for n in latency},
        "its formulas, worked out", within=1e-3)
    events = json.loads(trace.read_text())["traceEvents"]
    per_op = defaultdict(list)
    for e in events:
        if e["tid"] == "Operator":
            # The document has forward time as an operator's time; reshaping is a column of its own.
            per_op[e["name"]].append(round(1e6 * milliseconds(e["args"]["forward_time"])))
    iterations = [round(e["dur"] * 1000) for e in events if e["tid"] == "Iteration"]
    case.check("json.operators", lambda: rows_by(opmeter.query(
        trace, "SELECT name, count, total_ns FROM op_stats"), "name", "count", "total_ns"),
        {n: (len(d), sum(d)) for n, d in per_op.items()}, "forward_time of the operators")
    case.check("json.reshape", lambda: {r["name"]: r["reshape_ns"] or 0 for r in opmeter.query(
        trace, "SELECT name, reshape_ns FROM op_stats")},
        {n: round(sum(1e6 * milliseconds(e["args"]["reshape_time"]) for e in events
                      if e["tid"] == "Operator" and e["name"] == n)) for n in per_op},
        "reshape_time of the operators", within=2)
    for name, path in (("json", trace), ("folder", folder)):
        case.check(f"{name}.latency", lambda: [tuple(r.values()) for r in opmeter.query(
            path, "SELECT count, mean_ns, median_ns FROM latency WHERE scope = 'step'")],
            [(len(iterations), float(numpy.mean(iterations)), float(numpy.median(iterations)))],
            "durations of iterations", within=1)
    case.check("folder.operators", lambda: sorted((r["name"], r["count"]) for r in opmeter.query(
        folder, "SELECT name, count FROM op_stats")),
        sorted((n, len(d)) for n, d in per_op.items()), "CSV and JSON tell of one run")
    case.check("folder.whatif", lambda: opmeter.value(
        folder, "SELECT count(*) FROM whatif"), len(operators), "CSV and JSON tell of one run")


def long_trace(case, opmeter, path):
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    iterations = [e["dur"] * 1000 for e in events if e["tid"] == "Iteration"]
    per_op = defaultdict(list)
    for e in events:
        if e["tid"] == "Operator":
            per_op[e["name"]].append(1e6 * milliseconds(e["args"]["forward_time"]))
    case.check("latency", lambda: [tuple(r.values()) for r in opmeter.query(
        path, "SELECT mean_ns, median_ns, min_ns, max_ns, p90_ns, p99_ns FROM latency "
        "WHERE scope = 'step'")],
        [(float(numpy.mean(iterations)), float(numpy.median(iterations)), min(iterations),
          max(iterations), float(numpy.percentile(iterations, 90)),
          float(numpy.percentile(iterations, 99)))], "durations of iterations", within=1)
    case.check("operators", lambda: rows_by(opmeter.query(
        path, "SELECT name, count, mean_ns FROM op_stats"), "name", "count", "mean_ns"),
        {n: (len(d), float(numpy.mean(d))) for n, d in per_op.items()},
        "forward_time of the operators", within=1)


def furiosa(case, opmeter, path):
    """The five reports, by the semantics of the SDK."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for r in rows:
        r["dur"] = int(r["end"]) - int(r["start"])
    host = [r for r in rows if r["cat"] in ("Nux", "Runtime")]
    device = [r for r in rows if r["cat"] == "NPU"]
    latencies = [r["dur"] for r in host if r["name"] == "Inference"]
    if latencies:
        def report():
            """Numbers of `opmeter summary`, by their label."""
            text = opmeter.text("summary", "--as", "furiosa", path)
            return {k.strip(): int(v) for k, v in re.findall(r"^(.*\S) +: (\d+)$", text, re.M)}
        truth = {"Inference counts": len(latencies), "Min latency (ns)": min(latencies),
                 "Max latency (ns)": max(latencies), "Mean latency (ns)": int(numpy.mean(latencies)),
                 "Median latency (ns)": int(numpy.median(latencies))}
        for p in (90.0, 95.0, 97.0, 99.0, 99.9):
            truth[f"{p} percentile latency (ns)"] = int(numpy.percentile(latencies, p))
        case.check("summary", report, truth, "numpy's linear percentiles, truncated as the SDK does")
        case.check("inferences", lambda: sorted((r["trace_id"], r["span_id"], r["tid"], r["dur"])
                   for r in opmeter.query(
                       path, "SELECT trace_id, span_id, tid, dur FROM inferences")),
                   sorted((r["trace_id"], r["span_id"], int(r["thread.id"]), r["dur"])
                          for r in host if r["name"] == "Inference"), "rows named Inference")
    computing = defaultdict(int)
    for r in device:
        if r["name"] not in ("Execution", "Task", "Load", "Store"):
            computing[r["parent_span_id"]] += r["dur"]
    runs = [r for r in device if not r["instruction_index"] and r["span_id"] in computing]
    if runs:
        case.check("executions", lambda: sorted(tuple(r.values()) for r in opmeter.query(
            path, "SELECT total_ns, run_ns, io_wait_ns FROM executions")),
            sorted((r["dur"], computing[r["span_id"]], r["dur"] - computing[r["span_id"]])
                   for r in runs), "NPU Total, Run and IoWait")
    by_name = defaultdict(list)
    for r in device:
        if r["instruction_index"] and r["name"] not in ("Execution", "Task", "Load", "Store"):
            by_name[r["name"]].append(r["dur"])
    if by_name:
        case.check("device_ops", lambda: rows_by(opmeter.query(
            path, "SELECT name, count, mean_ns FROM device_ops"), "name", "count", "mean_ns"),
            {n: (len(d), float(numpy.mean(d))) for n, d in by_name.items()},
            "rows of the device by name")
    external = sorted((r["name"], int(float(r["operator_index"])), r["dur"]) for r in host
                      if r["operator_index"])
    if external:
        case.check("host_ops", lambda: sorted((r["type"], r["operator_index"], r["dur"])
                   for r in opmeter.query(path, "SELECT type, operator_index, dur FROM host_ops")),
                   external, "rows of the host with an operator_index")


def cambricon(case, opmeter, folder):
    activities = json.loads((folder / "activity_stats_collection.json").read_text())
    summary = json.loads((folder / "summary.json").read_text())
    nodes = defaultdict(list)
    for path in sorted((folder / "step_stats").iterdir()):
        text = path.read_text()
        for name, us in re.findall(
                r'node_name: "([^"]+)".*?all_end_rel_micros: (\d+)', text, re.DOTALL):
            nodes[name].append(int(us) * 1000)
    case.check("operators", lambda: rows_by(opmeter.query(
        folder, "SELECT name, count, total_ns FROM op_stats"), "name", "count", "total_ns"),
        {n: (len(d), sum(d)) for n, d in nodes.items()}, "all_end_rel_micros in step_stats")
    sessions = [1e9 * (a["Session Run"]["end"] - a["Session Run"]["start"])
                for a in activities.values()]
    case.check("latency", lambda: [tuple(r.values()) for r in opmeter.query(
        folder, "SELECT count, mean_ns FROM latency WHERE scope = 'step'")],
        [(len(sessions), float(numpy.mean(sessions)))], "activity Session Run", within=300)
    prepared = [1000 * step["Data Prepare"]["duration"]
                for step in summary["app_stats"].values()]
    case.check("activities", lambda: sorted(r["dur"] for r in opmeter.query(
        folder, "SELECT dur FROM span WHERE name = 'Data Prepare'")), sorted(prepared),
        "app_stats of summary.json, which no other file has")
    sizes = {name: node["total_bytes"] for steps in summary["op_stats"].values()
             for hosts in steps.values() for devices in hosts.values()
             for nodes_ in devices.values() for name, node in nodes_.items()}
    case.check("bytes", lambda: {r["name"]: r["bytes"] for r in opmeter.query(
        folder, "SELECT o.name, sum(t.bytes) bytes FROM op o JOIN op_tensor t ON t.op = o.id "
        "WHERE t.io = 'output' GROUP BY o.name")}, sizes, "total_bytes of its only output")
