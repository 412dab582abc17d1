#!/usr/bin/env python3
"""Compare the manual pages with what the commands say of themselves.

usage: check_man.py OPMETER [MAN_FOLDER]

Every command of `opmeter help` needs docs/man/opmeter-COMMAND.1 whose NAME, SYNOPSIS and OPTIONS say
what the list of commands and `opmeter COMMAND --help` say, and every page needs a command. opmeter.1
names every variable of src/base/environment.def, and every OPMETER_ variable that the sources look at is
in that list. Prints a line for each difference; exit 1 if there
is any.
"""

import pathlib
import re
import subprocess
import sys


def ask(opmeter, *args):
    """What the command prints; it must succeed."""
    done = subprocess.run([opmeter, *args], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"check_man.py: {opmeter} {' '.join(args)} exits {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


def usage_of(help_lines):
    """The forms behind "usage:" and "or:"."""
    forms = []
    for line in help_lines:
        found = re.match(r"(?:usage|   or): (.*)", line)
        if not found:
            break
        forms.append(found.group(1))
    return forms


def options_of(help_lines):
    """Options as written, such as "-o, --output PATH"."""
    found = (re.match(r"  (?:    )?(-.+?)(?:  .*)?$", line) for line in help_lines)
    return [option.group(1) for option in found if option]


def commands_of(help_lines):
    """Names and one-line descriptions."""
    found = (re.match(r"  ([a-z]\S*) +(\S.*)", line) for line in help_lines)
    return {command.group(1): command.group(2) for command in found if command}


def plain(line):
    """A line of roff without fonts, escapes and the macros that set a font."""
    line = re.sub(r"^\.[BI]R? ", "", line)
    line = re.sub(r"\\f[BIRP]", "", line)
    return line.replace(r"\-", "-").replace(r"\&", "").replace('"', "")


def sections_of(path):
    """The lines of each section of a page."""
    sections, name = {}, None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(".SH "):
            name = plain(line[4:])
            sections[name] = []
        elif name:
            sections[name].append(line)
    return sections


def text_of(lines):
    return [plain(line) for line in lines if not re.match(r"\.(nf|fi|PP)\b", line)]


def tags_of(lines):
    """What stands behind each .TP."""
    return [plain(b) for a, b in zip(lines, lines[1:]) if a == ".TP"]


def differences(page, what, ours, theirs):
    """Lines about what only the program (ours) or only the page (theirs) has."""
    for item in ours:
        if item not in theirs:
            yield f"{page}: {what} lacks '{item}'"
    for item in theirs:
        if item not in ours:
            yield f"{page}: {what} has '{item}', which opmeter does not say"
    if sorted(ours) == sorted(theirs) and ours != theirs:
        yield f"{page}: {what} is in another order than in the help"


def check_command(opmeter, folder, name, summary):
    page = folder / f"opmeter-{name}.1"
    if not page.exists():
        yield f"{page}: missing, but there is a command '{name}'"
        return
    sections = sections_of(page)
    said = ask(opmeter, name, "--help")
    if ask(opmeter, "help", name) != said:
        yield f"'opmeter help {name}' and 'opmeter {name} --help' differ"
    yield from differences(page, "NAME", [f"opmeter-{name} - {summary}"],
                           text_of(sections.get("NAME", [])))
    yield from differences(page, "SYNOPSIS", usage_of(said), text_of(sections.get("SYNOPSIS", [])))
    yield from differences(page, "OPTIONS", options_of(said), tags_of(sections.get("OPTIONS", [])))


def check_main(opmeter, folder, commands):
    page = folder / "opmeter.1"
    if not page.exists():
        yield f"{page}: missing"
        return
    sections = sections_of(page)
    usage = usage_of(ask(opmeter, "help"))
    options = re.findall(r"\[(-[^\]]*)\]", " ".join(usage))
    listed = [re.sub(r"^opmeter-(\S+) .*", r"\1", tag) for tag in tags_of(sections.get("COMMANDS", []))]
    yield from differences(page, "SYNOPSIS", usage, text_of(sections.get("SYNOPSIS", [])))
    yield from differences(page, "OPTIONS", options, tags_of(sections.get("OPTIONS", [])))
    yield from differences(page, "COMMANDS", list(commands), listed)


def check_environment(folder):
    """Variables of src/base/environment.def and what ENVIRONMENT of opmeter.1 says."""
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = root / "src" / "base" / "environment.def"
    ours = re.findall(r"^VARIABLE\((\w+),", listed.read_text(encoding="utf-8"), re.M)
    asked = re.compile(r"""(?:environment_\w+\(|environ(?:\.get\(|\[)|getenv\()\s*["'](OPMETER_\w+)""")
    for source in [*(root / "src").rglob("*.[ch]"), *(root / "python").rglob("*.[ch]"),
                   *(root / "python" / "opmeter").rglob("*.py")]:
        for name in asked.findall(source.read_text(encoding="utf-8")):
            if name not in ours:
                yield f"{source.relative_to(root)}: {name} is not in {listed.relative_to(root)}"
    page = folder / "opmeter.1"
    theirs = tags_of(sections_of(page).get("ENVIRONMENT", []))
    for name in ours:
        if name not in theirs:
            yield f"{page}: ENVIRONMENT lacks '{name}'"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    opmeter = sys.argv[1]
    if len(sys.argv) == 3:
        folder = pathlib.Path(sys.argv[2])
    else:
        folder = pathlib.Path(__file__).resolve().parent.parent / "docs" / "man"
    commands = commands_of(ask(opmeter, "help"))
    found = list(check_main(opmeter, folder, commands)) + list(check_environment(folder))
    for name, summary in commands.items():
        found += check_command(opmeter, folder, name, summary)
    for page in sorted(folder.glob("opmeter-*.1")):
        if page.stem[len("opmeter-"):] not in commands:
            found.append(f"{page}: there is no such command")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
