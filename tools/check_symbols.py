#!/usr/bin/env python3
"""check_symbols.py -- the libraries export what tests/abi/ lists, no more and no less.

usage: tools/check_symbols.py [--build DIR] [--update]

--update rewrites the lists from the build. The shared libraries are their ABI; in the static
archive every global name must begin with opm_, because it shares a program with other people's
names.
"""
import argparse
import difflib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ABI = ROOT / "tests" / "abi"

# list under tests/abi/, file in the build folder, arguments of nm
LIBRARIES = [
    ("libopmeter", "libopmeter.so", ["-D"]),
    ("libopmeter-static", "libopmeter.a", []),
    ("libopmeter-trace", "libopmeter-trace.so", ["-D"]),
    ("libopmeter-run", "libopmeter-run.so", ["-D"]),
]


def exported(path, how):
    """Sorted names of the global symbols that a library defines."""
    done = subprocess.run(
        ["nm", "--extern-only", "--defined-only", "--format=posix", *how, str(path)],
        text=True, capture_output=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return sorted({row[0] for row in rows if len(row) >= 2})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build" / "dev", type=Path)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()

    bad = 0
    for name, file, how in LIBRARIES:
        path = args.build / file
        if not path.exists():
            print(f"{path}: not built")
            bad += 1
            continue
        found = exported(path, how)
        for symbol in found:
            if not symbol.startswith("opm_"):
                print(f"{file}: global symbol {symbol} does not begin with opm_")
                bad += 1
        listed = ABI / f"{name}.symbols"
        if args.update:
            ABI.mkdir(parents=True, exist_ok=True)
            listed.write_text("".join(f"{symbol}\n" for symbol in found))
            continue
        expected = listed.read_text().splitlines() if listed.exists() else []
        diff = list(difflib.unified_diff(
            expected, found, f"tests/abi/{listed.name}", file, lineterm="", n=0))
        if diff:
            print("\n".join(diff))
            print(f"if the change is meant: tools/check_symbols.py --update --build {args.build}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
