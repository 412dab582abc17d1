"""Nothing is left behind: objects, references, memory, threads, files."""
import gc
import os
import sys
import threading
import tracemalloc

import opmeter
from opmeter import _opmeter
from support import Case


def use(i):
    """A bit of everything that makes objects."""
    with opmeter.span("kept"):
        pass
    with opmeter.span("facts", "io", n=i, what="text") as s:
        s.set(later=1.5)
    with opmeter.step(i, "net"), opmeter.record("region"):
        pass
    a = opmeter.activity("a", i, {"k": [1, 2]}).begin()
    a.end()
    a.link(s)
    with opmeter.op("conv", type="Conv", inputs=[("x", "fp32", (1, 2))], attributes={"a": 1}):
        pass
    opmeter.queue("q", 3).size(1)
    opmeter.counter("c").set(1)
    opmeter.track("t").span("k", 0, 1)
    for wrong in (lambda: opmeter.span(3), lambda: opmeter.op("a", inputs=[3]),
                  lambda: opmeter.span("a", layer="x"), lambda: opmeter.start(level=9),
                  lambda: opmeter.open("/no/such/file")):
        try:
            wrong()
        except (TypeError, ValueError, opmeter.Error):
            pass


def resident_kb():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


class Leaks(Case):
    def test_objects_and_python_memory(self):
        def rounds(n):
            for i in range(n):
                use(i)
            gc.collect()
        for on in (False, True):
            if on:
                opmeter.start(self.path("t.opm"))
            rounds(20)
            tracemalloc.start()
            try:
                before, objects = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
                rounds(200)
                grown = tracemalloc.get_traced_memory()[0] - before
                more = len(gc.get_objects()) - objects
            finally:
                tracemalloc.stop()
            if on:
                opmeter.stop()
            self.assertLess(grown, 4000, "bytes in 200 rounds")
            self.assertLess(more, 20, "objects in 200 rounds")

    def test_references(self):
        name, category, value = "a name of its own", "a category of its own", "a value"
        spare = object()
        opmeter.span(name, category, n=value)
        opmeter.start(self.path("t.opm"))
        before = [sys.getrefcount(o) for o in (name, category, value, spare, None, _opmeter.Span,
                                               _opmeter.Queue, _opmeter.Error)]
        for _ in range(100):
            with opmeter.span(name, category, n=value) as s:
                s.set(x=spare)
            opmeter.queue("q").size(0)
            try:
                opmeter.span(spare)
            except TypeError:
                pass
        del s
        opmeter.stop()
        after = [sys.getrefcount(o) for o in (name, category, value, spare, None, _opmeter.Span,
                                              _opmeter.Queue, _opmeter.Error)]
        for one, other in zip(before, after):
            self.assertLess(abs(one - other), 20)

    def test_traces(self):
        opmeter.start(self.path("t.opm"))
        for i in range(2000):
            with opmeter.span(f"x{i}"):
                pass
        opmeter.stop()

        def rounds(n):
            for _ in range(n):
                with opmeter.open(self.path("t.opm")) as trace:
                    trace.rows("SELECT * FROM span")
                opmeter.open(self.path("t.opm"))  # closed by going away
                try:
                    trace.rows("SELECT 1")
                except ValueError:
                    pass
            gc.collect()
        rounds(10)
        before, files = resident_kb(), len(os.listdir("/proc/self/fd"))
        rounds(60)
        if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # it keeps what was freed for a while
            self.assertLess(resident_kb() - before, 8000, "kB in 60 rounds")
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)

    def test_recordings_leave_no_thread_and_no_file(self):
        def rounds(n):
            for _ in range(n):
                with opmeter.profile():
                    with opmeter.span("x"):
                        pass
            gc.collect()
        rounds(2)
        files, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        rounds(5)
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertEqual(len(os.listdir("/proc/self/task")), threads)

    def test_names_that_are_made_up_are_forgotten(self):
        for i in range(20000):
            opmeter.span(f"made up {i}")
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for i in range(40000):
                opmeter.span(f"another {i}")
            self.assertLess(tracemalloc.get_traced_memory()[0] - before, 16 << 20)
        finally:
            tracemalloc.stop()

    def test_threads_that_end(self):
        def work():
            with opmeter.span("x"):
                pass

        def rounds(n):
            for _ in range(n):
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
        opmeter.start(self.path("t.opm"))
        rounds(300)
        self.assertEqual(opmeter.stats()["lost"], 0)
        opmeter.stop()
        self.assertEqual(opmeter.open(self.path("t.opm")).value("SELECT count(*) FROM span"), 300)
