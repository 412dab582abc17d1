#!/usr/bin/env python3
"""check_docs.py -- docs/schema.md is what the program says, and links between documents resolve.

usage: tools/check_docs.py [--opmeter PROGRAM] [--update]

--update rewrites docs/schema.md. Links to other sites are not followed.
"""
import argparse
import difflib
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs" / "schema.md"
SKIP = {".git", "build", "node_modules"}

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^()\s>]+(?:\([^()\s]*\))?)>?(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
CODE = re.compile(r"`[^`]*`")


def documents():
    for path in sorted(ROOT.rglob("*.md")):
        if not SKIP & set(path.relative_to(ROOT).parts):
            yield path


def prose(path):
    """Numbered lines outside of code blocks."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(path):
    """The names that headings of a document get on a page, as forges make them."""
    seen = {}
    for _, line in prose(path):
        match = HEADING.match(line)
        if match:
            slug = re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            yield f"{slug}-{count}" if count else slug


def check_links():
    bad = 0
    for document in documents():
        for number, line in prose(document):
            for target in LINK.findall(CODE.sub("", line)):
                if re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                name, _, anchor = unquote(target).partition("#")
                path = (document.parent / name).resolve() if name else document
                where = f"{document.relative_to(ROOT)}:{number}"
                if not path.exists():
                    print(f"{where}: link to {target}: no such file")
                    bad += 1
                elif anchor and path.suffix == ".md" and anchor not in anchors(path):
                    print(f"{where}: link to {target}: no such heading")
                    bad += 1
    return bad


def check_schema(program, update):
    done = subprocess.run([program, "schema", "--markdown"], text=True, capture_output=True)
    if done.returncode != 0:
        print(f"{program} schema --markdown: exit {done.returncode}: {done.stderr.strip()}")
        return 1
    if update:
        SCHEMA.write_text(done.stdout, encoding="utf-8")
        return 0
    written = SCHEMA.read_text(encoding="utf-8") if SCHEMA.exists() else ""
    if written == done.stdout:
        return 0
    print("\n".join(difflib.unified_diff(
        written.splitlines(), done.stdout.splitlines(), "docs/schema.md",
        "opmeter schema --markdown", lineterm="", n=1)))
    print("to bring it up to date: tools/check_docs.py --update")
    return 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", default=str(ROOT / "build" / "dev" / "opmeter"))
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    return 1 if check_schema(args.opmeter, args.update) + check_links() else 0


if __name__ == "__main__":
    sys.exit(main())
