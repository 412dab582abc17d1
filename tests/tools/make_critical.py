#!/usr/bin/env python3
"""make_critical.py -- a Kineto trace whose critical path is known, because its schedule is simulated.

usage: make_critical.py TRACE.json PATH.csv SEED [--no-last-sync]

One host thread launches on two or three streams, records events, lets streams wait for them, and
waits for events, streams and the device. Every start is the latest of what had to come before, and
which one that was is remembered: so the path is followed back along causes, without looking at
times. PATH.csv gets num,seq,kind,ts,dur,name with times in ns from the start of the trace.
"""
import json
import random
import sys

CALL = 5   # us that a runtime call takes
DELAY = 1  # us from the last cause to the start on the device, or to the return of a waiting call


class Work:
    """Something with a start and an end, and the work that its start waited for."""

    def __init__(self, name, cat, tid, ts, dur, kind, cause, cause_kind, **args):
        self.name, self.cat, self.tid, self.ts, self.dur, self.args = name, cat, tid, ts, dur, args
        self.kind = kind              # of its own time
        self.cause = cause            # Work, or None at the beginning
        self.cause_kind = cause_kind  # of the time between the cause and its own start

    @property
    def end(self):
        return self.ts + self.dur


def simulate(seed, last_sync):
    rng = random.Random(seed)
    streams = [7, 20, 28][:rng.choice([2, 3])]
    host, device, syncs, steps = [], {s: [] for s in streams}, [], []
    waits = {s: [] for s in streams}  # events that the next work of a stream must wait for
    events, now, last, correlation = [], 1000, None, 100
    kernels = 0

    def call(name, args):
        nonlocal now, last, correlation
        correlation += 1
        w = Work(name, "cuda_runtime", 1, now, CALL, "runtime", last, "idle", correlation=correlation, **args)
        host.append(w)
        now, last = w.end, w
        return w

    def wait_for(name, sync_name, works, **args):
        """A call that returns once all of these are done."""
        nonlocal now, last, correlation
        correlation += 1
        late = max(works, key=lambda w: w.end, default=None)
        begin = now
        if late is None or late.end <= begin:
            w = Work(name, "cuda_runtime", 1, begin, DELAY, "runtime", last, "idle", correlation=correlation)
        else:
            w = Work(name, "cuda_runtime", 1, begin, late.end + DELAY - begin, "sync", last, "idle", correlation=correlation)
            w.waited = late
        host.append(w)
        syncs.append(Work(sync_name, "cuda_sync", args["stream"], begin, w.dur, None, None, None,
                          correlation=correlation, cuda_sync_kind=sync_name, **args))
        now, last = w.end, w

    for num in range(rng.choice([1, 2, 3])):
        first = now
        for _ in range(rng.randrange(4, 25)):
            what = rng.random()
            if what < 0.25:
                dur = rng.randrange(1, 60)
                last = Work(f"aten::op{rng.randrange(4)}", "cpu_op", 1, now, dur, "host", last, "idle")
                host.append(last)
                now += dur
            elif what < 0.35:
                now += rng.randrange(1, 30)  # the program between operators
            elif what < 0.75:
                s = rng.choice(streams)
                launch = call("cudaLaunchKernel", {})
                dur = rng.randrange(2, 200)
                # By rank where ends are equal: the stream itself, then events, then the launch.
                causes = [(w.end, 2, w) for w in device[s][-1:]] + [(launch.end, 0, launch)]
                causes += [(w.end, 1, w) for w in waits[s] if w is not None]
                waits[s] = []
                end, rank, cause = max(causes, key=lambda c: c[:2])
                comm = rng.random() < 0.2
                name = f"ncclDevKernel_AllReduce_{kernels}" if comm else f"kernel_{kernels}"
                kernels += 1
                device[s].append(Work(name, "kernel", s, end + DELAY, dur, "communication" if comm else "compute", cause,
                                      ["launch", "sync", "gap"][rank], correlation=launch.args["correlation"], stream=s))
            elif what < 0.87 and len(streams) > 1:
                a, b = rng.sample(streams, 2)
                record = call("cudaEventRecord", {})
                wait = call("cudaStreamWaitEvent", {})
                waits[b].append(device[a][-1] if device[a] else None)
                syncs.append(Work("Stream Wait Event", "cuda_sync", b, wait.ts, 1, None, None, None, stream=b, wait_on_stream=a,
                                  cuda_sync_kind="Stream Wait Event", correlation=wait.args["correlation"],
                                  wait_on_cuda_event_record_corr_id=record.args["correlation"], wait_on_cuda_event_id=3))
            elif what < 0.9:
                s = rng.choice(streams)
                wait_for("cudaStreamSynchronize", "Stream Sync", device[s][-1:], stream=s)
            elif what < 0.95:
                s = rng.choice(streams)
                record = call("cudaEventRecord", {})
                done = device[s][-1:]
                now += rng.choice([0, 3])
                wait_for("cudaEventSynchronize", "Event Sync", done, stream=-1, wait_on_stream=s,
                         wait_on_cuda_event_record_corr_id=record.args["correlation"], wait_on_cuda_event_id=4)
            else:
                wait_for("cudaDeviceSynchronize", "Context Sync", [d[-1] for d in device.values() if d], stream=-1)
        if last_sync or rng.random() < 0.5:
            wait_for("cudaDeviceSynchronize", "Context Sync", [d[-1] for d in device.values() if d], stream=-1)
        steps.append((num, first, max(now, first + 1)))
        now = steps[-1][2]
    return host, device, syncs, steps, last


def true_path(host, device, steps, last):
    """Segments (from, to, kind, name) from the causes alone, the earliest first."""
    end = steps[-1][2]
    tail = [d[-1] for d in device.values() if d and d[-1].end > end]
    path = []

    def put(a, b, kind, name):
        a = max(a, steps[0][1])
        if b > a:
            path.append((a, b, kind, name))

    if tail:
        work, at = max(tail, key=lambda w: w.end), None
    else:
        work = last
        put(last.end if last else steps[0][1], end, "idle", "")
    while work is not None:
        if work.kind == "sync":
            put(work.waited.end, work.end, "sync", work.name)
            work = work.waited
            continue
        put(work.ts, work.end, work.kind, work.name)
        cause = work.cause
        if cause is None:
            put(steps[0][1], work.ts, "idle", "")
        elif work.cause_kind == "launch":
            put(cause.ts, work.ts, "launch", cause.name)  # the call itself is part of the delay
            launch, cause = cause, cause.cause
            put(cause.end if cause else steps[0][1], launch.ts, "idle", "")
        else:
            put(cause.end, work.ts, work.cause_kind, "" if work.cause_kind == "idle" else work.name)
        work = cause
    return path[::-1]


def main():
    trace, expected, seed = sys.argv[1:4]
    host, device, syncs, steps, last = simulate(int(seed), "--no-last-sync" not in sys.argv)
    works = host + [w for d in device.values() for w in d] + syncs
    if not any(device.values()):
        for w in host:  # without a device, operators are the computation
            w.kind = "compute" if w.kind == "host" else w.kind
    out = [{"ph": "X", "cat": w.cat, "name": w.name, "pid": 100 if w.tid == 1 else 0, "tid": w.tid, "ts": w.ts,
            "dur": w.dur, "args": w.args} for w in works]
    out += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 100, "tid": 1, "ts": a, "dur": b - a,
             "args": {}} for n, a, b in steps]
    with open(trace, "w") as f:
        json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "planted"}], "traceEvents": out}, f)
    start = steps[0][1]
    with open(expected, "w") as f:
        print("num,seq,kind,ts,dur,name", file=f)
        path = true_path(host, device, steps, last)
        for n, a, b in steps:
            if n == steps[-1][0]:
                b = max(b, path[-1][1])
            seq = 0
            for x, y, kind, name in path:
                x, y = max(x, a), min(y, b)
                if y > x:
                    seq += 1
                    print(f"{n},{seq},{kind},{(x - start) * 1000},{(y - x) * 1000},{name}", file=f)


main()
