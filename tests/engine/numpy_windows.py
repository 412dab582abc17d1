"""Families of check_numpy.py: sliding windows of odd shapes (convolutions, pools, pools of bytes), padding, and casts that do nothing."""
import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from ops_cases import MS, Case, c, ci, f  # noqa: E402

RNG = np.random.default_rng(59)


def windows(x, kernel, stride, pads, dilation, fill):
    """Views of the padded planes of x, one per output position: N, C, out..., kernel..."""
    n = len(kernel)
    x = np.pad(x, [(0, 0), (0, 0)] + [(pads[i], pads[n + i]) for i in range(n)], constant_values=fill)
    for i in range(n):
        span = (kernel[i] - 1) * dilation[i] + 1
        starts = range(0, x.shape[2 + i] - span + 1, stride[i])
        x = np.stack([np.take(x, range(s, s + span, dilation[i]), 2 + i) for s in starts], 2 + i)
        x = np.moveaxis(x, 3 + i, -1)
    return x


CONVS = [((1, 40, 50, 1), (64, 40, 5, 1), 1, [1, 1], [2, 0, 2, 0], [1, 1]), ((2, 32, 33, 1), (32, 1, 3, 1), 32, [1, 1], [1, 0, 1, 0], [1, 1]),
         ((1, 32, 41, 1), (48, 16, 4, 1), 2, [3, 1], [0, 0, 2, 0], [2, 1]), ((1, 16, 20, 1), (16, 16, 1, 1), 1, [1, 1], [0] * 4, [1, 1]),
         ((1, 16, 9, 1), (32, 16, 3, 3), 1, [1, 1], [1] * 4, [1, 1]), ((1, 3, 64, 1), (32, 3, 7, 1), 1, [2, 1], [3, 0, 3, 0], [1, 1]),
         ((1, 5, 40, 1), (7, 5, 5, 1), 1, [1, 1], [2, 0, 2, 0], [1, 1]), ((2, 4, 30, 1), (4, 1, 3, 1), 4, [2, 1], [1, 0, 1, 0], [1, 1]),
         ((1, 3, 9, 1, 1), (8, 3, 3, 1, 1), 1, [1] * 3, [0] * 6, [2, 1, 1]), ((1, 4, 6, 50, 1), (6, 2, 2, 3, 1), 2, [1, 2, 1], [1, 1, 0, 0, 2, 0], [1] * 3),
         ((1, 3, 20, 1), (4, 3, 3, 1), 1, [1, 1], [1, 1, 1, 1], [1, 1]), ((1, 4, 4, 9, 11), (9, 4, 3, 3, 3), 1, [1] * 3, [1] * 6, [1] * 3),
         ((2, 3, 5, 7, 40), (13, 3, 2, 3, 3), 1, [2, 1, 1], [0, 1, 1] * 2, [1] * 3), ((1, 2, 6, 6, 6), (3, 2, 3, 3, 3), 1, [1, 1, 3], [2] * 6, [1, 2, 2]),
         ((1, 6, 17, 33), (5, 6, 4, 2), 1, [1, 1], [1, 0, 2, 1], [1, 1]), ((1, 6, 17, 33), (6, 3, 3, 3), 2, [2, 3], [1, 1, 1, 1], [2, 1]),
         ((1, 3, 129), (17, 3, 7), 1, [1], [3, 3], [1]), ((1, 3, 129), (5, 3, 4), 1, [2], [0, 9], [3]), ((1, 1, 3, 300), (2, 1, 3, 3), 1, [1, 1], [1] * 4, [1, 1])]


def conv():
    for shape, weights, group, stride, pads, dilation in CONVS:
        x, w, b = f(*shape), f(*weights), f(weights[0])
        n, per = len(stride), weights[0] // group
        at = windows(x.astype(float), weights[2:], stride, pads, dilation, 0)
        parts = [np.tensordot(at[:, g * weights[1]:(g + 1) * weights[1]], w[g * per:(g + 1) * per],
                              ([1, *range(2 + n, 2 + 2 * n)], range(1, 2 + n))) for g in range(group)]
        y = np.concatenate([np.moveaxis(p, -1, 1) for p in parts], 1) + b.reshape(-1, *[1] * n)
        common = {"group": group, "strides": stride, "pads": pads, "dilations": dilation}
        yield Case("Conv", "", [x, c(w), c(b)], **common), [y]
        yield Case("Conv", "", [x, w, b], **common), [y]


def narrow():
    """Rows of less than a vector or two, with and without NaN."""
    for width, (kernel, stride, pad, dilation) in itertools.product((1, 2, 7, 8, 9, 14, 15, 16, 17, 20, 31, 32, 33), (
            (3, 1, 1, 1), (5, 1, 2, 1), (2, 2, 0, 1), (3, 2, 1, 1), (2, 3, 1, 2), (9, 1, 4, 1))):
        if width + 2 * pad < (kernel - 1) * dilation + 1:
            continue
        x = f(2, 3, 11, width)
        holes = np.where(RNG.random(x.shape) < .02, np.nan, x).astype(np.float32)
        k, s, p, dl = [kernel] * 2, [stride] * 2, [pad] * 4, [dilation] * 2
        common = {"kernel_shape": k, "strides": s, "pads": p, "dilations": dl}
        count = windows(np.ones_like(x), k, s, p, dl, 0).sum((-2, -1))
        if not count.all():
            continue
        for values in (x, holes):
            yield Case("MaxPool", "", [values], **common), [windows(values, k, s, p, dl, -np.inf).max((-2, -1))]
        sums = windows(x.astype(float), k, s, p, dl, 0).sum((-2, -1))
        yield Case("AveragePool", "", [x], **common), [sums / count]
        yield Case("AveragePool", "", [x], count_include_pad=1, **common), [sums / kernel ** 2]
        yield Case("LpPool", "", [x], p=2, **common), [np.sqrt(windows(x.astype(float) ** 2, k, s, p, dl, 0).sum((-2, -1)))]


def byte_pools():
    """Scales are powers of two, and means are never halfway between two numbers."""
    for kind, (shape, kernel, stride, pads) in itertools.product((np.uint8, np.int8), (
            ((1, 2, 9, 9), (3, 3), (1, 1), (1, 1, 1, 1)), ((2, 3, 8, 33), (2, 2), (2, 2), (0, 0, 0, 0)), ((1, 2, 7, 40), (5, 3), (2, 3), (2, 1, 0, 1)),
            ((1, 1, 6, 50), (1, 9), (1, 4), (0, 4, 0, 4)), ((1, 2, 6, 30), (2, 3), (1, 5), (0, 0, 1, 2)), ((1, 2, 40, 6), (35, 2), (1, 1), (0, 0, 0, 1)),
            ((1, 2, 40), (7,), (2,), (3, 3)), ((1, 1, 3, 80), (3, 40), (1, 1), (0, 0, 0, 0)))):
        low = np.iinfo(kind).min
        x = RNG.integers(low, low + 256, shape).astype(kind)
        xz, yz = kind(low + 120), kind(low + 130)
        n = len(kernel)
        at = windows(x.astype(float) - float(xz), kernel, stride, pads, [1] * n, 0).sum(tuple(range(-n, 0)))
        count = windows(np.ones(shape), kernel, stride, pads, [1] * n, 0).sum(tuple(range(-n, 0)))
        for inside, scale in itertools.product((0, 1), (.5, .25)):
            real = at / (np.prod(kernel) if inside else count) * .5 / scale
            # What rounding may turn either way is left to either: such means become the nearest whole number of theirs.
            want = np.rint(real)
            sure = np.abs(real - np.floor(real) - .5) > 1e-3
            if not sure.all():
                continue
            y = np.clip(want + float(yz), low, low + 255).astype(kind)
            yield Case("QLinearAveragePool", "", [x, c(np.float32(.5)), c(xz), c(np.float32(scale)), c(yz)], domain=MS, kernel_shape=list(kernel),
                       strides=list(stride), pads=list(pads), count_include_pad=inside), [y]


def pad():
    for kind in (np.float32, np.float64, np.int8, np.int64, np.float16):
        for shape, before, after in (((5,), (2,), (3,)), ((1,), (0,), (4,)), ((3, 40), (1, 20), (2, 30)), ((2, 3, 5, 6), (0, 0, 1, 1), (0, 0, 1, 1)),
                                     ((2, 3, 4, 5), (1, 2, 3, 4), (1, 2, 3, 4)), ((2, 1, 7), (0, 0, 0), (1, 0, 0))):
            x = RNG.integers(-99, 99, shape).astype(kind)
            pads = list(zip(before, after))
            yield Case("Pad", "", [x, ci(*before, *after), c(kind(7))]), [np.pad(x, pads, constant_values=7)]
            yield Case("Pad", "", [x, ci(*before, *after)]), [np.pad(x, pads)]
            for mode in ("edge", "reflect", "wrap"):
                if mode != "reflect" or all(n > 1 or not (b or a) for n, b, a in zip(shape, before, after)):
                    yield Case("Pad", "", [x, ci(*before, *after)], mode=mode), [np.pad(x, pads, mode=mode)]
    x = f(4, 9, 30)
    yield Case("Pad", "", [x, ci(-1, 2, -3, 0, -4, 5)]), [np.pad(x[1:, :5, 3:], ((0, 0), (2, 0), (0, 5)))]
    yield Case("Pad", "", [x, ci(0, 0, -7, 0, 0, -8)]), [x[:, :, 7:22]]


def casts():
    x = f(3, 70)
    small = x.astype(np.float16)
    wide = f(3, 70).astype(np.float64)
    for value in (x, small, wide):
        for to, kind in ((1, np.float32), (10, np.float16), (11, np.float64)):
            yield Case("Cast", "", [value], to=to), [value.astype(kind)]
    yield Case("Cast", "", [c(small)], to=1), [small.astype(np.float32)]
    yield Case("Cast", "", [c(x)], to=10), [small]


def first_greatest(x, kernel, stride, pads, dilation, column):
    """Greatest numbers of windows and where the first of each is in the tensor; NaN counts as the greatest."""
    n, ch, h, w = x.shape
    low = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    views = windows(x, kernel, stride, pads, dilation, low).reshape(n, ch, -1, kernel[0] * kernel[1])
    spots = np.arange(h * w, dtype=np.float64).reshape(1, 1, h, w)
    spots = windows(spots, kernel, stride, pads, dilation, -1).reshape(1, 1, -1, kernel[0] * kernel[1]).astype(np.int64)
    inside = np.broadcast_to(spots >= 0, views.shape)
    rank = views.astype(np.float64)
    rank = np.where(np.isnan(rank), np.inf, rank)
    rank = np.where(inside, rank, -np.inf)
    best = np.argmax(np.where(inside, rank, rank - 1), -1)[..., None]
    where = np.take_along_axis(np.broadcast_to(spots, views.shape), best, -1)[..., 0]
    where = where % w * h + where // w if column else where
    where = where + (np.arange(n * ch) * h * w).reshape(n, ch, 1)
    out = windows(x[:1, :1], kernel, stride, pads, dilation, low).shape[2:4]
    return np.take_along_axis(views, best, -1)[..., 0].reshape(n, ch, *out), where.reshape(n, ch, *out)


def greatest():
    for kind, (shape, kernel, stride, pads, dilation), column in itertools.product(
            (np.float32, np.float64, np.uint8, np.int8),
            (((2, 3, 9, 11), (2, 2), [2, 2], [0] * 4, [1, 1]), ((1, 2, 8, 150), (3, 3), [1, 2], [1] * 4, [1, 1]), ((1, 2, 13, 9), (3, 2), [2, 1], [0, 1, 1, 0], [2, 3]),
             ((1, 1, 5, 5), (5, 5), [1, 1], [2] * 4, [1, 1])), (0, 1)):
        x = RNG.integers(0, 100, shape).astype(kind)
        y, at_ = first_greatest(x, kernel, stride, pads, dilation, column)
        yield Case("MaxPool", "", [x], outputs=2, kernel_shape=list(kernel), strides=stride, pads=pads, dilations=dilation, storage_order=column), [y, at_]
    for shape, kind in itertools.product(((2, 3, 7, 7), (1, 5, 3, 2), (1, 2, 9, 40), (1, 3, 33)), (np.float32, np.float64)):
        x = f(*shape).astype(kind)
        x[0, 0].flat[1] = np.nan
        axes = tuple(range(2, len(shape)))
        yield Case("GlobalMaxPool", "", [x], ), [x.max(axes, keepdims=True)]


def tiled():
    for kind, (shape, times) in itertools.product((np.float32, np.int8, np.int64), (((2, 3, 5, 40), (1, 1, 2, 3)), ((4, 3, 200), (1, 2, 1)), ((3, 150), (2, 1)),
                                                                             ((2, 2, 1, 130), (1, 3, 4, 1)), ((3, 1, 64), (2, 3, 2)), ((5,), (7,)))):
        x = RNG.integers(-99, 99, shape).astype(kind)
        yield Case("Tile", "", [x, ci(*times)]), [np.tile(x, times)]
    for axis, count in itertools.product((0, 1, 2), (2, 17, 40)):
        parts = [f(*[int(RNG.integers(1, 5)) if d == axis else 3 for d in range(3)]) for _ in range(count)]
        yield Case("Concat", "", parts, axis=axis), [np.concatenate(parts, axis)]
    for shape, k, to in itertools.product(((5, 9), (9, 5), (1, 1)), (0, 2, -3, 40, -40), (1, 11, 7)):
        y = np.eye(*shape, k, {1: np.float32, 11: np.float64, 7: np.int64}[to])
        yield Case("EyeLike", "", [f(*shape)], k=k, dtype=to), [y]
    for width in (1, 3, 8, 17, 32, 47):
        x = f(2, 3, 4, width)
        yield Case("Resize", "", [x, None, c(np.array([1, 1, 2, 2], np.float32))], mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="asymmetric"), [x.repeat(2, 2).repeat(2, 3)]
    for shape, axis in (((3, 200), 1), ((2, 7, 300), 1), ((4, 5, 6), 1), ((3, 40, 2), 1)):
        x = RNG.integers(-9, 9, shape).astype(np.float32)
        yield Case("Hardmax", "", [x], axis=axis), [(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]) ==
                                                    np.expand_dims(x.argmax(axis), axis)).astype(np.float32)]


FAMILIES = {conv: 17, narrow: 19, byte_pools: 17, pad: 19, casts: 19, greatest: 19, tiled: 17}
