"""What the tests share: a folder of their own, recordings, other interpreters."""
import importlib.util
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
STARTERS = ("OPMETER_OUTPUT", "OPMETER_RECORD_DIR", "OPMETER_LEVEL", "OPMETER_CATEGORIES",
            "ENGINE_PROFILING", "FURIOSA_PROFILER_OUTPUT_PATH", "TENSORFLOW_MODELS_TRACE_LEVEL")


def missing(module):
    """Why a test that needs a module is skipped; None if it is there."""
    try:
        __import__(module)
    except ImportError:
        return f"{module} is not installed"
    return None


def needs(*modules):
    """Skip a test, with a message, where a module is not installed."""
    lacking = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(lacking, f"{', '.join(lacking)} is not installed")


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

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, text):
        """Make a file in the folder."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

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
        return self.interpreter("-c", textwrap.dedent(code), *args, env=env, check=check,
                                timeout=timeout)

    def interpreter(self, *words, env=None, check=True, timeout=120):
        """Run another interpreter, in the folder."""
        clean = {name: value for name, value in os.environ.items() if name not in STARTERS}
        done = subprocess.run(
            [sys.executable, *map(str, words)], cwd=self.dir, text=True,
            capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL,
            env={**clean, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})})
        if check:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done
