#!/usr/bin/env python3
"""run.py -- install a build into an empty folder and use it from there, as other people would.

usage: tests/install/run.py [--build DIR | --installed PREFIX]

Programs in C and C++ are compiled with what pkg-config and find_package() say, against the shared
and the static library, and run with nothing in the environment that would help them find it; their
traces are read by the installed program and through the installed library. The same once more
after the installation was moved. At last it is taken away, and nothing may be left. --installed: only
the programs, with what somebody has installed. Prints one `ok` or `not ok` line per test.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# What the program of the README leaves to its reader.
README_STUBS = """
#define _POSIX_C_SOURCE 200809L
static void run_convolution(void);
static void postprocess(void);
%s
static void run_convolution(void) {}
static void postprocess(void) {}
"""


class Failure(Exception):
    pass


def run(*command, env=None, cwd=None):
    """Output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          env=env, cwd=cwd, stdin=subprocess.DEVNULL)
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
        work.mkdir()
        pc_dirs = sorted({path.parent for path in prefix.rglob("opmeter.pc")})
        if not pc_dirs:
            raise Failure("no .pc file was installed")
        self.lib = pc_dirs[0].parent
        self.env = {**os.environ, "PKG_CONFIG_PATH": str(pc_dirs[0])}
        self.env.pop("LD_LIBRARY_PATH", None)

    def flags(self, package, static):
        how = ["--static"] if static else []
        words = run("pkg-config", *how, "--cflags", "--libs", package, env=self.env).split()
        # With both libraries in one folder, the linker would take the shared one.
        return [f"-l:lib{package}.a" if static and word == f"-l{package}" else word
                for word in words]

    def compile(self, source, package, static=False):
        source = HERE / source
        program = self.work / f"{source.name.replace('.', '-')}-{'static' if static else 'shared'}"
        # Threads of the program's own are its own business before glibc 2.34.
        compiler = ["g++", "-std=c++14", "-pthread"] if source.suffix == ".cpp" \
            else ["gcc", "-std=c11"]
        run(*compiler, *WARN, source, "-o", program, *self.flags(package, static), env=self.env)
        needed = run("readelf", "-d", program)
        expect("needs the shared library", f"[lib{package}.so." in needed, not static)
        return program

    def query(self, trace, sql):
        return run(self.prefix / "bin" / "opmeter", "query", "--csv", trace, sql,
                   env=self.env).split()

    def record(self, source, static):
        """Compile, run, and count the operators in the trace with the installed program."""
        return self.recorded(self.compile(source, "opmeter", static))

    def recorded(self, program):
        trace = self.work / f"{program.name}.opm"
        run(program, trace, env=self.env)
        rows = self.query(trace, "SELECT count(*) AS n FROM span WHERE op IS NOT NULL")
        expect("operators in the trace", rows, ["n", "6"])
        return trace

    def read(self):
        trace = self.record("record.c", static=False)
        found = run(self.compile("read.c", "opmeter-trace"), trace, env=self.env)
        expect("operators in the trace", found, "6\n")

    def model(self):
        """The library and the program record through one and the same recorder."""
        self.ran(self.compile("run.c", "opmeter-run"))

    def ran(self, program):
        trace = self.work / f"{program.name}.opm"
        run(program, trace, env=self.env)
        found = self.query(trace, "SELECT count(*) AS n, count(DISTINCT step) AS steps FROM span "
                                  "WHERE op IS NOT NULL AND phase = 'forward'")
        expect("operators and steps in the trace", found, ["n,steps", "12,3"])

    def readme(self):
        """The program that the README shows, compiled as it says."""
        code = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
        source = self.work / "model.c"
        source.write_text(README_STUBS % code)
        run(*"cc model.c -o model".split(), *self.flags("opmeter", False), cwd=self.work)
        trace = self.work / "readme.opm"
        run(self.work / "model", env={**self.env, "OPMETER_OUTPUT": str(trace)})
        found = self.query(trace, "SELECT count(*) AS n, count(DISTINCT step) AS steps FROM span "
                                  "WHERE op IS NOT NULL")
        expect("operators and steps in the trace", found, ["n,steps", "100,100"])

    def cmake(self):
        """find_package() from a project of its own."""
        build = self.work / "cmake"
        run("cmake", "-S", HERE / "cmake", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            env=self.env)
        run("cmake", "--build", build, env=self.env)
        self.recorded(build / "record-shared")
        trace = self.recorded(build / "record-static")
        self.recorded(build / "record-cxx")
        expect("operators in the trace", run(build / "read", trace, env=self.env), "6\n")
        self.ran(build / "run")

    def cuda(self):
        """What CUDA loads into programs that are recorded; built without the toolkit, too."""
        expect("libopmeter-cuda.so is there", (self.lib / "libopmeter-cuda.so").is_file(), True)
        expect("libopmeter-llama.so is there", (self.lib / "libopmeter-llama.so").is_file(), True)

    def files(self):
        share = self.prefix / "share"
        man = {path.name for path in (share / "man" / "man1").iterdir()}
        expect("manual pages", man, {path.name for path in (ROOT / "docs" / "man").glob("*.1")})
        for name in ("doc/opmeter/LICENSE", "doc/opmeter/THIRD-PARTY-NOTICES",
                     "bash-completion/completions/opmeter", "zsh/site-functions/_opmeter",
                     "fish/vendor_completions.d/opmeter.fish"):
            expect(f"{name} has content", (share / name).stat().st_size > 100, True)
        for name in ("preact", "uPlot", "Cephes", "Eigen"):
            expect(f"{name} in the notices", name in
                   (share / "doc/opmeter/THIRD-PARTY-NOTICES").read_text(), True)

    def headers(self):
        have = {path.name for path in (self.prefix / "include" / "opmeter").iterdir()}
        want = {path.name for path in (ROOT / "include" / "opmeter").iterdir()}
        expect("headers", have, want)

    def nothing_inside(self):
        """No text file names the place where it was installed at first, or the build."""
        for path in self.prefix.rglob("*"):
            if path.suffix in (".pc", ".cmake") and path.is_file():
                for place in (str(ROOT), str(self.prefix), str(self.prefix.parent / "moved")):
                    expect(f"{path.name} names {place}", place in path.read_text(), False)


def target_builds(build):
    """All that is installed is built by the target that script/demo builds."""
    script = (build / "cmake_install.cmake").read_text()
    files = {Path(path) for path in re.findall(r'"([^"\n]+)"', script)
             if path.startswith(f"{build}/")}
    built = {path for path in files if path.suffix in (".a", ".so") or path.name == "opmeter"
             or ".so." in path.name or path.parent.name == "completions"}
    if len(built) < 10:
        raise Failure(f"only these are installed: {sorted(map(str, built))}")
    words = set(run("ninja", "-C", build, "-t", "commands", "opmeter_installed").split())
    # A library stands for the links to it.
    words |= {re.sub(r"(\.so(\.\d+)?).*", r"\1", word) for word in words if ".so." in word}
    expect("what opmeter_installed does not build",
           [str(path) for path in sorted(built) if str(path.relative_to(build)) not in words], [])
    demo = (ROOT / "script" / "demo").read_text()
    expect("script/demo builds it", "--target opmeter_installed" in demo, True)


def cmake_uninstall(build, **env):
    """Exit status and what it said."""
    done = subprocess.run(["cmake", "--build", str(build), "--target", "uninstall"], text=True,
                          capture_output=True, env={**os.environ, **env}, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def uninstall(build, prefix):
    """An installation that was added to a folder with a file of somebody else."""
    prefix.mkdir()
    (prefix / "lib").mkdir()
    (prefix / "lib" / "other").write_text("not ours")
    run("cmake", "--install", build, "--prefix", prefix)
    run("cmake", "--build", build, "--target", "uninstall")
    expect("what is left", left(prefix), ["lib", "lib/other"])
    status, said = cmake_uninstall(build)
    expect("a second one says why not", "nothing was installed" in said and status != 0, True)


def uninstall_system(build, root):
    """Of the system's folders those that are there before stay, of others none; above a prefix, all."""
    for prefix, before in (("/usr/local", ["usr", "usr/local", "usr/local/bin", "usr/local/include",
                                           "usr/local/lib", "usr/local/share", "usr/local/share/man"]),
                           ("/opt/some place", ["opt"]), ("/srv/a/b", ["srv", "srv/a"])):
        base = root / prefix.strip("/").split("/", 1)[0]
        for folder in before:
            (base / folder).mkdir(parents=True)
        env = {"DESTDIR": str(base)}
        run("cmake", "--install", build, "--prefix", prefix, env={**os.environ, **env})
        status, said = cmake_uninstall(build, DESTDIR=str(root / "elsewhere"))
        expect("another DESTDIR is refused", "was DESTDIR another one?" in said and status != 0, True)
        expect("uninstall", cmake_uninstall(build, **env)[0], 0)
        expect(f"what is left of {prefix}", left(base), sorted(before))


def tests_of(prefix, temp, how):
    inst = Install(prefix, temp / f"work-{how}")
    yield f"{how}: C program, shared library", lambda: inst.record("record.c", static=False)
    yield f"{how}: C program, static library", lambda: inst.record("record.c", static=True)
    yield f"{how}: C++ program, shared library", lambda: inst.record("record.cpp", static=False)
    yield f"{how}: C++ program, static library", lambda: inst.record("record.cpp", static=True)
    yield f"{how}: C program that reads", inst.read
    yield f"{how}: C program that runs a model", inst.model
    yield f"{how}: program of the README", inst.readme
    yield f"{how}: find_package()", inst.cmake


def all_tests(build, temp):
    prefix, moved = temp / "prefix", temp / "moved"
    run("cmake", "--install", build, "--prefix", prefix)
    inst = Install(prefix, temp / "work")
    yield "headers", inst.headers
    yield "manual, completions, notices", inst.files
    yield "recorder for CUDA", inst.cuda
    yield from tests_of(prefix, temp, "installed")
    shutil.move(prefix, moved)
    inst = Install(moved, temp / "work-at-last")
    yield "no file knows where it is", inst.nothing_inside
    yield from tests_of(moved, temp, "moved")
    yield "all of it is built by one target", lambda: target_builds(build)
    yield "uninstall", lambda: uninstall(build, temp / "other")
    yield "uninstall from folders of the system", lambda: uninstall_system(build, temp / "system")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build" / "dev", type=Path)
    parser.add_argument("--installed", type=Path)
    args = parser.parse_args()
    failed = number = 0
    with tempfile.TemporaryDirectory(prefix="opmeter-install-") as temp:
        temp = Path(temp)
        try:
            for name, test in tests_of(args.installed, temp, "installed") if args.installed \
                    else all_tests(args.build.resolve(), temp):
                number += 1
                try:
                    test()
                    print(f"ok {number} - {name}", flush=True)
                except Failure as error:
                    print(f"not ok {number} - {name}")
                    print("".join(f"# {line}\n" for line in str(error).splitlines()), end="")
                    failed += 1
        except Failure as error:
            print(f"not ok {number + 1} - install\n# {error}")
            failed += 1
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
