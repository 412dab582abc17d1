#!/usr/bin/env python3
"""check_conditions.py -- no assignment inside a condition, in C and C++ that is installed.

A condition is what stands in the parentheses of if, while and switch, and between the semicolons of
for. Members and elements that a compound literal names (.x = 1, [i] = 2) are no assignments.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FOLDERS = ["src", "include", "python", "examples"]
SUFFIXES = {".c", ".h", ".def", ".cc", ".cpp", ".inc"}

QUIET = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
HEAD = re.compile(r"\b(if|while|switch|for)\s*\(")
ASSIGNS = re.compile(r"(?<![=!<>])(?:<<|>>|[-+*/%&|^])?=(?!=)")
MEMBER = re.compile(r"[{,]\s*(?:\.\w+|\[[^\]]*\])+\s*$")


def blank(match):
    """Comments and strings become blanks, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", match[0])


def inside(text, at):
    """What stands between the parenthesis that ends at `at` and the one that closes it."""
    depth = 1
    for end in range(at, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return text[at:end]
    return ""


def parts(text):
    """Split at semicolons that are in no parentheses or braces."""
    out, depth = [""], 0
    for c in text:
        depth += (c in "({[") - (c in ")}]")
        if c == ";" and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return out


def assigned(condition):
    """Where a condition assigns, or None."""
    for match in ASSIGNS.finditer(condition):
        if not MEMBER.search(condition[:match.start()]):
            return match.start()
    return None


def problems(text):
    text = QUIET.sub(blank, text)
    for head in HEAD.finditer(text):
        condition, skip = inside(text, head.end()), 0
        if head[1] == "for":
            clauses = parts(condition)
            if len(clauses) != 3:
                continue
            skip, condition = len(clauses[0]) + 1, clauses[1]
        at = assigned(condition)
        if at is not None:
            yield text.count("\n", 0, head.end() + skip + at) + 1, head[1]


def main():
    bad = 0
    for folder in FOLDERS:
        for source in sorted((ROOT / folder).rglob("*")):
            name = str(source.relative_to(ROOT))
            if source.suffix not in SUFFIXES or not source.is_file():
                continue
            for number, word in problems(source.read_text(encoding="utf-8", errors="replace")):
                print(f"{name}:{number}: assignment in the condition of {word}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
