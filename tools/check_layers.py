#!/usr/bin/env python3
"""check_layers.py -- every #include of the sources goes to a layer that its folder may know.

The folders of src/ form layers and includes point down only. ALLOW says for each folder which
others it may include; base is open to all but the folders in BARE. A folder that is not listed is
an error: decide its place first. What comes in through another header must be allowed, too, and no
header only passes on others. Who uses what older compilers lack includes what makes up for it
(MADE_UP). The rooms of the native engine are layers of their own (ROOMS); its README says in one line
what belongs into each.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ALLOW = {
    "base": [],
    "format": [],
    "rec": ["format"],
    "graph": [],
    "store": [],
    "device": [],
    "analyze": ["store"],
    "import": ["format", "store"],
    "export": ["analyze", "format", "store"],
    "sql": ["analyze", "store"],
    "engine": ["graph"],
    "run": ["engine", "graph", "device"],
    "launch": ["device"],
    "public": ["import", "sql", "export", "store", "run", "engine", "graph"],
    "compare": [],
    "catalog": ["analyze", "compare", "export", "format", "sql", "store"],
    "server": ["catalog", "compare"],
    "cli": ["catalog", "compare", "server", "run", "launch"],
    "python": [],
}

# Folders that may not include all of base/. rec/ is linked into other people's programs, so it gets
# what is header-only, and error.c.
BARE = {
    "format": set(),
    "rec": {"account.h", "banned.h", "capped.h", "common.h", "enginefile.h", "environment.def",
            "environment.h", "error.h", "makeway.h", "perf_refusal.h", "rd.h", "redact.h"},
    "python": set(),
}

# Who may include which public header.
PUBLIC = {
    "opmeter_error.h": set(ALLOW),
    "opmeter_trace.h": {"public", "catalog", "compare", "server", "cli", "python"},
    "opmeter.h": {"rec", "device", "engine", "run", "launch", "python"},
    "opmeter_run.h": {"public", "python"},
    "opmeter_arrow.h": {"public", "python"},
}

# A library is known to one folder.
LIBRARIES = {
    "sqlite3.h": "sql",
    "pcre2.h": "sql",
    "zlib.h": "base",
    "zstd.h": "base",
    "curl/curl.h": "catalog",
    "microhttpd.h": "server",
    "xlsxwriter.h": "export",
    "Python.h": "python",
}

# What a compiler that is older than ours has not got, and the header that makes up for it.
MADE_UP = {"__builtin_shufflevector": "engine/native/isa/shuffle.h"}

NATIVE = ROOT / "src" / "engine" / "native"
# Its rooms, and its files that are in none, from the bottom up: each may include those before it.
ROOMS = ["memory.h memory.c", "thread/", "isa/", "op.h op.c kernels.def", "math/", "op/", "layout/", "rewrite/",
         "plan/"]

# What a layer sees through headers of those that it may include: a struct in a struct. Not to be
# included by itself.
THROUGH = {
    "cli": {"device", "store"},
    "server": {"store"},
    "public": {"analyze", "device"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(source):
    """The layer of a source file."""
    parts = source.relative_to(ROOT).parts
    return parts[0] if parts[0] == "python" else parts[1]


def room_of(path):
    """Index into ROOMS of a file of the native engine, -1 if it has no place there."""
    parts = path.relative_to(NATIVE).parts
    name = parts[0] + "/" if len(parts) == 2 else parts[0] if len(parts) == 1 else ""
    return next((i for i, room in enumerate(ROOMS) if name in room.split()), -1)


def room_problem(source, target):
    """Why a file of the native engine may not include `target`, or None."""
    if NATIVE not in source.parents or NATIVE not in target.parents:
        return None
    if room_of(target) > room_of(source):
        return f"{source.relative_to(NATIVE)} may not include {ROOMS[room_of(target)]}, which is above"
    return None


def check_rooms():
    """Every file of the native engine is in a room, and the README has a line for it."""
    bad = 0
    readme = NATIVE / "README.md"
    told = re.findall(r"^\| ((?:`[^`]+` ?)+)\|", readme.read_text(encoding="utf-8"), re.MULTILINE)
    if [" ".join(re.findall(r"`([^`]+)`", line)) for line in reversed(told)] != ROOMS:
        print(f"{readme.relative_to(ROOT)}:1: its lines are not the rooms of check_layers.py")
        bad += 1
    for path in sorted(NATIVE.rglob("*")):
        if path.is_file() and path != readme and room_of(path) < 0:
            print(f"{path.relative_to(ROOT)}:1: in no room of the README beside it")
            bad += 1
    return bad


def problem(folder, source, quote, target):
    """Why `folder` may not include `target`, or None."""
    path = target.split("/")
    if path[0] == "opmeter" and len(path) == 2:
        if folder not in PUBLIC.get(path[1], ()):
            return f"{folder}/ may not include the public header {path[1]}"
        return None
    if path[-1] in LIBRARIES:
        if folder != LIBRARIES[path[-1]]:
            return f"only {LIBRARIES[path[-1]]}/ includes {path[-1]}"
        return None
    if quote == "<":
        return None
    if (ROOT / "src" / target).exists():
        other = path[0]
    elif (source.parent / target).resolve().is_file():
        other = folder_of((source.parent / target).resolve())
    else:
        return None  # made by the build, or the compiler will say so
    if other == folder:
        return room_problem(source, ROOT / "src" / target)
    if other in ALLOW[folder]:
        return None
    if other == "base":
        allowed = BARE.get(folder)
        if folder not in BARE or path[-1] in allowed:
            return None
        return f"{folder}/ may include of base/ only {', '.join(sorted(allowed)) or 'nothing'}"
    return f"{folder}/ may not include {other}/"


def included(path, known={}):
    """The files of ours that a file includes itself."""
    if path not in known:
        found = []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            match = INCLUDE.match(line)
            if match and match[1] == '"':
                places = (ROOT / "src" / match[2], path.parent / match[2])
                found += [place.resolve() for place in places if place.is_file()][:1]
        known[path] = found
    return known[path]


def reached(source):
    """Every file that a source includes through others, with the one that brings it in."""
    by, todo = {source: None}, [source]
    while todo:
        path = todo.pop()
        for other in included(path):
            if other not in by:
                by[other] = path
                todo.append(other)
    return by


def reach_problem(folder, target):
    """Why a file of `folder` may not even see `target`, or None."""
    other = folder_of(target)
    if other == "base":
        if target.name in BARE.get(folder, {target.name}):
            return None
        return f"{folder}/ may see of base/ only {', '.join(sorted(BARE[folder])) or 'nothing'}"
    if other == folder or other in ALLOW[folder] or other in THROUGH.get(folder, ()):
        return None
    return f"{folder}/ may not see {other}/"


def check_reach(source, folder):
    """What comes in through other headers keeps to the layers as well."""
    bad = 0
    for target, by in reached(source).items():
        why = by and by != source and reach_problem(folder, target)
        if why:
            print(f"{source.relative_to(ROOT)}:1: {why}: {target.relative_to(ROOT)}, "
                  f"through {by.relative_to(ROOT)}")
            bad += 1
    return bad


def check_forwarder(source):
    """A header that holds nothing but includes hides who needs what."""
    if source.suffix != ".h":
        return 0
    text = re.sub(r"/\*.*?\*/", "", source.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if line.strip()]
    guard = re.compile(r"\s*#\s*(ifndef|endif|define \w+$|pragma once)")
    rest = [line for line in lines if not guard.match(line)]
    if rest and all(INCLUDE.match(line) for line in rest):
        print(f"{source.relative_to(ROOT)}:1: only includes others: include those where needed")
        return 1
    return 0


def check_made_up(source):
    text = source.read_text(encoding="utf-8", errors="replace")
    lacking = [f"{name}() needs {header}" for name, header in MADE_UP.items()
               if f"{name}(" in text and ROOT / "src" / header not in reached(source)]
    for why in lacking:
        print(f"{source.relative_to(ROOT)}:1: {why}")
    return len(lacking)


def check(source, folder):
    bad = 0
    text = source.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        why = problem(folder, source, match[1], match[2])
        if why:
            print(f"{source.relative_to(ROOT)}:{number}: {why}")
            bad += 1
    return bad


def main():
    bad = check_rooms()
    for top in ("src", "python"):
        for source in sorted((ROOT / top).rglob("*")):
            if source.suffix not in (".c", ".h", ".def", ".cc", ".cpp", ".inc"):
                continue
            folder = folder_of(source)
            if folder not in ALLOW:
                print(f"{source.relative_to(ROOT)}:1: folder {folder}/ has no place in ALLOW")
                bad += 1
                continue
            bad += check(source, folder) + check_reach(source, folder) + check_forwarder(source)
            bad += check_made_up(source)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
