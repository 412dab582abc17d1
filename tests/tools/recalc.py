#!/usr/bin/python3
"""recalc.py FILE [CELL=VALUE]... -- edit cells of the first sheet, let LibreOffice calculate, print CSV.

FILE is .xlsx (cells are changed in the XML of the archive) or .csv (formulas as text, no edits).
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SHEET = "xl/worksheets/sheet1.xml"


def edit(text, cell, value):
    """The sheet with the number in a cell replaced; the cell must be there and hold a number."""
    pattern = re.compile(r'(<c r="%s"[^>]*><v>)[^<]*(</v></c>)' % cell)
    text, n = pattern.subn(lambda m: m[1] + value + m[2], text)
    if n != 1:
        sys.exit(f"{cell} is no cell with a number")
    return text


def edited(path, edits, to):
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename == SHEET:
                text = data.decode()
                for change in edits:
                    text = edit(text, *change.split("="))
                # Results that are in the file must not be taken for calculated ones.
                data = re.sub(r"(</f>)<v>[^<]*</v>", r"\1", text).encode()
            new.writestr(item, data)


# Comma, quote, UTF-8; when reading, "90%" is a number and =A1 a formula.
READ_CSV = "CSV:44,34,76,1,,1033,false,true"
WRITE_CSV = "csv:Text - txt - csv (StarCalc):44,34,76"


def convert(folder, path, kind, *options):
    done = subprocess.run(
        ["soffice", "--headless", "-env:UserInstallation=" + Path(folder, "office").as_uri(), *options,
         "--convert-to", kind, "--outdir", folder + "/out", path],
        capture_output=True, text=True, timeout=100)
    stem = os.path.splitext(os.path.basename(path))[0]
    made = os.path.join(folder, "out", stem + "." + kind.split(":")[0])
    if not os.path.exists(made):
        sys.exit(f"LibreOffice did not convert {path}: {done.stdout}{done.stderr}")
    return made


def main():
    path, edits = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        if path.endswith(".xlsx"):
            book = os.path.join(folder, "book.xlsx")
            edited(path, edits, book)
        else:
            book = convert(folder, path, "ods", "--infilter=" + READ_CSV)
        with open(convert(folder, book, WRITE_CSV), encoding="utf-8") as made:
            sys.stdout.write(made.read())


main()
