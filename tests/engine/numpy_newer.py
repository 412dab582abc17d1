"""Families of check_numpy.py: operators and forms of operators that came with newer opsets, and of com.microsoft."""
import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from ops_cases import Case, block, c, ci, f, number, tensor  # noqa: E402

RNG = np.random.default_rng(23)


def kernel(mode, x, a):
    x = np.abs(x)
    if mode == "linear":
        return np.clip(1 - x, 0, 1)
    near = (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1
    far = a * x ** 3 - 5 * a * x ** 2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def filtered(x, axis, size, scale, mode, a=-.75, exclude=False):
    """One axis, half_pixel: the filter is stretched where it shrinks, what is outside counts as the edge."""
    n, s = x.shape[axis], min(scale, 1)
    rows = np.zeros((size, n))
    for o in range(size):
        at = (o + .5) / scale - .5
        pixels = np.arange(np.floor(at - 3 / s), np.ceil(at + 3 / s) + 1).astype(int)
        weights = kernel(mode, (pixels - at) * s, a)
        if exclude:
            weights = np.where((pixels >= 0) & (pixels < n), weights, 0)
        np.add.at(rows[o], np.clip(pixels, 0, n - 1), weights / weights.sum())
    return np.moveaxis(np.tensordot(rows, x, (1, axis)), 0, axis)


def antialias():
    for shape, scales in (((1, 1, 4, 4), (.6, .6)), ((2, 3, 30, 17), (.3, .45)), ((1, 2, 9, 40), (.11, 2.)), ((1, 2, 7, 7), (1., .2)),
                          ((1, 2, 50), (.07,)), ((1, 1, 6, 8, 10), (.5, .7, .2))):
        x = f(*shape)
        out = [int(np.floor(np.float32(s) * np.float32(n))) for s, n in zip(scales, shape[2:])]
        for mode, exclude in itertools.product(("linear", "cubic"), (0, 1)):
            y = x.astype(float)
            for i, (s, size) in enumerate(zip(scales, out)):
                if s != 1:
                    y = filtered(y, 2 + i, size, float(np.float32(s)), mode, exclude=exclude)
            yield Case("Resize", "", [x, None, c(np.array((1, 1) + scales, np.float32))], mode=mode, antialias=1,
                       exclude_outside=exclude), [y]
    x = f(1, 2, 20, 30)
    y = filtered(filtered(x.astype(float), 2, 9, 9 / 20, "cubic", -.5), 3, 11, 11 / 30, "cubic", -.5)
    yield Case("Resize", "", [x, None, None, ci(9, 11)], mode="cubic", antialias=1, cubic_coeff_a=-.5, axes=[2, 3]), [y]
    image = RNG.integers(0, 256, (1, 3, 20, 31)).astype(np.uint8)
    y = filtered(filtered(image.astype(float), 2, 7, 7 / 20, "linear"), 3, 10, 10 / 31, "linear")
    yield Case("Resize", "", [image, None, None, ci(1, 3, 7, 10)], mode="linear", antialias=1), [np.rint(y).astype(np.uint8)]


def aspect():
    for policy, mode in itertools.product(("not_larger", "not_smaller"), ("linear", "cubic")):
        x = f(1, 2, 10, 15)
        for wanted in ((7, 8), (30, 20), (9, 100)):
            pick = min if policy == "not_larger" else max
            ratio = pick(w / n for w, n in zip(wanted, (10, 15)))
            size = [int(ratio * n + .5) for n in (10, 15)]
            y = x.astype(float)
            for i in (0, 1):
                rows = np.zeros((size[i], (10, 15)[i]))
                for o in range(size[i]):
                    at = (o + .5) / ratio - .5
                    pixels = int(np.floor(at)) + np.arange(-1, 3)
                    np.add.at(rows[o], np.clip(pixels, 0, rows.shape[1] - 1), kernel(mode, pixels - at, -.75))
                y = np.moveaxis(np.tensordot(rows, y, (1, 2 + i)), 0, 2 + i)
            yield Case("Resize", "", [x, None, None, ci(*wanted)], mode=mode, axes=[2, 3], keep_aspect_ratio_policy=policy), [y]
            if mode == "linear":
                at = [np.clip(np.ceil((np.arange(m) + .5) / ratio - 1).astype(int), 0, n - 1) for m, n in zip(size, (10, 15))]
                yield Case("Resize", "", [x, None, None, ci(*wanted)], mode="nearest", axes=[-2, -1],
                           keep_aspect_ratio_policy=policy), [x[:, :, at[0]][..., at[1]]]


def mirrored(x, low, high):
    span = high - low
    d = np.fmod(np.abs(x - low), 2 * span)
    return np.where(d > span, high - (d - span), low + d)


def elements(x, n, mode, padding, align):
    """(indices, -1 for none, weights) of a dimension around coordinates x in -1 .. 1."""
    low, high = (0, n - 1) if align else (-.5, n - .5)
    at = (x + 1) / 2 * (n - 1) if align else ((x + 1) * n - 1) / 2
    if mode == "nearest":
        at = np.rint(at)
    out = (at < low) | (at > high)
    if padding == "border":
        at = np.where(out, np.clip(at, 0, n - 1), at)
    elif padding == "reflection":
        at = np.where(out, mirrored(at, low, high), at)
    if mode == "nearest":
        found = [(np.rint(at).astype(int), np.ones_like(at))]
    else:
        first = np.floor(at).astype(int)
        steps = range(-1, 3) if mode == "cubic" else range(2)
        found = [(first + k, kernel(mode, at - first - k, -.75)) for k in steps]
    for index, weight in found:
        inside = (index >= 0) & (index < n)
        if padding == "zeros":
            index = np.where(inside, index, -1)
        elif padding == "border":
            index = np.clip(index, 0, n - 1)
        else:
            index = np.where(inside, index, np.clip(mirrored(index.astype(float), low, high).astype(int), 0, n - 1))
        yield index, weight


def grid():
    for (shape, out), mode, padding, align in itertools.product(
            (((2, 3, 7), (11,)), ((1, 2, 5, 6), (4, 9)), ((2, 2, 4, 5, 6), (3, 7, 5)), ((1, 1, 3, 2, 40), (2, 3, 33))),
            ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
        x, nd = f(*shape), len(out)
        at = RNG.uniform(-1.4, 1.4, (shape[0], *out, nd)).astype(np.float32)
        at[0, ::2] = np.rint(at[0, ::2] * 2) / 2  # halves between elements, too
        y = np.zeros((*shape[:2], *out))
        for n in range(shape[0]):
            around = [list(elements(at[n, ..., nd - 1 - d].astype(float), shape[2 + d], mode, padding, align)) for d in range(nd)]
            for taps in itertools.product(*around):
                ok = np.all([i >= 0 for i, _ in taps], axis=0)
                weight = np.prod([w for _, w in taps], axis=0) * ok
                y[n] += x[n][(slice(None), *[np.where(ok, i, 0) for i, _ in taps])] * weight
        yield Case("GridSample", "", [x, at], mode=mode, padding_mode=padding, align_corners=align), [y]


def deform():
    for shape, weights, group, offsets, stride, pads, dilation, masked, biased in (
            ((1, 1, 3, 3), (1, 1, 2, 2), 1, 1, [1, 1], [0] * 4, [1, 1], 0, 0), ((2, 4, 9, 8), (6, 4, 3, 3), 1, 1, [1, 1], [1] * 4, [1, 1], 1, 1),
            ((1, 6, 11, 30), (4, 3, 3, 2), 2, 1, [2, 1], [1, 0, 2, 1], [1, 2], 1, 0), ((2, 8, 7, 7), (5, 8, 3, 3), 1, 4, [1, 1], [1] * 4, [1, 1], 0, 1),
            ((1, 8, 10, 9), (8, 2, 1, 1), 4, 2, [1, 1], [0] * 4, [1, 1], 1, 1), ((1, 16, 20, 40), (33, 16, 3, 3), 1, 2, [1, 1], [1] * 4, [1, 1], 1, 1)):
        x, w, b = f(*shape), f(*weights), f(weights[0])
        kh, kw = weights[2:]
        size = [(shape[2 + i] + pads[i] + pads[2 + i] - (weights[2 + i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in (0, 1)]
        move = f(shape[0], offsets * kh * kw * 2, *size, scale=1.5)
        mask = RNG.random((shape[0], offsets * kh * kw, *size)).astype(np.float32)
        d = move.reshape(shape[0], offsets, kh, kw, 2, *size).astype(float)
        m = mask.reshape(shape[0], offsets, kh, kw, *size) if masked else np.ones((shape[0], offsets, kh, kw, *size))
        rows, cols = np.meshgrid(np.arange(size[0]) * stride[0] - pads[0], np.arange(size[1]) * stride[1] - pads[1], indexing="ij")
        y = np.zeros((shape[0], weights[0], *size)) + (b.reshape(1, -1, 1, 1) if biased else 0)
        per, icg, ocg = shape[1] // offsets, weights[1], weights[0] // group
        for n, ch, p, q in itertools.product(range(shape[0]), range(shape[1]), range(kh), range(kw)):
            at = [rows + p * dilation[0] + d[n, ch // per, p, q, 0], cols + q * dilation[1] + d[n, ch // per, p, q, 1]]
            value = np.zeros(size)
            for (i, wi), (j, wj) in itertools.product(*[[(np.floor(a).astype(int) + k, kernel("linear", a - np.floor(a) - k, 0)) for k in (0, 1)]
                                                        for a in at]):
                ok = (i >= 0) & (i < shape[2]) & (j >= 0) & (j < shape[3])
                value += np.where(ok, x[n, ch][np.where(ok, i, 0), np.where(ok, j, 0)], 0) * wi * wj
            g = ch // icg
            y[n, g * ocg:(g + 1) * ocg] += w[g * ocg:(g + 1) * ocg, ch % icg, p, q].reshape(-1, 1, 1) * value * m[n, ch // per, p, q]
        inputs = [x, c(w), move] + ([c(b) if biased else None, mask] if masked or biased else [])
        if not masked:
            inputs = inputs[:4 if biased else 3]
        yield Case("DeformConv", "", inputs, group=group, offset_group=offsets, strides=stride, pads=pads, dilations=dilation,
                   kernel_shape=[kh, kw]), [y]


def attended(q, k, v, scale, cap=0., add=None, keys=None, first=None, causal=False, left=-1, right=-1):
    """Results of Attention on heads of their own: weighted values, and scores in all four states. keys: how many of each batch
    item count; first: how many of these come before the rows of q; left, right: how many around its own a row sees."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1).astype(float) for x in (k, v))
    plain = np.einsum("bhid,bhjd->bhij", q, k) * scale
    capped = cap * np.tanh(plain / cap) if cap else plain
    masked = capped + (0 if add is None else add)
    column, row = np.arange(k.shape[2]), np.arange(q.shape[2])[:, None]
    for b in range(q.shape[0]):
        hide = np.zeros((q.shape[2], k.shape[2]), bool)
        if keys is not None:
            hide |= column >= keys[b]
        if causal:
            hide |= column > row + first[b]
        if left >= 0:
            hide |= column < row + first[b] - left
        if right >= 0:
            hide |= column > row + first[b] + right
        masked[b][:, hide] = -np.inf
    top = masked.max(-1, keepdims=True)
    e = np.where(np.isneginf(masked), 0, np.exp(masked - np.where(np.isneginf(top), 0, top)))
    total = e.sum(-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)  # nothing to see: zero
    return np.einsum("bhij,bhjd->bhid", weights, v), [plain, capped, masked, weights]


def attention():
    for (b, heads, kv, i, j, past, d, dv), mode, cap in itertools.product(
            ((1, 2, 2, 4, 6, 0, 8, 8), (2, 4, 2, 5, 7, 3, 8, 6), (2, 6, 1, 1, 9, 20, 16, 16), (1, 3, 3, 33, 33, 0, 5, 17)), (0, 1, 2, 3), (0., 2.)):
        q, k, v = f(b, heads, i, d), f(b, kv, j, d), f(b, kv, j, dv)
        old = [f(b, kv, past, d), f(b, kv, past, dv)] if past else []
        allk, allv = (np.concatenate([o, x], 2) for o, x in zip(old, (k, v))) if past else (k, v)
        scale, total = float(np.float32(1 / np.sqrt(d))), past + j
        add = f(b, 1, i, total)
        for causal, mask in itertools.product((0, 1), (None, add, add[0, 0], add > 0, (add > -3)[:, :, :, :total - 1])):
            bias = mask
            if mask is not None and mask.dtype == bool:
                bias = np.where(mask, 0., -np.inf)
            if mask is not None and mask.shape[-1] < total:
                bias = np.concatenate([bias, np.full((*bias.shape[:-1], total - bias.shape[-1]), -np.inf)], -1)
            y, scores = attended(q, allk, allv, scale, cap, bias, first=[past] * b, causal=causal)
            inputs = [q, k, v] + ([mask] if mask is not None or past else []) + old
            yield Case("Attention", "", inputs, outputs=4, is_causal=causal, softcap=cap, qk_matmul_output_mode=mode), [y, allk, allv, scores[mode]]
        if past:
            continue
        keys = RNG.integers(1, j + 1, b)
        for causal in (0, 1):
            y, scores = attended(q, k, v, .3, cap, add, keys, keys - i, causal)
            yield Case("Attention", "", [q, k, v, add, None, None, keys.astype(np.int64)], outputs=4, is_causal=causal, softcap=cap, scale=.3,
                       qk_matmul_output_mode=mode), [y, k, v, scores[mode]]
        flat = [x.transpose(0, 2, 1, 3).reshape(b, x.shape[2], -1) for x in (q, k, v)]
        y, scores = attended(q, k, v, scale, cap)
        yield Case("Attention", "", flat, outputs=4, q_num_heads=heads, kv_num_heads=kv, softcap=cap, qk_matmul_output_mode=mode), [
            y.transpose(0, 2, 1, 3).reshape(b, i, -1), k, v, scores[mode]]


def window():
    for (b, heads, kv, i, j, past, d), causal, left, right in itertools.product(
            ((1, 2, 2, 4, 6, 0, 8), (2, 4, 2, 5, 7, 3, 8), (2, 6, 1, 1, 9, 20, 16), (1, 3, 3, 33, 33, 0, 5), (1, 1, 1, 9, 4, 0, 4)), (0, 1),
            (-1, 0, 2, 40), (-1, 0, 3, 40)):
        q, k, v = f(b, heads, i, d), f(b, kv, j, d), f(b, kv, j, d)
        old = [f(b, kv, past, d), f(b, kv, past, d)] if past else []
        allk, allv = (np.concatenate([o, x], 2) for o, x in zip(old, (k, v))) if past else (k, v)
        total = past + j
        options = {"is_causal": causal, "left_window_size": left, "right_window_size": right}
        for mask in (np.zeros((i, total), np.float32), np.arange(total) % 5 != 3):
            add = mask if mask.dtype != bool else np.where(mask, 0., -np.inf)
            y, scores = attended(q, allk, allv, .25, 0., add, first=[past] * b, causal=causal, left=left, right=right)
            yield Case("Attention", "", [q, k, v, mask, *old], outputs=4, scale=.25, qk_matmul_output_mode=3, **options), [y, allk, allv, scores[3]]
        if not past:
            keys = RNG.integers(1, j + 1, b)
            y, _ = attended(q, k, v, .25, 0., None, keys, keys - i, causal, left, right)
            yield Case("Attention", "", [q, k, v, np.zeros((1, j), np.float32), None, None, keys.astype(np.int64)], scale=.25, **options), [y]


def shifts():
    for kind in (np.int8, np.int16, np.int32, np.int64):
        bits = np.dtype(kind).itemsize * 8
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        x = np.concatenate([[low, low + 1, -8, -1, 0, 1, 8, high], RNG.integers(low, high, 60)]).astype(kind)
        by = np.concatenate([[1, bits - 1, bits, bits + 1, -1, -bits, 0, 3], RNG.integers(-2, bits + 3, 60)]).astype(kind)
        y = [[(int(a) << int(n)) if 0 <= n < bits else 0 for a, n in zip(x, by)], [int(a) >> int(n) if 0 <= n < bits else -(int(a) < 0) for a, n in zip(x, by)]]
        for direction, values in zip(("LEFT", "RIGHT"), y):
            wrapped = [(n + 2 ** (bits - 1)) % 2 ** bits - 2 ** (bits - 1) for n in values]
            yield Case("BitShift", "", [x, by], direction=direction), [np.array(wrapped, kind)]


def depth():
    for shape, b in itertools.product(((1, 2, 4, 6), (2, 3, 12, 12)), (1, 2)):
        n, c, h, w = shape
        x = f(*shape)
        split = x.reshape(n, c, h // b, b, w // b, b)
        for mode, order in (("DCR", (0, 3, 5, 1, 2, 4)), ("CRD", (0, 1, 3, 5, 2, 4))):
            yield Case("SpaceToDepth", "", [x], blocksize=b, mode=mode), [split.transpose(order).reshape(n, c * b * b, h // b, w // b)]


def swiglu():
    for shape, alpha in itertools.product(((3,), (2, 4), (5, 1025)), (1., .5, 1.702)):
        a, b = f(*shape), f(*shape)
        yield Case("SwiGLU", "", [a, b], alpha=alpha), [a / (1 + np.exp(-alpha * a.astype(float))) * b]


def body(operator, by):
    """A graph of one node between its input and a constant."""
    node = block(1, "in") + block(1, "by") + block(2, "out") + block(4, operator)
    any_float = block(2, block(1, number(1, 1)))
    return block(1, node) + block(2, "body") + block(5, tensor("by", by)) + block(11, block(1, "in") + any_float) + block(12, block(1, "out") + any_float)


def flex_attention():
    for b, heads, kv, i, j, d, dv in ((1, 1, 1, 2, 3, 4, 4), (2, 4, 2, 5, 7, 8, 6), (1, 6, 1, 1, 40, 16, 33)):
        q, k, v, add = f(b, heads, i, d), f(b, kv, j, d), f(b, kv, j, dv), f(1, heads, i, j)
        half = np.array(.5, np.float32)
        for bodies in ({}, {"score_mod": body("Add", add)}, {"prob_mod": body("Mul", half)}, {"score_mod": body("Add", add), "prob_mod": body("Mul", half)}):
            y, _ = attended(q, k, v, 1 / np.sqrt(d), add=add if "score_mod" in bodies else None)
            yield Case("FlexAttention", "", [q, k, v], domain="ai.onnx.preview", **bodies), [y / 2 if "prob_mod" in bodies else y]
        yield Case("FlexAttention", "", [q, k, v], domain="ai.onnx.preview", scale=.25), [attended(q, k, v, .25)[0]]


def extremes():
    x = RNG.integers(0, 2, (3, 4, 5)).astype(bool)
    for axes in ((0,), (1,), (0, 2)):
        yield Case("ReduceMax", "", [x, ci(*axes)]), [x.max(axes, keepdims=True)]
        yield Case("ReduceMin", "", [x, ci(*axes)], keepdims=0), [x.min(axes)]


def irfft():
    for bins, length, rows in itertools.product((2, 3, 5, 6, 17, 51), (None, 1, 4, 7, 30), (1, 3, 10)):
        z = f(2, bins, rows, 2)
        y = np.fft.irfft(z[..., 0] + 1j * z[..., 1], length, axis=1)[..., None]
        yield Case("DFT", "", [z, None if length is None else ci(length), ci(1)], onesided=1, inverse=1), [y]
    z = f(3, 9, 2).astype(np.float64)
    yield Case("DFT", "", [z], onesided=1, inverse=1), [np.fft.irfft(z[..., 0] + 1j * z[..., 1])[..., None]]


def bitcast():
    kinds = {np.float32: 1, np.int32: 6, np.uint32: 12, np.float64: 11, np.int64: 7, np.uint64: 13, np.int8: 3, np.uint8: 2,
             np.int16: 5, np.uint16: 4, np.float16: 10}
    for a, b in itertools.product(kinds, kinds):
        if np.dtype(a).itemsize == np.dtype(b).itemsize:
            x = (RNG.standard_normal((3, 7)) * 50 + 60).astype(a)
            y = x.view(b)
            yield Case("BitCast", "", [x], to=kinds[b]), [y]


FAMILIES = {window: 25, shifts: 28, depth: 28, swiglu: 28, flex_attention: 26, extremes: 20, irfft: 20, bitcast: 26, attention: 24, antialias: 18, aspect: 18, grid: 20, deform: 22}
