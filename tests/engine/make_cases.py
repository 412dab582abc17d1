#!/usr/bin/env python3
"""Make the models and reference results in tests/engine/cases/, with ONNX Runtime.

usage: OPMETER_ORT_LIB=libonnxruntime.so make_cases.py OPMETER [NAME...]

Each case is one node: NAME.onnx, and NAME.npz with the inputs (in_X) and what ONNX Runtime gives
(out_X), or numpy where ONNX Runtime has no kernel for CPUs. check_cases.py runs them through the native engine. Needs numpy; the committed files do not
change unless a case does.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

from pbwire import block, number, put_varint  # noqa: E402

FOLDER = pathlib.Path(__file__).parent / "cases"
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}


def attribute(name, value):
    out = block(1, name)
    if isinstance(value, float):
        return out + put_varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return out + block(4, value) + number(20, 3)
    if value and isinstance(value[0], str):
        return out + b"".join(block(9, v) for v in value) + number(20, 8)
    if value and isinstance(value[0], float):
        return out + b"".join(put_varint(7 << 3 | 5) + struct.pack("<f", v) for v in value) + number(20, 6)
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

    def __init__(self, name, op, inputs, outputs, domain="com.microsoft", opset=17, expect=None,
                 **attrs):
        self.name, self.inputs, self.outputs, self.expect = name, inputs, outputs, expect
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
        if self.expect is not None:
            given.update({f"out_y{i}": y for i, y in enumerate(self.expect)})
            np.savez_compressed(FOLDER / f"{self.name}.npz", **given)
            return
        with tempfile.TemporaryDirectory() as tmp:
            args = [opmeter, "run", onnx, "--engine", "onnxruntime", "-n", "1", "-w", "0", "-q"]
            for key, array in given.items():
                np.save(f"{tmp}/{key}.npy", array)
                args += ["--input", f"{key[3:]}:{tmp}/{key}.npy"]
            args += ["--save-outputs", f"{tmp}/out", "-o", f"{tmp}/run"]
            done = subprocess.run(args, capture_output=True, text=True, timeout=60)
            if done.returncode:
                print(f"{self.name}: {done.stderr.strip()}", file=sys.stderr)
                return
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


def i64(*values):
    return np.array(values, np.int64)


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
    before = np.random.default_rng(6)
    cross = [before.standard_normal(s).astype(np.float32) for s in ((2, 1, 16), (2, 4, 9, 4), (2, 4, 9, 4), 48)]
    yield Case("mha_cross_past_bias", "MultiHeadAttention",
               [var(cross[0]), var(cross[1]), var(cross[2]), const(cross[3])], [F], num_heads=4)
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
    extra = np.random.default_rng(8)

    def g(*shape):
        return extra.standard_normal(shape).astype(np.float32)

    wide = [var(g(2, 7, heads * d)), var(g(2, 7, kv * d)), var(g(2, 7, kv * d))]
    yield Case("gqa_window", "GroupQueryAttention",
               wide + [None, None, var(i32(6, 6)), const(i32(7).reshape(()))], [F, F, F],
               num_heads=heads, kv_num_heads=kv, local_window_size=3)
    token = [var(g(1, 1, heads * d)), var(g(1, 1, kv * d)), var(g(1, 1, kv * d))]
    yield Case("gqa_window_token", "GroupQueryAttention",
               token + [var(g(1, kv, 6, d)), var(g(1, kv, 6, d)), var(i32(6)), const(i32(7).reshape(()))],
               [F, F, F], num_heads=heads, kv_num_heads=kv, local_window_size=4)
    yield Case("gqa_smooth", "GroupQueryAttention",
               wide + [None, None, var(i32(6, 6)), const(i32(7).reshape(()))], [F, F, F],
               num_heads=heads, kv_num_heads=kv, smooth_softmax=1)
    yield Case("gqa_sink", "GroupQueryAttention",
               wide + [None, None, var(i32(6, 6)), const(i32(7).reshape(())), None, None, None, None,
                       const(g(heads))], [F, F, F], num_heads=heads, kv_num_heads=kv, softcap=3.0)
    yield Case("gqa_positions", "GroupQueryAttention",
               wide + [None, None, var(i32(6, 6)), const(i32(7).reshape(())), const(cos), const(sin),
                       var(np.tile(np.arange(2, 9), (2, 1)).astype(np.int64))],
               [F, F, F], num_heads=heads, kv_num_heads=kv, do_rotary=1)

    def onnx(name, op, inputs, outputs, opset, **attrs):
        return Case(name, op, inputs, outputs, domain="", opset=opset, **attrs)

    columns = f(2, 3 * 4, 12)
    yield onnx("col2im", "Col2Im", [var(columns), const(i64(4, 5)), const(i64(2, 2))], [F], 18)
    yield onnx("col2im_padded", "Col2Im", [var(f(1, 2 * 6, 9)), const(i64(6, 6)), const(i64(2, 3))], [F],
               18, pads=[1, 0, 0, 1], strides=[2, 2], dilations=[2, 1])
    yield onnx("center_crop_pad", "CenterCropPad", [var(f(7, 4, 5)), const(i64(4, 9))], [F], 18,
               axes=[0, -1])
    for corners in 0, 1:
        yield onnx(f"affine_grid_2d_{corners}", "AffineGrid",
                   [var(f(2, 2, 3)), const(i64(2, 3, 4, 5))], [F], 20, align_corners=corners)
        yield onnx(f"affine_grid_3d_{corners}", "AffineGrid",
                   [var(f(2, 3, 4)), const(i64(2, 3, 4, 5, 2))], [F], 20, align_corners=corners)
    cache, update = f(2, 3, 6, 4), f(2, 3, 2, 4)
    for mode, at in ("linear", (1, 4)), ("circular", (5, 0)):
        want = cache.copy()
        for b in range(2):
            for i in range(2):
                want[b, :, (at[b] + i) % 6] = update[b, :, i]
        yield onnx(f"tensor_scatter_{mode}", "TensorScatter", [var(cache), var(update), var(i64(*at))],
                   [F], 24, mode=mode, expect=[want])
    numbers = RNG.integers(-3, 4, (3, 5)).astype(np.int32)
    yield onnx("cumprod", "CumProd", [var(numbers), const(i64(1))], ["int32"], 26,
               expect=[np.cumprod(numbers, 1).astype(np.int32)])
    back = f(3, 4)
    yield onnx("cumprod_reverse_exclusive", "CumProd", [var(back), const(i64(0))], [F], 26, reverse=1,
               exclusive=1, expect=[np.stack([back[1] * back[2], back[2], np.ones(4, np.float32)])])
    for inner in 0, 1:
        data = f(3, 2, 4, 5)
        shape = (3, 1, 4, 5) if inner else (1, 1, 4, 5)
        bias = f(*shape)
        if inner:
            bias = f(3, 1, 1, 5)
        logits = data + bias
        e = np.exp(logits - logits.max(-1, keepdims=True))
        yield Case(f"bias_softmax_{inner}", "BiasSoftmax", [var(data), var(bias)], [F], axis=3,
                   is_inner_broadcast=inner, expect=[e / e.sum(-1, keepdims=True)])
    grams = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)
    for mode in "TF", "IDF", "TFIDF":
        yield onnx(f"tfidf_{mode.lower()}", "TfIdfVectorizer", [var(grams)], [F], 9, mode=mode,
                   min_gram_length=1, max_gram_length=2, max_skip_count=5, ngram_counts=[0, 4],
                   ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
                   weights=[2.0, 3.0, 1.5, 2.5, 0.5, 4.0, 3.5])
    for opset in 23,:
        q4, k4, v4 = f(2, 4, 3, 8), f(2, 2, 5, 8), f(2, 2, 5, 6)
        yield onnx("attention_4d", "Attention", [var(q4), var(k4), var(v4)], [F], opset, softcap=1.5)
        mask = RNG.integers(0, 2, (3, 9)).astype(bool)
        mask[:, 0] = True
        yield onnx("attention_past", "Attention",
                   [var(q4), var(k4), var(v4), var(mask), var(f(2, 2, 4, 8)), var(f(2, 2, 4, 6))],
                   [F, F, F], opset, is_causal=1)
        yield onnx("attention_3d", "Attention",
                   [var(f(2, 3, 32)), var(f(2, 5, 16)), var(f(2, 5, 12)), var(f(2, 1, 3, 5))], [F], opset,
                   q_num_heads=4, kv_num_heads=2, scale=0.3)
        yield onnx("rms_norm", "RMSNormalization", [var(f(2, 3, 4, 5)), const(f(4, 5))], [F], opset,
                   axis=2, epsilon=0.01)
        yield onnx("rotary", "RotaryEmbedding",
                   [var(f(2, 3, 4, 8)), const(f(10, 4)), const(f(10, 4)),
                    var(RNG.integers(0, 10, (2, 4)).astype(np.int64))], [F], opset)
        yield onnx("rotary_part", "RotaryEmbedding",
                   [var(f(2, 4, 24)), var(f(2, 4, 2)), var(f(2, 4, 2))], [F], opset, num_heads=3,
                   interleaved=1, rotary_embedding_dim=4)
    for name, dirs, kind, extra in (("forward", 1, np.int8, {}),
                                    ("bidirectional", 2, np.uint8, {"direction": "bidirectional"})):
        n, h, low = 6, 8, 0 if kind == np.uint8 else -100
        weights = [const(RNG.integers(low, low + 200, (dirs, rows, 4 * h)).astype(kind)) for rows in (n, h)]
        zero = 100 if kind == np.uint8 else 3
        yield Case(f"dynamic_quantize_lstm_{name}", "DynamicQuantizeLSTM",
                   [var(f(5, 1, n)), *weights, const(f(dirs, 8 * h)), None, var(f(dirs, 1, h)),
                    var(f(dirs, 1, h)), None, const(np.full(dirs, 0.01, np.float32)),
                    const(np.full(dirs, zero, kind)), const(np.full(dirs, 0.008, np.float32)),
                    const(np.full(dirs, zero, kind))], [F, F, F], hidden_size=h, **extra)
    ids = np.array([[1, 5, 3], [0, 6, 6]], np.int32)
    segments, kept = np.array([[0, 1, 1], [1, 0, 0]], np.int32), np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield Case("embed_norm", "EmbedLayerNormalization",
               [var(ids), var(segments), const(f(7, 8)), const(f(4, 8)), const(f(2, 8)), const(f(8)),
                const(f(8)), var(kept)], [F, "int32"], epsilon=0.001)
    tables = [RNG.integers(0, 256, shape).astype(np.uint8) for shape in ((7, 8), (4, 8), (2, 8), 8, 8)]
    yield Case("qembed_norm", "QEmbedLayerNormalization",
               [var(ids), var(segments), *[const(t) for t in tables], var(kept)]
               + [const(np.array(0.01 * (i + 1), np.float32)) for i in range(5)]
               + [const(np.array(100 + i, np.uint8)) for i in range(5)], [F, "int32"], epsilon=0.001)
    swish = f(3, 7)
    yield onnx("swish", "Swish", [var(swish)], [F], 24, alpha=1.7,
               expect=[swish / (1 + np.exp(-1.7 * swish))])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    for case in cases():
        if len(sys.argv) == 2 or case.name in sys.argv[2:]:
            case.write(sys.argv[1])


if __name__ == "__main__":
    main()
