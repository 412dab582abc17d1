"""quant_forms.py -- the models of bench/quant.py: two convolutions and what stands between them, and matrix products, in the
forms that exporters write (QDQ and QOperator, by opset, types, scales, zero points, biases), of the sizes of real layers."""
import numpy as np

import ops_cases
from ops_cases import MS
from pbwire import block, number

OPSETS = [10, 13, 19, 21, 23]
CHANNELS, SIDE = 64, 28
ROWS, DEPTH, COLUMNS = 128, 256, 256
BETWEEN = ["nothing", "residual", "concat", "split", "shuffle", "average pool", "global pool", "mean", "flat mean",
           "max pool", "hard swish", "x * hard sigmoid", "squeeze and excite", "groups"]
ACTS = ["", "relu", "clip"]
BIASES = ["no bias", "bias", "shared bias", "float bias"]
SHORT = {np.uint8: "u8", np.int8: "s8"}


class Q:
    """A quantised value: its name, shape, scale and zero point."""

    def __init__(self, name, shape, scale, zero):
        self.name, self.shape, self.scale, self.zero = name, shape, scale, zero


class Form:
    """A model as it is written; x and w are the types of activations and weights. Keywords are those of draw()."""

    def __init__(self, rng, **how):
        self.__dict__.update(how)
        self.rng, self.nodes, self.weights, self.names, self.domains = rng, b"", b"", 0, {""}

    def name(self):
        self.names += 1
        return f"t{self.names}"

    def const(self, array):
        name = self.name()
        self.weights += block(5, ops_cases.tensor(name, np.asarray(array)))
        return name

    def node(self, operator, inputs, outputs=1, domain="", names=None, **attributes):
        names = names or [self.name() for _ in range(outputs)]
        node = b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in names)
        node += block(3, names[0]) + block(4, operator) + block(7, domain)
        self.nodes += block(1, node + b"".join(block(5, ops_cases.attribute(n, v)) for n, v in attributes.items()))
        self.domains.add(domain)
        return names[0] if len(names) == 1 else names

    def numbers(self, array):
        """A scale or zero point; exporters write one alone as a scalar or as a list."""
        return self.const(array if array.size > 1 else array.reshape([1] if self.listed else []))

    def scale_of(self, v, kind=None):
        kind = kind or self.x
        zero = [] if self.no_zeros and not self.operators else [self.numbers(np.array(v.zero, kind))]
        return [self.numbers(np.array(v.scale, np.float32))] + zero

    def value(self, shape, scale, name=None):
        low = 0 if self.x == np.uint8 else -20
        zero = 0 if self.no_zeros else int(self.rng.integers(low, low + 40))
        return Q(name or self.name(), list(shape), scale, zero)

    def real(self, v):
        return self.node("DequantizeLinear", [v.name] + self.scale_of(v))

    def quantized(self, real, v):
        more = {"output_dtype": 3} if self.no_zeros and self.x == np.int8 else {}
        self.node("QuantizeLinear", [real] + self.scale_of(v), names=[v.name], **more)
        return v

    def unary(self, operator, v, out, more=(), qlinear=None, **attributes):
        if self.operators and qlinear:
            self.node(qlinear, [v.name] + self.scale_of(v) + self.scale_of(out), domain=MS, names=[out.name], **attributes)
            return out
        return self.quantized(self.node(operator, [self.real(v), *more], **attributes), out)

    def moved(self, operator, v, shape, more=(), **attributes):
        out = Q(self.name(), shape, v.scale, v.zero)
        if self.operators:
            self.node(operator, [v.name, *more], names=[out.name], **attributes)
            return out
        return self.quantized(self.node(operator, [self.real(v), *more], **attributes), out)

    def binary(self, operator, a, b, out):
        if self.operators:
            self.node("QLinear" + operator, [a.name] + self.scale_of(a) + [b.name] + self.scale_of(b) + self.scale_of(out),
                      domain=MS, names=[out.name])
            return out
        return self.quantized(self.node(operator, [self.real(a), self.real(b)]), out)

    def filter(self, shape, columns, axis):
        """Name, scale and zero points of weights, and their scales as numbers."""
        n = columns if self.per_channel else 1
        fan = int(np.prod(shape)) // columns
        scale = (self.rng.uniform(.5, 1, n) / 90 / np.sqrt(fan)).astype(np.float32)
        low, high = (0, 256) if self.w == np.uint8 else (-128, 128)
        zero = np.full(n, 0 if self.no_zeros or self.w == np.int8 else 128) + (
            0 if self.no_zeros or self.w == np.int8 else self.rng.integers(-9, 10, n))
        w = [self.const(self.rng.integers(low, high, shape).astype(self.w)), self.numbers(scale)]
        if not self.no_zeros or self.operators:
            w.append(self.numbers(zero.astype(self.w)))
        real = None if self.operators else self.node("DequantizeLinear", w, **({"axis": axis} if n > 1 else {}))
        return w, real, scale

    def bias_of(self, n, scales):
        """Inputs of a bias: none, floats, or integers in units of the products through DequantizeLinear."""
        if self.bias == "no bias":
            return []
        if self.bias == "float bias" and not self.operators:
            return [self.const(self.rng.standard_normal(n).astype(np.float32))]
        whole = self.const(self.rng.integers(-500, 500, n).astype(np.int32))
        if self.operators:
            return [whole]
        wide = {"axis": 0} if scales.size > 1 else {}
        name = self.node("DequantizeLinear", [whole, self.numbers(scales.astype(np.float32))], **wide)
        return [self.node("Identity", [name])] if self.bias == "shared bias" else [name]

    def act_of(self, name):
        if self.act == "relu":
            return self.node("Relu", [name])
        if self.act == "clip" and self.opset >= 11:
            return self.node("Clip", [name, self.const(np.float32(0)), self.const(np.float32(6))])
        return self.node("Clip", [name], min=0.0, max=6.0) if self.act == "clip" else name

    def conv(self, v, channels, side, groups=1):
        shape = [channels, v.shape[1] // groups, side, side]
        w, real, scale = self.filter(shape, channels, 0)
        out = self.value([1, channels, *v.shape[2:]], .05)
        attributes = {"pads": [side // 2] * 4, "group": groups, "kernel_shape": [side, side]}
        if self.operators:
            inputs = [v.name] + self.scale_of(v) + w + self.scale_of(out) + self.bias_of(channels, v.scale * scale)
            self.node("QLinearConv", inputs, names=[out.name], **attributes)
            return out
        made = self.node("Conv", [self.real(v), real] + self.bias_of(channels, v.scale * scale), **attributes)
        return self.quantized(self.act_of(made), out)

    def axes(self, operator, v, out, **attributes):
        if self.opset >= 18:
            return self.unary(operator, v, out, [self.const(np.array([2, 3]))], **attributes)
        return self.unary(operator, v, out, axes=[2, 3], **attributes)

    def concat(self, a, b):
        out = self.value([1, a.shape[1] + b.shape[1], *a.shape[2:]], .1)
        if self.operators:
            self.node("QLinearConcat", self.scale_of(out) + [a.name] + self.scale_of(a) + [b.name] + self.scale_of(b),
                      domain=MS, names=[out.name], axis=1)
            return out
        return self.quantized(self.node("Concat", [self.real(a), self.real(b)], axis=1), out)

    def split(self, v):
        sizes = [CHANNELS // 4, v.shape[1] - CHANNELS // 4]
        parts = [self.value([1, n, *v.shape[2:]], v.scale) for n in sizes]
        more, attributes = ([self.const(np.array(sizes))], {}) if self.opset >= 13 else ([], {"split": sizes})
        if self.operators:
            for part in parts:
                part.zero = v.zero
            self.node("Split", [v.name] + more, names=[p.name for p in parts], axis=1, **attributes)
        else:
            reals = self.node("Split", [self.real(v)] + more, 2, axis=1, **attributes)
            for real, part in zip(reals, parts):
                self.quantized(real, part)
        return self.concat(parts[1], parts[0])

    def between(self, v, what):
        n, c, h, w = v.shape
        whole, pooled = self.value(v.shape, .1), self.value([n, c, 1, 1], .02)
        if what == "residual":
            return self.binary("Add", v, self.conv(v, c, 1), whole)
        if what == "concat":
            return self.concat(self.conv(v, c // 2, 1), v)
        if what == "split":
            return self.split(v)
        if what == "shuffle":
            v = self.moved("Reshape", v, [n, 4, c // 4, h, w], [self.const(np.array([n, 4, c // 4, h, w]))])
            v = self.moved("Transpose", v, [n, c // 4, 4, h, w], perm=[0, 2, 1, 3, 4])
            return self.moved("Reshape", v, [n, c, h, w], [self.const(np.array([n, c, h, w]))])
        if what == "max pool":
            return self.moved("MaxPool", v, [n, c, h // 2, w // 2], kernel_shape=[2, 2], strides=[2, 2])
        if what == "average pool":
            return self.unary("AveragePool", v, self.value([n, c, h // 2, w // 2], .05), qlinear="QLinearAveragePool",
                              kernel_shape=[2, 2], strides=[2, 2])
        if what == "global pool":
            return self.unary("GlobalAveragePool", v, pooled, qlinear="QLinearGlobalAveragePool")
        if what in ("mean", "flat mean"):
            return self.axes("ReduceMean", v, pooled, keepdims=int(what == "mean"))
        if what == "hard swish":
            return self.unary("HardSwish", v, whole)
        if what == "x * hard sigmoid":
            gate = self.unary("HardSigmoid", v, self.value(v.shape, 1 / 128), alpha=1 / 6, beta=.5)
            return self.binary("Mul", v, gate, whole)
        if what == "squeeze and excite":
            pool = self.unary("GlobalAveragePool", v, pooled, qlinear="QLinearGlobalAveragePool")
            return self.binary("Mul", self.conv(pool, c, 1), v, whole)
        return v

    def convolutions(self):
        v = self.value([1, CHANNELS, SIDE, SIDE], .02, "x")
        groups = 4 if self.what == "groups" else CHANNELS if self.depthwise else 1
        y = self.between(self.conv(v, CHANNELS, 3, groups), self.what)
        y = y if self.what == "flat mean" else self.conv(y, CHANNELS, 1)
        return y.name, [1, CHANNELS, SIDE, SIDE]

    def product(self):
        v, out = self.value([ROWS, DEPTH], .02, "x"), self.value([ROWS, COLUMNS], .05)
        turned = self.what == "Gemm, weights turned"
        if self.what == "MatMulInteger":
            w, _, scale = self.filter([DEPTH, COLUMNS], COLUMNS, 1)
            zero = [] if self.no_zeros else [self.numbers(np.array(v.zero, self.x)), w[2]]
            whole = self.node("Cast", [self.node("MatMulInteger", [v.name, w[0]] + zero)], to=1)
            return self.node("Mul", [whole, self.const((v.scale * scale).astype(np.float32))]), v.shape
        w, real, scale = self.filter([COLUMNS, DEPTH] if turned else [DEPTH, COLUMNS], COLUMNS, 0 if turned else 1)
        if self.operators:
            self.node("QLinearMatMul", [v.name] + self.scale_of(v) + w + self.scale_of(out), names=[out.name])
            return out.name, v.shape
        bias = self.bias_of(COLUMNS, v.scale * scale)
        if self.what == "MatMul":
            made = self.node("MatMul", [self.real(v), real])
            made = self.node("Add", [made] + bias) if bias else made
        else:
            made = self.node("Gemm", [self.real(v), real] + bias, **({"transB": 1} if turned else {}))
        return (self.quantized(self.act_of(made), out).name if self.ends else made), v.shape

    def label(self):
        kind = f"{SHORT[self.x]} by {SHORT[self.w]}" + (" per channel" if self.per_channel else "")
        rest = [self.act, self.bias, "[1]" if self.listed else "", "no zero points" if self.no_zeros else "",
                "depthwise" if self.depthwise else "", "" if self.ends else "to floats"]
        return f"{self.opset} {'QOperator' if self.operators else 'QDQ'} {kind}, {', '.join(r for r in rest if r)}"

    def model(self):
        """The model's bytes, and its inputs as (name, array)."""
        name, shape = self.product() if self.what in PRODUCTS else self.convolutions()
        low, high = (0, 256) if self.x == np.uint8 else (-128, 128)
        x = self.rng.integers(low, high, shape).astype(self.x)
        graph = self.nodes + block(2, "form") + self.weights + block(11, ops_cases.value_info("x", x)) + block(12, block(1, name))
        out = number(1, 8) + block(7, graph)
        for domain in sorted(self.domains):
            out += block(8, block(1, domain) + number(2, 1 if domain else self.opset))
        return out, [("x", x)]


PRODUCTS = ["MatMul", "Gemm", "Gemm, weights turned", "QLinearMatMul", "MatMulInteger"]


def draw(rng, opset, operators, what):
    """A form of the kind that has everything else drawn, within what its opset and operators allow; None: there is none."""
    kinds = [np.uint8, np.int8]
    how = {"opset": opset, "operators": operators, "what": what, "x": kinds[rng.integers(2)], "w": kinds[rng.integers(2)],
           "per_channel": bool(rng.integers(2)) and opset >= 13, "listed": bool(rng.integers(2)),
           "no_zeros": not rng.integers(4), "depthwise": what in BETWEEN[:-1] and not rng.integers(3),
           "act": "" if operators else ACTS[rng.integers(len(ACTS))], "bias": BIASES[rng.integers(len(BIASES))],
           "ends": what in BETWEEN or bool(rng.integers(2))}
    if opset < 21 and how["x"] == np.int8:
        how["no_zeros"] = False  # nothing else says that the result is signed
    if operators and how["bias"] != "no bias":
        how["bias"] = "bias"
    if what in ("QLinearMatMul", "MatMulInteger"):
        how.update(act="", bias="no bias", ends=what == "QLinearMatMul")
        how["operators"] = True
    elif what in PRODUCTS and not how["ends"]:
        how["act"] = ""
    absent = {"hard swish": opset < 14 or operators, "x * hard sigmoid": operators,
              "max pool": operators and opset < 12, "mean": operators, "flat mean": operators}
    if absent.get(what) or (what in PRODUCTS[:3] and operators) or (what in PRODUCTS[3:] and not operators):
        return None
    return Form(rng, **how)


def forms(draws, seed):
    rng = np.random.default_rng(seed)
    for what in BETWEEN + PRODUCTS:
        for opset in OPSETS:
            for operators in (False, True):
                for _ in range(draws):
                    form = draw(rng, opset, operators, what)
                    if form:
                        yield form
