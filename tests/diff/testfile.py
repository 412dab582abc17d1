"""testfile.py -- read a .test file, and write it back with other expectations.

The form of the file is told in run.py.
"""
import re

from filters import FILTERS

SECTION = re.compile(r"-- (needs|file|run|exit|filter|expect|expect-stderr)(?::\s*(.*?))?\s*$")


class BadTest(Exception):
    pass


class Section:
    """One section: its word, what follows the colon, and its lines, escaped as in the file."""

    def __init__(self, word, value, line):
        self.word, self.value, self.line, self.body = word, value, line, []

    def text(self):
        body = list(self.body)
        while body and not body[-1]:
            body.pop()
        text = "".join(f"{line.removeprefix(chr(92))}\n" for line in body)
        return text[:-1] if "no-newline" in self.value.split() else text

    def set_text(self, text):
        """The opposite of text(), keeping the blank lines that set the next section apart."""
        blank = 0
        while blank < len(self.body) and not self.body[-1 - blank]:
            blank += 1
        lines = text.split("\n")
        self.value = ""
        if lines[-1]:
            self.value = "no-newline"
        else:
            lines.pop()
        lines = [f"\\{line}" if line.startswith(("-- ", "\\")) else line for line in lines]
        if lines and not lines[-1]:
            lines[-1] = "\\"
        self.body = lines + [""] * blank

    def written(self):
        if not self.word:
            return ""
        head = f"-- {self.word}" + (f": {self.value}" if self.value else "")
        return "".join(f"{line}\n" for line in [head, *self.body])


class Run:
    """A command: its section, the last of the sections that belong to it, and what they say."""

    def __init__(self, section):
        self.section = self.last = section
        self.status, self.filters, self.expect = 0, [], {}

    def script(self):
        return "\n".join([self.section.value, *self.section.body]).strip()

    def title(self):
        return self.script().split("\n")[0]


class Test:
    def __init__(self, path):
        self.path = path
        self.name = f"{path.parent.name}/{path.stem}"
        self.head, self.sections = [], []
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            lines = file.read().split("\n")
        if lines[-1] == "":
            lines.pop()
        for number, line in enumerate(lines, 1):
            match = SECTION.match(line)
            if match:
                self.sections.append(Section(match[1], match[2] or "", number))
            elif line.startswith("-- "):
                raise BadTest(f"{path}:{number}: unknown section '{line}'; as text write '\\{line}'")
            elif self.sections:
                self.sections[-1].body.append(line)
            else:
                self.head.append(line)
        self.parse()

    def parse(self):
        """Sort the sections into needs, files and runs, in order."""
        self.needs, self.actions, self.runs, common = [], [], [], []
        for s in self.sections:
            run = self.runs[-1] if self.runs else None
            if s.word == "needs":
                self.needs.append(s)
            elif s.word == "file":
                self.actions.append(s)
            elif s.word == "run":
                self.runs.append(Run(s))
                self.actions.append(self.runs[-1])
            elif s.word == "filter":
                names = re.split(r"[,\s]+", s.value.strip())
                for name in names:
                    if name not in FILTERS:
                        raise self.bad(s, f"no filter '{name}'; there are {', '.join(FILTERS)}")
                (run.filters if run else common).extend(names)
            elif not run:
                raise self.bad(s, f"'{s.word}' needs a run above it")
            elif s.word == "exit":
                run.status = int(s.value)
            elif s.word in run.expect:
                raise self.bad(s, f"a second '{s.word}' for the same run")
            else:
                run.expect[s.word] = s
            if run and s.word not in ("needs", "file", "run"):
                run.last = s
        if not self.runs:
            raise BadTest(f"{self.path}: nothing to run")
        for run in self.runs:
            run.filters = common + run.filters

    def bad(self, section, what):
        return BadTest(f"{self.path}:{section.line}: {what}")

    def update(self, run, stream, text):
        """Make `text` what `run` is expected to print."""
        section = run.expect.get(stream)
        if section and text:
            section.set_text(text)
        elif section:
            section.word, section.value, section.body = None, "", []
            del run.expect[stream]
        elif text:
            section = Section(stream, "", 0)
            section.set_text(text)
            # Blank lines that followed the run now follow what it prints.
            while run.last.body and not run.last.body[-1]:
                section.body.append(run.last.body.pop())
            self.sections.insert(self.sections.index(run.last) + 1, section)
            run.expect[stream] = run.last = section

    def write(self):
        with open(self.path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.writelines(f"{line}\n" for line in self.head)
            file.writelines(section.written() for section in self.sections)
