#!/usr/bin/env python3
"""old_glibc.py -- libraries to link with so that the result runs with an older glibc.

usage: tools/portable/old_glibc.py --cc CC --version 2.28 OUT

A program takes of each function the newest version that the C library at hand has, and an older
library may lack that. So OUT gets empty stand-ins of libc.so and libm.so that have of each symbol the
newest version up to the one asked for (that of the machine's own library that it keeps for old
programs), and old_glibc.a with what older libraries had elsewhere (old_glibc.c). What only newer ones
have is not there, and who uses it is not linked. Before 2.34 threads and dlopen() were in libraries of
their own: stand-ins of these make the result load them. Prints the flags to link with.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STUBBED = ["libc.so.6", "libm.so.6"]
EMPTY = ["libpthread.so.0", "libdl.so.2", "librt.so.1"]
SYMBOL = re.compile(r"^\s*\d+:\s+([0-9a-f]+)\s+(\d+|0x[0-9a-f]+)\s+(FUNC|OBJECT|IFUNC|TLS|NOTYPE)\s+"
                    r"(GLOBAL|WEAK)\s+DEFAULT\s+(?!UND)\w+\s+(\w+)@@?(GLIBC_[\d.]+)\s*$", re.MULTILINE)


def number(version):
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, text=True,
                          capture_output=True).stdout


def find(cc, name):
    """Where the compiler's linker has a file."""
    path = Path(output(cc, f"-print-file-name={name}").strip())
    if not path.is_absolute():
        raise SystemExit(f"old_glibc.py: {cc} finds no {name}")
    return path.resolve()


def newest(text, limit):
    """name: (version, kind, size, binding, place) of the newest version up to the limit."""
    found = {}
    for place, size, kind, binding, name, version in SYMBOL.findall(text):
        if number(version) <= limit and (name not in found
                                         or number(found[name][0]) < number(version)):
            found[name] = version, kind, int(size, 0), binding, place
    return found


def stub(cc, soname, symbols, out):
    """A shared library that defines symbols and does nothing."""
    lines = [".section .note.GNU-stack,\"\",%progbits", ".text"]
    # A variable has several names (environ, __environ): a program that gets a place for one of them
    # has to get it for all, or the library sets another one. The linker sees that by where they are.
    places = {}
    for name, (_, kind, _, _, place) in sorted(symbols.items()):
        places.setdefault(place if kind == "OBJECT" else name, []).append(name)
    for count, names in enumerate(places.values()):
        kind, size = symbols[names[0]][1], max(symbols[name][2] for name in names)
        data = kind in ("OBJECT", "TLS")
        section = ".bss" if kind == "OBJECT" else ".section .tbss,\"awT\",%nobits" \
            if kind == "TLS" else ".text"
        lines += [section, ".balign 32" if data else ""]
        for alias, name in enumerate(names):
            version, _, own, binding, _ = symbols[name]
            label = f"stub_{count}_{alias}"
            lines += [f".{'weak' if binding == 'WEAK' else 'globl'} {label}",
                      f".type {label}, %{'object' if data else 'function'}"
                      if kind != "TLS" else f".type {label}, %tls_object",
                      f"{label}:", f".size {label}, {own if data else 4}",
                      f".symver {label}, {name}@@@{version}"]
        lines.append(f".skip {max(size, 1) if data else 4}")
    versions = sorted({symbol[0] for symbol in symbols.values()}, key=number)
    source, script = out / f"{soname}.s", out / f"{soname}.map"
    source.write_text("\n".join(lines) + "\n")
    script.write_text("".join(f"{version} {{ }};\n" for version in versions))
    how = [f"-Wl,--version-script={script}"] if versions else []
    output(cc, "-shared", "-nostdlib", "-Wl,--build-id=none", f"-Wl,-soname,{soname}", *how, source,
           "-o", out / soname)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--version", required=True)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for soname in STUBBED:
        table = output("readelf", "-W", "--dyn-syms", find(args.cc, soname))
        symbols = newest(table, number(args.version))
        if len(symbols) < 100:
            raise SystemExit(f"old_glibc.py: {soname} has only {len(symbols)} symbols up to "
                             f"{args.version}; is this glibc?")
        stub(args.cc, soname, symbols, out)
    for soname in EMPTY:
        stub(args.cc, soname, {}, out)
    loader = re.search(r"AS_NEEDED \( (\S+) \)", find(args.cc, "libc.so").read_text())
    (out / "libc.so").write_text(f"GROUP ( {out / 'libc.so.6'} {find(args.cc, 'libc_nonshared.a')} "
                                 f"AS_NEEDED ( {loader[1] if loader else ''} ) )\n")
    (out / "libm.so").write_text(f"INPUT ( {out / 'libm.so.6'} )\n")
    output(args.cc, "-O2", "-fPIC", "-fvisibility=hidden", "-ffile-prefix-map=" + str(HERE) + "=.",
           "-c", HERE / "old_glibc.c", "-o", out / "old_glibc.o")
    (out / "old_glibc.a").unlink(missing_ok=True)
    output("ar", "rcsD", out / "old_glibc.a", out / "old_glibc.o")
    print(";".join([f"-L{out}", "-Wl,--push-state,--no-as-needed",
                    *(str(out / soname) for soname in EMPTY), "-Wl,--pop-state"]))


if __name__ == "__main__":
    sys.exit(main())
