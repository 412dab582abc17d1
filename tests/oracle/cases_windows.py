"""cases_windows.py -- every device nanosecond once, and means over the steps that were recorded,
where steps overlap, nest, lie in several files or have nothing in them."""
import json

import planted_folders
import planted_windows

PLANTED = "planted"


def cases(opmeter, work):
    folder = work / "windows"
    for name, function in (
            ("at_once", at_once), ("pauses", pauses), ("cycles", cycles),
            ("late_exchange", late_exchange), ("two_sessions", two_sessions),
            ("instances", instances), ("furiosa_threads", furiosa_threads),
            ("cambricon_partial", cambricon_partial), ("onednn", onednn), ("nested", nested)):
        yield f"windows/{name}", lambda case, f=function, n=name: f(case, opmeter, folder / n)


def reconciles(case, opmeter, traces, truth, source=PLANTED, within=0):
    case.check("reconciliation", lambda: [{c: r[c] for c in truth} for r in opmeter.query(
        traces, "SELECT * FROM reconciliation")], [truth], source, within)


def at_once(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_windows.at_once(path)
    reconciles(case, opmeter, path, {
        "steps": truth["steps"], "wall_ns": truth["wall_ns"], "compute_ns": truth["compute_ns"],
        "idle_ns": truth["idle_ns"]}, "the device worked once for two steps that went on at once")
    case.check("operator", lambda: opmeter.query(
        path, "SELECT iterations, time_ns FROM op_times WHERE section = 'device'"),
        [{"iterations": truth["steps"], "time_ns": truth["kernel_ns"]}], PLANTED)


def pauses(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_windows.pauses(path)
    reconciles(case, opmeter, path, {
        "steps": truth["steps"], "steps_not_recorded": 0, "wall_ns": truth["wall_ns"],
        "compute_ns": truth["compute_ns"], "idle_ns": truth["wall_ns"] - truth["compute_ns"]},
        "a device without work is idle")
    case.check("operator", lambda: {r["section"]: (r["iterations"], r["time_ns"])
               for r in opmeter.query(path, "SELECT section, iterations, time_ns FROM op_times")},
               {"device": (truth["steps"], truth["device_ns"]),
                "host": (truth["steps"], truth["host_ns"])},
               "means of an iteration are over all that were recorded")


def cycles(case, opmeter, folder):
    truth = planted_windows.cycles(folder)
    reconciles(case, opmeter, truth["files"], {
        "rank": 0, "steps": truth["steps"], "steps_not_recorded": 0,
        "compute_ns": truth["compute_ns"], "not_recorded_ns": 0}, "each file tells of its own steps")


def late_exchange(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_windows.late_exchange(path)
    parts = ("collective_ns", "exposed_ns")
    case.check("steps", lambda: opmeter.query(path, "SELECT collective_ns, exposed_ns FROM step_trace"),
               [{c: truth[c] for c in parts}] * truth["steps"],
               "what a step launched belongs to it, whenever it ran")
    reconciles(case, opmeter, path, {"exposed_ns": truth["steps"] * truth["exposed_ns"]})
    case.check("collectives", lambda: opmeter.query(
        path, "SELECT num, nth, start_ns, dur_ns FROM collectives JOIN track AS t ON t.id = track"
        " WHERE t.device IS NOT NULL ORDER BY num"),
        [{"num": n + 1, "nth": 1, "start_ns": 1_500_000, "dur_ns": truth["collective_ns"]}
         for n in range(truth["steps"])], "each where it starts in its step on the device")


def two_sessions(case, opmeter, folder):
    truth = planted_windows.two_sessions(folder)
    reconciles(case, opmeter, truth["files"], {
        "steps": truth["steps"], "steps_not_recorded": 0, "wall_ns": truth["wall_ns"],
        "compute_ns": truth["compute_ns"]}, "the runs of both, neither at work for the other")
    case.check("latency", lambda: sorted((r["count"], r["mean_ns"]) for r in opmeter.query(
        truth["files"], "SELECT count, mean_ns FROM latency")), truth["latency"],
        "two sessions are two models, though both are model_run")


def instances(case, opmeter, folder):
    """Two instances of a model in a folder of Neural Engine; the second one's operators take half
    as long, and its iterations as long as the first one's."""
    truth = planted_folders.neural_engine(folder)
    trace = next((folder / "profiling_trace").iterdir())
    document = json.loads(trace.read_text())
    for event in document["traceEvents"]:
        if event["tid"] == "Operator":
            event["dur"] /= 2
            ms = float(event["args"]["forward_time"][:-2])
            event["args"]["forward_time"] = f"{ms / 2:g}ms"
    trace.with_name(trace.name.replace("_0.json", "_1.json")).write_text(json.dumps(document))
    reconciles(case, opmeter, folder, {
        "steps": 2 * truth["iterations"], "steps_not_recorded": 0,
        "wall_ns": 2 * truth["iterations"] * truth["total_ns"],
        "compute_ns": truth["iterations"] * truth["total_ns"] * 3 // 2},
        "an instance does not compute while only the other one does")


def furiosa_threads(case, opmeter, folder):
    path = folder / "profile.csv"
    truth = planted_windows.furiosa_threads(path)
    case.check("operators", lambda: {r["type"]: (r["iterations"], r["time_ns"])
               for r in opmeter.query(path, "SELECT type, iterations, time_ns FROM op_times "
                                      "WHERE section = 'device'")},
               {name: (truth["inferences"], dur) for name, dur in truth["instructions"].items()},
               "every inference has them once")
    case.check("steps", lambda: opmeter.query(
        path, "SELECT count(*) n, count(DISTINCT step) steps FROM executions"),
        [{"n": truth["inferences"], "steps": truth["inferences"]}],
        "an execution is its inference's, by the id of its parent")


def cambricon_partial(case, opmeter, folder):
    """Activities of six steps, operators of two of them."""
    folder = folder / "profile"
    truth = planted_folders.cambricon(folder, steps=6)
    summary = json.loads((folder / "summary.json").read_text())
    for step in (0, 1, 4, 5):
        (folder / f"step_stats/stats_{step}").unlink()
        (folder / f"timeline/timeline_{step}").unlink()
        del summary["op_stats"]["vgg16"][str(step)]
    (folder / "summary.json").write_text(json.dumps(summary))
    case.check("latency", lambda: opmeter.query(
        folder, "SELECT name, count FROM latency WHERE scope = 'step'"),
        [{"name": "vgg16", "count": truth["steps"]}], "the folder tells of one model")
    reconciles(case, opmeter, folder, {
        "steps": 2, "steps_not_recorded": 4, "compute_ns": 2 * sum(truth["operators"].values()),
        "not_recorded_ns": 4 * truth["step_ns"]}, "operators of two steps were recorded", within=1000)
    case.check("operators", lambda: {r["name"]: (r["iterations"], r["time_ns"]) for r in opmeter.query(
        folder, "SELECT name, iterations, time_ns FROM op_times")},
        {name: (2, ns) for name, ns in truth["operators"].items()}, PLANTED)


def onednn(case, opmeter, folder):
    path = folder / "verbose.log"
    truth = planted_windows.onednn(path)
    reconciles(case, opmeter, path, {"wall_ns": truth["wall_ns"], "compute_ns": truth["compute_ns"],
                                     "idle_ns": truth["wall_ns"] - truth["compute_ns"]},
               "primitives are the operators of this log", within=10)


def nested(case, opmeter, folder):
    path = folder / "trace.json"
    truth = planted_windows.nested(path)
    reconciles(case, opmeter, path, {
        "steps": truth["steps"], "wall_ns": truth["wall_ns"], "compute_ns": truth["compute_ns"]},
        "the time of a step inside another is part of that one's")
    case.check("models", lambda: {r["name"]: r["count"] for r in opmeter.query(
        path, "SELECT name, count FROM latency")},
        {name: n for name, (n, _) in truth["models"].items()}, PLANTED)
    case.check("operators", lambda: sorted((r["iterations"], r["time_ns"]) for r in opmeter.query(
        path, "SELECT iterations, time_ns FROM op_times")), sorted(truth["models"].values()), PLANTED)
