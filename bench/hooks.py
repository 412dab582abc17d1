#!/usr/bin/env python3
"""hooks.py -- instructions that recording adds to an operator of PyTorch and to a call of CUDA.

usage: hooks.py [--build FOLDER] [FOLDER WITH LIBRARIES]...

Counts, by callgrind, what libopmeter-cuda and the recorder execute while PyTorch tells of an operator and
while CUPTI tells of a call, with stand-ins for both (tests/device): what those do themselves, and what
caches do, is not in it. The libraries of a build, or of several, to compare them.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEW, MANY = 200, 1200
# What one round of the stand-in does, and the functions that it calls.
OPERATORS, CALLS = 4, 1


def collected(command, functions, environment):
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, **environment, "OPMETER_OUTPUT": os.path.join(folder, "t.opm"),
               "OPMETER_CUDA_FLUSH_MS": "0"}
        done = subprocess.run(["valgrind", "--tool=callgrind", "--collect-atstart=no",
                               f"--callgrind-out-file={folder}/out",
                               *(f"--toggle-collect={name}" for name in functions), *command],
                              env=env, text=True, capture_output=True)
        found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
        if done.returncode or not found:
            sys.exit(f"hooks.py: {command[0]}: {done.stderr[-1000:]}")
        return int(found[1])


def each(command, functions, per_round, environment):
    """Between few and many rounds, so that what happens once counts for nothing."""
    few, many = (collected([*command, str(n)], functions, environment) for n in (FEW, MANY))
    return (many - few) / (MANY - FEW) / per_round


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("libraries", type=Path, nargs="*")
    args = parser.parse_args()
    tools = args.build / "tests" / "tools"
    print("| libraries of | an operator, both ends | a launch, both ends |\n|---|---:|---:|")
    for libraries in args.libraries or [args.build]:
        cuda = str(libraries.resolve() / "libopmeter-cuda.so")
        paths = {"LD_LIBRARY_PATH": str(libraries.resolve())}
        torch = each([str(tools / "opmeter-mock-torch"), cuda, str(tools / "libmock-torch-3.so"),
                      "many"], ["op_start", "op_end"], OPERATORS, paths)
        call = each([str(tools / "opmeter-mock-gpu"), "many"], ["called_back"], CALLS,
                    {**paths, "OPMETER_CUPTI_LIB": str(tools / "libmock-cupti.so"),
                     "CUDA_INJECTION64_PATH": cuda, "MOCK_CUPTI": "quick"})
        print(f"| {libraries} | {torch:.0f} | {call:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
