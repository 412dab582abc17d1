"""Traces: opening, asking, exporting, and what can be wrong."""
import gzip
import json
import os
import pathlib
import threading

import opmeter
from opmeter import _opmeter
from support import Case


class Opening(Case):
    def setUp(self):
        super().setUp()
        opmeter.start(self.path("t.opm"))
        for i in range(1200):
            with opmeter.span("x", n=i):
                pass
        opmeter.stop()

    def test_path_like_and_bytes(self):
        path = self.path("t.opm")
        for same in (path, pathlib.Path(path), os.fsencode(path), [path], (path,)):
            with opmeter.open(same) as trace:
                self.assertEqual(trace.value("SELECT count(*) FROM span"), 1200)

    def test_many_rows_and_types(self):
        trace = opmeter.open(self.path("t.opm"))
        rows = trace.rows("SELECT id, name, dur * 0.5 AS half, NULL AS none FROM span")
        self.assertEqual(len(rows), 1200)
        self.assertEqual([row["id"] for row in rows], list(range(1200)))
        self.assertEqual({type(cell) for row in rows for cell in row.values()},
                         {int, str, float, type(None)})

    def test_limits(self):
        events = [{"ph": "X", "name": "n%d" % i, "ts": i, "dur": 1, "pid": 1, "tid": 1}
                  for i in range(200000)]
        text = json.dumps(events).encode()
        with gzip.open(self.path("big.json.gz"), "wb") as file:
            file.write(text)
        for limit, said in [({"max_bytes": 1 << 20}, "1.05 MB"),
                            ({"max_memory": 1 << 20}, "memory")]:
            with self.subTest(said), self.assertRaisesRegex(opmeter.Error, said) as caught:
                opmeter.open(self.path("big.json.gz"), **limit)
            self.assertIn("big.json.gz", str(caught.exception))
            self.assertEqual(caught.exception.code, opmeter.Error.ELIMIT)
        with opmeter.open(self.path("big.json.gz"), max_bytes=len(text) + (1 << 20),
                          max_memory=1 << 30, max_seconds=3600) as trace:
            self.assertEqual(trace.value("SELECT count(*) FROM span"), 200000)
        for name in ("max_bytes", "max_memory", "max_seconds"):
            for wrong in (-1, 1 << 64, "1", 1.5):
                with self.subTest(name=name, wrong=wrong), \
                        self.assertRaises((OverflowError, TypeError, ValueError)):
                    opmeter.open(self.path("t.opm"), **{name: wrong})

    def test_limit_of_time(self):
        os.mkfifo(self.path("slow.json"))
        event = b'{"ph":"X","name":"a","ts":1,"dur":1,"pid":1,"tid":1},\n'

        def write():
            with open(self.path("slow.json"), "wb", buffering=0) as pipe:
                try:
                    pipe.write(b"[")
                    while True:
                        pipe.write(event * 1000)
                except BrokenPipeError:
                    pass

        writer = threading.Thread(target=write)
        writer.start()
        try:
            with self.assertRaises(opmeter.Error) as caught:
                opmeter.open(self.path("slow.json"), max_seconds=1)
        finally:
            writer.join()
        self.assertEqual(caught.exception.code, opmeter.Error.ELIMIT)

    def test_foreign_and_packed(self):
        events = {"traceEvents": [{"ph": "X", "name": "é", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}
        with gzip.open(self.path("c.json.gz"), "wt") as file:
            json.dump(events, file)
        self.assertEqual(self.names(opmeter.open(self.path("c.json.gz"))), ["é"])

    def test_several_as_one(self):
        opmeter.start(self.path("u.opm"))
        with opmeter.span("y"):
            pass
        opmeter.stop()
        trace = opmeter.open(self.path("t.opm"), self.path("u.opm"))
        self.assertEqual(trace.rows("SELECT name, count(*) AS n FROM span GROUP BY name"),
                         [{"name": "x", "n": 1200}, {"name": "y", "n": 1}])

    def test_meta(self):
        trace = opmeter.open(self.path("t.opm"), meta={"step.fp_point": "conv1", "k": 3})
        self.assertEqual(trace.value("SELECT value FROM meta WHERE key = 'step.fp_point'"),
                         "conv1")
        self.assertEqual(trace.value("SELECT value FROM meta WHERE key = 'k'"), "3")

    def test_export(self):
        trace = opmeter.open(self.path("t.opm"))
        for name, extension, _ in _opmeter.export_formats():
            if name in ("chrome", "opm", "speedscope", "perfetto"):
                to = self.path("out" + extension)
                trace.export(to, name)
                self.assertGreater(os.path.getsize(to), 0, name)
        trace.export(self.path("span.csv"), "csv", table="span")
        with open(self.path("span.csv")) as file:
            self.assertEqual(len(file.readlines()), 1201)
        self.assertIn("kineto", [name for name, _, _ in _opmeter.import_formats()])

    def test_closed(self):
        trace = opmeter.open(self.path("t.opm"))
        trace.close()
        trace.close()
        for call in (lambda: trace.rows("SELECT 1"),
                     lambda: trace.export(self.path("x.json"), "chrome")):
            with self.assertRaisesRegex(ValueError, "the trace is closed"):
                call()

    def test_many_threads(self):
        trace = opmeter.open(self.path("t.opm"))
        counts = []

        def ask():
            for _ in range(5):
                counts.append(len(trace.rows("SELECT id FROM span ORDER BY dur")))
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(counts, [1200] * 20)

    def test_other_threads_run_and_may_interrupt(self):
        trace = opmeter.open(self.path("t.opm"))
        done = threading.Event()

        def interrupt():
            while not done.is_set():
                trace._handle.interrupt()
                done.wait(0.01)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with self.assertRaises(opmeter.Error):
                trace.value("SELECT count(*) FROM span AS a, span AS b, span AS c, span AS d"
                            " WHERE a.dur + b.dur + c.dur + d.dur < 0")
        finally:
            done.set()
            thread.join()


class Wrong(Case):
    def test_corrupt_and_missing_files(self):
        with open(self.path("noise.opm"), "wb") as file:
            file.write(bytes(range(256)) * 64)
        with self.assertRaises(opmeter.Error) as caught:
            opmeter.open(self.path("noise.opm"))
        self.assertEqual(caught.exception.code, opmeter.Error.EFORMAT)
        self.assertIn("noise.opm", caught.exception.message)
        self.assertEqual(str(caught.exception), caught.exception.message)
        with self.assertRaisesRegex(opmeter.Error, "missing.opm"):
            opmeter.open(self.path("missing.opm"))

    def test_cut_off_file(self):
        opmeter.start(self.path("t.opm"))
        for i in range(5000):
            with opmeter.span(f"x{i % 100}"):
                pass
        opmeter.stop()
        size = os.path.getsize(self.path("t.opm"))
        os.truncate(self.path("t.opm"), size * 2 // 3)
        try:
            trace = opmeter.open(self.path("t.opm"))
        except opmeter.Error:
            return
        self.assertGreater(trace.value("SELECT sum(count) FROM import_stat"), 0)

    def test_wrong_arguments(self):
        opmeter.start(self.path("t.opm"))
        opmeter.stop()
        trace = opmeter.open(self.path("t.opm"))
        for kind, text, call in [
                (TypeError, "at least one path", lambda: opmeter.open()),
                (TypeError, "", lambda: opmeter.open(3)),
                (opmeter.Error, "nonsense", lambda: opmeter.open(self.path("t.opm"),
                                                                 format="nonsense")),
                (TypeError, "meta must be a dict", lambda: opmeter.open(self.path("t.opm"),
                                                                        meta=[1])),
                (TypeError, "sql must be a str", lambda: trace.rows(3)),
                (ValueError, "NUL", lambda: trace.rows("SELECT 1\0")),
                (opmeter.Error, "selekt", lambda: trace.rows("selekt")),
                (opmeter.Error, "no_such", lambda: trace.rows("SELECT * FROM no_such")),
                (opmeter.Error, "nonsense", lambda: trace.export(self.path("x"), "nonsense")),
                (TypeError, "", lambda: trace.export(None, "chrome"))]:
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()

    def test_error_has_all_codes(self):
        self.assertEqual(opmeter.Error.EINVAL, -1)
        self.assertEqual(opmeter.Error.ELIMIT, -10)
        self.assertIsNone(opmeter.Error("by hand").code)
