"""tap.py -- read the results that test programs print, one `ok` or `not ok` line per test.

This is what cmocka writes under CMOCKA_MESSAGE_OUTPUT=TAP, and tests/diff/run.py with --tap.
"""
import re
from collections import namedtuple

# outcome: passed, failed or skipped; detail: lines that explain it
Result = namedtuple("Result", "outcome name detail")

PLAN = re.compile(r"1\.\.(\d+)\s*$")
LINE = re.compile(r"(not )?ok\b\s*\d*\s*(?:- )?(.*)$")
SKIP = re.compile(r"#\s*SKIP\S*\s*(.*)$", re.IGNORECASE)


def parse(text):
    """The results in `text`. A program that stopped before its last test gets a failure for it."""
    results, planned = [], 0
    for line in text.splitlines():
        plan, result = PLAN.match(line), LINE.match(line)
        if plan:
            planned += int(plan[1])
        elif result:
            skip = SKIP.search(result[2])
            if skip:
                results.append(Result("skipped", skip[1], []))
            else:
                results.append(Result("failed" if result[1] else "passed", result[2], []))
        elif results and results[-1].outcome == "failed":
            results[-1].detail.append(line.removeprefix("# "))
    if len(results) < planned:
        results.append(Result("failed", f"stopped after {len(results)} of {planned} tests", []))
    return results
