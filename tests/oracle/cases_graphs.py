"""cases_graphs.py -- operators of replayed graphs: planted, and of serving programs' traces."""
import csv
import re

import planted_graphs
from planted_graphs import Trace
from program import Unanswered

PLANTED = "planted"


def cases(opmeter, work):
    folder = work / "graphs"
    for name, function in (
            ("capture", capture), ("partial", partial), ("two_sizes", two_sizes),
            ("alike", alike), ("alike_numbered", alike_numbered), ("beside", beside), ("nodes", nodes), ("unnamed", unnamed), ("eager", eager),
            ("same_trace", same_trace), ("alone", alone), ("foreign", foreign),
            ("one_folder", one_folder), ("strangers", strangers), ("ranks", ranks)):
        yield f"graphs/{name}", lambda case, f=function, n=name: f(case, opmeter, folder / n)


def operators(opmeter, trace, *options):
    rows = opmeter.json("query", "--json", trace, *options,
                        "SELECT type, sum(total_ns) ns FROM op_times WHERE section = 'device' "
                        "AND op IS NOT NULL AND type != 'graph launch' GROUP BY type")
    return {row["type"]: row["ns"] for row in rows}


def modules(opmeter, trace, *options):
    rows = opmeter.json("query", "--json", trace, *options,
                        "SELECT attributes ->> 'module' module, sum(total_ns) ns FROM op_times "
                        "JOIN op ON op.id = op_times.op WHERE section = 'device' AND "
                        "attributes IS NOT NULL GROUP BY 1")
    return {row["module"]: row["ns"] for row in rows}


def facts(opmeter, trace, *options):
    rows = opmeter.json("query", "--json", trace, *options,
                        "SELECT key, value FROM meta WHERE key GLOB 'graph.*'")
    return {row["key"]: row["value"] for row in rows}


def check(case, opmeter, truth, trace, *options):
    case.check("operators", lambda: operators(opmeter, trace, *options), truth["operators"], PLANTED)
    case.check("modules", lambda: modules(opmeter, trace, *options), truth["modules"], PLANTED)
    case.check("aligned", lambda: int(facts(opmeter, trace, *options)["graph.kernels_by_capture"]),
               truth["kernels"], PLANTED)


def captured(folder, *sizes, named=True, call="hip", like=False, numbers=None):
    trace = Trace(call, like)
    for size in sizes:
        trace.capture(size, named, numbers and numbers[size])
    trace.write(folder / "captures" / "capture.json")
    return folder / "captures"


def replayed(folder, sizes, **how):
    call = how.pop("call", "hip")
    trace = Trace(call, how.pop("like", False))
    trace.at += 1e6
    truth = planted_graphs.replays(trace, sizes, **how)
    trace.write(folder / "execution.json")
    return folder / "execution.json", truth


def capture(case, opmeter, folder):
    path, truth = replayed(folder, [32] * 5)
    check(case, opmeter, truth, path, "--capture", captured(folder, 32))


def partial(case, opmeter, folder):
    """Some kernels were not recorded, some are not in the capture."""
    path, truth = replayed(folder, [32] * 4, skip={0, 7, 8, 22}, extra={3, 15})
    options = ("--capture", captured(folder, 32))
    check(case, opmeter, truth, path, *options)
    case.check("strange", lambda: opmeter.json(
        "query", "--json", path, *options, "SELECT sum(total_ns) ns FROM op_times WHERE "
        "type = 'graph launch' AND name GLOB 'hipGraphLaunch * stranger_kernel'"),
        [{"ns": truth["strange_ns"]}], PLANTED)


def two_sizes(case, opmeter, folder):
    """Graphs of several sizes, of which other ones are captured, too."""
    path, truth = replayed(folder, [32, 8, 32, 8, 8])
    options = ("--capture", captured(folder, 64, 32, 16, 8))
    check(case, opmeter, truth, path, *options)
    case.check("shapes", lambda: sorted(row["shape"] for row in opmeter.json(
        "query", "--json", path, *options, "SELECT DISTINCT shape FROM op_times t JOIN op_tensor o "
        "USING (op) WHERE t.section = 'device' AND slot = 0")), ["32x64", "8x64"], PLANTED)


def sizes_of(case, opmeter, truth, path, *options):
    check(case, opmeter, truth, path, *options)
    case.check("sizes", lambda: {row["shape"]: row["ns"] for row in opmeter.json(
        "query", "--json", path, *options, "SELECT shape, sum(total_ns) ns FROM op_times t JOIN op_tensor o "
        "USING (op) WHERE t.section = 'device' AND slot = 0 GROUP BY 1")}, truth["sizes"], PLANTED)


def alike(case, opmeter, folder):
    """Sizes with the same kernels, of which others were lost each time: what was replayed is said around it."""
    path, truth = replayed(folder, [32, 8, 1, 8, 32, 1, 1], like=True, lose=.1)
    sizes_of(case, opmeter, truth, path, "--capture", captured(folder, 32, 8, 1, like=True))


def alike_numbered(case, opmeter, folder):
    """The numbers of nodes say the size, even where the iteration's own would be another graph's."""
    numbers = {32: 100, 8: 300, 64: 500}
    for call in ("cuda", "hip"):
        path, truth = replayed(folder / call, [32, 64, 8, 64, 32], like=True, lose=.1, numbers=numbers, call=call)
        path.write_text(re.sub(r"step.DECODE bs=\d+.", "step[DECODE bs=7]", path.read_text()))
        sizes_of(case, opmeter, truth, path, "--capture",
                 captured(folder / call, 8, 32, 64, like=True, numbers=numbers, call=call))


def beside(case, opmeter, folder):
    """Kernels that run beside others begin out of turn."""
    path, truth = replayed(folder, [32] * 3, shuffle=True)
    check(case, opmeter, truth, path, "--capture", captured(folder, 32))


def nodes(case, opmeter, folder):
    """With numbers of nodes order is known, whenever kernels begin, also where launches have no
    names."""
    path, truth = replayed(folder, [32] * 3, shuffle=True, nodes=True)
    check(case, opmeter, truth, path, "--capture", captured(folder, 32, named=False))


def unnamed(case, opmeter, folder):
    """CUDA: launches do not say which kernel they launch; as many, in order."""
    path, truth = replayed(folder, [16] * 3, call="cuda")
    check(case, opmeter, truth, path, "--capture", captured(folder, 16, named=False, call="cuda"))


def eager(case, opmeter, folder):
    """No capture, but the first iteration was not replayed."""
    trace, first = Trace(), {}

    def run(kernel, operator, _, correlation, external):
        trace.device(kernel, trace.at + 1, 3, correlation, **{"External id": external})
        first[operator] = first.get(operator, 0) + 3000

    trace.operators(32, run=run)
    truth = planted_graphs.replays(trace, [32] * 3)
    path = folder / "execution.json"
    trace.write(path)
    case.check("operators", lambda: operators(opmeter, path),
               {k: v + first[k] for k, v in truth["operators"].items()}, PLANTED)
    case.check("aligned", lambda: int(facts(opmeter, path)["graph.kernels_by_launches"]),
               truth["kernels"], PLANTED)


def same_trace(case, opmeter, folder):
    """The capture is in the trace that replays it."""
    trace = Trace()
    trace.capture(32)
    truth = planted_graphs.replays(trace, [32] * 3)
    trace.write(folder / "execution.json")
    check(case, opmeter, truth, folder / "execution.json")


def alone(case, opmeter, folder):
    """No capture at all: a row for each graph and position."""
    path, truth = replayed(folder, [32, 8, 32])
    per_graph = sum(1 for _ in planted_graphs.launches(32))
    case.check("rows", lambda: opmeter.query(
        path, "SELECT substr(name, 1, instr(name, ' #') - 1) graph, count(*) n FROM op_times WHERE "
        "type = 'graph launch' AND section = 'device' GROUP BY 1 ORDER BY 1"),
        [{"graph": f"hipGraphLaunch {i}", "n": per_graph} for i in (1, 2)], PLANTED)
    case.check("time", lambda: opmeter.query(
        path, "SELECT sum(total_ns) ns FROM op_times WHERE section = 'device'"),
        [{"ns": truth["ns"]}], PLANTED)


def refusal(opmeter, *args):
    try:
        opmeter.text("top", *args)
    except Unanswered as error:
        return str(error)
    return "accepted"


def foreign(case, opmeter, folder):
    """A capture of another model, a trace that captures nothing, and one that replays nothing."""
    path, _ = replayed(folder, [32] * 3)
    other = Trace()
    other.runtime("StreamBeginCapture")
    for i in range(40):
        other.runtime("LaunchKernel", kernel="norm_kernel" if i % 4 == 0 else f"other_{i}")
    other.runtime("StreamEndCapture")
    other.write(folder / "other.json")
    plain = Trace()
    plain.runtime("LaunchKernel")
    plain.write(folder / "plain.json")
    case.check("other model", lambda: "does not belong to" in refusal(
        opmeter, path, "--capture", folder / "other.json"), True, PLANTED)
    case.check("no capture", lambda: "no graph is captured in it" in refusal(
        opmeter, path, "--capture", folder / "plain.json"), True, PLANTED)
    case.check("no replay", lambda: "launches no graph" in refusal(
        opmeter, folder / "plain.json", "--capture", captured(folder, 32)), True, PLANTED)


def one_folder(case, opmeter, folder):
    """Both in one folder; and what was linked is kept in a file of our own."""
    path, truth = replayed(folder / "both", [32] * 3)
    captured(folder / "both", 32, 8)
    check(case, opmeter, truth, path.parent)
    saved = folder / "saved.opm"

    def again():
        opmeter.text("import", path.parent, "-o", saved, "--force")
        return operators(opmeter, saved)

    case.check("saved", again, truth["operators"], PLANTED)


def stats(opmeter, trace):
    return {row["name"]: row["count"] for row in opmeter.json(
        "query", "--json", trace, "SELECT name, count FROM import_stat WHERE name GLOB 'graph_capture*'")}


def strangers(case, opmeter, folder):
    """Captures that lie beside a trace: of other graphs, and one of which only the beginning was written."""
    path, truth = replayed(folder / "other", [32] * 3)
    captured(folder / "other", 32)
    other = folder / "other/captures/capture.json"
    other.write_text(re.sub(r'"kernel": "(?!norm)', '"kernel": "of_another_model_', other.read_text()))
    case.check("none fits", lambda: operators(opmeter, path.parent), {}, PLANTED)
    case.check("counted", lambda: stats(opmeter, path.parent), {"graph_capture_strange": 1}, PLANTED)
    path, truth = replayed(folder / "both", [32] * 3)
    captured(folder / "both", 32, 8)
    text = other.read_text()
    (path.parent / "odd näme #1").write_text(text)
    begins = text.index("StreamBeginCapture")
    (path.parent / "cut.json").write_text(text[:text.index("}}", begins) + 2])
    check(case, opmeter, truth, path.parent)
    case.check("beside others", lambda: stats(opmeter, path.parent),
               {"graph_capture_strange": 1, "graph_capture_unread": 1}, PLANTED)


def ranks(case, opmeter, folder):
    """Two ranks with the same correlation numbers, each with a capture of its own, all in one folder."""
    want = {"operators": {}, "modules": {}, "kernels": 0}
    for rank, sizes in ((0, (32, 8)), (1, (64, 64, 16))):
        path, truth = replayed(folder / f"rank{rank}", sizes, seed=rank, call="cuda")
        for file in (path, captured(folder / f"rank{rank}", *sizes, call="cuda") / "capture.json"):
            file.write_text(file.read_text().replace(
                '"schemaVersion"', f'"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "schemaVersion"', 1))
        for key in ("operators", "modules"):
            for name, ns in truth[key].items():
                want[key][name] = want[key].get(name, 0) + ns
        want["kernels"] += truth["kernels"]
    check(case, opmeter, want, folder)


def serving_cases(opmeter, fixtures):
    base = fixtures / "peers/tracelens"
    for summary in sorted(base.glob("reference/inference/*/perf_csvs/ops_summary.csv")):
        name = summary.parent.parent.name
        yield f"serving/{name}", lambda case, n=name, s=summary: serving(
            case, opmeter, base / "traces/inference" / n, s)


def serving(case, opmeter, folder, summary):
    """Operators of replayed graphs, and what else ran, as another tool has them; it leaves out the
    numbers at the end of operators' names. Launches without an operator go by the call there, by the
    kernel here."""
    want, by_module = {}, {}
    for row in csv.DictReader(summary.open(newline="")):
        ns = float(row["total_direct_kernel_time_sum"]) * 1e3
        if row["name"].startswith("hip"):
            continue
        want[row["name"]] = want.get(row["name"], 0) + ns
        if row["parent_module"] != "NA":
            key = row["parent_module"].removeprefix("nn.Module: ")
            by_module[key] = by_module.get(key, 0) + ns

    def ours(*args):
        found = {}
        for name, ns in operators(opmeter, *args).items():
            key = name if name in want else re.sub(r"_\d+$", "", name)
            found[key] = found.get(key, 0) + ns
        return found

    execution = next(folder.glob("*.json.gz"))
    for how, args in (("capture", (execution, "--capture", folder / "capture_traces")),
                      ("folder", (folder,))):
        case.check(f"operators.{how}", lambda a=args: {
            k: v / want[k] if k in want else v for k, v in ours(*a).items()},
            {k: 1 for k in want}, "TraceLens, ops_summary.csv", within=0.01)
    case.check("share", lambda: float(facts(opmeter, folder)["graph.aligned_share"]), 1.0, "all")
    # Modules around what was launched one by one are not in op: of those it may be less.
    case.check("modules", lambda: sorted(
        k for k, v in modules(opmeter, folder).items() if v > 1.01 * by_module.get(k, 0)), [],
        "TraceLens, ops_summary.csv")
