"""cases_kineto.py -- every Kineto trace of the fixtures: devices, kernels, operators, steps."""
import csv

import numpy

import intervals
import kineto

FOLDERS = ("captured/kineto", "peers/hta", "peers/kineto_tb_plugin", "peers/tracelens/traces")
# Another tool's picture of a trace that is a fixture itself; a snapshot of something else.
NO_TRACES = ("overlaid_critical_path_trace.json.gz",)
INTERVALS = "interval arithmetic on the events of the file"


def traces(fixtures):
    for folder in FOLDERS:
        for path in sorted((fixtures / folder).rglob("*")):
            if path.name.endswith((".json", ".json.gz")) and not str(path).endswith(NO_TRACES):
                yield path


def cases(opmeter, fixtures):
    for path in traces(fixtures):
        name = str(path.relative_to(fixtures)).removeprefix("peers/").removeprefix("captured/")
        yield f"kineto/{name}", lambda case, path=path: check(case, opmeter, path)
    path = fixtures / "peers/hta/critical_path/end_to_end/simple_add"
    if path.is_dir():
        yield "hta/critical_path", lambda case, path=path: check_path(
            case, opmeter, path / "input/trace.json.gz", path / "output" / NO_TRACES[0])
    for path in sorted((fixtures / "peers/tracelens/reference").rglob("gpu_timeline.csv")):
        trace = traced(fixtures, path)
        if trace:
            name = str(trace.relative_to(fixtures / "peers/tracelens/traces"))
            yield (f"tracelens/{name}",
                   lambda case, path=path, trace=trace: check_reference(case, opmeter, trace, path))


def check_path(case, opmeter, given, theirs):
    """HTA's critical path. It takes the kernels before the last cudaDeviceSynchronize for critical
    although they had ended 235 us before that call began: nobody waited for them, and ours leaves
    them out. The copies, which the host did wait for, must be the same."""
    critical = [e for e in kineto.Trace(theirs).of(kineto.COPY) if e.args.get("critical")]
    case.check("copies", lambda: opmeter.query(
        given, "SELECT count(*) n, sum(dur) ns FROM critical_path WHERE kind = 'copy'"),
        [{"n": len(critical), "ns": sum(e.end - e.start for e in critical)}],
        "HTA's overlaid_critical_path_trace.json.gz")


def number_of(device):
    """The number at the end of `GPU 0`."""
    return int(device.split()[-1])


def rows_by(rows, key, *columns):
    return {row[key]: tuple(row[c] for c in columns) for row in rows}


def check(case, opmeter, path):
    trace = kineto.Trace(path)
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    if trace.device_events():
        check_devices(case, query, trace)
        check_attribution(case, query, trace)
        check_buckets(case, query, trace)
        check_reconciliation(case, query, trace)
    if trace.operators():
        check_host(case, query, trace)
    check_steps(case, query, trace)
    # The last step's path goes on to the end of what was launched in it.
    case.check("critical_path.adds_up", lambda: query(
        "SELECT count(*) n FROM (SELECT p.ts, p.dur, min(c.ts) first, max(c.ts + c.dur) last, "
        "sum(c.dur) sum FROM critical_path c JOIN step p ON p.id = c.step GROUP BY c.step) "
        "WHERE first <> ts OR last < ts + dur OR sum <> last - first")[0]["n"], 0,
        "the path of a step has no gaps, begins with it and ends with it or its work")


def check_host(case, query, trace):
    sums, self_ns = kineto.self_times(trace)
    source = "sum over cpu_op events of one name"
    # Where no operator ran on a device, the host is the device.
    case.check("host.operators", lambda: rows_by(query(
        "SELECT type, sum(count) n, sum(total_ns) ns FROM op_times WHERE op IS NOT NULL "
        "AND section = (SELECT max(section) FROM op_times WHERE op IS NOT NULL) GROUP BY type"),
        "type", "n", "ns"), sums, source)
    if self_ns is not None:
        case.check("host.self", lambda: {r["name"]: r["ns"] for r in query(
            "SELECT name, sum(self_ns) ns FROM span_stats WHERE layer = 'framework' "
            "GROUP BY name") if r["name"] in self_ns}, self_ns,
            source + ", less what lies inside on its thread")


def check_devices(case, query, trace):
    devices = {number: kineto.device_figures(events)
               for number, events in trace.devices().items()}
    columns = list(next(iter(devices.values()))[0])
    case.check("device.totals", lambda: {
        number_of(r["device"]): {c: r[c] for c in columns}
        for r in query("SELECT * FROM stream_stats WHERE scope = 'device'")
    }, {n: figures[0] for n, figures in devices.items()}, INTERVALS)
    streams = {}
    for number, events in trace.devices().items():
        for e in events:
            streams.setdefault((number, int(str(e.tid).split()[-1])), []).append(e)
    case.check("device.streams", lambda: {
        (number_of(r["device"]), r["tid"]): tuple(r[c] for c in columns)
        for r in query("SELECT s.*, t.tid FROM stream_stats s JOIN track t ON t.id = s.track "
                       "WHERE scope = 'stream' AND kernels + copies > 0")
    }, {key: tuple(kineto.device_figures(events)[0].values())
        for key, events in streams.items()}, INTERVALS)
    case.check("kernels.by_name", lambda: rows_by(query(
        "SELECT name, sum(count) n, sum(total_ns) ns FROM span_stats "
        "WHERE layer = 'hardware' GROUP BY name"), "name", "n", "ns"),
        kineto.sums_by_name(trace.device_events()), "sum over device events of one name")
    durations = {}
    for e in trace.of(kineto.KERNEL):
        durations.setdefault(e.name, []).append(e.end - e.start)
    case.check("kernels.statistics", lambda: {
        r["name"]: tuple(r.values())[1:] for r in query(
            "SELECT name, mean_ns, median_ns, min_ns, max_ns, p99_ns FROM device_ops")
        if r["name"] in durations
    }, {name: (float(numpy.mean(d)), float(numpy.median(d)), min(d), max(d),
               float(numpy.percentile(d, 99))) for name, d in durations.items()}, "numpy")


def check_attribution(case, query, trace):
    rows = kineto.attribution(trace)
    source = "correlation to the launching call, innermost cpu_op around it"
    if trace.operators():
        case.check("device.operators", lambda: rows_by(query(
            "SELECT type, sum(count) n, sum(total_ns) ns FROM op_times "
            "WHERE section = 'device' AND op IS NOT NULL GROUP BY type"), "type", "n", "ns"),
            kineto.operator_device_sums(rows), f"{source}; else the call that launched the graph")
    case.check("device.explained", lambda: query(
        "SELECT sum(total_ns) ns FROM op_times WHERE section = 'device'")[0]["ns"],
        sum(e.end - e.start for e in trace.device_events()),
        "every device nanosecond is in the operator table")


def check_buckets(case, query, trace):
    """What the device did in steps: of the work that was launched in them, whenever it ran. What
    was launched in none (the recording began later) counts while it runs from the first step to the
    end of the last, or of the work that was launched in it."""
    steps = kineto.spans(kineto.steps(trace))
    if not steps:
        return
    work, others = [], []
    for e, _, launch in kineto.attribution(trace):
        launched = launch and any(start <= launch.start < end for start, end in steps)
        (work if launched else others).append(e)
    until = max([steps[-1][1], *(e.end for e in work)])
    for e in others:
        work += [e._replace(start=start, end=end)
                 for start, end in intervals.clip([(e.start, e.end)], steps[0][0], until)]
    case.check("steps.buckets", lambda: {r["bucket"]: r["ns"] for r in query(
        "SELECT bucket, sum(ns) ns FROM occupation WHERE bucket IN "
        "('overlap', 'compute', 'communication', 'copy') GROUP BY bucket")},
        kineto.device_figures(work)[1], INTERVALS + " that were launched in steps")


def check_reconciliation(case, query, trace):
    """Without marked steps, the whole window of every device."""
    if kineto.steps(trace):
        return
    truth = {}
    for number, events in trace.devices().items():
        total, parts = kineto.device_figures(events)
        truth[number] = {"wall_ns": total["total_ns"],
                         "compute_ns": parts["compute"] + parts["overlap"],
                         "exposed_ns": parts["communication"], "copy_ns": parts["copy"],
                         "idle_ns": total["wait_ns"], "not_recorded_ns": 0}
    case.check("reconciliation", lambda: {
        number_of(r["device"]): {c: r[c] for c in next(iter(truth.values()))} for r in query(
            "SELECT * FROM reconciliation WHERE device IS NOT NULL")}, truth, INTERVALS)


def check_steps(case, query, trace):
    steps = kineto.steps(trace)
    durations = [e.end - e.start for e in steps]
    rows = lambda: [tuple(r.values()) for r in query(  # noqa: E731
        "SELECT count, min_ns, max_ns, mean_ns, median_ns, p90_ns, p99_ns FROM latency "
        "WHERE scope = 'step'")]
    case.check("steps.latency", rows, [(
        len(durations), min(durations), max(durations), float(numpy.mean(durations)),
        float(numpy.median(durations)), float(numpy.percentile(durations, 90)),
        float(numpy.percentile(durations, 99)))] if steps else [],
        "ProfilerStep annotations; without them no latency of steps")


def traced(fixtures, reference):
    """The trace that a report of TraceLens is about."""
    base = fixtures / "peers/tracelens"
    folder = reference.parent.relative_to(base / "reference")
    stem = folder.name.removesuffix("_perf_report_csvs")
    for path in sorted((base / "traces" / folder.parent).glob("*.json.gz")):
        if folder.name == "perf_csvs" or path.name == stem + ".json.gz":
            return path
    return None


def check_reference(case, opmeter, path, timeline):
    """TraceLens' figures. It counts fills of memory as computing, and its timeline leaves out what
    it could not link to the host, so that work of graphs launched before the recording is missing
    there: from the raw file, ours is right for the device, and theirs for the linked part."""
    trace = kineto.Trace(path)
    theirs = {row["type"]: float(row["time ms"]) * 1e6
              for row in csv.DictReader(timeline.open(newline=""))}
    linked = [e for e, _, launch in kineto.attribution(trace) if launch is not None]
    compute = [e for e in linked if e.cat not in kineto.COPY and not kineto.communicates(e)]
    copies = [e for e in linked if e.cat in kineto.COPY]
    busy = kineto.spans(linked)
    # Their times are doubles of absolute microseconds: a quarter of a microsecond each.
    grain = 250 * 4
    case.check("timeline.oracle", {
        "computation_time": intervals.length(kineto.spans(compute)),
        "busy_time": intervals.length(busy),
        "idle_time": sum(b - a for a, b in intervals.gaps(busy)),
        "total_memcpy_time": intervals.length(kineto.spans(copies)),
    }, {key: theirs[key] for key in (
        "computation_time", "busy_time", "idle_time", "total_memcpy_time")},
        "TraceLens, gpu_timeline.csv", within=grain)
    summary = timeline.with_name("ops_summary.csv")
    # Of serving traces it takes the operators of graphs from a second recording, of their capture:
    # the trace alone does not have them.
    if summary.exists() and "capture_traces" not in {p.name for p in path.parent.iterdir()}:
        want = {row["name"]: float(row["total_direct_kernel_time_sum"]) * 1e3
                for row in csv.DictReader(summary.open(newline=""))
                if float(row["total_direct_kernel_time_sum"]) > 0}
        case.check("operators", lambda: {r["type"]: r["ns"] for r in opmeter.query(
            path, "SELECT type, sum(total_ns) ns FROM op_times WHERE section = 'device' "
            "AND op IS NOT NULL GROUP BY type")}, want, "TraceLens, ops_summary.csv", within=grain)
    kernels = timeline.with_name("kernel_summary.csv")
    if kernels.exists():
        want = {}
        for row in csv.DictReader(kernels.open(newline="")):
            pair = want.setdefault(row["Kernel name"], [0, 0.0])
            pair[0] += int(row["Kernel duration (µs)_count"])
            pair[1] += float(row["Kernel duration (µs)_sum"]) * 1e3
        case.check("kernels", lambda: rows_by(opmeter.query(
            path, "SELECT name, sum(count) n, sum(total_ns) ns FROM span_stats "
            "WHERE layer = 'hardware' AND cat = 'kernel' GROUP BY name"), "name", "n", "ns"),
            {name: tuple(pair) for name, pair in want.items()},
            "TraceLens, kernel_summary.csv", within=2)
