"""Requests and iterations of a language model."""
import opmeter
from support import Case


def serve():
    """Two requests, three iterations; the second is set aside in between."""
    a = opmeter.request("a", tokens_in=30, model="m")
    b = opmeter.request(7, tokens_in=10)
    a.scheduled()
    b.scheduled()
    with opmeter.iteration(1) as it:
        it.add(a, "prefill", tokens_in=30, tokens_out=1, context=30)
        it.add(b, "prefill", tokens_in=10, tokens_out=1, context=10)
    a.token()
    b.token()
    b.preempted()
    with opmeter.iteration(2) as it:
        it.add("a", "decode", tokens_in=1, tokens_out=2, context=31)
    a.token(2)
    a.finished("stop")
    b.scheduled()
    with opmeter.iteration() as it:
        it.add(b, "decode", 1, 1, 11)
    with b:
        b.token()


class Requests(Case):
    def test_rows(self):
        trace = self.recorded(serve)
        self.assertEqual(trace.rows("SELECT name, model, tokens_in, tokens_out, preemptions, finish "
                                    "FROM request ORDER BY ts"),
                         [{"name": "a", "model": "m", "tokens_in": 30, "tokens_out": 3,
                           "preemptions": 0, "finish": "stop"},
                          {"name": "7", "model": None, "tokens_in": 10, "tokens_out": 2,
                           "preemptions": 1, "finish": None}])
        self.assertEqual([tuple(r.values()) for r in trace.rows(
            "SELECT num, kind, batch, tokens_in, tokens_out, context FROM iteration ORDER BY ts")],
            [(1, "prefill", 2, 40, 2, 40), (2, "decode", 1, 1, 2, 31), (None, "decode", 1, 1, 1, 11)])
        self.assertEqual(trace.value("SELECT count(*) FROM request_latency WHERE ttft_ns + itl_ns = e2e_ns"), 2)
        self.assertEqual(trace.value("SELECT count(*) FROM token"), 5)
        self.assertEqual(trace.value(
            "SELECT count(*) FROM (SELECT sum(s.time_ns) AS parts, i.dur AS whole FROM request_shares s "
            "JOIN iteration i ON i.id = s.iteration GROUP BY i.id) WHERE parts = whole"), 3)
        self.assertEqual(trace.value("SELECT count(*) FROM import_stat WHERE name GLOB 'llm_*'"), 0)

    def test_an_error_ends_a_request(self):
        def fail():
            with opmeter.request("x"):
                raise KeyError
        def work():
            self.assertRaises(KeyError, fail)
        self.assertEqual(self.recorded(work).value("SELECT finish FROM request"), "error")

    def test_phase(self):
        with opmeter.iteration() as it:
            self.assertRaises(ValueError, it.add, "a", "train")
