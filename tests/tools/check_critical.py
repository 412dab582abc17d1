#!/usr/bin/env python3
"""check_critical.py -- our critical path beside the one that another tool marked in a trace.

usage: check_critical.py OPMETER TRACE MARKED

MARKED is TRACE with args.critical on the events of the other tool's path, which is the longest chain of recorded work: time
in which a thread records nothing weighs nothing there. Ours is bounded by time. So each may have, alone,

- the other tool: work on the device that was done before the host call that waits for it even began. It bounds nothing: had
  it been shorter, the call would have returned no earlier;
- ours: what the host did meanwhile, the annotations around it, and what comes after the last marked event.
"""
import gzip
import json
import subprocess
import sys

opmeter, trace, marked = sys.argv[1:4]
events = [e for e in json.load(gzip.open(marked))["traceEvents"] if e.get("ph") == "X"]
start = min(e["ts"] for e in events)


def key(e):
    return (e["ts"] - start) * 1000, e["dur"] * 1000, e["name"]


by_key = {key(e): e for e in events}
theirs = {key(e) for e in events if e.get("args", {}).get("critical")}
rows = json.loads(subprocess.check_output(
    [opmeter, "query", "--json", trace, "SELECT s.ts, s.dur, s.name, c.ts AS at, c.dur AS ns FROM critical_path AS c JOIN span AS s ON s.id = c.span"]))
ours = {(r["ts"], r["dur"], r["name"]) for r in rows}
device = ("kernel", "gpu_memcpy", "gpu_memset")
waits = sorted(key(e)[0] for e in events if "Synchronize" in e["name"])
last = max(t + d for t, d, _ in theirs)
unexplained, idle_work, meanwhile = [], [], []
for k in theirs - ours:
    after = [w for w in waits if w >= k[0] + k[1]]
    running = any(key(e)[0] < k[0] + k[1] < key(e)[0] + key(e)[1] for e in events if "Synchronize" in e["name"])
    (idle_work if by_key[k]["cat"] in device and after and not running else unexplained).append(k)
begin = min((k[0] for k in idle_work), default=0)
end = max((min(w for w in waits if w >= k[0] + k[1]) for k in idle_work), default=0)
for k in ours - theirs:
    fine = by_key[k]["cat"] == "user_annotation" or k[0] + k[1] > last or begin <= k[0] <= end
    (meanwhile if fine else unexplained).append(k)
for k in unexplained:
    print("unexplained:", "theirs" if k in theirs else "ours", k)
print(f"{len(ours & theirs)} events on both paths, {len(idle_work)} done before anything waited for them, "
      f"{len(unexplained)} unexplained")
