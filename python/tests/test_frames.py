"""DataFrames, Arrow and the display in notebooks."""
import ctypes
import json
import unittest

import opmeter
from support import Case, needs

EVENTS = [
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
    {"ph": "X", "name": "<b>&\"bold\"", "cat": "c", "pid": 1, "tid": 1, "ts": 1, "dur": 9},
    {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 2, "dur": 3, "args": {"k": 1}},
    {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 6, "dur": 1.5, "args": {"k": 2}},
    {"ph": "C", "name": "rss", "pid": 1, "tid": 1, "ts": 3, "args": {"v": 1.25}},
]
QUERIES = [
    "SELECT ts, dur, name, cat, args, op FROM span",
    "SELECT *, dur * 0.5 AS half, NULL AS none FROM span WHERE dur > 0",
    "SELECT 1 AS x UNION ALL SELECT NULL UNION ALL SELECT 2.5",
    "SELECT 1 AS x UNION ALL SELECT 'two' UNION ALL SELECT NULL",
    "SELECT name, name FROM span",
    "SELECT NULL AS x",
]


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


Schema._fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p),
                   ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
                   ("n_children", ctypes.c_int64),
                   ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
                   ("dictionary", ctypes.POINTER(Schema)),
                   ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))),
                   ("private_data", ctypes.c_void_p)]
Array._fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64),
                  ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                  ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
                  ("children", ctypes.POINTER(ctypes.POINTER(Array))),
                  ("dictionary", ctypes.POINTER(Array)),
                  ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))),
                  ("private_data", ctypes.c_void_p)]
Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))),
    ("private_data", ctypes.c_void_p)]


def arrow_rows(answer):
    """What a consumer of Arrow gets of an answer: names, formats and rows."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = answer.__arrow_c_stream__()
    stream = Stream.from_address(get(capsule, b"arrow_array_stream"))
    schema, array = Schema(), Array()
    assert stream.get_schema(stream, schema) == 0
    assert stream.get_next(stream, array) == 0
    names = [schema.children[i].contents.name.decode() for i in range(schema.n_children)]
    formats = [schema.children[i].contents.format.decode() for i in range(schema.n_children)]
    columns = []
    if array.release:
        columns = [_column(formats[i], array.children[i].contents)
                   for i in range(array.n_children)]
        array.release(array)
    schema.release(schema)
    stream.release(stream)
    return names, formats, list(zip(*columns))


def _column(format, array):
    def buffer(i, kind, count):
        return (kind * count).from_address(array.buffers[i])

    n = array.length
    if format == "n":
        return [None] * n
    kind = {"l": ctypes.c_int64, "g": ctypes.c_double, "i": ctypes.c_int32}[format]
    values = list(buffer(1, kind, n))
    if format == "i":
        words = array.dictionary.contents
        offset = (ctypes.c_int64 * (words.length + 1)).from_address(words.buffers[1])
        text = ctypes.string_at(words.buffers[2], offset[words.length])
        values = [text[offset[v]:offset[v + 1]].decode() if v < words.length else ""
                  for v in values]
    if array.buffers[0]:
        bits = buffer(0, ctypes.c_uint8, n // 8 + 1)
        values = [v if bits[i // 8] >> i % 8 & 1 else None for i, v in enumerate(values)]
    assert values.count(None) == array.null_count
    return values


class Traces(Case):
    def setUp(self):
        super().setUp()
        path = self.write("trace.json", json.dumps({"traceEvents": EVENTS}))
        self.trace = opmeter.open(path)
        self.addCleanup(self.trace.close)


class Arrow(Traces):
    def test_rows(self):
        for sql in QUERIES:
            with self.subTest(sql=sql):
                names, rows = self.trace._handle.query(sql)
                got_names, formats, got = arrow_rows(self.trace.arrow(sql))
                self.assertEqual(got_names, list(names))
                wanted = [tuple(str(cell) if format == "i" and cell is not None else cell
                                for format, cell in zip(formats, row)) for row in rows]
                self.assertEqual(got, wanted)

    def test_unconsumed(self):
        for _ in range(3):
            self.trace.arrow("SELECT * FROM span").__arrow_c_stream__()

    def test_failure(self):
        answer = self.trace.arrow("SELECT nothing FROM span")
        self.assertRaisesRegex(opmeter.Error, "nothing", answer.__arrow_c_stream__)
        self.trace.close()
        self.assertRaisesRegex(ValueError, "closed", answer.__arrow_c_stream__)

    @needs("pyarrow")
    def test_pyarrow(self):
        import pyarrow
        table = pyarrow.table(self.trace.arrow(QUERIES[0]))
        table.validate(full=True)
        self.assertEqual(table.column("name").to_pylist(),
                         [row["name"] for row in self.trace.rows(QUERIES[0])])

    @needs("polars")
    def test_polars(self):
        import polars
        frame = polars.DataFrame(self.trace.arrow(QUERIES[0]))
        self.assertEqual(frame["ts"].to_list(),
                         [row["ts"] for row in self.trace.rows(QUERIES[0])])


@needs("numpy", "pandas")
class Frames(Traces):
    def test_rows(self):
        import pandas as pd
        for sql in QUERIES:
            with self.subTest(sql=sql):
                names, rows = self.trace._handle.query(sql)
                frame = self.trace.sql(sql)
                self.assertEqual(list(frame.columns), list(names))
                got = [tuple(None if pd.isna(cell) else cell for cell in row)
                       for row in frame.itertuples(index=False, name=None)]
                texts = [str(dtype) in ("object", "str") for dtype in frame.dtypes]
                wanted = [tuple(str(cell) if text and cell is not None else cell
                                for text, cell in zip(texts, row)) for row in rows]
                self.assertEqual(got, wanted)

    def test_types(self):
        for sql in ("SELECT ts, name, op FROM span", "SELECT ts, name, op FROM span WHERE ts < 0"):
            frame = self.trace.sql(sql)
            self.assertEqual(frame["ts"].dtype, "int64")
            self.assertIn(str(frame["name"].dtype), ("object", "str"))  # str: since pandas 3
        self.assertEqual(str(self.trace.sql("SELECT op FROM span")["op"].dtype), "Int64")
        self.assertEqual(self.trace.sql("SELECT avg(dur) AS x FROM span")["x"].dtype, "float64")

    def test_outlives_the_trace(self):
        frame = self.trace.sql("SELECT ts, name FROM span")
        self.trace.close()
        frame["ts"] += 1
        self.assertEqual(list(frame["ts"]), [1, 1001, 5001])
        self.assertEqual(list(frame["name"]), ["<b>&\"bold\"", "b", "b"])

    def test_reports(self):
        result = opmeter.run("zoo:mlp", iterations=3)
        self.assertEqual(list(result.ops()["name"])[0], "fc0")
        self.assertEqual(len(result.steps()), 8)
        self.assertEqual(list(result.types()["type"])[0], "Gemm")
        summary = result.summary()
        self.assertEqual(list(summary[summary["scope"] == "step"]["count"]), [3])
        self.assertIn("rule", result.advice().columns)
        self.assertEqual(len(result.spans()), result.value("SELECT count(*) FROM span"))
        self.assertTrue(result.arrow("SELECT * FROM op").df().equals(
            result.sql("SELECT * FROM op")))

    def test_failure(self):
        self.assertRaises(opmeter.Error, self.trace.sql, "SELECT nothing FROM span")
        self.assertRaises(TypeError, self.trace.sql, 5)


@needs("numpy", "pandas")
class Furiosa(Case):
    """Made from columns, the SDK's DataFrame is what its file would give."""

    def check(self, trace):
        from opmeter import _furiosa, _reports
        from pandas.testing import assert_frame_equal
        assert_frame_equal(_furiosa.frame(trace), _reports._csv_frame(trace))

    def test_host(self):
        self.check(opmeter.run("zoo:mlp", iterations=3))

    def test_devices(self):
        def event(name, ts, dur, tid, **more):
            return {"ph": "X", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, **more}

        kernel = {"cat": "kernel", "args": {"device": 0, "stream": 7, "correlation": 3}}
        events = [event("ProfilerStep#1", 0, 90, 1, cat="user_annotation"),
                  event("aten::mm", 1, 20, 1, cat="cpu_op", args={"External id": 5}),
                  event("cudaLaunchKernel", 2, 3, 1, cat="cuda_runtime",
                        args={"correlation": 3, "External id": 5}),
                  event("gemm", 12, 30, 7, **kernel), event("NPU", 50, 5, 2, cat="NPU"),
                  {"ph": "B", "name": "open", "pid": 1, "tid": 2, "ts": 60}]
        path = self.write("k.json", json.dumps({"schemaVersion": 1, "traceEvents": events}))
        with opmeter.open(path) as trace:
            self.check(trace)

    def test_own_ids(self):
        """Ids of the SDK come back as they were."""
        head = ("trace_id,parent_span_id,span_id,start,end,cat,name,thread.id,dram_base,pe_index,"
                "execution_index,instruction_index,operator_index\n")
        row = "ab" * 16 + "," + "0" * 16 + "," + "cd" * 8 + ",1000,2000,Nux,Inference,7,,,,,\n"
        with opmeter.open(self.write("f.csv", head + row)) as trace:
            from opmeter import _reports
            self.assertEqual(list(_reports.dataframe(trace)["span_id"]), ["cd" * 8])


class Html(Traces):
    def test_escaped(self):
        html = self.trace._repr_html_()
        self.assertIn("&lt;b&gt;&amp;&quot;bold&quot;", html)
        self.assertNotIn("<b>&", html)
        self.assertEqual(html.count("<table>"), html.count("</table>"))

    def test_run(self):
        html = opmeter.run("zoo:mlp", iterations=3)._repr_html_()
        self.assertIn("<b>mlp</b>", html)
        self.assertIn("fc0", html)
        self.assertIn("median", html)

    def test_empty(self):
        with opmeter.open(self.write("empty.json", '{"traceEvents": []}')) as trace:
            self.assertIn("Nothing was recorded", trace._repr_html_())

    def test_durations(self):
        from opmeter.html import duration
        self.assertEqual([duration(ns) for ns in (None, 0, 5, 1234, 56789, 2.5e6, 123456789, 3e9)],
                         ["N/A", "0 ns", "5 ns", "1.23 µs", "56.8 µs", "2.50 ms", "123 ms",
                          "3.00 s"])


if __name__ == "__main__":
    unittest.main()
