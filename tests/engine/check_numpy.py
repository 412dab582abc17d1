#!/usr/bin/env python3
"""Operators of odd shapes, types and attributes on the native engine, compared with numpy.

usage: check_numpy.py OPMETER [FAMILY...]

Every family yields nodes and what numpy makes of their inputs; the nodes of a family are one model, which is run with
every instruction set and with one and two threads. Exits with 77, for "skipped", where there is no numpy.
"""
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("numpy is not installed")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import numpy_contrib  # noqa: E402
import numpy_images  # noqa: E402
import numpy_more  # noqa: E402
import numpy_newer  # noqa: E402
import numpy_odd  # noqa: E402
import numpy_rows  # noqa: E402
import numpy_typed  # noqa: E402
import numpy_windows  # noqa: E402
from machine import PATIENCE, instruction_sets  # noqa: E402
from numpy_windows import windows  # noqa: E402
from ops_cases import Case, c, ci, d, f, given, i64, ints, model  # noqa: E402

RNG = np.random.default_rng(11)
TINY = np.float32(1e-3)


def dft():
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 30, 31, 32, 37, 49, 61, 64, 74, 100, 101, 121, 210, 256, 509, 1000, 1024):
        for rows in (1, 2, 3, 17):
            x = d(rows, n, 1)
            full = np.fft.fft(x[..., 0], axis=1)
            yield Case("DFT", "", [x], axis=1), [parts(full)]
            yield Case("DFT", "", [x], axis=1, onesided=1), [parts(full[:, :n // 2 + 1])]
            yield Case("DFT", "", [x], axis=1, inverse=1), [parts(np.fft.ifft(x[..., 0], axis=1))]
        z = d(3, n, 2, 2)
        both = z[..., 0] + 1j * z[..., 1]
        yield Case("DFT", "", [z], axis=1), [parts(np.fft.fft(both, axis=1))]
        yield Case("DFT", "", [z], axis=-3, inverse=1), [parts(np.fft.ifft(both, axis=1))]
    for length in (1, 5, 16, 50, 128):
        x = f(2, 20, 3, 1)
        yield Case("DFT", "", [x, ci(length)], axis=1), [parts(np.fft.fft(x[..., 0], length, axis=1))]
        yield Case("DFT", "", [x, ci(length)], axis=2), [parts(np.fft.fft(x[..., 0], length, axis=2))]
    x = f(1, 6000, 2)
    yield Case("DFT", "", [x], axis=1), [parts(np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=1))]


def parts(z):
    return np.stack([z.real, z.imag], -1)


def stft():
    for length, step, frame in ((400, 10, 37), (1000, 160, 400), (64, 64, 64), (99, 1, 16), (50, 7, 13)):
        x, window = f(2, length, 1), np.hanning(frame).astype(np.float32)
        z = f(3, length, 2)
        starts = range(0, length - frame + 1, step)
        real = np.stack([np.fft.fft(x[:, s:s + frame, 0] * window, axis=1) for s in starts], 1)
        plain = np.stack([np.fft.fft(z[:, s:s + frame, 0] + 1j * z[:, s:s + frame, 1], axis=1) for s in starts], 1)
        yield Case("STFT", "", [x, c(np.int64(step)), c(window)], onesided=0), [parts(real)]
        yield Case("STFT", "", [x, c(np.int64(step)), c(window)], onesided=1), [parts(real[..., :frame // 2 + 1])]
        yield Case("STFT", "", [z, c(np.int64(step)), None, c(np.int64(frame))], onesided=0), [parts(plain)]


EQUATIONS = ["bhid,bhjd->bhij", "bhij,bhjd->bhid", "ij,jk", "ij,jk->ki", "ij,kj->ik", "ji,jk->ik", "i,i->", "i,j->ij", "ij->ji",
             "ij->", "ij->i", "ij->j", "bij->bi", "ii->i", "ii", "bii->b", "...ij,...jk->...ik", "...i,...i->...", "ij,i->ij",
             "ij,ij->ij", "ij,ij->i", "abc,cd,de->abe", "nkctv,kvw->nctw", "bchw,bkhw->bck", "bhwc,hkc->bhwk", "ab,cd->acbd",
             "ab,cd->dbca", "iji,ik->jk", "a,ab,abc->abc", "b...,b...->b...", "ij,k->ij", "ab,bc,ca->", "abcd,abef->abcdef",
             "ijk,lk->jil"]


def einsum():
    sizes = dict(zip("abcdefhijklnmtvwx", (2, 3, 4, 5, 2, 3, 4, 5, 7, 6, 3, 2, 4, 5, 6, 3, 4)))
    for equation, kind in itertools.product(EQUATIONS, (np.float32, np.float64, np.int32, np.int64)):
        shapes = []
        for term in equation.split("->")[0].split(","):
            shapes.append([s for letter in term.replace("...", ".") for s in
                           ((2, 3) if letter == "." else (sizes[letter],))])
        xs = [RNG.integers(-4, 5, s).astype(kind) for s in shapes]
        yield Case("Einsum", "", xs, equation=equation), [np.einsum(equation, *xs)]
    for m, k, n in ((1, 1, 1), (17, 33, 65), (100, 300, 30)):
        a, b = f(m, k), f(k, n)
        yield Case("Einsum", "", [a, b], equation="mk,kn->mn"), [a.astype(float) @ b]
        yield Case("Einsum", "", [b, a], equation="kn,mk->nm"), [(a.astype(float) @ b).T]
    a, b = f(3, 1, 4), f(1, 5, 4)  # sizes of 1 are broadcast
    yield Case("Einsum", "", [a, b], equation="...i,...i->..."), [np.einsum("...i,...i->...", a, b)]


def matmul():
    for kind in (np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64):
        for m, k, n in ((1, 1, 1), (1, 7, 33), (2, 0, 3), (5, 300, 17), (9, 16, 16), (33, 65, 31), (8, 8, 1), (70, 3, 70)):
            a = RNG.integers(0 if kind(0) - 1 > 0 else -9, 99, (m, k)).astype(kind)
            b = RNG.integers(0, 99, (k, n)).astype(kind)
            yield Case("MatMul", "", [a, b]), [a @ b]
            yield Case("MatMul", "", [a, c(b)]), [a @ b]
            if kind(.5) == .5:
                extra, alpha = RNG.integers(0, 9, (m, n)).astype(kind), .5
                yield Case("Gemm", "", [np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), extra], transA=1, transB=1,
                           alpha=alpha, beta=2.), [alpha * (a @ b) + 2 * extra]
                yield Case("Gemm", "", [a, c(b), c(extra[0])]), [a @ b + extra[0]]
        a, b = RNG.integers(0, 99, (2, 1, 5, 6)).astype(kind), RNG.integers(0, 99, (3, 6, 4)).astype(kind)
        yield Case("MatMul", "", [a, b]), [a @ b]
        yield Case("MatMul", "", [a, b[0, :, 0]]), [a @ b[0, :, 0]]
    big = ints(np.int32, -2**31, 2**31 - 1, 20, 20)
    yield Case("MatMul", "", [big, big]), [big @ big]


def ranks(x, axis, k, largest):
    """Indices of the k greatest or smallest, the first of equal ones first."""
    order = np.argsort(-x.astype(float) if largest else x, axis=axis, kind="stable")
    return np.take(order, range(k), axis=axis).astype(np.int64)


def topk():
    for kind in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8):
        for shape, axis, k in (((1, 1), 1, 1), ((5, 40), 1, 3), ((5, 40), -1, 40), ((40, 5), 0, 7), ((3, 50, 4), 1, 20), ((2, 999), 1, 1),
                               ((2, 999), 1, 500), ((1, 5000), 1, 100), ((4, 17), 1, 0)):
            for largest in (0, 1):
                x = RNG.integers(0, 60, shape).astype(kind)
                at = ranks(x, axis, k, largest)
                yield Case("TopK", "", [x, ci(k)], outputs=2, axis=axis, largest=largest), [
                    np.take_along_axis(x, at, axis), at]
    x = f(3, 64)
    x[0, 5] = x[1, 7] = np.inf
    x[0, 6] = x[2, 3] = -np.inf
    x[1, 8:12] = 0
    x[1, 9] = -0.
    for largest in (0, 1):
        at = ranks(x, 1, 64, largest)
        yield Case("TopK", "", [x, ci(64)], outputs=2, axis=1, largest=largest), [np.take_along_axis(x, at, 1), at]
    big = ints(np.int64, -2**62, 2**62, 4, 100)
    big[0, :3] = 2**62 + 1, 2**62 + 2, 2**62 + 3  # the same as doubles
    at = np.argsort(~big, axis=1, kind="stable")[:, :10]
    yield Case("TopK", "", [big, ci(10)], outputs=2), [np.take_along_axis(big, at, 1), at]


def argmax():
    for kind in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8):
        for shape, axis in (((7,), 0), ((3, 100), 1), ((100, 3), 0), ((2, 21, 40), 1), ((4, 5, 6), -1), ((2, 1, 3), 1), ((5, 129), -1)):
            x = RNG.integers(0, 20, shape).astype(kind)
            for name, last, keep in itertools.product(("ArgMax", "ArgMin"), (0, 1), (0, 1)):
                find = np.argmax if name == "ArgMax" else np.argmin
                at = x.shape[axis] - 1 - find(np.flip(x, axis), axis) if last else find(x, axis)
                yield Case(name, "", [x], axis=axis, select_last_index=last, keepdims=keep), [
                    np.expand_dims(at, axis) if keep else at]


POOLS = [((1, 2, 9), [3], [1], [0, 0], [1]), ((2, 3, 10), [3], [2], [1, 1], [1]), ((1, 2, 9), [2], [2], [0, 0], [3]),
         ((1, 3, 8, 8), [2, 2], [2, 2], [0] * 4, [1, 1]), ((2, 2, 7, 40), [3, 3], [2, 2], [1] * 4, [1, 1]),
         ((1, 2, 33, 33), [3, 3], [1, 1], [1] * 4, [1, 1]), ((1, 2, 9, 37), [5, 5], [1, 1], [2] * 4, [1, 1]),
         ((1, 1, 20, 20), [3, 2], [3, 1], [0, 1, 2, 0], [1, 1]), ((1, 2, 20, 35), [3, 3], [1, 1], [2] * 4, [2, 2]),
         ((1, 2, 7, 7), [7, 7], [1, 1], [0] * 4, [1, 1]), ((1, 1, 5, 100), [1, 4], [1, 4], [0] * 4, [1, 1]),
         ((2, 2, 6, 7, 19), [2, 2, 2], [2, 2, 2], [0] * 6, [1] * 3), ((1, 2, 5, 6, 18), [3, 3, 3], [1, 2, 1], [1] * 6, [1] * 3)]


def pool():
    for (shape, kernel, stride, pads, dilation), kind in itertools.product(POOLS, (np.float32, np.float64, np.uint8, np.int8)):
        x = (RNG.standard_normal(shape) * 20).astype(kind)
        axes = tuple(range(-len(kernel), 0))
        common = {"kernel_shape": kernel, "strides": stride, "pads": pads}
        low = np.iinfo(kind).min if kind in (np.uint8, np.int8) else -np.inf
        yield Case("MaxPool", "", [x], dilations=dilation, **common), [windows(x, kernel, stride, pads, dilation, low).max(axes)]
        if kind in (np.uint8, np.int8):
            continue
        index = np.arange(x.size, dtype=np.float64).reshape(shape)
        at = windows(x, kernel, stride, pads, dilation, low)
        flat = at.reshape(*at.shape[:-len(kernel)], -1)
        place = windows(index, kernel, stride, pads, dilation, -1).reshape(flat.shape)
        best = np.take_along_axis(place, flat.argmax(-1)[..., None], -1)[..., 0].astype(np.int64)
        yield Case("MaxPool", "", [x], dilations=dilation, outputs=2, **common), [flat.max(-1), best]
        # Dilations of AveragePool came with version 19; where there are none it is the same.
        sums = windows(x, kernel, stride, pads, dilation, 0).sum(axes)
        count = windows(np.ones_like(x), kernel, stride, pads, dilation, 0).sum(axes)
        yield Case("AveragePool", "", [x], dilations=dilation, **common), [sums / count]
        yield Case("AveragePool", "", [x], dilations=dilation, count_include_pad=1, **common), [sums / np.prod(kernel)]
        squares = windows(np.abs(x.astype(float)), kernel, stride, pads, dilation, 0)
        for p in (1, 2, 3):
            yield Case("LpPool", "", [x], dilations=dilation, p=p, **common), [(squares ** p).sum(axes) ** (1 / p)]
    for shape in ((1, 3, 50), (2, 3, 7, 7), (1, 2, 3, 4, 5), (1, 1, 33, 33)):
        x = f(*shape)
        axes = tuple(range(2, len(shape)))
        yield Case("GlobalAveragePool", "", [x]), [x.mean(axes, keepdims=True)]
        yield Case("GlobalMaxPool", "", [x]), [x.max(axes, keepdims=True)]
        yield Case("GlobalLpPool", "", [x], p=2), [np.sqrt((x ** 2).sum(axes, keepdims=True))]
    nan = f(1, 1, 6, 40)
    nan[0, 0, 2, 3] = nan[0, 0, 3, 39] = np.nan
    yield Case("MaxPool", "", [nan], kernel_shape=[2, 2]), [windows(nan, [2, 2], [1, 1], [0] * 4, [1, 1], 0).max((-2, -1))]


def conv_transpose():
    for shape, weights, group, stride, pads, dilation in (
            ((1, 2, 5), (2, 3, 3), 1, [1], [0, 0], [1]), ((2, 4, 9), (4, 2, 5), 2, [3], [1, 2], [1]),
            ((1, 1, 20), (1, 1, 16), 1, [4], [0, 0], [1]), ((1, 6, 11), (6, 1, 4), 6, [2], [1, 1], [2]),
            ((1, 3, 5, 6), (3, 4, 2, 2), 1, [2, 2], [0] * 4, [1, 1]), ((2, 4, 7, 5), (4, 3, 4, 4), 1, [2, 2], [1] * 4, [1, 1]),
            ((1, 4, 6, 6), (4, 2, 3, 3), 2, [1, 1], [1] * 4, [1, 1]), ((1, 4, 6, 17), (4, 1, 4, 4), 4, [2, 2], [1] * 4, [1, 1]),
            ((1, 2, 4, 4), (2, 5, 3, 2), 1, [3, 1], [0, 1, 2, 0], [1, 2]), ((1, 16, 9, 9), (16, 33, 3, 3), 1, [2, 2], [1] * 4, [1, 1]),
            ((2, 5, 4, 7), (5, 3, 2, 2), 1, [2, 2], [0] * 4, [1, 1]), ((1, 8, 3, 5), (8, 2, 3, 3), 2, [3, 3], [0] * 4, [1, 1]),
            ((1, 4, 3, 2, 5), (4, 2, 2, 2, 2), 1, [2] * 3, [0] * 6, [1] * 3), ((1, 4, 5, 9), (4, 3, 1, 2), 1, [1, 2], [0] * 4, [1, 1]),
            ((1, 4, 5, 9), (4, 3, 2, 1), 1, [2, 1], [0] * 4, [1, 1]), ((1, 5, 6, 8), (5, 2, 3, 3), 1, [2, 2], [0] * 4, [1, 1])):
        x, w = f(*shape), f(*weights)
        b = f(weights[1] * group)
        n = len(stride)
        size = [(shape[2 + i] - 1) * stride[i] + (weights[2 + i] - 1) * dilation[i] + 1 for i in range(n)]
        y = np.zeros((shape[0], weights[1] * group, *size))
        per = shape[1] // group
        for g, taps in itertools.product(range(group), np.ndindex(*weights[2:])):
            part = np.einsum("nc...,cm->nm...", x[:, g * per:(g + 1) * per].astype(float), w[(slice(g * per, (g + 1) * per), slice(None), *taps)])
            where = tuple(slice(t * dl, t * dl + (s - 1) * st + 1, st) for t, dl, s, st in zip(taps, dilation, shape[2:], stride))
            y[(slice(None), slice(g * weights[1], (g + 1) * weights[1]), *where)] += part
        y = y[(Ellipsis, *[slice(pads[i], size[i] - pads[n + i]) for i in range(n)])] + b.reshape(-1, *[1] * n)
        attributes = {"group": group, "strides": stride, "pads": pads, "dilations": dilation}
        yield Case("ConvTranspose", "", [x, c(w), c(b)], **attributes), [y]
        yield Case("ConvTranspose", "", [x, w, b], **attributes), [y]
        more = [s - 1 for s in stride]
        padded = np.pad(y, [(0, 0), (0, 0)] + [(0, m) for m in more], constant_values=np.nan)
        if not any(more):
            yield Case("ConvTranspose", "", [x, c(w), c(b)], output_padding=more, **attributes), [padded]
    # What output_shape leaves out is split; the larger half is before, but with SAME_UPPER.
    x, w = f(1, 1, 1, 5), f(1, 1, 3, 3)
    whole = np.zeros((1, 1, 3, 7))
    for i, j in np.ndindex(3, 3):
        whole[:, :, i, j:j + 5] += x[0, 0, 0] * w[0, 0, i, j]
    for size in ([3, 6], [2, 7], [1, 4]):
        for how in ("NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID"):
            left = [(full - s + (how != "SAME_UPPER")) // 2 for full, s in zip((3, 7), size)]
            yield Case("ConvTranspose", "", [x, c(w)], output_shape=size, auto_pad=how), [
                whole[:, :, left[0]:left[0] + size[0], left[1]:left[1] + size[1]]]


def sizes(scale, length):
    return int(np.floor(np.float32(scale) * length))


def resize():
    for shape, scales in (((1, 2, 7), (2.,)), ((1, 3, 8), (.5,)), ((1, 2, 5, 6), (2., 2.)), ((2, 1, 9, 20), (1.5, 3.)), ((1, 2, 10, 12), (.5, .25)),
                          ((1, 2, 4, 5), (1., 2.)), ((1, 2, 3, 40), (3., 1.)), ((1, 1, 3, 4, 5), (2., 1., 2.))):
        x = f(*shape)
        scale = c(np.array((1, 1) + scales, np.float32))
        out = [sizes(s, n) for s, n in zip(scales, shape[2:])]
        for mode in ("half_pixel", "asymmetric", "align_corners"):
            at = []
            for s, n, m in zip(scales, shape[2:], out):
                i, s = np.arange(m), float(np.float32(s))
                at.append((i + .5) / s - .5 if mode == "half_pixel" else i / s if mode == "asymmetric" else
                          i * (n - 1) / max(s * n - 1, 1))
            linear, floor = x.astype(float), x
            for a, (p, n) in enumerate(zip(at, shape[2:])):
                p0 = np.clip(p, 0, n - 1)
                lo = np.floor(p0).astype(int)
                hi = np.minimum(lo + 1, n - 1)
                w = (p0 - lo).reshape(-1, *[1] * (len(at) - 1 - a))
                linear = np.take(linear, lo, 2 + a) * (1 - w) + np.take(linear, hi, 2 + a) * w
                floor = np.take(floor, np.clip(np.floor(np.float32(p)), 0, n - 1).astype(int), 2 + a)
            yield Case("Resize", "", [x, None, scale], mode="linear", coordinate_transformation_mode=mode), [linear]
            yield Case("Resize", "", [x, None, scale], mode="nearest", coordinate_transformation_mode=mode, nearest_mode="floor"), [floor]
    # twice as many bytes, along rows alone and with each row twice
    for width, high in itertools.product((1, 3, 8, 15, 16, 17, 33, 40), (1, 2, 3)):
        x = ints(np.uint8, 0, 256, 2, 3, 5, width)
        yield Case("Resize", "", [x, None, c(np.array([1, 1, high, 2], np.float32))], mode="nearest",
                   coordinate_transformation_mode="asymmetric", nearest_mode="floor"), [x.repeat(high, 2).repeat(2, 3)]


def gather():
    for shape, axis, count in (((40,), 0, 9), ((5, 30), 1, 12), ((30, 5), 0, 12), ((2, 30, 7), 1, 50), ((3, 4, 9), -1, 5)):
        for kind, index in itertools.product((np.float32, np.int64, np.uint8), (np.int32, np.int64)):
            x = RNG.integers(0, 99, shape).astype(kind)
            n = shape[axis]
            to = list(shape)
            to[axis] = count
            at = RNG.integers(-n, n, to).astype(index)
            yield Case("GatherElements", "", [x, at], axis=axis), [np.take_along_axis(x, at.astype(int) % n, axis)]
            few = list(shape)
            few[axis] = min(count, n // 2)
            at = np.take(np.argsort(RNG.random(shape), axis=axis), range(few[axis]), axis).astype(index)
            at = np.where(RNG.random(few) < .5, at, at - n).astype(index)
            new = RNG.integers(0, 99, few).astype(kind)
            want = x.copy()
            np.put_along_axis(want, at.astype(int) % n, new, axis)
            yield Case("ScatterElements", "", [x, at, new], axis=axis), [want]
    for shape, deep, count in (((50,), 1, 7), ((20, 30), 2, 40), ((20, 30), 1, 6), ((6, 7, 33), 2, 30), ((6, 7, 5), 3, 60)):
        for kind in (np.float32, np.int64, np.uint8):
            x = RNG.integers(0, 9, shape).astype(kind)
            flat = RNG.permutation(int(np.prod(shape[:deep])))[:count]
            at = np.stack(np.unravel_index(flat, shape[:deep]), -1).astype(np.int64)
            signed = np.where(RNG.random(at.shape) < .5, at, at - np.array(shape[:deep]))
            key = tuple(at.T)
            yield Case("GatherND", "", [x, signed]), [x[key]]
            new = RNG.integers(0, 9, (len(flat), *shape[deep:])).astype(kind)
            want = x.copy()
            want[key] = new
            yield Case("ScatterND", "", [x, signed, new]), [want]
            if kind == np.uint8:
                continue
            twice = np.concatenate([signed, signed])
            double = np.concatenate([new, new])
            want = x.copy()
            np.add.at(want, key, new)
            np.add.at(want, key, new)
            yield Case("ScatterND", "", [x, twice, double], reduction="add"), [want]


SHAPES = [((7,), (7,)), ((3, 40), (40,)), ((3, 40), (3, 1)), ((1, 5, 6, 70), (1, 5, 1, 1)), ((4, 1, 33), (1, 5, 33)), ((2, 3, 1, 5), (1, 3, 4, 1)),
          ((6, 70), ()), ((), ()), ((1,), (5, 17)), ((0, 3), (1, 3))]


def binary():
    for (a, b), kind in itertools.product(SHAPES, (np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)):
        low = 0 if np.dtype(kind).kind == "u" else -9
        x, y = RNG.integers(low, 9, a).astype(kind), RNG.integers(1, 9, b).astype(kind)
        x, y = np.asarray(x), np.asarray(y)
        yield Case("Add", "", [x, y]), [x + y]
        yield Case("Sub", "", [x, y]), [x - y]
        yield Case("Mul", "", [x, y]), [x * y]
        div = x / y if np.dtype(kind).kind == "f" else np.trunc(x.astype(float) / y)
        yield Case("Div", "", [x, y]), [np.asarray(div, kind)]
        yield Case("Max", "", [x, y]), [np.maximum(x, y)]
        yield Case("Min", "", [y, x]), [np.minimum(y, x)]
        yield Case("Equal", "", [x, y]), [x == y]
        yield Case("Less", "", [x, y]), [x < y]
        yield Case("Greater", "", [y, x]), [y > x]
        yield Case("LessOrEqual", "", [x, y]), [x <= y]
        yield Case("GreaterOrEqual", "", [x, y]), [x >= y]
        mask = np.asarray(RNG.integers(0, 2, b).astype(bool))
        yield Case("Where", "", [mask, x, y]), [np.where(mask, x, y)]
        yield Case("Where", "", [np.asarray(RNG.integers(0, 2, a).astype(bool)), c(np.asarray(kind(3))), y]), [None]
        if np.dtype(kind).kind != "f":
            yield Case("Mod", "", [x, y]), [x % y]
    for a, b in SHAPES:
        x, y = np.asarray(RNG.integers(0, 2, a).astype(bool)), np.asarray(RNG.integers(0, 2, b).astype(bool))
        yield Case("And", "", [x, y]), [x & y]
        yield Case("Or", "", [x, y]), [x | y]
        yield Case("Xor", "", [y, x]), [x ^ y]
        x, y = np.asarray(f(*a)), np.asarray(f(*b))
        yield Case("PRelu", "", [x, y]) if np.broadcast_shapes(a, b) == a else Case("Add", "", [x, y]), [
            np.where(x < 0, x * y, x) if np.broadcast_shapes(a, b) == a else x + y]
    odd = np.array([np.nan, 1, -1, np.inf, -np.inf, 0, -0.] * 5, np.float32)
    for kind in (np.float32, np.float64):
        x, y = odd.astype(kind), np.roll(odd, 3).astype(kind)
        for name, want in (("Max", np.maximum), ("Min", np.minimum), ("Less", np.less), ("Equal", np.equal), ("GreaterOrEqual", np.greater_equal)):
            yield Case(name, "", [x, y]), [want(x, y)]
    edge = np.array([2**31 - 1, -2**31, -2**31, 7, -7, 5], np.int32), np.array([2, -1, 3, -2, 2, 5], np.int32)
    yield Case("Div", "", list(edge)), [np.array([2**30 - 1, -2**31, -715827882, -3, -3, 1], np.int32)]


def norm():
    for shape in ((1, 2, 5), (2, 3, 7, 7), (1, 4, 33, 31), (1, 2, 3, 4, 5), (1, 3, 1000), (1, 2, 4, 1)):
        x, s, b = f(*shape) + 3, f(shape[1]), f(shape[1])
        axes, tall = tuple(range(2, len(shape))), (-1, *[1] * (len(shape) - 2))
        y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + TINY)
        yield Case("InstanceNormalization", "", [x, c(s), c(b)], epsilon=float(TINY)), [y * s.reshape(tall) + b.reshape(tall)]
        yield Case("InstanceNormalization", "", [x, s, b], epsilon=float(TINY)), [y * s.reshape(tall) + b.reshape(tall)]
    for shape, axis in (((3, 40), 1), ((40, 3), 0), ((2, 5, 33), 1), ((1, 200), -1), ((4, 7, 1), 1)):
        x = f(*shape, scale=4)
        top = x - x.max(axis, keepdims=True)
        log = top - np.log(np.exp(top).sum(axis, keepdims=True))
        yield Case("LogSoftmax", "", [x], axis=axis), [log]
        yield Case("Softmax", "", [x], axis=axis), [np.exp(log)]
        yield Case("Softmax", "", [x.astype(np.float64)], axis=axis), [np.exp(log)]
        first = np.zeros_like(x)
        np.put_along_axis(first, np.expand_dims(x.argmax(axis), axis), 1, axis)
        yield Case("Hardmax", "", [x], axis=axis), [first]
        yield Case("CumSum", "", [x, ci(axis)]), [np.cumsum(x, axis)]
        for kind in (np.int32, np.int64, np.float64):
            whole = RNG.integers(-9, 9, shape).astype(kind)
            yield Case("CumSum", "", [whole, ci(axis)]), [np.cumsum(whole, axis)]
    for shape, axes in (((2, 3, 40), (0, 2)), ((5, 70), (0,)), ((5, 70), (1,)), ((3, 4, 5, 6), (1, 3)), ((3, 4, 5, 6), (1, 2)), ((1, 8, 9, 9), (0, 2, 3))):
        x = f(*shape) + 2
        y = (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9)
        yield Case("MeanVarianceNormalization", "", [x], axes=list(axes)), [y]
        for kind in (np.float32, np.float64, np.int32, np.int64):
            x = RNG.integers(1, 9, shape).astype(kind)
            if np.prod([shape[a] for a in axes]) > 12:
                x = np.minimum(x, 1 + (RNG.random(shape) < .1)).astype(kind)
            yield Case("ReduceSum", "", [x, ci(*axes)]), [x.sum(axes, keepdims=True)]
            yield Case("ReduceMax", "", [x], axes=list(axes)), [x.max(axes, keepdims=True)]
            yield Case("ReduceMin", "", [x], axes=list(axes), keepdims=0), [x.min(axes)]
            yield Case("ReduceProd", "", [x], axes=list(axes)), [x.prod(axes, keepdims=True, dtype=kind)]
            if kind in (np.float32, np.float64):
                yield Case("ReduceMean", "", [x], axes=list(axes)), [x.mean(axes, keepdims=True)]
                yield Case("ReduceLogSumExp", "", [x], axes=list(axes)), [np.log(np.exp(x).sum(axes, keepdims=True))]
                yield Case("ReduceLogSum", "", [x], axes=list(axes)), [np.log(x.sum(axes, keepdims=True))]
                yield Case("ReduceL1", "", [-x], axes=list(axes)), [x.sum(axes, keepdims=True)]
                yield Case("ReduceL2", "", [-x], axes=list(axes)), [np.sqrt((x * x).sum(axes, keepdims=True))]


def unary():
    kinds = (np.float32, np.float64, np.int8, np.int16, np.int32, np.int64)
    for kind in kinds:
        x = RNG.integers(-60, 60, (3, 37)).astype(kind)
        if np.dtype(kind).kind == "f":
            x /= 7
        yield Case("Abs", "", [x]), [np.abs(x)]
        yield Case("Neg", "", [x]), [-x]
        yield Case("Sign", "", [x]), [np.sign(x)]
    for name, function, low, high in (("Acos", np.arccos, -1, 1), ("Asin", np.arcsin, -1, 1), ("Atan", np.arctan, -30, 30),
                                      ("Acosh", np.arccosh, 1, 30), ("Asinh", np.arcsinh, -30, 30), ("Atanh", np.arctanh, -.99, .99),
                                      ("Tan", np.tan, -1.5, 1.5), ("Sinh", np.sinh, -9, 9), ("Cosh", np.cosh, -9, 9), ("Floor", np.floor, -9, 9),
                                      ("Ceil", np.ceil, -9, 9), ("Round", np.rint, -9, 9), ("Sqrt", np.sqrt, 0, 9), ("Exp", np.exp, -9, 9),
                                      ("Sin", np.sin, -9, 9), ("Cos", np.cos, -9, 9), ("Tanh", np.tanh, -9, 9)):
        for kind in (np.float32, np.float64):
            x = RNG.uniform(low, high, (5, 41)).astype(kind)
            yield Case(name, "", [x]), [function(x)]
    names = "float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split()
    types_ = dict(zip(names, (1, 11, 3, 2, 5, 4, 6, 12, 7, 13, 9)))
    for a, b in itertools.product(names, names):
        x = RNG.uniform(0, 100, (3, 43)).astype(a)
        x[0, :5] = 0
        yield Case("Cast", "", [x], to=types_[b]), [x.astype(b)]


FAMILIES = (dft, stft, einsum, matmul, topk, argmax, pool, conv_transpose, resize, gather, binary, norm, unary,
            *numpy_newer.FAMILIES, *numpy_contrib.FAMILIES, *numpy_typed.FAMILIES, *numpy_rows.FAMILIES, *numpy_images.FAMILIES,
            *numpy_windows.FAMILIES, *numpy_odd.FAMILIES, *numpy_more.FAMILIES)
OPSETS = {pool: 19, **numpy_newer.FAMILIES, **numpy_contrib.FAMILIES, **numpy_typed.FAMILIES, **numpy_rows.FAMILIES,
          **numpy_images.FAMILIES, **numpy_windows.FAMILIES, **numpy_odd.FAMILIES, **numpy_more.FAMILIES}


def run(tool, sets, family, folder):
    """What is wrong with a family, as lines."""
    cases, wanted = zip(*family())
    cases[0].opset = OPSETS.get(family, 17)
    file, ref = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.npz")
    pathlib.Path(file).write_bytes(model(cases))
    arrays = {f"in_{name}": x for name, x in given(cases)}
    for k, want in enumerate(wanted):
        arrays.update({f"out_y{k}_{i}": np.asarray(w) for i, w in enumerate(want) if w is not None})
    np.savez(ref, **arrays)
    wrong = []
    for i, isa in enumerate(sets):
        threads = i % 2 + 1
        done = subprocess.run([tool, "run", file, "--check", ref, "--engine", "native", "--threads", str(threads), "-n", "2", "-w", "0",
                               "-o", folder, "--atol", "1e-4", "--rtol", "1e-4"], capture_output=True, text=True, timeout=250 * PATIENCE,
                              env={**os.environ, "OPMETER_ISA": isa})
        if done.returncode:
            wrong.append(f"{family.__name__}, {isa}, {threads} threads: exit {done.returncode}: {(done.stderr + done.stdout).strip()[:600]}")
    return wrong


def main():
    picked = [x for x in FAMILIES if not sys.argv[2:] or x.__name__ in sys.argv[2:]]
    sets, wrong = instruction_sets(sys.argv[1]), []
    with tempfile.TemporaryDirectory() as folder:
        for family in picked:
            wrong += run(sys.argv[1], sets, family, folder)
    for line in wrong:
        print(line)
    print(f"{len(picked)} families, {len(wrong)} wrong")
    return bool(wrong) or not picked


if __name__ == "__main__":
    sys.exit(main())
