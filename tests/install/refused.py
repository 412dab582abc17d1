#!/usr/bin/env python3
"""refused.py -- CMake refuses machines that opmeter does not run on, in one line.

usage: tests/install/refused.py

Compilers for a machine of 32 bits and for a big-endian one are clang's, which need no libraries to say
what they build for. Prints one `ok` or `not ok` line per test.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MACHINES = [("32 bits", "i686-linux-gnu"), ("big-endian", "s390x-linux-gnu"),
            ("32 bits, big-endian", "powerpc-linux-gnu")]
WANTED = "opmeter needs a 64-bit little-endian machine (docs/platforms.md)"


def configured(target, folder):
    """What CMake says; nothing is linked, so the compiler alone will do."""
    words = [f"-DCMAKE_{language}_COMPILER{what}" for language, name in (("C", "clang"), ("CXX", "clang++"))
             for what in (f"={name}", f"_TARGET={target}")]
    done = subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *words,
                           "-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={target.split('-')[0]}",
                           "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stderr


def main():
    if not shutil.which("clang++"):
        print("ok 1 - refused machines # SKIP clang is not installed")
        return 0
    failed = 0
    for number, (name, target) in enumerate(MACHINES, 1):
        with tempfile.TemporaryDirectory(prefix="opmeter-refused-") as folder:
            status, said = configured(target, folder)
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        good = status != 0 and WANTED in lines \
            and sum(bool(re.match("CMake (Error|Warning)", line)) for line in lines) == 1
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name} ({target})")
        if not good:
            print("".join(f"# {line}\n" for line in [f"exit status {status}", *lines]), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
