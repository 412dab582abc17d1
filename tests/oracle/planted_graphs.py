"""planted_graphs.py -- graphs that are captured and replayed, in the way PyTorch's profiler tells of them.

A model of LAYERS layers; each has four operators, and each operator launches one or two kernels. The
truth is the time of each operator, and of each module's, over all replays.
"""
import json
import random

LAYERS = 6
# operator, module, kernels of a launch (name)
OPERATORS = (
    ("aten::rms_norm", "RMSNorm", ("norm_kernel",)),
    ("aten::mm", "QKVLinear", ("gemm_{size}_kernel",)),
    ("vllm::attention", "Attention", ("attention_kernel", "reduce_kernel")),
    ("aten::mm", "OutLinear", ("gemm_{size}_kernel",)),
)


def launches(size, alike=False):
    """(kernel, operator, module, layer) of a graph for so many tokens, in order; alike: kernels of all sizes have the same names."""
    for layer in range(LAYERS):
        for operator, module, kernels in OPERATORS:
            for kernel in kernels:
                yield kernel.format(size="any" if alike else size), operator, module, layer
    yield "Memcpy DtoD (Device -> Device)", "aten::copy_", "Sampler", 0


class Trace:
    def __init__(self, call="hip", alike=False):
        self.alike, self.events, self.call, self.correlation, self.external, self.at = alike, [], call, 1000, 0, 100.0

    def host(self, cat, name, start, dur, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 10, "tid": 10, "ts": start,
                            "dur": dur, "args": args})

    def device(self, name, start, dur, correlation, stream=7, **args):
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": start,
                            "dur": dur, "args": {"device": 0, "stream": stream,
                                                 "correlation": correlation, **args}})

    def runtime(self, name, **args):
        self.correlation += 1
        self.host("cuda_runtime", self.call + name, self.at, 2, correlation=self.correlation, **args)
        self.at += 5
        return self.correlation

    def operators(self, size, named=True, run=None, nodes=None):
        """What launches a graph's kernels, one by one; run: called for each with its correlation; nodes: the first number of one."""
        for i, (kernel, operator, module, layer) in enumerate(launches(size, self.alike)):
            self.external += 1
            begin = self.at
            self.at += 4
            copies = kernel.startswith("Memcpy")
            args = {"kernel": kernel} if named and not copies else {}
            if nodes is not None:
                args["graph node id"] = nodes + i
            correlation = self.runtime("MemcpyAsync" if copies else "LaunchKernel",
                                       **{"External id": self.external}, **args)
            if run:
                run(kernel, operator, module, correlation, self.external)
            self.host("cpu_op", operator, begin + 2, self.at - begin - 2, **{
                "External id": self.external, "Input Dims": [[size, 64], [64, 64]],
                "Input type": ["c10::BFloat16", "c10::BFloat16"]})
            self.host("python_function", f"nn.Module: {module}_{layer}", begin, self.at - begin + 1)
            self.at += 5

    def capture(self, size, named=True, nodes=None):
        begin = self.at
        self.at += 5
        self.runtime("StreamBeginCapture")
        self.operators(size, named, nodes=nodes)
        self.runtime("StreamEndCapture")
        self.host("user_annotation", f"capture_{size}_DECODE", begin, self.at - begin)
        self.at += 20

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [
            {"id": 0, "name": "GPU"}], "baseTimeNanoseconds": 0, "traceEvents": self.events}))


def add(truth, operator, module, ns):
    truth["operators"][operator] = truth["operators"].get(operator, 0) + ns
    truth["modules"][module] = truth["modules"].get(module, 0) + ns
    truth["ns"] += ns
    truth["kernels"] += 1


def replays(trace, sizes, seed=1, skip=(), extra=(), shuffle=False, nodes=False, lose=0, numbers=None):
    """Launch a graph for each of sizes; skip: kernels of a replay that were not recorded, lose: the share of kernels, others
    each time, that were not; numbers: of the first node, by size; extra:
    positions in front of which there is one that the capture does not have. Kernel times are random.
    The truth is of those that are in the capture."""
    random.seed(seed)
    truth = {"operators": {}, "modules": {}, "ns": 0, "kernels": 0, "strange_ns": 0, "sizes": {}}
    for size in sizes:
        begin = trace.at
        trace.at += 5
        correlation = trace.runtime("GraphLaunch")
        at, stream = trace.at + 50, 7
        for i, (kernel, operator, module, _) in enumerate(launches(size, trace.alike)):
            dur = random.randrange(2, 90)
            if i in extra:
                trace.device("stranger_kernel", at, dur, correlation)
                truth["strange_ns"] += dur * 1000
                at += dur + 1
            if i in skip or (lose and random.random() < lose):
                continue
            args = {"graph node id": (numbers[size] if numbers else 5000) + i} if nodes or numbers else {}
            # What runs beside others may begin out of turn.
            start = at + (200 if shuffle and i % 5 == 2 else 0)
            trace.device(kernel, start, dur, correlation, 8 if shuffle and i % 5 == 2 else stream,
                         **args)
            add(truth, operator, module, dur * 1000)
            truth["sizes"][f"{size}x64"] = truth["sizes"].get(f"{size}x64", 0) + dur * 1000
            at += dur + 1
        trace.at = at + 400
        trace.host("user_annotation", f"step[DECODE bs={size}]", begin, trace.at - begin)
        trace.at += 10
    return truth
