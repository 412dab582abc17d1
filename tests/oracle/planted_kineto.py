"""planted_kineto.py -- write Kineto traces whose figures are known by construction.

Every function writes one trace (or one file per rank) and returns the truth about it. Times in
microseconds unless the name says otherwise.
"""
import json

import numpy

MS = 1000
HOST, THREAD = 100, 101
STREAM = 7


class Writer:
    """Events of one process and one device."""

    def __init__(self, offset=0, device=0):
        self.events, self.offset, self.device, self.correlation = [], offset, device, 0

    def host(self, cat, name, start, dur, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": HOST, "tid": THREAD,
                            "ts": start + self.offset, "dur": dur, "args": args})

    def step(self, number, start, dur):
        self.host("user_annotation", f"ProfilerStep#{number}", start, dur)

    def operator(self, name, start, dur):
        self.host("cpu_op", name, start, dur, **{"External id": len(self.events) + 1})

    def launch(self, start, dur=4, call="cudaLaunchKernel"):
        self.correlation += 1
        self.host("cuda_runtime", call, start, dur, correlation=self.correlation)
        return self.correlation

    def device_event(self, name, start, dur, correlation, cat="kernel", stream=STREAM, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": self.device, "tid": stream,
                            "ts": start + self.offset, "dur": dur,
                            "args": {"device": self.device, "stream": stream,
                                     "correlation": correlation, **args}})

    def write(self, path, **top):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({
            "schemaVersion": 1, "deviceProperties": [{"id": self.device, "name": "GPU"}],
            **top, "traceEvents": self.events}))


def asynchronous(path):
    """A host that is done after 522 ms; what it launched keeps the device busy until 987 ms.

    Six steps of 87 ms on the host, each of 40 operators; a kernel each of 2.045 ms, the first at
    494 ms, one behind the other with 8.5 us between them.
    """
    out, steps, per_step, kernel = Writer(), 6, 40, 2045
    gap_ns, first_ns = 8500, 494_000_000
    at_ns = first_ns
    for step in range(steps):
        begin = step * 87 * MS
        out.step(step + 1, begin, 87 * MS)
        for i in range(per_step):
            start = begin + i * 2 * MS
            out.operator("aten::linear", start, 1500)
            out.device_event("gemm", at_ns / 1000, kernel, out.launch(start + 100))
            at_ns += kernel * 1000 + gap_ns
    out.write(path)
    kernels = steps * per_step
    return {"host_ns": steps * 87 * MS * 1000, "steps": steps, "kernels": kernels,
            "busy_ns": kernels * kernel * 1000, "idle_ns": (kernels - 1) * gap_ns,
            "window_ns": kernels * kernel * 1000 + (kernels - 1) * gap_ns}


def idle(path):
    """A device that is idle for 30 % of every step, in the middle of it.

    Ten steps of 10 ms. Kernels of 3.5 ms at its start and its end, each launched 10 us before.
    """
    out, steps = Writer(), 10
    for step in range(steps):
        begin = 1000 + step * 10 * MS
        out.step(step + 1, begin - 10, 10 * MS)
        for start in (begin, begin + 6500):
            out.operator("aten::mm", start - 10, 8)
            out.device_event("gemm", start, 3500, out.launch(start - 9))
    out.write(path)
    return {"steps": steps, "window_ns": steps * 10_000_000, "busy_ns": steps * 7_000_000,
            "idle_ns": steps * 3_000_000}


def graph(path):
    """Graph launches with 400 kernels that no operator has.

    Five steps. An operator with a kernel of 66 us, a launch of a graph with 400 kernels of 5 us and
    a library's kernel of 8 us that is launched outside of any operator.
    """
    out, steps = Writer(), 5
    for step in range(steps):
        begin = step * 4 * MS
        out.step(step + 1, begin, 3900)
        out.operator("aten::embedding", begin + 10, 40)
        out.device_event("embed", begin + 60, 66, out.launch(begin + 20))
        launched = out.launch(begin + 70, 30, "cudaGraphLaunch")
        for i in range(400):
            out.device_event(f"layer_{i % 4}", begin + 150 + i * 6, 5, launched, graph_id=1)
        out.device_event("library_sample", begin + 2700, 8, out.launch(begin + 110))
    out.write(path)
    return {"steps": steps, "kernels": steps * 402, "operator_ns": steps * 66_000,
            "graph_ns": steps * 400 * 5_000, "library_ns": steps * 8_000,
            "device_ns": steps * (66_000 + 2_000_000 + 8_000)}


def ranks(folder, late=2, late_ms=200):
    """Four ranks whose clocks differ; one launches each of its all-reduces 200 ms after the others.

    Eight steps of 300 ms: 50 ms of computing, then an all-reduce. An all-reduce ends everywhere
    10 ms after the last rank came; who comes earlier waits inside of it. The late rank loses its
    time on the host, with nothing on its device.
    """
    offsets_ms = [0, 3700, -1200, 86.25]
    steps, compute, exchange = 8, 50 * MS, 10 * MS
    files = []
    for rank, offset in enumerate(offsets_ms):
        out = Writer(offset=10_000_000 + offset * MS)
        for step in range(steps):
            begin = step * 300 * MS
            arrival = begin + 20 + compute
            last = arrival + late_ms * MS
            mine = last if rank == late else arrival
            out.step(step + 1, begin, 300 * MS)
            out.operator("aten::mm", begin + 5, 50)
            out.device_event("gemm", begin + 20, compute, out.launch(begin + 10))
            out.operator("nccl:all_reduce", mine - 40, 30)
            out.device_event(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL", mine, last + exchange - mine,
                out.launch(mine - 30), stream=20,
                **{"Collective name": "allreduce", "Group size": 4, "dtype": "Float",
                   "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
                   "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3]"})
        path = folder / f"rank{rank}.pt.trace.json"
        out.write(path, distributedInfo={"backend": "nccl", "rank": rank,
                                         "world_size": len(offsets_ms)})
        files.append(path)
    return {"files": files, "ranks": len(files), "late": late, "steps": steps,
            "late_ns": late_ms * 1_000_000, "offsets_ns": [int(o * 1e6) for o in offsets_ms],
            "compute_ns": steps * compute * 1000,
            "exchange_ns": [steps * (exchange + (0 if r == late else late_ms * MS)) * 1000
                            for r in range(len(files))]}


def percentiles(path, names=60, seed=1):
    """Kernels of many names, 1 to 40 of each, and as many steps, with durations by chance in ns."""
    random = numpy.random.default_rng(seed)
    out, at_ns, durations, steps = Writer(), 0, {}, []
    for n in range(names):
        for dur in map(int, random.integers(1, 2_000_000, 1 + n % 40)):
            durations.setdefault(f"kernel_{n}", []).append(dur)
            out.device_event(f"kernel_{n}", at_ns / 1000, dur / 1000, out.launch(at_ns / 1000, 0.1))
            at_ns += dur + 1000
    at_ns = 0
    for n, dur in enumerate(map(int, random.integers(10_000, 3_000_000, 41))):
        out.step(n, at_ns / 1000, dur / 1000)
        steps.append(dur)
        at_ns += dur
    out.write(path)
    return {"kernels": durations, "steps": steps}


def overlap(path):
    """Kernels of one stream that overlap, as some writers have them: each of 100 us, begun 80 us
    after the one before, and copies on another stream."""
    out, kernels = Writer(), 10
    for i in range(kernels):
        out.device_event("gemm", 1000 + 80 * i, 100, out.launch(80 * i))
        out.device_event("Memcpy HtoD", 1000 + 80 * i, 5, out.launch(80 * i + 10), "gpu_memcpy", 9)
    out.write(path)
    window = 80_000 * (kernels - 1)
    return {7: (kernels, 0, window + 100_000, window + 100_000, 0, 0),
            9: (0, kernels, window + 5_000, 0, kernels * 5_000, window - (kernels - 1) * 5_000)}


def chain(path):
    """Steps whose critical path is known: launch, a kernel, the wait for it, an operator without
    any. A second stream has a kernel that nobody waits for.

    Each of four steps takes 2 ms: 10 us until the call that launches, the kernel begins 100 us after
    that call began and takes 1 ms, the wait for it returns 20 us after its end, then the host works
    until the step ends.
    """
    out, steps = Writer(), 4
    for n in range(steps):
        t = n * 2000
        out.step(n + 1, t, 2000)
        out.operator("aten::mm", t, 50)
        out.device_event("gemm", t + 110, 1000, out.launch(t + 10))
        out.device_event("aside", t + 200, 300, out.launch(t + 30), stream=9)
        out.launch(t + 60, 1070, "cudaDeviceSynchronize")
        out.operator("aten::item", t + 1130, 870)
    out.write(path)
    return {"steps": steps, "step_ns": 2_000_000, "compute": 1_000_000, "sync": 20_000,
            "before_ns": 110_000, "after_ns": 870_000}


def points(path):
    """Five steps of 1 ms with operators a, b, c, d, of 100 us each and 100 us apart, the first
    100 us after the start; the last step has no b. Nothing on a device. A pause before the first
    record and after the last is none of the trace's."""
    out, steps = Writer(offset=5_000_000), 5
    for n in range(steps):
        out.step(n + 1, n * 1000, 1000)
        for i, name in enumerate("abcd"):
            if name != "b" or n < steps - 1:
                out.operator(f"aten::{name}", n * 1000 + 100 + 200 * i, 100)
    out.write(path)
    return {"steps": steps, "duration_ns": steps * 1_000_000,
            # from b to c
            "split": {"total_ns": 1_000_000, "gap_ns": 300_000, "fp_bp_ns": 300_000,
                      "tail_ns": 400_000}, "split_steps": steps - 1}


def stand_ins(path):
    """A file whose writer put the correlation where External id belongs: the numbers are ids of
    operators, too, but of others."""
    out, rounds = Writer(), 6
    for i in range(rounds):
        for n, (name, dur) in enumerate((("aten::copy_", 300), ("aten::relu", 20))):
            at = i * 1000 + n * 500
            out.operator(name, at, 100)
            out.events[-1]["args"]["External id"] = 2 * (rounds - i) - n  # the other way round
            number = out.launch(at + 10)
            out.events[-1]["args"]["External id"] = number
            out.device_event(f"kernel of {name}", at + 50, dur, number, **{"External id": number})
    out.write(path)
    return {"aten::copy_": (rounds, rounds * 300_000), "aten::relu": (rounds, rounds * 20_000)}


def own_marks(path):
    """Training under autocast that marks 20 of its 25 iterations itself, as "step N".

    An iteration of 10 ms: three convolutions of 1 ms from its start, each of which the dispatcher
    passes on once under the same name, after 100 us, for 800 us; a kernel of 500 us launched by the
    inner one 300 us after it began; 2 ms of the backward pass; 1 ms of the optimizer; 500 us of
    CUPTI's own work 6 ms after the start. Somebody else derived steps from the optimizer, from the
    end of one to the end of the next, and one that was cut short.
    """
    out, iterations, marked, length = Writer(), 25, 20, 10 * MS
    for i in range(iterations):
        begin = i * length
        if i >= iterations - marked:
            out.host("user_annotation", f"step {i - iterations + marked}", begin, length)
        if i:
            out.host("user_annotation", f"optimizer step#{i}", begin - length + 9 * MS, length)
        for k in range(3):
            at = begin + k * MS
            out.operator("aten::conv2d", at, MS)
            out.operator("aten::conv2d", at + 100, 800)
            out.device_event("conv", at + 400, 500, out.launch(at + 150))
        out.operator("autograd::engine::evaluate_function: ConvolutionBackward0", begin + 3 * MS,
                     2 * MS)
        out.host("overhead", "Activity Buffer Request", begin + 6 * MS, 500)
        out.host("user_annotation", "Optimizer.step#SGD.step", begin + 8 * MS, MS)
    out.host("user_annotation", f"optimizer step#{iterations}", (iterations - 1) * length + 9 * MS,
             MS)
    out.write(path)
    return {"calls": 3 * iterations, "steps": marked, "step_ns": length * 1000,
            "call_ns": 800_000 * 3 * iterations, "self_ns": 996_000 * 3 * iterations,
            "compute_ns": 1_500_000 * marked, "measuring_ns": 500_000 * marked,
            "fp_bp_ns": 5_000_000, "derived": iterations}


def interrupted(path):
    """Twenty steps of five operators, one of them executed eight times in each.

    The eleventh execution of aten::small takes 37 ms instead of 162 us. Of aten::wait, one call in
    eight takes 2 ms instead of 50 us, in every step: that is how it is. aten::every takes ten times
    as long in every third step, more often than by chance. What is typical is known by
    construction: all that was planted but for the 37 ms, which become 162 us.
    """
    out, steps = Writer(), 20
    truth, at = {}, 0

    def execute(name, dur, typical=None):
        nonlocal at
        out.operator(name, at, dur)
        t = truth.setdefault(name, {"count": 0, "self_ns": 0, "typical_ns": 0, "interrupted": 0})
        t["count"] += 1
        t["self_ns"] += dur * 1000
        t["typical_ns"] += (dur if typical is None else typical) * 1000
        t["interrupted"] += typical is not None
        at += dur + 3

    for step in range(steps):
        begin = at
        at += 1
        execute("aten::large", 900 + step % 3)
        execute("aten::small", 37000 if step == 10 else 162, 162 if step == 10 else None)
        execute("aten::middle", 400)
        for call in range(8):
            execute("aten::wait", 2000 if call == 5 else 50)
        execute("aten::every", 1000 if step % 3 == 0 else 100)
        out.step(step, begin, at - begin)
        at += 10
    out.write(path)
    return truth


def prompt(path):
    """A step in which everything takes forty times as long, as a prompt does before single tokens:
    nothing was interrupted. Thirty steps of six operators."""
    out, at, truth = Writer(), 0, {}
    for step in range(30):
        begin = at
        at += 1
        for i in range(6):
            dur = (20 + 10 * i) * (40 if step == 4 else 1)
            out.operator(f"aten::op{i}", at, dur)
            at += dur + 2
            truth[f"aten::op{i}"] = truth.get(f"aten::op{i}", 0) + dur * 1000
        out.step(step, begin, at - begin)
        at += 5
    out.write(path)
    return truth
