#!/usr/bin/env python3
"""check_docs.py -- what is written from the program's schema and the tables of operators is up to
date, and links between documents resolve.

usage: tools/check_docs.py [--opmeter PROGRAM] [--update]

--update rewrites docs/schema.md, docs/operators.md and ui/src/schema.ts. Links to other sites are
not followed.
"""
import argparse
import difflib
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
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


def schema(program, option):
    done = subprocess.run([program, "schema", option], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{program} schema {option}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def typescript(tables):
    """The rows of every table as types of the web page."""
    kinds = {"INTEGER": "number", "REAL": "number", "TEXT": "string"}
    lines = ["// Rows of the tables, analyses and views of a trace; a value that is not known is null.",
             "// Written by tools/check_docs.py --update from opmeter schema --json."]
    for table in tables:
        name = "".join(part.capitalize() for part in table["name"].split("_"))
        lines += ["", f"// {table['doc']}", f"export interface {name}Row {{"]
        for column in table["columns"]:
            null = "" if column["name"] in ("id", "ts", "dur") else " | null"
            lines.append(f"    {column['name']}: {kinds[column['type']]}{null};")
        lines.append("}")
    return "\n".join(lines) + "\n"


OPERATORS = """# Operators

What is known of every operator of ONNX: its shapes, its work (FLOPs and bytes, in `opmeter info`, `top` and the roofline) and, if
there is a version in the last column, how the native engine executes it. The version is that of the operator's domain which the model
imports; "7" is 7 and all later ones, "7-9" those alone. `Constant` and functions of the model itself are resolved when it is read.
What is not listed is refused with the node's name; `--engine onnxruntime` runs what ONNX Runtime has.
Element types and attributes that a kernel has not are refused likewise, when the model is prepared, never computed otherwise.

Refused of com.microsoft, and why:

| operators | |
|---|---|
| PagedAttention, PackedAttention, PackedMultiHeadAttention, DecoderMaskedSelfAttention, GatedRelativePositionBias, LongformerAttention, RemovePadding, RestorePadding, GemmFloat8, QOrdered..., NhwcConv, BiasDropout, Rfft, Irfft, ComplexMul | ONNX Runtime has them on GPUs alone |
| EPContext, Snpe | something that was compiled for one accelerator |
| BeamSearch, GreedySearch, Sampling, WhisperBeamSearch | generation as one operator: `opmeter run --generate` measures the decoder inside |
| NhwcFusedConv, GemmFastGelu | ONNX Runtime has them on one kind of processor or GPU alone |
| AttnLSTM, MatMulFpQ4, SparseToDenseMatMul, SampleOp | none yet |
| QLinearConv and pools with `channels_last` | none yet: what ONNX Runtime saves after the optimisations for its own machine |

Written by `tools/check_docs.py --update` from `src/graph/ops/ops.def` and `src/engine/native/kernels.def`.
"""


def span(first, last):
    return f"{first}" if not last else f"{first}-{last}" if first != last else f"{first}"


def operators():
    """The tables of operators as a document."""
    known, runs = {}, {}
    rows = (ROOT / "src" / "graph" / "ops" / "ops.def").read_text(encoding="utf-8")
    for domain, name in re.findall(r'^OP\("([^"]*)", "([^"]*)"', rows, re.M):
        known.setdefault(domain, []).append(name)
    rows = (ROOT / "src" / "engine" / "native" / "kernels.def").read_text(encoding="utf-8")
    for name, domain, first, last in re.findall(r'^OPERATOR\((\w+), +"([^"]*)", (\d+), (\d+),', rows, re.M):
        runs.setdefault((domain, name), []).append((int(first), int(last)))
    refused = [line.split("|")[1] for line in OPERATORS.splitlines() if line.startswith("| ") and "`" not in line.split("|")[1]]
    for name in re.findall(r"\w+", " ".join(refused)):
        if ("com.microsoft", name) in runs:
            sys.exit(f"tools/check_docs.py: {name} is named as refused, but kernels.def has it")
    lines = [OPERATORS]
    for domain in sorted(known):
        names = sorted(set(known[domain]))
        have = sum((domain, n) in runs for n in names)
        lines += [f"## {domain or 'ai.onnx'}", "", f"{len(names)} operators, {have} of them on the native engine.", "",
                  "| operator | native engine, since version |", "|---|---|"]
        for name in names:
            spans = sorted(runs.get((domain, name), []))
            if spans and spans[-1][1] == 0:  # the newest row has no end: one span from the first on
                spans = [(spans[0][0], 0)]
            lines.append(f"| {name} | {', '.join(span(*s) for s in spans)} |")
        lines.append("")
    return "\n".join(lines)


def written(program):
    """Files that follow from the schema and the tables, with what they should hold."""
    return {
        ROOT / "docs" / "schema.md": schema(program, "--markdown"),
        ROOT / "docs" / "operators.md": operators(),
        ROOT / "ui" / "src" / "schema.ts": typescript(json.loads(schema(program, "--json"))),
    }


def check_schema(program, update):
    bad = 0
    for path, text in written(program).items():
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        if there == text:
            continue
        if update:
            path.write_text(text, encoding="utf-8")
            continue
        print("\n".join(difflib.unified_diff(
            there.splitlines(), text.splitlines(), str(path.relative_to(ROOT)),
            "as it should be", lineterm="", n=1)))
        print("to bring it up to date: tools/check_docs.py --update")
        bad += 1
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", default=str(ROOT / "build" / "dev" / "opmeter"))
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    return 1 if check_schema(args.opmeter, args.update) + check_links() else 0


if __name__ == "__main__":
    sys.exit(main())
