"""Families of check_numpy.py: operators of com.microsoft, and those of ONNX that carry a state."""
import itertools
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from ops_cases import MS, Case, c, ci, f  # noqa: E402

RNG = np.random.default_rng(29)


def fused_matmul():
    for (a, b), ta, tb, kind in itertools.product((((5, 7), (7, 9)), ((2, 3, 5, 7), (2, 3, 7, 4)), ((4, 6, 3), (3, 33)), ((1, 4, 6, 3), (5, 1, 3, 8)),
                                                   ((40, 70), (70, 50)), ((2, 3, 3, 3), (3, 3, 3))), (0, 1), (0, 1), (np.float32, np.float64)):
        x, y = f(*a).astype(kind), f(*b).astype(kind)
        given = [np.ascontiguousarray(np.swapaxes(v, -1, -2)) if t else v for v, t in ((x, ta), (y, tb))]
        for right in (given[1], c(given[1])):
            yield Case("FusedMatMul", "", [given[0], right], domain=MS, transA=ta, transB=tb, alpha=.25), [.25 * (x @ y)]
        if len(a) > 2 and len(b) > 2 and len(a) == len(b):
            # From the product's order back to the one that the operator gets: the rows come first.
            rows = [np.ascontiguousarray(np.moveaxis(v, -2, 0)) for v in given]
            yield Case("FusedMatMul", "", rows, domain=MS, transA=ta, transB=tb, transBatchA=1, transBatchB=1), [x @ y]
            yield Case("FusedMatMul", "", [rows[0], given[1]], domain=MS, transA=ta, transB=tb, transBatchA=1), [x @ y]


def gelu(x):
    return .5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def biased():
    x, b, skip = f(2, 5, 14), f(14), f(2, 5, 14)
    yield Case("BiasAdd", "", [x, c(b), skip], domain=MS), [x + b + skip]
    yield Case("BiasSplitGelu", "", [x, b], domain=MS), [(x + b)[..., :7] * gelu((x + b)[..., 7:])]
    for last, act, shape in itertools.product((0, 1), (0, 1), ((2, 5, 7), (1, 9))):
        x, gamma, beta, bias = f(2, *shape, 12) + 2, f(12), f(12), f(12)
        for skip, added in ((None, None), (f(2, *shape, 12), None), (f(2, *[1] * len(shape), 12), bias), (f(2, 12), bias)):
            total = x.astype(float)
            if skip is not None:
                total = total + (skip.reshape(2, *[1] * len(shape), 12) if skip.size == 24 else skip)
            if added is not None:
                total = total + added
            y = total.reshape(2, -1, 4, 3)
            y = (y - y.mean((1, 3), keepdims=True)) / np.sqrt(y.var((1, 3), keepdims=True) + 1e-5)
            y = y.reshape(total.shape) * gamma + beta
            y = y / (1 + np.exp(-y)) if act else y
            place = (lambda v: v) if last else (lambda v: np.ascontiguousarray(np.moveaxis(v, -1, 1)) if v.ndim > 2 else v)
            common = dict(domain=MS, groups=4, activation=act, channels_last=last)
            if skip is None:
                yield Case("GroupNorm", "", [place(x), c(gamma), c(beta)], **common), [place(y)]
            else:
                inputs = [place(x), c(gamma), c(beta), place(skip)] + ([c(added)] if added is not None else [])
                yield Case("SkipGroupNorm", "", inputs, outputs=2, **common), [place(y), place(total)]


def linalg():
    for shape in ((1, 1), (4, 4), (3, 5, 5), (2, 2, 17, 17)):
        x = f(*shape) + np.eye(shape[-1], dtype=np.float32) * 4
        yield Case("Inverse", "", [x], domain=MS), [np.linalg.inv(x.astype(float))]
    swap = np.array([[0, 2.], [1, 0]])
    yield Case("Inverse", "", [swap], domain=MS), [np.linalg.inv(swap)]
    for kind in (np.float32, np.float64):
        a, b = f(5, 9).astype(kind), f(7, 9).astype(kind)
        squares = ((a[:, None] - b) ** 2).sum(-1)
        yield Case("CDist", "", [a, b], domain=MS, metric="sqeuclidean"), [squares]
        yield Case("CDist", "", [a, b], domain=MS, metric="euclidean"), [np.sqrt(squares)]


def position_bias():
    """T5's buckets, as its paper's code has them."""
    table = f(32, 3)
    for both, q, k in itertools.product((0, 1), (1, 9, 40), (1, 13, 200)):
        at = np.arange(k)[None] - np.arange(q)[:, None]
        n, buckets, first = -at, 32, np.zeros((q, k), int)
        if both:
            buckets //= 2
            first = (n < 0) * buckets
            n = np.abs(n)
        else:
            n = np.maximum(n, 0)
        exact = buckets // 2
        ratio = np.log(np.maximum(n, 1).astype(np.float32) / np.float32(exact)) / np.float32(np.log(np.float32(100 / exact)))
        far = np.minimum(exact + (ratio * (buckets - exact)).astype(int), buckets - 1)
        want = table[first + np.where(n < exact, n, far)].transpose(2, 0, 1)[None]
        yield Case("RelativePositionBias", "", [c(table), c(np.array(q, np.int64)), c(np.array(k, np.int64))], domain=MS,
                   is_bidirectional=both, max_distance=100), [want]


NF4 = [-1., -.6961928009986877, -.5250730514526367, -.39491748809814453, -.28444138169288635, -.18477343022823334, -.09105003625154495, 0.,
       .07958029955625534, .16093020141124725, .24611230194568634, .33791524171829224, .44070982933044434, .5626170039176941,
       .7229568362236023, 1.]
FP4 = [0., .0052083333, 2 / 3, 1., 1 / 3, .5, 1 / 6, .25]


def bnb4():
    for m, k, n, block, kind in ((1, 16, 8, 16, 1), (5, 33, 19, 16, 1), (3, 64, 40, 32, 0), (2, 5, 3, 64, 0)):
        codes = RNG.integers(0, 16, n * k)
        most = RNG.uniform(.5, 2, -(-n * k // block)).astype(np.float32)
        table = np.array(NF4 if kind else FP4 + [-v for v in FP4])
        weight = (table[codes] * np.repeat(most, block)[:n * k]).reshape(n, k)
        even = np.append(codes, 0)[:-(-n * k // 2) * 2]
        packed = (even[::2] << 4 | even[1::2]).astype(np.uint8)
        x = f(2, m, k)
        for wrap in (c, lambda v: v):
            yield Case("MatMulBnb4", "", [x, wrap(packed), wrap(most)], domain=MS, K=k, N=n, block_size=block, quant_type=kind), [x @ weight.T]


def scalar(kind, value):
    return c(np.array(value, kind))


def quantized():
    for kind, (a, b, cond) in itertools.product((np.uint8, np.int8), (((3, 5), (5,), (3, 1)), ((2, 1, 7), (1, 4, 1), (2, 4, 7)), ((6,), (), (1,)))):
        info = np.iinfo(kind)
        x, y = (np.asarray(RNG.integers(info.min, info.max, s).astype(kind)) for s in (a, b))
        pick = np.asarray(RNG.integers(0, 2, cond).astype(bool))
        real = np.where(pick, (x.astype(int) - 3) * np.float32(.1), (y.astype(int) - 5) * np.float32(.2))
        z = np.clip(np.rint(real / np.float32(.15)) + 7, info.min, info.max).astype(kind)
        yield Case("QLinearWhere", "", [pick, x, scalar(np.float32, .1), scalar(kind, 3), y, scalar(np.float32, .2), scalar(kind, 5),
                                        scalar(np.float32, .15), scalar(kind, 7)], domain=MS), [z]
        for axes, keep in itertools.product(([0], [1], [0, 2], [1, 2], [-1], None), (0, 1)):
            v = RNG.integers(info.min, info.max, (3, 4, 5)).astype(kind)
            over = tuple(axes) if axes else None
            mean = ((v.astype(float) - 3) * np.float32(.1)).mean(over, keepdims=bool(keep))
            want = np.clip(np.rint(mean / np.float32(.0717)) + 7, info.min, info.max).astype(kind)
            extra = {"axes": axes} if axes else {}
            yield Case("QLinearReduceMean", "", [v, scalar(np.float32, .1), scalar(kind, 3), scalar(np.float32, .0717), scalar(kind, 7)],
                       domain=MS, keepdims=keep, **extra), [want]


def states():
    for rule, (b, t, heads, kv, dk, dv), wide, one, domain in itertools.product(
            ("linear", "gated", "delta", "gated_delta"), ((1, 1, 1, 1, 4, 4), (2, 7, 4, 2, 5, 3), (1, 20, 6, 1, 16, 17)), (0, 1), (0, 1), ("", MS)):
        q, k, v = f(b, t, heads * dk), f(b, t, kv * dk, scale=.3), f(b, t, kv * dv)
        past = f(b, kv, dk, dv) if wide else None
        decay = -np.abs(f(b, t, kv * (dk if wide else 1))) if "gated" in rule else None
        beta = RNG.random((b, t, 1 if one else kv)).astype(np.float32) if "delta" in rule else None
        erase = RNG.random((b, t, kv * dk)).astype(np.float32) if "delta" in rule and wide and not one and domain == "" else None
        state = np.zeros((b, kv, dk, dv)) if past is None else past.astype(float)
        y = np.zeros((b, t, heads, dv))
        scale = .5 if one else 1 / np.sqrt(dk)
        for i in range(t):
            qi, ki, vi = (x[:, i].reshape(b, h, -1).astype(float) for x, h in ((q, heads), (k, kv), (v, kv)))
            if decay is not None:
                state = state * np.exp(decay[:, i].reshape(b, kv, -1))[..., None]
            if beta is not None:
                gate = ki if erase is None else ki * erase[:, i].reshape(b, kv, dk)
                vi = beta[:, i][..., None] * (vi - np.einsum("bhkv,bhk->bhv", state, gate))
            state = state + ki[..., None] * vi[:, :, None]
            y[:, i] = scale * np.einsum("bhk,bhkv->bhv", qi, np.repeat(state, heads // kv, 1))
        inputs = [q, k, v, past, decay, beta, erase]
        while inputs[-1] is None:
            inputs.pop()
        extra = {"scale": .5} if one else {}
        yield Case("LinearAttention", "", inputs, domain=domain, outputs=2, q_num_heads=heads, kv_num_heads=kv, update_rule=rule, **extra), [
            y.reshape(b, t, -1), state]
    for shape, size, act, biased_, carried in itertools.product(((1, 1, 1), (2, 5, 9), (1, 3, 40)), (1, 2, 4), ("none", "silu", "swish"), (0, 1), (0, 1)):
        x, w, b, past = f(*shape), f(shape[1], 1, size), f(shape[1]), f(shape[0], shape[1], size - 1)
        line = np.concatenate([past if carried else np.zeros_like(past), x], 2).astype(float)
        y = sum(line[:, :, i:i + shape[2]] * w[None, :, 0, i, None] for i in range(size)) + (b[None, :, None] if biased_ else 0)
        y = y if act == "none" else y / (1 + np.exp(-y))
        inputs = [x, c(w), c(b) if biased_ else None, past if carried else None]
        yield Case("CausalConvWithState", "", inputs, outputs=2, activation=act), [y, line[:, :, shape[2]:]]


def renamed():
    """Operators that ONNX has, too."""
    x = f(3, 4)
    yield Case("Pad", "", [x, ci(1, 0, 2, 1), scalar(np.float32, 9)], domain=MS), [np.pad(x, ((1, 2), (0, 1)), constant_values=9)]
    yield Case("Pad", "", [x, ci(0, 1, 0, 2)], domain=MS, mode="reflect"), [np.pad(x, ((0, 0), (1, 2)), mode="reflect")]
    yield Case("ExpandDims", "", [x, scalar(np.int32, 1)], domain=MS), [x[:, None]]
    yield Case("ExpandDims", "", [x, scalar(np.int32, -1)], domain=MS), [x[..., None]]
    yield Case("GatherND", "", [x, c(np.array([[0], [2]], np.int64))], domain=MS), [x[[0, 2]]]
    image = f(1, 2, 3, 4)
    at = np.stack(np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3)), -1).astype(np.float32)[None]
    yield Case("GridSample", "", [image, at], domain=MS, align_corners=1), [image]


FAMILIES = {fused_matmul: 17, biased: 17, linalg: 17, position_bias: 17, bnb4: 17, quantized: 17, states: 27, renamed: 17}
