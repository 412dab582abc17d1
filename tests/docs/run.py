#!/usr/bin/env python3
"""run.py -- type every command that README and docs show, as a reader would, and see that it works.

usage: tests/docs/run.py [--build DIR] [--all] [--list]

The commands of each document run one after the other in one folder, where the files that they name
are (make_world()). What cannot be typed here is in ELSEWHERE, with the reason; --all also types what
takes minutes. What stands within a sentence, in tables and in the EXAMPLES of man pages is looked
over: each command and option must be there. Prints one `ok` or `not ok` line per command.
"""
import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLS = ROOT / "tests" / "tools"
LIMIT_S = 300
LONG_LIMIT_S = 3600

BLOCK = re.compile(r"^```(console|sh|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Programs whose commands stand in indented blocks, too.
INDENTED = re.compile(r"^    (?:\$ )?((?:\w+=\S+ )?(?:opmeter [a-z]|script/|cmake |ctest |pip |python3 |"
                      r"npm |node |tests/|tools/|bench/|sudo ).*)$", re.MULTILINE)
# Files of the project as documents name them.
OURS = re.compile(r"^(bench|examples|script|tests|tools|ui|docs)/[\w./-]+$")
SPAN = re.compile(r"`(opmeter [a-z][^`]*)`")

ORT = "needs ONNX Runtime: OPMETER_ORT_LIB"
# What is not typed here: pattern, why. "long": with --all it is.
ELSEWHERE = [
    (r"^(sudo )?tools/fresh", "runs this"),
    (r"^script/(test|bootstrap|package)", "runs this"),
    (r"^script/demo", "long"),
    (r"^(tar -xzf opmeter-|sudo apt-get install \./|.*pip install opmeter-)", "tests/install/packages.py does it"),
    (r"^(python3 -m venv|pip install)", "long"),
    (r"--target uninstall", "tests/install/run.py does it"),
    (r"^cmake --(preset release|build --preset release)", "script/demo does it"),
    (r"^cmake --preset (?!dev)|--preset fuzz", "script/test does it"),
    (r"^(cmake --(preset|build --preset)|ctest |tests/(diff|fuzz)/|npm --prefix ui )", "script/test does it"),
    (r"^node (ui/bench|tools/pictures)\.mjs", "for eyes"),
    (r"^bench/", "measures for hours"),
    (r"nvcc |train_gpu\.py|^tests/gpu/", "needs a GPU"),
    (r"-e onnxruntime", ORT),
    (r"^docker ", "needs Docker"),
    (r"^build/arm64/", "needs the build for ARM64"),
    (r"clickhouse://|--add-to|rank\*\.opm|pretrain-7|^opmeter export runs\.db|^opmeter job ", "tests/fleet/run.py does it"),
]
# Documents whose commands a test of their own runs, in circumstances that it makes.
TESTED = {"docs/ci.md": "tests/diff/docs/recipes.test"}
# Exit statuses that are an answer: of gates, and of what looks for hardware.
ANSWERS = [(r"--fail-if", {0, 1, 3, 125}), (r"^opmeter doctor", {0, 1}), (r"--check\b", {0, 1})]

TRAIN = """import time
for step in range(3):
    time.sleep(0.01)
"""
MODEL = """#define _POSIX_C_SOURCE 200809L
static void run_convolution(void);
static void postprocess(void);
%s
static void run_convolution(void) {}
static void postprocess(void) {}
"""


class Failure(Exception):
    pass


def run(command, cwd, env, limit_s=LIMIT_S):
    """Exit status and output of a line of shell. What it exports is there for the next one."""
    state = Path(env["DOCS_STATE"])
    script = (f"set -o pipefail\n[ -e {state} ] && . {state}\n{command}\nstatus=$?\n"
              f"export -p >{state}\nexit $status\n")
    with subprocess.Popen(["/bin/bash", "-c", script], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failure(f"took more than {limit_s} s") from None
    return process.returncode, output


def serve(command, cwd, env):
    """A command that ends when it is told to: its page is there, and Ctrl-C ends it well."""
    words = ["/bin/bash", "-c", f"exec {command.split('#')[0].strip()} --port 0"]
    with subprocess.Popen(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            text = ""
            for line in process.stdout:
                text += line
                found = re.search(r"http://127\.0\.0\.1:\d+/", line)
                if found:
                    with urllib.request.urlopen(found[0], timeout=60) as page:
                        if b"<html" not in page.read():
                            raise Failure("what it serves is no page")
                    break
            else:
                raise Failure(f"it told no address:\n{text}")
            process.send_signal(signal.SIGINT)
            if process.wait(60) != 0:
                raise Failure(f"exit {process.returncode} after Ctrl-C")
        finally:
            if process.poll() is None:
                process.kill()


# ---- what a reader would have ----

def make_world(world, build, env):
    """The files that documents name."""
    def must(command):
        status, output = run(command, world, env)
        if status != 0:
            raise Failure(f"{command}: exit {status}\n{output}")

    (world / "train.py").write_text(TRAIN)
    code = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    (world / "model.c").write_text(MODEL % code)
    for name in ("examples", "python", "tests", "tools", "bench", "script", "docs", "include", "ui"):
        (world / name).symlink_to(ROOT / name)
    (world / "build").mkdir()
    for name in ("release", "dev"):
        (world / "build" / name).symlink_to(build)
    must("opmeter zoo mlp -o m.onnx && cp m.onnx model.onnx")
    must("opmeter run m.onnx -o out -n 5 -w 1")
    must("cp out/trace.opm before.opm && cp out/trace.opm after.opm && cp out/trace.opm t.opm && "
         "cp out/trace.opm trace.opm")
    must(f"python3 {TOOLS}/make_kineto.py trace.json 1 && gzip trace.json")
    must(f"mkdir ranks && python3 {TOOLS}/make_ranks.py ranks 2 >/dev/null && "
         "i=0; for f in $(find ranks -type f | sort); do gzip -c $f >rank$i.json.gz; i=$((i+1)); done")
    must(f"python3 {TOOLS}/make_mindspore.py raw profiler >/dev/null")


# ---- what documents say ----

def documents():
    names = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "python/README.md"]
    for path in [*(ROOT / name for name in names), *sorted((ROOT / "docs").rglob("*.md"))]:
        yield str(path.relative_to(ROOT)), path.read_text()


def joined(lines):
    """Commands of lines: continued by a backslash or within quotes."""
    command = ""
    for line in lines:
        command = f"{command}\n{line}" if command else line
        if command.endswith("\\"):
            continue
        try:
            shlex.split(command, comments=True)
        except ValueError:
            continue
        if command.strip() and not command.strip().startswith("#"):
            yield command.strip()
        command = ""
    if command.strip():
        yield command.strip()


def commands(text):
    """Commands of a document, in its order."""
    found = []
    for block in BLOCK.finditer(text):
        lines = block[2].splitlines()
        if block[1] == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        found += [(block.start(), command) for command in joined(lines)]
    outside = BLOCK.sub(lambda block: "\n" * len(block[0]), text)
    for block in re.finditer(r"(?:^    \S.*\n)+", outside, re.MULTILINE):
        lines = [line[4:] for line in block[0].splitlines()]
        if INDENTED.match(block[0]):
            # `script/demo     what it does`: the rest is for the reader.
            found += [(block.start(), re.split(r"(?<=\S)[ \t]{4,}(?!#)", command)[0])
                      for command in joined(lines)]
    return [command for _, command in sorted(found, key=lambda item: item[0])]


def elsewhere(document, command, everything):
    """Why a command is not typed here, or None."""
    if document in TESTED:
        return TESTED[document]
    for pattern, why in ELSEWHERE:
        if re.search(pattern, command):
            if why == "long":
                return None if everything else "takes minutes; with --all"
            if why == ORT and os.environ.get("OPMETER_ORT_LIB"):
                return None
            return why
    return None


def try_command(command, world, env):
    # "..." is for what the reader has.
    command = command.replace("python3 ...", "python3 -c 'import opmeter'")
    if re.match(r"opmeter serve\b", command):
        return serve(command, world, env)
    long = any(why == "long" and re.search(pattern, command) for pattern, why in ELSEWHERE)
    # In the checkout, and in the reader's folder.
    status, output = run(command, ROOT if command.startswith("script/") else world, env,
                         LONG_LIMIT_S if long else LIMIT_S)
    allowed = next((statuses for pattern, statuses in ANSWERS if re.search(pattern, command)), {0})
    if status not in allowed:
        raise Failure(f"exit {status}\n{output}")


# ---- what stands within sentences ----

class Options:
    """The options of opmeter's commands, from what --help says."""

    def __init__(self, env):
        self.env, self.known = env, {}

    def of(self, command):
        if command not in self.known:
            done = subprocess.run(["opmeter", command, "--help"], capture_output=True, text=True,
                                  env=self.env)
            self.known[command] = None if done.returncode else \
                set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", done.stdout)) | {"--help", "-h"}
        return self.known[command]

    def wrong(self, line):
        """What of `opmeter COMMAND --option ...` is not there, or None."""
        words = re.split(r" (?:--|&&|\|) ", line.replace("\\-", "-"))[0].split()
        if len(words) < 2 or not re.fullmatch(r"[a-z][a-z]+", words[1]):
            return None
        known = self.of(words[1])
        if known is None:
            return f"there is no command '{words[1]}'"
        for word in words[2:]:
            if words[1] == "record" and re.match(r"[a-z]", word):
                break  # what follows is for the program
            option = re.match(r"\[?(--[a-z][\w-]*)", word)
            if option and option[1].replace("--no-", "--") not in known \
                    and self.refused(words[1], option[1]):
                return f"opmeter {words[1]} has no option {option[1]}"
        return None

    def refused(self, command, option):
        """It may be a name that other profilers have: the command itself is asked."""
        done = subprocess.run(["opmeter", command, option, "1"], capture_output=True, text=True,
                              env=self.env, cwd=self.env["HOME"], stdin=subprocess.DEVNULL)
        return done.returncode == 2 and "option" in done.stderr


def spans():
    for document, text in documents():
        for number, line in enumerate(text.splitlines(), 1):
            for span in SPAN.findall(line):
                yield f"{document}:{number}", span
    for path in sorted((ROOT / "docs" / "man").glob("*.1")):
        text = path.read_text()
        examples = re.search(r'^\.SH "?EXAMPLES?"?\n(.*?)(?=^\.SH|\Z)', text, re.DOTALL | re.MULTILINE)
        for line in examples[1].splitlines() if examples else []:
            if line.startswith("opmeter "):
                yield path.name, line


def not_in_project(command):
    """What of a command that is not typed names a program or file of the project that is not there."""
    words = command.split("#")[0].split()
    for word in words:
        word = word.split("=")[-1]
        if OURS.match(word) and not (ROOT / word).exists():
            return f"there is no {word}"
    programs = [ROOT / word for word in words if OURS.match(word) and (ROOT / word).is_file()]
    text = "".join(path.read_text(errors="replace") for path in programs)
    for option in re.findall(r"(?<=\s)(--[a-z][\w-]*)", command.split("#")[0]) if text else []:
        if words[0] != "opmeter" and option not in text:
            return f"{programs[0].relative_to(ROOT)} has no option {option}"
    return None


def look_over(env):
    options, wrong, count = Options(env), [], 0
    for where, span in spans():
        count += 1
        said = options.wrong(span)
        if said:
            wrong.append(f"{where}: {span}: {said}")
    for document, text in documents():
        for command in commands(text):
            if elsewhere(document, command, False):
                said = not_in_project(command) or \
                    command.startswith("opmeter ") and options.wrong(command)
                if said:
                    wrong.append(f"{document}: {command}: {said}")
    if count < 50:
        raise Failure(f"only {count} commands were found")
    if wrong:
        raise Failure("\n".join(wrong))


# ----

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, help="default: build/dev, or build/release")
    parser.add_argument("--all", action="store_true", help="also what takes minutes")
    parser.add_argument("--list", action="store_true", help="list the commands and what becomes of them")
    args = parser.parse_args()
    build = args.build or next((ROOT / "build" / name for name in ("dev", "release")
                                if (ROOT / "build" / name / "opmeter").exists()), None)
    if args.list:
        for document, text in documents():
            for command in commands(text):
                why = elsewhere(document, command, args.all)
                print(f"{document}: {command}" + (f"    [{why}]" if why else ""))
        return 0
    if build is None:
        print("not ok 1 - there is no build: script/demo makes one\n1..1")
        return 1
    failed = number = 0

    def report(name, work):
        nonlocal failed, number
        number += 1
        try:
            work()
            print(f"ok {number} - {name}", flush=True)
        except (Failure, OSError, subprocess.SubprocessError) as error:
            print(f"not ok {number} - {name}")
            print("".join(f"# {line}\n" for line in str(error).splitlines()), end="", flush=True)
            failed += 1

    build = build.resolve()
    with tempfile.TemporaryDirectory(prefix="opmeter-docs-") as temp:
        env = {**os.environ, "PATH": f"{build}:{build}/examples:{os.environ['PATH']}", "NO_COLOR": "1",
               "HOME": temp, "DOCS_STATE": f"{temp}/made"}
        if not args.all:  # what `pip install` would have done
            env["PYTHONPATH"] = str(build / "python")
        if not shutil.which("python"):  # as in an environment of its own
            (Path(temp) / "bin").mkdir()
            (Path(temp) / "bin" / "python").symlink_to(shutil.which("python3"))
            env["PATH"] += f":{temp}/bin"
        report("commands within sentences and man pages", lambda: look_over(env))
        for place, (document, text) in enumerate(documents()):
            found = commands(text)
            if not found:
                continue
            world = Path(temp) / str(place)
            world.mkdir()
            env["DOCS_STATE"] = f"{temp}/state-{place}"
            if any(not elsewhere(document, command, args.all) for command in found):
                report(f"{document}: what it needs", lambda: make_world(world, build, env))
            for command in found:
                name = f"{document}: {command.splitlines()[0].split('  #')[0].strip()}"
                why = elsewhere(document, command, args.all)
                if why:
                    number += 1
                    print(f"ok {number} - {name} # SKIP {why}", flush=True)
                else:
                    report(name, lambda c=command: try_command(c, world, env))
            # Who reads on has what the README had them install.
            if document == "README.md" and (world / "env" / "bin").is_dir():
                env["PATH"] = env["PATH"].replace(f"{build}/examples:", f"{build}/examples:{world}/env/bin:")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
