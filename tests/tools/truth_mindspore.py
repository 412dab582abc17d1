#!/usr/bin/env python3
"""truth_mindspore.py -- compare what opmeter reads from raw MindSpore files with the files that
MindSpore's own parsers made from them.

usage: truth_mindspore.py RAW PARSED DEVICE

Prints one line for each kind of figure: how many were compared. The first differences go to
standard error, and the exit status is 1 then.
"""
import csv
import json
import subprocess
import sys
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

TICK_NS = 10
failed = False


def query(folder, sql):
    out = subprocess.run(["opmeter", "query", "--json", str(folder), sql], check=True,
                         capture_output=True, text=True).stdout
    return json.loads(out)


def report(what, compared, wrong):
    global failed
    print(f"{what}: {compared} compared, {len(wrong)} wrong")
    for line in wrong[:5]:
        print(f"  {what}: {line}", file=sys.stderr)
    failed |= bool(wrong) or not compared


def half_even(total, n):
    q, r = divmod(total, n)
    return q + (2 * r > n or (2 * r == n and q % 2 == 1))


def steps(raw, parsed, device):
    """Every point and collective of every step, and their means over all but the first step."""
    rows = list(csv.DictReader(open(parsed / f"step_trace_raw_{device}_detail_time.csv")))
    origin = int(query(raw, "SELECT value FROM meta WHERE key = 'trace.start_ns'")[0]["value"])
    found = query(raw, "SELECT s.num, s.ts, s.dur, p.ts AS fp, p.dur AS fp_dur FROM step AS s JOIN"
                       " span AS p ON p.cat = 'phase' AND p.step = s.id ORDER BY s.num")
    collectives = defaultdict(dict)
    for c in query(raw, "SELECT ts, dur, args ->> 'parallel' AS name, (SELECT num FROM step WHERE"
                        " step.ts <= span.ts AND span.ts < step.ts + step.dur) AS num FROM span"
                        " WHERE cat = 'collective'"):
        collectives[c["num"]][c["name"]] = c
    wrong, compared = [], 0
    table = {}
    for f in found:
        start, end = f["ts"] + origin, f["ts"] + f["dur"] + origin
        fp, bp = f["fp"] + origin, f["fp"] + f["fp_dur"] + origin
        row = {"start_point": start, "end_point": end, "total": end - start, "fp_point": fp,
               "bp_point": bp, "iteration_interval": fp - start, "fp_and_bp": bp - fp,
               "tail": end - bp}
        for name, c in collectives[f["num"]].items():
            row[f"{name}_start_point"] = c["ts"] + origin
            row[f"{name}_end_point"] = c["ts"] + c["dur"] + origin
            row[name] = c["dur"]
        table[f["num"]] = row
    for row in rows:
        if row["step_num"] == "-":
            means = row
            continue
        mine = table.get(int(row["step_num"]), {})
        for key, value in row.items():
            if key == "step_num":
                continue
            compared += 1
            if mine.get(key) != int(value) * TICK_NS:
                wrong.append(f"step {row['step_num']} {key}: {mine.get(key)} for {value} ticks")
    report("step points", compared, wrong)

    counted = [table[n] for n in sorted(table) if n != 1]
    wrong = []
    for key, value in means.items():
        if key == "step_num":
            continue
        mine = half_even(sum(r[key] for r in counted) // TICK_NS, len(counted))
        if mine != int(value):
            wrong.append(f"{key}: {mine} for {value}")
    report("step means", len(means) - 1, wrong)

    mean = query(raw, "SELECT avg(total_ns) AS total, avg(gap_ns) AS iteration_interval,"
                      " avg(fp_bp_ns) AS fp_and_bp, avg(tail_ns) AS tail FROM step_trace"
                      " WHERE warmup = 0")[0]
    wrong = [f"{k}: {v} for {means[k]} ticks" for k, v in mean.items()
             if abs(v / TICK_NS - int(means[k])) > 0.5]
    report("means of step_trace", len(mean), wrong)


def operators(raw, parsed, device):
    """Mean time of every operator, and sums of these by type."""
    mine = {r["name"]: r for r in
            query(raw, "SELECT op.name, op.type, sum(dur) AS ns, count(*) AS n FROM span JOIN op"
                       " ON op.id = span.op WHERE span.cat = 'op' GROUP BY op.id")}
    theirs = {}
    for line in open(parsed / f"output_op_compute_time_{device}.txt"):
        word = line.split()
        if len(word) == 3 and "/" in word[0]:
            theirs[word[0]] = float(word[1])
    wrong = [f"{name}: {mine.get(name)} for {ms} ms" for name, ms in theirs.items()
             if name not in mine or
             abs(mine[name]["ns"] / mine[name]["n"] / 1e6 - ms) > 1e-12 * max(ms, 1)]
    wrong += [f"{name}: not there" for name in mine if name not in theirs]
    report("operator means", len(theirs), wrong)

    sums, counts = defaultdict(Decimal), defaultdict(int)
    for r in mine.values():
        sums[r["type"]] += Decimal(r["ns"]) / r["n"] / 1000000
        counts[r["type"]] += 1
    rows = list(csv.reader(open(parsed / f"aicore_intermediate_{device}_type.csv")))[1:]
    wrong = [f"{t}: {sums[t]} of {counts[t]} for {ms} of {n}" for t, ms, n, _ in rows
             if abs(sums[t] - Decimal(ms)) > Decimal("1e-12") or counts[t] != int(n)]
    report("operator types", len(rows), wrong)


def tensors(raw, parsed, device):
    """Types, shapes and element types, which the parsed files have as JSON."""
    names = {"FLOAT32": "fp32", "FLOAT16": "fp16", "FLOAT64": "fp64"}
    mine = {(r["op"], r["io"], r["slot"]): (r["type"], r["shape"], r["dtype"]) for r in
            query(raw, "SELECT op.name AS op, op.type, io, slot, shape, dtype FROM op_tensor JOIN"
                       " op ON op.id = op_tensor.op")}
    wrong, compared = [], 0
    for row in csv.DictReader(open(parsed / f"framework_raw_{device}.csv")):
        for key, info in json.loads(row["op_info"]).items():
            io, slot = key.rsplit("_", 1)
            dtype = info["data_type"].removeprefix("NUMBER_TYPE_")
            want = (row["op_type"], info["shape"].replace(",", "x"),
                    names.get(dtype, dtype.lower()))
            compared += 1
            if mine.get((row["full_op_name"], io, int(slot))) != want:
                wrong.append(f"{row['full_op_name']} {key}: "
                             f"{mine.get((row['full_op_name'], io, int(slot)))} for {want}")
    report("tensors", compared, wrong)


def timeline(raw, parsed):
    """Executions from the raw and from the parsed files are the same ones."""
    sql = ("SELECT op.name, track.tid, span.ts + (SELECT value FROM meta WHERE key ="
           " 'trace.start_ns') AS ts, dur FROM span JOIN op ON op.id = span.op JOIN track ON"
           " track.id = span.track WHERE span.cat = 'op'")
    a, b = ({tuple(r.values()) for r in query(f, sql)} for f in (raw, parsed))
    report("executions", len(b), [str(x) for x in sorted(a ^ b)])


def main():
    raw, parsed, device = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    steps(raw, parsed, device)
    operators(raw, parsed, device)
    tensors(raw, parsed, device)
    timeline(raw, parsed)
    return failed


if __name__ == "__main__":
    sys.exit(main())
