"""Families of check_numpy.py: element-wise operators on all types, and what else goes over rows of them."""
import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from ops_cases import Case, c, f  # noqa: E402

RNG = np.random.default_rng(31)


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


FAMILIES = {whole: 17}
