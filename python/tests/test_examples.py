"""The examples run, and leave what they say."""
import json
import os
import subprocess
import sys
import unittest

import opmeter
from opmeter import _tool
from support import PACKAGE, ROOT, STARTERS, Case, missing

STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")
EXAMPLES = os.path.join(ROOT, "examples", "python")


class Examples(Case):
    def example(self, name, *args, env=None):
        clean = {key: value for key, value in os.environ.items() if key not in STARTERS}
        done = subprocess.run(
            [sys.executable, os.path.join(EXAMPLES, name), *args], cwd=self.dir, text=True,
            capture_output=True, timeout=300, stdin=subprocess.DEVNULL,
            env={**clean, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def count(self, path, what):
        return opmeter.open(self.path(path)).value(what)

    @unittest.skipIf(missing("numpy"), missing("numpy"))
    def test_furiosa_trace(self):
        self.example("furiosa_trace.py")
        with open(self.path("mnist_trace.json")) as file:
            names = {event.get("name") for event in json.load(file)["traceEvents"]}
        self.assertTrue({"warm up", "trace"} <= names)
        self.assertEqual(self.count("mnist_trace.json",
                                    "SELECT count(*) FROM span WHERE cat = 'step'"), 20)

    @unittest.skipIf(missing("pandas"), missing("pandas"))
    def test_furiosa_dataframe(self):
        out = self.example("furiosa_dataframe.py")
        self.assertIn("  Inference Results Summary", out)
        self.assertRegex(out, r"Inference counts +: 4\n")
        self.assertRegex(out, r"average elapsed\(ns\) +count\nname\n")
        self.assertRegex(out.splitlines()[-1], r"^\d+ +[0-9a-f]{32} +trace +\d+ +\d+$")

    @unittest.skipIf(missing("numpy"), missing("numpy"))
    @unittest.skipIf(_tool.path() is None, "the opmeter command is not built")
    def test_furiosa_environment(self):
        self.example("furiosa_environment.py",
                     env={"FURIOSA_PROFILER_OUTPUT_PATH": self.path("tracing.json")})
        self.assertEqual(os.listdir(self.dir), ["tracing.json"])
        self.assertGreater(self.count("tracing.json", "SELECT count(*) FROM span"), 3)

    def test_mindinsight(self):
        out = self.example("mindinsight_train.py")
        self.assertRegex(out, r"ApplyMomentum +40 ")
        self.assertEqual(self.count("data", "SELECT count(*) FROM step_trace"
                                            " WHERE split_by = 'phases'"), 40)
        self.assertGreater(self.count("data", "SELECT sum(samples) FROM queue_stats"), 40)

    def test_cambricon_session(self):
        self.example("cambricon_session.py", env={"TENSORFLOW_MODELS_TRACE_LEVEL": "2"})
        with open(self.path("profile/summary.json")) as file:
            summary = json.load(file)
        self.assertEqual(sorted(summary["op_stats"]["vgg16"]), ["0", "1", "2"])
        self.assertTrue(summary["op_stats"]["vgg16"]["1"])
        if missing("tensorflow"):
            self.assertEqual(summary["app_stats"]["1"]["prepare"]["meta"], "This is making input")
        self.assertEqual(len(os.listdir(self.path("profile/timeline"))), 3)

    def test_cambricon_switched_off(self):
        self.example("cambricon_session.py", env={"TENSORFLOW_MODELS_TRACE_LEVEL": "0"})
        self.assertEqual(os.listdir(self.dir), [])

    def test_cambricon_with_tensorflow(self):
        """With TensorFlow itself where it is installed, else with a module of its interface."""
        path = os.pathsep.join([PACKAGE] + [STAND_IN] * bool(missing("tensorflow")))
        for name, graph in (("cambricon_session.py", "vgg16"), ("cambricon_keras.py", "dense")):
            self.example(name, env={"TENSORFLOW_MODELS_TRACE_LEVEL": "2", "PYTHONPATH": path})
            with open(self.path("profile/summary.json")) as file:
                summary = json.load(file)
            self.assertGreaterEqual(len(summary["op_stats"][graph]), 3)
            self.assertIn("MatMul", json.dumps(summary["op_stats"][graph]))
            self.assertIn("Session Run", summary["app_stats"]["0"])

    def test_serve(self):
        """What the loop counts and times itself is what is in its recording."""
        out = self.example("serve_gpu.py", "--dry", "--requests", "12", "--rate", "300", "--tokens",
                           "16", env={"OPMETER_OUTPUT": self.path("serve.opm")})
        own, trace = json.loads(out), opmeter.open(self.path("serve.opm"))
        for what, sql in (("requests", "count(*) FROM request WHERE finish = 'length'"),
                          ("iterations", "count(*) FROM iteration"),
                          ("tokens_in", "sum(tokens_in) FROM request"),
                          ("tokens_out", "sum(tokens_out) FROM request")):
            self.assertEqual(trace.value(f"SELECT {sql}"), own[what], what)
        for what, sql in (("ttft_ms", "median(ttft_ns) FROM request_latency"),
                          ("itl_ms", "median(itl_ns) FROM token_gaps")):
            self.assertAlmostEqual(trace.value(f"SELECT {sql}") / 1e6, own[what],
                                   delta=1 + 0.2 * own[what])
        self.assertEqual(trace.value("SELECT count(*) FROM iteration WHERE kind = 'mixed'") > 0, True)
        self.assertEqual(trace.value("SELECT count(*) FROM request_latency "
                                     "WHERE ttft_ns + itl_ns <> e2e_ns"), 0)

    def test_spans(self):
        out = self.example("spans.py", "t.opm")
        self.assertRegex(out, r"Inference counts +: 3\n")
        self.assertRegex(out, r"fetch +12 ")
        self.assertEqual(self.count("t.opm", "SELECT count(*) FROM sample"), 4)
