"""cases_mindspore.py -- MindSpore's folders among the fixtures: steps, operators, queues, pipelines."""
from bisect import bisect_right
from collections import defaultdict

import numpy

import intervals
import mindspore

RAW = ("r0.5/JOB3", "r1.0/JOB3")
PARSED = ("r0.5/profiler", "r1.0/profiler", "r1.0/run_1/normal_run/profiler", "master/profiler",
          "master/cluster_propose", "master/run_1/normal_run/profiler",
          "master/run_2/normal_run/profiler", "master/run_3/normal_run/profiler",
          "master/run_4/normal_run/profiler")
PIPELINES = ("r0.5/JOB1", "r0.5/JOB2", "master/JOB1", "master/JOB2", "r0.5/profiler",
             "master/profiler", "master/run_1/normal_run/profiler",
             "master/run_2/normal_run/profiler", "r1.0/run_1/normal_run/profiler")


def cases(opmeter, fixtures):
    base = fixtures / "seeds/mindspore"
    for kind, folders, function in (("raw", RAW, raw), ("parsed", PARSED, parsed),
                                    ("pipeline", PIPELINES, pipelines)):
        for name in folders:
            if (base / name).is_dir():
                yield (f"mindspore/{kind}/{name}",
                       lambda case, f=function, path=base / name: f(case, opmeter, path))


def raw(case, opmeter, folder):
    query = lambda sql: opmeter.query(folder, sql)  # noqa: E731
    steps, tasks = mindspore.raw_steps(folder), mindspore.raw_tasks(folder)
    ns = mindspore.TICK_NS
    source = "training_trace, as MindInsight splits it"
    case.check("steps.parts", lambda: {r["num"]: tuple(r.values())[1:] for r in query(
        "SELECT num, total_ns, gap_ns, fp_bp_ns, tail_ns FROM step_trace")},
        {i + 1: tuple(ns * t for t in (end - start, fp - start, bp - fp, end - bp))
         for i, (start, fp, bp, end, _) in enumerate(steps)}, source)
    case.check("steps.mean", lambda: [tuple(r.values()) for r in query(
        "SELECT count, mean_ns FROM latency WHERE scope = 'step'")],
        [(len(steps) - 1, ns * float(numpy.mean([s[3] - s[0] for s in steps[1:]])))],
        source + "; the first step is none of its means")
    case.check("steps.collectives", lambda: {r["num"]: r["collective_ns"] for r in query(
        "SELECT num, collective_ns FROM step_trace")},
        {i + 1: ns * intervals.length(intervals.clip(s[4], s[0], s[3]))
         for i, s in enumerate(steps)}, "pairs of points of each stream")
    starts, in_step = [s[0] for s in steps], defaultdict(list)
    last_task = max(end for _, _, end in tasks)
    cut = bisect_right(starts, last_task) - 1  # the step in which the recording of tasks ended
    for name, begin, end in tasks:
        step = bisect_right(starts, begin) - 1
        if step >= 0 and begin < steps[step][3]:
            in_step[name].append((step, ns * (end - begin)))
    # An operator of several tasks runs once per step; what began in the cut step is left out, since
    # a mean of an iteration may or may not take it in.
    whole = {name: [dur for step, dur in runs if step > 0] for name, runs in in_step.items()
             if all(step != cut for step, _ in runs)}
    counted = {name: len({step for step, _ in runs if step > 0})
               for name, runs in in_step.items() if name in whole}
    asked = lambda rows, *columns: {  # noqa: E731
        r["name"]: tuple(r[c] for c in columns) if len(columns) > 1 else r[columns[0]]
        for r in rows if r["name"] in whole}
    case.check("operators.total", lambda: asked(query("SELECT name, total_ns FROM op_stats"),
                                                "total_ns"),
               {name: sum(durations) for name, durations in whole.items()},
               "pairs of records of tasks, without the first step")
    case.check("operators.per_iteration", lambda: asked(query(
        "SELECT name, time_ns FROM op_times WHERE section = 'device' AND op IS NOT NULL"),
        "time_ns"), {name: sum(d) / counted[name] for name, d in whole.items()},
        "the mean is over the steps whose tasks were recorded")


def parsed(case, opmeter, folder):
    query = lambda sql: opmeter.query(folder, sql)  # noqa: E731
    files = {int(p.name.split("_")[3]): p for p in folder.glob("step_trace_raw_*_detail_time.csv")}
    ns, truth, means = mindspore.TICK_NS, {}, {}
    for rank, path in files.items():
        rows = [r for r in mindspore.parsed_steps(path) if r["step_num"]]
        for r in rows:
            truth[rank, r["step_num"]] = tuple(ns * r.get(c, 0) for c in (
                "total", "iteration_interval", "fp_and_bp", "tail"))
        counted = rows[1:] if len(rows) > 1 else rows
        means[rank] = (len(counted), ns * float(numpy.mean([r["total"] for r in counted])))
    source = "step_trace_raw_<id>_detail_time.csv"
    if truth:
        case.check("steps.parts", lambda: {(r["rank"], r["num"]): tuple(r.values())[2:]
                                           for r in query(
            "SELECT rank, num, total_ns, gap_ns, fp_bp_ns, tail_ns FROM step_trace "
            "WHERE found_by = 'marks'") if r["rank"] in files}, truth, source)
        case.check("steps.mean", lambda: {r["rank"]: (r["n"], r["ns"]) for r in query(
            "SELECT rank, count(*) n, avg(total_ns) ns FROM step_trace WHERE warmup = 0 "
            "AND found_by = 'marks' GROUP BY rank") if r["rank"] in files}, means, source + ", without the first step")


def pipelines(case, opmeter, folder):
    query = lambda sql: opmeter.query(folder, sql)  # noqa: E731
    for path in sorted(folder.glob("pipeline_profiling_*.json")):
        rank = int(path.stem.rsplit("_", 1)[1])
        stages = {n: s for n, s in mindspore.pipeline(path).items() if s["sizes"]}
        names = {n: f"{s['type']}_{n}" for n, s in stages.items()}
        case.check(f"queues.{rank}", lambda: {r["name"]: tuple(r.values())[1:] for r in query(
            "SELECT name, samples, empty, full, mean_size, max_size, usage FROM queue_stats "
            f"WHERE rank = {rank}") if r["name"] in names.values()},
            {names[n]: (len(s["sizes"]), s["sizes"].count(0), s["sizes"].count(s["length"]),
                        float(numpy.mean(s["sizes"])), max(s["sizes"]), s["usage"])
             for n, s in stages.items()}, path.name)
        for rule, later in (("r05", False), ("master", True)):
            case.check(f"bottleneck_{rule}.{rank}", lambda: {r["stage"]: r["is"] for r in query(
                f"SELECT stage, bottleneck_{rule} \"is\" FROM pipeline_op WHERE rank = {rank}")
                if r["stage"] in names.values()},
                {names[n]: int(n in mindspore.bottlenecks(stages, later)) for n in stages},
                f"the rule of MindInsight on {path.name}")
    for path in sorted(folder.glob("device_queue_profiling_*.txt")):
        rank = int(path.stem.rsplit("_", 1)[1])
        sizes, capacity = mindspore.queue_records(path)
        case.check(f"host_queue.{rank}", lambda: [tuple(r.values()) for r in query(
            "SELECT samples, empty, full, capacity FROM queue_stats "
            f"WHERE name = 'host queue' AND rank = {rank}")],
            [(len(sizes), sizes.count(0), sizes.count(capacity), capacity)], path.name)
