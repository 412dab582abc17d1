#!/usr/bin/env python3
"""version.py -- the version is in the file VERSION; what must repeat it agrees.

usage: tools/version.py [--check | --notes | --set X.Y.Z]

Without an option: print it. --check: the macros of opmeter.h and the first heading of CHANGELOG.md say
the same. --notes: what CHANGELOG.md says of it, for a release. --set: write it into all three.
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION, HEADER, CHANGES = ROOT / "VERSION", ROOT / "include/opmeter/opmeter.h", ROOT / "CHANGELOG.md"
MACRO = re.compile(r"^#define OPM_VERSION_(MAJOR|MINOR|PATCH) (\d+)$", re.MULTILINE)
HEADING = re.compile(r"^## (\d+\.\d+\.\d+)\b.*$", re.MULTILINE)


def in_header():
    found = dict(MACRO.findall(HEADER.read_text()))
    return ".".join(found.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))


def notes(version):
    """The section of a version, or None."""
    parts = HEADING.split(CHANGES.read_text())
    return dict(zip(parts[1::2], parts[2::2])).get(version)


def set_version(version):
    numbers = dict(zip(("MAJOR", "MINOR", "PATCH"), version.split(".")))
    VERSION.write_text(version + "\n")
    HEADER.write_text(MACRO.sub(lambda found: f"#define OPM_VERSION_{found[1]} {numbers[found[1]]}",
                                HEADER.read_text()))
    if notes(version) is None:
        text = CHANGES.read_text()
        first = HEADING.search(text)
        CHANGES.write_text(text[:first.start()] + f"## {version} (unreleased)\n\n" + text[first.start():])


def main():
    parser = argparse.ArgumentParser()
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true")
    how.add_argument("--notes", action="store_true")
    how.add_argument("--set", metavar="X.Y.Z")
    args = parser.parse_args()
    if args.set:
        if not re.fullmatch(r"\d+\.\d+\.\d+", args.set):
            sys.exit(f"version.py: '{args.set}' is no version such as 1.2.3")
        set_version(args.set)
        return 0
    version = VERSION.read_text().strip()
    if args.notes:
        text = notes(version)
        if text is None:
            sys.exit(f"version.py: CHANGELOG.md has no section {version}")
        print(text.strip())
    elif args.check:
        first = HEADING.search(CHANGES.read_text())
        bad = 0
        for place, found in (("include/opmeter/opmeter.h", in_header()),
                             ("CHANGELOG.md", first[1] if first else "nothing")):
            if found != version:
                print(f"VERSION says {version}, {place} says {found}; tools/version.py --set {version}")
                bad = 1
        return bad
    else:
        print(version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
