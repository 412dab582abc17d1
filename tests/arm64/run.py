#!/usr/bin/env python3
"""run.py -- a build for ARM64 beside one for this machine: the same models give the same results.

usage: tests/arm64/run.py --build DIR --against OPMETER [--npm FOLDER] [-j N] [--only WORD] [-v]

Each model runs once on this machine, then with every instruction set of the ARM64 build that has loops
of its own for it, fed with the same inputs. Outputs that are sums of integers are equal, floats differ
by no more than orders of summation do, a decoder makes the same tokens. ONNX Runtime's library for ARM64
is fetched from npm into FOLDER and compared, too; without npm, the network, or where it does not start,
those tests are skipped. Prints TAP; -v tells how far results were apart and how long each took."""
import argparse
import array
import ast
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests" / "tools"))
from pbwire import block, fields, number  # noqa: E402

ALL = ("neon", "dotprod", "i8mm", "bf16")
BYTES = ("neon", "dotprod", "i8mm")
FLOATS = ("neon",)  # the others have the same loops for floats

# Model, sets, and by how much outputs may differ, of the largest one. 0: equal.
SUMS = 1e-4
MODELS = [
    ("zoo:mlp", ALL, SUMS),
    ("zoo:lstm", FLOATS, SUMS),
    ("zoo:resnet18", FLOATS, SUMS),
    ("zoo:mobilenetv2", FLOATS, SUMS),
    ("zoo:bert-mini?seq=24", ALL, SUMS),
    ("zoo:vit-tiny", FLOATS, SUMS),
    ("zoo:bert-mini?seq=24&sparsity=0.9", FLOATS, SUMS),
    ("zoo:mlp?dtype=int8", BYTES, 0),
    ("zoo:resnet18?dtype=int8", BYTES, 0),
    ("zoo:mobilenetv2?dtype=int8", BYTES, 0),
    # It rounds to bytes by the range that floats happen to have: sets of x86 differ among each other.
    ("zoo:bert-mini?seq=24&dtype=int8", BYTES, 5e-3),
    ("zoo:mlp?dtype=fp16", ("neon", "bf16"), SUMS),
    ("zoo:mobilenetv2?dtype=fp16", FLOATS, SUMS),
    ("zoo:bert-mini?seq=24&dtype=fp16", ("neon", "bf16"), SUMS),
    ("zoo:mlp?dtype=bf16", ("neon", "bf16"), SUMS),
    ("zoo:bert-mini?seq=24&dtype=bf16", ("neon", "bf16"), SUMS),
]
DECODERS = [
    ("zoo:llama-tiny", FLOATS),
    ("zoo:llama-tiny?quant=int4", BYTES),
    ("zoo:llama-tiny?dtype=fp16", FLOATS),
    ("zoo:llama-tiny?dtype=bf16", ("neon", "bf16")),
]
TOKENS = ["--generate", "24", "--prompt-len", "12", "-n", "1", "-w", "0"]
ON_ORT = ["zoo:mlp", "zoo:mobilenetv2", "zoo:bert-mini?seq=24", "zoo:mlp?dtype=int8",
          "zoo:bert-mini?seq=24&dtype=int8"]
ORT_SUMS = 1e-3
RUNTIME = "onnxruntime-node@1.30.0"
LIBRARY = "bin/napi-v6/linux/arm64/libonnxruntime.so.1"
PATIENCE = int(os.environ.get("OPMETER_TEST_PATIENCE", "1"))
TYPES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "<u2": "H", "|i1": "b", "|u1": "B", "<f2": "e"}


# ONNX Runtime asks /proc/cpuinfo for the processors and ends by SIGSEGV where it tells of another machine's. This is
# what a Neoverse N1 says. With SME and SVE, as qemu's "max" has them, its sums of bytes are others than on x86.
CPUINFO = """processor\t: {}
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""


class Wrong(Exception):
    """What did not hold."""


def npy(path):
    """Shape and numbers of an array."""
    data = path.read_bytes()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    kind, raw = TYPES[head["descr"]], data[10 + size:]
    if kind == "e":
        return head["shape"], [x for x, in struct.iter_unpack("<e", raw)]
    values = array.array(kind)
    values.frombytes(raw)
    return head["shape"], values


def run(program, model, folder, *options, **settings):
    env = {k: v for k, v in os.environ.items() if k != "OPMETER_ISA"} | settings
    done = subprocess.run([program, "run", model, "--no-receipt", "-q", "-j", "1", *options, "-o",
                           folder / "run"], capture_output=True, text=True, env=env,
                          stdin=subprocess.DEVNULL, timeout=600 * PATIENCE)
    if done.returncode:
        raise Wrong(f"exit status {done.returncode}: {done.stderr.strip()[:500]}")


def widened(program, model, path):
    """Writes the model with its outputs cast to float: what they are before they are rounded."""
    subprocess.run([program, "zoo", model.removeprefix("zoo:"), "-o", path], check=True,
                   capture_output=True, timeout=60 * PATIENCE)
    out = b""
    for field, wire, value in fields(path.read_bytes()):
        if field == 7:
            value = b"".join(with_cast(value))
        out += block(field, value) if wire == 2 else number(field, value)
    path.write_bytes(out)


def with_cast(graph):
    for field, wire, value in fields(graph):
        if field != 12:
            yield block(field, value) if wire == 2 else number(field, value)
            continue
        name = next(value for field, _, value in fields(value) if field == 1)
        to = block(1, "to") + number(3, 1) + number(20, 2)
        yield block(1, block(1, name) + block(2, name + b"_wide") + block(4, "Cast") + block(5, to))
        yield block(12, block(1, name + b"_wide") + block(2, block(1, number(1, 1))))


def outputs(program, model, folder, *options, **settings):
    folder.mkdir()
    run(program, model, folder, "-n", "1", "-w", "0", "--save-outputs", folder / "out", *options,
        **settings)
    return {path.name: npy(path) for path in sorted((folder / "out").glob("*.npy"))}


def tokens(program, model, folder, **settings):
    folder.mkdir()
    run(program, model, folder, *TOKENS, "--save-tokens", folder / "tokens", **settings)
    return (folder / "tokens").read_text()


def distance(a, b):
    """max() passes over a NaN that is not the first."""
    apart = 0 if a == b else abs(a - b)
    return apart if apart == apart else math.inf


def compare(ours, theirs, allowed):
    """How far outputs are apart, of the largest one; Wrong if that is too far."""
    if not ours or ours.keys() != theirs.keys():
        raise Wrong(f"outputs {sorted(ours)} and {sorted(theirs)}")
    most = 0
    for name, (shape, values) in ours.items():
        other_shape, other = theirs[name]
        if shape != other_shape:
            raise Wrong(f"{name}: shapes {shape} and {other_shape}")
        largest = max(map(abs, other), default=0)
        apart = max(map(distance, values, other), default=0)
        if apart and not apart <= allowed * largest:  # not: the largest is NaN
            raise Wrong(f"{name}: {apart:g} apart, the largest is {largest:g}")
        most = max(most, apart / largest if apart else 0)
    return most


def library(folder):
    """ONNX Runtime's library for ARM64, or None and why there is none."""
    found, npm = folder / "libonnxruntime.so.1", shutil.which("npm")
    if found.exists():
        return found, ""
    if not npm:
        return None, "npm is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temp:
        try:
            done = subprocess.run([npm, "pack", "--silent", "--pack-destination", temp, RUNTIME],
                                  cwd=temp, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return None, "npm did not answer in time"
        if done.returncode:
            return None, "npm could not fetch the package"
        for archive in Path(temp).glob("*.tgz"):
            with tarfile.open(archive) as tar:
                for member in tar:
                    if member.isfile() and member.name.endswith("/" + LIBRARY):
                        part = folder / "part"
                        with open(part, "wb") as out:
                            shutil.copyfileobj(tar.extractfile(member), out)
                        part.rename(found)
    return (found, "") if found.exists() else (None, f"{RUNTIME} has no library for ARM64")


class Job:
    """A model, and what it should give."""

    def __init__(self, args, temp, number, model):
        self.args, self.folder, self.model = args, temp / str(number), model
        self.folder.mkdir()
        self.theirs = None

    def reference(self, of):
        if self.theirs is None:
            self.theirs = of(self.args.against, self.model, self.folder / "here")
        return self.theirs

    def same(self, name, allowed, **settings):
        if str(self.model).endswith(("=fp16", "=bf16")):
            widened(self.args.against, self.model, self.folder / "wide.onnx")
            self.model = self.folder / "wide.onnx"
        ours = outputs(self.args.program, self.model, self.folder / name, **settings)
        return compare(ours, self.reference(outputs), allowed)

    def same_tokens(self, name, **settings):
        ours, theirs = tokens(self.args.program, self.model, self.folder / name, **settings), \
            self.reference(tokens)
        if not ours.strip() or ours != theirs:
            raise Wrong(f"tokens {ours.strip()}, not {theirs.strip()}")
        return 0

    def on_ort(self, path, settings):
        ours = outputs(self.args.program, self.model, self.folder / "ort", "--engine", "onnxruntime",
                       OPMETER_ORT_LIB=str(path), **settings)
        return compare(ours, self.reference(outputs), ORT_SUMS)


def for_ort(program, temp):
    """Settings with which an emulator runs ONNX Runtime, which no test of ours needs. The library names a folder of
    its own for what it needs, so the program's folders do not count for that; files below a prefix of qemu's go before
    those of this machine."""
    if os.uname().machine == "aarch64":
        return {}
    told = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    folders = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", told)
    (temp / "prefix" / "proc").mkdir(parents=True)
    (temp / "prefix" / "proc" / "cpuinfo").write_text("".join(map(CPUINFO.format, range(os.cpu_count()))))
    return {"LD_LIBRARY_PATH": ":".join(folders), "QEMU_LD_PREFIX": str(temp / "prefix"),
            "QEMU_CPU": "neoverse-n1"}


def work(args, temp):
    """(title, what is to be done, why it is not) of each test, grouped by model."""
    number = 0
    for model, sets, allowed in MODELS:
        job = Job(args, temp, number, model)
        yield [(f"{model}, {isa}", lambda isa=isa, job=job, allowed=allowed: job.same(
            isa, allowed, OPMETER_ISA=isa), "") for isa in sets]
        number += 1
    for model, sets in DECODERS:
        job = Job(args, temp, number, model)
        yield [(f"{model}, tokens, {isa}", lambda isa=isa, job=job: job.same_tokens(
            isa, OPMETER_ISA=isa), "") for isa in sets]
        number += 1
    path, why = library(args.npm)
    settings = for_ort(args.program, temp)
    if path:
        try:
            (temp / "starts").mkdir()
            run(args.program, "zoo:mlp", temp / "starts", "-n", "1", "-w", "0", "--engine",
                "onnxruntime", OPMETER_ORT_LIB=str(path), **settings)
        except Wrong as wrong:
            why = f"ONNX Runtime does not start: {wrong}"
    for model in ON_ORT:
        job = Job(args, temp, number, model)
        yield [(f"{model} on ONNX Runtime", lambda job=job: job.on_ort(path, settings), why)]
        number += 1


def one(group, verbose):
    """The lines of a model's tests."""
    lines = []
    for title, do, why in group:
        start = time.monotonic()
        try:
            if why:
                lines.append(f"ok - {title} # SKIP {title}: {why}")
                continue
            told = f"{do():.2g} apart"
            lines.append(f"ok - {title}")
        except (Wrong, subprocess.TimeoutExpired) as wrong:
            told = str(wrong)
            lines += [f"not ok - {title}", f"# {told}"]
        if verbose:
            lines.append(f"# {title}: {told}, {time.monotonic() - start:.1f} s")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--npm", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    args.program, args.against = args.build.resolve() / "opmeter", args.against.resolve()
    args.npm = (args.npm or args.build / "npm").resolve()
    with tempfile.TemporaryDirectory() as temp, ThreadPoolExecutor(args.j) as pool:
        groups = [[test for test in group if args.only in test[0]]
                  for group in work(args, Path(temp))]
        print(f"1..{sum(map(len, groups))}", flush=True)
        failed = 0
        for lines in pool.map(lambda group: one(group, args.v), groups):
            failed += sum(line.startswith("not ok") for line in lines)
            print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
