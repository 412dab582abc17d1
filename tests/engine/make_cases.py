#!/usr/bin/env python3
"""Make the models and reference results in tests/engine/cases/, with ONNX Runtime.

usage: OPMETER_ORT_LIB=libonnxruntime.so make_cases.py OPMETER [NAME...]

Each case is one node: NAME.onnx, and NAME.npz with the inputs (in_X) and what ONNX Runtime gives
(out_X). check_cases.py runs them through the native engine. Needs numpy; the committed files do not
change unless a case does.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "cases"
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    out = block(1, name)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return out + block(4, value) + number(20, 3)
    if value and isinstance(value[0], str):
        return out + b"".join(block(9, v) for v in value) + number(20, 8)
    if value and isinstance(value[0], float):
        return out + b"".join(varint(7 << 3 | 5) + struct.pack("<f", v) for v in value) + number(20, 6)
    return out + b"".join(number(8, v) for v in value) + number(20, 7)


def tensor(name, array):
    dims = b"".join(number(1, d) for d in array.shape)
    return dims + number(2, TYPES[str(array.dtype)]) + block(8, name) + block(9, array.tobytes())


def value_info(name, dtype=None, shape=None):
    if dtype is None:
        return block(1, name)
    inner = number(1, TYPES[dtype])
    if shape is not None:
        inner += block(2, b"".join(block(1, number(1, d)) for d in shape))
    return block(1, name) + block(2, block(1, inner))


class Case:
    """One node. inputs: (array, is_constant) or None for one that is left out; outputs: dtypes, or
    None for one that is left out."""

    def __init__(self, name, op, inputs, outputs, domain="com.microsoft", opset=17, **attrs):
        self.name, self.inputs, self.outputs = name, inputs, outputs
        ins = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
        outs = ["" if t is None else f"y{i}" for i, t in enumerate(outputs)]
        node = b"".join(block(1, i) for i in ins) + b"".join(block(2, o) for o in outs)
        node += block(3, "node") + block(4, op)
        node += b"".join(block(5, attribute(k, v)) for k, v in attrs.items()) + block(7, domain)
        graph = block(1, node) + block(2, name)
        for i, x in enumerate(inputs):
            if x is not None and x[1]:
                graph += block(5, tensor(ins[i], x[0]))
            elif x is not None:
                graph += block(11, value_info(ins[i], str(x[0].dtype), x[0].shape))
        for i, t in enumerate(outputs):
            if t is not None:
                graph += block(12, value_info(outs[i], t))
        self.model = number(1, 8) + block(7, graph)
        self.model += block(8, block(1, "") + number(2, opset))
        if domain:
            self.model += block(8, block(1, domain) + number(2, 1))

    def write(self, opmeter):
        onnx = FOLDER / f"{self.name}.onnx"
        onnx.write_bytes(self.model)
        given = {f"in_x{i}": x[0] for i, x in enumerate(self.inputs) if x is not None and not x[1]}
        with tempfile.TemporaryDirectory() as tmp:
            args = [opmeter, "run", onnx, "--engine", "onnxruntime", "-n", "1", "-w", "0", "-q"]
            for key, array in given.items():
                np.save(f"{tmp}/{key}.npy", array)
                args += ["--input", f"{key[3:]}:{tmp}/{key}.npy"]
            args += ["--save-outputs", f"{tmp}/out", "-o", f"{tmp}/run"]
            done = subprocess.run(args, capture_output=True, text=True, timeout=60)
            if done.returncode:
                sys.exit(f"{self.name}: {done.stderr.strip()}")
            for i, t in enumerate(self.outputs):
                if t is not None:
                    given[f"out_y{i}"] = np.load(f"{tmp}/out/y{i}.npy")
        np.savez_compressed(FOLDER / f"{self.name}.npz", **given)


RNG = np.random.default_rng(5)


def f(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def var(array):
    return (array, False)


def const(array):
    return (array, True)


def i32(*values):
    return np.array(values, np.int32)


def cases():
    F = "float32"
    x, w, b = f(2, 5, 12), f(12, 48, scale=0.3), f(48, scale=0.1)
    attn = [var(x), const(w), const(b)]
    yield Case("ms_attention", "Attention", attn, [F], num_heads=4)
    yield Case("ms_attention_variable_weights", "Attention", [var(x), var(w), var(b)], [F], num_heads=2)
    yield Case("ms_attention_causal", "Attention", attn, [F], num_heads=4, unidirectional=1)
    yield Case("ms_attention_lengths", "Attention", attn + [var(i32(3, 5))], [F], num_heads=4)
    raw = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], np.int32)
    yield Case("ms_attention_raw_mask", "Attention", attn + [var(raw)], [F], num_heads=4)
    rows = RNG.integers(0, 2, (2, 5, 5)).astype(np.int32)
    rows[:, :, 0] = 1
    yield Case("ms_attention_row_mask", "Attention", attn + [var(rows)], [F], num_heads=4)
    past = f(2, 2, 4, 3, 4)
    yield Case("ms_attention_past", "Attention", attn + [None, var(past)], [F, F], num_heads=4,
               unidirectional=1)
    bias = f(2, 4, 5, 5)
    yield Case("ms_attention_bias", "Attention", attn + [var(raw), None, var(bias)], [F], num_heads=4,
               scale=0.25)
    wide = [var(x), const(f(12, 8 + 8 + 20, scale=0.3)), const(f(36, scale=0.1))]
    yield Case("ms_attention_sizes", "Attention", wide, [F], num_heads=4, qkv_hidden_sizes=[8, 8, 20])
    qx = RNG.integers(0, 256, (2, 5, 12)).astype(np.uint8)
    qw = RNG.integers(-127, 128, (12, 48)).astype(np.int8)
    scales = [var(np.array([0.02], np.float32)), const(np.array([0.01], np.float32))]
    zeros = [var(np.array([120], np.uint8)), const(np.array([3], np.int8))]
    yield Case("qattention", "QAttention",
               [var(qx), const(qw), const(b)] + scales + [var(i32(3, 5))] + zeros, [F], num_heads=4)
    columns = [var(np.array([0.02], np.float32)), const(np.abs(f(48, scale=0.01)))]
    yield Case("qattention_columns", "QAttention",
               [var(qx), const(qw), const(b)] + columns
               + [None, var(np.array([120], np.uint8)), const(np.zeros(48, np.int8)), var(past)],
               [F, F], num_heads=4, unidirectional=1)

    q, k, v = f(2, 5, 16), f(2, 7, 16), f(2, 7, 24)
    yield Case("mha", "MultiHeadAttention", [var(q), var(k), var(v)], [F], num_heads=4)
    yield Case("mha_bias_mask", "MultiHeadAttention",
               [var(q), var(k), var(v), const(f(56)),
                var(RNG.integers(0, 2, (2, 7)).astype(np.int32) | np.eye(2, 7, dtype=np.int32))],
               [F], num_heads=4)
    same = [var(f(2, 3, 16)) for _ in range(3)]
    yield Case("mha_past", "MultiHeadAttention",
               same + [None, None, None, var(f(2, 4, 6, 4)), var(f(2, 4, 6, 4))], [F, F, F],
               num_heads=4, unidirectional=1)
    yield Case("mha_attention_bias", "MultiHeadAttention",
               same + [None, None, var(f(1, 4, 3, 3))], [F], num_heads=4, scale=0.7)

    heads, kv, d, s, p = 4, 2, 16, 3, 5
    gqa = [var(f(2, s, heads * d)), var(f(2, s, kv * d)), var(f(2, s, kv * d))]
    total = const(i32(p + s).reshape(()))
    cos, sin = f(16, d // 2), f(16, d // 2)
    yield Case("gqa_prompt", "GroupQueryAttention",
               gqa + [None, None, var(i32(s - 1, s - 1)), const(i32(s).reshape(()))], [F, F, F],
               num_heads=heads, kv_num_heads=kv)
    yield Case("gqa_past", "GroupQueryAttention",
               [var(a[0][:1].copy()) for a in gqa]
               + [var(f(1, kv, p, d)), var(f(1, kv, p, d)), var(i32(p + s - 1)), total], [F, F, F], num_heads=heads, kv_num_heads=kv)
    one = [var(f(2, 1, heads * d)), var(f(2, 1, kv * d)), var(f(2, 1, kv * d))]
    yield Case("gqa_token_rotary", "GroupQueryAttention",
               one + [var(f(2, kv, p, d)), var(f(2, kv, p, d)), var(i32(p, p - 2)),
                      const(i32(p + 1).reshape(())), const(cos), const(sin)],
               [F, F, F], num_heads=heads, kv_num_heads=kv, do_rotary=1)
    yield Case("gqa_packed_softcap", "GroupQueryAttention",
               [var(f(2, s, (heads + 2 * kv) * d)), None, None, None, None, var(i32(s - 1, s - 1)),
                const(i32(s).reshape(())), const(cos), const(sin)],
               [F, F, F], num_heads=heads, kv_num_heads=kv, do_rotary=1, rotary_interleaved=1,
               softcap=2.0)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    for case in cases():
        if len(sys.argv) == 2 or case.name in sys.argv[2:]:
            case.write(sys.argv[1])


if __name__ == "__main__":
    main()
