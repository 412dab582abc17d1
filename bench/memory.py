#!/usr/bin/env python3
"""memory.py -- memory that reading takes, as a multiple of the file, for every format.

  memory.py [--build DIR] [--mb MB] [KIND ...]

Reads files of --mb megabytes (default 32) that tests/tools/make_large.py makes (its --list has the kinds), and what
`opmeter import` makes of one. Printed are the resident memory of `opmeter info` at its peak, less that of reading
nothing, and its share of anonymous memory: a plain file is mapped, and its pages count as resident, too, while the
kernel has no other use for them.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAKE = ROOT / "tests" / "tools" / "make_large.py"


def peak(command):
    """Highest resident size of a command in bytes, and whether it succeeded."""
    with open(os.devnull, "wb") as null:
        child = subprocess.Popen(command, stdout=null, stderr=subprocess.PIPE)
        error = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"memory.py: {' '.join(map(str, command))}: {error.decode(errors='replace').strip()}")
    return usage.ru_maxrss * 1024


def allocated(opmeter, path, most):
    """The least --max-memory with which it is read, to some percent."""
    low, high = 0, most
    while high - low > max(high // 50, 65536):
        middle = (low + high) // 2
        done = subprocess.run([opmeter, "info", "--max-memory", str(max(middle, 1)), path], capture_output=True, check=False)
        low, high = (middle, high) if done.returncode else (low, middle)
    return high


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--mb", default=32, type=float)
    parser.add_argument("kinds", nargs="*")
    args = parser.parse_args()
    opmeter = args.build / "opmeter"
    listed = subprocess.run([MAKE, "--list"], capture_output=True, text=True, check=True).stdout.split()
    print(f"{'kind':20} {'file':>10} {'resident':>9} {'allocated':>10}   times the file")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace")
        empty = os.path.join(folder, "empty.json")
        pathlib.Path(empty).write_text('{"traceEvents":[]}', encoding="ascii")
        nothing = peak([opmeter, "info", empty])
        for kind in args.kinds or [*listed, "opm"]:
            made = "chrome" if kind == "opm" else kind
            subprocess.run([MAKE, made, str(int(args.mb * 1e6)), path], check=True)
            if kind == "opm":
                subprocess.run([opmeter, "import", path, "-o", path + ".opm"], check=True, capture_output=True)
                os.replace(path + ".opm", path)
            size = os.path.getsize(path)
            resident = peak([opmeter, "info", path]) - nothing
            print(f"{kind:20} {size / 1e6:7.1f} MB {resident / size:9.2f} {allocated(opmeter, path, 4 * resident + (64 << 20)) / size:10.2f}", flush=True)


if __name__ == "__main__":
    main()
