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
        return pack(flat & (1 << self.bits) - 1, self.bits).tobytes()  # rows are not filled up


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


    yield from few_bits()
    yield from small_floats()
    yield from bfloats()
    yield from bfloat_operators()


def few_bits():
    """DequantizeLinear and QuantizeLinear of 4 and 2 bits, GatherBlockQuantized."""
    for kind, bits, low, opset in ("uint4", 4, 0, 21), ("int4", 4, -8, 21), ("int2", 2, -2, 25), ("uint2", 2, 0, 25):
        w = RNG.integers(low, low + (1 << bits), (6, 10))
        scale, zero = np.abs(floats(2, 10)) + 0.1, RNG.integers(low, low + (1 << bits), (2, 10))
        x = floats(3, 6)
        real = (w - np.repeat(zero, 4, 0)[:6]) * np.repeat(scale, 4, 0)[:6]
        yield Model(f"dequantize_{kind}_rows", opset, {"x": x},
                    {"w": Raw(kind, w), "s": scale, "z": Raw(kind, zero)},
                    [("DequantizeLinear", ["w", "s", "z"], ["d"], {"axis": 0, "block_size": 4}),
                     ("MatMul", ["x", "d"], ["y"], {})], {"y": (x.astype(np.float64) @ real).astype(np.float32)})
        scale = np.abs(floats(6, 4)) + 0.1
        x = floats(2, 10)
        yield Model(f"dequantize_{kind}_columns", opset, {"x": x}, {"w": Raw(kind, w), "s": scale},
                    [("DequantizeLinear", ["w", "s"], ["d"], {"axis": 1, "block_size": 3}),
                     ("Gemm", ["x", "d"], ["y"], {"transB": 1})],
                    {"y": (x.astype(np.float64) @ (w * np.repeat(scale, 3, 1)[:, :10]).T).astype(np.float32)})
        x = floats(5, 7, scale=3)
        one, at = np.float32(0.5), 1
        q = np.clip(np.rint(x / one) + at, low, low + (1 << bits) - 1)
        yield Model(f"quantize_{kind}", opset, {"x": x},
                    {"s": np.array(one), "z": Raw(kind, np.array(at))},
                    [("QuantizeLinear", ["x", "s", "z"], ["q"], {}), ("Cast", ["q"], ["i"], {"to": 6}),
                     ("DequantizeLinear", ["q", "s", "z"], ["y"], {})],
                    {"i": q.astype(np.int32), "y": ((q - at) * one).astype(np.float32)})
    table = RNG.integers(0, 16, (9, 40))
    index = np.array([[3, 8, 0], [-1, 5, 5]], np.int64)
    scale, zero = np.abs(floats(9, 3)) + 0.1, RNG.integers(0, 16, (9, 3))
    real = (table - np.repeat(zero, 16, 1)[:, :40]) * np.repeat(scale, 16, 1)[:, :40]
    ms, attrs = "com.microsoft:GatherBlockQuantized", dict(block_size=16, gather_axis=0, quantize_axis=1)
    yield Model("gather_block_uint4", 21, {"i": index},
                {"t": Raw("uint4", table), "s": scale, "z": Raw("uint4", zero)},
                [(ms, ["t", "i", "s", "z"], ["y"], attrs)], {"y": real[index].astype(np.float32)})
    yield Model("gather_block_bytes", 21, {"i": index},
                {"t": pack(table, 4), "s": scale, "z": pack(zero, 4)},
                [(ms, ["t", "i", "s", "z"], ["y"], dict(attrs, bits=4))], {"y": real[index].astype(np.float32)})
    real = (table - 8) * np.repeat(scale, 16, 1)[:, :40]
    yield Model("gather_block_bytes_plain", 21, {"i": index}, {"t": pack(table, 4), "s": scale},
                [(ms, ["t", "i", "s"], ["y"], dict(attrs, bits=4))], {"y": real[index].astype(np.float32)})
    table = RNG.integers(0, 256, (9, 40))
    real = (table - 128) * np.repeat(scale, 16, 1)[:, :40]
    yield Model("gather_block_8", 21, {"i": index}, {"t": table.astype(np.uint8), "s": scale},
                [(ms, ["t", "i", "s"], ["y"], dict(attrs, bits=8))], {"y": real[index].astype(np.float32)})


FLOAT8 = {  # exponent bits, mantissa bits, bias, largest code, no -0 and no infinity
    "float8e4m3fn": (4, 3, 7, 0x7e, False), "float8e4m3fnuz": (4, 3, 8, 0x7f, True),
    "float8e5m2": (5, 2, 15, 0x7b, False), "float8e5m2fnuz": (5, 2, 16, 0x7f, True)}


def float8_values(kind):
    """Of all codes from 0 up to the largest."""
    _, mantissa, bias, most, _ = FLOAT8[kind]
    codes = np.arange(most + 1)
    exponent, fraction = codes >> mantissa, codes & (1 << mantissa) - 1
    return np.where(exponent > 0, (1 + fraction / 2.0 ** mantissa) * 2.0 ** (exponent - bias),
                    fraction / 2.0 ** mantissa * 2.0 ** (1 - bias))


def to_float8(x, kind, saturate=True):
    """The nearest of all that there are, by trying; of two as near the one with an even code."""
    values = float8_values(kind)
    top = values[-1] + (values[-1] - values[-2]) / 2  # from here on it would be the next, which is none
    out = []
    for v in np.asarray(x, np.float64).ravel():
        size = abs(v)
        if np.isnan(v):
            out.append(np.nan)
        elif size > top or size == top and FLOAT8[kind][3] % 2 or np.isinf(size):
            beyond = values[-1] if saturate else np.inf if kind == "float8e5m2" else np.nan
            out.append(np.copysign(beyond, v) if not np.isnan(beyond) else np.nan)
        else:
            gap = np.abs(values - min(size, values[-1]))
            near = np.flatnonzero(gap == gap.min())
            best = near[0] if len(near) == 1 or near[0] % 2 == 0 else near[1]
            out.append(np.copysign(values[best], v))
    return np.array(out, np.float32).reshape(np.shape(x))


def small_floats():
    for kind in FLOAT8:
        values = float8_values(kind)
        x = np.concatenate([values, (values[1:] + values[:-1]) / 2, floats(40), floats(40, scale=300),
                            [values[-1] * 1.01, values[-1] * 1.2, 1e30, np.inf, np.nan, 1e-9, 0]])
        x = np.concatenate([x, -x]).astype(np.float32)
        for saturate in 1, 0:
            yield Model(f"cast_{kind}_{saturate}", 19, {"x": x}, {},
                        [("Cast", ["x"], ["c"], {"to": CODES[kind], "saturate": saturate}),
                         ("Cast", ["c"], ["y"], {"to": 1})], {"y": to_float8(x, kind, bool(saturate))})
        x, s = floats(4, 6, scale=20), np.float32(0.25)
        q = to_float8(x / s, kind)
        yield Model(f"quantize_{kind}", 19, {"x": x}, {"s": np.array(s), "z": Raw(kind, np.array(0))},
                    [("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
                     ("DequantizeLinear", ["q", "s", "z"], ["y"], {})], {"y": (q * s).astype(np.float32)})
        codes = RNG.integers(0, FLOAT8[kind][3] + 1, (5, 8))
        scale = np.abs(floats(8)) + 0.1
        yield Model(f"dequantize_{kind}", 19, {"x": x[:, :5]}, {"w": Raw(kind, codes), "s": scale},
                    [("DequantizeLinear", ["w", "s"], ["d"], {"axis": 1}), ("MatMul", ["x", "d"], ["y"], {})],
                    {"y": (x[:, :5].astype(np.float64) @ (values[codes] * scale)).astype(np.float32)})


def bf16(x):
    """The nearest bfloat16, ties to even, as its bits."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.int64)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def real(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bfloats():
    x = floats(3, 8)
    weights = {k: bf16(floats(*s, scale=0.5)) for k, s in dict(w=(8, 6), g=(5, 6), c=(5,), k=(4, 2, 3, 3), b=(6,)).items()}
    raw = {k: Raw("bfloat16", v) for k, v in weights.items()}
    val = {k: real(v).astype(np.float64) for k, v in weights.items()}
    def pick(*names):
        return {n: raw[n] for n in names}
    inside, out = ("Cast", ["x"], ["h"], {"to": 16}), ("Cast", ["t"], ["y"], {"to": 1})
    h = real(bf16(x)).astype(np.float64)
    yield Model("bf16_cast", 13, {"x": x}, {}, [inside, ("Cast", ["h"], ["y"], {"to": 1})], {"y": h.astype(np.float32)})
    y = h @ val["w"] + val["b"]
    yield Model("bf16_matmul_add", 13, {"x": x}, pick("w", "b"),
                [inside, ("MatMul", ["h", "w"], ["m"], {}), ("Add", ["m", "b"], ["t"], {}), out], {"y": real(bf16(y))})
    z = real(bf16(floats(2, 6))).astype(np.float64)
    yield Model("bf16_gemm_relu", 13, {"x": z.astype(np.float32)}, pick("g", "c"),
                [inside, ("Gemm", ["h", "g", "c"], ["m"], {"transB": 1}), ("Relu", ["m"], ["t"], {}), out],
                {"y": real(bf16(np.maximum(z @ val["g"].T + val["c"], 0)))})
    image = real(bf16(floats(1, 2, 6, 5))).astype(np.float64)
    conv = np.zeros((1, 4, 4, 3))
    for i in range(4):
        for j in range(3):
            conv[0, :, i, j] = (val["k"] * image[0, :, i:i + 3, j:j + 3]).sum((1, 2, 3))
    yield Model("bf16_conv", 22, {"x": image.astype(np.float32)}, pick("k"),
                [inside, ("Conv", ["h", "k"], ["t"], {}), out], {"y": real(bf16(conv))})
    codes, scale = RNG.integers(-128, 128, (8, 6)), bf16(np.array(0.03125))
    yield Model("bf16_dequantize", 21, {"x": x}, {"w": codes.astype(np.int8), "s": Raw("bfloat16", scale)},
                [inside, ("DequantizeLinear", ["w", "s"], ["d"], {}), ("MatMul", ["h", "d"], ["t"], {}), out],
                {"y": real(bf16(h @ (codes * 0.03125)))})


def bfloat_operators():
    """One operator each between two conversions; b is a constant."""
    rng = np.random.default_rng(16)
    def near(*shape):
        return real(bf16(rng.standard_normal(shape)))
    x, b = near(4, 6), near(4, 6)
    row = near(6)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    norm = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    image = near(1, 2, 4, 6)
    fours = image.reshape(1, 2, 2, 2, 3, 2)
    for name, operator, inputs, more, attributes, want in (
            ("add", "Add", x, [b], {}, wide + b), ("sub", "Sub", x, [row], {}, wide - row), ("mul", "Mul", x, [b], {}, wide * b),
            ("div", "Div", x, [np.abs(b) + 1], {}, wide / real(bf16(np.abs(b) + 1))), ("neg", "Neg", x, [], {}, -wide),
            ("exp", "Exp", x, [], {}, np.exp(wide)), ("sigmoid", "Sigmoid", x, [], {}, 1 / (1 + np.exp(-wide))),
            ("tanh", "Tanh", x, [], {}, np.tanh(wide)), ("softmax", "Softmax", x, [], {"axis": 1}, e / e.sum(1, keepdims=True)),
            ("layernorm", "LayerNormalization", x, [row], {}, norm * row),
            ("reducemax", "ReduceMax", x, [np.array([1])], {"keepdims": 0}, wide.max(1)),
            ("reducemean", "ReduceMean", x, [np.array([0])], {"keepdims": 0}, wide.mean(0)),
            ("transpose", "Transpose", x, [], {"perm": [1, 0]}, wide.T), ("concat", "Concat", x, [b], {"axis": 0}, np.concatenate([x, b])),
            ("gather", "Gather", x, [np.array([3, 0, 3])], {"axis": 0}, wide[[3, 0, 3]]),
            ("maxpool", "MaxPool", image, [], {"kernel_shape": [2, 2], "strides": [2, 2]}, fours.max((3, 5)))):
        constants = {f"c{i}": Raw("bfloat16", bf16(c)) if c.dtype.kind == "f" else c for i, c in enumerate(more)}
        yield Model(f"bf16_{name}", 22, {"x": inputs}, constants,
                    [("Cast", ["x"], ["h"], {"to": 16}), (operator, ["h", *constants], ["t"], attributes),
                     ("Cast", ["t"], ["y"], {"to": 1})], {"y": real(bf16(want))})


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
