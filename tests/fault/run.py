#!/usr/bin/env python3
"""run.py -- every system call of a program fails once; it says so, or does without.

usage: tests/fault/run.py --build DIR [--only WORD] [--all]

For each program below, each function and each way to fail: the 1st call fails, then the 2nd, until
the program comes to its end before that. What must hold after each is said by the program's check.
Beyond the first 6 calls of a function only some are taken, unless --all; and fewer where
everything takes long, as OPMETER_TEST_PATIENCE says.
"""
import argparse
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WAYS = {
    "open": ["EMFILE", "EACCES", "EINTR"],
    "read": ["EIO", "EINTR", "short"],
    "write": ["ENOSPC", "ENOSPC:on", "EIO", "EINTR", "short"],
    "close": ["EIO", "ENOSPC"],
    "mmap": ["ENOMEM"],
    "munmap": ["ENOMEM"],
    "ftruncate": ["EIO", "ENOSPC"],
    "fallocate": ["ENOSPC", "ENOSPC:on", "EINTR"],
    "rename": ["EIO", "ENOSPC"],
    "unlink": ["EACCES"],
    "mkdir": ["ENOSPC", "EACCES"],
    "fsync": ["EIO", "ENOSPC"],
    "stat": ["EIO", "ENOMEM"],
    "fork": ["EAGAIN", "ENOMEM"],
    "wait": ["EINTR", "ECHILD"],
    "dup": ["EMFILE"],
    "pthread_create": ["EAGAIN"],
}
FULL = 6  # calls of a function that all fail in turn
PATIENCE = int(os.environ.get("OPMETER_TEST_PATIENCE", "1"))
LIMIT_S = 60 * PATIENCE


class Failure(Exception):
    """What did not hold."""


def environment(**more):
    """Ours without what starts recordings, and the given."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPMETER_", "FAULT"))}
    env.update(more)
    return env


class Rig:
    """Where everything is."""

    def __init__(self, build, folder):
        self.opmeter = str(build / "opmeter")
        self.worker = str(build / "tests/fault/fault_worker")
        self.shim = str(build / "tests/fault/fault_shim.so")
        # An emulator's loader, or that of a program of this machine, cannot load what is for another.
        self.emulated = machine(self.opmeter) != machine(os.path.realpath(sys.executable))
        self.folder = folder
        self.trace = str(folder / "model" / "trace.opm")
        self.source = str(folder / "source.json")

    def prepare(self):
        """The trace that commands read, and a foreign file of the same."""
        model = ["run", "zoo:mlp", "-n", "3", "-w", "1", "-o", str(self.folder / "model")]
        export = ["export", self.trace, "-f", "chrome", "-o", self.source]
        for words in model, export:
            subprocess.run([self.opmeter] + words, check=True, env=environment(),
                           stdout=subprocess.DEVNULL)

    def run(self, argv, cwd, fault="", **env):
        """(exit status, stdout, stderr, whether the call that was to fail was made)"""
        report = cwd / "report"
        more = dict(env)
        if fault:
            more.update(LD_PRELOAD=self.shim, FAULT=fault, FAULT_REPORT=str(report))
            # Sanitizers want to come first, and leaks are searched with threads of their own.
            more["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
        try:
            done = subprocess.run(argv, cwd=cwd, env=environment(**more), capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failure("hangs") from late
        failed = report.exists()
        report.unlink(missing_ok=True)
        err = done.stderr.decode()
        if self.emulated:
            err = "".join(line for line in err.splitlines(keepends=True)
                          if not line.startswith(f"ERROR: ld.so: object '{self.shim}' "))
        return done.returncode, done.stdout.decode(), err, failed


def machine(program):
    """What a program is built for, as its header has it."""
    with open(program, "rb") as file:
        return file.read(20)[18:]


def no_crash(status, err):
    if status < 0:
        raise Failure(f"ended by {signal.Signals(-status).name}: {err[-2000:]}")
    if "Sanitizer" in err:
        raise Failure(err[-3000:])


def harmless(fault):
    """Whoever reads and writes has to go on after that."""
    return fault.startswith(("read:", "write:")) and fault.split(":")[2] in (
        "short", str(errno.EINTR))


def one_line(err, most=1):
    """A complaint is one line of ours; libxlsxwriter says more by itself."""
    lines = [line for line in err.splitlines() if not line.startswith("[ERROR]")]
    if not 1 <= len(lines) <= most or not lines[0].startswith("opmeter: ") or len(lines[0]) < 15:
        raise Failure(f"one clear line was expected, not {err!r}")


class Writes:
    """A command of opmeter that leaves files under a name, all of them or none."""

    def __init__(self, name, words, output, deterministic=True, lines=1):
        self.name = name
        self.words = words
        self.output = output
        self.deterministic = deterministic
        self.lines = lines
        self.reference = None

    def contents(self, path):
        if path.suffix == ".xlsx":
            try:
                with zipfile.ZipFile(path) as book:
                    return {name: book.read(name) for name in book.namelist()
                            if name != "docProps/core.xml"}  # has the time
            except zipfile.BadZipFile:
                return {}
        if path.is_dir():
            return {str(p.relative_to(path)): p.read_bytes()
                    for p in sorted(path.rglob("*")) if p.is_file()}
        return {"": path.read_bytes()}

    def argv(self, rig):
        return [rig.opmeter] + [w.format(trace=rig.trace, source=rig.source) for w in self.words]

    def prepare(self, rig, cwd):
        status, _, err, _ = rig.run(self.argv(rig), cwd)
        if status:
            raise Failure(f"fails without a fault: {err}")
        self.reference = self.contents(cwd / self.output)

    def check(self, rig, cwd, fault):
        output = cwd / self.output
        old = fault.split(":")[1] in "3579" and "." in self.output
        if old:
            output.write_bytes(b"what was there before")
        status, _, err, failed = rig.run(self.argv(rig), cwd, fault, TMPDIR=str(cwd))
        no_crash(status, err)
        if status == 0:
            if not output.exists():
                raise Failure("says that all is well, but there is no output")
            found = self.contents(output)
            # A file that cannot be looked at has no size and no date in the table of sources.
            exact = self.deterministic and not fault.startswith("stat:")
            missing = self.reference.keys() - found.keys()
            if missing or (exact and found != self.reference):
                wrong = [k for k in self.reference if found.get(k) != self.reference[k]]
                raise Failure(f"says that all is well, but the output is another: {wrong}")
        elif not failed or (harmless(fault) and self.deterministic):
            raise Failure(f"fails for no reason: {err}")
        else:
            one_line(err, self.lines)
            if old:
                if output.read_bytes() != b"what was there before" and (
                        self.contents(output) != self.reference):
                    raise Failure(f"failed ({err.strip()}), and the old file is gone")
            elif output.is_dir():
                part = self.contents(output)
                torn = [k for k in part if part[k] != self.reference.get(k)]
                if torn and self.deterministic:
                    raise Failure(f"failed ({err.strip()}), and left {torn}")
            elif output.exists() and self.contents(output) != self.reference:
                raise Failure(f"failed ({err.strip()}), and left {output.name}")
        left = [p.name for p in cwd.iterdir()
                if p.name not in (self.output, "report") and f"is in {p}" not in err]
        if left and not fault.startswith("unlink:"):
            raise Failure(f"left {left} behind")
        return failed


class Records:
    """A program that records: it does its own work whatever happens."""

    name = "recorder"
    spans = 2 * 20000 + 3
    output = "t.opm"

    def prepare(self, rig, cwd):
        self.check(rig, cwd, "")

    def query(self, rig, path, sql):
        done = subprocess.run([rig.opmeter, "query", "--csv", str(path), sql], env=environment(),
                              capture_output=True, check=False, timeout=LIMIT_S)
        if done.returncode:
            raise Failure(f"the recording cannot be read: {done.stderr.decode()}")
        return int(done.stdout.split()[-1])

    def check(self, rig, cwd, fault):
        path = cwd / self.output
        status, out, err, failed = rig.run([rig.worker], cwd, fault, OPMETER_OUTPUT=self.output,
                                           OPMETER_BUFFER_MB="1")
        no_crash(status, err)
        if (status, out) != (42, "its own work\n"):
            raise Failure(f"the program was disturbed: {status} {out!r} {err!r}")
        if err:
            one_line(err)
        if err and (not failed or harmless(fault)):
            raise Failure(f"complains for no reason: {err}")
        kept = lost = 0
        if path.exists():
            kept = self.query(rig, path, "SELECT count(*) AS n FROM span")
            lost = self.query(rig, path, "SELECT coalesce(sum(count), 0) AS n FROM import_stat "
                              "WHERE name IN ('spans_lost', 'threads_lost')")
        elif not err:
            raise Failure("no recording, and not a word")
        told = re.search(r"(\d+) spans lost", err)
        if told and not lost:
            lost = int(told.group(1))  # not even that could be written to the file
        if path.exists() and kept + lost != self.spans:
            raise Failure(f"{kept} spans kept, {lost} counted as lost, of {self.spans}: {err!r}")
        if lost and not err:
            raise Failure(f"{lost} spans lost, and not a word")
        return failed


def formats(rig):
    """All that export knows, with an extension or as a folder."""
    done = subprocess.run([rig.opmeter, "export", "--list", "--csv"], capture_output=True,
                          check=True, text=True)
    for line in done.stdout.splitlines()[1:]:
        name, extension = line.split(",")[:2]
        yield name, extension.strip()


def programs(rig):
    yield Records()
    yield Writes("import", ["import", "{source}", "-o", "out.opm", "--force"], "out.opm")
    yield Writes("report", ["report", "{trace}", "-o", "out.html", "--force"], "out.html", False)
    for name, extension in formats(rig):
        output = f"out{extension}" if extension else "out"
        # libxlsxwriter does not look at what becomes of its own temporary files.
        yield Writes(f"export {name}", ["export", "{trace}", "-f", name, "-o", output, "--force"],
                     output, name != "xlsx")
    yield Writes("run", ["run", "zoo:mlp", "-n", "2", "-w", "1", "-o", "out"], "out", False)
    yield Writes("record", ["record", "-o", "out.opm", "--force", "--", rig.worker, "0"],
                 "out.opm", False, 3)  # the program tells, too, and where the parts are


def attempts(every):
    n = 1
    while True:
        yield n
        if PATIENCE > 1 and not every:
            n *= 3
        else:
            n += 1 if every or n < FULL else n // 2


def sweep(rig, program, function, way, every):
    """Problems of one program with one function, and how many times it was made to fail."""
    problems, done = [], 0
    how, *on = way.split(":")
    number = how if how == "short" else str(getattr(errno, how))
    for n in attempts(every):
        cwd = Path(tempfile.mkdtemp(dir=rig.folder))
        fault = ":".join([function, str(n), number, *on])
        failed = True
        try:
            failed = program.check(rig, cwd, fault)
        except Failure as problem:
            problems.append(f"{program.name}: {function} {n} {way}: {problem}")
        shutil.rmtree(cwd)
        if not failed or len(problems) >= 8:
            break
        done += 1
    return problems, done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="opmeter-fault-"))
    problems, done = [], 0
    try:
        rig = Rig(args.build.resolve(), folder)
        rig.prepare()
        jobs = []
        for program in programs(rig):
            if args.only not in program.name:
                continue
            cwd = Path(tempfile.mkdtemp(dir=folder))
            program.prepare(rig, cwd)
            shutil.rmtree(cwd)
            jobs += [(program, function, way) for function, ways in WAYS.items() for way in ways]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for found, count in pool.map(lambda job: sweep(rig, *job, args.all), jobs):
                problems += found
                done += count
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        print(problem)
    print(f"{done} faults, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
