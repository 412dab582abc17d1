#!/usr/bin/env python3
"""campaign.py -- so many dirty events and mutated files through every fuzzer, and what came of it.

usage: tests/fuzz/campaign.py [--build DIR] [--events N] [--files N] [--jobs N] [FUZZER...]

Runs the fuzzers of the preset `fuzz`. Those with a grammar (grammars/x.gram) first read texts made
from it, with N events in all (default 1000000); then each reads N files (default 100000) mutated
from its corpus and from those texts. A finding is whatever the sanitizers say, and a file that
takes over a second of processor time. Findings stay in DIR/findings; exit status 1 if there are
any. New inputs that reach new code stay in DIR/corpus, as in script/test --long.
"""
import argparse
import os
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import words

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests" / "fuzz"
SLOW_S = 1.0
STOPPED_S = 300  # of wall time: others may use the machine, too
MAX_LEN = 16384
ENV = {
    **os.environ,
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1"
                    ":allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


class Fuzzer:
    def __init__(self, program, build):
        self.program, self.name = program, program.name
        self.findings = build / "findings" / self.name
        self.corpus = build / "corpus" / self.name
        self.seeds = HERE / "corpus" / self.name
        self.dictionary = words.dictionary(self.name, build / "dict")
        self.grammar = HERE / "grammars" / f"{self.name}.gram"
        self.events = self.texts = self.files = self.slow = 0
        self.failed = []

    def run(self, runs, env):
        for folder in (self.findings, self.corpus):
            folder.mkdir(parents=True, exist_ok=True)
        command = [self.program, f"-runs={runs}", f"-max_len={MAX_LEN}", "-len_control=0",
                   f"-timeout={STOPPED_S}", "-report_slow_units=1", "-rss_limit_mb=3000",
                   "-print_final_stats=1", f"-artifact_prefix={self.findings}/"]
        command += self.dictionary
        command += [self.corpus, *([self.seeds] if self.seeds.is_dir() else [])]
        done = subprocess.run(command, env={**ENV, **env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = done.stdout.decode("utf-8", "replace")
        with open(self.findings / "log", "a") as log:
            log.write(output)
        if done.returncode:
            said = re.search(r"^(?:==\d+==ERROR: |SUMMARY: |.*runtime error: )(.*)$", output, re.M)
            self.failed.append(said[1] if said else f"exit status {done.returncode}")
        return output

    def make(self, events):
        output = self.run(10**12, {"OPMETER_FUZZ_MAKE": str(events)})
        made = re.search(r"made (\d+) events in (\d+) texts", output)
        if made:
            self.events, self.texts = int(made[1]), int(made[2])
        elif not self.failed:
            self.failed.append("made no events")

    def mutate(self, files):
        output = self.run(files, {})
        done = re.search(r"stat::number_of_executed_units: (\d+)", output)
        self.files = int(done[1]) if done else 0

    def check_slow(self):
        """Files that seemed slow, again, by the time that the processor took for them."""
        for unit in sorted(self.findings.glob("slow-unit-*")):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([self.program, unit], env=ENV, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if after.ru_utime - before.ru_utime > SLOW_S:
                self.slow += 1
                self.failed.append(f"slow: {unit.name}")
            else:
                unit.unlink()


def campaign(fuzzer, args):
    start = time.monotonic()
    if fuzzer.grammar.exists() and args.events:
        fuzzer.make(args.events)
    if args.files and not fuzzer.failed:
        fuzzer.mutate(args.files)
    told = "; ".join(fuzzer.failed) or "nothing"
    print(f"{fuzzer.name:<24} {fuzzer.events:>9} {fuzzer.texts:>9} {fuzzer.files:>9} "
          f"{time.monotonic() - start:>8.0f}  {told}", flush=True)
    return fuzzer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--events", type=int, default=10**6)
    parser.add_argument("--files", type=int, default=10**5)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("fuzzers", nargs="*")
    args = parser.parse_args()

    build = args.build.resolve()
    programs = sorted(path for path in build.rglob("fuzz_*")
                      if path.is_file() and not path.suffix and os.access(path, os.X_OK))
    fuzzers = [Fuzzer(path, build) for path in programs
               if not args.fuzzers or path.name in args.fuzzers]
    if not fuzzers:
        print(f"campaign.py: no such fuzzers in {build}: cmake --build --preset fuzz")
        return 1
    print(f"{'fuzzer':<24} {'events':>9} {'texts':>9} {'files':>9} {'seconds':>8}  found")
    with ThreadPoolExecutor(args.jobs) as pool:
        done = list(pool.map(lambda fuzzer: campaign(fuzzer, args), fuzzers))
    for fuzzer in done:
        fuzzer.check_slow()
    found = [f"{fuzzer.name}: {what}" for fuzzer in done for what in fuzzer.failed]
    print(f"{sum(f.events for f in done)} events, {sum(f.files for f in done)} files, "
          f"{len(found)} findings")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
