#!/usr/bin/env python3
"""run.py -- compare opmeter's figures with those that the programs beside compute from raw files.

usage: tests/oracle/run.py --build build/dev [--shared DIR] [--only TEXT]... [--report FILE] [--list]

A figure that differs beyond rounding is a failure, unless known_wrong.list names it; one that is
listed there and agrees is a failure, too, so that the list only shrinks. Prints TAP.
"""
import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import cases_diff
import cases_flops
import cases_four_ways
import cases_generate
import cases_graphs
import cases_llm
import cases_kineto
import cases_mindspore
import cases_others
import cases_parquet
import cases_planted
import cases_seeds
import cases_windows
from compare import Case, SHOWN
from program import Opmeter

HERE = Path(__file__).resolve().parent
KNOWN = HERE / "known_wrong.list"
FIXTURES = HERE.parent.parent.parent / "shared" / "fixtures"


def known_wrong():
    """case/question to what is said about it."""
    known = {}
    for line in KNOWN.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, text = line.partition(": ")
            known[name] = text
    return known


def all_cases(opmeter, fixtures, work):
    """(name, function of a Case) of everything that can be compared here."""
    for module in (cases_diff, cases_planted, cases_windows, cases_graphs, cases_llm,
                   cases_generate, cases_parquet):
        yield from module.cases(opmeter, work)
    for module in (cases_four_ways, cases_flops):
        yield from module.cases(opmeter, fixtures, work)
    if fixtures.is_dir():
        for module in (cases_kineto, cases_mindspore, cases_seeds, cases_others):
            yield from module.cases(opmeter, fixtures)
        yield from cases_graphs.serving_cases(opmeter, fixtures)


wanted = []  # processes that are forked find their cases here


def ask(number):
    name, work = wanted[number]
    case = Case(name)
    start = time.monotonic()
    try:
        work(case)
    except Exception as error:
        case.check("all", lambda: fail(error), "an answer", "the case itself")
    return case, time.monotonic() - start


def fail(error):
    raise error


def report(path, outcomes):
    """The disagreements, for people."""
    wrong = [o for o in outcomes if o.differences]
    lines = [f"# Figures of opmeter that differ from the oracle ({len(wrong)} of {len(outcomes)})",
             "", "`case/question`: opmeter's answer, should be the truth; where the truth is from", ""]
    for o in wrong:
        lines.append(f"- `{o.case}/{o.question}` ({o.source}):")
        lines += [f"    - {line}" for line in o.differences[:SHOWN]]
        if len(o.differences) > SHOWN:
            lines.append(f"    - and {len(o.differences) - SHOWN} more")
    Path(path).write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--shared", type=Path, default=FIXTURES, help="folder of the fixtures")
    parser.add_argument("--only", action="append", default=[], help="cases that contain this")
    parser.add_argument("--report", help="write the disagreements there")
    parser.add_argument("--list", action="store_true",
                        help="print lines of known_wrong.list for what differs, instead of TAP")
    parser.add_argument("--slow", action="store_true", help="say how long each case takes")
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()

    known, outcomes = known_wrong(), []
    with tempfile.TemporaryDirectory(prefix="opmeter-oracle-") as work:
        opmeter = Opmeter(args.build)
        wanted[:] = [named for named in all_cases(opmeter, args.shared, Path(work))
                     if not args.only or any(text in named[0] for text in args.only)]
        with multiprocessing.get_context("fork").Pool(args.j) as pool:
            for case, seconds in pool.imap(ask, range(len(wanted))):
                outcomes += case.outcomes
                if args.slow:
                    print(f"# {seconds:6.2f} s {case.name}", file=sys.stderr)
    if args.report:
        report(args.report, outcomes)
    if args.list:
        for o in outcomes:
            if o.differences:
                more = len(o.differences) - 1
                print(f"{o.case}/{o.question}: {o.differences[0]}"
                      + (f" (and {more} more)" if more else ""))
        return 0
    return judge(outcomes, known, args)


def judge(outcomes, known, args):
    """Print what the comparison came to; the exit status."""
    failed = 0
    for o in outcomes:
        name = f"{o.case}/{o.question}"
        if bool(o.differences) == (name in known):
            print(f"ok - {name}" + (f" (known to be wrong: {known[name]})" if o.differences else ""))
            continue
        failed += 1
        print(f"not ok - {name}")
        if o.differences:
            print(f"# truth: {o.source}")
            for line in o.differences[:SHOWN]:
                print(f"# {line}")
            if len(o.differences) > SHOWN:
                print(f"# and {len(o.differences) - SHOWN} more")
        else:
            print("# it agrees now: remove it from tests/oracle/known_wrong.list")
    asked = {f"{o.case}/{o.question}" for o in outcomes}
    if not args.shared.is_dir():
        print(f"ok - # SKIP oracle on fixtures: no folder {args.shared}")
    elif not args.only:
        for name in sorted(set(known) - asked):
            failed += 1
            print(f"not ok - {name}\n# nobody asks this any more: remove it from the list")
    print(f"1..{len(outcomes)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
