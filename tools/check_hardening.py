#!/usr/bin/env python3
"""check_hardening.py -- every binary that is installed has what tools/hardening.cmake asks for.

usage: tools/check_hardening.py [--build DIR]

Programs and shared libraries: position independent, RELRO with all symbols bound at the start, no
memory both writable and executable, the stack protector and the checked functions of the C library
in use. Objects of static archives: a stack that is not executable, and marked for the processor's
checks of indirect branches and returns. (Linked files carry that mark only where the C library's
own startup files do.)
"""
import argparse
import re
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77

# Files under the build folder; all that match are checked, and one at least must.
LINKED = ["opmeter", "libopmeter.so.*", "libopmeter-trace.so.*", "libopmeter-run.so.*",
          "libopmeter-cuda.so", "libopmeter-llama.so", "examples/opmeter-*", "python/opmeter/_*.so"]
ARCHIVES = ["libopmeter*.a"]

ET_REL, ET_DYN = 1, 3
EM_X86_64, EM_AARCH64 = 62, 183
PT_LOAD, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 1, 3, 0x6474e551, 0x6474e552
PF_X, PF_W = 1, 2
SHT_DYNAMIC, SHT_NOTE, SHT_DYNSYM = 6, 7, 11
SHF_EXECINSTR = 4
DT_TEXTREL, DT_FLAGS, DT_FLAGS_1 = 22, 30, 0x6ffffffb
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 4, 8, 1, 0x08000000
# machine: (property that says so, bits of it, what they mean)
BRANCHES = {EM_X86_64: (0xc0000002, 3, "IBT and SHSTK"),
            EM_AARCH64: (0xc0000000, 3, "BTI and PAC")}


class Elf:
    """What matters here of a 64-bit little-endian ELF file or object."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        self.data = data
        (self.type, self.machine, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum,
         names) = struct.unpack_from("<HHIQQQIHHHHHH", data, 16)
        # type, flags, offset, vaddr, paddr, filesz, memsz, align
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, phoff + i * phentsize)
                         for i in range(phnum)]
        # name, type, flags, addr, offset, size, link, info, addralign, entsize
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * shentsize)
                         for i in range(shnum)]
        self.names = self.content(self.sections[names]) if shnum else b""

    def content(self, section):
        return self.data[section[4]:section[4] + section[5]]

    def named(self, name):
        for section in self.sections:
            if self.names[section[0]:].split(b"\0", 1)[0].decode() == name:
                return section
        return None

    def of_type(self, kind):
        return [section for section in self.sections if section[1] == kind]

    def dynamic(self):
        found = {}
        for section in self.of_type(SHT_DYNAMIC):
            for tag, value in struct.iter_unpack("<QQ", self.content(section)):
                found[tag] = value
        return found

    def undefined(self):
        """Names of the dynamic symbols that others define."""
        for section in self.of_type(SHT_DYNSYM):
            strings = self.content(self.sections[section[6]])
            for name, _, _, shndx, _, _ in struct.iter_unpack("<IBBHQQ", self.content(section)):
                if shndx == 0 and name:
                    yield strings[name:].split(b"\0", 1)[0].decode()

    def property(self, wanted):
        """Bits of a property of .note.gnu.property; 0 where it is not there."""
        section = self.named(".note.gnu.property")
        note = self.content(section) if section else b""
        at = 0
        while at + 16 <= len(note):
            name_len, len_, kind = struct.unpack_from("<III", note, at)
            at += 12 + (name_len + 3 & ~3)
            end = at + len_
            while kind == 5 and at + 8 <= end:
                key, size = struct.unpack_from("<II", note, at)
                if key == wanted:
                    return struct.unpack_from("<I", note, at + 8)[0]
                at += 8 + (size + 7 & ~7)
            at = end
        return 0


def check_linked(elf, has):
    """What a program or shared library lacks, in words."""
    kinds = {segment[0] for segment in elf.segments}
    dynamic = elf.dynamic()
    used = set(elf.undefined())
    if elf.type != ET_DYN or (PT_INTERP in kinds and not dynamic.get(DT_FLAGS_1, 0) & DF_1_PIE):
        yield "not position independent"
    if PT_GNU_RELRO not in kinds and has("LINK_relro"):
        yield "no RELRO"
    if has("LINK_now") and not (dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW
                                or dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW):
        yield "symbols are bound late, so RELRO is but partial"
    if DT_TEXTREL in dynamic or dynamic.get(DT_FLAGS, 0) & DF_TEXTREL:
        yield "relocations in the code"
    stack = [segment[1] for segment in elf.segments if segment[0] == PT_GNU_STACK]
    if not stack or stack[0] & PF_X:
        yield "executable stack"
    if any(segment[0] == PT_LOAD and segment[1] & PF_X and segment[1] & PF_W
           for segment in elf.segments):
        yield "memory that is writable and executable"
    if "__stack_chk_fail" not in used and has("fstack_protector_strong"):
        yield "no stack protector"
    # Calls that cannot go wrong stay as they are, so some of these may be there beside the checked.
    if has("FORTIFY") and any(name.endswith("printf") for name in used) and not any(
            re.fullmatch(r"__\w+_chk", name) for name in used):
        yield "no checked functions of the C library (_FORTIFY_SOURCE)"


def check_object(elf, has):
    stack = elf.named(".note.GNU-stack")
    if stack is None or stack[2] & SHF_EXECINSTR:
        yield "executable stack"
    key, bits, meaning = BRANCHES.get(elf.machine, (0, 0, ""))
    if has("branches") and elf.property(key) & bits != bits:
        yield f"not marked for {meaning}"


def members(data):
    """(name, bytes) of the objects in an archive."""
    if data[:8] != b"!<arch>\n":
        raise ValueError("not an archive")
    at, long_names = 8, b""
    while at + 60 <= len(data):
        name = data[at:at + 16].decode().rstrip()
        size = int(data[at + 48:at + 58])
        body = data[at + 60:at + 60 + size]
        at += 60 + size + size % 2
        if name == "//":
            long_names = body
        elif name not in ("/", "/SYM64/"):
            if name[0] == "/" and name[1:].isdigit():
                name = long_names[int(name[1:]):].split(b"\n", 1)[0].decode()
            yield name.rstrip("/"), body


def settings(build):
    """What the build was configured with: a function that says whether it has something."""
    cache = (build / "CMakeCache.txt").read_text(errors="replace")
    found = dict(re.findall(r"^(OPMETER_\w+):\w+=(.*)$", cache, re.M))
    on = {name.removeprefix("OPMETER_HAS_") for name, value in found.items()
          if name.startswith("OPMETER_HAS_") and value == "1"}
    if on & {"fcf_protection_full", "mbranch_protection_standard"}:
        on.add("branches")
    if "OPMETER_HAS_FORTIFY_3" in found:  # was looked for, so level 2 at least is in use
        on.add("FORTIFY")
    return found, lambda name: name in on


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build" / "dev", type=Path)
    args = parser.parse_args()
    found, has = settings(args.build)
    if found.get("OPMETER_HARDENING") != "ON" or found.get("OPMETER_SANITIZE"):
        print("built without hardening, or with a sanitizer")
        return SKIPPED

    bad = checked = 0

    def tell(name, lacks):
        nonlocal bad, checked
        checked += 1
        for lack in lacks:
            print(f"{name}: {lack}")
            bad += 1

    for pattern in LINKED + ARCHIVES:
        paths = sorted(path for path in args.build.glob(pattern)
                       if path.is_file() and not path.is_symlink())
        # Without Python's headers there is no extension.
        if not paths and not pattern.startswith("python/"):
            print(f"{args.build / pattern}: not built")
            bad += 1
        for path in paths:
            data = path.read_bytes()
            if pattern in ARCHIVES:
                for name, body in members(data):
                    tell(f"{path.name}({name})", check_object(Elf(body), has))
            else:
                tell(path.name, check_linked(Elf(data), has))
    print(f"{checked} files and objects looked at")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
