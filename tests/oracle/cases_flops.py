"""cases_flops.py -- floating-point operations, worked out from shapes, and formulas of spreadsheets."""
import csv
import re
import shutil
import subprocess
from math import prod

import kineto
import planted_folders
from cases_kineto import traced
from cases_planted import run

CONVOLUTIONS = {"aten::conv2d", "aten::convolution", "aten::_convolution"}
PADDING_FIRST = {"aten::cudnn_convolution", "aten::miopen_convolution"}
PRODUCTS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2)}


def cases(opmeter, fixtures, work):
    folder = work / "flops"
    yield "flops/resnet18", lambda case: resnet18(case, opmeter, folder / "resnet18")
    yield "spreadsheet/neural_engine", lambda case: spreadsheet(case, opmeter, folder / "sheet")
    if not fixtures.is_dir():
        return
    for path in sorted((fixtures / "peers/tracelens/reference").rglob("GEMM.csv")):
        trace = traced(fixtures, path)
        # Of serving traces it takes operators from a second recording.
        if trace and "inference" not in trace.parts:
            yield (f"flops/{trace.relative_to(fixtures / 'peers/tracelens/traces')}",
                   lambda case, p=path, t=trace: reference(case, opmeter, t, p))
    for name in ("captured/kineto/kineto_bertmini_h200.json.gz",
                 "captured/kineto/kineto_bertmini_cpu.json.gz",
                 "peers/tracelens/traces/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
                 "peers/tracelens/traces/mi300/resnet_act_checkpoint.json.gz",
                 "peers/kineto_tb_plugin/samples/resnet50_num_workers_0/"
                 "worker0.1623143089861.pt.trace.json.gz"):
        if (fixtures / name).exists():
            yield f"flops/{name}", lambda case, p=fixtures / name: shapes(case, opmeter, p)


def resnet18(case, opmeter, folder):
    """The architecture of the paper, counted: batch normalisation is folded into the convolutions,
    which therefore have a bias; ReLU and addition behind them are theirs, one operation an element."""
    run(opmeter, folder, "zoo:resnet18", "-n", 1, "-w", 0, "-o", folder / "out")
    def conv(inputs, outputs, kernel, size, behind):
        elements = outputs * size * size
        return elements * (2 * inputs * kernel * kernel + 1 + behind)
    total, channels = conv(3, 64, 7, 112, 1), 64
    for outputs, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        for block in range(2):
            total += conv(channels, outputs, 3, size, 1) + conv(outputs, outputs, 3, size, 2)
            if channels != outputs:
                total += conv(channels, outputs, 1, size, 0)
            channels = outputs
    case.check("operations", lambda: {r["type"]: r["flops"] for r in opmeter.query(
        folder / "out/trace.opm", "SELECT type, sum(flops) flops FROM op WHERE flops > 0 "
        "GROUP BY type")},
        {"Conv": total, "Gemm": 2 * 512 * 1000 + 1000, "MaxPool": 64 * 56 * 56 * 9,
         "GlobalAveragePool": 512 * 7 * 7}, "the architecture of ResNet-18")
    rate = opmeter.query(folder / "out/trace.opm",
                         "SELECT flops, mean_ns, gflops_per_s FROM op_stats WHERE flops > 0")
    case.check("rate.op_stats", [r["gflops_per_s"] for r in rate],
               [r["flops"] / r["mean_ns"] for r in rate], "operations over time")
    rate = opmeter.query(folder / "out/trace.opm",
                         "SELECT computation, time_ns, flops_per_s FROM op_times "
                         "WHERE computation > 0")
    case.check("rate.op_times", [r["flops_per_s"] for r in rate],
               [r["computation"] / r["time_ns"] * 1e9 for r in rate], "operations over time")


def dims(text):
    """Shapes of `((8944, 1024), (1024, 2816), ())`, or the same with brackets."""
    return [tuple(int(n) for n in re.findall(r"\d+", shape))
            for shape in re.findall(r"[(\[]([\d, ]*)[)\]]", text)]


def reference(case, opmeter, trace, path):
    """TraceLens counts the addition of a bias; we do not, as PyTorch's own counter does not."""
    want = {}
    for row in csv.DictReader(path.open(newline="")):
        if row["name"] in PRODUCTS:
            b, m, n = (int(float(row[f"param: {k}"] or 1)) for k in "BMN")
            flops = float(row["GFLOPS_first"]) * 1e9
            inputs = ", ".join("x".join(map(str, d)) for d in dims(row["Input Dims_first"]) if d)
            want[f"{row['name']} [{inputs}]"] = round(
                flops - (b * m * n if row["param: bias"] == "True" else 0))
    case.check("products", lambda: {r["name"]: r["flops"] for r in opmeter.query(
        trace, "SELECT name, flops FROM op") if r["name"] in want}, want,
        "TraceLens, GEMM.csv, less the bias")


def convolution(data, weight, concrete, padding_first):
    """Two operations for each element of the result and each weight that it meets. None where the
    trace does not have stride, padding and dilation, the first three lists among the arguments."""
    lists = [[int(n) for n in re.findall(r"-?\d+", text)] for text in concrete
             if text.startswith("[")][:3]
    if len(lists) < 3:
        return None
    stride, padding, dilation = lists
    if padding_first:
        stride, padding = padding, stride
    out = [(size + 2 * pad - dil * (kernel - 1) - 1) // step + 1 for size, pad, dil, kernel, step
           in zip(data[2:], padding, dilation, weight[2:], stride)]
    return 2 * data[0] * weight[0] * prod(out) * prod(weight[1:])


def operations(event):
    arguments = [tuple(d) if isinstance(d, list) else () for d in event.args.get("Input Dims", [])]
    if event.name in PRODUCTS:
        a, b = (arguments[i] for i in PRODUCTS[event.name])
        return 2 * prod(a) * b[-1]
    return convolution(arguments[0], arguments[1], event.args.get("Concrete Inputs", []),
                       event.name in PADDING_FIRST)


def shapes(case, opmeter, path):
    """Products and convolutions of a PyTorch trace, from the shapes that it has of their inputs."""
    want, untold = {}, set()
    for e in kineto.Trace(path).operators():
        if e.name in CONVOLUTIONS | PADDING_FIRST | set(PRODUCTS):
            flops = operations(e) if e.args.get("Input Dims") else None
            if flops is None:
                untold.add(e.name)
            else:
                want[e.name] = want.get(e.name, 0) + flops
    silent = untold - set(want)
    want = {name: flops for name, flops in want.items() if name not in untold}
    if silent:
        case.check("untold", lambda: {r["type"]: r["n"] for r in opmeter.query(
            path, "SELECT type, count(flops) n FROM op GROUP BY type") if r["type"] in silent},
            dict.fromkeys(silent, 0), "no stride in the trace")
    if want:
        case.check("operations", lambda: {r["type"]: r["n"] for r in opmeter.query(
            path, "SELECT o.type, sum(o.flops * s.n) n FROM op o JOIN (SELECT op, count(*) n "
            "FROM span WHERE layer = 'framework' GROUP BY op) s ON s.op = o.id "
            "GROUP BY o.type") if r["type"] in want}, want, "shapes of the inputs")


def evaluated(path, folder):
    """Rows of the first sheet with its formulas worked out by LibreOffice."""
    subprocess.run(["soffice", "--headless", "-env:UserInstallation="
                    + (folder / "office").as_uri(), "--convert-to",
                    "csv:Text - txt - csv (StarCalc):44,34,76", "--outdir", folder / "out", path],
                   capture_output=True, timeout=300, check=True)
    with (folder / "out" / (path.stem + ".csv")).open(newline="") as file:
        return list(csv.reader(file))


def spreadsheet(case, opmeter, folder):
    """operators.xlsx of a Neural Engine profile: what LibreOffice makes of its formulas."""
    if not shutil.which("soffice"):
        return
    truth = planted_folders.neural_engine(folder / "engine_profiling")
    table = next((folder / "engine_profiling/profiling_csv").iterdir())
    book = folder / "operators.xlsx"
    opmeter.text("export", table, "-f", "xlsx", "-o", book)
    rows = evaluated(book, folder)
    cell = lambda label, column: next(  # noqa: E731
        float(r[column]) for r in rows if label in [c.strip() for c in r])
    case.check("totals", lambda: {
        "now": cell("total latency(ms)", 12), "then": cell("total aim to sparse latency(ms)", 15),
        "improve": cell("total latency(ms)", 17)},
        {"now": truth["total_ns"] / 1e6, "then": truth["projected_ns"] / 1e6,
         "improve": truth["total_ns"] / truth["projected_ns"]},
        "the three parts of the table, worked out", within=5e-3)
