#!/usr/bin/env python3
"""check_headers.py -- each public header compiles alone and without a warning, as C11 and C++14.

opmeter.h is also tried with recording compiled out.
"""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LANGUAGES = [
    ["gcc", "-std=c11", "-x", "c"],
    ["g++", "-std=c++14", "-x", "c++"],
]
FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}"]


def main():
    bad = 0
    for header in sorted((ROOT / "include" / "opmeter").glob("*.h")):
        # Twice, so that a missing guard shows too.
        source = f"#include <opmeter/{header.name}>\n" * 2
        variants = [[], ["-DOPM_ENABLED=0"]] if header.name == "opmeter.h" else [[]]
        for language in LANGUAGES:
            for defines in variants:
                command = language + FLAGS + defines + ["-"]
                done = subprocess.run(command, input=source, text=True, capture_output=True)
                if done.returncode != 0:
                    print(f"{header.relative_to(ROOT)} fails under: {' '.join(command)}")
                    print(done.stderr, end="")
                    bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
