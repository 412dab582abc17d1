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
    for kind, (m, n, k) in itertools.product((np.float32, np.float64), ((5, 7, 9), (1, 1, 1), (3, 100, 33), (70, 17, 4), (2, 64, 40))):
        a, b = f(m, k).astype(kind), f(n, k).astype(kind)
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
    for kind, (a, b, cond) in itertools.product((np.uint8, np.int8), (((3, 5), (5,), (3, 1)), ((2, 1, 7), (1, 4, 1), (2, 4, 7)), ((6,), (), (1,)),
                                                                             ((2, 1500), (2, 1500), (2, 1500)), ((1300,), (1,), (1300,)))):
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
            ("linear", "gated", "delta", "gated_delta"), ((1, 1, 1, 1, 4, 4), (2, 7, 4, 2, 5, 3), (1, 20, 6, 1, 16, 17), (1, 3, 2, 2, 9, 83)), (0, 1), (0, 1), ("", MS)):
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


def few_bits(experts, n, k, bits, block, zeros):
    """What QMoE reads of weights [experts, n, k], and their numbers."""
    q = RNG.integers(0, 2 ** bits, (experts, n, k))
    blocks = -(-k // block) if block else 1
    scale = (RNG.uniform(.01, .03, (experts, n, blocks)) * 16 / 2 ** bits).astype(np.float32)
    zero = RNG.integers(0, 2 ** bits, (experts, n, blocks)) if zeros else np.full((experts, n, blocks), 2 ** (bits - 1))

    def pack(x):
        per = 8 // bits
        x = np.concatenate([x, np.zeros((*x.shape[:-1], -x.shape[-1] % per), int)], -1).reshape(*x.shape[:-1], -1, per)
        return (x << (bits * np.arange(per))).sum(-1).astype(np.uint8)

    of = np.arange(k) // block if block else np.zeros(k, int)
    w = (q - zero[..., of]) * scale[..., of].astype(float)
    points = pack(zero) if block else pack(zero[..., 0])
    return w, [c(pack(q)), c(scale if block else scale[..., 0])], c(points) if zeros else None


def experts_of(x, logits, k, up, down, act, third=None, normal=False, chosen_only=False, given=None):
    """Each token through its k best experts. up, down, third: (weights [experts, n, k], biases or None)."""
    rows = x.reshape(-1, x.shape[-1]).astype(float)
    out = np.zeros_like(rows)
    for t, row in enumerate(rows):
        best = np.argsort(-logits[t].astype(float), kind="stable")[:k]
        share = np.exp(logits[t].astype(float))
        weight = share / (share[best].sum() if normal or chosen_only else share.sum())
        if given is not None:
            weight = given[t] / (given[t][best].sum() if normal else 1)
        for e in best:
            def through(fc, v):
                return fc[0][e] @ v + (fc[1][e] if fc[1] is not None else 0)
            h = through(up, row)
            h = act(h, through(third, row)) if third else act(h)
            out[t] += weight[e] * through(down, h)
    return out.reshape(x.shape)


def silu(x):
    return x / (1 + np.exp(-x))


def swiglu(alpha, beta, limit):
    def of(x, y):
        x, y = np.minimum(x, limit), np.clip(y, -limit, limit)
        return x / (1 + np.exp(-alpha * x)) * (y + beta)
    return of


SIMPLE = {"relu": lambda x: np.maximum(x, 0), "gelu": lambda x: .5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + .044715 * x ** 3))),
          "silu": silu, "identity": lambda x: x}


def moe():
    for (name, act), (shape, hidden, inter, experts, k), normal, const in itertools.product(
            SIMPLE.items(), (((5,), 16, 24, 4, 2), ((2, 7), 33, 10, 8, 3), ((1, 1), 64, 48, 5, 1), ((40,), 20, 70, 3, 3)), (0, 1), (c, lambda v: v)):
        x, logits = f(*shape, hidden), f(int(np.prod(shape)), experts, scale=2.)
        up, down, gate = f(experts, inter, hidden, scale=.2), f(experts, hidden, inter, scale=.2), f(experts, inter, hidden, scale=.2)
        b1, b2 = f(experts, inter), f(experts, hidden)
        common = dict(domain=MS, k=k, activation_type=name, normalize_routing_weights=normal)
        yield Case("MoE", "", [x, logits, const(up), c(b1), const(down), c(b2)], **common), [
            experts_of(x, logits, k, (up, b1), (down, b2), act, normal=normal)]
        yield Case("MoE", "", [x, logits, const(up), None, const(down), None, const(gate)], **common), [
            experts_of(x, logits, k, (up, None), (down, None), lambda h, g, act=act: act(h) * g, (gate, None), normal)]
    x, logits = f(9, 16), f(9, 4)
    up, down, b = f(4, 48, 16, scale=.3), f(4, 16, 24, scale=.3), f(4, 48)
    for fusion, (alpha, beta, limit) in itertools.product((1, 2), ((1.702, 1., 1.5), (1., 0., 7.))):
        pick = (lambda h: (h[0::2], h[1::2])) if fusion == 1 else (lambda h: (h[:24], h[24:]))
        act = swiglu(alpha, beta, limit)
        yield Case("MoE", "", [x, logits, c(up), c(b), c(down)], domain=MS, k=2, activation_type="swiglu", swiglu_fusion=fusion,
                   activation_alpha=alpha, activation_beta=beta, swiglu_limit=limit), [
                       experts_of(x, logits, 2, (up, b), (down, None), lambda h: act(*pick(h)))]  # noqa: B023


def qmoe():
    for bits, (tokens, hidden, inter, experts, k, block), zeros, gated in itertools.product(
            (2, 4, 8), ((1, 64, 32, 4, 2, 32), (3, 128, 96, 3, 2, 32), (40, 64, 64, 4, 2, 16), (5, 48, 40, 3, 1, 0), (2, 96, 48, 6, 2, 64)),
            (False, True), (False, True)):
        x, logits = f(tokens, hidden), f(tokens, experts, scale=2.)
        up, up_in, up_zero = few_bits(experts, inter * (2 if gated else 1), hidden, bits, block, zeros)
        down, down_in, down_zero = few_bits(experts, hidden, inter, bits, block, zeros)
        b1, b2 = f(experts, up.shape[1]), f(experts, hidden)
        act = swiglu(1.702, 1., 7.)
        inputs = [x, logits, *up_in, c(b1), *down_in, c(b2), None, None, None, up_zero, down_zero]
        attributes = dict(domain=MS, k=k, expert_weight_bits=bits, normalize_routing_weights=1, activation_type="swiglu" if gated else "silu")
        if gated:
            attributes.update(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1., swiglu_limit=7.)
        if block:
            attributes["block_size"] = block
        how = (lambda h: act(h[0::2], h[1::2])) if gated else silu
        yield Case("QMoE", "", inputs if zeros else inputs[:8], **attributes), [
            experts_of(x, logits, k, (up, b1), (down, b2), how, chosen_only=True)]
    x, logits, given = f(6, 64), f(6, 4), RNG.uniform(.1, 1, (6, 4)).astype(np.float32)
    parts = [few_bits(4, n, m, 4, 32, False) for n, m in ((96, 64), (64, 96), (96, 64))]
    inputs = [x, logits, *parts[0][1], None, *parts[1][1], None, *parts[2][1]]
    for normal in (0, 1):
        yield Case("QMoE", "", inputs + [None] * 4 + [given], domain=MS, k=2, block_size=32, activation_type="silu", normalize_routing_weights=normal), [
            experts_of(x, logits, 2, (parts[0][0], None), (parts[1][0], None), lambda h, g: silu(h) * g, (parts[2][0], None), normal, given=given)]
    unpacked = [v.array if v is not None else None for v in (*parts[0][1], None, *parts[1][1])]
    yield Case("QMoE", "", [x, logits, *unpacked], domain=MS, k=2, block_size=32, activation_type="relu"), [
        experts_of(x, logits, 2, (parts[0][0], None), (parts[1][0], None), SIMPLE["relu"], chosen_only=True)]


def through_bytes(x):
    """What is left of x once it was bytes."""
    low, high = np.float32(min(x.min(), 0)), np.float32(max(x.max(), 0))
    scale = (high - low) / np.float32(255) if high > low else np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return ((np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale).astype(np.float64)


def byte_lstm():
    for (batch, steps, n, h), kind, many, ragged in itertools.product(((1, 4, 5, 7), (3, 5, 8, 16), (2, 3, 33, 21)), (np.int8, np.uint8), (0, 1), (0, 1)):
        low = np.iinfo(kind).min
        w, r = (RNG.integers(low, low + 256, (1, rows, 4 * h)).astype(kind) for rows in (n, h))
        count = (1, 4 * h) if many else (1,)
        ws, rs = (RNG.uniform(.002, .01, count).astype(np.float32) for _ in range(2))
        wz, rz = (RNG.integers(low + 118, low + 138, count).astype(kind) for _ in range(2))
        x, b, h0, c0 = f(steps, batch, n), f(1, 8 * h), f(1, batch, h), f(1, batch, h)
        lengths = RNG.integers(1, steps + 1, batch).astype(np.int32) if ragged else np.full(batch, steps, np.int32)
        real_w, real_r = ((q[0].astype(float) - z.reshape(-1)) * s.reshape(-1) for q, z, s in ((w, wz, ws), (r, rz, rs)))
        inputs = through_bytes(x) @ real_w + b[0, :4 * h] + b[0, 4 * h:]
        state, cell, y = h0[0].copy(), c0[0].copy(), np.zeros((steps, 1, batch, h))
        for t in range(steps):
            gates = inputs[t] + through_bytes(state) @ real_r
            i, o, g = (1 / (1 + np.exp(-gates[:, k * h:(k + 1) * h])) for k in range(3))
            on = (t < lengths)[:, None]
            cell = np.where(on, g * cell + i * np.tanh(gates[:, 3 * h:]), cell)
            state = np.where(on, o * np.tanh(cell), state).astype(np.float32)
            y[t, 0] = np.where(on, state, 0)
        yield Case("DynamicQuantizeLSTM", "", [x, c(w), c(r), c(b), lengths if ragged else None, h0, c0, None, c(ws), c(wz), c(rs), c(rz)],
                   domain=MS, outputs=3, hidden_size=h), [y, state[None], cell[None]]


FAMILIES = {byte_lstm: 17, moe: 17, qmoe: 17, fused_matmul: 17, biased: 17, linalg: 17, position_bias: 17, bnb4: 17, quantized: 17, states: 27, renamed: 17}
