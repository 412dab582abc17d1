"""four_ways_python.py TRACE -- what the Python package says of a trace, as JSON."""
import json
import sys

import opmeter

trace = opmeter.open(sys.argv[1])
ops, steps, summary = trace.ops(), trace.steps(), trace.summary()
steps, summary = steps[steps.warmup == 0], summary[summary.scope == "step"]
first = ops.iloc[0] if len(ops) else None
json.dump({
    "step_mean": float(summary.mean_ns.iloc[0]) if len(summary) else None,
    "step_median": float(summary.median_ns.iloc[0]) if len(summary) else None,
    "parts": [float(steps[c].mean()) for c in ("total_ns", "gap_ns", "fp_bp_ns", "tail_ns")]
    if len(steps) else None,
    "busy": trace.rows("SELECT device, rank, run_ns, wait_ns FROM stream_stats "
                       "WHERE scope = 'device'"),
    "top": [first["name"], int(first["count"]), int(first["total_ns"]), float(first["mean_ns"])]
    if first is not None else None,
    "rates": {r["name"]: r["gflops_per_s"] for r in trace.rows(
        "SELECT name, gflops_per_s FROM op_stats WHERE gflops_per_s IS NOT NULL")},
    "occupation": {r["bucket"]: r["ns"] for r in trace.rows(
        "SELECT bucket, sum(ns) ns FROM occupation WHERE warmup = 0 GROUP BY bucket")},
}, sys.stdout)
