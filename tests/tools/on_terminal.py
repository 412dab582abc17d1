#!/usr/bin/env python3
"""on_terminal.py -- what a command prints on a terminal that is so many columns wide.

usage: on_terminal.py COLUMNS [--colour] [--wider] COMMAND [ARG]...

Standard output and error come as one, escape sequences written ESC. --wider: only the lines that
do not fit, each after the command. Progress bars, which slow machines show, are left out. Ends as
the command does.
"""
import os
import pty
import re
import sys
import unicodedata


def columns(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def shown(width, colour, command):
    """Its output, and its exit code."""
    child, fd = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm", COLUMNS=str(width))
        os.environ.pop("NO_COLOR", None)
        if not colour:
            os.environ["NO_COLOR"] = "1"
        os.execvp(command[0], command)
    text = b""
    while True:
        try:
            more = os.read(fd, 65536)
        except OSError:  # how Linux says that the other end was closed
            break
        if not more:
            break
        text += more
    os.close(fd)
    status = os.waitpid(child, 0)[1]
    text = re.sub(rb"(\r\x1b\[K\[[=> ]+\] [^\r]*)+\r\x1b\[K", b"", text)
    return text.replace(b"\r\n", b"\n").decode(errors="replace"), os.waitstatus_to_exitcode(status)


def main():
    args = sys.argv[1:]
    width, args = int(args[0]), args[1:]
    flags = set()
    while args[0].startswith("--"):
        flags.add(args.pop(0))
    text, status = shown(width, "--colour" in flags, args)
    if "--wider" in flags:
        for line in text.splitlines():
            if columns(line) > width:
                print(" ".join(args), "|", line)
    else:
        print(text.replace("\x1b", "ESC"), end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
