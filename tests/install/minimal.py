#!/usr/bin/env python3
"""minimal.py -- hold a minimal build (preset `minimal`) to its word: POSIX alone, and what it left out.

usage: tests/install/minimal.py [--build DIR]

What the program asks of the C library must be on the list beside this script, posix.txt. Commands
that are left out say so in a line. Prints one `ok` or `not ok` line per test.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LEFT_OUT = ["run zoo:lenet", "record true", "zoo", "bench a b", "doctor"]
# What compilers and the C library's own headers make of the code.
BEHIND = re.compile(r"__(libc_start_main|cxa_finalize|gmon_start__|errno_location|stack_chk_fail|assert_fail"
                    r"|ctype_\w+_loc|isoc\d+_\w+|tls_get_addr|memcpy_chk|sigsetjmp|fpclassifyl?|signbitl?)$")


def output(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def posix():
    """Names on the list; a line that begins with # says what they are for."""
    lines = (HERE / "posix.txt").read_text(encoding="utf-8").splitlines()
    return {name for line in lines if not line.startswith("#") for name in line.split()}


def asked(program):
    """Names that a program asks of the C library."""
    for line in output("nm", "-D", "--undefined-only", program).splitlines():
        name = line.split()[-1]
        if "@GLIBC_" in name:
            yield name.split("@")[0]


def only_posix(build):
    known = posix()
    return [f"{file} asks for {name}, which is not on the list of POSIX (tests/install/posix.txt)"
            for file in ("opmeter", "libopmeter-trace.so")
            for name in sorted(set(asked(build / file)))
            if name not in known and not BEHIND.match(name)]


def left_out(build):
    wrong = []
    for words in LEFT_OUT:
        done = subprocess.run([build / "opmeter", *words.split()], capture_output=True, text=True)
        if done.returncode != 1 or done.stdout or done.stderr.count("\n") != 1 \
                or not done.stderr.startswith(f"opmeter: opmeter {words.split()[0]} needs the recorder"):
            wrong.append(f"opmeter {words}: exit status {done.returncode}, {done.stdout + done.stderr!r}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "minimal")
    build = parser.parse_args().build.resolve()
    failed = 0
    for number, (title, test) in enumerate((("POSIX alone", only_posix), ("commands left out", left_out)), 1):
        wrong = test(build)
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} - {title}")
        print("".join(f"# {line}\n" for line in wrong), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
