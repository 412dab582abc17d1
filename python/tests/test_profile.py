"""profile(): files and formats, reports, schedules, decorators."""
import asyncio
import contextlib
import io
import json
import os
import unittest
import warnings

import opmeter
from opmeter.profiler import ProfilerAction, RecordFormat, Resource, profile, schedule
from support import Case, missing


def printed(call):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        call()
    return out.getvalue()


def events(text):
    return [event["name"] for event in json.loads(text)["traceEvents"] if event["ph"] in "XB"]


def infer(n, warm_up=False):
    conv = opmeter.op("conv1", type="Conv")
    for i in range(n):
        with opmeter.step(i, warm_up=warm_up):
            with conv:
                pass


class Files(Case):
    def test_chrome_into_an_open_file(self):
        with open(self.path("t.json"), "w") as file:
            with profile(file=file) as p:
                with p.record("trace"):
                    infer(2)
        with open(self.path("t.json")) as file:
            self.assertIn("conv1", events(file.read()))

    def test_chrome_into_a_binary_file_and_a_buffer(self):
        for file in (open(self.path("t.json"), "w+b"), io.BytesIO(), io.StringIO()):
            with file, self.subTest(type(file)):
                with profile(file=file):
                    with opmeter.span("x"):
                        pass
                file.seek(0)
                self.assertIn("x", events(file.read()))

    def test_path_extension_decides(self):
        with profile(file=self.path("t.opm")):
            with opmeter.span("x"):
                pass
        self.assertEqual(self.names(opmeter.open(self.path("t.opm"))), ["x"])
        with profile(file=self.path("t.json")):
            with opmeter.span("x"):
                pass
        with open(self.path("t.json")) as file:
            self.assertIn("x", events(file.read()))
        self.assertEqual(sorted(os.listdir(self.dir)), ["t.json", "t.opm"])

    def test_dataframe_format_writes_csv(self):
        with profile(file=self.path("t.csv"), format=RecordFormat.PandasDataFrame):
            with opmeter.span("x"):
                pass
        with open(self.path("t.csv")) as file:
            self.assertTrue(file.readline().startswith("trace_id,parent_span_id,span_id,start,end"))
            self.assertIn(",x,", file.readline())
        self.assertEqual(self.names(opmeter.open(self.path("t.csv"))), ["x"])

    def test_no_file(self):
        before = set(os.listdir(self.dir))
        with profile() as p:
            with opmeter.span("x"):
                pass
        self.assertEqual(self.names(p.trace), ["x"])
        folder = os.path.dirname(p.trace.paths[0])
        self.assertTrue(os.path.isdir(folder))
        p.export_chrome_trace(self.path("later.json"))
        del p
        self.assertFalse(os.path.exists(folder))
        self.assertEqual(set(os.listdir(self.dir)) - before, {"later.json"})

    def test_exception_inside(self):
        with self.assertRaisesRegex(KeyError, "mine"):
            with profile(file=self.path("t.opm")):
                with opmeter.span("x"):
                    raise KeyError("mine")
        self.assertEqual(self.names(opmeter.open(self.path("t.opm"))), ["x"])

    def test_exception_inside_wins_over_a_full_disk(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with self.assertRaisesRegex(KeyError, "mine"):
                with profile(file=self.path("no/such/t.json")):
                    raise KeyError("mine")
        self.assertRegex(str(told[0].message), "could not be kept.*no/such")

    def test_output_that_cannot_be_written(self):
        with self.assertRaisesRegex(opmeter.Error, "no/such"):
            with profile(file=self.path("no/such/t.json")):
                pass
        with self.assertRaisesRegex(opmeter.Error, "no/such"):
            with profile(file=self.path("no/such/t.opm")):
                self.fail("it cannot start")

    def test_wrong_arguments(self):
        for kind, text, call in [
                (TypeError, "path or an open file", lambda: profile(file=3)),
                (TypeError, "binary mode",
                 lambda: profile(file=io.StringIO(), format=RecordFormat.Opm)),
                (ValueError, "7", lambda: profile(format=7)),
                (TypeError, "colour", lambda: profile(colour="red")),
                (TypeError, "schedule must be a function", lambda: profile(schedule=3)),
                (ValueError, "does not run", lambda: profile().step()),
                (ValueError, "no trace before", lambda: profile().trace)]:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()


class Options(Case):
    def test_categories_and_resource(self):
        with profile(categories=["a"]) as p:
            with opmeter.span("in", "a"), opmeter.span("out", "b"):
                pass
        self.assertEqual(self.names(p.trace), ["in"])
        with profile(Resource.CPU) as p:
            with opmeter.span("host"), opmeter.span("dev", layer="hardware"):
                pass
        self.assertEqual(self.names(p.trace), ["host"])
        with profile(Resource.NPU) as p:
            with opmeter.span("host"), opmeter.span("dev", layer="hardware"):
                pass
        self.assertEqual(self.names(p.trace), ["dev"])

    def test_resource_in_files(self):
        for format, name in ((RecordFormat.ChromeTrace, "n.json"), (RecordFormat.Opm, "n.opm"),
                             (RecordFormat.PandasDataFrame, "n.csv")):
            with profile(Resource.NPU, format, self.path(name)):
                with opmeter.span("host"), opmeter.span("dev", layer="hardware"):
                    pass
            with opmeter.open(self.path(name)) as trace:
                self.assertEqual(self.names(trace), ["dev"], name)

    def test_category_that_is_not_there(self):
        with self.assertWarnsRegex(UserWarning, "nothing of 'nosuch' was recorded"):
            with profile(categories=["nosuch", "a"]):
                with opmeter.span("in", "a"):
                    pass
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with profile(categories="-nosuch"):
                with opmeter.span("in", "a"):
                    pass

    @unittest.skipIf(missing("pandas"), missing("pandas"))
    def test_operator_index_is_of_executions(self):
        # Prepared once in 363 us, executed twice in 17 us.
        def event(ts, dur, phase):
            return {"ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": dur, "name": "fc", "cat": "op",
                    "args": {"layer": "framework", "phase": phase,
                             "op": {"id": 0, "name": "fc", "type": "Gemm"}}}
        path = self.write("t.json", json.dumps({
            "otherData": {"opmeter.export": "0.1.0"},
            "traceEvents": [event(0, 363, "reshape"), event(400, 17, "forward"),
                            event(500, 17, "forward")]}, separators=(",", ":")))
        with opmeter.open(path) as trace:
            df = trace.get_pandas_dataframe()
            saved = self.path("t.csv")
            trace.export(saved, "furiosa-csv")
        self.assertEqual(list(df[df.operator_index.notna()]["dur"]), [17000, 17000])
        with opmeter.open(saved) as trace:
            df = trace.get_pandas_dataframe()
        self.assertEqual(list(df[df.operator_index.notna()]["dur"]), [17000, 17000])

    def test_reports_of_a_saved_file(self):
        with profile(file=self.path("t.csv"), format=RecordFormat.PandasDataFrame, model="m") as p:
            for _ in range(3):
                p.step()
        for name in ("print_summary", "print_inferences", "print_external_operators",
                     "print_npu_executions", "print_npu_operators"):
            with opmeter.open(self.path("t.csv")) as trace:
                again = printed(getattr(trace, name))
            if name == "print_summary":
                self.assertIn("Inference counts                : 2", again)
                self.assertIn("Inference counts                : 2", printed(p.print_summary))
            else:
                self.assertEqual(len(again.splitlines()), len(printed(getattr(p, name)).splitlines()))

    def test_pause_and_resume(self):
        with profile() as p:
            with opmeter.span("a"):
                pass
            p.pause()
            p.pause()
            with opmeter.span("b"):
                pass
            p.resume()
            with opmeter.span("c"):
                pass
        self.assertEqual(self.names(p.trace), ["a", "c"])

    def test_inside_another(self):
        with profile() as outer:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                with profile(file=self.path("inner.json")) as inner:
                    with opmeter.span("x"):
                        pass
            self.assertRegex(str(told[0].message), "takes part")
            with opmeter.span("y"):
                pass
        self.assertEqual(self.names(inner.trace), ["x"])
        self.assertEqual(self.names(outer.trace), ["x", "y"])
        self.assertTrue(os.path.exists(self.path("inner.json")))

    def test_decorator(self):
        path = self.path("t.opm")

        @profile(file=path)
        def work(n):
            with opmeter.span(f"call {n}"):
                return n

        @profile(file=path)
        async def later(n):
            with opmeter.span(f"call {n}"):
                return n
        self.assertEqual(work(1), 1)
        self.assertEqual(self.names(opmeter.open(path)), ["call 1"])
        self.assertEqual(work(2), 2)
        self.assertEqual(self.names(opmeter.open(path)), ["call 2"])
        self.assertEqual(asyncio.run(later(3)), 3)
        self.assertEqual(self.names(opmeter.open(path)), ["call 3"])

    def test_started_twice(self):
        p = profile()
        p.start()
        with self.assertRaisesRegex(ValueError, "runs already"):
            p.start()
        p.stop()
        p.stop()


class Schedules(Case):
    def test_actions(self):
        actions = [schedule(1, 1, 2, 2, skip_first=1)(i).name for i in range(11)]
        cycle = ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
        self.assertEqual(actions, ["NONE"] + cycle + cycle + ["NONE", "NONE"])
        self.assertEqual(schedule(active=1)(99), ProfilerAction.RECORD_AND_SAVE)

    def test_wrong_schedules(self):
        for kind, arguments in [(ValueError, {"active": 0}), (ValueError, {"wait": -1}),
                                (TypeError, {"warmup": 1.5}), (TypeError, {"repeat": True})]:
            with self.subTest(arguments), self.assertRaisesRegex(kind, next(iter(arguments))):
                schedule(**arguments)

    def test_one_recording(self):
        with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1), model="net") as p:
            for i in range(7):
                with opmeter.span(f"batch {i}"):
                    pass
                p.step()
        self.assertEqual(self.names(p.trace, "name LIKE 'batch%'"),
                         ["batch 1", "batch 2", "batch 3"])
        self.assertEqual(p.trace.rows("SELECT model, num, warmup, dur >= 0 AS ended FROM step"),
                         [{"model": "net", "num": n, "warmup": int(n == 1), "ended": 1}
                          for n in (1, 2, 3)])

    def test_the_step_that_never_came(self):
        """step() after the last batch begins one more; it does not count."""
        with profile(schedule=schedule(active=1)) as p:
            for _ in range(3):
                p.step()
        self.assertEqual(p.trace.value("SELECT count FROM latency WHERE scope = 'step'"), 3)

    def test_a_trace_for_each_cycle(self):
        seen = []

        def ready(p):
            seen.append(self.names(p.trace, "name LIKE 'batch%'"))
            p.export_chrome_trace(self.path(f"{p.step_num}.json"))
        with profile(file=self.path("all.opm"), schedule=schedule(1, 0, 2), on_trace_ready=ready) \
                as p:
            for i in range(6):
                with opmeter.span(f"batch {i}"):
                    pass
                p.step()
        self.assertEqual(seen, [["batch 1", "batch 2"], ["batch 4", "batch 5"]])
        self.assertEqual(sorted(os.listdir(self.dir)), ["3.json", "6.json", "all.opm"])
        self.assertEqual(self.names(opmeter.open(self.path("all.opm")), "name LIKE 'batch%'"),
                         ["batch 1", "batch 2", "batch 4", "batch 5"])


class Reports(Case):
    @classmethod
    def setUpClass(cls):
        with profile() as cls.p:
            with cls.p.record("warm up", warm_up=True):
                infer(2)
            with cls.p.record("trace"):
                infer(3)
        with profile() as cls.empty:
            pass

    def test_summary(self):
        lines = printed(self.p.print_summary).splitlines()
        self.assertEqual(lines[:4], ["=" * 48, "  Inference Results Summary", "=" * 48,
                                     "Inference counts                : 3"])
        self.assertEqual([line.partition(":")[0] for line in lines[4:]], [
            "Min latency (ns)                ", "Max latency (ns)                ",
            "Mean latency (ns)               ", "Median latency (ns)             ",
            "90.0 percentile latency (ns)    ", "95.0 percentile latency (ns)    ",
            "97.0 percentile latency (ns)    ", "99.0 percentile latency (ns)    ",
            "99.9 percentile latency (ns)    "])
        value = self.p.trace.value("SELECT max_ns FROM latency WHERE scope = 'step'")
        self.assertTrue(lines[5].endswith(f": {value}"))

    def test_tables(self):
        head = printed(self.p.print_inferences).splitlines()
        self.assertEqual(head[0].split(), ["trace_id", "span_id", "thread.id", "dur"])
        self.assertEqual(len(head), 4)
        lines = printed(self.p.print_npu_operators).splitlines()
        self.assertEqual(lines[0].split(), ["average", "elapsed(ns)", "count"])
        self.assertEqual(lines[1], "name")
        self.assertEqual((lines[2].split()[0], lines[2].split()[2]), ("Conv", "3"))
        lines = printed(self.p.print_external_operators).splitlines()
        self.assertEqual(lines[0].split(), ["trace_id", "span_id", "thread.id", "name",
                                            "operator_index", "dur"])
        self.assertEqual([line.split()[4] for line in lines[1:]], ["conv1"] * 3)

    def test_executions_of_a_device(self):
        with profile() as p:
            stream = opmeter.track("npu:0", device="npu")
            with opmeter.step(0):
                import time
                now = time.monotonic_ns()
                stream.span("LowLevelConv2d", now, now + 700)
                stream.span("LowLevelPad", now + 800, now + 1000)
        lines = printed(p.print_executions).splitlines()
        self.assertEqual(lines[0].split("  ")[-3:], ["NPU Total", "NPU Run", "NPU IoWait"])
        self.assertEqual(lines[1].split()[-3:], ["1000", "900", "100"])

    def test_nothing(self):
        for call in (self.empty.print_summary, self.empty.print_inferences,
                     self.empty.print_executions, self.empty.print_npu_executions,
                     self.empty.print_operators, self.empty.print_external_operators):
            self.assertEqual(printed(call), "DataFrame is empty.\n")

    @unittest.skipIf(missing("pandas"), missing("pandas"))
    def test_dataframe(self):
        df = self.p.get_pandas_dataframe()
        self.assertEqual(list(df.columns), [
            "trace_id", "parent_span_id", "span_id", "start", "end", "cat", "name", "thread.id",
            "dram_base", "pe_index", "execution_index", "instruction_index", "operator_index",
            "dur"])
        self.assertEqual(list(df["name"]), ["trace"] + ["Inference", "conv1"] * 3)
        self.assertTrue((df["dur"] == df["end"] - df["start"]).all())
        self.assertEqual([len(text) for text in df.iloc[0][:3]], [32, 16, 16])
        root = df[df["name"] == "trace"].iloc[0]
        self.assertTrue((df[df["name"] == "Inference"]["parent_span_id"] == root.span_id).all())
        ids = list(df["trace_id"])
        self.assertEqual(ids[0], root.trace_id)
        self.assertEqual(ids[1::2], ids[2::2])  # an inference and what is in it
        self.assertEqual(len(set(ids)), 4)
        self.assertEqual(str(df["operator_index"].dtype), "Int64")
        self.assertEqual(list(df["operator_index"].isna()), [True] + [True, False] * 3)

    @unittest.skipIf(missing("pandas"), missing("pandas"))
    def test_filters(self):
        self.assertEqual(len(self.p.get_pandas_dataframe_with_filter("name", "conv1")), 3)
        self.assertEqual(len(self.p.get_cpu_pandas_dataframe()), 7)
        self.assertEqual(len(self.p.get_npu_pandas_dataframe()), 0)
        with self.assertRaisesRegex(ValueError, "no column 'colour'; there are trace_id"):
            self.p.get_pandas_dataframe_with_filter("colour", "red")

    def test_without_pandas(self):
        done = self.python("""
            import sys
            sys.modules["pandas"] = None
            sys.modules["numpy"] = None
            import opmeter
            with opmeter.profile() as p:
                with opmeter.step(0):
                    pass
            p.print_summary()
            p.print_inferences()
            try:
                p.get_pandas_dataframe()
            except ImportError as error:
                print(error)
        """)
        self.assertIn("Inference counts                : 1", done.stdout)
        self.assertRegex(done.stdout, "needs (numpy|pandas), which is not installed here")
