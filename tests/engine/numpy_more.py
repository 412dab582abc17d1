"""Families of check_numpy.py: operators of com.microsoft on texts and tokens, masked and padded windows, decoders' attention and what is around it."""
import itertools
import pathlib
import re
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
from ops_cases import MS, Case, c, f  # noqa: E402

RNG = np.random.default_rng(61)


def rows_of(texts, tokens, mark, pad):
    """Rows of tokens of an array of texts, all as long as the longest."""
    found = [tokens(t) for t in texts.ravel()]
    most = max(map(len, found))
    if not most:
        return np.zeros((*texts.shape, 0), "U1")
    edge = (["\x02"], ["\x03"]) if mark else ([], [])
    return np.array([edge[0] + row + edge[1] + [pad] * (most - len(row)) for row in found]).reshape(*texts.shape, -1)


def tokens():
    texts = np.array(["a fine, sunny day", "", "No-one, nowhere", "\u00e9t\u00e9 d'\u00e9t\u00e9 2024", "  spaces   here ", "x"])
    for given, mark in itertools.product((texts, texts.reshape(3, 2), texts[:1], texts[1:2]), (0, 1)):
        common = dict(domain=MS, mark=mark, pad_value="#")
        yield Case("Tokenizer", "", [given], separators=[""], mincharnum=1, **common), [rows_of(given, list, mark, "#")]
        yield Case("Tokenizer", "", [given], tokenexp=".", mincharnum=1, **common), [rows_of(given, list, mark, "#")]
        for least in (1, 2, 4):
            for cuts in ([" "], [",", " "], ["[ ,.']+"], ["nny", "n", " "], ["-|, "]):
                def split(text, cuts=cuts, least=least):
                    parts = [text]
                    for cut in cuts:
                        parts = [p for part in parts for p in re.split(cut, part) if len(p) >= least]
                    return parts
                yield Case("Tokenizer", "", [given], separators=cuts, mincharnum=least, **common), [rows_of(given, split, mark, "#")]
            for word in ("[a-zA-Z0-9_]+", "[a-z]{2,3}", "\\d+|[A-Z][a-z]+", "\u00e9t", "[^ ]+"):
                def find(text, word=word, least=least):
                    return [t for t in re.findall(word, text) if len(t) >= least]
                if least == 1 or word in ("[a-zA-Z0-9_]+", "[^ ]+"):  # where what is too short has no part that is not
                    yield Case("Tokenizer", "", [given], tokenexp=word, mincharnum=least, **common), [rows_of(given, find, mark, "#")]
    # The longest of what begins first, whatever the order of the alternatives.
    yield Case("Tokenizer", "", [np.array(["abcab ab"])], domain=MS, mark=0, pad_value="", mincharnum=1, tokenexp="ab|abc"), [
        np.array([["abc", "ab", "ab"]])]
    yield Case("Tokenizer", "", [np.array(["xaaay"])], domain=MS, mark=0, pad_value="", mincharnum=1, separators=["a|aa|aaa"]), [np.array([["x", "y"]])]
    # Edges are those of the whole text.
    yield Case("Tokenizer", "", [np.array(["aab ba"])], domain=MS, mark=0, pad_value="", mincharnum=1, tokenexp="^a|\\bb"), [np.array([["a", "b"]])]


def integer16():
    for (a, b), kinds in itertools.product((((5, 7), (7, 9)), ((1, 40), (40, 33)), ((2, 3, 5, 70), (2, 3, 70, 4)), ((4, 6, 3), (3, 33)), ((7,), (7, 2)),
                                            ((2, 1, 5, 7), (3, 7, 5)), ((9, 3), (3,)), ((70, 300), (300, 65)), ((0, 3), (3, 4)), ((3, 0), (0, 4))),
                                           ((np.int16, np.int16), (np.uint16, np.int16))):
        x, y = (RNG.integers(-9 if k == np.int16 else 0, 2000, s).astype(k) for k, s in zip(kinds, (a, b)))
        for right in (y, c(y)):
            yield Case("MatMulInteger16", "", [x, right], domain=MS), [np.matmul(x.astype(np.int64), y.astype(np.int64)).astype(np.int32)]
    edge = np.full((1, 4), -32768, np.int16)  # wraps, as 32 bits do
    yield Case("MatMulInteger16", "", [edge, edge.T.copy()], domain=MS), [np.array([[0]], np.int32)]


def bifurcation():
    def want(source, so_far, at, predicted, least, most):
        taken = 0
        if predicted is not None:
            while taken < len(source) - at and predicted[taken] == source[at + taken]:
                taken += 1
            so_far = so_far + predicted[:taken + 1]
        found = -1
        for n in range(least, min(most, len(so_far)) + 1):
            places = [i for i in range(len(source) - n + 1) if source[i:i + n] == so_far[-n:]]
            if not places:
                break
            found = places[0] + n
            if found >= len(source):
                break
            if len(places) > 1:
                found = -1
        return so_far, found

    source = [1, 5, 3, 4, 2, 5, 3, 9, 8]
    cases = [(source, [1, 5], 2, [3, 4, 2, 5, 3, 9, 8, 7], 1, 3), (source, [1, 5], 2, [3, 4, 7, 5, 3, 9, 8, 7], 1, 3),
             (source, [7, 5], 0, None, 1, 3), (source, [2, 5, 3], 0, None, 1, 3), (source, [2, 5, 3], 0, None, 1, 2), (source, [5, 3, 9], 9, [4], 2, 5),
             (source, [], 8, [8, 1], 1, 4), (source, [3], 8, [2, 8], 1, 4), ([], [1, 2], 0, [3], 1, 2), (source, [9], 0, [1] + source[1:] + [6], 1, 1),
             ([6] * 12, [6, 6], 4, [6] * 9, 1, 8), (source, [2, 9, 8], 0, None, 2, 9)]
    cases += [(list(s), list(t), 0, None, 1, 4) for s, t in ((RNG.integers(0, 3, 20).tolist(), RNG.integers(0, 3, 6).tolist()) for _ in range(8))]
    for source, so_far, at, predicted, least, most in cases:
        inputs = [np.array(v, np.int64) for v in (source, so_far, at)] + ([np.array(predicted, np.int64)] if predicted is not None else [])
        out, found = want(source, so_far, at, predicted, least, most)
        yield Case("BifurcationDetector", "", inputs, domain=MS, outputs=2, min_ngram_size=least, max_ngram_size=most), [
            np.array(out, np.int64), np.array(found, np.int64)]


def masked_pool():
    for shape, planes, kernel, stride, pads in (((1, 1, 9), (1, 1), [3], [2], [1, 1]), ((2, 3, 7, 8), (1, 1), [2, 3], [1, 2], [0, 1, 1, 1]),
                                                ((2, 3, 7, 8), (2, 3), [3, 3], [2, 2], [0] * 4), ((1, 4, 6, 5), (1, 2), [2, 2], [2, 2], [0] * 4),
                                                ((1, 2, 4, 5, 6), (1, 1), [2, 2, 3], [2, 1, 2], [0] * 6)):
        x, mask = f(*shape), (RNG.random((*planes, *shape[2:])) < .8).astype(np.int32)
        mask[..., 0] = 0
        n = len(kernel)
        size = [(shape[2 + i] + pads[i] + pads[n + i] - kernel[i]) // stride[i] + 1 for i in range(n)]
        y = np.full((*shape[:2], *size), np.finfo(np.float32).min, np.float32)
        flat = mask.reshape(-1, *shape[2:])
        for b, ch, *at in np.ndindex(y.shape):
            keep = flat[(b * shape[1] + ch) % len(flat)]
            lo = [at[i] * stride[i] - pads[i] for i in range(n)]
            spans = [range(max(lo[i], 0), min(lo[i] + kernel[i], shape[2 + i])) for i in range(n)]
            for row in itertools.product(*spans[:-1]):
                for last in spans[-1]:
                    place = (*row, last)
                    if not keep[place] and (n == 1 or any(place)):
                        break
                    y[(b, ch, *at)] = max(y[(b, ch, *at)], x[(b, ch, *place)])
        yield Case("MaxpoolWithMask", "", [x, mask], domain=MS, kernel_shape=kernel, strides=stride, pads=pads), [y]


def moving_pads():
    for (shape, weights, group, stride, dilation, pads, extra), biased in itertools.product(
            (((1, 3, 5), (3, 4, 3), 1, [2], [1], [1, 0], [1]), ((2, 4, 5, 6), (4, 3, 3, 2), 1, [2, 1], [1, 2], [1, 0, 1, 2], [0, 0]),
             ((1, 6, 4, 4), (6, 2, 4, 4), 2, [2, 2], [1, 1], [1, 1, 1, 1], [0, 0]), ((1, 2, 3, 4), (2, 5, 2, 2), 1, [2, 2], [1, 1], None, [0, 1]),
             ((1, 8, 7, 9), (8, 8, 3, 3), 1, [1, 1], [1, 1], [2, 0, 0, 1], [0, 0])), (0, 1)):
        x, w, b = f(*shape), f(*weights), f(weights[1] * group)
        n, icg = len(stride), weights[0] // group
        p = pads or [0] * (2 * n)
        full = [(shape[2 + i] - 1) * stride[i] + (weights[2 + i] - 1) * dilation[i] + 1 + extra[i] for i in range(n)]
        y = np.zeros((shape[0], weights[1] * group, *full))
        for ch, *at in np.ndindex(shape[1], *shape[2:]):
            g = ch // icg
            for tap in np.ndindex(*weights[2:]):
                place = tuple(at[i] * stride[i] + tap[i] * dilation[i] for i in range(n))
                value = x[(slice(None), ch, *at)].astype(float)
                y[(slice(None), slice(g * weights[1], (g + 1) * weights[1]), *place)] += value[:, None] * w[(ch, slice(None), *tap)]
        y = y[(..., *[slice(p[i], full[i] - p[n + i]) for i in range(n)])] + (b.reshape(-1, *[1] * n) if biased else 0)
        for wrap in (c, lambda v: v):
            inputs = [x, c(w), None if pads is None else wrap(np.array(pads, np.int64)), c(b)]
            yield Case("ConvTransposeWithDynamicPads", "", inputs if biased else inputs[:2 if pads is None else 3], domain=MS, strides=stride,
                       dilations=dilation, group=group, output_padding=extra, kernel_shape=list(weights[2:])), [y]


def word_conv():
    for words, length, size, filters, width in ((5, 8, 3, 4, 2), (1, 1, 5, 7, 1), (40, 12, 16, 50, 5), (9, 4, 8, 33, 4)):
        table, w, b = f(30, size), f(filters, 1, width, size), f(filters)
        chars = np.zeros((words, length), np.int32)
        for i in range(words):
            n = RNG.integers(0, length + 1)
            chars[i, :n] = RNG.integers(1, 30, n)
        y = np.zeros((words, filters))
        for i, word in enumerate(chars):
            n = int((word > 0).sum()) if word[0] > 0 else 0
            if n:
                v = table[word[:max(n, width)]].astype(float)
                y[i] = np.tanh(np.max([np.einsum("fks,ks->f", w[:, 0], v[k:k + width]) + b for k in range(len(v) - width + 1)], 0))
        for wrap in (c, lambda v: v):
            yield Case("WordConvEmbedding", "", [chars, wrap(w), wrap(b), wrap(table)], domain=MS), [y]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def decoder():
    """One new token; caches with room for more, beams that took over each other's tokens."""
    for (batch, beams, heads, width, room, past), packed, biased, masked, added, scale in itertools.product(
            ((1, 1, 2, 8, 7, 3), (2, 1, 3, 16, 9, 8), (2, 3, 2, 5, 12, 6), (1, 4, 1, 20, 5, 0)), (0, 1), (0, 1), (0, 1), (0, 1), (0., .3)):
        n, hidden, total = batch * beams, heads * width, past + 1
        rows = f(n, 3, hidden)
        bias = f(3 * hidden) if biased else None
        cache = [f(n, heads, room, width) for _ in range(2)]
        q, k, v = ((rows[:, i] + (bias[i * hidden:(i + 1) * hidden] if biased else 0)).reshape(n, heads, width).astype(float) for i in range(3))
        came = RNG.integers(0, beams, (batch, beams, room)).astype(np.int32)
        present = [x.copy() for x in cache]
        seen = []
        for x, new, keep in zip(cache, (k, v), present):
            keep[:, :, past] = new
            mine = np.zeros((n, heads, total, width))
            for r in range(n):
                for t in range(past):
                    mine[r, :, t] = x[r // beams * beams + came[r // beams, r % beams, t], :, t]
            mine[:, :, past] = new
            seen.append(mine)
        keep = (RNG.random((n, total)) < .7).astype(np.int32) if masked else None
        add = f(*((n, heads, 1, total) if added and past % 2 else (1, heads, 1, total))) if added else None
        scores = np.einsum("bhd,bhtd->bht", q, seen[0]) * (scale or 1 / np.sqrt(width))
        if masked:
            scores = scores + np.where(keep > 0, 0, -10000.)[:, None]
        if added:
            scores = scores + add[:, :, 0]
        y = np.einsum("bht,bhtd->bhd", softmax(scores), seen[1]).reshape(n, 1, hidden)
        inputs = [rows.reshape(n, 1, -1), None, None] if packed else [np.ascontiguousarray(rows[:, i:i + 1]) for i in range(3)]
        inputs += [keep, add, *cache, np.array([past], np.int32), np.array([beams], np.int32) if beams > 1 else None, came if beams > 1 else None, bias]
        while inputs[-1] is None:
            inputs.pop()
        common = dict(domain=MS, num_heads=heads, past_present_share_buffer=1, **({"scale": scale} if scale else {}))
        yield Case("DecoderMaskedMultiHeadAttention", "", inputs, outputs=3, **common), [y, *present]
        if masked == added:
            yield Case("DecoderMaskedMultiHeadAttention", "", inputs, outputs=4, output_qk=1, **common), [y, *present, scores[:, :, None]]
        if beams == 1:  # a cache that grows
            inputs = inputs[:5] + [x[:, :, :past] for x in cache] + [None, None, None, bias]
            while inputs[-1] is None:
                inputs.pop()
            common["past_present_share_buffer"] = 0
            yield Case("DecoderMaskedMultiHeadAttention", "", inputs, outputs=3, **common), [y, *[x[:, :, :total] for x in present]]
    for (n, heads, width, keys), masked in itertools.product(((1, 2, 8, 5), (3, 4, 16, 50), (2, 1, 33, 1500)), (0, 1)):
        q, k, v = f(n, 1, heads * width), f(n, heads, keys, width), f(n, heads, keys, width)
        keep = (RNG.random((n, keys)) < .7).astype(np.int32)
        scores = np.einsum("bhd,bhtd->bht", q.reshape(n, heads, width).astype(float), k) / np.sqrt(width)
        scores = scores + (np.where(keep > 0, 0, -10000.)[:, None] if masked else 0)
        y = np.einsum("bht,bhtd->bhd", softmax(scores), v).reshape(n, 1, -1)
        yield Case("DecoderMaskedMultiHeadAttention", "", [q, k, v] + ([keep] if masked else []), domain=MS, num_heads=heads), [y]


def turned(x, cos, sin, positions, mixed):
    """Rows [batch, heads, rows, width] turned by what belongs to their positions [batch, rows]."""
    half, x = cos.shape[1], x.astype(float)
    cos, sin, out = cos[positions][:, None], sin[positions][:, None], x.copy()
    a, b = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if mixed else (slice(0, half), slice(half, 2 * half))
    out[..., a] = x[..., a] * cos - x[..., b] * sin
    out[..., b] = x[..., b] * cos + x[..., a] * sin
    return out


def sparse():
    """Blocks that are seen: the own one, those next to it, and some others, by layout."""
    for (batch, heads, kv, width, block, blocks, rows, lengths), layouts, packed, turn in itertools.product(
            ((1, 2, 2, 8, 4, 4, 13, (13,)), (2, 4, 2, 16, 16, 3, 40, (40, 40)), (2, 4, 2, 16, 16, 4, 1, (37, 64)), (1, 4, 1, 32, 64, 4, 200, (200,)),
             (2, 4, 4, 16, 8, 6, 3, (20, 41)), (2, 2, 1, 16, 16, 8, 20, (33, 128)), (1, 2, 1, 16, 128, 3, 300, (300,))), (1, 2), (0, 1), (0, 1, 2)):
        if turn and width % 16:
            continue
        room, longest = blocks * block, max(lengths)
        kept = np.tril(RNG.random((layouts, blocks, blocks)) < .4) | np.eye(blocks, dtype=bool)
        kept |= np.tril(np.triu(np.ones((blocks, blocks), bool), -1))
        kept[-1, :, 1] &= np.eye(blocks, dtype=bool)[1]
        table = [np.concatenate([[0], np.cumsum(layer.sum(1))]) for layer in kept]
        columns = [np.nonzero(layer)[1] for layer in kept]
        most = max(map(len, columns))
        columns = np.array([np.pad(x, (0, most - len(x)), constant_values=-1) for x in columns], np.int32)
        new = [f(batch, rows, h * width) for h in (heads, kv, kv)]
        cache = [f(batch, kv, room, width) for _ in range(2)]
        cos, sin = RNG.uniform(-1, 1, (2, room, 8)).astype(np.float32)
        past = np.array([0 if longest == rows else n - rows for n in lengths])
        q, k, v = (x.reshape(batch, rows, -1, width).transpose(0, 2, 1, 3) for x in new)
        if turn:
            at = past[:, None] + np.arange(rows)
            q, k = (turned(x, cos, sin, at, turn == 2) for x in (q, k))
        y, present = np.zeros((batch, rows, heads, width)), [x.copy() for x in cache]
        for b in range(batch):
            for x, values in zip(present, (k, v)):
                x[b, :, past[b]:past[b] + rows] = values[b]
                x[b, :, past[b] + rows:] = 0  # nothing is there yet
            for h, i in np.ndindex(heads, rows):
                p = past[b] + i
                sees = [t for t in range(p + 1) if kept[h % layouts, p // block, t // block]]
                scores = present[0][b, h // (heads // kv), sees].astype(float) @ q[b, h, i] / np.sqrt(width)
                y[b, i, h] = softmax(scores) @ present[1][b, h // (heads // kv), sees]
        inputs = [np.concatenate(new, -1), None, None] if packed else new
        inputs = [*inputs, *cache, c(np.array(table, np.int32)), c(columns), np.array([longest], np.int32), np.array(lengths, np.int32)]
        yield Case("SparseAttention", "", inputs + ([cos, sin] if turn else []), domain=MS, outputs=3, num_heads=heads, kv_num_heads=kv,
                   sparse_block_size=block, do_rotary=int(turn > 0), rotary_interleaved=int(turn == 2)), [y.reshape(batch, rows, -1), *present]


def gated():
    for shape in ((3, 8), (2, 5, 64), (7,), (1, 4, 3, 33)):
        x, y, gate = f(*shape), f(*shape), f(*shape[:-1], 1)
        yield Case("GatedAdd", "", [x, y, gate], domain=MS), [x + y.astype(float) * gate]
    for (shape, n), (name, act) in itertools.product((((3, 8), 8), ((2, 5, 64), 16), ((2, 3, 4, 33), 11), ((1, 1, 4096), 128)), (
            ("silu", lambda z: z / (1 + np.exp(-z))), ("swish", lambda z: z / (1 + np.exp(-z))), ("sigmoid", lambda z: 1 / (1 + np.exp(-z))), (None, None))):
        x, scale, gate = f(*shape), f(n), f(*shape)
        rows = x.reshape(-1, n).astype(float)
        eps = 1e-5 if name is None else .01
        y = (rows / np.sqrt((rows ** 2).mean(1, keepdims=True) + eps) * scale).reshape(shape)
        z = gate.astype(float)
        extra = {} if name is None else {"activation": name, "epsilon": .01}
        yield Case("GatedRMSNorm", "", [x, c(scale), gate], domain=MS, **extra), [y * (act(z) if act else z / (1 + np.exp(-z)))]
    for shape, both in itertools.product(((5,), (2, 9, 16), (1, 40, 3)), (0, 1)):
        a, bias, scale, b = f(*shape, scale=4.), f(shape[-1]), -np.abs(f(shape[-1])), f(*shape)
        decay = scale * np.logaddexp(0, a.astype(float) + bias)
        beta = [1 / (1 + np.exp(-b.astype(float)))] if both else []
        yield Case("LinearAttentionGate", "", [a, c(bias), c(scale)] + ([b] if both else []), domain=MS, outputs=1 + both), [decay, *beta]


def streams():
    """Angles by three positions: which of them, the sections say."""
    for (batch, rows, heads, width, part, sections), layout, mixed, apart, scale in itertools.product(
            ((1, 1, 1, 8, 0, (2, 1, 1)), (2, 5, 3, 16, 0, (2, 3, 3)), (1, 9, 2, 20, 12, (0, 4, 2)), (2, 4, 4, 128, 0, (24, 20, 20))), (0, 1), (0, 1), (0, 1), (1., .5)):
        half = (part or width) // 2
        of = np.repeat([0, 1, 2], sections)
        if layout:
            of = np.zeros(half, int)
            for k in (1, 2):
                of[k:3 * sections[k]:3] = k
        x, cos, sin = f(batch, heads, rows, width), f(50, half), f(50, half)
        at = RNG.integers(0, 50, (3, batch, rows))
        angles = [np.moveaxis(table[at], 0, -1)[..., np.arange(half), of] * scale for table in (cos, sin)]  # [batch, rows, half]
        y = turned(x, *(v.reshape(-1, half) for v in angles), np.arange(batch * rows).reshape(batch, rows), mixed)
        given = [x, y] if apart else [v.transpose(0, 2, 1, 3).reshape(batch, rows, -1) for v in (x, y)]
        extra = {"rotary_embedding_dim": part} if part else {}
        yield Case("MRotaryEmbedding", "", [np.ascontiguousarray(given[0]), at, c(cos), c(sin)], domain=MS, num_heads=heads, mrope_section=list(sections),
                   mrope_layout=layout, interleaved=mixed, scale=scale, **extra), [given[1]]


def causal():
    """CausalConvWithState as com.microsoft's may be: taps apart, channels last, a state for each of the last places."""
    for (batch, length, channels, taps), apart, last, window, carried, act in itertools.product(
            ((1, 1, (5,), 4), (2, 9, (6,), 3), (1, 3, (4, 7), 2), (2, 5, (40,), 1)), (1, 3), (0, 1), (0, 1, 4), (0, 1), ("none", "silu")):
        if len(channels) > 1 and not last:
            continue
        wide, before = int(np.prod(channels)), (taps - 1) * apart
        x, w, b = f(batch, length, wide), f(wide, 1, taps), f(wide)
        old = f(max(window, 1), batch, before, wide)
        line = np.concatenate([old[-1] if carried else np.zeros_like(old[-1]), x], 1)
        y = sum(line[:, k * apart:k * apart + length].astype(float) * w[:, 0, k] for k in range(taps)) + b
        y = y / (1 + np.exp(-y)) if act == "silu" else y
        ends = [length - (max(window, 1) - 1 - s) for s in range(max(window, 1))]
        states = np.stack([line[:, e:e + before] if e > 0 else np.zeros_like(old[-1]) for e in ends])

        def place(v):
            if last:
                return v.reshape(*v.shape[:-1], *channels)  # noqa: B023
            return np.ascontiguousarray(np.swapaxes(v, -1, -2))
        one = (lambda v: v) if window else (lambda v: v[0])
        inputs = [place(x), c(w), c(b)] + ([place(one(old))] if carried else [])
        yield Case("CausalConvWithState", "", inputs, domain=MS, outputs=2, activation=act, dilation=apart, channels_last=last, state_window=window), [
            place(y), place(one(states))]


def hashes():
    for (batch, length, most, heads), kind, carried, stops in itertools.product(((1, 1, 2, 1), (2, 9, 3, 4), (3, 2, 5, 2), (1, 30, 4, 3)), (np.int32, np.int64), (0, 1),
                                                                         (0, 1)):
        bits = np.dtype(kind).itemsize * 8
        tokens, past = RNG.integers(0, 9, (batch, length)).astype(kind), RNG.integers(0, 9, (batch, most - 1)).astype(kind)
        factors = RNG.integers(1, 2 ** (bits - 2), most).astype(kind)
        sizes = RNG.integers(1, 1000, (most - 1) * heads).astype(kind)
        line = [([int(v) for v in past[b]] if carried else [7] * (most - 1)) + [int(v) for v in tokens[b]] for b in range(batch)]
        y = np.zeros((batch, length, len(sizes)), kind)
        for b, t, n in np.ndindex(batch, length, most - 1):
            mixed, stopped = 0, False
            for k in range(n + 2):
                token = line[b][most - 1 + t - k]
                stopped = stopped or bool(k and stops and token == 3)
                mixed ^= ((7 if stopped else token) * int(factors[k])) % 2 ** bits
            mixed -= 2 ** bits if mixed >= 2 ** (bits - 1) else 0
            for h in range(n * heads, (n + 1) * heads):
                y[b, t, h] = mixed % int(sizes[h])
        extra = {"eos_token_id": 3} if stops else {}
        yield Case("NGramHashMapping", "", [tokens, c(factors), c(sizes)] + ([past] if carried else []), domain=MS, outputs=2, max_ngram_size=most,
                   n_head_per_ngram=heads, pad_id=7, **extra), [y, np.array([x[-(most - 1):] for x in line], kind)]


def groups():
    """GroupQueryAttention that looks ahead, and whose rows are normalized before they are turned."""
    for (batch, heads, kv, width, rows, past, room), causal, normed, turn in itertools.product(
            ((1, 4, 2, 8, 5, 0, 0), (2, 4, 4, 16, 3, 6, 12), (2, 6, 2, 16, 1, 9, 9), (1, 2, 1, 32, 40, 0, 0)), (0, 1), (0, 1), (0, 1)):
        new = [f(batch, rows, h * width) for h in (heads, kv, kv)]
        cache = [f(batch, kv, room, width) for _ in range(2)] if room else [None, None]
        gains, cos, sin = [f(width), f(width)], f(64, width // 2), f(64, width // 2)
        q, k, v = (x.reshape(batch, rows, -1, width).transpose(0, 2, 1, 3).astype(float) for x in new)
        if normed:
            q, k = (x / np.sqrt((x ** 2).mean(-1, keepdims=True) + .01) * g for x, g in zip((q, k), gains))
        if turn:
            at = np.broadcast_to(past + np.arange(rows), (batch, rows))
            q, k = (turned(x, cos, sin, at, False) for x in (q, k))
        allk, allv = (np.concatenate([o[:, :, :past], x], 2) if room else x for o, x in zip(cache, (k, v)))
        scores = np.einsum("bhid,bhjd->bhij", q, np.repeat(allk, heads // kv, 1)) / np.sqrt(width)
        if causal:
            scores = np.where(np.arange(past + rows) > past + np.arange(rows)[:, None], -np.inf, scores)
        y = np.einsum("bhij,bhjd->bihd", softmax(scores), np.repeat(allv, heads // kv, 1)).reshape(batch, rows, -1)
        lengths = [np.full(batch, past + rows - 1, np.int32), c(np.array(past + rows, np.int32))]
        inputs = [*new, *cache, *lengths] + ([cos, sin] if turn else [None, None]) + [None] * 5 + (gains if normed else [])
        while inputs[-1] is None:
            inputs.pop()
        common = dict(domain=MS, num_heads=heads, kv_num_heads=kv, do_rotary=turn, causal=causal, **({"qk_norm_epsilon": .01} if normed else {}))
        present = [allk, allv] if room <= past + rows else [None, None]
        yield Case("GroupQueryAttention", "", inputs, outputs=3, **common), [y, *present]
        for mode, want in ((1, np.where(np.isneginf(scores), 0, scores)), (2, softmax(scores))):
            yield Case("GroupQueryAttention", "", inputs, outputs=4, qk_output=mode, **common), [y, *present, want]


def whole_heads():
    """MultiHeadAttention that gives its scores, masked, too."""
    for (batch, heads, width, rows, keys), biased, masked, added, causal in itertools.product(
            ((1, 2, 8, 3, 3), (2, 4, 5, 1, 7), (2, 1, 16, 40, 40), (1, 3, 12, 5, 9)), (0, 1), (0, 1), (0, 1), (0, 1)):
        if causal and rows != keys:
            continue
        q, k, v = (f(batch, n, heads * width) for n in (rows, keys, keys))
        bias = f(3 * heads * width)
        keep, add = (RNG.random((batch, keys)) < .7).astype(np.int32), f(1, heads, rows, keys)
        keep[:, 0] = 1
        one, two, three = ((x + (bias[i * heads * width:(i + 1) * heads * width] if biased else 0)).reshape(batch, -1, heads, width).astype(float)
                           for i, x in enumerate((q, k, v)))
        scores = np.einsum("bihd,bjhd->bhij", one, two) / np.sqrt(width)
        scores = scores + (np.where(keep > 0, 0, -10000.)[:, None, None] if masked else 0) + (add if added else 0)
        if causal:
            scores = np.where(np.arange(keys) > np.arange(rows)[:, None], np.finfo(np.float32).min, scores)
        y = np.einsum("bhij,bjhd->bihd", softmax(scores), three).reshape(batch, rows, -1)
        inputs = [q, k, v, bias if biased else None, keep if masked else None, add if added else None]
        while inputs[-1] is None:
            inputs.pop()
        yield Case("MultiHeadAttention", "", inputs, domain=MS, outputs=4, num_heads=heads, unidirectional=causal), [y, None, None, scores]


FAMILIES = {gated: 17, streams: 17, causal: 17, hashes: 17, groups: 17, whole_heads: 17, tokens: 17, integer16: 17, bifurcation: 17, masked_pool: 17, moving_pads: 17, word_conv: 17, decoder: 17, sparse: 17}
