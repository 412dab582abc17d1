"""words.py -- the dictionary of a fuzzer: what its grammar (grammars/NAME.gram) writes literally."""
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORD_BYTES = range(2, 65)  # one byte is found by chance; libFuzzer takes no more than 64
ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)")
PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"e": b""}
TOKEN = re.compile(rb'"[^"\n]+"|[A-Za-z_][\w.:/-]+')


def unescape(literal):
    def one(match):
        what = match[1]
        if len(what) == 3:
            return bytes([int(what[1:], 16)])
        return PLAIN.get(what, what)
    return ESCAPE.sub(one, literal)


def rules(path):
    """Literals of every rule of a grammar and of those that it includes; the last rule counts."""
    found, rule = {}, None
    for line in path.read_bytes().split(b"\n"):
        if line.startswith(b"include "):
            found.update(rules(path.parent / line[8:].decode()))
        elif line.startswith(b"  "):
            text = re.sub(rb"^@\d+ ?", b"", line[2:])
            parts = re.split(rb"(?<!\\)<[a-z_0-9]+(?:\?|[*+]\d+)?>", text)
            rule += [unescape(part) for part in parts]
        elif line.endswith(b":") and not line.startswith(b"#"):
            rule = found[line[:-1]] = []
    return found


def words(grammar):
    """Every literal, as a whole and by its strings and names; each once."""
    every = [literal for rule in rules(grammar).values() for literal in rule]
    tokens = [token for literal in every for token in (literal, *TOKEN.findall(literal))]
    return [word for word in dict.fromkeys(tokens) if len(word) in WORD_BYTES]


def quoted(word):
    return '"' + "".join(
        chr(c) if 0x20 <= c < 0x7f and chr(c) not in '"\\' else f"\\x{c:02x}" for c in word) + '"'


def dictionary(name, folder):
    """Arguments for the fuzzer `name`: its dictionary, written to folder; none without a grammar."""
    grammar = HERE / "grammars" / f"{name}.gram"
    if not grammar.exists():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.dict"
    path.write_text("".join(quoted(word) + "\n" for word in words(grammar)))
    return [f"-dict={path}"]
