#!/usr/bin/env python3
"""run_tests.py -- the stages of script/test.

usage: tools/run_tests.py [--quick | --long | --arm64 | --musl]

One line per stage with its results and time; what failed is shown below it, and the whole output
stays in build/test-logs/. Every check, unit test, diff test, fuzzer counts as one test.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

from tap import Result, parse

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "fuzz"))
import words  # noqa: E402
BUILD = ROOT / "build"
LOGS = BUILD / "test-logs"
JOBS = len(os.sched_getaffinity(0))
SKIPPED = 77  # exit status of a check that cannot run here
SHOWN_LINES = 60  # of the output of what failed

ENV = {
    **os.environ,
    "CMOCKA_MESSAGE_OUTPUT": "TAP",
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1"
                    ":allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
    # Where npm's registry cannot be reached, its tests are skipped, soon.
    "npm_config_fetch_retries": "1",
    "npm_config_fetch_retry_maxtimeout": "10000",
}

total = Counter()
printing = threading.Lock()


def run(command, log, timeout_s=None, env=None):
    """Exit status and output of a command; the output also goes to a log file."""
    env = env or ENV
    if timeout_s:
        timeout_s *= int(env.get("OPMETER_TEST_PATIENCE", "1"))
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = -1, (late.stdout or b"") + f"\nstopped after {timeout_s} s\n".encode()
    except OSError as error:
        status, output = 127, str(error).encode()
    with open(LOGS / f"{log}.log", "ab") as file:
        file.write(f"$ {' '.join(map(str, command))}\n".encode() + output)
    return status, output.decode("utf-8", "replace")


def stage(title, work, *args):
    """Run a stage, print its line and what failed, and count. False if something failed."""
    start = time.monotonic()
    results = work(*args)
    seconds = time.monotonic() - start
    with printing:
        return tell(title, results, seconds)


def tell(title, results, seconds):
    count = Counter(result.outcome for result in results)
    total.update(count)
    told = ", ".join(f"{count[what]} {what}" for what in ("passed", "failed", "skipped")
                     if count[what])
    print(f"{title:<28} {told or 'done':<36} {seconds:6.1f} s", flush=True)
    for result in results:
        if result.outcome != "passed":
            print(f"  {result.outcome} {result.name}")
        if result.outcome == "failed":
            if len(result.detail) > SHOWN_LINES:
                print(f"    ... {len(result.detail) - SHOWN_LINES} lines before these")
            for line in result.detail[-SHOWN_LINES:]:
                print(f"    {line}")
    sys.stdout.flush()
    return not count["failed"]


def together(*lanes):
    """Stages side by side: lists of them, as many at a time as there are processors."""
    def run_lane(lane):
        for title, *work in lane:
            stage(title, *work)

    with ThreadPoolExecutor(min(JOBS, len(lanes))) as pool:
        for lane in [pool.submit(run_lane, lane) for lane in lanes]:
            lane.result()


def skip(title, why):
    stage(title, lambda: [Result("skipped", f"{title}: {why}", [])])


def build(preset, target="all"):
    """Configure and build a preset. No result if it works: a build is not a test."""
    for command in (["cmake", "--preset", preset],
                    ["cmake", "--build", "--preset", preset, "-j", str(JOBS), "--target", target]):
        status, output = run(command, f"build-{preset}")
        if status != 0:
            return [Result("failed", f"build of preset {preset}", output.splitlines())]
    return []


def checks(commands):
    """Run checks, as (name, command); each is one test."""
    results = []
    for name, command in commands:
        status, output = run(command, f"check-{name}")
        lines = output.splitlines()
        if status == SKIPPED:
            results.append(Result("skipped", f"{name}: {lines[-1] if lines else ''}", []))
        else:
            results.append(Result("failed" if status else "passed", name, lines))
    return results


def source_checks():
    tools = ROOT / "tools"
    return checks([
        ("layers", [tools / "check_layers.py"]),
        ("format", [tools / "check_format.sh"]),
        ("headers", [tools / "check_headers.py"]),
        ("buffers", [tools / "check_buffers.py"]),
        ("tree", [tools / "check_tree.py"]),
        ("conditions", [tools / "check_conditions.py"]),
        ("version", [tools / "version.py", "--check"]),
    ])


def build_checks():
    """Checks that need the libraries and the program."""
    tools, dev = ROOT / "tools", BUILD / "dev"
    return checks([
        ("symbols", [tools / "check_symbols.py", "--build", dev]),
        ("docs", [tools / "check_docs.py", "--opmeter", dev / "opmeter"]),
        ("man", [tools / "check_man.py", dev / "opmeter"]),
        ("hardening", [tools / "check_hardening.py", "--build", dev]),
    ])


def ctest(preset, wanted=lambda name, labels: "long" not in labels, wrapper=()):
    """Run the CTest tests of a build for which wanted(name, labels)."""
    folder, log = BUILD / preset, f"ctest-{preset}"
    junit = LOGS / f"{log}.xml"
    names = [name for name, labels in ctest_tests(folder) if wanted(name, labels)]
    if not names:
        return [Result("skipped", f"{preset}: no tests of this kind", [])]
    pattern = "^(" + "|".join(map(re.escape, names)) + ")$"
    status, output = run([*wrapper, "ctest", "--test-dir", folder, "-j", str(JOBS),
                          "--output-junit", junit, "--timeout", "600", "--output-on-failure",
                          "--test-output-size-passed", "10000000",
                          "--test-output-size-failed", "10000000", "-R", pattern], log)
    if not junit.exists():
        return [Result("failed", f"ctest of preset {preset}", output.splitlines())]
    # How ctest says that a program ended: Failed, Timeout, Exception: SegFault, ...
    ends = dict(re.findall(r"Test +#\d+: (\S+) \.*\*\*\*(\w.*?) +[\d.]+ sec", output))
    results = []
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        results += case_results(case, ends.get(case.get("name"), "Failed"))
    if status != 0 and not any(result.outcome == "failed" for result in results):
        results.append(Result("failed", f"ctest: exit status {status}", output.splitlines()))
    return results


def ctest_tests(folder):
    done = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"],
                          capture_output=True, check=True)
    for test in json.loads(done.stdout)["tests"]:
        labels = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        yield test["name"], labels[0] if labels else []


def case_results(case, end):
    """The results of one test program: those that it printed, and how it ended if not well."""
    name, output = case.get("name"), case.findtext("system-out") or ""
    if case.find("skipped") is not None:
        return [Result("skipped", f"{name}: {output.strip()}", [])]
    failed = case.get("status") != "run"
    results = [result._replace(name=f"{name}: {result.name}") for result in parse(output)]
    if failed and (end != "Failed" or not any(r.outcome == "failed" for r in results)):
        results.append(Result("failed", f"{name}: {end}", output.splitlines()))
    elif not results:
        results.append(Result("passed", name, []))
    return results


def tap_program(title, command, log, timeout_s=None, env=None):
    """Run a program that prints TAP."""
    status, output = run(command, log, timeout_s, env)
    results = parse(output)
    if status != 0 and not any(result.outcome == "failed" for result in results):
        results.append(Result("failed", title, output.splitlines()))
    return results


def diff(preset, *more):
    runner = ROOT / "tests" / "diff" / "run.py"
    return tap_program("diff tests", [runner, "--tap", "-j", str(JOBS), "--opmeter",
                                      BUILD / preset, *more], f"diff-{preset}")


def minimal():
    """What other systems than Linux get: POSIX alone, importers and SQL."""
    tests = ROOT / "tests" / "install" / "minimal.py"
    return build("minimal") or (tap_program("minimal", [tests], "minimal") + ctest("minimal")
                                + diff("minimal", "--readers", "import/", "query/"))


def musl():
    """The recorder with another C library."""
    return tap_program("musl", [ROOT / "tests" / "install" / "musl.py", "--build", BUILD / "dev"], "musl")


def python_with(*modules):
    """A Python that has these modules, if there is one: this one, or the system's."""
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        if subprocess.run([python, "-c", f"import {', '.join(modules)}"],
                          capture_output=True).returncode == 0:
            return python
    return sys.executable


def python_package(preset):
    """The tests of the Python package, of a build with sanitizers, too."""
    if not list((BUILD / preset / "python" / "opmeter").glob("_opmeter*.so")):
        return [Result("skipped", "python: no headers of Python 3.9 or newer: python3-dev", [])]
    env = {**ENV, "PYTHONDONTWRITEBYTECODE": "1"}
    if preset == "asan":
        # The interpreter knows nothing of the sanitizer: it comes first, and sees each allocation.
        # What Python itself leaves behind at exit is not ours to report.
        runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True,
                                 text=True, check=True).stdout.strip()
        env |= {"LD_PRELOAD": runtime, "PYTHONMALLOC": "malloc",
                "ASAN_OPTIONS": ENV["ASAN_OPTIONS"] + ":detect_leaks=0"}
    return tap_program("python", [python_with("numpy", "pandas"),
                                  ROOT / "python" / "tests" / "run.py", "--build",
                                  BUILD / preset], f"python-{preset}", timeout_s=1200, env=env)


def oracle(preset):
    """Figures of the reports beside those that other programs compute from the raw files."""
    return tap_program("oracle", [python_with("numpy"), ROOT / "tests" / "oracle" / "run.py",
                                  "--build", BUILD / preset], f"oracle-{preset}", timeout_s=1200)


def install():
    tests = ROOT / "tests" / "install"
    return tap_program("install", [tests / "run.py", "--build", BUILD / "dev"], "install") \
        + tap_program("refused machines", [tests / "refused.py"], "refused")


def documented():
    """The commands that README and docs show."""
    return tap_program("commands of documents", [ROOT / "tests" / "docs" / "run.py", "--build",
                                                 BUILD / "dev"], "docs", timeout_s=1800)


def abi():
    """Programs of earlier releases with the libraries of this build."""
    return tap_program("abi", [ROOT / "tests" / "abi" / "run.py", "--build", BUILD / "dev"], "abi")


def server(preset):
    """`opmeter serve` and `opmeter report`, asked over sockets."""
    return tap_program("web server", [ROOT / "tests" / "server" / "run.py", "--build",
                                      BUILD / preset], f"server-{preset}")


def fleet(preset):
    """Ranks of distributed jobs in a file and on ClickHouse."""
    return tap_program("ranks of jobs", [python_with("numpy"), ROOT / "tests" / "fleet" / "run.py",
                                         "--build", BUILD / preset], f"fleet-{preset}",
                       timeout_s=1800)


def npm_models():
    """Real models from npm, native against ONNX Runtime from npm."""
    return tap_program("models from npm", [ROOT / "tests" / "npm" / "run.py", "--opmeter",
                                           BUILD / "dev" / "opmeter", "--build", BUILD], "npm")


def npm_llama():
    """llama.cpp as npm ships it, under record."""
    return tap_program("llama.cpp from npm", [ROOT / "tests" / "npm" / "llama.py", "--opmeter",
                                              BUILD / "dev" / "opmeter", "--build", BUILD], "npm-llama")


def npm_parquet():
    """Parquet, written by opmeter and read by others and the other way round."""
    return tap_program("Parquet with npm", [ROOT / "tests" / "npm" / "parquet.py", "--opmeter",
                                            BUILD / "dev" / "opmeter", "--build", BUILD], "npm-parquet")


def page_packages():
    """Why the page's npm packages are not there, or ''."""
    folder = ROOT / "ui"
    if not shutil.which("node"):
        return "node is not installed"
    if (folder / "node_modules" / "playwright-core").is_dir():
        return ""
    if not shutil.which("npm"):
        return "npm is not installed"
    status, _ = run(["npm", "ci", "--prefix", folder, "--ignore-scripts"], "page-npm", timeout_s=300)
    return "npm could not fetch its packages" if status else ""


def web_page():
    """The page in a browser, and that ui/dist is what the sources give."""
    lacking = page_packages()
    if lacking:
        return [Result("skipped", f"web page: {lacking}", [])]
    ui = ROOT / "ui"
    return checks([
        ("page-types", [ui / "node_modules" / ".bin" / "tsc", "-p", ui, "--noEmit"]),
        ("page-bundle", ["node", ui / "build.mjs", "--check"]),
    ]) + tap_program("web page", ["node", ui / "tests" / "run.mjs", "--opmeter",
                                  BUILD / "dev" / "opmeter", "--out", BUILD / "page-tests"],
                     "page", timeout_s=900)


def fuzzer_runtime():
    """Whether clang can link a fuzzer here."""
    source = "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return !d && n; }"
    probe = LOGS / "fuzz-probe"
    if not shutil.which("clang"):
        return False
    done = subprocess.run(["clang", "-fsanitize=fuzzer", "-x", "c", "-", "-o", probe],
                          input=source.encode(), capture_output=True)
    probe.unlink(missing_ok=True)
    return done.returncode == 0


def fuzz(seconds):
    folder = BUILD / "fuzz"
    fuzzers = sorted(path for path in folder.rglob("fuzz_*")
                     if path.is_file() and not path.suffix and os.access(path, os.X_OK))
    if not fuzzers:
        return [Result("skipped", "fuzz: no fuzzers in the build", [])]
    with ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda path: fuzz_one(path, seconds), fuzzers))


def fuzz_one(path, seconds):
    """Run one fuzzer from the corpus of the project; what it finds new stays in the build."""
    name = path.name
    corpus, seeds = BUILD / "fuzz" / "corpus" / name, ROOT / "tests" / "fuzz" / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    status, output = run(
        [path, f"-max_total_time={seconds}", "-timeout=25", "-rss_limit_mb=3000",
         f"-artifact_prefix={LOGS}/{name}-", *words.dictionary(name, BUILD / "fuzz" / "dict"),
         corpus, *([seeds] if seeds.is_dir() else [])], name, timeout_s=seconds + 120)
    return Result("failed" if status else "passed", name, output.splitlines())


def fixed_addresses():
    """ThreadSanitizer of gcc 12 cannot live with as much address randomisation as new kernels do."""
    setarch = ["setarch", "-R"]
    works = shutil.which("setarch") and subprocess.run(
        [*setarch, "true"], capture_output=True).returncode == 0
    return setarch if works else []


def runs_arm64():
    """Whether the kernel starts programs for ARM64."""
    try:
        return subprocess.run([BUILD / "arm64" / "opmeter", "--version"],
                              capture_output=True).returncode == 0
    except OSError:
        return False


def arm64_results():
    """The results of models beside those of this machine."""
    title = "results as here, arm64"
    if os.uname().machine == "aarch64":
        skip(title, "this is such a machine")
    elif stage("build: dev", build, "dev", "opmeter_cli"):
        stage(title, tap_program, title, [ROOT / "tests" / "arm64" / "run.py", "--build",
                                          BUILD / "arm64", "--against", BUILD / "dev" / "opmeter",
                                          "--npm", BUILD / "npm" / "arm64"], "results-arm64")


def arm64_stages():
    """The tests of a build for ARM64; under an emulator where this is another machine."""
    ENV["OPMETER_TEST_PATIENCE"] = "10"
    # qemu spends nine tenths of its time on the cipher by which functions sign their return addresses
    # (tools/hardening.cmake). With a simpler one they are signed and checked all the same.
    ENV.setdefault("QEMU_CPU", "max,pauth-impdef=on")
    if not stage("build: arm64", build, "arm64"):
        skip("tests of arm64", "it did not build")
    elif not runs_arm64():
        skip("tests of arm64", "the kernel starts no ARM64 programs (binfmt_misc)")
    else:
        stage("unit tests, arm64", ctest, "arm64")
        stage("diff tests, arm64", diff, "arm64")
        stage("oracle, arm64", oracle, "arm64")
        stage("web server, arm64", server, "arm64")
        arm64_results()


def musl_stages():
    """The tests of a build with musl."""
    if not stage("build: musl", build, "musl"):
        skip("tests of musl", "it did not build")
    else:
        stage("unit tests, musl", ctest, "musl")
        stage("diff tests, musl", diff, "musl")


def main():
    parser = argparse.ArgumentParser()
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true")
    how.add_argument("--long", action="store_true")
    how.add_argument("--arm64", action="store_true")
    how.add_argument("--musl", action="store_true")
    args = parser.parse_args()

    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    if args.arm64:
        arm64_stages()
    elif args.musl:
        musl_stages()
    else:
        stages(args)
    if total["failed"]:
        print("the whole output is in build/test-logs/")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


def stages(args):
    stage("project checks", source_checks)

    if stage("build: dev", build, "dev"):
        # Side by side, because both wait as long as they compute.
        if args.quick:
            together([("unit tests", ctest, "dev", lambda name, labels: not {"long", "slow"} & set(labels))],
                     [("diff tests", diff, "dev", "--quick")])
        else:
            together([("unit tests", ctest, "dev")], [("diff tests", diff, "dev")])
        # Those that install share the list of what was installed.
        small = [("Python package", python_package, "dev"), ("documents and symbols", build_checks),
                 ("ABI", abi)]
        if args.quick:
            together([("oracle", oracle, "dev")], small)
        else:
            # The longest first, so that processors are done at about the same time.
            together([("web page", web_page)], [("ranks of jobs", fleet, "dev")],
                     [("oracle", oracle, "dev")], [("web server", server, "dev")],
                     [("models from npm", npm_models), ("Parquet with npm", npm_parquet),
                      ("llama.cpp from npm", npm_llama)],
                     [*small, ("commands of documents", documented), ("install", install),
                      ("recorder with musl", musl), ("minimal build", minimal)])
        if args.long:
            stage("soak tests", ctest, "dev", lambda name, labels: "long" in labels)
    else:
        skip("tests of dev", "it did not build")
    if args.quick:
        return

    if stage("build: asan", build, "asan"):
        together([("unit tests, asan", ctest, "asan")], [("diff tests, asan", diff, "asan")])
        together([("web server, asan", server, "asan")],
                 [("Python package, asan", python_package, "asan")])
    else:
        skip("tests of asan", "it did not build")

    if stage("build: tsan", build, "tsan", "tsan_tests"):
        stage("recorder tests, tsan", ctest, "tsan",
              lambda name, labels: "tsan" in labels and "long" not in labels, fixed_addresses())
    else:
        skip("tests of tsan", "it did not build")

    if not fuzzer_runtime():
        skip("fuzzers", "clang or its fuzzer runtime is not installed")
    elif stage("build: fuzz", build, "fuzz", "fuzzers"):
        stage("fuzzers", fuzz, 60 if args.long else 5)
    else:
        skip("fuzzers", "they did not build")


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
