"""planted_folders.py -- write folders of older profilers whose figures are known by construction."""
import csv
import io
import json
import struct

TICK_NS = 10  # of a MindSpore device


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def mindspore_partial(folder, steps=322, recorded=range(4, 18)):
    """Points of 322 steps, but tasks of operators for 14 of them, as a raw job folder.

    A step takes 200 ms: 1 ms until the forward pass, 150 ms of forward and backward pass, the rest
    is tail. Three operators take 120, 45 and 15 ms.
    """
    step_ticks, t0, stream = 20_000_000, 1_000_000_000, 3
    operators = [("Default/net/GatherV2-op1", "GatherV2", 30001, 120_000_000),
                 ("Default/net/MatMul-op2", "MatMul", 30002, 45_000_000),
                 ("Gradients/Default/net/ReLUGrad-op3", "ReLUGrad", 30003, 15_000_000)]
    points, tasks = b"", b""
    for step in range(1, steps + 1):
        begin = t0 + (step - 1) * step_ticks
        for tag, at in ((0, begin), (1, begin + 100_000), (2, begin + 15_100_000),
                        (255, begin + step_ticks)):
            points += struct.pack("<QHHQ", tag, 0, stream, at)
        if step in recorded:
            at = begin + 100_000
            for _, _, task, dur_ns in operators:
                for kind, when in ((0, at), (1, at + dur_ns // TICK_NS)):
                    tasks += struct.pack("<BBHHHQI", kind, 0, 0, 0, task, when, stream
                                         ).ljust(64, b"\0")
                at += dur_ns // TICK_NS + 100
    tag = "profiler_default_tag.0.slice_0"
    put(folder / f"data/training_trace.46.dev.{tag}", points)
    put(folder / f"hwts.log.data.45.dev.{tag}", tasks)
    put(folder / "Framework.host.vm.task_desc_info.0.slice_0", "".join(
        f"{name} 1 {task} {stream}\n" for name, _, task, _ in operators))
    put(folder / "Framework.host.vm.graph_desc_info.0.slice_0", "".join(
        f'op_name:{name} op_type:{kind} input_id:0 input_format:DefaultFormat input_data_type:40 '
        f'input_shape:"8,16" output_id:0 output_format:DefaultFormat output_data_type:40 '
        f'output_shape:"8,16"\n' for name, kind, _, _ in operators))
    put(folder / "Framework.host.vm.point.0.slice_0",
        f"1 {operators[0][0]}\n2 {operators[2][0]}\n")
    put(folder / "host_start.log.0", "[Device0]\nclock_realtime: 1591183963784568740\n"
        "clock_monotonic_raw: 261003032627\n")
    return {"steps": steps, "recorded": len(recorded), "step_ns": step_ticks * TICK_NS,
            "gap_ns": 1_000_000, "fp_bp_ns": 150_000_000, "tail_ns": 49_000_000,
            "operators": {name: dur for name, _, _, dur in operators},
            "compute_ns": sum(dur for *_, dur in operators),
            "points": (operators[0][0], operators[2][0])}


def megengine_clocks(path):
    """Host and device of one run, each by its own clock.

    The host has dispatched everything between 4 and 14 ms of its clock; the device works from 0 to
    40 ms of its own.
    """
    rows = [  # name, type, input vars, output var, host start/kern/end us, device start/kern/end us
        ("h2d[0]", "Host2DeviceCopy", [], 1, (0, 100, 500), (0, 10, 2000)),
        ("weight[2]", "SharedDeviceTensor", [], 3, (500, 510, 600), (2000, 2000, 2100)),
        ("conv[4]", "ConvolutionForward", [1, 3], 5, (600, 700, 6000), (2100, 2300, 30000)),
        ("RELU(conv[4])[6]", "Elemwise", [5], 7, (6000, 6100, 10000), (30000, 30050, 40000))]
    shapes = {1: [1, 3, 8, 8], 3: [4, 3, 3, 3], 5: [1, 4, 6, 6], 7: [1, 4, 6, 6]}
    def elements(var):
        n = 1
        for d in shapes[var]:
            n *= d
        return n
    computation = {0: elements(1), 2: None, 4: elements(5) * 3 * 3 * 3 * 2, 6: elements(7)}
    node = '"cpu0:0" from "xpux:0"'
    operators, device, host, footprint, variables, chunks = {}, {}, {}, {}, {}, {}
    memory, at = {}, 4096
    for i, (name, kind, inputs, output, on_host, on_device) in enumerate(rows):
        key = 2 * i
        points = lambda base, us: dict(zip(  # noqa: E731
            ("start", "kern", "end"), (base + t / 1e6 for t in us)))
        operators[str(key)] = {
            "node_type": "operator", "id": str(key), "name": name, "type": kind,
            "input": [str(v) for v in inputs], "output": [str(output)], "extra": {},
            "waiting_spec": None}
        device[str(key)] = {f"CompNode({node})": points(0, on_device)}
        host[str(key)] = {"": points(0.004, on_host)}
        memory[key] = 4 * sum(elements(v) for v in [*inputs, output])
        footprint[str(key)] = {
            "computation": computation[key], "memory": memory[key],
            "in_shapes": [shapes[v] for v in inputs], "out_shapes": [shapes[output]], "param": {}}
        size = 4 * elements(output)
        weight = kind == "SharedDeviceTensor"
        stride = [1]
        for d in reversed(shapes[output][1:]):
            stride.insert(0, stride[0] * d)
        variables[str(output)] = {
            "node_type": "var", "id": str(output), "name": f"var{output}",
            "mem_readonly_fwd_src": None, "force_update_src": None,
            "mem_plan": {"mem_chunk_id": f"chk{output}", "offset_byte": 0, "layout": {
                "shape": shapes[output], "stride": stride, "dtype": "Float32"}},
            "comp_node": f"CompNode({node})", "dev_ptr": at, "prev_dev_ptr": 0,
            "flag": ["PERSISTENT_DEVICE_VALUE", "NO_SYS_MEM_ALLOC"] if weight else [],
            "static_infer_tags": {}}
        chunks[f"chk{output}"] = {"node_type": "mem_chunk", "id": f"chk{output}", "size": size,
                                  "owner_var": str(output), "dev_ptr": at}
        at += 4096
    put(path, json.dumps({
        "graph_exec": {"comp_seq": list(operators), "operator": operators, "var": variables,
                       "mem_chunk": chunks},
        "profiler": {"device": device, "host": host, "opr_footprint": footprint,
                     "opr_internal_pf": {}}}))
    us = lambda points: ((points[2] - points[0]) * 1000, (points[1] - points[0]) * 1000)  # noqa: E731
    return {"device": {name: us(d) for name, *_, d in rows},
            "host": {name: us(h) for name, *_, h, _ in rows},
            "computation": {rows[k // 2][0]: v for k, v in computation.items()},
            "memory": {rows[k // 2][0]: v for k, v in memory.items()},
            "device_ns": 40_000_000, "host_ns": 10_000_000,
            "weight_bytes": 4 * elements(3)}


def neural_engine(folder, iterations=3, ratios=None, aims=None, dtype="fp32"):
    """`engine_profiling/` with the CSV and the JSON of one run; every iteration took the same.

    `ratios`: by weight shape, what a user wrote in the columns for 90, 80 and 70 % and others;
    `aims`: by operator, the percentage that he chose in column N.
    """
    ratios, aims = ratios or {}, aims or {}
    rows = [  # type, name, post op, weight shape, zeros, latency in us
        ("Gather", "gather_1", "", None, None, 50),
        ("InnerProduct", "fc_1", "", (256, 256), 0.0, 400),
        ("InnerProduct", "fc_2", "gelu_tanh", (1024, 256), 0.0, 800),
        ("InnerProduct", "fc_3", "sum", (256, 1024), 0.9, 300),
        ("Softmax", "softmax_1", "", None, None, 40)]
    shapes = sorted({row[3] for row in rows if row[3]})
    line = {shape: i + 2 for i, shape in enumerate(shapes)}
    text = "weight shape,90% 4x1 perf ratio,80% 4x1 perf ratio,70% 4x1 perf ratio,others\n"
    table = {s: ratios.get(s, (4.0, 4.0, 4.0, 1)) for s in shapes}
    text += "".join(f"{a}x{b}," + ",".join(f"{r:f}" for r in table[a, b][:3])
                    + f",{table[a, b][3]:g}\n" for a, b in shapes)
    text += ("operator type,post op,operator name,input tensor name,input shape,input dtype,"
             "output tensor name,output shape,output dtype,weight shape,weight sparse ratio,"
             "sparse support,operator latency (ms),aim to weight sparse ratio,"
             "sparse kernel pref ratio,aim to sparse latency(ms)\n")
    first, projected = len(shapes) + 3, 0.0
    for i, (kind, name, post, weight, zeros, us) in enumerate(rows):
        r, ms = first + i, f"{us / 1000:.3f}"
        tensors = f"{name}_in:0;{name}_w:0,8x{weight[1]};{weight[0]}x{weight[1]},{dtype};{dtype}" \
            if weight else f"{name}_in:0,8x256,fp32"
        cells = f"{kind},{post},{name},{tensors},{name}:0,8x{weight[0] if weight else 256},fp32,"
        cells += f"{weight[0]}x{weight[1]},{zeros * 100:.2f}%,true,{ms}, " if weight else f",,,{ms}, "
        if weight and zeros < 0.5:
            w = line[weight]
            aim = aims.get(name, 90)
            cells += f'{aim}%,"=IF(N{r}=90%,B{w},IF(N{r}=80%,C{w},IF(N{r}=70%,D{w},E{w})))",=M{r}/O{r}'
            projected += us / table[weight][{90: 0, 80: 1, 70: 2}.get(aim, 3)]
        else:
            cells += f",,{ms}"
            projected += us
        text += cells + "\n"
    last, total = first + len(rows) - 1, sum(row[5] for row in rows)
    sparse = sum(row[5] for row in rows if row[3])
    able = "+".join(f"P{first + i}" for i, row in enumerate(rows) if row[3])
    text += (f",,,,,,,,,,,total latency(ms),{total / 1000:.3f},,total aim to sparse latency(ms),"
             f"=SUM(P{first}:P{last}),sparse improve,=M{last + 1}/P{last + 1}\n"
             f",,,,,,,,,,,sparse support latency(ms),{sparse / 1000:.3f},,"
             f"aim to sparse support latency(ms),={able},\n"
             f",,,,,,,,,,,sparse support latency ratio,{sparse / total:.3f},,"
             f"aim to sparse support latency ratio,=P{last + 2}/P{last + 1}\n")
    put(folder / "profiling_csv/profiling_2024-01-02_03-04-05_0.csv", text)
    event = lambda cat, name, tid, ts, dur, args=None: {  # noqa: E731
        "cat": cat, "name": name, "ph": "X", "pid": 0, "tid": tid, "ts": ts, "dur": dur,
        **({"args": args} if args else {})}
    events = [event("inference", "model_inference", "inference", 0, total * iterations)]
    for i in range(iterations):
        at = i * total
        events.append(event("iteration", f"Iteration{i}", "Iteration", at, total))
        for kind, name, post, weight, _, us in rows:
            events.append(event(kind, name, "Operator", at, us, {
                "reshape_time": "0ms", "forward_time": f"{us / 1000:g}ms",
                "input_tensor_name": f"{name}_in:0", "input_type": "fp32",
                "input_shape": "8*256", "output_tensor_name": f"{name}:0", "output_type": "fp32",
                "output_shape": "8*256", "attributes": f"append_op:{post}" if post else ""}))
            at += us
    put(folder / "profiling_trace/profiling_2024-01-02_03-04-05_0.json",
        json.dumps({"otherData": {}, "traceEvents": events}))
    return {"iterations": iterations, "total_ns": total * 1000, "projected_ns": projected * 1000,
            "operators": {row[1]: row[5] * 1000 for row in rows}}


def cambricon(folder, steps=3, stale=0):
    """`profile/` with timeline, step_stats and summary.json of one run of 3 steps.

    With `stale`, steps that an earlier, longer run left there, an hour before; summary.json and the
    activities are the last run's.
    """
    nodes = [("conv1", "Conv2D", 4000, 4096), ("relu1", "Relu", 1000, 4096),
             ("fc", "MatMul", 2500, 40)]
    device, t0 = "/job:localhost/replica:0/task:0/device:CPU:0", 1_600_000_000_000_000
    def step_files(step, start, scale):
        stats, events, at = f'dev_stats {{\n  device: "{device}"\n', [], start
        for i, (name, kind, us, size) in enumerate(nodes):
            us *= scale
            stats += (f'  node_stats {{\n    node_name: "{name}"\n    all_start_micros: {at}\n'
                      f"    op_start_rel_micros: 1\n    op_end_rel_micros: {us - 1}\n"
                      f"    all_end_rel_micros: {us}\n    memory {{\n      allocator_name: \"cpu\"\n"
                      f"      total_bytes: {size}\n      peak_bytes: {size}\n    }}\n"
                      f'    timeline_label: "{name} = {kind}(input)"\n'
                      f"    scheduled_micros: {at}\n    thread_id: 1\n  }}\n")
            events.append({"ph": "X", "cat": "Op", "name": kind, "pid": 1, "tid": 0, "ts": at,
                           "dur": us, "args": {"name": name, "op": kind}})
            at += us + 10
        meta = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"{device} Compute"}}]
        put(folder / f"step_stats/stats_{step}", stats + "}\n")
        put(folder / f"timeline/timeline_{step}", json.dumps({"traceEvents": meta + events}))
    for step in range(steps, steps + stale):
        step_files(step, t0 - 3_600_000_000 + step * 20_000, 3)
    for step in range(steps):
        step_files(step, t0 + step * 20_000, 1)
    work_us = sum(us for _, _, us, _ in nodes) + 10 * (len(nodes) - 1)
    put(folder / "activity_stats_collection.json", json.dumps({
        str(s): {"Session Run": {"start": t0 / 1e6 + s * 0.02,
                                 "end": t0 / 1e6 + s * 0.02 + 0.008}} for s in range(steps)}))
    put(folder / "summary.json", json.dumps({
        "app_stats": {str(s): {"Session Run": {"duration": 8000, "meta": ""}}
                      for s in range(steps)},
        "op_stats": {"vgg16": {str(s): {"localhost": {"CPU": {
            name: {"duration": us, "output": {"0": {"shape": [1, 10], "type": "Float"}},
                   "total_bytes": size} for name, _, us, size in nodes}}} for s in range(steps)}}}))
    return {"steps": steps, "operators": {name: us * 1000 for name, _, us, _ in nodes},
            "work_ns": work_us * 1000, "step_ns": 8_000_000}


class FuriosaRows:
    """A DataFrame of Furiosa's profiler, as CSV."""
    COLUMNS = ["trace_id", "parent_span_id", "span_id", "start", "end", "cat", "name", "thread.id",
               "dram_base", "pe_index", "execution_index", "instruction_index", "operator_index"]

    def __init__(self):
        self.text, self.ids = io.StringIO(), 0
        self.out = csv.DictWriter(self.text, self.COLUMNS)
        self.out.writeheader()

    def add(self, trace, parent, start, dur, cat, name, **more):
        """A span; its id."""
        self.ids += 1
        self.out.writerow({"trace_id": f"{trace:032x}", "parent_span_id": f"{parent:016x}",
                           "span_id": f"{self.ids:016x}", "start": start, "end": start + dur, "cat": cat,
                           "name": name, "thread.id": more.pop("thread", 45), **more})
        return self.ids


def furiosa(path, inferences=5):
    """A DataFrame as CSV: inferences with host operators and runs of a device with I/O around."""
    rows, t0 = FuriosaRows(), 1_666_250_000_000_000_000
    row = rows.add
    latencies, totals, runs = [], [], []
    for i in range(inferences):
        at, latency = t0 + i * 1_000_000, 300_000 + 37_111 * i
        latencies.append(latency)
        root = row(i + 1, 0, at, latency, "Nux", "Inference")
        row(i + 1, root, at + 1000, 5000 + i, "Nux", "Quantize", operator_index=0)
        row(i + 1, root, at + latency - 9000, 7000 + i, "Nux", "Dequantize", operator_index=2)
        total = 100_000 + 1000 * i
        execution = row(i + 1, root, at + 50_000, total, "NPU", "Execution", dram_base=4096,
                        pe_index=0, execution_index=0)
        when, run = at + 50_000, 0
        for n, (name, dur) in enumerate([("Load", 9000), ("LowLevelConv2d", 60_000 + i),
                                         ("LowLevelReshape", 3), ("Store", 8000)]):
            row(i + 1, execution, when, dur, "NPU", name, dram_base=4096, pe_index=0,
                execution_index=0, instruction_index=n, operator_index=n)
            run += dur if name.startswith("LowLevel") else 0
            when += dur + 10
        totals.append(total)
        runs.append(run)
    put(path, rows.text.getvalue())
    return {"latencies": latencies, "total_ns": totals, "run_ns": runs,
            "operators": {"LowLevelConv2d": [60_000 + i for i in range(inferences)],
                          "LowLevelReshape": [3] * inferences},
            "host": {"Quantize": [5000 + i for i in range(inferences)],
                     "Dequantize": [7000 + i for i in range(inferences)]}}


def tensorrt_times(path, inferences=9):
    """trtexec --exportTimes: moments of six digits, as printed after an hour, and durations that are
    finer than those."""
    rows, at = [], 3_600_000.0
    latencies = [871_234 + 1_357 * i for i in range(inferences)]
    for ns in latencies:
        ms = ns / 1e6
        moment = lambda t: float(f"{t:.6g}")  # noqa: E731
        begin, end = moment(at), moment(at + ms)
        rows.append({"startEnqMs": begin, "endEnqMs": begin, "startH2dMs": begin,
                     "endH2dMs": begin, "startComputeMs": begin, "endComputeMs": end,
                     "startD2hMs": end, "endD2hMs": end, "h2dMs": 0, "computeMs": ms, "d2hMs": 0,
                     "latencyMs": ms})
        at += 10
    put(path, json.dumps(rows))
    return latencies
