"""The reports of the Furiosa SDK's profiler, from any trace.

Its DataFrame has a row per span; opmeter's exporter writes it as CSV. Summary, executions and
device operators are opmeter's own analyses, so that the figures are those of `opmeter summary`.
What belongs to a warm-up is left out everywhere.
"""
import csv
import os
import tempfile

from . import _furiosa
from ._need import need

EMPTY = "DataFrame is empty."
INDEXES = ("dram_base", "pe_index", "execution_index", "instruction_index", "operator_index")
RULE = "=" * 48

# Spans inside a step or region that is a warm-up, and those regions themselves.
WARM_UP = """
    SELECT s.id FROM span AS s
    LEFT JOIN step AS p ON p.id = s.step LEFT JOIN record AS r ON r.id = s.record
    WHERE p.warmup = 1 OR r.warmup = 1"""

LATENCY = """
    SELECT scope, name, count, min_ns, max_ns, mean_ns, median_ns, p90_ns, p95_ns, p97_ns, p99_ns,
           p999_ns FROM latency WHERE count > 0"""
LATENCY_LINES = ("Min latency (ns)", "Max latency (ns)", "Mean latency (ns)",
                 "Median latency (ns)", "90.0 percentile latency (ns)",
                 "95.0 percentile latency (ns)", "97.0 percentile latency (ns)",
                 "99.0 percentile latency (ns)", "99.9 percentile latency (ns)")


class Reports:
    """DataFrame and reports of self.trace, under the names of the SDK."""

    def get_pandas_dataframe(self):
        """A DataFrame with a row per span; columns as the Furiosa SDK has them, times in ns."""
        return dataframe(self.trace)

    def get_pandas_dataframe_with_filter(self, column, value):
        """Rows of get_pandas_dataframe() that have this value in the column."""
        df = self.get_pandas_dataframe()
        if column not in df.columns:
            raise ValueError(f"no column {column!r}; there are {', '.join(df.columns)}")
        return df[df[column] == value]

    def get_cpu_pandas_dataframe(self):
        """Rows of what the host did."""
        df = self.get_pandas_dataframe()
        return df[df["cat"] != "NPU"]

    def get_npu_pandas_dataframe(self):
        """Rows of what accelerators did."""
        return self.get_pandas_dataframe_with_filter("cat", "NPU")

    def export_chrome_trace(self, filename):
        """Write the trace for chrome://tracing and Perfetto."""
        self.trace.export(filename, "chrome")

    def print_summary(self):
        """Latency of the inferences (steps), with percentiles."""
        print(summary(self.trace))

    def print_inferences(self):
        """Every inference."""
        print(inferences(self.trace))

    def print_executions(self):
        """Every run of a device: its time, computing and waiting."""
        print(executions(self.trace))

    def print_operators(self):
        """What the devices computed: mean time and count."""
        print(operators(self.trace))

    def print_external_operators(self):
        """Every operator on the host."""
        print(external_operators(self.trace))

    print_npu_executions = print_executions
    print_npu_operators = print_operators


def devices_only(trace, open_trace):
    """The same trace with nothing but what accelerators did."""
    with _csv(trace) as path:
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            rows = list(csv.reader(file))
        cat = rows[0].index("cat")
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([rows[0]] + [row for row in rows[1:] if row[cat] == "NPU"])
        return open_trace(path, format="furiosa-csv")


def warm_up_spans(trace):
    return {row[0] for row in trace._handle.query(WARM_UP)[1]}


def exported(trace):
    """The rows of the CSV by span id, as dicts, without warm-up."""
    left_out = warm_up_spans(trace)
    with _csv(trace) as path, open(path, newline="", encoding="utf-8", errors="replace") as file:
        return {i: row for i, row in enumerate(csv.DictReader(file)) if i not in left_out}


def dataframe(trace):
    """The DataFrame, with the SDK's columns and types."""
    df = _furiosa.frame(trace)
    return _csv_frame(trace) if df is None else df


def _csv_frame(trace):
    pandas = need("pandas", "a DataFrame")
    with _csv(trace) as path:
        df = pandas.read_csv(path, dtype={
            "trace_id": str, "parent_span_id": str, "span_id": str, "cat": str, "name": str,
            "thread.id": "Int64", **{name: "Int64" for name in INDEXES},
        }, keep_default_na=False, na_values={name: [""] for name in ("thread.id", *INDEXES)},
            encoding_errors="replace")
    df["dur"] = df["end"] - df["start"]
    if not df["thread.id"].isna().any():
        df["thread.id"] = df["thread.id"].astype("int64")
    return df.drop(index=list(warm_up_spans(trace)))


class _csv:
    """The trace as the SDK's CSV, in a file that goes with the block."""

    def __init__(self, trace):
        self.trace = trace

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="opmeter-")
        path = os.path.join(self.folder.name, "frame.csv")
        self.trace.export(path, "furiosa-csv")
        return path

    def __exit__(self, *exc):
        self.folder.cleanup()


def summary(trace):
    """A block of lines per model; per labelled region where there are no steps."""
    rows = trace._handle.query(LATENCY)[1]
    rows = [row for row in rows if row[0] == "step"] or rows
    if not rows:
        return EMPTY
    lines = []
    for scope, name, count, *values in rows:
        what = "Inference" if scope == "step" else "Region"
        of = f" of {name}" if name and name != what else ""
        lines += [RULE, f"  {what} Results Summary{of}", RULE,
                  f"{what + ' counts':<30}  : {count}"]
        lines += [f"{label:<30}  : {int(value)}" for label, value in zip(LATENCY_LINES, values)]
    return "\n".join(lines)


def inferences(trace):
    columns = ("trace_id", "span_id", "thread.id", "dur")
    rows = {i: [row["trace_id"], row["span_id"], row["thread.id"],
                int(row["end"]) - int(row["start"])]
            for i, row in exported(trace).items()
            if row["name"] == "Inference" and row["cat"] != "NPU"}
    return table(columns, rows)


def executions(trace):
    spans = exported(trace)
    rows = {}
    for i, (span, total, run, wait) in enumerate(trace._handle.query(
            "SELECT span, total_ns, run_ns, io_wait_ns FROM executions WHERE warmup = 0"
            " ORDER BY rowid")[1]):
        row = spans.get(span, {})
        rows[i] = [row.get("trace_id"), row.get("span_id"), row.get("pe_index"),
                   row.get("execution_index"), total, run, wait]
    return table(("trace_id", "span_id", "pe_index", "execution_index", "NPU Total", "NPU Run",
                  "NPU IoWait"), rows)


def operators(trace):
    rows = trace._handle.query("SELECT name, mean_ns, count FROM device_ops")[1]
    return table(("average elapsed(ns)", "count"),
                 {name: [f"{mean:.6f}", count] for name, mean, count in rows}, index="name")


def external_operators(trace):
    spans = exported(trace)
    rows = {}
    for span, name, dur in trace._handle.query(
            "SELECT span, name, dur FROM host_ops WHERE dur >= 0 AND warmup = 0"
            " AND coalesce(phase, 'forward') = 'forward' ORDER BY span")[1]:
        if span in spans:
            row = spans[span]
            rows[span] = [row["trace_id"], row["span_id"], row["thread.id"], name,
                          row["operator_index"], dur]
    return table(("trace_id", "span_id", "thread.id", "name", "operator_index", "dur"), rows)


def table(columns, rows, index=""):
    """Rows by their label, printed as pandas does: labels to the left, values to the right."""
    if not rows:
        return EMPTY
    lines = [["", *columns]] + ([[index] + [""] * len(columns)] if index else [])
    for label, cells in rows.items():
        lines.append([str(label), *("N/A" if cell in (None, "") else str(cell) for cell in cells)])
    widths = [max(len(line[c]) for line in lines) for c in range(len(columns) + 1)]
    return "\n".join("  ".join(cell.ljust(width) if c == 0 else cell.rjust(width)
                               for c, (cell, width) in enumerate(zip(line, widths))).rstrip()
                     for line in lines)
