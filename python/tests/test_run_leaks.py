"""What is used again and again does not grow."""
import os
import unittest

import opmeter
from opmeter import session
from support import Case

GROWTH_MAX = 6 << 20  # bytes; what leaks here would be over 10 MB


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@unittest.skipIf("asan" in os.environ.get("LD_PRELOAD", ""), "ASan keeps what was freed")
class Leaks(Case):
    def check(self, work, times):
        for _ in range(times // 4):
            work()
        before = resident()
        for _ in range(times):
            work()
        self.assertLess(resident() - before, GROWTH_MAX)

    def spans(self):
        def work():
            with opmeter.span("x", row=1):
                pass
        return self.recorded(lambda: [work() for _ in range(2000)])

    def test_columns(self):
        trace = self.spans()
        for sql in ("SELECT * FROM span", "SELECT ts, name, args FROM span WHERE ts >= 0"):
            self.check(lambda sql=sql: trace._handle.columns(sql), 200)

    def test_streams(self):
        trace = self.spans()
        self.check(lambda: trace.arrow("SELECT * FROM span").__arrow_c_stream__(), 200)

    def test_failed_queries(self):
        trace = self.spans()

        def work():
            try:
                trace.arrow("SELECT nothing FROM span").__arrow_c_stream__()
            except opmeter.Error:
                pass
        self.check(work, 2000)

    def test_outputs(self):
        with session.create("zoo:mlp?batch=n", dims={"n": 512}) as sess:
            self.check(sess.run, 800)

    def test_sessions(self):
        def work():
            with session.create("zoo:mlp", threads=1) as sess:
                sess.run()
        self.check(work, 30)
