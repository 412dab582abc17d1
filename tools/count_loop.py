#!/usr/bin/env python3
"""count_loop.py -- instructions for each multiply-add in the hot loops of an object file.

usage: tools/count_loop.py FILE.o REGEX [FUNCTION_REGEX...]

REGEX is matched with the beginning of an instruction (fmla, sdot). Of each function the loop with
the fewest instructions for each of them is told: what no emulator says, and a look at the code does.
OBJDUMP names the program that disassembles, aarch64-linux-gnu-objdump unless given.
"""
import os
import re
import subprocess
import sys

BACK = re.compile(r"(?:b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,|b)\s+([0-9a-f]+) ")


def loops(code):
    """The instructions of each backward branch and what it goes back over."""
    at = {address: i for i, (address, _) in enumerate(code)}
    for i, (_, text) in enumerate(code):
        jump = BACK.match(text)
        start = at.get(int(jump[1], 16)) if jump else None
        if start is not None and start <= i:
            yield [text for _, text in code[start:i + 1]]


def best_loop(code, counted):
    """(instructions for each, counted, instructions, those with the stack), or None."""
    found = []
    for body in loops(code):
        n = sum(bool(counted.match(text)) for text in body)
        if n:
            found.append((len(body) / n, n, len(body), sum("[sp" in text for text in body)))
    return min(found, default=None)


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: tools/count_loop.py FILE.o REGEX [FUNCTION_REGEX...]")
    path, counted, *wanted = sys.argv[1:]
    tool = os.environ.get("OBJDUMP", "aarch64-linux-gnu-objdump")
    text = subprocess.run([tool, "-d", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    for part in text.split("\n\n"):
        head = re.match(r"\s*[0-9a-f]+ <(.+?)>:", part)
        if not head or wanted and not any(re.fullmatch(w, head[1]) for w in wanted):
            continue
        code = [(int(a, 16), t) for a, t in re.findall(r"^\s*([0-9a-f]+):\t(.*)$", part, re.M)]
        best = best_loop(code, re.compile(counted))
        if best:
            print(f"{head[1]:<24} {best[2]:4} instructions, {best[1]:3} counted: {best[0]:.2f} for "
                  f"each, {best[3]} with the stack")


if __name__ == "__main__":
    main()
