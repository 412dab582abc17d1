#!/usr/bin/env python3
"""Make the cases of tests/engine/cases/ that are about element types: weights of a few bits, 8-bit
and 16-bit floats. As make_cases.py, but all expected results are computed here, with numpy.

usage: make_types.py [NAME...]
       make_types.py --compare OPMETER     what ONNX Runtime gives beside them, where it has a kernel
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import make_cases as mc
from make_cases import attribute, block, number, value_info

FOLDER = pathlib.Path(__file__).parent / "cases"
CODES = dict(mc.TYPES, uint16=4, int16=5, float64=11, bfloat16=16, float8e4m3fn=17, float8e4m3fnuz=18,
             float8e5m2=19, float8e5m2fnuz=20, uint4=21, int4=22, uint2=25, int2=26)
RNG = np.random.default_rng(11)


class Raw:
    """A constant of a type that numpy lacks: elements as integers, packed here."""

    def __init__(self, dtype, codes):
        self.dtype, self.codes = dtype, np.asarray(codes)
        self.bits = {"4": 4, "2": 2}.get(dtype[-1], 8) if "float" not in dtype else 16 if dtype[0] == "b" else 8

    def tobytes(self):
        flat = self.codes.astype(np.int64).ravel()
        if self.bits == 16:
            return flat.astype("<u2").tobytes()
        if self.bits == 8:
            return flat.astype(np.uint8).tobytes()
        return pack(flat & (1 << self.bits) - 1, self.bits).tobytes()


def pack(numbers, bits):
    """Along the last dimension, which is filled up to whole bytes; the first in the low bits."""
    per = 8 // bits
    pad = -numbers.shape[-1] % per
    numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, pad)])
    numbers = numbers.reshape(*numbers.shape[:-1], -1, per).astype(np.uint32)
    return sum(numbers[..., i] << bits * i for i in range(per)).astype(np.uint8)


class Model:
    """nodes: (operator, inputs, outputs, attributes); domain before a colon."""

    def __init__(self, name, opset, inputs, constants, nodes, outputs):
        self.name, self.inputs, self.outputs = name, inputs, outputs
        graph = b""
        for op, ins, outs, attrs in nodes:
            domain, _, kind = op.rpartition(":")
            node = b"".join(block(1, i) for i in ins) + b"".join(block(2, o) for o in outs)
            node += block(3, outs[0]) + block(4, kind)
            node += b"".join(block(5, attribute(k, v)) for k, v in attrs.items()) + block(7, domain)
            graph += block(1, node)
        graph += block(2, name)
        for key, value in constants.items():
            dtype = value.dtype if isinstance(value, Raw) else str(value.dtype)
            shape = value.codes.shape if isinstance(value, Raw) else value.shape
            dims = b"".join(number(1, d) for d in shape)
            graph += block(5, dims + number(2, CODES[dtype]) + block(8, key) + block(9, value.tobytes()))
        for key, value in inputs.items():
            graph += block(11, value_info(key, str(value.dtype), value.shape))
        for key, value in outputs.items():
            graph += block(12, value_info(key, str(value.dtype)))
        self.model = number(1, 10) + block(7, graph) + block(8, block(1, "") + number(2, opset))
        self.model += block(8, block(1, "com.microsoft") + number(2, 1))

    def write(self):
        (FOLDER / f"{self.name}.onnx").write_bytes(self.model)
        given = {f"in_{k}": v for k, v in self.inputs.items()}
        np.savez_compressed(FOLDER / f"{self.name}.npz", **given,
                            **{f"out_{k}": v for k, v in self.outputs.items()})


def floats(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def matmul_nbits(name, rows, k, n, bits, size, zeros=None, order=False, bias=False, level=0,
                 variable=False):
    blocks = -(-k // size)
    w = RNG.integers(0, 1 << bits, (n, blocks * size))
    scale = np.abs(floats(n, blocks, scale=0.1)) + 0.01
    a = floats(*rows, k)
    constants = {"b": pack(w.reshape(n, blocks, size), bits), "s": scale}
    names, attrs = ["a", "b", "s", "", "", ""], dict(K=k, N=n, bits=bits, block_size=size)
    zero = np.full((n, blocks), 1 << bits - 1, np.float64)
    if zeros == "packed":
        codes = RNG.integers(0, 1 << bits, (n, blocks))
        zero, constants["z"] = codes.astype(np.float64), pack(codes, bits).reshape(-1)
    elif zeros == "same":
        zero = np.full((n, blocks), 3.0)
        constants["z"] = pack(np.full((n, blocks), 3), bits).reshape(-1)
    elif zeros == "typed":
        constants["z"] = floats(n, blocks) + np.float32(1 << bits - 1)
        zero = constants["z"].astype(np.float64)
    if zeros:
        names[3] = "z"
    belongs = np.arange(blocks * size) // size
    if order:
        belongs[:k] = RNG.permutation(belongs[:k])
        constants["g"], names[4] = belongs[:k].astype(np.int32), "g"
    if bias:
        constants["c"], names[5] = floats(n), "c"
    if level:
        attrs["accuracy_level"] = level
    real = (w[:, :k] - zero[:, belongs[:k]]) * scale.astype(np.float64)[:, belongs[:k]]
    left = a.astype(np.float64)
    if level == 4:  # rows of 8 bits, a scale for each block
        for at in range(0, k, size):
            part = left[..., at:at + size]
            step = np.abs(part).max(-1, keepdims=True) / 127
            left[..., at:at + size] = np.trunc(part / step + np.copysign(0.5, part)) * step
    y = left @ real.T + constants.get("c", 0)
    while not names[-1]:
        names.pop()
    inputs = {"a": a}
    if variable:
        inputs.update((key, constants.pop(key)) for key in ("b", "s"))
    return Model(name, 21, inputs, constants, [("com.microsoft:MatMulNBits", names, ["y"], attrs)],
                 {"y": y.astype(np.float32)})


def cases():
    yield matmul_nbits("nbits_4", (1,), 64, 40, 4, 32)
    yield matmul_nbits("nbits_4_rows", (2, 7), 176, 37, 4, 32, zeros="packed")
    yield matmul_nbits("nbits_4_many", (33,), 176, 70, 4, 32, zeros="packed", bias=True)
    yield matmul_nbits("nbits_4_many_order", (14,), 64, 37, 4, 16, zeros="typed", order=True)
    yield matmul_nbits("nbits_8_many", (13,), 80, 20, 8, 32)
    yield matmul_nbits("nbits_2_many", (20,), 80, 24, 2, 16, zeros="packed")
    yield matmul_nbits("nbits_4_same_zero", (3,), 128, 24, 4, 128, zeros="same", bias=True)
    yield matmul_nbits("nbits_4_typed", (5,), 96, 33, 4, 16, zeros="typed", bias=True)
    yield matmul_nbits("nbits_4_order", (6,), 96, 20, 4, 32, zeros="packed", order=True)
    yield matmul_nbits("nbits_4_level4", (19,), 256, 50, 4, 64, level=4)
    yield matmul_nbits("nbits_4_variable", (2,), 64, 17, 4, 32, variable=True)
    yield matmul_nbits("nbits_8", (3,), 100, 20, 8, 32, zeros="packed", bias=True)
    yield matmul_nbits("nbits_8_one", (1,), 256, 16, 8, 256)
    yield matmul_nbits("nbits_8_level4", (9,), 128, 33, 8, 32, level=4)
    yield matmul_nbits("nbits_2", (4,), 160, 35, 2, 32, zeros="packed")
    yield matmul_nbits("nbits_2_order", (1,), 64, 18, 2, 16, order=True)
    yield matmul_nbits("nbits_2_level4", (2,), 64, 18, 2, 64, level=4)


def compare(opmeter):
    """How far ONNX Runtime is from the expected results."""
    for path in sorted(c.name for c in cases()):
        with tempfile.TemporaryDirectory() as tmp:
            done = subprocess.run(
                [opmeter, "run", FOLDER / f"{path}.onnx", "--engine", "onnxruntime", "--check",
                 FOLDER / f"{path}.npz", "-n", "1", "-w", "0", "-o", tmp + "/o"],
                capture_output=True, text=True, timeout=60)
            lines = (done.stdout + done.stderr).split("\n")
            found = [i for i, line in enumerate(lines) if "check " in line or "opmeter:" in line]
            print(f"{path}: " + " ".join(x.strip() for x in lines[found[0]:found[0] + 3])[:200])


def main():
    if sys.argv[1:2] == ["--compare"]:
        compare(sys.argv[2])
        return
    FOLDER.mkdir(exist_ok=True)
    for case in cases():
        if len(sys.argv) == 1 or case.name in sys.argv[1:]:
            case.write()


if __name__ == "__main__":
    main()
