"""mindspore.py -- figures of MindSpore's profiler folders, from raw and parsed files.

Times of a device are ticks of 10 ns. Raw files are little endian; their layout and the algorithms
are those of MindInsight r0.5, later ones where noted.
"""
import csv
import json
import struct
from collections import defaultdict
from pathlib import Path

TICK_NS = 10
FP, BP, END = 1, 2, 255


def only(folder, pattern):
    """The parts of a file that was written in slices, in their order."""
    found = [p for p in Path(folder).rglob(pattern) if not p.name.endswith(".done")]
    return sorted(found, key=lambda p: int(p.name.rsplit("_", 1)[1]))


def raw_steps(folder):
    """Steps of training_trace: (start, fp, bp, end, collectives) in ticks.

    A step starts where the one before ended, the first at its forward pass. One that lacks a point
    is dropped. Other tags come in pairs per stream: start and end of a collective.
    """
    data = b"".join(p.read_bytes() for p in only(folder, "training_trace.46.dev.*"))
    steps, points, pairs, previous = [], {}, defaultdict(list), None
    for tag, _, stream, at in struct.iter_unpack("=QHHQ", data[:len(data) // 20 * 20]):
        if tag == 0 or tag > 255:
            points, pairs = {"job": at}, defaultdict(list)
        elif tag in (FP, BP, END):
            points[tag] = at
            if tag == END:
                if all(t in points for t in (FP, BP, "job")):
                    start = points[FP] if previous is None else previous
                    exchanges = [tuple(times[i:i + 2]) for times in pairs.values()
                                 if len(times) % 2 == 0 for i in range(0, len(times), 2)]
                    steps.append((start, points[FP], points[BP], at, exchanges))
                previous = at
        else:
            pairs[stream].append(at)
    return steps


def raw_tasks(folder):
    """(operator name, start, end) in ticks of every task whose start and end follow each other."""
    names, key = {}, lambda stream, task: task if task >= 25000 else (stream, task)
    for path in only(folder, "Framework.host.vm.task_desc_info.*"):
        for line in path.read_text().splitlines():
            name, _, task, stream = line.split()
            names[key(int(stream), int(task))] = name
    data = b"".join(p.read_bytes() for p in only(folder, "hwts.log.data.45.dev.*"))
    tasks, begun = [], None
    for record in (data[i:i + 64] for i in range(0, len(data) - 63, 64)):
        kind = record[0] & 7
        if kind > 1:
            continue
        task, at, stream = struct.unpack_from("<HQI", record, 6)
        name = names.get(key(stream, task))
        if name is None:
            continue
        if kind == 0:
            begun = (name, at)
        elif begun and begun[0] == name:
            tasks.append((name, begun[1], at))
            begun = None
    return tasks


def parsed_steps(path):
    """Rows of step_trace_raw_<id>_detail_time.csv without the average that ends it, in ticks."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["step_num"] != "-"]
    return [{k: int(float(row[k])) for k in row if k and row[k] not in (None, "")
             and k in ("step_num", "start_point", "end_point", "total", "fp_point", "bp_point",
                       "iteration_interval", "fp_and_bp", "tail")} for row in rows]


def pipeline(path):
    """Stages of pipeline_profiling_<id>.json: op_id to a dictionary; those without a queue of their
    own are folded away, and what fed them feeds what they fed."""
    ops = {op["op_id"]: op for op in json.loads(path.read_text())["op_info"]}
    def feeders(op):
        found = []
        for child in op.get("children") or []:
            queue = (ops[child].get("metrics") or {}).get("output_queue")
            found += [child] if queue else feeders(ops[child])
        return found
    stages = {}
    for number, op in ops.items():
        queue = (op.get("metrics") or {}).get("output_queue")
        sizes, length = (queue["size"], queue["length"]) if queue else (None, None)
        stages[number] = {
            "type": op["op_type"], "workers": op["num_workers"], "children": feeders(op),
            "sizes": sizes, "length": length,
            "usage": sum(sizes) / len(sizes) / length if sizes and length else None}
    return stages


def bottlenecks(stages, later):
    """Stages that hold the others up by the rule of r0.5 or of later versions."""
    queued = {n: s for n, s in stages.items() if s["usage"] is not None}
    usage = {n: s["usage"] for n, s in queued.items()}
    children = {n: [c for c in s["children"] if c in usage] for n, s in queued.items()}
    leaves = [n for n in queued if not queued[n]["children"]]
    fed = {c for s in queued.values() for c in s["children"]}
    roots = [n for n in queued if n not in fed]
    high, low = (0.8, 0.6) if later else (0.8, 0.2)
    if all(u >= high for u in usage.values()):
        return set(roots)
    if later:
        return ({n for n in queued if any(usage[c] - usage[n] > 0.1 for c in children[n])}
                | {n for n in leaves if usage[n] < low})
    if all(u < low for u in usage.values()):
        return set(leaves)
    return {n for n in queued
            if children[n] and all(usage[c] >= high for c in children[n]) and usage[n] < low}


def queue_records(path):
    """Sizes and capacity in device_queue_profiling_<id>.txt or dataset_iterator_profiling_<id>.txt"""
    sizes, capacity = [], None
    for line in path.read_text().splitlines():
        cells = line.split()
        if len(cells) >= 4 and cells[0] == "1":
            capacity = int(cells[1])
            sizes.append(int(cells[3]))
    return sizes, capacity
