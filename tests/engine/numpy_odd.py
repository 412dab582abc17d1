"""Families of check_numpy.py: operators that ONNX once had, and what models of speech and text have around their layers."""
import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from numpy_windows import windows  # noqa: E402
from ops_cases import MS, Case, c, ci, f  # noqa: E402

RNG = np.random.default_rng(47)


def once():
    for shape in ((1, 3, 7, 9), (2, 5, 1, 33), (1, 1, 8, 8)):
        x = f(*shape)
        real = x.astype(float)
        yield Case("Affine", "", [x], alpha=.5, beta=-2.), [.5 * real - 2]
        yield Case("Affine", "", [x]), [x]
        yield Case("Scale", "", [x], scale=3.), [3 * real]
        yield Case("ScaledTanh", "", [x], alpha=2., beta=.5), [2 * np.tanh(.5 * real)]
        yield Case("ParametricSoftplus", "", [x], alpha=2., beta=-1.5), [2 * np.log1p(np.exp(-1.5 * real))]
        bias = RNG.uniform(-1, 1, shape[1]).astype(np.float32)
        yield Case("ImageScaler", "", [x], scale=.25, bias=bias.tolist()), [real * .25 + bias[:, None, None]]
        left, top, right, bottom = 1, 0, 2, min(1, shape[2] - 1)
        yield Case("Crop", "", [x], border=[left, top, right, bottom]), [x[:, :, top:shape[2] - bottom, left:shape[3] - right]]
        yield Case("Crop", "", [x], border=[2, 0, 0, 0], scale=[1, 5]), [x[:, :, :1, 2:7]]


def dynamic_slice():
    """Of opset 9, where Slice has its lists as attributes."""
    x = f(5, 3, 7, 9)
    for wrap, kind in itertools.product((c, lambda v: v), (np.int32, np.int64)):
        lists = [wrap(np.array(v, kind)) for v in ([1, -4], [2, 99], [1, -1])]
        yield Case("DynamicSlice", "", [x, *lists]), [x[:, 1:2, ..., -4:]]
        yield Case("DynamicSlice", "", [x, *lists[:2]]), [x[1:2, -4:]]


def sampled(plane, y, x, mode, beyond):
    """A plane at a place, by rows and columns."""
    h, w = plane.shape
    if not (0 <= y <= h - 1 and 0 <= x <= w - 1):
        return beyond
    if mode == "nearest":
        return plane[int(np.floor(y + .5)), int(np.floor(x + .5))]
    y0, x0 = int(y), int(x)
    y1, x1, dy, dx = min(y0 + 1, h - 1), min(x0 + 1, w - 1), y - y0, x - x0
    return (plane[y0, x0] * (1 - dx) + plane[y0, x1] * dx) * (1 - dy) + (plane[y1, x0] * (1 - dx) + plane[y1, x1] * dx) * dy


def crops():
    x = f(3, 2, 9, 12)
    boxes = np.array([[0, 0, 1, 1], [.1, .2, .7, .9], [.9, .8, .2, .1], [-.5, .3, .5, 1.4], [.31, .31, .31, .31]], np.float32)
    image = np.array([2, 0, 1, 1, 2], np.int32)
    for (h, w), mode, beyond in itertools.product(((4, 5), (1, 7), (6, 1), (9, 12)), ("bilinear", "nearest"), (0., -3.)):
        want = np.zeros((5, 2, h, w))
        for r, ch, i, j in np.ndindex(want.shape):
            y0, x0, y1, x1 = boxes[r].tolist()
            y = y0 * 8 + i * (y1 - y0) * 8 / (h - 1) if h > 1 else (y0 + y1) * 4
            at = x0 * 11 + j * (x1 - x0) * 11 / (w - 1) if w > 1 else (x0 + x1) * 5.5
            want[r, ch, i, j] = sampled(x[image[r], ch], round(y, 5), round(at, 5), mode, beyond)
        size = c(np.array([h, w], np.int32))
        yield Case("CropAndResize", "", [x, boxes, image, size], domain=MS, mode=mode, extrapolation_value=beyond), [want]


def bytes_last():
    for kind, (shape, kernel, stride, pads, dilation) in itertools.product((np.uint8, np.int8), (
            ((1, 5, 7, 8), [2, 2], [2, 2], [0] * 4, [1, 1]), ((2, 9, 6, 3), [3, 2], [1, 2], [1, 0, 1, 1], [1, 1]),
            ((1, 8, 8, 33), [3, 3], [2, 1], [1] * 4, [2, 2]), ((1, 20, 4), [3], [2], [1, 1], [1]), ((2, 9, 7, 48), [3, 2], [2, 1], [2, 1, 1, 0], [2, 1]))):
        x = RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
        taps = windows(np.moveaxis(x, -1, 1), kernel, stride, pads, dilation, np.iinfo(kind).min)
        want = taps.max(tuple(range(taps.ndim - len(kernel), taps.ndim)))
        yield Case("NhwcMaxPool", "", [x], domain=MS, kernel_shape=kernel, strides=stride, pads=pads, dilations=dilation), [
            np.moveaxis(want, 1, -1)]


def murmur(data, seed):
    """MurmurHash3 of 32 bits, from its author's description."""
    word = 0xffffffff

    def turned(v, by):
        return (v << by | v >> 32 - by) & word

    def mixed(block):
        return turned(int.from_bytes(block, "little") * 0xcc9e2d51 & word, 15) * 0x1b873593 & word

    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        seed = (turned(seed ^ mixed(data[i:i + 4]), 13) * 5 + 0xe6546b64) & word
    seed ^= mixed(data[whole:]) ^ len(data)
    seed = (seed ^ seed >> 16) * 0x85ebca6b & word
    seed = (seed ^ seed >> 13) * 0xc2b2ae35 & word
    return seed ^ seed >> 16


def spoken():
    for rows, length, n in ((1, 9, 2), (3, 40, 3), (2, 12, 1), (1, 2, 4), (2, 30, 2)):
        ids, scores = RNG.integers(0, 5, (rows, length)), f(rows, 7)
        want = scores.copy()
        for r, row in enumerate(ids.tolist()):
            for i in range(length - n + 1):
                if row[i:i + n - 1] == row[length - n + 1:]:
                    want[r, row[i + n - 1]] = -np.inf
        yield Case("NGramRepeatBlock", "", [ids, scores], domain=MS, ngram_size=n), [want]
    for shape, dim, size, step, kind in (((3, 20), -1, 4, 2, np.float32), ((5, 3, 4), 0, 2, 1, np.int64), ((2, 9, 3), 1, 9, 5, np.float64)):
        x = RNG.integers(0, 99, shape).astype(kind)
        view = np.lib.stride_tricks.sliding_window_view(x, size, dim)
        yield Case("UnfoldTensor", "", [x], domain=MS, dim=dim, size=size, step=step), [
            np.take(view, range(0, view.shape[dim % x.ndim], step), dim % x.ndim)]
    for rows, columns in ((1, 1), (4, 9), (9, 4), (1, 6), (20, 31)):
        x = f(rows, columns)
        cost = np.full((rows + 1, columns + 1), np.inf)
        cost[0, 0] = 0
        for i, j in np.ndindex(rows, columns):
            cost[i + 1, j + 1] = x[i, j] + min(cost[i, j], cost[i, j + 1], cost[i + 1, j])
        path, i, j = [], rows, columns
        while i or j:
            path.insert(0, (i - 1, j - 1))
            before = [(i - 1, j - 1), (i - 1, j), (i, j - 1)]
            i, j = min((b for b in before if min(b) >= 0), key=lambda b: cost[b])
        yield Case("DynamicTimeWarping", "", [x[None]], domain=MS), [np.array(path, np.int32).T]
    assert murmur(b"\xff" * 4, 0) == 0x76293b50 and murmur(b"", 1) == 0x514e28b7 and murmur(b"test", 0) == 0xba6bd213
    for kind, seed in itertools.product((np.int32, np.uint32, np.int64, np.float32, np.float64), (0, 77)):
        x = RNG.integers(0, 1000, (3, 5)).astype(kind)
        want = np.array([murmur(v.tobytes(), seed) for v in x.ravel()], np.uint32).reshape(x.shape)
        yield Case("MurmurHash3", "", [x], domain=MS, seed=seed), [want]
        yield Case("MurmurHash3", "", [x], domain=MS, seed=seed, positive=0), [want.view(np.int32)]


def listed():
    x = RNG.integers(-4, 4, 50).astype(np.float32)
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    yield Case("Unique", "", [x], domain=MS, outputs=3), [values[order], np.argsort(order)[inverse], counts[order]]
    for kind in (np.float32, np.float64, np.int32, np.int64, np.int16):
        start, limit, step = np.array(3, kind), np.array(21, kind), np.array(4, kind)
        yield Case("Range", "", [c(start), c(limit), c(step)], domain=MS), [np.arange(3, 21, 4, dtype=kind)]
        yield Case("Range", "", [start, limit], domain=MS), [np.arange(3, 21, dtype=kind)]


FAMILIES = {dynamic_slice: 9, once: 9, crops: 17, bytes_last: 17, spoken: 17, listed: 17}
