#!/usr/bin/env python3
"""check_buffers.py -- bytes that a loop writes into memory of a fixed size stay within it.

usage: tools/check_buffers.py [--self-test] [FILE...]

A char or byte array (a local, a parameter, a member of a struct, a static) that is written by index
or through a pointer inside a loop is the place where a strange file overflows the stack. Each such
write must be one of these:

- through base/capped.h or base/buf.h, which know where the memory ends: nothing to see here;
- by an index that the condition of the loop compares with the array's own size, counted up once
  per round: `for (i = 0; i < sizeof(text); i++) text[i] = ...`;
- by an index that cannot exceed the array: a constant, or masked (`table[i & 15]`);
- beside a comment `/* bounded: why */`, on its line, above it, or above the loop. A comment that
  no write needs is a mistake, too.

The reading is lexical: a net with small meshes, not a proof. The self-test shows what it catches.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BYTES = r"(?:unsigned\s+char|signed\s+char|char|uint8_t|int8_t)"
ALLOWED = re.compile(r"/\*\s*bounded:\s*(.*?)\s*\*/", re.S)
ASSIGN = r"\s*(?:=(?!=)|[-+|&^*/%]=|<<=|>>=|\+\+|--)"
COPIES = r"\b(?:memcpy|memmove|memset|strcpy|stpcpy|strcat|sprintf)\s*\(\s*(?:\([^()]*\)\s*)?&?\s*"


def blank(text):
    """The text without comments and literals, of the same length."""
    def spaces(match):
        found = match.group()
        if found[0] in "\"'":
            return found[0] + " " * (len(found) - 2) + found[0]
        return re.sub(r"[^\n]", " ", found)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', spaces, text,
                  flags=re.S)


def closing(text, at):
    """Where the bracket that opens at `at` is closed."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    close, depth = pairs[text[at]], 0
    for i in range(at, len(text)):
        if text[i] == text[at]:
            depth += 1
        elif text[i] == close:
            depth -= 1
            if depth == 0:
                return i
    return len(text) - 1


def statement(text, at):
    """Where the statement at `at` ends."""
    at += len(text[at:]) - len(text[at:].lstrip())
    if at >= len(text):
        return at
    if text[at] == "{":
        return closing(text, at) + 1
    word = re.match(r"(for|while|if|switch|else|do)\b", text[at:])
    if not word:
        depth = 0
        for i in range(at, len(text)):
            if text[i] in "([{":
                depth += 1
            elif text[i] in ")]}":
                depth -= 1
            elif text[i] == ";" and depth <= 0:
                return i + 1
        return len(text)
    if word[1] in ("else", "do"):
        return statement(text, at + len(word[1]))
    end = statement(text, closing(text, text.index("(", at)) + 1)
    if word[1] == "if":
        rest = re.match(r"\s*else\b", text[end:])
        if rest:
            return statement(text, end + rest.end())
    return end


class Loop:
    """Span of a loop, and of the condition that is tested before or after each round."""

    def __init__(self, text, at, word):
        self.start = at
        if word == "do":
            body = statement(text, at + 2)
            head = text.index("(", body)
            self.end = closing(text, head) + 1
            self.body = (at + 2, body)
            self.condition = text[head + 1:self.end - 1]
        else:
            head = text.index("(", at)
            close = closing(text, head)
            self.end = statement(text, close + 1)
            self.body = (close + 1, self.end)
            inside = text[head + 1:close]
            parts = inside.split(";")
            self.condition = parts[1] if word == "for" and len(parts) == 3 else inside


def loops(text):
    found = []
    for match in re.finditer(r"\b(for|while|do)\b", text):
        if match[1] == "while":
            # The tail of a do loop is no loop of its own.
            close = closing(text, text.index("(", match.start()))
            if text[close + 1:].lstrip().startswith(";") and any(
                    loop.end == close + 1 for loop in found):
                continue
        found.append(Loop(text, match.start(), match[1]))
    return found


def arrays(text):
    """Names of byte arrays declared in a text, with their sizes as written. Not pointers."""
    found = {}
    for match in re.finditer(r"\b(?<!const )" + BYTES + r"\s+(?=[\w*])", text):
        end = statement(text, match.end())
        depth, piece, pieces = 0, "", []
        for c in text[match.end():end]:
            if c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
                if depth < 0:
                    break
            elif c in ",;" and depth == 0:
                pieces.append(piece)
                piece = ""
                continue
            piece += c
        for declared in pieces + [piece]:
            name = re.match(r"\s*(\w+)\s*\[", declared)
            if not name:
                continue
            open_at = name.end() - 1
            size = declared[open_at + 1:closing(declared, open_at)]
            size = re.sub(r"^\s*static\b", "", size).strip()
            if size:
                found[name[1]] = size
    return found


def functions(text):
    """(start of the head, start and end of the body) of each function: its braces are in column 0."""
    for match in re.finditer(r"^\{$", text, re.M):
        head = max(text.rfind("\n\n", 0, match.start()), text.rfind("\n}", 0, match.start()),
                   text.rfind(";\n", 0, match.start()), 0)
        end = text.find("\n}", match.end())
        yield head, match.start(), end if end >= 0 else len(text)


def struct_arrays(text):
    """Byte arrays that are members of a struct or union."""
    found = {}
    for match in re.finditer(r"\b(?:struct|union)\b[^;(){}=]*\{", text):
        found.update(arrays(text[match.end():closing(text, match.end() - 1)]))
    return found


def aliases(text, names):
    """Pointers into these arrays, by what is assigned to them: {pointer: array}."""
    found = {}
    known = dict.fromkeys(names)
    for _ in range(3):
        for name in list(known):
            into = found.get(name, name)
            for match in re.finditer(r"(?<![\w.>])(\w+)\s*=\s*(?:\([^()]*\*\)\s*)?&?\s*" +
                                     re.escape(name) + r"\b\s*(?=[;,)+\-?\[])", text):
                if match[1] not in names and match[1] not in found:
                    rest = text[match.end():]
                    indexed = rest.startswith("[") and "&" not in match.group()
                    if not indexed and is_pointer(text, match[1]):
                        found[match[1]] = into
                        known[match[1]] = None
    return found


def is_pointer(text, name):
    return re.search(r"\*\s*(?:const\s+|restrict\s+)*" + re.escape(name) + r"\b", text) is not None


def masked(index, size):
    """An index that cannot be beyond the array, whatever it is made of."""
    plain = re.sub(r"\s+", "", index)
    if re.fullmatch(r"[\dA-FxXuU]+|[A-Z][A-Z0-9_]*", plain):
        return True
    number = re.search(r"&(0x[0-9a-fA-F]+|\d+)\)*$", plain)
    if number and size.isdigit() and int(number[1], 0) < int(size):
        return True
    rest = re.search(r"%(\w+)\)*$", plain)
    return bool(rest and rest[1] == re.sub(r"\s+", "", size))


def bounded(loop, name, size, index, rounds):
    """Does the condition of the loop keep this index within the array?"""
    counter = re.match(r"\s*(\w+)\s*(\+\+)?\s*$", index)
    if not counter:
        return False
    sizes = [re.escape(re.sub(r"\s+", "", size)), r"sizeof\(" + name + r"\)", r"sizeof" + name,
             r"ARRAY_SIZE\(" + name + r"\)", r"sizeof\([\w.>\[\]-]*[.>]" + name + r"\)"]
    condition = re.sub(r"\s+", "", loop.condition)
    compared = re.search(r"(?<!\w)" + counter[1] + r"(?:\+\d+)?<(?:\(size_t\)|\(int\))?(?:" +
                         "|".join(sizes) + r")(?!\w)", condition)
    return bool(compared) and rounds <= 1


def writes(text, begin, end, name, pointer):
    """(position, index or None) of each write to this array or pointer between begin and end."""
    piece = text[begin:end]
    word = r"(?<![\w])" + re.escape(name)
    for match in re.finditer(word + r"\s*(?=\[)", piece):
        at, index = match.end(), None
        while at < len(piece) and piece[at] == "[":
            close = closing(piece, at)
            index = piece[at + 1:close]
            at = close + 1
        before = piece[:match.start()].rstrip()
        if re.match(ASSIGN, piece[at:]) or before.endswith(("++", "--")):
            yield begin + match.start(), index
    if pointer:
        for match in re.finditer(r"\*\s*(?:\+\+|--)?\s*" + word + r"\s*(?:\+\+|--)?" + ASSIGN,
                                 piece):
            if re.search(r"[\w)\],] *$", piece[max(0, match.start() - 80):match.start()]):
                continue  # a declaration or a product
            yield begin + match.start(), None
        for match in re.finditer(word + r"\s*=\s*\w+\s*\(\s*" + re.escape(name) + r"\s*[,)+]",
                                 piece):
            yield begin + match.start(), None
    for match in re.finditer(COPIES + re.escape(name) + r"\s*(\[|\+)", piece):
        yield begin + match.start(), None


class Source:
    def __init__(self, name, raw, members):
        self.name, self.raw, self.text = name, raw, blank(raw)
        self.members = members
        self.allowed = {}  # line where the comment ends -> used
        for match in ALLOWED.finditer(raw):
            self.allowed[self.line(match.end())] = (self.line(match.start()), match[1])
        self.used = set()

    def line(self, at):
        return self.raw.count("\n", 0, at) + 1

    def allow(self, *lines):
        for line in lines:
            for end, (first, why) in self.allowed.items():
                if why and (first <= line <= end or end == line - 1):
                    self.used.add(end)
                    return True
        return False

    def problems(self):
        outside = self.text
        bodies = list(functions(self.text))
        for _, start, end in bodies:
            outside = outside[:start] + re.sub(r"[^\n]", " ", outside[start:end]) + outside[end:]
        static = {}
        for match in re.finditer(r"^(?:static\s+)?(?:_Thread_local\s+)?" + BYTES + r"\s+\w+\s*\[",
                                 outside, re.M):
            static.update(arrays(outside[match.start():statement(outside, match.start())]))
        found = []
        for head, start, end in bodies:
            found += self.function(head, start, end, static)
        for end, (first, why) in self.allowed.items():
            if not why:
                found.append((first, "a bound without a reason"))
            elif end not in self.used:
                found.append((first, "a bound that nothing here needs"))
        return sorted(set(found))

    def function(self, head, start, end, static):
        text = self.text[start:end]
        around = loops(text)
        if not around:
            return []
        words = set(re.findall(r"\w+", text))
        plain = {name: size for name, size in
                 (static | arrays(self.text[head:start]) | arrays(text)).items() if name in words}
        members = {name: size for name, size in self.members.items()
                   if name in words and name not in plain}
        sizes = members | plain
        pointers = {name: into for name, into in aliases(text, list(sizes)).items()
                    if name not in plain}
        targets = [(name, size, False) for name, size in sizes.items()]
        targets += [(name, sizes[into], True) for name, into in pointers.items()]
        found = []
        for loop in around:
            for name, size, pointer in targets:
                hits = [(at, index) for at, index in
                        writes(text, loop.start, loop.end, name, pointer)
                        if name in plain or pointer or re.search(r"(?:\.|->)$", text[:at][-2:])]
                rounds = sum(1 for _, index in hits if index and "++" in index)
                for at, index in hits:
                    within = [other for other in around if other.start <= at < other.end]
                    if index is not None and (not pointer and masked(index, size) or any(
                            bounded(other, name, size, index, rounds) for other in within)):
                        continue
                    line = self.line(start + at)
                    if not self.allow(line, *(self.line(start + other.start) for other in within)):
                        found.append((line, f"{name}[{size}] is written in a loop that does not "
                                      "stop at its end"))
        return found


class Members:
    """The byte arrays within the structs that a file can see, by what it includes."""

    def __init__(self):
        self.own, self.includes = {}, {}

    def read(self, path):
        if path not in self.own:
            raw = path.read_text() if path.is_file() else ""
            self.own[path] = struct_arrays(blank(raw))
            self.includes[path] = [ROOT / "src" / name for name in
                                   re.findall(r'^#include "([^"]+)"', raw, re.M)]

    def seen_by(self, path):
        seen, queue, found = set(), [path], {}
        while queue:
            file = queue.pop()
            if file not in seen:
                seen.add(file)
                self.read(file)
                found.update(self.own[file])
                queue += self.includes[file]
        return found


BAD = {
    "a point becomes two bytes": """
static bool put_odd_number(struct repair *r, const char *p, size_t len)
{
    char text[64];
    size_t n = 0, i = 0;

    if (len == 0 || len > 40)
        return false;
    for (; i < len; i++) {
        text[n++] = p[i];
        if (p[i] == '.' && (i + 1 == len || p[i + 1] < '0' || p[i + 1] > '9'))
            text[n++] = '0';
    }
    return is_number(text, n);
}
""",
    "through a pointer": """
static void f(const char *s)
{
    char text[64], *p = text;

    while (*s)
        *p++ = *s++;
}
""",
    "through a member": """
struct x {
    char name[8];
};

static void f(struct x *x, const char *s)
{
    for (int i = 0; s[i]; i++)
        x->name[i] = s[i];
}
""",
    "a parameter": """
static void f(char out[16], const char *s)
{
    int n = 0;

    do {
        out[n++] = *s;
    } while (*s++);
}
""",
    "compared, but counted twice": """
static void f(const char *s)
{
    char text[64];
    size_t n = 0;

    while (*s && n < sizeof(text)) {
        text[n++] = *s;
        if (*s == '"')
            text[n++] = *s;
        s++;
    }
}
""",
    "a copy behind the last": """
static void f(const char *s, size_t k)
{
    char text[64];

    for (size_t n = 0; *s; n += k)
        memcpy(text + n, s, k);
}
""",
    "handed on": """
static void f(const int *v, int k)
{
    char text[64], *p = text;

    for (int i = 0; i < k; i++)
        p = put_int(p, v[i]);
}
""",
    "a bound that is none": """
static void f(const char *s)
{
    char text[64];

    /* bounded: this array is never written in a loop */
    text[0] = *s;
}
""",
}
GOOD = {
    "capped": """
static void f(const char *s)
{
    char text[64];
    struct capped c = capped_of(text, sizeof(text));

    while (*s)
        capped_addc(&c, *s++);
}
""",
    "compared": """
static void f(const char *s)
{
    char text[SIZE_MAX_OF_IT];
    size_t n = 0;

    while (*s && n + 1 < sizeof(text))
        text[n++] = *s++;
    for (int i = 0; i < SIZE_MAX_OF_IT; i++)
        text[i] = 0;
    text[n] = '\\0';
}
""",
    "masked": """
static void f(uint8_t *s)
{
    char text[16];

    for (unsigned i = 0; s[i]; i++)
        text[i & 15] = 'x';
}
""",
    "said": """
static void f(const int *v)
{
    char text[64], *p = text;

    for (int i = 0; i < 3; i++)
        p = put_int(p, v[i]); /* bounded: three of at most 20 digits */
}
""",
    "read only": """
static int f(const char *s)
{
    char text[64];
    int n = 0;

    for (int i = 0; i < 64; i++)
        n += text[i] == 'x' && s[i] >= text[n];
    return n;
}
""",
}


def self_test():
    wrong = [f"not found: {what}" for what, code in BAD.items() if not problems_of(code)]
    wrong += [f"found for nothing: {what}: {problems_of(code)}" for what, code in GOOD.items()
              if problems_of(code)]
    for line in wrong:
        print(f"check_buffers.py: self-test: {line}")
    return not wrong


def problems_of(code):
    return Source("self-test", code, struct_arrays(blank(code))).problems()


def main(arguments):
    if not self_test():
        return 1
    if arguments == ["--self-test"]:
        return 0
    everything = sorted(path for suffix in ("c", "h") for path in (ROOT / "src").rglob(f"*.{suffix}"))
    members = Members()
    paths = [Path(name).resolve() for name in arguments] or everything
    count = 0
    for path in paths:
        for line, what in Source(path, path.read_text(), members.seen_by(path)).problems():
            print(f"{path.relative_to(ROOT)}:{line}: {what}")
            count += 1
    if count:
        print(f"{count} writes: use base/capped.h or base/buf.h, or say /* bounded: why */")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
