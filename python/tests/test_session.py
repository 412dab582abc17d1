"""Sessions, tensors, run(): models from Python."""
import array
import os
import threading
import unittest

import opmeter
from opmeter import session, tensor
from support import Case, needs


class Describe(unittest.TestCase):
    def test_values(self):
        with session.create("zoo:mlp?batch=n") as sess:
            self.assertEqual((sess.input_num, sess.output_num), (1, 1))
            value = sess.input(0)
            self.assertEqual((value.name, value.dtype, value.shape, value.ndim),
                             ("input", "float32", ("n", 784), 2))
            self.assertEqual(sess.input("input"), value)
            self.assertEqual(sess.output(0).shape, ("n", 10))
            self.assertEqual(sess.inputs(), [value])
            self.assertEqual(sess.engine, session.engines()[0])
            self.assertIn("mlp", repr(sess))
            self.assertRaises(IndexError, sess.input, 1)
            self.assertRaises(KeyError, sess.output, "x")

    def test_sizes(self):
        with session.create("zoo:mlp?batch=n", dims={"n": 3}) as sess:
            self.assertEqual(sess.input(0).shape, (3, 784))
        with session.create("zoo:mlp", batch_size=2, threads=1) as sess:
            self.assertEqual(sess.input(0).shape, (2, 784))
            self.assertEqual(sess.threads, 1)

    def test_zoo(self):
        self.assertIn("zoo:mlp", session.zoo())

    def test_failures(self):
        for model, options, code in (("missing.onnx", {}, opmeter.Error.EIO),
                                     ("zoo:nothing", {}, opmeter.Error.ENOTFOUND),
                                     ("zoo:mlp", {"engine": "steam"}, opmeter.Error.EINVAL),
                                     ("zoo:mlp", {"dims": {"x": 1}}, opmeter.Error.EINVAL),
                                     (b"not a model", {}, None)):
            with self.subTest(model=model, **options):
                with self.assertRaises(opmeter.Error) as caught:
                    session.create(model, **options)
                if code:
                    self.assertEqual(caught.exception.code, code)
        self.assertRaises(TypeError, session.create, 5)
        self.assertRaises(TypeError, session.create, "zoo:mlp", threads="many")
        self.assertRaises(TypeError, session.create, "zoo:mlp", colour="red")

    def test_limits(self):
        with self.assertRaisesRegex(opmeter.Error, "max_memory") as caught:
            opmeter.run("zoo:mobilenetv2", max_memory=1000000)
        self.assertEqual(caught.exception.code, opmeter.Error.ELIMIT)
        with self.assertRaisesRegex(opmeter.Error, "the time limit") as caught:
            opmeter.run("zoo:mlp", iterations=10**8, warmup=0, time_limit=0.5)
        self.assertEqual(caught.exception.code, opmeter.Error.ELIMIT)
        with self.assertRaisesRegex(opmeter.Error, "time_limit_ns is negative"):
            session.create("zoo:mlp", time_limit=-1)
        with session.create("zoo:mlp", max_memory=10**9, time_limit=1000) as sess:
            self.assertEqual(len(sess.run()), 1)

    def test_closed(self):
        sess = session.create("zoo:mlp")
        sess.close()
        sess.close()
        self.assertRaisesRegex(ValueError, "closed", sess.run)


class Run(Case):
    def test_made_up(self):
        with session.create("zoo:mlp") as sess:
            first, second = sess.run(), sess.run()
            self.assertEqual(first[0].data, second[0].data)
            self.assertEqual((first[0].name, first[0].shape), ("output", (1, 10)))
            self.assertAlmostEqual(sum(first[0].tolist()[0]), 1, 4)
            self.assertIs(first["output"], first[0])
            self.assertRaises(KeyError, first.__getitem__, "x")

    def test_buffers(self):
        """Whatever holds the same numbers gives the same answer."""
        with session.create("zoo:mlp") as sess:
            numbers = [(i % 7) / 7 for i in range(784)]
            want = sess.run([numbers])[0].data
            flat = array.array("f", numbers)
            view = memoryview(flat).cast("B").cast("f", (1, 784))
            self.assertEqual(sess.run(view)[0].data, want)
            self.assertEqual(sess.run({"input": view})[0].data, want)
            made = tensor.Tensor("x", "float32", (1, 784), bytearray(flat.tobytes()))
            self.assertEqual(sess.run(made)[0].data, want)
            self.assertEqual(sess.run([made])[0].data, want)

    @needs("numpy")
    def test_numpy(self):
        import numpy as np
        with session.create("zoo:mlp") as sess:
            x = tensor.rand(sess.input(0))
            self.assertEqual((x.dtype, x.shape), (np.float32, (1, 784)))
            want = sess.run(x)[0].numpy()
            self.assertAlmostEqual(float(want.sum()), 1, 4)
            for same in (x.astype(np.float64), np.asfortranarray(x), x.byteswap().view(x.dtype.newbyteorder()),
                         np.repeat(x, 2, axis=1)[:, ::2], [x], {"input": x}, x.tolist()):
                self.assertTrue((sess.run(same)[0].numpy() == want).all())
            self.assertTrue((np.asarray(sess.run(x)["output"]) == want).all())
            self.assertFalse((tensor.rand(sess.input(0)) == x).all())
            again = tensor.rand(sess.input(0), seed=5)
            self.assertTrue((tensor.rand(sess.input(0), seed=5) == again).all())
            self.assertEqual(tensor.zeros(sess.input(0)).sum(), 0)
            want[0, 0] = 5  # outputs are the caller's

    @needs("numpy")
    def test_open_dimension(self):
        import numpy as np
        with session.create("zoo:mlp?batch=n") as sess:
            for n in (1, 4, 2):
                out = sess.run(tensor.rand(sess.input(0), n=n))[0].numpy()
                self.assertEqual(out.shape, (n, 10))
            self.assertEqual(tensor.rand(sess.input(0), shape=(3, 784)).shape, (3, 784))
            with self.assertRaisesRegex(ValueError, "open dimensions"):
                tensor.rand(sess.input(0))
            with self.assertRaisesRegex(ValueError, "no open dimension 'm'"):
                tensor.rand(sess.input(0), m=1)
            with self.assertRaisesRegex(ValueError, "not \\(3, 3\\)"):
                tensor.rand(sess.input(0), shape=(3, 3))
            with self.assertRaisesRegex(opmeter.Error, "'n'"):
                sess.run()
            self.assertEqual(sess.run(np.zeros((2, 784)))[0].shape, (2, 10))

    @needs("numpy")
    def test_wrong_arrays(self):
        import numpy as np
        with session.create("zoo:mlp") as sess:
            for wrong, error, says in ((np.zeros((1, 783)), ValueError, "1, 784"),
                                       (np.zeros(784), ValueError, "1, 784"),
                                       (np.zeros((1, 784), object), TypeError, "float32"),
                                       (np.full((1, 784), "x"), TypeError, "float32"),
                                       ("words", ValueError, "'input'"),
                                       ({"x": 1}, ValueError, "no input 'x'; it has 'input'"),
                                       ([[1, 2], [3]], ValueError, "'input'")):
                with self.subTest(wrong=repr(wrong)[:40]):
                    with self.assertRaisesRegex(error, says):
                        sess.run(wrong)
            sess.run()  # it still works

    @needs("numpy")
    def test_several_inputs(self):
        with session.create("zoo:bert-mini", seq_len=8) as sess:
            values = sess.inputs()
            self.assertGreater(len(values), 1)
            arrays = [tensor.rand(value) for value in values]
            want = sess.run(arrays)[0].data
            by_name = {value.name: one for value, one in zip(values, arrays)}
            self.assertEqual(sess.run(by_name)[0].data, want)
            self.assertRaisesRegex(ValueError, "were given", sess.run, arrays[:1])
            self.assertRaisesRegex(ValueError, "list or a dict", sess.run, arrays[0])
            sess.run({values[0].name: arrays[0]})  # the rest is made up

    def test_threads(self):
        """Several threads may use one session; they take turns."""
        with session.create("zoo:mlp") as sess:
            want, wrong = sess.run()[0].data, []

            def work():
                for _ in range(50):
                    if sess.run()[0].data != want:
                        wrong.append(1)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])

    def test_recorded(self):
        path = self.path("s.opm")
        with opmeter.profile(file=path, format=opmeter.RecordFormat.Opm) as p:
            with session.create("zoo:mlp") as sess:
                with p.record("warm up", warm_up=True):
                    sess.run()
                for _ in range(3):
                    sess.run()
        with opmeter.open(path) as trace:
            self.assertEqual(trace.value("SELECT count(*) FROM step"), 4)
            self.assertEqual(trace.value("SELECT count(*) FROM op"), 4)

    def test_without_numpy(self):
        self.python("""
import sys
sys.modules["numpy"] = sys.modules["pandas"] = None
import opmeter
with opmeter.session.create("zoo:mlp") as sess:
    x = opmeter.tensor.rand(sess.input(0))
    assert isinstance(x, opmeter.tensor.Tensor), x
    out = sess.run(x)[0]
    assert abs(sum(out.tolist()[0]) - 1) < 1e-4
    assert sess.run(x.tolist())[0].data == out.data
    assert sess.run(memoryview(x.data).cast("f", (1, 784)))[0].data == out.data
    for call, error in ((out.numpy, ImportError), (lambda: sess.run([[1, 2], [3]]), ValueError),
                        (lambda: sess.run(object()), TypeError)):
        try:
            call()
            raise AssertionError(call)
        except error:
            pass
run = opmeter.run("zoo:mlp", iterations=2)
try:
    run.ops()
    raise AssertionError
except ImportError as error:
    assert "numpy" in str(error) and "pip install" in str(error), error
assert len(run.rows("SELECT * FROM op_stats")) == 4
""")


class Whole(Case):
    def test_run(self):
        result = opmeter.run("zoo:mlp", iterations=5, warmup=2)
        self.assertIsInstance(result, opmeter.Trace)
        self.assertEqual(result.outputs["output"].shape, (1, 10))
        self.assertEqual(result.latency["metered"]["count"], 5)
        self.assertEqual(result.latency["bare"]["count"], 5)
        self.assertEqual(result.latency["warmup"], 2)
        self.assertEqual(result.value("SELECT count FROM op_stats WHERE name = 'fc0'"), 5)
        self.assertEqual(result.value("SELECT count(*) FROM step WHERE warmup"), 2)
        self.assertIn("'mlp'", repr(result))
        self.assertFalse(opmeter.recording())

    def test_options(self):
        path = self.path("kept.opm")
        result = opmeter.run("zoo:mlp?batch=n", dims={"n": 2}, iterations="20ms", warmup=0,
                             threads=1, receipt=False, output=path)
        self.assertIsNone(result.latency["bare"])
        self.assertGreaterEqual(result.latency["metered"]["count"], 1)
        self.assertEqual(result.latency["batch"], 2)
        self.assertTrue(os.path.exists(path))

    @needs("numpy")
    def test_inputs(self):
        import numpy as np
        x = np.full((1, 784), 0.25, np.float32)
        got = opmeter.run("zoo:mlp", {"input": x}, iterations=1).outputs["output"]
        with session.create("zoo:mlp") as sess:
            self.assertEqual(sess.run(x)[0].data, got.data)

    def test_inside_a_recording(self):
        opmeter.start(self.path("outer.opm"))
        try:
            with opmeter.span("around"):
                result = opmeter.run("zoo:mlp", iterations=2)
            self.assertTrue(opmeter.recording())
            self.assertEqual(result.value("SELECT count(*) FROM op"), 4)
        finally:
            opmeter.stop()
        with opmeter.open(self.path("outer.opm")) as trace:
            self.assertEqual(trace.value("SELECT count(*) FROM span WHERE name = 'around'"), 1)
            self.assertEqual(trace.value("SELECT count(*) FROM op"), 4)

    def test_failures(self):
        for call, error in ((lambda: opmeter.run("missing.onnx"), opmeter.Error),
                            (lambda: opmeter.run("zoo:mlp", iterations="soon"), ValueError),
                            (lambda: opmeter.run("zoo:mlp", iterations=0), opmeter.Error),
                            (lambda: opmeter.run("zoo:mlp", {"x": 1}), ValueError)):
            self.assertRaises(error, call)
            self.assertFalse(opmeter.recording())

    def test_interrupted(self):
        """Ctrl-C ends a measurement that would take long, also where the tests are in the background."""
        done = self.python("""
import os, signal, threading, opmeter
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    opmeter.run("zoo:mlp", iterations="100s")
except KeyboardInterrupt:
    print("interrupted", opmeter.recording())
""")
        self.assertEqual(done.stdout, "interrupted False\n")


if __name__ == "__main__":
    unittest.main()
