"""kineto.py -- figures of a PyTorch (Kineto) trace, from its JSON.

What links what: a device event and the call that launched it have the same `correlation`; the
operator that launched it is the innermost cpu_op around that call on its thread. Where the call was
not recorded, `External id` names the operator. Not before: some writers put the correlation there,
which then happens to be the External id of an operator that has nothing to do with it
(hta/critical_path/simple_add). Files of 2021 spell the categories differently.
"""
import gzip
import json
from bisect import bisect_right
from collections import defaultdict, namedtuple
from decimal import Decimal

import intervals

Event = namedtuple("Event", "start end name cat pid tid args")

KERNEL, COPY, SET = {"kernel"}, {"gpu_memcpy", "memcpy"}, {"gpu_memset", "memset"}
OPERATOR, RUNTIME = {"cpu_op", "operator"}, {"cuda_runtime", "cuda_driver", "runtime"}
LIBRARIES = ("nccl", "rccl")  # whose kernels communicate


def ns(text):
    """Nanoseconds of a number of microseconds as it stands in the file: doubles would round it."""
    if isinstance(text, int):
        return text * 1000
    return int((Decimal(text) * 1000).to_integral_value())


def load(path):
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=str, strict=False)
    return document["traceEvents"] if isinstance(document, dict) else document


class Trace:
    def __init__(self, path):
        self.events = []
        for e in load(path):
            if e.get("ph") != "X":
                continue
            start, dur = ns(e["ts"]), ns(e.get("dur", 0))
            self.events.append(Event(start, start + dur, str(e.get("name", "")),
                                     str(e.get("cat", "")).lower(), e.get("pid"), e.get("tid"),
                                     e.get("args") or {}))

    def of(self, cats):
        return [e for e in self.events if e.cat in cats]

    def operators(self):
        """Files of 2021 have the marks of steps among the operators."""
        return [e for e in self.of(OPERATOR) if not is_step(e)]

    def device_events(self):
        return self.of(KERNEL | COPY | SET)

    def devices(self):
        """Device number to its events."""
        found = defaultdict(list)
        for e in self.device_events():
            found[e.args.get("device", e.pid)].append(e)
        return found


def is_step(event):
    return event.name.startswith("ProfilerStep#")


def communicates(event):
    return (event.cat in KERNEL
            and (any(word in event.name.lower() for word in LIBRARIES)
                 or "Collective name" in event.args))


def spans(events):
    return [(e.start, e.end) for e in events]


def device_figures(events):
    """What one device did, from its first start to its last end."""
    kernels = [e for e in events if e.cat in KERNEL]
    moves = [e for e in events if e.cat not in KERNEL]
    busy = intervals.union(spans(events))
    idle = intervals.gaps(busy)
    compute = spans(e for e in kernels if not communicates(e))
    communication = spans(e for e in kernels if communicates(e))
    working = compute + communication
    return {
        "kernels": len(kernels),
        "copies": len(moves),
        "total_ns": busy[-1][1] - busy[0][0] if busy else 0,
        "run_ns": intervals.length(working),
        "copy_ns": intervals.length(spans(moves)),
        "wait_ns": sum(b - a for a, b in idle),
        "longest_wait_ns": max((b - a for a, b in idle), default=None),
    }, {
        "overlap": intervals.length(intervals.intersect(compute, communication)),
        "compute": intervals.length(intervals.subtract(compute, communication)),
        "communication": intervals.length(intervals.subtract(communication, compute)),
        "copy": intervals.length(intervals.subtract(spans(moves), working)),
    }


def sums_by_name(events):
    sums = defaultdict(lambda: [0, 0])
    for e in events:
        sums[e.name][0] += 1
        sums[e.name][1] += e.end - e.start
    return {name: tuple(pair) for name, pair in sums.items()}


class Threads:
    """Operators around a moment of a thread, innermost first; operators of a thread nest."""

    def __init__(self, operators):
        by_thread = defaultdict(list)
        for e in operators:
            by_thread[e.pid, e.tid].append(e)
        self.threads = {}
        for thread, mine in by_thread.items():
            mine.sort(key=lambda e: (e.start, -e.end))
            parents, stack = [], []
            for i, e in enumerate(mine):
                while stack and mine[stack[-1]].end < e.end:
                    stack.pop()
                parents.append(stack[-1] if stack else None)
                stack.append(i)
            self.threads[thread] = [e.start for e in mine], mine, parents

    def around(self, event):
        starts, mine, parents = self.threads.get((event.pid, event.tid), ([], [], []))
        at = bisect_right(starts, event.start) - 1
        at = at if at >= 0 else None
        while at is not None and mine[at].end < event.end:
            at = parents[at]
        return mine[at] if at is not None else None


def attribution(trace):
    """(device event, operator or None, launching call or None) of every device event."""
    launches = {e.args["correlation"]: e for e in trace.of(RUNTIME) if e.args.get("correlation")}
    operators = trace.operators()
    threads = Threads(operators)
    external = {}
    for e in operators:
        number = e.args.get("External id", e.args.get("external id"))
        if number:
            external[number] = e
    rows = []
    for e in trace.device_events():
        launch = launches.get(e.args.get("correlation"))
        operator = threads.around(launch) if launch else None
        if operator is None and launch is None:
            operator = external.get(e.args.get("External id", e.args.get("external id")))
        rows.append((e, operator, launch))
    return rows


def operator_device_sums(rows):
    """Device events and their time, by the operator that launched them itself; those of graphs
    that no operator launched, together."""
    sums = defaultdict(lambda: [0, 0])
    for event, operator, launch in rows:
        owner = operator.name if operator is not None else None
        if owner is None and launch is not None and "GraphLaunch" in launch.name:
            owner = "graph launch"
        if owner is not None:
            sums[owner][0] += 1
            sums[owner][1] += event.end - event.start
    return {name: tuple(pair) for name, pair in sums.items()}


def self_times(trace):
    """Operator name to (count, sum of durations, sum of self times) on the host.

    Self: without what lies inside on the same thread, whatever it is. Python frames and annotations
    are written on the thread of the operators. Those that cross others have no self time that
    everybody would agree on: then it is None. An operator of the dispatcher directly inside one of
    the same name is the same call, passed on: the inner one is the execution that counts, unless
    it has no length and may as well come after the other. One that has two such inside, or a call
    of the driver's directly inside, works itself.
    """
    by_thread, sums = defaultdict(list), defaultdict(lambda: [0, 0, 0])
    crossing = False
    for e in trace.events:
        if e.cat not in KERNEL | COPY | SET:
            by_thread[e.pid, e.tid].append(e)
    for mine in by_thread.values():
        order = sorted(mine, key=lambda e: (e.start, -e.end))
        stack, inside, inner, launches = [], defaultdict(int), defaultdict(int), set()
        for e in order:
            while stack and stack[-1].end <= e.start:
                stack.pop()
            if stack and stack[-1].end < e.end:
                crossing = True
            elif stack:
                inside[id(stack[-1])] += e.end - e.start
                if ("::" in e.name and e.name == stack[-1].name and e.end > e.start
                        and stack[-1].cat in OPERATOR):
                    inner[id(stack[-1])] += 1
                if "runtime" in e.cat.lower() or "driver" in e.cat.lower():
                    launches.add(id(stack[-1]))
            stack.append(e)
        for e in order:
            if e.cat in OPERATOR and not is_step(e):
                row = sums[e.name]
                if inner[id(e)] != 1 or id(e) in launches:
                    row[0] += 1
                    row[1] += e.end - e.start
                row[2] += e.end - e.start - inside[id(e)]
    return {name: tuple(row[:2]) for name, row in sums.items()}, (
        None if crossing else {name: row[2] for name, row in sums.items()})


def steps(trace):
    """ProfilerStep annotations of the host, in order."""
    return sorted((e for e in trace.events
                   if is_step(e) and e.cat != "gpu_user_annotation"),
                  key=lambda e: e.start)
