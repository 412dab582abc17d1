"""Processes: fork, spawn, and all the ways to end."""
import os
import signal
import subprocess
import sys
import textwrap
import unittest

import opmeter
from support import PACKAGE, Case, missing

WORKER = """
    import multiprocessing, os, sys, threading
    import opmeter

    def work(i):
        with opmeter.span("child", n=i):
            return os.getpid()

    if __name__ == "__main__":
        how = sys.argv[1]
        context = multiprocessing.get_context(how)
        with opmeter.profile(file="trace.opm") as p:
            with opmeter.span("parent"):
                processes = [context.Process(target=work, args=(i,)) for i in range(3)]
                for process in processes:
                    process.start()
                for process in processes:
                    process.join()
                    assert process.exitcode == 0
        print(len(p.trace.paths))
        assert "OPMETER_OUTPUT" not in os.environ
"""


class Redact(Case):
    def test_facts_are_left_out(self):
        """OPMETER_REDACT holds for recordings from Python, and only those that tell are private."""
        code = "import os, opmeter; os.umask(0o022); opmeter.start('x.opm'); opmeter.stop()"
        query = ("SELECT count(*) AS n FROM meta WHERE key IN ('program.command', 'machine.host')"
                 " AND value {} '(redacted)'")
        for redact, told, mode in (("all", 0, 0o644), ("command", 1, 0o600), ("", 2, 0o600)):
            with self.subTest(redact=redact):
                self.python(code, env={"OPMETER_REDACT": redact, "OPMETER_OVERWRITE": "1"})
                trace = opmeter.open(self.path("x.opm"))
                self.assertEqual(trace.value(query.format("<>")), told)
                self.assertEqual(trace.value(query.format("=")), 2 - told)
                self.assertEqual(os.stat(self.path("x.opm")).st_mode & 0o777, mode)


class Multiprocessing(Case):
    def check(self, how):
        with open(self.path("worker.py"), "w") as file:
            file.write(textwrap.dedent(WORKER))
        done = self.script("worker.py", how)
        self.assertEqual(done.stdout.strip(), "4", done.stderr)
        self.assertEqual(sorted(os.listdir(self.dir)), ["trace.opm", "worker.py"])
        trace = opmeter.open(self.path("trace.opm"))
        self.assertEqual(trace.rows(
            "SELECT s.name, count(*) AS n, count(DISTINCT t.pid) AS processes FROM span AS s"
            " JOIN track AS t ON t.id = s.track GROUP BY s.name ORDER BY s.name"),
            [{"name": "child", "n": 3, "processes": 3},
             {"name": "parent", "n": 1, "processes": 1}])
        # On one clock: children ran while the parent's span was open.
        self.assertEqual(trace.value(
            "SELECT count(*) FROM span AS c JOIN span AS p ON p.name = 'parent'"
            " WHERE c.name = 'child' AND c.ts >= p.ts AND c.ts + c.dur <= p.ts + p.dur"), 3)

    def script(self, name, *args):
        done = subprocess.run([sys.executable, name, *args], cwd=self.dir, text=True,
                              capture_output=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": PACKAGE,
                                   "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_fork(self):
        self.check("fork")

    def test_spawn(self):
        self.check("spawn")

    def test_forked_child_that_records_nothing(self):
        opmeter.start(self.path("t.opm"))
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        opmeter.stop()
        self.assertEqual(os.listdir(self.dir), ["t.opm"])

    def test_child_does_not_take_the_parents_files(self):
        done = self.python("""
            import os, sys
            import opmeter
            p = opmeter.profile()
            with p:
                with opmeter.span("x"):
                    pass
            pid = os.fork()
            if pid == 0:
                del p
                sys.exit(0)
            os.waitpid(pid, 0)
            print(p.trace.value("SELECT name FROM span"))
        """)
        self.assertEqual(done.stdout, "x\n")

    def test_old_parts_are_not_ours(self):
        with open(self.path("t-123.opm"), "w") as file:
            file.write("old")
        with opmeter.profile(file=self.path("t.opm")) as p:
            with opmeter.span("x"):
                pass
        self.assertEqual(p.trace.paths, (self.path("t.opm"),))
        self.assertTrue(os.path.exists(self.path("t-123.opm")))


class Ends(Case):
    def ended(self, code, status, env=None):
        """Run code that records to t.opm until it ends, and open what it leaves."""
        done = self.python("import os, signal, sys, opmeter\nopmeter.start('t.opm')\n"
                           + textwrap.dedent(code), check=False, env=env)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return opmeter.open(self.path("t.opm"))

    def test_interpreter_exit(self):
        trace = self.ended("""
            with opmeter.span("a"):
                pass
        """, 0)
        self.assertEqual(self.names(trace), ["a"])
        self.assertEqual(os.listdir(self.dir), ["t.opm"])

    def test_exit_inside_a_span(self):
        trace = self.ended("""
            with opmeter.span("a"):
                sys.exit(3)
        """, 3)
        self.assertEqual(trace.rows("SELECT name, dur >= 0 AS ended FROM span"),
                         [{"name": "a", "ended": 1}])

    def test_uncaught_exception(self):
        trace = self.ended("""
            with opmeter.span("a"):
                raise RuntimeError("end")
        """, 1)
        self.assertEqual(self.names(trace), ["a"])

    def test_os_exit(self):
        trace = self.ended("""
            with opmeter.span("a"):
                with opmeter.span("b"):
                    pass
                os._exit(0)
        """, 0)
        self.assertEqual(trace.rows("SELECT name, dur >= 0 AS ended FROM span ORDER BY id"),
                         [{"name": "a", "ended": 0}, {"name": "b", "ended": 1}])

    def test_killed(self):
        trace = self.ended("""
            for i in range(100000):
                with opmeter.span("loop"):
                    pass
            with opmeter.span("last"):
                os.kill(os.getpid(), signal.SIGKILL)
        """, -signal.SIGKILL)
        self.assertEqual(trace.rows("SELECT name, count(*) AS n, max(dur) >= 0 AS ended FROM span"
                                    " GROUP BY name ORDER BY name"),
                         [{"name": "last", "n": 1, "ended": 0},
                          {"name": "loop", "n": 100000, "ended": 1}])

    def test_all_descriptors_closed(self):
        """The program's next file has the number of one that was ours, were it in its table."""
        for _ in range(20):
            trace = self.ended("""
                for i in range(2000):
                    with opmeter.span("before"):
                        pass
                os.closerange(3, 1024)
                with open("data.db", "wb", buffering=0) as db:
                    db.write(b"x" * 100000)
                    for i in range(50000):
                        with opmeter.span("after"):
                            pass
            """, 0)
            with open(self.path("data.db"), "rb") as file:
                self.assertEqual(file.read(), b"x" * 100000)
            self.assertEqual(trace.rows("SELECT name, count(*) AS n FROM span GROUP BY 1 ORDER BY 1"),
                             [{"name": "after", "n": 50000}, {"name": "before", "n": 2000}])
            self.assertEqual(trace.rows("SELECT * FROM import_stat WHERE severity = 'loss'"), [])

    def test_daemon_thread_at_exit(self):
        trace = self.ended("""
            import threading
            started = threading.Event()

            def forever():
                while True:
                    with opmeter.span("loop"):
                        started.set()
            threading.Thread(target=forever, daemon=True).start()
            started.wait()
        """, 0)
        self.assertIn("loop", self.names(trace))

    def test_profile_that_never_ended(self):
        self.python("""
            import opmeter
            p = opmeter.profile(file="p.opm")
            p.start()
            with opmeter.span("x"):
                pass
        """)
        self.assertEqual(self.names(opmeter.open(self.path("p.opm"))), ["x"])

    def test_environment_starts_it(self):
        self.python("""
            import opmeter
            with opmeter.span("x"):
                pass
        """, env={"OPMETER_OUTPUT": self.path("env.opm")})
        self.assertEqual(self.names(opmeter.open(self.path("env.opm"))), ["x"])


class Interpreters(Case):
    @unittest.skipIf(missing("_xxsubinterpreters"), "no subinterpreters here")
    @unittest.skipIf(sys.version_info >= (3, 12), "interpreters are isolated since Python 3.12")
    def test_subinterpreter(self):
        self.python("""
            import _xxsubinterpreters as interpreters
            import opmeter
            code = (
                "import opmeter\\n"
                "for i in range(100):\\n"
                "    with opmeter.span('sub'):\\n"
                "        pass\\n")
            for _ in range(3):
                other = interpreters.create()
                try:
                    interpreters.run_string(other, code)
                finally:
                    interpreters.destroy(other)
            with opmeter.span("main"):
                pass
        """)
