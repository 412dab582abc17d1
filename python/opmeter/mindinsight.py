"""MindInsight's Profiler: an object made before training, and analyse() after it.

    profiler = Profiler(output_path="./data", is_detail=True, is_show_op_path=False, subgraph="all")
    ...
    profiler.analyse()
"""
import csv
import os

from ._recording import Recording
from .trace import open as open_trace

SUBGRAPHS = ("all", "Default", "Gradients")

# Facts about accelerators that MindSpore alone knows how to collect; accepted and without effect.
WITHOUT_EFFECT = {"job_id", "op_time", "profile_communication", "profile_memory",
                  "parallel_strategy", "aicore_metrics", "l2_cache", "sync_enable", "data_process",
                  "timeline_limit", "device_id", "device_target"}

OPERATORS = """
    SELECT name, type, count, mean_ns, self_ns FROM op_stats WHERE count > 0
    ORDER BY self_ns DESC, name"""


class Profiler:
    """Record from now on, into OUTPUT_PATH/profiler/trace.opm.

    subgraph: 'all', or the operators of one pass: 'Default' (forward), 'Gradients' (backward).
    is_detail: also a file with every operator; is_show_op_path: with the whole path of its name.
    optypes_to_deal, optypes_not_deal: operator types, with commas, that the files are about.
    start_profile: False waits for start(). The environment's FP_POINT and BP_POINT say where a
    step's forward pass begins and its backward pass ends.
    """

    def __init__(self, subgraph="all", is_detail=True, is_show_op_path=False,
                 output_path="./data", optypes_to_deal="", optypes_not_deal="Variable",
                 start_profile=True, **others):
        if subgraph not in SUBGRAPHS:
            raise ValueError(f"subgraph must be one of {', '.join(SUBGRAPHS)}, not {subgraph!r}")
        unknown = sorted(set(others) - WITHOUT_EFFECT)
        if unknown:
            raise TypeError(f"Profiler() has no argument {unknown[0]!r}")
        self.subgraph = subgraph
        self.is_detail = is_detail
        self.is_show_op_path = is_show_op_path
        self.output_path = os.path.join(os.path.abspath(os.fspath(output_path)), "profiler")
        self._wanted = _types(optypes_to_deal)
        self._unwanted = _types(optypes_not_deal)
        self._recording = None
        self._trace = None
        if start_profile:
            self.start()

    def start(self):
        if self._recording:
            raise ValueError("the profiler was started already")
        os.makedirs(self.output_path, exist_ok=True)
        self._recording = Recording(os.path.join(self.output_path, "trace.opm"))
        self._recording.start()

    def stop(self):
        """End the recording; analyse() does so, too."""
        if not self._recording:
            raise ValueError("the profiler was not started")
        self._recording.stop()

    def analyse(self):
        """End the recording, and write what can be said of it beside it: operators by type and in
        detail (times in ms), the step trace, the timeline, a summary. Returns the trace."""
        if self._trace is None:
            self.stop()
            self._trace = open_trace(*self._recording.parts())
            self._recording.unite(self._trace)
            self._write()
        return self._trace

    def _write(self):
        # None of MindSpore's own names: with those, the folder would be read as a profile of it.
        operators = [row for row in self._trace.rows(OPERATORS) if self._is_wanted(row)]
        self._write_types("operator_types.csv", operators)
        if self.is_detail:
            self._write_detail("operators.csv", operators)
        names, rows = self._trace._handle.query("SELECT * FROM step_trace")
        self._write_csv("step_trace.csv", names, rows)
        self._trace.export(self._file("timeline.json"), "chrome")
        self._trace.export(self._file("summary.md"), "summary")
        self._trace.export(self._file("summary.json"), "summary")

    def _write_types(self, name, operators):
        steps = self._trace.value("SELECT sum(warmup = 0) FROM step WHERE dur >= 0") or 1
        types = {}
        for row in operators:
            time_ns, count = types.get(row["type"], (0, 0))
            types[row["type"]] = time_ns + row["self_ns"], count + row["count"]
        total = sum(time_ns for time_ns, _ in types.values()) or 1
        rows = [[kind or "", f"{time_ns / steps / 1e6:.6f}", f"{count / steps:g}",
                 f"{100 * time_ns / total:.2f}"]
                for kind, (time_ns, count) in sorted(types.items(), key=lambda t: -t[1][0])]
        self._write_csv(name, ("op_type", "execution_time", "execution_frequency", "percent"), rows)

    def _write_detail(self, name, operators):
        rows = [[row["name"] if self.is_show_op_path else row["name"].rsplit("/", 1)[-1],
                 f"{row['mean_ns'] / 1e6:.6f}"] for row in operators]
        self._write_csv(name, ("full_op_name", "execution_time"), rows)

    def _write_csv(self, name, header, rows):
        with open(self._file(name), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)

    def _file(self, name):
        return os.path.join(self.output_path, name)

    def _is_wanted(self, row):
        if row["type"] in self._unwanted or (self._wanted and row["type"] not in self._wanted):
            return False
        backward = row["name"].startswith("Gradients/")
        return self.subgraph == "all" or backward == (self.subgraph == "Gradients")


def _types(text):
    return {word.strip() for word in text.split(",") if word.strip()}
