"""Steps, regions, activities, operators, queues, counters, tracks."""
import contextlib
import threading
import time

import opmeter
from support import Case


class Regions(Case):
    def test_steps_with_phases(self):
        def work():
            for i in range(3):
                with opmeter.step(i, "net", warm_up=i == 0):
                    opmeter.phase("forward")
                    opmeter.phase("backward")
                    opmeter.phase("update")
                    opmeter.phase(None)
        trace = self.recorded(work)
        self.assertEqual(trace.rows("SELECT model, num, warmup FROM step ORDER BY id"),
                         [{"model": "net", "num": i, "warmup": int(i == 0)} for i in range(3)])
        self.assertEqual(self.names(trace, "cat = 'phase' AND step = 1"),
                         ["forward", "backward", "update"])

    def test_steps_of_a_warm_up_region(self):
        def work():
            with opmeter.record("warm up", warm_up=True):
                with opmeter.step(0):
                    pass
            with opmeter.record("trace"):
                with opmeter.step(1):
                    pass
        trace = self.recorded(work)
        self.assertEqual(trace.rows("SELECT num, warmup FROM step ORDER BY id"),
                         [{"num": 0, "warmup": 1}, {"num": 1, "warmup": 0}])
        self.assertEqual(trace.rows("SELECT label, warmup FROM record ORDER BY id"),
                         [{"label": "warm up", "warmup": 1}, {"label": "trace", "warmup": 0}])

    def test_warm_up_region_of_another_thread(self):
        """It counts for threads without regions of their own."""
        def steps(first, label):
            with opmeter.record(label) if label else contextlib.nullcontext():
                with opmeter.step(first):
                    pass

        def work():
            with opmeter.record("warm up", warm_up=True):
                for first, label in ((1, None), (2, "measured")):
                    thread = threading.Thread(target=steps, args=(first, label))
                    thread.start()
                    thread.join()
            thread = threading.Thread(target=steps, args=(3, None))
            thread.start()
            thread.join()
        self.assertEqual(self.recorded(work).rows("SELECT num, warmup FROM step ORDER BY num"),
                         [{"num": 1, "warmup": 1}, {"num": 2, "warmup": 0},
                          {"num": 3, "warmup": 0}])

    def test_activity(self):
        def work():
            a = opmeter.activity("decode", 3, {"files": 2}).begin()
            b = opmeter.activity("write", meta="plain text").begin()
            a.end()
            b.end()
        rows = self.recorded(work).rows("SELECT name, layer, args FROM span ORDER BY id")
        self.assertEqual([row["name"] for row in rows], ["decode", "write"])
        self.assertIn('"step":3', rows[0]["args"])
        self.assertIn("files", rows[0]["args"])
        self.assertIn("plain text", rows[1]["args"])

    def test_meta(self):
        trace = self.recorded(lambda: opmeter.meta("batch", 8))
        self.assertEqual(trace.value("SELECT value FROM meta WHERE key = 'batch'"), "8")


class Operators(Case):
    def test_operator_with_tensors(self):
        conv = opmeter.op("conv1", type="Conv", post_op="Relu", device="cpu", engine="mine",
                          flops=1000, bytes=64, attributes={"group": 1}, nodes=["a", "b"],
                          inputs=[("x", "fp32", (1, 3, 8, 8), 768)],
                          weights=[("w", "fp32", [4, 3, 3, 3])],
                          outputs=[("y", "fp32", (1, 4, 6, 6))])

        def work():
            with conv:
                with conv:
                    pass
        trace = self.recorded(work)
        self.assertEqual(trace.rows("SELECT name, type, post_op, device, engine, flops, bytes,"
                                    " attributes, nodes FROM op"),
                         [{"name": "conv1", "type": "Conv", "post_op": "Relu", "device": "cpu",
                           "engine": "mine", "flops": 1000, "bytes": 64,
                           "attributes": '{"group": 1}', "nodes": '["a", "b"]'}])
        self.assertEqual(trace.rows("SELECT io, name, dtype, shape, bytes FROM op_tensor"),
                         [{"io": "input", "name": "x", "dtype": "fp32", "shape": "1x3x8x8",
                           "bytes": 768},
                          {"io": "weight", "name": "w", "dtype": "fp32", "shape": "4x3x3x3",
                           "bytes": None},
                          {"io": "output", "name": "y", "dtype": "fp32", "shape": "1x4x6x6",
                           "bytes": None}])
        self.assertEqual(trace.value("SELECT count FROM op_stats WHERE name = 'conv1'"), 2)

    def test_operator_goes_with_its_span(self):
        def work():
            with opmeter.op("short-lived", type="Add"):
                pass
        self.assertEqual(self.recorded(work).value("SELECT type FROM op"), "Add")

    def test_wrong_arguments(self):
        for kind, text, arguments in [
                (TypeError, "name must be a str", {"name": 1}),
                (TypeError, "tensor is", {"name": "a", "inputs": [("x",)]}),
                (TypeError, None, {"name": "a", "inputs": [3]}),
                (TypeError, None, {"name": "a", "inputs": [("x", "fp32", ("n",))]}),
                (TypeError, None, {"name": "a", "attributes": object()}),
                (ValueError, "dimensions", {"name": "a", "outputs": [("x", "u8", [1] * 65)]}),
                (TypeError, None, {"name": "a", "flavour": 3})]:
            with self.subTest(arguments), self.assertRaisesRegex(kind, text or ""):
                opmeter.op(**arguments)


class Values(Case):
    def test_queue(self):
        queue = opmeter.queue("host queue", 4, producer="decode", workers=2, consumer="train")

        def work():
            for size in (0, 4, 2):
                queue.size(size)
        trace = self.recorded(work)
        self.assertEqual(trace.rows("SELECT name, capacity, producer, consumer, workers FROM track"
                                    " WHERE kind = 'queue'"),
                         [{"name": "host queue", "capacity": 4, "producer": "decode",
                           "consumer": "train", "workers": 2}])
        self.assertEqual([row["value"] for row in trace.rows("SELECT value FROM sample")],
                         [0, 4, 2])
        with self.assertRaises(TypeError):
            queue.size("full")

    def test_counter(self):
        counter = opmeter.counter("rss")

        def work():
            counter.set(1)
            counter.set(2.5)
        trace = self.recorded(work)
        self.assertEqual([row["value"] for row in trace.rows("SELECT value FROM sample")], [1, 2.5])
        with self.assertRaises(TypeError):
            counter.set("much")

    def test_track(self):
        track = opmeter.track("stream 7", device="gpu:0")

        def work():
            now = time.monotonic_ns()
            track.span("kernel", now, now + 1000, correlation=5, category="kernel")
        trace = self.recorded(work)
        self.assertEqual(trace.rows("SELECT s.name, s.dur, s.layer, s.cat, s.correlation, t.device,"
                                    " t.kind FROM span AS s JOIN track AS t ON t.id = s.track"),
                         [{"name": "kernel", "dur": 1000, "layer": "hardware", "cat": "kernel",
                           "correlation": 5, "device": "gpu:0", "kind": "stream"}])
        with self.assertRaisesRegex(ValueError, "ends .* before it starts"):
            track.span("kernel", 2, 1)
        with self.assertRaisesRegex(ValueError, "clock must be"):
            opmeter.track("x", clock="sundial")

    def test_device_clock(self):
        track = opmeter.track("dev", clock="device")

        def work():
            now = time.monotonic_ns()
            track.sync(1000, now)
            with opmeter.span("host"):
                pass
            track.span("kernel", 1000 + 5_000_000, 1000 + 6_000_000)
        trace = self.recorded(work)
        late = trace.value("SELECT (SELECT ts FROM span WHERE name = 'kernel') -"
                           " (SELECT ts FROM span WHERE name = 'host')")
        self.assertGreater(late, 0)
        self.assertLess(late, 60_000_000_000)
