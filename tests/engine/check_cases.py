#!/usr/bin/env python3
"""Run the cases of tests/engine/cases/ through the native engine and compare with the reference.

usage: check_cases.py OPMETER [NAME...]
"""

import pathlib
import subprocess
import sys
import tempfile

from machine import PATIENCE

FOLDER = pathlib.Path(__file__).parent / "cases"


def main():
    names = sys.argv[2:] or sorted(p.stem for p in FOLDER.glob("*.onnx"))
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        for name in names:
            done = subprocess.run(
                [sys.argv[1], "run", FOLDER / f"{name}.onnx", "--check", FOLDER / f"{name}.npz",
                 "-n", "2", "-w", "0", "-q", "-o", tmp], capture_output=True, text=True,
                timeout=120 * PATIENCE)
            if done.returncode:
                print(f"{name}: exit {done.returncode}: {done.stderr.strip()}")
                failed += 1
    print(f"{len(names) - failed} pass, {failed} fail")
    return failed > 0 or not names


if __name__ == "__main__":
    sys.exit(main())
