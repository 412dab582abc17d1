#!/usr/bin/env python3
"""recipes.py -- the shell of a document that calls opmeter, so that a test can run it.

usage: recipes.py FILE

Of YAML the blocks of text ("run: |", "- |") that call it, of Markdown the commands in blocks of sh. Where
Python's yaml is there, YAML that is none is a failure.
"""
import pathlib
import re
import sys


def check_yaml(text):
    try:
        import yaml
    except ImportError:
        return
    if not isinstance(yaml.safe_load(text), dict):
        sys.exit("the YAML is no mapping")


def blocks_of_yaml(text):
    """Texts behind a "|" at the end of a line: what stands deeper than it."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if not re.search(r"(^\s*-|:) \|$", line):
            continue
        depth, block = len(line) - len(line.lstrip()), []
        for inner in lines[i + 1:]:
            if inner.strip() and len(inner) - len(inner.lstrip()) <= depth:
                break
            block.append(inner)
        indent = min(len(b) - len(b.lstrip()) for b in block if b.strip())
        yield "\n".join(b[indent:] for b in block).rstrip()


def commands_of_markdown(text):
    """Commands that begin with opmeter, with the lines that go on behind a backslash."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        for command in block.replace("\\\n", " ").splitlines():
            if command.startswith("opmeter "):
                yield command


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text()
    if path.suffix == ".md":
        found = list(commands_of_markdown(text))
    else:
        check_yaml(text)
        found = [block for block in blocks_of_yaml(text) if re.search(r"^\s*opmeter ", block, re.M)]
    if not found:
        sys.exit(f"{path}: it calls opmeter nowhere")
    print("\n".join(found))


if __name__ == "__main__":
    main()
