"""cases_planted.py -- traces that are made here, with the truth known by construction."""
import os
import re

import numpy

import planted_folders
import planted_kineto
from program import Unanswered

# Buckets of time in which the device did nothing.
IDLE = "('data', 'measuring', 'runtime', 'host', 'idle')"
BUSY = "('overlap', 'compute', 'communication', 'copy')"
PLANTED = "planted"


def cases(opmeter, work):
    folder = work / "planted"
    for name, function in (
            ("async", asynchronous), ("idle", idle), ("graph", graph), ("ranks", ranks),
            ("partial", partial), ("two_clocks", two_clocks), ("neural_engine", neural_engine),
            ("cambricon", cambricon), ("cambricon_stale", cambricon_stale), ("own", own_folder),
            ("furiosa", furiosa), ("whatif_edited", whatif_edited), ("whatif_int8", whatif_int8),
            ("percentiles", percentiles), ("overlap", overlap), ("int8", int8),
            ("chain", chain), ("points", points), ("tensorrt", tensorrt),
            ("stand_ins", stand_ins), ("own_marks", own_marks), ("interrupted", interrupted),
            ("prompt", prompt)):
        yield f"planted/{name}", lambda case, f=function, n=name: f(case, opmeter, folder / n)


def buckets(query):
    """Time with the device busy, idle, and their sum, over all steps."""
    row = query(f"SELECT sum(ns) FILTER (WHERE bucket IN {BUSY}) busy, "
                f"sum(ns) FILTER (WHERE bucket IN {IDLE}) idle FROM occupation WHERE warmup = 0")[0]
    return row["busy"], row["idle"]


def idle_share(query):
    busy, idle_ns = buckets(query)
    return idle_ns / (busy + idle_ns)


def reconciles(case, query, truth):
    """One line: wall = compute + exposed communication + copies + idle + not recorded."""
    columns = ("wall_ns", "compute_ns", "exposed_ns", "copy_ns", "idle_ns", "not_recorded_ns")
    case.check("reconciliation", lambda: [
        {c: r[c] for c in columns} for r in query("SELECT * FROM reconciliation")],
        [{**dict.fromkeys(columns, 0), **truth}], PLANTED)


def device(query):
    return query("SELECT kernels, total_ns, run_ns, wait_ns FROM stream_stats "
                 "WHERE scope = 'device'")


def device_truth(truth):
    return [{"kernels": truth["kernels"], "total_ns": truth["window_ns"],
             "run_ns": truth["busy_ns"], "wait_ns": truth["idle_ns"]}]


def no_advice_about_idleness(case, query):
    case.check("advice.idle", lambda: [r["message"] for r in query(
        "SELECT message FROM advice WHERE message LIKE '%idle%'")], [],
        "the device is busy all the time")


def asynchronous(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.asynchronous(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    case.check("device.totals", lambda: device(query), device_truth(truth), PLANTED)
    case.check("steps.busy", lambda: buckets(query)[0], truth["busy_ns"],
               "all of it was launched in steps, whenever it ran")
    case.check("steps.idle_share", lambda: idle_share(query),
               truth["idle_ns"] / truth["window_ns"], "idle within the device's own window",
               within=1e-4)
    case.check("steps.latency", lambda: query("SELECT count, mean_ns FROM latency")[0],
               {"count": truth["steps"], "mean_ns": truth["host_ns"] / truth["steps"]}, PLANTED)
    case.check("operators", lambda: query(
        "SELECT count, total_ns FROM op_times WHERE section = 'device'"),
        [{"count": truth["kernels"], "total_ns": truth["busy_ns"]}], PLANTED)
    reconciles(case, query, {"wall_ns": truth["window_ns"], "compute_ns": truth["busy_ns"],
                             "idle_ns": truth["idle_ns"]})
    no_advice_about_idleness(case, query)


def idle(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.idle(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    case.check("device.totals", lambda: device(query),
               device_truth({**truth, "kernels": 2 * truth["steps"]}), PLANTED)
    case.check("steps.busy", lambda: buckets(query)[0], truth["busy_ns"], PLANTED)
    case.check("steps.idle_share", lambda: idle_share(query), 0.3, PLANTED, within=1e-4)


def graph(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.graph(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    total = lambda where: (query("SELECT sum(total_ns) ns FROM op_times "  # noqa: E731
                                 f"WHERE section = 'device' AND {where}")[0]["ns"])
    case.check("device.explained", lambda: total("1"), truth["device_ns"], PLANTED)
    case.check("device.operators", lambda: total("op IS NOT NULL AND type != 'graph launch'"), truth["operator_ns"], PLANTED)
    case.check("device.graph", lambda: total("type = 'graph launch' AND name GLOB 'cudaGraphLaunch 1 #*'"),
               truth["graph_ns"], "time of the kernels under their graph launch")
    case.check("device.library", lambda: total("op IS NULL AND name = 'library_sample'"),
               truth["library_ns"], "a kernel without operator under its own name")
    case.check("kernels", lambda: query("SELECT sum(count) n, sum(total_ns) ns FROM device_ops"),
               [{"n": truth["kernels"], "ns": truth["device_ns"]}], PLANTED)


def ranks(case, opmeter, folder):
    truth = planted_kineto.ranks(folder)
    query = lambda sql: opmeter.query(truth["files"], sql)  # noqa: E731
    case.check("device.totals", lambda: {r["rank"]: r["run_ns"] for r in query(
        "SELECT rank, run_ns FROM stream_stats WHERE scope = 'device'")},
        {r: truth["compute_ns"] + truth["exchange_ns"][r] for r in range(truth["ranks"])}, PLANTED)
    case.check("steps.exposed", lambda: {r["rank"]: r["ns"] for r in query(
        "SELECT rank, sum(exposed_ns) ns FROM step_trace GROUP BY rank")},
        dict(enumerate(truth["exchange_ns"])), PLANTED)
    case.check("operators", lambda: sorted((r["type"], r["ns"]) for r in query(
        "SELECT type, total_ns ns FROM op_times WHERE section = 'device' AND op IS NOT NULL")),
        sorted([("aten::mm", truth["compute_ns"])] * truth["ranks"]
               + [("nccl:all_reduce", ns) for ns in truth["exchange_ns"]]),
        "launches of one rank launch nothing on another, though their numbers are the same")
    case.check("steps.ranks", lambda: query(
        "SELECT count(*) n FROM span s JOIN track t ON t.id = s.track JOIN step p ON p.id = s.step "
        "JOIN track q ON q.id = p.track WHERE s.layer = 'hardware' AND t.rank <> q.rank")[0]["n"], 0,
        "work of a rank belongs to steps of that rank")
    case.check("stragglers", lambda: {r["rank"]: tuple(r.values())[1:] for r in query(
        "SELECT rank, collectives, last_count, late_ns, waited_ns, clock_ns FROM stragglers")},
        {r: (truth["steps"], truth["steps"] if r == truth["late"] else 0,
             truth["steps"] * truth["late_ns"] if r == truth["late"] else 0,
             0 if r == truth["late"] else truth["steps"] * truth["late_ns"],
             truth["offsets_ns"][r]) for r in range(truth["ranks"])}, PLANTED)
    case.check("advice.late_rank", lambda: [r["message"] for r in query(
        f"SELECT message FROM advice WHERE message LIKE '%rank {truth['late']}%'")] != [], True,
        "rank 2 comes 200 ms late to every all-reduce")


def partial(case, opmeter, folder):
    truth = planted_folders.mindspore_partial(folder)
    query = lambda sql: opmeter.query(folder, sql)  # noqa: E731
    counted = truth["steps"] - 1  # as MindInsight does, which leaves the first one out of its means
    case.check("steps.parts", lambda: query(
        "SELECT count(*) n, avg(total_ns) total, avg(gap_ns) gap, avg(fp_bp_ns) fp_bp, "
        "avg(tail_ns) tail FROM step_trace WHERE warmup = 0"),
        [{"n": counted, "total": truth["step_ns"], "gap": truth["gap_ns"],
          "fp_bp": truth["fp_bp_ns"], "tail": truth["tail_ns"]}], PLANTED)
    case.check("steps.points", lambda: [tuple(r.values()) for r in query(
        "SELECT DISTINCT fp_point, bp_point FROM step_trace WHERE warmup = 0")],
        [truth["points"]], PLANTED)
    case.check("operators.mean", lambda: {r["name"]: r["mean_ns"] for r in query(
        "SELECT name, mean_ns FROM op_stats")}, truth["operators"], PLANTED)
    case.check("operators.per_iteration", lambda: {
        r["name"]: (r["iterations"], r["time_ns"]) for r in query(
            "SELECT name, iterations, time_ns FROM op_times WHERE section = 'device' "
            "AND op IS NOT NULL")},
        {name: (truth["recorded"], dur) for name, dur in truth["operators"].items()},
        "the mean of an iteration is over the 14 steps that were recorded")
    case.check("top", lambda: {r["name"]: r["time_ns"] for r in top(opmeter, folder)},
               truth["operators"],
               "the mean of an iteration is over the 14 steps that were recorded")
    case.check("steps.busy", lambda: buckets(query)[0], truth["recorded"] * truth["compute_ns"],
               PLANTED)
    # The window of the device begins with its first record, after the gap of that step.
    unseen, before = counted - truth["recorded"], truth["gap_ns"]
    reconciles(case, query, {
        "wall_ns": counted * truth["step_ns"] - before,
        "compute_ns": truth["recorded"] * truth["compute_ns"],
        "idle_ns": truth["recorded"] * (truth["step_ns"] - truth["compute_ns"]) - before,
        "not_recorded_ns": unseen * truth["step_ns"]})
    case.check("steps.idle_share", lambda: idle_share(query),
               1 - truth["compute_ns"] / truth["step_ns"],
               "what was not recorded is not idle", within=1e-3)
    case.check("whatif", lambda: {r["name"]: r["latency_ns"] for r in query(
        "SELECT name, latency_ns FROM whatif")}, truth["operators"], PLANTED)
    no_advice_about_idleness(case, query)


def top(opmeter, trace):
    """Rows of `opmeter top --json`."""
    return opmeter.json("top", "--json", "-t", 0, trace)


def two_clocks(case, opmeter, folder):
    path = folder / "profile.json"
    truth = planted_folders.megengine_clocks(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    for section in ("device", "host"):
        case.check(f"operators.{section}", lambda: {
            r["name"]: (r["time_ns"], r["wait_ns"]) for r in query(
                "SELECT name, time_ns, wait_ns FROM op_times "
                f"WHERE section = '{section}'")}, truth[section], PLANTED, within=1)
    case.check("footprint", lambda: {
        r["name"]: (r["computation"], r["memory"]) for r in query(
            "SELECT name, computation, memory FROM op_times WHERE section = 'device'")},
        {name: (truth["computation"][name], truth["memory"][name]) for name in truth["device"]},
        PLANTED)
    case.check("steps.parts", lambda: query(
        "SELECT total_ns, gap_ns, fp_bp_ns, tail_ns FROM step_trace"),
        [{"total_ns": truth["device_ns"], "gap_ns": 0, "fp_bp_ns": truth["device_ns"],
          "tail_ns": 0}], "the device works from 0 to 40 ms of its own clock")
    case.check("steps.idle_share", lambda: idle_share(query), 0.0, "the device never waits",
               within=1e-6)
    case.check("weights", lambda: query(
        "SELECT sum(bytes) bytes FROM mem WHERE kind = 'weight'")[0]["bytes"],
        truth["weight_bytes"], "the chunk of the SharedDeviceTensor")


def neural_engine(case, opmeter, folder):
    folder = folder / "engine_profiling"
    truth = planted_folders.neural_engine(folder)
    one_run(case, lambda sql: opmeter.query(folder, sql), truth["iterations"], truth["operators"],
            truth["total_ns"])
    case.check("whatif", lambda: opmeter.query(
        folder, "SELECT sum(latency_ns) now, sum(projected_ns) then_ FROM whatif"),
        [{"now": truth["total_ns"], "then_": truth["projected_ns"]}], "the formulas of the CSV")
    for name, path in (("csv", "profiling_csv"), ("json", "profiling_trace")):
        case.check(f"operators.{name}", lambda: {r["name"]: r["mean_ns"] for r in opmeter.query(
            next((folder / path).iterdir()), "SELECT name, mean_ns FROM op_stats")},
            truth["operators"], PLANTED)


def whatif_edited(case, opmeter, folder):
    """Ratios and aims that the user changed in the CSV are what he asks about."""
    truth = planted_folders.neural_engine(
        folder, ratios={(256, 256): (5.0, 2.5, 2.0, 1), (1024, 256): (4.5, 3.0, 2.5, 1.25)},
        aims={"fc_1": 80, "fc_2": 60})
    path = next((folder / "profiling_csv").iterdir())
    total = "SELECT sum(latency_ns) now, sum(projected_ns) then_ FROM whatif"
    case.check("projected", lambda: opmeter.query(path, total),
               [{"now": truth["total_ns"], "then_": truth["projected_ns"]}],
               "its formulas, worked out", within=1)
    case.check("absent_shape", lambda: refused(opmeter, "whatif", "-r", "1x1:3", path), True,
               "no weight has this shape")
    again = folder / "again.csv"
    def exported():
        opmeter.text("export", path, "-f", "neural-engine", "-o", again)
        return opmeter.query(again if again.is_file() else next(again.rglob("*.csv")), total)
    case.check("exported", exported, [{"now": truth["total_ns"], "then_": truth["projected_ns"]}],
               "exporting changes nothing", within=1)


def whatif_int8(case, opmeter, folder):
    truth = planted_folders.neural_engine(folder, dtype="s8")
    path = next((folder / "profiling_csv").iterdir())
    case.check("rows", lambda: opmeter.value(
        path, "SELECT count(*) FROM whatif WHERE aim IS NOT NULL"), 2,
        "two weights that have few zeros, of int8")
    case.check("projected", lambda: opmeter.query(
        path, "SELECT sum(latency_ns) now, sum(projected_ns) then_ FROM whatif"),
        [{"now": truth["total_ns"], "then_": truth["projected_ns"]}], "its formulas, worked out",
        within=1)


def overlap(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.overlap(path)
    case.check("streams", lambda: {r["tid"]: tuple(r.values())[1:] for r in opmeter.query(
        path, "SELECT t.tid, kernels, copies, total_ns, run_ns, copy_ns, wait_ns "
        "FROM stream_stats s JOIN track t ON t.id = s.track WHERE scope = 'stream'")}, truth,
        PLANTED)


def chain(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.chain(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    case.check("adds_up", lambda: [r["ns"] for r in query(
        "SELECT step, sum(dur) ns FROM critical_path GROUP BY step ORDER BY step")],
        [truth["step_ns"]] * truth["steps"], "the path covers its step")
    case.check("kinds", lambda: {r["kind"]: r["ns"] for r in query(
        "SELECT kind, sum(dur) ns FROM critical_path WHERE kind IN ('compute', 'sync', 'gap') "
        "GROUP BY kind")},
        {kind: truth["steps"] * truth[kind] for kind in ("compute", "sync")}, PLANTED)
    case.check("kernels", lambda: [r["name"] for r in query(
        "SELECT DISTINCT name FROM critical_path WHERE kind = 'compute'")], ["gemm"],
        "nobody waits for the other kernel")
    case.check("after", lambda: [r["ns"] for r in query(
        "SELECT c.step, sum(c.dur) ns FROM critical_path c JOIN step s ON s.id = c.step "
        f"WHERE c.ts >= s.ts + {truth['step_ns'] - truth['after_ns']} AND c.kind = 'host' "
        "GROUP BY c.step ORDER BY c.step")], [truth["after_ns"]] * truth["steps"], PLANTED)


def refused(opmeter, *args):
    """Whether opmeter ends with a failure and a line that says why."""
    try:
        opmeter.text(*args)
    except Unanswered:
        return True
    return False


def points(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.points(path)
    case.check("duration", lambda: opmeter.json("info", "--json", path)["duration_ns"],
               truth["duration_ns"], "from the first record to the last")
    split = lambda: [  # noqa: E731
        {c: r[c] for c in truth["split"]} for r in opmeter.json(
            "steps", "--json", "--fp-point", "aten::b", "--bp-point", "aten::c", path)]
    case.check("split", lambda: split()[:truth["split_steps"]],
               [truth["split"]] * truth["split_steps"], PLANTED)
    case.check("unknown", lambda: refused(opmeter, "steps", "--fp-point", "aten::bb", path), True,
               "there is no such operator")


def tensorrt(case, opmeter, folder):
    path = folder / "times.json"
    truth = planted_folders.tensorrt_times(path)
    case.check("latency", lambda: [tuple(r.values()) for r in opmeter.query(
        path, "SELECT count, min_ns, max_ns, mean_ns, median_ns FROM latency")],
        [(len(truth), min(truth), max(truth), float(numpy.mean(truth)),
          float(numpy.median(truth)))], "latencyMs")


def stand_ins(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.stand_ins(path)
    case.check("operators", lambda: {r["type"]: (r["n"], r["ns"]) for r in opmeter.query(
        path, "SELECT type, sum(count) n, sum(total_ns) ns FROM op_times WHERE section = 'device' "
        "AND op IS NOT NULL GROUP BY type")}, truth, PLANTED)


def int8(case, opmeter, folder):
    """A model of int8 has the weights of the same model of fp32, and the same is asked of them."""
    told = {}
    for dtype in ("fp32", "int8"):
        out = folder / dtype
        run(opmeter, folder, f"zoo:mlp?dtype={dtype}", "-n", 1, "-w", 0, "-o", out)
        told[dtype] = opmeter.query(out / "trace.opm", "SELECT name, weight_shape, n, k, "
                                    "sparsifiable, aim FROM whatif WHERE weight_shape IS NOT NULL")
    case.check("whatif", told["int8"], told["fp32"], "the same model of fp32")


def percentiles(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.percentiles(path)
    case.check("kernels", lambda: {r["name"]: tuple(r.values())[1:] for r in opmeter.query(
        path, "SELECT name, mean_ns, median_ns, p99_ns FROM device_ops")},
        {name: (float(numpy.mean(d)), float(numpy.median(d)), float(numpy.percentile(d, 99)))
         for name, d in truth["kernels"].items()}, "numpy")
    shown = (50, 90, 95, 97, 99, 99.9)
    case.check("steps", lambda: list(opmeter.query(
        path, "SELECT median_ns, p90_ns, p95_ns, p97_ns, p99_ns, p999_ns FROM latency")[0].values()),
        [float(numpy.percentile(truth["steps"], p)) for p in shown], "numpy")
    case.check("stdev", lambda: opmeter.value(path, "SELECT stdev_ns FROM latency"),
               float(numpy.std(truth["steps"], ddof=1)), "numpy, n - 1")
    case.check("per_second", lambda: opmeter.value(path, "SELECT per_second FROM latency"),
               len(truth["steps"]) / sum(truth["steps"]) * 1e9, "one step behind the other")
    case.check("nearest", lambda: list(opmeter.json(
        "summary", "--json", "--percentile-method", "nearest", path)[0][f"p{p}_ns"]
        for p in ("90", "95", "97", "99", "999")),
        [sorted(truth["steps"])[int(len(truth["steps"]) * p / 100)] for p in shown[1:]],
        "LoadGen's rule: sorted[n p]")
    case.check("printed", lambda: [int(n) for n in re.findall(
        r"percentile latency \(ns\) +: (\d+)$", opmeter.text("summary", "--as", "furiosa", path), re.M)],
        [int(numpy.percentile(truth["steps"], p)) for p in shown[1:]],
        "numpy, truncated as Furiosa's SDK does")


def one_run(case, query, iterations, operators, step_ns):
    """What holds of a folder that tells of one run in several files."""
    source = "the files of the folder tell of one run"
    latency = "SELECT {} FROM latency WHERE scope = 'step'"
    case.check("steps.count", lambda: query(latency.format("count")), [{"count": iterations}],
               source)
    # Seconds since 1970 as doubles are good for 200 ns.
    case.check("steps.latency", lambda: query(latency.format("mean_ns")), [{"mean_ns": step_ns}],
               source, within=200)
    case.check("operators", lambda: sorted(
        (r["name"], r["count"], r["mean_ns"]) for r in query(
            "SELECT name, count, mean_ns FROM op_stats")),
        sorted((name, iterations, dur) for name, dur in operators.items()), source)
    case.check("operators.per_iteration", lambda: query(
        "SELECT sum(time_ns) ns FROM op_times WHERE op IS NOT NULL")[0]["ns"],
        sum(operators.values()), source)


def cambricon(case, opmeter, folder):
    folder = folder / "profile"
    truth = planted_folders.cambricon(folder)
    one_run(case, lambda sql: opmeter.query(folder, sql), truth["steps"], truth["operators"],
            truth["step_ns"])


def cambricon_stale(case, opmeter, folder):
    folder = folder / "profile"
    truth = planted_folders.cambricon(folder, stale=2)
    one_run(case, lambda sql: opmeter.query(folder, sql), truth["steps"], truth["operators"],
            truth["step_ns"])


def run(opmeter, folder, *args):
    """`opmeter run` in a folder, whatever the environment asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    quiet = {k: v for k, v in os.environ.items() if not k.startswith(("OPMETER_", "ENGINE_"))}
    opmeter.text("run", *args, cwd=folder, env=quiet)


def own_folder(case, opmeter, folder):
    """A run of ours: whatever is asked of its folder and of its trace has the same answer."""
    out = folder / "out"
    run(opmeter, folder, "zoo:mlp", "-n", 7, "-w", 3, "-o", out)
    trace = out / "trace.opm"
    case.check("steps.count", lambda: opmeter.query(
        out, "SELECT count, warmup_count FROM latency WHERE scope = 'step'"),
        [{"count": 7, "warmup_count": 3}], "-n 7 -w 3")
    case.check("operators.count", lambda: opmeter.query(
        out, "SELECT DISTINCT count FROM op_stats"), [{"count": 7}], "-n 7")
    for question, sql in (
            ("latency", "SELECT mean_ns, median_ns, p99_ns FROM latency WHERE scope = 'step'"),
            ("operators", "SELECT name, count, total_ns, self_ns FROM op_stats"),
            ("whatif", "SELECT sum(latency_ns) now, sum(projected_ns) then_ FROM whatif"),
            ("occupation", "SELECT bucket, sum(ns) ns FROM occupation GROUP BY bucket")):
        case.check(f"same.{question}", lambda: opmeter.query(out, sql), opmeter.query(trace, sql),
                   "trace.opm alone")


def furiosa(case, opmeter, folder):
    path = folder / "profile.csv"
    truth = planted_folders.furiosa(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    d = truth["latencies"]
    case.check("steps.latency", lambda: [tuple(r.values()) for r in query(
        "SELECT count, min_ns, max_ns, mean_ns, median_ns, p90_ns, p95_ns, p97_ns, p99_ns, p999_ns,"
        " stdev_ns FROM latency WHERE scope = 'step'")],
        [(len(d), min(d), max(d), float(numpy.mean(d)), float(numpy.median(d)),
          *(float(numpy.percentile(d, p)) for p in (90, 95, 97, 99, 99.9)),
          float(numpy.std(d, ddof=1)))], "numpy")
    case.check("executions", lambda: [tuple(r.values()) for r in query(
        "SELECT total_ns, run_ns, io_wait_ns FROM executions ORDER BY ts")],
        [(t, r, t - r) for t, r in zip(truth["total_ns"], truth["run_ns"])], PLANTED)
    case.check("device_ops", lambda: {r["name"]: (r["count"], r["mean_ns"]) for r in query(
        "SELECT name, count, mean_ns FROM device_ops")},
        {name: (len(v), float(numpy.mean(v))) for name, v in truth["operators"].items()}, PLANTED)
    case.check("host_ops", lambda: {r["type"]: (r["n"], r["ns"]) for r in query(
        "SELECT type, count(*) n, avg(dur) ns FROM host_ops GROUP BY type")},
        {name: (len(v), float(numpy.mean(v))) for name, v in truth["host"].items()}, PLANTED)


def own_marks(case, opmeter, folder):
    """What the program marks comes first, a call counts once, and measuring is not the program's."""
    path = folder / "trace.json"
    truth = planted_kineto.own_marks(path)

    def query(sql):
        return opmeter.query(path, sql)

    case.check("steps", lambda: query(
        "SELECT model, count(*) n, min(dur) shortest, max(dur) longest FROM step GROUP BY model"),
        [{"model": "step", "n": truth["steps"], "shortest": truth["step_ns"],
          "longest": truth["step_ns"]}], PLANTED)
    case.check("steps.left_out", lambda: query(
        "SELECT count FROM import_stat WHERE name = 'step_derived'"), [{"count": truth["derived"]}],
        PLANTED)
    case.check("steps.parts", lambda: query(
        "SELECT DISTINCT found_by, split_by, gap_ns, fp_bp_ns, tail_ns FROM step_trace"),
        [{"found_by": "marks", "split_by": "autograd", "gap_ns": 0, "fp_bp_ns": truth["fp_bp_ns"],
          "tail_ns": truth["step_ns"] - truth["fp_bp_ns"]}], PLANTED)
    case.check("calls", lambda: query(
        "SELECT count, total_ns FROM op_times WHERE name = 'aten::conv2d' AND section = 'host'"),
        [{"count": truth["calls"], "total_ns": truth["call_ns"]}], PLANTED)
    case.check("executions", lambda: query(
        "SELECT count, total_ns FROM op_stats WHERE name = 'aten::conv2d'"),
        [{"count": truth["calls"], "total_ns": 500_000 * truth["calls"]}], PLANTED)
    case.check("buckets", lambda: {r["bucket"]: r["ns"] for r in query(
        "SELECT bucket, sum(ns) ns FROM occupation WHERE bucket IN ('compute', 'measuring') "
        "GROUP BY bucket")},
        {"compute": truth["compute_ns"], "measuring": truth["measuring_ns"]}, PLANTED)
    case.check("measuring", lambda: query("SELECT what, count, total_ns FROM measuring"),
               [{"what": "CUPTI", "count": 25, "total_ns": 25 * 500_000}], PLANTED)


def interrupted(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.interrupted(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    whole = sum(t["typical_ns"] for t in truth.values())
    case.check("operators", lambda: {r["name"]: {k: r[k] for k in r if k != "name"} for r in query(
        "SELECT name, count, self_ns, typical_ns, interrupted FROM op_stats")}, truth, PLANTED)
    case.check("operators.exact", lambda: query(
        "SELECT sum(self_ns - typical_ns - interrupted_ns) off, sum(self_ns) self FROM op_stats"),
        [{"off": 0, "self": sum(t["self_ns"] for t in truth.values())}],
        "self time is what is typical and what interrupted it")
    shares = {name: t["typical_ns"] / whole for name, t in truth.items()}
    case.check("operators.shares", lambda: {r["name"]: r["share"] for r in query(
        "SELECT name, share FROM op_stats")}, shares, PLANTED, within=1e-9)
    case.check("types.shares", lambda: {r["type"]: r["share"] for r in query(
        "SELECT type, share FROM type_stats")}, shares, PLANTED, within=1e-9)
    case.check("iterations", lambda: {r["name"]: r["time_ns"] for r in query(
        "SELECT name, time_ns FROM op_times")},
        {name: t["typical_ns"] / 20 for name, t in truth.items()}, PLANTED, within=1e-9)
    case.check("iterations.exact", lambda: {r["name"]: r["ns"] for r in query(
        "SELECT name, time_ns + interrupted_ns AS ns FROM op_times")},
        {name: t["self_ns"] / 20 for name, t in truth.items()}, PLANTED, within=1e-9)
    order = sorted(truth, key=lambda name: -truth[name]["typical_ns"])
    case.check("types.order", lambda: [r["type"] for r in query("SELECT type FROM type_stats")],
               order, PLANTED)
    case.check("advice", lambda: [r["message"] for r in query(
        "SELECT message FROM advice WHERE message LIKE '%aten::small%'")], [],
        "one interruption is no advice")


def prompt(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_kineto.prompt(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    case.check("operators", lambda: {r["name"]: r["typical_ns"] for r in query(
        "SELECT name, typical_ns FROM op_stats")}, truth, "nothing was interrupted")
    case.check("interrupted", lambda: query(
        "SELECT sum(interrupted) n, sum(interrupted_ns) ns FROM op_stats"), [{"n": 0, "ns": 0}],
        "everything in the step is longer")
