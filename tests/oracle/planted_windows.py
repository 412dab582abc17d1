"""planted_windows.py -- traces whose steps overlap, nest, lie in several files or have nothing in
them, with the truth about what devices did."""
import json

from planted_folders import FuriosaRows, put
from planted_kineto import Writer


def at_once(path):
    """Two threads, each with five steps of 1 ms, the second half a step behind; a kernel of 300 us
    in each, 100 us after its start, on a stream of its own of the one device."""
    out, steps = Writer(), 5
    for thread in range(2):
        first = len(out.events)
        for n in range(steps):
            begin = n * 1000 + thread * 500
            out.step(n + 1, begin, 1000)
            out.operator("aten::mm", begin + 10, 40)
            out.device_event("gemm", begin + 100, 300, out.launch(begin + 20), stream=7 + thread)
        for event in out.events[first:]:
            if event["cat"] != "kernel":
                event["tid"] += thread
    out.write(path)
    # From the first kernel, at 100 us, to the end of the last step.
    wall_ns, busy_ns = 5_500_000 - 100_000, 2 * steps * 300_000
    return {"steps": 2 * steps, "wall_ns": wall_ns, "compute_ns": busy_ns,
            "idle_ns": wall_ns - busy_ns, "kernel_ns": 300_000}


def pauses(path):
    """Ten steps of 1 ms; every second one has nothing for the device to do, and one in the middle
    nothing for the host either."""
    out, steps, busy = Writer(), 10, [0, 2, 6, 8, 9]
    for n in range(steps):
        out.step(n + 1, n * 1000, 1000)
        if n != 5:
            out.operator("aten::mm", n * 1000 + 10, 40)
        if n in busy:
            out.device_event("gemm", n * 1000 + 100, 300, out.launch(n * 1000 + 20))
    out.write(path)
    return {"steps": steps, "wall_ns": steps * 1_000_000 - 100_000,
            "compute_ns": len(busy) * 300_000, "device_ns": len(busy) * 300_000 / steps,
            # Without the 4 us of each launch.
            "host_ns": ((steps - 1) * 40_000 - len(busy) * 4_000) / steps}


def cycles(folder):
    """The same rank, profiled twice: a file with five steps of 1 ms and one with four."""
    files, steps = [], [5, 4]
    for i, n in enumerate(steps):
        out = Writer(offset=1_000_000 + i * 20_000)
        for step in range(n):
            begin = step * 1000
            out.step(1 + step + 10 * i, begin, 1000)
            out.operator("aten::mm", begin + 10, 40)
            out.device_event("gemm", begin + 100, 300, out.launch(begin + 20))
        files.append(folder / f"cycle{i}.pt.trace.json")
        out.write(files[-1], distributedInfo={"backend": "nccl", "rank": 0, "world_size": 1})
    return {"files": files, "steps": sum(steps), "compute_ns": sum(steps) * 300_000}


def late_exchange(path):
    """A device that runs far behind its host: four steps of 1 ms, what they launch begins at 3 ms.
    Each has 2 ms of computing and an all-reduce of 1.5 ms, of which 0.5 ms run beside it."""
    out, steps = Writer(), 4
    for n in range(steps):
        begin, at = n * 1000, 3000 + n * 3000
        out.step(n + 1, begin, 1000)
        out.operator("aten::mm", begin + 10, 40)
        out.device_event("gemm", at, 2000, out.launch(begin + 20))
        out.operator("nccl:all_reduce", begin + 100, 40)
        out.device_event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 1500, 1500,
                         out.launch(begin + 110), stream=20)
    out.write(path)
    return {"steps": steps, "collective_ns": 1_500_000, "exposed_ns": 1_000_000}


def two_sessions(folder):
    """Profiles of two sessions of ONNX Runtime: four runs of 1 ms with an operator of 0.9 ms, and
    six of 0.1 ms with one of 0.05 ms."""
    files, wall_us, busy_us, runs = [], 0, 0, 0
    for name, n, run_us, node_us in (("Conv", 4, 1000, 900), ("Gemm", 6, 100, 50)):
        event = lambda cat, what, ts, dur, args: {  # noqa: E731
            "cat": cat, "pid": 9, "tid": 1, "ts": ts, "dur": dur, "ph": "X", "name": what,
            "args": args}
        events = [event("Session", "session_initialization", 1, 500, {})]
        for i in range(n):
            at = 1000 + 2 * i * run_us
            events.append(event("Session", "model_run", at, run_us, {}))
            events.append(event("Node", f"{name}_kernel_time", at + 5, node_us, {
                "op_name": name, "provider": "CPUExecutionProvider"}))
        files.append(folder / f"{name}.json")
        put(files[-1], json.dumps(events))
        wall_us, busy_us, runs = wall_us + n * run_us, busy_us + n * node_us, runs + n
    return {"files": files, "steps": runs, "wall_ns": wall_us * 1000, "compute_ns": busy_us * 1000,
            "latency": [(4, 1_000_000), (6, 100_000)]}


def furiosa_threads(path):
    """Two threads of a host, each with four inferences of 0.9 ms on a processing element of its own;
    the second thread is 0.3 ms behind, so that two inferences go on at most times."""
    rows, inferences = FuriosaRows(), 4
    row = rows.add
    instructions = [("Load", 100_000), ("LowLevelConv2d", 200_000), ("LowLevelRelu", 50_000),
                    ("Store", 60_000)]
    for element in range(2):
        for i in range(inferences):
            trace = 10 * element + i + 1
            at = 1_700_000_000_000_000_000 + i * 1_000_000 + element * 300_000
            root = row(trace, 0, at, 900_000, "Nux", "Inference", **{"thread.id": 45 + element})
            npu = {"pe_index": element, "execution_index": 0, "dram_base": 4096,
                   "thread.id": 45 + element}
            run = row(trace, root, at + 50_000, 500_000, "NPU", "Execution", **npu)
            at += 50_000
            for n, (name, dur) in enumerate(instructions):
                row(trace, run, at, dur, "NPU", name, instruction_index=n, operator_index=n, **npu)
                at += dur + 1000
    put(path, rows.text.getvalue())
    return {"inferences": 2 * inferences, "instructions": dict(instructions)}


def onednn(path, rounds=5):
    """A log of oneDNN: two convolutions and a softmax, over and over, 0.1 ms between them."""
    lines, at, busy = [
        "onednn_verbose,v1,info,oneDNN v3.6.0 (commit 0)",
        "onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:8",
        "onednn_verbose,v1,primitive,info,template:timestamp,operation,engine,primitive,"
        "implementation,prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_time"
    ], 1000.0, 0
    for _ in range(rounds):
        for problem, ms in (("mb1ic3oc8_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1", 0.5),
                            ("mb1ic8oc8_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1", 0.25)):
            lines.append(
                f"onednn_verbose,v1,{at:.6f},primitive,exec,cpu,convolution,jit:avx2,"
                "forward_inference,src_f32::blocked:abcd::f0 wei_f32::blocked:abcd::f0 "
                "bia_undef::undef::: dst_f32::blocked:abcd::f0,,alg:convolution_direct,"
                f"{problem},{ms}")
            at, busy = at + ms + 0.1, busy + ms
    put(path, "\n".join(lines) + "\n")
    return {"compute_ns": round(busy * 1e6), "wall_ns": round((at - 0.1 - 1000) * 1e6)}


def nested(path):
    """Trace event JSON as opmeter exports it: four steps of training of 1 ms, each with a step of
    evaluation of 0.3 ms inside. An operator of 0.2 ms in the outer one, one of 0.1 ms in the inner."""
    def event(cat, name, ts, dur, **args):
        return {"ph": "X", "pid": 1, "tid": 1, "cat": cat, "name": name, "ts": ts, "dur": dur,
                "args": args}
    def operator(number, name, ts, dur):
        return event("op", name, ts, dur, layer="framework",
                     op={"id": number, "name": name, "type": name})
    events, steps = [], 4
    for n in range(steps):
        begin = 2000 * n
        events += [event("step", "step", begin, 1000, layer="app", step={
                       "id": 2 * n, "num": n, "model": "train", "warmup": 0}),
                   operator(0, "outer", begin + 50, 200),
                   event("step", "step", begin + 300, 300, layer="app", step={
                       "id": 2 * n + 1, "num": n, "model": "evaluate", "warmup": 0}),
                   operator(1, "inner", begin + 400, 100)]
    put(path, json.dumps({"otherData": {"opmeter.export": "0.1.0"},
                          "traceEvents": events}, separators=(",", ":")))
    return {"steps": steps, "wall_ns": steps * 1_000_000, "compute_ns": steps * 300_000,
            "models": {"train": (steps, 200_000), "evaluate": (steps, 100_000)}}
