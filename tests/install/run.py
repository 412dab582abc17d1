#!/usr/bin/env python3
"""run.py -- install a build into an empty folder and use it from there, as other people would.

usage: tests/install/run.py [--build DIR]

Programs in C and C++ are compiled with what pkg-config says, against the shared and the static
library; their traces are read by the installed program and through the installed library. Prints
one `ok` or `not ok` line per test.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


class Failure(Exception):
    pass


def run(*command, env=None):
    """Output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          env=env, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"exit {done.returncode}: {' '.join(map(str, command))}\n"
                      + done.stdout + done.stderr)
    return done.stdout


def expect(what, found, wanted):
    if found != wanted:
        raise Failure(f"{what}: found {found!r}, expected {wanted!r}")


class Install:
    """An installation under `prefix`, with room for programs in `work`."""

    def __init__(self, prefix, work):
        self.prefix, self.work = prefix, work
        pc_dirs = sorted({path.parent for path in prefix.rglob("*.pc")})
        if not pc_dirs:
            raise Failure("no .pc file was installed")
        self.lib = pc_dirs[0].parent
        self.env = {**os.environ, "PKG_CONFIG_PATH": str(pc_dirs[0]),
                    "LD_LIBRARY_PATH": str(self.lib)}

    def flags(self, package, static):
        how = ["--static"] if static else []
        words = run("pkg-config", f"--define-variable=prefix={self.prefix}", *how, "--cflags",
                    "--libs", package, env=self.env).split()
        # With both libraries in one folder, the linker would take the shared one.
        return [f"-l:lib{package}.a" if static and word == f"-l{package}" else word
                for word in words]

    def compile(self, source, package, static=False):
        program = self.work / f"{source.replace('.', '-')}-{'static' if static else 'shared'}"
        compiler = ["g++", "-std=c++14"] if source.endswith(".cpp") else ["gcc", "-std=c11"]
        run(*compiler, *WARN, HERE / source, "-o", program, *self.flags(package, static),
            env=self.env)
        needed = run("readelf", "-d", program)
        expect("needs the shared library", f"[lib{package}.so." in needed, not static)
        return program

    def record(self, source, static):
        """Compile, run, and count the operators in the trace with the installed program."""
        program = self.compile(source, "opmeter", static)
        trace = self.work / f"{program.name}.opm"
        run(program, trace, env=self.env)
        rows = run(self.prefix / "bin" / "opmeter", "query", "--csv", trace,
                   "SELECT count(*) AS n FROM span WHERE op IS NOT NULL")
        expect("operators in the trace", rows.split(), ["n", "6"])
        return trace

    def read(self):
        trace = self.record("record.c", static=False)
        found = run(self.compile("read.c", "opmeter-trace"), trace, env=self.env)
        expect("operators in the trace", found, "6\n")

    def model(self):
        """The library and the program record through one and the same recorder."""
        trace = self.work / "model.opm"
        run(self.compile("run.c", "opmeter-run"), trace, env=self.env)
        found = run(self.prefix / "bin" / "opmeter", "query", "--csv", trace,
                    "SELECT count(*) AS n, count(DISTINCT step) AS steps FROM span "
                    "WHERE op IS NOT NULL AND phase = 'forward'")
        expect("operators and steps in the trace", found.split(), ["n,steps", "12,3"])

    def manual(self):
        man = self.prefix / "share" / "man" / "man1" / "opmeter.1"
        expect(f"{man} is there", man.is_file(), True)

    def headers(self):
        have = {path.name for path in (self.prefix / "include" / "opmeter").iterdir()}
        want = {path.name for path in (ROOT / "include" / "opmeter").iterdir()}
        expect("headers", have, want)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build" / "dev", type=Path)
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="opmeter-install-") as temp:
        prefix, work = Path(temp) / "prefix", Path(temp) / "work"
        work.mkdir()
        try:
            run("cmake", "--install", args.build, "--prefix", prefix)
            inst = Install(prefix, work)
        except Failure as error:
            print(f"1..1\nnot ok 1 - install\n# {error}")
            return 1
        tests = [
            ("C program, shared library", lambda: inst.record("record.c", static=False)),
            ("C program, static library", lambda: inst.record("record.c", static=True)),
            ("C++ program, shared library", lambda: inst.record("record.cpp", static=False)),
            ("C++ program, static library", lambda: inst.record("record.cpp", static=True)),
            ("C program that reads", inst.read),
            ("C program that runs a model", inst.model),
            ("headers", inst.headers),
            ("manual", inst.manual),
        ]
        print(f"1..{len(tests)}")
        for number, (name, test) in enumerate(tests, 1):
            try:
                test()
                print(f"ok {number} - {name}", flush=True)
            except Failure as error:
                print(f"not ok {number} - {name}")
                print("".join(f"# {line}\n" for line in str(error).splitlines()), end="")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
