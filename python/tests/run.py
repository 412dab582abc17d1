#!/usr/bin/env python3
"""run.py -- the tests of the Python package.

usage: python/tests/run.py [--build DIR] [PATTERN]

With the package of a build folder, or else with the one that Python finds. Prints one `ok` or `not
ok` line per test; PATTERN: only tests whose name has it.
"""
import argparse
import os
import sys
import traceback
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Tap(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.failed = False

    def say(self, test, ok, detail=""):
        print(f"{'ok' if ok else 'not ok'} {self.testsRun} - {test.id()}", flush=True)
        for line in detail.splitlines():
            print(f"# {line}", flush=True)
        self.failed |= not ok

    def addSuccess(self, test):
        self.say(test, True)

    def addFailure(self, test, error):
        self.say(test, False, "".join(traceback.format_exception(*error)))

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error:
            self.say(subtest, False, "".join(traceback.format_exception(*error)))

    def addSkip(self, test, reason):
        print(f"ok {self.testsRun} # SKIP {test.id()}: {reason}", flush=True)


def tests_of(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from tests_of(part)
        else:
            yield part


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path)
    parser.add_argument("pattern", nargs="?", default="")
    args = parser.parse_args()
    if args.build:
        package = str(args.build.resolve() / "python")
        sys.path.insert(0, package)
        os.environ["PYTHONPATH"] = package  # for the interpreters that tests start
    sys.path.insert(0, str(HERE))
    tests = [test for test in tests_of(unittest.TestLoader().discover(str(HERE)))
             if args.pattern in test.id()]
    print(f"1..{len(tests)}", flush=True)
    result = Tap()
    unittest.TestSuite(tests).run(result)
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
