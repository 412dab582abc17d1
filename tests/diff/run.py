#!/usr/bin/env python3
"""run.py -- run the data-driven tests: commands, and what they must print.

usage: tests/diff/run.py [-j N] [--opmeter DIR] [--readers] [--quick] [--update] [--tap] [-v] [PATTERN...]

A test is a file tests/diff/<area>/<name>.test. Lines before the first section say what it shows.
Each section begins with a line `-- word`:

  -- needs: shared           skip unless the folder `shared` stands beside the checkout ($SHARED)
  -- needs: program NAME     skip unless NAME is on the PATH
  -- needs: library NAME     skip unless opmeter can load it
  -- needs: terminal         skip where no pseudo-terminal can be had
  -- needs: time             skip with --quick: it takes seconds of processor time
  -- needs: check SCRIPT     skip where the script fails, with what it prints as the reason
  -- file: NAME              write the following lines to NAME in the test's own empty folder
  -- file: NAME hex          (or base64) the same, from bytes so written
  -- run: COMMAND            run with sh -e in that folder; following lines are part of the script
  -- exit: N                 the exit status it must have (otherwise 0)
  -- filter: NAME...         what to do to its output before comparing, see filters.py
  -- expect                  what it must print on standard output (without this section: nothing)
  -- expect-stderr           and on standard error

exit, filter and expect belong to the run above them; a filter before the first run is for all.
Blank lines at the end of a section do not count. A line that begins with a backslash stands for the
rest of it: so `\\-- x` is the text `-- x`, and a lone backslash an empty line that counts.
`-- expect: no-newline` (also with file) says that the last line has no newline at its end.

$PATIENCE is how many times as long everything may take here, for an emulator.

A PATTERN picks tests whose path, such as cli/unknown, contains it or matches it as a glob.
"""
import argparse
import base64
import concurrent.futures
import difflib
import fnmatch
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from filters import FILTERS, ROOT, SHARED
from testfile import BadTest, Run, Test

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))
from loadable import loads  # noqa: E402
# What a minimal build has not: commands, the library for programs, programs of tests and examples;
# and one test that is long without optimisation.
MAKERS = re.compile(r"opmeter (-\S+ |help )*(run|record|zoo|bench|doctor|completion)\b|\"run -|zoo:|--measure"
                    r"|opmeter-[a-z]|check_trace_json")
PATIENCE = int(os.environ.get("OPMETER_TEST_PATIENCE", "1"))
TIMEOUT_S = 300 * PATIENCE


def missing(test, env, folder, quick):
    """Why the test cannot run here, or None."""
    for section in test.needs:
        words = section.value.split()
        if words == ["shared"]:
            if not SHARED.is_dir():
                return "needs the folder 'shared' beside the checkout"
        elif words == ["time"]:
            if quick:
                return "needs time"
        elif words == ["terminal"]:
            try:
                os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
            except OSError as error:
                return f"needs a pseudo-terminal: /dev/ptmx: {error.strerror}"
        elif len(words) == 2 and words[0] == "program":
            if not shutil.which(words[1], path=env["PATH"]):
                return f"needs the program {words[1]}"
        elif len(words) > 1 and words[0] == "check":
            status, out, _ = execute(section.value.removeprefix("check"), folder, env)
            if status != 0:
                return " ".join(out.split()) or "what it checks first fails"
        elif len(words) == 2 and words[0] == "library":
            if not loads(shutil.which("opmeter", path=env["PATH"]), words[1]):
                return f"needs {words[1]}, which opmeter can load"
        else:
            raise test.bad(section, f"'{section.value}' is nothing that can be needed")
    return None


def write_file(test, section, folder):
    words = shlex.split(section.value)
    if not words:
        raise test.bad(section, "a file needs a name")
    path = (folder / words[0]).resolve()
    if folder not in path.parents:
        raise test.bad(section, f"{words[0]} is outside of the test's folder")
    text = section.text()
    if "hex" in words[1:]:
        data = bytes.fromhex(text)
    elif "base64" in words[1:]:
        data = base64.b64decode(text)
    else:
        data = text.encode("utf-8", "surrogateescape")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def environment(bin_dir, folder):
    """What commands see: nothing of the caller's settings that could change what they print."""
    keep = {name: value for name, value in os.environ.items()
            if name.endswith("SAN_OPTIONS") or name in ("LD_LIBRARY_PATH", "LLVM_PROFILE_FILE", "QEMU_CPU")}
    path = [bin_dir, bin_dir / "examples", bin_dir / "tests" / "tools"]
    return {
        **keep,
        "PATH": ":".join([*map(str, path), "/usr/local/bin:/usr/bin:/bin"]),
        "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8", "TZ": "UTC",
        "SRC": str(ROOT), "SHARED": str(SHARED), "PATIENCE": str(PATIENCE),
    }


def execute(script, folder, env):
    """Status, standard output and standard error of a script; the status is None on timeout."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(["sh", "-e", "-c", script], cwd=folder, env=env,
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   start_new_session=True)
        try:
            status = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(process.pid, signal.SIGKILL)  # with what it left in the background
        except ProcessLookupError:
            pass
        process.wait()
        out.seek(0)
        err.seek(0)
        return status, *(f.read().decode("utf-8", "surrogateescape") for f in (out, err))


def run_command(test, run, folder, env, update):
    """What was wrong with one command, as lines."""
    where = f"tests/diff/{test.name}.test:{run.section.line}"
    status, *outputs = execute(run.script(), folder, env)
    wrong = []
    if status is None:
        return [f"{where}: still running after {TIMEOUT_S} s: {run.title()}"]
    outputs = dict(zip(("expect", "expect-stderr"), outputs))
    for name in run.filters:
        outputs = {stream: FILTERS[name](text, folder) for stream, text in outputs.items()}
    if status != run.status:
        wrong.append(f"{where}: exit status {status}, expected {run.status}: {run.title()}")
    for stream, text in outputs.items():
        expected = run.expect[stream].text() if stream in run.expect else ""
        if text == expected:
            continue
        if update and status == run.status:
            test.update(run, stream, text)
            continue
        wrong.append(f"{where}: {'stderr' if stream.endswith('err') else 'stdout'} of:"
                     f" {run.title()}")
        wrong += difflib.unified_diff(show(expected), show(text), "expected", "printed",
                                      lineterm="")
    return wrong


def show(text):
    """Lines to compare by eye: a missing last newline and odd bytes are made visible."""
    lines = text.split("\n")
    if lines[-1]:
        lines.append("\\ no newline at end")
    else:
        lines.pop()
    return [line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            .replace("\r", "\\r").replace("\x1b", "\\e") for line in lines]


def makes(test):
    """Whether the test needs more than a program that reads traces."""
    return any(isinstance(action, Run) and MAKERS.search(action.script())
               for action in test.actions)


def run_test(path, bin_dir, args):
    """('ok' | 'fail' | 'skip' | 'new', lines)"""
    try:
        test = Test(path)
        if args.readers and makes(test):
            return "skip", ["needs the recorder or an engine"]
        with tempfile.TemporaryDirectory(prefix="opmeter-diff-") as temp:
            folder = Path(temp).resolve()
            env = environment(bin_dir, folder)
            why = missing(test, env, folder, args.quick)
            if why:
                return "skip", [why]
            before = [section.written() for section in test.sections]
            wrong = []
            for action in test.actions:
                if isinstance(action, Run):
                    wrong += run_command(test, action, folder, env, args.update)
                else:
                    write_file(test, action, folder)
        if wrong:
            return "fail", wrong
        if [section.written() for section in test.sections] != before:
            test.write()
            return "new", []
        return "ok", []
    except (BadTest, ValueError, OSError) as error:
        return "fail", [str(error)]


def chosen(name, patterns):
    return not patterns or any(p in name or fnmatch.fnmatch(name, p) for p in patterns)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-j", type=int, default=os.cpu_count(), help="tests at a time")
    parser.add_argument("--opmeter", type=Path, default=ROOT / "build" / "dev",
                        help="build folder with the program (default: build/dev)")
    parser.add_argument("--readers", action="store_true",
                        help="the program is a minimal build: leave out tests that need more")
    parser.add_argument("--quick", action="store_true", help="leave out tests that need time")
    parser.add_argument("--update", action="store_true", help="rewrite what is expected")
    parser.add_argument("--tap", action="store_true", help="one 'ok' or 'not ok' line per test")
    parser.add_argument("-v", action="store_true", help="name every test")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    args = parser.parse_args()

    bin_dir = args.opmeter.resolve()
    if not (bin_dir / "opmeter").exists():
        print(f"run.py: no program 'opmeter' in {bin_dir}; build it first", file=sys.stderr)
        return 2
    names = {str(path.relative_to(HERE).with_suffix("")): path
             for path in sorted(HERE.rglob("*.test"))}
    picked = {name: path for name, path in names.items() if chosen(name, args.patterns)}
    if not picked:
        print("run.py: no such test", file=sys.stderr)
        return 2

    count = {"ok": 0, "fail": 0, "skip": 0, "new": 0}
    if args.tap:
        print(f"1..{len(picked)}")
    with concurrent.futures.ThreadPoolExecutor(max(1, args.j)) as pool:
        results = pool.map(lambda path: run_test(path, bin_dir, args), picked.values())
        for number, (name, (outcome, lines)) in enumerate(zip(picked, results), 1):
            count[outcome] += 1
            report(number, name, outcome, lines, args)
    print(f"{count['ok'] + count['new']} passed, {count['fail']} failed, {count['skip']} skipped",
          flush=True)
    return 1 if count["fail"] else 0


def report(number, name, outcome, lines, args):
    if args.tap:
        print(f"{'not ok' if outcome == 'fail' else 'ok'} {number}"
              + (f" # SKIP {name}: {lines[0]}" if outcome == "skip" else f" - {name}"))
        if outcome == "fail":
            print("".join(f"# {line}\n" for line in lines), end="")
        return
    words = {"ok": "ok", "fail": "FAILED", "skip": "skipped", "new": "updated"}
    if outcome == "skip":
        print(f"skipped {name}: {lines[0]}")
    elif outcome == "fail" or outcome == "new" or args.v:
        print(f"{words[outcome]} {name}")
        print("".join(f"    {line}\n" for line in lines), end="")


if __name__ == "__main__":
    # Odd bytes in outputs must not stop the report.
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
