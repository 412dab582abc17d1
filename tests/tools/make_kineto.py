#!/usr/bin/env python3
"""make_kineto.py -- write a trace of a training run as PyTorch's profiler does, with random times.

usage: make_kineto.py FILE SEED [RANK]

Steps with a data loader, operators that nest, a backward pass on another thread, an optimizer,
kernels and exchanges between devices on streams, counters, instants and asynchronous pairs. Times
are microseconds with up to three decimals, so that nothing is rounded. The same seed gives the same
file.
"""
import json
import random
import sys

MAIN, BACKWARD, COMPUTE, COMMUNICATION = 100, 101, 7, 20
FORWARD = ["aten::conv2d", "aten::batch_norm", "aten::relu", "aten::linear"]
INNER = ["aten::convolution", "aten::empty", "aten::addmm"]


class Trace:
    def __init__(self, seed, rank):
        self.rng = random.Random(seed * 1000 + (rank or 0))
        self.rank = rank
        self.pid = 1 + (rank or 0)
        self.device = rank or 0
        self.now = 5_000_000_000  # ns, and so are all times until they are written
        self.correlation = 0
        self.events = []

    def some(self, low, high):
        return self.rng.randrange(low, high)

    def add(self, ph, cat, name, pid, tid, ts, dur=None, **more):
        event = {"ph": ph, "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts / 1000}
        if dur is not None:
            event["dur"] = dur / 1000
        event.update(more)
        self.events.append(event)

    def launch(self, ts, name, stream, dur):
        self.correlation += 1
        self.add("X", "cuda_runtime", "cudaLaunchKernel", self.pid, MAIN, ts, 900, args={"correlation": self.correlation})
        self.add("X", "kernel", name, self.device, stream, ts + 1500, dur,
                 args={"correlation": self.correlation, "device": self.device, "stream": stream})

    def operator(self, name, tid):
        begin, dur = self.now, self.some(4_000, 40_000)
        self.add("X", "cpu_op", name, self.pid, tid, begin, dur)
        self.add("X", "cpu_op", self.rng.choice(INNER), self.pid, tid, begin + 500, dur // 2)
        if self.rng.random() < 0.7:
            self.launch(begin + 1000, "gemm" if "linear" in name else "elementwise", COMPUTE, self.some(500, 30_000))
        self.now = begin + dur + self.some(100, 2_000)

    def step(self, number):
        begin = self.now
        self.now += self.some(100, 5_000)
        if self.rng.random() < 0.8:
            dur = self.some(2_000, 60_000)
            self.add("X", "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", self.pid, MAIN, self.now, dur)
            self.add("X", "cpu_op", "aten::stack", self.pid, MAIN, self.now + 500, 1000)
            self.now += dur + self.some(100, 3_000)
        for _ in range(self.some(1, 6)):
            self.operator(self.rng.choice(FORWARD), MAIN)
        if self.rng.random() < 0.9:
            for _ in range(self.some(1, 5)):
                self.operator("autograd::engine::evaluate_function: AddmmBackward0", BACKWARD)
            self.launch(self.now, "ncclKernel_AllReduce", COMMUNICATION, self.some(1_000, 50_000))
            self.now += self.some(1_000, 4_000)
        if self.rng.random() < 0.8:
            dur = self.some(3_000, 20_000)
            self.add("X", "user_annotation", "Optimizer.step#SGD.step", self.pid, MAIN, self.now, dur)
            self.add("X", "cpu_op", "aten::add_", self.pid, MAIN, self.now + 500, 1000)
            self.now += dur
        self.now += self.some(100, 9_000)
        self.add("X", "user_annotation", f"ProfilerStep#{number}", self.pid, MAIN, begin, self.now - begin)
        self.add("C", "", "memory", self.pid, 0, begin, args={"bytes": self.some(0, 1 << 30)})
        self.add("i", "cpu_instant_event", "[memory]", self.pid, MAIN, begin + 10, s="t")
        self.add("b", "async", "batch", self.pid, MAIN, begin, id=number)
        self.add("e", "async", "batch", self.pid, MAIN, self.now, id=number)


def main():
    rank = int(sys.argv[3]) if len(sys.argv) > 3 else None
    trace = Trace(int(sys.argv[2]), rank)
    for number in range(1, 9):
        trace.step(number)
        trace.now += trace.some(0, 2) * 1_000
    trace.rng.shuffle(trace.events)
    head = {"schemaVersion": 1}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    with open(sys.argv[1], "w") as out:
        json.dump({**head, "traceEvents": trace.events}, out, indent=0)


if __name__ == "__main__":
    main()
