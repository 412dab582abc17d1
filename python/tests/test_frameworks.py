"""Frameworks that are recorded without a change to the program.

ONNX Runtime and TensorFlow are played by small modules of the same interface where they are not
installed; PyTorch's tests need PyTorch.
"""
import os
import shutil
import unittest
from types import SimpleNamespace
from unittest import mock

import opmeter
from opmeter.frameworks import pytorch, pytorch_observer as observer
from support import Case, needs

PACKAGE = os.path.dirname(opmeter.__file__)
HOOK = os.path.join(PACKAGE, "hook")

ONNXRUNTIME = '''
"""Stands in for ONNX Runtime: the interface that is hooked, and a profile of the same form."""
import json, os
__version__ = "0.0-stand-in"

class SessionOptions:
    def __init__(self):
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"

class InferenceSession:
    def __init__(self, path_or_bytes, sess_options=None, providers=None, **kwargs):
        options = sess_options or SessionOptions()
        self._profile = options.profile_file_prefix if options.enable_profiling else None
        self._events = [self._event("Session", "model_loading_uri", 0, 5, {})]

    def _event(self, cat, name, ts, dur, args):
        return {"cat": cat, "pid": os.getpid(), "tid": os.getpid(), "dur": dur, "ts": ts,
                "ph": "X", "name": name, "args": args}

    def run(self, names, feed):
        at = 100 * len(self._events)
        self._events.append(self._event("Node", "fc0_kernel_time", at, 20, {
            "op_name": "Gemm", "provider": "CPUExecutionProvider", "node_index": "0",
            "input_type_shape": [{"float": [1, 4]}], "output_type_shape": [{"float": [1, 2]}]}))
        self._events.append(self._event("Session", "model_run", at, 30, {}))
        return [None]

    def end_profiling(self):
        if self._profile is None:
            return ""
        path, self._profile = self._profile + "_2026-01-31_12-00-00.json", None
        with open(path, "w") as file:
            json.dump(self._events, file)
        return path

    def __del__(self):
        self.end_profiling()
'''

TENSORFLOW = '''
"""Stands in for TensorFlow: its profiler's interface, and a trace of one operator."""
import os, types
__version__ = "0.0-stand-in"

def field(number, value):
    if isinstance(value, int):
        out = bytes([number << 3])
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(value)]) + value

EVENT = field(1, 1) + field(2, 0) + field(3, 5000000)
LINE = field(1, 1) + field(2, "main") + field(3, 1000) + field(4, EVENT)
NAMES = field(1, 1) + field(2, field(1, 1) + field(2, "MatMul"))
SPACE = field(1, field(2, "/host:CPU") + field(3, LINE) + field(4, NAMES))

def start(logs):
    global folder
    folder = os.path.join(logs, "plugins", "profile", "2026_01_31")

def stop():
    os.makedirs(folder)
    with open(os.path.join(folder, "host.xplane.pb"), "wb") as file:
        file.write(SPACE)

profiler = types.SimpleNamespace(experimental=types.SimpleNamespace(start=start, stop=stop))
'''

TRAIN = '''
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
best = torch.optim.SGD(net.parameters(), lr=.01)
data = TensorDataset(torch.ones(12, 4), torch.ones(12, 1))
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=4, num_workers=int(sys.argv[1])):
        loss = torch.nn.functional.mse_loss(net(x), y)
        best.zero_grad()
        loss.backward()
        best.step()
net(torch.ones(1, 4))
'''


class Recorded(Case):
    """Programs under the environment that `opmeter record` gives them."""

    def record(self, script, *words, path=(), env=None, check=True):
        parts = self.path("parts")
        os.makedirs(parts, exist_ok=True)
        script = self.write("program.py", script)
        return self.interpreter(script, *words, check=check, env={
            "PYTHONPATH": os.pathsep.join([HOOK, *path]), "OPMETER_RECORD_DIR": parts,
            "OPMETER_OUTPUT": os.path.join(parts, "%p.opm"), **(env or {})})

    def parts(self, tail=""):
        return sorted(name for name in os.listdir(self.path("parts")) if name.endswith(tail))

    def trace(self):
        trace = opmeter.open(self.path("parts"))
        self.addCleanup(trace.close)
        return trace


class Hook(Recorded):
    def test_nothing_imported(self):
        """A program without frameworks does not even load opmeter."""
        done = self.record("import sys; print('opmeter' in sys.modules)")
        self.assertEqual((done.stdout, done.stderr), ("False\n", ""))
        self.assertEqual(self.parts(), [])

    def test_opmeter_is_found(self):
        self.record("import opmeter\nwith opmeter.span('x'): pass")
        self.assertEqual(self.trace().value("SELECT name FROM span"), "x")

    def test_other_sitecustomize(self):
        self.write("site/sitecustomize.py", "import sys; sys.stderr.write('the other one\\n')")
        done = self.record("import sitecustomize; print(sitecustomize.__file__)",
                           path=[self.path("site")])
        self.assertEqual(done.stderr, "the other one\n")
        self.assertEqual(done.stdout.strip(), self.path("site", "sitecustomize.py"))

    def test_framework_that_is_missing(self):
        done = self.record("""
            try:
                import onnxruntime_of_nobody
            except ImportError as error:
                print(error.name)
            """)
        self.assertEqual(done.stdout, "onnxruntime_of_nobody\n")

    def test_unknown_version(self):
        """One sentence, and the program goes on."""
        self.write("site/onnxruntime/__init__.py", "__version__ = '99'\nanswer = 42\n")
        done = self.record("import onnxruntime; print(onnxruntime.answer, "
                           "type(onnxruntime.__loader__).__name__)", path=[self.path("site")])
        self.assertEqual(done.stdout, "42 SourceFileLoader\n")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("opmeter: onnxruntime 99 is not recorded: AttributeError", done.stderr)

    def test_framework_that_fails(self):
        self.write("site/tensorflow/__init__.py", "raise ImportError('no GPU, no fun')\n")
        done = self.record("""
            try:
                import tensorflow
            except ImportError as error:
                print(error)
            """, path=[self.path("site")])
        self.assertEqual((done.stdout, done.stderr), ("no GPU, no fun\n", ""))


class OnnxRuntime(Recorded):
    def setUp(self):
        super().setUp()
        self.write("site/onnxruntime/__init__.py", ONNXRUNTIME)

    def record(self, script, *words):
        return super().record(script, *words, path=[self.path("site")])

    def test_sessions(self):
        """Those that live until the end, and those that do not."""
        done = self.record("""
            import onnxruntime as ort
            kept = ort.InferenceSession("a.onnx")
            for _ in range(3):
                kept.run(None, {})
            options = ort.SessionOptions()
            gone = ort.InferenceSession("b.onnx", options, providers=["CPUExecutionProvider"])
            gone.run(None, {})
            del gone
            print(options.enable_profiling, options.profile_file_prefix)
            """)
        self.assertEqual(done.stdout, "False onnxruntime_profile_\n")
        self.assertEqual(len(self.parts(".json")), 2)
        self.assertEqual(self.trace().value("SELECT sum(count) FROM op_stats WHERE type = 'Gemm'"),
                         4)

    def test_own_profile(self):
        """What the program profiles itself stays the program's."""
        done = self.record(f"""
            import onnxruntime as ort
            options = ort.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = {self.path("mine")!r}
            print(ort.InferenceSession("a.onnx", options).end_profiling())
            """)
        self.assertTrue(os.path.exists(done.stdout.strip()))
        self.assertEqual(self.parts(".json"), [])


class TensorFlow(Recorded):
    def test_whole_program(self):
        self.write("site/tensorflow/__init__.py", TENSORFLOW)
        self.record("import tensorflow", path=[self.path("site")])
        self.assertEqual(len(self.parts(".xplane.pb")), 1)
        self.assertFalse([name for name in self.parts() if name.endswith("tensorflow")])
        self.assertEqual(self.trace().value("SELECT count(*) FROM span WHERE name = 'MatMul'"), 1)


@needs("torch")
class PyTorch(Recorded):
    def test_training(self):
        self.record(TRAIN, 0)
        trace = self.trace()
        self.assertEqual(trace.value("SELECT count(*) FROM step"), 6)
        self.assertEqual(trace.value("SELECT count(*) FROM span WHERE name = 'aten::addmm'"), 14)
        for like in ("%AddmmBackward0", "Optimizer.step#SGD.step", "enumerate(DataLoader)%"):
            self.assertGreater(
                trace.value(f"SELECT count(*) FROM span WHERE name LIKE '{like}'"), 5, like)
        self.assertEqual(trace.value("SELECT count(*) FROM step_trace WHERE split_by = 'autograd'"),
                         6)

    def test_cost(self):
        """What having operators told costs is measured and stated."""
        self.record(TRAIN, 0)
        trace = self.trace()
        row, = trace.rows("SELECT count, each_ns, total_ns FROM measuring "
                          "WHERE what = 'operators of PyTorch'")
        self.assertGreater(row["each_ns"], 0)
        self.assertEqual(row["count"], trace.value("SELECT count(*) FROM span WHERE "
                                                   "layer = 'framework'"))
        self.assertEqual(
            trace.value("SELECT count(*) FROM span WHERE name = 'aten::is_same_size'"), 0)

    def test_own_marks(self):
        """Steps that the program marks, by whatever means, are the steps."""
        for mark, model in (("opmeter.step(i, 'mine')", "mine"),
                            ("torch.profiler.record_function(f'iteration {i}')", "iteration")):
            with self.subTest(model):
                shutil.rmtree(self.path("parts"), ignore_errors=True)
                self.record(f"""
                    import opmeter, torch
                    net = torch.nn.Linear(4, 1)
                    best = torch.optim.SGD(net.parameters(), lr=.01)

                    def train():
                        net(torch.ones(2, 4)).sum().backward()
                        best.step()

                    train()
                    for i in range(3):
                        with {mark}:
                            train()
                    """)
                trace = self.trace()
                rows = trace.rows("SELECT model, num, found_by, split_by FROM step_trace")
                self.assertEqual(rows, [{"model": model, "num": i, "found_by": "marks",
                                         "split_by": "autograd"} for i in range(3)])

    def test_autocast(self):
        """What the dispatcher passes on under the same name is one call."""
        self.record("""
            import torch
            net = torch.nn.Conv2d(3, 4, 3)
            for _ in range(5):
                with torch.autocast("cpu", torch.bfloat16):
                    net(torch.ones(2, 3, 8, 8))
            """)
        trace = self.trace()
        self.assertEqual(trace.value("SELECT sum(count) FROM op_stats WHERE type = 'aten::conv2d'"),
                         5)

    def test_queue(self):
        self.record(TRAIN, 2)
        trace = self.trace()
        rows = trace.rows("SELECT * FROM track WHERE kind = 'queue'")
        self.assertEqual([(row["name"], row["capacity"], row["workers"]) for row in rows],
                         [("DataLoader", 4, 2)])
        self.assertGreaterEqual(trace.value("SELECT count(*) FROM sample"), 6)
        self.assertEqual(trace.value("SELECT count(*) FROM step"), 6)

    def test_processes(self):
        """Children that fork or spawn, before PyTorch is imported and after."""
        self.record("""
            import multiprocessing, sys

            def work(n):
                import torch
                for _ in range(n):
                    torch.ones(2, 2) @ torch.ones(2, 2)

            if __name__ == "__main__":
                for method, imported in (("spawn", False), ("fork", False), ("fork", True)):
                    if imported:
                        import torch
                    child = multiprocessing.get_context(method).Process(target=work, args=(3,))
                    child.start()
                    child.join()
                    assert child.exitcode == 0, (method, child.exitcode)
                work(1)
            """)
        rows = self.trace().rows("SELECT track.pid, count(*) AS n FROM span JOIN track "
                                 "ON track.id = span.track WHERE span.name = 'aten::mm' "
                                 "GROUP BY 1 ORDER BY 2")
        self.assertEqual([row["n"] for row in rows], [1, 3, 3, 3])

    def test_exit_code(self):
        done = self.record("import torch, sys\ntorch.ones(1) + 1\nsys.exit(7)", check=False)
        self.assertEqual(done.returncode, 7)
        self.assertEqual(len(self.parts("torch-0.json")), 1)

    def test_chunks(self):
        """What the profiler has is written between steps; no step is lost or split."""
        self.record("import opmeter.frameworks.pytorch as hook\nhook.CHUNK_S = 0\n" + TRAIN, 0)
        self.assertEqual(len(self.parts(".json")), 7)
        trace = self.trace()
        self.assertEqual([row["num"] for row in trace.rows("SELECT num FROM step ORDER BY ts")],
                         list(range(6)))
        self.assertEqual(trace.value("SELECT count(*) FROM span WHERE name = 'aten::addmm'"), 14)
        self.assertGreater(
            trace.value("SELECT count(*) FROM span WHERE name = 'write operators'"), 0)


    def test_cuda(self):
        """When CUDA begins the profile begins anew, with what GPUs do. A stand-in for the GPU."""
        self.record("""
            import opmeter.frameworks.pytorch as hook, torch
            asked = []

            def activities(self):
                asked.append(self._cuda)
                return [torch.profiler.ProfilerActivity.CPU]

            hook._Profiler._activities = activities
            torch.profiler.supported_activities = lambda: set(
                torch.profiler.ProfilerActivity.__members__.values())
            state = []
            torch.cuda.is_initialized = lambda: bool(state)
            watched = torch.cuda._lazy_init
            watched.__closure__[[n for n in watched.__code__.co_freevars].index(
                "initialise")].cell_contents = lambda: state.append(1)
            torch.ones(1) + 1
            torch.cuda._lazy_init()
            torch.cuda._lazy_init()
            torch.ones(1) + 1
            assert asked == [True], asked
            """)
        self.assertEqual(len(self.parts(".json")), 2)
        self.assertEqual(self.trace().value("SELECT count(*) FROM span WHERE name = 'aten::add'"),
                         2)


class Main(Case):
    """python -m opmeter"""

    def run_main(self, *words, check=True):
        return self.interpreter("-m", "opmeter", *words, check=check)

    def test_script(self):
        self.write("helper.py", "answer = 42")
        script = self.write("program.py", """
            import sys, opmeter, helper
            assert __name__ == "__main__"
            with opmeter.span("work"):
                print(sys.argv[1:], helper.answer)
            """)
        done = self.run_main("-o", "x.opm", script, "-o", "mine", "--flag")
        self.assertEqual(done.stdout, "['-o', 'mine', '--flag'] 42\n")
        self.assertIn("1 spans of 1 process in", done.stderr)
        with opmeter.open(self.path("x.opm")) as trace:
            self.assertEqual(trace.value("SELECT name FROM span"), "work")
        self.assertFalse(os.path.exists(self.path("x.opm.parts")))

    def test_module(self):
        self.write("package/__init__.py", "")
        self.write("package/tool.py", "import sys, opmeter\nprint(sys.argv[1:])\n"
                                      "with opmeter.span('tool'): pass")
        done = self.run_main("-o", "x.opm", "-m", "package.tool", "a")
        self.assertEqual(done.stdout, "['a']\n")

    def test_default_output(self):
        script = self.write("program.py", "import opmeter\nwith opmeter.span('x'): pass")
        self.run_main(script)
        names = os.listdir(self.path("opmeter.out"))
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], r"^program_[-_0-9]+\.opm$")

    def test_failures(self):
        script = self.write("program.py",
                            "import opmeter\nwith opmeter.span('x'): raise ValueError")
        done = self.run_main("-o", "x.opm", script, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValueError", done.stderr)
        self.assertTrue(os.path.exists(self.path("x.opm")))
        for words, says in ((["missing.py"], "missing.py: no such file"),
                            ([], "what is to be run?"),
                            (["-o", "x.nothing", script], "'.nothing'")):
            done = self.run_main(*words, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)

    def test_inside_a_recording(self):
        """Under `opmeter record` it runs the program, and leaves the recording to that."""
        os.makedirs(self.path("parts"))
        script = self.write("program.py", "import opmeter\nwith opmeter.span('x'): pass")
        done = self.interpreter("-m", "opmeter", "-o", "x.opm", script, env={
            "OPMETER_RECORD_DIR": self.path("parts"),
            "OPMETER_OUTPUT": self.path("parts", "%p.opm")})
        self.assertIn("is under way", done.stderr)
        self.assertFalse(os.path.exists(self.path("x.opm")))
        with opmeter.open(self.path("parts")) as trace:
            self.assertEqual(trace.value("SELECT name FROM span"), "x")

    def test_other_format(self):
        script = self.write("program.py", "import opmeter\nwith opmeter.span('x'): pass")
        self.run_main("-o", "x.json", script)
        with opmeter.open(self.path("x.json")) as trace:
            self.assertEqual(trace.value("SELECT count(*) FROM span WHERE name = 'x'"), 1)

    def test_spawned(self):
        script = self.write("program.py", """
            import multiprocessing, opmeter
            def work():
                with opmeter.span("child"):
                    pass
            if __name__ == "__main__":
                for method in ("fork", "spawn"):
                    child = multiprocessing.get_context(method).Process(target=work)
                    child.start()
                    child.join()
            """)
        self.run_main("-o", "x.opm", script)
        with opmeter.open(self.path("x.opm")) as trace:
            self.assertEqual(trace.value("SELECT count(*) FROM span WHERE name = 'child'"), 2)


class Observers(unittest.TestCase):
    """What PyTorch's header must say before its observers are used."""
    HEADER = """
        enum class C10_API_ENUM RecordScope : uint8_t {
          // operators
          FUNCTION = 0,
          BACKWARD_FUNCTION,
          /* of the user, */ USER_SCOPE,
          NUM_SCOPES, // the last
        };
        class TORCH_API RecordFunctionCallback {
         public:
          using StartCallback =
              std::unique_ptr<ObserverContext> (*)(const RecordFunction&);
          using EndCallback = void (*)(const RecordFunction&, ObserverContext*);
         private:
          StartCallback start_;
          EndCallback end_;
          double sampling_prob_ = 1.0;
          std::array<bool, static_cast<size_t>(RecordScope::NUM_SCOPES)> scopes_ = {};
          bool needs_inputs_ = false;
          bool needs_outputs_ = false;
          bool needs_ids_ = false;
};
        """

    def test_scopes(self):
        scopes = observer.scopes_of(self.HEADER)
        self.assertEqual(scopes, ["FUNCTION", "BACKWARD_FUNCTION", "USER_SCOPE"])
        self.assertEqual(observer.bits(observer.OPERATORS, scopes), 0b011)
        self.assertEqual(observer.bits(observer.MARKS, scopes), 0b100)

    def test_others(self):
        """Whatever would change the layout is another PyTorch."""
        for old, new in (("double sampling_prob_ = 1.0;", "float sampling_prob_ = 1.0;"),
                         ("bool needs_ids_ = false;", "bool needs_ids_ = false; int more_ = 0;"),
                         ("EndCallback end_;", ""),
                         ("public:", "public: virtual ~RecordFunctionCallback();"),
                         ("std::unique_ptr<ObserverContext> (*)", "ObserverContext* (*)"),
                         ("USER_SCOPE,", "USER_SCOPE = 7,"),
                         (": uint8_t", ": uint32_t"), ("NUM_SCOPES, //", "COUNT //"),
                         ("class TORCH_API RecordFunctionCallback", "struct Other")):
            self.assertIn(old, self.HEADER)
            with self.assertRaises(observer.Unknown):
                observer.scopes_of(self.HEADER.replace(old, new))

    def test_wanted(self):
        for categories, wanted in (("", True), ("op", True), ("kernel,op", True),
                                   ("kernel,gpu_memcpy", False), ("-op", False),
                                   ("-kernel", True), ("-kernel,-op", False)):
            with mock.patch.dict(os.environ, OPMETER_CATEGORIES=categories):
                self.assertEqual(pytorch.is_wanted("op"), wanted, categories)
        with mock.patch.dict(os.environ, OPMETER_LEVEL="1"):
            self.assertFalse(pytorch.is_wanted("op"))


class Ranges(unittest.TestCase):
    """Steps among NVTX ranges, which are a stack. A stand-in for PyTorch."""

    def setUp(self):
        stack, self.left = [], []

        class record_function:
            def __init__(self, name):
                self.name = name

            def __enter__(self):
                stack.append(self.name)
                return self

            def __exit__(mark, *reason):
                self.left.append((mark.name, stack.pop()))

        class Step:
            def __init__(self, number):
                self.name = f"derived {number}"

            def begin(self):
                stack.append(self.name)

            def end(step):
                self.left.append((step.name, stack.pop()))

        new_step = pytorch._new_step
        self.addCleanup(lambda: setattr(pytorch, "_new_step", new_step))
        pytorch._new_step = Step
        self.stack = stack
        nvtx = SimpleNamespace(range_push=stack.append,
                               range_pop=lambda: self.left.append((None, stack.pop())))
        self.torch = SimpleNamespace(
            autograd=SimpleNamespace(profiler=SimpleNamespace(record_function=record_function)),
            cuda=SimpleNamespace(nvtx=nvtx))
        self.mark = record_function
        self.recorder = pytorch._Nvtx(self.torch)
        self.recorder.running = True
        pytorch._watch_marks(self.torch, self.recorder)

    def train(self, steps, around=None):
        for _ in range(steps):
            if around:
                self.torch.cuda.nvtx.range_push(around)
            with self.mark("forward"):
                pass
            with self.mark("Optimizer.step"):
                self.recorder.stepped(self)
            if around:
                self.torch.cuda.nvtx.range_pop()

    def test_between_marks(self):
        self.train(3)
        self.assertTrue(all(name == popped for name, popped in self.left), self.left)
        self.assertEqual([name for name, _ in self.left if name.startswith("derived")],
                         ["derived 1", "derived 2"])

    def test_end(self):
        """A step that no optimizer has finished never ends: it is none."""
        self.train(2)
        self.recorder.end = self.recorder.measure = lambda *_: None
        self.recorder.stop()
        self.assertEqual([name for name, _ in self.left if name.startswith("derived")],
                         ["derived 1"])
        self.assertEqual(self.stack, ["derived 2"])

    def test_between_ranges(self):
        self.train(3, "iteration")
        self.assertTrue(all(name in (None, popped) for name, popped in self.left), self.left)
        self.assertEqual([popped for name, popped in self.left if name is None], ["iteration"] * 3)
        self.assertEqual([name for name, _ in self.left if name and name.startswith("derived")],
                         ["derived 1", "derived 2"])


if __name__ == "__main__":
    unittest.main()
