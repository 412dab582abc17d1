#!/usr/bin/env python3
"""check_steps.py -- compare `opmeter steps --csv` of a PyTorch trace with the split computed here from its JSON.

usage: tests/tools/check_steps.py OPMETER TRACE...

The definition, written a second time: a step is a ProfilerStep event; operators are cpu_op events that start in it and do
not lie inside data loading or Optimizer.step on their thread; the backward pass reaches from the first to the last event
of the autograd engine; forward is from the first operator to the backward pass. Where data loading is in the step, the first
operator is the first after it, unless no fewer of them came before: then that data is for the next step."""
import csv
import gzip
import io
import json
import subprocess
import sys
from decimal import Decimal


def ns(value):
    return int((Decimal(str(value)) * 1000).to_integral_value())


def is_backward(name):
    return name.startswith(("autograd::engine::evaluate_function", "torch::autograd::")) or "Backward" in name


def is_loader(name):
    return name.startswith(("enumerate(DataLoader)", "GetNext")) or "DataLoaderIter.__next__" in name or "IteratorGetNext" in name


def split(path):
    raw = open(path, "rb").read()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    events = json.loads(text, parse_float=Decimal, strict=False)
    events = events["traceEvents"] if isinstance(events, dict) else events
    spans = [(ns(e["ts"]), ns(e["ts"]) + ns(e.get("dur", 0)), e.get("name", ""), e.get("cat", ""), (e.get("pid"), e.get("tid")))
             for e in events if e.get("ph") == "X"]
    spans.sort(key=lambda s: (s[0], -s[1]))
    steps = [s for s in spans if s[2].startswith("ProfilerStep#") and s[3] not in ("gpu_user_annotation",)]
    for from_, to, name, _, _ in sorted(steps):
        first = backward_from = backward_to = fed = None
        operators = []
        update, skip = None, {}
        for ts, end, what, cat, thread in spans:
            if not from_ <= ts < to or what.startswith("ProfilerStep#") or cat == "gpu_user_annotation":
                continue
            inside = ts < skip.get(thread, ts)
            if is_loader(what) or what.startswith("Optimizer.step#"):
                if what.startswith("Optimizer.step#") and not inside:
                    update = (update or 0) + end - ts
                if is_loader(what) and fed is None:
                    fed = end
                skip[thread] = max(skip.get(thread, end), end)
                continue
            if cat not in ("cpu_op", "Operator", "operator"):
                continue
            if is_backward(what):
                backward_from = ts if backward_from is None else min(ts, backward_from)
                backward_to = end if backward_to is None else max(end, backward_to)
            if not inside:
                operators.append(ts)
        if operators:
            later = [ts for ts in operators if fed is not None and ts >= fed]
            first = min(later if len(later) > len(operators) - len(later) else operators)
        row = {"num": int(name.split("#")[1]), "total_ns": to - from_, "update_ns": update}
        if backward_from is not None:
            start = min(max(first if first is not None else from_, from_), to)
            last = min(max(backward_to, start), to)
            middle = min(max(backward_from, start), last)
            row.update(gap_ns=start - from_, forward_ns=middle - start, backward_ns=last - middle, tail_ns=to - last)
        yield row


def main():
    bad = compared = 0
    for path in sys.argv[2:]:
        text = subprocess.run([sys.argv[1], "steps", "--csv", path], capture_output=True, text=True, check=True).stdout
        ours = {(int(r["num"]), int(r["total_ns"])): r for r in csv.DictReader(io.StringIO(text))}
        for row in split(path):
            mine = ours.get((row["num"], row["total_ns"]))
            compared += 1
            for key, value in row.items():
                got = mine and mine[key]
                if mine is None or (int(got) if got else None) != value:
                    bad += 1
                    print(f"{path}: step {row['num']}: {key} is {got}, expected {value}")
    print(f"{compared} steps compared, {bad} differences")
    return 1 if bad or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
