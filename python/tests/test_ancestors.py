"""MindInsight's and Cambricon's profilers."""
import csv
import json
import os
import shutil
import sys
import time
import warnings

import opmeter
from opmeter import cambricon, mindinsight
from stand_in import tensorflow
from support import Case


class Cambricon(Case):
    def setUp(self):
        super().setUp()
        self.old = os.getcwd(), dict(os.environ), sys.modules.get("tensorflow")
        os.chdir(self.dir)
        sys.modules["tensorflow"] = tensorflow

    def tearDown(self):
        cambricon.Profiler().finalize()
        folder, environment, module = self.old
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        if module is None:
            del sys.modules["tensorflow"]
        else:
            sys.modules["tensorflow"] = module
        super().tearDown()

    def on(self, level="2"):
        os.environ[cambricon.LEVEL] = level
        return cambricon.Profiler()

    def summary(self):
        with open("profile/summary.json") as file:
            return json.load(file)

    def test_one_object(self):
        profiler = self.on()
        self.assertIs(cambricon.Profiler(), profiler)
        profiler.finalize()
        self.assertIsNot(cambricon.Profiler(), profiler)

    def test_off(self):
        for level in ("0", "", "nonsense"):
            profiler = self.on(level)
            self.assertEqual(profiler.get_tf_trace_level(), 0)
            self.assertIsNone(profiler.get_tf_runmetadata("net"))
            profiler.activity_start("a", 0, "m")
            profiler.step_start("net", 0)
            profiler.step_end("net", 0)
            profiler.activity_end("a", 0, "m")
            profiler.finalize()
            self.assertEqual(os.listdir("."), [])

    def test_levels(self):
        for level, wanted in (("1", 1), ("2", 2), ("3", 3), ("9", 3)):
            profiler = self.on(level)
            self.assertEqual(profiler.get_tf_trace_level(), wanted)
            profiler.finalize()

    def test_activities(self):
        profiler = self.on()
        for step in range(2):
            profiler.activity_start("decode", step, "This is decoding")
            profiler.activity_start("decode", step, "nested, of the same name")
            time.sleep(0.001)
            profiler.activity_end("decode", step, "This is decoding")
            profiler.activity_end("decode", step, "This is decoding")
        profiler.finalize()
        stats = self.summary()["app_stats"]
        self.assertEqual(sorted(stats), ["0", "1"])
        self.assertEqual(stats["0"]["decode"]["meta"], "This is decoding")
        self.assertGreaterEqual(stats["1"]["decode"]["duration"], 1000)
        self.assertEqual(sorted(os.listdir("profile")),
                         ["step_stats", "summary.json", "summary.md", "timeline"])

    def test_end_without_start(self):
        profiler = self.on()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            profiler.activity_end("never", 3)
        self.assertRegex(str(told[0].message), "'never' of step 3, which has not begun")

    def test_session_run(self):
        profiler = self.on()
        self.assertEqual(profiler.get_tf_trace_level(), 2)
        for step in range(3):
            profiler.step_start("vgg16", step)
            profiler.get_tf_runmetadata("vgg16").run("conv1", "conv2")
            profiler.step_end("vgg16", step)
        profiler.finalize()
        stats = self.summary()
        self.assertEqual(sorted(stats["op_stats"]), ["vgg16"])
        self.assertEqual(sorted(stats["op_stats"]["vgg16"]), ["0", "1", "2"])
        host, = stats["op_stats"]["vgg16"]["1"].values()
        device, = host.values()
        self.assertEqual(device["conv1"]["duration"], 1000)
        self.assertEqual(device["conv1"]["output"]["0"], {"shape": [1, 8], "type": "Float"})
        self.assertEqual(sorted(os.listdir("profile/step_stats")),
                         [f"vgg16_step_{i}" for i in range(3)])
        self.assertEqual(sorted(os.listdir("profile/timeline")),
                         [f"vgg16_step_{i}" for i in range(3)])
        self.assertIn("Session Run", stats["app_stats"]["2"])

    def test_steps_without_tensorflow(self):
        profiler = self.on()
        for step in range(2):
            profiler.step_start("net", step)
            with opmeter.op("conv1", type="Conv"):
                pass
            profiler.step_end("net", step)
        profiler.finalize()
        stats = self.summary()["op_stats"]["net"]
        self.assertEqual(sorted(stats), ["0", "1"])
        self.assertIn("conv1", json.dumps(stats["1"]))

    def test_keras_callback(self):
        profiler = self.on()
        profiler.get_tf_trace_level()
        metadata = profiler.get_tf_runmetadata("net")
        callback = profiler.get_collect_runmetadata_callback("net")
        for epoch in range(2):
            for batch in range(2):
                callback.on_train_batch_begin(batch, {})
                metadata.run("dense")
                callback.on_train_batch_end(batch, {})
        profiler.finalize()
        self.assertEqual(sorted(self.summary()["op_stats"]["net"]), ["0", "1", "2", "3"])

    def test_callback_is_of_keras_own_class(self):
        self.assertIsInstance(self.on().get_collect_runmetadata_callback("net"),
                              tensorflow.Callback)
        del sys.modules["tensorflow"]
        cambricon.Profiler().get_collect_runmetadata_callback("net").on_train_batch_begin(0)
        sys.modules["tensorflow"] = tensorflow

    def test_graph_of_another_name(self):
        """The statistics are those that TensorFlow filled since the last step, whatever the name."""
        profiler = self.on()
        profiler.get_tf_trace_level()
        metadata = profiler.get_tf_runmetadata("graph")
        for step in range(2):
            profiler.step_start("net", step)
            metadata.run("dense")
            profiler.step_end("net", step)
        profiler.finalize()
        stats = self.summary()["op_stats"]["net"]
        self.assertEqual(sorted(stats), ["0", "1"])
        self.assertIn("dense", json.dumps(stats["1"]))

    def test_statistics_that_never_came(self):
        profiler = self.on()
        profiler.get_tf_runmetadata("net")
        profiler.step_start("net", 0)
        profiler.step_end("net", 0)
        with self.assertWarnsRegex(UserWarning, "said nothing of 1 steps"):
            profiler.finalize()

    def test_without_finalize(self):
        for end in ("", "raise ValueError('mine')"):
            done = self.python(f"""
                from opmeter.cambricon import Profiler
                profiler = Profiler()
                profiler.activity_start("work", 0, "text")
                profiler.activity_end("work", 0, "text")
                {end}
            """, env={cambricon.LEVEL: "2"}, check=not end)
            self.assertIn("ended without finalize()", done.stderr)
            self.assertIn("work", self.summary()["app_stats"]["0"])
            shutil.rmtree("profile")

    def test_second_version(self):
        os.environ[cambricon.LEVEL] = "2"
        os.environ[cambricon.LOGDIR] = "elsewhere"
        profiler = cambricon.Profiler()
        self.assertEqual(profiler.get_trace_level(), 2)
        metadata = profiler.get_run_metadata()
        for step in (7, 8):
            profiler.step_start()
            metadata.run("dense")
            profiler.step_end(step, metadata)
        profiler.activity_start("post")
        profiler.activity_end("post", -1)
        profiler.finalize(batch_size=4, model_name="mine")
        with open("elsewhere/summary.json") as file:
            summary = json.load(file)
        self.assertEqual(sorted(summary["op_stats"]["model"]), ["7", "8"])
        self.assertIn("Session Run", summary["app_stats"]["7"])
        overall = summary["overall_stats"]
        self.assertEqual((overall["batch_size"], summary["model_name"]), (4, "mine"))
        self.assertAlmostEqual(overall["throughput_max"], 4 / overall["latency_min"])
        self.assertAlmostEqual(overall["total_time"], 2 * overall["latency_mean"])

    def test_callbacks_of_the_second_version(self):
        profiler = self.on()
        profiler.get_trace_level()
        metadata = profiler.get_run_metadata()
        callback = profiler.get_keras_profile_callback(1, 3)
        self.assertIsInstance(callback, tensorflow.Callback)
        for batch in range(4):
            callback.on_train_batch_begin(batch, {})
            metadata.run("dense")
            callback.on_train_batch_end(batch, {})
        profiler.finalize()
        self.assertEqual(sorted(self.summary()["op_stats"]["model"]), ["1", "2"])

    def test_switched_on_before_the_start(self):
        """The library starts by itself then; the profiler's folder has both kinds of facts."""
        done = self.python("""
            import opmeter
            from opmeter.cambricon import Profiler
            profiler = Profiler()
            profiler.activity_start("work", 0, "text")
            profiler.activity_end("work", 0, "text")
            profiler.finalize()
        """, env={cambricon.LEVEL: "2"})
        self.assertEqual(done.stderr, "")
        self.assertIn("work", self.summary()["app_stats"]["0"])
        self.assertEqual(os.listdir(self.dir), ["profile"])


class MindInsight(Case):
    def train(self, steps):
        forward = opmeter.op("Default/net/conv1", type="Conv2D")
        backward = opmeter.op("Gradients/net/conv1", type="Conv2DBackprop")
        variable = opmeter.op("Default/net/weight", type="Variable")
        queue = opmeter.queue("host queue", 2)
        for i in range(steps):
            with opmeter.step(i, "net"):
                queue.size(i % 3)
                opmeter.phase("forward")
                with forward, variable:
                    pass
                opmeter.phase("backward")
                with backward:
                    pass

    def rows(self, name):
        with open(self.path(os.path.join("data/profiler", name)), newline="") as file:
            return list(csv.DictReader(file))

    def test_analyse(self):
        profiler = opmeter.Profiler(output_path=self.path("data"), is_detail=True,
                                    is_show_op_path=False, subgraph="all")
        self.train(3)
        trace = profiler.analyse()
        self.assertIs(profiler.analyse(), trace)
        self.assertEqual(sorted(os.listdir(self.path("data/profiler"))), [
            "operator_types.csv", "operators.csv", "step_trace.csv", "summary.json",
            "summary.md", "timeline.json", "trace.opm"])
        types_ = self.rows("operator_types.csv")
        self.assertEqual({row["op_type"]: row["execution_frequency"] for row in types_},
                         {"Conv2D": "1", "Conv2DBackprop": "1"})
        self.assertAlmostEqual(sum(float(row["percent"]) for row in types_), 100, places=1)
        self.assertEqual([row["full_op_name"]
                          for row in self.rows("operators.csv")], ["conv1"] * 2)
        self.assertEqual(len(self.rows("step_trace.csv")), 3)
        # The folder is a trace as well, of the same spans.
        folder = opmeter.open(self.path("data"))
        for what in ("SELECT * FROM span", "SELECT * FROM step_trace"):
            self.assertEqual(folder.rows(what), trace.rows(what))

    def test_choice_of_operators(self):
        for arguments, wanted in [
                ({"subgraph": "Gradients"}, ["Gradients/net/conv1"]),
                ({"subgraph": "Default"}, ["Default/net/conv1"]),
                ({"optypes_to_deal": "Conv2D, Variable", "optypes_not_deal": ""},
                 ["Default/net/conv1", "Default/net/weight"])]:
            with self.subTest(arguments):
                profiler = mindinsight.Profiler(output_path=self.path("data"),
                                                is_show_op_path=True, **arguments)
                self.train(1)
                profiler.analyse()
                self.assertEqual(sorted(row["full_op_name"] for row in
                                        self.rows("operators.csv")), wanted)

    def test_started_later(self):
        profiler = opmeter.Profiler(output_path=self.path("data"), start_profile=False)
        with opmeter.span("before"):
            pass
        with self.assertRaisesRegex(ValueError, "not started"):
            profiler.analyse()
        profiler.start()
        with opmeter.span("after"):
            pass
        self.assertEqual(self.names(profiler.analyse()), ["after"])

    def test_newer_arguments(self):
        profiler = opmeter.Profiler(output_path=self.path("data"), profile_memory=True,
                                    timeline_limit=100)
        profiler.analyse()

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(ValueError, "subgraph must be one of"):
            opmeter.Profiler(subgraph="some")
        with self.assertRaisesRegex(TypeError, "no argument 'colour'"):
            opmeter.Profiler(colour="red")
