"""Families of check_numpy.py: element-wise operators on all types, and what else goes over rows of them."""
import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from ops_cases import Case, Inner, c, ci, d, f, i64  # noqa: E402
from ops_more import graph  # noqa: E402

RNG = np.random.default_rng(31)


def fills():
    for n, kind in itertools.product((1, 3, 700, 1500, 5000), (np.int8, np.float32, np.int64)):
        value = np.array([-5], kind)
        yield Case("ConstantOfShape", "", [i64(3, n)], value=value), [np.full((3, n), -5, kind)]
        yield Case("Expand", "", [np.array([[1], [2], [3]], kind), ci(3, n)]), [np.repeat(np.array([[1], [2], [3]], kind), n, 1)]
    for kind, exclusive, reverse in itertools.product((np.float32, np.float64, np.int32, np.int64), (0, 1), (0, 1)):
        for shape, axis in (((5, 33), 0), ((2, 7, 9), 1), ((3, 40), 1)):
            x = RNG.integers(-3, 4, shape).astype(kind)
            turned = np.flip(x, axis) if reverse else x
            sums = np.cumsum(turned, axis, dtype=kind)
            sums = sums - turned if exclusive else sums
            yield Case("CumSum", "", [x, ci(axis)], exclusive=exclusive, reverse=reverse), [np.flip(sums, axis) if reverse else sums]
    for k, n in ((300, 1100), (7, 513), (1, 600)):
        a, b = f(3, 1, k), f(3, k, n)
        yield Case("MatMul", "", [a, b]), [a @ b]
        yield Case("MatMul", "", [a, b[0]]), [a @ b[0]]
    for shape, block, stride, pads, dilation in (((6, 7), (2, 3), (1, 1), (0, 0, 0, 0), (1, 1)), ((5, 40), (3, 3), (2, 1), (1, 2, 0, 1), (1, 2)),
                                                 ((9, 9), (3, 2), (2, 3), (1, 1, 1, 1), (2, 1)), ((30,), (4,), (2,), (1, 0), (3,))):
        places = [(s + pads[i] + pads[len(shape) + i] - dilation[i] * (block[i] - 1) - 1) // stride[i] + 1 for i, s in enumerate(shape)]
        x = f(2, 3 * int(np.prod(block)), int(np.prod(places)))
        wide = np.zeros((2, 3, *[s + pads[i] + pads[len(shape) + i] for i, s in enumerate(shape)]))
        parts_ = x.reshape(2, 3, *block, *places)
        for tap in np.ndindex(*block):
            at = tuple(slice(t * dl, t * dl + (m - 1) * st + 1, st) for t, dl, m, st in zip(tap, dilation, places, stride))
            wide[(slice(None), slice(None), *at)] += parts_[(slice(None), slice(None), *tap)]
        cut = tuple(slice(pads[i], pads[i] + s) for i, s in enumerate(shape))
        yield Case("Col2Im", "", [x, ci(*shape), ci(*block)], strides=list(stride), pads=list(pads), dilations=list(dilation)), [
            wide[(slice(None), slice(None), *cut)]]
    edge = np.array([-1, 1, 0, -0., .5, -.5, .49999997, 1e-30, 2.4142137, -2.4142137, .41421357, 1e30, -np.inf, np.inf, np.nan] * 3, np.float32)
    inside = np.where(np.abs(edge) <= 1, edge, np.nan)
    yield Case("Atan", "", [edge]), [np.arctan(edge)]
    yield Case("Asin", "", [inside]), [np.arcsin(inside)]
    yield Case("Acos", "", [inside]), [np.arccos(inside)]
    for alpha in (1., 2., .25):
        x = f(3, 700, scale=2.)
        elu = np.where(x > 0, x, alpha * np.expm1(x / alpha))
        yield Case("Celu", "", [x], alpha=alpha), [elu]
        yield Case("Selu", "", [x], alpha=alpha, gamma=1.5), [1.5 * np.where(x > 0, x, alpha * np.expm1(x))]
    x = RNG.integers(-2**24, 2**24, (2, 3, 700)).astype(np.int32)
    scale = np.array([.5, .25, 2.], np.float32)
    yield Case("DequantizeLinear", "", [x, c(scale)], axis=1), [x * scale[:, None]]
    yield Case("DequantizeLinear", "", [x, c(scale[0])]), [x * scale[0]]
    long, zero = RNG.integers(-2**20, 2**20, (2, 9001)).astype(np.int32), np.array([5, -70000], np.int32)
    yield Case("DequantizeLinear", "", [long, c(scale[0])]), [long * scale[0]]
    yield Case("DequantizeLinear", "", [long, c(scale[:2]), c(zero)], axis=0), [(long - zero[:, None]) * scale[:2, None]]
    for kind in (np.uint8, np.int8):
        x, zero = x.astype(kind), np.array([7, 0, 99], kind)
        yield Case("DequantizeLinear", "", [x, c(scale), c(zero)], axis=1), [(x.astype(int) - zero[:, None]) * scale[:, None]]


def regions():
    """Of sizes that divided by the number of bins and times it again are a bit more in floating point."""
    x = f(2, 3, 60, 60)
    corner = RNG.integers(0, 30, (60, 2))
    size = np.stack([np.arange(60), np.arange(60)[::-1]], 1) % 59
    rois = np.concatenate([RNG.integers(0, 2, (60, 1)), corner, corner + size], 1)
    for bins in (5, 6, 7, 14):
        want = np.zeros((60, 3, bins, bins), np.float32)
        for r, (image, x1, y1, x2, y2) in enumerate(rois.tolist()):
            h, w = y2 - y1 + 1, x2 - x1 + 1
            for i, j in np.ndindex(bins, bins):
                part = x[image, :, y1 + i * h // bins:y1 - (-(i + 1) * h // bins), x1 + j * w // bins:x1 - (-(j + 1) * w // bins)]
                want[r, :, i, j] = part.max((1, 2)) if part.size else 0
        yield Case("MaxRoiPool", "", [x, rois.astype(np.float32)], pooled_shape=[bins, bins]), [want]


def truncated(x, y):
    """Python's own integers: the quotient towards 0, and 0 for a division by 0."""
    q = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0 for a, b in zip(x.ravel().tolist(), y.ravel().tolist())]
    rest = [a - b * c_ if b else 0 for a, b, c_ in zip(x.ravel().tolist(), y.ravel().tolist(), q)]
    mod = [r + b if r and (r < 0) != (b < 0) else r for r, b in zip(rest, y.ravel().tolist())]
    return [np.array([v & (1 << 64) - 1 for v in part], np.uint64).astype(x.dtype).reshape(x.shape) for part in (q, rest, mod)]


def whole():
    """Integers of their whole range: what wraps, what does not fit a double, what is divided by 0 and -1."""
    for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        info = np.iinfo(kind)
        bits, wide = info.bits, (3, 700)
        x = RNG.integers(info.min, info.max, wide, kind, endpoint=True)
        y = x >> RNG.integers(0, bits, wide).astype(kind)  # of all magnitudes
        y[0, :9] = 0
        if info.min:
            x[0, 8:12], y[0, 8:20] = info.min, -1
        few = RNG.integers(1, 100, wide).astype(kind)
        for a, b in ((x, y), (x, few), (few, y), (y, x), (few * few[:, ::-1] & 127, few)):
            q, rest, mod = truncated(a, b)
            yield Case("Div", "", [a, b]), [q]
            yield Case("Mod", "", [a, b], fmod=1), [rest]
            yield Case("Mod", "", [a, b]), [mod]
        for n in (1, 3, 7, 10, 97, 125):
            q, rest, mod = truncated(x, np.full_like(x, n))
            yield Case("Mod", "", [x, c(np.array([n], kind))]), [mod]
            q, rest, mod = truncated(np.full_like(x, n), y)
            yield Case("Mod", "", [c(np.array([n], kind)), y], fmod=1), [rest]
        yield Case("Mul", "", [x, y]), [x * y]
        yield Case("Sub", "", [y, x]), [y - x]
        yield Case("Clip", "", [x, c(np.asarray(kind(5))), c(np.asarray(kind(99)))]), [np.clip(x, 5, 99)]
        yield Case("Clip", "", [x, None, c(np.asarray(kind(7)))]), [np.minimum(x, 7)]
        yield Case("Where", "", [(x & 1).astype(bool), x, c(np.asarray(kind(1)))]), [np.where(x & 1, x, kind(1))]
        if kind in (np.int32, np.int64):
            base, e = RNG.integers(-9, 9, (2, 300)).astype(kind), RNG.integers(0, 9, (2, 300)).astype(kind)
            yield Case("Pow", "", [base, e]), [base ** e]
            yield Case("Pow", "", [base, c(np.array([5], np.int64))]), [base ** kind(5)]
            yield Case("Pow", "", [c(np.array([3], kind)), e.astype(np.float32)]), [kind(3) ** e]
            yield Case("Pow", "", [base, c(np.array([-3], kind))]), [np.where(np.abs(base) == 1, base, 0)]
        if not info.min:
            shift = RNG.integers(0, bits, wide).astype(kind)
            yield Case("BitShift", "", [x, shift], direction="LEFT"), [x << shift]
            yield Case("BitShift", "", [x, shift], direction="RIGHT"), [x >> shift]
            yield Case("BitShift", "", [x, c(np.array([3], kind))], direction="RIGHT"), [x >> kind(3)]
    real = f(3, 700, scale=100.)
    for to, kind in ((6, np.int32), (7, np.int64), (3, np.int8), (2, np.uint8)):
        big = real.copy()
        big[1, 5] = 2.**40 + 2.**20  # and others in this piece go another way
        yield Case("Cast", "", [big], to=to), [big.astype(np.int64).astype(kind)]
        yield Case("Cast", "", [np.array([np.nan, 2.**70, -2.**70] * 7, np.float64)], to=to), [
            np.array([0, 2**63 - 1, -2**63] * 7, np.int64).astype(kind)]
    odd = np.array([np.nan, np.inf, -np.inf, 0, -0., 5, -5] * 9, np.float32)
    for x in (odd, odd.astype(np.float64)):
        yield Case("IsNaN", "", [x]), [np.isnan(x)]
        for plus, minus in itertools.product((0, 1), (0, 1)):
            yield Case("IsInf", "", [x], detect_positive=plus, detect_negative=minus), [
                (np.isposinf(x) & bool(plus)) | (np.isneginf(x) & bool(minus))]
        real = np.nan_to_num(x, posinf=9, neginf=-9)
        yield Case("ThresholdedRelu", "", [real], alpha=2.), [np.where(real > 2, real, 0)]
        yield Case("Softsign", "", [real]), [real / (1 + np.abs(real))]
        yield Case("Shrink", "", [real], bias=1.5, lambd=1.), [np.where(real < -1, real + 1.5, np.where(real > 1, real - 1.5, 0))]


def doubles():
    """Powers, determinants, and products whose second operand is turned."""
    edge = np.array([0, -0., 1, -1, np.inf, -np.inf, np.nan, .5, 2, -2, 3, -3, 1e-310, 1e308, 1e300, 2.**53, 5e-324, -.5])
    with np.errstate(all="ignore"):
        yield Case("Pow", "", [edge[:, None], edge]), [edge[:, None] ** edge]
        for x, y in ((np.exp(d(3, 301) * 100), d(3, 301)), (np.abs(d(5, 33)) + .1, d(33) * 20), (-np.abs(d(7)), np.arange(-3., 4)),
                     (1 + d(1, 64) / 1000, d(9, 1) * 1e5), (np.abs(d(2, 600)), np.array([1.7])), (d(40), np.array([-2.]))):
            yield Case("Pow", "", [x, y]), [x ** y]
    for n in (1, 2, 3, 4, 5, 7, 8, 9, 16, 19, 33):
        for kind in (np.float32, np.float64):
            x = (d(3, n, n) + np.eye(n) * 2).astype(kind)
            x[1, 0] = 0
            yield Case("Det", "", [x]), [np.linalg.det(x.astype(float))]
            if n > 1:
                turned = np.ascontiguousarray(np.roll(x[::2], 1, 1))  # rows are exchanged
                yield Case("Inverse", "", [turned], domain="com.microsoft"), [np.linalg.inv(turned.astype(float))]
    for m, k, n in ((13, 7, 16), (25, 129, 48), (3, 40, 35), (9, 3, 8)):
        a, b, extra = d(m, k), d(n, k), d(n)
        yield Case("Gemm", "", [a, c(b), c(extra)], transB=1), [a @ b.T + extra]
        yield Case("Gemm", "", [a, b, d(m, 1) * 0 + 3], transB=1), [a @ b.T + 3]
        yield Case("Gemm", "", [a, b], transB=1, alpha=.5), [a @ b.T / 2]


def many_rows():
    """Softmax and the like of rows that go several at a time."""
    for rows, n in ((1, 16), (4, 16), (5, 17), (9, 31), (70, 64), (7, 127), (6, 1023), (5, 1025), (3, 4097)):
        x = f(rows, n, scale=4)
        x[0, n // 2] = x[0, 3] = x[0].max() + 1
        top = x - x.max(1, keepdims=True)
        log = top - np.log(np.exp(top).sum(1, keepdims=True))
        first = np.zeros_like(x)
        first[np.arange(rows), x.argmax(1)] = 1
        yield Case("LogSoftmax", "", [x]), [log]
        yield Case("Softmax", "", [x]), [np.exp(log)]
        yield Case("Hardmax", "", [x]), [first]
        masked = np.where(RNG.random(x.shape) < .5, x, -np.inf).astype(np.float32)
        masked[:, 1] = 1
        e = np.exp(masked - masked.max(1, keepdims=True))
        yield Case("Softmax", "", [masked]), [e / e.sum(1, keepdims=True)]


def handed():
    """What bodies and optionals hand on instead of copying it."""
    x = f(3, 50)
    for flag in (True, False):
        cond = np.array(flag)
        yield Case("If", "", [cond], captured=[x],
                   then_branch=lambda given: graph([], [("p", x)], ("Relu", [given[0]], ["p"])),
                   else_branch=lambda given: graph([], [("q", x)], ("Neg", [given[0]], ["q"]))), [np.maximum(x, 0) if flag else -x]
        yield Case("If", "", [cond], captured=[x], outputs=2, then=("Exp", []),
                   then_branch=lambda given: graph([], [("p", x), ("r", x)], ("Relu", [given[0]], ["p"]), ("Identity", ["p"], ["r"])),
                   else_branch=lambda given: graph([], [("q", x), ("s", x)], ("Identity", [given[0]], ["q"]), ("Abs", ["q"], ["s"]))), [
                       np.exp(np.maximum(x, 0) if flag else x)]
    yield Case("Optional", "", [x], then=("OptionalGetElement", [])), [x]
    yield Case("Optional", "", [Inner("Neg", [x])], then=("OptionalGetElement", [])), [-x]
    yield Case("Optional", "", [x], then=[("OptionalGetElement", []), ("Neg", []), ("Exp", [])]), [np.exp(-x)]


def sixteen_bits():
    """QuantizeLinear and DequantizeLinear of 16 bits: with one scale, one for each slice, and beyond what fits."""
    for kind, (shape, axis) in itertools.product((np.uint16, np.int16), (((7,), None), ((3, 5, 67), None), ((3, 5, 67), 1),
                                                                          ((33, 4), -1), ((1, 300), 0))):
        low = np.iinfo(kind).min
        slices = 1 if axis is None else shape[axis]
        along = [-1 if axis is not None and d == axis % len(shape) else 1 for d in range(len(shape))]
        more = {} if axis is None else {"axis": axis}
        for zero, spread in ((low + 100, 40), (low + 30000, 2e5)):
            scale = RNG.uniform(.1, .9, slices).astype(np.float32)
            zeros = (zero + np.arange(slices) % 5).astype(kind)
            x = RNG.uniform(-spread, spread, shape).astype(np.float32)
            by, of = (scale[0], zeros[0]) if axis is None else (scale.reshape(along), zeros.reshape(along))
            want = np.clip(np.rint(x / by) + of.astype(float), low, low + 65535)
            given = [c(scale[0] if axis is None else scale), c(zeros[0] if axis is None else zeros)]
            yield Case("QuantizeLinear", "", [x, *given], **more), [want.astype(kind)]
            yield Case("DequantizeLinear", "", [want.astype(kind), *given], **more), [(want - of.astype(float)) * by]


FAMILIES = {whole: 17, fills: 18, regions: 17, doubles: 17, many_rows: 17, handed: 18, sixteen_bits: 21}
