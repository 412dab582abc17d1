#!/usr/bin/env python3
"""check_symbols.py -- the libraries export what tests/abi/ lists, no more and no less.

usage: tools/check_symbols.py [--build DIR] [--update]

--update rewrites the lists from the build. The shared libraries are their ABI; in the static
archive every global name must begin with opm_, because it shares a program with other people's
names. And nothing that others load asks for the environment but by secure_getenv(), or starts a
shell: a program may have privileges that its user lacks.
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

# Loaded into other people's programs, and what these must not use.
LOADED = ["libopmeter.so", "libopmeter.a", "libopmeter-trace.so", "libopmeter-run.so",
          "libopmeter-cuda.so", "libopmeter-llama.so", "python/opmeter/_*.so"]
FORBIDDEN = {"getenv", "__secure_getenv", "system", "popen", "execvp", "execlp"}


def imported(path):
    """Names of the symbols that a library takes from others."""
    how = [] if path.suffix == ".a" else ["-D"]
    done = subprocess.run(["nm", "--undefined-only", "--format=posix", *how, str(path)],
                          text=True, capture_output=True, check=True)
    return {line.split()[0].split("@")[0] for line in done.stdout.splitlines() if line.strip()}


def exported(path, how):
    """Sorted names of the global symbols that a library defines."""
    done = subprocess.run(
        ["nm", "--extern-only", "--defined-only", "--format=posix", *how, str(path)],
        text=True, capture_output=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    # The nodes of the versions are there as absolute symbols.
    return sorted({row[0] for row in rows if len(row) >= 2 and row[1] != "A"})


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
            if path.suffix == ".so" and "@@OPMETER_" not in symbol:
                print(f"{file}: {symbol} has no version")
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
    for pattern in LOADED:
        for path in sorted(args.build.glob(pattern)):
            for symbol in sorted(imported(path) & FORBIDDEN):
                print(f"{path.name}: uses {symbol}(), which a privileged program must not")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
