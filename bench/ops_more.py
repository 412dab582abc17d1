"""ops_more.py -- cases of bench/ops.py, continued: operators on sequences, texts and graphs, of chance, of ai.onnx.ml and com.microsoft."""
import struct
import zlib

import numpy as np

from ops_cases import FEATURES, MS, RNG, Case, Inner, block, c, ci, d, f, i64, ints, text, value_info

ML, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"
WORDS = np.array("the quick brown fox jumps over a lazy dog and Then WALKS home".split())


def scalar(value, kind=np.float32):
    return np.array(value, kind)


def one(value):
    return np.array([value], np.float32)


def graph(inputs, outputs, *nodes):
    """A body: names, and per node an operator, names of inputs and of outputs."""
    out = b"".join(block(1, b"".join(block(1, i) for i in used) + b"".join(block(2, o) for o in made) + block(4, operator))
                   for operator, used, made in nodes)
    out += block(2, "body") + b"".join(block(11, value_info(name, like)) for name, like in inputs)
    return out + b"".join(block(12, value_info(name, like)) for name, like in outputs)


def sequence():
    x, y, z = f(*FEATURES), f(*FEATURES), f(*FEATURES)
    label = text(FEATURES)
    pair = Inner("SequenceConstruct", [x, y])
    yield Case("SequenceAt", f"of two {label}", [pair, ci(1)])
    yield Case("SequenceConstruct", f"three of {label}, one taken", [x, y, z], then=("SequenceAt", [ci(2)]))
    yield Case("SequenceEmpty", f"{label} put there and taken", [], then=[("SequenceInsert", [x]), ("SequenceAt", [ci(0)])], dtype=1)
    yield Case("SequenceInsert", f"third of {label}, taken", [pair, z, ci(1)], then=("SequenceAt", [ci(1)]))
    yield Case("SequenceErase", f"one of two {label}, other taken", [pair, ci(0)], then=("SequenceAt", [ci(0)]))
    yield Case("SequenceLength", f"of two {label}", [pair])
    parts = Inner("SplitToSequence", [x, ci(8).array], axis=1)
    yield Case("SplitToSequence", f"{label} axis 1, one taken", [x], then=("SequenceAt", [ci(3)]), axis=1)
    yield Case("SplitToSequence", f"{label} axis 3 by 8, one taken", [x, c(np.array(8, np.int64))], then=("SequenceAt", [ci(3)]), axis=3)
    yield Case("ConcatFromSequence", f"two of {label} axis 1", [pair], axis=1)
    yield Case("ConcatFromSequence", f"two of {label} axis 3", [pair], axis=3)
    yield Case("ConcatFromSequence", f"two of {label} stacked", [pair], axis=0, new_axis=1)
    part = f(1, 8, 56, 56)
    yield Case("SequenceMap", "Relu of eight 1x8x56x56", [Inner("SplitToSequence", [x, c(np.array(8, np.int64))], axis=1)],
               then=("ConcatFromSequence", [], {"axis": 1}), body=graph([("a", part)], [("b", part)], ("Relu", ["a"], ["b"])))
    yield Case("Optional", f"{label}, taken", [x], then=("OptionalGetElement", []), opset=18)
    yield Case("OptionalGetElement", label, [x], opset=18)
    yield Case("OptionalHasElement", label, [x], opset=18)


def control():
    x = f(*FEATURES)
    flag, number = np.array(True), np.array(0, np.int64)
    yield Case("If", f"Relu of {text(FEATURES)}", [flag, ], captured=[x],
               then_branch=lambda given: graph([], [("p", x)], ("Relu", [given[0]], ["p"])),
               else_branch=lambda given: graph([], [("q", x)], ("Neg", [given[0]], ["q"])))
    for shape, turns in (((64, 64), 32), ((1, 64, 56, 56), 8)):
        v = f(*shape)
        body = graph([("i", number), ("c", flag), ("a", v)], [("d", flag), ("b", v)],
                     ("Identity", ["c"], ["d"]), ("Tanh", ["a"], ["b"]))
        yield Case("Loop", f"{turns} times Tanh of {text(shape)}", [c(np.array(turns, np.int64)), c(flag), v], body=body)
    state, row = f(8, 64), f(32, 8, 64)
    body = graph([("s", state), ("r", state)], [("t", state), ("o", state)], ("Add", ["s", "r"], ["t"]), ("Relu", ["t"], ["o"]))
    yield Case("Scan", "32 rows of 8x64", [state, row], outputs=2, body=body, num_scan_inputs=1)


def words():
    table = WORDS[RNG.integers(0, len(WORDS), 1000)]
    yield Case("StringConcat", "1000 and 1000", [table, table[::-1].copy()], opset=20)
    yield Case("StringNormalizer", "1000 to lower", [table], case_change_action="LOWER")
    yield Case("StringNormalizer", "1000 without 4", [table], case_change_action="UPPER", stopwords=["the", "a", "fox", "dog"],
               is_case_sensitive=0)
    lines = np.array([" ".join(WORDS[RNG.integers(0, len(WORDS), 8)]) for _ in range(100)])
    yield Case("StringSplit", "100 lines of 8 words", [lines], outputs=2, opset=20)
    yield Case("RegexFullMatch", "1000 words", [table], opset=20, pattern="[a-z]+o.*")


def random():
    x = f(*FEATURES)
    for name in ("RandomNormal", "RandomUniform"):
        yield Case(name, text(FEATURES), [], chance=True, shape=list(FEATURES), seed=1.0)
        yield Case(f"{name}Like", text(FEATURES), [x], chance=True, seed=1.0)
    yield Case("Bernoulli", text(FEATURES), [np.abs(np.tanh(x))], chance=True, seed=1.0)
    yield Case("Multinomial", "8x1000 of 100", [f(8, 1000)], chance=True, sample_size=100, seed=1.0)


def newer():
    x = f(*FEATURES)
    yield Case("BitCast", f"float to int32 {text(FEATURES)}", [x], opset=26, to=6)
    yield Case("CumProd", "64x1000 axis 1", [f(64, 1000) * .01 + 1, ci(1)], opset=26)
    yield Case("SwiGLU", text((128, 1024)), [f(128, 1024), f(128, 1024)], opset=28)
    yield Case("DeformConv", "1x64x28x28 by 64x64x3x3", [f(1, 64, 28, 28), c(f(64, 64, 3, 3)), f(1, 18, 28, 28)], opset=19, pads=[1] * 4)
    for domain, opset in (("", 28), (MS, 17)):
        q = f(1, 64, 512)
        yield Case("LinearAttention", f"{'microsoft ' if domain else ''}1x64x512 of 8", [q, f(1, 64, 512), f(1, 64, 512)], domain=domain,
                   opset=opset, outputs=2, q_num_heads=8, kv_num_heads=8, update_rule="linear")
        yield Case("CausalConvWithState", f"{'microsoft ' if domain else ''}1x512x64 by 4",
                   [f(1, 512, 64), c(f(512, 1, 4)), c(f(512))], domain=domain, opset=opset, outputs=2, activation="silu")
    yield Case("FlexAttention", "1x12x128x64", [f(1, 12, 128, 64) for _ in range(3)], domain="ai.onnx.preview", opset=26)
    for name, extra in (("Adagrad", 1), ("Momentum", 1), ("Adam", 2)):
        tensors = [np.abs(f(1000000)) for _ in range(2 + extra)]
        more = {"alpha": .9, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0} if name == "Momentum" else {}
        yield Case(name, "1000000", [c(scalar(.01)), c(scalar(1, np.int64)), *tensors], domain=TRAINING, outputs=1 + extra, **more)
    pixels = ints(np.uint8, 0, 255, 224, 224 * 3)
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 224, 224, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(b)) + n + b + struct.pack(">I", zlib.crc32(n + b)) for n, b in chunks)
    yield Case("ImageDecoder", "PNG 224x224", [np.frombuffer(png, np.uint8)], opset=20)


def trees(count, depth, features, targets, what):
    """Whole trees of a depth."""
    inner, nodes = 2 ** depth - 1, 2 ** (depth + 1) - 1
    ids = list(range(nodes))
    leaf = [i >= inner for i in ids]
    leaves = nodes - inner
    out = {"nodes_treeids": [t for t in range(count) for _ in ids], "nodes_nodeids": ids * count,
           "nodes_featureids": [int(v) for v in RNG.integers(0, features, nodes * count)],
           "nodes_values": [float(v) for v in RNG.standard_normal(nodes * count)],
           "nodes_modes": ["LEAF" if v else "BRANCH_LEQ" for v in leaf] * count,
           "nodes_truenodeids": [0 if v else 2 * i + 1 for i, v in zip(ids, leaf)] * count,
           "nodes_falsenodeids": [0 if v else 2 * i + 2 for i, v in zip(ids, leaf)] * count,
           f"{what}_treeids": [t for t in range(count) for _ in range(leaves)],
           f"{what}_nodeids": ids[inner:] * count, f"{what}_ids": [int(v) for v in RNG.integers(0, targets, leaves * count)],
           f"{what}_weights": [float(v) for v in RNG.standard_normal(leaves * count)]}
    return out


def forest(count, depth, features, targets):
    """The same as TreeEnsemble of version 5 has them: inner nodes and leaves apart."""
    inner, leaves = 2 ** depth - 1, 2 ** depth
    last = [2 * i + 1 >= inner for i in range(inner)]

    def child(t, i):
        return t * leaves + i - inner if i >= inner else t * inner + i

    both = [(t, i) for t in range(count) for i in range(inner)]
    return {"tree_roots": [t * inner for t in range(count)], "n_targets": targets,
            "nodes_featureids": [int(v) for v in RNG.integers(0, features, inner * count)],
            "nodes_splits": RNG.standard_normal(inner * count).astype(np.float32), "nodes_modes": np.zeros(inner * count, np.uint8),
            "nodes_truenodeids": [child(t, 2 * i + 1) for t, i in both], "nodes_falsenodeids": [child(t, 2 * i + 2) for t, i in both],
            "nodes_trueleafs": [int(last[i]) for _, i in both], "nodes_falseleafs": [int(last[i]) for _, i in both],
            "leaf_targetids": [int(v) for v in RNG.integers(0, targets, leaves * count)],
            "leaf_weights": RNG.standard_normal(leaves * count).astype(np.float32)}


def ml(name, label, inputs, version=3, **rest):
    return Case(name, label, inputs, domain=ML, version=version, opset=15, **rest)


def floats(*shape):
    return [float(v) for v in f(*shape).ravel()]


def learned():
    for rows in (1, 1000):
        x = f(rows, 32)
        yield ml("TreeEnsembleRegressor", f"{rows}x32 trees 100 depth 6", [x], n_targets=1, **trees(100, 6, 32, 1, "target"))
        yield ml("TreeEnsembleClassifier", f"{rows}x32 trees 100 depth 6", [x], outputs=2, classlabels_int64s=[0, 1, 2],
                 post_transform="SOFTMAX", **trees(100, 6, 32, 3, "class"))
        yield ml("TreeEnsemble", f"{rows}x32 trees 100 depth 6", [x], version=5, **forest(100, 6, 32, 1))
        yield ml("LinearRegressor", f"{rows}x32 to 4", [x], coefficients=floats(4, 32), intercepts=floats(4), targets=4)
        yield ml("LinearClassifier", f"{rows}x32 to 4", [x], outputs=2, coefficients=floats(4, 32), intercepts=floats(4),
                 classlabels_ints=[0, 1, 2, 3], post_transform="SOFTMAX")
        yield ml("SVMRegressor", f"{rows}x32 vectors 100", [x], kernel_type="RBF", kernel_params=[.1, 0.0, 3.0],
                 support_vectors=floats(100, 32), coefficients=floats(100), rho=[.5], n_supports=100)
        yield ml("SVMClassifier", f"{rows}x32 vectors 100", [x], outputs=2, kernel_type="RBF", kernel_params=[.1, 0.0, 3.0],
                 support_vectors=floats(100, 32), coefficients=floats(2, 100), rho=[.5, .1, .2], vectors_per_class=[30, 30, 40],
                 classlabels_ints=[0, 1, 2])
        yield ml("Scaler", f"{rows}x32", [x], offset=floats(32), scale=floats(32))
        for norm in ("MAX", "L1", "L2"):
            yield ml("Normalizer", f"{norm} {rows}x32", [x], norm=norm)
        yield ml("Binarizer", f"{rows}x32", [x], threshold=.5)
        yield ml("Imputer", f"{rows}x32", [np.where(x > 1, np.float32("nan"), x)], imputed_value_floats=floats(32), replaced_value_float=float("nan"))
        yield ml("FeatureVectorizer", f"{rows}x32 and {rows}x16", [x, f(rows, 16)], inputdimensions=[32, 16])
        yield ml("ArrayFeatureExtractor", f"{rows}x32 of 8", [x, c(i64(*range(0, 32, 4)))])
        labels = ints(np.int64, 0, 10, rows)
        yield ml("OneHotEncoder", f"{rows} of 10", [labels], cats_int64s=list(range(10)))
        yield ml("LabelEncoder", f"{rows} int64 to float", [labels], keys_int64s=list(range(10)), values_floats=floats(10))
        spoken = WORDS[RNG.integers(0, len(WORDS), rows)]
        known = [str(w) for w in WORDS]
        yield ml("LabelEncoder", f"{rows} texts to int64", [spoken], keys_strings=known, values_int64s=list(range(len(known))))
        yield ml("CategoryMapper", f"{rows} texts to int64", [spoken], cats_strings=known, cats_int64s=list(range(len(known))))
        yield ml("ZipMap", f"{rows}x4, one taken", [f(rows, 4)], then=("SequenceAt", [ci(0)]), classlabels_int64s=[0, 1, 2, 3])
    rows = Inner("ZipMap", [f(100, 4)], domain=ML, classlabels_int64s=[0, 1, 2, 3])
    first = Inner("SequenceAt", [rows, ci(0)])
    yield ml("CastMap", "of 4", [first], cast_to="TO_FLOAT")
    yield ml("DictVectorizer", "of 4", [first], int64_vocabulary=[3, 1, 0, 2])


def contrib_plain():
    x = f(*FEATURES)
    yield Case("BiasAdd", "2x4096x320", [f(2, 4096, 320), c(f(320)), f(2, 4096, 320)], domain=MS)
    yield Case("BiasSplitGelu", "2x1024x1280", [f(2, 1024, 1280), c(f(1280))], domain=MS)
    yield Case("CDist", "100x32 and 100x32", [f(100, 32), f(100, 32)], domain=MS, metric="sqeuclidean")
    yield Case("CDist", "root 1000x64 and 100x64", [f(1000, 64), f(100, 64)], domain=MS, metric="euclidean")
    yield Case("CDist", "double 100x32 and 100x32", [d(100, 32), d(100, 32)], domain=MS, metric="euclidean")
    yield Case("ExpandDims", text(FEATURES), [x, c(scalar(1, np.int32))], domain=MS)
    yield Case("GatherND", "microsoft 100x200x16 points 1000", [f(100, 200, 16), ints(np.int64, 0, 100, 1000, 2)], domain=MS)
    grid = RNG.uniform(-1, 1, (1, 56, 56, 2)).astype(np.float32)
    yield Case("GridSample", "microsoft bilinear 1x64x56x56", [x, grid], domain=MS, mode="bilinear", padding_mode="zeros")
    wide = f(1, 56, 56, 64)
    yield Case("GroupNorm", "1x56x56x64", [wide, c(f(64)), c(f(64))], domain=MS, groups=32, activation=1)
    yield Case("SkipGroupNorm", "1x56x56x64", [wide, c(f(64)), c(f(64)), wide], domain=MS, groups=32, activation=1)
    yield Case("Inverse", "64x8x8", [f(64, 8, 8)], domain=MS)
    yield Case("Inverse", "1x64x64", [f(1, 64, 64)], domain=MS)
    yield Case("Pad", "microsoft 1x64x56x56 by 1", [x, ci(0, 0, 1, 1, 0, 0, 1, 1)], domain=MS)
    yield Case("RelativePositionBias", "12 of 128x128", [c(f(32, 12)), c(i64(128)), c(i64(128))], domain=MS, max_distance=128)
    yield Case("SimplifiedLayerNormalization", "microsoft 1x128x768", [f(1, 128, 768), c(f(768))], domain=MS, axis=-1)
    yield Case("Trilu", "microsoft 12x512x512", [f(12, 512, 512)], domain=MS)


def contrib_quantized():
    q = ints(np.uint8, 0, 255, *FEATURES)
    scale, zero = c(scalar(.05)), c(scalar(128, np.uint8))
    last = ints(np.uint8, 0, 255, 1, 28, 28, 64)
    for shape, more in (((64, 64, 3, 3), {"pads": [1] * 4}), ((128, 64, 1, 1), {}), ((64, 1, 3, 3), {"pads": [1] * 4, "group": 64})):
        yield Case("QLinearConv", f"microsoft 1x28x28x64 by {text(shape)}",
                   [last, scale, zero, c(ints(np.int8, -99, 99, *shape)), scale, c(scalar(0, np.int8)), c(scalar(9)), zero], domain=MS,
                   channels_last=1, **more)
    yield Case("QLinearReduceMean", f"{text(FEATURES)} axes 2x3", [q, scale, zero, scale, zero], domain=MS, axes=[2, 3], keepdims=1)
    yield Case("QLinearWhere", text(FEATURES), [RNG.integers(0, 2, FEATURES).astype(bool), q, scale, zero, ints(np.uint8, 0, 255, *FEATURES),
                                               scale, zero, scale, zero], domain=MS)
    table = c(ints(np.uint8, 0, 255, 1000, 256))
    yield Case("QEmbedLayerNormalization", "1x128 of 256",
               [ints(np.int32, 0, 1000, 1, 128), ints(np.int32, 0, 2, 1, 128), table, c(ints(np.uint8, 0, 255, 512, 256)),
                c(ints(np.uint8, 0, 255, 2, 256)), c(ints(np.uint8, 0, 255, 256)), c(ints(np.uint8, 0, 255, 256)), None,
                *[c(scalar(.01))] * 5, *[zero] * 5], domain=MS, outputs=2)
    for bits, m in ((4, 1), (4, 64), (8, 1), (8, 64)):
        k, n, size = 768, 768, 32
        weight = c(ints(np.uint8, 0, 255, n, k // size, size * bits // 8))
        yield Case("MatMulNBits", f"{bits} bits {m}x{k}x{n}", [f(m, k), weight, c(f(n * k // size, scale=.01))], domain=MS, K=k, N=n,
                   bits=bits, block_size=size)
        yield Case("MatMulNBits", f"{bits} bits to bytes {m}x{k}x{n}", [f(m, k), weight, c(f(n * k // size, scale=.01))], domain=MS, K=k,
                   N=n, bits=bits, block_size=size, accuracy_level=4)
    for kind in (0, 1):
        for m in (1, 64):
            yield Case("MatMulBnb4", f"{'NF4' if kind else 'FP4'} {m}x768x768",
                       [f(m, 768), c(ints(np.uint8, 0, 255, 768 * 384)), c(np.abs(f(768 * 768 // 64)))], domain=MS, K=768, N=768,
                       block_size=64, quant_type=kind)
    for bits in (4, 8):
        yield Case("GatherBlockQuantized", f"{bits} bits 1000x256 rows 128",
                   [c(ints(np.uint8, 0, 255, 1000, 256 * bits // 8)), ints(np.int64, 0, 1000, 128), c(f(1000, 8))], domain=MS, bits=bits,
                   block_size=32, gather_axis=0, quantize_axis=1)


def experts():
    for rows in (1, 32):
        x, logits = f(rows, 128), f(rows, 4)
        yield Case("MoE", f"{rows}x128 two of four experts of 256", [x, logits, c(f(4, 256, 128, scale=.1)), c(f(4, 256)),
                                                                     c(f(4, 128, 256, scale=.1)), c(f(4, 128))],
                   domain=MS, k=2, activation_type="gelu")
        for bits in (4, 8):
            yield Case("QMoE", f"{bits} bits {rows}x128 two of four experts of 256",
                       [x, logits, c(ints(np.uint8, 0, 255, 4, 256, 128 * bits // 8)), c(np.abs(f(4, 256, scale=.01))), None,
                        c(ints(np.uint8, 0, 255, 4, 128, 256 * bits // 8)), c(np.abs(f(4, 128, scale=.01))), None],
                       domain=MS, k=2, activation_type="gelu", expert_weight_bits=bits)


def around():
    x = f(1, 3, 224, 224)
    for name, attributes in (("Affine", {"alpha": .5, "beta": 1.}), ("Scale", {"scale": .5}), ("ScaledTanh", {"alpha": 2., "beta": .5}),
                             ("ParametricSoftplus", {"alpha": 2., "beta": .5}), ("ImageScaler", {"scale": .5, "bias": [1., 2., 3.]}),
                             ("Crop", {"border": [8, 8, 8, 8]})):
        yield Case(name, "1x3x224x224", [x], opset=9, **attributes)
    yield Case("DynamicSlice", "1x64x56x56 to 1x64x28x28", [f(*FEATURES), ci(0, 0), ci(28, 28), ci(2, 3)], opset=9)
    boxes = np.random.default_rng(3).uniform(0, 1, (32, 4)).astype(np.float32)
    for mode in ("bilinear", "nearest"):
        yield Case("CropAndResize", f"{mode} 32 of 1x64x56x56", [f(1, 64, 56, 56), boxes, c(np.zeros(32, np.int32)),
                                                                 c(np.array([14, 14], np.int32))], domain=MS, mode=mode)
    yield Case("NhwcMaxPool", "1x112x112x64 by 3x3", [ints(np.uint8, 0, 255, 1, 112, 112, 64)], domain=MS, kernel_shape=[3, 3],
               strides=[2, 2], pads=[1] * 4)
    yield Case("NGramRepeatBlock", "4x200, 32000", [ints(np.int64, 0, 100, 4, 200), f(4, 32000)], domain=MS, ngram_size=3)
    yield Case("UnfoldTensor", "6x100x1500 by 7", [f(6, 100, 1500)], domain=MS, dim=-1, size=7, step=1)
    yield Case("DynamicTimeWarping", "100x1500", [f(1, 100, 1500)], domain=MS)
    yield Case("MurmurHash3", "100000", [ints(np.int32, 0, 99999, 100000)], domain=MS)
    yield Case("Unique", "microsoft 10000", [ints(np.int64, 0, 500, 10000).astype(np.float32)], domain=MS, outputs=3)
    yield Case("Range", "microsoft 10000", [c(np.float32(0)), c(np.float32(10000))], domain=MS)


def decoders():
    """What is made of text, and attention of one new token."""
    lines = np.array([" ".join(WORDS[RNG.integers(0, len(WORDS), 12)]) for _ in range(200)])
    common = dict(domain=MS, mark=0, pad_value="", mincharnum=1, then=("Shape", []))
    yield Case("Tokenizer", "200 lines at spaces", [lines], separators=[" "], **common)
    yield Case("Tokenizer", "200 lines, words", [lines], tokenexp="[a-zA-Z0-9_]+", **common)
    yield Case("Tokenizer", "200 lines, words of two letters", [lines], tokenexp="\\b[a-zA-Z_][a-zA-Z_]+\\b", **common)
    yield Case("Tokenizer", "200 lines, characters", [lines], separators=[""], **common)
    for m, k, n in ((1, 768, 768), (64, 768, 768)):
        yield Case("MatMulInteger16", f"{m}x{k}x{n}", [ints(np.int16, -99, 99, m, k), ints(np.int16, -99, 99, k, n)], domain=MS)
    source = ints(np.int64, 0, 9, 2000)
    yield Case("BifurcationDetector", "2000", [source, source[:10].copy(), i64(10), np.append(source[10:], 3)], domain=MS, outputs=2,
               min_ngram_size=1, max_ngram_size=4)
    yield Case("MaxpoolWithMask", "1x64x56x56 by 3x3", [f(*FEATURES), np.ones((1, 1, 56, 56), np.int32)], domain=MS, kernel_shape=[3, 3],
               strides=[2, 2], pads=[1] * 4)
    yield Case("ConvTransposeWithDynamicPads", "1x64x28x28 by 64x32x4x4", [f(1, 64, 28, 28), c(f(64, 32, 4, 4)), ci(1, 1, 1, 1), c(f(32))],
               domain=MS, strides=[2, 2], kernel_shape=[4, 4], output_padding=[0, 0], dilations=[1, 1])
    yield Case("WordConvEmbedding", "128 words of 16", [ints(np.int32, 1, 100, 128, 16), c(f(100, 1, 3, 16)), c(f(100)), c(f(100, 16))], domain=MS)
    for batch, room in ((1, 448), (4, 1500)):
        heads, width, past = 8, 64, room - 20
        rows = [f(batch, 1, heads * width) for _ in range(3)]
        cache = [f(batch, heads, room, width) for _ in range(2)]
        yield Case("DecoderMaskedMultiHeadAttention", f"{batch}x512 of 8 after {past}", [*rows, None, None, *cache, c(np.array([past], np.int32))],
                   domain=MS, outputs=3, num_heads=heads, past_present_share_buffer=1)
        came = ints(np.int32, 0, batch, 1, batch, room)
        yield Case("DecoderMaskedMultiHeadAttention", f"{batch}x512 of 8 after {past}, beams",
                   [*rows, None, None, *cache, c(np.array([past], np.int32)), c(np.array([batch], np.int32)), came],
                   domain=MS, outputs=3, num_heads=heads, past_present_share_buffer=1)
        yield Case("DecoderMaskedMultiHeadAttention", f"{batch}x512 of 8 over {room}", [rows[0], *cache], domain=MS, num_heads=heads)
    for rows in (1, 128):
        yield Case("CausalConvWithState", f"channels last 1x{rows}x2048 by 4", [f(1, rows, 2048), c(f(2048, 1, 4)), c(f(2048)), f(1, 3, 2048)], domain=MS,
                   outputs=2, activation="silu", channels_last=1)
        wide = [f(1, rows, 4096) for _ in range(2)]
        yield Case("GatedAdd", f"1x{rows}x4096", [*wide, f(1, rows, 1)], domain=MS)
        yield Case("GatedRMSNorm", f"1x{rows}x4096 by 128", [wide[0], c(f(128)), wide[1]], domain=MS)
        yield Case("LinearAttentionGate", f"1x{rows}x32", [f(1, rows, 32), c(f(32)), c(f(32)), f(1, rows, 32)], domain=MS, outputs=2)
        yield Case("MRotaryEmbedding", f"1x{rows}x2048 of 16", [f(1, rows, 2048), ints(np.int64, 0, 999, 3, 1, rows), c(f(1000, 64)), c(f(1000, 64))],
                   domain=MS, num_heads=16, mrope_section=[24, 20, 20])
        yield Case("NGramHashMapping", f"1x{rows} up to 3, 8 heads", [ints(np.int64, 0, 999, 1, rows), c(ints(np.int64, 1, 2**40, 3)),
                                                                      c(ints(np.int64, 1000, 9999, 16))],
                   domain=MS, outputs=2, max_ngram_size=3, n_head_per_ngram=8, pad_id=0)
    for rows in (1, 512):
        kept = np.tril(np.eye(8, dtype=bool) | np.eye(8, k=-1, dtype=bool) | (np.arange(8) % 4 == 0))
        table, columns = np.append(0, np.cumsum(kept.sum(1)))[None], np.nonzero(kept)[1][None]
        yield Case("SparseAttention", f"1x{rows}x512 of 8, blocks of 64", [f(1, rows, 512), f(1, rows, 256), f(1, rows, 256), f(1, 4, 512, 64), f(1, 4, 512, 64),
                                                                   c(table.astype(np.int32)), c(columns.astype(np.int32)), np.array([512], np.int32),
                                                                   np.array([512], np.int32)],
                   domain=MS, outputs=3, num_heads=8, kv_num_heads=4, sparse_block_size=64)


FAMILIES = (sequence, control, words, random, newer, learned, contrib_plain, contrib_quantized, experts, around, decoders)


def cases():
    for family in FAMILIES:
        yield from family()
