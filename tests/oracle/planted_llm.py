"""planted_llm.py -- a server with continuous batching, whose every request and iteration is known.

simulate() runs the server on a clock of its own and writes what a program would tell: events of
category llm, and a launch and a kernel for each iteration. All times are whole microseconds.
"""
import json
import random

HOW = {
    "slots": 4,      # requests at once
    "chunk": 512,    # tokens of a prompt that an iteration reads at most
    "between": 7,    # us of the host between two iterations
    "hand_out": 3,   # us from the end of an iteration to its tokens
}


class Request:
    def __init__(self, name, arrival, prompt, tokens):
        self.name, self.arrival, self.prompt, self.want = name, arrival, prompt, tokens
        self.read, self.made, self.scheduled, self.times = 0, 0, None, []
        self.prefill, self.aside, self.aside_since, self.preemptions = 0, 0, None, 0
        self.device_ns = 0


class Server:
    """requests: those that come, by arrival; preempt: {iteration: (name, us)} sets one aside; how: HOW, otherwise."""

    def __init__(self, requests, preempt=(), **how):
        self.how = {**HOW, **how}
        self.waiting, self.running = sorted(requests, key=lambda r: r.arrival), []
        self.all, self.preempt, self.aside = list(self.waiting), dict(preempt), []
        self.events, self.at, self.num, self.correlation = [], 1000, 0, 0
        self.iterations = []

    def tell(self, name, ts, dur=0, cat="llm", pid=1, tid=1, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts,
                            "dur": dur, "args": args})

    def admit(self):
        for request in [r for r, until in self.aside if until <= self.at]:
            self.aside = [(r, u) for r, u in self.aside if r is not request]
            request.aside += self.at - request.aside_since
            self.running.append(request)
            self.tell("scheduled", self.at, request=request.name)
        while self.waiting and self.waiting[0].arrival <= self.at and len(self.running) < self.how["slots"]:
            request = self.waiting.pop(0)
            request.scheduled = self.at
            self.running.append(request)
            self.tell("scheduled", self.at, request=request.name)

    def iterate(self):
        begin, members, cost = self.at, [], 200
        for request in self.running:
            if request.read < request.prompt:
                n = min(self.how["chunk"], request.prompt - request.read)
                request.read += n
                members.append((request, "prefill", n, int(request.read == request.prompt),
                                request.read))
            else:
                members.append((request, "decode", 1, 1, request.prompt + request.made))
        cost += sum(2 * n for _, _, n, _, _ in members)
        end = begin + cost
        self.tell("iteration", begin, cost, num=self.num)
        for request, phase, n, out, context in members:
            self.tell("member", begin + 1, request=request.name, phase=phase, tokens_in=n,
                      tokens_out=out, context=context)
        self.correlation += 1
        device = cost - 50
        self.tell("cudaLaunchKernel", begin + 5, 4, cat="cuda_runtime", correlation=self.correlation)
        self.tell("model_kernel", begin + 20, device, cat="kernel", pid=0, tid=7, device=0, stream=7,
                  correlation=self.correlation)
        phases = {phase for _, phase, *_ in members}
        self.iterations.append({
            "kind": phases.pop() if len(phases) == 1 else "mixed", "dur": cost * 1000,
            "device": device * 1000, "batch": len(members),
            "in": sum(n for _, _, n, _, _ in members), "out": sum(o for *_, o, _ in members)})
        for request, phase, n, out, _ in members:
            if phase == "prefill" and not request.times:
                request.prefill += cost
            if out:
                request.made += 1
                request.times.append(end + self.how["hand_out"])
                self.tell("token", end + self.how["hand_out"], request=request.name)
        self.at = end + self.how["hand_out"] + self.how["between"]
        for request in [r for r in self.running if r.made == r.want]:
            self.running.remove(request)
            self.tell("finished", self.at, request=request.name, reason="length")
        name, us = self.preempt.get(self.num, (None, 0))
        for request in [r for r in self.running if r.name == name]:
            self.running.remove(request)
            request.preemptions += 1
            request.aside_since = self.at
            self.aside.append((request, self.at + us))
            self.tell("preempted", self.at, request=request.name)
        self.num += 1

    def run(self):
        for request in self.all:
            self.tell("request", request.arrival, request=request.name, tokens_in=request.prompt,
                      model="planted")
        while self.waiting or self.running or self.aside:
            self.admit()
            if self.running:
                self.iterate()
            else:
                self.at = min([r.arrival for r in self.waiting[:1]] + [u for _, u in self.aside])
        return self

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        random.seed(3)
        random.shuffle(self.events)
        path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [
            {"id": 0, "name": "GPU"}], "traceEvents": self.events}))

    def truth(self):
        """name: what request_latency should say."""
        return {r.name: {
            "e2e_ns": (r.times[-1] - r.arrival) * 1000, "ttft_ns": (r.times[0] - r.arrival) * 1000,
            "queue_ns": (r.scheduled - r.arrival) * 1000, "prefill_ns": r.prefill * 1000,
            "itl_ns": (r.times[-1] - r.times[0]) * 1000, "tokens_in": r.prompt,
            "tokens_out": r.made, "preemptions": r.preemptions, "preempted_ns": r.aside * 1000,
        } for r in self.all}


def steady(n=24, gap=4000):
    """Requests that all find a free place."""
    return [Request(f"r{i}", 2000 + i * gap, 100 + 8 * (i % 3), 10 + i % 3) for i in range(n)]


def chance(seed):
    """Any requests at all, some of them set aside, by any scheduler."""
    rng = random.Random(seed)
    how = {"slots": rng.choice([1, 2, 4, 8, 16]), "chunk": rng.choice([64, 512, 4096]), "between": rng.choice([0, 1, 7, 200]),
           "hand_out": rng.choice([0, 1, 3, 50])}
    requests = [Request(f"q{i}", 1000 + rng.randrange(60_000), rng.randint(1, 2000), rng.randint(1, 20))
                for i in range(rng.randint(2, 30))]
    requests[0].want += 1  # there is at least one time between tokens
    aside = {rng.randrange(60): (rng.choice(requests).name, rng.randint(1, 30_000)) for _ in range(rng.randint(0, 6))}
    return Server(requests, aside, **how).run()


def any_events(seed):
    """Events as no server tells them: in any order, of nobody, with numbers that cannot be."""
    rng = random.Random(seed)
    names = [f"q{i}" for i in range(rng.randint(1, 6))]
    odd = {"token": {"n": (0, 1, 2, 5, -3, 10**9, 1.5, "2", None)}, "request": {
        "tokens_in": (0, 5, -1, "9", 2**70, None), "cached": (0, 3, -9)}, "iteration": {}, "member": {
        "phase": ("prefill", "decode", "x", 3), "tokens_in": (0, 1, -1, 5, 10**12), "context": (1, -1, 10**18)}}
    for _ in range(rng.randint(5, 80)):
        kind = rng.choice(("request", "scheduled", "token", "token", "member", "iteration", "preempted", "finished"))
        args = {"request": rng.choice(names * 2 + [7, "", None, 1.5, True, [1], "x" * 3000])}
        if rng.random() < .5:
            args.update({key: rng.choice(values) for key, values in odd.get(kind, {}).items()})
        yield {"ph": rng.choice("XXXi"), "cat": "llm", "name": kind, "pid": rng.choice((1, 1, 2)), "tid": 1, "ts": rng.randrange(1000),
               "dur": rng.choice((10, 100, 300, -5)) if kind == "iteration" else rng.choice((0, 0, 5, 50)), "args": args}
