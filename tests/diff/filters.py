"""filters.py -- each filter makes output that varies from run to run the same."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = ROOT.parent / "shared"


def substitute(*pairs):
    pairs = [(re.compile(pattern), text) for pattern, text in pairs]

    def apply(text, _folder):
        for pattern, replacement in pairs:
            text = pattern.sub(replacement, text)
        return text
    return apply


NUMBER = r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"

# Called with the text and the folder that the test ran in.
FILTERS = {
    # 12.5 ms -> N ms
    "times": substitute((NUMBER + r"(\s?)(ns|us|µs|ms|s|min|h)\b", r"N\1\2")),
    # 12.5 KiB -> N B
    "sizes": substitute((NUMBER + r"(\s?)(?:[kKMGT]i?)?B\b", r"N\1B"),
                        (NUMBER + r"(\s?)bytes?\b", r"N\1bytes")),
    # every number -> N
    "numbers": substitute((NUMBER + r"(?![\w])", "N")),
    # 2026-01-31T12:00:00.5Z, 2026-01-31 12:00 -> DATE
    "dates": substitute((r"\d{4}-\d\d-\d\d(?:[T _]\d\d[:-]\d\d(?:[:-]\d\d(?:\.\d+)?)?"
                         r"(?:Z| ?[-+]\d\d:?\d\d)?)?", "DATE")),
    # 0x7f00 -> 0xN
    "hex": substitute((r"\b0x[0-9a-fA-F]+\b", "0xN")),
    # 0.1.0, 3.40.1 -> VERSION
    "versions": substitute((r"\b\d+\.\d+\.\d+\b", "VERSION")),
    # the folder of the test -> $DIR, the checkout -> $SRC, the folder beside it -> $SHARED
    "paths": lambda text, folder: (text.replace(str(folder), "$DIR")
                                   .replace(str(ROOT), "$SRC").replace(str(SHARED), "$SHARED")),
    # runs of spaces and lines of dashes -> one, for tables whose columns adapt
    "spaces": substitute((r"(?m)[ \t]+$", ""), (r"[ \t]+", " "), (r"[-─═]{2,}", "--")),
    # the list of import formats -> FORMATS
    "formats": substitute((r"(it reads|there are): opm(?:, [\w-]+)*", r"\1: FORMATS")),
    # lines in alphabetical order
    "sort": lambda text, _folder: "".join(sorted(text.splitlines(keepends=True))),
}
