"""What the tests share: who has which package, other Pythons, folders."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest


def needs(*names):
    """Skip a test, with a message, where a package is missing."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


def python(*words, env=None, check=True, cwd=None):
    """Run this Python; its result has returncode, stdout and stderr."""
    done = subprocess.run([sys.executable, *map(str, words)], text=True, capture_output=True,
                          env={**os.environ, **(env or {})}, cwd=cwd, stdin=subprocess.DEVNULL,
                          timeout=120)
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Case(unittest.TestCase):
    """A test with a folder of its own, self.folder."""

    def setUp(self):
        temp = tempfile.TemporaryDirectory(prefix="opmeter-test-")
        self.addCleanup(temp.cleanup)
        self.folder = temp.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path
