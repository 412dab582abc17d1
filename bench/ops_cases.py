"""ops_cases.py -- the cases of bench/ops.py: models of one node, several shapes and types per operator."""
import pathlib
import struct
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "tools"))

from pbwire import block, number, put_varint  # noqa: E402

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
         "float16": 10, "float64": 11, "uint32": 12, "uint64": 13}
STRING = 8
RNG = np.random.default_rng(7)
MS = "com.microsoft"


def real(field, value):
    return put_varint(field << 3 | 5) + struct.pack("<f", value)


def attribute(name, value):
    """A number, a text, bytes (a graph), an array (a tensor), or a list of numbers or texts."""
    out = block(1, name)
    if isinstance(value, float):
        return out + real(2, value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return out + block(4, value) + number(20, 3)
    if isinstance(value, bytes):
        return out + block(6, value) + number(20, 5)
    if isinstance(value, np.ndarray):
        return out + block(5, tensor("", value)) + number(20, 4)
    if isinstance(value[0], float):
        return out + b"".join(real(7, v) for v in value) + number(20, 6)
    if isinstance(value[0], str):
        return out + b"".join(block(9, v) for v in value) + number(20, 8)
    return out + b"".join(number(8, v) for v in value) + number(20, 7)


def kind(array):
    return STRING if array.dtype.kind == "U" else TYPES[str(array.dtype)]


def tensor(name, array):
    dims = b"".join(number(1, d) for d in array.shape)
    content = b"".join(block(6, str(v)) for v in array.ravel()) if kind(array) == STRING else block(9, array.tobytes())
    return dims + number(2, kind(array)) + block(8, name) + content


def value_info(name, array):
    shape = b"".join(block(1, number(1, d)) for d in array.shape)
    return block(1, name) + block(2, block(1, number(1, kind(array)) + block(2, shape)))


class Const:
    """An input that is part of the model."""

    def __init__(self, array):
        self.array = array


class Inner:
    """A node whose first output is an input of another; inputs as those of Case."""

    def __init__(self, operator, inputs, domain="", outputs=1, **attributes):
        self.operator, self.domain, self.inputs = operator, domain, inputs
        self.outputs, self.attributes = outputs, attributes


class Case:
    """inputs: arrays, which are given when it is run, Const, Inner, or None for one that is left out.
    captured: arrays that only bodies use: an attribute that is a function gets their names and gives the body.
    then: (operator, more inputs[, attributes]) of a node, or a list of nodes, through which the first output goes: an
    operator's whose own output is no tensor. opset: the version of ai.onnx, version: that of another domain.
    chance: results are random. more: attributes whose names are taken here."""

    def __init__(self, operator, label, inputs, domain="", opset=17, outputs=1, version=1, then=(), captured=(), chance=False,
                 more=None, **attributes):
        attributes.update(more or {})
        self.operator, self.label, self.domain, self.opset, self.version = operator, label, domain, opset, version
        self.inputs, self.outputs, self.attributes, self.captured, self.chance = inputs, outputs, attributes, captured, chance
        self.node = Inner(operator, inputs, domain, outputs, **attributes)
        for operator_, more, *rest in [then] if isinstance(then, tuple) and then else then:
            self.node = Inner(operator_, [self.node, *more], **(rest[0] if rest else {}))


def walk(inner, at):
    """(node, its name) of a node and those before it, first ones first."""
    for i, x in enumerate(inner.inputs):
        if isinstance(x, Inner):
            yield from walk(x, f"{at}_{i}")
    yield inner, at


def named_inputs(case, k):
    """(name, array or Const) of all inputs of the k-th case."""
    for inner, at in walk(case.node, str(k)):
        for i, x in enumerate(inner.inputs):
            if isinstance(x, (np.ndarray, np.generic, Const)):
                yield f"x{at}_{i}", x
    for i, x in enumerate(case.captured):
        yield f"z{k}_{i}", x


def given(cases_):
    """(name, array) of the inputs of a model of these."""
    return [(name, x) for k, case in enumerate(cases_) for name, x in named_inputs(case, k) if isinstance(x, np.ndarray)]


def node(inner, at, captured):
    names = ["" if x is None else f"y{at}_{i}_0" if isinstance(x, Inner) else f"x{at}_{i}" for i, x in enumerate(inner.inputs)]
    out = b"".join(block(1, i) for i in names) + b"".join(block(2, f"y{at}_{i}") for i in range(inner.outputs))
    out += block(3, f"node{at}") + block(4, inner.operator) + block(7, inner.domain)
    attributes = {n: v(captured) if callable(v) else v for n, v in inner.attributes.items()}
    return out + b"".join(block(5, attribute(n, v)) for n, v in attributes.items())


def model(cases_):
    """A model with a node for each, of the first one's version; outputs are y0_0, y0_1, ... y1_0, ..."""
    nodes = values = weights = b""
    domains = {}
    for k, case in enumerate(cases_):
        captured = [f"z{k}_{i}" for i in range(len(case.captured))]
        for inner, at in walk(case.node, str(k)):
            nodes += block(1, node(inner, at, captured))
            domains[inner.domain] = case.version
        for name, x in named_inputs(case, k):
            if isinstance(x, Const):
                weights += block(5, tensor(name, x.array))
            else:
                values += block(11, value_info(name, x))
        values += b"".join(block(12, block(1, f"y{k}_{i}")) for i in range(case.node.outputs))
    graph = nodes + block(2, "cases") + weights + values
    out = number(1, 8) + block(7, graph) + block(8, block(1, "") + number(2, cases_[0].opset))
    domains.pop("", None)
    return out + b"".join(block(8, block(1, domain) + number(2, version)) for domain, version in domains.items())


def f(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def d(*shape):
    return RNG.standard_normal(shape)


def ints(kind, low, high, *shape):
    return RNG.integers(low, high, shape).astype(kind)


def bits(*shape):
    return RNG.integers(0, 2, shape).astype(bool)


def i64(*values):
    return np.array(values, np.int64)


def c(array):
    return Const(array)


def ci(*values):
    return Const(i64(*values))


def text(shape):
    return "x".join(map(str, shape))


FEATURES = (1, 64, 56, 56)
SMALL = (1, 1000)
UNARY = """Abs Acos Asin Atan Asinh Acosh Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish LeakyRelu Log
Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu
IsNaN IsInf""".split()
# What ONNX Runtime has in double, too.
UNARY_DOUBLE = """Abs Ceil Cos Exp Floor Log Neg Reciprocal Relu Round Sigmoid Sign Sin Sqrt Tanh""".split()
UNARY_INT = "Abs Neg Sign".split()


def unary():
    for name in UNARY:
        low, high = {"Acosh": (1.1, 5), "Acos": (-.9, .9), "Asin": (-.9, .9), "Atanh": (-.9, .9), "Log": (.1, 9),
                     "Sqrt": (0, 9)}.get(name, (-3, 3))
        opset = 18 if name == "Mish" else 17
        for shape in (FEATURES, SMALL):
            yield Case(name, text(shape), [RNG.uniform(low, high, shape).astype(np.float32)], opset=opset)
        if name in UNARY_DOUBLE:
            yield Case(name, f"double {text(FEATURES)}", [RNG.uniform(low, high, FEATURES)])
        if name in UNARY_INT:
            yield Case(name, f"int64 {text(FEATURES)}", [ints(np.int64, -9, 9, *FEATURES)])
            yield Case(name, f"int32 {text(FEATURES)}", [ints(np.int32, -9, 9, *FEATURES)])
    x = f(*FEATURES)
    yield Case("Gelu", text(FEATURES), [x], opset=20)
    yield Case("Gelu", f"tanh {text(FEATURES)}", [x], opset=20, approximate="tanh")
    yield Case("Gelu", f"microsoft {text(FEATURES)}", [x], domain=MS)
    yield Case("QuickGelu", text(FEATURES), [x], domain=MS)
    yield Case("FastGelu", text((128, 1024)), [f(128, 1024), c(f(1024))], domain=MS)
    yield Case("BiasGelu", text((128, 1024)), [f(128, 1024), c(f(1024))], domain=MS)
    yield Case("Swish", text(FEATURES), [x], opset=24)
    yield Case("Not", text(FEATURES), [bits(*FEATURES)])
    yield Case("BitwiseNot", f"int32 {text(FEATURES)}", [ints(np.int32, 0, 99, *FEATURES)], opset=18)
    yield Case("Clip", text(FEATURES), [x, c(np.float32(-1)), c(np.float32(1))])
    yield Case("Clip", f"double {text(FEATURES)}", [d(*FEATURES), c(np.float64(-1)), c(np.float64(1))])
    yield Case("Clip", f"int64 {text(FEATURES)}", [ints(np.int64, -9, 9, *FEATURES), c(np.int64(-3)), c(np.int64(3))])
    yield Case("Identity", text(FEATURES), [x])
    yield Case("Dropout", text(FEATURES), [x])
    kinds = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, np.bool_, np.float16]
    for a, b in ((0, 1), (1, 0), (0, 3), (3, 0), (0, 2), (2, 0), (0, 4), (4, 0), (0, 6), (6, 0), (3, 2), (2, 3),
                 (3, 6), (6, 3), (0, 7), (7, 0), (0, 5), (4, 2)):
        source = RNG.uniform(0, 100, FEATURES).astype(kinds[a])
        to = np.dtype(kinds[b]).name
        yield Case("Cast", f"{np.dtype(kinds[a]).name} to {to} {text(FEATURES)}", [source], to=TYPES[to])
    yield Case("CastLike", f"int64 to float {text(FEATURES)}", [ints(np.int64, 0, 99, *FEATURES), f(1)])


BROADCAST = [((1, 64, 56, 56), (1, 64, 56, 56)), ((1, 64, 56, 56), (1, 64, 1, 1)), ((1, 64, 56, 56), (1,)),
             ((128, 768), (768,)), ((128, 768), (128, 1)), ((1, 1, 56, 56), (1, 64, 56, 56)), ((12, 1, 64), (1, 48, 64)),
             ((8, 16, 1, 32), (1, 16, 32, 1)), ((1, 1000), (1, 1000))]


def binary():
    for a, b in BROADCAST:
        label = f"{text(a)}, {text(b)}"
        for name in ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min", "Sum", "Mean", "Less", "Greater",
                     "Equal", "LessOrEqual", "GreaterOrEqual"):
            if name == "PRelu" and np.broadcast_shapes(a, b) != a:
                continue
            yield Case(name, label, [np.abs(f(*a)) if name == "Pow" else f(*a), f(*b)])
        yield Case("Mod", label, [f(*a), f(*b) + 3], fmod=1)
        for name in ("And", "Or", "Xor"):
            yield Case(name, label, [bits(*a), bits(*b)])
        yield Case("Where", label, [bits(*b), f(*a), f(*b)])
        yield Case("Where", f"int64 {label}", [bits(*a), ints(np.int64, 0, 9, *a), ints(np.int64, 0, 9, *b)])
        yield Case("Where", f"scalar {label}", [bits(*b), f(*a), c(np.float32(-1e9))])
        for kind in (np.int64, np.int32, np.float64):
            kind_name = np.dtype(kind).name
            x, y = RNG.integers(1, 9, a).astype(kind), RNG.integers(1, 9, b).astype(kind)
            for name in ("Add", "Mul", "Div", "Equal", "Less", "Max", "Mod", "Pow"):
                if (name, kind) == ("Mod", np.float64):
                    continue
                yield Case(name, f"{kind_name} {label}", [x, y])
        yield Case("BitwiseAnd", f"int32 {label}", [ints(np.int32, 0, 99, *a), ints(np.int32, 0, 99, *b)], opset=18)
    for name in ("BitwiseOr", "BitwiseXor"):
        yield Case(name, f"int32 {text(FEATURES)}", [ints(np.int32, 0, 99, *FEATURES)] * 2, opset=18)
    yield Case("BitShift", text(FEATURES), [ints(np.uint32, 0, 99, *FEATURES), ints(np.uint32, 0, 9, *FEATURES)],
               direction="LEFT")
    yield Case("Pow", f"square {text(FEATURES)}", [f(*FEATURES), c(np.float32(2))])
    yield Case("Pow", f"root {text(FEATURES)}", [np.abs(f(*FEATURES)), c(np.float32(.5))])
    yield Case("Sum", "three of 1x64x56x56", [f(*FEATURES) for _ in range(3)])


def move():
    x = f(*FEATURES)
    for shape, perm in (((1, 64, 56, 56), [0, 2, 3, 1]), ((1, 56, 56, 64), [0, 3, 1, 2]), ((1, 128, 12, 64), [0, 2, 1, 3]),
                        ((512, 768), [1, 0]), ((8, 16, 3, 20, 20), [0, 1, 3, 4, 2]), ((1, 12, 128, 64), [0, 1, 3, 2]),
                        ((4, 5, 6, 7, 8, 9), [5, 4, 3, 2, 1, 0]), ((1000, 3), [1, 0])):
        yield Case("Transpose", f"{text(shape)} by {text(perm)}", [f(*shape)], perm=perm)
    yield Case("Transpose", "int8 512x768", [ints(np.int8, -9, 9, 512, 768)], perm=[1, 0])
    yield Case("Transpose", "int64 512x768", [ints(np.int64, -9, 9, 512, 768)], perm=[1, 0])
    for a, to in (((1, 64, 1, 1), FEATURES), ((128, 1), (128, 768)), ((1, 768), (128, 768)), ((1, 1, 1), (64, 64, 64))):
        yield Case("Expand", f"{text(a)} to {text(to)}", [f(*a), ci(*to)])
    yield Case("Tile", "1x64x56x56 by 1x1x2x2", [x, ci(1, 1, 2, 2)])
    yield Case("Tile", "128x1 by 1x768", [f(128, 1), ci(1, 768)])
    yield Case("Tile", "1x768 by 128x1", [f(1, 768), ci(128, 1)])
    for begin, end, axes, steps in (((0,), (32,), (1,), (1,)), ((1, 1), (55, 55), (2, 3), (1, 1)),
                                    ((0, 0), (56, 56), (2, 3), (2, 2)), ((55,), (-99,), (3,), (-1,)),
                                    ((8,), (40,), (3,), (1,))):
        yield Case("Slice", f"1x64x56x56 axes {text(axes)} steps {text(steps)}",
                   [x, ci(*begin), ci(*end), ci(*axes), ci(*steps)])
    for axis in (1, 3):
        yield Case("Split", f"1x64x56x56 axis {axis}", [x, ci(*[x.shape[axis] // 2] * 2)], outputs=2, axis=axis)
        yield Case("Concat", f"1x64x56x56 twice axis {axis}", [x, f(*FEATURES)], axis=axis)
    yield Case("Concat", "8x100x1 eight times axis 2", [f(8, 100, 1) for _ in range(8)], axis=2)
    yield Case("DepthToSpace", "1x64x56x56", [x], blocksize=2)
    yield Case("DepthToSpace", "CRD 1x64x56x56", [x], blocksize=2, mode="CRD")
    yield Case("SpaceToDepth", "1x64x56x56", [x], blocksize=2)
    for mode in ("constant", "edge", "reflect"):
        yield Case("Pad", f"{mode} 1x64x56x56 by 1", [x, ci(0, 0, 1, 1, 0, 0, 1, 1)], mode=mode)
    yield Case("Pad", "constant 1x16000 by 200", [f(1, 16000), ci(0, 200, 0, 200)])
    yield Case("Reshape", "1x64x56x56", [x, ci(64, -1)])
    yield Case("Flatten", "1x64x56x56", [x])
    yield Case("Squeeze", "1x64x56x56", [x, ci(0)])
    yield Case("Unsqueeze", "1x64x56x56", [x, ci(0)])
    yield Case("Shape", "1x64x56x56", [x])
    yield Case("Size", "1x64x56x56", [x])
    yield Case("ConstantOfShape", "1x64x56x56", [i64(*FEATURES)], value=np.zeros(1, np.float32))
    yield Case("Range", "10000 int64", [np.int64(0).reshape(()), np.int64(10000).reshape(()), np.int64(1).reshape(())])
    yield Case("Trilu", "12x512x512", [f(12, 512, 512)])
    yield Case("EyeLike", "512x512", [f(512, 512)])
    yield Case("ReverseSequence", "64x16x128", [f(64, 16, 128), ints(np.int64, 1, 64, 16)])
    yield Case("CenterCropPad", "3x256x256 to 224x224", [f(3, 256, 256), ci(224, 224)], opset=18, axes=[1, 2])
    yield Case("Col2Im", "1x576x3136", [f(1, 576, 3136), ci(56, 56), ci(3, 3)], opset=18, pads=[1, 1, 1, 1])


def gather():
    table, words = f(30000, 256), ints(np.int64, 0, 30000, 1, 128)
    yield Case("Gather", "30000x256 rows 128", [c(table), words])
    yield Case("Gather", "64x56x56 axis 2 of 56", [f(64, 56, 56), ints(np.int64, 0, 56, 56)], axis=2)
    yield Case("Gather", "1000x4 axis 0 of 300", [f(1000, 4), ints(np.int64, 0, 1000, 300)])
    yield Case("Gather", "int64 1000 of 300", [ints(np.int64, 0, 9, 1000), ints(np.int64, 0, 1000, 300)])
    yield Case("GatherElements", "1000x64 axis 0", [f(1000, 64), ints(np.int64, 0, 1000, 300, 64)], axis=0)
    yield Case("GatherElements", "64x1000 axis 1", [f(64, 1000), ints(np.int64, 0, 1000, 64, 300)], axis=1)
    yield Case("GatherElements", "1x8400x4 axis 1", [f(1, 8400, 4), ints(np.int64, 0, 8400, 1, 300, 4)], axis=1)
    yield Case("GatherND", "100x200x16 points 1000", [f(100, 200, 16), ints(np.int64, 0, 100, 1000, 2)])
    yield Case("GatherND", "100x200 points 5000", [f(100, 200), ints(np.int64, 0, 100, 5000, 2)])
    rows = np.stack([RNG.permutation(1000) for _ in range(64)])[:, :300].astype(np.int64)
    yield Case("ScatterElements", "64x1000 axis 1", [f(64, 1000), rows, f(64, 300)], axis=1)
    yield Case("ScatterElements", "1000x64 axis 0", [f(1000, 64), np.ascontiguousarray(rows.T), f(300, 64)], axis=0)
    yield Case("ScatterElements", "add 64x1000 axis 1", [f(64, 1000), rows, f(64, 300)], axis=1, reduction="add")
    yield Case("Scatter", "64x1000 axis 1", [f(64, 1000), rows, f(64, 300)], opset=10, axis=1)
    points = np.stack(np.unravel_index(RNG.permutation(20000)[:5000], (100, 200)), -1).astype(np.int64)
    yield Case("ScatterND", "100x200 points 5000", [f(100, 200), points, f(5000)])
    yield Case("ScatterND", "100x200x16 points 5000", [f(100, 200, 16), points, f(5000, 16)])
    yield Case("ScatterND", "1000x256 rows 100", [f(1000, 256), RNG.permutation(1000)[:100, None].astype(np.int64),
                                                  f(100, 256)])
    yield Case("ScatterND", "add 100x200x16", [f(100, 200, 16), points, f(5000, 16)], reduction="add")
    yield Case("OneHot", "1000 of 100", [ints(np.int64, 0, 100, 1000), ci(100), c(np.array([0, 1], np.float32))])
    yield Case("NonZero", "64x1000", [bits(64, 1000)])
    yield Case("NonZero", "float 64x1000", [f(64, 1000)])
    yield Case("Compress", "1000x64 axis 0", [f(1000, 64), bits(1000)], axis=0)
    yield Case("Unique", "int64 10000", [ints(np.int64, 0, 500, 10000)], outputs=4)
    yield Case("Unique", "unsorted float 1000", [ints(np.int64, 0, 99, 1000).astype(np.float32)], outputs=4, sorted=0)
    yield Case("TensorScatter", "1x8x512x64", [f(1, 8, 512, 64), f(1, 8, 4, 64), i64(17)], opset=24)
    for shape, k in (((1, 1000), 5), ((1, 30000), 50), ((8, 4096), 100), ((1, 8400), 300), ((64, 128), 8), ((1, 50257), 1),
                     ((16, 1000), 1000)):
        yield Case("TopK", f"{text(shape)} {k}", [f(*shape), ci(k)], outputs=2)
    yield Case("TopK", "smallest unsorted 8x4096 100", [f(8, 4096), ci(100)], outputs=2, largest=0, sorted=0)
    yield Case("TopK", "axis 1 of 4x512x64 10", [f(4, 512, 64), ci(10)], outputs=2, axis=1)
    yield Case("TopK", "int64 8x4096 100", [ints(np.int64, 0, 99999, 8, 4096), ci(100)], outputs=2)
    yield Case("TopK", "double 8x4096 100", [d(8, 4096), ci(100)], outputs=2)
    centre, size = RNG.uniform(0, 640, (1, 1000, 2)), RNG.uniform(8, 90, (1, 1000, 2))
    boxes = np.concatenate([centre - size / 2, centre + size / 2], 2).astype(np.float32)
    scores = RNG.uniform(0, 1, (1, 8, 1000)).astype(np.float32)
    yield Case("NonMaxSuppression", "1000 boxes 8 classes", [boxes, scores, ci(100), c(np.array([.5], np.float32)),
                                                             c(np.array([.3], np.float32))])


REDUCE = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp \
ReduceSumSquare".split()


def reduce():
    for name in REDUCE:
        for shape, axes in (((1, 64, 56, 56), [2, 3]), ((1, 64, 56, 56), [1]), ((128, 768), [1]), ((128, 768), [0]),
                            ((8, 16, 32, 32), [0, 2]), ((64, 1000), None), ((1000, 3), [1])):
            x = np.abs(f(*shape)) * .01 + 1
            label = f"{text(shape)} axes {'all' if axes is None else text(axes)}"
            yield Case(name, label, [x] + ([] if axes is None else [ci(*axes)]), opset=18)
        if name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"):
            for kind in (np.float64, np.int64, np.int32):
                if (name, kind) == ("ReduceMean", np.int64):
                    continue
                label = f"{np.dtype(kind).name} 1x64x56x56 axes "
                x = RNG.integers(0, 99, FEATURES).astype(kind)
                yield Case(name, label + "3", [x, ci(3)], opset=18)
                yield Case(name, label + "1", [x, ci(1)], opset=18)
    for name in ("ArgMax", "ArgMin"):
        for shape, axis in (((1, 21, 128, 128), 1), ((64, 1000), 1), ((1, 50257), 1), ((1000, 64), 0), ((100, 4, 8), 1)):
            yield Case(name, f"{text(shape)} axis {axis}", [f(*shape)], axis=axis)
        yield Case(name, "last 64x1000 axis 1", [f(64, 1000)], axis=1, select_last_index=1)
        yield Case(name, "int64 64x1000 axis 1", [ints(np.int64, 0, 99, 64, 1000)], axis=1)
        yield Case(name, "double 64x1000 axis 1", [d(64, 1000)], axis=1)
        yield Case(name, "uint8 64x1000 axis 1", [ints(np.uint8, 0, 99, 64, 1000)], axis=1)
    for shape, axis in (((64, 1000), 1), ((1000, 64), 0), ((4, 100, 100), 1)):
        yield Case("CumSum", f"{text(shape)} axis {axis}", [f(*shape), ci(axis)])
    yield Case("CumSum", "int64 64x1000 axis 1", [ints(np.int64, 0, 9, 64, 1000), ci(1)])
    for name in ("Softmax", "LogSoftmax", "Hardmax"):
        for shape, axis in (((12, 128, 128), -1), ((1, 1000), -1), ((1, 21, 64, 64), 1), ((1000, 4), -1),
                            ((1, 50257), -1)):
            yield Case(name, f"{text(shape)} axis {axis}", [f(*shape)], axis=axis)
    yield Case("Softmax", "double 64x1000", [d(64, 1000)], axis=-1)
    yield Case("BiasSoftmax", "1x12x128x128", [f(1, 12, 128, 128), f(1, 1, 128, 128)], domain=MS, axis=3,
               is_inner_broadcast=0)


def norm():
    for shape in ((1, 128, 768), (1, 16, 64), (1, 3136, 96)):
        n = shape[-1]
        yield Case("LayerNormalization", text(shape), [f(*shape), c(f(n)), c(f(n))], axis=-1)
        yield Case("SimplifiedLayerNormalization", text(shape), [f(*shape), c(f(n))], axis=-1)
        yield Case("RMSNormalization", text(shape), [f(*shape), c(f(n))], opset=23, axis=-1)
        yield Case("SkipLayerNormalization", text(shape), [f(*shape), f(*shape), c(f(n)), c(f(n))], domain=MS)
        yield Case("SkipSimplifiedLayerNormalization", text(shape), [f(*shape), f(*shape), c(f(n))], domain=MS)
    yield Case("LayerNormalization", "double 1x128x768", [d(1, 128, 768), c(d(768)), c(d(768))], axis=-1)
    for shape in ((1, 64, 56, 56), (8, 32, 14, 14), (1, 128, 1000), (1, 256, 4, 4)):
        n = shape[1]
        yield Case("InstanceNormalization", text(shape), [f(*shape), c(f(n)), c(f(n))])
        if len(shape) == 4:
            yield Case("GroupNormalization", text(shape), [f(*shape), c(f(n)), c(f(n))], opset=21, num_groups=8)
            yield Case("LRN", text(shape), [f(*shape)], size=5)
        yield Case("BatchNormalization", text(shape), [f(*shape), c(f(n)), c(f(n)), c(f(n)), c(np.abs(f(n)) + 1)])
        yield Case("LpNormalization", f"{text(shape)} axis 1", [f(*shape)], axis=1)
    yield Case("BatchNormalization", "double 1x64x56x56", [d(*FEATURES)] + [c(np.abs(d(64)) + 1) for _ in range(4)])
    yield Case("LpNormalization", "128x768 axis 1", [f(128, 768)], axis=1)
    yield Case("MeanVarianceNormalization", text(FEATURES), [f(*FEATURES)])


def product():
    for m, k, n in ((1, 768, 768), (128, 768, 768), (64, 64, 64), (196, 192, 576), (3, 5, 7), (1000, 4, 8)):
        yield Case("MatMul", f"{m}x{k}x{n}", [f(m, k), c(f(k, n))])
        yield Case("MatMul", f"both inputs {m}x{k}x{n}", [f(m, k), f(k, n)])
        yield Case("MatMul", f"double {m}x{k}x{n}", [d(m, k), d(k, n)])
        yield Case("MatMul", f"int32 {m}x{k}x{n}", [ints(np.int32, -9, 9, m, k), ints(np.int32, -9, 9, k, n)])
        yield Case("MatMul", f"int64 {m}x{k}x{n}", [ints(np.int64, -9, 9, m, k), ints(np.int64, -9, 9, k, n)])
        yield Case("Gemm", f"{m}x{k}x{n}", [f(m, k), c(f(n, k)), c(f(n))], transB=1)
        yield Case("Gemm", f"double {m}x{k}x{n}", [d(m, k), c(d(n, k)), c(d(n))], transB=1)
        yield Case("FusedMatMul", f"{m}x{k}x{n}", [f(m, k), f(n, k)], domain=MS, transB=1, alpha=.5)
        yield Case("FusedGemm", f"{m}x{k}x{n}", [f(m, k), c(f(n, k)), c(f(n))], domain=MS, transB=1, activation="Relu")
        yield Case("MatMulInteger", f"{m}x{k}x{n}", [ints(np.uint8, 0, 99, m, k), c(ints(np.int8, -99, 99, k, n)),
                                                     c(np.uint8(50))])
        yield Case("DynamicQuantizeMatMul", f"{m}x{k}x{n}",
                   [f(m, k), c(ints(np.int8, -99, 99, k, n)), c(np.array([.01], np.float32))], domain=MS)
        yield Case("MatMulIntegerToFloat", f"{m}x{k}x{n}",
                   [ints(np.uint8, 0, 99, m, k), c(ints(np.int8, -99, 99, k, n)), c(np.array([.1], np.float32)),
                    c(np.array([.01], np.float32))], domain=MS)
        one, zero = c(np.float32(.1)), c(np.uint8(128))
        yield Case("QLinearMatMul", f"{m}x{k}x{n}", [ints(np.uint8, 0, 255, m, k), one, zero, c(ints(np.uint8, 0, 255, k, n)),
                                                     one, zero, c(np.float32(9)), zero])
        yield Case("QGemm", f"{m}x{k}x{n}", [ints(np.uint8, 0, 255, m, k), one, zero, c(ints(np.uint8, 0, 255, k, n)),
                                             one, zero, None, c(np.float32(9)), zero], domain=MS)
    yield Case("MatMul", "12x128x64x128", [f(12, 128, 64), f(12, 64, 128)])
    yield Case("MatMul", "64x16x16x16", [f(64, 16, 16), f(64, 16, 16)])
    yield Case("TransposeMatMul", "12x128x64x128", [f(12, 128, 64), f(12, 128, 64)], domain=MS, transB=1)
    for equation, shapes in (("bhid,bhjd->bhij", [(1, 12, 128, 64), (1, 12, 128, 64)]),
                             ("bhij,bhjd->bhid", [(1, 12, 128, 128), (1, 12, 128, 64)]),
                             ("bij,jk->bik", [(1, 128, 256), (256, 128)]), ("bid,bjd->bij", [(4, 64, 64), (4, 64, 64)]),
                             ("nkctv,kvw->nctw", [(1, 3, 32, 30, 18), (3, 18, 18)]), ("ij->ji", [(256, 256)]),
                             ("bchw,bkhw->bck", [(1, 32, 28, 28), (1, 16, 28, 28)]), ("i,j->ij", [(500,), (500,)]),
                             ("bij->bi", [(8, 128, 128)]), ("bhwc,hkc->bhwk", [(4, 14, 14, 64), (14, 14, 64)]),
                             ("ijk,ijk->ij", [(64, 64, 64), (64, 64, 64)])):
        yield Case("Einsum", f"{equation} {' '.join(map(text, shapes))}", [f(*s) for s in shapes], equation=equation)
    yield Case("Einsum", "double bij,jk->bik", [d(1, 128, 256), d(256, 128)], equation="bij,jk->bik")
    yield Case("Det", "64x8x8", [f(64, 8, 8)])
    for shape, attributes in (((1, 1, 1024, 1), {}), ((8, 400, 1), {"onesided": 1}), ((1, 64, 509, 2), {}),
                              ((1, 16, 512, 2), {"inverse": 1}), ((1, 480, 1), {"onesided": 1}), ((1, 65536, 2), {})):
        words = " ".join([text(shape), *attributes])
        yield Case("DFT", words, [f(*shape)], axis=len(shape) - 2, **attributes)
    yield Case("DFT", "double 1x1000x2", [d(1, 1000, 2)], axis=1)
    window = np.hanning(400).astype(np.float32)
    yield Case("STFT", "1x16000 step 160 of 400", [f(1, 16000, 1), c(np.int64(160)), c(window)], onesided=1)
    yield Case("STFT", "1x16000 step 256 of 1024", [f(1, 16000, 1), c(np.int64(256)), c(np.hanning(1024).astype(np.float32))],
               onesided=1)
    yield Case("STFT", "1x4096 step 128 of 512 both sides", [f(1, 4096, 1), c(np.int64(128)), None, c(np.int64(512))],
               onesided=0)
    for name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        yield Case(name, "1024", [np.int64(1024).reshape(())])
    yield Case("MelWeightMatrix", "80 of 512", [np.array(v).reshape(()) for v in (np.int64(80), np.int64(512), np.int64(16000),
                                                                        np.float32(0), np.float32(8000))])


def convolution():
    for x, w, attributes in (
            ((1, 3, 224, 224), (64, 3, 7, 7), {"strides": [2, 2], "pads": [3] * 4}),
            ((1, 64, 56, 56), (64, 64, 3, 3), {"pads": [1] * 4}), ((1, 64, 56, 56), (256, 64, 1, 1), {}),
            ((1, 512, 7, 7), (512, 512, 3, 3), {"pads": [1] * 4}), ((1, 32, 112, 112), (32, 1, 3, 3), {"pads": [1] * 4, "group": 32}),
            ((1, 144, 56, 56), (144, 1, 3, 3), {"pads": [1] * 4, "group": 144, "strides": [2, 2]}),
            ((1, 96, 28, 28), (96, 1, 5, 5), {"pads": [2] * 4, "group": 96}),
            ((1, 64, 28, 28), (64, 16, 3, 3), {"pads": [1] * 4, "group": 4}),
            ((1, 64, 28, 28), (64, 64, 3, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
            ((1, 40, 200, 1), (64, 40, 5, 1), {"pads": [2, 0, 2, 0]}), ((1, 1, 128, 128), (8, 1, 3, 3), {"pads": [1] * 4}),
            ((1, 16, 64, 64), (1, 16, 3, 3), {"pads": [1] * 4}),
            ((1, 80, 1000), (256, 80, 3), {"pads": [1, 1]}), ((1, 256, 400), (256, 1, 31), {"pads": [15, 15], "group": 256}),
            ((1, 16, 8, 28, 28), (32, 16, 3, 3, 3), {"pads": [1] * 6}), ((1, 1, 16000), (64, 1, 400), {"strides": [160]})):
        label = f"{text(x)} by {text(w)}" + "".join(f" {k} {v if isinstance(v, int) else v[0]}" for k, v in attributes.items()
                                                    if k != "pads")
        yield Case("Conv", label, [f(*x), c(f(*w)), c(f(w[0]))], **attributes)
    x, w = (1, 64, 56, 56), (64, 64, 3, 3)
    yield Case("Conv", "weights given 1x64x56x56 by 64x64x3x3", [f(*x), f(*w)], pads=[1] * 4)
    yield Case("Conv", "double 1x16x28x28 by 16x16x3x3", [d(1, 16, 28, 28), c(d(16, 16, 3, 3))], pads=[1] * 4)
    yield Case("FusedConv", "1x64x56x56 by 64x64x3x3", [f(*x), c(f(*w)), c(f(64))], domain=MS, pads=[1] * 4, activation="Relu")
    for x, w, attributes in (
            ((1, 64, 28, 28), (64, 32, 4, 4), {"strides": [2, 2], "pads": [1] * 4}),
            ((1, 128, 14, 14), (128, 64, 2, 2), {"strides": [2, 2]}), ((1, 16, 32, 32), (16, 16, 3, 3), {"pads": [1] * 4}),
            ((1, 256, 100), (256, 128, 16), {"strides": [8], "pads": [4, 4]}), ((1, 32, 16, 16), (32, 1, 4, 4),
                                                                          {"strides": [2, 2], "pads": [1] * 4, "group": 32}),
            ((1, 257, 200), (257, 1, 512), {"strides": [128]})):
        yield Case("ConvTranspose", f"{text(x)} by {text(w)} strides {attributes.get('strides', [1])[0]}",
                   [f(*x), c(f(*w)), c(f(w[1] * attributes.get("group", 1)))], **attributes)
    q, one, zero = ints(np.uint8, 0, 255, 1, 64, 28, 28), c(np.float32(.1)), c(np.uint8(128))
    for w, attributes in (((64, 64, 3, 3), {"pads": [1] * 4}), ((128, 64, 1, 1), {}), ((64, 1, 3, 3), {"pads": [1] * 4, "group": 64})):
        weights = c(ints(np.int8, -99, 99, *w))
        yield Case("ConvInteger", f"1x64x28x28 by {text(w)}", [q, weights, zero], **attributes)
        yield Case("QLinearConv", f"1x64x28x28 by {text(w)}",
                   [q, one, zero, weights, one, c(np.int8(0)), c(np.float32(9)), zero], **attributes)


def pool():
    for shape, attributes in (((1, 64, 112, 112), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
                              ((1, 64, 56, 56), {"kernel_shape": [2, 2], "strides": [2, 2]}),
                              ((1, 64, 14, 14), {"kernel_shape": [3, 3], "pads": [1] * 4}),
                              ((1, 32, 20, 20), {"kernel_shape": [5, 5], "pads": [2] * 4}),
                              ((1, 64, 1000), {"kernel_shape": [4], "strides": [4]}),
                              ((1, 8, 16, 28, 28), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
                              ((1, 512, 7, 7), {"kernel_shape": [7, 7]})):
        label = f"{text(shape)} by {text(attributes['kernel_shape'])} step {attributes.get('strides', [1])[0]}"
        for name in ("MaxPool", "AveragePool", "LpPool"):
            yield Case(name, label, [f(*shape)], opset=18, **attributes)
    shape, attributes = (1, 64, 56, 56), {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Case("MaxPool", "with indices 1x64x56x56", [f(*shape)], outputs=2, **attributes)
    yield Case("MaxPool", "uint8 1x64x56x56", [ints(np.uint8, 0, 99, *shape)], **attributes)
    yield Case("MaxPool", "double 1x64x56x56", [d(*shape)], **attributes)
    yield Case("AveragePool", "counting pads 1x64x56x56", [f(*shape)], kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        for shape in ((1, 64, 56, 56), (1, 1280, 7, 7)):
            yield Case(name, text(shape), [f(*shape)])
    index = np.arange(64 * 28 * 28, dtype=np.int64).reshape(1, 64, 28, 28)
    index = index // 784 * 3136 + index % 784 // 28 * 112 + index % 28 * 2
    yield Case("MaxUnpool", "1x64x28x28", [f(1, 64, 28, 28), index], kernel_shape=[2, 2], strides=[2, 2])
    rois = np.concatenate([RNG.uniform(0, 100, (100, 2)), RNG.uniform(100, 200, (100, 2))], 1).astype(np.float32)
    yield Case("RoiAlign", "1x64x50x50 rois 100", [f(1, 64, 50, 50), rois, np.zeros(100, np.int64)], output_height=7,
               output_width=7, sampling_ratio=2, spatial_scale=.25)
    yield Case("MaxRoiPool", "1x64x50x50 rois 100", [f(1, 64, 50, 50), np.concatenate([np.zeros((100, 1), np.float32), rois], 1)],
               pooled_shape=[7, 7], spatial_scale=.25)
    for x, scales in (((1, 64, 28, 28), (1, 1, 2, 2)), ((1, 3, 256, 256), (1, 1, .5, .5)), ((1, 16, 40, 40), (1, 1, 1.6, 1.6))):
        scale = c(np.array(scales, np.float32))
        label = f"{text(x)} by {scales[2]}"
        for mode in ("nearest", "linear", "cubic"):
            yield Case("Resize", f"{mode} {label}", [f(*x), None, scale], mode=mode)
        yield Case("Resize", f"nearest asymmetric floor {label}", [f(*x), None, scale], mode="nearest",
                   coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        yield Case("Resize", f"linear align_corners {label}", [f(*x), None, scale], mode="linear",
                   coordinate_transformation_mode="align_corners")
        yield Case("Upsample", f"nearest {label}", [f(*x), scale], opset=9, mode="nearest") if scales[2] > 1 else \
            Case("Resize", f"uint8 linear {label}", [ints(np.uint8, 0, 255, *x), None, scale], mode="linear")
    yield Case("Resize", "uint8 nearest asymmetric floor 1x64x28x28 by 2", [ints(np.uint8, 0, 255, 1, 64, 28, 28), None, c(np.array([1, 1, 2, 2], np.float32))],
               mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield Case("Resize", "linear 1x64x1000 by 2", [f(1, 64, 1000), None, c(np.array([1, 1, 2], np.float32))], mode="linear")
    grid = RNG.uniform(-1.1, 1.1, (1, 56, 56, 2)).astype(np.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            yield Case("GridSample", f"{mode} {padding} 1x64x56x56", [f(*FEATURES), grid], mode=mode, padding_mode=padding)
    yield Case("GridSample", "bilinear 1x1x300x300", [f(1, 1, 300, 300), RNG.uniform(-1, 1, (1, 300, 300, 2)).astype(np.float32)])
    yield Case("AffineGrid", "1x3x224x224", [f(1, 2, 3), ci(1, 3, 224, 224)], opset=20)


def recurrent():
    for name, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, batch, size, hidden in ((32, 1, 128, 128), (16, 8, 64, 64), (100, 1, 40, 64)):
            for direction in ("forward", "bidirectional"):
                n = 2 if direction == "bidirectional" else 1
                extra = {"linear_before_reset": 1} if name == "GRU" else {}
                yield Case(name, f"{direction} {steps} steps batch {batch} {size} to {hidden}",
                           [f(steps, batch, size), c(f(n, gates * hidden, size, scale=.1)),
                            c(f(n, gates * hidden, hidden, scale=.1)), c(f(n, 2 * gates * hidden, scale=.1))],
                           hidden_size=hidden, direction=direction, **extra)
    yield Case("DynamicQuantizeLSTM", "32 steps 128 to 128",
               [f(32, 1, 128), c(ints(np.int8, -99, 99, 1, 128, 512)), c(ints(np.int8, -99, 99, 1, 128, 512)), c(f(1, 1024)),
                None, None, None, None, c(np.array([.001], np.float32)), c(np.zeros(1, np.int8)),
                c(np.array([.001], np.float32)), c(np.zeros(1, np.int8))], domain=MS, hidden_size=128)


def transformer():
    q = f(1, 12, 128, 64)
    yield Case("Attention", "1x12x128x64", [q, f(1, 12, 128, 64), f(1, 12, 128, 64)], opset=23)
    yield Case("Attention", "microsoft 1x128x768", [f(1, 128, 768), c(f(768, 2304, scale=.05)), c(f(2304))], domain=MS, num_heads=12)
    yield Case("MultiHeadAttention", "1x128x768", [f(1, 128, 768) for _ in range(3)], domain=MS, num_heads=12)
    yield Case("GroupQueryAttention", "1x64x512", [f(1, 64, 512), f(1, 64, 128), f(1, 64, 128), f(1, 2, 0, 64), f(1, 2, 0, 64),
               c(np.array([[63]], np.int32)), c(np.array(64, np.int32))], domain=MS, outputs=3, num_heads=8, kv_num_heads=2)
    one, zero = c(np.float32(.01)), c(np.uint8(128))
    yield Case("QAttention", "1x128x768", [ints(np.uint8, 0, 255, 1, 128, 768), c(ints(np.uint8, 0, 255, 768, 2304)), c(f(2304)),
                                           one, c(np.float32(.001)), None, zero, zero], domain=MS, num_heads=12)
    cache = c(f(128, 32)), c(f(128, 32))
    yield Case("RotaryEmbedding", "1x12x128x64", [q, *(c(f(1, 128, 32)) for _ in range(2))], opset=23)
    yield Case("RotaryEmbedding", "microsoft 1x12x128x64", [q, c(np.arange(128, dtype=np.int64)[None]), *cache], domain=MS)
    ids = ints(np.int32, 0, 1000, 1, 128)
    segment = ints(np.int32, 0, 2, 1, 128)
    tables = f(1000, 256), f(512, 256), f(2, 256)
    yield Case("EmbedLayerNormalization", "1x128 of 256", [ids, segment, *map(c, tables), c(f(256)), c(f(256))], domain=MS, outputs=2)


def quantized():
    one, zero = c(np.float32(.05)), c(np.uint8(128))
    q = ints(np.uint8, 0, 255, *FEATURES)
    yield Case("QuantizeLinear", text(FEATURES), [f(*FEATURES), one, zero])
    yield Case("QuantizeLinear", f"per channel {text(FEATURES)}", [f(*FEATURES), c(np.full(64, .05, np.float32)),
                                                                   c(np.zeros(64, np.int8))], axis=1)
    yield Case("DequantizeLinear", text(FEATURES), [q, one, zero])
    yield Case("DequantizeLinear", f"per channel {text(FEATURES)}", [q, c(np.full(64, .05, np.float32)),
                                                                     c(np.zeros(64, np.uint8))], axis=1)
    yield Case("DequantizeLinear", f"int32 {text(FEATURES)}", [ints(np.int32, -99, 99, *FEATURES), one])
    wide, middle = ints(np.uint16, 0, 65536, *FEATURES), c(np.uint16(31000))
    yield Case("QuantizeLinear", f"uint16 {text(FEATURES)}", [f(*FEATURES), c(np.float32(1e-4)), middle], opset=21)
    yield Case("DequantizeLinear", f"uint16 {text(FEATURES)}", [wide, c(np.float32(1e-4)), middle], opset=21)
    yield Case("QuantizeLinear", f"microsoft {text(FEATURES)}", [f(*FEATURES), one, zero], domain=MS)
    yield Case("DequantizeLinear", f"microsoft {text(FEATURES)}", [q, one, zero], domain=MS)
    yield Case("DynamicQuantizeLinear", text(FEATURES), [f(*FEATURES)], outputs=3)
    yield Case("QLinearAdd", text(FEATURES), [q, one, zero, ints(np.uint8, 0, 255, *FEATURES), one, zero, one, zero], domain=MS)
    yield Case("QLinearMul", text(FEATURES), [q, one, zero, ints(np.uint8, 0, 255, *FEATURES), one, zero, one, zero], domain=MS)
    yield Case("QLinearMul", "1x64x56x56, 1x64x1x1", [q, one, zero, ints(np.uint8, 0, 255, 1, 64, 1, 1), one, zero, one, zero],
               domain=MS)
    yield Case("QLinearLeakyRelu", text(FEATURES), [q, one, zero, one, zero], domain=MS, alpha=.1)
    yield Case("QLinearSigmoid", text(FEATURES), [q, one, zero, c(np.float32(1 / 256)), c(np.uint8(0))], domain=MS)
    yield Case("QLinearSoftmax", "128x128", [ints(np.uint8, 0, 255, 128, 128), one, zero, c(np.float32(1 / 256)), c(np.uint8(0))],
               domain=MS, axis=-1, more={"opset": 13})
    yield Case("QLinearAveragePool", "1x64x56x56 by 2x2", [q, one, zero, one, zero], domain=MS, kernel_shape=[2, 2], strides=[2, 2])
    yield Case("QLinearGlobalAveragePool", text(FEATURES), [q, one, zero, one, zero], domain=MS)
    yield Case("QLinearConcat", "1x64x56x56 twice", [one, zero, q, c(np.float32(.04)), zero, q, one, zero], domain=MS, axis=1)


def loss():
    yield Case("NegativeLogLikelihoodLoss", "64x1000", [f(64, 1000), ints(np.int64, 0, 1000, 64)])
    yield Case("SoftmaxCrossEntropyLoss", "64x1000", [f(64, 1000), ints(np.int64, 0, 1000, 64)])
    yield Case("TfIdfVectorizer", "12x200", [ints(np.int64, 0, 50, 12, 200)], mode="TF", min_gram_length=1, max_gram_length=2,
               max_skip_count=1, ngram_counts=[0, 4], ngram_indexes=list(range(7)), pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7])


FAMILIES = (unary, binary, move, gather, reduce, norm, product, convolution, pool, recurrent, transformer, quantized, loss)


def cases():
    """Every case, one family after the other; data is made when a case is reached."""
    for family in FAMILIES:
        yield from family()
