#!/usr/bin/env python3
"""musl.py -- the recorder with musl, by Debian's musl-gcc: built, used, killed, and what it left is read.

usage: tests/install/musl.py [--build DIR]

The program that reads is that of the build, with glibc. Prints one `ok` or `not ok` line per test;
without musl-gcc all are skipped.
"""
import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wstrict-prototypes", "-Werror"]
# The kernel's headers, which do not come with musl; after all others.
MACHINE = subprocess.run(["cc", "-dumpmachine"], capture_output=True, text=True).stdout.strip()
KERNEL = ["-idirafter", "/usr/include", "-idirafter", f"/usr/include/{MACHINE}"]
ENDED = 5000  # operators that a thread says have ended before it is killed


class Failure(Exception):
    pass


def run(*command):
    """Output of a command that must succeed."""
    done = subprocess.run(list(map(str, command)), text=True, capture_output=True)
    if done.returncode:
        raise Failure(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Musl:
    def __init__(self, opmeter, folder):
        self.opmeter, self.folder = opmeter, folder
        self.musl = ["musl-gcc", "-std=c17", "-O2", "-fPIC", "-fvisibility=hidden", *WARN, *KERNEL,
                     "-I", ROOT / "include"]

    def libraries(self):
        """The recorder as libopmeter.a and libopmeter.so, without a warning."""
        version = (ROOT / "VERSION").read_text().split()[0]
        sources = [*sorted((ROOT / "src" / "rec").glob("*.c")), ROOT / "src" / "base" / "error.c"]
        for source in sources:
            run(*self.musl, "-D_GNU_SOURCE", f'-DOPMETER_VERSION="{version}"', "-I", ROOT / "src",
                "-include", ROOT / "src" / "base" / "banned.h", "-c", source,
                "-o", self.folder / f"{source.stem}.o")
        objects = [self.folder / f"{source.stem}.o" for source in sources]
        run("ar", "rcs", self.folder / "libopmeter.a", *objects)
        run("musl-gcc", "-shared", *objects, "-o", self.folder / "libopmeter.so",
            f"-Wl,--version-script={ROOT}/src/rec/exports.map", "-Wl,-z,defs")

    def static(self):
        program = self.folder / "killed-static"
        run(*self.musl, "-static", HERE / "killed.c", "-o", program, self.folder / "libopmeter.a")
        self.killed(program)

    def shared(self):
        program = self.folder / "killed-shared"
        run(*self.musl, HERE / "killed.c", "-o", program, *self.linked())
        self.killed(program)

    def plugin(self):
        """The recorder comes with a library that is loaded by dlopen()."""
        program, plugin = self.folder / "killed-loader", self.folder / "plugin.so"
        run(*self.musl, "-DPLUGIN", "-shared", HERE / "killed.c", "-o", plugin, *self.linked())
        run(*self.musl, "-DLOADER", HERE / "killed.c", "-o", program)
        self.killed(program, plugin)

    def linked(self):
        return ["-L", self.folder, "-l:libopmeter.so", f"-Wl,-rpath,{self.folder}"]

    def killed(self, program, *more):
        """Every operator that the program said had ended is in what it left when it was killed."""
        trace = program.with_suffix(".opm")
        process = subprocess.Popen([program, trace, *more], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        said = 0
        for line in process.stdout:
            said = max(said, int(line))
            if said >= ENDED:
                break
        process.kill()
        error = process.communicate()[1]
        if said < ENDED:
            raise Failure(f"{program.name} said {said} and ended: {error}")
        most = run(self.opmeter, "query", "--csv", trace,
                   "SELECT max(n) FROM (SELECT count(*) AS n FROM span WHERE op IS NOT NULL GROUP BY track)")
        if int(most.split()[-1]) < said:
            raise Failure(f"{program.name} said {said}, in the trace are {most.split()[-1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    opmeter = parser.parse_args().build.resolve() / "opmeter"
    failed = 0
    with tempfile.TemporaryDirectory(prefix="opmeter-musl-") as folder:
        musl = Musl(opmeter, Path(folder))
        tests = (("the recorder builds with musl", musl.libraries), ("linked statically, killed", musl.static),
                 ("linked, killed", musl.shared), ("loaded, killed", musl.plugin))
        for number, (title, test) in enumerate(tests, 1):
            if not shutil.which("musl-gcc"):
                print(f"ok {number} # SKIP {title}: musl-gcc is not installed (musl-tools)")
                continue
            try:
                test()
                print(f"ok {number} - {title}", flush=True)
            except Failure as error:
                failed += 1
                print(f"not ok {number} - {title}")
                print("".join(f"# {line}\n" for line in str(error).splitlines()), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
