"""What the tests share: a folder of their own, recordings, other interpreters."""
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import opmeter

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(opmeter.__file__)))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STARTERS = ("OPMETER_OUTPUT", "OPMETER_LEVEL", "OPMETER_CATEGORIES", "ENGINE_PROFILING",
            "FURIOSA_PROFILER_OUTPUT_PATH", "TENSORFLOW_MODELS_TRACE_LEVEL")


def missing(module):
    """Why a test that needs a module is skipped; None if it is there."""
    try:
        __import__(module)
    except ImportError:
        return f"{module} is not installed"
    return None


class Case(unittest.TestCase):
    """A test in a folder of its own, after which nothing is being recorded."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="opmeter-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.assertFalse(opmeter.recording())

    def tearDown(self):
        stopped = False
        while opmeter.recording():
            opmeter.stop()
            stopped = True
        self.assertFalse(stopped, "the test left a recording behind")

    def path(self, name):
        return os.path.join(self.dir, name)

    def recorded(self, work, **options):
        """Record what work() does, and open the trace."""
        path = self.path("recorded.opm")
        opmeter.start(path, **options)
        try:
            work()
        finally:
            opmeter.stop()
        return opmeter.open(path)

    def names(self, trace, where="1"):
        return [row["name"] for row in trace.rows(
            f"SELECT name FROM span WHERE {where} ORDER BY id")]

    def python(self, code, *args, env=None, check=True, timeout=120):
        """Run code in another interpreter, in the folder."""
        clean = {name: value for name, value in os.environ.items() if name not in STARTERS}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), *args], cwd=self.dir, text=True,
            capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL,
            env={**clean, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})})
        if check:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done
