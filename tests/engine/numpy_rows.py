"""Families of check_numpy.py: reductions of all types and layouts, functions of doubles, transposes of all widths, and what goes
element by element as data says: unique ones, boxes, regions."""
import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from ops_cases import Case, c, ci, f, i64  # noqa: E402

RNG = np.random.default_rng(47)
KINDS = (np.float32, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def folds():
    layouts = (((40, 2), (1,)), ((40, 3), (1,)), ((300, 4), (1,)), ((9, 7), (1,)), ((3, 257), (1,)), ((2, 1100), (1,)), ((1100, 2), (0,)),
               ((5, 300), (0,)), ((3, 1, 40), (1,)), ((4, 3, 5, 6), (0, 2)), ((4, 3, 5, 6), (1, 3)), ((2, 3, 4, 70), (0, 1)), ((6, 9), (0, 1)),
               ((1, 1), (1,)), ((0, 3), (1,)))
    for (shape, axes), kind in itertools.product(layouts, KINDS):
        real = kind in (np.float32, np.float64)
        low = 0 if np.dtype(kind).kind == "u" else -9
        x = (RNG.standard_normal(shape) if real else RNG.integers(low, 10, shape)).astype(kind)
        count = int(np.prod([shape[a] for a in axes]))

        def case(name, want):
            return Case(name, "", [x, ci(*axes)]), [np.asarray(want).astype(kind)]
        wide = x.astype(np.float64)
        yield case("ReduceSum", x.sum(axes, keepdims=True, dtype=kind))
        yield case("ReduceL1", np.abs(wide).sum(axes, keepdims=True))
        yield case("ReduceSumSquare", (x * x).sum(axes, keepdims=True, dtype=kind))
        yield case("ReduceL2", np.sqrt((wide * wide).sum(axes, keepdims=True)))
        yield case("ReduceMean", np.trunc(wide.mean(axes, keepdims=True)) if not real else wide.mean(axes, keepdims=True))
        yield case("ReduceProd", x.prod(axes, keepdims=True, dtype=kind))
        yield case("ReduceMax", x.max(axes, keepdims=True))
        yield case("ReduceMin", x.min(axes, keepdims=True))
        if real and 0 not in shape:
            big = x * kind(40)  # sums of whose exponentials are beyond float32
            most = big.max(axes, keepdims=True)
            yield Case("ReduceLogSumExp", "", [big, ci(*axes)]), [np.log(np.exp(big - most).sum(axes, keepdims=True)) + most]
            yield Case("ReduceLogSum", "", [x * x, ci(*axes)]), [np.log((x * x).sum(axes, keepdims=True))]
            holes = np.where(RNG.random(shape) < 1 / count, np.nan, x).astype(kind)
            yield Case("ReduceMax", "", [holes, ci(*axes)]), [holes.max(axes, keepdims=True)]
            yield Case("ReduceMin", "", [holes, ci(*axes)]), [holes.min(axes, keepdims=True)]
        if len(axes) == 1 and 0 not in shape:
            for last, (name, pick) in itertools.product((0, 1), (("ArgMax", np.argmax), ("ArgMin", np.argmin))):
                turned = np.flip(x, axes[0]) if last else x
                at = np.expand_dims(pick(turned, axes[0]), axes[0])
                at = shape[axes[0]] - 1 - at if last else at
                yield Case(name, "", [x], axis=axes[0], select_last_index=last), [at]


def doubles():
    for n in (1, 3, 8, 701):
        for name, function, low, high in (("Exp", np.exp, -30, 3), ("Log", np.log, 1e-300, 9), ("Tanh", np.tanh, -3, 3), ("Sin", np.sin, -9, 9),
                                          ("Cos", np.cos, -9, 9), ("Tan", np.tan, -1.5, 1.5), ("Sinh", np.sinh, -3, 3), ("Cosh", np.cosh, -3, 3),
                                          ("Asinh", np.arcsinh, -9, 9), ("Acosh", np.arccosh, 1, 9), ("Atanh", np.arctanh, -.9, .9)):
            x = RNG.uniform(low, high, (2, n))
            yield Case(name, "", [x]), [function(x)]
            small = (x * 1e-3 + (1 if name == "Acosh" else 0)).astype(np.float32)
            yield Case(name, "", [np.abs(small)]), [function(np.abs(small).astype(np.float64)).astype(np.float32)]
        x = RNG.uniform(-9, 9, (2, n))
        yield Case("Sigmoid", "", [x]), [1 / (1 + np.exp(-x))]
    edge = np.array([0., np.inf, -np.inf, np.nan, 1e-310, -800., 720., 1e300, 3e5, -2e9])
    with np.errstate(all="ignore"):
        for name, function in (("Exp", np.exp), ("Log", np.log), ("Tanh", np.tanh), ("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan)):
            yield Case(name, "", [edge]), [function(edge)]


def turned():
    for kind in (np.int8, np.int16, np.float32, np.int64):
        for shape, perm in (((16, 16), (1, 0)), ((33, 50), (1, 0)), ((70, 17), (1, 0)), ((300, 3), (1, 0)), ((3, 300), (1, 0)), ((2, 300), (1, 0)),
                            ((2, 3, 20, 5), (0, 2, 3, 1)), ((2, 20, 5, 3), (0, 3, 1, 2)), ((4, 5, 6, 7), (3, 2, 1, 0)), ((2, 2, 9, 31), (0, 3, 2, 1)),
                            ((3, 2, 2, 5, 9), (0, 3, 1, 4, 2)), ((5, 4, 18), (0, 2, 1))):
            x = RNG.integers(-99, 99, shape).astype(kind)
            yield Case("Transpose", "", [x], perm=list(perm)), [np.ascontiguousarray(x.transpose(perm))]
        for parts in (2, 5):
            pieces = [RNG.integers(-99, 99, (7, 9, 1)).astype(kind) for _ in range(parts)]
            yield Case("Concat", "", pieces, axis=2), [np.concatenate(pieces, 2)]
    for equation, shape in (("bij->bi", (3, 5, 70)), ("bijk->b", (2, 3, 4, 5)), ("bij->bj", (3, 5, 7)), ("ij->", (9, 9)), ("bij->bi", (300, 2, 3))):
        for kind in (np.float32, np.float64):
            x = RNG.standard_normal(shape).astype(kind)
            yield Case("Einsum", "", [x], equation=equation), [np.einsum(equation, x)]


def unique():
    for kind, n, kinds in ((np.int64, 900, 70), (np.float32, 700, 9), (np.float64, 40, 400), (np.int8, 300, 100), (np.int32, 1, 2)):
        x = RNG.integers(-kinds // 2, kinds // 2 + 1, n).astype(kind)
        values, first, back, count = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        yield Case("Unique", "", [x], outputs=4), [values, first, back.reshape(-1), count]
        order = np.argsort(first)
        place = np.argsort(order)
        yield Case("Unique", "", [x], outputs=4, sorted=0), [values[order], first[order], place[back.reshape(-1)], count[order]]
    for axis in (0, 1):
        x = RNG.integers(0, 2, (9, 7)).astype(np.float32)
        x = np.concatenate([x, x[:2]], 0) if axis == 0 else np.concatenate([x, x[:, 2:4]], 1)
        values, first, back, count = np.unique(x, axis=axis, return_index=True, return_inverse=True, return_counts=True)
        yield Case("Unique", "", [x], outputs=4, axis=axis), [values, first, back.reshape(-1), count]
    for x in (RNG.integers(0, 2, (40, 700)).astype(np.float32), RNG.integers(0, 2, (3, 4, 5)).astype(bool), np.zeros((3, 4), np.int64),
              RNG.integers(0, 3, 1200).astype(np.uint8), RNG.standard_normal((2, 3)), np.zeros((0, 3), np.float32)):
        yield Case("NonZero", "", [x]), [np.stack(np.nonzero(x)).astype(np.int64)]


def kept(boxes, scores, most, limit, least):
    """Places of the boxes that stay, greedily."""
    order = [i for i in np.argsort(-scores, kind="stable") if scores[i] > least]
    stay = []
    for i in order:
        y0, x0, y1, x1 = boxes[i]
        clash = False
        for k in stay:
            a0, b0, a1, b1 = boxes[k]
            both = max(0, min(y1, a1) - max(y0, a0)) * max(0, min(x1, b1) - max(x0, b0))
            clash |= both > limit * ((y1 - y0) * (x1 - x0) + (a1 - a0) * (b1 - b0) - both)
        if not clash and len(stay) < most:
            stay.append(i)
    return stay


def boxes():
    for n, classes, most, limit, least, center in ((60, 2, 10, .4, .3, 0), (200, 3, 500, .1, .1, 0), (50, 1, 5, .5, .2, 1), (7, 1, 7, .3, 2., 0)):
        middle, half = RNG.uniform(0, 50, (2, n, 2)), RNG.uniform(2, 9, (2, n, 2))
        corner = np.concatenate([middle - half, middle + half], 2).astype(np.float32)
        given = np.concatenate([middle[..., ::-1], 2 * half[..., ::-1]], 2).astype(np.float32) if center else corner
        scores = (RNG.integers(0, 40, (2, classes, n)) / 40).astype(np.float32)  # ties
        want = [(b, k, i) for b in range(2) for k in range(classes) for i in kept(corner[b].astype(np.float64), scores[b, k], most, limit, np.float32(least))]
        yield Case("NonMaxSuppression", "", [given, scores, ci(most), c(np.array([limit], np.float32)), c(np.array([least], np.float32))],
                   center_point_box=center), [np.array(want, np.int64).reshape(-1, 3)]
    # The best ones all lie on one another: those that stay come late.
    heap = np.concatenate([np.tile(np.array([[0, 0, 9, 9]]), (300, 1)), np.array([[20 * i, 0, 20 * i + 9, 9] for i in range(1, 40)])]).astype(np.float32)
    scores = np.linspace(1, .5, len(heap)).astype(np.float32)
    for most in (3, 39, 100):
        stay = kept(heap.astype(np.float64), scores, most, .5, .1)
        yield Case("NonMaxSuppression", "", [heap[None], scores[None, None], ci(most), c(np.array([.5], np.float32)), c(np.array([.1], np.float32))]), [
            np.array([(0, 0, i) for i in stay], np.int64)]


def at(plane, y, x):
    """Value between the elements of a plane; 0 beyond its edge."""
    h, w = plane.shape
    if y < -1 or y > h or x < -1 or x > w:
        return 0., [0.]
    y, x = max(y, 0), max(x, 0)
    y0, x0 = min(int(y), h - 1), min(int(x), w - 1)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    fy, fx = (y - y0 if y0 < h - 1 else 0), (x - x0 if x0 < w - 1 else 0)
    four = [(1 - fy) * (1 - fx) * plane[y0, x0], (1 - fy) * fx * plane[y0, x1], fy * (1 - fx) * plane[y1, x0], fy * fx * plane[y1, x1]]
    return sum(four), four


def aligned():
    for channels, size, ratio, half, mode in ((3, (4, 5), 2, 1, "avg"), (2, (3, 3), 0, 0, "avg"), (2, (9, 9), 3, 1, "avg"), (3, (2, 3), 2, 1, "max"),
                                              (1, (2, 2), 30, 1, "avg")):
        x = f(2, channels, 12, 15)
        rois = np.concatenate([RNG.uniform(-3, 8, (6, 2)), RNG.uniform(8, 18, (6, 2))], 1).astype(np.float32)
        image = RNG.integers(0, 2, 6)
        y = np.zeros((6, channels, *size))
        for r, ch in itertools.product(range(6), range(channels)):
            x0, y0, x1, y1 = rois[r].astype(np.float64) * .9 - (.5 if half else 0)
            w, h = (x1 - x0, y1 - y0) if half else (max(x1 - x0, 1), max(y1 - y0, 1))
            gy, gx = (ratio, ratio) if ratio else (int(np.ceil(h / size[0])), int(np.ceil(w / size[1])))
            for i, k in np.ndindex(*size):
                samples = [at(x[image[r], ch], y0 + h / size[0] * (i + (a + .5) / gy), x0 + w / size[1] * (k + (b + .5) / gx))
                           for a in range(gy) for b in range(gx)]
                y[r, ch, i, k] = np.mean([s for s, _ in samples]) if mode == "avg" else max(max(four) for _, four in samples)
        yield Case("RoiAlign", "", [x, rois, image.astype(np.int64)], output_height=size[0], output_width=size[1], sampling_ratio=ratio,
                   spatial_scale=.9, mode=mode, coordinate_transformation_mode="half_pixel" if half else "output_half_pixel"), [y.astype(np.float32)]
    for kind, (tall, wide) in itertools.product((np.float32, np.int8, np.float64), ((2, 2), (3, 2), (1, 3))):
        x = RNG.integers(-99, 99, (2, 3, 5, 7)).astype(kind)
        yield Case("Resize", "", [x, None, c(np.array([1, 1, tall, wide], np.float32))], mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="asymmetric"), [x.repeat(tall, 2).repeat(wide, 3)]


FAMILIES = {folds: 20, doubles: 17, turned: 17, unique: 17, boxes: 17, aligned: 18}
