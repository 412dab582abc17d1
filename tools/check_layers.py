#!/usr/bin/env python3
"""check_layers.py -- every #include of the sources goes to a layer that its folder may know.

The folders of src/ form layers and includes point down only. ALLOW says for each folder which
others it may include; base is open to all but the folders in BARE. A folder that is not listed is
an error: decide its place first.
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
    "server": [],
    "cli": ["server", "run", "launch"],
    "python": [],
}

# Folders that may not include all of base/. rec/ is linked into other people's programs, so it gets
# what is header-only, and error.c.
BARE = {
    "format": set(),
    "rec": {"banned.h", "capped.h", "common.h", "environment.def", "environment.h", "error.h",
            "perf_refusal.h", "rd.h", "redact.h"},
    "python": set(),
}

# Who may include which public header.
PUBLIC = {
    "opmeter_error.h": set(ALLOW),
    "opmeter_trace.h": {"public", "server", "cli", "python"},
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
    "microhttpd.h": "server",
    "xlsxwriter.h": "export",
    "Python.h": "python",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(source):
    """The layer of a source file."""
    parts = source.relative_to(ROOT).parts
    return parts[0] if parts[0] == "python" else parts[1]


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
    if other == folder or other in ALLOW[folder]:
        return None
    if other == "base":
        allowed = BARE.get(folder)
        if folder not in BARE or path[-1] in allowed:
            return None
        return f"{folder}/ may include of base/ only {', '.join(sorted(allowed)) or 'nothing'}"
    return f"{folder}/ may not include {other}/"


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
    bad = 0
    for top in ("src", "python"):
        for source in sorted((ROOT / top).rglob("*")):
            if source.suffix not in (".c", ".h", ".def", ".cc", ".cpp", ".inc"):
                continue
            folder = folder_of(source)
            if folder not in ALLOW:
                print(f"{source.relative_to(ROOT)}:1: folder {folder}/ has no place in ALLOW")
                bad += 1
                continue
            bad += check(source, folder)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
