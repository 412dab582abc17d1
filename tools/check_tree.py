#!/usr/bin/env python3
"""check_tree.py -- small rules that every file of the tree keeps.

No file of code over MAX_LINES; no notes to self; no path of somebody's own machine; C files and
headers begin with a line that says their name and what they are for; files that their comments name
exist; the web page makes no markup from text.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MAX_LINES = 800
LONG = {"ui/src/schema.ts": "written by check_docs.py"}  # path: why it may be longer

CODE = {".c", ".h", ".cpp", ".def", ".ts", ".tsx", ".mjs", ".css", ".py"}
HEADED = {".c", ".h", ".cpp", ".def"}
# Inputs of tests may hold anything; built files are not written by hand.
DATA = ("tests/data/", "tests/fuzz/corpus/", "ui/dist/")

# Put together, so that this file does not find itself.
NOTES = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
# Names from traces must never become HTML.
MARKUP = re.compile(r"innerHTML|outerHTML\s*=|insertAdjacentHTML|document\.write|DOMParser")
HOMES = re.compile("|".join(
    [r"/ho" + r"me/\w", r"/Us" + r"ers/\w", r"/ro" + r"ot/\w"]
    # Where this checkout is, unless that could be a word of any text.
    + ([r"(?<![\w.\-/])" + re.escape(str(ROOT)) + r"\b"] if len(ROOT.parts) > 2 else [])))


COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NAMED = re.compile(r"(?<![\w/.<-])((?:[\w-]+/)*[\w-]+\.(?:c|h|def))\b(?!\.)")
# Made by the build; a name that stands for any.
NO_FILES = {"page_files.def", "cmd_x.c"}


def tree():
    """Files of the project, without what git ignores."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "-c", f"safe.directory={ROOT}", "ls-files", "-z",
         "--cached", "--others", "--exclude-standard"], capture_output=True)
    if done.returncode == 0:
        names = sorted(name for name in done.stdout.decode().split("\0") if name)
    else:  # not a checkout: an unpacked archive
        names = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*")
                       if path.relative_to(ROOT).parts[0] not in ("build", ".git"))
    return [name for name in names if (ROOT / name).is_file() and not name.startswith(DATA)]


def misnamed(text, ends):
    """Files that comments name and that are not there: line and name."""
    for comment in COMMENT.finditer(text):
        for named in NAMED.finditer(comment[0]):
            if named[1] not in ends and named[1] not in NO_FILES:
                yield text.count("\n", 0, comment.start() + named.start()) + 1, named[1]


def problems(name, ends):
    path = ROOT / name
    data = path.read_bytes()
    if b"\0" in data:
        return
    lines = data.decode("utf-8", "replace").splitlines()
    if path.suffix in CODE and len(lines) > MAX_LINES and name not in LONG:
        yield 1, f"{len(lines)} lines; split it (at most {MAX_LINES})"
    if path.suffix in HEADED and not (lines and lines[0].startswith(f"/* {path.name} -- ")):
        yield 1, f"does not begin with '/* {path.name} -- what it is for'"
    if path.suffix in HEADED:
        for number, file in misnamed("\n".join(lines), ends):
            yield number, f"names {file}, which does not exist"
    for number, line in enumerate(lines, 1):
        note = NOTES.search(line)
        if note:
            yield number, f"{note[0]}: do it or drop it"
        markup = name.startswith("ui/src/") and MARKUP.search(line)
        if markup:
            yield number, f"{markup[0]}: make elements, not markup"
        home = HOMES.search(line)
        if home:
            yield number, f"path of one machine: {home[0]}"


def main():
    bad = 0
    names = tree()
    # A file may be named with any number of its folders.
    ends = {"/".join(Path(name).parts[i:]) for name in names for i in range(len(Path(name).parts))}
    for name in names:
        for number, what in problems(name, ends):
            print(f"{name}:{number}: {what}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
