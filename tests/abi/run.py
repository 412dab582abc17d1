#!/usr/bin/env python3
"""run.py -- programs of every release run with today's libraries: headers only grow.

usage: tests/abi/run.py [--build DIR] [--freeze]

A folder tests/abi/VERSION/ has the headers and symbols of a release. For each: programs are compiled
with those headers and run with the libraries of the build; every struct has its fields where they
were, and only those grow that may, at their end, beyond what was padding; every value of an enum is what
it was; every symbol is there, of the version that it had, and a version that was released gets no
other. sizes.c passes structs of every size that they ever had. --freeze writes the folder of the version in VERSION anew: until it is
released, and never after. Prints one `ok` or `not ok` line per test.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = ROOT / "tests" / "install"
LIBRARIES = ["libopmeter", "libopmeter-trace", "libopmeter-run"]
# Structs without a field `size` that functions are told the size of.
GROWS = {"opm_recorder_stats", "opm_value", "opm_array", "opm_latency"}

STRUCT = re.compile(r"typedef struct (opm_\w+)\s*\{(.*?)\}\s*\1;", re.DOTALL)
ENUM = re.compile(r"enum opm_\w+\s*\{(.*?)\}", re.DOTALL)
FUNCTION = re.compile(r"\(\*\s*(\w+)\)\s*\(")


class Failure(Exception):
    pass


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, **more)
    if done.returncode != 0:
        raise Failure(f"exit {done.returncode}: {' '.join(map(str, command))}\n"
                      + done.stdout + done.stderr)
    return done.stdout


def expect(what, found, wanted):
    if found != wanted:
        raise Failure(f"{what}: found {found!r}, expected {wanted!r}")


def fields(body):
    """Names of the fields of a struct, in their order."""
    for declaration in body.split(";"):
        function = FUNCTION.search(declaration)
        if function:
            yield function[1]
            continue
        for name in declaration.split(","):
            words = re.findall(r"\w+", re.sub(r"\[.*?\]", "", name))
            if words:
                yield words[-1]


def preprocessed(include):
    return subprocess.run(["gcc", "-std=c11", "-E", "-P", f"-I{include}", "-x", "c", "-"], text=True,
                          input=everything(include), capture_output=True, check=True).stdout


def layout(include, text):
    """Sizes, offsets and values of what `text`, preprocessed headers, declares, as the headers under
    `include` have it: lines of words."""
    lines = []
    for name, body in STRUCT.findall(text):
        lines.append(f'printf("size {name} %zu\\n", sizeof({name}));')
        lines += [f'printf("field {name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                  f'sizeof((({name} *)0)->{field}));' for field in fields(body)]
    for body in ENUM.findall(text):
        for name in re.findall(r"OPM_\w+(?=\s*(?:=|,|$))", body.strip()):
            lines.append(f'printf("value {name} %d\\n", (int){name});')
    if len(lines) < 100:
        raise Failure(f"only {len(lines)} facts were found in the headers")
    source = everything(include) + "#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n" \
        + "\n".join(lines) + "\nreturn 0;\n}\n"
    with tempfile.TemporaryDirectory() as temp:
        program = Path(temp) / "layout"
        (Path(temp) / "layout.c").write_text(source)
        run("gcc", "-std=c11", f"-I{include}", Path(temp) / "layout.c", "-DOPM_ENABLED=0", "-o",
            program)
        return facts(run(program))


def facts(text):
    """(kind, name): the numbers behind it."""
    return {tuple(line.split()[:2]): tuple(map(int, line.split()[2:])) for line in text.splitlines()}


def everything(include):
    return "".join(f"#include <opmeter/{path.name}>\n"
                   for path in sorted((include / "opmeter").glob("*.h")))


def only_grows(old):
    new = ROOT / "include"
    text = preprocessed(old)
    was, now = layout(old, text), layout(new, text)
    for (kind, name), numbers in layout(new, preprocessed(new)).items():
        struct = name.split(".")[0]
        if kind == "field" and (kind, name) not in was and ("size", struct) in was \
                and numbers[0] < was["size", struct][0]:
            raise Failure(f"{name} lies where programs of then have padding, whose bytes may be any")
    for (kind, name), numbers in was.items():
        may = kind == "size" and (name in GROWS or ("field", f"{name}.size") in was)
        if may and now[kind, name] >= numbers:
            continue
        expect(f"{kind} {name}", now[kind, name], numbers)


def symbols(folder, build):
    for library in LIBRARIES:
        listed = set((folder / f"{library}.symbols").read_text().split())
        found = run("nm", "-D", "--defined-only", "--format=posix", build / f"{library}.so")
        have = {line.split()[0] for line in found.splitlines()}
        expect(f"{library}: symbols that are gone", sorted(listed - have), [])
        if folder.name != current():
            late = {name for name in have - listed if name.endswith(f"@OPMETER_{folder.name}")}
            expect(f"{library}: symbols that came to {folder.name} later", sorted(late), [])


def programs(include, build, temp):
    """Record, read and run, compiled as they were then."""
    found = {}
    for name, library in (("record", "opmeter"), ("read", "opmeter-trace"), ("run", "opmeter-run")):
        found[name] = temp / name
        run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{include}", PROGRAMS / f"{name}.c",
            "-o", found[name], f"-L{build}", f"-Wl,-rpath,{build}", f"-l{library}",
            *(["-lopmeter"] if library == "opmeter-run" else []))
    run(found["record"], temp / "record.opm")
    expect("operators", run(found["read"], temp / "record.opm"), "6\n")
    run(found["run"], temp / "run.opm")
    rows = run(build / "opmeter", "query", "--csv", temp / "run.opm", "SELECT count(*) AS n FROM "
               "span WHERE op IS NOT NULL AND phase = 'forward'")
    expect("operators", rows.split(), ["n", "12"])


def needs_version(build, temp):
    """A program says of which version of the library it needs symbols."""
    (temp / "one.c").write_text("#include <opmeter/opmeter.h>\n"
                                "int main(void)\n{\n    return opm_now() != 0;\n}\n")
    run("gcc", f"-I{ROOT / 'include'}", temp / "one.c", "-o", temp / "one", f"-L{build}",
        "-lopmeter")
    expect("needs a version of libopmeter.so.0", re.findall(
        r"File: libopmeter\.so\.0 .*\n.*Name: (OPMETER_[\d.]+)",
        run("readelf", "-V", temp / "one")), ["OPMETER_0.1"])


def sizes(build, temp):
    program = temp / "sizes"
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", HERE / "sizes.c", "-o",
        program, f"-L{build}", f"-Wl,-rpath,{build}", "-lopmeter-run", "-lopmeter-trace", "-lopmeter")
    expect("sizes", run(program, temp), "all sizes\n")


def current():
    """The release that is being made."""
    return ".".join((ROOT / "VERSION").read_text().strip().split(".")[:2])


def freeze():
    folder = HERE / current()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "include", folder / "include")
    for library in LIBRARIES:
        shutil.copy(HERE / f"{library}.symbols", folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build" / "dev", type=Path)
    parser.add_argument("--freeze", action="store_true")
    args = parser.parse_args()
    if args.freeze:
        return freeze()
    build = args.build.resolve()
    failed = number = 0
    with tempfile.TemporaryDirectory(prefix="opmeter-abi-") as temp:
        temp = Path(temp)
        tests = [("programs name a version", lambda: needs_version(build, temp)),
                 ("structs of every size", lambda: sizes(build, temp))]
        for folder in sorted(path for path in HERE.iterdir() if (path / "include").is_dir()):
            name = folder.name
            tests += [
                (f"{name}: headers only grew", lambda f=folder: only_grows(f / "include")),
                (f"{name}: symbols are there", lambda f=folder: symbols(f, build)),
                (f"{name}: programs run", lambda f=folder: programs(f / "include", build, temp)),
            ]
        for name, test in tests:
            number += 1
            try:
                test()
                print(f"ok {number} - {name}", flush=True)
            except Failure as error:
                print(f"not ok {number} - {name}")
                print("".join(f"# {line}\n" for line in str(error).splitlines()), end="")
                failed += 1
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
